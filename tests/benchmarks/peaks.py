"""What the machine can do: multiply-adds a second and bytes a second, by loops of our own.

    python tests/benchmarks/peaks.py

prints JSON: GFLOP/s of independent chains of vector FMAs in registers, and GB/s of reading, copying
and a triad (stores around the cache) over arrays as large as those of the workloads, with one
thread and with as many as the benchmark uses. The best of several repetitions counts.
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading
import time
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np

ARRAY = 1 << 24  # float32 elements: 64 MiB
TRIPS = 1 << 22  # of the FMA loop
REPEATS = 7

LOOP = """
define i64 @{name}(ptr %a, ptr %b, ptr %c, i64 %n) nounwind {{
entry:
{prepare}
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
{body}
  %next = add i64 %i, {step}
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
{after}
  ret i64 %next
}}
"""


def _fma(lanes: int, chains: int) -> str:
    t = f"<{lanes} x float>"
    body = [f"  %s{i} = phi {t} [zeroinitializer, %entry], [%r{i}, %loop]" for i in range(chains)]
    body += [f"  %r{i} = call {t} @llvm.fma.v{lanes}f32({t} %s{i}, {t} %x, {t} %y)"
             for i in range(chains)]
    after = [f"  %p{i} = getelementptr {t}, ptr %c, i64 {i}\n  store {t} %r{i}, ptr %p{i}, align 4"
             for i in range(chains)]
    prepare = f"  %x = load {t}, ptr %a, align 4\n  %y = load {t}, ptr %b, align 4"
    declared = f"declare {t} @llvm.fma.v{lanes}f32({t}, {t}, {t})"
    return declared + LOOP.format(name="fma", prepare=prepare, body="\n".join(body), step=1,
                                  after="\n".join(after))


def _stream(name: str, lanes: int, loads: str, store: bool) -> str:
    t, unroll = f"<{lanes} x float>", 8
    body = []
    if not store:
        body += [f"  %s{u} = phi {t} [zeroinitializer, %entry], [%r{u}, %loop]"
                 for u in range(unroll)]
    for u in range(unroll):
        body.append(f"  %j{u} = add i64 %i, {u * lanes}")
        for array in loads:
            body += [f"  %p{array}{u} = getelementptr float, ptr %{array}, i64 %j{u}",
                     f"  %v{array}{u} = load {t}, ptr %p{array}{u}, align {4 * lanes}"]
        other = "s" if not store else "vb" if "b" in loads else ""
        if other:
            body.append(f"  %r{u} = fadd {t} %va{u}, %{other}{u}")
        if store:
            value = f"%r{u}" if other else f"%va{u}"
            body += [f"  %pc{u} = getelementptr float, ptr %c, i64 %j{u}",
                     f"  store {t} {value}, ptr %pc{u}, align {4 * lanes}, !nontemporal !0"]
    after = [] if store else [
        f"  %q{u} = getelementptr {t}, ptr %c, i64 {u}\n  store {t} %r{u}, ptr %q{u}, align 4"
        for u in range(unroll)]
    return LOOP.format(name=name, prepare="", body="\n".join(body), step=unroll * lanes,
                       after="\n".join(after))


def lanes() -> int:
    """Float lanes of the widest vectors that this processor has."""
    features = llvm.get_host_cpu_features()
    return 16 if features.get("avx512f") else 8 if features.get("avx2") else 4


class Loops:
    """The compiled loops."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        width = lanes()
        text = "\n".join((
            _fma(width, 12 if width == 8 else 24), _stream("read", width, "a", False),
            _stream("copy", width, "a", True), _stream("triad", width, "ab", True),
            "!0 = !{i32 1}"))
        target = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), target)
        self._engine.finalize_object()
        self.flops = TRIPS * (12 if width == 8 else 24) * width * 2
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *(ctypes.c_void_p,) * 3, ctypes.c_int64)
        self.calls = {name: kind(self._engine.get_function_address(name))
                      for name in ("fma", "read", "copy", "triad")}


def _aligned(elements: int) -> np.ndarray:
    array = np.ones(elements + 16, np.float32)
    start = (-array.ctypes.data // 4) % 16
    return array[start:start + elements]


def _timed(work: Callable[[int], object], threads: int) -> float:
    """The best time of `work(0)`, ..., `work(threads - 1)` at the same time."""
    best = float("inf")
    for _ in range(REPEATS):
        others = [threading.Thread(target=work, args=(i,)) for i in range(1, threads)]
        start = time.perf_counter()
        for other in others:
            other.start()
        work(0)
        for other in others:
            other.join()
        best = min(best, time.perf_counter() - start)
    return best


def measure(threads: int) -> dict[str, dict[str, float]]:
    """Peaks by number of threads: "fma" in GFLOP/s, "read", "copy" and "triad" in GB/s."""
    loops = Loops()
    arrays = [_aligned(ARRAY) for _ in range(3)]
    values = [_aligned(1024) for _ in range(2 + threads)]
    found = {}
    for count in sorted({1, threads}):
        share = ARRAY // count

        def fma(i: int) -> int:
            a, b = (v.ctypes.data for v in values[:2])
            return loops.calls["fma"](a, b, values[2 + i].ctypes.data, TRIPS)

        figures = {"fma": count * loops.flops / _timed(fma, count) / 1e9}
        for name, moved in (("read", 1), ("copy", 2), ("triad", 3)):
            def stream(i: int, name: str = name, share: int = share) -> int:
                a, b, c = (v.ctypes.data + 4 * i * share for v in arrays)
                return loops.calls[name](a, b, c, share)

            figures[name] = moved * 4 * ARRAY / _timed(stream, count) / 1e9
        found[str(count)] = {k: round(v, 2) for k, v in figures.items()}
    return found


if __name__ == "__main__":
    json.dump(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 2), sys.stdout)
