"""Functions on checkpoints and layouts of several ranks, by themselves and beside MindSpore's."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn, parallel
from cellc.ranks import strategies
from cellc.ranks.layouts import PartLayout
from cellc.ranks.strategies import Strategy
from cellc.testing.ranks import run_ranks
from cellc.train import transforming
from cellc.train.weights_file import read, write
from cellc_runtime.protobuf import field_of, number_of

from ..others import ORACLE, answer, needs_oracle, run

WHOLE = np.arange(96, dtype=np.float32).reshape(8, 12)
LAYOUT = PartLayout((2, 2), ((1,), ()), 2)


def strategy(stage: int = 0, name: str = "w", layout: PartLayout = LAYOUT) -> Strategy:
    made = strategies.made_of({name: layout})
    made.ops = {f"MatMul-op{stage}": (stage, [[1, 2], [2, 1]])}
    return made


def safetensors_of_four(folder: Path) -> str:
    strategies.write(str(folder / "s.ckpt"), strategy())
    for rank in range(4):
        inner = folder / "in" / f"rank_{rank}"
        inner.mkdir(parents=True)
        write(str(inner / "net-1_1.safetensors"),
              {"w": WHOLE[LAYOUT.box(rank, WHOLE.shape)], "step": np.int32([3])}, "safetensors")
    return str(folder / "s.ckpt")


@pytest.mark.parametrize("kind", ["ckpt", "json"])
def test_strategy_files_hold_what_was_written(tmp_path: Path, kind: str) -> None:
    file = str(tmp_path / f"s.{kind}")
    nested = PartLayout((2, 2, 2), ((2, 0), ()))
    made = strategy()
    made.stage = 1
    made.layouts |= strategy(layout=LAYOUT, name="b").layouts
    strategies.write(file, made)
    found = strategies.read(file, "test")
    assert (found.stage, found.ops) == (1, made.ops)
    assert strategies.by_parameter(found.layouts) == {"w": LAYOUT, "b": LAYOUT}
    strategies.write(str(tmp_path / "n.ckpt"), strategy(layout=nested))
    again = strategies.read(str(tmp_path / "n.ckpt"), "test")
    assert strategies.by_parameter(again.layouts) == {"w": nested}
    both = {"0-w": found.layouts["w"], "1-w": again.layouts["w"]}
    for rank, taken in ((None, LAYOUT), (0, LAYOUT), (7, LAYOUT), (8, nested)):
        (one,) = strategies.by_parameter(both, rank).values()
        assert (one.cuts, one.stages) == (taken.cuts, (0, 1)), rank
    for order in itertools.permutations((1, 2, 3)):  # the first stage decides, whoever comes first
        several = {f"{i}-w": found.layouts["w"] if i == 1 else again.layouts["w"] for i in order}
        (one,) = strategies.by_parameter(several).values()
        assert (one.cuts, one.stages) == (LAYOUT.cuts, order)


def test_files_that_are_no_strategies(tmp_path: Path) -> None:
    bad = tmp_path / "bad.ckpt"
    for content, error, said in ((b"", ValueError, "should not be empty"),
                                 (b"\x12\xff\x01", TypeError, "json or protobuf"),
                                 (b"{}" * 9, TypeError, "json or protobuf")):
        bad.write_bytes(content)
        with pytest.raises(error, match=said):
            ms.build_searched_strategy(str(bad))
    with pytest.raises(ValueError, match="no such strategy file"):
        ms.build_searched_strategy(str(tmp_path / "none"))
    with pytest.raises(TypeError, match="must be a str"):
        ms.build_searched_strategy(3)  # type: ignore[arg-type]


def test_stages_of_a_pipeline_in_one_file(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    for stage in range(2):
        for copy in "ab":  # each rank of a stage writes the same
            strategies.write(str(folder / f"{stage}{copy}.ckpt"), strategy(stage, f"w{stage}"))
    merged = str(tmp_path / "merged.ckpt")
    ms.merge_pipeline_strategys(str(folder), merged)
    found = strategies.read(merged, "test")
    assert set(found.layouts) == {"0-w0", "1-w1"} and len(found.ops) == 2
    assert ms.rank_list_for_transform(0, merged, None) == [7, 6, 5, 4, 3, 2, 1, 0]
    assert ms.rank_list_for_transform(5, merged, merged) == [5]


def test_parts_become_one_parameter(tmp_path: Path) -> None:
    def parts(layout: PartLayout) -> list[Parameter]:
        return [Parameter(Tensor(WHOLE[layout.box(r, WHOLE.shape)]), name="w")
                for r in range(layout.count)]

    for layout in (LAYOUT, PartLayout((2, 2), ((1,), (0,))), PartLayout((3,), ((0,), ()), 0,
                                                                        (1, 4, 3))):
        layouts = strategy(layout=layout).layouts
        assert np.array_equal(ms.merge_sliced_parameter(parts(layout), layouts).asnumpy(), WHOLE)
    rows = parts(PartLayout((4,), ((0,), ())))
    assert np.array_equal(ms.merge_sliced_parameter(rows).asnumpy(), WHOLE)
    with pytest.raises(ValueError, match="length of 'sliced_parameters' is 3"):
        ms.merge_sliced_parameter(rows[:3], strategy().layouts)
    with pytest.raises(KeyError, match="parameter name w"):
        ms.merge_sliced_parameter(rows, strategy(name="v").layouts)


class Net(nn.Cell):
    """One parameter."""

    def __init__(self, shape: tuple[int, ...] = WHOLE.shape) -> None:
        super().__init__()
        self.w = Parameter(Tensor(np.zeros(shape, np.float32)), name="w")


def test_unified_safetensors_and_back(tmp_path: Path) -> None:
    file = safetensors_of_four(tmp_path)
    one = str(tmp_path / "one")
    ms.unified_safetensors(str(tmp_path / "in"), file, one)
    assert json.loads((tmp_path / "one" / "param_name_map.json").read_text()) == {
        "metadata": {"total_size": 384}, "weight_map": {"w": "part0.safetensors"}}
    net = Net()
    lacking = ms.load_distributed_checkpoint(
        net, format="safetensors", unified_safetensors_dir=one)
    assert lacking == ([], ["step"]) and np.array_equal(net.w.asnumpy(), WHOLE)
    ms.load_distributed_checkpoint(
        None, format="safetensors", unified_safetensors_dir=one, predict_strategy=file,
        dst_safetensors_dir=str(tmp_path / "out"))
    for rank in range(4):
        got = read(str(tmp_path / "out" / f"rank_{rank}" / "net.safetensors"), "safetensors")
        assert np.array_equal(got["w"], WHOLE[LAYOUT.box(rank, WHOLE.shape)])
        assert got["step"] == [3]
    ms.unified_safetensors(str(tmp_path / "in"), file, str(tmp_path / "named"),
                           choice_func=lambda name: f"new.{name}")
    assert list(read(str(tmp_path / "named" / "part0.safetensors"), "safetensors")) == ["new.w"]


def test_shares_of_unified_safetensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each writes its files; the first says where each parameter is."""
    monkeypatch.setattr(transforming, "_PART_BYTES", 1)
    file, source = str(tmp_path / "s.ckpt"), str(tmp_path / "in")
    strategies.write(file, strategies.made_of({"w": LAYOUT, "v": LAYOUT}))
    for rank in range(4):
        inner = tmp_path / "in" / f"rank_{rank}"
        inner.mkdir(parents=True)
        part = WHOLE[LAYOUT.box(rank, WHOLE.shape)]
        write(str(inner / "net-1_1.safetensors"), {"w": part, "v": -part}, "safetensors")
    for i in range(2):
        ms.unified_safetensors(source, file, str(tmp_path / f"{i}"), split_dst_file=(i + 1, 2))
    assert [sorted(f.name for f in (tmp_path / f"{i}").iterdir()) for i in range(2)] == [
        ["param_name_map.json", "part0.safetensors"], ["part1.safetensors"]]


def test_a_network_on_ranks_takes_its_parts(tmp_path: Path) -> None:
    strategies.write(str(tmp_path / "s.ckpt"), strategy(layout=PartLayout((2,), ((0,), ()))))
    files = [str(tmp_path / f"{r}.ckpt") for r in range(2)]
    for rank, file in enumerate(files):
        write(file, {"w": WHOLE[4 * rank : 4 * rank + 4]}, "ckpt")

    def load(rank: int) -> Any:
        net = Net((8, 3))
        predict = {"w": [[4], [-1, 0], [8, 3], 0, True, ""]}
        ms.load_distributed_checkpoint(net, files, predict, str(tmp_path / "s.ckpt"))
        return net.w.asnumpy()

    assert np.array_equal(np.concatenate(run_ranks(4, load), 1), WHOLE)

    def cut(rank: int) -> Any:
        net = Net()
        net.w.set_data(Tensor(WHOLE))
        net.parameter_layout_dict = {"w": ([2, 2], [1, 0], [4, 6], 0, True, "")}
        net.load_parameter_slice(None)
        net.load_parameter_slice(None)
        return net.w.sliced, net.w.asnumpy()

    for rank, (sliced, part) in enumerate(run_ranks(4, cut)):
        own = PartLayout((2, 2), ((1,), (0,))).box(rank, WHOLE.shape)
        assert sliced and np.array_equal(part, WHOLE[own])
    with pytest.raises(ValueError, match=r"please check 'checkpoint_filenames'.*part of rank 1 is"):
        ms.load_distributed_checkpoint(Net(), [files[0], "none.ckpt"], None, "s.ckpt")
    with pytest.raises(ValueError, match="device count is 2"):
        ms.load_distributed_checkpoint(Net(), files[:1], None, str(tmp_path / "s.ckpt"))


def test_what_stages_share() -> None:
    """What is not shared, or has a layout that does not tell, stays as each has it."""
    def sync(rank: int) -> Any:
        net = Net((2,))
        net.w.set_data(Tensor(np.float32([rank, rank + 1])))
        found = []
        whole = ([1], [-1], [2], 0, True, "", [2], 0)
        for layout in (whole, (*whole, True), (*whole, False, rank == 0, 1 - rank, 7),
                       (*whole, True, rank == 0, 1 - rank, 7)):
            net.parameter_layout_dict = {"w": layout}
            ms.sync_pipeline_shared_parameters(net)
            found.append(net.w.asnumpy().tolist())
        return found

    assert run_ranks(2, sync) == [[[0, 1]] * 4, [*[[1, 2]] * 3, [0, 1]]]
    with pytest.raises(TypeError, match="must be a Cell"):
        ms.sync_pipeline_shared_parameters(3)  # type: ignore[arg-type]


def test_ranks_with_the_same_part_get_that_of_the_first() -> None:
    """Four ranks as 2 x 2: the last axis cuts the rows of `w`; what nobody names stays."""
    class Two(nn.Cell):
        def __init__(self, rank: int) -> None:
            super().__init__()
            for name in ("w", "other", "whole"):
                setattr(self, name, Parameter(Tensor(np.full((2, 3), rank, np.float32)), name=name))
            self.w.sliced = True

    def run(rank: int, kind: str) -> list[float]:
        net = Two(rank)
        layouts: Any = {"w": [[2, 2], [0, -1], [2, 3]], "whole": [[4], [-1, -1], [2, 3]]}
        if kind == "file":
            layouts = strategy(layout=PartLayout((2, 2), ((0,), ()))).layouts
        parallel.parameter_broadcast(net, layouts, rank)
        return [float(p.asnumpy().mean()) for p in (net.w, net.other, net.whole)]

    assert run_ranks(4, lambda rank: run(rank, "dict")) == [
        [0, 0, 0], [1, 1, 0], [0, 2, 0], [1, 3, 0]]
    assert [w for w, *_ in run_ranks(4, lambda rank: run(rank, "file"))] == [0, 1, 0, 1]
    parallel.parameter_broadcast(Two(0), {"w": [[1], [-1, -1]]}, 5)  # one process has them

    def refused(rank: int) -> None:
        for said, layouts, ranks in (
            ("'cur_rank' must be this process's", {"w": [[2], [0, -1]]}, (1 - rank,)),
            ("'initial_rank' must be 0", {"w": [[2], [0, -1]]}, (rank, 1)),
            ("expected a layout", {"w": 3}, (rank,)),
            ("no parameter 'absent'", {"absent": [[2], [0, -1]]}, (rank,)),
        ):
            with pytest.raises(ValueError, match=said):
                parallel.parameter_broadcast(Two(rank), layouts, *ranks)

    run_ranks(2, refused)


def test_smaller_functions(tmp_path: Path) -> None:
    for i in range(2):
        write(str(tmp_path / f"{i}.ckpt"), {f"p{i}": np.float32([i])}, "ckpt")
    found = ms.load_segmented_checkpoints(str(tmp_path))
    assert {n: p.asnumpy().tolist() for n, p in found.items()} == {"p0": [0], "p1": [1]}
    group = tmp_path / "group.pb"
    group.write_bytes(field_of(2, number_of(1, 0) + number_of(1, 5)))
    assert ms.restore_group_info_list(str(group)) == [0, 5]
    for path, said in (("rel.json", "absolute"), (str(tmp_path / "a.txt"), "json")):
        with pytest.raises(KeyError, match=said):
            parallel.set_op_strategy_config("SAVE", path)
    with pytest.raises(KeyError, match="'SAVE' or 'LOAD'"):
        parallel.set_op_strategy_config("KEEP", str(tmp_path / "a.json"))


ASK = """
import json, os, sys
import numpy as np
import mindspore as ms
from mindspore import nn, Parameter, Tensor
folder = json.load(sys.stdin)
os.chdir(folder)
def shown(name):
    return {n: [list(l.dev_matrix[0].dim), list(l.tensor_map[0].dim), l.opt_weight_shard_step,
                l.opt_weight_shard_size] for n, l in ms.build_searched_strategy(name).items()}
ms.unified_safetensors("in", "s.ckpt", "theirs")
class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor(np.zeros((8, 12), np.float32)), name="w")
net = Net()
ms.load_distributed_checkpoint(net, format="safetensors", unified_safetensors_dir="ours")
group = ms.train.node_strategy_pb2.ParallelGroupMap()
group.ckpt_restore_rank_list.dim.extend([0, 4, 300])
open("group.pb", "wb").write(group.SerializeToString())
ms.merge_pipeline_strategys("stages", "merged.ckpt")
print(json.dumps([shown("s.ckpt"), shown("s.json"), net.w.asnumpy().tolist()]))
"""


@needs_oracle
def test_mindspore_reads_ours_and_we_read_its(tmp_path: Path) -> None:
    file = safetensors_of_four(tmp_path)
    strategies.write(str(tmp_path / "s.json"), strategy())
    for stage in range(2):
        strategies.write(str(tmp_path / "stages" / f"{stage}.ckpt"), strategy(stage))
    ms.unified_safetensors(str(tmp_path / "in"), file, str(tmp_path / "ours"))
    binary, text, weights = answer(run(ORACLE, ASK, given=str(tmp_path)))
    assert binary == text == {"w": [[2, 2], [1, -1], 1, 2]}
    assert weights == WHOLE.tolist()
    for name in ("part0", "hyper_param"):
        a, b = (read(str(tmp_path / who / f"{name}.safetensors"), "safetensors")
                for who in ("ours", "theirs"))
        assert {n: np.asarray(v).tolist() for n, v in a.items()} == \
            {n: np.asarray(v).tolist() for n, v in b.items()}
    assert ms.restore_group_info_list(str(tmp_path / "group.pb")) == [0, 4, 300]
    merged = strategies.by_parameter(strategies.read(str(tmp_path / "merged.ckpt"), "").layouts)
    assert merged["w"].stages == (0, 1) and merged["w"].cuts == LAYOUT.cuts
