"""A process that makes trials: `python -m tests.campaigns.fuzz.worker KIND FIRST STEP COUNT`.

It tells the seed before each trial and what came of it after, a line of JSON each, so that
whoever reads knows which trial a crash or a hang belongs to.
"""

from __future__ import annotations

import gc
import json
import sys
import warnings
from importlib import import_module

_COLLECTED = 10
"""After so many trials garbage is collected, whose cycles hold compiled programs."""


def work(kind: str, first: int, step: int, count: int) -> None:
    """Make trials with seeds `first`, `first + step`, ..."""
    warnings.simplefilter("ignore")
    gc.disable()  # it takes a twentieth of the time
    trial = import_module(f"{__package__}.{kind}").trial
    for seed in range(first, first + step * count, step):
        print(json.dumps({"begin": seed}), flush=True)
        done = trial(seed)
        found = done.finding
        told = None if found is None else [found.what, found.case, found.suffix]
        print(json.dumps({"end": seed, "counts": dict(done.counts), "found": told}), flush=True)
        if seed == first:
            gc.freeze()  # what is imported stays, and need not be looked through
        if (seed - first) // step % _COLLECTED == 0:
            gc.collect()


if __name__ == "__main__":
    work(sys.argv[1], *map(int, sys.argv[2:]))
