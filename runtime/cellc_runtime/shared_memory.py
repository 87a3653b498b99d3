"""Memory that the ranks on one machine share, by MPI's windows."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .world import Bytes

_BACKED_BY = "/dev/shm"


class SharedMemory:
    """A window of each rank of a communicator, which all of them read.

    Args:
        mpi: `mpi4py.MPI`.
        comm: ranks on one machine, all of which make it.
        nbytes: of each rank.

    Attributes:
        windows: by rank.
    """

    def __init__(self, mpi: Any, comm: Any, nbytes: int) -> None:
        self._window = mpi.Win.Allocate_shared(nbytes, 1, comm=comm)
        self._window.Lock_all(mpi.MODE_NOCHECK)
        self.windows: list[Bytes] = [
            np.frombuffer(self._window.Shared_query(rank)[0], np.uint8, nbytes)
            for rank in range(comm.Get_size())]

    def sync(self) -> None:
        """What others have written before they met is seen, and they see what is written here."""
        self._window.Sync()

    def free(self) -> None:
        """All ranks give it back."""
        self.windows.clear()
        self._window.Unlock_all()
        self._window.Free()


def shared_memory(mpi: Any, comm: Any, nbytes: int) -> SharedMemory | None:
    """The memory that the ranks of a communicator share; None, for all, where it has no room."""
    room = not os.path.isdir(_BACKED_BY) or _free(_BACKED_BY) > 2 * nbytes * comm.Get_size()
    return SharedMemory(mpi, comm, nbytes) if all(comm.allgather(room)) else None


def _free(folder: str) -> int:
    """Bytes; a file there that finds no room ends the process where it is written."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
