"""Gradients against difference quotients, in float64.

The compiled gradient's nodes are each right if they agree with the reference, but a rule of a
gradient that is wrong gives a graph of right nodes. So the rules are judged apart from rounding:
each op of the network with its rule, alone; then the gradient of the whole network. Both are run
by the reference interpreter beside the forward graph, a little further along a random direction
and a little back. Numbers are moved off their places first, since many lie on a kink (the zeros
that a ReLU leaves).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from cellc_compiler.autodiff.reverse import gradient_graph
from cellc_compiler.interpret import CONTROL, evaluate, expand_node, run
from cellc_compiler.ir.graph import Builder, Graph, Node, Value, attrs_key
from cellc_compiler.ir.op import lookup, run_regions
from cellc_runtime import dtypes

from .values import bracketed, index_of, widened

Array = np.ndarray[Any, Any]
Seen = dict[Any, tuple[Node, list[Array]]]  # Nodes with their operands, by their rules
STEPS = tuple(10.0**-k for k in range(4, 12))
"""Of the difference quotients, until one is the gradient: a kink within reach of a larger step
spoils only that, and a steep network needs small ones."""
ALLOWED = 2e-5  # The error of an op's rule, as a share of the sum of magnitudes of what is added up
ALLOWED_IN_ALL = 1e-3
"""That of the gradient of a whole network, which has many kinks, for one argument or parameter."""


class Unknown(Exception):
    """A gradient that difference quotients cannot judge, and why."""


def values_in(graph: Graph, arrays: Sequence[Array], precise: bool) -> dict[Value, Array]:
    """All values of a graph by the reference interpreter, in its order."""
    values = dict(zip(graph.inputs, arrays, strict=True))

    def note(node: Node, results: Sequence[Array]) -> None:
        values.update(zip(node.results, results, strict=True))

    run(graph, arrays, precise=precise, observe=note)
    return values


def worst_part(count: int, error: Callable[[Sequence[int]], float]) -> int:
    """The number below `count` whose part in an error is largest, found by halves. `error`: that of
    some of the numbers together."""
    part: Sequence[int] = range(count)
    while len(part) > 1:
        half = len(part) // 2
        part = max((part[:half], part[half:]), key=error)
    return part[0]


def rule_key(node: Node) -> Any:
    """Nodes of one key have the same rule: op, attributes and types of operands."""
    return node if node.regions else (
        node.op, attrs_key(node.attrs), tuple(v.type for v in node.operands))


def is_judged(node: Node) -> bool:
    """Whether a node differentiates something by a rule of its own (`has_rule`), or by a gradient
    of the user's that is meant to be the derivative."""
    if node.op != "custom_grad":
        return has_rule(node)
    return bool(node.attrs["rule"]) and not node.attrs["differs"]


def check(node: Node, operands: Sequence[Array]) -> str:
    """Return the fault of a rule (`is_judged`), near these operands; "" if there is none. Raises
    Unknown if it is not smooth or not finite there, or follows from a Python function."""
    return _check_own(node, operands) if node.regions else check_rule(node, operands)


def _check_own(node: Node, operands: Sequence[Array]) -> str:
    """Return the fault of a user's gradient; see `check`."""
    forward, back = map(smooth, node.regions)
    of = Forward(forward)
    wanted = [i for i, v in enumerate(forward.inputs)
              if v.dtype.is_inexact and i not in node.attrs["none"]]
    if not wanted:
        return ""
    rng = np.random.default_rng(7)
    seeds = [_noise(v, rng) if v.dtype.is_inexact else np.zeros(v.shape, v.dtype.numpy)
             for v in forward.outputs]

    def gradients(at: list[Array]) -> list[Array]:
        out = run(back, [*at, *run(forward, at, precise=True), *seeds], precise=True)
        return [out[i] for i in wanted]

    def total(at: list[Array]) -> float:
        return sum(_inner(s, o) for s, o in zip(seeds, of(at), strict=True)
                   if o.dtype.kind in "fc")

    quotient = Quotient(forward.inputs, wanted, list(operands), gradients, total)
    if not quotient.check(ALLOWED_IN_ALL):
        return ""
    which, index, got, want = quotient.worst()
    return (f"the bprop of {node.attrs['rule']} is not the derivative; the worst element: input "
            f"{which}{bracketed(index)}: {got:.8g} by bprop, {want:.8g} by differences in float64")


def has_rule(node: Node) -> bool:
    """Whether a node has a rule of its own that differentiates something."""
    op = lookup(node.op)
    return op.differentiable and op.has_gradient() and not op.effect and not node.regions \
        and node.op not in ("stop_gradient", "cast") \
        and any(v.dtype.is_inexact for v in node.operands) \
        and any(r.dtype.is_inexact for r in node.results)


def check_rule(node: Node, operands: Sequence[Array]) -> str:
    """Return the fault of one node's gradient, near these operands; "" if there is none. Raises
    Unknown if it is not smooth or not finite there."""
    graph = _in_float64(node)
    wanted = [i for i, v in enumerate(graph.inputs) if v.dtype.is_inexact]
    seeded = [i for i, v in enumerate(graph.outputs) if v.dtype.is_inexact]
    back = gradient_graph(graph, wanted, seeded=seeded, sens=True)
    rng = np.random.default_rng(7)
    seeds = [_noise(graph.outputs[i], rng) for i in seeded]

    def gradients(at: list[Array]) -> list[Array]:
        return run(back, [*at, *seeds], precise=True)[len(graph.outputs):]

    def total(at: list[Array]) -> float:
        outs = run(graph, at, precise=True)
        return sum(_inner(s, outs[i]) for i, s in zip(seeded, seeds, strict=True))

    return Quotient(graph.inputs, wanted, list(operands), gradients, total).check(ALLOWED)


_WIDER = {"float16": dtypes.float64, "bfloat16": dtypes.float64, "float32": dtypes.float64,
          "complex64": dtypes.complex128}


def _in_float64(node: Node) -> Graph:
    """A graph of one node as it is for float64 operands, so that no literal is rounded; of its own
    types, if it takes no others."""
    for wider in (_WIDER, {}):
        graph = Graph(node.op)
        inputs = [graph.add_input(v.type.with_dtype(wider.get(v.dtype.name, v.dtype)), f"x{i}")
                  for i, v in enumerate(node.operands)]
        attrs = {k: wider.get(v.name, v) if isinstance(v, dtypes.DType) else v
                 for k, v in node.attrs.items()}
        try:
            graph.outputs = list(Builder(graph).node(node.op, inputs, attrs).results)
            return graph
        except (TypeError, ValueError):
            continue
    raise Unknown(f"{node.op} cannot be built alone")


def smooth(graph: Graph) -> Graph:
    """A graph as difference quotients see it: casts from floats to floats do not round, and what it
    does besides its results (prints, checks, changes of Python objects) is left out. Raises Unknown
    if a result follows from a Python function."""
    out = Graph(graph.name, graph.inputs, [], graph.outputs, graph.updates)
    for node in graph.nodes:
        if lookup(node.op).effect:
            if node.results:
                raise Unknown("Python functions have no reference")
            continue
        attrs = node.attrs
        if node.op == "cast" and node.operands[0].dtype.is_inexact:
            attrs = {"dtype": _WIDER.get(attrs["dtype"].name, attrs["dtype"])}
        regions = run_regions(node)
        if regions or attrs is not node.attrs:
            node = Node(node.op, node.operands, attrs, node.results,
                        (*map(smooth, regions), *node.regions[len(regions):]), span=node.span,
                        scope=node.scope)
        out.nodes.append(node)
    return out


class Forward:
    """A graph run in float64 as its gradient sees it: what `stop_gradient` gives stays what it was
    in the first run.

    Raises:
        Unknown: results follow from Python functions, or gradients stop inside a region.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = smooth(graph)
        own = [n for n in graph.walk() if n.op == "custom_grad"]
        # rules of the user that are declared to differ from the derivative
        self.declared = sorted({n.attrs["rule"] for n in own if n.attrs["differs"]})
        # whether others are among its gradients that nothing is known of: hooks
        self.unknown_rules = any(not n.attrs["rule"] for n in own)
        self._stopped: dict[Node, Array] = {}
        self._expansions: dict[Node, Graph] = {}
        if any(n.op == "stop_gradient" for top in graph.nodes for r in top.regions
               for n in r.walk()):
            raise Unknown("gradients stop inside a loop or branch")

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """The outputs on arrays for all inputs."""
        return self._run(self.graph, arrays)

    def nodes(self, arrays: Sequence[Array]) -> list[tuple[Node, list[Array]]]:
        """A node for each rule, with its operands: also of regions, and of what compositions are
        made of."""
        seen: Seen = {}
        self._run(self.graph, arrays, seen)
        return list(seen.values())

    def _run(
        self, graph: Graph, arrays: Sequence[Array],
        seen: Seen | None = None,
    ) -> list[Array]:
        env = dict(zip(graph.inputs, arrays, strict=True))
        for node in graph.nodes:
            operands = [env[v] for v in node.operands]
            if seen is not None and is_judged(node):
                seen.setdefault(rule_key(node), (node, operands))
            results: Sequence[Array]
            op = lookup(node.op)
            if node.op == "stop_gradient":
                results = [self._stopped.setdefault(node, operands[0])]
            elif op.expand is not None and not op.has_gradient():
                inner = self._expansions.get(node)
                if inner is None:
                    inner = self._expansions[node] = smooth(expand_node(node))
                results = self._run(inner, operands, seen)
            elif seen is not None and node.op in CONTROL:
                results = CONTROL[node.op](
                    node, operands, lambda region, given, _: self._run(region, given, seen))
            else:
                results = evaluate(node, operands, precise=True)
            env.update(zip(node.results, results, strict=True))
        return [env[v] for v in graph.outputs]


class Quotient:
    """A function of arrays beside its gradient.

    Args:
        inputs: the values that the arrays are for.
        wanted: which of them are differentiated.
        arrays: where.
        gradients: those of the wanted, of arrays.
        total: the number that they are the gradients of.
    """

    def __init__(
        self, inputs: Sequence[Value], wanted: Sequence[int], arrays: list[Array],
        gradients: Any, total: Any,
    ) -> None:
        self.inputs, self.wanted, self.arrays = inputs, wanted, arrays
        self.gradients, self.total = gradients, total
        self.rng = np.random.default_rng(11)

    def check(self, allowed: float) -> str:
        """Return the fault along a random direction, if its error is larger; "" if there is none.
        Raises Unknown if there are no derivatives, or no steady difference quotients."""
        told, unknown = "", None
        for at in self._places():
            try:
                told = self._at(at, self.wanted, allowed)
            except Unknown as e:
                unknown = e
                continue
            if not told:
                return ""
        if not told and unknown is not None:
            raise unknown
        return told

    def guilty(self, allowed: float) -> list[tuple[int, str]]:
        """The inputs whose own gradients are wrong, and how. Raises Unknown if none is known to be,
        and some cannot be judged."""
        at = next(self._places())
        found, unknown = [], None
        for i in self.wanted:
            try:
                told = self._at(at, [i], allowed)
            except Unknown as e:
                unknown = e
                continue
            if told:
                found.append((i, told))
        if not found and unknown is not None:
            raise unknown
        return found

    def worst(self) -> tuple[int, tuple[int, ...], float, float]:
        """The element whose gradient is farthest off, found by halves: the number of its input,
        its index, its gradient and the difference quotient."""
        at = next(self._places())
        grads = dict(zip(self.wanted, self.gradients(at), strict=True))
        elements = [(i, k) for i in self.wanted for k in range(at[i].size)]
        signs = self.rng.choice((-1.0, 1.0), len(elements))

        def sides(part: Sequence[int]) -> tuple[float, float]:
            moves = {i: np.zeros(at[i].shape, at[i].dtype) for i in self.wanted}
            for e in part:
                i, k = elements[e]
                moves[i].flat[k] = signs[e]
            step = 1e-6 * max(1.0, *(float(np.max(np.abs(at[i]), initial=0)) for i in moves))
            want = (self._along(at, moves, step) - self._along(at, moves, -step)) / (2 * step)
            return sum(_inner(grads[i], m) for i, m in moves.items()), want

        worst = worst_part(len(elements), lambda p: abs(float(np.subtract(*sides(p)))))
        signs[worst] = 1.0
        got, want = sides([worst])
        i, k = elements[worst]
        return i, index_of(k, at[i].shape), got, want

    def _places(self) -> Iterator[list[Array]]:
        """Arrays off their places, then further off. Those without a derivative are left out.
        Raises Unknown if there is none."""
        found = False
        for by in (1e-3, 2e-2, 0.0):
            at = list(self.arrays)
            for i in self.wanted:
                a = widened(at[i])
                with np.errstate(all="ignore"):
                    at[i] = a + by * self._move(i, a)
            with np.errstate(all="ignore"):
                fine = all(np.isfinite(g).all() for g in self.gradients(at)) and \
                    np.isfinite(self.total(at))
            if fine:
                found = True
                yield at
        if not found:
            raise Unknown("gradients that are not finite have no difference quotient")

    def _move(self, i: int, a: Array) -> Array:
        """A random direction as large as an input; an infinite element stays."""
        finite = np.isfinite(a)
        size = float(np.sqrt(np.mean(np.abs(a[finite]) ** 2))) if finite.any() else 0.0
        moved: Array = np.where(finite, (size or 1.0) * _noise(self.inputs[i], self.rng), 0.0)
        return moved

    def _at(self, at: list[Array], moved: Sequence[int], allowed: float) -> str:
        """Compare along one random direction of some inputs, scaled so that each input contributes
        about equally."""
        grads = dict(zip(self.wanted, self.gradients(at), strict=True))
        moves, shares = {}, {}
        for i in moved:
            moves[i] = self._move(i, at[i])
            shares[i] = float(np.sqrt(np.sum(np.abs(grads[i] * moves[i]) ** 2)))
        largest = max(shares.values())
        for i, share in shares.items():
            moves[i] = moves[i] * min(30.0, largest / share if share else 30.0)
        got = sum(_inner(grads[i], m) for i, m in moves.items())
        scale = sum(float(np.sum(np.abs(grads[i]) * np.abs(m))) for i, m in moves.items())
        base = abs(self.total(at))
        quotients: list[float] = []
        for step in STEPS:
            # The step enlarges the rounding of float64 in the difference of two totals.
            noise = 1e-14 * (1 + base) / step
            if noise > 0.1 * allowed * max(scale, 1e-2 * (1 + base)):
                break
            want = (self._along(at, moves, step) - self._along(at, moves, -step)) / (2 * step)
            if abs(got - want) <= allowed * max(scale, abs(want)) + noise:
                return ""
            quotients.append(want)
        steady = [(abs(b - a) - 1e-13 * (1 + base) / step, b)
                  for (a, b), step in zip(pairwise(quotients), STEPS[1:], strict=False)
                  if np.isfinite(b - a)]
        change, want = min(steady, default=(np.inf, 0.0))
        if change > 0.1 * min(abs(want), abs(got - want)):
            raise Unknown("it is too steep, or has kinks too near, for difference quotients")
        return (f"the derivative along a random direction is {got:.8g} by the gradient, {want:.8g} "
                f"by differences in float64")

    def _along(self, at: list[Array], moves: dict[int, Array], step: float) -> float:
        moved = list(at)
        for i, m in moves.items():
            moved[i] = at[i] + step * m
        total: float = self.total(moved)
        return total


def _noise(v: Value, rng: np.random.Generator) -> Array:
    a = np.asarray(rng.standard_normal(v.shape))
    return a + 1j * rng.standard_normal(v.shape) if v.dtype.is_complex else a


def _inner(a: Array, b: Array) -> float:
    """The real inner product."""
    return float(np.real(np.sum(np.conj(a) * b)))
