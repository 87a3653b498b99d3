"""Elementary functions as LLVM IR on lanes: what `Expr` calls by name.

`emit(f, name, *args)` writes one function for any lane count, with no calls and nothing that
depends on the lane count: a scalar tail gives the bits of the vector body (up to the sign and
payload of a NaN). float32 and float64 are computed here; 16-bit floats are widened by the
caller. Every function keeps NaN, signed zeros and subnormals. The code is straight-line, with
two exceptions that branch for all lanes together and change no lane's value: sin/cos/tan of
large arguments and the loops of fmod and integer powers.

The largest errors are measured by `docs/make_accuracy.py` (`docs/accuracy.md` lists them). sin, cos
and tan hold for all finite arguments; some float32 functions are computed in float64. Coefficients
are minimax fits by Remez exchange (`tests/codegen/minimax.py` repeats them), rounded to the format.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial

from ..text import Function, V, is_float
from . import basic, f32, short, special, trig
from . import exp as e
from .lanes import F32, X

Rule = Callable[..., X]
"""A rule takes `X` arguments (and `signed` if the name is in `SIGNED`) and returns an `X`."""


def _via_double(rule: Callable[..., X]) -> Rule:
    """A float64 rule that serves float32 by computing in float64 and rounding once more."""

    def wide(*args: X) -> X:
        if args[0].fmt is not F32:
            return rule(*args)
        return rule(*(a.to("fpext", "double") for a in args)).to("fptrunc", "float")

    return wide


def _by_format(single: Rule, double: Rule) -> Rule:
    """One rule for float32 and another for float64."""
    return lambda x: (single if x.fmt is F32 else double)(x)


def _intrinsic(name: str) -> Rule:
    def rule(x: X) -> X:
        return x.call(name) if is_float(x.v.ty) else x

    return rule


def _pow(x: X, y: X, signed: bool) -> X:
    if not is_float(x.v.ty):
        return basic.integer_pow(x, y, signed)
    return e.power32(x, y) if x.fmt is F32 else e.power(x, y)


def _div(x: X, y: X, signed: bool) -> X:
    return x / y if is_float(x.v.ty) else basic.trunc_div(x, y, signed)


_IN_DOUBLE: dict[str, Rule] = {
    "log2": e.log2, "log10": e.log10, "log1p": e.log1p, "asin": trig.asin,
    "acos": trig.acos, "atan": trig.atan, "atan2": trig.atan2, "asinh": e.asinh, "acosh": e.acosh,
    "atanh": e.atanh, "erfinv": special.erfinv,
    "digamma": special.digamma, "cbrt": special.cbrt,
}
FLOAT: dict[str, Rule] = {
    "exp": e.exp, "normal_exp": e.normal_exp, "expm1": e.expm1, "exp2": e.exp2, "log": e.log,
    "sin": _by_format(f32.sin, trig.sin), "cos": _by_format(f32.cos, trig.cos),
    "tan": _by_format(_via_double(partial(trig.tan, correct=False)), trig.tan),
    "sinh": e.sinh, "cosh": e.cosh, "tanh": _by_format(f32.tanh, e.tanh), "sigmoid": e.sigmoid,
    "selu": e.selu, "selu_slope": e.selu_slope, "log1pexp": e.log1pexp,
    "xlogy": e.xlogy, "exp_square": e.exp_square,
    "gauss": partial(e.exp_square, sign=-1.0),
    "erf": _by_format(f32.erf, special.erf),
    "erfc": _by_format(_via_double(partial(special.erfc, correct=False)), special.erfc),
    "lgamma": _by_format(_via_double(partial(special.lgamma, correct=False)), special.lgamma),
    "sqrt": X.sqrt, "rsqrt": lambda x: 1.0 / x.sqrt(),
    "reciprocal": lambda x: 1.0 / x, "one_plus_square": lambda x: x.fma(x, 1.0),
    **{name: _via_double(rule) for name, rule in _IN_DOUBLE.items()}, **short.SHORT,
}
"""Functions of floats alone."""

ANY: dict[str, Rule] = {
    **{name: _intrinsic(name) for name in ("floor", "ceil", "trunc")},
    "round": _intrinsic("roundeven"), "add": basic.add, "sub": operator.sub, "mul": operator.mul,
    "neg": operator.neg, "shl": basic.shl, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "not": operator.invert,
}
"""Functions of floats and integers (bit operations: integers and masks)."""

SIGNED: dict[str, Rule] = {
    "abs": basic.abs_, "sign": basic.sign, "maximum": basic.maximum, "minimum": basic.minimum,
    "div": _div, "trunc_div": basic.trunc_div, "trunc_mod": basic.trunc_mod,
    "floor_div": basic.floor_div, "floor_mod": basic.floor_mod, "shr": basic.shr, "pow": _pow,
}
"""Functions that need to know whether an integer is signed. `trunc_mod` of floats is fmod."""

MATH: dict[str, Rule] = FLOAT | ANY | SIGNED | {"fmod": SIGNED["trunc_mod"]}
"""Every function by name."""

_NEEDS_SIGN = frozenset(SIGNED) | {"fmod"}


def emit(f: Function, name: str, *args: V, signed: bool = True) -> V:
    """Write function `name` of `args`, all of one type, and return a value of that type.

    Args:
        name: a key of `MATH`.
        args: scalars or vectors of any lane count; masks (`i1`) for bit operations.
        signed: whether integer arguments are signed.

    Raises:
        KeyError: unknown name.
        TypeError: a 16-bit float (compute in float32), or arguments of different types.
    """
    if len({a.ty for a in args}) > 1:
        raise TypeError(f"{name} needs arguments of one type, got {[a.ty for a in args]}")
    if "half" in args[0].ty or "bfloat" in args[0].ty:
        raise TypeError(f"{name} is not computed in {args[0].ty}: widen to float")
    if name in FLOAT and not is_float(args[0].ty):
        raise TypeError(f"{name} takes floats, got {args[0].ty}")
    xs = [X(f, a) for a in args]
    return (MATH[name](*xs, signed=signed) if name in _NEEDS_SIGN else MATH[name](*xs)).v
