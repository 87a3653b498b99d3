"""The `.cellc` file: weights, portable IR and native code of one network, in one file.

A container (see `container`) whose `meta` describes the *entries* (`"infer"`, `"train"`, ...):
for each the signature, the targets it has code for, and the sizes it serves (see `variants`).
Sections: `weights` (safetensors), `graph:ENTRY:K` (IR text, compressed), and programs (see
`program`): `program:ENTRY:TARGET` of an entry of fixed sizes; `program:ENTRY:TARGET:V` of variant V
where sizes are open, and `program:ENTRY:TARGET:V:SIZE` for each of its batch sizes. An entry that
finds sizes as it runs has programs of stages (see `found_sizes`).

Loading verifies the whole file and runs nothing. Native code is opened only when the caller says
that the file is trusted; without that the weights and the IR can be read.

Loads and sessions share memory: a file of the same contents is in memory once, however often it is
loaded, and all sessions of it read the same weights. A session has its own values of those that its
calls update.
"""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from . import checkpoint, found_sizes, knobs
from .arguments import Inputs, Type, accept_outputs, refuse_weights
from .batched import Batched
from .bound import BoundProgram, Weights, suits, updated
from .container import Container, is_count, pack, unpack
from .device import best_for
from .errors import ArtifactError, counted, in_file
from .executable import Executable
from .files import read_file, view_contents, write_atomically
from .found_sizes import NoWay, Staged, StagedAtSizes, StagedPrograms, Way
from .open_sizes import shown
from .opened import Opened
from .program import Program
from .records import dataclass, field
from .target import runnable_targets
from .unpacking import packed_text, unpacked_text
from .variants import ANY, OpenSizes, Variant

if TYPE_CHECKING:
    import mmap

    Contents = bytes | bytearray | memoryview | mmap.mmap

Array = npt.NDArray[Any]

MAGIC = b"CELLCART"
VERSION = 2
DEFAULT_ENTRY = "infer"
_KNOWN_SHAPES = 256  # Shapes of calls for which what serves them is remembered


@dataclass(frozen=True, slots=True)
class Entry:
    """One callable of an artifact, to be written."""

    # of an entry of fixed sizes: the same graph for one or more targets; their slots agree, and
    # their `param` slots are named after weights
    programs: Sequence[Program] = ()
    graphs: Sequence[str] = field(default=(), repr=False)  # IR texts; none leaves them out
    # of an entry with open sizes: where they are and what serves them
    sizes: OpenSizes = OpenSizes()
    # for each of these variants, its programs by batch size (by 0 where no batch is open), for one
    # or more targets as above
    variants: Sequence[Mapping[int, Sequence[Program]]] = ()
    # `(output, input)` pairs: the programs write this output over the input, and have no output for
    # it
    donated: Sequence[tuple[int, int]] = ()
    staged: StagedPrograms | None = None  # of an entry that finds sizes as it runs, its programs

    @property
    def by_size(self) -> Sequence[Mapping[int, Sequence[Program]]]:
        """For each variant its programs by batch size."""
        return self.variants or [{0: self.programs}]

    def sections(self, name: str) -> Iterator[tuple[str, Program]]:
        """Where each program of this entry goes."""
        if self.staged is not None:
            yield from self.staged.sections(name)
            return
        for number, (variant, made) in enumerate(
                zip(self.sizes.variants, self.by_size, strict=True)):
            for size, programs in made.items():
                for p in programs:
                    yield _section(name, p.target, self.sizes, number, variant, size), p


def _section(
    entry: str, target: str, sizes: OpenSizes, number: int, variant: Variant, size: int
) -> str:
    """The name of a program's section."""
    parts = ["program", entry, target]
    parts += [str(number)] if sizes.symbols else []
    parts += [str(size)] if variant.sizes else []
    return ":".join(parts)


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs and outputs of an entry: `(name, dtype name, shape)` each; -1 is an open size."""

    inputs: tuple[Type, ...]
    outputs: tuple[Type, ...]


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
    described = {name: describe(name, entry, weights) for name, entry in entries.items()}
    sections: list[tuple[str, bytes | memoryview]] = []
    for name, entry in entries.items():
        sections += [(f"graph:{name}:{k}", packed_text(g)) for k, g in enumerate(entry.graphs)]
        sections += [(section, p.to_bytes()) for section, p in entry.sections(name)]
    meta = {"entries": described, "metadata": dict(metadata or {})}
    _write(path, meta, weights, sections)


def _write(
    path: str | os.PathLike[str], meta: Mapping[str, Any], weights: Mapping[str, Array],
    sections: Iterable[tuple[str, bytes | memoryview]],
) -> None:
    first = ("weights", b"".join(checkpoint.encode(weights)))
    write_atomically(path, pack(MAGIC, VERSION, meta, [first, *sections]))


def describe(name: str, entry: Entry, weights: Mapping[str, Array]) -> dict[str, Any]:
    """An entry as the header of a file has it.

    Raises:
        ValueError: programs that disagree or name a weight there is not.
    """
    if not name.isidentifier():
        raise ValueError(f"an entry's name is an identifier, got {name!r}")
    common = {"sizes": entry.sizes.to_json(), "graphs": len(entry.graphs),
              "donated": sorted(map(list, entry.donated))}
    if entry.staged is not None:
        return {**entry.staged.described(name, weights), **common}
    programs = [p for made in entry.by_size for of in made.values() for p in of]
    if not programs:
        raise ValueError(f"entry {name!r} has no program")
    first, opened = programs[0], bool(entry.sizes.symbols)
    if any(_interface(p, opened) != _interface(first, opened) for p in programs):
        raise ValueError(f"the programs of entry {name!r} differ in their slots")
    for made in entry.by_size:
        for of in made.values():
            if len({p.target for p in of}) != len(of):
                raise ValueError(f"entry {name!r} has two programs for one target")
    for slot in first.of_kind("param"):
        if not suits(slot, weights.get(slot.name)):
            raise ValueError(f"entry {name!r} needs weight {slot.name!r}, {slot}")
    places = {(i, axis) for i, axis, _ in entry.sizes.axes}
    inputs = [[s.name, s.dtype.name, [ANY if (i, axis) in places else d
                                      for axis, d in enumerate(s.shape)]]
              for i, s in enumerate(first.of_kind("input"))]
    types = list(zip(*(_types_of(p, "output") for p in programs), strict=True))
    outputs = _with_donated(list(map(_output_row, types)), entry.donated, inputs)
    names = _with_donated(
        [_output_names(t, entry.sizes, programs) for t in types], entry.donated,
        [entry.sizes.shown(i, s.shape) for i, s in enumerate(first.of_kind("input"))])
    return {
        "targets": list(dict.fromkeys(p.target for p in programs)),
        "inputs": inputs,
        "outputs": outputs,
        "shown": [[str(d) for d in shape] for shape in names],
        "updates": sorted({name for p in programs for name in updated(p)}),
        **common,
    }


def _with_donated(
    outputs: Sequence[Any], donated: Iterable[tuple[int, int]], inputs: Sequence[Any]
) -> list[Any]:
    """Something for each output: that of a program, or of the input that it is written over."""
    found = list(outputs)
    for k, i in sorted(donated):
        found.insert(k, inputs[i])
    return found


def _interface(program: Program, opened: bool) -> list[Any]:
    """The slots a caller fills; what a program keeps for itself depends on its target."""
    slots = [s for s in program.slots if s.kind != "kept"]
    return [(s.name, s.dtype, s.kind, len(s.shape)) for s in slots] if opened else list(slots)


def _output_row(types: Sequence[tuple[str, str, tuple[Any, ...]]]) -> list[Any]:
    """An output, from what all programs have for it: open where they differ, or have no size."""
    name, dtype, first = types[0]
    shape = [d if type(d) is int and len({shape[axis] for _, _, shape in types}) == 1 else ANY
             for axis, d in enumerate(first)]
    return [name, dtype, shape]


def _output_names(
    types: Sequence[tuple[str, str, tuple[Any, ...]]], sizes: OpenSizes,
    programs: Sequence[Program],
) -> list[str]:
    """The shape of an output for people: how it follows from the open sizes."""
    values = {tuple(p.of_kind("input")[i].shape[axis] for p in programs): sizes.symbols[s]
              for i, axis, s in sizes.axes}
    general = max((shape for _, _, shape in types), key=lambda s: sum(type(d) is tuple for d in s))
    known = _output_row(types)[2]
    batch = "?" if sizes.batch is None else sizes.symbols[sizes.batch]
    return [str(d) if d != ANY else shown(g) if type(g) is tuple else
            values.get(tuple(shape[axis] for _, _, shape in types), batch)
            for axis, (d, g) in enumerate(zip(known, general, strict=True))]


class _File:
    """The contents of a file, shared by its sessions.

    Attributes:
        box: its sections.
        entries, metadata: as its header has them.
        arrays: its weights, read-only.
        fixed: whether no entry updates any.
        programs: those that were opened, by section.
    """

    def __init__(self, box: Container) -> None:
        self.box = box
        self.entries, self.metadata = _read_meta(box)
        self.arrays, _ = checkpoint.decode(box.section("weights"), "artifact's weights")
        self.fixed = all(e.updates == frozenset() for e in self.entries.values())
        self.programs: dict[str, Program] = {}


_files: WeakValueDictionary[bytes, _File] = WeakValueDictionary()
"""The loaded files by the hashes of their headers."""


def load(
    path: str | os.PathLike[str] | Contents,
    trust_native_code: bool = False,
    callbacks: Mapping[str, Callable[..., object]] | None = None,
) -> Artifact:
    """Open and verify an artifact; runs nothing.

    Args:
        path: the file, which is read into memory; or its contents: `bytes`, or any other buffer.
            Contents that are read-only are used where they are, so processes that give
            `mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)` share the memory of the weights:
            nobody may write to that file or cut it off meanwhile. Others are copied.
        trust_native_code: whether its code may be run. It can do anything your account can.
        callbacks: host functions that its programs call, by name.

    Raises:
        ArtifactError: the file is corrupt, truncated, hostile or of another version.
        OSError: it cannot be read.
    """
    if trust_native_code not in (True, False):  # (the text "no" is true)
        raise TypeError("For 'load', 'trust_native_code' must be True or False, but got "
                        f"{trust_native_code!r}.")
    given = {} if callbacks is None else callbacks
    if not isinstance(given, Mapping) or not all(map(callable, given.values())):
        raise TypeError(f"For 'load', 'callbacks' must be functions by name, but got {given!r}.")
    name, data = ("artifact", view_contents("load", path)) if not isinstance(
        path, (str, os.PathLike)) else (Path(path).name, read_file(path))
    with in_file(path if isinstance(path, (str, os.PathLike)) else name):
        box = unpack(data, MAGIC, VERSION, "artifact")
        file = _files.get(box.digest) or _File(box)
        _files[box.digest] = file
        return Artifact(file, name, trust_native_code, given)


class Artifact:
    """A loaded artifact, as one session; made by `load` and `session`.

    Calls of a session that may update weights, or read those that others update, take turns. `with
    artifact:` keeps other threads waiting for a whole block of calls, where the state between two
    of them matters.
    """

    def __init__(
        self, file: _File, name: str, trusted: bool, callbacks: Mapping[str, Callable[..., object]]
    ) -> None:
        self.name = name  # the file's name
        self.metadata = file.metadata  # what the writer put in
        self._file = file
        self._box = file.box
        self._entries = file.entries
        self._trusted = trusted
        self._callbacks = callbacks
        self._weights = Weights(file.arrays, file.fixed)
        self._open: dict[tuple[str, int], BoundProgram | Batched | Opened | Staged] = {}
        self._direct: dict[str, Callable[..., Any]] = {}
        """The cost of a call, of entries of fixed sizes."""
        self._known_shapes: dict[tuple[Any, ...], _Callable] = {}

    def session(self) -> Artifact:
        """Another session of the same file, which begins with the values in it.

        Weights that no call updates are shared; the others (caches, moving averages, the
        optimizer's state) are its own. Give each thread or conversation one.
        """
        return Artifact(self._file, self.name, self._trusted, self._callbacks)

    def reset(self) -> None:
        """Give every weight its value in the file again."""
        with self:
            self._weights.reset()

    def __enter__(self) -> Self:
        self._weights.lock.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self._weights.lock.release()

    @property
    def weights(self) -> dict[str, Array]:
        """Arrays by name. The first call of an entry that updates some copies them, and the updated
        arrays are then found here (from a GPU they are copied when they are requested). Not to be
        written: programs keep some packed."""
        with self:
            return self._weights.settled()

    def __repr__(self) -> str:
        nbytes = sum(a.nbytes for a in self.weights.values())
        state = "trusted" if self._trusted else "native code not trusted"
        lines = [f"{name}({_words(e.named_inputs())}) -> {_words(e.named_outputs())}; for "
                 f"{', '.join(e.targets)}" for name, e in self._entries.items()]
        return "\n  ".join([f"<Artifact {self.name}: {counted(len(self.weights), 'weight')}, "
                            f"{nbytes / 2**20:.2f} MiB, {state}", *lines]) + ">"

    def _repr_html_(self) -> str:
        """Return a table for notebooks: the entries with their inputs, outputs and needs."""
        cells = [(name, _words(e.named_inputs()), _words(e.named_outputs()), p.target,
                  *_needs(p)) for name, e in self._entries.items() for p in self.programs(name)]
        head = ("entry", "inputs", "outputs", "target", "temporaries", "kept", "code")
        rows = "".join(f"<tr>{''.join(f'<td>{html.escape(c)}</td>' for c in row)}</tr>"
                       for row in cells)
        return (f"<b>{html.escape(self.name)}</b>: {counted(len(self.weights), 'weight')}, "
                f"{sum(a.nbytes for a in self.weights.values()) / 2**20:.2f} MiB<table><tr>"
                f"{''.join(f'<th>{h}</th>' for h in head)}</tr>{rows}</table>")

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of what can be called."""
        return tuple(self._entries)

    def signature(self, entry: str = DEFAULT_ENTRY) -> Signature:
        """Return the inputs and outputs of an entry."""
        return self._entry(entry).signature

    def inputs(self, entry: str = DEFAULT_ENTRY) -> Inputs:
        """The inputs of an entry, which bind the arguments of a call; as text, names and types."""
        return self._entry(entry).inputs

    def targets(self, entry: str = DEFAULT_ENTRY) -> tuple[str, ...]:
        """The targets that an entry has code for."""
        return self._entry(entry).targets

    def sizes(self, entry: str = DEFAULT_ENTRY) -> OpenSizes:
        """The open sizes of an entry; as text, what is served: `N any and S 16, 32`."""
        return self._entry(entry).sizes

    def ways(self, entry: str = DEFAULT_ENTRY, variant: int = 0) -> tuple[Way, ...]:
        """How an entry runs that finds sizes, which follow from elements; () if it finds none."""
        found = self._entry(entry).ways
        return found[variant] if found else ()

    def donated(self, entry: str = DEFAULT_ENTRY) -> tuple[tuple[int, int], ...]:
        """The `(output, input)` pairs of an entry whose output is written over the input."""
        return self._entry(entry).donated

    def graph_text(self, entry: str = DEFAULT_ENTRY, variant: int = 0, way: int = 0) -> str:
        """The portable IR of an entry; of one of its variants, if sizes are open.

        Args:
            way: which way, of an entry that finds sizes as it runs.

        Raises:
            KeyError: there is no such entry.
            IndexError: it has no such variant.
            ArtifactError: the artifact was written without graphs, or is damaged.
        """
        found = self._entry(entry)
        if not found.graphs:
            raise ArtifactError(f"{self.name} holds no graph of entry {entry!r}: it was compiled "
                                "with --no-graph")
        k = found.ways[variant][way].graph if found.ways else found.sizes.variants[variant].graph
        with in_file(self.name):
            return unpacked_text(self._box.section(f"graph:{entry}:{k}"),
                             f"the graph of entry {entry!r}")

    def has_graph(self, entry: str = DEFAULT_ENTRY) -> bool:
        """Whether the IR of an entry is in the file."""
        return self._entry(entry).graphs > 0

    def programs(self, entry: str = DEFAULT_ENTRY) -> list[Program]:
        """Return the programs of an entry for each target and batch size, as data; nothing is run.

        Raises:
            KeyError: there is no such entry.
            ArtifactError: a program is damaged.
        """
        return [self._program(section) for section in self._entry(entry).sections(entry)]

    def _program(self, section: str) -> Program:
        with in_file(self.name):
            return Program.from_bytes(self._box.section(section))

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Run the default entry: one array, or a tuple. See `call`."""
        direct = self._direct.get(DEFAULT_ENTRY)
        if direct is None or named or out is not None:
            return self._call(DEFAULT_ENTRY, arrays, named, out)
        return direct(*arrays)

    def call(self, entry: str, /, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Run an entry on these inputs: one array, or a tuple.

        Where the code is a GPU's, arrays are copied there and back. With `DeviceArray`s as inputs
        the results are `DeviceArray`s, and the call does not wait.

        Args:
            entry: its name.
            arrays: the inputs in order, or one dict of them by name: arrays, numbers, lists,
                whatever converts to the type of the input without loss. (A Python float has no
                type: it is rounded to that of the input.)
            out: arrays that the results are written to and that are returned: one, or a list with
                one for each output, or a dict by name; None for a new array.
            named: inputs by name.

        Raises:
            PermissionError: the artifact was loaded without `trust_native_code=True`.
            KeyError: it has no such entry.
            ArtifactError: the entry has no code for this machine, or damaged code.
            TypeError, ValueError: an argument is wrong, or of a size that is not served.
        """
        try:
            direct = self._direct.get(entry)
        except TypeError:  # (a list is no name)
            direct = None
        if direct is None or named or out is not None:
            return self._call(entry, arrays, named, out)
        return direct(*arrays)

    def _call(
        self, entry: str, arrays: Sequence[Any], named: Mapping[str, Any], out: Any
    ) -> Any:
        found = self._entry(entry)
        given = found.inputs.bind(arrays, named)
        with nullcontext() if self._weights.fixed else self:
            return self._run(entry, self._for_shapes(entry, given), given, out)

    def _run(
        self, entry: str, program: _Callable, given: list[Any], out: Any
    ) -> Any:
        if isinstance(program, StagedAtSizes):
            return _run_staged(entry, program, given, out)
        donated = self._entries[entry].donated
        if out is None and not donated:
            return getattr(program, "entry", program)(*given)
        types = _results(program, given)
        wanted: list[Array | None] = [None] * len(types)
        taken = wanted
        weights = [(n, self._weights.arrays[n]) for n in self._weights.written]
        over = [(self.signature(entry).inputs[i][0], given[i])
                for _, i in donated if isinstance(given[i], np.ndarray)]
        refuse_weights(entry, over, weights)
        if out is not None:
            written = [(f"the weight {n!r}", a) for n, a in weights]
            written += [(f"the donated input {n!r}", a) for n, a in over]
            wanted, taken = accept_outputs(entry, out, types, written, [k for k, _ in donated])
            given = [a.copy() if isinstance(a, np.ndarray) and any(
                o is not None and np.may_share_memory(a, o) for o in wanted) else a for a in given]
        results = program.call(given, taken)
        for i, (want, result) in enumerate(zip(wanted, results, strict=True)):
            if want is not None and want is not result:
                np.copyto(want, result)
                results[i] = want
        results = _with_donated(results, donated, given)
        return results[0] if len(results) == 1 else tuple(results)

    def _for_shapes(self, entry: str, arrays: Sequence[Array]) -> _Callable:
        """Return the callable for these inputs; shapes seen before are cached."""
        key = entry, *[getattr(a, "shape", None) for a in arrays]
        found = self._known_shapes.get(key)
        if found is None:
            if len(self._known_shapes) >= _KNOWN_SHAPES:
                self._known_shapes.clear()
            found = self._known_shapes[key] = self.executable(entry, *arrays)
        return found

    def executable(self, entry: str = DEFAULT_ENTRY, *arrays: Array) -> _Callable:
        """Return the program for inputs of these shapes and this machine's best target.

        Args:
            arrays: the inputs; needed where sizes are open.

        Raises: as `call`.
        """
        found = self._entry(entry)
        if not found.sizes.symbols:
            fixed = self._variant(entry, found, 0)
            if isinstance(fixed, Staged):
                return fixed.at(())
            assert isinstance(fixed, BoundProgram)
            if not found.donated:
                self._direct[entry] = fixed.entry
            return fixed
        try:
            sizes = found.sizes.bind(found.signature.inputs, [np.shape(a) for a in arrays])
            refusals: dict[int, list[str]] = {}  # by how many sizes a variant leaves open
            for number in found.sizes.candidates(sizes):
                opened = self._variant(entry, found, number)
                if not isinstance(opened, Opened | Staged):
                    return opened
                if not (refused := opened.refusal(sizes)):
                    return opened.at(sizes)
                refusals.setdefault(found.sizes.variants[number].at.count(ANY), []).append(refused)
            if refusals:  # (those made for these sizes say what is wrong with the others)
                said = dict.fromkeys(refusals[min(refusals)]) if 0 not in sizes else [
                    f"{found.sizes.symbols[sizes.index(0)]} = 0 must be at least 1"]
                raise ValueError("no program serves these sizes: " + "; ".join(said))
            found.sizes.find(sizes)
        except ValueError as e:
            raise ValueError(f"For {entry!r}, {e}.") from None
        raise AssertionError("a variant that serves sizes is a candidate")

    def _variant(
        self, entry: str, found: _Read, number: int
    ) -> BoundProgram | Batched | Opened | Staged:
        """The callable that serves the sizes of a variant, opened at its first use."""
        key = entry, number
        if key not in self._open:
            with self:
                self._open[key] = self._open.get(key) or self._opened(entry, found, number)
        return self._open[key]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write this artifact with the weights as they are now, whole or not at all.

        The file includes everything that training calls have updated: parameters, the optimizer's
        state, the state of random numbers. An artifact loaded from it continues with the same bits.

        Raises:
            OSError: the file cannot be written; an older one is as it was.
        """
        sections = [(n, data) for n, data in self._box.sections.items() if n != "weights"]
        with self:
            _write(path, self._box.meta, self.weights, sections)

    def _entry(self, name: str) -> _Read:
        if not isinstance(name, str) or name not in self._entries:
            raise KeyError(f"{self.name} has entries {', '.join(self._entries)}; not {name!r}")
        return self._entries[name]

    def _opened(
        self, name: str, entry: _Read, number: int
    ) -> BoundProgram | Batched | Opened | Staged:
        if not self._trusted:
            raise PermissionError(
                f"{self.name} holds native code, which can do anything your account can; if you "
                "trust who made it, load it with trust_native_code=True"
            )
        chosen = best_for(entry.targets)
        if chosen is None:
            wanted = knobs.read().target
            raise ArtifactError(
                f"{self.name} has code for {', '.join(entry.targets)}; this machine runs "
                + ", ".join(t.name for t in runnable_targets())
                + (f", and CELLC_TARGET is {wanted}" if wanted is not None else "")
            )
        if entry.ways:
            return Staged(entry.ways[number], entry.sizes.symbols,
                          partial(self._opened_stage, name, entry, chosen.name, number))
        accept = partial(entry.inputs.bind, named={})
        variant = entry.sizes.variants[number]
        made = {}
        for size in variant.sizes or (0,):
            section = _section(name, chosen.name, entry.sizes, number, variant, size)
            with in_file(self.name):
                program = self._file.programs.get(section) or self._program(section)
                entry.check(program, chosen.name, variant, size, name)
                self._file.programs[section] = program
                if variant.opened:
                    return Opened(program, entry.sizes.symbols, partial(self._bound, accept))
                made[size] = self._bound(accept, program)
        return Batched(made, entry.sizes.batched_inputs) if variant.sizes else made[0]

    def _bound(
        self, accept: Callable[..., Any] | None, program: Program, like: BoundProgram | None = None
    ) -> BoundProgram:
        """A program, bound to the weights; `like`: the same at other sizes."""
        return self._weights.bind(Executable(
            program, self._callbacks, accept=accept,
            like=None if like is None else like.executable), like)

    def _opened_stage(
        self, name: str, entry: _Read, target: str, number: int, w: int, k: int, c: int
    ) -> BoundProgram | Opened:
        """Program `c` of stage `k` of a way of an entry's variant."""
        stage = entry.ways[number][w].stages[k]
        section = found_sizes.section(name, target, number, w, k, c)
        with in_file(self.name):
            program = self._file.programs.get(section) or self._program(section)
            if not found_sizes.check_program(program, target, stage, c, entry.updates):
                raise ArtifactError(f"the code of entry {name!r} is not what the header says")
            self._file.programs[section] = program
        return Opened(program, stage.symbols, partial(self._bound, None)) \
            if program.open is not None else self._bound(None, program)


_Callable = BoundProgram | Batched | StagedAtSizes


def _run_staged(entry: str, program: StagedAtSizes, given: Sequence[Any], out: Any) -> Any:
    """Run an entry that finds sizes as it runs."""
    if out is not None:
        raise TypeError(f"For {entry!r}, 'out' cannot be given: the call finds the sizes of its "
                        "results as it runs.")
    try:
        return program(*given)
    except NoWay as e:
        raise ValueError(f"For {entry!r}, {e}.") from None


def _results(program: BoundProgram | Batched, given: Sequence[Any]) -> list[Type]:
    """The types of the results for these inputs."""
    if isinstance(program, BoundProgram):
        return [(s.name, s.dtype.name, s.shape) for s in program.program.of_kind("output")]
    rows = given[program.open_inputs[0]].shape[0]
    return [(s.name, s.dtype.name, (rows, *s.shape[1:])) for s in program.outputs]


@dataclass(frozen=True, slots=True)
class _Read:
    """An entry of a file that was read."""

    targets: tuple[str, ...]
    signature: Signature
    sizes: OpenSizes
    graphs: int
    inputs: Inputs
    updates: frozenset[str] | None
    """The weights that its calls update; None in a file that does not say it."""
    donated: tuple[tuple[int, int], ...]  # The outputs that are written over inputs, and these
    shown: tuple[tuple[str, ...], ...] = ()  # The shapes of outputs for people
    ways: tuple[tuple[Way, ...], ...] = ()  # for each variant, if it finds sizes as it runs

    def sections(self, name: str) -> Iterator[str]:
        """Where the programs are, for each target."""
        for target in self.targets:
            if self.ways:
                yield from found_sizes.sections(name, target, self.ways)
                continue
            for number, variant in enumerate(self.sizes.variants):
                for size in variant.sizes or (0,):
                    yield _section(name, target, self.sizes, number, variant, size)

    def named_inputs(self) -> list[tuple[str, str, Sequence[int | str]]]:
        """The inputs, with names for open sizes."""
        return [(name, dtype, self.sizes.shown(i, shape))
                for i, (name, dtype, shape) in enumerate(self.signature.inputs)]

    def named_outputs(self) -> list[tuple[str, str, Sequence[int | str]]]:
        """The outputs, with names for open sizes."""
        return [(name, dtype, shown) for (name, dtype, _), shown in zip(
            self.signature.outputs, self.shown, strict=True)]

    def check(self, program: Program, target: str, variant: Variant, size: int, entry: str) -> None:
        """See that a program is what the header says.

        Raises:
            ArtifactError: it is not.
        """
        names = self.sizes.symbols
        places: dict[tuple[int, int], Any] = {
            (i, axis): variant.at[s] if variant.at[s] != ANY else
            ("sum", (1, names[s])) if variant.opened else size for i, axis, s in self.sizes.axes}
        inputs = tuple(
            (name, dtype, tuple(places.get((i, axis), d) for axis, d in enumerate(shape)))
            for i, (name, dtype, shape) in enumerate(self.signature.inputs))
        over = dict(self.donated)
        outputs = tuple(o for k, o in enumerate(self.signature.outputs) if k not in over)
        written = {s.alias for s in program.slots}
        at = [i for i, s in enumerate(program.slots) if s.kind == "input"]
        found, given = (_types_of(program, kind) for kind in ("input", "output"))
        same = program.target == target and found == inputs and len(given) == len(outputs) and all(
            a[:2] == b[:2] and len(a[2]) == len(b[2])
            and all(d in (e, ANY) for d, e in zip(a[2], b[2], strict=True))
            for a, b in zip(outputs, given, strict=True))
        same = same and {i for i, slot in enumerate(at) if slot in written} == {*over.values()}
        same = same and variant.opened == (program.open is not None) and (
            program.open is None or {*program.open.symbols} <= {*names})
        same = same and (self.updates is None or self.updates.issuperset(updated(program)))
        # Rows of a batch are put together along the first axis.
        if not same or (variant.sizes and any(not s or s[0] != size for _, _, s in given)):
            raise ArtifactError(f"the code of entry {entry!r} is not what the header says")


def _types_of(program: Program, kind: str) -> tuple[tuple[str, str, tuple[Any, ...]], ...]:
    """The slots of a kind: names, element types and shapes; open sizes as numbers."""
    shapes = [s.shape for s in program.slots] if program.open is None else program.open.shapes
    return tuple((s.name, s.dtype.name, shape)
                 for s, shape in zip(program.slots, shapes, strict=True) if s.kind == kind)


def _words(types: Sequence[tuple[str, str, Sequence[int | str]]]) -> str:
    """Names and types for people."""
    return ", ".join(f"{name}: {dtype}[{', '.join(map(str, shape))}]"
                     for name, dtype, shape in types)


def _needs(program: Program) -> list[str]:
    memory = program.memory()
    return [f"{memory[what] / 1024:.0f} KiB" for what in ("temporaries", "kept", "code")]


def _read_meta(box: Container) -> tuple[dict[str, _Read], dict[str, str]]:
    try:
        entries = {str(name): _read_entry(name, row) for name, row in box.meta["entries"].items()}
        metadata = {str(k): str(v) for k, v in box.meta["metadata"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(f"the artifact's header is malformed: {str(error)[:200]}") from None
    for name, entry in entries.items():
        for k in range(entry.graphs):
            box.section(f"graph:{name}:{k}")
        for section in entry.sections(name):
            box.section(section)
    return entries, metadata


def _read_entry(name: str, row: Any) -> _Read:
    signature = Signature(_types(row["inputs"]), _types(row["outputs"]))
    sizes = OpenSizes.from_json(row["sizes"], signature.inputs)
    ways = found_sizes.from_json(row.get("ways", []), len(sizes.variants), len(signature.inputs),
                                 sizes.symbols)
    named = [v.graph for v in sizes.variants] + [w.graph for of in ways for w in of]
    graphs = row["graphs"]
    if not is_count(graphs, len(named)) or (graphs and max(named) >= graphs):
        raise ArtifactError("the graphs of an entry are malformed")
    updates, donated = row.get("updates"), tuple((k, i) for k, i in row.get("donated", ()))
    for place, types in enumerate((signature.outputs, signature.inputs)):
        numbers = [pair[place] for pair in donated]
        if not all(is_count(n, len(types) - 1) for n in numbers) or \
                len({*numbers}) != len(numbers):
            raise ArtifactError("the donated inputs of an entry are malformed")
    if any(signature.outputs[k][1:] != signature.inputs[i][1:] for k, i in donated) or (
            donated and (ways or sizes.batch is not None)):
        raise ArtifactError("the donated inputs of an entry are malformed")
    return _Read(tuple(str(t) for t in row["targets"]), signature, sizes, graphs,
                 Inputs(name, signature.inputs, sizes),
                 None if updates is None else frozenset(map(str, updates)), donated,
                 _shown(row.get("shown"), signature), ways)


def _shown(rows: Any, signature: Signature) -> tuple[tuple[str, ...], ...]:
    """The shapes of outputs for people; a file without them has question marks."""
    given = rows or [["?" if d == ANY else str(d) for d in shape]
                     for _, _, shape in signature.outputs]
    found = tuple(tuple(str(d)[:80] for d in shape) for shape in given)
    if list(map(len, found)) != [len(shape) for _, _, shape in signature.outputs]:
        raise ArtifactError("the outputs of an entry are malformed")
    return found


def _types(rows: Any) -> tuple[Type, ...]:
    return tuple((str(n), str(d), tuple(int(i) for i in shape)) for n, d, shape in rows)
