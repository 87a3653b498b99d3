"""Kernels of programs, loaded once per process and content."""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Callable
from weakref import WeakValueDictionary

from ..forks import renewed
from ..program import DEVICE_KERNEL, DeviceKernel
from .driver import (
    FUNCTION_SHARED_BYTES,
    INVALID_PTX,
    JIT_LOG,
    JIT_LOG_BYTES,
    NO_BINARY,
    UNSUPPORTED_PTX,
    CudaError,
    Driver,
)

WITHOUT_ASKING = 48 << 10
"""Bytes of shared memory that any launch may have; more must be allowed for the kernel."""
_LOG_BYTES = 8192


class Kernel:
    """A kernel that can be launched; its module goes with the object.

    Attributes:
        function: its handle, which `cuLaunchKernel` takes.
    """

    def __init__(self, driver: Driver, code: bytes, discard: Callable[[str, int], None]) -> None:
        self._driver, self._discard = driver, discard
        self._module = _load(driver, code)
        self._shared = WITHOUT_ASKING
        self.function = driver.handle("cuModuleGetFunction", self._module, DEVICE_KERNEL.encode())

    def allow_shared(self, nbytes: int) -> None:
        """Let launches have so much shared memory."""
        if nbytes > self._shared:
            self._driver.call("cuFuncSetAttribute", self.function, FUNCTION_SHARED_BYTES, nbytes)
            self._shared = nbytes

    def __del__(self) -> None:
        if hasattr(self, "_module"):
            self._discard("cuModuleUnload", self._module)


class Modules:
    """The kernels of one device.

    Args:
        shared: most bytes of shared memory of a block.
        discard: called with a function of the driver and a handle that nobody uses any more.
    """

    def __init__(self, driver: Driver, shared: int, discard: Callable[[str, int], None]) -> None:
        self._driver, self._shared, self._discard = driver, shared, discard
        self._lock = renewed(threading.Lock())
        self._kernels: WeakValueDictionary[bytes, Kernel] = WeakValueDictionary()

    def load(self, kernel: DeviceKernel, where: str, as_ptx: bool) -> Kernel:
        """A kernel, which may be loaded already.

        Args:
            where: the kernel and its program, for errors.
            as_ptx: the cubin is another GPU's.

        Raises:
            CudaError: the driver refuses it.
        """
        if kernel.shared > self._shared:
            raise CudaError(f"{where} wants {kernel.shared:,} bytes of shared memory; a block of "
                            f"this GPU has at most {self._shared:,}")
        code = kernel.ptx if as_ptx and kernel.ptx else kernel.code
        key = hashlib.sha256(code).digest()
        with self._lock:
            try:
                found = self._kernels.get(key)
                if found is None:
                    found = Kernel(self._driver, code, self._discard)
                    self._kernels[key] = found
                found.allow_shared(kernel.shared)
            except CudaError as error:
                self._driver.ready()
                raise CudaError(f"{where} cannot be loaded: {error}{self._hint(error.code)}",
                                error.code, error.name) from None
        return found

    def _hint(self, code: int) -> str:
        if code == NO_BINARY:
            return "\nit is compiled for another GPU: compile the program for this one"
        if code in (UNSUPPORTED_PTX, INVALID_PTX):
            return f"\nthe driver serves CUDA {self._driver.version // 1000}." \
                   f"{self._driver.version % 1000 // 10}: is it older than the program?"
        return ""


def _load(driver: Driver, code: bytes) -> int:
    """A module; what the driver's assembler says of PTX that it refuses is in the error."""
    log = ctypes.create_string_buffer(_LOG_BYTES)
    options = (ctypes.c_int * 2)(JIT_LOG, JIT_LOG_BYTES)
    values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
    # PTX ends with a zero byte; a cubin says itself how long it is.
    held = ctypes.create_string_buffer(code)
    try:
        return driver.handle("cuModuleLoadDataEx", held, 2, options, values)
    except CudaError as error:
        said = log.value.decode("utf-8", "replace").strip()
        if said:
            raise CudaError(f"{error}\n{said[:2000]}", error.code, error.name) from None
        raise
