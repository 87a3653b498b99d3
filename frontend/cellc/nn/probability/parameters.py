"""Parameters of distributions and bijectors: their type, shape, and the values they may have."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_compiler.ir.types import broadcast_all
from cellc_runtime.dtypes import DType, float32

from ... import ops
from ...core.declared import checks_arguments, is_number
from ...tensors.tensor import Tensor
from ..cell import Cell


def shape_of_parameter(value: Any) -> tuple[int, ...]:
    """The shape of a number, a list of numbers, an array or a Tensor."""
    return tuple(value.shape) if isinstance(value, Tensor) else np.shape(value)


def batch_shape(values: list[Any]) -> tuple[int, ...] | None:
    """The shape that parameters broadcast to; None while one of them is not given."""
    if any(v is None for v in values):
        return None
    return tuple(broadcast_all(*(shape_of_parameter(v) for v in values)))


def parameter_type(given: dict[str, Any], default: DType | None) -> DType:
    """The one float type of the Tensors among the parameters, else the default, else float32."""
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
    """A parameter as a Tensor of floats; a Parameter stays itself, so that it can be trained."""
    if value is None or isinstance(value, Tensor):
        return value if value is None or value.dtype is to else ops.cast(value, to)
    try:
        array = np.asarray(value)
    except ValueError:  # lists of unlike lengths
        array = np.asarray(None)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"'{name}' must be a number, a list of numbers, an array or a Tensor, but "
                        f"got {type(value).__name__}.")
    return Tensor(array, to)


def known(value: Tensor) -> np.ndarray[Any, Any]:
    """The elements of a parameter in float64."""
    return value.asnumpy().astype(np.float64)


def need_positive(value: Tensor | None, name: str) -> None:
    """A parameter must be above zero."""
    if value is not None and not (known(value) > 0).all():
        raise ValueError(f"{name} must be greater than zero.")


def need_probability(value: Tensor | None) -> None:
    """Elements must be between 0 and 1, both excluded."""
    if value is None:
        return
    if not (known(value) > 0).all():
        raise ValueError("Probabilities must be greater than zero")
    if not (known(value) < 1).all():
        raise ValueError("Probabilities must be less than one")


def need_tensor(value: Any, name: str) -> Tensor:
    """Check an operand, which must be a Tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"For {name}, input type must be a Tensor or Parameter.")
    return value


def held(attribute: str, doc: str) -> Any:
    """A property that gives an attribute, which the constructor has set."""
    return property(lambda self: getattr(self, attribute), doc=doc)


class Parametrized(Cell):
    """A Cell with a name, an element type, and parameters of one type and shape.

    Args:
        name: of this object.
        dtype: the type of its values; None: any float type.
        param: what it was made with; its "param_dict" holds the parameters by name.
    """

    @checks_arguments
    def __init__(self, name: str, dtype: Any, param: dict[str, Any]) -> None:
        super().__init__()
        self._name = name
        self._dtype = dtype
        self._parameters = {k: v for k, v in param.items() if k != "self" and k[0] != "_"}
        given = self._parameters.get("param_dict", {})
        self.parameter_names: list[str] = []
        self.parameter_type = parameter_type(given, dtype)
        self._batch_shape = batch_shape(list(given.values()))
        self._is_scalar_batch = all(v is None or is_number(v) for v in given.values())

    def _add_parameter(self, value: Any, name: str) -> Any:
        """Keep a parameter as a Tensor (or None), in the order of the calls' arguments."""
        kept = as_parameter(value, self.parameter_type, name)
        self.parameter_names.append(name)
        setattr(self, f"_{name}_value", kept)
        return kept

    name = held("_name", "The name that it was given.")
    dtype = held("_dtype", "The type of draws, or that values must have; None: any float type.")
    parameters = held("_parameters", "The arguments of its constructor.")
    is_scalar_batch = held("_is_scalar_batch", "Whether all of its parameters are numbers.")
    batch_shape = held(
        "_batch_shape", "The shape of its parameters together; None while one is not given.")

    @property
    def default_parameters(self) -> list[Any]:
        """Its own parameters as Tensors; None where a call must give one."""
        return [getattr(self, f"_{name}_value") for name in self.parameter_names]

    def _described(self, labels: tuple[str, ...] = ()) -> str:
        """How its parameters are printed: numbers in full, else their shape."""
        if not self._is_scalar_batch:
            return f"batch_shape = {self._batch_shape}"
        pairs = zip(labels or self.parameter_names, self.default_parameters, strict=True)
        return ", ".join(f"{k} = {v if v is None else str(v.asnumpy())}" for k, v in pairs)


class LocScale(Parametrized):
    """The parameters `loc` and `scale`, given here or at a call."""

    loc = held("_loc_value", "The location.")
    scale = held("_scale_value", "The scale.")
