"""The runtime of compiled networks; imports numpy and the standard library only.

Importing the package itself is light: the names below load their module (and numpy) on first
use.
"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # `typing` alone would cost ten times the rest; type checkers know the name

if TYPE_CHECKING:
    from typing import Any

    from .artifact import Artifact, load
    from .errors import ArtifactError, RunError
    from .executable import Executable
    from .loader import num_threads, set_num_threads
    from .program import Program, Slot

__version__ = "0.1.0"


def _refuse_subinterpreters() -> None:
    """Raise unless this is the main interpreter: compiled code, its threads and numpy exist once.
    Raises ImportError if it is a sub-interpreter."""
    for name in ("_interpreters", "_xxsubinterpreters"):  # from Python 3.13 on; before
        try:
            module = import_module(name)
        except ImportError:
            continue
        if _number(module.get_current()) != _number(module.get_main()):
            raise ImportError(
                "cellc runs in the main interpreter of a process, and this is a sub-interpreter: "
                "numpy and compiled code are there once in a process. Use threads, or processes "
                "(multiprocessing).")
        return


def _number(interpreter: Any) -> int:
    """The number of an interpreter; from 3.13 on it comes with who made it."""
    return int(interpreter[0] if isinstance(interpreter, tuple) else interpreter)


def _refuse_free_threads() -> None:
    """Raise unless threads take turns: tables of what is compiled are guarded by Python's lock.
    Raises ImportError if this Python runs without its global lock."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():  # from Python 3.13 on
        raise ImportError(
            "cellc needs Python's global lock, and this free-threaded Python runs without it: "
            "start it with -X gil=1 or PYTHON_GIL=1 (kernels run in parallel and without the lock "
            "in any case).")


_refuse_subinterpreters()
_refuse_free_threads()

_HOME = {
    "Artifact": "artifact",
    "load": "artifact",
    "ArtifactError": "errors",
    "RunError": "errors",
    "Executable": "executable",
    "num_threads": "loader",
    "set_num_threads": "loader",
    "Program": "program",
    "Slot": "program",
}

__all__ = [
    "Artifact",
    "ArtifactError",
    "Executable",
    "Program",
    "RunError",
    "Slot",
    "__version__",
    "load",
    "num_threads",
    "set_num_threads",
]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.lazy").imported(f".{home}", __name__), name)
