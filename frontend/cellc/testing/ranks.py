"""Threads that play the ranks of MPI: programs for many ranks, tried in one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from cellc_runtime.channel import Channel
from cellc_runtime.forks import renewed
from cellc_runtime.meeting import Bytes, Meeting
from cellc_runtime.records import dataclass, field
from cellc_runtime.world import CollectiveError, Step, disagreement, playing

_PATIENCE = 180.0
"""Seconds that a rank waits for another one, which may be compiling its stage of a pipeline."""
_LOOK = 1e-3  # Seconds for which one that asks whether others have come waits for them


@dataclass(eq=False)
class _Board:
    """The contributions of the ranks so far, by group and step."""

    changed: threading.Condition = field(
        default_factory=lambda: renewed(threading.Condition()))
    given: dict[Any, dict[int, Any]] = field(default_factory=dict)
    failed: bool = False
    left: set[int] = field(default_factory=set)

    def put(self, key: Any, rank: int, value: Any) -> None:
        with self.changed:
            self.given.setdefault(key, {})[rank] = value
            self.changed.notify_all()

    def come(self, key: Any, ranks: Sequence[int], seconds: float) -> bool:
        """Wait so long at most; whether these ranks have given something, or one has failed."""
        with self.changed:
            return self.changed.wait_for(
                lambda: self.failed or set(ranks) <= self.given.get(key, {}).keys(), seconds)

    def take(self, key: Any, ranks: Sequence[int], who: int, text: str) -> dict[int, Any]:
        """Return the contributions of these ranks once all have arrived; each rank receives
        them."""
        with self.changed:
            self.come(key, ranks, _PATIENCE)
            # (Another may have failed at this very step; then this one raises the same fault.)
            missing = sorted(set(ranks) - self.given.get(key, {}).keys())
            if missing:
                raise CollectiveError(f"{text}: rank {who} waits for the ranks {missing}")
            found = self.given[key]
            taken = found.setdefault(-1, set())
            taken.add(who)
            if len(taken) == len(ranks):
                del self.given[key]
            return {r: found[r] for r in ranks}


class _ThreadWorld:
    """See `cellc_runtime.world.World`."""

    def __init__(self, rank: int, size: int, board: _Board) -> None:
        self.rank = rank
        self.size = size
        self.near = tuple(range(size))
        self.groups: dict[str, tuple[int, ...]] = {}
        # Every other rank takes on what it has started by itself.
        self._own = Channel(f"collectives of rank {rank}", alone=lambda: rank % 2 == 0)
        self.channel: Channel | None = self._own
        self._board = board
        self._steps: dict[Any, int] = {}

    def _exchange(self, step: Step, value: Any) -> list[Any]:
        key = self._key(step)
        self._board.put(key, self.rank, (step.text, value))
        return _agreed(self._board, key, self.rank, step)

    def _key(self, step: Step) -> Any:
        number = self._steps[step.group] = self._steps.get(step.group, 0) + 1
        return step.group, number

    def all_to_all(self, step: Step, parts: Sequence[Bytes], out: Sequence[Bytes]) -> None:
        """See `World.all_to_all`."""
        here = step.group.index(self.rank)
        for place, sent in zip(out, self._exchange(step, [p.copy() for p in parts]), strict=True):
            place[:] = sent[here]

    def all_gather(self, step: Step, own: Bytes, out: Sequence[Bytes]) -> None:
        """See `World.all_gather`."""
        for place, sent in zip(out, self._exchange(step, own.copy()), strict=True):
            place[:] = sent

    def broadcast(self, step: Step, root: int, buffer: Bytes) -> None:
        """See `World.broadcast`."""
        buffer[:] = self._exchange(step, buffer.copy())[step.group.index(root)]

    def reads(self, group: Sequence[int]) -> bool:
        """See `World.reads`."""
        return len(group) > 1

    def meeting(self, step: Step, own: Sequence[Bytes]) -> _ThreadMeeting:
        """See `World.meeting`."""
        return _ThreadMeeting(self._board, self.rank, step, self._key(step), own)

    def wait(self, meeting: Meeting) -> None:
        """See `World.wait`."""
        assert isinstance(meeting, _ThreadMeeting)
        while not meeting.over():
            meeting.look()

    def _message(self, source: int, to: int, tag: int) -> Any:
        key = "message", self.rank, source, to, tag
        self._steps[key] = self._steps.get(key, 0) + 1
        return "message", source, to, tag, self._steps[key]

    def send(self, step: Step, to: int, tag: int, buffer: Bytes) -> None:
        """See `World.send`."""
        self._board.put(self._message(self.rank, to, tag), self.rank, buffer.copy())

    def receive(self, step: Step, source: int, tag: int, out: Bytes) -> None:
        """See `World.receive`."""
        key = self._message(source, self.rank, tag)
        sent = self._board.take(key, [source], self.rank, step.text)[source]
        if sent.size != out.size:
            raise CollectiveError(
                f"{step.text}: expected {out.size} bytes, but rank {source} sends {sent.size}")
        out[:] = sent

    def has_left(self, rank: int) -> bool:
        """See `World.has_left`."""
        return self._board.failed or rank in self._board.left

    def close(self) -> None:
        """End its thread."""
        self._board.left.add(self.rank)
        self._own.close()

    def abort(self) -> None:
        """This rank raised: nobody waits for it."""
        with self._board.changed:
            self._board.failed = True
            self._board.changed.notify_all()


class _ThreadMeeting:
    """See `cellc_runtime.meeting.Meeting`."""

    def __init__(
        self, board: _Board, rank: int, step: Step, key: Any, own: Sequence[Bytes]
    ) -> None:
        self._board, self._rank, self._step, self._key = board, rank, step, key
        self._start = time.monotonic()
        self._buffers: list[Sequence[Bytes]] = []
        self._over = False
        board.put(key, rank, (step.text, own))

    def over(self) -> bool:
        """See `Meeting.over`."""
        if not self._over and self._board.come(self._key, self._step.group, 0.0):
            self._over = True
            found = _agreed(self._board, self._key, self._rank, self._step)
            self._buffers = self._buffers or found
        return self._over

    def again(self) -> None:
        """See `Meeting.again`."""
        self._key, self._over = (*self._key, "again"), False
        self._board.put(self._key, self._rank, (self._step.text, None))

    def read(self, place: int, buffer: int, start: int, out: Bytes) -> None:
        """See `Meeting.read`."""
        out[:] = self._buffers[place][buffer][start : start + out.size]

    def look(self) -> None:
        """See `Meeting.look`."""
        if not self._board.come(self._key, self._step.group, _LOOK) \
                and time.monotonic() - self._start > _PATIENCE:
            self._board.take(self._key, self._step.group, self._rank, self._step.text)

    def leave(self) -> None:
        """Nothing is held."""


def _agreed(board: _Board, key: Any, rank: int, step: Step) -> list[Any]:
    """Return the contribution of each rank of a step's group; all must use the same step."""
    found = board.take(key, step.group, rank, step.text)
    wrong = disagreement(step.group, [found[r][0] for r in step.group])
    if wrong is not None:
        raise CollectiveError(f"{wrong}. This is rank {rank}{step.place}")
    return [found[r][1] for r in step.group]


def run_ranks(size: int, function: Callable[[int], Any]) -> list[Any]:
    """Call `function(rank)` on `size` threads that are the ranks of one world.

    Returns:
        Return the result of each rank.

    Raises:
        Exception: what the first rank to fail raised.
    """
    board = _Board()
    results: list[Any] = [None] * size
    errors: list[BaseException] = []

    def play(rank: int) -> None:
        own = _ThreadWorld(rank, size, board)
        try:
            with playing(own):
                results[rank] = function(rank)
        except BaseException as e:
            errors.append(e)
            own.abort()
        finally:
            own.close()

    threads = [threading.Thread(target=play, args=(r,), name=f"rank {r}") for r in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


__all__ = ["run_ranks"]
