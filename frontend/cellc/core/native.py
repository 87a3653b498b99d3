"""Library functions whose calls the eager engine may answer natively.

A function of the library is Python: checks, promotion, then one op or a few. For tensors of the
same types and other arguments of the same values it always comes to the same ops. Where that costs
more than the work, its definition says so, in one of two forms:

- `@native` before a public function. It stays a Python function with its name, parameters and
  text, behind another that passes its arguments on.
- `@native_body` before what public functions come to (`m.unary`, say, or the body of a function
  that is called often), which they call with their arguments as they are. That is a few dozen
  nanoseconds less, and the public function is an ordinary one.

Both hold an object that is called (`functools.partial`, as `dispatch.apply` is). It calls the
function itself until the engine runs its first op natively; then the first call of each puts a
site there (`cellc.eager.functions`), which learns what calls come to.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


class Body:
    """A function that may be answered natively, and the object that is called for it.

    Attributes:
        fn: the function.
        call: is called in its place.
        by_op: its first argument is the name of an op.
        any_shape: which op it comes to depends on no shape.
        types_only: some of its tensors are given for their types alone.
    """

    __slots__ = ("any_shape", "by_op", "call", "fn", "types_only")

    def __init__(
        self, fn: Callable[..., Any], by_op: bool, any_shape: bool, types_only: bool
    ) -> None:
        self.fn, self.by_op = fn, by_op
        self.any_shape, self.types_only = any_shape, types_only
        self.call: Any = partial(fn)

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


_bodies: list[Body] = []
_makers: list[Callable[[Body], Callable[..., Any]]] = []
_lock = threading.RLock()


def connect(make: Callable[[Body], Callable[..., Any]]) -> None:
    """Give each body, at its first call from now on, what answers its calls."""
    with _lock:
        _makers[:] = [make]
        for body in _bodies:
            body.route(_First(body))


def native_body(
    *, by_op: bool = False, any_shape: bool = False, types_only: bool = False
) -> Callable[[F], F]:
    """A function of the library's own use, as an object that may answer natively.

    For tensors of the same types and other arguments of the same values it must come to the same
    ops each time; what reads elements, draws or writes is found out and left alone.

    Args:
        by_op, any_shape, types_only: see `Body`.
    """
    def decorate(fn: F) -> F:
        body = Body(fn, by_op, any_shape, types_only)
        with _lock:
            _bodies.append(body)
            if _makers:
                body.route(_First(body))
        return cast(F, body.call)  # it is called as `fn` is

    return decorate


def native(fn: F) -> F:
    """A public function that may be answered natively, if it is one that `native_body` takes."""
    return _around(fn, native_body()(fn))


def native_of_types(fn: F) -> F:
    """As `native`, for a function that takes some tensors for their types alone."""
    return _around(fn, native_body(types_only=True)(fn))


def _around(fn: F, call: F) -> F:
    """A function like `fn` that calls `call`."""
    @wraps(fn)
    def answered(*args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs) if kwargs else call(*args)

    return cast(F, answered)  # it has the parameters and the result of `fn`
