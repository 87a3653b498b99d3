"""Writing a file so that a reader sees all of it or what was there before; reading one so that
nothing that happens to it later is seen."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np

from .errors import CutOff
from .platform import sync_directory

_NEW = ".cellc-new"
"""How files end that are being written."""
LEFT_SECONDS = 3600.0
"""How long nobody has written to a file that its writer left behind, killed."""


def read_file(path: str | os.PathLike[str]) -> memoryview:
    """The bytes of a file, copied to memory that begins at a multiple of 64 bytes.

    They are not mapped: a mapped file that somebody cuts off ends the process (SIGBUS), and one
    that somebody writes to is another than the one that was checked.

    Raises:
        CutOff: it was cut off while it was read.
        OSError: it cannot be read.
    """
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        memory = np.empty(size + 64, np.uint8)
        start = -memory.ctypes.data % 64
        view = memory[start : start + size].data
        at = 0
        while at < size:
            count = file.readinto(view[at:])  # 2 GiB at most
            if not count:
                raise CutOff(f"{Path(path).name} was cut off while it was read: {at} of {size} "
                             "bytes were there")
            at += count
    return view.toreadonly()


def write_atomically(path: str | os.PathLike[str], pieces: Iterable[bytes | memoryview]) -> None:
    """Write the pieces to a temporary file beside `path`, flush it, and rename it into place.

    A new file is readable as the process's umask says, an older one keeps its mode. What killed
    writers left in the folder is removed.

    Raises:
        OSError: the disk is full or the folder cannot be written; `path` is as it was.
    """
    target = Path(path)
    _remove_left_behind(target.parent)
    name = target.with_name(f".{target.name[:40]}.{os.urandom(6).hex()}{_NEW}")
    try:
        with open(name, "xb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        with suppress(OSError):
            os.chmod(name, target.stat().st_mode & 0o777)
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    sync_directory(target.parent)


def _remove_left_behind(folder: Path) -> None:
    """Remove what writers have left that were killed before their rename."""
    with suppress(OSError):
        for file in os.scandir(folder):
            if file.name.startswith(".") and file.name.endswith(_NEW):
                with suppress(OSError):
                    if time.time() - file.stat().st_mtime > LEFT_SECONDS:
                        os.unlink(file.path)
