"""A program in C that loads `libnet.so` by `dlopen`, calls it, and prints how long that took."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_PROGRAM = r"""
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "net.h"

INPUTS
static float y[OUTPUTS];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fill(const char *name, void *to, size_t bytes) {
    FILE *file = fopen(name, "rb");
    if (!file || fread(to, 1, bytes, file) != bytes) exit(4);
    fclose(file);
}

static int by_size(const void *a, const void *b) {
    double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

/* The peak of resident memory in MiB (ru_maxrss may be that before exec). */
static double peak(void) {
    char line[256];
    double found = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %lf", &found) == 1) break;
    return found / 1024;
}

int main(int argc, char **argv) {
    static double times[1000000];
    cellc_tensor in[] = {TENSORS};
    cellc_tensor out = {y, sizeof y, CELLC_ANY, 0, {0}};
    cellc_session *session;
    int count = 0;
    READS
    double start = now();
    void *file = dlopen("./libnet.so", RTLD_NOW);
    if (!file) return 1;
    cellc_get_library_function get = (cellc_get_library_function)dlsym(file, CELLC_GET_LIBRARY);
    const cellc_library *net = get(CELLC_ABI, NULL);
    if (net->create(net, NULL, &session, NULL)) return 2;
    double loaded = now();
    if (net->run(session, 0, in, COUNT, &out, 1, NULL)) return 3;
    double first = now(), end = first + atof(argv[argc - 1]);
    while (count == 0 || (now() < end && count < 1000000)) {
        double before = now();
        net->run(session, 0, in, COUNT, &out, 1, NULL);
        times[count++] = now() - before;
    }
    qsort(times, count, sizeof times[0], by_size);
    printf("%.9f %.9f %.9f %.3f\n", loaded - start, first - loaded, times[count / 2], peak());
    FILE *to = fopen("output", "wb");
    fwrite(y, 1, sizeof y, to);
    return fclose(to) != 0;
}
"""


def build(folder: Path, inputs: Sequence[Array], elements: int) -> None:
    """Build the program for the library of a folder, and write the inputs of its first entry.

    Args:
        folder: where `libnet.so` and `net.h` are.
        inputs: the arrays that each call gets.
        elements: of its one output, of float32.
    """
    names, tensors = [], []
    for i, array in enumerate(inputs):
        array.tofile(folder / f"input{i}")
        sizes = ", ".join(map(str, array.shape))
        names.append(f"static char x{i}[{array.nbytes}];")
        tensors.append(f"{{x{i}, sizeof x{i}, CELLC_{array.dtype.name.upper()}, {array.ndim}, "
                       f"{{{sizes}}}}}")
    text = _PROGRAM.replace("INPUTS", "\n".join(names)).replace("TENSORS", ", ".join(tensors))
    reads = "".join(f' fill("input{i}", x{i}, sizeof x{i});' for i in range(len(names)))
    text = text.replace("READS", reads).replace("OUTPUTS", str(elements)).replace(
        "COUNT", str(len(names)))
    (folder / "start.c").write_text(text)
    subprocess.run(["cc", "-O2", f"-I{folder}", folder / "start.c", "-ldl", "-o", folder / "start"],
                   check=True)


def call(folder: Path, seconds: float) -> tuple[dict[str, float], Array]:
    """Run the program once, with further calls for some seconds.

    Returns:
        Seconds to load, of the first call and the median of further ones, and the peak of memory in
        MiB; the output.
    """
    done = subprocess.run([folder / "start", str(seconds)], check=True, capture_output=True,
                          text=True, cwd=folder)
    found = map(float, done.stdout.split())
    return (dict(zip(("load", "first", "call", "memory"), found, strict=True)),
            np.fromfile(folder / "output", np.float32))
