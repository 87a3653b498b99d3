"""Running reductions along an axis: cumsum, cumprod, cummax, cummin, logcumsumexp and linear
recurrences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from cellc_runtime import dtypes

from ..ir import attributes as attr
from ..ir.dims import is_symbolic
from ..ir.graph import Builder, Node, Value
from ..ir.op import FLOATS, NUMBERS, REAL, Array, Op, Sample, Spec
from ..ir.types import TensorType, normalize_axis
from . import _batch_axis
from ._complex import by_parts, conj
from ._members import Grads, case, define
from ._views import crop, moved, widened
from .batching import along
from .elementwise import to_dtype, widen
from .gather import accumulated


class _Cumulative(Op):
    """Base: one chain per line, in order of the axis."""

    opaque = True
    batch_axis = _batch_axis.whole_along("axis")
    attrs = {"axis": attr.axis(0)}
    dtypes = REAL
    kind: ClassVar[str]
    batch = along("axis")

    def terms(self, node: Node) -> int:
        return max(1, node.operands[0].shape[node.attrs["axis"]])

    def infer(self, x: TensorType, *, axis: int, **attrs: Any) -> Any:
        if x.dtype not in self.dtypes:
            kind = "numbers" if self.dtypes is NUMBERS else "real numbers"
            raise TypeError(f"{self.name} takes {kind}, got {x}")
        if x.rank == 0:
            raise ValueError(f"{self.name} needs at least 1 dimension, got a scalar")
        normalize_axis(axis, x.rank)
        return x


class _Running(_Cumulative):
    """Base of cumsum and cumprod.

    Attributes:
        axis: the axis.
        exclusive: element i reduces those before it, not itself.
        reverse: from the end of the axis.
    """

    attrs = {"axis": attr.axis(0), "exclusive": attr.flag(False), "reverse": attr.flag(False)}
    dtypes = NUMBERS
    amp = "high"
    tolerance = 32.0

    def accumulate(self, x: Array) -> Array:
        """Reference along axis 0."""
        raise TypeError(f"{self.name} accumulates nothing")

    def reference(self, x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
        dtype = x.dtype
        y = np.moveaxis(widened(x)[0], axis, 0)
        y = y[::-1] if reverse else y
        if exclusive and len(y):
            first = np.full((1, *y.shape[1:]), 0 if self.kind == "sum" else 1, y.dtype)
            y = np.concatenate([first, y[:-1]])
        out = self.accumulate(y)
        return np.moveaxis(out[::-1] if reverse else out, 0, axis).astype(dtype)

    def samples(self) -> Sequence[Sample]:
        x = Spec((4, 5, 3), 0.5, 2.0)
        return (case(x, axis=1), case((3, 9), axis=-1), case(x, axis=0, exclusive=True),
                case(x, axis=1, reverse=True), case((5, 35), axis=0, exclusive=True, reverse=True),
                case((0, 3), axis=0), case((1,), exclusive=True))


class CumSum(_Running):
    """Running sum along an axis. Source: `mindspore.ops.cumsum`, `CumSum`.

    Attributes:
        axis: the axis.
        exclusive: element i sums those before it, not itself.
        reverse: from the end of the axis.
    """

    name = "cumsum"
    of_complex = by_parts
    sums = True
    kind = "sum"

    def accumulate(self, x: Array) -> Array:
        return np.cumsum(x, 0, dtype=x.dtype)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.cumsum(dys[0], **{**node.attrs, "reverse": not node.attrs["reverse"]})]


class CumProd(_Running):
    """Running product along an axis. Source: `mindspore.ops.cumprod`, `CumProd`.

    The gradient is exact where elements are zero too (MindSpore's is NaN there).

    Attributes:
        axis: the axis.
        exclusive: element i multiplies those before it, not itself.
        reverse: from the end of the axis.
    """

    name = "cumprod"
    kind = "prod"

    def accumulate(self, x: Array) -> Array:
        return np.cumprod(x, 0, dtype=x.dtype)

    def of_complex(self, b: Builder, node: Node) -> Value | None:
        """Products of the last 1, 2, 4, ... elements (Hillis and Steele, 1986)."""
        x = node.operands[0]
        axis = normalize_axis(node.attrs["axis"], x.type.rank)
        n, reverse = x.shape[axis], node.attrs["reverse"]
        if is_symbolic(n):
            return None
        if node.attrs["exclusive"] and n:
            x = moved(b, x, axis, -1 if reverse else 1, 1)
        by = 1
        while by < n:  # (An element is never multiplied by 1, which makes NaN of an infinity.)
            done = crop(b, x, axis, n - by, n) if reverse else crop(b, x, axis, 0, by)
            more = b.mul(crop(b, x, axis, by, n), crop(b, x, axis, 0, n - by))
            x, by = b.join(*((more, done) if reverse else (done, more)), axis=axis), 2 * by
        return x

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        """dx[i] = sum over j >= i of dy[j] * y[j] / x[i], of conjugates where they are complex.

        At the first zero of a line that is the same sum with the zero left out of the products;
        further zeros get nothing, since the first one is in all their products.
        """
        (x,), dy = node.operands, dys[0]
        back = {**node.attrs, "reverse": not node.attrs["reverse"]}
        along = {"axis": node.attrs["axis"], "reverse": node.attrs["reverse"]}
        zero, nothing, ones = b.eq(x, b.zeros_like(x)), b.zeros_like(x), b.full(x.type, 1)
        divided = b.trunc_div if x.dtype.is_integer else b.div
        usual = divided(b.cumsum(b.mul(dy, conj(b, node.result)), **back),
                        conj(b, b.where(zero, ones, x)))
        seen = b.cumsum(b.cast(zero, dtype=dtypes.int32), **along)
        first = b.logical_and(zero, b.eq(seen, b.scalar(1, like=seen)))
        without = b.cumprod(b.where(first, ones, x), **node.attrs)
        at_zero = b.cumsum(b.mul(dy, conj(b, without)), **back)
        return [b.where(zero, b.where(first, at_zero, nothing), usual)]


class _Extreme(_Cumulative):
    """Base of cummax and cummin: (values, int32 positions), the last of equal extremes.

    A NaN is taken when it comes and stays; its position is that of the first one.

    Attributes:
        axis: the axis.
    """


    def infer(self, x: TensorType, *, axis: int) -> tuple[TensorType, TensorType]:
        return super().infer(x, axis=axis), x.with_dtype(dtypes.int32)

    def reference(self, x: Array, *, axis: int) -> tuple[Array, Array]:
        y = np.moveaxis(x, axis, 0)
        values, positions = y.copy(), np.zeros(y.shape, np.int32)
        for i in range(1, len(y)):
            held, new = values[i - 1], y[i]
            better = new >= held if self.kind == "max" else new <= held
            take = (better | (new != new)) & (held == held)
            values[i] = np.where(take, new, held)
            positions[i] = np.where(take, i, positions[i - 1])
        return np.moveaxis(values, 0, axis), np.moveaxis(positions, 0, axis)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        if dys[0] is None:
            return [None]
        return [accumulated(b, "scatter_lines", node.operands[0], node.results[1], dys[0],
                            axis=node.attrs["axis"])]

    def samples(self) -> Sequence[Sample]:
        ties: Any = np.array([1.0, 3.0, 3.0, 1.0, 3.0, 0.5], np.float32)
        return (case((4, 5, 3), axis=1), case((6, 37), axis=0), case((9,), axis=-1),
                case(ties, axis=0, grad=False), case((2, 0), axis=1))


for _kind, _word in (("max", "maximum"), ("min", "minimum")):
    define(_Extreme, f"cum{_kind}",
           f"""Running {_word} and its positions. Source: `mindspore.ops.cum{_kind}`.

    Attributes:
        axis: the axis.
    """, kind=_kind)


class LogCumSumExp(_Cumulative):
    """log of the running sum of exponentials along an axis, each shifted by the largest so far.

    Source: `mindspore.ops.logcumsumexp`.

    Attributes:
        axis: the axis.
    """

    name = "logcumsumexp"
    kind = "logsumexp"
    dtypes = FLOATS
    amp = "high"
    tolerance = 32.0

    def reference(self, x: Array, *, axis: int) -> Array:
        y = np.moveaxis(widened(x)[0], axis, 0).copy()
        for i in range(1, len(y)):
            y[i] = np.logaddexp(y[i - 1], y[i])
        return np.moveaxis(y, 0, axis).astype(x.dtype)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        """dx[i] = exp(x[i] - y[i]) r[i] with r[i] = dy[i] + exp(y[i] - y[i+1]) r[i+1]: y never
        falls, so no exponential overflows."""
        (x,), dy = node.operands, dys[0]
        axis = normalize_axis(node.attrs["axis"], x.type.rank)
        wide, up = widen(b, x), widen(b, dy)
        # A result of 16 bits is no nearer than a half where it is large: nothing to subtract.
        y = node.result if wide is x else b.logcumsumexp(wide, axis=axis)
        n = x.shape[axis]
        if n == 0:
            return [dy]
        before, after = crop(b, y, axis, 0, n - 1), crop(b, y, axis, 1, n)
        same = b.eq(before, after)  # infinities too
        fall = b.where(same, b.scalar(0, like=y), b.sub(before, after))
        factor = b.pad(b.exp(fall), low=(0,) * x.type.rank,
                       high=tuple(int(k == axis) for k in range(x.type.rank)))
        r = b.linear_recurrence(up, factor, axis=axis, reverse=True)
        return [to_dtype(b, b.mul(b.exp(b.sub(wide, y)), r), x.dtype)]

    def samples(self) -> Sequence[Sample]:
        return (case((4, 5, 3), axis=1), case((3, 9), axis=-1), case((6, 37), axis=0),
                case((0, 3), axis=0), case((1,)))


class LinearRecurrence(_Cumulative):
    """y[i] = factor[i] * y[i-1] + input[i] along an axis, y[-1] being 0.

    Attributes:
        axis: the axis.
        reverse: from the end: y[i] = factor[i] * y[i+1] + input[i].
    """

    name = "linear_recurrence"
    sums = True
    operands = ("input", "factor")
    kind = "linear"
    attrs = {"axis": attr.axis(0), "reverse": attr.flag(False)}
    dtypes = FLOATS
    amp = "high"
    tolerance = 32.0

    def infer(self, x: TensorType, a: TensorType, *, axis: int, reverse: bool) -> TensorType:
        super().infer(x, axis=axis)
        if a != x:
            raise TypeError(f"linear_recurrence needs operands of one type, got {x} and {a}")
        return x

    def reference(self, x: Array, a: Array, *, axis: int, reverse: bool) -> Array:
        y, factor = (np.moveaxis(v, axis, 0) for v in widened(x, a))
        y, factor = (y[::-1], factor[::-1]) if reverse else (y, factor)
        y, held = y.copy(), np.zeros(y.shape[1:], y.dtype)
        for i in range(len(y)):
            held = y[i] = y[i] + factor[i] * held
        return np.moveaxis(y[::-1] if reverse else y, 0, axis).astype(x.dtype)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        """g[i] = dy[i] + factor[i+1] g[i+1] for the input, g[i] y[i-1] for the factor."""
        (x, a), reverse = node.operands, node.attrs["reverse"]
        axis = normalize_axis(node.attrs["axis"], x.type.rank)
        by = -1 if reverse else 1
        g = b.linear_recurrence(dys[0], moved(b, a, axis, -by, 0), axis=axis, reverse=not reverse)
        return [g, b.mul(g, moved(b, node.result, axis, by, 0))]

    def samples(self) -> Sequence[Sample]:
        def two(shape: tuple[int, ...], **attrs: Any) -> Sample:
            return case(shape, Spec(shape, -1, 1), **attrs)
        return (two((4, 5, 3), axis=1), two((3, 9), axis=-1, reverse=True), two((6, 37), axis=0),
                two((0, 3), axis=0), two((1,), axis=0))
