"""Tiles of operands on their way from memory through registers to shared memory.

A thread reads the same places of each tile: its rows are found once, a step of k each time.
Elements loaded for the next tile wait in registers while the present one is multiplied, and are
then stored in the other half of shared memory. (`cp.async` would save these few registers, but can
neither turn round what lies along k nor widen 16-bit floats.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from cellc_runtime.records import dataclass

from ...llvm.convert import from_memory, memory_type
from ...llvm.math.lanes import X
from ...llvm.text import V, lanes_of, sizeof, vector
from ..code import VECTOR_BYTES
from ..writer import GpuFunction
from .operands import Operand, Spot, extent, number, spot, widened
from .tiles import DEPTH, pitch

N = TypeVar("N", X, int)


@dataclass(frozen=True, slots=True)
class Mapping:
    """Which elements of a tile a thread reads; all numbers are powers of two."""

    along: str  # `"free"` or `"steps"`, the axis that neighbouring threads go along
    lanes: int  # adjacent elements that are one load
    width: int  # of the tile
    threads: int  # of the block. Where they are more than there are loads, some do the same.

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


_MOST_STEPS = 8192  # Steps of k of which a table is kept: 8 bytes each
_MOST_TAPS = 64  # Taps that are the bits of a word, or of two


class StepTable:
    """The offset of each step of k, where dividing it into digits would be slower.

    An entry is an offset and the number of a tap. Which taps of a row are in the image are the bits
    of a word, found once, so that a load asks for one bit instead of comparing rows and columns.
    """

    def __init__(self, f: GpuFunction, operand: Operand, name: str) -> None:
        shifts = operand.shifts()
        self.f, self.operand = f, operand
        self.taps = list(dict.fromkeys((y, x) for _, y, x in shifts))
        number_of = {tap: i for i, tap in enumerate(self.taps)}
        entries = [n for o, y, x in shifts for n in (o, number_of[y, x])]
        behind = [0] * (4 * DEPTH)  # the tile after the last one
        self.memory = f.constant_table(name, "i32", [*entries, *behind])

    @staticmethod
    def pays(operand: Operand) -> bool:
        """Whether there is one of an operand."""
        return len(operand.steps) > 1 and extent(operand.steps) <= _MOST_STEPS and len(
            {(y, x) for _, y, x in operand.shifts()}) <= _MOST_TAPS

    def taps_inside(self, row: Spot) -> X | None:
        """The taps of a row that are in the image, as bits; None where all are."""
        f, ty = self.f, "i32" if len(self.taps) <= _MOST_TAPS // 2 else "i64"
        bits, word = _MOST_TAPS if ty == "i64" else _MOST_TAPS // 2, X(f, V(ty, "0"))
        for i, (y, x) in enumerate(self.taps):
            inside = self.operand.inside(row + Spot(number(f, 0), number(f, y), number(f, x)))
            if inside is None:
                return None
            bit = 1 << i if i < bits - 1 else -(1 << i)
            word = word | inside.where(word.const(bit), 0)
        return word

    def at(self, row: Spot, taps: X | None, step: X) -> tuple[X, X | None]:
        """Offset of an element, and whether it is in the image."""
        f = self.f
        entry = f.load("<2 x i32>", f.gep(self.memory, step.v, "i64"), 8)
        offset = row.offset + X(f, f.extract(entry, 0))
        if taps is None:
            return offset, None
        tap = f.cast("zext", f.extract(entry, 1), taps.v.ty)
        bit = taps.op("lshr", X(f, tap)) & 1
        return offset, bit.cmp("ne", 0)


class Loader:
    """Reads tiles of an operand.

    Args:
        operand: what is read.
        pointer: its memory.
        how: which elements a thread reads.
        ty: what a sum is computed in.
        neutral: the value after the last step of k; None where tiles are whole. A product of 0 and
            -0 is -0, which changes no sum at all; that of 0 and 0 would turn -0 into 0.
    """

    def __init__(
        self, f: GpuFunction, operand: Operand, pointer: V, how: Mapping, ty: str,
        neutral: float | None,
    ) -> None:
        self.f, self.operand, self.pointer, self.how = f, operand, pointer, how
        self.ty, self.neutral = ty, neutral
        self.table = StepTable(f, operand, f"steps_{pointer.ref[1:]}") \
            if StepTable.pays(operand) else None
        self.rows: list[Spot] = []
        self.taps: list[X | None] = []
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
            self.taps.append(self.table.taps_inside(self.rows[-1]) if self.table else None)

    def load(self, step: X, end: X) -> list[V]:
        """A thread's elements of the tile that begins with a step of k, as they are computed."""
        return [self._load(row, taps, step + own, end)
                for (_, own), row, taps in zip(self.places, self.rows, self.taps, strict=True)]

    def _at(self, row: Spot, taps: X | None, step: X) -> tuple[X, X | None]:
        """Offset of an element, and whether it is in the image."""
        if self.table is not None:
            return self.table.at(row, taps, step)
        where = row + spot(self.f, step, self.operand.steps)
        return where.offset, self.operand.inside(where)

    def _load(self, row: Spot, taps: X | None, step: X, end: X) -> V:
        f, dtype, lanes = self.f, self.operand.dtype, self.how.lanes
        memory = vector(memory_type(dtype), lanes)
        place, inside = self._at(row, taps, step)
        neutral = self.neutral
        there = None if neutral is None else step.cmp("slt", end)
        valid = inside if there is None else there if inside is None else there & inside
        offset = place if valid is None else valid.where(place, 0)
        raw = f.load(memory, f.gep(self.pointer, offset.v, memory_type(dtype)), sizeof(memory))
        value = widened(f, from_memory(f, raw, dtype))
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
