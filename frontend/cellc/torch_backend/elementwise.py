"""Arithmetic, comparisons, logic, activations, conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cellc_runtime import dtypes

from ..core.dispatch import apply_one
from ..ops.functional import arith, special
from ..tensors.tensor import Tensor
from .table import Call, Refused, dtype_of, like, rule, rules, to

A = apply_one

# --- one operand ----------------------------------------------------------------------------------

_UNARY = {
    name: name for name in (
        "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not", "ceil", "cos",
        "cosh", "digamma", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "floor", "isfinite",
        "isinf", "isnan", "lgamma", "log", "log10", "log1p", "log2", "mish", "neg", "reciprocal",
        "relu", "rsqrt", "sigmoid", "sign", "silu", "sin", "sinh", "sqrt", "square", "tan", "tanh",
        "trunc", "relu6", "log_sigmoid_forward")
} | {"hardswish": "hard_swish", "log_sigmoid_forward": "log_sigmoid"}
_FOR_FLOATS = ("ceil", "floor", "trunc", "round")


def _unary(op: str) -> Callable[[Call, Tensor], Any]:
    def apply(c: Call, x: Tensor) -> Any:
        if op in _FOR_FLOATS and not x.dtype.is_float:
            return x
        whole = c.dtype.is_inexact and not x.dtype.is_inexact
        out = A(op, to(x, c.dtype) if whole else x)
        return [out, out] if len(c.values) == 2 else out

    return apply


rules({name: _unary(op) for name, op in {**_UNARY, "round.default": "round"}.items()})


@rule("_to_copy", "prims.convert_element_type", "to")
def _to_copy(c: Call, x: Tensor, *ignored: Any, **options: Any) -> Tensor:
    device = options.get("device")
    if device is not None and str(device) != "cpu":
        raise Refused(f"the device {device}")
    return to(x, c.dtype)


@rule("elu")
def _elu(c: Call, x: Tensor, alpha: float = 1.0, scale: float = 1.0, inner: float = 1.0) -> Tensor:
    if inner != 1.0:
        raise Refused(f"input_scale {inner}")
    y = A("elu", x, alpha=float(alpha))
    return y if scale == 1.0 else A("mul", y, like(scale, y.dtype))


@rule("hardsigmoid")
def _hardsigmoid(c: Call, x: Tensor) -> Tensor:
    y = A("clamp", A("add", x, like(3, x.dtype)), min=0.0, max=6.0)
    return A("div", y, like(6, y.dtype))


rules({
    "logical_not": lambda c, x: A("logical_not", to(x, dtypes.bool_)),
    "alias clone detach lift_fresh_copy lift_fresh contiguous": lambda c, x, **ignored: x,
    "copy": lambda c, x, source, *ignored: A("broadcast_to", to(source, c.dtype), shape=x.shape),
    "gelu": lambda c, x, approximate="none": A("gelu", x, approximate=approximate),
    "leaky_relu": lambda c, x, slope=0.01: A("leaky_relu", x, alpha=float(slope)),
    "softplus": lambda c, x, beta=1.0, threshold=20.0:
        A("softplus", x, beta=float(beta), threshold=float(threshold)),
})


@rule("clamp", "clamp_min", "clamp_max")
def _clamp(c: Call, x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    if c.name == "clamp_max":
        low, high = None, low
    for bound, op in ((low, "maximum"), (high, "minimum")):
        if bound is not None:
            x = A(op, to(x, c.dtype), like(bound, c.dtype))
    return x


# --- two operands and more ------------------------------------------------------------------------

_BINARY = {
    "atan2": "atan2", "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor", "div.Tensor": "div", "div.Scalar": "div", "eq": "eq",
    "fmod": "fmod", "ge": "ge", "gt": "gt", "le": "le", "lt": "lt", "maximum": "maximum",
    "minimum": "minimum", "mul": "mul", "ne": "ne", "pow": "pow", "remainder": "mod",
    "bitwise_left_shift": "shift_left", "bitwise_right_shift": "shift_right",
}


_OF_BOOLS = {"add": "logical_or", "mul": "logical_and"}


def _binary(op: str) -> Callable[[Call, Any, Any], Tensor]:
    def apply(c: Call, a: Any, b: Any) -> Tensor:
        dtype = c.dtype if op == "div" else c.common()
        own = _OF_BOOLS.get(op, op) if dtype is dtypes.bool_ else op
        return A(own, like(a, dtype), like(b, dtype))

    return apply


rules({name: _binary(op) for name, op in _BINARY.items()})


@rule("add", "sub")
def _add(c: Call, a: Any, b: Any, alpha: Any = 1) -> Tensor:
    dtype = c.common()
    a, b = like(a, dtype), like(b, dtype)
    if dtype is dtypes.bool_ and alpha == 1:
        return A(_OF_BOOLS.get(c.name, c.name), a, b)
    return A(c.name, a, b if alpha == 1 else A("mul", b, like(alpha, dtype)))


@rule("rsub")
def _rsub(c: Call, a: Any, b: Any, alpha: Any = 1) -> Tensor:
    dtype = c.common()
    a, b = like(a, dtype), like(b, dtype)
    return A("sub", b, a if alpha == 1 else A("mul", a, like(alpha, dtype)))


@rule("div.Tensor_mode", "div.Scalar_mode", "floor_divide")
def _div_mode(c: Call, a: Any, b: Any, rounding_mode: str | None = "floor") -> Tensor:
    dtype = c.common()
    a, b = like(a, dtype), like(b, dtype)
    if rounding_mode is None:
        return A("div", to(a, c.dtype), to(b, c.dtype))
    return A({"floor": "floor_div", "trunc": "trunc_div"}[rounding_mode], a, b)


rules({
    "hardtanh": lambda c, x, low=-1.0, high=1.0: _clamp(c, x, low, high),
    "logical_and logical_or logical_xor": lambda c, a, b:
        A(c.name, to(a, dtypes.bool_), to(b, dtypes.bool_)),
    "where.self where.ScalarOther where.ScalarSelf where.Scalar": lambda c, condition, a, b:
        A("where", to(condition, dtypes.bool_), like(a, c.dtype), like(b, c.dtype)),
    "masked_fill": lambda c, x, mask, value: A("where", mask, like(value, c.dtype), x),
    "lerp.Scalar lerp.Tensor": lambda c, a, b, weight:
        A("add", a, A("mul", like(weight, a.dtype), A("sub", b, a))),
})


@rule("fmax", "fmin")
def _extremum_of_numbers(c: Call, a: Tensor, b: Tensor) -> Tensor:
    a, b = like(a, c.dtype), like(b, c.dtype)
    found = A("maximum" if c.name == "fmax" else "minimum", a, b)
    if not c.dtype.is_float:
        return found
    return A("where", A("isnan", a), b, A("where", A("isnan", b), a, found))


@rule("addcmul", "addcdiv")
def _addc(c: Call, x: Tensor, a: Tensor, b: Tensor, value: Any = 1) -> Tensor:
    y = A(c.name[4:].replace("c", ""), to(a, c.dtype), to(b, c.dtype))
    return A("add", to(x, c.dtype), y if value == 1 else A("mul", y, like(value, c.dtype)))


# --- new tensors ----------------------------------------------------------------------------------


@rule("full", "new_full")
def _full(c: Call, *given: Any, **ignored: Any) -> Tensor:
    shape, value = given[-2:]
    return A("broadcast_to", like(value, c.dtype), shape=tuple(shape))


@rule("full_like", "zeros_like", "ones_like")
def _full_like(c: Call, x: Tensor, value: Any = None, **ignored: Any) -> Tensor:
    value = {"zeros_like": 0, "ones_like": 1}.get(c.name, value)
    return A("broadcast_to", like(value, c.dtype), shape=x.shape)


@rule("arange.start_step", "arange.start", "arange.default")
def _arange(c: Call, *given: Any, **ignored: Any) -> Tensor:
    start, stop, step = (0, given[0], 1) if len(given) == 1 else (*given, 1)[:3]
    if isinstance(start, float) or isinstance(stop, float) or isinstance(step, float):
        raise Refused("steps that are no ints")
    count = (stop - start + step - 1) // step if step == 1 or step > 0 else \
        (start - stop - step - 1) // -step
    return _steps(c, count, start, step)


def _steps(c: Call, count: Any, start: Any, step: Any) -> Tensor:
    inner = dtypes.int64 if not c.dtype.is_integer else c.dtype
    x = A("iota", shape=(count,), axis=0, dtype=inner)
    x = x if step == 1 else A("mul", x, like(step, inner))
    return x if start == 0 and isinstance(start, int) else A("add", x, like(start, inner))


@rule("empty.memory_format", "new_empty", "empty_like", "new_empty_strided", "empty_strided")
def _empty(c: Call, *given: Any, **ignored: Any) -> Tensor:
    shape = given[0].shape if c.name == "empty_like" else \
        given[1] if c.name.startswith("new") else given[0]
    return A("broadcast_to", like(0, c.dtype), shape=tuple(shape))


@rule("native_dropout")
def _dropout(c: Call, x: Tensor, p: float, train: bool | None = None) -> list[Tensor]:
    if train:
        raise Refused("draws, which are torch's")
    return [x, A("broadcast_to", like(True, dtypes.bool_), shape=x.shape)]


rules({
    "zeros ones new_zeros new_ones": lambda c, *given, **ignored:
        A("broadcast_to", like(int(c.name.endswith("ones")), c.dtype), shape=tuple(given[-1])),
    "complex": lambda c, a, b: arith.complex(a, b),
    "view_as_complex": lambda c, x: arith.complex(*(
        A("gather", x, like(i, dtypes.int64), axis=x.ndim - 1) for i in (0, 1))),
    "view_as_real": lambda c, x: special.view_as_real(x),
    "scalar_tensor": lambda c, value, **ignored: like(value, c.dtype),
    "prims.iota": lambda c, length, start=0, step=1, **ignored: _steps(c, length, start, step),
    "view.dtype": lambda c, x, dtype: A("bitcast", x, dtype=dtype_of(dtype)),
})
