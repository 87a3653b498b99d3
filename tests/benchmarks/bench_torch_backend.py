"""The backend of torch.compile beside eager torch and inductor, in interleaved rounds.

    python tests/benchmarks/bench_torch_backend.py --prepare    # compile everything once: minutes
    python tests/benchmarks/bench_torch_backend.py              # then time it on a quiet machine
    python tests/benchmarks/bench_torch_backend.py --table      # print what was timed

The interpreter needs torch, torchvision, timm and transformers; inductor needs a C++ compiler (a
column is empty without one). Networks are those of `tests.torch_backend.networks` that have a
figure in `networks.json`, or those that are named. In each round all ways run once, in another
order; the medians count. `--prepare` fills the caches of both compilers, on a machine of any load.

What was timed is written after each network, and not timed again: a run that ends after `--seconds`
goes on where it stopped. The table has milliseconds, the ratios eager / cellc and inductor / cellc
(more than 1: cellc is faster), and their geometric means.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.torch_backend.networks import FIGURES, networks

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
    """Milliseconds of each way; they take turns, and each begins as many rounds as the others."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    order = list(ways)
    for k in range(-2, rounds):  # (the first two warm up)
        for name in order:
            start = time.perf_counter()
            ways[name]()
            if k >= 0:
                times[name].append(1e3 * (time.perf_counter() - start))
        order = order[1:] + order[:1]
    return {name: statistics.median(found) for name, found in times.items()}


def measure(made: Callable[[], Any], batch: int, rounds: int) -> dict[str, float]:
    """Milliseconds of one network by way; nothing if it is only prepared."""
    torch.manual_seed(0)
    network, (x, *_) = made()
    x = x[:1].repeat(batch, *(1,) * (x.dim() - 1))
    with torch.no_grad():
        ways = ways_of(network.eval(), x)
        return medians(ways, rounds) if rounds else {}


def table(times: dict[str, dict[str, float]]) -> str:
    """The times as lines, with the geometric means."""
    lines = [f"{'network':26}{''.join(f'{w:>12}' for w in WAYS)}{'eager/cellc':>14}"
             f"{'ind./cellc':>12}"]
    ratios: dict[str, list[float]] = {"eager": [], "inductor": []}
    for name, found in sorted(times.items()):
        row = f"{name:26}" + "".join(f"{found.get(w, math.nan):12.3f}" for w in WAYS)
        for way, width in (("eager", 14), ("inductor", 12)):
            ratio = found.get(way, math.nan) / found.get("cellc", math.nan)
            ratios[way].append(ratio)
            row += f"{ratio:{width}.2f}"
        lines.append(row)
    for way, every in ratios.items():
        known = [r for r in every if r == r]
        if known:
            mean = math.exp(statistics.mean(map(math.log, known)))
            lines.append(f"{way} / cellc: geometric mean {mean:.2f} of {len(known)}, worst "
                         f"{min(known):.2f}")
    return "\n".join(lines)


def main() -> None:
    """Prepare or time the networks that are named, or all that have a figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--prepare", action="store_true", help="compile, and time nothing")
    parser.add_argument("--table", action="store_true", help="print what was timed")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=540, help="begin no network after these")
    parser.add_argument("--out", type=Path, default=Path("torch_backend_times.json"))
    options = parser.parse_args()
    logging.getLogger("cellc").setLevel(logging.ERROR)
    times: dict[str, dict[str, float]] = \
        json.loads(options.out.read_text()) if options.out.exists() else {}
    wanted = set(options.names or json.loads(FIGURES.read_text()))
    begun = time.monotonic()
    for name, made in () if options.table else networks():
        if name not in wanted or (name in times and not options.prepare):
            continue
        if time.monotonic() - begun > options.seconds and not options.prepare:
            print(f"{options.seconds:.0f} s are over; the next run goes on with {name}")
            break
        found = measure(made, options.batch, 0 if options.prepare else options.rounds)
        print(name, ", ".join(f"{w} {t:.3f} ms" for w, t in found.items()) or "prepared",
              f"({time.monotonic() - begun:.0f} s)", flush=True)
        if found:
            times[name] = found
            options.out.write_text(json.dumps(times, indent=1, sort_keys=True) + "\n")
    print(table(times))


if __name__ == "__main__":
    main()
