"""Memory that knows whether somebody still holds a view of it."""

from __future__ import annotations

import gc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cellc.storage.memory import (
    LEAST_OWNED,
    Lease,
    aligned_block,
    aligned_copy,
    aligned_empty,
    aligned_zeros,
    owner_of,
)

Array = np.ndarray[Any, Any]
KINDS = [np.float32, np.float64, np.float16, np.int8, np.bool_, np.complex64, ml_dtypes.bfloat16]
LARGE = (300, LEAST_OWNED // 256)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(), (0, 3), (5, 7), LARGE])
def test_arrays_are_aligned_and_as_numpy_makes_them(shape: tuple[int, ...], dtype: Any) -> None:
    given = (np.arange(np.prod(shape, dtype=int)) % 100).reshape(shape).astype(dtype)
    copied, zeros, empty = (aligned_copy(given), aligned_zeros(shape, given.dtype),
                            aligned_empty(shape, given.dtype))
    assert copied.tobytes() == given.tobytes()
    assert not zeros.any()
    for out in (copied, zeros, empty):
        assert type(out) is np.ndarray
        assert (out.shape, out.dtype) == (shape, given.dtype)
        assert out.dtype is np.empty(0, given.dtype).dtype  # native entries compare the object
        assert out.flags.c_contiguous and out.flags.writeable and out.flags.aligned
        assert not out.ctypes.data % 64 or not out.size


def test_memory_lives_until_the_last_view_goes() -> None:
    array = aligned_zeros(LARGE, np.dtype(np.float32))
    owner = owner_of(array)
    assert owner is not None
    assert owner() is not None
    row, columns = array[3], memoryview(array.T)
    del array
    assert owner() is not None
    del row
    gc.collect()
    assert owner() is not None
    columns.release()
    del columns
    assert owner() is None


def test_only_memory_of_one_array_has_an_owner() -> None:
    assert owner_of(None) is None
    assert owner_of(np.zeros(LARGE, np.float32)) is None  # of somebody
    assert owner_of(aligned_zeros((10,), np.dtype(np.float32))) is None  # not worth it
    array = aligned_zeros(LARGE, np.dtype(np.float32))
    assert owner_of(array[1:]) is None  # a part
    assert owner_of(Lease(array).view()) is None  # lent
    assert all(owner_of(a) is None for a in aligned_block([array, array]))  # one for both


@pytest.mark.parametrize("dtype", KINDS)
def test_what_is_lent_is_the_memory_itself(dtype: Any) -> None:
    array = aligned_zeros((4, 6), np.dtype(dtype))
    view = Lease(array).view()
    assert (view.dtype, view.shape) == (array.dtype, array.shape)
    view[2] = 1
    assert (array[2] == view[2]).all()
    assert np.shares_memory(array, view)
