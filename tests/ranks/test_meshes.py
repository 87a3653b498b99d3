"""Networks cut by data, by weights and into stages at once: they train as one process does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc.parallel import Layout, _utils
from cellc.parallel.auto_parallel import AutoParallel
from cellc.storage.elsewhere import is_elsewhere
from cellc.testing.ranks import run_ranks

from .conftest import Launch

BATCH, MICRO, STEPS = 16, 4, 2
SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    ms.set_seed(1)
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    ms.reset_auto_parallel_context()


def drawn(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.RandomState(seed).randn(*shape).astype(np.float32) * 0.3


class Block(nn.Cell):
    """Columns, then rows; nothing else says how it lies."""

    def __init__(self, seed: int, ranks: Layout | None) -> None:
        super().__init__()
        self.up, self.bias = Parameter(drawn(seed, 6, 12)), Parameter(drawn(seed + 50, 12))
        self.down = Parameter(drawn(seed + 100, 12, 6))
        self.norm, self.columns, self.rows = nn.LayerNorm((6,)), ops.MatMul(), ops.MatMul()
        if ranks is not None:
            self.columns.shard((ranks("dp", "None"), ranks("None", "tp")))
            self.rows.shard((ranks("dp", "tp"), ranks("tp", "None")))

    def construct(self, x: Any) -> Any:
        h = ops.gelu(self.columns(self.norm(x), self.up) + self.bias)
        return x + self.rows(h, self.down)


class Net(nn.Cell):
    """Two blocks, each a stage if there are any; the first weight is read in both."""

    def __init__(self, stages: int, ranks: Layout | None) -> None:
        super().__init__()
        self.first = nn.Dense(4, 6, Tensor(drawn(7, 6, 4)), "zeros")
        self.blocks = nn.CellList([Block(i, ranks) for i in range(2)])
        for i, block in enumerate(self.blocks if stages > 1 else ()):
            block.pipeline_stage = i
        self.last = nn.Dense(6, 3, Tensor(drawn(8, 3, 6)), "zeros")

    def construct(self, x: Any) -> Any:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x) + ops.matmul(x, self.first.weight)[:, :3]


def a_step(stages: int = 1, ranks: Layout | None = None) -> nn.Cell:
    net = Net(stages, ranks)
    losses = nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    return nn.TrainOneStepCell(nn.PipelineCell(losses, MICRO),
                               nn.Adam(net.trainable_params(), 0.01)).set_train()


def data(step: int) -> tuple[np.ndarray[Any, Any], ...]:
    draw = np.random.RandomState(step)
    return draw.randn(BATCH, 4).astype(np.float32), draw.randint(0, 3, BATCH).astype(np.int32)


def by_micro_batch(rows: np.ndarray[Any, Any], feeding: int) -> np.ndarray[Any, Any]:
    """The rows of the ranks that feed, so that a micro-batch of one process has those of all."""
    parts = rows.reshape(feeding, MICRO, -1, *rows.shape[1:])
    return parts.swapaxes(0, 1).reshape(rows.shape)


def alone(feeding: int) -> tuple[list[float], nn.Cell]:
    step = a_step()
    losses = [float(step(*(Tensor(by_micro_batch(a, feeding)) for a in data(i))).asnumpy())
              for i in range(STEPS)]
    return losses, step


def on_mesh(dp: int, tp: int, pp: int, feeding: int = 0, **settings: Any) -> list[Any]:
    """What each rank of a mesh has: the losses, the training step."""
    ms.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel", pipeline_stages=pp, **settings)
    steps = run_ranks(dp * tp * pp, lambda rank: a_step(pp, Layout((dp, tp), ("dp", "tp"))))
    feeding = feeding or dp * tp

    def trained(rank: int) -> list[float]:
        own = rank % (dp * tp) % feeding
        return [float(steps[rank](*(Tensor(np.split(a, feeding)[own]) for a in data(i))).asnumpy())
                for i in range(STEPS)]

    return list(zip(run_ranks(dp * tp * pp, trained), steps, strict=True))


def held(step: nn.Cell) -> dict[str, bytes]:
    return {p.name: p.asnumpy().tobytes() for p in step.get_parameters() if not is_elsewhere(p)}


def test_stages_whose_ops_are_cut() -> None:
    """Each rank has its parts of the weights of its stage; the bits are those of the same cut
    without stages, and the values those of one process."""
    dp, tp, pp = 2, 2, 2
    want, one = alone(dp * tp)
    ranks = on_mesh(dp, tp, pp)
    ms.reset_auto_parallel_context()
    unstaged = on_mesh(dp, tp, 1)
    for rank, (losses, step) in enumerate(ranks):
        stage, place = divmod(rank, dp * tp)
        np.testing.assert_allclose(losses, want if stage == pp - 1 else [0.0] * STEPS, 1e-5)
        if stage == pp - 1:
            assert losses == unstaged[place][0]
        same, own = held(unstaged[place][1]), held(step)
        assert own.items() <= same.items()
        assert {n for n in own if "blocks" in n} == {
            n for n in same if f"blocks.{stage}" in n}
        layout = next(v for n, v in step.parameter_layout_dict.items()
                      if n.endswith(f"blocks.{stage}.up") and "moment" not in n)
        assert layout[:3] == [[dp, tp], [-1, 0], [6, 12 // tp]]
    for p in one.get_parameters():
        q = next(q for s in (ranks[0][1], ranks[-1][1]) for q in s.get_parameters()
                  if q.name == p.name and not is_elsewhere(q))
        if q.shape == p.shape:
            np.testing.assert_allclose(q.asnumpy(), p.asnumpy(), 2e-3, 2e-4)


def test_all_ranks_of_a_stage_feed_the_whole_batch() -> None:
    want, _ = alone(1)
    for losses, _ in on_mesh(2, 2, 2, feeding=1, full_batch=True)[4:]:
        np.testing.assert_allclose(losses, want, 1e-5)


def test_accumulated_micro_batches_are_those_of_the_ranks() -> None:
    """Without stages too: a micro-batch has rows of each rank that feeds."""
    want, _ = alone(2)
    for losses, _ in on_mesh(2, 1, 1):
        np.testing.assert_allclose(losses, want, 1e-5)


def _plain(x: Any, w: Any) -> Any:
    return ops.sin(ops.matmul(x, w)).sum()


def _mixed(x: Any, w: Any) -> Any:
    """Of float16: a gradient is cast and scaled before it is added to others, a loss scaled."""
    half = ops.matmul(x.astype(ms.float16), (w * 0.3).astype(ms.float16))
    return -ops.sin(half.astype(ms.float32)).mean() / 0.7


@pytest.mark.parametrize("loss", [_plain, _mixed])
def test_gradients_are_summed_between_ranks_once_a_step(loss: Any) -> None:
    """Each rank casts, scales and adds the gradients of its micro-batches; then their sums are
    added in the order of the ranks. The same of losses."""
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = Parameter(drawn(3, 5, 7), name="w")

        def construct(self, x: Any) -> Any:
            return loss(x, self.w)

    def training(micro: int) -> Any:
        net = nn.PipelineCell(Net(), micro)
        return nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 1.0))

    def after(x: Any, micro: int) -> Any:
        step = training(micro)
        step(Tensor(x))
        return step.network.network.w.asnumpy()

    def summed(parts: Any) -> Any:
        a, b = (((p[0] + p[1]) + p[2]) + p[3] for p in (parts[:MICRO], parts[MICRO:]))
        return (a + b).asnumpy()

    x = drawn(4, BATCH, 5) * 40
    w = drawn(3, 5, 7)
    # (A mean of both ranks' rows is the sum of its part of half as many, halved: an exact scale.)
    share = 0.5 if loss is _mixed else 1.0
    found = [ms.value_and_grad(lambda v, a=a: loss(Tensor(a), v) * share)(Tensor(w))
             for a in np.split(x, 2 * MICRO)]
    losses, slopes = zip(*found, strict=True)
    want = (Tensor(w) - Tensor(summed(slopes))).asnumpy()
    assert want.tobytes() != after(by_micro_batch(x, 2), MICRO).tobytes()  # other sums, other bits
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel")
    steps = run_ranks(2, lambda rank: training(MICRO))
    given = run_ranks(2, lambda rank: steps[rank](Tensor(np.split(x, 2)[rank])).asnumpy())
    for step, total in zip(steps, given, strict=True):
        assert step.network.network.w.asnumpy().tobytes() == want.tobytes()
        assert total.tobytes() == summed(losses).tobytes()


def test_layouts_that_do_not_fit_a_stage() -> None:
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", pipeline_stages=2)
    steps = run_ranks(4, lambda rank: a_step(2, Layout((2, 2), ("dp", "tp"))))
    with pytest.raises(ValueError, match=r"4 devices, but 2 ranks work on each stage"):
        run_ranks(4, lambda rank: steps[rank](*(Tensor(a[:8]) for a in data(0))))


def test_how_data_lie_holds_from_then_on_where_there_are_stages() -> None:
    """Without stages it is a setting of the network's calls."""
    network = AutoParallel(nn.Identity())
    for stages, held in ((1, "data_parallel"), (2, "full_batch")):
        network.pipeline(stages)
        ms.reset_auto_parallel_context()
        network.dataset_strategy("full_batch")
        assert ms.get_auto_parallel_context("dataset_strategy") == held


def test_what_scripts_ask_of_the_settings() -> None:
    """By the names of MindSpore's inner module, on each of 8 ranks in 2 stages."""
    ms.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel", pipeline_stages=2, gradients_mean=True,
        full_batch=True, enable_parallel_optimizer=True,
        parallel_optimizer_config={"gradient_accumulation_shard": True})
    want = {
        "_get_parallel_mode": "semi_auto_parallel", "_is_in_auto_parallel_mode": True,
        "_is_in_data_parallel_mode": False, "_is_in_hybrid_parallel_mode": False,
        "_is_sharding_propagation": False, "_get_full_batch": True, "_get_pipeline_stages": 2,
        "_get_gradients_mean": True, "_get_device_num": 8, "_get_stage_device_num": 4,
        "_get_parameter_broadcast": False, "_get_enable_parallel_optimizer": True,
        "_need_to_full": False, "_is_parallel_mode": False, "_get_grad_accumulation_shard": True}
    for rank, found in enumerate(run_ranks(8, lambda rank: {
            name: getattr(_utils, name)() for name in (*want, "_get_global_rank")})):
        assert found == {**want, "_get_global_rank": rank}


@pytest.mark.parametrize(("mode", "given", "parts"), [
    ("stand_alone", {}, False), ("data_parallel", {}, False), ("semi_auto_parallel", {}, True),
    ("auto_parallel", {"dataset_strategy": "data_parallel"}, True),
    ("auto_parallel", {"full_batch": True}, False),
    ("semi_auto_parallel", {"dataset_strategy": ((2, 1),), "full_batch": True}, True)])
def test_whether_processes_are_given_parts(mode: str, given: dict[str, Any], parts: bool) -> None:
    """As MindSpore 2.10 says for the same settings."""
    ms.set_auto_parallel_context(parallel_mode=mode, **given)
    assert _utils._need_to_full() is parts


def test_a_checkpoint_of_parts_in_stages(tmp_path: Path) -> None:
    """Parts of each stage's ranks, loaded by one process and by other ranks: what follows is the
    same."""
    ranks = on_mesh(1, 2, 2)
    run_ranks(4, lambda rank: ms.save_checkpoint(
        ranks[rank][1], str(tmp_path / "parts"), integrated_save=False, format="safetensors"))
    found = ms.latest_checkpoint(str(tmp_path))
    assert found is not None
    ms.reset_auto_parallel_context()
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel")
    other = run_ranks(2, lambda rank: a_step(1, Layout((1, 2), ("dp", "tp"))))
    run_ranks(2, lambda rank: ms.load_distributed_checkpoint(other[rank], found))
    more = [np.split(a, 2) for a in data(STEPS)]
    losses = run_ranks(2, lambda rank: float(
        other[rank](*(Tensor(a[rank]) for a in more)).asnumpy()))
    ms.reset_auto_parallel_context()
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", pipeline_stages=2)
    went_on = run_ranks(4, lambda rank: float(
        ranks[rank][1](*(Tensor(a[rank % 2]) for a in more)).asnumpy()))
    assert losses == went_on[2:]
    ms.reset_auto_parallel_context()
    one = a_step()
    ms.load_distributed_checkpoint(one, found)
    loss = one(*(Tensor(by_micro_batch(a, 2)) for a in data(STEPS)))
    np.testing.assert_allclose(float(loss.asnumpy()), losses[0], 1e-5)


def test_the_gpt_of_the_samples(mpirun: Launch) -> None:
    """Real ranks: the losses of 1 x 2 x 2 are those of one process."""
    script = f"import runpy, sys; sys.path.insert(0, {str(SAMPLES)!r})\n" \
             f"runpy.run_path({str(SAMPLES / 'gpt_parallel.py')!r}, run_name='__main__')\n"
    many = mpirun(4, script, "--steps", "2", seconds=300)
    one = mpirun(1, script, "--steps", "2", seconds=300)
    assert many.returncode == 0 == one.returncode, many.stderr + one.stderr
    assert "step 2, loss 4.2" in many.stdout
    found, want = (float(text.partition("loss ")[2].split()[0])
                   for text in (many.stdout, one.stdout))
    assert found == pytest.approx(want, abs=2e-5)
    assert many.stdout.count("KiB") == 4
