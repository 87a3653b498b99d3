"""`cellc export`, and `--checkpoint` of dump and verify."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cellc as ms
from cellc import cli

NETWORK = '''
import numpy as np
import cellc as ms
from cellc import nn, ops


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = ms.Parameter(np.ones((4, 3), np.float32), name="w")

    def construct(self, x):
        return ops.relu(ops.matmul(x, self.w))


class Says(Net):
    def construct(self, x):
        print("called")
        return ops.matmul(x, self.w)


class Gamma(nn.Cell):
    def construct(self, x):
        return ops.lgamma(x)


class Asks(nn.Cell):
    def construct(self, x):
        return x * 2 if x.shape[0] > 3 else x
'''


@pytest.fixture
def net(tmp_path: Path) -> str:
    (tmp_path / "net.py").write_text(NETWORK)
    weights = np.arange(12, dtype=np.float32).reshape(4, 3)
    given = [{"name": "w", "data": ms.Tensor(weights)}]
    ms.save_checkpoint(given, str(tmp_path / "w.ckpt"))
    ms.save_checkpoint(given, str(tmp_path / "w"), format="safetensors")
    return str(tmp_path / "net.py")


def run(*args: object) -> int:
    return cli.main([str(a) for a in args])


@pytest.mark.parametrize("weights", ["w.ckpt", "w.safetensors"])
def test_onnx(net: str, weights: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx = pytest.importorskip("onnx")
    out = tmp_path / "net.onnx"
    assert run("export", f"{net}:Says", "-i", "x=float32[N,4]", "-o", out, "--opset", 18,
               "--checkpoint", tmp_path / weights) == 0
    said = capsys.readouterr().out
    assert "op set 18, 1 weights" in said and "left out, since ONNX has none: print net.py:" in said
    model = onnx.load(out)
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"
    (w,) = model.graph.initializer
    assert w.name == "w"
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(w), np.arange(12).reshape(4, 3))


def test_portable(net: str, tmp_path: Path) -> None:
    out = tmp_path / "net.mindir"
    assert run("export", f"{net}:Net", "-i", "x=float32[2,4]", "-o", out) == 0
    again = ms.nn.GraphCell(ms.load(str(out)))
    np.testing.assert_array_equal(again(ms.Tensor(np.ones((2, 4), np.float32))).asnumpy(), 4)


def test_mindir_of_open_sizes(net: str, tmp_path: Path) -> None:
    out = tmp_path / "net.mindir"
    assert run("export", f"{net}:Net", "-i", "x=float32[N,4]", "-o", out) == 0
    again = ms.nn.GraphCell(ms.load(str(out)))
    for n in (2, 5):
        y = again(ms.Tensor(np.ones((n, 4), np.float32)))
        np.testing.assert_array_equal(y.asnumpy(), np.full((n, 3), 4))


@pytest.mark.parametrize(("name", "spec", "output", "more", "text"), [
    ("Net", "x=float32[2,4]", "net.pb", (), "expected a name that ends in .onnx, .mindir or .cir"),
    ("Net", "x=float32[2,4]", "net.onnx", ("--opset", "9"), "must be from 17 to 21, but got 9"),
    ("Net", "x=float32[2,4]", "net.mindir", ("--opset", "18"), "--opset goes with a .onnx file"),
    ("Net", "x=float32[N,4]", "net.cir", (), "the size N is open"),
    ("Asks", "x=float32[N]", "net.mindir", (), "asks about a size that is open"),
    ("Net", "x=float32[2,5]", "net.onnx", (), "matmul"),
    ("Gamma", "x=float32[2]", "net.onnx", (), "net.py:24: the op lgamma cannot be exported"),
    ("Asks", "x=float32[N]", "net.onnx", (), "asks about a size that is open"),
    ("Net", "x=float32[2,4]", "no/net.onnx", (), "cannot be written"),
    ("Net", "x=float32[2,4]", "net.onnx", ("--checkpoint", "none.ckpt"), "none.ckpt"),
])
def test_errors(
    name: str, spec: str, output: str, more: tuple[str, ...], text: str, net: str,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("onnx")
    assert run("export", f"{net}:{name}", "-i", spec, "-o", tmp_path / output, *more) == 2
    said = capsys.readouterr().err
    assert said.startswith("cellc: ") and text in said
    assert not (tmp_path / output).exists()


def test_dump_and_verify_take_a_checkpoint(
    net: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for weights in ("w.ckpt", "w.safetensors"):
        given = (f"{net}:Net", "-i", "x=float32[2,4]", "--checkpoint", tmp_path / weights)
        assert run("verify", *given) == 0
        assert "graph and eager to the bit" in capsys.readouterr().out
        assert run("dump", *given, "-o", tmp_path / "dump") == 0
    assert run("verify", f"{net}:Says", "-i", "x=float32[2,4]") == 0
    assert "called" not in capsys.readouterr().out  # compared, not shown
    (tmp_path / "bad.ckpt").write_bytes(b"\xff" * 40)
    assert run("verify", f"{net}:Net", "-i", "x=float32[2,4]", "--checkpoint",
               tmp_path / "bad.ckpt") == 2
    assert "bad.ckpt" in capsys.readouterr().err
