"""Operations of pipelines: what MindSpore 2.10 gives, recorded; and errors that say where."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest

import cellc as ms
import cellc.dataset as ds


class Rows:
    """Rows (float32[2], int32) of a random-access source."""

    def __init__(self, count=5):
        self.count = count

    def __getitem__(self, i):
        return np.full(2, i, np.float32), np.int32(i)

    def __len__(self):
        return self.count


def rows(count=5):
    return ds.GeneratorDataset(Rows(count), ["a", "b"], shuffle=False)


def ragged():
    return ds.GeneratorDataset(lambda: iter([(np.arange(i + 1), i) for i in range(5)]), ["a", "b"])


def column(data, name="b"):
    rows = data.create_dict_iterator(num_epochs=1, output_numpy=True)
    return [row[name].tolist() for row in rows]


def test_importing_cellc_does_not_load_it():
    code = "import sys, cellc; assert 'cellc.dataset' not in sys.modules; cellc.dataset.zip"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_batch():
    data = rows().batch(2)
    assert [(r["a"].shape, r["b"].tolist()) for r in data.create_dict_iterator(output_numpy=True)] \
        == [((2, 2), [0, 1]), ((2, 2), [2, 3]), ((1, 2), [4])]
    assert column(rows().batch(2, True)) == [[0, 1], [2, 3]]
    assert data.get_dataset_size() == len(data) == 3
    assert rows().batch(2, drop_remainder=True).get_dataset_size() == 2
    assert (data.get_batch_size(), rows().get_batch_size()) == (2, 1)
    assert data.map(lambda a: a, "a").get_batch_size() == 2


def test_batch_size_from_a_function():
    data = rows().batch(lambda info: info.get_batch_num() + 1)
    assert column(data) == [[0], [1, 2], [3, 4]]
    assert (data.get_dataset_size(), data.get_batch_size()) == (3, -1)
    iterator = rows(3).batch(lambda info: info.get_epoch_num() + 1).create_dict_iterator(
        num_epochs=2, output_numpy=True)
    assert [[r["b"].tolist() for r in iterator] for _ in range(2)] == [
        [[0], [1], [2]], [[0, 1], [2]]]
    asked = []  # as in MindSpore, nobody asks for the size of a batch without rows
    assert column(rows(2).batch(lambda info: asked.append(info.get_batch_num()) or 1)) == [[0], [1]]
    assert asked == [0, 1]
    with pytest.raises(RuntimeError, match=r"must give a positive int, but returned 0"):
        column(rows().batch(lambda info: 0))


def test_per_batch_map():
    data = rows(2).batch(
        2, per_batch_map=lambda b, info: ([x + 10 for x in b], [x * 2 for x in b]),
        input_columns=["b"], output_columns=["c", "d"])
    assert data.get_col_names() == ["c", "d", "a"]
    (row,) = data.create_dict_iterator(output_numpy=True, num_epochs=1)
    assert (row["c"].tolist(), row["d"].tolist(), row["a"].shape) == ([10, 11], [0, 2], (2, 2))
    whole = rows(4).batch(2, per_batch_map=lambda a, b, info: (np.stack(a), np.stack(b) + 1))
    assert column(whole) == [[1, 2], [3, 4]]
    with pytest.raises(RuntimeError, match=r"'per_batch_map' should match .*but got 1"):
        column(rows(2).batch(2, per_batch_map=lambda a, b, info: (a,)))
    with pytest.raises(RuntimeError, match=r"batch 0 failed: ZeroDivisionError.*line"):
        column(rows(2).batch(2, per_batch_map=lambda a, b, info: 1 // 0))


def test_a_batch_of_unequal_rows_is_an_error():
    with pytest.raises(RuntimeError, match=r"column 'a'.*\(1,\), element 1 has shape \(2,\)"):
        column(ragged().batch(2))
    mixed = ds.GeneratorDataset([(1,), (1.5,)], ["x"], shuffle=False)
    with pytest.raises(RuntimeError, match=r"different types in column 'x'.*int64.*float64"):
        column(mixed.batch(2), "x")


def test_padded_batch():
    assert column(ragged().padded_batch(2, pad_info={"a": ([6], -1)}), "a")[0] == [
        [0, -1, -1, -1, -1, -1], [0, 1, -1, -1, -1, -1]]
    assert column(ragged().padded_batch(2, pad_info={"a": ([None], 7)}), "a") == [
        [[0, 7], [0, 1]], [[0, 1, 2, 7], [0, 1, 2, 3]], [[0, 1, 2, 3, 4]]]
    assert column(ragged().padded_batch(2, pad_info={}), "a")[0] == [[0, 0], [0, 1]]
    assert column(ragged().padded_batch(2, pad_info={"a": ([2], -1)}), "a") == [
        [[0, -1], [0, 1]], [[0, 1], [0, 1]], [[0, 1]]]
    words = ds.NumpySlicesDataset({"w": np.array([["a"], ["b"]])}, shuffle=False)
    assert column(words.padded_batch(2, pad_info={"w": ([2], "--")}), "w") == [
        [["a", "--"], ["b", "--"]]]
    with pytest.raises(RuntimeError, match=r"column 'a' has 1 axes, but the pad shape"):
        column(ragged().padded_batch(2, pad_info={"a": ([2, 2], 0)}))
    with pytest.raises(RuntimeError, match=r"pad_info: column 'z' doesn't exist"):
        column(ragged().padded_batch(2, pad_info={"z": ([2], 0)}))


def test_buckets():
    data = ragged().bucket_batch_by_length(["a"], [2, 4], [2, 2, 1], pad_info={"a": ([None], -1)})
    assert column(data, "a") == [
        [[0, 1, -1], [0, 1, 2]], [[0, 1, 2, 3]], [[0, 1, 2, 3, 4]], [[0]]]
    assert data.get_dataset_size() == 4
    data = ragged().bucket_batch_by_length(
        ["a"], [3, 6], [2, 3, 1], pad_info={"a": ([None], -1)}, pad_to_bucket_boundary=True)
    assert column(data, "a") == [
        [[0, -1], [0, 1]], [[0, 1, 2, -1, -1], [0, 1, 2, 3, -1], [0, 1, 2, 3, 4]]]
    data = ragged().bucket_batch_by_length(
        ["b"], [2, 4], [2, 2, 1], element_length_function=lambda b: b,
        pad_info={"a": ([None], -1)}, drop_remainder=True)
    assert column(data) == [[0, 1], [2, 3], [4]]
    with pytest.raises(ValueError, match="strictly increasing"):
        ragged().bucket_batch_by_length(["a"], [4, 2], [2, 2, 1])
    with pytest.raises(ValueError, match="one element more than"):
        ragged().bucket_batch_by_length(["a"], [2, 4], [2, 2])


def test_repeat_take_skip():
    assert column(rows(2).repeat(2)) == [0, 1, 0, 1]
    assert (rows(2).repeat(3).get_dataset_size(), rows(2).repeat(3).get_repeat_count()) == (6, 3)
    assert rows(2).repeat(3).batch(2).get_repeat_count() == 3
    assert (rows(2).repeat().get_dataset_size(), rows(2).repeat().get_repeat_count()) == (2, -1)
    endless = rows(2).repeat().create_tuple_iterator(output_numpy=True)
    assert [int(r[1]) for r in islice(endless, 5)] == [0, 1, 0, 1, 0]
    assert list(rows().skip(9).repeat()) == []
    assert [column(rows().take(n)) for n in (2, 9, -1)] == [[0, 1], [*range(5)], [*range(5)]]
    assert (rows().take(2).get_dataset_size(), rows().take(9).get_dataset_size()) == (2, 5)
    assert [column(rows().skip(n)) for n in (0, 3, 9)] == [[*range(5)], [3, 4], []]
    assert (rows().skip(3).get_dataset_size(), rows().skip(9).get_dataset_size()) == (2, 0)
    for wrong, text in (
        (lambda: rows().repeat(0), "'count' must be -1 or a positive int"),
        (lambda: rows().take(0), "'count' must be -1 or a positive int, but got 0"),
        (lambda: rows().take(-2), "'count' must be -1 or a positive int, but got -2"),
        (lambda: rows().skip(-1), "'count' must be a non-negative int, but got -1"),
        (lambda: rows().batch(0), "'batch_size' must be a positive int or a function, but got 0"),
        (lambda: rows().shuffle(1), "'buffer_size' must be an int of 2 or more, but got 1"),
    ):
        with pytest.raises(ValueError, match=text):
            wrong()
    with pytest.raises(TypeError, match="'batch_size' must be a positive int or a function"):
        rows().batch("2")


def test_map():
    assert column(rows(2).map(lambda a: a + 1), "a") == [[1, 1], [2, 2]]
    assert column(rows(2).map([lambda a: a + 1, lambda a: a * 2], ["a"]), "a") == [[2, 2], [4, 4]]
    split = rows(2).map(lambda b: (b, b + 1), ["b"], ["c", "d"])
    assert split.get_col_names() == ["c", "d", "a"]
    assert (column(split, "c"), column(split, "d")) == ([0, 1], [1, 2])
    joined = rows(2).map(lambda a, b: a[0] + b, ["a", "b"], ["c"])
    assert joined.get_col_names() == ["c"]
    assert column(joined, "c") == [0, 2]
    assert rows().map(lambda b, a: (b, a), ["b", "a"], ["x", "y"]).get_col_names() == ["y", "x"]
    assert column(rows(1).map(lambda a: "x", "a"), "a") == ["x"]
    assert column(rows(1).map(lambda a: ms.Tensor(a) + 1, "a"), "a") == [[1, 1]]


def boom(a):
    raise ValueError(f"boom {a[0]}")


def test_errors_of_map_say_where():
    with pytest.raises(RuntimeError, match=r"'boom' on column\(s\) \['a'\] of row 0 failed: "
                       r"ValueError: boom 0\.0 \(.*test_pipeline\.py, line \d+\)") as caught:
        column(rows().map(boom, ["a"]))
    assert isinstance(caught.value.__cause__, ValueError)
    for function, taken, message in (
        (lambda a, b: a, ["a", "b"], r"'output_columns' \['a', 'b'\], but got 1"),
        (lambda a: (a, a), ["a"], r"'output_columns' \['a'\], but got 2"),
        (lambda a: a, ["zz"], r"column 'zz' doesn't exist in the dataset columns \['a', 'b'\]"),
        (lambda a: None, ["a"], r"column 'a': expected an array.*but got None"),
    ):
        with pytest.raises(RuntimeError, match=message):
            column(rows().map(function, taken))
    with pytest.raises(ValueError, match="should be callable, but got: 3"):
        rows().map(3, ["a"])
    with pytest.raises(TypeError, match="unexpected keyword argument 'wrong'"):
        rows().map(boom, wrong=1)


def test_rows_that_fail_can_be_left_out_or_replaced():
    def odd(b):
        if b % 2 == 0:
            raise ValueError(b)
        return b

    mode = ds.config.ErrorSamplesMode
    try:
        ds.config.set_error_samples_mode(mode.SKIP)
        assert column(rows().map(odd, "b")) == [1, 3]
        ds.config.set_error_samples_mode(mode.REPLACE)
        assert column(rows().map(odd, "b")) == [1, 1, 1, 3, 3]
    finally:
        ds.config.set_error_samples_mode(mode.RETURN)


def test_filter():
    assert column(rows().filter(lambda a, b: b % 2)) == [1, 3]
    data = rows().filter(lambda b: b > 2, ["b"])
    assert (column(data), data.get_dataset_size()) == ([3, 4], 2)
    with pytest.raises(RuntimeError, match=r"filter predicate .* of row 0 failed: ZeroDivision"):
        column(rows().filter(lambda b: 1 // 0, "b"))


def test_zip_and_concat():
    other = rows(2).rename(["a", "b"], ["c", "d"])
    for both in (ds.zip((rows(3), other)), rows(3).zip(other), rows(3).zip((other,))):
        assert both.get_col_names() == ["a", "b", "c", "d"]
        assert (both.get_dataset_size(), column(both, "d")) == (2, [0, 1])
    with pytest.raises(RuntimeError, match="duplicate column 'a'"):
        ds.zip((rows(), rows())).get_col_names()
    with pytest.raises(ValueError, match="just one dataset"):
        ds.zip((rows(),))
    with pytest.raises(TypeError, match="tuple"):
        ds.zip([rows()])
    assert column(rows(2) + rows(3)) == [0, 1, 0, 1, 2]
    assert (rows(2) + rows(3)).get_dataset_size() == 5
    assert column(rows(2).concat([rows(1), rows(2)])) == [0, 1, 0, 0, 1]
    with pytest.raises(RuntimeError, match="'column name' or 'column order'"):
        column(rows() + rows().rename("a", "c"))
    with pytest.raises(RuntimeError, match="column 'a' has float32 of 1 axes and int64"):
        column(rows() + ds.GeneratorDataset([(np.arange(2), np.int32(5))], ["a", "b"]))


def test_columns():
    assert rows().project("b").get_col_names() == ["b"]
    assert rows().project(["b", "a"]).get_col_names() == ["b", "a"]
    assert [type(v).__name__ for v in next(iter(rows().project("b")))] == ["Tensor"]
    assert rows().rename(["a", "b"], ["b", "a"]).get_col_names() == ["b", "a"]
    for wrong in (rows().project("z"), rows().rename("z", "c"), rows().rename("a", "b")):
        with pytest.raises(RuntimeError, match="column"):
            wrong.get_col_names()
    with pytest.raises(ValueError, match="not equal"):
        rows().rename(["a"], ["c", "d"])
    with pytest.raises(ValueError, match="'columns' must be a name, or a list of different names"):
        rows().project(["a", "a"])


def test_split():
    parts = rows(10).split([0.5, 0.3, 0.2], randomize=False)
    assert [column(p) for p in parts] == [[0, 1, 2, 3, 4], [5, 6, 7], [8, 9]]
    assert [p.get_dataset_size() for p in rows(5).split([0.5, 0.5])] == [3, 2]
    assert [p.get_dataset_size() for p in rows(7).split([0.3, 0.3, 0.4])] == [2, 2, 3]
    assert type(rows().split([2, 3])[0]) is ds.GeneratorDataset
    for data in (
        rows(10), ds.GeneratorDataset(Rows(10), ["a", "b"]),
        ds.NumpySlicesDataset({"b": np.arange(10)}).map(lambda b: b, "b"), rows(10).shuffle(4),
    ):
        first, second = data.split([4, 6])
        for _ in range(2):  # the rows of a part stay the same over the epochs
            assert sorted(column(first) + column(second)) == list(range(10))
    for sizes, kind, text in (
        ([4, 7], RuntimeError, "Sum of split sizes 11 is not equal to dataset size 10"),
        ([0.5, 0.7], ValueError,
         "sizes is a list of float, but the percentages do not sum up to 1"),
        ([], ValueError, "sizes cannot be empty"),
        ([0, 10], ValueError, "there should be no negative or zero numbers in sizes"),
        (["a"], ValueError, "sizes should be list of int or list of float"),
    ):
        with pytest.raises(kind, match=re.escape(text)):
            rows(10).split(sizes)


def test_apply_and_flat_map():
    assert column(rows(4).apply(lambda d: d.batch(2))) == [[0, 1], [2, 3]]
    with pytest.raises(TypeError, match="must return a dataset"):
        rows().apply(lambda d: 3)
    flat = rows(3).flat_map(
        lambda a, b: ds.NumpySlicesDataset({"b": [int(b)] * 2}, shuffle=False))
    assert column(flat) == [0, 0, 1, 1, 2, 2]


def test_shuffle_is_complete_and_follows_the_seed():
    ms.set_seed(3)
    data = rows(20).shuffle(5)
    first, again = column(data), column(data)
    assert first == again
    assert sorted(first) == list(range(20)) != first
    iterator = data.create_dict_iterator(num_epochs=2, output_numpy=True)
    epochs = [[int(r["b"]) for r in iterator] for _ in range(2)]
    assert epochs[0] == first != epochs[1]
    ms.set_seed(4)
    assert column(data) != first
    ds.config.set_seed(3)
    assert (column(data), ds.config.get_seed()) == (first, 3)


def test_what_a_dataset_says_of_itself():
    assert rows().output_shapes() == [[2], []]
    assert rows().batch(2).output_shapes(estimate=True) == [[None, 2], [None]]
    assert rows().output_types() == [np.float32, np.int32]
    assert ds.NumpySlicesDataset(["a"]).output_types()[0].kind == "U"
    assert (rows().num_classes(), rows().get_class_indexing()) == (None, {})
    data = rows()
    assert data.input_indexs == ()
    data.input_indexs = 1
    assert data.input_indexs == 1


def test_iterators():
    assert [[type(v).__name__ for v in row] for row in rows(1)] == [["Tensor", "Tensor"]]
    assert [[v.shape for v in row] for row in rows(1).create_tuple_iterator(["b", "a"])] == [
        [(), (2,)]]
    iterator = rows(2).create_dict_iterator(num_epochs=2, output_numpy=True)
    assert [[int(r["b"]) for r in iterator] for _ in range(2)] == [[0, 1], [0, 1]]
    with pytest.raises(RuntimeError, match=r"made for 2 epoch\(s\)"):
        next(iterator)
    one = next(rows(2).create_tuple_iterator(num_epochs=1, output_numpy=True))
    assert type(one) is list
    assert type(one[1]) is np.ndarray
    words = ds.NumpySlicesDataset({"s": ["a", "b"]}, shuffle=False)
    assert [r["s"].tolist() for r in words.create_dict_iterator()] == ["a", "b"]
    for wrong, kind, text in (
        (lambda: rows().create_tuple_iterator(num_epochs=0), RuntimeError,
         "num_epochs should be either -1 or positive integer, num_epochs: 0"),
        (lambda: rows().create_tuple_iterator(output_numpy=3), TypeError,
         "'output_numpy' must be a bool, but got 3"),
        (lambda: rows().create_tuple_iterator("z"), RuntimeError,
         "create_tuple_iterator: column 'z' doesn't exist in the dataset columns ['a', 'b']"),
    ):
        with pytest.raises(kind, match=re.escape(text)):
            wrong()


def test_rows_do_not_share_memory_with_the_source():
    kept = np.zeros((3, 2), np.float32)
    for row in ds.NumpySlicesDataset(kept, shuffle=False).create_tuple_iterator(output_numpy=True):
        row[0] += 1
    ds.NumpySlicesDataset(kept).map(lambda x: np.add(x, 1, out=x)).output_shapes()
    assert not kept.any()


def test_sync_wait_and_device_queues():
    heard = []
    data = rows(2).sync_wait("policy", callback=heard.append).batch(2)
    data.sync_update("policy", data={"loss": 1})
    assert (heard, column(data)) == ([{"loss": 1}], [[0, 1]])
    with pytest.raises(RuntimeError, match="not found"):
        data.sync_update("other")
    with pytest.raises(RuntimeError, match="already in use"):
        data.sync_wait("policy")
    assert column(rows(2).device_que()) == [0, 1]
    with pytest.raises(RuntimeError, match="not written"):
        rows().to_json()


def test_settings_are_kept():
    assert ds.config.get_prefetch_size() == 16
    ds.config.set_prefetch_size(3)
    assert ds.config.get_prefetch_size() == 3
    ds.config.set_prefetch_size(16)
    before = ds.config.get_multiprocessing_timeout_interval()
    ds.config.set_multiprocessing_timeout_interval(7)
    assert ds.config.get_multiprocessing_timeout_interval() == 7
    ds.config.set_multiprocessing_timeout_interval(before)
    for setter, value, kind, text in (
        (ds.config.set_seed, -1, ValueError, "'seed' must be a non-negative int, but got -1"),
        (ds.config.set_seed, 2**32, ValueError, "'seed' must be at most 4294967295"),
        (ds.config.set_seed, "a", TypeError, "'seed' must be a non-negative int, but got 'a'"),
        (ds.config.set_prefetch_size, 0, ValueError, "'size' must be a positive int, but got 0"),
        (ds.config.set_num_parallel_workers, 0, ValueError,
         "For 'set_num_parallel_workers', 'num' must be a positive int, but got 0"),
        (ds.config.set_enable_shared_mem, 1, TypeError, "'enable' must be a bool, but got 1"),
        (ds.config.set_multiprocessing_start_method, "x", ValueError,
         "'start_method' must be one of 'fork', 'spawn', but got 'x'"),
    ):
        with pytest.raises(kind, match=re.escape(text)):
            setter(value)
    assert ds.config.get_iterator_mode() == {"do_copy": False, "parallel_convert": False}


def joined() -> ds.ConcatDataset:
    """Two datasets, the numbers from 1 to 7."""
    first, second = (ds.GeneratorDataset(rows, "x", shuffle=False)
                     for rows in ([1, 2, 3], [4, 5, 6, 7]))
    made = first.concat(second)
    assert isinstance(made, ds.ConcatDataset)
    return made


def test_flat_map_gives_arrays() -> None:
    data = ds.NumpySlicesDataset([[0, 1], [2, 3]], shuffle=False)
    flat = data.flat_map(lambda row: ds.NumpySlicesDataset(row + 1, shuffle=False))
    assert [int(r[0]) for r in flat.create_tuple_iterator(
        num_epochs=1, output_numpy=True)] == [1, 2, 3, 4]


@pytest.mark.parametrize(("sampler", "wanted"), [
    (ds.DistributedSampler(2, 1, shuffle=False), [2, 4, 6]),
    (ds.DistributedSampler(2, 0, shuffle=False), [1, 3, 5, 7]),
    (ds.DistributedSampler(3, 1, shuffle=False), [2, 5]),
    (ds.RandomSampler(), [1, 2, 3, 4, 5, 6, 7]),
])
def test_a_sampler_of_joined_datasets(sampler: ds.Sampler, wanted: list[int]) -> None:
    data = joined()
    data.use_sampler(sampler)
    rows = [int(r[0]) for r in data.create_tuple_iterator(num_epochs=1, output_numpy=True)]
    assert data.get_dataset_size() == len(wanted) == len(rows)
    shuffles = isinstance(sampler, ds.RandomSampler)
    assert (sorted(rows) if shuffles else rows) == wanted


@pytest.mark.parametrize(("sampler", "kind"), [
    (ds.SequentialSampler(), TypeError), (ds.DistributedSampler(2, 1), ValueError),
    (ds.RandomSampler(replacement=True), ValueError), (ds.RandomSampler(num_samples=2), ValueError),
])
def test_joined_datasets_refuse_other_samplers(
    sampler: ds.Sampler, kind: type[Exception]
) -> None:
    with pytest.raises(kind, match=r"sampler of concat|of concat must be"):
        joined().use_sampler(sampler)
