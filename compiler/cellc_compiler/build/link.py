"""A small static linker: ELF64 relocatable objects in, one position-independent image out.

Sections are gathered by permission, symbols resolved between objects, and every relocation
must be relative to its own place, so that the image needs none when it is loaded. A reference
through a global offset table is relaxed into a direct one. Formats: the System V ABI (ELF-64),
its x86-64 supplement, and "ELF for the Arm 64-bit Architecture".

Only names that a `LinkInput` exports, and the definitions of an input that names no exports,
are visible to other objects: kernels may use equal names for their own tables.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from cellc_runtime.abi import FIRST_CALLBACK, TABLE
from cellc_runtime.image import PAGE, SEAL_BYTES, Image, Segment
from cellc_runtime.records import dataclass, field

from .relocate import RelocationError, apply

_MACHINES = {62: "x86_64", 183: "aarch64"}
_PROGBITS, _SYMTAB, _RELA, _NOBITS = 1, 2, 4, 8
_INIT_ARRAY, _FINI_ARRAY, _PREINIT_ARRAY = 14, 15, 16
_WRITE, _ALLOC, _EXEC = 1, 2, 4
_UNDEFINED, _ABSOLUTE, _COMMON = 0, 0xFFF1, 0xFFF2
_DROPPED = (".eh_frame", ".note", ".comment")


class LinkError(RuntimeError):
    """Objects do not fit together."""


@dataclass(frozen=True, slots=True)
class LinkInput:
    """One object and what it gives to the others."""

    object: bytes = field(repr=False)  # an ELF relocatable file
    # visible name -> the name in the object; every global definition under its own name when None
    exports: Mapping[str, str] | None = None
    # of what it reads of others: the name in the object -> visible name, where they differ
    imports: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Section:
    index: int
    name: str
    kind: str
    size: int
    align: int
    data: bytes
    place: int = -1


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    binding: int
    section: int
    value: int


@dataclass(frozen=True, slots=True)
class _Reloc:
    section: int
    offset: int
    type: int
    symbol: int
    addend: int


@dataclass(slots=True)
class _Object:
    machine: str
    sections: dict[int, _Section]
    symbols: list[_Symbol]
    relocs: list[_Reloc]


def link(inputs: Sequence[LinkInput], *, table_entries: int = FIRST_CALLBACK) -> Image:
    """Link objects into an image with an external table of `table_entries` pointers. Raises
    LinkError if a symbol is missing (all missing ones are named) or defined twice, machines differ,
    or a relocation depends on the load address."""
    objects = [_parse(item.object) for item in inputs]
    machines = {o.machine for o in objects}
    if len(machines) != 1:
        raise LinkError(f"objects for one machine are wanted, got {sorted(machines) or 'none'}")
    machine = machines.pop()
    buffers, segments, table = _lay_out(objects, PAGE[machine], 8 * table_entries)
    exports = _exports(inputs, objects)
    exports[TABLE] = table
    _relocate(objects, exports, machine, buffers)
    text = next(s for s in segments if s[0] == "text")
    image = Image(
        machine=machine,
        segments=tuple(Segment(k, off, size, bytes(buffers[k][1])) for k, off, size in segments),
        symbols={n: p for n, p in exports.items() if text[1] <= p < text[1] + text[2]},
        table_offset=table,
        table_entries=table_entries,
    )
    image.check()
    return image


# --- reading ---------------------------------------------------------------------------------


def _parse(data: bytes) -> _Object:
    if data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", data, 16)[0] != 1:
        raise LinkError("not a little-endian ELF64 relocatable object")
    machine = _MACHINES.get(struct.unpack_from("<H", data, 18)[0])
    if machine is None:
        raise LinkError(f"unknown ELF machine {struct.unpack_from('<H', data, 18)[0]}")
    table, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    heads = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    if count == 0:
        raise LinkError("an object without sections")
    sections: dict[int, _Section] = {}
    symbols: list[_Symbol] = []
    relocs: list[_Reloc] = []
    for i, (name, kind, flags, _, offset, length, linked, info, align, _) in enumerate(heads):
        if kind == _SYMTAB:
            symbols = _symbols(data, offset, length, heads[linked][4])
        elif kind == _RELA:
            relocs += _relocs(data, offset, length, info)
        elif flags & _ALLOC:
            text = _string(data, heads[names][4] + name)
            if kind in (_INIT_ARRAY, _FINI_ARRAY, _PREINIT_ARRAY):
                raise LinkError(f"section {text} runs code at load time")
            if not text.startswith(_DROPPED):
                body = b"" if kind == _NOBITS else data[offset : offset + length]
                sections[i] = _Section(i, text, _kind(flags, kind), length, max(align, 1), body)
    return _Object(machine, sections, symbols, [r for r in relocs if r.section in sections])


def _kind(flags: int, kind: int) -> str:
    if flags & _EXEC:
        return "text"
    if kind == _NOBITS:
        return "bss"
    return "data" if flags & _WRITE else "rodata"


def _symbols(data: bytes, offset: int, length: int, strings: int) -> list[_Symbol]:
    found = []
    for at in range(offset, offset + length, 24):
        name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", data, at)
        found.append(_Symbol(_string(data, strings + name), info >> 4, section, value))
    return found


def _relocs(data: bytes, offset: int, length: int, section: int) -> list[_Reloc]:
    found = []
    for at in range(offset, offset + length, 24):
        place, info, addend = struct.unpack_from("<QQq", data, at)
        found.append(_Reloc(section, place, info & 0xFFFFFFFF, info >> 32, addend))
    return found


def _string(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


# --- layout ----------------------------------------------------------------------------------

_Buffers = dict[str, tuple[int, bytearray]]


def _lay_out(
    objects: Sequence[_Object], page: int, table_bytes: int, start: int = 0, gap: int = 0
) -> tuple[_Buffers, list[tuple[str, int, int]], int]:
    """Give each section its place: buffers by segment, `(kind, offset, size)`s, the table.

    Args:
        page: segments begin at multiples of it.
        table_bytes: 0: neither a table nor a seal.
        start: of the first segment.
        gap: bytes between segments.
    """
    buffers: _Buffers = {}
    segments: list[tuple[str, int, int]] = []
    for kind in ("text", "rodata", "data"):
        body = bytearray(SEAL_BYTES if kind == "data" and table_bytes else 0)
        same: dict[tuple[bytes, int], int] = {}
        for obj in objects:
            _gather(obj, kind, start, body, same)
        size = len(body)
        if kind == "data":
            # Zero pages at the end: memory, but no bytes in the file.
            table = start + _aligned(size, 64)
            size = table - start + table_bytes
            size = _place_bss(objects, start, size)
        if size:
            buffers[kind] = (start, body)
            segments.append((kind, start, size))
            start = _aligned(start + size, page) + gap
    if not any(kind == "text" for kind, _, _ in segments):
        raise LinkError("the objects hold no code")
    return buffers, segments, table


def _gather(
    obj: _Object, kind: str, start: int, body: bytearray, same: dict[tuple[bytes, int], int]
) -> None:
    moved = {r.section for r in obj.relocs}
    for section in obj.sections.values():
        if section.kind != kind:
            continue
        key = (section.data, section.align)
        mergeable = kind == "rodata" and section.index not in moved
        if mergeable and key in same:
            section.place = same[key]
            continue
        # Code is padded with zeros too: nothing jumps into the gaps between functions.
        body.extend(bytes(_aligned(len(body), section.align) - len(body)))
        section.place = start + len(body)
        body.extend(section.data)
        if mergeable:
            same[key] = section.place


def _place_bss(objects: Sequence[_Object], start: int, size: int) -> int:
    for obj in objects:
        for section in obj.sections.values():
            if section.kind == "bss":
                size = _aligned(size, section.align)
                section.place = start + size
                size += section.size
    return size


def _aligned(value: int, align: int) -> int:
    return -(-value // align) * align


# --- symbols ---------------------------------------------------------------------------------


def _exports(inputs: Sequence[LinkInput], objects: Sequence[_Object]) -> dict[str, int]:
    found: dict[str, int] = {}
    for item, obj in zip(inputs, objects, strict=True):
        own = {s.name: i for i, s in enumerate(obj.symbols) if s.binding and s.section}
        wanted = item.exports if item.exports is not None else {n: n for n in own}
        for visible, inner in wanted.items():
            if inner not in own:
                raise LinkError(f"an object should define {inner!r} (as {visible!r}), but does not")
            if visible in found:
                raise LinkError(f"{visible!r} is defined twice")
            found[visible] = _address(obj, obj.symbols[own[inner]])
    return found


def _address(obj: _Object, symbol: _Symbol) -> int:
    if symbol.section in (_ABSOLUTE, _COMMON):
        raise LinkError(f"symbol {symbol.name!r} has no place in a section")
    section = obj.sections.get(symbol.section)
    if section is None:
        raise LinkError(f"symbol {symbol.name!r} is in a section that is not kept")
    return section.place + symbol.value


def _relocate(
    objects: Sequence[_Object], exports: Mapping[str, int], machine: str, buffers: _Buffers
) -> None:
    missing: set[str] = set()
    for obj in objects:
        for reloc in obj.relocs:
            symbol = obj.symbols[reloc.symbol]
            if symbol.section != _UNDEFINED:
                target = _address(obj, symbol)
            elif symbol.name in exports:
                target = exports[symbol.name]
            else:
                missing.add(symbol.name)
                continue
            section = obj.sections[reloc.section]
            base, body = buffers[section.kind]
            place = section.place + reloc.offset
            try:
                apply(machine, body, place - base, reloc.type, target, reloc.addend, place)
            except RelocationError as error:
                raise LinkError(f"{error} (in {section.name}, against {symbol.name!r})") from None
    if missing:
        raise LinkError(
            "generated code refers to functions that nothing defines: "
            + ", ".join(sorted(missing))
        )
