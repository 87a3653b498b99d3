"""`with` and `try`, around work done while compiling."""

from __future__ import annotations

import ast
import dis
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, partial
from inspect import CO_VARARGS
from itertools import pairwise
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeVar

from cellc_compiler.ir.graph import Node
from cellc_compiler.ir.op import has_effect

from ..tracing.reads import in_class
from ..tracing.tracer import SizeInside
from .asking import avoidable, settled, site
from .assignment import assign_to
from .control import under
from .errors import Cascade, CompileError
from .outcome import NEXT, Diverged, NotRollable, Outcome
from .runtime_errors import raise_at_run_time, under_runtime
from .values import MISSING

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter


_Result = TypeVar("_Result")
GENERATED: Any = type(contextmanager(lambda: iter(()))())
"""The class of the managers that `contextlib.contextmanager` gives."""
_OF_TRACING = CompileError, Cascade, Diverged, SizeInside
"""Exceptions that the program cannot catch (the last: of tracing, which may ask)."""


def special(
    vm: Interpreter, target: Any, name: str, args: Sequence[Any], frame: Frame
) -> Any:
    """Call a special method of a context manager."""
    found = in_class(type(target), name, MISSING)
    vm.special(target, name)  # reports where it was found
    if found is MISSING:
        raise TypeError(f"'{type(target).__name__}' object does not support the context manager "
                        "protocol")
    return vm.call(found, [target, *args], {}, frame)


Steps = Generator[Any, Any, Outcome]
"""The work of a statement, which pauses where a generator of the program yields."""
Body = Callable[["Interpreter", Sequence[ast.stmt], "Frame"], "Outcome | Steps"]
"""Runs the statements inside: at once, or in steps."""


def _at_once(vm: Interpreter, stmts: Sequence[ast.stmt], frame: Frame) -> Outcome:
    return vm.block(stmts, frame)


def ran(work: Outcome | Steps) -> Steps:
    """The outcome of statements inside."""
    return work if isinstance(work, Outcome) else (yield from work)


def driven(steps: Steps) -> Outcome:
    """Run what does not yield."""
    try:
        next(steps)
    except StopIteration as done:
        outcome: Outcome = done.value
        return outcome
    except RuntimeError as e:
        raise unwrapped(e)  # noqa: B904  # the program's exception, with its own context
    raise AssertionError("a statement outside of a generator yields")


def unwrapped(error: BaseException) -> BaseException:
    """An exception of the program; Python puts a StopIteration in a RuntimeError on its way out of
    steps, and `Closing` stands for another."""
    if type(error) is Closing:
        return Closed()
    cause = error.__cause__
    wrapped = type(error) is RuntimeError and isinstance(cause, StopIteration) and \
        error.args == ("generator raised StopIteration",) and not hasattr(error, "of_program")
    return cause if wrapped and cause is not None else error


class Closed(GeneratorExit):
    """The exception that a generator of the program sees where it yields when the program closes
    it. (Python raises the base class when it drops the steps: nothing of the program runs then.)"""


class Closing(BaseException):
    """Thrown into the steps of a generator that the program closes: a GeneratorExit thrown into
    steps drops those that they go through."""


def with_statement(vm: Interpreter, node: ast.With, frame: Frame) -> Outcome:
    """`with a as x, b: ...`"""
    return driven(with_steps(vm, node, frame, _at_once))


def with_steps(
    vm: Interpreter, node: ast.With, frame: Frame, body: Body, index: int = 0
) -> Steps:
    """A `with` statement, from its `index`-th manager on."""
    if index == len(node.items):
        return (yield from ran(body(vm, node.body, frame)))
    item = node.items[index]
    manager = vm.eval(item.context_expr, frame)
    vm.at(item.context_expr, frame)
    value = special(vm, manager, "__enter__", [], frame)
    if item.optional_vars is not None:
        assign_to(vm, item.optional_vars, value, frame)
    of_generator = any(k is GENERATED for k in type(manager).__mro__)  # its own `try` does the rest
    catches = not of_generator and _may_catch(manager)
    tidies = not of_generator and (
        _is_asked(vm, node, frame) or (_is_told(manager) and not vm.collect))
    checks = vm.tracer.checks

    def leave(*error: Any) -> Any:
        vm.frame = frame
        return special(vm, manager, "__exit__", error or [None, None, None], frame)

    try:
        with _catching(vm, catches, tidies) if catches or tidies else nullcontext():
            outcome = yield from with_steps(vm, node, frame, body, index + 1)
    except Diverged as e:
        if of_generator:
            leave(type(e), e, e.__traceback__)
        else:
            _leave(vm, node, frame, checks, leave)
        raise
    except _OF_TRACING as e:
        leave(*((type(e), e, e.__traceback__) if of_generator else ()))
        raise
    except (Exception, Closed, Closing) as raised:
        error = unwrapped(raised)
        vm.mark(error, frame)
        if leave(type(error), error, error.__traceback__):
            vm.frame = frame
            return NEXT
        if (catches or tidies) and under_runtime(vm):
            raise_at_run_time(vm, error, node, frame)
        raise
    if of_generator:
        leave()
    else:
        _leave(vm, node, frame, checks, leave)
    vm.frame = frame
    return outcome


def _is_asked(vm: Interpreter, node: ast.stmt, frame: Frame) -> bool:
    """Whether the run is asked about what is raised in a statement that ends with changes."""
    return site(frame, node) in vm.state.asked


def _leave(
    vm: Interpreter, node: ast.stmt, frame: Frame, checks: int, last: Callable[[], _Result]
) -> _Result:
    """Run the last step of a statement, also after an exception in it.

    Args:
        checks: how many exceptions of the run there were before it.

    Raises:
        CompileError: it changes Python objects or prints, which exceptions of the run would pass
            by. The trace is repeated, and the run is asked about them (`_is_asked`), as far as
            possible; not where errors are looked for: those of the foreseen path would count.
    """
    passes = vm.tracer.checks > checks and not vm.collect and not _is_asked(vm, node, frame)
    before = _effects(vm) if passes else set()
    result = last()
    if passes and not _effects(vm) <= before:
        vm.frame = frame
        error = avoidable(vm, vm.error(
            "CE403", RuntimeError, "an exception of the run passes by what is done last here",
            frame, node), node)
        if error.site not in vm.state.asked:
            raise error
    return result


def _effects(vm: Interpreter) -> set[Node]:
    return set(filter(has_effect, vm.tracer.regions[-1].graph.nodes))


def _may_catch(manager: Any) -> bool:
    """Whether a context manager may drop an exception or raise another one in its place: its
    `__exit__` returns something or raises."""
    leave = in_class(type(manager), "__exit__", MISSING)
    code = getattr(leave, "__code__", None)
    return code is not None and (_returns(code) or _raises(code))


def _is_told(manager: Any) -> bool:
    """Whether a context manager looks at the exception, to do other things then."""
    code = getattr(in_class(type(manager), "__exit__", MISSING), "__code__", None)
    return code is not None and _looks(code)


@cache
def _looks(code: CodeType) -> bool:
    """Whether a method reads an argument after its first."""
    told = {*code.co_varnames[1:code.co_argcount + bool(code.co_flags & CO_VARARGS)]}
    return any(told & {*(i.argval if isinstance(i.argval, tuple) else (i.argval,))}
               for i in dis.get_instructions(code)
               if "LOAD_FAST" in i.opname or "LOAD_DEREF" in i.opname)


@cache
def _raises(code: CodeType) -> bool:
    return any(i.opname == "RAISE_VARARGS" for i in dis.get_instructions(code))


@cache
def _returns(code: CodeType) -> bool:
    """Whether a function returns anything but None and False."""
    instructions = list(dis.get_instructions(code))
    said = {i.argval for i in instructions if i.opname == "RETURN_CONST"}
    said |= {before.argval if before.opname == "LOAD_CONST" else ...
             for before, i in pairwise(instructions) if i.opname == "RETURN_VALUE"}
    return not said <= {None, False}


@contextmanager
def _catching(vm: Interpreter, may: bool = True, tidies: bool = False) -> Iterator[None]:
    """Exceptions may be caught here: a raise under a condition of the run asks for that. With
    `tidies` it is asked for if that is possible: what is done last changes Python objects."""
    saved = vm.catching, vm.tidying, vm.try_region, vm.tracer.caught
    vm.catching += may
    vm.tidying += tidies
    vm.try_region = vm.region_depth
    vm.tracer.caught = partial(settled, vm) if vm.catching or vm.tidying else None
    try:
        yield
    finally:
        vm.catching, vm.tidying, vm.try_region, vm.tracer.caught = saved


def try_statement(vm: Interpreter, node: ast.Try, frame: Frame) -> Outcome:
    """`try/except/else/finally`: exceptions of compile-time work are caught."""
    return driven(try_steps(vm, node, frame, _at_once))


def try_steps(vm: Interpreter, node: ast.Try, frame: Frame, body: Body) -> Steps:
    """A `try` statement."""
    if not node.finalbody:
        return (yield from _guarded(vm, node, frame, body))
    frame.finals += 1
    checks = vm.tracer.checks
    try:
        with _catching(vm, any(map(_leaves, node.finalbody)), _is_asked(vm, node, frame)):
            outcome = yield from _guarded(vm, node, frame, body)
    except (KeyboardInterrupt, NotRollable):
        frame.finals -= 1
        raise
    except _OF_TRACING as e:
        # No error of the program: what the trace did on the host is undone, and nothing drops it.
        frame.finals -= 1

        def undo() -> None:
            with suppress(*_OF_TRACING):
                vm.block(node.finalbody, frame)

        if isinstance(e, Diverged):
            _leave(vm, node, frame, checks, undo)
        else:
            undo()
        raise
    except BaseException as caught:
        frame.finals -= 1
        if type(caught) is GeneratorExit:
            raise
        error = unwrapped(caught)
        vm.frame = frame
        raised = [error] if isinstance(error, Exception) else []
        vm.handled += raised
        try:
            final = _leave(vm, node, frame, checks, lambda: vm.block(node.finalbody, frame))
        finally:
            del vm.handled[len(vm.handled) - len(raised):]
        if not final.falls:
            return final
        if raised and (final.mixed or under_runtime(vm)):
            return _or_else(vm, node, final, frame,
                            partial(raise_at_run_time, vm, error, node, frame), node)
        raise
    frame.finals -= 1
    vm.frame = frame
    final = _leave(vm, node, frame, checks, lambda: vm.block(node.finalbody, frame))
    return _or_else(vm, node, final, frame, lambda: outcome, node)


def _or_else(
    vm: Interpreter, node: ast.Try, ended: Outcome, frame: Frame, rest: Callable[[], Outcome],
    last: ast.stmt,
) -> Outcome:
    """How a statement ends of which a part (its body, its `finally`) jumps, or jumps sometimes:
    what follows that part is run where it did not; `last` is what comes last then."""
    if not ended.kinds and ended.falls:
        return rest()
    return under(vm, node, ended, frame, rest, frame.source.live.after[last])


def _guarded(vm: Interpreter, node: ast.Try, frame: Frame, body: Body) -> Steps:
    try:
        with _catching(vm, bool(node.handlers)):
            outcome = yield from ran(body(vm, node.body, frame))
    except _OF_TRACING:
        raise
    except (Exception, Closed, Closing) as e:
        vm.frame = frame
        return (yield from _handle(vm, node, unwrapped(e), frame, body))
    if not outcome.falls or not node.orelse:
        return outcome
    if not outcome.kinds:
        return (yield from ran(body(vm, node.orelse, frame)))
    return _or_else(vm, node, outcome, frame, lambda: vm.block(node.orelse, frame),
                    node.orelse[-1])


def _leaves(node: ast.AST, in_loop: bool = False) -> bool:
    """Whether a statement of a `finally` may jump out of it or raise, and so drop an exception."""
    if isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
        return False
    if isinstance(node, (ast.Return, ast.Raise, ast.Assert)) or (
            isinstance(node, (ast.Break, ast.Continue)) and not in_loop):
        return True
    return any(_leaves(child, in_loop or isinstance(node, (ast.For, ast.While)))
               for child in ast.iter_child_nodes(node))


def _handle(
    vm: Interpreter, node: ast.Try, error: BaseException, frame: Frame, body: Body
) -> Steps:
    for handler in node.handlers:
        kinds = BaseException if handler.type is None else vm.eval(handler.type, frame)
        if not isinstance(error, kinds):
            continue
        frame.node = handler
        if handler.name is not None:
            raised = vm.pieces.raised if vm.pieces is not None else {}
            vm.store(frame, handler.name, raised.get(id(error), (None, error))[1])
        vm.handled.append(error)
        try:
            return (yield from ran(body(vm, handler.body, frame)))
        finally:
            vm.handled.pop()
            if handler.name is not None:
                frame.table.pop(handler.name, None)
    if under_runtime(vm) and not node.finalbody:  # (it runs first)
        raise_at_run_time(vm, error, node, frame)
    raise error

