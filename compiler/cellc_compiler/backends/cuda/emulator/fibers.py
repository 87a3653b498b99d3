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

import re

from cellc_runtime.abi import EMULATED_SHARED
from cellc_runtime.target import Target

STACK_BYTES = 1 << 17
"""Of a thread; untouched pages cost nothing."""
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

_CODE = """
define internal void @switch(ptr %save, ptr %load) naked noinline nounwind {
  call void asm sideeffect "SWITCH", ""()
  unreachable
}

define internal void @begin() naked noinline nounwind {
  call void asm sideeffect "BEGIN", ""()
  unreachable
}

; The life of a thread.
define internal void @live(ptr %thread) noinline nounwind {
  %launch = field %thread.launch, ptr %thread
  %code = field %launch.code, ptr %launch
  %given = field %launch.given, ptr %launch
  call void %code(ptr %given, ptr %thread)
  call void @wait(ptr %thread, i32 3)
  unreachable
}

; Let the scheduler go on. State 0: ready, 1: at an operation of the warp, 2: at a barrier, 3: done,
; 4: spinning.
define internal void @wait(ptr %thread, i32 %what) noinline nounwind {
  %state = place %thread.state, ptr %thread
  store i32 %what, ptr %state
  %own = place %thread.stack, ptr %thread
  %launch = field %thread.launch, ptr %thread
  %host = field %launch.host, ptr %launch
  call void @switch(ptr %own, ptr %host)
  ret void
}

; All threads of the block.
define hidden void @cellc_emulated_barrier(ptr %thread) nounwind {
  %launch = field %thread.launch, ptr %thread
  %count = field %launch.count, ptr %launch
  %all = trunc i64 %count to i32
  call void @cellc_emulated_named_barrier(ptr %thread, i32 0, i32 %all)
  ret void
}

define hidden void @cellc_emulated_named_barrier(ptr %thread, i32 %name, i32 %count) nounwind {
  set %thread.barrier, ptr %thread = %name
  set %thread.expected, ptr %thread = %count
  call void @wait(ptr %thread, i32 2)
  %passed.at = place %thread.barriers, ptr %thread
  %passed = load i32, ptr %passed.at
  %more = add i32 %passed, 1
  store i32 %more, ptr %passed.at
  ret void
}

define hidden void @cellc_emulated_warp_barrier(ptr %thread) nounwind {
  call i32 @cellc_emulated_exchange(ptr %thread, i32 0, i32 0)
  %passed.at = place %thread.meetings, ptr %thread
  %passed = load i32, ptr %passed.at
  %more = add i32 %passed, 1
  store i32 %more, ptr %passed.at
  ret void
}

; Record an access.
define hidden void @cellc_emulated_touch(ptr %thread, ptr %at, i64 %what) nounwind {
  %launch = field %thread.launch, ptr %thread
  %stream = field %launch.stream, ptr %launch
  %used.at = place %emulator.used, ptr %stream
  %used = load i64, ptr %used.at
  %more = add i64 %used, 1
  store i64 %more, ptr %used.at
  %capacity = field %emulator.capacity, ptr %stream
  if slt i64 %used, %capacity, else %full
  %records = field %emulator.records, ptr %stream
  %record = getelementptr %access, ptr %records, i64 %used
  %address = ptrtoint ptr %at to i64
  %address.at = place %access.address, ptr %record
  store i64 %address, ptr %address.at
  %what.at = place %access.what, ptr %record
  store i64 %what, ptr %what.at
  %tid = field %thread.tid, ptr %thread
  %tid.at = place %access.tid, ptr %record
  store i32 %tid, ptr %tid.at
  %block = field %thread.block, ptr %thread
  %block.at = place %access.block, ptr %record
  store i32 %block, ptr %block.at
  %barriers = field %thread.barriers, ptr %thread
  %barriers.at = place %access.barriers, ptr %record
  store i32 %barriers, ptr %barriers.at
  %meetings = field %thread.meetings, ptr %thread
  %meetings.at = place %access.meetings, ptr %record
  store i32 %meetings, ptr %meetings.at
  %number = field %launch.number, ptr %launch
  %narrow = trunc i64 %number to i32
  %launch.at = place %access.launch, ptr %record
  store i32 %narrow, ptr %launch.at
full:
  ret void
}

; An operation of all lanes of a warp: a function that is given the first lane's record, and what
; each lane gives it. None: they only wait for one another.
define internal void @meet(ptr %thread, ptr %operation, ptr %data) noinline nounwind {
  set %thread.operation, ptr %thread = %operation
  set %thread.data, ptr %thread = %data
  call void @wait(ptr %thread, i32 1)
  ret void
}

; The first error of a launch stays.
define internal void @fail(ptr %launch, i64 %code) noinline nounwind {
  %error.p = place %launch.error, ptr %launch
  %error = load i64, ptr %error.p
  if eq i64 %error, 0, else %out
  store i64 %code, ptr %error.p
out:
  ret void
}

; Something moved.
define internal void @progress(ptr %launch) nounwind {
  set %launch.progress, ptr %launch = 1
  ret void
}

; A number below 2^31 that follows from the seed; 0 for the seed 0.
define internal i64 @random(ptr %launch) nounwind {
  %seed = field %launch.seed, ptr %launch
  if ne i64 %seed, 0, else %none
  %random.p = place %launch.random, ptr %launch
  %before = load i64, ptr %random.p
  %scaled = mul i64 %before, 6364136223846793005
  %after = add i64 %scaled, 1442695040888963407
  store i64 %after, ptr %random.p
  %high = lshr i64 %after, 33
  ret i64 %high
none:
  ret i64 0
}

; A lane may come to the next exchange before another has read what this one gave: two places.
define hidden i32 @cellc_emulated_exchange(ptr %thread, i32 %value, i32 %lane) nounwind {
  %count.p = place %thread.count, ptr %thread
  %count = load i32, ptr %count.p
  %which = and i32 %count, 1
  %at = zext i32 %which to i64
  %own = place %thread.given, ptr %thread
  %own.p = getelementptr i32, ptr %own, i64 %at
  store i32 %value, ptr %own.p
  %more = add i32 %count, 1
  store i32 %more, ptr %count.p
  call void @meet(ptr %thread, ptr null, ptr null)
  %tid = field %thread.tid, ptr %thread
  %lane.own = and i32 %tid, 31
  %lane.other = and i32 %lane, 31
  %far = sub i32 %lane.other, %lane.own
  %far.wide = sext i32 %far to i64
  %other = getelementptr %thread, ptr %thread, i64 %far.wide
  %there = place %thread.given, ptr %other
  %there.p = getelementptr i32, ptr %there, i64 %at
  %got = load i32, ptr %there.p
  ret i32 %got
}

define internal void @run(ptr %launch, ptr %thread) nounwind {
  %state.p = place %thread.state, ptr %thread
  store i32 0, ptr %state.p
  %host = place %launch.host, ptr %launch
  %own = field %thread.stack, ptr %thread
  call void @switch(ptr %host, ptr %own)
  %state = load i32, ptr %state.p
  if ne i32 %state, 4, else %out
  call void @progress(ptr %launch)
out:
  ret void
}

; Lanes of a warp in the order that the seed says, each once; how many wait at an operation then.
define internal i64 @run_lanes(ptr %launch, ptr %warp, i64 %turn) noinline nounwind {
  %waiting.p = alloca i64
  store i64 0, ptr %waiting.p
  loop %i < 32, else %out
  %permuted = xor i64 %i, %turn
  %lane = and i64 %permuted, 31
  %thread = getelementptr %thread, ptr %warp, i64 %lane
  %state = field %thread.state, ptr %thread
  %kind = and i32 %state, 3
  if eq i32 %kind, 0, else %look
  call void @run(ptr %launch, ptr %thread)
look:
  %now = field %thread.state, ptr %thread
  if eq i32 %now, 1, else %trip
  %waiting = load i64, ptr %waiting.p
  %one.more = add i64 %waiting, 1
  store i64 %one.more, ptr %waiting.p
trip:
  next %i
out:
  %all = load i64, ptr %waiting.p
  ret i64 %all
}

; Let the lanes of a warp go on.
define internal void @release(ptr %warp) noinline nounwind {
  loop %i < 32, else %out
  %thread = getelementptr %thread, ptr %warp, i64 %i
  set %thread.state, ptr %thread = 0
  next %i
out:
  ret void
}

; Let the threads at a barrier go on if all that it is for are there.
define internal void @release_barrier(ptr %launch, i32 %name) noinline nounwind {
  %threads = field %launch.threads, ptr %launch
  %count = field %launch.count, ptr %launch
  %there.p = alloca i32
  store i32 0, ptr %there.p
  %expected.p = alloca i32
  store i32 0, ptr %expected.p
  loop %i < %count, else %counted
  %thread = getelementptr %thread, ptr %threads, i64 %i
  %at = call i1 @is_at_barrier(ptr %thread, i32 %name)
  if %at, else %trip
  %there.now = load i32, ptr %there.p
  %one.more = add i32 %there.now, 1
  store i32 %one.more, ptr %there.p
  %expected.now = field %thread.expected, ptr %thread
  store i32 %expected.now, ptr %expected.p
trip:
  next %i
counted:
  %there = load i32, ptr %there.p
  if ne i32 %there, 0, else %out
  %expected = load i32, ptr %expected.p
  if eq i32 %there, %expected, else %out
  call void @progress(ptr %launch)
  loop %k < %count, else %out
  %other = getelementptr %thread, ptr %threads, i64 %k
  %goes = call i1 @is_at_barrier(ptr %other, i32 %name)
  if %goes, else %trip.k
  set %thread.state, ptr %other = 0
trip.k:
  next %k
out:
  ret void
}

define internal i1 @is_at_barrier(ptr %thread, i32 %name) nounwind {
  %state = field %thread.state, ptr %thread
  %own = field %thread.barrier, ptr %thread
  %waits = icmp eq i32 %state, 2
  %same = icmp eq i32 %own, %name
  %both = and i1 %waits, %same
  ret i1 %both
}

define internal void @release_barriers(ptr %launch) noinline nounwind {
  loop %i < 16, else %out
  %name = trunc i64 %i to i32
  call void @release_barrier(ptr %launch, i32 %name)
  next %i
out:
  ret void
}

; How many threads are in a state.
define internal i64 @count(ptr %threads, i64 %count, i32 %what) noinline nounwind {
  %found.p = alloca i64
  store i64 0, ptr %found.p
  loop %i < %count, else %out
  %thread = getelementptr %thread, ptr %threads, i64 %i
  %state = field %thread.state, ptr %thread
  if eq i32 %state, %what, else %trip
  %found = load i64, ptr %found.p
  %one.more = add i64 %found, 1
  store i64 %one.more, ptr %found.p
trip:
  next %i
out:
  %all = load i64, ptr %found.p
  ret i64 %all
}

; Do the work that all lanes of a warp wait for; an error where they wait for different things.
define internal void @perform(ptr %launch, ptr %warp) noinline nounwind {
  %operation = field %thread.operation, ptr %warp
  loop %i < 32, else %same
  %thread = getelementptr %thread, ptr %warp, i64 %i
  %other = field %thread.operation, ptr %thread
  if eq ptr %other, %operation, else %torn
  next %i
same:
  if ne ptr %operation, null, else %out
  call void %operation(ptr %warp)
  br label %out
torn:
  call void @fail(ptr %launch, i64 700)
  br label %out
out:
  ret void
}

; A warp until it can do no more alone.
define internal void @run_warp(ptr %launch, ptr %warp, i64 %turn) noinline nounwind {
again:
  %waiting = call i64 @run_lanes(ptr %launch, ptr %warp, i64 %turn)
  if eq i64 %waiting, 32, else %out
  call void @perform(ptr %launch, ptr %warp)
  call void @release(ptr %warp)
  %error = field %launch.error, ptr %launch
  if eq i64 %error, 0, else %out
  br label %again
out:
  ret void
}

; A new stack for each thread, which begins in `live`.
define internal void @prepare(ptr %launch, i64 %block) noinline nounwind {
  %threads = field %launch.threads, ptr %launch
  %count = field %launch.count, ptr %launch
  %stacks = field %launch.stacks, ptr %launch
  %shared = field %launch.shared, ptr %launch
  %block.narrow = trunc i64 %block to i32
  loop %i < %count, else %out
  %thread = getelementptr %thread, ptr %threads, i64 %i
  %tid.p = place %thread.tid, ptr %thread
  %tid = trunc i64 %i to i32
  store i32 %tid, ptr %tid.p
  set %thread.block, ptr %thread = %block.narrow
  %shared.own = place %thread.shared, ptr %thread
  store ptr %shared, ptr %shared.own
  set %thread.launch, ptr %thread = %launch
  set %thread.state, ptr %thread = 0
  set %thread.count, ptr %thread = 0
  call void @begin_copies(ptr %thread)
  call void @begin_products(ptr %thread)
  %barriers.at = place %thread.barriers, ptr %thread
  store i32 0, ptr %barriers.at
  %meetings.at = place %thread.meetings, ptr %thread
  store i32 0, ptr %meetings.at
  if ne ptr %stacks, null, else %trip
  %number = add i64 %i, 1
  %end = mul i64 %number, STACK
  %start = sub i64 %end, FRAME
  %frame = getelementptr i8, ptr %stacks, i64 %start
  %function.p = getelementptr i8, ptr %frame, i64 FUNCTION
  store ptr @live, ptr %function.p
  %argument.p = getelementptr i8, ptr %frame, i64 ARGUMENT
  store ptr %thread, ptr %argument.p
  %place.p = getelementptr i8, ptr %frame, i64 PLACE
  store ptr @begin, ptr %place.p
  set %thread.stack, ptr %thread = %frame
trip:
  next %i
out:
  ret void
}

; A block whose threads meet; an error of the launch if they can never go on.
define internal void @run_block(ptr %launch) noinline nounwind {
  %threads = field %launch.threads, ptr %launch
  %count = field %launch.count, ptr %launch
  %warps = lshr i64 %count, 5
  %progress.p = place %launch.progress, ptr %launch
round:
  store i64 0, ptr %progress.p
  %first.warp = call i64 @random(ptr %launch)
  %turn = call i64 @random(ptr %launch)
  loop %i < %warps, else %all
  %permuted = add i64 %i, %first.warp
  %which = urem i64 %permuted, %warps
  %first = shl i64 %which, 5
  %warp = getelementptr %thread, ptr %threads, i64 %first
  call void @run_warp(ptr %launch, ptr %warp, i64 %turn)
  %error = field %launch.error, ptr %launch
  if eq i64 %error, 0, else %leave
  next %i
all:
  call void @release_barriers(ptr %launch)
  %moved = load i64, ptr %progress.p
  call void @copy_some(ptr %launch, i64 %moved)
  %done = call i64 @count(ptr %threads, i64 %count, i32 3)
  if ne i64 %done, %count, else %fine
  %now = load i64, ptr %progress.p
  if ne i64 %now, 0, else %torn
  br label %round
fine:
  call void @end_copies(ptr %launch)
  br label %leave
torn:
  call void @fail(ptr %launch, i64 700)
  br label %leave
leave:
  ret void
}

; A block whose threads never meet: one after the other, on this stack.
define internal void @run_alone(ptr %launch) noinline nounwind {
  %threads = field %launch.threads, ptr %launch
  %count = field %launch.count, ptr %launch
  %code = field %launch.code, ptr %launch
  %given = field %launch.given, ptr %launch
  loop %i < %count, else %out
  %thread = getelementptr %thread, ptr %threads, i64 %i
  call void %code(ptr %given, ptr %thread)
  next %i
out:
  ret void
}

; The stand-in for cuLaunchKernel: 0, 2 (no memory), or the number of a thread's fault.
define hidden i32 @cellc_emulated_launch(ptr %code, i64 %blocks, i64 %count, i64 %bytes,
                                         i1 %meets, ptr %stream, ptr %given) nounwind {
  %launch = alloca %launch
  %stacks.size = mul i64 %count, STACK
  %threads = call ptr {MALLOC}(i64 THREADS)
  %place = field %emulator.shared, ptr %stream
  %wanted = select i1 %meets, i64 %stacks.size, i64 16
  %queues.wanted = select i1 %meets, i64 QUEUES, i64 16
  %queues = call ptr {MALLOC}(i64 %queues.wanted)
  %stacks = call ptr {MALLOC}(i64 %wanted)
  set %launch.code, ptr %launch = %code
  set %launch.given, ptr %launch = %given
  set %launch.threads, ptr %launch = %threads
  set %launch.count, ptr %launch = %count
  %stacks.p = place %launch.stacks, ptr %launch
  %own.stacks = select i1 %meets, ptr %stacks, ptr null
  store ptr %own.stacks, ptr %stacks.p
  set %launch.shared, ptr %launch = %place
  set %launch.bytes, ptr %launch = %bytes
  set %launch.queues, ptr %launch = %queues
  set %launch.bulk, ptr %launch = 0
  %failed.p = place %launch.error, ptr %launch
  store i64 0, ptr %failed.p
  %stream.at = place %launch.stream, ptr %launch
  store ptr %stream, ptr %stream.at
  %launches.at = place %emulator.launches, ptr %stream
  %launches = load i64, ptr %launches.at
  %launches.more = add i64 %launches, 1
  store i64 %launches.more, ptr %launches.at
  %number.at = place %launch.number, ptr %launch
  store i64 %launches, ptr %number.at
  %seed = field %emulator.seed, ptr %stream
  %own.seed = place %launch.seed, ptr %launch
  store i64 %seed, ptr %own.seed
  set %launch.random, ptr %launch = %seed
  if ne ptr %queues, null, else %poor
  if ne ptr %threads, null, else %poor
  if sle i64 %bytes, SHARED, else %poor
  if ne ptr %stacks, null, else %poor
  loop %block < %blocks, else %fine
  call ptr {MEMSET}(ptr %place, i32 255, i64 %bytes)
  call void @prepare(ptr %launch, i64 %block)
  if %meets, else %alone
  call void @run_block(ptr %launch)
  %failed = load i64, ptr %failed.p
  if eq i64 %failed, 0, else %torn
  br label %trip
alone:
  call void @run_alone(ptr %launch)
  br label %trip
trip:
  next %block
poor:
  br label %leave
torn:
  %code.torn = trunc i64 %failed to i32
  br label %leave
fine:
  br label %leave
leave:
  %code.out = phi i32 [ 2, %poor ], [ %code.torn, %torn ], [ 0, %fine ]
  call void {FREE}(ptr %queues)
  call void {FREE}(ptr %threads)
  call void {FREE}(ptr %stacks)
  %error.p = place %emulator.error, ptr %stream
  %before = load i64, ptr %error.p
  %now = zext i32 %code.out to i64
  %first = icmp eq i64 %before, 0
  %kept = select i1 %first, i64 %now, i64 %before
  store i64 %kept, ptr %error.p
  ret i32 %code.out
}

define hidden i32 @cellc_emulated_copy(ptr %to, ptr %source, i64 %nbytes, ptr %stream) nounwind {
  call ptr {MEMMOVE}(ptr %to, ptr %source, i64 %nbytes)
  ret i32 0
}

define hidden i32 @cellc_emulated_wait(ptr %stream) nounwind {
  ret i32 0
}
"""


def fibers_code(target: Target, queues: int) -> str:
    """The functions, in the notation of the host's.

    Args:
        target: a processor.
        queues: bytes of what the launch of a kernel keeps of asynchronous copies and products.
    """
    machine = target.triple.split("-")[0]
    switch, begin = _SWITCH[machine]
    nbytes, function, argument, place = _FRAME[machine]
    code = _CODE.replace("SWITCH", switch).replace("BEGIN", begin)
    numbers = {"STACK": STACK_BYTES, "SHARED": EMULATED_SHARED, "FRAME": nbytes,
               "FUNCTION": function, "ARGUMENT": argument, "PLACE": place,
               "THREADS": _THREADS_BYTES, "QUEUES": queues}
    for word, number in numbers.items():
        code = re.sub(rf"(?<=[ ,]){word}\b(?=[\n,)])", str(number), code)
    return code
