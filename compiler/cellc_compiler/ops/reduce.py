"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from ..ir.graph import Builder, Node, Value
from ..ir.op import NUMBERS, Array, Op, Sample, Spec, register
from ..ir.types import TensorType, normalize_axes
from ..loops.expr import Reduction


def accumulator(dtype: DType) -> DType:
    """Sums of 16-bit floats are kept in float32 and rounded once."""
    return dtypes.float32 if dtype in (dtypes.float16, dtypes.bfloat16) else dtype


class Reduce(Op):
    """Base of reductions.

    Attributes:
        axes: axes to reduce, non-negative and sorted; all of them if None.
        keepdims: keep reduced axes as size 1.
    """

    attrs = {"axes": None, "keepdims": False}
    kind: ClassVar[str]

    def infer(self, x: TensorType, *, axes: tuple[int, ...] | None,
              keepdims: bool) -> TensorType:
        if x.dtype not in self.dtypes:
            names = ", ".join(d.name for d in self.dtypes)
            raise TypeError(f"{self.name} takes {names}, got {x}")
        gone = set(normalize_axes(axes, x.rank)) if axes != () else set()
        shape = [1 if i in gone else d for i, d in enumerate(x.shape) if keepdims or i not in gone]
        return TensorType(tuple(shape), self.result_dtype(x.dtype))

    def result_dtype(self, dtype: DType) -> DType:
        """Element type of the result."""
        return dtype

    def reduction(self, node: Node) -> Reduction:
        ty = node.operands[0].type
        axes = normalize_axes(node.attrs["axes"], ty.rank) if node.attrs["axes"] != () else ()
        return Reduction(self.kind, ty.dims, axes, accumulator(ty.dtype), lambda r, i: r.read(0, i))

    def samples(self) -> Sequence[Sample]:
        x = Spec((3, 4, 19))
        return (Sample((x,), {"axes": (2,)}), Sample((x,), {"axes": (0, 1), "keepdims": True}),
                Sample((x,), {"axes": None}), Sample((x,), {"axes": (1,)}),
                Sample((x,), {"axes": (0, 2)}), Sample((Spec((0, 3)),), {"axes": (0,)}),
                Sample((Spec(()),), {"axes": None}))


def expand_like(b: Builder, reduced: Value, node: Node) -> Value:
    """A reduced value broadcast back to the shape of the reduction's operand."""
    ty = node.operands[0].type
    axes = normalize_axes(node.attrs["axes"], ty.rank) if node.attrs["axes"] != () else ()
    keep = tuple(1 if i in axes else d for i, d in enumerate(ty.dims))
    out: Value = b.broadcast_to(b.reshape(reduced, shape=keep), shape=ty.shape)
    return out


@register
class ReduceSum(Reduce):
    """Sum over axes. Source: `mindspore.ops.sum`."""

    name = "reduce_sum"
    kind = "sum"
    dtypes = NUMBERS
    amp = "high"
    tolerance = 16.0

    def reference(self, x: Array, *, axes: Any, keepdims: bool) -> Array:
        return np.sum(x, axis=axes, keepdims=keepdims, dtype=x.dtype)

    def gradient(self, b: Builder, node: Node, dys: Sequence[Value | None]) -> list[Value]:
        dy = dys[0]
        assert dy is not None
        return [expand_like(b, dy, node)]
