"""Functions of 16-bit floats, over all their numbers: near the nearest one, and alike on a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cellc_compiler.backends.llvm.math.halves import SHORT
from cellc_compiler.driver import compile_graph
from cellc_compiler.ir.text import parse_graph
from cellc_runtime.cuda.emulated import EmulatedDevice
from cellc_runtime.target import host_targets

from ..cuda.emulation import run_on
from ..modes.law import bits

Array = np.ndarray[Any, Any]

FORMATS: dict[str, tuple[Any, int, int]] = {
    "float16": (np.float16, 10, -14), "bfloat16": (ml_dtypes.bfloat16, 7, -126)}
"""Type, bits behind the point, least exponent of a normal number."""


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1.0 + e)


REFERENCE: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp, "tanh": np.tanh, "sigmoid": _sigmoid, "erf": np.vectorize(math.erf)}
WORST = {"exp": 0.51, "tanh": 0.53, "sigmoid": 0.51, "erf": 0.52}
"""Units in the last place; half a one is what rounding leaves."""


def every(dtype: str) -> Array:
    """All numbers of a type."""
    found: Array = np.arange(1 << 16, dtype=np.uint16).view(FORMATS[dtype][0])
    return found


def graph(name: str, dtype: str, attrs: str = "") -> Any:
    """One op on all numbers of a type."""
    return parse_graph(f"graph one(%x: {dtype}[65536] input) {{\n"
                       f"  %0: {dtype}[65536] = {name}(%x) {{{attrs}}}\n  return %0\n}}")


def check(got: Array, want: Array, dtype: str, worst: float) -> None:
    """Near numbers of float64, in ulps; NaN stays NaN, signs of zeros stay, and what is too large
    is infinite."""
    kind, digits, least = FORMATS[dtype]
    with np.errstate(all="ignore"):
        nearest = want.astype(kind)
    assert (np.isnan(got) == np.isnan(want)).all()
    assert (np.isinf(got) == np.isinf(nearest)).all()
    usual = np.isfinite(nearest)
    assert (np.signbit(got) == np.signbit(nearest))[usual].all()
    exponents = np.maximum(np.frexp(want[usual])[1] - 1, least)
    error = np.abs(got[usual].astype(np.float64) - want[usual]) / 2.0 ** (exponents - digits)
    assert error.max() <= worst


def test_all_are_there() -> None:
    assert set(SHORT) == set(REFERENCE)


@pytest.mark.parametrize("target", host_targets(), ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", SHORT)
def test_every_number(name: str, dtype: str, target: Any) -> None:
    """Against float64."""
    x = every(dtype)
    with np.errstate(all="ignore"):
        (got,) = compile_graph(graph(name, dtype), target)([x])
        want = REFERENCE[name](x.astype(np.float64))
    check(got, want, dtype, WORST[name])


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", SHORT)
def test_on_a_gpu(name: str, dtype: str) -> None:
    """The same bits."""
    x = every(dtype)
    (want,) = compile_graph(graph(name, dtype), host_targets()[-1])([x])
    (got,) = run_on(EmulatedDevice(), graph(name, dtype), [x])
    assert bits(got) == bits(want)
