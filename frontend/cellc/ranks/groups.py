"""Groups of ranks by name, and how a process becomes one of several."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from cellc_runtime.lazy import lazy_imports
from cellc_runtime.loader import num_threads
from cellc_runtime.world import enter, leave, world

from ..context import OPTIONS
from ..core.declared import INT, instance
from ..core.invalidation import changed

with lazy_imports(__name__):  # one process does without it
    from cellc_runtime.cuda import on_stream

HCCL_WORLD_COMM_GROUP = "hccl_world_group"
NCCL_WORLD_COMM_GROUP = "nccl_world_group"
MCCL_WORLD_COMM_GROUP = "mccl_world_group"
WORLD_NAMES = (HCCL_WORLD_COMM_GROUP, NCCL_WORLD_COMM_GROUP, MCCL_WORLD_COMM_GROUP)
"""Names of the group of all, by the library that connects them: they mean the same here."""
_COUNTS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "RANK_SIZE", "MS_WORKER_NUM",
           "WORLD_SIZE")
_BY_MPI = _COUNTS[:3]


class GroupError(RuntimeError, ValueError):
    """A group that there is not, or a rank that is not in it: of MindSpore's kind, RuntimeError,
    and a ValueError, as other arguments that are none of the choices."""


def started() -> tuple[int, str]:
    """How many processes a launcher started, and which variable says so."""
    for name in _COUNTS:
        count = os.environ.get(name, "")
        if count.isdigit() and int(count) > 1:
            return int(count), name
    return 1, ""


def connect(what: str) -> None:
    """Take part in the world that a launcher started; alone without one."""
    count, name = started()
    if count > 1 and world().size == 1:
        if name not in _BY_MPI:
            raise RuntimeError(
                f"For '{what}', {name}={count} says that {count} processes take part, but they "
                "were not started by MPI: start the script with `mpirun -n "
                f"{count} python SCRIPT` (pip install 'cellc[mpi]' brings it).")
        try:
            from cellc_runtime.mpi import MpiWorld  # it loads MPI, which one process does without
            with _patient(what):
                made = MpiWorld(lambda: num_threads() == 1)
        except ImportError as e:
            raise RuntimeError(
                f"For '{what}', {name}={count} says that {count} processes take part, but mpi4py "
                f"cannot be imported ({e}): pip install 'cellc[mpi]'.") from e
        enter(made)
        if (why := on_stream.connect()) and made.rank == 0:
            sys.stderr.write(f"cellc: what ranks exchange goes through the host's memory, not "
                             f"between GPUs: {why}\n")
        # As MindSpore's launchers set them; scripts ask for them.
        os.environ.setdefault("RANK_ID", str(made.rank))
        os.environ.setdefault("RANK_SIZE", str(made.size))
        _end_all_with_one(made)
    changed(OPTIONS, "ranks")


@contextmanager
def _patient(what: str) -> Iterator[None]:
    """End this process if the others do not come within the seconds of `MS_TOPO_TIMEOUT`, which
    `msrun --cluster_time_out` sets: MPI itself waits for ever."""
    text = os.environ.get("MS_TOPO_TIMEOUT", "")
    if not text.isdigit():
        yield
        return

    def end() -> None:
        sys.stderr.write(f"{what}: after {text} s (--cluster_time_out) not all processes have come "
                         "to it\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)  # MPI's call hears nothing else

    timer = threading.Timer(int(text), end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def disconnect() -> None:
    """Leave the world; the groups made in it end."""
    world().groups.clear()
    on_stream.disconnect()
    leave()
    changed(OPTIONS, "ranks")


def _end_all_with_one(made: Any) -> None:
    """An exception that nobody catches ends all ranks: they would wait for this one."""
    shown = sys.excepthook

    def end(kind: type[BaseException], error: BaseException, tb: TracebackType | None) -> None:
        if world() is made and not issubclass(kind, KeyboardInterrupt):
            lines = "".join(traceback.format_exception(kind, error, tb))
            sys.stderr.write("".join(f"rank {made.rank}: {line}\n" for line in lines.splitlines()))
            sys.stderr.flush()
            made.abort()
        shown(kind, error, tb)

    def ended(number: int, frame: Any) -> None:  # by the launcher: another rank has died
        if made.waiting:
            sys.stderr.write(f"rank {made.rank}: ended while it waited in {made.waiting}\n")
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    sys.excepthook = end
    if threading.current_thread() is threading.main_thread() and \
            signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, ended)


def ranks_of(group: Any, what: str) -> tuple[int, ...]:
    """The ranks of a group, in its order; None is the group of all. Raises GroupError if there is
    no such group."""
    if group is None:
        group = HCCL_WORLD_COMM_GROUP
    instance(str)(group, what, "group")
    here = world()
    if group in WORLD_NAMES:
        return tuple(range(here.size))
    if group not in here.groups:
        raise GroupError(
            f"For '{what}', there is no group {group!r}; there are {WORLD_NAMES[-1]!r} and those "
            f"that 'create_group' made: {sorted(here.groups)}.")
    return here.groups[group]


def rank_in(group: Any, what: str) -> int:
    """This process's number in a group."""
    ranks, here = ranks_of(group, what), world().rank
    if here not in ranks:
        raise RuntimeError(f"For '{what}', rank {here} is not in the group {group!r} of the ranks "
                           f"{list(ranks)}.")
    return ranks.index(here)


def a_rank(rank: Any, name: str, what: str, ranks: Sequence[int]) -> int:
    """A rank that an argument names. Raises GroupError if it is none of these ranks."""
    found: int = INT(rank, what, name)
    if found not in ranks:
        raise GroupError(f"For '{what}', '{name}' must be one of the ranks {list(ranks)}, but got "
                         f"{found}.")
    return found


def create(group: Any, ranks: Any) -> None:
    """Name some of the ranks. All of these ranks do it; doing it again changes nothing."""
    what, here = "create_group", world()
    if not isinstance(group, str) or not isinstance(ranks, (list, tuple)):
        raise TypeError("For 'create_group', 'group' must be a string and 'rank_ids' a list, but "
                        f"got {group!r} and {ranks!r}.")
    for rank in ranks:
        a_rank(rank, "rank_ids", what, range(here.size))
    if not ranks or len(set(ranks)) != len(ranks):
        raise ValueError(f"For '{what}', 'rank_ids' must hold different ranks, but got {ranks}.")
    if group in WORLD_NAMES or here.groups.get(group, tuple(ranks)) != tuple(ranks):
        raise RuntimeError(f"For '{what}', there is a group {group!r} already: of the ranks "
                           f"{list(ranks_of(group, what))}.")
    if here.rank not in ranks:
        raise RuntimeError(f"For '{what}', rank {here.rank} is not in the group of the ranks "
                           f"{list(ranks)}: those in it make it.")
    here.groups[group] = tuple(ranks)


def destroy(group: Any) -> None:
    """End a group that `create` made."""
    ranks_of(group, "destroy_group")
    if group is None or group in WORLD_NAMES:
        raise ValueError("For 'destroy_group', the group of all processes cannot be destroyed.")
    del world().groups[group]
    changed(OPTIONS, "ranks")
