"""Convolution over channel-blocked images: output channels in lanes, pixels in registers.

A blocked image is `[N, ceil(C / B), H, W, B]`: B channels (a vector) of one pixel lie together.
With B = 1 that is NCHW, so the first layer of a network reads its image as it is. Padding is part
of the image: who writes it leaves a zero border, and a window never leaves the buffer.

A tile holds `ov` vectors of output channels for `tr * tc` pixels in registers over the whole
chain; each step loads `ov` vectors of packed weights and broadcasts one element per pixel. The
chain of an element is that of `conv`: input channel, row and column of the kernel ascending, one
FMA each, from 0.

Packed weights are `[O / ov][I][kh][kw][ov][B]`: a tile reads one stream. Where several tiles share
weights that the first-level cache does not hold, the chain is cut into stretches of input
channels: all tiles of a task do one stretch, then the next, and their accumulators wait in
memory. The order of a chain stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cellc_runtime.dtypes import DType
from cellc_runtime.packing import Packing
from cellc_runtime.records import dataclass, field, replace
from cellc_runtime.target import Target

from .....ir.dims import estimate, is_symbolic, surely_at_least
from .....lower.kernel import Kernel
from .....lower.plan import Role
from ....llvm.convert import register_type
from ....llvm.text import Function, V, vector
from ..vectors import acc_size, divmod_const, minimum, split_index, task_kernel
from .tile import BlockConv, Tile

_UNROLLED_FMAS = 112
_SLIDING_FMAS = 150
_STEP_FMAS = 112
_L2_BYTES = 1 << 20
_STRETCH_BYTES = 18 << 10
"""Weights of one stretch of a chain: the first-level cache holds them with a tile's pixels."""
_WAITING_BYTES = 32 << 10  # Accumulators of the tiles of a task that wait between stretches
_FEW_PIXELS = 512  # So few pixels do not hide that weights come from beyond the second-level cache
_FEWEST_SHARING = 4  # Tiles of a task that share a stretch, where an image has as many
_LINE_BYTES = 64
_UNITS = 48


@dataclass(slots=True)
class Spot:
    """Where the accumulators of a tile belong, for the epilogue that reads other tensors there."""

    # n, block, row, col: i64 values: image, first block of channels, first pixel
    n: V
    block: V
    row: V
    col: V
    flat_width: int  # columns of the image where pixels of a tile run across rows, else 0
    spread: tuple[int, int] = (1, 1)  # rows and columns of the output for one of these pixels
    place: tuple[V, V] | None = None  # i64 values: which row and column of these
    memo: dict[object, V] = field(default_factory=dict)  # what the emitters of one tile share

    def pointer(
        self, f: Function, base: V, steps: Sequence[int], at: tuple[int, int, int], ty: str
    ) -> V:
        """`base` plus `steps` (of image, block, row, column, in elements of `ty`) times the
        position of accumulator `at` (block, row, column within the tile)."""
        sn, sb, sr, sc = steps
        j, r, c = at
        if self.place is not None:
            place = (base.ref, tuple(steps), "place")
            if place not in self.memo:
                a, b = self.place
                self.memo[place] = f.gep(base, a * sr + b * sc, ty)
            base, sr, sc = self.memo[place], sr * self.spread[0], sc * self.spread[1]
        if self.flat_width and sr != sc * self.flat_width:
            key: object = (base.ref, "pixel", c)
            found = self.memo.get(key)
            if found is None:
                q, m = divmod_const(f, self.col + c, self.flat_width)
                found = self._start(f, base, sn, sb, q * sr + m * sc, ty)
                self.memo[key] = found
            return f.gep(found, j * sb, ty)
        key = (base.ref, tuple(steps))
        found = self.memo.get(key)
        if found is None:
            pixel = self.col * sc
            if not self.flat_width:
                pixel = self.row * sr + pixel
            found = self.memo[key] = self._start(f, base, sn, sb, pixel, ty)
        if is_symbolic(sr):
            return f.gep(f.gep(found, j * sb + r * sr, ty), c * sc, ty)
        return f.gep(found, j * sb + r * sr + c * sc, ty)

    def _start(self, f: Function, base: V, sn: int, sb: int, pixel: V, ty: str) -> V:
        return f.gep(base, self.n * sn + self.block * sb + pixel, ty)


BlockEpilogue = Callable[[Function, V, Spot, tuple[int, int, int]], V]
"""`(f, acc, spot, (block, row, column within the tile)) -> acc`, applied before the store. Extra
buffers are `bufs[3:]` of the kernel."""


# --- weights -------------------------------------------------------------------------------------


def packed_bytes(p: BlockConv) -> int:
    """Bytes of the packed weights."""
    return p.out_blocks * p.bo * p.chain * acc_size(p.dtype)


def packing(p: BlockConv, ov: int, given: DType, role: Role) -> dict[Role, Packing]:
    """The layout of the packed weights in the buffer `role`, if packing changes no element of
    weights given as this type."""
    size = p.dtype.itemsize
    layout = Packing(1, p.oc, p.chain, ov * p.bo, True, size)
    same = given is p.dtype and layout.packed_bytes == packed_bytes(p)
    return {role: layout} if same else {}


# --- the tile ------------------------------------------------------------------------------------


def tile_start(f: Function, index: V, tile: int, total: int) -> V:
    """First position of a tile; the last one overlaps its neighbour rather than being short."""
    at = index * tile
    return at if total % tile == 0 else minimum(f, at, total - tile)


@dataclass(slots=True)
class Writer:
    """Writes the kernel of one problem."""

    p: BlockConv
    t: Tile
    f: Function
    bufs: list[V]
    epilogue: BlockEpilogue | None
    ahead: int = 0
    """Share (1 / ahead, a power of 2) of the next group's weights that a tile fetches."""
    downs: dict[int, int] = field(default_factory=dict)
    """Elements to rows of the image further down, by their number."""

    ty: str = field(init=False)  # element type
    vec: str = field(init=False)  # vector of one block of output channels

    def __post_init__(self) -> None:
        self.ty = register_type(self.p.dtype)
        self.vec = vector(self.ty, self.p.bo)

    @property
    def grid(self) -> tuple[int, int]:
        """Tiles down and across an image."""
        p, t = self.p, self.t
        if t.half:
            return (1 if p.flat else p.oh), t.across(p.row)
        if p.flat:
            return 1, -(-p.row // t.tc)
        return -(-p.oh // t.tr), -(-p.ow // t.tc)

    @property
    def out_steps(self) -> tuple[int, int, int, int]:
        """Elements between images, blocks, rows and columns of the output."""
        p = self.p
        h, w = p.out_plane
        return p.image_blocks * h * w * p.bo, h * w * p.bo, w * p.bo, p.bo

    def tile(self, n: V, group: V, index: V) -> None:
        """One tile: the chain, the epilogue, the stores."""
        t, f = self.t, self.f
        block = group * t.ov
        weights = self.weights(group)

        def one(w: Writer, row: V, col: V) -> None:
            start = [f.const(self.vec, 0.0)] * (t.ov * w.t.pixels)
            accs = w.chain(w.source(n, block, row, col), weights, index, start)
            w._finish(n, block, (row, col), accs)

        self._placed(index, one)

    def stretches(self, n: V, group: V, first: V, last: V, stretch: int, waiting: V) -> None:
        """Tiles `first` to `last - 1` of a group, a stretch of input channels after the other.

        Args:
            stretch: channels of a stretch.
            waiting: where the accumulators of these tiles wait.
        """
        p, t, f = self.p, self.t, self.f
        block = group * t.ov
        count = t.ov * t.pixels

        def places(index: V, w: Writer) -> list[V]:
            base = f.gep(waiting, (index - first) * (count * p.bo), self.ty)
            return [f.gep(base, k * p.bo, self.ty) for k in range(t.ov * w.t.pixels)]

        def clear(index: V, _: list[V]) -> None:
            for place in places(index, self):
                f.store(f.zero(self.vec), place)

        def stretched(start: V, c: list[V]) -> list[V]:
            stop = minimum(f, start + stretch, p.depth)

            def one(index: V, w: Writer, row: V, col: V) -> None:
                x = w.source(n, block, row, col)
                accs = [f.load(self.vec, place) for place in places(index, w)]
                accs = w.chain(x, c[0], index - first, accs, (start, stop, stretch))
                for acc, place in zip(accs, places(index, w), strict=True):
                    f.store(acc, place)

            f.loop(first, last, 1, [], lambda index, _: self._placed(
                index, lambda w, row, col: one(index, w, row, col)))
            return [f.gep(c[0], stretch * p.taps * t.ov * p.bo, self.ty)]

        def finish(index: V, _: list[V]) -> None:
            self._placed(index, lambda w, row, col: w._finish(
                n, block, (row, col), [f.load(self.vec, place) for place in places(index, w)]))

        f.loop(first, last, 1, [], clear)
        f.loop(0, p.depth, stretch, [self.weights(group)], stretched)
        f.loop(first, last, 1, [], finish)

    def _placed(self, index: V, body: Callable[[Writer, V, V], None]) -> None:
        """`body(writer, row, column)` of a tile's first pixel, with the writer of its width."""
        p, f = self.p, self.f
        down, across = self.grid
        one = not is_symbolic(down) and down == 1
        i, j = (f.i64(0), index) if one else divmod_const(f, index, across)
        row = f.i64(0) if p.flat else tile_start(f, i, self.t.tr, p.oh)
        self.across(j, lambda w, col: body(w, row, col))

    def across(self, index: V, body: Callable[[Writer, V], None]) -> None:
        """`body(writer, column)` of the first pixel of tile `index` of a row."""
        p, t, f = self.p, self.t, self.f
        narrow = replace(self, t=t.narrower())
        if t.half:
            whole = f.i64(t.row_tiles(p.row)[0])
            last = f.i64(p.row - t.half)
            rest = whole * t.tc + (index - whole) * t.half

            def tiles() -> None:
                f.when(f.cmp("slt", index, whole), lambda: body(self, index * t.tc),
                       lambda: body(narrow, minimum(f, rest, last)))

            if surely_at_least(p.row, t.half):
                tiles()
            else:
                single = replace(self, t=t.single())
                f.when(f.cmp("sge", f.i64(p.row), t.half), tiles, lambda: body(single, index))
            return
        if not t.fewer:
            body(self, tile_start(f, index, t.tc, p.row))
            return
        wide = self.grid[1] - t.fewer
        f.when(f.cmp("slt", index, wide), lambda: body(self, index * t.tc),
            lambda: body(narrow, index * (t.tc - 1) + wide))

    def weights(self, group: V) -> V:
        """The packed weights of a group."""
        size = self.t.ov * self.p.bo * self.p.chain
        return self.f.gep(self.bufs[1], group * size, self.ty)

    def _finish(self, n: V, block: V, start: tuple[V, V], accs: Sequence[V]) -> None:
        """The epilogue and the stores of a tile."""
        p, f = self.p, self.f
        flat_width = p.ow if p.flat else 0
        if p.spread == (1, 1):
            spot = Spot(n, block, *start, flat_width)
        else:
            place, block = divmod_const(f, block, p.image_blocks)
            spot = Spot(n, block, *start, flat_width, p.spread, divmod_const(f, place, p.spread[1]))
        top, _, left, _ = p.border
        steps = self.out_steps
        out = f.gep(self.bufs[2], top * steps[2] + left * p.bo, self.ty)
        self.stores(spot, accs, lambda at: spot.pointer(f, out, steps, at, self.ty))

    def border(self, n: V, groups: tuple[V, V], first: V) -> None:
        """The border of the output of some groups, by the task that has the first tile.

        It stands outside the loops over tiles: inside, its loops are the innermost ones, so LLVM
        keeps their zero in a register and the accumulators of the chain on the stack.
        """
        p, f = self.p, self.f
        if not any(p.border):
            return

        def one(group: V, _: list[V]) -> None:
            block = group * self.t.ov
            if p.spread != (1, 1):
                block = divmod_const(f, block, p.image_blocks)[1]
            self.write_border(n, block)

        f.when(f.cmp("eq", first, 0), lambda: f.loop(*groups, 1, [], one) and None)

    def stores(self, spot: Spot, accs: Sequence[V],
               place: Callable[[tuple[int, int, int]], V]) -> None:
        """The epilogue of the accumulators of a tile; each is stored at its place."""
        t = self.t
        places = [(j, r, c) for j in range(t.ov) for r in range(t.tr) for c in range(t.tc)]
        for at, acc in zip(places, accs, strict=True):
            if self.epilogue is not None:
                acc = self.epilogue(self.f, acc, spot, at)
            self.f.store(acc, place(at))

    def source(self, n: V, block: V, row: V, col: V) -> V:
        """Where the windows of a tile start, for the first input channel it reads."""
        p, f = self.p, self.f
        plane = p.ph * p.pw * p.bi
        first = n * p.in_blocks
        if p.depthwise or p.narrow:
            first = first + block
        elif p.groups > 1:
            part, _ = divmod_const(f, block, p.out_blocks // p.groups)
            first = first + part * (p.in_blocks // p.groups)
        if p.flat:
            pixel = col
        else:
            y = row * p.stride[0] + p.origin[0]
            x = col * p.stride[1] + p.origin[1]
            pixel = y * p.pw + x
        return f.gep(self.bufs[0], first * plane + pixel * p.bi, self.ty)

    def _pixel(self, x: V, r: int, column: int, a: int) -> V:
        """The pixel of row r at row `a` of the window, from `x`, the tile's start."""
        p, f = self.p, self.f
        rows = r * p.stride[0] + a * p.dilation[0]
        down = self.downs.get(rows)
        if down is None:
            down = self.downs[rows] = rows * p.pw * p.bi
        if is_symbolic(down):  # a register for each row, not for each pixel
            return f.gep(f.gep(x, down, self.ty), column * p.bi, self.ty)
        return f.gep(x, down + column * p.bi, self.ty)

    def chain(self, x: V, w: V, part: V, accs: Sequence[V],
               stretch: tuple[V, V, int] | None = None) -> list[V]:
        """The accumulators of a tile after a chain, or after a stretch of it.

        Args:
            x: where the tile's windows start in the first input channel.
            w: the weights of the chain, or of the stretch.
            part: which share of the weights that follow is fetched.
            stretch: the first channel, that after the last, and the channels of a whole stretch.
        """
        p, f = self.p, self.f
        if p.depthwise or p.narrow:
            found = list(accs)
            for number in range(p.depth):
                at = f.gep(w, number * p.taps * p.bo, self.ty)
                found = self._taps(x, at, found, number)
            return found
        fetch = w
        size = self.t.ov * p.bo * p.taps * (stretch[2] if stretch else p.depth)
        if self.ahead:
            part = part & self.ahead - 1 if stretch else part
            fetch = f.gep(w, part * (size // self.ahead) + size, self.ty)
        first: V | int = stretch[0] if stretch else 0
        last: V | int = stretch[1] if stretch else p.depth
        if stretch is not None:
            i, inside = divmod_const(f, stretch[0], p.bi)
            x = f.gep(x, i * (p.ph * p.pw * p.bi) + inside, self.ty)
        unroll = self._unroll()
        per = self.t.ov * p.bo * p.taps
        step = unroll * per // self.ahead if self.ahead else 0

        # One loop over all channels, not one over blocks around one over channels: the carried
        # accumulators of two loops are more than LLVM keeps in registers.
        def channels(at: V, c: list[V]) -> list[V]:
            acc = c[3:]
            for line in range(0, step * acc_size(p.dtype), _LINE_BYTES):
                f.prefetch(f.gep(c[2], line))
            for u in range(unroll):
                acc = self._taps(f.gep(c[0], u, self.ty), f.gep(c[1], u * per, self.ty), acc)
            return [f.gep(c[0], self._advance(at, unroll), self.ty),
                    f.gep(c[1], unroll * per, self.ty), f.gep(c[2], step, self.ty), *acc]

        return f.loop(first, last, unroll, [x, w, fetch, *accs], channels, runs=True)[3:]

    def _unroll(self) -> int:
        """Input channels of one trip of the chain's loop."""
        p = self.p
        fmas = self.t.ov * self.t.pixels * p.taps
        unroll = 1
        while (p.bi % (2 * unroll) == 0 and p.depth % (2 * unroll) == 0
               and 2 * unroll * fmas <= _STEP_FMAS):
            unroll *= 2
        return unroll

    def _advance(self, at: V, step: int) -> V | int:
        """Elements from input channel `at` to the one `step` further."""
        p, f = self.p, self.f
        jump = p.ph * p.pw * p.bi - (p.bi - step)
        if step == p.bi:
            return jump
        inside = at + step & p.bi - 1
        return f.select(f.cmp("eq", inside, 0), f.i64(jump), f.i64(step))

    def _taps(self, x: V, w: V, accs: list[V], channel: int = 0) -> list[V]:
        """The steps of one input channel; of number `channel` of each group of a block."""
        p, f = self.p, self.f
        most = _SLIDING_FMAS if self.t.slides else _UNROLLED_FMAS
        if p.taps * self.t.ov * self.t.pixels <= most:
            for a in range(p.kh):
                accs = self.row_taps(x, w, accs, a, channel)
            return accs
        line = p.kw * self.t.ov * p.bo

        def row(_: V, c: list[V]) -> list[V]:
            done = self.row_taps(c[0], c[1], c[2:], 0, channel)
            return [f.gep(c[0], p.dilation[0] * p.pw * p.bi, self.ty),
                    f.gep(c[1], line, self.ty), *done]

        return f.loop(0, p.kh, 1, [x, w, *accs], row)[2:]

    def row_taps(self, x: V, w: V, accs: list[V], a: int, channel: int = 0) -> list[V]:
        """The steps of one row of the kernel window."""
        p, f = self.p, self.f
        if self.t.slides:
            return self._slide(x, w, accs, a, channel)
        fmas = self.t.ov * self.t.pixels
        group = max(d for d in range(1, p.kw + 1)
                    if p.kw % d == 0 and (d * fmas <= _UNROLLED_FMAS or d == 1))
        if group == p.kw:
            return self._tap_run(x, w, accs, a, group, channel)

        def run(_: V, c: list[V]) -> list[V]:
            done = self._tap_run(c[0], c[1], c[2:], a, group, channel)
            return [f.gep(c[0], group * p.dilation[1] * p.bi, self.ty),
                    f.gep(c[1], group * self.t.ov * p.bo, self.ty), *done]

        return f.loop(0, p.kw, group, [x, w, *accs], run)[2:]

    def _slide(self, x: V, w: V, accs: list[V], a: int, channel: int) -> list[V]:
        """The steps of row `a` of the kernel window, a pixel of the input after the other: each is
        loaded once for all windows it is in. Each window meets its taps in their order."""
        p, t, f = self.p, self.t, self.f
        (_, stride), (_, step) = p.stride, p.dilation
        out, depth = list(accs), p.depth
        lanes = [lane // depth * depth + channel for lane in range(p.bo)]
        weights = [[f.load(self.vec, f.gep(w, ((a * p.kw + b) * t.ov + j) * p.bo, self.ty))
                    for j in range(t.ov)] for b in range(p.kw)]
        done: list[int] = []
        for r in range(t.tr):
            for q in range((t.tc - 1) * stride + (p.kw - 1) * step + 1):
                uses = [(b, (q - b * step) // stride) for b in range(p.kw)
                        if (q - b * step) % stride == 0 <= q - b * step < t.tc * stride]
                if not uses:
                    continue
                if q % 4 == 0 or not p.narrow:
                    f.fence(*(out[k] for k in done))
                ptr = self._pixel(x, r, q, a)
                value = self._value(ptr, lanes)
                done = [j * t.pixels + r * t.tc + c for _, c in uses for j in range(t.ov)]
                for (b, _), k in zip(((b, j) for b, _ in uses for j in range(t.ov)), done,
                                     strict=True):
                    out[k] = f.fma(value, weights[b][k // t.pixels], out[k])
        return out

    def _tap_run(self, x: V, w: V, accs: list[V], a: int, count: int, channel: int) -> list[V]:
        """The steps of `count` taps of row `a` of the kernel window."""
        p, t, f = self.p, self.t, self.f
        out = list(accs)
        depth, pixels, folded = p.depth, t.pixels, t.folded
        lanes = [lane // depth * depth + channel for lane in range(p.bo)]
        for b in range(count):
            # A window's pixels are its neighbour's at another tap: do not keep them, nor load
            # weights ahead: there is no register left.
            f.fence(*out[pixels - 1:: pixels])
            at = (a * p.kw + b) * t.ov * p.bo
            weights = [f.load(self.vec, f.gep(w, at + j * p.bo, self.ty)) for j in range(t.ov)]
            for i in range(pixels):
                if t.again:  # a load of its own for each multiply-add, which then takes it in
                    f.fence(*(out[i - 1 :: pixels] if i else ()))
                    weights[t.ov - t.again:] = [
                        f.load(self.vec, f.gep(w, at + j * p.bo, self.ty))
                        for j in range(t.ov - t.again, t.ov)]
                r, c = divmod(i, t.tc)
                ptr = self._pixel(x, r, c * p.stride[1] + b * p.dilation[1], a)
                value = self._value(ptr, lanes)
                for j in range(t.ov):
                    if j and i in folded:
                        f.fence()
                        value = self._value(ptr, lanes)
                    k = j * pixels + i
                    out[k] = f.fma(value, weights[j], out[k])
        return out

    def _value(self, ptr: V, lanes: list[int]) -> V:
        """Return one pixel's factor for the weights of a tap."""
        p, f = self.p, self.f
        narrow = p.narrow
        if not narrow and not p.depthwise:
            return f.splat(f.load(self.ty, ptr), p.bo)
        value = f.load(self.vec, ptr)
        return f.shuffle(value, f.undef(self.vec), lanes) if narrow else value

    def zeros(self, line: V, count: int) -> None:
        """Write zeros to a number of pixels of a row."""
        f, step, zero = self.f, self.f.i64(self.p.bo), self.f.zero(self.vec)
        f.loop(0, count, 1, [], lambda i, _: f.store(zero, f.gep(line, i * step, self.ty)))

    def write_border(self, n: V, block: V) -> None:
        """Zeros around the output of the tile's blocks."""
        p, f = self.p, self.f
        _, w = p.out_plane
        top, bottom, left, right = p.border
        sn, sb, sr, _ = self.out_steps
        base = f.gep(self.bufs[2], n * sn + block * sb, self.ty)

        def run(start: V | int, count: int) -> None:
            self.zeros(f.gep(base, start, self.ty), count)

        def plane(j: V, _: list[V]) -> None:
            first = j * sb
            rows, columns = p.out_size
            run(first, top * w)
            run(first + (top + rows) * sr, bottom * w)

            def sides(r: V, _: list[V]) -> None:
                at = first + (r * sr + top * sr)
                run(at, left)
                run(at + (left + columns) * p.bo, right)

            f.loop(0, rows, 1, [], sides)

        f.loop(0, self.t.ov, 1, [], plane)


def chunks(total: int, wanted: int) -> tuple[int, int]:
    """`total` things in at most `wanted` equal parts: `(parts, things per part)`."""
    per = -(-total // max(1, min(wanted, total)))
    return -(-total // per), per


@dataclass(frozen=True, slots=True)
class Split:
    """How groups of output channels and tiles of pixels are shared out."""

    # group_parts, group_per: parts of the groups, and groups of a part
    group_parts: int
    group_per: int
    # tile_parts, tile_per: parts of the tiles, and tiles of a part
    tile_parts: int
    tile_per: int
    stretch: int  # input channels of a stretch of the chain; 0: the chain is not cut
    weights_stay: bool  # tiles pass by the weights, else weights by the tiles


def _stretch(p: BlockConv, t: Tile) -> int:
    """Input channels whose weights are a stretch: a part or a multiple of a block."""
    channel = t.ov * p.bo * p.taps * acc_size(p.dtype)
    size = p.bi
    while size % 2 == 0 and size > 1 and size * channel > _STRETCH_BYTES:
        size //= 2
    while size >= p.bi and (size + p.bi) * channel <= _STRETCH_BYTES:
        size += p.bi
    return size


def choose_split(p: BlockConv, t: Tile, tiles: int) -> Split:
    """Return the split of a problem whose images have this number of tiles."""
    p, tiles = replace(p, n=estimate(p.n), oh=estimate(p.oh), ow=estimate(p.ow)), estimate(tiles)
    groups = p.out_blocks // t.ov
    wanted = -(-_UNITS // p.n)
    if p.depthwise or p.narrow:
        parts, per = chunks(tiles, -(-wanted // groups))
        return Split(groups, 1, parts, per, 0, True)
    small = packed_bytes(p) <= _L2_BYTES
    stretch = _stretch(p, t)
    if tiles > 1 and 2 * p.depth >= 3 * stretch and not (small and p.n * p.oh * p.ow > _FEW_PIXELS):
        most = max(2, _WAITING_BYTES // (t.ov * t.pixels * p.bo * acc_size(p.dtype)))
        fewest = -(-tiles // min(tiles, most))
        parts, per = chunks(tiles, max(fewest, min(-(-wanted // groups), tiles // _FEWEST_SHARING)))
        group_parts, group_per = chunks(groups, -(-wanted // parts))
        return Split(group_parts, group_per, parts, per, stretch, False)
    # Small weights stay in the cache while pixels pass by, else pixels while weights do.
    if small:
        parts, per = chunks(tiles, wanted)
        group_parts, group_per = chunks(groups, -(-wanted // parts))
        return Split(group_parts, group_per, parts, per, 0, True)
    group_parts, group_per = chunks(groups, wanted)
    parts, per = chunks(tiles, -(-_UNITS // (p.n * group_parts)))
    return Split(group_parts, group_per, parts, per, 0, False)


def block_kernel(
    p: BlockConv, t: Tile, target: Target, epilogue: BlockEpilogue | None = None, extra: int = 0
) -> Kernel:
    """Kernel over (x, packed weights, out, *extra)."""
    probe = Writer(p, t, Function("", [], target), [], None)
    tiles = probe.grid[0] * probe.grid[1]
    groups = p.out_blocks // t.ov
    s = choose_split(p, t, tiles)
    if is_symbolic(tiles):
        s = replace(s, tile_parts=-(-tiles // s.tile_per))
    # Weights that pass the cache once are fetched ahead while those before them are used.
    sharing = s.tile_per if s.stretch else estimate(tiles)
    ahead = 0 if s.weights_stay else 1 << (min(sharing, 16).bit_length() - 1)

    def body(f: Function, bufs: list[V], unit: V) -> None:
        writer = Writer(p, t, f, bufs, epilogue, ahead)
        # Tasks that follow one another are a thread's: they share pixels, or large weights.
        if s.weights_stay:
            n, c, g = split_index(f, unit, [p.n, s.tile_parts, s.group_parts])
        else:
            n, g, c = split_index(f, unit, [p.n, s.group_parts, s.tile_parts])
        g0, t0 = g * s.group_per, c * s.tile_per
        g1 = minimum(f, g0 + s.group_per, groups)
        t1 = minimum(f, t0 + s.tile_per, tiles)
        if s.stretch:
            waiting = f.alloca(s.tile_per * t.ov * t.pixels * p.bo * acc_size(p.dtype))
            f.loop(g0, g1, 1, [], lambda k, _: writer.stretches(n, k, t0, t1, s.stretch, waiting))
        elif s.weights_stay:
            f.loop(t0, t1, 1, [], lambda i, _: f.loop(
                g0, g1, 1, [], lambda k, _: writer.tile(n, k, i)) and None)
        else:
            f.loop(g0, g1, 1, [], lambda k, _: f.loop(
                t0, t1, 1, [], lambda i, _: writer.tile(n, k, i)) and None)
        writer.border(n, (g0, g1), t0)

    units = p.n * s.group_parts * s.tile_parts
    return task_kernel(target, 3 + extra, units, p.n * t.cycles / units, body)
