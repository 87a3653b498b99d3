"""The C interface of a compiled network: one for all networks, with a version.

`ABI` changes when a structure, a code or the meaning of a function changes. New functions go to the
end of `library`, and leave it as it is.
"""

from __future__ import annotations

from enum import IntEnum

from cellc_runtime import dtypes
from cellc_runtime.abi import Ext, fields_of
from cellc_runtime.dtypes import DType

ABI = 1
MAX_NDIM = 8
TEXT = 1016  # Bytes of the text of an error, with the zero at its end


class NotInC(ValueError):
    """A network that a library cannot hold; the text says why."""


class Code(IntEnum):
    """Results of the functions; `MEANINGS` explains them."""

    OK = 0
    ARGUMENT = 1
    DTYPE = 2
    SHAPE = 3
    BUFFER = 4
    SIZES = 5
    MEMORY = 6
    PROCESSOR = 7
    WEIGHTS = 8
    FILE = 9
    RUN = 10
    BUSY = 11
    ABI = 12


MEANINGS = {
    Code.OK: "done",
    Code.ARGUMENT: "a null pointer, another library's session, an unknown entry or name, or a "
                   "wrong number of arguments",
    Code.DTYPE: "a tensor of another element type",
    Code.SHAPE: "a tensor of another shape, or not contiguous",
    Code.BUFFER: "a buffer that is too short, missing, not aligned, or shared with another one",
    Code.SIZES: "sizes that no program serves",
    Code.MEMORY: "the system gives no memory",
    Code.PROCESSOR: "the library has no code for this processor",
    Code.WEIGHTS: "no weights, or those of another network",
    Code.FILE: "a file cannot be read or written",
    Code.RUN: "the network stopped with an error, as an index out of range, or "
              "the executor left out tasks",
    Code.BUSY: "another thread is in a call of this session",
    Code.ABI: "the library has another version of this interface",
}

DTYPES: tuple[DType | None, ...] = (
    None, dtypes.bool_, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8,
    dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.float16, dtypes.bfloat16, dtypes.float32,
    dtypes.float64, dtypes.complex64, dtypes.complex128,
)
"""Element types by their numbers; 0 is none."""


def code_of(dtype: DType) -> int:
    """The number of an element type."""
    return DTYPES.index(dtype)


STRUCTURES = {
    # Of the interface: the header has the same.
    "error": (*fields_of("i32 code length"), ("text", f"[{TEXT} x i8]")),
    "tensor": (*fields_of("ptr data", "i64 nbytes", "i32 dtype ndim"),
               ("shape", f"[{MAX_NDIM} x i64]")),
    "size": fields_of("ptr name", "i64 least most"),
    "argument": fields_of("ptr name type shape sizes", "i32 dtype ndim written reserved"),
    "entry": fields_of("ptr name served inputs outputs sizes",
                     "i32 ninputs noutputs nsizes updates"),
    "weight": fields_of("ptr name shape", "i64 nbytes", "i32 dtype ndim updated reserved"),
    "options": fields_of("ptr weights", "i32 threads reserved"),
    "library": fields_of(
        "i32 abi nentries nweights embedded", "ptr name target version hash entries weights",
        "ptr create destroy reset clone find measure run run_dlpack weight save",
        "ptr set_threads set_executor"),
    # DLPack's `DLTensor`.
    "dltensor": fields_of("ptr data", "i32 device device_id ndim", "i8 code bits", "i16 lanes",
                        "ptr shape strides", "i64 offset"),
    # The network, as the functions see it: counts, places in the memory of a session, the head of
    # its file of weights, and what CPUID must say.
    "net": fields_of(
        "ptr library plans programs blocks weights head data targets",
        "i64 nprograms nblocks nweights head_bytes file_bytes session_bytes base_bytes",
        "i64 weights_at versions_at pointers_at tensors_at npointers",
        "i64 leaf1 leaf7 states"),
    # Of an entry: texts of what its arguments must be, and what serves which sizes.
    "plan": fields_of("ptr must variants", "i64 nvariants"),
    # kind: 0 for one choice of sizes, 1 for all sizes, 2 for a batch of any size.
    "variant": fields_of("ptr at programs ranges batches",
                       "i64 kind nprograms nranges batch first"),
    "program": fields_of(
        "ptr main ahead constants slots shapes messages open kept updated",
        "i64 nslots arena ahead_bytes nkept nupdated nmessages slots_at state_at"),
    # kind: 0 input, 1 output, 2 weight, 3 the slot that it writes over, 4 precomputed block.
    "slot": fields_of("i64 kind number nbytes"),
    # How a program follows from sizes: programs of numbers (`numbers`), and places in a session.
    "open": fields_of(
        "ptr bounds guards arena below table scalars rows outputs",
        "i64 nsizes nguards narena ntable table_at nscalars noutputs",
        "i64 sizes_at bytes_at constants_at shapes_at"),
    # A precomputed block: what fills it, where it is (in the session, or shared), the weights that
    # it follows from.
    "block": fields_of("ptr program weights", "i64 part at shared seen_at nweights"),
    "held": fields_of("i64 offset own_at"),
    "message": fields_of("ptr pieces shown kind where", "i64 npieces"),
    "piece": fields_of("ptr text", "i64 value"),
    "shown": fields_of("ptr code", "i64 dtype ndim count place"),
    # The memory of a session, which its arrays follow; of a program in it; of what is shared. The
    # owner is `@cellc_net` of the library while the session is not destroyed.
    "session": fields_of("ptr base weights versions pointers tensors bounce",
                       "i64 busy bounce_bytes", "ptr owner"),
    "state": fields_of("ptr arena", "i64 capacity ready need"),
    "base": fields_of("ptr data map", "i64 map_bytes references"),
    # The tasks of a kernel for the caller's executor: how many of them are done.
    "tasks": fields_of("ptr function arguments", "i64 count done"),
}  # fmt: skip
"""The structures of the interface and of its functions: fields in order, with kinds."""

_MEMBERS = [name for name, _ in STRUCTURES["library"]]
FUNCTIONS = tuple(_MEMBERS[_MEMBERS.index("create"):])
"""The functions of the table, each of which is `cellc_NAME` inside."""

TABLE: dict[Ext, str] = {
    Ext.PARALLEL_FOR: "cellc_shared_out", Ext.PTHREAD_CREATE: "libc.pthread_create",
    Ext.THREAD_ATTR: "cellc_thread_attributes", Ext.SYSCALL: "libc.syscall",
    Ext.NANOSLEEP: "libc.nanosleep", Ext.GETPID: "libc.getpid", Ext.MEMCPY: "libc.memcpy",
    Ext.MEMMOVE: "libc.memmove", Ext.MEMSET: "libc.memset",
}
"""The entries of the external table that compiled code needs here."""
FUTEX = {"x86_64": 202, "aarch64": 98}
STAT = {"x86_64": (262, 6), "aarch64": (79, 4)}
"""The system call `newfstatat`, and which 32 bits of its answer are type and permissions."""

_SYSTEM = (
    "posix_memalign free memcpy memset memcmp strcmp sched_getaffinity sched_yield "
    "pthread_attr_init pthread_attr_setdetachstate pthread_attr_setstacksize open close lseek mmap "
    "munmap write fsync rename unlink realpath syscall getpid getenv __errno_location strerror "
    "snprintf strtod pow"
)
LIBC = tuple(_SYSTEM.split())
"""Functions of the C library that the code calls, through a table of its own."""
POW = LIBC[-1]  # The one that is in a library of its own, libm: it is there where sizes need it
