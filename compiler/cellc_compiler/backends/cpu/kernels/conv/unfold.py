"""Unfolding an image so that every tap of a convolution is one contiguous run of pixels.

An output grid of `th` x `tw` pixels reads, for a tap `(ry, cx)`, the source pixel
`(sy * j + ry, sx * i + cx)` at grid point `(j, i)`. The unfolded form of a channel holds one
plane per row class (`ry mod sy`) and column offset `cx`; a plane has `tw` columns and as many
rows as the taps of its class span. Tap `(ry, cx)` of grid point `q = j * tw + i` is then element
`offset(ry, cx) + q`: constant offsets, no padding left to test for, and vectors run over
flattened pixels with no waste at row ends. Outside the image the planes hold zeros.

A 1 x k kernel costs k copies of the image instead of the k * k of im2col. Where no copy changes
anything (1x1, k x 1 without padding, stride 1) the image itself is its unfolded form.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import product
from typing import Protocol

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass, replace
from cellc_runtime.target import Target

from .....ir.dims import estimate, is_symbolic
from .....lower.kernel import Kernel
from ....llvm.convert import register_type
from ....llvm.text import Function, V, first_lanes, lanes_below, lanes_of, vector
from ..vectors import (
    Window,
    acc_ptr,
    acc_size,
    divmod_const,
    elem_ptr,
    in_vectors,
    is_half,
    lanes,
    load_acc,
    lookup,
    split_index,
    store_acc,
    table,
    task_kernel,
)

SLACK_BYTES = 256
"""Scratch has this much after its last element, so that a vector may read past the end."""

_MAX_SHUFFLED_STRIDE = 4
_UNROLLED_VECTORS = 64


class Windows(Protocol):
    """The input of the tile kernel: for every channel, planes in which a tap is a constant offset
    from each of `th * tw` grid points. `Unfold` is one such form."""

    @property
    def dtype(self) -> DType:
        """Storage type of the source."""

    @property
    def th(self) -> int:
        """Rows of the grid."""

    @property
    def tw(self) -> int:
        """Columns of the grid."""

    @property
    def identity(self) -> bool:
        """Whether these are the pixels of the source itself, with nothing after the last."""

    def planes(self) -> int:
        """Planes per channel."""

    def channel_size(self, rows: int | None = None) -> int:
        """Elements of a channel."""

    def offset(self, ry: int, cx: int, rows: int | None = None) -> int:
        """Element offset of tap `(ry, cx)` in a channel."""


@dataclass(frozen=True)
class Unfold:
    """The unfolded form of one channel; see the module docstring."""

    dtype: DType  # storage type of the source
    # ih, iw: source image
    ih: int
    iw: int
    # th, tw: output grid
    th: int
    tw: int
    # sy, sx: source pixels per grid step
    sy: int
    sx: int
    # rys, cxs: distinct row and column offsets of the taps (may be negative)
    rys: tuple[int, ...]
    cxs: tuple[int, ...]
    copied: bool = False  # whether the form is a copy even where the source would do

    @cached_property
    def classes(self) -> tuple[int, ...]:
        """The row classes `ry mod sy` that have taps."""
        return tuple(sorted({r % self.sy for r in self.rys}))

    @cached_property
    def cols(self) -> tuple[int, ...]:
        """The distinct column offsets."""
        return tuple(sorted(set(self.cxs)))

    @cached_property
    def first(self) -> int:
        """Smallest row quotient `ry // sy`."""
        return min(r // self.sy for r in self.rys)

    @cached_property
    def span(self) -> int:
        """Rows a plane holds beyond the rows of the grid."""
        return max(r // self.sy for r in self.rys) - self.first

    @cached_property
    def identity(self) -> bool:
        """Whether the source can be used as it is."""
        return (
            not self.copied
            and (self.sy, self.sx, self.cols) == (1, 1, (0,))
            and self.tw == self.iw
            and self.first >= 0
            and self.first + self.span + self.th <= self.ih
            and not is_half(self.dtype)
        )

    @property
    def estimated(self) -> Unfold:
        """The form of images of the sizes that costs are estimated for."""
        return replace(self, ih=estimate(self.ih), iw=estimate(self.iw), th=estimate(self.th),
                       tw=estimate(self.tw))

    def planes(self) -> int:
        """Planes per channel."""
        return len(self.classes) * len(self.cols)

    def plane_size(self, rows: int | None = None) -> int:
        """Elements of a plane for a grid of `rows` rows (all of it by default)."""
        if self.identity:
            return self.ih * self.iw
        return ((self.th if rows is None else rows) + self.span) * self.tw

    def channel_size(self, rows: int | None = None) -> int:
        """Elements of one unfolded channel."""
        return self.planes() * self.plane_size(rows)

    def offset(self, ry: int, cx: int, rows: int | None = None) -> int:
        """Element offset of tap `(ry, cx)` in an unfolded channel."""
        if self.identity:
            return ry * self.iw
        plane = self.classes.index(ry % self.sy) * len(self.cols) + self.cols.index(cx)
        return plane * self.plane_size(rows) + (ry // self.sy - self.first) * self.tw

    def nbytes(self, channels: int) -> int:
        """Bytes of scratch for `channels` unfolded channels, slack included."""
        return channels * self.channel_size() * acc_size(self.dtype) + SLACK_BYTES

    def cycles(self, target: Target, rows: int | None = None) -> float:
        """Estimated cycles to unfold one channel."""
        vectors = -(-self.tw // lanes(target, self.dtype))
        rows_all = (self.th if rows is None else rows) + self.span
        if self._unrolled(target):
            row = 8.0 + len(self.cols) * vectors * (1.0 + 1.0 * self.sx)
        else:
            row = len(self.cols) * (10.0 + vectors * (3.0 + 2.0 * self.sx))
        return len(self.classes) * rows_all * row

    def _unrolled(self, target: Target) -> bool:
        """Whether all columns of a row are written by straight-line code."""
        if is_symbolic(self.tw):
            return False
        vectors = len(self.cols) * -(-self.tw // lanes(target, self.dtype))
        return self.sx <= _MAX_SHUFFLED_STRIDE and vectors * self.sx <= _UNROLLED_VECTORS

    def tables(self) -> str:
        """Globals `emit` reads: class and column offset of every plane."""
        rho = [c for c in self.classes for _ in self.cols]
        return table("UNFOLD_ROW", rho) + table("UNFOLD_COL", list(self.cols) * len(self.classes))

    def emit(self, f: Function, src: V, dst: V, row0: V, rows: int | None = None) -> None:
        """Write the unfolded form of the channel at `src` to `dst`, from grid row `row0` on."""
        rows_all = (self.th if rows is None else rows) + self.span
        if self._unrolled(f.target):
            self._emit_unrolled(f, src, dst, row0, rows_all)
            return

        def plane(p: V, _: list[V]) -> None:
            rho, cx = lookup(f, "UNFOLD_ROW", p), lookup(f, "UNFOLD_COL", p)
            base = p * (rows_all * self.tw)

            def row(r: V, _: list[V]) -> None:
                iy = (row0 + r + self.first) * self.sy + rho
                inside = f.cmp("ult", iy, self.ih)
                # A row outside the image is a row of which no column is inside it.
                bound = f.select(inside, f.i64(self.iw), f.i64(0))
                out = acc_ptr(f, dst, base + r * self.tw, self.dtype)
                line = elem_ptr(f, src, iy * self.iw, self.dtype)
                self._emit_row(f, line, out, cx, bound)

            f.loop(0, rows_all, 1, [], row)

        f.loop(0, self.planes(), 1, [], plane)

    def _emit_unrolled(self, f: Function, src: V, dst: V, row0: V, rows_all: int) -> None:
        """`emit` with the columns of all planes of a row class in straight-line code."""
        width, size = lanes(f.target, self.dtype), rows_all * self.tw
        window = Window(self.dtype, self.sx, width)

        def fill(out: V, line: V | None) -> None:
            for (b, cx), i in product(enumerate(self.cols), range(0, self.tw, width)):
                ptr = acc_ptr(f, out, b * size + i, self.dtype)
                v = (f.zero(vector(register_type(self.dtype), width)) if line is None
                     else window.load_static(f, line, i * self.sx + cx, self.iw))
                f.masked_store(v, ptr, first_lanes(self.tw - i, width))

        def row_class(k: V, _: list[V]) -> None:
            rho = lookup(f, "UNFOLD_ROW", k * len(self.cols))
            base = k * (len(self.cols) * size)

            def row(r: V, _: list[V]) -> None:
                iy = (row0 + r + self.first) * self.sy + rho
                out = acc_ptr(f, dst, base + r * self.tw, self.dtype)
                line = elem_ptr(f, src, iy * self.iw, self.dtype)
                f.when(f.cmp("ult", iy, self.ih), lambda: fill(out, line), lambda: fill(out, None))

            f.loop(0, rows_all, 1, [], row)

        f.loop(0, len(self.classes), 1, [], row_class)

    def _emit_row(self, f: Function, line: V, out: V, cx: V, bound: V) -> None:
        width = lanes(f.target, self.dtype)
        if self.sx > _MAX_SHUFFLED_STRIDE:
            f.loop(0, self.tw, 1, [], lambda i, _: self._emit_one(f, line, out, cx, bound, i))
            return
        window = Window(self.dtype, self.sx, width)

        def step(i: V, mask: V | None) -> None:
            value = window.load(f, line, i * self.sx + cx, bound)
            f.masked_store(value, acc_ptr(f, out, i, self.dtype), mask)

        in_vectors(f, self.tw, width, step)

    def _emit_one(self, f: Function, line: V, out: V, cx: V, bound: V, i: V) -> None:
        """One column, for strides too long to shuffle."""
        at = i * self.sx + cx
        value = f.when(
            f.cmp("ult", at, bound),
            lambda: [load_acc(f, elem_ptr(f, line, at, self.dtype), self.dtype, 1)],
            lambda: [f.const(register_type(self.dtype), 0.0)],
        )[0]
        f.store(value, acc_ptr(f, out, i, self.dtype))


def unfold_kernel(u: Unfold, channels: int, target: Target) -> Kernel:
    """Kernel over buffers (source, scratch): unfolds `channels` channels."""

    def body(f: Function, bufs: list[V], unit: V) -> str:
        (c,) = split_index(f, unit, [channels])
        src = elem_ptr(f, bufs[0], c * (u.ih * u.iw), u.dtype)
        dst = acc_ptr(f, bufs[1], c * u.channel_size(), u.dtype)
        u.emit(f, src, dst, f.i64(0))
        return u.tables()

    return task_kernel(target, 2, channels, u.cycles(target), body)


def widen_kernel(dtype: DType, count: int, target: Target) -> Kernel:
    """Kernel over buffers (source, scratch): `count` stored elements as accumulators."""
    width = lanes(target, dtype)
    block = 64 * width
    units = -(-count // block)

    def body(f: Function, bufs: list[V], unit: V) -> None:
        start = unit * block
        window = Window(dtype, 1, width)

        def step(i: V, _: list[V]) -> None:
            at = start + i
            value = window.load(f, bufs[0], at, f.i64(count))
            ok = f.cmp("slt", at, count)
            mask = f.tail_mask(f.select(ok, f.i64(count) - at, f.i64(0)), width)
            f.masked_store(value, acc_ptr(f, bufs[1], at, dtype), mask)

        f.loop(0, block, width, [], step)

    return task_kernel(target, 2, units, 64 * 4.0, body)


# --- phases of a strided backward-data convolution into the image ---------------------------------


def interleave(f: Function, parts: Sequence[V], which: int) -> V:
    """Vector `which` of the element-wise interleaving of equal vectors."""
    width, count = lanes_of(parts[0].ty), len(parts)
    if count == 1:
        return parts[0]
    source = [divmod(which * width + i, count) for i in range(width)]
    out = f.shuffle(parts[0], parts[1],
                    [at if p == 0 else width + at if p == 1 else -1 for at, p in source])
    for k in range(2, count):
        out = f.shuffle(out, parts[k],
                        [width + at if p == k else i for i, (at, p) in enumerate(source)])
    return out


def interleave_kernel(
    dtype: DType, planes: int, h: int, w: int, sy: int, sx: int,
    phases: Sequence[tuple[int, int]], target: Target,
) -> Kernel:
    """Kernel over buffers (phases, out).

    `phases[f]` is the residue (row, column) whose pixels are stored in
    `[f][planes][ceil(h / sy)][ceil(w / sx)]` accumulators; a residue not listed is zero. The
    phase buffer has slack for a vector past its end, and room for at least one phase.
    """
    th, tw = -(-h // sy), -(-w // sx)
    width = lanes(target, dtype)
    index = {p: i for i, p in enumerate(phases)}
    known = [index.get(p, -1) for p in product(range(sy), range(sx))]

    def source(f: Function, bufs: list[V], plane: V, iy: V, px: V, ix: V) -> tuple[V, V]:
        """Whether the phase exists, and the pointer to its element for grid column `ix`."""
        j, py = divmod_const(f, iy, sy)
        at = lookup(f, "PHASE", py * sx + px)
        there = f.cmp("sge", at, 0)
        slot = f.select(there, at, f.i64(0)) * planes + plane
        row = (slot * th + j) * tw
        return there, acc_ptr(f, bufs[0], row + ix, dtype)

    def block(f: Function, bufs: list[V], plane: V, iy: V, out: V, ix: V, count: int | V) -> None:
        ty = vector(register_type(dtype), width)
        parts = []
        for px in range(sx):
            there, ptr = source(f, bufs, plane, iy, f.i64(px), ix)
            parts.append(f.select(there, f.load(ty, ptr), f.zero(ty)))
        for o in range(sx if isinstance(count, V) else -(-count // width)):
            mask = lanes_below(f, count - o * width, width)
            at = ix * sx + o * width
            store_acc(f, interleave(f, parts, o), elem_ptr(f, out, at, dtype), dtype, mask)

    def pixel(f: Function, bufs: list[V], plane: V, iy: V, out: V, x: V) -> None:
        ix, px = divmod_const(f, x, sx)
        there, ptr = source(f, bufs, plane, iy, px, ix)
        ty = register_type(dtype)
        value = f.select(there, f.load(ty, ptr), f.zero(ty))
        store_acc(f, value, elem_ptr(f, out, x, dtype), dtype)

    def body(f: Function, bufs: list[V], plane: V) -> str:
        def row(iy: V, _: list[V]) -> None:
            at = (plane * h + iy) * w
            out = elem_ptr(f, bufs[1], at, dtype)
            if sx > _MAX_SHUFFLED_STRIDE:
                f.loop(0, w, 1, [], lambda x, _: pixel(f, bufs, plane, iy, out, x))
                return
            step = width * sx
            full = w // step
            f.loop(0, full * width, width, [],
                   lambda ix, _: block(f, bufs, plane, iy, out, ix, step))
            if is_symbolic(w):
                rest = f.i64(w - full * step)
                f.when(f.cmp("sgt", rest, 0), lambda: block(
                    f, bufs, plane, iy, out, f.i64(full * width), rest))
            elif w > full * step:
                block(f, bufs, plane, iy, out, f.i64(full * width), w - full * step)

        f.loop(0, h, 1, [], row)
        return table("PHASE", known)

    cycles = h * (10.0 + w * (6.0 if sx > _MAX_SHUFFLED_STRIDE else 6.0 / width))
    return task_kernel(target, 2, planes, cycles, body)
