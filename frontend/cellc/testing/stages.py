"""At which stage of the compiler a graph goes wrong.

The pipeline is run pass by pass. The pass is at fault that raises, that leaves a graph which breaks
a rule of the IR, after which the reference gives other values, or after which the nodes, each run
alone, give other bits. If all passes keep the values, code generation is at fault; the node whose
kernel is wrong is looked for in the optimized graph. A fault that vanishes without a pass is
reported so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cellc_compiler import backends, driver
from cellc_compiler.interpret import run as interpret
from cellc_compiler.ir.graph import Graph, Node
from cellc_compiler.ir.op import lookup
from cellc_compiler.ir.verify import VerifyError, verify
from cellc_compiler.passes.base import Pass, copy_graph
from cellc_runtime.records import dataclass

from ..verification.values import difference, same_bits
from .judging import Array, Judge, NodeError, Symptom, against_reference


@dataclass(frozen=True, slots=True)
class Stage:
    """The fault of a compiler's stage.

    Attributes:
        name: `"pass expand"`, `"code generation"`.
        text: how it shows.
        without: the pass without which the fault goes away; "".
        nodes: of the optimized graph whose code is wrong.
    """

    name: str
    text: str
    without: str = ""
    nodes: tuple[Node, ...] = ()


def find_stage(
    judge: Judge, graph: Graph, arrays: Sequence[Array], symptom: Symptom
) -> Stage:
    """The stage of the compiler at which a graph goes wrong. `symptom`: what is wrong with it."""
    target = backends.backend().target_of(graph, judge.numerics)
    passes = driver.passes(judge.numerics, target)
    current = copy_graph(graph)
    want, floor = _reference(current, arrays)
    bits = _run_alone(judge, current, arrays)
    for number, p in enumerate(passes):
        try:
            p.run(current)
            verify(current)
        except VerifyError as e:
            return Stage(f"pass {p.name}", f"its graph breaks a rule: {str(e).splitlines()[0]}")
        except Exception as e:
            return Stage(f"pass {p.name}", f"{type(e).__name__}: {e}")
        changed = _describe_change(want, _reference(current, arrays)[0], floor)
        if changed:
            return Stage(f"pass {p.name}", f"{_position(number, passes)} changes what the graph "
                         f"computes: {changed}")
        if judge.numerics == "strict" and bits is not None:
            now = _run_alone(judge, current, arrays)
            different = _other_bits(bits, now)
            if different:
                return Stage(f"pass {p.name}", f"{_position(number, passes)} changes bits: "
                             f"{different}")
    return _code(judge, graph, current, arrays, symptom, passes)


def _position(number: int, passes: Sequence[Pass]) -> str:
    return f"(number {number + 1} of {len(passes)})"


def _reference(graph: Graph, arrays: Sequence[Array]) -> tuple[list[Array] | None, float]:
    """The results in float64, and what may be rounding in them: a part of the largest value on
    the way, for terms may cancel."""
    largest = 0.0

    def note(node: Node, results: tuple[Array, ...]) -> None:
        nonlocal largest
        for a in results:
            if a.dtype.kind in "fc":
                finite = np.isfinite(a)
                largest = max(largest, float(np.max(np.abs(a), initial=0.0, where=finite)))

    try:
        return interpret(graph, arrays, precise=True, observe=note), _ROUNDING * largest
    except Exception:  # what the reference cannot run is left to the comparison of bits
        return None, 0.0


_ROUNDING = 1e-11


def _describe_change(want: list[Array] | None, got: list[Array] | None, floor: float) -> str:
    """How the reference's values differ; rewrites may change the last digits of float64."""
    if want is None or got is None:
        return ""
    for i, (w, g) in enumerate(zip(want, got, strict=True)):
        if w.dtype.kind in "fc":
            good = np.isclose(g, w, rtol=1e-9, atol=floor, equal_nan=True)
        else:
            good = np.asarray(g == w)
        if not np.all(good):
            at = tuple(int(k) for k in np.argwhere(~good)[0])
            return f"output {i} at {list(at)} was {w[at]!s} and is {g[at]!s}"
    return ""


def _run_alone(judge: Judge, graph: Graph, arrays: Sequence[Array]) -> list[Array] | None:
    try:
        values = judge.alone(graph, arrays)
    except NodeError:  # nodes that passes write need not run alone
        return None
    return [values[v] for v in graph.results()]


def _other_bits(want: list[Array], got: list[Array] | None) -> str:
    if got is None:
        return ""
    for i, (w, g) in enumerate(zip(want, got, strict=True)):
        if not same_bits(w, g):
            return f"output {i}: {difference(w, g, ('the graph before', 'after'))}"
    return ""


def _code(
    judge: Judge, graph: Graph, optimized: Graph, arrays: Sequence[Array], symptom: Symptom,
    passes: Sequence[Pass],
) -> Stage:
    without = "" if symptom.kind not in ("modes", "error") else _goes_away(
        judge, graph, arrays, symptom, passes)
    nodes = _wrong_kernels(judge, optimized, arrays)
    every = tuple(n for n in optimized.nodes if not n.is_constant and n.results)
    ops = ", ".join(dict.fromkeys(n.op for n in nodes or every))
    if symptom.kind == "error":
        text = f"every pass works; {ops} cannot be compiled or run"
    elif nodes:
        kind = "the kernel" if lookup(nodes[0].op).opaque else "the loop nest"
        text = f"every pass keeps the values; {kind} of {ops} is wrong"
    else:
        text = (f"every pass keeps the values, and the code of each node alone is right; together "
                f"{ops} are wrong: fusion, a pattern or the places in memory")
    return Stage("code generation", text, without, nodes or every)


def _wrong_kernels(judge: Judge, optimized: Graph, arrays: Sequence[Array]) -> tuple[Node, ...]:
    """Nodes of the optimized graph that are wrong on their own operands, run alone."""
    try:
        values = judge.alone(optimized, arrays)
        return tuple(n for n in optimized.nodes if against_reference(n, values))[:1]
    except Exception:  # some nodes that passes write have no kernel alone
        return ()


def _goes_away(
    judge: Judge, graph: Graph, arrays: Sequence[Array], symptom: Symptom, passes: Sequence[Pass]
) -> str:
    """The pass without which the compiled graph is right; "" if there is none."""
    want = _run_alone(judge, graph, arrays)
    for p in dict.fromkeys(passes):
        try:
            out = judge.compiled(graph, arrays, without=p)
        except Exception:  # nothing can be compiled without it
            continue
        if want is None or all(same_bits(a, b) for a, b in zip(out, want, strict=True)):
            return p.name
    return ""
