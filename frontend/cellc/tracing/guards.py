"""Whether Python would still find everything that a trace read: what a call asks before it answers.

Each read names the *stamps* under which it holds: the class, dictionary, function or variable by
which Python went. Native code compares all stamps of a program at once (`cellc_runtime.words`).
Where one differs, the reads that depend on it are repeated: if all give the same, it is renewed,
otherwise the program is stale. Reads without a stamp (elements of a list, of an array) are made
before each call.
"""

from __future__ import annotations

from collections.abc import Sequence

from cellc_runtime.executable import Executable
from cellc_runtime.records import dataclass, field
from cellc_runtime.words import Table, Word, anything

from .reads import Read, Stamp


class _Home:
    """The program whose native code compares words."""

    executable: Executable | None = None


def use(executable: Executable) -> None:
    """Compare by this program's code from now on, unless there is one already."""
    if _Home.executable is None and executable.native is not None:
        _Home.executable = executable


@dataclass(slots=True)
class _Stamped:
    """A stamp of a program: its words, from `first` on, and the reads that hang on it."""

    stamp: Stamp
    first: int
    words: list[Word]
    reads: list[Read] = field(default_factory=list)


class Guards:
    """The reads for one program."""

    def __init__(self, reads: Sequence[Read]) -> None:
        self.reads = reads
        self.table: Table | None = None  # the words; None before the first call
        # the reads that are made before each call
        self.compared = [r for r in reads if r.compared or r.stamps]
        self.renewed = False  # whether a stamp was renewed since this was last set to False
        self.cause = ""  # why it does not hold
        self._stamped: list[_Stamped] = []
        self._of_word: list[_Stamped] = []

    def first_changed(self) -> int:
        """The position of the first word that differs: -1 if none does, 0 before the first call."""
        return -1 if self.table is None and not self.reads else 0

    def hold(self) -> bool:
        """Whether all reads would give what they gave."""
        if self.table is None:
            if not self._make_table():
                return False
        elif not self._renew(self.table):
            return False
        return all(map(self._holds, self.compared))

    def _holds(self, read: Read) -> bool:
        if not read.moved():
            return True
        self.cause = read.describe()
        return False

    def _has_moved(self, read: Read) -> bool:
        if not read.stamps or not read.moved():
            return False
        self.cause = read.describe()
        return True

    def _make_table(self) -> bool:
        """Take the words as they are now, then make every read once: whether all hold."""
        if _Home.executable is None:
            return True
        found: dict[object, _Stamped | None] = {}
        compared = []
        for read in self.reads:
            stamped = [self._stamp(found, stamp) for stamp in read.stamps]
            if None in stamped or (read.compared and (read.in_place or not stamped)):
                compared.append(read)
            for each in stamped:
                if each is not None:
                    each.reads.append(read)
        if any(map(self._has_moved, self.reads)):
            return False
        self.compared = compared
        self.table = Table([w for s in self._stamped for w in s.words], _Home.executable)
        self.first_changed = self.table.first_changed  # type: ignore[method-assign]  # native
        return True

    def _stamp(self, found: dict[object, _Stamped | None], stamp: Stamp) -> _Stamped | None:
        if stamp.key not in found:
            words = stamp.words()
            made = None if words is None else _Stamped(stamp, len(self._of_word), words)
            found[stamp.key] = made
            if made is not None:
                self._stamped.append(made)
                self._of_word += [made] * len(made.words)
        return found[stamp.key]

    def _renew(self, table: Table) -> bool:
        """Look at each stamp that differs; whether all reads that hang on them hold."""
        while (at := table.first_changed()) >= 0:
            each = self._of_word[at]
            words = each.stamp.words()
            if words is None or len(words) != len(each.words):
                words = list(map(anything, each.words))
                self.compared += [r for r in each.reads if r not in self.compared]
            for read in each.reads:
                if self._has_moved(read):
                    return False
            each.words = words
            table.put(each.first, words)
            self.renewed = True
        return True
