"""Trials of programs that are edited between calls: everything that Python can edit.

A program is put together from *sources* of a number: each is a way in which Python finds a value
(an attribute, a class, a global name, a default, a container, a special method, ...), read in
`construct`, with statements that change what Python would find. Between calls some of these run.
Both modes must give the same after each: PyNative is Python itself. An error that a person can act
on (a `CompileError`, with its line) is no fault, a value that is out of date is one.
"""

from __future__ import annotations

import contextlib
import decimal
import linecache
import os
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import cellc as ms
from cellc import Tensor
from cellc.lang.errors import CompileError

from ...modes.law import members_kept, mode
from .edit_sources import SOURCES as FIRST
from .finding import Finding, Trial, plainest
from .found_edit_sources import FOUND
from .more_edit_sources import MORE
from .object_edit_sources import OBJECTS

SUFFIX = ".edits"
_AT_ONCE = 8
"""Programs of a trial."""
SOURCES = (*FIRST, *MORE, *OBJECTS, *FOUND)
_HEAD = """import abc, array, bisect, collections, copy, dataclasses, decimal, enum, fractions
import functools, heapq, inspect, itertools, json, math, operator, os, re, statistics, struct
import sys, types
from functools import reduce
from typing import NamedTuple
import numpy as np
import cellc as ms
from cellc import Tensor, nn, ops
"""


@dataclass(frozen=True)
class Program:
    """A program and its edits: `parts` are numbers of sources, `edits` their statements in order."""  # noqa: E501

    parts: tuple[int, ...]
    edits: tuple[tuple[int, int], ...]
    """Each the place of a part and which of its statements."""

    def text(self) -> str:
        """As the corpus keeps it."""
        return f"{list(self.parts)}\n{[list(e) for e in self.edits]}\n"


def _filled(text: str, number: int, values: Any) -> str:
    text = text.replace("$", str(number))
    while "#" in text:
        text = text.replace("#", str(next(values)), 1)
    return text


def _values() -> Any:
    """2, 7, 3, 9, ...: neighbours differ, and so do their sums with 1."""
    return (2 + 5 * i % 11 for i in range(10_000))


def source_of(program: Program) -> str:
    """The text of the module."""
    values = _values()
    parts = [(n, SOURCES[p]) for n, p in enumerate(program.parts)]
    lines = [_HEAD, *(_filled(s.before, n, values) for n, s in parts)]
    lines += ["class Net(nn.Cell):", "    def __init__(self):", "        super().__init__()"]
    lines += [f"        {_filled(s.init, n, values)}" for n, s in parts if s.init]
    lines += ["    def construct(self, x):", "        y = x"]
    lines += [f"        y = y * 3 + ({_filled(s.read, n, values)})" for n, s in parts]
    return "\n".join([*lines, "        return y", ""])


def answers(program: Program, in_mode: int) -> list[str]:
    """What the calls of a program give in a mode: numbers, or the error's class."""
    text, x, found = source_of(program), Tensor([1.5]), []
    sys.modules["edited"] = module = types.ModuleType("edited")
    names: dict[str, Any] = module.__dict__
    names["__source__"] = text
    values = iter([v + 20 for v in _values()])
    # Programs set members of these, the precision of decimals and variables of the environment.
    with (mode(in_mode), members_kept(Tensor, ms.Parameter), decimal.localcontext(),
          mock.patch.dict(os.environ)):
        exec(compile(text, "<edited>", "exec"), names)
        net = names["net"] = names["Net"]()
        for edit in (None, *program.edits):
            raised = ""
            if edit is not None:
                statement = SOURCES[program.parts[edit[0]]].edits[edit[1]]
                try:
                    _run(_filled(statement, edit[0], values), names)
                except Exception as e:
                    raised = f"edit: {type(e).__name__} "
            try:
                net(x)  # (the first call of an entry compares in Python, the next in native code)
                found.append(raised + repr(np.asarray(net(x).asnumpy()).tolist()))
            except CompileError as e:
                found.append(f"{raised}compile: {e}".splitlines()[0])
                with mode(ms.PYNATIVE_MODE), contextlib.suppress(Exception):
                    net(x), net(x)  # what the calls do to Python's objects happens here, too
            except Exception as e:
                found.append(f"{raised}{type(e).__name__}")
    return found


def _run(text: str, names: dict[str, Any]) -> None:
    """Run a statement whose source can be found, as one of a notebook."""
    file = f"<edit {hash(text)}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    exec(compile(text, file, "exec"), names)


def told_by(program: Program) -> str:
    """What is wrong with a program; "" if nothing is."""
    want, got = answers(program, ms.PYNATIVE_MODE), answers(program, ms.GRAPH_MODE)
    for number, (a, b) in enumerate(zip(want, got, strict=True)):
        if a == b or ("compile: " in b and "CE604" not in b):
            continue
        edit = program.edits[number - 1] if number else None
        what = "" if edit is None else f" after {SOURCES[program.parts[edit[0]]].edits[edit[1]]!r}"
        return f"Stale: call {number}{what}: Python {a}; graph mode {b}"
    return ""


def programs(rng: np.random.Generator) -> Program:
    """A program of one to four sources and up to six edits."""
    parts = tuple(int(p) for p in rng.integers(len(SOURCES), size=int(rng.integers(1, 5))))
    edits = []
    for _ in range(int(rng.integers(2, 7))):
        at = int(rng.integers(len(parts)))
        count = len(SOURCES[parts[at]].edits)
        if count:
            edits.append((at, int(rng.integers(count))))
    return Program(parts, tuple(edits))


def _plainer(program: Program) -> Sequence[Program]:
    fewer = [Program(program.parts, program.edits[:i] + program.edits[i + 1:])
             for i in range(len(program.edits))]
    for gone in range(len(program.parts)):
        if len(program.parts) > 1:
            kept = program.parts[:gone] + program.parts[gone + 1:]
            edits = tuple((at - (at > gone), e) for at, e in program.edits if at != gone)
            fewer.append(Program(kept, edits))
    return fewer


def trial(seed: int) -> Trial:
    """Some programs."""
    rng = np.random.default_rng([seed, 37])
    for _ in range(_AT_ONCE):
        program = programs(rng)
        told = told_by(program)
        if told:
            small = plainest(program, told, _plainer, told_by)
            return Trial(finding=Finding("edits", seed, told_by(small), small.text(), SUFFIX))
    return Trial({"programs": _AT_ONCE})


def play(path: Path) -> str:
    """What a case of the corpus shows; "" if it is mended."""
    parts, edits = map(eval, path.read_text().splitlines()[:2])
    return told_by(Program(tuple(parts), tuple(map(tuple, edits))))
