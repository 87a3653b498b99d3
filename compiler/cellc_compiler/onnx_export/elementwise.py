"""Arithmetic, comparisons, logic, bits, transcendental functions, conversions."""

from __future__ import annotations

import math

from cellc_runtime import dtypes

from ..ir.graph import Node
from .table import formulas, maps, refused
from .writer import Names, Writer

_SETTLED = "Min(Max(a, -100), 100)"  # An operand whose factor is 0 where it is infinite
formulas(
    add="Add", sub="Sub", mul="Mul", div="Div", maximum="Max", minimum="Min", neg="Neg", abs="Abs",
    sign="Sign", reciprocal="Reciprocal", sqrt="Sqrt", pow="Pow", eq="Equal", lt="Less",
    le="LessOrEqual", gt="Greater", ge="GreaterOrEqual", logical_and="And", logical_or="Or",
    logical_xor="Xor", logical_not="Not", isnan="IsNaN", where="Where",
    acos="Acos", acosh="Acosh", asin="Asin", asinh="Asinh", atan="Atan", atanh="Atanh", cos="Cos",
    cosh="Cosh", erf="Erf", exp="Exp", log="Log", sigmoid="Sigmoid", sin="Sin", sinh="Sinh",
    tan="Tan", tanh="Tanh",
    ne="Not(Equal(a, b))", square="Mul(a, a)", rsqrt="Reciprocal(Sqrt(a))", exp2="Pow(2, a)",
    erfc="Sub(1, Erf(a))", isinf="Equal(Abs(a), 1e999)", isfinite="Less(Abs(a), 1e999)",
    log2="Mul(Log(a), 1.4426950408889634)", log10="Mul(Log(a), 0.43429448190325176)",
    # (1e999 is infinity; in `expm1` nothing cancels near 0.)
    expm1="Mul(Tanh(Mul(a, 0.5)), Add(Exp(a), 1))",
    xlogy="Where(And(Equal(a, 0), Not(IsNaN(b))), 0, Mul(a, Log(b)))",
    selu_slope="Where(Less(a, 0), Mul(Exp(a), 1.7580993408473766), 1.0507009873554805)",
    one_plus_square="Add(Mul(a, a), 1)", log1pexp="Softplus", gauss="Exp(Neg(Mul(a, a)))",
    exp_square="Exp(Mul(a, a))",
    normal_exp="Exp", short_exp="Exp", short_sigmoid="Sigmoid", short_softplus="Softplus",
    short_mish_gate="Tanh(Softplus(a))",
    short_sigmoid_slope="Mul(Sigmoid(a), Sigmoid(Neg(a)))",
    short_silu_slope=f"Mul(Sigmoid(a), Add(1, Mul({_SETTLED}, Sigmoid(Neg(a)))))",
    short_normal_cdf="Mul(Add(Erf(Mul(a, 0.7071067811865476)), 1), 0.5)",
    short_normal_pdf="Mul(Exp(Mul(Mul(a, a), -0.5)), 0.3989422804014327)",
    short_gelu_slope=(
        "Add(Mul(Add(Erf(Mul(a, 0.7071067811865476)), 1), 0.5), "
        f"Mul({_SETTLED}, Mul(Exp(Mul(Mul(a, a), -0.5)), 0.3989422804014327)))"),
    short_mish_derivative=(
        f"Add(Tanh(Softplus(a)), Mul({_SETTLED}, "
        "Mul(Sub(1, Mul(Tanh(Softplus(a)), Tanh(Softplus(a)))), Sigmoid(a))))"),
    short_mish_slope="Mul(Sub(1, Mul(Tanh(Softplus(a)), Tanh(Softplus(a)))), Sigmoid(a))",
)
refused("ONNX has no such function", "lgamma", "digamma", "trigamma", "erfinv")
refused("ONNX cannot view bits as another type", "bitcast")
refused("ONNX has no complex arithmetic", "angle", "conj", "imag", "make_complex", "real")


@maps("floor", "ceil", "round")
def _rounding(w: Writer, node: Node, x: str) -> Names:
    kind = {"floor": "Floor", "ceil": "Ceil", "round": "Round"}[node.op]
    return w.op(kind, x) if w.types[x].is_float else x


@maps("trunc")
def _trunc(w: Writer, node: Node, x: str) -> Names:
    return trunc(w, x) if w.types[x].is_float else x


def trunc(w: Writer, x: str) -> str:
    """Rounded towards zero."""
    return w.op("Where", w.op("Less", x, w.like(0, x)), w.op("Ceil", x), w.op("Floor", x))


# --- division: integers by zero give 0 in cellc, and end the process of some runtimes -------------


def _guarded(w: Writer, kind: str, a: str, b: str, **attrs: int) -> str:
    zero = w.op("Equal", b, w.like(0, b))
    out = w.op(kind, a, w.op("Where", zero, w.like(1, b), b), **attrs)
    return w.op("Where", zero, w.like(0, out), out)


def _differ(w: Writer, rest: str, b: str) -> str:
    """Where a remainder is not zero and its sign is not the divisor's."""
    zero = w.like(0, rest)
    signs = w.op("Xor", w.op("Less", rest, zero), w.op("Less", b, zero))
    return w.op("And", signs, w.op("Not", w.op("Equal", rest, zero)))


def _quotient(w: Writer, a: str, b: str) -> str:
    """a / b of floats; a half float's, rounded first, could step over an integer."""
    wide = dtypes.float32 if w.types[a].itemsize == 2 else w.types[a]
    return w.op("Div", w.cast(a, wide), w.cast(b, wide))


@maps("trunc_div")
def _trunc_div(w: Writer, node: Node, a: str, b: str) -> Names:
    return trunc(w, _quotient(w, a, b)) if w.types[a].is_float else _guarded(w, "Div", a, b)


@maps("floor_div")
def _floor_div(w: Writer, node: Node, a: str, b: str) -> Names:
    if w.types[a].is_float:
        return w.op("Floor", _quotient(w, a, b))
    out = _guarded(w, "Div", a, b)
    if w.types[a].kind == "uint":
        return out
    down = _differ(w, _guarded(w, "Mod", a, b, fmod=1), b)
    return w.op("Where", down, w.op("Sub", out, w.like(1, out)), out)


@maps("fmod")
def _fmod(w: Writer, node: Node, a: str, b: str) -> Names:
    if w.types[a].is_float:
        return w.op("Mod", a, b, fmod=1)
    return _guarded(w, "Mod", a, b, fmod=1)


@maps("mod")
def _mod(w: Writer, node: Node, a: str, b: str) -> Names:
    if not w.types[a].is_float:
        return _guarded(w, "Mod", a, b)
    rest = w.op("Mod", a, b, fmod=1)
    return w.op("Where", _differ(w, rest, b), w.op("Add", rest, b), rest)


@maps("clamp")
def _clamp(w: Writer, node: Node, x: str) -> Names:
    low, high = node.attrs["min"], node.attrs["max"]
    if low is None and high is None:
        return x
    return w.op("Clip", x, "" if low is None else w.like(low, x),
                *(() if high is None else (w.like(high, x),)))


# --- tests and bits -------------------------------------------------------------------------------


@maps("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not")
def _bitwise(w: Writer, node: Node, *x: str) -> Names:
    word = node.op.removeprefix("bitwise_").capitalize()
    return w.op(word if w.types[x[0]] is dtypes.bool_ else f"Bitwise{word}", *x)


@maps("shift_left", "shift_right")
def _shift(w: Writer, node: Node, x: str, amount: str) -> Names:
    """BitShift takes unsigned words; a negative one is shifted right as its complement."""
    dtype = w.types[x]
    width = w.const(8 * dtype.itemsize, dtypes.int64)
    by = w.cast(w.op("Mod", w.cast(amount, dtypes.int64), width), dtypes.uint64)
    if node.op == "shift_left" or dtype.kind == "uint":
        direction = "LEFT" if node.op == "shift_left" else "RIGHT"
        return w.cast(w.op("BitShift", w.cast(x, dtypes.uint64), by, direction=direction), dtype)
    wide = w.cast(x, dtypes.int64)
    negative = w.op("Less", wide, w.like(0, wide))

    def turned(v: str) -> str:
        return w.op("Where", negative, w.op("Sub", w.like(-1, v), v), v)

    moved = w.op("BitShift", w.cast(turned(wide), dtypes.uint64), by, direction="RIGHT")
    return w.cast(turned(w.cast(moved, dtypes.int64)), dtype)


@maps("cast")
def _cast(w: Writer, node: Node, x: str) -> Names:
    dtype = node.attrs["dtype"]
    if w.types[x].is_complex or dtype.is_complex:
        return w.op("Cos", x if w.types[x].is_complex else w.const(0, dtype))  # refused there
    return w.cast(x, dtype)


# --- functions ------------------------------------------------------------------------------------


@maps("log1p")
def _log1p(w: Writer, node: Node, x: str) -> Names:
    """log(u) * x / (u - 1) with u = 1 + x makes up for the rounding of u (Goldberg 1991)."""
    one = w.like(1, x)
    u = w.op("Add", one, x)
    log, rest = w.op("Log", u), w.op("Sub", u, one)
    small = w.op("Less", w.op("Abs", x), w.like(0.5, x))
    even = w.op("Equal", rest, w.like(0, x))
    ratio = w.op("Div", x, w.op("Where", even, one, rest))
    return w.op("Where", even, x, w.op("Mul", log, w.op("Where", small, ratio, one)))


@maps("atan2")
def _atan2(w: Writer, node: Node, y: str, x: str) -> Names:
    zero = w.like(0, x)
    up = w.op("Where", w.op("Less", y, zero), w.like(-1, x), w.like(1, x))
    none = w.op("Equal", x, zero)
    turn = w.op("Where", w.op("Less", x, zero), w.op("Mul", up, w.like(math.pi, x)), zero)
    usual = w.op("Add", w.op("Atan", w.op("Div", y, w.op("Where", none, w.like(1, x), x))), turn)
    axis = w.op("Where", w.op("Equal", y, zero), zero, w.op("Mul", up, w.like(math.pi / 2, x)))
    return w.op("Where", none, axis, usual)
