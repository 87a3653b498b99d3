"""Reductions over axes.

Sums, means and norms of float16 and bfloat16 are kept in float32 and rounded once. Attributes
`axes` are non-negative and sorted; `None` means all, `()` none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from cellc_runtime import dtypes as dt
from cellc_runtime.dtypes import DType

from ..ir import attributes as attr
from ..ir.dims import is_symbolic
from ..ir.graph import Builder, Node, Value
from ..ir.op import BOOL, COMPLEX, FLOATS, NUMBERS, REAL, Array, Op, Sample, Spec
from ..ir.types import TensorType, normalize_axes, normalize_axis, prod
from ..loops.expr import Reduction
from . import _batch_axis
from ._complex import by_parts, conj
from ._members import Grads, case, define, no_gradient
from ._views import crop
from .batching import along
from .elementwise import check_dtype, compute_dtype, to_dtype, widen

Axes = tuple[int, ...] | None


def accumulator(dtype: DType) -> DType:
    """Sums of 16-bit floats are kept in float32 and rounded once."""
    return compute_dtype(dtype)


def reduced_axes(axes: Axes, rank: int) -> tuple[int, ...]:
    """The axes that go: all for None."""
    return () if axes == () else normalize_axes(axes, rank)


def reduced_shape(x: TensorType, axes: Axes, keepdims: bool) -> tuple[Any, ...]:
    """The shape after a reduction."""
    gone = set(reduced_axes(axes, x.rank))
    return tuple(1 if i in gone else d for i, d in enumerate(x.shape) if keepdims or i not in gone)


def spread(b: Builder, v: Value, x: TensorType, axes: Axes) -> Value:
    """A reduced value with the reduced axes back as size 1, ready to broadcast against `x`."""
    keep = reduced_shape(x, axes, True)
    return v if v.type.shape == keep else b.reshape(v, shape=keep)


def expand_like(b: Builder, reduced: Value, node: Node) -> Value:
    """A reduced value broadcast back to the shape of the reduction's operand."""
    ty = node.operands[0].type
    return b.broadcast_to(spread(b, reduced, ty, node.attrs["axes"]), shape=ty.shape)


def count_of(x: TensorType, axes: Axes) -> int:
    """How many elements one result takes."""
    return prod(x.dims[i] for i in reduced_axes(axes, x.rank))


class _Axes(Op):
    """Base of ops with `axes` and `keepdims`."""

    attrs = {"axes": attr.optional(attr.axes()), "keepdims": attr.flag(False)}

    def infer(self, x: TensorType, *, axes: Axes, keepdims: bool, **attrs: Any) -> TensorType:
        check_dtype(self, x)
        return TensorType(reduced_shape(x, axes, keepdims), self.result_dtype(x.dtype))

    def result_dtype(self, dtype: DType) -> DType:
        """Element type of the result."""
        return dtype

    def samples(self) -> Sequence[Sample]:
        x = (3, 4, 19)
        return (case(x, axes=(2,)), case(x, axes=(0, 1), keepdims=True), case(x, axes=None),
                case(x, axes=(1,)), case(x, axes=(0, 2)), case((2, 3), axes=()),
                *self.small_samples())

    def small_samples(self) -> tuple[Sample, ...]:
        "Samples of no or one element."
        return (case((0, 3), axes=(0,)), case((0, 3), axes=(1,)), case((), axes=None))


class Reduce(_Axes):
    """Base of reductions.

    Attributes:
        axes: axes to reduce, non-negative and sorted; all of them if None.
        keepdims: keep reduced axes as size 1.
    """

    batch_axis = _batch_axis.reduced
    kind: ClassVar[str]
    batch = along("axes")

    def contracted(self, node: Node) -> Sequence[Sequence[tuple[int, int]]]:
        axes = reduced_axes(node.attrs["axes"], node.operands[0].type.rank)
        return [[(0, a)] for a in axes] if self.combine == self.kind else []

    def reduction(self, node: Node) -> Reduction:
        ty = node.operands[0].type
        axes = reduced_axes(node.attrs["axes"], ty.rank)
        return Reduction(self.kind, ty.dims, axes, accumulator(ty.dtype), lambda r, i: r.read(0, i))

    def reference(self, x: Array, *, axes: Axes, keepdims: bool) -> Array:
        axes = reduced_axes(axes, x.ndim)
        return getattr(np, self.kind)(x, axis=axes, keepdims=keepdims)


class ReduceSum(Reduce):
    """Sum over axes. Source: `mindspore.ops.sum`."""

    name = "reduce_sum"
    of_complex = by_parts
    sums = True
    kind = "sum"
    dtypes = NUMBERS
    amp = "high"
    tolerance = 16.0

    def reference(self, x: Array, *, axes: Axes, keepdims: bool) -> Array:
        axes = reduced_axes(axes, x.ndim)
        return np.sum(x, axis=axes, keepdims=keepdims, dtype=_wide(x)).astype(x.dtype)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [expand_like(b, dys[0], node)]


def _wide(x: Array) -> np.dtype[Any]:
    """The numpy dtype a reference sums in."""
    return np.dtype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x.dtype


class ReduceProd(Reduce):
    """Product over axes. Source: `mindspore.ops.prod`.

    The gradient is exact with zeros among the factors (its own derivative is so without them).
    """

    name = "reduce_prod"
    kind = "prod"
    combine = "prod"
    dtypes = NUMBERS
    amp = "high"
    tolerance = 32.0

    def reference(self, x: Array, *, axes: Axes, keepdims: bool) -> Array:
        axes = reduced_axes(axes, x.ndim)
        return np.prod(x, axis=axes, keepdims=keepdims, dtype=_wide(x)).astype(x.dtype)

    def of_complex(self, b: Builder, node: Node) -> Value | None:
        """The halves of each axis are multiplied until one element is left."""
        x = node.operands[0]
        for axis in reduced_axes(node.attrs["axes"], x.type.rank):
            n = x.shape[axis]
            if is_symbolic(n):
                return None
            if n == 0:
                return b.full(node.result.type, 1)
            while n > 1:
                half = n // 2
                y = b.mul(crop(b, x, axis, 0, half), crop(b, x, axis, half, 2 * half))
                x = b.join(y, crop(b, x, axis, n - 1, n), axis=axis) if n % 2 else y
                n -= half
        return x if node.attrs["keepdims"] else b.reshape(x, shape=node.result.shape)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x, axes, dy = node.operands[0], node.attrs["axes"], dys[0]
        is_zero = b.eq(x, b.scalar(0, like=x))
        zeros = b.reduce_sum(b.cast(is_zero, dtype=dt.int32), axes=axes, keepdims=True)
        safe = b.where(is_zero, b.scalar(1, like=x), x)
        others = b.reduce_prod(safe, axes=axes, keepdims=True)
        # A factor's slope is the product of the rest: 0 if a zero is among the rest.
        rest = b.sub(zeros, b.cast(is_zero, dtype=dt.int32))
        divided = b.trunc_div if x.dtype.is_integer else b.div
        slope = b.where(b.eq(rest, b.scalar(0, like=rest)), divided(others, safe),
                        b.scalar(0, like=x))
        return [b.mul(spread(b, dy, x.type, axes), conj(b, slope))]

    def samples(self) -> Sequence[Sample]:
        return (*super().samples(),
                Sample((np.array([[0.0, 2, 3], [1, 2, 3], [0, 0, 3]], np.float64),),
                       {"axes": (1,)}, grad=False))


class _Filled(_Axes):
    """Base of reductions that need an element."""

    def infer(self, x: TensorType, *, axes: Axes, keepdims: bool, **attrs: Any) -> TensorType:
        out = super().infer(x, axes=axes, keepdims=keepdims)
        if any(x.shape[i] == 0 for i in reduced_axes(axes, x.rank)):
            raise ValueError(f"{self.name} over an axis without elements of {x}")
        return out

    def small_samples(self) -> tuple[Sample, ...]:
        return case((3, 0), axes=(0,)), case((), axes=None)


class _Extreme(_Filled, Reduce):
    """Base of maximum and minimum: NaN if any is; equal extremes share the cotangent evenly.

    Where a NaN is the extreme, all cotangents are NaN.

    Attributes:
        first: of one axis: the first of equal extremes has the whole cotangent, as argmax says it.
    """

    attrs = {**Reduce.attrs, "first": attr.flag(False)}
    dtypes = REAL

    def infer(self, x: TensorType, *, axes: Axes, keepdims: bool, **attrs: Any) -> TensorType:
        if attrs.get("first") and len(reduced_axes(axes, x.rank)) != 1:
            raise ValueError(f"{self.name}: the first of equal elements is one of a single axis, "
                             f"not of {axes} of {x}")
        return super().infer(x, axes=axes, keepdims=keepdims)

    def reference(self, x: Array, *, axes: Axes, keepdims: bool, first: bool = False) -> Array:
        return super().reference(x, axes=axes, keepdims=keepdims)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x, axes, dy = node.operands[0], node.attrs["axes"], dys[0]
        if node.attrs["first"]:
            (axis,) = reduced_axes(axes, x.type.rank)
            at = b.emit(f"arg{self.kind}", x, axis=axis, keepdims=True)
            here = b.eq(b.iota(shape=x.type.shape, axis=axis, dtype=dt.int64), at)
            return [b.where(here, spread(b, dy, x.type, axes), b.scalar(0, like=x))]
        chosen = b.eq(x, spread(b, node.result, x.type, axes))
        ties = b.reduce_sum(b.cast(chosen, dtype=x.dtype), axes=axes, keepdims=True)
        divided = b.trunc_div if x.dtype.is_integer else b.div
        share = divided(spread(b, dy, x.type, axes), ties)
        nothing = b.scalar(0, like=x)
        if x.dtype.is_float:
            missing = b.where(b.isnan(node.result), b.scalar(math.nan, like=x), nothing)
            nothing = spread(b, missing, x.type, axes)
        return [b.where(chosen, share, nothing)]

    def samples(self) -> Sequence[Sample]:
        return (*super().samples(), case((3, 4, 19), axes=(1,), first=True))


define(_Extreme, "reduce_max", "The largest element. Source: `mindspore.ops.amax`.", kind="max",
       combine="max")
define(_Extreme, "reduce_min", "The smallest element. Source: `mindspore.ops.amin`.", kind="min",
       combine="min")


class _Truth(Reduce):
    """Base of any and all, on bools."""

    dtypes = BOOL
    gradient = no_gradient


define(_Truth, "reduce_any", "Whether any is true (false of none). Source: `mindspore.ops.any`.",
       kind="any")
define(_Truth, "reduce_all", "Whether all are true (true of none). Source: `mindspore.ops.all`.",
       kind="all")


class _Arg(Op):
    """Base of argmax and argmin: int64 positions along one axis.

    Attributes:
        axis: the axis, non-negative.
        keepdims: keep it as size 1.

    The first of equal extremes wins; a NaN is the extreme.
    """

    batch_axis = _batch_axis.reduced
    attrs = {"axis": attr.axis(), "keepdims": attr.flag(False)}
    dtypes = REAL
    kind: ClassVar[str]
    batch = along("axis")
    gradient = no_gradient

    def infer(self, x: TensorType, *, axis: int, keepdims: bool) -> TensorType:
        check_dtype(self, x)
        axis = normalize_axis(axis, x.rank)
        if x.rank and x.shape[axis] == 0:
            raise ValueError(f"{self.name} over an axis without elements of {x}")
        return TensorType(reduced_shape(x, (axis,) if x.rank else (), keepdims), dt.int64)

    def reduction(self, node: Node) -> Reduction:
        ty = node.operands[0].type
        axes = (normalize_axis(node.attrs["axis"], ty.rank),) if ty.rank else ()
        return Reduction(self.kind, ty.dims, axes, accumulator(ty.dtype), lambda r, i: r.read(0, i))

    def reference(self, x: Array, *, axis: int, keepdims: bool) -> Array:
        return getattr(np, self.kind)(x, axis=axis if x.ndim else None, keepdims=keepdims)

    def samples(self) -> Sequence[Sample]:
        x = (3, 4, 19)
        return (case(x, axis=2), case(x, axis=1, keepdims=True), case(x, axis=0),
                case((1,), axis=0), case((3, 0), axis=0), case((), axis=0))


define(_Arg, "argmax", "Position of the largest element. Source: `mindspore.ops.argmax`.",
       kind="argmax")
define(_Arg, "argmin", "Position of the smallest element. Source: `mindspore.ops.argmin`.",
       kind="argmin")


# --- compositions --------------------------------------------------------------------------------


class ReduceMean(_Axes):
    """Sum divided by count; NaN of none. Source: `mindspore.ops.mean`."""

    name = "reduce_mean"
    sums = True
    dtypes = FLOATS + COMPLEX
    amp = "high"
    tolerance = 16.0

    def expand(self, b: Builder, x: Value, *, axes: Axes, keepdims: bool) -> Value:
        total = b.reduce_sum(widen(b, x), axes=axes, keepdims=keepdims)
        mean = b.div(total, b.scalar(count_of(x.type, axes), like=total))
        return to_dtype(b, mean, x.dtype)

    def reference(self, x: Array, *, axes: Axes, keepdims: bool) -> Array:
        axes = reduced_axes(axes, x.ndim)
        total = np.sum(x, axis=axes, keepdims=keepdims, dtype=_wide(x))
        return (total / np.asarray(x.size / max(total.size, 1), total.dtype)).astype(x.dtype)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        dy = dys[0]
        n = count_of(node.operands[0].type, node.attrs["axes"])
        wide = widen(b, dy)
        share = to_dtype(b, b.div(wide, b.scalar(n, like=wide)), dy.dtype)
        return [expand_like(b, share, node)]

    def small_samples(self) -> tuple[Sample, ...]:
        return (case((0, 3), axes=(0,), grad=False), case((0, 3), axes=(1,)), case((), axes=None))


def mean_and_centered(b: Builder, x: Value, axes: Axes) -> tuple[Value, Value]:
    """The mean (kept dims) and the deviations from it."""
    mean = b.reduce_mean(x, axes=axes, keepdims=True)
    return mean, b.sub(x, mean)


class _Spread(_Axes):
    """Base of variance and standard deviation.

    Attributes:
        correction: subtracted from the count in the divisor (1: Bessel's). If nothing is left
            the result is NaN or infinite.
    """

    attrs = {"axes": attr.optional(attr.axes()), "keepdims": attr.flag(False),
             "correction": attr.whole(default=0)}
    amp = "high"
    tolerance = 16.0

    def summed(self, *arrays: Array, **attrs: Any) -> Array:
        """The mean square: the deviations have the rounding of what they are the deviations of."""
        square: Array = np.mean(arrays[0] ** 2, axis=reduced_axes(attrs["axes"], arrays[0].ndim),
                                keepdims=attrs["keepdims"])
        return square

    def samples(self) -> Sequence[Sample]:
        x = (3, 4, 19)
        return (case(x, axes=(2,)), case(x, axes=(0, 1), keepdims=True),
                case(x, axes=None, correction=1), case(x, axes=(0, 2)), case((0, 3), axes=(1,)))


class ReduceVar(_Spread):
    """Mean squared deviation from the mean, in two passes. Source: `mindspore.ops.var`."""

    name = "reduce_var"

    def expand(self, b: Builder, x: Value, *, axes: Axes, keepdims: bool, correction: int) -> Value:
        _, centered = mean_and_centered(b, widen(b, x), axes)
        total = b.reduce_sum(b.mul(centered, centered), axes=axes, keepdims=keepdims)
        n = b.scalar(count_of(x.type, axes) - correction, like=total)
        return to_dtype(b, b.div(total, n), x.dtype)

    def reference(self, x: Array, *, axes: Axes, keepdims: bool, correction: int) -> Array:
        axes = reduced_axes(axes, x.ndim)
        wide = x.astype(_wide(x))
        count = np.asarray(x.size // max(np.sum(wide, axis=axes).size, 1), wide.dtype)
        centered = wide - np.sum(wide, axis=axes, keepdims=True) / count
        total = np.sum(centered * centered, axis=axes, keepdims=keepdims)
        n = x.size // max(total.size, 1) - correction
        return np.asarray(total / np.asarray(n, total.dtype)).astype(x.dtype)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [_spread_gradient(b, node, dys[0], None)]


def _spread_gradient(b: Builder, node: Node, dy: Value | None, std: Value | None) -> Value:
    """(x - mean) * 2 dy / (n - correction), or dy / ((n - correction) std) for the root."""
    x, axes = node.operands[0], node.attrs["axes"]
    assert dy is not None
    _, centered = mean_and_centered(b, widen(b, x), axes)
    left = count_of(x.type, axes) - node.attrs["correction"]
    scale = widen(b, dy)
    if std is None:
        scale = b.mul(scale, b.scalar(2, like=scale))
    else:
        std, zero = widen(b, std), b.scalar(0, like=scale)
        flat = b.eq(std, zero)
        scale = b.where(flat, zero, b.div(scale, b.where(flat, b.scalar(1, like=std), std)))
    scale = b.div(scale, b.scalar(left, like=scale))
    return to_dtype(b, b.mul(centered, spread(b, scale, x.type, axes)), x.dtype)


class ReduceStd(_Spread):
    """The root of the variance. Source: `mindspore.ops.std`.

    The cotangent of equal elements is 0 (MindSpore's is NaN).
    """

    name = "reduce_std"

    def expand(self, b: Builder, x: Value, **attrs: Any) -> Value:
        return to_dtype(b, b.sqrt(b.reduce_var(widen(b, x), **attrs)), x.dtype)

    def summed(self, *arrays: Array, **attrs: Any) -> Array:
        """The root of the mean square."""
        return np.sqrt(super().summed(*arrays, **attrs))

    def reference(self, x: Array, **attrs: Any) -> Array:
        return np.sqrt(ReduceVar().reference(x.astype(_wide(x)), **attrs)).astype(x.dtype)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [_spread_gradient(b, node, dys[0], node.result)]


class LogSumExp(_Filled):
    """log(sum(exp(input))) without overflow. Source: `mindspore.ops.logsumexp`.

    Only -infinities give -infinity. The cotangent is that of a softmax: NaN for all of a row with
    a NaN or of only -infinities, and for a +infinity.
    """

    name = "logsumexp"
    amp = "high"
    tolerance = 16.0

    def _shifted(self, b: Builder, x: Value, axes: Axes) -> tuple[Value, Value, Value]:
        """The shift, the exponentials of what is left, and their sum (kept dims)."""
        wide = widen(b, x)
        # Any shift gives the same value, so it has no part in derivatives.
        highest = b.reduce_max(wide, axes=axes, keepdims=True)
        finite = b.where(b.isfinite(highest), highest, b.scalar(0, like=highest))
        top = b.stop_gradient(finite)
        e = b.exp(b.sub(wide, top))
        return top, e, b.reduce_sum(e, axes=axes, keepdims=True)

    def expand(self, b: Builder, x: Value, *, axes: Axes, keepdims: bool) -> Value:
        top, _, total = self._shifted(b, x, axes)
        out = to_dtype(b, b.add(b.log(total), top), x.dtype)
        return out if keepdims else b.reshape(out, shape=reduced_shape(x.type, axes, False))

    def reference(self, x: Array, *, axes: Axes, keepdims: bool) -> Array:
        axes = reduced_axes(axes, x.ndim)
        wide = x.astype(_wide(x))
        top = np.max(wide, axis=axes, keepdims=True)
        top = np.where(np.isfinite(top), top, 0)
        total = np.sum(np.exp(wide - top), axis=axes, keepdims=True)
        out = (np.log(total) + top).astype(x.dtype)
        return out if keepdims else out.reshape(np.max(x, axis=axes).shape)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x, axes, dy = node.operands[0], node.attrs["axes"], dys[0]
        _, e, total = self._shifted(b, x, axes)
        share = b.div(e, total)
        grad = b.mul(spread(b, widen(b, dy), x.type, axes), share)
        return [to_dtype(b, grad, x.dtype)]


class Norm(_Axes):
    """The p-norm of vectors: sum(|x|**p) ** (1/p). Source: `mindspore.ops.norm`.

    Attributes:
        p: the order; inf and -inf give the largest and smallest |x|, 0 the count of nonzeros.

    Half floats are computed in float32. The cotangent of a zero vector is 0, and with p below 1
    that of a zero.
    """

    name = "norm"
    attrs = {"axes": attr.optional(attr.axes()), "keepdims": attr.flag(False), "p": attr.real(2.0)}
    amp = "high"
    tolerance = 32.0

    def infer(self, x: TensorType, *, axes: Axes, keepdims: bool, **attrs: Any) -> TensorType:
        out = super().infer(x, axes=axes, keepdims=keepdims)
        empty = any(x.shape[i] == 0 for i in reduced_axes(axes, x.rank))
        if empty and math.isinf(attrs["p"]):
            raise ValueError(f"an infinite norm over an axis without elements of {x}")
        return out

    def expand(self, b: Builder, x: Value, *, axes: Axes, keepdims: bool, p: float) -> Value:
        v = widen(b, x)
        return to_dtype(b, self._norm(b, v, {"axes": axes, "keepdims": keepdims}, p), x.dtype)

    def _norm(self, b: Builder, v: Value, over: dict[str, Any], p: float) -> Value:
        if p == 2:
            return b.sqrt(b.reduce_sum(b.mul(v, v), **over))
        size = b.abs(v)
        if p == 1:
            return b.reduce_sum(size, **over)
        if math.isinf(p):
            return b.reduce_max(size, **over) if p > 0 else b.reduce_min(size, **over)
        if p == 0:
            return b.reduce_sum(b.cast(b.ne(v, b.scalar(0, like=v)), dtype=v.dtype), **over)
        total = b.reduce_sum(b.pow(size, b.scalar(p, like=v)), **over)
        return b.pow(total, b.scalar(1 / p, like=total))

    def reference(self, x: Array, *, axes: Axes, keepdims: bool, p: float) -> Array:
        axes = reduced_axes(axes, x.ndim)
        size = np.abs(x.astype(_wide(x)))
        if math.isinf(p):
            pick = np.max if p > 0 else np.min
            return np.asarray(pick(size, axis=axes, keepdims=keepdims)).astype(x.dtype)
        if p == 0:
            return np.sum(x != 0, axis=axes, keepdims=keepdims).astype(x.dtype)
        total = np.sum(size ** p, axis=axes, keepdims=keepdims)
        return np.asarray(total ** (1 / p)).astype(x.dtype)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        (x,), axes, p, dy = node.operands, node.attrs["axes"], node.attrs["p"], dys[0]
        if p == 0:
            return [None]
        v, up = widen(b, x), spread(b, widen(b, dy), x.type, axes)
        y = spread(b, widen(b, node.result), x.type, axes)
        return [to_dtype(b, b.mul(up, self._slope(b, v, y, axes, p)), x.dtype)]

    def _slope(self, b: Builder, v: Value, y: Value, axes: Axes, p: float) -> Value:
        """dy/dv: sign(v) (|v|/y)**(p-1), for an infinite norm shared among the extremes."""
        if p == 1:
            return b.sign(v)
        if math.isinf(p):
            chosen = b.cast(b.eq(b.abs(v), y), dtype=v.dtype)
            ties = b.reduce_sum(chosen, axes=axes, keepdims=True)
            return b.mul(b.sign(v), b.div(chosen, ties))
        zero, one = b.scalar(0, like=v), b.scalar(1, like=v)
        flat = b.eq(y, zero)
        ratio = b.div(v, b.where(flat, one, y))
        if p != 2:
            ratio = b.mul(b.sign(v), b.pow(b.abs(ratio), b.scalar(p - 1, like=v)))
        if p < 1:  # NaN still where the norm is
            flat = b.logical_or(flat, b.logical_and(b.eq(v, zero), b.eq(y, y)))
        return b.where(flat, zero, ratio)

    def samples(self) -> Sequence[Sample]:
        x, positive = ((3, 4, 7), Spec((3, 7), 0.5, 2))
        return (case(x, axes=(2,)), case(x, axes=None), case(x, axes=(0, 1), keepdims=True, p=1.0),
                case(positive, axes=(1,), p=3.0), case(x, axes=(1,), p=math.inf),
                case(x, axes=(1,), p=-math.inf), case(x, axes=(1,), p=0.0, grad=False),
                case((0, 3), axes=(0,), grad=False))
