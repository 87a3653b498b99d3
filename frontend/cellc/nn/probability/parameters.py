"""Parameters of distributions and bijectors: their type, shape, and the values they may have."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_compiler.ir.types import broadcast_all
from cellc_runtime.dtypes import DType, float32

from ... import ops
from ...tensors.tensor import Tensor


def shape_of_parameter(value: Any) -> tuple[int, ...]:
    """The shape of a number, a list of numbers, an array or a Tensor."""
    return tuple(value.shape) if isinstance(value, Tensor) else np.shape(value)


def batch_shape(values: list[Any]) -> tuple[int, ...] | None:
    """The shape that parameters broadcast to; None while one of them is not given.

    Raises:
        ValueError: the shapes do not broadcast.
    """
    if any(v is None for v in values):
        return None
    return tuple(broadcast_all(*(shape_of_parameter(v) for v in values)))


def parameter_type(given: dict[str, Any], default: DType | None) -> DType:
    """The one float type of the Tensors among the parameters, else the default, else float32.

    Raises:
        TypeError: Tensors of two float types.
    """
    found = default if default is not None and default.is_float else None
    first = ""
    for name, value in given.items():
        if not isinstance(value, Tensor) or not value.dtype.is_float:
            continue
        if first and value.dtype is not found:
            raise TypeError(f"'{name}' should have the same dtype as '{first}', {found}, but got "
                            f"{value.dtype}.")
        found, first = value.dtype, name
    return found or float32


def as_parameter(value: Any, to: DType, name: str) -> Tensor | None:
    """A parameter as a Tensor of floats; a Parameter stays itself, so that it can be trained.

    Raises:
        TypeError: no number, list of numbers, array or Tensor.
    """
    if value is None or isinstance(value, Tensor):
        return value if value is None or value.dtype is to else ops.cast(value, to)
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"'{name}' must be a number, a list of numbers, an array or a Tensor, but "
                        f"got {type(value).__name__}.")
    return Tensor(array, to)


def known(value: Tensor) -> np.ndarray[Any, Any]:
    """The elements of a parameter in float64."""
    return value.asnumpy().astype(np.float64)


def need_positive(value: Tensor | None, name: str) -> None:
    """A parameter must be above zero.

    Raises:
        ValueError: an element is not.
    """
    if value is not None and not (known(value) > 0).all():
        raise ValueError(f"{name} must be greater than zero.")


def need_probability(value: Tensor | None) -> None:
    """Elements must be between 0 and 1, both excluded.

    Raises:
        ValueError: one is not.
    """
    if value is None:
        return
    if not (known(value) > 0).all():
        raise ValueError("Probabilities must be greater than zero")
    if not (known(value) < 1).all():
        raise ValueError("Probabilities must be less than one")


def need_tensor(value: Any, name: str) -> Tensor:
    """What is computed with, which must be a Tensor.

    Raises:
        TypeError: something else.
    """
    if not isinstance(value, Tensor):
        raise TypeError(f"For {name}, input type must be a Tensor or Parameter.")
    return value


def described(pairs: dict[str, Tensor | None], scalar: bool, shape: Any) -> str:
    """How a distribution prints its parameters: numbers in full, else their shape."""
    if not scalar:
        return f"batch_shape = {shape}"
    return ", ".join(f"{k} = {v if v is None else str(v.asnumpy())}" for k, v in pairs.items())
