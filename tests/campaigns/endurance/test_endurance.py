"""A few seconds of the long runs of `tests.campaigns.endurance`, and checks that can fail."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

import cellc as ms
from cellc.compiled import entries
from cellc_runtime.executable import Executable

from .flat import KINDS, Measured, bytes_each, measured
from .killing import Ran, trained

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
COUNTS = {"calls": 10_000, "steps": 2_000, "cells": 40}
"""What takes a second or two; shapes are each compiled, see `test_many_shapes`."""


def test_killed_training_ends_the_same(tmp_path: Path) -> None:
    """Killed at random and resumed: the bytes of an undisturbed run, and nothing left over."""
    calm = trained(tmp_path / "calm", 800, 100)
    killed = trained(tmp_path / "killed", 800, 100, seed=5, longest=0.1)
    assert killed.result == calm.result and (calm.kills, calm.left) == (0, [])
    assert killed.kills > 0
    assert len(calm.resident) == 8
    again = trained(tmp_path / "calm", 900, 100)
    assert again.result != calm.result and len(again.resident) == 1


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE], ids=["graph", "pynative"])
@pytest.mark.parametrize("kind", COUNTS)
def test_memory_is_flat(kind: str, mode: int) -> None:
    """Repetitions leave nothing behind, but for what the allocator rounds."""
    found = list(measured(kind, mode, COUNTS[kind]))
    grown = found[-1].resident - found[len(found) // 2].resident
    assert grown < 1 << 20, [m.resident >> 10 for m in found]


def test_what_grows_is_seen() -> None:
    found = [Measured(i, 1000 + 16 * i) for i in range(0, 100, 10)]
    assert bytes_each(found) == 16
    assert Ran(b"", [m.resident for m in found]).growth() == found[-1].resident - found[2].resident


def test_many_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was compiled for shapes that do not come again goes with its code."""
    monkeypatch.setattr(entries, "_ENTRIES", 2)
    alive: list[weakref.ref[Executable]] = []
    made = Executable.__init__

    def noted(self: Executable, *args: Any) -> None:
        made(self, *args)
        alive.append(weakref.ref(self))

    monkeypatch.setattr(Executable, "__init__", noted)
    ms.set_context(mode=ms.GRAPH_MODE)
    do = KINDS["shapes"](ms.GRAPH_MODE)
    for i in range(12):
        do(i)
    gc.collect()
    assert len(alive) == 12
    assert sum(ref() is not None for ref in alive) <= 4, "the two used last, and two before"
