"""Pipelines: the ranks of several stages give the bits of one process, in every schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.parallel.auto_parallel import AutoParallel
from cellc.parallel.nn import Pipeline
from cellc.parallel.strategy import (
    enable_save_strategy_online,
    get_current_strategy_metadata,
    get_strategy_metadata,
)
from cellc.storage.elsewhere import is_elsewhere
from cellc.testing.ranks import run_ranks
from cellc.tools.pipeline_view import view
from cellc_runtime.world import world

from .conftest import Launch

BATCH, WIDTH, CLASSES = 8, 6, 3
Weights = dict[str, bytes]
Trained = tuple[list[Any], Weights]


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_seed(1)
    yield
    ms.reset_auto_parallel_context()


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.RandomState(seed).randn(*shape).astype(np.float32) / 2)


def dense(inputs: int, outputs: int, seed: int) -> nn.Dense:
    return nn.Dense(inputs, outputs, drawn(outputs, inputs, seed=seed), "zeros")


class Block(nn.Cell):
    """A residual block; `kind` says what it normalises with."""

    def __init__(self, seed: int, kind: str = "layer") -> None:
        super().__init__()
        self.dense = dense(WIDTH, WIDTH, seed)
        self.norm = nn.BatchNorm1d(WIDTH) if kind == "batch" else nn.LayerNorm((WIDTH,))
        self.drop = nn.Dropout(p=0.25) if kind == "drop" else nn.Identity()

    def construct(self, x: Any) -> Any:
        return x + self.drop(self.norm(ops.relu(self.dense(x))))


class Net(nn.Cell):
    """Blocks, in stages; what is before and behind them says no stage."""

    def __init__(self, stages: list[int], kind: str = "layer") -> None:
        super().__init__()
        self.first = dense(4, WIDTH, 100)
        self.blocks = nn.CellList([Block(i, kind) for i in range(len(stages))])
        for block, stage in zip(self.blocks, stages, strict=True):
            block.pipeline_stage = stage
        self.last = dense(WIDTH, CLASSES, 101)

    def construct(self, x: Any) -> Any:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


class Tied(nn.Cell):
    """A language model whose embedding is its head: two stages share a weight."""

    def __init__(self, stages: list[int]) -> None:
        super().__init__()
        self.table = ms.Parameter(drawn(CLASSES, WIDTH, seed=7), name="table")
        self.blocks = nn.CellList([Block(i) for i in range(len(stages))])
        for block, stage in zip(self.blocks, stages, strict=True):
            block.pipeline_stage = stage

    def construct(self, x: Any) -> Any:
        h = ops.gather(self.table, ops.cast(x[:, 0] > 0, ms.int32), 0)
        for block in self.blocks:
            h = block(h)
        return ops.matmul(h, self.table.T)


def data(step: int, rank: int = 0) -> tuple[Tensor, Tensor]:
    draw = np.random.RandomState(1000 * rank + step)
    return (Tensor(draw.randn(BATCH, 4).astype(np.float32)),
            Tensor(draw.randint(0, CLASSES, BATCH).astype(np.int32)))


def losses_of(net: nn.Cell) -> nn.Cell:
    return nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))


def held(net: nn.Cell) -> Weights:
    """The parameters and states that this process holds."""
    return {p.name: p.asnumpy().tobytes() for p in net.get_parameters() if not is_elsewhere(p)}


def train(make: Callable[[], nn.Cell], micro: int, steps: int = 2) -> Trained:
    net = make().set_train()
    step = nn.TrainOneStepCell(nn.PipelineCell(losses_of(net), micro),
                               nn.Adam(net.trainable_params(), 0.01))
    found = [step(*data(i)).asnumpy() for i in range(steps)]
    told = get_strategy_metadata(step)
    if told is not None:
        assert told[world().rank].keys() == held(step).keys()
        assert get_current_strategy_metadata(step)[0].keys() == held(step).keys()
        assert set().union(*told.values()) == {p.name for p in step.get_parameters()}
    return found, held(step)


def in_stages(
    stages: int, run: Callable[[], Trained], schedule: str = "1f1b", interleave: bool = False,
    copies: int = 1, **more: Any,
) -> list[Trained]:
    ms.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel", pipeline_stages=stages,
        pipeline_config={"pipeline_interleave": interleave, "pipeline_scheduler": schedule}, **more)
    out = run_ranks(stages * copies, lambda rank: run())
    ms.reset_auto_parallel_context()
    return out


def check(found: list[Trained], want: Trained, copies: int = 1) -> None:
    """The last stage has the losses, and each parameter has its bits on the stages that hold it."""
    losses, weights = want
    for rank, (own, parts) in enumerate(found):
        last = rank // copies == len(found) // copies - 1
        assert own == (losses if last else [0.0] * len(losses))
        for name, elements in parts.items():
            assert elements == weights[name], (rank, name)
    assert set().union(*(parts for _, parts in found)) == set(weights)
    names = [n for n in weights if n.endswith("weight") and "blocks" in n]
    assert all(sum(n in parts for _, parts in found) == copies for n in names)


@pytest.mark.parametrize(("stages", "micro", "schedule"), [
    (2, 2, "gpipe"), (2, 4, "1f1b"), (4, 4, "gpipe"), (4, 8, "1f1b"),
])
def test_stages_equal_one_process(stages: int, micro: int, schedule: str) -> None:
    def make() -> nn.Cell:
        return Net([i * stages // 4 for i in range(4)])

    want = train(make, micro)
    check(in_stages(stages, lambda: train(make, micro), schedule), want)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    other = train(make, micro)
    assert other == want, "PyNative adds the gradients in the same order"


def test_gradients_are_added_from_the_first_micro_batch_on() -> None:
    net = Net([0, 1])
    weights = net.trainable_params()
    _, found = ms.value_and_grad(nn.PipelineCell(losses_of(net), 4), None, weights)(*data(0))
    slopes = ms.value_and_grad(losses_of(net), None, weights)
    x, y = data(0)
    total: Any = None
    for i in range(0, BATCH, 2):
        _, part = slopes(x[i : i + 2], y[i : i + 2])
        total = part if total is None else [a + b for a, b in zip(total, part, strict=True)]
    assert [g.asnumpy().tobytes() for g in found] == [g.asnumpy().tobytes() for g in total]


@pytest.mark.parametrize("kind", ["batch", "drop"])
def test_state_and_draws(kind: str) -> None:
    def run() -> Trained:
        ms.set_seed(5)
        return train(lambda: Net([0, 0, 1], kind), 2)

    want = run()
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", pipeline_stages=2)
    ms.set_seed(5)
    check(run_ranks(2, lambda rank: train(lambda: Net([0, 0, 1], kind), 2)), want)


class Doubled(nn.Cell):
    """A layer with a gradient of its own."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.dense = dense(WIDTH, WIDTH, seed)

    def construct(self, x: Any) -> Any:
        return self.dense(x)

    def bprop(self, x: Any, out: Any, dout: Any) -> Any:
        return (ops.matmul(dout, self.dense.weight) * 2,)


@pytest.mark.parametrize("which", ["blocks", "network", "bprop"])
def test_cells_in_graphs_of_their_own_keep_their_stages(which: str) -> None:
    """Those that are computed again for gradients, and those that have a `bprop`."""
    def make() -> nn.Cell:
        net = Net([0, 0, 1, 1])
        if which == "bprop":
            net.blocks[3] = Doubled(3)
            net.blocks[3].pipeline_stage = 1
        for cell in {"network": [net], "blocks": net.blocks}.get(which, ()):
            cell.recompute()
        return net

    def run() -> Trained:
        return train(make, 4)

    want = run()
    found = in_stages(2, run)
    check(found, want)
    assert all(f"blocks.{i}.dense.weight" in found[i // 2][1] for i in range(4))


def test_a_shared_weight_has_one_home() -> None:
    want = train(lambda: Tied([0, 1]), 4)
    enable_save_strategy_online()
    found = in_stages(2, lambda: train(lambda: Tied([0, 1]), 4))
    check(found, want)
    assert ["table" in parts for _, parts in found] == [True, False]


def test_interleaved_stages() -> None:
    order = [0, 1, 0, 1]
    want = train(lambda: Net(order), 4)
    check(in_stages(2, lambda: train(lambda: Net(order), 4), interleave=True), want)


class Sized(Net):
    """Written for the rows of one rank's micro-batch, of two: a whole batch does not fit."""

    def construct(self, x: Any) -> Any:
        return super().construct(x.reshape((BATCH // 2, 4)))


@pytest.mark.parametrize(("mean", "kind"), [(True, Net), (False, Sized)])
def test_data_parallel_beside_stages(mean: bool, kind: type[Net]) -> None:
    """Two ranks on each stage give the bits of one process that adds their gradients."""
    def on_ranks(rank: int) -> Trained:
        net = kind([0, 1])
        step = nn.TrainOneStepCell(nn.PipelineCell(losses_of(net), 2),
                                   nn.Momentum(net.trainable_params(), 0.1, 0.9))
        return [step(*data(0, rank % 2)).asnumpy()], held(net)

    net = kind([0, 1])
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    slopes = ms.value_and_grad(nn.PipelineCell(losses_of(net), 2), None, optimizer.parameters)
    (first, one), (second, two) = slopes(*data(0, 0)), slopes(*data(0, 1))
    sums = [a + b for a, b in zip(one, two, strict=True)]
    optimizer(tuple(g * 0.5 for g in sums) if mean else tuple(sums))
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", pipeline_stages=2,
                                 gradients_mean=mean)
    found = run_ranks(4, on_ranks)
    want = held(net)
    for rank, (losses, parts) in enumerate(found):
        assert losses == [[0.0], [0.0], [first.asnumpy()], [second.asnumpy()]][rank]
        assert parts and all(want[n] == e for n, e in parts.items())


def test_functional_training_and_results_for_all() -> None:
    """MindSpore's way by hand, under AutoParallel."""
    def run() -> Trained:
        net = Net([0, 1])
        optimizer = nn.SGD(net.trainable_params(), 0.1)
        losses = Pipeline(losses_of(net), 2)
        slopes = ms.value_and_grad(losses, None, optimizer.parameters)
        reducer = nn.PipelineGradReducer(optimizer.parameters)

        @ms.jit
        def step(x: Any, y: Any) -> Any:
            loss, grads = slopes(x, y)
            optimizer(reducer(grads))
            return loss

        return [step(*data(i)).asnumpy() for i in range(2)], held(net)

    want = run()
    AutoParallel(nn.Identity()).pipeline(stages=2, output_broadcast=True)
    for losses, parts in run_ranks(2, lambda rank: run()):
        assert losses == want[0]
        assert parts and all(want[1][n] == e for n, e in parts.items())


def test_inference_in_stages() -> None:
    want = Net([0, 1, 2])(data(0)[0]).asnumpy()

    def run(rank: int) -> Any:
        return Net([0, 1, 2])(data(0)[0]).asnumpy()

    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", pipeline_stages=3)
    first, second, third = run_ranks(3, run)
    assert third.tobytes() == want.tobytes() and not first.any() and not second.any()


@pytest.mark.parametrize("overflows", [False, True])
def test_loss_scale_is_one_for_all_stages(overflows: bool) -> None:
    """Each stage updates its own parameters under the condition that all gradients are finite."""
    def run() -> Trained:
        net = Net([0, 1])
        scale = 2.0 ** (127 if overflows else 10)
        step = nn.TrainOneStepWithLossScaleCell(
            nn.PipelineCell(losses_of(net), 2), nn.Momentum(net.trainable_params(), 0.1, 0.9),
            nn.DynamicLossScaleUpdateCell(scale, 2, 100))
        out = [step(*data(i)) for i in range(2)]
        assert out[0][1].asnumpy() == overflows
        return [o[0].asnumpy() for o in out], held(step)

    want = run()
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", pipeline_stages=2,
                                 pipeline_result_broadcast=True)
    for losses, parts in run_ranks(2, lambda rank: run()):
        assert losses == want[0]
        assert all(want[1][n] == e for n, e in parts.items())
        assert 0 < sum("blocks" in n for n in parts) < sum("blocks" in n for n in want[1])


class Woven(nn.Cell):
    """A random network: each block reads some of those before it, and some numbers besides."""

    def __init__(self, seed: int, stages: int) -> None:
        super().__init__()
        draw = np.random.RandomState(seed)
        count = stages + int(draw.randint(0, 3))
        cuts = sorted(draw.choice(np.arange(1, count), stages - 1, replace=False))
        self.blocks = nn.CellList([
            Block(i, ("layer", "drop")[int(draw.randint(2))]) for i in range(count)])
        for i, block in enumerate(self.blocks):
            block.pipeline_stage = int(np.searchsorted(cuts, i, "right"))
        self.reads = [sorted({i, *map(int, draw.randint(0, i + 1, 2))}) for i in range(count)]
        self.first = dense(4, WIDTH, 200)
        self.last = dense(WIDTH, CLASSES, 201)
        self.kinds = [int(k) for k in draw.randint(0, 3, count)]

    def construct(self, x: Any) -> Any:
        known = [self.first(x)]
        for i in range(len(self.reads)):
            h = known[self.reads[i][0]]
            for k in self.reads[i][1:]:
                h = h * 0.5 + known[k]
            if self.kinds[i] == 1:
                h = h + ops.mean(x, 1, True)
            elif self.kinds[i] == 2:
                h = h * ops.exp(-ops.abs(h))
            known.append(self.blocks[i](h))
        return self.last(known[-1] + known[0])


@pytest.mark.parametrize("seed", range(4))
def test_random_networks(seed: int) -> None:
    draw = np.random.RandomState(seed)
    stages = int(draw.randint(2, 5))
    micro = 8 if stages == 2 else 4

    def run() -> Trained:
        return train(lambda: Woven(seed, stages), micro)

    ms.set_seed(3)
    want = run()
    ms.set_seed(3)
    check_some(in_stages(stages, run, ("gpipe", "1f1b")[int(draw.randint(2))]), want)


def check_some(found: list[Trained], want: Trained) -> None:
    assert found[-1][0] == want[0]
    for _, parts in found:
        assert parts and all(want[1][n] == e for n, e in parts.items())
    assert set().union(*(parts for _, parts in found)) == set(want[1])


# --- what is refused ------------------------------------------------------------------------------


def refused(make: Callable[[], Any], stages: int, ranks: int = 1, **more: Any) -> str:
    ms.set_auto_parallel_context(**{
        "parallel_mode": "semi_auto_parallel", "pipeline_stages": stages, **more})
    with pytest.raises((ValueError, RuntimeError), match="stage") as error:
        run_ranks(ranks, lambda rank: make())
    return str(error.value)


def test_networks_that_cannot_be_cut() -> None:
    text = refused(lambda: train(lambda: Net([0, 2]), 2), 2, 2)
    assert "the Cell network.network._backbone.blocks.1.dense has pipeline_stage 2, but there " \
           "are 2 stages, 0 to 1 [CE801]" in text
    assert "test_pipelines.py" in text and "self.dense(x)" in text
    text = refused(lambda: train(lambda: Net([0, 1, 0]), 2), 2, 2)
    assert "has pipeline_stage 0, but it reads what stage 1 computes: stages must rise" in text
    text = refused(lambda: train(lambda: Net([0, 0]), 2), 2, 2)
    assert "no Cell that is called has pipeline_stage 1" in text
    text = refused(lambda: train(lambda: Net([0, 1, 2]), 2), 3, 3)
    assert "needs at least 3 micro-batches, but got 2" in text


def test_processes_that_do_not_fit() -> None:
    make = lambda: train(lambda: Net([0, 1]), 2)  # noqa: E731
    assert "1 process cannot be shared out among pipeline_stages=2" in refused(make, 2)
    assert "3 processes cannot be shared out" in refused(make, 2, 3)
    assert "which is for the modes 'semi_auto_parallel'" in refused(
        make, 2, 2, parallel_mode="data_parallel")
    ms.reset_auto_parallel_context()
    with pytest.raises(ValueError, match="must be divided by the number of parts"):
        train(lambda: Net([0, 1]), 3)


def test_pynative_mode_has_no_stages() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    text = refused(lambda: nn.PipelineCell(losses_of(Net([0, 1])), 2)(*data(0)), 2, 2)
    assert "are for graph mode" in text and "set_context(mode=ms.GRAPH_MODE)" in text
    assert "are for graph mode" in refused(lambda: nn.PipelineGradReducer([]), 2, 2)


def test_ranks_must_cut_alike() -> None:
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", pipeline_stages=2)
    with pytest.raises(RuntimeError, match=r"collective mismatch: .* a pipeline's step cut as"):
        run_ranks(2, lambda rank: train(lambda: Net([0, 1] if rank else [0, 0, 1]), 2))


def test_ranks_must_compute_alike() -> None:
    """Networks whose parameters and crossings are the same, but not their ops."""
    class Other(Net):
        def construct(self, x: Any) -> Any:
            return -super().construct(x)

    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", pipeline_stages=2)
    with pytest.raises(RuntimeError, match=r"collective mismatch: .* a pipeline's step cut as"):
        run_ranks(2, lambda rank: train(lambda: (Other if rank else Net)([0, 1]), 2))


def test_parameters_of_other_stages_are_given_up(tmp_path: Path) -> None:
    def run(rank: int) -> Any:
        net = Net([0, 1])
        assert [p.name for p in net.blocks[rank].trainable_params()] == \
            [p.name for p in net.blocks.infer_param_pipeline_stage()]
        step = nn.TrainOneStepCell(nn.PipelineCell(losses_of(net), 2),
                                   nn.Momentum(net.trainable_params(), 0.1, 0.9))
        step(*data(0))
        ms.save_checkpoint(net, str(tmp_path / f"stage{rank}"))
        other = net.blocks[1 - rank].dense.weight
        assert other.shape == (WIDTH, WIDTH) and other._host is None
        with pytest.raises(RuntimeError, match="held by stage") as error:
            other.asnumpy()
        return str(error.value)

    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", pipeline_stages=2)
    first, second = run_ranks(2, run)
    assert first == ("the parameter blocks.1.dense.weight is held by stage 1 of the pipeline "
                     "(ranks [1]), and this is rank 0 of stage 0: read it there")
    assert "held by stage 0" in second
    files = [set(ms.load_checkpoint(str(tmp_path / f"stage{r}.ckpt"))) for r in (0, 1)]
    assert not files[0] & files[1]
    assert files[0] | files[1] == {p.name for p in Net([0, 1]).get_parameters()}


def test_settings() -> None:
    with pytest.raises(ValueError, match="'pipeline_stages' must be positive"):
        ms.set_auto_parallel_context(pipeline_stages=0)
    with pytest.raises(TypeError, match="'pipeline_config' must be a dict"):
        ms.set_auto_parallel_context(pipeline_config="gpipe")
    with pytest.raises(ValueError, match="'pipeline_config' has no 'schedule'"):
        ms.set_auto_parallel_context(pipeline_config={"schedule": "gpipe"})
    with pytest.raises(RuntimeError, match="'zero_bubble_v' is not there"):
        ms.set_auto_parallel_context(pipeline_config={"pipeline_scheduler": "zero_bubble_v"})
    with pytest.raises(KeyError, match="names the Cell 'block', but the network has"):
        Pipeline(Net([0, 1]), 2, stage_config={"block": 0})
    net = Net([0, 0])
    Pipeline(losses_of(net), 2, stage_config={"_backbone.blocks.1": 1})
    assert net.blocks[1].pipeline_stage == 1
    assert net.blocks[1].dense.weight.pipeline_stages == [1]


def test_collectives_stay_within_a_stage() -> None:
    class Summed(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net([0, 1])

        def construct(self, x: Any) -> Any:
            return ops.AllReduce()(self.net(x))

    text = refused(lambda: Summed()(data(0)[0]), 2, 2)
    assert "all_reduce takes part in the group of the ranks [0, 1], but a stage" in text
    assert "ops.AllReduce()(self.net(x))" in text


def test_a_budget_of_memory_in_a_stage() -> None:
    def run() -> Trained:
        with ms.recompute(budget="64KiB"):
            return train(lambda: Net([0, 0, 1, 1]), 4)

    check(in_stages(2, run), train(lambda: Net([0, 0, 1, 1]), 4))


def test_what_is_shown_before_the_run() -> None:
    """Memory of the compiled stages: 1F1B needs less than GPipe where many micro-batches are."""
    class Wide(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.CellList([
                nn.SequentialCell(nn.Dense(32, 32), nn.GELU(), nn.Dense(32, 32)) for _ in range(2)])
            for i, part in enumerate(self.parts):
                part.pipeline_stage = i

        def construct(self, x: Any) -> Any:
            for part in self.parts:
                x = part(x)
            return ops.mean(ops.square(x))

    found = {}
    for schedule in ("gpipe", "1f1b"):
        ms.set_auto_parallel_context(pipeline_config={"pipeline_scheduler": schedule})
        net = Wide()
        step = nn.TrainOneStepCell(nn.PipelineCell(net, 8), nn.SGD(net.trainable_params(), 0.1))
        found[schedule] = view(step, drawn(2048, 32), stages=2)
    gpipe, one = (found[s].stages for s in ("gpipe", "1f1b"))
    assert [s.alive for s in gpipe] == [8, 8] and [s.alive for s in one] == [2, 1]
    # GELU's input and output, and a product's input: 256 rows of 32 numbers each.
    assert gpipe[0].temporaries - one[0].temporaries >= 3 * 256 * 32 * 4 * 6 // 2
    assert one[0].temporaries < 0.6 * gpipe[0].temporaries
    weights = 4 * 2 * (32 * 32 + 32)
    assert [s.parameters - weights < 64 for s in one] == [True, True]
    assert [s.sent for s in one] == [8 * 256 * 32 * 4] * 2
    text = found["1f1b"].text()
    assert "2 stages, 8 micro-batches, 1f1b; 27 units of time" in text
    assert "      0 |F0 F1       B0--- F2 B1---" in text and " 11 %" in text
    picture = found["1f1b"].svg()
    assert picture.count("<title>") == 32 and "stage 1</text>" in picture


# --- real ranks -----------------------------------------------------------------------------------

SCRIPT = """
import hashlib, sys
import numpy as np
import mindspore as ms
from mindspore import nn, ops, Tensor
from mindspore.communication import init, get_rank, get_group_size
from mindspore.parallel.auto_parallel import AutoParallel
from mindspore.parallel.nn import Pipeline

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        draw = np.random.RandomState(0)
        self.layers = nn.CellList([
            nn.Dense(400, 400, Tensor(draw.randn(400, 400).astype(np.float32) / 20), 'zeros')
            for _ in range(2)])

    def construct(self, x):
        for layer in self.layers:
            x = ops.tanh(layer(x))
        return ops.mean(x)

ms.set_context(mode=ms.GRAPH_MODE)
init()
ms.set_seed(1)
stages = get_group_size()
losses = Pipeline(Net(), 4, stage_config={"layers.0": 0, "layers.1": stages - 1})
net = AutoParallel(losses)
if stages > 1:
    net.pipeline(stages=stages, scheduler="1f1b")
step = nn.TrainOneStepCell(net, nn.Momentum(net.trainable_params(), 0.5, 0.9))
for i in range(3):
    x = np.random.RandomState(i).randn(1024, 400).astype(np.float32)
    loss = step(Tensor(x))
for n in range(2):
    if stages == 1 or n == get_rank():
        found = hashlib.sha256(losses.network.layers[n].weight.asnumpy().tobytes()).hexdigest()
        print("layer", n, found)
if get_rank() == stages - 1:
    print("loss", float(loss.asnumpy()).hex())
"""
"""As MindSpore's users write it. Activations of 400 KiB: MPI sends them when they are received."""


def test_by_mpirun(mpirun: Launch) -> None:
    found = [mpirun(n, "from cellc import shim; shim.install()\n" + SCRIPT) for n in (1, 2)]
    for done in found:
        assert done.returncode == 0, done.stderr
    one, two = (sorted(done.stdout.splitlines()) for done in found)
    assert len(one) == 3 and one == two
