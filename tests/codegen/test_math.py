"""Vector math: accuracy, special values, one result for every lane count, no calls."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special  # type: ignore[import-untyped]

from cellc_compiler.backends.llvm.math import functions as math
from cellc_compiler.backends.llvm.text import Function, V
from cellc_runtime.target import TARGETS, host_target

from .jit import assembly, compile_text, map_text
from .special_values import REFERENCES

Array = np.ndarray[Any, Any]
LONG = np.longdouble
NUMPY = {"float": np.float32, "double": np.float64}


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    out: Array = np.where(x < 0, e, 1) / (1 + e)
    return out


LONG_REFERENCE: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp, "expm1": np.expm1, "exp2": np.exp2, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "sigmoid": _sigmoid, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "cbrt": np.cbrt,
    "reciprocal": lambda x: 1 / x, "one_plus_square": lambda x: 1 + x * x,
    "log1pexp": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
}
# Bounds in ulp for float64 and float32; the module's table says what was measured.
BOUND = {
    "exp": (1, 1), "expm1": (1, 1), "exp2": (1, 1), "log": (1, 1), "log2": (1, 0.51),
    "log10": (1, 0.51), "log1p": (1, 0.51), "sin": (1, 1.6), "cos": (1, 1.6),
    "tan": (1, 0.51), "asin": (0.7, 0.51), "acos": (0.9, 0.51), "atan": (1, 0.51),
    "sinh": (1, 1), "cosh": (1.1, 1), "tanh": (1, 1), "asinh": (2, 0.51),
    "acosh": (2.5, 0.51), "atanh": (0.7, 0.51), "sigmoid": (2, 2), "sqrt": (0.5, 0.5),
    "rsqrt": (1.5, 1.5), "cbrt": (0.51, 0.51), "reciprocal": (0.5, 0.5),
    "one_plus_square": (0.5, 0.5), "log1pexp": (0.85, 0.7),
}
UNARY = [*BOUND, "erf", "erfc", "erfinv", "lgamma", "digamma", "selu", "selu_slope", "gauss",
         "exp_square"]
BINARY = ["pow", "atan2", "xlogy", "fmod", "floor_mod", "floor_div", "trunc_div", "maximum",
          "minimum"]


def compute(name: str, *args: Array, lanes: int = 16, signed: bool = True) -> Array:
    """`name` over arrays by a kernel of `lanes` lanes; the length is a multiple of it."""
    ty = {"f4": "float", "f8": "double"}.get(args[0].dtype.str[1:], f"i{8 * args[0].itemsize}")
    text = map_text(lambda f, v: math.emit(f, name, *v, signed=signed), [ty] * len(args), lanes,
                    host_target())
    out = np.empty_like(args[0])
    compile_text(text)([*args, out], 0, len(out) // lanes)
    return out


def specials(dtype: Any) -> Array:
    """Zeros, infinities, NaN, subnormals, extremes, small integers."""
    fi = np.finfo(dtype)
    positive = [0, 1, np.inf, fi.tiny, fi.max, fi.smallest_subnormal, fi.tiny / 2, 0.5, 2, 3, 2.5,
                1 + fi.eps, 1 - fi.epsneg, 1e10, 1e-10, 2.0**53, 2.0**53 - 1, 2.0**24 - 1]
    return np.array([s * x for x in positive for s in (1, -1)] + [np.nan], dtype)


def points(dtype: Any, n: int = 12288) -> Array:
    """Random bit patterns, common ranges, neighbourhoods of 1, and the special values."""
    rng = np.random.default_rng(11)
    kind = np.uint64 if dtype is np.float64 else np.uint32
    top = 760 if dtype is np.float64 else 110
    parts = [
        rng.integers(0, np.iinfo(kind).max, n, dtype=kind, endpoint=True).view(dtype),
        rng.standard_normal(n) * 3, rng.standard_normal(n) * 2.0 ** rng.integers(-40, 12, n),
        rng.uniform(-1, 1, n), rng.uniform(-top, top, n),
        1 + rng.standard_normal(n) * 2.0 ** rng.integers(-50, -2, n),
        np.resize(specials(dtype), 192),
    ]
    return np.concatenate([p.astype(dtype) for p in parts])


def ulp_error(got: Array, exact: Array) -> float:
    """Largest error in units of the last place where both are finite; specials must agree."""
    dtype = got.dtype.type
    rounded = exact.astype(dtype)
    special_value = ~np.isfinite(rounded) | ~np.isfinite(got)
    np.testing.assert_array_equal(got[special_value], rounded[special_value])
    zero = (got == 0) & (rounded == 0)
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(rounded[zero]))
    fine = ~special_value
    unit = np.spacing(np.abs(rounded[fine])).astype(LONG)
    # spacing() of a value that rounded up to a power of two is that of the upper binade.
    unit = np.where(np.abs(exact[fine]) < np.abs(rounded[fine]),
                    np.abs(rounded[fine] - np.nextafter(rounded[fine], dtype(0))), unit)
    return float((np.abs(got[fine].astype(LONG) - exact[fine]) / unit).max())


needs_long = pytest.mark.skipif(np.finfo(LONG).nmant <= 52, reason="long double is float64 here")


@needs_long
@pytest.mark.parametrize("ty", ["float", "double"])
@pytest.mark.parametrize("name", list(BOUND))
def test_accuracy(name: str, ty: str) -> None:
    x = points(NUMPY[ty])
    with np.errstate(all="ignore"):
        exact = LONG_REFERENCE[name](x.astype(LONG))
        error = ulp_error(compute(name, x), exact)
    assert error <= BOUND[name][ty == "float"]


@pytest.mark.parametrize(("name", "bound"), [("erf", 1.0), ("erfc", 0.51), ("erfinv", 0.51),
                                             ("lgamma", 0.51), ("digamma", 0.51)])
def test_special_functions_float32(name: str, bound: float) -> None:
    x = points(np.float32)
    reference = {"lgamma": special.gammaln, "digamma": special.psi}.get(name)
    with np.errstate(all="ignore"):
        exact = (reference or getattr(special, name))(x.astype(np.float64))
    if name == "lgamma":
        exact[np.isneginf(x)] = np.inf  # C's lgamma; scipy has -inf
    if name == "erfinv":
        exact[(x == 0) & np.signbit(x)] = -0.0  # scipy loses the sign of -0
    with np.errstate(over="ignore"):
        assert ulp_error(compute(name, x), exact.astype(LONG)) <= bound


@pytest.mark.parametrize(("name", "bound"), [("erf", 1), ("erfc", 1), ("erfinv", 1),
                                             ("lgamma", 3), ("digamma", 4)])
def test_special_functions_float64(name: str, bound: int) -> None:
    x, expected = np.array(REFERENCES[name]).T.copy()
    error = np.abs(compute(name, x, lanes=1) - expected)
    # Cancellation of large terms: absolute accuracy is what digamma and the reflection have.
    scale = np.maximum(np.spacing(np.abs(expected)), 2.0**-53 if name == "digamma" else 0)
    assert (error <= bound * scale).all(), list(zip(x, error / scale, strict=True))


def test_lgamma_near_its_zeros() -> None:
    """Numbers next to zeros below -2, and more and more of their steps away."""
    flint = pytest.importorskip("flint")
    flint.ctx.prec = 200

    def exact(x: float) -> Any:
        a = flint.arb(x)
        return (flint.arb.pi() / abs(a.sin_pi())).log() - (1 - a).lgamma()

    tried = []
    for whole in range(-22, -2):
        for side in (0, 1):  # halves of the way between two integers
            low, high = whole + 0.5 * side, whole + 0.5 * (side + 1)
            if exact(low + 1e-14) * exact(high - 1e-14) > 0:
                continue  # both zeros are in the other half, or too near to an integer
            for _ in range(60):
                middle = (low + high) / 2
                up = exact(middle) * exact(low + 1e-14) > 0
                low, high = (middle, high) if up else (low, middle)
            tried += [low * (1 + k * 2.0**-52) for k in (0, 1, 9, 999, 10**6)]
    wanted = [float(exact(x)) for x in tried]
    assert len(tried) > 140
    error = np.abs(compute("lgamma", np.array(tried), lanes=1) - wanted)
    assert (error <= np.spacing(np.abs(wanted)) + 3e-19).all()


@pytest.mark.parametrize(("name", "x", "expected"), [
    ("erf", [np.inf, -np.inf, -0.0], [1, -1, -0.0]), ("erfc", [np.inf, -np.inf], [0, 2]),
    ("erfinv", [1, -1, -0.0, 1.5], [np.inf, -np.inf, -0.0, np.nan]),
    ("lgamma", [0, -1, -5, -np.inf, np.inf, 1, 2], [np.inf] * 5 + [0, 0]),
    ("atanh", [1, -1, -0.0, 1.5], [np.inf, -np.inf, -0.0, np.nan]),
    ("selu", [np.inf, -0.0, np.nan], [np.inf, -0.0, np.nan]),
    ("selu_slope", [-np.inf, -1e4, np.nan], [0, 0, np.nan]),
    ("log1pexp", [np.inf, -np.inf, np.nan, 1e4, -1e4], [np.inf, 0, np.nan, 1e4, 0]),
    ("gauss", [np.inf, -np.inf, 0, np.nan], [0, 0, 1, np.nan]),
    ("exp_square", [np.inf, -30, -0.0, np.nan], [np.inf, np.inf, 1, np.nan]),
    ("digamma", [0, -0.0, -3, np.inf], [-np.inf, np.inf, np.nan, np.inf]),
    ("sign", [np.nan, -0.0, -3, np.inf], [0, 0, -1, 1]),
    ("round", [0.5, 1.5, -0.5, 2.5, -2.6], [0, 2, -0.0, 2, -3]),
    ("trunc", [1.7, -1.7], [1, -1]), ("floor", [-0.5], [-1]), ("ceil", [-0.5], [-0.0]),
    ("abs", [-0.0, -2], [0, 2]), ("neg", [0.0, 2], [-0.0, -2]),
])
def test_special_values(name: str, x: list[float], expected: list[float]) -> None:
    for dtype in (np.float32, np.float64):
        got = compute(name, np.array(x, dtype), lanes=1)
        want = np.array(expected, dtype)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got)[want == 0], np.signbit(want)[want == 0])


def pairs(dtype: Any) -> tuple[Array, Array]:
    """All pairs of special values, and ordinary ones."""
    rng = np.random.default_rng(3)
    a, b = (v.ravel() for v in np.meshgrid(specials(dtype), specials(dtype)))
    n = 8192
    x = np.concatenate([a, np.exp(rng.standard_normal(n) * 20).astype(dtype),
                        (1 + rng.standard_normal(n) * 1e-3).astype(dtype)])
    y = np.concatenate([b, (rng.standard_normal(n) * 10).astype(dtype),
                        (rng.standard_normal(n) * 2e4).astype(dtype)])
    n = len(x) // 16 * 16
    return x[:n].copy(), y[:n].copy()


@needs_long
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "reference", "bounds"), [
    ("pow", np.power, (0.51, 0.8)), ("atan2", np.arctan2, (0.51, 0.7))])
def test_two_arguments(name: str, reference: Any, bounds: tuple[float, float],
                       dtype: Any) -> None:
    x, y = pairs(dtype)
    with np.errstate(all="ignore"):
        error = ulp_error(compute(name, x, y), reference(x.astype(LONG), y.astype(LONG)))
    assert error <= bounds[dtype is np.float64]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "reference"), [
    ("fmod", np.fmod), ("floor_mod", np.mod), ("maximum", np.maximum), ("minimum", np.minimum)])
def test_exact_two_arguments(name: str, reference: Any, dtype: Any) -> None:
    x, y = pairs(dtype)
    rng = np.random.default_rng(4)
    x[-4096:] = rng.standard_normal(4096) * 2.0 ** rng.integers(-100, 100, 4096)
    y[-4096:] = rng.standard_normal(4096) * 2.0 ** rng.integers(-100, 100, 4096)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(compute(name, x, y), reference(x, y))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extremes_beside_a_number_are_those_of_two_values(name: str, dtype: Any) -> None:
    """Short code for a known number: zeros keep their rule (the second operand wins), NaNs stay."""
    x = np.concatenate([specials(dtype), [6.0, -6.0, -0.0, 0.0, np.nan]]).astype(dtype)
    x = np.resize(x, -(-len(x) // 16) * 16)
    kind, ty = f"u{x.itemsize}", "double" if dtype is np.float64 else "float"
    for number in (0.0, -0.0, 6.0, -np.inf):
        for first in (False, True):
            def rule(f: Function, args: list[V]) -> V:
                c = f.const(args[0].ty, number)  # noqa: B023
                return math.emit(f, name, *((c, args[0]) if first else (args[0], c)))  # noqa: B023

            text = map_text(rule, [ty], 16, host_target())
            got, same = np.empty_like(x), np.full_like(x, number)
            compile_text(text)([x, got], 0, len(x) // 16)
            want = compute(name, *((same, x) if first else (x, same)))
            np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
            real = ~np.isnan(got)
            np.testing.assert_array_equal(got[real].view(kind), want[real].view(kind))
            if number == 6.0:
                assert "cmpunord" not in assembly(text, host_target())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floor_division_of_floats_is_of_the_exact_quotient(dtype: Any) -> None:
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.integers(-30, 30, 4096), rng.standard_normal(4096) * 9]).astype(dtype)
    y = np.concatenate([rng.integers(1, 9, 4096) / 10, rng.standard_normal(4096)]).astype(dtype)
    np.testing.assert_array_equal(compute("floor_div", x, y), np.floor_divide(x, y))
    np.testing.assert_array_equal(compute("trunc_div", x, y),
                                  np.copysign(np.floor_divide(abs(x), abs(y)), x / y))
    with np.errstate(all="ignore"):
        zero = np.zeros_like(x)
        np.testing.assert_array_equal(compute("floor_div", x, zero), x / zero)


@needs_long
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_large_angles(name: str) -> None:
    rng = np.random.default_rng(6)
    x = np.ldexp(rng.uniform(1, 2, 8192), rng.integers(25, 1023, 8192))
    # The double closest to a multiple of pi/2, and a neighbour of the branch.
    x[:3] = 6381956970095103.0 * 2.0**797, 2.0**30, np.nextafter(2.0**30, 2.0**31)
    exact = LONG_REFERENCE[name](x.astype(LONG))
    assert ulp_error(compute(name, x), exact) <= BOUND[name][0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", UNARY + BINARY)
def test_same_bits_for_every_lane_count(name: str, dtype: Any) -> None:
    x, y = (v[-192:].copy() for v in pairs(dtype))
    x[:32] = specials(dtype)[:32]
    x[32:64] = np.linspace(-3e9, 3e9, 32)
    x[64:128] = np.linspace(-4, 4, 64)
    args = (x,) if name in UNARY else (x, y)
    kind = f"u{x.itemsize}"
    whole = compute(name, *args, lanes=16)
    for lanes in (1, 3, 4, 64):
        got = compute(name, *args, lanes=lanes)
        # The sign and payload of a NaN are not specified by IEEE 754.
        differ = (got.view(kind) != whole.view(kind)) & ~(np.isnan(got) & np.isnan(whole))
        assert not differ.any(), (lanes, x[differ][:3])


INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


def integer_pairs(dtype: Any) -> tuple[Array, Array]:
    """Random integers of all sizes, with zeros and extremes among the divisors."""
    rng = np.random.default_rng(9)
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, 512, dtype=dtype, endpoint=True)
    x = x >> rng.integers(0, info.bits, 512).astype(dtype)
    y = np.roll(x, 100)
    edge = np.array([info.min, info.max, 0, 1, np.array(-1).astype(dtype)], dtype)
    a, b = (v.ravel() for v in np.meshgrid(edge, edge))
    x[:25], y[:25] = a, b
    return x, y


def wrap(value: int, dtype: Any) -> int:
    """A Python integer reduced to a dtype."""
    info = np.iinfo(dtype)
    value &= (1 << info.bits) - 1
    return value - (1 << info.bits) if info.min < 0 and value > info.max else value


def _trunc(a: int, b: int) -> int:
    return 0 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


INTEGER_RULES: dict[str, Callable[[int, int, int], int]] = {
    "div": lambda a, b, w: _trunc(a, b),
    "trunc_mod": lambda a, b, w: a - _trunc(a, b) * b if b else 0,
    "floor_div": lambda a, b, w: a // b if b else 0,
    "floor_mod": lambda a, b, w: a % b if b else 0,
    "maximum": lambda a, b, w: max(a, b),
    "minimum": lambda a, b, w: min(a, b),
    "shl": lambda a, b, w: a << b if 0 <= b < w else 0,
    "shr": lambda a, b, w: a >> (b if 0 <= b < w else w),
    "mul": lambda a, b, w: a * b,
}


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", list(INTEGER_RULES))
def test_integers(name: str, dtype: Any) -> None:
    x, y = integer_pairs(dtype)
    if name in ("shl", "shr"):
        y[25:] = np.arange(len(y) - 25) % 70
    signed, width = np.iinfo(dtype).min < 0, np.iinfo(dtype).bits
    rule = INTEGER_RULES[name]
    want = [wrap(rule(int(a), int(b), width), dtype) for a, b in zip(x, y, strict=True)]
    for lanes in (1, 16):
        assert compute(name, x, y, lanes=lanes, signed=signed).tolist() == want


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_power(dtype: Any) -> None:
    bases, powers = np.meshgrid(np.arange(0, 20), np.arange(0, 40))
    x, y = bases.ravel().astype(dtype), powers.ravel().astype(dtype)
    signed = np.iinfo(dtype).min < 0
    if signed:
        x, y = x - dtype(10), y - dtype(4)
    want = []
    for a, n in zip(x.tolist(), y.tolist(), strict=True):
        unit = a if n % 2 else 1
        want.append(wrap(a**n, dtype) if n >= 0 else unit if abs(a) == 1 else 0)
    assert compute("pow", x, y, signed=signed).tolist() == want


def test_integer_abs_and_sign() -> None:
    x = np.array([-128, -1, 0, 5], np.int8)
    assert compute("abs", x, lanes=4).tolist() == [-128, 1, 0, 5]
    assert compute("sign", x, lanes=4).tolist() == [-1, -1, 0, 1]
    assert compute("sign", x.view(np.uint8), lanes=4, signed=False).tolist() == [1, 1, 0, 1]
    assert compute("abs", x.view(np.uint8), lanes=4, signed=False).tolist() == [128, 255, 0, 5]


@pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda t: t.name)
@pytest.mark.parametrize("ty", ["float", "double"])
def test_no_calls(ty: str, target: Any) -> None:
    def everything(f: Function, v: list[V]) -> V:
        total = v[0]
        for name in [*UNARY, *BINARY, "floor", "ceil", "round", "trunc"]:
            args = v if name in BINARY else v[:1]
            total = f.add(total, math.emit(f, name, *args))
        return total

    lanes = target.lanes(4 if ty == "float" else 8)
    text = assembly(map_text(everything, [ty, ty], lanes, target), target)
    assert not re.search(r"^\s+(call|bl|callq)\s", text, re.M)


def test_errors() -> None:
    f = Function("f", [], host_target())
    one, half = f.const("float", 1.0), V("half", "0xH3C00")
    with pytest.raises(KeyError, match="no_such_function"):
        math.emit(f, "no_such_function", one)
    with pytest.raises(TypeError, match="one type"):
        math.emit(f, "pow", one, f.const("double", 1.0))
    with pytest.raises(TypeError, match="widen to float"):
        math.emit(f, "exp", half)
    with pytest.raises(TypeError, match="takes floats"):
        math.emit(f, "exp", f.const("i32", 1))
