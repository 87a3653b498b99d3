"""How fast the processors issue instructions just now: whether their cores are shared.

A core that runs a second thread (of another virtual machine, say) gives each of them half of its
issue slots. What is limited by multiply-adds or memory hardly notices; what is limited by
instructions takes up to twice the time. The system does not say so; a loop of nothing but
independent additions does.

    python tests/benchmarks/issue.py

prints additions per nanosecond on each processor, every half second.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time

import llvmlite.binding as llvm

CHAINS = 8
TRIPS = 400_000


def _text() -> str:
    chains = range(CHAINS)
    phis = "\n".join(f"  %s{i} = phi i64 [{i}, %entry], [%r{i}, %loop]" for i in chains)
    adds = "\n".join(f"  %r{i} = add i64 %s{i}, %x" for i in chains)
    total, last = [], "%r0"
    for i in chains[1:]:
        total.append(f"  %t{i} = xor i64 {last}, %r{i}")
        last = f"%t{i}"
    return f"""
define i64 @adds(i64 %x, i64 %n) nounwind {{
entry:
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%next, %loop]
{phis}
{adds}
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
{chr(10).join(total)}
  ret i64 {last}
}}
"""


class Gauge:
    """Additions per nanosecond of the processors this process may use."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(opt=3)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_text()), machine)
        self._engine.finalize_object()
        address = self._engine.get_function_address("adds")
        self._adds = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)

    def here(self) -> float:
        """The rate where this thread runs; about a millisecond."""
        start = time.perf_counter()
        self._adds(1, TRIPS)
        return CHAINS * TRIPS / (time.perf_counter() - start) / 1e9

    def each(self) -> list[float]:
        """The rates of all processors (of one, where threads cannot be tied)."""
        if not hasattr(os, "sched_setaffinity"):
            return [self.here()]
        found: list[float] = []

        def on(processor: int) -> None:
            os.sched_setaffinity(0, {processor})  # of this thread alone
            found.append(self.here())

        for processor in sorted(os.sched_getaffinity(0)):
            thread = threading.Thread(target=on, args=(processor,))
            thread.start()
            thread.join()
        return found


if __name__ == "__main__":
    gauge = Gauge()
    while True:
        print("  ".join(f"{rate:5.2f}" for rate in gauge.each()), flush=True)
        time.sleep(0.5)
