"""`assert` and `raise`: at once where the condition is known, else checked by the network."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING, Any, NoReturn

from cellc_runtime.errors import RUN_ERRORS

from ..tensors.tensor import Tensor
from ..tracing.exceptions import name_class
from ..tracing.tracer import GraphTensor
from .asking import asked_truth, avoidable, decided
from .control import condition
from .errors import CompileError
from .outcome import NEXT, Diverged, Outcome
from .pieces import operations
from .text import flat, joined, written
from .values import Formatted, Text, any_runtime, scalar

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter


def assert_statement(vm: Interpreter, node: ast.Assert, frame: Frame) -> Outcome:
    """`assert test, message`; nothing under `python -O`, as in Python."""
    if not __debug__:
        return NEXT
    known = condition(vm, node.test, frame)
    vm.at(node, frame)
    if known is True:
        return NEXT
    message = () if node.msg is None else (vm.eval(node.msg, frame),)
    vm.at(node.test, frame)
    error = AssertionError(*message)
    if isinstance(known, Tensor):
        good = _told(vm, known, node, frame)
        if good:
            return NEXT
        if good is False:
            raise error
        if vm.pieces is not None and operations.holds_object(error.args):
            operations.asserted(vm, known, error, frame)
        else:
            check(vm, known, error, frame)
        return NEXT
    if under_runtime(vm):
        raise_at_run_time(vm, error, node, frame)
    raise error


def _told(vm: Interpreter, known: Tensor, node: ast.stmt, frame: Frame) -> bool | None:
    """Whether an asserted condition holds, where it matters to what is around; None: where it does
    not, or cannot be asked and need not."""
    if vm.catching:
        return decided(vm, known, lambda: _uncatchable(vm, node, frame))
    if not vm.tidying:
        return None
    found = asked_truth(vm, known)
    if found is None and _would_be_told(vm):
        raise _uncatchable(vm, node, frame)
    return found


def _would_be_told(vm: Interpreter) -> bool:
    """Whether the run could be asked if what is around were not a branch or loop of the run, which
    it can be asked about, too, or rolled."""
    return vm.rolling > 0 or (bool(vm.sites) and vm.sites[0] not in vm.state.asked)


def check(vm: Interpreter, good: Tensor, error: Exception, frame: Frame) -> None:
    """Have the network raise an exception unless a run-time condition holds."""
    cls = type(error)
    builtin = next(c for c in cls.__mro__ if getattr(builtins, c.__name__, None) is c
                   and c.__name__ in RUN_ERRORS)
    parts = [_plain(p) for p in joined(_message(error))]
    shown = [p for p in parts if isinstance(p, Tensor)]
    vm.frame = frame
    vm.tracer.check(
        good, builtin.__name__, [None if isinstance(p, Tensor) else p for p in parts], shown,
        own="" if builtin is cls else name_class(cls),
        code="CE701" if isinstance(error, AssertionError) else "CE702",
        more=_context(vm, error),
    )


def _context(vm: Interpreter, error: Exception) -> str:
    """A line on the exception that Python would give as the context of this one, or its cause."""
    handled = vm.handled[-1] if vm.handled and not error.__suppress_context__ else None
    for words, other in (("caused by", error.__cause__), ("during handling of", handled)):
        if other is not None and other is not error:
            said = "".join(p if isinstance(p, str) else "..." for p in joined(_message(other)))
            return f"\n  {words} {type(other).__name__}" + (f": {said}" if said else "")
    return ""


def _plain(part: Any) -> Any:
    """A part of a message; the run prints its values without a format of their own.

    Raises:
        TypeError: a number has a format specification.
    """
    if isinstance(part, Formatted):
        if part.style != "!r":
            raise TypeError(
                f"the format '{part.spec}' of a number in the message of a run-time error is not "
                "supported: leave it out"
            )
        return part.value
    return part


def _message(error: BaseException) -> list[Any]:
    """Return the printed form of an exception, as strings and tensors."""
    if type(error).__str__ not in (BaseException.__str__, KeyError.__str__):
        return [str(error)]
    if len(error.args) == 1:
        return flat(error.args)
    return written(error.args) if error.args else []


def raise_statement(vm: Interpreter, node: ast.Raise, frame: Frame) -> Outcome:
    """`raise`, `raise E(...)`, `raise E from c`."""
    cause: Any = None
    if node.exc is None:
        handled = vm.handled[-1] if vm.handled else None
        frame.node = node
        error: Any = handled or RuntimeError("no active exception to re-raise")
    else:
        error = vm.eval(node.exc, frame)
        cause = None if node.cause is None else vm.eval(node.cause, frame)
        vm.at(node, frame)
    if isinstance(error, type) and issubclass(error, BaseException):
        error = error()
    if not isinstance(error, BaseException):
        raise TypeError("exceptions must derive from BaseException")
    if vm.pieces is not None and any_runtime(error.args) and not vm.catching:
        if operations.holds_object(error.args):
            operations.raised(vm, error, frame)
        raise_at_run_time(vm, error, node, frame)
    if isinstance(cause, type) and issubclass(cause, BaseException):
        cause = cause()
    if node.cause is not None:
        error.__cause__ = cause
    if under_runtime(vm):
        raise_at_run_time(vm, error, node, frame)
    error.args = tuple(map(_with_symbols, error.args))
    raise error


def _with_symbols(said: Any) -> Any:
    """A text with open sizes by their symbols: what is raised while tracing shows none."""
    if not isinstance(said, Text):
        return said
    words = []
    for part in said.parts:
        value = part.value if isinstance(part, Formatted) else part
        node = value.ir_value.node if isinstance(value, GraphTensor) else None
        if node is not None and node.op == "cast":
            node = node.operands[0].node
        if node is not None and node.op == "size_number":
            value = node.attrs["value"]
        elif not isinstance(value, str):
            return said
        words.append(str(value))
    return "".join(words)


def under_runtime(vm: Interpreter) -> bool:
    """Whether what is raised here is raised only if a run-time condition holds.

    That holds too after a check, which may end the call before, and after a question.
    """
    return vm.region_depth > vm.try_region or (
        vm.tracer.checks + vm.state.asks > 0 and not vm.catching and not vm.tidying)


def raise_at_run_time(
    vm: Interpreter, error: BaseException, node: ast.stmt, frame: Frame
) -> NoReturn:
    """End the path: the network raises if it gets here."""
    if vm.catching or (vm.tidying and _would_be_told(vm)):
        raise _uncatchable(vm, node, frame)
    if not isinstance(error, Exception):
        raise TypeError(f"a {type(error).__name__} cannot be raised by a compiled network")
    vm.at(node, frame)
    if vm.fault is not None and vm.fault.error is error and vm.fault.node is not None \
            and vm.fault.node[0] is frame:
        vm.at(vm.fault.node[1] or node, frame)  # where it was raised, not where it continues
    check(vm, scalar(False), error, frame)
    raise Diverged(len(vm.tracer.regions))


def _uncatchable(vm: Interpreter, node: ast.stmt, frame: Frame) -> CompileError:
    return avoidable(vm, vm.error(
        "CE403", RuntimeError,
        "an exception that depends on a run-time value cannot be caught by 'try'", frame, node,
        hint="move it out of the 'try', or choose by 'if' instead of an exception",
    ))


