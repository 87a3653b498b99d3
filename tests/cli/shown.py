"""What a page shows of the command line: its commands, and whether what they print is what it says.

The rule by which a shown line is held against a printed one:

- `...` stands for any text, and alone on a line for any lines.
- Times (in any unit), rates, percentages, threads and ulps depend on the machine and the run: any
  number. So do the rows of a profile's table (lines that begin with a time) and bars of blocks.
- Sizes (B, KiB, MiB, and all numbers of a `memory of a call`) are right to 3 %, or to 1
  (with a decimal point: to 0.1).
- Other numbers with a decimal point are right to one in a thousand: the last digits are of one
  target.
- All else is equal, but for the number of spaces.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_NUMBER = r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
_ANY = re.compile(r"\s*(ns|us|ms|s|%|ulps|threads?|GFLOP/s|GB/s)\b|\s*%")
_SIZE = re.compile(r"\s*([KMG]i)?B\b")
_ROW = re.compile(r"\s*[\d.]+ [nmu]?s\s+[\d.]+\s.*")
_TIME = re.compile(r"(?<=\d) (ns|us|ms)\b")
_THREADS = re.compile(r"(?<=\d) threads?\b")
_BAR = re.compile(r"[▁▂▃▄▅▆▇█ ]+")


@dataclass
class Command:
    """A command of a page, and the lines that it shows behind it."""

    line: str
    shown: list[str] = field(default_factory=list)


def commands(page: Path) -> list[Command]:
    """The commands of a page, in order: lines that begin with `$` in a block or indented."""
    out: list[Command] = []
    for block in _blocks(page.read_text(encoding="utf-8")):
        current: Command | None = None
        going_on = False
        for line in block:
            if line.startswith("$ "):
                current = Command(line[2:])
                out.append(current)
            elif current is not None and going_on:
                current.line += " " + line.strip()
            elif current is not None:
                current.shown.append(line)
            going_on = line.endswith("\\") and (line.startswith("$ ") or going_on)
            if going_on and current is not None:
                current.line = current.line.removesuffix("\\").rstrip()
        for c in out:
            while c.shown and not c.shown[-1].strip():
                c.shown.pop()
    return out


def _blocks(text: str) -> Iterator[list[str]]:
    """Fenced blocks without a language, and indented ones."""
    for language, body in re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S):
        if not language:
            yield body.splitlines()
    for body in re.findall(r"(?:^ {4}.*\n(?:\n(?= {4}))?)+", re.sub(
            r"^```.*?^```", "", text, flags=re.M | re.S), re.M):
        yield [line[4:] for line in body.splitlines()]


def difference(shown: list[str], printed: list[str]) -> str:
    """Where printed lines are not what was shown; "" if they are."""
    if not shown:
        return "" if not printed else f"more was printed: {printed[0]!r}"
    first, *rest = shown
    if first.strip() == "...":
        tails = [difference(rest, printed[i:]) for i in range(len(printed) + 1)]
        return "" if "" in tails else tails[0]
    if not printed:
        return f"not printed: {first!r}"
    return _line_difference(first, printed[0]) or difference(rest, printed[1:])


def _line_difference(shown: str, printed: str) -> str:
    if (_ROW.fullmatch(shown) and _ROW.fullmatch(printed)) or (
            shown.strip() and _BAR.fullmatch(shown) and _BAR.fullmatch(printed)):
        return ""
    shown, printed = (_THREADS.sub(" threads", _TIME.sub(" s", line)) for line in (shown, printed))
    parts = re.split(f"({_NUMBER})", shown)
    texts, numbers = parts[::2], parts[1::2]
    pattern = rf"({_NUMBER})".join(map(_text, texts))
    found = re.fullmatch(pattern, printed.rstrip())
    if found is None:
        return f"shown: {shown!r}, printed: {printed!r}"
    for number, after, got in zip(numbers, texts[1:], found.groups(), strict=True):
        if not _near(number, got, after, "memory of a call" in shown):
            return f"shown: {shown!r} with {number}, printed: {got} in {printed!r}"
    return ""


def _text(part: str) -> str:
    """The pattern of a text between numbers."""
    spaced = (re.sub(r"(\\ |\s)+", r"\\s+", re.escape(p)) for p in part.rstrip("\n").split("..."))
    return ".*?".join(spaced)


def _near(shown: str, got: str, after: str, sizes: bool) -> bool:
    a, b = float(shown), float(got)
    if _ANY.match(after):
        return True
    if sizes or _SIZE.match(after):
        return abs(a - b) <= max(0.1 if "." in shown else 1, 0.03 * abs(a))
    if "." in shown or "e" in shown:
        return math.isclose(a, b, rel_tol=1e-3)
    return shown == got
