"""Functions of 16-bit floats leave memory the slowest part of a GPU."""

from __future__ import annotations

import re

import pytest

from cellc_compiler import driver
from cellc_compiler.backends.llvm.math.halves import SHORT
from cellc_compiler.build import objects, ptxas
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.op import lookup
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.ir.types import TensorType
from cellc_compiler.lower.instructions import Call, walk
from cellc_runtime.dtypes import bfloat16, float16
from cellc_runtime.target import CUDA

TARGET = CUDA["cuda-sm_90a"]
ELEMENTS = 1 << 19
DTYPES = {"float16": float16, "bfloat16": bfloat16}
BUDGET = 28
"""Instructions of an element that is read and written in the time that memory takes."""


pytestmark = pytest.mark.skipif(ptxas.find() is None, reason="no ptxas")
ATTRS = {"gelu": 'approximate="none"', "gelu, tanh": 'approximate="tanh"', "silu": "",
         "quick_gelu": "", "mish": "", "softplus": "beta=1.0, threshold=20.0", "log_sigmoid": "",
         "hard_sigmoid": "", "hard_swish": "", **dict.fromkeys(SHORT, "")}
ROWS, COLUMNS = 1024, 1024
KNOWN = {"gelu": {"approximate": "none"}, "gelu, tanh": {"approximate": "tanh"}, "silu": {},
         "quick_gelu": {}, "mish": {}, "softplus": {}, "log_sigmoid": {}, "sigmoid": {}, "tanh": {},
         "softmax": {"axis": 1}, "log_softmax": {"axis": 1}}


def spent(graph: Graph) -> float:
    """Instructions for each element of the largest value, of the only kernel of a graph: it has no
    loop, so that those that are there run once."""
    size = max(v.type.size for v in graph.inputs)
    lowered = driver.lower(driver.optimize(graph, target=TARGET), TARGET)
    (code,) = [i.kernel.code for i in walk(lowered.instructions) if isinstance(i, Call)]
    (ptx,) = objects.compile_texts([code.text], TARGET)
    text = ptx.decode()
    labels = {m[1]: m.start() for m in re.finditer(r"^(\$\w+):", text, re.MULTILINE)}
    assert all(labels[m[1]] > m.start() for m in re.finditer(r"bra(?:\.uni)?\s+(\$\w+)", text))
    cubin = ptxas.assemble(text, TARGET.cpu)
    assert not cubin.spill_bytes
    return cubin.instructions * code.blocks * code.threads / size


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", ATTRS)
def test_functions(case: str, dtype: str) -> None:
    """A thread does eight elements."""
    name = case.split(",")[0]
    assert spent(parse_graph(
        f"graph one(%x: {dtype}[{ELEMENTS}] input) {{\n"
        f"  %0: {dtype}[{ELEMENTS}] = {name}(%x) {{{ATTRS[case]}}}\n  return %0\n}}")) <= BUDGET


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "rms_norm"])
def test_rows(name: str, dtype: str) -> None:
    """A warp does a row, which stays in registers."""
    graph = Graph(name)
    x = graph.add_input(TensorType((ROWS, COLUMNS), DTYPES[dtype]), "x")
    count = {"layer_norm": 2, "rms_norm": 1}.get(name, 0)
    rows = [graph.add_input(TensorType((COLUMNS,), DTYPES[dtype]), f"row{i}") for i in range(count)]
    node = Builder(graph).node(name, [x, *rows], {} if rows else {"axis": 1})
    graph.outputs = [node.results[0]]
    assert spent(graph) <= BUDGET


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", KNOWN)
def test_gradients(case: str, dtype: str) -> None:
    """Two operands are read, so there is time for half as many instructions again."""
    name = case.split(",")[0]
    graph, alone = Graph(case), Graph(name)
    shape = (ROWS, COLUMNS) if "axis" in KNOWN[case] else (ELEMENTS,)
    kept, dy = (graph.add_input(TensorType(shape, DTYPES[dtype]), n) for n in ("kept", "dy"))
    node = Builder(alone).node(name, [alone.add_input(kept.type, "x")], KNOWN[case])
    # Of what the gradient reads of the node, operand or result, a step keeps one.
    node.operands, node.results = [kept], (kept,)
    graph.outputs = list(lookup(name).gradient(Builder(graph), node, [dy]))
    assert spent(graph) <= 1.5 * BUDGET
