"""Formulas of several elementwise ops: lerp, hypot, logaddexp, xlogy, nan_to_num and kin.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import math
from typing import Any

from cellc_runtime.dtypes import complex128, float64

from ..core.dispatch import apply
from ..core.native import native, native_body
from ..tensors.promotion import (
    cast_to,
    constant,
    inexact,
    operands,
)
from ..tensors.tensor import Tensor
from .arguments import tensor
from .functional_math import (
    _true_div,
    abs,
    add,
    clamp,
    complex,
    div,
    eq,
    imag,
    isinf,
    isnan,
    isneginf,
    isposinf,
    largest,
    logical_or,
    lt,
    maximum,
    minimum,
    mul,
    neg,
    pow,
    real,
    same,
    signbit,
    sub,
    where,
)


@native_body(by_op=True, any_shape=True)
def _inexact(op: str, input: Any, other: Any) -> Tensor:
    """`op` on two operands promoted to one type of floats."""
    x, y = operands(op, input, other)
    out: Tensor = apply(op, inexact(x), inexact(y))
    return out


@native
def float_power(input: Any, exponent: Any) -> Tensor:
    """input ** exponent, computed in float64 (complex128 for complex operands)."""
    x, y = operands("float_power", input, exponent)
    wide = complex128 if x.dtype.is_complex else float64
    return pow(cast_to(x, wide), cast_to(y, wide))


def clip_by_value(x: Any, clip_value_min: Any = None, clip_value_max: Any = None) -> Any:
    """`clamp` of a Tensor, or of each in a list or tuple."""
    if isinstance(x, (list, tuple)):
        return type(x)(clamp(v, clip_value_min, clip_value_max) for v in x)
    return clamp(x, clip_value_min, clip_value_max)


@native
def angle(input: Tensor) -> Tensor:
    """The angle of a complex number in radians; 0 or pi of a real one by its sign."""
    x = tensor(input, "angle")
    if x.dtype.is_complex:
        return same("angle", x)
    x = inexact(x)
    return where(isnan(x), x, where(lt(x, 0), math.pi, 0.0))


@native
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """The complex numbers of given magnitudes and angles in radians."""
    return complex(mul(abs, apply("cos", angle)), mul(abs, apply("sin", angle)))


@native
def view_as_real(input: Tensor) -> Tensor:
    """A last axis of 2 with real and imaginary parts."""
    x = tensor(input, "view_as_real")
    out: Tensor = apply("stack", real(x), imag(x), axis=x.ndim)
    return out


@native
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, value: Any = 1) -> Tensor:
    """input + value * tensor1 * tensor2."""
    return add(input, mul(mul(tensor1, tensor2), value))


@native
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, value: Any = 1) -> Tensor:
    """input + value * tensor1 / tensor2."""
    return add(input, mul(_true_div(tensor1, tensor2), value))


@native
def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """input + weight * (end - input)."""
    return add(input, mul(sub(end, input), weight))


@native
def addn(x: Any) -> Tensor:
    """The sum of a list of tensors, from first to last.

    Raises:
        TypeError: `x` is no list or tuple, or empty.
    """
    if not isinstance(x, (list, tuple)) or not x:
        raise TypeError(f"For 'addn', 'x' must be a non-empty list or tuple, but got {x!r}.")
    total = tensor(x[0], "addn")
    for t in x[1:]:
        total = add(total, t)
    return total


accumulate_n = addn


@native
def deg2rad(x: Tensor) -> Tensor:
    """Degrees to radians."""
    return mul(inexact(tensor(x, "deg2rad")), math.pi / 180)


@native
def rad2deg(x: Tensor) -> Tensor:
    """Radians to degrees."""
    return mul(inexact(tensor(x, "rad2deg")), 180 / math.pi)


def atan2(input: Any, other: Any) -> Tensor:
    """The angle of the point (other, input) from the x axis, in (-pi, pi]."""
    return _inexact("atan2", input, other)


@native
def hypot(input: Tensor, other: Tensor) -> Tensor:
    """sqrt(input**2 + other**2), scaled so that it does not overflow."""
    x, y = (abs(inexact(t)) for t in operands("hypot", input, other))
    infinite = logical_or(isinf(x), isinf(y))
    a, b = where(infinite, 1.0, x), where(infinite, 1.0, y)
    big, small = maximum(a, b), minimum(a, b)
    ratio = div(small, where(eq(big, 0), 1.0, big))
    out = mul(big, apply("sqrt", add(mul(ratio, ratio), 1.0)))
    return where(isinf(x), x, where(isinf(y), y, out))


@native
def copysign(x: Tensor, other: Any) -> Tensor:
    """|x| with the sign of other."""
    a, b = (inexact(t) for t in operands("copysign", x, other))
    return where(signbit(b), neg(abs(a)), abs(a))


@native
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 below 0, 1 above, `values` at 0."""
    x, v = operands("heaviside", input, values)
    one, zero = constant(1, x.dtype), constant(0, x.dtype)
    return where(eq(x, 0), v, where(lt(x, 0), zero, where(isnan(x), x, one)))


@native
def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """log(exp(input) + exp(other)), without overflow."""
    x, y = (inexact(t) for t in operands("logaddexp", input, other))
    big = maximum(x, y)
    out = add(big, apply("log1p", apply("exp", neg(abs(sub(x, y))))))
    return where(isinf(big), big, out)


@native
def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """log2(2**input + 2**other), without overflow."""
    x, y = (inexact(t) for t in operands("logaddexp2", input, other))
    big = maximum(x, y)
    spread = mul(neg(abs(sub(x, y))), math.log(2))
    out = add(big, mul(apply("log1p", apply("exp", spread)), 1 / math.log(2)))
    return where(isinf(big), big, out)


@native
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), x first brought into [eps, 1 - eps] if eps is given."""
    x = inexact(tensor(input, "logit"))
    out: Tensor = apply("logit", x, eps=None if eps is None else float(eps))
    return out


def xlogy(input: Any, other: Any) -> Tensor:
    """input * log(other), 0 where input is 0 (NaN where other is NaN)."""
    return _inexact("xlogy", input, other)


@native
def xdivy(x: Any, y: Any) -> Tensor:
    """x / y, 0 where x is 0."""
    a, b = (inexact(t) for t in operands("xdivy", x, y))
    zero = eq(a, 0)
    return where(zero, 0.0, div(a, where(zero, 1.0, b)))


@native
def sinc(input: Tensor) -> Tensor:
    """sin(pi x) / (pi x), 1 at 0."""
    out: Tensor = apply("sinc", inexact(tensor(input, "sinc")))
    return out


@native
def nan_to_num(
    input: Tensor, nan: float | None = None, posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    """NaN and infinities replaced: by 0 and the largest and smallest finite numbers by default."""
    x = tensor(input, "nan_to_num")
    if not x.dtype.is_float:
        return x
    top = float(largest(x.dtype))
    x = where(isnan(x), constant(0.0 if nan is None else float(nan), x.dtype), x)
    x = where(isposinf(x), constant(top if posinf is None else float(posinf), x.dtype), x)
    return where(isneginf(x), constant(-top if neginf is None else float(neginf), x.dtype), x)


__all__ = [
    "accumulate_n", "addcdiv", "addcmul", "addn", "angle", "atan2", "clip_by_value", "copysign",
    "deg2rad", "float_power", "heaviside", "hypot", "lerp", "logaddexp", "logaddexp2", "logit",
    "nan_to_num", "polar", "rad2deg", "sinc", "view_as_real", "xdivy", "xlogy",
]
