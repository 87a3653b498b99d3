"""A convolution over channel-blocked images, and the tile of it that is held in registers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass, replace
from cellc_runtime.target import Target

from .....ir.dims import choose, estimate, is_symbolic, surely_at_least

_MAX_VECTORS = 4
_MORE_VECTORS = 3
"""Times as many where an image has one pixel: chains enough to keep the units busy."""
_WIDEST_SLIDING = 5
"""Columns of a window whose weights find room in registers together with the accumulators."""
_UNEVEN = 50  # Tiles of a row differ in width if one pixel in this number would be computed twice


@dataclass(frozen=True, slots=True)
class BlockConv:
    """One convolution of a blocked image."""

    # n, c, oc: images, input and output channels
    n: int
    c: int
    oc: int
    # bi, bo: channels of a block of the input and of the output (`bo`: lanes of a vector)
    bi: int
    bo: int
    # ph, pw: rows and columns of the input image, its border included
    ph: int
    pw: int
    # oh, ow: rows and columns of the output, without its border
    oh: int
    ow: int
    # kh, kw: rows and columns of the kernel
    kh: int
    kw: int
    # stride, dilation: (rows, columns)
    stride: tuple[int, int]
    dilation: tuple[int, int]
    origin: tuple[int, int]  # row and column of the input image where the first window starts
    border: tuple[int, int, int, int]  # zeros written around the output (top, bottom, left, right)
    # the number of groups of channels, each convolved by itself. Those of a group fill blocks, or
    # blocks hold whole groups with as many channels in as out (`bi == bo`).
    groups: int
    dtype: DType  # float32 or float64
    # rows and columns of the output that one pixel of the convolution becomes: its blocks of
    # channels are those of the first of these places, of the next in the row, and so on (a
    # transposed convolution whose windows do not overlap). `oc` counts all of them.
    spread: tuple[int, int] = (1, 1)
    by_rows: bool = False  # a tile stays within one row of the output

    @property
    def taps(self) -> int:
        """Taps of the kernel window."""
        return self.kh * self.kw

    @property
    def depthwise(self) -> bool:
        """Whether every channel is filtered by itself."""
        return 1 < self.groups == self.c == self.oc

    @property
    def narrow(self) -> bool:
        """Whether a block holds several groups, of more channels than one."""
        return self.groups > 1 and not self.depthwise and self.oc // self.groups < self.bo

    @property
    def slides(self) -> bool:
        """Whether the weights of a row of the window stay in registers while pixels pass by."""
        return self.narrow and self.kw <= _WIDEST_SLIDING

    @property
    def depth(self) -> int:
        """Input channels of an element's chain."""
        return self.c // self.groups

    @property
    def chain(self) -> int:
        """Steps of an element's chain."""
        return self.depth * self.taps

    @property
    def out_blocks(self) -> int:
        """Blocks of output channels."""
        return -(-self.oc // self.bo)

    @property
    def in_blocks(self) -> int:
        """Blocks of input channels."""
        return -(-self.c // self.bi)

    @property
    def image_blocks(self) -> int:
        """Blocks of output channels of one place of the spread."""
        return self.out_blocks // (self.spread[0] * self.spread[1])

    @property
    def out_size(self) -> tuple[int, int]:
        """Rows and columns of the output image, without its border."""
        return self.oh * self.spread[0], self.ow * self.spread[1]

    @property
    def out_plane(self) -> tuple[int, int]:
        """Rows and columns of the output image, its border included."""
        top, bottom, left, right = self.border
        return self.out_size[0] + top + bottom, self.out_size[1] + left + right

    @property
    def opened(self) -> bool:
        """Whether rows or columns are known only when the code runs."""
        return is_symbolic(self.oh) or is_symbolic(self.ow)

    @property
    def row(self) -> int:
        """Pixels of what tiles lie along: a row of the output, or all of it."""
        return self.oh * self.ow if self.flat else self.ow

    @property
    def flat(self) -> bool:
        """Whether windows of consecutive pixels are consecutive across rows."""
        return not self.by_rows and (self.taps, self.stride, self.origin) == (
            1, (1, 1), (0, 0)) and (self.ph, self.pw) == (self.oh, self.ow)


@dataclass(frozen=True, slots=True)
class Tile:
    """The tile in registers: `ov` channel vectors of `tr` rows by `tc` columns of pixels.

    In a flat problem a tile is one row of `tc` consecutive pixels.
    """

    ov: int
    tr: int
    tc: int
    cycles: float  # estimate of the whole problem
    # vectors of weights that have no register: the multiply-adds of each pixel read them
    again: int = 0
    fewer: int = 0  # the number of last tiles of a row that are a column narrower
    # where the columns of an image are known only when the code runs, those of a narrower tile:
    # rows end with some of them (`row_tiles`). 0: rows have one kind of tile.
    half: int = 0
    # whether the target's multiply-add takes one element of memory for all lanes
    fold: bool = False
    # the weights of a row of the window stay in registers while the pixels of the image pass by:
    # each is read once for all windows of the tile it is in
    slides: bool = False

    @property
    def pixels(self) -> int:
        """Pixels of a tile."""
        return self.tr * self.tc

    def row_tiles(self, columns: Any) -> tuple[Any, Any]:
        """The tiles of a row of open columns: whole ones, then narrower ones, so that few pixels
        are computed twice."""
        tc, half = self.tc, self.half
        wide = columns // tc
        rest = columns - wide * tc
        narrow, more = -(-rest // half), -(-(rest + tc) // half)
        # One whole tile less, where narrower ones fit better.
        saved = tc + half * (narrow - more)
        return (choose(wide, 1, choose(saved, 1, wide - 1, wide), wide),
                choose(wide, 1, choose(saved, 1, more, narrow), narrow))

    def across(self, columns: Any) -> Any:
        """How many tiles a row of open columns has: one for each pixel, where even a narrower one
        is wider than the row."""
        count = sum(self.row_tiles(columns))
        if surely_at_least(columns, self.half):
            return count
        return choose(columns, self.half, count, columns)

    def single(self) -> Tile:
        """The tile of one pixel."""
        return replace(self, tc=1, again=0, fewer=0, half=0, slides=False)

    def narrower(self) -> Tile:
        """The last tiles of a row: a column narrower, or half as wide."""
        if self.half:
            return replace(self, tc=self.half, again=0, half=0)
        return replace(self, tc=self.tc - 1, again=max(0, self.again - self.ov), fewer=0)

    @property
    def folded(self) -> range:
        """Pixels whose element is read by each multiply-add rather than once into a register:
        fewer instructions, more loads."""
        if self.slides:
            return range(0)
        if self.ov == 1:
            return range(self.pixels)
        return range(1, self.pixels, 2) if self.ov == 2 and self.fold else range(0)


def _step_cycles(p: BlockConv, t: Tile) -> float:
    """Estimated cycles of one step of a tile's chain: multiply-adds, and the shuffles for each of
    them, against loads.

    The mean of two cases. Alone on a core the two units for multiply-adds are the limit. Beside
    another thread of the same core (a neighbour of a virtual machine, say) it is the issue slots,
    half as many then, and whatever comes with the multiply-adds costs: measured, 0.41 cycles for
    each of them, half a cycle for each load that is an instruction, 0.2 for one that is not, and a
    little more for weights, which come from further away.
    """
    shuffles = p.narrow / (p.kw if p.slides else 1)
    whole = t.pixels
    fmas, pixels = t.ov * whole * (1 + shuffles), float(whole)
    if t.slides and not p.narrow:
        pixels = (t.tc + (p.kw - 1) * p.dilation[1]) / p.kw
    if not t.fold:
        loads = t.ov + pixels
        return max(fmas / 2, loads / 2, (fmas + loads + 1) / 5.0, 4.0) + 0.12 * t.ov
    once = len(t.folded)
    folded = t.again * whole + t.ov * once
    loads = t.ov - t.again + pixels - once
    alone = max(fmas / 2, (loads + folded) / 2, (fmas + loads + 1) / 5.0, 4.0)
    beside = max(0.41 * fmas + 0.5 * loads + 0.2 * folded, 0.68 * (loads + folded))
    return (alone + beside + 0.25 * t.ov) / 2


def choose_tile(p: BlockConv, target: Target, widest: int = _MAX_VECTORS) -> Tile:
    """The cheapest tile that divides the blocks of output channels, of `widest` at most."""
    if p.opened:
        known = {k: estimate(getattr(p, k)) for k in ("ph", "pw", "oh", "ow")}
        found = choose_tile(replace(p, **known, by_rows=not p.flat), target, widest)
        return replace(found, fewer=0, half=-(-found.tc // 2))
    if not p.depthwise and not p.narrow and (p.oh, p.ow) == (1, 1):
        widest *= _MORE_VECTORS
    best, least = None, math.inf
    for ov in range(1, min(widest, p.out_blocks) + 1):
        if p.image_blocks % ov or (p.groups > 1 and max(1, p.out_blocks // p.groups) % ov):
            continue  # a tile is of one group
        for cycles, tile in _tiles(p, target, ov):
            if cycles < least * 0.995:
                best, least = tile, cycles
    assert best is not None
    return replace(best, cycles=least)


def _tiles(p: BlockConv, target: Target, ov: int) -> Iterator[tuple[float, Tile]]:
    """The tiles of `ov` vectors that registers have room for, with their cycles."""
    # Of 16 registers one stays free: there a multiply-add takes no element of memory for all lanes.
    few = target.vector_registers == 16 and not p.depthwise
    free = target.vector_registers - few
    fold = target.vector_bytes == 64 and not p.depthwise and not p.narrow
    if p.narrow or p.depthwise:
        held = p.kw + 1 if p.slides else ov
        yield from _wide(p, ov, (free - 1 - held) // ov, Tile(ov, 1, 1, 0.0, slides=p.slides))
        return
    # Beside 13 accumulators of one vector LLVM finds no register to rotate them through.
    held = 2 if few and ov == 1 else ov
    plain = Tile(ov, 1, 1, 0.0, fold=fold)
    yield from _wide(p, ov, (free - 1 - held) // ov, plain)
    if fold and p.groups == 1 and ov > 2:
        tc = (free - held) // ov  # a vector of weights stays in memory
        yield from _wide(p, ov, tc, replace(plain, again=max(0, ov * (tc + 1) + 1 - free)))
    if p.stride[1] == 1 and 1 < p.kw <= _WIDEST_SLIDING and (
            tc := (free - 1 - few - ov * p.kw) // ov) > (p.kw - 1) * p.dilation[1]:
        yield from _wide(p, ov, tc, replace(plain, slides=True))


def _wide(p: BlockConv, ov: int, most: int, t: Tile) -> Iterator[tuple[float, Tile]]:
    """Yield tiles like `t` of at most this number of pixels, with their cycles."""
    rows, cols = (1, p.oh * p.ow) if p.flat else (p.oh, p.ow)
    if most < 1:
        return
    least = -(-cols // most)
    widths = {-(-cols // across) for across in range(least, (3 if t.fold else 1) * least + 1)}
    shapes = [(1, tc) for tc in sorted(widths, reverse=True)]
    if not p.by_rows and not (t.slides and not p.narrow):  # several rows only where a row is short
        shapes += [(tr, cols) for tr in range(2, min(rows, most // cols) + 1)]
    for tr, tc in shapes:
        across = -(-cols // tc)
        fewer = across * tc - cols
        if tr > 1 or tc == 1 or fewer * _UNEVEN < cols or not t.fold:
            fewer = 0
        again = t.again if tr * tc == most else 0
        tile = Tile(ov, tr, tc, 0.0, again, fewer, fold=t.fold, slides=t.slides)
        cycles = (across - fewer) * _tile_cycles(p, tile)
        if fewer:
            cycles = 1.01 * (cycles + fewer * _tile_cycles(p, tile.narrower()))  # more code
        yield cycles * -(-rows // tr) * (p.out_blocks // ov), tile


def _tile_cycles(p: BlockConv, t: Tile) -> float:
    return p.chain * _step_cycles(p, t) + 20.0 + 3.0 * t.ov * t.pixels
