"""Sums, statistics and differences along axes, and histograms.

Source: the same names in `mindspore.numpy`.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

from cellc_runtime.dtypes import bool_, float16, float32, int32, int64

from ..core.declared import misuse
from ..core.dispatch import apply, apply_one
from ..ops.arguments import axis_of, integer
from ..ops.functional import arith, grid, joining, reductions, shapes
from ..ops.functional.sorting import bins
from ..tensors.promotion import cast_to, inexact
from ..tensors.tensor import Tensor
from ._tensors import as_tensor, finished, many, rows, to_dtype, together
from .arrays import searchsorted
from .creation import linspace
from .linear import dot, matmul

_max_of = builtins.max


def _counts(x: Tensor) -> Tensor:
    """Bools as ints: what takes part in arithmetic."""
    return cast_to(x, int32) if x.dtype is bool_ else x


def sum(
    a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None
) -> Tensor:
    """The sum; of ints in int64."""
    to = None if dtype is None else to_dtype(dtype, "sum")
    out = reductions.sum(as_tensor(a, "sum", "a"), axis, keepdims, dtype=to)
    return out if initial is None else arith.add(out, initial)


def mean(a: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """The mean; of ints in whole numbers unless `dtype` is a float type."""
    x = finished(_counts(as_tensor(a, "mean", "a")), dtype, "mean")
    return reductions.mean(x, axis, keepdims)


def average(x: Any, axis: Any = None, weights: Any = None, returned: bool = False) -> Any:
    """The mean with weights; with `returned` also the sum of the weights."""
    t = as_tensor(x, "average")
    if weights is None:
        out = mean(t, axis)
        total = arith.add(out * 0, t.size // _max_of(out.size, 1))
        return (out, total) if returned else out
    w = as_tensor(weights, "average", "weights")
    t, w = (inexact(v) for v in together([t, w]))
    if w.shape != t.shape:
        if axis is None or w.ndim != 1:
            raise misuse("numpy.average",
                         f"weights of shape {w.shape} do not fit {t.shape} along axis {axis}")
        a = axis_of(axis, t.ndim, "numpy.average")
        w = shapes.reshape(w, tuple(-1 if i == a else 1 for i in range(t.ndim)))
    w = shapes.broadcast_to(w, t.shape)
    total = reductions.sum(w, axis)
    out = reductions.sum(t * w, axis) / total
    return (out, total) if returned else out


def _extreme(what: str, a: Any, axis: Any, keepdims: bool, initial: Any, where: Any) -> Tensor:
    x = as_tensor(a, what, "a")
    if where is not True and where is not None:
        if initial is None:
            raise ValueError(f"For 'numpy.{what}', 'initial' must be given when 'where' is.")
        x = arith.where(as_tensor(where, what, "where"), x,
                        cast_to(as_tensor(initial, what), x.dtype))
    up = what in ("amax", "max")
    out = (reductions.amax if up else reductions.amin)(x, axis, keepdims)
    return out if initial is None else (arith.maximum if up else arith.minimum)(out, initial)


def amax(
    a: Any, axis: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Tensor:
    """The largest element (at least `initial`).

    Args:
        where: only elements where it holds count (needs `initial`).
    """
    return _extreme("amax", a, axis, keepdims, initial, where)


def amin(
    a: Any, axis: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Tensor:
    """The smallest element (at most `initial`).

    Args:
        where: only elements where it holds count (needs `initial`).
    """
    return _extreme("amin", a, axis, keepdims, initial, where)


max, min = amax, amin


def ptp(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The largest minus the smallest element."""
    t = as_tensor(x, "ptp")
    return reductions.amax(t, axis, keepdims) - reductions.amin(t, axis, keepdims)


def argmax(a: Any, axis: int | None = None) -> Tensor:
    """The position of the first largest element."""
    return reductions.argmax(as_tensor(a, "argmax", "a"), axis)


def count_nonzero(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """How many elements are not zero, int32."""
    t = as_tensor(x, "count_nonzero") != 0
    return reductions.sum(t, axis, keepdims, dtype=int32)


# --- running --------------------------------------------------------------------------------------


def _running(op: str, a: Any, axis: Any, dtype: Any, nothing: float | None) -> Tensor:
    x = as_tensor(a, op, "a")
    if nothing is not None and x.dtype.is_float:
        x = arith.where(arith.isnan(x), nothing, x)
    to = None if dtype is None else to_dtype(dtype, op)
    if to is None and not x.dtype.is_inexact and x.dtype.itemsize < 4:
        to = int32
    x = x if to is None else cast_to(x, to)
    if axis is None:
        x, axis = shapes.ravel(x), 0
    return apply_one(op, x, axis=axis_of(axis, x.ndim, f"numpy.{op}"))


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """n times the difference of neighbours."""
    x = as_tensor(a, "diff", "a")
    if x.ndim == 0 or integer(n, "numpy.diff", "n") < 0:
        raise misuse("numpy.diff", "an array with axes and n >= 0 are needed",
                     f"{x.ndim} axes and n={n}")
    at = axis_of(axis, x.ndim, "numpy.diff")
    one = tuple(1 if i == at else d for i, d in enumerate(x.shape))
    ends = [None if v is None else as_tensor(v, "diff") for v in (prepend, append)]
    parts = [shapes.broadcast_to(e, one) if e is not None and e.ndim == 0 else e for e in ends]
    given = [p for p in (parts[0], x, parts[1]) if p is not None]
    x = joining.concat(together(given), at)
    for _ in range(n):
        d = x.shape[at]
        if d < 2:
            return joining.part(x, at, 0, 0)
        x = _counts(joining.part(x, at, 1, d)) - _counts(joining.part(x, at, 0, d - 1))
    return x


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    """Differences of neighbours of all elements."""
    x = shapes.ravel(as_tensor(ary, "ediff1d", "ary"))
    parts = [diff(x)]
    if to_begin is not None:
        parts.insert(0, shapes.ravel(as_tensor(to_begin, "ediff1d", "to_begin")))
    if to_end is not None:
        parts.append(shapes.ravel(as_tensor(to_end, "ediff1d", "to_end")))
    return joining.concat([cast_to(p, x.dtype) for p in parts], 0)


def trapz(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The integral by trapezia."""
    t = inexact(as_tensor(y, "trapz", "y"))
    a = axis_of(axis, t.ndim, "numpy.trapz")
    n = t.shape[a]
    pairs = joining.part(t, a, 1, n) + joining.part(t, a, 0, n - 1)
    if x is None:
        return reductions.sum(arith.mul(pairs, dx / 2.0), a)
    at = inexact(as_tensor(x, "trapz"))
    if at.ndim == 1:
        step = shapes.reshape(diff(at), tuple(-1 if i == a else 1 for i in range(t.ndim)))
    else:
        step = diff(at, axis=a)
    return reductions.sum(pairs * step * 0.5, a)


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Central differences inside, one-sided at the ends.

    Args:
        varargs: the distance of neighbours: one number, or one for each axis.
        axis: an axis or several; all if None.
        edge_order: 1.
    """
    x = inexact(as_tensor(f, "gradient", "f"))
    if edge_order != 1:
        raise misuse("numpy.gradient", "'edge_order' must be 1", edge_order)
    axes = list(range(x.ndim)) if axis is None else \
        [axis_of(v, x.ndim, "numpy.gradient") for v in
         ([axis] if isinstance(axis, int) else axis)]
    steps = list(varargs) or [1.0]
    steps = steps * len(axes) if len(steps) == 1 else steps
    if len(steps) != len(axes):
        raise misuse("numpy.gradient", f"{len(steps)} distances do not fit {len(axes)} axes")
    out = [arith.div(_slopes(x, a), h) for a, h in zip(axes, steps, strict=True)]
    return out[0] if len(out) == 1 else out


def _slopes(x: Tensor, a: int) -> Tensor:
    n = x.shape[a]
    if n < 2:
        raise misuse("numpy.gradient", f"axis {a} of {x.shape} must be 2 or longer")
    first = joining.part(x, a, 1, 2) - joining.part(x, a, 0, 1)
    last = joining.part(x, a, n - 1, n) - joining.part(x, a, n - 2, n - 1)
    inner = (joining.part(x, a, 2, n) - joining.part(x, a, 0, n - 2)) / 2.0 if n > 2 else None
    return joining.concat([p for p in (first, inner, last) if p is not None], a)


# --- without NaN ----------------------------------------------------------------------------------


def _mask_known(x: Tensor) -> Tensor:
    return arith.logical_not(arith.isnan(x))


def nansum(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum of what is not NaN."""
    x = as_tensor(a, "nansum", "a")
    to = x.dtype if dtype is None else to_dtype(dtype, "nansum")
    x = arith.where(_mask_known(x), x, 0) if x.dtype.is_float else x
    return reductions.sum(x, axis, keepdims, dtype=int32 if to is bool_ else to)


def _nan_extreme(what: str, a: Any, axis: Any, dtype: Any, keepdims: bool) -> Tensor:
    x = as_tensor(a, what, "a")
    up = what == "nanmax"
    reduce = reductions.amax if up else reductions.amin
    if not x.dtype.is_float:
        return finished(reduce(x, axis, keepdims), dtype, what)
    known = _mask_known(x)
    out = reduce(arith.where(known, x, -math.inf if up else math.inf), axis, keepdims)
    out = arith.where(reductions.any(known, axis, keepdims), out, math.nan)
    return finished(out, dtype, what)


def _wide(x: Tensor) -> Tensor:
    return cast_to(x, float32) if x.dtype is float16 else inexact(x)


def nanmean(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The mean of what is not NaN."""
    x = _wide(as_tensor(a, "nanmean", "a"))
    return finished(_nan_mean(x, axis, keepdims)[0], dtype, "nanmean")


def _nan_mean(x: Tensor, axis: Any, keepdims: bool) -> tuple[Tensor, Tensor]:
    known = _mask_known(x)
    count = reductions.sum(cast_to(known, x.dtype), axis, keepdims)
    return reductions.sum(arith.where(known, x, 0), axis, keepdims) / count, count


def nanvar(
    a: Any, axis: Any = None, dtype: Any = None, ddof: int = 0, keepdims: bool = False
) -> Tensor:
    """The variance of what is not NaN."""
    x = _wide(as_tensor(a, "nanvar", "a"))
    center, _ = _nan_mean(x, axis, True)
    apart = arith.where(_mask_known(x), x - center, 0)
    count = reductions.sum(cast_to(_mask_known(x), x.dtype), axis, keepdims)
    out = reductions.sum(apart * apart, axis, keepdims) / arith.sub(count, ddof)
    return finished(out, dtype, "nanvar")


# --- covariance -----------------------------------------------------------------------------------


def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: Any = None, aweights: Any = None, dtype: Any = None,
) -> Tensor:
    """The covariance matrix of variables (rows).

    Args:
        y: more variables.
        rowvar: variables are rows (else columns).
        bias: divide by n, not n - 1; `ddof` says what to subtract from n.
        fweights: how often each observation counts.
        aweights: the weight of each observation.
    """
    x = _variables(m, rowvar)
    if y is not None:
        x = joining.concat(together([x, _variables(y, rowvar)]), 0)
    less = (0 if bias else 1) if ddof is None else ddof
    weights: Tensor | None = None
    for w in (fweights, aweights):
        if w is not None:
            t = cast_to(as_tensor(w, "cov", "weights"), x.dtype)
            weights = t if weights is None else weights * t
    if weights is None:
        apart = x - reductions.mean(x, 1, True)
        share: Any = float(_max_of(x.shape[1] - less, 0))
        out = matmul(apart, shapes.transpose(apart, (1, 0)))
    else:
        total = reductions.sum(weights)
        apart = x - reductions.sum(x * weights, 1, True) / total
        out = matmul(apart * weights, shapes.transpose(apart, (1, 0)))
        share = total - less if aweights is None else total - reductions.sum(
            weights * cast_to(as_tensor(aweights, "cov"), x.dtype)) * less / total
    out = shapes.squeeze(out / share)
    return finished(out, dtype, "cov")


def _variables(v: Any, rowvar: bool) -> Tensor:
    x = inexact(as_tensor(v, "cov", "m"))
    if x.ndim > 2:
        raise misuse("numpy.cov", "arrays have at most 2 axes", x.shape)
    if x.ndim < 2:
        return shapes.reshape(x, (1, -1))
    return x if rowvar or x.shape[0] == 1 else shapes.transpose(x, (1, 0))


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, dtype: Any = None) -> Tensor:
    """The correlation matrix of variables (rows)."""
    c = cov(x, y, rowvar)
    if not c.ndim:
        return finished(c / c, dtype, "corrcoef")
    spread = arith.sqrt(grid.diagonal(c))
    c = c / shapes.expand_dims(spread, 1) / spread
    return finished(arith.clamp(c, -1.0, 1.0), dtype, "corrcoef")


# --- histograms -----------------------------------------------------------------------------------


def bincount(x: Any, weights: Any = None, minlength: int = 0, length: int | None = None) -> Tensor:
    """How often each non-negative int occurs (or the sum of its weights), float32.

    Args:
        length: the number of results; ints not below it are left out.
    """
    t = shapes.ravel(as_tensor(x, "bincount"))
    if length is None:
        count = bins(t, _max_of(minlength, 1 if t.size else 0), "bincount")
    else:
        count = length
    w = None if weights is None else shapes.ravel(as_tensor(weights, "bincount", "weights"))
    return _sum_weights(t, w, count)


def _sum_weights(index: Tensor, weights: Tensor | None, count: int) -> Tensor:
    """The sum of weights (or ones) for each number below `count`, float32."""
    places = shapes.reshape(linspace_ints(count), (count, 1))
    hits = places == cast_to(shapes.ravel(index), int32)
    each = cast_to(hits, float32)
    return reductions.sum(each if weights is None else each * cast_to(weights, float32), 1)


def linspace_ints(count: int) -> Tensor:
    """0, 1, ... count - 1, int32."""
    return apply_one("iota", shape=(count,), axis=0, dtype=int32)


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Tensor:
    """The edges of `bins` equal bins, or the given edges.

    Args:
        range: the lowest and highest edge; the smallest and largest element if None.
    """
    if not isinstance(bins, int):
        return as_tensor(bins, "histogram_bin_edges", "bins")
    x = shapes.ravel(cast_to(as_tensor(a, "histogram_bin_edges", "a"), float32))
    if range is not None:
        low, high = range
        if low == high:
            low, high = low - 0.5, high + 0.5
        low, high = float(low), float(high)
    elif x.size == 0:
        low, high = 0.0, 1.0
    else:
        bottom, top = reductions.amin(x), reductions.amax(x)
        half = arith.where(bottom == top, 0.5, 0.0)
        low, high = bottom - half, top + half
    edges: Tensor = linspace(low, high, bins + 1)
    return edges


def _bin_of(x: Tensor, edges: Tensor) -> tuple[Tensor, int]:
    """The bin of each element (-1 outside), and how many there are; the last bin is closed."""
    n, edges = edges.shape[0] - 1, cast_to(edges, float32)
    at = searchsorted(edges, x, "right") - 1
    last = apply("gather", edges, as_tensor(n, "histogram"), axis=0)
    at = arith.where(arith.eq(x, last), n - 1, at)
    return arith.where(arith.logical_and(at >= 0, arith.lt(at, n)), at, -1), n


def histogram(
    a: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool = False
) -> tuple[Tensor, Tensor]:
    """How many elements each bin holds, float32, and the edges.

    Args:
        bins: a number, or rising edges.
        weights: what each element counts.
        density: divide by the total and the widths of the bins.
    """
    x = shapes.ravel(cast_to(as_tensor(a, "histogram", "a"), float32))
    edges = histogram_bin_edges(x, bins, range)
    index, n = _bin_of(x, edges)
    w = None if weights is None else shapes.ravel(as_tensor(weights, "histogram", "weights"))
    count = _sum_weights(index, w, n)
    if density:
        count = count / diff(edges) / reductions.sum(count)
    return count, edges


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool = False
) -> tuple[Tensor, list[Tensor]]:
    """Counts of points (rows) in a grid of bins, and the edges along each axis.

    Args:
        sample: (n, d), or d vectors.
        bins: for all axes, or one for each.
        range: for each axis its lowest and highest edge, or None.
    """
    if isinstance(sample, (list, tuple)):
        columns = together(many(sample, "histogramdd", "sample"))
        sample = joining.stack([shapes.ravel(t) for t in columns], 1)
    points = cast_to(as_tensor(sample, "histogramdd", "sample"), float32)
    points = shapes.reshape(points, (-1, 1)) if points.ndim == 1 else points
    rank = points.shape[1]
    each = [bins] * rank if isinstance(bins, int) else list(bins)
    spans = [None] * rank if range is None else list(range)
    if len(each) != rank or len(spans) != rank:
        raise misuse("numpy.histogramdd", f"bins and range must be given for {rank} axes")
    flat, inside, shape, edges = None, None, [], []
    for axis in builtins.range(rank):
        column = shapes.ravel(joining.part(points, 1, axis, axis + 1))
        edge = histogram_bin_edges(column, each[axis], spans[axis])
        index, n = _bin_of(column, edge)
        ok = arith.ge(index, 0)
        flat = index if flat is None else arith.add(arith.mul(flat, n), index)
        inside = ok if inside is None else arith.logical_and(inside, ok)
        shape.append(n)
        edges.append(edge)
    assert flat is not None
    w = None if weights is None else shapes.ravel(as_tensor(weights, "histogramdd", "weights"))
    count = shapes.reshape(
        _sum_weights(arith.where(inside, flat, -1), w, math.prod(shape)), tuple(shape))
    if density:
        count = count / reductions.sum(count)
        for axis, edge in enumerate(edges):
            count = count / shapes.reshape(diff(edge), tuple(-1 if i == axis else 1
                                                             for i in builtins.range(rank)))
    return count, edges


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Counts of points in a grid, and the edges along x and y."""
    if isinstance(bins, Tensor) or (isinstance(bins, (list, tuple)) and len(bins) != 2):
        bins = (bins, bins)
    count, edges = histogramdd((as_tensor(x, "histogram2d"), as_tensor(y, "histogram2d", "y")),
                               bins, range, weights, density)
    return count, edges[0], edges[1]


def correlate(a: Any, v: Any, mode: str = "valid") -> Tensor:
    """Sliding products of a with v.

    Args:
        mode: "valid" (v inside a), "same" (as long as the longer) or "full".
    """
    x, w = (shapes.ravel(t) for t in together([as_tensor(a, "correlate", "a"),
                                               as_tensor(v, "correlate", "v")]))
    if mode not in ("valid", "same", "full"):
        raise misuse("numpy.correlate", "'mode' must be 'valid', 'same' or 'full'", repr(mode))
    n, k = x.shape[0], w.shape[0]
    if not n or not k:
        raise misuse("numpy.correlate", "the vectors must not be empty")
    if n < k:
        return shapes.flip(correlate(w, x, mode), 0)
    before = {"valid": 0, "same": k // 2, "full": k - 1}[mode]
    after = {"valid": 0, "same": k - 1 - k // 2, "full": k - 1}[mode]
    padded: Tensor = apply("pad", x, low=(before,), high=(after,), value=0.0) \
        if before or after else x
    count = n + before + after - k + 1
    windows = shapes.reshape(linspace_ints(count), (count, 1)) + linspace_ints(k)
    rows: Tensor = apply("gather", padded, windows, axis=0)
    return dot(rows, w)


def convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    """Sliding products of a with v reversed."""
    x, w = (shapes.ravel(t) for t in together([as_tensor(a, "convolve", "a"),
                                               as_tensor(v, "convolve", "v")]))
    if x.shape[0] < w.shape[0]:
        x, w = w, x
    return correlate(x, shapes.flip(w, 0), mode)


ROWS = rows({
    "argmin": ("The position of the first smallest element.",
        lambda a, axis=None: cast_to(reductions.argmin(as_tensor(a, "argmin", "a"), axis), int64)),
    "cumprod": ("Running products.",
        lambda a, axis=None, dtype=None: _running("cumprod", a, axis, dtype, None)),
    "cumsum": ("Running sums; without axis, of all elements.",
        lambda a, axis=None, dtype=None: _running("cumsum", a, axis, dtype, None)),
    "nancumsum": ("Running sums, NaN as 0.",
        lambda a, axis=None, dtype=None: _running("cumsum", a, axis, dtype, 0.0)),
    "nanmax": ("The largest element that is not NaN.",
        lambda a, axis=None, dtype=None, keepdims=False:
        _nan_extreme("nanmax", a, axis, dtype, keepdims)),
    "nanmin": ("The smallest element that is not NaN.",
        lambda a, axis=None, dtype=None, keepdims=False:
        _nan_extreme("nanmin", a, axis, dtype, keepdims)),
    "nanstd": ("The standard deviation of what is not NaN.",
        lambda a, axis=None, dtype=None, ddof=0, keepdims=False:
        finished(arith.sqrt(nanvar(a, axis, None, ddof, keepdims)), dtype, "nanstd")),
    "sometrue": ("Whether one element is non-zero.", lambda a, axis=None, keepdims=False:
        reductions.any(as_tensor(a, "sometrue", "a"), axis, keepdims)),
    "std": ("The standard deviation.", lambda x, axis=None, ddof=0, keepdims=False:
        reductions.std(inexact(as_tensor(x, "std")), axis, ddof, keepdims)),
    "var": ("The variance.", lambda x, axis=None, ddof=0, keepdims=False:
        reductions.var(inexact(as_tensor(x, "var")), axis, ddof, keepdims)),
})
"""Functions of one call, by name."""
globals().update(ROWS)

__all__ = [
    "amax", "amin", "argmax", "average", "bincount", "convolve", "corrcoef", "correlate",
    "count_nonzero", "cov", "diff", "ediff1d", "gradient", "histogram", "histogram2d",
    "histogram_bin_edges", "histogramdd", "max", "mean", "min", "nanmean", "nansum", "nanvar",
    "ptp", "sum", "trapz",
]
__all__ += sorted(ROWS)
