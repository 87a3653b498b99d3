"""Checkpoints of several ranks: parts, whole ones, other numbers of ranks, and what goes wrong."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, train
from cellc.storage.elsewhere import is_elsewhere
from cellc.testing.ranks import run_ranks
from cellc.train import parts

from .conftest import Launch
from .test_sharded_optimizers import Net, asked, data

NAME = "net-1_2"


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    ms.set_seed(1)
    asked(True)
    yield
    ms.reset_auto_parallel_context()


def step_of(rate: float = 0.01) -> nn.TrainOneStepCell:
    net = Net()
    return nn.TrainOneStepCell(net, nn.Adam(net.trainable_params(), rate, use_amsgrad=True))


def whole_state(step: nn.TrainOneStepCell) -> dict[str, bytes]:
    """All parameters and state, put together of the ranks' parts."""
    values = {p.name: p.asnumpy() for p in step.get_parameters()}
    found = parts.merged(values, parts.layouts_of(step) if ms.communication.get_group_size() > 1
                         else {})
    return {name: np.asarray(value).tobytes() for name, value in found.items()}


def trained(rank: int, step: nn.TrainOneStepCell, first: int, last: int) -> None:
    for i in range(first, last):
        step(data(rank, i))


def saved(count: int, folder: Path, **options: Any) -> list[Any]:
    """A checkpoint after two steps; the state of each rank then, and after two more."""
    def run(rank: int) -> Any:
        step = step_of()
        trained(rank, step, 0, 2)
        ms.save_checkpoint(step, str(folder / NAME), **options)
        then = whole_state(step)
        trained(rank, step, 2, 4)
        return then, whole_state(step)

    return run_ranks(count, run)


@pytest.mark.parametrize(("format", "single"), [
    ("ckpt", False), ("safetensors", False), ("safetensors", True)])
def test_parts_are_loaded_by_any_number_of_ranks(
    tmp_path: Path, format: str, single: bool
) -> None:
    (then, later), *_ = saved(2, tmp_path, integrated_save=False, format=format,
                              remove_redundancy=single)
    manifest = train.latest_checkpoint(str(tmp_path))
    assert manifest == str(tmp_path / f"{NAME}.{format}.whole.json")

    def again(rank: int) -> Any:
        step = step_of()
        ms.load_distributed_checkpoint(step, manifest)
        begun = whole_state(step)
        trained(rank, step, 2, 4)
        return begun, whole_state(step)

    for begun, ended in run_ranks(2, again):  # the same number: the same bits, at once and later
        assert begun == then and ended == later
    for count in (1, 3, 4):
        assert all(begun == then for begun, _ in run_ranks(count, again))


def test_parts_hold_what_their_rank_has(tmp_path: Path) -> None:
    saved(2, tmp_path, integrated_save=False, format="safetensors")
    whole = sum(p.nbytes for p in step_of().get_parameters())
    files = [str(tmp_path / f"rank_{r}" / f"{NAME}.safetensors") for r in range(2)]
    assert all(os.path.getsize(f) < 0.8 * whole for f in files)
    entries = [ms.load_checkpoint(f, format="safetensors") for f in files]
    assert [e["moment1.w"].shape for e in entries] == [(16, 33)] * 2
    step = step_of()
    ms.load_distributed_checkpoint(step, files)  # by the layouts in the files
    got = step.optimizer.moment1[0].asnumpy()
    assert np.array_equal(got, np.concatenate([e["moment1.w"].asnumpy() for e in entries]))
    with pytest.raises(ValueError, match="is the part of rank 1 of 2, but it is given as"):
        ms.load_distributed_checkpoint(step_of(), files[::-1])


def test_without_redundancy_each_value_is_written_once(tmp_path: Path) -> None:
    (then, _), *_ = saved(2, tmp_path, integrated_save=False, format="safetensors",
                          remove_redundancy=True)
    files = [str(tmp_path / f"rank_{r}" / f"{NAME}.safetensors") for r in range(2)]
    first, second = (set(ms.load_checkpoint(f, format="safetensors")) for f in files)
    assert {"w", "h", "b", "odd"} <= first | second and "w" in first ^ second
    assert "moment1.w" in first & second

    def again(rank: int) -> Any:
        step = step_of()
        ms.load_checkpoint(files[rank], step, format="safetensors", remove_redundancy=True)
        return whole_state(step)

    assert run_ranks(2, again) == [then] * 2


def test_an_integrated_checkpoint_is_whole_and_is_cut_again(tmp_path: Path) -> None:
    def run(rank: int) -> Any:
        step = step_of()
        trained(rank, step, 0, 2)
        ms.save_checkpoint(step, str(tmp_path / f"of_{rank}"))
        return whole_state(step)

    (then, *_) = run_ranks(2, run)
    files = [(tmp_path / f"of_{r}.ckpt").read_bytes() for r in range(2)]
    assert files[0] == files[1]

    def again(rank: int) -> Any:
        step = step_of()
        ms.load_checkpoint(str(tmp_path / "of_0.ckpt"), step)
        return step.optimizer.moment1[0].shape[0], whole_state(step)

    assert run_ranks(4, again) == [(8, then)] * 4
    assert run_ranks(1, again) == [(32, then)]


def test_nothing_half_written_is_loaded(tmp_path: Path) -> None:
    saved(2, tmp_path, integrated_save=False)
    older = train.latest_checkpoint(str(tmp_path))
    assert older is not None

    def fails(rank: int) -> None:
        step = step_of()
        if rank == 1:
            (tmp_path / "sub").mkdir()
            (tmp_path / "sub" / "rank_1").touch()  # no folder: nothing can be written there
        ms.save_checkpoint(step, str(tmp_path / "sub" / "net-2_4"), integrated_save=False)

    with pytest.raises(OSError, match=r"net-2_4.ckpt was not saved, as not all.*rank 1: .*rank_1"):
        run_ranks(2, fails)
    assert not list(tmp_path.rglob("*2_4*"))
    assert train.latest_checkpoint(str(tmp_path)) == older
    assert train.latest_checkpoint(str(tmp_path), "other") is None

    part = tmp_path / "rank_1" / f"{NAME}.ckpt"
    kept = part.read_bytes()
    for content, said in ((kept[:-1], "is not whole: there is no part .*rank_1.*rank 1"),
                          (kept[:-1] + bytes([kept[-1] ^ 1]), "part of rank 1 .* is damaged"),
                          (None, "is not whole: there is no part .*rank_1.*rank 1")):
        part.unlink()
        if content is not None:
            part.write_bytes(content)
        step = step_of()
        before = whole_state(step)
        with pytest.raises(ValueError, match=said):
            ms.load_distributed_checkpoint(step, older)
        assert whole_state(step) == before
    assert train.latest_checkpoint(str(tmp_path)) is None
    with pytest.raises(ValueError, match="is no checkpoint of several ranks, or damaged"):
        Path(older).write_text("{}")
        ms.load_distributed_checkpoint(step_of(), older)


def test_a_copy_is_a_backup(tmp_path: Path) -> None:
    (then, _), *_ = saved(2, tmp_path / "a", integrated_save=False)
    shutil.copytree(tmp_path / "a", tmp_path / "b")

    def overwrite(rank: int) -> None:
        ms.save_checkpoint(step_of(), str(tmp_path / "a" / NAME), integrated_save=False)

    run_ranks(2, overwrite)
    copy = train.latest_checkpoint(str(tmp_path / "b"))
    step = step_of()
    ms.load_distributed_checkpoint(step, copy)
    assert whole_state(step) == then
    shutil.rmtree(tmp_path / "a")
    ms.load_distributed_checkpoint(step_of(), copy)
    part = tmp_path / "b" / "rank_1" / f"{NAME}.ckpt"
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1  # of the same size
    part.write_bytes(data)
    assert train.latest_checkpoint(str(tmp_path / "b")) is None


@pytest.mark.parametrize("name", ["/etc/passwd", "../x.ckpt", "rank_0/../../x.ckpt"])
def test_a_manifest_names_files_of_its_folder(tmp_path: Path, name: str) -> None:
    saved(2, tmp_path, integrated_save=False)
    manifest = Path(train.latest_checkpoint(str(tmp_path)) or "")
    content = json.loads(manifest.read_text())
    content["parts"][0]["new"] = name
    manifest.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="is outside of its folder"):
        ms.load_distributed_checkpoint(step_of(), str(manifest))


@pytest.mark.parametrize("stop", range(4))
def test_a_killed_overwrite_leaves_the_old_or_the_new(
    tmp_path: Path, stop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (then, later), *_ = saved(2, tmp_path, integrated_save=False)
    mode = tmp_path / "rank_0" / f"{NAME}.ckpt"
    mode.chmod(0o600)
    folders = [tmp_path / "rank_0", tmp_path / "rank_1"]

    class Killed(BaseException):
        pass

    def overwrite(rank: int) -> None:
        step = step_of()
        trained(rank, step, 0, 4)
        ms.save_checkpoint(step, str(tmp_path / NAME), integrated_save=False)

    real = os.replace
    def replace(source: Any, target: Any) -> None:
        folder = Path(target).parent
        if (stop == 0 and str(target).endswith(parts.SUFFIX)) or (
                Path(target).name == f"{NAME}.ckpt" and stop - 1 in (0, folders.index(folder) + 1)):
            raise Killed("killed")
        real(source, target)

    with monkeypatch.context() as m:
        m.setattr(os, "replace", replace)
        with pytest.raises(BaseException, match="killed"):
            run_ranks(2, overwrite)
    found = train.latest_checkpoint(str(tmp_path))
    step = step_of()
    ms.load_distributed_checkpoint(step, found)
    assert whole_state(step) == (then if stop == 0 else later)
    run_ranks(2, overwrite)
    assert not list(tmp_path.rglob(".*.part")) and mode.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_moved(tmp_path: Path) -> None:
    (then, _), *_ = saved(2, tmp_path / "a", integrated_save=False)
    (tmp_path / "a").rename(tmp_path / "b")
    step = step_of()
    ms.load_distributed_checkpoint(step, train.latest_checkpoint(str(tmp_path / "b")))
    assert whole_state(step) == then


def test_the_strategy_file_says_how_parts_lie(tmp_path: Path) -> None:
    file = str(tmp_path / "strategy.ckpt")
    ms.set_auto_parallel_context(strategy_ckpt_save_file=file)
    (then, _), *_ = saved(2, tmp_path, integrated_save=False)
    found = ms.build_searched_strategy(file)
    assert found is not None
    state = found["moment1.w"]
    assert (state.dev_matrix[0].dim, state.tensor_map[0].dim) == ([2], [-1, -1])
    assert (state.opt_weight_shard_step, state.opt_weight_shard_size) == (1, 2)
    ms.transform_checkpoints(str(tmp_path), str(tmp_path / "one"), "new", file)
    loaded = ms.load_checkpoint(str(tmp_path / "one" / "rank_0" / "new0.ckpt"))
    assert {n: p.asnumpy().tobytes() for n, p in loaded.items()} == then
    files = [str(tmp_path / f"rank_{r}" / f"{NAME}.ckpt") for r in range(2)]
    step = step_of()
    ms.load_distributed_checkpoint(step, files, None, file)
    assert whole_state(step) == then


def test_model_checkpoint_keeps_whole_ones(tmp_path: Path) -> None:
    def fit(rank: int) -> list[str]:
        xs = [data(rank, i).asnumpy() for i in range(4)]
        rows = ms.dataset.GeneratorDataset(xs, ["x"], shuffle=False)
        net = Net()
        model = train.Model(net, optimizer=nn.Adam(net.trainable_params(), 0.01))
        config = train.CheckpointConfig(1, keep_checkpoint_max=2, integrated_save=False,
                                        format="safetensors")
        keep = train.ModelCheckpoint("net", str(tmp_path), config)
        model.train(1, rows, [keep], dataset_sink_mode=False)
        return [keep.latest_ckpt_file_name]

    latest = str(tmp_path / "net-1_4.safetensors.whole.json")
    assert run_ranks(2, fit) == [[latest]] * 2
    assert train.latest_checkpoint(str(tmp_path)) == latest
    for rank in range(2):
        names = sorted(f.name for f in (tmp_path / f"rank_{rank}").iterdir())
        assert names == ["net-1_3.safetensors", "net-1_4.safetensors"]


@pytest.mark.parametrize("mode", ["data_parallel", "semi_auto_parallel", "stages"])
def test_what_a_job_goes_on_from_where_nothing_is_parted(tmp_path: Path, mode: str) -> None:
    """The recipe of the guide: a file that each rank has all of, or parts, where each has other
    stages; with any number of ranks that is what was there."""
    ms.reset_auto_parallel_context()
    ms.set_context(mode=ms.GRAPH_MODE)
    stages = {"pipeline_stages": 2} if mode == "stages" else {}
    ms.set_auto_parallel_context(
        parallel_mode=mode if not stages else "semi_auto_parallel", **stages)

    def made() -> nn.TrainOneStepCell:
        draw = np.random.RandomState(9)
        net = nn.SequentialCell([
            nn.Dense(n, k, ms.Tensor(draw.randn(k, n).astype(np.float32)), "zeros")
            for n, k in ((4, 5), (5, 3))])
        for i, cell in enumerate(net):
            cell.pipeline_stage = i
        loss = nn.WithLossCell(net, nn.MSELoss())
        return nn.TrainOneStepCell(nn.PipelineCell(loss, 2) if stages else loss,
                                   nn.Adam(net.trainable_params(), 0.01))

    def rows(i: int) -> list[ms.Tensor]:
        draw = np.random.RandomState(i)
        return [ms.Tensor(draw.rand(4, n).astype(np.float32)) for n in (4, 3)]

    def run(rank: int) -> tuple[Any, dict[str, bytes]]:
        step = made()
        step(*rows(0))
        ms.save_checkpoint(step, str(tmp_path / "net"), integrated_save=False)
        loss = step(*rows(1)).asnumpy()
        return loss, {p.name: p.asnumpy().tobytes() for p in step.get_parameters()
                      if not is_elsewhere(p)}

    want = run_ranks(2, run)
    assert (tmp_path / "net.ckpt").exists() is (mode == "data_parallel")
    last = train.latest_checkpoint(str(tmp_path), "net")
    assert last == str(tmp_path / ("net.ckpt" + ".whole.json" * (mode != "data_parallel")))
    assert train.latest_checkpoint(str(tmp_path), "other") is None

    def again(rank: int) -> tuple[Any, dict[str, bytes]]:
        step = made()
        ms.load_distributed_checkpoint(step, last)
        loss = step(*rows(1)).asnumpy()
        return loss, {p.name: p.asnumpy().tobytes() for p in step.get_parameters()
                      if not is_elsewhere(p)}

    assert run_ranks(2, again) == want
    ms.reset_auto_parallel_context()
    loss, held = again(0)
    assert loss == max(one for one, _ in want)
    if mode != "data_parallel":  # (whose ranks add the gradients of two batches)
        assert all(part.items() <= held.items() for _, part in want)


RESTART = """
import os, sys
import numpy as np
import cellc as ms
from cellc import nn, train, Tensor
from cellc.communication import init, get_rank
from cellc.train import parts
folder, first, killed = sys.argv[1], int(sys.argv[2]), sys.argv[3]
init()
rank = get_rank()
ms.set_seed(1)
ms.set_auto_parallel_context(parallel_mode="data_parallel", enable_parallel_optimizer=True,
                             parallel_optimizer_config={"parallel_optimizer_threshold": 0})
net = nn.Dense(8, 4, Tensor(np.random.RandomState(7).randn(4, 8).astype(np.float32)), "zeros")
step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Adam(net.trainable_params()))
last = train.latest_checkpoint(folder)
if first:
    ms.load_distributed_checkpoint(step, last)
for i in range(first, 6):
    draw = np.random.RandomState(10 * i + rank)
    step(Tensor(draw.randn(2, 8).astype(np.float32)), Tensor(draw.randn(2, 4).astype(np.float32)))
    if killed == "written" and i == 3 and rank == 1:
        write = parts.write
        def dies(path, *more):
            write(path, *more)
            os.truncate(path, os.path.getsize(path) // 2)
            os.kill(os.getpid(), 9)
        parts.write = dies
    ms.save_checkpoint(step, f"{folder}/net-{i}", integrated_save=False)
print("state", rank, sum(p.asnumpy().astype(np.float64).sum() for p in step.get_parameters()),
      net.weight.asnumpy().tobytes().hex())
"""


def test_a_rank_killed_while_it_writes(
    mpirun: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The job goes on from the last whole checkpoint, with the bits of one that was not killed."""
    ms.reset_auto_parallel_context()
    monkeypatch.setattr("sys.argv", ["script", str(tmp_path / "all"), "0", "no"])
    run_ranks(2, lambda rank: exec(RESTART, {}))
    want = sorted(x for x in capsys.readouterr().out.splitlines() if x.startswith("state"))
    assert len(want) == 2
    folder = tmp_path / "killed"
    assert mpirun(2, RESTART, str(folder), "0", "written").returncode != 0
    last = train.latest_checkpoint(str(folder))
    assert last is not None and Path(last).name == "net-2.ckpt.whole.json"
    assert json.loads(Path(last).read_text())["parts"][1]["file"].endswith("rank_1/net-2.ckpt")
    done = mpirun(2, RESTART, str(folder), "3", "no")
    assert done.returncode == 0, done.stderr
    assert sorted(x for x in done.stdout.splitlines() if x.startswith("state")) == want
