"""Numbers of the graph that follow from Python state alone: known for the call at hand.

An attribute that `construct` changes is an input of the program, so that the next value costs no
compilation. In arithmetic with tensors it is a number of the graph like any other. But where it
decides what is traced (a condition, a length, a shape, a key) its value in this call decides, and
that answer becomes a guard: what was traced serves the calls that answer alike.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from cellc_compiler.ir.graph import Value
from cellc_runtime.records import dataclass, field

from .numbers import GraphNumber, Kind, as_kind, kind_of
from .reads import same, short

State = Mapping[int, Any]
"""The values that the inputs of a trace have at the start of a call, by number."""


@dataclass(slots=True)
class Answer:
    """An assumption of a trace about state."""

    of: Callable[[State], Any]  # gives the value that was requested, from the state of a call
    value: Any  # what it was
    where: str  # the place in the source that asked

    def holds(self, state: State) -> bool:
        """Whether it is so in another call."""
        try:
            return same(self.of(state), self.value)
        except ArithmeticError:
            return False

    def describe(self, state: State) -> str:
        """Describe the old and the new value."""
        try:
            now = short(self.of(state))
        except ArithmeticError as e:
            now = str(e)
        return f"a value that follows from state: {short(self.value)} -> {now} " \
               f"(asked for at {self.where.rpartition('/')[2]})"


@dataclass(slots=True)
class Answers:
    """The answers that one trace was given; `place` says where it is."""

    place: Callable[[], str]
    found: list[Answer] = field(default_factory=list)


class StateNumber(GraphNumber):
    """A number that follows from state.

    Args:
        known: its value in this call.
        of: gives it, from the state of any call.
        answers: takes down what was asked.
    """

    __slots__ = ("_answers", "_known", "_of")

    def __init__(
        self, value: Value, known: Any, of: Callable[[State], Any], answers: Answers
    ) -> None:
        kind = kind_of(known)
        assert kind is not None
        super().__init__(value, kind)
        self._known, self._of, self._answers = known, of, answers

    def asked(self) -> Any:
        """The value in this call, which becomes a guard."""
        self._answers.found.append(Answer(self._of, self._known, self._answers.place()))
        return self._known

    def __bool__(self) -> bool:
        given: Any = self if self._number is bool else self != 0
        return bool(given.asked())

    def __index__(self) -> int:
        return operator.index(self.asked())

    def __int__(self) -> int:
        return int(self.asked())

    def __float__(self) -> float:
        return float(self.asked())

    def __hash__(self) -> int:
        return hash(self.asked())

    def __format__(self, spec: str) -> str:
        return format(self.asked(), spec)

    def converted(self, kind: Kind) -> Any:
        """`int(n)`, `float(n)`, `bool(n)`."""
        return _derived(as_kind(self, kind), kind, self)


def number_input(value: Value, known: Any, number: int, answers: Answers) -> StateNumber:
    """The number that an input of the graph stands for."""
    return StateNumber(value, known, lambda state: state[number], answers)


def fits_int64(value: int) -> bool:
    """Whether an int of Python is a number of the graph."""
    return -1 << 63 <= value < 1 << 63


def _derived(made: Any, function: Callable[..., Any], *given: Any) -> Any:
    """The result of an operator, known for this call where all that it was given is."""
    if type(made) is not GraphNumber or any(
        isinstance(g, GraphNumber) and type(g) is not StateNumber for g in given
    ):
        return made
    states = [g for g in given if type(g) is StateNumber]
    try:
        known = function(*[g._known if type(g) is StateNumber else g for g in given])
    except ArithmeticError:
        return made  # the run ends with this error
    if kind_of(known) is not made._number:
        return made
    parts: list[Callable[[State], Any]] = [
        g._of if type(g) is StateNumber else _constantly(g) for g in given
    ]

    def of(state: State) -> Any:
        return function(*[p(state) for p in parts])

    answers = states[0]._answers
    if type(known) is int:
        if not fits_int64(known):
            raise OverflowError("an int that follows from state is longer than 64 bits")
        answers.found.append(Answer(lambda state: fits_int64(of(state)), True, answers.place()))
    return StateNumber(made.ir_value, known, of, answers)


def _constantly(value: Any) -> Callable[[State], Any]:
    return lambda _: value


def _operator(name: str, function: Callable[..., Any], swapped: bool) -> Callable[..., Any]:
    plain = getattr(GraphNumber, name)

    def method(self: StateNumber, *other: Any) -> Any:
        given = (*other, self) if swapped else (self, *other)
        return _derived(plain(self, *other), function, *given)

    method.__name__ = name
    return method


_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift",
           "rshift")
for _name in _BINARY:
    _function = getattr(operator, f"{_name}_" if _name in ("and", "or") else _name)
    setattr(StateNumber, f"__{_name}__", _operator(f"__{_name}__", _function, False))
    setattr(StateNumber, f"__r{_name}__", _operator(f"__r{_name}__", _function, True))
_PLAIN = {name: getattr(operator, name) for name in (
    "eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert")}
for _name, _function in {**_PLAIN, "round": round}.items():
    setattr(StateNumber, f"__{_name}__", _operator(f"__{_name}__", _function, False))
