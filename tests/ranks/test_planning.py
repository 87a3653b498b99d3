"""`cellc plan`: its formulas against bytes that collectives move, its cuts against all cuts, its
reading of a step against the sizes of a GPT, and the published figures in the documentation."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cellc.cli import planning as command
from cellc.cli.errors import UserError
from cellc.compiled.traced import trace
from cellc.testing.ranks import run_ranks
from cellc.tools.planning import links, meshes, view, workload
from cellc.tools.planning.links import Link, Links
from cellc.tools.planning.meshes import CannotPlan, Mesh, Options
from cellc.tools.planning.workload import Block, Workload
from cellc.tools.profiling import profile_traced
from cellc_compiler.passes.stages.schedule import Shape, timetable
from cellc_runtime import collectives, world
from cellc_runtime.world import Step

ROOT = Path(__file__).parents[2]
FAST = Links(Link(0.0, 1e15), Link(0.0, 1e15))


@pytest.fixture(scope="module")
def gpt() -> Any:
    sys.path.insert(0, str(ROOT / "samples"))
    try:
        import gpt
    finally:
        sys.path.pop(0)
    return gpt


class Counted:
    """The world of a rank that counts the bytes which it gives to others."""

    def __init__(self, made: Any) -> None:
        self.made, self.sent = made, 0
        self.rank, self.size, self.near, self.groups = made.rank, made.size, made.near, made.groups

    def all_to_all(self, step: Step, parts: Any, out: Any) -> None:
        self.sent += sum(p.size for i, p in enumerate(parts) if i != self.rank)
        self.made.all_to_all(step, parts, out)

    def all_gather(self, step: Step, own: Any, out: Any) -> None:
        self.sent += own.size * (self.size - 1)
        self.made.all_gather(step, own, out)

    def reads(self, group: Any) -> bool:
        """Ranks on machines of their own."""
        return False


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("numbers", [12, 4096, 4104, 120_000])
def test_formulas_count_the_bytes_that_are_moved(count: int, numbers: int) -> None:
    """On each side of the size up to which everything goes to everyone."""
    x = np.ones(numbers * 12 // count * count // 12, np.float32)
    x = x[: len(x) // count * count]
    link = Link(1e-6, 1e9)
    formulas = {"all_reduce": links.all_reduce, "reduce_scatter": links.reduce_scatter,
                "all_gather": links.all_gather}

    def moved(rank: int) -> dict[str, int]:
        out = {}
        for kind in formulas:
            counted: Any = Counted(world.world())
            with world.playing(counted):
                step = Step(collectives.described(kind, x), tuple(range(count)))
                more = () if kind == "all_gather" else ("sum",)
                collectives.KINDS[kind](step, x, *more)
            out[kind] = counted.sent
        return out

    for found in run_ranks(count, moved):
        assert found == {k: round(f(link, count, x.nbytes).nbytes) for k, f in formulas.items()}


def test_time_is_latency_and_bytes() -> None:
    link = Link(1e-3, 1e6, 1e7)
    assert links.all_reduce(link, 1, 1e6).seconds == 0
    assert [links.rounds(n) for n in (1, 2, 3, 4, 5, 64)] == [0, 1, 2, 2, 3, 6]
    # Two rounds of 3/4 of the bytes in each of two steps; three parts of a quarter are added.
    want = 2 * 2e-3 + 2 * 0.75 * 1e6 / 1e6 + 0.75 * 1e6 / 1e7
    assert links.all_reduce(link, 4, 1e6).seconds == pytest.approx(want)
    assert links.send(link, 5e5).seconds == pytest.approx(0.501)
    assert links.broadcast(link, 5, 1e6).seconds == pytest.approx(3 * 1.001)


def test_links_of_the_command_line() -> None:
    found = links.parsed(["intra=5us:300GB/s", "inter=1e1us:25gb/s:2e3MB/s"], 8)
    assert found == Links(Link(5e-6, 3e11), Link(1e-5, 2.5e10, 2e9), 8)
    assert found.between(4, 2) is found.intra and found.between(4, 4) is found.inter
    assert links.parsed(["inter=2ms:1kB/s"], None).intra == Link(2e-3, 1e3)
    for link in (found.inter, Link(1.21e-3, 2e13), Link(3e-9, 1e3)):  # as it is printed
        assert links.parsed([f"intra={link}"], 8).intra == link
    for text in ("5us:1GB/s", "intra=5:1GB/s", "intra=5us", "intra=5us:1GB", "intra=1s:0GB/s",
                 "outer=5us:1GB/s"):
        with pytest.raises(ValueError, match="--link"):
            links.parsed([text], None)


def even(layers: int, **more: Any) -> Workload:
    blocks = [Block(f"b{i}", 0.0, 1.0, [], [], [1 << 20], 0, 1 << 20, 1 << 10)
              for i in range(layers)]
    return Workload("even", 2, blocks, temporaries=layers << 20, **more)


@pytest.mark.parametrize(("stages", "count"), [(1, 3), (2, 4), (4, 4), (4, 12), (8, 3)])
def test_bubbles(stages: int, count: int) -> None:
    """(p - 1) / m of the computation; the schedule that is drawn takes as long."""
    plan = meshes.predict(even(8), Mesh(pp=stages), FAST, Options(micro_batches=count))
    assert plan.bubble / plan.compute == pytest.approx((stages - 1) / count)
    table = timetable(Shape(stages, count), "1f1b")  # which `view.svg` draws
    assert table.length == 3 * (count + stages - 1)
    assert view.svg(plan, "even").count('stroke="white"') == 2 * stages * count
    for stage, order in enumerate(table.orders):
        under_way = list(itertools.accumulate(-1 if u.backward else 1 for u in order))
        assert max(under_way) == min(stages - stage, count)  # as the memory is counted
    halved = meshes.predict(even(8), Mesh(pp=stages), FAST,
                            Options(micro_batches=count, interleaved=2))
    assert halved.bubble == pytest.approx(plan.bubble / 2)


def test_memory_of_the_fullest_stage() -> None:
    plan = meshes.predict(even(8, state=2.0), Mesh(pp=4), FAST, Options(micro_batches=8))
    assert (plan.weights, plan.gradients, plan.state) == (2 << 20, 2 << 20, 4 << 20)
    assert plan.activations == (2 << 20) * 4  # two layers, four micro-batches under way


def test_layers_are_cut_where_the_slowest_stage_takes_least() -> None:
    draw = np.random.RandomState(0)
    for count, parts in ((5, 2), (7, 3), (8, 8), (9, 4)):
        costs = draw.rand(count).tolist()

        def worst(ends: Any, costs: Any = costs) -> float:
            return max(sum(costs[a:b]) for a, b in itertools.pairwise((0, *ends)))

        found = meshes._cuts(costs, parts)
        all_of_them = ((*c, count) for c in itertools.combinations(range(1, count), parts - 1))
        assert len(found) == parts and worst(found) == pytest.approx(min(map(worst, all_of_them)))


def test_gradients_go_in_buckets() -> None:
    """A little and a bucket and a half: three collectives of each rank's whole gradient."""
    link = Link(1e-3, 1e9)
    work = Workload("w", 1, [Block("b", 0, 1.0, [], [], [100, 4 << 20, 2 << 20])])
    plan = meshes.predict(work, Mesh(dp=4), Links(link, link))
    want = sum((links.all_reduce(link, 4, n) for n in (100, 4 << 20, 2 << 20)), links.Cost())
    assert plan.data == want
    half = meshes.predict(work, Mesh(dp=4), Links(link, link), Options(overlap=0.5))
    assert half.data.seconds == pytest.approx(want.seconds / 2)


def test_kernels_of_another_device() -> None:
    """Kernels, the update and bubbles take 1 / speed; links and memory are what they were."""
    link = Link(1e-3, 1e9)
    blocks = [Block(f"b{i}", 0.5, 1.0, [64], [512], [100], sent=32) for i in range(4)]
    work, mesh = Workload("w", 1, blocks, update=0.25), Mesh(2, 2, 2)
    one, two = (meshes.predict(work, mesh, Links(link, link), Options(speed=s)) for s in (1.0, 4.0))
    assert (two.compute, two.update) == (one.compute / 4, one.update / 4)
    assert one.bubble / 4 < two.bubble < one.bubble  # (a stage's sums are in it)
    assert (two.tensor, two.data, two.pipeline) == (one.tensor, one.data, one.pipeline)
    assert two.activations == one.activations and two.weights == one.weights
    assert work.blocks[0].whole == 1.0


def test_a_step_is_read_from_its_program(
    gpt: Any, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tensor parallelism adds up four times a layer, each the size of the activations; three
    quarters of the products are cut; Adam keeps two numbers for each weight."""
    rows, tokens, width, vocabulary = 4, 16, 32, 64
    net = gpt.GPT(vocabulary, tokens, width, 3, dropout=0.0)
    step, inputs = gpt.train_step(net), gpt.make_batch(rows, tokens, vocabulary)
    traced = trace(step, list(inputs), {})
    profile = profile_traced(traced, traced.fed([t._snapshot() for t in inputs]), 3)
    # What a kernel takes in so small a network is noise: here it is by what it computes.
    total, computed = float(np.median(profile.seconds)), [s.flops + 1 for s in profile.sites]
    times = [total * n / sum(computed) for n in computed]
    monkeypatch.setattr(type(profile), "site_seconds", lambda self: times)
    work = workload.from_profile(profile, traced, rows, 4 << 20)
    names = [b.name.rpartition(".")[2] for b in work.blocks]
    assert names == ["0", "1", "2"]
    activations = rows * tokens * width * 4
    assert [b.sums for b in work.blocks] == [[activations] * 4] * 2 + [[activations] * 5]
    products = [4 * width * width * n for n in (3, 1, 4, 4)]
    assert work.blocks[0].weights_cut == products
    assert work.blocks[2].weights_cut == [*products, 4 * vocabulary * width]
    assert work.weights == sum(p.nbytes for p in net.trainable_params())
    assert work.state == 2.0
    assert activations <= work.blocks[0].sent < 1.1 * activations and not work.blocks[2].sent
    assert all(b.cut > b.whole for b in work.blocks)
    assert work.seconds == pytest.approx(float(np.median(profile.seconds)))
    one = meshes.predict(work, Mesh(), FAST)
    four = meshes.predict(work, Mesh(tp=4), FAST)
    cut = sum(b.cut for b in work.blocks)
    assert four.compute == pytest.approx(one.compute - 0.75 * cut)
    # 13 sums of less than 16 KiB each, which everyone sends to everyone.
    assert four.tensor.nbytes == pytest.approx(13 * 3 * activations)
    forward = trace(net, list(inputs[:1]), {})
    profile = profile_traced(forward, forward.fed([inputs[0]._snapshot()]), 1)
    with pytest.raises(ValueError, match="updates no parameter: expected a training step"):
        workload.from_profile(profile, forward, rows, 4 << 20)


def test_meshes_are_searched() -> None:
    work = even(6)
    work.blocks[0].weights_whole[:] = [64 << 20]
    slow = Links(Link(1e-5, 1e10), Link(1e-3, 1e8), 2)
    found = meshes.search(work, 12, slow, Options(batch=48))
    rates = [p.rate for p in found]
    assert rates == sorted(rates, reverse=True)
    assert {p.mesh for p in found} == {Mesh(12 // (t * p), t, p) for t in (1, 2)
                                       for p in (1, 2, 3, 4, 6) if 12 % (t * p) == 0}
    assert all(p.samples == 48 for p in found)
    small = meshes.search(work, 12, slow, Options(batch=48, memory=138 << 20))
    assert small and all(p.memory <= 138 << 20 for p in small) and len(small) < len(found)
    with pytest.raises(CannotPlan, match="6 layers cannot be cut into 8 stages"):
        meshes.predict(work, Mesh(pp=8), slow)
    with pytest.raises(CannotPlan, match="a batch of 7 rows is no number of micro-batches of 2"):
        meshes.predict(work, Mesh(dp=2), slow, Options(batch=7))
    with pytest.raises(CannotPlan, match="no mesh of 12 ranks serves"):
        meshes.search(work, 12, slow, Options(memory=1))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from cellc.cli import main

    file, picture = tmp_path / "net.py", tmp_path / "plan.svg"
    file.write_text("""
import cellc as ms
from cellc import nn
class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layers = nn.SequentialCell(*[nn.Dense(16, 16) for _ in range(4)])
    def construct(self, x):
        return self.layers(x)
def step(net):
    loss = nn.WithLossCell(net, nn.MSELoss())
    return nn.TrainOneStepCell(loss, nn.Momentum(net.trainable_params(), 0.1, 0.9))
""")
    given = ["plan", f"{file}:Net", "--train", "step", "-i", "x=float32[8,16]",
             "-i", "y=float32[8,16]", "--runs", "2"]
    link = ["--link", "intra=5us:10GB/s,inter=20us:1GB/s"]
    assert main([*given, "--mesh", "dp=2,tp=2,pp=2", "-o", str(picture), *link]) == 0
    said = capsys.readouterr().out
    assert "4 layers, 4.2 KiB of parameters" in said and "dp=2,tp=2,pp=2" in said
    assert "stage 1: " in said and "8 micro-batches in 2 stages" in said
    text = picture.read_text()
    assert text.count('fill="#4c9f70"') == 2 * 8 + 1 and text.endswith("</svg>\n")
    assert main([*given, "--search", "4", "--batch", "64", "--memory", "1GiB", *link]) == 0
    assert "dp=1,tp=1,pp=4" in capsys.readouterr().out
    for wrong, why in (([], "expected --mesh"), (["--mesh", "dp=2"], "expected --link"),
                       (["--mesh", "dp=x", *link], "--mesh 'dp=x'"),
                       (["--mesh", "dp=2,dp=2", *link], "--mesh"),
                       (["--mesh", "pp=8", *link], "4 layers cannot be cut"),
                       (["--mesh", "dp=2", "--overlap", "2", *link], "--overlap"),
                       (["--mesh", "dp=2", "--speed", "0", *link], "--speed"),
                       (["--mesh", "dp=2", "--speed", "inf", *link], "--speed"),
                       (["--mesh", "dp=2", "--batch", "16", "--micro-batches", "1", *link],
                        "take --micro-batches away")):
        assert main([*given, *wrong]) == 2
        assert why in capsys.readouterr().err
    with pytest.raises(UserError, match="2 ranks or more"):
        command.measured_link(1)


def test_published_figures() -> None:
    """The documentation's table is what the model gives."""
    page = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import make_plan
    finally:
        sys.path.pop(0)
    assert make_plan.table() in page
    worst = max(abs(r.predicted / r.published - 1) for r in make_plan.rows())
    assert worst < 0.15
