"""Tensors over memory of others: DLPack, buffers; and tensors that change places.

Source: the same names in `mindspore`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.lazy import lazy_imports

from ..context import gpu_named
from ..storage import LOCK, writes
from .parameter import Parameter
from .tensor import Array, Tensor, result_of

with lazy_imports(__name__):
    from cellc_runtime.cuda import dlpack as dlpack_memory

_CPU = (1, 0)


class _Capsule:
    """A DLPack capsule as an object that gives it."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU


class _Writeable:
    """The memory of an array, to be written; it lives as long as what is made of this."""

    def __init__(self, array: Array) -> None:
        self._array = array
        start, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (start, False)}


def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule over a tensor (no bfloat16), for another library to consume once."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"'to_dlpack' takes a Tensor, but got {type(tensor).__name__}")
    try:
        return tensor.__dlpack__()
    except BufferError as e:
        raise TypeError(f"a Tensor of {tensor.dtype} cannot be given by DLPack: {e}") from None


def from_dlpack(dlpack: Any) -> Tensor:
    """A Tensor over the memory of a DLPack capsule, or of an object that gives one.

    Memory of the CPU is shared where it is contiguous and writeable, else copied. Memory of a GPU
    is shared where it is contiguous and begins at a multiple of 64 bytes; the Tensor is there.

    Raises:
        TypeError: neither a capsule nor an object with `__dlpack__`, or an element type that no
            Tensor has.
        ValueError: a capsule that was consumed already, memory of another device, or of a GPU and
            not contiguous.
    """
    capsule = type(dlpack).__name__ == "PyCapsule"
    given = _Capsule(dlpack) if capsule else dlpack
    if not hasattr(given, "__dlpack__"):
        raise TypeError(f"'from_dlpack' takes a DLPack capsule or an object with __dlpack__, but "
                        f"got {type(dlpack).__name__}")
    kind, number = dlpack_memory.device_of(dlpack) if capsule else given.__dlpack_device__()
    if kind == dlpack_memory.CUDA:
        return _from_gpu(given, number)
    try:
        array: Array = np.from_dlpack(given)
    except (BufferError, RuntimeError, ValueError) as e:
        raise ValueError(f"'from_dlpack' cannot take this {type(dlpack).__name__}: {e}") from None
    # A capsule without a version cannot say that it is read-only; numpy takes it for that.
    old = capsule and '"used_dltensor"' in repr(dlpack)
    return Tensor.from_numpy(np.asarray(_Writeable(array)) if old else array)


def _from_gpu(given: Any, number: int) -> Tensor:
    """A Tensor over memory of a GPU."""
    try:
        gpu = gpu_named(f"GPU:{number}")
    except RuntimeError as e:
        raise ValueError(f"'from_dlpack' cannot take memory of GPU {number}: {e}") from None
    assert gpu is not None
    capsule = given.__dlpack__(stream=gpu.order)
    try:
        return result_of(dlpack_memory.take(capsule, gpu))
    except ValueError as e:
        raise ValueError(f"'from_dlpack': {e}") from None


def frombuffer(buffer: Any, dtype: DType, count: int = -1, offset: int = 0) -> Tensor:
    """A Tensor of one axis over the memory of a buffer (a copy where that is read-only).

    Args:
        buffer: an object with the buffer protocol (bytes, bytearray, array, ...).
        dtype: element type.
        count: number of elements; -1 for all that follow.
        offset: bytes to leave out at the start.

    Raises:
        RuntimeError: no buffer or element type; an empty one; a count or an offset outside of
            it, or a rest that is no whole number of elements.
    """
    if dtype not in dtypes.ALL:
        raise RuntimeError(f"'frombuffer' needs an element type as 'dtype', but got {dtype!r}")
    try:
        raw = np.frombuffer(buffer, np.uint8) if memoryview(buffer).nbytes else np.empty(0, "u1")
    except (TypeError, BufferError, ValueError):
        raise RuntimeError(f"'frombuffer' takes an object with a contiguous buffer, but got "
                           f"{type(buffer).__name__}") from None
    size = dtype.itemsize
    if not raw.size or count == 0:
        raise RuntimeError(f"'frombuffer' needs a buffer and a count that are not empty, but got "
                           f"{raw.size} bytes and the count {count}")
    if count < -1:
        raise RuntimeError(f"the count must be -1 or positive, but got {count}")
    if not 0 <= offset < raw.size:
        raise RuntimeError(f"the offset must be in the buffer of {raw.size} bytes, but got "
                           f"{offset}")
    rest = raw.size - offset
    if count == -1 and rest % size:
        raise RuntimeError(f"{rest} bytes (of {raw.size}, after {offset}) are no whole number of "
                           f"elements of {size} bytes")
    if count * size > rest:
        raise RuntimeError(f"{count} elements of {size} bytes need {count * size} bytes, but the "
                           f"buffer has {rest} after the offset {offset}")
    n = rest // size if count == -1 else count
    return Tensor.from_numpy(raw[offset : offset + n * size].view(dtype.numpy))


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Let two tensors change places: class, elements, name and flags; each keeps its identity."""
    for t in (t1, t2):
        if not isinstance(t, Tensor):
            raise TypeError(f"'swap_tensors' takes two Tensors, but got {type(t).__name__}")
    writes.before()
    with LOCK:
        t1.__class__, t2.__class__ = t2.__class__, t1.__class__
        t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
        t1._host, t2._host = t2._host, t1._host
    writes.written([t for t in (t1, t2) if isinstance(t, Parameter)])
