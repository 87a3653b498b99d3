"""A file of named byte sections that follow one bounded JSON header.

    0   magic (8)            what kind of file
    8   version (u32)        of that kind
    12  header length (u32)
    16  total length (u64)
    24  SHA-256 of the header (32), then 8 zero bytes
    64  header: {"meta": {...}, "sections": [[name, offset, size, sha256], ...]}

Sections follow in order at multiples of 64, with zeros between; nothing overlaps, nothing is
left over. Everything is verified before anything is used: every byte of a file is covered by a
hash or must be zero.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import ArtifactError
from .lazy import hashlib, json
from .records import dataclass

ALIGN = 64
MAX_HEADER = 64 << 20
MAX_SECTIONS = 1 << 16
_PREFIX = struct.Struct("<8sIIQ32s8s")


@dataclass(frozen=True, slots=True)
class Container:
    """A verified file: its header's `meta`, views of its sections, and the hash of its header, in
    which the hashes of all sections are."""

    meta: dict[str, Any]
    sections: dict[str, memoryview]
    digest: bytes

    def section(self, name: str) -> memoryview:
        """A section's bytes. Raises ArtifactError if there is none of this name."""
        if name not in self.sections:
            raise ArtifactError(f"the file has no section {name!r}")
        return self.sections[name]


def pack(
    magic: bytes, version: int, meta: Mapping[str, Any],
    sections: Sequence[tuple[str, bytes | memoryview]],
) -> list[bytes | memoryview]:
    """The file's pieces, in order (their concatenation is the file)."""
    digests = [hashlib.sha256(data).hexdigest() for _, data in sections]
    # Offsets are written at a fixed width's upper bound first: they depend on the header's size.
    start, header = 0, b""
    while True:
        table, end = _table(sections, digests, start)
        header = json.dumps({"meta": meta, "sections": table}, allow_nan=False).encode()
        needed = _aligned(_PREFIX.size + len(header))
        if needed <= start:
            break
        start = needed + ALIGN
    header += b" " * (start - _PREFIX.size - len(header))
    if len(header) > MAX_HEADER or len(sections) > MAX_SECTIONS:
        raise ValueError("too much to describe in one file")
    digest = hashlib.sha256(header).digest()
    prefix = _PREFIX.pack(magic, version, len(header), end, digest, bytes(8))
    pieces: list[bytes | memoryview] = [prefix, header]
    for _, data in sections:
        pieces += [data, bytes(_aligned(len(data)) - len(data))]
    return pieces


def _table(
    sections: Sequence[tuple[str, bytes | memoryview]], digests: Sequence[str], start: int
) -> tuple[list[list[Any]], int]:
    table: list[list[Any]] = []
    at = start
    for (name, data), digest in zip(sections, digests, strict=True):
        table.append([name, at, len(data), digest])
        at += _aligned(len(data))
    return table, at


def unpack(data: bytes | memoryview, magic: bytes, version: int, what: str) -> Container:
    """Verify a whole file and open it; sections are views of `data`.

    Args:
        magic: what it must start with.
        version: the one version understood.
        what: how errors call it ("program").

    Raises:
        ArtifactError: what does not hold.
    """
    view = memoryview(data).cast("B")
    header, end = _header(view, magic, version, what)
    table = header["sections"]
    if not isinstance(header["meta"], dict) or not isinstance(table, list):
        raise ArtifactError(f"the {what}'s header is malformed")
    if len(table) > MAX_SECTIONS:
        raise ArtifactError(f"the {what} claims {len(table)} sections")
    sections: dict[str, memoryview] = {}
    at = end
    for row in table:
        name, offset, size, digest = _row(row, what)
        if offset != at or size > len(view) - offset or name in sections:
            raise ArtifactError(f"section {name[:80]!r} of the {what} is misplaced")
        body = view[offset : offset + size]
        at = offset + _aligned(size)
        if at > len(view) or any(view[offset + size : at]):
            raise ArtifactError(f"section {name[:80]!r} of the {what} is cut off or badly padded")
        if hashlib.sha256(body).hexdigest() != digest:
            raise ArtifactError(f"section {name[:80]!r} of the {what} is corrupt")
        sections[name] = body
    if at != len(view):
        raise ArtifactError(f"the {what} has {len(view) - at} bytes that belong to nothing")
    return Container(header["meta"], sections, _PREFIX.unpack(view[: _PREFIX.size])[4])


def _header(view: memoryview, magic: bytes, version: int, what: str) -> tuple[dict[str, Any], int]:
    if len(view) < _PREFIX.size:
        raise ArtifactError(f"this is not a cellc {what}: only {len(view)} bytes")
    found, number, length, total, digest, zero = _PREFIX.unpack(view[: _PREFIX.size])
    if found != magic:
        raise ArtifactError(f"this is not a cellc {what}: it starts with {found!r}")
    if number != version:
        raise ArtifactError(f"the {what} has format {number}; this cellc reads format {version}")
    if total != len(view):
        raise ArtifactError(f"the {what} should have {total} bytes but has {len(view)}")
    end = _PREFIX.size + length
    if length > MAX_HEADER or end > len(view) or end % ALIGN or any(zero):
        raise ArtifactError(f"the {what}'s header is misplaced")
    text = bytes(view[_PREFIX.size : end])
    if hashlib.sha256(text).digest() != digest:
        raise ArtifactError(f"the {what}'s header is corrupt")
    header = parse_json(text, what)
    if not isinstance(header, dict) or header.keys() != {"meta", "sections"}:
        raise ArtifactError(f"the {what}'s header is malformed")
    return header, end


def parse_json(text: bytes, what: str) -> Any:
    """JSON from an untrusted file. Raises ArtifactError if it is not JSON, nested too deeply, or
    has a key twice in one object."""
    try:
        return json.loads(text.decode(), parse_constant=_no_constant, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"the {what}'s header is not valid: {str(error)[:200]}") from None


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        (twice, _), = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice[:80]!r} is there twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _row(row: Any, what: str) -> tuple[str, int, int, str]:
    if not (isinstance(row, list) and len(row) == 4):
        raise ArtifactError(f"the {what}'s list of sections is malformed")
    name, offset, size, digest = row
    good = isinstance(name, str) and isinstance(digest, str) and is_count(offset) and is_count(size)
    if not good:
        raise ArtifactError(f"the {what}'s list of sections is malformed")
    return name, offset, size, digest


def seal(meta: Mapping[str, Any], data: bytes) -> bytes:
    """A hash of tables, however their JSON is laid out, and of data that belongs to them."""
    text = json.dumps(meta, sort_keys=True).encode()
    return hashlib.sha256(hashlib.sha256(text).digest() + data).digest()


def is_count(value: object, limit: int = 1 << 62) -> bool:
    """Whether a JSON value is a whole number of `0..limit`."""
    return type(value) is int and 0 <= value <= limit


def _aligned(value: int) -> int:
    return -(-value // ALIGN) * ALIGN
