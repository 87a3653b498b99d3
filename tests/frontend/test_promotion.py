"""Implicit conversion of element types."""

from __future__ import annotations

import pytest

from cellc.tensors.promotion import promoted, weak
from cellc_runtime import dtypes as dt

from .cases import PROMOTION
from .comparing import disagreements


def test_all_pairs_agree_with_the_oracle() -> None:
    assert disagreements(PROMOTION) == []


@pytest.mark.parametrize(("a", "b", "want"), [
    (dt.int8, dt.uint8, dt.int16), (dt.uint8, dt.int32, dt.int32),
    (dt.int64, dt.float16, dt.float16),
    (dt.float16, dt.bfloat16, dt.float32), (dt.float64, dt.complex64, dt.complex128),
    (dt.bool_, dt.uint32, dt.uint32),
])
def test_two_types_meet(a: dt.DType, b: dt.DType, want: dt.DType) -> None:
    assert promoted(a, b) is want
    assert promoted(b, a) is want


def test_wide_unsigned_types_do_not_meet_others() -> None:
    with pytest.raises(TypeError, match="implicit conversion"):
        promoted(dt.uint16, dt.int32)


def test_python_numbers_are_weak() -> None:
    assert weak(dt.float16, 2.5) is dt.float16
    assert weak(dt.int64, 2.5) is dt.float32
    assert weak(dt.bool_, 3) is dt.int64
    assert weak(dt.int8, True) is dt.int8
