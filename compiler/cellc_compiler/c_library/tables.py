"""The constants that the functions of a library read about one network, as LLVM text.

A library for several processors of a kind has them once for each; they share the weights.

The places in a session's memory are chosen here, too: arrays of pointers first, then for each
program its slots and the numbers that follow from sizes, then the weights that calls update and the
blocks that follow from them. Sessions share all else: see `sessions.ll`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cellc_compiler import __version__
from cellc_runtime import dtypes
from cellc_runtime.artifact import Entry, describe
from cellc_runtime.bound import updated
from cellc_runtime.dtypes import Array, DType
from cellc_runtime.lazy import json
from cellc_runtime.open_sizes import RELATIONS, Open, condition
from cellc_runtime.processor import FEATURES
from cellc_runtime.program import Message, Program
from cellc_runtime.records import dataclass, field
from cellc_runtime.target import Target
from cellc_runtime.variants import ANY

from ..backends.llvm.notation import declarations
from .abi import ABI, DTYPES, FUNCTIONS, MAX_NDIM, STRUCTURES, NotInC, code_of
from .numbers import Code

HASH = "cellc"  # The name of the hash in the metadata of a file of weights
_KINDS = {"input": 0, "output": 1, "param": 2, "update": 3, "kept": 4}
_RELATIONS = tuple(RELATIONS)
_TENSOR = 24 + 8 * MAX_NDIM


@dataclass(frozen=True, slots=True)
class Network:
    """The parts of a library, for one of the targets that it has code for."""

    name: str  # an identifier
    target: Target
    targets: str  # the names of all of them, for people
    entries: Mapping[str, Entry]  # by name
    weights: Mapping[str, Array] = field(repr=False)  # by name, in the order of the file
    head: bytes = field(repr=False)  # that of the file of weights
    data: bytes | None = field(repr=False)  # the rest of that file, if the library holds it
    nbytes: int  # of the weights

    @property
    def hash(self) -> str:
        """The name of the weights, from the metadata of their file."""
        return str(json.loads(self.head[8:])["__metadata__"][HASH])

    def programs(self) -> list[Program]:
        """All programs, in the order of their numbers."""
        return [p for entry in self.entries.values() for made in entry.by_size
                for of in made.values() for p in of]


class _Room:
    """Places in a block of memory."""

    def __init__(self, start: int) -> None:
        self.size = start

    def take(self, nbytes: int, align: int = 8) -> int:
        """The place of a number of bytes."""
        at = -(-self.size // align) * align
        self.size = at + nbytes
        return at


class Constants:
    """Constants of a module: equal ones are one."""

    def __init__(self) -> None:
        self.lines: list[str] = []  # their definitions
        self._texts: dict[str, str] = {}
        self._known: dict[tuple[str, str], str] = {}

    def define(self, ty: str, value: str, name: str = "") -> str:
        """A constant, by a name of its own or for this module alone."""
        if not name and (ty, value) in self._known:
            return self._known[ty, value]
        named = name or f"t.{len(self.lines)}"
        how = "hidden constant" if name else "private unnamed_addr constant"
        self.lines.append(f"@{named} = {how} {ty} {value}")
        return self._known.setdefault((ty, value), f"@{named}") if not name else f"@{named}"

    def text(self, text: str) -> str:
        """A text, with a zero at its end."""
        if text not in self._texts:
            data = text.encode() + b"\0"
            body = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}"
                           for c in data)
            self._texts[text] = self.define(f"[{len(data)} x i8]", f'c"{body}"')
        return self._texts[text]

    def array(self, ty: str, values: Iterable[Any], name: str = "") -> str:
        """An array; null if it is empty and has no name."""
        held = list(values)
        if not held and not name:
            return "null"
        of = f"%{ty}" if ty in STRUCTURES else ty
        body = ", ".join(f"{of} {v}" for v in held)
        return self.define(f"[{len(held)} x {of}]", f"[{body}]" if held else "zeroinitializer",
                           name)


def struct(structure: str, /, **values: Any) -> str:
    """A structure; members that are not given are null or 0."""
    fields = STRUCTURES[structure]
    given = [f"{kind} {values.pop(f, 'null' if kind == 'ptr' else 0)}" for f, kind in fields]
    assert not values, values
    return f"{{ {', '.join(given)} }}"


def row(dtype: DType, shape: Sequence[Any]) -> str:
    """A type as messages show it."""
    return f"{dtype.name}[{', '.join(map(str, shape))}]"


class Tables:
    """Writes the constants of a network for one target.

    Args:
        constants: where they go; those of all targets of a library are in one module.
        first: the number of its first program among those of the library.

    Attributes:
        net: the constant that all others hang on.
        blobs: data that it knows by these names.
        described: for each entry its inputs and outputs, and the sizes that it serves, for people.
        uses_pow: whether sizes are computed with powers.

    Raises:
        NotInC: something that the interface does not have.
    """

    def __init__(self, network: Network, constants: Constants, first: int = 0) -> None:
        self.network, self.first = network, first
        self._c, self.blobs = constants, dict[str, bytes]()
        self._programs = network.programs()
        self.uses_pow = False
        weights = list(network.weights)
        self._weight = {name: i for i, name in enumerate(weights)}
        self._updated = {n for p in self._programs for n in updated(p)}
        most = 1
        for p in self._programs:
            most = max(most, len(p.of_kind("input")), len(p.of_kind("output")))
        self._session, self._base = _Room(256), _Room(64)
        take = self._session.take
        places = {"weights_at": take(8 * len(weights)), "versions_at": take(8 * len(weights)),
                  "pointers_at": take(32 * most), "tensors_at": take(2 * _TENSOR * most)}
        self._blocks: list[str] = []
        self._block_keys: dict[Any, int] = {}
        self._symbols = [entry.sizes.symbols for entry in network.entries.values()
                         for made in entry.by_size for of in made.values() for _ in of]
        programs = [self._program(number, p) for number, p in enumerate(self._programs)]
        held = self._held()
        plans, entries, first = [], [], 0
        self.described: dict[str, tuple[list[str], list[str], str]] = {}
        for name, entry in network.entries.items():
            described = describe(name, entry, network.weights)
            inputs, outputs = ([f"{n}: {text}" for n, text, _, _ in rows]
                               for rows in self._rows(entry, described))
            self.described[name] = inputs, outputs, _served(entry)
            plans.append(self._plan(name, entry, described, first))
            entries.append(self._entry(name, entry, described))
            first += sum(map(len, entry.by_size))
        c, head = self._c, network.head
        programs_at = c.array("program", programs, f"cellc_programs_{self.first}")
        library = c.define("%library", struct(
            "library", abi=ABI, nentries=len(entries), nweights=len(weights),
            embedded=int(network.data is not None), name=c.text(network.name),
            target=c.text(network.target.name), version=c.text(__version__),
            hash=c.text(network.hash),
            entries=c.array("entry", entries), weights=c.array("weight", self._weights()),
            **{f: f"@cellc_{f}" for f in FUNCTIONS}))
        self.net = struct(
            "net", library=library, targets=c.text(network.targets),
            plans=c.array("plan", plans), programs=programs_at,
            blocks=c.array("block", self._blocks), weights=c.array("held", held),
            head=self._blob("cellc_head", head),
            data=self._blob("cellc_data", network.data or b""),
            nprograms=len(programs), nblocks=len(self._blocks), nweights=len(weights),
            head_bytes=len(head), file_bytes=len(head) + network.nbytes,
            session_bytes=self._session.size, base_bytes=self._base.size, npointers=most,
            **places, **_processor(network.target))

    def declared(self) -> list[str]:
        """The functions of its programs."""
        return [f"declare hidden i32 @{name}(ptr, ptr, ptr{more})"
                for i, p in enumerate(self._programs, self.first)
                for name, more in ((f"cellc_main_{i}", ""), (f"cellc_ahead_{i}", ", i64"))
                if not more or p.precomputed]

    # --- programs ---------------------------------------------------------------------------

    def _program(self, number: int, p: Program) -> str:
        c, take = self._c, self._session.take
        if p.callbacks or p.kernels or p.of_kind("state"):
            raise NotInC(f"the program {p.name!r} calls what a library does not have: "
                         + ", ".join(call.name for call in p.callbacks))
        counters = {"input": 0, "output": 0}
        slots = []
        for i, slot in enumerate(p.slots):
            if slot.kind in counters:
                k = counters[slot.kind]
                counters[slot.kind] += 1
            elif slot.kind == "param":
                k = self._weight[slot.name]
            elif slot.alias is not None:
                k = slot.alias
            else:
                k = self._block(number, p, i)
            nbytes = slot.nbytes if p.open is None or slot.kind != "output" else -1
            slots.append(struct("slot", kind=_KINDS[slot.kind], number=k, nbytes=nbytes))
        kept = [self._block(number, p, i) for i, s in enumerate(p.slots) if s.kind == "kept"]
        ahead = p.open.ahead.places({})[1] if p.open is not None else p.precompute_arena_bytes
        shapes = [d for s in p.of_kind("output") for d in _padded(s.shape)]
        messages = [self._message(m, n, number) for n, m in enumerate(p.messages)]
        return struct(
            "program", main=f"@cellc_main_{self.first + number}",
            ahead=f"@cellc_ahead_{self.first + number}" if p.precomputed else "null",
            constants=self._blob(f"cellc_constants_{self.first + number}", p.constants),
            slots=c.array("slot", slots),
            shapes=c.array("i64", shapes), messages=c.array("message", messages),
            open="null" if p.open is None else self._opened(number, p.open),
            kept=c.array("i64", kept), updated=c.array(
                "i64", [self._weight[n] for n in updated(p)]),
            nslots=len(slots), arena=p.arena_bytes, ahead_bytes=ahead,
            nkept=len(kept), nupdated=len(updated(p)), nmessages=len(messages),
            slots_at=take(8 * len(slots)), state_at=take(32))

    def _blob(self, name: str, data: bytes) -> str:
        """Bytes at a multiple of 64, outside of the text."""
        if not data:
            return "null"
        self.blobs[name] = data
        return f"@{name}"

    def _block(self, number: int, p: Program, slot: int) -> int:
        """The number of a precomputed block; equal ones of weights alone are one."""
        part = slot - (len(p.slots) - len(p.precomputed))
        made = p.precomputed[part]
        whole = all(p.slots[s].kind == "param" for s in made.sources)
        key = (made.key, *(p.slots[s].name for s in made.sources)) if whole else (number, part)
        if key not in self._block_keys:
            self._block_keys[key] = len(self._blocks)
            sources = self._sources(p, slot)
            shared = not self._updated & sources
            room = self._base if shared else self._session
            self._blocks.append(struct(
                "block", program=f"getelementptr (%program, ptr @cellc_programs_{self.first}, "
                f"i64 {number})",
                weights=self._c.array("i64", sorted(self._weight[n] for n in sources)), part=part,
                at=room.take(p.slots[slot].nbytes, 64), shared=int(shared),
                seen_at=self._session.take(8), nweights=len(sources)))
        return self._block_keys[key]

    def _sources(self, p: Program, slot: int) -> set[str]:
        """The weights that a block follows from, through other blocks too."""
        found: set[str] = set()
        for s in p.precomputed[slot - (len(p.slots) - len(p.precomputed))].sources:
            found |= {p.slots[s].name} if p.slots[s].kind == "param" else self._sources(p, s)
        return found

    def _message(self, m: Message, number: int, program: int) -> str:
        c, opened = self._c, self._programs[program].open
        rest = iter(range(1, len(m.values)))
        pieces = [struct("piece", text=c.text(part)) if isinstance(part, str) else
                  struct("piece", value=next(rest) if part is None else 0) for part in m.parts]
        shown = []
        for k, v in enumerate(m.values):
            code = "null"
            if opened is not None:
                place, shape = opened.messages[number][k]
                words = self._code(program, opened)
                words.add(place)
                words.add_product(shape)
                code = self._words(words)
            count = 1
            for d in v.shape:
                count *= d
            shown.append(struct("shown", code=code, dtype=code_of(v.dtype), ndim=len(v.shape),
                                count=count, place=v.place))
        where = f" (at {m.file}:{m.line})" if m.file else ""
        return struct("message", pieces=c.array("piece", pieces), shown=c.array("shown", shown),
                      kind=c.text(m.own or m.kind), where=c.text(where), npieces=len(pieces))

    # --- open sizes -------------------------------------------------------------------------

    def _code(self, number: int, o: Open) -> Code:
        """Numbers that follow from the sizes of the entry, and places of temporaries."""
        names = [*self._symbols[number], *o.arena.names]
        return Code({name: i for i, name in enumerate(names)})

    def _words(self, code: Code) -> str:
        self.uses_pow |= code.uses_pow
        return self._c.array("i64", code.words)

    def _opened(self, number: int, o: Open) -> str:
        c, take, p = self._c, self._session.take, self._programs[number]
        guards, arena, table, scalars, outputs = (self._code(number, o) for _ in range(5))
        bounds = [o.symbols.get(name, (0, ANY)) for name in self._symbols[number]]
        for _, x in o.guards:
            guards.add(x)
        for x in o.arena.sizes:
            arena.add(x)
        for x in o.table:
            table.add(x, integer=True)
        rows = []
        for at, dtype, x in o.scalars:
            scalars.add(x)
            rows.append((at, _scalar_kind(dtype) + 100 * scalars.floats[-1]))
        shapes = [shape for s, shape in zip(p.slots, o.shapes, strict=True) if s.kind == "output"]
        for shape in shapes:
            for x in _padded(shape):
                outputs.add(x)
        kinds = [_RELATIONS.index(relation) for relation, _ in o.guards]
        guards.words = kinds + guards.words
        below = [n for row in o.arena.below for n in (len(row), *row)]
        places = len(bounds) + len(o.arena.names)
        opened = struct(
            "open", bounds=c.array("[2 x i64]", [f"[i64 {a}, i64 {z}]" for a, z in bounds]),
            guards=self._words(guards), arena=self._words(arena), below=c.array("i64", below),
            table=self._words(table), scalars=self._words(scalars),
            rows=c.array("[2 x i64]", [f"[i64 {at}, i64 {kind}]" for at, kind in rows]),
            outputs=self._words(outputs), nsizes=len(bounds), nguards=len(o.guards),
            narena=len(o.arena.sizes), ntable=len(o.table), table_at=o.table_at,
            nscalars=len(rows), noutputs=len(shapes), sizes_at=take(8 * places),
            bytes_at=take(8 * len(o.arena.sizes)), constants_at=take(len(p.constants), 64),
            shapes_at=take(8 * MAX_NDIM * len(shapes)))
        return c.define("%open", opened)

    # --- entries ----------------------------------------------------------------------------

    def _plan(self, name: str, entry: Entry, described: Mapping[str, Any], first: int) -> str:
        c, sizes = self._c, entry.sizes
        texts = [f"For '{name}', '{n}' must be {text}"
                 for rows in self._rows(entry, described) for n, text, _, _ in rows]
        numbers, variants = first, []
        for variant, made in zip(sizes.variants, entry.by_size, strict=True):
            programs = list(range(numbers, numbers + len(made)))
            numbers += len(made)
            batches = list(variant.sizes)
            last = next((i for i, b in enumerate(batches) if b + 1 not in batches), 0)
            order = (variant.opened, variant.at.count(ANY))
            variants.append((order, struct(
                "variant", at=c.array("i64", variant.at), programs=c.array("i64", programs),
                ranges=c.array("[2 x i64]", [f"[i64 {a}, i64 {z}]" for a, z in variant.ranges]),
                batches=c.array("i64", batches), kind=1 if variant.opened else 2 * bool(batches),
                nprograms=len(programs), nranges=len(variant.ranges),
                batch=sizes.batch or 0, first=last)))
        variants.sort(key=lambda v: v[0])
        return struct("plan", must=c.array("ptr", map(c.text, texts)), variants=c.array(
            "variant", [text for _, text in variants]), nvariants=len(variants))

    def _rows(
        self, entry: Entry, described: Mapping[str, Any]
    ) -> tuple[list[tuple[str, str, DType, list[int]]], list[tuple[str, str, DType, list[int]]]]:
        """The inputs and the outputs: name, text of the type, element type and shape."""
        over = {k for k, _ in entry.donated}
        inputs = [(n, row(dtypes.by_name(t), entry.sizes.shown(i, shape)), dtypes.by_name(t), shape)
                  for i, (n, t, shape) in enumerate(described["inputs"])]
        outputs = [(n, row(dtypes.by_name(t), shown), dtypes.by_name(t), shape)
                   for k, ((n, t, shape), shown) in enumerate(
                       zip(described["outputs"], described["shown"], strict=True))
                   if k not in over]
        for n, text, _, shape in (*inputs, *outputs):
            if len(shape) > MAX_NDIM:
                raise NotInC(f"{n!r}, {text}, has more than {MAX_NDIM} axes")
        return inputs, outputs

    def _entry(self, name: str, entry: Entry, described: Mapping[str, Any]) -> str:
        c, sizes = self._c, entry.sizes
        inputs, outputs = self._rows(entry, described)
        symbol = {(i, axis): s for i, axis, s in sizes.axes}
        written = {i for _, i in entry.donated}
        rows = [[struct(
            "argument", name=c.text(n), type=c.text(text), shape=c.array("i64", shape),
            sizes=c.array("i32", [symbol.get((i, axis), -1) if kind == 0 else -1
                                  for axis in range(len(shape))]),
            dtype=code_of(dtype), ndim=len(shape), written=int(kind == 0 and i in written))
            for i, (n, text, dtype, shape) in enumerate(of)]
            for kind, of in enumerate((inputs, outputs))]
        bounds = [struct("size", name=c.text(n), least=a, most=z)
                  for n, (a, z) in zip(sizes.symbols, self._bounds(entry), strict=True)]
        return struct(
            "entry", name=c.text(name), served=c.text(_served(entry)),
            inputs=c.array("argument", rows[0]), outputs=c.array("argument", rows[1]),
            sizes=c.array("size", bounds), ninputs=len(inputs), noutputs=len(outputs),
            nsizes=len(bounds), updates=int(bool(described["updates"])))

    def _bounds(self, entry: Entry) -> list[tuple[int, int]]:
        """The least and the greatest value of each size (`ANY`: there is none)."""
        found = []
        for i, name in enumerate(entry.sizes.symbols):
            ends: list[tuple[int, int]] = []
            for variant, made in zip(entry.sizes.variants, entry.by_size, strict=True):
                program = next(iter(made.values()))[0]
                if variant.at[i] != ANY:
                    ends.append((variant.at[i], variant.at[i]))
                elif variant.opened and program.open is not None:
                    ends.append(program.open.symbols[name])
                else:
                    ends += variant.ranges
            high = ANY if any(z == ANY for _, z in ends) else max(z for _, z in ends)
            found.append((min(a for a, _ in ends), high))
        return found

    # --- weights ----------------------------------------------------------------------------

    def _held(self) -> list[str]:
        """Where each weight is in the file, and in a session."""
        offset, rows = 0, []
        for name, array in self.network.weights.items():
            own = self._session.take(array.nbytes, 64) if name in self._updated else -1
            rows.append(struct("held", offset=offset, own_at=own))
            offset += array.nbytes
        return rows

    def _weights(self) -> list[str]:
        c = self._c
        return [struct("weight", name=c.text(name), shape=c.array("i64", a.shape),
                       nbytes=a.nbytes, dtype=code_of(dtypes.from_numpy(a.dtype)), ndim=a.ndim,
                       updated=int(name in self._updated))
                for name, a in self.network.weights.items()]


def module_text(tables: Sequence[Tables], constants: Constants) -> str:
    """The module of a library's constants: those for the first target are in use until the
    processor is known."""
    c, known = constants, [t for t in DTYPES if t is not None]
    c.array("ptr", [c.text("no type"), *(c.text(t.name) for t in known)], "cellc_dtype_names")
    c.array("i64", [1, *(t.itemsize for t in known)], "cellc_itemsizes")
    c.array("i64", [1, *(t.itemsize // (2 if t.is_complex else 1) for t in known)],
            "cellc_alignments")
    c.array("i32", [-1, *(dlpack(t) for t in known)], "cellc_dlpack")
    c.array("net", [t.net for t in tables], "cellc_nets")
    functions = [f"declare hidden void @cellc_{f}()" for f in FUNCTIONS]
    blobs = dict.fromkeys(name for t in tables for name in t.blobs)
    outside = [f"@{name} = external hidden constant i8" for name in blobs]
    own = (f"@cellc_net = hidden global %net {tables[0].net}\n"
           f"define ptr @{tables[0].network.name}_library(i32 %abi, ptr %error) {{\n"
           "  %library = call ptr @cellc_get_library(i32 %abi, ptr %error)\n"
           "  ret ptr %library\n}\ndeclare hidden ptr @cellc_get_library(i32, ptr)\n")
    code = [line for t in tables for line in t.declared()]
    return "\n".join([declarations(STRUCTURES), *functions, *code, *outside, *c.lines, own])


def _processor(target: Target) -> dict[str, int]:
    """The bits that CPUID has for what a target needs, in leaves 1 and 7, and of XCR0."""
    ecx, ebx, states = 1 << 27, 0, 0
    for feature in target.requires & FEATURES.keys():
        leaf, _, bit, state = FEATURES[feature]
        states |= state
        ecx |= (1 << bit) * (leaf == 1)
        ebx |= (1 << bit) * (leaf == 7)
    return {"leaf1": ecx, "leaf7": ebx, "states": states}


def dlpack(dtype: DType) -> int:
    """DLPack's code and bits of an element type."""
    kinds = {"bool": 6, "int": 0, "uint": 1, "float": 2, "complex": 5}
    code = 4 if dtype is dtypes.bfloat16 else kinds[dtype.kind]
    return code << 8 | 8 * dtype.itemsize


def _padded(shape: Sequence[Any]) -> list[Any]:
    return [*shape, *[0] * (MAX_NDIM - len(shape))]


def _scalar_kind(dtype: DType) -> int:
    """How a number that follows from sizes is stored; see `scalars` in the glue."""
    if dtype is dtypes.bool_:
        return 20
    if dtype.is_integer:
        return dtype.itemsize
    if dtype in (dtypes.float32, dtypes.float64):
        return 10 + dtype.itemsize
    raise NotInC(f"a size is used as a {dtype.name}, which a C library does not compute: convert "
                 "it from float32")


def _served(entry: Entry) -> str:
    """The sizes that are served, for people."""
    if not entry.sizes.symbols:
        return ""
    opened = [p.open for made in entry.by_size for of in made.values() for p in of
              if p.open is not None]
    found = [[condition(relation, x) for relation, x in o.guards]
             + [f"{name} <= {most}" for name, (_, most) in o.symbols.items() if most != ANY]
             for o in opened]
    more = ", or ".join(dict.fromkeys(", ".join(c) for c in found if c))
    return f"{entry.sizes} where {more}" if more else str(entry.sizes)
