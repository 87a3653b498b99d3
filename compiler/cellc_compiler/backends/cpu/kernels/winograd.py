"""Winograd's minimal filtering F(4x4, 3x3): tiles of 4 x 4 outputs from 6 x 6 inputs with 36
products where the definition has 144.

    Y = A' [(G g G') * (B' d B)] A          (Lavin & Gray, "Fast Algorithms for Convolutional
                                             Neural Networks", CVPR 2016, section 4.3)

This module has the two transformations of images; that of weights is a matrix product, and the
sum over channels is 36 matrix products. A transformed image is `[36, channels, tiles]`, tiles
numbered by (image, row, column). Results differ from the chain of the definition in the last
digits, so this belongs to `numerics="fast"`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from cellc_runtime.dtypes import float32
from cellc_runtime.target import Target

from ....lower.kernel import Kernel
from ....ops.winograd import PATCH, TILE, Tiles
from ...llvm.text import Function, V, first_lanes, mask_of, vector
from .conv.taps import Epilogue
from .vectors import Window, lanes, split_index, task_kernel

_TRANSFORM_CYCLES = 330.0  # Of one vector of tiles of one channel, either way


def cycles(tiles: Tiles, channels: int, target: Target) -> float:
    """Estimated cycles of one transformation of an image of some channels."""
    groups = -(-tiles.columns // lanes(target, float32))
    return tiles.n * channels * tiles.rows * groups * _TRANSFORM_CYCLES


def input_kernel(
    tiles: Tiles, channels: int, size: tuple[int, int], pads: tuple[int, int], target: Target
) -> Kernel:
    """Kernel over (x[n, channels, *size], transformed): `B' d B` of every patch.

    Args:
        pads: zeros above and to the left of the image.
    """
    width = lanes(target, float32)
    window = Window(float32, TILE, width)
    h, w = size

    def body(f: Function, bufs: list[V], unit: V) -> None:
        image, channel = split_index(f, unit, (tiles.n, channels))
        plane = f.gep(bufs[0], unit * (h * w), "float")

        def row(ty: V, _: list[V]) -> None:
            first = (image * tiles.rows + ty) * tiles.columns
            lines = [_line(f, plane, ty * TILE + (r - pads[0]), h, w) for r in range(PATCH)]

            def group(t: V, mask: V | None) -> None:
                start = t * TILE - pads[1]
                d = [[window.load(f, line, start + j, bound)
                      for line, bound in lines] for j in range(PATCH)]
                done = _both(f, d, _patch)
                tile = first + t
                for k, value in enumerate(v for line in done for v in line):
                    at = (channel + k * channels) * tiles.count + tile
                    f.masked_store(value, f.gep(bufs[1], at, "float"), mask)

            _groups(f, tiles.columns, width, group)

        f.loop(0, tiles.rows, 1, [], row)

    return task_kernel(target, 2, tiles.n * channels,
                       cycles(tiles, 1, target) / max(tiles.n, 1), body)


def output_kernel(
    tiles: Tiles, channels: int, target: Target, epilogue: Epilogue | None = None, extra: int = 0
) -> Kernel:
    """Kernel over (products[36, channels, tiles], out[n, channels, h, w]): `A' m A` per tile.

    With an epilogue, out comes twice and what the epilogue reads follows.
    """
    width = lanes(target, float32)
    h, w = tiles.h, tiles.w
    ty = vector("float", width)

    def body(f: Function, bufs: list[V], unit: V) -> None:
        image, channel = split_index(f, unit, (tiles.n, channels))
        plane = unit * (h * w)

        def store(oy: V, ox: V, value: V, mask: V | None) -> None:
            at = plane + (oy * w + ox)
            if epilogue is not None:
                value = epilogue(f, value, channel, at, width, mask)
            f.masked_store(value, f.gep(bufs[1], at, "float"), mask)

        def row(r: V, _: list[V]) -> None:
            first = (image * tiles.rows + r) * tiles.columns

            def group(t: V, mask: V | None) -> None:
                m = [[f.masked_load(ty, f.gep(bufs[0],
                    (channel + (PATCH * i + j) * channels) * tiles.count + (first + t), "float"),
                    mask) for i in range(PATCH)] for j in range(PATCH)]
                done = _both(f, m, _outputs)
                ox = t * TILE
                # All columns of a whole group are inside; the last group's are known.
                left = None if mask is None else w - int(t.ref) * TILE
                for i, line in enumerate(done):
                    oy = r * TILE + i
                    f.when(f.cmp("slt", oy, h), partial(_interleaved, f, oy, ox, line, left, store))

            _groups(f, tiles.columns, width, group, w // TILE)

        f.loop(0, tiles.rows, 1, [], row)

    buffers = 2 if epilogue is None else 3 + extra
    return task_kernel(target, buffers, tiles.n * channels,
                       cycles(tiles, 1, target) / max(tiles.n, 1), body)


def _line(f: Function, plane: V, iy: V, h: int, w: int) -> tuple[V, V]:
    """A row of the image and how many of its elements there are: none outside the image."""
    inside = f.cmp("ult", iy, h)
    return f.gep(plane, iy * w, "float"), f.select(inside, f.i64(w), f.i64(0))


def _groups(
    f: Function, columns: int, width: int, body: Callable[[V, V | None], None],
    whole: int | None = None,
) -> None:
    """Vectors of tiles along a row; of the tiles, `whole` have all their columns."""
    full = (columns if whole is None else whole) // width * width
    f.loop(0, full, width, [], lambda t, _: body(t, None))
    if columns > full:
        # (A mask also where all lanes are in: their columns are known.)
        body(f.i64(full), mask_of([t < columns - full for t in range(width)]))


def _both(
    f: Function, columns: Sequence[Sequence[V]],
    one: Callable[[Function, Sequence[V]], list[V]],
) -> list[list[V]]:
    """A transformation along columns, then along rows; rows of the result."""
    half = [one(f, column) for column in columns]
    return [one(f, row) for row in zip(*half, strict=True)]


def _patch(f: Function, d: Sequence[V]) -> list[V]:
    """B' times six values."""
    four, five, two = (f.const(d[0].ty, c) for c in (4.0, 5.0, 2.0))
    even, odd = f.fma(f.fneg(four), d[2], d[4]), f.fma(f.fneg(four), d[1], d[3])
    outer, inner = d[4] - d[2], two * (d[3] - d[1])
    return [f.fma(four, d[0], f.fma(f.fneg(five), d[2], d[4])), even + odd, even - odd,
        outer + inner, outer - inner, f.fma(four, d[1], f.fma(f.fneg(five), d[3], d[5])),]


def _outputs(f: Function, m: Sequence[V]) -> list[V]:
    """A' times six values."""
    two, four, eight = (f.const(m[0].ty, c) for c in (2.0, 4.0, 8.0))
    s1, s2 = m[1] + m[2], m[3] + m[4]
    d1, d2 = m[1] - m[2], m[3] - m[4]
    return [m[0] + s1 + s2, f.fma(two, d2, d1), f.fma(four, s2, s1), f.fma(eight, d2, d1 + m[5])]


def _interleaved(
    f: Function, oy: V, ox: V, columns: Sequence[V], left: int | None,
    store: Callable[[V, V, V, V | None], None],
) -> None:
    """Store four vectors (column 4t + j of tile t in lane t of vector j) as a run of columns, of
    which `left` are inside the image (None: all)."""
    width = lanes(f.target, float32)
    for part in range(TILE):
        begin = part * width
        if left is not None and left <= begin:
            return
        tile = [(begin + i) // TILE for i in range(width)]
        low, high = (
            f.shuffle(columns[j], columns[j + 1],
                      [t + width * (i % TILE - j) if i % TILE in (j, j + 1) else -1
                       for i, t in enumerate(tile)])
            for j in (0, 2)
        )
        mixed = f.shuffle(low, high, [i if i % TILE < 2 else width + i for i in range(width)])
        mask = None if left is None else first_lanes(left - begin, width)
        store(oy, ox + begin, mixed, mask)
