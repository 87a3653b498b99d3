"""Host callbacks of compiled graphs: the printing of tensors at run time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cellc_compiler.driver import callback_name
from cellc_compiler.ir.graph import Graph, Node

from ..common.tensor import Tensor

Array = np.ndarray[Any, Any]


def host_callbacks(graph: Graph) -> dict[str, Callable[..., None]]:
    """The functions behind the callbacks of a graph, by the names the compiler gives them."""
    nodes = [n for n in graph.walk() if n.op == "print"]
    return {callback_name(i): _callback(n) for i, n in enumerate(nodes)}


def _callback(node: Node) -> Callable[..., None]:
    parts = node.attrs["parts"]

    def show(*arrays: Array) -> None:
        # The arrays are views of memory that is used again, and what is printed may be kept.
        print_parts(parts, [Tensor._from_array(np.array(a)) for a in arrays])

    return show


def print_parts(parts: Sequence[str | None], tensors: Sequence[Tensor]) -> None:
    """Write strings (separators and the line's end among them) and, for each None, a tensor."""
    it = iter(tensors)
    sys.stdout.write("".join(str(next(it)) if p is None else p for p in parts))
    sys.stdout.flush()
