"""Networks written as MindIR: read back here, and by MindSpore."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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


# --- open sizes, nested inputs, draws -------------------------------------------------------------


class Sizes(nn.Cell):
    """What a network does with sizes that are open: two of them in one shape, sums, parts."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.norm = nn.Dense(6, 4), nn.LayerNorm((6,))

    def construct(self, x: Tensor) -> tuple[Tensor, ...]:
        batch, steps, width = x.shape
        heads = ops.reshape(x, (batch, steps, 2, width // 2)).swapaxes(1, 2)
        mask = ops.triu(ops.broadcast_to(Tensor([[-1e9]]), (steps, steps)), 1)
        scores = ops.softmax(ops.matmul(heads, heads.swapaxes(2, 3)) + mask, -1)
        mixed = ops.reshape(ops.matmul(scores, heads), (2 * batch, -1, steps))
        return (mixed, self.dense(self.norm(x)), x[:, : steps - 1], x[:, -1], x[:, ::-1],
                ops.arange(steps), ops.zeros((batch, steps), ms.float32), ops.tile(x, (2, 1, 1)),
                ops.cat((x, x), 1), x.sum((0, 1)) / batch, self.changed(x))

    def changed(self, x: Tensor) -> Tensor:
        """Parts of a copy are set."""
        x = x + 0
        x[:, :, 2:5] = 1.0
        x[:, -1, 1:3] = 2.0
        return x


_OPEN = Tensor(shape=[None, None, 6], dtype=ms.float32)


def _open_network(folder: Path) -> list[tuple[list[Tensor], list[Any]]]:
    """Write one with open sizes; inputs of two sizes, with what it gives."""
    ms.set_seed(3)
    net = Sizes()
    ms.export(net, _OPEN, file_name=str(folder / "open"), file_format="MINDIR")
    given = [Tensor(np.random.RandomState(n).rand(n, n + 2, 6).astype(np.float32)) for n in (2, 3)]
    return [([x], [t.asnumpy() for t in net(x)]) for x in given]


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
def test_open_sizes_stay_open(mode: int, tmp_path: Path) -> None:
    ms.set_context(mode=mode)
    calls = _open_network(tmp_path)
    net = nn.GraphCell(ms.load(str(tmp_path / "open.mindir")))
    assert [type(d) is int for d in net.argument_types[0].dims] == [False, False, True]
    for inputs, wanted in calls:
        for a, b in zip(net(*inputs), wanted, strict=True):
            np.testing.assert_allclose(a.asnumpy(), b, 1e-5, 1e-5)


def test_a_training_step_of_open_sizes(folder: Path) -> None:
    ms.set_seed(1)
    net = nn.SequentialCell(nn.Dense(5, 8), nn.ReLU(), nn.Dense(8, 2))
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()),
                               nn.Momentum(net.trainable_params(), 0.1, 0.9))
    ms.export(step, Tensor(shape=[None, 5], dtype=ms.float32),
              Tensor(shape=[None, 2], dtype=ms.float32), file_name="t", file_format="MINDIR")
    again = nn.GraphCell(ms.load("t.mindir"))
    for n in (4, 3, 7):
        x, y = Tensor(np.random.RandomState(n).rand(n, 5).astype(np.float32)), ops.ones(
            (n, 2), ms.float32)
        np.testing.assert_allclose(float(again(x, y)), float(step(x, y)), 1e-5)


class Nested(nn.Cell):
    """A pair of a tensor and a pair."""

    def construct(self, pair: tuple[Tensor, tuple[Tensor, Tensor]], x: Tensor) -> Tensor:
        return pair[0] * x + pair[1][0] - 2 * pair[1][1]


def _three() -> list[Tensor]:
    return [Tensor(np.arange(3, dtype=np.float32) + k) for k in range(3)]


def test_nested_inputs(folder: Path) -> None:
    a, b, c = _three()
    ms.export(Nested(), (a, (b, c)), a, file_name="n", file_format="MINDIR")
    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        net = nn.GraphCell(ms.load("n.mindir"))
        assert net((a, (b, c)), a).asnumpy().tolist() == Nested()((a, (b, c)), a).asnumpy().tolist()
    with pytest.raises(TypeError, match="called otherwise"):
        net(a, b, c, a)


class Drawing(nn.Cell):
    """Draws of each distribution."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(p=0.25)

    def construct(self, x: Tensor) -> tuple[Tensor, ...]:
        low, high = Tensor(0.0, ms.float32), Tensor(2.0, ms.float32)
        return (self.drop(x), self.drop(x), ops.standard_normal((4000,)),
                ops.uniform((4000,), low, high), ops.randint(0, 9, (4000,)).astype(ms.float32),
                ops.bernoulli(x, 0.25), ops.standard_laplace((4000,)),
                ops.randperm(50).astype(ms.float32))


MOMENTS = [(1, 0.577), (1, 0.577), (0, 1), (1, 0.577), (4, 2.582), (0.25, 0.433), (0, 1.414),
           (24.5, 14.43)]
"""Means and deviations of what `Drawing` gives for ones."""


def test_draws_have_their_distributions(folder: Path) -> None:
    x = ops.ones((4000,), ms.float32)
    ms.export(Drawing().set_train(), x, file_name="d", file_format="MINDIR")
    ms.set_seed(5)
    found = [t.asnumpy() for t in nn.GraphCell(ms.load("d.mindir"))(x)]
    for array, (mean, deviation) in zip(found, MOMENTS, strict=True):
        assert abs(array.mean() - mean) < 5 * deviation / 4000**0.5 + 1e-6
        assert abs(array.std() - deviation) < 0.1 * deviation
    assert (found[0] != found[1]).any()


class Dropped(nn.Cell):
    """The sum of a dropped parameter, times an input."""

    def __init__(self) -> None:
        super().__init__()
        self.w = ms.Parameter(ops.ones((4000,), ms.float32), name="w")
        self.drop = nn.Dropout(p=0.5)

    def construct(self, x: Tensor) -> Tensor:
        return (self.drop(self.w) * x).sum()


def _dropped() -> nn.Cell:
    net = Dropped()
    return nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 1.0)).set_train()


def test_a_step_draws_one_mask_forwards_and_backwards(folder: Path) -> None:
    x = ops.ones((4000,), ms.float32)
    ms.export(_dropped(), x, file_name="s", file_format="MINDIR")
    net = nn.GraphCell(ms.load("s.mindir"))
    kept = float(net(x)) / 2
    moved = net.trainable_params()[0].asnumpy()
    assert 1800 < kept < 2200
    assert (moved == -1).sum() == kept and (moved == 1).sum() == 4000 - kept


class Padded(nn.Cell):
    """As many zeros as rows."""

    def construct(self, x: Tensor) -> Tensor:
        return ops.pad(x, (0, 0, 0, x.shape[0]))


def test_what_cannot_be_written(folder: Path) -> None:
    class Named(nn.Cell):
        def construct(self, given: dict[str, Tensor]) -> Tensor:
            return given["a"]

    class Looping(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            while x.sum() < 100:
                x = x + ops.standard_normal((3,)) ** 2
            return x

    x = Tensor(np.ones(3, np.float32))
    with pytest.raises(ValueError, match="are tensors in tuples and lists"):
        ms.export(Named(), {"a": x}, file_name="n", file_format="MINDIR")
    with pytest.raises(ValueError, match=r"'random_normal' \(.*it draws in a branch or loop"):
        ms.export(Looping(), x, file_name="d", file_format="MINDIR")
    with pytest.raises(ValueError, match=r"'pad' \(.*the size x_0 is open; give the size"):
        ms.export(Padded(), Tensor(shape=[None, 3], dtype=ms.float32), file_name="u",
                  file_format="MINDIR")

    class Sums(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            return ops.logcumsumexp(x, 0)

    with pytest.raises(ValueError, match=r"'logcumsumexp' \(.*test_writing.py, line \d+\) cannot"):
        ms.export(Sums(), x, file_name="s", file_format="MINDIR")
    assert list(Path().iterdir()) == []


@needs_oracle
def test_mindspore_reads_samples_of_every_op(tmp_path: Path) -> None:
    for op in all_ops():
        if op.name not in UNLIKE and op.name not in spelling.DRAWS:  # (it draws other numbers)
            written(tmp_path, op)
    found = mindspore(Path(runner.__file__), [str(tmp_path)])
    assert len(found) > 600
    assert not any(found.values()), json.dumps({k: v for k, v in found.items() if v}, indent=1)


@needs_oracle
def test_mindspore_reads_open_sizes_nested_inputs_and_draws(tmp_path: Path) -> None:
    for k, (inputs, wanted) in enumerate(_open_network(tmp_path)):
        (tmp_path / f"open{k}.mindir").write_bytes((tmp_path / "open.mindir").read_bytes())
        np.savez(tmp_path / f"open{k}.npz", *[t.asnumpy() for t in inputs],
                 **{f"out_{i}": a for i, a in enumerate(wanted)})
    (tmp_path / "open.mindir").unlink()
    a, b, c = _three()
    ms.export(Nested(), (a, (b, c)), a, file_name=str(tmp_path / "nested"), file_format="MINDIR")
    np.savez(tmp_path / "nested.npz", a.asnumpy(), pair_0=a.asnumpy(), pair_1=b.asnumpy(),
             pair_2=c.asnumpy(), out_0=Nested()((a, (b, c)), a).asnumpy())
    x = ops.ones((4000,), ms.float32)
    ms.export(Drawing().set_train(), x, file_name=str(tmp_path / "draws"), file_format="MINDIR")
    np.savez(tmp_path / "draws.npz", x.asnumpy(), moments=np.array(MOMENTS))
    x = ops.ones((4000,), ms.float32)
    ms.export(_dropped(), x, file_name=str(tmp_path / "mask"), file_format="MINDIR")
    np.savez(tmp_path / "mask.npz", x.asnumpy(), moments=np.array([(4000, 0)]))
    found = mindspore(Path(runner.__file__), [str(tmp_path)])
    assert len(found) == 5 and not any(found.values()), json.dumps(found, indent=1)


@needs_oracle
def test_mindspore_reads_forty_networks(tmp_path: Path) -> None:
    made = networks.write(tmp_path, list(networks.NETWORKS))
    assert not any(made.values()), made
    found = mindspore(Path(networks.__file__), ["read", str(tmp_path)])
    apart = {k: v for k, v in found.items()
             if not isinstance(v, float) or v > (1e-3 if k == "Half" else 1e-5)}
    assert not apart, json.dumps(apart, indent=1)
