"""Mapping an image into this process and connecting it to the process's thread pool.

The pool's code is in every image, and so is that of the memory of large results; the first image
loaded lends its copy to the whole process and stays mapped until the process ends. This is the
runtime's one piece of process-wide state.
"""

from __future__ import annotations

import ctypes
import operator
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import fastcall, knobs, platform
from .abi import (
    BLOCK_BYTES,
    BLOCK_FUNCTIONS,
    BLOCK_LIMITS,
    FIRST_CALLBACK,
    POOL_CONFIGURE,
    POOL_RUN,
    Ext,
)
from .forks import renewed
from .image import Image

_SPIN = 2000
"""Rests (about 40 ns each) before a thread without work sleeps: the pause between the regions
of one program."""

_SLACK = 128 << 20
"""Live and kept results together may always reach this many bytes; beyond it they never exceed
what was once live."""

Host = Callable[[int], int]
"""A host callback on the address of its buffers' pointers; nonzero when it raised."""

_HOST_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


class MappedImage:
    """An image in memory, ready to run; unmapped when the object goes.

    Args:
        image: what to map; checked first.
        extra: entries of the external table that the caller fills (Python, numpy, a device).
        callbacks: host callbacks in the program's order.
        kernels: handles of a device's kernels, in the program's order.

    Raises:
        ArtifactError: the image is malformed.
        MemoryError, OSError: the system gives no (executable) pages.
    """

    def __init__(
        self, image: Image, extra: Mapping[Ext, int], callbacks: Sequence[Host] = (),
        kernels: Sequence[int] = (),
    ) -> None:
        image.check()
        if image.table_entries < FIRST_CALLBACK + len(callbacks) + len(kernels):
            raise ValueError("the image's external table has no room for these callbacks")
        self._image = image
        # ctypes keeps only what is referenced: the trampolines live as long as the code.
        self._trampolines = [_HOST_TYPE(callback) for callback in callbacks]
        self._memory = platform.CodeMemory(image.size)
        for segment in image.segments:
            self._memory.write(segment.offset, segment.data)
        for segment in image.segments:
            if segment.kind != "data":
                self._memory.protect(segment.offset, segment.size, segment.kind)
        self._fill_table(extra, kernels)

    def fill(self, entries: Mapping[Ext, int]) -> None:
        """Put pointers in places of the external table."""
        table = self._table()
        for place, value in entries.items():
            table[place] = value

    def _table(self) -> Any:
        kind = ctypes.c_void_p * self._image.table_entries
        return kind.from_address(self._memory.address + self._image.table_offset)

    def _fill_table(self, extra: Mapping[Ext, int], kernels: Sequence[int]) -> None:
        table = self._table()
        self.fill(platform.system_functions())
        self.fill(extra)
        for i, trampoline in enumerate(self._trampolines):
            table[FIRST_CALLBACK + i] = platform.address_of(trampoline)
        for i, handle in enumerate(kernels, FIRST_CALLBACK + len(self._trampolines)):
            table[i] = handle
        if POOL_RUN in self._image.symbols:  # else it makes no regions, and no large results
            table[Ext.PARALLEL_FOR] = _POOL.run_address(self)
            if extra.get(Ext.SET_HANDLER):
                table[Ext.DATA_HANDLER] = _POOL.data_handler(self)

    def address(self, symbol: str) -> int:
        """Where an exported function is. Raises KeyError if the image does not export it."""
        return self._memory.address + self._image.symbols[symbol]

    def __del__(self) -> None:
        memory = getattr(self, "_memory", None)
        if memory is not None:
            memory.close()


class _Pool:
    """The process's thread pool: the image that lends its code, and the number of threads."""

    def __init__(self) -> None:
        self._lock = renewed(threading.Lock())
        self._home: MappedImage | None = None
        self._threads: int | None = None
        self._handler = 0

    def run_address(self, image: MappedImage) -> int:
        """The address of the shared `cellc_pool_run`; the first image asked becomes its home."""
        with self._lock:
            if self._home is None:
                self._home = image
                # Never unmapped, at exit either: sleeping workers and arrays need its code.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(image))
                self._configure()
            return self._home.address(POOL_RUN)

    def data_handler(self, image: MappedImage) -> int:
        """numpy's allocator of large results, over the home's functions."""
        self.run_address(image)
        with self._lock:
            if not self._handler:
                assert self._home is not None
                self._handler = fastcall.data_handler(
                    [self._home.address(name) for name in BLOCK_FUNCTIONS]
                )
                self._limit(knobs.read().kept_memory)
            return self._handler

    def limit(self, nbytes: int) -> None:
        """Keep at most this many bytes of dead results for the next ones."""
        with self._lock:
            self._limit(nbytes)

    def _limit(self, nbytes: int) -> None:
        if self._home is not None:
            limits = _function(self._home.address(BLOCK_LIMITS), None, ctypes.c_int64,
                               ctypes.c_int64)  # fmt: skip
            limits(nbytes, min(nbytes, _SLACK))

    def block_bytes(self) -> tuple[int, int]:
        """Bytes of large results that live, and of dead ones that are kept."""
        out = (ctypes.c_int64 * 2)()
        if self._home is not None:
            _function(self._home.address(BLOCK_BYTES), None, ctypes.c_void_p)(ctypes.addressof(out))
        return out[0], out[1]

    def threads(self) -> int:
        """Threads a region may use, the caller's included."""
        if self._threads is None:
            self._threads = knobs.read().num_threads or platform.usable_cpus()[0]
        return self._threads

    def set_threads(self, count: int) -> None:
        """Change the number of threads from the next region on."""
        with self._lock:
            self._threads = count
            if self._home is not None:
                self._configure()

    def _configure(self) -> None:
        if self._home is None:
            return
        cpus, owned = platform.usable_cpus()
        # Spinning on a core that others need only takes their time away.
        spin = _SPIN if owned and self.threads() <= cpus else 0
        configure = _function(self._home.address(POOL_CONFIGURE), None, ctypes.c_int32,
                              ctypes.c_int32)  # fmt: skip
        configure(self.threads(), spin)


_POOL = _Pool()


def num_threads() -> int:
    """Threads that compiled code uses, the caller's included."""
    return _POOL.threads()


def set_num_threads(count: int) -> None:
    """Use `count` threads from the next parallel region on; results do not depend on it.

    Raises:
        TypeError: `count` is no int.
        ValueError: it is not between 1 and 1024.
    """
    if isinstance(count, bool) or not hasattr(type(count), "__index__"):
        raise TypeError(f"the number of threads must be an int, got {count!r}")
    if not 1 <= count <= knobs.MOST_THREADS:
        raise ValueError(f"the number of threads must be between 1 and {knobs.MOST_THREADS}, got "
                         f"{count}")
    _POOL.set_threads(operator.index(count))


def _function(address: int, result: Any, *arguments: Any) -> Callable[..., Any]:
    function: Callable[..., Any] = ctypes.CFUNCTYPE(result, *arguments)(address)
    return function


def precompute_function(address: int) -> Callable[[int, int, int, int], int]:
    """`cellc_ahead`, as `main_function`; the last argument is the number of the block."""
    return _function(address, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
                     ctypes.c_int64)


def main_function(address: int) -> Callable[[int, int, int], int]:
    """`cellc_main` as a Python function of the addresses of slots, arena and constants; it
    releases the interpreter lock."""
    return _function(address, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
