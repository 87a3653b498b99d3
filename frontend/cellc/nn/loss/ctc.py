"""Connectionist temporal classification (Graves et al., 2006): the forward algorithm, in logs."""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import int32, int64

from ... import ops
from ...core import checks
from ...tensors.tensor import Tensor
from .loss import LossBase

IMPOSSIBLE = -1e30
"""The log of the probability zero: finite, so that its gradients are zero and not NaN."""


def _lengths(value: Any, count: int, name: str) -> Tensor:
    """Lengths of the batch as int32.

    Raises:
        TypeError: neither a Tensor nor a tuple of ints.
        ValueError: not one for each of the batch.
    """
    if isinstance(value, (tuple, list)):
        value = Tensor([checks.integer(v, name, "CTCLoss") for v in value], int32)
    if not isinstance(value, Tensor) or value.dtype not in (int32, int64):
        raise TypeError(
            f"For 'CTCLoss', '{name}' must be a tuple of ints or an integer Tensor, but got "
            f"{value}."
        )
    if value.size != count:
        raise ValueError(
            f"For 'CTCLoss', '{name}' must have {count} lengths, one for each of the batch, but "
            f"has the shape {value.shape}."
        )
    return ops.cast(ops.reshape(value, (count,)), int32)


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

    Source: `mindspore.nn.CTCLoss`.
    """

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction)
        self.blank = checks.at_least(blank, 0, "blank", self.cls_name)
        self.zero_infinity = checks.boolean(zero_infinity, "zero_infinity", self.cls_name)
        self.how = reduction

    def construct(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any
    ) -> Tensor:
        """The loss.

        Raises:
            ValueError: `log_probs` has another number of axes, or `blank` is no class.
        """
        if log_probs.ndim not in (2, 3):
            raise ValueError(
                "For 'CTCLoss', 'log_probs' must have the shape (T, N, C) or (T, C), but has "
                f"{log_probs.shape}."
            )
        single = log_probs.ndim == 2
        if single:
            log_probs = ops.expand_dims(log_probs, 1)
        steps, batch, classes = log_probs.shape
        if self.blank >= classes:
            raise ValueError(
                f"For 'CTCLoss', 'blank' must be one of the {classes} classes, but is {self.blank}."
            )
        reach = _lengths(input_lengths, batch, "input_lengths")
        sizes = _lengths(target_lengths, batch, "target_lengths")
        labels = ops.clamp(ops.cast(_rows(targets, sizes, batch), int32), 0, classes - 1)
        loss = self._losses(log_probs, self._states(labels), reach, sizes, steps)
        if self.how == "none":
            return ops.reshape(loss, ()) if single else loss
        if self.how == "sum":
            return ops.sum(loss)
        return ops.mean(loss / ops.cast(ops.maximum(sizes, 1), loss.dtype))

    def _states(self, labels: Tensor) -> Tensor:
        """Labels with a blank before, between and after them: (N, 2 S + 1)."""
        batch, count = labels.shape
        blanks = ops.full_like(labels, self.blank)
        pairs = ops.reshape(ops.stack((blanks, labels), 2), (batch, 2 * count))
        return ops.concat((pairs, ops.full((batch, 1), self.blank, dtype=int32)), 1)

    def _losses(
        self, log_probs: Tensor, states: Tensor, reach: Tensor, sizes: Tensor, steps: int
    ) -> Tensor:
        batch, count = states.shape
        kind = log_probs.dtype
        index = ops.broadcast_to(ops.expand_dims(states, 0), (steps, batch, count))
        emitted = ops.gather_elements(log_probs, 2, index)
        place = ops.arange(count)
        never = ops.full((batch, count), IMPOSSIBLE, dtype=kind)
        # A label may follow another one without the blank between them.
        before = ops.concat((ops.full((batch, 2), self.blank, dtype=int32), states[:, :-2]), 1) \
            if count > 1 else states
        skips = ops.logical_and(ops.not_equal(states, self.blank), ops.not_equal(states, before))
        alpha = ops.where(place < 2, emitted[0], never)
        for t in range(1, steps):
            one = ops.concat((never[:, :1], alpha[:, :-1]), 1)
            two = ops.concat((never[:, :2], alpha[:, :-2]), 1) if count > 1 else never
            two = ops.where(skips, two, IMPOSSIBLE)
            most = ops.maximum(ops.maximum(alpha, one), two)
            total = ops.exp(alpha - most) + ops.exp(one - most) + ops.exp(two - most)
            later = ops.maximum(most + ops.log(total) + emitted[t], IMPOSSIBLE)
            alpha = ops.where(ops.expand_dims(reach > t, 1), later, alpha)
        return self._ends(alpha, sizes, place)

    def _ends(self, alpha: Tensor, sizes: Tensor, place: Tensor) -> Tensor:
        """Losses from the last label and the blank after it."""
        last = ops.expand_dims(2 * sizes, 1)
        ends = ops.logical_or(place == last, place == last - 1)
        chosen = ops.where(ends, alpha, IMPOSSIBLE)
        most = ops.max(chosen, 1, keepdims=True)[0]
        loss = -(ops.squeeze(most, 1) + ops.log(ops.sum(ops.exp(chosen - most), 1)))
        other = 0.0 if self.zero_infinity else float("inf")
        return ops.where(loss > -0.5 * IMPOSSIBLE, other, loss)


def _rows(targets: Tensor, sizes: Tensor, batch: int) -> Tensor:
    """Targets as (N, S)."""
    if targets.ndim == 2 and targets.shape[0] == batch:
        return targets
    if targets.ndim != 1:
        raise ValueError(
            "For 'CTCLoss', 'targets' must have the shape (N, S) or (sum of the target lengths), "
            f"but has {targets.shape} for a batch of {batch}."
        )
    total = targets.shape[0]
    starts = ops.expand_dims(ops.cumsum(sizes, 0) - sizes, 1)
    return ops.gather(targets, ops.clamp(starts + ops.arange(total), 0, total - 1), 0)
