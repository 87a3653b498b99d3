"""A thread that does the collectives of one rank, in order, while the rank computes.

A program starts a collective, computes on, and waits where it reads the result. What is started
runs first in, first out, so all ranks of a group do the same collectives in the same order. The
thread holds the interpreter's lock for the few lines between two waits, and none while a kernel
runs.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any

from .errors import CollectiveError

IDLE = 0.2
"""Seconds after which a thread that has nothing to do looks at what it attends to."""


class Pending:
    """A collective that was asked for.

    Attributes:
        text: what it is, for messages.
        value: what it gave, once it is done.
    """

    __slots__ = ("_channel", "_done", "_work", "context", "error", "text", "value")

    def __init__(self, channel: Channel, work: Callable[[], Any], text: str) -> None:
        self.text = text
        self.value: Any = None
        self.error: BaseException | None = None
        self.context: Context = copy_context()  # the world and the knobs of who asks
        self._channel = channel
        self._work: Callable[[], Any] | None = work
        self._done = threading.Event()

    def run(self) -> None:
        """Do it, on the channel's thread."""
        assert self._work is not None
        try:
            self.value = self.context.run(self._work)
        except BaseException as error:  # raised where somebody waits
            self._channel.failed = self._channel.failed or error
            self.error = error
        self.end()

    def end(self, error: BaseException | None = None) -> None:
        """It is done, or will not be."""
        if error is not None:
            self.error = CollectiveError(f"{self.text} is not done, since what was asked for "
                                         f"before it has failed: {error}")
        self._work = None
        self._done.set()

    def settle(self) -> None:
        """Wait until it is done; an interrupt gives up all that was asked for."""
        channel = self._channel
        channel.awaited += 1
        try:
            self._done.wait()
        except BaseException as error:
            channel.failed = channel.failed or error
            raise
        finally:
            channel.awaited -= 1

    def done_within(self, seconds: float) -> bool:
        """Wait so long at most; whether it is done."""
        return self._done.wait(seconds)

    def wait(self) -> Any:
        """What it gives, once it is done.

        Raises:
            CollectiveError: it, or one before it, failed.
        """
        self.settle()
        if self.error is not None:
            self._channel.forgive()
            raise self.error
        return self.value


class Channel:
    """The thread, and what waits for it.

    Args:
        name: the thread's.
        attend: called on it now and then while there is nothing else to do; a channel that has
            such a function does everything on its thread, from the start on.

    Attributes:
        failed: why nothing more is begun: one of the collectives failed, and nobody has been told.
        awaited: how many wait for one of them now.
    """

    def __init__(self, name: str, attend: Callable[[], None] | None = None) -> None:
        self.failed: BaseException | None = None
        self.awaited = 0
        self._attend = attend
        self._queue: queue.SimpleQueue[Pending | None] = queue.SimpleQueue()
        self._unfinished: list[Pending] = []
        self._flying: dict[int, Pending] = {}
        self._thread: threading.Thread | None = None
        self._name = name
        if attend is not None:
            self._begin()

    @property
    def inside(self) -> bool:
        """Whether this is its thread."""
        return threading.current_thread() is self._thread

    def do(self, work: Callable[[], Any], text: str) -> Any:
        """Do something behind all that was started, and wait for it.

        Raises:
            CollectiveError: it, or one before it, failed.
        """
        if self.inside or (self._attend is None and not self._waiting()):
            return work()
        return self.start(work, text).wait()

    def start(self, work: Callable[[], Any], text: str) -> Pending:
        """Do something behind all that was started."""
        pending = Pending(self, work, text)
        self._begin()
        self._unfinished.append(pending)
        self._queue.put(pending)
        return pending

    def launch(self, key: int, work: Callable[[], Any], text: str) -> None:
        """Start what a program waits for by `key`, the address of its result."""
        self._flying[key] = self.start(work, text)

    def land(self, key: int) -> None:
        """Wait for what was launched.

        Raises:
            CollectiveError: it, or one before it, failed.
        """
        pending = self._flying.pop(key, None)
        if pending is not None:
            pending.wait()

    def drain(self) -> None:
        """A program has ended with an error: wait until nothing uses its memory any more. (One
        that runs on this thread starts nothing.)"""
        if self.inside:
            return
        while self._flying:
            self._flying.popitem()[1].settle()
        self.forgive()

    def forgive(self) -> None:
        """The failure has been told: what is asked for from now on is tried."""
        for pending in self._waiting():
            pending.settle()
        self.failed = None

    def finish(self, seconds: float) -> bool:
        """Wait, so long at most, until all that was started is done; whether it is."""
        end = time.monotonic() + seconds
        return all(p.done_within(max(end - time.monotonic(), 0.0)) for p in self._waiting())

    def close(self) -> None:
        """End the thread behind all that was started."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _waiting(self) -> list[Pending]:
        self._unfinished = [p for p in self._unfinished if not p._done.is_set()]
        return self._unfinished

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def _run(self) -> None:
        timeout = None if self._attend is None else IDLE
        while True:
            try:
                pending = self._queue.get(timeout=timeout)
            except queue.Empty:
                assert self._attend is not None
                self._attend()
                continue
            if pending is None:
                return
            if self.failed is None:
                pending.run()
            else:
                pending.end(self.failed)
