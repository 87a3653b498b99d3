"""Convolutions of 3 x 3 as Winograd's, where their weights are frozen and it pays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cellc_runtime.dtypes import float32

from ....ir.graph import Builder, Graph, Node, Value
from ....ops.winograd import G, Tiles
from ....passes.base import Pass, rewrite
from ....passes.fast import frozen_values

_TRANSFORM = 20.0
"""Cycles of a transformation per tile and channel; a product of a tile is 36 / 32 cycles per
pair of channels, one of the definition 144 / 32 (16 lanes, two units)."""
_MARGIN = 1.3
_TILES = 12  # Products of fewer columns do not fill the tiles of a matrix product


class Winograd(Pass):
    """`conv2d(x, w)` becomes `winograd_output(U @ winograd_input(x))`, U computed ahead.

    Source: Lavin & Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016. The
    error of F(4x4, 3x3) in float32 is some 1e-5 of the largest result.
    """

    name = "winograd"

    def run(self, graph: Graph) -> bool:
        """See the class."""
        frozen = frozen_values(graph)

        def rule(b: Builder, node: Node) -> Sequence[Value] | None:
            if node.op != "conv2d" or node.operands[1] not in frozen or not _suits(node) \
                    or _is_widened(node.operands[1]):
                return None
            return [_rewritten(b, node)]

        return rewrite(graph, rule)


def _is_widened(w: Value) -> bool:
    """Whether a weight follows from parameters of fewer bytes: then U would be computed in each
    call, or kept though the weight was to be small."""
    found, todo, seen = 0, [w], {w}
    while todo:
        v = todo.pop()
        found += v.type.nbytes if v.node is None else 0
        more = [o for o in (v.node.operands if v.node is not None else ()) if o not in seen]
        seen.update(more)
        todo += more
    return found < w.type.nbytes


def _suits(node: Node) -> bool:
    x, w = node.operands
    attrs = node.attrs
    if x.dtype is not float32 or w.shape[2:] != (3, 3) or attrs["groups"] != 1:
        return False
    if attrs["stride"] != (1, 1) or attrs["dilation"] != (1, 1) or node.result.type.size == 0:
        return False
    n, oc, oh, ow = node.result.shape
    ic = x.shape[1]
    tiles = Tiles(n, oh, ow)
    direct = n * oh * ow * 9 / 32 * oc * ic
    products = tiles.count * 36 / 32 * oc * ic
    # Where a row of tiles does not fill vectors of 16: lanes computed over lanes used.
    waste = -(-tiles.columns // 16) * 16 / tiles.columns
    transforms = tiles.count * (ic + oc) * _TRANSFORM * waste
    return tiles.count >= _TILES and _MARGIN * (products + transforms) < direct


def _rewritten(b: Builder, node: Node) -> Value:
    x, w = node.operands
    n, oc, oh, ow = node.result.shape
    ic = x.shape[1]
    both = np.einsum("ip,jq->pqij", G, G).reshape(9, 36)
    u = b.matmul(b.reshape(w, shape=(oc * ic, 9)), b.literal(both, float32))
    u = b.reshape(b.transpose(u, perm=(1, 0)), shape=(36, oc, ic))
    products = b.matmul(u, b.winograd_input(x, pads=node.attrs["pads"]))
    return b.winograd_output(products, n=n, h=oh, w=ow)
