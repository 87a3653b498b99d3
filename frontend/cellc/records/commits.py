"""Files of a MindRecord dataset replaced together: each is the old one, or each is the new one.

The new files are written into a folder next to their places. One rename of that folder, to a name
that readers look for, commits them. They are then moved into their places; a process that dies
meanwhile leaves the folder, and the next reader or writer of the dataset moves the rest.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from cellc_runtime.files import is_temporary, mode_to_keep, temporary
from cellc_runtime.platform import lock_directory, sync_directory

_COMMITTED = ".cellc-committed"  # The suffix of folders whose files are committed
_DIGITS = 3
"""A dataset has 1000 files at most, so the numbers after its name have up to three digits."""


class Pending:
    """The folder of a dataset's new files.

    Args:
        name: of the dataset: what the names of its files begin with.

    Raises:
        OSError: the folder cannot be made.
    """

    def __init__(self, name: str) -> None:
        self._name = Path(os.path.abspath(name))
        finish(name)
        _remove_abandoned(self._name)
        while True:
            self.folder = temporary(self._name)
            os.mkdir(self.folder, 0o700)
            with suppress(FileNotFoundError):  # somebody took it for abandoned before the lock
                self._lock = lock_directory(self.folder)
                os.stat(self.folder)
                return

    def file(self, path: str) -> str:
        """Where to write what is to become a file."""
        return str(self.folder / os.path.basename(path))

    def commit(self) -> None:
        """Put the files into their places.

        Raises:
            OSError: the disk refuses. Before the commit point the older files are as they were;
                after it the next reader or writer finishes.
        """
        for file in os.scandir(self.folder):
            mode = mode_to_keep(self._name.with_name(file.name))
            if mode is not None:
                os.chmod(file.path, mode)
            _sync(file.path)
        sync_directory(self.folder)
        finish(str(self._name))
        os.rename(self.folder, _commit_path(self._name))  # the commit point
        sync_directory(self._name.parent)
        self.close()
        finish(str(self._name))

    def close(self) -> None:
        """Remove what was not committed."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        _remove(self.folder)


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _commit_path(name: Path) -> Path:
    return name.with_name(f".{name.name}{_COMMITTED}")


def finish_for(path: str) -> None:
    """Finish a commit that wrote a file: its name is that of the dataset, and perhaps a number.
    Raises OSError if the folder cannot be written."""
    finish(path)
    for _ in range(_DIGITS):
        if not path[-1:].isdigit():
            return
        path = path[:-1]
        finish(path)


def finish(name: str) -> None:
    """Move the files that are committed for a dataset into their places. Raises OSError if the
    folder cannot be written."""
    place = Path(os.path.abspath(name))
    folder = _commit_path(place)
    if not folder.is_dir():
        return
    own = re.compile(re.escape(place.name) + r"\d{0,3}(\.db)?")
    for file in os.listdir(folder):
        if own.fullmatch(file):
            with suppress(FileNotFoundError):  # another process moved it
                os.replace(folder / file, place.with_name(file))
    sync_directory(place.parent)
    with suppress(OSError):
        os.rmdir(folder)


def _remove_abandoned(name: Path) -> None:
    """Remove the folders of writers of this dataset that died before their commit."""
    for file in os.scandir(name.parent):
        if is_temporary(file.name) and file.name.startswith(f".{name.name[:40]}.") and \
                file.is_dir(follow_symlinks=False):
            with suppress(OSError):
                lock = lock_directory(Path(file.path))
                if lock is not None:
                    _remove(Path(file.path))
                    os.close(lock)


def _remove(folder: Path) -> None:
    with suppress(OSError):
        for file in os.scandir(folder):
            os.unlink(file.path)
        os.rmdir(folder)
