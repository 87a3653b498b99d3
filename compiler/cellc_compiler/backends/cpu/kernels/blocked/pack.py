"""Reorders for kernels over channel-blocked images (see `blocked/conv.py`): weights packed as
`[O / ov][I][kh][kw][ov][B]`, and images from NCHW to blocks and back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from cellc_runtime.dtypes import DType
from cellc_runtime.target import Target

from .....ir.dims import Undecided, is_symbolic, surely_at_least
from .....lower.kernel import Kernel
from ....llvm.convert import register_type
from ....llvm.text import Function, V, first_lanes, kernel_function, module, transpose, vector
from ..vectors import (
    acc_size,
    divmod_const,
    elem_ptr,
    load_acc,
    minimum,
    split_index,
    store_acc,
    task_kernel,
    units_per_task,
)
from .tile import BlockConv


def pack_kernel(p: BlockConv, ov: int, given: DType, target: Target) -> Kernel:
    """Kernel over (w, packed): `[oc, chain]` of type `given` to `[oc / (ov * B)][chain][ov][B]`,
    missing output channels as zeros."""
    cycles = 3.0 * p.chain * p.bo / 4 + 50.0
    if p.bo > 1 and p.oc % p.bo == 0 and p.chain >= p.bo:
        per = units_per_task(p.out_blocks, cycles)
        numbers = (p.chain, ov, p.out_blocks, per)
        return Kernel(_pack_text(p.dtype, given, p.bo, target), -(-p.out_blocks // per), 2,
                      p.out_blocks * cycles, numbers)
    return _pack_ragged(p, ov, given, cycles, target)


@functools.cache
def _pack_text(dtype: DType, given: DType, b: int, target: Target) -> str:
    """The kernel for whole blocks and chains of a block or more, whatever their number: LLVM
    takes as long for a transposition as for a tile, and most layers need one.

    Its numbers are the chain, the vectors of a group, the blocks, and how many a task does.
    """
    size = acc_size(dtype)
    f, (source, packed) = kernel_function(target, 2)
    k, ov, blocks, per = (f.load("i64", f.gep(f.arg("bufs"), i, "ptr"), align=8)
                          for i in range(2, 6))
    row_bytes = k * given.itemsize
    line_bytes = ov * (b * size)
    last = k - b

    def one(block: V, _: list[V]) -> None:
        group = block // ov
        j = block - group * ov
        out = f.gep(packed, group * k * line_bytes)
        out = f.gep(out, j * (b * size))
        rows = f.gep(source, block * (row_bytes * b))

        def square(at: V, _: list[V]) -> None:
            # The last square overlaps the one before it, and writes the same values again.
            at = minimum(f, at, last)
            row, lines = elem_ptr(f, rows, at, given), []
            for i in range(b):
                lines.append(load_acc(f, row, given, b, None))
                row = f.gep(row, row_bytes) if i < b - 1 else row
            line = f.gep(out, at * line_bytes)
            for i, column in enumerate(transpose(f, lines)):
                f.store(column, line)
                line = f.gep(line, line_bytes) if i < b - 1 else line

        f.loop(0, k, b, [], square)

    until = minimum(f, f.arg("hi") * per, blocks)
    f.loop(f.arg("lo") * per, until, 1, [], one)
    f.ret_()
    return module([f])


def _pack_ragged(p: BlockConv, ov: int, given: DType, cycles: float, target: Target) -> Kernel:
    """The kernel for a last block that is not full, and for short chains."""
    b, k, ty = p.bo, p.chain, register_type(p.dtype)
    vec = vector(ty, b)
    full = k // b * b

    def body(f: Function, bufs: list[V], block: V) -> None:
        group, j = divmod_const(f, block, ov)
        out = f.gep(bufs[1], group * (ov * k * b), ty)
        out = f.gep(out, j * b, ty)
        first = block * b
        rows = []
        live = []
        for i in range(b):
            # A row past the last channel reads the last one and is replaced by zeros.
            row = first + i
            live.append(f.cmp("slt", row, p.oc))
            row = minimum(f, row, p.oc - 1)
            rows.append(elem_ptr(f, bufs[0], row * k, given))

        def columns(at: V, count: int) -> None:
            lines = []
            for ptr, alive in zip(rows, live, strict=True):
                line = load_acc(f, elem_ptr(f, ptr, at, given), given, b, first_lanes(count, b))
                if p.oc % b:
                    line = f.select(alive, line, f.zero(vec))
                lines.append(line)
            for i, column in enumerate(transpose(f, lines)[:count]):
                f.store(column, f.gep(out, (at + i) * (ov * b), ty))

        f.loop(0, full, b, [], lambda at, _: columns(at, b))
        if k > full:
            columns(f.i64(full), k - full)

    return task_kernel(target, 2, p.out_blocks, cycles, body)


# --- images, by square transposes in registers ----------------------------------------------------


_CHUNK = 256  # Pixels of one unit of work, about


def _pieces(
    f: Function, count: int | V, block: int, size: int, body: Callable[[V, int], None]
) -> None:
    """`body(start, count)` over `count` elements, the last or others of `size`, in whole blocks,
    then what is left. Of a number that is known only when the code runs, the last block overlaps
    the one before it; where all are less than a block, elements are done one by one."""
    if isinstance(count, V):
        last = count - block

        def blocks() -> None:
            f.loop(f.i64(0), count, block, [], lambda i, _: body(minimum(f, i, last), block))

        if surely_at_least(size, block):
            blocks()
        else:
            f.when(f.cmp("sge", f.i64(size), block), blocks, lambda: f.loop(
                f.i64(0), count, 1, [], lambda i, _: body(i, 1)) and None)
        return
    full = count // block * block
    f.loop(0, full, block, [], lambda i, _: body(i, block))
    if count > full:
        body(f.i64(full), count - full)


def to_blocked_kernel(x: tuple[int, ...], block: int, dtype: DType, target: Target) -> Kernel:
    """Kernel over (x, out): `[n, c, h, w]` to `[n, c / block, h, w, block]`; 16-bit floats are
    widened."""
    n, c, h, w = x
    if is_symbolic(c):
        raise Undecided("the number of channels is not known")
    size, ty = h * w, register_type(dtype)
    blocks, vec = -(-c // block), vector(ty, block)
    parts, per = _parts(size, block)

    def body(f: Function, bufs: list[V], unit: V) -> None:
        i, k, part = split_index(f, unit, [n, blocks, parts])
        start = part * per
        source = elem_ptr(f, bufs[0], (i * c + k * block) * size + start, dtype)
        out = f.gep(bufs[1], ((i * blocks + k) * size + start) * block, ty)

        def piece(at: V, count: int, channels: int) -> None:
            mask = first_lanes(count, block)
            rows = []
            for j in range(block):
                ptr = elem_ptr(f, source, at + j * size, dtype)
                rows.append(f.zero(vec) if j >= channels else load_acc(f, ptr, dtype, block, mask))
            for j, row in enumerate(transpose(f, rows)[:count]):
                f.store(row, f.gep(out, (at + j) * block, ty))

        _parted(f, part, parts, per, size, lambda count: _parted(
            f, k, blocks, block, c, lambda channels: _pieces(
                f, count, block, size, lambda at, m: piece(at, m, channels))))

    return task_kernel(target, 2, n * blocks * parts, 4.0 * per, body)


def _parts(size: int, block: int) -> tuple[int, int]:
    """A plane of pixels in parts of whole blocks: `(parts, pixels per part)`."""
    if is_symbolic(size):
        return -(-size // _CHUNK), _CHUNK
    parts = max(1, size // _CHUNK)
    per = -(-size // parts)
    per = -(-per // block) * block
    return -(-size // per), per


def _parted(f: Function, part: V, parts: int, per: int, size: int,
            body: Callable[[Any], None]) -> None:
    """`body(pixels or channels of this part)`: the last part may be shorter."""
    if is_symbolic(size):
        body(minimum(f, f.i64(per), f.i64(size) - part * per))
        return
    rest = size - (parts - 1) * per
    if parts == 1 or rest == per:
        body(rest)
    else:
        f.when(f.cmp("eq", part, parts - 1), lambda: body(rest), lambda: body(per))


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
    ty, vec = register_type(dtype), vector(register_type(dtype), block)
    parts, per = _parts(w, block)

    def body(f: Function, bufs: list[V], unit: V) -> None:
        i, k, y, part = split_index(f, unit, [n, blocks, h, parts])
        start = part * per
        at = ((i * blocks + k) * ph + (y + origin[0])) * pw + origin[1] + start
        source = f.gep(bufs[0], at * block, ty)
        to = elem_ptr(f, bufs[1], ((i * c + k * block) * h + y) * w + start, dtype)

        def piece(at: V, count: int, channels: int) -> None:
            rows = [f.load(vec, f.gep(source, (at + j) * block, ty))
                    if j < count else f.zero(vec) for j in range(block)]
            mask = first_lanes(count, block)
            for j, line in enumerate(transpose(f, rows)[:channels]):
                store_acc(f, line, elem_ptr(f, to, at + j * h * w, dtype), dtype, mask)

        _parted(f, part, parts, per, w, lambda count: _parted(
            f, k, blocks, block, c, lambda channels: _pieces(
                f, count, block, w, lambda at, m: piece(at, m, channels))))

    return task_kernel(target, 2, n * blocks * h * parts, 4.0 * per, body)


# --- images with channels last --------------------------------------------------------------------


_NEAR_BYTES = 16 << 10
"""Bytes of the pixels that all blocks are copied of before the next ones."""


def _by_chunks(f: Function, width: int, channels: int, block: int, itemsize: int,
               copy: Callable[[V, V, int], None]) -> None:
    """`copy(block number, column, channels)` for all pixels of a row, some of which stay in the
    first-level cache for all blocks."""
    per = max(1, min(width, _NEAR_BYTES // (channels * itemsize)))
    full, rest = divmod(channels, block)

    def chunk(start: V, _: list[V]) -> None:
        end = minimum(f, start + per, width)

        def pixels(k: V, count: int) -> None:
            f.loop(start, end, 1, [], lambda x, _: copy(k, x, count))

        f.loop(0, full, 1, [], lambda k, _: pixels(k, block))
        if rest:
            pixels(f.i64(full), rest)

    f.loop(0, width, per, [], chunk)


def rows_to_blocked_kernel(
    x: tuple[int, ...], block: int, border: tuple[int, int, int, int], dtype: DType,
    target: Target,
) -> Kernel:
    """Kernel over (x, out): `[n, h, w, c]` to `[n, c / block, h, w, block]` with zeros around it
    (top, bottom, left, right); 16-bit floats are widened."""
    n, h, w, c = x
    blocks, ty = -(-c // block), register_type(dtype)
    top, bottom, left, right = border
    ph, pw = h + top + bottom, w + left + right

    def body(f: Function, bufs: list[V], unit: V) -> None:
        i, y = split_index(f, unit, [n, ph])
        zero = f.zero(vector(ty, block))
        source = elem_ptr(f, bufs[0], (i * h + (y - top)) * (w * c), dtype)

        def place(k: V, column: V | int) -> V:
            return f.gep(bufs[1], (((i * blocks + k) * ph + y) * pw + column) * block, ty)

        def clear(k: V, start: int, count: int) -> None:
            f.loop(start, start + count, 1, [], lambda column, _: f.store(zero, place(k, column)))

        def copy(k: V, column: V, count: int) -> None:
            ptr = elem_ptr(f, source, column * c + k * block, dtype)
            value = load_acc(f, ptr, dtype, block, first_lanes(count, block))
            f.store(value, place(k, column + left))

        def inside() -> None:
            if left or right:
                f.loop(0, blocks, 1, [], lambda k, _: clear(k, 0, left))
                f.loop(0, blocks, 1, [], lambda k, _: clear(k, left + w, right))
            _by_chunks(f, w, c, block, dtype.itemsize, copy)

        if top or bottom:
            f.when(f.cmp("ult", y - top, h), inside, lambda: f.loop(
                0, blocks, 1, [], lambda k, _: clear(k, 0, pw)) and None)
        else:
            inside()

    return task_kernel(target, 2, n * ph, 20.0 + 3.0 * blocks * pw, body)


def rows_from_blocked_kernel(
    x: tuple[int, ...], out: tuple[int, ...], origin: tuple[int, int], dtype: DType,
    target: Target,
) -> Kernel:
    """Kernel over (x, out): `[n, c / b, ph, pw, b]` from `origin` on to `[n, h, w, c]`."""
    n, blocks, ph, pw, block = x
    _, h, w, c = out
    ty = register_type(dtype)
    vec = vector(ty, block)

    def body(f: Function, bufs: list[V], unit: V) -> None:
        i, y = split_index(f, unit, [n, h])
        to = elem_ptr(f, bufs[1], unit * (w * c), dtype)

        def copy(k: V, column: V, count: int) -> None:
            at = ((i * blocks + k) * ph + (y + origin[0])) * pw + (column + origin[1])
            store_acc(f, f.load(vec, f.gep(bufs[0], at * block, ty)),
                      elem_ptr(f, to, column * c + k * block, dtype), dtype,
                      first_lanes(count, block))

        _by_chunks(f, w, c, block, dtype.itemsize, copy)

    return task_kernel(target, 2, n * h, 20.0 + 3.0 * blocks * w, body)
