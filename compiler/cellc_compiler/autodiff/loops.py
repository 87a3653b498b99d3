"""The values that the backward pass of a `scan` saves, and its sums after the loop.

A step of the backward loop needs values of the forward step. Whatever is cheap to compute from
the rows at hand is computed again; what is expensive (products, transcendental functions) is given
by the forward loop as one more output. That is a matter of speed alone: both have the same bits.

A captured value (a weight) is read by every step, and its cotangent is a sum over steps. Where
a step contributes a product over rows (`transpose(x) @ dy`) or a sum over rows, the rows of all
steps are stacked and one product or sum follows the loop: one chain over all rows, step
ascending. Other contributions are added up in the loop. Which of the two follows from the body
alone, so compiled and eager gradients agree.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from cellc_runtime.records import dataclass, field, replace

from ..ir.graph import Builder, Graph, Node, Value
from ..ir.op import lookup
from ..passes.base import copy_graph

Origin = tuple[Literal["result", "sequence", "dy", "output"], int]
"""Where the rows of a step's value are: a result of the forward loop, one of its sequences, the
cotangent of a result, or a stacked output of the backward loop."""

@dataclass(frozen=True, slots=True)
class Term:
    """A contribution to the cotangent of a captured value, over all steps at once."""

    capture: int  # number of the captured value
    op: str  # `"matmul"` (first operand transposed) or `"reduce_sum"`
    rows: tuple[Origin, ...]  # where the rows of its operands are
    axes: tuple[int, ...] = ()  # of the sum, those of a step


@dataclass(slots=True)
class LoopPlan:
    """The backward loop of a scan."""

    body: Graph  # the forward body; its outputs now include what is saved
    # the backward body over dcarried, sums, rows, step, captures; it gives dcarried, sums,
    # cotangents of rows, then what is stacked for `terms`
    graph: Graph
    rows: list[Origin] = field(default_factory=list)  # where the rows of its sequences are
    captures: list[int] = field(default_factory=list)  # the captured values it reads
    # captured values whose cotangents are summed in the loop
    sums: list[int] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)  # sums over all steps that follow the loop


def summands(grad: Value, backward: set[Node]) -> list[Value]:
    """The contributions of a step to a cotangent, in the order in which they are added."""
    node = grad.node
    if node is None or node not in backward or node.op != "add" \
            or any(v.type != grad.type for v in node.operands):
        return [grad]
    return [s for v in node.operands for s in summands(v, backward)]


def stackable(term: Value) -> tuple[str, list[Value], tuple[int, ...]] | None:
    """A contribution as (op, operands, axes) of one sum over all steps, if it has that form."""
    node = term.node
    while node is not None and node.op == "reshape":
        node = node.operands[0].node
    if node is None:
        return None
    if node.op == "matmul" and all(v.type.rank == 2 for v in node.operands) \
            and node.attrs["transpose_a"] and not node.attrs["transpose_b"]:
        return node.op, node.operands, ()
    if node.op == "reduce_sum" and not node.attrs["keepdims"] and 0 in node.attrs["axes"] \
            and node.result.type.size == term.type.size:
        return node.op, node.operands, tuple(node.attrs["axes"])
    return None


# --- what is saved -------------------------------------------------------------------------------


def is_cheap(node: Node) -> bool:
    """Whether a node is computed again in the backward loop rather than saved."""
    if node.regions or len(node.results) != 1:
        return False
    return lookup(node.op).cost in ("free", "cheap")


class Saver:
    """Chooses what the forward loop saves.

    Args:
        forward: the nodes of a step.
        held: values of a step that are outputs already.
        fixed: nothing can be added: what is not held is computed again.
    """

    def __init__(self, forward: Iterable[Node], held: Iterable[Value], fixed: bool) -> None:
        self.forward = set(forward)
        self.held = set(held)
        self.fixed = fixed
        self.saved: dict[Value, None] = {}

    def need(self, value: Value) -> None:
        """The backward loop reads `value`."""
        self.saved.update(self._frontier(value))

    def _frontier(self, value: Value) -> dict[Value, None]:
        """Return the values to save so that `value` is available; empty if it already is."""
        node = value.node
        if value in self.held or value in self.saved or node not in self.forward:
            return {}
        assert node is not None
        if not self.fixed and not is_cheap(node):
            return {value: None}
        found: dict[Value, None] = {}
        for v in node.operands:
            found.update(self._frontier(v))
        if self.fixed or _bytes(found) <= value.type.nbytes:
            return found
        return {value: None}


def _bytes(values: Iterable[Value]) -> int:
    return sum(v.type.nbytes for v in values)


def read_by(outputs: Sequence[Value], stop: set[Value]) -> list[Value]:
    """Return all values that outputs depend on, up to those of `stop`; in a fixed order."""
    seen: dict[Value, None] = {}
    stack = list(reversed(outputs))
    while stack:
        v = stack.pop()
        if v not in seen:
            seen[v] = None
            if v not in stop and v.node is not None:
                stack.extend(reversed(v.node.operands))
    return list(seen)


# --- the backward loop ---------------------------------------------------------------------------


class BackwardLoop:
    """Turns a step's forward and backward nodes into the two bodies.

    Args:
        b: over the graph that holds the forward nodes, then the backward ones.
        body: the forward part as a scan body: its inputs, the forward nodes, its outputs.
        carried, sequences: how many of its inputs are which.
        fixed: the body has all the outputs it can have.
        stacks: sums over all steps may follow the loop.
    """

    def __init__(
        self, b: Builder, body: Graph, carried: int, sequences: int, fixed: bool,
        stacks: bool = True,
    ) -> None:
        self.b, self.body, self.n, self.k = b, body, carried, sequences
        self.fixed, self.stacks = fixed, stacks
        self.backward = set(b.graph.nodes) - set(body.nodes)
        self.saver = Saver(body.nodes, body.outputs[carried:], fixed)
        self.stacked: list[Value] = []
        self.origins: dict[Value, Origin] = {}

    def plan(
        self, dcarried: Sequence[Value], dys: Sequence[tuple[int, Value]], grads: Sequence[Value],
        row_grads: Sequence[Value], captured: Sequence[tuple[int, Value]],
        gathered: Mapping[int, Value] | None = None,
    ) -> LoopPlan:
        """The plan.

        Args:
            dcarried: cotangents of the final carried values, inputs of the graph.
            dys: (output, its cotangent), inputs of the graph.
            grads, row_grads: cotangents of what is carried, and of rows.
            captured: (captured value, its cotangent).
            gathered: the cotangents before the step of captured values, if `captured` has the
                sums of both.
        """
        inputs, first = self.body.inputs, self.n + self.k + 1
        self.origins = {v: ("sequence", i) for i, v in enumerate(inputs[self.n : first - 1])}
        self.origins.update((v, ("dy", i)) for i, v in dys)
        self.stacked = list(row_grads)
        terms: list[Term] = []
        sums: dict[int, tuple[Value, Value]] = {}
        for i, grad in captured:
            if gathered:
                sums[i] = gathered[i], grad
                continue
            rest = [s for s in summands(grad, self.backward) if not self._term(i, s, terms)]
            if rest:
                before = self.b.graph.add_input(rest[0].type, f"sum{i}")
                sums[i] = before, functools.reduce(self.b.add, rest, before)
        outputs = [*grads, *(total for _, total in sums.values()), *self.stacked]
        rows = self._save(outputs)
        plan = LoopPlan(self.body, Graph(self.body.name + "_grad"), sums=list(sums))
        plan.rows = [self.origins[v] for v in rows]
        used = set(read_by(outputs, set(rows)))
        plan.captures = [i for i, v in enumerate(inputs[first:]) if v in used]
        plan.terms = [self._placed(t, len(grads) + len(sums)) for t in terms]
        plan.graph = _closed(plan.graph.name, self.b.graph.nodes, outputs, [
            ("dcarried", list(dcarried)), ("sum", [before for before, _ in sums.values()]),
            ("row", rows), ("step", [inputs[first - 1]]),
            ("capture", [inputs[first + i] for i in plan.captures]),
        ])
        return plan

    def _term(self, capture: int, summand: Value, terms: list[Term]) -> bool:
        """Note a contribution that is summed after the loop; whether it is one."""
        form = stackable(summand) if self.stacks else None
        if form is None:
            return False
        op, operands, axes = form
        terms.append(Term(capture, op, tuple(self._origin(v) for v in operands), axes))
        return True

    def _origin(self, v: Value) -> Origin:
        """Where the rows of a value will be."""
        found = self.origins.get(v)
        if found is None and (v in self.body.inputs[: self.n] or v.node in self.saver.forward):
            found = self._result(v)
        if found is not None:
            return found
        if v not in self.stacked:
            self.stacked.append(v)
        return "output", self.stacked.index(v)

    def _result(self, v: Value) -> Origin | None:
        """The result of the forward loop that gives `v`, added if it can be."""
        outputs = self.body.outputs
        if v not in outputs[self.n :]:
            if self.fixed:
                return None
            outputs.append(v)
            self.saver.held.add(v)
        self.origins[v] = "result", outputs.index(v, self.n)
        return self.origins[v]

    def _save(self, outputs: Sequence[Value]) -> list[Value]:
        """Choose what is saved; the values that the backward loop takes as rows."""
        forward = {r for n in self.body.nodes for r in n.results}
        for v in read_by(outputs, forward):
            self.saver.need(v)
        given = self.saver.held | set(self.saver.saved)
        rows = []
        for v in read_by(outputs, given):
            if v in given or v in self.body.inputs[: self.n]:
                if self._result(v) is None:
                    raise ValueError("a fixed loop does not give what it carries")
                rows.append(v)
            elif v in self.origins:
                rows.append(v)
        return rows

    def _placed(self, term: Term, first: int) -> Term:
        rows = tuple((kind, i + first) if kind == "output" else (kind, i) for kind, i in term.rows)
        return replace(term, rows=rows)


def _closed(
    name: str, nodes: Sequence[Node], outputs: Sequence[Value],
    inputs: Sequence[tuple[str, list[Value]]],
) -> Graph:
    """A graph of its own that computes `outputs` from `inputs` (named by kind)."""
    given = [v for _, vs in inputs for v in vs]
    seen = set(read_by(outputs, set(given)))
    nodes = [n for n in nodes if any(r in seen and r not in given for r in n.results)]
    graph = copy_graph(Graph(name, given, nodes, list(outputs)))
    names = [f"{kind}{i}" for kind, vs in inputs for i in range(len(vs))]
    for v, label in zip(graph.inputs, names, strict=True):
        v.name, v.kind = label, "input"
    return graph
