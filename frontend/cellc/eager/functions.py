"""Native sites of functions of the library (`cellc.core.native`).

Calls of one op are answered by that op's program, those of several, once they have come often, by a
program of them all (`composites`). The ops of a call are found by watching one (`sites.Asked`): its
ops must account for its result, and their operands be its arguments, results of one another, or
constants. So what draws random numbers, writes parameters or reads elements is never learnt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cellc_runtime.dtypes import DType
from cellc_runtime.site import MAX_OPERANDS, Argument, Sites

from ..core.module_names import is_exactly
from ..core.native import Body, connect
from ..tensors.tensor import Tensor, Tensors
from . import composites
from .sites import BUDGET, Asked, Call, kind_of, matchable, matchable_type, native, type_of

_HOT = 16  # Calls of one kind after which the ops of a call become one program
_HOPELESS = 64
"""Calls that cannot be learnt after which a function of whose none could is left alone."""
_KINDS = 1024
_BUDGET = 256  # Cases a function learns in its life: one that gets others each time stays cheap
_BUCKETS = 128


class _Unknown(Exception):
    """An argument of a kind that no case can hold."""


class FunctionSite:
    """A function with a native site.

    Args:
        body: the function.
        asked: the ops of calls that are asked about.
    """

    def __init__(self, sites: Sites, body: Body, asked: Asked) -> None:
        self._body, self._fn, self._asked = body, body.fn, asked
        self._budget = BUDGET if body.by_op else _BUDGET
        self._seen: dict[Any, int] = {}
        self._refused = 0
        self._learnt = False
        self._site = sites.make(body.fn.__name__, self._slow, _BUCKETS if body.by_op else 1,
                                plain=body.fn)
        self.function = self._site.function  # the site

    def _slow(self, *args: Any, **kwargs: Any) -> Any:
        if self._budget <= 0:
            return self._fn(*args, **kwargs)
        given = (*args, *kwargs.values())
        try:
            key = (*kwargs, *[_kind(a) for a in given])
            seen = self._seen.get(key, 0)
        except _Unknown:
            seen = -1
        if seen < 0:
            self._refuse()
            return self._fn(*args, **kwargs)
        if len(self._seen) >= _KINDS:
            self._seen.clear()
        self._seen[key] = seen + 1
        if seen != 1 and seen != _HOT:  # the first may be the only one; between, it is of several
            return self._fn(*args, **kwargs)
        out, calls = self._asked.during(self._fn, args, kwargs)
        learnt = self._learn(given, tuple(kwargs) or None, calls, out, seen == _HOT)
        if learnt:
            self._seen[key] = 0  # newer ones may take its place
            self._learnt = True
            self._budget -= 1
        elif learnt is None:
            self._seen[key] = -1
            self._refuse()
        return out

    def _refuse(self) -> None:
        self._refused += 1
        if self._refused >= _HOPELESS and not self._learnt:
            self._body.route(self._fn)

    def _learn(
        self, args: Sequence[Any], names: tuple[str, ...] | None, calls: Sequence[Call | None],
        out: Any, hot: bool,
    ) -> bool | None:
        """Learn a call: whether it is learnt now; None if it never can be. `args`: positional
        arguments, then those given by the names."""
        tensors = list(_tensors(args))
        results = out if type(out) is tuple else (out,)
        known = [c for c in calls if c is not None]
        made = {id(t) for c in known for t in c.results()}
        if not known or len(known) < len(calls) or len(tensors) > MAX_OPERANDS or not results:
            return None
        if not all(map(matchable, tensors)) or not all(id(t) in made for t in results):
            return None
        if any(t.__dict__ for t in results):
            return None  # a part that knows what it was taken from, say
        if any(len(set(map(id, many))) < len(many) for many in (tensors, results)):
            return False  # which is which is not known
        used = {id(t) for c in known for t in c.operands}
        if not self._body.types_only and not all(id(t) in used for t in tensors):
            return None
        if type(out) is tuple and len(out) == 1:
            return None
        if len(known) == 1 and self._learn_one(args, names, known[0], out):
            return True
        if not composites.small(known) or not composites.expressible(known, tensors, _constant):
            return None
        return self._learn_several(args, names, tensors, known, out) if hot else False

    def _learn_one(
        self, args: Sequence[Any], names: tuple[str, ...] | None, call: Call, out: Any
    ) -> bool:
        """Learn a call that ran one op on its own arguments."""
        executable = call.executable
        whole = call.result is out or (
            type(out) is tuple and len(out) == len(call.results())
            and all(a is b for a, b in zip(out, call.results(), strict=True)))
        if not whole or not native(executable) or len(call.operands) > MAX_OPERANDS:
            return False
        places = {id(t): i for i, t in enumerate(call.operands)}
        given = {id(t) for t in _tensors(args)}
        if len(places) < len(call.operands) or not set(places) <= given:
            return False
        anywhere = bool(executable.program.broadcasts) and self._body.any_shape
        arguments = [_argument(a, places, anywhere) for a in args]
        self._site.learn(arguments, executable, call.info, names, first=id(args[0]))
        return True

    def _learn_several(
        self, args: Sequence[Any], names: tuple[str, ...] | None, tensors: Tensors,
        calls: Sequence[Call], out: Any,
    ) -> bool | None:
        made = composites.make(calls, tensors, out)
        if made is None:
            return None
        places = {id(t): i for i, t in enumerate(tensors)}
        arguments = [_argument(a, places, False) for a in args]
        self._site.learn(arguments, made.executable, made.info, names, first=id(args[0]),
                         several=True, taped=made.taped)
        return True


def _constant(t: Tensor) -> bool:
    """Whether a tensor stands for a number, and always for the same."""
    return t._literal


def _kind(x: Any) -> Any:
    """Return the part of an argument that equal calls share."""
    if matchable_type(x):
        return kind_of(x)
    kind = type(x)
    if kind is tuple or kind is list:
        return kind, tuple([_kind(item) for item in x])
    if x is None or x is Ellipsis or kind is int or kind is str or kind is bool:
        return kind, x
    if kind is slice:
        bounds = x.start, x.stop, x.step
        if all(v is None or type(v) is int for v in bounds):
            return slice, *bounds
    if kind is float:
        return float, x.hex()
    if kind is DType:
        return x
    raise _Unknown


def _tensors(args: Sequence[Any]) -> Iterator[Tensor]:
    """The tensors among arguments, in order, those in lists and tuples too."""
    for a in args:
        if matchable_type(a):
            yield a
        elif type(a) is tuple or type(a) is list:
            yield from _tensors(a)


def _argument(x: Any, places: dict[int, int], anywhere: bool) -> Argument:
    """Return the requirement on an argument of a case."""
    if matchable_type(x):
        if anywhere:
            return Argument("any", x._data.dtype, places.get(id(x), -1))
        return Argument("tensor", type_of(x), places.get(id(x), -1))
    if is_exactly(x, (tuple, list)):
        return Argument("items", [_argument(item, places, anywhere) for item in x], made=type(x))
    if type(x) is slice:
        parts = [_argument(item, places, anywhere) for item in (x.start, x.stop, x.step)]
        return Argument("items", parts, made=slice)
    same = is_exactly(x, (DType, bool)) or x is None or x is Ellipsis
    return Argument("same" if same else "equal", x)


def install(sites: Sites, asked: Asked) -> None:
    """Put native sites before the functions of the library that ask for one (`core.native`), each
    when it is first called."""
    made: list[FunctionSite] = []  # all stay: a thread may be in one that is left alone by now

    def make(body: Body) -> Callable[..., Any]:
        made.append(FunctionSite(sites, body, asked))
        return made[-1].function

    connect(make)
