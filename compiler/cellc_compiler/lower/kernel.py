"""A kernel: code over a fixed number of independent tasks.

It is called with the addresses of its buffers (inputs, then outputs, then scratch) and with `lo`
and `hi`, and does the tasks `lo..hi-1`. The number of tasks follows from shapes and target alone,
so results depend neither on the number of threads nor on which thread did which task. The form of
the code is the back end's own business.
"""

from __future__ import annotations

from typing import Any

from cellc_runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel, with what is needed to call it."""

    code: Any  # what the back end builds; hashable, and equal codes do the same
    ntasks: int  # number of independent tasks
    buffers: int  # number of pointers in `bufs`
    cost: float  # estimated cycles of the whole kernel on one core
    # the words of `bufs` after the pointers. Kernels that are not worth a text for each size read
    # their sizes there, so that many calls share one.
    numbers: tuple[int, ...] = ()

    @property
    def key(self) -> tuple[Any, tuple[int, ...]]:
        """Return a key that distinguishes kernels with different work."""
        return self.code, self.numbers
