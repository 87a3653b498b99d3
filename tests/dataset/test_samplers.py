"""Samplers: the positions MindSpore 2.10 chooses, shards that are disjoint and complete."""

from __future__ import annotations

import re
from itertools import chain

import numpy as np
import pytest

import cellc.dataset as ds


def chosen(sampler, count=5):
    data = ds.NumpySlicesDataset({"b": np.arange(count)}, sampler=sampler)
    found = [int(r["b"]) for r in data.create_dict_iterator(num_epochs=1, output_numpy=True)]
    assert data.get_dataset_size() == len(found)
    return found


def column(data):
    return [int(r["b"]) for r in data.create_dict_iterator(num_epochs=1, output_numpy=True)]


class Mine(ds.Sampler):
    def __iter__(self):
        yield from (4, 2, 0)


def test_in_order():
    assert chosen(ds.SequentialSampler(2, 2)) == [2, 3]
    assert chosen(ds.SequentialSampler(4, 3)) == [4]
    assert chosen(ds.SubsetSampler([3, 0, 3])) == [3, 0, 3]
    assert chosen(ds.SubsetSampler([3, 1, 2], 2)) == [3, 1]
    assert chosen([1, 3]) == [1, 3]
    assert chosen(Mine()) == [4, 2, 0]
    assert chosen(Mine(2)) == [4, 2]
    assert chosen(ds.IterSampler(range(3))) == chosen(range(3)) == [0, 1, 2]


def test_at_random():
    assert sorted(chosen(ds.RandomSampler())) == list(range(5))
    assert len(chosen(ds.RandomSampler(True, num_samples=8))) == 5
    assert sorted(chosen(ds.SubsetRandomSampler([3, 1, 2]))) == [1, 2, 3]
    assert set(chosen(ds.WeightedRandomSampler([0, 0, 1, 1, 0], 4))) <= {2, 3}
    assert sorted(chosen(ds.WeightedRandomSampler([0, 0, 1, 1, 0], 2, replacement=False))) == [2, 3]
    assert len(chosen(ds.WeightedRandomSampler([1, 1, 1, 1, 1]))) == 5


@pytest.mark.parametrize(("offset", "expected"), [
    (-1, [[0, 4], [1, 0], [2, 1], [3, 2]]), (0, [[0, 4], [1], [2], [3]]),
    (1, [[3], [0, 4], [1], [2]]), (3, [[1], [2], [3], [0, 4]]),
])
def test_shards(offset, expected):
    assert [chosen(ds.DistributedSampler(4, i, shuffle=False, offset=offset))
            for i in range(4)] == expected


def test_shuffled_shards_are_disjoint_and_complete():
    parts = [chosen(ds.DistributedSampler(3, i), 12) for i in range(3)]
    assert sorted(chain(*parts)) == list(range(12)) != list(chain(*zip(*parts, strict=True)))
    data = [ds.NumpySlicesDataset({"b": np.arange(12)}, num_shards=3, shard_id=i) for i in range(3)]
    data[0].output_shapes()  # what one process asks besides changes nothing
    iterators = [d.create_dict_iterator(num_epochs=2, output_numpy=True) for d in data]
    first, second = ([[int(r["b"]) for r in each] for each in iterators] for _ in range(2))
    twice = column(data[0].repeat(2))
    assert twice[:4] == first[0] != twice[4:]
    assert sorted(chain(*first)) == sorted(chain(*second)) == list(range(12))
    assert first != second
    ordered = [column(ds.NumpySlicesDataset({"b": np.arange(7)}, shuffle=False, num_shards=3,
                                            shard_id=i, num_samples=2)) for i in range(3)]
    assert ordered == [[0, 3], [1, 4], [2, 5]]


def test_children():
    outer = ds.DistributedSampler(2, 0, shuffle=False)
    outer.add_child(ds.SequentialSampler(1, 3))
    assert chosen(outer, 6) == [1, 3]
    inner = ds.SubsetSampler([5, 4, 3])
    outer = ds.SequentialSampler(1, 2)
    outer.add_child(inner)
    assert (chosen(outer, 6), outer.get_num_samples(), outer.get_child()) == ([4, 3], 2, inner)
    with pytest.raises(RuntimeError, match="already has a child"):
        outer.add_child(inner)
    data = ds.NumpySlicesDataset({"b": np.arange(6)}, sampler=ds.SequentialSampler(1, 4))
    data.add_sampler(ds.SequentialSampler(0, 2))
    assert (column(data), data.get_dataset_size()) == ([1, 2], 2)
    data.use_sampler(ds.SubsetSampler([5]))
    assert (column(data), data.get_dataset_size()) == ([5], 1)


def test_errors():
    for sampler in (ds.SequentialSampler(5), ds.SubsetSampler([9]), ds.SubsetSampler([-1]),
                    ds.PKSampler(1)):
        with pytest.raises(RuntimeError, match="Sampler: "):
            column(ds.NumpySlicesDataset({"b": np.arange(5)}, sampler=sampler))
    with pytest.raises(TypeError, match="must define __iter__"):
        chosen(ds.Sampler())
    for wrong, kind, text in (
        (lambda: ds.SubsetSampler([3, "a"]), TypeError,
         "For 'SubsetSampler', 'indices' must be an int, or a list of them"),
        (lambda: ds.SequentialSampler(-1), ValueError,
         "'start_index' must be a non-negative int, but got -1"),
        (lambda: ds.DistributedSampler(2, 2), ValueError,
         "shard_id should be less than num_shards, but got shard_id: 2, num_shards: 2"),
        (lambda: ds.DistributedSampler(0, 0), ValueError,
         "'num_shards' must be a positive int, but got 0"),
        (lambda: ds.DistributedSampler(2, 0, offset=3), ValueError,
         "offset should be -1 or below num_shards, but got offset: 3, num_shards: 2"),
        (lambda: ds.WeightedRandomSampler([0, -1, 1]), ValueError,
         "WeightedRandomSampler: weights must be at least one number of 0 or more, not all of"),
        (lambda: ds.WeightedRandomSampler([]), ValueError,
         "WeightedRandomSampler: weights must be at least one number of 0 or more, not all of"),
        (lambda: ds.PKSampler(0), ValueError,
         "'num_val' must be a positive int, but got 0"),
        (lambda: ds.RandomSampler(1), TypeError,
         "'replacement' must be a bool, but got 1"),
        (lambda: chosen("ab"), TypeError,
         "Unsupported sampler object of type <class 'str'>"),
        (lambda: ds.NumpySlicesDataset([1], sampler=Mine(), num_samples=1), ValueError,
         "Conflicting arguments during sampler assignments. num_samples: 1, num_shards"),
        (lambda: ds.NumpySlicesDataset([1], sampler=Mine(), num_shards=1, shard_id=0), ValueError,
         "Conflicting arguments during sampler assignments. num_samples: None, num_shards"),
        (lambda: ds.NumpySlicesDataset([1], num_shards=2, shard_id=2), ValueError,
         "shard_id should be less than num_shards"),
    ):
        with pytest.raises(kind, match=re.escape(text)):
            wrong()
