"""Memory of arrays: aligned, and with an owner that knows whether a view of it is still in use.

numpy keeps the object that an array's memory comes from as the base of the array and of all views
of it. A `Lease` is such an object: a weak reference to it says whether any of them is left. One
stands for what was lent to somebody, an `Owner` for all uses of memory that was allocated here.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.parallel_copy import copy_array

Array = np.ndarray[Any, Any]

LEAST_OWNED = 1 << 16  # Bytes from which on memory has a `Lease`, so that it can be given up


class Lease:
    """Where an array's memory comes from, as numpy sees it: it lives while any view of that does.
    """

    __slots__ = ("__array_interface__", "__weakref__", "array")

    def __init__(self, array: Array) -> None:
        self.array = array  # the memory
        self.__array_interface__ = array.__array_interface__

    def view(self) -> Array:
        """A view that keeps the lease alive."""
        view = np.asarray(self)
        # The interface has no name for bfloat16.
        return view if view.dtype == self.array.dtype else view.view(self.array.dtype)


class Owner(Lease):
    """The memory of one array of `aligned_*`, as bytes, while any view of it lives."""

    __slots__ = ()


def _make_array(make: Callable[..., Array], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array over bytes that `make` gives; from `LEAST_OWNED` on they have an `Owner`."""
    # numpy's own object of the type: native entries compare it
    kind = dtypes.from_numpy(dtype).numpy
    size = math.prod(shape) * kind.itemsize
    raw = _align(make(size + 64, np.uint8), size)
    memory = Owner(raw).view() if raw.nbytes >= LEAST_OWNED else raw
    out: Array = memory.view(kind).reshape(shape)
    return out


def _align(raw: Array, size: int) -> Array:
    start = -raw.ctypes.data % 64
    return raw[start : start + size]


def aligned_zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Zeros that start on a 64-byte boundary; the system gives the memory when it is written."""
    return _make_array(np.zeros, shape, dtype)


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Memory not written yet that starts on a 64-byte boundary."""
    return _make_array(np.empty, shape, dtype)


def aligned_copy(array: Array) -> Array:
    """A copy that is contiguous, native-endian and starts on a 64-byte boundary."""
    out = aligned_empty(array.shape, array.dtype)
    copy_array(out, array)
    return out


def aligned_block(arrays: Sequence[Array]) -> list[Array]:
    """Copies as `aligned_copy` makes them, of arrays of one type, one after another in memory."""
    dtype = dtypes.from_numpy(arrays[0].dtype).numpy
    sizes = [-(-a.size * dtype.itemsize // 64) * 64 for a in arrays]
    raw = _align(np.empty(sum(sizes) + 64, np.uint8), sum(sizes))
    start, out = 0, []
    for array, size in zip(arrays, sizes, strict=True):
        flat = raw[start : start + array.size * dtype.itemsize].view(dtype)
        out.append(flat.reshape(array.shape))
        copy_array(out[-1], array)
        start += size
    return out


def owner_of(array: Array | None) -> weakref.ref[Owner] | None:
    """The owner of an array's memory, if that was allocated for this array alone."""
    if type(array) is not np.ndarray:
        return None
    base: Any = array.base
    if type(base) is np.ndarray:  # the owner's view, of bytes
        base = base.base
    return weakref.ref(base) if type(base) is Owner and base.array.nbytes == array.nbytes else None
