"""Images whose channels are blocked, `[N, ceil(C / B), H, W, B]`: what the layout pass writes.

B channels of a pixel lie together, so that a vector holds them. Channels that fill the last block
up are never read. An image may have a border around its H x W pixels: the ops take an `origin`,
the row and column where they start to read, so padding is nothing but a border of zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from ..ir import attributes as attr
from ..ir.graph import Builder, Node, Value
from ..ir.op import Array, Op, Sample, Spec, lookup
from ..ir.types import TensorType, prod
from ._members import case
from ._views import widened
from .contraction import Dequantized, small_sample
from .conv import Conv2d, Pair
from .elementwise import check_dtype, same_dtype
from .pool import AVERAGE, SLIDING

BLOCK_DTYPES = (dtypes.float32, dtypes.float64)
_GIVEN = (*BLOCK_DTYPES, dtypes.float16, dtypes.bfloat16)
"""Element types of what becomes a blocked image, and of weights."""


_BLOCKS = (1, 2, 4, 8, 16, 32, 64)  # How many channels a block may have


def held(dtype: DType) -> DType:
    """The element type of blocked images that hold values of a type: 16-bit floats are widened."""
    return dtypes.float32 if dtype in (dtypes.float16, dtypes.bfloat16) else dtype


def blocks(channels: int, block: int) -> int:
    """Return the number of blocks that hold these channels."""
    return -(-channels // block)


def groups_fit(channels: int, outputs: int, groups: int, block: int) -> bool:
    """Whether a convolution of blocked images supports this number of groups: the channels of each
    fill blocks, or blocks hold whole groups with as many channels in as out."""
    c, oc = channels // groups, outputs // groups
    return groups == 1 or (outputs % groups == 0 and (
        (c % block == 0 == oc % block) or (c == oc and block % c == 0)))


def to_blocks(x: Array, block: int) -> Array:
    """Reference: NCHW to blocks, missing channels as zeros."""
    n, c, h, w = x.shape
    x = np.pad(x, ((0, 0), (0, -c % block), (0, 0), (0, 0)))
    return x.reshape(n, blocks(c, block), block, h, w).transpose(0, 1, 3, 4, 2)


def from_blocks(x: Array, channels: int) -> Array:
    """Reference: blocks to NCHW."""
    n, cb, h, w, b = x.shape
    return x.transpose(0, 1, 4, 2, 3).reshape(n, cb * b, h, w)[:, :channels]


def _check_image(op: Op, x: TensorType, rank: int) -> None:
    check_dtype(op, x)
    if x.rank != rank:
        raise ValueError(f"{op.name} needs {rank} dimensions, got {x}")
    if rank == 5:
        _check_block(op, x.dims[4])


def _check_block(op: Op, block: int) -> None:
    """A block is a vector, or some of them."""
    if block not in _BLOCKS:
        raise ValueError(f"{op.name}: a block has one of {_BLOCKS} channels, got {block}")


def _check_inside(name: str, x: TensorType, origin: Pair, reach: Pair) -> None:
    """The rows and columns from `origin` on must lie in the image."""
    if min(origin) < 0 or any(o + r > d for o, r, d in
                              zip(origin, reach, x.dims[2:4], strict=True)):
        raise ValueError(f"{name} reads {reach} pixels from {origin} of {x}")


class _Internal(Op):
    """Base: written by a pass, after differentiation."""

    dtypes: ClassVar[tuple[DType, ...]] = BLOCK_DTYPES
    differentiable = False


class ToBlocked(_Internal):
    """NCHW to blocks of `block` channels; missing channels are zeros, 16-bit floats are widened.

    Attributes:
        block: channels of a block.
        last: channels are the last axis (NHWC).
    """

    name = "to_blocked"
    opaque = True
    attrs = {"block": attr.size(least=1), "last": attr.flag(False)}
    dtypes = _GIVEN

    def infer(self, x: TensorType, *, block: int, last: bool) -> TensorType:
        _check_image(self, x, 4)
        _check_block(self, block)
        n, c, h, w = (x.dims[i] for i in ((0, 3, 1, 2) if last else range(4)))
        return x.with_shape((n, blocks(c, block), h, w, block)).with_dtype(held(x.dtype))

    def reference(self, x: Array, *, block: int, last: bool) -> Array:
        x = widened(x)[0]
        return to_blocks(x.transpose(0, 3, 1, 2) if last else x, block)

    def samples(self) -> Sequence[Sample]:
        return (case((2, 3, 7, 5), block=4, last=True, grad=False),
                case((1, 5, 18, 32), block=16, last=True, grad=False),
                case((2, 5, 3, 7), block=4, grad=False), case((1, 16, 9, 5), block=16, grad=False),
                case((1, 20, 6, 6), block=8, grad=False))


class FromBlocked(_Internal):
    """Blocks to NCHW.

    Attributes:
        channels: how many.
        origin, size: the first row and column, and how many of each.
        dtype: element type of the result, which the image's holds (see `held`); None for that.
        last: channels become the last axis (NHWC).
    """

    name = "from_blocked"
    opaque = True
    attrs = {"channels": attr.size(), "size": attr.pair(),
             "origin": attr.tuple_of(attr.whole(), 2, (0, 0)),
             "dtype": attr.optional(attr.element_type()), "last": attr.flag(False)}

    def infer(self, x: TensorType, *, channels: int, size: Pair, origin: Pair,
              dtype: DType | None, last: bool) -> TensorType:
        _check_image(self, x, 5)
        n, cb, _, _, b = x.dims
        if blocks(channels, b) != cb:
            raise ValueError(f"from_blocked cannot take {channels} channels from {x}")
        _check_inside(self.name, x, origin, size)
        dtype = dtype or x.dtype
        if held(dtype) is not x.dtype:
            raise TypeError(f"{dtype} is not held by {x}")
        shape = (n, *size, channels) if last else (n, channels, *size)
        return x.with_shape(shape).with_dtype(dtype)

    def reference(self, x: Array, *, channels: int, size: Pair, origin: Pair,
                  dtype: DType | None, last: bool) -> Array:
        (y, z), (h, w) = origin, size
        out = from_blocks(x[:, :, y: y + h, z: z + w], channels)
        out = out.transpose(0, 2, 3, 1) if last else out
        return out.astype(dtype.numpy) if dtype is not None else out

    def samples(self) -> Sequence[Sample]:
        wide = Spec((1, 2, 5, 6, 8), dtype=dtypes.float32)
        return (case((2, 2, 5, 8, 4), channels=7, size=(3, 6), origin=(1, 1), last=True,
                     grad=False),
                case((2, 2, 3, 7, 4), channels=5, size=(3, 7), grad=False),
                case((1, 1, 9, 5, 16), channels=16, size=(7, 3), origin=(1, 1), grad=False),
                case((1, 3, 6, 6, 8), channels=20, size=(6, 6), grad=False),
                *(case(wide, channels=11, size=(5, 4), dtype=d, grad=False)
                  for d in (dtypes.float16, dtypes.bfloat16)))


class Conv2dBlocked(_Internal):
    """`conv2d` of a blocked image, to a blocked image. Operands: x `[N, C / b, H, W, b]` (b = 1 is
    NCHW) and weights `(O, C / groups, kH, kW)`, of a type that the image's holds (see `held`). See
    `groups_fit` for groups.

    Attributes:
        block: channels of a block of the result.
        size: rows and columns of the result.
        origin: row and column of x where the first window starts.
        stride, dilation: as in `conv2d`.
        groups: independent groups of channels.
        spread: rows and columns that a pixel becomes in the result, whose channels are the weights'
            divided by their product (in order of rows, then columns). Without groups.
    """

    name = "conv2d_blocked"
    opaque = True
    operands: ClassVar[tuple[str, ...]] = ("input", "weight")
    attrs = {"block": attr.size(least=1), "size": attr.pair(),
             "origin": attr.tuple_of(attr.whole(), 2, (0, 0)),
             "stride": attr.pair(1, default=(1, 1)),
             "dilation": attr.pair(1, default=(1, 1)), "groups": attr.size(1, least=1),
             "spread": attr.pair(1, default=(1, 1))}
    cost = "heavy"
    tolerance = 16.0
    sums = True

    def infer(self, x: TensorType, w: TensorType, *, block: int, size: Pair, origin: Pair,
              stride: Pair, dilation: Pair, groups: int, spread: Pair) -> TensorType:
        same_dtype(self.name, x, w.with_dtype(held(w.dtype)))
        _check_image(self, x, 5)
        _check_block(self, block)
        _check_image(self, w.with_dtype(held(w.dtype)), 4)
        (oc, ic, *kernel), (n, cb, _, _, b) = w.dims, x.dims
        if min(oc, ic, *kernel) < 1:
            raise ValueError(f"{self.name} needs weights of at least one element, got {w}")
        if blocks(ic * groups, b) != cb or (groups > 1 and (
                b != block or not groups_fit(ic * groups, oc, groups, block))):
            raise ValueError(f"conv2d_blocked of {x} cannot take weights {w}")
        places = spread[0] * spread[1]
        if (places > 1 and (groups > 1 or oc % (places * block))):
            raise ValueError(f"conv2d_blocked cannot spread {oc} channels over {spread} places")
        reach = tuple((o - 1) * s + (k - 1) * d + 1 for o, s, k, d in
                      zip(size, stride, kernel, dilation, strict=True))
        _check_inside(self.name, x, origin, (reach[0], reach[1]))
        return x.with_shape((n, blocks(oc, block) // places, size[0] * spread[0],
                             size[1] * spread[1], block))

    def flops(self, node: Node) -> int:
        return 2 * prod(node.results[0].shape) * prod(node.operands[1].shape[1:])

    def reference(self, x: Array, w: Array, *, block: int, size: Pair, origin: Pair,
                  stride: Pair, dilation: Pair, groups: int, spread: Pair) -> Array:
        (oc, ic, *kernel) = w.shape
        # The padding of the last block is computed too, with weights of zero.
        w = widened(w)[0] if w.dtype.itemsize == 2 else w
        w = np.pad(w, ((0, -oc % block), *((0, 0),) * 3))
        groups = groups * len(w) // oc if groups > 1 else 1
        channels = ic * groups
        ends = [y + (o - 1) * s + (k - 1) * d + 1 for y, o, s, k, d in
                zip(origin, size, stride, kernel, dilation, strict=True)]
        image = from_blocks(x[:, :, origin[0]: ends[0], origin[1]: ends[1]], channels)
        out = Conv2d().reference(image, w, stride=stride, pads=(0, 0, 0, 0), dilation=dilation,
                                 groups=groups)
        n, parts, (h, w_) = len(out), out.shape[1] // (spread[0] * spread[1]), out.shape[2:]
        out = out.reshape(n, *spread, parts, h, w_).transpose(0, 3, 4, 1, 5, 2)
        return to_blocks(out.reshape(n, parts, h * spread[0], w_ * spread[1]), block)

    def samples(self) -> Sequence[Sample]:
        def pair(x: tuple[int, ...], w: tuple[int, ...], **attrs: Any) -> Sample:
            return Sample((Spec(x), Spec(w)), attrs, grad=False)

        wide = Spec((1, 2, 5, 6, 8), dtype=dtypes.float32)
        return (*(case(wide, Spec((11, 13, 2, 3), dtype=d), block=8, size=(4, 4), grad=False)
                  for d in (dtypes.float16, dtypes.bfloat16)),
                pair((1, 1, 6, 7, 16), (20, 16, 3, 3), block=16, size=(4, 5)),
                pair((2, 3, 7, 8, 1), (5, 3, 3, 2), block=8, size=(3, 3), stride=(2, 2),
                     origin=(0, 1), dilation=(1, 2)),
                pair((1, 2, 5, 5, 4), (6, 7, 1, 1), block=4, size=(5, 5)),
                pair((1, 2, 6, 6, 8), (13, 1, 3, 3), block=8, size=(4, 4), groups=13),
                pair((1, 2, 6, 5, 8), (12, 4, 3, 3), block=8, size=(4, 3), groups=3),
                pair((1, 4, 5, 5, 4), (32, 8, 1, 2), block=4, size=(5, 4), groups=2),
                pair((2, 2, 5, 4, 8), (48, 13, 1, 1), block=8, size=(5, 4), spread=(3, 2)),
                pair((1, 1, 6, 6, 16), (128, 16, 1, 1), block=16, size=(4, 5), origin=(1, 1),
                     spread=(2, 2)))


class SmallKernel(_Internal):
    """The weight of a convolution in float32 that is stored in few bits: `dequantized` with a row
    for each output channel, in the shape of the weight. A pass writes it where a convolution reads
    such a weight, so that the kernel may read the few bits.

    Attributes:
        kernel: the shape `(O, C / groups, kH, kW)`.
        group: as in `dequantized`.
    """

    name = "small_kernel"
    opaque = True
    operands = ("weight", "*scales")
    attrs = {"kernel": attr.shape(), "group": attr.size(0)}
    dtypes = Dequantized.dtypes

    def infer(self, w: TensorType, *scales: TensorType, kernel: tuple[int, ...], group: int
              ) -> TensorType:
        wide = Dequantized().infer(w, *scales, steps=prod(kernel[1:]), group=group)
        if wide.shape != (kernel[0], prod(kernel[1:]), 1):
            raise ValueError(f"{self.name} of shape {kernel} cannot take a weight of {w}")
        return TensorType(kernel, wide.dtype)

    def composition(self, b: Builder, w: Value, *scales: Value, kernel: tuple[int, ...],
                    group: int) -> Value:
        wide = b.dequantized(w, *scales, steps=prod(kernel[1:]), group=group)
        out: Value = b.reshape(wide, shape=kernel)
        return out

    def reference(self, w: Array, *scales: Array, kernel: tuple[int, ...], group: int) -> Array:
        wide = Dequantized().reference(w, *scales, steps=prod(kernel[1:]), group=group)
        return wide.reshape(kernel)

    def samples(self) -> Sequence[Sample]:
        return tuple(
            case(*small_sample(kind, kernel[0], prod(kernel[1:]), 1, group, zeros, dtypes.float16),
                 grad=False, kernel=kernel, group=group)
            for kind, kernel, group, zeros in (
                (dtypes.int8, (5, 7, 2, 2), 0, None), (dtypes.uint8, (6, 5, 3, 3), 32, dtypes.int8),
                (dtypes.bfloat16, (3, 4, 1, 1), 0, None)))


class SmallConv2dBlocked(Conv2dBlocked):
    """`conv2d_blocked` of float32 by a weight that is stored in few bits, as `small_kernel` has it.

    Attributes:
        kernel, group: as in `small_kernel`; the others as in `conv2d_blocked`.
    """

    name = "small_conv2d_blocked"
    operands = ("input", "weight", "*scales")
    attrs = {**Conv2dBlocked.attrs, **SmallKernel.attrs}
    dtypes = (dtypes.float32,)

    def infer(self, x: TensorType, w: TensorType, *scales: TensorType, kernel: tuple[int, ...],
              group: int, **attrs: Any) -> TensorType:
        wide = SmallKernel().infer(w, *scales, kernel=kernel, group=group)
        return super().infer(x, wide, **attrs)

    def flops(self, node: Node) -> int:
        return 2 * prod(node.results[0].shape) * prod(node.attrs["kernel"][1:])

    def reference(self, x: Array, w: Array, *scales: Array, kernel: tuple[int, ...], group: int,
                  **attrs: Any) -> Array:
        wide = SmallKernel().reference(w, *scales, kernel=kernel, group=group)
        return super().reference(x, wide.astype(x.dtype), **attrs)

    def samples(self) -> Sequence[Sample]:
        def made(x: tuple[int, ...], kernel: tuple[int, ...], kind: DType, group: int = 0,
                 zeros: DType | None = None, scales: DType = dtypes.float16, **attrs: Any
                 ) -> Sample:
            weight = small_sample(kind, kernel[0], prod(kernel[1:]), 1, group, zeros, scales)
            return case(Spec(x, dtype=dtypes.float32), *weight, grad=False, kernel=kernel,
                        group=group, **attrs)

        i8, u8, f32 = dtypes.int8, dtypes.uint8, dtypes.float32
        return (made((1, 2, 5, 6, 8), (11, 13, 2, 3), i8, block=8, size=(4, 4)),
                made((1, 1, 6, 7, 16), (20, 15, 3, 3), u8, 64, block=16, size=(4, 5)),
                made((2, 3, 7, 8, 1), (5, 3, 3, 3), u8, 32, i8, f32, block=8, size=(3, 3),
                     stride=(2, 2), origin=(0, 1)),
                made((1, 2, 5, 5, 4), (6, 7, 1, 1), u8, block=4, size=(5, 5)),
                made((1, 9, 3, 3, 4), (8, 36, 1, 1), i8, 32, dtypes.uint8, block=4, size=(3, 3)),
                made((1, 2, 6, 6, 8), (13, 1, 3, 3), i8, 0, f32, block=8, size=(4, 4), groups=13),
                made((1, 4, 5, 5, 4), (32, 8, 1, 2), dtypes.bfloat16, block=4, size=(5, 4),
                     groups=2),
                made((1, 1, 4, 4, 16), (33, 10, 3, 3), dtypes.float16, block=16, size=(2, 2)))


class _PoolBlocked(_Internal):
    """Base of pools: each block is pooled as an image of as many channels is.

    Attributes:
        inner: top, left, rows and columns of the image inside its border, which is not read.
    """

    opaque = True
    nchw: ClassVar[str]
    """The name of the op on NCHW."""

    def infer(self, x: TensorType, *, inner: tuple[int, int, int, int], **attrs: Any) -> TensorType:
        _check_image(self, x, 5)
        top, left, h, w = inner
        _check_inside(self.name, x, (top, left), (h, w))
        n, cb, _, _, b = x.dims
        op = lookup(self.nchw)
        image = op.infer(x.with_shape((n, cb * b, h, w)), **op.complete(attrs))
        assert isinstance(image, TensorType)
        return x.with_shape((n, cb, *image.dims[2:], b))

    def reference(self, x: Array, *, inner: tuple[int, int, int, int], **attrs: Any) -> Array:
        top, left, h, w = inner
        n, cb, _, _, b = x.shape
        image = x[:, :, top: top + h, left: left + w].transpose(0, 1, 4, 2, 3)
        op = lookup(self.nchw)
        out = op.reference(image.reshape(n, cb * b, h, w), **op.complete(attrs))
        return to_blocks(out, b)


class MaxPool2dBlocked(_PoolBlocked):
    """`max_pool2d` of a blocked image.

    Attributes:
        inner: top, left, rows and columns of the image inside its border, which is not read.
        kernel, stride, dilation, pads, ceil_mode: as in `max_pool2d`.
    """

    name = "max_pool2d_blocked"
    nchw = "max_pool2d"
    attrs = {"inner": attr.tuple_of(attr.whole(), 4), **SLIDING,
             "dilation": attr.pair(1, attr.MOST_COUNTED, default=(1, 1))}

    def samples(self) -> Sequence[Sample]:
        return (case((1, 2, 6, 7, 16), inner=(0, 0, 6, 7), kernel=(2, 2), stride=(2, 2),
                     grad=False),
                case((2, 1, 9, 11, 4), inner=(1, 2, 7, 8), kernel=(3, 3), stride=(2, 2),
                     pads=(1, 1, 1, 1), grad=False),
                case((1, 1, 9, 9, 8), inner=(0, 0, 9, 9), kernel=(2, 3), dilation=(3, 2),
                     pads=(0, 1, 1, 1), ceil_mode=True, grad=False))


class AvgPool2dBlocked(_PoolBlocked):
    """`avg_pool2d` of a blocked image, of several windows.

    Attributes:
        inner: top, left, rows and columns of the image inside its border, which is not read.
        kernel, stride, pads, ceil_mode, count_include_pad, divisor: as in `avg_pool2d`.
    """

    name = "avg_pool2d_blocked"
    nchw = "avg_pool2d"
    attrs = {"inner": attr.tuple_of(attr.whole(), 4), **AVERAGE}
    tolerance = 8.0

    def samples(self) -> Sequence[Sample]:
        return (case((1, 2, 6, 7, 16), inner=(0, 0, 6, 7), kernel=(2, 2), stride=(2, 2),
                     grad=False),
                case((2, 1, 9, 11, 4), inner=(1, 2, 7, 8), kernel=(3, 3), stride=(2, 2),
                     pads=(1, 1, 1, 1), count_include_pad=False, grad=False),
                case((1, 1, 9, 9, 8), inner=(0, 0, 9, 9), kernel=(3, 3), stride=(2, 2),
                     pads=(0, 1, 1, 1), ceil_mode=True, grad=False),
                case((1, 1, 5, 6, 8), inner=(0, 0, 5, 6), kernel=(3, 2), divisor=5, grad=False))


class PixelSumBlocked(_Internal):
    """The sum over rows and columns of a blocked image, in the order of a sum over those of NCHW.

    Attributes:
        origin, size: the first row and column, and how many of each.
    """

    name = "pixel_sum_blocked"
    opaque = True
    attrs = {"size": attr.pair(), "origin": attr.tuple_of(attr.whole(), 2, (0, 0))}
    tolerance = 16.0
    sums = True

    def infer(self, x: TensorType, *, size: Pair, origin: Pair) -> TensorType:
        _check_image(self, x, 5)
        _check_inside(self.name, x, origin, size)
        return x.with_shape((*x.dims[:2], 1, 1, x.dims[4]))

    def reference(self, x: Array, *, size: Pair, origin: Pair) -> Array:
        (y, z), (h, w) = origin, size
        return x[:, :, y: y + h, z: z + w].sum((2, 3), keepdims=True)

    def samples(self) -> Sequence[Sample]:
        return (case((1, 2, 3, 5, 8), size=(3, 5), grad=False),
                case((2, 1, 9, 11, 16), size=(7, 7), origin=(1, 2), grad=False),
                case((1, 1, 14, 14, 16), size=(14, 14), grad=False))


class RegroupBlocked(_Internal):
    """Some channels of several blocked images, one image after the other, in blocks again.

    Attributes:
        channels: how many each image has.
        origins: row and column where each image starts, one image after the other.
        size: rows and columns.
        start, stop: the first channel of all, and the one after the last.
    """

    name = "regroup_blocked"
    opaque = True
    operands = ("input", "*others")
    attrs = {"channels": attr.wholes(), "origins": attr.wholes(), "size": attr.pair(),
             "start": attr.size(), "stop": attr.size()}

    def infer(self, *xs: TensorType, channels: tuple[int, ...], origins: tuple[int, ...],
              size: Pair, start: int, stop: int) -> TensorType:
        if not xs or len(channels) != len(xs) or len(origins) != 2 * len(xs):
            raise ValueError(f"{self.name} of {len(xs)} images needs as many channels and origins")
        for i, (x, c) in enumerate(zip(xs, channels, strict=True)):
            _check_image(self, x, 5)
            same_dtype(self.name, x, xs[0])
            n, cb, _, _, b = x.dims
            if (n, b) != (xs[0].dims[0], xs[0].dims[4]) or blocks(c, b) != cb:
                raise ValueError(f"{self.name} cannot take {c} channels from {x}")
            _check_inside(self.name, x, (origins[2 * i], origins[2 * i + 1]), size)
        if not start < stop <= sum(channels):
            raise ValueError(f"{self.name} of {sum(channels)} channels has none from {start} to "
                             f"{stop}")
        n, b = xs[0].dims[0], xs[0].dims[4]
        return xs[0].with_shape((n, blocks(stop - start, b), *size, b))

    def reference(self, *xs: Array, channels: tuple[int, ...], origins: tuple[int, ...],
                  size: Pair, start: int, stop: int) -> Array:
        parts = [from_blocks(x[:, :, y: y + size[0], z: z + size[1]], c) for x, c, y, z in
                 zip(xs, channels, origins[::2], origins[1::2], strict=True)]
        return to_blocks(np.concatenate(parts, 1)[:, start:stop], xs[0].shape[4])

    def samples(self) -> Sequence[Sample]:
        def images(*shapes: tuple[int, ...], **attrs: Any) -> Sample:
            return Sample(tuple(Spec(s) for s in shapes), attrs, grad=False)

        return (images((1, 2, 3, 5, 8), (1, 1, 5, 6, 8), channels=(13, 5), size=(3, 5),
                       origins=(0, 0, 1, 1), start=0, stop=18),
                images((2, 3, 4, 4, 4), channels=(11,), size=(4, 3), origins=(0, 1), start=3,
                       stop=10),
                images((1, 1, 2, 3, 16), (1, 1, 2, 3, 16), (1, 1, 2, 3, 16), channels=(3, 9, 14),
                       size=(2, 3), origins=(0,) * 6, start=0, stop=26))
