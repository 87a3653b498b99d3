"""Comparisons, logic, bits and selection.

Comparisons give bool and have no gradient. Bitwise ops work on integers and bools.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from cellc_runtime import dtypes as dt
from cellc_runtime.dtypes import DType

from ..ir.graph import Builder, Node
from ..ir.op import ANY, BOOL, FLOATS, INTS, REAL, Array, Op, Sample, Spec, register
from ..ir.types import TensorType, broadcast_shapes
from ..loops import expr as E
from ..loops.expr import ComplexExpr, Expr, Reader
from ..loops.index import Index
from . import _batch_axis
from ._complex import Element
from .batching import pointwise
from .elementwise import Binary, Grads, Unary, check_dtype, same_dtype, unbroadcast


class _Flat(Binary):
    """Base of binary ops without a gradient."""

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [None, None]


class _Comparison(_Flat):
    """Base of comparisons: bool results; an ordered one with NaN is false."""

    cost = "cheap"
    exact = True
    dtypes = REAL + BOOL
    # Few distinct integers, so that ties occur.
    low, high = -2.0, 2.0

    def result_dtype(self, dtype: DType) -> DType:
        return dt.bool_

    def scalar(self, a: Expr, b: Expr) -> Expr:
        if a.dtype is dt.bool_:  # as a one-bit integer, true would be negative
            a, b = E.cast(a, dt.uint8), E.cast(b, dt.uint8)
        return E.compare(self.name, a, b)


@register
class Equal(_Comparison):
    """input == other (false for NaN). Source: `mindspore.ops.equal`."""

    name = "eq"
    commutative = True
    dtypes = ANY
    primitive = "Equal"

    def scalar(self, a: Element, b: Element) -> Expr:
        if isinstance(a, ComplexExpr) and isinstance(b, ComplexExpr):
            return a.re.eq(b.re) & a.im.eq(b.im)
        assert isinstance(a, Expr) and isinstance(b, Expr)
        return super().scalar(a, b)

    def reference(self, a: Array, b: Array) -> Array:
        return np.equal(a, b)


@register
class NotEqual(_Comparison):
    """input != other (true for NaN). Source: `mindspore.ops.not_equal`."""

    name = "ne"
    commutative = True
    dtypes = ANY
    primitive = "NotEqual"

    def scalar(self, a: Element, b: Element) -> Expr:
        if isinstance(a, ComplexExpr) and isinstance(b, ComplexExpr):
            return a.re.ne(b.re) | a.im.ne(b.im)
        assert isinstance(a, Expr) and isinstance(b, Expr)
        return super().scalar(a, b)

    def reference(self, a: Array, b: Array) -> Array:
        return np.not_equal(a, b)


@register
class Less(_Comparison):
    """input < other. Source: `mindspore.ops.less`."""

    name = "lt"
    primitive = "Less"

    def reference(self, a: Array, b: Array) -> Array:
        return np.less(a, b)


@register
class LessEqual(_Comparison):
    """input <= other. Source: `mindspore.ops.less_equal`."""

    name = "le"
    primitive = "LessEqual"

    def reference(self, a: Array, b: Array) -> Array:
        return np.less_equal(a, b)


@register
class Greater(_Comparison):
    """input > other. Source: `mindspore.ops.greater`."""

    name = "gt"
    primitive = "Greater"

    def reference(self, a: Array, b: Array) -> Array:
        return np.greater(a, b)


@register
class GreaterEqual(_Comparison):
    """input >= other. Source: `mindspore.ops.greater_equal`."""

    name = "ge"
    primitive = "GreaterEqual"

    def reference(self, a: Array, b: Array) -> Array:
        return np.greater_equal(a, b)


class _Bitwise(_Flat):
    """Base of bitwise ops of two operands; `rule` is the scalar operation."""

    cost = "cheap"
    exact = True
    dtypes = INTS + BOOL
    low, high = -100.0, 100.0
    rule: ClassVar[str]

    def scalar(self, a: Expr, b: Expr) -> Expr:
        return E.call(self.rule, a, b)


@register
class BitwiseAnd(_Bitwise):
    """Bits set in both. Source: `mindspore.ops.bitwise_and`."""

    name = "bitwise_and"
    commutative = True
    rule = "and"
    primitive = "BitwiseAnd"

    def reference(self, a: Array, b: Array) -> Array:
        return np.bitwise_and(a, b)


@register
class BitwiseOr(_Bitwise):
    """Bits set in either. Source: `mindspore.ops.bitwise_or`."""

    name = "bitwise_or"
    commutative = True
    rule = "or"
    primitive = "BitwiseOr"

    def reference(self, a: Array, b: Array) -> Array:
        return np.bitwise_or(a, b)


@register
class BitwiseXor(_Bitwise):
    """Bits set in exactly one. Source: `mindspore.ops.bitwise_xor`."""

    name = "bitwise_xor"
    commutative = True
    rule = "xor"
    primitive = "BitwiseXor"

    def reference(self, a: Array, b: Array) -> Array:
        return np.bitwise_xor(a, b)


class _Shift(_Bitwise):
    """Base of shifts. The amount is taken modulo the width, so every amount is defined."""

    exact = False  # by more bits than there are: as the machine has it
    dtypes = INTS
    other_low, other_high = 0.0, 7.0

    def scalar(self, a: Expr, b: Expr) -> Expr:
        return E.call(self.rule, a, b & E.const(8 * a.dtype.itemsize - 1, b.dtype))


def _amount(a: Array, b: Array) -> Array:
    return np.bitwise_and(b, np.asarray(8 * a.dtype.itemsize - 1, b.dtype))


@register
class ShiftLeft(_Shift):
    """input shifted left by other bits (modulo the width).

    Source: `mindspore.ops.bitwise_left_shift`.
    """

    name = "shift_left"
    rule = "shl"

    def reference(self, a: Array, b: Array) -> Array:
        return np.left_shift(a, _amount(a, b))


@register
class ShiftRight(_Shift):
    """input shifted right by other bits (modulo the width); signed integers keep their sign.

    Source: `mindspore.ops.bitwise_right_shift`.
    """

    name = "shift_right"
    rule = "shr"

    def reference(self, a: Array, b: Array) -> Array:
        return np.right_shift(a, _amount(a, b))


class _FlatUnary(Unary):
    """Base of unary ops without a gradient."""

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [None]


@register
class BitwiseNot(_FlatUnary):
    """Every bit flipped (of bool: the negation). Source: `mindspore.ops.bitwise_not`."""

    name = "bitwise_not"
    cost = "cheap"
    exact = True
    dtypes = INTS + BOOL
    primitive = "Invert"
    low, high = -100.0, 100.0

    def scalar(self, x: Expr) -> Expr:
        return E.call("not", x)

    def reference(self, x: Array) -> Array:
        return np.invert(x)


class _Logical(_Flat):
    """Base of logic on bools; `rule` is the scalar operation."""

    cost = "cheap"
    exact = True
    dtypes = BOOL
    rule: ClassVar[str]

    def scalar(self, a: Expr, b: Expr) -> Expr:
        return E.call(self.rule, a, b)


@register
class LogicalAnd(_Logical):
    """Both true. Source: `mindspore.ops.logical_and`."""

    name = "logical_and"
    commutative = True
    rule = "and"
    primitive = "LogicalAnd"

    def reference(self, a: Array, b: Array) -> Array:
        return np.logical_and(a, b)


@register
class LogicalOr(_Logical):
    """Either true. Source: `mindspore.ops.logical_or`."""

    name = "logical_or"
    commutative = True
    rule = "or"
    primitive = "LogicalOr"

    def reference(self, a: Array, b: Array) -> Array:
        return np.logical_or(a, b)


@register
class LogicalXor(_Logical):
    """Exactly one true. Source: `mindspore.ops.logical_xor`."""

    name = "logical_xor"
    commutative = True
    rule = "xor"
    primitive = "LogicalXor"

    def reference(self, a: Array, b: Array) -> Array:
        return np.logical_xor(a, b)


@register
class LogicalNot(_FlatUnary):
    """The negation of bools. Source: `mindspore.ops.logical_not`."""

    name = "logical_not"
    cost = "cheap"
    exact = True
    dtypes = BOOL
    primitive = "LogicalNot"

    def scalar(self, x: Expr) -> Expr:
        return ~x

    def reference(self, x: Array) -> Array:
        return np.logical_not(x)


class _Test(_FlatUnary):
    """Base of tests of floats: bool results."""

    cost = "cheap"
    dtypes = FLOATS

    def result_dtype(self, dtype: DType) -> DType:
        return dt.bool_


@register
class IsNan(_Test):
    """Whether an element is NaN. Source: `mindspore.ops.isnan`."""

    name = "isnan"
    primitive = "IsNan"

    def scalar(self, x: Expr) -> Expr:
        return x.ne(x)

    def reference(self, x: Array) -> Array:
        return np.isnan(x)


@register
class IsInf(_Test):
    """Whether an element is an infinity. Source: `mindspore.ops.isinf`."""

    name = "isinf"
    primitive = "IsInf"

    def scalar(self, x: Expr) -> Expr:
        return E.call("abs", x).eq(math.inf)

    def reference(self, x: Array) -> Array:
        return np.isinf(x)


@register
class IsFinite(_Test):
    """Whether an element is neither infinite nor NaN. Source: `mindspore.ops.isfinite`."""

    name = "isfinite"
    primitive = "IsFinite"

    def scalar(self, x: Expr) -> Expr:
        return E.call("abs", x).lt(math.inf)

    def reference(self, x: Array) -> Array:
        return np.isfinite(x)


@register
class Where(Op):
    """input where condition is true, else other; all broadcast. Source: `mindspore.ops.where`.

    `condition` is bool; `dtypes` are those of `input` and `other`. Both are evaluated.
    """

    name = "where"
    batch_axis = _batch_axis.aligned
    cost = "cheap"
    exact = True
    operands = ("condition", "input", "other")
    dtypes = ANY
    batch = pointwise
    elementwise = True

    def infer(self, c: TensorType, x: TensorType, y: TensorType) -> TensorType:
        if c.dtype is not dt.bool_:
            raise TypeError(f"the condition of where must be bool, got {c}")
        dtype = same_dtype(self.name, x, y)
        check_dtype(self, x)
        shape = broadcast_shapes(x.shape, y.shape, "operands of where")
        return TensorType(broadcast_shapes(c.shape, shape, "operands of where"), dtype)

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Element:
        c, x, y = (r.broadcast(k, idx) for k in range(3))
        if isinstance(x, ComplexExpr) and isinstance(y, ComplexExpr):
            return ComplexExpr(E.where(c, x.re, y.re), E.where(c, x.im, y.im))
        return E.where(c, x, y)

    def reference(self, c: Array, x: Array, y: Array) -> Array:
        return np.where(c, x, y)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        (c, x, y), dy = node.operands, dys[0]
        assert dy is not None
        zero = b.scalar(0, like=dy)
        return [None, unbroadcast(b, b.where(c, dy, zero), x.type),
                unbroadcast(b, b.where(c, zero, dy), y.type)]

    def samples(self) -> Sequence[Sample]:
        def three(c: tuple[int, ...], x: tuple[int, ...], y: tuple[int, ...]) -> Sample:
            return Sample((Spec(c, 0, 2, dt.bool_), Spec(x), Spec(y)))

        return (three((4, 5), (4, 5), (4, 5)), three((4, 1), (5,), ()),
                three((3,), (2, 3), (1, 3)), three((0, 2), (2,), ()))
