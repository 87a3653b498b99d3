"""The result of lowering (instructions, buffers, callbacks) and its state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cellc_runtime.packing import Packing
from cellc_runtime.records import dataclass, field

from ..ir.graph import Graph, Node, Value
from ..loops.nest import Nest
from .instructions import Call, Instruction, Place, slots_of
from .memory import ALIGN, Buffer
from .plan import Step

KernelKey = tuple[Any, tuple[int, ...]]  # See `Kernel.key`


@dataclass(slots=True)
class HostCallback:
    """A callback the host must provide: the op, its attributes and operand types."""

    node: Node
    # of a collective that runs while the program computes; see `cellc_runtime.collectives.START`
    phase: str = ""


@dataclass(slots=True)
class RunCheck:
    """A check the code makes: its op, and the buffer in which its message finds its values."""

    node: Node
    shown: Buffer


@dataclass(frozen=True, slots=True)
class ShownNest:
    """A loop nest for people."""

    label: str  # the ops it does, and where it runs if not by itself
    nest: Nest
    nodes: tuple[Node, ...]  # those whose kernel holds it
    # what it loads and stores by the values for which it was first made, if not by its own
    own: Mapping[Value, Value] = field(default_factory=dict)


@dataclass(slots=True)
class PrecomputedBlock:
    """Memory that is filled when parameters are bound, in a slot of its own."""

    nbytes: int  # its size
    instructions: list[Instruction] = field(default_factory=list)  # what fills it
    # the layout in which it holds all elements of its one source, if it does
    packing: Packing | None = None

    def sources(self, slot: int) -> list[int]:
        """The slots that are read to fill it, in order of their first use; its own is `slot`."""
        return [s for s in slots_of(self.instructions) if s != slot]


@dataclass(slots=True)
class Lowered:
    """A lowered graph."""

    instructions: list[Instruction]  # in order
    buffers: list[Buffer]  # arena buffers, lifetimes set
    constants: bytearray  # the constant pool
    callbacks: list[HostCallback]  # host callbacks by number
    # what can fail at run time; error `n` is that of `checks[n - 1]`
    checks: list[RunCheck] = field(default_factory=list)
    nests: list[ShownNest] = field(default_factory=list)  # every loop nest, for dumps
    # blocks that are filled when parameters are bound, in the slots after all others, with
    # `precompute_buffers` of its own
    precomputed: list[PrecomputedBlock] = field(default_factory=list)
    precompute_buffers: list[Buffer] = field(default_factory=list)
    graphs: tuple[Graph, ...] = ()  # what was lowered: the given graph split in two
    # where the table of sizes begins after the constants, in code for all sizes
    sizes_at: int | None = None
    # where the constants are that follow from sizes, by the inputs they are
    scalars: dict[Value, int] = field(default_factory=dict)
    # values that nests compute wherever they read them, with their nodes, for dumps
    inlined: dict[Value, Node] = field(default_factory=dict)

    @property
    def precompute(self) -> list[Instruction]:
        """All that runs when parameters are bound."""
        return [i for block in self.precomputed for i in block.instructions]

    @property
    def precomputed_bytes(self) -> int:
        """Memory of what is precomputed."""
        return sum(block.nbytes for block in self.precomputed)


class Precomputation:
    """Data computed from parameters when they are bound: values, and packed operands.

    Each packed operand has a block to itself, so that programs that pack a weight alike share it
    whatever else they compute, and the weight as it was given can go as soon as it is packed.

    Args:
        first: the slot of the first block; those of others follow.
        frozen: the slots of parameters that no call writes.
        align: bytes; what values in one block begin at a multiple of.
    """

    def __init__(self, first: int, frozen: Iterable[int], align: int = ALIGN) -> None:
        self.first, self.align = first, align
        self.frozen = {"const", *frozen}
        self.blocks: list[PrecomputedBlock] = []
        self.found: dict[tuple[KernelKey, tuple[Place, ...]], Place] = {}

    def _block(self, nbytes: int) -> tuple[PrecomputedBlock, int]:
        block, slot = PrecomputedBlock(nbytes), self.first + len(self.blocks)
        self.blocks.append(block)
        self.frozen.add(slot)
        return block, slot

    def values(self, sizes: Sequence[int]) -> list[Place]:
        """Places for values of these sizes, together in one block; asked for once, first."""
        if not sizes:
            return []
        block, slot = self._block(0)
        places = []
        for nbytes in sizes:
            places.append(Place(slot, block.nbytes))
            block.nbytes += max(-(-nbytes // self.align), 1) * self.align
        return places

    def same(self, place: Place) -> bool:
        """Whether a place holds the same bytes on every call."""
        return not place.steps and place.base in self.frozen

    def packed(
        self, step: Step, sources: tuple[Place, ...], nbytes: int, label: str,
        packing: Packing | None,
    ) -> Place:
        """Where the result of a step on frozen sources is; the step runs once, when parameters are
        bound."""
        key = (step.kernel.key, sources)
        found = self.found.get(key)
        if found is None:
            block, slot = self._block(nbytes)
            found = self.found[key] = Place(slot)
            block.instructions.append(Call(step.kernel, (*sources, found), label))
            whole = len(sources) == 1 and isinstance(sources[0].base, int) \
                and not sources[0].offset
            block.packing = packing if whole else None
        return found


@dataclass(slots=True)
class OpenLoop:
    """A loop whose body is being lowered."""

    clock: int  # a moment before its first trip
    invariant: set[Place]  # places that no trip writes
    before: list[Instruction] = field(default_factory=list)  # what runs once, before the first trip
    # step and sources -> where its result is
    packed: dict[tuple[KernelKey, tuple[Place, ...]], Place] = field(default_factory=dict)
