"""What the command line says where it cannot write, and of words that it does not know."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cellc import cli

NET = """\
import cellc as ms
from cellc import nn

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(4, 3)
    def construct(self, x):
        return self.fc(x)

def step(net):
    loss = nn.WithLossCell(net, nn.CrossEntropyLoss())
    return nn.TrainOneStepCell(loss, nn.SGD(net.trainable_params(), 0.1))
"""
X = "x=float32[2,4]"


def run(
    folder: Path, *args: str | bytes, status: int = 0, stdout: int = subprocess.PIPE, **env: str
) -> tuple[str, str]:
    """Standard output and error of a command in a folder."""
    done = subprocess.run(
        [sys.executable, "-m", "cellc", *args], cwd=folder, check=False, stdout=stdout,
        stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **env})
    out, err = (done.stdout or b"").decode(errors="replace"), done.stderr.decode(errors="replace")
    assert (done.returncode, "Traceback" in err) == (status, False), out + err
    return out, err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(NET)
    return tmp_path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an artifact that has a training step."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "net.py").write_text(NET)
    run(folder, "compile", "net.py:Net", "-i", X, "-o", "net.cellc", "--train", "step",
        "--train-input", "rows=float32[8,4]", "--train-input", "label=int32[8]")
    return folder


@pytest.mark.parametrize("command", [["explain"], ["run", "net.cellc", "-i", X]])
def test_a_full_disk_is_an_error_of_standard_output(trained: Path, command: list[str]) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        _, err = run(trained, *command, status=2, stdout=full)
    finally:
        os.close(full)
    assert err == "cellc: standard output: No space left on device\n"


@pytest.mark.parametrize("command", [
    ["explain"], ["run", "net.cellc", "-i", X], ["profile", "net.py:Net", "-i", X, "--runs", "1"],
    ["plan", "net.py:Net", "-i", "x=float32[8,4]", "-i", "label=int32[8]", "--train", "step",
     "--mesh", "dp=2", "--link", "intra=1us:10GB/s"],
    ["dump", "net.py:Net", "-i", X], ["check", "net.py:Net", "-i", X], ["cache"], ["--help"],
    ["verify", "net.py:Net", "-i", X], ["compile", "net.py:Net", "-i", X, "-o", "other.cellc"],
    ["inspect", "net.py:Net", "-i", X, "-o", "page.html"], ["completion", "bash"],
    ["bisect", "net.py:Net", "-i", X], ["export", "net.py:Net", "-i", X, "-o", "net.mindir"],
])
def test_the_reader_of_a_pipe_has_gone(trained: Path, command: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert run(trained, *command, stdout=writing)[1] == ""
    finally:
        os.close(writing)


def test_an_encoding_without_the_characters(folder: Path) -> None:
    (folder / "ünï").mkdir()
    (folder / "ünï" / "net.py").write_text(NET)
    wrong = "check", "ünï/net.py:Net", "-i", "x=float32[2,5]"
    assert "/?n?/net.py" in run(folder, *wrong, status=1, PYTHONIOENCODING="ascii")[0]
    assert "/ünï/net.py" in run(folder, *wrong, status=1, PYTHONIOENCODING="utf-8:strict")[0]


def test_a_file_name_that_is_not_utf8(folder: Path) -> None:
    name = os.fsencode(folder) + b"/net\xff.py"
    Path(os.fsdecode(name)).write_text(NET)
    out, _ = run(folder, "inspect", name + b":Net", "-i", X, "-o", b"page\xff.html",
                 PYTHONIOENCODING="utf-8:strict")
    assert out.startswith("wrote page")
    assert Path(os.fsdecode(os.fsencode(folder) + b"/page\xff.html")).stat().st_size > 50_000


@pytest.mark.parametrize(("words", "said"), [
    (["compil"], "did you mean compile?"),
    (["compile", "net.py:Net", "--inptu", X], "cellc compile: error: unrecognized arguments: "
     f"--inptu {X}; did you mean --input?"),
    (["profile", "net.py:Net", "--by", "cel"], "did you mean cell?"),
    (["completion"], "are required: shell\n"),
    (["run"], "are required: NET.cellc|SCRIPT.py\n"),
])
def test_words_that_are_not_there(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(words)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("words", "said"), [
    (["run", "net.cellc", "-i", X, "-o", "no/y.npz"],
     "no/y.npz: cannot be written (its folder does not exist, create it first)"),
    (["profile", "net.py:Net", "-i", X, "--csv", "no/p.csv"], "no/p.csv: cannot be written"),
    (["compile", "net.py:Net", "-i", X, "-o", "a.cellc", "--checkpoint", "./net.py"],
     "the checkpoint ./net.py cannot be loaded: it is a text (it claims"),
    (["compile", "net.py:Net", "-i", X, "-o", "a.cellc", "--train", "step"],
     "hint: if the step takes other inputs than the network, give them by --train-input"),
    (["run", "net.cellc", "-i", "x=@net.cellc"],
     "net.cellc: not a numpy .npy file (it holds no plain array)"),
    (["run", "net.cellc", "--entry", "train", "-i", "x=float32[8,4]", "-i", "label=int32[8]:0..2"],
     "the inputs must be rows: float32[8, 4] and label: int32[8], but got 'x'"),
    (["inspect", "net.cellc:nope"], "net.cellc has entries infer, train; not 'nope'"),
])
def test_the_file_at_fault_is_named(
    trained: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(trained)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert cli.main(words) == 2
    assert said in capsys.readouterr().err


def test_the_training_step_takes_inputs_by_the_names_of_its_options(trained: Path) -> None:
    out, _ = run(trained, "run", "net.cellc", "--entry", "train", "-i", "label=int32[8]:0..2",
                 "-i", "rows=float32[8,4]")
    assert out.startswith("output 0: float32[]\n")


def test_one_entry_is_inspected(trained: Path) -> None:
    run(trained, "inspect", "net.cellc", "-o", "all.html")
    run(trained, "inspect", "net.cellc:train", "-o", "one.html")
    assert '"name":"infer"' not in (trained / "one.html").read_text()
    assert (trained / "one.html").stat().st_size < (trained / "all.html").stat().st_size
