"""Questions that only a run can answer, asked before the rest is traced.

Most conditions of the run become branches and loops of the graph. Where the paths have no form in
common (a list that grows on one of them, a key that is there or not, recursion), the answer is
*asked*: what decides is measured by an early stage of the program, as sizes that follow from
elements are (`Tracer.measure`), and what is traced serves the runs that answer alike. Programs for
other answers are kept beside it.

The answer for the call at hand is foreseen by the reference interpreter; the run checks it.
An error that asking would avoid names a place in the source (`CompileError.site`): the call is
traced again, and asks there.
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from cellc_compiler.ir.dims import Dim
from cellc_compiler.ir.graph import Value
from cellc_compiler.ir.shapes import active_shapes
from cellc_runtime import dtypes

from ..core.dispatch import apply
from ..core.module_names import plain
from ..tensors.tensor import Tensor
from ..tracing.numbers import GraphNumber, item_of, kind_of, power_of_ints
from ..tracing.state_numbers import StateNumber
from ..tracing.tracer import GraphTensor, SizeInside
from . import regions
from .errors import Cascade, CompileError
from .values import holds

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter

ASKS = 500  # Questions of one trace, at most: each is a guard, and each new answer another trace
_LOW = -(1 << 62)
Error = TypeVar("Error", bound=CompileError)


def site(frame: Frame, node: ast.AST) -> Hashable:
    """A place in the source where may be asked."""
    return (frame.source.file, getattr(node, "lineno", 0), getattr(node, "col_offset", 0),
            type(node).__name__)


def place_of_call(frame: Frame) -> Hashable:
    """The place in the source of what a frame is about to do."""
    return site(frame, frame.source.node if frame.node is None else frame.node)


@contextmanager
def inside(vm: Interpreter, frame: Frame, node: ast.AST) -> Iterator[None]:
    """In the block a branch or loop of the run is traced, in which nothing can be asked."""
    vm.sites.append(site(frame, node))
    try:
        yield
    except SizeInside as e:
        e.site = vm.sites[0]
        raise
    finally:
        vm.sites.pop()


def avoidable(vm: Interpreter, error: Error, node: ast.AST | None = None) -> Error:
    """An error that would not be there if the outermost branch or loop of the run, or else `node`,
    were asked about."""
    if vm.sites:
        error.site = vm.sites[0]
    elif node is not None and vm.frame is not None:
        error.site = site(vm.frame, node)
    return error


def can_ask(vm: Interpreter) -> bool:
    """Whether a question can be asked here: not within what the run may do or not, or repeat."""
    return not vm.sites and not vm.rolling and vm.state.asks < ASKS \
        and active_shapes() is not None \
        and not vm.tracer.inside()


def is_asked(vm: Interpreter, node: ast.AST, frame: Frame) -> bool:
    """Whether the run is asked at a place in the source, and can be."""
    return bool(vm.state.asked) and site(frame, node) in vm.state.asked and can_ask(vm)


def answer(vm: Interpreter, known: Any, node: ast.AST, frame: Frame) -> bool | None:
    """The truth of a bool of the graph at a place where is asked; None at others."""
    return asked_truth(vm, known) if is_asked(vm, node, frame) else None


def asked_truth(vm: Interpreter, known: Tensor) -> bool | None:
    """The truth of a bool of the graph, which becomes a guard; None if it cannot be asked."""
    found = _measured(vm, known, "a condition", (0, 1))
    return None if found is None else bool(found == 1)


def decided(
    vm: Interpreter, known: bool | Tensor, error: Callable[[], CompileError]
) -> bool:
    """A truth value that must be known.

    Raises:
        CompileError: `error`, if it cannot be asked.
    """
    found = known if isinstance(known, bool) else asked_truth(vm, known)
    if found is None:
        raise avoidable(vm, error())
    return found


def asked_int(vm: Interpreter, number: Any) -> Any:
    """An int of the graph as Python's, which becomes a guard; anything else as it is."""
    if type(number) is not GraphNumber or kind_of(number) is float:
        return number
    if kind_of(number) is bool:
        found: Any = asked_truth(vm, number)
    else:
        found = _measured(vm, number, "a number", (_LOW, None))
    if found is None:
        assert vm.frame is not None
        raise avoidable(vm, vm.error(
            "CE404", TypeError, "a number known only at run time decides what is computed here",
            vm.frame, hint="compute it before the loop or branch"))
    return found if isinstance(found, bool) else int(found)


def asked_index(vm: Interpreter, index: Any) -> Any:
    """The index of a Python container, with ints and one-element tensors of the graph asked for."""
    if isinstance(index, slice):
        return slice(*(asked_index(vm, v) for v in (index.start, index.stop, index.step)))
    if type(index) is GraphTensor and index.size == 1 and not index.dtype.is_inexact:
        index = item_of(index)
    return asked_int(vm, index)


def _measured(
    vm: Interpreter, number: Tensor, name: str, bounds: tuple[int, int | None]
) -> Dim | int | None:
    """A number of the graph as a size; None if it cannot be asked for here."""
    size = _open_size(number)
    if size is not None:
        return size
    if not can_ask(vm):
        return None
    hint = vm.foresight.of(number)
    if hint is None and vm.collect:
        hint = vm.state.asks % 2 == 0  # no call is at hand: a way into a loop, and out of it
    if hint is None:
        return None
    vm.state.asks += 1
    count = apply("cast", apply("stop_gradient", number), dtype=dtypes.int64)
    return vm.tracer.measure(count, name, bounds[1], low=bounds[0], hint=int(hint))[0]


def _open_size(number: Tensor) -> Dim | None:
    """The open size that a number of the graph is made of, as `int(Tensor(x.shape[1]))`."""
    if not isinstance(number, GraphTensor):
        return None
    node = number.ir_value.node
    while node is not None and node.op in _SAME_NUMBER and node.result.type.dtype is dtypes.int64:
        node = node.operands[0].node
    if node is None or node.op != "size_number" or node.attrs["dtype"] is not dtypes.int64:
        return None
    size = node.attrs["value"]
    return size if type(size) is Dim else None


_SAME_NUMBER = frozenset({"stop_gradient", "reshape", "cast"})


def settled(
    vm: Interpreter, checked: Tensor, error: str, text: str, low: int, high: int
) -> bool:
    """Ask whether a number is in [low, high), in a `try` that may catch the error if it is not.

    Returns:
        Whether it could be asked: else the network checks it, and `try` catches nothing.

    Raises:
        Exception: of the builtin class `error`: it is not.
        CompileRuntimeError: it can be asked if the loop or branch around it is, too.
    """
    if checked.size != 1:
        return False
    number = apply("reshape", apply("cast", checked, dtype=dtypes.int64), shape=())
    found = asked_truth(vm, apply("logical_and", number >= low, number < high))
    if found is None and vm.sites and vm.sites[0] not in vm.state.asked and vm.frame is not None:
        raise avoidable(vm, vm.error(
            "CE403", RuntimeError, "an exception that depends on a run-time value cannot be caught "
            "by 'try'", vm.frame))
    if found is False:
        raise getattr(builtins, error)(text)
    return found is not None


# --- sizes ----------------------------------------------------------------------------------------


def called(
    vm: Interpreter, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Call a function of the library. If it does not take numbers of the graph, they become
    sizes: symbols, or known ones where it asks what they are."""
    if not any(map(_holds_number, (*args, *kwargs.values()))):
        return fn(*args, **kwargs)
    mark = regions.mark(vm.tracer)
    try:
        return fn(*args, **kwargs)
    except CompileError:
        raise
    except (TypeError, ValueError) as e:
        if not can_ask(vm):
            if vm.sites:
                raise avoidable(vm, vm.located(e, vm.frame)) from None
            raise
        regions.rewind(vm.tracer, mark)
        name = plain(fn, "__name__", "a function")
        sizes: dict[Value, Any] = {}
        given = [_sized(vm, a, name, sizes) for a in args]
        named = {k: _sized(vm, v, name, sizes) for k, v in kwargs.items()}
        try:
            return fn(*given, **named)
        except (TypeError, ValueError) as again:
            raise (e if isinstance(again, type(e)) else again) from None


def _holds_number(value: Any) -> bool:
    return holds(value, lambda v: type(v) is GraphNumber and kind_of(v) is not float, 2)


def _sized(vm: Interpreter, value: Any, name: str, sizes: dict[Value, Any]) -> Any:
    if isinstance(value, (tuple, list)) and _holds_number(value):
        return type(value)(_sized(vm, v, name, sizes) for v in value)
    if not _holds_number(value):
        return value
    if kind_of(value) is bool:
        return asked_int(vm, value)
    found = sizes.get(value.ir_value)
    if found is None:
        found = _measured(vm, value, name, (_LOW, None))
        found = sizes[value.ir_value] = value if found is None else found
    return found


def asked_elements(vm: Interpreter, x: Tensor, name: str) -> list[int] | None:
    """The elements of a tensor of ints, in row-major order, for a function of the library whose
    result's form depends on them: guards. None if they cannot be asked for here.

    Raises:
        Cascade: there is no call at hand that could answer.
    """
    if vm.collect and can_ask(vm):
        raise Cascade
    size = math.prod(x.shape)
    if size + vm.state.asks > ASKS:
        return None
    flat = apply("reshape", x, shape=(size,))
    found: list[int] = []
    for i in range(size):
        one = apply("reshape", apply("slice", flat, start=(i,), stop=(i + 1,)), shape=())
        element = _measured(vm, one, name, (_LOW, None))
        if element is None:
            return None
        found.append(int(element))
    return found


def power(vm: Interpreter, base: Any, exponent: Any, frame: Frame) -> Any:
    """`base ** exponent` of ints where only the run knows the exponent: an int, or a float if
    that is negative."""
    not_negative = decided(vm, exponent >= 0, lambda: vm.error(
        "CE404", TypeError, "an int to the power of an int known only at run time is an int or a "
        "float, depending on the sign", frame, hint="make one of them a float"))
    return power_of_ints(base, exponent) if not_negative else (base * 1.0) ** exponent


class Ordered:
    """A key that `sorted` compares: by asking, where only the run knows."""

    __slots__ = ("ask", "key")

    def __init__(self, key: Any, ask: Callable[[Any], bool]) -> None:
        self.key, self.ask = key, ask

    def __lt__(self, other: Ordered) -> bool:
        return self.ask(self.key < other.key)


def is_asked_power(operate: str, base: Any, exponent: Any) -> bool:
    """Whether a power is one of ints whose sign only the run knows."""
    return operate == "pow" and type(exponent) is GraphNumber and kind_of(exponent) is int \
        and type(base) is not StateNumber and kind_of(base) in (bool, int)
