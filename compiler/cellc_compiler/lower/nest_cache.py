"""A cache of loop nests by structure (hash consing): repeated blocks of a network share theirs.

Two clusters with equal keys give nests that differ in nothing but the values they load and store,
so the second takes over the kernel of the first. A network of a hundred equal layers builds and
writes the nests of one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

from cellc_runtime.records import dataclass, field

from ..fusion.clusters import Cluster, Schedule
from ..ir.graph import Node, Value, attrs_key
from ..loops.nest import Nest, walk
from .kernel import Kernel
from .lowered import ShownNest
from .machine import Flat, Machine


@dataclass(slots=True, eq=False)
class CachedNest:
    """The nest of the first cluster of a key."""

    nest: Nest
    values: tuple[Value, ...]  # those with buffers that its nest names, in the order of the key
    # by the numbers of the values written past the caches: the kernel, and the numbers of the
    # values in the order of its buffers
    kernels: dict[frozenset[int], tuple[Kernel, tuple[int, ...]]] = field(default_factory=dict)
    any_length: list[Flat | None] = field(default_factory=list)
    in_place: dict[tuple[int | None, int], bool] = field(default_factory=dict)

    def same_element(self, old: int | None, new: int) -> bool:
        """See `InPlaceRule`, for values by their numbers."""
        found = self.in_place.get((old, new))
        if found is None:
            found = self.in_place[old, new] = old is not None and self._same_element(
                self.values[old], self.values[new])
        return found

    def _same_element(self, old: Value, new: Value) -> bool:
        written = [(phase, s) for phase in self.nest.phases for s in phase.stores
                   if s.buffer is new]
        offsets = {s.offset for _, s in written}
        if len(offsets) != 1 or any(s.adds or p.reduces for p, s in written):
            return False
        own = written[0][0]
        reads = {(phase is own, e.payload.offset) for phase in self.nest.phases
                 for e in walk(phase.roots()) if e.op == "load" and e.payload.buffer is old}
        return reads <= {(True, offset) for offset in offsets}

    def flat(self, machine: Machine) -> Flat | None:
        """The kernel of its nest for any length, if the nest is flat; made once."""
        if not self.any_length:
            self.any_length.append(machine.flat(self.nest))
        return self.any_length[0]


class InPlaceRule(Protocol):
    """The rule for the places of a cluster's results."""

    def same_element(self, old: Value, new: Value) -> bool:
        """Whether `old` is read only at the element where `new` is written, before it is."""


@dataclass(frozen=True, slots=True)
class ClusterNest:
    """The nest of a cluster: that of the first one like it, and its own values in its place."""

    cached: CachedNest
    values: tuple[Value, ...]

    def same_element(self, old: Value, new: Value) -> bool:
        """Whether the nest reads `old` only at the element where it writes `new`, in one phase."""
        place = {v: i for i, v in enumerate(self.values)}
        return self.cached.same_element(place.get(old), place[new])

    def shown(self, label: str, nodes: Sequence[Node]) -> ShownNest:
        """The nest of these nodes, for people."""
        own = {} if self.values == self.cached.values else dict(
            zip(self.cached.values, self.values, strict=True))
        return ShownNest(label, self.cached.nest, tuple(nodes), own)

    def flat(self, machine: Machine) -> tuple[Flat, tuple[Value, ...]] | None:
        """The kernel for any length and this cluster's values in the order of its buffers; None
        if the nest is not flat."""
        found = self.cached.flat(machine)
        if found is None:
            return None
        own = dict(zip(self.cached.values, self.values, strict=True))
        return found, tuple(own[b] for b in found.buffers)

    def kernel(
        self, streamed: set[Value], emit: Callable[[Nest, set[Value]], tuple[Kernel, list[Value]]]
    ) -> tuple[Kernel, list[Value]]:
        """The kernel and this cluster's values in the order of its buffers."""
        cached = self.cached
        key = frozenset(i for i, v in enumerate(self.values) if v in streamed)
        found = cached.kernels.get(key)
        if found is None:
            kernel, buffers = emit(cached.nest, {cached.values[i] for i in key})
            number = {v: i for i, v in enumerate(cached.values)}
            found = cached.kernels[key] = kernel, tuple(number[v] for v in buffers)
        return found[0], [self.values[i] for i in found[1]]


def cluster_key(
    cluster: Cluster, schedule: Schedule, stored: set[Value]
) -> tuple[Hashable, tuple[Value, ...]]:
    """All that a cluster's nest follows from but the values with buffers, and those, in order."""
    found = _Described(cluster, schedule)
    numbers = found.numbers
    for node in cluster.nodes:
        found.node(node)
        found.parts.append(tuple([numbers.setdefault(r, len(numbers)) if r in stored else None
                                  for r in node.results]))
    return tuple(found.parts), tuple(numbers)


class _Described:
    """The key of a cluster's nest, in `parts`; buffers by their numbers."""

    def __init__(self, cluster: Cluster, schedule: Schedule) -> None:
        self.schedule = schedule
        self.members = {node: i for i, node in enumerate(cluster.nodes)}
        self.inlined: dict[Node, int] = {}
        self.numbers: dict[Value, int] = {}
        self.parts: list[Hashable] = [cluster.domain]

    def node(self, node: Node) -> None:
        """Describe a node, after those that are expanded in it."""
        operands = tuple([self.operand(v) for v in node.operands])
        self.parts.append((node.op, attrs_key(node.attrs), operands,
                           tuple([r.type for r in node.results])))

    def operand(self, v: Value) -> Hashable:
        """Return the key of an operand."""
        node = v.node
        if node in self.members:
            return self.members[node], v.index
        if v in self.schedule.inline:
            assert node is not None
            if node not in self.inlined:
                self.inlined[node] = len(self.inlined)
                self.node(node)
            return "inline", self.inlined[node], v.index
        if node is not None and node.is_constant and node.attrs["value"].array.size == 1:
            return node.attrs["value"].digest, v.type
        owner = self.schedule.root(v)
        number = self.numbers.setdefault(owner, len(self.numbers))
        return "buffer", number, v.type, owner.type
