"""Compositions that real networks use now and then: windows, statistics, boxes, grids, losses."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from cellc_runtime.dtypes import DType, float32, int32, int64

from ..core.dispatch import apply
from ..core.native import native, native_of_types
from ..tensors.promotion import cast_to, inexact, is_scalar, operands
from ..tensors.tensor import Tensor
from . import functional_array as fa
from . import functional_create as fc
from . import functional_grid as fg
from . import functional_join as fj
from . import functional_linalg as fl
from . import functional_math as m
from . import functional_nn as fn
from . import functional_random as rnd
from . import functional_reduce as fr
from . import functional_sort as fo
from . import functional_special as fx
from .arguments import axis_of, choice, dtype_of, integer, number, tensor

# --- windows --------------------------------------------------------------------------------------


def _window(what: str, length: Any, periodic: Any, dtype: DType | None, shape: Any) -> Tensor:
    """The window of a numpy function of the length; a periodic one drops the last element."""
    n = integer(length, what, "window_length")
    if n < 0:
        raise ValueError(f"For '{what}', 'window_length' must not be negative, but got {n}.")
    if not isinstance(periodic, bool):
        raise TypeError(f"For '{what}', 'periodic' must be a bool, but got {periodic!r}.")
    to = float32 if dtype is None else dtype_of(dtype, what)
    if not to.is_float:
        raise TypeError(f"For '{what}', 'dtype' must be a float type, but got {to}.")
    values = shape(n + 1)[:-1] if periodic and n > 1 else shape(n)
    return Tensor._from_array(np.ascontiguousarray(np.asarray(values).astype(to.numpy)))


def bartlett_window(window_length: Any, periodic: bool = True, *, dtype: DType | None = None
                    ) -> Tensor:
    """The Bartlett window (a triangle). Source: `mindspore.ops.bartlett_window`."""
    return _window("bartlett_window", window_length, periodic, dtype, np.bartlett)


def blackman_window(window_length: Any, periodic: bool = True, *, dtype: DType | None = None
                    ) -> Tensor:
    """The Blackman window. Source: `mindspore.ops.blackman_window`."""
    return _window("blackman_window", window_length, periodic, dtype, np.blackman)


def hamming_window(
    window_length: Any, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *,
    dtype: DType | None = None,
) -> Tensor:
    """alpha - beta * cos(2 pi n / (N - 1)). Source: `mindspore.ops.hamming_window`."""
    def shape(n: int) -> Any:
        return np.ones(n) if n < 2 else \
            alpha - beta * np.cos(2 * np.pi * np.arange(n) / (n - 1))

    return _window("hamming_window", window_length, periodic, dtype, shape)


def kaiser_window(window_length: Any, periodic: bool = True, beta: float = 12.0, *,
                  dtype: DType | None = None) -> Tensor:
    """The Kaiser window. Source: `mindspore.ops.kaiser_window`."""
    return _window("kaiser_window", window_length, periodic, dtype, lambda n: np.kaiser(n, beta))


# --- elements -------------------------------------------------------------------------------------


@native
def adjoint(x: Tensor) -> Tensor:
    """The last two axes exchanged, complex numbers conjugated. Source: `mindspore.ops.adjoint`."""
    return m.conj(fa.swapaxes(tensor(x, "adjoint", "x"), -1, -2))


@native
def approximate_equal(x: Tensor, y: Tensor, tolerance: float = 1e-5) -> Tensor:
    """Whether |x - y| < tolerance. Source: `mindspore.ops.approximate_equal`."""
    return m.lt(m.abs(m.sub(x, y)), number(tolerance, "approximate_equal", "tolerance"))


@native
def ldexp(x: Tensor, other: Tensor) -> Tensor:
    """x * 2**other. Source: `mindspore.ops.ldexp`."""
    return m.mul(tensor(x, "ldexp", "x"), m.exp2(inexact(tensor(other, "ldexp", "other"))))


@native
def truncate_div(x: Any, y: Any) -> Tensor:
    """x / y, of ints cut towards zero. Source: `mindspore.ops.truncate_div`."""
    a, b = operands("truncate_div", x, y)
    return m.div(a, b, rounding_mode=None if a.dtype.is_inexact else "trunc")


def truncate_mod(x: Any, y: Any) -> Tensor:
    """The rest of x / y, of the sign of x. Source: `mindspore.ops.truncate_mod`."""
    return m.fmod(x, y)


@native_of_types
def type_as(input: Tensor, other: Tensor) -> Tensor:
    """`input` in the element type of `other`. Source: `mindspore.ops.type_as`."""
    return cast_to(tensor(input, "type_as"), tensor(other, "type_as", "other").dtype)


def is_nonzero(input: Tensor) -> Tensor:
    """Whether the one element is not zero.

    Raises:
        ValueError: there are more or fewer elements than one.

    Source: `mindspore.ops.is_nonzero`.
    """
    x = tensor(input, "is_nonzero")
    if x.size != 1:
        raise ValueError(f"For 'is_nonzero', one element is needed, but got shape {x.shape}.")
    return m.ne(fa.reshape(x, ()), 0)


def bucketize(input: Tensor, boundaries: Any, *, right: bool = False) -> Tensor:
    """The bucket (int32) of each element between ascending boundaries.

    Raises:
        TypeError: the boundaries are no list.

    Source: `mindspore.ops.bucketize`.

    Args:
        right: a boundary belongs to the bucket above it.
    """
    x = tensor(input, "bucketize")
    if not isinstance(boundaries, (list, tuple)):
        raise TypeError(f"For 'bucketize', 'boundaries' must be a list, but got {boundaries!r}.")
    edges = Tensor(list(boundaries), float32 if not x.dtype.is_float else x.dtype)
    values = x if x.dtype.is_float else cast_to(x, float32)
    return fo.searchsorted(edges, values, out_int32=True, right=bool(right))


# --- shapes ---------------------------------------------------------------------------------------


def row_stack(tensors: Any) -> Tensor:
    """`vstack` under its other name. Source: `mindspore.ops.row_stack`."""
    return fj.vstack(tensors)


@native
def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    """Channels (axis 1) of `groups` groups interleaved. Source: `mindspore.ops.channel_shuffle`.

    Raises:
        ValueError: the channels do not divide into the groups.
    """
    t, g = tensor(x, "channel_shuffle", "x"), integer(groups, "channel_shuffle", "groups")
    if t.ndim < 3 or g < 1 or t.shape[1] % g:
        raise ValueError(f"For 'channel_shuffle', channels of {t.shape} do not divide into {g} "
                         "groups.")
    parts = fa.reshape(t, (t.shape[0], g, t.shape[1] // g, *t.shape[2:]))
    return fa.reshape(fa.swapaxes(parts, 1, 2), t.shape)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Every choice of r elements of a vector, as rows.

    Raises:
        ValueError: the input is no vector, or `r` is negative.

    Source: `mindspore.ops.combinations`.
    """
    x, n = tensor(input, "combinations"), integer(r, "combinations", "r")
    if x.ndim != 1 or n < 0:
        raise ValueError(f"For 'combinations', a vector and r >= 0 are needed, but got shape "
                         f"{x.shape} and r={n}.")
    choose = itertools.combinations_with_replacement if with_replacement else \
        itertools.combinations
    found = np.array(list(choose(range(x.shape[0]), n)), np.int64).reshape(-1, n)
    out: Tensor = apply("gather", x, Tensor._from_array(found), axis=0)
    return out


@native
def matrix_band_part(x: Tensor, lower: Any, upper: Any) -> Tensor:
    """A band around the diagonal, zeros elsewhere. Source: `mindspore.ops.matrix_band_part`.

    Args:
        lower: diagonals kept below the main one; negative keeps all.
        upper: diagonals kept above the main one; negative keeps all.
    """
    t = tensor(x, "matrix_band_part", "x")
    low, high = (integer(v, "matrix_band_part", "a bound") for v in (lower, upper))
    out = t if low < 0 else fg.triu(t, -low)
    return out if high < 0 else fg.tril(out, high)


def _blocks(what: str, size: Any, pairs: Any, rank: int) -> tuple[tuple[int, ...], list[Any]]:
    cut = [list(p) for p in (pairs.tolist() if isinstance(pairs, Tensor) else pairs)]
    size = (size,) * len(cut) if isinstance(size, int) else tuple(size)
    if len(size) != len(cut) or len(cut) >= rank or min(size) < 1:
        raise ValueError(f"For '{what}', block sizes {size} and {cut} do not fit {rank} axes.")
    return size, cut


@native
def space_to_batch_nd(input_x: Tensor, block_size: Any, paddings: Any) -> Tensor:
    """Blocks of the last axes moved into the batch. Source: `mindspore.ops.space_to_batch_nd`.

    Args:
        block_size: the length of a block along each of the last axes.
        paddings: zeros before and after each of them.

    Raises:
        ValueError: a padded axis does not divide into blocks.
    """
    x = tensor(input_x, "space_to_batch_nd", "input_x")
    size, pads = _blocks("space_to_batch_nd", block_size, paddings, x.ndim)
    lead = x.ndim - len(size)
    low = (0,) * lead + tuple(int(p[0]) for p in pads)
    high = (0,) * lead + tuple(int(p[1]) for p in pads)
    x = apply("pad", x, low=low, high=high, value=0)
    if any(d % s for d, s in zip(x.shape[lead:], size, strict=True)):
        raise ValueError(f"For 'space_to_batch_nd', {x.shape} does not divide into blocks {size}.")
    split = x.shape[:lead] + tuple(
        v for d, s in zip(x.shape[lead:], size, strict=True) for v in (d // s, s))
    inner = tuple(lead + 2 * i + 1 for i in range(len(size)))
    outer = tuple(lead + 2 * i for i in range(len(size)))
    y = fa.transpose(fa.reshape(x, split), (*inner, *range(lead), *outer))
    return fa.reshape(y, (x.shape[0] * math.prod(size), *x.shape[1:lead],
                          *(d // s for d, s in zip(x.shape[lead:], size, strict=True))))


@native
def batch_to_space_nd(input_x: Tensor, block_shape: Any, crops: Any) -> Tensor:
    """Blocks of the batch put back into the last axes. Source: `mindspore.ops.batch_to_space_nd`.

    Args:
        block_shape: the length of a block along each of the last axes.
        crops: what to cut off before and after each of them.

    Raises:
        ValueError: the batch does not divide into blocks.
    """
    x = tensor(input_x, "batch_to_space_nd", "input_x")
    size, cut = _blocks("batch_to_space_nd", block_shape, crops, x.ndim)
    lead, k = x.ndim - len(size), len(size)
    if x.shape[0] % math.prod(size):
        raise ValueError(f"For 'batch_to_space_nd', a batch of {x.shape[0]} does not divide into "
                         f"blocks {size}.")
    y = fa.reshape(x, (*size, x.shape[0] // math.prod(size), *x.shape[1:]))
    order = [*range(k, k + lead)]
    for i in range(k):
        order += [k + lead + i, i]
    spread = fa.reshape(fa.transpose(y, tuple(order)), (
        x.shape[0] // math.prod(size), *x.shape[1:lead],
        *(d * s for d, s in zip(x.shape[lead:], size, strict=True))))
    for i, (before, after) in enumerate(cut):
        axis = lead + i
        spread = fj.part(spread, axis, int(before), spread.shape[axis] - int(after))
    return spread


# --- statistics -----------------------------------------------------------------------------------


@native
def cov(input: Tensor, *, correction: int = 1, fweights: Tensor | None = None,
        aweights: Tensor | None = None) -> Tensor:
    """The covariance matrix of variables (rows). Source: `mindspore.ops.cov`.

    Args:
        correction: what is subtracted from the number of observations.
        fweights: how often each observation counts.
        aweights: the weight of each observation.

    Raises:
        ValueError: the input has more than 2 axes.
    """
    x = inexact(tensor(input, "cov"))
    if x.ndim > 2:
        raise ValueError(f"For 'cov', at most 2 axes are possible, but got {x.ndim}.")
    x = fa.reshape(x, (1, -1)) if x.ndim < 2 else x
    weights = [cast_to(tensor(w, "cov", "weights"), x.dtype)
               for w in (fweights, aweights) if w is not None]
    w = fc.ones((x.shape[1],), x.dtype) if not weights else \
        weights[0] if len(weights) == 1 else m.mul(*weights)
    total = fr.sum(w)
    apart = m.sub(x, m.div(fr.sum(m.mul(x, w), 1, True), total))
    less: Any = float(correction)
    if aweights is not None:
        less = m.div(m.mul(fr.sum(m.mul(w, cast_to(aweights, x.dtype))), less), total)
    products = fl.matmul(m.mul(apart, w), fa.transpose(m.conj(apart), (1, 0)))
    return fa.squeeze(m.div(products, m.maximum(m.sub(total, less), 0.0)))


def histc(input: Tensor, bins: int = 100, min: float = 0.0, max: float = 0.0) -> Tensor:
    """How many elements each of equal bins holds, in the type of the input.

    Raises:
        ValueError: no bins, or `min` exceeds `max`.

    Source: `mindspore.ops.histc`.

    Args:
        min: the lowest edge; with min == max the smallest and largest element are the edges.
        max: the highest edge, which belongs to the last bin.
    """
    x = fa.ravel(tensor(input, "histc"))
    n = integer(bins, "histc", "bins")
    if n < 1 or min > max:
        raise ValueError(f"For 'histc', bins >= 1 and min <= max are needed, but got {n}, {min} "
                         f"and {max}.")
    t = inexact(x)
    low: Any = fr.amin(t) if min == max else float(min)
    high: Any = fr.amax(t) if min == max else float(max)
    width = m.sub(high, low)
    flat = m.eq(width, 0) if isinstance(width, Tensor) else None
    if flat is not None:
        low, width = m.where(flat, m.sub(low, 1.0), low), m.where(flat, 2.0, width)
    place = m.floor(m.div(m.mul(m.sub(t, low), float(n)), width))
    inside = m.logical_and(m.ge(t, low), m.le(t, m.add(low, width)))
    index = m.where(inside, m.minimum(place, float(n - 1)), -1.0)
    cells: Tensor = apply("iota", shape=(n, 1), axis=0, dtype=int32)
    return fr.sum(m.eq(cells, cast_to(index, int32)), 1, dtype=x.dtype)


def _quantile(what: str, input: Any, q: Any, axis: Any, keepdims: bool, skip: bool) -> Tensor:
    x = tensor(input, what)
    if not x.dtype.is_float:
        raise TypeError(f"For '{what}', 'input' must be a float tensor, but got {x.dtype}.")
    given = [q] if is_scalar(q) else (q.tolist() if isinstance(q, Tensor) else list(q))
    points = given if isinstance(given, list) else [given]
    if any(not 0 <= p <= 1 for p in points):
        raise ValueError(f"For '{what}', 'q' must be in [0, 1], but got {points}.")
    whole = axis is None
    t, a = (fa.ravel(x), 0) if whole else (x, axis_of(axis, x.ndim, what))
    ordered, _ = fo.sort(t, a)  # NaN last
    bad = m.isnan(t)
    n = t.shape[a]
    count = m.sub(float(n), fr.sum(cast_to(bad, t.dtype), a, True)) if skip else None
    parts = []
    for p in points:
        place = m.mul(m.sub(count, 1.0), p) if count is not None else \
            fc.full((1,) * t.ndim, p * (n - 1), dtype=t.dtype)
        low = m.clamp(m.floor(place), 0.0, float(n - 1))
        high = m.clamp(m.ceil(place), 0.0, float(n - 1))
        shape = tuple(1 if i == a else d for i, d in enumerate(t.shape))
        first, second = (apply("gather_elements", ordered,
                               fa.broadcast_to(cast_to(v, int64), shape), dim=a)
                         for v in (low, high))
        parts.append(fx.lerp(first, second, m.sub(place, low)))
    none = fr.all(bad, a, True) if skip else fr.any(bad, a, True)
    parts = [m.where(none, math.nan, v) for v in parts]
    if not keepdims:
        parts = [fa.squeeze(v, a) for v in parts]
    elif whole:
        parts = [fa.reshape(v, (1,) * x.ndim) for v in parts]
    one = is_scalar(q) or (isinstance(q, Tensor) and not q.ndim)
    return parts[0] if one else fj.stack(parts)


def quantile(input: Tensor, q: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The q-th quantiles, linear between elements; NaN where one is. Source: `ops.quantile`.

    Args:
        q: a number or vector in [0, 1], known when a graph is compiled; several give a first axis.
    """
    return _quantile("quantile", input, q, axis, keepdims, False)


def nanquantile(input: Tensor, q: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """`quantile` of what is not NaN. Source: `mindspore.ops.nanquantile`."""
    return _quantile("nanquantile", input, q, axis, keepdims, True)


@native
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distance of every pair of rows.

    Raises:
        ValueError: the input has fewer than 2 axes.

    Source: `mindspore.ops.pdist`.
    """
    x = tensor(input, "pdist")
    if x.ndim < 2:
        raise ValueError(f"For 'pdist', at least 2 axes are needed, but got {x.ndim}.")
    first, second = (Tensor._from_array(np.ascontiguousarray(i))
                     for i in np.triu_indices(x.shape[-2], 1))
    gap = m.sub(apply("gather", x, first, axis=x.ndim - 2),
                apply("gather", x, second, axis=x.ndim - 2))
    return fr.norm(gap, float(p), -1)


@native
def renorm(input: Tensor, p: float, axis: int, maxnorm: float) -> Tensor:
    """Slices along an axis scaled down to a p-norm of at most maxnorm.

    Source: `mindspore.ops.renorm`.
    """
    x = tensor(input, "renorm")
    a = axis_of(axis, x.ndim, "renorm")
    rest = tuple(i for i in range(x.ndim) if i != a)
    size = fr._vector_norm(x, float(p), rest, True)
    scale = m.where(m.gt(size, maxnorm), m.div(float(maxnorm), m.add(size, 1e-7)), 1.0)
    return m.mul(x, scale)


@native
def vecdot(x: Tensor, y: Tensor, *, axis: int = -1) -> Tensor:
    """The sum of products along an axis, x conjugated. Source: `mindspore.ops.vecdot`."""
    products = m.mul(m.conj(tensor(x, "vecdot", "x")), tensor(y, "vecdot", "y"))
    return fr.sum(products, axis)


@native
def vector_norm(x: Tensor, ord: Any = 2, axis: Any = None, keepdims: bool = False, *,
                dtype: DType | None = None) -> Tensor:
    """The norm of vectors over axes. Source: `mindspore.ops.vector_norm`."""
    t = inexact(tensor(x, "vector_norm", "x"))
    t = t if dtype is None else cast_to(t, dtype_of(dtype, "vector_norm"))
    return fr._vector_norm(t, number(ord, "vector_norm", "ord"), axis, keepdims)


@native
def top_k(input_x: Tensor, k: int, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest along the last axis, and where. Source: `mindspore.ops.top_k`."""
    return fo.topk(input_x, k, -1, True, sorted)


def intopk(x1: Tensor, x2: Tensor, k: int) -> Tensor:
    """Whether the score of each row's label is among its k largest.

    Raises:
        ValueError: other shapes than (n, c) and (n).

    Source: `ops.intopk`.
    """
    scores, labels = tensor(x1, "intopk", "x1"), tensor(x2, "intopk", "x2")
    if scores.ndim != 2 or labels.shape != scores.shape[:1]:
        raise ValueError(f"For 'intopk', scores (n, c) and labels (n) are needed, but got shapes "
                         f"{scores.shape} and {labels.shape}.")
    own: Tensor = apply("gather_elements", scores, fa.reshape(cast_to(labels, int64), (-1, 1)),
                        dim=1)
    return m.lt(fr.sum(m.gt(scores, own), 1), integer(k, "intopk", "k"))


@native
def matrix_power(input: Tensor, n: int) -> Tensor:
    """Square matrices multiplied with themselves n times, n not negative.

    Raises:
        ValueError: no square matrices, or `n` is negative.

    Source: `mindspore.ops.matrix_power`.
    """
    x, count = tensor(input, "matrix_power"), integer(n, "matrix_power", "n")
    if x.ndim < 2 or x.shape[-1] != x.shape[-2] or count < 0:
        raise ValueError(f"For 'matrix_power', square matrices and n >= 0 are needed, but got "
                         f"shape {x.shape} and n={count}; negative powers need an inverse.")
    if not count:
        return fa.broadcast_to(fc.eye(x.shape[-1], None, x.dtype), x.shape)
    out: Tensor | None = None
    while count:
        if count & 1:
            out = x if out is None else fl.matmul(out, x)
        count >>= 1
        x = fl.matmul(x, x) if count else x
    assert out is not None
    return out


# --- networks -------------------------------------------------------------------------------------


def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, dim: int = -1) -> Tensor:
    """A softmax of logits with Gumbel noise. Source: `mindspore.ops.gumbel_softmax`.

    Args:
        tau: the temperature, above 0.
        hard: the result is one-hot; its gradient is that of the soft one.

    Raises:
        ValueError: `tau` is not positive.
    """
    x = tensor(logits, "gumbel_softmax", "logits")
    if number(tau, "gumbel_softmax", "tau") <= 0:
        raise ValueError(f"For 'gumbel_softmax', 'tau' must be above 0, but got {tau}.")
    drawn = m.sub(1.0, rnd.rand_like(x))  # in (0, 1]
    noise = m.neg(apply("log", m.add(m.neg(apply("log", drawn)), 1e-20)))
    soft = fn.softmax(m.div(m.add(x, noise), float(tau)), dim)
    if not hard:
        return soft
    a = axis_of(dim, x.ndim, "gumbel_softmax", "dim")
    cells = apply("iota", shape=x.shape, axis=a, dtype=int64)
    best = cast_to(m.eq(cells, fr.argmax(soft, a, True)), x.dtype)
    return m.add(apply("stop_gradient", m.sub(best, soft)), soft)


def _reduced(x: Tensor, reduction: str, what: str) -> Tensor:
    choice(reduction, ("none", "mean", "sum"), what, "reduction")
    return x if reduction == "none" else fr.mean(x) if reduction == "mean" else fr.sum(x)


@native
def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1, weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The hinge loss of class scores (n, c). Source: `mindspore.ops.multi_margin_loss`.

    Args:
        p: the power of the hinge, 1 or 2.
        weight: of each class.

    Raises:
        ValueError: `p` is neither 1 nor 2, or other shapes than (n, c) and (n).
    """
    x, y = tensor(input, "multi_margin_loss"), tensor(target, "multi_margin_loss", "target")
    if p not in (1, 2):
        raise ValueError(f"For 'multi_margin_loss', 'p' must be 1 or 2, but got {p}.")
    if x.ndim != 2 or y.shape != x.shape[:1]:
        raise ValueError(f"For 'multi_margin_loss', shapes (n, c) and (n) are needed, but got "
                         f"{x.shape} and {y.shape}.")
    label = fa.reshape(cast_to(y, int64), (-1, 1))
    own: Tensor = apply("gather_elements", x, label, dim=1)
    hinge = m.maximum(m.add(m.sub(x, own), float(margin)), 0.0)
    hinge = m.mul(hinge, hinge) if p == 2 else hinge
    if weight is not None:
        hinge = m.mul(hinge, apply("gather", weight, label, axis=0))
    cells = apply("iota", shape=x.shape, axis=1, dtype=int64)
    each = fr.sum(m.where(m.eq(cells, label), 0.0, hinge), 1)
    return _reduced(m.div(each, float(x.shape[1])), reduction, "multi_margin_loss")


@native
def iou(anchor_boxes: Tensor, gt_boxes: Tensor, mode: str = "iou") -> Tensor:
    """How far boxes (n, 4) and (k, 4) overlap: (k, n). Source: `mindspore.ops.iou`.

    Args:
        mode: "iou" divides by the union, "iof" by the area of the true box.

    Raises:
        ValueError: other shapes than (n, 4) and (k, 4).
    """
    a, g = tensor(anchor_boxes, "iou"), tensor(gt_boxes, "iou")
    choice(mode, ("iou", "iof"), "iou", "mode")
    if a.ndim != 2 or g.ndim != 2 or a.shape[1] != 4 or g.shape[1] != 4:
        raise ValueError(f"For 'iou', boxes (n, 4) and (k, 4) are needed, got {a.shape} and "
                         f"{g.shape}.")
    x = [fj.part(a, 1, i, i + 1) for i in range(4)]
    x = [fa.reshape(v, (1, -1)) for v in x]
    y = [fj.part(g, 1, i, i + 1) for i in range(4)]
    # A box holds its right and lower border.
    def span(low: Tensor, high: Tensor) -> Tensor:
        return m.maximum(m.add(m.sub(high, low), 1.0), 0.0)

    inner = m.mul(span(m.maximum(x[0], y[0]), m.minimum(x[2], y[2])),
                  span(m.maximum(x[1], y[1]), m.minimum(x[3], y[3])))
    areas = [m.mul(span(b[0], b[2]), span(b[1], b[3])) for b in (x, y)]
    if mode == "iof":
        return m.div(inner, areas[1])
    return m.div(inner, m.sub(m.add(areas[0], areas[1]), inner))


@native
def affine_grid(theta: Tensor, size: Any, align_corners: bool = False) -> Tensor:
    """The sampling grid of affine maps, for `grid_sample`. Source: `mindspore.ops.affine_grid`.

    Args:
        theta: (N, 2, 3) for images, (N, 3, 4) for volumes.
        size: (N, C, H, W) or (N, C, D, H, W).
        align_corners: -1 and 1 are the centres, not the borders, of the outermost elements.

    Raises:
        ValueError: the maps do not fit the size.
    """
    t = tensor(theta, "affine_grid", "theta")
    dims = tuple(integer(d, "affine_grid", "size") for d in size)
    rank = len(dims) - 2
    if rank not in (2, 3) or t.shape != (dims[0], rank, rank + 1):
        raise ValueError(f"For 'affine_grid', theta {t.shape} does not fit size {dims}.")
    axes = []
    for i, n in enumerate(dims[2:]):
        line = np.linspace(-1.0, 1.0, n) if n > 1 else np.zeros(1)
        line = line if align_corners or n < 1 else line * (n - 1) / n
        place = tuple(n if j == i else 1 for j in range(rank))
        flat = Tensor._from_array(line.reshape(place).astype(t.dtype.numpy))
        axes.append(fa.broadcast_to(flat, dims[2:]))
    points = fj.stack([*reversed(axes), fc.ones(dims[2:], t.dtype)], -1)
    flat = fa.reshape(points, (1, -1, rank + 1))
    out = fl.matmul(flat, fa.swapaxes(t, 1, 2))
    return fa.reshape(out, (dims[0], *dims[2:], rank))


@native
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """An image or volume read at points in [-1, 1]. Source: `mindspore.ops.grid_sample`.

    Args:
        input: (N, C, H, W) or (N, C, D, H, W).
        grid: (N, ..., 2) or (N, ..., 3): x, y(, z).
        mode: "bilinear" or "nearest".
        padding_mode: what is outside: "zeros", the "border", or its "reflection".
        align_corners: -1 and 1 are the centres, not the borders, of the outermost elements.

    Raises:
        ValueError: the grid does not fit the input.
    """
    x, points = tensor(input, "grid_sample"), tensor(grid, "grid_sample", "grid")
    choice(mode, ("bilinear", "nearest"), "grid_sample", "mode")
    choice(padding_mode, ("zeros", "border", "reflection"), "grid_sample", "padding_mode")
    rank = x.ndim - 2
    if rank not in (2, 3) or points.ndim != x.ndim or points.shape[-1] != rank or \
            points.shape[0] != x.shape[0]:
        raise ValueError(f"For 'grid_sample', a grid of shape {points.shape} does not fit an "
                         f"input of shape {x.shape}.")
    sizes = x.shape[2:]
    places: list[Tensor] = []
    for i, n in enumerate(reversed(sizes)):
        at = fa.squeeze(fj.part(points, points.ndim - 1, i, i + 1), -1)
        places.insert(0, _pixel(at, n, padding_mode, bool(align_corners)))
    shape = places[0].shape
    if mode == "nearest":
        return _read(x, [m.round(p) for p in places], None, shape)
    total: Tensor | None = None
    for corner in itertools.product((0, 1), repeat=rank):
        index = [m.add(m.floor(p), float(c)) for p, c in zip(places, corner, strict=True)]
        share = [m.sub(1.0, m.abs(m.sub(p, v))) for p, v in zip(places, index, strict=True)]
        weight = share[0]
        for s in share[1:]:
            weight = m.mul(weight, s)
        part = _read(x, index, weight, shape)
        total = part if total is None else m.add(total, part)
    assert total is not None
    return total


def _pixel(at: Tensor, n: int, padding: str, align: bool) -> Tensor:
    """A coordinate in [-1, 1] as a position along an axis of n elements."""
    p = m.mul(m.add(at, 1.0), (n - 1) / 2) if align else \
        m.div(m.sub(m.mul(m.add(at, 1.0), float(n)), 1.0), 2.0)
    if padding == "reflection":
        low, span = (0.0, float(n - 1)) if align else (-0.5, float(n))
        if span > 0:
            turn = m.remainder(m.abs(m.sub(p, low)), 2 * span)
            p = m.add(m.minimum(turn, m.sub(2 * span, turn)), low)
        else:
            p = m.mul(p, 0.0)
    return p if padding == "zeros" else m.clamp(p, 0.0, float(n - 1))


def _read(x: Tensor, index: list[Tensor], weight: Tensor | None, shape: tuple[int, ...]) -> Tensor:
    """Elements at whole positions, 0 outside, times a weight: (N, C, ...)."""
    flat, inside = None, None
    for p, n in zip(index, x.shape[2:], strict=True):
        ok = m.logical_and(m.ge(p, 0.0), m.le(p, float(n - 1)))
        at = cast_to(m.clamp(m.where(ok, p, 0.0), 0.0, float(n - 1)), int64)
        flat = at if flat is None else m.add(m.mul(flat, n), at)
        inside = ok if inside is None else m.logical_and(inside, ok)
    assert flat is not None and inside is not None
    batch, channels = x.shape[:2]
    rows = fa.reshape(x, (batch, channels, -1))
    where = fa.broadcast_to(fa.reshape(flat, (batch, 1, -1)),
                            (batch, channels, math.prod(shape[1:])))
    got = fa.reshape(apply("gather_elements", rows, where, dim=2), (batch, channels, *shape[1:]))
    keep = cast_to(inside, x.dtype)
    return m.mul(got, fa.expand_dims(keep if weight is None else m.mul(keep, weight), 1))


def eps(x: Tensor) -> Tensor:
    """The distance of 1 to the next number of the type, everywhere.

    Raises:
        TypeError: no tensor of floats.

    Source: `mindspore.ops.eps`.
    """
    t = tensor(x, "eps", "x")
    if not t.dtype.is_float:
        raise TypeError(f"For 'eps', a float tensor is needed, but got {t.dtype}.")
    return fc.full_like(t, {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23}.get(
        t.dtype.name, 2.0**-52))


# Other names of functions.
equal = m.eq
not_equal = m.ne
less = m.lt
less_equal = m.le
greater = m.gt
greater_equal = m.ge
arctan2 = fx.atan2
inv = m.reciprocal
tensor_add = m.add
tensor_sub = m.sub
tensor_mul = m.mul
tensor_div = m.true_divide
tensor_pow = m.pow
tensor_floordiv = m.floor_divide
tensor_mod = m.remainder
tensor_gt = m.gt
tensor_ge = m.ge
tensor_lt = m.lt
tensor_le = m.le
floordiv = m.floor_divide
floormod = m.remainder


__all__ = [
    "adjoint", "affine_grid", "approximate_equal", "arctan2", "bartlett_window",
    "batch_to_space_nd", "blackman_window", "bucketize", "channel_shuffle", "combinations", "cov",
    "eps", "equal", "floordiv", "floormod", "greater", "greater_equal", "grid_sample",
    "gumbel_softmax", "hamming_window", "histc", "intopk", "inv", "iou", "is_nonzero",
    "kaiser_window", "ldexp", "less", "less_equal", "matrix_band_part", "matrix_power",
    "multi_margin_loss", "nanquantile", "not_equal", "pdist", "quantile", "renorm", "row_stack",
    "space_to_batch_nd", "tensor_add", "tensor_div", "tensor_floordiv", "tensor_ge", "tensor_gt",
    "tensor_le", "tensor_lt", "tensor_mod", "tensor_mul", "tensor_pow", "tensor_sub", "top_k",
    "truncate_div", "truncate_mod", "type_as", "vecdot", "vector_norm",
]
