"""Runs the collectives of one rank in order while the rank computes: in a thread, and inside
programs' calls.

A program starts a collective, computes on, and waits where it reads the result. Collectives begin
first in, first out, so all ranks of a group do them in the same order. The thread holds the
interpreter's lock for the few lines between two waits, and none while a kernel runs.

Collectives that come in *phases* (`Phases`) need not wait for each other: several are under way,
and each goes on when the others have come. Where a rank has one processor, a program takes them on
by itself wherever it starts or awaits one, since a thread beside it would only take its processor
away; the thread looks seldom then, for others that wait while the program computes for long.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from .errors import CollectiveError
from .forks import renewed

if TYPE_CHECKING:
    from .meeting import Meeting, Phases

DEPTH = 4  # How many that come in phases are under way at once
_LOOK = 1e-3  # Seconds between the thread's looks at what is under way while the rank computes
_SPIN = 0.05
"""Seconds of waiting before a rank that does nothing else sleeps between its looks, so long:"""
_NAP = 5e-5
_ROUND = 0.1
"""Seconds after which who waits for one that is done sees it, where another has seen it first."""
IDLE = 0.2
"""Seconds after which a thread that has nothing to do, or leaves it to a program that helps, looks
at what there is."""


class Pending:
    """A collective that was requested."""

    __slots__ = (
        "_channel", "_gate", "_work", "context", "done", "error", "meeting", "phases", "text",
        "value",
    )

    def __init__(self, channel: Channel, work: Callable[[], Any] | Phases, text: str) -> None:
        self.text = text  # what it is, for messages
        self.value: Any = None  # what it gave, once it is done
        self.error: BaseException | None = None
        self.context: Context = copy_context()  # the world and the knobs of who asks
        # the steps by which it continues; None if it is done at once
        self.phases = work if isinstance(work, Generator) else None
        self.meeting: Meeting | None = None  # must be over before it continues
        self._channel = channel
        self._work = None if isinstance(work, Generator) else work
        self.done = False  # whether it is done, or will not be
        self._gate = threading.Lock()  # (no event: an interrupt within `set` leaves it locked)
        self._gate.acquire()

    def run(self) -> None:
        """Do it, on the channel's thread."""
        assert self._work is not None
        try:
            self.value = self.context.run(self._work)
        except BaseException as error:  # raised where somebody waits
            self._fail(error)
        self.end()

    def go_on(self) -> bool:
        """Take it as far as it goes without a wait; whether it went on."""
        return self._guarded(self._gone_on)

    def look(self) -> None:
        """See that those who have not come will."""
        if self.meeting is not None:
            self._guarded(self.meeting.look)

    def _guarded(self, function: Callable[[], Any]) -> bool:
        try:
            return bool(self.context.run(function))
        except BaseException as error:
            self._fail(error)
            self.end()
            if not isinstance(error, Exception) and not self._channel.inside:
                raise  # an interrupt of who computes
            return True

    def _gone_on(self) -> bool:
        went = False
        if self.phases is None:
            return went
        while self.meeting is None or self.meeting.over():
            went = True
            self.meeting = next(self.phases, None)
            if self.meeting is None:
                self.end()
                return True
        return went

    def _fail(self, error: BaseException) -> None:
        self._channel.failed = self._channel.failed or error
        self.error = error

    def end(self, error: BaseException | None = None) -> None:
        """It is done, or will not be."""
        if error is not None:
            self.error = CollectiveError(f"{self.text} is not done, since what was asked for "
                                         f"before it has failed: {error}")
        if self.phases is not None:
            self.phases.close()
        self._work = self.phases = self.meeting = None
        self.done = True
        with suppress(RuntimeError):  # it is open
            self._gate.release()

    def settle(self) -> None:
        """Wait until it is done; an interrupt gives up all that was requested."""
        channel = self._channel
        channel.awaited += 1
        try:
            if channel.helped:
                channel.help(self)
            while not self.done:
                self._pause(_ROUND)
        except BaseException as error:
            channel.give_up(error)
            raise
        finally:
            channel.awaited -= 1

    def _pause(self, seconds: float) -> None:
        """Wait so long at most: not longer than until it is done, unless another waits, too."""
        self._gate.acquire(timeout=seconds)

    def done_within(self, seconds: float) -> bool:
        """Wait so long at most; whether it is done."""
        end = time.monotonic() + seconds
        while not self.done and (left := end - time.monotonic()) > 0:
            self._pause(min(left, _ROUND))
        return self.done

    def wait(self) -> Any:
        """Wait, and return the result. Raises CollectiveError if it or an earlier one failed."""
        self.settle()
        if self.error is not None:
            self._channel.forgive()
            raise self.error
        return self.value


class Channel:
    """Requested operations, running operations, and the thread.

    Args:
        attend: called on it now and then while there is nothing else to do; a channel that has
            such a function does everything on its thread, from the start on, but what programs
            help with.
        alone: whether programs compute by one thread, so that they are to help; asked at each
            launch.
    """

    def __init__(
        self, name: str, attend: Callable[[], None] | None = None,
        alone: Callable[[], bool] = bool,
    ) -> None:
        # why nothing more is begun: a collective failed, and no error has been raised yet
        self.failed: BaseException | None = None
        self.given_up: BaseException | None = None  # the interrupt that gave up what was under way
        self.awaited = 0  # how many wait for one of them now
        self.helped = False  # whether programs take on what comes in phases
        self._attend, self._alone = attend, alone
        self._turn = renewed(threading.RLock())  # of the thread that continues the present step
        self._asked: deque[Pending] = deque()
        self._under_way: list[Pending] = []
        self._tokens: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._closed = False
        self._helpers, self._helped_at = 0, -IDLE
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

    @property
    def waits_in(self) -> str:
        """Return the text of an awaited operation that has phases; "" if there is none."""
        first = self._first()
        return first.text if first is not None and first.phases is not None and self.awaited else ""

    def do(self, work: Callable[[], Any], text: str) -> Any:
        """Do something after all that was started, and wait for it. Raises CollectiveError if it or
        an earlier one failed."""
        if self.inside or (self._attend is None and not self._waiting()):
            return work()
        return self.start(work, text).wait()

    def start(self, work: Callable[[], Any], text: str) -> Pending:
        """Start something after all that was started."""
        pending = self._ask(work, text)
        self.wake()
        return pending

    def launch(self, key: int, work: Callable[[], Any] | Phases, text: str) -> None:
        """Start what a program waits for by `key`, the address of its result."""
        self._flying[key] = pending = self._ask(work, text)
        self.helped = self._alone()
        if self.helped and pending.phases is not None:
            self._take_on()
        else:
            self.wake()

    def land(self, key: int) -> None:
        """Wait for what was launched. Raises CollectiveError if it or an earlier one failed."""
        pending = self._flying.pop(key, None)
        if pending is not None:
            if self.helped and self._under_way:
                self._take_on()  # (it may be done, and others not)
            pending.wait()

    def help(self, pending: Pending) -> None:
        """Continue pending operations while a caller waits for one of them, as long as they run in
        phases."""
        start = time.monotonic()
        self._helpers += 1
        try:
            while not pending.done and self._take_on():
                if time.monotonic() - start < _SPIN:
                    os.sched_yield()
                else:
                    time.sleep(_NAP)
        finally:
            self._helpers -= 1

    def drain(self) -> None:
        """A program has ended with an error: wait until nothing uses its memory any more. (One
        that runs on this thread starts nothing.)"""
        if self.inside:
            return
        self._let_go()
        while self._flying:
            self._flying.popitem()[1].settle()
        self.forgive()

    def give_up(self, error: BaseException) -> None:
        """Stop everything, since the waiting thread was interrupted."""
        self.failed = self.failed or error
        self.given_up = error
        self._let_go()
        self.wake()

    def forgive(self) -> None:
        """Accept requests again: the failure has been raised."""
        for pending in self._waiting():
            pending.settle()
        self.failed = self.given_up = None

    def finish(self, seconds: float) -> bool:
        """Wait, so long at most, until all that was started is done; whether it is."""
        end = time.monotonic() + seconds
        return all(p.done_within(max(end - time.monotonic(), 0.0)) for p in self._waiting())

    def close(self) -> None:
        """End the thread after all that was started."""
        if self._thread is not None:
            self._closed = True
            self.wake()
            self._thread.join()
            self._thread, self._closed = None, False

    def wake(self) -> None:
        """The thread looks."""
        self._tokens.put(None)

    def _ask(self, work: Callable[[], Any] | Phases, text: str) -> Pending:
        pending = Pending(self, work, text)
        self._begin()
        self._asked.append(pending)
        self._unfinished.append(pending)
        return pending

    def _first(self) -> Pending | None:
        """Return the next operation to continue or to begin, also for a thread that has no turn."""
        for pending in (self._under_way, self._asked):
            with suppress(IndexError):  # (another thread has just taken it)
                return pending[0]
        return None

    def _waiting(self) -> list[Pending]:
        self._unfinished = [p for p in self._unfinished if not p.done]
        return self._unfinished

    def _take_on(self) -> bool:
        """Continue an operation that runs in phases, on a computing thread; whether phases remain.
        (Operations without phases run on the channel's thread.)"""
        self._helped_at = time.monotonic()
        try:
            if self._turn.acquire(blocking=False):
                self._go_on()
                if self.awaited:
                    self._look()
                if not self._under_way and self._asked:
                    self.wake()
            return bool(self._under_way)
        finally:
            with suppress(RuntimeError):  # it was not its turn
                self._turn.release()

    def _let_go(self) -> None:
        """End the turn of this thread, which an interrupt may have left unended."""
        with suppress(RuntimeError):
            while True:
                self._turn.release()

    def _go_on(self) -> bool:
        """Take all as far as it goes without a wait; whether anything went on."""
        if self.given_up is not None:
            _end_all(self._under_way, self.given_up)
        went = False
        for place, pending in enumerate(self._under_way):
            went |= pending.go_on()
            if pending.error is not None:  # the state before it continues
                _end_all(self._under_way[place + 1 :], pending.error)
        self._leave_off()
        while self._asked and len(self._under_way) < DEPTH and self._begin_next():
            went = True
        return went

    def _begin_next(self) -> bool:
        """Begin what was requested first, unless it is done at one go; whether it was begun."""
        pending = self._asked[0]
        if self.failed is not None:
            pending.end(self.failed)
        elif pending.phases is not None:
            if pending not in self._under_way:  # an interrupt may come in between
                self._under_way.append(pending)
        elif not pending.done:
            return False
        self._asked.popleft()
        pending.go_on()
        self._leave_off()
        return True

    def _leave_off(self) -> None:
        """Forget the first that are done. (A step that follows others holds its place: so a bounded
        number of steps lies between the first and the last, and have headers of their own.)"""
        while self._under_way and self._under_way[0].done:
            del self._under_way[0]

    def _look(self) -> None:
        """See that those who have not come will."""
        if self._under_way:
            self._under_way[0].look()

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def _run(self) -> None:
        went_on = time.monotonic()
        while True:
            if self._is_helped():
                self._idle()
                continue
            with self._turn:
                went = self._go_on()
                if self._asked and not self._under_way and self._asked[0].phases is None:
                    self._asked.popleft().run()
                    went = True
                elif not went:
                    self._look()
            if went:
                went_on = time.monotonic()
            elif self._closed and not self._asked and not self._under_way:
                return
            else:
                self._rest(time.monotonic() - went_on)

    def _is_helped(self) -> bool:
        """Whether a program continues with the next step: it came by lately, and it does not wait
        for this thread."""
        first = self._first()
        return first is not None and first.phases is not None and self.given_up is None \
            and self._helpers >= self.awaited and time.monotonic() - self._helped_at < IDLE

    def _rest(self, still: float) -> None:
        """Until something may go on; `still`: for how long nothing has."""
        if not self._under_way:
            if not self._asked:
                self._idle()
        elif not self.awaited or self._helpers:
            self._token(_LOOK)
        elif still < _SPIN:
            os.sched_yield()
        else:
            time.sleep(_NAP)

    def _idle(self) -> None:
        """Until there is something, attending to others now and then."""
        if not self._token(IDLE) and self._attend is not None:
            with self._turn:
                self._attend()

    def _token(self, seconds: float | None) -> bool:
        try:
            self._tokens.get(timeout=seconds)
        except queue.Empty:
            return False
        return True


def _end_all(pending: Iterable[Pending], error: BaseException) -> None:
    for p in pending:
        if not p.done:
            p.end(error)
