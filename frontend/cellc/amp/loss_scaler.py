"""Loss scaling by hand: scale the loss, unscale the gradients, adjust the scale.

Source: the same names in `mindspore.amp`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from cellc_runtime.dtypes import bool_, float32, int32

from .. import ops
from ..compat import jit_class
from ..core.declared import PositiveNumber
from ..core.native import names_itself
from ..nn.loss_scale import all_finite
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor
from ..tracing.pytree import put_together, take_apart


def _grad_scale_map(factor: Tensor, inputs: Any) -> Any:
    """Each tensor of a structure times a factor, in the tensor's type."""
    structure, leaves = take_apart(inputs)
    return put_together(structure, [x * factor.astype(x.dtype) for x in leaves])


def _grad_unscale_map(factor: Tensor, inputs: Any) -> Any:
    """Each tensor of a structure over a factor, in the tensor's type."""
    return _grad_scale_map(1 / factor, inputs)


@names_itself
class LossScaler(ABC):
    """The base of loss scalers."""

    scale_value: Any

    def scale(self, inputs: Any) -> Any:
        """A loss (or tensors) times the scale, in their type."""
        return _grad_scale_map(self.scale_value, inputs)

    def unscale(self, inputs: Any) -> Any:
        """Gradients over the scale, in their type."""
        return _grad_unscale_map(self.scale_value, inputs)

    @abstractmethod
    def adjust(self, grads_finite: Tensor) -> Any:
        """Adjust the scale after a step."""


@jit_class
class StaticLossScaler(LossScaler):
    """A scale that does not change.

    Args:
        scale_value: the scale.
    """

    def __init__(self, scale_value: PositiveNumber) -> None:
        self.scale_value = _scale(scale_value)

    def adjust(self, grads_finite: Tensor) -> bool:
        """Nothing changes: False."""
        return False


@jit_class
class DynamicLossScaler(LossScaler):
    """A scale that falls when gradients overflow and rises after steps in which they did not.

    Args:
        scale_value: the scale at first.
        scale_factor: by what it falls and rises.
        scale_window: after how many steps without overflow it rises.
    """

    def __init__(
        self, scale_value: PositiveNumber, scale_factor: PositiveNumber,
        scale_window: PositiveNumber,
    ) -> None:
        self.scale_value = _scale(scale_value)
        self.scale_window = int(scale_window)
        self.scale_factor = scale_factor
        self.counter = Parameter(Tensor(0, int32), name="counter", requires_grad=False)

    def adjust(self, grads_finite: Tensor) -> bool:
        """Lower or raise the scale (never below 1, never to infinity); True.

        Args:
            grads_finite: bool[], whether the gradients were finite.
        """
        finite = ops.cast(grads_finite, bool_)
        scale = self.scale_value.value()
        raised = scale * self.scale_factor
        lowered = ops.maximum(scale / self.scale_factor, Tensor(1.0, float32))
        counter = self.counter.value()
        due = ops.logical_and(ops.equal(counter, self.scale_window - 1), ops.isfinite(raised))
        ops.assign(self.scale_value, ops.where(finite, ops.where(due, raised, scale), lowered))
        counted = (counter + 1) % self.scale_window
        ops.assign(self.counter, ops.where(finite, counted, ops.zeros_like(counted)))
        return True


def _scale(value: Any) -> Parameter:
    return Parameter(Tensor(value, float32), name="scale_value", requires_grad=False)


__all__ = ["DynamicLossScaler", "LossScaler", "StaticLossScaler", "all_finite"]
