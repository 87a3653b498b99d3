"""Elementwise ops: arithmetic, comparison, logic and transcendental functions.

Binary ops broadcast as numpy does; both operands have one element type (promotion happens in
the frontend). Gradients sum over what was broadcast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from cellc_runtime.dtypes import DType

from ..ir.graph import Builder, Node, Value
from ..ir.op import FLOATS, NUMBERS, Array, Op, Sample, Spec, register
from ..ir.types import TensorType, broadcast_shapes
from ..loops import expr as E
from ..loops.expr import Expr, Reader
from ..loops.index import Index


def same_dtype(name: str, *types: TensorType) -> DType:
    """The common dtype of the operands.

    Raises:
        TypeError: they differ.
    """
    first = types[0].dtype
    for t in types[1:]:
        if t.dtype is not first:
            raise TypeError(f"{name} needs operands of one dtype, got {types[0]} and {t}")
    return first


def unbroadcast(b: Builder, dy: Value, to: TensorType) -> Value:
    """Sum a cotangent over the axes along which an operand was broadcast."""
    lead = dy.type.rank - to.rank
    axes = tuple(range(lead)) + tuple(
        lead + i for i, d in enumerate(to.dims) if d == 1 and dy.type.dims[lead + i] != 1
    )
    if axes:
        dy = b.reduce_sum(dy, axes=axes, keepdims=False)
    return dy if dy.type.shape == to.shape else b.reshape(dy, shape=to.shape)


class Elementwise(Op):
    """Base: one expression per element over broadcast operands."""

    def infer(self, *types: TensorType, **attrs: Any) -> TensorType:
        dtype = same_dtype(self.name, *types)
        if dtype not in self.dtypes:
            names = ", ".join(d.name for d in self.dtypes)
            raise TypeError(f"{self.name} takes {names}, got {types[0]}")
        shape = types[0].shape
        for t in types[1:]:
            shape = broadcast_shapes(shape, t.shape, f"operands of {self.name}")
        return TensorType(shape, self.result_dtype(dtype))

    def result_dtype(self, dtype: DType) -> DType:
        """Element type of the result."""
        return dtype

    def scalar(self, *args: Expr, **attrs: Any) -> Expr:
        """The result's element from the operands' elements."""
        return E.call(self.name, *args)

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Expr:
        return self.scalar(*(r.broadcast(k, idx) for k in range(len(r.types))), **r.attrs)


class Unary(Elementwise):
    """Base of one-operand elementwise ops."""

    operands = ("input",)
    low: ClassVar[float] = -2.0
    high: ClassVar[float] = 2.0

    def samples(self) -> Sequence[Sample]:
        lo, hi = self.low, self.high
        return (Sample((Spec((3, 5), lo, hi),)), Sample((Spec((67,), lo, hi),)),
                Sample((Spec((), lo, hi),)), Sample((Spec((2, 0, 3), lo, hi),)))


class Binary(Elementwise):
    """Base of two-operand elementwise ops."""

    operands = ("input", "other")
    low: ClassVar[float] = -2.0
    high: ClassVar[float] = 2.0

    def samples(self) -> Sequence[Sample]:
        def pair(a: tuple[int, ...], b: tuple[int, ...]) -> Sample:
            return Sample((Spec(a, self.low, self.high), Spec(b, self.low, self.high)))

        return (pair((4, 5), (4, 5)), pair((3, 1, 5), (4, 1)), pair((2, 37), ()), pair((0, 3), (3,)))


@register
class Add(Binary):
    """input + other, broadcast. Source: `mindspore.ops.add`."""

    name = "add"
    dtypes = NUMBERS
    primitive = "Add"

    def reference(self, a: Array, b: Array) -> Array:
        return np.add(a, b)

    def gradient(self, b: Builder, node: Node, dys: Sequence[Value | None]) -> list[Value]:
        dy = dys[0]
        assert dy is not None
        return [unbroadcast(b, dy, v.type) for v in node.operands]


@register
class Mul(Binary):
    """input * other, broadcast. Source: `mindspore.ops.mul`."""

    name = "mul"
    dtypes = NUMBERS
    primitive = "Mul"

    def reference(self, a: Array, b: Array) -> Array:
        return np.multiply(a, b)

    def gradient(self, b: Builder, node: Node, dys: Sequence[Value | None]) -> list[Value]:
        x, y = node.operands
        return [unbroadcast(b, b.mul(dys[0], y), x.type), unbroadcast(b, b.mul(dys[0], x), y.type)]


@register
class Exp(Unary):
    """e to the power of each element. Source: `mindspore.ops.exp`."""

    name = "exp"
    dtypes = FLOATS
    amp = "high"
    function = "exp"
    method = "exp"
    primitive = "Exp"

    def reference(self, x: Array) -> Array:
        return np.exp(x)

    def gradient(self, b: Builder, node: Node, dys: Sequence[Value | None]) -> list[Value]:
        return [b.mul(dys[0], node.result)]
