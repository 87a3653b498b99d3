; The functions of the thread pool; `pool.py` says how it works.

; Calls on sleeping: the futex of Linux, the one of macOS, or a short sleep.
define internal void @wait_on(ptr %word, i32 %expected) nounwind {
  %futex = {SYSCALL}:ptr
  if %futex != null, else %other
  %number = {FUTEX_NUMBER}:i64
  ; 128: FUTEX_WAIT | FUTEX_PRIVATE_FLAG
  call i64 (i64, ...) %futex(i64 %number, ptr %word, i64 128, i32 %expected, ptr null)
  ret void
other:
  %ulock = {ULOCK_WAIT}:ptr
  if %ulock != null, else %poll
  %wide = zext.i64(%expected)
  ; 1: UL_COMPARE_AND_WAIT
  i32 %ulock(i32 1, %word, %wide, i32 0)
  ret void
poll:
  %time = alloca [2 x i64]
  %nanos = &%time:i64[1]
  %time:i64 = 0
  %nanos:i64 = 50000
  i32 {NANOSLEEP}(%time, null)
}

define internal void @wake_on(ptr %word, i32 %count) nounwind {
  %futex = {SYSCALL}:ptr
  if %futex != null, else %other
  %number = {FUTEX_NUMBER}:i64
  ; 129: FUTEX_WAKE | FUTEX_PRIVATE_FLAG
  call i64 (i64, ...) %futex(i64 %number, ptr %word, i64 129, i32 %count, ptr null)
  ret void
other:
  %ulock = {ULOCK_WAKE}:ptr
  if %ulock != null, else ret void
  ; 257: UL_COMPARE_AND_WAIT | ULF_WAKE_ALL
  i32 %ulock(i32 257, %word, i64 0)
}

; Do chunks until none is left; how many were done. A chunk of region g is done before g can end,
; so a thread that counts its chunks and adds them after the last one adds to the right region.
define internal i32 @work(i1 %back) nounwind {
look:
  %count = phi i32 [ 0, %entry ], [ %count, %claim ], [ %more, %mine ]
  %ticket = load atomic i64, ptr @pool.ticket acquire, align 8
  %left = %ticket & 65535
  br %left == 0, %end, %claim
claim:
  %fn = load atomic ptr, ptr @pool.fn monotonic, align 8
  %bufs = load atomic ptr, ptr @pool.bufs monotonic, align 8
  %ntasks = load atomic i64, ptr @pool.ntasks monotonic, align 8
  %grain = load atomic i64, ptr @pool.grain monotonic, align 8
  ; One less is left; from the front, one more is taken there.
  %next = %ticket + (%back ? i64 -1 : 65535)
  %pair = cmpxchg ptr @pool.ticket, i64 %ticket, i64 %next acq_rel monotonic
  %won = extractvalue { i64, i1 } %pair, 1
  br %won, %mine, %look
mine:
  %front = %ticket >> 16 & 65535
  %lo = (%back ? %front + %left - 1 : %front) * %grain
  %stop = %lo + %grain
  void %fn(%bufs, %lo, %stop >u %ntasks ? %ntasks : %stop)
  %more = %count + 1
  br label %look
end:
  ret %count
}

define internal void @finish(i32 %count) nounwind {
  %old = atomicrmw add ptr @pool.done, i32 %count seq_cst
  %waiting = load atomic i32, ptr @pool.waiting seq_cst, align 4
  if %waiting != 0, else %end
  @wake_on(@pool.done, 1)
}

define internal ptr @worker(ptr %arg) nounwind {
  %index = ptrtoint.i32(%arg)
  %back = (%index & 1) == 0
awake:
spin:
  %round = phi i32 [ 0, %awake ], [ %again, %pause ]
  %ticket = load atomic i64, ptr @pool.ticket acquire, align 8
  if trunc.i16(%ticket) != 0, else %idle
  ; A worker above the present number of threads is parked.
  %threads = load atomic i32, ptr @pool.threads monotonic, align 4
  if %index < %threads - 1, else %park
  %count = @work(%back)
  if %count != 0, else %awake
  @finish(%count)
  br label %awake
idle:
  %limit = load atomic i32, ptr @pool.spin monotonic, align 4
  br %round >= %limit, %sleep, %pause
pause:
  call void @{PAUSE}
  %again = %round + 1
  br label %spin
sleep:
  %seen = load atomic i32, ptr @pool.wake seq_cst, align 4
  %was = atomicrmw add ptr @pool.sleepers, i32 1 seq_cst
  %last = load atomic i64, ptr @pool.ticket seq_cst, align 8
  if trunc.i16(%last) == 0, else %rise
  @wait_on(@pool.wake, %seen)
rise:
  %now = atomicrmw sub ptr @pool.sleepers, i32 1 seq_cst
  br label %awake
park:
  %parked = load atomic i32, ptr @pool.wake seq_cst, align 4
  %pwas = atomicrmw add ptr @pool.sleepers, i32 1 seq_cst
  @wait_on(@pool.wake, %parked)
  %pnow = atomicrmw sub ptr @pool.sleepers, i32 1 seq_cst
  br label %awake
}

; Start workers up to threads - 1; one that cannot be started is done without.
define internal void @start_workers() nounwind {
  %create = {PTHREAD_CREATE}:ptr
  %attr = {THREAD_ATTR}:ptr
  %id = alloca i64
  %threads = load atomic i32, ptr @pool.threads monotonic, align 4
  %wanted = %threads - 1
head:
  %have = @pool.workers:i32
  if %have < %wanted, else %end
  if i32 %create(%id, %attr, @worker, inttoptr.ptr(zext.i64(%have))) == 0, else %settle
  @pool.workers:i32 = %have + 1
  br label %head
settle:
  ; The system refuses more threads: stay with those there are.
  %got = %have + 1
  store atomic i32 %got, ptr @pool.threads monotonic, align 4
}

; Whether the pool is this process's; makes it so after a fork. -1 while another thread does.
define internal i1 @ours() nounwind {
  %pid = i32 {GETPID}()
  %known = load atomic i32, ptr @pool.pid acquire, align 4
  if %pid != %known, else %yes
  if %known != -1, else ret false
  %pair = cmpxchg ptr @pool.pid, i32 %known, i32 -1 acq_rel monotonic
  %won = extractvalue { i32, i1 } %pair, 1
  if %won, else ret false
  @pool.workers:i32 = 0
  store atomic i32 0, ptr @pool.sleepers monotonic, align 4
  store atomic i32 0, ptr @pool.owner monotonic, align 4
  %ticket = load atomic i64, ptr @pool.ticket monotonic, align 8
  %ended = %ticket & -4294967296
  store atomic i64 %ended, ptr @pool.ticket monotonic, align 8
  store atomic i32 %pid, ptr @pool.pid release, align 4
yes:
  ret true
}

define hidden void @cellc_pool_configure(i32 %threads, i32 %spin) nounwind {
  store atomic i32 %spin, ptr @pool.spin monotonic, align 4
  store atomic i32 %threads, ptr @pool.threads monotonic, align 4
  ; Parked workers look again.
  %old = atomicrmw add ptr @pool.wake, i32 1 seq_cst
  @wake_on(@pool.wake, 2147483647)
}

define internal void @publish(ptr %fn, ptr %bufs, i64 %ntasks, i64 %grain, i64 %nchunks) nounwind {
  store atomic i32 0, ptr @pool.done monotonic, align 4
  store atomic i32 0, ptr @pool.waiting monotonic, align 4
  store atomic ptr %fn, ptr @pool.fn monotonic, align 8
  store atomic ptr %bufs, ptr @pool.bufs monotonic, align 8
  store atomic i64 %ntasks, ptr @pool.ntasks monotonic, align 8
  store atomic i64 %grain, ptr @pool.grain monotonic, align 8
  %old = load atomic i64, ptr @pool.ticket monotonic, align 8
  %ticket = (%old & -4294967296) + 4294967296 | %nchunks
  store atomic i64 %ticket, ptr @pool.ticket seq_cst, align 8
  %sleepers = load atomic i32, ptr @pool.sleepers seq_cst, align 4
  if %sleepers != 0, else %end
  %was = atomicrmw add ptr @pool.wake, i32 1 seq_cst
  ; With parked workers among the sleepers all must be woken to reach the others.
  %workers = @pool.workers:i32
  %threads = load atomic i32, ptr @pool.threads monotonic, align 4
  @wake_on(@pool.wake, %workers >= %threads ? 2147483647 : trunc.i32(%nchunks) - 1)
}

define internal void @await(i32 %nchunks) nounwind {
  %limit = load atomic i32, ptr @pool.spin monotonic, align 4
spin:
  %round = phi i32 [ 0, %entry ], [ %again, %pause ]
  %done = load atomic i32, ptr @pool.done acquire, align 4
  if %done != %nchunks, else ret void
  br %round >= %limit, %sleep, %pause
pause:
  call void @{PAUSE}
  %again = %round + 1
  br label %spin
sleep:
  store atomic i32 1, ptr @pool.waiting seq_cst, align 4
check:
  %now = load atomic i32, ptr @pool.done seq_cst, align 4
  if %now != %nchunks, else ret void
  @wait_on(@pool.done, %now)
  br label %check
}

define hidden void @cellc_pool_run(ptr %fn, ptr %bufs, i64 %ntasks, i64 %asked) nounwind {
  ; A number of chunks fits 16 bits.
  %atleast = (%ntasks >> 15) + 1
  %grain = %asked < %atleast ? %atleast : %asked
  %nchunks = (%ntasks + (%grain - 1)) / %grain
  %threads = load atomic i32, ptr @pool.threads monotonic, align 4
  if not %threads < 2 | %nchunks < 2 | {PTHREAD_CREATE}:ptr == null, else %inline
  if @ours(), else %inline
  %pair = cmpxchg ptr @pool.owner, i32 0, i32 1 acq_rel monotonic
  %won = extractvalue { i32, i1 } %pair, 1
  if %won, else %inline
  if @pool.workers:i32 < %threads - 1, else %go
  @start_workers()
go:
  @publish(%fn, %bufs, %ntasks, %grain, %nchunks)
  %count = @work(false)
  %old = atomicrmw add ptr @pool.done, i32 %count acq_rel
  @await(trunc.i32(%nchunks))
  store atomic i32 0, ptr @pool.owner release, align 4
  ret void
inline:
  void %fn(%bufs, i64 0, %ntasks)
}

; The entry for generated code. One chunk needs no pool.
define hidden void @cellc_parallel_for(ptr %fn, ptr %bufs, i64 %ntasks, i64 %grain) nounwind {
  if %ntasks <= %grain, else %shared
  void %fn(%bufs, i64 0, %ntasks)
  ret void
shared:
  tail void {PARALLEL_FOR}(%fn, %bufs, %ntasks, %grain)
}
