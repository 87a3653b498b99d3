"""Convolution over channel-blocked images: output channels in lanes, pixels in registers.

A blocked image is `[N, ceil(C / B), H, W, B]`: B channels (a vector) of one pixel lie together.
With B = 1 that is NCHW, so the first layer of a network reads its image as it is. Padding is part
of the image: who writes it leaves a zero border, and a window never leaves the buffer.

A tile holds `ov` vectors of output channels for `tr * tc` pixels in registers over the whole
chain; each step loads `ov` vectors of packed weights and broadcasts one element per pixel. The
chain of an element is that of `conv`: input channel, row and column of the kernel ascending, one
FMA each, from 0.

Packed weights are `[O / ov][I][kh][kw][ov][B]`: a tile reads one stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cellc_compiler.codegen.kernel import Kernel
from cellc_compiler.codegen.llvm.text import Function, V, vector
from cellc_runtime.dtypes import DType
from cellc_runtime.target import Target

from .conv_vec import (
    acc_size,
    acc_type,
    divmod_const,
    minimum,
    split_index,
    static_mask,
    task_kernel,
    transpose,
)

_UNROLLED_FMAS = 320
_STEP_FMAS = 112
_L2_BYTES = 1 << 20
_L1_BYTES = 24 << 10
_LINE_BYTES = 64
_UNITS = 48
_MAX_VECTORS = 4


@dataclass(frozen=True, slots=True)
class BlockConv:
    """One convolution of a blocked image.

    Attributes:
        n, c, oc: images, input and output channels.
        bi, bo: channels of a block of the input and of the output (`bo`: lanes of a vector).
        ph, pw: rows and columns of the input image, its border included.
        oh, ow: rows and columns of the output, without its border.
        kh, kw: rows and columns of the kernel.
        stride, dilation: (rows, columns).
        origin: row and column of the input image where the first window starts.
        border: zeros written around the output (top, bottom, left, right).
        depthwise: every channel is filtered by itself (`c == oc`, `bi == bo`).
        dtype: float32 or float64.
    """

    n: int
    c: int
    oc: int
    bi: int
    bo: int
    ph: int
    pw: int
    oh: int
    ow: int
    kh: int
    kw: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    origin: tuple[int, int]
    border: tuple[int, int, int, int]
    depthwise: bool
    dtype: DType

    @property
    def taps(self) -> int:
        """Taps of the kernel window."""
        return self.kh * self.kw

    @property
    def chain(self) -> int:
        """Steps of an element's chain."""
        return self.taps if self.depthwise else self.c * self.taps

    @property
    def out_blocks(self) -> int:
        """Blocks of output channels."""
        return -(-self.oc // self.bo)

    @property
    def in_blocks(self) -> int:
        """Blocks of input channels."""
        return -(-self.c // self.bi)

    @property
    def out_plane(self) -> tuple[int, int]:
        """Rows and columns of the output image, its border included."""
        top, bottom, left, right = self.border
        return self.oh + top + bottom, self.ow + left + right

    @property
    def flat(self) -> bool:
        """Whether windows of consecutive pixels are consecutive across rows."""
        return (self.taps, self.stride, self.origin) == (1, (1, 1), (0, 0)) and (
            self.ph, self.pw) == (self.oh, self.ow)


@dataclass(frozen=True, slots=True)
class Tile:
    """What is held in registers: `ov` channel vectors of `tr` rows by `tc` columns of pixels.

    In a flat problem a tile is one row of `tc` consecutive pixels.
    """

    ov: int
    tr: int
    tc: int
    cycles: float

    @property
    def pixels(self) -> int:
        """Pixels of a tile."""
        return self.tr * self.tc


def _step_cycles(ov: int, pixels: int) -> float:
    """Estimated cycles of one step of the chain: multiply-adds against loads."""
    fmas = ov * pixels
    loads = ov + pixels
    return max(fmas / 2, loads / 2, (fmas + loads + 1) / 5.0, 4.0) + 0.12 * ov


def choose_tile(p: BlockConv, target: Target) -> Tile:
    """The cheapest tile that divides the blocks of output channels."""
    rows, cols = (1, p.oh * p.ow) if p.flat else (p.oh, p.ow)
    best: Tile | None = None
    for ov in range(1, min(_MAX_VECTORS, p.out_blocks) + 1):
        if p.out_blocks % ov or (p.depthwise and ov > 1):
            continue
        most = (target.vector_registers - 1 - ov) // ov
        for tr in range(1, min(rows, most) + 1):
            tc = min(cols, most // tr)
            if tc < cols and tr > 1:
                continue  # several rows only where a row is short
            across = -(-cols // tc)
            tc = -(-cols // across)
            tiles = -(-rows // tr) * across * (p.out_blocks // ov)
            cycles = tiles * (p.chain * _step_cycles(ov, tr * tc) + 20.0 + 3.0 * ov * tr * tc)
            if best is None or cycles < best.cycles * 0.995:
                best = Tile(ov, tr, tc, cycles)
    assert best is not None
    return best


@dataclass(slots=True)
class Spot:
    """Where the accumulators of a tile belong, for the epilogue that reads other tensors there.

    Attributes:
        n, block, row, col: i64 values: image, first block of channels, first pixel.
        flat_width: columns of the image where pixels of a tile run across rows, else 0.
        memo: what the emitters of one tile share.
    """

    n: V
    block: V
    row: V
    col: V
    flat_width: int
    memo: dict[object, V] = field(default_factory=dict)

    def pointer(
        self, f: Function, base: V, steps: Sequence[int], at: tuple[int, int, int], ty: str
    ) -> V:
        """`base` plus `steps` (of image, block, row, column, in elements of `ty`) times the
        position of accumulator `at` (block, row, column within the tile)."""
        sn, sb, sr, sc = steps
        j, r, c = at
        if self.flat_width and sr != sc * self.flat_width:
            key: object = (base.ref, "pixel", c)
            found = self.memo.get(key)
            if found is None:
                q, m = divmod_const(f, f.add(self.col, f.i64(c)), self.flat_width)
                found = self._start(f, base, sn, sb, f.add(f.mul(q, f.i64(sr)),
                                                         f.mul(m, f.i64(sc))), ty)
                self.memo[key] = found
            return f.gep(found, j * sb, ty)
        key = (base.ref, tuple(steps))
        found = self.memo.get(key)
        if found is None:
            pixel = f.mul(self.col, f.i64(sc))
            if not self.flat_width:
                pixel = f.add(f.mul(self.row, f.i64(sr)), pixel)
            found = self.memo[key] = self._start(f, base, sn, sb, pixel, ty)
        return f.gep(found, j * sb + r * sr + c * sc, ty)

    def _start(self, f: Function, base: V, sn: int, sb: int, pixel: V, ty: str) -> V:
        at = f.add(f.add(f.mul(self.n, f.i64(sn)), f.mul(self.block, f.i64(sb))), pixel)
        return f.gep(base, at, ty)


BlockEpilogue = Callable[[Function, V, Spot, tuple[int, int, int]], V]
"""`(f, acc, spot, (block, row, column within the tile)) -> acc`, applied before the store. Extra
buffers are `bufs[3:]` of the kernel."""


# --- weights -------------------------------------------------------------------------------------


def packed_bytes(p: BlockConv) -> int:
    """Bytes of the packed weights."""
    return p.out_blocks * p.bo * p.chain * acc_size(p.dtype)


def pack_kernel(p: BlockConv, ov: int, target: Target) -> Kernel:
    """Kernel over (w, packed): `[oc, chain]` to `[oc / (ov * B)][chain][ov][B]`, missing output
    channels as zeros."""
    b, k, ty = p.bo, p.chain, acc_type(p.dtype)
    vec = vector(ty, b)
    full = k // b * b

    def body(f: Function, bufs: list[V], block: V) -> None:
        group, j = divmod_const(f, block, ov)
        out = f.gep(bufs[1], f.mul(group, f.i64(ov * k * b)), ty)
        out = f.gep(out, f.mul(j, f.i64(b)), ty)
        first = f.mul(block, f.i64(b))
        rows = []
        live = []
        for i in range(b):
            # A row past the last channel reads the last one and is replaced by zeros.
            row = f.add(first, f.i64(i))
            live.append(f.cmp("slt", row, f.i64(p.oc)))
            rows.append(f.gep(bufs[0], f.mul(minimum(f, row, f.i64(p.oc - 1)), f.i64(k)), ty))

        def columns(at: V, count: int) -> None:
            lines = []
            for ptr, alive in zip(rows, live, strict=True):
                source = f.gep(ptr, at, ty)
                line = f.load(vec, source) if count == b else f.masked_load(
                    vec, source, static_mask(count, b), f.zero(vec))
                if p.oc % b:
                    line = f.select(alive, line, f.zero(vec))
                lines.append(line)
            for i, column in enumerate(transpose(f, lines)[:count]):
                f.store(column, f.gep(out, f.mul(f.add(at, f.i64(i)), f.i64(ov * b)), ty))

        f.loop(0, full, b, [], lambda at, _: columns(at, b))
        if k > full:
            columns(f.i64(full), k - full)

    return task_kernel(target, 2, p.out_blocks, 3.0 * k * b / 4 + 50.0, body)


# --- the tile ------------------------------------------------------------------------------------


def _tile_start(f: Function, index: V, tile: int, total: int) -> V:
    """First position of a tile; the last one overlaps its neighbour rather than being short."""
    at = f.mul(index, f.i64(tile))
    return at if total % tile == 0 else minimum(f, at, f.i64(total - tile))


@dataclass(slots=True)
class _Writer:
    """Writes the kernel of one problem."""

    p: BlockConv
    t: Tile
    f: Function
    bufs: list[V]
    epilogue: BlockEpilogue | None
    ahead: int = 0
    """Share (1 / ahead, a power of 2) of the next group's weights that a tile fetches."""

    @property
    def ty(self) -> str:
        """Element type."""
        return acc_type(self.p.dtype)

    @property
    def vec(self) -> str:
        """Vector of one block of output channels."""
        return vector(self.ty, self.p.bo)

    @property
    def grid(self) -> tuple[int, int]:
        """Tiles down and across an image."""
        p, t = self.p, self.t
        if p.flat:
            return 1, -(-(p.oh * p.ow) // t.tc)
        return -(-p.oh // t.tr), -(-p.ow // t.tc)

    @property
    def out_steps(self) -> tuple[int, int, int, int]:
        """Elements between images, blocks, rows and columns of the output."""
        p = self.p
        h, w = p.out_plane
        return p.out_blocks * h * w * p.bo, h * w * p.bo, w * p.bo, p.bo

    def tile(self, n: V, group: V, index: V) -> None:
        """One tile: the chain, the epilogue, the stores."""
        p, t, f = self.p, self.t, self.f
        down, across = self.grid
        i, j = divmod_const(f, index, across) if down > 1 else (f.i64(0), index)
        if p.flat:
            row, col = f.i64(0), _tile_start(f, j, t.tc, p.oh * p.ow)
        else:
            row, col = _tile_start(f, i, t.tr, p.oh), _tile_start(f, j, t.tc, p.ow)
        block = f.mul(group, f.i64(t.ov))
        w = f.gep(self.bufs[1], f.mul(group, f.i64(t.ov * p.bo * p.chain)), self.ty)
        accs = self._chain(self._source(n, block, row, col), w, index)
        spot = Spot(n, block, row, col, p.ow if p.flat else 0)
        top, _, left, _ = p.border
        out = f.gep(self.bufs[2], top * self.out_steps[2] + left * p.bo, self.ty)
        for at, acc in zip(self._places(), accs, strict=True):
            if self.epilogue is not None:
                acc = self.epilogue(f, acc, spot, at)
            f.store(acc, spot.pointer(f, out, self.out_steps, at, self.ty))
        if any(p.border):
            f.when(f.cmp("eq", index, f.i64(0)), lambda: self._border(n, block))

    def _places(self) -> list[tuple[int, int, int]]:
        t = self.t
        return [(j, r, c) for j in range(t.ov) for r in range(t.tr) for c in range(t.tc)]

    def _source(self, n: V, block: V, row: V, col: V) -> V:
        """Where the windows of a tile start, for the first input channel it reads."""
        p, f = self.p, self.f
        plane = p.ph * p.pw * p.bi
        first = f.mul(n, f.i64(p.in_blocks))
        if p.depthwise:
            first = f.add(first, block)
        if p.flat:
            pixel = col
        else:
            y = f.add(f.mul(row, f.i64(p.stride[0])), f.i64(p.origin[0]))
            x = f.add(f.mul(col, f.i64(p.stride[1])), f.i64(p.origin[1]))
            pixel = f.add(f.mul(y, f.i64(p.pw)), x)
        return f.gep(self.bufs[0], f.add(f.mul(first, f.i64(plane)), f.mul(pixel, f.i64(p.bi))),
                     self.ty)

    def _pixel(self, r: int, c: int, a: int, b: int) -> int:
        """Elements from the tile's start to pixel (r, c) at tap (a, b)."""
        p = self.p
        y = r * p.stride[0] + a * p.dilation[0]
        return (y * p.pw + c * p.stride[1] + b * p.dilation[1]) * p.bi

    def _chain(self, x: V, w: V, index: V) -> list[V]:
        """The accumulators of a tile, block by block."""
        p, f = self.p, self.f
        fetch = w
        if self.ahead:
            size = self.t.ov * p.bo * p.chain
            part = f.mul(index, f.i64(size // self.ahead))
            fetch = f.gep(w, f.add(part, f.i64(size)), self.ty)
        count = self.t.ov * self.t.pixels
        start = [f.const(self.vec, 0.0)] * count
        if p.depthwise:
            return self._taps(x, w, start)
        full, rest = divmod(p.c, p.bi)
        plane = p.ph * p.pw * p.bi

        def block(i: V, c: list[V]) -> list[V]:
            lanes: V | int = p.bi
            if rest:
                lanes = f.select(f.cmp("slt", i, f.i64(full)), f.i64(p.bi), f.i64(rest))
            done = self._channels(lanes, c[0], c[1], c[2], c[3:])
            return [f.gep(c[0], plane, self.ty), *done]

        return f.loop(0, full + (rest > 0), 1, [x, w, fetch, *start], block)[3:]

    def _channels(self, count: V | int, x: V, w: V, fetch: V, accs: list[V]) -> list[V]:
        """The channels of one block: `[w and fetch after them, *accumulators]`."""
        p, f = self.p, self.f
        per = self.t.ov * p.bo * p.taps
        fmas = self.t.ov * self.t.pixels * p.taps
        unroll = 1
        while (p.bi % (2 * unroll) == 0 and p.c % (2 * unroll) == 0
               and 2 * unroll * fmas <= _STEP_FMAS):
            unroll *= 2

        step = unroll * per // self.ahead if self.ahead else 0

        def channel(_: V, c: list[V]) -> list[V]:
            acc = c[3:]
            for line in range(0, step * acc_size(p.dtype), _LINE_BYTES):
                f.prefetch(f.gep(c[2], line))
            for u in range(unroll):
                acc = self._taps(f.gep(c[0], u, self.ty), f.gep(c[1], u * per, self.ty), acc)
            return [f.gep(c[0], unroll, self.ty), f.gep(c[1], unroll * per, self.ty),
                    f.gep(c[2], step, self.ty), *acc]

        return f.loop(0, count, unroll, [x, w, fetch, *accs], channel)[1:]

    def _taps(self, x: V, w: V, accs: list[V]) -> list[V]:
        """The steps of one input channel (or of a depthwise block)."""
        p, t, f = self.p, self.t, self.f
        if p.taps * t.ov * t.pixels <= _UNROLLED_FMAS:
            for a in range(p.kh):
                accs = self._row_taps(x, w, accs, a)
            return accs
        line = p.kw * t.ov * p.bo

        def row(_: V, c: list[V]) -> list[V]:
            done = self._row_taps(c[0], c[1], c[2:], 0)
            return [f.gep(c[0], p.dilation[0] * p.pw * p.bi, self.ty),
                    f.gep(c[1], line, self.ty), *done]

        return f.loop(0, p.kh, 1, [x, w, *accs], row)[2:]

    def _row_taps(self, x: V, w: V, accs: list[V], a: int) -> list[V]:
        """The steps of one row of the kernel window."""
        p, t, f = self.p, self.t, self.f
        out = list(accs)
        for b in range(p.kw):
            # A window's pixels are its neighbour's at another tap: do not keep them.
            x = f.opaque(x) if p.kw > 1 else x
            at = (a * p.kw + b) * t.ov * p.bo
            weights = [f.load(self.vec, f.gep(w, at + j * p.bo, self.ty)) for j in range(t.ov)]
            for i in range(t.pixels):
                r, c = divmod(i, t.tc)
                ptr = f.gep(x, self._pixel(r, c, a, b), self.ty)
                if p.depthwise:
                    value = f.load(self.vec, ptr)
                else:
                    value = f.splat(f.load(self.ty, ptr), p.bo)
                for j in range(t.ov):
                    k = j * t.pixels + i
                    out[k] = f.fma(value, weights[j], out[k])
        return out

    def _border(self, n: V, block: V) -> None:
        """Zeros around the output of the tile's blocks."""
        p, f = self.p, self.f
        _, w = p.out_plane
        top, bottom, left, right = p.border
        zero = f.zero(self.vec)
        sn, sb, sr, _ = self.out_steps
        base = f.gep(self.bufs[2], f.add(f.mul(n, f.i64(sn)), f.mul(block, f.i64(sb))), self.ty)

        def run(start: V | int, count: int) -> None:
            line = f.gep(base, start, self.ty)
            f.loop(0, count, 1, [], lambda i, _: f.store(
                zero, f.gep(line, f.mul(i, f.i64(p.bo)), self.ty)))

        def plane(j: V, _: list[V]) -> None:
            first = f.mul(j, f.i64(sb))
            run(first, top * w)
            run(f.add(first, f.i64((top + p.oh) * sr)), bottom * w)

            def sides(r: V, _: list[V]) -> None:
                at = f.add(first, f.add(f.mul(r, f.i64(sr)), f.i64(top * sr)))
                run(at, left)
                run(f.add(at, f.i64((left + p.ow) * p.bo)), right)

            f.loop(0, p.oh, 1, [], sides)

        f.loop(0, self.t.ov, 1, [], plane)


def _chunks(total: int, wanted: int) -> tuple[int, int]:
    """`total` things in at most `wanted` equal parts: `(parts, things per part)`."""
    per = -(-total // max(1, min(wanted, total)))
    return -(-total // per), per


def block_kernel(
    p: BlockConv, t: Tile, target: Target, epilogue: BlockEpilogue | None = None, extra: int = 0
) -> Kernel:
    """Kernel over (x, packed weights, out, *extra)."""
    probe = _Writer(p, t, Function("", [], target), [], None)
    tiles = probe.grid[0] * probe.grid[1]
    groups = p.out_blocks // t.ov
    # Small weights stay in the cache while pixels pass by, else pixels while weights do.
    small = packed_bytes(p) <= _L2_BYTES
    if p.depthwise or small:
        wanted = -(-_UNITS // p.n)
        if p.depthwise:
            parts, per = _chunks(tiles, -(-wanted // groups))
            group_parts, group_per = groups, 1
        else:
            parts, per = _chunks(tiles, wanted)
            group_parts, group_per = _chunks(groups, -(-wanted // parts))
    else:
        group_parts, group_per = _chunks(groups, -(-_UNITS // p.n))
        parts, per = _chunks(tiles, -(-_UNITS // (p.n * group_parts)))

    def body(f: Function, bufs: list[V], unit: V) -> None:
        writer = _Writer(p, t, f, bufs, epilogue, ahead)
        n, g, c = split_index(f, unit, [p.n, group_parts, parts])
        g0, t0 = f.mul(g, f.i64(group_per)), f.mul(c, f.i64(per))
        g1 = minimum(f, f.add(g0, f.i64(group_per)), f.i64(groups))
        t1 = minimum(f, f.add(t0, f.i64(per)), f.i64(tiles))
        if small:
            f.loop(t0, t1, 1, [], lambda i, _: f.loop(
                g0, g1, 1, [], lambda k, _: writer.tile(n, k, i)) and None)
        else:
            f.loop(g0, g1, 1, [], lambda k, _: f.loop(
                t0, t1, 1, [], lambda i, _: writer.tile(n, k, i)) and None)

    # Weights that pass the cache once are fetched for the next group while this one is used.
    ahead = 0 if small else 1 << (min(tiles, 16).bit_length() - 1)
    units = p.n * group_parts * parts
    return task_kernel(target, 3 + extra, units, p.n * t.cycles / units, body)
