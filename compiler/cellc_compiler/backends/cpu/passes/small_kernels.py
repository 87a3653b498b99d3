"""Convolutions whose weights are stored in few bits read those, not the weights in float32.

`SmallKernels` runs first: it finds the weights while `dequantized` is one node. Where `Layout` then
chooses a blocked convolution, that one's kernel widens the weight as it packs it. `WidenKernels`
leaves the others what they would be without these passes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.dims import is_symbolic
from ....ir.graph import Builder, Graph, Node, Value
from ....ops.blocked import SmallKernel
from ....ops.contraction import Dequantized
from ....passes.base import Pass, rewrite
from ....passes.expand import Expand
from ....passes.pipeline import CLEAN


class SmallKernels(Pass):
    """`conv2d(x, w)` by a w that is a reshaped `dequantized` reads a `small_kernel`."""

    name = "small-kernels"

    def run(self, graph: Graph) -> bool:
        """See the class."""
        if not any(n.op == Dequantized.name for n in graph.walk()):
            return False
        expanded = Expand(Dequantized.name).run(graph)
        return rewrite(graph, _rule, asks=lambda op: op == "conv2d") or expanded


class WidenKernels(Pass):
    """Each `small_kernel` that is left becomes what it is made of."""

    name = "widen-kernels"

    def run(self, graph: Graph) -> bool:
        """See the class."""
        changed = rewrite(graph, _widened, asks=lambda op: op == SmallKernel.name)
        for p in CLEAN if changed else ():
            p.run(graph)
        return changed


def _widened(b: Builder, node: Node) -> Sequence[Value]:
    return [SmallKernel().composition(b, *node.operands, **node.attrs)]


def _rule(b: Builder, node: Node) -> Sequence[Value] | None:
    x, w = node.operands
    found = _source(w)
    if found is None or any(map(is_symbolic, w.shape)) \
            or (w.shape[0], 1) != (found.result.shape[0], found.result.shape[2]):
        return None
    kernel = b.emit(SmallKernel.name, *found.operands, kernel=w.shape, group=found.attrs["group"])
    return [b.emit(node.op, x, kernel, **node.attrs)]


def _source(v: Value) -> Node | None:
    """The `dequantized` whose elements a value has, in their order."""
    node = v.node
    while node is not None and node.op != Dequantized.name:
        node = node.operands[0].node if _keeps_order(node) else None
    return node


def _keeps_order(node: Node) -> bool:
    """Whether a node gives the elements of its first operand in another shape."""
    if node.op == "transpose":
        shape = node.operands[0].shape
        moved = [axis for axis in node.attrs["perm"] if shape[axis] != 1]
        return moved == sorted(moved)
    return node.op == "reshape" or (
        node.op == "slice" and node.result.shape == node.operands[0].shape
        and not any(s != 1 for s in node.attrs["step"] or ()))
