"""Native sites of the functions of `cellc.ops` and the methods of Tensor.

A function of the library is Python: checks, promotion, then one op or a few. For tensors of the
same types and other arguments of the same values it always comes to the same ops, so such calls are
answered natively: those of one op by that op's program, those of several, once they have come
often, by a program of them all (`composites`).

The function stays the object it is, which others may have imported; its code becomes a call of the
site with its parameters. What a call came to is found by watching one (`sites.Asked`): its ops must
account for its result, and their operands be its arguments, results of one another, or constants.
So what draws random numbers, writes parameters or reads elements is never learnt.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from cellc_runtime.dtypes import DType
from cellc_runtime.lazy import lazy_module
from cellc_runtime.site import MAX_OPERANDS, Argument, Sites

from ..common import _indexing
from ..common.tensor import Tensor
from . import composites
from .sites import Asked, Call, kind_of, matchable, matchable_type, native, type_of

if TYPE_CHECKING:
    from .. import ops
else:
    ops = lazy_module("cellc.ops")

_HOT = 16
"""Calls of one kind after which the ops of a call become one program."""
_HOPELESS = 64
"""Calls that cannot be learnt after which a function of whose none could is left alone."""
_KINDS = 1024
_BUDGET = 256
"""Cases a function learns in its life: one that gets others each time stays cheap."""
_OF_SHAPES = frozenset(("zeros_like", "ones_like", "expand_as", "view_as", "reshape_as"))
"""Functions that take a tensor for its type alone."""
_VARARGS, _KEYWORDS = 0x04, 0x08


class _Unknown(Exception):
    """An argument of a kind that no case can hold."""


class FunctionSite:
    """A function behind a native site.

    Args:
        sites: the process's sites.
        fn: the function, whose code is changed.
        asked: the ops of calls that are asked about.
    """

    def __init__(self, sites: Sites, fn: FunctionType, asked: Asked) -> None:
        self._name, self._fn, self._code = fn.__name__, fn, fn.__code__
        self._plain = _as_called(fn)
        self._asked = asked
        self._budget = _BUDGET
        self._seen: dict[Any, int] = {}
        self._refused = 0
        self._learnt = False
        self._left = ctypes.c_int64(0)
        self._site = sites.make(self._name, self._slow, guard=(self._left, 0), plain=self._plain)
        fn.__code__ = _calling(fn.__code__, self._site.function)

    def _slow(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or self._budget <= 0:
            return self._plain(*args, **kwargs)
        try:
            key = tuple([_kind(a) for a in args])
            seen = self._seen.get(key, 0)
        except _Unknown:
            self._refuse()
            return self._plain(*args)
        if seen < 0:
            self._refuse()
            return self._plain(*args)
        if len(self._seen) >= _KINDS:
            self._seen.clear()
        self._seen[key] = seen + 1
        if seen != 1 and seen != _HOT:  # the first may be the only one; between, it is of several
            return self._plain(*args)
        out, calls = self._asked.during(self._plain, args)
        learnt = self._learn(args, calls, out, seen == _HOT)
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
            self._left.value = 1
            self._fn.__code__ = self._code

    def _learn(
        self, args: Sequence[Any], calls: Sequence[Call | None], out: Any, hot: bool
    ) -> bool | None:
        """Learn a call: whether it is learnt now; None if it never can be."""
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
        if self._name not in _OF_SHAPES and not all(id(t) in used for t in tensors):
            return None
        if type(out) is tuple and len(out) == 1:
            return None
        if len(known) == 1 and self._learn_one(args, known[0], out):
            return True
        if not composites.small(known) or not composites.expressible(known, tensors, _constant):
            return None
        return self._learn_several(args, tensors, known, out) if hot else False

    def _learn_one(self, args: Sequence[Any], call: Call, out: Any) -> bool:
        """Learn a call that came to one op on its own arguments."""
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
        # (Which op a function of another name takes may depend on shapes.)
        anywhere = bool(executable.program.sized) and self._name == call.info.op
        arguments = [_argument(a, places, anywhere) for a in args]
        self._site.learn(arguments, executable, call.info)
        return True

    def _learn_several(
        self, args: Sequence[Any], tensors: Sequence[Tensor], calls: Sequence[Call], out: Any
    ) -> bool | None:
        made = composites.make(calls, tensors, out)
        if made is None:
            return None
        places = {id(t): i for i, t in enumerate(tensors)}
        arguments = [_argument(a, places, False) for a in args]
        self._site.learn(arguments, made.executable, made.info, several=True, taped=made.taped)
        return True


def _constant(t: Tensor) -> bool:
    """Whether a tensor stands for a number, and always for the same."""
    return t._literal


def _kind(x: Any) -> Any:
    """What an argument has in common with others of calls that are alike."""
    if matchable_type(x):
        return kind_of(x)
    if type(x) in (tuple, list):
        return type(x), tuple([_kind(item) for item in x])
    if x is None or x is Ellipsis or type(x) in (int, str, bool):
        return type(x), x
    if type(x) is slice:
        bounds = x.start, x.stop, x.step
        if all(v is None or type(v) is int for v in bounds):
            return slice, *bounds
    if type(x) is float:
        return float, x.hex()
    if type(x) is DType:
        return x
    raise _Unknown


def _tensors(args: Sequence[Any]) -> Iterator[Tensor]:
    """The tensors among arguments, in order, those in lists and tuples too."""
    for a in args:
        if matchable_type(a):
            yield a
        elif type(a) in (tuple, list):
            yield from _tensors(a)


def _argument(x: Any, places: dict[int, int], anywhere: bool) -> Argument:
    """What an argument of a case has to be."""
    if matchable_type(x):
        if anywhere:
            return Argument("any", x._data.dtype, places.get(id(x), -1))
        return Argument("tensor", type_of(x), places.get(id(x), -1))
    if type(x) in (tuple, list):
        return Argument("items", [_argument(item, places, anywhere) for item in x], made=type(x))
    if type(x) is slice:
        parts = [_argument(item, places, anywhere) for item in (x.start, x.stop, x.step)]
        return Argument("items", parts, made=slice)
    same = type(x) in (DType, bool) or x is None or x is Ellipsis
    return Argument("same" if same else "equal", x)


# --- code -----------------------------------------------------------------------------------------


def _parameters(code: CodeType) -> tuple[int, int]:
    """How many positional and keyword-only parameters a function has."""
    return code.co_argcount, code.co_kwonlyargcount


def _as_called(fn: FunctionType) -> Callable[..., Any]:
    """The function as it was, over arguments in the order in which its new code gives them."""
    old = FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    old.__kwdefaults__, old.__qualname__ = fn.__kwdefaults__, fn.__qualname__
    count, named = _parameters(fn.__code__)
    if not named:
        return old
    names = fn.__code__.co_varnames[count : count + named]

    def call(*args: Any, **kwargs: Any) -> Any:
        given = zip(names, args[count : count + named], strict=True)
        return old(*args[:count], *args[count + named :], **dict(given), **kwargs)

    return call


@cache
def _template(count: int, only: int, named: int, flags: int, free: int) -> CodeType:
    """Code that calls a constant with its parameters: positional ones (`only` of them without
    names), those given by name, then what is left. It has `free` variables of a function around
    it: a function's code is replaced by code with as many."""
    names = [f"p{i}" for i in range(count)]
    shown = [*names[:only], *["/"] * bool(only), *names[only:]]
    more = [f"k{i}" for i in range(named)]
    star = "*rest" if flags & _VARARGS else "*" if named else ""
    last = ["**words"] if flags & _KEYWORDS else []
    header = ", ".join([*shown, *[star] * bool(star), *more, *last])
    given = ", ".join([*names, *more, *["*rest"] * bool(flags & _VARARGS), *last])
    outer = [f"v{i}" for i in range(free)]
    lines = ["def around():", *[f" {v} = 0" for v in outer], f" def f({header}):",
             "  site = 'the site'", f"  return site({given})", *[f"  {v}" for v in outer]]
    code = compile("\n".join(lines) + "\n", "<site>", "exec", dont_inherit=True)
    for _ in range(2):
        code = next(c for c in code.co_consts if isinstance(c, CodeType))
    return code


def _calling(code: CodeType, site: Callable[..., Any]) -> CodeType:
    """Code with the parameters of `code` that calls `site` with them."""
    flags = code.co_flags & (_VARARGS | _KEYWORDS)
    count, named = _parameters(code)
    made = _template(count, code.co_posonlyargcount, named, flags, len(code.co_freevars))
    total = count + named + bool(flags & _VARARGS) + bool(flags & _KEYWORDS)
    consts = tuple(site if c == "the site" else c for c in made.co_consts)
    return made.replace(
        co_varnames=(*code.co_varnames[:total], "__site__"), co_consts=consts,
        co_freevars=code.co_freevars, co_name=code.co_name, co_qualname=code.co_qualname,
        co_filename=code.co_filename, co_firstlineno=code.co_firstlineno,
    )  # fmt: skip


class _First:
    """Stands for a site until the function is called."""

    __slots__ = ("asked", "code", "fn", "sites")

    def __init__(self, sites: Sites, fn: FunctionType, asked: Asked) -> None:
        self.sites, self.fn, self.asked = sites, fn, asked
        self.code: CodeType | None = fn.__code__
        fn.__code__ = _calling(fn.__code__, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.code is not None:
            code, self.code = self.code, None
            self.fn.__code__ = code
            FunctionSite(self.sites, self.fn, self.asked)
        site = next(c for c in self.fn.__code__.co_consts if callable(c))
        return site(*args, **kwargs)


def install(sites: Sites, asked: Asked) -> None:
    """Put native sites before the functions of the library, each when it is first called."""
    for fn in (*ops.made_of_ops(), _indexing.taken):
        assert isinstance(fn, FunctionType)
        if fn.__code__.co_argcount or fn.__code__.co_flags & _VARARGS:
            _First(sites, fn, asked)
