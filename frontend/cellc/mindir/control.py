"""Control flow of MindIR: graphs that call each other, and choose by `Switch`.

MindSpore writes a loop as graphs in continuation-passing style: a header decides between the body,
whose last act is to call the header again, and the graph of all that follows. Such a header is run
as a loop: while the body is walked, a call of the header is not made but gives a `Jump` with its
arguments, the state of the next trip. A `break` is a jump to the graph that follows; what returns
from within the loop is its result. Where several of these are possible a number among the carried
values says which it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_runtime.records import dataclass, field

from ..core.dispatch import active_tracer, apply_one
from ..onnx_import.arrays import element_type
from ..onnx_import.wire import Node, RawTensor
from ..ops.functional import control, shapes
from ..tensors.index_plan import known_elements
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor, tensor_of
from .wire import Body, MindirError, Model

if TYPE_CHECKING:
    from .network import Frame, Run

A = apply_one
_AGAIN, _FOLLOW, _DONE = 0, 1, 2


@dataclass(slots=True)
class Closure:
    """A graph with its first arguments."""

    body: Body
    bound: tuple[Any, ...]


@dataclass(slots=True)
class Choice:
    """One of two graphs, which a condition of the run decides."""

    condition: Any
    on: Closure
    off: Closure


@dataclass(slots=True)
class Jump:
    """The call of a graph that a loop waits for."""

    body: Body
    args: list[Any]


@dataclass(slots=True)
class Encoded:
    """The end of one walk of a loop's body, as the carried tensors."""

    tensors: list[Tensor]


@dataclass(slots=True)
class Loop:
    """A loop that is walked.

    Attributes:
        header, follows: the graphs that jumps are made to.
        kinds: which of `_AGAIN`, `_FOLLOW`, `_DONE` its body may give.
        rows: for each kind, what is carried for it.
    """

    header: Body
    follows: Body | None
    kinds: set[int]
    rows: dict[int, Row] = field(default_factory=dict)

    def encoded(self, outcome: Any) -> list[Tensor]:
        """An outcome as the carried tensors."""
        if isinstance(outcome, Encoded):
            return outcome.tensors
        if isinstance(outcome, Jump):
            kind = {self.header.name: _AGAIN}.get(outcome.body.name, _FOLLOW)
            values: Any = outcome.args
            if kind == _FOLLOW and outcome.body is not self.follows:
                raise MindirError(f"a loop in a loop goes on with the graph {outcome.body.name!r} "
                                  "of the outer one")
        else:
            kind, values = _DONE, [outcome]
        if kind not in self.rows:
            raise MindirError("a loop ends in a way that its graphs do not show")
        out = [] if len(self.kinds) == 1 else [tensor_of(np.array(kind, np.int32))]
        for k in sorted(self.rows):
            out += self.rows[k].leaves(values) if k == kind else self.rows[k].blank
        return out

    def decoded(self, tensors: Sequence[Tensor], kind: int) -> list[Any]:
        """The values of a kind among the carried tensors."""
        at = int(len(self.kinds) > 1)
        for k in sorted(self.rows):
            count = len(self.rows[k].blank)
            if k == kind:
                return self.rows[k].values(list(tensors[at : at + count]))
            at += count
        raise AssertionError(kind)


@dataclass(slots=True)
class Row:
    """Nested values of which the tensors are carried; all else stays as it was.

    Attributes:
        pattern: the values; in the place of a carried tensor a zero of its type.
    """

    pattern: list[Any]
    blank: list[Tensor]

    def leaves(self, values: Sequence[Any]) -> list[Tensor]:
        """The tensors of values of this form."""
        out: list[Tensor] = []
        _take(self.pattern, list(values), out)
        return out

    def values(self, tensors: list[Tensor]) -> list[Any]:
        """The values with these tensors."""
        found: list[Any] = _put(self.pattern, tensors)
        return found


class _Carried:
    """Stands for a carried tensor in a pattern."""


_CARRIED = _Carried()


def _row(values: Sequence[Any], numbers: bool = False) -> Row:
    """The form of values: tensors are carried, but Parameters stay where they are. `numbers`:
    whether numbers are carried, as tensors."""
    blank: list[Tensor] = []

    def form(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(form(v) for v in value)
        value = tensor_of(_number(value)) if numbers and isinstance(value, (int, float)) else value
        if not isinstance(value, Tensor) or isinstance(value, Parameter):
            return value
        blank.append(tensor_of(np.zeros(value.shape, value.dtype.numpy)))
        return _CARRIED

    return Row([form(v) for v in values], blank)


def _number(value: bool | int | float) -> np.ndarray[Any, Any]:
    """A number as MindSpore makes a tensor of it."""
    return np.array(value, {bool: np.bool_, int: np.int64}.get(type(value), np.float32))


def _declared(kind: Any) -> Any:
    """A value of a declared type: zeros."""
    if isinstance(kind, (tuple, list)):
        return type(kind)(_declared(k) for k in kind)
    if isinstance(kind, RawTensor):
        if min(kind.dims, default=0) < 0:
            raise MindirError("a loop that is left from within has results of open sizes")
        return tensor_of(np.zeros(kind.dims, element_type(kind.code, "a result").numpy))
    return kind


def _take(pattern: Any, value: Any, out: list[Tensor]) -> None:
    if pattern is _CARRIED:
        if isinstance(value, (int, float)):
            value = tensor_of(_number(value))
        if not isinstance(value, Tensor):
            raise MindirError(f"one way to the same value gives a tensor, another {value!r}")
        out.append(value)
    elif isinstance(pattern, (tuple, list)):
        if not isinstance(value, (tuple, list)) or len(value) != len(pattern):
            raise MindirError("two ways to the same value give it different structures")
        for p, v in zip(pattern, value, strict=True):
            _take(p, v, out)
    elif pattern is not value and (isinstance(value, Tensor) or pattern != value):
        raise MindirError(f"it is {pattern!r} or {value!r}, which is no tensor: only the run knows "
                          "which")


def _put(pattern: Any, tensors: list[Tensor]) -> Any:
    if pattern is _CARRIED:
        return tensors.pop(0)
    if isinstance(pattern, (tuple, list)):
        return type(pattern)(_put(p, tensors) for p in pattern)
    return pattern


class Flow:
    """Which graphs call which, and the constants of all graphs by name."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.constants: dict[str, Node] = {}
        self.calls: dict[str, set[str]] = {}
        self.tails: dict[str, set[str | None]] = {}
        for body in (model.graph, *model.functions.values()):
            self.constants.update((node.outputs[0], node) for node in body.nodes
                                  if node.op == "Constant" and node.outputs)
            named = {n for node in body.nodes for n in (node.op, *node.inputs)}
            self.calls[body.name] = named & model.functions.keys()
            self.tails[body.name] = self._tails(body)

    def _tails(self, body: Body) -> set[str | None]:
        """The graphs whose results may be the result of this one; None: it has one of its own."""
        made = {n: node for node in body.nodes for n in node.outputs}
        out: set[str | None] = set()
        seen: set[str] = set()
        waiting = [o.name for o in body.outputs]
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in self.model.functions:
                out.add(name)
                continue
            node = made.get(name)
            primitive = None if node is None else self.model.primitives.get(node.op)
            if node is None:
                out.add(None)
            elif primitive is None:
                waiting.append(node.op)
            elif primitive.op in ("Depend", "Partial"):
                waiting += node.inputs[:1]
            elif primitive.op == "Switch":
                waiting += node.inputs[1:]
            else:
                out.add(None)
        return out

    def reaches(self, start: str, goal: str, without: frozenset[str]) -> bool:
        """Whether a graph calls another, at once or through others than those of `without`."""
        seen, waiting = set(without), [start]
        while waiting:
            for name in self.calls.get(waiting.pop(), ()):
                if name == goal:
                    return True
                if name not in seen:
                    seen.add(name)
                    waiting.append(name)
        return False

    def kinds(self, starts: Iterable[str | None], header: Body, follows: Body | None) -> set[int]:
        """How walks of graphs may end, where calls of `header` and `follows` end them."""
        ends = {follows and follows.name: _FOLLOW, header.name: _AGAIN, None: _DONE}
        out: set[int] = set()
        seen: set[str | None] = set()
        waiting = list(starts)
        while waiting:
            name = waiting.pop()
            if name in ends:
                out.add(ends[name])
            elif name not in seen:
                seen.add(name)
                waiting += self.tails[name or ""]
        return out

    def start(self, run: Run) -> Walk:
        """The control flow of one walk."""
        return Walk(self, run)


MOST_DEEP = 120  # Calls of graphs within calls


class Walk:
    """The control flow of one walk over a file."""

    def __init__(self, flow: Flow, run: Run) -> None:
        self.flow, self.run = flow, run
        self.loops: list[Loop] = []
        self.depth = 0

    @property
    def _targets(self) -> dict[str, Body]:
        return {b.name: b for loop in self.loops for b in (loop.header, loop.follows) if b}

    def call(self, function: Any, args: Sequence[Any]) -> Any:
        """The result of a graph, or of the one that a condition chooses; or a jump."""
        if isinstance(function, Choice):
            return self.merged(function.condition, lambda: self.call(function.on, args),
                               lambda: self.call(function.off, args),
                               (function.on.body, function.off.body))
        if not isinstance(function, Closure):
            raise MindirError("it calls something that is no graph")
        body, given = function.body, [*function.bound, *args]
        targets = self._targets
        if body.name in targets:
            return Jump(body, given)
        self.depth += 1
        if self.depth > MOST_DEEP:
            raise MindirError(f"its graphs call each other more than {MOST_DEEP} deep")
        try:
            if self.flow.reaches(body.name, body.name, frozenset(targets)):
                return self._loop(body, given)
            return self.run.walk(body, given)
        finally:
            self.depth -= 1

    def merged(
        self, condition: Any, on: Callable[[], Any], off: Callable[[], Any],
        bodies: Sequence[Body] = (),
    ) -> Any:
        """The value of one of two computations."""
        known = decided(condition)
        if known is not None:
            return on() if known else off()
        loop = self.loops[-1] if self.loops else None
        if loop is not None and loop.rows and self.flow.kinds(
                [b.name for b in bodies], loop.header, loop.follows) - {_DONE}:
            own = loop
            ended: Any = control.cond(truth(condition), lambda: tuple(own.encoded(on())),
                                      lambda: tuple(own.encoded(off())))
            return Encoded(list(ended))
        row: list[Row] = []

        def branch(function: Callable[[], Any]) -> Callable[[], Any]:
            def run() -> Any:
                values = [function()]
                row[:] = row or [_row(values, numbers=True)]
                return tuple(row[0].leaves(values))

            return run

        found: Any = control.cond(truth(condition), branch(on), branch(off))
        return row[0].values(list(found))[0]

    def _loop(self, header: Body, args: list[Any]) -> Any:
        """A graph that calls itself last, as a loop."""
        while True:
            frame, choice, given = self._decision(header, args)
            if choice is None:
                if active_tracer() is not None:
                    return self._carried(header, args, None, None)
                with self._waiting(Loop(header, None, set())):
                    outcome = self.run.rest(frame)
            else:
                known = decided(choice.condition)
                if known is None:
                    ends = [not self.flow.reaches(c.body.name, header.name,
                                                  frozenset(self._targets))
                            and c.body is not header for c in (choice.on, choice.off)]
                    return self._carried(header, args, choice, ends.index(True) if any(ends)
                                         else None)
                with self._waiting(Loop(header, None, set())):
                    frame.values[frame.body.nodes[frame.after].outputs[0]] = self.call(
                        choice.on if known else choice.off, given)
                    frame.after += 1
                    outcome = self.run.rest(frame)
            if not isinstance(outcome, Jump) or outcome.body is not header:
                return outcome
            args = outcome.args

    def _decision(
        self, header: Body, args: Sequence[Any]
    ) -> tuple[Frame, Choice | None, list[Any]]:
        """The call of a header up to where it chooses; the choice, and its arguments."""
        frame = self.run.frame(header, args)
        while frame.after < len(header.nodes):
            node = header.nodes[frame.after]
            chosen = frame.values.get(node.op)
            if isinstance(chosen, Choice):
                return frame, chosen, self.run.inputs(node, frame)
            if node.op in self.flow.model.functions:
                break
            self.run.step(frame)
        return frame, None, []

    @contextmanager
    def _waiting(self, loop: Loop) -> Iterator[Loop]:
        self.loops.append(loop)
        try:
            yield loop
        finally:
            self.loops.pop()

    def _carried(
        self, header: Body, args: list[Any], choice: Choice | None, leaving: int | None
    ) -> Any:
        """A loop whose end the run decides. `leaving`: which side of the choice leaves the loop: 0
        where the condition holds, 1 where it does not; None if it is left from within alone."""
        follows = None
        if choice is not None and leaving is not None:
            follows = (choice.on, choice.off)[leaving].body
            kinds = self.flow.kinds([(choice.off, choice.on)[leaving].body.name], header, follows)
        else:
            kinds = self.flow.kinds(self.flow.tails[header.name], header, None)
        loop = Loop(header, follows, kinds | {_AGAIN})
        loop.rows[_AGAIN] = _row(args)
        if _FOLLOW in kinds and follows is not None:
            loop.rows[_FOLLOW] = _row([_declared(i.type) for i in follows.inputs])
        if _DONE in kinds:
            loop.rows[_DONE] = _row([_declared(header.outputs[0].type)])
        several = len(loop.kinds) > 1

        def go(carried: Sequence[Tensor]) -> Any:
            again = A("eq", carried[0], tensor_of(np.array(_AGAIN, np.int32))) if several else None
            if leaving is None:
                return again if again is not None else tensor_of(np.array(True))
            _, now, _ = self._decision(header, loop.decoded(carried, _AGAIN))
            assert now is not None
            flag = truth(now.condition)
            flag = A("logical_not", flag) if leaving == 0 else flag
            return flag if again is None else A("logical_and", again, flag)

        def step(carried: Sequence[Tensor]) -> tuple[Tensor, ...]:
            now = loop.decoded(carried, _AGAIN)
            with self._waiting(loop):
                if leaving is None:
                    return tuple(loop.encoded(self.run.walk(header, now)))
                _, chosen, given = self._decision(header, now)
                assert chosen is not None
                return tuple(loop.encoded(self.call((chosen.off, chosen.on)[leaving], given)))

        end: Any = control.while_loop(go, step, tuple(loop.encoded(Jump(header, args))))
        return self._after(loop, list(end), leaving)

    def _after(self, loop: Loop, end: list[Tensor], leaving: int | None) -> Any:
        """The values after a loop that ended with these tensors."""
        header = loop.header
        if leaving is None:
            return loop.decoded(end, _DONE)[0]
        _, chosen, given = self._decision(header, loop.decoded(end, _AGAIN))
        assert chosen is not None
        leave = (chosen.on, chosen.off)[leaving]
        args = [*leave.bound, *given]

        def is_(kind: int) -> Tensor:
            return A("eq", end[0], tensor_of(np.array(kind, np.int32)))

        if _FOLLOW in loop.rows:
            row = loop.rows[_FOLLOW]
            found: Any = control.cond(
                is_(_FOLLOW), lambda: tuple(row.leaves(loop.decoded(end, _FOLLOW))),
                lambda: tuple(row.leaves(args)))
            args = [new if isinstance(new, Tensor) and not isinstance(old, Parameter) else old
                    for new, old in zip(row.values(list(found)), args, strict=True)]
        if _DONE not in loop.rows:
            return self.call(Closure(leave.body, ()), args)
        return self.merged(is_(_DONE), lambda: loop.decoded(end, _DONE)[0],
                           lambda: self.call(Closure(leave.body, ()), args), (leave.body,))


def truth(condition: Any) -> Tensor:
    """A condition as a tensor without axes."""
    flag: Tensor = shapes.reshape(condition, ())
    return flag


def decided(condition: Any) -> bool | None:
    """A condition that is known now; None where only the run knows it."""
    if not isinstance(condition, Tensor):
        return bool(condition)
    if active_tracer() is not None:
        return None
    found = known_elements(condition)
    return None if found is None else bool(found.reshape(-1)[0])

