"""Pooling of blocked images (see `conv_block`): channels in lanes, one pixel at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cellc_compiler.codegen.kernel import Kernel
from cellc_compiler.codegen.llvm.text import Function, V, vector
from cellc_runtime.dtypes import DType
from cellc_runtime.target import Target

from .conv_vec import acc_type, lookup, split_index, table, task_kernel

Windows = Sequence[Sequence[int]]


def better(f: Function, v: V, best: V) -> V:
    """Whether `v` replaces `best`, as in `pool`: greater, or a NaN where there was none yet."""
    return f.binary("and", f.cmp("ugt", v, best), f.cmp("ord", best, best))


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
    n, blocks, ph, pw, block = x
    rows, cols = windows
    top, bottom, left, right = border
    oh, ow = len(rows), len(cols)
    height, width = oh + top + bottom, ow + left + right
    ty, vec = acc_type(dtype), vector(acc_type(dtype), block)
    row_step, col_step = _step(rows), _step(cols)
    most = max(len(c) for c in cols)
    whole = [i for i, c in enumerate(cols) if len(c) == most and _regular(cols, i)]

    def body(f: Function, bufs: list[V], unit: V) -> str:
        i, y = split_index(f, unit, [n * blocks, height])
        plane = f.gep(bufs[0], f.mul(i, f.i64(ph * pw * block)), ty)
        plane = f.gep(plane, (origin[0] * pw + origin[1]) * block, ty)
        out = f.gep(bufs[1], f.mul(unit, f.i64(width * block)), ty)
        zero = f.zero(vec)

        def fill(start: int, count: int) -> None:
            f.loop(start, start + count, 1, [], lambda k, _: f.store(
                zero, f.gep(out, f.mul(k, f.i64(block)), ty)))

        def pixels() -> None:
            oy = f.sub(y, f.i64(top))
            y0, count = lookup(f, "ROW_START", oy), lookup(f, "ROW_COUNT", oy)
            line = f.gep(plane, f.mul(y0, f.i64(pw * block)), ty)
            step = row_step * pw * block

            def pixel(ox: V, taps: V | int, x0: V) -> None:
                start = f.gep(line, f.mul(x0, f.i64(block)), ty)

                def one(ptr: V, best: V) -> V:
                    v = f.load(vec, ptr)
                    return f.select(better(f, v, best), v, best)

                def row(_: V, c: list[V]) -> list[V]:
                    best = c[1]
                    if isinstance(taps, int):
                        for k in range(taps):
                            best = one(f.gep(c[0], k * col_step * block, ty), best)
                    else:
                        best = f.loop(0, taps, 1, [c[0], best], lambda _, d: [
                            f.gep(d[0], col_step * block, ty), one(d[0], d[1])])[1]
                    return [f.gep(c[0], step, ty), best]

                first = [start, f.const(vec, -math.inf)]
                best = f.loop(0, count, 1, first, row)[1]
                f.store(best, f.gep(out, f.mul(f.add(ox, f.i64(left)), f.i64(block)), ty))

            def edge(ox: V, _: list[V]) -> None:
                pixel(ox, lookup(f, "COL_COUNT", ox), lookup(f, "COL_START", ox))

            fill(0, left)
            lo, hi = (whole[0], whole[-1] + 1) if whole else (ow, ow)
            f.loop(0, lo, 1, [], edge)
            stride = cols[lo + 1][0] - cols[lo][0] if hi - lo > 1 else 0
            base = cols[lo][0] - lo * stride if whole else 0
            f.loop(lo, hi, 1, [], lambda ox, _: pixel(
                ox, most, f.add(f.mul(ox, f.i64(stride)), f.i64(base))))
            f.loop(hi, ow, 1, [], edge)
            fill(left + ow, right)

        inside = f.cmp("ult", f.sub(y, f.i64(top)), f.i64(oh))
        if top or bottom:
            f.when(inside, pixels, lambda: fill(0, width))
        else:
            pixels()
        return (table("ROW_START", [r[0] for r in rows])
                + table("ROW_COUNT", [len(r) for r in rows])
                + table("COL_START", [c[0] for c in cols])
                + table("COL_COUNT", [len(c) for c in cols]))

    taps = max(len(r) for r in rows) * most
    return task_kernel(target, 2, n * blocks * height, 20.0 + ow * (4.0 + 3.0 * taps), body)


def _step(windows: Windows) -> int:
    """Distance between the positions of a window."""
    return next((w[1] - w[0] for w in windows if len(w) > 1), 1)


def _regular(windows: Windows, i: int) -> bool:
    """Whether full windows up to `i` start at equal distances and follow each other."""
    most = max(len(w) for w in windows)
    first = next(k for k, w in enumerate(windows) if len(w) == most)
    if i == first:
        return True
    stride = windows[first + 1][0] - windows[first][0]
    return all(len(windows[k]) == most and windows[k][0] == windows[first][0]
               + (k - first) * stride for k in range(first, i + 1))
