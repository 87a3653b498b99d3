"""Exponentials, logarithms and powers on lanes.

Cody & Waite (1980) reductions with fused multiply-adds, then minimax polynomials (Remez
exchange, coefficients rounded to the format). e^x = 2^k (1 + p(r)) with k rounded by the magic
number 1.5*2^mantissa; 2^k is applied in two factors, so results round once even where they are
subnormal. log x = k ln 2 + log m with m in [sqrt(1/2), sqrt(2)) and log m = 2 atanh(f/(2+f))
(float64) or a polynomial in f = m - 1 (float32). pow carries log x in twice the precision
(Dekker's unevaluated sums).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from cellc_runtime.records import dataclass

from ....ops.transcendental import NORMAL_EXP
from .lanes import F32, F64, X, fast_two_sum, poly, two_product, two_sum

INF = float("inf")
NAN = float("nan")


@dataclass(frozen=True, slots=True)
class _Exp:
    """Reduction constants of one format: log2(e), ln 2 in two parts, range, polynomials."""

    log2e: float
    ln2: tuple[float, float]
    lo: float
    hi: float
    exp: tuple[float, ...]
    expm1: tuple[float, ...]
    exp2: tuple[float, ...]
    sinh: tuple[float, ...]
    cosh: tuple[float, ...]


# exp: e^r = 1 + r + r^2 P(r); expm1: the same weighted for relative error at 0; exp2: 2^r =
# 1 + r P(r) on [-1/2, 1/2]. Maximum relative errors 2^-57.9, 2^-61.7, 2^-64.4.
_EXP64 = _Exp(
    1.4426950408889634, (0.6931471805599453, 2.3190468138462996e-17), -746.0, 710.0,
    (0.5000000000000011, 0.16666666666666413, 0.041666666666530267, 0.008333333333494338,
     0.0013888888943597746, 0.0001984126950676844, 2.4801493136122464e-05,
     2.755758627647441e-06, 2.763023394450516e-07, 2.500006907403046e-08),
    (0.5, 0.16666666666666677, 0.0416666666666667, 0.008333333333321626,
     0.0013888888888866854, 0.0001984126988613193, 2.480158736052218e-05,
     2.7557244211609567e-06, 2.755724278983404e-07, 2.5109033613601712e-08,
     2.0924433733582385e-09),
    (0.6931471805599453, 0.24022650695910072, 0.05550410866482169, 0.00961812910762833,
     0.001333355814639269, 0.00015403530393640744, 1.5252733854318407e-05,
     1.3215486594896689e-06, 1.0178051941905467e-07, 7.054974483112521e-09,
     4.4565705179717833e-10, 2.562541513474064e-11),
    (0.16666666666666677, 0.00833333333332066, 0.00019841269888885938,
     2.7557241167922875e-06, 2.5110178392562374e-08),
    (0.041666666666666685, 0.0013888888888872197, 2.480158735166517e-05,
     2.7557249514728846e-07, 2.0922533381095938e-09),
)
# Maximum relative errors 2^-28.2, 2^-31.9, 2^-28.9.
_EXP32 = _Exp(
    1.4426950216293335, (0.6931471824645996, -1.9046542121259336e-09), -104.0, 89.0,
    (0.4999999305053655, 0.1666651479073386, 0.041668456804036066, 0.008369418897729691,
     0.0013813144483353665),
    (0.5000000049226976, 0.16666666827021012, 0.04166634213375721, 0.008333270472618693,
     0.0013942046242942125, 0.00019915695087633546),
    (0.6931472028549226, 0.2402264791361248, 0.055503324713018005, 0.009618437359595383,
     0.0013398874366502972, 0.0001535336140833067),
    (0.16666538061963035, 0.00836724415186956),
    (0.041666451060336604, 0.0013936340598344622),
)
# (2 atanh(s)/s - 2)/s^2 as a polynomial in s^2, |s| <= 0.1716; error 2^-58.5.
_LOG64 = (0.6666666666666735, 0.3999999999941109, 0.28571428743262944, 0.22222198475965224,
          0.18183569740677144, 0.15313903228733328, 0.14797507853993516)
# (2 atanh(s)/s - 2 - 2 s^2/3)/s^4, for the double-length logarithm of pow; error 2^-65.9.
_LOG64_TAIL = (0.39999999999999997, 0.28571428571434265, 0.22222222220088533,
               0.18181818568149646, 0.15384576734754016, 0.1333558140861457,
               0.11689208505828319, 0.11873538840453678)
# (atanh(s) - s)/s^3 as a polynomial in s^2, |s| <= 1/5; error 2^-62.7.
_ATANH64 = (0.333333333333333, 0.20000000000028167, 0.14285714277956021, 0.11111112143481698,
            0.09090833222984744, 0.07695546655909012, 0.06586956324191447, 0.06920459140933431)
# (log(1+f) - f + f^2/2)/f^3, f in [sqrt(1/2)-1, sqrt(2)-1]; error 2^-30.4.
_LOG32 = (0.3333331044537195, -0.24999986576407385, 0.20002226318418714, -0.1666925181321539,
          0.14218663844424573, -0.1238433519668153, 0.11872925757996536,
          -0.11789864457834513, 0.06915540276435048)
# ln 2 and log10 2 with 32 leading bits, so that k times the first part is exact.
_LN2 = (0.6931471803691238, 1.9082149292705877e-10)
_LOG10_2 = (0.3010299955494702, 1.1451100898021838e-10)
_LN2_32 = (0.693145751953125, 1.4286068203094173e-06)
_LOG2_E = (1.4426950408889634, 2.0355273740931033e-17)
_LOG10_E = (0.4342944819032518, 1.098319650216765e-17)
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)


def _table(x: X) -> _Exp:
    return _EXP64 if x.fmt is F64 else _EXP32


def clamp(x: X, lo: float, hi: float) -> X:
    """x limited to [lo, hi]; NaN stays NaN."""
    x = x.lt(lo).where(lo, x)
    return x.gt(hi).where(hi, x)


def round_magic(x: X, factor: float = 1.0) -> tuple[X, X]:
    """round(x * factor) as an integer with an offset of bits(magic), and as a float."""
    magic = x.fmt.magic
    t = x.fma(factor, magic) if factor != 1.0 else x + magic
    return t.bits(), t - magic


def reduce_exp(x: X) -> tuple[X, X]:
    """(integer k + bits(magic), r) with x = k ln 2 + r, |r| <= ln(2)/2; |x| is bounded."""
    c = _table(x)
    n, k = round_magic(x, c.log2e)
    r = k.fma(-c.ln2[0], x)
    return n, k.fma(-c.ln2[1], r)


def scale(y: X, n: X, shift: int = 0) -> X:
    """y * 2^(k + shift) for n = k + bits(magic), rounded once, over all exponents."""
    fmt = y.fmt
    twice = n + (2 * fmt.bias + shift - fmt.bits_of(fmt.magic))
    half = twice >> 1
    first = (half << fmt.mantissa).float()
    return y * first * ((twice - half) << fmt.mantissa).float()


def power_of_two(n: X, fmt_like: X, shift: int = 0) -> X:
    """2^(k + shift) for n = k + bits(magic), where that is a normal number."""
    fmt = fmt_like.fmt
    return ((n + (fmt.bias + shift - fmt.bits_of(fmt.magic))) << fmt.mantissa).float()


def _exp_reduced(r: X) -> X:
    """e^r for |r| <= ln(2)/2."""
    return poly(r, (1.0, 1.0, *_table(r).exp))


def exp(x: X, shift: int = 0) -> X:
    """e^x * 2^shift."""
    c = _table(x)
    n, r = reduce_exp(clamp(x, c.lo, c.hi + 1.0 if shift < 0 else c.hi))
    y = _exp_reduced(r)
    if shift <= 0:
        # The result is 0 there (masked scores are -infinity); to reach it by multiplication
        # would underflow, which costs some CPUs a hundred cycles.
        y = x.lt(c.lo).where(0.0, y)
    return scale(y, n, shift)


def normal_exp(x: X) -> X:
    """e^x of a float32, 0 where that is hardly a normal number."""
    n, r = reduce_exp(clamp(x, NORMAL_EXP, _table(x).hi))
    return scale(x.lt(NORMAL_EXP).where(0.0, _exp_reduced(r)), n)


def exp_parts(x: X, more: X) -> tuple[X, X, X]:
    """e^(x + more) of float64 as (h + l) 2^k, within 2^-58: (h, l, k + bits(magic)).

    `more` is at most an ulp of x, which is bounded.
    """
    c = _table(x)
    n, k = round_magic(x, c.log2e)
    r0 = k.fma(-c.ln2[0], x)
    r = k.fma(-c.ln2[1], r0)
    r, tail = fast_two_sum(r, k.fma(-c.ln2[1], r0 - r) + more)
    head, low = fast_two_sum(r.const(1.0), r)
    return head, (r * r).fma(poly(r, c.exp), low + tail), n


def log1pexp(x: X) -> X:
    """log(1 + e^x) as max(x, 0) + log(1 + e), e = e^-|x| in two parts."""
    c = _table(x)
    a = x.abs()
    far = a.gt(-c.lo)
    n, r0 = round_magic(-far.where(-c.lo, a), c.log2e)
    r = r0.fma(-c.ln2[0], -far.where(-c.lo, a))
    r, tail = fast_two_sum(r, -(r0 * c.ln2[1]))
    head, low = fast_two_sum(r.const(1.0), r)
    rest = (r * r).fma(poly(r, c.exp), low + tail)
    above = x.lt(0.0).where(0.0, x)
    if x.fmt is F64:
        head, rest = fast_two_sum(head, rest)
        y = _log1p_of_unit(scale(far.where(0.0, head), n), scale(rest, n), above)
        return x.gt(-c.lo).where(x, y)
    power = ((n.to("sext", "i64") + (F64.bias - F32.bits_of(F32.magic))) << F64.mantissa).float()
    e = (head.to("fpext", "double") + rest.to("fpext", "double")) * power
    y = _log1p_of_unit(e, None, above.to("fpext", "double")).to("fptrunc", "float")
    return far.where(above, y)


def _log1p_of_unit(e: X, lost: X | None, above: X) -> X:
    """above + log(1 + e + lost) of float64 with 0 <= e <= 1; above is 0, or -log e."""
    u = 1.0 + e
    twice = u.gt(1.4142135623730951)
    rest = twice.where(e - (u - 1.0), 0.0)
    rest = rest if lost is None else rest + lost
    h, t = _log_parts(twice.where(0.5 * u - 1.0, e))
    f = twice.where(0.5 * u - 1.0, e)
    base, low = two_sum(above, twice.where(e.const(_LN2[0]), 0.0))
    return base + (f - (h - (t + (low + (twice.where(e.const(_LN2[1]), 0.0) + rest / u)))))


def exp_square(x: X, sign: float = 1.0) -> X:
    """e^(sign x^2), the rounding of the square put back."""
    c = _table(x)
    limit = math.sqrt(c.hi + 2.0 if sign > 0 else -c.lo)
    a = x.abs()
    far = a.gt(limit)
    a = far.where(limit, a)
    square, low = two_product(a, a)
    n, k = round_magic(square, sign * c.log2e)
    r = k.fma(-c.ln2[0], square if sign > 0 else -square)
    y = _exp_reduced(r + k.fma(-c.ln2[1], low if sign > 0 else -low))
    return scale(y if sign > 0 else far.where(0.0, y), n)


def exp2(x: X) -> X:
    """2^x."""
    c = _table(x)
    limit = float(x.fmt.bias + 1)
    lo = -(limit + x.fmt.mantissa + 2.0)
    bounded = clamp(x, lo, limit)
    n, k = round_magic(bounded)
    y = poly(bounded - k, (1.0, *c.exp2))
    return scale(x.lt(lo).where(0.0, y), n)  # as in `exp`


def half_expm1(x: X) -> X:
    """(e^x - 1) / 2 for x bounded such that 2^(k - 1) is a normal number.

    The reduced argument keeps its rounding error, and so does 2^k (1 + r) - 1, to which what is
    left of e^r is added: they would be the largest ones.
    """
    head, rest = _half_expm1_parts(x)
    return head + rest


def _half_expm1_parts(x: X, shift: int = -1, large: bool = True) -> tuple[X, X]:
    """`half_expm1` as an unevaluated sum; `large`: x may be one whose e^x - 1 is rounded."""
    c = _table(x)
    n, k = round_magic(x, c.log2e)
    r0 = k.fma(-c.ln2[0], x)
    r = k.fma(-c.ln2[1], r0)
    tail = k.fma(-c.ln2[1], r0 - r)
    half = c.expm1[0] * r
    rest = r.fma(half, (r * r * r).fma(poly(r, c.expm1[1:]), tail))
    s = power_of_two(n, x, shift)
    base = s - 2.0**shift
    head = s.fma(r, base)
    lost = s.fma(r, base - head)
    if large:
        lost = lost + ((s - base) - 2.0**shift)
    return head, s.fma(rest, lost)


def expm1(x: X) -> X:
    """e^x - 1, accurate near 0."""
    c = _table(x)
    y = 2.0 * half_expm1(clamp(x, -44.0, c.hi))
    tiny = x.abs().lt(2.0 ** -(x.fmt.mantissa + 2))
    return tiny.where(x, y)


# Scale less 1, and scale times depth in two parts, of Klambauer et al. 2017.
_SELU64 = (0.050700987355480454, 1.7580993408473766, 5.75014648756476e-17)
_SELU32 = (0.05070098862051964, 1.7580993175506592, 2.3296717444054593e-08)


def selu(x: X) -> X:
    """scale x from 0 on, scale depth (e^x - 1) below: e^x - 1 and scale depth have two parts."""
    more, depth, low = _SELU64 if x.fmt is F64 else _SELU32
    below = x.lt(0.0)
    bounded = below.where(x.lt(-44.0).where(-44.0, x), 0.0)
    head, rest = _half_expm1_parts(bounded, 0, large=False)
    p, e = two_product(head, depth)
    side = p + rest.fma(depth, head.fma(low, e))
    return below.where(side, x.fma(more, x))


def selu_slope(x: X) -> X:
    """The derivative of `selu`: scale from 0 on, scale depth e^x below, rounded about once."""
    more, depth, low = _SELU64 if x.fmt is F64 else _SELU32
    c = _table(x)
    below, far = x.lt(0.0), x.lt(c.lo)
    n, r = reduce_exp(below.where(far.where(c.lo, x), 0.0))
    p = (r * r).fma(poly(r, c.exp), r)
    y = depth + p.fma(depth, p.fma(low, p.const(low)))
    return below.where(scale(far.where(0.0, y), n), x.isnan().where(x, 1.0 + more))


def split_exponent(x: X) -> tuple[X, X]:
    """x = 2^k m with m in [sqrt(1/2), sqrt(2)) for finite x > 0: (k as a float, m)."""
    fmt = x.fmt
    digits = fmt.mantissa
    tiny = x.lt(2.0 ** (1 - fmt.bias))
    x = tiny.where(x * 2.0 ** (digits + 2), x)
    base = fmt.bits_of(0.7071067811865476)
    u = x.bits() + ((fmt.bias << digits) - base)
    bits = (u >> digits) | fmt.bits_of(2.0**digits)
    offset = 2.0**digits + fmt.bias
    k = bits.float() - tiny.where(x.const(offset + digits + 2), offset)
    return k, ((u & ((1 << digits) - 1)) + base).float()


def log_specials(x: X, y: X) -> X:
    """The value of a logarithm at 0, negative numbers, infinity and NaN, else y."""
    y = x.eq(0.0).where(-INF, y)
    y = x.lt(0.0).where(NAN, y)
    return x.cmp("ueq", INF).where(x, y)


def _log_parts(f: X) -> tuple[X, X]:
    """log(1+f) = f - h + t: (h, t) with h = f^2/2 (fdlibm's arrangement)."""
    s = f / (2.0 + f)
    z = s * s
    h = 0.5 * f * f
    return h, s * (h + z * poly(z, _LOG64))


def log(x: X) -> X:
    """Natural logarithm."""
    k, m = split_exponent(x)
    f = m - 1.0
    if x.fmt is F32:
        z = f * f
        y = z * f * poly(f, _LOG32)
        y = z.fma(-0.5, k.fma(_LN2_32[1], y))
        return log_specials(x, k.fma(_LN2_32[0], f + y))
    h, t = _log_parts(f)
    return log_specials(x, k.fma(_LN2[0], f - (h - k.fma(_LN2[1], t))))


def log_parts(x: X) -> tuple[X, X]:
    """log x of a float64, 0 < x < 1/2, as an unevaluated sum, within 2^-57."""
    k, m = split_exponent(x)
    f = m - 1.0
    h, t = _log_parts(f)
    hi, lo = fast_two_sum(f, t - h)
    total, rest = fast_two_sum(k * _LN2[0], hi)
    return fast_two_sum(total, rest + k.fma(_LN2[1], lo))


def xlogy(x: X, y: X) -> X:
    """x log y, the logarithm in two parts; 0 where x is 0 unless y is NaN."""
    k, m = split_exponent(y)
    f = m - 1.0
    if x.fmt is F32:
        z = f * f
        rest = z.fma(-0.5, k.fma(_LN2_32[1], z * f * poly(f, _LOG32)))
        whole = k * _LN2_32[0]
    else:
        h, t = _log_parts(f)
        rest, whole = k.fma(_LN2[1], t) - h, k * _LN2[0]
    head, low = fast_two_sum(f, rest)
    head, lost = fast_two_sum(whole, head)
    head = log_specials(y, head)
    product = x * head
    precise = x.fma(head, x * (low + lost))
    product = product.abs().lt(INF).where(precise, product)
    return (x.eq(0.0) & y.eq(y)).where(0.0, product)


def _log_base(x: X, scale_k: tuple[float, float], inverse: tuple[float, float]) -> X:
    """k * scale_k + log(m) * inverse with the leading parts carried exactly."""
    k, m = split_exponent(x)
    f = m - 1.0
    h, t = _log_parts(f)
    hi, lo = fast_two_sum(f, -h)
    lo = lo + t
    p, e = two_product(hi, inverse[0])
    e = e + lo.fma(inverse[0], hi * inverse[1])
    s, rest = fast_two_sum(k * scale_k[0], p)
    return log_specials(x, s + (rest + k.fma(scale_k[1], e)))


def log2(x: X) -> X:
    """Base-2 logarithm; exact at powers of two."""
    return _log_base(x, (1.0, 0.0), _LOG2_E)


def log10(x: X) -> X:
    """Base-10 logarithm."""
    return _log_base(x, _LOG10_2, _LOG10_E)


def log1p(x: X) -> X:
    """log(1 + x), accurate near 0: the rounding of 1 + x is carried as a correction."""
    u = 1.0 + x
    k, m = split_exponent(u)
    near = k.eq(0.0)
    lost = x.gt(1.0).where(1.0 - (u - x), x - (u - 1.0)) / u
    c = near.where(0.0, lost)
    f = near.where(x, m - 1.0)
    h, t = _log_parts(f)
    y = k.fma(_LN2[0], f - (h - (k.fma(_LN2[1], c) + t)))
    y = x.abs().lt(2.0**-54).where(x, y)
    return log_specials(u, y)


def log_pair(x: X) -> tuple[X, X]:
    """log x of a finite float64 x > 0 as an unevaluated sum, relative error about 2^-65."""
    k, m = split_exponent(x)
    f = m - 1.0
    d, dl = fast_two_sum(f.const(2.0), f)
    s = f / d
    sl = ((-s).fma(d, f) - s * dl) / d
    z, zl = two_product(s, s)
    zl = zl + 2.0 * s * sl
    u, ul = two_product(z, _TWO_THIRDS[0])
    ul = ul + zl.fma(_TWO_THIRDS[0], z * _TWO_THIRDS[1])
    u, rest = fast_two_sum(u, z * z * poly(z, _LOG64_TAIL))
    ul = ul + rest
    v, vl = two_product(s, u)
    vl = vl + s.fma(ul, sl * u)
    h, low = fast_two_sum(2.0 * s, v)
    low = low + (vl + 2.0 * sl)
    total, rest = fast_two_sum(k * _LN2[0], h)
    return fast_two_sum(total, rest + k.fma(_LN2[1], low))


def _exp_of_product(h: X, low: X, y: X) -> X:
    """e^(y (h + low)); y h may be infinite."""
    p, e = two_product(y, h)
    e = e + y * low
    c = _EXP64
    head, rest, n = exp_parts(clamp(p, c.lo, c.hi), p.abs().lt(800.0).where(e, 0.0))
    return scale(head + rest, n)


def pow_positive(a: X, y: X) -> X:
    """a^y for a >= 0 or NaN, in float64; 1^inf = 1."""
    h, low = log_pair(a)
    h = a.eq(0.0).where(-INF, h)
    low = a.eq(0.0).where(0.0, low)
    infinite = a.eq(INF)
    h, low = infinite.where(INF, h), infinite.where(0.0, low)
    one = a.eq(1.0)
    return one.where(1.0, _exp_of_product(h, low, y))


def power(x: X, y: X, positive: Callable[[X, X], X] = pow_positive) -> X:
    """x^y with IEEE 754 `pow` special cases."""
    r = positive(x.abs(), y)
    whole = y.call("trunc").eq(y)
    half = 0.5 * y
    odd = whole & half.call("trunc").cmp("une", half)
    negative = x.bits().cmp("slt", 0)
    r = (negative & odd).where(-r, r)
    r = (x.lt(0.0) & x.gt(-INF) & ~whole).where(NAN, r)
    r = (x.cmp("uno", y)).where(NAN, r)
    return (x.eq(1.0) | y.eq(0.0)).where(1.0, r)


def power32(x: X, y: X) -> X:
    """float32 x^y: float64 log and exp leave no error worth a second part."""
    def positive(a: X, b: X) -> X:
        wide_a, wide_b = a.to("fpext", "double"), b.to("fpext", "double")
        r = exp(wide_b * log(wide_a)).to("fptrunc", "float")
        return a.eq(1.0).where(1.0, r)

    return power(x, y, positive)


def tanh(x: X) -> X:
    """Hyperbolic tangent of a float64: h/(h+1), h = (e^2|x| - 1)/2, or 1 - 1/(h+1) from 1/2 on.

    Restore the rounding errors of h, h + 1 and the quotient, to first order.
    """
    a = x.abs()
    a = a.gt(22.0).where(22.0, a)
    h, low = fast_two_sum(*_half_expm1_parts(a + a, large=False))
    d = h + 1.0
    near = h.lt(1.0)
    lost = near.where(h - (d - 1.0), 1.0 - (d - h)) + low
    n = near.where(h, 1.0)
    q = n / d
    rest = (-q).fma(d, n) + (-q).fma(lost, near.where(low, 0.0))
    q = near.where(1.0 - q, q).fma(rest, q)
    y = near.where(q, 1.0 - q).copysign(x)
    return a.lt(2.0**-30).where(x, y)


def sigmoid(x: X) -> X:
    """1/(1 + e^-x), with e^-|x| so that neither end overflows.

    Restore the rounding error of 1 + e, to first order.
    """
    c = _table(x)
    a = x.abs()
    far = a.gt(-c.lo)
    n, r = reduce_exp(-far.where(-c.lo, a))
    e = scale(far.where(0.0, _exp_reduced(r)), n)  # 0 not by underflow: see `exp`
    d = 1.0 + e
    q = x.lt(0.0).where(e, 1.0) / d
    return q.fma((d - 1.0) - e, q)


def _hyperbolic(x: X) -> tuple[X, X, X, X, X]:
    """Parts of sinh and cosh of |x| = k ln 2 + r: (r, sinh r - r, cosh r - 1, 2^k/8, 2^-k/8).

    The last two are a quarter of what is added, so that nothing overflows before the result does.
    """
    c = _table(x)
    a = clamp(x.abs(), 0.0, c.hi + 0.5)
    n, k = round_magic(a, c.log2e)
    r0 = k.fma(-c.ln2[0], a)
    r = k.fma(-c.ln2[1], r0)
    tail = k.fma(-c.ln2[1], r0 - r)
    z = r * r
    s = (r * z).fma(poly(z, c.sinh), tail)
    t = z * poly(z, (0.5, *c.cosh))
    fmt = x.fmt
    up = power_of_two(n, x, -3)
    # 2^-k, or 0 where it is below all numbers that matter.
    minus = (fmt.bits_of(fmt.magic) + fmt.bias - 3) - n
    minus = minus.call("smax", minus.const(0))
    down = (minus << fmt.mantissa).float()
    return r, s, t, up, down


def sinh(x: X) -> X:
    """Hyperbolic sine: sinh(k ln 2) cosh r + cosh(k ln 2) sinh r, |r| <= ln(2)/2.

    Restore the rounding errors of these two.
    """
    r, s, t, up, down = _hyperbolic(x)
    sine, cosine = up - down, up + down
    lost = ((up - cosine) + down).fma(r, (up - sine) - down)
    y = 4.0 * (sine + cosine.fma(r, cosine.fma(s, sine.fma(t, lost))))
    tiny = x.abs().lt(2.0 ** -(x.fmt.mantissa // 2 + 2))
    return tiny.where(x, y.copysign(x))


def cosh(x: X) -> X:
    """Hyperbolic cosine: cosh(k ln 2) cosh r + sinh(k ln 2) sinh r, |r| <= ln(2)/2."""
    r, s, t, up, down = _hyperbolic(x)
    sine, cosine = up - down, up + down
    lost = (up - cosine) + down
    return 4.0 * (cosine + sine.fma(r, sine.fma(s, cosine.fma(t, lost))))


def asinh(x: X) -> X:
    """log1p(a + a^2/(1 + sqrt(1 + a^2))); log(2a) where a^2 would lose or overflow."""
    a = x.abs()
    big = a.gt(2.0**28)
    safe = big.where(1.0, a)
    sq = safe * safe
    t = big.where(a - 1.0, safe + sq / (1.0 + (1.0 + sq).sqrt()))
    y = (log1p(t) + big.where(a.const(0.6931471805599453), 0.0)).copysign(x)
    return a.lt(2.0**-28).where(x, y)


def acosh(x: X) -> X:
    """log1p(t + sqrt(2t + t^2)), t = x - 1; NaN below 1."""
    t = x - 1.0
    big = x.gt(2.0**28)
    safe = big.where(1.0, t)
    u = big.where(t, safe + safe.fma(safe, 2.0 * safe).sqrt())
    y = log1p(u) + big.where(x.const(0.6931471805599453), 0.0)
    return x.lt(1.0).where(NAN, y)


def atanh(x: X) -> X:
    """k ln(2)/2 + atanh(n/d), with (1 + |x|) / (1 - |x|) = 2^k (d + n) / (d - n) and |n/d| <= 1/5.

    n is exact in two parts; what d and the quotient lost is put back.
    """
    a = x.abs()
    u, v = 1.0 + a, 1.0 - a
    u_low, v_low = a - (u - 1.0), (1.0 - v) - a
    digits, bias = x.fmt.mantissa, x.fmt.bias
    k = ((u.bits() - v.bits()) + (1 << (digits - 1))) >> digits  # of the logarithm, by chords
    power = ((k + bias) << digits).float()
    k = (k | x.fmt.bits_of(2.0**digits)).float() - 2.0**digits
    v, v_low = v * power, v_low * power
    n, n_low = fast_two_sum(u - v, u_low - v_low)
    d = u + v
    d_low = (u_low + v_low) + ((u - d) + v)
    inverse = 1.0 / d
    s = n * inverse
    rest = ((-s).fma(d, n) + (n_low - s * d_low)) * inverse
    z = s * s
    rest = (s * z).fma(poly(z, _ATANH64), rest)
    head, low = fast_two_sum(k * (0.5 * _LN2[0]), s)
    y = head + (low + k.fma(0.5 * _LN2[1], rest))
    y = a.lt(1.0).where(y, a.eq(1.0).where(a.const(INF), NAN))
    return y.copysign(x)
