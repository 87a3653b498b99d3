"""Reading and writing parts of tensors: numpy's rules, and the oracle's."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from cellc.common.tensor import Tensor

from .cases import INDEXING
from .comparing import disagreements

KEYS: list[Any] = [
    0, -1, (0, 1), (slice(None), 1), (Ellipsis, 1), slice(None, None, -1), (slice(2, 0, -1), 1),
    None, (slice(None), None, 1), [0, 1], ([0, 1], [1, 2]), ([0, 1], slice(None), [1, 2]),
    (slice(None), [0, 2], [1, 3]), (0, slice(None), [1, 2]), (slice(None), 0, [1, 2]),
    (slice(-1, -3, -1), slice(2, 0, -1)), np.array([[0, 1], [1, 0]]), (slice(1, 0),),
    (slice(None), np.array([True, False, True])), ([0, 1], None, [0, 2]),
]


def test_indexing_agrees_with_the_oracle() -> None:
    assert disagreements(INDEXING) == []


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_reading_is_numpys(key: Any) -> None:
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert np.array_equal(Tensor(a)[key].asnumpy(), a[key])


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_writing_is_numpys(key: Any) -> None:
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for value in (np.float32(-7), np.arange(a[key].size, dtype=np.float32).reshape(a[key].shape)):
        want, got = a.copy(), Tensor(a)
        want[key] = value
        got[key] = Tensor(value)
        assert np.array_equal(got.asnumpy(), want)


def test_writing_through_a_mask() -> None:
    x = Tensor([1.0, -2.0, 3.0])
    x[x < 0] = 0
    assert x.tolist() == [1.0, 0.0, 3.0]
    x[x > 0] = Tensor([5.0, 6.0])
    assert x.tolist() == [5.0, 0.0, 6.0]


@pytest.mark.parametrize(("key", "kind", "text"), [
    (2, IndexError, "index 2 is out of bounds for axis 0 with size 2"),
    ((0, 0, 0, 0), IndexError, "too many indices: the tensor has 3 axes, but 4 were indexed"),
    ([0, 5], IndexError, "index 5 is out of bounds for axis 0 with size 2"),
    ("a", IndexError,
     "only integers, slices (`:`), ellipsis (`...`), None, and integer or bool tensors, lists and"),
    (1.5, IndexError,
     "only integers, slices (`:`), ellipsis (`...`), None, and integer or bool tensors, lists and"),
    ((Ellipsis, Ellipsis), IndexError, "an index can only have a single ellipsis ('...')"),
    (False, IndexError, "a tensor can be indexed by the bool True (a new axis), not by False"),
])
def test_bad_keys(key: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        Tensor(np.zeros((2, 3, 4), np.float32))[key]


def test_a_value_that_does_not_fit() -> None:
    x = Tensor(np.zeros((2, 3), np.float32))
    with pytest.raises(ValueError, match="cannot be written"):
        x[0] = Tensor([1.0, 2.0])
