"""Which interpreter of the process this is: compiled code, its threads and numpy exist once."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # `typing` alone would cost more than the package

if TYPE_CHECKING:
    from typing import Any


def refuse_subinterpreters() -> None:
    """Raise unless this is the main interpreter.

    Raises:
        ImportError: it is a sub-interpreter.
    """
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
