"""Connectionist temporal classification (Graves et al., 2006): the forward algorithm, in logs."""

from __future__ import annotations

import math
from typing import Any

from cellc_runtime.dtypes import int32, int64

from ...core.declared import misuse
from ...core.dispatch import apply
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor
from ..arguments import boolean, choice, integer
from ..operands import operands_of
from . import arith, creation, joining, reductions, shapes

IMPOSSIBLE = -1e30
"""The log of the probability zero: finite, so that its gradients are zero and not NaN."""


def lengths_of(value: Any, count: int, what: str, name: str) -> Tensor:
    """Lengths of the batch as int32."""
    if isinstance(value, (tuple, list)):
        value = Tensor([integer(v, what, name) for v in value], int32)
    if not isinstance(value, Tensor) or value.dtype not in (int32, int64):
        raise misuse(what, f"'{name}' must be a tuple of ints or an integer Tensor", value,
                     TypeError)
    if value.size != count:
        raise misuse(what, f"'{name}' must have {count} lengths, one for each of the batch, but "
                     f"has the shape {value.shape}")
    return cast_to(shapes.reshape(value, (count,)), int32)


def states_of(labels: Tensor, blank: int) -> Tensor:
    """Labels (N, S) with a blank before, between and after them: (N, 2 S + 1)."""
    batch, count = labels.shape
    blanks = creation.full_like(labels, blank)
    pairs = shapes.reshape(joining.stack((blanks, labels), 2), (batch, 2 * count))
    return joining.concat((pairs, creation.full((batch, 1), blank, dtype=labels.dtype)), 1)


def forward(log_probs: Tensor, states: Tensor, reach: Tensor, blank: int) -> list[Tensor]:
    """Logs of the probabilities (N, states) of being in each state, after each step.

    Args:
        log_probs: (T, N, C), logs of probabilities.
        states: from `states_of`.
        reach: int32 (N), lengths of the inputs; later steps change nothing.
    """
    steps = log_probs.shape[0]
    batch, count = states.shape
    index = shapes.broadcast_to(shapes.expand_dims(states, 0), (steps, batch, count))
    emitted: Tensor = apply("gather_elements", log_probs, index, dim=2)
    never = creation.full((batch, count), IMPOSSIBLE, dtype=log_probs.dtype)
    # A label may follow another one without the blank between them.
    before = joining.concat((creation.full((batch, 2), blank, dtype=states.dtype),
                             joining.part(states, 1, 0, count - 2)), 1) if count > 1 else states
    skips = arith.logical_and(arith.ne(states, blank), states != before)
    alphas = [arith.where(creation.arange(count) < 2, emitted[0], never)]
    for t in range(1, steps):
        alpha = alphas[-1]
        one = _shift(never, alpha, 1)
        two = arith.where(skips, _shift(never, alpha, 2), IMPOSSIBLE) if count > 1 else never
        most = arith.maximum(arith.maximum(alpha, one), two)
        parts = [apply("exp", arith.sub(x, most)) for x in (alpha, one, two)]
        total: Tensor = apply("log", arith.add(arith.add(parts[0], parts[1]), parts[2]))
        later = arith.maximum(most + total + emitted[t], IMPOSSIBLE)
        alphas.append(arith.where(shapes.expand_dims(arith.gt(reach, t), 1), later, alpha))
    return alphas


def _shift(never: Tensor, alpha: Tensor, by: int) -> Tensor:
    return joining.concat(
        (joining.part(never, 1, 0, by), joining.part(alpha, 1, 0, alpha.shape[1] - by)), 1)


def ends(alpha: Tensor, sizes: Tensor, other: float) -> Tensor:
    """Losses (N) from the last label and the blank after it; `other` where there is no path."""
    place = creation.arange(alpha.shape[1])
    last = shapes.expand_dims(arith.mul(sizes, 2), 1)
    chosen = arith.where(arith.logical_or(place == last, place == last - 1), alpha, IMPOSSIBLE)
    most = reductions.amax(chosen, 1, True)
    total: Tensor = apply("log", reductions.sum(apply("exp", chosen - most), 1))
    loss = -(shapes.squeeze(most, 1) + total)
    return arith.where(arith.gt(loss, -0.5 * IMPOSSIBLE), other, loss)


def ctc_loss_v2(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "none", zero_infinity: bool = False, what: str = "CTCLossV2",
) -> tuple[Tensor, Tensor]:
    """Losses, and the logs of the forward probabilities (N, T, 2 S + 1).

    Arguments and errors (TypeError, ValueError) are those of `ctc_loss`; losses are not reduced.
    """
    x, labels = operands_of(
        what, "log_probs float (T, N, C), targets index (N, S)", log_probs, targets)
    _, batch, classes = x.shape
    if not 0 <= integer(blank, what, "blank") < classes:
        raise misuse(what, f"'blank' must be one of the {classes} classes, but is {blank}")
    choice(reduction, ("none", "mean", "sum"), what, "reduction")
    reach = lengths_of(input_lengths, batch, what, "input_lengths")
    sizes = lengths_of(target_lengths, batch, what, "target_lengths")
    states = states_of(arith.clamp(cast_to(labels, int32), 0, classes - 1), blank)
    alphas = forward(x, states, reach, blank)
    none = 0.0 if boolean(zero_infinity, what, "zero_infinity") else math.inf
    loss = ends(alphas[-1], sizes, none)
    stacked = joining.stack(alphas, 1)
    last = shapes.reshape(sizes * 2, (batch, 1, 1))
    there = arith.logical_and(arith.gt(stacked, 0.5 * IMPOSSIBLE),
                              creation.arange(states.shape[1]) <= last)
    step = shapes.reshape(creation.arange(x.shape[0]), (1, -1, 1))
    there = arith.logical_and(there, step < shapes.reshape(reach, (batch, 1, 1)))
    shown = arith.where(there, stacked, -math.inf)
    return loss, apply("stop_gradient", shown)


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> tuple[Tensor, Tensor]:
    """Minus the log of the probability that the classes read as the target.

    A reading leaves out repetitions, then blanks.

    Args:
        log_probs: (T, N, C), logs of probabilities; floats.
        targets: ints (N, S).
        input_lengths, target_lengths: of each of the batch; tuples of ints or Tensors (N).
        blank: the class that stands for no class.
        reduction: "mean" (each loss over its target's length first), "sum" or "none".
        zero_infinity: a loss is 0, not infinite, where the target does not fit into the input.

    Returns:
        The loss, and the logs of the forward probabilities (N, T, 2 S + 1), which have no gradient.
    """
    loss, alphas = ctc_loss_v2(log_probs, targets, input_lengths, target_lengths, blank, reduction,
                               zero_infinity, "ctc_loss")
    if reduction == "sum":
        return reductions.sum(loss), alphas
    if reduction == "mean":
        sizes = lengths_of(target_lengths, log_probs.shape[1], "ctc_loss", "target_lengths")
        return reductions.mean(loss / cast_to(arith.maximum(sizes, 1), loss.dtype)), alphas
    return loss, alphas
