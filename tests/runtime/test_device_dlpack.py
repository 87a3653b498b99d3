"""DLPack of tensors on a GPU, which is emulated: one memory, alive as long as somebody has it."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, ops
from cellc_runtime import device
from cellc_runtime.cuda import dlpack

A = np.arange(12, dtype=np.float32).reshape(3, 4)
DTYPES = [ms.float32, ms.float16, ms.bfloat16, ms.int8, ms.uint8, ms.int64, ms.bool_, ms.complex64]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A test runs on the emulated GPU; the device."""
    monkeypatch.setenv("CELLC_GPU", "emulated")
    ms.set_device("GPU")
    try:
        yield device.gpu()
    finally:
        ms.set_device("CPU")


def _fill(x: Tensor, value: int) -> None:
    """Write a tensor's memory where it is."""
    elements = x._storage.state.elements
    elements.fill(np.full(x.shape, value, elements.dtype))


class Producer:
    """Another library's array: a structure of DLPack around memory of its own.

    The memory is the host's, which the emulated GPU reaches where it was told of it.
    """

    def __init__(self, array: np.ndarray[Any, Any], strides: Any = None, skip: int = 0,
                 code: int = 2) -> None:
        self.raw = np.zeros(array.nbytes + 128, np.uint8)
        start = -self.raw.ctypes.data % 64 + skip
        self.array = self.raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        self.array[...] = array
        self.shape = (ctypes.c_int64 * 2)(*array.shape)
        self.strides = None if strides is None else (ctypes.c_int64 * 2)(*strides)
        self.deleted = 0
        self.deleter = dlpack._DELETER(self._delete)
        pointer = ctypes.POINTER(ctypes.c_int64)
        self.managed = dlpack._Managed(dlpack._Tensor(
            self.raw.ctypes.data, dlpack._Device(dlpack.CUDA, 0), 2,
            dlpack._Type(code, 8 * array.itemsize, 1), ctypes.cast(self.shape, pointer),
            None if strides is None else ctypes.cast(self.strides, pointer), start))
        self.managed.deleter = ctypes.cast(self.deleter, ctypes.c_void_p)
        self.streams: list[Any] = []

    def _delete(self, managed: int) -> None:
        assert managed == ctypes.addressof(self.managed)
        self.deleted += 1

    def __dlpack__(self, *, stream: Any = None) -> Any:
        self.streams.append(stream)
        return dlpack._new(ctypes.addressof(self.managed), b"dltensor", None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_there_and_back(gpu: Any, dtype: Any) -> None:
    """The same memory: what one writes, the other reads; of every element type."""
    x = Tensor(A > 5 if dtype is ms.bool_ else A, dtype).to("GPU")
    y = ms.from_dlpack(ms.to_dlpack(x))
    assert (y.device, y.dtype, y.shape) == ("GPU:0", dtype, (3, 4))
    assert y._storage.state.elements.address == x._storage.state.elements.address
    assert ms.from_dlpack(x).asnumpy().tobytes() == x.asnumpy().tobytes()
    _fill(x, 0)
    assert not y.asnumpy().any()


def test_memory_lives_as_long_as_somebody_has_it(gpu: Any) -> None:
    """The consumer alone; a capsule that nobody takes holds nothing once it is gone."""
    before = len(dlpack._given)
    y = ms.from_dlpack(Tensor(A).to("GPU"))
    gc.collect()
    assert len(dlpack._given) == before + 1
    assert np.array_equal(ops.add(y, y).asnumpy(), A + A)
    del y
    gc.collect()
    assert len(dlpack._given) == before
    capsule = ms.to_dlpack(Tensor(A).to("GPU"))
    assert len(dlpack._given) == before + 1
    del capsule
    gc.collect()
    assert len(dlpack._given) == before


def test_arrays_of_others(gpu: Any) -> None:
    """Programs work on their memory, which goes back when no tensor has it."""
    other = Producer(A)
    x = ms.from_dlpack(other)
    assert other.streams == [None]
    other.array += 1
    assert np.array_equal(ops.mul(x, 2.0).asnumpy(), 2 * (A + 1))
    assert other.deleted == 0
    del x
    gc.collect()
    assert other.deleted == 1
    assert not gpu.owns(other.array.ctypes.data, A.nbytes)


def test_what_does_not_begin_at_a_boundary_is_copied(gpu: Any) -> None:
    other = Producer(A, strides=(4, 1), skip=4)
    x = ms.from_dlpack(other)
    gc.collect()
    assert other.deleted == 1
    assert np.array_equal(ops.mul(x, 2.0).asnumpy(), 2 * A)


@pytest.mark.parametrize(("other", "text"), [
    (Producer(A, strides=(1, 3)), "do not lie densely, row by row"),
    (Producer(A, code=9), "no tensor has elements of DLPack's code 9 with 32 bits and 1 lanes"),
])
def test_what_is_refused(gpu: Any, other: Producer, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ms.from_dlpack(other)
    assert other.deleted == 0


def test_a_capsule_is_for_one_consumer(gpu: Any) -> None:
    capsule = ms.to_dlpack(Tensor(A).to("GPU"))
    ms.from_dlpack(capsule)
    with pytest.raises(ValueError, match="cannot take this PyCapsule"):
        ms.from_dlpack(capsule)


def test_devices_that_are_asked_for(gpu: Any) -> None:
    """The host's copy shares nothing, a copy on the GPU neither; another GPU is an error."""
    x = Tensor(A).to("GPU")
    assert x.__dlpack_device__() == (2, 0)
    host = np.from_dlpack(x, device="cpu")
    _fill(x, 0)
    assert np.array_equal(host, A)
    with pytest.raises(BufferError, match=r"DLPack's device \(2, 3\) was asked for"):
        x.__dlpack__(dl_device=(2, 3))
    y = ms.from_dlpack(x.__dlpack__(copy=True))
    _fill(x, 1)
    assert not y.asnumpy().any()


def test_without_a_gpu() -> None:
    """Memory of a GPU that this process cannot use is an error that says why."""
    done = subprocess.run(
        [sys.executable, "-c", "import cellc as ms\nclass X:\n"
         "    def __dlpack__(self, **_): raise AssertionError\n"
         "    def __dlpack_device__(self): return 2, 0\n"
         "try: ms.from_dlpack(X())\nexcept ValueError as e: print(e)"],
        capture_output=True, text=True, check=True,
        env={"PATH": "", "CELLC_GPU": "none", "HOME": "/nonexistent"})
    assert "'from_dlpack' cannot take memory of GPU 0" in done.stdout
