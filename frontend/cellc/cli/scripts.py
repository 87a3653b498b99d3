"""Scripts of MindSpore, run with cellc in its place."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from .. import shim
from .errors import UserError


def run_script(file: str, arguments: Sequence[str]) -> None:
    """Run a script as `python FILE ARGUMENTS` would, with `mindspore` answered by cellc."""
    if not Path(file).is_file():
        raise UserError(f"{file}: no such file")
    shim.install()
    sys.argv = [file, *arguments]
    sys.path.insert(0, str(Path(file).resolve().parent))
    runpy.run_path(file, run_name="__main__")


def run_module(name: str, arguments: Sequence[str]) -> None:
    """Run a module as `python -m NAME ARGUMENTS` would, with `mindspore` answered by cellc."""
    shim.install()
    sys.argv = [name, *arguments]
    sys.path.insert(0, str(Path.cwd()))
    runpy.run_module(name, run_name="__main__", alter_sys=True)
