"""Deferred initialization: values that are made when they are needed.

Most networks get trained weights before their first call, and drawing what these replace took
longer than all the rest of a start.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from .memory import Array, aligned_zeros
from .state import State

LEAST = 1 << 16  # Bytes from which on it is worth it


class _Filled(State):
    """Values that a function fills in.

    Args:
        fill: fills an array of zeros.
    """

    __slots__ = ("dtype", "fill", "shape")

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], fill: Callable[[Array], None]
    ) -> None:
        self.shape, self.dtype, self.fill = shape, dtype, fill

    def array(self) -> Array:
        """The values, drawn."""
        out = aligned_zeros(self.shape, self.dtype)
        self.fill(out)
        return out


class Deferred(_Filled):
    """Initial values of a Parameter that nobody has asked for. They are the same whenever they are
    made: the key of the generator was taken before."""

    __slots__ = ()


class Pending(_Filled):
    """Values that the initializer of a Tensor is still to give.

    Args:
        fill: the initializer.
        in_turn: it is one of a network's Parameters. At the first look at one of these all that
            wait take seeds, in the order in which they were made: so each has one value, whoever
            looks at which first (the ranks of a pipeline look at some each).
    """

    __slots__ = ("__weakref__", "drawn", "turn")

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], fill: Callable[[Array], None],
        in_turn: bool = False,
    ) -> None:
        super().__init__(shape, dtype, fill)
        self.drawn: Callable[[Array], None] | None = None
        self.turn = next(_turns) if in_turn else -1
        if in_turn:
            _waiting[self.turn] = self

    def array(self) -> Array:
        """See `_Filled`."""
        if self.turn in _waiting:
            for turn, p in sorted(_waiting.items()):
                _waiting.pop(turn, None)
                p.take_seed()
        out = aligned_zeros(self.shape, self.dtype)
        (self.drawn or self.fill)(out)
        return out

    def take_seed(self) -> None:
        """Be drawn from now on by the seed that comes next, if the initializer can tell."""
        later = getattr(type(self.fill), "later", None)
        if later is not None:
            with suppress(ValueError, TypeError):  # a read of this one raises it
                self.drawn = later(self.fill, self.shape, self.dtype)


_waiting: WeakValueDictionary[int, Pending] = WeakValueDictionary()
_turns = count()
