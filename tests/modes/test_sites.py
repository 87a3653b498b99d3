"""Native sites and compiled backward passes give what the long way gives."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.core import dispatch
from cellc.eager import backward, recorder
from cellc_runtime.site import STATE


@pytest.fixture(autouse=True)
def _pynative() -> Any:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield
    assert STATE.raw.busy == 0 and not STATE.raw.tape


def _same(a: Any, b: Any) -> None:
    x, y = a.asnumpy(), b.asnumpy()
    assert x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def _random(*shape: int) -> ms.Tensor:
    return ms.Tensor(np.random.default_rng(3).standard_normal(shape).astype(np.float32))


def test_the_usual_call_does_not_reach_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    site = getattr(dispatch._engine[0], "site", None)
    if site is not None:  # a long process may have learnt all the cases it keeps
        monkeypatch.setattr(site, "_budget", 64)
    x, y = _random(3, 5), _random(3, 5)
    wanted = [x + y, x * 2.5, ops.relu(x), 3 - x, x @ y.T]
    for _ in range(2):
        [x + y, x * 2.5, ops.relu(x), 3 - x, x @ y.T]
    if not dispatch.routed():
        pytest.skip("no native sites on this interpreter")
    monkeypatch.setattr(dispatch, "_engine", [])
    got = [x + y, x * 2.5, ops.relu(x), 3 - x]
    for a, b in zip(wanted, got, strict=False):
        _same(a, b)


def test_an_element_type_is_an_attribute_that_cases_know(monkeypatch: pytest.MonkeyPatch) -> None:
    site = getattr(dispatch._engine[0], "site", None)
    x = _random(3, 5)
    if site is None:
        site = (x + x, getattr(dispatch._engine[0], "site", None))[1]
    if site is None:
        pytest.skip("no native sites on this interpreter")
    monkeypatch.setattr(site, "_budget", 64)
    wanted = [x.astype(ms.float64), x.astype(ms.int32)]
    for _ in range(2):
        [x.astype(ms.float64), x.astype(ms.int32)]
    monkeypatch.setattr(dispatch, "_engine", [])
    for a, b in zip(wanted, [x.astype(ms.float64), x.astype(ms.int32)], strict=True):
        _same(a, b)


def test_calls_that_cannot_be_learnt_use_up_no_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """`x ** 2` is `x * x`, which no case of `**` can say: `apply` answers it, and nobody asks again
    each time."""
    x = _random(3, 7)
    want = x * x
    x + x
    engine = dispatch._engine[0]
    site = getattr(engine, "site", None)
    if site is None:
        pytest.skip("no native sites on this interpreter")
    monkeypatch.setattr(site, "_budget", 64)
    for _ in range(5):
        _same(x**2, want)
    left = site._budget
    for _ in range(100):
        x**2
    assert site._budget == left
    monkeypatch.setattr(dispatch, "_engine", [])
    _same(x**2, want)


def test_a_case_is_learnt_a_few_times_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """While two threads record, every call goes the long way: it is not learnt anew each time."""
    x = _random(3, 9)
    ops.sigmoid(x)
    site = getattr(dispatch._engine[0], "site", None)
    if site is None:
        pytest.skip("no native sites on this interpreter")
    monkeypatch.setattr(site, "_budget", 64)
    STATE.begin()
    STATE.begin()
    try:
        for _ in range(100):
            ops.sigmoid(x)
    finally:
        STATE.end()
        STATE.end()
    assert site._budget >= 64 - 8


def test_a_case_is_of_one_type_shape_and_number() -> None:
    x = _random(4, 4)
    ints = ms.Tensor(np.arange(16).reshape(4, 4).astype(np.int32))
    for _ in range(3):
        assert (x + x).dtype == ms.float32
        assert (ints + ints).dtype == ms.int32
        assert (x + ints).dtype == ms.float32
        assert (_random(2, 4) + _random(4)).shape == (2, 4)
        assert (ints * 2).dtype == ms.int32 and (ints * 2.0).dtype == ms.float32
        assert (ints * True).dtype == ms.int32
        np.testing.assert_array_equal((ints * 3).asnumpy(), ints.asnumpy() * 3)
        np.testing.assert_array_equal((x * 3.0).asnumpy(), x.asnumpy() * np.float32(3))
        with pytest.raises((TypeError, ValueError), match="axis -2 is 4 in one and 3"):
            x + _random(3, 3)
        with pytest.raises(TypeError, match="does not combine with a numpy array"):
            x + np.ones((4, 4), np.float32)
        assert x.__add__("text") is NotImplemented


def test_signed_zero_and_nan_are_told_apart() -> None:
    one = ms.Tensor(np.ones(3, np.float32))
    for _ in range(3):
        assert np.signbit((one * -0.0).asnumpy()).all()
        assert not np.signbit((one * 0.0).asnumpy()).any()
        assert np.isnan((one * float("nan")).asnumpy()).all()
        assert np.signbit(ops.full((2,), -0.0, dtype=ms.float32).asnumpy()).all()
        assert not np.signbit(ops.full((2,), 0.0, dtype=ms.float32).asnumpy()).any()


def test_a_scalar_tensor_is_not_taken_for_a_number() -> None:
    for value in (2.0, 3.0, 4.0):
        x = ms.Tensor(np.float32(value))
        assert float(x**2) == value * value and float(x * x) == value * value


def test_parameters_and_odd_arrays() -> None:
    p = ms.Parameter(np.arange(6, dtype=np.float32), name="p")
    x = ms.Tensor.from_numpy(np.arange(12, dtype=np.float32)[::2].copy())
    for _ in range(3):
        _same(p + x, ms.Tensor(p.asnumpy() + x.asnumpy()))
        p.set_data(p * 2.0)
    assert p.asnumpy()[1] == 8.0


def test_threads_trace_record_and_run_at_once() -> None:
    x, failures = _random(8, 8), []
    wanted = (x + x).asnumpy()
    step = ms.value_and_grad(lambda t: ops.sum(t * t + t), 0)
    grad = step(x)[1].asnumpy()

    class Net(nn.Cell):
        def construct(self, t: Any) -> Any:
            return ops.relu(t + t) + t

    def run(kind: int) -> None:
        try:
            for _ in range(40):
                if kind == 0:
                    np.testing.assert_array_equal((x + x).asnumpy(), wanted)
                elif kind == 1:
                    np.testing.assert_array_equal(step(x)[1].asnumpy(), grad)
                else:
                    net = Net()
                    net.compile(x)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i % 3,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def _network() -> nn.Cell:
    ms.set_seed(5)
    return nn.SequentialCell(
        nn.Dense(7, 9), nn.LayerNorm((9,)), nn.GELU(), nn.Dense(9, 5), nn.Softmax(), nn.Dense(5, 1)
    )


def test_a_compiled_backward_pass_has_the_bits_of_single_ops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net, x = _network(), _random(6, 7)
    weights = list(net.trainable_params())
    step = ms.value_and_grad(lambda t: ops.mean(net(t)), 0, weights)
    monkeypatch.setattr(backward, "run", lambda *args: None)
    loss, (dx, dw) = step(x)
    monkeypatch.undo()
    for _ in range(3):
        again, (ex, ew) = step(x)
        _same(loss, again)
        for a, b in zip((dx, *dw), (ex, *ew), strict=True):
            _same(a, b)


def test_structures_with_other_types_or_constants_are_others() -> None:
    for n in (3, 4, 3):
        for scale in (2.0, 3.0, 2.0):
            x = _random(n, 4)
            got = ms.grad(lambda t, s=scale: ops.sum(t * s * t * s + t - t * s))(x)
            wanted = 2 * scale * scale * x.asnumpy() + 1 - scale
            np.testing.assert_allclose(got.asnumpy(), wanted, rtol=1e-5, atol=1e-5)


def test_gradients_of_gradients_and_sensitivities() -> None:
    x = _random(5)
    cube = lambda t: ops.sum(t * t * t)  # noqa: E731
    for _ in range(3):
        second = ms.grad(lambda t: ops.sum(ms.grad(cube)(t)))(x)
        np.testing.assert_allclose(second.asnumpy(), 6 * x.asnumpy(), rtol=1e-5)
        sens = _random(5)
        got = ms.grad(lambda t: t * t, sens_param=True)(x, sens)
        np.testing.assert_allclose(got.asnumpy(), 2 * x.asnumpy() * sens.asnumpy(), rtol=1e-5)


def test_an_overwritten_parameter_keeps_its_old_value_for_the_gradient() -> None:
    p = ms.Parameter(np.full(4, 3.0, np.float32), name="p")

    def fn(t: Any) -> Any:
        y = t * p
        ops.assign(p, p + 1.0)
        return ops.sum(y * p)

    for k in range(3):
        before = 3.0 + k
        got = ms.grad(fn)(ms.Tensor(np.ones(4, np.float32)))
        np.testing.assert_allclose(got.asnumpy(), before * (before + 1))


def test_a_failing_forward_leaves_nothing_behind() -> None:
    def fn(t: Any) -> Any:
        (t * 2.0) + t
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        ms.grad(fn)(_random(3))
    assert recorder.active_recordings() == []


class _Affine(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.w = ms.Parameter(np.full(4, 2.0, np.float32), name="w")
        self.scale = 1.0

    def construct(self, x: Any) -> Any:
        return x * self.w * self.scale


def test_calls_of_a_compiled_cell_see_every_change() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    x, net = ms.Tensor(np.ones(4, np.float32)), _Affine()

    def value(t: Any = x) -> float:
        return float(net(t).asnumpy()[0])

    for _ in range(3):
        assert value() == 2.0
    net.scale = 3.0
    assert [value() for _ in range(3)] == [6.0] * 3
    net.w.set_data(ms.Tensor(np.full(4, 5.0, np.float32)))
    assert [value() for _ in range(3)] == [15.0] * 3
    net.w.asnumpy()[:] = 1.0
    assert [value() for _ in range(3)] == [3.0] * 3
    net.w = ms.Parameter(np.full(4, 7.0, np.float32), name="w")
    assert [value() for _ in range(3)] == [21.0] * 3
    assert net(ms.Tensor(np.ones((2, 4), np.float32))).shape == (2, 4)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    assert value() == 21.0
    ms.set_context(mode=ms.GRAPH_MODE)
    got = ms.grad(lambda t: ops.sum(net(t)))(x)
    assert [value() for _ in range(2)] == [21.0] * 2 and got.asnumpy()[0] == 21.0


def test_a_cell_at_the_place_of_a_dead_one_is_another() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    x = ms.Tensor(np.ones(4, np.float32))
    for k in range(30):
        net = _Affine()
        net.w.set_data(ms.Tensor(np.full(4, float(k), np.float32)))
        for _ in range(3):
            assert float(net(x).asnumpy()[0]) == k
        del net


def test_weights_prepared_ahead_follow_their_parameter() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    net, x = nn.Dense(64, 96), _random(8, 64)
    for k in range(4):
        w = np.random.default_rng(k).standard_normal((96, 64)).astype(np.float32)
        net.weight.set_data(ms.Tensor(w))
        wanted = x.asnumpy() @ w.T + net.bias.asnumpy()
        for _ in range(3):
            np.testing.assert_allclose(net(x).asnumpy(), wanted, rtol=1e-4, atol=1e-4)


def test_an_optimizer_in_one_program_has_the_bits_of_single_ops() -> None:
    def train(whole: bool) -> list[bytes]:
        ms.set_seed(1)
        net = nn.SequentialCell(nn.Dense(6, 5), nn.ReLU(), nn.Dense(5, 3))
        optimizer = nn.Adam(net.trainable_params(), learning_rate=0.1, weight_decay=0.01)
        object.__setattr__(optimizer, "_whole", whole)
        step = ms.value_and_grad(
            lambda t: ops.mean(net(t) * net(t)), None, optimizer.parameters)
        for _ in range(4):
            _, grads = step(_random(7, 6))
            optimizer(grads)
        return [p.asnumpy().tobytes() for p in net.trainable_params()]

    assert train(True) == train(False)


def test_floats_are_told_apart_by_their_bits() -> None:
    """0.0 and -0.0 are equal, and NaN equals nothing: cases of each are of their own."""
    x = ms.Tensor(np.array([-1.0, 0.5, 3.0], np.float32))
    for _ in range(3):
        for low in (0.0, -0.0):
            got = ops.clamp(x, low, 1.0).asnumpy()
            assert got.tolist() == [0.0, 0.5, 1.0] and np.signbit(got[0]) == np.signbit(low)
            assert np.signbit((x * low).asnumpy()).tolist() == [low == 0 and not np.signbit(low),
                                                                *[bool(np.signbit(low))] * 2]
        assert np.isnan((x + float("nan")).asnumpy()).all()


def test_several_results_are_answered_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    site = getattr(dispatch._engine[0], "site", None)
    if site is None:
        pytest.skip("no native sites on this interpreter")
    monkeypatch.setattr(site, "_budget", 64)
    x, g, b = _random(4, 6), _random(6), _random(6)
    both = ms.value_and_grad(lambda v: sum((i + 2) * p.sum() for i, p in enumerate(
        ops.split(v, 2, 1))))
    want = ops.split(x, 2, 1), ops.layer_norm(x, (6,), g, b), both(x)[1]
    for _ in range(2):
        ops.split(x, 2, 1), ops.layer_norm(x, (6,), g, b)
    engine = dispatch._engine[0]
    monkeypatch.setattr(dispatch, "_engine", [])
    got, normal = ops.split(x, 2, 1), ops.layer_norm(x, (6,), g, b)
    monkeypatch.setattr(dispatch, "_engine", [engine])
    assert type(got) is tuple and len(got) == 3
    for p, q in zip(got, want[0], strict=True):
        assert type(p) is ms.Tensor
        _same(p, q)
    _same(normal, want[1])
    _same(both(x)[1], want[2])


def test_a_part_is_one_op_and_remembers_its_whole() -> None:
    x = _random(3, 4)
    a = x.asnumpy().copy()
    for key in (0, -1, (slice(None), 2), (1, slice(None, None, -1)), (None, 2, slice(1, 3)),
                slice(1, 3), Ellipsis, (2, 3)):
        part = x[key]
        assert part.asnumpy().tolist() == a[key].tolist() and part.shape == a[key].shape
    grad = ms.grad(lambda v: (v[1] * v[1]).sum() + v[2, 3] * 5.0)(x).asnumpy()
    want = np.zeros_like(a)
    want[1] = 2 * a[1]
    want[2, 3] = 5.0
    assert np.array_equal(grad, want)
    x[1][2] = 9.0
    assert x.asnumpy()[1, 2] == 9.0


def test_a_part_is_overwritten_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing is recorded no other element is touched; a recording keeps what it read."""
    a = np.arange(20, dtype=np.float32).reshape(4, 5)
    x, parameter = ms.Tensor(a), ms.Parameter(ms.Tensor(a), name="p")
    held, version = x._data, parameter._version
    with monkeypatch.context() as patch:
        patch.setattr(type(dispatch._engine[0]), "assign", None)
        for key, value in ((1, 2.5), ((slice(None, None, -2), 3), ms.Tensor([7.0, 8.0])),
                           ((None, slice(2, 2)), 1), ((Ellipsis, -1), [1.0, 2.0, 3.0, 4.0]),
                           (slice(1, None), x[:-1])):
            a[key] = value.asnumpy().copy() if isinstance(value, ms.Tensor) else value
            parameter[key] = x[key] = value  # (the last one is a part of x, which follows it)
            assert np.array_equal(x.asnumpy(), a) and np.array_equal(parameter.asnumpy(), a)
    assert x._data is held and parameter._version > version
    for key, value, kind, text in (
        (4, 1.0, IndexError, "index 4 is out of bounds for axis 0 with size 4"),
        (0, [1.0, 2.0], ValueError, "a value of shape (2,) cannot be written to a part of (5,)"),
        (0, "text", TypeError,
         "only a Tensor, a number, a list or an array can be written into a tensor, got str"),
        ((0, 0, 0), 1.0, IndexError, "too many indices: the tensor has 2 axes, but 3 were indexed"),
    ):
        with pytest.raises(kind, match=re.escape(text)):
            x[key] = value
    assert np.array_equal(x.asnumpy(), a)

    def loss(v: Any) -> Any:
        y = v * 1.0
        squared = y * y
        y[0] = 0.0
        return (squared + y).sum()

    want = 2 * a + 1
    want[0] -= 1
    assert np.array_equal(ms.grad(loss)(ms.Tensor(a)).asnumpy(), want)
