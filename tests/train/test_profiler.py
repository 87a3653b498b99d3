"""Profiler: what is recorded in each mode, which steps, what is written."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.profiler import (
    Profiler,
    ProfilerActivity,
    profile,
    schedule,
    tensorboard_trace_handler,
)

X = ms.Tensor(np.ones((2, 4), np.float32))


def _names(profiler, category):
    return [e["name"] for e in profiler.trace_events() if e["cat"] == category]


def _train():
    net = nn.Dense(4, 3)
    step = nn.TrainOneStepCell(
        nn.WithLossCell(net, nn.MSELoss()), nn.Adam(net.trainable_params(), 0.1))
    target = ms.Tensor(np.zeros((2, 3), np.float32))
    losses = [step(X, target).asnumpy().tobytes() for _ in range(3)]
    return [*losses, net.weight.asnumpy().tobytes()]


def test_each_op_or_each_call_of_a_network(mode):
    net = nn.SequentialCell(nn.Dense(4, 3), nn.ReLU())
    for _ in range(3):
        net(X)  # answered natively from now on
    with profile() as found:
        net(X)
        net(X)
    if mode == ms.GRAPH_MODE:
        assert _names(found, "network") == ["SequentialCell"] * 2
        assert _names(found, "op") == []
    else:
        seen = _names(found, "op")
        assert seen.count("relu") == 2
        assert "matmul" in seen or "dense" in seen
        relu = next(e for e in found.trace_events() if e["name"] == "relu")
        assert relu["args"]["operands"] == ["float32[2,3]"]
        assert relu["ph"] == "X"
        assert relu["dur"] > 0
    before = len(found.timeline.events)
    net(X)
    assert len(found.timeline.events) == before


def test_a_training_gives_the_same_bits(mode):
    ms.set_seed(1)
    plain = _train()
    ms.set_seed(1)
    with profile() as found:
        assert _train() == plain
    kinds = {e["cat"] for e in found.trace_events()}
    assert {"step", "compile", "network"} <= kinds if mode == ms.GRAPH_MODE else "op" in kinds


def test_compilations_are_noted():
    @ms.jit
    def fresh(x):
        return ops.relu(x) * 3.25

    with profile() as found:
        fresh(X)
        fresh(X)
    assert len(_names(found, "compile")) == 1
    assert len(_names(found, "network")) == 2


def test_steps_of_a_schedule(tmp_path):
    handed = []
    plan = schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1)
    assert [plan.is_active(n) for n in range(7)] == [False] * 3 + [True] * 2 + [False] * 2
    assert plan.to_dict() == {"wait": 1, "warmup": 1, "active": 2, "repeat": 1, "skip_first": 1}
    with profile(schedule=plan, on_trace_ready=handed.append) as found:
        for _ in range(7):
            ops.relu(X)
            found.step()
    assert _names(found, "step") == ["step 3", "step 4"]
    assert len(_names(found, "op")) == 2
    assert handed == [found]
    again = schedule(wait=0, active=1)
    assert all(again.is_active(n) for n in range(5))


def test_what_is_written(tmp_path):
    with profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path), "worker")) as found:
        found.add_metadata("run", "first")
        found.add_metadata_json("sizes", "[1, 2]")
        ops.relu(X)
    (file,) = tmp_path.glob("worker_*_trace.json")
    document = json.loads(file.read_text())
    assert document["metadata"] == {"run": "first", "sizes": [1, 2]}
    assert "relu" in [e["name"] for e in document["traceEvents"]]
    (table,) = tmp_path.glob("*_ops.csv")
    assert table.read_text().splitlines()[1].startswith("relu,op,1,")


def test_the_older_class(tmp_path):
    profiler = Profiler(output_path=str(tmp_path / "data"), start_profile=False)
    ops.relu(X)
    profiler.start()
    ops.relu(X)
    profiler.step()
    ops.tanh(X)
    profiler.analyse(step_list=[1])
    assert _names(profiler, "op") == ["tanh"]
    (row,) = json.loads(profiler.op_analyse("tanh"))
    assert row["count"] == 1
    assert json.loads(profiler.op_analyse(["relu"])) == []
    assert len(list((tmp_path / "data").iterdir())) == 2
    profiler.stop()


@pytest.mark.parametrize(("wrong", "error", "text"), [
    (lambda: schedule(wait=-1, active=1), ValueError,
     "For 'schedule', 'wait' must be an int of at least 0, but got -1"),
    (lambda: schedule(wait=0, active=0), ValueError,
     "For 'schedule', 'active' must be an int of at least 1, but got 0"),
    (lambda: profile(on_trace_ready=3), TypeError,
     "For 'profile', 'on_trace_ready' must be a function, but got <class 'int'>"),
    (lambda: profile(start_profile=1), TypeError, "'start_profile' must be a bool, but got 1"),
    (lambda: profile(activities=[ProfilerActivity.NPU]), RuntimeError,
     "'activities' must have ProfilerActivity.CPU: this installation runs on the CPU only"),
    (lambda: profile(start_profile=False).step(), RuntimeError,
     "For 'profile', it has not been started: call start() first"),
    (lambda: Profiler(output_path=3), TypeError, "'output_path' must be a string, got 3"),
    (lambda: Profiler(start_profile=False).analyse("x"), ValueError,
     "For 'Profiler.analyse', 'offline_path' must be None: traces are written complete"),
    (lambda: profile(start_profile=False).add_metadata(1, "a"), TypeError,
     "For 'add_metadata', strings are wanted, got 1 and 'a'"),
    (lambda: profile(start_profile=False).add_metadata_json("a", "{"), ValueError,
     "'value' must be JSON, but got '{'"),
])
def test_wrong_arguments(wrong, error, text):
    with pytest.raises(error, match=re.escape(text)):
        wrong()


def test_starting_twice():
    with profile() as found, pytest.raises(RuntimeError, match="stop"):
        found.start()
