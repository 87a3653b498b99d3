"""Reorders between NCHW and blocked images (see `blocked/conv.py`): square transposes in
registers."""

from __future__ import annotations

from collections.abc import Callable

from cellc_compiler.backends.llvm.text import Function, V, first_lanes, transpose, vector
from cellc_compiler.lower.kernel import Kernel
from cellc_runtime.dtypes import DType
from cellc_runtime.target import Target

from ..vectors import (
    acc_type,
    elem_ptr,
    load_acc,
    split_index,
    store_acc,
    task_kernel,
)

_CHUNK = 256
"""Pixels of one unit of work, about."""


def _pieces(f: Function, count: int, block: int, body: Callable[[V, int], None]) -> None:
    """`body(start, size)` over `count` elements in whole blocks, then what is left."""
    full = count // block * block
    f.loop(0, full, block, [], lambda i, _: body(i, block))
    if count > full:
        body(f.i64(full), count - full)


def to_blocked_kernel(
    x: tuple[int, ...], block: int, dtype: DType, target: Target
) -> Kernel:
    """Kernel over (x, out): `[n, c, h, w]` to `[n, c / block, h, w, block]`; 16-bit floats are
    widened."""
    n, c, h, w = x
    size, ty = h * w, acc_type(dtype)
    blocks, vec = -(-c // block), vector(ty, block)
    parts, per = _parts(size, block)

    def body(f: Function, bufs: list[V], unit: V) -> None:
        i, k, part = split_index(f, unit, [n, blocks, parts])
        start = f.mul(part, f.i64(per))
        plane = f.add(f.mul(i, f.i64(c)), f.mul(k, f.i64(block)))
        source = elem_ptr(f, bufs[0], f.add(f.mul(plane, f.i64(size)), start), dtype)
        to = f.add(f.mul(f.add(f.mul(i, f.i64(blocks)), k), f.i64(size)), start)
        out = f.gep(bufs[1], f.mul(to, f.i64(block)), ty)

        def piece(at: V, count: int, channels: int) -> None:
            mask = first_lanes(count, block)
            rows = []
            for j in range(block):
                ptr = elem_ptr(f, source, f.add(at, f.i64(j * size)), dtype)
                rows.append(f.zero(vec) if j >= channels
                            else load_acc(f, ptr, dtype, block, mask))
            for j, row in enumerate(transpose(f, rows)[:count]):
                f.store(row, f.gep(out, f.mul(f.add(at, f.i64(j)), f.i64(block)), ty))

        _parted(f, part, parts, per, size, lambda count: _parted(
            f, k, blocks, block, c, lambda channels: _pieces(
                f, count, block, lambda at, m: piece(at, m, channels))))

    return task_kernel(target, 2, n * blocks * parts, 4.0 * per, body)


def _parts(size: int, block: int) -> tuple[int, int]:
    """A plane of pixels in parts of whole blocks: `(parts, pixels per part)`."""
    parts = max(1, size // _CHUNK)
    per = -(-size // parts)
    per = -(-per // block) * block
    return -(-size // per), per


def _parted(f: Function, part: V, parts: int, per: int, size: int,
            body: Callable[[int], None]) -> None:
    """`body(pixels or channels of this part)`: the last part may be shorter."""
    rest = size - (parts - 1) * per
    if parts == 1 or rest == per:
        body(rest)
    else:
        f.when(f.cmp("eq", part, f.i64(parts - 1)), lambda: body(rest), lambda: body(per))


def from_blocked_kernel(
    x: tuple[int, ...], out: tuple[int, ...], origin: tuple[int, int], dtype: DType,
    target: Target,
) -> Kernel:
    """Kernel over (x, out): `[n, c / b, ph, pw, b]` from `origin` on to `[n, c, h, w]` of type
    `dtype`; a 16-bit one is held in float32."""
    n, blocks, ph, pw, block = x
    _, c, h, w = out
    if pw == w:  # rows follow each other: one row
        ph, pw, h, w, origin = 1, ph * pw, 1, h * w, (0, origin[0] * pw)
    ty, vec = acc_type(dtype), vector(acc_type(dtype), block)
    parts, per = _parts(w, block)

    def body(f: Function, bufs: list[V], unit: V) -> None:
        i, k, y, part = split_index(f, unit, [n, blocks, h, parts])
        start = f.mul(part, f.i64(per))
        row = f.add(f.mul(f.add(f.mul(i, f.i64(blocks)), k), f.i64(ph)),
                    f.add(y, f.i64(origin[0])))
        at = f.add(f.add(f.mul(row, f.i64(pw)), f.i64(origin[1])), start)
        source = f.gep(bufs[0], f.mul(at, f.i64(block)), ty)
        plane = f.add(f.mul(i, f.i64(c)), f.mul(k, f.i64(block)))
        to = f.add(f.mul(f.add(f.mul(plane, f.i64(h)), y), f.i64(w)), start)
        to = elem_ptr(f, bufs[1], to, dtype)

        def piece(at: V, count: int, channels: int) -> None:
            rows = [f.load(vec, f.gep(source, f.mul(f.add(at, f.i64(j)), f.i64(block)), ty))
                    if j < count else f.zero(vec) for j in range(block)]
            mask = first_lanes(count, block)
            for j, line in enumerate(transpose(f, rows)[:channels]):
                store_acc(f, line, elem_ptr(f, to, f.add(at, f.i64(j * h * w)), dtype), dtype, mask)

        _parted(f, part, parts, per, w, lambda count: _parted(
            f, k, blocks, block, c, lambda channels: _pieces(
                f, count, block, lambda at, m: piece(at, m, channels))))

    return task_kernel(target, 2, n * blocks * h * parts, 4.0 * per, body)
