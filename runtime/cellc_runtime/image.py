"""A linked, position-independent piece of native code: what the linker makes, the loader maps.

Nothing in an image depends on where it is mapped, so loading it is copying it: no relocation, no
symbol search. One table of pointers in its data holds the addresses of everything outside. The data
begin with the seal: a hash of the tables that the code was compiled for (see `Program.from_bytes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import ArtifactError
from .records import dataclass, field, replace

KINDS = ("text", "rodata", "data")
MAX_IMAGE = 1 << 31
MAX_SYMBOLS = 1 << 16
SEAL_BYTES = 32
PAGE = {"x86_64": 4096, "aarch64": 65536}
"""Segment alignment by machine: the largest page its systems use."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Pages of one permission.

    Attributes:
        kind: `"text"` (read, execute), `"rodata"` (read) or `"data"` (read, write).
        offset: bytes from the start of the image, page-aligned.
        size: bytes in memory; what lies beyond `data` is zero.
        data: bytes in the file.
    """

    kind: str
    offset: int
    size: int
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Image:
    """Linked code."""

    machine: str  # `"x86_64"` or `"aarch64"`
    segments: tuple[Segment, ...]  # in ascending order of offset
    symbols: Mapping[str, int]  # exported functions, by offset from the start of the image
    table_offset: int  # where the external table is
    table_entries: int  # pointers in it

    @property
    def size(self) -> int:
        """Bytes from the start to the end of the last segment."""
        return max((s.offset + s.size for s in self.segments), default=0)

    @property
    def seal(self) -> bytes:
        """The hash of the tables that the code was compiled for; zeros if it has none yet."""
        return next((s.data[:SEAL_BYTES] for s in self.segments if s.kind == "data"), b"")

    def sealed(self, seal: bytes) -> Image:
        """This image with a seal."""
        return replace(self, segments=tuple(
            replace(s, data=seal + s.data[SEAL_BYTES:]) if s.kind == "data" else s
            for s in self.segments))

    def check(self) -> None:
        """Verify that nothing lies outside of its place. Raises ArtifactError if a bound does not
        hold."""
        page = PAGE.get(self.machine)
        if page is None:
            raise ArtifactError(f"code for an unknown machine {self.machine!r}")
        end = 0
        for s in self.segments:
            if s.kind not in KINDS:
                raise ArtifactError(f"unknown segment kind {s.kind!r}")
            if s.offset % page or s.offset < end or len(s.data) > s.size:
                raise ArtifactError(f"the {s.kind} segment is misplaced")
            end = s.offset + s.size
            if end > MAX_IMAGE:
                raise ArtifactError("the code is larger than any real program's")
        if len(self.symbols) > MAX_SYMBOLS:
            raise ArtifactError("too many symbols")
        for name, offset in self.symbols.items():
            if not any(s.kind == "text" and _within(s, offset, 1) for s in self.segments):
                raise ArtifactError(f"function {name!r} lies outside of the code")
        nbytes = 8 * self.table_entries
        if self.table_offset % 8 or self.table_entries < 1 or not any(
            s.kind == "data" and _within(s, self.table_offset, nbytes) for s in self.segments
        ):
            raise ArtifactError("the external table lies outside of the data")

    def header(self) -> tuple[dict[str, Any], list[bytes]]:
        """A JSON-able description and the segments' bytes, in order."""
        described = {
            "machine": self.machine,
            "segments": [[s.kind, s.offset, s.size] for s in self.segments],
            "symbols": dict(self.symbols),
            "table": [self.table_offset, self.table_entries],
        }
        return described, [s.data for s in self.segments]


def _within(segment: Segment, offset: int, nbytes: int) -> bool:
    return segment.offset <= offset and offset + nbytes <= segment.offset + segment.size
