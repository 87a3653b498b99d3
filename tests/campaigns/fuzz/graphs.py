"""Trials of the IR alone: passes, derivatives, batches and text, on random graphs with regions.

A graph is grown as in `growing.py`; then runs of its nodes are enclosed in branches, loops,
recomputed parts and graphs with a gradient of their own, one within another, which leaves what it
means as it is. Nothing is compiled: the reference interpreter says what a graph means, so a trial
costs some milliseconds. Where a transformation keeps the bits, so must the interpreter. Where it
does not, what rounding may do is measured (`rounding.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cellc.testing.cases import Case, load_case
from cellc.testing.reducing import reduce
from cellc_compiler import backends
from cellc_compiler.autodiff.batching import BatchingError, batch_graph
from cellc_compiler.autodiff.effects import GradientError
from cellc_compiler.autodiff.forward import tangent_graph
from cellc_compiler.autodiff.reverse import gradient_graph
from cellc_compiler.interpret import evaluate
from cellc_compiler.ir.binary import graph_from_bytes, graph_to_bytes
from cellc_compiler.ir.graph import Builder, Graph, Value
from cellc_compiler.ir.op import Op, lookup
from cellc_compiler.ir.text import parse_graph, print_graph
from cellc_compiler.ir.types import TensorType
from cellc_compiler.ir.verify import verify
from cellc_compiler.passes.base import Pass, copy_graph
from cellc_compiler.passes.pipeline import PIPELINE, keeping_cotangents, passes_of, run_pipeline
from cellc_compiler.passes.rematerialize import Choice, Level, rematerialize
from cellc_runtime import dtypes
from cellc_runtime.target import host_targets

from ...modes.law import Array, bits
from .finding import Finding, Trial
from .growing import GROWN, Faulty, Growth, network
from .network import Different
from .rounding import ROOM, RUNS, moved, within

SUFFIX = ".txt"
EXACT = ("dce", "simplify", "fold-constants", "cse")
"""Passes that leave the bits of every result as they are, in the interpreter too."""
_OTHERS = 2
"""Ways of a graph beside those of every graph."""


# --- regions --------------------------------------------------------------------------------------


def enclosed(growth: Growth, times: int) -> Graph:
    """The graph with some runs of its nodes in regions."""
    graph = growth.graph
    for _ in range(times):
        count = len(graph.nodes)
        at = int(growth.rng.integers(max(count, 1)))
        length = int(growth.rng.integers(1, 12))
        graph = enclose(growth, graph, at, min(at + length, count),
                        growth.pick((branch, repeated, scanned, recomputed, with_gradient)))
    return graph


Wrapper = Callable[[Growth, Builder, Graph, list[Value]], Sequence[Value]]
"""Puts a region over some values into a graph; the values that stand for its outputs."""


def enclose(growth: Growth, graph: Graph, start: int, stop: int, wrap: Wrapper) -> Graph:
    """A copy of a graph with the nodes from `start` to `stop` in a region."""
    whole = copy_graph(graph)
    nodes = whole.nodes[start:stop]
    made = {r for n in nodes for r in n.results}
    later = {v for n in whole.nodes[stop:] for v in n.operands} | set(whole.results())
    kept = [r for n in nodes for r in n.results if r in later]
    given = list(dict.fromkeys(v for n in nodes for v in n.operands if v not in made))
    if not kept:
        return graph
    body = Graph("region")
    body.inputs = given
    body.nodes, body.outputs = nodes, kept
    body = copy_graph(named(body))
    head = Graph(whole.name)
    head.inputs, head.nodes = whole.inputs, whole.nodes[:start]
    results = wrap(growth, Builder(head), body, given)
    table = dict(zip(kept, results, strict=True))
    for node in whole.nodes[stop:]:
        node.operands = [table.get(v, v) for v in node.operands]
    head.nodes += whole.nodes[stop:]
    head.outputs = [table.get(v, v) for v in whole.outputs]
    return head


def named(body: Graph) -> Graph:
    """A graph whose inputs are its own, where they were values of another one."""
    own = Graph(body.name)
    table = {v: own.add_input(v.type, f"a{i}") for i, v in enumerate(body.inputs)}
    for node in body.nodes:
        node.operands = [table.get(v, v) for v in node.operands]
    own.nodes = body.nodes
    own.outputs = [table.get(v, v) for v in body.outputs]
    return own


def branch(growth: Growth, b: Builder, body: Graph, given: list[Value]) -> Sequence[Value]:
    """One branch of a condition that only the run knows; the other gives zeros."""
    other = Graph("other")
    for v in body.inputs:
        other.add_input(v.type, v.name)
    inner = Builder(other)
    other.outputs = [inner.full(v.type, 0) for v in body.outputs]
    taken = bool(growth.chance(0.5))
    pred = growth_input(growth, b.graph, np.asarray(taken))
    regions = (body, other) if taken else (other, body)
    return b.node("cond", [pred, *given], {}, regions).results


def repeated(growth: Growth, b: Builder, body: Graph, given: list[Value]) -> Sequence[Value]:
    """The body of a loop that is run until a number is reached: each trip does the same."""
    trips = growth_input(growth, b.graph, np.asarray(growth.rng.integers(1, 4), np.int32))
    count = len(body.outputs) + 1
    first = [b.literal(np.asarray(0, np.int32)), *(b.full(v.type, 0) for v in body.outputs)]
    test, again = Graph("test"), Graph("body")
    for g in (test, again):
        for i, v in enumerate([*first, trips, *given]):
            g.add_input(v.type, f"a{i}")
    test.outputs = [Builder(test).lt(test.inputs[0], test.inputs[count])]
    inner = Builder(again)
    more = inner.add(again.inputs[0], inner.literal(np.asarray(1, np.int32)))
    again.outputs = [more, *inlined(inner, body, again.inputs[count + 1:])]
    node = b.node("while", [*first, trips, *given], {"carried": count}, (test, again))
    return node.results[1:]


def scanned(growth: Growth, b: Builder, body: Graph, given: list[Value]) -> Sequence[Value]:
    """The body of a loop of some trips over rows, each of which holds what is given."""
    length = int(growth.rng.integers(1, 4))
    rows = [growth.chance(0.5) for _ in given]
    carried = [growth.chance(0.5) for _ in body.outputs]
    first = [b.full(v.type, 0) for v, c in zip(body.outputs, carried, strict=True) if c]
    repeat = [b.broadcast_to(b.reshape(v, shape=(1, *v.shape)), shape=(length, *v.shape))
              for v, r in zip(given, rows, strict=True) if r]
    captured = [v for v, r in zip(given, rows, strict=True) if not r]
    step = Graph("step")
    types = [*(v.type for v in first), *(v.type for v, r in zip(given, rows, strict=True) if r),
             TensorType((), dtypes.int64), *(v.type for v in captured)]
    own = [step.add_input(t, f"a{i}") for i, t in enumerate(types)]
    row, rest = iter(own[len(first):]), iter(own[len(first) + len(repeat) + 1:])
    outs = inlined(Builder(step), body, [next(row) if r else next(rest) for r in rows])
    kept = [v for v, c in zip(outs, carried, strict=True) if c]
    step.outputs = [*kept, *(v for v, c in zip(outs, carried, strict=True) if not c)]
    attrs = {"carried": len(kept), "sequences": len(repeat), "length": length,
             "reverse": growth.chance(0.5)}
    results = iter(b.node("scan", [*first, *repeat, *captured], attrs, (step,)).results)
    last = [next(results) for _ in kept]
    ends = iter(last)
    stacked = results
    at = int(growth.rng.integers(length))
    return [next(ends) if c else row_of(b, next(stacked), at) for c in carried]


def row_of(b: Builder, stacked: Value, at: int) -> Value:
    """A row of what a loop stacked."""
    shape = stacked.shape
    part = b.slice(stacked, start=(at, *(0,) * (len(shape) - 1)), stop=(at + 1, *shape[1:]),
                   step=(1,) * len(shape))
    row: Value = b.reshape(part, shape=shape[1:])
    return row


def recomputed(growth: Growth, b: Builder, body: Graph, given: list[Value]) -> Sequence[Value]:
    """What a gradient computes again."""
    return b.node("recompute", given, {"results": growth.chance(0.5)}, (body,)).results


def with_gradient(growth: Growth, b: Builder, body: Graph, given: list[Value]) -> Sequence[Value]:
    """A graph with a gradient of its own, which is zero."""
    back = Graph("back")
    for i, v in enumerate([*body.inputs, *body.outputs, *body.outputs]):
        back.add_input(v.type, f"a{i}")
    inner = Builder(back)
    back.outputs = [inner.full(v.type, 0) for v in body.inputs]
    return b.node("custom_grad", given, {}, (body, back)).results


def growth_input(growth: Growth, graph: Graph, array: Array) -> Value:
    """A new input of a graph that was grown."""
    growth.arrays.append(array)
    ty = TensorType(array.shape, dtypes.from_numpy(array.dtype))
    return graph.add_input(ty, f"x{len(growth.arrays) - 1}")


def inlined(b: Builder, body: Graph, arguments: Sequence[Value]) -> list[Value]:
    """The nodes of a graph, in another one."""
    copy = copy_graph(body)
    table = dict(zip(copy.inputs, arguments, strict=True))
    for node in copy.nodes:
        node.operands = [table.get(v, v) for v in node.operands]
    b.graph.nodes += copy.nodes
    return [table.get(v, v) for v in copy.outputs]


# --- what a graph means ---------------------------------------------------------------------------


def interpret(graph: Graph, arrays: Sequence[Array], precise: bool = False) -> list[Array]:
    """What a graph gives, every value laid out alike: in what order numpy adds up products follows
    from how its operands lie in memory."""
    env = dict(zip(graph.inputs, arrays, strict=True))
    for node in graph.nodes:
        results = evaluate(node, [env[v] for v in node.operands], precise=precise)
        env.update((v, a.copy(order="C")) for v, a in zip(node.results, results, strict=True))
    return [env[v] for v in graph.results()]


def equal(got: Sequence[Array], want: Sequence[Array], what: str) -> None:
    """Raise `Different` unless all bits agree."""
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        if a.shape != b.shape or bits(a) != bits(b):
            raise Different(f"{what}: result {i} has other bits")


def as_stored(got: Array, want: Array, v: Value) -> Array:
    """What was got, but as is wanted where both are one number in 16 bits: the functions for these
    leave their range earlier than float64 does."""
    if v.dtype.itemsize > 2 or not v.dtype.is_float:
        return got
    return np.where(got.astype(v.dtype.numpy) == want.astype(v.dtype.numpy), want, got)


def close(graph: Graph, other: Graph, arrays: Sequence[Array], what: str) -> None:
    """Raise `Different` unless two graphs agree to the digits that rounding leaves, within the ops
    of the other one, too: an op may cancel that another graph writes out."""
    rng = np.random.default_rng(len(graph.nodes))
    runs = [moved(graph, arrays, rng) for _ in range(RUNS)]
    want = interpret(graph, arrays, precise=True)
    got = interpret(other, arrays, precise=True)
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        if np.shape(a) != np.shape(b):
            raise Different(f"{what}: result {i} is of shape {np.shape(a)}, not {np.shape(b)}")
        a = as_stored(np.asarray(a), np.asarray(b), graph.outputs[i])
        if not within(a, np.asarray(b), [np.asarray(r[i]) for r in runs]):
            own = (moved(other, arrays, rng) for _ in range(RUNS))
            if not within(np.asarray(b), a, [np.asarray(r[i]) for r in own]):
                raise Different(f"{what}: result {i} is another")


# --- ways -----------------------------------------------------------------------------------------


def regions(graph: Graph, arrays: Sequence[Array]) -> None:
    """A graph, its printed form and its binary form are one."""
    verify(graph)
    printed = print_graph(graph)
    for what, read in (("text", parse_graph(printed)),
                       ("bytes", graph_from_bytes(graph_to_bytes(graph)))):
        verify(read)
        if print_graph(read) != printed:
            raise Different(f"the {what} of a graph is not that of the graph it is read as")
        equal(interpret(read, arrays), interpret(graph, arrays), f"read from its {what}")


def in_order(graph: Graph, arrays: Sequence[Array], passes: Sequence[Pass]) -> Graph:
    """A graph after passes, each of which is held to what it says."""
    for p in passes:
        before = copy_graph(graph)
        printed = print_graph(before)
        changed = p.run(graph)
        verify(graph)
        if changed != (print_graph(graph) != printed):
            raise Different(f"pass {p.name} says that it changed something: {changed}")
        if not changed:
            continue
        if p.name in EXACT:
            equal(interpret(graph, arrays), interpret(before, arrays), f"pass {p.name}")
        else:
            close(before, graph, arrays, f"pass {p.name}")
    return graph


def strict(graph: Graph, arrays: Sequence[Array]) -> None:
    """The passes of every compilation; nothing is left for them the second time."""
    work = in_order(copy_graph(graph), arrays, PIPELINE)
    before = print_graph(work)
    run_pipeline(work)
    if print_graph(work) != before:
        run_pipeline(work)  # what an identity makes may allow another one: then it is over
        again = print_graph(work)
        run_pipeline(work)
        if print_graph(work) != again:
            raise Different("the passes never come to an end")


def fast(graph: Graph, arrays: Sequence[Array]) -> None:
    """The passes that are right for real numbers."""
    in_order(copy_graph(graph), arrays, passes_of("fast", backends.backend().fast_passes()))


def of_targets(graph: Graph, arrays: Sequence[Array]) -> None:
    """The passes of each kind of processor."""
    for target in host_targets():
        work = run_pipeline(copy_graph(graph))
        in_order(work, arrays, tuple(backends.backend_of(target).passes(target)))


def wanted(graph: Graph) -> list[int]:
    """Inputs with a derivative."""
    return [i for i, v in enumerate(graph.inputs) if v.dtype.is_float and v.type.size]


def seeds(graph: Graph) -> list[int]:
    """Outputs with a derivative."""
    return [i for i, v in enumerate(graph.outputs) if v.dtype.is_float]


def derived(graph: Graph) -> Graph | None:
    """A graph with its gradients; None if an op on the way has none."""
    try:
        return gradient_graph(graph, wanted(graph), seeded=seeds(graph))
    except GradientError:
        return None


def backward(graph: Graph, arrays: Sequence[Array]) -> None:
    """Gradients leave the results as they were, and passes leave the gradients as they were."""
    slopes = derived(graph)
    if slopes is None:
        return
    verify(slopes)
    count = len(graph.outputs)
    equal(interpret(slopes, arrays)[:count], interpret(graph, arrays)[:count], "with gradients")
    in_order(copy_graph(slopes), arrays, PIPELINE)


def again(graph: Graph, arrays: Sequence[Array]) -> None:
    """Whatever is computed again, no bit changes."""
    slopes = derived(graph)
    if slopes is None:
        return
    run_pipeline(slopes, keeping_cotangents("strict"))
    want = interpret(slopes, arrays)
    for level in (Level.CHEAP, Level.ELEMENTWISE, Level.ALL):
        for parts in (1, 3):
            work = copy_graph(slopes)
            rematerialize(work, Choice((level,) * parts))
            verify(work)
            equal(interpret(work, arrays), want, f"computed again: {level.name} in {parts} parts")


def both_ways(graph: Graph, arrays: Sequence[Array]) -> None:
    """Along one direction, forward derivatives and gradients say the same: v'(J'u) = u'(Jv)."""
    own = copy_graph(graph)
    inputs, outs = wanted(own), seeds(own)
    try:
        forth = tangent_graph(own, inputs, outs)
        back = gradient_graph(own, inputs, seeded=outs, sens=True)
    except GradientError:
        return
    verify(forth)
    verify(back)
    rng = np.random.default_rng(len(graph.nodes))
    along = [rng.standard_normal(graph.inputs[i].shape) for i in inputs]
    against = [rng.standard_normal(graph.outputs[i].shape) for i in outs]
    sums = []
    for seed in range(RUNS + 1):
        noise = np.random.default_rng(seed)
        run: Any = (lambda g, a, noise=noise: moved(g, a, noise)) if seed else (
            lambda g, a: interpret(g, a, precise=True))
        sums.append((dot(run(forth, [*arrays, *along])[len(graph.outputs):], against),
                     dot(run(back, [*arrays, *against])[len(graph.outputs):], along)))
    size = max(abs(s[0]) for s in sums)
    if not np.isfinite(size) or not all(np.isfinite(s[1]) for s in sums):
        return
    spread = max(abs(a - b) for k in (0, 1) for a in (s[k] for s in sums)
                 for b in (s[k] for s in sums))
    if abs(sums[0][0] - sums[0][1]) > ROOM * spread + 1e-6 * size + 1e-12:
        raise Different(f"forward and backward derivatives: {sums[0][0]:g} and {sums[0][1]:g}")


def dot(xs: Sequence[Array], ys: Sequence[Array]) -> float:
    """The sum of products."""
    with np.errstate(all="ignore"):
        return float(sum(np.sum(x.astype(np.float64) * y) for x, y in zip(xs, ys, strict=True)))


def batched(graph: Graph, arrays: Sequence[Array]) -> None:
    """Three examples at once give what each gives alone."""
    nodes = list(graph.walk())
    if any(n.op.startswith("random") or lookup(n.op).effect for n in nodes):
        return
    rng = np.random.default_rng(len(nodes))
    mapped = [bool(rng.random() < 0.7) and v.dtype.is_float for v in graph.inputs]
    examples = [[a if not m else np.asarray(a * s, a.dtype)
                 for a, m in zip(arrays, mapped, strict=True)] for s in (1, 0.5, 0.25)]
    try:
        many, _ = batch_graph(graph, mapped, 3, whole=True)
    except BatchingError:
        return
    verify(many)
    stacked = [np.stack([e[i] for e in examples]) if m else a
               for i, (a, m) in enumerate(zip(arrays, mapped, strict=True))]
    got = interpret(many, stacked, precise=True)
    for k, example in enumerate(examples):
        noise = np.random.default_rng(k)
        runs = [moved(graph, example, noise) for _ in range(RUNS)]
        for i, want in enumerate(interpret(graph, example, precise=True)):
            of_one = as_stored(np.asarray(got[i][k]), np.asarray(want), graph.outputs[i])
            if not within(of_one, np.asarray(want), [np.asarray(r[i]) for r in runs]):
                raise Different(f"example {k} of a batch: result {i} is another")


Way = Callable[[Graph, Sequence[Array]], None]
WAYS: dict[str, Way] = {
    way.__name__: way for way in (regions, strict, fast, of_targets, backward, again, both_ways,
                                  batched)}


# --- trials ---------------------------------------------------------------------------------------


def trial(seed: int, ops: Sequence[Op] = GROWN) -> Trial:
    """One graph with regions, in the ways of every graph and in two others."""
    try:
        growth = network(seed, ops, most=24)
    except Faulty as e:
        return Trial(finding=Finding("graphs", seed, str(e)))
    plain = growth.graph
    graph = enclosed(growth, int(growth.rng.integers(0, 4)))
    counts = Counter({f"op {op}": n for op, n in growth.ops.items()})
    counts["ops"] = sum(growth.ops.values())
    counts.update(f"op {n.op}" for n in graph.walk() if n.regions)
    arrays = growth.arrays
    ways = {"enclosing": _enclosing(plain), "regions": regions, "strict": strict}
    others = list(WAYS)[2:]
    ways.update((name, WAYS[name]) for name in growth.rng.permutation(others)[:_OTHERS])
    for name, way in ways.items():
        counts[f"way {name}"] += 1
        told = symptom(way, graph, arrays)
        if told:
            case = smallest(name, way, graph, arrays, told)
            return Trial(counts, Finding("graphs", seed, f"{name}: {told}", case))
    return Trial(counts)


def _enclosing(plain: Graph) -> Way:
    def way(graph: Graph, arrays: Sequence[Array]) -> None:
        equal(interpret(graph, arrays), interpret(plain, arrays[:len(plain.inputs)]),
              "with regions and without")

    return way


def symptom(way: Way, graph: Graph, arrays: Sequence[Array]) -> str:
    """What a way finds wrong with a graph, in a line; "" if nothing."""
    try:
        with np.errstate(all="ignore"):
            way(graph, arrays)
    except Different as e:
        return f"Different: {e}".splitlines()[0]
    except IndexError as e:  # an index that is none for these sizes: numpy has no answer
        return "" if "out of bounds" in str(e) else f"IndexError: {e}"
    except Exception as e:
        return f"{type(e).__name__}: {e}".splitlines()[0]
    return ""


def smallest(
    name: str, way: Way, graph: Graph, arrays: Sequence[Array], told: str
) -> str:
    """The smallest graph that shows the same kind of fault, as a case."""
    kind = told.split(":")[0]
    if name not in WAYS:
        return Case(graph, arrays, options={"way": "regions"}).text()
    graph, arrays, _ = reduce(graph, arrays,
                              lambda g, a: symptom(way, g, a).split(":")[0] == kind, seconds=60)
    return Case(graph, arrays, options={"way": name}).text()


def play(path: Path) -> str:
    """What a case of the corpus shows; "" if it is mended."""
    case = load_case(path)
    if case.graph is None:
        raise ValueError(f"{path.name} has no graph")
    return symptom(WAYS[case.options["way"]], case.graph, case.arrays)
