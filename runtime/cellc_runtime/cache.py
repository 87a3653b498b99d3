"""A cache of compiled code on disk: bytes by key, checked, capped, never in the way.

One file per entry, written to a temporary name and renamed, so that a reader sees all of it or
nothing. A file whose checksum does not hold is a miss and is removed. Whatever goes wrong with
the disk (full, read-only, not ours) means "no cache", never an error. The directory is kept for
its owner alone: what is read from it is run as code. Each use opens it once, with all directories
above it checked, and names its files from there without following links.

The directory may hold other files: `CELLC_CACHE_DIR` can be any. A file `CACHEDIR.TAG` marks it as
a cache of cellc; without it nothing is removed, and with it only regular files with the names of
entries (or of entries that were not finished).

Least recently used entries go when the total passes the cap; use is recorded in the file's
modification time, at most once an hour.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from . import __version__, knobs, platform
from .lazy import hashlib
from .records import dataclass

if TYPE_CHECKING:
    from pathlib import Path

_MAGIC = b"CELLCCH1"
_HEAD = len(_MAGIC) + 32
_SUFFIX = ".bin"
_KEY = re.compile(r"[0-9a-f]{64}")
_FOLDER = re.compile(r"[0-9a-f]{2}")
_ENTRY = re.compile(r"([0-9a-f]{62})\.bin")
_UNFINISHED = re.compile(r"\.new-[0-9a-f]{16}")
_MARKER, _SECRET = "CACHEDIR.TAG", "secret"
_MARK = b"""Signature: 8a477f597d28d172789f06886806bc55
# A cache of cellc (see https://bford.info/cachedir/), which removes its own files here.
"""
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_TOUCH_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One cached item: its key, its bytes on disk and when it was last used (Unix seconds)."""

    key: str
    size: int
    used: float


def make_key(*parts: str | bytes) -> str:
    """The key of something made from `parts` (lengths are hashed too) by this version."""
    digest = hashlib.sha256()
    for part in (__version__, *parts):
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class _Folder:
    """An open directory, whose files are named from it. Closes it at the end of the block.

    Args:
        descriptor: of it; None where the system has no such (Windows): `path` is used.
    """

    def __init__(self, descriptor: int | None, path: str) -> None:
        self._at, self._path = descriptor, path

    def __enter__(self) -> _Folder:
        return self

    def __exit__(self, *_: object) -> None:
        if self._at is not None:
            os.close(self._at)

    def _name(self, name: str) -> str:
        return name if self._at is not None else os.path.join(self._path, name)

    def inside(self, name: str) -> _Folder:
        """A directory in it."""
        if self._at is None:
            return _Folder(None, self._name(name))
        return _Folder(os.open(name, os.O_RDONLY | os.O_DIRECTORY | _NO_LINK, dir_fd=self._at), "")

    def names(self) -> list[str]:
        return os.listdir(self._path if self._at is None else self._at)

    def mkdir(self, name: str) -> None:
        os.mkdir(self._name(name), 0o700, dir_fd=self._at)

    def stat(self, name: str) -> os.stat_result:
        return os.stat(self._name(name), dir_fd=self._at, follow_symlinks=False)

    def unlink(self, name: str) -> None:
        os.unlink(self._name(name), dir_fd=self._at)

    def read(self, name: str) -> bytes:
        """The bytes of a regular file. Records its use, at most once an hour."""
        handle = os.open(self._name(name), os.O_RDONLY | _NO_LINK, dir_fd=self._at)
        with os.fdopen(handle, "rb") as file:
            info, now = os.fstat(handle), time.time()
            if not stat.S_ISREG(info.st_mode):
                raise OSError(f"{name} is not a regular file")
            data = file.read()
            if now - info.st_mtime > _TOUCH_SECONDS:
                with suppress(OSError):
                    os.utime(handle if self._at is not None else self._name(name), (now, now))
        return data

    def write(self, name: str, *pieces: bytes, replace: bool = True) -> None:
        """Write a file under a temporary name and rename it. Raises FileExistsError if there is
        one, which `replace` does not allow to replace."""
        new = f".new-{os.urandom(8).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
        handle = os.open(self._name(new), flags, 0o600, dir_fd=self._at)
        try:
            with os.fdopen(handle, "wb") as file:
                for piece in pieces:
                    file.write(piece)
            put = os.replace if replace else os.link
            put(self._name(new), self._name(name), src_dir_fd=self._at, dst_dir_fd=self._at)
            if not replace:
                self.unlink(new)
        except BaseException:
            with suppress(OSError):
                self.unlink(new)
            raise

    def mark(self) -> None:
        """Mark it as a cache of cellc. A file of this name that is not ours stays."""
        try:
            self.stat(_MARKER)
        except FileNotFoundError:
            self.write(_MARKER, _MARK)

    def is_marked(self) -> bool:
        try:
            return self.read(_MARKER) == _MARK
        except OSError:
            return False


class Cache:
    """The cache in one directory.

    Args:
        directory: where entries live; made when first written to, mode 0700.
        limit: bytes kept at most; 0 turns the cache off.
    """

    def __init__(self, directory: Path, limit: int) -> None:
        self.directory = directory
        self.limit = limit
        self._total: int | None = None

    def get(self, key: str) -> bytes | None:
        """The bytes stored under `key`, or None."""
        if self.limit <= 0 or not _KEY.fullmatch(key):
            return None
        try:
            with self._open() as top, top.inside(key[:2]) as folder:
                data = folder.read(key[2:] + _SUFFIX)
                payload = data[_HEAD:]
                if data[: len(_MAGIC)] == _MAGIC and (
                    hashlib.sha256(key.encode() + payload).digest() == data[len(_MAGIC) : _HEAD]
                ):
                    return payload
                if top.is_marked():
                    folder.unlink(key[2:] + _SUFFIX)
        except OSError:
            pass
        return None

    def put(self, key: str, payload: bytes) -> bool:
        """Store bytes under `key`; whether they are there now."""
        size = _HEAD + len(payload)
        if size > self.limit or not _KEY.fullmatch(key):
            return False
        try:
            with self._open(make=True) as top:
                top.mark()
                with suppress(FileExistsError):
                    top.mkdir(key[:2])
                with top.inside(key[:2]) as folder:
                    head = _MAGIC + hashlib.sha256(key.encode() + payload).digest()
                    folder.write(key[2:] + _SUFFIX, head, payload)
        except OSError:
            return False
        self._grow(size)
        return True

    def entries(self) -> list[Entry]:
        """All entries, least recently used first."""
        return sorted(self._scan(), key=lambda e: (e.used, e.key))

    def size(self) -> int:
        """Bytes used on disk."""
        return sum(e.size for e in self._scan())

    def clear(self) -> int:
        """Remove every entry; how many were removed."""
        self._total = None
        return sum(self._remove(e.key) for e in self.entries())

    def _path(self, key: str) -> Path:
        return self.directory / key[:2] / (key[2:] + _SUFFIX)

    @contextmanager
    def _open(self, make: bool = False) -> Iterator[_Folder]:
        # Code from a directory that others can write is code from others.
        try:
            descriptor = platform.open_private_directory(self.directory)
        except FileNotFoundError:
            if not make:
                raise
            self.directory.parent.mkdir(parents=True, exist_ok=True)
            self.directory.mkdir(mode=0o700, exist_ok=True)
            descriptor = platform.open_private_directory(self.directory)
        with _Folder(descriptor, str(self.directory)) as top:
            yield top

    def _scan(self) -> Iterator[Entry]:
        if self.limit < 0:
            return
        with suppress(OSError), self._open() as top:
            marked = top.is_marked()
            for name in filter(_FOLDER.fullmatch, top.names()):
                with suppress(OSError), top.inside(name) as folder:
                    yield from self._entries(name, folder, marked)

    def _entries(self, start: str, folder: _Folder, marked: bool) -> Iterator[Entry]:
        for name in folder.names():
            entry = _ENTRY.fullmatch(name)
            # Another process may remove a file between the listing and the stat.
            with suppress(OSError):
                if entry is not None:
                    info = folder.stat(name)
                    if stat.S_ISREG(info.st_mode):
                        yield Entry(start + entry[1], info.st_size, info.st_mtime)
                elif _UNFINISHED.fullmatch(name) and marked \
                        and time.time() - folder.stat(name).st_mtime > _TOUCH_SECONDS:
                    folder.unlink(name)  # a writer died before its rename

    def _remove(self, key: str) -> bool:
        try:
            with self._open() as top, top.inside(key[:2]) as folder:
                if not top.is_marked():
                    return False
                folder.unlink(key[2:] + _SUFFIX)
        except OSError:
            return False
        return True

    def _grow(self, size: int) -> None:
        self._total = self.size() if self._total is None else self._total + size
        if self._total <= self.limit:
            return
        entries = self.entries()
        self._total = sum(e.size for e in entries)
        # Down to nine tenths, so that the next entry does not start another sweep.
        for entry in entries:
            if self._total <= self.limit * 9 // 10:
                break
            if self._remove(entry.key):
                self._total -= entry.size


def secret() -> bytes:
    """A random text that the processes of this user share, in the folder of the cache. Raises
    OSError if the folder cannot be written, or others may write it."""
    with default()._open(make=True) as folder:
        with suppress(FileNotFoundError):
            return folder.read(_SECRET)
        with suppress(FileExistsError):
            folder.write(_SECRET, os.urandom(32).hex().encode(), replace=False)
        return folder.read(_SECRET)


def default() -> Cache:
    """The cache the knobs describe."""
    settings = knobs.read()
    return _at(settings.cache_dir, settings.cache_size)


@lru_cache(maxsize=8)
def _at(directory: Path, limit: int) -> Cache:
    # One object while the knobs stay: a new one would list the whole directory at its first
    # `put` to learn the total.
    return Cache(directory, limit)
