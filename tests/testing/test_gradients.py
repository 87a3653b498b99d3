"""`check_grads`: right gradients pass in both modes, wrong ones are found and placed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.testing import check_grads
from cellc_compiler.ir.op import lookup

RNG = np.random.default_rng(0)
X = Tensor(RNG.standard_normal((3, 4)).astype(np.float32))


class Half(nn.Cell):
    """A bprop that gives half of what it should."""

    def construct(self, x: Tensor) -> Tensor:
        return x * x

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor, ...]:
        return (dout * x,)


class OneElement(nn.Cell):
    """A bprop that is wrong for one element of many."""

    def construct(self, x: Tensor) -> Tensor:
        return ops.exp(x)

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor, ...]:
        wrong = ops.zeros_like(out)
        wrong[17, 5] = 1000.0
        return (dout * out + wrong,)


def two_results(x: Any, y: Any) -> Any:
    return (x * x * y).sum(), {"soft": ops.softmax(x), "index": x.argmax()}


def branches(x: Any) -> Any:
    if x.sum() > 0:
        return x * 2
    return x * x


def network() -> nn.Cell:
    return nn.SequentialCell(nn.Dense(4, 8), nn.Tanh(), nn.LayerNorm([8]), nn.Dense(8, 2))


def test_networks(mode: int) -> None:
    check_grads(network(), X, order=2)


def test_functions(mode: int) -> None:
    check_grads(two_results, X, X + 1, order=2)
    for x in (X, -X):
        check_grads(branches, x, order=2)


def test_what_is_not_a_float_is_fixed(mode: int) -> None:
    labels = Tensor([0, 1, 1], ms.int32)
    check_grads(lambda x, t, k: ops.cross_entropy(x, t) * k, X, labels, 3, order=2)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_element_types(mode: int, dtype: str) -> None:
    x = Tensor(X.asnumpy()).astype(getattr(ms, dtype))
    check_grads(lambda x: ops.tanh(x) * x, x)


def test_casts_to_coarser_types(mode: int) -> None:
    check_grads(lambda x: ops.tanh(x.astype(ms.float16)).astype(ms.float32), X)


def test_wrong_rules_are_found(mode: int) -> None:
    with pytest.raises(AssertionError, match=r"the reverse gradient of Half is wrong \(12 of 12 "
                       r"elements .*; the worst: input 0 \(x\)\[\d, \d\]: .*, by finite"):
        check_grads(Half(), X)


def test_one_wrong_element_of_many_is_named(mode: int) -> None:
    x = Tensor(RNG.standard_normal((40, 30)).astype(np.float32))
    with pytest.raises(AssertionError, match=r"input 0 \(x\)\[17, 5\]: 1\d\d\d\."):
        check_grads(OneElement(), x, modes=("rev",))


def test_wrong_parameters_are_named(mode: int, monkeypatch: pytest.MonkeyPatch,
                                    tmp_path: Any) -> None:
    monkeypatch.setenv("CELLC_CACHE_DIR", str(tmp_path))
    op = type(lookup("erf"))
    old = op.gradient
    monkeypatch.setattr(op, "gradient", lambda self, b, node, dys: [
        g and b.add(g, g) for g in old(self, b, node, dys)])

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = ms.Parameter(np.float32([0.1, 5.0, 0.3, 0.4]), name="w")

        def construct(self, x: Tensor) -> Tensor:
            return x + ops.erf(self.w)

    with pytest.raises(AssertionError, match=r"the worst: w\[0\]"):
        check_grads(Net(), X)
    with pytest.raises(AssertionError, match="the forward gradient of <lambda> is wrong"):
        check_grads(lambda x: ops.erf(x), X, modes=("fwd",))


def test_the_second_order_is_checked(mode: int) -> None:
    class Second(nn.Cell):
        """Its first gradient is right; that of the gradient is not, for it is a constant."""

        def construct(self, x: Tensor) -> Tensor:
            return x * x

        def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor, ...]:
            return (dout * 2 * ops.stop_gradient(x),)

    check_grads(Second(), X, modes=("rev",))
    with pytest.raises(AssertionError, match="the reverse gradient of the gradient of Second"):
        check_grads(Second(), X, modes=("rev",), order=2)


def test_functions_that_no_graph_can_hold() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    check_grads(lambda x: x * eval("2.0") * x, X, modes=("rev",))
    with pytest.raises(AssertionError, match="is wrong"):
        check_grads(lambda x: Half()(x) * eval("2.0"), X, modes=("rev",))


@pytest.mark.parametrize(("args", "kwargs", "error", "told"), [
    ((X,), {"order": 3}, ValueError, "'order' must be 1 or 2, but got 3"),
    ((X,), {"modes": ("up",)}, ValueError, "'modes' holds 'fwd' and 'rev'"),
    ((Tensor([1]),), {}, TypeError, "an input must be a Tensor of floats, but got Tensor"),
    ((Tensor([1j]),), {}, TypeError, "only gradients of floats are checked"),
])
def test_errors(args: Any, kwargs: Any, error: Any, told: str) -> None:
    with pytest.raises(error, match=told):
        check_grads(lambda x: x, *args, **kwargs)


def test_outputs_must_be_floats() -> None:
    with pytest.raises(TypeError, match="must give a Tensor of floats"):
        check_grads(lambda x: x.argmax(), X)
