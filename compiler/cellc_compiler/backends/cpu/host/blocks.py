"""Memory of large results, as LLVM text: blocks of dead arrays serve the next ones.

A fresh block of memory from the system costs a page fault for every page that is written (a
64 MiB result: several times what a memory-bound kernel takes). So the blocks of results that
have died are kept in a short list, and a new result takes the smallest that fits with at most an
eighth to spare. numpy calls these functions through an allocator of its own for such arrays
(`PyDataMem_Handler`), so they own their memory like any other.

Three bounds limit the kept blocks: a number of blocks, `most` bytes, and the most that was ever
live at once (or `slack`, if that is more), for live and kept blocks together: keeping blocks does
not raise the peak of a process. The oldest go first.

All of this runs under the interpreter lock, as numpy's allocations do. Like the thread pool, the
copy in the first image that is loaded serves the whole process.
"""

from __future__ import annotations

from cellc_runtime.target import Target

from ...llvm.notation import read_code
from .pool import fill

KEPT_BLOCKS = 64
HEADER = 64  # Bytes before the data: where the block begins, and its capacity

_STATE = f"""
; Of each kept block: data, capacity. Ordered by age, the oldest first.
@kept.data = internal global [{KEPT_BLOCKS} x ptr] zeroinitializer, align 64
@kept.size = internal global [{KEPT_BLOCKS} x i64] zeroinitializer, align 64
@kept.count = internal global i64 0
@kept.bytes = internal global i64 0
@live.bytes = internal global i64 0
@live.peak = internal global i64 0
@limit.most = internal global i64 536870912
@limit.slack = internal global i64 134217728
"""


def blocks_text(target: Target) -> str:
    """The allocator's state and functions."""
    code = read_code(__file__, "blocks", HEADER=HEADER, PADDING=HEADER + 64, SIZE_AT=8 - HEADER,
                  KEPT_BLOCKS=KEPT_BLOCKS)
    return _STATE + fill(code, target)
