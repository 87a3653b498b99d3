"""Tiles of products: what a block computes, how its threads share it, and which one a shape gets.

A warp is 4 x 8 lanes. A lane has `tm` x `tn` sums in registers, in vectors of 16 bytes that lie 4
(or 8) vectors apart, so that the eight lanes of a row of the warp read 128 adjacent bytes of shared
memory, and the four of a column the same. An element of an operand's tile is at `k * pitch +
position`, and a row is one vector longer than the tile: what is stored across it (the operand lies
along k in memory) then meets every bank once. `tests/cuda/test_products.py` counts the conflicts
from these formulas.

In a step of k a lane reads `(tm + tn) / 4` vectors for `tm * tn` multiply-adds of float32: 4 for 64
in the largest tile.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ..architecture import UNITS
from ..code import WARP

DEPTH = 8  # Steps of k that a tile holds: 32 bytes of a row of float32, a sector of memory
LANE_ROWS, LANE_COLUMNS = 4, 8


@dataclass(frozen=True, slots=True)
class Tile:
    """A block's part of a product."""

    # tm, tn: sums of a lane, rows and columns
    tm: int
    tn: int
    # wm, wn: warps of a block, down and across
    wm: int
    wn: int
    # how near it comes to a multiply-add in each cycle of each unit, estimated from instructions:
    # multiply-adds of all that is issued in a step of k
    efficiency: float

    @property
    def rows(self) -> int:
        """Of the product."""
        return LANE_ROWS * self.tm * self.wm

    @property
    def columns(self) -> int:
        """Of the product."""
        return LANE_COLUMNS * self.tn * self.wn

    @property
    def threads(self) -> int:
        """Of a block."""
        return WARP * self.wm * self.wn


SINGLE = (Tile(8, 8, 4, 2, 0.86), Tile(8, 4, 2, 2, 0.72), Tile(8, 4, 4, 1, 0.7),
          Tile(4, 4, 1, 4, 0.55), Tile(4, 4, 2, 1, 0.55))
"""For float32: 128 x 128, 64 x 64, 128 x 32, 16 x 128, 32 x 32."""
DOUBLE = (Tile(4, 4, 4, 2, 0.8), Tile(4, 4, 2, 1, 0.7), Tile(2, 4, 1, 2, 0.6))
"""For float64: 64 x 64, 32 x 32, 8 x 64."""

_MACS = 128  # Multiply-adds of float32 that a multiprocessor does in a cycle
_BYTES = 16  # Bytes of memory that a multiprocessor's share is, in a cycle
_LAUNCH = 4000  # Cycles that one more kernel takes
_MOST_PARTIAL = 64 << 20  # Bytes of partial sums at most


@dataclass(frozen=True, slots=True)
class Choice:
    """How a product is cut: its tile, and parts of k that are computed side by side (1: none)."""

    tile: Tile
    parts: int


def pitch(width: int, lanes: int) -> int:
    """Elements from one step of k to the next of a tile that is so wide."""
    return width + lanes


def choose(m: int, n: int, k: int, batch: int, segments: int, itemsize: int, target: Target,
           split: bool = False, in_memory: Callable[[Tile], bool] = lambda _: True) -> Choice:
    """The tile and the parts that take the least time by a simple model.

    Args:
        segments: that the order of the sum cuts k into; parts are these.
        itemsize: of a sum.
        split: parts it must be.
        in_memory: whether what is put by between segments goes to the device's memory.
    """
    units = UNITS[target.cpu]
    fitting = segments * batch * m * n * itemsize <= _MOST_PARTIAL

    def cycles(tile: Tile, parts: int) -> float:
        blocks = -(-m // tile.rows) * -(-n // tile.columns) * batch * parts
        # Two blocks of a unit hide each other's waiting; beyond that they share it.
        busy = max(-(-blocks // units), 1)
        alone = 1.6 if busy == 1 else 1.0
        area = tile.rows * tile.columns * (itemsize // 4)
        work = busy * alone * area * (-(-k // parts) + 8 * DEPTH) / (_MACS * tile.efficiency)
        if parts == 1 and not split:
            # Partial sums between segments stay in the second-level cache, at twice the pace.
            held = blocks * area * 4 if segments > 1 and in_memory(tile) else 0
            return inf if fitting and held > _MOST_PARTIAL else \
                work + segments * held / (units * _BYTES)
        moved = (2 * parts + 1) * batch * m * n * itemsize / (units * _BYTES)
        return work + moved + _LAUNCH

    tiles = SINGLE if itemsize == 4 else DOUBLE
    counts = {segments} if split else {1, segments} if fitting else {1}
    options = [Choice(t, p) for t in tiles for p in sorted(counts)]
    return min(options, key=lambda c: cycles(c.tile, c.parts))
