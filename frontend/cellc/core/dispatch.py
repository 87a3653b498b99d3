"""Where an op call goes: to the graph being traced, or to the eager engine.

Library code (functional API, Tensor methods) calls `apply` and never asks which mode it is in.
The active tracer is thread-local, so two threads may trace or run at once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..common.parameter import Parameter
    from ..common.tensor import Tensor
    from .tracer import Tracer


class Engine(Protocol):
    """What runs ops eagerly (`cellc.pynative.engine`)."""

    def run(self, op: str, operands: Sequence[Tensor], attrs: Mapping[str, Any]) -> Any:
        """Run one op now."""

    def assign(self, parameter: Parameter, value: Tensor) -> None:
        """Overwrite a parameter's buffer."""


class _State(threading.local):
    tracer: Tracer | None = None


_state = _State()
_engine: list[Engine] = []


def install(engine: Engine) -> None:
    """Set the eager engine; done once, when `cellc` is imported.

    The engine stands on Tensor and Tensor on this module, so it is handed in rather than imported.
    """
    _engine[:] = [engine]


def active_tracer() -> Tracer | None:
    """The tracer of this thread, if a graph is being built."""
    return _state.tracer


@contextmanager
def tracing(tracer: Tracer | None) -> Iterator[None]:
    """Within the block, ops of this thread go to `tracer` (None: run eagerly)."""
    saved = _state.tracer
    _state.tracer = tracer
    try:
        yield
    finally:
        _state.tracer = saved


def apply(op: str, *operands: Tensor, **attrs: Any) -> Any:
    """Apply a registered op: a Tensor, or a tuple of them if the op has several results.

    Operands are Tensors of the dtypes the op wants (promotion is the caller's work).
    """
    tracer = _state.tracer
    if tracer is not None:
        return tracer.apply(op, operands, attrs)
    return _engine[0].run(op, operands, attrs)


def assign(parameter: Parameter, value: Tensor) -> None:
    """Give a parameter a new value of the same shape and dtype, in program order.

    Eagerly the parameter's buffer is overwritten; in a graph later reads see the value and it
    leaves the graph as an update.
    """
    tracer = _state.tracer
    if tracer is not None:
        tracer.assign(parameter, value)
    else:
        _engine[0].assign(parameter, value)

