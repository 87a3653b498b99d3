"""What rounding may do to the results of a graph, found by doing it.

A graph is run some times in float64 with each value moved at random by as much as its element type
rounds, and an element is held to the digits that those runs share (Vignes, "A stochastic arithmetic
for reliable scientific computation", 1993). So nothing is asked of what a comparison of nearly
equal numbers or a cancellation makes arbitrary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cellc.verification.values import eps
from cellc_compiler.interpret import evaluate
from cellc_compiler.ir.graph import Graph, Value
from cellc_runtime.dtypes import DType

from ...modes.law import Array

RUNS = 3
ROOM = 64.0
"""How much further than the runs from one another a result may be."""
COMMON = 16.0
"""The same by how far runs are from one another in the middle of all elements, relative to these:
of many elements one has runs that agree by chance."""


def moved(graph: Graph, arrays: Sequence[Array], rng: np.random.Generator) -> list[Array]:
    """The results of a graph in float64, each value of which is moved a little at random."""
    env: dict[Value, Array] = {v: nudged(np.asarray(a), v.dtype, rng)
                               for v, a in zip(graph.inputs, arrays, strict=True)}
    for node in graph.nodes:
        results = evaluate(node, [env[v] for v in node.operands], precise=True)
        env.update((v, nudged(a, v.dtype, rng)) for v, a in zip(node.results, results, strict=True))
    return [env[v] for v in graph.results()]


def nudged(a: Array, dtype: DType, rng: np.random.Generator) -> Array:
    """Floats times numbers near one: constants of an expansion are rounded to their type."""
    if not dtype.is_inexact:
        return a
    wide = a.astype(np.complex128 if dtype.is_complex else np.float64)
    with np.errstate(all="ignore"):
        return wide * (1 + eps(np.dtype(dtype.numpy))
                       * rng.uniform(-1, 1, a.shape))


def _usual(spread: Array, size: Array, known: Array) -> float:
    """How far runs of an element are from one another, relative to it, in the middle of all."""
    some = known & (size > 0)
    return float(np.median(spread[some] / size[some])) if some.any() else 0.0


def within(got: Array, want: Array, runs: Sequence[Array]) -> bool:
    """Whether elements agree as far as some runs agree with the one that was not moved."""
    if want.dtype.kind not in "fc":
        settled = np.logical_and.reduce([r == want for r in runs])
        return bool(np.all((got == want) | ~settled))
    with np.errstate(all="ignore"):
        known = np.isfinite(want) & np.logical_and.reduce([np.isfinite(r) for r in runs])
        spread = np.maximum.reduce([np.abs(r - want) for r in runs])
        size = np.abs(want)
        allowed = ROOM * spread + (COMMON * _usual(spread, size, known) + 2.0**-30) * size
        fine = np.abs(got - want) <= allowed
        endless = ~np.isfinite(want)  # where all runs are so, the other graph is so too
        same = np.isnan(got) | np.isinf(got)
        settled = np.logical_and.reduce([~np.isfinite(r) for r in runs])
    return bool(np.all(np.where(known, fine, ~(endless & settled) | same)))
