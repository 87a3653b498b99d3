"""The link between ranks of this machine, measured by the collectives that training uses.

    mpirun -n 2 python -m cellc.tools.planning.measuring

prints it as `--link` takes it; `cellc plan --measure-link` does that.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from cellc_runtime import collectives
from cellc_runtime.world import Step, world

from ...ranks import management
from .links import Link, rounds

_SMALL = 4
_LARGE = 1 << 20
"""Numbers in the tensors of which latency and bandwidth follow: 16 bytes, and a bucket of 4 MiB."""
_SECONDS = 1.0  # For each of the three measurements, at most


def measure() -> Link:
    """The link of the ranks of this world, the same on all of them: the slowest rank's."""
    here = world()
    if here.size == 1:
        raise RuntimeError("a link is between ranks: start 2 or more by mpirun")
    count, group = here.size, tuple(range(here.size))

    def reduce(x: np.ndarray[tuple[int], np.dtype[np.float32]]) -> Callable[[], object]:
        step = Step(collectives.described("all_reduce", x), group)
        out = np.empty_like(x)  # (a program's memory is there before)
        return lambda: collectives.in_order(
            lambda: collectives.all_reduce_into(step, x, out, "sum"), step.text)

    large = np.ones(_LARGE, np.float32)
    part = [np.ones(_LARGE // count, np.float32) for _ in group]
    small_time = _slowest(_seconds(reduce(np.ones(_SMALL, np.float32))))
    large_time = _slowest(_seconds(reduce(large)))
    adding_time = _slowest(_seconds(lambda: collectives.added(part, "sum")))
    latency = small_time / rounds(count)
    adding = (count - 1) * part[0].nbytes / adding_time
    # Two rounds of collectives, which move the bytes of a ring; see `links.all_reduce`.
    moving = max(large_time - 2 * small_time - adding_time, 0.1 * large_time)
    return Link(latency, 2 * (count - 1) / count * large.nbytes / moving, adding)


def _seconds(call: Callable[[], object]) -> float:
    """The median of calls, as many on all ranks."""
    for _ in range(3):
        call()
    start = time.perf_counter()
    call()
    once = _slowest(time.perf_counter() - start)
    times = []
    for _ in range(int(min(max(_SECONDS / once, 5), 200))):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _slowest(seconds: float) -> float:
    group = tuple(range(world().size))
    x = np.array([seconds])
    step = Step(collectives.described("all_reduce", x), group)
    return float(collectives.perform("all_reduce", step, x, reduction="max")[0])


def main() -> None:
    """Measure, and print it on the first rank."""
    management.init()
    link = measure()
    if world().rank == 0:
        print(f"intra={link}")
    management.release()


if __name__ == "__main__":
    main()
