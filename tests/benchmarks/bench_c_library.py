"""The size of LeNet as a C library, and the time from `dlopen` to its first result.

    python tests/benchmarks/bench_c_library.py [--processes 20]

Each process of a small C program loads the library once: the file is in the system's cache, as
after any first use. The limits are those of the project: 200 KB besides the weights, 5 ms.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import cellc as ms

sys.path.insert(0, str(Path(__file__).parents[2] / "samples"))
import lenet

MOST_BYTES, MOST_SECONDS = 200_000, 5e-3
PROGRAM = r"""
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>
#include "lenet.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    static float x[32 * 32], y[10];
    cellc_tensor in = {x, sizeof x, CELLC_FLOAT32, 4, {1, 1, 32, 32}};
    cellc_tensor out = {y, sizeof y, CELLC_ANY, 0, {0}};
    cellc_session *session;
    double start = now();
    void *file = dlopen(argv[argc - 1], RTLD_NOW);
    if (!file) return 1;
    cellc_get_library_function get = (cellc_get_library_function)dlsym(file, CELLC_GET_LIBRARY);
    const cellc_library *net = get(CELLC_ABI, NULL);
    if (net->create(net, NULL, &session, NULL)) return 2;
    if (net->run(session, 0, &in, 1, &out, 1, NULL)) return 3;
    double first = now();
    for (int i = 0; i < 2000; i++) net->run(session, 0, &in, 1, &out, 1, NULL);
    double rest = now();
    printf("%.9f %.9f\n", first - start, (rest - first) / 2000);
    return 0;
}
"""


def library(folder: Path) -> tuple[Path, int]:
    """LeNet as a shared library, and its bytes besides the weights."""
    ms.set_seed(0)
    net = lenet.LeNet5().set_train(False)
    path = folder / "liblenet.so"
    ms.compile_artifact(path, (net, "float32[1,1,32,32]"))
    weights = {p.name: p.asnumpy() for p in net.get_parameters()}
    return path, path.stat().st_size - sum(a.nbytes for a in weights.values())


def times(folder: Path, path: Path, processes: int) -> tuple[list[float], list[float]]:
    """Seconds to the first result and of a further call, of each process."""
    (folder / "start.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O2", f"-I{folder}", folder / "start.c", "-ldl", "-o", folder / "start"],
                   check=True)
    rows = [subprocess.run([folder / "start", path], check=True, capture_output=True).stdout.split()
            for _ in range(processes)]
    return [float(a) for a, _ in rows], [float(b) for _, b in rows]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        path, nbytes = library(Path(name))
        first, call = times(Path(name), path, options.processes)
    print(f"size besides weights: {nbytes / 1000:.0f} KB (at most {MOST_BYTES / 1000:.0f})")
    print(f"dlopen to first result: {1e3 * min(first):.2f} ms at best, "
          f"{1e3 * statistics.median(first):.2f} median (at most {1e3 * MOST_SECONDS:.0f})")
    print(f"a further call: {1e6 * min(call):.1f} us at best")
    assert np.isfinite(first).all() and nbytes <= MOST_BYTES
    assert statistics.median(first) <= MOST_SECONDS


if __name__ == "__main__":
    main()
