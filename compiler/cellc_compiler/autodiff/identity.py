"""Which values of a graph are one value at run time: known beforehand, or a flag of the run.

An answer is a bool, or a bool[] value of the graph that holds both. The results of a branch follow
from the branch taken, so a `cond` gives one more result where that is not enough. A carried value
may be the one that entered the loop, a captured one, or the same under two names: a flag for that
is carried along, and is false or true from the start as the loop is entered.
"""

from __future__ import annotations

from collections.abc import Sequence

from cellc_runtime import dtypes

from ..ir.graph import Builder, Graph, Node, Value
from ..ir.op import lookup
from ..ir.types import TensorType, seedable
from ..ops.control import After, Alias, Cond, Scan, While
from .conditional import IsPresent, as_flag

BOOL = TensorType((), dtypes.bool_)
Relation = tuple[int, "int | Value"]
"""A carried value, by its number, and another one or a value from outside that it may be."""


def is_loop(node: Node) -> bool:
    """Whether a node is a loop that gradients take as if its steps were unrolled."""
    return node.op in (While.name, Scan.name) and lookup(node.op).unrolled(node)


def body_of(node: Node) -> Graph:
    """The body of a loop."""
    return node.regions[-1]


def may_be_others(node: Node) -> list[Value]:
    """The results of a node that may be what it reads, or one another."""
    if node.op == Cond.name:
        return [r for r in node.results if seedable(r.type) and any(
            _is_name(region, region.outputs[r.index]) for region in node.regions)]
    if is_loop(node):
        return [r for r in node.results[: node.attrs["carried"]] if seedable(r.type)]
    return []


def _is_name(region: Graph, value: Value) -> bool:
    """Whether an output of a region may be something that has another name too."""
    return value.node is None or value.node.op in (After.name, Alias.name, Cond.name) \
        or is_loop(value.node) or region.outputs.count(value) > 1


class Identities:
    """The answers for a graph and its regions, which belong to nobody else and get further nodes,
    results and carried values by the questions."""

    def __init__(self) -> None:
        self.flags: dict[tuple[Value, Value], IsPresent] = {}
        self.of_branches: dict[tuple[Node, int, Value], IsPresent] = {}
        self.loops: dict[Node, Loop] = {}
        self.carried: dict[Value, tuple[Loop, int | Value]] = {}
        self.known_names: dict[Value, set[Value]] = {}

    def loop(self, graph: Graph, node: Node) -> Loop:
        """Return the facts about a loop of a graph."""
        if node not in self.loops:
            self.loops[node] = Loop(self, graph, node)
        return self.loops[node]

    # --- answers --------------------------------------------------------------------------------

    def same(self, b: Builder, x: Value, y: Value) -> IsPresent:
        """Whether two values of a graph are one, by a value at the graph's end."""
        if x is y:
            return True
        if (x, y) not in self.flags:
            later = _place(b.graph, x) > _place(b.graph, y)
            self.flags[x, y] = self.flags[y, x] = self._same(b, *((x, y) if later else (y, x)))
        return self.flags[x, y]

    def _same(self, b: Builder, x: Value, y: Value) -> IsPresent:
        """As `same`, of two values the first of which is made last."""
        node = x.node
        if node is None:
            return self.same_inputs(x, y)
        if node.op in (After.name, Alias.name):
            return self.same(b, node.operands[0], y)
        if node.op != Cond.name and not is_loop(node):
            return False
        if y.node is node:
            return self.result_is(b, node, x.index, y)
        found: IsPresent = False
        for v in self.sources(b.graph, node, x.index):
            inside = self.same(b, v, y) if v.type == x.type else False
            if inside is not False:
                taken = self.result_is(b, node, x.index, v)
                found = any_of(b, found, all_of(b, inside, taken))
        return found

    def same_inputs(self, x: Value, y: Value) -> IsPresent:
        """Whether two inputs of a region are one: those of loops are known."""
        if x not in self.carried or y not in self.carried:
            return False
        (loop, i), (other, j) = self.carried[x], self.carried[y]
        if loop is not other or (isinstance(i, Value) and isinstance(j, Value)):
            return False
        return loop.before(_relation(i, j))

    def sources(self, graph: Graph, node: Node, index: int) -> list[Value]:
        """Values of a graph, read by a node, that a result of it may be."""
        if node.op == Cond.name:
            return list(dict.fromkeys(node.operands[1:]))
        return [v for i, v in self.loop(graph, node).possible
                if i == index and isinstance(v, Value)]

    def result_is(self, b: Builder, node: Node, index: int, other: Value) -> IsPresent:
        """Whether a result of a branch or loop is a value that it reads, or another result of it,
        as seen by a later value."""
        if node.op != Cond.name:
            second = other.index if other.node is node else other
            return self.loop(b.graph, node).after(_relation(index, second))
        key = (node, index, other)
        if key not in self.of_branches:
            self.of_branches[key] = _of_branches(b, node, [
                self.output_is(node, region, index, other) for region in node.regions])
        return self.of_branches[key]

    def output_is(self, node: Node, region: Graph, index: int, other: Value) -> IsPresent:
        """As `result_is` in a branch, by a value at the end of that."""
        b = Builder(region)
        if other.node is node:
            return self.same(b, region.outputs[index], region.outputs[other.index])
        found: IsPresent = False
        for v, inside in zip(node.operands[1:], region.inputs, strict=True):
            if v is other:
                found = any_of(b, found, self.same(b, region.outputs[index], inside))
        return found

    # --- what can be ----------------------------------------------------------------------------

    def names(self, graph: Graph, value: Value) -> set[Value]:
        """All values of a graph that one may be, itself among them."""
        if value not in self.known_names:
            self.known_names[value] = self._names(graph, value)
        return self.known_names[value]

    def _names(self, graph: Graph, value: Value) -> set[Value]:
        node = value.node
        if node is None:
            return {value}
        if node.op in (After.name, Alias.name):
            return {value} | self.names(graph, node.operands[0])
        found = {value}
        if node.op == Cond.name:
            for region in node.regions:
                inner = self.names(region, region.outputs[value.index])
                for v, inside in zip(node.operands[1:], region.inputs, strict=True):
                    if inside in inner:
                        found |= self.names(graph, v)
        elif is_loop(node):
            for v in self.sources(graph, node, value.index):
                found |= self.names(graph, v)
        return found

    def may_be_same(self, graph: Graph, x: Value, y: Value) -> bool:
        """Whether two values of a graph can be one."""
        first, second = self.names(graph, x), self.names(graph, y)
        if not first.isdisjoint(second):
            return True
        return any(self.inputs_may_be_same(v, w) if v.node is None else
                   v.node is w.node and self.results_may_be_same(graph, v, w)
                   for v in first for w in second)

    def inputs_may_be_same(self, x: Value, y: Value) -> bool:
        """As `may_be_same` of two inputs of a region."""
        if self.flags.get((x, y), False) is not False:
            return True
        if x not in self.carried or y not in self.carried:
            return False
        (loop, i), (other, j) = self.carried[x], self.carried[y]
        if loop is not other or (isinstance(i, Value) and isinstance(j, Value)):
            return False
        return loop.relations is None or _relation(i, j) in loop.relations

    def results_may_be_same(self, graph: Graph, x: Value, y: Value) -> bool:
        """As `may_be_same` of two results of one node."""
        node = x.node
        assert node is not None
        if node.op == Cond.name:
            return any(self.may_be_same(r, r.outputs[x.index], r.outputs[y.index])
                       for r in node.regions)
        return is_loop(node) and \
            _relation(x.index, y.index) in self.loop(graph, node).possible


class Loop:
    """The carried values of a loop, and their alternatives."""

    def __init__(self, identities: Identities, graph: Graph, node: Node) -> None:
        self.of, self.graph, self.node = identities, graph, node
        n = node.attrs["carried"]
        self.init = list(node.operands[:n])
        self.inputs = list(body_of(node).inputs[:n])
        self.captured: dict[Value, Value] = {}
        # the body is as it will be; before that, flags wait for what they become in a step
        self.ready = False
        self.slots: dict[Relation, tuple[Value, Value]] = {}
        self.waiting: list[Relation] = []
        for i, v in enumerate(self.inputs):
            identities.carried[v] = self, i
        # those that can hold before a step or after the last; None while they are sought
        self.relations: dict[Relation, None] | None = None
        self.look()

    def look(self) -> None:
        """Note what the loop captures, and seek the relations."""
        inputs = body_of(self.node).inputs
        count = lookup(self.node.op).captures(self.node)
        pairs = list(zip(self.node.operands[len(self.node.operands) - count:],
                         inputs[len(inputs) - count:], strict=True))
        self.captured = dict(reversed(pairs))
        self.of.carried.update({v: (self, w) for w, v in pairs})
        self.relations = None
        self.relations = self._possible()

    @property
    def possible(self) -> dict[Relation, None]:
        """The relations, once they are known."""
        assert self.relations is not None
        return self.relations

    def _possible(self) -> dict[Relation, None]:
        """The relations that can hold."""
        body = body_of(self.node)
        found: dict[Relation, None] = dict.fromkeys(enumerate(self.init))
        found.update({(i, j): None for i, v in enumerate(self.init)
                      for j in range(i) if self.init[j] is v})
        names = [self.of.names(body, body.outputs[i]) for i in range(len(self.init))]
        inner = {v: i for i, v in enumerate(self.inputs)} | {v: w for w, v in self.captured.items()}
        known = [[inner[v] for v in found_names if v in inner] for found_names in names]
        while True:
            more: dict[Relation, None] = {}
            for i, mine in enumerate(known):
                for k in mine:
                    more.update(dict.fromkeys(
                        [(i, k)] if isinstance(k, Value) else
                        [(i, w) for m, w in found if m == k and isinstance(w, Value)]))
                for j in range(i):
                    if self._meet(found, mine, known[j]) or \
                            self.of.may_be_same(body, body.outputs[i], body.outputs[j]):
                        more[i, j] = None
            if more.keys() <= found.keys():
                return found
            found.update(more)

    @staticmethod
    def _meet(
        found: dict[Relation, None], mine: Sequence[int | Value], theirs: Sequence[int | Value]
    ) -> bool:
        return any(k is m or k == m or (not (isinstance(k, Value) and isinstance(m, Value))
                                        and _relation(k, m) in found)
                   for k in mine for m in theirs)

    # --- flags ----------------------------------------------------------------------------------

    def before(self, key: Relation) -> IsPresent:
        """Whether a relation holds before a step, by an input of the body."""
        return self._slot(key)[0] if key in self.possible else False

    def after(self, key: Relation) -> IsPresent:
        """Whether a relation holds after the last step, by a result of the loop."""
        return self._slot(key)[1] if key in self.possible else False

    def finish(self) -> None:
        """Say what the flags asked for become in a step; the body is as it will be."""
        self.ready = True
        while self.waiting:
            key = self.waiting.pop()
            body = body_of(self.node)
            place = body.inputs.index(self.slots[key][0])
            answer = self._next(Builder(body), key)
            body.outputs[place] = as_flag(Builder(body), answer)

    def _slot(self, key: Relation) -> tuple[Value, Value]:
        if key not in self.slots:
            self.slots[key] = self._carry(key)
            self.waiting.append(key)
            if self.ready and len(self.waiting) == 1:
                self.finish()
        return self.slots[key]

    def _carry(self, key: Relation) -> tuple[Value, Value]:
        """Carry one more bool."""
        node, n = self.node, self.node.attrs["carried"]
        node.operands.insert(n, self._start(key))
        for region in node.regions:
            region.inputs.insert(n, Value(BOOL, None, 0, f"same{n}", "input"))
        flag = body_of(node).inputs[n]
        body_of(node).outputs.insert(n, flag)
        results = list(node.results)
        results.insert(n, Value(BOOL, node, n))
        for index, r in enumerate(results):
            r.index = index
        node.results = tuple(results)
        node.attrs = {**node.attrs, "carried": n + 1}
        return flag, results[n]

    def _start(self, key: Relation) -> Value:
        """Whether a relation holds as the loop is entered, by a value in front of it."""
        (i, other), nodes, b = key, self.graph.nodes, Builder(self.graph)
        second = self.init[other] if isinstance(other, int) else other
        at = nodes.index(self.node) if self.node in nodes else len(nodes)
        end = len(nodes)
        flag = as_flag(b, self.of.same(b, self.init[i], second))
        made = nodes[end:]
        known = {r for node in (*nodes[:at], *made) for r in node.results}
        known.update(self.graph.inputs)
        if known.issuperset([flag, *(v for node in made for v in node.operands)]):
            nodes[at:] = [*made, *nodes[at:end]]
            return flag
        # A value after the loop asked before: the answer is no, which costs an order only.
        front = Graph("front")
        flag = Builder(front).literal(False, dtypes.bool_)
        nodes[:0] = front.nodes
        return flag

    def _next(self, b: Builder, key: Relation) -> IsPresent:
        """Whether a relation holds after a step."""
        (i, other), outputs = key, body_of(self.node).outputs
        if isinstance(other, int):
            return self.of.same(b, outputs[i], outputs[other])
        found: IsPresent = False
        if other in self.captured:
            found = self.of.same(b, outputs[i], self.captured[other])
        for m, v in enumerate(self.inputs):
            if (m, other) not in self.possible or v.type != other.type:
                continue
            mine = self.of.same(b, outputs[i], v)
            if mine is not False:
                found = any_of(b, found, all_of(b, mine, self.before((m, other))))
        return found


def _relation(x: int | Value, y: int | Value) -> Relation:
    """Two of a loop's values as a relation; at least one is carried."""
    if isinstance(x, int) and isinstance(y, int):
        return max(x, y), min(x, y)
    if isinstance(x, int):
        return x, y
    assert isinstance(y, int)
    return y, x


def _of_branches(b: Builder, node: Node, answers: Sequence[IsPresent]) -> IsPresent:
    """The answer of the branch that was taken."""
    yes, no = answers
    if isinstance(yes, bool) and isinstance(no, bool):
        if yes is no:
            return yes
        return node.operands[0] if yes else b.logical_not(node.operands[0])
    for region, answer in zip(node.regions, answers, strict=True):
        region.outputs.append(as_flag(Builder(region), answer))
    flag = Value(BOOL, node, len(node.results))
    node.results += (flag,)
    return flag


def _place(graph: Graph, value: Value) -> int:
    """Where a value of a graph is made; -1 for an input."""
    return -1 if value.node is None else graph.nodes.index(value.node)


def all_of(b: Builder, x: IsPresent, y: IsPresent) -> IsPresent:
    """Whether two answers are yes."""
    if x is False or y is False:
        return False
    if x is True or y is True:
        return y if x is True else x
    return b.logical_and(x, y)


def any_of(b: Builder, x: IsPresent, y: IsPresent) -> IsPresent:
    """Whether one of two answers is yes."""
    if x is True or y is True:
        return True
    if x is False or y is False:
        return y if x is False else x
    return b.logical_or(x, y)


def but(b: Builder, x: IsPresent, y: IsPresent) -> IsPresent:
    """Whether the first answer is yes and the second is not."""
    if isinstance(y, bool):
        return False if y else x
    return all_of(b, x, b.logical_not(y))
