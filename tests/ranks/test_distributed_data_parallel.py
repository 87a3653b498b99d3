"""`DistributedDataParallel`: n ranks give the bits of one process that adds the same gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.communication import create_group
from cellc.eager import backward
from cellc.parallel.distributed import DistributedDataParallel
from cellc.testing.ranks import run_ranks
from cellc_compiler import driver
from cellc_compiler.ir.graph import Graph
from cellc_runtime.target import host_target

from .test_overlap import said

BATCH = 6


class Net(nn.Cell):
    """Two layers, and one that is used if it is asked for."""

    def __init__(self, third: bool = False) -> None:
        super().__init__()
        draw = np.random.RandomState(3)
        self.first = nn.Dense(5, 7, Tensor(draw.randn(7, 5).astype(np.float32)), "zeros")
        self.last = nn.Dense(7, 3, Tensor(draw.randn(3, 7).astype(np.float32)), "zeros")
        if third:
            self.third = nn.Dense(5, 3, "ones", "zeros")
        self.uses = False

    def construct(self, x: Any) -> Any:
        out = self.last(ops.relu(self.first(x)))
        return out + self.third(x) if self.uses else out


@pytest.fixture(autouse=True)
def _pynative() -> Iterator[None]:
    before = ms.get_context("mode")
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield
    ms.set_context(mode=before)


def data(rank: int, step: int = 0) -> tuple[Tensor, Tensor]:
    draw = np.random.RandomState(100 * step + rank)
    return (Tensor(draw.randn(BATCH, 5).astype(np.float32)),
            Tensor(draw.randint(0, 3, BATCH).astype(np.int32)))


def slopes(net: nn.Cell) -> Callable[..., Any]:
    """Gradients of the loss for all Parameters."""
    loss = nn.CrossEntropyLoss()
    return ms.grad(lambda x, y: loss(net(x), y), None, net.trainable_params())


def mean(parts: list[Any], late: bool = False) -> list[Any]:
    """Of each rank's gradients, in the order of ranks."""
    n = len(parts)
    total = [g if late else g * (1.0 / n) for g in parts[0]]
    for more in parts[1:]:
        total = [a + (g if late else g * (1.0 / n)) for a, g in zip(total, more, strict=True)]
    return [t / n for t in total] if late else total


def same(found: Any, wanted: Any) -> bool:
    return all(a.asnumpy().tobytes() == b.asnumpy().tobytes()
               for a, b in zip(found, wanted, strict=True))


def trained(net: nn.Cell, grads: Callable[[int], Any]) -> list[Tensor]:
    """The Parameters after three steps."""
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    for step in range(3):
        optimizer(tuple(grads(step)))
    return [p.copy() for p in net.get_parameters()]


@pytest.mark.parametrize(("count", "late", "options"), [
    (1, False, {}), (2, False, {}), (3, True, {}),
    (2, False, {"static_graph": True, "bucket_cap_mb": 0}),
    (3, False, {"bucket_cap_mb": 0, "reducer_mode": "PythonReducer"}),
    (2, True, {"static_graph": True, "init_sync": False, "find_unused_parameters": True}),
])
def test_ranks_equal_one_process(count: int, late: bool, options: dict[str, Any]) -> None:
    def train(rank: int) -> list[Tensor]:
        net = Net()
        whole = DistributedDataParallel(net, average_in_collective=late, **options)
        own = slopes(whole)

        def grads(step: int) -> Any:
            found = own(*data(rank, step))
            whole.zero_grad()
            return found

        return trained(net, grads)

    alone = Net()
    own = slopes(alone)
    want = trained(alone, lambda step: mean([own(*data(r, step)) for r in range(count)], late))
    for found in run_ranks(count, train):
        assert same(found, want)


def test_gradients_add_up_until_they_are_forgotten() -> None:
    def run(rank: int) -> list[Any]:
        net = DistributedDataParallel(Net())
        own = slopes(net)
        with net.no_sync():
            first = own(*data(rank, 0))
        second = own(*data(rank, 1))
        third = own(*data(rank, 2))
        kept = [p.grad for p in net.trainable_params()]
        net.zero_grad()
        empty = [p.grad for p in net.trainable_params()]
        return [first, second, third, kept, empty, own(*data(rank, 3))]

    own = slopes(Net())
    grads = [[own(*data(rank, step)) for rank in range(2)] for step in range(4)]
    local = [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(*grads[:2], strict=True)]
    second = mean(local)
    third = mean([[a + b for a, b in zip(second, g, strict=True)] for g in grads[2]])
    for rank, (a, b, c, kept, empty, anew) in enumerate(run_ranks(2, run)):
        assert same(a, grads[0][rank]) and same(b, second) and same(c, third)
        assert all(k is g for k, g in zip(kept, c, strict=True))
        assert not any(g.asnumpy().any() for g in empty) and same(anew, mean(grads[3]))


def test_all_start_with_what_the_first_has() -> None:
    class Counted(Net):
        def __init__(self, start: float) -> None:
            super().__init__()
            self.first.weight.set_data(self.first.weight + start)
            self.last.bias.requires_grad = False
            self.last.bias.set_data(self.last.bias + start)
            self.register_buffer("count", Tensor([start]))

    def run(rank: int) -> list[Any]:
        create_group("all in another order", [1, 0])
        out = []
        for sync in (True, False):
            net = Counted(rank)
            DistributedDataParallel(net, sync, "all in another order")
            out.append([t.asnumpy() for t in (net.first.weight, net.last.bias, net.count)])
        return out

    want = [[t.asnumpy() for t in (n.first.weight, n.last.bias, n.count)]
            for n in (Counted(0), Counted(1))]
    for rank, (synced, own) in enumerate(run_ranks(2, run)):
        for found, right in ((synced, want[1]), (own, want[rank])):
            assert all(map(np.array_equal, found, right))


def test_what_only_some_ranks_use() -> None:
    """Their gradients are means with zeros; without `find_unused_parameters` it is an error."""
    def run(rank: int, **options: Any) -> Any:
        net = Net(third=True)
        net.uses = rank == 1
        return slopes(DistributedDataParallel(net, **options))(*data(rank))

    nets = [Net(third=True), Net(third=True)]
    nets[1].uses = True
    want = mean([slopes(net)(*data(rank)) for rank, net in enumerate(nets)])
    for options in ({"find_unused_parameters": True}, {"static_graph": True}):
        for found in run_ranks(2, lambda rank, options=options: run(rank, **options)):
            assert same(found, want)
    with pytest.raises(RuntimeError, match=r"third.weight has no gradient in rank 0.*find_unused"):
        run_ranks(2, run)


def _with_hook(net: Net) -> None:
    net.first.weight.register_hook(lambda g: g * 1)


def _compiled(net: Net) -> None:
    net.first.construct = ms.jit(net.first.construct)


def _computed_again(net: Net) -> None:
    net.first.recompute()


@pytest.mark.parametrize("change", [_with_hook, _compiled, _computed_again])
def test_passes_that_are_not_one_program(change: Callable[[Net], None]) -> None:
    def run(rank: int) -> Any:
        net = Net()
        change(net)
        return slopes(DistributedDataParallel(net))(*data(rank))

    own = slopes(Net())
    for found in run_ranks(2, run):
        assert same(found, mean([own(*data(r)) for r in range(2)]))


def test_sums_go_on_beside_the_backward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last layer's gradients are sent before those of the first are computed."""
    made: list[Graph] = []

    class Watched:
        @staticmethod
        def compile_program(graph: Graph) -> Any:
            made.append(graph)
            return driver.compile_program(graph)

    monkeypatch.setattr(backward, "driver", Watched)
    deep = [nn.Dense(11, 11) for _ in range(3)]

    def run(rank: int) -> None:
        net = DistributedDataParallel(nn.SequentialCell(*deep), bucket_cap_mb=0)
        grad = ms.grad(lambda x: ops.tanh(net(x)).sum(), None, net.trainable_params())
        for _ in range(3):
            grad(Tensor(np.ones((2, 11), np.float32)))

    run_ranks(2, run)
    order = said(driver.lower(made[0], host_target()))
    assert order.count("start") == order.count("wait") >= 2 * len(deep) - 1
    first = order.index("start")
    assert "matmul" in " ".join(order[first : order.index("wait")])


def test_a_part_of_the_parameters() -> None:
    """What is asked for is reduced, and nothing for gradients of arguments alone."""
    def run(rank: int) -> Any:
        net = DistributedDataParallel(Net())
        loss = nn.CrossEntropyLoss()
        x, y = data(rank)
        return ms.grad(lambda x: loss(net(x), y), 0, [net.module.last.weight])(x), \
            ms.grad(lambda x: loss(net(x), y))(x), net.module.first.weight.grad

    x_slopes, part = [], []
    for rank in range(2):
        net, (x, y) = Net(), data(rank)
        dx, dw = ms.grad(lambda x, net=net, y=y: nn.CrossEntropyLoss()(net(x), y), 0,
                         [net.last.weight])(x)
        x_slopes.append(dx)
        part.append(dw)
    for rank, ((dx, dw), again, absent) in enumerate(run_ranks(2, run)):
        assert same([dx, again], [x_slopes[rank]] * 2) and same(dw, mean(part))
        assert absent is None


def test_what_is_refused() -> None:
    def refused(kind: type[Exception], said: str, call: Callable[[], object]) -> None:
        with pytest.raises(kind, match=said):
            call()

    make = DistributedDataParallel
    refused(TypeError, "'module' must be a Cell", lambda: make(ops.relu))  # type: ignore[arg-type]
    refused(ValueError, "no Parameter", lambda: make(nn.ReLU()))
    for name in ("init_sync", "find_unused_parameters", "average_in_collective", "static_graph"):
        refused(TypeError, f"'{name}' must be a bool", lambda name=name: make(Net(), **{name: 1}))
    refused(TypeError, "'bucket_cap_mb' must be a number", lambda: make(Net(), bucket_cap_mb="1"))
    refused(ValueError, "must not be negative", lambda: make(Net(), bucket_cap_mb=-1))
    refused(ValueError, "'reducer_mode' must be one of", lambda: make(Net(), reducer_mode="gloo"))
    refused(ValueError, "there is no group 'mine'", lambda: make(Net(), process_group="mine"))
    net, (x, y) = make(Net()), data(0)
    grad = slopes(net)
    refused(RuntimeError, "outside of other gradients",
            lambda: ms.grad(lambda x: grad(x, y)[0].sum())(x))
    refused(RuntimeError, "works in PyNative mode", lambda: ms.jit(lambda x: net(x))(x))
