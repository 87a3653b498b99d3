"""Write `docs/api.md`: which of MindSpore's public names cellc has.

Needs an interpreter with MindSpore to compare with:

    CELLC_ORACLE_PYTHON=/path/to/python python docs/make_api.py [--check]

Names come from `__all__` (or `dir`) of MindSpore's modules and classes, parameters from
`inspect.signature`. Nothing else of MindSpore is read.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parent / "api.md"

COMPARED: tuple[tuple[str, str], ...] = (
    ("", "The package itself"),
    ("nn", "Cells, losses and optimizers"),
    ("ops", "Functions and Primitive classes"),
    ("Tensor", "Attributes and methods of Tensor"),
    ("Parameter", "Attributes and methods that Parameter adds to Tensor"),
    ("nn.Cell", "Attributes and methods of Cell"),
    ("common.initializer", "Initializers"),
    ("train", "Training loop, callbacks, metrics"),
    ("amp", "Mixed precision"),
    ("numpy", "numpy's functions on Tensors"),
    ("mint", "Functions with PyTorch's names"),
    ("mint.nn", "Layers and losses with PyTorch's names"),
    ("mint.nn.functional", "Functions of networks with PyTorch's names"),
    ("mint.optim", "Optimizers with PyTorch's names"),
    ("experimental.optim", "Optimizers with groups that change"),
    ("context", "Settings"),
    ("communication", "Processes that work together"),
    ("communication.comm_func", "Collectives with results"),
    ("mint.distributed", "Collectives with PyTorch's names"),
    ("parallel", "Several devices"),
    ("parallel.distributed", "Data parallelism of a network that is wrapped"),
    ("parallel.nn", "Networks in parts of their batch"),
    ("parallel.strategy", "Layouts while a job runs"),
    ("runtime", "Memory and threads"),
    ("hal", "Devices"),
    ("profiler", "Profiles"),
    ("dataset", "Input pipelines"), ("mindrecord", "MindRecord files"),
    ("dataset.transforms", "Transforms of any columns"),
    ("dataset.dataloader", "Batches of Python objects"),
    ("dataset.vision", "Transforms of images"), ("dataset.audio", "Transforms of sound"),
    ("scipy.linalg", "Linear algebra with scipy's names"),
    ("scipy.fft", "Cosine transforms with scipy's names"),
    ("scipy.optimize", "Optimization with scipy's names"),
    ("nn.probability.distribution", "Distributions"),
    ("nn.probability.bijector", "Bijectors"),
)
ABSENT = ("rewrite", "boost")

# Run by both interpreters, so that both sides are listed by the same rules.
LISTING = '''
import importlib, inspect, json, sys
from inspect import getattr_static

def find(package, path):
    try:
        return importlib.import_module(package + ("." + path if path else ""))
    except ImportError:
        owner, _, name = path.rpartition(".")
        return getattr(importlib.import_module(package + ("." + owner if owner else "")), name)

def parameters(value):
    try:
        kinds = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in kinds):
        return None
    return [p.name for p in kinds if p.name != "self"]

def listed(owner, path):
    """Public names that are there, with parameters, and those that are meant to be found."""
    public = getattr(owner, "__all__", None) if inspect.ismodule(owner) else None
    there = {}
    for n in {*dir(owner), *(public or ())}:
        if n.isidentifier() and not n.startswith("_") and hasattr(owner, n):
            # Of a module, names may load when they are asked for; of a class, properties must not
            # be asked for.
            value = getattr(owner, n) if inspect.ismodule(owner) else getattr_static(owner, n)
            if not inspect.ismodule(value):
                there[n] = parameters(getattr(owner, n))
    own = [n for n in there if public is None or n in public]
    if path == "Parameter":  # what it adds to Tensor
        own = [n for n in own if not hasattr(owner.__mro__[1], n)]
    return {"there": there, "public": own}

package, *paths = sys.argv[1:]
result = {}
for path in paths:
    try:
        result[path] = listed(find(package, path), path)
    except (ImportError, AttributeError):
        result[path] = None
print("NAMES" + json.dumps(result))
'''

HEAD = """\
# What of MindSpore's API is covered

This page is made by `docs/make_api.py`, which compares names with MindSpore {version}; do not
edit it by hand. A name counts as covered if cellc has it at the same place. That says that it is
there and meant to behave the same; it does not say that every option has been compared.
Functions whose parameter names lack some of MindSpore's are listed apart.

MindSpore's lists hold names that its documentation does not, such as internal primitives of
other devices (`ops` is the worst case), so 100 % is not the aim.

| Place | Covered | Of | |
|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Names:
    """What is at one place.

    Attributes:
        there: every public name, with its parameters where they are known.
        public: those that the place lists as its own.
    """

    there: dict[str, list[str] | None]
    public: list[str]


Places = dict[str, Names | None]


def names_of(python: str, package: str) -> Places:
    """Public names, with parameter names where they are known, at each place."""
    paths = [p for p, _ in COMPARED] + list(ABSENT)
    done = subprocess.run([python, "-c", LISTING, package, *paths], capture_output=True,
                          text=True, check=True)
    line = next(x for x in done.stdout.splitlines() if x.startswith("NAMES"))
    result = json.loads(line.removeprefix("NAMES"))
    return {p: None if v is None else Names(**v) for p, v in result.items()}


def version_of(python: str) -> str:
    """MindSpore's version."""
    code = "import importlib.metadata as m; print(m.version('mindspore'))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True,
                          check=True).stdout.strip()


def _list(names: Sequence[str]) -> list[str]:
    text = ", ".join(f"`{n}`" for n in names) or "none"
    return textwrap.wrap(text, 98, break_long_words=False, break_on_hyphens=False)


def _place(path: str) -> str:
    return f"`mindspore.{path}`" if path else "`mindspore`"


def page(theirs: Places, ours: Places, version: str) -> str:
    """The whole page."""
    return "\n".join([HEAD.format(version=version).rstrip(), *_lines(theirs, ours)]) + "\n"


def _lines(theirs: Places, ours: Places) -> Iterator[str]:
    nothing = Names({}, [])
    pairs = {path: (theirs[path] or nothing, ours[path] or nothing) for path, _ in COMPARED}
    for path, what in COMPARED:
        want, have = pairs[path]
        covered = sum(n in have.there for n in want.public)
        yield f"| {_place(path)} | {covered} | {len(want.public)} | {what} |"
    for path in ABSENT:
        mine, count = ours[path], len((theirs[path] or nothing).public)
        yield f"| {_place(path)} | {len(mine.public) if mine else 0} | {count} | |"
    for path, what in COMPARED:
        want, have = pairs[path]
        if have.there:
            yield from _section(path, what, want, have)


def _section(path: str, what: str, want: Names, have: Names) -> Iterator[str]:
    covered = sorted(n for n in want.public if n in have.there)
    missing = sorted(n for n in want.public if n not in have.there)
    different = [f"{n} ({', '.join(lacking)})" for n in covered
                 if (lacking := _lacking(want.there[n], have.there[n]))]
    extra = sorted(n for n in have.public if n not in want.there)
    yield from ("", f"## {_place(path)}: {what.lower()}")
    for title, names in (
        ("Covered", covered),
        ("Covered, without these parameters", different),
        ("Missing functions", [n for n in missing if not n[0].isupper()]),
        ("Missing classes and constants", [n for n in missing if n[0].isupper()]),
        ("Only in cellc", extra),
    ):
        if names:
            yield from ("", f"{title}:", "", *_list(names))


def _lacking(want: list[str] | None, have: list[str] | None) -> list[str]:
    if want is None or have is None:
        return []
    return [p for p in want if p not in have]


def main() -> int:
    """Write the page, or check it."""
    oracle = os.environ.get("CELLC_ORACLE_PYTHON")
    if not oracle:
        print("set CELLC_ORACLE_PYTHON to a Python that has MindSpore", file=sys.stderr)
        return 2
    text = page(names_of(oracle, "mindspore"), names_of(sys.executable, "cellc"),
                version_of(oracle))
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print("docs/api.md is not current: run `python docs/make_api.py`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
