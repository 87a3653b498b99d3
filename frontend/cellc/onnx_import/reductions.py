"""Reductions, running sums, softmax and its kin, losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from cellc_runtime import dtypes

from ..core.dispatch import apply_one
from ..ops.functional import indexing, shapes
from ..tensors.promotion import constant
from ..tensors.tensor import Tensor
from .shaping import reshaped
from .table import Array, Call, axes_of, axis_of, border_of, like, rule, rules, sizes, to, wide

A = apply_one
Reduce = Callable[[Tensor, Sequence[int], bool], Tensor]


def _op(name: str) -> Reduce:
    return lambda x, axes, keep: A(name, x, axes=tuple(axes), keepdims=keep)


def _l2(x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    x = x if x.dtype.is_float else to(x, dtypes.float64)
    return A("sqrt", _op("reduce_sum")(A("square", x), axes, keep))


def _mean(x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    return _op("reduce_mean")(x if x.dtype.is_float else to(x, dtypes.float64), axes, keep)


def _log_sum_exp(x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    if any(x.shape[a] == 0 for a in axes):
        return _empty("reduce_max", x, axes, keep)
    return _op("logsumexp")(x if x.dtype.is_float else to(x, dtypes.float64), axes, keep)


def _extremum(name: str) -> Reduce:
    def function(x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
        if x.dtype is not dtypes.bool_:
            dims = [x.shape[a] for a in axes]
            if any(d == 0 for d in dims):
                return _empty(name, x, axes, keep)
            return _op(name)(x, axes, keep)
        return _op("reduce_any" if name == "reduce_max" else "reduce_all")(x, axes, keep)

    return function


def _empty(name: str, x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    """The extremum of nothing: the least or greatest value of the type."""
    low, high = (-np.inf, np.inf) if x.dtype.is_float else (
        np.iinfo(x.dtype.numpy).min, np.iinfo(x.dtype.numpy).max)
    shape = [1 if i in axes else d for i, d in enumerate(x.shape) if keep or i not in axes]
    return A("broadcast_to", like(low if name == "reduce_max" else high, x), shape=tuple(shape))


_REDUCE: dict[str, Reduce] = {
    "ReduceSum": _op("reduce_sum"), "ReduceMean": _mean, "ReduceProd": _op("reduce_prod"),
    "ReduceMax": _extremum("reduce_max"), "ReduceMin": _extremum("reduce_min"),
    "ReduceL1": lambda x, axes, keep: _op("reduce_sum")(A("abs", x), axes, keep),
    "ReduceL2": _l2,
    "ReduceSumSquare": lambda x, axes, keep: _op("reduce_sum")(A("mul", x, x), axes, keep),
    "ReduceLogSum": lambda x, axes, keep: A("log", _op("reduce_sum")(x, axes, keep)),
    "ReduceLogSumExp": _log_sum_exp,
}


def _reduction(function: Reduce) -> Callable[..., Tensor]:
    def apply(c: Call, x: Tensor, axes: Array | None = None) -> Tensor:
        given = sizes(axes) if axes is not None else c.ints("axes")
        if not given and c.flag("noop_with_empty_axes"):
            chosen: tuple[int, ...] = ()
            if c.node.op in ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin"):
                return x
        else:
            chosen = axes_of(given, x.ndim) if given else tuple(range(x.ndim))
        if not x.ndim and x.dtype is not dtypes.bool_:
            x, chosen = reshaped(x, (1,)), (0,)
            return to(reshaped(function(x, chosen, False), ()), x.dtype)
        if not chosen:  # each element by itself
            return to(shapes.squeeze(function(shapes.expand_dims(x, -1), (x.ndim,), True), -1),
                      x.dtype)
        return to(function(x, chosen, c.flag("keepdims", 1)), x.dtype)

    return apply


rules({name: _reduction(function) for name, function in _REDUCE.items()}, known=(1,))


@rule("ArgMax", "ArgMin")
def _arg(c: Call, x: Tensor) -> Tensor:
    op, axis, keep = c.node.op.lower(), c.axis(x.ndim), c.flag("keepdims", 1)
    if x.dtype.is_integer and x.dtype.itemsize < 4:
        x = to(x, dtypes.int32)
    if not c.flag("select_last_index"):
        return to(A(op, x, axis=axis, keepdims=keep), dtypes.int64)
    found = to(A(op, A("flip", x, axes=(axis,)), axis=axis, keepdims=keep), dtypes.int64)
    return A("sub", constant(x.shape[axis] - 1, dtypes.int64), found)


@rule("CumSum", "CumProd", known=(1,))
def _running(c: Call, x: Tensor, axis: Array) -> Tensor:
    a, op = axis_of(sizes(axis)[0], x.ndim), c.node.op.lower()
    backwards = c.flag("reverse")
    x = A("flip", x, axes=(a,)) if backwards else x
    out = A(op, x, axis=a)
    if c.flag("exclusive"):
        low, high = [0] * x.ndim, [0] * x.ndim
        low[a], high[a] = 1, -1
        first = 0 if op == "cumsum" else 1
        out = A("pad", out, low=tuple(low), high=tuple(high),
                value=float(first) if x.dtype.is_float else first)
    return A("flip", out, axes=(a,)) if backwards else out


# --- along one axis -------------------------------------------------------------------------------


def _lines(c: Call, x: Tensor, function: Callable[[Tensor, int], Tensor]) -> Tensor:
    """A function along `axis`; before version 13 over all axes from there on."""
    if c.opset >= 13:
        return function(x, c.axis(x.ndim, -1))
    axis = border_of(c.whole("axis", 1), x.ndim)
    if axis == x.ndim - 1:
        return function(x, axis)
    flat = reshaped(x, (*x.shape[:axis], math.prod(x.shape[axis:])))
    return reshaped(function(flat, axis), x.shape)


rules({
    "Softmax": lambda c, x: _lines(c, x, lambda t, axis: A("softmax", t, axis=axis)),
    "LogSoftmax": lambda c, x: _lines(c, x, lambda t, axis: A("log_softmax", t, axis=axis)),
})


@rule("Hardmax")
def _hardmax(c: Call, x: Tensor) -> Tensor:
    def hard(t: Tensor, axis: int) -> Tensor:
        first = A("argmax", t, axis=axis, keepdims=True)
        line = [1] * t.ndim
        line[axis] = t.shape[axis]
        return to(A("eq", first, A("iota", shape=tuple(line), axis=axis, dtype=first.dtype)),
                  t.dtype)

    return _lines(c, x, hard)


@rule("LpNormalization")
def _lp_normalization(c: Call, x: Tensor) -> Tensor:
    axis, p = c.axis(x.ndim, -1), c.whole("p", 2)
    norm = _REDUCE["ReduceL1" if p == 1 else "ReduceL2"](x, (axis,), True)
    none = A("eq", norm, like(0, norm))
    return A("where", none, like(0, x), A("div", x, A("where", none, like(1, norm), norm)))


@rule("MeanVarianceNormalization")
def _mvn(c: Call, x: Tensor) -> Tensor:
    axes = c.ints("axes", (0, 2, 3)) or ()
    mean = _op("reduce_mean")(x, axes, True)
    off = A("sub", x, mean)
    deviation = A("sqrt", _op("reduce_mean")(A("square", off), axes, True))
    return A("div", off, A("add", deviation, like(1e-9, x)))


# --- losses ---------------------------------------------------------------------------------------


def _loss(c: Call, logs: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
    """The negative logarithms at the labels, weighted and reduced."""
    ignored = c.attrs.get("ignore_index")
    labels = to(labels, dtypes.int64)
    place = labels
    if ignored is not None:
        place = A("where", A("eq", labels, like(int(ignored), labels)), like(0, labels), labels)
    picked = indexing.gather_elements(logs, 1, shapes.expand_dims(place, 1))
    loss = A("neg", shapes.squeeze(picked, 1))
    weight = like(1, loss) if weights is None else indexing.gather(weights, place, 0)
    if ignored is not None:
        weight = A("where", A("eq", labels, like(int(ignored), labels)), like(0, loss), weight)
    loss = A("mul", loss, weight)
    reduction = c.text("reduction", "mean")
    if reduction == "none":
        return loss
    axes = tuple(range(loss.ndim))
    total = _op("reduce_sum")(loss, axes, False)
    if reduction == "sum":
        return total
    whole = A("broadcast_to", weight, shape=loss.shape)
    return A("div", total, _op("reduce_sum")(whole, axes, False))


@rule("NegativeLogLikelihoodLoss")
def _nll(c: Call, logs: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
    return _loss(c, logs, labels, weights)


@rule("SoftmaxCrossEntropyLoss")
def _cross_entropy(c: Call, scores: Tensor, labels: Tensor, weights: Tensor | None = None
                   ) -> list[Tensor]:
    logs = A("log_softmax", scores, axis=1)
    return [_loss(c, logs, labels, weights), logs]


def mean_and_variance(x: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Over these axes, which are kept; of 16-bit floats in 32 bits."""
    x = wide(x)
    mean = _op("reduce_mean")(x, axes, True)
    return mean, _op("reduce_mean")(A("square", A("sub", x, mean)), axes, True)
