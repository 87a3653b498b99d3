"""Decompression with a bound: a file of a megabyte may not become gigabytes."""

from __future__ import annotations

from .errors import ArtifactError
from .lazy import zlib

MOST_TIMES, BASE = 64, 1 << 26
"""Unpacked data may have `BASE` bytes, or `MOST_TIMES` the packed bytes if that is more."""
ZLIB, GZIP = 15, 31  # The formats, as zlib's window sizes name them


def packed(data: bytes) -> bytes:
    """A zlib stream that `unpacked` accepts: stored uncompressed where it would shrink too much."""
    stream = zlib.compress(data)
    return stream if len(data) <= most_unpacked(len(stream)) else zlib.compress(data, 0)


def most_unpacked(nbytes: int) -> int:
    """How large data may be that is packed into this many bytes."""
    return MOST_TIMES * nbytes + BASE


def unpacked(data: bytes, form: int = ZLIB) -> bytes:
    """The contents of a zlib stream or of the members of a gzip file. Raises ValueError if the data
    is damaged, cut short, or unpacks to more than the bound."""
    if form == ZLIB and not data:
        raise ValueError("it is cut short")
    parts, left = [], most_unpacked(len(data))
    while data:
        stream = zlib.decompressobj(form)
        try:
            part = stream.decompress(data, left + 1)
        except zlib.error as error:
            raise ValueError(str(error)) from error
        left -= len(part)
        if left < 0:
            raise ValueError(f"it unpacks to more than {BASE} bytes and {MOST_TIMES} times its "
                             "size")
        if not stream.eof:
            raise ValueError("it is cut short")
        parts.append(part)
        data = stream.unused_data.lstrip(b"\0")
        if data and form == ZLIB:
            raise ValueError("there is data after its end")
    return b"".join(parts)


def packed_text(text: str) -> bytes:
    """A text for a section of a file: its length, then a zlib stream."""
    data = text.encode()
    return len(data).to_bytes(8, "little") + packed(data)


def unpacked_text(section: memoryview, what: str) -> str:
    """The text of such a section.

    Raises:
        ArtifactError: damaged, or larger than it can be.
    """
    try:
        text = unpacked(bytes(section[8:]))
        if len(text) == int.from_bytes(section[:8], "little"):
            return text.decode()
    except ValueError as e:
        raise ArtifactError(f"{what} is not text: {e}") from None
    raise ArtifactError(f"{what} is not as long as it says")
