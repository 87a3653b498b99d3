"""Statements: a closed table from syntax to handler."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .access import read_attribute
from .analysis import always_jumps
from .asking import answer
from .assignment import assign_to, augment, delete
from .context import try_statement, with_statement
from .control import condition, fork, under
from .errors import Cascade, CompileError
from .functions import InterpretedFunction
from .loops import while_statement
from .outcome import BREAK, CONTINUE, NEXT, Diverged, Outcome
from .patterns import match_statement
from .rolling import for_statement
from .runtime_errors import assert_statement, raise_statement

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter

Handler = Callable[["Interpreter", Any, "Frame"], Outcome]


def block(vm: Interpreter, stmts: Sequence[ast.stmt], frame: Frame) -> Outcome:
    """Run statements until one jumps; what may only sometimes run is put under a `cond`."""
    for i, stmt in enumerate(stmts):
        rest = stmts[i + 1 :]
        took_rest = False
        try:
            if type(stmt) is ast.If:
                outcome, took_rest = _branch(vm, stmt, rest, frame)
            else:
                outcome = vm.statement(stmt, frame)
        except (CompileError, Cascade) as e:
            if not vm.collect:
                raise
            outcome = vm.forget(stmt, frame, e)
        except Diverged:
            raise
        except Exception as e:
            vm.mark(e, frame)
            if not vm.collect or vm.catching:
                raise
            outcome = vm.forget(stmt, frame, e)
        if not outcome.kinds:
            continue
        if took_rest or not outcome.falls or not rest:
            return outcome
        live = frame.source.live.after[stmts[-1]]
        return under(vm, stmt, outcome, frame, _later(vm, rest, frame), live)
    return NEXT


def _later(
    vm: Interpreter, stmts: Sequence[ast.stmt], frame: Frame
) -> Callable[[], Outcome]:
    return lambda: block(vm, stmts, frame)


def _branch(
    vm: Interpreter, node: ast.If, rest: Sequence[ast.stmt], frame: Frame
) -> tuple[Outcome, bool]:
    """An `if`; whether it also ran the rest of its block.

    Where one branch surely jumps, the rest belongs to the other: `if c: return a` / rest.
    """
    frame.node = node
    known = condition(vm, node.test, frame)
    taken = known if isinstance(known, bool) else answer(vm, known, node, frame)
    if isinstance(known, bool) or taken is not None:
        return vm.block(node.body if taken else node.orelse, frame), False
    then, other = list(node.body), list(node.orelse)
    jumps = always_jumps(then), always_jumps(other)
    took = bool(rest) and jumps[0] != jumps[1]
    if took and jumps[0]:
        other += rest
    elif took:
        then += rest
    live = frame.source.live.after[rest[-1] if took else node]
    outcome = fork(vm, node, known, frame, _later(vm, then, frame),
                   _later(vm, other, frame), live)
    return outcome, took


def _expression(vm: Interpreter, node: ast.Expr, frame: Frame) -> Outcome:
    if not isinstance(node.value, ast.Constant):
        vm.eval(node.value, frame)
    return NEXT


def _assign(vm: Interpreter, node: ast.Assign, frame: Frame) -> Outcome:
    value = vm.eval(node.value, frame)
    for target in node.targets:
        assign_to(vm, target, value, frame)
    return NEXT


def _annotated(vm: Interpreter, node: ast.AnnAssign, frame: Frame) -> Outcome:
    if node.value is not None:
        assign_to(vm, node.target, vm.eval(node.value, frame), frame)
    return NEXT


def _augmented(vm: Interpreter, node: ast.AugAssign, frame: Frame) -> Outcome:
    augment(vm, node, frame)
    return NEXT


def _return(vm: Interpreter, node: ast.Return, frame: Frame) -> Outcome:
    value = None if node.value is None else vm.eval(node.value, frame)
    return Outcome.returned(value, node)


def _define(vm: Interpreter, node: ast.FunctionDef, frame: Frame) -> Outcome:
    fn: Any = InterpretedFunction.define(vm, node, frame)
    for decorator in reversed(node.decorator_list):
        wrap = vm.eval(decorator, frame)
        vm.at(decorator, frame)
        fn = vm.call(wrap, [fn], {}, frame)
    frame.node = node
    vm.store(frame, node.name, fn)
    return NEXT


def _delete(vm: Interpreter, node: ast.Delete, frame: Frame) -> Outcome:
    for target in node.targets:
        delete(vm, target, frame)
    return NEXT


def _import(vm: Interpreter, node: ast.Import, frame: Frame) -> Outcome:
    for alias in node.names:
        top = alias.name.split(".")[0]
        try:
            module = __import__(alias.name) if not alias.asname else __import__(
                alias.name, fromlist=["*"])
        finally:
            _report_module(vm, alias.name)
        vm.store(frame, alias.asname or top, module)
    return NEXT


def _report_module(vm: Interpreter, name: str) -> None:
    """Say that a module and its packages were looked for among the imported ones."""
    while name:
        vm.report_global(sys.modules, name)
        name = name.rpartition(".")[0]


def _import_from(vm: Interpreter, node: ast.ImportFrom, frame: Frame) -> Outcome:
    names = [a.name for a in node.names]
    try:
        module = __import__(node.module or "", frame.globals, {}, names, node.level)
    except ImportError:
        if not node.level:
            _report_module(vm, node.module or "")
        raise
    named = node.module if not node.level else None
    _report_module(vm, named or module.__name__)
    for alias in node.names:
        try:
            value = read_attribute(vm, module, alias.name, frame)
        except AttributeError:
            raise ImportError(f"cannot import name '{alias.name}' from "
                              f"'{getattr(module, '__name__', '<unknown module name>')}' "
                              f"({getattr(module, '__file__', 'unknown location')})") from None
        vm.store(frame, alias.asname or alias.name, value)
    return NEXT


STATEMENTS: dict[type[ast.AST], Handler] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Return: _return,
    ast.If: lambda vm, node, frame: _branch(vm, node, (), frame)[0],
    ast.For: for_statement,
    ast.While: while_statement,
    ast.Break: lambda vm, node, frame: Outcome.jump(BREAK, node),
    ast.Continue: lambda vm, node, frame: Outcome.jump(CONTINUE, node),
    **dict.fromkeys((ast.Pass, ast.Global, ast.Nonlocal), lambda vm, node, frame: NEXT),
    ast.FunctionDef: _define,
    ast.Delete: _delete,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Assert: assert_statement,
    ast.Raise: raise_statement,
    ast.With: with_statement,
    ast.Try: try_statement,
    ast.Match: match_statement,
}
"""Every accepted statement."""
