"""What lowering gives (instructions, buffers, callbacks) and what it keeps while it works."""

from __future__ import annotations

from collections.abc import Iterable

from cellc_runtime.records import dataclass, field

from ..ir.graph import Node
from ..loops.nest import Nest
from .instructions import Instruction, Place
from .memory import ALIGN, Buffer
from .plan import Step


@dataclass(slots=True)
class HostCallback:
    """A callback the host must provide: the op, its attributes and operand types."""

    node: Node


@dataclass(slots=True)
class RunCheck:
    """A check the code makes: its op, and the buffer in which its message finds its values."""

    node: Node
    shown: Buffer


@dataclass(slots=True)
class Lowered:
    """A lowered graph.

    Attributes:
        instructions: in order.
        buffers: arena buffers, lifetimes set.
        ahead: what runs once when parameters are bound, with `ahead_buffers` of its own.
        kept_bytes: memory it fills, in the slot behind all others.
        constants: the constant pool.
        callbacks: host callbacks by number.
        checks: what can fail at run time; error `n` is that of `checks[n - 1]`.
        nests: every loop nest with its label, for dumps.
    """

    instructions: list[Instruction]
    buffers: list[Buffer]
    constants: bytearray
    callbacks: list[HostCallback]
    checks: list[RunCheck] = field(default_factory=list)
    nests: list[tuple[str, Nest]] = field(default_factory=list)
    ahead: list[Instruction] = field(default_factory=list)
    ahead_buffers: list[Buffer] = field(default_factory=list)
    kept_bytes: int = 0


class Kept:
    """Memory filled once, when parameters are bound, and what fills it.

    Args:
        slot: the slot that points to it.
        frozen: the slots of parameters that no call writes.
    """

    def __init__(self, slot: int, frozen: Iterable[int]) -> None:
        self.slot = slot
        self.frozen = {slot, "const", *frozen}
        self.nbytes = 0
        self.steps: list[tuple[Step, tuple[Place, ...], str]] = []
        self.found: dict[tuple[str, tuple[Place, ...]], Place] = {}

    def room(self, nbytes: int) -> Place:
        """A place for this many bytes."""
        place = Place(self.slot, self.nbytes)
        self.nbytes += max(-(-nbytes // ALIGN), 1) * ALIGN
        return place

    def same(self, place: Place) -> bool:
        """Whether a place holds the same bytes on every call."""
        return not place.steps and place.base in self.frozen

    def packed(self, step: Step, sources: tuple[Place, ...], nbytes: int, label: str) -> Place:
        """Where the result of a step on frozen sources is kept; the step runs ahead, once."""
        key = (step.kernel.body, sources)
        found = self.found.get(key)
        if found is None:
            found = self.found[key] = self.room(nbytes)
            self.steps.append((step, (*sources, found), label))
        return found


@dataclass(slots=True)
class OpenLoop:
    """A loop whose body is being lowered.

    Attributes:
        clock: a moment before its first trip.
        invariant: places that no trip writes.
        before: what runs once, before the first trip.
        packed: step and sources -> where its result is.
    """

    clock: int
    invariant: set[Place]
    before: list[Instruction] = field(default_factory=list)
    packed: dict[tuple[str, tuple[Place, ...]], Place] = field(default_factory=dict)
