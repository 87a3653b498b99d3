"""`verify` end to end and node by node: right programs agree, wrong ones are told, and nothing of a
network is changed."""

from __future__ import annotations

import json
import random
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc.lang import CompileError
from cellc.verification import Finding, Report, verify

from ..samples.networks import NETWORKS

X = Tensor(np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32))


class Stateful(nn.Cell):
    """A Cell that changes whatever it can."""

    def __init__(self) -> None:
        super().__init__()
        self.w = Parameter(np.ones(3, np.float32), name="w")
        self.mean = Parameter(np.zeros(3, np.float32), name="mean", requires_grad=False)
        self.n = 0
        self.log: list[Tensor] = []
        self.seen = {"last": 0.0}

    def construct(self, x: Tensor) -> tuple[Tensor, int]:
        self.n = self.n + 1
        self.log.append(x * 2)
        self.seen["last"] = 1.5
        print("call", self.n, x.sum())
        self.mean = self.mean * 0.5 + x.mean(0)
        return x * self.w * self.n + ops.standard_normal((3,)), self.n


def loop(x: Tensor) -> tuple[Tensor, int]:
    i = 0
    while x.sum() < 60:
        x = x * 1.5 + 1
        i = i + 1
        if x.sum() > 30:
            x = x + 1
    return x, i


def noted(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return a + 1


def calls_python(x: Tensor) -> Tensor:
    y = ops.py_func(noted, x, out_shape=(4, 3), out_dtype=ms.float32)
    if y.sum() > -1e9:
        y = ops.py_func(noted, y, out_shape=(4, 3), out_dtype=ms.float32) * 2
    return ops.exp(y)


@ms.jit
def jitted(x: Tensor) -> Tensor:
    return ops.dropout(x, 0.5) * ops.standard_normal((4, 3))


def structure(a: tuple[Tensor, Tensor], b: Tensor) -> dict[str, Any]:
    return {"s": a[0] + b, "t": (a[1], b.astype(ms.int32)), "k": 3}


class Nested(nn.Cell):
    """Python state, prints and regions, two deep."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Tensor] = []
        self.n = 0

    def construct(self, x: Tensor) -> Tensor:
        i = 0
        while i < (x[0, 0] * 0 + 4).astype(ms.int32):
            self.log.append(x * i)
            self.n += 1
            if x.sum() > -1e9:
                print("in", i, x.sum())
                j = 0
                while j < 2 + (x[0, 0] * 0).astype(ms.int32):
                    self.n += 2
                    j += 1
            x = x + 1
            i += 1
        return x * self.n


class Mixed(nn.Cell):
    """Recomputed in the middle, an LSTM behind, products in float16."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(3, 3).to_float(ms.float16)
        self.first.recompute()
        self.lstm = nn.LSTM(3, 4, batch_first=True)

    def construct(self, x: Tensor) -> Any:
        return self.lstm(self.first(x).astype(ms.float32).reshape((2, 2, 3)))


RIGHT: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "loop": (loop, (X,)), "jit and draws": (jitted, (X,)),
    "structures": (structure, ((X, X * 2), X)),
    "layer norm": (lambda x: ops.layer_norm(x, (3,), ops.ones(3), ops.zeros(3)).sum(), (X,)),
    "no gradient": (lambda x: ops.argmax(x), (X,)),
    "stopped": (lambda x: ops.stop_gradient(x) * x, (X,)),
    "mask of infinities": (
        lambda x: ops.softmax(ops.masked_fill(x, x > 1, -float("inf"))), (X,)),
    "float16": (lambda x: ops.layer_norm(x.astype(ms.float16), (3,), ops.ones(3, ms.float16),
                                         ops.zeros(3, ms.float16)).astype(ms.float32), (X,)),
    "complex": (lambda x: ops.abs(ops.fft(x.astype(ms.complex64))), (X,)),
    "long sum": (lambda x: x.sum() * 1e-3, (Tensor(np.random.default_rng(1).standard_normal(
        (300, 300)).astype(np.float32) + 5),)),
    "number": (lambda x, k: x * k, (X, 3)),
    "nested": (Nested(), (X,)), "mixed": (Mixed(), (X,)),
    "gradient inside": (lambda x: ms.grad(lambda y: (y * y * y).sum())(x), (X,)),
    "rows": (lambda x: ops.vmap(lambda r: r * r.sum())(x), (X,)),
    "empty": (lambda x: x * 2, (Tensor(np.zeros((0, 3), np.float32)),)),
    "one list twice": (lambda x: [[x + 1, x]] * 2, (X,)),
    "no tensors": (lambda x: float(x.sum()), (X,)),
    "steps": (lambda x: ops.round(x) * x + ops.sort(x)[0], (X,)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_agree(name: str) -> None:
    net, inputs = RIGHT[name]
    report = verify(net, *inputs)
    assert report.status == 0, report
    assert report.compared["forward: nodes"] and not report.not_compared


@pytest.mark.parametrize("name", NETWORKS)
def test_samples_agree(name: str) -> None:
    sample = NETWORKS[name]
    report = verify(sample.make().set_train(), *sample.input(), train_step=sample.train_step,
                    train_inputs=sample.batch())
    assert report.status == 0, report
    assert report.compared["train: nodes"] > report.compared["forward: nodes"]
    assert report.compared["gradient: gradients"] == \
        report.compared["gradient: gradients in float64"] > 5


def test_every_kind_of_state_is_compared_and_put_back() -> None:
    net = Stateful()
    np.random.seed(5)
    random.seed(6)
    ms.set_seed(7)
    mode = ms.get_context("mode")
    before = [ms.default_generator().state.asnumpy().copy(), repr(np.random.get_state()),
              random.getstate(), ms.get_seed()]
    report = verify(net, X, seeds=(1, 2))
    assert report.status == 0, report
    assert report.compared["forward: printed texts"] == 2
    assert (net.n, net.log, net.seen) == (0, [], {"last": 0.0})
    assert net.mean.asnumpy().tolist() == [0, 0, 0] and net.w.asnumpy().tolist() == [1, 1, 1]
    after = [ms.default_generator().state.asnumpy(), repr(np.random.get_state()),
             random.getstate(), ms.get_seed()]
    assert before[0].tolist() == after[0].tolist() and before[1:] == after[1:]
    assert ms.get_context("mode") == mode
    assert net(X)[1] == 1  # and it goes on as if nothing had happened


class Box:
    """State that is no Cell's."""

    __slots__ = ("n",)
    total = 0

    def __init__(self) -> None:
        self.n = 1


def test_state_that_is_not_the_networks_own() -> None:
    box, kept = Box(), [0]

    def net(x: Tensor, seen: list[int] = kept) -> Tensor:
        box.n = box.n + 1
        seen.append(3)
        return x * box.n * len(seen)

    report = verify(net, X, grad=False)
    assert report.status == 0 and (box.n, kept) == (1, [0]), report


def test_open_sizes() -> None:
    net = nn.Dense(3, 2)
    net.set_inputs(Tensor(shape=[None, 3], dtype=ms.float32))
    assert verify(net, X).status == 0


def test_a_parameter_as_an_argument() -> None:
    report = verify(lambda p, x: p * x, Parameter(np.ones(3, np.float32), name="p"), X)
    assert report.status == 2 and "Parameters that are arguments" in str(report)


def test_a_training_step_is_undone() -> None:
    sample = NETWORKS["mlp"]
    net = sample.make().set_train(False)
    weights = [p.asnumpy().copy() for p in net.get_parameters()]
    names = [p.name for p in net.get_parameters()]
    report = verify(net, *sample.input(), grad=False, train_step=sample.train_step,
                    train_inputs=sample.batch())
    assert report.status == 0 and report.compared["train: parameters and attributes"] > 20
    assert not net.training and [p.name for p in net.get_parameters()] == names
    for p, w in zip(net.get_parameters(), weights, strict=True):
        np.testing.assert_array_equal(p.asnumpy(), w)


# --- what differs ---------------------------------------------------------------------------------


def steep(x: Tensor) -> Tensor:
    for _ in range(40):
        x = ops.sin(x) * 9
    return x


class Deceptive(nn.Cell):
    """Other Python in PyNative than in a graph: only end to end can tell."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what
        self.w = Parameter(np.ones(3, np.float32), name="w")
        self.count = 0

    def construct(self, x: Tensor) -> Any:
        k = 2.0 if graph_mode() else 1.0
        if self.what == "output":
            return x * k
        if self.what == "dtype":
            return x.astype(ms.float16) if k == 2.0 else x
        if self.what == "structure":
            return (x, x) if k == 2.0 else [x, x]
        if self.what == "parameter":
            self.w = self.w + k
        if self.what == "gradient":
            return x if k == 2.0 else ops.stop_gradient(x) + 0 * x
        if self.what == "print":
            print("k is", k)
        if self.what == "random" and k == 2.0:
            return x + 0 * ops.standard_normal((3,))
        if self.what == "error" and k == 2.0:
            return self.refuse(x)
        if self.what == "state":
            self.count = int(k)
        return x

    def refuse(self, x: Tensor) -> Tensor:
        if x.sum() > -1e9:
            raise ValueError("no")
        return x


def graph_mode() -> bool:
    return ms.get_context("mode") == ms.GRAPH_MODE


@pytest.mark.parametrize(("what", "kind", "where"), [
    ("output", "output", "forward: output"), ("dtype", "output", "forward: output"),
    ("structure", "output", "forward: output"),
    ("parameter", "parameter", "forward: net.w afterwards"),
    ("gradient", "gradient", "gradient: of argument 0"), ("print", "print", "forward: print"),
    ("random", "random", "forward: the global generator"), ("error", "error", "forward"),
    ("state", "state", "forward: net.count afterwards"),
])
def test_each_difference_is_told(what: str, kind: str, where: str) -> None:
    report = verify(Deceptive(what), X)
    assert report.status == 1
    assert (kind, where) in [(f.kind, f.where) for f in report.findings], report


def test_values_that_are_not_finite() -> None:
    class Logs(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            y = x * 2
            z = ops.log(-ops.abs(y) - 1)
            return z + 1

    report = verify(Logs(), X)
    assert report.status == 1
    first = next(f for f in report.findings if f.op)
    assert (first.kind, first.op) == ("nonfinite", "log")
    assert "NaN (12 of 12 elements)" in first.message and "reference does too" in first.message
    assert first.span is not None and first.span.split(":")[0] == __file__


@pytest.mark.parametrize(("net", "given", "text"), [
    (lambda x: x + 1, np.array([1, np.nan], np.float32), "the input x holds NaN (1 of 2"),
    (lambda x: (x * 60000).sum(), np.array([2, 3], np.float16), "beyond the range of float16"),
    (lambda x: ops.exp(x * 1000), np.array([1.0], np.float32), "reference does too"),
])
def test_the_origin_of_infinities(net: Any, given: Any, text: str) -> None:
    report = verify(net, Tensor(given), grad=False)
    assert report.status == 1
    assert any(text in f.message for f in report.findings), report


def test_an_origin_inside_a_loop() -> None:
    def net(x: Tensor) -> Tensor:
        i = 0
        while i < (x[0, 0] * 0 + 3).astype(ms.int32):
            x = ops.sqrt(x - 1)
            i = i + 1
        return x

    report = verify(net, X, grad=False)
    first = next(f for f in report.findings if f.op)
    assert first.op == "sqrt" and "trip 0 of the loop" in first.where


# --- what is not compared -------------------------------------------------------------------------


@pytest.mark.parametrize(("net", "reason"), [
    (calls_python, "what the Python function noted gives"),
    (steep, "too steep"),
])
def test_what_cannot_be_compared_is_counted(net: Any, reason: str) -> None:
    report = verify(net, X)
    assert report.status == 2 and not report.findings, report
    assert any(reason in why for why in report.not_compared), report


@pytest.mark.parametrize("net", [
    lambda x: ops.masked_select(x, x > 0), lambda x: x[x > 0].sum(), lambda x: ops.nonzero(x)[0]])
def test_sizes_that_follow_from_elements_are_compared(net: Any) -> None:
    report = verify(net, X)
    assert report.status == 0 and report.compared["forward: nodes"] > 5, report


def test_the_same_error_in_both_modes() -> None:
    report = verify(Deceptive("none").refuse, X, grad=False)
    assert report.status == 2 and "both modes raise ValueError: no" in str(report)


def test_errors() -> None:
    with pytest.raises(TypeError, match="takes a Cell or a function, but got int"):
        verify(3)
    with pytest.raises(TypeError, match="train_step must be a Cell"):
        verify(lambda x: x, X, grad=False, train_step=lambda net: 3)
    with pytest.raises(CompileError, match="undefined_name"):
        verify(lambda x: undefined_name + x if x is None else x.nothing(undefined_name),  # noqa: F821
               X, grad=False)


def test_options() -> None:
    def net(x: Tensor) -> Tensor:
        return ops.tanh(x)

    plain = verify(net, X, grad=False, reference=False)
    assert plain.status == 0 and plain.worst is None
    assert "forward: nodes against the reference" not in plain.compared
    whole = verify(net, X, nodes=False)
    assert whole.status == 0 and "forward: nodes" not in whole.compared
    assert not any("difference" in why for why in whole.not_compared)


# --- reports --------------------------------------------------------------------------------------


def test_a_report_as_text_json_and_junit() -> None:
    report = verify(Deceptive("output"), X, seeds=(0, 1))
    data = json.loads(report.to_json())
    assert data["status"] == 1 and data["network"] == "Deceptive"
    assert data["findings"][0]["where"] == "seed 0: forward: output"
    assert "seed 1: forward: output" in str(report)
    suite = ElementTree.fromstring(report.to_junit())
    assert int(suite.get("failures", 0)) == len(report.findings) == len(suite.findall(".//failure"))
    assert int(suite.get("tests", 0)) == len(suite.findall("testcase"))
    assert not Report().findings and Report().status == 2  # nothing was compared


def test_a_report_is_bounded() -> None:
    report = Report()
    for i in range(250):
        report.find("output", f"forward: output[{i}]", "differs \x00 <&>")
    assert len(report.findings) == 100 and report.dropped == 150
    assert "and 150 more" in str(report) and report.verdict() == "250 findings"
    assert "?" in ElementTree.fromstring(report.to_junit())[0][0].get("message", "")
    assert str(Finding("node", "here", "text", "add", "", "f.py:1:2")) == \
        "here: add (top) at f.py:1:2: text"
