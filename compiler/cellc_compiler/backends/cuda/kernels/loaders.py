"""Tiles of operands on their way from memory through registers to shared memory.

A thread reads the same places of each tile: its rows are found once, a step of k is found anew.
What is loaded for the next tile waits in registers while the present one is multiplied, and is then
stored in the other half of shared memory. (`cp.async` would save these few registers, but can
neither turn round what lies along k nor widen 16-bit floats.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from cellc_runtime.records import dataclass

from ...llvm.convert import from_memory, memory_type
from ...llvm.math.lanes import X
from ...llvm.text import V, lanes_of, sizeof, vector
from ..writer import GpuFunction
from .operands import Operand, Spot, extent, number, spot
from .tiles import DEPTH, VECTOR_BYTES, pitch

N = TypeVar("N", X, int)


@dataclass(frozen=True, slots=True)
class Mapping:
    """Which elements of a tile a thread reads; all numbers are powers of two.

    Attributes:
        along: `"free"` or `"steps"`, the axis that neighbouring threads go along.
        lanes: elements beside one another that are one load.
        width: of the tile.
        threads: of the block. Where they are more than there are loads, some do the same.
    """

    along: str
    lanes: int
    width: int
    threads: int

    @property
    def loads(self) -> int:
        """Of a thread for a tile."""
        return max(1, self.width * DEPTH // (self.lanes * self.threads))

    @property
    def readers(self) -> int:
        """Threads that read something that no other does."""
        return min(self.threads, self.width * DEPTH // self.lanes)

    def place(
        self, thread: N, load: int, div: Callable[[N, int], N], rem: Callable[[N, int], N]
    ) -> tuple[N, N]:
        """Position and step of k in the tile of a thread's load, by division and remainder."""
        per = (self.width if self.along == "free" else DEPTH) // self.lanes
        threads = self.readers
        t = rem(thread, threads) if threads < self.threads else thread
        if per <= threads:
            first, second = rem(t, per) * self.lanes, div(t, per) + load * (threads // per)
        else:
            turns = per // threads
            first = (t + load % turns * threads) * self.lanes
            second = t * 0 + load // turns
        return (first, second) if self.along == "free" else (second, first)


def mapping(operand: Operand, width: int, threads: int, lanes: int) -> Mapping:
    """How a tile of an operand is read.

    Args:
        lanes: elements of a vector; 1 where none may be read.
    """
    for axis in ("free", "steps"):
        if lanes > 1 and operand.runs(axis, lanes):
            return Mapping(axis, lanes, width, threads)
    return Mapping(operand.nearest, 1, width, threads)


class Loader:
    """Reads tiles of an operand.

    Args:
        operand: what is read.
        pointer: its memory.
        how: which elements a thread reads.
        ty: what a sum is computed in.
        neutral: what stands behind the last step of k; None where tiles are whole. A product of 0
            and -0 is -0, which changes no sum at all; that of 0 and 0 would turn -0 into 0.
    """

    def __init__(
        self, f: GpuFunction, operand: Operand, pointer: V, how: Mapping, ty: str,
        neutral: float | None,
    ) -> None:
        self.f, self.operand, self.pointer, self.how = f, operand, pointer, how
        self.ty, self.neutral = ty, neutral
        self.rows: list[Spot] = []
        self.places: list[tuple[X, X]] = []

    def begin(self, thread: X, batch: X, first: X) -> None:
        """Find the rows: those of the tile whose first one is given. One past the last is the last
        again, so that it can be read."""
        f, how = self.f, self.how
        last = extent(self.operand.free) - (how.lanes if how.along == "free" else 1)
        for load in range(how.loads):
            at, step = how.place(thread, load, lambda a, n: a.op("udiv", n),
                                 lambda a, n: a.op("urem", n))
            row = X(f, f.intrinsic("umin", "i32", (first + at).v, number(f, last).v))
            self.places.append((at, step))
            self.rows.append(self.operand.begin(f, batch, row))

    def load(self, step: X, end: X) -> list[V]:
        """A thread's elements of the tile that begins with a step of k, as they are computed."""
        return [self._load(at, row, step + own, end)
                for (at, own), row in zip(self.places, self.rows, strict=True)]

    def _load(self, at: X, row: Spot, step: X, end: X) -> V:
        f, dtype, lanes = self.f, self.operand.dtype, self.how.lanes
        memory = vector(memory_type(dtype), lanes)
        where = row + spot(f, step, self.operand.steps)
        neutral = self.neutral
        there = None if neutral is None else step.cmp("slt", end)
        inside = self.operand.inside(where)
        valid = inside if there is None else there if inside is None else there & inside
        offset = where.offset if valid is None else valid.where(where.offset, 0)
        raw = f.load(memory, f.gep(self.pointer, offset.v, memory_type(dtype)), sizeof(memory))
        value = from_memory(f, raw, dtype)
        if inside is not None:
            value = f.select(inside.v, value, f.const(value.ty, 0.0))
        if there is not None and neutral is not None:
            value = f.select(there.v, value, f.const(value.ty, neutral))
        return value

    def store(self, values: Sequence[V], shared: V) -> None:
        """Elements in a tile of shared memory, by the first thread that has them."""
        f, readers = self.f, self.how.readers
        if readers == self.how.threads:
            self._store(values, shared)
            return
        with f.given(X(f, f.thread()).cmp("ult", readers)):
            self._store(values, shared)

    def _store(self, values: Sequence[V], shared: V) -> None:
        f, step = self.f, pitch(self.how.width, VECTOR_BYTES // sizeof(self.ty))
        for v, (at, k) in zip(values, self.places, strict=True):
            place = f.gep(shared, (k * step + at).v, self.ty)
            if self.how.along == "free" and lanes_of(v.ty) > 1:
                f.store(v, place, sizeof(v.ty))
                continue
            for lane in range(lanes_of(v.ty)):
                one = f.extract(v, lane) if lanes_of(v.ty) > 1 else v
                f.store(one, f.gep(place, lane * step, self.ty))


__all__ = ["Loader", "Mapping", "mapping"]
