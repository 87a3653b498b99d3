"""Products of complex matrices by the tiles of `product.py`, with real and imaginary parts apart.

In memory an element is two adjacent numbers. In shared memory real parts are one tile and imaginary
parts another; a thread has sums of both. An element takes in a step of k by four fused
multiply-adds, in the order of the CPU: the real part by `a.re b.re` and `-a.im b.im`, the imaginary
one by `a.re b.im` and `a.im b.re`.
"""

from __future__ import annotations

from collections.abc import Sequence

from cellc_runtime.dtypes import DType
from cellc_runtime.records import replace
from cellc_runtime.target import Target

from ...llvm.math.lanes import X
from ...llvm.text import V
from ..code import KernelCode
from ..writer import GpuFunction
from .loaders import Loader
from .operands import Digit, Digits, Operand, Output
from .product import Loads, Product, ProductKernel
from .tiles import DEPTH, DOUBLE, LANE_COLUMNS, LANE_ROWS, SINGLE, Tile, pitch


def real_parts(p: Product, part: DType) -> Product:
    """A product of complex matrices by its real parts, every second number."""
    def apart(of: Digits) -> Digits:
        return tuple(Digit(d.extent, 2 * d.stride) for d in of)

    def operand(x: Operand) -> Operand:
        return Operand(part, apart(x.batch), apart(x.free), apart(x.steps))

    out = Output(part, apart(p.out.batch), apart(p.out.rows), apart(p.out.columns))
    return replace(p, a=operand(p.a), b=operand(p.b), out=out, sums=part)


def tile_for(p: Product) -> Tile:
    """The tile of a block: two sums for each element leave room for 8 x 4 elements of a thread."""
    large, small = (SINGLE[1], SINGLE[-1]) if p.sums.itemsize == 4 else (DOUBLE[1], DOUBLE[2])
    return large if min(p.m, p.n) >= large.columns else small


class _Planes:
    """Both parts of an operand's tiles, the imaginary ones at an offset of `shift` elements."""

    def __init__(self, f: GpuFunction, parts: Sequence[Loader], ty: str, shift: int) -> None:
        self.f, self.parts, self.ty, self.shift = f, parts, ty, shift

    def begin(self, thread: X, batch: X, first: X) -> None:
        """See `Loads`."""
        for part in self.parts:
            part.begin(thread, batch, first)

    def load(self, step: X, end: X) -> list[V]:
        """See `Loads`."""
        return [v for part in self.parts for v in part.load(step, end)]

    def store(self, values: Sequence[V], shared: V) -> None:
        """See `Loads`."""
        count = len(values) // 2
        for i, part in enumerate(self.parts):
            part.store(values[i * count:(i + 1) * count],
                       self.f.gep(shared, i * self.shift, self.ty))


class ComplexKernel(ProductKernel):
    """The kernel of a product that is given by its real parts; see `ProductKernel`."""

    planes = 2

    def _loaders(self, lanes: int) -> tuple[Loads, Loads]:
        p, tile = self.p, self.tile
        a, b = (_Planes(self.f, [self._loader(replace(x, start=part), buffer, width, 1, 0.0)
                                 for part in (0, 1)], self.ty, 2 * self.half)
                for buffer, (x, width) in enumerate([(p.a, tile.rows), (p.b, tile.columns)]))
        return a, b

    def _multiply(self, sums: list[V], stage: X, step: X, end: X) -> list[V]:
        f, tile, lanes = self.f, self.tile, self.lanes
        a_at, b_at = (f.gep(p, stage.v, self.ty) for p in (self.read_a, self.read_b))
        across, half = tile.tn // lanes, len(sums) // 2
        for k in range(DEPTH):
            a, b = ([self._vectors(f.gep(at, part * 2 * self.half, self.ty),
                                   k * pitch(width, lanes), count // lanes, apart)
                     for part in (0, 1)]
                    for at, width, count, apart in ((a_at, tile.rows, tile.tm, LANE_ROWS),
                                                    (b_at, tile.columns, tile.tn, LANE_COLUMNS)))
            taken = list(sums)
            for i in range(tile.tm):
                re, im = (f.splat(f.extract(x[i // lanes], i % lanes), lanes) for x in a)
                for j in range(across):
                    at = i * across + j
                    real = f.fma(re, b[0][j], sums[at])
                    taken[at] = f.fma(f.fneg(im), b[1][j], real)
                    imaginary = f.fma(re, b[1][j], sums[half + at])
                    taken[half + at] = f.fma(im, b[0][j], imaginary)
            # No number stands for a step that is not there: +0 or -0, one of four products adds it.
            there = (step + k).cmp("slt", end)
            sums = [f.select(there.v, new, old) if self.tail else new
                    for new, old in zip(taken, sums, strict=True)]
        return sums

    def _end(self, batch: X, i: X, j: X, sums: list[V], first: int = 0) -> None:
        half = len(sums) // 2
        for part in (0, 1):
            super()._end(batch, i, j, sums[part * half:(part + 1) * half], first + part)


def complex_kernel(p: Product, tile: Tile, target: Target) -> KernelCode:
    """The kernel; its buffers are the operands, sums of threads if there are segments, and the
    result."""
    return ComplexKernel(p, tile, 1, target, False).code()
