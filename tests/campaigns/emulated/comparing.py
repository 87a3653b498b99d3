"""Artifacts played here and on an emulated machine, compared to the bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .machine import ROOT, SOURCES, Machine

PLAYER = str(Path(__file__).with_name("player.py"))
THREADS = ("1", "3")


@dataclass
class Compared:
    """What two machines gave.

    Attributes:
        results: how many arrays each gave.
        native: whether calls went through the native entry on the emulated machine.
        here, there: the targets whose code ran.
        different: the names of results that differ, with how many bytes do.
    """

    results: int
    native: bool
    here: str
    there: str
    different: list[str] = field(default_factory=list)


def compare(folder: Path, machine: Machine, seconds: float | None = None) -> Compared:
    """Play the artifacts of a folder on both.

    Raises:
        RuntimeError: an artifact could not be played; the text has the process's output.
    """
    outs = [folder / "here.npz", folder / "there.npz"]
    arguments = [[PLAYER, str(folder), str(out), *THREADS] for out in outs]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(SOURCES)}
    ran = [subprocess.run([sys.executable, *arguments[0]], cwd=ROOT, env=env, text=True,
                          capture_output=True, check=False),
           machine.run(arguments[1], seconds)]
    for process in ran:
        if process.returncode:
            raise RuntimeError(f"status {process.returncode}\n{process.stdout}{process.stderr}")
    here, there = (json.loads(process.stdout.splitlines()[-1]) for process in ran)
    return Compared(there["results"], there["native"], here["target"], there["target"],
                    differences(*outs))


def differences(a: Path, b: Path) -> list[str]:
    """The names of results that two files do not share, or that differ."""
    with np.load(a) as mine, np.load(b) as theirs:
        found = [f"{name} is on one machine alone" for name in set(mine) ^ set(theirs)]
        for name in sorted(set(mine) & set(theirs)):
            x, y = mine[name], theirs[name]
            if not np.array_equal(x, y):
                wrong = int((x != y).sum()) if x.shape == y.shape else max(x.size, y.size)
                found.append(f"{name}: {wrong} of {x.size} bytes")
    return found


def grouped(different: Sequence[str]) -> list[str]:
    """The artifacts and entries that results belong to, once each."""
    return sorted({"/".join(name.split("|")[::2][i].split("/")[0] for i in (0, 1))
                   if name.count("|") == 2 else name for name in different})
