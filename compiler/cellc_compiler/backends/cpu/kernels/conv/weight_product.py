"""Backward-weight of small images as one matrix product over the pixels of the whole batch.

    dw[g, oc, (ic, tap)] = sum over (n, oy, ox) of dy[g, oc, (n, oy, ox)] * x[g, (n, oy, ox), ...]

A row of the right matrix holds what every (input channel, tap) meets at one output pixel; the
tile kernel of `conv/taps.py` reads it as an image of channels (n, oy, ox) and writes `dw` as it is
stored, row after row. An element is one FMA chain over (n, oy, ox) ascending, from 0. This is
for wide layers of few pixels, whose result is a large part of the work: nothing else touches it.
"""

from __future__ import annotations

from math import lcm

from cellc_runtime.dtypes import DType, float32
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from .....lower.kernel import Kernel
from ....llvm.convert import from_memory, memory_type
from ....llvm.text import Function, V, vector
from ..vectors import (
    TASK_CYCLES,
    WANTED_TASKS,
    Plan,
    acc_ptr,
    acc_size,
    elem_ptr,
    is_half,
    lanes,
    lookup,
    split_index,
    table32,
    task_kernel,
)
from .batched import Joint, gather, gather_kernel, gathers
from .taps import Phase, TapConv, Tiling, choose_tile, tap_kernel
from .unfold import SLACK_BYTES

_MOST_PIXELS = 4096
_BLOCK_BYTES = 1280 * 1024
_ALIGNED = 0.75  # The cost of a tile's step for aligned windows, of `choose_tile`'s estimate


@dataclass(frozen=True)
class PixelRows:
    """The factors of every (input channel, tap) of a group, one row per output pixel of the batch.

    It has the interface of an `Unfold` that the tile kernel needs: pixels are its channels.
    """

    image: Joint  # the windows of all channels (`Joint`), taps in the order of the weights
    groups: int  # groups of channels
    width: int  # a row is padded to a multiple of this number of elements

    identity = False
    th = 1

    @property
    def dtype(self) -> DType:
        """Storage type of the source."""
        return self.image.dtype

    @property
    def icg(self) -> int:
        """Input channels of a group."""
        return self.image.channels // self.groups

    @property
    def tw(self) -> int:
        """Elements of a row."""
        return self.icg * self.image.planes()

    def planes(self) -> int:
        """One row per pixel."""
        return 1

    def channel_size(self, rows: int | None = None) -> int:
        """Elements from row to row."""
        return -(-self.tw // self.width) * self.width

    def offset(self, ry: int, cx: int, rows: int | None = None) -> int:
        """The only tap is the row itself."""
        return 0

    def nbytes(self) -> int:
        """Bytes of scratch."""
        rows = self.groups * self.image.columns
        return rows * self.channel_size() * acc_size(self.dtype) + SLACK_BYTES

    def cycles(self, target: Target) -> float:
        """Estimated cycles to gather all rows."""
        each = 1.5 if gathers(target, self.dtype) else 4.0
        return self.groups * self.image.columns * (self.channel_size() * each + 20.0)


def _row_tables(j: Joint, period: int) -> str:
    """Globals: row, column and source element of the tap that each lane of a period meets."""
    taps = [j.taps[i % len(j.taps)] for i in range(period)]
    at = [i // len(j.taps) * j.ih * j.iw + ry * j.iw + cx for i, (ry, cx) in enumerate(taps)]
    return (table32("ROW_TAP", [ry for ry, _ in taps]) + table32("COL_TAP", [cx for _, cx in taps])
            + table32("ROW_AT", at))


def pixel_rows_kernel(r: PixelRows, target: Target) -> Kernel:
    """Kernel over buffers (source, rows)."""
    j, width = r.image, lanes(target, r.dtype)
    plane, taps = j.ih * j.iw, j.planes()
    vectors = gathers(target, r.dtype)
    # Lanes meet channels and taps in a pattern that repeats after this many elements.
    period = lcm(taps, width) if vectors else taps

    def body(f: Function, bufs: list[V], unit: V) -> str:
        g, n, y, x = split_index(f, unit, [r.groups, j.n, j.gh, j.gw])
        channel = n * j.channels + g * r.icg
        iy, ix = y * j.sy, x * j.sx
        pixel = iy * j.iw + ix
        src = elem_ptr(f, bufs[0], channel * plane + pixel, r.dtype)
        dst = acc_ptr(f, bufs[1], unit * r.channel_size(), r.dtype)
        count = width if vectors else 1

        def element(block: V, i: V) -> None:
            """A vector (or one element) `i` elements into a period."""
            ty = vector("i32", count)

            def met(name: str, at: V, size: int) -> V:
                tap = lookup(f, name, i, ty)
                where = tap + f.splat(f.cast("trunc", at, "i32"), count)
                return f.cmp("ult", where, f.splat(V("i32", str(size)), count))

            ok = met("ROW_TAP", iy, j.ih) & met("COL_TAP", ix, j.iw)
            index = lookup(f, "ROW_AT", i, ty)
            at = block + i
            base = elem_ptr(f, src, block // taps * plane, r.dtype)
            out = acc_ptr(f, dst, at, r.dtype)
            if vectors:
                if r.tw % period:
                    left = f.i64(r.tw) - at
                    left = f.select(f.cmp("sgt", left, 0), left, f.i64(0))
                    ok = ok & f.tail_mask(left, count)
                f.store(gather(f, memory_type(r.dtype), base, index, ok), out)
                return
            wide = f.cast("sext", index, "i64")
            # A tap outside the image must not be read: the pixel itself always can.
            value = f.load(memory_type(r.dtype), elem_ptr(f, base, f.select(
                ok, wide, f.i64(0) - pixel), r.dtype))
            value = from_memory(f, value, r.dtype)
            f.store(f.select(ok, value, f.const(value.ty, 0.0)), out)

        end = r.channel_size() if vectors else r.tw

        def blocks(block: V, _: list[V]) -> None:
            left = f.i64(end) - block
            some = f.select(f.cmp("slt", left, period), left, f.i64(period))
            f.loop(0, some if end % period else period, count, [], lambda i, _: element(block, i))

        f.loop(0, end, period, [], blocks)
        return _row_tables(j, period)

    units = r.groups * j.columns
    return task_kernel(target, 2, units, r.cycles(target) / units, body)


@dataclass(frozen=True)
class Product:
    """Backward-weight as a matrix product."""

    rows: PixelRows  # the matrix of the image
    dy: Joint  # the output's gradient, pixels of all images side by side
    # problem, tiling: the product for the tile kernel
    problem: TapConv
    tiling: Tiling
    cycles: float  # estimated cycles in all

    def plan(self, target: Target) -> Plan:
        """Kernels from roles `x` and `dy` to `out`."""
        plan = Plan()
        plan.scratch["x_rows"] = self.rows.nbytes()
        plan.add(pixel_rows_kernel(self.rows, target), "x", "x_rows")
        dy = "dy"
        if self.dy.n > 1 or is_half(self.dy.dtype):
            dy = "dy_joint"
            plan.scratch[dy] = self.dy.nbytes()
            plan.add(gather_kernel(self.dy, target), "dy", dy)
        plan.add(tap_kernel(self.problem, self.tiling, target), "x_rows", dy, "out")
        return plan


def choose_product(x: Joint, dy: Joint, groups: int, target: Target) -> Product | None:
    """The product, or None where its matrices would be large."""
    source = x.n * x.channels * x.ih * x.iw
    if x.columns > _MOST_PIXELS or source >= 1 << 29:
        return None
    width = lanes(target, x.dtype)
    rows = PixelRows(x, groups, width)
    ocg, pixels = dy.channels // groups, x.columns
    acc = float32 if is_half(x.dtype) else x.dtype
    problem = TapConv(rows, 1, groups, ocg, pixels, (Phase(((0, 0, 0),)),),
                      (ocg * pixels, pixels, 1), x.dtype)
    mr, nv, step = choose_tile(target, ocg, -(-rows.tw // width))
    stored = groups * ocg * rows.tw * acc_size(acc) / 12
    cycles = _ALIGNED * (groups * step * pixels + stored)
    kb = max(8, _BLOCK_BYTES // (rows.channel_size() * acc_size(acc)))
    kb = pixels if is_half(x.dtype) else -(-pixels // -(-pixels // kb))
    wanted = max(1, min(WANTED_TASKS // 2, int(cycles / TASK_CYCLES)))
    need = -(-wanted // groups)
    blocks = min(-(-ocg // mr), need)
    chunks = min(-(-rows.tw // (width * nv)), -(-need // blocks))
    tiling = Tiling(width, mr, nv, blocks, chunks, kb, 0, False, cycles)
    cycles += 0.8 * rows.cycles(target)
    if dy.n > 1 or is_half(dy.dtype):
        cycles += dy.channels * dy.cycles(target)
    return Product(rows, dy, problem, tiling, cycles)
