"""Rules of arguments in `cellc.dataset`, besides those of `core.declared`."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ..core.declared import Rule, instance, integer, is_int, is_number, number

INT32_MAX = 2**31 - 1
UINT32_MAX = 2**32 - 1


def nothing(instead: str) -> Rule:
    """None only; another value is a ValueError."""
    return Rule(f"None ({instead})", lambda value: True, lambda value: False)


def _is_text(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def _listed(value: Any) -> Any:
    """A single text as a list of it."""
    return [value] if _is_text(value) else value


def _all(kind: Any, value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(each, kind) for each in value)


def _folder(value: Any) -> Path:
    if not os.path.isdir(value):
        raise ValueError(f"The folder {value} does not exist or is not a directory or permission "
                         "denied!")
    return Path(value)


def existing(value: Any) -> Path:
    """The path of a file."""
    if not os.path.isfile(value):
        raise ValueError(f"The file {value} does not exist or permission denied!")
    return Path(value)


def _files(value: Any) -> list[str]:
    """The files that paths and patterns name, sorted."""
    found = {os.fspath(each): [p for p in glob.glob(os.fspath(each)) if os.path.isfile(p)]
             for each in _listed(value)}
    missing = [pattern for pattern, paths in found.items() if not paths]
    if missing or not found:
        raise ValueError(f"The following patterns did not match any files: {missing}.")
    return sorted(path for paths in found.values() for path in paths)


FOLDER = Rule("a path", _is_text, normal=_folder)
FILE = Rule("a path", _is_text, normal=existing)
FILES = Rule("a path or pattern, or a list of them",
             lambda value: _all((str, os.PathLike), _listed(value)), normal=_files)
NAMES = Rule(
    "a name, or a list of different names", lambda value: _all(str, _listed(value)),
    lambda value: all(_listed(value)) and len({*_listed(value)}) == len(_listed(value)),
    lambda value: list(_listed(value)))
EXTENSIONS = Rule(
    "a list of endings of files' names", NAMES.fits, NAMES.holds,
    lambda value: tuple(each.lower() for each in _listed(value)) or None)
LABELS = Rule(
    "a dict from names of classes to labels, non-negative ints",
    lambda value: isinstance(value, dict) and _all(str, [*value]) and all(
        map(is_int, value.values())),
    lambda value: all(0 <= label <= INT32_MAX for label in value.values()),
    lambda value: dict(value) or None)


def _positions(value: Any) -> Sequence[Any]:
    many = value.tolist() if isinstance(value, np.ndarray) else value
    return many if isinstance(many, (list, tuple, range)) else [many]


POSITIONS = Rule("an int, or a list of them", lambda value: all(map(is_int, _positions(value))),
                 normal=lambda value: list(map(int, _positions(value))))


def _megabytes(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value, value]


ROW_SIZES = Rule(
    "an int of -1 or more, or a list of two",
    lambda value: all(each is None or is_int(each) for each in _megabytes(value)),
    lambda value: len(_megabytes(value)) == 2 and all(
        each is None or -1 <= each <= INT32_MAX for each in _megabytes(value)),
    lambda value: tuple(sys.maxsize if each is None or each < 0 else each << 20
                        for each in _megabytes(value)))
"""MB of rows to and from worker processes, as bytes; None and -1 mean any."""
COUNT_OR_ALL = Rule("-1 or a positive int", is_int,
                    lambda value: value == -1 or 1 <= value <= INT32_MAX, int)
BATCH_SIZE = Rule(
    "a positive int or a function", lambda value: callable(value) or is_int(value),
    lambda value: callable(value) or 1 <= value <= INT32_MAX)


def several(
    each: Rule, *counts: int, one: Any = None, rising: bool = False,
    error: type[Exception] = TypeError,
) -> Rule:
    """A tuple or list with values of a rule, as a tuple.

    Args:
        each: the rule of the values.
        counts: how many there may be; none: any number.
        one: makes the values of a single number, where that is allowed.
        rising: whether they are two, of which the first is not above the second.
        error: raised for another number of values.
    """
    form = "(min, max)" if rising else f"a tuple of {' or '.join(map(str, counts))}"
    wanted = f"{form}, each {each.wanted}"
    if one is not None:
        wanted = f"{'a non-negative number' if each.holds(-1) else each.wanted} or {form}"

    def values(value: Any) -> Any:
        return one(value) if one is not None and is_number(value) else value

    def fits(value: Any) -> bool:
        if one is not None and is_number(value):
            return each.fits(value)
        return isinstance(value, (list, tuple)) and all(map(each.fits, value)) and (
            not counts or len(value) in counts or error is ValueError)

    def holds(value: Any) -> bool:
        if one is not None and is_number(value) and not value >= 0:
            return False
        many = values(value)
        return (not counts or len(many) in counts) and all(map(each.holds, many)) and (
            not rising or many[0] <= many[1])

    return Rule(wanted, fits, holds, lambda value: tuple(map(each.normal, values(value))))


def span(
    low: float, high: float = float("inf"), ends: str = "[]", one: Any = None
) -> Rule:
    """A (min, max) of numbers between two bounds; `one` makes it of a single number."""
    return several(number(low, high, ends), 2, one=one, rising=True)


def about_zero(value: Any) -> tuple[Any, Any]:
    """From -x to x."""
    return (-value, value)


Names = Annotated[Any, NAMES]
Scalar = Annotated[Any, instance(int, float, str, bool, bytes)]
Byte = Annotated[int, integer(0, 255)]
"""An int that a uint8 can be."""
Percent = Annotated[float, number(0, 100)]
