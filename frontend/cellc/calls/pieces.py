"""The Python part of a compiled network's call: its objects, and the log of its effects.

Where a network needs a Python object that only the run knows (`x.asnumpy()`, what a third-party
function gives), the graph calls Python: a *piece*. Objects do not pass along edges: they lie in
the table of the call, and an edge has the place of one, an int64.

The log has what pieces, prints and other functions have given in this call, in order. The first
call of a network runs pieces while it is traced, to learn the types of what they give; the program
that is compiled then takes from the log what has happened already. So does the program for which
a call is traced again. Each piece runs once.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from cellc_compiler.ir.graph import Graph, Node
from cellc_compiler.ir.types import TensorType
from cellc_runtime.records import dataclass, field

from ..tensors.tensor import Tensor, copy_of, tensor_of
from ..tracing.numbers import DTYPES
from ..tracing.pytree import Box, Built, Known, Leaf, ObjectKind, Structure
from ..tracing.state_numbers import fits_int64
from .callbacks import executed

OBJECT = TensorType((), DTYPES[int])  # The type of the place of an object
_LONGEST = 64  # Elements up to which a tuple is taken apart


@dataclass(slots=True)
class CallLog:
    """One call."""

    # what has happened, with what it gave
    done: list[tuple[str, Any]] = field(default_factory=list)
    place: int = 0  # how much of it the program has come past
    objects: list[Any] = field(default_factory=list)  # of the call, by place
    changed: bool = False  # it has changed Python objects besides the effects of its pieces
    thread: int = field(default_factory=threading.get_ident)  # that makes the call

    def again(self) -> None:
        """A program or a trace begins at the beginning."""
        self.place = 0
        self.objects.clear()

    def once(self, what: str, act: Callable[[], Any]) -> Any:
        """Return the result of `act`, or its earlier result from the log."""
        if self.place == len(self.done):
            self.done.append((what, _copy_elements(act())))
        known, value = self.done[self.place]
        if known != what:
            raise RuntimeError(
                f"the second run of a call does {what} where the first did {known}: its effects "
                "must follow from its arguments and from the values that Python gave"
            )
        self.place += 1
        return value

    def hold(self, value: Any) -> Tensor:
        """The place of an object, which is held until the call ends."""
        self.objects.append(value)
        return tensor_of(np.array(len(self.objects) - 1))


def _copy_elements(value: Any) -> Any:
    """A result as it is now: the elements of a Tensor may be written later."""
    return copy_of(value) if isinstance(value, Tensor) else value


class _Active(threading.local):
    def __init__(self) -> None:
        self.calls: list[CallLog] = []


_active = _Active()


def active() -> CallLog:
    """The call under way in this thread."""
    return _active.calls[-1]


@contextmanager
def running(call: CallLog) -> Iterator[None]:
    """In the block pieces belong to a call."""
    _active.calls.append(call)
    try:
        yield
    finally:
        _active.calls.pop()


def held(place: int) -> Any:
    """An object of the call under way."""
    return active().objects[place]


# --- what a piece gives --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Given:
    """The properties of a piece's result that a graph is compiled for."""

    structure: Structure  # Known parts must be equal in each call
    types: tuple[TensorType, ...]  # of its tensors
    error: Exception | None = None  # what it is, if it is raised

    def same(self, other: Given | None) -> bool:
        """Whether one program serves both."""
        return other is not None and self.structure == other.structure and \
            self.types == other.types and (self.error is None) == (other.error is None)


ANY_OBJECT = Given(Leaf(0, ObjectKind(object, held)), (OBJECT,))  # An object of any type


def taken_apart(value: Any, call: CallLog, mode: str = "") -> tuple[Given, list[Tensor]]:
    """A result of Python as numbers, tensors and places of objects. `mode`: `"fixed"`: all of it is
    to be known when the graph is compiled; `"whole"`: it is one object, whatever it is."""
    if isinstance(value, _Raised):
        kind = ObjectKind(type(value.error), held)
        return Given(Leaf(0, kind), (OBJECT,), value.error), [call.hold(value.error)]
    if mode == "fixed":
        return Given(Known(value), ()), []
    if mode == "whole":
        return ANY_OBJECT, [call.hold(value)]
    leaves: list[Tensor] = []

    def leaf(tensor: Tensor, kind: Any = None) -> Leaf:
        leaves.append(tensor)
        return Leaf(len(leaves) - 1, kind)

    def walk(x: Any) -> Structure:
        if x is None or x is NotImplemented:
            return Known(x)
        cls = type(x)
        if cls in DTYPES and (cls is not int or fits_int64(x)):
            return leaf(tensor_of(np.array(x, DTYPES[cls].numpy)), cls)
        if isinstance(x, Tensor):
            return leaf(copy_of(x))
        if cls is tuple and len(x) <= _LONGEST:
            return Box(tuple, (), tuple(walk(v) for v in x))
        return leaf(call.hold(x), ObjectKind(cls, held))

    structure = walk(value)
    return Given(structure, tuple(TensorType(t.shape, t.dtype) for t in leaves)), leaves


@dataclass(frozen=True, slots=True)
class _Raised:
    """The result of a piece that raises where a `try` is to catch it."""

    error: Exception


class Changed(Exception):
    """A piece has given what the graph is not compiled for: the call is to be traced again.

    Attributes:
        key: what else would have to be compiled for.
    """

    def __init__(self, key: Any, given: Given) -> None:
        super().__init__("what Python gives has another shape or value than before")
        self.key, self.given = key, given


class Failed(BaseException):
    """An exception of a piece while a call is traced: no handler of the trace may catch it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def itself(value: Any) -> Any:
    """The value."""
    return value


_WITHOUT_EFFECT = frozenset((itself, operator.is_, type, isinstance))
"""How often these are done is nobody's concern: they do not go to the log. (Whether they are needed
may differ from one attempt at a loop to the next.)"""


class Piece:
    """Python code of a network as a function of the tensors that it needs.

    Args:
        what: it does, for messages and the log, and `where`: `file:line`.
        act: the code, of the values that are made of tensors by `values`.
        expected: what it gave when it was compiled; None: no call has come here yet.
        mode: see `taken_apart`.
        caught: a `try` is to catch what it raises.
        key: tells it from the other pieces of the network.
    """

    def __init__(
        self, what: str, where: str, act: Callable[..., Any],
        values: Callable[[Sequence[Tensor]], list[Any]], mode: str, caught: bool, key: Any,
    ) -> None:
        self.what, self.where, self.act, self.values = what, where, act, values
        self.mode, self.caught, self.key = mode, caught, key
        self.expected: Given | None = None

    def result(self, tensors: Sequence[Tensor]) -> Any:
        """Return the code's result in the present call."""
        if self.act in _WITHOUT_EFFECT:
            return self.act(*self.values(tensors))
        return active().once(f"{self.what} at {self.where}", lambda: self._done(tensors))

    def _done(self, tensors: Sequence[Tensor]) -> Any:
        try:
            return self.act(*self.values(tensors))
        except Exception as e:
            if self.caught:
                return _Raised(e)
            e.add_note(f"  raised by {self.what} at {self.where}, which Python runs")
            raise

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the code's result, as the graph takes it.

        Raises:
            Changed: a shape or a value that the graph was compiled for is.
        """
        given, leaves = taken_apart(self.result(tensors), active(), self.mode)
        if given.same(self.expected):
            return tuple(leaves)
        before = self.expected
        fixed = self.mode == "fixed" or given.error or (before is not None and before.error)
        if before is not None and not fixed and _kinds(given) != _kinds(before):
            raise TypeError(
                f"{self.what} at {self.where} gives {_describe(given)} now, but gave "
                f"{_describe(before)} when the graph was compiled: it must give the same type in "
                "every call"
            )
        raise Changed((self.key, repr((given.structure, given.types, given.error is None))), given)


def _kinds(given: Given) -> Any:
    """A result without its shapes."""
    return given.structure, tuple(t.dtype for t in given.types)


def _describe(given: Given) -> str:
    """A result in words."""
    def walk(part: Structure) -> str:
        if isinstance(part, Known):
            return repr(part.value)
        if isinstance(part, (Box, Built)):
            return f"({', '.join(map(walk, part.parts))})"
        if part.kind is None:
            return f"Tensor {given.types[part.number]}"
        return part.kind.cls.__name__ if isinstance(part.kind, ObjectKind) else part.kind.__name__

    return walk(given.structure)


# --- pieces of compiled graphs -------------------------------------------------------------------


def logged(
    graph: Graph, callbacks: Mapping[str, Callable[..., None]], functions: Sequence[Any],
    changes: frozenset[int], name_of: Callable[[Node], str],
) -> dict[str, Callable[..., None]]:
    """The callbacks of a graph with pieces: what others do goes to the log, too.

    Args:
        functions: those that the traced graph calls, by number (others only look on).
        changes: the numbers of those that change Python objects as the trace has done.
        name_of: the callback's name of a node.
    """
    out = dict(callbacks)
    for node in executed(graph):
        if node.op not in ("host_call", "print"):
            continue
        name, number = name_of(node), node.attrs.get("number", -1)
        if number in changes:
            out[name] = _noted(callbacks[name])
        elif number < len(functions) and not (number >= 0 and isinstance(functions[number], Piece)):
            out[name] = _logged(callbacks[name], label(node), len(node.operands))
    return out


def label(node: Node) -> str:
    """Return the log's name for a node that is no piece."""
    return str(node.attrs.get("name", "print()"))


def _noted(callback: Callable[..., None]) -> Callable[..., None]:
    def call(*arrays: Any) -> None:
        active().changed = True
        callback(*arrays)

    return call


def _logged(callback: Callable[..., None], what: str, count: int) -> Callable[..., None]:
    def call(*arrays: Any) -> None:
        def act() -> list[Any]:
            callback(*arrays)
            return [np.array(a) for a in arrays[count:]]

        made = active().once(what, act) or ()  # (a print that was run ahead gave None)
        for place, array in zip(arrays[count:], made, strict=True):
            np.copyto(place, array)

    return call
