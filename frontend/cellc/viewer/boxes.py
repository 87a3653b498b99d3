"""The graph of a stage as nested boxes: a box per call of a Cell, laid out in layers.

Each box is laid out by itself, its inner boxes as single nodes, so a folded box and an unfolded one
have the same order around them; the page only adds up sizes. The method is that of Sugiyama, Tagawa
& Toda (1981): layers by longest paths, places on the way for edges that pass layers, and the order
in a layer by barycentres.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import networkx as nx

from cellc_runtime.records import dataclass, field

Json = dict[str, Any]

OUTSIDE = -1  # The end of an edge that leaves its box
_SWEEPS = 6
_LONGEST = 24  # Layers that an edge may pass with a place in each; a longer one is drawn straight
_HUB = 12  # Readers in its box from which on the edges of a node are not drawn
_MERGED = 1500
"""Children of a box up to which calls of one Cell that nodes of others part are put together."""


@dataclass(frozen=True, slots=True)
class Item:
    """Something to draw: a node, an input or an output."""

    name: int | str  # a node's number, or a text for an input or output
    path: tuple[str, ...]  # the Cells around it, outermost first
    reads: tuple[int | str, ...]  # the names of the items that it reads


@dataclass(slots=True)
class _Child:
    label: str
    items: list[Item] = field(default_factory=list)
    above: int = 0  # The children before it that it depends on, as bits


def boxes(items: Sequence[Item], key: str = "") -> Json:
    """The outermost box of items in topological order; keys of inner ones begin with `key`."""
    users: dict[int | str, list[int | str]] = {}
    for item in items:
        for name in item.reads:
            users.setdefault(name, []).append(item.name)
    return _box(key, "", items, 0, users)


def _box(
    key: str, label: str, items: Sequence[Item], depth: int,
    users: Mapping[int | str, list[int | str]],
) -> Json:
    label, items, depth = _through(label, items, depth)
    children = _children(items, depth)
    home = {item.name: i for i, child in enumerate(children) for item in child.items}
    counts: dict[str, int] = {}
    out: list[Any] = []
    single: dict[int, str] = {}
    for i, child in enumerate(children):
        if len(child.items) == 1:
            out.append(child.items[0].name)
            if child.label:
                single[i] = ".".join(child.items[0].path[depth:])
            continue
        n = counts[child.label] = counts.get(child.label, -1) + 1
        inner = f"{key}/{child.label}" + (f"#{n}" if n else "")
        out.append(_box(inner, child.label, child.items, depth + 1, users))
    edges = _edges(children, home, users)
    about = {"k": key, "l": label, "n": len(items), "c": out, "t": single}
    return about | _layout(len(children), edges)


def _through(
    label: str, items: Sequence[Item], depth: int
) -> tuple[str, Sequence[Item], int]:
    """Boxes that hold nothing but one box are one with it."""
    while label and items and all(len(i.path) > depth for i in items) \
            and len({i.path[depth] for i in items}) == 1:
        label, depth = f"{label}.{items[0].path[depth]}", depth + 1
    return label, items, depth


def _children(items: Sequence[Item], depth: int) -> list[_Child]:
    """The nodes of a box and its inner boxes, one for each call.

    A Cell that is called twice has two boxes where something else lies between: one box would
    depend on itself. Parts of a call between which passes have put other nodes stay together.
    """
    runs = _runs(items, depth)
    if len(runs) > _MERGED:
        return runs
    children: list[_Child] = []
    last: dict[str, int] = {}
    home: dict[int | str, int] = {}
    for run in runs:
        above = 0
        for item in run.items:
            for name in item.reads:
                if name in home:
                    above |= 1 << home[name]
        at = last.get(run.label) if run.label else None
        if at is None or any(children[i].above >> at & 1 for i in _bits(above) if i != at):
            at = last[run.label] = len(children)
            children.append(_Child(run.label))
        children[at].items += run.items
        home.update((item.name, at) for item in run.items)
        _depends(children, at, above & ~(1 << at))
    return sorted(children, key=lambda c: c.above.bit_count())


def _runs(items: Sequence[Item], depth: int) -> list[_Child]:
    """Nodes of the box itself, and runs of nodes of one inner Cell."""
    runs: list[_Child] = []
    for item in items:
        label = item.path[depth] if len(item.path) > depth else ""
        if not (label and runs and runs[-1].label == label):
            runs.append(_Child(label))
        runs[-1].items.append(item)
    return runs


def _depends(children: Sequence[_Child], at: int, above: int) -> None:
    """Note that child `at` depends on `above`, and so do all that depend on it."""
    for i in _bits(above):
        above |= children[i].above
    more = above & ~children[at].above
    if more:
        children[at].above |= more
        for child in children:
            if child.above >> at & 1:
                child.above |= more


def _bits(mask: int) -> Iterable[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _edges(
    children: Sequence[_Child], home: Mapping[int | str, int],
    users: Mapping[int | str, list[int | str]],
) -> list[tuple[int, int]]:
    """Between children by number; from and to the `OUTSIDE` of the box too."""
    found: dict[tuple[int, int], None] = {}
    for i, child in enumerate(children):
        for item in child.items:
            for name in item.reads:
                source = home.get(name, OUTSIDE)
                if source != i:
                    found[source, i] = None
            if any(user not in home for user in users.get(item.name, ())):
                found[i, OUTSIDE] = None
    return list(found)


# --- layers ---------------------------------------------------------------------------------------


def _layout(count: int, edges: Sequence[tuple[int, int]]) -> Json:
    """The parts of a box that do not hang together, each with its layers, and its edges.

    A node with very many readers, such as a learning rate, stands apart: its edges would hide all
    others, so they are those of something outside. Numbers from `count` on are places where an edge
    passes a layer; an edge is its two ends, then the places that it passes.
    """
    readers = Counter(a for a, b in edges if b != OUTSIDE)
    edges = list(dict.fromkeys(
        (OUTSIDE, b) if readers[a] > _HUB and b != OUTSIDE else (a, b) for a, b in edges))
    graph: Any = nx.DiGraph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from((a, b) for a, b in edges if a != OUTSIDE and b != OUTSIDE)
    parts, drawn = [], [[a, b] for a, b in edges if a == OUTSIDE or b == OUTSIDE]
    spare = count
    components = sorted((sorted(c) for c in nx.weakly_connected_components(graph)),
                        key=lambda c: c[0])
    for component in components:
        if len(component) == 1:
            parts.append([component])
            continue
        layer = _layers(graph, component)
        routes, spare = _routes(graph, component, layer, spare)
        drawn += routes
        parts.append(_order_layers(component, layer, routes))
    return {"p": parts, "e": drawn}


def _layers(graph: Any, component: Sequence[int]) -> dict[int, int]:
    """By the longest path from a source; what reads nothing stands before its first reader."""
    layer: dict[int, int] = {}
    order = list(nx.lexicographical_topological_sort(graph.subgraph(component)))
    for n in order:
        layer[n] = max((layer[p] + 1 for p in graph.predecessors(n)), default=0)
    for n in reversed(order):
        if not graph.in_degree(n) and graph.out_degree(n):
            layer[n] = min(layer[s] for s in graph.successors(n)) - 1
    return layer


def _routes(
    graph: Any, component: Sequence[int], layer: dict[int, int], spare: int
) -> tuple[list[list[int]], int]:
    """The edges, with places in the layers that they pass, which are noted in `layer`."""
    routes = []
    for a in component:
        for b in graph.successors(a):
            passed = range(layer[a] + 1, layer[b])
            route = [a, b]
            if len(passed) <= _LONGEST:
                for at in passed:
                    layer[spare] = at
                    route.append(spare)
                    spare += 1
            routes.append(route)
    return routes, spare


def _order_layers(
    component: Sequence[int], layer: Mapping[int, int], routes: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Layers, each in the order that barycentres give."""
    lowest = min(layer.values())
    rows: list[list[int]] = [[] for _ in range(max(layer.values()) - lowest + 1)]
    for n, at in sorted(layer.items()):
        rows[at - lowest].append(n)
    above: dict[int, list[int]] = {n: [] for n in layer}
    below: dict[int, list[int]] = {n: [] for n in layer}
    for a, b, *passed in routes:
        chain = [a, *passed, b]
        for x, y in pairwise(chain):
            below[x].append(y)
            above[y].append(x)
    if all(len(row) == 1 for row in rows):
        return rows
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        _sweep(rows if down else rows[::-1], above if down else below)
    return rows


def _sweep(rows: Sequence[list[int]], near: Mapping[int, list[int]]) -> None:
    """Order each row by where its neighbours in the row before stand."""
    at: dict[int, float] = {}
    for row in rows:
        where: Callable[[int], float] = _barycentre(row, near, at)
        row.sort(key=where)
        width = max(len(row) - 1, 1)
        at.update((n, i / width if len(row) > 1 else 0.5) for i, n in enumerate(row))


def _barycentre(
    row: Sequence[int], near: Mapping[int, list[int]], at: Mapping[int, float]
) -> Callable[[int], float]:
    own = {n: i / max(len(row) - 1, 1) for i, n in enumerate(row)}

    def mean(n: int) -> float:
        placed = [at[m] for m in near[n] if m in at]
        return sum(placed) / len(placed) if placed else own[n]

    return {n: mean(n) for n in row}.__getitem__
