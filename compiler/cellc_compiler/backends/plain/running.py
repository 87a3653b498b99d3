"""The state of running reductions, from element to element, in plain loops and on GPUs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..along_axis import Running
from ..llvm import reduction
from ..llvm.convert import register_type
from ..llvm.math import functions as math
from ..llvm.math.lanes import X
from .writer import PlainFunction, Var

State = list[X]


class Taking(ABC):
    """The state that a line carries from element to element."""

    def __init__(self, form: Running) -> None:
        self.form, self.dtype = form, form.dtype
        self.types = [register_type(form.dtype)]  # of the numbers that it is

    @abstractmethod
    def start(self, f: PlainFunction) -> State:
        """Before the first element."""

    @abstractmethod
    def take(self, f: PlainFunction, held: State, loaded: State, place: X) -> State:
        """With an element."""

    def join(self, f: PlainFunction, held: State, later: State) -> State:
        """With the results for later elements."""
        raise TypeError(f"a line of {self.form.kind} is one run")

    def result(self, f: PlainFunction, held: State) -> State:
        """Return the values to write."""
        return held


class _Sum(Taking):
    def start(self, f: PlainFunction) -> State:
        return [X(f, f.const(self.types[0], 0))]

    def take(self, f: PlainFunction, held: State, loaded: State, place: X) -> State:
        return self.join(f, held, loaded)

    def join(self, f: PlainFunction, held: State, later: State) -> State:
        return [held[0] + later[0]]


class _Product(_Sum):
    def start(self, f: PlainFunction) -> State:
        return [X(f, f.const(self.types[0], 1))]

    def join(self, f: PlainFunction, held: State, later: State) -> State:
        return [held[0] * later[0]]


class _Linear(_Sum):
    def take(self, f: PlainFunction, held: State, loaded: State, place: X) -> State:
        return [held[0] * loaded[1] + loaded[0]]


class _Extreme(Taking):
    """The extreme so far, and its place: the last of equal ones, or the first NaN."""

    def __init__(self, form: Running) -> None:
        super().__init__(form)
        self.types.append("i32")

    def start(self, f: PlainFunction) -> State:
        (first,) = reduction.identity(f, self.form.kind, self.types[0], self.dtype)
        return [X(f, first), X(f, f.const("i32", 0))]

    def take(self, f: PlainFunction, held: State, loaded: State, place: X) -> State:
        return self.join(f, held, [loaded[0], place.to("trunc", "i32")])

    def join(self, f: PlainFunction, held: State, later: State) -> State:
        old, new = held[0], later[0]
        low, high = (new, old) if self.form.kind == "max" else (old, new)
        kept = f.compare("lt", self.dtype, low, high) | f.compare("ne", self.dtype, old, old)
        return [kept.where(a, b) for a, b in zip(held, later, strict=True)]


class _LogSumExp(Taking):
    """The largest so far, and the sum of exponentials less it."""

    def __init__(self, form: Running) -> None:
        super().__init__(form)
        self.types *= 2

    def start(self, f: PlainFunction) -> State:
        return [f.number(self.dtype, float("-inf")), f.number(self.dtype, 0)]

    def take(self, f: PlainFunction, held: State, loaded: State, place: X) -> State:
        (old, total), (new,) = held, loaded
        top = new.cmp("ugt", old).where(new, old)
        shift = _shift(top)
        return [top, total * _call("exp", old - shift) + _call("exp", new - shift)]

    def result(self, f: PlainFunction, held: State) -> State:
        return [_shift(held[0]) + _call("log", held[1])]


def _shift(top: X) -> X:
    """0 where the largest is no finite number."""
    return (top - top).eq(0).where(top, 0)


def _call(name: str, x: X) -> X:
    return X(x.f, math.emit(x.f, name, x.v))


TAKING: dict[str, type[Taking]] = {"sum": _Sum, "prod": _Product, "max": _Extreme,
                                     "min": _Extreme, "logsumexp": _LogSumExp, "linear": _Linear}


def values_of(cells: Sequence[Var]) -> State:
    """The values of variables."""
    return [c.get() for c in cells]


def set_all(cells: Sequence[Var], state: State) -> None:
    """Give variables new values."""
    for c, x in zip(cells, state, strict=True):
        c.set(x)
