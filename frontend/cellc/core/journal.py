"""Effects of eager code that a second run must not repeat, or must find as they were.

While a journal is open, the elements of tensors are copied before the first time they are
overwritten, and what Python functions gave is kept. While one is replayed, such functions are not
called: they give what they gave.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_runtime.records import dataclass, field

from ..storage import writes
from ..storage.device import elements_of

if TYPE_CHECKING:
    from ..tensors.tensor import Tensor

Array = np.ndarray[Any, Any]


@dataclass(eq=False, slots=True)
class Journal:
    """Of one run."""

    # tensors that were overwritten, by identity, with the elements they had
    before: dict[int, tuple[Tensor, Array]] = field(default_factory=dict)
    given: list[list[Array]] = field(default_factory=list)  # what Python functions gave, in order


class _Open(threading.local):
    def __init__(self) -> None:
        self.journals: list[Journal] = []
        self.source: Iterator[list[Array]] | None = None


_open = _Open()


@contextmanager
def writing(journal: Journal) -> Iterator[None]:
    """Within the block what this thread does is noted."""
    _open.journals.append(journal)
    try:
        yield
    finally:
        _open.journals.remove(journal)


@contextmanager
def replaying(journal: Journal) -> Iterator[None]:
    """Within the block Python functions give what the journal says; no other one is written."""
    saved = _open.journals, _open.source
    _open.journals, _open.source = [], iter(journal.given)
    try:
        yield
    finally:
        _open.journals, _open.source = saved


def before_write(tensor: Tensor) -> None:
    """The elements of a tensor are about to change."""
    writes.before()
    for journal in _open.journals:
        if id(tensor) not in journal.before:
            journal.before[id(tensor)] = tensor, _elements(tensor).copy()


def _elements(tensor: Tensor) -> Any:
    """Return the copy to keep of a tensor that is about to change, where it is."""
    found = elements_of(tensor)
    return tensor._data if found is None else found


def given_by(function: Callable[[], list[Array]]) -> list[Array]:
    """Return the result of a Python function's call, now or of its first run."""
    out = function() if _open.source is None else next(_open.source)
    for journal in _open.journals:
        journal.given.append(out)
    return out
