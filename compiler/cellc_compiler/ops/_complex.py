"""Arithmetic on complex elements, written with real scalar expressions.

Fusable ops see a complex operand as a `ComplexExpr`, a pair of real expressions. Products are the
textbook ones; quotients use Smith's method and moduli a scaled hypotenuse, so that neither
overflows early.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..ir.graph import Builder, Node, Value
from ..ir.op import Op
from ..loops import expr as E
from ..loops.expr import ComplexExpr, Expr

Element = Expr | ComplexExpr


def by_parts(self: Op, b: Builder, node: Node) -> Value:
    """A linear op of a complex operand: of the real and of the imaginary part."""
    x = node.operands[0]
    parts = [b.emit(node.op, part, **node.attrs) for part in (b.real(x), b.imag(x))]
    return b.make_complex(*parts)


def conj(b: Builder, v: Value) -> Value:
    """The conjugate of a complex value; a real value itself."""
    return b.conj(v) if v.dtype.is_complex else v


def _add(x: ComplexExpr, y: ComplexExpr) -> ComplexExpr:
    return ComplexExpr(x.re + y.re, x.im + y.im)


def _sub(x: ComplexExpr, y: ComplexExpr) -> ComplexExpr:
    return ComplexExpr(x.re - y.re, x.im - y.im)


def _mul(x: ComplexExpr, y: ComplexExpr) -> ComplexExpr:
    return ComplexExpr(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


def _div(x: ComplexExpr, y: ComplexExpr) -> ComplexExpr:
    """Smith (1962): divide by the larger part of the divisor first."""
    wide = E.call("abs", y.re).ge(E.call("abs", y.im))
    big, small = E.where(wide, y.re, y.im), E.where(wide, y.im, y.re)
    p, q = E.where(wide, x.re, x.im), E.where(wide, x.im, x.re)
    ratio = small / big
    scale = big + small * ratio
    im = (q - p * ratio) / scale
    return ComplexExpr((p + q * ratio) / scale, E.where(wide, im, -im))


def _neg(x: ComplexExpr) -> ComplexExpr:
    return ComplexExpr(-x.re, -x.im)


def _reciprocal(x: ComplexExpr) -> ComplexExpr:
    one = E.const(1, x.re.dtype)
    return _div(ComplexExpr(one, E.const(0, x.re.dtype)), x)


def _square(x: ComplexExpr) -> ComplexExpr:
    return _mul(x, x)


def modulus(x: ComplexExpr) -> Expr:
    """|x| without overflow of the squares; infinite if a part is."""
    a, b = E.call("abs", x.re), E.call("abs", x.im)
    most, least = E.call("maximum", a, b), E.call("minimum", a, b)
    ratio = least / E.where(most.eq(0), E.const(1, most.dtype), most)
    length = most * E.call("sqrt", ratio * ratio + 1.0)
    infinite = a.eq(math.inf) | b.eq(math.inf)
    return E.where(infinite, E.const(math.inf, a.dtype), length)


def argument(x: ComplexExpr) -> Expr:
    """The angle of x, radians in (-pi, pi]."""
    return E.call("atan2", x.im, x.re)


def _polar(length: Expr, angle: Expr) -> ComplexExpr:
    """length * (cos + i sin); an angle of 0 gives no imaginary part even at infinity."""
    im = E.where(angle.eq(0), angle, length * E.call("sin", angle))
    return ComplexExpr(length * E.call("cos", angle), im)


def _exp(x: ComplexExpr) -> ComplexExpr:
    return _polar(E.call("exp", x.re), x.im)


def _log(x: ComplexExpr) -> ComplexExpr:
    return ComplexExpr(E.call("log", modulus(x)), argument(x))


def _sqrt(x: ComplexExpr) -> ComplexExpr:
    """The root with non-negative real part; the smaller part comes from the larger."""
    half = E.call("sqrt", (modulus(x) + E.call("abs", x.re)) * 0.5)
    other = E.where(half.eq(0), half, E.call("abs", x.im) / (half * 2.0))
    right = x.re.ge(0)
    im = E.where(right, other, half)
    return ComplexExpr(E.where(right, half, other), E.where(x.im.lt(0), -im, im))


def _rsqrt(x: ComplexExpr) -> ComplexExpr:
    return _reciprocal(_sqrt(x))


def _pow(x: ComplexExpr, y: ComplexExpr) -> ComplexExpr:
    """exp(y log x); 1 where y is 0."""
    one, zero = E.const(1, x.re.dtype), E.const(0, x.re.dtype)
    out = _exp(_mul(y, _log(x)))
    trivial = y.re.eq(0) & y.im.eq(0)
    return ComplexExpr(E.where(trivial, one, out.re), E.where(trivial, zero, out.im))


def _sin(x: ComplexExpr) -> ComplexExpr:
    return ComplexExpr(E.call("sin", x.re) * E.call("cosh", x.im),
                       E.call("cos", x.re) * E.call("sinh", x.im))


def _cos(x: ComplexExpr) -> ComplexExpr:
    return ComplexExpr(E.call("cos", x.re) * E.call("cosh", x.im),
                       -(E.call("sin", x.re) * E.call("sinh", x.im)))


def _sinh(x: ComplexExpr) -> ComplexExpr:
    return ComplexExpr(E.call("sinh", x.re) * E.call("cos", x.im),
                       E.call("cosh", x.re) * E.call("sin", x.im))


def _cosh(x: ComplexExpr) -> ComplexExpr:
    return ComplexExpr(E.call("cosh", x.re) * E.call("cos", x.im),
                       E.call("sinh", x.re) * E.call("sin", x.im))


def _tanh(x: ComplexExpr) -> ComplexExpr:
    """With t = tanh(re) and u = tan(im): (t + i u) / (1 + i t u)."""
    t, u = E.call("tanh", x.re), E.call("tan", x.im)
    return _div(ComplexExpr(t, u), ComplexExpr(E.const(1, t.dtype), t * u))


RULES: dict[str, Callable[..., ComplexExpr]] = {
    "add": _add, "sub": _sub, "mul": _mul, "div": _div, "neg": _neg, "square": _square,
    "reciprocal": _reciprocal, "exp": _exp, "log": _log, "sqrt": _sqrt, "rsqrt": _rsqrt,
    "pow": _pow, "sin": _sin, "cos": _cos, "sinh": _sinh, "cosh": _cosh, "tanh": _tanh,
}
"""The formula of each op on complex elements."""


def call(name: str, *args: Any) -> Element:
    """The op `name` on real or complex elements."""
    if isinstance(args[0], ComplexExpr):
        return RULES[name](*args)
    return E.call(name, *args)
