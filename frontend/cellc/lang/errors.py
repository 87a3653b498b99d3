"""Compile errors: one class per builtin kind, a stable code, a place in the source, a hint.

Two sorts of exception meet in the interpreter. A `CompileError` states a limit of the language;
user code cannot catch it. Any other exception comes from the user's program (a wrong shape, an
undefined name, a `raise`) and can be caught by its `try`; it becomes a `CompileError` of the same
kind when it leaves the compiled function.
"""

from __future__ import annotations

import dis
import linecache
import re
from collections.abc import Hashable, Sequence
from pathlib import Path

from cellc_compiler.ir.graph import Node, Span
from cellc_runtime.errors import InNotebook, long_name
from cellc_runtime.records import dataclass

from ..tracing.tracer import ElementsUnknown, SizeInside

_RAISE = dis.opmap["RAISE_VARARGS"]
CODES: dict[str, str] = {
    "CE001": "the source of a function is not available",
    "CE002": "the source of a function changed after it was imported",
    "CE101": "a statement the compiler does not accept",
    "CE102": "an expression the compiler does not accept",
    "CE103": "a generator that a graph cannot follow, or an async function",
    "CE201": "a name that is not defined",
    "CE202": "a local variable read before it is assigned",
    "CE203": "a variable defined in one branch only",
    "CE204": "a variable of different types in two branches",
    "CE205": "a variable that changes its type in a loop",
    "CE206": "a variable defined only inside a loop that may not run",
    "CE208": "a list, dict or object that changes its structure in a run-time branch or loop",
    "CE301": "a third-party function called on tensors",
    "CE302": "a builtin that does not take tensors",
    "CE303": "a builtin that is not available while a graph is compiled",
    "CE304": "recursion without end",
    "CE307": "a function that reads or changes the world outside of the network",
    "CE308": "an iterator that was there before, taken further",
    "CE309": "what only Python can do, where the syntax level is STRICT",
    "CE310": "what Python gives, where that is not known while compiling",
    "CE401": "the truth value of a tensor with more than one element",
    "CE402": "a function that returns different types on two paths",
    "CE403": "an exception that depends on a run-time value where it cannot",
    "CE404": "a statement that cannot depend on a run-time value",
    "CE501": "an attribute that cannot be set by a compiled function, or not to such a value",
    "CE502": "an attribute that is no number or tensor, set under a run-time condition",
    "CE504": "a network that changes Python objects, for a file that has none",
    "CE601": "an operand of a wrong type",
    "CE602": "an operand of a wrong shape or value",
    "CE603": "an index or key that does not exist",
    "CE604": "an attribute that does not exist",
    "CE605": "a division by zero, or another arithmetic error",
    "CE606": "a run-time error raised while compiling",
    "CE607": "a failed assertion",
    "CE608": "another exception raised while compiling",
    "CE701": "an assertion that failed while the network ran",
    "CE702": "an exception raised while the network ran",
    "CE703": "a position, or a size, out of range, found while the network ran",
    "CE801": "a network that cannot be cut into stages as its Cells say",
}
"""Every code and what it is for."""


@dataclass(frozen=True, slots=True)
class Place:
    """A position in the source, with what a reader needs to find it.

    Attributes:
        span: file, line and columns (bytes, as in `ast`).
        text: the source line.
        function: qualified name of the function.
        scope: path of the Cell, or "".
    """

    span: Span
    text: str
    function: str
    scope: str = ""

    def where(self) -> str:
        """File, line and function in the form of a Python traceback."""
        cell = f" (cell {self.scope})" if self.scope else ""
        return f"{long_name(self.span.file)}, line {self.span.line}, in {self.function}{cell}"

    def caret(self) -> str:
        """The source line with the offending part underlined."""
        raw = self.text.encode()
        lead = len(raw) - len(raw.lstrip())
        start = max(self.span.column - lead, 0)
        end = len(raw.rstrip()) - lead
        if self.span.end_line == self.span.line and self.span.end_column is not None:
            end = self.span.end_column - lead
        body = raw.strip()
        left = body[:start].decode(errors="replace")
        width = max(len(body[start:end].decode(errors="replace")), 1)
        return f"{self.text.strip()}\n{' ' * len(left)}{'^' * width}"


class CellcError(Exception):
    """Base of the errors cellc raises for itself."""


class CompileError(CellcError, InNotebook):
    """An error in a network, found while it is compiled.

    Attributes:
        code: stable code, a key of `CODES`.
        message: what is wrong.
        place: where, or None if there is no source.
        calls: the calls that led there, outermost first.
        notes: further positions or facts.
        hint: what to write instead, or "".
        site: a place in the source: if the run is asked there (`asking`), this may be no error.
        not_ahead: a part that Python runs gives what is not known while the network is compiled.
    """

    site: Hashable = None
    not_ahead: bool = False

    def __init__(
        self,
        code: str,
        message: str,
        place: Place | None = None,
        calls: Sequence[Place] = (),
        notes: Sequence[str] = (),
        hint: str = "",
    ) -> None:
        super().__init__(code, message, place, tuple(calls), tuple(notes), hint)
        self.code = code
        self.message = message
        self.place = place
        self.calls = tuple(calls)
        self.notes = tuple(notes)
        self.hint = hint

    def key(self) -> tuple[str, str, Span | None]:
        """The key by which two errors are the same."""
        return self.code, self.message, self.place.span if self.place else None

    def __str__(self) -> str:
        lines = [f"{self.message} [{self.code}]"]
        if self.place is not None:
            lines += _shown(self.place)
        lines += [f"  note: {n}" for n in self.notes]
        lines += _chain(self.calls)
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


def _shown(place: Place) -> list[str]:
    return [f"  {place.where()}", *(f"    {line}" for line in place.caret().splitlines())]


def trace_text(place: Place, calls: Sequence[Place]) -> str:
    """A place and the calls that led there."""
    return "\n".join([*_shown(place), *_chain(calls)])


def _chain(calls: Sequence[Place]) -> list[str]:
    """The calls, innermost first; repeated lines and the middle of a long chain are left out."""
    lines: list[str] = []
    for place in reversed(calls):
        line = f"  called from {place.where()}: {place.text.strip()}"
        if not lines or lines[-1] != line:
            lines.append(line)
    return lines if len(lines) <= 12 else [*lines[:6], "  ...", *lines[-5:]]


class CompileTypeError(CompileError, TypeError):
    """A TypeError found while compiling."""


class CompileValueError(CompileError, ValueError):
    """A ValueError found while compiling."""


class CompileIndexError(CompileError, IndexError):
    """An IndexError found while compiling."""


class CompileKeyError(CompileError, KeyError):
    """A KeyError found while compiling."""


class CompileNameError(CompileError, NameError):
    """A NameError found while compiling."""


class CompileUnboundLocalError(CompileError, UnboundLocalError):
    """A local variable read before it is assigned."""


class CompileAttributeError(CompileError, AttributeError):
    """An AttributeError found while compiling."""


class CompileRuntimeError(CompileError, RuntimeError):
    """A RuntimeError found while compiling."""


class CompileRecursionError(CompileError, RecursionError):
    """Recursion without end (a RuntimeError too)."""


class CompileZeroDivisionError(CompileError, ZeroDivisionError):
    """A division by zero of numbers known while compiling."""


class CompileOverflowError(CompileError, OverflowError):
    """A number out of range."""


class CompileAssertionError(CompileError, AssertionError):
    """A failed assertion on values known while compiling."""


class CompileNotImplementedError(CompileError, NotImplementedError):
    """A NotImplementedError raised by the user's program."""


class CompileSyntaxError(CompileError, SyntaxError):
    """Syntax outside the static-graph language."""

    # SyntaxError prints its own attributes; ours carry the position.
    __str__ = CompileError.__str__


def error_at(code: str, message: str, node: Node | None) -> CompileValueError:
    """A ValueError about a node of a graph, with its line; about the whole without one."""
    place = None
    if node is not None and node.span.line > 0:
        text = linecache.getline(node.span.file, node.span.line)
        place = Place(node.span, text, "construct", node.scope)
    return CompileValueError(code, message, place)


_KINDS: dict[type[BaseException], tuple[type[CompileError], str]] = {
    TypeError: (CompileTypeError, "CE601"),
    ElementsUnknown: (CompileTypeError, "CE601"),
    ValueError: (CompileValueError, "CE602"),
    IndexError: (CompileIndexError, "CE603"),
    KeyError: (CompileKeyError, "CE603"),
    NameError: (CompileNameError, "CE201"),
    UnboundLocalError: (CompileUnboundLocalError, "CE202"),
    AttributeError: (CompileAttributeError, "CE604"),
    ZeroDivisionError: (CompileZeroDivisionError, "CE605"),
    OverflowError: (CompileOverflowError, "CE605"),
    RuntimeError: (CompileRuntimeError, "CE606"),
    RecursionError: (CompileRecursionError, "CE304"),
    NotImplementedError: (CompileNotImplementedError, "CE606"),
    AssertionError: (CompileAssertionError, "CE607"),
    SyntaxError: (CompileSyntaxError, "CE102"),
    CellcError: (CompileError, "CE608"),
    SizeInside: (CompileTypeError, "CE601"),
}


def kind(error: type[BaseException]) -> tuple[type[CompileError], str] | None:
    """The compile-error class and default code for an exception type; None for users' own."""
    return _KINDS.get(error)


def in_words(error: KeyError) -> bool:
    """Whether a `raise` says more than a key, which is all that a lookup says."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_code[trace.tb_lasti] == _RAISE and (
        len(error.args) > 1 or any(" " in str(arg) for arg in error.args))


def explanation(code: str) -> str:
    """The page of a code: what it means, a program that raises it, what to write instead.

    Raises:
        KeyError: no such code.
    """
    book = (Path(__file__).parent / "explanations.md").read_text(encoding="utf-8")
    for part in re.split(r"^## ", book, flags=re.MULTILINE):
        if part.startswith(f"{code}:"):
            return part.rstrip()
    raise KeyError(code)


class Cascade(Exception):
    """A value that is missing because of an error already collected was read."""
