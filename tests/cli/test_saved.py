"""Artifacts in the place of networks: dumped, verified, profiled, compiled for other machines."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import cellc_runtime
from cellc.cli import main
from cellc.cli.saved import graph_of
from cellc_compiler.ir.text import print_graph
from cellc_runtime import artifact, container
from cellc_runtime.target import NEON

NETWORK = '''
import numpy as np
import cellc as ms
from cellc import nn, ops


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = ms.Parameter(np.linspace(-1, 1, 32).reshape(4, 8).astype(np.float32), name="w")
        self.table = np.arange(12, dtype=np.float32).reshape(3, 4)

    def construct(self, ids, x):
        h = ops.matmul(x + ms.Tensor(self.table)[ids], self.w)
        if h.sum() > 0:
            h = h * 2.0
        return ops.softmax(h, -1), h


class Step(nn.Cell):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.opt = nn.Adam(net.trainable_params(), 0.1)
        self.grad = ms.value_and_grad(self.loss, None, net.trainable_params())

    def loss(self, ids, x):
        return ops.square(ops.dropout(self.net(ids, x)[1], 0.25)).mean()

    def construct(self, ids, x):
        loss, grads = self.grad(ids, x)
        self.opt(grads)
        return loss


def step(net):
    return Step(net)


class Says(nn.Cell):
    def construct(self, x):
        print("sum", x.sum())
        return x


class Attends(nn.Cell):
    def construct(self, x):
        return ops.matmul(ops.softmax(ops.matmul(x, x.swapaxes(1, 2)), -1), x)
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with artifacts of fixed and of open sizes."""
    there = tmp_path_factory.mktemp("saved")
    (there / "saved_nets.py").write_text(NETWORK)
    nets = there / "saved_nets.py"
    assert main(["compile", f"{nets}:Net", "-i", "ids=int32[2]", "-i", "x=float32[2,4]",
                 "--train", "step", "-o", str(there / "net.cellc")]) == 0
    assert main(["compile", f"{nets}:Attends", "-i", "x=float32[N,S,4]", "--sizes", "S=3,5", "-o",
                 str(there / "open.cellc")]) == 0
    assert main(["compile", f"{nets}:Attends", "-i", "x=float32[2,3,4]", "--no-graph", "-o",
                 str(there / "bare.cellc")]) == 0
    return there


Said = Callable[..., str]


@pytest.fixture
def cellc(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Said:
    """Run a command beside the artifacts; what it says."""
    monkeypatch.chdir(tmp_path)
    for file in [*folder.glob("*.cellc"), folder / "saved_nets.py"]:
        (tmp_path / file.name).symlink_to(file)

    def run(*args: str, code: int = 0) -> str:
        assert main(args) == code
        both = capsys.readouterr()
        return both.out + both.err

    return run


def test_dump(cellc: Said, folder: Path) -> None:
    assert "files to dump" in cellc("dump", "net.cellc", "-o", "dump")
    loaded = cellc_runtime.load(folder / "net.cellc")
    assert Path("dump/00_traced.txt").read_text() == loaded.graph_text()
    assert "saved_nets.py\":15" in Path("dump/00_traced.txt").read_text()
    assert Path("dump/nests.txt").stat().st_size
    cellc("dump", "net.cellc:train", "--grad", "-o", "train", code=0)
    assert Path("train/00_traced.txt").read_text() == loaded.graph_text("train")
    cellc("dump", "open.cellc", "-i", "x=float32[7,5,4]", "-o", "open")
    assert "float32[7,5,4]" in Path("open/00_traced.txt").read_text()


def test_verify(cellc: Said) -> None:
    said = cellc("verify", "net.cellc")
    assert "nodes agree" in said and "code: 2 outputs and 0 updated weights on " in said
    said = cellc("verify", "net.cellc:train")
    assert "nodes agree" in said and "are those of the graph, to the bit" in said
    assert "code: 1 output and 7 updated weights" in said
    for shape in ("1,3,4", "7,5,4", "70,3,4"):
        assert "code: 1 output and" in cellc("verify", "open.cellc", "-i", f"x=float32[{shape}]")
    assert "nodes agree" in cellc("verify", "net.cellc", "--grad")


def test_profile_and_check(cellc: Said) -> None:
    assert "matmul" in cellc("profile", "net.cellc", "--runs", "2")
    assert "a call" in cellc("profile", "net.cellc:train", "--runs", "2")
    assert "a call" in cellc("profile", "open.cellc", "-i", "x=float32[2,5,4]", "--runs", "2")
    assert "no errors" in cellc("check", "net.cellc")


def test_compile_for_another_machine(cellc: Said) -> None:
    cellc("compile", "net.cellc", "--target", NEON.name, "--target", "x86_64-avx2", "-o",
          "other.cellc")
    loaded = cellc_runtime.load("other.cellc")
    assert set(loaded.targets()) == {NEON.name, "x86_64-avx2"}
    np.testing.assert_array_equal(loaded.weights["w"], cellc_runtime.load("net.cellc").weights["w"])


def test_graphs(folder: Path) -> None:
    loaded = artifact.load(folder / "open.cellc")
    assert print_graph(graph_of(loaded, "infer")) == loaded.graph_text()
    assert "float32[N,S,4]" in loaded.graph_text()


@pytest.mark.parametrize(("args", "words"), [
    (["dump", "bare.cellc"], "cellc: bare.cellc holds no graph of entry 'infer': it was"),
    (["verify", "open.cellc", "-i", "y=float32[2,3,4]"], "open.cellc takes x=float32[N,S,4]: give "
     "each with --input (served: N any and S 3, 5)"),
    (["verify", "open.cellc", "-i", "x=float32[2,4,4]"], "no program serves N = 2, S = 4"),
    (["verify", "open.cellc", "-i", "x=float32[M,3,4]"], "give each with --input (served: N any"),
    (["verify", "open.cellc", "--sizes", "M=3"], "no input has a size M; open sizes: N, S"),
    (["compile", "open.cellc", "-i", "x=float32[N,3,4]", "-o", "x"],
     "give each --input with numbers"),
    (["compile", "saved_nets.py:Says", "-i", "x=float32[3]", "--no-graph", "-o", "x"],
     "--no-graph: the network prints at "),
    (["verify", "net.cellc", "-i", "x=float32[2,4]"], "takes ids=int32[2], x=float32[2,4]"),
    (["verify", "net.cellc:nope"], "has entries infer, train; not 'nope'"),
    (["profile", "net.cellc", "--train", "step"], "NET.cellc:train names an entry"),
    (["dump", "net.cellc", "--checkpoint", "x"], "an artifact has its weights"),
    (["dump", "nowhere.cellc"], "nowhere.cellc: No such file"),
])
def test_wrong_usage(args: list[str], words: str, cellc: Said) -> None:
    assert words in cellc(*args, code=2)


@pytest.mark.parametrize("args", [
    ("verify", "bad.cellc"), ("dump", "bad.cellc"), ("run", "bad.cellc"), ("inspect", "bad.cellc"),
    ("replay", "bad.cellc"), ("compile", "bad.cellc", "-o", "x.cellc")])
def test_a_damaged_file_is_named_once(args: tuple[str, ...], cellc: Said) -> None:
    Path("bad.cellc").write_text("none")
    said = cellc(*args, code=2)
    assert said.startswith("cellc: bad.cellc: this is not a cellc ")
    assert said.count("bad.cellc") == 1


def changed(source: Path, target: Path, section: str, change: Callable[[bytes], bytes]) -> None:
    """Write an artifact with another section."""
    box = artifact.unpack(source.read_bytes(), artifact.MAGIC, artifact.VERSION, "artifact")
    sections = [(n, change(bytes(d)) if n == section else bytes(d))
                for n, d in box.sections.items()]
    pieces = container.pack(artifact.MAGIC, artifact.VERSION, box.meta, sections)
    target.write_bytes(b"".join(pieces))


def test_code_that_is_not_that_of_the_graph(cellc: Said, folder: Path) -> None:
    text = cellc_runtime.load(folder / "net.cellc").graph_text()
    assert "softmax(" in text
    other = artifact.packed_text(text.replace("softmax(", "log_softmax("))
    changed(folder / "net.cellc", Path("lies.cellc"), "graph:infer:0", lambda data: other)
    said = cellc("verify", "lies.cellc", code=1)
    assert "code: output 0 of the code in the file differs from that of its graph" in said


@pytest.mark.parametrize(("change", "words"), [
    (lambda data: b"", "is cut short"),
    (lambda data: (1 << 40).to_bytes(8, "little") + data[8:], "is not as long as it says"),
    (lambda data: (10).to_bytes(8, "little") + data[8:], "is not as long as it says"),
    (lambda data: data[:-5], "is cut short"),
    (lambda data: data + b"x", "there is data after its end"),
    (lambda data: (1 << 27).to_bytes(8, "little") + zlib.compress(bytes(1 << 27)),
     "unpacks to more than 67108864 bytes and 64 times its size"),
    (lambda data: data[:8] + b"junk" * 9, "is not text"),
    (lambda data: artifact.packed_text("graph nonsense"), "is malformed"),
    (lambda data: artifact.packed_text("graph f(%y: float32[2] param) {\n  return %y\n}\n"),
     "the graph reads 'y', which is no weight"),
])
def test_damaged_graphs(
    change: Callable[[bytes], bytes], words: str, cellc: Said, folder: Path
) -> None:
    changed(folder / "net.cellc", Path("bad.cellc"), "graph:infer:0", change)
    said = cellc("dump", "bad.cellc", code=2)
    assert any(w in said for w in words.split("|")), said
