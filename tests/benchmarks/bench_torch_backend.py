"""The backend of torch.compile beside eager torch and inductor, in interleaved rounds.

    python tests/benchmarks/bench_torch_backend.py [--rounds N] [--batch N] [NAME ...]

The interpreter needs torch, torchvision, timm and transformers; inductor needs a C++ compiler (a
column is empty without one). Networks are those of `tests.torch_backend.networks`. In each round
all ways run once; the medians count. Prints milliseconds, the ratios eager / cellc and inductor /
cellc (more than 1: cellc is faster), and their geometric means.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.torch_backend.networks import networks

from cellc import torch_backend

WAYS = ("cellc", "eager", "inductor")


def ways_of(network: torch.nn.Module, x: Any) -> dict[str, Callable[[], Any]]:
    """Calls by the name of what computes; each has run once."""
    backends = {"cellc": torch_backend.compile_graph, "inductor": "inductor"}
    out: dict[str, Callable[[], Any]] = {"eager": lambda: network(x)}
    for name, backend in backends.items():
        torch._dynamo.reset()
        fn = torch.compile(network, backend=backend)
        try:
            fn(x)
        except Exception as e:
            print(f"  {name}: {type(e).__name__}: {str(e).partition(chr(10))[0]}", file=sys.stderr)
            continue
        out[name] = lambda fn=fn: fn(x)
    return out


def medians(ways: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Milliseconds of each way, which take turns."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, call in ways.items():
            start = time.perf_counter()
            call()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(found) for name, found in times.items()}


def main() -> None:
    """Time the networks that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--batch", type=int, default=1)
    options = parser.parse_args()
    ratios: dict[str, list[float]] = {"eager": [], "inductor": []}
    print(f"{'network':26}{''.join(f'{w:>12}' for w in WAYS)}{'eager/cellc':>14}{'ind./cellc':>12}")
    for name, made in networks():
        if options.names and name not in options.names:
            continue
        torch.manual_seed(0)
        network, (x, *_) = made()
        x = x[:1].repeat(options.batch, *(1,) * (x.dim() - 1))
        with torch.no_grad():
            found = medians(ways_of(network.eval(), x), options.rounds)
        row = f"{name:26}" + "".join(f"{found.get(w, math.nan):12.3f}" for w in WAYS)
        for way, width in (("eager", 14), ("inductor", 12)):
            ratio = found.get(way, math.nan) / found["cellc"] if "cellc" in found else math.nan
            ratios[way].append(ratio)
            row += f"{ratio:{width}.2f}"
        print(row, flush=True)
    for way, all_ in ratios.items():
        known = [r for r in all_ if r == r]
        if known:
            mean = math.exp(statistics.mean(map(math.log, known)))
            print(f"{way} / cellc: geometric mean {mean:.2f} of {len(known)}, worst "
                  f"{min(known):.2f}")


if __name__ == "__main__":
    main()
