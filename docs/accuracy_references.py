"""What the ops of `accuracy.md` are exactly, with their derivatives.

Elementary functions are long doubles of numpy (64 bits: their error is below 0.01 ulps of
float64); special functions, and those whose arguments would lose digits there, are balls of
python-flint (Arb), computed with more and more bits until 70 are certain. A value is NaN outside
of a function's domain; a derivative also where there is none (kinks, jumps, ties).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import flint
import numpy as np
from flint import arb

Array = np.ndarray[Any, Any]
Function = Callable[..., Array]
L = np.longdouble
PI = L("3.14159265358979323846264338327950288")
LN2, LN10 = np.log(L(2)), np.log(L(10))
_SELU = (L(1.0507009873554805), L(1.6732632423543772))  # as given: float64 numbers
_K = L("0.044715")
_C = np.sqrt(2 / PI)
_NAN = L(math.nan)
_BITS = 70
_MOST_BITS = 4000


# --- balls ----------------------------------------------------------------------------------------


def _long(ball: Any) -> Any:
    """The middle of a ball as a long double; what float64 cannot hold is huge or 0."""
    middle = ball.mid()
    high = float(middle)
    if not math.isfinite(high):
        return L("1e4000") if high > 0 else L("-1e4000")
    if abs(high) < 1e-250:  # what is left of it is no float64
        middle *= arb(2) ** 400
        high = float(middle)
        return np.ldexp(L(high) + L(float(middle - high)), -400)
    return L(high) + L(float(middle - high))


def _certain(f: Callable[..., Any], *x: float) -> Any:
    """f of floats, to 70 bits; NaN where it is none."""
    bits = 100
    while bits <= _MOST_BITS:
        flint.ctx.prec = bits
        found = f(*map(arb, x))
        if found is None:
            return _NAN
        if found.is_finite() and (found.rel_accuracy_bits() >= _BITS or abs(found) < 1e-330):
            return _long(found)
        bits *= 2 if bits < 400 else 5
    return _NAN


def balls(f: Callable[..., Any]) -> Function:
    """A function of arbs (None: undefined there) as one of arrays."""
    def apply(*x: Array) -> Array:
        columns = [np.asarray(a, np.float64).tolist() for a in x]
        return np.array([_certain(f, *row) for row in zip(*columns, strict=True)], L)

    return apply


def _positive(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: f(x) if x > 0 else None


def _log_gamma(x: Any) -> Any:
    if x > 0:
        return x.lgamma()
    if x == x.floor():
        return None
    return (arb.pi() / abs(x.sin_pi())).log() - (1 - x).lgamma()


def _digamma(x: Any) -> Any:
    if x <= 0 and x == x.floor():
        return None
    if x < 0:
        return (1 - x).digamma() - arb.pi() * x.cot_pi()
    return x.digamma()


def _trigamma(x: Any) -> Any:
    if x > 0:
        return arb(2).zeta(x)
    if x == x.floor():
        return None
    return (arb.pi() / x.sin_pi()) ** 2 - arb(2).zeta(1 - x)


def _gauss(x: Any) -> Any:
    return 2 / arb.pi().sqrt() * (-x * x).exp()


def _erfinv(x: Any) -> Any:
    return x.erfinv() if abs(x) < 1 else None


def _erfinv_slope(x: Any) -> Any:
    return arb.pi().sqrt() / 2 * (x.erfinv() ** 2).exp() if abs(x) < 1 else None


def _cdf(x: Any) -> Any:
    return (-x / arb(2).sqrt()).erfc() / 2


def _gelu_slope(x: Any) -> Any:
    return _cdf(x) + x * (-x * x / 2).exp() / (2 * arb.pi()).sqrt()


def _sinc_slope(x: Any) -> Any:
    if x == 0:
        return arb(0)
    return (x.cos_pi() - x.sin_pi() / (arb.pi() * x)) / x


def _bessel(kind: str, order: int, scaled: bool = False) -> Callable[[Any], Any]:
    def value(x: Any) -> Any:
        if kind in "ky" and x <= 0:
            return None
        a, sign = abs(x), -1 if x < 0 and order else 1
        y = sign * getattr(a, f"bessel_{kind}")(order)
        return y * (-a if kind == "i" else a).exp() if scaled else y

    return value


_B = {name: _bessel(name[0], int(name[1]), name.endswith("e"))
      for name in ("i0", "i0e", "i1", "i1e", "j0", "j1", "y0", "y1", "k0", "k0e", "k1", "k1e")}


def _divided(kind: str) -> Callable[[Any], Any]:
    """The Bessel function of order 1 over x."""
    f = _B[kind]
    return lambda x: arb(0.5) if x == 0 else f(x) / x


def _sign(x: Any) -> int:
    return 1 if x > 0 else -1


def _difference(f: str, g: str) -> Callable[[Any], Any]:
    """f - g(x)/x."""
    over = _divided(g)
    return lambda x: None if _B[f](x) is None else _B[f](x) - over(x)


_SLOPES_OF_BESSEL: dict[str, Callable[[Any], Any]] = {
    "i0": _B["i1"], "i1": _difference("i0", "i1"),
    "i0e": lambda x: None if x == 0 else _B["i1e"](x) - _sign(x) * _B["i0e"](x),
    "i1e": lambda x: None if x == 0 else (
        _B["i0e"](x) - _B["i1e"](x) / x - _sign(x) * _B["i1e"](x)),
    "j0": lambda x: -_B["j1"](x), "j1": _difference("j0", "j1"),
    "y0": _positive(lambda x: -_B["y1"](x)), "y1": _difference("y0", "y1"),
    "k0": _positive(lambda x: -_B["k1"](x)),
    "k1": _positive(lambda x: -_B["k0"](x) - _B["k1"](x) / x),
    "k0e": _positive(lambda x: _B["k0e"](x) - _B["k1e"](x)),
    "k1e": _positive(lambda x: _B["k1e"](x) - _B["k0e"](x) - _B["k1e"](x) / x),
}


# --- long doubles ---------------------------------------------------------------------------------


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _within(
    x: Array, low: float, high: float, inside: Any, below: Any = 0, above: Any = 0,
) -> Array:
    """A derivative in three pieces, none at the joints."""
    out = np.where(x < low, below, np.where(x > high, above, inside))
    return np.where((x == low) | (x == high), _NAN, out)


def _tanh_argument(x: Array) -> Array:
    return 2 * _C * (x + _K * x**3)


def _gelu_tanh_slope(x: Array) -> Array:
    z = _tanh_argument(np.clip(x, -1e6, 1e6))
    s = sigmoid(z)
    steep = np.clip(x, -1e6, 1e6) * 2 * _C * (1 + 3 * _K * np.clip(x, -1e6, 1e6) ** 2)
    return s * (1 + sigmoid(-z) * steep)


def _logistic(scale: Any) -> tuple[Function, Function]:
    """x sigmoid(scale x) and its derivative."""
    def slope(x: Array) -> Array:
        z = np.clip(scale * x, -1e4, 1e4)
        return sigmoid(z) * (1 + z * sigmoid(-z))

    return lambda x: x * sigmoid(scale * x), slope


def _gate(x: Array) -> Array:
    """tanh(log(1 + e^x)) = (e^2x + 2 e^x) / (e^2x + 2 e^x + 2)."""
    e = np.exp(np.minimum(x, 60))
    n = e * (e + 2)
    return n / (n + 2)


def _mish_slope(x: Array) -> Array:
    e = np.exp(np.minimum(x, 60))
    n = e * (e + 2) + 2
    return _gate(x) + np.minimum(x, 60) * 4 * e * (1 + e) / n**2


def _exp_side(scale: Any, depth: Any) -> tuple[Function, Function]:
    """scale x above 0, scale depth (e^x - 1) below."""
    return (lambda x: np.where(x < 0, scale * depth * np.expm1(np.minimum(x, 0)), scale * x),
            lambda x: np.where(x == 0, scale if depth == 1 else _NAN, np.where(
                x < 0, scale * depth * np.exp(np.minimum(x, 0)), scale)))


def _selu_slope(x: Array) -> Array:
    scale, depth = _SELU
    return np.where(x < 0, scale * depth * np.exp(np.minimum(x, 0)), scale)


def _tanh_shrink(x: Array) -> Array:
    """x - tanh(x), by its series where they are near."""
    s, z = np.where(np.abs(x) < 0.05, x, 0), np.where(np.abs(x) < 0.05, x, 0) ** 2
    series = s * z * (L(1) / 3 - z * (L(2) / 15 - z * (L(17) / 315 - z * (
        L(62) / 2835 - z * (L(1382) / 155925 - z * (L(21844) / 6081075 - z * (
            L(929569) / 638512875)))))))
    return np.where(np.abs(x) < 0.05, series, x - np.tanh(x))


def _logit(x: Array) -> Array:
    return np.log(x) - np.log1p(-x)


def _flat(x: Array) -> Array:
    return np.zeros_like(x)


def _unary() -> dict[str, tuple[Function, Function | None]]:
    """Value and derivative by the name of the op, with the attributes of its first sample."""
    one = np.ones_like
    bessels = {f"bessel_{name}": (balls(f), balls(_SLOPES_OF_BESSEL[name]))
               for name, f in _B.items()}
    return {
        "abs": (np.abs, lambda x: np.where(x == 0, _NAN, np.sign(x))),
        "acos": (np.arccos, lambda x: -1 / np.sqrt((1 - x) * (1 + x))),
        "acosh": (np.arccosh, lambda x: np.where(
            x > 1, 1 / (np.sqrt(np.maximum(x, 1) - 1) * np.sqrt(np.maximum(x, 1) + 1)), _NAN)),
        "asin": (np.arcsin, lambda x: 1 / np.sqrt((1 - x) * (1 + x))),
        "asinh": (np.arcsinh, lambda x: 1 / np.hypot(1, x)),
        "atan": (np.arctan, lambda x: 1 / (1 + x * x)),
        "atanh": (np.arctanh, lambda x: np.where(
            np.abs(x) < 1, 1 / ((1 - x) * (1 + x)), _NAN)),
        "ceil": (np.ceil, None),
        "celu": _exp_side(L(1), L(1)), "elu": _exp_side(L(1), L(1)),
        "selu": _exp_side(*_SELU), "selu_slope": (_selu_slope, None),
        "clamp": (lambda x: np.clip(x, 2, 5), lambda x: _within(x, 2, 5, 1)),
        "cos": (np.cos, lambda x: -np.sin(x)),
        "cosh": (np.cosh, np.sinh),
        "digamma": (balls(_digamma), balls(_trigamma)),
        "erf": (balls(lambda x: x.erf()), balls(_gauss)),
        "erfc": (balls(lambda x: x.erfc()), balls(lambda x: -_gauss(x))),
        "erfinv": (balls(_erfinv), balls(_erfinv_slope)),
        "exp": (np.exp, np.exp),
        "exp_square": (balls(lambda x: (x * x).exp()), None),
        "gauss": (balls(lambda x: (-x * x).exp()), None),
        "exp2": (np.exp2, lambda x: np.exp2(x) * LN2),
        "expm1": (np.expm1, np.exp),
        "floor": (np.floor, None),
        "gelu": (balls(lambda x: x * _cdf(x)), balls(_gelu_slope)),
        "gelu tanh": (lambda x: x * sigmoid(_tanh_argument(x)), _gelu_tanh_slope),
        "hard_shrink": (lambda x: np.where(np.abs(x) <= 0.5, 0, x),
                        lambda x: _within(x, -0.5, 0.5, 0, 1, 1)),
        "hard_sigmoid": (lambda x: np.clip(x + 3, 0, 6) / 6,
                         lambda x: _within(x, -3, 3, L(1) / 6)),
        "hard_swish": (lambda x: np.where(x >= 3, x, np.clip(x, -3, 3) * (
            np.clip(x, -3, 3) + 3) / 6), lambda x: _within(x, -3, 3, (2 * x + 3) / 6, 0, 1)),
        "hard_tanh": (lambda x: np.clip(x, -1, 1), lambda x: _within(x, -1, 1, 1)),
        "leaky_relu": (lambda x: np.where(x > 0, x, L("0.2") * x),
                       lambda x: np.where(x == 0, _NAN, np.where(x > 0, 1, L("0.2")))),
        "lgamma": (balls(_log_gamma), balls(_digamma)),
        "log": (np.log, lambda x: np.where(x > 0, 1 / x, _NAN)),
        "log10": (np.log10, lambda x: np.where(x > 0, 1 / (x * LN10), _NAN)),
        "log1p": (np.log1p, lambda x: np.where(x > -1, 1 / (1 + x), _NAN)),
        "log2": (np.log2, lambda x: np.where(x > 0, 1 / (x * LN2), _NAN)),
        "log1pexp": (softplus, sigmoid),
        "one_plus_square": (lambda x: 1 + x * x, lambda x: 2 * x),
        "log_sigmoid": (lambda x: -softplus(-x), lambda x: sigmoid(-x)),
        "logit": (_logit, lambda x: np.where((x > 0) & (x < 1), 1 / (x * (1 - x)), _NAN)),
        "mish": (lambda x: x * _gate(x), _mish_slope),
        "neg": (np.negative, lambda x: -one(x)),
        "quick_gelu": _logistic(L("1.702")), "silu": _logistic(L(1)),
        "reciprocal": (lambda x: 1 / x, lambda x: -1 / (x * x)),
        "relu": (lambda x: np.maximum(x, 0), lambda x: _within(x, 0, 0, 0, 0, 1)),
        "relu6": (lambda x: np.clip(x, 0, 6), lambda x: _within(x, 0, 6, 1)),
        "round": (np.round, None),
        "rsqrt": (lambda x: 1 / np.sqrt(x), lambda x: -1 / (2 * x * np.sqrt(x))),
        "sigmoid": (sigmoid, lambda x: sigmoid(x) * sigmoid(-x)),
        "sign": (np.sign, None),
        "sin": (np.sin, np.cos),
        "sinc": (balls(lambda x: arb(1) if x == 0 else x.sin_pi() / (arb.pi() * x)),
                 balls(_sinc_slope)),
        "sinh": (np.sinh, np.cosh),
        "soft_shrink": (lambda x: x - np.clip(x, -0.5, 0.5),
                        lambda x: _within(x, -0.5, 0.5, 0, 1, 1)),
        "softplus": (lambda x: np.where(x > 20, x, softplus(x)),
                     lambda x: np.where(x > 20, 1, sigmoid(x))),
        "softsign": (lambda x: x / (1 + np.abs(x)), lambda x: 1 / (1 + np.abs(x)) ** 2),
        "sqrt": (np.sqrt, lambda x: 1 / (2 * np.sqrt(x))),
        "square": (np.square, lambda x: 2 * x),
        "tan": (np.tan, lambda x: 1 / np.cos(x) ** 2),
        "tanh": (np.tanh, lambda x: 4 * sigmoid(2 * x) * sigmoid(-2 * x)),
        "tanh_shrink": (_tanh_shrink, lambda x: np.tanh(x) ** 2),
        "threshold": (lambda x: np.where(x > 0.5, x, 2), lambda x: _within(x, 0.5, 0.5, 0, 0, 1)),
        "trigamma": (balls(_trigamma), None),
        "trunc": (np.trunc, None),
        **bessels,
    }


def _slope_of_extreme(first: bool, largest: bool) -> Function:
    def slope(x: Array, y: Array) -> Array:
        taken = (x > y) == largest
        return np.where(x == y, _NAN, np.where(taken == first, 1, 0))

    return slope


def _power_slope(x: Array, y: Array) -> Array:
    return np.where((x < 0) & (y != np.round(y)) | (x == 0), _NAN, y * np.power(x, y - 1))


def _exponent_slope(x: Array, y: Array) -> Array:
    return np.where(x > 0, np.power(x, y) * np.log(np.where(x > 0, x, 1)), _NAN)


def _xlogy(x: Array, y: Array) -> Array:
    return np.where((y > 0) | (x == 0), np.where(x == 0, 0, x * np.log(np.where(y > 0, y, 1))),
                    _NAN)


BINARY: dict[str, tuple[Function, tuple[Function, Function] | None]] = {
    "add": (np.add, (lambda x, y: np.ones_like(x), lambda x, y: np.ones_like(x))),
    "sub": (np.subtract, (lambda x, y: np.ones_like(x), lambda x, y: -np.ones_like(x))),
    "mul": (np.multiply, (lambda x, y: y, lambda x, y: x)),
    "div": (np.divide, (lambda x, y: 1 / y, lambda x, y: -x / (y * y))),
    "maximum": (np.maximum, (_slope_of_extreme(True, True), _slope_of_extreme(False, True))),
    "minimum": (np.minimum, (_slope_of_extreme(True, False), _slope_of_extreme(False, False))),
    "atan2": (np.arctan2, (lambda x, y: y / (x * x + y * y), lambda x, y: -x / (x * x + y * y))),
    "pow": (np.power, (_power_slope, _exponent_slope)),
    "fmod": (np.fmod, None), "mod": (np.mod, None),
    "xlogy": (_xlogy, (lambda x, y: np.where(y > 0, np.log(np.where(y > 0, y, 1)), _NAN),
                       lambda x, y: np.where(y > 0, x / y, _NAN))),
}
UNARY = _unary()
