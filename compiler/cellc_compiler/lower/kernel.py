"""A kernel: one LLVM function over a fixed number of tasks.

The ABI is `define hidden void @KERNEL(ptr %bufs, i64 %lo, i64 %hi)`: `bufs` points to the data
pointers of the kernel's buffers (inputs, then outputs, then scratch), and the call does the
tasks `lo..hi-1`. The number of tasks follows from shapes and target alone, so results depend
neither on the number of threads nor on which thread did which task.
"""

from __future__ import annotations

from cellc_runtime.records import dataclass

PLACEHOLDER = "KERNEL"
"""The name a kernel's function carries in its text; equal text means equal kernel."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """LLVM text of one kernel, with what is needed to call it.

    Attributes:
        body: definitions, declarations and globals; the entry is called `@KERNEL`.
        ntasks: number of independent tasks.
        buffers: number of pointers in `bufs`.
        cost: estimated cycles of the whole kernel on one core.
        numbers: what `bufs` holds behind the pointers. Kernels that are not worth a text for each
            size read their sizes there, so that many calls share one.
    """

    body: str
    ntasks: int
    buffers: int
    cost: float
    numbers: tuple[int, ...] = ()

    @property
    def does(self) -> tuple[str, tuple[int, ...]]:
        """What tells it from kernels that do something else."""
        return self.body, self.numbers
