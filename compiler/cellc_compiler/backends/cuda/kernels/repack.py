"""Channels innermost: what tensor cores want of an operand of a convolution that lies otherwise.

`(batch, channels, points)` becomes `(batch, points, channels)`, where a group's channels are filled
up with zeros, so that whole vectors of them are copied. Elements pass through shared memory:
adjacent threads read points and write adjacent channels.
"""

from __future__ import annotations

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ...llvm.math.lanes import X
from ...llvm.text import V
from ..code import WARP, KernelCode
from ..writer import THREADS, GpuFunction

_ELEMENTS = 1024  # Of a block's tile


@dataclass(frozen=True, slots=True)
class Repacked:
    """The tensor to be reordered."""

    # outer, groups: matrices; those of a group are adjacent in the result
    outer: int
    groups: int
    # channels, points: of a matrix; points lie densely at first
    channels: int
    points: int
    padded: int  # channels of a group in the result
    dtype: DType

    @property
    def elements(self) -> int:
        """Of the result."""
        return self.outer * self.groups * self.points * self.padded

    @property
    def pitch(self) -> int:
        """Elements from a point to the next in the result."""
        return self.groups * self.padded


def padded_channels(count: int, dtype: DType) -> int:
    """Return the channels of a group with their padding: whole vectors, or 4."""
    unit = min(16 // dtype.itemsize, 8 if count > 4 else 4)
    return -(-count // unit) * unit


def repack(r: Repacked, target: Target) -> KernelCode:
    """The kernel; its buffers are what is read and what is written."""
    f = GpuFunction(target, 2, THREADS)
    ty = f"i{8 * r.dtype.itemsize}"
    wide = min(WARP, 1 << (r.padded - 1).bit_length())
    high = _ELEMENTS // wide
    # Lanes read a column of `WARP / wide` points and `wide` channels: each meets a bank of its own.
    pitch = high + WARP // wide
    shared = f.shared_memory(4 * wide * pitch)
    down, across = -(-r.points // high), -(-r.padded // wide)
    matrix, point, channel = (X(f, v) for v in f.split(
        f.block(), [r.outer * r.groups, down, across]))
    first, start = point * high, channel * wide
    thread = X(f, f.thread())

    def place(c: X, p: X) -> V:
        return f.gep(shared, (c * pitch + p).v, "i32")

    loaded = []
    for i in range(_ELEMENTS // THREADS):
        c, p = (X(f, v) for v in f.split((thread + i * THREADS).v, [wide, high]))
        inside = (start + c).cmp("ult", r.channels) & (first + p).cmp("ult", r.points)
        at = (matrix * r.channels + start + c) * r.points + first + p
        raw = f.load(ty, f.gep(f.pointer(0), inside.where(at, 0).v, ty))
        loaded.append((f.select(inside.v, raw, V(ty, "0")), c, p))
    for raw, c, p in loaded:
        f.store(f.cast("zext", raw, "i32") if ty == "i16" else raw, place(c, p))
    f.barrier()
    outer, group = matrix.op("udiv", r.groups), matrix.op("urem", r.groups)
    for i in range(_ELEMENTS // THREADS):
        p, c = (X(f, v) for v in f.split((thread + i * THREADS).v, [high, wide]))
        word = f.load("i32", place(c, p))
        raw = f.cast("trunc", word, "i16") if ty == "i16" else word
        with f.given((start + c).cmp("ult", r.padded) & (first + p).cmp("ult", r.points)):
            at = (outer * r.points + first + p) * r.pitch + group * r.padded + start + c
            f.store(raw, f.gep(f.pointer(1), at.v, ty))
    return f.finished(r.outer * r.groups * down * across)
