"""Checks of what the methods of `Dataset` are given, and what these make of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import checks
from .workers import Workers


def workers(count: int | None, options: Mapping[str, Any]) -> Workers:
    """The workers that the options of `map` and `batch` ask for."""
    processes = checks.of_type(
        "python_multiprocessing", options.get("python_multiprocessing", False), bool)
    return Workers(count, processes, checks.row_sizes(options.get("max_rowsize")))


def iterator(num_epochs: Any, output_numpy: Any, do_copy: Any) -> None:
    """Refuse wrong arguments of an iterator.

    Raises:
        TypeError, RuntimeError: one is of another type, or the number of epochs is none.
    """
    checks.of_type("num_epochs", num_epochs, int)
    if num_epochs != -1 and num_epochs < 1:
        raise RuntimeError("num_epochs should be either -1 or positive integer, num_epochs: "
                           f"{num_epochs}")
    checks.of_type("output_numpy", output_numpy, bool)
    checks.of_type("do_copy", do_copy, bool)


def batch_size(size: Any) -> Any:
    """Rows of a batch: a positive int, or a function that says it.

    Raises:
        TypeError, ValueError: it is neither.
    """
    if callable(size):
        return size
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
        raise TypeError(f"batch_size should either be an int or a callable, but got {size!r}.")
    return checks.integer("batch_size", size, 1)


def pad_info(info: Any) -> Any:
    """How columns are padded: (shape, fill) by column, or None.

    Raises:
        TypeError, ValueError: something else.
    """
    if info is None:
        return None
    checks.of_type("pad_info", info, dict)
    for name, each in info.items():
        checks.of_type("key in pad_info", name, str)
        if not isinstance(each, tuple) or len(each) != 2:
            raise TypeError(f"pad_info[{name!r}] should be a tuple (shape, value), but got "
                            f"{each!r}.")
        shape = each[0]
        if shape is not None:
            checks.of_type(f"pad_info[{name!r}][0]", shape, (list, tuple))
            for length in shape:
                if length is not None:
                    checks.integer("each length in pad_shape", length, 1)
    return info


def only(what: str, given: dict[str, Any], *known: str) -> None:
    """Refuse keyword arguments that a method does not know.

    Raises:
        TypeError: there is one.
    """
    for name in given:
        if name not in known:
            raise TypeError(f"{what}() got an unexpected keyword argument {name!r}; there are "
                            f"{', '.join(known)}.")


def split_counts(sizes: Any, size: int) -> list[int]:
    """How many rows each part has, of `Dataset.split`.

    Args:
        sizes: numbers of rows, or parts of 1.
        size: how many rows there are.

    Raises:
        TypeError, ValueError, RuntimeError: they do not fit.
    """
    checks.of_type("sizes", sizes, (list, tuple))
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
