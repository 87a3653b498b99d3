"""Streams and events of a GPU."""

from __future__ import annotations

import ctypes

from ..device import Event, Stream
from .context import Context
from .driver import NO_TIMING, NON_BLOCKING, NOT_READY


class CudaStream:
    """Work in order; programs run on their device's own.

    Args:
        handle: of a stream that lives as long as the device; a new one if None.
    """

    def __init__(self, context: Context, handle: int | None = None) -> None:
        context.use()
        self._context = context
        self._own = handle is None
        self.handle = context.driver.handle("cuStreamCreate", NON_BLOCKING) if handle is None \
            else handle

    def synchronize(self) -> None:
        """Return when all that is on the stream is done.

        Raises:
            CudaError: some of it failed.
            RunError: a check has failed.
        """
        if not self._own:
            self._context.wait()
            return
        self._context.use()
        self._context.driver.call("cuStreamSynchronize", self.handle)
        self._context.look()

    def query(self) -> bool:
        """Whether all that is on the stream is done.

        Raises:
            CudaError: some of it failed.
        """
        self._context.use()
        return _done(self._context, "cuStreamQuery", self.handle)

    def record_event(self, event: CudaEvent | None = None) -> CudaEvent:
        """Record an event after the present work of the stream."""
        event = event or CudaEvent(self._context)
        event.record(self)
        return event

    def wait_event(self, event: CudaEvent) -> None:
        """Let what comes on the stream wait for an event."""
        event.wait(self)

    def wait_stream(self, other: CudaStream) -> None:
        """Let what comes on the stream wait for what is on another."""
        self.wait_event(other.record_event())

    def __del__(self) -> None:
        if getattr(self, "_own", False) and hasattr(self, "handle"):
            self._context.discard("cuStreamDestroy_v2", self.handle)


class CudaEvent:
    """A point in a stream; with `timing` it has its time."""

    def __init__(self, context: Context, timing: bool = False) -> None:
        context.use()
        self._context, self._timing = context, timing
        self.handle = context.driver.handle("cuEventCreate", 0 if timing else NO_TIMING)
        self._recorded = False

    def record(self, stream: Stream | None = None) -> None:
        """Record the event after the work of a stream (that of the programs if None)."""
        self._context.use()
        self._context.driver.call("cuEventRecord", self.handle, self._of(stream))
        self._recorded = True

    def wait(self, stream: Stream | None = None) -> None:
        """Let what comes on a stream (that of the programs if None) wait for the event."""
        self._context.use()
        self._context.driver.call("cuStreamWaitEvent", self._of(stream), self.handle, 0)

    def query(self) -> bool:
        """Whether all before the event is done; true if it was never recorded."""
        self._context.use()
        return _done(self._context, "cuEventQuery", self.handle)

    def synchronize(self) -> None:
        """Return when all before the event is done.

        Raises:
            RunError: a check has failed.
        """
        self._context.use()
        self._context.driver.call("cuEventSynchronize", self.handle)
        self._context.look()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to another, to half a microsecond.

        Raises:
            RuntimeError: one of them has no time, was not recorded, or is not done yet.
            TypeError: the other is not a GPU's.
        """
        if not isinstance(end, CudaEvent):
            raise TypeError(f"an event of a GPU was expected, got {type(end).__name__}")
        if not (self._timing and end._timing):
            raise RuntimeError("the time between two events: make both with timing")
        if not (self._recorded and end._recorded):
            raise RuntimeError("the time between two events: both must have been recorded")
        if not end.query() or not self.query():
            raise RuntimeError("the time between two events: synchronize with the later one first")
        time = ctypes.c_float()
        self._context.driver.call("cuEventElapsedTime", ctypes.byref(time), self.handle, end.handle)
        return time.value

    def _of(self, stream: Stream | None) -> int:
        if stream is None:
            return self._context.stream
        if not isinstance(stream, CudaStream):
            raise TypeError(f"a stream of a GPU was expected, got {type(stream).__name__}")
        return stream.handle

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self._context.discard("cuEventDestroy_v2", self.handle)


class CudaLane:
    """A stream that no program runs on; see `queues.Lane`."""

    def __init__(self, context: Context) -> None:
        self._context, self._stream = context, CudaStream(context)
        self.handle = self._stream.handle

    def follow(self, mark: Event | None) -> None:
        if mark is not None:
            mark.wait(self._stream)

    def finish(self) -> None:
        """See `Lane`. (What checks of programs have found is for those who wait for programs.)"""
        self._context.use()
        self._context.driver.call("cuStreamSynchronize", self.handle)


def _done(context: Context, name: str, handle: int) -> bool:
    result = context.driver.result(name, handle)
    if result and result != NOT_READY:
        raise context.driver.error(result, name)
    return not result
