"""Functions of 16-bit floats leave memory the slowest part of a GPU."""

from __future__ import annotations

import pytest

from cellc_compiler import driver
from cellc_compiler.backends.llvm.math.halves import SHORT
from cellc_compiler.build import objects, ptxas
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.lower.instructions import Call, walk
from cellc_runtime.target import CUDA

TARGET = CUDA["cuda-sm_90a"]
ELEMENTS = 1 << 19
BUDGET = 28
"""Instructions of an element that is read and written in the time that memory takes."""


@pytest.mark.skipif(ptxas.find() is None, reason="no ptxas")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", SHORT)
def test_instructions_of_an_element(name: str, dtype: str) -> None:
    """Those of the whole kernel, whose threads do eight elements each, without a loop."""
    graph = parse_graph(f"graph one(%x: {dtype}[{ELEMENTS}] input) {{\n"
                        f"  %0: {dtype}[{ELEMENTS}] = {name}(%x) {{}}\n  return %0\n}}")
    lowered = driver.lower(driver.optimize(graph, target=TARGET), TARGET)
    (code,) = [i.kernel.code for i in walk(lowered.instructions) if isinstance(i, Call)]
    (ptx,) = objects.compile_texts([code.text], TARGET)
    cubin = ptxas.assemble(ptx.decode(), TARGET.cpu)
    assert not cubin.spill_bytes
    assert cubin.instructions <= BUDGET * ELEMENTS / (code.blocks * code.threads)
