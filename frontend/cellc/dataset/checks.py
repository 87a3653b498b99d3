"""Checks of arguments, with the texts all of `cellc.dataset` shares."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

INT32_MAX = 2**31 - 1
UINT32_MAX = 2**32 - 1


def of_type(name: str, value: Any, types: type | tuple[type, ...]) -> Any:
    """A value of one of the types (a bool is no int here).

    Raises:
        TypeError: it is none.
    """
    wanted = types if isinstance(types, tuple) else (types,)
    if isinstance(value, wanted) and (not isinstance(value, bool) or bool in wanted):
        return value
    raise TypeError(f"Argument {name} with value {value!r} is not of type "
                    f"{[t.__name__ for t in wanted]}, but got {type(value).__name__}.")


def integer(name: str, value: Any, low: int, high: int = INT32_MAX) -> int:
    """An int within bounds.

    Raises:
        TypeError, ValueError: it is none, or out of them.
    """
    of_type(name, value, (int, np.integer))
    if not low <= value <= high:
        raise ValueError(f"Input {name} is not within the required interval of [{low}, {high}], "
                         f"but got {value}.")
    return int(value)


def count_or_all(name: str, value: Any) -> int:
    """A positive int, or -1.

    Raises:
        TypeError, ValueError: it is neither.
    """
    of_type(name, value, int)
    if value != -1 and not 1 <= value <= INT32_MAX:
        raise ValueError(f"{name} should be either -1 or within the required interval of "
                         f"(0, {INT32_MAX}], got {value}.")
    return int(value)


def number(name: str, value: Any, low: float, high: float = float("inf")) -> float:
    """A number within bounds.

    Raises:
        TypeError, ValueError: it is none, or out of them.
    """
    of_type(name, value, (int, float, np.integer, np.floating))
    if not low <= value <= high:
        raise ValueError(f"Input {name} is not within the required interval of [{low}, {high}], "
                         f"but got {value}.")
    return float(value)


def row_sizes(value: Any) -> tuple[int, int]:
    """Bytes of rows to and from worker processes, of MB as users give them.

    Args:
        value: for both, or a list of two; None and -1 mean any.

    Raises:
        TypeError, ValueError: something else.
    """
    many = value if isinstance(value, list) else [value, value]
    if len(many) != 2:
        raise ValueError("max_rowsize should be an int or a list of two, but got "
                         f"{value!r}.")
    sizes = [-1 if v is None else integer("max_rowsize", v, -1) for v in many]
    there, back = (sys.maxsize if v < 0 else v << 20 for v in sizes)
    return there, back


def workers(value: Any) -> None:
    """Refuse a number of workers that is none.

    Raises:
        TypeError, ValueError: no positive int, nor None.
    """
    if value is not None:
        integer("num_parallel_workers", value, 1)


def names(name: str, value: Any) -> list[str]:
    """Column names: one or several.

    Raises:
        TypeError, ValueError: no string or list of strings; an empty one, or one given twice.
    """
    found = [value] if isinstance(value, str) else value
    of_type(name, found, (list, tuple))
    for i, each in enumerate(found):
        of_type(f"{name}[{i}]", each, str)
        if not each:
            raise ValueError(f"{name}[{i}] should not be empty.")
    if len(set(found)) != len(found):
        raise ValueError(f"Every column name should not be same with others in {name}.")
    return list(found)


def shards(num_shards: Any, shard_id: Any) -> None:
    """Check which part of the data is asked for.

    Raises:
        TypeError, ValueError: only one of them is given, or they do not fit.
    """
    if (num_shards is None) != (shard_id is None):
        raise ValueError("num_shards and shard_id need to be passed in together.")
    if num_shards is None:
        return
    integer("num_shards", num_shards, 1)
    of_type("shard_id", shard_id, int)
    if shard_id < 0:
        raise ValueError(f"Input shard_id is not within the required interval of [0, {INT32_MAX}].")
    if shard_id >= num_shards:
        raise ValueError("shard_id should be less than num_shards.")


def indices(value: Any, who: str) -> list[int]:
    """Positions of rows: one or several.

    Raises:
        TypeError: other than ints.
    """
    many: Sequence[Any]
    if isinstance(value, np.ndarray):
        many = value.tolist()
    elif isinstance(value, (list, tuple, range)):
        many = value
    else:
        many = [value]
    for i, each in enumerate(many):
        if isinstance(each, bool) or not isinstance(each, (int, np.integer)):
            raise TypeError(f"{who}: Type of indices element must be int, but got list[{i}]: "
                            f"{each}, type: {type(each)}.")
    return [int(each) for each in many]
