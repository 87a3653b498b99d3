"""Trigonometric functions and their inverses on lanes.

sin, cos and tan subtract multiples of pi/2 held in three parts (Cody & Waite 1980, exact first
step through a fused multiply-add) and keep the reduced argument in two parts. Arguments beyond
2^30 are reduced by Payne & Hanek's method (1983) with bits of 2/pi from a table; that code is
entered only where some lane needs it, and gives each lane the same value either way.
Inverse functions reduce as fdlibm does and use minimax polynomials (Remez exchange).
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

from ..text import Function, V, lanes_of
from .lanes import X, fast_two_sum, poly, two_product, two_sum

# (sin(s) - s)/s^3 in s^2 and (cos(s) - 1 + s^2/2)/s^4 in s^2 on |s| <= pi/4: 2^-58, 2^-64.
_SIN64 = (-0.16666666666666632, 0.008333333333322316, -0.0001984126982972523,
          2.7557313662068097e-06, -2.5050753266398983e-08, 1.5896505065155998e-10)
_COS64 = (0.0416666666666666, -0.001388888888887411, 2.480158728945944e-05,
          -2.7557314342572336e-07, 2.08757215896758e-09, -1.135954492478026e-11)
# (atan(t) - t)/t^3 in t^2 on |t| <= 7/16: 2^-57.7.
_ATAN64 = (-0.3333333333333293, 0.19999999999876159, -0.14285714272480451,
           0.11111110404603634, -0.09090887114356147, 0.07691875936426051,
           -0.0666107067822391, 0.05833555530441064, -0.04976823732542809,
           0.03653042632056372, -0.016284768940441185)
# (asin(s) - s)/s^3 in s^2 on |s| <= 1/2: 2^-59.8.
_ASIN64 = (0.16666666666666763, 0.07499999999970261, 0.044642857175121585,
           0.030381942683586367, 0.02237221566102323, 0.017351600080945,
           0.013980961563664792, 0.011397775177822792, 0.010786533164679427,
           0.0036830275740623005, 0.021763532260692255, -0.021077337022671675,
           0.03267691673639943)
INF = float("inf")
_PI_2 = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
_PI = (3.141592653589793, 1.2246467991473532e-16)
_TWO_OVER_PI = 0.6366197723675814
_DIRECT = 2.0**30
_STEP = 16
"""Exponent steps of the 2/pi table: entry i serves arguments that are multiples of 2^(16 i)."""


def _reduce_direct(x: X) -> tuple[X, X, X]:
    """(quadrant bits, r, tail) with x = q pi/2 + r + tail for |x| <= 2^30."""
    magic = x.fmt.magic
    t = x.fma(_TWO_OVER_PI, magic)
    k = t - magic
    r = k.fma(-_PI_2[0], x)
    w = k.fma(-_PI_2[1], r)
    tail = k.fma(-_PI_2[1], r - w)
    return t.bits(), w, k.fma(-_PI_2[2], tail)


def _arctan_inverse(n: int, scale: int) -> int:
    """atan(1/n) * scale by its series, in integers."""
    total, term, k = 0, scale // n, 1
    while term:
        total += term // k if k % 4 == 1 else -(term // k)
        term //= n * n
        k += 2
    return total


@cache
def _two_over_pi_table() -> tuple[float, ...]:
    """For i = 0..60 four doubles whose sum is (2^(16 i) * 2/pi) mod 4, to 200 bits."""
    bits = 1400
    guard = 1 << (bits + 64)
    pi = 4 * (4 * _arctan_inverse(5, guard) - _arctan_inverse(239, guard))  # Machin 1706
    two_over_pi = (guard << (bits + 1)) // pi
    out: list[float] = []
    for i in range((1023 - 52) // _STEP + 1):
        rest = Fraction((two_over_pi << (_STEP * i)) % (4 << bits), 1 << bits)
        for _ in range(4):
            part = float(rest)
            out.append(part)
            rest -= Fraction(part)
    return tuple(out)


def _gather(f: Function, table: V, index: X, part: int) -> X:
    """Element `index + part` of a table of doubles, per lane."""
    n = lanes_of(index.v.ty)
    base = f.gep(table, part, "double")
    if n == 1:
        return X(f, f.load("double", f.gep(base, index.v, "double")))
    ptrs = f.emit(f"<{n} x ptr>", f"getelementptr double, {base}, {index.v}")
    mask = V(f"<{n} x i1>", "splat (i1 true)")
    return X(f, f.gather(f"<{n} x double>", ptrs, mask))


def _mod4(x: X) -> X:
    """x minus the nearest multiple of 4, exact."""
    return (0.25 * x).call("roundeven").fma(-4.0, x)


def _reduce_table(x: X) -> tuple[X, X, X]:
    """As `_reduce_direct`, for every finite |x| >= 1 (Payne & Hanek)."""
    table = x.f.constant_table("cellc_two_over_pi", "double", _two_over_pi_table())
    e = (x.bits() >> 52) & 2047
    far = e.cmp("uge", 1023 + 52)
    step = far.where((e - (1023 + 52)) >> 4, 0)
    index = step << 2
    near = x * ((1023 - (step << 4)) << 52).float()
    parts = [_gather(x.f, table, index, p) for p in range(4)]
    h0, l0 = two_product(near, parts[0])
    h1, l1 = two_product(near, parts[1])
    h2, l2 = two_product(near, parts[2])
    a, b = two_sum(_mod4(h0), _mod4(l0))
    a, b2 = two_sum(a, _mod4(h1))
    k = a.call("roundeven")
    b, d1 = two_sum(b, b2)
    c, d2 = two_sum(l1, h2)
    c, d3 = two_sum(b, c)
    s, t = two_sum(a - k, c)
    s, t = fast_two_sum(s, t + (d1 + d2 + d3 + near.fma(parts[3], l2)))
    r, tail = two_product(s, _PI_2[0])
    return (k + x.fmt.magic).bits(), r, tail + s.fma(_PI_2[1], t * _PI_2[0])


def _reduce(x: X) -> tuple[X, X, X]:
    """(quadrant bits, r, tail) of a float64; NaN in r for NaN and infinities."""
    q, r, tail = _reduce_direct(x)
    big = x.abs().gt(_DIRECT)

    def table() -> list[V]:
        values = _reduce_table(big.where(x, 1.0))
        return [big.where(new, old).v for new, old in zip(values, (q, r, tail), strict=True)]

    merged = x.f.when(big.any(), table, lambda: [q.v, r.v, tail.v])
    q, r, tail = (X(x.f, v) for v in merged)
    return q, x.abs().lt(float("inf")).where(r, float("nan")), tail


def _sin_parts(r: X, tail: X, z: X) -> tuple[X, X]:
    """sin(r + tail) as a sum whose second part is the smaller one; z = r^2."""
    return r, (z * r).fma(poly(z, _SIN64), z.fma(-0.5, 1.0) * tail)


def _cos_parts(r: X, tail: X, z: X) -> tuple[X, X]:
    """cos(r + tail) in the same way."""
    half = 0.5 * z
    w = 1.0 - half
    return w, ((1.0 - w) - half) + (z * z).fma(poly(z, _COS64), -(r * tail))


def _sin_core(r: X, tail: X, z: X) -> X:
    big, small = _sin_parts(r, tail, z)
    return big + small


def _cos_core(r: X, tail: X, z: X) -> X:
    big, small = _cos_parts(r, tail, z)
    return big + small


def _sin_cos(x: X) -> tuple[X, X, X]:
    """(quadrant bits, sin r, cos r)."""
    q, r, tail = _reduce(x)
    z = r * r
    return q, _sin_core(r, tail, z), _cos_core(r, tail, z)


def _quadrant(q: X, s: X, c: X) -> X:
    """sin(q pi/2 + r) from sin r and cos r."""
    y = (q & 1).cmp("ne", 0).where(c, s)
    return (y.bits() ^ ((q & 2) << 62)).float()


def sin(x: X) -> X:
    """Sine of a float64."""
    y = _quadrant(*_sin_cos(x))
    return x.abs().lt(2.0**-27).where(x, y)


def cos(x: X) -> X:
    """Cosine of a float64."""
    q, s, c = _sin_cos(x)
    return _quadrant(q + 1, s, c)


def tan(x: X, correct: bool = True) -> X:
    """Tangent of a float64; `correct`: what rounding sine, cosine and quotient lost is put back."""
    q, r, tail = _reduce(x)
    z = r * r
    w, small = _cos_parts(r, tail, z)
    if correct:
        small = r.fma(r, -z).fma(-0.5, small)
    s, c = fast_two_sum(*_sin_parts(r, tail, z)), fast_two_sum(w, small)
    odd = (q & 1).cmp("ne", 0)
    n, n_low = (odd.where(-b, a) for a, b in zip(s, c, strict=True))
    d, d_low = (odd.where(a, b) for a, b in zip(s, c, strict=True))
    if correct:
        inverse = 1.0 / d
        y = n * inverse
        y = ((-y).fma(d, n) + (-y).fma(d_low, n_low)).fma(inverse, y)
    else:
        y = n / d
    return x.abs().lt(2.0**-27).where(x, y)


def sin_cos_pi(x: X) -> tuple[X, X]:
    """(|sin(pi x)|, pi x reduced's cosine over sine sign kept) see `cot_pi`; |r| <= 1/2."""
    r = x - x.call("roundeven")
    t = r.abs()
    upper = t.gt(0.25)
    u = upper.where(0.5 - t, t)
    a = u * _PI[0]
    tail = u.fma(_PI[0], -a) + u * _PI[1]
    z = a * a
    s, c = _sin_core(a, tail, z), _cos_core(a, tail, z)
    return upper.where(c, s), upper.where(s, c).copysign(r)


def cot_pi(x: X) -> X:
    """1/tan(pi x); infinite at integers."""
    s, c = sin_cos_pi(x)
    return c / s


# atan(b) for b = 0, 1/2, 1, 3/2, infinity and its rounding error.
_ATAN_BASE = ((0.0, 0.0), (0.4636476090008061, 2.2698777452961687e-17),
              (0.7853981633974483, 3.061616997868383e-17),
              (0.982793723247329, 1.3903311031230998e-17), _PI_2[:2])
# (t = (p a + q)/(r a + s)) of each interval, and where it begins.
_ATAN_MAP = ((1.0, 0.0, 0.0, 1.0), (2.0, -1.0, 1.0, 2.0), (1.0, -1.0, 1.0, 1.0),
             (1.0, -1.5, 1.5, 1.0), (0.0, -1.0, 1.0, 0.0))
_ATAN_FROM = (0.4375, 0.6875, 1.1875, 2.4375)


def _atan_positive(a: X) -> tuple[X, X]:
    """atan of a >= 0 as an unevaluated sum; NaN stays NaN."""
    coefficients: list[X] = []
    rows = [(*m, *b) for m, b in zip(_ATAN_MAP, _ATAN_BASE, strict=True)]
    tests = [a.ge(x) for x in _ATAN_FROM]
    for column in range(6):
        c = a.const(rows[0][column])
        for test, row in zip(tests, rows[1:], strict=True):
            c = test.where(row[column], c)
        coefficients.append(c)
    p, q, r, s, hi, lo = coefficients
    finite = a.eq(float("inf")).where(2.0**1000, a)
    t = finite.fma(p, q) / finite.fma(r, s)
    z = t * t
    y = (z * t).fma(poly(z, _ATAN64), lo)
    return fast_two_sum_any(hi, t, y)


def fast_two_sum_any(hi: X, t: X, y: X) -> tuple[X, X]:
    """hi + t + y as an unevaluated sum, for hi = 0 or |hi| >= |t|."""
    s, e = fast_two_sum(hi, t)
    return s, e + y


def atan(x: X) -> X:
    """Arc tangent of a float64."""
    s, e = _atan_positive(x.abs())
    return (s + e).copysign(x)


def atan2(y: X, x: X) -> X:
    """Angle of (x, y) in (-pi, pi], with IEEE 754 signed zeros and infinities.

    Of the smaller over the larger of |x| and |y|, reduced to t = n / d as `atan` reduces it: n is
    exact, and what d and the quotient lost is put back. The angle is m pi/2 +- (base + atan t).
    """
    a, b = y.abs(), x.abs()
    up, beside = a.eq(INF), b.eq(INF)
    a, b = up.where(1.0, beside.where(0.0, a)), beside.where(1.0, up.where(0.0, b))
    steep = a.gt(b)
    low, high = steep.where(b, a), steep.where(a, b)
    high = high.eq(0.0).where(1.0, high)
    # Nothing overflows, and remainders are no subnormal numbers.
    unit = high.gt(2.0**900).where(high.const(2.0**-4), 2.0**100)
    low, high = low * unit, high * unit
    half, whole = low.ge(0.4375 * high), low.ge(0.6875 * high)
    n = (half & ~whole).where(low + low, low) - half.where(high, 0.0)
    d, lost = fast_two_sum((half & ~whole).where(high + high, high), half.where(low, 0.0))
    inverse = 1.0 / d
    t = n * inverse
    rest = ((-t).fma(d, n) - t * lost) * inverse
    z = t * t
    rest = (z * t).fma(poly(z, _ATAN64), (-z).fma(rest, rest))
    left = x.bits().cmp("slt", 0)
    minus = left.cmp("ne", steep)
    turn, turn_low = (steep.where(c, left.where(x.const(2 * c), 0.0)) for c in _PI_2[:2])
    base, base_low = (whole.where(x.const(one), half.where(x.const(other), 0.0))
                      for one, other in zip(_ATAN_BASE[2], _ATAN_BASE[1], strict=True))
    base, base_low, t, rest = (minus.where(-v, v) for v in (base, base_low, t, rest))
    s, e = fast_two_sum(turn, base)
    s, e2 = fast_two_sum(s, t)
    angle = s + (e + e2 + (turn_low + base_low) + rest)
    return x.cmp("uno", y).where(float("nan"), angle.copysign(y))


def _asin_parts(x: X) -> tuple[X, X, X, X]:
    """(|x| > 1/2, s, p, c): asin of the reduced s is s + p, and c corrects s = sqrt(z)."""
    a = x.abs()
    big = a.gt(0.5)
    z = big.where((1.0 - a) * 0.5, a * a)
    root = z.sqrt()
    s = big.where(root, a)
    p = s * z * poly(z, _ASIN64)
    c = (-root).fma(root, z) / (root + root)
    return big, s, p, (big & root.gt(0.0)).where(c, 0.0)


def _minus_twice(whole: tuple[float, float], s: X, rest: X) -> X:
    """whole - 2 (s + rest), rounded about once."""
    h = whole[0] - (s + s)
    return h + ((whole[0] - h - (s + s)) + (whole[1] - (rest + rest)))


def asin(x: X) -> X:
    """Arc sine of a float64; NaN outside [-1, 1]."""
    big, s, p, c = _asin_parts(x)
    return big.where(_minus_twice(_PI_2[:2], s, p + c), s + p).copysign(x)


def acos(x: X) -> X:
    """Arc cosine of a float64; NaN outside [-1, 1]."""
    big, s, p, c = _asin_parts(x)
    rest = p + c
    far = x.lt(0.0).where(_minus_twice(_PI, s, rest), 2.0 * (s + rest))
    u = s.copysign(x)
    near = _PI_2[0] - (u - (_PI_2[1] - rest.copysign(x)))
    return big.where(far, near)
