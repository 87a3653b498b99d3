"""Gradients added up over several steps before an optimizer takes them.

Source: `mindspore.boost.GradientAccumulation`.
"""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import int32

from .. import ops
from ..core.declared import Positive
from ..ops.mapping import HyperMap, MultitypeFuncGraph
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor
from .cell import Cell

gradient_accumulation_op = MultitypeFuncGraph("gradient_accumulation_op")
"""Adds a gradient, divided by the number of steps, to what has been added up."""
gradient_clear_op = MultitypeFuncGraph("gradient_clear_op")  # Sets to zero what has been added up


@gradient_accumulation_op.register("Number", "Tensor", "Tensor")
def add_up(steps: int, total: Any, gradient: Tensor) -> Any:
    """The total, with the gradient's part of it added."""
    ops.assign_add(total, gradient / steps)
    return total


@gradient_clear_op.register("Tensor")
def clear(total: Any) -> Any:
    """The total, which is zero from now on."""
    return ops.assign(total, ops.zeros_like(total))


class GradientAccumulation(Cell):
    """Adds up gradients; every `max_accumulation_step`-th call the optimizer takes their mean.

    Args:
        max_accumulation_step: how many steps count as one.
        optimizer: takes the mean of the gradients.

    Examples:
        >>> step = boost.GradientAccumulation(4, optimizer)
        >>> loss = step(loss, gradients)
    """

    def __init__(self, max_accumulation_step: Positive, optimizer: Any) -> None:
        super().__init__()
        self._max_accumulation_step = max_accumulation_step
        self.optimizer = optimizer
        self.weights = optimizer.parameters
        self.hyper_map = HyperMap()  # for classes derived from this one
        self._grad_accumulation = optimizer.accumulators("grad_accumulation")
        self._accumulation_step = Parameter(Tensor(0, int32), name="accumulation_step")

    def construct(self, loss: Any, grads: Any) -> Any:
        """The loss, once the gradients have been added up.

        Args:
            loss: of this step.
            grads: one gradient for each parameter of the optimizer.
        """
        for i in range(len(self._grad_accumulation)):
            total, grad = self._grad_accumulation[i], grads[i]
            if total.shape != grad.shape:
                grad = self.optimizer.own_rows(i, grad)
            add_up(self._max_accumulation_step, total, grad)
        ops.assign_add(self._accumulation_step, 1)
        if self._accumulation_step >= self._max_accumulation_step:
            self.optimizer(tuple([total * 1 for total in self._grad_accumulation]))
            ops.assign(self._accumulation_step, 0)
            for total in self._grad_accumulation:
                clear(total)
        return loss


__all__ = ["GradientAccumulation"]
