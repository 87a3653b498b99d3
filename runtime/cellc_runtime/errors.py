"""Errors a compiled program raises, each with the place in the user's source it stands for."""

from __future__ import annotations

import builtins
import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any


class CollectiveError(RuntimeError):
    """Ranks disagree about a collective, one of them has not reached it in time, or none can."""


class ArtifactError(ValueError):
    """A file is corrupt, truncated, of another version, or not ours."""


class CutOff(ArtifactError):
    """A file ends before what it says it holds."""


class UnsupportedType(ArtifactError):
    """A file is valid, but holds elements of a type that tensors do not have."""


_MANY = {"axis": "axes", "entry": "entries"}


def counted(n: int, what: str) -> str:
    """A number of things, for messages: "1 weight", "2 weights", "0 entries"."""
    return f"{n} {what if n == 1 else _MANY.get(what, what + 's')}"


@contextlib.contextmanager
def in_file(name: str | os.PathLike[str]) -> Iterator[None]:
    """Add a file's name to the errors of reading it.

    Raises:
        ArtifactError: the same, with the name before it.
    """
    try:
        yield
    except ArtifactError as error:
        raise type(error)(f"{os.fspath(name)}: {error}") from None


_LIBRARY = ("cellc", "cellc_compiler", "cellc_runtime", "IPython", "ipykernel")
"""Packages whose lines tell a user of a network nothing."""


class InNotebook:
    """For errors that say where in a network they are: a notebook shows the user's own lines above
    the message, and leaves out the library's."""

    def _render_traceback_(self: Any, *given: Any) -> list[str]:
        """Return the lines that IPython shows instead of the traceback."""
        frames = [f for f in traceback.walk_tb(self.__traceback__)
                  if str(f[0].f_globals.get("__name__")).partition(".")[0] not in _LIBRARY]
        where = "".join(traceback.StackSummary.extract(frames).format())
        for file in {frame.f_code.co_filename for frame, _ in frames}:
            where = where.replace(f'File "{file}"', long_name(file))
        text = "\n".join([f"{type(self).__name__}: {self}", *getattr(self, "__notes__", ())])
        return [*where.splitlines(), *text.splitlines()]


class RunError(RuntimeError, InNotebook):
    """A compiled program stopped with an error."""

    file: str = ""  # the user's source file, or `""`
    line: int = 0  # line in it, or 0


class RunIndexError(RunError, IndexError):
    """An index was out of range."""


class RunAssertionError(RunError, AssertionError):
    """A condition the program asserts did not hold."""


def _classes() -> dict[str, type[RunError]]:
    """A class for each builtin kind of exception that can be one of ours too."""
    found: dict[str, type[RunError]] = {
        "Exception": RunError, "RuntimeError": RunError, "IndexError": RunIndexError,
        "AssertionError": RunAssertionError,
    }
    for name, cls in vars(builtins).items():
        if isinstance(cls, type) and issubclass(cls, Exception) and name == cls.__name__ \
                and not issubclass(cls, (ExceptionGroup, RuntimeError)):
            found.setdefault(name, _derived(cls))
    for cls in (NotImplementedError, RecursionError):
        found[cls.__name__] = _derived(cls)
    return found


def _derived(cls: type[Exception]) -> type[RunError]:
    doc = f"A {cls.__name__} raised by a compiled program."
    return type(f"Run{cls.__name__}", (RunError, cls), {"__doc__": doc, "__module__": __name__})


RUN_ERRORS: dict[str, type[RunError]] = _classes()
"""Kinds of error a program may name, and what is raised for each."""


_derivatives: dict[type[Exception], type[RunError]] = {}


def _own(cls: type[Exception]) -> type[RunError]:
    """A user's class as one of ours; its text is what the program says."""
    if cls not in _derivatives:
        _derivatives[cls] = _combined(cls)
    return _derivatives[cls]


def _combined(cls: type[Exception]) -> type[RunError]:
    body = {"__doc__": cls.__doc__, "__module__": cls.__module__,
            "__str__": lambda self: self.args[0]}
    try:
        return type(cls.__name__, (RunError, cls), body)
    except TypeError:  # it cannot be combined with a RuntimeError
        return RunError


def message_text(
    parts: Sequence[str | int | None], element: Any, values: Iterable[Any],
    show: Callable[[Any], str],
) -> str:
    """The text of a message: strings, 0 for the element, None for the next of the values."""
    rest = iter(values)
    return "".join(
        part if isinstance(part, str) else show(next(rest)) if part is None else str(element)
        for part in parts
    )


def run_error(
    kind: str, text: str, file: str, line: int, detail: str = "",
    own: type[Exception] | None = None,
) -> RunError:
    """Return the exception for one run-time error, with a note of its origin."""
    cls = RUN_ERRORS.get(kind, RunError) if own is None else _own(own)
    error = cls.__new__(cls, text)  # a user's own `__init__` may want other arguments
    error.args = (text,)
    where = detail or (f"  at {file}:{line}" if file else "")
    if where:
        error.add_note(where)
    error.file, error.line = file, line
    return error


# --- names of source files ------------------------------------------------------------------------
# The file of a notebook's cell has a name that its text gives (a number of 8 digits), which
# tells a reader nothing. IPython knows which cell it is; its tracebacks say `Cell In[3], line 2`.


def cell_name(file: str) -> str:
    """`In[3]` for the file of the third cell of a notebook or of IPython's prompt; else ""."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", str)()
    format_name = getattr(getattr(shell, "compile", None), "format_code_name", None)
    found = None if format_name is None else format_name(file)
    return found[1] if found else ""


def short_name(file: str) -> str:
    """A file without its folders, or a notebook's cell (`In[3]`)."""
    known = "IPython" in sys.modules and cell_name(file)
    return known or file.replace("\\", "/").rpartition("/")[2]


def long_name(file: str) -> str:
    """A file as tracebacks have it: `File "/home/user/net.py"`, `Cell In[3]`."""
    cell = cell_name(file)
    return f"Cell {cell}" if cell else f'File "{file}"'
