"""Generators of the program: their bodies are interpreted, from one `yield` to the next.

A body runs as a generator of Python (`Steps`), which yields what the program yields. Statements
with a `yield` inside run in steps; the others go to the interpreter as in any function. A `yield`
comes first in its statement: names are all that may be looked up before it. The managers of
`contextlib` that are made of generators are Python's own, around such a generator; so is
`ExitStack`, with exits that are interpreted.
"""

from __future__ import annotations

import ast
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING, Any

from .analysis import body_of
from .asking import avoidable, decided
from .assignment import assign_to
from .builtin_functions import BUILTINS
from .context import (
    GENERATED,
    Body,
    Closing,
    Steps,
    special,
    try_steps,
    unwrapped,
    with_steps,
)
from .control import condition
from .errors import Cascade, CompileError
from .iteration import Foreign, walk
from .outcome import BREAK, CONTINUE, NEXT, RETURN, Diverged, NotRollable
from .values import MISSING

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter


class GeneratorOfProgram(Foreign):
    """A generator whose body is interpreted."""

    __slots__ = ("frame",)

    def __init__(self, vm: Interpreter, frame: Frame) -> None:
        super().__init__(vm, _body(vm, frame))
        vm.fresh(self.native)
        vm.fresh(frame.table)
        vm.generators.append(self)
        self.frame = frame

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Go on to the next `yield`, with the value of the last one."""
        return self._resumed(lambda: self.native.send(value))

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Any:
        """Raise an exception at the `yield` where it stands."""
        error = value if isinstance(value, BaseException) else \
            kind if isinstance(kind, BaseException) else kind()
        if type(error) is Closing:
            self.close()  # Python goes on outside with the exception, whatever this one makes of it
            raise error
        return self._resumed(lambda: self.native.throw(error))

    def close(self) -> None:
        """End it: its `finally` blocks run."""
        try:
            self._resumed(lambda: self.native.throw(Closing()))
        except (GeneratorExit, Closing, StopIteration):
            return
        raise RuntimeError("generator ignored GeneratorExit")

    def _resumed(self, run: Any) -> Any:
        vm, caller = self.vm, self.vm.frame
        if vm.rolling:
            raise NotRollable
        self._advance()
        self.frame.caller = caller
        if caller is not None:
            self.frame.depth = caller.depth + 1
        vm.check_depth(self.frame)
        vm.frame = self.frame
        try:
            return run()
        except RuntimeError as e:
            if unwrapped(e) is not e:  # it leaves the generator: that is Python's exception
                vars(e)["of_program"] = True
            raise
        finally:
            vm.frame = caller

    def is_left_open(self) -> bool:
        """Whether it has stopped before its end, with a `with` or `finally` in its body."""
        return self.native.gi_suspended and any(
            (isinstance(n, ast.With) or (isinstance(n, ast.Try) and n.finalbody)) and has_yield(n)
            for n in ast.walk(self.frame.source.node))


def refuse_open(vm: Interpreter) -> None:
    """Refuse generators with unfinished clean-up: nobody knows when Python would drop them.

    Raises:
        CompileSyntaxError: one was left within a `with` or `try` (CE103).
    """
    for made in vm.generators:
        if made.is_left_open():
            raise vm.error(
                "CE103", SyntaxError, f"the generator {made.frame.name}() is left before its end, "
                "with a 'with' or 'finally' that is still to run", made.frame,
                hint="walk through all of it, or close() it",
            )


def generator(vm: Interpreter, frame: Frame, caller: Frame | None) -> Any:
    """The generator that a call of a generator function gives.

    Raises:
        CompileSyntaxError: it is async, or what is compiled itself (CE103).
    """
    asynchronous = isinstance(frame.source.node, ast.AsyncFunctionDef)
    if asynchronous or caller is None or not caller.depth:
        what = "async function" if asynchronous else "generator"
        raise vm.error(
            "CE103", SyntaxError, f"the {what} {frame.name}() cannot be compiled", frame,
            frame.source.node, hint="" if asynchronous else "build and return a list",
        )
    return GeneratorOfProgram(vm, frame)


@cache
def has_yield(node: ast.AST) -> bool:
    """Whether a statement yields, functions defined in it excluded."""
    if isinstance(node, (ast.Yield, ast.YieldFrom)):
        return True
    return not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and any(
        map(has_yield, ast.iter_child_nodes(node)))


def _body(vm: Interpreter, frame: Frame) -> Generator[Any, Any, Any]:
    outcome = yield from _block(vm, body_of(frame.source.node), frame)
    return outcome.value if RETURN in outcome.kinds else None


def _block(vm: Interpreter, stmts: Sequence[ast.stmt], frame: Frame) -> Steps:
    at = 0
    while at < len(stmts):
        end = at
        while end < len(stmts) and not has_yield(stmts[end]):
            end += 1
        if end > at:
            outcome = vm.block(stmts[at:end], frame)
        else:
            outcome = yield from _statement(vm, stmts[at], frame)
            end += 1
        if outcome.kinds:
            if outcome.mixed:
                raise _unknown(vm, frame, _around(stmts[at:end], outcome.node))
            return outcome
        at = end
    return NEXT


def _around(stmts: Sequence[ast.stmt], jump: ast.AST | None) -> ast.stmt:
    """The statement in which one jumps."""
    return next((s for s in stmts if any(n is jump for n in ast.walk(s))), stmts[-1])


def _unknown(vm: Interpreter, frame: Frame, node: ast.AST) -> CompileError:
    """The error of a generator that may jump; the run is asked at `node` if that is possible."""
    return avoidable(vm, vm.error(
        "CE103", SyntaxError, f"what the generator {frame.name}() yields depends on a condition "
        "known only at run time", frame, node, hint="build and return a list",
    ), node)


def _statement(vm: Interpreter, node: ast.stmt, frame: Frame) -> Steps:
    frame.node = node
    try:
        match node:
            case ast.With():
                return (yield from with_steps(vm, node, frame, _steps))
            case ast.Try():
                return (yield from try_steps(vm, node, frame, _steps))
            case ast.If(test=test) if not has_yield(test):
                known = _known(vm, node, test, frame)
                return (yield from _block(vm, node.body if known else node.orelse, frame))
            case ast.For(iter=source) if not has_yield(source):
                return (yield from _for(vm, node, frame))
            case ast.While(test=test) if not has_yield(test):
                return (yield from _while(vm, node, frame))
        found = _first(node)
        if found is not None:
            frame.sent = yield from _yield(vm, found, frame)
        try:
            return vm.statement(node, frame)
        finally:
            frame.sent = MISSING
    except (CompileError, Cascade, Diverged):
        raise
    except Exception as e:
        vm.mark(unwrapped(e), frame)
        raise


_steps: Body = _block


@cache
def _first(node: ast.stmt) -> ast.Yield | ast.YieldFrom | None:
    """The only `yield` of a statement, if nothing but names is looked up before it; else None."""
    found = [n for n in ast.walk(node) if isinstance(n, (ast.Yield, ast.YieldFrom))]
    if len(found) != 1 or not isinstance(
            node, (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return)):
        return None
    start = found[0].lineno, found[0].col_offset
    for n in ast.walk(node.value or node):
        around = any(part is found[0] for part in ast.walk(n))
        before = isinstance(n, ast.expr) and (n.end_lineno or 0, n.end_col_offset or 0) <= start
        if (around and isinstance(n, _PERHAPS)) or (before and not isinstance(n, _LOOKED_UP)):
            return None
    return found[0]


_PERHAPS = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.comprehension)
_LOOKED_UP = (ast.Name, ast.Attribute, ast.Constant)


def _yield(
    vm: Interpreter, node: ast.Yield | ast.YieldFrom, frame: Frame
) -> Generator[Any, Any, Any]:
    value = None if node.value is None else vm.eval(node.value, frame)
    vm.at(node, frame)
    if isinstance(node, ast.Yield):
        sent = yield value
    else:
        sent = yield from walk(vm, value)
    vm.frame = frame
    return sent


def _known(vm: Interpreter, node: ast.stmt, test: ast.expr, frame: Frame) -> bool:
    return decided(vm, condition(vm, test, frame), lambda: _unknown(vm, frame, node))


def _for(vm: Interpreter, node: ast.For, frame: Frame) -> Steps:
    source = vm.eval(node.iter, frame)
    vm.at(node.iter, frame)
    for element in walk(vm, source):
        assign_to(vm, node.target, element, frame)
        outcome = yield from _trip(vm, node, frame)
        if outcome.kinds:
            return outcome.without(BREAK)
    return (yield from _block(vm, node.orelse, frame))


def _while(vm: Interpreter, node: ast.While, frame: Frame) -> Steps:
    while _known(vm, node, node.test, frame):
        outcome = yield from _trip(vm, node, frame)
        if outcome.kinds:
            return outcome.without(BREAK)
    return (yield from _block(vm, node.orelse, frame))


def _trip(vm: Interpreter, node: ast.For | ast.While, frame: Frame) -> Steps:
    return (yield from _block(vm, node.body, frame)).without(CONTINUE)


# --- contextlib -----------------------------------------------------------------------------------


def _manager(vm: Interpreter, args: list[Any], kwargs: dict[str, Any], frame: Frame) -> Any:
    """`contextlib.contextmanager(f)(...)`."""
    function, given, named = args

    def made(*args: Any, **kwargs: Any) -> Any:
        return vm.call(function, list(args), kwargs, vm.frame or frame)

    return vm.state.new(vm.fresh(GENERATED(made, tuple(given), dict(named))))


def _natively(name: str) -> Any:
    """A method of a manager of this trace, which Python runs."""
    def handler(
        vm: Interpreter, args: list[Any], kwargs: dict[str, Any], frame: Frame
    ) -> Any:
        _refuse_outside(vm, args[0], frame)
        found = getattr(args[0], name)(*args[1:], **kwargs)
        return vm.state.new(vm.fresh(found)) if name == "pop_all" else found

    return handler


def _refuse_outside(vm: Interpreter, manager: Any, frame: Frame) -> None:
    if vm.state.is_outside(manager):
        raise vm.error(
            "CE308", TypeError, f"a {type(manager).__name__.lstrip('_')} that was made outside is "
            "used in a compiled function", frame, hint="make it where it is used",
        )
    if vm.journal is not None and id(manager) not in vm.journal.fresh:
        raise vm.error(
            "CE404", TypeError, f"a {type(manager).__name__.lstrip('_')} cannot be used under a "
            "condition known only at run time", frame, hint="use it before the condition",
        )


def _stack(vm: Interpreter, args: list[Any], kwargs: dict[str, Any], frame: Frame) -> Any:
    return vm.state.new(vm.fresh(ExitStack(*args, **kwargs)))


def _enter_context(vm: Interpreter, args: list[Any], kwargs: dict[str, Any], frame: Frame) -> Any:
    stack, manager = args
    _refuse_outside(vm, stack, frame)
    value = special(vm, manager, "__enter__", [], frame)
    _push_exit(vm, stack, manager)
    return value


def _push_exit(vm: Interpreter, stack: ExitStack, manager: Any) -> None:
    def leave(*error: Any) -> Any:
        assert vm.frame is not None
        return special(vm, manager, "__exit__", error, vm.frame)

    stack.push(leave)


def _push(vm: Interpreter, args: list[Any], kwargs: dict[str, Any], frame: Frame) -> Any:
    stack, wanted = args
    _refuse_outside(vm, stack, frame)
    if hasattr(type(wanted), "__exit__"):
        _push_exit(vm, stack, wanted)
    else:
        stack.push(lambda *error: vm.call(wanted, list(error), {}, vm.frame or frame))
    return wanted


def _callback(vm: Interpreter, args: list[Any], kwargs: dict[str, Any], frame: Frame) -> Any:
    stack, function, *given = args
    _refuse_outside(vm, stack, frame)
    stack.callback(lambda: vm.call(function, given, kwargs, vm.frame or frame))
    return function


BUILTINS.update({
    GENERATED: _manager, ExitStack: _stack, ExitStack.enter_context: _enter_context,
    ExitStack.push: _push, ExitStack.callback: _callback,
    **{getattr(cls, name): _natively(name) for cls, names in (
        (GENERATED, ("__enter__", "__exit__")),
        (ExitStack, ("__enter__", "__exit__", "close", "pop_all"))) for name in names},
})
