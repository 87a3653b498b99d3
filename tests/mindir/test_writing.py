"""Networks written as MindIR: read back here, and by MindSpore."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.mindir import spelling
from cellc.mindir.writing import ExportError, mindir_bytes
from cellc.tracing.pytree import Box, Leaf
from cellc_compiler.interpret import run
from cellc_compiler.ir.op import Op, all_ops, lookup
from cellc_runtime import dtypes

from ..ops.test_matrix import Case, cases
from ..others import mindspore, needs_oracle
from . import networks, runner

UNLIKE = {
    "argsort": "MindSpore's Sort takes no bools on a CPU", "sort": "as argsort",
    "gather_elements": "MindSpore refuses positions outside", "gather_nd": "as gather_elements",
    "scatter": "as gather_elements", "scatter_nd": "as gather_elements",
    "topk": "MindSpore takes equal elements in another order",
}
"""Ops of which some samples differ in MindSpore, and why."""
OPS = {"batch_norm_inference", "concat", "conv2d", "conv2d_backward_data", "cumsum", "flip",
       "gather", "layer_norm", "matmul", "max_pool2d", "pad", "reduce_sum", "slice", "softmax",
       "split", "stack", "topk", "update_slice", "where"}
"""Ops whose samples are read back here."""


def written(folder: Path, op: Op) -> int:
    """Write the samples of an op, with inputs and what the reference gives; how many."""
    count = 0
    for case in cases(op, [dtypes.float32, dtypes.int32, dtypes.bool_], 4):
        data = _bytes(case)
        with np.errstate(all="ignore"):
            results = run(case.graph(), list(case.arrays))
        if data is None or any(a.size == 0 or a.dtype.name == "bfloat16"  # (numpy files hold none)
                               for a in (*case.arrays, *results)):
            continue
        (folder / f"{op.name}-{count}.mindir").write_bytes(data)
        outs = {f"out_{k}": v for k, v in enumerate(results)}
        np.savez(folder / f"{op.name}-{count}.npz", *case.arrays, **outs)
        count += 1
    return count


def _bytes(case: Case) -> bytes | None:
    graph = case.graph()
    leaves = tuple(Leaf(k) for k in range(len(graph.outputs)))
    try:
        return mindir_bytes(graph, {}, Box(tuple, (), leaves))
    except ExportError:
        return None


def test_each_rule_is_of_an_op_and_no_op_is_refused_twice() -> None:
    for name in (*spelling.RULES, *spelling.REFUSED):
        lookup(name)
    assert not spelling.RULES.keys() & spelling.REFUSED.keys()


@pytest.mark.parametrize("name", sorted(OPS))
def test_samples_read_back(name: str, tmp_path: Path) -> None:
    count = written(tmp_path, lookup(name))
    assert count
    for k in range(count):
        held = np.load(tmp_path / f"{name}-{k}.npz")
        given = [Tensor(held[f]) for f in held.files if f.startswith("arr_")]
        wanted = [held[f] for f in held.files if f.startswith("out_")]
        net = nn.GraphCell(ms.load(str(tmp_path / f"{name}-{k}.mindir")))
        found = [t.asnumpy() for t in networks.tensors(net(*given))]
        for a, b in zip(found, wanted, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, 1e-5, 1e-5)


@pytest.mark.parametrize("name", ["LeNet", "LSTM", "Attention", "NestedFlow", "WhileBreak",
                                  "TrainMomentum", "Counter", "Embedding"])
def test_networks_read_back(name: str, tmp_path: Path) -> None:
    assert networks.write(tmp_path, [name]) == {name: ""}
    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        found = networks.read(tmp_path, [name])[name]
        assert isinstance(found, float) and found < 1e-5, found


def test_a_written_network_trains(folder: Path) -> None:
    ms.set_seed(1)
    net = nn.SequentialCell(nn.Dense(4, 8), nn.ReLU(), nn.Dense(8, 2))
    x = Tensor(np.random.RandomState(0).standard_normal((3, 4)).astype(np.float32))
    ms.export(net, x, file_name="net", file_format="MINDIR")
    again = nn.GraphCell(ms.load("net.mindir"))
    assert list(again.parameters_dict()) == list(net.parameters_dict())
    losses = []
    for cell in (net, again):
        step = nn.TrainOneStepCell(nn.WithLossCell(cell, nn.MSELoss()),
                                   nn.Momentum(cell.trainable_params(), 0.1, 0.9))
        losses.append([float(step(x, Tensor(np.ones((3, 2), np.float32)))) for _ in range(3)])
    assert np.allclose(*losses, 1e-5)


class Swapping(nn.Cell):
    """Each parameter takes the value of the other; both old values are results."""

    def __init__(self) -> None:
        super().__init__()
        self.a = ms.Parameter(Tensor([1.0]), name="a")
        self.b = ms.Parameter(Tensor([2.0]), name="b")

    def construct(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = self.a + 0, self.b + 0
        self.a, self.b = b, a
        return a + x, b + x


def test_values_are_read_before_they_change(folder: Path) -> None:
    x = Tensor([0.0])
    ms.export(Swapping(), x, file_name="swap", file_format="MINDIR")
    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        net = nn.GraphCell(ms.load("swap.mindir"))
        assert [[float(t) for t in net(x)] for _ in range(3)] == [[1, 2], [2, 1], [1, 2]]


def test_what_cannot_be_written(folder: Path) -> None:
    class Nested(nn.Cell):
        def construct(self, pair: tuple[Tensor, Tensor]) -> Tensor:
            return pair[0] + pair[1]

    x = Tensor(np.ones(3, np.float32))
    with pytest.raises(ValueError, match="takes nested ones: use file_format='CIR'"):
        ms.export(Nested(), (x, x), file_name="n", file_format="MINDIR")
    with pytest.raises(ValueError, match=r"draws .*set_train\(False\)"):
        ms.export(nn.Dropout(p=0.5).set_train(), x, file_name="d", file_format="MINDIR")

    class Sums(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            return ops.logcumsumexp(x, 0)

    with pytest.raises(ValueError, match=r"'logcumsumexp' \(.*test_writing.py, line \d+\) cannot"):
        ms.export(Sums(), x, file_name="s", file_format="MINDIR")
    assert list(Path().iterdir()) == []


@needs_oracle
def test_mindspore_reads_samples_of_every_op(tmp_path: Path) -> None:
    for op in all_ops():
        if op.name not in UNLIKE:
            written(tmp_path, op)
    found = mindspore(Path(runner.__file__), [str(tmp_path)])
    assert len(found) > 600
    assert not any(found.values()), json.dumps({k: v for k, v in found.items() if v}, indent=1)


@needs_oracle
def test_mindspore_reads_forty_networks(tmp_path: Path) -> None:
    made = networks.write(tmp_path, list(networks.NETWORKS))
    assert not any(made.values()), made
    found = mindspore(Path(networks.__file__), ["read", str(tmp_path)])
    apart = {k: v for k, v in found.items()
             if not isinstance(v, float) or v > (1e-3 if k == "Half" else 1e-5)}
    assert not apart, json.dumps(apart, indent=1)
