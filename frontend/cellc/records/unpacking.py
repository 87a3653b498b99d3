"""Decompression with a bound: a file of a megabyte may not become gigabytes."""

from __future__ import annotations

import zlib

MOST_TIMES, BASE = 64, 1 << 26
"""Unpacked data may have `BASE` bytes, or `MOST_TIMES` the packed bytes if that is more."""
ZLIB, GZIP = 15, 31
"""The formats, as zlib's window sizes name them."""


def unpacked(data: bytes, form: int) -> bytes:
    """The contents of a zlib stream or of the members of a gzip file.

    Raises:
        ValueError: the data is damaged, cut short, or unpacks to more than the bound.
    """
    parts, left = [], MOST_TIMES * len(data) + BASE
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
        data = stream.unused_data.lstrip(b"\0") if form == GZIP else b""
    return b"".join(parts)
