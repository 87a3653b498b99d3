"""Transforms of values, as MindSpore 2.10 gives them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import cellc as ms
import cellc.dataset as ds
from cellc.dataset.transforms import (
    Compose,
    Concatenate,
    Duplicate,
    Fill,
    Mask,
    OneHot,
    PadEnd,
    RandomApply,
    RandomChoice,
    RandomOrder,
    Relational,
    Slice,
    TypeCast,
    Unique,
)

A = np.array([3, 1, 2, 1])
TABLE = np.arange(6).reshape(2, 3)


@pytest.mark.parametrize(("transform", "value", "expected", "dtype"), [
    (OneHot(4), A, [[0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0]], "int64"),
    (OneHot(5), np.array(3, np.uint32), [0, 0, 0, 1, 0], "uint32"),
    (OneHot(5), 3, [0, 0, 0, 1, 0], "int64"),
    (OneHot(5, 0.1), np.array(3), [0.02, 0.02, 0.02, 0.92, 0.02], "float64"),
    (Fill(3), np.ones(2, np.float32), [3.0, 3.0], "float32"),
    (Fill("x"), np.array(["a", "bc"]), ["x", "x"], "str32"),
    (Concatenate(0, np.array([7]), np.array([8, 9])), A, [7, 3, 1, 2, 1, 8, 9], "int64"),
    (PadEnd([6], 9), A, [3, 1, 2, 1, 9, 9], "int64"),
    (PadEnd([2]), A, [3, 1], "int64"),
    (PadEnd([3], "p"), np.array(["a"]), ["a", "p", "p"], "str32"),
    (Slice(slice(1, 3)), A, [1, 2], "int64"),
    (Slice(1), A, [1], "int64"),
    (Slice([0, 2]), A, [3, 2], "int64"),
    (Slice(None), A, [3, 1, 2, 1], "int64"),
    (Slice(...), A, [3, 1, 2, 1], "int64"),
    (Slice(slice(0, 1), slice(0, 2)), TABLE, [[0, 1]], "int64"),
    (TypeCast(ms.float32), A, [3.0, 1.0, 2.0, 1.0], "float32"),
    (TypeCast(np.uint8), A, [3, 1, 2, 1], "uint8"),
    (TypeCast("int32"), np.array([1.7, -1.7]), [1, -1], "int32"),
    (Mask(Relational.EQ, 2), A, [False, False, True, False], "bool"),
    (Mask(Relational.NE, 2), A, [True, True, False, True], "bool"),
    (Mask(Relational.GT, 2), A, [True, False, False, False], "bool"),
    (Mask(Relational.GE, 2), A, [True, False, True, False], "bool"),
    (Mask(Relational.LT, 2), A, [False, True, False, True], "bool"),
    (Mask(Relational.LE, 2, ms.int32), A, [0, 1, 1, 1], "int32"),
    (Compose([lambda x: x + 1, TypeCast(ms.float32)]), A, [4.0, 2.0, 3.0, 2.0], "float32"),
    (RandomApply([lambda x: x + 1], 1.0), A, [4, 2, 3, 2], "int64"),
    (RandomApply([lambda x: x + 1], 0.0), A, [3, 1, 2, 1], "int64"),
    (RandomChoice([lambda x: x + 1]), A, [4, 2, 3, 2], "int64"),
    (RandomOrder([lambda x: x + 1, lambda x: x - 1]), A, [3, 1, 2, 1], "int64"),
])
def test_facts(transform, value, expected, dtype):
    made = transform(value)
    assert made.tolist() == expected
    assert made.dtype.name == dtype


def test_several_results():
    twice = Duplicate()(A)
    assert [v.tolist() for v in twice] == [[3, 1, 2, 1]] * 2
    found = Unique()(np.array([[3, 1], [3, 9]]))
    assert [v.tolist() for v in found] == [[3, 1, 9], [0, 1, 0, 2], [2, 1, 1]]
    assert [v.dtype for v in found] == [np.int64, np.int32, np.int32]
    assert Concatenate(0)(A, A).tolist() == [3, 1, 2, 1, 3, 1, 2, 1]


def test_in_pipelines():
    data = ds.NumpySlicesDataset({"a": np.arange(3)}, shuffle=False)
    rows = data.map(Duplicate(), ["a"], ["b", "c"]).create_tuple_iterator(output_numpy=True)
    assert [[int(v) for v in row] for row in rows] == [[0, 0], [1, 1], [2, 2]]
    swap = Compose([lambda a: (a, a + 1), lambda a, b: (b, a)])
    rows = data.map(swap, ["a"], ["b", "c"]).create_tuple_iterator(output_numpy=True)
    assert [[int(v) for v in row] for row in rows] == [[1, 0], [2, 1], [3, 2]]
    batches = data.map([TypeCast(ms.int32), OneHot(3)], "a").batch(3)
    assert next(iter(batches))[0].asnumpy().tolist() == np.eye(3).tolist()


def test_random_choices_take_all_ways():
    ds.config.set_seed(2)
    steps = [lambda x: x + 1, lambda x: x * 2]
    choice, order, apply = RandomChoice(steps), RandomOrder(steps), RandomApply(steps, 0.5)
    three = np.array(3)
    assert {int(choice(three)) for _ in range(40)} == {4, 6}
    assert {int(order(three)) for _ in range(40)} == {7, 8}
    assert {int(apply(three)) for _ in range(40)} == {3, 8}
    assert pickle.loads(pickle.dumps(RandomApply([Fill(1)]))).prob == 0.5


def test_errors():
    for make, kind, message in (
        (lambda: OneHot(2)(A), RuntimeError, "from 0 to 1, but there are 1 to 3"),
        (lambda: OneHot(2)(np.array(1.0)), RuntimeError, "integers, but are float64"),
        (lambda: OneHot(0), ValueError, "num_classes"),
        (lambda: Fill("x")(A), RuntimeError, "cannot be filled"),
        (lambda: Concatenate(0, np.array([7.0]))(A), RuntimeError, "types differ"),
        (lambda: PadEnd([3, 3])(A), RuntimeError, "pad shape"),
        (lambda: Slice(9)(A), RuntimeError, "out of axis 0"),
        (lambda: Slice(slice(7, 9))(A), RuntimeError, "leaves nothing"),
        (lambda: Slice(0, 0)(A), RuntimeError, "2 slices for 1 axes"),
        (lambda: TypeCast(ms.int32)(np.array(["1"])), RuntimeError, "strings cannot be cast"),
        (lambda: TypeCast("q_"), TypeError, "'data_type' must be a dtype"),
        (lambda: Mask(2, 1), TypeError, "operator"),
        (lambda: Compose([]), ValueError, "must be a list of transforms"),
        (lambda: Compose([3]), TypeError, "must be a list of transforms"),
        (lambda: RandomApply([Fill(1)], 2.0), ValueError, "'prob' must be a number in"),
    ):
        with pytest.raises(kind, match=message):
            make()


@pytest.mark.parametrize(("shape", "wanted"), [
    ((), (4,)), ((1,), (4,)), ((3,), (3, 4)), ((3, 1), (3, 4)), ((2, 1, 1), (2, 4)),
])
def test_one_hot_leaves_out_axes_of_one_label(
    shape: tuple[int, ...], wanted: tuple[int, ...]
) -> None:
    made = OneHot(4)(np.ones(shape, np.int64))
    assert made.shape == wanted
    np.testing.assert_array_equal(made.reshape(-1, 4), [[0, 1, 0, 0]] * (made.size // 4))
