"""NVIDIA's driver library (libcuda) through ctypes: typed signatures, results as exceptions.

Only set-up, copies and allocation come this way (about 3 us a call). A program's own code launches
kernels through pointers to the same functions.

Source: NVIDIA, CUDA Driver API 13.0 (cuda.h); `tests/cuda/test_signatures.py` compares the two.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from .. import platform
from ..device import NoDevice

Handle = ctypes.c_void_p
_OUT = ctypes.c_void_p  # A pointer to what a function fills
_INT, _UINT, _SIZE, _ADDRESS = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_uint64

SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (_UINT,),
    "cuDriverGetVersion": (_OUT,),
    "cuGetErrorName": (_INT, _OUT),
    "cuGetErrorString": (_INT, _OUT),
    "cuDeviceGetCount": (_OUT,),
    "cuDeviceGet": (_OUT, _INT),
    "cuDeviceGetName": (_OUT, _INT, _INT),
    "cuDeviceGetAttribute": (_OUT, _INT, _INT),
    "cuDeviceTotalMem_v2": (_OUT, _INT),
    "cuDevicePrimaryCtxRetain": (_OUT, _INT),
    "cuCtxSetCurrent": (Handle,),
    "cuMemGetInfo_v2": (_OUT, _OUT),
    "cuMemAlloc_v2": (_OUT, _SIZE),
    "cuMemFree_v2": (_ADDRESS,),
    "cuMemHostAlloc": (_OUT, _SIZE, _UINT),
    "cuMemcpyAsync": (_ADDRESS, _ADDRESS, _SIZE, Handle),
    "cuMemcpyHtoDAsync_v2": (_ADDRESS, ctypes.c_void_p, _SIZE, Handle),
    "cuMemcpyDtoHAsync_v2": (ctypes.c_void_p, _ADDRESS, _SIZE, Handle),
    "cuMemsetD8Async": (_ADDRESS, ctypes.c_ubyte, _SIZE, Handle),
    "cuStreamCreate": (_OUT, _UINT),
    "cuStreamDestroy_v2": (Handle,),
    "cuStreamSynchronize": (Handle,),
    "cuStreamQuery": (Handle,),
    "cuStreamWaitEvent": (Handle, Handle, _UINT),
    "cuStreamBeginCapture_v2": (Handle, _INT),
    "cuStreamEndCapture": (Handle, _OUT),
    "cuEventCreate": (_OUT, _UINT),
    "cuEventDestroy_v2": (Handle,),
    "cuEventRecord": (Handle, Handle),
    "cuEventQuery": (Handle,),
    "cuEventSynchronize": (Handle,),
    "cuEventElapsedTime": (_OUT, Handle, Handle),
    "cuModuleLoadDataEx": (_OUT, ctypes.c_void_p, _UINT, _OUT, _OUT),
    "cuModuleGetFunction": (_OUT, Handle, ctypes.c_char_p),
    "cuModuleUnload": (Handle,),
    "cuFuncSetAttribute": (Handle, _INT, _INT),
    "cuFuncGetAttribute": (_OUT, _INT, Handle),
    "cuLaunchKernel": (Handle, *(_UINT,) * 7, Handle, _OUT, _OUT),
    "cuTensorMapEncodeTiled": (_OUT, _INT, _UINT, *(ctypes.c_void_p,) * 5, *(_INT,) * 4),
    "cuGraphInstantiateWithFlags": (_OUT, Handle, ctypes.c_ulonglong),
    "cuGraphGetNodes": (Handle, _OUT, _OUT),
    "cuGraphExecUpdate_v2": (Handle, Handle, _OUT),
    "cuGraphLaunch": (Handle, Handle),
    "cuGraphDestroy": (Handle,),
    "cuGraphExecDestroy": (Handle,),
}
"""The functions that are used, by the names that the library exports (a name with `_v2` is the one
that cuda.h means), and the types of their arguments; all return a CUresult."""

OUT_OF_MEMORY, NOT_READY = 2, 600
NO_DEVICE, NO_BINARY, UNSUPPORTED_PTX, INVALID_PTX = 100, 209, 222, 218
PCI_PLACE = (50, 33, 34)
"""Attributes of a device that say where it is on its machine: `CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID`,
`_BUS_ID` and `_DEVICE_ID`."""
MAJOR, MINOR, MULTIPROCESSORS, L2_BYTES, SHARED_BYTES = 75, 76, 16, 38, 97
"""Attributes of a device: `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and so on; `SHARED_BYTES`
is `MAX_SHARED_MEMORY_PER_BLOCK_OPTIN`."""
FUNCTION_SHARED_BYTES = 8  # `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`
JIT_LOG, JIT_LOG_BYTES = 5, 6  # `CU_JIT_ERROR_LOG_BUFFER` and `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`
NON_BLOCKING = 1  # `CU_STREAM_NON_BLOCKING`: apart from the stream of number 0
NO_TIMING = 2  # `CU_EVENT_DISABLE_TIMING`
CAPTURE_THREAD_LOCAL = 1
"""`CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: what other threads call is no matter of the capture."""

LEAST_VERSION, CUBIN_VERSION = 12030, 13000
"""CUDA 12.3 takes the PTX that cellc writes, and has every function here; cubins of ptxas 13.0
need a driver of CUDA 13.0."""

_LOST = frozenset({4, 46, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721})
"""After these nothing works in this process any more."""
_REMEDIES = {
    3: "the GPU cannot be used in a process that was forked after its first use; start it by "
       "multiprocessing.get_context('spawn'), or use the GPU first in the child",
    34: "the library that was found is a toolkit's stub, not a driver: take the folder `stubs` out "
        "of LD_LIBRARY_PATH",
    46: "another process has the GPU for itself; end it, or choose another one by "
        "CUDA_VISIBLE_DEVICES",
    100: "there is no GPU that the driver can use, or CUDA_VISIBLE_DEVICES hides it",
    304: "the system refuses it: is /dev/nvidia* there, and may this user open it (in a container, "
         "was it started with the GPUs)?",
    701: "the kernel wants more registers or shared memory than there are: it is compiled for "
         "another GPU",
    802: "the system is not ready: is NVIDIA's fabric manager running?",
    803: "the driver's library and its kernel module are of different versions: start the machine "
         "again after an update",
    804: "the driver is older than its compatibility library: take that out of LD_LIBRARY_PATH, or "
         "install a newer driver",
    999: "the driver gives no reason; does nvidia-smi work?",
}


class Library(Protocol):
    """A library with the driver's functions as attributes: libcuda, or its stand-in in tests."""

    def __getattr__(self, name: str) -> Any:
        """A function of `SIGNATURES`."""


class CudaError(RuntimeError):
    """The driver refused a call, or something that was launched failed.

    Attributes:
        code: the CUresult.
        name: `"CUDA_ERROR_ILLEGAL_ADDRESS"`.
    """

    def __init__(self, text: str, code: int = 0, name: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.name = name


class DeviceLost(CudaError):
    """The GPU cannot be used by this process any more: a kernel broke it, or it fell out."""


class Driver:
    """The driver.

    Args:
        library: has the functions.

    Raises:
        NoDevice: it is too old, or finds no GPU.
    """

    def __init__(self, library: Library) -> None:
        self._functions: dict[str, Callable[..., int]] = {}
        self._bind(library, ("cuInit", "cuDriverGetVersion", "cuGetErrorName",
                             "cuGetErrorString"))  # fmt: skip
        self.lost: DeviceLost | None = None
        self._pid = os.getpid()
        number = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(number))
        self.version = number.value  # the newest CUDA that it serves: 13000 is 13.0
        if self.version < LEAST_VERSION:
            raise NoDevice(self.too_old("programs of cellc", LEAST_VERSION))
        self._bind(library, SIGNATURES)
        try:
            self.call("cuInit", 0)
        except CudaError as error:
            raise NoDevice(f"there is no GPU to use: {error}") from None

    def _bind(self, library: Library, names: Any) -> None:
        for name in names:
            try:
                function = getattr(library, name)
            except AttributeError:
                raise NoDevice(
                    f"the driver's library has no {name}: it is older than CUDA "
                    f"{_dotted(LEAST_VERSION)}; install a newer driver") from None
            function.argtypes, function.restype = SIGNATURES[name], ctypes.c_int
            self._functions[name] = function

    def too_old(self, what: str, needed: int) -> str:
        """The text that says so."""
        own = platform.gpu_driver_version()
        has = f"NVIDIA's driver {own}".rstrip() + f" serves CUDA {_dotted(self.version)}"
        return f"{has}; {what} need CUDA {_dotted(needed)}: install {_DRIVERS[needed]}"

    def address(self, name: str) -> int:
        """Where a function is, for compiled code to call."""
        return platform.address_of(self._functions[name])

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function. Raises CudaError if it says no; `DeviceLost` if nothing else will work
        either."""
        result = self._functions[name](*arguments)
        if result:
            raise self.error(result, name)

    def result(self, name: str, *arguments: Any) -> int:
        """Call a function; what it says."""
        return self._functions[name](*arguments)

    def handle(self, name: str, *arguments: Any) -> int:
        """Call a function whose first argument is filled by a handle or an address; that. Raises
        CudaError if it says no."""
        out = ctypes.c_void_p()
        self.call(name, ctypes.byref(out), *arguments)
        return out.value or 0

    def number(self, name: str, *arguments: Any) -> int:
        """Call a function whose first argument is filled by an int; that. Raises CudaError if it
        says no."""
        out = ctypes.c_int()
        self.call(name, ctypes.byref(out), *arguments)
        return out.value

    def error(self, result: int, doing: str) -> CudaError:
        """The exception for a result. `doing`: the function, or what was done."""
        name = self._text("cuGetErrorName", result) or f"CUresult {result}"
        said = self._text("cuGetErrorString", result)
        text = f"{doing}: {name}" + (f" ({said})" if said else "")
        remedy = _REMEDIES.get(result)
        if result in _LOST:
            # The first one tells what happened; what is refused after it says no more than that.
            self.lost = self.lost or DeviceLost(
                f"{text}\nthe GPU cannot be used by this process any more, and what is in its "
                f"memory is gone; tensors of the host are as they were. "
                f"{remedy or 'Start the process again, from a checkpoint'}", result, name)
            return self.lost
        return CudaError(f"{text}\n{remedy}" if remedy else text, result, name)

    def ready(self) -> None:
        """Whether calls make sense. Raises DeviceLost if they do not; CudaError if this process is
        a fork of the one that has the GPU."""
        if self.lost is not None:
            raise self.lost
        if self._pid != os.getpid():
            raise CudaError(_REMEDIES[3], 3, "CUDA_ERROR_NOT_INITIALIZED")

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the one that has the GPU."""
        return self._pid != os.getpid()

    def _text(self, name: str, result: int) -> str:
        text = ctypes.c_char_p()
        if self._functions[name](result, ctypes.byref(text)):
            return ""
        return (text.value or b"").decode("utf-8", "replace")


_DRIVERS: Mapping[int, str] = {
    LEAST_VERSION: "version 545 or newer (580 for all of cellc)",
    CUBIN_VERSION: "version 580 or newer, or compile with CELLC_PTXAS=none for PTX",
}


def _dotted(version: int) -> str:
    """13000 as 13.0."""
    return f"{version // 1000}.{version % 1000 // 10}"


def load() -> Driver:
    """The driver of this machine.

    Raises:
        NoDevice: there is none, it is too old, or it finds no GPU.
    """
    name = platform.gpu_driver()
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise NoDevice(f"there is no GPU to use: NVIDIA's driver library {name} cannot be loaded "
                         f"({error}); install the driver, or without a GPU set "
                         "CELLC_GPU=emulated") from None
    return Driver(library)
