
"""Functions of each element, and of two tensors element by element.

Source: the same names in `mindspore.numpy`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cellc_runtime.dtypes import bool_, float32, int32
from cellc_runtime.lazy import names_of

from ..core.declared import misuse
from ..core.dispatch import apply, apply_one
from ..ops.functional import arith, divisors, joining, special
from ..tensors.promotion import cast_to, fresh, inexact
from ..tensors.tensor import Tensor
from ._tensors import as_tensor, finished, to_dtype, together

Function = Callable[..., Any]


def _parameters(*names: str, dtype: bool = True) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    given = [inspect.Parameter(n, kind) for n in names]
    last = [inspect.Parameter("dtype", kind, default=None)] if dtype else []
    return inspect.Signature(given + last)


def _named(fn: Function, name: str, doc: str, signature: inspect.Signature) -> Function:
    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = f"{doc}\n\nSource: `mindspore.numpy.{name}`."
    fn.__signature__ = signature  # type: ignore[attr-defined]  # for inspect
    return fn


def _of_one(name: str, compute: Function, doc: str, first: str = "x", dtype: bool = True
            ) -> Function:
    signature = _parameters(first, dtype=dtype)

    def function(*args: Any, **kwargs: Any) -> Tensor:
        bound = signature.bind(*args, **kwargs)
        given = bound.arguments
        out = compute(as_tensor(given[first], name, first))
        return finished(out, given.get("dtype"), name)

    return _named(function, name, doc, signature)


def _of_two(name: str, compute: Function, doc: str) -> Function:
    signature = _parameters("x1", "x2")

    def function(x1: Any, x2: Any, dtype: Any = None) -> Tensor:
        a, b = as_tensor(x1, name, "x1"), as_tensor(x2, name, "x2")
        return finished(compute(a, b), dtype, name)

    return _named(function, name, doc, signature)


def _float(op: str) -> Function:
    """An op on floats; ints are taken in float32."""
    return lambda x: apply_one(op, inexact(x))


def _cbrt(x: Tensor) -> Tensor:
    t = inexact(x)
    size = arith.abs(t) ** (1.0 / 3.0)
    return arith.where(t < 0, -size, size)


def _fix(x: Tensor) -> Tensor:
    return arith.trunc(inexact(x))


def _reciprocal(x: Tensor) -> Tensor:
    if x.dtype.is_inexact:
        return arith.reciprocal(x)
    whole = cast_to(x, int32) if x.dtype is bool_ else x
    return cast_to(arith.trunc(1 / whole), whole.dtype)


def _infinite(test: Function) -> Function:
    return lambda x: test(x) if x.dtype.is_float else arith.ne(x, x)


_ONE: tuple[tuple[Any, ...], ...] = (
    ("abs", arith.abs, "The absolute value."),
    ("absolute", arith.abs, "The absolute value."),
    ("fabs", lambda x: arith.abs(inexact(x)), "The absolute value, of floats."),
    ("arccos", _float("acos"), "The angle of a cosine.", "input"),
    ("arccosh", _float("acosh"), "The inverse of cosh."),
    ("arcsin", _float("asin"), "The angle of a sine."),
    ("arcsinh", _float("asinh"), "The inverse of sinh."),
    ("arctan", _float("atan"), "The angle of a tangent."),
    ("arctanh", _float("atanh"), "The inverse of tanh."),
    ("cbrt", _cbrt, "The cube root."),
    ("ceil", lambda x: arith.ceil(inexact(x)), "The smallest whole number not below."),
    ("cos", _float("cos"), "The cosine."),
    ("cosh", _float("cosh"), "The hyperbolic cosine."),
    ("deg2rad", special.deg2rad, "Degrees to radians."),
    ("radians", special.deg2rad, "Degrees to radians."),
    ("rad2deg", special.rad2deg, "Radians to degrees."),
    ("exp", _float("exp"), "e to the power x."),
    ("exp2", lambda x: arith.exp2(x) if x.dtype.is_inexact else arith.pow(as_tensor(2, "exp2"), x),
     "2 to the power x."),
    ("expm1", _float("expm1"), "exp(x) - 1, exact near 0."),
    ("fix", _fix, "Towards zero to a whole number.", "x", False),
    ("floor", lambda x: arith.floor(inexact(x)), "The largest whole number not above."),
    ("log", _float("log"), "The natural logarithm."),
    ("log10", _float("log10"), "The logarithm to base 10."),
    ("log1p", _float("log1p"), "log(1 + x), exact near 0."),
    ("log2", _float("log2"), "The logarithm to base 2."),
    ("negative", arith.neg, "-a.", "a"),
    ("positive", fresh, "A copy of a.", "a"),
    ("reciprocal", _reciprocal, "1 / x (of ints in whole numbers)."),
    ("rint", lambda x: arith.round(inexact(x)), "The nearest whole number, halves to even."),
    ("sign", lambda x: arith.sign(inexact(x)), "-1, 0 or 1 by the sign."),
    ("signbit", lambda x: arith.signbit(x) if x.dtype.is_float else arith.lt(x, 0),
     "Whether the sign bit is set."),
    ("sin", _float("sin"), "The sine."),
    ("sinh", _float("sinh"), "The hyperbolic sine."),
    ("sqrt", _float("sqrt"), "The square root."),
    ("square", arith.square, "x * x."),
    ("tan", _float("tan"), "The tangent."),
    ("tanh", _float("tanh"), "The hyperbolic tangent."),
    ("trunc", _fix, "Towards zero to a whole number."),
    ("isfinite", arith.isfinite, "Whether neither infinite nor NaN."),
    ("isinf", arith.isinf, "Whether infinite."),
    ("isnan", arith.isnan, "Whether NaN."),
    ("isneginf", _infinite(arith.isneginf), "Whether -inf.", "x", False),
    ("isposinf", _infinite(arith.isposinf), "Whether +inf.", "x", False),
    ("logical_not", arith.logical_not, "Whether zero.", "a"),
    ("invert", arith.bitwise_not, "All bits turned."),
    ("bitwise_not", arith.bitwise_not, "All bits turned."),
)


_TWO: tuple[tuple[str, Function, str], ...] = (
    ("add", arith.add, "x1 + x2."), ("subtract", arith.sub, "x1 - x2."),
    ("multiply", arith.mul, "x1 * x2."), ("divide", arith.true_divide, "x1 / x2, in floats."),
    ("true_divide", arith.true_divide, "x1 / x2, in floats."),
    ("floor_divide", arith.floor_divide, "x1 / x2 rounded down."),
    ("mod", arith.remainder, "The rest of x1 / x2, of the sign of x2."),
    ("remainder", arith.remainder, "The rest of x1 / x2, of the sign of x2."),
    ("fmod", arith.fmod, "The rest of x1 / x2, of the sign of x1."),
    ("power", arith.pow, "x1 to the power x2."),
    ("float_power", lambda a, b: arith.pow(cast_to(a, float32), cast_to(b, float32)),
     "x1 to the power x2 in float32."),
    ("arctan2", special.atan2, "The angle of the point (x2, x1)."),
    ("copysign", lambda a, b: cast_to(special.copysign(a, b), a.dtype),
     "x1 with the sign of x2, in the type of x1."),
    ("heaviside", lambda a, b: special.heaviside(*together([a, b])),
     "0 below 0, 1 above, x2 at 0."),
    ("hypot", special.hypot, "sqrt(x1**2 + x2**2)."),
    ("logaddexp", special.logaddexp, "log(exp(x1) + exp(x2))."),
    ("logaddexp2", special.logaddexp2, "log2(2**x1 + 2**x2)."),
    ("maximum", arith.maximum, "The larger; NaN if one is."),
    ("minimum", arith.minimum, "The smaller; NaN if one is."),
    ("equal", arith.eq, "x1 == x2."), ("not_equal", arith.ne, "x1 != x2."),
    ("less", arith.lt, "x1 < x2."),
    ("less_equal", arith.le, "x1 <= x2."), ("greater", arith.gt, "x1 > x2."),
    ("greater_equal", arith.ge, "x1 >= x2."),
    ("logical_and", arith.logical_and, "Whether both are non-zero."),
    ("logical_or", arith.logical_or, "Whether one is non-zero."),
    ("logical_xor", arith.logical_xor, "Whether exactly one is non-zero."),
    ("bitwise_and", arith.bitwise_and, "Bits set in both."),
    ("bitwise_or", arith.bitwise_or, "Bits set in one."),
    ("bitwise_xor", arith.bitwise_xor, "Bits set in exactly one."),
)

FUNCTIONS = {row[0]: _of_one(*row) for row in _ONE} | {row[0]: _of_two(*row) for row in _TWO}
"""The functions of the tables by name."""

if TYPE_CHECKING:
    from ..stubs.numpy import *  # noqa: F403
else:
    __getattr__ = names_of(__name__, FUNCTIONS)


def divmod(x1: Any, x2: Any, dtype: Any = None) -> tuple[Tensor, Tensor]:
    """`floor_divide` and `remainder`."""
    a, b = as_tensor(x1, "divmod", "x1"), as_tensor(x2, "divmod", "x2")
    return (finished(a // b, dtype, "divmod"), finished(a % b, dtype, "divmod"))


def gcd(x1: Any, x2: Any, dtype: Any = None) -> Tensor:
    """The greatest common divisor, not negative."""
    a, b = together([as_tensor(x1, "gcd", "x1"), as_tensor(x2, "gcd", "x2")])
    return finished(divisors.common_divisor(a, b), dtype, "gcd")


def lcm(x1: Any, x2: Any, dtype: Any = None) -> Tensor:
    """The least common multiple, not negative."""
    a, b = together([as_tensor(x1, "lcm", "x1"), as_tensor(x2, "lcm", "x2")])
    return finished(divisors.common_multiple(a, b), dtype, "lcm")


def around(a: Any, decimals: int = 0) -> Tensor:
    """a rounded to a number of decimals, halves to even."""
    if isinstance(decimals, bool) or not isinstance(decimals, int):
        raise TypeError(f"decimals must be an integer, but got {decimals!r}")
    if decimals < 0:
        raise ValueError(f"decimals < 0 is not supported now, but got {decimals}.")
    x = as_tensor(a, "around")
    return cast_to(arith.round(inexact(x), decimals=decimals), x.dtype)


def clip(x: Any, xmin: Any, xmax: Any, dtype: Any = None) -> Tensor:
    """x brought into [xmin, xmax]; one may be None."""
    if xmin is None and xmax is None:
        raise misuse("numpy.clip", "one of 'xmin' and 'xmax' must be given")
    out = as_tensor(x, "clip")
    if xmin is not None:
        out = arith.maximum(out, as_tensor(xmin, "clip", "xmin"))
    if xmax is not None:
        out = arith.minimum(out, as_tensor(xmax, "clip", "xmax"))
    return finished(out, dtype, "clip")


def isclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
            ) -> Tensor:
    """Whether |a - b| <= atol + rtol * |b|."""
    x, y = together([as_tensor(a, "isclose", "a"), as_tensor(b, "isclose", "b")])
    return arith.isclose(x, y, rtol, atol, equal_nan)


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether shapes and elements are equal."""
    x, y = as_tensor(a1, "array_equal", "a1"), as_tensor(a2, "array_equal", "a2")
    if x.shape != y.shape:
        return False
    return _all_equal(x, y, equal_nan)


def array_equiv(a1: Any, a2: Any) -> Any:
    """Whether elements are equal once broadcast."""
    x, y = as_tensor(a1, "array_equiv", "a1"), as_tensor(a2, "array_equiv", "a2")
    for p, q in zip(reversed(x.shape), reversed(y.shape), strict=False):
        if p not in (1, q) and q != 1:
            return False
    return _all_equal(x, y, False)


def _all_equal(x: Tensor, y: Tensor, equal_nan: bool) -> Tensor:
    same = x == y
    if equal_nan:
        same = arith.logical_or(same, arith.logical_and(arith.isnan(x), arith.isnan(y)))
    if not same.ndim:
        return same
    return apply_one("reduce_all", same, axes=tuple(range(same.ndim)), keepdims=False)


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """x where the condition holds, else y; with neither, the positions where it holds."""
    c = as_tensor(condition, "where", "condition")
    if x is None and y is None:
        return c.nonzero(as_tuple=True)
    if x is None or y is None:
        raise misuse("numpy.where", "both or neither of 'x' and 'y' must be given")
    a, b = together([as_tensor(x, "where", "x"), as_tensor(y, "where", "y")])
    return arith.where(cast_to(c, bool_), a, b)


def unwrap(p: Any, discont: float = math.pi, axis: int = -1) -> Tensor:
    """Jumps of more than `discont` between neighbours made smaller by multiples of 2 pi."""
    x = inexact(as_tensor(p, "unwrap", "p"))
    a = axis % max(x.ndim, 1)
    n = x.shape[a]
    if n < 2:
        return x
    step = joining.part(x, a, 1, n) - joining.part(x, a, 0, n - 1)
    wrapped = (step + math.pi) % (2 * math.pi) - math.pi
    edge = arith.logical_and(wrapped == -math.pi, step > 0)
    change = arith.where(edge, math.pi, wrapped) - step
    change = arith.where(arith.lt(arith.abs(step), discont), 0.0, change)
    total: Tensor = apply("cumsum", change, axis=a)
    return apply_one("concat", joining.part(x, a, 0, 1), joining.part(x, a, 1, n) + total, axis=a)


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> Tensor:
    """Straight lines between the points (xp, fp), float32.

    Args:
        xp: ascending.
        left: the value below xp[0] (fp[0] if None).
        right: the value above xp[-1] (fp[-1] if None).
    """
    at = as_tensor(x, "interp")
    at, px, py = (cast_to(t, float32) for t in (
        at, as_tensor(xp, "interp", "xp"), as_tensor(fp, "interp", "fp")))
    if px.ndim != 1 or px.shape != py.shape:
        raise misuse("numpy.interp", "'xp' and 'fp' must be vectors of one length",
                     f"shapes {px.shape} and {py.shape}")
    n = px.shape[0]
    cells: Tensor = apply("reshape", at, shape=(*at.shape, 1))
    above = cast_to(px <= cells, int32)
    count: Tensor = apply("reduce_sum", above, axes=(above.ndim - 1,), keepdims=False)
    low = arith.clamp(count - 1, 0, max(n - 2, 0))
    high = arith.minimum(low + 1, n - 1)
    x0, x1, y0, y1 = (apply("gather", t, i, axis=0)
                      for t, i in ((px, low), (px, high), (py, low), (py, high)))
    gap = arith.sub(x1, x0)
    slope = arith.sub(y1, y0) / arith.where(gap == 0, 1.0, gap)
    out = arith.add(y0, slope * arith.sub(at, x0))
    first, last = (apply("reshape", joining.part(t, 0, i, i + 1), shape=())
                   for t, i in ((px, 0), (px, n - 1)))
    ends = [apply("reshape", joining.part(py, 0, i, i + 1), shape=()) for i in (0, n - 1)]
    below = ends[0] if left is None else left
    beyond = ends[1] if right is None else right
    out = arith.where(arith.lt(at, first), below, out)
    return arith.where(arith.eq(at, last), ends[1], arith.where(arith.gt(at, last), beyond, out))


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The element type that arrays and types meet in."""
    made = [_example(v) for v in arrays_and_dtypes]
    if not made:
        raise misuse("numpy.result_type", "at least one array or type is needed", kind=TypeError)
    return together(made)[0].dtype


def promote_types(type1: Any, type2: Any) -> Any:
    """The element type that two types meet in."""
    return result_type(to_dtype(type1, "promote_types"), to_dtype(type2, "promote_types"))


def _example(v: Any) -> Tensor:
    if isinstance(v, (Tensor, list, tuple, int, float, complex)) and not isinstance(v, type):
        return as_tensor(v, "result_type")
    return cast_to(as_tensor(0, "result_type"), to_dtype(v, "result_type"))


__all__ = [
    "around", "array_equal", "array_equiv", "clip", "divmod", "gcd", "interp", "isclose", "lcm",
    "promote_types", "result_type", "unwrap", "where",
]
__all__ += sorted(FUNCTIONS)
