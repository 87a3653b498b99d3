"""The rows of calls/*.txt: read, run, and shown as at Python's prompt.

A row is a name, a colon, and statements with "; " between them; the last is a call, whose result
is shown after all that was printed. Lines that begin with two spaces continue a statement.

- `folder` is the path of an empty folder, made for this row.
- A first statement `# NAME` fills the folder with the collection NAME of tests/dataset/folders.py
  and lists its files; after `# NAME PART PART` those whose path begins with a part. One part that
  is a folder takes the place of `folder`.
- The last statement of a row with a `!`, before it or the first one, raises an error, which is
  shown.

A row leaves options, seeds and settings as they were, so that rows can run in any order.
"""

from __future__ import annotations

import ast
import importlib
import io
import os
import re
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import cellc as ms
import cellc_runtime
from cellc import dataset as ds
from cellc import mint, nn, ops
from cellc import numpy as mnp
from cellc.dataset import audio, text, transforms, vision

ROOT = Path(__file__).parents[2]
MOST_LINES, MOST_COLUMNS = 8, 84
NAMESPACE: dict[str, Any] = {
    "ms": ms, "nn": nn, "ops": ops, "mint": mint, "mnp": mnp, "np": np, "ds": ds, "audio": audio,
    "text": text, "transforms": transforms, "vision": vision, "Path": Path,
    "cellc_runtime": cellc_runtime, "__name__": "__main__"}
IMPORTS = ("import numpy as np", "import cellc as ms", "from cellc import mint, nn, ops",
           "import cellc.numpy as mnp", "import cellc.dataset as ds",
           "from cellc.dataset import audio, text, transforms, vision", "import cellc_runtime",
           "import tempfile", "from pathlib import Path")
"""The lines that make the names of `NAMESPACE`, for readers."""


def read_rows(folder: Path) -> dict[str, str]:
    """The statements of each name, of all files of a folder."""
    found = {}
    for path in sorted(folder.glob("*.txt")):
        for row in re.split(r"\n(?=\S)", path.read_text(encoding="utf-8").rstrip("\n")):
            name, _, statements = row.partition(": ")
            found[name] = statements.replace("\n  ", "\n")
    return found


@contextmanager
def _unchanged() -> Iterator[None]:
    """Options, seeds, threads and settings of parallel training are as before after the block."""
    before = {key: ms.get_context(key) for key in ("mode", "numerics", "device_target")}
    state, threads = ms.get_rng_state(), cellc_runtime.num_threads()
    joined = ms.communication.GlobalComm.INITED
    seed, workers = ds.config.get_seed(), ds.config.get_num_parallel_workers()
    try:
        yield
    finally:
        if ms.communication.GlobalComm.INITED and not joined:
            ms.communication.release()
        ms.set_context(**before)
        ms.set_rng_state(state)
        ms.reset_auto_parallel_context()
        cellc_runtime.set_num_threads(threads)
        ds.config.set_seed(seed)
        ds.config.set_num_parallel_workers(workers)


def _fill(folder: str, collection: str, *parts: str) -> tuple[str, str]:
    """Write a collection of the tests into a folder; the folder, and its files as a comment."""
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    folders = importlib.import_module("tests.dataset.folders")
    made = folders.Folder.__new__(folders.Folder)
    made.path = folder
    folders.COLLECTIONS[collection](ds, made)
    if len(parts) == 1 and Path(folder, parts[0]).is_dir():
        folder, parts = f"{folder}/{parts[0]}", ()
    files = sorted(p.relative_to(folder).as_posix() for p in Path(folder).rglob("*")
                   if p.is_file())
    files = [f for f in files if not parts or f.startswith(parts)]
    lines = textwrap.wrap("files in folder: " + ", ".join(files), MOST_COLUMNS - 6)
    more = ["..."] if len(lines) > 3 else []
    return folder, "\n".join(f">>> # {line}" for line in lines[:3] + more)


def as_text(result: Any) -> str:
    """A result as the prompt shows it; each Tensor of several on lines of its own."""
    if isinstance(result, (tuple, list)) and any(isinstance(r, ms.Tensor) for r in result):
        return "\n".join(map(as_text, result))
    return repr(result) if isinstance(result, str) and "\n" not in result else str(result)


def _evaluate(statements: list[str], names: dict[str, Any]) -> Any:
    """Run statements; the value of the last, if it has one. Line numbers are those of the whole
    text, so that functions find their source."""
    source = "\n".join(statements)
    names["__source__"] = source
    *first, last = ast.parse(source).body
    exec(compile(ast.Module(first, []), "<example>", "exec"), names)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), "<example>", "eval"), names)
    exec(compile(ast.Module([last], []), "<example>", "exec"), names)
    return None


def _result(statements: list[str], names: dict[str, Any]) -> str:
    """What the last statement prints and gives; for `!CALL`, the error that it raises."""
    raises = any(s.startswith("!") for s in statements)
    statements = [s.removeprefix("!") for s in statements]
    said = io.StringIO()
    with warnings.catch_warnings(), redirect_stdout(said), redirect_stderr(said):
        warnings.simplefilter("ignore")
        try:
            result = _evaluate(statements, names)
        except Exception as error:
            if not raises:
                raise
            lines = f"{type(error).__name__}: {error}".splitlines()
            return "\n".join(part for line in lines for part in textwrap.wrap(
                line, MOST_COLUMNS, subsequent_indent="    ", drop_whitespace=True))
    if raises:
        raise ValueError("no error was raised")
    return said.getvalue() + ("" if result is None else as_text(result))


def show(row: str) -> str:
    """The statements of a row after prompts, and what they give.

    Raises:
        ValueError: they fail, or give too much.
    """
    statements = row.split("; ")
    with tempfile.TemporaryDirectory() as folder, _unchanged():
        listed = []
        if statements[0].startswith("# "):
            folder, files = _fill(folder, *statements.pop(0)[2:].split())
            listed.append(files)
        elif re.search(r"\bfolder\b", row):
            listed.append(">>> folder = tempfile.mkdtemp()")
        before = os.getcwd()
        try:
            shown = _result(statements, {**NAMESPACE, "folder": folder})
        except Exception as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        finally:
            os.chdir(before)
    shown = shown.replace(folder, "folder").replace(f"{ROOT}/", "").rstrip("\n")
    lines = shown.splitlines()
    if len(lines) > MOST_LINES or any(len(line) > MOST_COLUMNS for line in lines) or (
            re.search(r" at 0x", shown)):
        raise ValueError(f"the result is too long, or has an address:\n{shown}")
    prompts = [">>> " + s.removeprefix("!").replace("\n", "\n... ") for s in statements]
    return "\n".join([*listed, *prompts, *([shown] if shown else [])])


CALLS = read_rows(Path(__file__).with_name("calls"))
"""The statements of a name, by place and name."""


@cache
def _by_object() -> dict[int, str]:
    """The name with a row of each function and class."""
    found: dict[int, str] = {}
    for name in CALLS:
        value: Any = cellc_runtime if name.startswith("_runtime.") else ms
        for part in name.removeprefix("_runtime.").split("."):
            value = getattr(value, part, None)
        if value is not None:
            found.setdefault(id(value), name)
    return found


def row_of(name: str, value: Any) -> str | None:
    """The row of a name; that of the same object in another place, with this name's path."""
    if name in CALLS:
        return CALLS[name]
    other = _by_object().get(id(value))
    if other not in CALLS:
        return None
    path = name if name.partition(".")[0] in NAMESPACE else f"ms.{name}"
    row, count = re.subn(rf"(?<![\w.])(ms\.)?{re.escape(other)}\b", path, CALLS[other])
    return row if count else None
