"""Tensors made from numbers: filled, counted, spaced.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cellc_compiler.ir.dims import is_symbolic
from cellc_runtime.dtypes import DType, float32, float64, int32, int64

from ...core.declared import misuse
from ...core.dispatch import apply, apply_one
from ...core.native import native, native_of_types
from ...tensors.promotion import cast_to, common, constant, is_scalar
from ...tensors.tensor import Tensor, copy_of, tensor_of
from ...tracing.numbers import GraphNumber, kind_of, stacked
from ..arguments import (
    Ints,
    dtype_of,
    finite,
    flag,
    integer,
    is_int,
    need_known,
    number,
    plain_size,
    sequence,
    shape_of,
    size,
    tensor,
)
from . import arith


def _fill(shape: Ints, value: Any, dtype: DType) -> Tensor:
    cell = constant(value, dtype)
    return apply_one("broadcast_to", cell, shape=shape) if shape else copy_of(cell)


@native
def zeros(size: Any, dtype: DType | None = None) -> Tensor:
    """A Tensor of zeros.

    Args:
        size: its shape: an int, a list or tuple of ints, or a Tensor of ints.
        dtype: the type of its elements, float32 if None.
    """
    return _fill(shape_of(size, "zeros", "size"), 0, dtype_of(dtype or float32, "zeros"))


@native
def ones(shape: Any, dtype: DType | None = None) -> Tensor:
    """A tensor of ones of a shape, an int or a tuple of ints; float32 if `dtype` is None."""
    return _fill(shape_of(shape, "ones"), 1, dtype_of(dtype or float32, "ones"))


@native
def full(size: Any, fill_value: Any, *, dtype: DType | None = None) -> Tensor:
    """A tensor of the shape `size` filled with a number; int64 if `dtype` is None, as in
    MindSpore."""
    shape = shape_of(size, "full", "size")
    if not is_scalar(fill_value):
        raise misuse("full", "'fill_value' must be a number", repr(fill_value), TypeError)
    return _fill(shape, fill_value, dtype_of(dtype or int64, "full"))


@native
def fill(type: DType, shape: Any, value: Any) -> Tensor:
    """A tensor of the element type `type` and the shape `shape`, filled with the number `value`."""
    return _fill(shape_of(shape, "fill"), value, dtype_of(type, "fill", "type"))


def fills(x: Tensor, value: Any) -> Tensor:
    """A tensor of the shape and type of x, filled with `value`: a number, or a tensor of one
    element."""
    return full_like(x, value)


@native_of_types
def zeros_like(input: Tensor, *, dtype: DType | None = None) -> Tensor:
    """A tensor of zeros of the shape of `input`, and of its type unless `dtype` is given."""
    return full_like(input, 0, dtype=dtype)


@native_of_types
def ones_like(input: Tensor, *, dtype: DType | None = None) -> Tensor:
    """A tensor of ones of the shape of `input`, and of its type unless `dtype` is given."""
    return full_like(input, 1, dtype=dtype)


@native_of_types
def full_like(input: Tensor, fill_value: Any, *, dtype: DType | None = None) -> Tensor:
    """A tensor of the shape (and, unless given, type) of `input`, filled with a number."""
    x = tensor(input, "full_like")
    to = x.dtype if dtype is None else dtype_of(dtype, "full_like")
    if isinstance(fill_value, Tensor):
        cell = apply("reshape", cast_to(fill_value, to), shape=())
        return apply_one("broadcast_to", cell, shape=x.shape)
    return _fill(x.shape, fill_value, to)


def arange(start: Any = 0, end: Any = None, step: Any = 1, *, dtype: DType | None = None) -> Tensor:
    """start, start + step, ... before end; int64 for ints, float32 for floats.

    The step leads from start to end.
    """
    if end is None:
        start, end = 0, start
    if dtype is None and type(start) is type(end) is type(step) is int and step > 0 \
            and -(2**62) < start <= end < 2**62:
        return tensor_of(np.arange(start, end, step, dtype=np.int64))  # the usual case
    a, z, s = (_check_bound(v, "arange") for v in (start, end, step))
    if not builtins.all(is_symbolic(v) or abs(v) < 2**63 for v in (a, z, s)):  # nor a NaN
        raise misuse("arange", "'start', 'end' and 'step' must be finite and fit 64 bits",
                     f"{a}, {z} and {s}")
    if s == 0 or (z - a) * s < 0:
        raise misuse("arange", f"step {s} does not lead from start {a} to end {z}")
    whole = builtins.all(isinstance(v, int) for v in (a, z, s))
    to = dtype_of(dtype, "arange") if dtype is not None else int64 if whole else float32
    if is_symbolic(a) or is_symbolic(z):
        return _open_arange(a, z, s, to)
    count = size(max(0, math.ceil((z - a) / s)), "arange", "length of the result")
    steps: np.ndarray[Any, Any] = np.arange(count, dtype=np.int64 if whole else np.float64)
    values = a + s * steps
    return tensor_of(values.astype(to.numpy))


def _open_arange(a: Any, z: Any, s: Any, to: DType) -> Tensor:
    """`arange` of ints, its length worked out when sizes are known."""
    if not isinstance(s, int):
        return arange(float(a), float(z), s, dtype=to)
    steps = apply("iota", shape=(-((a - z) // s),), axis=0, dtype=int64)
    out = apply_one("add", apply("mul", steps, constant(s, int64)), constant(a, int64))
    return out if to is int64 else apply_one("cast", out, dtype=to)


def _check_bound(v: Any, what: str) -> int | float:
    if isinstance(v, Tensor) and (v.dtype.is_integer or v.dtype.is_float) and v.size == 1:
        v = need_known(v, what).item()
    x = number(v, what, "bound")
    return plain_size(x) if is_int(x) else float(x)


def range(start: Any, end: Any, step: Any = 1, maxlen: int = 1000000) -> Tensor:
    """start, start + step, ... before end, in the type of the bounds; at most `maxlen`."""
    found = [t.dtype for t in (start, end, step) if isinstance(t, Tensor)]
    out = arange(start, end, step, dtype=found[0] if found else None)
    if out.size > integer(maxlen, "range", "maxlen"):
        raise misuse("range", f"{out.size} elements exceed maxlen {maxlen}")
    return out


@native
def linspace(start: Any, end: Any, steps: int) -> Tensor:
    """`steps` evenly spaced numbers from start to end, both included, float32 for numbers."""
    n = size(steps, "linspace", "steps", 1)
    if isinstance(start, Tensor) or isinstance(end, Tensor):
        return _linspace_of(n, *common("linspace", start, end))
    a, z = number(start, "linspace", "start"), number(end, "linspace", "end")
    if any(map(is_symbolic, (a, z, n))) and n != 1:
        return cast_to(_open_grid(a * 1.0, z * 1.0, n), float32)
    return tensor_of(np.linspace(a, z, n).astype(np.float32))


def _open_grid(a: float, z: float, n: int) -> Tensor:
    """numpy's `linspace` of an open size, at least 2, in float64."""
    steps = apply_one("iota", shape=(n,), axis=0, dtype=int64)
    grid = cast_to(steps, float64) * ((z - a) / (n - 1)) + a
    return arith.where(steps == n - 1, z, grid)


def _linspace_of(n: int, start: Tensor, end: Tensor) -> Tensor:
    opened = is_symbolic(n) and n != 1
    ratio = cast_to(_open_grid(0.0, 1.0, n), start.dtype) if opened else \
        tensor_of(np.linspace(0.0, 1.0, n).astype(start.dtype.numpy))
    a: Tensor = apply("reshape", start, shape=(*start.shape, 1))
    z: Tensor = apply("reshape", end, shape=(*end.shape, 1))
    return a * (1.0 - ratio) + z * ratio


@native
def logspace(start: Any, end: Any, steps: int, base: int = 10, *, dtype: DType = float32) -> Tensor:
    """`steps` numbers base ** x for x evenly spaced from `start` to `end`, both included; base 10
    by default."""
    a, z, b = (float(finite(_check_bound(v, "logspace"), "logspace", name))
               for v, name in ((start, "start"), (end, "end"), (base, "base")))
    values = b ** np.linspace(a, z, size(steps, "logspace", "steps"))
    return tensor_of(values.astype(dtype_of(dtype, "logspace").numpy))


@native
def eye(n: int, m: int | None = None, dtype: DType | None = None) -> Tensor:
    """An n by m matrix with ones on the diagonal (square if m is None; float32 by default)."""
    rows = integer(n, "eye", "n")
    columns = rows if m is None else integer(m, "eye", "m")
    if rows < 0 or columns < 0:
        raise misuse("eye", "sizes must be non-negative", f"{rows} and {columns}")
    return apply_one("eye", n=rows, m=columns, dtype=dtype_of(dtype or float32, "eye"))


def scalar_to_tensor(input_x: Any, dtype: DType = float32) -> Tensor:
    """A Python number as a Tensor without axes, of `dtype`: float32 by default, also of ints and
    bools."""
    if not isinstance(input_x, (bool, int, float)):
        raise misuse("scalar_to_tensor", "'input_x' must be a number", repr(input_x), TypeError)
    return Tensor(input_x, dtype)


def tuple_to_array(input_x: Any) -> Tensor:
    """A 1-D tensor of the numbers of a tuple, list or range: int32 if the first is an int, else
    float32."""
    ranged = isinstance(input_x, builtins.range)
    given = tuple(input_x) if ranged else sequence(input_x, "tuple_to_array", "input_x")
    first = given[0] if given else 0
    dtype = int32 if kind_of(first) in (bool, int) else float32
    if any(isinstance(v, GraphNumber) for v in given):
        return stacked(given, dtype)
    return cast_to(Tensor(list(given)), dtype)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: DType = int64) -> Tensor:
    """The row and column numbers, (2, n), of the n elements in the lower triangle of a matrix of
    `row` by `col`, up to the diagonal number `offset`."""
    return _indices(np.tril_indices, row, col, offset, dtype, "tril_indices")


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: DType = int64) -> Tensor:
    """The row and column numbers, (2, n), of the n elements in the upper triangle of a matrix of
    `row` by `col`, from the diagonal number `offset`."""
    return _indices(np.triu_indices, row, col, offset, dtype, "triu_indices")


def _indices(
    listed: Callable[..., Any], row: Any, col: Any, offset: Any, dtype: Any, what: str
) -> Tensor:
    rows, columns = size(row, what, "row"), size(col, what, "col")
    apart = max(-rows, min(integer(offset, what, "offset"), columns))
    found = np.stack(listed(rows, apart, columns))
    return tensor_of(found.astype(dtype_of(dtype, what).numpy))


def hann_window(window_length: int, periodic: bool = True, *, dtype: DType | None = None) -> Tensor:
    """The Hann window 0.5 - 0.5 cos(2 pi n / (N - 1)) of `window_length` numbers, with N + 1 for N
    if `periodic`."""
    n = size(window_length, "hann_window", "window_length")
    whole = flag(periodic, "hann_window", "periodic") and n > 1
    values = np.hanning(n + 1)[:-1] if whole else np.hanning(n)
    return tensor_of(values.astype(dtype_of(dtype or float32, "hann_window").numpy))
