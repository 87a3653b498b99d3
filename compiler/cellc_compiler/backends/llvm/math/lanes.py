"""Arithmetic on lanes as Python operators: the notation the math rules are written in.

An `X` is a value of any lane count with its writer. Operators write one LLVM instruction each
(Python numbers become splat constants), so a rule reads as its formula and still says exactly
which operations run and in which order. Nothing here depends on the number of lanes, which is
what makes a scalar tail equal a vector body bit for bit.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence

from cellc_runtime.records import dataclass

from ..text import Function, V, element, is_float, lanes_of, sizeof


@dataclass(frozen=True, slots=True)
class Format:
    """Constants of a binary floating-point format."""

    ty: str  # LLVM element type
    int_ty: str  # integer type of equal size
    mantissa: int  # stored fraction bits
    bias: int  # exponent bias

    @property
    def magic(self) -> float:
        """1.5 * 2^mantissa: adding it rounds a small number to an integer, kept in the low bits."""
        return 1.5 * 2.0**self.mantissa

    def bits_of(self, value: float) -> int:
        """The bit pattern of a value of this format."""
        code = ("<d", "<q") if self.ty == "double" else ("<f", "<i")
        return int(struct.unpack(code[1], struct.pack(code[0], value))[0])


F32 = Format("float", "i32", 23, 127)
F64 = Format("double", "i64", 52, 1023)

_NUMBER = re.compile(r"(?:splat \((?:float|double) )?0x([0-9A-F]{16})\)?")
"""How `float_literal` writes one, and `Function.const` many lanes of it."""


@dataclass(frozen=True, slots=True)
class X:
    """A value and the function it is written into; operators write instructions."""

    f: Function
    v: V

    @property
    def fmt(self) -> Format:
        """The floating-point format of the value, or of the floats of its size."""
        return F64 if sizeof(element(self.v.ty)) == 8 else F32

    @property
    def number(self) -> float:
        """The number in every lane, if it is written as a constant; else NaN."""
        found = _NUMBER.fullmatch(self.v.ref)
        return math.nan if found is None else float(struct.unpack("<d", struct.pack(
            "<Q", int(found[1], 16)))[0])

    def const(self, value: float | int | bool) -> X:
        """A constant of this type."""
        return X(self.f, self.f.const(self.v.ty, value))

    def _v(self, other: X | float | int | bool) -> V:
        return other.v if isinstance(other, X) else self.f.const(self.v.ty, other)

    def _bin(self, op: str, other: X | float | int) -> X:
        return X(self.f, self.f.binary(op, self.v, self._v(other)))

    def _arith(self, op: str, other: X | float | int) -> X:
        return self._bin("f" + op if is_float(self.v.ty) else op, other)

    def __add__(self, other: X | float | int) -> X:
        return self._arith("add", other)

    def __sub__(self, other: X | float | int) -> X:
        return self._arith("sub", other)

    def __mul__(self, other: X | float | int) -> X:
        return self._arith("mul", other)

    def __radd__(self, other: float | int) -> X:
        return self.const(other) + self

    def __rsub__(self, other: float | int) -> X:
        return self.const(other) - self

    def __rmul__(self, other: float | int) -> X:
        return self * other

    def __truediv__(self, other: X | float) -> X:
        return self._bin("fdiv", other)

    def __rtruediv__(self, other: float) -> X:
        return self.const(other) / self

    def __neg__(self) -> X:
        if is_float(self.v.ty):
            return X(self.f, self.f.fneg(self.v))
        return self.const(0) - self

    def __and__(self, other: X | int) -> X:
        return self._bin("and", other)

    def __or__(self, other: X | int) -> X:
        return self._bin("or", other)

    def __xor__(self, other: X | int) -> X:
        return self._bin("xor", other)

    def __lshift__(self, other: int) -> X:
        return self._bin("shl", other)

    def __rshift__(self, other: int) -> X:
        """Logical shift: AVX2 has no 64-bit arithmetic one."""
        return self._bin("lshr", other)

    def __invert__(self) -> X:
        return self ^ (True if element(self.v.ty) == "i1" else -1)

    def op(self, name: str, other: X | float | int) -> X:
        """Any two-operand instruction by its LLVM name."""
        return self._bin(name, other)

    def fma(self, b: X | float, c: X | float) -> X:
        """self * b + c with one rounding."""
        return X(self.f, self.f.fma(self.v, self._v(b), self._v(c)))

    def cmp(self, pred: str, other: X | float | int) -> X:
        """Comparison with an LLVM predicate."""
        return X(self.f, self.f.cmp(pred, self.v, self._v(other)))

    def lt(self, other: X | float) -> X:
        """self < other, false for NaN."""
        return self.cmp("olt", other)

    def gt(self, other: X | float) -> X:
        """self > other, false for NaN."""
        return self.cmp("ogt", other)

    def ge(self, other: X | float) -> X:
        """self >= other, false for NaN."""
        return self.cmp("oge", other)

    def eq(self, other: X | float) -> X:
        """self == other, false for NaN."""
        return self.cmp("oeq", other)

    def isnan(self) -> X:
        """Whether each lane is NaN."""
        return self.cmp("uno", self)

    def where(self, a: X | float | int, b: X | float | int) -> X:
        """self ? a : b for a mask `self`; one of `a`, `b` is an `X`."""
        like = a if isinstance(a, X) else b
        if not isinstance(like, X):
            raise TypeError("where() needs a value on one side")
        return X(self.f, self.f.select(self.v, like._v(a), like._v(b)))

    def call(self, intrinsic: str, *others: X) -> X:
        """An LLVM intrinsic that lowers to instructions."""
        args = (self.v, *(o.v for o in others))
        return X(self.f, self.f.intrinsic(intrinsic, self.v.ty, *args))

    def abs(self) -> X:
        """|self|, sign bit cleared."""
        return self.call("fabs")

    def sqrt(self) -> X:
        """Correctly rounded square root."""
        return self.call("sqrt")

    def copysign(self, sign: X) -> X:
        """|self| with the sign of another value."""
        if self.fmt is F64 and not self.v.ty.startswith("<"):
            # A number alone that becomes a half: LLVM would round `sign`, too, by a library's
            # function.
            top = self.const(-0.0).bits()
            return (self.abs().bits() | (sign.bits() & top)).float()
        return self.call("copysign", sign)

    def bits(self) -> X:
        """The bit pattern as integers of equal size."""
        return X(self.f, self.f.cast("bitcast", self.v, self.fmt.int_ty))

    def float(self) -> X:
        """The bit pattern as a float of equal size."""
        return X(self.f, self.f.cast("bitcast", self.v, self.fmt.ty))

    def to(self, cast: str, ty: str) -> X:
        """An LLVM conversion to another element type."""
        return X(self.f, self.f.cast(cast, self.v, ty))

    def any(self) -> V:
        """Whether any lane of a mask is set (an i1)."""
        n = lanes_of(self.v.ty)
        if n == 1:
            return self.v
        return self.f.call(f"llvm.vector.reduce.or.v{n}i1", "i1", self.v)


def poly(x: X, coefficients: Sequence[float]) -> X:
    """c0 + c1 x + c2 x^2 + ..., Horner's rule with fused multiply-adds."""
    acc = x.const(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        acc = acc.fma(x, c)
    return acc


def fast_two_sum(a: X, b: X) -> tuple[X, X]:
    """a + b as an unevaluated sum, exact when |a| >= |b| or a = 0 (Dekker 1971)."""
    s = a + b
    return s, b - (s - a)


def two_sum(a: X, b: X) -> tuple[X, X]:
    """a + b as an unevaluated sum, exact for any order (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: X, b: X | float) -> tuple[X, X]:
    """a * b as an unevaluated sum, exact barring underflow."""
    p = a * b
    return p, a.fma(b, -p)
