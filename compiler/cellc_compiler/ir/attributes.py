"""Declarations of op attributes: the type, the range and the default of each.

An op declares `attrs = {"stride": pair(1, default=(1, 1)), "mode": choice("add", "mul")}`. Graph
files are checked against these declarations before any inference runs, so `infer` computes only
with values in range. A symbolic size passes every test for an int, because its value is not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass, replace

from .dims import Dim, Ratio
from .graph import Literal
from .types import LEAST, MOST, MOST_AXES

REQUIRED: Final[Any] = object()  # The default of an attribute that has none
MOST_COUNTED = 1 << 16  # Bound of attributes that inference or expansion iterates over
_MOST_WINDOW = 1 << 31


@dataclass(frozen=True, slots=True)
class Attr:
    """The declaration of one attribute."""

    expected: str  # what a value must be, for messages
    # the Python types of values; another type is a TypeError, another value a ValueError
    types: tuple[type, ...]
    test: Callable[[Any], bool]  # whether a value is of the right type and in range
    default: Any = REQUIRED  # the value if none is given, or `REQUIRED`


def whole(least: int = LEAST, most: int = MOST, default: Any = REQUIRED) -> Attr:
    """An int in a range."""
    def test(x: Any) -> bool:
        return (type(x) is int and least <= x <= most) or type(x) is Dim

    return Attr(_UNBOUNDED.get((least, most), f"an int from {least} to {most}"), (int,), test,
                default)


_LARGEST = -LEAST - 1
_UNBOUNDED = {(LEAST, MOST): "an int of 64 bits", (0, _LARGEST): "a non-negative int",
              (1, _LARGEST): "a positive int"}
"""The words for ranges that end where ints of 64 bits do."""


def size(default: Any = REQUIRED, least: int = 0) -> Attr:
    """A number of elements, rows or parts."""
    return whole(least, _LARGEST, default)


def axis(default: Any = REQUIRED) -> Attr:
    """The position of an axis; inference compares it with the rank."""
    return whole(-MOST_AXES, MOST_AXES - 1, default)


def tuple_of(part: Attr, count: int | None = None, default: Any = REQUIRED) -> Attr:
    """A tuple of `count` values, or of any number of them."""
    test_part = part.test

    def test(x: Any) -> bool:
        return type(x) is tuple and (count is None or len(x) == count) and all(map(test_part, x))

    number = "" if count is None else f"{count} values, each "
    return Attr(f"a tuple of {number or 'values, each '}{part.expected}", (tuple,), test, default)


def pair(least: int = 0, most: int = _MOST_WINDOW, default: Any = REQUIRED) -> Attr:
    """Two ints: rows and columns."""
    return tuple_of(whole(least, most), 2, default)


def pads(most: int = _MOST_WINDOW, default: Any = (0, 0, 0, 0)) -> Attr:
    """Four ints: padding at the top, bottom, left and right."""
    return tuple_of(whole(0, most), 4, default)


def shape() -> Attr:
    """The sizes of a tensor."""
    return tuple_of(size())


def wholes() -> Attr:
    """Ints, one for each axis: positions, steps, widths."""
    return tuple_of(whole(LEAST, -LEAST))


def axes(default: Any = REQUIRED) -> Attr:
    """Positions of axes."""
    return tuple_of(axis(), None, default)


def flag(default: Any = REQUIRED) -> Attr:
    """A bool."""
    return Attr("a bool", (bool,), lambda x: type(x) is bool, default)


def real(default: Any = REQUIRED, least: float = -math.inf, most: float = math.inf) -> Attr:
    """A real number; NaN only where the range is all numbers."""
    bounded = least > -math.inf or most < math.inf

    def test(x: Any) -> bool:
        if type(x) is Dim or type(x) is Ratio:
            return True
        if isinstance(x, bool) or not isinstance(x, (int, float)):
            return False
        return least <= x <= most if bounded else type(x) is not int or LEAST <= x <= MOST

    expected = "a number" if not bounded else f"a number of at least {least}" \
        if most == math.inf else f"a number from {least} to {most}"
    return Attr(expected, (int, float), test, default)


def number(default: Any = REQUIRED) -> Attr:
    """A number of any element type: bool, int, float or complex."""
    is_real = real().test

    def test(x: Any) -> bool:
        return isinstance(x, (bool, complex)) or is_real(x)

    return Attr("a number", (bool, int, float, complex), test, default)


def choice(*options: str, default: Any = REQUIRED) -> Attr:
    """One of a few words."""
    return Attr(" or ".join(map(repr, options)), (str,),
                lambda x: type(x) is str and x in options, default)


def text(default: Any = REQUIRED) -> Attr:
    """Any string."""
    return Attr("a str", (str,), lambda x: type(x) is str, default)


def element_type(default: Any = REQUIRED) -> Attr:
    """An element type."""
    return Attr("an element type", (DType,), lambda x: type(x) is DType, default)


def literal() -> Attr:
    """A constant array."""
    return Attr("a constant array", (Literal,), lambda x: isinstance(x, Literal))


def any_of(*types: type | None) -> Attr:
    """A value of one of these types; the op checks the rest."""
    kinds = tuple(type(None) if t is None else t for t in types)
    names = " or ".join("None" if t is None else t.__name__ for t in types)
    return Attr(names, kinds, lambda x: type(x) in kinds)


def optional(attr: Attr) -> Attr:
    """A value or None, which is the default."""
    test = attr.test
    return replace(attr, expected=f"{attr.expected}, or None", types=(*attr.types, type(None)),
                   test=lambda x: x is None or test(x), default=None)


def check_attributes(op: str, attrs: Mapping[str, Any], declared: Mapping[str, Attr]) -> None:
    """Check every attribute against its declaration. Raises TypeError if an attribute has another
    type; ValueError if an attribute is out of range."""
    for name, value in attrs.items():
        attr = declared[name]
        if not attr.test(value):
            fits = isinstance(value, attr.types) and (type(value) is not bool or bool in attr.types)
            raise (ValueError if fits else TypeError)(
                f"For '{op}', '{name}' must be {attr.expected}, but got {_short(value)}.")


def _short(value: Any) -> str:
    try:
        shown = repr(value)
    except ValueError:  # Python prints no int of more than 4300 digits
        return "a very large int"
    return shown if len(shown) <= 100 else shown[:97] + "..."
