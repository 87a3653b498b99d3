"""Backward-weight kernels: `dw[oc, ic, kh, kw] = sum over (n, oy, ox) of dy * x`.

Two mappings, whose order of additions `loops/order.py` gives and chooses:

- *channel lanes* (`ChannelLanes`): vectors over output channels of a transposed `dy`, pixels of a
  zero-padded `x` broadcast.
- *pixel lanes* (`PixelLanes`), for few output channels (depthwise): vectors over pixels of `dy`
  and of the unfolded `x`, in as many sweeps as it takes vectors to hold the chains.

The images are cut into `splits` runs, whose partial results are added in order.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import NamedTuple

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass, field
from cellc_runtime.target import Target

from .....ir.dims import estimate, is_symbolic, largest
from .....loops.order import PIXEL_CHAINS, image_runs
from .....lower.kernel import Kernel
from ....llvm.convert import register_type
from ....llvm.reduction import total
from ....llvm.text import Function, V, first_lanes, sizeof, transpose, vector
from ..vectors import (
    TASK_CYCLES,
    WANTED_TASKS,
    Window,
    acc_ptr,
    acc_size,
    elem_ptr,
    known_table,
    lanes,
    lanes_below,
    load_acc,
    minimum,
    number_at,
    numbers,
    split_index,
    store_acc,
    task_kernel,
)
from .taps import _split_cost
from .unfold import SLACK_BYTES, Unfold

_CHUNK_PIXELS = 128


class Taps(NamedTuple):
    """The window of a convolution: sizes, stride and dilation (rows, columns)."""

    kh: int
    kw: int
    stride: tuple[int, int]
    dilation: tuple[int, int]


@dataclass(frozen=True)
class WeightProblem:
    """Sizes of a backward-weight problem."""

    # n, groups, ocg, icg: images, groups, channels per group
    n: int
    groups: int
    ocg: int
    icg: int
    # oh, ow: output image
    oh: int
    ow: int
    taps: Taps  # the window
    dtype: DType  # storage type of x, dy and dw

    @property
    def pixels(self) -> int:
        """Pixels of an output image."""
        return self.oh * self.ow

    @property
    def window(self) -> int:
        """Taps of the window."""
        return self.taps.kh * self.taps.kw

    @property
    def size(self) -> int:
        """Elements of dw."""
        return self.groups * self.ocg * self.icg * self.window

    @property
    def splits(self) -> int:
        """Runs of images."""
        return image_runs(self.n, self.size, self.n * self.pixels * self.size)

    def images(self, f: Function, split: V, splits: int) -> tuple[V, V]:
        """The first image of a run, and the one after its last."""
        count = -(-self.n // splits)
        first = split * count
        return first, minimum(f, first + count, self.n)


# --- channel lanes ---------------------------------------------------------------------------


@dataclass(frozen=True)
class ChannelLanes:
    """Tile of the channel-lanes mapping."""

    p: WeightProblem
    # width, nv: lanes of a vector, vectors of output channels in a tile
    width: int
    nv: int
    ics: int  # input channels in a tile (with all taps), or 1
    kws: int  # taps of a window row in a tile when not all taps fit; 0 when they do
    cycles: float  # estimated cycles of the tile kernel

    @property
    def channels(self) -> int:
        """Output channels of a tile (padded)."""
        return self.width * self.nv

    @property
    def tiles(self) -> int:
        """Tiles of output channels per group."""
        return -(-self.p.ocg // self.channels)

    @property
    def padded_pixels(self) -> int:
        """Pixels of a transposed image, a whole number of vectors."""
        return -(-self.p.pixels // self.width) * self.width

    @property
    def dy_size(self) -> int:
        """Accumulators of the transposed dy."""
        return self.p.n * self.p.groups * self.tiles * self.padded_pixels * self.channels

    @property
    def rows(self) -> int:
        """Rows `(ic, tap)` of the transposed result of one group."""
        return self.p.icg * self.p.window

    def part_bytes(self, splits: int) -> int:
        """Bytes of the partial results, with room for a block of rows past the end."""
        rows = splits * self.p.groups * self.tiles * self.rows + self.width
        return rows * self.channels * acc_size(self.p.dtype) + SLACK_BYTES


def choose_channel_lanes(p: WeightProblem, target: Target) -> ChannelLanes:
    """The cheapest tile for the channel-lanes mapping."""
    width, n = lanes(target, p.dtype), estimate(p.n)
    regs = target.vector_registers
    best: ChannelLanes | None = None
    for nv in range(1, min(6, -(-p.ocg // width)) + 1):
        most = (regs - 1 - nv) // nv
        tiles = -(-p.ocg // (width * nv))

        def step(rows: int, nv: int = nv) -> float:
            loads = (rows + nv) / 2
            return max(rows * nv / 2, loads, (rows * nv + rows + nv + 3) / 6, 4.0)

        if p.window <= most:
            options = [(i, 0, _split_cost(p.icg, i, lambda c: step(c * p.window)))
                       for i in range(1, min(p.icg, most // p.window) + 1)]
        else:
            options = [(1, k, p.icg * p.taps.kh * _split_cost(p.taps.kw, k, step))
                       for k in range(1, min(p.taps.kw, most) + 1)]
        for ics, kws, cost in options:
            cycles = n * p.groups * tiles * estimate(p.pixels) * cost
            if best is None or cycles < best.cycles:
                best = ChannelLanes(p, width, nv, ics, kws, cycles)
    assert best is not None
    return best


def transpose_dy_kernel(t: ChannelLanes, target: Target) -> Kernel:
    """Kernel over (dy, dy_t): `[n, oc, pixels]` to `[n, g, tile, padded pixels, channels]`."""
    p, width = t.p, t.width
    dims = [p.n, p.groups, t.tiles]

    def body(f: Function, bufs: list[V], unit: V) -> None:
        n, g, tile = split_index(f, unit, dims)
        plane = (n * p.groups + g) * p.ocg
        window = Window(p.dtype, 1, width)

        def block(q: V, c: V) -> None:
            rows = []
            for i in range(width):
                m = tile * t.channels + c + i
                live = f.select(f.cmp("slt", m, p.ocg), f.i64(p.pixels), f.i64(0))
                src = elem_ptr(f, bufs[0], (plane + m) * p.pixels, p.dtype)
                rows.append(window.load(f, src, q, live))
            for i, v in enumerate(transpose(f, rows)):
                at = (unit * t.padded_pixels + (q + i)) * t.channels + c
                f.store(v, acc_ptr(f, bufs[1], at, p.dtype))

        f.loop(0, t.padded_pixels, width, [], lambda q, _: f.loop(
            0, t.channels, width, [], lambda c, _: block(q, c)) and None)

    units = p.n * p.groups * t.tiles
    return task_kernel(target, 2, units, t.padded_pixels * t.nv * 8.0, body)


def _unit_channels(t: ChannelLanes, splits: int) -> int:
    """Input channels of one unit of work: whole tiles, partial results that fit the L1 cache."""
    p = t.p
    cached = max(1, 24 * 1024 // (p.window * t.channels * acc_size(p.dtype)))
    others = estimate(splits) * p.groups * t.tiles
    wanted = min(WANTED_TASKS, int(t.cycles / TASK_CYCLES))
    spread = -(-p.icg // max(1, -(-wanted // others)))
    return max(t.ics, min(cached, spread) // t.ics * t.ics)


@dataclass(slots=True)
class _ChannelWriter:
    """Writes the channel-lanes tile kernel."""

    t: ChannelLanes
    splits: int
    u: Unfold
    f: Function
    bufs: list[V]

    def unit(self, unit: V) -> None:
        """One (split, group, channel tile, block of input channels)."""
        f, t, p = self.f, self.t, self.t.p
        per = _unit_channels(t, self.splits)
        split, g, tile, block = split_index(
            f, unit, [self.splits, p.groups, t.tiles, -(-p.icg // per)])
        lo = block * per
        hi = minimum(f, lo + per, p.icg)
        row = ((split * p.groups + g) * t.tiles + tile) * t.rows
        part = acc_ptr(f, self.bufs[2], row * t.channels, p.dtype)
        self._clear(part, lo, hi)
        first, last = p.images(f, split, self.splits)

        def image(n: V, _: list[V]) -> None:
            ng = n * p.groups + g
            dy = (ng * t.tiles + tile) * t.padded_pixels
            dy_ptr = acc_ptr(f, self.bufs[1], dy * t.channels, p.dtype)
            x = acc_ptr(f, self.bufs[0], ng * (p.icg * self.u.channel_size()), p.dtype)
            step = max(1, _CHUNK_PIXELS // estimate(p.ow))
            f.loop(0, p.oh, step, [], lambda y, _: self._channels(x, dy_ptr, part, lo, hi, y, step))

        f.loop(first, last, 1, [], image)

    def _clear(self, part: V, lo: V, hi: V) -> None:
        f, t, p = self.f, self.t, self.t.p
        size = p.window * t.channels
        zero = f.zero(vector(register_type(p.dtype), t.width))
        f.loop(lo * size, hi * size, t.width, [],
               lambda i, _: f.store(zero, acc_ptr(f, part, i, p.dtype)))

    def _channels(self, x: V, dy: V, part: V, lo: V, hi: V, y: V, step: int) -> None:
        """All tiles of input channels for the output rows `y .. y + step - 1`."""
        f, t, p = self.f, self.t, self.t.p
        y1 = minimum(f, y + step, p.oh) if p.oh % step else y + step

        def tile(ic: V, ics: int) -> None:
            base = acc_ptr(f, x, ic * self.u.channel_size(), p.dtype)
            out = acc_ptr(f, part, ic * (p.window * t.channels), p.dtype)
            self._taps(base, dy, out, ics, y, y1)

        rest = p.icg % t.ics
        whole = minimum(f, hi, p.icg - rest) if rest else hi
        f.loop(lo, whole, t.ics, [], lambda ic, _: tile(ic, t.ics))
        if rest:
            f.when(f.cmp("eq", hi, p.icg), lambda: tile(f.i64(p.icg - rest), rest))

    def _taps(self, x: V, dy: V, out: V, ics: int, y: V, y1: V) -> None:
        """All taps of a tile of input channels, in one tile or window row by window row."""
        f, t, p = self.f, self.t, self.t.p
        (dr, dc), pitch = p.taps.dilation, self.u.tw
        if not t.kws:
            offsets = [
                i * self.u.channel_size() + a * dr * pitch + b * dc
                for i in range(ics) for a in range(p.taps.kh) for b in range(p.taps.kw)
            ]
            self._tile(x, dy, out, offsets, y, y1)
            return

        def window_row(a: V, _: list[V]) -> None:
            line = acc_ptr(f, x, a * (dr * pitch), p.dtype)
            for b in range(0, p.taps.kw, t.kws):
                ptr = acc_ptr(f, out, (a * p.taps.kw + b) * t.channels, p.dtype)
                cols = range(b, min(b + t.kws, p.taps.kw))
                self._tile(line, dy, ptr, [c * dc for c in cols], y, y1)

        f.loop(0, p.taps.kh, 1, [], window_row)

    def _tile(self, x: V, dy: V, out: V, offsets: list[int], y: V, y1: V) -> None:
        """Accumulate rows (constant offsets from `x`) times the channel vectors of `dy`."""
        f, t, p = self.f, self.t, self.t.p
        el, ty = register_type(p.dtype), vector(register_type(p.dtype), t.width)
        slots = [f.gep(out, r * t.channels + j * t.width, el)
                 for r in range(len(offsets)) for j in range(t.nv)]
        acc = [f.load(ty, s) for s in slots]

        def pixel(_: V, c: list[V]) -> list[V]:
            xp, dp = c[0], c[1]
            vs = [f.load(ty, f.gep(dp, j * t.width, el)) for j in range(t.nv)]
            new = []
            for r, offset in enumerate(offsets):
                wide = f.splat(f.load(el, f.gep(xp, offset, el)), t.width)
                new += [f.fma(wide, vs[j], c[2 + r * t.nv + j]) for j in range(t.nv)]
            return [f.gep(xp, p.taps.stride[1], el), f.gep(dp, t.channels, el), *new]

        def row(oy: V, c: list[V]) -> list[V]:
            xr = f.gep(x, oy * (p.taps.stride[0] * self.u.tw), el)
            dr = f.gep(dy, oy * (p.ow * t.channels), el)
            return f.loop(0, p.ow, 1, [xr, dr, *c], pixel)[2:]

        for slot, v in zip(slots, f.loop(y, y1, 1, acc, row), strict=True):
            f.store(v, slot)


def channel_kernel(t: ChannelLanes, splits: int, u: Unfold, target: Target) -> Kernel:
    """Kernel over (padded x, dy_t, part): partial results `[split, g, tile, ic, tap, channel]`."""
    p = t.p
    units = splits * p.groups * t.tiles * -(-p.icg // _unit_channels(t, splits))

    def body(f: Function, bufs: list[V], unit: V) -> None:
        _ChannelWriter(t, splits, u, f, bufs).unit(unit)

    return task_kernel(target, 3, units, t.cycles / units, body)


def gather_kernel(t: ChannelLanes, splits: int, target: Target) -> Kernel:
    """Kernel over (part, dw): adds the splits in order, transposes and rounds."""
    p, width = t.p, t.width
    blocks = -(-t.rows // width)
    el, ty = register_type(p.dtype), vector(register_type(p.dtype), width)
    stride = p.groups * t.tiles * t.rows * t.channels

    def body(f: Function, bufs: list[V], unit: V) -> None:
        g, tile, block = split_index(f, unit, [p.groups, t.tiles, blocks])
        k = block * width
        part = f.gep(bufs[0], ((g * t.tiles + tile) * t.rows + k) * t.channels, el)

        def column(c: V, _: list[V]) -> None:
            def load(s: V) -> list[V]:
                base = f.gep(part, s * stride + c, el)
                return [f.load(ty, f.gep(base, i * t.channels, el)) for i in range(width)]

            def add(s: V, acc: list[V]) -> list[V]:
                return [a + b for a, b in zip(acc, load(s), strict=True)]

            rows = f.loop(1, splits, 1, load(f.i64(0)), add)
            for i, v in enumerate(transpose(f, rows)):
                m = tile * t.channels + c + i
                live = f.select(f.cmp("slt", m, p.ocg), f.i64(t.rows) - k, f.i64(0))
                at = (g * p.ocg + m) * t.rows + k
                store_acc(f, v, elem_ptr(f, bufs[1], at, p.dtype), p.dtype,
                          f.tail_mask(live, width))

        f.loop(0, t.channels, width, [], column)

    units = p.groups * t.tiles * blocks
    return task_kernel(target, 2, units, t.channels * (6.0 + 1.5 * splits), body)


# --- pixel lanes -----------------------------------------------------------------------------


@dataclass(frozen=True)
class PixelLanes:
    """Tile of the pixel-lanes mapping: `mr` output channels times `taps` taps."""

    p: WeightProblem
    width: int
    mr: int
    taps: int  # all taps of the window, or a divisor of the taps of a window row
    cycles: float  # estimated cycles of the tile kernel


def choose_pixel_lanes(p: WeightProblem, target: Target) -> PixelLanes:
    """The cheapest tile for the pixel-lanes mapping."""
    width = lanes(target, p.dtype)
    regs = target.vector_registers
    vectors = -(-estimate(p.pixels) // width)
    best: PixelLanes | None = None
    divisors = {d for d in range(1, p.taps.kw + 1) if p.taps.kw % d == 0} | {p.window}
    for taps in sorted(divisors):
        for mr in range(1, min(p.ocg, 12) + 1):
            if mr * taps + (taps if mr > 1 else 1) + 1 > regs:
                continue

            def tile(rows: int, taps: int = taps) -> float:
                step = max(rows * taps / 2, (rows + 1.75 * taps) / 2, 4.0)
                return estimate(p.n) * vectors * step + 12.0 * rows * taps

            cycles = p.groups * p.icg * (p.window // taps) * _split_cost(p.ocg, mr, tile)
            if best is None or cycles < best.cycles:
                best = PixelLanes(p, width, mr, taps, cycles)
    if best is None:
        raise AssertionError("one row and one tap fit any register file")
    return best


@dataclass(slots=True)
class _PixelWriter:
    """Writes the pixel-lanes tile kernel."""

    t: PixelLanes
    splits: int
    u: Unfold
    offsets: tuple[int, ...]
    f: Function
    bufs: list[V]
    _state: list[V] = field(default_factory=list)
    _places: list[V] = field(default_factory=list)

    def unit(self, unit: V) -> None:
        """One (split, group, input channel)."""
        f, t, p = self.f, self.t, self.t.p
        split, g, ic = split_index(f, unit, [self.splits, p.groups, p.icg])
        first, last = p.images(f, split, self.splits)
        x = acc_ptr(f, self.bufs[0], (g * p.icg + ic) * self.u.channel_size(), p.dtype)
        out_row = split * p.groups + g
        out = out_row * p.ocg * p.icg + ic
        self._state = [first, last, x, g * p.ocg, out]
        self._places = [numbers(f, "TAP_X", self.offsets)]
        full, rest = divmod(p.ocg, t.mr)
        f.loop(0, full * t.mr, t.mr, [], lambda m, _: self._groups(m, t.mr))
        if rest:
            self._groups(f.i64(full * t.mr), rest)

    def _groups(self, m: V, mr: int) -> None:
        self.f.loop(0, self.t.p.window, self.t.taps, [], lambda t, _: self._tile(m, mr, t))

    def _tile(self, m: V, mr: int, tap: V) -> None:
        """`mr` output channels times `taps` taps, summed over all images of the split."""
        f, t, p = self.f, self.t, self.t.p
        first, last, x, g_row, out = self._state
        if t.taps == p.window:
            deltas, base = list(self.offsets), f.i64(0)
        else:
            deltas = [j * self.u.plane_size() for j in range(t.taps)]
            base = number_at(f, self._places[0], tap)
        zeros = [f.zero(vector(register_type(p.dtype), t.width))] * (mr * t.taps)

        chains = 4 * PIXEL_CHAINS // acc_size(p.dtype)

        def image(n: V, acc: list[V], begin: int) -> list[V]:
            at = n * (p.groups * p.icg * self.u.channel_size())
            xp = acc_ptr(f, x, at + base, p.dtype)
            row = n * (p.groups * p.ocg) + g_row + m
            dy = elem_ptr(f, self.bufs[1], row * p.pixels, p.dtype)
            whole = largest(0, (p.pixels - begin - t.width) // chains + 1)
            end = begin + whole * chains
            acc = f.loop(begin, end, chains, acc,
                         lambda q, c: self._step(xp, dy, q, mr, deltas, c, None))
            if is_symbolic(p.pixels):
                rest = f.i64(p.pixels - end)
                return f.when(f.cmp("sgt", rest, 0), lambda: self._step(
                    xp, dy, f.i64(end), mr, deltas, acc, lanes_below(f, rest, t.width)),
                    lambda: acc)
            if p.pixels > end:
                mask = first_lanes(p.pixels - end, t.width)
                acc = self._step(xp, dy, f.i64(end), mr, deltas, acc, mask)
            return acc

        if chains == t.width:
            sweeps = [f.loop(first, last, 1, zeros, partial(image, begin=0))]
        else:  # an image stays near for all sweeps, whose accumulators wait on the stack
            waiting = [[f.alloca(sizeof(v.ty)) for v in zeros] for _ in range(chains // t.width)]
            for place in chain.from_iterable(waiting):
                f.store(zeros[0], place)

            def images(n: V, _: list[V]) -> None:
                for sweep, places in enumerate(waiting):
                    acc = [f.load(zeros[0].ty, at) for at in places]
                    acc = image(n, acc, sweep * t.width)
                    for v, at in zip(acc, places, strict=True):
                        f.store(v, at)

            f.loop(first, last, 1, [], images)
            sweeps = [[f.load(zeros[0].ty, at) for at in places] for places in waiting]
        for i in range(mr):
            row = out + (m + i) * p.icg
            for j in range(t.taps):
                at = row * p.window + (tap + j)
                f.store(total(f, [acc[i * t.taps + j] for acc in sweeps]),
                        acc_ptr(f, self.bufs[2], at, p.dtype))

    def _step(self, x: V, dy: V, q: V, mr: int, deltas: list[int], acc: list[V],
              mask: V | None) -> list[V]:
        """One vector of pixels. Dead lanes read 0 on both sides: the unfolded image's own
        garbage could be a NaN."""
        f, t, p = self.f, self.t, self.t.p
        el, ty = register_type(p.dtype), vector(register_type(p.dtype), t.width)
        xq = f.gep(x, q, el)

        xs = [f.masked_load(ty, f.gep(xq, d, el), mask) for d in deltas]
        out = []
        for i in range(mr):
            ptr = elem_ptr(f, dy, q + i * p.pixels, p.dtype)
            v = load_acc(f, ptr, p.dtype, t.width, mask)
            out += [f.fma(v, xv, acc[i * t.taps + j]) for j, xv in enumerate(xs)]
        return out


def pixel_kernel(
    t: PixelLanes, splits: int, u: Unfold, offsets: tuple[int, ...], target: Target
) -> Kernel:
    """Kernel over (unfolded x, dy, part): partial results `[split, oc, ic, tap]`.

    `offsets` are the window offsets of all taps in an unfolded channel.
    """
    units = splits * t.p.groups * t.p.icg

    def body(f: Function, bufs: list[V], unit: V) -> str:
        _PixelWriter(t, splits, u, offsets, f, bufs).unit(unit)
        return known_table("TAP_X", offsets)

    return task_kernel(target, 3, units, t.cycles / units, body)


def sum_kernel(p: WeightProblem, splits: int, target: Target) -> Kernel:
    """Kernel over (part, dw): adds the splits in order and rounds."""
    width = lanes(target, p.dtype)
    block = 16 * width

    def body(f: Function, bufs: list[V], unit: V) -> None:
        start = unit * block
        ty = vector(register_type(p.dtype), width)

        def step(i: V, _: list[V]) -> None:
            at = start + i
            left = f.select(f.cmp("slt", at, p.size), f.i64(p.size) - at, f.i64(0))
            mask = f.tail_mask(left, width)

            def load(s: V) -> V:
                ptr = acc_ptr(f, bufs[0], s * p.size + at, p.dtype)
                return f.masked_load(ty, ptr, mask)

            total = f.loop(1, splits, 1, [load(f.i64(0))], lambda s, c: [c[0] + load(s)])[0]
            store_acc(f, total, elem_ptr(f, bufs[1], at, p.dtype), p.dtype, mask)

        f.loop(0, block, width, [], step)

    units = -(-p.size // block)
    return task_kernel(target, 2, units, 16 * (3.0 + splits), body)
