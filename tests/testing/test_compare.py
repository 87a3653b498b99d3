"""`assert_close`: distances in ulps, structures, and what its message says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cellc as ms
from cellc import Tensor
from cellc.testing import assert_close
from cellc.testing.compare import ulps_apart


def message(*args: Any, **kwargs: Any) -> str:
    with pytest.raises(AssertionError, match="assert_close: ") as found:
        assert_close(*args, **kwargs)
    return str(found.value)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_neighbour_is_one_ulp_away(dtype: str) -> None:
    kind = Tensor([1.0], getattr(ms, dtype))._data.dtype
    for start in (1.0, -1.0, 2.0**-20, -3.5, 0.0):
        a = np.array([start], kind)
        bits = a.view(f"u{kind.itemsize}") + 1  # away from zero
        b = bits.view(kind)
        assert ulps_apart(a, b).tolist() == ulps_apart(b, a).tolist() == [1.0]
    assert_close(Tensor(a), Tensor(b), ulps=1)
    assert "1 ulps apart" in message(Tensor(a), Tensor(b), ulps=0)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False),
       st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_ulps_count_the_numbers_between(x: float, y: float) -> None:
    a, b = np.array([x], np.float32), np.array([y], np.float32)
    low, high = sorted((a[0], b[0]))
    apart = int(ulps_apart(a, b)[0])
    assert apart == int(ulps_apart(b, a)[0])
    assert (apart == 0) == bool(low == high)
    if apart < 200:
        for _ in range(apart):
            low = np.nextafter(low, np.float32(np.inf))
        assert low == high


def test_zeros_infinities_and_nan() -> None:
    values = np.array([0.0, np.inf, -np.inf, np.nan], np.float32)
    assert_close(values, np.array([-0.0, np.inf, -np.inf, np.nan], np.float32), ulps=0)
    assert "3 of 3" in message(values[1:], np.float32([1, 2, 3]), ulps=1e9)
    assert "[3]: actual nan, desired nan" in message(values, values, equal_nan=False)
    assert "inf" in message(values[1:2], np.float32([3e38]), atol=1e38)


def test_defaults_follow_the_element_type() -> None:
    assert_close(Tensor([1.0], ms.bfloat16), Tensor([1.01], ms.bfloat16))
    assert_close(Tensor([1.0]), Tensor([1.0 + 16 * 2.0**-23]))
    message(Tensor([1.0]), Tensor([1.0 + 17 * 2.0**-23]))
    message(Tensor([1]), Tensor([2]))
    message(Tensor([True]), Tensor([False]))
    assert_close(Tensor([1 + 1j], ms.complex64), Tensor([1 + (1 + 2.0**-22) * 1j], ms.complex64))


def test_tolerances() -> None:
    assert_close(np.float32([1.0, 100.0]), np.float32([1.1, 110.0]), rtol=0.1)
    assert "atol 0.05" in message(np.float32([1.0]), np.float32([1.1]), atol=0.05)
    assert_close(np.float32([1.0, 1e-9]), np.float32([1.0, 2e-9]), ulps=1, atol=1e-8)
    assert_close([1, 2], [2, 2], atol=1)
    with pytest.raises(ValueError, match="'ulps' must not be negative, but got -1"):
        assert_close(1.0, 1.0, ulps=-1)


def test_structures() -> None:
    a = {"x": [Tensor([1.0, 2.0]), (3, None)], "y": "text"}
    assert_close(a, {"x": [np.float32([1, 2]), (3, None)], "y": "text"})
    b = {"x": [Tensor([1.0, 2.5]), (4, 1)], "z": 0}
    text = message(a, b)
    assert "only actual has the keys 'y'" in text and "only desired has the keys 'z'" in text
    assert "at ['x'][0]: 1 of 2 elements of float32[2] differ by more than 16 ulps" in text
    assert "[1]: actual 2.0, desired 2.5" in text
    assert "at ['x'][1][1]: actual is None, desired 1" in text
    assert "actual has 2 parts, desired 1" in message([1, 2], [1])
    assert "actual is a dict, desired a list" in message({}, [])


def test_types_and_shapes() -> None:
    assert message(Tensor([1.0]), Tensor([1.0], ms.float64)) == \
        "assert_close: actual is float32[1], desired float64[1]"
    assert_close(Tensor([1.0]), Tensor([1.0], ms.float64), check_dtype=False)
    assert_close(Tensor([0.1]), Tensor([0.1], ms.float64), check_dtype=False)
    assert "float32[2]" in message(Tensor([1.0]), Tensor([1.0, 1.0]))
    assert_close(Tensor([1.0, 2.0]), [1.0, 2.0])
    assert_close(Tensor(1.0), 1.0)
    assert_close(Tensor(3), 3)
    message(Tensor(3), 3.5)
    message(Tensor(1.0), 1 + 1j)


def test_the_worst_element_is_named() -> None:
    a = np.ones((3, 4), np.float32)
    b = a.copy()
    b[1, 2] += 1
    b[2, 0] += 2
    assert message(a, b) == (
        "assert_close: 2 of 12 elements of float32[3,4] differ by more than 16 ulps; the worst, "
        "[2, 0]: actual 1.0, desired 3.0, 1.25829e+07 ulps apart (2)")


def test_empty() -> None:
    assert_close(np.zeros((0, 3)), np.zeros((0, 3)))
