"""Training steps with a loss scale: overflowing steps are skipped and the scale lowered.

Source: the same names in `mindspore.amp` and `mindspore.nn`.
"""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import bool_, float32, int32

from .. import ops
from ..core.declared import misuse
from ..ops.mapping import MultitypeFuncGraph
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor
from ..tracing.pytree import tensors
from ..transforms.gradient import value_and_grad
from .cell import Cell
from .wrap import TrainOneStepCell


def all_finite(inputs: Any) -> Tensor:
    """Whether all elements of all tensors are finite: bool[].

    Args:
        inputs: a Tensor, or a tuple or list of them.
    """
    found: Tensor | None = None
    for tensor in tensors(inputs):
        finite = ops.isfinite(tensor).all()
        found = finite if found is None else ops.logical_and(found, finite)
    if found is None:
        raise misuse("all_finite", "the inputs must hold a Tensor", type(inputs))
    return found


_grad_scale = MultitypeFuncGraph("grad_scale")
grad_scale = shard_grad_scale = _grad_scale
"""Gradients divided by a scale, as published training steps map it over them."""


@_grad_scale.register("Tensor", "Tensor")
def tensor_grad_scale(scale: Any, grad: Tensor) -> Tensor:
    """A gradient divided by the scale."""
    return grad * ops.cast(1.0 / scale, grad.dtype)


class DynamicLossScaleUpdateCell(Cell):
    """Lowers a loss scale after an overflow and raises it after steps without one.

    Args:
        loss_scale_value: the scale at first.
        scale_factor: by what it falls and rises.
        scale_window: after how many steps without overflow it rises.

    Inputs:
        loss_scale: Parameter, [] or [1]; overwritten.
        overflow: bool[].

    Outputs:
        overflow.
    """

    def __init__(self, loss_scale_value: float, scale_factor: float, scale_window: int) -> None:
        super().__init__()
        self.scale_window = Tensor(scale_window, int32)
        self.scale_factor = Tensor(scale_factor, float32)
        self.loss_scale_value = loss_scale_value
        self.cur_iter = Parameter(Tensor(1, int32), name="current_iterator_step",
                                  requires_grad=False)
        self.last_overflow_iter = Parameter(Tensor(0, int32), name="last_overflow_iterator_step",
                                            requires_grad=False)

    def get_loss_scale(self) -> float:
        """The scale at first."""
        return self.loss_scale_value

    def construct(self, loss_scale: Any, overflow: Any) -> Any:
        """Update the scale; whether there was an overflow."""
        lowered = ops.maximum(loss_scale * (1 / self.scale_factor), Tensor(1.0, float32))
        scale = ops.where(overflow, lowered, loss_scale)
        step = self.cur_iter.value()
        due = step - self.last_overflow_iter >= self.scale_window
        changed = ops.logical_or(overflow, due)
        raised = ops.logical_and(due, ops.logical_not(overflow))
        scale = ops.where(raised, scale * self.scale_factor, scale)
        ops.assign(self.last_overflow_iter, ops.where(changed, step, self.last_overflow_iter))
        ops.assign(loss_scale, scale.astype(float32))
        ops.assign(self.cur_iter, step + 1)
        return overflow


class FixedLossScaleUpdateCell(Cell):
    """Leaves a loss scale as it is.

    Args:
        loss_scale_value: the scale.

    Inputs:
        loss_scale: not used.
        overflow: bool[].

    Outputs:
        overflow.
    """

    def __init__(self, loss_scale_value: float) -> None:
        super().__init__()
        self.loss_scale_value = loss_scale_value

    def get_loss_scale(self) -> float:
        """The scale."""
        return self.loss_scale_value

    def construct(self, loss_scale: Any, overflow: Any) -> Any:
        """Whether there was an overflow."""
        return overflow


class _ScaledLoss(Cell):
    """The loss times the last input, in the type of the loss; and the loss."""

    def __init__(self, network: Any) -> None:
        super().__init__(auto_prefix=False)
        self.network = network

    def construct(self, *inputs: Any) -> Any:
        """Return the value to differentiate, then the loss."""
        loss = self.network(*inputs[:-1])
        return loss * inputs[-1].astype(loss.dtype), loss


class TrainOneStepWithLossScaleCell(TrainOneStepCell):
    """One training step under a loss scale; skipped where gradients overflow.

    Args:
        network: gives the loss of its inputs.
        optimizer: updates its parameters.
        scale_sense: a Cell that updates the scale (`DynamicLossScaleUpdateCell`), or a Tensor,
            [] or [1], which `set_sense_scale` replaces.

    Outputs:
        The loss; bool[], whether there was an overflow; the scale of the step.
    """

    def __init__(self, network: Any, optimizer: Any, scale_sense: Any) -> None:
        super().__init__(network, optimizer, sens=None)
        self.loss_scaling_manager: Any = None
        if isinstance(scale_sense, Cell):
            self.loss_scaling_manager = scale_sense
            start = Tensor(scale_sense.get_loss_scale(), float32)
        elif isinstance(scale_sense, Tensor):
            if scale_sense.shape not in ((), (1,)):
                raise misuse("TrainOneStepWithLossScaleCell",
                             "the shape of 'scale_sense' must be (1,) or ()", scale_sense.shape)
            start = scale_sense.astype(float32)
        else:
            raise misuse("TrainOneStepWithLossScaleCell",
                         "the 'scale_sense' must be Cell or Tensor",
                         f"'scale_sense' type: {type(scale_sense)}", TypeError)
        self.scale_sense = Parameter(start, name="scale_sense", requires_grad=False)
        self.is_distributed = False
        self.base, self.base0 = Tensor(1.0, float32), Tensor(0, int32)
        self.less_equal, self.logic_not = ops.less_equal, ops.logical_not
        self.reduce_sum = ops.ReduceSum(keep_dims=False)
        self.scaled_grad = value_and_grad(_ScaledLoss(network), None, self.weights, has_aux=True)

    def set_sense_scale(self, sens: Tensor) -> None:
        """Replace the scale, if no Cell updates it."""
        if self.loss_scaling_manager is not None:
            raise ValueError("The scale is updated by a Cell: it cannot be set.")
        if not isinstance(sens, Tensor):
            raise TypeError(f"The input type must be Tensor, but got {type(sens)}")
        self.scale_sense.set_data(sens.reshape(self.scale_sense.shape))

    def construct(self, *inputs: Any) -> Any:
        """(loss, overflow, scale)."""
        scale = self.scale_sense.value() * 1
        loss, grads = self.scaled_loss_and_grads(inputs, scale)
        overflow = self.get_overflow_status(None, grads)
        if self.loss_scaling_manager is not None:
            overflow = self.loss_scaling_manager(self.scale_sense, overflow)
        if not overflow:
            self.optimizer(grads)
        return loss, overflow, scale

    def scaled_loss_and_grads(self, inputs: Any, scale: Any) -> Any:
        """The loss, and the gradients of the scaled loss over the scale, in float32."""
        factor = scale.reshape(())
        (_, loss), grads = self.scaled_grad(*inputs, factor)
        unscaled = [g.astype(float32) / factor for g in grads]
        return loss, self.grad_reducer(tuple(unscaled))

    def start_overflow_check(self, pre_cond: Any, compute_input: Any) -> Any:
        """The status to start from, and the input: nothing has to be cleared on a CPU."""
        return Tensor(False, bool_), compute_input

    def get_overflow_status(self, status: Any, compute_output: Any) -> Any:
        """bool[]: whether some element of the tensors is not finite."""
        return ops.logical_not(all_finite(compute_output))

    def process_loss_scale(self, overflow: Any) -> Any:
        """Update the scale (if a Cell does that); whether there was an overflow."""
        if self.loss_scaling_manager is not None:
            return self.loss_scaling_manager(self.scale_sense, overflow)
        return overflow


__all__ = [
    "DynamicLossScaleUpdateCell", "FixedLossScaleUpdateCell", "TrainOneStepWithLossScaleCell",
]
