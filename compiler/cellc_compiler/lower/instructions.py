"""The instructions of a compiled graph: kernel calls, copies and structured control flow."""

from __future__ import annotations

from collections.abc import Iterator

from cellc_runtime.records import dataclass, field

from ..ir.graph import Node
from .kernel import Kernel
from .memory import Buffer


@dataclass(frozen=True, slots=True)
class Place:
    """Where the elements of a value are."""

    base: Buffer | int | str  # an arena buffer, a slot number, or `"const"`
    offset: int = 0  # bytes from the base
    # `(loop number, bytes per trip)`: rows walked by enclosing loops
    steps: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class Call:
    """Run a kernel."""

    kernel: Kernel
    places: tuple[Place, ...]
    label: str = ""  # the ops it does, for people
    # the nodes it works for; `most_expensive` if no other call does more of their work
    nodes: tuple[Node, ...] = ()
    most_expensive: bool = True
    clock: int = 0  # the instruction's number, in which lifetimes of buffers are counted
    in_task: bool = False  # whether it is part of a task: several threads may run it side by side
    # of the entries of a table, if the kernel reads one (`Machine.many`); the places are then those
    # of all entries, one after the other
    heads: tuple[tuple[int, int], ...] = ()

    def words(self) -> list[Place | int]:
        """The contents of the kernel's buffers, in order."""
        if not self.heads:
            return [*self.places, *self.kernel.numbers]
        each = len(self.places) // len(self.heads)
        out: list[Place | int] = []
        for i, head in enumerate(self.heads):
            out += [*head, *self.places[i * each : (i + 1) * each]]
        return [*out, self.kernel.ntasks]


@dataclass(slots=True)
class Copy:
    """Copy bytes between places that do not overlap; `in_task` as in `Call`."""

    to: Place
    source: Place
    nbytes: int
    in_task: bool = False


@dataclass(slots=True)
class If:
    """A branch on a bool scalar."""

    pred: Place
    then: list[Instruction] = field(default_factory=list)
    other: list[Instruction] = field(default_factory=list)


@dataclass(slots=True)
class Loop:
    """`while (test; pred) body`."""

    pred: Place
    test: list[Instruction] = field(default_factory=list)
    body: list[Instruction] = field(default_factory=list)


@dataclass(slots=True)
class For:
    """A counted loop; `number` names its counter, which is stored to `index` on each trip.

    With a `limit` (the place of an int64) it makes at most that number of trips.
    """

    number: int
    length: int
    reverse: bool
    index: Place
    body: list[Instruction] = field(default_factory=list)
    limit: Place | None = None


@dataclass(slots=True)
class Tasks:
    """A loop whose trips are tasks of the pool, in any order and at the same time.

    `number` names its counter, as that of a `For`.
    """

    number: int
    length: int
    body: list[Instruction] = field(default_factory=list)


@dataclass(slots=True)
class Callback:
    """Call the host with pointers; `name` is the op."""

    number: int
    places: tuple[Place, ...]
    name: str = "print"


@dataclass(slots=True)
class Check:
    """Return from the function with an error unless every element is in [low, high)."""

    number: int  # of the message, from 1
    checked: Place  # the elements, `count` ints of `bits` bits
    count: int
    bits: int
    signed: bool
    low: int
    high: int
    # the message's data: the first bad element, as an int64, followed by the values of `values`
    # (place, bytes), each at a multiple of 8
    shown: Place
    values: tuple[tuple[Place, int], ...] = ()


Instruction = Call | Copy | If | Loop | For | Tasks | Callback | Check


def places_of(i: Instruction) -> tuple[Place, ...]:
    """The places that an instruction itself names."""
    if isinstance(i, (Call, Callback)):
        return i.places
    if isinstance(i, Copy):
        return i.to, i.source
    if isinstance(i, For):
        return (i.index,) if i.limit is None else (i.index, i.limit)
    if isinstance(i, Check):
        return i.checked, i.shown, *(place for place, _ in i.values)
    return () if isinstance(i, Tasks) else (i.pred,)


def slots_of(instructions: list[Instruction]) -> list[int]:
    """The slots that instructions read or write, nested ones included, by first use."""
    return list(dict.fromkeys(p.base for i in walk(instructions) for p in places_of(i)
                              if isinstance(p.base, int)))


def walk(instructions: list[Instruction]) -> Iterator[Instruction]:
    """All instructions, nested ones included."""
    for i in instructions:
        yield i
        if isinstance(i, If):
            yield from walk(i.then)
            yield from walk(i.other)
        elif isinstance(i, Loop):
            yield from walk(i.test)
            yield from walk(i.body)
        elif isinstance(i, (For, Tasks)):
            yield from walk(i.body)
