"""Convolution of NCHW images, forward and backward in the image, by the kernels for blocked ones.

The image is copied to blocks of channels, its padding with it, the weights are packed, and the
result is turned back to NCHW. Each of the three is one pass over its elements, which long chains
repay: the blocked kernels (`conv_block`) read every pixel in place and their weights as one
stream. The layout pass keeps images blocked where nothing takes gradients; this is for training
and PyNative, where what lies between the convolutions wants NCHW.

The gradient of the image is a convolution of the output's gradient whose window is turned round.
An element's chain stays as it is in `conv`, so this is a choice of speed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from cellc_compiler.codegen.kernel import Kernel
from cellc_compiler.codegen.llvm.text import Function, V, element, lanes_of, vector
from cellc_runtime.dtypes import DType, float32, float64
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from .conv_block import block_kernel, packed_bytes
from .conv_block_pack import pack_kernel
from .conv_block_tile import BlockConv, Tile, choose_tile
from .conv_taps import Epilogue
from .conv_unfold import SLACK_BYTES, Unfold, unfold_kernel
from .conv_vec import (
    Plan,
    acc_size,
    acc_type,
    divmod_const,
    lanes,
    minimum,
    split_index,
    static_mask,
    task_kernel,
    transpose,
)

if TYPE_CHECKING:
    from .conv import ConvSpec

Border = tuple[int, int, int, int]

_ALONE = 0.87
"""The estimate of a tile that folds loads is the mean of a core alone and one that is shared; what
it is compared with is of a core alone."""
_TURN_CYCLES, _FAR_TURN_CYCLES, _PACK_CYCLES = 0.8, 2.0, 1.3
"""Cycles to turn one element of an image, of one that leaves the cache, and of weights."""
_FEWEST_PIXELS = 8
_L2_BYTES = 1 << 20
_FAR_BYTES_PER_CYCLE = 7.0
"""How fast an image reads packed weights that the second-level cache does not hold."""


@dataclass(frozen=True)
class OverBlocks:
    """A convolution of NCHW images over blocked copies.

    Attributes:
        problem, tile: what the blocked kernel computes, and its tile.
        image: rows and columns of the image without its border.
        border: zeros around it (top, bottom, left, right).
        cycles: estimated cycles in all.
    """

    problem: BlockConv
    tile: Tile
    image: tuple[int, int]
    border: Border
    cycles: float

    @property
    def full(self) -> bool:
        """Whether vectors and tiles are full: of images with channels for a block, and of pixels
        for a tile."""
        p = self.problem
        return min(p.c, p.oc) >= p.bo and p.oh * p.ow >= _FEWEST_PIXELS

    def plan(
        self, target: Target, source: str, epilogue: Epilogue | None = None, extra: int = 0
    ) -> Plan:
        """Kernels from the roles `source` and `w` to `out`."""
        p, plan, image = self.problem, Plan(), source
        if p.bi > 1 or any(self.border):
            image = f"{source}_blocks"
            plan.scratch[image] = _image_size(p) * acc_size(p.dtype) + SLACK_BYTES
            plan.add(self._image_kernel(target), source, image)
        plan.scratch["w_blocks"] = packed_bytes(p)
        plan.scratch["out_blocks"] = _result_size(p) * acc_size(p.dtype) + SLACK_BYTES
        plan.add(self._pack_kernel(target), "w", "w_blocks")
        plan.add(block_kernel(p, self.tile, target), image, "w_blocks", "out_blocks")
        plan.add(result_kernel(p, target, epilogue, extra), "out_blocks", "w", "out",
                 *(f"e{i}" for i in range(extra)))
        return plan

    def _pack_kernel(self, target: Target) -> Kernel:
        if self.problem.mirrored:
            return pack_adjoint_kernel(self.problem, self.tile.ov, target)
        return pack_kernel(self.problem, self.tile.ov, self.problem.dtype, target)

    def _image_kernel(self, target: Target) -> Kernel:
        p = self.problem
        if p.bi > 1:
            return image_kernel((p.n, p.c, *self.image), p.bi, self.border, p.dtype, target)
        u = Unfold(p.dtype, *self.image, p.ph, p.pw, 1, 1, (-self.border[0],), (-self.border[2],))
        return unfold_kernel(u, p.n * p.c, target)


def _image_size(p: BlockConv) -> int:
    return p.n * p.in_blocks * p.ph * p.pw * p.bi


def _result_size(p: BlockConv) -> int:
    return p.n * p.out_blocks * p.oh * p.ow * p.bo


def _turn_cycles(p: BlockConv, elements: int) -> float:
    far = elements * acc_size(p.dtype) > _L2_BYTES
    return elements * (_FAR_TURN_CYCLES if far else _TURN_CYCLES)


def _over(p: BlockConv, image: tuple[int, int], border: Border, target: Target) -> OverBlocks:
    tile, nbytes = choose_tile(p, target), packed_bytes(p)
    far = nbytes / _FAR_BYTES_PER_CYCLE if nbytes > _L2_BYTES else 0.0
    cycles = p.n * max(tile.cycles * (_ALONE if tile.fold else 1.0), far)
    cycles += _PACK_CYCLES * p.out_blocks * p.bo * p.chain
    cycles += _turn_cycles(p, _image_size(p)) + _turn_cycles(p, _result_size(p))
    return OverBlocks(p, tile, image, border, cycles)


def _takes(s: ConvSpec) -> bool:
    """Whether the blocked kernels take the problem."""
    return s.dtype in (float32, float64) and s.groups == 1


def forward_over_blocks(s: ConvSpec, target: Target) -> OverBlocks | None:
    """The forward convolution; None where there is no such form."""
    if not _takes(s):
        return None
    block = lanes(target, s.dtype)
    top, bottom, left, right = s.pads
    p = BlockConv(
        n=s.n, c=s.c, oc=s.oc, bi=block if s.c >= block else 1, bo=block,
        ph=s.h + top + bottom, pw=s.w + left + right, oh=s.oh, ow=s.ow, kh=s.kh, kw=s.kw,
        stride=s.stride, dilation=s.dilation, origin=(0, 0), border=(0, 0, 0, 0), groups=1,
        dtype=s.dtype)
    return _over(p, (s.h, s.w), s.pads, target)


def backward_over_blocks(s: ConvSpec, target: Target) -> OverBlocks | None:
    """The gradient of the image; None where there is no such form: of a stride above 1, or with
    pads wider than the window reaches."""
    rows, columns = (d * (k - 1) for d, k in zip(s.dilation, (s.kh, s.kw), strict=True))
    top, bottom, left, right = s.pads
    border = (rows - top, rows - bottom, columns - left, columns - right)
    if not _takes(s) or s.stride != (1, 1) or min(border) < 0:
        return None
    block = lanes(target, s.dtype)
    p = BlockConv(
        n=s.n, c=s.oc, oc=s.c, bi=block if s.oc >= block else 1, bo=block, ph=s.h + rows,
        pw=s.w + columns, oh=s.h, ow=s.w, kh=s.kh, kw=s.kw, stride=(1, 1), dilation=s.dilation,
        origin=(0, 0), border=(0, 0, 0, 0), groups=1, dtype=s.dtype, mirrored=True)
    return _over(p, (s.oh, s.ow), border, target)


# --- kernels ---------------------------------------------------------------------------------


def image_kernel(
    x: tuple[int, int, int, int], block: int, border: Border, dtype: DType, target: Target
) -> Kernel:
    """Kernel over (x, out): `[n, c, h, w]` to `[n, c / block, rows, columns, block]` with zeros
    around the pixels and for missing channels."""
    n, c, h, w = x
    top, bottom, left, right = border
    blocks, columns = -(-c // block), w + left + right
    rows, ty, vec = h + top + bottom, acc_type(dtype), vector(acc_type(dtype), block)

    def body(f: Function, bufs: list[V], unit: V) -> None:
        i, k = split_index(f, unit, [n, blocks])
        plane = f.add(f.mul(i, f.i64(c)), f.mul(k, f.i64(block)))
        source = f.gep(bufs[0], f.mul(plane, f.i64(h * w)), ty)
        out = f.gep(bufs[1], f.mul(unit, f.i64(rows * columns * block)), ty)
        left_channels = f.sub(f.i64(c), f.mul(k, f.i64(block)))

        def zeros(start: V | int, count: int) -> None:
            line = f.gep(out, f.mul(f.i64(start) if isinstance(start, int) else start,
                                    f.i64(block)), ty)
            f.loop(0, count, 1, [], lambda j, _: f.store(
                f.zero(vec), f.gep(line, f.mul(j, f.i64(block)), ty)))

        def row(y: V, _: list[V]) -> None:
            at = f.mul(f.add(y, f.i64(top)), f.i64(columns))
            if left:
                zeros(at, left)
            first = f.add(at, f.i64(left))
            if right:
                zeros(f.add(first, f.i64(w)), right)
            line = f.gep(source, f.mul(y, f.i64(w)), ty)
            to = f.gep(out, f.mul(first, f.i64(block)), ty)

            def turn(q: V, count: int) -> None:
                for j, v in enumerate(_turned(f, line, q, count, h * w, left_channels, vec, c)):
                    f.store(v, f.gep(to, f.mul(f.add(q, f.i64(j)), f.i64(block)), ty))

            whole = w // block * block
            f.loop(0, whole, block, [], lambda q, _: turn(q, block))
            if w > whole:
                turn(f.i64(whole), w - whole)

        if top:
            zeros(0, top * columns)
        if bottom:
            zeros((top + h) * columns, bottom * columns)
        f.loop(0, h, 1, [], row)

    return task_kernel(target, 2, n * blocks, rows * columns * 8.0, body)


def _turned(
    f: Function, line: V, q: V, count: int, plane: int, left: V, vec: str, channels: int
) -> list[V]:
    """`count` pixels from pixel `q` on, a vector of channels each: zeros for channels past the
    last, of which there are `left`."""
    block, ty = lanes_of(vec), element(vec)
    mask = None if count == block else static_mask(count, block)
    rows = []
    for j in range(block):
        alive = f.cmp("sgt", left, f.i64(j)) if channels % block else None
        # A channel there is not reads the first one and is replaced by zeros.
        step = f.i64(j * plane) if alive is None else f.select(alive, f.i64(j * plane), f.i64(0))
        ptr = f.gep(line, f.add(q, step), ty)
        v = f.load(vec, ptr) if mask is None else f.masked_load(vec, ptr, mask, f.zero(vec))
        rows.append(v if alive is None else f.select(alive, v, f.zero(vec)))
    return transpose(f, rows)[:count]


def result_kernel(
    p: BlockConv, target: Target, epilogue: Epilogue | None = None, extra: int = 0
) -> Kernel:
    """Kernel over (blocked result, -, out, *extra): to NCHW, an epilogue applied.

    The second buffer is not used: an epilogue finds its own from the fourth on.
    """
    n, c, block, size = p.n, p.oc, p.bo, p.oh * p.ow
    blocks, ty, vec = p.out_blocks, acc_type(p.dtype), vector(acc_type(p.dtype), p.bo)
    parts = max(1, size // 256)
    per = -(-size // (parts * block)) * block
    parts = -(-size // per)

    def body(f: Function, bufs: list[V], unit: V) -> None:
        i, k, part = split_index(f, unit, [n, blocks, parts])
        image = f.add(f.mul(i, f.i64(blocks)), k)
        source = f.gep(bufs[0], f.mul(image, f.i64(size * block)), ty)
        channel = f.mul(k, f.i64(block))
        first = f.mul(f.add(f.mul(i, f.i64(c)), channel), f.i64(size))
        lo = f.mul(part, f.i64(per))
        hi = minimum(f, f.add(lo, f.i64(per)), f.i64(size))

        def store(j: int, line: V, q: V, mask: V | None) -> None:
            at = f.add(first, f.add(q, f.i64(j * size)))
            if epilogue is not None:
                line = epilogue(f, line, f.add(channel, f.i64(j)), at, block, mask)
            _store(f, line, f.gep(bufs[2], at, ty), mask)

        def turn(q: V, count: int) -> None:
            pixels = [f.load(vec, f.gep(source, f.mul(f.add(q, f.i64(j)), f.i64(block)), ty))
                      if j < count else f.zero(vec) for j in range(block)]
            mask = None if count == block else static_mask(count, block)
            for j, line in enumerate(transpose(f, pixels)):
                _if_there(f, j, k, c, block, partial(store, j, line, q, mask))

        whole = size // block * block
        f.loop(lo, minimum(f, hi, f.i64(whole)), block, [], lambda q, _: turn(q, block))
        if size > whole:
            f.when(f.cmp("eq", part, f.i64(parts - 1)), lambda: turn(f.i64(whole), size - whole))

    units = n * blocks * parts
    return task_kernel(target, 3 + extra, units, 6.0 * per, body)


def pack_adjoint_kernel(p: BlockConv, ov: int, target: Target) -> Kernel:
    """Kernel over (w, packed): `[chain channel][oc][tap]` to `[oc / (ov * B)][chain][ov][B]`,
    missing output channels as zeros."""
    b, taps, depth, ty = p.bo, p.taps, p.depth, acc_type(p.dtype)
    vec = vector(ty, b)
    per = -(-depth // max(1, min(4, depth // 16)))
    parts = -(-depth // per)

    def body(f: Function, bufs: list[V], unit: V) -> None:
        block, part = split_index(f, unit, [p.out_blocks, parts])
        group, j = divmod_const(f, block, ov)
        out = f.gep(bufs[1], f.mul(group, f.i64(ov * p.chain * b)), ty)
        out = f.gep(out, f.mul(j, f.i64(b)), ty)
        first = f.mul(block, f.i64(b))
        left = f.sub(f.i64(p.oc), first)

        def pieces(line: V) -> Iterator[V]:
            """The weights of every tap, a vector of output channels each."""
            if taps > 1:
                for t in range(0, taps, b):
                    yield from _turned(f, line, f.i64(t), min(b, taps - t), taps, left, vec, p.oc)
            elif p.oc % b:
                yield f.masked_load(vec, line, f.tail_mask(left, b), f.zero(vec))
            else:
                yield f.load(vec, line)

        def channel(k: V, _: list[V]) -> None:
            line = f.gep(bufs[0], f.mul(f.add(f.mul(k, f.i64(p.oc)), first), f.i64(taps)), ty)
            to = f.gep(out, f.mul(k, f.i64(taps * ov * b)), ty)
            for t, v in enumerate(pieces(line)):
                f.store(v, f.gep(to, t * ov * b, ty))

        lo = f.mul(part, f.i64(per))
        f.loop(lo, minimum(f, f.add(lo, f.i64(per)), f.i64(depth)), 1, [], channel)

    cycles = per * (80.0 * -(-taps // b) + 10.0)
    return task_kernel(target, 2, p.out_blocks * parts, cycles, body)


def _store(f: Function, v: V, ptr: V, mask: V | None) -> None:
    if mask is None:
        f.store(v, ptr)
    else:
        f.masked_store(v, ptr, mask)


def _if_there(
    f: Function, number: int, k: V, channels: int, block: int, body: Callable[[], None]
) -> None:
    """`body` if there is a channel `number` in block `k`."""
    rest = channels % block
    if rest and number >= rest:
        f.when(f.cmp("slt", k, f.i64(channels // block)), body)
    else:
        body()
