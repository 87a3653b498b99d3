"""Run a page of the documentation from top to bottom, and compare what it shows with the run.

    python -m tests.pages docs/tutorials/first-network.md           # compares
    python -m tests.pages docs/tutorials/first-network.md --update  # writes its outputs

All blocks of a page run in one folder, which has nothing but `samples` at first:

- ```` ```python ```` runs, in one module for the whole page. An exception that ends a block is its
  last output. ```` ```python title="net.py" ```` (any language) writes a file instead.
- ```` ```text ```` behind such a block is what it prints.
- ```` ```console ```` holds commands (lines that begin with `$`) and what each prints.
  A script that imports torch runs where CELLC_PEERS_PYTHON names an interpreter that has it;
  without one, the rest of its section does not run.
- ```` ```sh ```` may only install packages; it is not run.

`shown.difference` says which differences count.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from tests.cli.shown import difference
from tests.others import PEERS

ROOT = Path(__file__).parents[1]
PROGRAMS = {"cellc": ["-m", "cellc"], "python": [], "msrun": ["-m", "cellc.cli.launching"],
            "pytest": ["-m", "pytest", "-p", "no:cacheprovider"]}
"""Commands that the interpreter runs itself."""
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
_FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```\n", re.M | re.S)


@dataclass(slots=True)
class Step:
    """A block that runs.

    Attributes:
        kind: "python", "file" or "command".
        text: the code, or one command.
        line: the line of the page at which the text begins, from 1.
        name: of a file.
        shown: the lines that the page shows behind it; None if it shows no output.
        place: where these lines are in the page, as start and end; for an update.
    """

    kind: str
    text: str
    line: int
    name: str = ""
    shown: list[str] | None = None
    place: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Result:
    """What a step printed, and how that differs from the page ("" if it does not)."""

    step: Step
    printed: list[str] = field(default_factory=list)
    differs: str = ""


def steps(page: str) -> list[Step]:
    """The steps of a page, in order."""
    found: list[Step] = []
    end = 0
    for fence in _FENCE.finditer(page):
        language, title, body = fence.groups()
        line = page.count("\n", 0, fence.start(3)) + 1
        if title or language == "python":
            found.append(Step("file" if title else "python", body, line, title or ""))
        elif language == "text" and found and not page[end:fence.start()].strip():
            found[-1].shown, found[-1].place = body.splitlines(), fence.span(3)
        elif language == "console":
            found += _commands(body, fence.start(3), line)
        elif language == "sh":
            assert all(row.startswith("pip install ") for row in body.splitlines()), body
        end = fence.end()
    return found


def _commands(body: str, start: int, line: int) -> Iterator[Step]:
    """The commands of a block; a line that ends with a backslash goes on."""
    current: Step | None = None
    at, rows = start, body.splitlines(keepends=True)
    for number, row in enumerate(rows):
        at += len(row)
        if row.startswith("$ "):
            if current is not None:
                yield current
            current = Step("command", row[2:].rstrip("\n"), line + number, shown=[], place=(at, at))
        elif current is not None and current.text.endswith("\\"):
            current.text = current.text[:-1] + row.strip()
            current.place = (at, at)
        elif current is not None and current.shown is not None:
            current.shown.append(row.rstrip("\n"))
            current.place = (current.place[0], at)
    if current is not None:
        yield current


def run(page: Path, folder: Path) -> list[Result]:
    """Run a page in a folder, which becomes the current one."""
    text = page.read_text(encoding="utf-8")
    todo = steps(text)
    script = folder / "page.py"
    (folder / "samples").symlink_to(ROOT / "samples")
    whole = ""
    for step in todo:
        if step.kind == "python":  # line numbers in messages are those of all code so far
            step.text, whole = "\n" * whole.count("\n") + step.text, f"{whole}{step.text}\n\n"
    script.write_text(whole, encoding="utf-8")
    module = ModuleType("__main__")
    module.__file__ = str(script)
    sys.modules["__main__"] = module
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    results, missing = [], 0
    for step in todo:
        printed = _printed(step, script, module, folder) if step.line > missing else None
        if printed is None and step.line > missing:
            missing = _last_line(text, step.line)
        results.append(_checked(step, printed))
    return results


def _last_line(text: str, line: int) -> int:
    """The last line of the section of a line of a page."""
    rows = text.splitlines()
    headings = (i for i, row in enumerate(rows) if i >= line and row.startswith("## "))
    return next(headings, len(rows))


def _printed(
    step: Step, script: Path, module: ModuleType, folder: Path
) -> list[str] | None:
    if step.kind == "file":
        (folder / step.name).write_text(step.text, encoding="utf-8")
        return []
    if step.kind == "command":
        return _command(step.text, folder)
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(io.StringIO()):
        code = compile(step.text, str(script), "exec")
        try:
            exec(code, vars(module))
        except Exception as error:
            if step.shown is None:
                raise
            print("".join(traceback.format_exception_only(error)).rstrip())
    return _lines(said.getvalue(), folder)


def _python(program: str, arguments: list[str], folder: Path) -> str:
    """The interpreter of a command: the peers' for a script of theirs, "" if there is none."""
    script = folder / arguments[0] if program == "python" and arguments[0] != "-c" else None
    theirs = script is not None and "import torch" in script.read_text()
    return PEERS if theirs else sys.executable


def _command(line: str, folder: Path) -> list[str] | None:
    """What a command prints; None if nothing here can run it."""
    program, *arguments = shlex.split(line, comments=True)
    python = _python(program, arguments, folder)
    if not python:
        return None
    command = ([python, *PROGRAMS[program]] if program in PROGRAMS else [program]) + arguments
    done = subprocess.run(
        command, cwd=folder, text=True, check=False, timeout=600,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, **MPI, "COLUMNS": "100", "PYTHONPATH": os.pathsep.join(sys.path),
             "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])})
    return _lines(done.stdout, folder)


def _lines(printed: str, folder: Path) -> list[str]:
    """The lines of a text, with file names as a page shows them."""
    return [row.rstrip() for row in printed.replace(f"{folder}/", "").rstrip().splitlines()]


def _checked(step: Step, printed: list[str] | None) -> Result:
    if printed is None:
        return Result(step)
    differs = ""
    if step.shown is None:
        differs = f"it printed: {printed}" if printed and step.kind == "python" else ""
    else:
        shown = list(step.shown)
        while shown and not shown[-1].strip():
            shown.pop()
        differs = difference(shown, printed)
    return Result(step, printed, differs)


def updated(text: str, results: list[Result]) -> str:
    """The page with what was printed in the place of what it shows, where that differs."""
    for result in reversed(results):
        if result.differs and result.step.shown is not None:
            start, end = result.step.place
            text = text[:start] + "".join(f"{row}\n" for row in result.printed) + text[end:]
    return text


def main(arguments: list[str]) -> int:
    """Run the page that the arguments name."""
    page = Path(arguments[0]).resolve()
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as cache:
        os.environ["CELLC_CACHE_DIR"] = cache  # so that each run compiles the same
        results = run(page, Path(name).resolve())
        os.chdir(ROOT)
    for result in results:
        if result.differs:
            print(f"{page.name}:{result.step.line}: {result.differs}\nprinted:",
                  *result.printed, sep="\n  ")
    if "--update" in arguments:
        text = page.read_text(encoding="utf-8")
        page.write_text(updated(text, results), encoding="utf-8")
    return int(any(r.differs for r in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
