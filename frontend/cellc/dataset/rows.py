"""The rows of a pipeline, of numpy values; and the random state of a pass over it."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ..tensors.tensor import Tensor
from . import config

T = TypeVar("T")
Value = Any  # A numpy array (of numbers, strings or bytes), or a dict of values
Row = tuple[Value, ...]
"""The values of one row, one for each column."""
HIDDEN = "_meta-"
"""How the names of columns start that iterators leave out unless they are requested."""


class Run:
    """One epoch of a pipeline: which it is, and what its operations keep from one to the next.

    Each operation that draws has streams of its own, which all start from one seed, as MindSpore's
    do. So what one draws does not change what another does, and two iterators draw the same.

    Args:
        seed: None: the configured one, or the system's randomness if none was set.
        before: the run of another epoch, or of the pipeline that this one is a part of; its seed
            and what was kept in it are taken over.
        reports: whether callbacks are called: not for rows that are only counted or looked at.
    """

    def __init__(
        self, epoch: int = 0, seed: int | None = None, before: Run | None = None,
        reports: bool = False,
    ) -> None:
        self.epoch = epoch
        self._whole: Run = self if before is None else before._whole
        """The first run of this iterator."""
        if before is None:
            self._reports, self._ends = reports, list[Callable[[], None]]()
            self._in_step = False
        chosen = config.chosen_seed() if seed is None else seed
        self.seed: int = before.seed if before is not None else \
            int.from_bytes(os.urandom(4), "little") if chosen is None else chosen
        self.pools: dict[int, Any] = before.pools if before is not None else {}
        self._kept: dict[Any, Any] = before._kept if before is not None else {}

    @property
    def reports(self) -> bool:
        """Whether callbacks hear of it."""
        return self._whole._reports

    @property
    def in_step(self) -> bool:
        """Whether no row may be made before it is requested: something waits for what is done
        with the row before it."""
        return self._whole._in_step

    def keep_step(self) -> None:
        """Make no row ahead from now on."""
        self._whole._in_step = True

    def at_end(self, action: Callable[[], None]) -> None:
        """Call a function when the epoch ends."""
        self._whole._ends.append(action)

    def end(self) -> None:
        """The epoch ends: all rows have been given."""
        while self._whole._ends:
            self._whole._ends.pop(0)()

    def kept(self, owner: object, make: Callable[[], T]) -> T:
        """Return an operation's data for its iterator's life; made when first requested."""
        key = id(owner)
        if key not in self._kept:
            self._kept[key] = make()
        found: T = self._kept[key]
        return found

    def times(self, owner: object) -> int:
        """How often something has been gone through before by this iterator."""
        done: int = self._kept.get(("times", id(owner)), 0)
        self._kept["times", id(owner)] = done + 1
        return done

    def branch(self, number: int, owner: object) -> Run:
        """The same run for one of several datasets that are put together: what is in two of them
        draws in each as if it were alone."""
        part = Run(self.epoch, self.seed, self)
        part._kept = self._kept.setdefault(("branch", number, id(owner)), {})
        return part


def to_value(given: Any, where: str, error: type[Exception] = TypeError) -> Value:
    """Return a result of a user's function or source as a value of a row.

    Args:
        given: an array, Tensor, number, string, bytes, list of them, or a dict.
        where: which column and function, for errors.
    """
    if isinstance(given, Tensor):
        return given.asnumpy()
    if isinstance(given, dict):
        return {k: to_value(v, f"{where}, key {k!r}", error) for k, v in given.items()}
    try:
        array = given if isinstance(given, np.ndarray) else np.asarray(given)
    except ValueError as why:
        raise error(f"{where}: {given!r} makes no array: {why}") from None
    if array.dtype.kind in "OMm":
        raise error(
            f"{where}: expected an array, number, string or bytes, but got "
            f"{'an array of ' + str(array.dtype) if isinstance(given, np.ndarray) else given!r}")
    return array


def own_value(given: Any, where: str, error: type[Exception] = TypeError) -> Value:
    """As `to_value`, and nothing the caller keeps shares its memory."""
    value = to_value(given, where, error)
    return value.copy() if value is given or isinstance(given, Tensor) else value


def to_tensor(value: Value) -> Any:
    """A value as iterators give it: a Tensor; strings stay arrays."""
    if isinstance(value, dict):
        return {k: to_tensor(v) for k, v in value.items()}
    if value.dtype.kind in "US":
        return value
    return Tensor(value)


def failed(what: str, error: BaseException) -> RuntimeError:
    """The error that says in which operation a user's function failed, and where."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return RuntimeError(f"{what} failed: {type(error).__name__}: {error}{place}")


def places_of(names: Sequence[str], columns: Sequence[str], what: str) -> list[int]:
    """Where the named columns are."""
    missing = [n for n in names if n not in columns]
    if missing:
        raise RuntimeError(f"{what}: column {missing[0]!r} doesn't exist in the dataset columns "
                           f"{list(columns)}.")
    return [columns.index(n) for n in names]
