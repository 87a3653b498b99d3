"""log |gamma| of negative float64s between its zeros: absolute errors of 2^-62 at most.

Below -2 there is a zero on each side of every integer, where Euler's reflection
log(pi / (a |sin(pi a)| gamma(a))), a = -x, is a difference of logarithms that are nearly equal.
There all of a gamma(a) |sin(pi a)| / pi is an unevaluated sum of two numbers (Dekker 1971): the
product of the recurrence from a down to 2 + d, |d| <= 1/2, sine or cosine by their series, and
lgamma(2 + d) as d P(d), whose first coefficients have two parts. From 24 on zeros are nearer to
integers than numbers are.
"""

from __future__ import annotations

import math

from .exp import log_pair
from .lanes import X, fast_two_sum, poly, two_product, two_sum

DEEPEST = 24
_PI = (3.141592653589793, 1.2246467991473532e-16)
_INVERSE_PI = (0.3183098861837907, -1.9678676675182486e-17)
_SIXTH = (0.16666666666666666, 9.25185853854297e-18)
_TWENTY_FOURTH = (0.041666666666666664, 2.3129646346357427e-18)
_SINE_REST = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(2, 10))
_COSINE_REST = tuple((-1) ** k / math.factorial(2 * k) for k in range(3, 11))
# lgamma(2 + d)/d on |d| <= 1/2, by Remez exchange: 2^-73; what rounding the first ones lost.
_LGAMMA = (0.42278433509846713, 0.3224670334241132, -0.0673523010531981, 0.020580808427784546,
           -0.0073855510286739805, 0.0028905103307416916, -0.0011927539117035824,
           0.0005096695247350056, -0.00022315475844202054, 9.945751299500351e-05,
           -4.4926236984241655e-05, 2.0507209325828855e-05, -9.439484945986319e-06,
           4.374902559123147e-06, -2.0392454309678856e-06, 9.548989792947524e-07,
           -4.4907058326291027e-07, 2.131347843874368e-07, -1.01121592489113e-07,
           4.4805361957592196e-08, -2.1020547384134313e-08, 1.5188092971518567e-08,
           -7.491325060249057e-09)
_LGAMMA_LOW = (4.942939898784556e-18, 1.520798343941561e-17, 6.850388490421024e-18,
               -1.5928862245816176e-19, -1.5973342993134124e-19, -2.0449736179460606e-19,
               6.22218788242602e-20)


def _times(h: X, low: X, c: tuple[float, float]) -> tuple[X, X]:
    """A sum of two times a constant in two parts."""
    p, e = two_product(h, c[0])
    return p, e + low.fma(c[0], h * c[1])


def _falling(a: X, n: X) -> tuple[X, X]:
    """a (a - 1) ... (a - n + 2): n - 1 factors, each exact."""
    h, low = a, a.const(0.0)
    for i in range(1, DEEPEST - 1):
        factor = n.ge(i + 2.0).where(a - float(i), 1.0)
        p, e = two_product(h, factor)
        h, low = p, low.fma(factor, e)
    return h, low


def _sine(u: X) -> tuple[X, X]:
    """sin(pi u) for 0 <= u <= 1/2."""
    upper = u.gt(0.25)
    v = upper.where(0.5 - u, u)
    r = v * _PI[0]
    tail = v.fma(_PI[0], -r) + v * _PI[1]
    z, z_low = two_product(r, r)
    z_low = z_low + (r + r) * tail
    cube, cube_low = two_product(z, r)
    m, m_low = _times(cube, z_low.fma(r, z.fma(tail, cube_low)), _SIXTH)
    s, s_low = fast_two_sum(r, -m)
    s_low = s_low + (tail - m_low + cube * z * poly(z, _SINE_REST))
    square, square_low = two_product(z, z)
    q, q_low = _times(square, (z + z).fma(z_low, square_low), _TWENTY_FOURTH)
    c, c_low = fast_two_sum(z.const(1.0), -0.5 * z)
    c, lost = fast_two_sum(c, q)
    c_low = c_low + (lost + q_low + z_low.fma(-0.5, square * z * poly(z, _COSINE_REST)))
    return fast_two_sum(upper.where(c, s), upper.where(c_low, s_low))


def _lgamma_at_two(d: X) -> tuple[X, X]:
    """lgamma(2 + d) for |d| <= 1/2."""
    first = len(_LGAMMA_LOW)
    h, low = poly(d, _LGAMMA[first:]), d.const(0.0)
    for c, c_low in zip(reversed(_LGAMMA[:first]), reversed(_LGAMMA_LOW), strict=True):
        p, e = two_product(h, d)
        h, lost = fast_two_sum(p.const(c), p)
        low = low.fma(d, e) + (lost + c_low)
    p, e = two_product(h, d)
    return p, low.fma(d, e)


def lgamma_reflected(a: X) -> X:
    """lgamma(-a) of numbers a that are not whole, 2 < a < 24."""
    n = a.call("roundeven")
    d = a - n
    product, product_low = _falling(a, n)
    s, s_low = _sine(d.abs())
    m, m_low = two_product(product, s)
    m, m_low = _times(m, m_low + product.fma(s_low, product_low * s), _INVERSE_PI)
    log, log_low = log_pair(m)
    y, y_low = _lgamma_at_two(d)
    total, lost = two_sum(log, y)
    return -(total + (lost + (log_low + y_low) + m_low / m))
