"""Memory planning: offsets in one arena for buffers with known lifetimes.

Offline best fit by decreasing size: each buffer goes to the lowest offset free of every buffer
that lives at the same time (Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net
Inference", 2020, greedy by size). The exact peak is known before the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cellc_runtime.records import dataclass, field

ALIGN = 64
"""Bytes; what a buffer begins at a multiple of where its machine does not say otherwise."""


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
        return max(-(-self.nbytes // self.align) * self.align, self.align)


@dataclass(slots=True, eq=False)
class Frame:
    """Temporaries of which each of several tasks has its own.

    Attributes:
        number: of the loop whose trips are the tasks.
        locals: the temporaries of one task.
        nbytes: a task's part of `whole`, the buffer of all.
    """

    number: int
    locals: list[Buffer] = field(default_factory=list)
    nbytes: int = 0
    whole: Buffer = field(default_factory=lambda: Buffer(0, name="rows"))

    def close(self, tasks: int) -> Buffer:
        """Give the temporaries their places; the buffer of all tasks."""
        self.nbytes = plan(b for b in self.locals if b.first >= 0)
        self.whole.nbytes = tasks * self.nbytes
        return self.whole


def plan(buffers: Iterable[Buffer]) -> int:
    """Set the offset of every buffer; returns the bytes of the arena."""
    placed: list[Buffer] = []
    total = 0
    for b in sorted(buffers, key=lambda b: (-b.size, b.first)):
        at = 0
        for other in placed:  # sorted by offset
            if other.last < b.first or b.last < other.first:
                continue
            if other.offset - at >= b.size:
                break
            at = max(at, other.offset + other.size)
        b.offset = at
        total = max(total, at + b.size)
        _insert(placed, b)
    return total


def _insert(placed: list[Buffer], b: Buffer) -> None:
    lo, hi = 0, len(placed)
    while lo < hi:
        mid = (lo + hi) // 2
        if placed[mid].offset < b.offset:
            lo = mid + 1
        else:
            hi = mid
    placed.insert(lo, b)


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
