"""Convolutions and their gradients: products (`images.py`), by tensor cores or by chains."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....ir.graph import Node
from ....loops import order
from ....lower.plan import KernelPlan, Role, operand, result, scratch
from ..code import KernelCode, aligned
from ..kernels.chains import PixelSums, pixel_sums
from ..kernels.operands import Digit, Operand, digits, fits
from ..kernels.parts import sum_of_parts
from ..kernels.plans import Tiled, step
from ..kernels.product import Epilogue, Product
from .images import (
    Geometry,
    backward_data,
    backward_weight,
    forward,
    forward_reading,
    geometry,
    phases,
)
from .implicit import Implicit, data_implicit, fitting, forward_implicit, takes, weight_implicit
from .table import Fusable, lowers, tiles
from .tensor_cores import ByTensorCores


def _takes(node: Node) -> bool:
    """Whether tiles compute it."""
    values = (*node.operands, node.result)
    return node.result.dtype.is_float and all(v.type.size for v in values) and fits(
        v.type.size for v in values)


def _by_tensor_cores(make: Callable[[Geometry, DType, Role, Role], Implicit | ByTensorCores],
                     g: Geometry, dtype: DType, channels: int, target: Target) -> Fusable | None:
    """A product by tensor cores, where they take the operands and fit."""
    if not takes(dtype, channels, target.fast):
        return None
    plan = make(g, dtype, operand(0), operand(1))
    return plan if fitting(plan) else None


@tiles("conv2d")
def conv2d_tiles(node: Node, target: Target) -> Fusable | None:
    """Channels and pixels, by tensor cores or by chains."""
    if not _takes(node):
        return None
    x, w = node.operands
    g = geometry(node, x, w, node.result)
    return _by_tensor_cores(forward_implicit, g, x.dtype, g.per, target) or Tiled(
        forward(g, x.dtype), operand(1), operand(0))


@tiles("conv2d_backward_data")
def conv2d_backward_data_tiles(node: Node, target: Target) -> Fusable | None:
    """The adjoint in the image: a kernel for each phase."""
    if not _takes(node):
        return None
    dy, w = node.operands
    g = geometry(node, node.result, w, dy)
    return _by_tensor_cores(data_implicit, g, dy.dtype, g.ic, target) or Phased(tuple(
        Tiled(backward_data(g, dy.dtype, rows, columns), operand(1), operand(0))
        for rows in phases(g, 0) for columns in phases(g, 1)))


@tiles("conv2d_backward_weight")
def conv2d_backward_weight_tiles(node: Node, target: Target) -> Fusable | None:
    """The adjoint in the weights; runs of images side by side. None for few channels."""
    if not _takes(node):
        return None
    x, dy = node.operands
    g = geometry(node, x, node.result, dy)
    if g.per <= order.FEW_CHANNELS:
        return None
    return _by_tensor_cores(weight_implicit, g, x.dtype, g.per, target) or Tiled(
        backward_weight(g, x.dtype), operand(1), operand(0), split=True)


@dataclass(frozen=True, slots=True)
class Phased:
    """Products of which each stores a part of the result."""

    parts: tuple[Tiled, ...]

    def plan(
        self, target: Target, out: Sequence[Role], epilogue: Epilogue | None = None
    ) -> KernelPlan:
        """See `Fusable`."""
        return KernelPlan(tuple(
            s for part in self.parts for s in part.plan(target, out, epilogue).steps))


lowers("conv2d")(lambda node, target: _stored(conv2d_tiles(node, target), target))
lowers("conv2d_backward_data")(
    lambda node, target: _stored(conv2d_backward_data_tiles(node, target), target))


@lowers("conv2d_backward_weight")
def conv2d_backward_weight(node: Node, target: Target) -> KernelPlan | None:
    """As it is in tiles; groups of lanes for few channels."""
    plan = _stored(conv2d_backward_weight_tiles(node, target), target)
    if plan is not None or not _takes(node):
        return plan
    x, dy = node.operands
    g = geometry(node, x, node.result, dy)
    return _by_pixels(g, backward_weight(g, x.dtype), target)


def _stored(tiled: Fusable | None, target: Target) -> KernelPlan | None:
    """The result in memory."""
    return None if tiled is None else tiled.plan(target, [result(0)])


def _by_pixels(g: Geometry, p: Product, target: Target) -> KernelPlan:
    """A sum is a group of lanes that goes along the pixels of a run of images."""
    how = forward_reading(g)
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
