"""Which tests name what a fault is in: its function or class, or in a file of helpers what uses it;
and which share rare words with its function, names of options or pieces of messages, say.

This is read from the sources: quick, and of use where no run was recorded (`reaching.py`). Words
count the more the fewer tests have them (Sparck Jones, "A statistical interpretation of term
specificity", 1972).
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from functools import cache

from .rooms import ROOT

_SHORTEST = 4
"""Letters of a name that says something."""
_MOST = 12
"""Tests that may have a name before it is too common to say something."""
_COMMON = 60
"""Tests that may have a word before it is."""
_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]{3,}")


def naming(file: str, line: int) -> list[str]:
    """Test functions that name what a line is in, the rarest names first."""
    found = [_tests_with(name) for name in sorted(_names(file, line)) if len(name) >= _SHORTEST]
    return list(dict.fromkeys(
        t for tests in sorted(found, key=len) if len(tests) <= _MOST for t in tests))


def related(file: str, line: int) -> list[str]:
    """Test functions that share rare words with the function of a line, the most alike first."""
    words, known = _words(file, line), _words_of_tests()
    often = Counter(word for test in known.values() for word in test & words)
    scores = {
        test: sum(math.log(len(known) / often[w]) for w in both)
        / (1 + math.log(1 + len(own)))  # (a table of everything has every word)
        for test, own in known.items()
        if (both := {w for w in own & words if often[w] <= _COMMON})}
    return sorted(scores, key=lambda test: -scores[test])


def _words(file: str, line: int) -> set[str]:
    """Names and texts of the smallest function around a line, or else of its statement."""
    around = [n for n in ast.walk(ast.parse((ROOT / file).read_text()))
              if isinstance(n, ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign)
              and n.lineno <= line <= (n.end_lineno or 0)]
    if not around:
        return set()
    place = min(around, key=lambda n: (not isinstance(n, ast.FunctionDef),
                                       (n.end_lineno or 0) - n.lineno))
    documented = isinstance(place, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(place)
    inner = place.body[1:] if documented else [place]  # type: ignore[union-attr]
    said = [n.value if isinstance(n, ast.Constant) else n.arg if isinstance(n, ast.keyword)
            else n.name for root in [*inner] for n in ast.walk(root)
            if isinstance(n, ast.Constant | ast.keyword | ast.FunctionDef)]
    return _used(place) | {
        w for text in (*said, getattr(place, "name", "")) if isinstance(text, str)
        for w in _WORD.findall(text)}


@cache
def _words_of_tests() -> dict[str, set[str]]:
    return {test: set(_WORD.findall(text)) for file in _sources()
            for test, text in _with_tables(file).items()}


def _with_tables(file: str) -> dict[str, str]:
    """The text of each test function, with what its module puts under names that it uses."""
    source = _sources()[file]
    tables = {
        t.id: ast.get_source_segment(source, n) or ""
        for n in ast.parse(source).body if isinstance(n, ast.Assign | ast.AnnAssign)
        for t in (n.targets if isinstance(n, ast.Assign) else [n.target])
        if isinstance(t, ast.Name)}
    return {test: "\n".join([text, *(tables[w] for w in set(_WORD.findall(text)) if w in tables)])
            for test, text in _tests_of(file).items()}


def _names(file: str, line: int) -> set[str]:
    """Names of the functions and classes around a line, and of those that use private ones."""
    defined = [n for n in ast.walk(ast.parse((ROOT / file).read_text()))
               if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    names = {n.name for n in defined if n.lineno <= line <= (n.end_lineno or 0)}
    for _ in range(3):
        private = {name for name in names if name.startswith("_")}
        names |= {n.name for n in defined if private & _used(n)}
    return names


def _used(node: ast.AST) -> set[str]:
    return {n.id if isinstance(n, ast.Name) else n.attr for n in ast.walk(node)
            if isinstance(n, ast.Name | ast.Attribute)}


def _tests_with(name: str) -> list[str]:
    """Test functions with a name in their text or in what decorates them."""
    word = re.compile(rf"\b{name}\b")
    return [test for file, text in _sources().items() if word.search(text)
            for test, own in _tests_of(file).items() if word.search(own)]


@cache
def _sources() -> dict[str, str]:
    return {path.relative_to(ROOT).as_posix(): path.read_text()
            for path in sorted((ROOT / "tests").glob("**/test_*.py"))}


@cache
def _tests_of(file: str) -> dict[str, str]:
    """The text of each test function of a file."""
    text = _sources()[file]
    lines = text.splitlines()
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found[f"{file}::{node.name}"] = "\n".join(lines[first - 1 : node.end_lineno])
    return found
