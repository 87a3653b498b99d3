"""Parameters and layers that a compiled function makes: new in each call, as in PyNative."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cellc.ops.function.grad.grad_func import custom_vjp

import cellc as ms
import cellc_runtime
from cellc import Parameter, Tensor, jit_class, nn, ops

X = Tensor([1.0, -2.0])


def made(x: Tensor) -> Any:
    p = Parameter(Tensor([1.0, 2.0]), name="p")
    ops.assign(p, p + x)
    return p * 2


def several(x: Tensor) -> Any:
    return made(x) + made(x + 1) + made(x)


def large(x: Tensor) -> Any:
    p = Parameter(Tensor(np.arange(100, dtype=np.float32)), name="p")
    ops.assign(p, p + x.sum())
    return p.sum()


def layers(x: Tensor) -> Any:
    dense = nn.Dense(2, 2, weight_init="ones", bias_init="zeros")
    return nn.LayerNorm((2,))(x) * nn.PReLU()(x) + dense(x)


def moving_mean(x: Tensor) -> Any:
    layer = nn.BatchNorm1d(2).set_train()
    return layer(x.reshape(1, 2) + Tensor([[0.0], [1.0]])), layer.moving_mean


class Counts(nn.Cell):
    """Has a Parameter that its calls change."""

    def __init__(self) -> None:
        super().__init__()
        self.count = Parameter(Tensor([2.0]), name="count")

    def construct(self, x: Tensor) -> Tensor:
        self.count += 1
        return x * self.count


def cell(x: Tensor) -> Any:
    own = Counts()
    sizes = [p.shape for p in own.trainable_params()]
    return own(x) + own(x), len(sizes)


@jit_class
class Managed:
    """A context that changes a Parameter."""

    def __init__(self) -> None:
        self.num = Parameter(Tensor([2]), name="num")

    def __enter__(self) -> Parameter:
        self.num *= 2
        return self.num

    def __exit__(self, *_: object) -> None:
        self.num *= 4


def context(x: Tensor) -> Any:
    managed = Managed()
    out = x.sum()
    with managed as num:
        out += num
    return out, managed.num + 0


def loop(x: Tensor) -> Any:
    for _ in range(40):
        p = Parameter(Tensor([1.0, 1.0]), name="p")
        ops.assign(p, p + x)
        x = x * 0.5 + p * 0.25
    return x


@custom_vjp
def doubled(x: Tensor) -> Tensor:
    return Counts()(x)


def doubled_backward(x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor]:
    return (x + x,)


doubled.defbwd(doubled_backward)


def gradient(x: Tensor) -> Any:
    def of(v: Tensor) -> Tensor:
        return v * Parameter(Tensor([3.0, 4.0]), name="p") * 2

    return ops.grad(of)(x), ops.grad(doubled)(x)


def batched(x: Tensor) -> Any:
    return ops.vmap(lambda v: v * Parameter(Tensor(3.0), name="p") + 1)(x)


def elements(x: Tensor) -> Any:
    p = Parameter(Tensor([3.0, 1.0]), name="p")
    ops.assign(p, x)
    return float(p.sum()), Tensor(p.asnumpy() + 1)


class Runs(nn.Cell):
    """Calls a function in the mode at hand."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def construct(self, x: Tensor) -> Any:
        return self.function(x)


def leaves(value: Any) -> list[Any]:
    parts = value if isinstance(value, (tuple, list)) else [value]
    return [p.asnumpy() if isinstance(p, Tensor) else np.array(p) for p in parts]


@pytest.mark.parametrize("function", [
    made, several, large, layers, moving_mean, cell, context, loop, gradient, batched, elements])
def test_each_call_has_new_ones(function: Callable[[Tensor], Any]) -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    wanted = [leaves(Runs(function)(x)) for x in (X, X * 3, X)]
    ms.set_context(mode=ms.GRAPH_MODE)
    net = Runs(function)
    for x, values in zip((X, X * 3, X), wanted, strict=True):
        for got, value in zip(leaves(net(x)), values, strict=True):
            np.testing.assert_array_equal(got, value)
    assert not net.trainable_params()


def test_values_are_those_of_numpy() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    np.testing.assert_array_equal(Runs(made)(X).asnumpy(), [4.0, 0.0])
    assert float(Runs(large)(X)) == np.arange(100).sum() - 100
    out, count = Runs(cell)(X)
    np.testing.assert_array_equal(out.asnumpy(), [7.0, -14.0])
    assert count == 1
    total, num = Runs(context)(X)
    assert (float(total), num.asnumpy().tolist()) == (3.0, [16])
    first, second = Runs(gradient)(X)
    np.testing.assert_array_equal(first.asnumpy(), [6.0, 8.0])
    np.testing.assert_array_equal(second.asnumpy(), [2.0, -4.0])


def test_a_step_trains_only_what_is_kept() -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = Parameter(Tensor([2.0]), name="w")

        def construct(self, x: Tensor) -> Tensor:
            return (x * self.w * Parameter(Tensor([3.0]), name="v")).sum()

    ms.set_context(mode=ms.GRAPH_MODE)
    net = Net()
    step = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.1))
    assert float(step(Tensor([1.0]))) == 6.0
    np.testing.assert_allclose(net.w.asnumpy(), [1.7], rtol=1e-6)
    assert float(step(Tensor([1.0]))) == pytest.approx(5.1)


@pytest.mark.parametrize("function", [made, large])
def test_an_artifact_begins_with_the_values_too(
    function: Callable[[Tensor], Any], tmp_path: Path
) -> None:
    net, path = Runs(function), tmp_path / "net.cellc"
    ms.compile_artifact(path, (net, X))
    loaded = cellc_runtime.load(path, trust_native_code=True)
    for _ in range(2):
        np.testing.assert_array_equal(loaded(X.asnumpy()), net(X).asnumpy())


def drawn_layer(x: Tensor) -> Any:
    return nn.Dense(2, 2)(x.reshape(1, 2))


def drawn_parameter(x: Tensor) -> Any:
    return x * Parameter(ms.common.initializer.initializer("normal", (2,), ms.float32), name="p")


def of_the_run(x: Tensor) -> Any:
    return Parameter(x, name="p") * 2


def in_a_branch(x: Tensor) -> Any:
    if x.sum() > 0:
        x = x + Counts()(x)
    return x


def in_a_loop(x: Tensor) -> Any:
    while x.sum() < 10:
        x = x + Parameter(Tensor([1.0, 1.0]), name="p")
    return x


@pytest.mark.parametrize(("function", "text"), [
    (drawn_layer, "initial values of a Dense cannot be drawn while a graph is compiled"),
    (drawn_parameter, "cannot be drawn while a graph is compiled: each call would have the same"),
    (of_the_run, "a Parameter cannot be made of a value that only the run knows"),
    (in_a_branch, "cannot be made under a condition or in a loop that only the run knows"),
    (in_a_loop, "a Parameter cannot be made under a condition or in a loop that only the run"),
])
def test_refused(function: Callable[[Tensor], Any], text: str) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(TypeError, match=text):
        Runs(function)(X)


def test_one_cannot_be_kept() -> None:
    class Net(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            self.scale = Parameter(Tensor([2.0, 3.0]), name="scale")
            return x * self.scale

    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(TypeError, match="the attribute 'scale' of Net cannot be set to a Param"):
        Net()(X)
