"""Parameters of which this rank has a part: how each is cut, and its whole shape for traces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakSet

import numpy as np

from cellc_runtime.records import dataclass
from cellc_runtime.world import world

from .layout import Placement


@dataclass(frozen=True, slots=True)
class Cut:
    """How a parameter is cut."""

    shape: tuple[int, ...]  # of the whole
    placement: Placement  # over the ranks

    def described(self) -> list[Any]:
        """In MindSpore's form: the array of ranks; for each axis the axis of that which cuts it,
        counted from the last (-1: none); the shape of a part; 0 (no field); True (equal parts); ""
        (no group of an optimizer's parts)."""
        matrix, layout = self.placement
        last = len(matrix) - 1
        names = [[last - a for a in cut] for cut in layout]
        parts = [int(np.prod([matrix[a] for a in cut])) for cut in layout]
        return [list(matrix), [n[0] if len(n) == 1 else n or -1 for n in names],
                [d // p for d, p in zip(self.shape, parts, strict=True)], 0, True, ""]


_cut: dict[int, WeakSet[Any]] = {}  # The parameters that are cut, by the rank whose parts they are


def hold(parameter: Any) -> None:
    """A parameter has a `cut` from now on."""
    _cut.setdefault(world().rank, WeakSet()).add(parameter)


_batches: ContextVar[int] = ContextVar("batches", default=0)


def batches_in_trace() -> int:
    """Return the number of ranks whose batches a trace holds one after the other; 0: it is a graph
    of this rank's own."""
    return _batches.get()


@contextmanager
def whole_shapes(batches: int) -> Iterator[None]:
    """Within the block a graph of all ranks is traced: parameters that are cut have the shapes of
    the whole, and no elements. `batches`: how many ranks feed parts of the batch."""
    token = _batches.set(batches)
    held = [p for p in _cut.get(world().rank, ()) if p.shape != p.cut.shape]
    saved = [p.show_whole() for p in held]
    try:
        yield
    finally:
        _batches.reset(token)
        for p, array in zip(held, saved, strict=True):
            p.show_part(array)
