"""The reference interpreter: a graph run node by node in numpy.

It shares no code with the kernels, so it is the independent judge of both modes. With
`precise=True` real floats are held in float64 (and complex64 in complex128) between nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cellc_runtime.dtypes import Array

from .ir.graph import Builder, Graph, Node, Value
from .ir.op import Op, lookup
from .ir.types import TensorType

Observer = Callable[[Node, tuple[Array, ...]], None]
RunRegion = Callable[[Graph, Sequence[Array], str], Sequence[Array]]
"""`run(region, arrays, what)`: a region's outputs; `what` says which run of it this is, with `{}`
for the place of the node."""

_WIDE = {"float16": np.float64, "bfloat16": np.float64, "float32": np.float64,
         "complex64": np.complex128}


def run(
    graph: Graph,
    arrays: Sequence[Array],
    *,
    precise: bool = False,
    observe: Observer | None = None,
) -> list[Array]:
    """Outputs, then updated values, of a graph on inputs in the order of `graph.inputs`."""
    env: dict[Value, Array] = {}
    for v, a in zip(graph.inputs, arrays, strict=True):
        env[v] = _held(a, v.type, precise)
    for node in graph.nodes:
        results = evaluate(node, [env[v] for v in node.operands], precise=precise)
        env.update(zip(node.results, results, strict=True))
        if observe is not None:
            observe(node, results)
    return [env[v] for v in graph.results()]


def evaluate(node: Node, arrays: Sequence[Array], *, precise: bool = False) -> tuple[Array, ...]:
    """The results of one node on arrays."""
    given = _operands(node, arrays, precise)
    results = CONTROL[node.op](
        node, given, lambda region, arrays, _: run(region, arrays, precise=precise)
    ) if node.op in CONTROL else _plain(node, given, precise)
    return tuple(
        _held(np.asarray(a), r.type, precise) for a, r in zip(results, node.results, strict=True)
    )


def _operands(node: Node, arrays: Sequence[Array], precise: bool) -> list[Array]:
    if precise and node.op not in CONTROL and lookup(node.op).discontinuous:
        return list(arrays)
    return [_held(a, v.type, precise) for v, a in zip(node.operands, arrays, strict=True)]


def summed(node: Node, arrays: Sequence[Array]) -> Array | None:
    """How much a node added up for each element of its result (see `Op.as_sum`), in float64."""
    if node.op in CONTROL:
        return None
    op, wide = lookup(node.op), _operands(node, arrays, True)
    attrs = op.as_sum(node.attrs)
    if attrs is None:
        with np.errstate(all="ignore"):
            return op.summed(*wide, **node.attrs)
    sum_ = Node(node.op, node.operands, dict(attrs))
    sum_.results = node.results
    sizes = [np.abs(a) if v.dtype.is_inexact else a
             for v, a in zip(node.operands, wide, strict=True)]
    return evaluate(sum_, sizes, precise=True)[0]


def _plain(node: Node, arrays: list[Array], precise: bool) -> Sequence[Array]:
    op = lookup(node.op)
    with np.errstate(all="ignore"):
        if type(op).reference is not _NO_REFERENCE:
            out = op.reference(*arrays, **node.attrs)
            return out if isinstance(out, tuple) else (out,)
    return run(expand_node(node), arrays, precise=precise)


def expand_node(node: Node) -> Graph:
    """A composition's node as a graph of its operands."""
    op = lookup(node.op)
    graph = Graph(node.op)
    inputs = [graph.add_input(v.type, f"in{i}") for i, v in enumerate(node.operands)]
    assert op.expand is not None, f"{node.op} has neither a reference nor an expansion"
    out = op.expand(Builder(graph, span=node.span), *inputs, **node.attrs)
    graph.outputs = list(out) if isinstance(out, tuple) else [out]
    return graph


def _held(a: Array, ty: TensorType, precise: bool) -> Array:
    dtype: Any = ty.dtype.numpy
    if precise:
        dtype = _WIDE.get(ty.dtype.name, dtype)
    with np.errstate(all="ignore"):
        return np.asarray(a, dtype=dtype).reshape(ty.dims)


def _cond(node: Node, arrays: Sequence[Array], run: RunRegion) -> Sequence[Array]:
    taken = bool(arrays[0])
    region = node.regions[0 if taken else 1]
    return run(region, arrays[1:], f"the branch of {{}} taken for {taken}")


def _while(node: Node, arrays: Sequence[Array], run: RunRegion) -> Sequence[Array]:
    test, body = node.regions
    n = node.attrs["carried"]
    carried, captures = arrays[:n], arrays[n:]
    trip = 0
    while bool(run(test, [*carried, *captures], f"test {trip} of the loop at {{}}")[0]):
        carried = run(body, [*carried, *captures], f"trip {trip} of the loop at {{}}")
        trip += 1
    return carried


def trips_of(node: Node, arrays: Sequence[Array]) -> int:
    """How many trips a `scan` makes on these operands."""
    n, k, length = (int(node.attrs[a]) for a in ("carried", "sequences", "length"))
    return max(min(int(arrays[n + k]), length), 0) if node.attrs["limited"] else length


def _scan(node: Node, arrays: Sequence[Array], run: RunRegion) -> Sequence[Array]:
    n, k = node.attrs["carried"], node.attrs["sequences"]
    carried, xs, captures = arrays[:n], arrays[n : n + k], arrays[n + k :]
    trips = trips_of(node, arrays)
    captures = captures[1:] if node.attrs["limited"] else captures
    rows: dict[int, Sequence[Array]] = {}
    for i in range(trips - 1, -1, -1) if node.attrs["reverse"] else range(trips):
        step = np.asarray(i, np.int64)
        out = run(node.regions[0], [*carried, *(np.asarray(x[i]) for x in xs), step, *captures],
                  f"trip {i} of the loop at {{}}")
        carried, rows[i] = out[:n], out[n:]
    stacked = []
    for j, result in enumerate(node.results[n:]):
        dtype = rows[0][j].dtype if rows else result.dtype.numpy
        whole = np.zeros(result.type.dims, dtype)
        for i, row in rows.items():
            whole[i] = row[j]
        stacked.append(whole)
    return [*carried, *stacked]


def _inlined(node: Node, arrays: Sequence[Array], run: RunRegion) -> Sequence[Array]:
    return run(node.regions[0], arrays, f"{node.op} at {{}}")


CONTROL: Mapping[str, Callable[[Node, Sequence[Array], RunRegion], Sequence[Array]]] = {
    "cond": _cond, "while": _while, "scan": _scan, "custom_grad": _inlined, "recompute": _inlined,
}
"""The results of nodes with regions, by runs of these on the node's operands. Rows of trips that a
`scan` does not make are zeros."""
_NO_REFERENCE = Op.reference
