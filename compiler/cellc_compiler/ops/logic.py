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
from ..ir.op import ANY, BOOL, FLOATS, INTS, REAL, Array, Op, Sample, Spec
from ..ir.types import TensorType, broadcast_shapes
from ..loops import expr as E
from ..loops.expr import ComplexExpr, Expr, Reader
from ..loops.index import Index
from . import _batch_axis
from ._complex import Element
from ._members import Grads, case, define, no_gradient, same_as
from .batching import pointwise
from .elementwise import Binary, Unary, check_dtype, same_dtype, unbroadcast


class _Flat(Binary):
    """Base of binary ops without a gradient."""

    gradient = no_gradient


class _Comparison(_Flat):
    """Base of comparisons: bool results; an ordered one with NaN is false."""

    cost = "cheap"
    exact = True
    dtypes = REAL + BOOL
    # Few distinct integers, so that ties occur.
    low, high = -2.0, 2.0

    def result_dtype(self, dtype: DType) -> DType:
        return dt.bool_

    def scalar(self, a: Element, b: Element) -> Expr:
        if isinstance(a, ComplexExpr) and isinstance(b, ComplexExpr):
            parts = E.compare(self.name, a.re, b.re), E.compare(self.name, a.im, b.im)
            return E.call("and" if self.name == "eq" else "or", *parts)
        assert isinstance(a, Expr) and isinstance(b, Expr)
        if a.dtype is dt.bool_:  # as a one-bit integer, true would be negative
            a, b = E.cast(a, dt.uint8), E.cast(b, dt.uint8)
        return E.compare(self.name, a, b)


define(_Comparison, "eq", "input == other (false for NaN). Source: `mindspore.ops.equal`.",
       np.equal, primitive="Equal", commutative=True, dtypes=ANY)
define(_Comparison, "ne", "input != other (true for NaN). Source: `mindspore.ops.not_equal`.",
       np.not_equal, primitive="NotEqual", commutative=True, dtypes=ANY)
define(_Comparison, "lt", "input < other. Source: `mindspore.ops.less`.", np.less, primitive="Less")
define(_Comparison, "le", "input <= other. Source: `mindspore.ops.less_equal`.", np.less_equal,
       primitive="LessEqual")
define(_Comparison, "gt", "input > other. Source: `mindspore.ops.greater`.", np.greater,
       primitive="Greater")
define(_Comparison, "ge", "input >= other. Source: `mindspore.ops.greater_equal`.",
       np.greater_equal, primitive="GreaterEqual")


class _Bitwise(_Flat):
    """Base of bitwise ops of two operands; `rule` is the scalar operation."""

    cost = "cheap"
    exact = True
    dtypes = INTS + BOOL
    low, high = -100.0, 100.0
    rule: ClassVar[str]

    def scalar(self, a: Expr, b: Expr) -> Expr:
        return E.call(self.rule, a, b)


define(_Bitwise, "bitwise_and", "Bits set in both. Source: `mindspore.ops.bitwise_and`.",
       np.bitwise_and, rule="and", primitive="BitwiseAnd", commutative=True)
define(_Bitwise, "bitwise_or", "Bits set in either. Source: `mindspore.ops.bitwise_or`.",
       np.bitwise_or, rule="or", primitive="BitwiseOr", commutative=True)
define(_Bitwise, "bitwise_xor", "Bits set in exactly one. Source: `mindspore.ops.bitwise_xor`.",
       np.bitwise_xor, rule="xor", primitive="BitwiseXor", commutative=True)


class _Shift(_Bitwise):
    """Base of shifts. The amount is taken modulo the width, so every amount is defined."""

    exact = False  # by more bits than there are: as the machine has it
    dtypes = INTS
    other_low, other_high = 0.0, 7.0

    def scalar(self, a: Expr, b: Expr) -> Expr:
        return E.call(self.rule, a, b & E.const(8 * a.dtype.itemsize - 1, b.dtype))


def _amount(a: Array, b: Array) -> Array:
    return np.bitwise_and(b, np.asarray(8 * a.dtype.itemsize - 1, b.dtype))


define(_Shift, "shift_left", """input shifted left by other bits (modulo the width).

    Source: `mindspore.ops.bitwise_left_shift`.
    """,
       lambda a, b: np.left_shift(a, _amount(a, b)), rule="shl")


define(_Shift, "shift_right",
       """input shifted right by other bits (modulo the width); signed integers keep their sign.

    Source: `mindspore.ops.bitwise_right_shift`.
    """,
       lambda a, b: np.right_shift(a, _amount(a, b)), rule="shr")


class _FlatUnary(Unary):
    """Base of unary ops without a gradient."""

    gradient = no_gradient


define(_FlatUnary, "bitwise_not",
       "Every bit flipped (of bool: the negation). Source: `mindspore.ops.bitwise_not`.",
       np.invert, scalar=lambda self, x: E.call("not", x), primitive="Invert", cost="cheap",
       exact=True, dtypes=INTS + BOOL, low=-100.0, high=100.0)


class _Logical(_Bitwise):
    """Base of logic on bools."""

    commutative = True
    dtypes = BOOL
    low, high = -2.0, 2.0


define(_Logical, "logical_and", "Both true. Source: `mindspore.ops.logical_and`.",
       np.logical_and, rule="and", primitive="LogicalAnd")
define(_Logical, "logical_or", "Either true. Source: `mindspore.ops.logical_or`.",
       np.logical_or, rule="or", primitive="LogicalOr")
define(_Logical, "logical_xor", "Exactly one true. Source: `mindspore.ops.logical_xor`.",
       np.logical_xor, rule="xor", primitive="LogicalXor")


define(_FlatUnary, "logical_not", "The negation of bools. Source: `mindspore.ops.logical_not`.",
       np.logical_not, scalar=lambda self, x: ~x, primitive="LogicalNot", cost="cheap",
       exact=True, dtypes=BOOL)


class _Test(_FlatUnary):
    """Base of tests of floats: bool results."""

    cost = "cheap"
    dtypes = FLOATS

    def result_dtype(self, dtype: DType) -> DType:
        return dt.bool_


define(_Test, "isnan", "Whether an element is NaN. Source: `mindspore.ops.isnan`.",
       np.isnan, scalar=lambda self, x: x.ne(x), primitive="IsNan")


define(_Test, "isinf", "Whether an element is an infinity. Source: `mindspore.ops.isinf`.",
       np.isinf, scalar=lambda self, x: E.call("abs", x).eq(math.inf), primitive="IsInf")


define(_Test, "isfinite",
       "Whether an element is neither infinite nor NaN. Source: `mindspore.ops.isfinite`.",
       np.isfinite, scalar=lambda self, x: E.call("abs", x).lt(math.inf), primitive="IsFinite")


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
    reference = same_as(np.where)

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

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        (c, x, y), dy = node.operands, dys[0]
        zero = b.scalar(0, like=dy)
        return [None, unbroadcast(b, b.where(c, dy, zero), x.type),
                unbroadcast(b, b.where(c, zero, dy), y.type)]

    def samples(self) -> Sequence[Sample]:
        def three(c: tuple[int, ...], x: tuple[int, ...], y: tuple[int, ...]) -> Sample:
            return case(Spec(c, 0, 2, dt.bool_), x, y)
        return (three((4, 5), (4, 5), (4, 5)), three((4, 1), (5,), ()), three((3,), (2, 3), (1, 3)),
                three((0, 2), (2,), ()))
