"""What flows through a pipeline: rows of numpy values; and what a pass over it draws from."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..tensors.tensor import Tensor
from . import config

Value = Any
"""A numpy array (of numbers, strings or bytes), or a dict of values."""
Row = tuple[Value, ...]
"""The values of one row, one for each column."""


class Run:
    """One epoch of a pipeline: which it is, and the random streams of its operations.

    Each operation that draws takes a stream of its own when it starts, so what one draws does not
    change what another does. With a seed set, two iterators draw the same.

    Args:
        epoch: counted from 0.
        seed: None: the configured one, or the system's randomness if none was set.
        pools: workers of earlier epochs that wait for more, by the `id` of whose they are.
    """

    def __init__(
        self, epoch: int = 0, seed: int | None = None, pools: dict[int, Any] | None = None
    ) -> None:
        self.epoch = epoch
        self.pools: dict[int, Any] = {} if pools is None else pools
        chosen = config.chosen_seed() if seed is None else seed
        self._passes: dict[int, int] = {}
        self._streams = np.random.SeedSequence(
            None if chosen is None else [chosen, epoch])

    def times(self, source: object) -> int:
        """How often a source has been gone through before in this epoch (by `repeat`)."""
        done = self._passes.get(id(source), 0)
        self._passes[id(source)] = done + 1
        return done

    def stream(self) -> np.random.Generator:
        """The next random stream."""
        return np.random.default_rng(self._streams.spawn(1)[0])


def to_value(given: Any, where: str, error: type[Exception] = TypeError) -> Value:
    """What a user's function or source gave, as a value of a row.

    Args:
        given: an array, Tensor, number, string, bytes, list of them, or a dict.
        where: which column and function, for errors.
        error: the class of these.

    Raises:
        TypeError: (or `error`) something else, or values that make no array.
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
    """Where the named columns are.

    Raises:
        RuntimeError: one is not there.
    """
    missing = [n for n in names if n not in columns]
    if missing:
        raise RuntimeError(f"{what}: column {missing[0]!r} doesn't exist in the dataset columns "
                           f"{list(columns)}.")
    return [columns.index(n) for n in names]
