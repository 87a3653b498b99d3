"""The collectives of a graph, for the picture of its ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cellc_compiler.ir.graph import Graph, Node
from cellc_compiler.ir.op import lookup

from ..tools.planning import links
from ..tools.planning.links import Cost, Link

_SENT: Mapping[str, Callable[[Link, int, float], Cost]] = {
    "all_reduce": links.all_reduce, "reduce_to": links.all_reduce,
    "reduce_scatter": links.reduce_scatter, "all_gather": links.all_gather,
    "all_to_all": links.all_to_all, "all_to_all_v": links.all_to_all,
    "broadcast_from": links.broadcast,
}
"""The bytes that a rank sends, by the op; the others' rows come from one rank or go to it."""
_LINK = Link(0.0, 1.0)


def collectives(graph: Graph, number: Callable[[Node], int | None]) -> list[list[Any]]:
    """For each collective of a graph its node's number, its op, its ranks and the bytes that one
    rank sends when it runs once. `number`: of a node."""
    return [[number(node), node.op, _ranks(node), round(_bytes_sent(node))]
            for node in graph.walk() if getattr(lookup(node.op), "collective", False)]


def _ranks(node: Node) -> list[int]:
    """The ranks of a group; of a message the other one."""
    return list(node.attrs.get("ranks", (node.attrs.get("rank"),)))


def _bytes_sent(node: Node) -> float:
    nbytes = sum(v.type.size * v.dtype.itemsize for v in node.operands)
    formula, count = _SENT.get(node.op), len(_ranks(node))
    return formula(_LINK, count, nbytes).nbytes if formula is not None else nbytes
