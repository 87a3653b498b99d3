"""Collectives of ranks that threads play, in both modes, against numpy; their gradients."""

from __future__ import annotations

import re
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.communication import comm_func, create_group, destroy_group, get_group_size, get_rank
from cellc.mint import distributed as dist
from cellc.ops.functional import collectives as c
from cellc.testing.ranks import run_ranks
from cellc_runtime import collectives
from cellc_runtime.liveness import Liveness
from cellc_runtime.world import CollectiveError, Step

Array = np.ndarray[Any, Any]
NUMPY = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
MODES = (ms.GRAPH_MODE, ms.PYNATIVE_MODE)


class Net(nn.Cell):
    """A function as a network."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def construct(self, *xs: Any) -> Any:
        return self.function(*xs)


def values(rank: int, shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    """What a rank has: of all sizes, so that the order of a sum shows."""
    draw = np.random.RandomState(rank)
    return (draw.randn(*shape) * 10.0 ** draw.randint(-3, 4, shape)).astype(dtype)


def in_order(parts: list[Array], reduction: str) -> Array:
    """One part after the other, each sum rounded."""
    total = parts[0]
    for part in parts[1:]:
        total = NUMPY[reduction](total, part)
    return total


def on_ranks(count: int, function: Any, *shapes: tuple[int, ...], dtype: Any = np.float32
             ) -> list[Array]:
    """What a function gives on each rank, the same in both modes."""
    def run(mode: int) -> list[Array]:
        ms.set_context(mode=mode)
        return run_ranks(count, lambda rank: Net(function)(
            *(Tensor(values(rank + 10 * i, s, dtype)) for i, s in enumerate(shapes))).asnumpy())

    graph, eager = run(MODES[0]), run(MODES[1])
    for a, b in zip(graph, eager, strict=True):
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return graph


@settings(max_examples=20, deadline=None)
@given(count=st.integers(1, 5), rows=st.sampled_from([0, 1, 3, 7, 4099]),
       reduction=st.sampled_from(["sum", "prod", "max", "min"]),
       dtype=st.sampled_from([np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32]))
def test_all_reduce_adds_in_the_order_of_ranks(
    count: int, rows: int, reduction: str, dtype: Any
) -> None:
    with np.errstate(all="ignore"):
        want = in_order([values(r, (rows, 3), dtype) for r in range(count)], reduction)
    found = on_ranks(count, lambda x: c.all_reduce(x, reduction), (rows, 3), dtype=dtype)
    for got in found:
        assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_extremes_of_zeros_and_nan_are_those_of_ops(dtype: Any) -> None:
    """Of zeros of both signs the last rank's, whatever the processor's instructions do."""
    draw = np.random.RandomState(0)
    parts = draw.choice([0.0, -0.0, np.nan, 1.0, -1.0], (3, 257)).astype(dtype)
    for reduction, op in (("max", ops.maximum), ("min", ops.minimum)):
        want = op(op(Tensor(parts[0]), Tensor(parts[1])), Tensor(parts[2])).asnumpy()
        for got in run_ranks(3, lambda r, how=reduction: c.all_reduce(
                Tensor(parts[r]), how).asnumpy()):
            assert got.tobytes() == want.tobytes()
    assert np.signbit(want[parts[2] == 0]).any()


@pytest.mark.parametrize("read", [True, False])
def test_sums_of_many_pieces(read: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By reading the others' memory, and by messages."""
    if not read:
        monkeypatch.setattr("cellc.testing.ranks._ThreadWorld.reads", lambda self, group: False)
    for count, reduction, dtype in ((2, "max", np.float32), (3, "sum", np.float64)):
        parts = [values(r, (1_500_001,), dtype) for r in range(count)]
        for got in on_ranks(count, lambda x, how=reduction: c.all_reduce(x, how) - 0,
                            (1_500_001,), dtype=dtype):
            assert got.tobytes() == in_order(parts, reduction).tobytes()


@pytest.mark.parametrize("count", [2, 3, 4])
def test_what_is_summed_may_be_replaced(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By each rank while the others read theirs, in pieces."""
    monkeypatch.setattr(collectives, "_PIECE", 1 << 12)
    parts = [values(r, (20_011,)) for r in range(count)]
    step = Step("all_reduce sum", tuple(range(count)))

    def run(rank: int) -> bytes:
        given = parts[rank].copy()
        collectives.all_reduce_into(step, given, given, "sum")
        return given.tobytes()

    assert set(run_ranks(count, run)) == {in_order(parts, "sum").tobytes()}


@pytest.mark.parametrize("count", [1, 2, 4])
def test_each_collective(count: int) -> None:
    shape = (count * 2, 3)
    given_ = [values(r, shape) for r in range(count)]
    total = in_order(given_, "sum")
    gathered = np.concatenate(given_)
    root = count - 1
    for r in range(count):
        rows = slice(2 * r, 2 * r + 2)
        for function, want in (
            (c.all_gather, gathered), (c.reduce_scatter, total[rows]),
            (lambda x: c.broadcast(x, root), given_[root]),
            (lambda x: c.reduce(x, root), total if r == root else 0 * total),
            (lambda x: c.gather(x, root), gathered if r == root else 0 * gathered),
            (lambda x: c.scatter(x, root), given_[root][rows]),
            (lambda x: c.all_to_all(x, count, 0, 1),
             np.concatenate([g[rows] for g in given_], 1)),
            (lambda x: c.all_reduce(x, "avg"), total / np.float32(count)),
        ):
            assert np.array_equal(on_ranks(count, function, shape)[r], want), function


def test_parts_of_different_sizes_and_groups() -> None:
    send = [[1, 2, 0], [2, 0, 1], [0, 3, 2]]

    def exchange(rank: int) -> Any:
        x = Tensor(values(rank, (sum(send[rank]), 2)))
        receive = [row[rank] for row in send]
        if rank != 1:
            create_group("ends", [2, 0])
        pair = c.all_reduce(x[:2] * 0 + rank + 1, "sum", "ends") if rank != 1 else None
        sizes = (get_group_size("ends"), get_rank("ends")) if rank != 1 else None
        if rank != 1:
            destroy_group("ends")
        return c.all_to_all_rows(x, send[rank], receive).asnumpy(), pair, sizes

    found = run_ranks(3, exchange)
    data = [values(r, (sum(send[r]), 2)) for r in range(3)]
    for r in range(3):
        want = [data[s][sum(send[s][:r]):sum(send[s][: r + 1])] for s in range(3)]
        assert np.array_equal(found[r][0], np.concatenate(want))
    assert found[0][1].asnumpy().tolist() == [[4, 4]] * 2  # 1 + 3, of the ranks 0 and 2
    assert (found[0][2], found[2][2]) == ((2, 1), (2, 0))


GRADIENTS = {
    "all_reduce": c.all_reduce, "reduce_scatter": c.reduce_scatter, "all_gather": c.all_gather,
    "broadcast": lambda x: c.broadcast(x, 1), "reduce": lambda x: c.reduce(x, 1),
    "gather": lambda x: c.gather(x, 1), "scatter": lambda x: c.scatter(x, 1),
    "all_to_all": lambda x: c.all_to_all(x, 2, 0, 1),
    "rows": lambda x: c.all_to_all_rows(x, [1, 3], [1, 1] if get_rank() == 0 else [3, 3]),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_adjoints(name: str) -> None:
    """<dy, f(x)> summed over ranks is <f'(dy), x>: every collective of sums is linear."""
    def rank_parts(rank: int) -> tuple[float, float]:
        x = Tensor(np.random.RandomState(rank).randn(4, 3).astype(np.float64))
        net = Net(GRADIENTS[name])
        y = net(x)
        dy = Tensor(np.random.RandomState(7 + rank).randn(*y.shape))
        gradient = ops.GradOperation(sens_param=True)(net)(x, dy)
        return float((dy * y).sum()), float((gradient * x).sum())

    for mode in MODES:
        ms.set_context(mode=mode)
        forward, backward = np.sum(run_ranks(2, rank_parts), axis=0)
        assert abs(forward - backward) < 1e-12 * max(1.0, abs(forward))


def test_an_extreme_and_a_product_have_slopes() -> None:
    def slopes(rank: int) -> list[list[float]]:
        x = Tensor(np.array([1.0, 5.0, 2.0], np.float32) + rank * np.float32([3, -1, 0]))
        return [ms.grad(Net(lambda x, k=k: c.all_reduce(x, k)))(x).asnumpy().tolist()
                for k in ("max", "prod")]

    for mode in MODES:
        ms.set_context(mode=mode)
        first, second = run_ranks(2, slopes)
        assert first == [[0, 2, 2], [8, 8, 4]] and second == [[2, 0, 2], [2, 10, 4]]


def test_in_branches_loops_and_steps_of_a_network() -> None:
    def net(x: Any) -> Any:
        if x.sum() > -1e9:
            x = c.all_reduce(x)
        i = 0
        while x.max() < 1000 and i < 3:
            x = c.all_reduce(x * 2, "max")
            i = i + 1
        return x

    found = on_ranks(2, net, (4,))
    assert found[0].tobytes() == found[1].tobytes()


def test_messages() -> None:
    def ring(rank: int) -> Any:
        x = Tensor(np.full((2, 2), rank, np.int32))
        comm_func.send(x, (rank + 1) % 3)
        got = comm_func.recv(x, (rank - 1) % 3)
        out, handle = comm_func.irecv(x, (rank + 1) % 3, tag=5)
        comm_func.isend(x, (rank - 1) % 3, tag=5).wait()
        handle.wait()
        both = comm_func.batch_isend_irecv([
            comm_func.P2POp("isend", x, (rank + 1) % 3),
            comm_func.P2POp("irecv", x, (rank - 1) % 3)])
        objects: list[Any] = [None] * 3
        dist.all_gather_object(objects, {"rank": rank})
        return got[0, 0], out[0, 0], both[1][0, 0], objects

    for rank, (got, out, last, objects) in enumerate(run_ranks(3, ring)):
        assert [int(got), int(out), int(last)] == [(rank - 1) % 3, (rank + 1) % 3, (rank - 1) % 3]
        assert objects == [{"rank": r} for r in range(3)]


def test_written_into_what_is_given() -> None:
    def write(rank: int) -> list[Any]:
        x = Tensor(np.float32([rank + 1, 10]))
        dist.all_reduce(x)
        parts = [Tensor(np.zeros(2, np.float32)) for _ in range(2)]
        dist.all_gather(parts, x * (rank + 1))
        lists = [Tensor(np.zeros(2 - i, np.float32)) for i in range(2)]
        if rank:
            lists = [Tensor(np.zeros(1, np.float32)), Tensor(np.zeros(3, np.float32))]
        sent = [Tensor(np.float32([1, 2])), Tensor(np.float32([3]))] if rank == 0 else \
            [Tensor(np.float32([4])), Tensor(np.float32([5, 6, 7]))]
        dist.all_to_all(lists, sent)
        return [t.asnumpy().tolist() for t in (x, *parts, *lists)]

    assert run_ranks(2, write) == [
        [[3, 20], [3, 20], [6, 40], [1, 2], [4]], [[3, 20], [3, 20], [6, 40], [3], [5, 6, 7]]]


def test_ranks_that_disagree_are_told() -> None:
    def shapes(rank: int) -> Any:
        return c.all_reduce(Tensor(np.zeros(3 + rank, np.float32)))

    with pytest.raises(CollectiveError, match=r"collective mismatch: rank 0 at all_reduce sum of "
                       r"float32\[3\]; rank 1 at all_reduce sum of float32\[4\]"):
        run_ranks(2, shapes)
    with pytest.raises(CollectiveError, match=r"rank 0 at all_gather.*ranks 1, 2 at broadcast"):
        run_ranks(3, lambda r: (c.broadcast if r else c.all_gather)(Tensor([1.0])))


@pytest.mark.parametrize(("last", "circle"), [([3, 0], True), ([3], False)])
def test_ranks_that_wait_for_each_other_in_a_circle(last: list[int], circle: bool) -> None:
    """Here rank 0 for 1, which waits for 2, by what it has said."""
    alive = Liveness(None, SimpleNamespace(Get_rank=lambda: 0), {})
    said = {"1": ("gather", [2], 9.0, 0.0), "2": ("broadcast", last, 9.0, 0.0)}
    alive._heard[1] = time.monotonic(), {"waits": said}
    text = "collective mismatch: all_reduce for .*1.*; broadcast for .*; gather for .*They wait for"
    with pytest.raises(CollectiveError, match=text) if circle else nullcontext():
        alive._check_circle([1], 1.0, "all_reduce")


def test_a_rank_that_raises_ends_the_others() -> None:
    def raises(rank: int) -> Any:
        if rank == 1:
            raise ValueError("of rank 1")
        return c.all_reduce(Tensor([1.0]))

    with pytest.raises((ValueError, CollectiveError), match=r"of rank 1|waits for the ranks \[1\]"):
        run_ranks(2, raises)


@pytest.mark.parametrize(("wrong", "text"), [
    (lambda: c.reduce_scatter(Tensor(np.zeros((3, 2), np.float32))), "cut into 2 equal parts"),
    (lambda: c.all_gather(Tensor(1.0)), "expected a first axis"),
    (lambda: c.all_reduce(Tensor([1.0]), "mean"), "must be one of"),
    (lambda: c.all_reduce(Tensor([1.0]), group="none"), "there is no group 'none'"),
    (lambda: c.broadcast(Tensor([1.0]), 2), "one of the ranks"),
    (lambda: c.send(Tensor([1.0]), get_rank()), "one of the ranks"),
    (lambda: c.all_to_all(Tensor(np.zeros((4, 2))), 3, 0, 1), "number of processes"),
    (lambda: c.all_to_all_rows(Tensor(np.zeros((4, 2))), [1, 1], [1, 2]), "2 rows are to be sent"),
    (lambda: c.all_to_all_rows(Tensor(np.zeros((4, 2))), [1, 3], [2, 2]), "expects 2 of itself"),
    (lambda: create_group("two", [0, 2]), "one of the ranks"),
    (lambda: create_group("two", [0, 1], {"hccl": 1}), "must be a GroupOptions or None"),
])
def test_wrong_arguments(wrong: Any, text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        run_ranks(2, lambda rank: wrong())


def test_what_a_rank_says_it_is_at() -> None:
    """It computes if it has used the processor; all counts from its last collective."""
    alive = Liveness(None, SimpleNamespace(Iprobe=lambda *_: False), {})
    alive._mpi = SimpleNamespace(Status=lambda: None, ANY_SOURCE=0, ANY_TAG=0)
    alive.attend()
    since, used = alive._since
    alive._since = since - 10, used
    said = alive._report()
    assert re.match(r"sleeps or waits at .*: 0\.\d s of processor time in the 10\.", said)
    alive._since = since - 10, used - 9
    assert re.match(r"computes at .*: 9\.\d s of processor time in the 10\.", alive._report())
    alive.done()
    alive.attend()
    assert " in the 0." in alive._report()
