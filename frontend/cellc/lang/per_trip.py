"""Numbers known now that differ from trip to trip of a loop that is being rolled.

While the body of a static loop is traced once for all its trips, its variable stands for a number
for each of them: a `PerTrip`. Arithmetic on numbers gives the numbers Python would give, trip by
trip. Where one meets a tensor it becomes a row of a table, and the row becomes an input of the
body. Everything else (a comparison, a call of a library function, a shape, a string) may make one
trip unlike another: that is `NotRollable`, and the loop is unrolled.

A `PerTrip` must not get anywhere unseen, so a name that holds one may be read only at places
whose handlers know of it (`positions`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cellc_compiler.ir.graph import Node, Value

from ..core.module_names import is_exactly
from ..tensors.tensor import Tensor
from ..tracing.tracer import GraphTensor, Tracer
from .outcome import NotRollable

if TYPE_CHECKING:
    from .frames import Frame


class Loop(Protocol):
    """The loop that is being rolled, as its numbers need it."""

    @property
    def tracer(self) -> Tracer:
        """Receives the nodes."""

    def table(self, values: np.ndarray[Any, Any]) -> GraphTensor:
        """A row per trip of numbers."""

    def rows_of(self, tensor: Tensor, indices: Sequence[Any]) -> GraphTensor:
        """`tensor[i]` with an index per trip; the tensor is made outside of the loop."""


class PerTrip:
    """A number for each trip of a loop."""

    __slots__ = ("loop", "values")

    def __init__(self, loop: Loop, values: Iterable[Any]) -> None:
        self.loop, self.values = loop, tuple(values)

    def _unknown(self, *_: Any) -> Any:
        raise NotRollable

    __bool__ = __index__ = __int__ = __float__ = __len__ = __iter__ = __hash__ = _unknown
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __getitem__ = _unknown
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _unknown
    __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = _unknown
    __rpow__ = __neg__ = __pos__ = __abs__ = __round__ = __format__ = __str__ = __repr__ = _unknown


@lru_cache(maxsize=1024)
def positions(function: ast.AST) -> frozenset[ast.AST]:
    """The expressions of a function whose values are taken by a handler that knows a `PerTrip`."""
    found: list[ast.AST] = []
    for node in ast.walk(function):
        match node:
            case ast.BinOp(left=left, right=right):
                found += [left, right]
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                found.append(operand)
            case ast.Assign(targets=targets, value=value):
                if all(isinstance(t, ast.Name) for t in targets):
                    found.append(value)
            case ast.AugAssign(target=ast.Name(), value=value):
                found.append(value)
            case ast.Subscript(slice=index, ctx=ast.Load()):
                found.append(index)
            case ast.Call(args=args):
                found += [a for a in args if not isinstance(a, ast.Starred)]
    return frozenset(found)


def seen(value: Any, node: ast.AST, frame: Frame) -> Any:
    """`value`, the result of an expression.

    Raises:
        NotRollable: it differs from trip to trip and what reads it does not know that.
    """
    if type(value) is PerTrip and node not in positions(frame.source.node):
        raise NotRollable
    return value


_NUMBERS = (bool, int, float)
_WITH_TENSORS = (ast.Add, ast.Sub, ast.Mult, ast.Div)


def _each(loop: Loop, operate: Callable[..., Any], *values: Iterable[Any]) -> PerTrip:
    """The results trip by trip.

    Raises:
        NotRollable: one of the trips fails (which the program may expect of that one).
    """
    try:
        return PerTrip(loop, map(operate, *values))
    except (ArithmeticError, LookupError, TypeError, ValueError) as e:
        raise NotRollable from e


def binary(
    kind: type[ast.operator], operate: Callable[[Any, Any], Any], left: Any, right: Any
) -> Any:
    """`left op right` where one of the two is a `PerTrip`."""
    if type(left) is PerTrip and type(right) is PerTrip:
        if left.loop is not right.loop:
            raise NotRollable
        return _each(left.loop, operate, left.values, right.values)
    per, other = (left, right) if type(left) is PerTrip else (right, left)
    first = per is left
    assert type(per) is PerTrip
    if is_exactly(other, _NUMBERS):
        return _each(per.loop, lambda v: operate(v, other) if first else operate(other, v),
                     per.values)
    if isinstance(other, Tensor) and kind in _WITH_TENSORS:
        return applied(per, lambda v: operate(v, other) if first else operate(other, v))
    raise NotRollable


def in_place(
    kind: type[ast.operator], operate: Callable[[Any, Any], Any], old: Any, value: PerTrip
) -> Any:
    """`old op= value`."""
    if not isinstance(old, GraphTensor):
        raise NotRollable
    if kind not in _WITH_TENSORS:
        raise NotRollable
    changed: list[bool] = []

    def once(v: Any) -> Any:
        mine = GraphTensor(old.ir_value)
        new = operate(mine, v)
        changed.append(new is mine)
        return new

    new = applied(value, once)
    if changed[-1]:
        old.ir_value = new.ir_value
        return old
    return new


def unary(operate: Callable[[Any], Any], value: PerTrip) -> PerTrip:
    """`-value`, `+value`."""
    return _each(value.loop, operate, value.values)


def subscript(target: Any, index: PerTrip) -> Any:
    """`target[index]`: the rows of a tensor, or numbers from a list."""
    if isinstance(target, Tensor):
        return index.loop.rows_of(target, index.values)
    if is_exactly(target, (list, tuple, range)):
        chosen = _each(index.loop, target.__getitem__, index.values)
        if all(is_exactly(v, _NUMBERS) for v in chosen.values):
            return chosen
    raise NotRollable


def refuse_in(args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Raise if an argument differs from trip to trip."""
    if any(type(v) is PerTrip for v in (*args, *kwargs.values())):
        raise NotRollable


# --- where a number meets a tensor ---------------------------------------------------------------


def applied(per: PerTrip, fn: Callable[[Any], Any]) -> Any:
    """`fn` of the number: traced for some of the values, which must differ in one constant."""
    kinds = {type(v) for v in per.values}
    if len(kinds) != 1 or not kinds <= set(_NUMBERS):
        raise NotRollable
    region = per.loop.tracer.regions[-1]
    start = len(region.graph.nodes)
    traced: list[tuple[Any, list[Node], Value]] = []
    for v in _samples(per.values):
        del region.graph.nodes[start:]
        lifted = dict(region.lifted)
        out = fn(v)
        if type(out) is not GraphTensor:
            raise NotRollable
        traced.append((v, region.graph.nodes[start:], out.ir_value))
        region.lifted = lifted
    v, nodes, result = traced[-1]
    for place, dtype in _constants(traced).items():
        for other, other_nodes, _ in traced:
            literal = _literal(_plain(other_nodes)[place[0]].operands[place[1]])
            if literal.shape != () or literal.tobytes() != np.array(other, dtype).tobytes():
                raise NotRollable
        row = per.loop.tracer.lift(per.loop.table(np.array(per.values, dtype)))
        _plain(nodes)[place[0]].operands[place[1]] = row
    return GraphTensor(result)


def _samples(values: Sequence[Any]) -> list[Any]:
    """Numbers that a rule could treat in ways of their own."""
    chosen = [values[0], values[1], values[-1], min(values), max(values)]
    chosen += [v for v in (0, 1, 2, -1) if v in values]
    return list(dict.fromkeys(type(values[0])(v) for v in chosen))


def _plain(nodes: Sequence[Node]) -> list[Node]:
    return [n for n in nodes if n.op != "constant"]


def _value(v: Value) -> Any:
    assert v.node is not None
    return v.node.attrs["value"]


def _literal(v: Value) -> Any:
    return _value(v).array


def _constants(traced: Sequence[tuple[Any, list[Node], Value]]) -> dict[tuple[int, int], Any]:
    """Operands (of which node, and which one) that are constants and differ, with their dtypes."""
    found: dict[tuple[int, int], Any] = {}
    _, nodes, result = traced[0]
    one = _plain(nodes)
    for _, other_nodes, other_result in traced[1:]:
        two = _plain(other_nodes)
        number = {r: (i, j) for i, n in enumerate(one) for j, r in enumerate(n.results)}
        again = {r: (i, j) for i, n in enumerate(two) for j, r in enumerate(n.results)}
        if len(one) != len(two) or number.get(result) != again.get(other_result):
            raise NotRollable
        for i, (a, b) in enumerate(zip(one, two, strict=True)):
            same = a.op == b.op and a.attrs == b.attrs and not a.regions and not b.regions \
                and len(a.operands) == len(b.operands)
            if not same:
                raise NotRollable
            for j, (x, y) in enumerate(zip(a.operands, b.operands, strict=True)):
                if x is y or (x in number and number[x] == again.get(y)):
                    continue
                if not (_is_constant(x) and _is_constant(y)) or x.type != y.type:
                    raise NotRollable
                if _value(x) != _value(y):
                    found[i, j] = _literal(x).dtype
    return found


def _is_constant(v: Value) -> bool:
    return v.node is not None and v.node.op == "constant"
