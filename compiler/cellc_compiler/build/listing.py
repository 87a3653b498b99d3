"""A kernel as people read it: LLVM text beside its assembly, line by line.

Each instruction of the text is given its own line as debug information, and the assembler's
directives say which line an instruction came from. LLVM may order instructions otherwise where it
sees lines (prologues, on aarch64), so what is shown is the assembly without them, and each of its
instructions has the line of the one that it is among those with lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from .emit import OPTIMIZE, EmitError, assembly

_LOC = re.compile(r"\t\.loc\t\d+ (\d+)")
_HIDDEN = re.compile(r"\t\.(loc|file|cfi_|ident|addrsig|type|size|hidden)|\.L(tmp|func_)")
_DEBUG = re.compile(r"\t\.section\t\.debug_|\t\.section\t\"\.note|\.Ldebug|\.Lsec_end|\.Lcu_")
_FIRST = 1000  # The number of the first metadata node: kernels have none of their own
_UNIT = f"""!llvm.dbg.cu = !{{!{_FIRST}}}
!llvm.module.flags = !{{!{_FIRST + 2}}}
!{_FIRST} = distinct !DICompileUnit(language: DW_LANG_C, file: !{_FIRST + 1}, \
emissionKind: LineTablesOnly)
!{_FIRST + 1} = !DIFile(filename: "kernel.ll", directory: "")
!{_FIRST + 2} = !{{i32 2, !"Debug Info Version", i32 3}}"""


@dataclass(frozen=True, slots=True)
class Listing:
    """Assembly, and for each of its lines the line of the LLVM text, from 1; 0 where none is."""

    assembly: str
    lines: list[int]


def listing(text: str, target: Target) -> Listing:
    """The assembly of a module, with the lines of the text that it comes from. Raises EmitError if
    LLVM refuses the text."""
    shown = [row for row, _ in _rows(assembly(text, target))]
    if text.startswith(OPTIMIZE):  # little is left of its lines, and LLVM cannot carry them along
        return Listing("\n".join(shown), [0] * len(shown))
    try:
        marked = list(_rows(assembly(_with_lines(text), target)))
    except EmitError:  # text of a form that lines cannot be put into
        marked = []
    return Listing("\n".join(shown), _carried(shown, marked))


def _carried(shown: Sequence[str], marked: Sequence[tuple[str, int]]) -> list[int]:
    """The lines of `marked` for the rows that are shown, which are nearly the same ones."""
    rows, lines = [row for row, _ in marked], [line for _, line in marked]
    if rows == shown:
        return lines
    out = [0] * len(shown)
    for a, b, size in SequenceMatcher(None, rows, shown, autojunk=False).get_matching_blocks():
        out[b : b + size] = lines[a : a + size]
    return out


def _with_lines(text: str) -> str:
    """The module with each instruction's line as its place."""
    out: list[str] = []
    unit: list[str] = []
    function = 0
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("define") and line.rstrip().endswith("{"):
            function = _FIRST + 3 + len(unit)
            unit.append(f'!{function} = distinct !DISubprogram(name: "f", file: !{_FIRST + 1}, '
                        f"line: {number}, unit: !{_FIRST}, spFlags: DISPFlagDefinition)")
            line = f"{line.rstrip()[:-1]}!dbg !{function} {{"
        elif line.startswith("}"):
            function = 0
        elif function and _is_instruction(line):
            line += f", !dbg !DILocation(line: {number}, column: 1, scope: !{function})"
        out.append(line)
    return "\n".join([*out, _UNIT, *unit])


def _is_instruction(line: str) -> bool:
    return line.startswith("  ") and "; " not in line and not line.rstrip().endswith(("[", ",")) \
        and not line.lstrip().startswith(("]", ";", "i64 ", "i32 "))


def _rows(marked: str) -> Iterator[tuple[str, int]]:
    """The lines of assembly that say something, each with its line of the text."""
    line = 0
    for row in marked.split("\n"):
        if _DEBUG.match(row):
            return
        found = _LOC.match(row)
        if found:
            line = int(found[1])
        if row.strip() and not _HIDDEN.match(row):
            yield row.replace("\t", "    "), line if row.startswith("\t") and row[1] != "." else 0
