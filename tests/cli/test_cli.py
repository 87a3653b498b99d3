"""The command line through subprocesses: every command, right and wrong usage."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cellc_runtime
from cellc import cli
from cellc.cli import commands as commands  # here, not among the modules that a test puts back
from cellc_runtime.files import write_texts
from cellc_runtime.target import NEON, host_target

NETWORK = '''
"""A network for the tests of the command line."""
import numpy as np
import cellc as ms
from cellc import Parameter, Tensor, ops
from cellc.nn.cell import Cell


class Net(Cell):
    def __init__(self):
        super().__init__()
        start = np.linspace(-1, 1, 12).reshape(4, 3).astype(np.float32)
        self.w = Parameter(Tensor(start), name="w")

    def construct(self, x):
        h = ops.tanh(ops.matmul(x, self.w))
        if h.sum() > 0:
            h = h * 2.0
        return h


class Step(Cell):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.grad = ms.value_and_grad(self.loss, None, net.trainable_params())

    def loss(self, x):
        return ops.square(self.net(x) - 1.0).mean()

    def construct(self, x):
        loss, grads = self.grad(x)
        ops.assign(self.net.w, self.net.w - 0.5 * grads[0])
        return loss


def train(net):
    return Step(net)


class Needs(Cell):
    def __init__(self, n):
        super().__init__()


class Wrong(Cell):
    def construct(self, x):
        a = undefined_name + x
        b = np.sum(x)
        return a + b


def double(x, y):
    return x * 2, y + 1


def factory():
    return Net()


def prints(x):
    print("sum", x.sum())
    return x
'''


def cellc(*args: str | Path, cwd: Path | None = None, code: int = 0) -> str:
    """Run `python -m cellc`; its standard output (and error output after it)."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "cellc", *map(str, args)], cwd=cwd,
        capture_output=True, text=True, timeout=120,
    )
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("cli") / "net.py"
    file.write_text(NETWORK)
    return file


@pytest.fixture(scope="module")
def artifact(net: Path) -> Path:
    out = net.parent / "net.cellc"
    text = cellc("compile", f"{net}:Net", "--input", "x=float32[2,4]", "--train", "train",
                 "-o", out)
    assert "infer" in text and "train" in text and f"wrote {out}" in text
    return out


def expected(x: np.ndarray) -> np.ndarray:
    """The network in numpy."""
    h = np.tanh(x @ np.linspace(-1, 1, 12).reshape(4, 3).astype(np.float32))
    return h * 2 if h.sum() > 0 else h


X = np.array([[0.5, -1, 2, 0.25], [1, 1, -0.5, 3]], np.float32)


def test_help_and_version() -> None:
    assert "COMMAND" in cellc("--help")
    assert host_target().name in cellc("--version")
    for said in ("Python 3.", "llvmlite ", "cache: "):
        assert said in cellc("--version", "--verbose")
    assert "COMMAND" in cellc(code=2)


def test_a_variable_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELLC_CACHE_SIZE", "lots")
    assert cellc("cache", code=2).startswith("cellc: CELLC_CACHE_SIZE='lots' is not a size;")
    for command in ("compile", "run"):
        assert "usage" in cellc(command, "--help")


def test_run_an_artifact(artifact: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    text = cellc("run", artifact, "--input", f"x=@{tmp_path / 'x.npy'}")
    assert "output 0: float32[2, 3]" in text
    cellc("run", artifact, "-i", f"x=@{tmp_path / 'x.npy'}", "-o", tmp_path / "y.npz")
    with np.load(tmp_path / "y.npz") as out:
        np.testing.assert_allclose(out["arr_0"], expected(X), rtol=1e-6)


def test_run_the_training_entry(artifact: Path, tmp_path: Path) -> None:
    assert "output 0: float32[]" in cellc("run", artifact, "--entry", "train", "--input",
                                          "x=float32[2,4]")


def test_the_runtime_alone_runs_an_artifact(artifact: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    program = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("cellc", "cellc_compiler", "llvmlite", "networkx", "rich",
                                  "ml_dtypes"):
            raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Blocked())
import numpy as np
import cellc_runtime
model = cellc_runtime.load({str(artifact)!r}, trust_native_code=True)
x = np.load({str(tmp_path / "x.npy")!r})
np.save({str(tmp_path / "y.npy")!r}, model(x))
losses = [float(model.call("train", x)) for _ in range(3)]
assert losses[2] < losses[0], losses
print(model.entries, model.signature())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected(X), rtol=1e-6)
    assert "('infer', 'train')" in done.stdout


def test_compile_for_another_machine(net: Path, tmp_path: Path) -> None:
    out = tmp_path / "arm.cellc"
    other = NEON.name if host_target() is not NEON else "x86_64-avx2"
    assert other in cellc("compile", f"{net}:Net", "-i", "x=float32[2,4]", "--target", other,
                          "-o", out)
    model = cellc_runtime.load(out, trust_native_code=True)
    assert model.targets() == (other,) and "matmul" in model.graph_text()
    with pytest.raises(cellc_runtime.ArtifactError, match=f"has code for {other}; this machine"):
        model(X)
    # The command line has a compiler at hand: it compiles the graph in the file for here.
    np.save(tmp_path / "x.npy", X)
    cellc("run", out, "-i", f"x=@{tmp_path / 'x.npy'}", "-o", tmp_path / "y.npz")
    with np.load(tmp_path / "y.npz") as given:
        np.testing.assert_allclose(given["arr_0"], expected(X), rtol=1e-6)


def test_compile_for_several_machines(net: Path, tmp_path: Path) -> None:
    out = tmp_path / "both.cellc"
    cellc("compile", f"{net}:Net", "-i", "x=float32[2,4]", "--target", NEON.name,
          "--target", "x86_64-avx2", "--target", "x86_64-avx2", "--target", host_target().name,
          "-o", out)
    model = cellc_runtime.load(out, trust_native_code=True)
    np.testing.assert_allclose(model(X), expected(X), rtol=1e-6)


def test_compile_with_a_checkpoint(net: Path, tmp_path: Path) -> None:
    from cellc_runtime import checkpoint

    checkpoint.save(tmp_path / "w.safetensors", {"w": np.zeros((4, 3), np.float32)})
    cellc("compile", f"{net}:Net", "-i", "x=float32[2,4]", "--checkpoint",
          tmp_path / "w.safetensors", "-o", tmp_path / "n.cellc")
    model = cellc_runtime.load(tmp_path / "n.cellc", trust_native_code=True)
    assert not np.asarray(model(X)).any()
    (tmp_path / "bad").write_bytes(b"not a checkpoint")
    assert "bad" in cellc("compile", f"{net}:Net", "-i", "x=float32[2,4]", "--checkpoint",
                          tmp_path / "bad", "-o", tmp_path / "m.cellc", code=2)
    checkpoint.save(tmp_path / "v", {"v": np.zeros(3, np.float32)})
    assert "no parameter 'w'" in cellc("compile", f"{net}:Net", "-i", "x=float32[2,4]",
                                       "--checkpoint", tmp_path / "v", "-o",
                                       tmp_path / "m.cellc", code=2)
    assert not (tmp_path / "m.cellc").exists()


def test_a_function_with_two_inputs(net: Path, tmp_path: Path) -> None:
    out = tmp_path / "f.cellc"
    cellc("compile", f"{net}:double", "-i", "x=int32[3]", "-i", "y=float64[]", "-o", out)
    x, y = cellc_runtime.load(out, trust_native_code=True)(
        np.arange(3, dtype=np.int32), np.asarray(1.5))
    np.testing.assert_array_equal(x, [0, 2, 4])
    assert y == 2.5
    text = cellc("run", out, "-i", "x=int32[3]", "-i", "y=float64[]")
    assert "output 1: float64[]" in text


def test_an_artifact_that_prints(net: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.cellc"
    cellc("compile", f"{net}:prints", "-i", "x=float32[3]", "-o", out)
    np.save(tmp_path / "x.npy", np.ones(3, np.float32))
    assert "sum 3" in cellc("run", out, "-i", f"x=@{tmp_path / 'x.npy'}")


def test_dump(net: Path, tmp_path: Path) -> None:
    out = tmp_path / "dump"
    cellc("dump", f"{net}:Net", "-i", "x=float32[2,4]", "--grad", "-o", out)
    names = sorted(p.name for p in out.iterdir())
    assert "00_traced.txt" in names and "nests.txt" in names and "grad_00_traced.txt" in names
    assert any("expand" in n for n in names) and any(n.endswith(".dot") for n in names)
    text = (out / "00_traced.txt").read_text()
    assert "matmul" in text and "net.py" in text
    assert (out / "00_traced.dot").read_text().startswith("digraph")


def test_a_dump_that_fails_writes_nothing(net: Path, tmp_path: Path) -> None:
    out = tmp_path / "dump"
    said = cellc("dump", f"{net}:Net", "-i", "x=float32[2,4]", "--recompute-budget", "1B",
                 "-o", out, code=2)
    assert "least" in said and not out.exists()


def test_a_dump_on_a_full_disk_leaves_the_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_texts(tmp_path, {"a": "old", "b": "old"})
    real, done = os.fsync, []

    def fsync(handle: int) -> None:
        done.append(handle)
        if len(done) == 2:
            raise OSError(28, "No space left on device")
        real(handle)

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fsync)
        with pytest.raises(OSError, match="No space left"):
            write_texts(tmp_path, {"a": "new", "b": "new", "c": "new"})
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a": "old", "b": "old"}


def test_verify(net: Path) -> None:
    text = cellc("verify", f"{net}:Net", "-i", "x=float32[2,4]", "--grad")
    assert "forward:" in text and "gradient:" in text and "nodes agree" in text and "ulps" in text
    assert text.endswith("all agrees\n")


def test_check(net: Path) -> None:
    assert "no errors" in cellc("check", f"{net}:Net", "-i", "x=float32[2,4]")
    text = cellc("check", f"{net}:Wrong", "-i", "x=float32[2,4]", code=1)
    assert "undefined_name" in text and "1 error\n" in text
    assert "numpy.sum() is run by Python" in text


def test_check_lists_what_python_does(tmp_path: Path) -> None:
    source = tmp_path / "python.py"
    source.write_text(
        "import numpy as np\nfrom cellc import Tensor, nn\n\n\nclass Net(nn.Cell):\n"
        "    def construct(self, x):\n        a = np.exp(x.asnumpy())\n"
        "        if float(a.max()) > 3:\n            print(a)\n        return x * len(a)\n")
    text = cellc("check", f"{source}:Net", "-i", "x=float32[2,4]")
    for line, what in ((7, "Tensor.asnumpy()"), (7, "numpy.exp()"), (8, "float()"),
                       (9, "print()"), (10, "len()")):
        assert f"python.py:{line}: {what} is run by Python in each call" in text
    assert "no errors" in text


def test_cache(tmp_path: Path, net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELLC_CACHE_DIR", str(tmp_path / "cache"))
    assert "0 entries" in cellc("cache")
    cellc("compile", f"{net}:double", "-i", "x=int32[3]", "-i", "y=float64[]", "-o",
          tmp_path / "f.cellc")
    shown = cellc("cache", "show")
    assert "0 entries" not in shown and "MiB" in shown
    assert "from the cache" in cellc("compile", f"{net}:double", "-i", "x=int32[3]", "-i",
                                     "y=float64[]", "-o", tmp_path / "f.cellc")
    assert "removed" in cellc("cache", "clear")
    assert "0 entries" in cellc("cache", "show")
    assert "choose from" in cellc("cache", "burn", code=2)


def test_explain() -> None:
    assert "tensor" in cellc("explain", "ce301")
    assert "CE101" in cellc("explain")
    assert "unknown code" in cellc("explain", "CE999", code=2)


# --- scripts -------------------------------------------------------------------------------------

SCRIPT = """
import sys
import numpy as np
import mindspore as ms
from mindspore import nn, ops, Tensor
import mindspore.ops.functional.arith
from mindspore.common.parameter import Parameter

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = ms.Parameter(Tensor(np.ones((3, 2), np.float32)), name="w")
    def construct(self, x):
        return ops.relu(ops.matmul(x, self.w))

ms.set_context(mode=ms.GRAPH_MODE)
print("result", Net()(Tensor(np.ones((1, 3), np.float32))).asnumpy().tolist())
print("arguments", sys.argv[1:], __name__, isinstance(Net().w, Parameter))
"""


def test_run_a_script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    text = cellc("run", tmp_path / "script.py", "--epochs", "3", "data")
    assert "result [[3.0, 3.0]]" in text
    assert "arguments ['--epochs', '3', 'data'] __main__ True" in text


def test_a_script_is_watched(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "import mindspore as ms\nfrom mindspore import ops\n"
        "x = ops.log(ms.Tensor([-1.0, 1.0]))\nprint('behind', x[1])\n")
    done = subprocess.run(
        [sys.executable, "-m", "cellc", "run", "--watch", "nan", str(tmp_path / "bad.py")],
        capture_output=True, text=True)
    assert done.returncode == 1 and "behind" not in done.stdout
    assert "NonFiniteError: log made NaN: 1 of 2 elements" in done.stderr
    assert 'bad.py", line 3' in done.stderr
    text = cellc("run", "--watch", "range", tmp_path / "bad.py")
    assert "behind" in text and "bad.py:3" in text and "2 tensors; 0 of them" in text
    assert "behind" in cellc("run", tmp_path / "bad.py")


def test_an_artifact_is_not_watched(tmp_path: Path) -> None:
    assert "--watch goes with a script" in cellc("run", "--watch", "nan", "net.cellc", code=2)


def test_a_script_beside_its_modules(tmp_path: Path) -> None:
    (tmp_path / "helper_beside.py").write_text("from mindspore import Tensor\nx = Tensor([1.0])\n")
    (tmp_path / "main.py").write_text("import helper_beside\nprint(helper_beside.x)\n")
    assert "[1.]" in cellc("run", tmp_path / "main.py", cwd=tmp_path.parent)


def test_a_script_that_exits_or_fails(tmp_path: Path) -> None:
    (tmp_path / "exits.py").write_text("import sys, mindspore\nsys.exit(7)\n")
    cellc("run", tmp_path / "exits.py", code=7)
    (tmp_path / "fails.py").write_text("import mindspore.nothing_like_it\n")
    done = subprocess.run([sys.executable, "-m", "cellc", "run", str(tmp_path / "fails.py")],
                          capture_output=True, text=True)
    assert done.returncode == 1
    assert "cellc provides no 'mindspore.nothing_like_it'" in done.stderr
    assert "fails.py" in done.stderr


# --- wrong usage ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("args", "message"), [
    (["frobnicate"], "invalid choice"),
    (["compile"], "required"),
    (["compile", "{net}:Net"], "--output"),
    (["compile", "{net}", "-o", "x"], "expected FILE.py:NAME"),
    (["compile", "nothing.py:Net", "-o", "x"], "no such file"),
    (["compile", "{net}:Nett", "-o", "x"], "has no 'Nett'; it has"),
    (["compile", "{net}:Needs", "-o", "x"], "cannot be made without arguments"),
    (["compile", "{net}:factory", "-i", "x=float32[2,4]", "-o", "x"], "write 'factory()'"),
    (["compile", "{net}:Net", "-i", "x=float31[2,4]", "-o", "x"], "float31"),
    (["compile", "{net}:Net", "-i", "float32[2,4]", "-o", "x"], "expected NAME="),
    (["compile", "{net}:Net", "-i", "x=float32[2,4", "-o", "x"], "expected a type"),
    (["compile", "{net}:Net", "-i", f"x=float32[{'1' * 9999}!]", "-o", "x"], "expected a type"),
    (["compile", "{net}:Net", "-i", f"x=float32[{'a1' * 9999}!]", "-o", "x"], "expected a type"),
    (["compile", "{net}:Net", "-i", f"x=float32[2]:{'.' * 9999}", "-o", "x"],
     "must be two floats"),
    (["compile", "{net}:Net", "-i", "x=float32[2,,4]", "-o", "x"], "expected a type"),
    (["compile", "{net}:Net", "-i", "x=@nothing.npy", "-o", "x"], "no such file"),
    (["compile", "{net}:Net", "-i", "x=@{net}", "-o", "x"], "not a numpy .npy file"),
    (["compile", "{net}:Net", "-i", "x=float32[2,5]", "-o", "x"], "CE602"),
    (["compile", "{net}:Net", "-o", "x"], "Net takes x: give a type, as in --input 'x=float32"),
    (["compile", "{net}:Net", "-i", "x=float32[2,4]", "-i", "y=float32[2,4]", "-o", "x"],
     "y: Net has no such input; it has x"),
    (["compile", "{net}:Wrong", "-i", "x=float32[2,4]", "-o", "x"], "undefined_name"),
    (["compile", "{net}:Net", "-i", "x=float32[2,4]", "--target", "z80", "-o", "x"],
     "unknown target 'z80'"),
    (["compile", "{net}:Net", "-i", "x=float32[2,4]", "--train", "nope", "-o", "x"],
     "--train nope: the file has no function 'nope'; expected"),
    (["compile", "{net}:Net", "-i", "x=float32[2,4]", "-o", "no/such/folder/x"],
     "cannot be written"),
    (["run", "nothing.py"], "no such file"),
    (["run", "nothing.cellc"], "nothing.cellc: No such file"),
    (["run", "{net}:Net"], "run takes an artifact or a script"),
    (["run", "{net.parent}"], "{net.parent}"),
    (["run", "{art}"], "For 'infer', the inputs must be x: float32[2, 4], but 'x' is missing."),
    (["run", "{art}", "-i", "y=float32[2,4]"],
     "For 'infer', the inputs must be x: float32[2, 4], but got 'y'."),
    (["run", "{art}", "-i", "x=float32[2,4]", "-i", "x=float32[2,4]"], "--input x: it is given"),
    (["run", "{art}", "-i", "x=float32[2,5]"],
     "For 'infer', 'x' must be float32[2, 4], but got float32[2, 5]."),
    (["run", "{art}", "-i", "x=float64[2,4]"],
     "For 'infer', 'x' must be float32[2, 4], but got float64[2, 4] with"),
    (["run", "{art}", "-i", "x=float32[2,4]", "--entry", "nope"], "infer, train"),
    (["run", "{art}", "--speed"], "unrecognized"),
    (["run", "{bad}"], "bad.cellc"),
    (["dump", "{net}:Net", "-i", "x=float32[2,4]", "-o", "{net}"], "{net}"),
    (["verify", "{net}:Wrong", "-i", "x=float32[2,4]"], "undefined_name"),
    (["check", "{net}:Nope"], "has no 'Nope'"),
])
def test_wrong_usage(
    args: list[str], message: str, net: Path, artifact: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], loaded_files: None,
) -> None:
    """In this process, to save time; the tests above see that a process ends as `main` says."""
    monkeypatch.chdir(tmp_path)
    bad = tmp_path / "bad.cellc"
    bad.write_bytes(artifact.read_bytes()[:-7])
    filled = [a.format(net=net, art=artifact, bad=bad) for a in args]
    try:
        code: object = cli.main(filled)
    except SystemExit as e:  # argparse leaves so
        code = e.code
    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "") and message.format(net=net) in shown.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.cellc"]


def test_a_file_that_does_not_load(tmp_path: Path) -> None:
    (tmp_path / "syntax.py").write_text("def f(:\n")
    text = cellc("check", f"{tmp_path / 'syntax.py'}:f", code=2)
    assert "syntax.py" in text and "line 1" in text
    (tmp_path / "raises.py").write_text("x = 1 / 0\n")
    text = cellc("check", f"{tmp_path / 'raises.py'}:f", code=2)
    assert "ZeroDivisionError" in text and "raises.py" in text and "line 1" in text


def test_a_closed_pipe_is_no_error(net: Path) -> None:
    done = subprocess.run(f"{sys.executable} -m cellc explain | head -1", shell=True,
                          capture_output=True, text=True)
    assert "CE001" in done.stdout and "Traceback" not in done.stderr and not done.stderr


def test_no_cache_directory_is_needed(net: Path, tmp_path: Path) -> None:
    """A cache that cannot be made slows nothing down but compilation."""
    (tmp_path / "file").write_text("")
    env = {**os.environ, "CELLC_CACHE_DIR": str(tmp_path / "file" / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "cellc", "verify", f"{net}:Net", "-i", "x=float32[2,4]"],
        env=env, capture_output=True, text=True)
    assert done.returncode == 0 and "nodes agree" in done.stdout, done.stderr


# --- files that import mindspore, and training steps ----------------------------------------------

MINDSPORE = """
import mindspore as ms
import mindspore.numpy as mnp
from mindspore import nn, ops


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4, 3)

    def construct(self, x):
        return mnp.tanh(self.dense(x))


class Step(nn.Cell):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.optimizer = nn.SGD(net.trainable_params(), 0.1)
        self.grad = ms.value_and_grad(self.loss, None, net.trainable_params())

    def loss(self, x, y):
        return ops.square(self.net(x) - y).mean()

    def construct(self, x, y):
        loss, grads = self.grad(x, y)
        self.optimizer(grads)
        return loss


def step(net):
    return Step(net)


def wrapped(net):
    return nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params()))


def loss(x, y):
    return ops.square(x - y).mean()


def tensor(net):
    return ops.ones(2)


def fails(net):
    return net.nothing()


a_loss = nn.MSELoss()
"""


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    file = tmp_path / "foreign.py"
    file.write_text(MINDSPORE)
    return file


@pytest.mark.parametrize(("command", "said"), [
    (["compile", "-o", "net.cellc", "--train", "step", "--train-input", "y=float32[2,3]",
      "--train-input", "x=float32[2,4]"], "wrote net.cellc"),
    (["dump", "-o", "dump"], "files to dump"),
    (["verify"], "agree"),
    (["check"], "no errors"),
    (["profile"], "a call"),
    (["export", "-o", "net.mindir"], "wrote net.mindir"),
])
def test_files_that_import_mindspore(command: list[str], said: str, foreign: Path) -> None:
    name, *options = command
    assert said in cellc(name, f"{foreign}:Net", "-i", "x=float32[2,4]", *options,
                         cwd=foreign.parent)


@pytest.mark.parametrize(("train", "inputs", "message"), [
    ("loss", [], "--train loss: it cannot be called with the network alone (missing a required"),
    ("tensor", [], "--train tensor: it returned a Tensor; expected a function that takes"),
    ("fails", [], "'Net' object has no attribute 'nothing'"),
    ("a_loss", [], "--train a_loss: it is a MSELoss; expected a function"),
    ("step", [], "of its step, Step takes y: give a type, as in --input"),
    ("step", ["x=float32[2,4]"], "Step takes y: give a type, as in --train-input"),
    ("step", ["x=float32[2,4]", "y=float32[2,3]", "z=int32[]"], "--train-input z: Step has no"),
    ("step", ["x=float32[2,4]", "y=float32[2,7]"], "for (float32[2,4], float32[2,7]): operands"),
    ("wrapped", ["x=float32[2,4]"], "construct() is missing 1 argument: 'label'"),
])
def test_wrong_training_steps(
    train: str, inputs: list[str], message: str, foreign: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    out = foreign.with_suffix(".cellc")
    given = [word for spec in inputs for word in ("--train-input", spec)]
    assert cli.main(["compile", f"{foreign}:Net", "-i", "x=float32[2,4]", "-o", str(out),
                     "--train", train, *given]) == 2
    assert message in capsys.readouterr().err and not out.exists()
