"""Reading the memory of another process on this machine.

Linux copies from one process to another without anything in between (`process_vm_readv`), and
without the other one doing anything for it. A system may forbid it (the Yama module does, but for
those that a process names; containers may), so it is tried before it is relied on.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from typing import Any

from .world import Bytes

_PR_SET_PTRACER, _ANY = 0x59616D61, ctypes.c_ulong(-1)
"""What Yama calls the processes that may read this one."""


class _Part(ctypes.Structure):
    """The system's `struct iovec`."""

    _fields_ = (("address", ctypes.c_void_p), ("nbytes", ctypes.c_size_t))


@cache
def _libc() -> Any:
    """The C library, with argument types; None where it has no such call."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    call = getattr(libc, "process_vm_readv", None)
    if call is None:
        return None
    call.restype = ctypes.c_ssize_t
    call.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p,
                     ctypes.c_ulong, ctypes.c_ulong)
    return libc


def let_read() -> None:
    """Let this user's other processes read the memory of this one, where Yama would not."""
    libc = _libc()
    if libc is not None:
        libc.prctl(_PR_SET_PTRACER, _ANY, 0, 0, 0)  # an error without Yama, which allows it anyway


def read(process: int, address: int, out: Bytes) -> None:
    """Fill `out` with the bytes at an address of another process.

    Raises:
        OSError: the system forbids it, the process has ended, or has no such memory.
    """
    libc, done = _libc(), 0
    if libc is None:
        raise OSError("this system has no way to read the memory of another process")
    while done < out.size:
        here = _Part(out.ctypes.data + done, out.size - done)
        there = _Part(address + done, out.size - done)
        got = libc.process_vm_readv(process, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        if got <= 0:
            error = ctypes.get_errno()
            raise OSError(error, f"reading the memory of process {process}: {os.strerror(error)}")
        done += got
