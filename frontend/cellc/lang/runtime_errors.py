"""`assert` and `raise`: at once where the condition is known, else checked by the network."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from ..common.tensor import Tensor
from .control import condition
from .outcome import NEXT, Outcome

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter


def assert_statement(vm: Interpreter, node: ast.Assert, frame: Frame) -> Outcome:
    """`assert test, message`."""
    known = condition(vm, node.test, frame)
    vm.at(node, frame)
    if isinstance(known, Tensor):
        message = "" if node.msg is None else vm.eval(node.msg, frame)
        check(vm, known, AssertionError, message, node, frame)
    elif not known:
        _refuse_under_runtime(vm, node, frame)
        message = () if node.msg is None else (vm.eval(node.msg, frame),)
        vm.at(node, frame)
        raise AssertionError(*message)
    return NEXT


def check(
    vm: Interpreter, good: Tensor, error: type[Exception], message: Any, node: ast.AST,
    frame: Frame,
) -> None:
    """Have the network raise unless a run-time condition holds.

    Raises:
        CompileRuntimeError: the tracer cannot express it (CE403).
    """
    hook = getattr(vm.tracer, "check", None)
    if hook is None:
        raise vm.error(
            "CE403", RuntimeError,
            "a condition known only at run time cannot raise an exception yet", frame, node,
            hint="check it outside the network",
        )
    hook(good, error, message)


def raise_statement(vm: Interpreter, node: ast.Raise, frame: Frame) -> Outcome:
    """`raise`, `raise E(...)`, `raise E from c`."""
    _refuse_under_runtime(vm, node, frame)
    if node.exc is None:
        handled = vm.handled[-1] if vm.handled else None
        frame.node = node
        raise handled or RuntimeError("no active exception to re-raise")
    error = vm.eval(node.exc, frame)
    cause = None if node.cause is None else vm.eval(node.cause, frame)
    vm.at(node, frame)
    if isinstance(error, type) and issubclass(error, BaseException):
        error = error()
    if not isinstance(error, BaseException):
        raise TypeError("exceptions must derive from BaseException")
    if cause is not None:
        raise error from cause
    raise error


def _refuse_under_runtime(vm: Interpreter, node: ast.stmt, frame: Frame) -> None:
    """An exception inside a run-time branch would be raised whatever the condition is."""
    if vm.region_depth > vm.try_region:
        raise vm.error(
            "CE403", RuntimeError,
            "an exception cannot be raised under a condition known only at run time", frame, node,
            hint="raise on values known while compiling (shapes, attributes), or check the "
            "result outside the network",
        )
