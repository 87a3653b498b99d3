"""Data-parallel training: n ranks give the bits of one process that adds the same micro-batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
import cellc_runtime.world
from cellc import Tensor, nn, ops
from cellc.nn.grad_reducer import BUCKET_BYTES, buckets
from cellc.testing.ranks import run_ranks
from cellc_runtime.dtypes import float16, float32

STEPS, BATCH = 4, 6


class Net(nn.Cell):
    """Two layers, one of them normalised over the batch of all ranks."""

    def __init__(self, sync: bool = False) -> None:
        super().__init__()
        draw = np.random.RandomState(3)
        self.first = nn.Dense(5, 7, Tensor(draw.randn(7, 5).astype(np.float32)), "zeros")
        self.norm = nn.SyncBatchNorm(7) if sync else nn.Identity()
        self.last = nn.Dense(7, 3, Tensor(draw.randn(3, 7).astype(np.float32)), "zeros")

    def construct(self, x: Any) -> Any:
        return self.last(ops.relu(self.norm(self.first(x))))


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    ms.set_seed(1)
    yield
    ms.reset_auto_parallel_context()


def data(rank: int, step: int) -> tuple[Tensor, Tensor]:
    draw = np.random.RandomState(100 * step + rank)
    return (Tensor(draw.randn(BATCH, 5).astype(np.float32)),
            Tensor(draw.randint(0, 3, BATCH).astype(np.int32)))


def loss_of(net: nn.Cell) -> nn.Cell:
    return nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))


def weights(net: nn.Cell) -> list[Any]:
    return [p.asnumpy().copy() for p in net.get_parameters()]


def trained_on_ranks(count: int, mean: bool) -> list[list[Any]]:
    ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=mean)

    def train(rank: int) -> list[Any]:
        net = Net()
        step = nn.TrainOneStepCell(loss_of(net), nn.Momentum(net.trainable_params(), 0.1, 0.9))
        for i in range(STEPS):
            step(*data(rank, i))
        return weights(net)

    return run_ranks(count, train)


def trained_alone(count: int, mean: bool) -> list[Any]:
    """One process, the same micro-batches, their gradients added one after the other."""
    net = Net()
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    slopes = ms.value_and_grad(loss_of(net), None, optimizer.parameters)
    for i in range(STEPS):
        total = None
        for rank in range(count):
            _, grads = slopes(*data(rank, i))
            total = grads if total is None else [a + b for a, b in zip(total, grads, strict=True)]
        optimizer(tuple(g * (1.0 / count) for g in total) if mean else tuple(total))
    return weights(net)


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
@pytest.mark.parametrize(("count", "mean"), [(1, True), (2, True), (3, True), (4, False)])
def test_ranks_equal_one_process(mode: int, count: int, mean: bool) -> None:
    ms.set_context(mode=mode)
    want = trained_alone(count, mean)
    for found in trained_on_ranks(count, mean):
        for a, b in zip(found, want, strict=True):
            assert a.tobytes() == b.tobytes()


def test_parameters_are_those_of_the_first_rank() -> None:
    ms.set_auto_parallel_context(parallel_mode="data_parallel", parameter_broadcast=True)

    def make(rank: int) -> list[Any]:
        net = Net()
        net.first.weight.set_data(net.first.weight + rank)
        nn.TrainOneStepCell(loss_of(net), nn.SGD(net.trainable_params()))
        return weights(net)

    first, second = run_ranks(2, make)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert np.array_equal(first[0], Net().first.weight.asnumpy())


def test_sync_batch_norm_sees_the_batch_of_all() -> None:
    def run(rank: int, whole: bool = False) -> list[Any]:
        net = Net(sync=True).set_train()
        xs = [data(r, 0)[0].asnumpy() for r in range(2)]
        x = Tensor(np.concatenate(xs) if whole else xs[rank])
        slope = ms.grad(lambda x: (net(x) ** 2).sum())(x)
        return [net(x).asnumpy(), slope.asnumpy(), net.norm.moving_variance.asnumpy()]

    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        (y0, dx0, v0), (y1, dx1, v1) = run_ranks(2, run)
        want = run(0, whole=True)
        assert np.array_equal(v0, v1)
        for got, right in zip((np.concatenate([y0, y1]), np.concatenate([dx0, dx1]), v0), want,
                              strict=True):
            assert np.abs(got - right).max() < 2e-6 * max(1, np.abs(right).max())


def test_what_is_sent_together() -> None:
    big = BUCKET_BYTES // 4 - 10
    whole = [False] * 5
    assert buckets([float32] * 4, [5, big, 20, 1], [1, 1, 1, 1], whole) == [[3, 2], [1, 0]]
    assert buckets([float32, float16, float32], [5, 5, 5], [1, 1, 1], whole) == [[1], [2, 0]]
    assert buckets([float32] * 5, [big, big, 1, 2, 3], [2, 2, 0, 0, 3], whole) == [
        [3], [2], [4], [1, 0]]
    assert buckets([float32] * 3, [5, 5, 5], [1, 1, 1], [True, False, True]) == [[1], [2, 0]]
    assert buckets([float32] * 4, [5, 2 * big, 5, 2 * big], [1] * 4, whole) == [[3], [1], [2, 0]]
    assert buckets([float32] * 3, [1, 1, 1], [1, 1, 1], whole, limit=0) == [[2], [1], [0]]
    assert buckets([float32] * 5, [big, big, 1, 2, 3], [1] * 5, whole, ends=[1, 2]) == [
        [4, 3], [2], [1, 0]]


def collectives_of_a_step(**settings: Any) -> int:
    """How many collectives a step of `Net` does, whose gradients are four."""
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_auto_parallel_context(parallel_mode="data_parallel", **settings)
    done: list[str] = []

    def train(rank: int) -> None:
        net = Net()
        step = nn.TrainOneStepCell(loss_of(net), nn.SGD(net.trainable_params()))
        own = cellc_runtime.world.world()
        plain = own.all_gather
        own.all_gather = lambda s, *rest: (done.append(s.text), plain(s, *rest))[1]
        step(*data(rank, 0))

    run_ranks(2, train)
    ms.reset_auto_parallel_context()
    return len(done) // 2


def test_settings_decide_what_is_sent_together() -> None:
    def fused(mode: str, config: Any) -> dict[str, Any]:
        return {"comm_fusion": {"allreduce": {"mode": mode, "config": config}}}

    assert collectives_of_a_step() == 1
    assert collectives_of_a_step(**fused("size", 1)) == 1
    assert collectives_of_a_step(**fused("size", 0)) == 4
    assert collectives_of_a_step(**fused("index", [0, 2])) == 3
    assert collectives_of_a_step(all_reduce_fusion_config=[1]) == 2
    assert collectives_of_a_step(comm_fusion={"openstate": False}) == 4
    with pytest.raises(ValueError, match="there are 4 gradients"):
        collectives_of_a_step(all_reduce_fusion_config=[1, 4])


def test_settings_that_are_none() -> None:
    def refused(kind: type[Exception], said: str, **given: Any) -> None:
        with pytest.raises(kind, match=said):
            ms.set_auto_parallel_context(**given)

    refused(TypeError, "a list of ints", all_reduce_fusion_config=["a"])
    for wrong in ([], [2, 1], [1, 1], [-1]):
        refused(ValueError, "in ascending order", all_reduce_fusion_config=wrong)
    refused(KeyError, "must be openstate", comm_fusion={"gather": {}})
    refused(TypeError, "'openstate' must be a bool", comm_fusion={"openstate": 1})
    for kind in ("allreduce", "allgather", "reducescatter"):
        refused(TypeError, "config must be dict", comm_fusion={kind: 1})
        refused(KeyError, "'config' should be", comm_fusion={kind: {"mode": "auto"}})
        refused(KeyError, "mode must be", comm_fusion={kind: {"mode": "all", "config": None}})
        refused(TypeError, "must be an int", comm_fusion={kind: {"mode": "size", "config": None}})
        refused(ValueError, "larger than 0", comm_fusion={kind: {"mode": "size", "config": -1}})
    ms.set_auto_parallel_context(comm_fusion={"allgather": {"mode": "size", "config": 3}})
    ms.set_auto_parallel_context(comm_fusion={"openstate": False})
    assert ms.get_auto_parallel_context("comm_fusion") == {
        "openstate": False, "allreduce": {"mode": "auto", "config": None},
        "allgather": {"mode": "size", "config": 3},
        "reducescatter": {"mode": "auto", "config": None}}


def test_half_precision_gradients_are_summed_in_float32() -> None:
    def reduce(rank: int) -> Any:
        weight = ms.Parameter(Tensor(np.zeros(3, np.float16)), name="w")
        reducer = nn.DistributedGradReducer([weight], mean=False)
        return reducer((Tensor(np.float16([1, 2048, -0.5]) if rank == 0 else
                               np.float16([2, 1, 2048]) if rank == 1 else
                               np.float16([3, 1, -2047])),))[0].asnumpy()

    for found in run_ranks(3, reduce):
        assert found.dtype == np.float16 and found.tolist() == [6, 2050, 0.5]


def test_modes_that_cut_graphs_are_refused_without_graphs() -> None:
    def step(rank: int) -> Any:
        net = Net()
        return nn.TrainOneStepCell(loss_of(net), nn.SGD(net.trainable_params()))

    ms.set_context(mode=ms.PYNATIVE_MODE)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel")
    run_ranks(1, step)
    with pytest.raises(RuntimeError, match="'semi_auto_parallel' cuts graphs over 2 processes"):
        run_ranks(2, step)


def test_degrees() -> None:
    weight = ms.Parameter(Tensor(np.zeros(2, np.float32)), name="w")
    halved = nn.DistributedGradReducer([weight], True, 2)((Tensor(np.float32([2, 4])),))
    assert halved[0].asnumpy().tolist() == [1, 2]
    with pytest.raises(ValueError, match="'degree' must be a positive int"):
        nn.DistributedGradReducer([weight], True, 0)
