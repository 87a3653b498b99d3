"""Copies of large arrays by as many threads as compiled code uses.

One thread does not use up the bandwidth of a memory, and where the target is fresh it also waits
for each page: half a gigabyte of weights took it a third of a second.
"""

from __future__ import annotations

import threading
from itertools import pairwise

import numpy as np

from .dtypes import Array
from .loader import num_threads
from .platform import started

LARGE = 2 << 20  # A copy repays one more thread for each multiple of this number of bytes
_MOST = 8  # Threads: few saturate any memory


def copy_array(to: Array, given: Array) -> None:
    """`np.copyto(to, given, casting="unsafe")` of arrays of one shape."""
    count = min(to.nbytes // LARGE, _MOST)
    if count > 1:
        count = min(count, num_threads())
    if count < 2 or not _is_plain(to, given):
        np.copyto(to, given, casting="unsafe")
        return
    left, right = to.reshape(-1), given.reshape(-1)
    cuts = [left.size * i // count for i in range(count + 1)]
    parts = [(left[lo:hi], right[lo:hi]) for lo, hi in pairwise(cuts)]
    threads: list[threading.Thread] = []
    try:
        for part in parts[1:]:
            thread = threading.Thread(target=np.copyto, args=part)
            if not started(thread):
                break  # this one does the rest
            threads.append(thread)
        for part in (parts[0], *parts[1 + len(threads) :]):
            np.copyto(*part)
    finally:
        for thread in threads:
            thread.join()


def _is_plain(to: Array, given: Array) -> bool:
    """Whether a copy moves bytes from one place to another one."""
    return (to.dtype == given.dtype and to.shape == given.shape and to.flags.c_contiguous
            and given.flags.c_contiguous and not np.may_share_memory(to, given))
