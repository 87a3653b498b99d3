"""The only module that knows the operating system, but for `activity`, which reads what Linux shows
of what processes do.

Linux is complete and tested. macOS (arm64: the images are ELF code, which the calling
convention of fixed-argument functions allows) and Windows (main only, through a thunk of its
own calling convention, without threads) follow their documentation.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import platform as _platform
import stat
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from .abi import Ext
from .lazy import fcntl, pathlib

if TYPE_CHECKING:
    import threading

_PROT_READ, _PROT_WRITE, _PROT_EXEC = 1, 2, 4
_MAP_PRIVATE = 0x2
_DONTNEED = 4
_MAP_ANONYMOUS = 0x1000 if sys.platform == "darwin" else 0x20
_THREAD_STACK = 8 << 20
"""Bytes of stack of a pool thread: kernels may keep 256 KiB there, musl's default is 128 KiB."""
HUGE = 4 << 20
"""Bytes from which on memory is requested in huge pages: beyond its second-level cache a core of a
virtual machine read 24 GB/s of huge pages and 6 GB/s of pages of 4 KiB."""
_HUGE_PAGE = 2 << 20
_SLAB = 32 << 20
_ARCH_PRCTL, _REQUEST_STATE, _TILE_DATA = 158, 0x1023, 18
"""The system call that asks for a part of the processor's state, and the tiles' number."""
_PR_SET_PTRACER, _ANY, _NONE = 0x59616D61, ctypes.c_ulong(-1), ctypes.c_ulong(0)
"""Names of Yama, a module of Linux, for the processes that may debug this one."""
_FUTEX = {"x86_64": 202, "aarch64": 98}
_DARWIN_FEATURES = {
    "hw.optional.avx2_0": "avx2", "hw.optional.fma": "fma", "hw.optional.f16c": "f16c",
    "hw.optional.bmi1": "bmi1", "hw.optional.bmi2": "bmi2", "hw.optional.avx512f": "avx512f",
    "hw.optional.avx512bw": "avx512bw", "hw.optional.avx512cd": "avx512cd",
    "hw.optional.avx512dq": "avx512dq", "hw.optional.avx512vl": "avx512vl",
    "hw.optional.arm64": "asimd", "hw.optional.neon": "asimd",
}  # fmt: skip
_WINDOWS_FEATURES = {40: frozenset({"avx2", "fma", "f16c", "bmi1", "bmi2"}),
                     41: frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
                     19: frozenset({"asimd"})}  # fmt: skip


def machine() -> str:
    """`x86_64` or `aarch64` (Apple's and Windows' names for them are mapped to these)."""
    name = _platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def listed_features() -> frozenset[str] | None:
    """The processor's features as the system lists them, by their Linux names; None where it does
    not. See `processor.features` for what this process may use."""
    if sys.platform == "darwin":
        return _darwin_features()
    if sys.platform == "win32":
        return _windows_features()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
            for line in f:
                key, _, value = line.partition(":")
                if key.strip() == "flags":
                    return frozenset(value.split())
    except OSError:
        pass
    return None


def _darwin_features() -> frozenset[str]:
    libc = ctypes.CDLL(None)
    found = set()
    for name, feature in _DARWIN_FEATURES.items():
        value, size = ctypes.c_int(0), ctypes.c_size_t(4)
        failed = libc.sysctlbyname(
            name.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0)
        )
        if not failed and value.value:
            found.add(feature)
    return frozenset(found)


def _windows_features() -> frozenset[str]:
    # IsProcessorFeaturePresent knows AVX2 (40) and AVX-512F (41) but not what comes with them;
    # every processor sold with the one has the rest of its set.
    present = ctypes.CDLL("kernel32").IsProcessorFeaturePresent
    return frozenset().union(*(f for n, f in _WINDOWS_FEATURES.items() if present(n)))


@cache
def allow_tiles() -> bool:
    """Ask the system to let this process use AMX's tile registers; whether it does.

    Linux grants them on request only, because they make the frames of signal handlers larger. The
    permission holds for all threads, and after a fork.
    """
    if sys.platform != "linux" or machine() != "x86_64":
        return False
    syscall = ctypes.CDLL(None).syscall
    syscall.argtypes = [ctypes.c_long] * 3
    return int(syscall(_ARCH_PRCTL, _REQUEST_STATE, _TILE_DATA)) == 0


# --- files -----------------------------------------------------------------------------------


def is_halted(process: int) -> bool | None:
    """Whether a process of this machine is stopped (by a signal or a debugger) or has ended; None
    where that cannot be known."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split()[0]
    except OSError:
        return None
    return state in (b"T", b"t", b"Z", b"X")


def cache_home() -> pathlib.Path:
    """Where this user's caches live."""
    if sys.platform == "win32":
        given = os.environ.get("LOCALAPPDATA")
        return pathlib.Path(given or pathlib.Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return pathlib.Path.home() / "Library" / "Caches"
    named = os.environ.get("XDG_CACHE_HOME", "")
    return pathlib.Path(named) if os.path.isabs(named) else pathlib.Path.home() / ".cache"


_LINKS = 40  # How many symbolic links a path may have, as Linux counts them


def open_private_directory(path: pathlib.Path) -> int | None:
    """A descriptor of a directory of this user's that nobody else can write or replace.

    Every directory above it is opened in turn and checked: it belongs to this user or the system,
    and others cannot rename what is in it. So the result stays that directory, whatever happens to
    the path. The caller closes it. Raises OSError if there is no such directory, or somebody else
    can change it.
    """
    if sys.platform == "win32":  # access lists protect it, which a profile's folders inherit
        if not path.is_dir():
            raise NotADirectoryError(f"{path} is not a directory")
        return None
    links, names = 0, list(reversed(path.absolute().parts[1:]))
    here = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        system = (0, os.fstat(here).st_uid, os.getuid())
        while names:
            info, name = os.fstat(here), names.pop()
            if info.st_uid not in system or _others_rename_in(info):
                raise PermissionError(f"other users can change a directory above {path}")
            entry = os.stat(name, dir_fd=here, follow_symlinks=False)
            if stat.S_ISLNK(entry.st_mode):
                links += 1
                if entry.st_uid not in system or links > _LINKS:
                    raise PermissionError(f"a link to {path} is of another user")
                target = pathlib.PurePosixPath(os.readlink(name, dir_fd=here))
                names += reversed(target.parts[1:] if target.is_absolute() else target.parts)
                if not target.is_absolute():
                    continue
                name = "/"
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        info = os.fstat(here)
        if info.st_uid != os.getuid() or info.st_mode & 0o022:
            raise PermissionError(f"other users can write {path}")
    except BaseException:
        os.close(here)
        raise
    return here


def _others_rename_in(info: os.stat_result) -> bool:
    """Whether another user may rename entries of a directory. A group with the same number as its
    user is that user's own."""
    others = 0o002 if info.st_gid == info.st_uid else 0o022
    return bool(info.st_mode & others) and not info.st_mode & stat.S_ISVTX


def sync_directory(path: pathlib.Path) -> None:
    """Make a rename in `path` durable, where the system can."""
    if sys.platform == "win32":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock_directory(path: pathlib.Path) -> int | None:
    """Open a directory and lock it until the handle is closed or the process ends.

    Returns:
        The handle; None: another process has locked it, or this system cannot lock directories.
    """
    if sys.platform == "win32":
        return None
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


# --- processors ------------------------------------------------------------------------------


def usable_cpus() -> tuple[int, bool]:
    """How many processors this process may use, and whether they are its own to spin on.

    They are not when a quota grants a fraction of the time of more processors.
    """
    count = len(os.sched_getaffinity(0)) if sys.platform == "linux" else (os.cpu_count() or 1)
    quota = _cgroup_quota() if sys.platform == "linux" else None
    if quota is None or quota >= count:
        return count, True
    return max(1, math.ceil(quota)), False


_QUOTA_SECONDS = 1.0
"""How long a quota is taken to hold: it takes 0.2 ms to find, and each compilation asks twice."""
_quota: tuple[float, float | None] = (-math.inf, None)  # When the quota was found, and what it was


def _cgroup_quota() -> float | None:
    """Processors granted by the strictest cgroup above this process, or None."""
    global _quota
    now = time.monotonic()
    if now - _quota[0] > _QUOTA_SECONDS:
        _quota = now, _found_quota()
    return _quota[1]


def _found_quota(own: str = "/proc/self/cgroup", mounted: str = "/sys/fs/cgroup") -> float | None:
    """Of the groups that a file names (v2 or v1), which lie below where they are mounted."""
    root = pathlib.Path(mounted)
    try:
        with open(own, encoding="utf-8") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return None
    quotas: list[float] = []
    for parts in lines:
        if len(parts) != 3:
            continue
        _, controllers, path = parts
        names = controllers.split(",")
        if controllers == "":
            quotas += _quotas_above(root, path, _quota_v2)
        elif "cpu" in names:
            for mount in (controllers, "cpu", "cpu,cpuacct"):
                quotas += _quotas_above(root / mount, path, _quota_v1)
    return min(quotas, default=None)


def _quotas_above(
    root: pathlib.Path, path: str, read: Callable[[pathlib.Path], float | None]
) -> list[float]:
    folder = root / path.strip("/")
    found = []
    for place in (folder, *folder.parents):
        if not place.is_relative_to(root):
            break
        value = read(place)
        if value is not None:
            found.append(value)
    return found


def _quota_v2(folder: pathlib.Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _quota_v1(folder: pathlib.Path) -> float | None:
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        return quota / int((folder / "cpu.cfs_period_us").read_text()) if quota > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


# --- memory ----------------------------------------------------------------------------------


@cache
def _libc() -> ctypes.CDLL:
    name = "kernel32" if sys.platform == "win32" else None
    lib = ctypes.CDLL(name, use_errno=True)
    if sys.platform == "win32":
        lib.VirtualAlloc.restype = ctypes.c_void_p
        lib.VirtualAlloc.argtypes = (
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_ulong, ctypes.c_ulong
        )  # fmt: skip
        lib.VirtualFree.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_ulong)
        lib.VirtualProtect.argtypes = (
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_ulong, ctypes.c_void_p
        )  # fmt: skip
        return lib
    lib.mmap.restype = ctypes.c_void_p
    lib.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                         ctypes.c_int, ctypes.c_long)  # fmt: skip
    lib.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    lib.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return lib


class _Part(ctypes.Structure):
    """The system's `struct iovec`."""

    _fields_ = (("address", ctypes.c_void_p), ("nbytes", ctypes.c_size_t))


@cache
def _reads() -> Callable[..., int] | None:
    """Linux's copy from one process to another (`process_vm_readv`), for which the other one does
    nothing; None elsewhere."""
    found = getattr(_libc(), "process_vm_readv", None) if sys.platform == "linux" else None
    if found is not None:
        found.restype = ctypes.c_ssize_t
        found.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p,
                          ctypes.c_ulong, ctypes.c_ulong)
    return found


def let_read_memory(let: bool = True) -> None:
    """Let every process of this user read and write the memory of this one and debug it, where
    Yama would forbid it; or forbid it again. (Yama knows no permission to read alone, and none
    for several processes but all.)"""
    if sys.platform == "linux":  # an error without Yama, where they may anyway
        _libc().prctl(_PR_SET_PTRACER, _ANY if let else _NONE, 0, 0, 0)


def read_memory(process: int, address: int, out: Any) -> None:
    """Fill an array of bytes, `out`, with those at an address of another process of this machine.

    A system may forbid it (containers may), so it is tried before it is relied on. Raises OSError
    if the system forbids it, the process has ended, or has no such memory.
    """
    call, done = _reads(), 0
    if call is None:
        raise OSError("this system has no way to read the memory of another process")
    while done < out.size:
        here = _Part(out.ctypes.data + done, out.size - done)
        there = _Part(address + done, out.size - done)
        got = call(process, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        if got <= 0:
            error = ctypes.get_errno()
            raise OSError(error, f"reading the memory of process {process}: {os.strerror(error)}")
        done += got


class CodeMemory:
    """Zeroed pages that are written first and executable after, never both.

    Args:
        size: bytes wanted; rounded up to whole pages.

    Raises:
        MemoryError: the system has no room.
    """

    def __init__(self, size: int) -> None:
        self.size = -(-max(size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        self.address = 0
        if sys.platform == "win32":
            address = _libc().VirtualAlloc(None, self.size, 0x3000, 0x04)
        else:
            address = _libc().mmap(
                None, self.size, _PROT_READ | _PROT_WRITE, _MAP_PRIVATE | _MAP_ANONYMOUS, -1, 0
            )
        if not address or address == ctypes.c_void_p(-1).value:
            raise MemoryError(f"cannot map {self.size} bytes for compiled code")
        self.address = int(address)

    def write(self, offset: int, data: bytes) -> None:
        """Copy bytes in; the place must still be writable."""
        if offset < 0 or offset + len(data) > self.size:
            raise ValueError("write outside of the mapped pages")
        ctypes.memmove(self.address + offset, data, len(data))

    def protect(self, offset: int, size: int, kind: str) -> None:
        """Make whole pages `"text"` (read, execute) or `"rodata"` (read). Raises OSError if the
        system refuses (a hardened system may forbid executable pages)."""
        start = self.address + offset
        length = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        if sys.platform == "win32":
            old = ctypes.c_ulong()
            flag = 0x20 if kind == "text" else 0x02
            failed = not _libc().VirtualProtect(start, length, flag, ctypes.byref(old))
        else:
            if sys.platform == "darwin" and kind == "text":
                _libc().sys_icache_invalidate(ctypes.c_void_p(start), ctypes.c_size_t(length))
            prot = _PROT_READ | (_PROT_EXEC if kind == "text" else 0)
            failed = _libc().mprotect(start, length, prot) != 0
        if failed:
            raise OSError(ctypes.get_errno(), f"the system refuses to make pages {kind}")

    def close(self) -> None:
        """Unmap; nothing may point into the pages any more."""
        address, self.address = self.address, 0
        if not address:
            return
        if sys.platform == "win32":
            _libc().VirtualFree(address, 0, 0x8000)
        else:
            _libc().munmap(address, self.size)


def _pages(nbytes: int) -> mmap.mmap:
    """Fresh pages of this process alone: a child of a fork gets copies, and only private pages
    can be huge."""
    try:
        if sys.platform == "win32":
            return mmap.mmap(-1, nbytes)
        return mmap.mmap(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as e:
        raise MemoryError(f"a call needs {nbytes / 2**20:,.0f} MiB for its temporary values, "
                          f"which the system does not give: {e}") from None


class Scratch:
    """Zeroed, writable memory at a 64-byte boundary; freed with the object.

    Large blocks ask for huge pages: an arena is walked by many kernels in turn.
    """

    __slots__ = ("__weakref__", "_owner", "address", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        memory: mmap.mmap | bytearray
        if nbytes >= HUGE:
            memory = _pages(nbytes)
            advice = getattr(mmap, "MADV_HUGEPAGE", None)
            if advice is not None:
                with suppress(OSError):  # a kernel without them
                    memory.madvise(advice)
        else:
            memory = bytearray(nbytes + 64)
        self._owner: object = (ctypes.c_char * len(memory)).from_buffer(memory)
        self.address = -(-ctypes.addressof(self._owner) // 64) * 64

    @classmethod
    def over(cls, owner: object, address: int, nbytes: int) -> Scratch:
        """Memory of an owner that nobody else uses, in place of fresh one; it is as it was left.
        Raises ValueError if it does not begin at a 64-byte boundary."""
        if address % 64:
            raise ValueError(f"a block cannot begin at {address:#x}")
        self = object.__new__(cls)
        self._owner, self.address, self.nbytes = owner, address, nbytes
        return self


class Slabs:
    """Memory for blocks that live about as long as one another, in huge pages where it can be.

    Blocks are cut from slabs, one after the other. A slab goes with the last of its blocks; of a
    block that goes before, the system takes back the whole pages.

    Args:
        total: bytes of all blocks, about.
    """

    def __init__(self, total: int) -> None:
        self._left = total
        self._slab: Scratch | None = None
        self._next = self._end = 0

    def take(self, nbytes: int) -> Scratch:
        """A zeroed block."""
        size = -(-nbytes // 64) * 64
        if self._next + size > self._end:
            wanted = max(size, min(self._left, _SLAB))
            if wanted < HUGE:
                return Scratch(nbytes)
            self._slab = Scratch(wanted + _HUGE_PAGE)
            self._next = -(-self._slab.address // _HUGE_PAGE) * _HUGE_PAGE
            self._end = self._slab.address + self._slab.nbytes
        block = Scratch.over(self._slab, self._next, nbytes)
        weakref.finalize(block, _discard, self._next, nbytes).atexit = False
        self._next += size
        self._left -= size
        return block


def _discard(address: int, nbytes: int) -> None:
    """Give the whole pages of some memory back to the system; on Linux only."""
    first = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    past = (address + nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if sys.platform == "linux" and past > first:
        _libc().madvise(ctypes.c_void_p(first), ctypes.c_size_t(past - first), _DONTNEED)


def started(thread: threading.Thread) -> bool:
    """Start a thread; whether there is one: a limit of threads or memory may forbid it. Raises
    KeyboardInterrupt if the process was interrupted meanwhile."""
    try:
        thread.start()
    except RuntimeError as error:
        # An interrupt within Python's own lock, on which `start` waits, ends as an error of it.
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        return False
    return True


_BEGINNINGS = 1000  # Milliseconds in which a thread begins, if it does


def joined(thread: threading.Thread) -> bool:
    """Wait until a thread has ended; whether it has. One whose start was interrupted begins later,
    or never."""
    for _ in range(_BEGINNINGS):
        try:
            thread.join()
        except RuntimeError:  # it has not begun
            time.sleep(1e-3)
        else:
            return True
    return False


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    found: Callable[[int], int] | None = getattr(_libc(), "malloc_trim", None)
    return found


def trim_memory() -> None:
    """Give freed memory back to the system, where the C library keeps it (glibc does)."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


def gpu_driver() -> str:
    """The file of NVIDIA's driver library."""
    return "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


def gpu_driver_version() -> str:
    """The version of NVIDIA's driver (`"580.159.04"`), or "" where it is not there or not said."""
    try:
        text = pathlib.Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return ""
    return next((w for w in text.split() if w[0].isdigit() and w.count(".") >= 1), "")


def release_code(library: str) -> int:
    """Let the system take back the pages of a loaded library's code until it runs again.

    Code is never written, so what is read again comes from the file. Linux only; elsewhere nothing
    is done.

    Args:
        library: a part of the file's name.

    Returns:
        Bytes of code.
    """
    try:
        lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return 0
    released = 0
    for line in lines:
        span, rights, *rest = line.split(maxsplit=5)
        if rights == "r-xp" and library in rest[-1]:
            first, past = (int(n, 16) for n in span.split("-"))
            _libc().madvise(ctypes.c_void_p(first), ctypes.c_size_t(past - first), _DONTNEED)
            released += past - first
    return released


# --- the external table ----------------------------------------------------------------------


@cache
def system_functions() -> dict[Ext, int]:
    """Addresses (and the futex number) for the entries that the system fills."""
    if sys.platform == "win32":
        lib = ctypes.CDLL("msvcrt")
        names = _COMMON
    else:
        lib = ctypes.CDLL(None)
        names = _COMMON | _POSIX
    if sys.platform == "darwin":
        names |= {Ext.ULOCK_WAIT: "__ulock_wait", Ext.ULOCK_WAKE: "__ulock_wake"}
    table = {ext: address_of(getattr(lib, n)) for ext, n in names.items() if hasattr(lib, n)}
    if sys.platform == "linux" and machine() in _FUTEX:
        table[Ext.SYSCALL] = address_of(lib.syscall)
        table[Ext.FUTEX_NUMBER] = _FUTEX[machine()]
        table[Ext.MADVISE] = address_of(lib.madvise)
    if Ext.PTHREAD_CREATE in table:
        table[Ext.THREAD_ATTR] = _thread_attributes(lib)
    return table


_COMMON = {
    Ext.MEMCPY: "memcpy", Ext.MEMMOVE: "memmove", Ext.MEMSET: "memset", Ext.MALLOC: "malloc",
    Ext.FREE: "free", Ext.REALLOC: "realloc",
}  # fmt: skip
_POSIX = {
    Ext.PTHREAD_CREATE: "pthread_create", Ext.SCHED_YIELD: "sched_yield",
    Ext.NANOSLEEP: "nanosleep", Ext.GETPID: "getpid",
}  # fmt: skip
_ATTR = ctypes.create_string_buffer(256)
"""A `pthread_attr_t`: it must live as long as the process, and is filled once."""


def _thread_attributes(lib: ctypes.CDLL) -> int:
    detached = 2 if sys.platform == "darwin" else 1
    lib.pthread_attr_init(_ATTR)
    lib.pthread_attr_setdetachstate(_ATTR, detached)
    lib.pthread_attr_setstacksize(_ATTR, ctypes.c_size_t(_THREAD_STACK))
    return ctypes.addressof(_ATTR)


def address_of(function: Any) -> int:
    """The address of a ctypes function."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def uses_win64() -> bool:
    """Whether the host calls functions by the Windows x64 convention."""
    return sys.platform == "win32" and machine() == "x86_64"
