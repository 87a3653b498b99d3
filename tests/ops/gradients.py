"""Gradient rules against finite differences, on the reference interpreter in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_compiler.autodiff.reverse import gradient_graph
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.op import Op, Sample, Spec
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes

Array = np.ndarray[Any, Any]


def operands_of(sample: Sample, dtype: dtypes.DType, seed: int = 0) -> list[Array]:
    """Arrays for a sample: drawn for specs, exact ones as they are."""
    rng = np.random.default_rng(seed)
    out: list[Array] = []
    for spec in sample.operands:
        if not isinstance(spec, Spec):
            out.append(np.asarray(spec))
            continue
        kind = spec.dtype or dtype
        a = rng.uniform(spec.low, spec.high, spec.shape)
        if kind.is_complex:
            a = a + 1j * rng.uniform(spec.low, spec.high, spec.shape)
        if kind.kind == "uint":
            a = np.abs(a)
        out.append(np.asarray(a > 0 if kind.kind == "bool" else a, dtype=kind.numpy))
    return out


def graph_of(op: Op, arrays: list[Array], attrs: Any) -> Graph:
    """A graph of one node."""
    graph = Graph(op.name)
    values = [graph.add_input(TensorType(a.shape, dtypes.from_numpy(a.dtype)), f"x{i}")
              for i, a in enumerate(arrays)]
    graph.outputs = list(Builder(graph).node(op.name, values, attrs).results)
    return graph


def directional(graph: Graph, arrays: list[Array], weights: list[Array], wanted: list[int],
                moves: list[Array], eps: float = 1e-5) -> float:
    """The change of sum(weights * outputs) along `moves`, by central differences."""
    def total(sign: int) -> float:
        at = list(arrays)
        for i, move in zip(wanted, moves, strict=True):
            at[i] = arrays[i] + sign * eps * move
        outs = run(graph, at, precise=True)
        return float(sum((w * o).sum() for w, o in zip(weights, outs, strict=True)))

    return (total(1) - total(-1)) / (2 * eps)


def check_gradient(graph: Graph, arrays: list[Array], *, order: int = 2) -> None:
    """First derivatives (and second, for `order` 2) along a random direction."""
    rng = np.random.default_rng(1)
    wanted = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]
    seeded = [i for i, v in enumerate(graph.outputs) if v.dtype.is_float]
    if not wanted or not seeded:
        return
    back = gradient_graph(graph, wanted, seeded=seeded, sens=True)
    count = len(graph.outputs)
    seeds = [rng.standard_normal(graph.outputs[i].shape) for i in seeded]
    weights = [np.zeros(v.shape) for v in graph.outputs]
    for i, seed in zip(seeded, seeds, strict=True):
        weights[i] = seed
    moves: list[Array] = [np.asarray(rng.standard_normal(arrays[i].shape)) for i in wanted]
    results = run(back, [*arrays, *seeds], precise=True)[count:]
    got = float(sum((g * m).sum() for g, m in zip(results, moves, strict=True)))
    want = directional(graph, arrays, weights, wanted, moves)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    if order > 1:
        second = Graph(back.name, back.inputs, back.nodes, back.outputs[count:])
        check_gradient(second, [*arrays, *seeds], order=1)
