"""Memory planning: offsets in one arena for buffers with known lifetimes.

Offline best fit by decreasing size: each buffer goes to the lowest offset free of every buffer
that lives at the same time (Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net
Inference", 2020, greedy by size). The exact peak is known before the run.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from cellc_runtime.records import dataclass, field

from ..ir.dims import Dim, Size, estimate, is_symbolic

ALIGN = 64  # Bytes; what a buffer begins at a multiple of where its machine does not say otherwise


@dataclass(slots=True, eq=False)
class Buffer:
    """A temporary: bytes, and the first and last instruction that touches it.

    In a `frame` it is one per task, and `offset` counts from the beginning of the task's part.
    """

    nbytes: int
    first: int = -1
    last: int = -1
    offset: int = 0
    name: str = ""
    frame: Frame | None = None
    align: int = ALIGN

    @property
    def size(self) -> int:
        """Bytes rounded up to the alignment."""
        whole = -(-self.nbytes // self.align) * self.align
        return whole if is_symbolic(whole) else max(whole, self.align)


@dataclass(slots=True, eq=False)
class Frame:
    """Temporaries of which each of several tasks has its own."""

    number: int  # of the loop whose trips are the tasks
    locals: list[Buffer] = field(default_factory=list)  # the temporaries of one task
    nbytes: int = 0  # a task's part of `whole`, the buffer of all
    whole: Buffer = field(default_factory=lambda: Buffer(0, name="rows"))

    def close(self, tasks: int) -> Buffer:
        """Give the temporaries their places; the buffer of all tasks."""
        self.nbytes = plan(b for b in self.locals if b.first >= 0)
        self.whole.nbytes = tasks * self.nbytes
        return self.whole


def plan(buffers: Iterable[Buffer]) -> int:
    """Set the offset of every buffer; returns the bytes of the arena."""
    order = sorted(((-b.size, b.first, i, b) for i, b in enumerate(buffers)))
    taken = _Taken(max((b.last for _, _, _, b in order), default=0) + 1)
    total = 0
    for size, _, _, b in order:
        b.offset = taken.take(b.first, b.last, -size)
        total = max(total, b.offset - size)
    return total


@dataclass(frozen=True, slots=True)
class OpenPlan:
    """The places of buffers whose sizes are known when a program runs.

    A buffer lies above those that live at the same time and lie below it for the sizes of the
    estimate, so no two overlap whatever the sizes are.
    """

    # the symbol of each buffer's offset, in an order in which offsets can be worked out
    names: tuple[str, ...]
    sizes: tuple[Size, ...]  # bytes of each
    below: tuple[tuple[int, ...], ...]  # the buffers it lies above, by number


def plan_open(buffers: Iterable[Buffer], name: str) -> OpenPlan:
    """Give every buffer the symbol of its offset, which begins with `name`."""
    given = list(buffers)
    stand_ins = [Buffer(estimate(b.nbytes), b.first, b.last, align=b.align) for b in given]
    plan(stand_ins)
    order = sorted(range(len(given)), key=lambda i: (stand_ins[i].offset, i))
    below: list[tuple[int, ...]] = []
    for k, i in enumerate(order):
        own = stand_ins[i]
        below.append(tuple(
            j for j, other in enumerate(order[:k])
            if stand_ins[other].last >= own.first and stand_ins[other].first <= own.last))
        given[i].offset = Dim.symbol(f"{name}{k}")  # type: ignore[assignment]  # behaves as an int
    names = tuple(f"{name}{k}" for k in range(len(order)))
    return OpenPlan(names, tuple(given[i].size for i in order), _reduced(below))


def _reduced(below: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """The buffers that each lies above, less those that one of these lies above."""
    out: list[tuple[int, ...]] = []
    all_below: list[int] = []  # sets as bits
    for some in below:
        implied = 0
        for i in some:
            implied |= all_below[i]
        out.append(tuple(i for i in some if not implied >> i & 1))
        for i in some:
            implied |= 1 << i
        all_below.append(implied)
    return tuple(out)


Spans = tuple[list[int], list[int]]
"""Disjoint spans of addresses in order, those that touch joined: their starts, and their ends."""


class _Taken:
    """Which addresses are taken at which times: a segment tree over time.

    A lifetime falls into a few nodes of the tree. A node knows what is taken all of its time by
    what fell into it, and what is taken some of its time by what fell into it or below.
    """

    def __init__(self, times: int) -> None:
        self.leaves = times
        self.all: dict[int, Spans] = {}
        self.some: dict[int, Spans] = {}

    def take(self, first: int, last: int, size: int) -> int:
        """Take the lowest `size` addresses that are free all the time; where they begin."""
        nodes = self._nodes(first, last)
        above = {n >> k for n in nodes for k in range(1, n.bit_length())}
        at = _lowest([s for table, within in ((self.some, nodes), (self.all, above))
                      for n in within if (s := table.get(n)) is not None], size)
        for n in nodes:
            _add(self.all.setdefault(n, ([], [])), at, at + size)
            while n and _add(self.some.setdefault(n, ([], [])), at, at + size):
                n >>= 1
        return at

    def _nodes(self, first: int, last: int) -> list[int]:
        """The highest nodes whose times are in a lifetime."""
        lo, hi, out = first + self.leaves, last + self.leaves + 1, []
        while lo < hi:
            if lo & 1:
                out.append(lo)
                lo += 1
            if hi & 1:
                hi -= 1
                out.append(hi)
            lo, hi = lo >> 1, hi >> 1
        return out


def _lowest(lists: list[Spans], size: int) -> int:
    """The first address from which on `size` are in none of the lists."""
    at, agreed, count = 0, 0, len(lists)
    while True:
        for starts, ends in lists:
            if agreed == count:
                return at
            i = bisect_right(ends, at)
            if i < len(ends) and starts[i] < at + size:
                at, agreed = ends[i], 0
                continue
            agreed += 1
        if agreed == count:
            return at


def _add(spans: Spans, start: int, end: int) -> bool:
    """Add the addresses from `start` to before `end`; whether any were missing."""
    starts, ends = spans
    i, j = bisect_left(ends, start), bisect_right(starts, end)
    if i < j:
        if starts[i] <= start and end <= ends[i]:
            return False
        start, end = min(start, starts[i]), max(end, ends[j - 1])
    starts[i:j] = (start,)
    ends[i:j] = (end,)
    return True


def timeline(buffers: Sequence[Buffer], steps: int) -> list[int]:
    """Bytes that live at once over the course of a call: the most in each of `steps` parts."""
    end = max((b.last for b in buffers), default=0) + 1
    change = [0] * (end + 1)
    for b in buffers:
        change[b.first] += b.size
        change[b.last + 1] -= b.size
    out, live = [0] * min(steps, end), 0
    for i, step in enumerate(change[:end]):
        live += step
        at = i * len(out) // end
        out[at] = max(out[at], live)
    return out
