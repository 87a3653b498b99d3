"""Functions of float32 for results that are rounded to 16 bits, directly or after further ops.

A composition of 16-bit floats that is computed in float32 needs only a few bits more than its
result keeps, but float32's range: `exp` of a masked score is 0, `sigmoid` of -100 is not. No
divisions: a reciprocal starts from the number's bits, subtracted from a constant, which is right
but for a factor of 0.71 to 0.73, and a polynomial of the product of both removes that. e^0 is 1: so
the logarithm of a softmax near 0 keeps its digits. All machines do the same operations.
Coefficients by Remez exchange (`tests/codegen/minimax.py`).

Largest relative errors, as powers of two, of results that are normal float32 numbers (of
`normal_cdf` in float16 from -5.85 on, of slopes up to 64 and 32):

              exp  sigmoid slope softplus normal_cdf pdf  gelu_slope mish_gate slope
    float16  -17.9  -17.8  -17.6  -16.4     -16.9   -17.0    -14.9     -18.0   -17.0
    bfloat16 -13.2  -12.2  -11.6  -12.6     -11.7   -13.2    -11.1     -12.2   -11.2

The slope of gelu at -a is Phi(-a) - a phi(a); it has a zero a0, where these would cancel, and is
(a0 - a) times a power of 2 whose exponent is a polynomial of a. At a it is 1 minus that.
"""

from __future__ import annotations

from collections.abc import Callable

from cellc_runtime.records import dataclass

from .lanes import F32, X, poly

_LOG2_E = 1.4426950408889634
_RECIPROCAL_BITS = 0x7EB50000  # Minus a number's bits: those of something near 0.72 over the number
_FAR = 32  # Where results reach beyond 2^-126, powers are this many binary digits up


@dataclass(frozen=True, slots=True)
class _Fits:
    """Polynomials: 2^r on |r| <= 1/2, the same with a term more, 1/t on [0.707, 0.729], log(1 +
    e)/e on [0, 1], and the binary logarithms of the normal distribution at -a, up to `tail`, and of
    the slope of gelu at -a over a0 - a, up to `slope_tail`. Factors of a sum that has a zero
    (slopes of silu and mish) are exact to the term more there."""

    exp2: tuple[float, ...]
    exp2_more: tuple[float, ...]
    reciprocal: tuple[float, ...]
    log1p: tuple[float, ...]
    normal: tuple[float, ...]
    tail: float
    gelu_slope: tuple[float, ...]
    slope_tail: float


_GELU_LEAST = (0.7517915368080139, -1.211444988769017e-08)
"""Where the slope of gelu is 0, times -1, in two parts."""
_EXP2_16 = (1.0, 0.6931242001723151, 0.24024099156082002, 0.05590643832394738, 0.009582858411872395)
_FITS = {
    "float16": _Fits(
        _EXP2_16, (1.0, 0.6931469777525058, 0.24022242019374473, 0.055507340805447135,
                   0.009671517567993615, 0.0013264583001005308),
        (4.1801365991242845, -5.824188551087093, 2.7047981524501155),
        (0.9999916041514652, -0.49936140912917004, 0.3252062803156646, -0.21004643518535382,
         0.10121892606111561, -0.02386760521251656),
        (-0.9999953153832044, -1.1512505701254228, -0.45846606804823703, -0.05395785329647484,
         0.008506522000931476, -0.0009300999933603616, 6.153417075861878e-05,
         -1.831073253952765e-06), 5.85,
        (-0.5884493867129809, -0.3821762532197203, -0.5644242092684166, -0.04960004455834685,
         0.011252774072494571, -0.0016718312156219985, 0.00014276563135554116,
         -5.253366702812882e-06), 6.1),
    "bfloat16": _Fits(
        (1.0, 0.6932826079528153, 0.2422112414136828, 0.05501039579786092), _EXP2_16,
        (2.786757664929472, -1.94128767044133),
        (0.9999433271938714, -0.49697847992066907, 0.30630346864741625, -0.15743109925193982,
         0.04134924648704909),
        (-1.0002866309567326, -1.147927096484913, -0.46473359156211624, -0.04951286027636019,
         0.007005702677272305, -0.0006727846050991333, 4.086161783885343e-05,
         -1.4041436726862143e-06, 2.0702808787223053e-08), 14.25,
        (-0.5889268897396801, -0.37563154014255196, -0.5787791404927611, -0.037868225946087145,
         0.006677703378517569, -0.0007520722838777687, 5.153307683251157e-05,
         -1.9480843391412843e-06, 3.106716442288332e-08), 13.9),
}


def _clamp(x: X, low: float, high: float) -> X:
    return x.call("maximum", x.const(low)).call("minimum", x.const(high))


def _power(x: X, factor: float, exp2: tuple[float, ...], up: int = 0) -> X:
    """2^(factor x + up); 0 where the exponent rounds to -127."""
    # The exponent's bits are the lowest ones of t, and a shift drops the others.
    magic = F32.magic + (F32.bias + up)
    t = x.fma(factor, magic)
    y = poly(x.fma(factor, -(t - magic)), exp2)
    return y * (t.bits() << F32.mantissa).float()


def _reciprocal(d: X, fits: _Fits) -> X:
    """1/d of a number from 2^-126 to 2^126."""
    start = (_RECIPROCAL_BITS - d.bits()).float()
    return start * poly(d * start, fits.reciprocal)


def _exp(x: X, fits: _Fits) -> X:
    return _power(_clamp(x, -88.0, 89.0), _LOG2_E, fits.exp2)


def _logistic(x: X, fits: _Fits) -> tuple[X, X, X]:
    """s = 1/(1 + e), 2^32 s and 2^-32 e, e = e^-x."""
    e = _power(_clamp(x, -109.0, 64.0), -_LOG2_E, fits.exp2, -_FAR)
    r = _reciprocal(e + 2.0**-_FAR, fits)
    return r * 2.0**-_FAR, r, e


def _sigmoid(x: X, fits: _Fits) -> X:
    return _logistic(x, fits)[0]


def _sigmoid_slope(x: X, fits: _Fits) -> X:
    # 1 - s is e s: near 1 a difference would keep nothing of it.
    s, r, e = _logistic(x, fits)
    return s * (e * r)


def _silu_slope(x: X, fits: _Fits) -> X:
    # At -a it is e (1 + e - a)/(1 + e)^2, e = e^-a, and at a 1 minus that. The sum has a zero.
    a = x.abs().call("minimum", x.const(110.0))
    e = _power(a, -_LOG2_E, fits.exp2_more, _FAR)
    small = e * 2.0**-_FAR
    r = _reciprocal(small + 1.0, fits)
    s = (e * r) * (((1.0 - a) + small) * r) * 2.0**-_FAR
    return x.lt(0.0).where(s, 1.0 - s)


def _softplus(x: X, fits: _Fits) -> X:
    e = _power((-x.abs()).call("maximum", x.const(-110.0)), _LOG2_E, fits.exp2, _FAR) * 2.0**-_FAR
    return e.fma(poly(e, fits.log1p), x.lt(0.0).where(0.0, x))


def _normal_cdf(x: X, fits: _Fits) -> X:
    a = x.abs()
    p = _power(poly(a, fits.normal), 1.0, fits.exp2, _FAR) * 2.0**-_FAR
    p = a.gt(fits.tail).where(0.0, p)
    return x.lt(0.0).where(p, 1.0 - p)


def _normal_pdf(x: X, fits: _Fits) -> X:
    exp2 = tuple(c * 0.3989422804014327 for c in fits.exp2)
    return _power((x * x).call("minimum", x.const(176.0)), -0.5 * _LOG2_E, exp2)


def _gelu_slope(x: X, fits: _Fits) -> X:
    a = x.abs()
    scale = _power(poly(a, fits.gelu_slope), 1.0, fits.exp2, _FAR)
    s = ((_GELU_LEAST[0] - a) + _GELU_LEAST[1]) * scale * 2.0**-_FAR
    s = a.gt(fits.slope_tail).where(0.0, s)
    return x.lt(0.0).where(s, 1.0 - s)


def _mish_parts(x: X, fits: _Fits) -> tuple[X, X, X]:
    """e and n = e^2 + 2e, both times 2^32, and 1/(n + 2), e = e^x: the gate is n/(n + 2)."""
    e = _power(_clamp(x, -110.0, 32.0), _LOG2_E, fits.exp2, _FAR)
    n = e * e.fma(2.0**-_FAR, 2.0)
    return e, n, _reciprocal(n.fma(2.0**-_FAR, 2.0), fits)


def _mish_gate(x: X, fits: _Fits) -> X:
    _, n, r = _mish_parts(x, fits)
    return n * r * 2.0**-_FAR


def _mish_slope(x: X, fits: _Fits) -> X:
    """4 e (1 + e)/(n + 2)^2."""
    e, _, r = _mish_parts(x, fits)
    return (e * r) * (e.fma(2.0**-_FAR, 1.0) * r) * 2.0**(2 - _FAR)


def _mish_derivative(x: X, fits: _Fits) -> X:
    """e (e^3 + 4 e^2 + (4x + 6) e + 4x + 4)/(n + 2)^2, of which the sum has a zero."""
    x = _clamp(x, -110.0, 16.0)
    far = _power(x, _LOG2_E, fits.exp2_more, _FAR)
    e = far * 2.0**-_FAR
    r = _reciprocal(e.fma(e + 2.0, 2.0), fits)
    total = e.fma(e.fma(e + 4.0, x.fma(4.0, 6.0)), x.fma(4.0, 4.0))
    return (far * r) * (total * r) * 2.0**-_FAR


_RULES: dict[str, Callable[[X, _Fits], X]] = {
    "exp": _exp, "sigmoid": _sigmoid, "sigmoid_slope": _sigmoid_slope,
    "silu_slope": _silu_slope, "softplus": _softplus,
    "normal_cdf": _normal_cdf, "normal_pdf": _normal_pdf, "gelu_slope": _gelu_slope,
    "mish_gate": _mish_gate, "mish_slope": _mish_slope, "mish_derivative": _mish_derivative,
}


def _with(rule: Callable[[X, _Fits], X], fits: _Fits) -> Callable[[X], X]:
    return lambda x: rule(x, fits)


SHORT: dict[str, Callable[[X], X]] = {
    f"short_{name}_{dtype}": _with(rule, fits)
    for name, rule in _RULES.items() for dtype, fits in _FITS.items()
}
"""By the name of the op (`ops/short.py`) and the type that is rounded to."""
