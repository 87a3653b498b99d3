"""`cellc verify`: graph against eager against reference, node by node.

The traced graph is compiled with every node's result as an output (fusion changes no bit, so
these are the values that the plain compilation computes); the eager engine runs the same nodes
one by one; the numpy reference runs each node in float64 on the graph's own operands, which
gives the error that node adds, in units in the last place of its largest element, or of what it
summed where that is more (terms may cancel: the sum of a normalised row is all rounding).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cellc_compiler import driver
from cellc_compiler.interpret import evaluate, summed
from cellc_compiler.ir.graph import Graph, Node, Value
from cellc_compiler.ir.op import lookup
from cellc_compiler.passes.base import copy_graph
from cellc_runtime.records import dataclass

from ..calls.callbacks import executed, host_callbacks
from ..core.dispatch import apply
from ..tensors.tensor import tensor_of

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Verdict:
    """What verification found.

    Attributes:
        nodes: nodes compared.
        fault: the first node that differs, and how; None if all agree.
        worst: the largest error of a node against its reference, in ulps, and that node.
    """

    nodes: int = 0
    fault: tuple[Node, str] | None = None
    worst: float = 0.0
    worst_node: Node | None = None


def verify_graph(
    graph: Graph, arrays: Sequence[Array], functions: Sequence[Callable[..., Any]] = ()
) -> Verdict:
    """Compare the three on these inputs (parameters included, in the order of the graph).

    `functions` are the Python functions that the graph calls, each as often as the network does:
    prints print once, state changes once. What they return is not judged.
    """
    tapes = {name: _Tape(f) for name, f in host_callbacks(graph, functions).items()}
    compiled = driver.compile_graph(
        graph, callbacks={name: tape.record for name, tape in tapes.items()})(arrays)
    values = _all_values(graph, arrays, {name: tape.replay for name, tape in tapes.items()})
    eager: dict[Value, Array] = dict(zip(graph.inputs, arrays, strict=True))
    verdict = Verdict()
    for node in graph.nodes:
        results = [values[r] for r in node.results]
        for r, a in zip(node.results, _eager(node, eager, values), strict=True):
            eager[r] = a
        verdict.nodes += 1
        problem = _differs(node, results, [eager[r] for r in node.results])
        if not _calls_python(node):
            problem = problem or _against_reference(node, values, results, verdict)
        if problem:
            verdict.fault = node, problem
            return verdict
    for v, whole in zip(graph.results(), compiled, strict=True):
        if not _same_bits(whole, values[v]) and v.node is not None:
            verdict.fault = v.node, "the compiled network gives other bits than its own nodes"
            return verdict
    return verdict


class _Tape:
    """The calls of a Python function in one run, for another run to have the same results."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function
        self.calls: deque[list[Array]] = deque()

    def record(self, *arrays: Array) -> None:
        """Call the function, which writes its results into the last arrays."""
        self.function(*arrays)
        self.calls.append([np.array(a) for a in arrays])

    def replay(self, *arrays: Array) -> None:
        """Write the results of the next recorded call."""
        for place, array in zip(arrays, self.calls.popleft(), strict=True):
            if place.flags.writeable:
                place[...] = array


def _calls_python(node: Node) -> bool:
    """Whether its results come from functions that have no reference."""
    return node.op == "host_call" or any(
        n.op == "host_call" for region in node.regions for n in executed(region))


def _all_values(
    graph: Graph, arrays: Sequence[Array], callbacks: Mapping[str, Callable[..., None]]
) -> dict[Value, Array]:
    probe = copy_graph(graph)
    every = [r for n in probe.nodes for r in n.results]
    originals = [r for n in graph.nodes for r in n.results]
    probe.outputs, probe.updates = every, []
    out = driver.compile_graph(probe, callbacks=callbacks)(arrays)
    values = dict(zip(graph.inputs, arrays, strict=True))
    values.update(zip(originals, out, strict=True))
    return values


def _eager(node: Node, env: dict[Value, Array], values: dict[Value, Array]) -> list[Array]:
    if node.op == "constant":
        return [node.attrs["value"].array]
    if node.regions or lookup(node.op).effect:
        return [values[r] for r in node.results]  # Python runs control flow itself in PyNative
    out = apply(node.op, *(tensor_of(np.ascontiguousarray(env[v]).reshape(v.shape))
                           for v in node.operands), **node.attrs)
    return [t._data for t in (out if isinstance(out, tuple) else (out,))]


def _same_bits(a: Array, b: Array) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    x, y = np.ascontiguousarray(a), np.ascontiguousarray(b)
    if x.tobytes() == y.tobytes():
        return True
    # NaNs may differ in their payload, which no operation can see.
    return bool(np.array_equal(x, y, equal_nan=True)) if x.dtype.kind in "fc" else False


def _differs(node: Node, graph: Sequence[Array], eager: Sequence[Array]) -> str:
    for i, (a, b) in enumerate(zip(graph, eager, strict=True)):
        if not _same_bits(a, b):
            at = np.unravel_index(int(np.argmax(np.asarray(a != b))), a.shape) if a.shape else ()
            where = tuple(int(k) for k in at)
            return (f"result {i}: graph and eager differ at {where}: "
                    f"{a[where]!r} and {b[where]!r}")
    return ""


def _against_reference(
    node: Node, values: dict[Value, Array], results: Sequence[Array], verdict: Verdict
) -> str:
    operands = [values[v] for v in node.operands]
    want, terms = evaluate(node, operands, precise=True), summed(node, operands)
    for i, (r, got, ref) in enumerate(zip(node.results, results, want, strict=True)):
        if not r.dtype.is_inexact:
            if not np.array_equal(got, ref):
                return f"result {i} differs from the reference"
            continue
        ulps = error_in_ulps(got, ref, r, terms)
        if ulps > verdict.worst:
            verdict.worst, verdict.worst_node = ulps, node
        limit = _limit(node)
        if ulps > limit:
            return f"result {i} is {ulps:.1f} ulps from the reference (allowed: {limit:g})"
    return ""


def _limit(node: Node) -> float:
    """Tolerance in ulps: the op's own; a contraction's error grows with its length."""
    op = lookup(node.op)
    base = op.tolerance
    if op.opaque or op.reduction is not None or op.expand is not None:
        length = max((v.type.size for v in node.operands), default=1)
        base = max(base, 8.0 * length**0.5)
    return float(base) if not node.regions else float("inf")


def error_in_ulps(got: Array, ref: Array, value: Value, terms: Array | None = None) -> float:
    """The largest difference in ulps of the largest finite element of the reference.

    Args:
        terms: what was summed for each element, in magnitude: its ulps count where it is larger.
    """
    if got.size == 0:
        return 0.0
    wide = got.astype(np.complex128 if value.dtype.is_complex else np.float64)
    finite = np.isfinite(ref) & np.isfinite(wide)
    scale = float(np.max(np.abs(ref), initial=0.0, where=finite))
    real = value.dtype.numpy if not value.dtype.is_complex else np.dtype(np.float32)
    eps = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float64": 2.0**-52}.get(real.name, 2.0**-23)
    tiny = {"float16": 2.0**-14, "float64": 2.0**-1022}.get(real.name, 2.0**-126)
    unit: Any = max(scale, tiny)
    if terms is not None:
        unit = np.maximum(unit, np.where(np.isfinite(terms), terms, 0).reshape(ref.shape))
    diff = np.abs(np.where(finite, wide - np.where(finite, ref, 0), 0))
    return float(np.max(diff / (unit * eps), initial=0.0))
