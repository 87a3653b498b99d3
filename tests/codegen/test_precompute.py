"""What is computed from parameters ahead: cut right, bits unchanged, redone when they change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc_compiler import driver
from cellc_compiler.backends.llvm import call_table
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.ir.verify import verify
from cellc_compiler.lower.precompute import split
from cellc_runtime.executable import Executable

AFFINE = """
graph Affine(%x: float32[64,64] input, %w: float32[64,64] param, %v: float32[64] param) {
  %0: float32[64] = rsqrt(%v) {}
  %1: float32[64,64] = matmul(%x, %w) {transpose_a=False, transpose_b=True}
  %2: float32[64,64] = mul(%1, %0) {}
  return %2
}
"""
TRAINED = AFFINE.replace("return %2", "return %2\n  update %v = %0")


def test_what_follows_from_parameters_is_cut_out() -> None:
    parts = split(parse_graph(AFFINE))
    assert [n.op for n in parts.precompute.nodes] == ["rsqrt"]
    assert [n.op for n in parts.main.nodes] == ["matmul", "mul"]
    assert [v.type.dims for v in parts.precomputed] == [(64,)]
    verify(parts.main)


def test_nothing_that_a_call_writes_is_computed_ahead() -> None:
    parts = split(parse_graph(TRAINED))
    assert not parts.precompute.nodes
    assert not parts.precomputed


@pytest.mark.parametrize("size", [5, 64, 130])
@pytest.mark.parametrize("many", [False, True])
def test_the_bits_are_those_of_a_call_that_computes_everything(
    size: int, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are many, they are a table."""
    monkeypatch.setattr(call_table, "LEAST", 1 if many else 64)
    size += many  # (another program)
    text = AFFINE.replace("64", str(size))
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((2, size, size), np.float32)
    v = rng.random(size, np.float32) + 0.5
    bound = driver.compile_graph(parse_graph(text))
    plain = driver.compile_graph(parse_graph(text.replace(" param", " input")))
    assert bound([x, w, v])[0].tobytes() == plain([x, w, v])[0].tobytes()


def test_binding_again_computes_again() -> None:
    program = driver.compile_program(parse_graph(AFFINE))
    assert program.precomputed_bytes >= 64 * 4
    executable = Executable(program)
    x, w = np.eye(64, dtype=np.float32), np.ones((64, 64), np.float32)
    v = np.full(64, 4, np.float32)
    executable.bind([w, v])
    assert executable.entry(x)[0, 0] == 0.5
    v[:] = 16
    w[:] = 2
    executable.bind([w, v])
    assert executable.entry(x)[0, 0] == 0.5
    assert executable.call([x])[0][0, 0] == 0.5


class Net(nn.Cell):
    """Layers with weights worth packing and statistics worth preparing."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(96, 128)
        self.norm = nn.BatchNorm1d(128)
        self.last = nn.Dense(128, 48)

    def construct(self, x: Any) -> Any:
        return self.last(ops.relu(self.norm(self.first(x))))


def set_data(net: Net) -> None:
    net.first.weight.set_data(ms.Tensor(np.full((128, 96), 0.01, np.float32)))


def assign(net: Net) -> None:
    ops.assign(net.norm.moving_variance, ms.Tensor(np.full(128, 9, np.float32)))


def through_numpy(net: Net) -> None:
    net.last.weight.asnumpy()[3] = 2


def through_a_view(net: Net) -> None:
    net.last.weight.asnumpy()[4:].T[5] = 3


def through_value(net: Net) -> None:
    net.norm.gamma.value().asnumpy()[:] = 5


def through_data(net: Net) -> None:
    np.asarray(net.norm.beta.data)[7] = -3


def another_type(net: Net) -> None:
    net.last.bias.set_data(ms.Tensor(np.ones(48, np.float32)))


def trained(net: Net) -> None:
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()),
                               nn.Momentum(net.trainable_params(), 0.1, 0.9))
    step.set_train()(ms.Tensor(np.ones((64, 96), np.float32)),
                     ms.Tensor(np.ones((64, 48), np.float32)))
    net.set_train(False)


CHANGES = [set_data, assign, through_numpy, through_a_view, through_value, through_data,
           another_type, trained]


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
def test_a_change_of_a_parameter_is_seen_by_the_next_call(change: Callable[[Net], None]) -> None:
    net = Net()
    net.set_train(False)
    x = ms.Tensor(np.random.default_rng(1).standard_normal((64, 96)).astype(np.float32))
    ms.set_context(mode=ms.GRAPH_MODE)
    before = net(x).asnumpy()
    change(net)
    after = net(x).asnumpy()
    ms.set_context(mode=ms.PYNATIVE_MODE)
    assert after.tobytes() == net(x).asnumpy().tobytes()
    assert after.tobytes() != before.tobytes()


def test_an_array_that_is_still_held_may_be_written_at_any_time() -> None:
    net = Net()
    net.set_train(False)
    x = ms.Tensor(np.ones((64, 96), np.float32))
    ms.set_context(mode=ms.GRAPH_MODE)
    net(x)
    held = net.last.weight.asnumpy()[2:]
    for value in (1.0, 2.0):
        held[:] = value
        ms.set_context(mode=ms.GRAPH_MODE)
        graph = net(x).asnumpy()
        ms.set_context(mode=ms.PYNATIVE_MODE)
        assert graph.tobytes() == net(x).asnumpy().tobytes()


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16, ms.int64, ms.bool_])
def test_lent_memory_has_the_type_of_the_parameter(dtype: Any) -> None:
    p = ms.Parameter(ms.Tensor(np.ones((2, 3)), dtype), name="p", requires_grad=False)
    lent = p.asnumpy()
    assert lent.dtype == p.dtype.numpy
    lent[1] = 0
    assert p.asnumpy()[1, 2] == 0
    assert p.asnumpy()[0, 2] == 1


def kept_memory(net: Net) -> set[tuple[int, ...]]:
    """Where the blocks of what is kept lie, of all compiled entries."""
    found = set()
    for entry in net._entries.entries.values():
        core = entry.executable._core
        bound = dict(core._bound[1])
        found.add(tuple(bound[i] for i, s in enumerate(core.program.slots) if s.kind == "kept"))
    return found


def test_variants_of_a_network_share_what_is_kept() -> None:
    net = Net().set_train(False)
    ms.set_context(mode=ms.GRAPH_MODE)
    wide, wider = (ms.Tensor(np.ones((rows, 96), np.float32)) for rows in (512, 1024))
    first = net(wide).asnumpy()
    assert net(wider).asnumpy()[:512].tobytes() == first.tobytes()
    assert len(net._entries.entries) == 2
    assert len(kept_memory(net)) == 1
    net.first.weight.set_data(ms.Tensor(np.ones((128, 96), np.float32)))
    net(wide)
    assert len(kept_memory(net)) == 2  # the other has not run since
    second = net(wider).asnumpy()
    assert len(kept_memory(net)) == 1
    assert second.tobytes() != first.tobytes()
