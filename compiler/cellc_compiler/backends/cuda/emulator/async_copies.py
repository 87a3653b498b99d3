"""Asynchronous copies and the barriers that count them.

A copy is done late: its destination holds NaN until then. Those of `cp.async` are done when their
thread waits for their group. Those of tensors (TMA) are done by the scheduler, one at a time (see
`fibers.py`), or, for a store, when its thread waits; a load then takes its bytes from what its
mbarrier still expects. A copy that nobody waited for when the block ends is an error: a GPU would
write into memory that is another's by then.

An mbarrier is 8 bytes of shared memory: the arrivals that are missing, how many it wants with its
phase below, and the bytes that copies still bring. A tensor map is what `cellc_emulated_tensor_map`
makes of the arguments of `cuTensorMapEncodeTiled`, which refuses what the driver would.
"""

from __future__ import annotations

from ...llvm.notation import read_code

THREAD_COPIES = 512  # Copies that a thread may have under way
BULK_COPIES = 256  # Copies of tensors that a block may have under way
_THREADS = 1024

STRUCTURES = {
    "copy": (("to", "ptr"), ("source", "ptr"), ("room", "i64"), ("bytes", "i64"),
             ("group", "i64")),
    # The number of its group among those of a thread, if it is a store (`barrier` is null).
    "bulk": (("map", "ptr"), ("shared", "ptr"), ("x", "i64"), ("y", "i64"), ("z", "i64"),
             ("barrier", "ptr"), ("thread", "ptr"), ("group", "i64")),
    "mbarrier": (("pending", "i16"), ("state", "i16"), ("bytes", "i32")),
    "map": (("base", "ptr"), ("itemsize", "i64"), ("size0", "i64"), ("size1", "i64"),
            ("size2", "i64"), ("stride1", "i64"), ("stride2", "i64"), ("box0", "i64"),
            ("box1", "i64"), ("swizzled", "i64")),
}
_COPY_BYTES, _BULK_BYTES = 40, 64

COPIES_AT = 0
BULK_AT = COPIES_AT + _THREADS * THREAD_COPIES * _COPY_BYTES
COPIES_END = BULK_AT + BULK_COPIES * _BULK_BYTES  # Where in a launch's queues they lie


def copies_code() -> str:
    """The functions, in the notation of the host's."""
    return read_code(__file__, "async_copies", THREAD_COPIES=THREAD_COPIES, BULK_COPIES=BULK_COPIES,
                  COPY_BYTES=_COPY_BYTES, BULK_BYTES=_BULK_BYTES, COPIES_AT=COPIES_AT,
                  BULK_AT=BULK_AT)
