"""Softmax and its logarithm, over one axis.

Half floats are computed in float32 and rounded once. A row of only -infinity, or with a +infinity,
gives NaN. Weights that would be subnormal are 0 (`normal_exp`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_runtime.dtypes import DType, float32

from ..ir import attributes as attr
from ..ir.graph import Builder, Node, Value
from ..ir.op import Array, Op, Sample
from ..ir.types import TensorType, normalize_axis
from ._members import Grads, case
from .elementwise import check_dtype, to_dtype, widen


class _Softmax(Op):
    """Base: keeps the type; one axis, non-negative."""

    attrs = {"axis": attr.axis()}
    amp = "high"
    tolerance = 8.0

    def infer(self, x: TensorType, *, axis: int) -> TensorType:
        check_dtype(self, x)
        normalize_axis(axis, x.rank)
        return x

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        y, dy = widen(b, node.result), widen(b, dys[0])
        dx = self.pulled(b, y, dy, along(node.attrs["axis"], y), dys[0].dtype)
        return [to_dtype(b, dx, dys[0].dtype)]

    def pulled(self, b: Builder, y: Value, dy: Value, over: dict[str, Any], dtype: DType) -> Value:
        """The cotangent of the operand, in the compute dtype, to be rounded to `dtype`."""
        raise TypeError(f"{self.name} has no gradient")

    def samples(self) -> Sequence[Sample]:
        return (case((3, 17), axis=1), case((2, 5, 9), axis=1), case((4,), axis=0),
                case((3, 1), axis=1), case((0, 3), axis=1), case((3, 0), axis=1))


def shifted(b: Builder, x: Value, axis: int) -> Value:
    """x minus its maximum along the axis, in the compute dtype."""
    wide = widen(b, x)
    if x.type.rank == 0 or x.shape[axis] == 0:
        return wide
    return b.sub(wide, b.reduce_max(wide, axes=(axis,), keepdims=True))


def exp_for(b: Builder, x: Value, dtype: DType) -> Value:
    """e^x in the compute dtype, for a result that is rounded to `dtype`."""
    if dtype.itemsize == 2:
        return b.short_exp(x, to=dtype.name)
    return b.normal_exp(x) if x.dtype is float32 else b.exp(x)


def along(axis: int, x: Value) -> dict[str, Any]:
    """Attributes of a reduction along one axis that keeps it."""
    return {"axes": (axis,) if x.type.rank else (), "keepdims": True}


def _reference_shifted(x: Array, axis: int) -> Array:
    wide = x.astype(np.float64)
    return wide - np.max(wide, axis=axis, keepdims=True, initial=-np.inf)


class Softmax(_Softmax):
    """exp(x) / sum(exp(x)) along an axis. Source: `mindspore.ops.softmax`.

    Attributes:
        axis: the axis, non-negative.
    """

    name = "softmax"

    def expand(self, b: Builder, x: Value, *, axis: int) -> Value:
        e = exp_for(b, shifted(b, x, axis), x.dtype)
        total = b.reduce_sum(e, **along(axis, x))
        part = b.div(e, total) if x.dtype.itemsize > 2 else b.mul(e, b.reciprocal(total))
        return to_dtype(b, part, x.dtype)

    def reference(self, x: Array, *, axis: int) -> Array:
        e = np.exp(_reference_shifted(x, axis))
        return (e / np.sum(e, axis=axis, keepdims=True)).astype(x.dtype)

    def pulled(self, b: Builder, y: Value, dy: Value, over: dict[str, Any], dtype: DType) -> Value:
        return b.mul(y, b.sub(dy, b.reduce_sum(b.mul(dy, y), **over)))


class LogSoftmax(_Softmax):
    """log(softmax(x)) along an axis, without overflow. Source: `mindspore.ops.log_softmax`.

    Attributes:
        axis: the axis, non-negative.
    """

    name = "log_softmax"

    def expand(self, b: Builder, x: Value, *, axis: int) -> Value:
        low = shifted(b, x, axis)
        total = b.reduce_sum(exp_for(b, low, x.dtype), **along(axis, x))
        return to_dtype(b, b.sub(low, b.log(total)), x.dtype)

    def reference(self, x: Array, *, axis: int) -> Array:
        low = _reference_shifted(x, axis)
        total = np.sum(np.exp(low), axis=axis, keepdims=True)
        return (low - np.log(total)).astype(x.dtype)

    def pulled(self, b: Builder, y: Value, dy: Value, over: dict[str, Any], dtype: DType) -> Value:
        total = b.reduce_sum(dy, **over)
        return b.sub(dy, b.mul(exp_for(b, y, dtype), total))
