"""When parameters change: so that what was computed from them ahead is computed again.

A compiled network may keep what follows from its parameters alone (packed weights, say). Every
write to a parameter's memory gives the parameter a new version and the process a new *weights
version*; a compiled entry compares that on each call and looks closer only when it has moved.

Memory that was lent out (`asnumpy` shares it) can be written unseen. While a lent array or a view
of it lives (`Storage.lent`), entries compute everything again.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from itertools import count
from typing import Any

from cellc_runtime.site import STATE

from .state import storage_of, versions

_numbers = count(1)
weights_version = 0
"""Differs from what it was whenever a parameter has been written, replaced or lent."""


def advance() -> int:
    """Something has changed; the new weights version."""
    global weights_version
    weights_version = next(_numbers)  # never the same number twice, also from two threads
    STATE.advance(weights_version)
    return weights_version


answered = False
"""Whether calls by a Parameter may be answered natively without it in the present weights version.
They would not tell a tape of it, so no recording begins in that version (`recorded`)."""


def recorded() -> None:
    """This thread is about to record."""
    global answered
    if answered:
        answered = False
        advance()


lazy: dict[int, weakref.ref[Any]] = {}
"""States that stand for what Parameters hold now (`LazyTranspose`)."""


def before() -> None:
    """A parameter is about to change: what stands for its elements gets elements of its own."""
    if lazy:
        for ref in list(lazy.values()):
            state = ref()
            if state is not None:
                state.settle()


def written(tensors: Iterable[Any]) -> int:
    """The contents of tensors have changed; the new weights version."""
    version = next(versions)
    for t in tensors:
        (t._storage or storage_of(t)).version = version
    return advance()
