"""The arrays and element types that `cellc.numpy` accepts, and their promotion.

As in MindSpore's numpy: lists and Python numbers become tensors of int32, float32 or bool, and take
part in promotion as such.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cellc_runtime.dtypes import BY_NAME, DType, bool_, float32, int32

from ..ops.arguments import named
from ..ops.functional import joining, shapes
from ..tensors.dtype import convert
from ..tensors.promotion import cast_to, fresh, is_scalar, promoted
from ..tensors.tensor import Tensor, tensor_of

_PYTHON: dict[Any, DType] = {builtins.int: int32, builtins.float: float32, builtins.bool: bool_}
_DEFAULT = {"i": np.int32, "u": np.int32, "f": np.float32, "b": np.bool_, "c": np.complex64}


def to_dtype(dtype: Any, what: str) -> DType:
    """An element type, given as such, by name or as a Python type (int is int32)."""
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, type) and dtype in _PYTHON:
        return _PYTHON[dtype]
    if isinstance(dtype, str) and dtype not in BY_NAME:
        try:
            return _PYTHON[{"int": int, "float": float, "bool": bool}[dtype]]
        except KeyError:
            dtype = _code(dtype)
    return convert(dtype, f"numpy.{what}")


def _code(name: str) -> Any:
    """numpy's type for a code such as `i2`; other names as they are."""
    try:
        return np.dtype(name)
    except TypeError:
        return name


def _holds_tensor(x: Any) -> bool:
    return builtins.any(
        isinstance(v, Tensor) or (isinstance(v, (list, tuple)) and _holds_tensor(v)) for v in x
    )


def as_tensor(x: Any, what: str, name: str = "x") -> Tensor:
    """`x` as a Tensor; numbers and lists in int32, float32 or bool."""
    if isinstance(x, Tensor):
        return x
    if isinstance(x, (list, tuple)) and _holds_tensor(x):
        return joining.stack(together([as_tensor(v, what, name) for v in x]))
    if is_scalar(x) or isinstance(x, (list, tuple)):
        array = np.array(x)
        if array.dtype.kind in _DEFAULT:
            given = isinstance(x, np.generic)
            return tensor_of(array if given else array.astype(_DEFAULT[array.dtype.kind]))
    raise TypeError(
        f"For 'numpy.{what}', '{name}' must be a Tensor, a number, or a list or tuple of numbers, "
        f"but got {type(x).__name__}.")


def together(xs: list[Tensor]) -> list[Tensor]:
    """Tensors in one element type."""
    to = xs[0].dtype
    for x in xs[1:]:
        to = promoted(to, x.dtype)
    return [cast_to(x, to) for x in xs]


def many(xs: Any, what: str, name: str) -> list[Tensor]:
    """A sequence of arrays (or the rows of a tensor) as Tensors."""
    if isinstance(xs, Tensor):
        return list(joining.unstack(xs))
    if not isinstance(xs, (list, tuple)):
        raise TypeError(f"For 'numpy.{what}', '{name}' must be a Tensor, or a list or tuple of "
                        f"Tensors, but got {type(xs).__name__}.")
    if not xs:
        raise ValueError(f"For 'numpy.{what}', '{name}' must hold at least one array.")
    return [as_tensor(x, what, name) for x in xs]


def repeated(x: Tensor, shape: Any) -> Tensor:
    """A copy of `x`, broadcast to a shape."""
    out = shapes.broadcast_to(x, shape)
    return fresh(x) if out is x else out


def finished(x: Tensor, dtype: Any, what: str) -> Tensor:
    """`x` in the element type asked for (None: as it is)."""
    return x if dtype is None else cast_to(x, to_dtype(dtype, what))


def rows(table: Mapping[str, tuple[str, Callable[..., Any]]]) -> dict[str, Callable[..., Any]]:
    """The functions of a table of documentation and code, under their names."""
    return {name: named(function, name, f"{doc} Source: `mindspore.numpy.{name}`.")
            for name, (doc, function) in table.items()}


def from_array(x: Any, dtype: DType) -> Tensor:
    """A tensor of numpy numbers in an element type."""
    return tensor_of(np.ascontiguousarray(np.asarray(x).astype(dtype.numpy)))
