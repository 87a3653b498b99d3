"""One wait of a rank for others: what it looks at meanwhile, and when it ends with an error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from . import knobs
from .channel import Channel
from .liveness import LEAST_LIMIT, Liveness
from .world import CollectiveError, Step

_NOTICE = 8.0
"""Seconds of waiting after which a rank says so, and says it again after twice as long."""


class Wait:
    """See the module.

    Args:
        alive: how it is seen what the others do.
        channel: on which it is waited.
        rank: which one waits.
        whom: for which others.
        absent: those of them that have not come; None: all have come, and bytes are on their way.
    """

    def __init__(
        self, alive: Liveness, channel: Channel | None, step: Step, rank: int, whom: Sequence[int],
        absent: Callable[[], Sequence[int]] | None = None,
    ) -> None:
        self.what = f"{step.text}{step.place}"  # what is waited for, for messages
        self._alive, self._channel, self._rank = alive, channel, rank
        self._whom, self._absent = whom, absent
        self._start, self._notice = time.monotonic(), _NOTICE

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self._start

    def end(self) -> None:
        """End a wait whose condition holds."""
        self._alive.forget(self._whom)
        self._alive.done()

    def look(self) -> None:
        """Query the status of the ranks that this one waits for, now and then. Raises
        CollectiveError if the wait has taken too long, a rank does not answer, has left or hangs,
        or nobody needs the result any more."""
        if not self._alive.is_due():
            return
        if self._channel is not None and self._channel.given_up is not None:
            raise CollectiveError(f"{self.what} was given up: {self._channel.given_up!r}")
        waited = self.seconds
        missing = self._whom if self._absent is None else self._absent()
        waiting = f"rank {self._rank} waits in {self.what}"
        self._alive.watch(missing, waited, waiting)
        if waited > LEAST_LIMIT:
            self._hold_out(waited, missing)
        if self._absent is not None:
            self._alive.check_left(missing, self.what)
            self._alive.check_hung(missing, waited, waiting)

    def _hold_out(self, waited: float, missing: Sequence[int]) -> None:
        """Continue waiting, up to the limit, and report it to others. Raises CollectiveError if the
        limit is reached."""
        limit = knobs.read().collective_timeout
        said = (f"{self.what}: rank {self._rank} has waited {waited:.0f} s for "
                f"rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))} "
                f"(CELLC_COLLECTIVE_TIMEOUT sets how long){self._alive.told(missing)}")
        if waited > limit:
            raise CollectiveError(said)
        if waited > self._notice:
            self._notice *= 2
            sys.stderr.write(f"{said}\nIt goes on waiting, up to {limit} s.\n")
            sys.stderr.flush()
