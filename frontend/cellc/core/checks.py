"""Checks of the arguments layers are made with."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_compiler.ir.bounds import MOST_BYTES, MOST_PARTS

from .declared import is_int as is_int
from .declared import is_number as is_number


def integer(value: Any, name: str, what: str) -> int:
    """`value` as an int."""
    if not is_int(value):
        raise TypeError(
            f"For '{what}', the '{name}' must be int, but got '{type(value).__name__}'"
        )
    return int(value)


def at_least(value: Any, low: int, name: str, what: str, most: int = MOST_BYTES) -> int:
    """`value` as an int of `low` or more, and of no more than a tensor can have."""
    number = integer(value, name, what)
    if number < low:
        raise ValueError(
            f"For '{what}', the '{name}' must be int and must {'>' if low == 1 else '>='} "
            f"{0 if low == 1 else low}, but got '{number}' with type 'int'."
        )
    if number > most:
        raise ValueError(f"For '{what}', the '{name}' must be at most {most}, but got {number}.")
    return number


def positive(value: Any, name: str, what: str) -> int:
    """`value` as an int above zero."""
    return at_least(value, 1, name, what)


def copies(value: Any, name: str, what: str) -> int:
    """`value` as an int above zero, of what is made one by one."""
    return at_least(value, 1, name, what, MOST_PARTS)


def boolean(value: Any, name: str, what: str) -> bool:
    """`value`, which must be a bool."""
    if not isinstance(value, bool):
        raise TypeError(
            f"For '{what}', the '{name}' must be a bool, but got {type(value).__name__}."
        )
    return value


def number(value: Any, name: str, what: str) -> float:
    """`value` as a float."""
    if not is_number(value):
        raise TypeError(
            f"For '{what}', the type of '{name}' should be one of '[int, float]', but got type "
            f"'{type(value).__name__}'."
        )
    return float(value)


def between(value: Any, low: float, high: float, name: str, what: str, ends: str = "[]") -> float:
    """`value` as a float between two bounds.

    Args:
        ends: whether the bounds belong to it, as `"[]"`, `"[)"`, `"(]"` or `"()"`.
    """
    x = number(value, name, what)
    above = x >= low if ends[0] == "[" else x > low
    below = x <= high if ends[1] == "]" else x < high
    if not (above and below):
        raise ValueError(
            f"For '{what}', the '{name}' must be a number in range {ends[0]}{low:g}, {high:g}"
            f"{ends[1]}, but got {value}."
        )
    return x


def of_type(value: Any, kinds: tuple[type, ...], name: str, what: str) -> Any:
    """`value`, which must be of one of some types (a bool is no int, numpy's ints are)."""
    fits = is_int(value) if isinstance(value, (int, np.integer)) and int in kinds else \
        isinstance(value, kinds)
    if not fits:
        names = [kind.__name__ for kind in kinds]
        wanted = f"'{names[0]}'" if len(names) == 1 else f"one of '{names}'"
        raise TypeError(
            f"For '{what}', the type of '{name}' should be {wanted}, but got type "
            f"'{type(value).__name__}'."
        )
    return value


def callable_(value: Any, name: str, what: str) -> Any:
    """`value`, which must be a Cell or a function."""
    if not callable(value):
        raise TypeError(f"For '{what}', the '{name}' must be a Cell or a function, but got type "
                        f"'{type(value).__name__}'.")
    return value


def floating(value: Any, name: str, what: str) -> float:
    """`value`, which must be a float."""
    checked: float = of_type(value, (float,), name, what)
    return checked


def above_zero(value: Any, name: str, what: str) -> float:
    """`value` as a positive float."""
    return between(value, 0.0, float("inf"), name, what, "()")


def choice(value: Any, options: tuple[str, ...], name: str, what: str) -> str:
    """`value`, which must be one of `options`."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(
            f"For '{what}', the '{name}' must be str and must be in '{list(options)}', but got "
            f"'{value}'."
        )
    return value


def per_axis(value: Any, count: int, name: str, what: str, low: int = 1) -> tuple[int, ...]:
    """`count` ints from an int for all of them, or a tuple of `count`."""
    if is_int(value):
        return (at_least(value, low, f"{name} item", what),) * count
    if not isinstance(value, (tuple, list)) or len(value) != count:
        raise TypeError(
            f"For '{what}', the '{name}' must be an int or a tuple of {count} ints, but got "
            f"{value!r}."
        )
    return tuple(at_least(v, low, f"{name} item", what) for v in value)
