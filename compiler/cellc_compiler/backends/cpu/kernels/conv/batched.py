"""Convolution of many small images at once: vectors run over the pixels of the whole batch.

A small image fills a fraction of a vector, and a wide layer's weights, read again for every
image, come from far memory. Here the windows of all images lie side by side: a channel holds one
plane per tap, and a plane the pixel that the tap meets for every grid point of every image, 0
outside it. The tile kernel of `conv/taps.py` then sees one long row of pixels and reads the weights
once. Its result `[phase][channel][image and pixel]` is spread to the images at the end.

The chain of an element is that of `conv/taps.py`, so this is a choice of speed alone.
"""

from __future__ import annotations

from cellc_runtime.dtypes import DType, float32
from cellc_runtime.records import dataclass, replace
from cellc_runtime.target import Target

from .....lower.kernel import Kernel
from ....llvm.convert import from_memory, memory_type, register_type
from ....llvm.text import Function, V, first_lanes, vector
from ..vectors import (
    TASK_CYCLES,
    acc_ptr,
    acc_size,
    elem_ptr,
    in_vectors,
    is_half,
    lanes,
    load_acc,
    lookup,
    minimum,
    split_index,
    store_acc,
    table,
    table32,
    task_kernel,
)
from .taps import Epilogue, TapConv, Tiling, choose_tile
from .unfold import SLACK_BYTES

_BLOCK_BYTES = 160 * 1024
_UNITS = 32
_SPREAD_PLANES = 64
_FAR_BYTES_PER_CYCLE = 5.0
_TABLE_ELEMENTS = 4096
_OUTSIDE = -(1 << 30)


@dataclass(frozen=True)
class Joint:
    """The windows of all images of a channel side by side.

    It has the interface of an `Unfold` that the tile kernel needs, for a grid of one row.
    """

    dtype: DType  # storage type of the source
    # n, channels: images, and channels of an image
    n: int
    channels: int
    # ih, iw: source image
    ih: int
    iw: int
    # gh, gw: grid of an image
    gh: int
    gw: int
    # sy, sx: source pixels per grid step
    sy: int
    sx: int
    taps: tuple[tuple[int, int], ...]  # distinct `(row offset, column offset)` of the taps
    width: int  # the number of elements in a plane is a multiple of it; those after the last are 0

    identity = False
    th = 1

    @property
    def columns(self) -> int:
        """Grid points of all images."""
        return self.n * self.gh * self.gw

    @property
    def tw(self) -> int:
        """Elements of a plane."""
        return -(-self.columns // self.width) * self.width

    @property
    def plain(self) -> bool:
        """Whether the plane of an image is the image itself."""
        return (self.taps == ((0, 0),) and (self.sy, self.sx) == (1, 1)
                and (self.gh, self.gw) == (self.ih, self.iw))

    def planes(self) -> int:
        """Planes per channel."""
        return len(self.taps)

    def channel_size(self, rows: int | None = None) -> int:
        """Elements of one channel."""
        return self.planes() * self.tw

    def offset(self, ry: int, cx: int, rows: int | None = None) -> int:
        """Element offset of a tap's plane."""
        return self.taps.index((ry, cx)) * self.tw

    def nbytes(self) -> int:
        """Bytes of scratch for all channels."""
        return self.channels * self.channel_size() * acc_size(self.dtype) + SLACK_BYTES

    def cycles(self, target: Target) -> float:
        """Estimated cycles to gather one channel."""
        if self.plain:
            return self.n * (6.0 + self.gh * self.gw / lanes(target, self.dtype) * 2.0)
        return self.planes() * self.tw * (1.3 if gathers(target, self.dtype) else 4.0)

    def tables(self) -> str:
        """Globals: source element, row and column of every grid point, at tap (0, 0)."""
        image = self.channels * self.ih * self.iw
        rows: list[int] = []
        cols: list[int] = []
        base: list[int] = []
        for i in range(self.tw + 16):  # a vector may read past the last
            n, at = divmod(i, self.gh * self.gw)
            y, x = divmod(at, self.gw)
            live = i < self.columns
            rows.append(y * self.sy if live else _OUTSIDE)
            cols.append(x * self.sx)
            base.append(n * image + y * self.sy * self.iw + x * self.sx if live else 0)
        return (table32("JOINT_ROW", rows) + table32("JOINT_COL", cols)
                + table32("JOINT_BASE", base))


def gathers(target: Target, dtype: DType) -> bool:
    """Whether the target loads a vector from separate addresses in one instruction."""
    return target.vector_bytes == 64 and not is_half(dtype)


def gather(f: Function, ty: str, base: V, index: V, mask: V) -> V:
    """`base[index]` in the lanes of the mask, 0 in the others; `ty` is the element's type."""
    width = index.ty.split(" ")[0][1:]
    vec = vector(ty, int(width))
    pointers = f.emit(f"<{width} x ptr>", f"getelementptr {ty}, {base}, {index}")
    return f.gather(vec, pointers, mask)


# --- gathering -------------------------------------------------------------------------------


def gather_kernel(j: Joint, target: Target) -> Kernel:
    """Kernel over buffers (source, windows): the planes of all channels."""
    if j.plain:
        return _copy_kernel(j, target)
    vectors = gathers(target, j.dtype)
    step = lanes(target, j.dtype) if vectors else 1

    def element(f: Function, src: V, dst: V, at: V, tap: V, ry: V, cx: V, live: int) -> None:
        """`step` elements of the plane `tap` from grid point `at` on, of which `live` exist."""
        ty = vector("i32", step)

        def wide(v: V) -> V:
            return f.splat(f.cast("trunc", v, "i32"), step)

        def inside(v: V, size: int) -> V:
            return f.cmp("ult", v, f.splat(V("i32", str(size)), step))

        ok = inside(lookup(f, "JOINT_ROW", at, ty) + wide(ry),
            j.ih) & inside(lookup(f, "JOINT_COL", at, ty) + wide(cx), j.iw)
        index = lookup(f, "JOINT_BASE", at, ty) + wide(ry * j.iw + cx)
        out = acc_ptr(f, dst, tap * j.tw + at, j.dtype)
        if vectors:
            value = gather(f, memory_type(j.dtype), src, index, ok)
            store_acc(f, value, out, j.dtype, first_lanes(live, step))
            return
        safe = f.select(ok, index, V("i32", "0"))
        raw = f.load(memory_type(j.dtype), elem_ptr(f, src, f.cast("sext", safe, "i64"), j.dtype))
        value = from_memory(f, raw, j.dtype)
        f.store(f.select(ok, value, f.const(register_type(j.dtype), 0.0)), out)

    def body(f: Function, bufs: list[V], channel: V) -> str:
        src = elem_ptr(f, bufs[0], channel * (j.ih * j.iw), j.dtype)
        dst = acc_ptr(f, bufs[1], channel * j.channel_size(), j.dtype)

        def tap(t: V, _: list[V]) -> None:
            ry, cx = lookup(f, "JOINT_RY", t), lookup(f, "JOINT_CX", t)
            full = j.tw // step * step
            f.loop(0, full, step, [], lambda at, _: element(f, src, dst, at, t, ry, cx, step))
            if j.tw > full:
                element(f, src, dst, f.i64(full), t, ry, cx, j.tw - full)

        f.loop(0, j.planes(), 1, [], tap)
        return (j.tables() + table("JOINT_RY", [t[0] for t in j.taps])
                + table("JOINT_CX", [t[1] for t in j.taps]))

    return task_kernel(target, 2, j.channels, j.cycles(target), body)


def _copy_kernel(j: Joint, target: Target) -> Kernel:
    """`gather_kernel` where it only changes the order of images and channels."""
    size, width = j.gh * j.gw, lanes(target, j.dtype)

    def body(f: Function, bufs: list[V], channel: V) -> None:
        dst = acc_ptr(f, bufs[1], channel * j.tw, j.dtype)

        def image(n: V, _: list[V]) -> None:
            src = elem_ptr(f, bufs[0], (n * j.channels + channel) * size, j.dtype)
            out = acc_ptr(f, dst, n * size, j.dtype)

            def part(q: V, mask: V | None) -> None:
                value = load_acc(f, elem_ptr(f, src, q, j.dtype), j.dtype, width, mask)
                f.masked_store(value, acc_ptr(f, out, q, j.dtype), mask)

            in_vectors(f, size, width, part)

        f.loop(0, j.n, 1, [], image)
        if j.tw > j.columns:
            rest = j.tw - j.columns
            zero = f.zero(vector(register_type(j.dtype), rest))
            f.store(zero, acc_ptr(f, dst, j.columns, j.dtype))

    return task_kernel(target, 2, j.channels, j.cycles(target), body)


# --- spreading -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spread:
    """How the joint result becomes images."""

    dtype: DType  # storage type of the images; the joint result holds accumulators
    # n, planes, size: images, planes of an image, pixels of a plane
    n: int
    planes: int
    size: int
    pitch: int  # elements between planes of the joint result
    image: int  # elements between images in a row of the joint result
    # for every pixel of a plane, its element from the start of the plane's row for the image, or
    # None for a pixel that is zero
    sources: tuple[int | None, ...]

    @property
    def plain(self) -> bool:
        """Whether a plane is one contiguous run of the joint result."""
        return self.sources == tuple(range(self.size))


@dataclass(slots=True)
class _SpreadWriter:
    """Writes the kernel of a `Spread`."""

    s: Spread
    f: Function
    bufs: list[V]
    epilogue: Epilogue | None
    group: int  # planes that share a vector

    def planes(self, n: V, plane: V, left: V) -> None:
        """`group` planes from `plane`, of which there are `left` or more."""
        f, s, width = self.f, self.s, lanes(self.f.target, self.s.dtype)
        source = acc_ptr(f, self.bufs[0], plane * s.pitch + n * s.image, s.dtype)
        first = (n * s.planes + plane) * s.size
        if self.group > 1:
            some = minimum(f, left, self.group)
            self._vector(source, plane, first, f.i64(0), f.tail_mask(some * s.size, width))
            return
        in_vectors(f, s.size, width, lambda q, mask: self._vector(
            source, plane, first + q, q, mask))

    def _vector(self, source: V, plane: V, out: V, q: V, mask: V | None) -> None:
        """The pixels from pixel `q` of a plane (of `group` planes)."""
        f, s, width = self.f, self.s, lanes(self.f.target, self.s.dtype)
        ty = vector(register_type(s.dtype), width)
        if s.plain:  # the scratch has slack after its last element
            value = f.load(ty, acc_ptr(f, source, q, s.dtype))
        else:
            index = lookup(f, "SPREAD", q, vector("i32", width))
            there = f.cmp("sge", index, f.zero(index.ty))
            live = there if mask is None else there & mask
            value = gather(f, register_type(s.dtype), source, index, live)
        if self.epilogue is not None:
            value = self.epilogue(f, value, plane, out, width, mask)
        store_acc(f, value, elem_ptr(f, self.bufs[2], out, s.dtype), s.dtype, mask)

    def pixel(self, n: V, plane: V, q: V) -> None:
        """One pixel, for targets that do not gather."""
        f, s, ty = self.f, self.s, register_type(self.s.dtype)
        known = f.cast("sext", lookup(f, "SPREAD", q, "i32"), "i64")
        there = f.cmp("sge", known, 0)
        at = plane * s.pitch + n * s.image + f.select(there, known, f.i64(0))
        value = f.select(there, f.load(ty, acc_ptr(f, self.bufs[0], at, s.dtype)), f.const(ty, 0.0))
        out = (n * s.planes + plane) * s.size + q
        store_acc(f, value, elem_ptr(f, self.bufs[2], out, s.dtype), s.dtype)


def spread_kernel(s: Spread, target: Target, epilogue: Epilogue | None = None, extra: int = 0
                  ) -> Kernel:
    """Kernel over buffers (joint result, -, out, `extra` epilogue buffers).

    The second buffer is not used: an epilogue finds its own from the fourth on, as in the tile
    kernel. Only a plain spread may have one.
    """
    assert s.plain or epilogue is None
    width = lanes(target, s.dtype)
    vectors = target.vector_bytes == 64 or s.plain
    group = 1 if s.plain or not vectors else max(1, width // s.size)
    blocks = -(-s.planes // _SPREAD_PLANES)
    known = [-1 if v is None else v for v in s.sources]
    whole = [v if v < 0 else v + p * s.pitch for p in range(group) for v in known]
    spread = table32("SPREAD", [*whole, *[-1] * width]) if not s.plain else ""

    def body(f: Function, bufs: list[V], unit: V) -> str:
        writer = _SpreadWriter(s, f, bufs, epilogue, group)
        n, block = split_index(f, unit, [s.n, blocks])
        lo = block * _SPREAD_PLANES
        hi = minimum(f, lo + _SPREAD_PLANES, s.planes)

        def step(p: V, _: list[V]) -> None:
            if vectors:
                writer.planes(n, p, hi - p)
            else:
                f.loop(0, s.size, 1, [], lambda q, _: writer.pixel(n, p, q))

        f.loop(lo, hi, group, [], step)
        return spread

    units = s.n * blocks
    return task_kernel(target, 3 + extra, units, _spread_cycles(s, target) / units, body)


def _spread_cycles(s: Spread, target: Target) -> float:
    each = 0.5 if s.plain else 1.5 if target.vector_bytes == 64 else 4.0
    return s.n * s.planes * (s.size * each + 8.0)


# --- the choice ------------------------------------------------------------------------------


@dataclass(frozen=True)
class BatchedPlan:
    """A problem over joint images: the tile kernel's problem and tiling, and both copies."""

    problem: TapConv
    tiling: Tiling
    joint: Joint
    cycles: float


def join_images(p: TapConv, direct: Tiling, target: Target) -> BatchedPlan | None:
    """The problem over joint images, where that is estimated to be faster than `direct`."""
    u = p.image
    width = lanes(target, p.dtype)
    columns = p.n * u.th * u.tw
    if p.n == 1 or columns > _TABLE_ELEMENTS or p.n * p.groups * p.k * u.ih * u.iw >= 1 << 29:
        return None
    taps = tuple(sorted({(t[0], t[1]) for f in p.phases for t in f.taps}))
    j = Joint(p.dtype, p.n, p.groups * p.k, u.ih, u.iw, u.th, u.tw, u.sy, u.sx, taps, width)
    mr, nv, step = choose_tile(target, p.m, j.tw // width)
    chain = p.k * sum(len(f.taps) for f in p.phases)
    weights = p.groups * p.m * chain * acc_size(p.dtype)
    tiles = p.groups * step * chain
    out = Spread(p.dtype, p.n, p.groups * p.m, u.th * u.tw, j.tw, u.th * u.tw, (None,))
    cycles = tiles + j.channels * j.cycles(target) + _spread_cycles(out, target)
    far = weights / _FAR_BYTES_PER_CYCLE if weights > 1 << 20 else 0.0
    if max(cycles, far) >= 0.9 * max(direct.cycles, far * p.n):
        return None
    acc = float32 if is_half(p.dtype) else p.dtype
    problem = replace(p, unfold=j, n=1, out_dtype=acc)
    return BatchedPlan(problem, _tiling(problem, j, mr, nv, tiles), j, cycles)


def _tiling(p: TapConv, j: Joint, mr: int, nv: int, cycles: float) -> Tiling:
    """Rows are dealt to tasks, so that each weight is read once."""
    wanted = max(1, min(_UNITS, int(cycles / TASK_CYCLES)))
    need = -(-wanted // p.groups)
    rows = min(-(-p.m // mr), need)
    tiles = -(-(j.tw // j.width) // nv)
    chunks = min(tiles, -(-need // rows))
    kb = max(1, _BLOCK_BYTES // (j.channel_size() * acc_size(p.dtype)))
    kb = -(-p.k // -(-p.k // kb))
    return Tiling(j.width, mr, nv, rows, chunks, kb, 0, False, cycles)
