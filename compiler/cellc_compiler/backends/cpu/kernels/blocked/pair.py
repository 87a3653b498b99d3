"""A convolution and the depthwise one that reads it as one kernel (see `blocked/conv.py`).

An inverted residual block widens an image sixfold, filters each channel by itself and narrows it
again. The image between the first two is the largest of the network; written and read again, it
costs more than the arithmetic. Here a task computes a band of rows of the second result for a few
blocks of channels. The rows of the first that a window reaches live in a ring in the task's caches:
for each row of the second those that are new are computed over the oldest ones. They have the
border that the image would have. Rows at the edge of two bands are computed twice.

Each element has the chain and the epilogue it has alone, so the bits stay.
"""

from __future__ import annotations

from collections.abc import Callable

from cellc_runtime import records
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from .....ir.dims import estimate
from .....lower.kernel import Kernel
from ....llvm.text import Function, V
from ..vectors import acc_size, minimum, split_index, task_kernel
from .conv import BlockEpilogue, Spot, Writer, chunks, tile_start
from .tile import BlockConv, Tile, choose_tile

_RING_BYTES = 128 << 10
"""Bytes of a ring: it stays in the second-level cache together with the task's inputs."""
_SHARE_BYTES = 24 << 10
"""Bytes of a ring of several blocks: more than one share a tile if the first-level cache holds it
beside what they read."""
_NEAR_BYTES = 1 << 20
"""So many bytes of an image are found again in a core's second-level cache, if it wrote them."""
_NEAR_CYCLES = 1 / 24
_FAR_CYCLES = 1 / 7
"""Cycles to read or write a byte of an image that is, and of one that is not."""
_FIRST_LEVEL_BYTES = 32 << 10  # Weights of a task of more bytes are read anew for each tile
_WIDEST = 2
"""More channel vectors of a tile make short chains shorter than their stores to the ring."""
_KERNEL = 1.15
"""The relative time of two kernels estimated to take as long: measured on MobileNetV2."""
_UNROLLED_FMAS = 300
_THREADS = (2, 4)  # Tasks are cut so that as many threads would share them out evenly


@dataclass(frozen=True, slots=True)
class Pair:
    """How two convolutions are computed as one."""

    # first, second: the problems; the second is depthwise and reads the whole of the first
    first: BlockConv
    second: BlockConv
    # tile, row: the register tiles of the first and of the second, each within a row
    tile: Tile
    row: Tile
    # bands, per: bands of rows of the second, and rows of a band
    bands: int
    per: int
    cycles: float  # estimate for one image

    @property
    def reach(self) -> int:
        """Rows of the first that a window covers."""
        return reach_of(self.second)

    @property
    def groups(self) -> int:
        """Groups of blocks of channels."""
        return self.first.out_blocks // self.tile.ov


def reach_of(p: BlockConv) -> int:
    """Rows that a window covers."""
    return (p.kh - 1) * p.dilation[0] + 1


def fits(first: BlockConv, second: BlockConv) -> bool:
    """Whether the second reads the first as this kernel computes it."""
    return (second.depthwise and not first.depthwise and first.spread == second.spread == (1, 1)
            and first.bo == second.bi == second.bo and first.oc == second.c
            and first.out_plane == (second.ph, second.pw) and first.n == second.n
            and first.dtype == second.dtype
            and _ring_bytes(second, 1) <= _RING_BYTES)


def _ring_bytes(second: BlockConv, ov: int) -> int:
    return ov * reach_of(second) * second.pw * second.bo * acc_size(second.dtype)


def choose_pair(first: BlockConv, second: BlockConv, target: Target) -> Pair:
    """The cheapest way, of two problems that fit."""
    first, second = (records.replace(p, by_rows=True) for p in (first, second))
    widest = max(1, min(_WIDEST, _SHARE_BYTES // _ring_bytes(second, 1)))
    tile = choose_tile(first, target, widest)
    row = choose_tile(second, target)
    groups = first.out_blocks // tile.ov
    best: Pair | None = None
    for bands, per in dict.fromkeys(chunks(second.oh, n) for n in range(1, second.oh + 1)):
        rows = _computed(first, second, per)
        work = tile.cycles * rows / first.oh + row.cycles
        moved = _read_again(first, tile, rows)
        cycles = _hidden(work, moved) * _idle(estimate(first.n) * groups * bands)
        if best is None or cycles < best.cycles:
            best = Pair(first, second, tile, row, bands, per, cycles)
    assert best is not None
    return best


def _hidden(work: float, moved: float) -> float:
    """Return the cycles of a kernel whose arithmetic and whose bytes take these, each by itself.
    The processor fetches ahead, so the less of the time bytes are, the more of them is hidden."""
    return work + moved * moved / max(work + moved, 1.0)


def _read_again(first: BlockConv, tile: Tile, rows: int) -> float:
    """Cycles to read again what no near cache holds: the image for each group of blocks, and the
    weights of a group for each tile. (Bands of an image do not stay near either: what they compute
    passes through the same cache.)"""
    size = acc_size(first.dtype)
    groups = first.out_blocks // tile.ov
    image = first.in_blocks * first.ph * first.pw * first.bi * size
    weights = tile.ov * first.bo * first.chain * size
    cycles = 0.0
    if image > _NEAR_BYTES:
        cycles += image * rows / first.oh * groups * _FAR_CYCLES
    if weights > _FIRST_LEVEL_BYTES:
        cycles += weights * groups * rows * -(-first.ow // tile.tc) * _NEAR_CYCLES
    return cycles


def _idle(units: int) -> float:
    """Return the time of tasks relative to their work; few never balance fully."""
    shares = sum(-(-units // t) * t for t in _THREADS) / (len(_THREADS) * units)
    return shares * (1 + 0.5 / units)


def _computed(first: BlockConv, second: BlockConv, per: int) -> int:
    """Rows of the first that bands of `per` rows of the second compute, borders left out."""
    rows, start = 0, 0
    top, below = first.border[0], first.border[0] + first.oh
    reach = reach_of(second)
    while start < second.oh:
        stop = min(start + per, second.oh)
        low = second.origin[0] + start * second.stride[0]
        high = second.origin[0] + (stop - 1) * second.stride[0] + reach
        rows += max(0, min(high, below) - max(low, top))
        start = stop
    return rows


def pays(pair: Pair, target: Target) -> bool:
    """Whether it takes less time than two kernels with the image between them in memory."""
    first, second = (records.replace(p, by_rows=False) for p in (pair.first, pair.second))
    height, width = first.out_plane
    nbytes = first.out_blocks * height * width * first.bo * acc_size(first.dtype)
    moved = nbytes * (_NEAR_CYCLES if estimate(first.n) * nbytes <= _NEAR_BYTES else _FAR_CYCLES)
    apart = sum(_hidden(choose_tile(p, target).cycles, moved) for p in (first, second))
    return pair.cycles < _KERNEL * apart


def pair_kernel(
    pair: Pair, target: Target, epilogues: tuple[BlockEpilogue | None, BlockEpilogue | None],
    extra: int,
) -> Kernel:
    """Kernel over (x, packed weights of the first, those of the second, out, *extra)."""

    def body(f: Function, bufs: list[V], unit: V) -> None:
        ring = f.alloca(_ring_bytes(pair.second, pair.tile.ov))
        first = Writer(pair.first, pair.tile, f, [bufs[0], bufs[1], ring], epilogues[0])
        second = Writer(pair.second, pair.row, f, [ring, bufs[2], bufs[3]], epilogues[1])
        n, band, group = split_index(f, unit, [pair.first.n, pair.bands, pair.groups])
        _Task(pair, f, first, second, n, group).run(band)

    units = pair.first.n * pair.bands * pair.groups
    return task_kernel(target, 4 + extra, units, pair.first.n * pair.cycles / units, body)


@dataclass(slots=True)
class _Task:
    """Writes what a task does: a band of rows of an image for a group of channels."""

    pair: Pair
    f: Function
    first: Writer
    second: Writer
    n: V
    group: V

    @property
    def ring(self) -> V:
        """`[blocks][rows that a window covers][columns][B]`."""
        return self.first.bufs[2]

    @property
    def line(self) -> int:
        """Elements of a row of the ring."""
        return self.pair.second.pw * self.pair.second.bo

    @property
    def block(self) -> V:
        """The first block of channels."""
        return self.group * self.pair.tile.ov

    def run(self, band: V) -> None:
        """All rows of a band."""
        f, p, s = self.f, self.pair, self.pair.second
        start = band * p.per
        stop = minimum(f, start + p.per, s.oh)
        self._sides()
        if any(s.border):
            f.when(f.cmp("eq", band, 0), lambda: self._each_block(
                lambda j: self.second.write_border(self.n, self.block + j)))

        def row(y: V, c: list[V]) -> list[V]:
            top = self._top(y)
            low = c[0]
            if s.stride[0] > p.reach:  # rows between windows are not needed
                low = f.select(f.cmp("sgt", top, low), top, low)
            high = top + p.reach
            f.loop(low, high, 1, [], lambda r, _: self._fill(r))
            self._each_block(lambda j: self._filter(y, top, j))
            return [high]

        f.loop(start, stop, 1, [self._top(start)], row)

    def _top(self, y: V) -> V:
        """The first row that the windows of row `y` reach."""
        s = self.pair.second
        return y * s.stride[0] + s.origin[0]

    def _each_block(self, body: Callable[[V], None]) -> None:
        self.f.loop(0, self.pair.tile.ov, 1, [], lambda j, _: body(j))

    def _row(self, r: V, j: V | int = 0) -> V:
        """Where row `r` of the bordered image is in the ring, of the group's block `j`."""
        f, p = self.f, self.pair
        at = r % p.reach * self.line
        plane = p.reach * self.line
        skip = j * plane if isinstance(j, V) else f.i64(j * plane)
        return f.gep(self.ring, at + skip, self.first.ty)

    def _zeros(self, line: V, start: int, count: int) -> None:
        """Zeros in some pixels of a row."""
        self.first.zeros(self.f.gep(line, start * self.pair.second.bo, self.first.ty), count)

    def _sides(self) -> None:
        """The border at both sides of every row of the ring: no row writes there."""
        p, f = self.pair, self.f
        _, _, left, right = p.first.border
        if not left and not right:
            return

        def line(i: V, _: list[V]) -> None:
            at = f.gep(self.ring, i * self.line, self.first.ty)
            self._zeros(at, 0, left)
            self._zeros(at, p.second.pw - right, right)

        f.loop(0, p.tile.ov * p.reach, 1, [], line)

    def _fill(self, r: V) -> None:
        """Row `r` of the bordered first image, into the ring."""
        p, f = self.pair.first, self.f
        top, bottom, _, _ = p.border
        if not top and not bottom:
            self._compute(r)
            return
        y = r - top
        f.when(f.cmp("ult", y, p.oh), lambda: self._compute(y),
            lambda: self._each_block(lambda j: self._zeros(self._row(r, j), p.border[2], p.ow)))

    def _compute(self, y: V) -> None:
        """Row `y` of the first image."""
        p, t, f, w = self.pair.first, self.pair.tile, self.f, self.first
        block = self.block
        weights = w.weights(self.group)
        line = f.gep(self._row(y + p.border[0]), p.border[2] * p.bo, w.ty)

        def tile(index: V, w: Writer, col: V) -> None:
            accs = [f.const(w.vec, 0.0)] * (t.ov * w.t.tc)
            accs = w.chain(w.source(self.n, block, y, col), weights, index, accs)
            out = f.gep(line, col * p.bo, w.ty)
            w.stores(Spot(self.n, block, y, col, 0), accs, lambda at: f.gep(
                out, at[0] * self.pair.reach * self.line + at[2] * p.bo, w.ty))

        f.loop(0, -(-p.ow // t.tc), 1, [], lambda index, _: w.across(
            index, lambda writer, col: tile(index, writer, col)))

    def _filter(self, y: V, top: V, j: V) -> None:
        """Row `y` of the second image, from the ring."""
        p, t, f, w = self.pair.second, self.pair.row, self.f, self.second
        block = self.block + j
        weights = w.weights(block)
        unrolled = p.taps * t.tc <= _UNROLLED_FMAS
        lines = [self._row(top + a * p.dilation[0], j) for a in range(p.kh if unrolled else 0)]
        _, _, pitch, _ = w.out_steps
        out = self._out(block)

        def tile(index: V, _: list[V]) -> None:
            col = tile_start(f, index, t.tc, p.ow)
            x = col * (p.stride[1] * p.bi) + p.origin[1] * p.bi
            accs = [f.const(w.vec, 0.0)] * t.tc

            def taps(a: V | int, line: V, accs: list[V]) -> list[V]:
                at = a * p.kw * p.bo if isinstance(a, int) else a * (p.kw * p.bo)
                return w.row_taps(f.gep(line, x, w.ty), f.gep(weights, at, w.ty), accs, 0)

            if unrolled:
                for a, line in enumerate(lines):
                    accs = taps(a, line, accs)
            else:
                accs = f.loop(0, p.kh, 1, accs, lambda a, c: taps(
                    a, self._row(top + a * p.dilation[0], j), c))
            at = y * pitch + col * p.bo
            place = f.gep(out, at, w.ty)
            w.stores(Spot(self.n, block, y, col, 0), accs,
                     lambda at: f.gep(place, at[2] * p.bo, w.ty))

        f.loop(0, -(-p.ow // t.tc), 1, [], tile)

    def _out(self, block: V) -> V:
        """Where the second image begins, its border left out, of a block of channels."""
        f, w, p = self.f, self.second, self.pair.second
        images, planes, pitch, _ = w.out_steps
        at = self.n * images + block * planes + (p.border[0] * pitch + p.border[2] * p.bo)
        return f.gep(w.bufs[2], at, w.ty)
