"""Error functions, gamma functions and cube root on lanes.

erf and erfc: minimax polynomials below 3/2, and elsewhere erfc(x) = e^(-x^2) g(x) with
(1 + 2x) g(x) a polynomial in (x - k)/(x + k) (Schonfelder 1978), x^2 carried exactly. erfinv:
a polynomial in x^2, and from 0.6 on r = sqrt(-log(1 - |x|)), as in Wichura's AS 241 (1988), plus
one in (r - k)/(r + k). lgamma: the recurrence into [5/4, 5/2] and d P(d) around its zero at 2,
Stirling's series from 15/2 up, Euler's reflection below 0 (near zeros: `gamma`). digamma likewise.
All coefficients by Remez exchange.
"""

from __future__ import annotations

from ..text import V
from .exp import INF, NAN, exp, exp_parts, log, log_parts, scale
from .gamma import DEEPEST, lgamma_reflected
from .lanes import X, fast_two_sum, poly, two_product
from .trig import cot_pi, sin_cos_pi

# erf(s)/s - 1 in s^2 on |s| <= 3/4: 2^-60.
_ERF64 = (0.1283791670955126, -0.37612638903183715, 0.11283791670952574,
          -0.02686617064442228, 0.005223977615335895, -0.0008548326182284149,
          0.00012055289271368525, -1.4924188038891398e-05, 1.6430546300518367e-06,
          -1.5938805275993718e-07, 1.1467631009824152e-08)
# erf(9/8 + s) - 0.88838... on |s| <= 3/8: 2^-59.3.
_ERF64_MIDDLE = (0.8883882164955139, (
    1.520619384883824e-08, 0.3182739585007692, -0.35805820331336624, 0.1624523329847838,
    0.027973297133972827, -0.06132368360717377, 0.015536835442960258, 0.009606894289501648,
    -0.006031260689013727, -0.000360193421735875, 0.001153264374075841,
    -0.00017693673806553034, -0.00014153336819337862, 4.932107383721023e-05,
    1.0612367802928989e-05, -7.202555975269025e-06))
# (1 + 2x) e^(x^2) erfc(x) in t = (x - 15/4)/(x + 15/4), 5/8 <= x <= 28: 2^-58.6; what
# rounding the first number lost.
_ERFCX64 = (1.2375126308378275, -0.14024059858554705, 0.0035854154854645143, 0.08227673849015674,
            -0.10880393014176926, 0.09230432115995256, -0.05869339858873227, 0.028362277426330216,
            -0.009746579575097386, 0.0017556257809809208, 0.0002937138387618677,
            -0.00029015365179733, 5.1648048781840205e-05, 2.238262017606676e-05,
            -1.1440147225945313e-05, -9.696899056833838e-07, 1.7419511677143003e-06,
            -6.283065726338504e-08, -2.440810632523291e-07, 2.7616517458507057e-08,
            2.6015645289121183e-08, -4.8593598102867854e-09)
_ERFCX64_LOW = 1.0353849129940795e-16
# erfinv(x)/x - 1 in x^2, |x| <= 0.6: 2^-59.0.
_ERFINV_NEAR = (-0.11377307454724199, 0.23201366653465177, 0.1275561753063038,
                0.08655212916880115, 0.06495962168700012, 0.05173115262628624,
                0.04283951371207215, 0.03642413488721408, 0.032137141957718024,
                0.02446604577761392, 0.04539318171339994, -0.0647357367535902,
                0.29506675332467736, -0.5985065336744362, 0.966890306441921, -0.8919994296731111,
                0.44063142832735486)
# erfinv(1 - e^(-r^2)) - r in t = (r - 2.2)/(r + 2.2), 0.957 <= r <= 6.08: 2^-58.0; what
# rounding the first number lost.
_ERFINV_FAR = (-0.32191511942810336, 0.2164668564899482, 0.17084049028133505,
               -0.21243237982140223, 0.19939492371457204, -0.09770898655681322,
               0.008112311208563549, 0.06527228127750169, -0.08372965265966774,
               0.06737812835361791, -0.02103316848518456, -0.021550736408176382,
               0.04950947617506681, -0.047741561761691954, 0.026725049223113268,
               0.005165468823377408, -0.02860724083150327, 0.037788900607209304,
               -0.026874533904362334, 0.0030103895339592926, 0.021881245607865668,
               -0.025854692118651032, 0.011784226090635702)
_ERFINV_FAR_LOW = -1.577702945881654e-17
_ERFINV_CENTRE = 2.2
# lgamma(2 + d)/d on -3/4 <= d <= 1/2: 2^-60.4.
_LGAMMA64 = (0.42278433509846713, 0.3224670334241132, -0.06735230105319809, 0.020580808427789463,
             -0.007385551028672908, 0.0028905103304338385, -0.0011927539118923793,
             0.0005096695335141694, -0.00022315475000597924, 9.945737772553596e-05,
             -4.492641202111202e-05, 2.050841716872467e-05, -9.43749750203332e-06,
             4.368633128612297e-06, -2.0523424338643305e-06, 9.721450459004994e-07,
             -3.991694222196462e-07, 1.9832930984967856e-07, -2.0252444679596467e-07,
             1.1235523259274978e-08, 6.142682058723866e-08, 7.988711375173504e-08)
# Stirling's remainder times x, in 1/x^2 for x >= 15/2: 2^-64.8.
_STIRLING64 = (0.08333333333333333, -0.002777777777777547, 0.0007936507933739116,
               -0.000595237968383283, 0.00084172215938202, -0.0019139713121459393,
               0.006161115933529331, -0.01998690750654599)
# (log x - 1/(2x) - digamma(x)) x^2 in 1/x^2 for x >= 8: 2^-62.2.
_DIGAMMA64 = (0.08333333333333333, -0.008333333333331734, 0.003968253966070115,
              -0.004166665528472756, 0.007575464837477057, -0.0210515215479298,
              0.08004478020853645, -0.29981624607309926)
_PI = 3.141592653589793


def _erfc_positive(a: X) -> X:
    """erfc of a float64 a >= 5/8; NaN stays NaN."""
    a = a.gt(28.0).where(28.0, a)
    g = poly((a - 3.75) / (a + 3.75), _ERFCX64) / a.fma(2.0, 1.0)
    hi, lo = two_product(a, a)
    e = exp(-hi)
    return g * (-e).fma(lo, e)


def erf(x: X) -> X:
    """Error function of a float64."""
    a = x.abs()
    near = x.fma(poly(x * x, _ERF64), x)
    base, slope = _ERF64_MIDDLE
    middle = base + poly(a - 1.125, slope)
    far = a.lt(1.5).where(middle, 1.0 - _erfc_positive(a))
    return a.lt(0.75).where(near, far.copysign(x))


def _erfc_exact(a: X) -> X:
    """`_erfc_positive` from 5/8 on within 0.6 ulps: what rounding each factor lost is put back."""
    a = a.gt(28.0).where(28.0, a)
    hi, lo = two_product(a, a)
    e, e_low, n = exp_parts(-hi, -lo)
    over = a + 3.75
    d, d_low = fast_two_sum(a + a, a.const(1.0))
    both = 1.0 / (over * d)
    inverse = over * both
    t = (a - 3.75) * d * both
    g, g_low = fast_two_sum(a.const(_ERFCX64[0]), t.fma(poly(t, _ERFCX64[1:]), _ERFCX64_LOW))
    y, low = two_product(g, e)
    low = low + g.fma(e_low, g_low * e)
    q = y * inverse
    return scale(((-q).fma(d, y) + (low - q * d_low)).fma(inverse, q), n)


def erfc(x: X, correct: bool = True) -> X:
    """1 - erf(x) of a float64, accurate where that is small; `correct`: within 0.6 ulps."""
    a = x.abs()
    near, low = fast_two_sum(x.const(1.0), -x)
    near = near + (low - x * poly(x * x, _ERF64))
    far = _erfc_exact(a) if correct else _erfc_positive(a)
    return a.lt(0.625).where(near, x.lt(0.0).where(2.0 - far, far))


def erfinv(x: X) -> X:
    """Inverse of erf, a float64: infinite at +-1 and NaN beyond.

    From 0.6 on near r = sqrt(-log(1 - |x|)), in two parts, as 1 - |x| is exact.
    """
    a = x.abs()
    near = x.fma(poly(x * x, _ERFINV_NEAR), x)
    w, w_low = log_parts(1.0 - a)
    r = (-w).sqrt()
    over = r + _ERFINV_CENTRE
    both = 1.0 / (r * over)
    low = ((-r).fma(r, -w) - w_low).fma(0.5 * over * both, _ERFINV_FAR_LOW)
    t = (r - _ERFINV_CENTRE) * r * both
    head, rest = fast_two_sum(r, r.const(_ERFINV_FAR[0]))
    far = head + (rest + t.fma(poly(t, _ERFINV_FAR[1:]), low))
    far = a.lt(1.0).where(far, a.eq(1.0).where(a.const(INF), NAN))
    return a.lt(0.6).where(near, far).copysign(x)


def _small_gamma(a: X) -> tuple[X, X, X]:
    """(d, q, up): lgamma(a) = d P(d) + log q, or - log q where `up`; 0 <= a < 15/2."""
    tiny, low = a.lt(0.5), a.lt(1.25)
    j = (a + 0.5).call("floor") - 2.0
    j = j.lt(0.0).where(0.0, j)
    product = a.const(1.0)
    for i in range(1, 6):
        product = j.ge(float(i)).where(product * (a - float(i)), product)
    q = tiny.where(a * (a + 1.0), low.where(a, product))
    d = tiny.where(a, low.where(a - 1.0, a - (j + 2.0)))
    return d, q, low


def lgamma(x: X, correct: bool = True) -> X:
    """log |gamma(x)| of a float64: infinite at 0, -1, -2, ... and at infinities.

    `correct`: between its zeros below -2 all lanes branch together to `lgamma_reflected`.
    """
    a = x.abs()
    large = a.ge(7.5)
    d, q, up = _small_gamma(large.where(2.0, a))
    big = large.where(a, 10.0)
    lg = log(large.where(big, q))
    u = 1.0 / big
    stirling = (big - 0.5).fma(lg - 1.0, u.fma(poly(u * u, _STIRLING64), 0.41893853320467274))
    y = large.where(stirling, d.fma(poly(d, _LGAMMA64), up.where(-lg, lg)))
    s, _ = sin_cos_pi(a)
    reflected = s.eq(0.0).where(INF, -log(a * s / _PI) - y)
    y = (x.lt(0.0) & a.gt(2.0**-60)).where(reflected, y)
    y = a.eq(INF).where(INF, y)
    if correct:
        between = x.lt(-2.0) & x.gt(-float(DEEPEST)) & s.gt(0.0)

        def exact() -> list[V]:
            return [between.where(lgamma_reflected(between.where(a, 2.25)), y).v]

        y = X(x.f, x.f.when(between.any(), exact, lambda: [y.v])[0])
    return x.isnan().where(x, y)


def digamma(x: X) -> X:
    """d/dx log gamma(x) of a float64: -inf at +0, +inf at -0, NaN at negative integers."""
    negative = x.lt(0.0)
    y = negative.where(1.0 - x, x)
    n, d = y.const(1.0), y
    for i in range(1, 8):
        step = y + float(i)
        n, d = n.fma(step, d), d * step
    low = y.lt(8.0)
    z = low.where(y + 8.0, y)
    u = 1.0 / z
    square = u * u
    r = log(z) - (0.5 * u + square * poly(square, _DIGAMMA64))
    r = r - low.where(n / d, 0.0)
    whole = negative & x.call("trunc").eq(x)
    r = negative.where(r - cot_pi(negative.where(x, 0.25)) * _PI, r)
    return whole.where(NAN, r)


def cbrt(x: X) -> X:
    """Cube root of a float64: an exponent-thirded start, two Halley steps, one Newton step."""
    a = x.abs()
    tiny, huge = a.lt(2.0**-1000), a.gt(2.0**1000)
    a = a * tiny.where(2.0**54, huge.where(a.const(2.0**-54), 1.0))
    high = (a.bits() >> 32).to("trunc", "i32").to("sitofp", "double")
    thirds = high.fma(1.0 / 3.0, 715094163.0)
    bits = (thirds.call("floor") + 2.0**52).bits() << 32
    t = bits.float()
    for _ in range(2):
        c = t * t * t
        t = t * ((c + a + a) / (c + c + a))
    t2 = t * t
    rest = t2.fma(-t, a) - t * t.fma(t, -t2)
    t = t + rest / (3.0 * t2)
    y = (t * tiny.where(2.0**-18, huge.where(t.const(2.0**18), 1.0))).copysign(x)
    return (x.eq(0.0) | x.abs().cmp("ueq", INF)).where(x, y)
