"""The `.cellc` file: weights, portable IR and native code of one network, in one file.

A container (see `container`) whose `meta` describes the *entries* (`"infer"`, `"train"`, ...):
for each the signature, the names of its weights, and the targets it has code for. Sections:
`weights` (safetensors), `graph:ENTRY` (IR text), `program:ENTRY:TARGET` (see `program`); of an
entry for batches of any size, `program:ENTRY:TARGET:SIZE` for a few sizes (see `batched`).

Loading verifies the whole file and runs nothing. Native code is opened only when the caller says
that the file is trusted; without that the weights and the IR can be read.
"""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import checkpoint
from .batched import Batched
from .container import Container, pack, unpack
from .errors import ArtifactError
from .executable import Executable
from .files import write_atomically
from .program import Program, Slot
from .records import dataclass, field
from .target import best_of, runnable_targets

Array = npt.NDArray[Any]

MAGIC = b"CELLCART"
VERSION = 1
DEFAULT_ENTRY = "infer"


@dataclass(frozen=True, slots=True)
class Entry:
    """One callable of an artifact, to be written.

    Attributes:
        programs: the same graph for one or more targets; their slots agree, and their `param`
            slots are named after weights.
        graph: IR text.
        open_inputs: the inputs whose first axis is a batch of any size; `programs` are then for
            a few sizes, the same ones for each target.
    """

    programs: Sequence[Program]
    graph: str = field(default="", repr=False)
    open_inputs: Sequence[int] = ()

    def section(self, name: str, program: Program) -> str:
        """Where a program of this entry goes."""
        base = f"program:{name}:{program.target}"
        return f"{base}:{self.size(program)}" if self.open_inputs else base

    def size(self, program: Program) -> int:
        """The batch size of a program."""
        return program.of_kind("input")[self.open_inputs[0]].shape[0]


@dataclass(frozen=True, slots=True)
class Signature:
    """What an entry takes and gives: `(name, dtype name, shape)` each; -1 is any size."""

    inputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    outputs: tuple[tuple[str, str, tuple[int, ...]], ...]


def save(
    path: str | os.PathLike[str],
    entries: Mapping[str, Entry],
    weights: Mapping[str, Array],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write an artifact, whole or not at all.

    Raises:
        ValueError: entries whose programs disagree or that name a weight there is not.
        OSError: the file cannot be written; an older one is as it was.
    """
    described = {name: _describe(name, entry, weights) for name, entry in entries.items()}
    sections = [("weights", b"".join(checkpoint.encode(weights)))]
    for name, entry in entries.items():
        sections.append((f"graph:{name}", entry.graph.encode()))
        sections += [(entry.section(name, p), p.to_bytes()) for p in entry.programs]
    meta = {"entries": described, "metadata": dict(metadata or {})}
    write_atomically(path, pack(MAGIC, VERSION, meta, sections))


def _describe(name: str, entry: Entry, weights: Mapping[str, Array]) -> dict[str, Any]:
    if not name.isidentifier():
        raise ValueError(f"an entry's name is an identifier, got {name!r}")
    if not entry.programs:
        raise ValueError(f"entry {name!r} has no program")
    first = entry.programs[0]
    opened = bool(entry.open_inputs)
    if any(_interface(p, opened) != _interface(first, opened) for p in entry.programs):
        raise ValueError(f"the programs of entry {name!r} differ in their slots")
    for slot in first.of_kind("param"):
        array = weights.get(slot.name)
        if array is None or not _matches(slot, array):
            raise ValueError(f"entry {name!r} needs weight {slot.name!r}, {slot}")
    return {
        "targets": list(dict.fromkeys(p.target for p in entry.programs)),
        "inputs": [_row(s, i in entry.open_inputs) for i, s in enumerate(first.of_kind("input"))],
        "outputs": [_row(s, opened) for s in first.of_kind("output")],
        "open": [int(i) for i in entry.open_inputs],
        "sizes": sorted({entry.size(p) for p in entry.programs}) if opened else [],
    }


def _interface(program: Program, opened: bool) -> list[Any]:
    """The slots a caller fills; what a program keeps for itself depends on its target."""
    slots = [s for s in program.slots if s.kind != "kept"]
    return [(s.name, s.dtype, s.kind, len(s.shape)) for s in slots] if opened else list(slots)


def _row(slot: Slot, opened: bool) -> list[Any]:
    shape = [-1, *slot.shape[1:]] if opened else list(slot.shape)
    return [slot.name, slot.dtype.name, shape]


def _matches(slot: Slot, array: Array) -> bool:
    return array.shape == slot.shape and array.dtype == slot.dtype.numpy


def load(
    path: str | os.PathLike[str],
    trust_native_code: bool = False,
    callbacks: Mapping[str, Callable[..., object]] | None = None,
) -> Artifact:
    """Open and verify an artifact; runs nothing.

    Args:
        path: the file.
        trust_native_code: whether its code may be run. It can do anything your account can.
        callbacks: host functions that its programs call, by name.

    Raises:
        ArtifactError: the file is corrupt, truncated, hostile or of another version.
        OSError: it cannot be read.
    """
    box = unpack(checkpoint.map_file(path), MAGIC, VERSION, "artifact")
    return Artifact(box, Path(path).name, trust_native_code, callbacks or {})


class Artifact:
    """A loaded artifact; made by `load`.

    Attributes:
        name: the file's name.
        weights: arrays by name. The first call of an entry that updates some copies them, and
            the updated arrays are then found here.
        metadata: what the writer put in.
    """

    def __init__(
        self, box: Container, name: str, trusted: bool,
        callbacks: Mapping[str, Callable[..., object]],
    ) -> None:  # fmt: skip
        self.name = name
        self._box = box
        self._trusted = trusted
        self._callbacks = callbacks
        self.weights, _ = checkpoint.decode(box.section("weights"), "artifact's weights")
        self._entries, self.metadata = _read_meta(box)
        self._open_inputs = _read_open(box)
        self._executables: dict[str, Executable | Batched] = {}

    def __repr__(self) -> str:
        nbytes = sum(a.nbytes for a in self.weights.values())
        state = "trusted" if self._trusted else "native code not trusted"
        lines = [f"{name}({_words(s.inputs)}) -> {_words(s.outputs)}; for {', '.join(targets)}"
                 for name, (targets, s) in self._entries.items()]
        return "\n  ".join([f"<Artifact {self.name}: {len(self.weights)} weights, "
                            f"{nbytes / 2**20:.2f} MiB, {state}", *lines]) + ">"

    def _repr_html_(self) -> str:
        """What a notebook shows: the entries with what they take, give and need."""
        cells = [(name, _words(s.inputs), _words(s.outputs), p.target, *_needs(p))
                 for name, (_, s) in self._entries.items() for p in self.programs(name)]
        head = ("entry", "inputs", "outputs", "target", "temporaries", "kept", "code")
        rows = "".join(f"<tr>{''.join(f'<td>{html.escape(c)}</td>' for c in row)}</tr>"
                       for row in cells)
        return (f"<b>{html.escape(self.name)}</b>: {len(self.weights)} weights, "
                f"{sum(a.nbytes for a in self.weights.values()) / 2**20:.2f} MiB<table><tr>"
                f"{''.join(f'<th>{h}</th>' for h in head)}</tr>{rows}</table>")

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of what can be called."""
        return tuple(self._entries)

    def signature(self, entry: str = DEFAULT_ENTRY) -> Signature:
        """What an entry takes and gives."""
        return self._entry(entry)[1]

    def targets(self, entry: str = DEFAULT_ENTRY) -> tuple[str, ...]:
        """The targets that an entry has code for."""
        return self._entry(entry)[0]

    def graph_text(self, entry: str = DEFAULT_ENTRY) -> str:
        """The portable IR of an entry."""
        self._entry(entry)
        try:
            return bytes(self._box.section(f"graph:{entry}")).decode()
        except UnicodeDecodeError:
            raise ArtifactError(f"the graph of entry {entry!r} is not text") from None

    def programs(self, entry: str = DEFAULT_ENTRY) -> list[Program]:
        """What an entry holds for each target and batch size, as data; nothing is run.

        Raises:
            KeyError: there is no such entry.
            ArtifactError: a program is damaged.
        """
        targets, _ = self._entry(entry)
        _, sizes = self._open_inputs[entry]
        return [Program.from_bytes(self._box.section(
            f"program:{entry}:{target}" + (f":{n}" if n is not None else "")))
            for target in targets for n in (sizes or [None])]

    def __call__(self, *arrays: Array) -> Any:
        """Run the default entry: one array, or a tuple."""
        return self.call(DEFAULT_ENTRY, *arrays)

    def call(self, entry: str, *arrays: Array) -> Any:
        """Run an entry on these inputs: one array, or a tuple.

        Raises:
            PermissionError: the artifact was loaded without `trust_native_code=True`.
            KeyError: it has no such entry.
            ArtifactError: the entry has no code for this machine, or damaged code.
            TypeError, ValueError: an argument is wrong.
        """
        executable = self._executables.get(entry)
        if executable is None:
            executable = self.executable(entry)
        return executable.entry(*arrays)

    def executable(self, entry: str = DEFAULT_ENTRY) -> Executable | Batched:
        """The executable of an entry, for this machine's best target; loaded once.

        That of an entry for batches of any size is a `Batched`.

        Raises: as `call`.
        """
        if entry not in self._executables:
            self._executables[entry] = self._open(entry)
        return self._executables[entry]

    def _entry(self, name: str) -> tuple[tuple[str, ...], Signature]:
        if name not in self._entries:
            raise KeyError(f"{self.name} has entries {', '.join(self._entries)}; not {name!r}")
        return self._entries[name]

    def _open(self, entry: str) -> Executable | Batched:
        targets, signature = self._entry(entry)
        if not self._trusted:
            raise PermissionError(
                f"{self.name} holds native code, which can do anything your account can; if you "
                "trust who made it, load it with trust_native_code=True"
            )
        chosen = best_of(targets)
        if chosen is None:
            raise ArtifactError(
                f"{self.name} has code for {', '.join(targets)}; this machine runs "
                + ", ".join(t.name for t in runnable_targets())
            )
        best = chosen.name
        opened, sizes = self._open_inputs[entry]
        base = f"program:{entry}:{best}"
        if not opened:
            return self._executable(base, best, signature, entry)
        return Batched({
            n: self._executable(f"{base}:{n}", best, _at(signature, opened, n), entry)
            for n in sizes
        }, opened)

    def _executable(
        self, section: str, target: str, signature: Signature, entry: str
    ) -> Executable:
        program = Program.from_bytes(self._box.section(section))
        _agree(program, target, signature, entry)
        executable = Executable(program, self._callbacks)
        executable.bind(self._take_weights(program))
        return executable

    def _take_weights(self, program: Program) -> list[Array]:
        updated = {s.alias for s in program.slots}
        arrays = []
        for index, slot in enumerate(program.slots):
            if slot.kind != "param":
                continue
            array = self.weights.get(slot.name)
            if array is None or not _matches(slot, array):
                raise ArtifactError(f"{self.name} has no weight {slot.name!r}, {slot}")
            if index in updated and not array.flags.writeable:
                self._own(slot.name)
            arrays.append(self.weights[slot.name])
        return arrays

    def _own(self, name: str) -> None:
        """Replace a view of the file by memory of our own, for the entries that use it too."""
        self.weights[name] = np.array(self.weights[name])
        for executable in self._loaded():
            slots = executable.program.of_kind("param")
            if any(s.name == name for s in slots):
                executable.bind([self.weights[s.name] for s in slots])


    def _loaded(self) -> Iterator[Executable]:
        """Every executable there is."""
        for found in self._executables.values():
            if isinstance(found, Batched):
                yield from found.executables.values()
            else:
                yield found


def _words(types: Sequence[tuple[str, str, tuple[int, ...]]]) -> str:
    """Names and types for people; a batch of any size is N."""
    return ", ".join(f"{name}: {dtype}[{', '.join('N' if d < 0 else str(d) for d in shape)}]"
                     for name, dtype, shape in types)


def _needs(program: Program) -> list[str]:
    memory = program.memory()
    return [f"{memory[what] / 1024:.0f} KiB" for what in ("temporaries", "kept", "code")]


def _at(signature: Signature, opened: Sequence[int], n: int) -> Signature:
    """A signature for batches of any size, for one of n rows."""
    return Signature(
        tuple((name, dtype, (n, *shape[1:]) if i in opened else shape)
              for i, (name, dtype, shape) in enumerate(signature.inputs)),
        tuple((name, dtype, (n, *shape[1:])) for name, dtype, shape in signature.outputs),
    )


def _agree(program: Program, target: str, signature: Signature, entry: str) -> None:
    found = Signature(*(
        tuple((s.name, s.dtype.name, s.shape) for s in program.of_kind(kind))
        for kind in ("input", "output")
    ))  # fmt: skip
    if program.target != target or found != signature:
        raise ArtifactError(f"the code of entry {entry!r} is not what the header says")


def _read_meta(
    box: Container,
) -> tuple[dict[str, tuple[tuple[str, ...], Signature]], dict[str, str]]:
    try:
        entries = {
            name: (
                tuple(str(t) for t in row["targets"]),
                Signature(_types(row["inputs"]), _types(row["outputs"])),
            )
            for name, row in box.meta["entries"].items()
        }
        metadata = {str(k): str(v) for k, v in box.meta["metadata"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(f"the artifact's header is malformed: {str(error)[:200]}") from None
    opened = _read_open(box)
    for name, (targets, signature) in entries.items():
        box.section(f"graph:{name}")
        inputs, sizes = opened[name]
        if any(i >= len(signature.inputs) or not signature.inputs[i][2] for i in inputs) or (
            inputs and not all(row[2] for row in signature.outputs)
        ):
            raise ArtifactError(f"entry {name!r} has an open batch and no axis for it")
        for target in targets:
            for n in sizes or [None]:
                base = f"program:{name}:{target}"
                box.section(base if n is None else f"{base}:{n}")
    return entries, metadata


def _read_open(box: Container) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """For each entry the inputs with an open batch and the batch sizes there are programs for."""
    out = {}
    for name, row in box.meta["entries"].items():
        try:
            inputs = tuple(int(i) for i in row.get("open", ()))
            sizes = tuple(int(n) for n in row.get("sizes", ()))
        except (TypeError, ValueError, AttributeError):
            raise ArtifactError(f"the open sizes of entry {name!r} are malformed") from None
        # A batch of any size needs programs of 1 row and of 2 or more; see `batched.windows`.
        fine = bool(inputs) == bool(sizes) and len(sizes) <= 64 and list(sizes) == sorted(
            set(sizes)) and (not sizes or sizes[:2] == (1, 2)) and all(i >= 0 for i in inputs)
        if not fine:
            raise ArtifactError(f"the open sizes of entry {name!r} are malformed")
        out[str(name)] = (inputs, sizes)
    return out


def _types(rows: Any) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    return tuple((str(n), str(d), tuple(int(i) for i in shape)) for n, d, shape in rows)
