"""How nodes with regions run: each gives its results by runs of its regions on its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cellc_compiler.ir.graph import Graph, Node

Array = np.ndarray[Any, Any]
Run = Callable[[Graph, Sequence[Array], str], list[Array]]
"""`run(region, arrays, what)`: a region's outputs; `what` says which run of it this is."""

MOST_TRIPS = 1_000_000
"""Trips after which a loop is taken not to end."""


class Endless(Exception):
    """A loop that does not end on the operands it was given."""


def _cond(node: Node, arrays: Sequence[Array], run: Run) -> list[Array]:
    taken = bool(arrays[0])
    region = node.regions[0 if taken else 1]
    return run(region, arrays[1:], f"the branch of {node.span} taken for {taken}")


def _while(node: Node, arrays: Sequence[Array], run: Run) -> list[Array]:
    test, body = node.regions
    n = node.attrs["carried"]
    carried, captures = list(arrays[:n]), arrays[n:]
    trip = 0
    while bool(run(test, [*carried, *captures], f"test {trip} of the loop at {node.span}")[0]):
        carried = run(body, [*carried, *captures], f"trip {trip} of the loop at {node.span}")
        trip += 1
        if trip == MOST_TRIPS:
            raise Endless
    return carried


def _scan(node: Node, arrays: Sequence[Array], run: Run) -> list[Array]:
    """Stacked results have only the rows of the trips that were made."""
    n, k, trips = (node.attrs[a] for a in ("carried", "sequences", "length"))
    carried, rows, captures = list(arrays[:n]), arrays[n : n + k], arrays[n + k :]
    if node.attrs["limited"]:
        trips, captures = min(int(captures[0]), trips), captures[1:]
    made: dict[int, list[Array]] = {}
    for i in range(trips - 1, -1, -1) if node.attrs["reverse"] else range(trips):
        step = np.asarray(i, np.int64)
        out = run(node.regions[0], [*carried, *(np.asarray(x[i]) for x in rows), step, *captures],
                  f"trip {i} of the loop at {node.span}")
        carried, made[i] = out[:n], out[n:]
    stacked = []
    for j, result in enumerate(node.results[n:]):
        whole = np.zeros((max(trips, 0), *result.shape[1:]), result.dtype.numpy)
        for i, row in made.items():
            whole[i] = row[j]
        stacked.append(whole)
    return [*carried, *stacked]


def _inlined(node: Node, arrays: Sequence[Array], run: Run) -> list[Array]:
    return run(node.regions[0], arrays, f"{node.op} at {node.span}")


WALKS: dict[str, Callable[[Node, Sequence[Array], Run], list[Array]]] = {
    "cond": _cond, "while": _while, "scan": _scan, "custom_grad": _inlined,
    "recompute": _inlined,
}
