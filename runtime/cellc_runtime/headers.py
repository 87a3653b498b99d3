"""Headers that ranks exchange before the bytes of a step: its text, and readable memory.

It stands before every collective, so its requests are made once for each group and only started
each time (MPI's persistent requests).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

_TEXT = 192  # Bytes by which ranks tell each other what step they are at
_ADDRESSES = 2  # Buffers that others may read in a step
_HEADER = struct.Struct(f"={_TEXT}s{_ADDRESSES}q")


class Headers:
    """Repeated exchange of headers in a group of ranks.

    Args:
        mpi: the module `mpi4py.MPI`.
        comm: the group's communicator.
        tag: which nothing else on it has.
    """

    def __init__(self, mpi: Any, comm: Any, tag: int) -> None:
        size, self._here = comm.Get_size(), comm.Get_rank()
        self._said = memoryview(bytearray(size * _HEADER.size))
        places = [self._said[i * _HEADER.size : (i + 1) * _HEADER.size] for i in range(size)]
        self._others = [i for i in range(size) if i != self._here]
        own = [places[self._here], mpi.BYTE]
        self._received = [comm.Recv_init([places[i], mpi.BYTE], i, tag) for i in self._others]
        self._requests = [*self._received, *(comm.Send_init(own, i, tag) for i in self._others)]
        self._start, self._all = mpi.Prequest.Startall, mpi.Request.Testall

    def begin(self, text: str, addresses: Sequence[int] = ()) -> None:
        """Tell them; what was begun before is over."""
        unused = (0,) * (_ADDRESSES - len(addresses))
        _HEADER.pack_into(self._said, self._here * _HEADER.size, text.encode(), *addresses, *unused)
        self._start(self._requests)

    def over(self) -> bool:
        """Whether all have come, and what this rank says is on its way."""
        return bool(self._all(self._requests))

    def missing(self) -> list[int]:
        """Of the group's ranks, by their places in it, those that have not come."""
        return [i for i, r in zip(self._others, self._received, strict=True) if not r.Get_status()]

    def texts(self) -> list[str]:
        """Return the step that each rank of the group has reached, once the exchange is over."""
        texts = [text for text, *_ in _HEADER.iter_unpack(self._said)]
        return [t.rstrip(b"\0").decode(errors="replace") for t in texts]

    def addresses(self) -> list[tuple[int, ...]]:
        """Return the readable addresses of each rank of the group, once the exchange is over."""
        return [tuple(addresses) for _, *addresses in _HEADER.iter_unpack(self._said)]

    def free(self) -> None:
        """Give back what MPI has made for it; nothing is begun."""
        for request in self._requests:
            request.Free()
