"""The user's files as a report shows them: relative paths, and the text of those that may be shown.

A report is sent to others, so it holds no absolute path. Of a network in Python the text of its
files is shown; a graph that was read from a file names whatever files it likes, and none is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

LARGEST = 400_000  # Characters of a file of source up to which it is shown
_PACKAGE = Path(__file__).resolve().parents[1]


class Sources:
    """The files that nodes name.

    Args:
        folders: whose files may be opened, besides those of cellc; none: none may, not even those.
    """

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._folders = [f.resolve() for f in folders]
        self._roots = [*self._folders, _PACKAGE.parent]
        self._names: dict[str, str] = {}
        self.texts: dict[str, str] = {}

    def name(self, path: str) -> str:
        """A path as it is shown; the text of the file is read if it may be."""
        found = self._names.get(path)
        if found is None:
            found = self._names[path] = self._shown(path)
        return found

    def _shown(self, path: str) -> str:
        if not path or path.startswith("<"):
            return path
        if not self._folders:
            return path.replace("\\", "/").rsplit("/", 1)[-1]
        whole = Path(path).resolve()
        around = [r for r in self._roots if whole.is_relative_to(r)]
        if not around:
            return whole.name
        root = max(around, key=lambda r: len(r.parts))
        name = whole.relative_to(root).as_posix()
        self._read(whole, name)
        return name

    def _read(self, path: Path, name: str) -> None:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return
        if len(text) <= LARGEST:
            self.texts[name] = text

    def hide(self, text: str) -> str:
        """A text without the folders before the files in it."""
        for folder in self._hidden():
            text = text.replace(folder, "")
        return text

    def _hidden(self) -> Iterable[str]:
        for root in (*self._roots, Path.cwd(), Path.home()):
            yield f"{root}/"
