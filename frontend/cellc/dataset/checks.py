"""Checks of arguments, which all of `cellc.dataset` shares: the name first, then the value.

A check returns the value as it is kept. Its errors have MindSpore's texts.
"""

from __future__ import annotations

import glob
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
INT32_MAX = 2**31 - 1
UINT32_MAX = 2**32 - 1


def of_type(name: str, value: Any, types: type | tuple[type, ...]) -> Any:
    """A value of one of the types (a bool is no int here)."""
    wanted = types if isinstance(types, tuple) else (types,)
    if isinstance(value, wanted) and (not isinstance(value, bool) or bool in wanted):
        return value
    raise TypeError(f"Argument {name} with value {value!r} is not of type "
                    f"{[t.__name__ for t in wanted]}, but got {type(value).__name__}.")


def integer(name: str, value: Any, low: int, high: int = INT32_MAX) -> int:
    """An int within bounds."""
    of_type(name, value, (int, np.integer))
    if not low <= value <= high:
        raise ValueError(f"Input {name} is not within the required interval of [{low}, {high}], "
                         f"but got {value}.")
    return int(value)


def count_or_all(name: str, value: Any) -> int:
    """A positive int, or -1."""
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


def row_sizes(name: str, value: Any) -> tuple[int, int]:
    """Bytes of rows to and from worker processes, of MB as users give them.

    Args:
        value: for both, or a list of two; None and -1 mean any.
    """
    many = value if isinstance(value, list) else [value, value]
    if len(many) != 2:
        raise ValueError(f"{name} should be an int or a list of two, but got {value!r}.")
    sizes = [-1 if v is None else integer(name, v, -1) for v in many]
    there, back = (sys.maxsize if v < 0 else v << 20 for v in sizes)
    return there, back


def workers(value: Any) -> None:
    """Refuse a number of workers that is none."""
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


def word(name: str, value: Any, known: Sequence[str]) -> str:
    """One of some words."""
    of_type(name, value, str)
    if value not in known:
        raise ValueError(f"Input {name} is not within the valid set of {list(known)}: it should be "
                         f"one of them, but got {value!r}.")
    return str(value)


def callable_(name: str, value: Any) -> Any:
    """A function."""
    if not callable(value):
        raise TypeError(f"Argument {name} is not a callable object, but got {type(value)}")
    return value


def nothing(instead: str = "") -> Callable[[str, Any], Any]:
    """The check of an argument that must be None."""
    def refuse(name: str, value: Any) -> None:
        raise ValueError(f"{name} must be None{instead and ': '}{instead}, but got {value!r}.")

    return refuse


def folder(name: str, value: Any) -> Path:
    """The path of a folder."""
    found = Path(of_type(name, value, (str, os.PathLike)))
    if not found.is_dir():
        raise ValueError(f"The folder {value} does not exist or is not a directory or permission "
                         "denied!")
    return found


def existing(name: str, value: Any) -> Path:
    """The path of a file."""
    found = Path(of_type(name, value, (str, Path)))
    if not found.is_file():
        raise ValueError(f"The file {value} does not exist or permission denied!")
    return found


def files(name: str, value: Any) -> list[str]:
    """The files that paths and patterns name, sorted."""
    many = [value] if isinstance(value, (str, os.PathLike)) else value
    of_type(name, many, (list, tuple))
    found: list[str] = []
    missing = []
    for each in many:
        of_type(name, each, (str, os.PathLike))
        matched = [p for p in glob.glob(os.fspath(each)) if os.path.isfile(p)]
        missing += [] if matched else [os.fspath(each)]
        found += matched
    if missing or not found:
        raise ValueError(f"The following patterns did not match any files: {missing}.")
    return sorted(found)


def extensions(name: str, value: Any) -> tuple[str, ...] | None:
    """Endings of files' names in small letters; None if there are none."""
    return tuple(e.lower() for e in names(name, value)) or None


def class_labels(name: str, value: Any) -> dict[str, int] | None:
    """The label of each class; None if there is none."""
    for key, label in of_type(name, value, dict).items():
        of_type(f"key in {name}", key, str)
        integer(f"{name}[{key!r}]", label, 0)
    return dict(value) or None


def shards(num_shards: Any, shard_id: Any) -> None:
    """Check which part of the data is asked for."""
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


def indices(who: str, value: Any) -> list[int]:
    """Positions of rows: one or several."""
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


def iterator(num_epochs: Any, output_numpy: Any, do_copy: Any) -> None:
    """Refuse wrong arguments of an iterator."""
    of_type("num_epochs", num_epochs, int)
    if num_epochs != -1 and num_epochs < 1:
        raise RuntimeError("num_epochs should be either -1 or positive integer, num_epochs: "
                           f"{num_epochs}")
    of_type("output_numpy", output_numpy, bool)
    of_type("do_copy", do_copy, bool)


def batch_size(size: Any) -> Any:
    """Rows of a batch: a positive int, or a function that says it."""
    if callable(size):
        return size
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
        raise TypeError(f"batch_size should either be an int or a callable, but got {size!r}.")
    return integer("batch_size", size, 1)


def pad_info(info: Any) -> Any:
    """How columns are padded: (shape, fill) by column, or None."""
    if info is None:
        return None
    of_type("pad_info", info, dict)
    for name, each in info.items():
        of_type("key in pad_info", name, str)
        if not isinstance(each, tuple) or len(each) != 2:
            raise TypeError(f"pad_info[{name!r}] should be a tuple (shape, value), but got "
                            f"{each!r}.")
        shape = each[0]
        if shape is not None:
            of_type(f"pad_info[{name!r}][0]", shape, (list, tuple))
            for length in shape:
                if length is not None:
                    integer("each length in pad_shape", length, 1)
    return info


def only(what: str, given: dict[str, Any], *known: str) -> None:
    """Refuse keyword arguments that a method does not know."""
    for name in given:
        if name not in known:
            raise TypeError(f"{what}() got an unexpected keyword argument {name!r}; there are "
                            f"{', '.join(known)}.")


def split_counts(sizes: Any, size: int) -> list[int]:
    """How many rows each part has, of `Dataset.split`.

    Args:
        sizes: numbers of rows, or parts of 1.
        size: how many rows there are.
    """
    of_type("sizes", sizes, (list, tuple))
    if not sizes:
        raise ValueError("sizes cannot be empty.")
    if size <= 0:
        raise RuntimeError("Dataset size is 0, so it cannot be split.")
    if all(isinstance(s, (int, np.integer)) and not isinstance(s, bool) for s in sizes):
        if any(s <= 0 for s in sizes):
            raise ValueError("there should be no negative or zero numbers in sizes.")
        if sum(sizes) != size:
            raise RuntimeError(f"Sum of split sizes {sum(sizes)} is not equal to dataset size "
                               f"{size}.")
        return [int(s) for s in sizes]
    if not all(isinstance(s, (float, np.floating)) for s in sizes):
        raise ValueError("sizes should be list of int or list of float.")
    if any(not 0 < s <= 1 for s in sizes):
        raise ValueError("sizes is a list of float, but there should be numbers between (0, 1].")
    if abs(sum(sizes) - 1) > 1e-6:
        raise ValueError("sizes is a list of float, but the percentages do not sum up to 1.")
    return _rounded([float(s) * size for s in sizes], size)


def _rounded(wanted: list[float], size: int) -> list[int]:
    """Whole numbers near the wanted ones that add up to `size`: what is left over goes to the
    first, what is too much is taken from the first that keep at least one."""
    counts = [round(w) for w in wanted]
    if any(c == 0 for c in counts):
        raise RuntimeError(f"The size of split {counts.index(0)} is 0, please provide other "
                           "sizes.")
    surplus = size - sum(counts)
    if surplus > 0:
        counts[0] += surplus
    for i, count in enumerate(counts):
        if surplus < 0:
            taken = min(count - 1, -surplus)
            counts[i] -= taken
            surplus += taken
    if surplus < 0:
        raise RuntimeError(f"{size} rows cannot be split into {len(counts)} parts.")
    return counts


def check_random_transform_ops(method: F) -> F:
    """A decorator of an `__init__` whose argument `transforms` is a list of functions."""
    signature = inspect.signature(method)

    @wraps(method)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments
        transforms = of_type("transforms", given.get("transforms"), list)
        if not transforms:
            raise ValueError("transforms list can not be empty.")
        for i, each in enumerate(transforms):
            if not callable(each):
                raise TypeError(f"transforms[{i}] is neither a transforms op (TensorOperation) nor "
                                "a callable pyfunc.")
        if "prob" in given:
            number("prob", given["prob"], 0.0, 1.0)
        return method(self, *args, **kwargs)

    return checked  # type: ignore[return-value]  # the same function with checks before it
