"""Channels of blocked images moved to other places in their blocks.

Concatenations and slices whose channels do not begin with a block: each vector of the result has
lanes of one vector or of a few, at a place that is the same for all pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

from cellc_runtime.dtypes import DType
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
    """What a block of the result is made of, whose first lane is channel `first` of all."""
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


def regroup_kernel(
    images: Sequence[tuple[int, ...]], channels: Sequence[int], origins: Sequence[int],
    out: tuple[int, ...], which: tuple[int, int], border: tuple[int, int, int, int],
    dtype: DType, target: Target,
) -> Kernel:
    """Kernel over (images, out).

    Args:
        images: `[n, blocks, ph, pw, b]` each.
        channels, origins: see the op.
        out: `[n, blocks, h, w, b]`.
        which: the first channel of the result, and the one after the last.
        border: zeros around the result (top, bottom, left, right).
    """
    n, blocks, h, w, block = out
    ty = register_type(dtype)
    vec = vector(ty, block)
    top, bottom, left, right = border
    ph, pw = h + top + bottom, w + left + right

    def row(f: Function, bufs: list[V], i: V, y: V, k: int) -> None:
        parts = sources(channels, block, which[0] + k * block, which[1])
        to = f.gep(bufs[len(images)], (((i * blocks + k) * ph + y) * pw + left) * block, ty)
        starts = []
        for image, own, _ in parts:
            have, rows, columns = images[image][1:4]
            at = ((i * have + own) * rows + (y - top + origins[2 * image])) * columns
            starts.append(f.gep(bufs[image], (at + origins[2 * image + 1]) * block, ty))

        def pixel(x: V, _: list[V]) -> None:
            value = f.zero(vec)
            for start, (_, _, lanes) in zip(starts, parts, strict=True):
                mask = list(range(block))
                for source, place in lanes:
                    mask[place] = block + source
                value = f.shuffle(value, f.load(vec, f.gep(start, x * block, ty)), mask)
            f.store(value, f.gep(to, x * block, ty))

        f.loop(0, w, 1, [], pixel)

    def body(f: Function, bufs: list[V], unit: V) -> None:
        i, y = split_index(f, unit, [n, ph])

        def clear(start: int, count: int) -> None:
            def one(k: V, _: list[V]) -> None:
                line = f.gep(bufs[len(images)], ((i * blocks + k) * ph + y) * (pw * block), ty)
                f.loop(start, start + count, 1, [], lambda x, _: f.store(
                    f.zero(vec), f.gep(line, x * block, ty)))

            if count:
                f.loop(0, blocks, 1, [], one)

        def inside() -> None:
            clear(0, left)
            clear(left + w, right)
            for k in range(blocks):
                row(f, bufs, i, y, k)

        if top or bottom:
            f.when(f.cmp("ult", y - top, h), inside, lambda: clear(0, pw))
        else:
            inside()

    return task_kernel(target, len(images) + 1, n * ph, 20.0 + 5.0 * blocks * pw, body)
