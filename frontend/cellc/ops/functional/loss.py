"""Losses and distances, with their reduction modes. 16-bit floats are computed in float32.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

from cellc_compiler.ops.loss import SoftmaxCrossEntropy
from cellc_runtime.dtypes import int64

from ...core.declared import BOOL, misuse
from ...core.dispatch import apply, apply_one, stays
from ...core.native import native
from ...tensors.index_plan import check_range, known_elements
from ...tensors.promotion import cast_to, inexact, operands
from ...tensors.tensor import Tensor, tensor_of
from ..arguments import choice, number, ranked, size, tensor
from ..operands import operands_of
from . import arith, indexing, reductions, shapes, statistics

_REDUCTIONS = ("mean", "sum", "none")


def _reduce(x: Tensor, reduction: str, what: str) -> Tensor:
    mode = choice(reduction, _REDUCTIONS, what, "reduction")
    if mode == "none":
        return x
    return reductions.mean(x) if mode == "mean" else reductions.sum(x)


def _floats(what: str, input: Any, target: Any) -> tuple[Tensor, Tensor]:
    x, y = operands(what, tensor(input, what), tensor(target, what, "target"))
    return inexact(x), inexact(y)


def _pointwise(op: str, input: Any, target: Any, reduction: str, what: str, **attrs: Any) -> Tensor:
    x, y = _floats(what, input, target)
    return _reduce(apply(op, x, y, **attrs), reduction, what)


# --- regression -----------------------------------------------------------------------------------


@native
def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """(input - target)**2, elementwise with broadcasting, reduced by "mean" (default), "sum" or
    "none". Ints are computed in float32."""
    return _pointwise("squared_error", input, target, reduction, "mse_loss")


@native
def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """|input - target|, elementwise with broadcasting, reduced by "mean" (default), "sum" or
    "none". Ints are computed in float32."""
    return _pointwise("absolute_error", input, target, reduction, "l1_loss")


@native
def smooth_l1_loss(
    input: Tensor, target: Tensor, beta: float = 1.0, reduction: str = "none"
) -> Tensor:
    """0.5 d**2 / beta where |d| < beta, |d| - 0.5 beta elsewhere, for d = input - target of one
    shape; reduced by "none" (default), "mean" or "sum"."""
    b = float(number(beta, "smooth_l1_loss", "beta"))
    if b <= 0:
        raise misuse("smooth_l1_loss", "'beta' must be positive", b)
    return _pointwise("smooth_l1", input, target, reduction, "smooth_l1_loss", beta=b)


@native
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0
) -> Tensor:
    """0.5 d**2 where |d| <= delta, delta (|d| - 0.5 delta) elsewhere, for d = input - target;
    reduced by "mean" (default), "sum" or "none"."""
    c = float(number(delta, "huber_loss", "delta"))
    if c <= 0:
        raise misuse("huber_loss", "'delta' must be positive", c)
    return _pointwise("huber", input, target, reduction, "huber_loss", delta=c)


@native
def gaussian_nll_loss(
    x: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-06,
    reduction: str = "mean",
) -> Tensor:
    """0.5 (log var + (x - target)**2 / var), var at least eps; plus 0.5 log(2 pi) if full."""
    BOOL(full, "gaussian_nll_loss", "full")
    if not isinstance(eps, float) or eps <= 0:
        raise misuse("gaussian_nll_loss", "'eps' must be a positive float", eps)
    a, b = _floats("gaussian_nll_loss", x, target)
    v = arith.maximum(tensor(var, "gaussian_nll_loss", "var"), eps)
    if v.ndim == a.ndim - 1 and v.shape == a.shape[:-1]:
        v = shapes.expand_dims(v, -1)
    d = a - b
    out = (apply("log", v) + d * d / v) * 0.5
    return _reduce(out + 0.5 * math.log(2 * math.pi) if full else out, reduction,
                   "gaussian_nll_loss")


# --- classification -------------------------------------------------------------------------------


@native
def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int = -100,
    reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:
    """The cross entropy of logits against class indices or probabilities.

    Args:
        input: logits (C), (N, C) or (N, C, d...).
        target: class indices () or (N) or (N, d...), ints; or probabilities, floats of the shape
            of the input.
        weight: a weight for each class, (C).
        ignore_index: a class index that does not count.
        reduction: `"mean"` (over the weights of the targets that count; over the batch for
            probabilities), `"sum"` or `"none"`.
        label_smoothing: how much of the target is spread over all classes, in [0, 1].
    """
    what = "cross_entropy"
    x, t = operands_of(what, "input float, target", input, target)
    smoothing = _smoothing(label_smoothing, what)
    choice(reduction, _REDUCTIONS, f"{what}_loss", "reduction")
    axis = 0 if x.ndim == 1 else 1
    wide = arith.wide(inexact(x))
    if t.dtype.is_inexact:
        logp = apply_one("log_softmax", wide, axis=axis)
        out = _soft_targets(logp, cast_to(t, logp.dtype), weight, reduction, smoothing, axis)
    elif weight is None and smoothing == 0.0:
        out = _by_class("sparse_softmax_cross_entropy", wide, t, ignore_index, reduction, what)
    else:
        logp = apply_one("log_softmax", wide, axis=axis)
        out = _nll(logp, t, weight, ignore_index, reduction, smoothing, what)
    return cast_to(out, inexact(x).dtype)


def softmax_cross_entropy(
    logits: Tensor, labels: Tensor, reduction: str = "none"
) -> Tensor:
    """The cross entropy of logits (N, C) against labels that sum to 1 and have no gradient."""
    what = "SoftmaxCrossEntropyWithLogits"
    x, t = ranked(logits, 2, 2, what, "logits"), tensor(labels, what, "labels")
    if t.shape != x.shape:
        raise ValueError(f"For '{what}', labels that are probabilities must have the shape of the "
                         f"logits {x.shape}, but got {t.shape}{class_labels(t)}.")
    wide = arith.wide(inexact(x))
    each = apply_one(SoftmaxCrossEntropy.name, wide, indexing.stop_gradient(cast_to(t, wide.dtype)),
                     axis=1)
    return cast_to(_reduce(each, reduction, what), inexact(x).dtype)


def sparse_softmax_cross_entropy(logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """The cross entropy of logits (N, C) against class indices (N).

    The mean also takes logits (d..., C) with the classes on the last axis, and labels (d...).
    """
    most = None if reduction == "mean" else 2
    return cross_entropy(*label_rows(logits, labels, "SoftmaxCrossEntropyWithLogits", most),
                         reduction=reduction)


def label_rows(
    logits: Tensor, labels: Tensor, what: str, most: int | None = None
) -> tuple[Tensor, Tensor]:
    """Logits (d..., C) of at most `most` axes as (N, C), and their class indices (d...) as (N)."""
    x, t = ranked(logits, 2, most, what, "logits"), tensor(labels, what, "labels")
    if x.ndim == 2:
        return x, t
    if t.shape != x.shape[:-1]:
        raise misuse(what, "'labels' must have the shape of the logits without their last axis, "
                     f"{x.shape[:-1]}", t.shape)
    return shapes.reshape(x, (-1, x.shape[-1])), shapes.reshape(t, (-1,))


def _by_class(
    op: str, x: Tensor, t: Tensor, ignore_index: int, reduction: str, what: str
) -> Tensor:
    """A loss of one op per sample; negative classes and `ignore_index` count for nothing."""
    axis = 0 if ranked(x, 1, None, what, "inputs").ndim == 1 else 1
    _check_classes(x, t, axis, what)
    ignored = size(ignore_index, what, "ignore_index", -(1 << 63), (1 << 63) - 1)
    _check_labels(t, ignored, x.shape[axis], what)
    counts = arith.ne(t, ignored)
    labels = arith.where(counts, t, -1) if 0 <= ignored < x.shape[axis] else t
    each: Tensor = apply(op, x, labels, axis=axis)
    mode = choice(reduction, _REDUCTIONS, what, "reduction")
    if mode == "none":
        return each
    total = reductions.sum(each)
    return total if mode == "sum" else total / reductions.sum(cast_to(counts, x.dtype))


def _check_classes(x: Tensor, t: Tensor, axis: int, what: str) -> None:
    want = x.shape[:axis] + x.shape[axis + 1 :]
    if t.shape != want:
        raise misuse(what, f"class indices must have shape {want} for an input of {x.shape}",
                     t.shape)


def _check_labels(t: Tensor, ignored: int, classes: int, what: str) -> None:
    """An IndexError for a class there is not, now or when the graph runs."""
    known = None if stays(t) else known_elements(t)
    if ignored < classes:
        checked = t
    elif known is not None:
        checked = tensor_of(known[known != ignored])
    else:
        checked = arith.where(t != ignored, t, 0)
    # Negative classes count for nothing; what is as low as no `ignore_index` is a mistake.
    check_range(checked, min(ignored, -classes), classes,
                f"For '{what}', class indices must be in [0, {classes}), but got ", 0, ".")


def _smoothing(value: Any, what: str) -> float:
    s = float(number(value, what, "label_smoothing"))
    if not 0.0 <= s <= 1.0:
        raise misuse(what, "'label_smoothing' must be in [0, 1]", s)
    return s


def _per_class(weight: Tensor, like: Tensor, axis: int, what: str) -> Tensor:
    """Class weights shaped to broadcast along the class axis."""
    w = cast_to(tensor(weight, what, "weight"), like.dtype)
    if w.shape != (like.shape[axis],):
        raise misuse(what, f"'weight' must have shape ({like.shape[axis]},)", w.shape)
    return shapes.reshape(w, tuple(w.size if i == axis else 1 for i in builtins.range(like.ndim)))


def class_labels(t: Tensor) -> str:
    """Return the hint for a float target that does not fit: class labels are ints."""
    return f" of {t.dtype}; a target of class labels must be ints: labels.astype(ms.int32)"


def _soft_targets(
    logp: Tensor, t: Tensor, weight: Tensor | None, reduction: str, smoothing: float, axis: int
) -> Tensor:
    what = "cross_entropy"
    if t.shape != logp.shape:
        raise misuse(what,
                     f"a target of probabilities must have the shape of the input {logp.shape}",
                     f"{t.shape}{class_labels(t)}")
    if smoothing > 0:
        t = arith.add(t * (1.0 - smoothing), smoothing / max(logp.shape[axis], 1))
    terms = logp * t
    if weight is not None:
        terms = terms * _per_class(weight, logp, axis, what)
    loss = -reductions.sum(terms, axis)
    if reduction == "mean":
        return reductions.sum(loss) / float(max(loss.size, 1))
    return _reduce(loss, reduction, what)


@native
def nll_loss(
    inputs: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int = -100,
    reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:
    """The negative of the log-probability of each target class.

    Args:
        inputs: log-probabilities (C), (N, C) or (N, C, d...).
        target: class indices () or (N) or (N, d...), ints.
        weight, ignore_index, reduction, label_smoothing: as in `cross_entropy`.
    """
    x = tensor(inputs, "nll_loss", "inputs")
    t = tensor(target, "nll_loss", "target")
    if not t.dtype.is_integer:
        raise misuse("nll_loss", "'target' must be a tensor of ints (class labels)",
                     f"{t.dtype}: labels.astype(ms.int32)", TypeError)
    smoothing = _smoothing(label_smoothing, "nll_loss")
    wide = arith.wide(inexact(x))
    if weight is None and smoothing == 0.0:
        out = _by_class("nll", wide, t, ignore_index, reduction, "nll_loss")
    else:
        out = _nll(wide, t, weight, ignore_index, reduction, smoothing, "nll_loss")
    return cast_to(out, inexact(x).dtype)


def _nll(
    logp: Tensor, t: Tensor, weight: Tensor | None, ignore_index: int, reduction: str,
    smoothing: float, what: str,
) -> Tensor:
    axis = 0 if logp.ndim == 1 else 1
    _check_classes(logp, t, axis, what)
    index = cast_to(t, int64)
    ignored = size(ignore_index, what, "ignore_index", -(1 << 63), (1 << 63) - 1)
    _check_labels(index, ignored, logp.shape[axis], what)
    counts = arith.ne(index, ignored)
    index = arith.where(counts, index, 0)  # any class will do where the target does not count
    picked = _pick_class(logp, index, axis)
    table = None if weight is None else _per_class(weight, logp, axis, what)
    w = cast_to(counts, logp.dtype) if table is None \
        else _pick_class(shapes.broadcast_to(table, logp.shape), index, axis) * \
        cast_to(counts, logp.dtype)
    loss = arith.where(counts, -(picked * w), 0.0)
    if smoothing > 0:
        spread = reductions.sum(logp if table is None else arith.mul(logp, table), axis)
        smooth = arith.where(counts, -arith.mul(spread, smoothing / logp.shape[axis]), 0.0)
        loss = loss * (1.0 - smoothing) + smooth
    mode = choice(reduction, _REDUCTIONS, what, "reduction")
    if mode == "mean":
        return reductions.sum(loss) / reductions.sum(w)
    return loss if mode == "none" else reductions.sum(loss)


def _pick_class(x: Tensor, index: Tensor, axis: int) -> Tensor:
    """x at the class each index names, the class axis dropped."""
    found: Tensor = apply("gather_elements", x, shapes.expand_dims(index, axis), dim=axis)
    return shapes.squeeze(found, axis)


@native
def binary_cross_entropy(
    logits: Tensor, labels: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """-w (y log p + (1 - y) log(1 - p)) of probabilities p (`logits`) and labels y of one shape,
    each logarithm at least that of 1e-12; reduced by "mean" (default), "sum" or "none"."""
    what = "binary_cross_entropy"
    p, y = _floats(what, logits, labels)
    if p.shape != y.shape:
        raise misuse(what, f"shapes {p.shape} and {y.shape} must be equal")
    loss: Tensor = apply("bce", p, y)
    return _reduce(loss if weight is None else arith.mul(loss, weight), reduction, what)


@native
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None,
    pos_weight: Tensor | None = None, reduction: str = "mean",
) -> Tensor:
    """The binary cross entropy of sigmoid(input), stable for large logits.

    Args:
        weight: factor of each loss.
        pos_weight: factor of the part of the positive class.
    """
    what = "binary_cross_entropy_with_logits"
    x, y = _floats(what, input, target)
    if pos_weight is None:
        loss: Tensor = apply("bce_with_logits", x, y)
    else:
        # log(1 + exp(-|x|)) + max(-x, 0) is log(1 + exp(-x)) without overflow.
        softplus = apply("log1p", apply("exp", -arith.abs(x))) + arith.maximum(-x, 0.0)
        factor = arith.sub(pos_weight, 1.0) * y + 1.0
        loss = (1.0 - y) * x + factor * softplus
    return _reduce(loss if weight is None else arith.mul(loss, weight), reduction, what)


@native
def kl_div(logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """labels (log labels - logits) of log-probabilities and probabilities; 0 for labels <= 0.

    As in MindSpore, labels have no gradient (those of `mint.nn.functional.kl_div` have).

    Args:
        reduction: also `"batchmean"`: the sum over the number of rows.
    """
    x, y = _floats("kl_div", logits, labels)
    loss: Tensor = apply("kl_div", x, apply("stop_gradient", y))
    choice(reduction, (*_REDUCTIONS, "batchmean"), "kl_div", "reduction")
    if reduction == "batchmean":
        return reductions.sum(loss) / float(loss.shape[0] if loss.ndim else 1)
    return _reduce(loss, reduction, "kl_div")


# --- similarity and margins -----------------------------------------------------------------------


@native
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-08) -> Tensor:
    """sum(x1 x2) / (max(|x1|, eps) max(|x2|, eps)) along `dim`: the cosine of the angle between
    vectors, between -1 and 1. The operands broadcast."""
    given, other = _floats("cosine_similarity", x1, x2)
    a, b = arith.wide(given), arith.wide(other)
    dot = reductions.sum(a * b, dim)
    size_a, size_b = (statistics.norm(v, None, dim) for v in (a, b))
    cos = dot / (arith.maximum(size_a, float(eps)) * arith.maximum(size_b, float(eps)))
    return cast_to(cos, given.dtype)


@native
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1, for the cosine of the
    rows of two (N, D); reduced by "mean" (default), "sum" or "none"."""
    if not -1.0 <= number(margin, "cosine_embedding_loss", "margin") <= 1.0:
        raise misuse("cosine_embedding_loss", "'margin' must be in [-1, 1]", margin)
    a, b = _floats("cosine_embedding_loss", input1, input2)
    cos = cosine_similarity(a, b, -1)
    loss = arith.where(arith.eq(target, 1), 1.0 - cos,
                       arith.where(arith.eq(target, -1), arith.maximum(cos - float(margin), 0.0),
                                   0.0))
    return _reduce(loss, reduction, "cosine_embedding_loss")


@native
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """max(0, -target (input1 - input2) + margin): a target of 1 asks for input1 > input2, one of -1
    for the opposite. Reduced by "mean" (default), "sum" or "none"."""
    d = tensor(input1, "margin_ranking_loss") - tensor(input2, "margin_ranking_loss")
    loss = arith.maximum(-tensor(target, "margin_ranking_loss", "target") * d + float(margin), 0.0)
    return _reduce(loss, reduction, "margin_ranking_loss")


@native
def hinge_embedding_loss(
    inputs: Tensor, targets: Tensor, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """inputs where the target is 1, max(0, margin - inputs) where it is -1, of one shape; reduced
    by "mean" (default), "sum" or "none"."""
    x, y = _floats("hinge_embedding_loss", inputs, targets)
    far = arith.maximum(float(margin) - x, 0.0)
    loss = arith.where(y == 1, x, arith.where(y == -1, far, 0.0))
    return _reduce(loss, reduction, "hinge_embedding_loss")


@native
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float | Tensor = 1.0,
    p: float = 2, eps: float = 1e-06, swap: bool = False, reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), d the p-norm, reduced.

    Args:
        margin: a number, or a tensor without axes.
        eps: added to each difference, so that the distance has a gradient at 0.
        swap: use d(positive, negative) where it is smaller than d(anchor, negative).
    """
    shift, order = (float(number(v, "triplet_margin_loss", name))
                    for v, name in ((eps, "eps"), (p, "p")))
    least = margin if isinstance(margin, Tensor) and margin.ndim == 0 else float(
        number(margin, "triplet_margin_loss", "margin"))

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return statistics.norm(arith.add(arith.sub(a, b), shift), order, -1)

    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = arith.minimum(far, distance(positive, negative))
    if isinstance(least, Tensor):
        least = cast_to(least, near.dtype)
    loss = arith.maximum(arith.add(arith.sub(near, far), least), 0.0)
    return _reduce(loss, reduction, "triplet_margin_loss")


@native
def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input)) for targets of -1 and 1 of the shape of the input, reduced by
    "mean" (default), "sum" or "none"."""
    x, y = _floats("soft_margin_loss", input, target)
    z = -(y * x)
    out = arith.maximum(z, 0.0) + apply("log1p", apply("exp", -arith.abs(z)))
    return _reduce(out, reduction, "soft_margin_loss")


@native
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """The mean over classes of the binary cross entropy with logits, reduced over the batch."""
    loss = binary_cross_entropy_with_logits(input, target, weight, None, "none")
    return _reduce(reductions.mean(loss, -1), reduction, "multilabel_soft_margin_loss")


@native
def multilabel_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The hinge loss of scores against several classes each: the sum over classes j of the target
    and i not of it of max(0, 1 - (x[j] - x[i])), over the number of classes.

    Args:
        input: scores, (C) or (N, C), float16 or float32.
        target: int32 of that shape: the classes of an example first, then -1.
        reduction: `"mean"`, `"sum"` or `"none"`.
    """
    what = "multilabel_margin_loss"
    x, t = operands_of(what, "input float, target index", input, target)
    if x.ndim not in (1, 2) or x.shape != t.shape:
        raise misuse(what, "'input' and 'target' must have one shape (C) or (N, C)",
                     f"{x.shape} and {t.shape}")
    rows, labels = (shapes.reshape(v, (-1, x.shape[-1])) for v in (x, cast_to(t, int64)))
    count = rows.shape[1]
    ended: Tensor = apply("cumsum", cast_to(labels < 0, int64), axis=1)
    used = ended == 0
    chosen = arith.where(used, labels, 0)
    own = indexing.gather_elements(rows, 1, chosen)
    cells = apply("iota", shape=(1, 1, count), axis=2, dtype=int64)
    hit = arith.logical_and(
        arith.eq(shapes.expand_dims(chosen, 2), cells), shapes.expand_dims(used, 2))
    of_target = reductions.any(hit, 1, True)
    gap = shapes.expand_dims(rows, 1) + 1.0 - shapes.expand_dims(own, 2)
    wanted = arith.logical_and(shapes.expand_dims(used, 2), arith.logical_not(of_target))
    each = reductions.sum(arith.where(wanted, arith.maximum(gap, 0.0), 0.0), (1, 2)) / float(count)
    if x.ndim == 1:
        each = shapes.squeeze(each, 0)
    return _reduce(cast_to(each, x.dtype), reduction, what)


@native
def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1, weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The hinge loss of class scores (n, c).

    Args:
        p: the power of the hinge, 1 or 2.
        weight: of each class.
    """
    x, y = operands_of("multi_margin_loss", "input (n, c), target (n)", input, target)
    if p not in (1, 2):
        raise misuse("multi_margin_loss", "'p' must be 1 or 2", p)
    if not y.dtype.is_integer:
        raise misuse("multi_margin_loss", "'target' must be a tensor of ints (class labels)",
                     f"{y.dtype}: labels.astype(ms.int32)", TypeError)
    label = shapes.reshape(cast_to(y, int64), (-1, 1))
    own: Tensor = apply("gather_elements", x, label, dim=1)
    hinge = arith.maximum(x - own + float(margin), 0.0)
    hinge = hinge * hinge if p == 2 else hinge
    if weight is not None:
        hinge = hinge * apply("gather", weight, label, axis=0)
    cells = apply("iota", shape=x.shape, axis=1, dtype=int64)
    each = reductions.sum(arith.where(arith.eq(cells, label), 0.0, hinge), 1)
    return _reduce(each / float(x.shape[1]), reduction, "multi_margin_loss")
