"""A cache of compiled code on disk: bytes by key, checked, capped, never in the way.

One file per entry, written to a temporary name and renamed, so that a reader sees all of it or
nothing. A file whose checksum does not hold is a miss and is removed. Whatever goes wrong with
the disk (full, read-only, not ours) means "no cache", never an error. The directory is kept for
its owner alone: what is read from it is run as code.

Least recently used entries go when the total passes the cap; use is recorded in the file's
modification time, at most once an hour.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from . import __version__, knobs, platform
from .lazy import lazy_module
from .records import dataclass

if TYPE_CHECKING:
    import hashlib
    import tempfile
    from pathlib import Path
else:
    hashlib = lazy_module("hashlib")
    tempfile = lazy_module("tempfile")

_MAGIC = b"CELLCCH1"
_HEAD = len(_MAGIC) + 32
_SUFFIX = ".bin"
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
        if self.limit <= 0 or not self._trusted():
            return None
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        payload = data[_HEAD:]
        if data[: len(_MAGIC)] != _MAGIC or (
            hashlib.sha256(key.encode() + payload).digest() != data[len(_MAGIC) : _HEAD]
        ):
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):
            now = time.time()
            if now - path.stat().st_mtime > _TOUCH_SECONDS:
                os.utime(path, (now, now))
        return payload

    def put(self, key: str, payload: bytes) -> bool:
        """Store bytes under `key`; whether they are there now."""
        size = _HEAD + len(payload)
        if size > self.limit:
            return False
        try:
            if not self._trusted():
                self._prepare()
                if not self._trusted():
                    return False
            self._write(key, payload)
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

    def _prepare(self) -> None:
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        self.directory.mkdir(mode=0o700, exist_ok=True)

    def _trusted(self) -> bool:
        # Code from a directory that others can write is code from others.
        return platform.is_private_directory(self.directory)

    def _write(self, key: str, payload: bytes) -> None:
        path = self._path(key)
        try:
            handle, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)
        except FileNotFoundError:  # the first of its folder
            path.parent.mkdir(mode=0o700, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(key.encode() + payload).digest())
                file.write(payload)
            os.replace(name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise

    def _scan(self) -> Iterator[Entry]:
        if self.limit < 0 or not self._trusted():
            return
        try:
            folders = [f for f in os.scandir(self.directory) if len(f.name) == 2]
        except OSError:
            return
        for folder in folders:
            with suppress(OSError):
                for file in os.scandir(folder.path):
                    # Another process may remove a file between the listing and the stat.
                    with suppress(OSError):
                        info = file.stat()
                        if file.name.endswith(_SUFFIX):
                            key = folder.name + file.name[: -len(_SUFFIX)]
                            yield Entry(key, info.st_size, info.st_mtime)
                        elif time.time() - info.st_mtime > _TOUCH_SECONDS:
                            os.unlink(file.path)  # a writer died before its rename

    def _remove(self, key: str) -> bool:
        try:
            self._path(key).unlink()
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


def default() -> Cache:
    """The cache the knobs describe."""
    settings = knobs.read()
    return _at(settings.cache_dir, settings.cache_size)


@lru_cache(maxsize=8)
def _at(directory: Path, limit: int) -> Cache:
    # One object while the knobs stay: a new one would list the whole directory at its first
    # `put` to learn the total.
    return Cache(directory, limit)
