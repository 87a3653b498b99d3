"""Masked stores touch the lanes of their mask and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from cellc_compiler.backends.llvm.text import Function, module, vector
from cellc_compiler.build.abi import PLACEHOLDER
from cellc_runtime.target import Target, host_targets

from .jit import compile_text


@pytest.mark.parametrize("target", host_targets(), ids=lambda t: t.name)
@pytest.mark.parametrize("element", ["i8", "i16"])
@pytest.mark.parametrize("count", [0, 1, 2, 5, 8])
def test_truncated_vector(target: Target, element: str, count: int) -> None:
    """Where LLVM 22 stored 4 bytes for one lane of 1 or 2."""
    f = Function(PLACEHOLDER, [("ptr", "bufs"), ("i64", "lo"), ("i64", "hi")], target)
    source, out = (f.load("ptr", f.gep(f.arg("bufs"), i, "ptr")) for i in range(2))
    value = f.cast("trunc", f.load(vector("i32", 8), source), element)
    f.masked_store(value, out, f.tail_mask(f.i64(count), 8))
    f.ret_()
    x = np.arange(1, 9, dtype=np.int32)
    y = np.full(16, 77, np.dtype(f"int{element[1:]}"))
    compile_text(module([f]), target=target)([x, y], 0, 1)
    np.testing.assert_array_equal(y, [*x[:count], *[77] * (16 - count)])
