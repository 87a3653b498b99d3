"""Whether the rules of the ops in a graph are right: gradients, tangents, batches.

Both modes and the reference differentiate by the same rules, so a wrong rule shows in none of
their comparisons. Here each node is judged on the operands it has, as a graph of its own: its
gradient and its tangent by central differences of its reference in float64, its batching rule by
its reference on one example after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cellc_compiler.autodiff.batching import BatchingError, batch_graph
from cellc_compiler.autodiff.effects import GradientError
from cellc_compiler.autodiff.forward import tangent_graph
from cellc_compiler.autodiff.reverse import gradient_graph
from cellc_compiler.interpret import run as interpret
from cellc_compiler.ir.graph import Graph, Node, attrs_key
from cellc_compiler.ir.op import has_effect, lookup

from .judging import Array, Symptom, Values, alone_graph

_STEP = 1e-6
_LIMIT = 1e-4
"""Of the largest derivative: differences in float64 are good to about 1e-8, but for kinks."""
_BEND = 1e-2
"""By how much slopes to the two sides of a point may differ where a function is smooth."""
_EXAMPLES = 3
_MOST = 1 << 20
"""Elements of an operand above which a rule is judged elsewhere: on smaller ones of its kind."""


def wrong_rule(graph: Graph, values: Values) -> Symptom | None:
    """The first node of a graph with a wrong rule, judged on the values it has there."""
    seen: set[Any] = set()
    for position, node in enumerate(graph.nodes):
        key = (node.op, attrs_key(node.attrs), tuple(v.type for v in node.operands))
        if key in seen or node.regions or node.is_constant or has_effect(node) \
                or not node.operands or any(v.type.size > _MOST for v in node.operands):
            continue
        seen.add(key)
        problem = next(problems(node, [values[v] for v in node.operands]), None)
        if problem is not None:
            return Symptom("rule", problem, position)
    return None


def problems(node: Node, arrays: Sequence[Array]) -> Iterator[str]:
    """What is wrong with the rules of one node on these operands, in words."""
    graph = alone_graph(node)
    rng = np.random.default_rng(0)
    floats = [i for i, v in enumerate(node.operands) if v.dtype.is_float]
    outputs = [i for i, v in enumerate(node.results) if v.dtype.is_float]
    if floats and outputs and lookup(node.op).differentiable \
            and not lookup(node.op).discontinuous and _wide(arrays, floats):
        yield from _derivatives(graph, node, arrays, floats, outputs, rng)
    yield from _batching(graph, node, arrays, rng)


def _wide(arrays: Sequence[Array], floats: Sequence[int]) -> bool:
    """Whether differences can be taken: all is finite."""
    return all(bool(np.isfinite(arrays[i].astype(np.float64)).all()) for i in floats)


def _derivatives(
    graph: Graph, node: Node, arrays: Sequence[Array], floats: list[int], outputs: list[int],
    rng: np.random.Generator,
) -> Iterator[str]:
    try:
        backward = gradient_graph(graph, floats, seeded=outputs, sens=True)
        forward = tangent_graph(graph, floats, outputs)
    except GradientError:
        return
    except Exception as e:
        yield f"the gradient rule of {node.op} fails: {type(e).__name__}: {e}"
        return
    wide = [a.astype(np.float64) if i in floats else a for i, a in enumerate(arrays)]
    seeds = [rng.uniform(0.5, 1.5, node.results[i].shape) for i in outputs]
    run = interpret(backward, [*wide, *seeds], precise=True)
    grads = run[len(node.results) : len(node.results) + len(floats)]
    for which, (i, grad) in enumerate(zip(floats, grads, strict=True)):
        along = np.asarray(rng.uniform(0.5, 1.5, wide[i].shape))
        slopes = _slopes(graph, wide, i, along, outputs)
        if slopes is None:
            continue
        want = float(sum(np.sum(s * d) for s, d in zip(seeds, slopes, strict=True)))
        got = float(np.sum(grad * along))
        scale = float(sum(np.sum(np.abs(s * d)) for s, d in zip(seeds, slopes, strict=True)))
        if not abs(got - want) <= _LIMIT * max(scale, 1e-6):
            yield (f"the gradient rule of {node.op} is wrong for operand {i}: along a direction "
                   f"{got:.8g}, by finite differences {want:.8g}")
        zeros = [along if k == which else np.zeros(wide[j].shape) for k, j in enumerate(floats)]
        moved = interpret(forward, [*wide, *zeros], precise=True)[len(node.results) :]
        for t, d in zip(moved, slopes, strict=False):
            apart = float(np.max(np.abs(t - d), initial=0.0))
            if not apart <= _LIMIT * max(float(np.max(np.abs(d), initial=0.0)), 1e-6):
                yield (f"the tangent rule of {node.op} is wrong for operand {i}: "
                       f"{apart:.4g} from finite differences")


def _slopes(
    graph: Graph, arrays: Sequence[Array], which: int, along: Array, outputs: Sequence[int]
) -> list[Array] | None:
    """Derivatives of the float outputs along a direction; None where they jump or bend: where
    the slopes to the two sides differ (at a tie of a maximum, at 0 of a relu)."""
    h = _STEP * max(float(np.max(np.abs(arrays[which]), initial=0.0)), 1.0)

    def at(distance: float) -> list[Array]:
        moved = list(arrays)
        moved[which] = arrays[which] + distance * along
        out = interpret(graph, moved, precise=True)
        return [out[i] for i in outputs]

    slopes = []
    for behind, here, ahead in zip(at(-h), at(0.0), at(h), strict=True):
        slope = (ahead - behind) / (2 * h)
        scale = max(float(np.max(np.abs(slope), initial=0.0)), 1e-6)
        if not np.max(np.abs(ahead - 2 * here + behind) / h, initial=0.0) <= _BEND * scale:
            return None
        slopes.append(slope)
    return slopes


def _batching(
    graph: Graph, node: Node, arrays: Sequence[Array], rng: np.random.Generator
) -> Iterator[str]:
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
    return bool(np.allclose(a, b, rtol=1e-6, atol=1e-9 * max(scale, 1e-300), equal_nan=True))
