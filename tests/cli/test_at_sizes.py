"""Commands that look at a network, for types with open sizes (`float32[N,3]`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellc.cli import main
from cellc.core.later import open_sizes
from cellc_runtime.program import Program
from cellc_runtime.records import replace

NETWORK = '''
import cellc as ms
from cellc import nn, ops


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Dense(16, 8), nn.Dense(8, 4)

    def construct(self, x):
        h = ops.relu(self.first(x))
        return ops.softmax(self.last(h), -1) + h.mean()


def step(net):
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    return nn.TrainOneStepCell(nn.WithLossCell(net, loss), nn.SGD(net.trainable_params(), 0.1))


def piped(net):
    loss = nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    return nn.TrainOneStepCell(nn.PipelineCell(loss, 2), nn.SGD(net.trainable_params(), 0.1))


class Cut(Net):
    def __init__(self):
        super().__init__()
        self.first.pipeline_stage, self.last.pipeline_stage = 0, 1


class Counts(nn.Cell):
    def construct(self, x):
        return x * len(range(x.shape[0]))


class Picture(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3)

    def construct(self, x):
        if x.shape[2] > 20:
            return self.layer(x).sum((2, 3))
        return self.layer(x).mean((2, 3))


class Wrong(nn.Cell):
    def construct(self, x):
        return ops.matmul(x, x.new_ones((3, 4)))
'''
TYPE = ["--input", "x=float32[N,16]"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the networks, the working directory."""
    (tmp_path / "nets.py").write_text(NETWORK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_dump(folder: Path) -> None:
    assert main(["dump", "nets.py:Net", *TYPE, "--grad"]) == 0
    dumped = folder / "cellc_dump"
    assert "x: float32[N,16] input" in (dumped / "00_traced.txt").read_text()
    assert "float32[N,16]" in (dumped / "grad_00_traced.txt").read_text()
    assert "rows(r0<N)" in (dumped / "nests.txt").read_text()
    assert (dumped / "sizes.txt").read_text().startswith("N >= 2\n")


def test_a_dump_of_sizes_that_need_programs_of_their_own(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dump", "nets.py:Counts", *TYPE, "--sizes", "N=24"]) == 0
    assert "the program for N = 24 alone: " in capsys.readouterr().out
    assert "float32[24,16]" in (folder / "cellc_dump/00_traced.txt").read_text()


def test_inspect_a_dump(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", "nets.py:Net", *TYPE]) == 0
    assert main(["inspect", "cellc_dump", "--sizes", "N=5"]) == 0
    page = (folder / "report.html").read_text()
    assert "shown for N = 5." in page


@pytest.mark.parametrize(("options", "size"), [([], 8), (["--sizes", "N=31"], 31)])
def test_inspect(folder: Path, options: list[str], size: int) -> None:
    assert main(["inspect", "nets.py:Net", *TYPE, *options, "--values", "--profile"]) == 0
    assert f"shown for N = {size}." in (folder / "report.html").read_text()


def test_profile(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "nets.py:Net", *TYPE, "--sizes", "N=100"]) == 0
    out = capsys.readouterr().out
    assert "the program for all sizes, for N = 100" in out
    assert "relu 3.1 KiB" in out  # 100 * 8 * 4 bytes


def test_profile_of_a_training_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "nets.py:Net", "--train", "step", "--input", "data=float32[N,16]",
                 "--input", "label=int32[N]:0..3"]) == 0
    assert "the program for all sizes, for N = 8" in capsys.readouterr().out


def test_profile_of_a_size_that_is_needed_as_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "nets.py:Counts", *TYPE]) == 0
    assert "the program for N = 8 alone: the network needs a size as a number (nets.py:34" in \
        capsys.readouterr().out.replace(str(Path.cwd()) + "/", "")


@pytest.mark.parametrize(("options", "sizes"), [([], (2, 3)), (["--sizes", "N=1,2,50"], (2, 50))])
def test_verify(
    capsys: pytest.CaptureFixture[str], options: list[str], sizes: tuple[int, ...]
) -> None:
    assert main(["verify", "nets.py:Net", *TYPE, *options]) == 0
    out = capsys.readouterr().out
    for size in sizes:
        assert f"note: program for all sizes, N = {size}: its outputs are those of the" in out
    assert out.count("program for all sizes") == len(sizes)


def test_verify_finds_other_bits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = open_sizes.compile_open

    def wrong(*args: object) -> Program:
        """A program whose table of sizes holds one number too many by one."""
        program = right(*args)  # type: ignore[arg-type]
        assert program.open is not None
        scalars = tuple((at, dtype, ("+", x, 1)) for at, dtype, x in program.open.scalars)
        assert scalars
        return replace(program, open=replace(program.open, scalars=scalars))

    monkeypatch.setattr(open_sizes, "compile_open", wrong)
    assert main(["verify", "nets.py:Net", *TYPE]) == 1
    assert "is not that of the program for these sizes" in capsys.readouterr().out


def test_verify_a_training_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "nets.py:Net", *TYPE, "--train", "step", "--train-input",
                 "data=float32[N,16]", "--train-input", "label=int32[N]:0..3"]) == 0
    assert "train: PyNative and compiled agree" in capsys.readouterr().out


def test_bisect(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bisect", "nets.py:Net", *TYPE, "--sizes", "N=3"]) == 0
    assert "nothing is wrong" in capsys.readouterr().out


def test_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "nets.py:Net", *TYPE]) == 0
    assert "sizes are open; this holds for all of them\nno errors" in capsys.readouterr().out
    assert main(["check", "nets.py:Picture", "--input", "x=float32[N,3,H,9]"]) == 0
    assert "sizes are open; this holds where\n  " in capsys.readouterr().out
    assert main(["check", "nets.py:Wrong", *TYPE]) == 1
    assert "float32[N,16]" in capsys.readouterr().out


def test_an_artifact(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also one of listed sizes, whose graph has open sizes that only their values decide."""
    assert main(["compile", "nets.py:Net", *TYPE, "-o", "net.cellc"]) == 0
    assert main(["compile", "nets.py:Picture", "--input", "x=float32[N,3,H,16]", "--sizes",
                 "H=16,32", "-o", "picture.cellc"]) == 0
    for name, at in ("net", "N = 8"), ("picture", "N = 8, H = 16"):
        capsys.readouterr()
        assert main(["profile", f"{name}.cellc"]) == 0
        assert main(["dump", f"{name}.cellc"]) == 0
        assert capsys.readouterr().out.count(f"for {at}\n") == 2
        assert main(["inspect", f"{name}.cellc", "--sizes", "N=3"]) == 0
        assert f"shown for {at.replace('8', '3')}." in (folder / "report.html").read_text()
        assert main(["verify", f"{name}.cellc", "--sizes", "N=1,5"]) == 0
        assert capsys.readouterr().out.count("are those of the graph, to the bit") == 2


def test_inspected_inputs_choose_a_served_size(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", "nets.py:Picture", "--input", "x=float32[N,3,H,16]", "--sizes",
                 "N=1,2", "--sizes", "H=16,32", "-o", "picture.cellc"]) == 0
    values = ["inspect", "picture.cellc", "--values", "--input"]
    assert main([*values, "x=float32[2,3,32,16]"]) == 0
    assert "shown for N = 2, H = 32." in (folder / "report.html").read_text()
    assert main([*values, "x=float32[N,3,16,16]", "--sizes", "N=1"]) == 0
    assert "shown for N = 1, H = 16." in (folder / "report.html").read_text()
    assert main([*values, "x=float32[2,3,20,16]"]) == 2
    assert "no program serves N = 2, H = 20; served: N 1, 2 and H 16, 32" in capsys.readouterr().err


STEP_INPUTS = ["--input", "data=float32[N,16]", "--input", "label=int32[N]:0..3"]


@pytest.mark.parametrize(("options", "size"), [([], 8), (["--sizes", "N=6"], 6)])
def test_stages(
    options: list[str], size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["stages", "nets.py:Cut", "--train", "piped", "--stages", "2"]
    assert main([*asked, *STEP_INPUTS, *options]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"for N = {size}\n")
    assert main([*asked, *[i.replace("[N", f"[{size}") for i in STEP_INPUTS]]) == 0
    assert capsys.readouterr().out == told.partition("\n")[2]


def test_plan(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", "nets.py:Net", "--train", "step", "--mesh", "dp=2", "--runs", "1", "--link",
             "intra=5us:300GB/s,inter=10us:25GB/s"]
    assert main([*asked, *STEP_INPUTS, "--sizes", "N=6"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("for N = 6\n") and "6 rows in" in told
