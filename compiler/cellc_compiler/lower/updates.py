"""Updates of parameters: one kernel for each formula, and one call for all small parameters.

An optimizer does the same to every parameter. The loops of one update depend on neither the shape
of its parameter nor on the others, so updates of one formula share a kernel.
A large parameter is updated where its gradient is ready. Small ones wait for one another and are
updated by one call, whose chunks all threads share: none pays for a region of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from cellc_runtime.records import dataclass, field

from ..fusion.clusters import SCALARS, Cluster
from ..ir.dims import surely_at_least
from ..ir.graph import Graph, Value
from .machine import Flat
from .nest_cache import ClusterNest

SMALL_CYCLES = 250_000.0
"""An update of less work waits for others; its gradient then lives until they are ready."""


@dataclass(slots=True, eq=False)
class Update:
    """A cluster that updates parameters by a flat nest."""

    cluster: Cluster
    nest: ClusterNest
    kernel: Flat
    values: tuple[Value, ...]  # those of its buffers, in the order of the kernel
    stored: frozenset[Value]
    touched: frozenset[Value]  # large values that it reads, and those that its results may replace
    # small values that it reads and some update replaces (the number of steps)
    counted: frozenset[Value]
    replaces: frozenset[Value]  # values that its results may replace

    @property
    def is_small(self) -> bool:
        """Whether it should wait for others."""
        return self.kernel.cost * self.kernel.length < SMALL_CYCLES


@dataclass(slots=True)
class PendingUpdates:
    """Updates to come, by their kernels' code, in any order: no two of them touch one value, and
    none replaces a number that another reads."""

    updates: dict[Any, list[Update]] = field(default_factory=dict)
    touched: set[Value] = field(default_factory=set)
    stored: set[Value] = field(default_factory=set)
    counted: set[Value] = field(default_factory=set)
    replaces: set[Value] = field(default_factory=set)

    def add(self, update: Update) -> None:
        """Let one more wait."""
        self.updates.setdefault(update.kernel.code, []).append(update)
        self.touched |= update.touched
        self.stored |= update.stored
        self.counted |= update.counted
        self.replaces |= update.replaces

    def admits(self, update: Update) -> bool:
        """Whether one more may run before or after those that wait."""
        return (self.touched.isdisjoint(update.touched)
                and self.replaces.isdisjoint(update.counted))

    def conflicts(self, reads: Iterable[Value], replaces: Collection[Value]) -> bool:
        """Whether one of the values read is still to be computed, or one of those to be replaced
        is still to be read."""
        return bool(self.updates) and not (
            self.stored.isdisjoint(reads) and self.touched.isdisjoint(replaces)
            and self.counted.isdisjoint(replaces))


def replaced_by(graph: Graph) -> dict[Value, Value]:
    """New value -> the input it replaces."""
    return {new: old for old, new in graph.updates}


def update_of(
    cluster: Cluster, nest: ClusterNest, kernel: Flat, values: tuple[Value, ...],
    reads: Iterable[Value], stored: Collection[Value], replaced: dict[Value, Value],
) -> Update:
    """The update that a cluster is, given the values with buffers that it reads."""
    replaces = frozenset(replaced[v] for v in stored if v in replaced)
    reads = set(reads)
    # A value of open size may be large or not, so both restrict the update.
    large = {v for v in reads if not surely_at_least(SCALARS, v.type.size)}
    small = frozenset(v for v in reads if not surely_at_least(v.type.size, SCALARS + 1))
    return Update(cluster, nest, kernel, values, frozenset(stored), replaces | large,
                  small.intersection(replaced.values()), replaces)
