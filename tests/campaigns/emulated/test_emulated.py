"""A part of `python -m tests.campaigns.emulated`: code for processors of other kinds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from cellc_compiler.ir.op import lookup
from cellc_runtime.target import TARGETS, host_target

from . import making
from .comparing import THREADS, compare, differences, grouped
from .machine import NAMES, Machine, Missing, machine

OPS = ("add", "erf", "matmul", "reduce_sum", "softmax", "sort", "random_normal")
"""Elementwise in all types, a polynomial, a kernel, rows, sums, a block, draws."""


def test_detection(emulated: Machine) -> None:
    """The processor is the emulated one, whatever `/proc/cpuinfo` says of the machine."""
    ran = emulated.run(["-c", "import json; from cellc_runtime.target import runnable_targets\n"
                        "print(json.dumps([t.name for t in runnable_targets()]))"])
    assert json.loads(ran.stdout) == [emulated.target], ran.stderr


def test_the_same_bits(emulated: Machine, tmp_path: Path) -> None:
    """Ops, kernels on one and three threads, inference and three training steps: artifacts for
    both give the same bits, through the native entry."""
    targets = [host_target(), TARGETS[emulated.target]]
    pieces = {"ops": list(making.op_pieces(map(lookup, OPS))), "pool": [making.pool_piece()],
              **{name: [piece] for name, piece in making.network_pieces(["mlp"])}}
    for name, made in pieces.items():
        assert making.write(tmp_path / f"{name}.cellc", made, targets) == []
    found = compare(tmp_path, emulated)
    assert (found.there, found.native) == (emulated.target, True)
    assert found.results > 500 and found.different == []
    with np.load(tmp_path / "there.npz") as arrays:
        names = [n for n in arrays if n.startswith("mlp-train|")]
        losses = [arrays[f"mlp-train|1|train/{k}/0"].tobytes() for k in range(3)]
        draws = {arrays[f"mlp-train|{n}|train/1/0"].tobytes() for n in THREADS}
    assert len(set(losses)) == 3 and len(draws) == 1
    assert any(n.startswith("mlp-train|1|weights/") for n in names)


def test_differences_are_told(tmp_path: Path) -> None:
    """One byte, a result that is missing, and where it belongs."""
    one = {"ops|1|add/0/0": np.arange(8, dtype=np.uint8), "ops|1|sub/0/0": np.zeros(4, np.uint8)}
    np.savez(tmp_path / "a.npz", **one)
    np.savez(tmp_path / "b.npz", **{"ops|1|add/0/0": np.arange(8, dtype=np.uint8) | 1})
    found = differences(tmp_path / "a.npz", tmp_path / "b.npz")
    assert found == ["ops|1|sub/0/0 is on one machine alone", "ops|1|add/0/0: 4 of 8 bytes"]
    assert grouped(found[1:]) == ["ops/add"]
    shutil.copy(tmp_path / "a.npz", tmp_path / "b.npz")
    assert differences(tmp_path / "a.npz", tmp_path / "b.npz") == []


def test_what_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    for name in NAMES:
        with pytest.raises(Missing, match="no QEMU"):
            machine(name, tmp_path)
