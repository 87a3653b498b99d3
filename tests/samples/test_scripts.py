"""The sample scripts, run as a user runs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cellc as ms
import cellc_runtime
from cellc.cli import main as cellc

from .networks import SAMPLES


def script(name: str, folder: Path) -> str:
    """Run a sample in a folder; what it prints."""
    done = subprocess.run(
        [sys.executable, str(SAMPLES / name)], cwd=folder, capture_output=True, text=True,
        check=False, timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_digits(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    text = script("digits.py", tmp_path)
    accuracies = [float(a) for a in re.findall(r"test accuracy ([\d.]+)%", text)]
    assert accuracies[-1] >= 97.0
    assert "compiler modules loaded: none" in text
    assert "the same bits" in text
    assert re.search(r"forward: \d+ nodes agree", text)
    assert re.search(r"gradient: \d+ nodes agree", text)
    assert os.listdir(tmp_path) == ["out"]
    dumped = {p.suffix for p in (tmp_path / "out" / "dump").iterdir()}
    assert {".txt", ".dot"} <= dumped
    network = cellc_runtime.load(tmp_path / "out" / "digits.cellc", trust_native_code=True)
    logits = network(np.load(tmp_path / "out" / "images.npy"))
    assert np.array_equal(logits, np.load(tmp_path / "out" / "logits.npy"))


def test_lenet_alone(tmp_path: Path) -> None:
    text = script("lenet.py", tmp_path)
    losses = [float(x) for x in text.split("training losses ")[1].split(":")[0].split()]
    assert len(losses) == 5 and losses[-1] < losses[0]


def test_lenet_training_step_ahead_of_time(tmp_path: Path) -> None:
    """The command in lenet.py's docstring; the artifact then trains without the compiler."""
    path = tmp_path / "lenet.cellc"
    ms.set_seed(0)
    status = cellc([
        "compile", f"{SAMPLES / 'lenet.py'}:LeNet5", "--input", "x=float32[1,1,32,32]",
        "-o", str(path), "--train", "train_step", "--train-input", "x=float32[64,1,32,32]",
        "--train-input", "label=int32[64]",
    ])  # fmt: skip
    assert status == 0
    network = cellc_runtime.load(path, trust_native_code=True)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 1, 32, 32)).astype(np.float32)
    label = rng.integers(0, 10, 64).astype(np.int32)
    before = network(x[:1]).copy()
    losses = [float(network.call("train", x, label)) for _ in range(200)]
    assert losses[-1] < 0.8 * losses[0]
    assert not np.array_equal(network(x[:1]), before)
