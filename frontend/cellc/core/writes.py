"""When parameters change: so that what was computed from them ahead is computed again.

A compiled network may keep what follows from its parameters alone (packed weights, say). Every
write to a parameter's memory gives the parameter a new version and the process a new *epoch*;
a compiled entry compares the epoch on each call and looks closer only when it has moved.

Memory that was lent out (`asnumpy` shares it) can be written unseen. A lent array keeps a
`Lease` alive, also through views of it; while one lives, entries compute everything anew.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from itertools import count
from typing import Any

import numpy as np

from cellc_runtime.site import STATE

Array = np.ndarray[Any, Any]

_numbers = count(1)
epoch = 0
"""Differs from what it was whenever a parameter has been written, replaced or lent."""


def advance() -> int:
    """Something has changed; the new epoch."""
    global epoch
    epoch = next(_numbers)  # never the same number twice, also from two threads
    STATE.advance(epoch)
    return epoch


class Lease:
    """The owner of a lent array, as numpy sees it: it lives while any view of the array does."""

    __slots__ = ("__array_interface__", "__weakref__", "_owner")

    def __init__(self, array: Array) -> None:
        self._owner = array
        self.__array_interface__ = array.__array_interface__


def lend(array: Array) -> tuple[Array, weakref.ref[Lease]]:
    """A view of an array, and what tells whether it, or any view of it, is still in use."""
    lease = Lease(array)
    view = np.asarray(lease)
    if view.dtype != array.dtype:  # the interface has no name for bfloat16
        view = view.view(array.dtype)
    return view, weakref.ref(lease)


answered = False
"""Whether calls by a Parameter may be answered natively without it in the present epoch. They would
not tell a tape of it, so no recording begins in that epoch (`recorded`)."""


def recorded() -> None:
    """This thread is about to record."""
    global answered
    if answered:
        answered = False
        advance()


waiting: dict[int, weakref.ref[Any]] = {}
"""Tensors that stand for what Parameters hold now and have no elements yet (`common/turned.py`)."""


def before() -> None:
    """A parameter is about to change: what stands for its elements gets elements of its own."""
    if waiting:
        for ref in list(waiting.values()):
            tensor = ref()
            if tensor is not None:
                tensor._data  # noqa: B018 (asking makes them)


def written(parameters: Iterable[Any]) -> int:
    """The contents of parameters have changed; the new epoch."""
    for p in parameters:
        p._version += 1
    return advance()
