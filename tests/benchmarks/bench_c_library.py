"""The size of LeNet as a C library, and the time from `dlopen` to its first result.

    python tests/benchmarks/bench_c_library.py [--processes 20]

Each process of a small C program loads the library once: the file is in the system's cache, as
after any first use. The limits are those of the project: 200 KB besides the weights, 5 ms.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import c_program
import numpy as np

import cellc as ms

sys.path.insert(0, str(Path(__file__).parents[2] / "samples"))
import lenet

MOST_BYTES, MOST_SECONDS = 200_000, 5e-3
IMAGE = np.zeros((1, 1, 32, 32), np.float32)


def library(folder: Path) -> int:
    """Write LeNet as a shared library; its bytes besides the weights."""
    ms.set_seed(0)
    net = lenet.LeNet5().set_train(False)
    path = folder / "libnet.so"
    ms.compile_artifact(path, (net, "float32[1,1,32,32]"))
    weights = {p.name: p.asnumpy() for p in net.get_parameters()}
    return path.stat().st_size - sum(a.nbytes for a in weights.values())


def times(folder: Path, processes: int) -> tuple[list[float], list[float]]:
    """Seconds to the first result and of a further call, of each process."""
    c_program.build(folder, [IMAGE], 10)
    rows = [c_program.call(folder, 0.02)[0] for _ in range(processes)]
    return [r["load"] + r["first"] for r in rows], [r["call"] for r in rows]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        nbytes = library(Path(name))
        first, call = times(Path(name), options.processes)
    print(f"size besides weights: {nbytes / 1000:.0f} KB (at most {MOST_BYTES / 1000:.0f})")
    print(f"dlopen to first result: {1e3 * min(first):.2f} ms at best, "
          f"{1e3 * statistics.median(first):.2f} median (at most {1e3 * MOST_SECONDS:.0f})")
    print(f"a further call: {1e6 * min(call):.1f} us at best")
    assert np.isfinite(first).all() and nbytes <= MOST_BYTES
    assert statistics.median(first) <= MOST_SECONDS


if __name__ == "__main__":
    main()
