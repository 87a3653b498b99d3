"""Matmul kernels against numpy's BLAS and torch, one thread, interleaved in one process.

Run from the repository root with an environment that has llvmlite (and torch to compare with):

    OPENBLAS_NUM_THREADS=1 PYTHONPATH=compiler:runtime:tests/codegen \
        python tests/benchmarks/bench_gemm.py [name ...]

Prints the best time in microseconds, GFLOP/s and the ratios numpy / cellc and torch / cellc
(above 1: cellc is faster). `all` counts every step of the plan, `ahead` leaves out the packing
of B, which a program does once for constant weights. Options: `--avx2`, `--asm-time`.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import ctypes
import sys
import time
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from jit import compile_kernel, machine

from cellc_compiler.backends.cpu.kernels.gemm.product import MatmulSpec, matmul_kernels
from cellc_runtime.dtypes import float32
from cellc_runtime.target import AVX2, Target, host_target

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment,unused-ignore]
else:
    torch.set_num_threads(1)

Array = np.ndarray[Any, Any]


def square(n: int) -> MatmulSpec:
    """An n x n x n product."""
    return MatmulSpec(n, n, n, float32)


def heads(m: int, n: int, k: int, trans_b: bool) -> MatmulSpec:
    """Twelve matrices, as attention has."""
    return MatmulSpec(m, n, k, float32, (12,), (1,), (1,), trans_b=trans_b)


def mlp(m: int, n: int, k: int, trans_a: bool = False, trans_b: bool = False) -> MatmulSpec:
    """One product of a dense layer."""
    return MatmulSpec(m, n, k, float32, trans_a=trans_a, trans_b=trans_b)


CASES: dict[str, MatmulSpec] = {
    **{f"square{n}": square(n) for n in (64, 128, 256, 512, 1024)},
    "n3072": mlp(1024, 3072, 1024),
    "skinny1": mlp(1, 1024, 1024),
    "skinny1t": mlp(1, 1024, 1024, trans_b=True),
    "gemv": mlp(1024, 1, 1024),
    "gemvt": mlp(1024, 1, 1024, trans_a=True),
    "skinny4": mlp(4, 1024, 1024),
    "skinny4t": mlp(4, 1024, 1024, trans_b=True),
    "skinny16": mlp(16, 1024, 1024),
    "skinny16t": mlp(16, 1024, 1024, trans_b=True),
    "qk": heads(128, 128, 64, True),
    "pv": heads(128, 64, 128, False),
    "mlp784": mlp(128, 1024, 784, trans_b=True),
    "mlp784-dx": mlp(128, 784, 1024),
    "mlp784-dw": mlp(1024, 784, 128, trans_a=True),
    "mlp1024": mlp(128, 1024, 1024, trans_b=True),
    "mlp1024-dw": mlp(1024, 1024, 128, trans_a=True),
    "classes10": mlp(128, 10, 1024, trans_b=True),
}


def aligned(nbytes: int) -> Array:
    """Zeroed bytes at a 64-byte boundary."""
    raw = np.zeros(nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + nbytes]


def ours(spec: MatmulSpec, target: Target, a: Array, b: Array) -> tuple[list[Callable[[], None]],
                                                                       Array]:
    """One call per step of the plan, all its tasks in order; and the output."""
    plan = matmul_kernels(spec, target)
    bufs = {"a": a, "b": b}
    bufs["out"] = aligned(4 * spec.m * spec.n * int(np.prod(spec.batch)))
    bufs |= {role: aligned(size) for role, size in plan.scratch.items()}
    steps: list[Callable[[], None]] = []
    for kernel, roles in plan.steps:
        compiled = compile_kernel(kernel, target)
        table = (ctypes.c_void_p * len(roles))(*(bufs[r].ctypes.data for r in roles))
        address, entry, tasks = ctypes.addressof(table), compiled.entry, kernel.ntasks

        def call(e: Any = entry, at: int = address, n: int = tasks,
                 keep: Any = (compiled, table, bufs)) -> None:
            e(at, 0, n)

        steps.append(call)
    out = bufs["out"].view(np.float32).reshape(*spec.batch, spec.m, spec.n)
    return steps, out


def best(calls: dict[str, Callable[[], object]], budget: float) -> dict[str, float]:
    """The least time of each call over interleaved rounds, in seconds."""
    least = dict.fromkeys(calls, 1e9)
    repeat = {}
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        repeat[name] = max(1, round(2e-3 / max(time.perf_counter() - start, 1e-7)))
    end = time.perf_counter() + budget
    while time.perf_counter() < end:
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(repeat[name]):
                call()
            least[name] = min(least[name], (time.perf_counter() - start) / repeat[name])
    return least


def bench(name: str, spec: MatmulSpec, target: Target) -> None:
    """Measure one case and print its line."""
    rng = np.random.default_rng(0)
    lead = spec.batch
    a = rng.standard_normal((*lead, *((spec.k, spec.m) if spec.trans_a else (spec.m, spec.k))))
    b = rng.standard_normal((*lead, *((spec.n, spec.k) if spec.trans_b else (spec.k, spec.n))))
    a, b = a.astype(np.float32), b.astype(np.float32)
    x = a.swapaxes(-1, -2) if spec.trans_a else a
    y = b.swapaxes(-1, -2) if spec.trans_b else b
    steps, out = ours(spec, target, a, b)
    buffer = np.empty_like(out)
    calls: dict[str, Callable[[], object]] = {
        "all": lambda: [s() for s in steps],
        "ahead": steps[-1],
        "numpy": lambda: np.matmul(x, y, out=buffer),
    }
    if torch is not None:
        tx, ty, tout = torch.from_numpy(x), torch.from_numpy(y), torch.from_numpy(buffer)
        calls["torch"] = lambda: torch.matmul(tx, ty, out=tout)
    times = best(calls, 0.4)
    np.testing.assert_allclose(out, x @ y, 0, 1e-3)
    flops = 2.0 * spec.m * spec.n * spec.k * float(np.prod(lead))
    line = f"{name:12} {times['all'] * 1e6:9.1f} us {flops / times['all'] * 1e-9:7.1f} GF/s"
    line += f" ahead {flops / times['ahead'] * 1e-9:7.1f}"
    for peer in ("numpy", "torch"):
        if peer in times:
            ratios = times[peer] / times["all"], times[peer] / times["ahead"]
            line += f"  {peer} x{ratios[0]:.2f} ({ratios[1]:.2f})"
    print(line, flush=True)


def compile_time(name: str, spec: MatmulSpec, target: Target) -> None:
    """Print writing and code generation times of a case's kernels in milliseconds."""
    start = time.perf_counter()
    plan = matmul_kernels(spec, target)
    text = time.perf_counter() - start
    for kernel, roles in plan.steps:
        start = time.perf_counter()
        size = len(machine(target).emit_object(llvm.parse_assembly(kernel.code)))
        print(f"{name:12} {roles[-1]!s:10} text {text * 1e3:5.1f} code "
              f"{(time.perf_counter() - start) * 1e3:6.1f} ms, {size} bytes, {kernel.ntasks} tasks")


def main(args: list[str]) -> None:
    """Run the named cases, or all."""
    names = [a for a in args if not a.startswith("--")] or list(CASES)
    target = AVX2 if "--avx2" in args else host_target()
    for name in names:
        (compile_time if "--asm-time" in args else bench)(name, CASES[name], target)


if __name__ == "__main__":
    main(sys.argv[1:])
