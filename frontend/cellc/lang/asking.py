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

import numpy as np

from cellc_compiler import interpret
from cellc_compiler.ir.dims import Dim, active_shapes, symbols_of
from cellc_compiler.ir.graph import Builder, Graph, Node, Value, clone_into
from cellc_compiler.ir.op import lookup
from cellc_runtime import dtypes

from ..core.dispatch import apply
from ..core.later import instantiate
from ..core.module_names import contained, plain
from ..tensors.tensor import Tensor, elements_of
from ..tracing.numbers import GraphNumber, item_of, kind_of, power_of_ints
from ..tracing.state_numbers import StateNumber
from ..tracing.tracer import GraphTensor, SizeInside, Tracer
from . import regions
from .errors import Cascade, CompileError

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter

ASKS = 500
"""Questions of one trace, at most: each is a guard, and each new answer another trace."""
_LOW = -(1 << 62)
Error = TypeVar("Error", bound=CompileError)


def site(frame: Frame, node: ast.AST) -> Hashable:
    """A place in the source where may be asked."""
    return (frame.source.file, getattr(node, "lineno", 0), getattr(node, "col_offset", 0),
            type(node).__name__)


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


def _holds_number(value: Any, depth: int = 2) -> bool:
    if type(value) is GraphNumber:
        return kind_of(value) is not float
    return depth > 0 and isinstance(value, (tuple, list)) and any(
        _holds_number(v, depth - 1) for v in contained(value))


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


# --- what the call at hand will answer ------------------------------------------------------------


class Foresight:
    """Values of a graph under construction for the call at hand, by the reference interpreter.

    Args:
        elements: gives the elements of the graph's first inputs, in order; None: nobody knows.
    """

    def __init__(self, tracer: Tracer, elements: Callable[[], Sequence[Any]] | None) -> None:
        self.tracer, self.elements = tracer, elements
        self.known: dict[Value, Any] = {}
        self.measured: dict[str, Value] = {}
        self.begun = False

    def of(self, number: Tensor) -> Any:
        """The element of a number of the graph; None where that cannot be said: what Python gives
        when the network runs."""
        if self.elements is None:
            return None
        if not self.begun:
            self.begun = True
            given = map(np.asarray, self.elements())
            self.known.update(zip(self.tracer.graph.inputs, given, strict=False))
        value = self.tracer.lift(number)
        return None if not self._work_out(value) else self.known[value].item()

    def _work_out(self, value: Value) -> bool:
        """Work out a value and what it is made of; whether that was possible."""
        stack = [value]
        while stack:
            v = stack[-1]
            if v in self.known:
                stack.pop()
                continue
            needs = [self._outer(v)] if v.node is None else [
                *v.node.operands, *self._measures(v.node)]
            missing = [o for o in needs if o is not None and o not in self.known]
            if missing:
                stack += missing
            elif not self._step(v):
                return False
        return True

    def _measures(self, node: Node) -> list[Value]:
        """Return the values that a node's sizes were measured from: hints may be stand-ins."""
        symbols = {s for r in node.results for s in symbols_of(r.type.shape)}
        symbols |= {s for a in node.attrs.values() for s in symbols_of(a)}
        if symbols - self.measured.keys():
            self.measured.update((n.attrs["symbol"], n.result) for r in self.tracer.regions
                                 for n in r.graph.nodes if n.op == "measure")
        return [self.measured[s] for s in symbols if s in self.measured]

    def _outer(self, value: Value) -> Value | None:
        """Return the outer value of a nested graph's input."""
        found = self.tracer.stands.get(value)
        return found if found is not None else next(
            (o for r in self.tracer.regions for o, i in r.captures.items() if i is value), None)

    def _step(self, value: Value) -> bool:
        if value.node is None:
            outer = self._outer(value)
            found = self.known[outer] if outer is not None else self._parameter(value)
            if found is not None:
                self.known[value] = found
            return found is not None
        node = value.node
        if node.op == "measure":
            self.known[node.result] = self.known[node.operands[0]]
            return True
        if any(n.op == "host_call" for n in _within(node)):
            return False
        try:
            self.known.update(zip(node.results, self._evaluated(node), strict=True))
        except Exception:
            self._raise_earlier(node)
            raise
        return True

    def _evaluated(self, node: Node) -> Sequence[Any]:
        return interpret.evaluate(
            for_sizes(node, self._sizes()), [self.known[v] for v in node.operands])

    def _raise_earlier(self, failed: Node) -> None:
        """Raise the first error that the call meets before it gets to a node that fails."""
        for region in self.tracer.regions:
            for node in region.graph.nodes:
                if node is failed:
                    return
                if any(lookup(n.op).may_fail for n in _within(node)) and all(
                        map(self._work_out, node.operands)):
                    self._evaluated(node)

    def _sizes(self) -> Mapping[str, int]:
        """The sizes of the call at hand, where types have symbols."""
        shapes = active_shapes()
        hints = {} if shapes is None else dict(shapes.hints)
        for value in self.tracer.graph.inputs if hints else ():
            if value in self.known:  # (a hint may be a stand-in for 0 or 1)
                pairs = zip(value.type.shape, self.known[value].shape, strict=True)
                hints |= {str(d): n for d, n in pairs if type(d) is Dim}
        found = {s: self.known[v] for s, v in self.measured.items() if v in self.known}
        return hints | {s: int(n) for s, n in found.items()}

    def _parameter(self, value: Value) -> Any:
        found = (p for p, v in self.tracer.parameters.items() if v is value)
        return next((np.asarray(elements_of(p)) for p in found), None)


def _within(node: Node) -> Iterator[Node]:
    yield node
    for region in node.regions:
        yield from region.walk()


def for_sizes(node: Node, sizes: Mapping[str, int]) -> Node:
    """A node for these sizes."""
    if not sizes:
        return node
    alone, out = Graph("step"), Graph("step")
    alone.inputs, alone.nodes, alone.outputs = list(dict.fromkeys(node.operands)), [node], [
        *node.results]
    inputs = [out.add_input(v.type, f"in{i}") for i, v in enumerate(alone.inputs)]
    out.outputs, _ = clone_into(Builder(out), alone, inputs)
    return instantiate.instantiate(out, sizes).nodes[-1]


def is_asked_power(operate: str, base: Any, exponent: Any) -> bool:
    """Whether a power is one of ints whose sign only the run knows."""
    return operate == "pow" and type(exponent) is GraphNumber and kind_of(exponent) is int \
        and type(base) is not StateNumber and kind_of(base) in (bool, int)
