"""Convolutions with steps whose padding follows from an open size read a padded copy of the image.

Which rows and columns a step takes together follows from the padding before the first, so their
kernels need it as a number (`pad_mode="same"` makes it 0 or 1 for steps of 2, say). An element of
the result is the same chain, zeros of the padding included. Blocked images are padded anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ir.dims import is_symbolic
from ....ir.graph import Builder, Graph, Node, Value
from ....passes.base import Pass, rewrite

_CONVOLUTIONS = frozenset({"conv2d", "conv2d_backward_data", "conv2d_backward_weight"})


class OpenPadding(Pass):
    """The padding of an open size becomes a `pad`, or a part of a larger gradient."""

    name = "open-padding"

    def run(self, graph: Graph) -> bool:
        """See the class."""
        return rewrite(graph, _rule, asks=_CONVOLUTIONS.__contains__)


def padded(b: Builder, x: Value, before: tuple[int, int], after: tuple[int, int]) -> Value:
    """The images with zeros before and after their rows and columns."""
    return b.pad(x, low=(0, 0, *before), high=(0, 0, *after))


def _rule(b: Builder, node: Node) -> Sequence[Value] | None:
    top, bottom, left, right = node.attrs["pads"]
    if node.attrs["stride"] == (1, 1) or not (is_symbolic(top) or is_symbolic(left)):
        return None
    attrs: dict[str, Any] = {**node.attrs, "pads": (0, 0, 0, 0)}
    first, second = node.operands
    if node.op != "conv2d_backward_data":
        wide = padded(b, first, (top, left), (bottom, right))
        return [b.emit(node.op, wide, second, **attrs)]
    n, c, h, w = node.result.shape
    attrs["size"] = h + top + bottom, w + left + right
    return [b.slice(b.emit(node.op, first, second, **attrs),
                    start=(0, 0, top, left), stop=(n, c, top + h, left + w))]
