"""Objects linked for a file that others load or link: as `link`, but pointers and functions of the
system stay open.

A pointer in the data depends on where the file is loaded, and a function of the C library is found
by its name. Both stand in data alone, as 64-bit addresses; code reaches functions of the system
through such a table. References between segments are kept, too: the linker of a program may place
segments elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cellc_runtime.records import dataclass, field

from .link import (
    _UNDEFINED,
    LinkError,
    LinkInput,
    _address,
    _exports,
    _lay_out,
    _Object,
    _parse,
    _Section,
    _Symbol,
)
from .relocate import RelocationError, apply

ABSOLUTE = {"x86_64": 1, "aarch64": 257}  # The relocation of a 64-bit address
SYSTEM = "libc."
"""The beginning of names of the C library's functions: objects define some under their own."""
_DIRECT = {"x86_64": {9: 2, 41: 2, 42: 2}, "aarch64": {311: 275, 312: 277}}
"""The types of references through a global offset table, after they were relaxed."""
_ALIGN = 128


@dataclass(frozen=True, slots=True)
class Part:
    """A segment."""

    kind: str  # `"text"`, `"rodata"` or `"data"`
    start: int  # its place
    data: bytearray = field(repr=False)  # its bytes


@dataclass(frozen=True, slots=True)
class Library:
    """Linked objects."""

    machine: str  # `"x86_64"` or `"aarch64"`
    parts: tuple[Part, ...]  # the segments, in order
    symbols: Mapping[str, int]  # the places of all names that an object gives to others
    pointers: Sequence[tuple[int, int]]  # places of addresses, and what they point to
    # places of addresses of functions of the system, and their names
    imports: Sequence[tuple[int, str]]
    # relocations between segments: place, type, and the symbol's place with the addend, which are
    # applied for these places
    across: Sequence[tuple[int, int, int, int]]

    def part(self, place: int) -> int:
        """The number of the segment that holds a place."""
        return max(i for i, p in enumerate(self.parts) if p.start <= place)


def link_library(
    inputs: Sequence[LinkInput], blobs: Mapping[str, bytes], *, page: int = _ALIGN, start: int = 0,
    gap: int = 0,
) -> Library:
    """Link objects and read-only data.

    Args:
        inputs: objects; two may define one name if they are equal.
        blobs: data by the names by which the objects know it.
        page, start, gap: where segments begin: see `link`.

    Raises:
        LinkError: they do not fit together, or a reference is neither a pointer nor a distance.
    """
    objects = [_parse(item.object) for item in inputs]
    machines = {o.machine for o in objects}
    if len(machines) != 1:
        raise LinkError(f"objects for one machine are wanted, got {sorted(machines)}")
    machine = machines.pop()
    for name, data in blobs.items():
        objects.append(_Object(machine, {1: _Section(1, name, "rodata", len(data), 64, data)},
                               [_Symbol(name, 1, 1, 0)], []))
    everything = [*inputs, *(LinkInput(b"") for _ in blobs)]
    buffers, segments, _ = _lay_out(objects, page, 0, start, gap)
    parts = []
    for kind, at, size in segments:
        body = buffers[kind][1]
        body.extend(bytes(size - len(body)))
        parts.append(Part(kind, at, body))
    made = Library(machine, tuple(parts), _exports(everything, objects), [], [], [])
    for item, obj in zip(everything, objects, strict=True):
        _resolve(obj, item.imports, made, buffers)
    return made


def _resolve(
    obj: _Object, names: Mapping[str, str], made: Library,
    buffers: Mapping[str, tuple[int, bytearray]],
) -> None:
    """Apply the relocations of an object, or keep them; `names` as `LinkInput.imports`."""
    assert isinstance(made.pointers, list) and isinstance(made.imports, list)
    assert isinstance(made.across, list)
    for reloc in obj.relocs:
        symbol, section = obj.symbols[reloc.symbol], obj.sections[reloc.section]
        place = section.place + reloc.offset
        known = symbol.section != _UNDEFINED
        target = _address(obj, symbol) if known else made.symbols.get(
            names.get(symbol.name, symbol.name))
        if reloc.type == ABSOLUTE[made.machine] and symbol.name.startswith(SYSTEM):
            made.imports.append((place, symbol.name.removeprefix(SYSTEM)))
            continue
        if target is None:
            raise LinkError(f"{symbol.name!r} is called, but nothing defines it")
        if reloc.type == ABSOLUTE[made.machine]:
            made.pointers.append((place, target + reloc.addend))
            continue
        base, body = buffers[section.kind if section.kind != "bss" else "data"]
        try:
            apply(made.machine, body, place - base, reloc.type, target, reloc.addend, place)
        except RelocationError as error:
            raise LinkError(f"{error} (in {section.name}, against {symbol.name!r})") from None
        if made.part(target) != made.part(place):
            kind = _DIRECT[made.machine].get(reloc.type, reloc.type)
            made.across.append((place, kind, target, reloc.addend))
