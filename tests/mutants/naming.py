"""Which tests name what a fault is in: its function or class, or in a file of helpers what uses it.

This is read from the sources: quick, and of use where no run was recorded (`reaching.py`).
"""

from __future__ import annotations

import ast
import re
from functools import cache

from .rooms import ROOT

_SHORTEST = 4
"""Letters of a name that says something."""
_MOST = 12
"""Tests that may have a name before it is too common to say something."""


def naming(file: str, line: int) -> list[str]:
    """Test functions that name what a line is in, the rarest names first."""
    found = [_tests_with(name) for name in sorted(_names(file, line)) if len(name) >= _SHORTEST]
    return list(dict.fromkeys(
        t for tests in sorted(found, key=len) if len(tests) <= _MOST for t in tests))


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
            for path in sorted((ROOT / "tests").glob("*/test_*.py"))}


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
