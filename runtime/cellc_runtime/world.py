"""The processes of a run: which take part, and how bytes are sent between them.

A `World` moves bytes between ranks; what is computed of them is in `collectives.py`. There are
three: one process alone, the ranks of MPI (`mpi.py`), and threads that play ranks
(`cellc.testing`), by which programs for many ranks are tried in one process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from .errors import CollectiveError as CollectiveError
from .records import dataclass

if TYPE_CHECKING:
    from .channel import Channel
    from .meeting import Bytes, Meeting


@dataclass(frozen=True, slots=True)
class Step:
    """A collective as all ranks of its group must see it.

    Attributes:
        text: what is done on what, the same on all ranks: `"all_reduce sum float32[4,3]"`.
        group: the ranks that take part, in the group's order.
        place: where the user's code asks for it, for messages; ranks may differ in it.
    """

    text: str
    group: tuple[int, ...]
    place: str = ""


class World(Protocol):
    """The ranks that were started together, as one of them sees them.

    Every call waits until it is done. All ranks of a step's group reach the same steps in the
    same order.

    Raises:
        CollectiveError: ranks disagree about a step, or one has not reached it in time.
    """

    rank: int  # the number of this one
    size: int  # how many there are
    near: tuple[int, ...]  # the ranks on this machine
    groups: dict[str, tuple[int, ...]]  # the ranks of groups by name
    # the thread that does collectives while this rank computes; None where there is nobody to wait
    # for
    channel: Channel | None

    def all_to_all(self, step: Step, parts: Sequence[Bytes], out: Sequence[Bytes]) -> None:
        """`parts[i]` goes to the group's i-th rank, `out[i]` is what that one sends."""

    def all_gather(self, step: Step, own: Bytes, out: Sequence[Bytes]) -> None:
        """`out[i]` is what the group's i-th rank gives."""

    def broadcast(self, step: Step, root: int, buffer: Bytes) -> None:
        """The bytes of the rank `root`, of all, on each."""

    def reads(self, group: Sequence[int]) -> bool:
        """Whether the ranks of a group can read each other's memory; the same on all of them."""

    def meeting(self, step: Step, own: Sequence[Bytes]) -> Meeting:
        """Begin a step of ranks that read each other's memory; the others may read its `own`.
        Nothing is waited for."""

    def wait(self, meeting: Meeting) -> None:
        """Until a meeting is over."""

    def send(self, step: Step, to: int, tag: int, buffer: Bytes) -> None:
        """Bytes for one rank, copied: it does not wait until they are received."""

    def receive(self, step: Step, source: int, tag: int, out: Bytes) -> None:
        """Bytes of one rank, as many as `out` holds."""

    def has_left(self, rank: int) -> bool:
        """Whether a rank has said, or is known, to do nothing more with others."""

    def close(self) -> None:
        """This rank leaves."""

    def abort(self) -> None:
        """All ranks end."""


class Alone:
    """One process: what it sends to all comes back to it."""

    rank = 0
    size = 1
    near: tuple[int, ...] = (0,)
    channel: Channel | None = None

    def __init__(self) -> None:
        self.groups: dict[str, tuple[int, ...]] = {}

    def all_to_all(self, step: Step, parts: Sequence[Bytes], out: Sequence[Bytes]) -> None:
        out[0][:] = parts[0]

    def all_gather(self, step: Step, own: Bytes, out: Sequence[Bytes]) -> None:
        out[0][:] = own

    def broadcast(self, step: Step, root: int, buffer: Bytes) -> None:
        """It is there."""

    def reads(self, group: Sequence[int]) -> bool:
        """There is nobody."""
        return False

    def meeting(self, step: Step, own: Sequence[Bytes]) -> Meeting:
        """There is nobody."""
        raise CollectiveError(f"{step.text}: one process runs")

    def wait(self, meeting: Meeting) -> None:
        """There is nobody."""

    def send(self, step: Step, to: int, tag: int, buffer: Bytes) -> None:
        """There is nobody."""
        raise CollectiveError(f"{step.text}: to rank {to}, but one process runs")

    def receive(self, step: Step, source: int, tag: int, out: Bytes) -> None:
        """There is nobody."""
        raise CollectiveError(f"{step.text}: from rank {source}, but one process runs")

    def has_left(self, rank: int) -> bool:
        """There is nobody."""
        return False

    def close(self) -> None:
        """Nothing is held."""

    def abort(self) -> None:
        """An error ends the process by itself."""


class Planned(Alone):
    """The first of ranks that are not there, so that what it would need can be seen.

    It takes its own data for those of the other ranks: shapes are right, values are not.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.near = tuple(range(size))

    def all_to_all(self, step: Step, parts: Sequence[Bytes], out: Sequence[Bytes]) -> None:
        own = parts[step.group.index(0)]
        for place in out:
            place[:] = own if own.size == place.size else 0

    def all_gather(self, step: Step, own: Bytes, out: Sequence[Bytes]) -> None:
        for place in out:
            place[:] = own

    def send(self, step: Step, to: int, tag: int, buffer: Bytes) -> None:
        """Nobody takes it."""

    def receive(self, step: Step, source: int, tag: int, out: Bytes) -> None:
        """Zeros come."""
        out[:] = 0


_alone = Alone()
_process: World = _alone
_own: ContextVar[World | None] = ContextVar("world", default=None)


def world() -> World:
    """The world of this thread: that of the process, but in `playing`."""
    return _own.get() or _process


def place_on_machine() -> int:
    """This process's number among those of its world on this machine; before it takes part in one,
    as the launcher says it; 0 where there is neither."""
    here = world()
    if here.size > 1:
        return here.near.index(here.rank) if here.rank in here.near else 0
    said = (os.environ.get(name, "") for name in _LOCAL_RANKS)
    return next((int(text) for text in said if text.isdecimal()), 0)


_LOCAL_RANKS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
"""Where Open MPI, MPICH (and those made of it) and Slurm say it."""


def enter(made: World) -> None:
    """The process takes part in a world."""
    global _process
    _process = made


def leave() -> None:
    """The process is alone again."""
    global _process
    made, _process = _process, _alone
    made.close()


@contextmanager
def playing(made: World) -> Iterator[None]:
    """This thread takes part in another world than the process."""
    token = _own.set(made)
    try:
        yield
    finally:
        _own.reset(token)


def member(step: Step) -> int:
    """This rank's place in a step's group. Raises CollectiveError if it is not in it."""
    here = world().rank
    if here not in step.group:
        raise CollectiveError(
            f"{step.text}: rank {here} is not in the group of the ranks {list(step.group)}")
    return step.group.index(here)


def disagreement(group: Sequence[int], said: Sequence[str]) -> str | None:
    """Describe ranks that reached different steps; None: they agree."""
    if len(set(said)) == 1:
        return None
    ranks: dict[str, list[int]] = {}
    for rank, text in zip(group, said, strict=True):
        ranks.setdefault(text, []).append(rank)
    parts = [f"rank{'s' * (len(r) > 1)} {', '.join(map(str, r))} at {text}"
             for text, r in ranks.items()]
    return (f"collective mismatch: {'; '.join(parts)}. All ranks of a group must come to the same "
            "collectives in the same order, with the same types and shapes")
