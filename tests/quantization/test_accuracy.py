"""The table of what small weights change in each layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn
from cellc.cli import main
from cellc.quantization.accuracy import compare


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Dense(64, 128, activation="relu")
        self.spiky = nn.Dense(128, 64)
        self.unused = nn.Dense(64, 64)
        array = self.spiky.weight.asnumpy().copy()
        array[:, 0] = 100  # an outlier in each row: the others of its group lose their digits
        self.spiky.weight.set_data(ms.Tensor(array))

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return self.spiky(self.wide(x) * self.mask())

    def mask(self) -> ms.Tensor:
        mask = np.ones(128, np.float32)
        mask[0] = 0
        return ms.Tensor(mask)


X = ms.Tensor(np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32))


def network() -> Any:
    ms.set_seed(1)
    return Net().set_train(False)


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_the_layer_that_loses_most_shows(mode: int) -> None:
    ms.set_context(mode=mode)
    net = network()
    want = net(X).asnumpy()
    found = compare(net, X, weights="int8")
    assert ms.get_context("mode") == mode
    ms.set_context(mode=ms.PYNATIVE_MODE)
    assert net(X).asnumpy().tobytes() == want.tobytes() and type(net.wide) is nn.Dense
    wide, spiky, unused = found.layers
    assert (wide.name, spiky.name, unused.name) == ("wide", "spiky", "unused")
    assert wide.own < 0.01 and spiky.own > 0.3 and np.isnan(unused.own)
    assert unused.whole == 0 and spiky.own == spiky.whole  # (it gives the network's result)
    assert (wide.before, wide.after) == (64 * 128 * 4 + 512, 64 * 128 + 2 * 128 + 512)
    assert all(s > 0 for s in (*wide.seconds, *spiky.seconds)) and unused.seconds == (0, 0)
    small = ms.quantize(network(), "int8")
    got = small(X).asnumpy()
    away = np.sqrt(np.mean((got - want.astype(np.float64)) ** 2) / np.mean(want**2))
    assert abs(found.whole - away) < 1e-6
    lines = str(found).splitlines()
    assert lines[0].split() == ["layer", "error", "of", "the", "network", "KiB", "small", "us",
                                "small"]
    assert lines[3].split()[:3] == ["unused", "not", "called"]
    assert lines[4].startswith("all of them") and f"{found.whole:.2e}" in lines[4]


def test_smaller_groups_and_skipped_layers() -> None:
    by_row, by_group = (compare(network(), X, weights="int8", group_size=g, skip="unused")
                        for g in (0, 32))
    assert len(by_group.layers) == 2 and by_group.layers[1].own < 0.7 * by_row.layers[1].own
    one = compare(nn.Dense(64, 8), X, weights="bfloat16")
    assert one.layers[0].own == one.whole > 0


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.py").write_text("from cellc import nn\nnet = nn.SequentialCell("
                                     "nn.Dense(64, 32), nn.ReLU(), nn.Dense(32, 8))\n")
    given = ["check", f"{tmp_path / 'net.py'}:net", "--input", "input_data=float32[2,64]",
             "--weights"]
    assert main([*given, "int4,group=32"]) == 0
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert rows == ["layer", "0", "2", "all"]
    for text, error in (("int5", "expected one of bfloat16, float16, int8, int4"),
                        ("int4,skip=1", "For 'compare', 'skip' must name layers of the network "
                                        "('0', '2'), but got '1'.")):
        assert main([*given, text]) == 2
        assert error in capsys.readouterr().err
