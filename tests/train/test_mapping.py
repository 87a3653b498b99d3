"""HyperMap, Map, MultitypeFuncGraph, partial: as training scripts use them, in both modes."""

from __future__ import annotations

import re

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn
from cellc.ops import composite as C
from cellc.ops import functional as F
from cellc.ops import operations as P

pytestmark = pytest.mark.usefixtures("mode")


choose = C.MultitypeFuncGraph("choose")


@choose.register("Tensor", "Tensor")
def _times(factor, x):
    return x * factor


@choose.register("Number", "Tensor")
def _plus(term, x):
    return x + term


@choose.register("Tensor", "Tuple")
def _first(factor, xs):
    return xs[0] * factor


def _values(result):
    if isinstance(result, (tuple, list)):
        return tuple(_values(r) for r in result)
    return result.asnumpy().tolist()


class Apply(nn.Cell):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn
        self.hyper_map = C.HyperMap()
        self.map_ = C.Map()

    def construct(self, x, y):
        return self.fn(self, x, y)


X, Y = [1.0, 2.0], [3.0]


@pytest.mark.parametrize(("fn", "want"), [
    # What MindSpore 2.10 gives.
    (lambda c, x, y: choose(x, x), [1.0, 4.0]),
    (lambda c, x, y: choose(2, x), [3.0, 4.0]),
    (lambda c, x, y: choose(x, (x, y)), [1.0, 4.0]),
    (lambda c, x, y: c.hyper_map(F.partial(choose, y), (x, y)), ([3.0, 6.0], [9.0])),
    (lambda c, x, y: c.hyper_map(F.partial(choose, 2), [x, y]), ([3.0, 4.0], [5.0])),
    (lambda c, x, y: c.hyper_map(F.partial(choose, 2), (x, (y, x))),
     ([3.0, 4.0], ([5.0], [3.0, 4.0]))),
    (lambda c, x, y: c.hyper_map(choose, (x, y), (x, y)), ([1.0, 4.0], [9.0])),
    (lambda c, x, y: C.HyperMap(choose)((x, y), (x, y)), ([1.0, 4.0], [9.0])),
    (lambda c, x, y: c.hyper_map(choose, x, x), [1.0, 4.0]),
    (lambda c, x, y: c.hyper_map(choose, (x,), (x, y)), ([1.0, 4.0],)),
    (lambda c, x, y: c.hyper_map(lambda a, b: a + b, [x, y], (x, y)), ([2.0, 4.0], [6.0])),
    (lambda c, x, y: c.map_(lambda a: a[0], ((x, y), (y,))), ([1.0, 2.0], [3.0])),
    (lambda c, x, y: c.map_(choose, (x, y), ((x, y), (y,))), ([1.0, 4.0], [9.0])),
    (lambda c, x, y: C.HyperMap(reverse=True)(lambda a: a * 2, (x, y)), ([2.0, 4.0], [6.0])),
])
def test_as_mindspore(fn, want):
    assert _values(Apply(fn)(Tensor(X), Tensor(Y))) == want


def test_functions_with_branches_of_the_run():
    class Clipped(nn.Cell):
        def construct(self, xs, limit):
            def clip(x):
                if x.sum() > limit:
                    x = x * 0.5
                return x

            return C.HyperMap()(clip, xs)

    got = Clipped()((Tensor([1.0, 2.0]), Tensor([8.0])), Tensor(5.0))
    assert _values(got) == ([1.0, 2.0], [4.0])


grad_scale = C.MultitypeFuncGraph("grad_scale")


@grad_scale.register("Tensor", "Tensor")
def _unscaled(scale, grad):
    return grad * P.Reciprocal()(scale)


class FinetuneCell(nn.Cell):
    """The training cell of many published scripts: GradOperation, a scale, HyperMap."""

    def __init__(self, network, optimizer, scale):
        super().__init__(auto_prefix=False)
        self.network = network
        self.weights = optimizer.parameters
        self.optimizer = optimizer
        self.grad = C.GradOperation(get_by_list=True, sens_param=True)
        self.hyper_map = C.HyperMap()
        self.scale = Tensor(scale, ms.float32)

    def construct(self, x, y):
        loss = self.network(x, y)
        grads = self.grad(self.network, self.weights)(x, y, P.Fill()(loss.dtype, (), self.scale))
        grads = self.hyper_map(F.partial(grad_scale, self.scale), grads)
        return F.depend(loss, self.optimizer(grads))


def test_a_published_training_cell():
    def make():
        net = nn.Dense(4, 2, weight_init="ones", bias_init="zeros")
        return net, nn.WithLossCell(net, nn.MSELoss()), nn.Adam(net.trainable_params(), 0.1)

    x = Tensor(np.linspace(-1, 1, 12).reshape(3, 4).astype(np.float32))
    y = Tensor(np.ones((3, 2), np.float32))
    net, network, optimizer = make()
    cell = FinetuneCell(network, optimizer, 1024.0)
    other, network, optimizer = make()
    straight = nn.TrainOneStepCell(network, optimizer)
    for _ in range(3):
        loss, want = cell(x, y), straight(x, y)
        assert np.allclose(loss.asnumpy(), want.asnumpy(), rtol=1e-6)
    assert np.allclose(net.weight.asnumpy(), other.weight.asnumpy(), rtol=1e-6)


@pytest.mark.parametrize(("wrong", "error", "text"), [
    (lambda: choose("a", Tensor(X)), TypeError,
     "'choose' has no function for arguments of types ['str', 'Tensor']; there are [('Tensor'"),
    (lambda: C.HyperMap(3), TypeError, "'ops' must be a function, but got 3"),
    (lambda: C.MultitypeFuncGraph(3), TypeError, "'name' must be a str, but got 3"),
    (lambda: choose.register("Foo"), TypeError,
     "there is no type 'Foo'; there are Tensor, Ref, Bool, Int, Float, Number, String, Tuple"),
    (lambda: C.HyperMap()(3, Tensor(X)), TypeError,
     "For 'HyperMap', 'ops' must be a function, but got 3"),
    (lambda: F.partial(3), TypeError, "'func' must be a function, but got 3"),
])
def test_wrong_arguments(wrong, error, text):
    with pytest.raises(error, match=re.escape(text)):
        wrong()
