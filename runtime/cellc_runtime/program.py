"""A compiled program: code, constants, and what its caller must bring.

The same bytes are what the object cache keeps and what an artifact carries. `from_bytes` trusts
nothing: every bound is checked before it is used, and the code holds a hash of the tables that it
was compiled for, its seal. So tables that were changed are an `ArtifactError`, though whoever
changed them has computed the file's checksums again. (Code itself cannot be checked; running a
program means trusting who made it.)
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from . import dtypes
from .abi import ABI_VERSION, FIRST_CALLBACK, MAIN, MAX_CALLBACKS, MAX_KERNELS, PRECOMPUTE
from .container import is_count, pack, seal, unpack
from .dtypes import DType
from .errors import RUN_ERRORS, ArtifactError
from .image import SEAL_BYTES, Image, Segment
from .lazy import lazy_imports
from .packing import Packing
from .records import changed, dataclass, field
from .shape_polymorphic import BROADCASTS, measure
from .target import known_target

with lazy_imports(__name__):  # most programs have known sizes
    from . import open_sizes

MAGIC = b"CELLCPRG"
VERSION = 1
SLOT_KINDS = ("input", "param", "output", "update", "state", "kept")
MAX_SLOTS = 1 << 20
MAX_BYTES = 1 << 46
MAX_NDIM = 32


@dataclass(frozen=True, slots=True)
class Slot:
    """One data pointer that `cellc_main` is given."""

    name: str  # the user's name for it
    dtype: DType  # element type
    shape: tuple[int, ...]  # dimensions; the data is contiguous and row-major
    # `"input"` (passed to each call), `"param"` (bound once), `"output"` (made by each call),
    # `"update"` (written over the slot `alias`), `"state"` (kept by the executable from call to
    # call, zero at first), `"kept"` (a precomputed block: filled from the parameters by
    # `cellc_ahead` when they are bound; the last slots)
    kind: str
    alias: int | None = None  # for an update, the index of the slot it writes over; None otherwise

    @property
    def size(self) -> int:
        """Elements."""
        count = 1
        for dim in self.shape:
            count *= dim
        return count

    @property
    def nbytes(self) -> int:
        """Bytes of data."""
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Shown:
    """A value that a message shows: its type, and where in the arena it is."""

    dtype: DType
    shape: tuple[int, ...]
    place: int

    @property
    def nbytes(self) -> int:
        """Bytes of data."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Message:
    """The meaning of a run-time error code."""

    kind: str  # of exception, a name in `RUN_ERRORS`
    # the text: a string stands for itself, 0 for the first of `values` (the element that was not
    # allowed), None for the next of the others
    parts: tuple[str | int | None, ...]
    file: str = ""  # the user's source, and `line` in it
    line: int = 0
    detail: str = ""  # the place in the source, for people
    own: str = ""  # the qualified name of the user's own exception class, or ""
    values: tuple[Shown, ...] = ()  # what the text shows


@dataclass(frozen=True, slots=True)
class Callback:
    """A host function the program calls with arrays.

    `inputs` and `outputs` are `(dtype, shape)`; the host writes the outputs.
    """

    name: str
    inputs: tuple[tuple[DType, tuple[int, ...]], ...] = ()
    outputs: tuple[tuple[DType, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Precomputed:
    """How a precomputed block is filled."""

    key: str  # blocks of equal key hold the same if their sources do
    sources: tuple[int, ...] = ()  # the slots it is computed from: parameters, and blocks before it
    # the block holds every element of its one source, a parameter, in this layout
    packing: Packing | None = None


@dataclass(frozen=True, slots=True)
class DeviceKernel:
    """A kernel for a device of its own."""

    code: bytes = field(repr=False)  # a cubin, or PTX text, whose one entry is `DEVICE_KERNEL`
    shared: int = 0  # bytes of shared memory that a launch asks for
    name: str = ""  # the ops that it computes, for errors; or ""
    # the same as PTX, if a later GPU may run it, too, and `code` is a cubin
    ptx: bytes = field(default=b"", repr=False)

    @property
    def is_cubin(self) -> bool:
        """Whether `code` is machine code; else it is PTX."""
        return self.code[:4] == b"\x7fELF"


DEVICE_KERNEL = "cellc_kernel"
MAX_SHARED = 1 << 20


@dataclass(frozen=True, slots=True)
class Program:
    """Everything needed to run one compiled graph on one target."""

    name: str  # for error messages and profiles
    target: str  # the name of the `Target` it is compiled for
    slots: tuple[Slot, ...]  # in the order `cellc_main` expects their pointers
    image: Image  # linked code
    arena_bytes: int = 0  # scratch memory of one call
    # what `consts` points to (copied to a 64-byte boundary)
    constants: bytes = field(default=b"", repr=False)
    messages: tuple[Message, ...] = ()  # error code `n` of main is `messages[n - 1]`
    callbacks: tuple[Callback, ...] = ()  # in the order of their table entries
    cost: float = 0.0  # estimated cycles of a call on one core (decides whether to release the GIL)
    precompute_arena_bytes: int = 0  # scratch memory of `cellc_ahead`
    # how each precomputed block is filled, in the order of their slots
    precomputed: tuple[Precomputed, ...] = ()
    # the `param` slots that `cellc_main` does not touch (blocks stand for them)
    unread: tuple[int, ...] = ()
    # of a shape-polymorphic program (`cellc_runtime.shape_polymorphic`), how each input lies over
    # the result. Its slots have placeholder shapes, its constants are their rows and columns, and
    # `cost` is that of an element.
    broadcasts: tuple[int, ...] = ()
    # what `cellc_main` launches on an accelerator, in the order of their table entries
    kernels: tuple[DeviceKernel, ...] = ()
    # of a program with open sizes, how it follows from sizes. It runs at certain ones (`at`); its
    # own slots have placeholder shapes.
    open: open_sizes.Open | None = None
    compiled_kernels: int = 0  # distinct kernels of the code, for reports

    def __post_init__(self) -> None:
        self.check()

    def of_kind(self, *kinds: str) -> tuple[Slot, ...]:
        """The slots of these kinds, in order."""
        return tuple(s for s in self.slots if s.kind in kinds)

    def at(self, sizes: Mapping[str, int]) -> Program:
        """The program for these values of its open sizes.

        Raises:
            ValueError: it does not serve them, or its temporaries would have more bytes than a
                process can address.
        """
        return ProgramAtSizes(self).at(sizes)

    @property
    def precomputed_bytes(self) -> int:
        """Memory that `cellc_ahead` fills."""
        return sum(s.nbytes for s in self.of_kind("kept"))

    @property
    def released_bytes(self) -> int:
        """Bytes of parameters that no call reads and that precomputed blocks can restore: a
        network's Parameters free this memory when it is packed."""
        held = {a.sources[0] for a in self.precomputed if a.packing is not None}
        return sum(self.slots[i].nbytes for i in held.intersection(self.unread))

    def memory(self) -> dict[str, int]:
        """Bytes by what they hold while a call runs, exact and known before it; updates write
        over parameters. Their sum is the planned peak of one call."""
        def held(*kinds: str) -> int:
            return sum(s.nbytes for s in self.of_kind(*kinds) if s.alias is None)

        return {
            "inputs": held("input"), "parameters": held("param", "state"),
            "outputs": held("output"), "temporaries": self.arena_bytes,
            "kept": self.precomputed_bytes, "constants": len(self.constants),
            "code": self.image.size + sum(len(k.code) + len(k.ptx) for k in self.kernels),
        }

    def check(self) -> None:
        """Verify every bound.

        Raises:
            ArtifactError: what does not hold.
        """
        self._check_image()
        self._check_counts()
        self._check_precomputed()
        if self.broadcasts:
            self._check_broadcasts()
        if self.open is not None:
            self._check_open(self.open)
        written: set[int] = set()
        for index, slot in enumerate(self.slots):
            self._check_slot(index, slot, written)
        for callback in self.callbacks:
            for dtype, shape in (*callback.inputs, *callback.outputs):
                _check_shape(callback.name, dtype, shape)
        for message in self.messages if self.open is None else ():
            self._check_message(message)

    def _check_image(self) -> None:
        target = known_target(self.target)
        if target is None or not (
            target.accelerator or target.triple.startswith(self.image.machine)
        ):
            raise ArtifactError(f"code for {self.image.machine} cannot run on {self.target!r}")
        self.image.check()
        kept = any(s.kind == "kept" for s in self.slots)
        if MAIN not in self.image.symbols or (kept and PRECOMPUTE not in self.image.symbols):
            raise ArtifactError("the code has no entry point")

    def _check_counts(self) -> None:
        if len(self.slots) > MAX_SLOTS or len(self.callbacks) > MAX_CALLBACKS:
            raise ArtifactError("the program claims too many slots or callbacks")
        if len(self.kernels) > MAX_KERNELS or any(k.shared > MAX_SHARED for k in self.kernels):
            raise ArtifactError("the program claims too many kernels, or too much shared memory")
        entries = len(self.callbacks) + len(self.kernels)
        if self.image.table_entries < FIRST_CALLBACK + entries:
            raise ArtifactError("the external table has no room for the callbacks and kernels")
        self._check_arenas()

    def _check_arenas(self) -> None:
        for nbytes in (self.arena_bytes, self.precompute_arena_bytes):
            if not is_count(nbytes, MAX_BYTES):
                raise ArtifactError(f"an arena of {nbytes} bytes is not possible")

    def _check_open(self, o: open_sizes.Open) -> None:
        """The parts that belong to slots, messages and constants are as many as those."""
        ends = [at + dtype.itemsize for at, dtype, _ in o.scalars]
        whole = len(self.constants) == o.table_at + 8 * len(o.table) and self.broadcasts == ()
        if not whole or max(ends, default=0) > o.table_at \
                or [len(s.shape) for s in self.slots] != list(map(len, o.shapes)) \
                or [len(m.values) for m in self.messages] != list(map(len, o.messages)):
            raise ArtifactError("the open sizes do not belong to the program")

    def _check_precomputed(self) -> None:
        kept = [i for i, s in enumerate(self.slots) if s.kind == "kept"]
        if kept != list(range(len(self.slots) - len(self.precomputed), len(self.slots))):
            raise ArtifactError("the slots of what is kept must be the last ones")
        for number, precomputed in zip(kept, self.precomputed, strict=True):
            self._check_precomputed_block(number, precomputed)
        if any(not is_count(i, len(self.slots) - 1) or self.slots[i].kind != "param"
               for i in self.unread):
            raise ArtifactError("a slot that is not read is no parameter")

    def _check_broadcasts(self) -> None:
        kinds = ["input"] * len(self.broadcasts) + ["output"]
        if [s.kind for s in self.slots] != kinds or not set(self.broadcasts) <= set(BROADCASTS):
            raise ArtifactError("a program for any sizes has inputs and one output alone")
        found = measure(self.broadcasts, [s.shape for s in self.slots[:-1]])
        held = struct.pack("<qq", *found[1:]) if found is not None else b""
        if found is None or found[0] != self.slots[-1].shape or self.constants != held:
            raise ArtifactError("the inputs do not lie over the result as the program says")
        if self.messages or self.callbacks or self.arena_bytes:
            raise ArtifactError("a program for any sizes is one kernel")

    def _check_precomputed_block(self, slot: int, precomputed: Precomputed) -> None:
        for source in precomputed.sources:
            if not is_count(source, slot - 1) or self.slots[source].kind not in ("param", "kept"):
                raise ArtifactError(f"slot {slot} cannot be computed from slot {source}")
        packing = precomputed.packing
        if packing is None:
            return
        given = self.slots[precomputed.sources[0]] if len(precomputed.sources) == 1 else None
        if given is None or given.kind != "param" or not packing.holds() or (
            packing.stored_bytes, packing.packed_bytes
        ) != (given.nbytes, self.slots[slot].nbytes):
            raise ArtifactError(f"slot {slot} is not the packed form of a parameter")

    def _check_message(self, message: Message) -> None:
        if message.kind not in RUN_ERRORS:
            raise ArtifactError(f"unknown kind of error {message.kind[:80]!r}")
        for value in message.values:
            _check_shape("of a message", value.dtype, value.shape)
            if not 0 <= value.place <= value.place + value.nbytes <= self.arena_bytes:
                raise ArtifactError("a message shows what is outside of the arena")
        others = sum(part is None for part in message.parts)
        if others + 1 > max(len(message.values), 1) or (0 in message.parts and not message.values):
            raise ArtifactError("a message shows more values than it has")

    def _check_slot(self, index: int, slot: Slot, written: set[int]) -> None:
        _check_shape(slot.name, slot.dtype, slot.shape)
        if slot.kind not in SLOT_KINDS:
            raise ArtifactError(f"slot {slot.name[:80]!r} has unknown kind {slot.kind!r}")
        if slot.kind != "update":
            if slot.alias is not None:
                raise ArtifactError(f"slot {slot.name[:80]!r} is not an update but has an alias")
            return
        if slot.alias is None or not 0 <= slot.alias < len(self.slots) or slot.alias in written:
            raise ArtifactError(f"update {slot.name[:80]!r} needs a slot of its own to write over")
        written.add(slot.alias)
        over = self.slots[slot.alias]
        if over.kind not in ("input", "param", "state") or (over.dtype, over.shape) != (
            slot.dtype, slot.shape
        ):  # fmt: skip
            raise ArtifactError(f"update {slot.name[:80]!r} does not fit slot {slot.alias}")

    # --- bytes ------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """The program as one file."""
        image, parts = self.image.header()
        meta = {
            "abi": ABI_VERSION,
            "name": self.name,
            "target": self.target,
            "slots": [[s.name, s.dtype.name, list(s.shape), s.kind, s.alias] for s in self.slots],
            "arena": [self.arena_bytes, self.precompute_arena_bytes],
            "messages": [_message_out(m) for m in self.messages],
            "callbacks": [
                [c.name, _types_out(c.inputs), _types_out(c.outputs)] for c in self.callbacks
            ],
            "cost": float(self.cost),
            "ahead": [[a.key, list(a.sources), _packing_out(a.packing)] for a in self.precomputed],
            "unread": list(self.unread),
            "sized": list(self.broadcasts),
            "image": image,
            "compiled": self.compiled_kernels,
            "kernels": [[k.shared, k.name] for k in self.kernels],
            **({} if self.open is None else {"open": open_sizes.to_json(self.open)}),
        }
        if self.image.seal == bytes(SEAL_BYTES):
            parts = self.image.sealed(seal(meta, self.constants)).header()[1]
        sections = [(f"segment{i}", data) for i, data in enumerate(parts)]
        for i, k in enumerate(self.kernels):
            sections += [(f"kernel{i}", k.code), (f"ptx{i}", k.ptx)]
        return b"".join(pack(MAGIC, VERSION, meta, [*sections, ("constants", self.constants)]))

    @staticmethod
    def from_bytes(data: bytes | memoryview) -> Program:
        """Read a program.

        Raises:
            ArtifactError: the bytes are damaged, hostile or of another version.
        """
        box = unpack(data, MAGIC, VERSION, "program")
        meta = box.meta
        if meta.get("abi") != ABI_VERSION:
            raise ArtifactError(
                f"the program was compiled for runtime interface {meta.get('abi')!r}; this "
                f"runtime has {ABI_VERSION}: compile it again"
            )
        try:
            program = _read(meta, box.sections)
        except ArtifactError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ArtifactError(f"the program's header is malformed: {str(error)[:200]}") from None
        if program.image.seal != seal(meta, program.constants):
            raise ArtifactError("the program's tables are not those that its code was compiled for")
        return program


class ProgramAtSizes:
    """A program with open sizes, at certain ones.

    The parts that do not depend on sizes were checked with the program itself; the others are
    checked for each set of sizes.
    """

    def __init__(self, program: Program) -> None:
        assert program.open is not None
        self.program, self._open = program, program.open
        self._evaluator = open_sizes.Evaluator(program.open)
        shapes, slots = self._evaluator.shapes, program.slots
        self._updates = [i for i, s in enumerate(slots)
                         if s.alias is not None and (i in shapes or s.alias in shapes)]
        sources = {s for p in program.precomputed for s in p.sources}
        self._ahead = any(i in sources or slots[i].kind == "kept" for i in shapes)

    def refusal(self, sizes: Sequence[int]) -> str:
        """Why the program does not serve these sizes, in the order of its symbols; empty if it
        does."""
        return self._evaluator.refusal(sizes)

    def serves(self, sizes: Mapping[str, int]) -> bool:
        """Whether the program serves these sizes."""
        return not self.refusal([sizes[symbol] for symbol in self._open.symbols])

    def at(self, sizes: Mapping[str, int]) -> Program:
        """See `Program.at`."""
        name, evaluator = self.program.name, self._evaluator
        known = [sizes[symbol] for symbol in self._open.symbols]
        values = evaluator.evaluate(known)
        if values is None:
            raise ValueError(f"{name}: {evaluator.refusal(known)}")
        arena, ahead = evaluator.place(values)
        if max(arena, ahead) > MAX_BYTES:
            raise ValueError(f"{name} needs {arena + ahead} bytes of temporaries for "
                             f"{self._shown(known)}")
        slots = list(self.program.slots)
        for i, shape in evaluator.shapes.items():
            slots[i] = changed(slots[i], shape=tuple([values[d] for d in shape]))
        made = changed(
            self.program, slots=tuple(slots), messages=self._messages(values), arena_bytes=arena,
            precompute_arena_bytes=ahead, open=None,
            constants=evaluator.constants(self.program.constants, values))
        self._check(made, known)
        return made

    def _shown(self, known: Sequence[int]) -> str:
        return ", ".join(f"{s} = {n}" for s, n in zip(self._open.symbols, known, strict=True))

    def _messages(self, values: Sequence[Any]) -> tuple[Message, ...]:
        """The messages, with the places and shapes of what they show."""
        return tuple([
            m if not m.values else changed(m, values=tuple([
                changed(v, place=place, shape=shape)
                for v, (place, shape) in zip(m.values, shown, strict=True)]))
            for m, shown in zip(self.program.messages, self._evaluator.shown(values), strict=True)])

    def _check(self, made: Program, known: Sequence[int]) -> None:
        """Verify what follows from sizes.

        Raises:
            ArtifactError: what does not hold.
            ValueError: a tensor is too large at these sizes.
        """
        made._check_arenas()
        if self._ahead:
            made._check_precomputed()
        for i in self._evaluator.shapes:
            slot = made.slots[i]
            try:
                _check_shape(slot.name, slot.dtype, slot.shape)
            except ArtifactError as e:
                raise ValueError(f"{self.program.name}: {e} for {self._shown(known)}") from None
        for i in self._updates:
            made._check_slot(i, made.slots[i], set())
        for message in made.messages:
            made._check_message(message)


def _read(meta: Mapping[str, Any], sections: Mapping[str, memoryview]) -> Program:
    image = meta["image"]
    segments = tuple(
        Segment(_text(kind), _count(offset), _count(size), bytes(sections[f"segment{i}"]))
        for i, (kind, offset, size) in enumerate(image["segments"])
    )
    table, entries = image["table"]
    arena, precompute_arena = meta["arena"]
    return Program(
        name=_text(meta["name"]),
        target=_text(meta["target"]),
        slots=tuple(_slot(row) for row in meta["slots"]),
        image=Image(
            machine=_text(image["machine"]),
            segments=segments,
            symbols={_text(n): _count(p) for n, p in image["symbols"].items()},
            table_offset=_count(table),
            table_entries=_count(entries),
        ),
        arena_bytes=_count(arena),
        precompute_arena_bytes=_count(precompute_arena),
        precomputed=tuple(_precomputed(row) for row in meta["ahead"]),
        unread=tuple(_count(i) for i in meta["unread"]),
        broadcasts=tuple(_count(i) for i in meta["sized"]),
        constants=bytes(sections["constants"]),
        messages=tuple(_message_in(row) for row in meta["messages"]),
        callbacks=tuple(
            Callback(_text(n), _types_in(i), _types_in(o)) for n, i, o in meta["callbacks"]
        ),
        cost=float(meta["cost"]),
        kernels=tuple(
            DeviceKernel(bytes(sections[f"kernel{i}"]), _count(shared), _text(name),
                         bytes(sections[f"ptx{i}"]))
            for i, (shared, name) in enumerate(meta["kernels"])
        ),
        open=open_sizes.from_json(meta["open"]) if "open" in meta else None,
        compiled_kernels=_count(meta.get("compiled", 0)),
    )


def _message_out(m: Message) -> list[Any]:
    values = [[v.dtype.name, list(v.shape), v.place] for v in m.values]
    return [m.kind, list(m.parts), m.file, m.line, m.detail, m.own, values]


def _message_in(row: Any) -> Message:
    kind, parts, file, line, detail, own, values = row
    for part in parts:
        if not (part is None or isinstance(part, str) or (type(part) is int and part == 0)):
            raise ValueError("a part of a message is a string, null or 0")
    shown = tuple(Shown(dtypes.by_name(_text(t)), _shape(s), _count(p)) for t, s, p in values)
    return Message(_text(kind), tuple(parts), _text(file), _count(line), _text(detail), _text(own),
                   shown)


def _packing_out(p: Packing | None) -> list[int] | None:
    return p if p is None else [p.matrices, p.n, p.k, p.width, p.transposed, p.itemsize]


def _precomputed(row: Any) -> Precomputed:
    key, sources, packing = row
    layout = None
    if packing is not None:
        matrices, n, k, width, transposed, itemsize = packing
        if not isinstance(transposed, bool):
            raise ValueError("whether a matrix is transposed is true or false")
        layout = Packing(_count(matrices), _count(n), _count(k), _count(width), transposed,
                         _count(itemsize))
    return Precomputed(_text(key), tuple(_count(s) for s in sources), layout)


def _slot(row: Any) -> Slot:
    name, dtype, shape, kind, alias = row
    index = None if alias is None else _count(alias)
    return Slot(_text(name), dtypes.by_name(_text(dtype)), _shape(shape), _text(kind), index)


def _shape(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise ValueError("a shape is a list")
    return tuple(_count(dim) for dim in value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a text was expected")
    return value


def _count(value: Any) -> int:
    if not is_count(value):
        raise ValueError("a count was expected")
    return int(value)


def _types_out(types: tuple[tuple[DType, tuple[int, ...]], ...]) -> list[list[Any]]:
    return [[dtype.name, list(shape)] for dtype, shape in types]


def _types_in(rows: Any) -> tuple[tuple[DType, tuple[int, ...]], ...]:
    return tuple((dtypes.by_name(_text(d)), _shape(s)) for d, s in rows)


def _check_shape(name: str, dtype: DType, shape: tuple[int, ...]) -> None:
    nbytes = dtype.itemsize
    for dim in shape:
        if not is_count(dim):
            raise ArtifactError(f"{name[:80]!r} has a dimension that is not a count")
        nbytes *= dim or 1
    if len(shape) > MAX_NDIM or nbytes > MAX_BYTES:
        raise ArtifactError(f"{name[:80]!r} is larger than any array")
