"""The convolution tile kernel: rows of weights against windows of an unfolded image.

Computes, for every phase f, image n, group g, row m and grid pixel q,

    out[f, n, g, m, q] = chain over (k, t) of w[g, m, k, tap t] * x[n, g, k, offset(tap t) + q]

one FMA chain per element in the order k outermost, taps as listed, starting from 0. Vectors run
over pixels; `mr` rows times `nv` pixel vectors are accumulated in registers and the weights are
broadcast straight from their original layout (no packing: rows of a tile lie at constant
distances). Forward is one phase; backward-data of a strided convolution has one phase per
residue of the stride, each with its own taps, all in one kernel driven by tables.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass, replace
from cellc_runtime.target import Target

from .....ir.dims import estimate, is_symbolic
from .....lower.kernel import Kernel
from ....llvm.convert import register_type
from ....llvm.text import Function, V, first_lanes, vector
from ..vectors import (
    TASK_CYCLES,
    acc_ptr,
    acc_size,
    divmod_const,
    elem_ptr,
    is_half,
    known_table,
    lanes,
    lanes_below,
    load_acc,
    lookup,
    minimum,
    number_at,
    numbers,
    split_index,
    store_acc,
    table,
    task_kernel,
)
from .unfold import SLACK_BYTES, Unfold, Windows

Epilogue = Callable[[Function, V, V, V, int, V | None], V]
"""`(f, acc, channel, offset, lanes, mask) -> acc`: applied to an accumulator vector before its
store. `channel` is the output channel and `offset` the flat output index of lane 0 (i64 scalars);
`mask` is None when all lanes are live. Extra buffers are `bufs[3:]` of the kernel."""

_UNROLLED_FMAS = 112
_X_CHUNK_BYTES = 384 * 1024
_PANEL_BYTES = 28 * 1024
_SHORT_CHAIN = 256
_L2_WEIGHT_BYTES = 1 << 20
_RUN_BYTES = 2048
_LINE_BYTES = 64
_AHEAD = 3
_L2_BYTES = 2 << 20
_FAR_BYTES_PER_CYCLE = 8.0
_STACK_BYTES = 176 * 1024
_STACK_BYTES_L1 = 28 * 1024
_LEAST_BLOCK = 16
_COPY_ROWS = 32
_UNITS = 24
_FUSED_SHARE = 0.06


@dataclass(frozen=True)
class Phase:
    """The taps of one phase, in chain order."""

    # `(row offset, column offset, weight index)` of every tap; the weight index is the element
    # offset from `w[g, m, k]`
    taps: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class TapConv:
    """One tile-kernel problem."""

    # the window form of the source (per channel); an `Unfold` may be left to the tasks
    unfold: Windows
    # n, groups, m, k: images, groups, rows per group and chain channels per group
    n: int
    groups: int
    m: int
    k: int
    phases: tuple[Phase, ...]  # taps of every phase
    # elements between groups, rows and chain channels of the weights
    w_strides: tuple[int, int, int]
    out_dtype: DType  # storage type of the output (its accumulator type is the source's)

    @property
    def dtype(self) -> DType:
        """Storage type of the source."""
        return self.unfold.dtype

    @property
    def image(self) -> Unfold:
        """The unfolded form of each image, of a problem that has one."""
        assert isinstance(self.unfold, Unfold)
        return self.unfold

    @property
    def pixels(self) -> int:
        """Pixels of the output grid."""
        return self.unfold.th * self.unfold.tw

    @property
    def estimated(self) -> TapConv:
        """The problem of the sizes that costs are estimated for."""
        unfold = self.unfold.estimated if isinstance(self.unfold, Unfold) else self.unfold
        return replace(self, n=estimate(self.n), unfold=unfold)

    @property
    def longest(self) -> int:
        """Taps of the phase with most taps."""
        return max(len(p.taps) for p in self.phases)


@dataclass(frozen=True)
class Tiling:
    """Register tile and task grid of a `TapConv` on a target."""

    width: int
    # mr, nv: rows and pixel vectors of a tile
    mr: int
    nv: int
    # row_blocks, pixel_chunks: how rows and pixels are cut into units of work
    row_blocks: int
    pixel_chunks: int
    # chain channels of a block, whose weights stay in the L1 cache. Accumulators wait in the output
    # between blocks, which changes no bit.
    kb: int
    rows: int  # grid rows a unit unfolds for itself on its stack; 0 when it does not
    pixels_first: bool  # whether the loop over pixels is outside the loop over rows
    cycles: float  # estimated cycles of the whole problem


def tile_cycles(target: Target, mr: int, nv: int) -> float:
    """Estimated cycles of one step of the chain for a tile of `mr` rows and `nv` vectors."""
    wide = target.vector_bytes == 64
    # An unaligned vector load usually touches two cache lines.
    windows = nv * (2.0 if wide else 1.5)
    issue = (mr * nv + mr + nv + 3) / (6 if wide else 4)
    return max(mr * nv / 2, (mr + windows) / 2, issue, 4.0) + 0.25 * mr + 0.35 * windows + 0.5


def _max_rows(target: Target, nv: int) -> int:
    """Most rows whose accumulators, with `nv` windows and the weights in flight, fit the
    registers. LLVM schedules weight loads ahead where there are 32 registers, and spills."""
    spare = 3 if target.vector_registers > 16 else 1
    return (target.vector_registers - spare - nv) // nv


def _split_cost(total: int, tile: int, cost: Callable[[int], float]) -> float:
    full, rest = divmod(total, tile)
    return full * cost(tile) + (cost(rest) if rest else 0.0)


def _rows_cost(target: Target, m: int, mr: int, vectors: int) -> float:
    return _split_cost(m, mr, lambda rows: tile_cycles(target, rows, vectors))


def choose_tile(target: Target, m: int, vectors: int) -> tuple[int, int, float]:
    """The cheapest `(mr, nv)` for `m` rows and `vectors` pixel vectors, with its cycles."""
    best: tuple[float, int, int] | None = None
    for nv in range(1, min(vectors, 6) + 1):
        for mr in range(1, min(m, _max_rows(target, nv)) + 1):
            cost = _split_cost(vectors, nv, partial(_rows_cost, target, m, mr))
            # A remainder is a second copy of the code: worth it only for a real gain.
            cost *= 1.0 + 0.01 * (m % mr != 0) + 0.005 * (vectors % nv != 0)
            if best is None or cost < best[0] - 1e-9:
                best = (cost, mr, nv)
    assert best is not None
    return best[1], best[2], best[0]


def _chunk_rows(p: TapConv, pixels: int) -> int:
    """Most grid rows that `pixels` consecutive pixels touch, from any start."""
    return min(p.unfold.th, (pixels + p.unfold.tw - 2) // p.unfold.tw + 1)


def _large(p: TapConv) -> bool:
    """Whether the weights of a group exceed the L2 cache together with the windows."""
    return p.m * p.k * p.longest * acc_size(p.dtype) > _L2_WEIGHT_BYTES


def _channel_block(p: TapConv, pixels: int) -> int:
    """Chain channels per block, so that the windows of a tile stay in the L1 cache while its
    rows pass by. A half-precision output cannot hold accumulators between blocks."""
    limit = max(1, _PANEL_BYTES // (p.longest * pixels * acc_size(p.dtype)))
    if is_half(p.out_dtype) or p.k <= 2 * limit:
        return p.k
    return -(-p.k // -(-p.k // limit))


def _stack_tiles(p: TapConv, copied: Unfold, span: int, kb: int, tiles: int) -> int:
    """Pixel tiles whose windows fit the stack, 0 if not even one does."""
    budget = _STACK_BYTES if p.m > 4 else _STACK_BYTES_L1
    fits = 0
    for t in range(1, tiles + 1):
        rows = _chunk_rows(p, t * span)
        if kb * copied.channel_size(rows) * acc_size(p.dtype) > budget:
            break
        fits = t
    return fits


def choose_tiling(p: TapConv, target: Target) -> Tiling:
    """Tile and task grid from shapes and target."""
    tiling = _estimated_tiling(p.estimated, target)
    # A unit has room for rows of a known length only.
    return tiling if not is_symbolic(p.pixels) else replace(tiling, rows=0)


def _estimated_tiling(p: TapConv, target: Target) -> Tiling:
    """The same, of known sizes."""
    width = lanes(target, p.dtype)
    mr, nv, step = choose_tile(target, p.m, -(-p.pixels // width))
    taps = sum(len(f.taps) for f in p.phases)
    cycles = p.n * p.groups * (step * p.k * taps + 40.0 * len(p.phases))
    tiles = -(-p.pixels // (width * nv))
    kb = _channel_block(p, width * nv)
    first = kb < p.k or p.k * p.longest <= _SHORT_CHAIN
    wanted = max(1, min(_UNITS, int(cycles / TASK_CYCLES)))
    need = -(-wanted // (p.n * p.groups))
    row_tiles = -(-p.m // mr)

    def blocks(chunks: int) -> int:
        return min(row_tiles, -(-need // chunks))

    copied = replace(p.image, copied=True)
    whole_kb = kb
    while not (fits := _stack_tiles(p, copied, width * nv, kb, tiles)):
        if kb < _LEAST_BLOCK or is_half(p.out_dtype):
            break
        kb = -(-kb // 2)
    if fits and (p.m >= _COPY_ROWS or not p.unfold.identity):
        # Cheapest unfolding in all, and reading of the weights once per chunk.
        weights = p.m * p.longest * acc_size(p.dtype) / (8 if _large(p) else 64)

        def cost(t: int) -> float:
            chunks = -(-tiles // t)
            unfold = copied.cycles(target, _chunk_rows(p, t * width * nv))
            return chunks * (blocks(chunks) * unfold + weights)

        per = min(range(1, fits + 1), key=lambda t: (cost(t), -t))
        here = cost(per) * p.n * p.k * p.groups
        chunks = -(-tiles // per)
        rows = _chunk_rows(p, -(-tiles // chunks) * width * nv)
        once = copied.cycles(target) * p.n * p.k * p.groups
        once += weights * p.n * p.k * p.groups
        nbytes = p.image.nbytes(p.n * p.k * p.groups)
        once += nbytes / _FAR_BYTES_PER_CYCLE if nbytes > _L2_BYTES else 0.0
        if here <= 1.3 * once + _FUSED_SHARE * cycles:
            return Tiling(width, mr, nv, blocks(chunks), chunks, kb, rows, first or kb < p.k,
                          cycles + here)
    kb = whole_kb
    chunk_bytes = width * nv * kb * p.unfold.planes() * acc_size(p.dtype)
    chunks = max(1, min(tiles, tiles * chunk_bytes // _X_CHUNK_BYTES))
    chunks = max(chunks, min(tiles // 2, need))
    return Tiling(width, mr, nv, blocks(chunks), chunks, kb, 0, first, cycles)


@dataclass(frozen=True, slots=True)
class _Cut:
    """An axis cut into tiles, whole tiles dealt to parts."""

    total: int
    tile: int
    parts: int


@dataclass(slots=True)
class _Writer:
    """Writes the kernel of one problem: state shared by the functions of one kernel."""

    p: TapConv
    t: Tiling
    f: Function
    bufs: list[V]
    epilogue: Epilogue | None
    _offsets: V | None = None

    @property
    def single(self) -> Phase | None:
        """The only phase, whose taps are then constants of the code."""
        return self.p.phases[0] if len(self.p.phases) == 1 else None

    def unit(self, unit: V) -> None:
        """One (image, group, pixel chunk, row block)."""
        p, t, f = self.p, self.t, self.f
        dims = [p.n, p.groups, t.pixel_chunks, t.row_blocks]
        n, g, chunk, block = split_index(f, unit, dims)
        ng = n * p.groups + g
        self._offsets = numbers(f, "TAP_X", self.offsets())
        w = f.gep(self.bufs[1], g * p.w_strides[0], register_type(p.dtype))
        stack = f.alloca(t.kb * self.channel * acc_size(p.dtype) + SLACK_BYTES) if t.rows else None

        def channels(k: V, _: list[V]) -> None:
            kn = minimum(f, f.i64(t.kb), f.i64(p.k) - k) if p.k % t.kb else f.i64(t.kb)
            source = ng * p.k + k
            if stack is None:
                x = acc_ptr(f, self.bufs[0], source * self.channel, p.dtype)
            else:
                x = self._unfold(source, kn, chunk, stack)
            wk = acc_ptr(f, w, k * p.w_strides[2], p.dtype)

            def phase(i: V, _: list[V]) -> None:
                u = _Unit(i, x, wk, (i * (p.n * p.groups) + ng) * p.m, g * p.m, k, kn)
                self._tiles(u, block, chunk)

            f.loop(0, len(p.phases), 1, [], phase)

        f.loop(0, p.k, t.kb, [], channels)

    @property
    def channel(self) -> int:
        """Elements between channels of the windows the tiles read."""
        return self.windows.channel_size(self.t.rows or None)

    @property
    def windows(self) -> Windows:
        """The unfolded form the tiles read."""
        return self.copied if self.t.rows else self.p.unfold

    @property
    def copied(self) -> Unfold:
        """The unfolded form on the stack."""
        return replace(self.p.image, copied=True)

    def _unfold(self, source: V, count: V, chunk: V, stack: V) -> V:
        """Unfold the rows of a chunk to the stack; where grid pixel 0 would then be."""
        f, p, u = self.f, self.p, self.copied
        tiles = -(-p.pixels // (self.t.width * self.t.nv))
        per = -(-tiles // self.t.pixel_chunks) * self.t.width * self.t.nv
        row0, _ = divmod_const(f, chunk * per, u.tw)

        def channel(i: V, _: list[V]) -> None:
            src = elem_ptr(f, self.bufs[0], (source + i) * (u.ih * u.iw), p.dtype)
            dst = acc_ptr(f, stack, i * self.channel, p.dtype)
            u.emit(f, src, dst, row0, self.t.rows)

        f.loop(0, count, 1, [], channel)
        return acc_ptr(f, stack, f.i64(0) - row0 * u.tw, p.dtype)

    def _tiles(self, u: _Unit, block: V, chunk: V) -> None:
        """All register tiles of a unit; the outer loop's operand stays in the L1 cache."""
        t = self.t
        rows = _Cut(self.p.m, t.mr, t.row_blocks)
        pixels = _Cut(self.p.pixels, t.width * t.nv, t.pixel_chunks)
        if t.pixels_first:
            self._cut(pixels, chunk, lambda q, count: self._cut(
                rows, block, lambda row, mr: self._tile(u, row, mr, q, count)))
        else:
            self._cut(rows, block, lambda row, mr: self._cut(
                pixels, chunk, lambda q, count: self._tile(u, row, mr, q, count)))

    def _cut(self, cut: _Cut, part: V, body: Callable[[V, int], None]) -> None:
        """`body(start, size)` for the tiles of one part: full tiles, then the shorter last one."""
        f = self.f
        full, rest = divmod(cut.total, cut.tile)
        per = -(-cut.total // cut.tile // cut.parts)
        lo = part * per
        hi = lo + per
        f.loop(lo, minimum(f, hi, full), 1, [], lambda i, _: body(i * cut.tile, cut.tile))
        if rest:
            mine = f.cmp("sle", lo, full) & f.cmp("sgt", hi, full)
            f.when(mine, lambda: body(f.i64(full * cut.tile), rest))

    def _tile(self, u: _Unit, row: V, mr: int, q: V, count: int) -> None:
        """The register tiles of `mr` rows from `row` and `count` pixels from `q`: one, or one for
        each vector of a number of pixels that is known when the code runs."""
        width = self.t.width
        if not is_symbolic(count):
            self._register_tile(u, row, mr, q, count, first_lanes((count - 1) % width + 1, width))
            return
        f = self.f
        f.loop(0, count, width, [], lambda i, _: self._register_tile(
            u, row, mr, q + i, width, lanes_below(f, f.i64(count) - i, width)))

    def _register_tile(
        self, u: _Unit, row: V, mr: int, q: V, count: int, mask: V | None
    ) -> None:
        """`mr` rows from `row`, `count` pixels from `q`; `mask` is that of the last vector."""
        f, p, width = self.f, self.p, self.t.width
        nv = -(-count // width)
        x = f.gep(u.x, q, register_type(p.dtype))
        w = f.gep(u.w, row * p.w_strides[1], register_type(p.dtype))
        # The image itself ends with its last pixel; a scratch has slack after it.
        tile = _Tile(mr, nv, mask if self.windows.identity else None)
        outs = self._outputs(u, row, q, tile)

        def chain(_: V, c: list[V]) -> list[V]:
            self._prefetch(c[1], mr)
            acc = self._taps(u.phase, tile, c[0], c[1], c[2:])
            nx = f.gep(c[0], self.channel, register_type(p.dtype))
            return [nx, f.gep(c[1], p.w_strides[2], register_type(p.dtype)), *acc]

        start = self._start(u, outs, tile, mask)
        kn = p.k if self.t.kb == p.k else u.kn
        acc = f.loop(0, kn, 1, [x, w, *start], chain)[2:]
        if self.t.kb == p.k:
            self._store(u, row, outs, tile, acc, mask)
            return
        # The next block of channels goes on from what is left in the output.
        self._store(u, row, outs, tile, acc, mask, last=False)
        if self.epilogue is not None:
            # From memory: accumulators live across a branch would be spilled in the loop.
            f.when(f.cmp("eq", u.k + u.kn, p.k), lambda: self._store(
                u, row, outs, tile, self._load(outs, tile, mask), mask))

    def _prefetch(self, w: V, mr: int) -> None:
        """Ask for weights of a channel to come, where they are far apart: hardware sees runs."""
        f, p, size = self.f, self.p, acc_size(self.p.dtype)
        _, row, channel = p.w_strides
        if row > channel or channel * size < _RUN_BYTES or not _large(p):
            return
        ahead = f.gep(w, _AHEAD * channel, register_type(p.dtype))
        for at in range(0, mr * row * size + _LINE_BYTES - 1, _LINE_BYTES):
            f.prefetch(f.gep(ahead, at))

    def _outputs(self, u: _Unit, row: V, q: V, tile: _Tile) -> list[V]:
        """The flat output index of every accumulator vector of a tile."""
        p = self.p
        out = []
        for i in range(tile.mr):
            m = u.out_row + (row + i)
            start = m * p.pixels + q
            out += [start + j * self.t.width for j in range(tile.nv)]
        return out

    def _live(self, index: int, tile: _Tile, mask: V | None) -> V | None:
        return mask if index % tile.nv == tile.nv - 1 else None

    def _start(self, u: _Unit, outs: list[V], tile: _Tile, mask: V | None) -> list[V]:
        """The accumulators a block of channels starts from: zero, or what the last one left."""
        f, p, width = self.f, self.p, self.t.width
        zeros = [f.zero(vector(register_type(p.dtype), width))] * len(outs)
        if self.t.kb == p.k:
            return zeros

        # A branch here would make LLVM spill the accumulators around the loop over taps. The
        # contents of the output before the first block are never used.
        first = f.splat(f.cmp("eq", u.k, 0), width)
        kept = self._load(outs, tile, mask)
        return [f.select(first, z, v) for z, v in zip(zeros, kept, strict=True)]

    def _load(self, outs: list[V], tile: _Tile, mask: V | None) -> list[V]:
        """The accumulators left in the output."""
        f, p = self.f, self.p
        return [
            load_acc(f, elem_ptr(f, self.bufs[2], at, p.out_dtype), p.out_dtype, self.t.width,
                     self._live(i, tile, mask))
            for i, at in enumerate(outs)
        ]

    def _taps(self, phase: V, tile: _Tile, x: V, w: V, acc: list[V]) -> list[V]:
        """All taps of one chain channel."""
        f, el = self.f, register_type(self.p.dtype)
        one = self.single
        if one is None:
            lo = lookup(f, "TAP_FIRST", phase)
            hi = lookup(f, "TAP_FIRST", phase + 1)
            return f.loop(lo, hi, 1, acc, lambda i, c: self._tap(
                tile, f.gep(x, self._offset(i), el), f.gep(w, lookup(f, "TAP_W", i), el), c))
        count = len(one.taps)
        limit = max(1, _UNROLLED_FMAS // (tile.mr * tile.nv))
        group = max(d for d in range(1, count + 1) if count % d == 0 and d <= limit)

        def step(i: V, c: list[V]) -> list[V]:
            for j in range(group):
                at = i + j
                if group == count:
                    ry, cx, wi = one.taps[j]
                    xo, wo = f.i64(self.windows.offset(ry, cx, self.t.rows or None)), f.i64(wi)
                else:
                    xo, wo = self._offset(at), lookup(f, "TAP_W", at)
                c = self._tap(tile, f.gep(x, xo, el), f.gep(w, wo, el), c)
            return c

        return f.loop(0, count, group, acc, step)

    def _offset(self, tap: V) -> V:
        """Where a tap of all phases reads, in a channel of the windows."""
        assert self._offsets is not None
        return number_at(self.f, self._offsets, tap)

    def offsets(self) -> list[int]:
        """These of all taps."""
        rows = self.t.rows or None
        return [self.windows.offset(ry, cx, rows) for p in self.p.phases for ry, cx, _ in p.taps]

    def _tap(self, tile: _Tile, x: V, w: V, acc: list[V]) -> list[V]:
        """One step of the chain: load `nv` windows, broadcast `mr` weights, FMA."""
        f, width = self.f, self.t.width
        el = register_type(self.p.dtype)
        ty = vector(el, width)
        f.fence(*acc[-tile.nv:])  # no register is free for the next tap's loads
        window = []
        for j in range(tile.nv):
            mask = tile.mask if j == tile.nv - 1 else None
            window.append(f.masked_load(ty, f.gep(x, j * width, el), mask))
        out = []
        for i in range(tile.mr):
            weight = f.load(el, f.gep(w, i * self.p.w_strides[1], el))
            wide = f.splat(weight, width)
            out += [f.fma(wide, window[j], acc[i * tile.nv + j]) for j in range(tile.nv)]
        return out

    def _store(
        self, u: _Unit, row: V, outs: list[V], tile: _Tile, acc: list[V], mask: V | None,
        last: bool = True,
    ) -> None:
        f, p = self.f, self.p
        for i, (at, value) in enumerate(zip(outs, acc, strict=True)):
            live = self._live(i, tile, mask)
            if self.epilogue is not None and last:
                channel = u.channel + (row + i // tile.nv)
                value = self.epilogue(f, value, channel, at, self.t.width, live)
            store_acc(f, value, elem_ptr(f, self.bufs[2], at, p.out_dtype), p.out_dtype, live)


@dataclass(frozen=True, slots=True)
class _Unit:
    """Where a unit works: phase, pointers, first output row and channel, block of the chain."""

    phase: V
    x: V
    w: V
    out_row: V
    channel: V
    k: V
    kn: V


@dataclass(frozen=True, slots=True)
class _Tile:
    """Size of a register tile and the mask of its last window load."""

    mr: int
    nv: int
    mask: V | None


def _tables(writer: _Writer) -> str:
    p, rows = writer.p, writer.t.rows
    taps = [t for phase in p.phases for t in phase.taps]
    starts = [0]
    for phase in p.phases:
        starts.append(starts[-1] + len(phase.taps))
    return (
        known_table("TAP_X", writer.offsets())
        + table("TAP_W", [w for _, _, w in taps])
        + table("TAP_FIRST", starts)
        + (writer.copied.tables() if rows else "")
    )


def tap_kernel(
    p: TapConv, t: Tiling, target: Target, epilogue: Epilogue | None = None, extra: int = 0
) -> Kernel:
    """Kernel over buffers (source, weights, out, `extra` epilogue buffers).

    The source is the stored image where `t.rows` is set (a unit unfolds for itself), else its
    unfolded form. Weights hold accumulators. The output holds `p.out_dtype` and is laid out
    `[phase][n][groups * m][pixels]`.
    """
    units = p.n * p.groups * t.row_blocks * t.pixel_chunks

    def body(f: Function, bufs: list[V], unit: V) -> str:
        writer = _Writer(p, t, f, bufs, epilogue)
        writer.unit(unit)
        return _tables(writer)

    return task_kernel(target, 3 + extra, units, t.cycles / units, body)
