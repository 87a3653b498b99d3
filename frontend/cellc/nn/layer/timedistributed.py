"""A layer applied to each step of a sequence. Source: `mindspore.nn`."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...core.declared import Int, instance, misuse
from ...ops.primitive import Primitive
from ...tensors.tensor import Tensor
from ..cell import Cell


class TimeDistributed(Cell):
    """A layer applied to each step of a sequence.

    Args:
        layer: a Cell or Primitive.
        time_axis: the axis of the steps.
        reshape_with_axis: an axis that the layer treats as a batch: the steps are made part of it,
            and the layer runs once; the steps of the result are beside that axis. If None the
            layer runs once a step, and the steps stay where they are.
    """

    def __init__(self, layer: Any, time_axis: Int, reshape_with_axis: Int | None = None) -> None:
        super().__init__()
        what = self.cls_name
        instance(Cell, Primitive)(layer, what, "layer")
        self.layer = layer
        self.time_axis = time_axis
        self.reshape_with_axis = reshape_with_axis

    def construct(self, inputs: Tensor) -> Tensor:
        """Three axes or more."""
        rank = inputs.ndim
        if rank < 3:
            raise misuse("TimeDistributed", "the input must have 3 axes or more", rank)
        if not -rank <= self.time_axis < rank:
            raise misuse("TimeDistributed", f"the 'time_axis' must be in [{-rank}, {rank})",
                         self.time_axis)
        time = self.time_axis % rank
        if self.reshape_with_axis is None:
            steps = [self.layer(x) for x in ops.unbind(inputs, time)]
            return ops.stack(steps, time)
        if not -rank <= self.reshape_with_axis < rank or self.reshape_with_axis % rank == time:
            raise misuse("TimeDistributed", "the 'reshape_with_axis' must be another axis than "
                         f"the 'time_axis' {time} in [{-rank}, {rank})", self.reshape_with_axis)
        return self._at_once(inputs, time, self.reshape_with_axis % rank)

    def _at_once(self, inputs: Tensor, time: int, batch: int) -> Tensor:
        """The steps as part of another axis, which the layer must keep; then the axis beside it."""
        steps, many = inputs.shape[time], inputs.shape[batch]
        if time > batch:
            place, pair = batch, (many, steps)
            x = ops.moveaxis(inputs, time, batch + 1)
        else:
            place, pair = batch - 1, (steps, many)
            x = ops.moveaxis(inputs, time, batch - 1)
        x = ops.reshape(x, x.shape[:place] + (steps * many,) + x.shape[place + 2 :])
        out = self.layer(x)
        return ops.reshape(out, out.shape[:place] + pair + out.shape[place + 1 :])
