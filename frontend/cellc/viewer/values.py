"""Statistics of a graph's values on given inputs: range, mean, NaN count and histogram of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cellc_compiler import driver
from cellc_compiler.ir.graph import Graph, Node, Value
from cellc_compiler.ir.op import lookup
from cellc_compiler.passes.base import copy_graph

Array = np.ndarray[Any, Any]

BINS = 24
AT_ONCE = 1 << 29  # Bytes of values that are held at a time: a graph of more is run several times


def statistics(
    graph: Graph, arrays: Sequence[Array], callbacks: Mapping[str, Callable[..., None]]
) -> dict[Value, dict[str, Any]]:
    """Return statistics of each outermost value, compiled and run on these arrays."""
    found = {v: describe(np.asarray(a)) for v, a in zip(graph.inputs, arrays, strict=True)}
    positions = [i for i, node in enumerate(graph.nodes) if _shows(node)]
    for part in _parts(graph, positions):
        probe = copy_graph(graph)
        probe.outputs = [r for i in part for r in probe.nodes[i].results]
        probe.updates = []
        out = driver.compile_graph(probe, callbacks=callbacks)(arrays)
        named = [r for i in part for r in graph.nodes[i].results]
        found.update((v, describe(a)) for v, a in zip(named, out, strict=True))
    return found


def _shows(node: Node) -> bool:
    return not node.is_constant and bool(node.results) and not lookup(node.op).effect


def _parts(graph: Graph, positions: Sequence[int]) -> Iterator[list[int]]:
    """The nodes to look at, in parts whose results fit in memory together."""
    part: list[int] = []
    room = AT_ONCE
    for i in positions:
        nbytes = sum(r.type.nbytes for r in graph.nodes[i].results)
        if part and nbytes > room:
            yield part
            part, room = [], AT_ONCE
        part.append(i)
        room -= nbytes
    if part:
        yield part


def describe(a: Array) -> dict[str, Any]:
    """Range, mean, NaN and infinity counts and histogram of an array; a complex one by its size."""
    if not a.size:
        return {"size": 0}
    wide = np.abs(a) if a.dtype.kind == "c" else a
    flat = np.asarray(wide, np.float64).ravel()
    nan = int(np.count_nonzero(np.isnan(flat)))
    finite = flat[np.isfinite(flat)]
    out: dict[str, Any] = {"size": int(a.size), "nan": nan,
                           "inf": int(a.size - nan - finite.size)}
    if finite.size:
        low, high = float(finite.min()), float(finite.max())
        with np.errstate(over="ignore"):
            out |= {"min": low, "max": high, "mean": _as_finite(float(finite.mean())),
                    "std": _as_finite(float(finite.std()))}
        out["zeros"] = int(np.count_nonzero(finite == 0))
        if low < high and np.isfinite(high - low):
            out["bins"] = np.histogram(finite, BINS, (low, high))[0].tolist()
    return out


def _as_finite(x: float) -> float | None:
    """JSON has no infinities."""
    return x if np.isfinite(x) else None
