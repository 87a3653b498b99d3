"""`vmap` against the function on each example, in both modes, alone and under gradients.

Shapes of results and kinds of errors are those of MindSpore 2.10; what it refuses (branches that
differ from example to example, dropout) follows from the function on each example.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc.common import _Function

from ..modes.law import MODES, arrays_of, assert_same, mode

BOTH = pytest.mark.parametrize("m", MODES, ids=["eager", "graph"])
PROGRAMS: dict[str, Callable[..., Any]] = {}


def program(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of x[3] and w[3, 3]; both of each example, or one w for all."""
    PROGRAMS[fn.__name__] = fn
    return fn


def given(n: int = 4) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(7)
    return (Tensor(rng.standard_normal((n, 3)).astype(np.float32)),
            Tensor((rng.standard_normal((n, 3, 3)) * 0.5).astype(np.float32)))


@program
def products(x: Any, w: Any) -> Any:
    return ops.matmul(w, x) * ops.sin(x), x.sum() * w[0, 1]


@program
def layers(x: Any, w: Any) -> Any:
    return ops.softmax(ops.matmul(w, x)) + ops.layer_norm(x, (3,), w[0], w[1]) + ops.gelu(x)


@program
def moves(x: Any, w: Any) -> Any:
    y = ops.concat((x, w[1]), 0)[::2]
    return y.reshape(3, 1) + w.T, ops.sort(x)[0], ops.cumsum(w, 0), ops.flip(w, (1,)), x[1:]


@program
def indexed(x: Any, w: Any) -> Any:
    at = ops.argmax(w, 1)
    return w[at], ops.gather(x, at, 0), ops.one_hot(at, 3)


@program
def written(x: Any, w: Any) -> Any:
    y = x * 1
    y[1] = w[0, 0]
    y[ops.argmax(w[0], 0)] = 5.0
    return y


@program
def branch(x: Any, w: Any) -> Any:
    if x.sum() > 0:
        y = ops.sin(x) * w[0]
    else:
        y = ops.exp(x) + w[1]
    return y * x


@program
def shared_branch(x: Any, w: Any) -> Any:
    if FLAG.sum() > 0:
        return x * w[0]
    return x - w[1]


@program
def rows(x: Any, w: Any) -> Any:
    h = x
    for row in w:
        h = ops.tanh(h * 0.5 + row * x)
    return h


@program
def counted(x: Any, w: Any) -> Any:
    n = Tensor(0, ms.int64)
    while n < 3:
        x = ops.tanh(ops.matmul(w, x)) + x * 0.5
        n = n + 1
    return x, n


@program
def until_small(x: Any, w: Any) -> Any:
    n = Tensor(0, ms.int64)
    while ops.abs(x).max() > 0.3:
        x = x * 0.7
        n = n + 1
    return x + w[0], n


class Cubed(nn.Cell):
    """x^3 with a gradient of its own."""

    def construct(self, x: Any) -> Any:
        return x * x * x

    def bprop(self, x: Any, out: Any, dout: Any) -> Any:
        return (3 * x * x * dout,)


class Doubled(_Function):
    """a * b, the gradient of a doubled."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        return g * b * 2, g * a


CUBED = Cubed()
FLAG = Tensor(np.array([1, 2], np.float32))


@program
def own_gradients(x: Any, w: Any) -> Any:
    return CUBED(x * w[0]) + Doubled.apply(x, w[1])


@program
def gradient_inside(x: Any, w: Any) -> Any:
    def inner(x: Any) -> Any:
        return (ops.matmul(w, x) * ops.sin(x)).sum()

    return ms.grad(inner)(x)


@program
def nested(x: Any, w: Any) -> Any:
    def one(row: Any, e: Any) -> Any:
        return (row * x).sum() * e

    return ms.vmap(one)(w, x), ms.vmap(one, (1, None), 1)(w, x)


def one_by_one(fn: Callable[..., Any], x: Tensor, w: Tensor, shared: bool) -> list[Any]:
    call = ms.jit(fn)
    each = [arrays_of(call(x[i], w[0] if shared else w[i])) for i in range(len(x))]
    return [np.stack(parts) for parts in zip(*each, strict=True)]


@pytest.mark.parametrize("shared", [False, True], ids=["each its own", "one w"])
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_values(name: str, shared: bool) -> None:
    fn, (x, w) = PROGRAMS[name], given()
    results = []
    for m in MODES:
        with mode(m):
            out = ms.vmap(fn, (0, None))(x, w[0]) if shared else ms.vmap(fn)(x, w)
            results.append(arrays_of(out))
    want = one_by_one(fn, x, w, shared)
    assert_same(*results, name)
    for got, each in zip(results[0], want, strict=True):
        assert (got.dtype, got.shape) == (each.dtype, each.shape)
        np.testing.assert_allclose(got, each, rtol=1e-6, atol=1e-6)


def total(out: Any) -> Any:
    parts = [p for p in (out if isinstance(out, tuple) else (out,)) if p.dtype == ms.float32]
    return sum((ops.sin(p).sum() for p in parts), Tensor(0.0))


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_gradients(name: str) -> None:
    """The gradient of a batched function: both modes alike, and that of a loop over examples."""
    fn, (x, w) = PROGRAMS[name], given()

    def batched(x: Any, w: Any) -> Any:
        return total(ms.vmap(fn, (0, None))(x, w))

    def single(x: Any, w: Any) -> Any:
        return total(fn(x, w))

    results = []
    for m in MODES:
        with mode(m):
            results.append(arrays_of(ms.grad(batched, (0, 1))(x, w[0])))
    assert_same(*results, name)
    with mode(ms.GRAPH_MODE):
        slope = ms.grad(single, (0, 1))
        each = [arrays_of(slope(x[i], w[0])) for i in range(len(x))]
    np.testing.assert_allclose(results[0][0], np.stack([e[0] for e in each]), rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(results[0][1], sum(e[1] for e in each), rtol=2e-5, atol=2e-5)


def add(a: Any, b: Any) -> Any:
    return a + b


def pair(a: Any, b: Any) -> Any:
    return a + b, a * b


def deep(t: Any, b: Any) -> Any:
    return t[0] + t[1] * b


def tree(a: Any, b: Any) -> Any:
    return a, (b, a * b)


def double_b(a: Any, b: Any) -> Any:
    return b * 2


def with_number(a: Any) -> Any:
    return a, 3


@BOTH
def test_axes(m: int) -> None:
    x = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    y, s = x + 10, Tensor(np.array([1, 2, 3], np.float32))
    xa, ya, sa = (t.asnumpy() for t in (x, y, s))
    with mode(m):
        for axes in (0, 1, -1):
            np.testing.assert_array_equal(ms.vmap(add, axes, axes)(x, y).asnumpy(), xa + ya)
        np.testing.assert_array_equal(ms.vmap(add, 0, 1)(x, y).asnumpy(), (xa + ya).T)
        np.testing.assert_array_equal(ms.vmap(add, [0, None])(x, s).asnumpy(), xa + sa)
        np.testing.assert_array_equal(ms.vmap(add, (0, None))(x, 2.0).asnumpy(), xa + 2)
        p, q = ms.vmap(pair, 0, (0, 1))(x, y)
        np.testing.assert_array_equal(p.asnumpy(), xa + ya)
        np.testing.assert_array_equal(q.asnumpy(), (xa * ya).T)
        np.testing.assert_array_equal(
            ms.vmap(deep, ((0, None), 0))((x, s), y).asnumpy(), xa + sa * ya)
        a, (b, c) = ms.vmap(tree, 0, (0, (1, 0)))(x, y)
        assert (a.shape, b.shape, c.shape) == ((2, 3), (3, 2), (2, 3))
        np.testing.assert_array_equal(
            ms.vmap(double_b, (0, None))(x, s).asnumpy(), np.stack([sa * 2] * 2))
        _, three = ms.vmap(with_number)(x)
        assert (three.dtype, three.asnumpy().tolist()) == (ms.int64, [3, 3])
        p, q = ms.vmap(lambda a, b: (a, b * 2), (0, None), (0, None))(x, s)
        assert (p.shape, q.shape) == ((2, 3), (3,))


@BOTH
def test_a_tensor_from_outside_gets_its_gradient(m: int) -> None:
    x, w = given()

    def loss(v: Any) -> Any:
        return ms.vmap(lambda row: (row * v).sum())(x).sum()

    with mode(m):
        got = ms.grad(loss)(w[0, 0]).asnumpy()
    np.testing.assert_allclose(got, x.asnumpy().sum(0), rtol=1e-6)


class Net(nn.Cell):
    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        rng = np.random.default_rng(seed)
        self.fc = nn.Dense(3, 2, weight_init=Tensor(rng.standard_normal((2, 3)).astype(np.float32)),
                           bias_init="zeros")

    def construct(self, x: Any) -> Any:
        return ops.tanh(self.fc(x))


@BOTH
def test_gradients_of_each_example_with_respect_to_weights(m: int) -> None:
    net, (x, _) = Net(), given()

    def loss(x: Any) -> Any:
        return net(x.reshape(1, 3)).sum()

    each = ms.grad(loss, None, net.trainable_params())
    with mode(m):
        got = arrays_of(ms.vmap(each)(x))
        want = [arrays_of(each(x[i])) for i in range(4)]
    for k in range(2):
        np.testing.assert_allclose(got[k], np.stack([w[k] for w in want]), rtol=1e-6, atol=1e-7)


@BOTH
def test_gradient_of_a_batched_cell_with_respect_to_weights(m: int) -> None:
    net, (x, _) = Net(), given()

    def loss(x: Any) -> Any:
        return ms.vmap(net)(x.reshape(4, 1, 3)).sum()

    def plain(x: Any) -> Any:
        return net(x).sum()

    with mode(m):
        got = arrays_of(ms.grad(loss, 0, net.trainable_params())(x))
        want = arrays_of(ms.grad(plain, 0, net.trainable_params())(x))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)


@BOTH
def test_ensemble(m: int) -> None:
    nets = nn.CellList([Net(i) for i in range(3)])
    x = given(3)[0].reshape(3, 1, 3)
    with mode(m):
        own = ms.vmap(nets)(x).asnumpy()
        same = ms.vmap(nets, None)(x[0]).asnumpy()
        for i, net in enumerate(nets):
            np.testing.assert_array_equal(own[i], net(x[i]).asnumpy())
            np.testing.assert_array_equal(same[i], net(x[0]).asnumpy())
        grads = ms.grad(lambda x: ms.vmap(nets)(x).sum(), None, nets.trainable_params())(x)
        for i, net in enumerate(nets):
            want = ms.grad(lambda x, net=net: net(x).sum(), None, net.trainable_params())(x[i])
            for g, w in zip(grads[2 * i: 2 * i + 2], want, strict=True):
                np.testing.assert_allclose(g.asnumpy(), w.asnumpy(), rtol=1e-6, atol=1e-7)


class Counting(nn.Cell):
    def __init__(self, start: float) -> None:
        super().__init__()
        self.seen = Parameter(np.array([start], np.float32), name="seen", requires_grad=False)

    def construct(self, x: Any) -> Any:
        self.seen += x.sum()
        return x * self.seen


@BOTH
@pytest.mark.parametrize("recorded", [False, True])
def test_assignments(m: int, recorded: bool) -> None:
    """Each Cell of an ensemble keeps its state; a shared Parameter can only have one value."""
    nets = nn.CellList([Counting(0), Counting(10)])
    x = Tensor(np.array([[1, 2], [3, 4]], np.float32))
    run: Any = ms.vmap(nets)
    if recorded:
        run = ms.grad(lambda x: ms.vmap(nets)(x).sum())
    with mode(m):
        run(x)
        assert [float(n.seen.asnumpy()[0]) for n in nets] == [3, 17]
        with pytest.raises(RuntimeError, match="differ from example to example to the parameter"):
            ms.vmap(nets[0])(x)


def raised(x: Any, y: Any) -> Any:
    ops.assign_add(x, y)
    return x * 2


@BOTH
def test_arguments_that_the_function_writes(m: int) -> None:
    """The tensor that was given has the new elements of all examples."""
    with mode(m):
        for kind in (Tensor, lambda t: ms.Parameter(Tensor(t), name="x")):
            for axis in (0, 1):
                x, y = kind([[1.0, 2.0], [3.0, 4.0]]), Tensor([[1.0, 1.0], [2.0, 2.0]])
                out = ms.vmap(raised, axis, axis)(x, y)
                assert x.asnumpy().tolist() == [[2, 3], [5, 6]]
                assert out.asnumpy().tolist() == [[4, 6], [10, 12]]
        x = Tensor([[1.0, 2.0], [3.0, 4.0]])
        ms.vmap(lambda x: ops.assign(x, Tensor([5.0, 6.0])))(x)
        assert x.asnumpy().tolist() == [[5, 6], [5, 6]]
        shared = x[0]
        ms.vmap(lambda x, y: y + raised(x, 1.0), (None, 0))(shared, y)
        assert shared.asnumpy().tolist() == [6, 7]
        with pytest.raises(RuntimeError, match="to an argument that all examples share"):
            ms.vmap(raised, (None, 0))(shared, y)


@BOTH
def test_gradients_through_a_written_argument(m: int) -> None:
    def total(x: Any, y: Any) -> Any:
        x = x * 1
        out = ms.vmap(raised)(x, y)
        return (out * x).sum()

    x, y = Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([[1.0, 1.0], [2.0, 2.0]])
    with mode(m):
        for g in ms.grad(total, (0, 1))(x, y):
            assert g.asnumpy().tolist() == [[8, 12], [20, 24]]


@BOTH
def test_draws_are_the_same_for_all_examples(m: int) -> None:
    x = Tensor(np.ones((2, 64), np.float32))
    with mode(m):
        a, b = ms.vmap(lambda x: ops.dropout(x, p=0.5))(x).asnumpy()
        np.testing.assert_array_equal(a, b)
        c = ms.vmap(lambda x: ops.dropout(x, p=0.5))(x).asnumpy()[0]
    assert 0 < (a == 0).sum() < 64
    assert (a != c).any()


@BOTH
def test_prints_for_each_example(m: int, capfd: pytest.CaptureFixture[str]) -> None:
    def shown(x: Any) -> Any:
        print("sum", x.sum())
        return x

    with mode(m):
        ms.vmap(shown)(Tensor(np.array([[1, 2], [3, 4]], np.float32)))
    assert capfd.readouterr().out.split() == ["sum", "3.0", "sum", "7.0"]


@BOTH
def test_errors(m: int) -> None:
    x = Tensor(np.ones((2, 3), np.float32))
    cases: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (RuntimeError, r"must be equal, but got \[2, 3\]", lambda: ms.vmap(add, (0, 1))(x, x)),
        (RuntimeError, "cannot be all None", lambda: ms.vmap(add, (None, None))(x, x)),
        (RuntimeError, "cannot be all None", lambda: ms.vmap(add, None)(x, x)),
        (RuntimeError, "cannot be all None", lambda: ms.vmap(add, 0, None)(x, x)),
        (RuntimeError, "number of arguments, 2, but got 1", lambda: ms.vmap(add, (0,))(x, x)),
        (RuntimeError, "number of outputs, 1, but got 2", lambda: ms.vmap(add, 0, (0, 0))(x, x)),
        (RuntimeError, "ints and None only, but got 'a'", lambda: ms.vmap(add, ("a", 0))),
        (RuntimeError, "ints and None only, but got True", lambda: ms.vmap(add, True)),
        (RuntimeError, "axis 2 in 'in_axes' is out of bounds", lambda: ms.vmap(add, (2, 0))(x, x)),
        (RuntimeError, "axis 3 in 'out_axes' is out of bounds", lambda: ms.vmap(add, 0, 3)(x, x)),
        (RuntimeError, "must be a function, a Cell or a CellList", lambda: ms.vmap(3)),
        (RuntimeError, "must be a Tensor, but got 2.0", lambda: ms.vmap(add)(x, 2.0)),
        (RuntimeError, "needs an axis in 'out_axes'",
         lambda: ms.vmap(pair, 0, (0, None))(x, x)),
        (RuntimeError, "more than one Cell", lambda: ms.vmap(nn.CellList([Net()]))),
        (RuntimeError, "one structure", lambda: ms.vmap(nn.CellList([Net(), nn.Dense(3, 2)]))),
        (TypeError, "at least one argument", lambda: ms.vmap(add)()),
        (TypeError, "depends on the elements", lambda: ms.vmap(lambda x: ops.nonzero(x))(x)),
    ]
    with mode(m):
        for kind, message, call in cases:
            with pytest.raises(kind, match=message):
                call()


def host(x: Any) -> Any:
    return ops.py_func(np.square, x, out_shape=(2,), out_dtype=ms.float32,
                       bprop=lambda x, out, dout: (dout * 2 * x,))


def test_python_functions() -> None:
    x = Tensor(np.array([[1, 2], [3, 4]], np.float32))
    slope = ms.grad(lambda x: ms.vmap(host)(x).sum())
    for m in MODES:
        with mode(m):
            assert ms.vmap(host)(x).asnumpy().tolist() == [[1, 4], [9, 16]]
    with mode(ms.GRAPH_MODE):
        assert slope(x).asnumpy().tolist() == [[2, 4], [6, 8]]
    with mode(ms.PYNATIVE_MODE), pytest.raises(TypeError, match="in graph mode only"):
        slope(x)
