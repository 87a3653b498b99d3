"""The rest of `cellc check` after an error: a search in the rest of the statement for others.

The parts of an expression that were to be evaluated after the one that failed, and the bodies of
a statement whose head failed, do not depend on it: they are interpreted for their errors alone.
Where a lost value is read, a `Cascade` says that what follows is no news.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ..core.module_names import module_of, plain
from . import _model
from .analysis import assigned
from .errors import Cascade
from .functions import InterpretedFunction
from .outcome import Diverged
from .trust import is_user_function
from .values import lost

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter

_LAZY = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp,
         ast.GeneratorExp)
"""Expressions whose parts may never be evaluated, or are with names of their own."""


def rest_of_statement(vm: Interpreter, node: ast.stmt, frame: Frame) -> None:
    """Collect the errors in a statement after the place where it failed (`frame.node`)."""
    failed = frame.node
    if failed is None or failed is node:
        return
    heads = list(_heads(node))
    at = next((i for i, head in enumerate(heads) if _holds(head, failed)), None)
    if at is None:
        return
    _rest(vm, heads[at], failed, frame)
    for later in heads[at + 1 :]:
        _try(vm, later, frame)
    for name in _bound(node):
        vm.store(frame, name, lost())
    for body in _bodies(node):
        _body(vm, body, frame)


def _heads(node: ast.stmt) -> Iterator[ast.expr]:
    """The expressions a statement evaluates itself, in order."""
    if isinstance(node, (ast.If, ast.While)):
        yield node.test
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        yield from (node.iter, node.target)
    elif isinstance(node, ast.With):
        yield from (item.context_expr for item in node.items)
    elif isinstance(node, ast.Assign):
        yield from (node.value, *node.targets)
    elif isinstance(node, (ast.Assert, ast.Raise, ast.Return, ast.Expr, ast.AugAssign)):
        yield from _parts(node)


def _bound(node: ast.stmt) -> set[str]:
    """Names that the head of a compound statement would have set."""
    if isinstance(node, ast.For):
        return set(assigned([ast.Assign(targets=[node.target], value=node.iter)]))
    if isinstance(node, ast.With):
        targets = [i.optional_vars for i in node.items if i.optional_vars is not None]
        return set(assigned([ast.Assign(targets=targets, value=node.items[0].context_expr)]))
    return set()


def _bodies(node: ast.stmt) -> list[Sequence[ast.stmt]]:
    if isinstance(node, (ast.If, ast.While, ast.For)):
        return [body for body in (node.body, node.orelse) if body]
    return [node.body] if isinstance(node, ast.With) else []


def _body(vm: Interpreter, body: Sequence[ast.stmt], frame: Frame) -> None:
    """Interpret a body that may not run, and undo what it changed."""
    saved = vm.open_journal(frame)
    try:
        vm.block(body, frame)
    except (Cascade, Diverged):
        pass
    except Exception as e:
        vm.errors.append(vm.located(e, frame))
    finally:
        vm.close_journal(saved)
        vm.frame = frame


def _holds(node: ast.AST, part: ast.AST) -> bool:
    return any(n is part for n in ast.walk(node))


def _parts(node: ast.AST) -> list[ast.expr]:
    """The expressions directly below a node, in the order of evaluation."""
    found: list[ast.expr] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            found.append(child)
        elif isinstance(child, ast.keyword):
            found.append(child.value)
    return found


def _rest(vm: Interpreter, node: ast.expr, failed: ast.AST, frame: Frame) -> None:
    """Evaluate what comes after the failed part of an expression."""
    if isinstance(node, _LAZY) or node is failed:
        return
    if isinstance(node, ast.Call) and not _holds(node.func, failed):
        _call(vm, node, failed, frame)
        return
    parts = _parts(node)
    for i, part in enumerate(parts):
        if _holds(part, failed):
            _rest(vm, part, failed, frame)
            for later in parts[i + 1 :]:
                _try(vm, later, frame)
            return


def _call(vm: Interpreter, node: ast.Call, failed: ast.AST, frame: Frame) -> None:
    """Evaluate the other arguments, and look into the function with the lost ones left out."""
    given: list[Any] = []
    named: dict[str, Any] = {}
    behind = False
    plain = True
    for part in [*node.args, *(k.value for k in node.keywords)]:
        if _holds(part, failed):
            behind, value = True, lost()
            _rest(vm, part, failed, frame)
        else:  # what stands before has been evaluated without an error
            value = _try(vm, part, frame, quiet=not behind)
        plain = plain and not isinstance(part, ast.Starred)
        if len(given) < len(node.args):
            given.append(value)
        else:
            named[node.keywords[len(named)].arg or ""] = value
    if not plain or "" in named:
        return
    try:
        fn = vm.eval(node.func, frame)
        if takes_lost(fn):
            vm.at(node, frame)
            vm.call(fn, given, named, frame)
    except (Cascade, Diverged):
        pass
    except Exception as e:
        vm.errors.append(vm.located(e, frame))
    vm.frame = frame


def takes_lost(fn: Any) -> bool:
    """Whether a function of the user can be looked into although values it is given are lost."""
    if _model.is_cell(fn):
        fn = None if module_of(type(fn)).startswith("cellc.") else fn.construct
    fn = plain(fn, "__func__", fn)
    if isinstance(fn, InterpretedFunction):
        return fn.source.node.args.vararg is None and fn.source.node.args.kwarg is None
    flags = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    return isinstance(fn, FunctionType) and is_user_function(fn) and \
        not fn.__code__.co_flags & flags


def _try(vm: Interpreter, node: ast.expr, frame: Frame, quiet: bool = False) -> Any:
    """The value of an expression; lost if it fails, and then its errors are kept."""
    if isinstance(getattr(node, "ctx", None), ast.Store) or isinstance(node, ast.Starred):
        return lost()
    try:
        return vm.eval(node, frame)
    except Diverged:
        return lost()
    except Exception as e:
        if not isinstance(e, Cascade) and not quiet:
            vm.errors.append(vm.located(e, frame))
    failed = frame.node
    vm.frame = frame
    if failed is not None and not quiet:
        _rest(vm, node, failed, frame)
    return lost()
