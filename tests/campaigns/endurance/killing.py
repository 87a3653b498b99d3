"""The same training twice, once undisturbed and once killed over and over: the same bits?"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .training import newest

PROGRAM = str(Path(__file__).with_name("training.py"))


@dataclass
class Ran:
    """What a training did.

    Attributes:
        result: the bytes of the last checkpoint.
        resident: bytes of memory after each epoch of the process that ended well.
        kills: how many processes were killed.
        within: how many of them before they had finished an epoch of their own.
        left: names of files that are no checkpoints.
        seconds: altogether.
    """

    result: bytes
    resident: list[int]
    kills: int = 0
    within: int = 0
    left: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def growth(self) -> int:
        """Bytes by which the process grew in the later three quarters of its epochs."""
        rest = self.resident[len(self.resident) // 4 :]
        return max(rest) - rest[0]


def trained(
    folder: Path, steps: int, every: int, seed: int | None = None,
    longest: float = 20.0,
) -> Ran:
    """Train to the end, killed by SIGKILL at times of a seed's random numbers.

    Args:
        longest: the longest time that a process has once it is ready, in seconds. Where one has
            come no further, the next has half as much again, however slow the machine is.

    Raises:
        RuntimeError: a process failed by itself.
    """
    rng = random.Random(seed)
    folder.mkdir(exist_ok=True)
    kills = within = 0
    start = time.monotonic()
    while True:
        process = subprocess.Popen(
            [sys.executable, PROGRAM, str(folder), str(steps), str(every)], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ})
        assert process.stdout is not None
        process.stdout.readline()
        try:
            out, err = process.communicate(
                timeout=None if seed is None else rng.uniform(0.0, longest))
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            out, _ = process.communicate()
            kills += 1
            if not out.strip():
                within += 1
                longest *= 1.5
    if process.returncode:
        raise RuntimeError(f"status {process.returncode}\n{err}")
    last = newest(folder)
    assert last is not None
    assert int(last.stem.removeprefix("at-")) * every == steps, last
    return Ran(last.read_bytes(), [int(line.split()[1]) for line in out.splitlines()], kills,
               within, sorted(_others(folder)), time.monotonic() - start)


def _others(folder: Path) -> Iterator[str]:
    return (p.name for p in folder.iterdir() if not p.match("at-*.ckpt"))
