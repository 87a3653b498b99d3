"""`cellc compile --weights KIND`, and 16-bit weights of networks under `to_float`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn
from cellc.cli import main
from cellc.cli.loading import load_network
from cellc_runtime import artifact, checkpoint

NETWORK = '''
from cellc import nn, ops


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(320, 128)
        self.conv = nn.Conv1d(128, 128, 3)
        self.body = nn.SequentialCell(nn.Dense(128, 384, activation="gelu"), nn.Dense(384, 128))
        self.head = nn.Dense(128, 320, has_bias=False)

    def construct(self, ids):
        x = self.body(self.tokens(ids))
        return self.head(ops.swapaxes(self.conv(ops.swapaxes(x, 1, 2)), 1, 2))


class Prints(nn.Cell):
    def construct(self, ids):
        return ids


def step(net):
    return net


def function(ids):
    return ids
'''
IDS = np.random.default_rng(0).integers(0, 300, (2, 9)).astype(np.int32)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(NETWORK)
    return path


def compiled(file: Path, *options: str, name: str = "Net") -> int:
    ms.set_seed(4)
    return main(["compile", f"{file}:{name}", "--input", "ids=int32[B,9]", *options])


@pytest.mark.parametrize("kind, times, options", [
    ("bfloat16", 2, {}), ("float16", 2, {}), ("int8", 4, {}),
    ("int4", 7, {"group_size": 64}),
    ("int4,group=32,asymmetric,skip=head", 3, {
        "group_size": 32, "symmetric": False, "skip": ["head"]}),
])
def test_artifacts_hold_small_weights(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str,
    times: int, options: dict[str, Any],
) -> None:
    """The file and the memory of a call fall with the weights; results are those of `quantize`."""
    plain, small = tmp_path / "plain.cellc", tmp_path / "small.cellc"
    assert compiled(file, "-o", str(plain)) == 0
    assert "weights as" not in capsys.readouterr().out
    assert compiled(file, "--weights", kind, "-o", str(small)) == 0
    said = capsys.readouterr().out
    assert f"weights as {kind.partition(',')[0]}: " in said
    assert ("as they were: head (Dense)" in said) == ("skip" in options)
    ms.set_seed(4)
    _, net = load_network(f"{file}:Net")
    net = ms.quantize(net.set_train(False), kind.partition(",")[0], **options)
    loaded = artifact.load(small, trust_native_code=True)
    assert loaded(IDS).tobytes() == net(ms.Tensor(IDS)).asnumpy().tobytes()
    assert {n: a.dtype for n, a in loaded.weights.items()} == {
        p.name: p.asnumpy().dtype for p in net.get_parameters()}
    whole = sum(a.nbytes for a in artifact.load(plain).weights.values())
    assert sum(a.nbytes for a in loaded.weights.values()) < 1.1 * whole / times
    saved = plain.stat().st_size - small.stat().st_size
    assert saved > 0.9 * whole * (1 - 1.1 / times)


def memory(text: str) -> int:
    found = re.search(r"memory of a call: (\d+) KiB", text)
    assert found is not None
    return int(found[1])


def test_calls_need_less_memory(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needed = []
    for options in ((), ("--weights", "bfloat16"), ("--weights", "int8"), ("--weights", "int4")):
        assert main(["compile", f"{file}:Net", "--input", "ids=int32[1,9]", *options, "-o",
                     str(tmp_path / "a.cellc")]) == 0
        needed.append(memory(capsys.readouterr().out))
    assert needed == sorted(needed, reverse=True) and needed[-1] < 0.45 * needed[0]


def test_such_artifacts_are_verified_dumped_and_run(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.cellc"
    assert compiled(file, "--weights", "int4", "-o", str(path)) == 0
    fixed = ["--input", "ids=int32[2,9]"]
    assert main(["verify", str(path), *fixed]) == 0
    assert "all agrees" in capsys.readouterr().out
    assert main(["dump", str(path), *fixed, "-o", str(tmp_path / "dump")]) == 0
    text = "".join(f.read_text() for f in sorted((tmp_path / "dump").glob("*.txt")))
    assert "dequantized_matmul(" in text and "uint8[5,64,64] param" in text
    assert main(["inspect", str(path), "-o", str(tmp_path / "page.html")]) == 0
    np.save(tmp_path / "ids.npy", IDS)
    assert main(["run", str(path), "--input", f"ids=@{tmp_path / 'ids.npy'}"]) == 0


def test_libraries_take_both(file: Path, tmp_path: Path) -> None:
    """A kind, and a file for the weights of a C library."""
    weights = tmp_path / "w.safetensors"
    assert main(["compile", f"{file}:Net", "--input", "ids=int32[2,9]", "--shared",
                 str(tmp_path / "liba.so"), "--weights", str(weights), "--weights", "int8"]) == 0
    assert checkpoint.load(weights)["head.panels"].dtype == np.int8


@pytest.mark.parametrize("options, text", [
    (["--weights", "int7"], "--weights int7: expected a kind of weights (bfloat16, float16, int8, "
                            "int4); a file of weights goes with --shared"),
    (["--weights", "int8", "--weights", "int4"], "--weights int4: --weights int8 is given too"),
    (["--weights", "int4,groop=64"], "--weights int4,groop=64: expected group=N, asymmetric or "
                                     "skip=LAYER after the kind, but got 'groop=64'"),
    (["--weights", "int4,group=40"], "'group_size' must be a multiple of 32"),
    (["--weights", "int4,skip=foot"], "'skip' must name layers of the network ('tokens', "
                                      "'conv', 'body.0', 'body.1', 'head'), but got 'foot'"),
    (["--weights", "int8", "--train", "step", "--train-input", "ids=int32[2,9]"],
     "--train step: small weights are not trained; take --weights int8 away"),
])
def test_bad_options(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], text: str
) -> None:
    assert compiled(file, *options, "-o", str(tmp_path / "a.cellc")) == 2
    assert text in capsys.readouterr().err
    assert not list(tmp_path.glob("*.cellc"))


def test_networks_without_such_layers(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "a.cellc")
    assert compiled(file, "--weights", "int8", "-o", path, name="Prints") == 2
    assert "must have a Dense, Linear, Embedding, MultiheadAttention" in capsys.readouterr().err
    assert compiled(file, "--weights", "int8", "-o", path, name="function") == 2
    assert "--weights with a kind of weight needs a Cell" in capsys.readouterr().err


# --- networks under `to_float` --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16])
def test_networks_of_16_bits_store_16_bits(tmp_path: Path, dtype: Any) -> None:
    ms.set_seed(4)
    net = nn.SequentialCell(nn.Dense(300, 400), nn.ReLU(), nn.Dense(400, 300)).set_train(False)
    x = np.random.default_rng(0).standard_normal((3, 300)).astype(np.float32)
    path = tmp_path / "a.cellc"
    wide = memory(ms.compile_artifact(path, (net, "float32[3,300]")))
    whole = path.stat().st_size
    net.to_float(dtype)
    less = memory(ms.compile_artifact(path, (net, "float32[3,300]")))
    loaded = artifact.load(path, trust_native_code=True)
    assert {a.dtype for a in loaded.weights.values()} == {dtype.numpy}
    assert loaded(x).tobytes() == net(ms.Tensor(x)).asnumpy().tobytes()
    assert path.stat().st_size < 0.55 * whole and less < 0.8 * wide


def test_weights_that_something_reads_in_32_bits_stay(tmp_path: Path) -> None:
    """A weight that another entry, a result or an update reads as it is is stored as it is."""
    dense = nn.Dense(30, 30).set_train(False)
    halved = nn.SequentialCell(dense).to_float(ms.float16)

    class Shows(nn.Cell):
        def construct(self, x: ms.Tensor) -> Any:
            return x + dense.bias, dense.weight

    path = tmp_path / "a.cellc"
    x = np.random.default_rng(0).standard_normal((3, 30)).astype(np.float32)
    shows = Shows()
    shows.dense = dense
    ms.compile_artifact(path, {"halved": (halved, "float32[3,30]"), "shows": (
        shows, "float32[3,30]")})
    loaded = artifact.load(path, trust_native_code=True)
    assert {a.dtype for a in loaded.weights.values()} == {np.dtype(np.float32)}
    assert loaded.call("halved", x).tobytes() == halved(ms.Tensor(x)).asnumpy().tobytes()
