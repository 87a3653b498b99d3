"""Threads that play the ranks of MPI: programs for many ranks, tried in one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from cellc_runtime.channel import Channel
from cellc_runtime.records import dataclass, field
from cellc_runtime.world import Bytes, CollectiveError, Read, Step, disagreement, playing

_PATIENCE = 180.0
"""Seconds that a rank waits for another one, which may be compiling its stage of a pipeline."""


@dataclass(eq=False)
class _Board:
    """What the ranks have given so far, by group and step."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    given: dict[Any, dict[int, Any]] = field(default_factory=dict)
    failed: bool = False
    left: set[int] = field(default_factory=set)

    def put(self, key: Any, rank: int, value: Any) -> None:
        with self.changed:
            self.given.setdefault(key, {})[rank] = value
            self.changed.notify_all()

    def take(self, key: Any, ranks: Sequence[int], who: int, text: str) -> dict[int, Any]:
        """What these ranks gave, once all have; forgotten when each of them has taken it."""
        def come() -> bool:
            return self.failed or set(ranks) <= self.given.get(key, {}).keys()

        with self.changed:
            self.changed.wait_for(come, _PATIENCE)
            # (Another may have failed at this very step; then this one is told what is wrong, too.)
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
        self._own = Channel(f"collectives of rank {rank}")
        self.channel: Channel | None = self._own
        self._board = board
        self._steps: dict[Any, int] = {}

    def _exchange(self, step: Step, value: Any) -> list[Any]:
        number = self._steps[step.group] = self._steps.get(step.group, 0) + 1
        key = step.group, number
        self._board.put(key, self.rank, (step.text, value))
        found = self._board.take(key, step.group, self.rank, step.text)
        wrong = disagreement(step.group, [found[r][0] for r in step.group])
        if wrong is not None:
            raise CollectiveError(f"{wrong}. This is rank {self.rank}{step.place}")
        return [found[r][1] for r in step.group]

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

    def readers(self, step: Step, own: Sequence[Bytes]) -> Sequence[Read] | None:
        """See `World.readers`."""
        def reader(buffers: Sequence[Bytes]) -> Read:
            def read(which: int, start: int, out: Bytes) -> None:
                out[:] = buffers[which][start : start + out.size]

            return read

        return [reader(buffers) for buffers in self._exchange(step, own)]

    def meet(self, step: Step) -> None:
        """See `World.meet`."""
        self._exchange(step, None)

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


def run_ranks(size: int, function: Callable[[int], Any]) -> list[Any]:
    """Call `function(rank)` on `size` threads that are the ranks of one world.

    Returns:
        What each returned, by rank.

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
