"""What PyNative keeps of Parameters: packed weights, transposes that are not made. Nothing of it
shows: bits are those of graph mode, whoever reads or writes, whenever."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.eager import backward, recorder
from cellc.storage import prepacked, transposed, writes

from .law import assert_same, mode

Array = np.ndarray[Any, Any]
CALLS = 4


def array(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *shape)).standard_normal(shape, np.float32)


def parameter(*shape: int, seed: int = 1) -> Any:
    return ms.Parameter(ms.Tensor(array(*shape, seed=seed)), name="w")


def given_up(p: Any) -> bool:
    """Whether a parameter has no array of its own."""
    return isinstance(p._storage.state, prepacked.Prepacked)


def waits(t: Any) -> bool:
    """Whether a transpose is not made yet."""
    return transposed.source_of(t) is not None


class Layers(nn.Cell):
    """Layers with large weights, and one product by a Parameter's transpose."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(300, 900)
        self.conv = nn.Conv2d(64, 130, 3, has_bias=True)
        self.last = nn.Dense(900, 301, has_bias=False)
        self.table = parameter(900, 301)

    def construct(self, x: Any, image: Any) -> Any:
        y = self.last(ops.relu(self.first(x)))
        return ops.matmul(y, self.table.swapaxes(0, 1)), self.conv(image)


def inputs(rows: int = 9) -> list[Any]:
    return [ms.Tensor(array(rows, 300)), ms.Tensor(array(1, 64, 9, 11))]


def called(net: Any, given: list[Any]) -> list[Array]:
    return [o.asnumpy() for o in net(*given)]


def test_weights_are_packed_after_some_calls_and_no_bit_changes() -> None:
    net, given = Layers().set_train(False), inputs()
    before = {p.name: p.asnumpy().copy() for p in net.get_parameters()}
    eager = [called(net, given) for _ in range(CALLS)]
    large = [net.first.weight, net.last.weight, net.conv.weight, net.table]
    assert all(map(given_up, large))
    with mode(ms.GRAPH_MODE):
        graph = called(net, given)
    for each in eager:
        assert_same(each, graph)
    assert_same([p.asnumpy() for p in net.get_parameters()], list(before.values()))
    assert not any(map(given_up, large))


@pytest.mark.parametrize("rows", [2, 24, 100])
def test_other_batches_find_the_same_weights(rows: int) -> None:
    net = Layers().set_train(False)
    for _ in range(CALLS):
        called(net, inputs())
    got = [called(net, inputs(rows)) for _ in range(2)]
    fresh = Layers()
    for p, q in zip(fresh.get_parameters(), net.get_parameters(), strict=True):
        p.set_data(q)
    assert_same(got[0], got[1])
    assert_same(got[0], called(fresh, inputs(rows)))


def _set_data(p: Any) -> None:
    p.set_data(ms.Tensor(array(*p.shape, seed=7)))


def _write_lent(p: Any) -> None:
    p.asnumpy()[...] = array(*p.shape, seed=7)


def _write_part(p: Any) -> None:
    p[...] = ms.Tensor(array(*p.shape, seed=7))


def _assign(p: Any) -> None:
    ops.assign(p, ms.Tensor(array(*p.shape, seed=7)))


WRITERS = [_set_data, _write_lent, _write_part, _assign]


@pytest.mark.parametrize("write", WRITERS)
def test_who_writes_is_seen(write: Callable[[Any], None]) -> None:
    p, x = parameter(520, 512), ms.Tensor(array(5, 520))
    old = [ops.matmul(x, p).asnumpy() for _ in range(CALLS)][-1]
    write(p)
    new = [ops.matmul(x, p).asnumpy() for _ in range(CALLS)]
    fresh = ops.matmul(x, ms.Tensor(array(520, 512, seed=7))).asnumpy()
    assert not np.array_equal(old, fresh)
    for each in new:
        assert_same([each], [fresh])


def test_a_table_that_is_read_too_is_not_packed() -> None:
    p, tokens = parameter(2100, 128), ms.Tensor(np.arange(9, dtype=np.int32))
    for _ in range(CALLS):
        x = ops.gather(p, tokens, 0)
        out = ops.matmul(x, p.T)
    assert not given_up(p) and not p._storage.prepacked
    want = ops.matmul(ms.Tensor(x.asnumpy()), ms.Tensor(np.ascontiguousarray(p.asnumpy().T)))
    assert_same([out.asnumpy()], [want.asnumpy()])


def test_a_recording_takes_weights_back() -> None:
    p, x = parameter(520, 512), ms.Tensor(array(5, 520))
    for _ in range(CALLS):
        ops.matmul(x, p)
    assert given_up(p)
    grad = ms.grad(lambda x: ops.matmul(x, p).sum(), None, ms.ParameterTuple([p]))(x)
    assert not given_up(p) and not p._storage.prepacked
    want = ms.grad(lambda x, w: ops.matmul(x, w).sum(), 1)(x, ms.Tensor(p.asnumpy()))
    assert_same([grad[0].asnumpy()], [want.asnumpy()])


def test_one_who_reads_weights_again_and_again_gets_them_for_good() -> None:
    p, x = parameter(520, 512), ms.Tensor(array(5, 520))
    want = p.asnumpy().copy()
    for _ in range(3 * prepacked.OFTEN):
        for _ in range(CALLS):
            ops.matmul(x, p)
        assert_same([(p + 0).asnumpy()], [want])
    assert not given_up(p) and not p._storage.prepacked


def test_copies_of_a_packed_parameter_are_whole() -> None:
    p, x = parameter(520, 512), ms.Tensor(array(5, 520))
    want = p.asnumpy().copy()
    for _ in range(CALLS):
        ops.matmul(x, p)
    for other in (copy.deepcopy(p), pickle.loads(pickle.dumps(p)), p.clone()):
        assert_same([other.asnumpy()], [want])
        assert not other._storage.prepacked
    assert given_up(p)


def test_threads_that_infer_and_record_do_not_disturb_one_another() -> None:
    net, x = nn.Dense(520, 520).set_train(False), ms.Tensor(array(2, 520))
    want, weights = net(x).asnumpy().copy(), ms.ParameterTuple([net.weight])
    wrong: list[Any] = []
    grads: list[Array] = []
    done = threading.Event()

    def infer() -> None:
        while not done.is_set() and not wrong:
            try:
                if not np.array_equal(net(x).asnumpy(), want):
                    wrong.append("values")
            except Exception as e:
                wrong.append(e)

    threads = [threading.Thread(target=infer) for _ in range(2)]
    for t in threads:
        t.start()
    for _ in range(30):
        (grad,) = ms.grad(lambda x: ops.tanh(net(x)).sum(), None, weights)(x)
        grads.append(grad.asnumpy())
    done.set()
    for t in threads:
        t.join()
    assert not wrong
    assert all(np.array_equal(g, grads[0]) for g in grads) and np.any(grads[0])


# --- transposes ----------------------------------------------------------------------------------


def test_a_transpose_waits_and_is_what_it_should_be() -> None:
    p = parameter(520, 512)
    want = np.ascontiguousarray(p._snapshot().T)
    for t in (p.T, p.swapaxes(0, 1), ops.transpose(p, (1, 0)), p.swapaxes(-1, -2), ops.t(p)):
        assert waits(t)
        assert (t.shape, t.dtype, t.ndim, t.size) == ((512, 520), ms.float32, 2, 266240)
        assert isinstance(t, ms.Tensor) and not isinstance(t, ms.Parameter)
        assert waits(t)
        assert_same([t.asnumpy()], [want])
        assert type(t) is ms.Tensor and not waits(t)
    assert not writes.lazy


@pytest.mark.parametrize("write", WRITERS)
def test_it_is_of_what_the_parameter_was(write: Callable[[Any], None]) -> None:
    p = parameter(520, 512)
    t, dead = p.T, p.T
    del dead
    assert len(writes.lazy) == 1
    write(p)
    assert not waits(t)
    # A view follows; who writes into lent memory is not noticed.
    want = array(520, 512, seed=1) if write is _write_lent else p.asnumpy()
    assert_same([t.asnumpy()], [np.ascontiguousarray(want.T)])


def test_an_optimizer_is_a_writer() -> None:
    net = nn.Dense(520, 512)
    t, before = net.weight.T, net.weight.asnumpy().copy()
    del t
    gc.collect()
    loss = nn.WithLossCell(net, nn.MSELoss())
    step = nn.TrainOneStepCell(loss, nn.Momentum(net.trainable_params(), 0.1, 0.9))
    x, y = ms.Tensor(array(4, 520)), ms.Tensor(array(4, 512))
    for _ in range(CALLS):  # steps op by op, then compiled ones
        before, t = net.weight._snapshot().copy(), net.weight.T
        assert waits(t)
        step(x, y)
        assert not np.array_equal(net.weight.asnumpy(), before)
        assert_same([t.asnumpy()], [np.ascontiguousarray(net.weight.asnumpy().T)])  # a view


def test_lent_memory_is_transposed_at_once() -> None:
    p = parameter(520, 512)
    lent = p.asnumpy()
    t = p.T
    assert not waits(t)
    lent[...] = 0
    assert_same([t.asnumpy()], [np.ascontiguousarray(array(520, 512, seed=1).T)])


@pytest.mark.parametrize("rows", [1, 2, 40])
@pytest.mark.parametrize("side", ["left", "right"])
def test_products_read_the_parameter_itself(rows: int, side: str) -> None:
    p = parameter(520, 512)
    x = ms.Tensor(array(rows, 512) if side == "right" else array(520, rows))

    def product(x: Any) -> Any:
        return ops.matmul(x, p.T) if side == "right" else ops.matmul(p.T, x)

    t = p.T
    out = ops.matmul(x, t) if side == "right" else t @ x
    assert waits(t) == (rows > 1)
    with mode(ms.GRAPH_MODE):
        want = ms.jit(product)(x)
    assert_same([out.asnumpy()], [want.asnumpy()])


def test_gradients_do_not_need_the_transpose() -> None:
    p, x = parameter(520, 512), ms.Tensor(array(6, 512))
    made: list[Any] = []

    def loss(x: Any) -> Any:
        t = p.T
        if not made and waits(t):
            made.append(t)
        return (ops.matmul(x, t) ** 2).sum()

    weights = ms.ParameterTuple([p])
    for _ in range(3):  # op by op, then compiled
        got = ms.grad(loss, 0, weights)(x)
    made.clear()
    got = ms.grad(loss, 0, weights)(x)
    assert waits(made[0])
    with mode(ms.GRAPH_MODE):
        want = ms.grad(loss, 0, weights)(x)
    assert_same([got[0].asnumpy(), got[1][0].asnumpy()],
                [want[0].asnumpy(), want[1][0].asnumpy()])


# --- what gradients keep --------------------------------------------------------------------------


def test_a_gradient_op_by_op_lets_tensors_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long chain holds few tensors at a time, and nothing that the gradient does not need."""
    def chain(x: Any) -> Any:
        for _ in range(20):
            x = ops.relu(x * 2.0) + 1.0
        return x.sum()

    x = ms.Tensor(array(7))
    want = ms.grad(chain)(x)
    sizes: list[int] = []
    run = recorder._BackwardWalk._run

    def counting(self: Any, node: Any) -> None:
        run(self, node)
        sizes.append(len(self.env))

    monkeypatch.setattr(recorder._BackwardWalk, "_run", counting)
    monkeypatch.setattr(backward, "run", lambda *args: None)

    got = ms.grad(chain)(x)
    assert_same([got.asnumpy()], [want.asnumpy()])
    assert sizes[-1] <= 3
    assert max(sizes) <= 70


def test_a_recording_is_let_go_before_the_backward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    release = recorder.Recording.release

    def noting(self: Any) -> None:
        kept.append(len(self.tensors))
        release(self)
        assert not self.tensors and not self.steps

    monkeypatch.setattr(recorder.Recording, "release", noting)
    x = ms.Tensor(array(5))

    def f(x: Any) -> Any:
        for _ in range(8):
            x = ops.tanh(x)
        return x.sum()

    first, second = (ms.grad(f)(x).asnumpy() for _ in range(2))
    assert len(kept) == 2
    assert_same([first], [second])


def test_native_calls_by_packed_weights_are_not_taken_for_recorded_ones() -> None:
    """A small product that the native site answers without its Parameter, then a gradient."""
    p, x = parameter(512, 520), ms.Tensor(array(2, 512))
    weights = ms.ParameterTuple([p])
    for _ in range(3):
        for _ in range(2 * CALLS):
            out = ops.matmul(x, p)
        assert given_up(p)
        (got,) = ms.grad(lambda x, y: (ops.matmul(x, p) * y).sum(), None, weights)(x, out)
        want = ms.grad(lambda w, y: (ops.matmul(x, w) * y).sum())(ms.Tensor(p._snapshot()), out)
        assert_same([got.asnumpy()], [want.asnumpy()])
        del got, want
        gc.collect()
