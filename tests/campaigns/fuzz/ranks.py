"""Trials of graphs cut over ranks, and into stages, against the whole graph to the bit.

Threads play the ranks, which the interpreter computes. A graph of core ops, grown as in
`growing.py`, lies at random on a random mesh; what a rank gives is its part of what one process
gives; in a third of the cases that is a graph with gradients. Sums of floats whose order a cut
changes, and what is computed from them, are held to what rounding may do instead.

A graph of micro-batches is cut into stages anywhere. Now and then it is a network of `samples/`
that is cut, its layers' primitives told how (`placed.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import cellc as ms
from cellc.compiled.traced import trace
from cellc.testing.cases import Case, load_case
from cellc.testing.ranks import run_ranks
from cellc.testing.reducing import reduce
from cellc_compiler.interpret import run as interpret
from cellc_compiler.ir.graph import Graph, Value
from cellc_compiler.ir.op import Op, lookup
from cellc_compiler.ir.sharding import Layout, Mesh, factors_of, whole
from cellc_compiler.ir.verify import verify
from cellc_compiler.passes.base import copy_graph
from cellc_compiler.passes.sharding.plan import LAY_OUT
from cellc_compiler.passes.sharding.rewrite import Sharded, core_graph, shard
from cellc_compiler.passes.stages.schedule import SCHEDULES

from ...modes.law import Array
from ...passes.test_sharding import part
from ...passes.test_stages import Random, check_cut
from . import placed
from .finding import Finding, Trial
from .growing import GROWN, Faulty, network
from .network import Different, Network, same, scalar, smooth, widened
from .rounding import RUNS, moved, within

SUFFIX = ".txt"
MESHES = ((2,), (3,), (4,), (2, 2), (3, 2), (2, 3), (6,))
SIZES = (1, 2, 3, 4, 6, 8, 12, 12, 24)
"""Of tensors: most can be cut by most meshes."""
_MOST = 12
"""Ops of a graph that is cut over ranks."""
_STAGED = 4
"""Graphs that a trial cuts into stages."""
_SLOPED = 0.3
"""How often what is cut is a graph with gradients."""
_PLACED = 8
"""Of so many trials one is of a network with strategies."""
_PLAIN = tuple(op for op in GROWN if "random" not in op.name and op.name != LAY_OUT)
"""(Draws are refused by the interpreter; what asks for a layout asks for one of a mesh.)"""


def layouts(salt: int, mesh: Mesh, arrays: Sequence[Array]) -> dict[int, Layout]:
    """How some inputs lie: it follows from their places and shapes, so that what is left of a
    graph that is made smaller lies as before."""
    found: dict[int, Layout] = {}
    for i, array in enumerate(arrays):
        rng = np.random.default_rng([salt, *array.shape])
        cuts: list[tuple[int, ...]] = [() for _ in array.shape]
        for m in map(int, rng.permutation(len(mesh.sizes))):
            axis = int(rng.integers(-1, array.ndim)) if array.ndim else -1
            if axis >= 0 and array.shape[axis] % mesh.parts((*cuts[axis], m)) == 0:
                cuts[axis] = (*cuts[axis], m)
        if rng.random() < 0.8:
            found[i] = tuple(cuts)
    return found


def summed(graph: Graph) -> set[Value]:
    """Values that a sum of floats is in, whose order a cut may change; so is a product of complex
    numbers, which numpy, the interpreter, rounds by their places in an array."""
    found: set[Value] = set()
    for node in graph.nodes:
        floats = any(v.dtype.is_inexact for v in node.results)
        if lookup(node.op).elementwise and any(v.dtype.is_complex for v in node.operands):
            found.update(node.results)
        adds = lookup(node.op).elementwise is False and bool(
            factors_of(node).summed) and factors_of(node).combine in ("sum", "prod")
        if (floats and adds) or any(v in found for v in node.operands):
            found.update(node.results)
    return found


def sharded(graph: Graph, arrays: Sequence[Array], sizes: tuple[int, ...], salt: int) -> None:
    """Each rank's parts of the outputs are those of the whole graph.

    Raises:
        Different: they are not.
    """
    mesh = Mesh(sizes, tuple(range(math.prod(sizes))))
    core = core_graph(graph)
    try:
        want = interpret(core, arrays)
    except IndexError:  # see `network.reference`
        return
    given = layouts(salt, mesh, arrays)
    gathered = bool(salt % 2)

    def lies(i: int, v: Value, layout: Layout) -> Layout:
        return whole(v.type.rank) if gathered else layout

    def play(rank: int) -> tuple[Sharded, list[Array]]:
        own = shard(copy_graph(core), mesh, rank, given, lies)
        verify(own.graph)
        parts = [part(a, mesh, rank, lay) for a, lay in zip(arrays, own.inputs, strict=True)]
        return own, interpret(own.graph, parts)

    loose = summed(core)
    rng = np.random.default_rng(salt)
    runs = [moved(core, arrays, rng) for _ in range(RUNS)] if loose else []
    for rank, (own, found) in enumerate(run_ranks(len(mesh.ranks), play)):
        for i, (v, lay) in enumerate(zip(core.outputs, own.outputs, strict=True)):
            expected = part(want[i], mesh, rank, lay)
            if v not in loose:
                same([found[i]], [expected], f"rank {rank}, output {i}")
            elif not within(widened(found[i]), widened(expected), [
                    part(np.asarray(r[i]), mesh, rank, lay) for r in runs]):
                raise Different(f"rank {rank}, output {i} is further off than rounding")


def staged(seed: int, stages: int, micro: int, schedule: str) -> None:
    """Stages of a graph give what the graph gives.

    Raises:
        Different: they do not.
    """
    try:
        check_cut(Random(seed, stages, micro), schedule)
    except AssertionError as e:
        raise Different(f"{e}".strip().split("\n")[0]) from e


def with_gradients(net: Network) -> Graph:
    """A network's outputs and the gradients of its inputs; the network alone if it has none."""
    wanted = tuple(net.floats())
    if not wanted or not smooth(net):
        return net.graph
    return trace(ms.value_and_grad(scalar(net), wanted), net.tensors(), {}).graph


def symptom(check: Callable[[], None]) -> str:
    """What is found, in a line; "" if nothing."""
    try:
        check()
    except Different as e:
        return f"Different: {e}".splitlines()[0]
    except Exception as e:
        return f"{type(e).__name__}: {e}".splitlines()[0]
    return ""


def trial(seed: int, ops: Sequence[Op] = _PLAIN) -> Trial:
    """One graph over ranks, and some in stages."""
    if ops is _PLAIN and seed % _PLACED == _PLACED - 1:
        return _placed_trial(seed)
    rng = np.random.default_rng([seed, 17])
    for _ in range(_STAGED):
        how = (int(rng.integers(1 << 30)), int(rng.integers(1, 6)), int(rng.integers(1, 6)),
               SCHEDULES[int(rng.integers(len(SCHEDULES)))])
        told = symptom(lambda how=how: staged(*how))  # type: ignore[misc]
        if told:
            return Trial(finding=_staged_finding(seed, how, told))
    try:
        growth = network(seed, ops, _MOST, SIZES)
    except Faulty as e:
        return Trial(finding=Finding("ranks", seed, str(e)))
    sizes, salt = MESHES[int(rng.integers(len(MESHES)))], int(rng.integers(1 << 30))
    counts = Counter({f"op {op}": n for op, n in growth.ops.items()})
    counts.update(graphs=1 + _STAGED, ops=sum(growth.ops.values()))
    graph = growth.graph
    if rng.random() < _SLOPED:
        graph = with_gradients(Network(graph, growth.arrays, growth.fitted))
        counts["gradients"] = 1
    told = symptom(lambda: sharded(graph, growth.arrays, sizes, salt))
    if not told:
        return Trial(counts)
    kind = told.split(":")[0]
    graph, arrays, _ = reduce(
        graph, growth.arrays,
        lambda g, a: symptom(lambda: sharded(g, a, sizes, salt)).split(":")[0] == kind, seconds=60)
    case = Case(graph, arrays, options={"mesh": "x".join(map(str, sizes)), "salt": str(salt)})
    return Trial(counts, Finding("ranks", seed, f"mesh {sizes}: {told}", case.text()))


def _placed_trial(seed: int) -> Trial:
    """A network of the samples, its layers' primitives told how they lie."""
    network = placed.drawn(seed)
    counts = Counter(graphs=1, strategies=len(network.said))
    told = symptom(lambda: _cut(network, seed))
    if not told:
        return Trial(counts)
    kind = told.split(":")[0]
    network = placed.smaller(
        network, lambda p: symptom(lambda: _cut(p, seed)).split(":")[0] == kind)
    return Trial(counts, Finding("ranks", seed, f"placed: {told}",
                                 f"placed {seed}\n{network.text()}"))


def _cut(network: placed.Placed, salt: int) -> None:
    """Each rank's parts of what a network gives are those of one process.

    Raises:
        Different: they are not.
    """
    graph, arrays, sizes = network.graph()
    sharded(graph, arrays, sizes, salt)


def _staged_finding(seed: int, how: tuple[int, int, int, str], told: str) -> Finding:
    """With as few stages and micro-batches as show it."""
    first, stages, micro, schedule = how
    smaller = ((first, s, m, schedule) for s in range(1, stages + 1) for m in range(1, micro + 1))
    how = next((h for h in smaller if symptom(lambda h=h: staged(*h))), how)  # type: ignore[misc]
    return Finding("ranks", seed, f"stages: {told}", f"stages {' '.join(map(str, how))}\n{told}\n")


def play(path: Path) -> str:
    """What a case of the corpus shows; "" if it is mended."""
    head = path.read_text().split("\n", 1)[0].split()
    if head[:1] == ["stages"]:
        return symptom(lambda: staged(int(head[1]), int(head[2]), int(head[3]), head[4]))
    if head[:1] == ["placed"]:
        first, _, rest = path.read_text().partition("\n")
        network = placed.read(rest)
        return symptom(lambda: _cut(network, int(first.split()[1])))
    case = load_case(path)
    if case.graph is None:
        raise ValueError(f"{path.name} has no graph")
    graph, sizes = case.graph, tuple(map(int, case.options["mesh"].split("x")))
    return symptom(lambda: sharded(graph, case.arrays, sizes, int(case.options["salt"])))
