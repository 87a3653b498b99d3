"""Writing a file so that a reader sees all of it or what was there before."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .lazy import lazy_module
from .platform import sync_directory

if TYPE_CHECKING:
    import tempfile
else:
    tempfile = lazy_module("tempfile")


def write_atomically(path: str | os.PathLike[str], pieces: Iterable[bytes | memoryview]) -> None:
    """Write the pieces to a temporary file beside `path`, flush it, and rename it into place.

    Raises:
        OSError: the disk is full or the folder cannot be written; `path` is as it was.
    """
    target = Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        _usual_mode(name, target)
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    sync_directory(target.parent)


def _usual_mode(name: str, target: Path) -> None:
    # mkstemp's 0600 is for secrets: keep the old file's mode, or readable by all as `open` does.
    with suppress(OSError):
        os.chmod(name, target.stat().st_mode & 0o777 if target.exists() else 0o644)
