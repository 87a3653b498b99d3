"""Updates of parameters: one kernel for each formula, and one call for all small parameters.

An optimizer does the same to every parameter. The loops of one update depend on neither the shape
of its parameter nor on the others (`llvm/nest_many.py`), so updates of one formula share a kernel.
A large parameter is updated where its gradient is ready. Small ones wait for one another and are
updated by one call, whose chunks all threads share: none pays for a region of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from cellc_runtime.records import dataclass, field

from ..ir.graph import Graph, Value
from ..passes.fusion import SCALARS, Cluster
from .alike import Laid
from .llvm.nest_many import Flat

SMALL_CYCLES = 250_000.0
"""An update of less work waits for others; its gradient then lives until they are ready."""


@dataclass(slots=True, eq=False)
class Update:
    """A cluster that updates parameters by a flat nest.

    Attributes:
        values: those of its buffers, in the order of the kernel.
        touched: large values that it reads, and those that its results may replace.
    """

    cluster: Cluster
    laid: Laid
    kernel: Flat
    values: tuple[Value, ...]
    stored: frozenset[Value]
    touched: frozenset[Value]

    @property
    def is_small(self) -> bool:
        """Whether it should wait for others."""
        return self.kernel.cost * self.kernel.length < SMALL_CYCLES


@dataclass(slots=True)
class Waiting:
    """Updates to come, by their kernels' text; no two of them touch one value."""

    updates: dict[str, list[Update]] = field(default_factory=dict)
    touched: set[Value] = field(default_factory=set)
    stored: set[Value] = field(default_factory=set)

    def add(self, update: Update) -> None:
        """Let one more wait."""
        self.updates.setdefault(update.kernel.body, []).append(update)
        self.touched |= update.touched
        self.stored |= update.stored

    def stands_in_way(self, values: Iterable[Value]) -> bool:
        """Whether one of the values is still to be computed."""
        return bool(self.updates) and not self.stored.isdisjoint(values)


def replaced_by(graph: Graph) -> dict[Value, Value]:
    """New value -> the input it replaces."""
    return {new: old for old, new in graph.updates}


def touched(reads: Iterable[Value], stored: Iterable[Value], replaced: dict[Value, Value]) -> (
    frozenset[Value]
):
    """What an update must not share with another that runs beside it."""
    large = {v for v in reads if v.type.size > SCALARS}
    return frozenset(large | {replaced[v] for v in stored if v in replaced})
