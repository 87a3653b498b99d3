"""`cellc plan` against runs: data-parallel training on 1, 2 and 4 ranks of one thread each.

    python tests/benchmarks/plan.py [--ranks 1,2,4] [--steps 30] [--rounds 5]

measures the link of the ranks, profiles the step in one process, predicts the step on each number
of ranks, runs it there by mpirun, and prints both, round after round, since a machine is not as
fast at one moment as at another. The exit status is 1 where they differ by more than 25 % in the
median. Ranks beyond the processors share them: with 4 ranks on 2 processors kernels are predicted
at half their speed (`cellc plan --speed 0.5`).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

SAMPLES = Path(__file__).parents[2] / "samples"
ALLOWED = 0.25
ROWS, TOKENS, VOCABULARY = 8, 128, 512


def _measured(steps: int) -> None:
    """One rank of a run: the median of its steps, by the slowest rank."""
    sys.path.insert(0, str(SAMPLES))
    import gpt
    import numpy as np

    import cellc as ms
    from cellc.communication import comm_func, get_rank, init

    init()
    ms.set_seed(0)
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
    step = gpt.train_step(gpt.GPT(dropout=0.0))
    batch = gpt.make_batch(ROWS, TOKENS, VOCABULARY, get_rank())
    times = []
    for i in range(steps + 3):
        comm_func.barrier()
        start = time.perf_counter()
        step(*batch).asnumpy()
        if i >= 3:
            times.append(time.perf_counter() - start)
    own = ms.Tensor(np.float32([statistics.median(times)]))
    slowest = float(comm_func.all_reduce(own, "max")[0].asnumpy()[0])
    if get_rank() == 0:
        print(json.dumps({"seconds": slowest}))


def _predicted(ranks: list[int]) -> dict[int, float]:
    """Seconds of a step by number of ranks, from a profile in this process."""
    sys.path.insert(0, str(SAMPLES))
    import gpt

    from cellc.cli.planning import measured_link
    from cellc.compiled.traced import trace
    from cellc.nn.grad_reducer import BUCKET_BYTES
    from cellc.tools.planning import links, meshes, workload
    from cellc.tools.profiling import profile_traced

    step = gpt.train_step(gpt.GPT(dropout=0.0))
    batch = gpt.make_batch(ROWS, TOKENS, VOCABULARY)
    traced = trace(step, list(batch), {})
    profile = profile_traced(traced, traced.fed([t._snapshot() for t in batch]), 20)
    work = workload.from_profile(profile, traced, ROWS, BUCKET_BYTES)
    out = {}
    for count in ranks:
        link = measured_link(count) if count > 1 else "intra=1us:1GB/s"
        if count > 1:
            print(f"{count} ranks: {link}")
        speed = min(1.0, len(os.sched_getaffinity(0)) / count)
        plan = meshes.predict(work, meshes.Mesh(dp=count), links.parsed([link], None),
                              meshes.Options(speed=speed))
        out[count] = plan.seconds
    return out


def _run(count: int, steps: int) -> float:
    from cellc.cli.launching import mpi_command

    done = subprocess.run(
        [*mpi_command(count), sys.executable, __file__, "--rank", "--steps", str(steps)],
        capture_output=True, text=True, check=True,
        env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    return float(json.loads(done.stdout.splitlines()[-1])["seconds"])


def main() -> int:
    """Predict, run, compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank:
        _measured(args.steps)
        return 0
    os.environ["CELLC_NUM_THREADS"] = "1"
    ranks = [int(n) for n in args.ranks.split(",")]
    errors: dict[int, list[float]] = {count: [] for count in ranks}
    for _ in range(args.rounds):
        predicted = _predicted(ranks)
        for count in ranks:
            found = _run(count, args.steps)
            errors[count].append(predicted[count] / found - 1)
            print(f"{count} ranks: predicted {predicted[count] * 1e3:.2f} ms, measured "
                  f"{found * 1e3:.2f} ms, {errors[count][-1]:+.1%}", flush=True)
    middle = {count: statistics.median(found) for count, found in errors.items()}
    for count, error in middle.items():
        print(f"{count} ranks: {error:+.1%} in the median of {args.rounds} rounds")
    return int(any(abs(error) > ALLOWED for error in middle.values()))


if __name__ == "__main__":
    raise SystemExit(main())
