"""The graph of one process becomes what one rank does: its parts, and what brings them together.

`shard` takes a traced graph, gradients and updates included, for the whole tensors. It gives the
graph of one rank: inputs and outputs have the shapes of that rank's parts, ops compute parts, and
collectives stand where an operand is needed as it does not lie, or a sum has been split. Operations
that do not split (loops and branches of the run, draws, calls of Python) get whole operands; a draw
gives each rank the bits of one process, of which it keeps its part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from cellc_runtime.records import dataclass, field

from ...ir.graph import Builder, Graph, Node, Value
from ...ir.op import lookup
from ...ir.sharding import Extents, Layout, Mesh, Part, whole
from ...ir.types import TensorType
from ..base import copy_graph
from ..cleanup import Cse, Dce
from ..complex_reductions import ComplexReductions
from ..expand import Expand
from .halo import widened
from .plan import LAY_OUT, Choice, Plan, Planner
from .redistribution import Kind, reduced, route, take


@dataclass(frozen=True, slots=True)
class Moved:
    """A collective or slice that the pass has put in."""

    op: str  # which
    what: str  # the value, and how it lies before and after
    where: str  # the source that the reader of the value comes from


@dataclass(slots=True)
class Sharded:
    """The graph of one rank."""

    graph: Graph  # of this rank's parts
    # inputs, outputs: how the inputs and outputs lie
    inputs: list[Layout]
    outputs: list[Layout]
    cost: float  # what the plan costs a rank, in bytes that are sent
    moved: list[Moved] = field(default_factory=list)
    text: str = ""  # each value's layout, and what moves between ranks, line by line


def core_graph(graph: Graph, keep: Sequence[str] = ()) -> Graph:
    """A copy of a traced graph, of core ops and those that are to be kept: what `shard` plans."""
    out = copy_graph(graph)
    for p in (Dce(), Expand(*keep), ComplexReductions(), Cse()):
        p.run(out)
    return out


def shard(
    graph: Graph, mesh: Mesh, rank: int, inputs: Mapping[int, Layout],
    outputs: Callable[[int, Value, Layout], Layout],
) -> Sharded:
    """The graph of a rank.

    Args:
        graph: of core ops, for whole tensors; it is used up.
        inputs: how inputs lie, by their numbers; the others follow.
        outputs: how an output is to lie, from its number and how it would.

    Raises:
        ValueError: a layout that is asked for does not fit.
    """
    given = {graph.inputs[i]: layout for i, layout in inputs.items()}
    given |= {n.result: meshed(mesh, n) for n in graph.nodes if n.op == LAY_OUT}
    plan = Planner(graph, mesh, given).plan()
    return _Rewriter(graph, plan, rank).run(outputs)


def input_layouts(graph: Graph, mesh: Mesh, inputs: Mapping[int, Layout]) -> list[Layout]:
    """How all inputs would lie where some do so."""
    given = {graph.inputs[i]: layout for i, layout in inputs.items()}
    given |= {n.result: meshed(mesh, n) for n in graph.nodes if n.op == LAY_OUT}
    layouts = Planner(graph, mesh, given).plan().layouts
    return [layouts[v] for v in graph.inputs]


def batch_first(graph: Graph, parts: int, inputs: Mapping[int, Layout]) -> set[int]:
    """The outputs whose first axis holds the examples that the first axis of some inputs does.

    Args:
        parts: into how many the data are cut.
        inputs: how these inputs lie.
    """
    line = Mesh((parts,), tuple(range(parts)))
    given = {graph.inputs[i]: ((0,), *whole(len(layout) - 1)) for i, layout in inputs.items()}
    planner = Planner(graph, line, given)
    planner.forward()
    return {i for i, v in enumerate(graph.outputs) if planner.wishes.get(v, ())[:1] == ((0,),)}


def meshed(mesh: Mesh, node: Node) -> Layout:
    """The layout that a `lay_out` node asks for, on the mesh of the whole graph."""
    matrix = node.attrs["matrix"]
    return tuple(tuple(m for a in cut for m in axes_of(mesh, matrix, a))
                 for cut in node.attrs["layout"])


def axes_of(mesh: Mesh, matrix: Sequence[int], axis: int) -> tuple[int, ...]:
    """The mesh axes that one axis of a coarser array of the same ranks is made of."""
    behind = 1
    for size in matrix[axis + 1 :]:
        behind *= size
    ahead = behind * matrix[axis]
    out, place = [], 1
    for m in reversed(range(len(mesh.sizes))):
        if behind <= place < ahead:
            out.append(m)
        place *= mesh.sizes[m]
    return tuple(reversed(out))


def common_mesh(matrices: Sequence[Sequence[int]], ranks: tuple[int, ...]) -> Mesh:
    """The coarsest mesh whose axes the axes of all these arrays of ranks are made of.

    Raises:
        ValueError: there is none, as of 2 x 3 and 3 x 2.
    """
    places = {1, len(ranks)}
    for matrix in matrices:
        place = 1
        for size in reversed(matrix):
            place *= size
            places.add(place)
    ordered = sorted(places)
    for a, b in pairwise(ordered):
        if b % a:
            raise ValueError(f"the arrays of ranks {[tuple(m) for m in matrices]} have no common "
                             f"one: no axis of {len(ranks)} ranks is followed by both {a} and {b}")
    sizes = [b // a for a, b in pairwise(ordered)]
    return Mesh(tuple(reversed(sizes)), ranks)


class _Rewriter:
    """Builds the graph of a rank from a plan."""

    def __init__(self, graph: Graph, plan: Plan, rank: int) -> None:
        self.graph, self.plan, self.mesh, self.rank = graph, plan, plan.mesh, rank
        self.out = Graph(graph.name)
        self.b = Builder(self.out)
        self.values: dict[Value, dict[Layout, Value]] = {}
        self.wide: dict[tuple[Value, int, tuple[tuple[int, int], ...]], Value] = {}
        self.moved: list[Moved] = []

    def run(self, outputs: Callable[[int, Value, Layout], Layout]) -> Sharded:
        mesh, layouts = self.mesh, self.plan.layouts
        for v in self.graph.inputs:
            local = self.out.add_input(mesh.local(v.type, layouts[v]), v.name, v.kind)
            self.values[v] = {layouts[v]: local}
        for node in self.graph.nodes:
            with self.b.at(span=node.span, scope=node.scope, origin=node.origin):
                self._node(node, self.plan.choices[node])
        wanted = [outputs(i, v, layouts[v]) for i, v in enumerate(self.graph.outputs)]
        self.out.outputs = [self._as(v, layout)
                            for v, layout in zip(self.graph.outputs, wanted, strict=True)]
        self.out.updates = [(self.values[old][layouts[old]], self._as(new, layouts[old]))
                            for old, new in self.graph.updates]
        inputs = [layouts[v] for v in self.graph.inputs]
        text = described(self.graph, self.plan, self.moved)
        Dce().run(self.out)
        return Sharded(self.out, inputs, wanted, self.plan.cost, self.moved, text)

    def _as(self, v: Value, layout: Layout) -> Value:
        """A value in a layout, by the cheapest way from one that it has."""
        has = self.values[v]
        if layout not in has:
            source = min(has, key=lambda s: route(self.mesh, v.type, s, layout)[0])
            now = has[source]
            for step in route(self.mesh, v.type, source, layout)[1]:
                now = take(self.b, now, self.mesh, self.rank, step)
            self._note(v, source, layout)
            has[layout] = now
        return has[layout]

    def _note(self, v: Value, source: Layout, layout: Layout) -> None:
        steps = " ".join(s.kind.value for s in route(self.mesh, v.type, source, layout)[1])
        name = v.name if v.node is None else v.node.op
        self.moved.append(Moved(steps, f"{name}: {v.type} {shown(source)} -> {shown(layout)}",
                                str(self.b.span)))

    def _node(self, node: Node, choice: Choice) -> None:
        operands = [self._as(v, layout)
                    for v, layout in zip(node.operands, choice.operands, strict=True)]
        if node.op == LAY_OUT:
            self.values[node.result] = {choice.results[0]: operands[0]}
            return
        types = tuple(self.mesh.local(r.type, layout)
                      for r, layout in zip(node.results, choice.computed, strict=True))
        made = self._part(node, choice, operands, types)
        if any(v.type != ty for v, ty in zip(made, types, strict=True)):
            raise TypeError(f"the part of {node.op} is {[v.type for v in made]}, not {types}")
        if choice.partial:
            made = (reduced(self.b, made[0], self.mesh, self.rank, choice.partial,
                            choice.factors.combine, choice.scattered),)
            self.moved.append(Moved(
                (Kind.REDUCE if choice.scattered < 0 else Kind.SCATTER).value,
                f"{node.op}: {node.result.type} {shown(choice.results[0])}, partial over "
                f"{choice.partial}", str(node.span)))
        for r, v, layout in zip(node.results, made, choice.results, strict=True):
            self.values[r] = {layout: v}

    def _part(
        self, node: Node, choice: Choice, operands: list[Value], types: tuple[TensorType, ...]
    ) -> tuple[Value, ...]:
        """The node on this rank's parts."""
        if node.regions or not any(choice.cuts.values()):
            copy = node.clone(operands)
            self.out.nodes.append(copy)
            return copy.results
        rule = lookup(node.op).part
        if rule is None:
            return self.b.node(node.op, operands, node.attrs).results
        first = node.operands[0] if node.operands else node.result
        lies = choice.operands[0] if node.operands else choice.results[0]
        windows = self._widen(node, choice, operands)
        part = Part(types[0], self._extents(first, lies),
                    self._extents(node.results[0], choice.computed[0]), windows)
        made = rule(self.b, node, operands, part)
        return (made,) if isinstance(made, Value) else tuple(made)

    def _widen(
        self, node: Node, choice: Choice, operands: list[Value]
    ) -> dict[tuple[int, int], tuple[int, int]]:
        """Bring what windows reach of other parts; what this rank needs along axes that are cut."""
        found = {}
        for (i, axis), window in sorted(choice.factors.windows.items(), key=lambda item: item[0]):
            cut = choice.operands[i][axis]
            if not cut:
                continue
            parts, here = self.mesh.parts(cut), self.mesh.part(self.rank, cut)
            each, key = window.count // parts, (operands[i], axis, tuple(window.of_parts(parts)))
            found[i, axis] = window.needs(here * each, (here + 1) * each)
            if key not in self.wide:
                self.wide[key] = widened(self.b, key[0], self.mesh, self.rank, cut, axis, window)
                if rows := window.foreign(parts):
                    self._note_halo(node.operands[i], choice.operands[i], axis, rows)
            operands[i] = self.wide[key]
        return found

    def _note_halo(self, v: Value, layout: Layout, axis: int, rows: int) -> None:
        name = v.name if v.node is None else v.node.op
        self.moved.append(Moved(
            Kind.HALO.value, f"{name}: {v.type} {shown(layout)}, {rows} of axis {axis}",
            str(self.b.span)))

    def _extents(self, v: Value, layout: Layout) -> Extents:
        """Where this rank's part of a value lies in it."""
        local = self.mesh.local(v.type, layout).dims
        return tuple((self.mesh.part(self.rank, cut) * d, d)
                     for cut, d in zip(layout, local, strict=True))


def shown(layout: Layout) -> str:
    """A layout as text: the mesh axes that cut each axis, `-` for none."""
    return "[" + ", ".join(".".join(map(str, cut)) or "-" for cut in layout) + "]"


def described(graph: Graph, plan: Plan, moved: Sequence[Moved]) -> str:
    """A plan as text: the mesh, how inputs and results lie, and what moves between ranks."""
    lines = [f"mesh {'x'.join(map(str, plan.mesh.sizes))}"]
    lines += [f"{v.name}: {v.type} {shown(plan.layouts[v])}" for v in graph.inputs]
    for node in graph.nodes:
        if lookup(node.op).cost != "free" and not node.is_constant:
            at = " ".join(f"{r.type} {shown(plan.layouts[r])}" for r in node.results)
            lines.append(f"{node.op}: {at} at {node.span}")
    lines += [f"{m.op} {m.what} at {m.where}" for m in moved]
    return "\n".join(lines) + "\n"
