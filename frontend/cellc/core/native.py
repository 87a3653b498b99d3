"""Library functions as they are called: natively, if the eager engine may, and by name in errors.

A function of the library is Python: checks, promotion, then one op or a few. For tensors of the
same types and other arguments of the same values it always runs the same ops. Where that costs more
than the work, its definition says so, in one of two forms:

- `@native` (`@native_of_types`, `@native_of_any_shape`) before a public function. It stays a Python
  function with its name, parameters and text, called by another that passes its arguments on by
  position, defaults filled in.
- `@native_body` before what several public functions come to (`m.unary`, say), which they call
  with their arguments as they are.

Both hold an object that is called: a `functools.partial`, whose function can be replaced. It calls
the function itself until the engine runs its first op natively; then the first call of each puts a
site there (`cellc.eager.functions`), which learns what calls come to.

`tests/benchmarks/bench_eager.py` (155 calls on tiny tensors, in turns) measures what each of the
three buys. Without native sites calls take 2.8 times as long on geometric average, and up to 82
times (`einsum`). With `*args, **kwargs` instead of written wrappers (`_around`) they take 1.12
times as long, and up to 1.5. With a Python function instead of the `partial`, 45 calls take over
5 % longer, and up to 1.4 times as long. Besides this file only `core.dispatch` (`apply`) and
`compiled.sites` (`Cell.__call__`) replace functions, and say what that buys.

A public function of the first kind, and one that `entry` gives, names itself in the errors that
leave it (`naming`). So do constructors of the library's classes, with what they were given:
`@names_itself` before a class puts the rule around its `__init__`, and around that of each class of
the library which is derived from it. Classes of users are as they were written; what an `__init__`
of theirs gives to the library's passes by that one. A constructor that succeeds costs a call more.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from functools import partial, wraps
from types import FunctionType
from typing import Any, TypeVar, cast

from cellc_runtime.forks import renewed

from . import declared
from .later import naming, other_names

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=type)


class Body:
    """A function that may be answered natively, and the object that is called for it.

    Attributes:
        call: is called in the function's place.
        by_op: its first argument is the name of an op.
        any_shape: its choice of an op depends on no shape.
        types_only: some of its tensors are given for their types alone.
    """

    __slots__ = ("any_shape", "by_op", "call", "fn", "types_only")

    def __init__(self, call: partial[Any], by_op: bool, any_shape: bool, types_only: bool) -> None:
        self.call: Any = call
        self.fn: Callable[..., Any] = call.func
        self.by_op, self.any_shape, self.types_only = by_op, any_shape, types_only

    def route(self, function: Callable[..., Any]) -> None:
        """Send calls to `function` from now on."""
        self.call.__setstate__((function, (), {}, None))


class _First:
    """Takes calls of a body until one of them has put a site there."""

    __slots__ = ("_body",)

    def __init__(self, body: Body) -> None:
        self._body = body

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with _lock:  # many threads may come here at once: one site is made
            if self._body.call.func is self:
                self._body.route(_makers[0](self._body))
        return self._body.call(*args, **kwargs)


_bodies: list[tuple[partial[Any], bool, bool, bool]] = []
"""The arguments of each `Body`, made later: there are hundreds, and most programs need none."""
_makers: list[Callable[[Body], Callable[..., Any]]] = []
_lock = renewed(threading.RLock())


def connect(make: Callable[[Body], Callable[..., Any]]) -> None:
    """Give each body, at its first call from now on, what answers its calls."""
    with _lock:
        _makers[:] = [make]
        for given in _bodies:
            body = Body(*given)
            body.route(_First(body))


def native_body(
    *, by_op: bool = False, any_shape: bool = False, types_only: bool = False
) -> Callable[[F], F]:
    """A function of the library's own use, as an object that may answer natively.

    For tensors of the same types and other arguments of the same values it must result in the same
    ops each time; what reads elements, draws or writes is found out and left alone.

    Args:
        by_op, any_shape, types_only: see `Body`.
    """
    def decorate(fn: F) -> F:
        call = partial(fn)
        given = call, by_op, any_shape, types_only
        with _lock:
            _bodies.append(given)
            if _makers:
                body = Body(*given)
                body.route(_First(body))
        return cast(F, call)  # it is called as `fn` is

    return decorate


def native(fn: F) -> F:
    """A public function that may be answered natively, if it is one that `native_body` takes."""
    return _around(fn, native_body())


def native_of_types(fn: F) -> F:
    """As `native`, for a function that takes some tensors for their types alone."""
    return _around(fn, native_body(types_only=True))


def native_of_any_shape(fn: F) -> F:
    """As `native`, for a function that runs the same op whatever the shapes."""
    return _around(fn, native_body(any_shape=True))


def _around(given: F, body_of: Callable[[Any], Any]) -> F:
    """A function like the given one that passes its arguments on to its body.

    Its text is written for its parameters, as `dataclasses` writes methods: with `*args, **kwargs`
    the tuple and the dict would cost a third of a native answer. The body gets all by position,
    what a `*rest` takes as one argument.
    """
    fn: Any = given
    code, defaults, name = fn.__code__, len(fn.__defaults__ or ()), fn.__name__
    count, only = code.co_argcount, code.co_kwonlyargcount
    first, keywords = code.co_varnames[:count], code.co_varnames[count : count + only]
    more = list(code.co_varnames[count + only :])
    rest = [more.pop(0)] if code.co_flags & inspect.CO_VARARGS else []
    others = [f"**{more[0]}"] if code.co_flags & inspect.CO_VARKEYWORDS else []
    taken = [*(n if i < count - defaults else f"{n}=None" for i, n in enumerate(first)),
             *(f"*{n}" for n in rest or [""] if n or only),
             *(f"{n}=None" if n in (fn.__kwdefaults__ or {}) else n for n in keywords), *others]
    by_place = [*first, *rest, *keywords, *others]
    by_name = [*first, *(f"*{n}" for n in rest), *(f"{n}={n}" for n in keywords), *others]
    space: dict[str, Any] = {
        "_fn": fn, "_naming": naming, "__name__": fn.__globals__["__name__"]}

    def write(takes: Sequence[str], calls: str, gives: Sequence[str], named: str = "") -> Any:
        text = f"def {name}({', '.join(takes)}):\n try: return {calls}({', '.join(gives)})\n" \
            f" except Exception as e: _naming.raise_told(e, {name!r}, _fn, {named})" if named else \
            f"def {name}({', '.join(takes)}): return {calls}({', '.join(gives)})"
        above = "\n" * (code.co_firstlineno - 1)  # tracebacks show the given one's first line
        exec(compile(above + text, code.co_filename, "exec"), space)
        return space[name]

    space["_call"] = body_of(write(by_place, "_fn", by_name) if rest or only else fn)
    placed = "".join(f"{n}, " for n in [*first, *(f"*{n}" for n in rest)])
    named = ", ".join([*(f"{n!r}: {n}" for n in keywords), *others])
    own = write(taken, "_call", by_place, f"({placed}), {{{named}}}")
    own.__defaults__, own.__kwdefaults__ = fn.__defaults__, fn.__kwdefaults__
    return cast(F, wraps(fn)(own))


def entry(function: F, name: str, module: str) -> F:
    """A public function of which errors name it.

    It costs a call more: what is called in tight loops has an entry of its own (`native`).

    Args:
        function: a Python function; others, and those that are entries, are given back.
        name: what users call it by.
        module: where they find it; pickled, it is that name.
    """
    call: Any = function
    if type(call) is not FunctionType or hasattr(call, "__wrapped__"):
        return function

    @wraps(call)
    def entered(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except Exception as error:
            naming.raise_told(error, name, call, args, kwargs)

    entered.__module__, entered.__name__, entered.__qualname__ = module, name, name
    return cast(F, entered)


def names_itself(cls: T) -> T:
    """A class of which the errors of constructors name the class that was made; itself."""
    before = cls.__dict__.get("__init_subclass__")
    given: Any = cls

    def derived(sub: Any, /, **kwargs: Any) -> None:
        if before is not None:
            before.__get__(None, sub)(**kwargs)
        else:
            super(given, sub).__init_subclass__(**kwargs)
        name_constructor(sub)

    given.__init_subclass__ = classmethod(derived)
    name_constructor(cls)
    return cls


def name_constructor(cls: type) -> None:
    """Put the rule around the `__init__` that a class of the library has of its own."""
    init = cls.__dict__.get("__init__")
    if not isinstance(init, FunctionType) or not declared.is_ours(cls):
        return

    @wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        rules = declared.declared_by(init)
        name = declared.class_made(self).__name__ if rules else ""
        given = declared.checked(rules, name, (self, *args), kwargs) if rules else (self, *args)
        try:
            init(*given, **kwargs)
        except Exception as error:
            # Of the constructors of bases, which this may be, the user has called none.
            made = declared.class_made(self)
            if made.__init__ is not __init__:  # type: ignore[misc]  # what the class has
                raise
            other_names.note_argument(error, made)
            naming.raise_told(error, made.__name__, partial(init, self), args, kwargs)

    if isinstance(cls.__doc__, str) and "__doc__" in cls.__dict__:
        text: Any = declared.Described(cls.__doc__, init)  # Python reads a class's text through it
        cls.__doc__ = text
    cls.__init__ = __init__  # type: ignore[misc]  # the same, with its errors reworded
