"""Lazy transpose: transposes of Parameters that are not made yet.

A matrix product reads a transposed operand as well as a straight one, so `x @ w.T` needs no
transpose: large ones are made when their elements are needed, and most often nobody does.
Until then such a Tensor stands for its source as it was when it was transposed: before a Parameter
changes, `writes.before` makes those that are left.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from . import writes
from .memory import Array
from .state import State, storage_of

LEAST = 1 << 18  # Bytes from which on it is worth it to wait


class LazyTranspose(State):
    """The transpose of a Parameter in its last two axes.

    Args:
        make: gives the array, while the Parameter is as it is now.
    """

    __slots__ = ("__weakref__", "_tensor", "dtype", "make", "shape", "source")

    def __init__(self, tensor: Any, source: Any, make: Callable[[], Array]) -> None:
        *batch, rows, columns = source.shape
        self.shape, self.dtype = (*batch, columns, rows), source._type.dtype.numpy
        self._tensor, self.source, self.make = weakref.ref(tensor), source, make

    def array(self) -> Array:
        """The elements of the source, transposed."""
        return self.make()

    def settle(self) -> None:
        """The source is about to change: the transpose gets elements of its own."""
        tensor = self._tensor()
        if tensor is not None:
            storage_of(tensor).load(tensor)


def transpose_later(tensor: Any, source: Any, make: Callable[[], Array]) -> None:
    """Let a new tensor be the transpose of a Parameter; see `LazyTranspose`."""
    state = LazyTranspose(tensor, source, make)
    storage_of(tensor).defer(tensor, state)
    key = id(state)
    writes.lazy[key] = weakref.ref(state, lambda _: writes.lazy.pop(key, None))


def may_wait(p: Any) -> bool:
    """Whether the transpose of a Parameter may be made later: who changes it says so before."""
    return p.init is None and p._type.nbytes >= LEAST and not p._is_lent


def source_of(tensor: Any) -> Any:
    """The Parameter that a tensor is the transpose of, if that is still to be made."""
    storage = tensor._storage
    state = None if storage is None else storage.state
    return state.source if type(state) is LazyTranspose else None
