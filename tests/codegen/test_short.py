"""Compositions of 16-bit floats, over all their numbers: within 0.6 ulp, and alike on a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import ops
from cellc_compiler.backends.llvm.math.short import SHORT
from cellc_compiler.driver import compile_graph
from cellc_compiler.ir.op import all_ops
from cellc_compiler.ir.text import parse_graph
from cellc_runtime.cuda.emulated import EmulatedDevice
from cellc_runtime.target import host_targets

from ..cuda.emulation import run_on
from ..modes.law import bits
from .test_halves import FORMATS, check, every, graph

Array = np.ndarray[Any, Any]

WORST = 0.6
"""Units in the last place; half a one is what rounding leaves."""


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1.0 + e)


def _mish(x: Array) -> Array:
    e = np.exp(np.minimum(x, 40.0))
    n = e * (e + 2)
    return x * (n / (n + 2))


def _softplus(x: Array) -> Array:
    return np.logaddexp(0.0, x)


_ERFC = np.vectorize(math.erfc)
CASES: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "gelu": ('approximate="none"', lambda x: x * 0.5 * _ERFC(-x / math.sqrt(2))),
    "gelu, tanh": ('approximate="tanh"', lambda x: x * _sigmoid(
        2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": ("", lambda x: x * _sigmoid(x)),
    "quick_gelu": ("", lambda x: x * _sigmoid(1.702 * x)),
    "mish": ("", _mish),
    "softplus": ("beta=1.0, threshold=20.0", _softplus),
    "softplus, steep": ("beta=3.0, threshold=20.0", lambda x: _softplus(3 * x) / 3),
    "log_sigmoid": ("", lambda x: -_softplus(-x)),
    "hard_sigmoid": ("", lambda x: np.clip(x + 3, 0, 6) / 6),
    "hard_swish": ("", lambda x: np.where(x >= 3, x, np.where(x <= -3, 0.0, x * (x + 3) / 6))),
}


def _graph(case: str, dtype: str) -> Any:
    return graph(case.split(",")[0], dtype, CASES[case][0])


def test_each_is_an_op() -> None:
    named = {op.name for op in all_ops() if op.name.startswith("short_")}
    assert set(SHORT) == {f"{name}_{dtype}" for name in named for dtype in FORMATS}


@pytest.mark.parametrize("target", host_targets(), ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_every_number(case: str, dtype: str, target: Any) -> None:
    """Against float64."""
    x = every(dtype)
    with np.errstate(all="ignore"):
        (got,) = compile_graph(_graph(case, dtype), target)([x])
        want = CASES[case][1](x.astype(np.float64))
    check(got, want, dtype, WORST)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_on_a_gpu(case: str, dtype: str) -> None:
    """The same bits."""
    x = every(dtype)
    (want,) = compile_graph(_graph(case, dtype), host_targets()[-1])([x])
    (got,) = run_on(EmulatedDevice(), _graph(case, dtype), [x])
    assert bits(got) == bits(want)


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16], ids=lambda t: str(t))
@pytest.mark.parametrize("function", [
    ops.silu, ops.mish, ops.sigmoid, ops.tanh, lambda x: ops.gelu(x, approximate="none")],
    ids=["silu", "mish", "sigmoid", "tanh", "gelu"])
def test_second_derivatives_vanish_at_the_ends(function: Any, dtype: Any) -> None:
    """What is left of a slope is not multiplied by numbers without end."""
    ends = np.array([100, 3e4, 1e20, 3e38, np.inf])
    x = ms.Tensor(np.concatenate([ends, -ends])).astype(dtype)
    second = ms.grad(lambda x: ms.grad(function)(x))(x).astype(ms.float32).asnumpy()
    assert np.abs(second).max() < 2.0**-76


@pytest.mark.parametrize("columns", [5, 300, 70_000])
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_rows(name: str, dtype: str, columns: int) -> None:
    """Also long ones, in which what is masked must not add up, and rows of NaN."""
    kind = FORMATS[dtype][0]
    x = np.random.default_rng(0).uniform(-12, 12, (4, columns)).astype(kind)
    x[1, 2:] = -np.inf
    x[2, 1] = np.nan
    text = (f"graph rows(%x: {dtype}[4,{columns}] input) {{\n"
            f"  %0: {dtype}[4,{columns}] = {name}(%x) {{axis=1}}\n  return %0\n}}")
    (got,) = compile_graph(parse_graph(text), host_targets()[-1])([x])
    wide = x.astype(np.float64)
    low = wide - wide.max(1, keepdims=True)
    total = np.exp(low).sum(1, keepdims=True)
    want = np.exp(low) / total if name == "softmax" else low - np.log(total)
    check(got, want, dtype, WORST)
    (there,) = run_on(EmulatedDevice(), parse_graph(text), [x])
    assert bits(there) == bits(got)
