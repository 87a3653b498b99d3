"""Whether the rules of the ops in a graph are right: gradients and batches.

Both modes and the reference differentiate by the same rules, so a wrong rule shows in none of
their comparisons. Here each node is judged on the operands it has, as a graph of its own: its
gradient by difference quotients in float64 (`verification.derivatives`), its batching rule by its
reference on one example after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cellc_compiler.autodiff.batching import BatchingError, batch_graph
from cellc_compiler.autodiff.effects import GradientError
from cellc_compiler.interpret import expand_node
from cellc_compiler.interpret import run as interpret
from cellc_compiler.ir.graph import Graph, Node
from cellc_compiler.ir.op import has_effect, lookup

from ..verification.derivatives import Unknown, check, is_judged, rule_key, values_in
from .judging import Array, Symptom, Values, alone_graph

_EXAMPLES = 3
_MOST = 1 << 20
"""Elements of an operand above which a rule is judged elsewhere: on smaller ones of its kind."""


def wrong_rule(graph: Graph, values: Values) -> Symptom | None:
    """The first node of a graph with a wrong rule, judged on the values it has there."""
    seen: set[Any] = set()
    for position, node in enumerate(graph.nodes):
        key = rule_key(node)
        if key in seen or (node.regions and not is_judged(node)) or node.is_constant:
            continue
        if has_effect(node) or not node.operands or \
                any(v.type.size > _MOST for v in node.operands):
            continue
        seen.add(key)
        problem = next(problems(node, [values[v] for v in node.operands]), None)
        if problem is not None:
            return Symptom("rule", problem, position)
    return None


def problems(node: Node, arrays: Sequence[Array]) -> Iterator[str]:
    """Yield faults in the rules of one node on these operands, in words."""
    op = lookup(node.op)
    if is_judged(node):
        try:
            told = check(node, arrays)
        except (Unknown, GradientError):  # not smooth here, or deliberately without a gradient
            told = ""
        except Exception as e:
            told = f"it fails: {type(e).__name__}: {e}"
        if told:
            yield told if node.regions else f"the gradient rule of {node.op} is wrong: {told}"
    elif op.expand is not None and op.differentiable:
        yield from _inside(node, arrays)
    if not node.regions:
        yield from _batching(alone_graph(node), node, arrays)


def _inside(node: Node, arrays: Sequence[Array]) -> Iterator[str]:
    """Yield faults in the rules of a composition's ops."""
    graph = expand_node(node)
    values = values_in(graph, arrays, False)
    for inner in graph.nodes:
        if inner.operands and not inner.regions:
            for told in problems(inner, [values[v] for v in inner.operands]):
                yield f"in {node.op}, {told}"


def _batching(graph: Graph, node: Node, arrays: Sequence[Array]) -> Iterator[str]:
    examples = [[_other(a, k) for a in arrays] for k in range(_EXAMPLES)]
    for mapped in _mappings(len(arrays)):
        try:
            batched, _ = batch_graph(graph, mapped, _EXAMPLES, whole=True)
        except BatchingError:
            return
        except Exception as e:
            yield f"the batching rule of {node.op} fails: {type(e).__name__}: {e}"
            return
        rows = [[e if m else f for e, f, m in zip(example, examples[0], mapped, strict=True)]
                for example in examples]
        given = [np.stack([row[i] for row in rows]) if m else rows[0][i]
                 for i, m in enumerate(mapped)]
        together = _reference(batched, given)
        each = [_reference(graph, row) for row in rows]
        if together is None or any(e is None for e in each):
            return
        for j, t in enumerate(together):
            want = np.stack([e[j] for e in each if e is not None])
            if not _close(t, want):
                which = ", ".join(str(i) for i, m in enumerate(mapped) if m)
                yield (f"the batching rule of {node.op} is wrong for examples along operand "
                       f"{which}: other results than one example after the other")
                return


def _mappings(count: int) -> Iterator[list[bool]]:
    """Which operands hold an example each: all, and each one alone."""
    yield [True] * count
    if count > 1:
        for i in range(count):
            yield [k == i for k in range(count)]


def _other(a: Array, number: int) -> Array:
    """Another example from the same elements, so that it is in the op's domain too."""
    return np.roll(a.reshape(-1), 2 * number).reshape(a.shape) if a.dtype.kind not in "iub" else a


def _reference(graph: Graph, arrays: Sequence[Array]) -> list[Array] | None:
    try:
        return interpret(graph, arrays, precise=True)
    except Exception:  # a rule whose graph the reference cannot run is judged by the modes alone
        return None


def _close(a: Array, b: Array) -> bool:
    if a.shape != b.shape:
        return False
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    scale = float(np.max(np.abs(b), initial=0.0, where=np.isfinite(b)))
    # (Constants that a composition brings along have the element type's digits.)
    return bool(np.allclose(a, b, rtol=1e-5, atol=1e-5 * scale, equal_nan=True))
