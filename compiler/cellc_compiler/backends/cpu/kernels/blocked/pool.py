"""Pooling of blocked images (see `blocked/conv.py`): channels in lanes, one pixel at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from .....lower.kernel import Kernel
from ....llvm.text import Function, V, vector
from ..vectors import acc_type, beats, lookup, split_index, table, task_kernel

Windows = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class _Pool:
    """One problem; see `max_kernel`."""

    x: tuple[int, ...]
    rows: Windows
    cols: Windows
    origin: tuple[int, int]
    border: tuple[int, int, int, int]
    dtype: DType

    @property
    def ty(self) -> str:
        """Element type."""
        return acc_type(self.dtype)

    @property
    def block(self) -> int:
        """Channels of a block."""
        return self.x[4]

    @property
    def most(self) -> int:
        """Columns of a whole window."""
        return max(len(c) for c in self.cols)

    def row(self, f: Function, bufs: list[V], unit: V) -> None:
        """One row of the output, border included."""
        n, blocks, ph, pw, block = self.x
        top, bottom, left, right = self.border
        height, width = len(self.rows) + top + bottom, len(self.cols) + left + right
        i, y = split_index(f, unit, [n * blocks, height])
        plane = f.gep(bufs[0], f.mul(i, f.i64(ph * pw * block)), self.ty)
        plane = f.gep(plane, (self.origin[0] * pw + self.origin[1]) * block, self.ty)
        out = f.gep(bufs[1], f.mul(unit, f.i64(width * block)), self.ty)

        def pixels() -> None:
            self._fill(f, out, 0, left)
            self._pixels(f, plane, f.sub(y, f.i64(top)), f.gep(out, left * block, self.ty))
            self._fill(f, out, width - right, right)

        if not (top or bottom):
            pixels()
            return
        inside = f.cmp("ult", f.sub(y, f.i64(top)), f.i64(len(self.rows)))
        f.when(inside, pixels, lambda: self._fill(f, out, 0, width))

    def _fill(self, f: Function, out: V, start: int, count: int) -> None:
        zero = f.zero(vector(self.ty, self.block))
        f.loop(start, start + count, 1, [], lambda k, _: f.store(
            zero, f.gep(out, f.mul(k, f.i64(self.block)), self.ty)))

    def _pixels(self, f: Function, plane: V, oy: V, out: V) -> None:
        """The pixels of a row: whole windows unrolled, those at the edges from tables."""
        y0, count = lookup(f, "ROW_START", oy), lookup(f, "ROW_COUNT", oy)
        line = f.gep(plane, f.mul(y0, f.i64(self.x[3] * self.block)), self.ty)

        def pixel(ox: V, taps: V | int, x0: V) -> None:
            start = f.gep(line, f.mul(x0, f.i64(self.block)), self.ty)
            f.store(self._window(f, start, count, taps),
                    f.gep(out, f.mul(ox, f.i64(self.block)), self.ty))

        def edge(ox: V, _: list[V]) -> None:
            pixel(ox, lookup(f, "COL_COUNT", ox), lookup(f, "COL_START", ox))

        lo, hi, stride = _whole(self.cols)
        base = self.cols[lo][0] - lo * stride
        f.loop(0, lo, 1, [], edge)
        f.loop(lo, hi, 1, [], lambda ox, _: pixel(
            ox, self.most, f.add(f.mul(ox, f.i64(stride)), f.i64(base))))
        f.loop(hi, len(self.cols), 1, [], edge)

    def _window(self, f: Function, start: V, count: V, taps: V | int) -> V:
        """The maxima of one window of `count` rows and `taps` columns."""
        vec = vector(self.ty, self.block)
        across = _step(self.cols) * self.block
        down = _step(self.rows) * self.x[3] * self.block

        def one(ptr: V, best: V) -> V:
            v = f.load(vec, ptr)
            return f.select(beats(f, v, best), v, best)

        def row(_: V, c: list[V]) -> list[V]:
            best = c[1]
            if isinstance(taps, int):
                for k in range(taps):
                    best = one(f.gep(c[0], k * across, self.ty), best)
            else:
                best = f.loop(0, taps, 1, [c[0], best], lambda _, d: [
                    f.gep(d[0], across, self.ty), one(d[0], d[1])])[1]
            return [f.gep(c[0], down, self.ty), best]

        return f.loop(0, count, 1, [start, f.const(vec, -math.inf)], row)[1]

    def tables(self) -> str:
        """Where windows start, and how many rows and columns they have."""
        return (table("ROW_START", [r[0] for r in self.rows])
                + table("ROW_COUNT", [len(r) for r in self.rows])
                + table("COL_START", [c[0] for c in self.cols])
                + table("COL_COUNT", [len(c) for c in self.cols]))


def max_kernel(
    x: tuple[int, ...], windows: tuple[Windows, Windows], origin: tuple[int, int],
    border: tuple[int, int, int, int], dtype: DType, target: Target,
) -> Kernel:
    """Kernel over (x, out): maxima of windows, each a list of rows and one of columns.

    Args:
        x: `[n, blocks, ph, pw, b]`.
        windows: positions covered, counted from `origin`, per output row and column.
        border: zeros written around the output (top, bottom, left, right).
    """
    p = _Pool(x, *windows, origin, border, dtype)

    def body(f: Function, bufs: list[V], unit: V) -> str:
        p.row(f, bufs, unit)
        return p.tables()

    taps = max(len(r) for r in p.rows) * p.most
    units = x[0] * x[1] * (len(p.rows) + border[0] + border[1])
    return task_kernel(target, 2, units, 20.0 + len(p.cols) * (4.0 + 3.0 * taps), body)


def _step(windows: Windows) -> int:
    """Distance between the positions of a window."""
    return next((w[1] - w[0] for w in windows if len(w) > 1), 1)


def _whole(windows: Windows) -> tuple[int, int, int]:
    """The first run of whole windows at equal distances: `(first, past the last, distance)`."""
    most = max(len(w) for w in windows)
    first = end = next(k for k, w in enumerate(windows) if len(w) == most)
    stride = windows[first + 1][0] - windows[first][0] if first + 1 < len(windows) else 0
    while end < len(windows) and len(windows[end]) == most and (
            windows[end][0] == windows[first][0] + (end - first) * stride):
        end += 1
    return first, end, stride
