"""Which stage of a pipeline each node of a training step belongs to.

A Cell says its stage, and what is computed in it, forward and backward, belongs there. A node
without one goes where its operands are: in the forward part to the last of their stages, after it
(sums of gradients, optimizers) to that of the largest operand. Values that follow from a call's
arguments alone, or from untrained parameters, belong to every stage that reads them. Any placement
is right: values that cross are sent. So the rules decide costs, never results.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from cellc_runtime.records import dataclass, field

from ...ir.graph import Graph, Node, Value
from ...ops.collective import AllReduce, ReduceScatter
from ...ops.control import Cotangent
from ...ops.elementwise import Add
from ...ops.slice import MicroBatch
from . import branches, micro_batches

_SUMS_OF_RANKS = (AllReduce.name, ReduceScatter.name)
EVERYWHERE = None  # The stage of what each stage computes for itself
_WITH_USERS = -1
"""The stage, until it is known, of what is computed from parameters: the first that reads it."""


class StageError(ValueError):
    """A network that cannot be cut as its Cells say."""

    def __init__(self, message: str, node: Node | None = None) -> None:
        super().__init__(message)
        self.node = node  # where it cannot; None: nowhere in particular


@dataclass(frozen=True, slots=True)
class Request:
    """How a graph is to be cut."""

    stages: int  # how many there are
    # the stage of a Cell, by its path; None where none was said
    of_scope: Callable[[str], int | None]
    trained: Collection[Value] = ()  # the inputs that are trained parameters
    interleaved: bool = False  # stages may be passed more than once


@dataclass(frozen=True, slots=True)
class Placement:
    """Where and in which unit of work nodes are computed."""

    stage: dict[Node, int | None]  # of each node, or `EVERYWHERE`
    home: dict[Value, int | None]  # of each parameter, the stage that holds it, or `EVERYWHERE`
    micro: dict[Node, int]  # the last micro-batch that a node depends on
    backward: set[Node]  # the nodes of backward passes, and what is done with gradients
    micro_batches: int
    # which part of its stage a node is in; not there for the first
    part: dict[Node, int] = field(default_factory=dict)

    @property
    def parts(self) -> int:
        """How many parts of the network each stage has."""
        return max(self.part.values(), default=0) + 1

    def of(self, value: Value) -> int | None:
        """Where a value is computed or held."""
        return self.stage[value.node] if value.node is not None else self.home.get(value)


def place(graph: Graph, request: Request) -> Placement:
    """Place all nodes of a traced graph, in which branches are divided among stages.

    Raises:
        StageError: a Cell has a stage that there is not, a stage has no Cell, or a Cell reads what
            a later stage computes.
    """
    backward = {n for n in graph.nodes if n.origin} | _following(
        graph, {r for n in graph.nodes if n.op == Cotangent.name for r in n.results})
    free = _untrained(graph, request.trained)
    moving = _following(graph, set(graph.inputs) - free)
    walk = _Walk(graph, request, backward, free, moving)
    walk.sweep({})
    if branches.divide(graph, walk.stage):
        return place(graph, request)
    tied = _tied(graph, walk.stage)
    if tied:
        walk.sweep(tied)
    walk.settle()
    used = {s for s in walk.said if s is not None}
    if missing := sorted(set(range(request.stages)) - used):
        raise StageError(
            f"a pipeline of {request.stages} stages needs Cells in each of them, but no Cell that "
            f"is called has pipeline_stage {', '.join(map(str, missing))}")
    counts = [n.attrs["count"] for n in graph.nodes if n.op == MicroBatch.name]
    made = Placement(walk.stage, _homes(graph, walk.stage, free),
                     micro_batches.last_of(graph.nodes), backward, max(counts, default=1))
    if request.interleaved:
        made.part.update(_parts(graph, made))
    return made


class _Walk:
    """Finds the stages of nodes in the order of the graph."""

    def __init__(
        self, graph: Graph, request: Request, backward: set[Node], free: set[Value],
        moving: set[Node],
    ) -> None:
        self.graph, self.request, self.backward = graph, request, backward
        self.free, self.moving = free, moving
        self.stage: dict[Node, int | None] = {}
        self.said: set[int | None] = set()

    def sweep(self, known: Mapping[Node, int]) -> None:
        """Place each node, but for those whose stages are known."""
        for node in self.graph.nodes:
            self.stage[node] = known[node] if node in known else self._of(node)

    def _of(self, node: Node) -> int | None:
        if node not in self.moving:
            return EVERYWHERE
        placed = [(self.stage[v.node], v) for v in node.operands if v.node in self.stage]
        there = [(s, v.type.nbytes) for s, v in placed if s is not None and s >= 0]
        said = self.request.of_scope(node.scope) if node.scope else None
        if said is not None:
            self._check(node, said, max((s for s, _ in there), default=0))
            return said
        if there:
            return max(s for s, _ in there) if node not in self.backward else \
                max(there, key=lambda found: (found[1], found[0]))[0]
        weights = any(s == _WITH_USERS for s, _ in placed) or any(
            v.node is None and v.kind != "input" and v not in self.free for v in node.operands)
        return _WITH_USERS if weights else EVERYWHERE

    def _check(self, node: Node, said: int, latest: int) -> None:
        self.said.add(said)
        if said >= self.request.stages:
            raise StageError(
                f"the Cell {node.scope} has pipeline_stage {said}, but there are "
                f"{self.request.stages} stages, 0 to {self.request.stages - 1}", node)
        if latest > said and node not in self.backward and not self.request.interleaved:
            raise StageError(
                f"the Cell {node.scope} has pipeline_stage {said}, but it reads what stage "
                f"{latest} computes: stages must rise along the network (or set "
                "pipeline_interleave=True)", node)

    def settle(self) -> None:
        """Place values computed from parameters in the first stage that reads them; unread ones (a
        new value without a gradient in it), in the first that reads these parameters."""
        users = self.graph.users()
        for node in reversed(self.graph.nodes):
            if self.stage[node] == _WITH_USERS:
                read = self._stages_of(users, node.results) or self._stages_of(
                    users, [v for v in node.operands if v.node is None])
                self.stage[node] = min(read, default=0)

    def _stages_of(
        self, users: Mapping[Value, Sequence[Node]], values: Sequence[Value]
    ) -> list[int]:
        """The stages that read some of these values, as far as they are known."""
        found = [self.stage[u] for v in values for u in users.get(v, ())]
        return [s for s in found if s is not None and s != _WITH_USERS]


def _following(graph: Graph, sources: Collection[Value]) -> set[Node]:
    """The nodes that depend on some of these values."""
    known, found = set(sources), set()
    for node in graph.nodes:
        if not known.isdisjoint(node.operands):
            known.update(node.results)
            found.add(node)
    return found


def _untrained(graph: Graph, trained: Collection[Value]) -> set[Value]:
    """Parameters and state that no argument and no gradient changes: learning rates, counters."""
    free = {v for v in graph.inputs if v.kind != "input"} - set(trained)
    while True:
        moving = _following(graph, set(graph.inputs) - free)
        gone = {old for old, new in graph.updates if old in free and new.node in moving}
        if not gone:
            return free
        free -= gone


def _tied(graph: Graph, stage: Mapping[Node, int | None]) -> dict[Node, int]:
    """Sums of a gradient of which several stages give parts: all in the first of them.

    A parameter that several stages read is held by the first. The sums keep their order.
    """
    users, ends = graph.users(), set(graph.results())
    root: dict[Node, Node] = {}
    members: dict[Node, list[Node]] = {}
    for node in reversed(graph.nodes):
        if node.op != Add.name or not node.origin:
            continue
        readers = _readers(users, node.result)
        if node.result in ends or any(not u.origin for u in readers):
            root[node] = node
        elif len(readers) == 1 and readers[0] in root:
            root[node] = root[readers[0]]
        if node in root:
            members.setdefault(root[node], []).append(node)
    out: dict[Node, int] = {}
    for group in members.values():
        inside = set(group)
        given = [stage[v.node] for n in group for v in n.operands
                 if v.node is not None and v.node not in inside]
        stages = {s for s in given if s is not None and s >= 0}
        if len(stages) > 1:
            out.update(dict.fromkeys(group, min(stages)))
    return out


def _readers(users: Mapping[Value, Sequence[Node]], value: Value) -> list[Node]:
    """Return the readers of a value, or of the sum of the ranks' parts that it is."""
    found: list[Node] = []
    for u in users.get(value, ()):
        found += _readers(users, u.result) if u.op in _SUMS_OF_RANKS else [u]
    return found


def _homes(
    graph: Graph, stage: Mapping[Node, int | None], free: Collection[Value]
) -> dict[Value, int | None]:
    """Where parameters are held: in the first stage that reads them."""
    users = graph.users()
    written = dict(graph.updates)
    out: dict[Value, int | None] = {}
    for v in graph.inputs:
        if v.kind == "input" or v in free:
            continue
        makers = [written[v].node] if v in written else []
        read = [stage[n] for n in (*users.get(v, ()), *makers) if n is not None]
        out[v] = min((s for s in read if s is not None), default=EVERYWHERE)
    return out


def _parts(graph: Graph, placement: Placement) -> dict[Node, int]:
    """Which part of its stage each node is in: one more whenever the network comes back to it."""
    out: dict[Node, int] = {}
    of_cell: dict[str, int] = {}
    for node in graph.nodes:
        here = placement.stage[node]
        if here is None:
            continue
        if node in placement.backward:
            out[node] = of_cell.get(node.scope, 0)
            continue
        out[node] = max((out[n] + (_stage(placement, n) > here) for n in _makers(node)
                         if n in out), default=0)
        of_cell[node.scope] = max(out[node], of_cell.get(node.scope, 0))
    return out


def _makers(node: Node) -> Sequence[Node]:
    return [v.node for v in node.operands if v.node is not None]


def _stage(placement: Placement, node: Node) -> int:
    found = placement.stage[node]
    return -1 if found is None else found
