"""Convolutions by tensor cores.

A pointwise convolution is a product of matrices where its pixels are whole vectors. Else both
operands are copied vector by vector (`kernels/implicit.py`): as they lie, where they lie so, or
repacked with channels innermost. Then k goes by taps, and channels of each; that of a weight's
gradient by images and pixels. Which it is follows from shapes alone, so both modes have one order.
"""

from __future__ import annotations

from collections.abc import Sequence

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass, replace
from cellc_runtime.target import Target

from ....ir.types import prod
from ....loops import order
from ....lower.plan import KernelPlan, Role, Step, scratch
from ..code import KernelCode, aligned
from ..kernels.implicit import copies
from ..kernels.implicit_wgmma import implicit_kernel
from ..kernels.operands import Digit, Digits, Operand, Output, digits, fits
from ..kernels.parts import sum_of_parts
from ..kernels.plans import Tiled, step
from ..kernels.product import Epilogue, Product
from ..kernels.repack import Repacked, padded_channels, repack
from ..kernels.tensor_core_tiles import SEGMENT, TensorCoreProduct
from .images import (
    Geometry,
    Reading,
    backward_data,
    backward_weight,
    channels_digit,
    data_reading,
    forward,
    forward_reading,
    phases,
)
from .tensor_cores import ByTensorCores

_LEAST_BYTES = 8  # Of a copy; what allows less is repacked
_TILES = 264  # Tiles, times segments, that are wanted of a weight's gradient
_TILE = 128
_MOST_SEGMENTS = 64
_MOST_PARTIAL = 64 << 20  # Bytes of the sums of segments at most


def takes(dtype: DType, rows: int, fast: bool) -> bool:
    """Whether tensor cores compute a convolution, or a gradient, with these rows in a group."""
    kinds = (dtypes.float16, dtypes.bfloat16, *((dtypes.float32,) if fast else ()))
    return dtype in kinds and rows > order.FEW_CHANNELS


@dataclass(frozen=True, slots=True)
class Repacking:
    """An operand that is brought into another order first."""

    what: Repacked
    source: Role
    to: Role


@dataclass(frozen=True, slots=True)
class Summed:
    """How sums of segments become the result: rows of `pitch` sums, of which the product stores its
    columns."""

    product: Product
    pitch: int


@dataclass(frozen=True, slots=True)
class Implicit:
    """Products, in order, that give one result."""

    products: tuple[Product, ...]  # of the same operands
    # a, b: these
    a: Role
    b: Role
    before: tuple[Repacking, ...]  # what is repacked
    # of the one product whose segments are added, or that has columns of zeros
    summed: Summed | None = None

    def plan(
        self, target: Target, out: Sequence[Role], epilogue: Epilogue | None = None
    ) -> KernelPlan:
        """See `Fusable`."""
        steps: list[Step] = []
        sizes: dict[Role, int] = {}
        for r in self.before:
            steps.append(step(repack(r.what, target), (r.source, r.to)))
            sizes[r.to] = r.what.elements * r.what.dtype.itemsize
        for p in self.products:
            if self.summed is not None:
                held = scratch("sums")
                sizes[held] = p.segments * p.batch * p.m * p.n * p.sums.itemsize
                steps += self._added(p, self.summed, held, target, out, epilogue)
            elif p.k:
                code = implicit_kernel(p, target, epilogue=epilogue)
                steps.append(step(code, (self.a, self.b, *out)))
            else:
                steps += Tiled(p, self.a, self.b).plan(target, out, epilogue).steps
        return KernelPlan(tuple(steps), sizes)

    def _added(self, p: Product, summed: Summed, held: Role, target: Target, out: Sequence[Role],
               epilogue: Epilogue | None) -> list[Step]:
        def total(vectors: bool) -> KernelCode:
            return sum_of_parts(summed.product, p.segments, target, vectors, epilogue, summed.pitch)

        sums = replace(p, out=p.partial(1)) if p.segments == 1 else p
        return [step(implicit_kernel(sums, target), (self.a, self.b, held)),
                step(aligned(total(True), total(False)), (held, *out))]


@dataclass(frozen=True, slots=True)
class _Side:
    """An operand as the kernel reads it."""

    operand: Operand
    role: Role
    before: tuple[Repacking, ...] = ()


def _as_it_lies(operand: Operand) -> bool:
    return copies(operand).lanes * operand.dtype.itemsize >= _LEAST_BYTES


def _apart(given: Sequence[Digit], by: int) -> tuple[Digit, ...]:
    """Return the digits of pixels of `by` elements each."""
    return tuple(Digit(d.extent, d.stride * by, d.y, d.x) for d in given)


def _image(
    g: Geometry, channels: int, how: Reading, role: Role, dtype: DType
) -> tuple[Repacking, int, Digit]:
    """An image, repacked: how, the elements of a pixel, and the digit of images."""
    pixels = prod(how.size)
    padded = padded_channels(channels, dtype)
    packing = Repacking(Repacked(g.n, g.groups, channels, pixels, padded, dtype), role,
                        scratch(f"packed_{role}"))
    return packing, g.groups * padded, Digit(g.n, pixels * g.groups * padded)


def _image_by_taps(g: Geometry, channels: int, how: Reading, role: Role, dtype: DType) -> _Side:
    """An image, repacked; k goes by taps and channels, the columns are pixels."""
    packing, by, images = _image(g, channels, how, role, dtype)
    padded = packing.what.padded
    return _Side(Operand(
        dtype, channels_digit(g, padded), digits(images, *_apart(how.pixel_digits(), by)),
        digits(*_apart(how.tap_digits(), by), Digit(padded, 1)), how.start * by, how.window),
        packing.to, (packing,))


def forward_implicit(g: Geometry, dtype: DType, x: Role, w: Role) -> Implicit | ByTensorCores:
    """The convolution."""
    base, how, taps = forward(g, dtype), forward_reading(g), prod(g.taps)
    if (p := _pointwise(g, dtype, False)) is not None:
        return ByTensorCores(p, w, x)
    b = _Side(base.b, x)
    if taps > 1 or not _as_it_lies(base.b):
        b = _image_by_taps(g, g.ic, how, x, dtype)
    a = _Side(base.a, w)
    if taps > 1 or not _as_it_lies(base.a):
        padded = padded_channels(g.ic, dtype)
        packing = Repacking(Repacked(g.oc, 1, g.ic, taps, padded, dtype), w, scratch(f"packed_{w}"))
        steps = taps * padded
        a = _Side(Operand(dtype, channels_digit(g, g.per * steps), digits(Digit(g.per, steps)),
                          digits(Digit(steps, 1))), packing.to, (packing,))
    k = base.k if taps == 1 else taps * padded_channels(g.ic, dtype)
    product = replace(base, k=k, a=a.operand, b=b.operand)
    return Implicit((product,), a.role, b.role, a.before + b.before)


def data_implicit(g: Geometry, dtype: DType, dy: Role, w: Role) -> Implicit | ByTensorCores:
    """The gradient of the image: a product for each phase."""
    if (p := _pointwise(g, dtype, True)) is not None:
        return ByTensorCores(p, w, dy)
    taps, padded = prod(g.taps), padded_channels(g.per, dtype)
    packing = Repacking(Repacked(g.groups, 1, g.per, g.ic * taps, padded, dtype), w,
                        scratch(f"packed_{w}"))
    image = None
    products = []
    lies = taps == 1 and all(_as_it_lies(o) for rows in phases(g, 0) for columns in phases(g, 1)
                             for p in [backward_data(g, dtype, rows, columns)] if p.k
                             for o in (p.a, p.b))
    for rows in phases(g, 0):
        for columns in phases(g, 1):
            base = backward_data(g, dtype, rows, columns)
            if lies or not base.k:
                products.append(base)
                continue
            image = _image_by_taps(g, g.per, data_reading(g, rows, columns), dy, dtype)
            kw = g.taps[1] * padded
            a = Operand(dtype, channels_digit(g, g.ic * taps * padded),
                        digits(Digit(g.ic, taps * padded)),
                        digits(Digit(rows.taps, rows.step * kw),
                               Digit(columns.taps, columns.step * padded), Digit(padded, 1)),
                        (rows.tap * g.taps[1] + columns.tap) * padded)
            products.append(replace(base, k=rows.taps * columns.taps * padded, a=a,
                                    b=image.operand))
    if image is None:
        return Implicit(tuple(products), w, dy, ())
    return Implicit(tuple(products), packing.to, image.role, (packing, *image.before))


def weight_implicit(g: Geometry, dtype: DType, x: Role, dy: Role) -> Implicit:
    """The gradient of the weights: k is the pixels of all images."""
    base, how, taps = backward_weight(g, dtype), forward_reading(g), prod(g.taps)
    a, b, each = _Side(base.a, dy), _Side(base.b, x), g.ic
    if not _as_it_lies(base.a):
        result = Reading(g.out, g.out, (1, 1), (1, 1), (1, 1), (0, 0))
        packing, by, images = _image(g, g.per, result, dy, dtype)
        padded = packing.what.padded
        a = _Side(Operand(dtype, channels_digit(g, padded), digits(Digit(padded, 1)),
                          digits(images, Digit(g.places, by))), packing.to, (packing,))
    if taps > 1 or not _as_it_lies(base.b):
        packing, by, images = _image(g, g.ic, how, x, dtype)
        each = packing.what.padded
        b = _Side(Operand(dtype, channels_digit(g, each),
                          digits(*_apart(how.tap_digits(), by), Digit(each, 1)),
                          digits(images, *_apart(how.pixel_digits(), by)),
                          how.start * by, how.window), packing.to, (packing,))
    n = taps * each
    product = replace(base, n=n, a=a.operand, b=b.operand, zero=False,
                      segment=_segment(g.per, n, base.k, g.groups))
    if product.segments > 1 or each != g.ic:
        out = Output(dtype, base.out.batch, digits(Digit(g.per, g.steps), Digit(taps, 1)),
                     digits(Digit(g.ic, taps)))
        summed = replace(product, m=g.per * taps, n=g.ic, out=out)
        return Implicit((product,), a.role, b.role, a.before + b.before, Summed(summed, each))
    columns: Digits = digits(Digit(taps, 1), Digit(g.ic, taps))
    product = replace(product, out=replace(base.out, columns=columns))
    return Implicit((product,), a.role, b.role, a.before + b.before)


def _segment(m: int, n: int, k: int, batch: int) -> int:
    """Steps of k of a segment; 0 for all. By shapes alone."""
    tiles = batch * -(-m // _TILE) * -(-n // _TILE)
    room = _MOST_PARTIAL // (4 * batch * m * n)
    wanted = min(_TILES // tiles, k // (SEGMENT // 2), _MOST_SEGMENTS, room)
    return -(-k // (64 * wanted)) * 64 if wanted > 1 else 0


def _pointwise(g: Geometry, dtype: DType, data: bool) -> TensorCoreProduct | None:
    """A pointwise convolution, or the gradient of its image, as products of matrices: one for each
    image, if rows are whole vectors."""
    plain = prod(g.taps) == 1 and g.stride == (1, 1) and not any(g.pads) and g.groups == 1
    lanes = 16 // dtype.itemsize
    if not plain or g.pixels % lanes or g.ic % lanes or g.oc % lanes:
        return None
    m, k = (g.ic, g.oc) if data else (g.oc, g.ic)
    return TensorCoreProduct(m, g.pixels, k, (g.n,), (0,), (1,), data, False, dtype)


def fitting(plan: Implicit | ByTensorCores) -> bool:
    """Whether offsets into what it repacks fit an i32."""
    return isinstance(plan, ByTensorCores) or fits(r.what.elements for r in plan.before)
