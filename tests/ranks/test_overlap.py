"""Collectives that go on while programs compute: order, memory, bits, errors, handles."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.communication import comm_func
from cellc.mint import distributed as dist
from cellc.ops.functional import collectives as c
from cellc.testing.ranks import run_ranks
from cellc_compiler import driver
from cellc_compiler.backends.cpu.machine import CpuMachine
from cellc_compiler.ir.graph import Builder, Graph, Value
from cellc_compiler.ir.types import TensorType
from cellc_compiler.lower.instructions import Call, Callback, Instruction
from cellc_compiler.lower.lowered import Lowered
from cellc_runtime import knobs
from cellc_runtime.channel import Channel, Pending
from cellc_runtime.dtypes import float32
from cellc_runtime.target import host_target
from cellc_runtime.world import CollectiveError

SIZE = 8
LARGE = 64
"""So that what is joined is computed where it belongs."""
SECONDS = 30.0


# --- order ----------------------------------------------------------------------------------------


def said(lowered: Lowered) -> list[str]:
    """Calls by their ops, collectives by their phases, in order."""
    def one(i: Instruction) -> str:
        if isinstance(i, Callback):
            return lowered.callbacks[i.number].phase or "at once"
        assert isinstance(i, Call)
        return "+".join(n.op for n in i.nodes)

    return [one(i) for i in lowered.instructions]


def graph_of(
    build: Callable[[Builder, list[Value]], list[Value]], inputs: int = 2, size: int = SIZE
) -> Graph:
    graph = Graph("g")
    given = [graph.add_input(TensorType((size, size), float32), f"x{i}") for i in range(inputs)]
    graph.outputs = build(Builder(graph), given)
    return graph


def summed(b: Builder, x: Value) -> Value:
    return b.emit("all_reduce", x, reduction="sum", ranks=(0, 1))


def order(build: Callable[[Builder, list[Value]], list[Value]]) -> list[str]:
    return said(driver.lower(graph_of(build), host_target()))


def test_what_reads_no_result_runs_between_start_and_wait() -> None:
    def build(b: Builder, xs: list[Value]) -> list[Value]:
        total = summed(b, b.emit("matmul", xs[0], xs[1]))
        used = b.emit("relu", total)
        return [used, b.emit("matmul", xs[1], xs[1])]

    assert order(build) == ["matmul", "start", "matmul", "wait", "relu"]


def test_each_is_started_before_what_it_does_not_need() -> None:
    def build(b: Builder, xs: list[Value]) -> list[Value]:
        first = b.emit("matmul", xs[0], xs[1])
        second = b.emit("matmul", first, xs[1])
        third = b.emit("exp", second)
        return [b.emit("relu", summed(b, first)), b.emit("tanh", summed(b, second)), third]

    found = order(build)
    assert found == ["matmul", "start", "matmul", "start", "exp", "wait", "relu", "wait", "tanh"]


def test_one_that_is_read_at_once_is_done_at_once() -> None:
    assert order(lambda b, xs: [b.emit("relu", summed(b, summed(b, xs[0])))]) == [
        "at once", "at once", "relu"]


def test_a_device_with_memory_of_its_own_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CpuMachine, "overlaps", False)

    def build(b: Builder, xs: list[Value]) -> list[Value]:
        return [summed(b, xs[0]), b.emit("matmul", xs[0], xs[1])]

    assert sorted(order(build)) == ["at once", "matmul"]


# --- memory and bits ------------------------------------------------------------------------------


def exchanged(build: Callable[[Builder, list[Value]], list[Value]]) -> list[bool]:
    """Of each sum over ranks, whether it is where what it adds was."""
    lowered = driver.lower(graph_of(build, size=LARGE), host_target())
    calls = [i for i in lowered.instructions if isinstance(i, Callback)]
    return [i.places[0] == i.places[-1] for i in calls
            if lowered.callbacks[i.number].phase != "wait"]


def test_a_sum_replaces_what_nobody_reads_later() -> None:
    def alone(b: Builder, xs: list[Value]) -> list[Value]:
        return [b.emit("relu", summed(b, b.emit("matmul", *xs))), b.emit("matmul", xs[1], xs[1])]

    def read(b: Builder, xs: list[Value]) -> list[Value]:
        made = b.emit("matmul", *xs)
        return [b.emit("relu", summed(b, made)), b.emit("matmul", made, xs[1])]

    def joined(b: Builder, xs: list[Value], again: bool) -> list[Value]:
        one, two = b.emit("matmul", *xs), b.emit("matmul", xs[1], xs[0])
        total = summed(b, b.emit("join_copy", one, two, axis=0))
        return [b.emit("relu", total), b.emit("matmul", two if again else xs[0], xs[0])]

    def twice(b: Builder, xs: list[Value]) -> list[Value]:
        made = b.emit("matmul", *xs)
        return [b.emit("relu", summed(b, made)), b.emit("tanh", summed(b, made)),
                b.emit("matmul", xs[1], xs[1])]

    def given(b: Builder, xs: list[Value]) -> list[Value]:
        return [b.emit("relu", summed(b, xs[0])), b.emit("matmul", *xs)]

    assert exchanged(alone) == [True]
    assert exchanged(read) == exchanged(given) == [False]
    assert exchanged(lambda b, xs: joined(b, xs, again=True)) == [False]
    assert exchanged(lambda b, xs: joined(b, xs, again=False)) == [True]
    assert False in exchanged(twice)


class Late(Channel):
    """Does nothing before somebody waits: operands must still be there."""

    def launch(self, key: int, work: Callable[[], Any], text: str) -> None:
        self.__dict__.setdefault("asked", {})[key] = work, text

    def land(self, key: int) -> None:
        asked = self.__dict__["asked"]
        while key in asked:
            self.do(*asked.pop(next(iter(asked))))


class Early(Channel):
    """Does everything when it is started: results must still be there."""

    def launch(self, key: int, work: Callable[[], Any], text: str) -> None:
        self.do(work, text)


STEP = st.tuples(st.sampled_from(["matmul", "add", "tanh", "all_reduce", "all_reduce", "rows"]),
                 st.integers(0, 9), st.integers(0, 9))


def program(steps: list[tuple[str, int, int]]) -> Graph:
    """A graph with these steps on values by number; its last values are results, and two of them
    replace inputs."""
    graph = Graph("random")
    kinds = ("input", "param", "param")
    made = [graph.add_input(TensorType((SIZE, SIZE), float32), f"x{i}", kind)
            for i, kind in enumerate(kinds)]
    b = Builder(graph)
    for op, i, j in steps:
        x, y = made[i % len(made)], made[j % len(made)]
        if op == "all_reduce":
            made.append(summed(b, x))
        elif op == "rows":  # the two are computed within one buffer
            made.append(summed(b, b.emit("concat", x, y, axis=0)))
            made[-1] = b.emit("slice", made[-1], start=(4, 0), stop=(4 + SIZE, SIZE))
        else:
            made.append(b.emit(op, x) if op == "tanh" else b.emit(op, x, y))
    graph.outputs = list(dict.fromkeys(made[-2:]))
    graph.updates = [(old, new) for old, new in zip(made[1:3], made[-3:-1], strict=True)
                     if old is not new]
    return graph


def bits(steps: list[tuple[str, int, int]], kind: type[Channel], overlaps: bool) -> list[bytes]:
    """What the program gives on each of two ranks whose channels are of a kind."""
    with pytest.MonkeyPatch.context() as patch, knobs.override(cache_size=0):
        patch.setattr(CpuMachine, "overlaps", overlaps)
        patch.setattr("cellc.testing.ranks.Channel", kind)
        made = driver.compile_program(program(steps))

        def run(rank: int) -> bytes:
            draw = np.random.RandomState(rank)
            given = [draw.randn(SIZE, SIZE).astype(np.float32) for _ in range(3)]
            out = driver.loaded(made, program(steps), {})(given)
            return b"".join(a.tobytes() for a in out)

        return run_ranks(2, run)


@settings(max_examples=8, deadline=None)
@given(st.lists(STEP, min_size=3, max_size=10))
def test_nothing_touches_what_is_exchanged(steps: list[tuple[str, int, int]]) -> None:
    want = bits(steps, Channel, overlaps=False)
    for kind in (Channel, Late, Early):
        assert bits(steps, kind, overlaps=True) == want


# --- programs -------------------------------------------------------------------------------------


class Hears:
    """A standard output that says when something is written to it."""

    def __init__(self) -> None:
        self.heard = threading.Event()

    def write(self, text: str) -> None:
        self.heard.set()

    def flush(self) -> None:
        """Nothing is held."""


class Talks(nn.Cell):
    """Prints, behind a collective whose result it reads last."""

    def construct(self, x: Any) -> Any:
        total = c.all_reduce(x)
        print("it computes")
        return total + 1


def test_a_program_computes_while_another_rank_has_not_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    hears = Hears()
    monkeypatch.setattr(sys, "stdout", hears)

    def run(rank: int) -> Any:
        if rank == 1:
            assert hears.heard.wait(SECONDS), "rank 0 waits, though it has something to do"
        return Talks()(Tensor(np.float32([rank, 5]))).asnumpy().tolist()

    assert run_ranks(2, run) == [[2, 11]] * 2


class Checks(nn.Cell):
    """Looks a row up, whose number may be none, while a sum is on its way."""

    def construct(self, x: Any, i: Any) -> Any:
        total = c.all_reduce(ops.matmul(x, x))
        return total * 2, x[i]


def test_an_error_meanwhile_leaves_no_collective_behind() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)

    def run(rank: int) -> list[Any]:
        net, x = Checks(), Tensor(np.eye(64, dtype=np.float32) * (rank + 1))
        for _ in range(3):
            with pytest.raises(IndexError, match="64"):
                net(x, Tensor(64))
        return [net(x, Tensor(3))[0].asnumpy()[5, 5], c.all_reduce(x).asnumpy()[7, 7]]

    assert run_ranks(2, run) == [[10, 3]] * 2


class Two(nn.Cell):
    """Two sums that are both on their way."""

    def construct(self, x: Any) -> Any:
        first, second = c.all_reduce(x), c.all_reduce(ops.matmul(x, x))
        return first + ops.exp(x), second + 1


def test_ranks_that_disagree_are_told_where_the_result_is_read() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    said: list[str] = []

    def run(rank: int) -> None:
        try:
            Two()(Tensor(np.ones((4 + rank, 4 + rank), np.float32)))
        except CollectiveError as e:
            said.append(str(e))
            raise

    with pytest.raises(CollectiveError, match="collective mismatch"):
        run_ranks(2, run)
    assert len(said) == 2
    for text in said:
        assert "rank 0 at all_reduce sum of float32[4,4]; rank 1 at all_reduce sum of " \
            "float32[5,5]" in text
        assert "test_overlap.py:" in text


# --- the thread -----------------------------------------------------------------------------------


def test_the_thread_keeps_the_order_and_tells_failures() -> None:
    channel, done = Channel("test"), []

    def fail() -> None:
        raise CollectiveError("nobody came")

    gate = threading.Event()
    channel.start(lambda: gate.wait(SECONDS), "gate")
    pending = [channel.start(lambda i=i: done.append(i), str(i)) for i in range(3)]
    bad, behind = channel.start(fail, "bad"), channel.start(lambda: done.append(9), "behind")
    gate.set()
    with pytest.raises(CollectiveError, match="nobody came"):
        bad.wait()
    with pytest.raises(CollectiveError, match=r"behind is not done.*nobody came"):
        behind.wait()
    assert [p.wait() for p in pending] == [None] * 3
    channel.do(lambda: done.append(4), "4")
    assert done == [0, 1, 2, 4]
    channel.close()


def test_an_interrupt_gives_up_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    channel, gate = Channel("test"), threading.Event()
    first = channel.start(lambda: gate.wait(SECONDS), "first")
    second = channel.start(lambda: None, "second")

    def interrupted(*given: Any) -> None:
        raise KeyboardInterrupt("by the user")

    with monkeypatch.context() as patch:
        patch.setattr(Pending, "_pause", interrupted)
        with pytest.raises(KeyboardInterrupt, match="by the user"):
            first.wait()
    gate.set()
    with pytest.raises(CollectiveError, match="second is not done"):
        second.wait()
    channel.close()


# --- handles --------------------------------------------------------------------------------------


def test_handles_of_collectives_that_go_on() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    begun = threading.Event()

    def run(rank: int) -> list[Any]:
        x = Tensor(np.float32([[rank, 1], [2, 3]]))
        wide = Tensor(np.float32([[rank], [1], [2], [3]]))
        if rank == 1:
            assert begun.wait(SECONDS), "rank 0 waits, though it need not"
        asked = [comm_func.all_reduce(x, async_op=True),
                 comm_func.all_reduce(x, "avg", async_op=True),
                 comm_func.all_gather_into_tensor(x, async_op=True),
                 comm_func.reduce_scatter_tensor(x, async_op=True),
                 comm_func.all_to_all_single_with_output_shape((2, 2), x, async_op=True),
                 comm_func.all_to_all_single_with_output_shape(wide, wide, async_op=True)]
        mine = Tensor(np.float32([rank, 7]))
        parts = [Tensor(np.zeros((2, 2), np.float32)) for _ in range(2)]
        handles = [dist.all_reduce(mine, async_op=True), dist.all_gather(parts, x, async_op=True)]
        x += 100  # what was asked for is of the values before
        begun.set()
        for handle in (*(h for _, h in asked), *handles):
            handle.wait()
            handle.wait()
        return [t.asnumpy().tolist() for t in (*(t for t, _ in asked), mine, *parts)]

    zero, one = [[0, 1], [2, 3]], [[1, 1], [2, 3]]
    first, second = run_ranks(2, run)
    total = [[1, 2], [4, 6]]
    assert first == [total, [[0.5, 1], [2, 3]], zero + one, total[:1], [zero[0], one[0]],
                     [[0], [1], [1], [1]], [1, 14], zero, one]
    assert second[3:6] == [total[1:], [zero[1], one[1]], [[2], [3], [2], [3]]]


def test_handles_where_a_gradient_is_asked_for() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)

    def run(rank: int) -> list[Any]:
        def loss(x: Any) -> Any:
            total, handle = comm_func.all_reduce(x * x, async_op=True)
            handle.wait()
            return total.sum()

        return ms.grad(loss)(Tensor(np.float32([rank, 3]))).asnumpy().tolist()

    assert run_ranks(2, run) == [[0, 12], [4, 12]]


def test_a_handle_tells_what_went_wrong() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)

    def run(rank: int) -> None:
        x = Tensor(np.zeros(3 + rank, np.float32))
        _, handle = comm_func.all_reduce(x, async_op=True)
        with pytest.raises(ValueError, match="there is no group"):
            comm_func.all_reduce(x, group="none", async_op=True)
        handle.wait()

    with pytest.raises(CollectiveError, match="collective mismatch"):
        run_ranks(2, run)
