"""Linked objects as files: a relocatable object, an archive of one, a shared library.

Formats: the System V ABI (ELF-64 and its dynamic linking), its x86-64 supplement, "ELF for the Arm
64-bit Architecture", and the archive format of System V with its symbol index.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from cellc_runtime.image import PAGE

from ..build.library import ABSOLUTE, Library, link_library
from ..build.link import LinkInput
from .abi import POW

_MACHINE = {"x86_64": 62, "aarch64": 183}
_RELATIVE = {"x86_64": 8, "aarch64": 1027}
_PROGBITS, _SYMTAB, _STRTAB, _RELA, _HASH, _DYNAMIC, _DYNSYM = 1, 2, 3, 4, 5, 6, 11
_FLAGS = {"text": 2 | 4, "rodata": 2, "data": 2 | 1}
"""Of sections: allocated, and executable or writeable."""
_PERMISSIONS = {"text": 4 | 1, "rodata": 4, "data": 4 | 2}
_HEAD = 64 + 56 * 6  # Bytes of the header and of all program headers
WEAK = frozenset(("pthread_create",))
"""Functions that an old C library has elsewhere: without threads all runs on the caller's."""


class _Strings:
    """A string table."""

    def __init__(self) -> None:
        self.data = bytearray(b"\0")

    def add(self, text: str) -> int:
        """The place of a text."""
        at = len(self.data)
        self.data += text.encode() + b"\0"
        return at


def _symbol(name: int, info: int, section: int, value: int = 0) -> bytes:
    return struct.pack("<IBBHQQ", name, info, 0, section, value, 0)


_GLOBAL, _WEAK, _FUNCTION, _SECTION = 1 << 4, 2 << 4, 2, 3


def _imported(names: Iterable[str], strings: _Strings) -> tuple[dict[str, int], bytes]:
    """The number of each imported name, from 0, and their symbols."""
    number = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return number, b"".join(_symbol(strings.add(n), _WEAK if n in WEAK else _GLOBAL, 0)
                            for n in number)


class _Sections:
    """The section headers of a file, and their names."""

    def __init__(self) -> None:
        self.names = _Strings()
        self.rows = [bytes(64)]

    def add(
        self, name: str, kind: int, flags: int, address: int, offset: int, size: int,
        linked: int = 0, info: int = 0, align: int = 8, entry: int = 0,
    ) -> None:
        """A section."""
        self.rows.append(struct.pack("<IIQQQQIIQQ", self.names.add(name), kind, flags, address,
                                     offset, size, linked, info, align, entry))

    def finish(self, out: bytearray) -> int:
        """Write the names and the table to the end of the file; where the table is."""
        at = len(out)
        self.add(".shstrtab", _STRTAB, 0, 0, at, 0, align=1)
        names = bytes(self.names.data)
        self.rows[-1] = self.rows[-1][:32] + struct.pack("<Q", len(names)) + self.rows[-1][40:]
        out += names
        _pad(out, 8)
        where = len(out)
        out += b"".join(self.rows)
        return where


def _pad(out: bytearray, align: int) -> None:
    out += bytes(-len(out) % align)


def _header(kind: int, machine: str, programs: int, table: int, sections: int) -> bytes:
    return b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack(
        "<HHIQQQIHHHHHH", kind, _MACHINE[machine], 1, 0, 64 if programs else 0, table, 0, 64,
        56 if programs else 0, programs, 64, sections, sections - 1)


# --- relocatable -----------------------------------------------------------------------------


def relocatable(
    inputs: Sequence[LinkInput], blobs: Mapping[str, bytes], exports: Sequence[str]
) -> bytes:
    """One object whose visible names are `exports`; it needs the C library alone."""
    made = link_library(inputs, blobs, page=4096)
    strings, out, sections = _Strings(), bytearray(64), _Sections()
    for part in made.parts:
        _pad(out, 4096)
        sections.add(f".{part.kind}", _PROGBITS, _FLAGS[part.kind], 0, len(out), len(part.data),
                     align=4096)
        out += part.data
    local = 1 + len(made.parts)
    numbers, undefined = _imported((name for _, name in made.imports), strings)
    symbols = bytes(24) + b"".join(_symbol(0, _SECTION, i + 1) for i in range(len(made.parts)))
    symbols += undefined
    for name in exports:
        place = made.symbols[name]
        number = made.part(place)
        symbols += _symbol(strings.add(name), _GLOBAL | _FUNCTION, number + 1,
                           place - made.parts[number].start)
    relocs: list[bytearray] = [bytearray() for _ in made.parts]

    def relocate(place: int, kind: int, symbol: int, addend: int) -> None:
        number = made.part(place)
        relocs[number] += struct.pack("<QQq", place - made.parts[number].start,
                                      symbol << 32 | kind, addend)

    for place, kind, target, addend in made.across:
        number = made.part(target)
        relocate(place, kind, number + 1, target - made.parts[number].start + addend)
    for place, target in made.pointers:
        number = made.part(target)
        relocate(place, ABSOLUTE[made.machine], number + 1, target - made.parts[number].start)
    for place, name in made.imports:
        relocate(place, ABSOLUTE[made.machine], local + numbers[name], 0)
    table = 1 + len(made.parts) + sum(map(bool, relocs))
    for number, rows in enumerate(relocs):
        if rows:
            _pad(out, 8)
            sections.add(f".rela.{made.parts[number].kind}", _RELA, 0, 0, len(out), len(rows),
                         table, number + 1, 8, 24)
            out += rows
    _pad(out, 8)
    sections.add(".symtab", _SYMTAB, 0, 0, len(out), len(symbols), table + 1, local, 8, 24)
    out += symbols
    sections.add(".strtab", _STRTAB, 0, 0, len(out), len(strings.data), align=1)
    out += strings.data
    sections.add(".note.GNU-stack", _PROGBITS, 0, 0, len(out), 0, align=1)
    where = sections.finish(out)
    out[:64] = _header(1, made.machine, 0, where, len(sections.rows))
    return bytes(out)


def archive(member: str, data: bytes, exports: Sequence[str]) -> bytes:
    """An archive of one object."""
    names = b"".join(n.encode() + b"\0" for n in exports)
    names += bytes(len(names) % 2)
    longer = f"{member}.o/\n".encode()
    longer += b"\n" * (len(longer) % 2)
    at = 8 + 60 + 4 + 4 * len(exports) + len(names) + 60 + len(longer)
    index = struct.pack(f">{1 + len(exports)}I", len(exports), *[at] * len(exports)) + names

    def head(name: str, nbytes: int) -> bytes:
        row = f"{name:<16}{0:<12}{0:<6}{0:<6}{'644':<8}{nbytes:<10}`\n"
        return row.encode()

    return b"".join((b"!<arch>\n", head("/", len(index)), index, head("//", len(longer)), longer,
                     head("/0", len(data)), data, b"\n" * (len(data) % 2)))


# --- shared ----------------------------------------------------------------------------------


def _hash(name: str) -> int:
    """The hash of a name in a shared library's table."""
    h = 0
    for c in name.encode():
        h = (h << 4) + c
        h = (h ^ (h & 0xF0000000) >> 24) & 0x0FFFFFFF
    return h


def _hash_table(names: Sequence[str]) -> bytes:
    """The table of symbols, of which the first is none."""
    buckets = max(1, len(names) // 2)
    first, chain = [0] * buckets, [0] * (len(names) + 1)
    for number, name in enumerate(names, 1):
        bucket = _hash(name) % buckets
        chain[number], first[bucket] = first[bucket], number
    return struct.pack(f"<{2 + buckets + len(chain)}I", buckets, len(chain), *first, *chain)


def shared(
    inputs: Sequence[LinkInput], blobs: Mapping[str, bytes], exports: Sequence[str], name: str,
    machine: str,
) -> bytes:
    """A shared library; it needs the C library alone.

    Every segment begins `gap` bytes of addresses later than in the file, so that no page belongs to
    two of them and the file has no holes. The tables of the dynamic linker are at the end
    of the data.
    """
    gap = PAGE[machine]
    made = link_library(inputs, blobs, start=-(-_HEAD // 128) * 128, gap=gap)
    last = made.parts[-1]
    assert last.kind == "data"
    strings = _Strings()
    needed = ["libc.so.6", *(["libm.so.6"] if any(n == POW for _, n in made.imports) else [])]
    numbers, symbols = _imported((n for _, n in made.imports), strings)
    for export in exports:
        place = made.symbols[export]
        symbols += _symbol(strings.add(export), _GLOBAL | _FUNCTION, made.part(place) + 1, place)
    symbols = bytes(24) + symbols
    rows = [struct.pack("<QQq", place, _RELATIVE[machine], target)
            for place, target in made.pointers]
    rows += [struct.pack("<QQq", place, (1 + numbers[n]) << 32 | ABSOLUTE[machine], 0)
             for place, n in made.imports]
    libraries, soname = [strings.add(n) for n in needed], strings.add(name)
    pieces = {".dynsym": symbols, ".hash": _hash_table([*numbers, *exports]),
              ".rela.dyn": b"".join(rows), ".dynstr": bytes(strings.data)}
    body, places = last.data, {}
    for piece, data in pieces.items():
        _pad(body, 8)
        places[piece] = last.start + len(body)
        body += data
    _pad(body, 8)
    entries = [(1, at) for at in libraries]
    entries += [(14, soname), (4, places[".hash"]), (5, places[".dynstr"]),
                (6, places[".dynsym"]), (10, len(pieces[".dynstr"])), (11, 24),
                (7, places[".rela.dyn"]), (8, len(pieces[".rela.dyn"])), (9, 24),
                (0x6FFFFFF9, len(made.pointers)),
                (30, 8), (0x6FFFFFFB, 1 | 8),  # bound at once; never unloaded: threads sleep in it
                (0, 0)]
    dynamic = b"".join(struct.pack("<QQ", *e) for e in entries)
    at = last.start + len(body)
    body += dynamic
    return _shared_file(made, pieces, places, (at, len(dynamic)), gap)


def _shared_file(
    made: Library, pieces: Mapping[str, bytes], places: Mapping[str, int],
    dynamic: tuple[int, int], gap: int,
) -> bytes:
    """The file: headers, segments, and the table of sections for linkers and debuggers."""
    sections, out, programs = _Sections(), bytearray(made.parts[0].start), []
    for number, part in enumerate(made.parts):
        offset = part.start - number * gap
        out += bytes(offset - len(out)) + part.data
        sections.add(f".{part.kind}", _PROGBITS, _FLAGS[part.kind], part.start, offset,
                     len(part.data), align=128)
        first = 0 if number == 0 else part.start  # the headers lie before the code
        size = part.start + len(part.data) - first
        programs.append(struct.pack("<IIQQQQQQ", 1, _PERMISSIONS[part.kind], first - number * gap,
                                    first, first, size, size, gap))
    shift = (len(made.parts) - 1) * gap
    at, size = dynamic
    programs.append(struct.pack("<IIQQQQQQ", 2, 6, at - shift, at, at, size, size, 8))
    programs.append(struct.pack("<IIQQQQQQ", 0x6474E551, 6, 0, 0, 0, 0, 0, 16))  # the stack
    kinds = {".dynsym": (_DYNSYM, 1, 24), ".hash": (_HASH, 0, 4), ".rela.dyn": (_RELA, 0, 24),
             ".dynstr": (_STRTAB, 0, 0)}
    first = len(sections.rows)
    order = list(pieces)
    for name in order:
        kind, info, entry = kinds[name]
        linked = {".dynsym": ".dynstr", ".hash": ".dynsym", ".rela.dyn": ".dynsym"}.get(name)
        sections.add(name, kind, 2, places[name], places[name] - shift, len(pieces[name]),
                     first + order.index(linked) if linked else 0, info, 8, entry)
    sections.add(".dynamic", _DYNAMIC, 3, at, at - shift, size,
                 first + order.index(".dynstr"), 0, 8, 16)
    _pad(out, 8)
    where = sections.finish(out)
    head = _header(3, made.machine, len(programs), where, len(sections.rows)) + b"".join(programs)
    out[: len(head)] = head
    return bytes(out)
