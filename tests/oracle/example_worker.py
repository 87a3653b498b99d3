"""Collects and runs documentation examples, in a process of MindSpore's or of cellc's Python.

    python example_worker.py extract NAMES.json EXAMPLES.json
    python example_worker.py run mindspore|cellc EXAMPLES.json RESULTS.jsonl

Standard library only at the top, since it runs in both installations.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import io
import json
import linecache
import os
import random
import re
import signal
import sys
import warnings
from types import FrameType
from typing import Any

SECONDS = 20
SCOPES = ("mindspore.ops", "mindspore.nn", "mindspore.Tensor", "mindspore", "mindspore.numpy",
          "mindspore.mint", "mindspore.mint.nn.functional")


def owner(scope: str) -> Any:
    """The module or class that a dotted name means."""
    package = importlib.import_module("mindspore")
    for part in scope.split(".")[1:]:
        package = getattr(package, part)
    return package


def public_names(scope: str) -> list[str]:
    """What a scope offers."""
    return sorted(n for n in dir(owner(scope)) if not n.startswith("_"))


def source_of(doc: str | None) -> str:
    """The `>>>` lines of a docstring, as one program ("" if there are none)."""
    try:
        return "".join(e.source for e in doctest.DocTestParser().get_examples(doc or ""))
    except ValueError:  # a malformed docstring
        return ""


def extract(names: dict[str, list[str]]) -> dict[str, str]:
    """Examples by dotted name; each program once, under the first name that has it."""
    found: dict[str, str] = {}
    for scope, offered in names.items():
        for name in offered:
            text = source_of(getattr(getattr(owner(scope), name, None), "__doc__", None))
            if text and text not in found.values():
                found[f"{scope}.{name}"] = text
    return found


def _late(signum: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"no end after {SECONDS} s")


def _statements(text: str, name: str) -> None:
    """Run a program statement by statement, printing values as the interactive prompt does.

    The program gets a file: construct compilers read the source of what they compile.
    """
    path = name + ".py"
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    linecache.checkcache(path)
    space: dict[str, Any] = {"__name__": "__main__", "__file__": path}
    for node in ast.parse(text, path).body:
        exec(compile(ast.Interactive([node]), os.path.abspath(path), "single"), space)


def run_one(name: str, text: str) -> dict[str, str]:
    """What an example prints, and the error that ended it ("" for none)."""
    import numpy as np  # both installations have it; `extract` does without

    ms: Any = importlib.import_module("mindspore")
    ms.set_context(mode=ms.PYNATIVE_MODE)
    ms.set_seed(1)
    np.random.seed(0)
    random.seed(0)
    np.set_printoptions()
    out, error = io.StringIO(), ""
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _statements(text, name)
    except (Exception, SystemExit) as e:
        error = f"{type(e).__name__}: {e}"
    finally:
        signal.alarm(0)
    # Two providers never agree on their own name and on addresses.
    shown = re.sub(r" at 0x[0-9a-f]+", "", out.getvalue()).replace("cellc.", "mindspore.")
    return {"name": name, "out": shown, "error": error}


def main() -> None:
    """Do what the command line says."""
    if sys.argv[1] == "extract":
        with open(sys.argv[2], encoding="utf-8") as f:
            found = extract(json.load(f))
        with open(sys.argv[3], "w", encoding="utf-8") as f:
            json.dump(found, f)
        return
    if sys.argv[2] == "cellc":
        importlib.import_module("cellc.shim").install()
    signal.signal(signal.SIGALRM, _late)
    with open(sys.argv[3], encoding="utf-8") as f:
        examples = json.load(f)
    with open(sys.argv[4], "a", encoding="utf-8") as results:
        for name, text in examples.items():
            results.write(json.dumps({"name": name}) + "\n")  # if it dies, this one did it
            results.flush()
            results.write(json.dumps(run_one(name, text)) + "\n")
            results.flush()


if __name__ == "__main__":
    main()
