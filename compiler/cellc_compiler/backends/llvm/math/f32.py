"""float32 sin, cos, tanh and erf in float32 arithmetic: the ones networks call most.

Where float64 (`math_trig`, `math_special`) would give half an ulp at three times the cost,
these stay within one ulp: a three-part Cody & Waite reduction up to 2^17 that keeps the reduced
argument in two parts (larger arguments branch, all lanes together, to the float64 code), and erf
as a polynomial near 0 and 1 - e^-Q(|x|) beyond. Coefficients by Remez exchange.
"""

from __future__ import annotations

from collections.abc import Callable

from ..text import V
from . import trig
from .exp import power_of_two, round_magic
from .lanes import X, poly

# (sin(s) - s)/s^3 and (cos(s) - 1 + s^2/2)/s^4 in s^2 on |s| <= pi/4: 2^-28, 2^-33.
_SIN = (-0.16666654873492875, 0.00833217354468561, -0.0001951665605049932)
_COS = (0.04166664677291783, -0.0013887362478167812, 2.4437831913659634e-05)
_PI_2 = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
_TWO_OVER_PI = 0.6366197466850281
_LIMIT = 2.0**17
# erf(s)/s - 1 in s^2 on |s| <= 0.9.
_ERF = (0.12837916680250433, -0.37612635311297193, 0.11283719732076836,
        -0.02686075312392207, 0.005204436472577092, -0.0008181929583122457,
        8.538839889336253e-05)
# -log(erfc(s))/s on 0.86 <= s <= 4, weighted by s erfc/erf.
_ERF_TAIL = (1.1285022622721383, 0.6358862245576533, 0.1046693425709727,
             -0.021913874304305046, 0.0023295558453726834, 0.0002499872582499698,
             -0.00013767673930854092, 2.087717987606645e-05, -1.1872329343855028e-06)
# ln 2 with 15 leading bits: its product with a k of up to 9 bits is exact.
_LN2 = (0.693145751953125, 1.4286068203094173e-06)
_LOG2_E = 1.4426950216293335
# (tanh(s) - s)/s^3 in s^2 on |s| <= 0.92: 2^-25.7.
_TANH = (-0.3333329023621726, 0.13332222529143112, -0.05387060856384619,
         0.02145562786241225, -0.007894155866471545, 0.002259195103519121,
         -0.00034522024929609357)
_TANH_NEAR = 0.95
_EXP = (1.0, 1.0, 0.4999999305053655, 0.1666651479073386, 0.041668456804036066,
        0.008369418897729691, 0.0013813144483353665)
# (e^2r - 1)/r, from the same fit: powers of 2 change no rounding.
_EXPM1_TWICE = tuple(c * 2.0**i for i, c in enumerate(_EXP))[1:]


def _sine(x: X, quarter: int, wide: Callable[[X], X]) -> X:
    """sin(x + quarter pi/2); `wide` is the float64 function for large arguments."""
    t = x.fma(_TWO_OVER_PI, x.fmt.magic)
    k = t - x.fmt.magic
    near = k.fma(-_PI_2[0], x)  # exact: a multiple of x's last place, and less than 1
    p = k * -_PI_2[1]
    r = near + p
    tail = k.fma(-_PI_2[2], (near - r) + p + k.fma(-_PI_2[1], -p))
    z = r.fma(r, (r + r) * tail)
    s = r + (z * r).fma(poly(z, _SIN), tail)
    c = poly(z, (1.0, -0.5, *_COS))
    q = t.bits() + quarter if quarter else t.bits()
    y = (q & 1).cmp("ne", 0).where(c, s)
    y = (y.bits() ^ ((q & 2) << 30)).float()
    big = x.abs().gt(_LIMIT)

    def large() -> list[V]:
        exact = wide(x.to("fpext", "double")).to("fptrunc", "float")
        return [big.where(exact, y).v]

    return X(x.f, x.f.when(big.any(), large, lambda: [y.v])[0])


def sin(x: X) -> X:
    """Sine of a float32."""
    return x.abs().lt(2.0**-12).where(x, _sine(x, 0, trig.sin))


def cos(x: X) -> X:
    """Cosine of a float32."""
    return _sine(x, 1, trig.cos)


def erf(x: X) -> X:
    """Error function of a float32."""
    a = x.abs()
    near = x.fma(poly(x * x, _ERF), x)
    b = a.gt(4.0).where(4.0, a)
    p = poly(b, _ERF_TAIL)
    n, k = round_magic(b * p, -_LOG2_E)
    # b p enters the reduced argument unrounded: at 2 its rounding would be a quarter ulp.
    r = k.fma(-_LN2[1], b.fma(-p, k * -_LN2[0]))
    far = (-power_of_two(n, x)).fma(poly(r, _EXP), 1.0)
    return a.lt(0.88).where(near, far.copysign(x))


def tanh(x: X) -> X:
    """Hyperbolic tangent of a float32: x + x^3 P(x^2), then 1 - 2/(e^2|x| + 1).

    The reduced argument is half of that of e^2|x|, so no factor rounds; the 1 of e^r = 1 + m is
    added to the power of two, exactly.
    """
    a = x.abs()
    z = x * x
    near = (z * x).fma(poly(z, _TANH), x)
    b = a.gt(10.0).where(10.0, a)
    n, k = round_magic(b, 2 * _LOG2_E)
    r = k.fma(-0.5 * _LN2[1], k.fma(-0.5 * _LN2[0], b))
    m = r * poly(r, _EXPM1_TWICE)
    s = power_of_two(n, x, -1)
    far = 1.0 - 1.0 / s.fma(m, s + 0.5)
    return a.lt(_TANH_NEAR).where(near, far).copysign(x)
