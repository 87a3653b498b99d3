"""Connectionist temporal classification (Graves et al., 2006), as a layer.

Source: `mindspore.nn`.
"""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import int32

from ... import ops
from ...core.declared import Flag, NonNegative, misuse
from ...ops.functional import ctc
from ...tensors.tensor import Tensor
from .loss import LossBase


class CTCLoss(LossBase):
    """Minus the log of the probability that the classes read as the target.

    A reading leaves out repetitions, then blanks.

    Args:
        blank: the class that stands for no class.
        reduction: "mean" (each loss over its target's length first), "sum" or "none".
        zero_infinity: a loss is 0, not infinite, where the target does not fit into the input.

    Inputs:
        log_probs: (T, N, C) or (T, C), logs of probabilities; float.
        targets: (N, S), or all targets one after the other; int.
        input_lengths, target_lengths: of each of the batch; tuples of ints or Tensors (N).
    """

    def __init__(
        self, blank: NonNegative = 0, reduction: str = "mean", zero_infinity: Flag = False
    ) -> None:
        super().__init__(reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity
        self.how = reduction

    def construct(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any
    ) -> Tensor:
        """The loss."""
        if log_probs.ndim not in (2, 3):
            raise misuse("CTCLoss", "'log_probs' must have the shape (T, N, C) or (T, C), but has "
                         f"{log_probs.shape}")
        single = log_probs.ndim == 2
        if single:
            log_probs = ops.expand_dims(log_probs, 1)
        _, batch, classes = log_probs.shape
        if self.blank >= classes:
            raise misuse("CTCLoss",
                         f"'blank' must be one of the {classes} classes, but is {self.blank}")
        reach = ctc.lengths_of(input_lengths, batch, self.cls_name, "input_lengths")
        sizes = ctc.lengths_of(target_lengths, batch, self.cls_name, "target_lengths")
        labels = ops.clamp(ops.cast(_rows(targets, sizes, batch), int32), 0, classes - 1)
        alphas = ctc.forward(log_probs, ctc.states_of(labels, self.blank), reach, self.blank)
        loss = ctc.ends(alphas[-1], sizes, 0.0 if self.zero_infinity else float("inf"))
        if self.how == "none":
            return ops.reshape(loss, ()) if single else loss
        if self.how == "sum":
            return ops.sum(loss)
        return ops.mean(loss / ops.cast(ops.maximum(sizes, 1), loss.dtype))


def _rows(targets: Tensor, sizes: Tensor, batch: int) -> Tensor:
    """Targets as (N, S)."""
    if targets.ndim == 2 and targets.shape[0] == batch:
        return targets
    if targets.ndim != 1:
        raise misuse("CTCLoss", "'targets' must have the shape (N, S) or (sum of the target "
                     f"lengths), but has {targets.shape} for a batch of {batch}")
    total = targets.shape[0]
    starts = ops.expand_dims(ops.cumsum(sizes, 0) - sizes, 1)
    return ops.gather(targets, ops.clamp(starts + ops.arange(total), 0, total - 1), 0)
