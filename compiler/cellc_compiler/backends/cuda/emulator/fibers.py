"""Threads of a block as fibers, one block after the other.

A thread of a kernel that meets others (a shuffle, a barrier) has a stack of its own and is switched
away from where it waits. The scheduler runs the lanes of a warp until all of them wait at the same
operation of the warp, does it, and lets them go on; when as many threads wait at a barrier as it is
for, these do. A thread that waits for an mbarrier spins: it is tried again each round. A round in
which nothing moves does one asynchronous copy, the latest time there is; under a seed other than 0
rounds do copies in any order before that. A thread that can never continue (lanes that wait for
different things, a barrier that some threads have passed by, an mbarrier that nobody completes)
ends the launch with an error, where a GPU would hang or go on with anything. The order of warps and
lanes follows from the seed, so that what depends on it shows.

Shared memory holds NaN where nothing was written.
"""

from __future__ import annotations

from cellc_runtime.abi import EMULATED_SHARED
from cellc_runtime.target import Target

from ...llvm.notation import read_code

STACK_BYTES = 1 << 17  # Of a thread; untouched pages cost nothing
_THREADS_BYTES = 1 << 18
"""Of the records of the threads of a block, of which there are 1024 at most."""

LAUNCH = "cellc_emulated_launch"

_SWITCH = {
    "x86_64": (
        "pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15; "
        "movq %rsp, (%rdi); movq %rsi, %rsp; "
        "popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp; retq",
        "movq %rbx, %rdi; callq *%r12; ud2",
    ),
    "aarch64": (
        "sub sp, sp, #160; stp x19, x20, [sp]; stp x21, x22, [sp, #16]; stp x23, x24, [sp, #32]; "
        "stp x25, x26, [sp, #48]; stp x27, x28, [sp, #64]; stp x29, x30, [sp, #80]; "
        "stp d8, d9, [sp, #96]; stp d10, d11, [sp, #112]; stp d12, d13, [sp, #128]; "
        "stp d14, d15, [sp, #144]; mov x9, sp; str x9, [x0]; mov sp, x1; "
        "ldp x19, x20, [sp]; ldp x21, x22, [sp, #16]; ldp x23, x24, [sp, #32]; "
        "ldp x25, x26, [sp, #48]; ldp x27, x28, [sp, #64]; ldp x29, x30, [sp, #80]; "
        "ldp d8, d9, [sp, #96]; ldp d10, d11, [sp, #112]; ldp d12, d13, [sp, #128]; "
        "ldp d14, d15, [sp, #144]; add sp, sp, #160; ret",
        "mov x0, x19; blr x20; brk #0",
    ),
}
"""By machine: what saves the registers that a call keeps, exchanges stacks and restores them; and
where a new stack begins: it calls a function that is in one register with what is in another."""

_FRAME = {"x86_64": (72, 24, 32, 48), "aarch64": (160, 8, 0, 88)}
"""By machine: bytes of what a new stack begins with (below a multiple of 16), and where in it the
function, its argument and the place to go on at are. The stack is then aligned for a call."""


def fibers_code(target: Target, queues: int) -> str:
    """The functions, in the notation of the host's.

    Args:
        target: a processor.
        queues: bytes of what the launch of a kernel keeps of asynchronous copies and products.
    """
    machine = target.triple.split("-")[0]
    switch, begin = _SWITCH[machine]
    nbytes, function, argument, place = _FRAME[machine]
    code = read_code(__file__, "fibers", STACK=STACK_BYTES, SHARED=EMULATED_SHARED, FRAME=nbytes,
                  FUNCTION=function, ARGUMENT=argument, PLACE=place, THREADS=_THREADS_BYTES,
                  QUEUES=queues)
    return code.replace("SWITCH", switch).replace("BEGIN", begin)
