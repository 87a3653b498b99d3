"""The thread pool, as LLVM text: workers claim tasks from one 64-bit ticket.

Every image holds this code; the runtime uses the copy of the first image it loads for the whole
process and points the others at it (`Ext.PARALLEL_FOR`).

A *region* is one call of `cellc_pool_run`. Its owner writes what is to be done, then publishes
the ticket: the region's number in the high half, below it 16 bits each for the chunks taken from
the front and for those left. A claim is one compare-and-swap. An exhausted ticket (none left) can
never be claimed, whatever the fields beside it hold by then, and a claim that succeeds proves
that they belong to its region. The owner takes chunks too, so a worker that sleeps or has not
started never holds a region up; the region ends when the chunks done equal the chunks there are.

The owner and every other worker claim from the front, the rest from the back. So two threads have a
half each, from region to region the same one, and find what they wrote before in their own
cache; they meet where their speeds let them.

Workers spin for a moment after a region and then sleep on a futex. A sleeper announces itself
before it looks at the ticket for the last time, and a publisher looks for sleepers after it has
published (both sequentially consistent), so no wake-up is lost.

A region inside a region, or from a second thread at the same time, finds the pool owned and runs
inline. After a fork the pid differs: the child starts with a fresh pool.
"""

from __future__ import annotations

from cellc_runtime.target import Target

from ...llvm.notation import expand, read_code

_STATE = """
; One cache line pair for each thing that different threads write.
%pool = type { i64, [120 x i8],
               i32, i32, [120 x i8],
               ptr, ptr, i64, i64, [96 x i8],
               i32, i32, i32, i32, i32, [108 x i8],
               i32, i32 }
@pool = internal global %pool zeroinitializer, align 128
"""

_FIELDS = {
    "ticket": (0, "i64"), "done": (2, "i32"), "waiting": (3, "i32"), "fn": (5, "ptr"),
    "bufs": (6, "ptr"), "ntasks": (7, "i64"), "grain": (8, "i64"),
    "owner": (10, "i32"), "pid": (11, "i32"), "workers": (12, "i32"), "threads": (13, "i32"),
    "spin": (14, "i32"), "wake": (16, "i32"), "sleepers": (17, "i32"),
}  # fmt: skip


def pause_call(target: Target) -> tuple[str, str]:
    """The call that rests a spinning core, and its declaration."""
    if target.triple.startswith("x86_64"):
        return "llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()"
    # `isb` rests for tens of cycles; `yield` is a no-op on most cores.
    return "llvm.aarch64.isb(i32 15)", "declare void @llvm.aarch64.isb(i32)"


def fill(code: str, target: Target) -> str:
    """Code in LLVM's own instructions (see `notation`), with the table's places (`{NAME}`) and the
    pool's fields (`@pool.name`) written into it."""
    code = expand(code).replace("{PAUSE}", pause_call(target)[0])
    for name, (index, _) in _FIELDS.items():
        field = f"getelementptr (%pool, ptr @pool, i32 0, i32 {index})"
        code = code.replace(f"ptr @pool.{name}", f"ptr {field}")
    return code


def pool_text(target: Target) -> str:
    """The pool's types, state and functions (without the table's declaration)."""
    return _STATE + fill(read_code(__file__, "pool"), target) + pause_call(target)[1] + "\n"

