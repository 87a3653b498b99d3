"""One trace serves all sizes; the bits are those of a static compilation and of PyNative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Symbol, Tensor, nn, ops
from cellc.tracing.pytree import tensors

from .networks import CASES, Case, Mlp, floats, open_tensor

pytestmark = pytest.mark.usefixtures("graph_mode")


def eagerly(fn: Any, *args: Any) -> Any:
    """The call in PyNative mode."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    try:
        return getattr(fn, "fn", fn)(*args)
    finally:
        ms.set_context(mode=ms.GRAPH_MODE)


def assert_same(got: Any, want: Any) -> None:
    """Equal structures of equal tensors, to the bit."""
    a, b = list(tensors(got)), list(tensors(want))
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert x.dtype is y.dtype and x.shape == y.shape
        np.testing.assert_array_equal(x.asnumpy(), y.asnumpy())


def traces(table: Any) -> list[Any]:
    """What was traced with symbols."""
    return [o for found in table.dynamic.once.values() for o in found]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_networks(case: Case) -> None:
    net = case.make().set_train(False)
    static = case.make().set_train(False)
    for a, b in zip(static.get_parameters(), net.get_parameters(), strict=True):
        a.set_data(b)
    net.set_inputs(case.spec)
    for sizes in case.sizes:
        x = case.inputs(*sizes)
        got = net(x)
        assert_same(got, static(x))
        assert_same(got, eagerly(net, x))
        assert_same(net(x), got)
    (once,) = traces(net._entries)
    assert once.instances == len(case.sizes)
    assert not once.per_size, once.per_size
    assert not any(g.relation == "==" for g in once.guards)


def test_empty_batch_is_compiled_on_its_own() -> None:
    net = Mlp()
    net.set_inputs(open_tensor(None, 20))
    for n in (3, 0, 5, 0):
        assert net(floats(n, 20)).shape == (n, 10)
    assert len(traces(net._entries)) == 2


def training_step() -> nn.Cell:
    ms.set_seed(1)
    np.random.seed(1)
    net = nn.SequentialCell(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(p=0.3),
        nn.Dense(4 * 6 * 6, 5),
    )
    loss = nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    step = nn.TrainOneStepCell(loss, nn.Momentum(net.trainable_params(), 0.1, 0.9))
    step.set_inputs(open_tensor(None, 1, 6, 6), open_tensor(None, dtype=ms.int32))
    return step.set_train()


def test_training_with_a_batch_of_any_size() -> None:
    def train() -> tuple[nn.Cell, list[Any]]:
        step = training_step()
        out = [step(floats(n, 1, 6, 6), Tensor(np.arange(n, dtype=np.int32) % 5))
               for n in (4, 1, 7, 3)]
        return step, [*out, *step.get_parameters()]

    step, compiled = train()
    (once,) = traces(step._entries)
    assert len(once.guards) == 1, "both inputs have one batch"
    assert len(once.open) == 1 and not once.per_size
    ms.set_context(mode=ms.PYNATIVE_MODE)
    _, eager = train()
    assert_same(compiled, eager)


FUNCTIONS = {
    "mean": lambda x: x.mean(0) + x.sum() / x.shape[0] * (1.0 / x.shape[1]),
    "parts": lambda x: (ops.concat([x, x], 0)[1:-1:2], x[::-1], x[1:], x[:-1], x[:, 2]),
    "filled": lambda x: (ops.zeros_like(x), ops.ones((x.shape[0], 2), ms.float32),
                         ops.full((x.shape[0],), 3), ops.arange(x.shape[0])),
    "reduced": lambda x: (x.max(axis=0), x.std(), x.argmax(0), ops.cumsum(x, 0), x.prod(1)),
    "reshaped": lambda x: (x.reshape(-1), x.flatten(), x.reshape(x.shape[0], -1, 2),
                           x.view(-1, 3), ops.stack([x, x], 1), x.expand_dims(1), x.T),
    "split": lambda x: ops.split(x, 2, axis=1) + ops.chunk(x, 3, 1),
    "selected": lambda x: (ops.topk(x, 2), ops.sort(x, 0), ops.where(x > 0, x, 0.0)),
    "joined": lambda x: ops.tile(x, (2, 1)) + ops.concat([x, x * 2]),
    "size": lambda x: x * x.size + len(x) + x.shape[0] ** 2 - x.ndim,
    "branch": lambda x: x + 1 if x.shape[1] == 6 else x - 1,
    "product": lambda x: (x @ x.T, ops.matmul(x.T, x), ops.bmm(x[None], x.T[None])),
    "masked": lambda x: ops.masked_fill(x, ops.tril(ops.ones_like(x)) == 0, -1.0),
    "norm": lambda x: ops.log_softmax(x, 0) + ops.softmax(x, 1) + ops.norm(x),
    "mean of rows": lambda x: sum(r for r in (x[0], x[-1])) / 2,
    "take": lambda x: ops.gather(x, ops.arange(x.shape[0] - 1, -1, -1), 0),
    "gradient": lambda x: ms.grad(lambda z: (z * z).mean() + (z[0] * z.sum(0)).sum())(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    fn = FUNCTIONS[name]
    jitted = ms.jit(fn, input_signature=open_tensor(None, 6))
    for n in (5, 2, 1, 3, 17):
        x = floats(n, 6)
        assert_same(jitted(x), eagerly(fn, x))
    (once,) = traces(jitted.table)
    assert not once.per_size, once.per_size


def test_a_question_about_the_size_splits_what_is_compiled() -> None:
    @ms.jit(input_signature=open_tensor(None, 2))
    def fn(x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] > 4 else x * 3

    for n in (2, 9, 4, 5, 3):
        x = floats(n, 2)
        assert_same(fn(x), x * (2 if n > 4 else 3))
    assert sorted(str(o.guards[0]).split(" (")[0] for o in traces(fn.table)) == [
        "4 >= x_0", "x_0 >= 5"]
    assert "test_open_sizes.py:" in str(traces(fn.table)[0].guards[0])


def test_sizes_that_python_needs_are_fixed() -> None:
    @ms.jit(input_signature=open_tensor(None, 2))
    def fn(x: Tensor) -> Tensor:
        return x + Tensor(np.arange(x.shape[0], dtype=np.float32)[:, None])

    for n in (3, 5, 3):
        column = Tensor(np.arange(n, dtype=np.float32)[:, None])
        assert_same(fn(floats(n, 2)), floats(n, 2) + column)
    assert len(traces(fn.table)) == 2


def test_open_after_the_second_size() -> None:
    @ms.jit(dynamic=1)
    def fn(x: Tensor, y: Tensor) -> Tensor:
        return x @ y

    for n, k in ((2, 3), (4, 3), (5, 3), (9, 3), (9, 4), (7, 5)):
        assert_same(fn(floats(n, k), floats(k, 2)), floats(n, k) @ floats(k, 2))
    assert [str(o.pattern.types[0]) for o in traces(fn.table)] == [
        "float32[x_0,3]", "float32[x_0,x_1]"]


def test_an_argument_that_is_changed() -> None:
    """The caller's tensor has what was written, of whichever size."""
    @ms.jit(dynamic=1)
    def fn(x: Tensor) -> Tensor:
        x[0] = 7.0
        return x * 2

    for n in (2, 3, 4):
        x, y = floats(n), floats(n)
        y[0] = 7.0
        assert_same(fn(x), y * 2)
        assert_same(x, y)


def test_symbols() -> None:
    net = Mlp()
    net.set_inputs(open_tensor(Symbol(divisor=4, remainder=3, max=40), 20))
    for n in (7, 11, 39):
        assert net(floats(n, 20)).shape == (n, 10)
    assert [str(t) for t in traces(net._entries)[0].pattern.types] == ["float32[4*x_0+3,20]"]
    for n, words in ((6, r"axis 0 of x is 6, but its Symbol says that it is 4 \* n \+ 3"),
                     (41, "at most 40")):
        with pytest.raises(ValueError, match=words):
            net(floats(n, 20))


def test_unique_symbols_are_equal() -> None:
    n = Symbol(unique=True)

    @ms.jit(input_signature=(open_tensor(n, 3), open_tensor(n, 3)))
    def fn(x: Tensor, y: Tensor) -> Tensor:
        return x + y

    fn(floats(2, 3), floats(2, 3))
    (once,) = traces(fn.table)
    assert once.guards == [], "what is equal by name needs no guard"
    with pytest.raises(ValueError, match="axis 0 of y is 4 and axis 0 of x is 2"):
        fn(floats(2, 3), floats(4, 3))


@pytest.mark.parametrize(("value", "error", "words"), [
    (floats(2, 21), ValueError, "axis 1 of x is 21, but it was declared as 20"),
    (floats(20), ValueError, "x was declared with 2 axes"),
    (Tensor(np.zeros((2, 20), np.float16)), TypeError, "of Float32, but one of Float16 came"),
    (3, TypeError, "x was declared as a Tensor"),
])
def test_calls_that_contradict_set_inputs(value: Any, error: type[Exception], words: str) -> None:
    net = Mlp()
    net.set_inputs(open_tensor(None, 20))
    with pytest.raises(error, match=words):
        net(value)


def test_sizes_that_contradict_each_other() -> None:
    @ms.jit(input_signature=(open_tensor(None, 3), open_tensor(None, 3)))
    def fn(x: Tensor, y: Tensor) -> Tensor:
        return x + y

    assert_same(fn(floats(2, 3), floats(2, 3)), floats(2, 3) * 2)
    assert fn(floats(2, 3), floats(1, 3)).shape == (2, 3)
    with pytest.raises(ValueError, match="axis -2 is x_0 in one") as caught:
        fn(floats(2, 3), floats(4, 3))
    assert "return x + y" in str(caught.value)


def test_attributes_set_later_are_seen() -> None:
    class Scaled(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.by = 2.0

        def construct(self, x: Tensor) -> Tensor:
            return x * self.by

    net = Scaled()
    net.set_inputs(open_tensor(None))
    assert_same(net(floats(3)), floats(3) * 2.0)
    net.by = 5.0
    assert_same(net(floats(4)), floats(4) * 5.0)
    assert_same(net(floats(3)), floats(3) * 5.0)


def test_no_compilation_for_further_batches() -> None:
    net = Mlp()
    net.set_inputs(open_tensor(None, 20))
    for n in range(1, 60):
        assert_same(net(floats(n, 20)), eagerly(net, floats(n, 20)))
    (once,) = traces(net._entries)
    (program,) = once.open
    assert not once.per_size and not program.program.open.guards
    net.a.weight.set_data(net.a.weight * 2)
    assert_same(net(floats(50, 20)), eagerly(net, floats(50, 20)))


def test_errors_and_attributes_of_batches_of_any_size() -> None:
    class Looked(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.table = ms.Parameter(floats(5, 3), name="table")
            self.by = 1.0

        def construct(self, i: Tensor) -> Tensor:
            return self.table[i] * self.by

    net = Looked()
    net.set_inputs(open_tensor(None, dtype=ms.int32))
    for n in range(1, 12):
        net(Tensor(np.zeros(n, np.int32)))
    with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 5"):
        net(Tensor(np.full(11, 7, np.int32)))
    net.by = 2.0
    assert_same(net(Tensor(np.zeros(11, np.int32))), ops.gather(net.table, Tensor(
        np.zeros(11, np.int32)), 0) * 2.0)


def test_old_instances_go() -> None:
    net = nn.ReLU()
    net.set_inputs(open_tensor(None))
    for n in range(1, 80):
        net(floats(n))
    assert len(net._entries.entries) <= 64
    assert len(traces(net._entries)) == 1


def test_rank_left_open() -> None:
    @ms.enable_dynamic(y=Tensor(shape=None, dtype=ms.float32))
    @ms.jit
    def fn(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x + 1, y.sum()

    for shape in ((2,), (3,), (2, 3), (4, 5), (1, 2, 3)):
        assert_same(fn(floats(2), floats(*shape)), (floats(2) + 1, floats(*shape).sum()))
    assert len(traces(fn.table)) == 3


def test_set_inputs_arguments() -> None:
    net = Mlp()
    assert net.get_inputs() is None
    with pytest.raises(ValueError, match="one kind of them"):
        net.set_inputs(open_tensor(None, 20), x=open_tensor(None, 20))
    with pytest.raises(ValueError, match="'z' is no input of construct"):
        net.set_inputs(z=open_tensor(None, 20))
    net.set_inputs(x=open_tensor(None, 20))
    assert net.get_inputs()["x"].shape == (-1, 20)
    assert net(floats(3, 20)).shape == (3, 10)
    assert len(traces(net._entries)) == 1
    with pytest.raises(ValueError, match="has no elements"):
        net(open_tensor(None, 20))


@pytest.mark.parametrize(("options", "error"), [
    ({"max": "a"}, TypeError), ({"unique": 1}, TypeError), ({"min": 0}, ValueError),
    ({"divisor": 0}, ValueError), ({"divisor": 4, "remainder": 4}, ValueError),
    ({"min": 5, "max": 7, "divisor": 8}, ValueError),
    ({"min": 4, "max": 6, "divisor": 4, "remainder": 3}, ValueError),
])
def test_symbol_arguments(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="For 'Symbol'"):
        Symbol(**options)


def test_printed_forms() -> None:
    assert str(Symbol(max=32)) == "{'max': 32}"
    assert str(Symbol(max=1, min=4)) == "{'min': 4}"
    assert open_tensor(None, 3).shape == (-1, 3)
    assert open_tensor(None, 3).symbolic_shape is None  # type: ignore[attr-defined]
    assert open_tensor(Symbol(divisor=2), 3).symbolic_shape == [{"divisor": 2}, 3]  # type: ignore[attr-defined]
    assert Tensor(shape=None, dtype=ms.float32).shape == (-2,)


def test_jit_arguments() -> None:
    with pytest.raises(ValueError, match="'dynamic' must be 0 or 1"):
        ms.jit(lambda x: x, dynamic=3)
    with pytest.raises(TypeError, match="decorated by 'jit'"):
        ms.enable_dynamic(x=open_tensor(None))(lambda x: x)
    with pytest.raises(ValueError, match="no argument of the function"):
        ms.enable_dynamic(y=open_tensor(None))(ms.jit(lambda x: x))


class Counts(nn.Cell):
    """Python state that is read before it is changed, so the trace is made again."""

    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def construct(self, x: Tensor) -> Tensor:
        big = x.shape[0] > 4
        y = x * self.n
        self.n = self.n + 1
        return y + 100 if big else y


def test_a_trace_made_again_asks_again() -> None:
    """What the first trace asked about sizes is a guard of the second one too."""
    net = Counts()
    net.set_inputs(open_tensor(None, 2))
    for calls, n in enumerate((6, 3, 6, 2, 9, 3)):
        got = net(Tensor(np.ones((n, 2), np.float32))).asnumpy()
        np.testing.assert_array_equal(got, np.full((n, 2), calls + 100 * (n > 4), np.float32))
