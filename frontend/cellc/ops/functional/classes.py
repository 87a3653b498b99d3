"""Classes: candidates drawn among many, the labels of a sequence, incomplete gamma functions.

Source: the same names in `mindspore.ops`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cellc_compiler.ir.types import MOST_PARTS
from cellc_runtime.dtypes import float32, float64, int64

from ...core.declared import misuse
from ...core.dispatch import apply, apply_one, scan
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor, tensor_of
from ..arguments import boolean, integer, size, tensor
from ..operands import operands_of
from . import arith, creation, draws, indexing, joining, reductions, shapes, sorting

# --- candidates -----------------------------------------------------------------------------------


def _classes(true_classes: Any, num_true: Any, what: str) -> Tensor:
    count = integer(num_true, what, "num_true")
    return operands_of(what, f"true_classes index (batch, {count})", true_classes)[0]


def _counts(num_sampled: Any, range_max: Any, unique: Any, what: str) -> tuple[int, int, bool]:
    sampled, classes = integer(num_sampled, what, "num_sampled"), \
        integer(range_max, what, "range_max")
    once = boolean(unique, what, "unique")
    if sampled < 1 or classes < 1 or (once and sampled > classes):
        raise misuse(what,
                     "'num_sampled' must be positive and, if 'unique', not larger than 'range_max'",
                     f"{sampled} and {classes}")
    return sampled, classes, once


def _expect(chances: np.ndarray[Any, Any], sampled: int, once: bool) -> np.ndarray[Any, Any]:
    """How often each class is expected among `sampled` draws of these probabilities.

    Without repetition: the chance that it is among as many draws with repetition as have `sampled`
    different results on average.
    """
    if not once:
        return chances * sampled
    if sampled >= np.count_nonzero(chances):
        return np.ones_like(chances)
    low, high = 0.0, 1.0
    log_rest = np.log1p(-np.minimum(chances, 1 - 1e-16))
    while -np.expm1(high * log_rest).sum() < sampled:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        enough = -np.expm1(middle * log_rest).sum() >= sampled
        low, high = (low, middle) if enough else (middle, high)
    result: np.ndarray[Any, Any] = -np.expm1(high * log_rest)
    return result


def _candidates(
    true: Tensor, chances: np.ndarray[Any, Any], sampled: int, once: bool, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Classes drawn with these probabilities (Gumbel's trick), and what is expected of each."""
    n = chances.size
    logits = tensor_of(np.log(chances).astype(np.float32))
    rows = 1 if once else sampled
    u = draws.rand(rows, n, dtype=float32, seed=seed if seed else None)
    noise = arith.neg(apply("log", arith.neg(apply("log", arith.maximum(u, 1e-37)))))
    keys = noise + logits
    if once:
        _, drawn = sorting.topk(shapes.reshape(keys, (n,)), sampled)
    else:
        drawn = reductions.argmax(keys, 1)
    drawn = cast_to(drawn, true.dtype)
    expected = tensor_of(_expect(chances, sampled, once).astype(np.float32))
    # A class out of range has the count of the last one, as no candidate equals it.
    of_true: Tensor = apply("gather", expected, arith.clamp(true, 0, n - 1), axis=0)
    return drawn, of_true, apply("gather", expected, drawn, axis=0)


def uniform_candidate_sampler(
    true_classes: Tensor, num_true: int, num_sampled: int, unique: bool, range_max: int,
    seed: int = 0, remove_accidental_hits: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Classes drawn uniformly, to train against instead of all.

    Args:
        true_classes: (batch, num_true), the classes that belong to the examples.
        num_sampled: how many are drawn.
        unique: no class is drawn twice.
        range_max: classes are 0 to range_max - 1.
        seed: 0: the global generator.
        remove_accidental_hits: accepted; draws do not depend on the true classes.

    Returns:
        The drawn classes; how often each true class and each drawn class is expected among them.
    """
    what = "uniform_candidate_sampler"
    true = _classes(true_classes, num_true, what)
    sampled, classes, once = _counts(num_sampled, range_max, unique, what)
    boolean(remove_accidental_hits, what, "remove_accidental_hits")
    return _candidates(true, np.full(classes, 1 / classes), sampled, once,
                       integer(seed, what, "seed"))


def log_uniform_candidate_sampler(
    true_classes: Tensor, num_true: int = 1, num_sampled: int = 5, unique: bool = True,
    range_max: int = 5, seed: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """`uniform_candidate_sampler` with probabilities log((k + 2) / (k + 1)) / log(range_max + 1).
    """
    what = "log_uniform_candidate_sampler"
    true = _classes(true_classes, num_true, what)
    sampled, classes, once = _counts(num_sampled, range_max, unique, what)
    k = np.arange(classes)
    return _candidates(true, np.log1p(1 / (k + 1)) / math.log(classes + 1), sampled, once,
                       integer(seed, what, "seed"))


# --- sequences ------------------------------------------------------------------------------------


def ctc_greedy_decoder(
    inputs: Tensor, sequence_length: Tensor, merge_repeated: bool = True
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The most likely label of each step of CTC scores, without blanks.

    Args:
        inputs: (steps, batch, classes); the last class is the blank.
        sequence_length: int32 (batch), steps of each sample.
        merge_repeated: equal labels of neighbouring steps are one.

    Returns:
        Positions (found, 2) of the labels, rows of (sample, place); the labels (found); the shape
        (batch, longest) they fill; the negated sums (batch, 1) of the largest scores.
    """
    what = "ctc_greedy_decoder"
    x, lengths = operands_of(
        what, "inputs (steps, batch, classes), sequence_length (batch)", inputs, sequence_length)
    merged = boolean(merge_repeated, what, "merge_repeated")
    steps, batch, classes = x.shape
    best = cast_to(reductions.argmax(x, 2), int64)
    step = apply("iota", shape=(steps, batch), axis=0, dtype=int64)
    within = arith.lt(step, cast_to(lengths, int64))
    kept = arith.logical_and(within, arith.ne(best, classes - 1))
    if merged:
        none = creation.full((1, batch), -1, dtype=int64)
        before = joining.concat((none, joining.part(best, 0, 0, steps - 1)), 0)
        kept = arith.logical_and(kept, best != before)
    score = -reductions.sum(arith.where(within, reductions.amax(x, 2), 0.0), 0)
    kept, best = shapes.transpose(kept, (1, 0)), shapes.transpose(best, (1, 0))
    count = reductions.cumsum(cast_to(kept, int64), 1)
    found = sorting.nonzero(kept)
    place = indexing.gather_nd(count, found) - 1
    positions = joining.stack((shapes.squeeze(joining.part(found, 1, 0, 1), 1), place), 1)
    longest = reductions.amax(shapes.reshape(count, (-1,)), 0)
    size = joining.stack((creation.full((), batch, dtype=int64), longest), 0)
    return positions, indexing.gather_nd(best, found), size, shapes.reshape(score, (batch, 1))


# --- incomplete gamma functions -------------------------------------------------------------------

_TRIPS = 320
"""Terms of the series and of the fraction: enough for 1e-9 where `input` is at most 1000."""


def _series(
    carried: list[Tensor], xs: list[Tensor], i: Tensor, captures: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    total, term = carried
    a, x = captures
    term = arith.mul(term, arith.div(x, arith.add(a, cast_to(i, float64) + 1.0)))
    return [arith.add(total, term), term], []


def _fraction(
    carried: list[Tensor], xs: list[Tensor], i: Tensor, captures: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """A step of Lentz's method."""
    h, c, d = carried
    a, x = captures
    n = cast_to(i, float64) + 1.0
    numerator = n * arith.sub(a, n)
    b = arith.sub(x, a) + (n * 2.0 + 1.0)
    d = 1.0 / not_zero(arith.mul(numerator, d) + b)
    c = not_zero(b + arith.div(numerator, c))
    return [arith.mul(h, arith.mul(c, d)), c, d], []


def not_zero(x: Tensor) -> Tensor:
    return arith.where(arith.eq(x, 0.0), 1e-300, x)


def _regularized_gamma(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """P(a, x) and Q(a, x) in float64, for broadcast operands: the series below a + 1, the continued
    fraction above (Numerical Recipes, 6.2)."""
    valid = arith.logical_and(a > 0.0, x >= 0.0)
    a = arith.where(valid, a, 1.0)
    whole = arith.logical_and(valid, x == math.inf)
    inner = arith.logical_and(arith.logical_and(valid, x > 0.0), x < math.inf)
    small = x < a + 1.0
    low = arith.where(arith.logical_and(inner, small), x, a * 0.5)
    (total, _), _ = scan(("igamma", "series"), [1.0 / a, 1.0 / a], [], [a, low], _TRIPS, _series)
    below = arith.mul(_weight(a, low), total)
    high = arith.where(arith.logical_and(inner, arith.logical_not(small)), x, a + 2.0)
    first = 1.0 / (high - a + 1.0)
    (h, _,
     _), _ = scan(("igamma", "fraction"), [first, creation.full(a.shape, 1e300, dtype=float64),
                                           first], [], [a, high], _TRIPS, _fraction)
    above = arith.mul(_weight(a, high), h)
    p = arith.where(small, below, 1.0 - above)
    q = arith.where(small, 1.0 - below, above)
    at_end = arith.where(whole, 1.0, 0.0)
    p, q = arith.where(inner, p, at_end), arith.where(inner, q, 1.0 - at_end)
    return arith.where(valid, p, math.nan), arith.where(valid, q, math.nan)


def _weight(a: Tensor, x: Tensor) -> Tensor:
    """x**a exp(-x) / gamma(a)."""
    power = a * apply("log", x)
    return apply_one("exp", power - x - apply("lgamma", a))


def _gammas(input: Any, other: Any, what: str) -> tuple[Tensor, Tensor, Any]:
    a, x = tensor(input, what, "input"), tensor(other, what, "other")
    if not a.dtype.is_float or a.dtype != x.dtype:
        raise misuse(what, "'input' and 'other' must have one float type",
                     f"{a.dtype} and {x.dtype}", TypeError)
    wide, other_wide = shapes.broadcast_tensors(cast_to(a, float64), cast_to(x, float64))
    return wide, other_wide, a.dtype


def mvlgamma(input: Tensor, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of p dimensions.

    log(pi) p (p - 1) / 4 + the sum of lgamma(input - i / 2) for i below p.

    Args:
        input: floats above (p - 1) / 2.
    """
    (x,), n = operands_of("mvlgamma", "input float", input), size(p, "mvlgamma", "p", 1, MOST_PARTS)
    total: Tensor = apply("lgamma", x)
    for i in range(1, n):
        total = total + apply("lgamma", arith.sub(x, i / 2))
    return arith.add(total, math.log(math.pi) * n * (n - 1) / 4)


def igamma(input: Tensor, other: Tensor) -> Tensor:
    """The lower regularized incomplete gamma function P(input, other); NaN out of its domain.

    Args:
        input: the exponent a > 0, up to about 1000.
        other: the upper bound x >= 0, of the same float type; the two broadcast.
    """
    a, x, to = _gammas(input, other, "igamma")
    return cast_to(_regularized_gamma(a, x)[0], to)


def igammac(input: Tensor, other: Tensor) -> Tensor:
    """The upper regularized incomplete gamma function: 1 - `igamma`, without cancellation."""
    a, x, to = _gammas(input, other, "igammac")
    return cast_to(_regularized_gamma(a, x)[1], to)
