"""Arithmetic, comparisons, logic, activations, conversions, and products of matrices."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from cellc_runtime import dtypes

from ..core.dispatch import apply_one
from ..ops.functional import draws, elimination, linalg
from ..tensors.promotion import cast_to
from ..tensors.tensor import Tensor
from .table import Array, Call, Known, border_of, like, rule, rules, to, wide

A = apply_one

# --- one operand ----------------------------------------------------------------------------------

_UNARY = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh",
    "Atan": "atan", "Atanh": "atanh", "BitwiseNot": "bitwise_not", "Cos": "cos", "Cosh": "cosh",
    "Erf": "erf", "Exp": "exp", "HardSwish": "hard_swish", "IsNaN": "isnan", "Log": "log",
    "Mish": "mish", "Neg": "neg", "Not": "logical_not", "Reciprocal": "reciprocal",
    "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Softplus": "log1pexp",
    "Softsign": "softsign", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
}
rules({"Identity": lambda c, x: x}, raw=True)
@rule("Selu")
def _selu(c: Call, x: Tensor) -> Tensor:
    alpha = c.real("alpha", 1.6732632423543772)
    gamma = c.real("gamma", 1.0507009873554805)
    below = A("mul", A("sub", A("exp", A("minimum", x, like(0, x))), like(1, x)), like(alpha, x))
    return A("mul", A("where", A("gt", x, like(0, x)), x, below), like(gamma, x))


@rule("HardSigmoid")
def _hard_sigmoid(c: Call, x: Tensor) -> Tensor:
    y = A("add", A("mul", x, like(c.real("alpha", 0.2), x)), like(c.real("beta", 0.5), x))
    return A("clamp", y, min=0.0, max=1.0)


@rule("Shrink")
def _shrink(c: Call, x: Tensor) -> Tensor:
    lambd, bias = c.real("lambd", 0.5), like(c.real("bias", 0.0), x)
    above = A("where", A("gt", x, like(lambd, x)), A("sub", x, bias), like(0, x))
    return A("where", A("lt", x, like(-lambd, x)), A("add", x, bias), above)


@rule("com.microsoft::FastGelu", "com.microsoft::BiasGelu")
def _fast_gelu(c: Call, x: Tensor, bias: Tensor | None = None) -> Tensor:
    x = x if bias is None else A("add", x, bias)
    return A("gelu", x, approximate="none" if c.node.op == "BiasGelu" else "tanh")


@rule("Swish", "com.microsoft::QuickGelu")
def _swish(c: Call, x: Tensor) -> Tensor:
    alpha = c.real("alpha", 1.702 if c.node.domain else 1.0)
    if alpha == 1.0:
        return A("silu", x)
    return A("mul", x, A("sigmoid", A("mul", x, like(alpha, x))))


@rule("PRelu")
def _prelu(c: Call, x: Tensor, slope: Tensor) -> Tensor:
    if slope.ndim == 1 and c.opset < 7 and x.ndim > 2:
        slope = A("reshape", slope, shape=(*slope.shape, *(1,) * (x.ndim - 2)))
    return A("where", A("lt", x, like(0, x)), A("mul", x, slope), x)


@rule("IsInf")
def _isinf(c: Call, x: Tensor) -> Tensor:
    found = A("isinf", x)
    for flag, op in (("detect_negative", "lt"), ("detect_positive", "gt")):
        if not c.flag(flag, 1):
            found = A("logical_and", found, A("logical_not", A(op, x, like(0, x))))
    return found


@rule("Clip")
def _clip(c: Call, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    if c.opset < 11:
        low = like(c.real("min", -math.inf), x) if "min" in c.attrs else None
        high = like(c.real("max", math.inf), x) if "max" in c.attrs else None
    x = x if low is None else A("maximum", x, _scalar(low))
    return x if high is None else A("minimum", x, _scalar(high))


def _scalar(x: Tensor) -> Tensor:
    return A("reshape", x, shape=()) if x.ndim else x


rules({
    " ".join(_UNARY): lambda c, x: A(_UNARY[c.node.op], x),
    "Ceil Floor Round": lambda c, x: A(c.node.op.lower(), x) if x.dtype.is_float else x,
    "Relu": lambda c, x: A("relu", x) if x.dtype.is_float else A("maximum", x, like(0, x)),
    "LeakyRelu": lambda c, x: A("leaky_relu", x, alpha=c.real("alpha", 0.01)),
    "Elu": lambda c, x: A("elu", x, alpha=c.real("alpha", 1.0)),
    "Celu": lambda c, x: A("celu", x, alpha=c.real("alpha", 1.0)),
    "ThresholdedRelu": lambda c, x:
        A("where", A("gt", x, like(c.real("alpha", 1.0), x)), x, like(0, x)),
    "Gelu com.microsoft::Gelu": lambda c, x:
        A("gelu", x, approximate=c.text("approximate", "none")),
    "Cast CastLike": lambda c, x, like_=None:
        cast_to(x, c.dtype("to") if like_ is None else like_.dtype),
})


@rule("BitCast")
def _bitcast(c: Call, x: Tensor) -> Tensor:
    wanted, truth = c.dtype("to"), dtypes.bool_
    x = to(x, dtypes.uint8) if x.dtype is truth else x
    if wanted is truth:
        return A("ne", x, like(0, x))
    return x if x.dtype is wanted else A("bitcast", x, dtype=wanted)


@rule("Dropout", known=(1, 2))
def _dropout(c: Call, x: Tensor, ratio: Array | None = None, training: Array | None = None
             ) -> list[Tensor]:
    """The input itself: the network infers. (A training mode that is asked for draws here.)"""
    whole = A("broadcast_to", like(1, to(x, dtypes.bool_)), shape=x.shape)
    if training is None or c.opset < 12 or not bool(training):
        return [x, whole]
    p = 0.5 if ratio is None else float(ratio)
    if p == 0:
        return [x, whole]
    kept = A("gt", draws.uniform(x.shape, 0.0, 1.0), like(p, to(x, dtypes.float32)))
    return [A("where", kept, A("mul", x, like(1 / (1 - p), x)), like(0, x)), kept]


# --- two operands and more ------------------------------------------------------------------------


def _aligned(c: Call, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The operands; before version 7 the axes of the second lie where `axis` says."""
    if c.opset < 7 and c.flag("broadcast") and b.ndim < a.ndim:
        axis = border_of(c.whole("axis", a.ndim - b.ndim), a.ndim)
        b = A("reshape", b, shape=(*b.shape, *(1,) * (a.ndim - axis - b.ndim)))
    return a, b


_BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Equal": "eq", "Less": "lt", "Greater": "gt",
    "LessOrEqual": "le", "GreaterOrEqual": "ge", "And": "logical_and", "Or": "logical_or",
    "Xor": "logical_xor", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
}
_FOLDED = {"Sum": "add", "Max": "maximum", "Min": "minimum"}


@rule("Pow")
def _pow(c: Call, a: Tensor, b: Tensor) -> Tensor:
    a, b = _aligned(c, a, b)
    kind = a.dtype
    if kind.is_integer and b.dtype.is_float:
        a = to(a, dtypes.float64)
    return to(A("pow", a, to(b, a.dtype)), kind)


@rule("BitShift")
def _shift(c: Call, a: Tensor, b: Tensor) -> Tensor:
    left = c.text("direction", "") == "LEFT"
    zero = like(0, a)
    gone = A("logical_or", A("lt", b, zero), A("ge", b, like(8 * a.dtype.itemsize, b)))
    none = zero if left or a.dtype.kind == "uint" else \
        A("where", A("lt", a, zero), like(-1, a), zero)
    return A("where", gone, none, A("shift_left" if left else "shift_right", a, b))


@rule("Mean")
def _mean(c: Call, *xs: Tensor) -> Tensor:
    total = reduce(lambda a, b: A("add", a, b), map(wide, xs))
    return to(A("div", total, like(len(xs), total)), xs[0].dtype)


rules({
    " ".join(_BINARY): lambda c, a, b: A(_BINARY[c.node.op], *_aligned(c, a, b)),
    " ".join(_FOLDED): lambda c, *xs: reduce(lambda a, b: A(_FOLDED[c.node.op], a, b), xs),
    "Div": lambda c, a, b: A("trunc_div" if a.dtype.is_integer else "div", *_aligned(c, a, b)),
    "Mod": lambda c, a, b: A("fmod" if c.flag("fmod") else "mod", a, b),
    "Where": lambda c, condition, x, y: A("where", condition, x, y),
})


@rule("SwiGLU")
def _swiglu(c: Call, x: Tensor, gate: Tensor) -> Tensor:
    alpha = c.real("alpha", 1.0)
    return A("mul", A("mul", x, A("sigmoid", A("mul", x, like(alpha, x)))), gate)


# --- products -------------------------------------------------------------------------------------


@rule("com.microsoft::FusedMatMul")
def _fused_matmul(c: Call, a: Tensor, b: Tensor) -> Tensor:
    if c.flag("transBatchA") or c.flag("transBatchB"):
        raise c.refuse("its transposed batches are not read")
    out = A("matmul", a, b, transpose_a=c.flag("transA"), transpose_b=c.flag("transB"))
    alpha = c.real("alpha", 1.0)
    return out if alpha == 1.0 else A("mul", out, like(alpha, out))


@rule("Gemm")
def _gemm(c: Call, a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    if a.dtype.is_integer:
        raise c.refuse(f"products of {a.dtype.name} are not computed")
    alpha, beta = c.real("alpha", 1.0), c.real("beta", 1.0)
    turned = c.flag("transA"), c.flag("transB")
    if bias is not None and alpha == beta == 1.0 and turned == (False, True) and \
            bias.shape == (b.shape[0],):
        return A("dense", a, b, bias)
    out = A("matmul", a, b, transpose_a=turned[0], transpose_b=turned[1])
    out = out if alpha == 1.0 else A("mul", out, like(alpha, out))
    if bias is None or beta == 0.0:
        return out
    return A("add", out, bias if beta == 1.0 else A("mul", bias, like(beta, bias)))


rules({
    "MatMul": lambda c, a, b: linalg.matmul(a, b),
    "Einsum": lambda c, *xs: linalg.einsum(c.text("equation", "").replace(" ", ""), *xs),
    "Det": lambda c, x: elimination.det(x),
})


# --- draws ----------------------------------------------------------------------------------------


def _drawn(c: Call, shape: Any, dtype: Any) -> Tensor:
    if c.node.op.startswith("RandomNormal"):
        mean, scale = c.real("mean", 0.0), c.real("scale", 1.0)
        return to(draws.normal(shape, mean, scale), dtype)
    low, high = c.real("low", 0.0), c.real("high", 1.0)
    return to(draws.uniform(shape, low, high), dtype)


rules({
    "RandomNormal RandomUniform": lambda c:
        _drawn(c, c.ints("shape", ()), c.dtype("dtype", dtypes.float32)),
    "RandomNormalLike RandomUniformLike": lambda c, x:
        _drawn(c, x.shape, c.dtype("dtype", x.dtype)),
})


@rule("Bernoulli")
def _bernoulli(c: Call, x: Tensor) -> Tensor:
    drawn = A("lt", draws.uniform(x.shape, 0.0, 1.0), to(x, dtypes.float32))
    return to(drawn, c.dtype("dtype", x.dtype))


@rule("Constant", raw=True)
def _constant(c: Call) -> Known:
    for name, kind in (("value_float", np.float32), ("value_int", np.int64),
                       ("value_floats", np.float32), ("value_ints", np.int64)):
        if name in c.attrs:
            return Known(np.array(c.attrs[name], kind))
    if "value" not in c.attrs:
        raise c.refuse(f"its value is {', '.join(c.attrs) or 'not there'}, which is no tensor of "
                       "numbers")
    return Known(c.array(c.attrs["value"]))
