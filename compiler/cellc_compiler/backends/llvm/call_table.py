"""A long run of kernel calls as a table of numbers and one loop that reads it.

Straight code for thousands of calls takes LLVM seconds, and more memory than the kernels. A row of
the table is a head (the kernel's number, and whether its tasks are shared out), the number of
tasks, how many words the kernel is given, and the words: places (a base and an offset) or numbers.
A copy is the call of a function that copies, whose tasks are the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ...lower.instructions import Call, Copy, Instruction, Place
from ...lower.memory import Buffer
from .text import Function, V

if TYPE_CHECKING:
    from .main import FunctionWriter

LEAST = 64  # Calls in a row from which on they are a table
_BASE_BITS = 20
_BASES = {"number": 0, "arena": 1, "const": 2}
_FIRST_SLOT = len(_BASES)
_LARGEST = 1 << (63 - _BASE_BITS)


def parts_of_block(
    instructions: Sequence[Instruction],
) -> Iterator[tuple[bool, Sequence[Instruction]]]:
    """The instructions in order, in groups: those for a table, and others."""
    for fits, found in groupby(instructions, fits_table):
        group = list(found)
        yield fits and len(group) >= LEAST, group


def fits_table(i: Instruction) -> bool:
    """Whether a row can say what an instruction does: no place of it depends on a loop."""
    if isinstance(i, Copy):
        words: Sequence[Place | int] = (i.to, i.source)
    elif isinstance(i, Call):
        words = i.words()
    else:
        return False
    return all(_number(w) is not None for w in words)


def _number(word: Place | int) -> int | None:
    """A word of a row; None if there is no room for it or it is known only in a loop."""
    if isinstance(word, int):
        base, offset = _BASES["number"], word
    elif word.steps:
        return None
    elif isinstance(word.base, Buffer):
        if word.base.frame is not None:
            return None
        base, offset = _BASES["arena"], word.base.offset + word.offset
    elif isinstance(word.base, str):
        base, offset = _BASES[word.base], word.offset
    else:
        base, offset = _FIRST_SLOT + word.base, word.offset
    if base >= 1 << _BASE_BITS or not -_LARGEST <= offset < _LARGEST:
        return None
    return offset << _BASE_BITS | base


class CallTable:
    """The rows of a function, and the code that runs them.

    Args:
        name: of the table, in the module.
    """

    def __init__(self, writer: FunctionWriter, name: str) -> None:
        self.writer = writer
        self.name = name
        self.rows: list[int] = []
        self.functions: dict[str, int] = {}

    def add(self, instructions: Sequence[Instruction]) -> None:
        """Rows for instructions that fit."""
        writer = self.writer
        for i in instructions:
            assert isinstance(i, (Call, Copy))
            words: Sequence[Place | int]
            if isinstance(i, Copy):
                name, tasks, forks, words = self._copy(), i.nbytes, False, (i.to, i.source)
            else:
                name, tasks, words = writer.kernels.name(i.kernel), i.kernel.ntasks, i.words()
                forks = writer.forks(i.kernel)
            number = self.functions.setdefault(name, len(self.functions))
            self.rows += [2 * number + forks, tasks, len(words)]
            self.rows += [n for w in words if (n := _number(w)) is not None]

    def _copy(self) -> str:
        """The function that copies `hi` bytes."""
        name, writer = "cellc_copy", self.writer
        if all(h.name != name for h in writer.helpers):
            f = Function(name, [("ptr", "bufs"), ("i64", "lo"), ("i64", "hi")], writer.target,
                         linkage="internal")
            to, source = (f.load("ptr", f.gep(f.arg("bufs"), k, "ptr")) for k in range(2))
            writer.f, outer = f, writer.f
            writer.move(to, source, f.arg("hi"))
            writer.f = outer
            f.ret_()
            writer.helpers.append(f)
        return name

    def run(self, first: V | int, behind: V | int) -> None:
        """Write the loop over the rows from one number of the table to another."""
        writer, f = self.writer, self.writer.f
        table = f.constant_table(self.name, "i64", self.rows)
        functions = f.alloca(8 * len(self.functions), 8)
        for k, name in enumerate(self.functions):
            f.store(V("ptr", f"@{name}"), f.gep(functions, k, "ptr"))
        bases = f.alloca(8 * len(_BASES), 8)
        for base, value in zip(_BASES, (V("ptr", "null"), writer.args["arena"],
                                        writer.args["consts"]), strict=True):
            f.store(value, f.gep(bases, _BASES[base], "ptr"))
        end = behind if isinstance(behind, V) else f.i64(behind)

        def number(at: V, offset: int = 0) -> V:
            return f.load("i64", f.gep(table, at + offset, "i64"))

        def fill(k: V, at: list[V]) -> list[V]:
            word = number(at[0])
            base = word & (1 << _BASE_BITS) - 1
            slot = f.gep(writer.args["slots"], base + -_FIRST_SLOT, "ptr")
            own = f.gep(bases, base, "ptr")
            found = f.select(f.cmp("slt", base, _FIRST_SLOT), own, slot)
            place = f.gep(f.load("ptr", found), f.binary("ashr", word, f.i64(_BASE_BITS)))
            f.store(place, f.gep(writer.bufs, k, "ptr"))
            return [at[0] + 1]

        def row(at: list[V]) -> list[V]:
            head, tasks, words = (number(at[0], k) for k in range(3))
            (after,) = f.loop(0, words, 1, [at[0] + 3], fill)
            fn = f.load("ptr", f.gep(functions, head >> 1, "ptr"))
            forks = f.cmp("ne", head & 1, 0)
            f.when(forks, lambda: writer.fork(fn, tasks), lambda: writer.invoke(fn, tasks))
            return [after]

        start = first if isinstance(first, V) else f.i64(first)
        f.while_([start], lambda at: f.cmp("slt", at[0], end), row)
