"""Entry points of the construct compiler."""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from cellc_compiler.ir.dims import deciding
from cellc_compiler.ir.shapes import Shapes
from cellc_runtime.forks import renewed
from cellc_runtime.records import replace

from ..core.dispatch import tracing
from ..core.module_names import plain
from ..tracing.tracer import Tracer
from . import _model, regions
from .analysis import analyse
from .asking import asked_elements
from .assignment import store_outside
from .call_templates import CallTemplates
from .calls import call, call_cell
from .errors import Cascade, CompileError, CompileRuntimeError, kind
from .expressions import EXPRESSIONS
from .frames import Frame
from .generators import refuse_open
from .hints import Fault, calling_place, for_call
from .interpreter import CALL_DEPTH, Hooks, Interpreter, Language
from .iteration import asked_ranges, returned
from .natively import refused_natively
from .outcome import Diverged
from .pieces import operations
from .results import remade
from .source import FunctionSource
from .state import State
from .statements import STATEMENTS, block
from .survey import rest_of_statement
from .values import Text, holds

_LANGUAGE = Language(EXPRESSIONS, STATEMENTS, block, call, store_outside, rest_of_statement,
                     CallTemplates)


class _Active(threading.local):
    """The interpreter at work in this thread: library code may call back into it."""

    vm: Interpreter | None = None


_active = _Active()


def interpret_call(
    tracer: Tracer,
    fn: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    hooks: Hooks | None = None,
) -> Any:
    """Trace `fn(*args, **kwargs)` into the tracer's graph.

    Args:
        tracer: receives the nodes.
        fn: a Cell, function, bound method, lambda or partial.
        args, kwargs: Python values with GraphTensors as leaves.
        hooks: see `Hooks`; a call from within another one keeps those of the outer call.

    Returns:
        Return the result of the call: a structure with tensors as leaves.

    Raises:
        CompileError: of the builtin kind the error has; exceptions of the user's own types are
            raised as they are, with a note of the place.
    """
    outer = _active.vm
    if outer is not None and outer.tracer is tracer and outer.frame is not None:
        frame = outer.frame
        result = (call_cell if _model.is_cell(fn) else call)(
            outer, fn, list(args), dict(kwargs or {}), frame)
        outer.frame = frame
        outer.state.settle(outer)
        return result
    if hooks is None and outer is not None and outer.tracer is tracer:
        hooks = outer.hooks  # library code that the outer call runs as it is
    vm = Interpreter(_LANGUAGE, tracer, hooks)
    return _run(vm, fn, args, kwargs or {})


def position() -> str:
    """The place in the source that is being compiled in this thread: `file:line`, or ""."""
    return _active.vm.position() if _active.vm is not None else ""


def note_read(target: Any, name: str) -> None:
    """Library code has read an attribute that what is being compiled depends on."""
    vm = _active.vm
    if vm is not None:
        vm.report(target, name)


def check_call(
    tracer: Tracer, fn: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None,
    hooks: Hooks | None = None, shapes: Shapes | None = None,
) -> list[CompileError]:
    """All errors of a call, each once; the graph is of no use afterwards if there are any.

    Args:
        shapes: the symbols of open sizes; what is asked about them is noted there.
    """
    shapes = Shapes() if shapes is None else shapes
    shapes.where, shapes.expression = tracer.place, tracer.expression
    before = regions.snapshot(tracer)
    asked: frozenset[Hashable] = frozenset()
    while True:
        found = _errors(tracer, fn, args, kwargs or {},
                        replace(hooks or Hooks(), state=State(asked=asked)), shapes)
        more = {e.site for e in found if e.site is not None} - asked
        if not more:
            return found
        regions.restore(tracer, before)
        asked |= more


def _errors(
    tracer: Tracer, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any], hooks: Hooks,
    shapes: Shapes,
) -> list[CompileError]:
    """The errors of one trace, each once."""
    vm = Interpreter(_LANGUAGE, tracer, hooks, collect=True)
    try:
        with deciding(shapes):
            _run(vm, fn, args, kwargs)
    except CompileError as e:
        vm.errors.append(e)
    except Cascade:
        pass
    except Exception as e:  # of a class of the user's own
        vm.errors.append(vm.located(e))
    finally:
        vm.state.undo()
    return list({e.key(): e for e in reversed(vm.errors)}.values())[::-1]


def _run(vm: Interpreter, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    root = fn if _model.is_cell(fn) else plain(fn, "__self__")
    if _model.is_cell(root):
        vm.add_root(root)
        if vm.tracer.root is None:
            vm.tracer.root = root
    saved = _active.vm
    _active.vm = vm
    span, scope, whereabouts = vm.tracer.span, vm.tracer.scope, vm.tracer.whereabouts
    changing, asked, interpret = vm.tracer.changing, vm.tracer.asked, vm.tracer.interpret
    vm.tracer.whereabouts, vm.tracer.changing = vm.whereabouts, vm.note_change
    vm.tracer.asked = partial(asked_elements, vm)
    vm.tracer.interpret = partial(interpret_call, vm.tracer)
    depth = len(vm.tracer.regions)
    try:
        with tracing(vm.tracer), _deep_recursion(), refused_natively(vm):
            frame = entry_frame()
            # (Of a Cell, Python has run a `__call__` of its class that is the user's.)
            result = (call_cell if _model.is_cell(fn) else call)(
                vm, fn, list(args), dict(kwargs), frame)
            vm.frame = frame
            result = asked_ranges(vm, returned(result))
            if vm.pieces is not None:
                result = operations.complete(vm, result, frame)
            refuse_open(vm)
            vm.state.settle(vm)
            if holds(result, lambda v: isinstance(v, Text), 4, (tuple, list, dict)):
                raise vm.error(
                    "CE404", TypeError, "a string that holds run-time values is returned", frame,
                    hint="print it, keep it in an attribute, or return the values",
                )
            return remade(vm, result, frame) if vm.hooks.called else result
    except CompileError as e:
        # The frames of the interpreter say nothing about the user's program.
        raise e.with_traceback(None) from None
    except Cascade:
        raise
    except Diverged as e:
        if e.depth != depth:
            raise _trapped() from None
        return None  # every path raises
    except Exception as e:
        raise _outgoing(vm, e) from None
    finally:
        if vm.hooks.state is None:
            vm.state.undo()
        _active.vm = saved
        vm.tracer.span, vm.tracer.scope, vm.tracer.whereabouts = span, scope, whereabouts
        vm.tracer.changing, vm.tracer.asked, vm.tracer.interpret = changing, asked, interpret


def _trapped() -> CompileError:
    """A run-time `raise` that ends a function of which library code makes a branch or loop."""
    return CompileRuntimeError(
        "CE403", "a function given to an op raises on every path, known only at run time",
        hint="return a tensor on one path, or raise before the call",
    )


def _outgoing(vm: Interpreter, error: Exception) -> Exception:
    """Return the exception that leaves the compiler for one of the program."""
    if kind(type(error)) is not None:
        if vm.fault is None or vm.fault.error is not error:  # the call of the network itself
            about, hint = for_call(str(error), vm.callee)
            vm.fault = Fault(error, calling_place(), [], [about] if about else [], hint)
        return vm.located(error)
    place = vm.fault.place if vm.fault and vm.fault.error is error else None
    if place is not None:
        error.add_note("\n".join([place.where(), *place.caret().splitlines()]))
    return error


_ENTRY_NODE = ast.Lambda(
    args=ast.arguments([], [], None, [], [], None, []), body=ast.Constant(None)
)


def entry_frame() -> Frame:
    """The frame outside all functions, from which the first call is made."""
    facts = analyse(_ENTRY_NODE)
    return Frame(FunctionSource("<call>", [], _ENTRY_NODE, facts), facts, "<call>", {}, {}, "", "")


_limit_lock = renewed(threading.Lock())
_limit_users: list[int] = []
"""The recursion limits to go back to, one for each compilation under way (usually one)."""
_PYTHON_FRAMES = 40  # Frames of the interpreter for one call of the interpreted program, at most


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Room for `CALL_DEPTH` interpreted calls; the limit is process-wide, hence the count."""
    with _limit_lock:
        _limit_users.append(sys.getrecursionlimit())
        sys.setrecursionlimit(max(_limit_users[0], CALL_DEPTH * _PYTHON_FRAMES))
    try:
        yield
    finally:
        with _limit_lock:
            last = _limit_users.pop()
            if not _limit_users:
                sys.setrecursionlimit(last)

