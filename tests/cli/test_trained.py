"""Artifacts that train: later calls see what a step wrote, and a saved one goes on where it was."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import cellc as ms
import cellc_runtime
from cellc.cli import main
from cellc.cli.loading import load_network
from cellc_runtime import Artifact

NETWORK = '''
import numpy as np
import cellc as ms
from cellc import nn, ops


class Net(nn.Cell):
    """Packed weights, moving averages, draws."""

    def __init__(self):
        super().__init__()
        ms.set_seed(3)
        self.conv = nn.Conv2d(2, 8, 3)
        self.bn = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(p=0.3)
        self.fc = nn.Dense(8, 40)

    def construct(self, x):
        return self.fc(self.drop(ops.relu(self.bn(self.conv(x))).mean((2, 3))))


def net():
    return Net().set_train(False)


net = net()


class Step(nn.Cell):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.opt = nn.Adam(net.trainable_params(), nn.ExponentialDecayLR(0.05, 0.9, 2))
        self.grad = ms.value_and_grad(self.loss, None, net.trainable_params())

    def loss(self, x, y):
        return ops.square(self.net(x) - y).mean()

    def construct(self, x, y):
        loss, grads = self.grad(x, y)
        self.opt(grads)
        return loss


def step(net):
    return Step(net).set_train()
'''

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 2, 6, 6)).astype(np.float32)
BATCHES = [(RNG.standard_normal((4, 2, 6, 6)).astype(np.float32),
            RNG.standard_normal((4, 40)).astype(np.float32)) for _ in range(6)]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("trained") / "trained_net.py"
    file.write_text(NETWORK)
    return file


@pytest.fixture(scope="module")
def path(source: Path) -> Path:
    out = source.with_suffix(".cellc")
    assert main(["compile", f"{source}:net", "-i", "x=float32[N,2,6,6]", "--train", "step",
                 "--train-input", "x=float32[4,2,6,6]", "--train-input", "y=float32[4,40]",
                 "-o", str(out)]) == 0
    return out


def load(path: Path) -> Artifact:
    return cellc_runtime.load(path, trust_native_code=True)


def train(model: Artifact, batches: list[tuple[np.ndarray, np.ndarray]]) -> list[np.ndarray]:
    return [model.call("train", x, y).copy() for x, y in batches]


def equal(a: Artifact, b: Artifact) -> None:
    assert a.weights.keys() == b.weights.keys()
    for name, w in a.weights.items():
        np.testing.assert_array_equal(w, b.weights[name], err_msg=name)


def test_inference_sees_what_a_step_wrote(path: Path) -> None:
    """Weights are packed when they are bound; a step writes them afterwards."""
    model = load(path)
    before = model(X)
    train(model, BATCHES[:2])
    after = model(X)
    assert (before != after).any()
    fresh = load(path)
    train(fresh, BATCHES[:2])  # its first inference comes behind the steps
    np.testing.assert_array_equal(after, fresh(X))
    train(model, BATCHES[2:3])
    train(fresh, BATCHES[2:3])
    np.testing.assert_array_equal(model(X), fresh(X))
    np.testing.assert_array_equal(model(X[:3]), fresh(X)[:3])


def test_what_nobody_writes_is_bound_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cellc_runtime.bound import BoundProgram

    model = load(path)
    model(X)
    train(model, BATCHES[:1])
    bound = []
    real = BoundProgram.bind
    monkeypatch.setattr(BoundProgram, "bind", lambda self: (bound.append(self), real(self)))
    train(model, BATCHES[1:3])
    assert not bound
    model(X), model(X)
    assert len(bound) == 1


def test_a_saved_artifact_goes_on(path: Path, tmp_path: Path) -> None:
    whole = load(path)
    losses = train(whole, BATCHES)
    assert len({float(v) for v in losses}) == len(losses)
    half = load(path)
    first = train(half, BATCHES[:3])
    saved = tmp_path / "half.cellc"
    half.save(saved)
    rest = train(load(saved), BATCHES[3:])
    np.testing.assert_array_equal([*first, *rest], losses)
    resumed = load(saved)
    np.testing.assert_array_equal(resumed(X), half(X))
    train(resumed, BATCHES[3:])
    equal(resumed, whole)
    np.testing.assert_array_equal(resumed(X), whole(X))
    assert resumed.graph_text("train") == whole.graph_text("train")
    resumed.save(saved)  # over the file that it has mapped
    equal(load(saved), whole)
    np.testing.assert_array_equal(load(path).weights["fc.weight"],
                                  cellc_runtime.load(path).weights["fc.weight"])


def test_it_trains_as_the_network_does(path: Path, source: Path) -> None:
    module, net = load_network(f"{source}:net")
    ms.set_context(mode=ms.GRAPH_MODE)
    step = module.step(net)
    want = [step(ms.Tensor(x), ms.Tensor(y)).asnumpy() for x, y in BATCHES]
    np.testing.assert_array_equal(train(load(path), BATCHES), want)


def test_a_save_that_fails_leaves_the_old_file(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(path)
    train(model, BATCHES[:1])
    target = tmp_path / "net.cellc"
    target.write_bytes(b"old")

    def fails(*args: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="disk full"):
        model.save(target)
    assert target.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1


def test_the_command_line_saves(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = load(path)
    for i, (x, y) in enumerate(BATCHES[:2]):
        np.save(tmp_path / f"x{i}.npy", x)
        np.save(tmp_path / f"y{i}.npy", y)
    now = path
    for i in range(2):
        out = tmp_path / f"{i}.cellc"
        assert main(["run", str(now), "--entry", "train", "-i", f"x=@{tmp_path}/x{i}.npy", "-i",
                     f"y=@{tmp_path}/y{i}.npy", "--save", str(out)]) == 0
        now = out
    assert f"wrote {now}" in capsys.readouterr().out
    train(model, BATCHES[:2])
    equal(load(now), model)
    assert main(["run", str(path), "-i", "x=float32[1,2,6,6]", "--save",
                 str(tmp_path / "no" / "folder")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_without_graphs(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "bare.cellc"
    assert main(["compile", f"{source}:net", "-i", "x=float32[2,2,6,6]", "--no-graph", "-o",
                 str(out)]) == 0
    model = load(out)
    assert not model.has_graph() and model(X[:2]).shape == (2, 40)
    with pytest.raises(cellc_runtime.ArtifactError, match="compiled with --no-graph"):
        model.graph_text()
    assert main(["run", str(out), "-i", "x=float32[2,2,6,6]"]) == 0
    model.save(tmp_path / "again.cellc")
    assert not load(tmp_path / "again.cellc").has_graph()
