"""Elementwise functions and comparisons: promotion of operands, then one op each.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import numpy as np

from cellc_compiler.ir.dims import is_symbolic
from cellc_runtime.dtypes import DType, bfloat16, bool_, float16, float32, float64, int64, uint64

from ...core.declared import misuse
from ...core.dispatch import apply, apply_one
from ...core.later import naming
from ...core.native import native, native_body, native_of_any_shape
from ...tensors.promotion import (
    cast_to,
    constant,
    fresh,
    inexact,
    is_scalar,
    operand,
    operands,
    weak,
)
from ...tensors.tensor import Tensor
from ..arguments import dtype_of, integer, named, tensor


@native_body(by_op=True, any_shape=True)
def binary(op: str, input: Any, other: Any) -> Tensor:
    """`op` on two operands promoted to one type."""
    x, y = operands(op, input, other)
    return apply_one(op, x, y)


def _whole_number(x: Any, beside: Any) -> bool:
    """Whether `x` is an int combined with a tensor of ints."""
    return isinstance(x, int) and isinstance(beside, Tensor) and beside.dtype.is_integer


@cache
def _limits(dtype: DType) -> tuple[int, int]:
    """The least and the greatest number of an element type of ints."""
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)


@native_body(by_op=True, any_shape=True)
def compare(op: str, input: Any, other: Any) -> Tensor:
    """A comparison; an int is compared as it is, also where it does not fit the tensor's type."""
    for a, b, first in ((input, other, True), (other, input, False)):
        if _whole_number(b, a):
            least, most = _limits(a.dtype)
            if not least <= b <= most:
                wide = int64 if -(2**63) <= b < 2**63 and a.dtype is not uint64 else float64
                x, y = cast_to(a, wide), constant(b, wide)
                return apply_one(op, x, y) if first else apply_one(op, y, x)
    return binary(op, input, other)


@native_body(by_op=True, any_shape=True)
def unary(op: str, input: Any, **attrs: Any) -> Tensor:
    """`op` on a Tensor of floats (ints are converted to float32)."""
    return apply_one(op, inexact(tensor(input, op)), **attrs)


@native_body(by_op=True, any_shape=True)
def same(op: str, input: Any, **attrs: Any) -> Tensor:
    """`op` on a Tensor of any type it takes."""
    return apply_one(op, tensor(input, op), **attrs)


@native_body(by_op=True, any_shape=True)
def _numbers(op: str, on_bools: str, input: Any, other: Any) -> Tensor:
    """`op` on two operands promoted to one type, `on_bools` where that is bool."""
    x, y = operands(op, input, other)
    return apply_one(on_bools if x.dtype is bool_ else op, x, y)


@native_body(by_op=True, any_shape=True)
def _as_numbers(op: str, what: str, input: Any, other: Any) -> Tensor:
    """`op` on two operands promoted to one type, bools as 0 and 1."""
    x, y = operands(what, input, other)
    try:
        return apply_one(op, *as_numbers(x, y))
    except (TypeError, ValueError) as error:
        naming.raise_told(error, what, lambda input, other: None, (input, other), {})


# --- functions of the rows below ------------------------------------------------------------------


class _OfOne(Protocol):
    def __call__(self, input: Tensor) -> Tensor: ...


class _OfTwo(Protocol):
    def __call__(self, input: Any, other: Any) -> Tensor: ...


_OF_RULES = {
    "unary": "Elementwise; ints are computed in float32.",
    "same": "Elementwise, in the type of the input.",
    "_rounding": "Elementwise, to whole numbers in the type of the input; ints stay as they are.",
    "_float_test": "Elementwise, as bools; an int or bool counts as the float of its value.",
    "_of_truths": "Elementwise for all types, as bools; the operands broadcast. NaN is non-zero.",
    "compare": "Bools; the operands broadcast and are promoted to one type. NaN equals nothing.",
}
"""The sentence that the texts of all functions of a rule share."""


def _documented(doc: str, rule: Callable[..., Tensor]) -> str:
    common = "The operands broadcast and are promoted to one type."
    function = getattr(rule, "func", rule)  # a native body is a partial
    return f"{doc} {_OF_RULES.get(function.__name__, common)}"


def _of_one(name: str, doc: str, rule: Callable[[str, Any], Tensor]) -> _OfOne:
    """`rule` for an op, as a public function."""
    def function(input: Tensor) -> Tensor:
        return rule(name, input)

    return named(function, name, _documented(doc, rule))


def _of_two(name: str, doc: str, rule: Callable[..., Tensor], op: str = "", more: str = ""
            ) -> _OfTwo:
    """`rule` for an op (called `name` by default) or two, as a public function."""
    what = op or name

    def function(input: Any, other: Any) -> Tensor:
        return rule(what, input, other)

    def of_both(input: Any, other: Any) -> Tensor:
        return rule(what, more, input, other)

    return named(of_both if more else function, name, _documented(doc, rule))


# --- arithmetic -----------------------------------------------------------------------------------


add = _of_two("add", "input + other. On bools: their logical or.", _numbers, "add", "logical_or")
sub = _of_two(
    "sub", "input - other. On bools: whether they differ.", _numbers, "sub", "logical_xor")


@native
def subtract(input: Any, other: Any, *, alpha: float = 1) -> Tensor:
    """input - alpha * other: the operands broadcast and are promoted to one type; `alpha` is a
    number."""
    return sub(input, other if alpha == 1 else mul(other, alpha))


mul = _of_two("mul", "input * other. On bools: their logical and.", _numbers, "mul", "logical_and")


multiply = mul


@native_of_any_shape
def true_divide(dividend: Any, divisor: Any) -> Tensor:
    """dividend / divisor: the operands broadcast. Ints are divided in float32; x / 0 is infinite, 0
    / 0 is NaN."""
    if _whole_number(divisor, dividend):
        dividend, divisor = cast_to(dividend, float32), float(divisor)
    elif _whole_number(dividend, divisor):
        dividend, divisor = float(dividend), cast_to(divisor, float32)
    x, y = operands("div", dividend, divisor)
    return apply_one("div", inexact(x), inexact(y))


@native_of_any_shape
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """input / other; ints are divided in float32.

    Args:
        rounding_mode: None, `"floor"` (towards minus infinity) or `"trunc"` (towards zero); with
            one of the latter the result has the promoted type of the operands.
    """
    if rounding_mode is None:
        return true_divide(input, other)
    if rounding_mode not in ("floor", "trunc"):
        raise ValueError("For ops.div, rounding_mode value should be None, 'floor' or 'trunc'.")
    if rounding_mode == "floor":
        return floor_divide(input, other)
    return _as_numbers("trunc_div", "div", input, other)


divide = div


def as_numbers(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Bools as int64: what has no meaning on truth values is done on 0 and 1."""
    return (cast_to(x, int64), cast_to(y, int64)) if x.dtype is bool_ else (x, y)


@native_of_any_shape
def floor_divide(input: Any, other: Any) -> Tensor:
    """input / other rounded down, in the promoted type of the operands: -7 by 2 is -4. Ints by 0
    give 0."""
    x, y = operands("floor_divide", input, other)
    if x.dtype is bool_:
        return cast_to(apply("floor_div", *as_numbers(x, y)), bool_)
    return apply_one("floor_div", x, y)


def floor_div(x: Any, y: Any) -> Tensor:
    """x / y rounded down, in the promoted type of the operands: -7 by 2 is -4. Ints by 0 give 0."""
    return floor_divide(x, y)


remainder = _of_two(
    "remainder",
    "input - floor(input / other) * other: it has the sign of the divisor, as Python's `%`.",
    _as_numbers, "mod", "remainder")


def floor_mod(x: Any, y: Any) -> Tensor:
    """x - floor(x / y) * y: the remainder with the sign of the divisor, -7 by 3 is 2. The operands
    broadcast."""
    return remainder(x, y)


fmod = _of_two(
    "fmod", "The remainder with the sign of the dividend, as C's `fmod`.", _as_numbers, "fmod",
    "fmod")


def _power_of(base: Tensor, exponent: Any) -> Tensor | None:
    """base ** exponent for exponents that are exact products, or None."""
    if exponent == 2:
        return apply_one("mul", base, base)
    if exponent == 1:
        return fresh(base)
    return None


@native
def pow(input: Any, exponent: Any) -> Tensor:
    """input ** exponent: the operands broadcast. Ints stay ints; a negative float to a power that
    is not whole is NaN."""
    if isinstance(input, Tensor) and is_scalar(exponent) and not isinstance(exponent, bool):
        if input.dtype.kind == "uint" and isinstance(exponent, int) and exponent < 0:
            return cast_to(eq(input, 1), input.dtype)  # the fraction is cut off
        x = cast_to(input, weak(input.dtype, exponent))
        found = _power_of(x, exponent) if x.dtype is not bool_ else None
        if found is not None:
            return found
    a, b = operands("pow", input, exponent)
    return apply_one("pow", *as_numbers(a, b))


@native
def neg(input: Tensor) -> Tensor:
    """-input, elementwise, in its type: unsigned ints wrap around, bools are a TypeError."""
    if tensor(input, "neg").dtype is bool_:
        raise misuse("neg", "bool tensors are not supported; cast to a number type", kind=TypeError)
    return same("neg", input)


negative = neg


def positive(input: Tensor) -> Tensor:
    """The Tensor itself, whatever its type: the value of `+x`. It is the same object, no elements
    are copied."""
    return tensor(input, "positive")


@native_of_any_shape
def abs(input: Tensor) -> Tensor:
    """|input|, elementwise: of the type of the input; of complex elements the magnitude, in their
    real type. |-128| of int8 is -128."""
    return fresh(input) if tensor(input, "abs").dtype is bool_ else same("abs", input)


absolute = abs


sign = _of_one("sign", "-1, 0 or 1 by the sign of each element; 0 of NaN.", same)


@native
def sgn(input: Tensor) -> Tensor:
    """-1, 0 or 1 by the sign of each element, in its type; x / |x| of complex numbers (0 at 0).
    Bools are a TypeError."""
    if not tensor(input, "sgn").dtype.is_complex:
        return sign(input)
    size = abs(input)
    zero = eq(size, 0)
    return div(input, cast_to(where(zero, 1.0, size), input.dtype))


@native_of_any_shape
def square(input: Tensor) -> Tensor:
    """input * input, elementwise, in the type of the input: ints wrap around where they
    overflow."""
    x = tensor(input, "square")
    return mul(x, x)


reciprocal = _of_one("reciprocal", "1 / input for each element, infinite for 0.", unary)


def inv(x: Tensor) -> Tensor:
    """1 / x, elementwise, infinite for 0.0; of integers rounded towards zero, so 0 unless x is 1 or
    -1."""
    out = unary("reciprocal", x)
    return cast_to(out, x.dtype) if x.dtype.is_integer else out


def sqrt(x: Tensor) -> Tensor:
    """The square root, elementwise, also of complex numbers; NaN below 0. Ints are computed in
    float32."""
    return unary("sqrt", x)


@native
def exp2(input: Tensor) -> Tensor:
    """2 to the power of each element, exact for whole numbers in range. Ints are computed in
    float32."""
    return pow(2.0, inexact(tensor(input, "exp2")))


@native
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """Round half to even, at `decimals` places after the point (before it if negative)."""
    x = tensor(input, "round")
    if not x.dtype.is_inexact:
        return fresh(x)
    if decimals == 0:
        return same("round", x)
    scale = 10.0 ** integer(decimals, "round", "decimals")
    return div(apply("round", mul(x, scale)), scale)


@native_body(by_op=True, any_shape=True)
def _rounding(op: str, input: Tensor) -> Tensor:
    x = tensor(input, op)
    return same(op, x) if x.dtype.is_inexact else fresh(x)


floor = _of_one("floor", "Round down: -1.5 to -2.", _rounding)
ceil = _of_one("ceil", "Round up: -1.5 to -1.", _rounding)
trunc = _of_one("trunc", "Round towards zero: -1.5 to -1.", _rounding)


@native
def frac(x: Tensor) -> Tensor:
    """x - trunc(x), elementwise: the part after the point with its sign, -1.25 gives -0.25. Zeros
    of ints."""
    return sub(x, trunc(x)) if tensor(x, "frac").dtype.is_inexact else mul(x, 0)


maximum = _of_two(
    "maximum", "The larger element; NaN if either is NaN.", _numbers, "maximum", "logical_or")
minimum = _of_two(
    "minimum", "The smaller element; NaN if either is NaN.", _numbers, "minimum", "logical_and")


@native_body(by_op=True, any_shape=True)
def _ignoring_nan(op: str, input: Any, other: Any) -> Tensor:
    x, y = operands(op, input, other)
    if not x.dtype.is_float:
        return maximum(x, y) if op == "maximum" else minimum(x, y)
    both: Tensor = apply(op, x, y)
    return where(isnan(x), y, where(isnan(y), x, both))


fmax = _of_two(
    "fmax", "The larger element; the other one where one is NaN.", _ignoring_nan, "maximum")
fmin = _of_two(
    "fmin", "The smaller element; the other one where one is NaN.", _ignoring_nan, "minimum")


_PLAIN = (int, float, type(None))


def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Each element brought into [min, max], one of which may be None; max where min > max."""
    return _clamp(input, min, max)


@native_body(any_shape=True)
def _clamp(input: Tensor, min: Any, max: Any) -> Tensor:
    x = tensor(input, "clamp")
    if min is None and max is None:
        raise misuse("clamp", "at least one of 'min' and 'max' must not be None")
    if type(min) in _PLAIN and type(max) in _PLAIN and x.dtype.is_float:  # the usual case
        return apply_one("clamp", x, min=min if min is None else float(min),
                         max=max if max is None else float(max))
    if (min is None or is_scalar(min)) and (max is None or is_scalar(max)):
        for bound in (min, max):
            x = x if bound is None else cast_to(x, weak(x.dtype, bound))
        low, high = _plain(min, x.dtype), _plain(max, x.dtype)
        if x.dtype.is_integer:
            low, high = _reachable(low, high, x.dtype)
        return apply_one("clamp", x, min=low, max=high)
    if min is not None:
        x = maximum(x, min)
    return x if max is None else minimum(x, max)


def _plain(bound: Any, dtype: DType) -> Any:
    """A bound as a Python number of the kind of the elements."""
    if bound is None:
        return None
    if isinstance(bound, (builtins.complex, np.complexfloating)):
        raise misuse("clamp", "a bound must be a real number", bound, TypeError)
    if is_symbolic(bound):
        return bound
    return float(bound) if dtype.is_float else int(bound)


def _reachable(low: int | None, high: int | None, dtype: DType) -> tuple[int | None, int | None]:
    """Bounds for elements of an integer type: one that all of them keep is none."""
    least, most = _limits(dtype)
    for bound, out in ((low, low is not None and low > most),
                       (high, high is not None and high < least)):
        if out:
            raise misuse("clamp", f"the bound {bound} is no number of {dtype}, which has {least} "
                         f"to {most}. Convert the input to a wider type first")
    return (None if low is None or low < least else low,
            None if high is None or high > most else high)


def clip(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """`clamp` under its other name: min(max(x, min), max), where either bound may be None but not
    both."""
    return _clamp(input, min, max)


# --- comparison and logic -------------------------------------------------------------------------


eq = _of_two("eq", "Whether input == other, elementwise.", compare)
ne = _of_two("ne", "Whether input != other, elementwise.", compare)
lt = _of_two("lt", "Whether input < other, elementwise.", compare)
le = _of_two("le", "Whether input <= other, elementwise.", compare)
gt = _of_two("gt", "Whether input > other, elementwise.", compare)
ge = _of_two("ge", "Whether input >= other, elementwise.", compare)


def _truth(x: Any, what: str) -> Tensor:
    x = operand(x, what)
    t = x if isinstance(x, Tensor) else constant(bool(x), bool_)
    return cast_to(t, bool_)


@native_body(by_op=True, any_shape=True)
def _of_truths(op: str, *given: Any) -> Tensor:
    return apply_one(op, *[_truth(x, op) for x in given])


logical_and = _of_two("logical_and", "Whether both elements are non-zero.", _of_truths)
logical_or = _of_two("logical_or", "Whether at least one element is non-zero.", _of_truths)
logical_xor = _of_two("logical_xor", "Whether exactly one element is non-zero.", _of_truths)


def logical_not(input: Any) -> Tensor:
    """Whether each element is 0, as bools of the same shape: not x for bools. NaN counts as
    non-zero."""
    return _of_truths("logical_not", input)


@native_body(by_op=True, any_shape=True)
def _bitwise(op: str, input: Any, other: Any) -> Tensor:
    x, y = operands(op, input, other)
    if not (x.dtype.is_integer or x.dtype is bool_):
        raise misuse(op, "operands must be ints or bools", x.dtype, TypeError)
    return apply_one(op, x, y)


bitwise_and = _of_two("bitwise_and", "input & other, bit by bit, of ints or bools.", _bitwise)
bitwise_or = _of_two("bitwise_or", "input | other, bit by bit, of ints or bools.", _bitwise)
bitwise_xor = _of_two("bitwise_xor", "input ^ other, bit by bit, of ints or bools.", _bitwise)
bitwise_left_shift = _of_two(
    "bitwise_left_shift", "input << other for ints: input * 2**other.", _bitwise, "shift_left")
bitwise_right_shift = _of_two(
    "bitwise_right_shift", "input >> other for ints: input / 2**other, rounded down.",
    _bitwise, "shift_right")
bitwise_not = _of_one("bitwise_not", "All bits flipped (the logical not of bools).", same)


def invert(x: Tensor) -> Tensor:
    """~x: each bit of the integers flipped, -x - 1 for signed types. Floats are a TypeError."""
    return bitwise_not(x)


@native_body(by_op=True, any_shape=True)
def _float_test(op: str, input: Any) -> Tensor:
    x = tensor(input, op)
    if x.dtype.is_inexact:
        return same(op, x)
    return eq(x, x) if op == "isfinite" else ne(x, x)


isnan = _of_one("isnan", "Whether each element is NaN.", _float_test)
isinf = _of_one("isinf", "Whether each element is infinite.", _float_test)
isfinite = _of_one("isfinite", "Whether each element is neither NaN nor infinite.", _float_test)


@native
def isposinf(input: Tensor) -> Tensor:
    """Whether each element is +infinity, as bools of the same shape: `x == inf`. False for all
    ints."""
    return eq(tensor(input, "isposinf"), math.inf)


@native
def isneginf(input: Tensor) -> Tensor:
    """Whether each element is -infinity, as bools of the same shape: `x == -inf`. False for all
    ints."""
    return eq(tensor(input, "isneginf"), -math.inf)


@native
def isreal(input: Tensor) -> Tensor:
    """Whether the imaginary part of each element is zero, as bools of the same shape. True for real
    tensors."""
    return eq(imag(tensor(input, "isreal")), 0)


@native
def signbit(input: Tensor) -> Tensor:
    """Whether the sign bit of each element is set, as bools of the same shape: True below 0 and for
    -0.0."""
    x = tensor(input, "signbit")
    if not x.dtype.is_float:
        return lt(x, 0)
    return logical_or(lt(x, 0), eq(apply("reciprocal", x), -math.inf))


@native
def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08,
    equal_nan: bool = False,
) -> Tensor:
    """|input - other| <= atol + rtol * |other|, elementwise.

    Args:
        equal_nan: whether two NaNs are close.
    """
    x, y = (inexact(t) for t in operands("isclose", input, other))
    near = le(abs(sub(x, y)), add(mul(abs(y), rtol), atol))
    # Infinities are close only to themselves: inf <= inf + ... would hold for finite x too.
    near = logical_or(eq(x, y), logical_and(near, isfinite(y)))
    return logical_or(near, logical_and(isnan(x), isnan(y))) if equal_nan else near


@native_of_any_shape
def where(condition: Any, input: Any, other: Any) -> Tensor:
    """`input` where the condition holds, `other` elsewhere: all three broadcast; numbers and
    tensors are promoted to one type."""
    c = _truth(condition, "where")
    x, y = operands("where", input, other)
    return apply_one("where", c, x, y)


@native_of_any_shape
def select(condition: Any, input: Any, other: Any) -> Tensor:
    """`where` under its older name: input where the condition holds, other elsewhere, all
    broadcast."""
    return where(condition, input, other)


@native_of_any_shape
def masked_fill(input_x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`value` where the mask holds, input_x elsewhere: of the broadcast shape, in the type of
    input_x. `value` is a number or a scalar tensor."""
    x = tensor(input_x, "masked_fill", "input_x")
    if tensor(mask, "masked_fill", "mask").dtype is not bool_:
        raise misuse("masked_fill", "'mask' must be a bool tensor", mask.dtype, TypeError)
    v = operand(value, "masked_fill", "value")
    filler = cast_to(v, x.dtype) if isinstance(v, Tensor) else constant(v, x.dtype)
    return apply_one("where", mask, filler, x)


# --- conversion -----------------------------------------------------------------------------------


@native_of_any_shape
def cast(input: Any, dtype: DType) -> Tensor:
    """input in another element type: floats to ints towards zero, numbers to bools as `!= 0`."""
    to = dtype_of(dtype, "cast")
    x = operand(input, "cast")
    return cast_to(x, to) if isinstance(x, Tensor) else constant(x, to)


# --- complex --------------------------------------------------------------------------------------


@native
def real(input: Tensor) -> Tensor:
    """The real part of each element, in the real type: float32 of complex64. A real tensor is
    returned as it is."""
    return same("real", input) if tensor(input, "real").dtype.is_complex else fresh(input)


@native
def imag(input: Tensor) -> Tensor:
    """The imaginary part of each element, in the real type: float32 of complex64. Zeros of a real
    tensor."""
    x = tensor(input, "imag")
    return same("imag", x) if x.dtype.is_complex else sub(x, x)


@native
def conj(input: Tensor) -> Tensor:
    """The complex conjugate: a - bi of a + bi, elementwise. Real tensors are returned as they
    are."""
    return same("conj", input) if tensor(input, "conj").dtype.is_complex else fresh(input)


@native
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """real + imag * i: complex64 of float32 operands, complex128 of float64; they have one type and
    broadcast."""
    x, y = (inexact(t) for t in operands("complex", real, imag))
    return apply_one("make_complex", x, y)


def wide(x: Tensor) -> Tensor:
    """16-bit floats in float32: what is summed is rounded once, at the end."""
    return cast_to(x, float32) if x.dtype in (float16, bfloat16) else x


def largest(dtype: DType) -> Any:
    """The largest finite number of a float type."""
    return 3.3895313892515355e38 if dtype.name == "bfloat16" else np.finfo(dtype.numpy).max
