"""Names of `mindspore.numpy.utils` and `utils_const` that scripts use besides its public ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np

from cellc_compiler.ir.types import broadcast_all
from cellc_runtime.dtypes import DType, float32, float64, int32, int64

from .. import context
from ..ops.arguments import own_axis
from ..ops.functional import shapes
from ..tensors.promotion import cast_to, promoted
from ..tensors.tensor import Tensor
from ._tensors import as_tensor


def _raiser(kind: type[Exception]) -> Callable[..., None]:
    def fail(info: str, param: Any = None) -> None:
        """Raise an exception with a text, and what it is about (of a TypeError, its type)."""
        raise kind(info if param is None else
                   f"{info}{type(param) if kind is TypeError else param}")

    return fail


_raise_type_error = _raiser(TypeError)
_raise_value_error = _raiser(ValueError)
_raise_runtime_error = _raiser(RuntimeError)
_raise_unimplemented_error = _raiser(NotImplementedError)


def _infer_out_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that shapes broadcast to."""
    try:
        return tuple(broadcast_all(*(tuple(s) for s in shapes)))
    except ValueError:
        raise ValueError(f"operands could not be broadcast together with shapes {shapes}") from None


def _canonicalize_axis(axis: Any, ndim: int) -> Any:
    """An axis, or several, counted from the front."""
    if isinstance(axis, int):
        return own_axis(axis, ndim, "numpy", "axis")
    found = tuple(own_axis(a, ndim, "numpy", "axis") for a in axis)
    if len(set(found)) != len(found):
        raise ValueError('duplicate value in "axis"')
    return found


def _check_axis_valid(axes: Any, ndim: int) -> tuple[int, ...]:
    """Axes counted from the front, as a tuple; None: all."""
    if axes is None:
        return tuple(range(ndim))
    found = _canonicalize_axis(axes, ndim)
    return found if isinstance(found, tuple) else (found,)


def _add_unit_axes(shape: Sequence[int], ndim: int, append: bool = False) -> tuple[int, ...]:
    """A shape with axes of size 1 in front (or at the end), up to `ndim` axes."""
    more = (1,) * (ndim - len(shape))
    return (*shape, *more) if append else (*more, *shape)


def _expanded_shape(ndim: int, axis_size: int, axis: int) -> tuple[int, ...]:
    """A shape of ones with one size."""
    return tuple(axis_size if i == axis else 1 for i in range(ndim))


def _tile_size(shape: Sequence[int], out_shape: Sequence[int], ndim: int) -> tuple[int, ...]:
    """How often each axis is repeated to get another shape."""
    return tuple(b if a == 1 else 1 for a, b in zip(shape, out_shape, strict=True))


def _seq_prod(seq1: Sequence[Any], seq2: Sequence[Any]) -> tuple[Any, ...]:
    """Products of the elements of two sequences."""
    return tuple(map(mul, seq1, seq2))


def _cumprod(x: Sequence[Any]) -> tuple[Any, ...]:
    """Products of the elements up to each."""
    return tuple(accumulate(x, mul))


def _get_device() -> str:
    """The kind of device that programs run on."""
    device: str = context.get_context("device_target")
    return device


def _check_is_float(dtype: DType) -> bool:
    return dtype.is_float


def _check_is_int(dtype: DType) -> bool:
    return dtype.is_integer


def _promote(dtype1: DType, dtype2: DType) -> DType:
    """The type that two types meet in."""
    return promoted(dtype1, dtype2)


def _type_convert(new_type: Callable[[Any], Any], obj: Any) -> Any:
    return new_type(obj)


def _several(convert: Callable[[Any], Tensor]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        """Arguments as Tensors: one, or a tuple of them."""
        made = tuple(map(convert, args))
        return made[0] if len(made) == 1 else made

    return call


_to_tensor = _several(lambda x: as_tensor(x, "asarray"))
_to_tensor_origin_dtype = _several(lambda x: x if isinstance(x, Tensor) else Tensor(x))


def _check_input_tensor(*tensors: Any) -> bool:
    """Check that all arguments are Tensors."""
    for x in tensors:
        if not isinstance(x, Tensor):
            raise TypeError(f"expect Tensor, but got {type(x)}")
    return True


def _convert_64_to_32(tensor: Tensor) -> Tensor:
    """A tensor of 64 bits in 32."""
    narrow = {float64: float32, int64: int32}
    return cast_to(tensor, narrow.get(tensor.dtype, tensor.dtype))


def _get_size(x: Tensor, axis: Any = None) -> int:
    """The number of elements, or of those along axes."""
    return math.prod(x.shape[a] for a in _check_axis_valid(axis, x.ndim))


def _expand(x: Tensor, ndim: int, axis: int = 0) -> Tensor:
    """A tensor with axes of size 1 put in at a place, up to `ndim` axes."""
    more = (1,) * (ndim - x.ndim)
    return shapes.reshape(x, (*x.shape[:axis], *more, *x.shape[axis:]))


def _broadcast_to_shape(x: Tensor, shape: Sequence[int]) -> Tensor:
    """A tensor in another shape, its elements repeated."""
    return shapes.broadcast_to(x, tuple(shape))


def _broadcast_to(x: Tensor, shape_cur: Any, shape_to: Sequence[int], ndim_to: int) -> Tensor:
    """A tensor in another shape, its elements repeated."""
    return _broadcast_to_shape(x, shape_to)


def _isnan(x: Tensor) -> Tensor:
    """Which elements are NaN."""
    return x != x  # NaN is no number's equal


def _deep_list(array_like: Any) -> Any:
    """Nested tuples as lists."""
    return [*map(_deep_list, array_like)] if isinstance(array_like, (list, tuple)) else array_like


def _deep_tensor_to_nparray(array_like: Any) -> Any:
    """Nested lists with arrays in the place of Tensors."""
    if isinstance(array_like, list):
        return [*map(_deep_tensor_to_nparray, array_like)]
    return array_like.asnumpy() if isinstance(array_like, Tensor) else array_like


def _check_input_for_asarray(array_like: Any) -> None:
    """Check that a value can be an array."""
    if not isinstance(array_like, (Tensor, list, tuple, int, float, bool, np.ndarray)):
        raise TypeError("input data must be `int`, `float`, `bool`, `Tensor`, `list`, `tuple`, but "
                        f"got {type(array_like)}")
