"""Reductions, running sums, softmax, sorting, products of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from cellc_runtime import dtypes

from ..core.dispatch import apply_one
from ..ops.functional import linalg, shapes, sorting, statistics
from ..tensors.tensor import Tensor
from .table import Call, Refused, axes_of, axis_of, like, reshaped, rule, rules, to, wide

A = apply_one


def _reduced(op: str, x: Tensor, axes: Any, keep: bool, **attrs: Any) -> Tensor:
    chosen = axes_of(axes, x.ndim)
    if not x.ndim:
        return reshaped(A(op, reshaped(x, (1,)), axes=(0,), keepdims=False, **attrs), ())
    if op.startswith("reduce_m") and any(x.shape[a] == 0 for a in chosen):
        raise Refused("nothing, which has no mean or extremum")
    return A(op, x, axes=chosen, keepdims=keep, **attrs)


_REDUCE = {
    "sum": "reduce_sum", "mean": "reduce_mean", "amax": "reduce_max", "amin": "reduce_min",
    "prod": "reduce_prod", "any": "reduce_any", "all": "reduce_all", "logsumexp": "logsumexp",
}


def _reduction(op: str) -> Callable[..., Tensor]:
    def apply_(c: Call, x: Tensor, axes: Any = None, keep: bool = False, dtype: Any = None
               ) -> Tensor:
        if op in ("reduce_any", "reduce_all"):
            return _reduced(op, to(x, dtypes.bool_), axes, keep)
        if op in ("reduce_max", "reduce_min") and x.dtype is dtypes.bool_:
            return _reduced("reduce_any" if op == "reduce_max" else "reduce_all", x, axes, keep)
        return _reduced(op, to(x, c.dtype), axes, keep)

    return apply_


rules({name: _reduction(op) for name, op in _REDUCE.items()})


@rule("argmax", "argmin")
def _arg(c: Call, x: Tensor, axis: int | None = None, keep: bool = False) -> Tensor:
    if axis is None:
        found = _position(c.name, reshaped(x, (x.size,)), 0, False)
        return reshaped(found, (1,) * x.ndim) if keep else found
    return _position(c.name, x, axis, keep)


def _position(op: str, x: Tensor, axis: int, keep: bool) -> Tensor:
    if not x.ndim:
        return like(0, dtypes.int64)
    x = to(x, dtypes.int32) if x.dtype.itemsize < 4 and not x.dtype.is_float else x
    return to(A(op, x, axis=axis_of(axis, x.ndim), keepdims=keep), dtypes.int64)


def _moments(x: Tensor, axes: Any, correction: Any, keep: bool) -> tuple[Tensor, Tensor]:
    chosen = axes_of(axes, x.ndim)
    mean = A("reduce_mean", x, axes=chosen, keepdims=True)
    total = A("reduce_sum", A("square", A("sub", x, mean)), axes=chosen, keepdims=keep)
    count = math.prod(x.shape[a] for a in chosen) - (1 if correction is None else correction)
    kept = [1 if i in chosen else d for i, d in enumerate(x.shape) if keep or i not in chosen]
    return A("div", total, like(count, x.dtype)), reshaped(mean, kept)


@rule("var.correction", "std.correction")
def _var(c: Call, x: Tensor, axes: Any = None, *, correction: Any = None, keepdim: bool = False
         ) -> Tensor:
    variance, _ = _moments(wide(x), axes, correction, keepdim)
    return variance if c.name == "var" else A("sqrt", variance)


@rule("linalg_vector_norm")
def _norm(c: Call, x: Tensor, order: Any = 2, axes: Any = None, keep: bool = False,
          dtype: Any = None) -> Tensor:
    x = wide(to(x, c.dtype))
    size = A("abs", x)
    if order in (math.inf, -math.inf):
        return _reduced("reduce_max" if order > 0 else "reduce_min", size, axes, keep)
    if order == 2:
        return A("sqrt", _reduced("reduce_sum", A("square", x), axes, keep))
    if order == 1:
        return _reduced("reduce_sum", size, axes, keep)
    if order == 0:
        raise Refused("a count of numbers that are not 0")
    powers = _reduced("reduce_sum", A("pow", size, like(order, x.dtype)), axes, keep)
    return A("pow", powers, like(1 / order, x.dtype))


@rule("_cdist_forward")
def _distances(c: Call, a: Tensor, b: Tensor, p: float, mode: int | None = None) -> Tensor:
    return statistics.cdist(a, b, float(p))


rules({
    "max.default min.default": lambda c, x: _reduced(f"reduce_{c.name}", x, None, False),
    "max.dim min.dim": lambda c, x, axis, keep=False:
        [_reduced(f"reduce_{c.name}", x, (axis,), keep), _position(f"arg{c.name}", x, axis, keep)],
    "var_mean.correction": lambda c, x, axes=None, *, correction=None, keepdim=False:
        list(_moments(wide(x), axes, correction, keepdim)),
    "cumsum cumprod logcumsumexp": lambda c, x, axis, **ignored:
        A(c.name, to(x, c.dtype), axis=axis_of(axis, x.ndim)) if x.ndim else to(x, c.dtype),
})


@rule("_softmax", "_log_softmax", "softmax.int", "log_softmax.int")
def _softmax(c: Call, x: Tensor, axis: int, *ignored: Any) -> Tensor:
    op = "log_softmax" if "log" in c.name else "softmax"
    x = to(x, c.dtype)
    return A(op, x, axis=axis_of(axis, x.ndim)) if x.ndim else A("sub", x, x)


@rule("sort.default", "sort.stable")
def _sort(c: Call, x: Tensor, *given: Any, **options: Any) -> list[Tensor]:
    names = ("dim", "descending") if str(c.node.target).endswith("default") else \
        ("stable", "dim", "descending")
    chosen = {"dim": -1, "descending": False, **dict(zip(names, given, strict=False)), **options}
    values, places = sorting.sort(x, chosen["dim"], chosen["descending"])
    return [values, to(places, dtypes.int64)]


@rule("topk")
def _topk(c: Call, x: Tensor, k: Any, axis: int = -1, largest: bool = True, ordered: bool = True
          ) -> list[Tensor]:
    values, places = sorting.topk(x, k, axis_of(axis, x.ndim), largest, True)
    return [values, to(places, dtypes.int64)]


@rule("kthvalue")
def _kth_value(c: Call, x: Tensor, number: int, axis: int = -1, keep: bool = False) -> list[Any]:
    if not x.ndim or c.reads(1):
        raise Refused("a position among equal elements")
    a = axis_of(axis, x.ndim)
    return [_at(sorting.sort(x, a, False)[0], a, number - 1, keep), None]


@rule("median.dim")
def _median(c: Call, x: Tensor, axis: int, keep: bool = False) -> list[Any]:
    if not x.ndim:
        raise Refused("the median of a number")
    a = axis_of(axis, x.ndim)
    value = _kth_value(c, x, (x.shape[a] - 1) // 2 + 1, a, keep)[0]
    if x.dtype.is_float:
        unknown = A("reduce_any", A("isnan", x), axes=(a,), keepdims=keep)
        value = A("where", unknown, like(math.nan, x.dtype), value)
    return [value, None]


def _at(x: Tensor, axis: int, at: Any, keep: bool) -> Tensor:
    """The elements at one position of an axis."""
    start, stop = [0] * x.ndim, list(x.shape)
    start[axis], stop[axis] = at, at + 1
    part = A("slice", x, start=tuple(start), stop=tuple(stop), step=(1,) * x.ndim)
    return part if keep else shapes.squeeze(part, axis)


# --- products -------------------------------------------------------------------------------------


@rule("addmm", "baddbmm")
def _add_product(c: Call, x: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    y = A("matmul", a, b, transpose_a=False, transpose_b=False)
    y = y if alpha == 1 else A("mul", y, like(alpha, y.dtype))
    if beta == 0:
        return y
    return A("add", y, x if beta == 1 else A("mul", x, like(beta, x.dtype)))


rules({
    "mm bmm matmul mv dot": lambda c, a, b: linalg.matmul(a, b),
    "linear": lambda c, x, w, bias=None:
        A("dense", x, w) if bias is None else A("dense", x, w, bias),
})


def attended(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool,
             scale: float | None) -> Tensor:
    """Attention over the last two axes."""
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = linalg.matmul(A("mul", q, like(factor, q.dtype)), shapes.swapaxes(k, -1, -2))
    low = like(-math.inf, scores.dtype)
    if causal:
        rows, columns = scores.shape[-2:]
        at = A("iota", shape=(rows, 1), axis=0, dtype=dtypes.int64)
        line = A("iota", shape=(1, columns), axis=1, dtype=dtypes.int64)
        scores = A("where", A("le", line, at), scores, low)
    if mask is not None:
        scores = A("where", mask, scores, low) if mask.dtype is dtypes.bool_ else \
            A("add", scores, to(mask, scores.dtype))
    return linalg.matmul(to(A("softmax", wide(scores), axis=scores.ndim - 1), v.dtype), v)


@rule("_scaled_dot_product_flash_attention_for_cpu")
def _flash(c: Call, q: Tensor, k: Tensor, v: Tensor, p: float = 0.0, causal: bool = False, *,
           attn_mask: Tensor | None = None, scale: float | None = None) -> list[Any]:
    if p or (causal and q.shape[-2] != k.shape[-2]):
        raise Refused("attention with dropout, or with causes of another length")
    return [attended(q, k, v, attn_mask, causal, scale), None]


@rule("scaled_dot_product_attention")
def _attention(c: Call, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None,
               p: float = 0.0, causal: bool = False, *, scale: float | None = None,
               enable_gqa: bool = False) -> Tensor:
    if p or enable_gqa or (causal and q.shape[-2] != k.shape[-2]):
        raise Refused("attention with dropout or shared heads")
    return attended(q, k, v, attn_mask, causal, scale)


def parts(x: Tensor, count: int) -> Sequence[Tensor]:
    """Equal parts of the last axis."""
    width = x.shape[-1] // count
    lead = x.shape[:-1]
    t = reshaped(x, (*lead, count, width))
    axis = len(lead)
    return [shapes.squeeze(A("slice", t, start=(*(0,) * axis, i, 0), stop=(*lead, i + 1, width),
                             step=(1,) * t.ndim), axis) for i in range(count)]
