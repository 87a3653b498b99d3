"""Products of few rows by weights in 32, 16, 8 and 4 bits: time, and bytes of weights a second.

Run from the repository root on a quiet machine:

    PYTHONPATH=frontend:compiler:runtime python tests/benchmarks/bench_small_weights.py [SECONDS]

A line for each shape, number of rows and kind of weight: the best time of interleaved rounds on one
and on all threads, GB/s of weights read, and float32's time over it. To compare with the bandwidth
of the machine: `python tests/benchmarks/peaks.py`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import cellc as ms
from cellc import nn

SHAPES = ((4096, 4096), (32000, 768))
KINDS: tuple[tuple[str, int], ...] = (
    ("float32", 0), ("bfloat16", 0), ("float16", 0), ("int8", 0), ("int8", 64), ("int4", 32),
    ("int4", 128))
ROWS = (1, 4, 128)


def networks(n: int, k: int) -> dict[str, tuple[Any, int]]:
    """A layer of each kind, by name, and the bytes of its weights."""
    found = {}
    for kind, group in KINDS:
        ms.set_seed(1)
        net: Any = nn.Dense(k, n, has_bias=False).set_train(False)
        if kind != "float32":
            net = ms.quantize(net, kind, group_size=group)  # type: ignore[arg-type]
        nbytes = sum(p.nbytes for p in net.get_parameters())
        found[f"{kind} {f'by {group}' * bool(group)}".strip()] = net, nbytes
    return found


def best(calls: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """The least time of each call over interleaved rounds, in seconds."""
    for call in calls.values():
        call()
    least, end = dict.fromkeys(calls, 1e9), time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            least[name] = min(least[name], time.perf_counter() - start)
    return least


def main() -> None:
    """See the module."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    ms.set_context(mode=ms.GRAPH_MODE)
    print(f"{'shape':>12} {'rows':>4} {'weights':14} {'threads':>7} {'us':>9} {'GB/s':>7} ratio")
    for n, k in SHAPES:
        layers = networks(n, k)
        for rows in ROWS:
            x = ms.Tensor(np.random.default_rng(0).standard_normal((rows, k)).astype(np.float32))
            for threads in dict.fromkeys((1, os.cpu_count() or 1)):
                ms.runtime.dispatch_threads_num(threads)
                times = best({name: lambda net=net, x=x: net(x)
                              for name, (net, _) in layers.items()}, seconds)
                for name, (_, nbytes) in layers.items():
                    t = times[name]
                    print(f"{n:>6}x{k:<5} {rows:>4} {name:14} {threads:>7} {t * 1e6:9.1f} "
                          f"{nbytes / t / 1e9:7.2f} {times['float32'] / t:5.2f}")


if __name__ == "__main__":
    main()
