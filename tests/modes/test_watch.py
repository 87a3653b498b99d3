"""`watch_nans` and `watch_ranges`: the same finding in both modes, and nothing else changes."""

from __future__ import annotations

import inspect
import logging
import math
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc.core import dispatch, watching

MODES = (ms.GRAPH_MODE, ms.PYNATIVE_MODE)


def f32(*values: Any) -> Tensor:
    return Tensor(np.array(values, np.float32))


def in_mode(mode: int, run: Callable[[], Any]) -> str:
    """What `watch_nans` says of a run in a mode, or "" if it has nothing to say."""
    ms.set_context(mode=mode)
    try:
        with ms.watch_nans():
            run()
    except ms.NonFiniteError as e:
        return str(e)
    return ""


def both(run: Callable[[], Any]) -> str:
    """What it says in both modes, which is the same."""
    first, second = (in_mode(mode, run) for mode in MODES)
    assert first == second
    return first


def line_of(fn: Any, part: str) -> str:
    """`line N` of the line of a function that holds a text."""
    lines, start = inspect.getsourcelines(fn)
    return f"line {start + next(i for i, text in enumerate(lines) if part in text)} "


# --- forward -------------------------------------------------------------------------------------


class Inner(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(3, 2, weight_init="ones", bias_init="zeros")

    def construct(self, x: Any) -> Any:
        return ops.log(self.fc(x) - 100)


class Outer(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.CellList([nn.ReLU(), Inner()])

    def construct(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return ops.softmax(x)


def test_the_op_the_cell_and_the_line_are_named() -> None:
    net = Outer()
    said = both(lambda: net(f32([1, 2, 3])))
    assert said.startswith("log made NaN: 2 of 2 elements of float32[1, 2], the first at [0, 0]\n")
    assert line_of(Inner, "ops.log")[:-1] + " (cell Outer.blocks.1)" in said
    assert "    return ops.log(self.fc(x) - 100)\n           ^^^^^^^" in said
    assert said.endswith("  operand 0: float32[1, 2] all -94")


class _Forward(nn.Cell):
    """Runs a function of tensors."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self.fn = fn

    def construct(self, *args: Any) -> Any:
        return self.fn(*args)


def _half(value: float) -> Tensor:
    return Tensor(np.full((2, 2), value, np.float16))


FAULTS: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...], str]] = {
    "log of a negative number": (lambda x: ops.log(x), (f32(1, -1),), "log made NaN"),
    "log of zero": (lambda x: ops.log(x), (f32(1, 0),), "log made infinity"),
    "zero by zero": (lambda x, y: x / y, (f32(0, 1), f32(0, 1)), "div made NaN"),
    "one by zero": (lambda x, y: x / y, (f32(1, 1), f32(0, 1)), "div made infinity"),
    "exp in float16": (lambda x: ops.exp(x), (_half(12),), "exp made infinity"),
    "product in float16": (lambda x: ops.matmul(x, x), (_half(1000),), "matmul made infinity"),
    "sum in float16": (lambda x: ops.sum(x * 1), (_half(30000),), "reduce_sum made infinity"),
    "cast to float16": (lambda x: x.astype(ms.float16), (f32(1e5),), "cast made infinity"),
    "cast of integers": (lambda x: x.astype(ms.float16), (Tensor(np.array([70000])),),
                         "cast made infinity"),
    "bfloat16": (lambda x: x * x, (f32(1e25).astype(ms.bfloat16),), "mul made infinity"),
    "float64": (lambda x: ops.sqrt(x), (Tensor(np.array([-1.0])),), "sqrt made NaN"),
    "infinity less infinity": (lambda x: x - x, (f32(math.inf),), "sub made NaN"),
    "a row that is all masked": (lambda x: ops.softmax(x), (f32([-math.inf, -math.inf]),),
                                 "softmax made NaN"),
    "behind a mask": (lambda x, y: ops.exp(x + y), (f32(0, 100), f32(-math.inf, 0)),
                      "exp made infinity"),
    "not read": (lambda x: (ops.log(x), x)[1], (f32(-1),), "log made NaN"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_found_alike(name: str) -> None:
    fn, args, expected = FAULTS[name]
    net = _Forward(fn)
    said = both(lambda: net(*args))
    assert said.startswith(expected)
    assert "test_watch.py" in said and "(cell _Forward)" in said
    jitted = ms.jit(fn)
    assert both(lambda: jitted(*args)).startswith(expected)


def attention(q: Tensor, mask: Tensor) -> Tensor:
    scores = ops.matmul(q, q.T)
    scores = ops.masked_fill(scores, mask, float("-inf"))
    return ops.matmul(ops.softmax(scores), q)


FINE: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "a mask that softmax takes away": (
        attention, (f32([1, 2], [3, 4]), Tensor([[False, True], [False, False]]))),
    "a mask that is added": (
        lambda x, m: ops.softmax(x + m), (f32(1, 2), f32(0, -math.inf))),
    "a mask that is made": (
        lambda x: ops.softmax(ops.where(x > 1, x, -math.inf)), (f32(1, 2),)),
    "a mask of a constant": (
        lambda x: ops.softmax(x + ops.triu(ops.full((2, 2), -math.inf, dtype=ms.float32), 1)),
        (f32([1, 2], [3, 4]),)),
    "infinity as the start of a maximum": (
        lambda x: ops.maximum(x, Tensor(-math.inf, ms.float32)), (f32(1, 2),)),
    "NaN that is taken away": (lambda x: ops.nan_to_num(x), (f32(1, math.nan),)),
    "NaN that is asked for": (lambda x: ops.isnan(x), (f32(1, math.nan),)),
    "numbers": (lambda x: ops.tanh(x) * 2, (f32(1, 2),)),
}


@pytest.mark.parametrize("name", FINE)
def test_what_is_no_fault_passes(name: str) -> None:
    fn, args = FINE[name]
    assert both(lambda: _Forward(fn)(*args)) == ""


def test_what_came_in_is_named_as_such() -> None:
    net = _Forward(lambda x: ops.relu(x) + 1)
    said = both(lambda: net(f32(1, math.nan)))
    assert said.startswith("operand 0 of relu, an argument or a constant, has NaN, which no op "
                           "made: 1 of 2 elements of float32[2], the first at [1]\n")


class Weighted(nn.Cell):
    def __init__(self, value: float, trained: bool = True) -> None:
        super().__init__()
        self.w = Parameter(np.array([1, value], np.float32), name="w", requires_grad=trained)

    def construct(self, x: Any) -> Any:
        return x * self.w


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_parameter_is_named(value: float) -> None:
    net = Weighted(value)
    what = "NaN" if math.isnan(value) else "infinity"
    said = both(lambda: net(f32(1, 2)))
    assert said.startswith(f"the Parameter w has {what}, which no op made: 1 of 2 elements")
    assert line_of(Weighted, "x * self.w")[:-1] in said
    assert both(lambda: Weighted(math.inf, trained=False)(f32(1, 2))) == ""


# --- control flow --------------------------------------------------------------------------------


class Branch(nn.Cell):
    def construct(self, x: Any) -> Any:
        if x.sum() > 0:
            x = ops.sqrt(-x)
        else:
            x = ops.log(x)
        return x


class While(nn.Cell):
    def construct(self, x: Any) -> Any:
        while x.max() < 1e30:
            x = x * x
            y = 1 / (x - 256)
            x = x + y * 0
        return x


class Unrolled(nn.Cell):
    def construct(self, x: Any) -> Any:
        for _ in range(4):
            x = ops.sqrt(x - 1)
        return x


def test_in_branches() -> None:
    assert both(lambda: Branch()(f32(1, 2))).startswith("sqrt made NaN: 2 of 2")
    assert both(lambda: Branch()(f32(-1, -2))).startswith("log made NaN: 2 of 2")


def test_in_loops_with_the_trip() -> None:
    said = both(lambda: While()(f32(2)))
    assert said.startswith("div made infinity in its run 3 of this call: 1 of 1 elements")
    assert line_of(While, "1 / (x - 256)")[:-1] in said
    assert both(lambda: Unrolled()(f32(3))).startswith("sqrt made NaN in its run 3 of this call")


class Scanned(nn.Cell):
    def construct(self, x: Any) -> Any:
        total = x[0] * 0
        for row in range(x.shape[0]):
            total = total + ops.log(x[row])
        return total


def test_in_long_loops() -> None:
    rows = np.ones((600, 2), np.float32)
    rows[417, 1] = -1
    net = Scanned()
    assert both(lambda: net(Tensor(rows))).startswith("log made NaN in its run 418 of this call")


def test_in_loops_over_time() -> None:
    cell = nn.LSTM(2, 2)
    x = np.ones((5, 1, 2), np.float32)
    x[3] = np.inf
    said = both(lambda: cell(Tensor(x)))
    assert "(cell LSTM" in said and "test_watch.py" in said


# --- gradients -----------------------------------------------------------------------------------


class Root(nn.Cell):
    def construct(self, x: Any) -> Any:
        return ops.sqrt(x).sum()


class Guarded(nn.Cell):
    """The well-known trap: the branch not taken gives 0 times infinity in the gradient."""

    def construct(self, x: Any) -> Any:
        return ops.where(x > 0, ops.sqrt(ops.relu(x)), x).sum()


class WhileRoot(nn.Cell):
    def construct(self, x: Any) -> Any:
        n = x.max()
        while n < 3:
            x = ops.sqrt(x)
            n = n + 1
        return x.sum()


class OwnGradient(nn.Cell):
    def construct(self, x: Any) -> Any:
        return x * 2

    def bprop(self, x: Any, out: Any, dout: Any) -> Any:
        return (dout / (x - 1),)


@pytest.mark.parametrize("net", [Root(), Guarded(), WhileRoot()])
def test_a_gradient_names_the_op_it_belongs_to(net: nn.Cell) -> None:
    grad = ms.grad(net)
    said = both(lambda: grad(f32(0, 1)))
    assert ", in the gradient of sqrt, made " in said
    assert line_of(type(net), "ops.sqrt")[:-1] + f" (cell {type(net).__name__})" in said


def test_a_users_own_gradient() -> None:
    net = OwnGradient()
    said = both(lambda: ms.grad(lambda x: net(x).sum())(f32(1, 2)))
    assert said.startswith("div made infinity")
    assert line_of(OwnGradient, "dout / (x - 1)")[:-1] in said


def test_second_derivatives() -> None:
    net = _Forward(lambda x: (x ** 1.5).sum())
    twice = ms.grad(lambda x: ms.grad(net)(x).sum())
    said = both(lambda: twice(f32(0, 1)))
    assert "in the gradient of" in said and " made infinity" in said


def test_forward_mode_and_vmap() -> None:
    jvp = lambda: ms.jvp(lambda x: ops.sqrt(x), f32(0, 1), f32(1, 1))  # noqa: E731
    for mode in MODES:
        assert " made infinity" in in_mode(mode, jvp)
    mapped = ms.vmap(lambda x: ops.log(x))
    assert both(lambda: mapped(f32([1, 2], [3, -4]))).startswith("log made NaN: 1 of 4 elements")


class Recomputed(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Root()
        self.inner.recompute()

    def construct(self, x: Any) -> Any:
        return self.inner(x)


def test_recomputed_cells() -> None:
    net = Recomputed()
    said = both(lambda: ms.grad(net)(f32(0, 1)))
    assert ", in the gradient of sqrt, made infinity" in said
    assert both(lambda: ms.grad(net)(f32(-1, 1))).startswith("sqrt made NaN")


# --- training ------------------------------------------------------------------------------------


def test_an_optimizer_step() -> None:
    def run() -> None:
        net = Weighted(2.0)
        optimizer = nn.Momentum(net.trainable_params(), learning_rate=1e30, momentum=0.9)
        step = nn.TrainOneStepCell(_Loss(net), optimizer)
        step(f32(1e10, 1e10))

    said = both(run)
    assert " made infinity" in said
    assert "in the gradient" in said or "Momentum" in said or "optimizer" in said


class _Loss(nn.Cell):
    def __init__(self, net: nn.Cell) -> None:
        super().__init__()
        self.net = net

    def construct(self, x: Any) -> Any:
        return self.net(x).sum()


def test_a_training_loop_of_functions() -> None:
    def run() -> None:
        net = Weighted(-2.0)
        optimizer = nn.SGD(net.trainable_params(), 1.0)

        def forward(x: Any) -> Any:
            return ops.sqrt(net(x) + 6).sum()

        gradient = ms.value_and_grad(forward, None, optimizer.parameters)
        for _ in range(3):
            _, grads = gradient(f32(1, 3))
            optimizer(grads)

    said = both(run)
    assert "made infinity" in said and ", in the gradient of sqrt," in said
    assert "return ops.sqrt(net(x) + 6).sum()" in said


# --- the switch ----------------------------------------------------------------------------------


@pytest.fixture
def debug_nan() -> Iterator[None]:
    yield
    ms.set_context(debug_nan=False)


@pytest.mark.parametrize("mode", MODES)
def test_the_context_switch(mode: int, debug_nan: None) -> None:
    ms.set_context(mode=mode)
    net, bad = _Forward(lambda x: ops.log(x)), f32(-1)
    assert np.isnan(net(bad).asnumpy()).all()
    entries = dict(net._entries.entries.items())
    ms.set_context(debug_nan=True)
    assert ms.get_context("debug_nan") is True
    for _ in range(2):
        with pytest.raises(FloatingPointError, match="log made NaN"):
            net(bad)
    ms.set_context(debug_nan=False)
    for _ in range(3):  # the third is answered natively
        assert np.isnan(net(bad).asnumpy()).all()
    assert dict(net._entries.entries.items()) == entries


def test_nothing_is_left_when_it_is_off() -> None:
    engine = dispatch.installed()
    with ms.watch_nans(), ms.watch_ranges():
        assert dispatch.installed() is not engine
    assert dispatch.installed() is engine
    assert not watching.active


def test_an_error_turns_it_off() -> None:
    with pytest.raises(ms.NonFiniteError, match="log made NaN"), ms.watch_nans():
        ops.log(f32(-1))
    assert np.isnan(ops.log(f32(-1)).asnumpy()).all()


def test_a_wrong_action() -> None:
    with pytest.raises(ValueError, match="'action' must be 'raise' or 'warn', but got 'stop'"), \
            ms.watch_nans("stop"):
        pass
    with pytest.raises(TypeError, match="'debug_nan' must be bool"):
        ms.set_context(debug_nan=1)


@pytest.mark.parametrize("mode", MODES)
def test_warnings_go_on(mode: int, caplog: pytest.LogCaptureFixture) -> None:
    ms.set_context(mode=mode)
    net = _Forward(lambda x: ops.exp(ops.log(x)) + 1)
    with caplog.at_level(logging.WARNING, "cellc"), ms.watch_nans("warn"):
        for _ in range(3):
            assert np.isnan(net(f32(-1)).asnumpy()).all()
    (said,) = [r.getMessage() for r in caplog.records]
    assert said.startswith("log made NaN")


def _train(steps: int = 3) -> list[bytes]:
    ms.set_seed(1)
    net = nn.SequentialCell(nn.Dense(4, 8), nn.GELU(), nn.LayerNorm((8,)), nn.Dropout(p=0.3),
                            nn.Dense(8, 2))
    net.set_train()
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()),
                               nn.Adam(net.trainable_params(), 0.1))
    x = Tensor(np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32))
    y = Tensor(np.ones((6, 2), np.float32))
    out = [step(x, y).asnumpy().tobytes() for _ in range(steps)]
    return out + [p.asnumpy().tobytes() for p in net.get_parameters()]


@pytest.mark.parametrize("mode", MODES)
def test_the_bits_are_those_without(mode: int) -> None:
    ms.set_context(mode=mode)
    plain = _train()
    with ms.watch_nans(), ms.watch_ranges():
        watched = _train()
    assert watched == plain


# --- ranges --------------------------------------------------------------------------------------


def test_ranges_against_16_bit_types() -> None:
    def rows(mode: int) -> dict[str, Any]:
        ms.set_context(mode=mode)
        net = _Forward(lambda x: (ops.neg(x), ops.log(ops.abs(x))))
        with ms.watch_ranges() as ranges:
            net(f32(0, 1e-9, -70000, 65504, 3e-8, 2e38))
            net(f32(0, 2, 2, 2, 2, 2))
        assert "f16 over" in str(ranges) and "neg" in str(ranges)
        assert "2 of them" in str(ranges).splitlines()[-1]
        return {r.op: r for r in ranges.rows}

    graph, eager = rows(ms.GRAPH_MODE), rows(ms.PYNATIVE_MODE)
    assert list(graph) == list(eager) == ["neg", "abs", "log"]
    for found in (graph, eager):
        r = found["neg"]
        assert (r.runs, r.elements, r.finite, r.nonzero) == (2, 12, 12, 10)
        assert (r.overflows, r.underflows) == ((2, 0), (1, 0))
        assert r.share(r.overflows) == (2 / 12, 0)
        assert r.most == 70000 and r.least == -np.float32(2e38) == -r.largest
        assert r.smallest == np.float32(1e-9)
        assert found["log"].finite == 10
    assert [(r.op, r.scope, r.line, r.dtype) for r in graph.values()] == \
        [(r.op, r.scope, r.line, r.dtype) for r in eager.values()]


@pytest.mark.parametrize(("value", "lost"), [
    (65519.0, (0, 0)), (65520.0, (1, 0)), (2.0**-25, (0, 1)), (2.0**-25 * 1.001, (0, 0))])
def test_the_limits_are_those_of_rounding(value: float, lost: tuple[int, int]) -> None:
    with ms.watch_ranges() as ranges:
        out = ops.neg(f32(value))
    with np.errstate(over="ignore"):
        rounded = out.asnumpy().astype(np.float16)
    assert (int(np.isinf(rounded).sum()), int((rounded == 0).sum())) == lost
    (row,) = ranges.rows
    assert (row.overflows[0], row.underflows[0]) == lost


def test_ranges_of_gradients_and_nothing() -> None:
    with ms.watch_ranges() as ranges:
        pass
    assert str(ranges) == "no tensor has been seen"
    for mode in MODES:
        ms.set_context(mode=mode)
        with ms.watch_ranges() as ranges:
            ms.grad(Root())(f32(4, 9))
        assert any(r.origin == "sqrt" for r in ranges.rows)
        assert "(gradient of sqrt)" in str(ranges)


# --- what graphs are made of ---------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_open_sizes_and_sizes_that_are_found(mode: int) -> None:
    ms.set_context(mode=mode)
    net = _Forward(lambda x: ops.log(x).sum())
    net.set_inputs(Tensor(shape=(None,), dtype=ms.float32))
    with ms.watch_nans():
        for n in range(2, 9):
            assert float(net(Tensor(np.ones(n, np.float32)))) == 0
        with pytest.raises(ms.NonFiniteError, match="log made NaN: 1 of 9 elements"):
            net(Tensor(np.array([1] * 8 + [-1], np.float32)))
        found = _Forward(lambda x: ops.log(ops.masked_select(x, x < 0)))
        with pytest.raises(ms.NonFiniteError, match="log made NaN: 2 of 2 elements"):
            found(f32(-1, 1, -2))


class Counting(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def construct(self, x: Any) -> Any:
        self.n = self.n + 1
        return x * self.n


@pytest.mark.parametrize("mode", MODES)
def test_python_state_goes_on(mode: int) -> None:
    ms.set_context(mode=mode)
    net = Counting()
    out = [float(net(f32(1)))]
    with ms.watch_nans():
        out += [float(net(f32(1))), float(net(f32(1)))]
    out.append(float(net(f32(1))))
    assert out == [1, 2, 3, 4]


def test_a_function_of_python_is_named() -> None:
    def spoilt(x: Any) -> Any:
        return np.array([np.nan, 1], np.float32)

    op = ops.Custom(spoilt, lambda s: s, lambda d: d, func_type="pyfunc")
    net = _Forward(lambda x: op(x) + 1)
    said = both(lambda: net(f32(1, 2)))
    assert "spoilt" in said.splitlines()[0] and "made NaN: 1 of 2 elements" in said


def test_parameters_and_draws_are_as_without() -> None:
    def run() -> bytes:
        ms.set_seed(3)
        return ops.dropout(f32([1] * 50), 0.5).asnumpy().tobytes()

    for mode in MODES:
        ms.set_context(mode=mode)
        plain = run()
        with ms.watch_nans():
            assert run() == plain


def test_the_error_is_of_the_expected_kinds() -> None:
    with pytest.raises(FloatingPointError, match="made NaN") as caught, ms.watch_nans():
        ops.log(f32(-1))
    assert isinstance(caught.value, ms.NonFiniteError)
    assert type(caught.value).__mro__[1].__name__ == "CellcError"


def test_scalars_complex_numbers_and_empty_tensors() -> None:
    assert both(lambda: ops.log(Tensor(-1.0, ms.float32))).startswith("log made NaN: float32[]\n")
    z = Tensor(np.array([0j, 1], np.complex64))
    assert both(lambda: _Forward(lambda x: 1 / x)(z)).split(":")[0].split(" made ")[1] in (
        "NaN", "infinity")
    assert both(lambda: _Forward(lambda x: ops.log(x))(Tensor(np.ones((0, 2), np.float32)))) == ""


def test_layers_of_the_library_stand_where_they_are_called() -> None:
    net = nn.SequentialCell(nn.Dense(2, 2, weight_init="zeros", bias_init="zeros"), nn.LogSoftmax(),
                            _Forward(lambda x: ops.sqrt(x)))
    said = both(lambda: net(f32([1, 2])))
    assert said.startswith("sqrt made NaN: 2 of 2") and "(cell SequentialCell.2)" in said
    dense = nn.Dense(2, 2, weight_init=1e30, bias_init="zeros")
    said = both(lambda: dense(f32([1e30, 1])))
    assert said.startswith("matmul made infinity") and "test_watch.py" in said
    assert "(cell Dense)" in said


def test_a_step_that_raises_writes_no_parameter() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    net = nn.SequentialCell(*(nn.Dense(4, 4) for _ in range(3)))
    net[2].weight.set_data(Tensor(np.full((4, 4), 1e30, np.float32)))
    before = [p.asnumpy().copy() for p in net.get_parameters()]
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()),
                               nn.SGD(net.trainable_params(), 1e10))
    with pytest.raises(ms.NonFiniteError, match="made infinity"), ms.watch_nans():
        step(f32([1, 2, 3, 4]), f32([1, 2, 3, 4]))
    for p, old in zip(net.get_parameters(), before, strict=True):
        np.testing.assert_array_equal(p.asnumpy(), old)


def test_nothing_is_loaded_until_something_is_watched() -> None:
    text = ("import sys, cellc as ms; from cellc import nn\n"
            "ms.set_context(mode=0, debug_nan=False)\n"
            "nn.Dense(2, 2)(ms.Tensor([[1.0, 2.0]]))\n"
            "print([m for m in sys.modules if m.endswith(('.taps', '.watch', '.findings'))"
            " and 'cpu' not in m])")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("mode", MODES)
def test_threads_are_watched(mode: int) -> None:
    ms.set_context(mode=mode)
    net = _Forward(lambda x: ops.log(x))
    found: list[str] = []

    def work() -> None:
        try:
            net(f32(-1))
        except ms.NonFiniteError as e:
            found.append(str(e))

    with ms.watch_nans():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert [f.split(":")[0] for f in found] == ["log made NaN"]


@pytest.mark.parametrize("mode", MODES)
def test_model_train_is_watched(mode: int) -> None:
    ms.set_context(mode=mode)
    net = nn.Dense(2, 1)
    model = ms.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1))
    rows = [(np.array([[1.0, np.nan]], np.float32), np.zeros((1, 1), np.float32))]
    with pytest.raises(ms.NonFiniteError, match="has NaN, which no op made"), ms.watch_nans():
        model.train(1, rows)


def test_jit_inside_and_mixed_precision() -> None:
    @ms.jit
    def half(x: Any) -> Any:
        return ops.exp(x)

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Dense(2, 2, weight_init="ones", bias_init="zeros").to_float(ms.float16)

        def construct(self, x: Any) -> Any:
            return half(self.fc(x))

    net = Net()
    said = both(lambda: net(f32([1e3, 7e4])))
    assert said.startswith("cast made infinity") and "(cell Net)" in said
    said = both(lambda: net(f32([10, 10])))
    assert said.startswith("exp made infinity") and "return ops.exp(x)" in said


def test_budgets_and_fast_numerics() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    net = nn.SequentialCell(*(cell for _ in range(4) for cell in (nn.Dense(32, 32), nn.Tanh())))
    gradient = ms.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())
    x = Tensor(np.random.default_rng(0).normal(size=(64, 32)).astype(np.float32))

    def bits() -> list[bytes]:
        value, grads = gradient(x)
        return [t.asnumpy().tobytes() for t in (value, *grads)]

    plain = bits()
    with ms.recompute(budget="100KiB"), ms.watch_nans():
        assert bits() == plain
    ms.set_context(numerics="fast")
    try:
        fast = bits()
        with ms.watch_nans():
            assert bits() == fast
    finally:
        ms.set_context(numerics="strict")


def test_what_is_watched_from_within_a_gradient() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)

    def forward(x: Any) -> Any:
        with ms.watch_nans():
            y = ops.log(x - 1)
        return y.sum()

    gradient = ms.value_and_grad(forward)
    for _ in range(3):
        assert float(gradient(f32(2, 2))[0]) == 0
        with pytest.raises(ms.NonFiniteError, match="log made infinity: 1 of 2"):
            gradient(f32(1, 2))


def test_packed_weights_are_as_before() -> None:
    net = nn.Dense(1024, 1024)
    x = Tensor(np.random.default_rng(0).normal(size=(4, 1024)).astype(np.float32))
    found = set()
    for mode in MODES:
        ms.set_context(mode=mode)
        found |= {net(x).asnumpy().tobytes() for _ in range(4)}
        with ms.watch_nans(), ms.watch_ranges() as ranges:
            found.add(net(x).asnumpy().tobytes())
        assert [r.op for r in ranges.rows] == ["matmul", "add"]
        found |= {net(x).asnumpy().tobytes() for _ in range(2)}
    assert len(found) == 1


def test_a_loss_scale_that_is_too_large() -> None:
    net = nn.SequentialCell(nn.Dense(4, 8), nn.ReLU(), nn.Dense(8, 2))
    for cell, value in ((net[0], 0.5), (net[2], 0.25)):
        cell.weight.set_data(Tensor(np.full(cell.weight.shape, value, np.float32)))
    step = ms.amp.build_train_network(
        net, nn.SGD(net.trainable_params(), 0.0), nn.MSELoss(), level="O2",
        loss_scale_manager=ms.DynamicLossScaleManager(2.0**24, 2, 100))
    step.set_train()
    x, y = Tensor(np.ones((3, 4), np.float32)), Tensor(np.zeros((3, 2), np.float32))
    said = both(lambda: step(x, y))
    assert said.startswith("cast, in the gradient of cast, made infinity")
    assert "(cell TrainOneStepWithLossScaleCell.network._backbone)" in said
