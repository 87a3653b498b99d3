"""Elementwise arithmetic, and the base classes of all elementwise ops.

Binary ops broadcast as numpy does; both operands have one element type (promotion happens in
the frontend). Gradients sum over what was broadcast. The cotangent of a complex value z is
dL/dRe z + i dL/dIm z, so holomorphic rules use the conjugate of the derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from cellc_runtime import dtypes as dt
from cellc_runtime.dtypes import DType, part_dtype

from ..ir import attributes as attr
from ..ir.dims import is_symbolic, surely_equal
from ..ir.graph import Builder, Node, Value
from ..ir.op import COMPLEX, FLOATS, NUMBERS, REAL, Array, Op, Sample, Spec
from ..ir.types import TensorType, broadcast_shapes
from ..loops import expr as E
from ..loops.expr import ComplexExpr, Expr, Reader
from ..loops.index import Index
from . import _batch_axis, _identities
from . import _complex as C
from ._complex import Element, conj
from ._members import Grads, case, define, no_gradient, same_as
from .batching import pointwise


def same_dtype(name: str, *types: TensorType) -> DType:
    """The common dtype of the operands. Raises TypeError if they differ."""
    first = types[0].dtype
    for t in types[1:]:
        if t.dtype is not first:
            raise TypeError(f"{name} needs operands of one dtype, got {types[0]} and {t}")
    return first


def check_dtype(op: Op, t: TensorType) -> None:
    """The operand's dtype must be one the op accepts. Raises TypeError if it is not."""
    if t.dtype not in op.dtypes:
        names = ", ".join(d.name for d in op.dtypes)
        raise TypeError(f"{op.name} takes {names}, got {t}")


def unbroadcast(b: Builder, dy: Value, to: TensorType) -> Value:
    """Sum a cotangent over the axes along which an operand was broadcast."""
    lead = dy.type.rank - to.rank
    axes = tuple(range(lead)) + tuple(
        lead + i for i, d in enumerate(to.dims) if _repeated(d, dy.type.dims[lead + i])
    )
    if axes:
        dy = b.reduce_sum(dy, axes=axes, keepdims=False)
    return dy if dy.type.shape == to.shape else b.reshape(dy, shape=to.shape)


def _repeated(d: int, full: int) -> bool:
    """Whether an axis was repeated; a symbolic one counts: a sum over one element is exact."""
    if surely_equal(d, full):
        return False
    return d == 1 and (is_symbolic(full) or full != 1)


def compute_dtype(dtype: DType) -> DType:
    """The dtype compositions work in: float32 for float16 and bfloat16."""
    return dt.float32 if dtype in (dt.float16, dt.bfloat16) else dtype


def widen(b: Builder, v: Value) -> Value:
    """A value in its compute dtype."""
    return to_dtype(b, v, compute_dtype(v.dtype))


def to_dtype(b: Builder, v: Value, dtype: DType) -> Value:
    """A value in `dtype`; no node if it is already."""
    return v if v.dtype is dtype else b.cast(v, dtype=dtype)


class Elementwise(Op):
    """Base: one expression per element over broadcast operands."""

    batch_axis = _batch_axis.aligned
    batch = pointwise
    elementwise = True

    def infer(self, *types: TensorType, **attrs: Any) -> TensorType:
        dtype = same_dtype(self.name, *types)
        check_dtype(self, types[0])
        shape = types[0].shape
        for t in types[1:]:
            shape = broadcast_shapes(shape, t.shape, f"operands of {self.name}")
        return TensorType(shape, self.result_dtype(dtype))

    def result_dtype(self, dtype: DType) -> DType:
        """Element type of the result."""
        return dtype

    def scalar(self, *args: Any, **attrs: Any) -> Element:
        """The result's element from the operands' elements."""
        return C.call(self.name, *args)

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Element:
        return self.scalar(*(r.broadcast(k, idx) for k in range(len(r.types))), **r.attrs)


class Composed(Op):
    """Base of elementwise compositions of one operand."""

    elementwise = True

    def infer(self, x: TensorType, **attrs: Any) -> TensorType:
        check_dtype(self, x)
        return x


class Formula(Composed):
    """Base of compositions given by `formula` and `slope`, in the compute dtype.

    Those of 16-bit floats may call shorter functions (`ops/short.py`): `short` and `short_slope`
    get the widened operand and the type that is rounded to.
    """

    def formula(self, b: Builder, x: Value, **attrs: Any) -> Value:
        """The value."""
        raise TypeError(f"{self.name} has no formula")

    def slope(self, b: Builder, x: Value, **attrs: Any) -> Value:
        """The derivative."""
        raise TypeError(f"{self.name} has no slope")

    def short(self, b: Builder, x: Value, to: str, **attrs: Any) -> Value:
        """The value of a 16-bit operand."""
        return self.formula(b, x, **attrs)

    def short_slope(self, b: Builder, x: Value, to: str, **attrs: Any) -> Value:
        """The derivative at a 16-bit operand."""
        return self.slope(b, x, **attrs)

    def expand(self, b: Builder, x: Value, **attrs: Any) -> Value:
        if x.dtype.itemsize > 2:
            return self.formula(b, x, **attrs)
        return to_dtype(b, self.short(b, widen(b, x), x.dtype.name, **attrs), x.dtype)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x, dy = node.operands[0], dys[0]
        if x.dtype.itemsize > 2:
            return [b.mul(dy, self.slope(b, x, **node.attrs))]
        slope = self.short_slope(b, widen(b, x), x.dtype.name, **node.attrs)
        return [to_dtype(b, b.mul(widen(b, dy), slope), x.dtype)]


class Unary(Elementwise):
    """Base of one-operand elementwise ops."""

    operands = ("input",)
    low: ClassVar[float] = -2.0
    high: ClassVar[float] = 2.0

    def samples(self) -> Sequence[Sample]:
        lo, hi = (self.low, self.high)
        return (case(Spec((3, 5), lo, hi)), case(Spec((67,), lo, hi)), case(Spec((), lo, hi)),
                case(Spec((2, 0, 3), lo, hi)))


class Binary(Elementwise):
    """Base of two-operand elementwise ops."""

    operands = ("input", "other")
    low: ClassVar[float] = -2.0
    high: ClassVar[float] = 2.0
    other_low: ClassVar[float | None] = None
    other_high: ClassVar[float | None] = None

    def samples(self) -> Sequence[Sample]:
        lo = self.low if self.other_low is None else self.other_low
        hi = self.high if self.other_high is None else self.other_high
        def pair(a: tuple[int, ...], b: tuple[int, ...]) -> Sample:
            return case(Spec(a, self.low, self.high), Spec(b, lo, hi))
        return (pair((4, 5), (4, 5)), pair((3, 1, 5), (4, 1)), pair((2, 37), ()),
                pair((0, 3), (3,)))


def both(b: Builder, node: Node, dx: Value, dy: Value) -> list[Value]:
    """Cotangents of two broadcast operands, summed to their shapes."""
    x, y = node.operands
    return [unbroadcast(b, dx, x.type), unbroadcast(b, dy, y.type)]


class Add(Binary):
    """input + other, broadcast. Source: `mindspore.ops.add`."""

    name = "add"
    commutative = True
    cost = "cheap"
    exact = True
    dtypes = NUMBERS
    primitive = "Add"
    reference = same_as(np.add)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return both(b, node, dys[0], dys[0])


class Sub(Binary):
    """input - other, broadcast. Source: `mindspore.ops.sub`."""

    name = "sub"
    cost = "cheap"
    exact = True
    dtypes = NUMBERS
    primitive = "Sub"
    reference = same_as(np.subtract)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        dy = dys[0]
        x, y = node.operands
        # Negate after the sum: the operand may be much smaller than the result.
        return [unbroadcast(b, dy, x.type), b.neg(unbroadcast(b, dy, y.type))]


class Mul(Binary):
    """input * other, broadcast. Source: `mindspore.ops.mul`."""

    name = "mul"
    commutative = True
    simplify = _identities.times_one
    cost = "cheap"
    exact = True
    dtypes = NUMBERS
    primitive = "Mul"
    reference = same_as(np.multiply)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x, y = node.operands
        return both(b, node, b.mul(dys[0], conj(b, y)), b.mul(dys[0], conj(b, x)))


class Div(Binary):
    """input / other of floats, broadcast; x/0 is an infinity or NaN as in IEEE 754.

    Source: `mindspore.ops.div`.
    """

    name = "div"
    dtypes = FLOATS + COMPLEX
    primitive = "Div"
    other_low = 0.5
    reference = same_as(np.divide)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        dx = b.div(dys[0], conj(b, node.operands[1]))
        # (Not by dx: of a large divisor it has lost its last digits where the product has not.)
        slope = b.div(node.result, node.operands[1])
        return both(b, node, dx, b.neg(b.mul(dys[0], conj(b, slope))))


class _Division(Binary):
    """Base of what divides and rounds."""

    discontinuous = True
    dtypes = REAL
    low, high = -40.0, 40.0
    other_low, other_high = 0.75, 9.5


def squared(b: Builder, v: Value) -> Value:
    """v * v, as a product."""
    return b.mul(v, v)


def _quotient(a: Expr, b: Expr, rounding: str) -> Expr:
    """a / b to an integer value; rounding a half-float quotient first could step over one."""
    wide = compute_dtype(a.dtype)
    return E.cast(E.call(rounding, E.cast(a, wide) / E.cast(b, wide)), a.dtype)


def _rounded_quotient(rounding: Callable[[Array], Array], a: Array, b: Array) -> Array:
    """`_quotient` in numpy: of two halves it is rounded to a half once, at its end."""
    wide = np.dtype(np.float32) if a.dtype.itemsize == 2 else a.dtype
    quotient: Array = rounding(np.divide(a.astype(wide), b.astype(wide)))
    with np.errstate(over="ignore"):
        return quotient.astype(a.dtype)


class TruncDiv(_Division):
    """input / other rounded towards zero; integer x/0 is 0. Source: `mindspore.ops.div`.

    Gradient: none (piecewise constant).
    """

    name = "trunc_div"
    primitive = "TruncateDiv"
    gradient = no_gradient

    def scalar(self, a: Expr, b: Expr) -> Expr:
        return _quotient(a, b, "trunc") if a.dtype.is_float else a / b

    def reference(self, a: Array, b: Array) -> Array:
        if not np.issubdtype(a.dtype, np.integer):
            return _rounded_quotient(np.trunc, a, b)
        quotient = np.floor_divide(a, b)
        inexact = (np.multiply(quotient, b) != a) & (b != 0)
        return (quotient + (inexact & ((a < 0) != (b < 0)))).astype(a.dtype)


class FloorDiv(_Division):
    """floor(input / other); integer x/0 is 0. Source: `mindspore.ops.floor_div`.

    Floats divide first and then round down, so infinity // 2 is infinity. Gradient: none.
    """

    name = "floor_div"
    primitive = "FloorDiv"
    gradient = no_gradient

    def scalar(self, a: Expr, b: Expr) -> Expr:
        return _quotient(a, b, "floor") if a.dtype.is_float else E.call("floor_div", a, b)

    def reference(self, a: Array, b: Array) -> Array:
        if np.issubdtype(a.dtype, np.integer):
            return np.floor_divide(a, b)
        return _rounded_quotient(np.floor, a, b)


class _Remainder(_Division):
    """Base of what a division leaves; `quotient` is the op that divides."""

    quotient: ClassVar[str]

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        quotient = b.emit(self.quotient, *node.operands)
        return both(b, node, dys[0], b.neg(b.mul(dys[0], quotient)))


define(_Remainder, "mod",
       """Remainder with the sign of `other`, as Python's `%`; integer x % 0 is 0.

    Source: `mindspore.ops.floor_mod`.
    """,
       np.mod, scalar=lambda self, a, b: E.call("floor_mod", a, b), primitive="FloorMod",
       quotient="floor_div")


define(_Remainder, "fmod",
       """Remainder with the sign of `input`, as C's fmod; integer x rem 0 is 0.

    Source: `mindspore.ops.fmod`.
    """,
       np.fmod, primitive="TruncateMod", quotient="trunc_div")


class _Extreme(Binary):
    """Base of maximum and minimum: the winner takes the whole cotangent, a tie halves it.

    A NaN in either operand hands the whole cotangent to both, as MindSpore does. `loses` is the
    comparison that says which operand is not taken.
    """

    commutative = True
    cost = "cheap"
    exact = True
    dtypes = REAL
    loses: ClassVar[str]

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        (x, y), dy = node.operands, dys[0]
        zero, half = b.scalar(0, like=dy), b.mul(dy, b.scalar(0.5, like=dy))
        shared = b.where(b.eq(x, y), half, dy)
        return both(b, node, b.where(b.emit(self.loses, x, y), zero, shared),
                    b.where(b.emit(self.loses, y, x), zero, shared))


def _of_two(extreme: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Of two zeros the second; numpy gives the first where they are of float16."""
    def chosen(a: Array, b: Array) -> Array:
        if a.dtype != np.float16:
            return extreme(a, b)
        return extreme(a.astype(np.float32), b.astype(np.float32)).astype(np.float16)

    return chosen


_larger, _smaller = _of_two(np.maximum), _of_two(np.minimum)
define(_Extreme, "maximum",
       "The larger operand; NaN if either is. Source: `mindspore.ops.maximum`.",
       _larger, primitive="Maximum", loses="lt")
define(_Extreme, "minimum",
       "The smaller operand; NaN if either is. Source: `mindspore.ops.minimum`.",
       _smaller, primitive="Minimum", loses="gt")


class Clamp(Composed):
    """Values limited to [min, max]; NaN stays. Source: `mindspore.ops.clamp`.

    Attributes:
        min, max: bounds, None for no bound. Where min > max the result is max.

    The cotangent passes inside the bounds, both edges included.
    """

    name = "clamp"
    attrs = {"min": attr.optional(attr.real()), "max": attr.optional(attr.real())}
    dtypes = REAL

    def infer(self, x: TensorType, **attrs: Any) -> TensorType:
        if x.dtype.is_integer:
            limits = np.iinfo(x.dtype.numpy)
            for bound in attrs.values():
                if bound is not None and not limits.min <= bound <= limits.max:
                    raise ValueError(f"clamp: the bound {bound} is no number of {x.dtype.name}")
        return super().infer(x, **attrs)

    def expand(self, b: Builder, x: Value, *, min: float | None, max: float | None) -> Value:
        low = x if min is None else b.maximum(x, b.scalar(min, like=x))
        return low if max is None else b.minimum(low, b.scalar(max, like=x))

    def reference(self, x: Array, *, min: float | None, max: float | None) -> Array:
        low = x if min is None else _larger(x, np.asarray(min, x.dtype))
        return low if max is None else _smaller(low, np.asarray(max, x.dtype))

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        (x,), dy = node.operands, dys[0]
        zero = b.scalar(0, like=x)
        for bound, inside in ((node.attrs["min"], "ge"), (node.attrs["max"], "le")):
            if bound is not None:
                dy = b.where(b.emit(inside, x, b.scalar(bound, like=x)), dy, zero)
        return [dy]

    def samples(self) -> Sequence[Sample]:
        x = Spec((5, 7), 0, 8)
        return (case(x, min=2, max=5), case(x, min=3), case(x, max=3), case((0,), min=3))


class Neg(Unary):
    """-input (wraps for unsigned integers). Source: `mindspore.ops.neg`."""

    name = "neg"
    cost = "cheap"
    exact = True
    dtypes = NUMBERS
    primitive = "Neg"
    simplify = _identities.twice_negated
    reference = same_as(np.negative)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.neg(dys[0])]


class Abs(Unary):
    """|input|; of complex the modulus, a real tensor. Source: `mindspore.ops.abs`.

    The most negative integer is its own absolute value. The cotangent at 0 and NaN is 0.
    """

    name = "abs"
    cost = "cheap"
    exact = True
    dtypes = NUMBERS
    primitive = "Abs"
    reference = same_as(np.abs)

    def result_dtype(self, dtype: DType) -> DType:
        return part_dtype(dtype)

    def scalar(self, x: Element) -> Expr:
        return C.modulus(x) if isinstance(x, ComplexExpr) else E.call("abs", x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x, y, dy = node.operands[0], node.result, dys[0]
        if not x.dtype.is_complex:
            return [b.mul(dy, b.sign(x))]
        flat = b.eq(y, b.scalar(0, like=y))
        scale = b.where(flat, b.scalar(0, like=y), b.div(dy, b.where(flat, b.scalar(1, like=y), y)))
        return [b.mul(x, b.cast(scale, dtype=x.dtype))]


class Sign(Unary):
    """-1, 0 or 1; 0 for NaN. Source: `mindspore.ops.sign`. Gradient: none."""

    name = "sign"
    cost = "cheap"
    dtypes = REAL
    primitive = "Sign"
    gradient = no_gradient

    def scalar(self, x: Expr) -> Expr:
        one, zero = E.const(1, x.dtype), E.const(0, x.dtype)
        if x.dtype.kind == "uint":
            return E.where(x.gt(0), one, zero)
        return E.where(x.gt(0), one, E.where(x.lt(0), E.const(-1, x.dtype), zero))

    def reference(self, x: Array) -> Array:
        return ((x > 0).astype(np.int8) - (x < 0).astype(np.int8)).astype(x.dtype)


define(Unary, "reciprocal", "1 / input. Source: `mindspore.ops.reciprocal`.",
       lambda x: np.divide(np.ones((), x.dtype), x),
       lambda b, dy, x, y: b.neg(b.mul(dy, squared(b, conj(b, y)))),
       primitive="Reciprocal", dtypes=FLOATS + COMPLEX, low=0.5, high=3.0)


class Pow(Binary):
    """input to the power of other. Source: `mindspore.ops.pow`.

    Real powers follow IEEE 754 (x**0 is 1, a negative base with a fractional exponent NaN);
    integer powers wrap, negative integer exponents truncate (0 unless the base is 1 or -1).
    The cotangent of the base is 0 where the exponent is 0, that of the exponent 0 where the
    base is 0.
    """

    name = "pow"
    dtypes = REAL + COMPLEX
    primitive = "Pow"
    low, high = 0.5, 2.5
    tolerance = 16.0

    def reference(self, a: Array, b: Array) -> Array:
        if not np.issubdtype(a.dtype, np.signedinteger):
            return np.power(a, b)
        below = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1), 0))
        return np.where(b < 0, below, np.power(a, np.maximum(b, 0))).astype(a.dtype)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        (x, y), dy = node.operands, dys[0]
        zero, one = b.scalar(0, like=x), b.scalar(1, like=x)
        slope = conj(b, b.mul(y, b.pow(x, b.sub(y, one))))
        dx = b.where(b.eq(y, zero), zero, b.mul(dy, slope))
        if x.dtype.is_integer:  # no logarithm: nothing for the exponent
            return [both(b, node, dx, dx)[0], None]
        flat = b.eq(x, zero)
        log = b.log(b.where(flat, one, x))
        dexp = b.where(flat, zero, b.mul(dy, conj(b, b.mul(node.result, log))))
        return both(b, node, dx, dexp)


define(Unary, "square", "input * input. Source: `mindspore.ops.square`.",
       lambda x: np.multiply(x, x),
       lambda b, dy, x, y: b.mul(b.mul(dy, b.scalar(2, like=x)), conj(b, x)),
       scalar=lambda self, x: C.call("mul", x, x), primitive="Square", cost="cheap",
       dtypes=NUMBERS)


define(Unary, "sqrt", """The square root; NaN below 0. Source: `mindspore.ops.sqrt`.

    The cotangent at 0 is infinite.
    """,
       np.sqrt, lambda b, dy, x, y: b.div(b.mul(dy, b.scalar(0.5, like=y)), conj(b, y)),
       primitive="Sqrt", dtypes=FLOATS + COMPLEX, amp="high", low=0.25, high=4.0)


class Rsqrt(Unary):
    """1 / sqrt(input): infinite for 0, NaN below. Source: `mindspore.ops.rsqrt`."""

    name = function = method = "rsqrt"
    dtypes = FLOATS + COMPLEX
    amp = "high"
    primitive = "Rsqrt"
    low, high = 0.25, 4.0

    def reference(self, x: Array) -> Array:
        return np.divide(np.ones((), x.dtype), np.sqrt(x))

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        y = conj(b, node.result)
        half = b.mul(dys[0], b.scalar(-0.5, like=y))
        return [b.mul(half, b.mul(y, b.mul(y, y)))]


class _Rounding(Unary):
    """Base: to an integer value. The gradient is none (piecewise constant)."""

    dtypes = FLOATS
    low, high = -9.0, 9.0
    gradient = no_gradient


define(_Rounding, "floor", "The largest integer not above. Source: `mindspore.ops.floor`.",
       np.floor, primitive="Floor")
define(_Rounding, "ceil", "The smallest integer not below. Source: `mindspore.ops.ceil`.",
       np.ceil, primitive="Ceil")
define(_Rounding, "round", "The nearest integer, halves to even. Source: `mindspore.ops.round`.",
       np.rint)
define(_Rounding, "trunc", "The integer part. Source: `mindspore.ops.trunc`.", np.trunc,
       primitive="Trunc")
