"""Pooling of blocked images (see `blocked/conv.py`): channels in lanes, one pixel at a time."""

from __future__ import annotations

import math

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from .....loops.order import chains
from .....lower.kernel import Kernel
from ....llvm.convert import register_type
from ....llvm.text import Function, V, element, lanes_of, sizeof, vector
from ..pool_axes import Sliding
from ..vectors import beats, divmod_const, split_index, task_kernel

_CHAINS_TOGETHER = 16
"""Chains of a sum that are in registers at once."""


@dataclass(frozen=True, slots=True)
class _Pool:
    """One problem; see `pool_kernel`."""

    average: bool
    x: tuple[int, ...]
    rows: Sliding
    cols: Sliding
    origin: tuple[int, int]
    border: tuple[int, int, int, int]
    dtype: DType

    @property
    def ty(self) -> str:
        """Element type."""
        return register_type(self.dtype)

    @property
    def block(self) -> int:
        """Channels of a block."""
        return self.x[4]

    def row(self, f: Function, bufs: list[V], unit: V) -> None:
        """One row of the output, border included."""
        n, blocks, ph, pw, block = self.x
        top, bottom, left, right = self.border
        height, width = self.rows.windows + top + bottom, self.cols.windows + left + right
        i, y = split_index(f, unit, [n * blocks, height])
        plane = f.gep(bufs[0], i * (ph * pw * block), self.ty)
        plane = f.gep(plane, (self.origin[0] * pw + self.origin[1]) * block, self.ty)
        out = f.gep(bufs[1], unit * (width * block), self.ty)

        def pixels() -> None:
            self._fill(f, out, 0, left)
            self._pixels(f, plane, y - top, f.gep(out, left * block, self.ty))
            self._fill(f, out, width - right, right)

        if not (top or bottom):
            pixels()
            return
        inside = f.cmp("ult", y - top, self.rows.windows)
        f.when(inside, pixels, lambda: self._fill(f, out, 0, width))

    def _fill(self, f: Function, out: V, start: int, count: int) -> None:
        zero = f.zero(vector(self.ty, self.block))
        f.loop(start, start + count, 1, [], lambda k, _: f.store(
            zero, f.gep(out, k * self.block, self.ty)))

    def _pixels(self, f: Function, plane: V, oy: V, out: V) -> None:
        """The pixels of a row: whole windows unrolled, those at the edges in a loop."""
        y0, y1 = self.rows.bounds(f, "WIN_Y", oy)
        high = self.rows.count(f, "WIN_Y", oy) if self.average else None
        line = f.gep(plane, y0 * (self.x[3] * self.block), self.ty)

        def pixel(ox: V, taps: V | int, x0: V) -> None:
            start = f.gep(line, x0 * self.block, self.ty)
            value = self._window(f, start, y1 - y0, taps)
            if high is not None:
                count = f.cast("sitofp", high * self.cols.count(f, "WIN_X", ox), self.ty)
                value = f.fdiv(value, f.splat(count, self.block))
            f.store(value, f.gep(out, ox * self.block, self.ty))

        def edge(ox: V, _: list[V]) -> None:
            x0, x1 = self.cols.bounds(f, "WIN_X", ox)
            pixel(ox, x1 - x0, x0)

        lo, hi, stride, at = self.cols.inner
        f.loop(0, lo, 1, [], edge)
        f.loop(lo, hi, 1, [], lambda ox, _: pixel(ox, self.most, ox * stride + (at - lo * stride)))
        f.loop(hi, self.cols.windows, 1, [], edge)

    @property
    def most(self) -> int:
        """Columns of a whole window."""
        return self.cols.longest

    def _window(self, f: Function, start: V, height: V, taps: V | int) -> V:
        """The maxima (or sums) of one window over `height` rows of the image, and of `taps`
        columns (a whole one) or over as many columns of the image."""
        vec = vector(self.ty, self.block)
        across = self.cols.step * self.block
        down = self.rows.step * self.x[3] * self.block

        def one(ptr: V, best: V) -> V:
            v = f.load(vec, ptr)
            return best + v if self.average else f.select(beats(f, v, best), v, best)

        def row(_: V, c: list[V]) -> list[V]:
            best = c[1]
            if isinstance(taps, int):
                for k in range(taps):
                    best = one(f.gep(c[0], k * across, self.ty), best)
            else:
                best = f.loop(0, taps, self.cols.step, [c[0], best], lambda _, d: [
                    f.gep(d[0], across, self.ty), one(d[0], d[1])])[1]
            return [f.gep(c[0], down, self.ty), best]

        first = f.zero(vec) if self.average else f.const(vec, -math.inf)
        return f.loop(0, height, self.rows.step, [start, first], row)[1]


def pool_kernel(
    x: tuple[int, ...], windows: tuple[Sliding, Sliding], origin: tuple[int, int],
    border: tuple[int, int, int, int], dtype: DType, target: Target, average: bool,
) -> Kernel:
    """Kernel over (x, out): maxima of windows of `[n, blocks, ph, pw, b]`, or their sums over their
    counts.

    Args:
        windows: rows and columns that they cover, counted from `origin`.
        border: zeros written around the output (top, bottom, left, right).
    """
    p = _Pool(average, x, *windows, origin, border, dtype)

    def body(f: Function, bufs: list[V], unit: V) -> str:
        p.row(f, bufs, unit)
        return p.rows.tables("WIN_Y") + p.cols.tables("WIN_X")

    taps = p.rows.longest * p.most
    units = p.x[0] * p.x[1] * (p.rows.windows + p.border[0] + p.border[1])
    return task_kernel(target, 2, units, 20.0 + p.cols.windows * (4.0 + 3.0 * taps), body)


# --- sums ----------------------------------------------------------------------------------------


def pixel_sum_kernel(
    x: tuple[int, ...], size: tuple[int, int], origin: tuple[int, int], dtype: DType,
    target: Target,
) -> Kernel:
    """Kernel over (x, out): the sum of `size` pixels from `origin` on of `[n, blocks, ph, pw, b]`.

    A lane is a channel, and its pixels are taken into the chains that a row of as many elements
    has (`loops/order.py`): pixel i into chain i % chains, then chains are folded by halves.
    """
    n, blocks, ph, pw, block = x
    (h, w), ty = size, register_type(dtype)
    count = chains(sizeof(ty), h * w)
    together = min(count, _CHAINS_TOGETHER if target.vector_registers > 16 else 8)

    def body(f: Function, bufs: list[V], unit: V) -> None:
        at = (unit * ph + origin[0]) * pw + origin[1]
        start = f.gep(bufs[0], at * block, ty)
        parts: list[V] = []
        for first in range(0, count, together):
            parts += _chains(f, start, (h, w, pw), (first, min(together, h * w - first), count),
                             vector(ty, block))
        parts += [f.zero(vector(ty, block))] * (count - len(parts))
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [a + b for a, b in zip(parts[:half], parts[half:], strict=True)]
        f.store(parts[0], f.gep(bufs[1], unit * block, ty))

    return task_kernel(target, 2, n * blocks, 60.0 + 1.0 * h * w, body)


def _chains(f: Function, start: V, image: tuple[int, int, int], which: tuple[int, int, int],
            vec: str) -> list[V]:
    """The sums of some neighbouring chains.

    Args:
        image: rows, columns, and columns from one row to the next.
        which: the first chain, how many, and how many there are in all.
    """
    (h, w, pitch), (first, some, count) = image, which
    if some <= 0:
        return []
    ty, block, pixels = element(vec), lanes_of(vec), h * w

    def load(pixel: V | int) -> V:
        if pitch == w:
            return f.load(vec, f.gep(start, pixel * block, ty))
        if isinstance(pixel, int):
            return f.load(vec, f.gep(start, (pixel // w * pitch + pixel % w) * block, ty))
        row, column = divmod_const(f, pixel, w)
        return f.load(vec, f.gep(start, (row * pitch + column) * block, ty))

    rounds = (pixels - first - some) // count + 1
    sums = f.loop(0, rounds * count, count, [f.zero(vec)] * some, lambda i, c: [
        acc + load(i + (first + k)) for k, acc in enumerate(c)])
    for k in range(pixels - rounds * count - first):
        sums[k] = sums[k] + load(rounds * count + first + k)
    return list(sums)
