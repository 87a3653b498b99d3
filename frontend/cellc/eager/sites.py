"""Native sites of the eager engine: the usual op call and the operators of Tensor.

This module decides which calls a site may learn. A case of `apply` is an op, the types of its
operands and its attributes; a case of an operator is a call that ran exactly one op on its own
operands (a Python number being one that always stands for the same constant).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from cellc_runtime.dtypes import DType
from cellc_runtime.executable import Executable
from cellc_runtime.records import dataclass
from cellc_runtime.site import MAX_OPERANDS, STATE, Argument, Site, Sites, plain

from ..core.dispatch import Attrs, plain_apply, route
from ..core.invalidation import is_own_member, own_members
from ..tensors.parameter import Parameter
from ..tensors.promotion import constant
from ..tensors.tensor import Tensor, Tensors, tensor_of

if TYPE_CHECKING:
    from .recorder import Applied

_BUCKETS = 512
BUDGET = 4096  # Cases a site learns in its life: a call that is new each time stays cheap
_AGAIN = 8
"""How often a site learns one case: it goes when newer ones need its place, but calls can also go
the long way because something else is going on, and then there is nothing to learn."""
_OPERATORS = (
    "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "matmul", "rmatmul",
    "pow", "eq", "ne", "lt", "le", "gt", "ge", "neg",
)


@dataclass(frozen=True, slots=True)
class Call:
    """An op that went the long way: what ran (None: a check) and what came out."""

    operands: Tensors
    executable: Executable | None
    info: Applied
    result: Tensor | tuple[Tensor, ...]

    def results(self) -> tuple[Tensor, ...]:
        """The results, as a tuple."""
        return self.result if isinstance(self.result, tuple) else (self.result,)


class Asked:
    """The ops that go the long way, by thread, while a thread asks for its own."""

    __slots__ = ("asking",)

    def __init__(self) -> None:
        # by thread; None stands for something that is no op (an assignment, a loop over time,
        # elements that Python read)
        self.asking: dict[int, list[Call | None]] = {}

    def note(self, call: Call | None) -> None:
        """An op of this thread has run."""
        calls = self.asking.get(threading.get_ident())
        if calls is not None:
            calls.append(call)

    def during(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, list[Call | None]]:
        """Return the result of a call, and the ops that it ran."""
        thread = threading.get_ident()
        outer = self.asking.get(thread)
        calls = self.asking[thread] = [] if outer is None else outer
        start = len(calls)
        STATE.begin()  # so that `apply` goes the long way and says what ran
        try:
            out = function(*args, **kwargs)
        finally:
            STATE.end()
            if outer is None:
                del self.asking[thread]
        return out, calls[start:]


class OpSite:
    """The native site before `apply`."""

    def __init__(self, sites: Sites) -> None:
        self._site = sites.make("apply", plain_apply, _BUCKETS)
        self._budget = BUDGET
        self._learnt: weakref.WeakKeyDictionary[Executable, int] = weakref.WeakKeyDictionary()
        route(self._site.function)

    def learn(
        self, op: str, operands: Tensors, attrs: Attrs,
        executable: Executable, info: object, bound: tuple[int, int] | None = None,
    ) -> None:
        """Answer such a call natively from now on, if it can be. `bound`: the operand that the
        executable is bound to, and the weights version that this is for."""
        times = self._learnt.get(executable, 0)
        if times >= _AGAIN or self._budget <= 0:
            return
        fits = 0 < len(operands) <= MAX_OPERANDS and executable.native is not None
        if not fits or not all(map(settled, attrs.values())):
            self._learnt[executable] = _AGAIN  # it never will be
            return
        place, weights_version = bound if bound is not None else (-1, -1)
        if not all(matchable(t) for i, t in enumerate(operands) if i != place):
            return
        self._learnt[executable] = times + 1
        self._budget -= 1
        arguments = [Argument("same", op)]
        given = [t for i, t in enumerate(operands) if i != place]
        arguments += [operand_of(t, i, executable) for i, t in enumerate(given)]
        if bound is not None:
            arguments.insert(1 + place, Argument("same", operands[place]))
        arguments += [Argument("same" if type(v) is DType else "equal", v) for v in attrs.values()]
        weak = operands[place] if bound is not None else None
        self._site.learn(arguments, executable, info, tuple(attrs) or None, first=id(op),
                         weights_version=weights_version, weak=weak)


def matchable(t: Tensor) -> bool:
    return type(t) in (Tensor, Parameter) and plain(t._host)


def type_of(t: Tensor) -> tuple[Any, tuple[int, ...]]:
    return t._data.dtype, t._data.shape


def settled(value: Any) -> bool:
    """Whether equal values of this one's type mean the same attribute."""
    if type(value) is tuple:
        return all(type(v) in (int, str) for v in value)
    return type(value) in (int, float, str, bool, DType) or value is None


class OperatorSite:
    """An operator of Tensor with a native site.

    Args:
        name: of the method.
        asked: the ops of calls that are asked about.
    """

    def __init__(self, sites: Sites, name: str, asked: Asked) -> None:
        self._method: Callable[..., Any] = getattr(Tensor, name)
        self._asked = asked
        self._budget = BUDGET
        self._refused: set[Any] = set()
        self._site: Site = sites.make(name, self._slow)
        setattr(Tensor, name, self._site.method())
        own_members(Tensor, name)

    def _slow(self, *args: Any) -> Any:
        if self._budget <= 0 or not matchable_type(args[0]):
            return self._method(*args)
        key = tuple(map(kind_of, args))
        if key in self._refused:
            return self._method(*args)
        usual = STATE.idle()
        out, calls = self._asked.during(self._method, args, {})
        call = calls[0] if len(calls) == 1 else None
        if call is not None and call.result is out and native(call.executable):
            arguments = _explained(args, call.operands, call.executable)
            if arguments is not None:
                self._budget -= 1
                self._site.learn(arguments, call.executable, call.info)
                return out
        if usual:  # asking again would find the same, and keep `apply` from its own site
            self._budget -= 1
            self._refused.add(key)
        return out


def native(executable: Executable | None) -> TypeGuard[Executable]:
    """Whether a site can call it."""
    return executable is not None and executable.native is not None


def matchable_type(x: Any) -> bool:
    return (type(x) is Tensor or type(x) is Parameter) and x._host is not None


def kind_of(x: Any) -> Any:
    """Return the part of an argument that equal calls share."""
    if matchable_type(x):
        return type_of(x)
    kind = type(x)
    if kind is int or kind is float:
        return kind, x
    return kind if type(kind) is type else None  # (another metaclass may have a `__hash__`)


def operand_of(t: Tensor, place: int, executable: Executable) -> Argument:
    """Return the requirement on a tensor of an executable: of a type, or of any shape."""
    if executable.program.broadcasts:
        return Argument("any", t._data.dtype, place)
    return Argument("tensor", type_of(t), place)


def _explained(
    args: Sequence[Any], operands: Tensors, executable: Executable
) -> list[Argument] | None:
    """The arguments as those of a case, if they account for every operand."""
    left = list(range(len(operands)))
    out: list[Argument] = []
    for arg in args:
        if matchable_type(arg):
            place = next((i for i in left if operands[i] is arg), None)
            if place is None or not plain(arg._data):
                return None
            left.remove(place)
            out.append(operand_of(arg, place, executable))
        elif type(arg) is int or type(arg) is float:
            if not settled(arg) or len(left) == 0:
                return None
            out.append(Argument("equal", arg))
        else:
            return None
    numbers = [i for i, a in enumerate(out) if a.kind == "equal"]
    if len(left) != len(numbers) or len(left) > 1:
        return None
    if numbers:  # the other operand is the constant that stands for the number
        operand, i = operands[left[0]], numbers[0]
        if operand is not constant(out[i].value, operand.dtype) or not matchable(operand):
            return None
        out[i] = Argument("equal", out[i].value, left[0], operand._data, operand)
    return out


def install(home: Executable, asked: Asked) -> tuple[Sites, OpSite] | None:
    """Put native sites before `apply` and the operators; None where they cannot be used."""
    sample = tensor_of(_SAMPLE)
    sites = Sites(home, Tensor, Parameter, sample, _SAMPLE)
    if not sites.usable():
        return None
    for name in _OPERATORS:
        if is_own_member(Tensor, f"__{name}__"):  # (a program may have replaced it)
            OperatorSite(sites, f"__{name}__", asked)
    return sites, OpSite(sites)


_SAMPLE = Tensor([1.0])._data
