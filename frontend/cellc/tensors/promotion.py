"""Implicit conversion between element types, as MindSpore does it.

Two tensors meet in the smallest type of the higher kind; a Python number takes the type of the
tensor it meets unless its kind is higher (bool < int < float). Unsigned types wider than 8 bits
meet only themselves and bool. One extension: they also accept Python ints.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache, reduce
from typing import Any

import numpy as np

from cellc_compiler.ir.dims import is_symbolic
from cellc_runtime.dtypes import (
    DType,
    bool_,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

from ..core.dispatch import active_tracer, apply_one
from ..core.later import naming
from .tensor import Array, Tensor, number_kind, short, tensor_of

_WIDE_UNSIGNED = (uint16, uint32, uint64)
_SCALARS = (bool, int, float, complex, np.number, np.bool_)
_NUMBERS = (int, float, complex, np.generic)
_TENSORS_AND_SCALARS = (Tensor, *_SCALARS)


@cache
def promoted(a: DType, b: DType) -> DType:
    """The element type two tensors meet in."""
    if a is b or b is bool_:
        return a
    if a is bool_:
        return b
    if a in _WIDE_UNSIGNED or b in _WIDE_UNSIGNED:
        raise TypeError(f"Type implicit conversion between Tensor[{a}] and Tensor[{b}] is not "
                        "supported.")
    if a.is_complex or b.is_complex:
        return complex128 if {a, b} & {complex128, float64} else complex64
    if a.is_float and b.is_float:
        return max(a, b, key=lambda d: d.itemsize) if a.itemsize != b.itemsize else float32
    if a.is_float or b.is_float:
        return a if a.is_float else b
    return _integers(a, b)


def _integers(a: DType, b: DType) -> DType:
    if {a, b} == {int8, uint8}:
        return int16
    if uint8 in (a, b):
        return b if a is uint8 else a
    return max(a, b, key=lambda d: d.itemsize)


def weak(dtype: DType, scalar: Any) -> DType:
    """The element type a tensor of `dtype` and a Python number meet in."""
    if isinstance(scalar, (bool, np.bool_)):
        return dtype
    if isinstance(scalar, (int, np.integer)):
        return int64 if dtype is bool_ else dtype
    if isinstance(scalar, (float, np.floating)):
        return dtype if dtype.is_inexact else float32
    if isinstance(scalar, (complex, np.complexfloating)):
        return dtype if dtype.is_complex else complex128 if dtype is float64 else complex64
    return promoted(dtype, default_dtype(scalar))


def default_dtype(scalar: Any) -> DType:
    """The element type of a Python number on its own."""
    if isinstance(scalar, (bool, np.bool_)):
        return bool_
    if isinstance(scalar, (int, np.integer)):
        return int64
    return complex64 if isinstance(scalar, (complex, np.complexfloating)) else float32


def constant(value: Any, dtype: DType) -> Tensor:
    """A rank-0 Tensor for use as an operand; equal requests share one: do not write to it. `value`:
    a number, or a Tensor of one, whose elements are those of now."""
    if is_symbolic(value):
        return apply_one("size_number", value=value, dtype=dtype)
    sign = math.copysign(1.0, value) if isinstance(value, float) else 0.0
    try:
        return _constant(type(value).__name__, value, sign, dtype)
    except (TypeError, ValueError):
        if isinstance(value, Tensor) and value.size == 1:
            return cast_to(value if not value.ndim else apply_one("reshape", value, shape=()),
                           dtype)
        raise TypeError(f"{short(value)} of type {type(value).__name__} is no number of the type "
                        f"{dtype}: pass a number") from None


@lru_cache(maxsize=4096)
def _constant(kind: str, value: Any, sign: float, dtype: DType) -> Tensor:
    if not isinstance(value, _NUMBERS):
        raise TypeError("numpy would make a NaN of None, and a number of a text")
    if type(type(value)) is not type:  # numpy looks a class up, which asks a metaclass
        value = int.__pos__(value) if isinstance(value, int) else \
            float.__pos__(value) if isinstance(value, float) else value
    with np.errstate(all="ignore"):
        if isinstance(value, int) and dtype.is_integer and not isinstance(value, bool):
            value %= 2**64  # wraps to the width of the type, as C does
            array: Array = np.array(value, np.uint64).astype(dtype.numpy)
        else:
            array = np.array(value).astype(dtype.numpy)
    made = tensor_of(array)
    made._literal = True
    return made


def is_scalar(x: Any) -> bool:
    """Whether `x` is a Python or numpy number (which takes part as a weak operand)."""
    return isinstance(x, _SCALARS)


def cast_to(x: Tensor, dtype: DType) -> Tensor:
    """`x` in another element type (itself if it has that one)."""
    if x.dtype is dtype:
        return x
    return apply_one("cast", x, dtype=dtype)


def fresh(x: Tensor) -> Tensor:
    """A tensor of the same value with elements of its own: a later change of one leaves the other.

    A function that has nothing to compute returns it where MindSpore returns a copy. (A graph has
    the op, too: gradients add up in the same order.)
    """
    return apply_one("reshape", x, shape=x.shape)


def operand(x: Any, what: str, name: str = "input") -> Any:
    """`x` if it is a Tensor or number, a Tensor of it if it is a list or tuple."""
    if isinstance(x, _TENSORS_AND_SCALARS):
        return x
    if isinstance(x, (list, tuple)):
        return _of_list(x, what, name)
    raise TypeError(f"For '{what}', '{name}' must be a Tensor or a number, but got "
                    f"{type(x).__name__}")


def listed(x: Any) -> Tensor:
    """A list or tuple as a Tensor; one that holds tensors is stacked while a graph is traced."""
    leaves = list(_leaves(x))
    if active_tracer() is None or not any(isinstance(t, Tensor) for t in leaves):
        return Tensor(x)
    dtype = reduce(
        promoted, (t.dtype if isinstance(t, Tensor) else default_dtype(t) for t in leaves))

    def walk(part: Any) -> Tensor:
        if isinstance(part, (list, tuple)):
            return apply_one("stack", *map(walk, part), axis=0)
        return cast_to(part, dtype) if isinstance(part, Tensor) else constant(part, dtype)

    return walk(x)


def _leaves(x: Any) -> Iterator[Any]:
    for part in x:
        yield from _leaves(part) if isinstance(part, (list, tuple)) else (part,)


def _of_list(x: Any, what: str, name: str) -> Tensor:
    try:
        return listed(x)
    except (TypeError, ValueError) as error:
        if not str(error).startswith("For Tensor, the input_data"):
            raise
        raise type(error)(
            f"For '{what}', '{name}' must be a Tensor, a number, or nested lists of numbers, all "
            f"of one length on each level, but got {naming.described(x)}.") from None


def operands(what: str, x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Two operands as Tensors of one element type."""
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        a, b = x.dtype, y.dtype
        if a is b:
            return x, y
        dtype = _meeting(x, y)
        return cast_to(x, dtype), cast_to(y, dtype)
    return _convert_pair(what, operand(x, what, "input"), operand(y, what, "other"))


def _meeting(x: Tensor, y: Tensor) -> DType:
    """The element type of two tensors; a number of the graph is as weak as one of Python."""
    of_x, of_y = number_kind(x), number_kind(y)
    if of_x is None:
        return promoted(x.dtype, y.dtype) if of_y is None else weak(x.dtype, of_y(0))
    if of_y is None:
        return weak(y.dtype, of_x(0))
    return promoted(default_dtype(of_x(0)), default_dtype(of_y(0)))


def _convert_pair(what: str, x: Any, y: Any) -> tuple[Tensor, Tensor]:
    if isinstance(x, Tensor):
        if isinstance(y, Tensor):
            return operands(what, x, y)
        dtype = weak(x.dtype, y)
        return cast_to(x, dtype), constant(y, dtype)
    if isinstance(y, Tensor):
        dtype = weak(y.dtype, x)
        return constant(x, dtype), cast_to(y, dtype)
    dtype = promoted(default_dtype(x), default_dtype(y))
    return constant(x, dtype), constant(y, dtype)


def same_type(xs: Sequence[Any]) -> bool:
    """Whether these are eager Tensors (not Parameters) of one element type."""
    kinds = {x.dtype if type(x) is Tensor else None for x in xs}
    return len(kinds) == 1 and None not in kinds


def common(what: str, *xs: Any) -> list[Tensor]:
    """Any number of operands as Tensors of one element type; numbers are weak."""
    if same_type(xs):
        return list(xs)
    tensors = [x for x in xs if isinstance(x, Tensor) and number_kind(x) is None]
    if len(tensors) == len(xs) and len({x.dtype for x in tensors}) == 1:
        return tensors  # the usual case
    items = [operand(x, what, f"operand {i}") for i, x in enumerate(xs)]
    dtype: DType | None = None
    for x in items:
        if isinstance(x, Tensor) and number_kind(x) is None:
            dtype = x.dtype if dtype is None else promoted(dtype, x.dtype)
    for x in items:
        if not isinstance(x, Tensor) or number_kind(x) is not None:
            number = number_kind(x)(0) if isinstance(x, Tensor) else x
            dtype = default_dtype(number) if dtype is None else weak(dtype, number)
    assert dtype is not None
    return [cast_to(x, dtype) if isinstance(x, Tensor) else constant(x, dtype) for x in items]


def inexact(x: Tensor) -> Tensor:
    """`x`, in float32 if its elements are ints or bools."""
    return x if x.dtype.is_inexact else cast_to(x, float32)
