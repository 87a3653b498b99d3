; Threads of a block as fibers; `fibers.py` says how they meet.

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
  %launch = %thread->thread.launch
  %code = %launch->launch.code
  void %code(%launch->launch.given, %thread)
  @wait(%thread, 3)
  unreachable
}

; Let the scheduler go on. State 0: ready, 1: at an operation of the warp, 2: at a barrier, 3: done,
; 4: spinning.
define internal void @wait(ptr %thread, i32 %what) noinline nounwind {
  %thread->thread.state = %what
  @switch(&%thread->thread.stack, %thread->thread.launch->launch.host)
}

; All threads of the block.
define hidden void @cellc_emulated_barrier(ptr %thread) nounwind {
  %all = trunc.i32(%thread->thread.launch->launch.count)
  @cellc_emulated_named_barrier(%thread, 0, %all)
}

define hidden void @cellc_emulated_named_barrier(ptr %thread, i32 %name, i32 %count) nounwind {
  %thread->thread.barrier = %name
  %thread->thread.expected = %count
  @wait(%thread, 2)
  %thread->thread.barriers += 1
}

define hidden void @cellc_emulated_warp_barrier(ptr %thread) nounwind {
  @cellc_emulated_exchange(%thread, 0, 0)
  %thread->thread.meetings += 1
}

; Record an access.
define hidden void @cellc_emulated_touch(ptr %thread, ptr %at, i64 %what) nounwind {
  %launch = %thread->thread.launch
  %stream = %launch->launch.stream
  %used = %stream->emulator.used
  %stream->emulator.used = %used + 1
  if %used < %stream->emulator.capacity, else %end
  %record = &%stream->emulator.records:%access[%used]
  %record->access.address = ptrtoint.i64(%at)
  %record->access.what = %what
  %record->access.tid = %thread->thread.tid
  %record->access.block = %thread->thread.block
  %record->access.barriers = %thread->thread.barriers
  %record->access.meetings = %thread->thread.meetings
  %record->access.launch = trunc.i32(%launch->launch.number)
}

; An operation of all lanes of a warp: a function that is given the first lane's record, and what
; each lane gives it. None: they only wait for one another.
define internal void @meet(ptr %thread, ptr %operation, ptr %data) noinline nounwind {
  %thread->thread.operation = %operation
  %thread->thread.data = %data
  @wait(%thread, 1)
}

; The first error of a launch stays.
define internal void @fail(ptr %launch, i64 %code) noinline nounwind {
  if %launch->launch.error == 0, else %end
  %launch->launch.error = %code
}

; Something moved.
define internal void @progress(ptr %launch) nounwind {
  %launch->launch.progress = 1
}

; A number below 2^31 that follows from the seed; 0 for the seed 0.
define internal i64 @random(ptr %launch) nounwind {
  if %launch->launch.seed != 0, else ret 0
  %after = %launch->launch.random * 6364136223846793005 + 1442695040888963407
  %launch->launch.random = %after
  ret %after >> 33
}

; A lane may come to the next exchange before another has read what this one gave: two places.
define hidden i32 @cellc_emulated_exchange(ptr %thread, i32 %value, i32 %lane) nounwind {
  %count = %thread->thread.count
  %at = zext.i64(%count & 1)
  %own = &%thread->thread.given
  %own:i32[%at] = %value
  %thread->thread.count = %count + 1
  @meet(%thread, null, null)
  %lane.own = %thread->thread.tid & 31
  %other = &%thread:%thread[sext.i64((%lane & 31) - %lane.own)]
  %there = &%other->thread.given
  ret %there:i32[%at]
}

define internal void @run(ptr %launch, ptr %thread) nounwind {
  %thread->thread.state = 0
  @switch(&%launch->launch.host, %thread->thread.stack)
  if %thread->thread.state != 4, else %end
  @progress(%launch)
}

; Lanes of a warp in the order that the seed says, each once; how many wait at an operation then.
define internal i64 @run_lanes(ptr %launch, ptr %warp, i64 %turn) noinline nounwind {
  %waiting.p = alloca i64
  %waiting.p:i64 = 0
  loop %i < 32, else %out
  %thread = &%warp:%thread[(%i ^ %turn) & 31]
  if (%thread->thread.state & 3) == 0, else %look
  @run(%launch, %thread)
look:
  if %thread->thread.state == 1, else %trip
  %waiting.p:i64 += 1
trip:
  next %i
out:
  ret %waiting.p:i64
}

; Let the lanes of a warp go on.
define internal void @release(ptr %warp) noinline nounwind {
  loop %i < 32, else %end
  %thread = &%warp:%thread[%i]
  %thread->thread.state = 0
  next %i
}

; Let the threads at a barrier go on if all that it is for are there.
define internal void @release_barrier(ptr %launch, i32 %name) noinline nounwind {
  %threads = %launch->launch.threads
  %count = %launch->launch.count
  %there.p = alloca i32
  %there.p:i32 = 0
  %expected.p = alloca i32
  %expected.p:i32 = 0
  loop %i < %count, else %counted
  %thread = &%threads:%thread[%i]
  if @is_at_barrier(%thread, %name), else %trip
  %there.p:i32 += 1
  %expected.p:i32 = %thread->thread.expected
trip:
  next %i
counted:
  %there = %there.p:i32
  if %there != 0, else %end
  if %there == %expected.p:i32, else %end
  @progress(%launch)
  loop %k < %count, else %end
  %other = &%threads:%thread[%k]
  if @is_at_barrier(%other, %name), else %trip.k
  %other->thread.state = 0
trip.k:
  next %k
}

define internal i1 @is_at_barrier(ptr %thread, i32 %name) nounwind {
  ret %thread->thread.state == 2 & %thread->thread.barrier == %name
}

define internal void @release_barriers(ptr %launch) noinline nounwind {
  loop %i < 16, else %end
  @release_barrier(%launch, trunc.i32(%i))
  next %i
}

; How many threads are in a state.
define internal i64 @count(ptr %threads, i64 %count, i32 %what) noinline nounwind {
  %found.p = alloca i64
  %found.p:i64 = 0
  loop %i < %count, else %out
  %thread = &%threads:%thread[%i]
  if %thread->thread.state == %what, else %trip
  %found.p:i64 += 1
trip:
  next %i
out:
  ret %found.p:i64
}

; Do the work that all lanes of a warp wait for; an error where they wait for different things.
define internal void @perform(ptr %launch, ptr %warp) noinline nounwind {
  %operation = %warp->thread.operation
  loop %i < 32, else %same
  %thread = &%warp:%thread[%i]
  if %thread->thread.operation == %operation, else %torn
  next %i
same:
  if %operation != null, else %out
  void %operation(%warp)
  br label %out
torn:
  @fail(%launch, 700)
out:
  ret void
}

; A warp until it can do no more alone.
define internal void @run_warp(ptr %launch, ptr %warp, i64 %turn) noinline nounwind {
again:
  if @run_lanes(%launch, %warp, %turn) == 32, else ret void
  @perform(%launch, %warp)
  @release(%warp)
  if %launch->launch.error == 0, else ret void
  br label %again
}

; A new stack for each thread, which begins in `live`.
define internal void @prepare(ptr %launch, i64 %block) noinline nounwind {
  %threads = %launch->launch.threads
  %count = %launch->launch.count
  %stacks = %launch->launch.stacks
  %shared = %launch->launch.shared
  %block.narrow = trunc.i32(%block)
  loop %i < %count, else %end
  %thread = &%threads:%thread[%i]
  %thread->thread.tid = trunc.i32(%i)
  %thread->thread.block = %block.narrow
  %thread->thread.shared = %shared
  %thread->thread.launch = %launch
  %thread->thread.state = 0
  %thread->thread.count = 0
  @begin_copies(%thread)
  @begin_products(%thread)
  %thread->thread.barriers = 0
  %thread->thread.meetings = 0
  if %stacks != null, else %trip
  %frame = &%stacks:i8[(%i + 1) * {STACK} - {FRAME}]
  %function.p = &%frame:i8[{FUNCTION}]
  %function.p:ptr = @live
  %argument.p = &%frame:i8[{ARGUMENT}]
  %argument.p:ptr = %thread
  %place.p = &%frame:i8[{PLACE}]
  %place.p:ptr = @begin
  %thread->thread.stack = %frame
trip:
  next %i
}

; A block whose threads meet; an error of the launch if they can never go on.
define internal void @run_block(ptr %launch) noinline nounwind {
  %threads = %launch->launch.threads
  %count = %launch->launch.count
  %warps = %count >> 5
round:
  %launch->launch.progress = 0
  %first.warp = @random(%launch)
  %turn = @random(%launch)
  loop %i < %warps, else %all
  @run_warp(%launch, &%threads:%thread[(%i + %first.warp) mod %warps << 5], %turn)
  if %launch->launch.error == 0, else %leave
  next %i
all:
  @release_barriers(%launch)
  @copy_some(%launch, %launch->launch.progress)
  if @count(%threads, %count, 3) != %count, else %fine
  if %launch->launch.progress != 0, else %torn
  br label %round
fine:
  @end_copies(%launch)
  br label %leave
torn:
  @fail(%launch, 700)
leave:
  ret void
}

; A block whose threads never meet: one after the other, on this stack.
define internal void @run_alone(ptr %launch) noinline nounwind {
  %threads = %launch->launch.threads
  %count = %launch->launch.count
  %code = %launch->launch.code
  %given = %launch->launch.given
  loop %i < %count, else %end
  %thread = &%threads:%thread[%i]
  void %code(%given, %thread)
  next %i
}

; The stand-in for cuLaunchKernel: 0, 2 (no memory), or the number of a thread's fault.
define hidden i32 @cellc_emulated_launch(ptr %code, i64 %blocks, i64 %count, i64 %bytes,
                                         i1 %meets, ptr %stream, ptr %given) nounwind {
  %launch = alloca %launch
  %stacks.size = %count * {STACK}
  %threads = ptr {MALLOC}(i64 {THREADS})
  %place = %stream->emulator.shared
  %wanted = %meets ? %stacks.size : 16
  %queues = ptr {MALLOC}(%meets ? i64 {QUEUES} : 16)
  %stacks = ptr {MALLOC}(%wanted)
  %launch->launch.code = %code
  %launch->launch.given = %given
  %launch->launch.threads = %threads
  %launch->launch.count = %count
  %launch->launch.stacks = %meets ? %stacks : null
  %launch->launch.shared = %place
  %launch->launch.bytes = %bytes
  %launch->launch.queues = %queues
  %launch->launch.bulk = 0
  %launch->launch.error = 0
  %launch->launch.stream = %stream
  %launches = %stream->emulator.launches
  %stream->emulator.launches = %launches + 1
  %launch->launch.number = %launches
  %seed = %stream->emulator.seed
  %launch->launch.seed = %seed
  %launch->launch.random = %seed
  if %queues != null, else %poor
  if %threads != null, else %poor
  if %bytes <= {SHARED}, else %poor
  if %stacks != null, else %poor
  loop %block < %blocks, else %fine
  ptr {MEMSET}(%place, i32 255, %bytes)
  @prepare(%launch, %block)
  if %meets, else %alone
  @run_block(%launch)
  %failed = %launch->launch.error
  if %failed == 0, else %torn
  br label %trip
alone:
  @run_alone(%launch)
trip:
  next %block
poor:
  br label %leave
torn:
  %code.torn = trunc.i32(%failed)
  br label %leave
fine:
leave:
  %code.out = phi i32 [ 2, %poor ], [ %code.torn, %torn ], [ 0, %fine ]
  void {FREE}(%queues)
  void {FREE}(%threads)
  void {FREE}(%stacks)
  %before = %stream->emulator.error
  %now = zext.i64(%code.out)
  %stream->emulator.error = %before == 0 ? %now : %before
  ret %code.out
}

define hidden i32 @cellc_emulated_copy(ptr %to, ptr %source, i64 %nbytes, ptr %stream) nounwind {
  ptr {MEMMOVE}(%to, %source, %nbytes)
  ret 0
}

define hidden i32 @cellc_emulated_wait(ptr %stream) nounwind {
  ret 0
}
