"""Formulas of several elementwise ops: lerp, hypot, logaddexp, xlogy, nan_to_num and kin.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import math
from typing import Any

from cellc_runtime.dtypes import complex128, float64

from ...core.declared import misuse
from ...core.dispatch import apply, apply_one
from ...core.native import native, native_body, native_of_types
from ...tensors.promotion import cast_to, constant, fresh, inexact, operands
from ...tensors.tensor import Tensor
from ..arguments import number, tensor
from ..operands import operands_of
from . import arith, creation, shapes


@native_body(by_op=True, any_shape=True)
def _inexact(op: str, input: Any, other: Any) -> Tensor:
    """`op` on two operands promoted to one type of floats."""
    x, y = operands(op, input, other)
    return apply_one(op, inexact(x), inexact(y))


@native
def float_power(input: Any, exponent: Any) -> Tensor:
    """input ** exponent, computed in float64 (complex128 for complex operands); tensors or numbers,
    which broadcast."""
    x, y = operands("float_power", input, exponent)
    wide = complex128 if x.dtype.is_complex else float64
    return cast_to(x, wide) ** cast_to(y, wide)


def clip_by_value(x: Any, clip_value_min: Any = None, clip_value_max: Any = None) -> Any:
    """min(max(x, clip_value_min), clip_value_max) of a Tensor, or of each in a list or tuple of
    them."""
    if isinstance(x, (list, tuple)):
        return type(x)(arith.clamp(v, clip_value_min, clip_value_max) for v in x)
    return arith.clamp(x, clip_value_min, clip_value_max)


@native
def angle(input: Tensor) -> Tensor:
    """The angle of a complex number in radians, in (-pi, pi]; of a real one 0, or pi where it is
    negative."""
    x = tensor(input, "angle")
    if x.dtype.is_complex:
        return arith.same("angle", x)
    x = inexact(x)
    return arith.where(arith.isnan(x), x, arith.where(x < 0, math.pi, 0.0))


@native
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """abs * (cos(angle) + i sin(angle)): complex numbers of given magnitudes and angles in radians;
    complex64 of float32."""
    size, turn = tensor(abs, "polar", "abs"), tensor(angle, "polar", "angle")
    return arith.complex(size * apply("cos", turn), size * apply("sin", turn))


@native
def view_as_real(input: Tensor) -> Tensor:
    """Complex numbers (...) as real ones (..., 2): the last axis has the real and the imaginary
    part."""
    x = tensor(input, "view_as_real")
    return apply_one("stack", arith.real(x), arith.imag(x), axis=x.ndim)


@native
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, value: Any = 1) -> Tensor:
    """input + value * tensor1 * tensor2: all three broadcast; `value` is a number or a Tensor."""
    return arith.add(input, arith.mul(arith.mul(tensor1, tensor2), value))


@native
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, value: Any = 1) -> Tensor:
    """input + value * tensor1 / tensor2: all three broadcast; `value` is a number or a Tensor."""
    return arith.add(input, arith.mul(arith.true_divide(tensor1, tensor2), value))


@native
def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """input + weight * (end - input): from `input` at weight 0 to `end` at weight 1. The weight is
    a number or a tensor; all broadcast."""
    return arith.add(input, arith.mul(arith.sub(end, input), weight))


@native
def addn(x: Any) -> Tensor:
    """The sum of a list or tuple of tensors, added from first to last; they broadcast and are
    promoted to one type."""
    if not isinstance(x, (list, tuple)) or not x:
        raise misuse("addn", "'x' must be a non-empty list or tuple", repr(x), TypeError)
    total = tensor(x[0], "addn")
    for t in x[1:]:
        total = arith.add(total, t)
    return total


accumulate_n = addn


@native
def deg2rad(x: Tensor) -> Tensor:
    """x pi / 180, elementwise: angles in degrees as radians. Ints are computed in float32."""
    return inexact(tensor(x, "deg2rad")) * (math.pi / 180)


@native
def rad2deg(x: Tensor) -> Tensor:
    """x 180 / pi, elementwise: angles in radians as degrees. Ints are computed in float32."""
    return inexact(tensor(x, "rad2deg")) * (180 / math.pi)


def atan2(input: Any, other: Any) -> Tensor:
    """The angle in radians, in [-pi, pi], of the point with coordinates (other, input) from the x
    axis; the operands broadcast."""
    return _inexact("atan2", input, other)


@native
def hypot(input: Tensor, other: Tensor) -> Tensor:
    """sqrt(input**2 + other**2), elementwise with broadcasting, scaled so that the squares do not
    overflow."""
    x, y = (arith.abs(inexact(t)) for t in operands("hypot", input, other))
    infinite = arith.logical_or(arith.isinf(x), arith.isinf(y))
    a, b = arith.where(infinite, 1.0, x), arith.where(infinite, 1.0, y)
    big, small = arith.maximum(a, b), arith.minimum(a, b)
    ratio = small / arith.where(big == 0, 1.0, big)
    out = big * apply("sqrt", ratio * ratio + 1.0)
    return arith.where(arith.isinf(x), x, arith.where(arith.isinf(y), y, out))


@native
def copysign(x: Tensor, other: Any) -> Tensor:
    """|x| with the sign of `other` (the sign of -0.0 is negative), elementwise; the operands
    broadcast. Ints are computed in float32."""
    a, b = (inexact(t) for t in operands("copysign", x, other))
    return arith.where(arith.signbit(b), -arith.abs(a), arith.abs(a))


@native
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """The step function: 0 where input < 0, 1 where input > 0, `values` where it is 0; NaN stays.
    The operands broadcast."""
    x, v = operands("heaviside", input, values)
    one, zero = constant(1, x.dtype), constant(0, x.dtype)
    return arith.where(x == 0, v, arith.where(x < 0, zero, arith.where(arith.isnan(x), x, one)))


@native
def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """log(exp(input) + exp(other)), elementwise with broadcasting, computed without overflow."""
    x, y = (inexact(t) for t in operands("logaddexp", input, other))
    big = arith.maximum(x, y)
    out = big + apply("log1p", apply("exp", -arith.abs(x - y)))
    return arith.where(arith.isinf(big), big, out)


@native
def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """log2(2**input + 2**other), elementwise with broadcasting, computed without overflow."""
    x, y = (inexact(t) for t in operands("logaddexp2", input, other))
    big = arith.maximum(x, y)
    spread = -arith.abs(x - y) * math.log(2)
    out = big + apply("log1p", apply("exp", spread)) * (1 / math.log(2))
    return arith.where(arith.isinf(big), big, out)


@native
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), the inverse of sigmoid, for x in (0, 1); x is first brought into [eps, 1 -
    eps] if `eps` is given."""
    x = inexact(tensor(input, "logit"))
    return apply_one("logit", x, eps=None if eps is None else float(number(eps, "logit", "eps")))


def xlogy(input: Any, other: Any) -> Tensor:
    """input * log(other), 0 where input is 0 unless other is NaN: elementwise with broadcasting.
    Ints are computed in float32."""
    return _inexact("xlogy", input, other)


@native
def xdivy(x: Any, y: Any) -> Tensor:
    """x / y, and 0 where x is 0 even if y is 0: elementwise with broadcasting. Ints are computed in
    float32."""
    a, b = (inexact(t) for t in operands("xdivy", x, y))
    zero = a == 0
    return arith.where(zero, 0.0, a / arith.where(zero, 1.0, b))


@native
def sinc(input: Tensor) -> Tensor:
    """sin(pi x) / (pi x), 1 at x = 0, elementwise: 0 at all other whole numbers but for rounding.
    Ints are computed in float32."""
    return apply_one("sinc", inexact(tensor(input, "sinc")))


@native
def nan_to_num(
    input: Tensor, nan: float | None = None, posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    """NaN and infinities replaced: by 0 and the largest and smallest finite numbers by default."""
    x = tensor(input, "nan_to_num")
    if not x.dtype.is_float:
        return fresh(x)
    top = float(arith.largest(x.dtype))

    def instead(given: Any, name: str, usual: float) -> Tensor:
        return constant(usual if given is None else float(number(given, "nan_to_num", name)),
                        x.dtype)

    lowest, highest = instead(neginf, "neginf", -top), instead(posinf, "posinf", top)
    out = arith.where(arith.isnan(x), instead(nan, "nan", 0.0), x)
    return arith.where(arith.isneginf(out), lowest, arith.where(arith.isposinf(out), highest, out))


@native
def approximate_equal(x: Tensor, y: Tensor, tolerance: float = 1e-5) -> Tensor:
    """Whether |x - y| < tolerance, elementwise, as bools: for values that differ by rounding.
    `tolerance` is 1e-5 by default."""
    return arith.lt(arith.abs(arith.sub(x, y)), number(tolerance, "approximate_equal", "tolerance"))


@native
def ldexp(x: Tensor, other: Tensor) -> Tensor:
    """x * 2**other, elementwise with broadcasting: exact unless it overflows or gets too small.
    Ints are computed in float32."""
    return tensor(x, "ldexp", "x") * arith.exp2(inexact(tensor(other, "ldexp", "other")))


@native
def truncate_div(x: Any, y: Any) -> Tensor:
    """x / y, elementwise with broadcasting; the quotients of ints are cut towards zero, -7 by 2 is
    -3."""
    a, b = operands("truncate_div", x, y)
    return arith.div(a, b, rounding_mode=None if a.dtype.is_inexact else "trunc")


def truncate_mod(x: Any, y: Any) -> Tensor:
    """The remainder of x / y with the sign of x, elementwise with broadcasting: -7 by 2 is -1."""
    return arith.fmod(x, y)


@native_of_types
def type_as(input: Tensor, other: Tensor) -> Tensor:
    """`input` converted to the element type of `other`; its shape stays, and that of `other` does
    not matter."""
    return cast_to(tensor(input, "type_as"), tensor(other, "type_as", "other").dtype)


def is_nonzero(input: Tensor) -> Tensor:
    """Whether the element of a tensor of one element is not zero. Other numbers of elements are a
    ValueError."""
    x = tensor(input, "is_nonzero")
    if x.size != 1:
        raise misuse("is_nonzero", "one element is needed", f"shape {x.shape}")
    return shapes.reshape(x, ()) != 0


def eps(x: Tensor) -> Tensor:
    """A tensor of the shape and float type of x, filled with the distance of 1 to the next number
    of the type."""
    (t,) = operands_of("eps", "x float", x)
    steps = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23}
    return creation.full_like(t, steps.get(t.dtype.name, 2.0**-52))


# Other names of functions.
equal, not_equal, less, less_equal = arith.eq, arith.ne, arith.lt, arith.le
greater, greater_equal = arith.gt, arith.ge
tensor_gt, tensor_ge, tensor_lt, tensor_le = arith.gt, arith.ge, arith.lt, arith.le
tensor_add, tensor_sub, tensor_mul, tensor_div = arith.add, arith.sub, arith.mul, arith.true_divide
tensor_pow, tensor_floordiv, tensor_mod = arith.pow, arith.floor_divide, arith.remainder
arctan2, floordiv, floormod = atan2, arith.floor_divide, arith.remainder
