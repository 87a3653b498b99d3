"""`cellc dump`: names that stay from stage to stage, stages that changed, nests, differences."""

from __future__ import annotations

import difflib
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from cellc import cli
from cellc_compiler.ir.text import parse_graph, print_graph
from cellc_compiler.ir.verify import verify

SAMPLES = Path(__file__).parents[2] / "samples"
GPT = [f"{SAMPLES / 'gpt.py'}:GPT(depth=1, width=32)", "-i", "tokens=int32[2,16]"]
LENET = [f"{SAMPLES / 'lenet.py'}:LeNet5", "-i", "x=float32[1,1,32,32]"]
STEP = ["-i", "labels=int32[1]", "--train", "train_step"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def dump(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> str:
    """What the command prints; it ends with this code."""
    assert cli.main(["dump", *args]) == code
    out, err = capsys.readouterr()
    return err if code else out


def changes(before: str, after: str) -> list[str]:
    """The lines of a plain diff."""
    return [line for line in difflib.ndiff(before.splitlines(), after.splitlines())
            if line[0] in "+-"]


def test_names_stay_where_nodes_stay(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump(capsys, *GPT, "-o", "d")
    texts = [p.read_text() for p in sorted((folder / "d").glob("[0-9]*.txt"))]
    plain = [print_graph(parse_graph(text)) for text in texts]
    named = sum(len(changes(*pair)) for pair in pairwise(texts))
    counted = sum(len(changes(*pair)) for pair in pairwise(plain))
    assert named * 3 < counted
    for text in texts:
        verify(parse_graph(text))


def test_a_result_that_stands_for_another_takes_its_name(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump(capsys, *GPT, "-o", "d")
    traced, expanded = ((folder / f"d/{name}.txt").read_text()
                        for name in ("00_traced", "03_expand"))
    line = next(x for x in traced.splitlines() if " softmax(" in x)
    name = line.split(":")[0]
    assert any(x.startswith(f"{name}: ") and " = div(" in x for x in expanded.splitlines())


def test_stages_without_change_are_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = dump(capsys, *GPT, "-o", "d")
    stages = sorted(p.stem for p in (folder / "d").glob("[0-9]*.txt"))
    texts = [(folder / f"d/{name}.txt").read_text() for name in stages]
    assert all(a != b for a, b in pairwise(texts))
    assert "03_expand" in stages and "04_complex-reductions" not in stages
    assert [line.split(":")[0] for line in said.splitlines()[:-1]] == stages[1:]
    assert "softmax → reduce_max, sub, normal_exp" in said


def test_nests_say_where_they_come_from(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump(capsys, *GPT, "-o", "d")
    nests = (folder / "d/nests.txt").read_text().split("\n\n")
    last = sorted((folder / "d").glob("[0-9]*.txt"))[-1].read_text()
    softmax = next(n for n in nests if "reduce_max" in n.splitlines()[0])
    place = next(x for x in softmax.splitlines() if "reduce_max" in x and x.startswith("  gpt.py:"))
    assert "in blocks.0.attention: " in place
    for item in place.partition(": ")[2].split(", "):
        name, op = item.split()
        assert any(f"{name}: " in x and f" = {op}(" in x for x in last.splitlines())
    stored = next(x for x in softmax.splitlines() if x.strip().startswith("%"))
    assert stored.strip().split("[")[0] in last


def test_each_node_is_listed_with_the_nests_that_compute_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "inlined.py").write_text(
        "from cellc import nn, ops\n\n\nclass Net(nn.Cell):\n    def construct(self, x):\n"
        "        y = x.swapaxes(0, 1)\n        return y * 2, ops.softmax(ops.exp(x), -1)\n")
    dump(capsys, "inlined.py:Net", "-i", "x=float32[8,16]", "-o", "d")
    nests = (folder / "d/nests.txt").read_text()
    assert re.search(r"\n  inlined: inlined\.py:6: %\d+ transpose\nnest ", nests)
    last = sorted((folder / "d").glob("[0-9]*.txt"))[-1].read_text()
    named = set(re.findall(r"(%\d+) (\w+)", nests.replace(",", "\n")))
    assert named == set(re.findall(r"(%\d+): \S+ = (\w+)\(", last)) - \
        set(re.findall(r"(%\d+): \S+ = (constant)\(", last))


def test_a_wrong_label_stands_where_the_step_is_made(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    step = [*LENET, "-i", "labels=float32[3,4]"]
    assert cli.main(["dump", *step, "--train", "train_step"]) == 2
    said = capsys.readouterr().err
    assert "labels must be ints" in said and "in train_step\n" in said
    assert "return nn.TrainOneStepCell(" in said and "wrap.py" not in said


@pytest.mark.parametrize(("pair", "expected"), [
    (("traced", "expand"), ["--- 00_traced", "+++ 03_expand", "-  %", "softmax", "reduce_max"]),
    (("numerics=strict", "numerics=fast"), ["--- numerics=strict", " = mul(", "- ", "+ "]),
    (("input=tokens=int32[2,16]", "input=tokens=int32[4,16]"), ["int32[2,16]", "int32[4,16]"]),
    ((GPT[0], GPT[0].replace("depth=1", "depth=2")), ["@blocks.1"]),
])
def test_differences(
    capsys: pytest.CaptureFixture[str], pair: tuple[str, str], expected: list[str]
) -> None:
    said = dump(capsys, *GPT, "--diff", *pair)
    assert all(part in said for part in expected) and "loc(" not in said
    assert not Path("cellc_dump").exists()


def test_differences_of_files_and_folders(capsys: pytest.CaptureFixture[str]) -> None:
    dump(capsys, *LENET, "-o", "a")
    dump(capsys, *LENET, "-o", "b")
    assert dump(capsys, "--diff", "a", "b") == "a and b: no difference\n"
    path = Path("b/00_traced.txt")
    path.write_text(path.read_text().replace("= relu(", "= tanh("))
    said = dump(capsys, "--diff", "a", "b")
    assert "--- a traced" in said and said.count("\n+  ") == said.count("= tanh(")
    assert said == dump(capsys, "--diff", "a/00_traced.txt", "b/00_traced.txt").replace(
        "a/00_traced.txt", "a traced").replace("b/00_traced.txt", "b traced")


def test_differences_are_coloured_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" not in dump(capsys, *LENET, "--diff", "traced", "layout")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert "\x1b[32m+  %" in dump(capsys, *LENET, "--diff", "traced", "layout")


@pytest.mark.parametrize(("args", "said"), [
    (["--diff", "traced", "expand"], "a network is expected"),
    ([], "a network is expected"),
    ([*LENET, "--diff", "traced", "nothing"], "no stage of this name changed something; there are "
     "00_traced, 11_layout"),
    ([*LENET, "--diff", "numeric=fast", "traced"], "has no option --numeric"),
    (["--diff", ".", "."], ".: no stages of a graph"),
])
def test_refused(capsys: pytest.CaptureFixture[str], args: list[str], said: str) -> None:
    assert said in dump(capsys, *args, code=2)


def test_a_training_step_is_dumped_and_checked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump(capsys, *LENET, *STEP, "-o", "d")
    text = (folder / "d/00_traced.txt").read_text()
    assert "  update %conv1.weight = " in text
    assert cli.main(["check", *LENET, *STEP]) == 0
    assert capsys.readouterr().out.endswith("no errors\n")
    assert cli.main(["check", *LENET, "-i", "labels=float32[3,4,5]", "--train", "train_step"]) == 1
    assert "error" in capsys.readouterr().out


def test_loops_and_branches_have_numbers_of_their_own(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nets = Path(__file__).parents[1] / "viewer" / "nets.py"
    dump(capsys, f"{nets}:Net", "-i", "x=float32[2,16]", "-i", "n=int64[]", "--grad", "-o", "d")
    stages = sorted((folder / "d").glob("*[0-9]_*.txt"))
    assert len(stages) > 6
    for path in stages:
        graph = parse_graph(path.read_text())
        verify(graph)
        if "traced" in path.name:
            assert print_graph(graph) == path.read_text()
