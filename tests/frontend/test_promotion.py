"""Implicit conversion of element types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor
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


def of_lists(x: Any, y: Any) -> Any:
    return (x + (y, 2), [[y, 1], [2, y]] - x, x * [y, 2.5], (1.5, y) * x, x // (y, 3),
            ms.ops.add(x, (y, y)), x + (1, 2))


@pytest.mark.parametrize("kind", [ms.int64, ms.int32, ms.float16, ms.float32])
def test_lists_of_tensors_are_operands_in_both_modes(kind: Any) -> None:
    x, y = Tensor([1, 7], ms.int32), Tensor(3, kind)
    eager, graph = of_lists(x, y), ms.jit(of_lists)(x, y)
    assert eager[0].asnumpy().tolist() == [4, 9] and eager[0].dtype == ms.int32
    for a, b in zip(eager, graph, strict=True):
        assert a.dtype == b.dtype and a.asnumpy().tobytes() == b.asnumpy().tobytes()
    assert np.all(ms.jit(lambda x, y: x + [[y]])(x, y).asnumpy() == [[4, 10]])
