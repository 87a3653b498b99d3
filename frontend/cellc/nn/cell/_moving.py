"""`Cell.to` and `to_empty`: element types of parameters and buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_runtime.dtypes import ALL, DType

from ... import context
from ...core.invalidation import changed
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor, cast_array, tensor_of
from . import _state

if TYPE_CHECKING:
    from . import Cell


def destination(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[DType | None]:
    """The element type that arguments of `Cell.to` ask for, checked.

    Raises:
        TypeError: they fit no form of the call, or the type is no float.
    """
    form: tuple[str, ...] = ("device", "dtype", "non_blocking")
    if "tensor" in kwargs or (args and isinstance(args[0], Tensor)):
        form = ("tensor", "non_blocking")
    elif args and args[0] in ALL:
        form = ("dtype", "non_blocking")
    given = dict(zip(form, args, strict=False)) | dict(kwargs)
    if len(args) > len(form) or set(kwargs) - set(form) or len(given) != len(args) + len(kwargs):
        raise TypeError(
            "Cell.to takes (device, dtype, non_blocking), (dtype, non_blocking) or (tensor, "
            f"non_blocking), but got {len(args)} positional arguments and {sorted(kwargs)}."
        )
    device, tensor = given.get("device"), given.get("tensor")
    if not isinstance(device, (str, type(None))):
        raise TypeError(f"Cell.to: a device is a str, but got {type(device).__name__}.")
    if tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"Cell.to: 'tensor' must be a Tensor, but got {type(tensor).__name__}.")
    context.check_device(device)
    dtype: Any = tensor.dtype if tensor is not None else given.get("dtype")
    if dtype is not None and (dtype not in ALL or not (dtype.is_float or dtype.is_complex)):
        raise TypeError(f"Cell.to takes a floating point or complex dtype, but got {dtype}.")
    return (dtype,)


def convert(cell: Cell, dtype: DType | None) -> None:
    """Convert floats of a cell and all below it in place."""
    if dtype is None:
        return

    def new(tensor: Tensor) -> Any:
        old = tensor.dtype
        fits = old.is_float or old.is_complex
        return cast_array(tensor._data, dtype) if fits and old is not dtype else None

    _replace(cell, True, new)


def empty(cell: Cell, recurse: bool) -> None:
    """Give the tensors of a cell new memory."""
    _replace(cell, recurse, lambda tensor: np.zeros_like(tensor._data))


def _replace(cell: Cell, recurse: bool, new: Any) -> None:
    done: dict[int, tuple[Tensor, Tensor]] = {}  # the old tensors too: identities must last
    for _, each in cell.cells_and_names() if recurse else [("", cell)]:
        for name, tensor in [*each._own_parameters(), *_state.own_buffers(each)]:
            if id(tensor) not in done:
                done[id(tensor)] = tensor, _with_array(tensor, new(tensor))
            now = done[id(tensor)][1]
            if now is not tensor:
                object.__setattr__(each, name, now)
            changed(each, name)


def _with_array(tensor: Tensor, array: Any) -> Tensor:
    """A Parameter with another array in place, a buffer as another Tensor; None: as they are."""
    if array is None:
        return tensor
    if isinstance(tensor, Parameter):
        tensor._replace(array)
        return tensor
    return tensor_of(array)
