"""The geometry of convolutions, and the products that they and their gradients are.

The weights are `[group][channel][in channel, tap]`; an image is read by its digits, so nothing is
unfolded. The gradient of the image is one product for each residue of the stride, which has taps of
its own.
"""

from __future__ import annotations

from math import gcd

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass

from ....ir.graph import Node, Value
from ....ir.types import prod
from ....loops import order
from ..kernels.operands import Digit, Digits, Operand, Output, Window, digits
from ..kernels.product import Product


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


def sums_of(dtype: DType) -> DType:
    """Return the type of sums."""
    return dtypes.float64 if dtype is dtypes.float64 else dtypes.float32


def _plane(
    size: tuple[int, int], grid: tuple[int, int], step: tuple[int, int], whole: bool
) -> tuple[Digit, Digit]:
    """The digits of a grid on planes of a size; without rows and columns where all is inside."""
    y, x = step
    return (Digit(grid[0], y * size[1], 0 if whole else y, 0),
            Digit(grid[1], x, 0, 0 if whole else x))


@dataclass(frozen=True, slots=True)
class Reading:
    """How an image is read: pixel (`step` apart) and tap (`taps_step` apart) add up."""

    size: tuple[int, int]  # of a plane
    # grid, taps: numbers of both
    grid: tuple[int, int]
    step: tuple[int, int]
    taps: tuple[int, int]
    taps_step: tuple[int, int]
    first: tuple[int, int]  # row and column of the first tap of the first pixel

    @property
    def start(self) -> int:
        """Offset of the first tap of the first pixel."""
        return self.first[0] * self.size[1] + self.first[1]

    @property
    def window(self) -> Window | None:
        """Return the readable window; None if all reads are inside."""
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


def forward_reading(g: Geometry) -> Reading:
    """How the image is read."""
    return Reading(g.image, g.out, g.stride, g.taps, g.dilation, (-g.pads[0], -g.pads[2]))


def channels_digit(g: Geometry, count: int, plane: int = 1) -> Digits:
    """Return the digit of a group of `count` channels."""
    return digits(Digit(g.groups, count * plane))


def forward(g: Geometry, dtype: DType) -> Product:
    """Channels of a group, by pixels of all images."""
    how = forward_reading(g)
    a = Operand(dtype, channels_digit(g, g.per, g.steps), digits(Digit(g.per, g.steps)),
                digits(Digit(g.steps, 1)))
    b = Operand(dtype, channels_digit(g, g.ic, g.pixels),
                digits(Digit(g.n, g.channels * g.pixels), *how.pixel_digits()),
                digits(Digit(g.ic, g.pixels), *how.tap_digits()), how.start, how.window)
    out = Output(dtype, channels_digit(g, g.per, g.places), digits(Digit(g.per, g.places)),
                 digits(Digit(g.n, g.oc * g.places), Digit(g.places, 1)))
    return Product(g.per, g.n * g.places, g.steps, g.groups, a, b, out, sums_of(dtype))


@dataclass(frozen=True, slots=True)
class Phase:
    """Along one axis: the pixels of an image that are `first` modulo the stride, and their taps."""

    # first, count: pixels
    first: int
    count: int
    # tap, taps, step: the first of its taps, how many there are, and from one to the next
    tap: int
    taps: int
    step: int
    # place, back: the place of the result that the first tap of the first pixel was taken for, and
    # how far the next tap goes back
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


def data_reading(g: Geometry, rows: Phase, columns: Phase) -> Reading:
    """How the cotangent is read for a phase."""
    return Reading(g.out, (rows.count, columns.count), (1, 1), (rows.taps, columns.taps),
                   (-rows.back, -columns.back), (rows.place, columns.place))


def backward_data(g: Geometry, dtype: DType, rows: Phase, columns: Phase) -> Product:
    """Channels of a group, by the pixels of a phase of all images."""
    taps, (_, kw), plane = prod(g.taps), g.taps, g.pixels
    how = data_reading(g, rows, columns)
    steps = g.per * rows.taps * columns.taps
    a = Operand(dtype, channels_digit(g, g.per, g.steps), digits(Digit(g.ic, taps)),
                digits(Digit(g.per, g.steps), Digit(rows.taps, rows.step * kw),
                       Digit(columns.taps, columns.step)), rows.tap * kw + columns.tap)
    b = Operand(dtype, channels_digit(g, g.per, g.places),
                digits(Digit(g.n, g.oc * g.places), *how.pixel_digits()),
                digits(Digit(g.per, g.places), *how.tap_digits()), how.start, how.window)
    out = Output(dtype, channels_digit(g, g.ic, plane), digits(Digit(g.ic, plane)),
                 digits(Digit(g.n, g.channels * plane),
                        Digit(rows.count, g.stride[0] * g.image[1]),
                        Digit(columns.count, g.stride[1])), rows.first * g.image[1] + columns.first)
    return Product(g.ic, g.n * rows.count * columns.count, steps, g.groups, a, b, out,
                   sums_of(dtype))


def backward_weight(g: Geometry, dtype: DType) -> Product:
    """Channels of a group, by in channel and tap; k is the pixels of all images."""
    how = forward_reading(g)
    a = Operand(dtype, channels_digit(g, g.per, g.places), digits(Digit(g.per, g.places)),
                digits(Digit(g.n, g.oc * g.places), Digit(g.places, 1)))
    b = Operand(dtype, channels_digit(g, g.ic, g.pixels),
                digits(Digit(g.ic, g.pixels), *how.tap_digits()),
                digits(Digit(g.n, g.channels * g.pixels), *how.pixel_digits()),
                how.start, how.window)
    out = Output(dtype, channels_digit(g, g.per, g.steps), digits(Digit(g.per, g.steps)),
                 digits(Digit(g.steps, 1)))
    k, elements = g.n * g.places, g.oc * g.steps
    runs = order.image_runs(g.n, elements, k * elements)
    segment = -(-g.n // runs) * g.places if runs > 1 else 0
    return Product(g.per, g.steps, k, g.groups, a, b, out, sums_of(dtype), segment, zero=False)
