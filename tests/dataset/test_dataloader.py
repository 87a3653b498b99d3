"""`dataset.dataloader`: batches here and by workers, samplers, and what MindSpore made of them."""

from __future__ import annotations

from collections import UserDict, namedtuple

import numpy as np
import pytest

import cellc as ms
from cellc.dataset.dataloader import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    default_collate,
    default_convert,
    get_worker_info,
)

from .test_workers import program

Pair = namedtuple("Pair", "a b")


@pytest.fixture(autouse=True)
def _threads(monkeypatch):
    """A process that runs tests may have threads, beside which it must not fork."""
    monkeypatch.setattr("cellc.dataset.dataloader.loader.start_method", lambda *a: None)


class Rows(Dataset):
    """Numbers by position, or what a function makes of them."""

    def __init__(self, count=7, function=int):
        self.count, self.function = count, function

    def __getitem__(self, index):
        return self.function(index)

    def __len__(self):
        return self.count


class Stream(IterableDataset):
    """Numbers one after the other; each worker has those of its own."""

    def __iter__(self):
        info = get_worker_info()
        return iter(range(7) if info is None else range(info.id, 7, info.num_workers))

    def __len__(self):
        return 7


def plain(value):
    """Tensors as lists, with their dtypes where these are not int64."""
    if isinstance(value, ms.Tensor):
        kind = str(value.dtype)
        return value.asnumpy().tolist() if kind == "Int64" else (value.asnumpy().tolist(), kind)
    if isinstance(value, (dict, UserDict)):
        return type(value)({k: plain(v) for k, v in value.items()})
    return [plain(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("batch", "expected"), [
    ([1, 2], [1, 2]), ([1.5, 2], ([1.5, 2.0], "Float64")), ([True, False], ([True, False], "Bool")),
    ([1, 2.5], ([1.0, 2.5], "Float32")), (["a", "b"], ["a", "b"]),
    ([np.float32(1), np.float32(2)], ([1.0, 2.0], "Float32")), ([np.int8(3)], ([3], "Int8")),
    ([np.ones(2, np.float16)] * 2, ([[1.0, 1.0]] * 2, "Float16")),
    ([ms.Tensor([1, 2])] * 2, [[1, 2]] * 2), ([(1, "a"), (2, "b")], [[1, 2], ("a", "b")]),
    ([Pair(1, 2), Pair(3, 4)], Pair(ms.Tensor([1, 3]), ms.Tensor([2, 4]))),
    ([{"a": 1, "b": [1, 2]}, {"a": 2, "b": [3, 4]}], {"a": [1, 2], "b": [[1, 3], [2, 4]]}),
    ([UserDict(a=1), UserDict(a=2)], UserDict(a=[1, 2])),
    ([range(2), range(2)], [[0, 0], [1, 1]]),
])
def test_collated_as_in_mindspore(batch, expected):
    found = default_collate(batch)
    if isinstance(expected, Pair):
        assert isinstance(found, Pair)
        found, expected = [*found], [*expected]
    assert plain(found) == plain(expected)


@pytest.mark.parametrize(("batch", "error", "said"), [
    ([[1], [1, 2]], RuntimeError, "equal size"), ([None, None], TypeError, "NoneType"),
    ([{1}, {2}], TypeError, "collate function for type"),
    ([np.array(["a"])], TypeError, "not supported for collation"),
    ([np.ones(2), np.ones(3)], ValueError, "same shape"),
])
def test_what_cannot_be_collated(batch, error, said):
    with pytest.raises(error, match=said):
        default_collate(batch)


def test_converted_as_in_mindspore():
    given = (1, np.float32(2), np.ones(2, np.int8), np.array(["x"]), [np.bool_(True)], None)
    found = default_convert(given)
    assert plain([v for v in found if not isinstance(v, np.ndarray)]) == [
        1, (2.0, "Float32"), ([1, 1], "Int8"), [(True, "Bool")], None]
    assert found[3] is given[3]
    assert isinstance(default_convert(Pair(1, np.ones(1))), Pair)
    assert plain(default_convert(UserDict(a=np.int8(1)))) == UserDict(a=(1, "Int8"))


@pytest.mark.parametrize(("options", "of_rows", "of_stream"), [
    ({}, [[0], [1], [2], [3], [4], [5], [6]], [[0], [1], [2], [3], [4], [5], [6]]),
    ({"batch_size": 3}, [[0, 1, 2], [3, 4, 5], [6]], [[0, 1, 2], [3, 4, 5], [6]]),
    ({"batch_size": 3, "drop_last": True}, [[0, 1, 2], [3, 4, 5]], [[0, 1, 2], [3, 4, 5]]),
    ({"batch_size": None}, [0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6]),
    ({"batch_size": 4, "collate_fn": len}, [4, 3], [4, 3]),
    ({"batch_size": 2, "num_workers": 2}, [[0, 1], [2, 3], [4, 5], [6]],
     [[0, 2], [1, 3], [4, 6], [5]]),
    ({"batch_size": 2, "num_workers": 2, "drop_last": True, "prefetch_factor": 1},
     [[0, 1], [2, 3], [4, 5]], [[0, 2], [1, 3], [4, 6]]),
    ({"batch_size": 3, "num_workers": 2, "persistent_workers": True, "timeout": 60},
     [[0, 1, 2], [3, 4, 5], [6]], [[0, 2, 4], [1, 3, 5], [6]]),
])
def test_batches_of_epochs(options, of_rows, of_stream):
    for data, expected in ((Rows(), of_rows), (Stream(), of_stream)):
        loader = DataLoader(data, **options)
        assert [plain(list(loader)) for _ in range(2)] == [expected] * 2
        assert len(loader) == (2 if options.get("drop_last") and isinstance(data, Stream)
                               and options["batch_size"] == 3 else -(-7 // options["batch_size"])
                               if options.get("batch_size") and not options.get("drop_last")
                               else 7 // (options.get("batch_size", 1) or 1))


def test_which_rows_are_taken():
    assert plain(list(DataLoader(Rows(), sampler=[4, 2, 2]))) == [[4], [2], [2]]
    assert plain(list(DataLoader(Rows(), batch_sampler=[[1, 2], [0]]))) == [[1, 2], [0]]
    drawn = DataLoader(Rows(), 7, shuffle=True, generator=np.random.default_rng(3))
    assert plain(list(drawn)) == [np.random.default_rng(3).permutation(7).tolist()]
    options = {"batch_size": 2, "num_workers": 2, "timeout": 60, "in_order": False}
    assert sorted(plain(list(DataLoader(Rows(), **options)))) == [[0, 1], [2, 3], [4, 5], [6]]
    assert get_worker_info() is None


def test_batches_of_processes():
    """As MindSpore gives them, what workers draw included."""
    found = program("loaded")
    assert found["rows"] == [[[0, 1], [2, 3], [4, 5], [6]]] * 2
    assert found["stream"] == [[[0, 2], [1, 3], [4, 6], [5]]] * 2
    assert found["kept"] == [[[0, 2, 4], [1, 3, 5], [6]]] * 2
    assert found["again"] == found["any_order"] == [[n] for n in range(7)]
    seed = 4720721261117928063
    assert [row[:4] for row in found["draws"]] == [
        [0, 0, seed, 2], [1, 1, seed + 1, 2], [2, 0, seed, 2]]
    assert np.allclose([row[4:] for row in found["draws"]], [
        [0.42750527101209823, 0.9878957198866675], [0.924626180138479, 0.220176790609392],
        [0.30867865257412996, 0.9702986711185907]], rtol=0, atol=1e-15)
    assert found["three"].startswith("DataLoader worker 1 failed: ZeroDivisionError")
    assert found["three"].endswith("then [[4], [5], [6]]")
    assert "exit code 3" in found["leaves"]
    assert "timed out waiting for data after 0.2 seconds" in found["late"]
    assert found["here"] == "None"


def fails(index):
    """Of one row."""
    if index == 3:
        raise ValueError("three")
    return index


def test_failures_are_told():
    with pytest.raises(ValueError, match="three"):
        list(DataLoader(Rows(7, fails)))
    with pytest.raises(RuntimeError, match="DataLoader worker 1 failed: ValueError: three"):
        list(DataLoader(Rows(7, fails), num_workers=2))
    with pytest.raises(RuntimeError, match="DataLoader worker 0 failed: ZeroDivisionError"):
        list(DataLoader(Rows(), num_workers=1, worker_init_fn=lambda n: 1 // n))


@pytest.mark.parametrize(("options", "error"), [
    ({"batch_size": 0}, ValueError), ({"batch_size": True}, TypeError), ({"shuffle": 1}, TypeError),
    ({"sampler": [1], "shuffle": True}, ValueError), ({"num_workers": -1}, ValueError),
    ({"batch_size": 2, "batch_sampler": [[1]]}, ValueError), ({"timeout": -1}, ValueError),
    ({"prefetch_factor": 2}, ValueError), ({"persistent_workers": True}, ValueError),
    ({"multiprocessing_context": "fork"}, ValueError), ({"generator": 3}, TypeError),
    ({"multiprocessing_context": "x", "num_workers": 1}, TypeError),
])
def test_wrong_options_are_errors(options, error):
    with pytest.raises(error, match=next(iter(options))):
        DataLoader(Rows(), **options)
    with pytest.raises(ValueError, match="iterable style"):
        DataLoader(Stream(), sampler=[1])
    with pytest.raises(TypeError, match="__getitem__"):
        DataLoader(3)


def test_random_samplers_draw_what_mindspores_draw():
    data = list(range(10))
    np.random.seed(5)
    assert list(RandomSampler(data)) == [0, 4, 3, 2, 1, 8, 5, 6, 7, 9]
    assert list(RandomSampler(data, True, 40))[28:] == [3, 4, 8, 4, 3, 2, 0, 9, 6, 2, 3, 9]
    assert list(RandomSampler(data, num_samples=23))[18:] == [9, 5, 7, 6, 2]
    assert len(RandomSampler(data, num_samples=23)) == 23
    for wrong in ((1,), (False, 0), (False, 2.0), (False, 2, 3)):
        with pytest.raises((TypeError, ValueError), match=r"replacement|num_samples|generator"):
            RandomSampler(data, *wrong)


@pytest.mark.parametrize(("options", "first", "then"), [
    ((3, 0), [4, 7, 9, 1], [2, 6, 3, 1]), ((3, 2), [2, 5, 8, 6], [7, 5, 8, 0]),
    ((3, 1, False), [1, 4, 7, 0], [1, 4, 7, 0]), ((3, 0, False, 0, True), [0, 3, 6], [0, 3, 6]),
    ((4, 3, True, 7, True), [1, 4], [9, 4]), ((13, 12, False), [2], [2]),
    ((25, 3, False), [3], [3]),
])
def test_distributed_samplers_take_what_mindspores_take(options, first, then):
    sampler = DistributedSampler(list(range(10)), *options)
    assert list(sampler) == first and len(sampler) == len(first)
    sampler.set_epoch(2)
    assert list(sampler) == then


def test_other_samplers_and_tensors():
    data = list(range(10))
    assert list(DistributedSampler(data, shuffle=False)) == data
    for wrong in ((3, 3), (0, 0), (3, -1), (2.0, 1), (2, 1, 3)):
        with pytest.raises((TypeError, ValueError), match=r"num_replicas|rank|shuffle"):
            DistributedSampler(data, *wrong)
    batches = BatchSampler(SequentialSampler(data), 4, False)
    assert list(batches) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]] and len(batches) == 3
    assert len(BatchSampler(data, 4, True)) == len(list(BatchSampler(data, 4, True))) == 2
    tensors = TensorDataset(ms.Tensor([0, 1], ms.int32), ms.Tensor([[2.0], [3.0]]))
    assert len(tensors) == 2
    assert plain(list(DataLoader(tensors, 2))) == [[([0, 1], "Int32"), ([[2.0], [3.0]], "Float32")]]
    with pytest.raises(ValueError, match="same size"):
        TensorDataset(ms.Tensor([0, 1]), ms.Tensor([1]))
