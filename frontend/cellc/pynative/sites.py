"""Native sites of the eager engine: the usual op call and the operators of Tensor.

What a site may learn is decided here. A case of `apply` is an op, the types of its operands and
its attributes; a case of an operator is a call that came to exactly one op on its own operands
(a Python number being one that always stands for the same constant).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cellc_runtime.dtypes import DType
from cellc_runtime.executable import Executable
from cellc_runtime.records import dataclass
from cellc_runtime.site import MAX_OPERANDS, STATE, Argument, Site, Sites, plain

from ..common._promotion import constant
from ..common.parameter import Parameter
from ..common.tensor import Tensor
from ..core.dispatch import plain_apply, route

_BUCKETS = 512
_BUDGET = 4096
"""Cases a site learns in its life: a call that is new each time stays cheap."""
_AGAIN = 8
"""How often a site learns one case: it goes when newer ones need its place, but calls can also go
the long way because something else is going on, and then there is nothing to learn."""
_OPERATORS = (
    "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "matmul", "rmatmul",
    "pow", "eq", "ne", "lt", "le", "gt", "ge", "neg",
)


@dataclass(frozen=True, slots=True)
class Call:
    """An op that went the long way: what ran and what came out."""

    operands: Sequence[Tensor]
    executable: Executable
    info: object
    result: Tensor


class Last:
    """The last such op, of whichever thread, while some threads ask for it."""

    __slots__ = ("asking", "call")

    def __init__(self) -> None:
        self.asking: set[int] = set()
        self.call: Call | None = None


class OpSite:
    """The native site before `apply`.

    Args:
        sites: the process's sites.
    """

    def __init__(self, sites: Sites) -> None:
        self._site = sites.make("apply", plain_apply, _BUCKETS)
        self._budget = _BUDGET
        self._learnt: weakref.WeakKeyDictionary[Executable, int] = weakref.WeakKeyDictionary()
        route(self._site.function)

    def learn(
        self, op: str, operands: Sequence[Tensor], attrs: Mapping[str, Any],
        executable: Executable, info: object,
    ) -> None:
        """Answer such a call natively from now on, if it can be."""
        times = self._learnt.get(executable, 0)
        if times >= _AGAIN or self._budget <= 0:
            return
        fits = 0 < len(operands) <= MAX_OPERANDS and executable.native is not None
        if not fits or not all(map(_settled, attrs.values())):
            self._learnt[executable] = _AGAIN  # it never will be
            return
        if not all(_matchable(t) for t in operands):
            return
        self._learnt[executable] = times + 1
        self._budget -= 1
        arguments = [Argument("same", op)]
        arguments += [_operand(t, i, executable) for i, t in enumerate(operands)]
        arguments += [Argument("same" if type(v) is DType else "equal", v) for v in attrs.values()]
        self._site.learn(arguments, executable, info, tuple(attrs) or None, first=id(op))


def _matchable(t: Tensor) -> bool:
    return type(t) in (Tensor, Parameter) and plain(t._data)


def _type(t: Tensor) -> tuple[Any, tuple[int, ...]]:
    return t._data.dtype, t._data.shape


def _settled(value: Any) -> bool:
    """Whether equal values of this one's type mean the same attribute."""
    if type(value) is tuple:
        return all(type(v) in (int, str) for v in value)
    return type(value) in (int, float, str, bool, DType) or value is None


class OperatorSite:
    """An operator of Tensor behind a native site.

    Args:
        sites: the process's sites.
        name: of the method.
        last: the engine's last op.
    """

    def __init__(self, sites: Sites, name: str, last: Last) -> None:
        self._method: Callable[..., Any] = getattr(Tensor, name)
        self._last = last
        self._budget = _BUDGET
        self._refused: set[Any] = set()
        self._site: Site = sites.make(name, self._slow)
        setattr(Tensor, name, self._site.method())

    def _slow(self, *args: Any) -> Any:
        if self._budget <= 0 or not _matchable_type(args[0]):
            return self._method(*args)
        key = tuple(map(_kind, args))
        if key in self._refused:
            return self._method(*args)
        last, usual = self._last, STATE.idle()
        STATE.begin()  # so that `apply` goes the long way and says what ran
        last.asking.add(threading.get_ident())
        try:
            out = self._method(*args)
        finally:
            last.asking.discard(threading.get_ident())
            call, last.call = last.call, None
            STATE.end()
        if call is not None and call.result is out:
            arguments = _explained(args, call.operands, call.executable)
            if arguments is not None:
                self._budget -= 1
                self._site.learn(arguments, call.executable, call.info)
                return out
        if usual:  # asking again would find the same, and keep `apply` from its own site
            self._budget -= 1
            self._refused.add(key)
        return out


def _matchable_type(x: Any) -> bool:
    return type(x) in (Tensor, Parameter)


def _kind(x: Any) -> Any:
    """What an argument has in common with others of calls that are alike."""
    if _matchable_type(x):
        return _type(x)
    return (type(x), x) if type(x) in (int, float) else type(x)


def _operand(t: Tensor, place: int, executable: Executable) -> Argument:
    """What a tensor has to be for an executable: of a type, or of any shape."""
    if executable.program.sized:
        return Argument("any", t._data.dtype, place)
    return Argument("tensor", _type(t), place)


def _explained(
    args: Sequence[Any], operands: Sequence[Tensor], executable: Executable
) -> list[Argument] | None:
    """The arguments as those of a case, if they account for every operand."""
    left = list(range(len(operands)))
    out: list[Argument] = []
    for arg in args:
        if _matchable_type(arg):
            place = next((i for i in left if operands[i] is arg), None)
            if place is None or not plain(arg._data):
                return None
            left.remove(place)
            out.append(_operand(arg, place, executable))
        elif type(arg) in (int, float):
            if not _settled(arg) or len(left) == 0:
                return None
            out.append(Argument("equal", arg))
        else:
            return None
    numbers = [i for i, a in enumerate(out) if a.kind == "equal"]
    if len(left) != len(numbers) or len(left) > 1:
        return None
    if numbers:  # the other operand is the constant that stands for the number
        operand, i = operands[left[0]], numbers[0]
        if operand is not constant(out[i].value, operand.dtype) or not _matchable(operand):
            return None
        out[i] = Argument("equal", out[i].value, left[0], operand._data, operand)
    return out


def install(home: Executable, last: Last) -> OpSite | None:
    """Put native sites before `apply` and the operators; None where they cannot be used."""
    sample = Tensor._from_array(_SAMPLE)
    sites = Sites(home, Tensor, Parameter, sample, _SAMPLE)
    if not sites.usable():
        return None
    for name in _OPERATORS:
        OperatorSite(sites, f"__{name}__", last)
    return OpSite(sites)


_SAMPLE = Tensor([1.0])._data
