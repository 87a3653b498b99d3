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
    ((Tensor([1]),), {}, TypeError, "an input must be a Tensor of floats, or a trainable parameter "
     "must be read, but got an Int64 tensor"),
    ((Tensor([1j]),), {}, TypeError, "only gradients of floats are checked"),
])
def test_errors(args: Any, kwargs: Any, error: Any, told: str) -> None:
    with pytest.raises(error, match=told):
        check_grads(lambda x: x, *args, **kwargs)


class Counter(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.seen, self.calls = nn.Dense(4, 4), 0, []

    def construct(self, x: Tensor) -> Tensor:
        self.seen += 1
        self.calls.append(self.seen)
        return self.fc(x) * self.seen * len(self.calls)


class Noisy(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return ops.dropout(x * x, 0.5, True) * ops.randn(3, 4) * float(np.random.rand())


def dropout() -> nn.Cell:
    return nn.SequentialCell(nn.Dense(4, 8), nn.Dropout(p=0.5), nn.Dense(8, 2)).set_train()


@pytest.mark.parametrize("make", [dropout, Counter, Noisy, lambda: nn.SequentialCell(
    nn.Dense(4, 8), nn.BatchNorm1d(8)).set_train()])
def test_draws_and_state_are_the_same_in_all_evaluations(mode: int, make: Any) -> None:
    net = make()
    before = [p.asnumpy().copy() for p in net.get_parameters()], dict(vars(net))
    check_grads(net, X, order=2)
    assert all(np.array_equal(a, p.asnumpy())
               for a, p in zip(before[0], net.get_parameters(), strict=True))
    assert getattr(net, "seen", 0) == 0 and getattr(net, "calls", []) == []


class Embedded(nn.Cell):
    """Its one input is of ints."""

    def __init__(self, inner: nn.Cell | None = None) -> None:
        super().__init__()
        self.table, self.head, self.inner = nn.Embedding(10, 4), nn.Dense(4, 2), inner

    def construct(self, ids: Tensor) -> Tensor:
        out = self.head(self.table(ids))
        return out if self.inner is None else self.inner(out)


IDS = Tensor([1, 2, 3], ms.int32)


def test_parameters_are_checked_without_float_inputs(mode: int) -> None:
    net, wrong = Embedded(), Embedded(Half())
    for right in (net, lambda ids: net(ids).sum(), ms.jit(lambda ids: net(ids).mean())):
        check_grads(right, IDS)
    for bad in (wrong, lambda ids: wrong(ids).sum()):
        with pytest.raises(AssertionError, match=r"the worst: (table|head)[\s\S]*bprop of Half"):
            check_grads(bad, IDS)
    with pytest.raises(TypeError, match="must be read, but got an Int32 tensor of shape"):
        check_grads(net, IDS, modes=("fwd",))


def test_parameters_of_what_no_graph_can_hold() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)

    class Opaque(Embedded):
        def construct(self, ids: Tensor) -> Tensor:
            return super().construct(ids) * eval("2.0")

    check_grads(Opaque(), IDS)
    with pytest.raises(AssertionError, match=r"is wrong .*\n  cause: not found; graph"):
        check_grads(Opaque(Half()), IDS)


class Declared(Half):
    bprop_differs = True


ZEROS = Tensor(np.zeros((2, 2), np.float32))


@pytest.mark.parametrize(("function", "x", "told"), [
    (nn.ReLU(), ZEROS, r"cannot be checked at these inputs .*\n  cause: relu .* kink"),
    (nn.MaxPool2d(2, 2), Tensor(np.ones((1, 1, 4, 4), np.float32)), r"cause: max_pool2d .*\(ties"),
    (lambda x: x.max(), ZEROS, "cause: reduce_max .* kink"),
    (lambda x: ops.sort(x)[0] * Tensor([1.0, 2.0]), ZEROS, "cause: sort .* kink"),
    (lambda x: ops.where(x > 0, x + 1, x), ZEROS, "cause: where .* jump"),
    (lambda x: ops.sqrt(x), ZEROS, r"is not finite .*\n  cause: the first value of the gradient "
     r"that is not finite: div .*test_gradients.py"),
    (lambda x: ops.where(x > 0, x, ops.log(x)), X, r"the first value that is not finite: log .*"
     r"test_gradients.py.* makes NaN"),
    (lambda x: (x * 4e4).astype(ms.float16), X + 5, "first value .*: cast .* makes infinity"),
    (lambda x: x * 2, Tensor([np.nan, 1.0]), r"cause: input 0 \(x\) holds NaN"),
    (Half(), X, r"is wrong .*\n  cause: bprop of Half: .* the worst element: input 0\["),
    (Declared(), X, "cause: the bprop of Declared differs, as its bprop_differs declares"),
    (lambda x: ops.stop_gradient(x) * x, X, "cause: stop_gradient .* stops gradients"),
], ids=lambda v: v if isinstance(v, str) else "")
def test_a_verdict_says_the_cause(mode: int, function: Any, x: Tensor, told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        check_grads(function, x)


def test_a_kink_hides_no_fault(mode: int) -> None:
    relu = nn.SequentialCell(nn.ReLU(), Half())
    with pytest.raises(AssertionError, match=r"is wrong .*\n  cause: bprop of Half"):
        check_grads(relu, ops.concat([ZEROS, X[:2, :2]]))
    check_grads(nn.ReLU(), Tensor([3e-6, -2e-6, 1.0]))  # near a kink, not on it


def test_a_larger_term_hides_no_wrong_bprop(mode: int) -> None:
    half = Half()
    with pytest.raises(AssertionError, match="right within the tolerance, but has a wrong rule"):
        check_grads(lambda x: x * 1e5 + half(x), X)


def test_an_op_with_a_wrong_rule_is_named(mode: int, monkeypatch: pytest.MonkeyPatch,
                                          tmp_path: Any) -> None:
    monkeypatch.setenv("CELLC_CACHE_DIR", str(tmp_path))
    op = type(lookup("tanh"))
    old = op.gradient
    monkeypatch.setattr(op, "gradient", lambda self, b, node, dys: [
        g and b.add(g, g) for g in old(self, b, node, dys)])
    with pytest.raises(AssertionError, match=r"cause: the rule of an op: tanh \(1\) at .*py:"):
        check_grads(network(), X)


def test_what_cannot_be_put_back_is_named() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    rows, generator = iter(range(1, 1000)), np.random.default_rng
    for function in (lambda x: x * next(rows), lambda x: x * float(generator().normal())):
        with pytest.raises(AssertionError, match=r"cannot be checked .*\n  cause: two calls from "
                           r"one state differ \(output\[0, 0\] is .*\[CE30[78]\]"):
            check_grads(function, X, modes=("rev",))


def test_outputs_must_be_floats() -> None:
    with pytest.raises(TypeError, match="must give a Tensor of floats"):
        check_grads(lambda x: x.argmax(), X)


class Normalized(nn.Cell):
    """Rows made +1 and -1: almost no gradient is left of terms that are large."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor

    def construct(self, x: Tensor) -> Tensor:
        centred = x - x.mean(0, keep_dims=True)
        return centred * ops.rsqrt((centred * centred).mean(0, keep_dims=True) + 1e-5)

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor, ...]:
        centred = x - x.mean(0, keep_dims=True)
        inverse = ops.rsqrt((centred * centred).mean(0, keep_dims=True) + 1e-5)
        change = dout - dout.mean(0, keep_dims=True) - out * (dout * out).mean(0, keep_dims=True)
        return (change * inverse * self.factor,)


def few_rows(seed: int, *shape: int, dtype: Any = np.float32) -> Tensor:
    return Tensor(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


@pytest.mark.parametrize(("make", "shape"), [
    (lambda: nn.BatchNorm1d(3), (2, 3)), (lambda: nn.BatchNorm2d(3), (2, 3, 1, 1)),
    (lambda: nn.LayerNorm([2]), (3, 2)), (lambda: nn.BatchNorm1d(100), (2, 100)),
    (lambda: nn.SequentialCell(nn.Dense(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dense(8, 2)),
     (2, 4))])
def test_gradients_that_the_element_type_rounds_away_are_right(
    mode: int, make: Any, shape: tuple[int, ...]
) -> None:
    for seed in range(3):
        ms.set_seed(seed)
        check_grads(make().set_train(), few_rows(seed, *shape))
    check_grads(Normalized(), few_rows(0, 2, 3, dtype=np.float64), modes=("rev",))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("factor", [0.99, 1.5])
def test_a_wrong_rule_shows_where_rounding_is_large(mode: int, factor: float, dtype: Any) -> None:
    for seed in range(2):
        with pytest.raises(AssertionError, match="gradient of Normalized is wrong"):
            check_grads(Normalized(factor), few_rows(seed, 2, 3, dtype=dtype), modes=("rev",))


def test_a_wrong_op_shows_where_rounding_is_large(mode: int, monkeypatch: pytest.MonkeyPatch,
                                                  tmp_path: Any) -> None:
    monkeypatch.setenv("CELLC_CACHE_DIR", str(tmp_path))
    op = type(lookup("rsqrt"))
    old = op.gradient
    monkeypatch.setattr(op, "gradient", lambda self, b, node, dys: [
        g and b.add(g, g) for g in old(self, b, node, dys)])
    for modes in (("rev",), ("fwd",)):
        with pytest.raises(AssertionError, match="cause: the rule of an op: rsqrt"):
            check_grads(Normalized.construct, None, few_rows(2, 2, 3), modes=modes)


def test_moving_averages_explain_no_wrong_gradient(mode: int) -> None:
    net = nn.SequentialCell(nn.Dense(4, 3), nn.BatchNorm1d(3), Half()).set_train()
    with pytest.raises(AssertionError, match=r"cause: bprop of Half"):
        check_grads(net, few_rows(1, 2, 4))
