"""Scatter: a copy of the input, then the updates, side by side, with the bits of program order.

- Sums and extremes of integers do not depend on order: atomic operations.
- `update`: the last update of a place is found by an atomic maximum of positions, and written.
- Else updates are sorted by place, those of a place in their order, and a thread does the updates
  of a place, in a column.

Updates of a place that many have are a chain, whatever the machine: the law of bits asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType, part_dtype
from cellc_runtime.records import dataclass, replace
from cellc_runtime.target import Target

from ....lower.plan import KernelPlan, operand, result, scratch
from ...along_axis import Scatter, updated
from ...llvm.convert import convert, load_as, memory_type, store_as
from ...llvm.math.lanes import X
from ...llvm.text import V
from ..code import VECTOR_BYTES, KernelCode, aligned
from ..writer import THREADS, GpuFunction
from .plans import step
from .sort import Sorting

NOWHERE = (1 << 32) - 1  # The place of an update outside of the axis, and of none
_AHEAD = 4  # Updates of a place that are read before the first of them is used
_ATOMIC = {"add": "add", "sub": "sub", "max": "max", "min": "min"}
_ENTRY = "i64"


@dataclass(frozen=True, slots=True)
class ScatterByBlocks(Scatter):
    """A scatter whose updates go to their places side by side."""

    @property
    def parts(self) -> int:
        """Of an element: two of complex ones."""
        return 2 if self.dtype.is_complex else 1

    @property
    def part(self) -> DType:
        """The type of a part."""
        return part_dtype(self.dtype) if self.dtype.is_complex else self.dtype

    @property
    def lists(self) -> int:
        """Of positions."""
        return self.batch * (self.outer * self.inner if self.per_element else 1)

    @property
    def columns(self) -> int:
        """Numbers that an update is for."""
        return self.parts * (1 if self.per_element else self.outer * self.inner)

    @property
    def items(self) -> int:
        """Numbers of all updates."""
        return self.lists * self.count * self.columns

    def offset(self, number: X, place: X, column: X, extent: int) -> X:
        """Return the place of a list's number, in a tensor with `extent` places along the axis."""
        if self.per_element:
            row, i = number.op("udiv", self.inner), number.op("urem", self.inner)
            return ((row * extent + place) * self.inner + i) * self.parts + column
        across = self.inner * self.parts
        row, i = column.op("udiv", across), column.op("urem", across)
        return ((number * self.outer + row) * extent + place) * across + i

    def place(self, f: GpuFunction, number: X, s: X, indices: V) -> tuple[X, X]:
        """Where update s of a list goes along the axis, and whether that is inside."""
        at = self.offset(number, s, X(f, f.i64(0)), self.count).op("udiv", self.parts) \
            if self.per_element else number * self.count + s
        raw = load_as(f, self.index_dtype, f.gep(indices, at.v, memory_type(self.index_dtype)))
        given = X(f, convert(f, raw, self.index_dtype, dtypes.int64))
        index = given.cmp("slt", 0).where(given + self.extent, given)
        return index, index.cmp("ult", self.extent)

    # --- kernels ----------------------------------------------------------------------------------

    def plan(self, target: Target) -> KernelPlan:
        """The kernels, from in0 (input), in1 (indices) and in2 (updates) to out0."""
        nbytes = self.batch * self.outer * self.extent * self.inner \
            * self.parts * self.part.itemsize
        copy = step(copied(nbytes, self.part.itemsize, target), (operand(0), result(0)))
        if not self.count:
            return KernelPlan((copy,))
        if self.mode == "update":
            found = self._by_winners(target)
        elif self.mode in _ATOMIC and self.part.kind in ("int", "uint") and self.part.itemsize > 2:
            found = KernelPlan((step(self._atomic(target), (operand(1), operand(2), result(0))),))
        else:
            found = self._by_places(target)
        return replace(found, steps=(copy, *found.steps))

    def _atomic(self, target: Target) -> KernelCode:
        f = GpuFunction(target, 3, THREADS)
        ty, op = memory_type(self.part), _ATOMIC[self.mode]
        if self.part.kind == "uint" and op in ("max", "min"):
            op = "u" + op
        with f.item(self.lists, self.count, self.columns) as (number, s, column):
            place, inside = self.place(f, number, s, f.pointer(0))
            with f.given(inside):
                at = self.offset(number, s, column, self.count)
                value = f.load(ty, f.gep(f.pointer(1), at.v, ty))
                to = self.offset(number, place, column, self.extent)
                f.atomic(op, value, f.gep(f.pointer(2), to.v, ty))
        return f.finished_for(self.items)

    def _by_winners(self, target: Target) -> KernelPlan:
        """The position of the last update of each place, then those updates."""
        winners, count = scratch("winners"), self.lists * self.extent
        return KernelPlan((
            step(_nobody(count, target), (winners,)),
            step(self._last_updates(target), (operand(1), winners)),
            step(self._winning(target), (operand(1), operand(2), winners, result(0))),
        ), {winners: 4 * count})

    def _last_updates(self, target: Target) -> KernelCode:
        f = GpuFunction(target, 2, THREADS)
        with f.item(self.lists, self.count) as (number, s):
            place, inside = self.place(f, number, s, f.pointer(0))
            with f.given(inside):
                at = f.gep(f.pointer(1), (number * self.extent + place).v, "i32")
                f.atomic("max", s.to("trunc", "i32").v, at)
        return f.finished_for(self.lists * self.count)

    def _winning(self, target: Target) -> KernelCode:
        f, ty = GpuFunction(target, 4, THREADS), f"i{8 * self.part.itemsize}"
        with f.item(self.lists, self.count, self.columns) as (number, s, column):
            place, inside = self.place(f, number, s, f.pointer(0))
            with f.given(inside):
                at = f.gep(f.pointer(2), (number * self.extent + place).v, "i32")
                with f.given(X(f, f.load("i32", at)).cmp("eq", s.to("trunc", "i32"))):
                    come = self.offset(number, s, column, self.count)
                    value = f.load(ty, f.gep(f.pointer(1), come.v, ty))
                    to = self.offset(number, place, column, self.extent)
                    f.store(value, f.gep(f.pointer(3), to.v, ty))
        return f.finished_for(self.items)

    def _by_places(self, target: Target) -> KernelPlan:
        """Entries (a place above the position of its update) in order, then place by place."""
        order = scratch("order")
        made = Sorting(self.lists, self.count, _ENTRY, self._entry, self._ordered, (operand(1),),
                       (order,)).plan(target)
        last = step(self._segments(target), (order, operand(2), result(0)))
        held = {**made.scratch, order: self.lists * self.count * 8}
        return KernelPlan((*made.steps, last), held)

    def _entry(self, f: GpuFunction, number: X, s: X) -> X:
        place, inside = self.place(f, number, s, f.pointer(0))
        return (inside.where(place, NOWHERE) << 32) | s

    def _ordered(self, f: GpuFunction, number: X, rank: X, entry: X, out: int) -> None:
        f.store(entry.v, f.gep(f.pointer(out), (number * self.count + rank).v, _ENTRY))

    def _segments(self, target: Target) -> KernelCode:
        """A thread for each entry and column does what begins with the entry, if something does."""
        f = GpuFunction(target, 3, THREADS)
        with f.item(self.lists, self.count, self.columns) as (number, rank, column):
            def entry(at: X) -> X:
                where = number * self.count + at
                return X(f, f.load(_ENTRY, f.gep(f.pointer(0), where.v, _ENTRY)))

            place = entry(rank) >> 32
            before = entry(rank.cmp("eq", 0).where(0, rank - 1)) >> 32
            begins = rank.cmp("eq", 0) | before.cmp("ne", place)
            with f.given(begins & place.cmp("ne", NOWHERE)):
                self._segment(f, number, rank, column, place, entry)
        return f.finished_for(self.items)

    def _segment(
        self, f: GpuFunction, number: X, rank: X, column: X, place: X, entry: Callable[[X], X]
    ) -> None:
        """The updates of a place, in order."""
        ty = memory_type(self.part)
        to = f.gep(f.pointer(2), self.offset(number, place, column, self.extent).v, ty)
        acc = f.var(X(f, load_as(f, self.part, to)))
        now, goes_on = f.var(rank), f.var(X(f, V("i1", "true")))
        with f.repeat(goes_on.get):
            reads = []
            for ahead in range(_AHEAD):
                at = now.get() + ahead
                there = at.cmp("slt", self.count)
                found = entry(there.where(at, self.count - 1))
                own = there & (found >> 32).cmp("eq", place)
                update = f.var(acc.get())
                with f.given(own):
                    come = self.offset(number, found & NOWHERE, column, self.count)
                    update.set(X(f, load_as(f, self.part, f.gep(f.pointer(1), come.v, ty))))
                reads.append((own, update))
            for own, update in reads:
                new = updated(f, self.mode, self.part, acc.get().v, update.get().v)
                acc.set(own.where(X(f, new), acc.get()))
            now.set(now.get() + _AHEAD)
            goes_on.set(reads[-1][0])
        store_as(f, acc.get().v, self.part, to)


def _nobody(count: int, target: Target) -> KernelCode:
    """So many int32 become -1."""
    f = GpuFunction(target, 1, THREADS)
    with f.item(count) as (i,):
        f.store(V("i32", "-1"), f.gep(f.pointer(0), i.v, "i32"))
    return f.finished_for(count)


def copied(nbytes: int, itemsize: int, target: Target) -> KernelCode:
    """Return the kernel that copies a number of bytes, for elements of a given size."""
    def code(width: int) -> KernelCode:
        f, size = GpuFunction(target, 2, THREADS), min(width, 4)
        ty = f"i{8 * size}" if width <= size else f"<{width // size} x i{8 * size}>"
        count = nbytes // width
        with f.item(count) as (i,):
            at = i * width
            f.store(f.load(ty, f.gep(f.pointer(0), at.v), width), f.gep(f.pointer(1), at.v), width)
        return f.finished_for(count)

    return aligned(code(gcd(nbytes, VECTOR_BYTES)), code(itemsize))
