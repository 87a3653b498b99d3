"""Convolutions and their gradients: products whose operands are read where they lie.

The weights are `[group][channel][in channel, tap]`; an image is read by its digits, so nothing is
unfolded. The gradient of the image is one product for each residue of the stride, which has taps of
its own.
"""

from __future__ import annotations

from math import gcd

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....ir.graph import Node, Value
from ....ir.types import prod
from ....loops import order
from ....lower.plan import KernelPlan, Step, operand, result, scratch
from ..code import KernelCode, aligned
from ..kernels.chains import PixelSums, pixel_sums
from ..kernels.operands import Digit, Digits, Operand, Output, Window, digits, fits
from ..kernels.parts import sum_of_parts
from ..kernels.plans import Tiled, step
from ..kernels.product import Product
from .table import lowers, tiles


@dataclass(frozen=True, slots=True)
class Geometry:
    """The sizes of a convolution, forward: of the image, the weights (`per` channels of a group out
    of `ic`) and the result."""

    n: int
    channels: int
    image: tuple[int, int]
    per: int
    ic: int
    taps: tuple[int, int]
    out: tuple[int, int]
    groups: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: tuple[int, int, int, int]

    @property
    def pixels(self) -> int:
        """Of a channel of the image."""
        return prod(self.image)

    @property
    def steps(self) -> int:
        """Weights of an output channel."""
        return self.ic * prod(self.taps)

    @property
    def places(self) -> int:
        """Pixels of a channel of the result."""
        return prod(self.out)

    @property
    def oc(self) -> int:
        """Channels of the result."""
        return self.per * self.groups


def geometry(node: Node, x: Value, w: Value, y: Value) -> Geometry:
    """Of a node, by the values that are its image, its weights and its result."""
    (n, c, h, width), (oc, ic, kh, kw), a = x.shape, w.shape, node.attrs
    return Geometry(n, c, (h, width), oc // a["groups"], ic, (kh, kw), (y.shape[2], y.shape[3]),
                    a["groups"], a["stride"], a["dilation"], a["pads"])


def _sums(dtype: DType) -> DType:
    return dtypes.float64 if dtype is dtypes.float64 else dtypes.float32


def _takes(node: Node) -> bool:
    """Whether tiles compute it."""
    values = (*node.operands, node.result)
    return node.result.dtype.is_float and all(v.type.size for v in values) and fits(
        v.type.size for v in values)


def _plane(
    size: tuple[int, int], grid: tuple[int, int], step: tuple[int, int], whole: bool
) -> tuple[Digit, Digit]:
    """The digits of a grid on planes of a size; without rows and columns where all is inside."""
    y, x = step
    return (Digit(grid[0], y * size[1], 0 if whole else y, 0),
            Digit(grid[1], x, 0, 0 if whole else x))


@dataclass(frozen=True, slots=True)
class Reading:
    """How an image is read: pixel (`step` apart) and tap (`taps_step` apart) add up.

    Attributes:
        size: of a plane.
        grid, taps: numbers of both.
        first: row and column of the first tap of the first pixel.
    """

    size: tuple[int, int]
    grid: tuple[int, int]
    step: tuple[int, int]
    taps: tuple[int, int]
    taps_step: tuple[int, int]
    first: tuple[int, int]

    @property
    def start(self) -> int:
        """Offset of the first tap of the first pixel."""
        return self.first[0] * self.size[1] + self.first[1]

    @property
    def window(self) -> Window | None:
        """What may be read; None if everything that is read is inside."""
        for d in (0, 1):
            ends = [self.first[d] + i * self.step[d] + t * self.taps_step[d]
                    for i in (0, self.grid[d] - 1) for t in (0, self.taps[d] - 1)]
            if min(ends) < 0 or max(ends) >= self.size[d]:
                return Window(*self.size, *self.first)
        return None

    def pixel_digits(self) -> tuple[Digit, Digit]:
        """Digits of the grid."""
        return _plane(self.size, self.grid, self.step, self.window is None)

    def tap_digits(self) -> tuple[Digit, Digit]:
        """Digits of the taps."""
        return _plane(self.size, self.taps, self.taps_step, self.window is None)


def _forward_reading(g: Geometry) -> Reading:
    return Reading(g.image, g.out, g.stride, g.taps, g.dilation, (-g.pads[0], -g.pads[2]))


def _channels(g: Geometry, count: int, plane: int) -> Digits:
    """The digit of a group, of so many channels."""
    return digits(Digit(g.groups, count * plane))


def forward(g: Geometry, dtype: DType) -> Product:
    """Channels of a group, by pixels of all images."""
    how = _forward_reading(g)
    a = Operand(dtype, _channels(g, g.per, g.steps), digits(Digit(g.per, g.steps)),
                digits(Digit(g.steps, 1)))
    b = Operand(dtype, _channels(g, g.ic, g.pixels),
                digits(Digit(g.n, g.channels * g.pixels), *how.pixel_digits()),
                digits(Digit(g.ic, g.pixels), *how.tap_digits()), how.start, how.window)
    out = Output(dtype, _channels(g, g.per, g.places), digits(Digit(g.per, g.places)),
                 digits(Digit(g.n, g.oc * g.places), Digit(g.places, 1)))
    return Product(g.per, g.n * g.places, g.steps, g.groups, a, b, out, _sums(dtype))


@dataclass(frozen=True, slots=True)
class Phase:
    """Along one axis: the pixels of an image that are `first` modulo the stride, and their taps.

    Attributes:
        first, count: pixels.
        tap, taps, step: the first of its taps, how many there are, and from one to the next.
        place, back: the place of the result that the first tap of the first pixel was taken for,
            and how far the next tap goes back.
    """

    first: int
    count: int
    tap: int
    taps: int
    step: int
    place: int
    back: int


def phases(g: Geometry, axis: int) -> list[Phase]:
    """Of an axis (0: rows, 1: columns) of the gradient of the image."""
    stride, dilation, pad = g.stride[axis], g.dilation[axis], g.pads[2 * axis]
    step = stride // gcd(stride, dilation)
    out = []
    for first in range(min(stride, g.image[axis])):
        own = [a for a in range(g.taps[axis]) if (first + pad - a * dilation) % stride == 0]
        tap = own[0] if own else 0
        out.append(Phase(first, -(-(g.image[axis] - first) // stride), tap, len(own), step,
                         (first + pad - tap * dilation) // stride, step * dilation // stride))
    return out


def backward_data(g: Geometry, dtype: DType, rows: Phase, columns: Phase) -> Product:
    """Channels of a group, by the pixels of a phase of all images."""
    taps, (_, kw), plane = prod(g.taps), g.taps, g.pixels
    how = Reading(g.out, (rows.count, columns.count), (1, 1), (rows.taps, columns.taps),
                  (-rows.back, -columns.back), (rows.place, columns.place))
    steps = g.per * rows.taps * columns.taps
    a = Operand(dtype, _channels(g, g.per, g.steps), digits(Digit(g.ic, taps)),
                digits(Digit(g.per, g.steps), Digit(rows.taps, rows.step * kw),
                       Digit(columns.taps, columns.step)), rows.tap * kw + columns.tap)
    b = Operand(dtype, _channels(g, g.per, g.places),
                digits(Digit(g.n, g.oc * g.places), *how.pixel_digits()),
                digits(Digit(g.per, g.places), *how.tap_digits()), how.start, how.window)
    out = Output(dtype, _channels(g, g.ic, plane), digits(Digit(g.ic, plane)),
                 digits(Digit(g.n, g.channels * plane),
                        Digit(rows.count, g.stride[0] * g.image[1]),
                        Digit(columns.count, g.stride[1])), rows.first * g.image[1] + columns.first)
    return Product(g.ic, g.n * rows.count * columns.count, steps, g.groups, a, b, out, _sums(dtype))


def backward_weight(g: Geometry, dtype: DType) -> Product:
    """Channels of a group, by in channel and tap; k is the pixels of all images."""
    how = _forward_reading(g)
    a = Operand(dtype, _channels(g, g.per, g.places), digits(Digit(g.per, g.places)),
                digits(Digit(g.n, g.oc * g.places), Digit(g.places, 1)))
    b = Operand(dtype, _channels(g, g.ic, g.pixels),
                digits(Digit(g.ic, g.pixels), *how.tap_digits()),
                digits(Digit(g.n, g.channels * g.pixels), *how.pixel_digits()),
                how.start, how.window)
    out = Output(dtype, _channels(g, g.per, g.steps), digits(Digit(g.per, g.steps)),
                 digits(Digit(g.steps, 1)))
    k, elements = g.n * g.places, g.oc * g.steps
    runs = order.image_runs(g.n, elements, k * elements)
    segment = -(-g.n // runs) * g.places if runs > 1 else 0
    return Product(g.per, g.steps, k, g.groups, a, b, out, _sums(dtype), segment, zero=False)


@lowers("conv2d")
def conv2d(node: Node, target: Target) -> KernelPlan | None:
    """Tiles of channels and pixels."""
    tiled = conv2d_tiles(node, target)
    return None if tiled is None else tiled.plan(target, [result(0)])


@tiles("conv2d")
def conv2d_tiles(node: Node, target: Target) -> Tiled | None:
    """The product in tiles."""
    if not _takes(node):
        return None
    x, w = node.operands
    return Tiled(forward(geometry(node, x, w, node.result), x.dtype), operand(1), operand(0))


@lowers("conv2d_backward_data")
def conv2d_backward_data(node: Node, target: Target) -> KernelPlan | None:
    """The adjoint in the image: a kernel for each phase."""
    if not _takes(node):
        return None
    dy, w = node.operands
    g = geometry(node, node.result, w, dy)
    steps: list[Step] = []
    for rows in phases(g, 0):
        for columns in phases(g, 1):
            product = backward_data(g, dy.dtype, rows, columns)
            steps += Tiled(product, operand(1), operand(0)).plan(target, [result(0)]).steps
    return KernelPlan(tuple(steps))


@lowers("conv2d_backward_weight")
def conv2d_backward_weight(node: Node, target: Target) -> KernelPlan | None:
    """The adjoint in the weights; runs of images side by side."""
    if not _takes(node):
        return None
    x, dy = node.operands
    g = geometry(node, x, node.result, dy)
    product = backward_weight(g, x.dtype)
    if g.per <= order.FEW_CHANNELS:
        return _by_pixels(g, product, target)
    return Tiled(product, operand(1), operand(0), split=True).plan(target, [result(0)])


def _by_pixels(g: Geometry, p: Product, target: Target) -> KernelPlan:
    """A sum is a group of lanes that goes along the pixels of a run of images."""
    how = _forward_reading(g)
    # Unlike those of a product, digits of images and of places are not joined.
    a = Operand(p.a.dtype, digits(Digit(g.oc, g.places)), (),
                (Digit(g.n, g.oc * g.places), *digits(Digit(g.places, 1))))
    b = Operand(p.b.dtype, (Digit(g.groups, g.ic * g.pixels), Digit(g.per, 0)),
                p.b.free, (Digit(g.n, g.channels * g.pixels), *digits(*how.pixel_digits())),
                how.start, how.window)
    sums = PixelSums(g.oc, g.steps, g.n, g.places, p.segments, p.segment // g.places or g.n, a, b,
                     p.out.dtype, p.sums)
    code, held = pixel_sums(sums, target), scratch("sums")
    if p.segments == 1:
        return KernelPlan((step(code, (operand(1), operand(0), result(0))),))

    def total(vectors: bool) -> KernelCode:
        return sum_of_parts(p, p.segments, target, vectors)

    return KernelPlan((step(code, (operand(1), operand(0), held)),
                       step(aligned(total(True), total(False)), (held, result(0)))),
                      {held: p.segments * sums.elements * p.sums.itemsize})
