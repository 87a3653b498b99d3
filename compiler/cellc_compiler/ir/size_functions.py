"""Python's functions of numbers that follow from sizes: `math.sqrt(x.shape[-1])`, `int(0.3 * n)`.

A function stays an expression where its argument is surely in its domain, so that it cannot raise
an error when it is worked out; else the sizes become known numbers, which are guarded.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cellc_runtime import open_sizes

from .dims import (
    Applied,
    Bounds,
    Dim,
    Ratio,
    SymbolInfo,
    active_facts,
    applied,
    bounds,
    divide,
    estimate,
    is_symbolic,
    surely_at_least,
)

Range = tuple[float, float]
_ALL: Range = (-math.inf, math.inf)
_MOST_FACTOR = 1 << 10  # a size times it is far below 2**53, up to which ints are floats
# Where each function has a finite value, by the bounds of its argument
_DOMAINS: dict[str, Callable[[float, float], bool]] = {
    "sqrt": lambda low, high: low >= 0, "exp": lambda low, high: high <= 700,
    "log": lambda low, high: low > 0, "log2": lambda low, high: low > 0,
    "log10": lambda low, high: low > 0,
}
_WAVES = frozenset({"sin", "cos"})


def function_of(name: str, x: Any) -> Any:
    """A function of `math`, by its name, of a number that may follow from sizes."""
    low, high = number_range(x)
    if is_symbolic(x) and _DOMAINS.get(name, _finite)(low, high):
        return Ratio(name, x)
    return open_sizes.FLOAT_FUNCTIONS[name](float(x))


def _finite(low: float, high: float) -> bool:
    return True  # (sizes are finite; sine and cosine take them all)


def of_math(name: str, args: Sequence[Any]) -> Any:
    """A function of `math` of numbers, some of which follow from sizes."""
    fn = getattr(math, name)
    if not all(type(a) in (int, float, Dim, Ratio) for a in args):
        return fn(*args)
    if len(args) == 1:
        x, = args
        if name in open_sizes.WHOLE:
            return fn(x) if type(x) is Ratio else x
        return function_of(name, x) if name in open_sizes.FLOAT_FUNCTIONS else fn(float(x))
    if name == "pow" and number_range(args[0])[0] > 0:
        return Ratio("**", args[0] * 1.0, args[1] * 1.0)
    if name == "log" and len(args) == 2:
        return function_of(name, args[0]) / function_of(name, args[1])
    return fn(*map(float, args))


OF_MATH = frozenset({*open_sizes.FLOAT_FUNCTIONS, *open_sizes.WHOLE - {"round"}, "pow"})
"""The functions of `math` that stay open."""


def extreme(name: str, values: list[Any]) -> Any:
    """`min` or `max` of floats, the first of equal ones as Python has it."""
    best, *rest = values
    for value in rest:
        best = Ratio(name, best, value)
    return best


def whole(name: str, x: Ratio) -> Any:
    """A number that follows from sizes as a size: `"floor"`, `"ceil"`, `"trunc"` or `"round"` (half
    to even) of it. Of a quotient of sizes, or half of one, that is a floor division."""
    parts = _quotient(x)
    if parts is not None and name != "round":
        numerator, divisor = parts
        if name == "ceil":
            return -divide(-numerator, divisor)
        if name == "floor" or number_range(x)[0] >= 0:
            return divide(numerator, divisor)
    return applied(name, x)


def _quotient(x: Ratio) -> tuple[Any, Any] | None:
    """`x` as an exact quotient of sizes, which no rounding to a float makes whole: a size by a
    positive one, or times a float that is a fraction of small numbers, as 0.5."""
    if len(x.args) != 2:
        return None
    a, b = x.args
    if x.op == "/" and type(a) in (int, Dim) and type(b) in (int, Dim):
        return (a, b) if surely_at_least(b, 1) else None
    if x.op == "*" and type(a) is float:
        a, b = b, a
    if x.op != "*" or type(a) is not Dim or type(b) is not float or not 0 < b < _MOST_FACTOR:
        return None
    factor, divisor = b.as_integer_ratio()
    return (a * factor, divisor) if factor <= _MOST_FACTOR and divisor <= _MOST_FACTOR else None


def compare(x: Ratio, other: Any, relation: Callable[[Any, Any], bool]) -> bool:
    """A comparison of a number that follows from sizes.

    That of a quotient of sizes and a whole number is one of sizes; others make the sizes known
    numbers. In code for all sizes only costs are compared, by estimates.
    """
    facts = active_facts()
    if facts is not None and facts.general:
        return bool(relation(float(estimate(x)), other))
    if type(other) in (int, float):
        low, high = number_range(x)
        first, last = relation(low, other), relation(high, other)
        if relation is operator.eq and not low <= other <= high:
            return False
        if relation is not operator.eq and first == last:  # (each but `==` holds up to a number)
            return bool(first)
        parts = _quotient(x)
        if parts is not None and other in _WHOLE_NUMBERS:
            return bool(relation(parts[0], parts[1] * int(other)))
    return bool(relation(float(x), other))


_WHOLE_NUMBERS = range(-_MOST_FACTOR, _MOST_FACTOR + 1)


def whole_bounds(atom: Applied, symbols: Mapping[str, SymbolInfo]) -> Bounds:
    """The least and the greatest value of a number made whole, as `dims.bounds`."""
    make = open_sizes.FUNCTIONS[atom.function]
    low, high = _range(atom.args[0], lambda x: bounds(x, symbols))
    return (make(low) if math.isfinite(low) else None,
            make(high) if math.isfinite(high) else None)


def number_range(x: Any) -> Range:
    """The least and the greatest value of a number, infinite where they are not known."""
    facts = active_facts()
    return _range(x, lambda d: bounds(d, {}) if facts is None else facts.bounds(d))


def _range(x: Any, of: Callable[[Dim], Bounds]) -> Range:
    """Arithmetic of floats is monotone, so that of bounds gives bounds."""
    if type(x) is Dim:
        least, most = of(x)
        return (-math.inf if least is None else float(least),
                math.inf if most is None else float(most))
    if type(x) is not Ratio:
        return float(x), float(x)
    parts = [_range(v, of) for v in x.args]
    if len(parts) == 1:
        return _range_of_function(x.op, *parts[0])
    found = _RANGES.get(x.op)
    (a, z), (b, y) = parts
    low, high = _ALL if found is None else found(a, z, b, y)
    return _ALL if math.isnan(low) or math.isnan(high) else (low, high)


def _range_of_function(name: str, low: float, high: float) -> Range:
    if name in _WAVES:
        return -1.0, 1.0
    fn = open_sizes.FLOAT_FUNCTIONS[name]
    if not _DOMAINS[name](low, high):
        return _ALL
    least = fn(low) if math.isfinite(low) else 0.0 if name == "exp" else -math.inf
    return least, fn(high) if math.isfinite(high) else math.inf


_RANGES: dict[str, Callable[[float, float, float, float], Range]] = {
    "+": lambda a, z, b, y: (a + b, z + y), "-": lambda a, z, b, y: (a - y, z - b),
    "min": lambda a, z, b, y: (min(a, b), min(z, y)),
    "max": lambda a, z, b, y: (max(a, b), max(z, y)),
    "*": lambda a, z, b, y: (a * b, z * y) if a >= 0 and b >= 0 else _ALL,
    "/": lambda a, z, b, y: (a / y, z / b) if a >= 0 and b > 0 else _ALL,
    "**": lambda a, z, b, y: (0.0, math.inf) if a >= 0 else _ALL,
}
