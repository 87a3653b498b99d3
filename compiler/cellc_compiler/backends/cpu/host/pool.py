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

from ...llvm.notation import expand

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

_CODE = """
; Calls on sleeping: the futex of Linux, the one of macOS, or a short sleep.
define internal void @wait_on(ptr %word, i32 %expected) nounwind {
  %futex = load ptr, ptr {SYSCALL}
  if ne ptr %futex, null, else %other
  %number = load i64, ptr {FUTEX_NUMBER}
  ; 128: FUTEX_WAIT | FUTEX_PRIVATE_FLAG
  call i64 (i64, ...) %futex(i64 %number, ptr %word, i64 128, i32 %expected, ptr null)
  ret void
other:
  %ulock = load ptr, ptr {ULOCK_WAIT}
  if ne ptr %ulock, null, else %poll
  %wide = zext i32 %expected to i64
  ; 1: UL_COMPARE_AND_WAIT
  call i32 %ulock(i32 1, ptr %word, i64 %wide, i32 0)
  ret void
poll:
  %time = alloca [2 x i64]
  %nanos = getelementptr i64, ptr %time, i64 1
  store i64 0, ptr %time
  store i64 50000, ptr %nanos
  call i32 {NANOSLEEP}(ptr %time, ptr null)
  ret void
}

define internal void @wake_on(ptr %word, i32 %count) nounwind {
  %futex = load ptr, ptr {SYSCALL}
  if ne ptr %futex, null, else %other
  %number = load i64, ptr {FUTEX_NUMBER}
  ; 129: FUTEX_WAKE | FUTEX_PRIVATE_FLAG
  call i64 (i64, ...) %futex(i64 %number, ptr %word, i64 129, i32 %count, ptr null)
  ret void
other:
  %ulock = load ptr, ptr {ULOCK_WAKE}
  if ne ptr %ulock, null, else %done
  ; 257: UL_COMPARE_AND_WAIT | ULF_WAKE_ALL
  call i32 %ulock(i32 257, ptr %word, i64 0)
  ret void
done:
  ret void
}

; Do chunks until none is left; how many were done. A chunk of region g is done before g can end,
; so a thread that counts its chunks and adds them after the last one adds to the right region.
define internal i32 @work(i1 %back) nounwind {
look:
  %count = phi i32 [ 0, %entry ], [ %count, %claim ], [ %more, %mine ]
  %ticket = load atomic i64, ptr [ticket] acquire, align 8
  %left = and i64 %ticket, 65535
  br eq i64 %left, 0, label %end, label %claim
claim:
  %fn = load atomic ptr, ptr [fn] monotonic, align 8
  %bufs = load atomic ptr, ptr [bufs] monotonic, align 8
  %ntasks = load atomic i64, ptr [ntasks] monotonic, align 8
  %grain = load atomic i64, ptr [grain] monotonic, align 8
  ; One less is left; from the front, one more is taken there.
  %step = select i1 %back, i64 -1, i64 65535
  %next = add i64 %ticket, %step
  %pair = cmpxchg ptr [ticket], i64 %ticket, i64 %next acq_rel monotonic
  %won = extractvalue { i64, i1 } %pair, 1
  br i1 %won, label %mine, label %look
mine:
  %high = lshr i64 %ticket, 16
  %front = and i64 %high, 65535
  %behind = add i64 %front, %left
  %last = sub i64 %behind, 1
  %index = select i1 %back, i64 %last, i64 %front
  %lo = mul i64 %index, %grain
  %stop = add i64 %lo, %grain
  %past = icmp ugt i64 %stop, %ntasks
  %hi = select i1 %past, i64 %ntasks, i64 %stop
  call void %fn(ptr %bufs, i64 %lo, i64 %hi)
  %more = add i32 %count, 1
  br label %look
end:
  ret i32 %count
}

define internal void @finish(i32 %count) nounwind {
  %old = atomicrmw add ptr [done], i32 %count seq_cst
  %waiting = load atomic i32, ptr [waiting] seq_cst, align 4
  if ne i32 %waiting, 0, else %out
  call void @wake_on(ptr [done], i32 1)
out:
  ret void
}

define internal ptr @worker(ptr %arg) nounwind {
  %index = ptrtoint ptr %arg to i32
  %odd = and i32 %index, 1
  %back = icmp eq i32 %odd, 0
awake:
spin:
  %round = phi i32 [ 0, %awake ], [ %again, %pause ]
  %ticket = load atomic i64, ptr [ticket] acquire, align 8
  %left = trunc i64 %ticket to i16
  if ne i16 %left, 0, else %idle
  ; A worker above the present number of threads is parked.
  %threads = load atomic i32, ptr [threads] monotonic, align 4
  %top = sub i32 %threads, 1
  if slt i32 %index, %top, else %park
  %count = call i32 @work(i1 %back)
  if ne i32 %count, 0, else %awake
  call void @finish(i32 %count)
  br label %awake
idle:
  %limit = load atomic i32, ptr [spin] monotonic, align 4
  br sge i32 %round, %limit, label %sleep, label %pause
pause:
  call void @{PAUSE}
  %again = add i32 %round, 1
  br label %spin
sleep:
  %seen = load atomic i32, ptr [wake] seq_cst, align 4
  %was = atomicrmw add ptr [sleepers], i32 1 seq_cst
  %last = load atomic i64, ptr [ticket] seq_cst, align 8
  %lastleft = trunc i64 %last to i16
  if eq i16 %lastleft, 0, else %rise
  call void @wait_on(ptr [wake], i32 %seen)
rise:
  %now = atomicrmw sub ptr [sleepers], i32 1 seq_cst
  br label %awake
park:
  %parked = load atomic i32, ptr [wake] seq_cst, align 4
  %pwas = atomicrmw add ptr [sleepers], i32 1 seq_cst
  call void @wait_on(ptr [wake], i32 %parked)
  %pnow = atomicrmw sub ptr [sleepers], i32 1 seq_cst
  br label %awake
}

; Start workers up to threads - 1; one that cannot be started is done without.
define internal void @start_workers() nounwind {
  %create = load ptr, ptr {PTHREAD_CREATE}
  %attr = load ptr, ptr {THREAD_ATTR}
  %id = alloca i64
  %threads = load atomic i32, ptr [threads] monotonic, align 4
  %wanted = sub i32 %threads, 1
head:
  %have = load i32, ptr [workers], align 4
  if slt i32 %have, %wanted, else %out
  %wide = zext i32 %have to i64
  %arg = inttoptr i64 %wide to ptr
  %rc = call i32 %create(ptr %id, ptr %attr, ptr @worker, ptr %arg)
  if eq i32 %rc, 0, else %settle
  %more = add i32 %have, 1
  store i32 %more, ptr [workers], align 4
  br label %head
settle:
  ; The system refuses more threads: stay with those there are.
  %got = add i32 %have, 1
  store atomic i32 %got, ptr [threads] monotonic, align 4
out:
  ret void
}

; Whether the pool is this process's; makes it so after a fork. -1 while another thread does.
define internal i1 @ours() nounwind {
  %pid = call i32 {GETPID}()
  %known = load atomic i32, ptr [pid] acquire, align 4
  if ne i32 %pid, %known, else %yes
  if ne i32 %known, -1, else %no
  %pair = cmpxchg ptr [pid], i32 %known, i32 -1 acq_rel monotonic
  %won = extractvalue { i32, i1 } %pair, 1
  if %won, else %no
  store i32 0, ptr [workers], align 4
  store atomic i32 0, ptr [sleepers] monotonic, align 4
  store atomic i32 0, ptr [owner] monotonic, align 4
  %ticket = load atomic i64, ptr [ticket] monotonic, align 8
  %ended = and i64 %ticket, -4294967296
  store atomic i64 %ended, ptr [ticket] monotonic, align 8
  store atomic i32 %pid, ptr [pid] release, align 4
yes:
  ret i1 true
no:
  ret i1 false
}

define hidden void @cellc_pool_configure(i32 %threads, i32 %spin) nounwind {
  store atomic i32 %spin, ptr [spin] monotonic, align 4
  store atomic i32 %threads, ptr [threads] monotonic, align 4
  ; Parked workers look again.
  %old = atomicrmw add ptr [wake], i32 1 seq_cst
  call void @wake_on(ptr [wake], i32 2147483647)
  ret void
}

define internal void @publish(ptr %fn, ptr %bufs, i64 %ntasks, i64 %grain, i64 %nchunks) nounwind {
  store atomic i32 0, ptr [done] monotonic, align 4
  store atomic i32 0, ptr [waiting] monotonic, align 4
  store atomic ptr %fn, ptr [fn] monotonic, align 8
  store atomic ptr %bufs, ptr [bufs] monotonic, align 8
  store atomic i64 %ntasks, ptr [ntasks] monotonic, align 8
  store atomic i64 %grain, ptr [grain] monotonic, align 8
  %old = load atomic i64, ptr [ticket] monotonic, align 8
  %number = and i64 %old, -4294967296
  %region = add i64 %number, 4294967296
  %ticket = or i64 %region, %nchunks
  store atomic i64 %ticket, ptr [ticket] seq_cst, align 8
  %sleepers = load atomic i32, ptr [sleepers] seq_cst, align 4
  if ne i32 %sleepers, 0, else %out
  %was = atomicrmw add ptr [wake], i32 1 seq_cst
  ; With parked workers among the sleepers all must be woken to reach the others.
  %workers = load i32, ptr [workers], align 4
  %threads = load atomic i32, ptr [threads] monotonic, align 4
  %parked = icmp sge i32 %workers, %threads
  %chunks = trunc i64 %nchunks to i32
  %helpers = sub i32 %chunks, 1
  %count = select i1 %parked, i32 2147483647, i32 %helpers
  call void @wake_on(ptr [wake], i32 %count)
out:
  ret void
}

define internal void @await(i32 %nchunks) nounwind {
  %limit = load atomic i32, ptr [spin] monotonic, align 4
spin:
  %round = phi i32 [ 0, %entry ], [ %again, %pause ]
  %done = load atomic i32, ptr [done] acquire, align 4
  if ne i32 %done, %nchunks, else %out
  br sge i32 %round, %limit, label %sleep, label %pause
pause:
  call void @{PAUSE}
  %again = add i32 %round, 1
  br label %spin
sleep:
  store atomic i32 1, ptr [waiting] seq_cst, align 4
check:
  %now = load atomic i32, ptr [done] seq_cst, align 4
  if ne i32 %now, %nchunks, else %out
  call void @wait_on(ptr [done], i32 %now)
  br label %check
out:
  ret void
}

define hidden void @cellc_pool_run(ptr %fn, ptr %bufs, i64 %ntasks, i64 %asked) nounwind {
  ; A number of chunks fits 16 bits.
  %least = lshr i64 %ntasks, 15
  %atleast = add i64 %least, 1
  %small = icmp slt i64 %asked, %atleast
  %grain = select i1 %small, i64 %atleast, i64 %asked
  %most = sub i64 %grain, 1
  %sum = add i64 %ntasks, %most
  %nchunks = udiv i64 %sum, %grain
  %threads = load atomic i32, ptr [threads] monotonic, align 4
  %alone = icmp slt i32 %threads, 2
  %short = icmp slt i64 %nchunks, 2
  %create = load ptr, ptr {PTHREAD_CREATE}
  %cannot = icmp eq ptr %create, null
  %serial1 = or i1 %alone, %short
  %serial = or i1 %serial1, %cannot
  br i1 %serial, label %inline, label %mine
mine:
  %ours = call i1 @ours()
  if %ours, else %inline
  %pair = cmpxchg ptr [owner], i32 0, i32 1 acq_rel monotonic
  %won = extractvalue { i32, i1 } %pair, 1
  if %won, else %inline
  %workers = load i32, ptr [workers], align 4
  %wanted = sub i32 %threads, 1
  if slt i32 %workers, %wanted, else %go
  call void @start_workers()
go:
  call void @publish(ptr %fn, ptr %bufs, i64 %ntasks, i64 %grain, i64 %nchunks)
  %count = call i32 @work(i1 false)
  %old = atomicrmw add ptr [done], i32 %count acq_rel
  %chunks = trunc i64 %nchunks to i32
  call void @await(i32 %chunks)
  store atomic i32 0, ptr [owner] release, align 4
  ret void
inline:
  call void %fn(ptr %bufs, i64 0, i64 %ntasks)
  ret void
}

; The entry for generated code. One chunk needs no pool.
define hidden void @cellc_parallel_for(ptr %fn, ptr %bufs, i64 %ntasks, i64 %grain) nounwind {
  if sle i64 %ntasks, %grain, else %shared
  call void %fn(ptr %bufs, i64 0, i64 %ntasks)
  ret void
shared:
  tail call void {PARALLEL_FOR}(ptr %fn, ptr %bufs, i64 %ntasks, i64 %grain)
  ret void
}
"""


def pause_call(target: Target) -> tuple[str, str]:
    """The call that rests a spinning core, and its declaration."""
    if target.triple.startswith("x86_64"):
        return "llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()"
    # `isb` rests for tens of cycles; `yield` is a no-op on most cores.
    return "llvm.aarch64.isb(i32 15)", "declare void @llvm.aarch64.isb(i32)"


def fill(code: str, target: Target) -> str:
    """Code in LLVM's own instructions (see `notation`), with the table's places (`{NAME}`) and the
    pool's fields (`[name]`) written into it."""
    code = expand(code).replace("{PAUSE}", pause_call(target)[0])
    for name, (index, _) in _FIELDS.items():
        field = f"getelementptr (%pool, ptr @pool, i32 0, i32 {index})"
        code = code.replace(f"ptr [{name}]", f"ptr {field}")
    return code


def pool_text(target: Target) -> str:
    """The pool's types, state and functions (without the table's declaration)."""
    return _STATE + fill(_CODE, target) + pause_call(target)[1] + "\n"

