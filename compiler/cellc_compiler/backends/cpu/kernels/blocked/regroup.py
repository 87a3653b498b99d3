"""Channels of blocked images moved to other places in their blocks.

Concatenations and slices whose channels do not begin with a block: each vector of the result has
lanes of one vector or of a few, at a place that is the same for all pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from .....lower.kernel import Kernel
from ....llvm.convert import register_type
from ....llvm.text import Function, V, vector
from ..vectors import split_index, task_kernel

MOST_BLOCKS = 128
"""Blocks of a result; each has code of its own."""

Source = tuple[int, int, list[tuple[int, int]]]
"""An image, a block of it, and which of its lanes goes to which of the result."""


def sources(channels: Sequence[int], block: int, first: int, stop: int) -> list[Source]:
    """The sources of a block of the result, whose first lane is channel `first` of all."""
    found: list[Source] = []
    at = 0
    for image, count in enumerate(channels):
        for k in range(-(-count // block)):
            lanes = [(lane, at + k * block + lane - first) for lane in range(
                min(block, count - k * block))]
            lanes = [(a, b) for a, b in lanes if 0 <= b < min(block, stop - first)]
            if lanes:
                found.append((image, k, lanes))
        at += count
    return found


@dataclass(frozen=True, slots=True)
class Regroup:
    """One problem.

    Attributes:
        images: `[n, blocks, ph, pw, b]` each.
        channels, origins: see the op.
        out: `[n, blocks, h, w, b]`.
        which: the first channel of the result, and the one after the last.
        border: zeros around the result (top, bottom, left, right).
    """

    images: Sequence[tuple[int, ...]]
    channels: Sequence[int]
    origins: Sequence[int]
    out: tuple[int, ...]
    which: tuple[int, int]
    border: tuple[int, int, int, int]
    dtype: DType

    @property
    def plane(self) -> tuple[int, int]:
        """Rows and columns of the result, its border included."""
        top, bottom, left, right = self.border
        return self.out[2] + top + bottom, self.out[3] + left + right

    def row(self, f: Function, bufs: list[V], i: V, y: V) -> None:
        """Row `y` of image `i` of the result."""
        top, bottom, left, right = self.border
        h, w = self.out[2:4]

        def inside() -> None:
            self._clear(f, bufs, i, y, (0, left))
            self._clear(f, bufs, i, y, (left + w, right))
            for k in range(self.out[1]):
                self._block(f, bufs, i, y, k)

        if top or bottom:
            f.when(f.cmp("ult", y - top, h), inside,
                   lambda: self._clear(f, bufs, i, y, (0, self.plane[1])))
        else:
            inside()

    def _line(self, f: Function, bufs: list[V], i: V, y: V, k: V | int) -> V:
        """Where a row of a block of the result begins."""
        (ph, pw), block = self.plane, self.out[4]
        at = ((i * self.out[1] + k) * ph + y) * (pw * block)
        return f.gep(bufs[len(self.images)], at, register_type(self.dtype))

    def _clear(self, f: Function, bufs: list[V], i: V, y: V, columns: tuple[int, int]) -> None:
        """Zeros in some columns (the first, and how many) of a row of all blocks."""
        first, count = columns
        ty, block = register_type(self.dtype), self.out[4]

        def one(k: V, _: list[V]) -> None:
            line = self._line(f, bufs, i, y, k)
            f.loop(first, first + count, 1, [], lambda x, _: f.store(
                f.zero(vector(ty, block)), f.gep(line, x * block, ty)))

        if count:
            f.loop(0, self.out[1], 1, [], one)

    def _block(self, f: Function, bufs: list[V], i: V, y: V, k: int) -> None:
        """The pixels of a row of a block."""
        ty, block = register_type(self.dtype), self.out[4]
        top, left = self.border[0], self.border[2]
        vec = vector(ty, block)
        parts = sources(self.channels, block, self.which[0] + k * block, self.which[1])
        to = f.gep(self._line(f, bufs, i, y, k), left * block, ty)
        starts: list[V] = []
        for image, own, _lanes in parts:
            have, rows, columns = self.images[image][1:4]
            at = ((i * have + own) * rows + (y - top + self.origins[2 * image])) * columns
            starts.append(f.gep(bufs[image], (at + self.origins[2 * image + 1]) * block, ty))

        def pixel(x: V, _: list[V]) -> None:
            value = f.zero(vec)
            for start, (_image, _own, lanes) in zip(starts, parts, strict=True):
                mask = list(range(block))
                for source, place in lanes:
                    mask[place] = block + source
                value = f.shuffle(value, f.load(vec, f.gep(start, x * block, ty)), mask)
            f.store(value, f.gep(to, x * block, ty))

        f.loop(0, self.out[3], 1, [], pixel)


def regroup_kernel(p: Regroup, target: Target) -> Kernel:
    """Kernel over (images, out)."""
    n, (ph, pw) = p.out[0], p.plane

    def body(f: Function, bufs: list[V], unit: V) -> None:
        i, y = split_index(f, unit, [n, ph])
        p.row(f, bufs, i, y)

    return task_kernel(target, len(p.images) + 1, n * ph, 20.0 + 5.0 * p.out[1] * pw, body)
