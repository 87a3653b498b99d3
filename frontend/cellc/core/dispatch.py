"""Where an op call goes: to the graph being traced, or to the eager engine.

Library code (functional API, Tensor methods) calls `apply` and never asks which mode it is in.
The active tracer is thread-local, so two threads may trace or run at once. The engine may put a
native site before the usual call (`route`); it lets through what it does not know.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from cellc_compiler.ir.op import lookup
from cellc_runtime.dtypes import DType, bfloat16, float16, float32
from cellc_runtime.records import dataclass
from cellc_runtime.site import STATE

from .later import naming

if TYPE_CHECKING:
    from cellc_compiler.ir.graph import Graph

    from ..tensors.tensor import Tensor, Tensors
    from ..tracing.tracer import Tracer

_MIXED = (float16, bfloat16, float32)  # The element types that automatic mixed precision converts

Attrs = Mapping[str, Any]  # The attributes of an op, by name
Body = Callable[..., "tuple[Sequence[Tensor], Sequence[Tensor]]"]
"""The body of a loop over time: `(carried, rows, i, captures)` to what is carried next and the
outputs of the step."""


Window = Callable[[Any], Any]
"""The function of a view on the array of a tensor: another array over the same memory."""


class Engine(Protocol):
    """The part that runs ops eagerly (`cellc.eager.engine`)."""

    whole: bool  # whether it is given compositions as the one op that they are

    def run(self, op: str, operands: Tensors, attrs: Attrs) -> Any:
        """Run one op now."""

    def assign(self, parameter: Tensor, value: Tensor) -> None:
        """Overwrite a parameter's buffer."""

    def assign_part(
        self, tensor: Tensor, where: tuple[slice, ...], array: Any, window: Window | None,
    ) -> None:
        """Overwrite a part of a tensor's buffer while nothing is recorded."""

    def checked(self, index: Tensor, low: int, high: int, parts: tuple[str | int, ...]) -> None:
        """Positions were found to be in a range."""

    def stays(self, tensor: Tensor) -> bool:
        """Whether elements are on a device, and reading them would wait for it."""

    def check(self, index: Tensor, low: int, high: int, parts: tuple[str | int, ...]) -> None:
        """Have positions that stay on a device checked there."""

    def same_value(self, tensor: Tensor, source: Tensor) -> None:
        """A tensor stands for the value of another."""

    def elements_read(self) -> None:
        """Elements of a tensor were read, and what follows depends on them."""

    def scan(
        self, key: Hashable, init: Tensors, xs: Tensors, captures: Tensors, length: int, body: Body
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Run a loop over time."""

    def run_scan(self, operands: Tensors, attrs: Attrs, body: Graph) -> list[Tensor]:
        """Run a `scan` node."""


Around = Callable[[str, Sequence["Tensor"], Mapping[str, Any]], Any]
"""A function that runs ops in place of the usual way: op, operands, attributes to results."""

Read = Callable[["Tensor"], "Tensor"]
"""A function that replaces an operand of an op."""


class _State(threading.local):
    tracer: Tracer | None = None
    read: Read | None = None
    around: Around | None = None
    precision: DType | None = None
    auto: DType | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """The settings that change the way ops run: `computing_in`, `reading` and `saving`."""

    precision: DType | None
    auto: DType | None
    read: Read | None
    around: Around | None


_state = _State()
_engine: list[Engine] = []


def install(engine: Engine) -> None:
    """Set the eager engine; done once, when `cellc` is imported.

    The engine stands on Tensor and Tensor on this module, so it is handed in rather than imported.
    """
    _engine[:] = [engine]


def installed() -> Engine:
    """The eager engine."""
    return _engine[0]


def active_tracer() -> Tracer | None:
    """The tracer of this thread, if a graph is being built."""
    return _state.tracer


class _within:
    """Within the block, this is the state of this thread, of which native sites know nothing. (A
    class costs half of what a generator would.)"""

    __slots__ = ("_new", "_old")

    def __init__(self, **state: Any) -> None:
        self._new = state

    def __enter__(self) -> None:
        own = _state.__dict__
        self._old = {name: own.get(name) for name in self._new}
        STATE.begin()
        own.update(self._new)

    def __exit__(self, *_: object) -> None:
        _state.__dict__.update(self._old)
        STATE.end()


def tracing(tracer: Tracer | None) -> AbstractContextManager[None]:
    """Within the block, ops of this thread go to `tracer` (None: run eagerly)."""
    return _within(tracer=tracer)


def computing_in(precision: DType | None, auto: DType | None) -> AbstractContextManager[None]:
    """Within the block, mixed precision applies to ops of this thread.

    Args:
        precision: the element type in which Parameters are read (`Cell.to_float`).
        auto: the low element type for ops that gain from one; ops that lose get float32.
    """
    same = precision is _state.precision and auto is _state.auto
    return nullcontext() if same else _within(precision=precision, auto=auto)


def saving(around: Around | None) -> AbstractContextManager[None]:
    """Within the block, `around` runs the ops of this thread (None: the usual way)."""
    return nullcontext() if around is _state.around else _within(around=around)


def reading(read: Read | None) -> AbstractContextManager[None]:
    """Within the block, ops of this thread get `read(operand)` (None: the operand)."""
    return nullcontext() if read is _state.read else _within(read=read)


def reader() -> Read | None:
    """Return the function that `reading` has set."""
    return _state.read


@contextmanager
def like(scope: Scope) -> Iterator[None]:
    """Within the block, ops run as they ran where `scope` was taken."""
    with computing_in(scope.precision, scope.auto), reading(scope.read), saving(scope.around):
        yield


def scope() -> Scope:
    """How ops of this thread run now."""
    return Scope(_state.precision, _state.auto, _state.read, _state.around)


def precision() -> DType | None:
    """The element type in which Parameters are read now; None for their own."""
    return _state.precision


def plain_calls() -> bool:
    """Whether ops run eagerly, each on its operands as they are: then a composition may be called
    as the one op it is. (Elsewhere its parts may be looked at one by one.)"""
    s = _state
    return s.tracer is None and s.around is None and s.read is None \
        and s.precision is None and s.auto is None and _engine[0].whole


def auto_precision() -> DType | None:
    """The low element type of automatic mixed precision; None where it is off."""
    return _state.auto


def _converted(op: str, operands: Tensors) -> tuple[Tensor, ...]:
    """The operands of an op as mixed precision wants them."""
    if op == "cast":
        return tuple(operands)
    given = tuple(_cast(t, t.dtype) for t in operands)
    low = _state.auto
    if low is None or _state.precision is not None:
        return given
    kind = lookup(op).amp
    if kind == "promote":
        return given
    wanted = low if kind == "low" else float32
    return tuple(_cast(t, wanted) if t.dtype in _MIXED else t for t in given)


def as_read(tensor: Tensor) -> Tensor:
    """A Parameter as its hook and its element type want it; any other tensor itself."""
    if _state.read is not None:
        tensor = _state.read(tensor)
    return _cast(tensor, tensor.dtype)


def _cast(tensor: Tensor, dtype: DType) -> Tensor:
    if tensor._type.dtype is dtype:
        return tensor
    return apply_one("cast", tensor, dtype=dtype)


def plain_apply(op: str, *operands: Tensor, **attrs: Any) -> Any:
    """Apply a registered op: a Tensor, or a tuple of them if the op has several results.

    Operands are Tensors of the dtypes the op wants (promotion is the caller's work). This is
    `apply` without a native site before it.
    """
    if _state.read is not None:
        operands = tuple(map(_state.read, operands))
    if _state.precision is not None or _state.auto is not None:
        operands = _converted(op, operands)
    if _state.around is not None:
        return _state.around(op, operands, attrs)
    tracer = _state.tracer
    try:
        if tracer is not None:
            return tracer.apply(op, operands, attrs)
        return _engine[0].run(op, operands, attrs)
    except AttributeError:
        naming.check_operands(op, operands)
        raise


apply: Any = partial(plain_apply)
"""How library code applies ops. Everyone imports it before there is a native site to send calls
to; a `partial` can be sent elsewhere later, and passes arguments on as they are, which a Python
function would pack and unpack: `ops.dropout` takes 1.16 times as long then."""
apply_one: Callable[..., Tensor] = apply  # `apply` of an op that has one result: the same object


def route(function: Callable[..., Any]) -> None:
    """Send every op call to `function` first; it falls back to `plain_apply`."""
    apply.__setstate__((function, (), {}, None))


def routed() -> bool:
    """Whether calls go to a native site first."""
    return apply.func is not plain_apply


def assign(parameter: Tensor, value: Tensor) -> None:
    """Give a Parameter or another tensor a new value of its shape and dtype, in program order.

    Eagerly the parameter's buffer is overwritten; in a graph later reads see the value and it
    leaves the graph as an update.
    """
    if _state.precision is not None or _state.auto is not None:
        value = _cast(value, parameter._type.dtype)
    tracer = _state.tracer
    if tracer is not None:
        tracer.assign(parameter, value)
    else:
        _engine[0].assign(parameter, value)


def assign_part(
    tensor: Tensor, where: tuple[slice, ...], array: Any, window: Window | None = None
) -> None:
    """Overwrite a part of a tensor eagerly, while `STATE.idle()`.

    Args:
        where: a slice for each axis.
        array: of the part's shape or without axes, and of the tensor's element type.
        window: what `where` is a part of; None: the tensor.
    """
    _engine[0].assign_part(tensor, where, array, window)


def checked(index: Tensor, low: int, high: int, parts: tuple[str | int, ...]) -> None:
    """Say that an eager call found positions in [low, high), as it will each time."""
    _engine[0].checked(index, low, high, parts)


def stays(tensor: Tensor) -> bool:
    """Whether an op would run eagerly on elements that are on a device: reading them waits for it,
    so what can be decided there is."""
    return _state.tracer is None and _engine[0].stays(tensor)


def check_there(index: Tensor, low: int, high: int, parts: tuple[str | int, ...]) -> None:
    """Have positions that stay on a device checked there: it is an error of the next wait if one is
    not in [low, high), and until then no Parameter changes."""
    _engine[0].check(index, low, high, parts)


def same_value(tensor: Tensor, source: Tensor) -> None:
    """Say that an eager tensor stands for the value of another, so its gradient is that one's."""
    _engine[0].same_value(tensor, source)


def elements_read() -> None:
    """Say that an eager call has read elements and what it does depends on them."""
    _engine[0].elements_read()


def scan(
    key: Hashable, init: Tensors, xs: Tensors, captures: Tensors, length: int, body: Body
) -> tuple[list[Tensor], list[Tensor]]:
    """`body` applied over the leading axis of `xs`, as one op in both modes.

    Args:
        key: says with the types of the tensors all that the body depends on.
        init: what is carried from step to step at first.
        xs: tensors of `length` rows.
        captures: tensors that every step reads.
        length: number of steps.
        body: see `Body`; `i` is the step, an int64 scalar.

    Returns:
        Return the last carried values; the outputs stacked along a new leading axis.
    """
    if _state.precision is not None or _state.read is not None:
        init, xs, captures = ([as_read(t) for t in many] for many in (init, xs, captures))
    if _state.around is not None:
        with saving(None):  # a loop over time is one op to a recording, in neither mode looked into
            return scan(key, init, xs, captures, length, body)
    tracer = _state.tracer
    if tracer is not None:
        return tracer.scan(init, xs, length, lambda carried, rows, i: body(
            carried, rows, i, captures))
    return _engine[0].scan(key, init, xs, captures, length, body)


def run_scan(operands: Tensors, attrs: Attrs, body: Graph) -> list[Tensor]:
    """Run a `scan` node eagerly."""
    return _engine[0].run_scan(operands, attrs, body)
