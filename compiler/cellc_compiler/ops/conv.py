"""Two-dimensional convolution and its two adjoints (NCHW). One-dimensional ones have height 1.

The three ops are one bilinear form seen from each side, so each is differentiated into the
other two, to any order. A transposed convolution is `conv2d_backward_data`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..ir import attributes as attr
from ..ir.graph import Builder, Node, Value
from ..ir.op import FLOATS, Array, Op, Sample
from ..ir.types import TensorType, prod
from ..loops.order import FEW_CHANNELS, image_runs
from . import _batch_axis
from ._members import Grads, case, sharding
from ._views import widened
from .batching import convolved, weighed
from .elementwise import same_dtype

Pair = tuple[int, int]
Attrs = dict[str, Any]

WINDOW = {"stride": attr.pair(1, default=(1, 1)), "pads": attr.pads(),
          "dilation": attr.pair(1, default=(1, 1)), "groups": attr.size(1, least=1)}


def out_size(size: int, reach: int, before: int, after: int, stride: int) -> int:
    """Positions of a window of `reach` elements along an axis."""
    return (size + before + after - reach) // stride + 1


def output_hw(hw: Pair, kernel: Pair, attrs: Attrs) -> Pair:
    """Rows and columns of the output of a convolution over an image of size `hw`."""
    (sy, sx), (dy, dx) = attrs["stride"], attrs["dilation"]
    top, bottom, left, right = attrs["pads"]
    return (out_size(hw[0], dy * (kernel[0] - 1) + 1, top, bottom, sy),
            out_size(hw[1], dx * (kernel[1] - 1) + 1, left, right, sx))


def check_conv(name: str, x: TensorType, w: TensorType, attrs: Attrs) -> TensorType:
    """The output type of `conv2d(x, w)`, everything checked.

    Raises:
        TypeError: dtypes that differ or are not floating point.
        ValueError: shapes or attributes that do not fit together.
    """
    dtype = same_dtype(name, x, w)
    if dtype not in FLOATS:
        raise TypeError(f"{name} takes floating-point tensors, got {x}")
    if x.rank != 4 or w.rank != 4:
        raise ValueError(f"{name} needs images (N, C, H, W) and weights (O, I, kH, kW), "
                         f"got {x} and {w}")
    (n, c, h, width), (oc, ic, kh, kw) = x.dims, w.dims
    groups = attrs["groups"]
    if c != ic * groups or oc % groups or not oc or not c:
        raise ValueError(f"{name} with {groups} groups of images {x} needs weights of "
                         f"{c // groups} input channels and a multiple of {groups} output "
                         f"channels, got {w}")
    oh, ow = output_hw((h, width), (kh, kw), attrs)
    if oh < 1 or ow < 1 or kh < 1 or kw < 1:
        raise ValueError(f"{name}: a kernel of {kh}x{kw} does not fit the padded image {x}")
    return TensorType((n, oc, oh, ow), dtype)


def _windows(hw: Pair, kernel: Pair, attrs: Attrs) -> Iterator[tuple[int, int, Any, Any]]:
    """Reference: tap row and column, with the padded image's rows and columns it meets."""
    oh, ow = output_hw(hw, kernel, attrs)
    (sy, sx), (dy, dx) = attrs["stride"], attrs["dilation"]
    for a in range(kernel[0]):
        for c in range(kernel[1]):
            rows = slice(a * dy, a * dy + (oh - 1) * sy + 1, sy)
            columns = slice(c * dx, c * dx + (ow - 1) * sx + 1, sx)
            yield a, c, rows, columns


def _padded(x: Array, attrs: Attrs) -> Array:
    top, bottom, left, right = attrs["pads"]
    return np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))


def _grouped(x: Array, axis: int, groups: int) -> Array:
    return x.reshape(*x.shape[:axis], groups, x.shape[axis] // groups, *x.shape[axis + 1:])


_SPLITS: dict[str, sharding.Axes] = {
    "input": ((0,), (1, 3), (4,), (5,)), "dy": ((0,), (1, 2), (4,), (5,)),
    "weight": ((1, 2), (3,), (), ())}
"""The factors of the axes of the three sides: 0 the images, 1 the groups, 2 and 3 the output and
input channels of a group, 4 and 5 the rows and columns of images."""


class _Convolution(Op):
    """Base of the three sides of the form."""

    opaque = True
    sums = True
    amp = "low"
    cost = "heavy"
    tolerance = 16.0

    def _sides(self, values: Iterable[Value], result: TensorType) -> dict[str, TensorType]:
        """The types of images, gradients of outputs and weights, one of which is the result."""
        (made,) = _SPLITS.keys() - set(self.operands)
        return {made: result} | {s: v.type for s, v in zip(self.operands, values, strict=True)}

    def _order(self, node: Node, sizes: Sequence[int]) -> Hashable:
        """Return the facts that decide the order of an element's sum, besides the sum's own length,
        where the factors have these sizes (rows and columns those of the outputs)."""
        return None

    def factors(self, node: Node) -> sharding.Factors:
        """Images and channels, and rows and columns of images, of which a part needs more than its
        own where windows overlap. Factors that the result lacks are summed over: parts of them give
        partial results."""
        sides, groups = self._sides(node.operands, node.result.type), node.attrs["groups"]
        outputs, inputs = sides["weight"].dims[:2]
        channels = (sides["input"].dims[0], groups, outputs // groups, inputs)
        sizes = (*channels, *sides["dy"].dims[2:])
        (made,) = _SPLITS.keys() - set(self.operands)
        axes = _SPLITS[made]
        summed = frozenset(range(6)).difference(*axes)

        def order(parts: Mapping[int, int]) -> Hashable:
            return self._order(node, [n // parts.get(f, 1) for f, n in enumerate(sizes)])

        images = (math.gcd(m, n) for m, n in zip(
            sides["input"].dims[2:], sides["dy"].dims[2:], strict=True))
        return sharding.Factors(
            (*channels, *images), tuple(_SPLITS[s] for s in self.operands), (axes,), summed,
            allowed=lambda parts: order(parts) == order({f: parts.get(f, 1) for f in summed}),
            windows=self._windows(sides, node.attrs))

    def _windows(
        self, sides: Mapping[str, TensorType], attrs: Attrs
    ) -> dict[tuple[int, int], sharding.Window]:
        """The rows and columns that outputs read."""
        slides = [_slides(sides, attrs, k) for k in range(2)]
        return {(0, 2 + k): s.covered_window() for k, s in enumerate(slides)}

    def part(self, b: Builder, node: Node, operands: Sequence[Value], part: sharding.Part) -> Value:
        """The same of this rank's groups and of the rows that it needs, which are padded at the
        border of the image alone."""
        sides = self._sides(operands, part.type)
        pads = list(node.attrs["pads"])
        for (_, axis), (begin, end) in part.windows.items():
            pads[2 * axis - 4 : 2 * axis - 2] = self._pads(node, part, axis - 2, begin, end)
        changed = {"groups": sides["input"].dims[1] // sides["weight"].dims[1], "pads": tuple(pads)}
        if "size" in node.attrs:
            changed["size"] = part.type.dims[2:]
        out: Value = b.emit(node.op, *operands, **{**node.attrs, **changed})
        return out

    def _pads(self, node: Node, part: sharding.Part, k: int, begin: int, end: int) -> Pair:
        """Return the padding before and after the rows (`k` = 1: columns) that a part needs: those
        outside of the image."""
        return max(-begin, 0), max(end - node.operands[0].type.dims[2 + k], 0)


def _slides(sides: Mapping[str, TensorType], attrs: Attrs, k: int) -> sharding.Sliding:
    """How a window goes over the rows (`k` = 0) or columns of images."""
    reach = attrs["dilation"][k] * (sides["weight"].dims[2 + k] - 1) + 1
    return sharding.Sliding(sides["input"].dims[2 + k], sides["dy"].dims[2 + k],
                            attrs["stride"][k], attrs["pads"][2 * k], reach)


class Conv2d(_Convolution):
    """Cross-correlation of images (N, C, H, W) with weights (O, C / groups, kH, kW).

    Source: `mindspore.ops.conv2d`. 16-bit floats are summed in float32 and rounded once.

    Attributes:
        stride: rows and columns between windows.
        pads: zeros added at the top, bottom, left and right.
        dilation: rows and columns between taps.
        groups: independent groups of channels.
    """

    name = "conv2d"
    batch_axis = _batch_axis.image
    operands = ("input", "weight")
    attrs = WINDOW
    batch = convolved

    def weight_axes(self, node: Node) -> tuple[int, int]:
        return 1, 0

    def infer(self, x: TensorType, w: TensorType, **attrs: Any) -> TensorType:
        return check_conv("conv2d", x, w, attrs)

    def flops(self, node: Node) -> int:
        return 2 * prod(node.result.shape) * prod(node.operands[1].shape[1:])

    def reference(self, x: Array, w: Array, **attrs: Any) -> Array:
        groups, dtype = attrs["groups"], x.dtype
        x, w = widened(x, w)
        oh, ow = output_hw(x.shape[2:], w.shape[2:], attrs)
        xp, wg = _grouped(_padded(x, attrs), 1, groups), _grouped(w, 0, groups)
        out = np.zeros((x.shape[0], groups, w.shape[0] // groups, oh, ow), x.dtype)
        for a, c, rows, columns in _windows(x.shape[2:], w.shape[2:], attrs):
            out += np.einsum("ngihw,goi->ngohw", xp[..., rows, columns], wg[..., a, c])
        return out.reshape(x.shape[0], w.shape[0], oh, ow).astype(dtype)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x, w = node.operands
        return [b.conv2d_backward_data(dys[0], w, size=x.shape[2:], **node.attrs),
                b.conv2d_backward_weight(x, dys[0], kernel=w.shape[2:], **node.attrs)]

    def samples(self) -> Sequence[Sample]:
        return (case((1, 2, 5, 6), (3, 2, 3, 3)),
                case((2, 4, 6, 5), (6, 2, 3, 2), stride=(2, 1), pads=(1, 0, 2, 1), groups=2),
                case((1, 3, 7, 7), (3, 1, 3, 3), pads=(1, 1, 1, 1), groups=3, stride=(2, 2)),
                case((1, 2, 9, 8), (2, 2, 3, 2), dilation=(2, 3)),
                case((2, 1, 1, 9), (2, 1, 1, 4), stride=(1, 3)), case((1, 1, 1, 1), (1, 1, 1, 1)),
                case((0, 2, 4, 4), (1, 2, 3, 3)))


class Conv2dBackwardData(_Convolution):
    """The adjoint of `conv2d` in its input: dy (N, O, H', W') and weight (O, C / groups, kH, kW)
    to (N, C, H, W). Also the forward of a transposed convolution whose input is `dy`.

    Source: `mindspore.ops.Conv2DTranspose`.

    Attributes:
        size: rows and columns (H, W) of the result.
        stride, pads, dilation, groups: as in `conv2d`.
    """

    name = "conv2d_backward_data"
    operands = ("dy", "weight")
    attrs = {"size": attr.pair(), **WINDOW}
    batch = convolved

    def _windows(
        self, sides: Mapping[str, TensorType], attrs: Attrs
    ) -> dict[tuple[int, int], sharding.Window]:
        """The outputs that read rows and columns."""
        slides = [_slides(sides, attrs, k) for k in range(2)]
        return {(0, 2 + k): s.covering_window() for k, s in enumerate(slides)}

    def _pads(self, node: Node, part: sharding.Part, k: int, begin: int, end: int) -> Pair:
        """Return where the first of some windows begins before a part's rows, and the last one ends
        after them."""
        slides = _slides(self._sides(node.operands, node.result.type), node.attrs, k)
        first, size = part.result[2 + k]
        covered = slides.covered(begin, end)
        return first - covered[0], max(covered[1] - first - size, 0)

    def infer(self, dy: TensorType, w: TensorType, *, size: Pair, **attrs: Any) -> TensorType:
        if dy.rank != 4 or w.rank != 4:
            raise ValueError(f"conv2d_backward_data needs 4 dimensions, got {dy} and {w}")
        x = TensorType((dy.shape[0], w.shape[1] * attrs["groups"], *size), dy.dtype)
        out = check_conv("conv2d_backward_data", x, w, attrs)
        if out != dy:
            raise ValueError(f"conv2d_backward_data to size {tuple(size)} needs {out}, got {dy}")
        return x

    def flops(self, node: Node) -> int:
        dy, w = node.operands
        return 2 * prod(dy.shape) * prod(w.shape[1:])

    def reference(self, dy: Array, w: Array, *, size: Pair, **attrs: Any) -> Array:
        groups, dtype = attrs["groups"], dy.dtype
        dy, w = widened(dy, w)
        top, _, left, _ = attrs["pads"]
        dyg, wg = _grouped(dy, 1, groups), _grouped(w, 0, groups)
        blank = np.zeros((dy.shape[0], w.shape[1] * groups, *size), dy.dtype)
        xp = _grouped(_padded(blank, attrs), 1, groups)
        for a, c, rows, columns in _windows(size, w.shape[2:], attrs):
            xp[..., rows, columns] += np.einsum("ngohw,goi->ngihw", dyg, wg[..., a, c])
        inner = xp[..., top: top + size[0], left: left + size[1]]
        return inner.reshape(blank.shape).astype(dtype)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        dy, w = node.operands
        attrs = {k: v for k, v in node.attrs.items() if k != "size"}
        return [b.conv2d(dys[0], w, **attrs),
                b.conv2d_backward_weight(dys[0], dy, kernel=w.shape[2:], **attrs)]

    def samples(self) -> Sequence[Sample]:
        return (case((1, 3, 3, 4), (3, 2, 3, 3), size=(5, 6)),
                case((2, 6, 3, 7), (6, 2, 3, 2), size=(6, 5), stride=(2, 1), pads=(1, 0, 2, 1),
                     groups=2),
                case((1, 2, 2, 2), (2, 3, 1, 1), size=(4, 5), stride=(3, 3)),
                case((0, 1, 2, 2), (1, 2, 3, 3), size=(4, 4)))


class Conv2dBackwardWeight(_Convolution):
    """The adjoint of `conv2d` in its weights: input (N, C, H, W) and dy (N, O, H', W') to
    (O, C / groups, kH, kW).

    Attributes:
        kernel: rows and columns (kH, kW) of the result.
        stride, pads, dilation, groups: as in `conv2d`.
    """

    name = "conv2d_backward_weight"
    operands = ("input", "dy")
    attrs = {"kernel": attr.pair(1), **WINDOW}
    tolerance = 32.0
    batch = weighed

    def _order(self, node: Node, sizes: Sequence[int]) -> Hashable:
        images, groups, outputs, inputs, rows, columns = sizes
        kernel, pixels = node.attrs["kernel"], rows * columns
        elements = groups * outputs * inputs * prod(kernel)
        return (image_runs(images, elements, images * pixels * elements), outputs <= FEW_CHANNELS)

    def infer(self, x: TensorType, dy: TensorType, *, kernel: Pair, **attrs: Any) -> TensorType:
        groups = attrs["groups"]
        if x.rank != 4 or dy.rank != 4:
            raise ValueError(f"conv2d_backward_weight needs 4 dimensions, got {x} and {dy}")
        w = TensorType((dy.shape[1], x.dims[1] // max(groups, 1), *kernel), dy.dtype)
        out = check_conv("conv2d_backward_weight", x, w, attrs)
        if out != dy:
            raise ValueError(f"conv2d_backward_weight with a kernel of {tuple(kernel)} needs "
                             f"{out}, got {dy}")
        return w

    def flops(self, node: Node) -> int:
        return 2 * prod(node.operands[1].shape) * prod(node.result.shape[1:])

    def reference(self, x: Array, dy: Array, *, kernel: Pair, **attrs: Any) -> Array:
        groups, dtype = attrs["groups"], x.dtype
        x, dy = widened(x, dy)
        xp, dyg = _grouped(_padded(x, attrs), 1, groups), _grouped(dy, 1, groups)
        out = np.zeros((groups, dyg.shape[2], xp.shape[2], *kernel), x.dtype)
        for a, c, rows, columns in _windows(x.shape[2:], kernel, attrs):
            out[..., a, c] = np.einsum("ngihw,ngohw->goi", xp[..., rows, columns], dyg)
        return out.reshape(dy.shape[1], xp.shape[2], *kernel).astype(dtype)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x, dy = node.operands
        attrs = {k: v for k, v in node.attrs.items() if k != "kernel"}
        return [b.conv2d_backward_data(dy, dys[0], size=x.shape[2:], **attrs),
                b.conv2d(x, dys[0], **attrs)]

    def samples(self) -> Sequence[Sample]:
        return (case((1, 2, 5, 6), (1, 3, 3, 4), kernel=(3, 3)),
                case((2, 4, 6, 5), (2, 6, 3, 7), kernel=(3, 2), stride=(2, 1),
                     pads=(1, 0, 2, 1), groups=2),
                case((2, 1, 1, 9), (2, 2, 1, 2), kernel=(1, 4), stride=(1, 3)),
                case((0, 2, 4, 4), (0, 1, 2, 2), kernel=(3, 3)))
