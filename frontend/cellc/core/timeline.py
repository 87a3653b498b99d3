"""The times of eager ops, calls of compiled networks and compilations; for `cellc.profiler`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cellc_runtime.records import dataclass
from cellc_runtime.site import STATE

from . import dispatch

if TYPE_CHECKING:
    from ..tensors.tensor import Tensors
    from .dispatch import Attrs


@dataclass(frozen=True, slots=True)
class Event:
    """Something that took time.

    Attributes:
        name: the op, network or step.
        category: "op", "network", "compile" or "step".
        start: in ns, of `time.perf_counter_ns`.
        duration: in ns.
        thread: its number.
        details: types of operands and the like.
    """

    name: str
    category: str
    start: int
    duration: int
    thread: int
    details: Mapping[str, Any]


class Timeline:
    """Events of this process while it is recorded."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def add(self, name: str, category: str, start: int, end: int, **details: Any) -> None:
        """Note an event."""
        self.events.append(
            Event(name, category, start, end - start, threading.get_ident(), details))

    def timed(self, name: str, category: str, fn: Callable[..., Any], *args: Any) -> Any:
        """Call a function and note how long it took."""
        start = time.perf_counter_ns()
        try:
            return fn(*args)
        finally:
            self.add(name, category, start, time.perf_counter_ns())

    def around(self, op: str, operands: Tensors, attrs: Attrs) -> Any:
        """Run an op of the eager mode and note it."""
        with dispatch.saving(None):
            if dispatch.active_tracer() is not None:
                return dispatch.apply(op, *operands, **attrs)
            start = time.perf_counter_ns()
            out = dispatch.apply(op, *operands, **attrs)
            end = time.perf_counter_ns()
        self.add(op, "op", start, end, operands=[str(t._type) for t in operands])
        return out


running: list[Timeline] = []
"""The timelines that are recorded; the last notes what runs."""


@contextmanager
def recording(timeline: Timeline) -> Iterator[None]:
    """Within the block, what this thread runs is noted; native call sites go the long way."""
    STATE.begin()
    running.append(timeline)
    try:
        with dispatch.saving(timeline.around):
            yield
    finally:
        running.remove(timeline)
        STATE.end()


__all__ = ["Event", "Timeline", "recording", "running"]
