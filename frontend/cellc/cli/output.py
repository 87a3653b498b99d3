"""Standard output and error of the command line."""

from __future__ import annotations

import codecs
import sys


def prepare_output() -> None:
    """Let the streams write every text.

    A character that the encoding lacks becomes "?"; a file name that is not UTF-8 keeps its bytes.
    """
    codecs.register_error("cellc", _encoded)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure") and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="cellc")


def _encoded(error: UnicodeError) -> tuple[bytes, int]:
    """The bytes of characters that cannot be encoded, and where encoding goes on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    codes = map(ord, error.object[error.start:error.end])
    return bytes(c - 0xDC00 if 0xDC80 <= c <= 0xDCFF else ord("?") for c in codes), error.end
