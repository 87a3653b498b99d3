"""Losses without reduction over the batch; the variants with reduction modes are the frontend's.

Compositions, computed in float32 for half floats and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_runtime import dtypes as dt

from ..ir import attributes as attr
from ..ir.graph import Builder, Node, Value
from ..ir.op import INTS, Array, Op, Sample, Spec
from ..ir.types import TensorType, broadcast_shapes
from ._members import Grads, case, define
from .elementwise import both, check_dtype, same_dtype, to_dtype, widen


def _without(x: TensorType, axis: int) -> TensorType:
    if not 0 <= axis < x.rank:
        raise ValueError(f"there is no class axis {axis} in {x}: it counts from 0")
    return x.with_shape(d for i, d in enumerate(x.shape) if i != axis)


def _spread(b: Builder, v: Value, like: Value, axis: int) -> Value:
    """A per-sample value with the class axis back as size 1."""
    shape = tuple(1 if i == axis else d for i, d in enumerate(like.shape))
    return b.reshape(v, shape=shape)


def _positions(b: Builder, labels: Value) -> Value:
    """Labels in a signed dtype wide enough for every class."""
    narrow = labels.dtype.itemsize < 4 or labels.dtype is dt.int32
    return to_dtype(b, labels, dt.int32 if narrow else dt.int64)


def _hot(b: Builder, labels: Value, like: Value, axis: int) -> Value:
    """Whether a class is the sample's label: a bool of the shape of the scores."""
    labels = _positions(b, labels)
    classes = b.iota(shape=like.shape, axis=axis, dtype=labels.dtype)
    return b.eq(classes, _spread(b, labels, like, axis))


def _log_softmax(x: Array, axis: int) -> Array:
    """Reference, in float64."""
    wide = x.astype(np.float64)
    low = wide - np.max(wide, axis=axis, keepdims=True) if wide.size else wide
    return low - np.log(np.sum(np.exp(low), axis=axis, keepdims=True))


class SoftmaxCrossEntropy(Op):
    """-sum(labels * log_softmax(logits)) over the class axis.

    Source: `mindspore.ops.SoftmaxCrossEntropyWithLogits`.
    Operands: logits and class probabilities of one type. Result: one loss per sample. The labels
    are taken as summing to 1: the gradient of the logits is softmax(logits) - labels for all.

    Attributes:
        axis: class axis, non-negative.
    """

    name = "softmax_cross_entropy"
    operands = ("logits", "labels")
    attrs = {"axis": attr.axis()}
    amp = "high"
    tolerance = 16.0

    def infer(self, x: TensorType, t: TensorType, *, axis: int) -> TensorType:
        check_dtype(self, x)
        same_dtype(self.name, x, t)
        if x.shape != t.shape:
            raise ValueError(f"softmax_cross_entropy needs operands of one shape, got {x} and {t}")
        return _without(x, axis)

    def expand(self, b: Builder, x: Value, t: Value, *, axis: int) -> Value:
        logp = b.log_softmax(widen(b, x), axis=axis)
        total = b.reduce_sum(b.mul(widen(b, t), logp), axes=(axis,), keepdims=False)
        return to_dtype(b, b.neg(total), x.dtype)

    def reference(self, x: Array, t: Array, *, axis: int) -> Array:
        logp = _log_softmax(x, axis)
        return -np.sum(t.astype(np.float64) * logp, axis=axis)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        """softmax(logits) - labels; of the labels -log_softmax(logits)."""
        (x, t), axis, dy = node.operands, node.attrs["axis"], dys[0]
        logp = b.log_softmax(widen(b, x), axis=axis)
        up = _spread(b, widen(b, dy), x, axis)
        dx = b.mul(up, b.sub(b.exp(logp), widen(b, t)))
        return [to_dtype(b, dx, x.dtype), to_dtype(b, b.neg(b.mul(up, logp)), t.dtype)]

    def samples(self) -> Sequence[Sample]:
        def two(shape: tuple[int, ...], axis: int) -> Sample:
            labels = Spec(shape, 1 / shape[axis], 1 / shape[axis])  # they sum to 1, exactly
            return case(shape, labels, axis=axis)
        return (two((4, 8), 1), two((2, 4, 3), 1), two((3, 1), 1), two((0, 4), 1))


class _Labelled(Op):
    """Base: scores and integer labels; the labels' shape is the scores' without the class axis.

    A label outside 0..C-1 selects nothing.
    """

    operands = ("input", "labels")
    attrs = {"axis": attr.axis()}
    amp = "high"
    tolerance = 16.0

    def infer(self, x: TensorType, labels: TensorType, *, axis: int) -> TensorType:
        check_dtype(self, x)
        if labels.dtype not in INTS:
            raise TypeError(f"{self.name} needs integer labels, got {labels}")
        out = _without(x, axis)
        if labels.shape != out.shape:
            raise ValueError(f"{self.name} of {x} needs labels of shape {out.shape}, got {labels}")
        return out

    def samples(self) -> Sequence[Sample]:
        def one(shape: tuple[int, ...], axis: int) -> Sample:
            rest = shape[:axis] + shape[axis + 1:]
            return case(shape, Spec(rest, 0, shape[axis], dt.int32), axis=axis)
        return (one((4, 7), 1), one((2, 5, 3), 1), one((3,), 0), one((3, 1), 1), one((0, 3), 1))


def _pick(x: Array, labels: Array, axis: int) -> Array:
    """x[label] along the axis, 0 for a label outside (reference)."""
    inside = (labels >= 0) & (labels < x.shape[axis])
    at = np.expand_dims(np.where(inside, labels, 0).astype(np.int64), axis)
    return np.where(inside, np.take_along_axis(x, at, axis).squeeze(axis), 0)


class SparseSoftmaxCrossEntropy(_Labelled):
    """-log_softmax(logits)[label] per sample; 0 for a label outside the classes.

    Source: `mindspore.ops.SparseSoftmaxCrossEntropyWithLogits` (without its mean).

    Attributes:
        axis: class axis, non-negative.
    """

    name = "sparse_softmax_cross_entropy"

    def expand(self, b: Builder, x: Value, labels: Value, *, axis: int) -> Value:
        logp = b.log_softmax(widen(b, x), axis=axis)
        return to_dtype(b, b.nll(logp, labels, axis=axis), x.dtype)

    def reference(self, x: Array, labels: Array, *, axis: int) -> Array:
        return -_pick(_log_softmax(x, axis), labels, axis)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        """softmax(logits) - one_hot(label), 0 for a label outside."""
        (x, labels), axis, dy = node.operands, node.attrs["axis"], dys[0]
        p = b.exp(b.log_softmax(widen(b, x), axis=axis))
        hot = _hot(b, labels, x, axis)
        at = _positions(b, labels)
        inside = b.logical_and(b.ge(at, b.scalar(0, like=at)),
                               b.lt(at, b.scalar(x.shape[axis], like=at)))
        wide = widen(b, dy)
        up = _spread(b, b.where(inside, wide, b.scalar(0, like=wide)), x, axis)
        miss = b.where(hot, b.sub(p, b.scalar(1, like=p)), p)
        return [to_dtype(b, b.mul(up, miss), x.dtype), None]


class Nll(_Labelled):
    """-input[label] per sample, input being log-probabilities; 0 for a label outside.

    Source: `mindspore.ops.nll_loss` (without weights and reduction).

    Attributes:
        axis: class axis, non-negative.
    """

    name = "nll"

    def expand(self, b: Builder, x: Value, labels: Value, *, axis: int) -> Value:
        picked = b.where(_hot(b, labels, x, axis), b.neg(x), b.scalar(0, like=x))
        return b.reduce_sum(picked, axes=(axis,), keepdims=False)

    def reference(self, x: Array, labels: Array, *, axis: int) -> Array:
        return -_pick(x, labels, axis)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        (x, labels), axis, dy = node.operands, node.attrs["axis"], dys[0]
        up = _spread(b, b.neg(dy), x, axis)
        return [b.where(_hot(b, labels, x, axis), up, b.scalar(0, like=x)), None]


class _Pointwise(Op):
    """Base: one loss per pair of elements, broadcast; `loss` and `slopes` in the compute dtype."""

    operands = ("input", "target")
    amp = "high"
    tolerance = 8.0

    def infer(self, x: TensorType, t: TensorType, **attrs: Any) -> TensorType:
        dtype = same_dtype(self.name, x, t)
        check_dtype(self, x)
        return TensorType(broadcast_shapes(x.shape, t.shape, f"operands of {self.name}"), dtype)

    def loss(self, b: Builder, x: Value, t: Value, **attrs: Any) -> Value:
        """The value."""
        raise TypeError(f"{self.name} has no formula")

    def slopes(self, b: Builder, x: Value, t: Value, **attrs: Any) -> tuple[Value, Value]:
        """Derivatives with respect to input and target."""
        raise TypeError(f"{self.name} has no slopes")

    def expand(self, b: Builder, x: Value, t: Value, **attrs: Any) -> Value:
        return to_dtype(b, self.loss(b, widen(b, x), widen(b, t), **attrs), x.dtype)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        (x, t), dy = node.operands, dys[0]
        slopes = self.slopes(b, widen(b, x), widen(b, t), **node.attrs)
        up = widen(b, dy)
        dx, dtarget = (to_dtype(b, b.mul(up, s), x.dtype) for s in slopes)
        return both(b, node, dx, dtarget)

    def settings(self) -> tuple[dict[str, Any], ...]:
        """Attributes of the samples."""
        return ({},)

    def span(self) -> tuple[float, float]:
        """The range of sample operands."""
        return -3.0, 3.0

    def samples(self) -> Sequence[Sample]:
        def two(x: tuple[int, ...], t: tuple[int, ...], attrs: dict[str, Any]) -> Sample:
            return case(Spec(x, *self.span()), Spec(t, *self.span()), **attrs)
        first, *more = self.settings()
        return (two((4, 9), (4, 9), first), two((3, 5), (5,), first), two((), (), first),
                two((0, 2), (0, 2), first), *(two((4, 9), (4, 9), a) for a in more))


def _c(b: Builder, x: float, like: Value) -> Value:
    return b.scalar(x, like=like)


def _opposite(b: Builder, slope: Value) -> tuple[Value, Value]:
    """Slopes of a function of input - target."""
    return slope, b.neg(slope)


define(_Pointwise, "squared_error",
       "(input - target)**2. Source: `mindspore.ops.mse_loss` (without reduction).",
       lambda x, t: np.square(x - t), loss=lambda self, b, x, t: b.square(b.sub(x, t)),
       slopes=lambda self, b, x, t: _opposite(b, b.mul(b.sub(x, t), _c(b, 2, x))))
define(_Pointwise, "absolute_error",
       "|input - target|. Source: `mindspore.ops.l1_loss` (without reduction).",
       lambda x, t: np.abs(x - t), loss=lambda self, b, x, t: b.abs(b.sub(x, t)),
       slopes=lambda self, b, x, t: _opposite(b, b.sign(b.sub(x, t))))


class SmoothL1(_Pointwise):
    """d*d/(2 beta) where d = |input - target| < beta, else d - beta/2.

    Source: `mindspore.ops.smooth_l1_loss` (without reduction).

    Attributes:
        beta: where the pieces meet; 0 gives |input - target|.
    """

    name = "smooth_l1"
    attrs = {"beta": attr.real(1.0)}

    def settings(self) -> tuple[dict[str, Any], ...]:
        return {}, {"beta": 0.5}, {"beta": 0.0}

    def loss(self, b: Builder, x: Value, t: Value, *, beta: float) -> Value:
        d = b.abs(b.sub(x, t))
        if beta == 0:
            return d
        near = b.div(b.mul(b.mul(d, d), _c(b, 0.5, d)), _c(b, beta, d))
        return b.where(b.lt(d, _c(b, beta, d)), near, b.sub(d, _c(b, 0.5 * beta, d)))

    def slopes(self, b: Builder, x: Value, t: Value, *, beta: float) -> tuple[Value, Value]:
        d = b.sub(x, t)
        if beta == 0:
            return _opposite(b, b.sign(d))
        far = b.ge(b.abs(d), _c(b, beta, d))
        return _opposite(b, b.where(far, b.sign(d), b.div(d, _c(b, beta, d))))

    def reference(self, x: Array, t: Array, *, beta: float) -> Array:
        d = np.abs(x - t)
        return np.where(d < beta, d * d / (2 * beta or 1), d - beta / 2)


class Huber(_Pointwise):
    """d*d/2 where d = |input - target| <= delta, else delta * (d - delta/2).

    Source: `mindspore.ops.huber_loss` (without reduction).

    Attributes:
        delta: where the pieces meet, positive.
    """

    name = "huber"
    attrs = {"delta": attr.real(1.0)}

    def settings(self) -> tuple[dict[str, Any], ...]:
        return {}, {"delta": 2.0}

    def loss(self, b: Builder, x: Value, t: Value, *, delta: float) -> Value:
        d = b.abs(b.sub(x, t))
        near = b.mul(b.mul(d, d), _c(b, 0.5, d))
        far = b.mul(b.sub(d, _c(b, 0.5 * delta, d)), _c(b, delta, d))
        return b.where(b.le(d, _c(b, delta, d)), near, far)

    def slopes(self, b: Builder, x: Value, t: Value, *, delta: float) -> tuple[Value, Value]:
        d = b.sub(x, t)
        far = b.mul(b.sign(d), _c(b, delta, d))
        return _opposite(b, b.where(b.gt(b.abs(d), _c(b, delta, d)), far, d))

    def reference(self, x: Array, t: Array, *, delta: float) -> Array:
        d = np.abs(x - t)
        return np.where(d <= delta, 0.5 * d * d, delta * (d - 0.5 * delta))


_TINY = 1e-12


class BinaryCrossEntropy(_Pointwise):
    """-(t log x + (1-t) log(1-x)), logarithms of at least 1e-12.

    Source: `mindspore.ops.binary_cross_entropy` (without weight and reduction). The slope is
    (x - t) / max(x (1-x), 1e-12).
    """

    name = "bce"

    def span(self) -> tuple[float, float]:
        return 0.05, 0.95

    def _logs(self, b: Builder, x: Value) -> tuple[Value, Value]:
        tiny = _c(b, _TINY, x)
        return (b.log(b.maximum(x, tiny)), b.log(b.maximum(b.sub(_c(b, 1, x), x), tiny)))

    def loss(self, b: Builder, x: Value, t: Value) -> Value:
        yes, no = self._logs(b, x)
        return b.neg(b.add(b.mul(t, yes), b.mul(b.sub(_c(b, 1, t), t), no)))

    def slopes(self, b: Builder, x: Value, t: Value) -> tuple[Value, Value]:
        yes, no = self._logs(b, x)
        width = b.maximum(b.mul(x, b.sub(_c(b, 1, x), x)), _c(b, _TINY, x))
        return b.div(b.sub(x, t), width), b.sub(no, yes)

    def reference(self, x: Array, t: Array) -> Array:
        w, t = x.astype(np.float64), t.astype(np.float64)
        return -(t * np.log(np.maximum(w, _TINY)) + (1 - t) * np.log(np.maximum(1 - w, _TINY)))


class BceWithLogits(_Pointwise):
    """-(t log s + (1-t) log(1-s)) with s = sigmoid(input), without overflow.

    Source: `mindspore.ops.binary_cross_entropy_with_logits` (without weights and reduction).
    """

    name = "bce_with_logits"

    def loss(self, b: Builder, x: Value, t: Value) -> Value:
        """log(1 + exp(-|x|)) + x (1 - t) or, where x is negative, - x t; an infinite logit that is
        right costs nothing."""
        zero = _c(b, 0, x)
        wrong = b.where(b.gt(x, zero), b.sub(_c(b, 1, t), t), b.neg(t))
        cost = b.where(b.eq(wrong, zero), zero, b.mul(x, wrong))
        return b.add(b.log1p(b.exp(b.neg(b.abs(x)))), cost)

    def slopes(self, b: Builder, x: Value, t: Value) -> tuple[Value, Value]:
        return b.sub(b.sigmoid(x), t), b.neg(x)

    def reference(self, x: Array, t: Array) -> Array:
        w, t = x.astype(np.float64), t.astype(np.float64)
        wrong = np.where(w > 0, 1 - t, -t)
        return np.log1p(np.exp(-np.abs(w))) + np.where(wrong == 0, 0, w * wrong)


class KlDiv(_Pointwise):
    """target * (log target - input), input being log-probabilities; 0 where target <= 0.

    Source: `mindspore.ops.kl_div` (without reduction).
    """

    name = "kl_div"

    def span(self) -> tuple[float, float]:
        return 0.1, 1.0

    def loss(self, b: Builder, x: Value, t: Value) -> Value:
        nothing = b.le(t, _c(b, 0, t))
        safe = b.where(nothing, _c(b, 1, t), t)
        return b.where(nothing, _c(b, 0, x), b.mul(t, b.sub(b.log(safe), x)))

    def slopes(self, b: Builder, x: Value, t: Value) -> tuple[Value, Value]:
        zero = _c(b, 0, t)
        nothing = b.le(t, zero)
        safe = b.where(nothing, _c(b, 1, t), t)
        dtarget = b.sub(b.add(b.log(safe), _c(b, 1, t)), x)
        return b.neg(b.where(nothing, zero, t)), b.where(nothing, zero, dtarget)

    def reference(self, x: Array, t: Array) -> Array:
        safe = np.where(t <= 0, 1, t)
        return np.where(t <= 0, np.zeros((), x.dtype), t * (np.log(safe) - x))
