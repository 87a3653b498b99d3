"""What depth costs: seconds from a cold start to the first result of a deep transformer.

Run from the repository root with an environment that has cellc installed:

    python tests/benchmarks/bench_depth.py [depth ...] [--forward] [--train]

Each line is one network in a process of its own with a compile cache of its own, so nothing is
found that was compiled before: the GPT of `samples/` with layers of width 64, forward and as a
training step, of 24, 96 and 384 layers if no depths are given. `first` is the wall time of the
first call; `cpu` what this process computed meanwhile and `helpers` what the processes that
compile kernels did, which other programs on the machine disturb less. Then the stages: tracing
(with the gradient), passes, lowering and the rest (memory plan, the program around the kernels,
and what of LLVM the lowering did not hide); and the peak of the process in MiB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

DEPTHS = (24, 96, 384)
KINDS = ("forward", "train")
WIDTH, CONTEXT, VOCABULARY, ROWS = 64, 32, 256, 4
SAMPLES = Path(__file__).parents[2] / "samples"


def network(kind: str, depth: int) -> tuple[Any, tuple[Any, ...]]:
    """What is called, and with what."""
    sys.path.insert(0, str(SAMPLES))
    import gpt

    import cellc

    cellc.set_context(mode=cellc.GRAPH_MODE)
    net = gpt.GPT(VOCABULARY, CONTEXT, WIDTH, depth, dropout=0.0)
    if kind == "train":
        return gpt.train_step(net), gpt.make_batch(ROWS, CONTEXT, VOCABULARY)
    return net.set_train(False), gpt.make_input(ROWS, CONTEXT, VOCABULARY)


def measure(kind: str, depth: int) -> dict[str, float]:
    """The figures of the first call, in seconds and MiB."""
    import memory

    call, given = network(kind, depth)
    start, computed = time.perf_counter(), time.process_time()
    call(*given).asnumpy()
    first, computed = time.perf_counter() - start, time.process_time() - computed
    (entry,) = call._entries.entries.values()
    seconds = entry.report.seconds
    return {
        "first": first, "cpu": computed, "helpers": helpers(memory.descendants(os.getpid())),
        "tracing": first - seconds["total"], "passes": seconds["passes"],
        "lowering": seconds["lowering"], "rest": seconds["llvm"],
        "MiB": memory.highest(os.getpid()) or 0.0,
    }


def helpers(processes: list[int]) -> float:
    """Seconds that processes have computed; 0 for those that have ended."""
    ticks = 0
    for pid in processes:
        try:
            stat = (Path("/proc") / str(pid) / "stat").read_text(errors="replace")
        except OSError:
            continue
        ticks += sum(map(int, stat.rpartition(")")[2].split()[11:13]))  # user and system
    return ticks / os.sysconf("SC_CLK_TCK")


def fresh(kind: str, depth: int) -> dict[str, float]:
    """`measure` in a process and a cache of its own."""
    with tempfile.TemporaryDirectory() as cache:
        out = subprocess.run(
            [sys.executable, __file__, "--measure", kind, str(depth)], check=True,
            stdout=subprocess.PIPE, text=True, env={**os.environ, "CELLC_CACHE_DIR": cache},
        ).stdout
    found: dict[str, float] = json.loads(out.splitlines()[-1])
    return found


def main(args: list[str]) -> None:
    """Measure and print, a line per network."""
    if args[:1] == ["--measure"]:
        print(json.dumps(measure(args[1], int(args[2]))))
        return
    depths = [int(a) for a in args if not a.startswith("--")] or DEPTHS
    kinds = [k for k in KINDS if f"--{k}" in args] or KINDS
    for kind in kinds:
        for depth in depths:
            found = fresh(kind, depth)
            figures = "  ".join(f"{k} {v:.0f}" if k == "MiB" else f"{k} {v:.2f}"
                                for k, v in found.items())
            print(f"{kind:8}{depth:4} layers  {figures}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
