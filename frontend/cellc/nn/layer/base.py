"""The common part of layers: parameters, printed options, families that differ in constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from cellc_runtime.dtypes import DType

from ...core.declared import Arguments
from ...tensors.initializer import initializer
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from ..cell import Cell


def parameter(init: Any, shape: Any, dtype: DType, name: str, trained: bool = True) -> Parameter:
    """A parameter with an initial value: a Tensor, initializer, its name or a number."""
    return Parameter(initializer(init, shape, dtype), name=name, requires_grad=trained)


def shown(layer: Cell, names: str) -> str:
    """Attributes as they are printed: "eps=1e-05, momentum=0.9" of "eps momentum"."""
    return ", ".join(f"{name}={getattr(layer, name)}" for name in names.split())


class Layer(Arguments, Cell):
    """A layer whose constructor stores its fields."""


class Family(Cell):
    """Layers that differ in constants, which each names as keywords of its class.

    class MaxUnpool2d(_MaxUnpool, spatial=2, function=ops.max_unpool2d): ...
    """

    _function: ClassVar[Callable[..., Tensor]]

    def __init_subclass__(
        cls, function: Callable[..., Any] | None = None, **constants: Any
    ) -> None:
        super().__init_subclass__()
        if function is not None:
            cls._function = staticmethod(function)
        for name, value in constants.items():
            setattr(cls, name, value)


class Convolution(Family):
    """The base of convolutions, `mint`'s too, which hold a `weight`.

    Attributes:
        transposed: whether the first axis of the weight is that of the input, and the second one
            the output channels of a group; otherwise the first axis is that of the output.
    """

    transposed: ClassVar[bool] = False


class Functional(Arguments, Family):
    """A function as a layer: it takes the inputs, then the fields of the layer in their order.

    The classes below differ in the name of the input. Their calls ask for options first: a layer
    without any, such as ReLU, costs a tenth less in PyNative.
    """

    def __init__(self) -> None:
        super().__init__()

    def _values(self) -> list[Any]:
        return [getattr(self, name) for name in self._options]


class OfX(Functional):
    """A function of one tensor `x`."""

    def construct(self, x: Tensor) -> Tensor:
        """The function of the input."""
        if self._options:
            return self._function(x, *self._values())
        return self._function(x)


class OfInput(Functional):
    """A function of one tensor `input`."""

    def construct(self, input: Tensor) -> Any:
        """The function of the input."""
        if self._options:
            return self._function(input, *self._values())
        return self._function(input)


class OfInputX(Functional):
    """A function of one tensor `input_x`."""

    def construct(self, input_x: Tensor) -> Tensor:
        """The function of the input."""
        if self._options:
            return self._function(input_x, *self._values())
        return self._function(input_x)
