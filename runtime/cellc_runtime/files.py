"""Writing a file so that a reader sees all of it or what was there before; reading one so that
nothing that happens to it later is seen."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .errors import ArtifactError, CutOff
from .platform import sync_directory

_NEW = ".cellc-new"  # The suffix of files that are being written
_STREAMS = ("/dev/std", "/dev/fd/", "/proc/")
"""Where names of open files are: a rename would not reach who reads them."""
LEFT_SECONDS = 3600.0
"""A file that is being written counts as abandoned when nobody has written to it for so long."""


def read_file(path: str | os.PathLike[str]) -> memoryview:
    """The bytes of a file, copied to memory that begins at a multiple of 64 bytes.

    They are not mapped: a mapped file that somebody cuts off ends the process (SIGBUS), and one
    that somebody writes to is another than the one that was checked.

    Raises:
        CutOff: it was cut off while it was read.
        OSError: it cannot be read.
        ValueError: the path has a NUL character.
    """
    _check_characters(path)
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


def view_contents(function: str, given: Any) -> memoryview:
    """The bytes of a buffer, which nobody can change through it.

    Raises:
        TypeError: it is no buffer.
        ArtifactError: it is a text, as a path is.
    """
    try:
        view = memoryview(given).cast("B")
    except TypeError as error:
        why = "give its name, or what read() returns" if hasattr(given, "read") else error
        raise TypeError(f"For {function!r}, 'path' must be a path or the contents of a file, but "
                        f"got {type(given).__name__} ({why}).") from None
    text = str(view[:200], "utf-8", "replace")
    if 0 < len(view) < 4096 and text.isprintable() and "\ufffd" not in text:
        raise ArtifactError(f"For {function!r}, 'path' must be a path or the contents of a file, "
                            f"but got the bytes of {text!r}: give a path as a str.")
    return view if view.readonly else memoryview(view.tobytes())


def _check_characters(path: object) -> None:
    """Raise ValueError if no system takes this path: it has a NUL character."""
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else path
    if isinstance(text, str) and "\0" in text:
        raise ValueError(f"A path must have no NUL character, but got {text!r}.")


def write_atomically(
    path: str | os.PathLike[str], pieces: Iterable[bytes | memoryview],
    mode_of: str | os.PathLike[str] | None = None,
) -> None:
    """Write the pieces into a file, by `replacing` it."""
    with replacing(path, mode_of) as file:
        file.writelines(pieces)


@contextmanager
def replacing(
    path: str | os.PathLike[str], mode_of: str | os.PathLike[str] | None = None
) -> Iterator[BinaryIO]:
    """The block writes to a temporary file in the folder of `path`, which is flushed to the disk
    and renamed into place when the block ends.

    A symbolic link stays one. A device, a pipe or an open file (`/dev/stdout`) is written directly.
    Temporary files that killed writers left in the folder are removed.

    Args:
        mode_of: the file whose permissions the new one gets, from before its first byte is
            written; default: the older file at `path`. Without one the umask decides.

    Raises:
        OSError: the disk is full or the folder cannot be written; `path` is as it was.
        TypeError, ValueError: it is no path, or has a NUL character.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"A path must be a str or a pathlib.Path, but got {path!r}.")
    _check_characters(path)
    target = Path(os.path.realpath(path))
    direct = os.path.abspath(path).startswith(_STREAMS) or (
        target.exists() and not target.is_file())
    try:
        with open(path, "wb") if direct else _beside(
                target, target if mode_of is None else Path(mode_of)) as file:
            yield file
    except OSError as e:
        if e.errno is None:
            raise
        why = "its folder does not exist, create it first" if e.errno == errno.ENOENT and \
            not target.parent.is_dir() else e.strerror
        raise OSError(e.errno, why, os.fspath(path)) from None  # not under its temporary name


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """`write_atomically` of a text, in UTF-8. A file name in it that is not UTF-8 keeps its
    bytes."""
    write_atomically(path, [text.encode(errors="surrogateescape")])


def write_texts(folder: str | os.PathLike[str], texts: Mapping[str, str]) -> None:
    """Replace files of a folder. A full disk leaves all older ones: all texts are on the disk
    before the first rename."""
    with ExitStack() as stack:
        for name, text in texts.items():
            file = stack.enter_context(replacing(Path(folder) / name))
            file.write(text.encode(errors="surrogateescape"))
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def _beside(target: Path, mode_of: Path) -> Iterator[BinaryIO]:
    folder = target.parent
    _remove_abandoned(folder)
    name = temporary(target)
    mode = mode_to_keep(mode_of)
    try:
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0),
                         0o666 if mode is None else 0o600)
        with open(handle, "wb") as file:
            if mode is not None:
                os.chmod(name, mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    sync_directory(folder)


def temporary(target: Path) -> Path:
    """A new name in the folder of a file, under which it may be written."""
    return target.with_name(f".{target.name[:40]}.{os.urandom(6).hex()}{_NEW}")


def is_temporary(name: str) -> bool:
    """Whether a name has the form of those of `temporary`."""
    parts = name.removesuffix(_NEW).rsplit(".", 1)
    return name.startswith(".") and name.endswith(_NEW) and len(parts[-1]) == 12


def mode_to_keep(file: Path) -> int | None:
    """The permissions of a file; None: there is no such file."""
    try:
        return file.stat().st_mode & 0o777
    except OSError:
        return None


def _remove_abandoned(folder: Path) -> None:
    """Remove the files of writers that were killed before their rename."""
    with suppress(OSError):
        for file in os.scandir(folder):
            if is_temporary(file.name):
                with suppress(OSError):
                    if time.time() - file.stat().st_mtime > LEFT_SECONDS:
                        os.unlink(file.path)
