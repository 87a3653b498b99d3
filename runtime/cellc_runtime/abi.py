"""The binary interface between an image's code and the runtime that maps it.

An image reaches everything outside itself through one table of pointers, `cellc_ext`, whose
entries have fixed places. `ABI_VERSION` changes whenever a place or a meaning changes; it is
part of every program, and a program of another version is refused.
"""

from __future__ import annotations

from enum import IntEnum

ABI_VERSION = 12


class Ext(IntEnum):
    """Places in the external table. An entry the platform lacks is null."""

    PARALLEL_FOR = 0
    """`void (ptr fn, ptr bufs, i64 ntasks, i64 grain)`: the process's one thread pool."""
    PTHREAD_CREATE = 1
    THREAD_ATTR = 2  # A `pthread_attr_t*` (detached, a known stack size), not a function
    SYSCALL = 3
    FUTEX_NUMBER = 4  # The number of the futex system call, not a pointer
    ULOCK_WAIT = 5
    ULOCK_WAKE = 6
    SCHED_YIELD = 7
    NANOSLEEP = 8
    GETPID = 9
    MEMCPY = 10
    MEMMOVE = 11
    MEMSET = 12
    MALLOC = 13
    FREE = 14
    REALLOC = 15
    CAPSULE_GET_POINTER = 16
    VECTORCALL = 17
    CALL_NO_ARGS = 18
    CALL_ONE_ARG = 19
    TUPLE_NEW = 20
    TUPLE_SET_ITEM = 21
    INC_REF = 22
    DEC_REF = 23
    SAVE_THREAD = 24
    RESTORE_THREAD = 25
    LONG_FROM_LONG = 26
    NEW_FROM_DESCR = 27  # numpy's `PyArray_NewFromDescr`
    LONG_AS_VOID_PTR = 28
    SET_HANDLER = 29  # numpy's `PyDataMem_SetHandler`
    DATA_HANDLER = 30
    """The `PyDataMem_Handler` capsule of large results, not a function; null: numpy's own."""
    MADVISE = 31
    GENERIC_ALLOC = 32
    LIST_APPEND = 33
    RICH_COMPARE_BOOL = 34
    THREAD_STATE_GET = 35
    TUPLE_GET_ITEM = 36
    ERR_CLEAR = 37
    DEVICE_STREAM = 38  # The stream on which a device does what a program launches, not a function
    DEVICE_LAUNCH = 39  # `cuLaunchKernel`, or what stands for it
    DEVICE_COPY = 40
    """`cuMemcpyAsync`: `i32 (ptr to, ptr source, i64 nbytes, ptr stream)`, from and to the memory
    of device or host."""
    DEVICE_WAIT = 41  # `cuStreamSynchronize`: `i32 (ptr stream)`
    DEVICE_TENSOR_MAP = 42
    """`cuTensorMapEncodeTiled`, or what stands for it; null where a device has no such maps."""
    DEVICE_FAULT = 43
    """Results of checks, in the device's memory: an i64 number of the first that failed (0: none),
    read by kernels that write state, and from `FAULT_PARTS` on room for positions."""
    DEVICE_FAULT_SEEN = 44
    """The same where the host reads it: an i64 number, and the address of the arena of the call."""
    DEVICE_GRAPH = 45  # `cuGraphLaunch`: `i32 (ptr graph, ptr stream)`
    DEVICE_PARTS = 46
    """The graphs of the parts of `PARTS` for the addresses of this call, by number: null where a
    part is launched kernel by kernel."""


FIRST_CALLBACK = 48
"""Host callback `i` of a program is table entry `FIRST_CALLBACK + i`:
`i32 (ptr bufs)`, nonzero when the host raised (main then returns `CALLBACK_FAILED`)."""

CALLBACK_FAILED = -1  # The result of `cellc_main` after a callback returned nonzero

BY_HOST = 2
"""The result of a callback that cannot put a collective on its stream: the host does it instead. (A
program on a device asked, with the device's pointers and then the stream.) For the host's turn, the
pointers are the host's, followed by null."""

DEVICE_FAILED = -2
"""The result of `cellc_main` after a function of the device returned nonzero; `Device.wait` raises
the error."""

CHECK_FAILED = -3
"""The result of `cellc_main` when it has waited and a check on the device has failed, its own or an
earlier one; `Device.wait` raises it."""

FAULT_PARTS = 64  # Bytes before the positions that the blocks of a check give, i64 each
MOST_FAULT_PARTS = 1024
FAULT_BYTES = FAULT_PARTS + 8 * MOST_FAULT_PARTS

MAIN = "cellc_main"
PRECOMPUTE = "cellc_ahead"
"""The function that runs when parameters are bound: as `cellc_main`, with an arena of its own, and
the number of the precomputed block that it fills."""
PARTS = "cellc_parts"
"""The launches of a device's program between two waits: as `cellc_main`, with the number of the
part; a part after the last launches nothing."""
MOST_PARTS = 256
WIN64 = "_win64"
"""Ending of the names of `MAIN` and `PRECOMPUTE` under the calling convention of Windows."""
ENTRY = "cellc_entry"
SITE = "cellc_site"
WORDS = "cellc_words"
POOL_RUN = "cellc_pool_run"
POOL_CONFIGURE = "cellc_pool_configure"
BLOCK_FUNCTIONS = tuple(f"cellc_block_{n}" for n in ("malloc", "calloc", "realloc", "free"))
"""The allocator of large results, in the order of numpy's `PyDataMemAllocator`."""
BLOCK_LIMITS = "cellc_block_limits"
BLOCK_BYTES = "cellc_block_bytes"
TABLE = "cellc_ext"

LARGE = 1 << 16
"""Bytes of an output from which on it begins at a multiple of 64 bytes, and from which on its
memory is worth keeping."""

MAX_CALLBACKS = 4096
MAX_KERNELS = 1 << 15
"""Kernels of a device that a program launches: kernel `i` follows the callbacks in the table, as a
handle that `DEVICE_LAUNCH` takes."""


def fields_of(*groups: str) -> tuple[tuple[str, str], ...]:
    """`(field, kind)` of groups like `"i64 nargs nouts"`."""
    parts = [group.split() for group in groups]
    return tuple((name, kind) for kind, *names in parts for name in names)


STRUCTURES = {
    # A native entry: functions and objects, counts, tables, the list of free blocks; whether sizes
    # come with the call, and from how many elements on a result is too large for that.
    "context": fields_of(
        "ptr main slow fail grow ndarray bound consts",
        "i64 nargs nouts nslots release ready naliases nwritten",
        "ptr args outs template aliases written free", "i64 sized limit"),
    # An argument or output (`ndim` -1: any). Where sizes come with the call, `nbytes` is how an
    # argument lies over the result, or the size of an element of the result.
    "spec": fields_of("ptr descr dims", "i64 ndim flags slot nbytes"),
    # The memory of one call.
    "block": fields_of("ptr next slots arena results"),
    # Flags that make calls unusual, and the tape of the thread that records.
    "state": fields_of("i64 busy", "ptr tape thread", "i64 weights_version"),
    # `slow` answers calls that fit no case, `plain` those that are not usual.
    "site": fields_of("ptr state slow plain ndarray tensor parameter", "i64 offset", "ptr table",
                    "i64 mask", "ptr guard", "i64 wanted"),
    # A usual call; `sized`: the entry serves any shapes; `again`: `plain` repeats a call that
    # fails. While a thread records, another function may answer (null: `plain` does), which gives
    # what is recorded, a tuple; the result is its item `pick` (-1: all of it).
    "case": fields_of("ptr next", "i64 nargs", "ptr kwnames", "i64 total",
                    "ptr arguments function capsule entry", "i64 noperands", "ptr info params",
                    "i64 nparams weights_version sized nouts again",
                    "ptr tape_function tape_capsule tape_entry", "i64 tape_nouts pick",
                    "ptr words", "i64 nwords"),
    # Words of memory that have to be what they were: where, which bits count, what they are.
    "word": fields_of("ptr at", "i64 mask value"),
    "words": fields_of("ptr words", "i64 count"),
    # kind: 0 the object, 1 a tensor, 2 an equal value, 3 a tensor of any shape, 4 a float of the
    # same bits, 5 a tuple, 6 a list, 7 a slice; place among the operands or -1; object, element
    # type or type; number of axes or items; dims, array or arguments.
    "argument": fields_of("i64 kind place", "ptr object", "i64 ndim", "ptr more tensor"),
    # numpy's `PyArrayObject`.
    "array": fields_of("i64 refcnt", "ptr type data", "i32 nd", "ptr dims strides base descr",
                     "i32 flags"),
}  # fmt: skip
"""The structures that generated code and the runtime share: fields in order, with their kind."""

EMULATOR_STRUCTURES = {
    # A thread of an emulated kernel. The first three are what kernels read; then what it waits for,
    # what it gives the other lanes, and its asynchronous copies and (of a warp: its first lane's)
    # products.
    "thread": (("tid", "i32"), ("block", "i32"), ("shared", "ptr"), ("launch", "ptr"),
               ("stack", "ptr"), ("state", "i32"), ("count", "i32"), ("given", "[2 x i32]"),
               ("barriers", "i32"), ("meetings", "i32"),
               ("barrier", "i32"), ("expected", "i32"), ("operation", "ptr"), ("data", "ptr"),
               *fields_of("i64 copies groups stores products product_groups fenced")),
    # A launch: the stack of whoever launched, the kernel and its pointers, its threads, shared
    # memory and what is under way; the order of threads, the first error, whether a round moved.
    "launch": fields_of("ptr host code given threads stacks shared stream queues",
                      "i64 count number bytes bulk seed random error progress"),
    # The emulated stream: the first error since the last query, the order of threads, the number of
    # launches, the memory that blocks share in turn, and the records of accesses with their
    # capacity.
    "emulator": fields_of("i64 error seed launches", "ptr shared records", "i64 capacity used"),
    # An access of a checked kernel: `what` is its bytes, 1 << 16 for a write, and the number of
    # the instruction in the upper half.
    "access": fields_of("i64 address what", "i32 tid block barriers meetings launch pad"),
}
"""Those of the emulator of GPUs (`cellc_compiler.backends.cuda.emulator`)."""
EMULATED_SHARED = 227 << 10  # Bytes of shared memory that a block may have
