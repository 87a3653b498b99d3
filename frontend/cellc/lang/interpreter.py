"""The interpreter: frames, names, errors, and the dispatch of syntax to its handlers.

Abstract interpretation over the syntax tree: an expression over values known at compile time is
evaluated now, one over tensors appends nodes to the graph through the tracer. The accepted syntax
is the two closed tables of `Language`, whose handlers stand above this module (`api.py` joins
them).
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import CellType, FunctionType
from typing import Any, NoReturn, Protocol

from cellc_compiler.ir.graph import Value
from cellc_runtime.errors import short_name
from cellc_runtime.records import dataclass, replace

from ..core.invalidation import replaced_members
from ..tracing.reads import Reads
from ..tracing.tracer import GraphTensor, SizeInside, Tracer
from . import _model, budget
from .analysis import assigned
from .errors import (
    CODES,
    Cascade,
    CompileError,
    CompileRecursionError,
    Place,
    in_words,
    kind,
    trace_text,
)
from .foresight import Foresight
from .frames import Frame
from .hints import Fault, calling_place, explain, in_layer, place_of_maker
from .journal import BOXES, Attribute, Change, Content, Element, Journal, Slot, Variable
from .origins import operand_notes
from .outcome import NEXT, Diverged, NotRollable, Outcome
from .pieces.emit import Pieces
from .places import CapturedName, GlobalName, Stored
from .replaced import is_replaced, replacement
from .state import State
from .trust import is_own_class, own_method
from .values import MISSING, Poison, lost

CALL_DEPTH = 1000  # Nested calls before recursion is taken to have no end
REGION_DEPTH = 100  # Nested run-time branches and loops before recursion is taken to have no end


@dataclass(frozen=True, slots=True)
class Hooks:
    """Callbacks and decisions of the interpreter's caller.

    Attributes:
        reads: notes what is read from outside.
        state: notes what the trace does to Python objects; None: it is put back at the end.
        pieces: has Python do, when the network runs, what only Python can; None: that is an error.
        elements: gives those of the graph's first inputs in the call at hand, if there is one.
        called: the trace is for calls, each of which makes the objects of its result.
    """

    reads: Reads | None = None
    state: State | None = None
    pieces: Pieces | None = None
    elements: Callable[[], Sequence[Any]] | None = None
    called: bool = False


class Templates(Protocol):
    """Calls that are traced once (`CallTemplates`)."""

    watching: int
    looked_at: int
    given_away: int

    def of_call(
        self, fn: Any, args: list[Any], kwargs: dict[str, Any], scope: str, run: Callable[[], Any]
    ) -> Any:
        """The result of a call: by a copy of an equal one, else of `run`."""

    def look_at(self, *values: Any) -> None:
        """The identity of values has mattered."""

    def give(self, *values: Any) -> None:
        """Library code gets values."""


class Generated(Protocol):
    """A generator of the program."""

    frame: Frame

    def is_left_open(self) -> bool:
        """Whether it has stopped before its end, with a clean-up to run."""


@dataclass(frozen=True, slots=True)
class Language:
    """The handlers of syntax and of calls that an interpreter uses.

    Attributes:
        expressions, statements: a handler for each class of node.
        block: runs statements in order.
        call: calls anything callable.
        store_outside: assigns a name or attribute outside of the trace.
        rest_of_statement: collects the errors after the place in a statement that failed.
        templates: makes what traces equal calls once.
    """

    expressions: Mapping[type[ast.AST], Callable[[Interpreter, Any, Frame], Any]]
    statements: Mapping[type[ast.AST], Callable[[Interpreter, Any, Frame], Outcome]]
    block: Callable[[Interpreter, Sequence[ast.stmt], Frame], Outcome]
    call: Callable[[Interpreter, Any, list[Any], dict[str, Any], Frame], Any]
    store_outside: Callable[[Interpreter, Stored, Any, Frame], None]
    rest_of_statement: Callable[[Interpreter, ast.stmt, Frame], None]
    templates: Callable[[Interpreter], Templates]


def _builtins_of(frame: Frame) -> dict[str, Any]:
    """The builtin names that a frame's function finds."""
    scope: Frame | None = frame
    while scope is not None and scope.builtins is None:
        scope = scope.outer
    return vars(builtins) if scope is None or scope.builtins is None else scope.builtins


class Interpreter:
    """Interprets functions into the graph of one tracer.

    Args:
        language: the handlers of syntax and calls.
        tracer: receives the nodes.
        hooks: see `Hooks`.
        collect: go on after an error and keep it in `errors`.
    """

    def __init__(
        self, language: Language, tracer: Tracer, hooks: Hooks | None = None,
        collect: bool = False,
    ) -> None:
        self.language = language
        self.tracer = tracer
        self.hooks = hooks or Hooks()
        self.state, self.reads = self.hooks.state or State(), self.hooks.reads
        self.pieces = self.hooks.pieces
        self.collect = collect
        self.errors: list[CompileError] = []
        self.frame: Frame | None = None
        self.journal: Journal | None = None
        self.region_depth = 0
        self.statements = 0  # run so far
        self.rolling = 0  # enclosing loops that are being rolled
        self.sites: list[Hashable] = []  # open branches and loops of the run
        self.foresight = Foresight(tracer, self.hooks.elements)
        self.rows: set[Value] = set()  # of tensors that these walk through
        self.paths: dict[int, str] = {}
        self.fault: Fault | None = None
        self.callee: Any = None
        self.catching = 0  # enclosing `try` statements with handlers
        self.tidying = 0  # those whose `finally` (or exit) changes Python objects
        self.try_region = 0  # region depth of the innermost `try`
        self.handled: list[BaseException] = []
        self.kept: list[Any] = []
        self.generators: list[Generated] = []
        self.templates = language.templates(self)
        self.replaced = replaced_members() if self.reads is None else self.reads.of_members()
        self.read_at: str | None = None  # where what is taken over from a template was read

    # --- syntax ---------------------------------------------------------------------------------

    def eval(self, node: ast.expr, frame: Frame) -> Any:
        """The value of an expression."""
        handler = self.language.expressions.get(type(node))
        if handler is None:
            self.unsupported(node, frame, "CE102")
        value = handler(self, node, frame)
        if self.pieces is not None and self.pieces.handed:
            return self.pieces.handed.get(id(value), (None, value))[1]
        return value

    def block(self, stmts: Sequence[ast.stmt], frame: Frame) -> Outcome:
        """Run statements in order."""
        return self.language.block(self, stmts, frame)

    def statement(self, node: ast.stmt, frame: Frame) -> Outcome:
        """Run one statement; in collecting mode its error is kept and what it assigns is lost."""
        handler = self.language.statements.get(type(node))
        frame.node = node
        self.statements += 1
        if handler is None:
            self.unsupported(node, frame, "CE101")
        return handler(self, node, frame)

    def forget(self, node: ast.stmt, frame: Frame, error: Exception) -> Outcome:
        """After an error in a statement: keep it, and poison what the statement would assign."""
        if not isinstance(error, Cascade):
            self.errors.append(self.located(error, frame))
        self.frame = frame
        self.language.rest_of_statement(self, node, frame)
        for name in assigned([node]):
            self.store(frame, name, lost())
        if isinstance(node, ast.Return):
            return Outcome.returned(lost(), node)
        return NEXT

    def unsupported(self, node: ast.AST, frame: Frame, code: str) -> NoReturn:
        """Raise the error for syntax that is not in the tables."""
        what, hint = _UNSUPPORTED.get(type(node), (type(node).__name__, ""))
        raise self.error(code, SyntaxError, f"{what} is not supported in a compiled function",
                         frame, node, hint=hint)

    # --- positions and errors -------------------------------------------------------------------

    def at(self, node: ast.AST, frame: Frame) -> None:
        """Nodes and errors from here on belong to `node`."""
        frame.node = node
        self.tracer.span = frame.site or frame.source.span(node)
        self.tracer.scope = frame.scope

    def place(self, frame: Frame, node: ast.AST | None) -> Place | None:
        """The position of a node for a message."""
        if node is None or not hasattr(node, "lineno"):
            node = frame.source.node
        span = frame.source.span(node)
        return Place(span, frame.source.text(span.line), frame.name, frame.scope)

    def position(self) -> str:
        """The place that is being compiled: `file:line`, or ""."""
        frame = self.frame
        if self.read_at is not None or frame is None or not frame.depth:
            return self.read_at or ""
        line = getattr(frame.node, "lineno", 0) or getattr(frame.source.node, "lineno", 0)
        return f"{short_name(frame.source.file)}:{line}"

    def calls(self, frame: Frame) -> list[Place]:
        """The calls that led to a frame, outermost first."""
        chain: list[Place] = []
        caller = frame.caller
        while caller is not None and caller.depth:  # the entry frame has no source
            place = self.place(caller, caller.node)
            if place is not None:
                chain.append(place)
            caller = caller.caller
        return chain[::-1]

    def whereabouts(self, code: str) -> str:
        """Return the note of a run-time error: its code, the user's statement, the calls."""
        about = f"  {CODES[code]} [{code}]"
        if self.frame is None or not self.frame.depth:
            return about
        frame = _user_frame(self.frame)
        if str(frame.globals.get("__name__")).startswith("cellc."):  # the layer itself is called
            return f"{about}\n  note: {in_layer(self.frame)}"
        place = self.place(frame, frame.node)
        return about + "\n" + trace_text(place, self.calls(frame)) if place is not None else about

    def error(
        self,
        code: str,
        error: type[Exception],
        message: str,
        frame: Frame,
        node: ast.AST | None = None,
        *,
        notes: Sequence[str] = (),
        hint: str = "",
    ) -> CompileError:
        """A compile error at a node (default: the one being evaluated)."""
        found = kind(error)
        cls = found[0] if found else CompileError
        return cls(code, message, self.place(frame, node or frame.node), self.calls(frame),
                   notes, hint)

    def mark(self, error: BaseException, frame: Frame) -> None:
        """Remember where an exception of the user's program came from (innermost frame)."""
        if isinstance(error, (CompileError, Cascade, Diverged)):
            return
        if self.fault is None or self.fault.error is not error:
            notes, hint = explain(error, frame, self.callee)
            user = _user_frame(frame)
            place = self.place(user, user.node)
            if str(user.globals.get("__name__")).startswith("cellc."):
                named = getattr(error, "names_place", False)  # it names the node of a file
                place = calling_place() or place_of_maker(user.first_argument) or (
                    None if named else place)
                notes = [] if named else [in_layer(frame)]
            elif user is not frame:
                notes = [in_layer(frame), *operand_notes(user)]
            self.fault = Fault(error, place, self.calls(user), notes, hint, (user, user.node))

    def located(self, error: Exception, frame: Frame | None = None) -> CompileError:
        """A user's exception as a compile error of its kind, with its place."""
        if isinstance(error, CompileError):
            return error
        if frame is not None:
            self.mark(error, frame)
        fault = self.fault or Fault(error, None, [], [], "")
        cls, code = kind(type(error)) or (CompileError, "CE608")
        message = str(error.args[0]) if len(error.args) == 1 else str(error)
        if cls is CompileError:
            message = f"{type(error).__name__}: {message}"
        if isinstance(error, KeyError) and not in_words(error):
            message = f"there is no key {error.args[0]!r}" if error.args else "no such key"
        if isinstance(error, AssertionError) and not message:
            message = "the assertion is false"
        message = message.replace("GraphTensor", "Tensor") or type(error).__name__
        found = cls(code, message, fault.place, fault.calls, fault.notes, fault.hint)
        found.site = error.site if isinstance(error, SizeInside) else None
        return found

    def check_depth(self, frame: Frame) -> None:
        """Stop recursion without end, or that does too much.

        Raises:
            CompileRecursionError: too many nested calls, or too many nested run-time branches.
        """
        self.check_work(frame)
        if frame.depth <= CALL_DEPTH:
            return
        raise CompileRecursionError(
            "CE304", f"recursion without end: {frame.name}() is {frame.depth} calls deep",
            self.place(frame, frame.source.node), self.calls(frame),
            hint="end the recursion by a condition known while compiling; "
            "for a run-time condition write a while loop",
        )

    def check_work(self, frame: Frame, node: ast.AST | None = None) -> None:
        """End a trace that has run too many statements.

        Raises:
            CompileError: with the line of the loop or call that continues.
        """
        if self.statements > budget.MOST_STATEMENTS:
            raise self.error(
                "CE608", ValueError, f"compiling must take at most {budget.MOST_STATEMENTS} "
                "statements of Python, but this loop or recursion goes on", frame, node,
                hint="a loop over known numbers is unrolled: loop over the rows of a Tensor, let "
                "the condition depend on a Tensor, or compute the value in __init__")

    # --- names ----------------------------------------------------------------------------------

    def load(self, name: str, frame: Frame) -> Any:
        """The value of a name.

        Raises:
            NameError, UnboundLocalError: it has none.
        """
        value = frame.table.get(name, MISSING)
        if value is MISSING:
            value = self._load_outer(name, frame)
        elif type(value) is Poison:
            self.poisoned(value, frame)
        return value

    def _load_outer(self, name: str, frame: Frame) -> Any:
        scope: Frame | None = frame
        while scope is not None:
            if name in scope.facts.local:
                return self._load_local(name, scope, frame)
            if name in scope.facts.globals:
                return self._load_global(name, frame)
            root, scope = scope, scope.outer
        captured = root.closure.get(name)
        if captured is not None:
            return self.load_captured(name, captured)
        return self._load_global(name, frame)

    def load_captured(self, name: str, captured: CellType) -> Any:
        """The value of a captured variable, which is noted as read."""
        slot = CapturedName(captured, name)
        value = slot.get()
        if value is MISSING:
            if self.reads is not None and self.state.note_place(slot):
                self.reads.of_closure(captured, name)
            raise NameError(f"the captured variable '{name}' has no value yet")
        return self._load_place(slot, value, Reads.of_closure)

    def load_global(self, name: str, table: dict[str, Any]) -> Any:
        """The value of a global name, which is noted as read."""
        return self._load_place(GlobalName(table, name), table[name], Reads.of_globals)

    def _load_place(self, slot: Stored, value: Any, note: Callable[[Reads, Any, str], None]) -> Any:
        if not self.state.note_place(slot):
            return self.state.current(self, slot, value)
        if self.reads is not None:
            note(self.reads, slot.target, slot.name)
        self.state.mark(value)
        return value

    def _load_local(self, name: str, scope: Frame, frame: Frame) -> Any:
        value = scope.table.get(name, MISSING)
        if type(value) is Poison:
            self.poisoned(value, frame)
        if value is not MISSING:
            return value
        if scope is not frame and not frame.comprehension:
            raise NameError(f"the captured variable '{name}' has no value yet")
        raise UnboundLocalError(f"the local variable '{name}' is read before it is assigned")

    def _load_global(self, name: str, frame: Frame) -> Any:
        table = frame.globals
        if name in table:
            return self.load_global(name, table)
        names = _builtins_of(frame)
        found = names.get(name, MISSING)
        self.report_global(table, name)
        self.report_global(names, name)
        if found is MISSING:
            raise NameError(f"the name '{name}' is not defined")
        return found

    def report(self, target: Any, name: str) -> None:
        """Say that an attribute was looked for, whether or not it is there."""
        if self.reads is not None:
            if self.state.log is not None:
                self.state.log.report(target, name, self.position)
            self.reads.of_attribute(target, name)

    def report_global(self, table: dict[str, Any], name: str) -> None:
        """Say that a global name was looked for, whether or not it is there."""
        if self.reads is not None:
            self.reads.of_globals(table, name)

    def report_function(self, fn: FunctionType) -> None:
        """Say that the code or the defaults of a function of the user were read."""
        if self.reads is not None and not (fn.__module__ or "").startswith("cellc."):
            self.reads.of_function(fn)

    def special(self, value: object, name: str) -> FunctionType | None:
        """A special method that a class of the user defines in Python, to be interpreted."""
        if is_own_class(type(value)):
            self.report(self.class_of(value), name)
            return own_method(value, name)
        if self.replaced and is_replaced(self, value, name):
            found = replacement(self, value, name)  # type: ignore[arg-type]  # a Tensor
            return found if isinstance(found, FunctionType) else None
        return None

    def guarded(self, target: Any, how: str, run: Callable[[], Any]) -> Any:
        """The result of `run`, which is called again before each call of the program to compare.

        Args:
            target: the object that decides the result.
            how: what messages call it.
        """
        result = run()
        self.note_result(target, how, run, result)
        return result

    def note_result(
        self, target: Any, how: str, run: Callable[[], Any], result: Any
    ) -> None:
        """As `guarded`, for a result that is there already."""
        if self.reads is not None:
            self.reads.of_result(target, how, run, result)

    def class_of(self, value: object) -> type:
        """The class of a value; that of an object of the program may be another one later."""
        kind = type(value)
        if is_own_class(kind) and self.state.is_outside(value):
            self.report(value, "__class__")
        return kind

    def poisoned(self, value: Poison, frame: Frame) -> NoReturn:
        """Raise the error a poisoned variable stands for."""
        if value.code is None:
            raise Cascade
        error = self.error(value.code, value.error, value.message, frame, frame.node,
                           notes=value.notes, hint=value.hint)
        error.site = value.site
        raise error

    def store(self, frame: Frame, name: str, value: Any) -> None:
        """Assign a name, in the frame it belongs to."""
        facts = frame.facts
        if name in facts.globals:
            self.language.store_outside(self, GlobalName(frame.globals, name), value, frame)
            return
        owner: Frame | None = frame
        while owner is not None and name not in owner.facts.local:
            root, owner = owner, owner.outer
        if owner is None:
            self.language.store_outside(self, CapturedName(root.closure[name], name), value, frame)
            return
        self.note(Variable(owner.table, owner.lines, name))
        owner.table[name] = value
        owner.lines[name] = getattr(frame.node, "lineno", 0)

    def delete(self, frame: Frame, name: str) -> None:
        """`del name`."""
        self.load(name, frame)
        self.note(Variable(frame.table, frame.lines, name))
        frame.table.pop(name, None)

    # --- changes inside branches ----------------------------------------------------------------

    def note(self, slot: Slot) -> None:
        """A place is about to change."""
        if self.journal is not None:
            self.journal.note(slot)

    def note_object(self, value: Any) -> None:
        """An object is about to be changed in place."""
        if self.journal is None:
            return
        if isinstance(value, BOXES):
            self.journal.note(Content(value))
        elif isinstance(value, GraphTensor) and \
                value.ir_value not in self.tracer.regions[-1].owned:
            # (One made in this branch is not seen outside unless a variable holds it.)
            self.journal.note(Element(value))

    def note_change(self, tensor: GraphTensor) -> None:
        """A tensor is about to be changed in place, perhaps because another one is that shares
        elements with it."""
        if tensor.ir_value in self.rows:
            raise NotRollable  # it is no view of the tensor whose row it is
        self.note_object(tensor)

    def note_attribute(self, target: Any, name: str) -> None:
        """An attribute is about to change."""
        self.note(Attribute(target, name))

    def fresh(self, value: Any) -> Any:
        """Say that an object was made just now, so that changes to it need no undoing."""
        if self.journal is not None:
            self.journal.fresh[id(value)] = value
        return value

    def open_journal(self, frame: Frame) -> Journal | None:
        """Start recording for a branch; the journal that was open."""
        if self.region_depth >= REGION_DEPTH:
            error = CompileRecursionError(
                "CE304", "recursion without end: run-time branches are "
                f"{REGION_DEPTH} deep in {frame.name}()",
                self.place(frame, frame.node), self.calls(frame),
                hint="write a while loop instead of recursion on a run-time condition",
            )
            error.site = self.sites[0] if self.sites else None
            raise error
        saved = self.journal
        self.journal = Journal()
        self.region_depth += 1
        return saved

    def close_journal(self, saved: Journal | None) -> dict[Any, Change]:
        """Undo what the branch changed; the changes."""
        assert self.journal is not None
        changes = self.journal.undo()
        for key, change in changes.items():  # (a `bprop` sets them in a graph of its own)
            if type(change.slot) is Stored:
                new = self.state.current(self, change.slot, change.new)
                if new is not change.new:
                    changes[key] = replace(change, new=new)
        self.journal = saved
        self.region_depth -= 1
        return changes

    # --- calls ----------------------------------------------------------------------------------

    def call(self, fn: Any, args: list[Any], kwargs: dict[str, Any], frame: Frame) -> Any:
        """Call anything callable from `frame`."""
        return self.language.call(self, fn, args, kwargs, frame)

    def scope_of(self, cell: Any, frame: Frame | None) -> str:
        """The path of a Cell; one that no Cell owns gets its caller's path and class name."""
        found = self.paths.get(id(cell))
        if found is None:
            base = frame.scope if frame is not None else ""
            found = f"{base}.{type(cell).__name__}" if base else type(cell).__name__
            if "_cells" in cell.__dict__:  # else its `__init__` runs
                self.add_root(cell, found)
        return found

    def add_root(self, cell: Any, prefix: str = "") -> None:
        """Learn the paths of a Cell and everything below it."""
        for key, path in _model.scope_paths(cell, prefix).items():
            self.paths.setdefault(key, path)
        self.kept.append(cell)  # so that no identity is reused
        self.tracer.roots.append((prefix, cell))


def _user_frame(frame: Frame) -> Frame:
    """The frame itself, or in a layer of cellc the one of the user's call."""
    while frame.site is not None and frame.caller is not None and frame.caller.depth:
        frame = frame.caller
    return frame


_UNSUPPORTED: dict[type[ast.AST], tuple[str, str]] = {
    ast.ClassDef: ("a class definition", "define the class outside"),
    ast.AsyncFunctionDef: ("an async function", ""),
    ast.AsyncFor: ("'async for'", ""),
    ast.AsyncWith: ("'async with'", ""),
    ast.Await: ("'await'", ""),
    ast.TryStar: ("'except*'", "use plain 'except'"),
}
