"""Arithmetic whose corner cases LLVM leaves open, made total: division, shifts, extremes, signs.

Integers wrap. Division and remainder by zero give 0, and the minimum divided by -1 wraps:
no input traps. A shift by a negative amount or by the width or more shifts everything out.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..text import V, element, is_float
from .lanes import X


def _float(x: X) -> bool:
    return is_float(x.v.ty)


def _width(x: X) -> int:
    return int(element(x.v.ty)[1:])


def add(a: X, b: X) -> X:
    """a + b; `or` of masks."""
    return a | b if element(a.v.ty) == "i1" else a + b


def abs_(a: X, signed: bool) -> X:
    """|a|; the minimum of a signed integer is its own absolute value."""
    if _float(a):
        return a.abs()
    return a.cmp("slt", 0).where(-a, a) if signed else a


def sign(a: X, signed: bool) -> X:
    """-1, 0 or 1; 0 for NaN."""
    if not _float(a):
        one = a.cmp("ne", 0).where(a.const(1), 0)
        return a.cmp("slt", 0).where(-1, one) if signed else one
    return a.gt(0.0).where(a.const(1.0), a.lt(0.0).where(a.const(-1.0), 0.0))


def maximum(a: X, b: X, signed: bool) -> X:
    """The larger; NaN if either is; `b` where they compare equal."""
    if element(a.v.ty) == "i1":
        return a | b
    if not _float(a):
        return a.cmp("sgt" if signed else "ugt", b).where(a, b)
    return _extreme(a, b, X.gt)


def minimum(a: X, b: X, signed: bool) -> X:
    """The smaller; NaN if either is; `b` where they compare equal."""
    if element(a.v.ty) == "i1":
        return a & b
    if not _float(a):
        return a.cmp("slt" if signed else "ult", b).where(a, b)
    return _extreme(a, b, X.lt)


def _extreme(a: X, b: X, beats: Callable[[X, X], X]) -> X:
    """`a` where it beats `b`, else `b`; NaN if either is.

    Beside a number that is known, a comparison that fails for NaN and a selection do: x86 has one
    instruction for both.
    """
    if not math.isnan(a.number):
        return beats(a, b).where(a, b)
    if b.number == 0 and math.copysign(1.0, b.number) > 0:
        a = a + 0.0  # of zeros `b` is the result, and -0.0 + 0.0 is 0.0
    elif math.isnan(b.number) or b.number == 0:
        return a.isnan().where(a, beats(a, b).where(a, b))
    return beats(b, a).where(b, a)


def trunc_div(a: X, b: X, signed: bool) -> X:
    """C's a / b for integers, total; float division rounded towards zero."""
    if _float(a):
        q = float_floor_quotient(a.abs(), b.abs())
        return q.copysign((a.bits() ^ b.bits()).float())
    bits = _width(a)
    zero = b.cmp("eq", 0)
    d = zero.where(1, b)
    minus = b.cmp("eq", -1) if signed else None
    if minus is not None:
        d = minus.where(1, d)
    if bits == 64:
        q = a.op("sdiv" if signed else "udiv", d)
    else:
        # The nearest float of an inexact quotient never crosses an integer: the operands are short.
        ty = "float" if bits < 32 else "double"
        to, back = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
        q = (a.to(to, ty) / d.to(to, ty)).to(back, f"i{bits}")
    return zero.where(0, q if minus is None else minus.where(-a, q))


def trunc_mod(a: X, b: X, signed: bool) -> X:
    """C's a % b and fmod: the sign of a; 0 for an integer modulo 0."""
    if _float(a):
        return fmod(a, b)
    r = a - trunc_div(a, b, signed) * b
    return b.cmp("eq", 0).where(0, r)


def floor_div(a: X, b: X, signed: bool) -> X:
    """The quotient rounded down."""
    if _float(a):
        return float_floor_quotient(a, b)
    q = trunc_div(a, b, signed)
    if not signed:
        return q
    r = a - q * b
    lower = b.cmp("ne", 0) & r.cmp("ne", 0) & (r ^ b).cmp("slt", 0)
    return lower.where(q - 1, q)


def floor_mod(a: X, b: X, signed: bool) -> X:
    """Python's a % b: the sign of b; 0 for an integer modulo 0."""
    if _float(a):
        r = fmod(a, b)
        other = (r.bits() ^ b.bits()).cmp("slt", 0)
        return r.eq(0.0).where(r.copysign(b), other.where(r + b, r))
    r = trunc_mod(a, b, signed)
    if not signed:
        return r
    return (r.cmp("ne", 0) & (r ^ b).cmp("slt", 0)).where(r + b, r)


def float_floor_quotient(a: X, b: X) -> X:
    """floor(a / b) of the exact quotient, as long as floats hold integers there.

    Beyond, the rounded quotient; for infinities and b = 0 what IEEE division gives.
    """
    q = a / b
    down = q.call("floor")
    rest = down.fma(-b, a)
    over = (rest.lt(0.0) & b.gt(0.0)) | (rest.gt(0.0) & b.lt(0.0))
    exact = q.abs().lt(2.0 ** (q.fmt.mantissa + 1))
    return (over & exact).where(down - 1.0, down)


def fmod(a: X, b: X) -> X:
    """C's fmod, exact: the sign of a; NaN for a infinite or b = 0.

    Each round of the loop subtracts a multiple of |b| that leaves less than 2^-mantissa of the
    remainder, exactly (a fused multiply-add); one round is enough unless a/b is huge. A quotient
    that would overflow is taken by |b| scaled up.
    """
    x, y = a.abs(), b.abs()
    fits = x.lt(float("inf")) & y.gt(0.0)
    x, y = fits.where(x, 0.0), fits.where(y, 1.0)
    fmt, f = x.fmt, a.f
    step = 2.0 ** (700 if fmt.mantissa == 52 else 100)
    far = y * step
    farther = far * step

    def body(carried: list[V]) -> list[V]:
        r = before = X(f, carried[0])
        d = r.ge(farther).where(farther, r.ge(far).where(far, y))
        q = (r / d).call("trunc")
        r = q.fma(-d, r)
        top = (q.bits() >> fmt.mantissa << fmt.mantissa).float() * 2.0**-fmt.mantissa
        grain = top.gt(1.0).where(top, 1.0)
        r = r.lt(0.0).where(grain.fma(d, r), r)
        return [before.ge(y).where(r, before).v]  # a finished lane may have |b| infinite

    (rest,) = f.while_([x.v], lambda c: X(f, c[0]).ge(y).any(), body)
    r = X(f, rest)
    nan = a.cmp("uno", b) | ~fits
    return nan.where(float("nan"), r.copysign(a))


def shl(a: X, n: X) -> X:
    """a << n; 0 where n is negative or not below the width."""
    ok = n.cmp("ult", _width(a))
    return ok.where(a.op("shl", ok.where(n, 0)), 0)


def shr(a: X, n: X, signed: bool) -> X:
    """a >> n, keeping the sign of signed integers; all sign bits for amounts out of range."""
    width = _width(a)
    ok = n.cmp("ult", width)
    if signed:
        return a.op("ashr", ok.where(n, width - 1))
    return ok.where(a.op("lshr", ok.where(n, 0)), 0)


def integer_pow(a: X, n: X, signed: bool) -> X:
    """a^n by squaring, wrapping. A negative power is 0 but for bases 1 and -1."""
    f = a.f
    negative = n.cmp("slt", 0) if signed else None
    # a^-n of a unit is a^n, and |n| has n's parity, so only the base decides.
    exponent = n if negative is None else negative.where(-n, n)

    def body(c: list[V]) -> list[V]:
        r, base, e = (X(f, v) for v in c)
        r = (e & 1).cmp("ne", 0).where(r * base, r)
        return [r.v, (base * base).v, (e >> 1).v]

    r, _, _ = f.while_([a.const(1).v, a.v, exponent.v],
                       lambda c: X(f, c[2]).cmp("ne", 0).any(), body)
    result = X(f, r)
    if negative is None:
        return result
    unit = a.cmp("eq", 1) | a.cmp("eq", -1)
    return (negative & ~unit).where(0, result)
