"""Asynchronous copies and the barriers that count them.

A copy is done late: its destination holds NaN until then. Those of `cp.async` are done when their
thread waits for their group. Those of tensors (TMA) are done by the scheduler, one at a time (see
`fibers.py`), or, for a store, when its thread waits; a load then takes its bytes from what its
mbarrier still expects. A copy that nobody waited for when the block ends is an error: a GPU would
write into memory that is another's by then.

An mbarrier is 8 bytes of shared memory: the arrivals that are missing, how many it wants with its
phase below, and the bytes that copies still bring. A tensor map is what `cellc_emulated_tensor_map`
makes of the arguments of `cuTensorMapEncodeTiled`, which refuses what the driver would.
"""

from __future__ import annotations

THREAD_COPIES = 512
"""Copies that a thread may have under way."""
BULK_COPIES = 256
"""Copies of tensors that a block may have under way."""
_THREADS = 1024

STRUCTURES = {
    "copy": (("to", "ptr"), ("source", "ptr"), ("room", "i64"), ("bytes", "i64"),
             ("group", "i64")),
    # The number of its group among those of a thread, if it is a store (`barrier` is null).
    "bulk": (("map", "ptr"), ("shared", "ptr"), ("x", "i64"), ("y", "i64"), ("z", "i64"),
             ("barrier", "ptr"), ("thread", "ptr"), ("group", "i64")),
    "mbarrier": (("pending", "i16"), ("state", "i16"), ("bytes", "i32")),
    "map": (("base", "ptr"), ("itemsize", "i64"), ("size0", "i64"), ("size1", "i64"),
            ("size2", "i64"), ("stride1", "i64"), ("stride2", "i64"), ("box0", "i64"),
            ("box1", "i64"), ("swizzled", "i64")),
}
_COPY_BYTES, _BULK_BYTES = 40, 64

COPIES_AT = 0
BULK_AT = COPIES_AT + _THREADS * THREAD_COPIES * _COPY_BYTES
COPIES_END = BULK_AT + BULK_COPIES * _BULK_BYTES
"""Where in a launch's queues they lie."""

CODE = f"""
; --- cp.async -------------------------------------------------------------------------------------

define internal void @begin_copies(ptr %thread) nounwind {{
  set %thread.copies, ptr %thread = 0
  set %thread.groups, ptr %thread = 0
  set %thread.stores, ptr %thread = 0
  ret void
}}

define internal ptr @copies_of(ptr %thread) nounwind {{
  %launch = field %thread.launch, ptr %thread
  %queues = field %launch.queues, ptr %launch
  %tid = field %thread.tid, ptr %thread
  %tid.wide = zext i32 %tid to i64
  %first = mul i64 %tid.wide, {THREAD_COPIES}
  %all = getelementptr i8, ptr %queues, i64 {COPIES_AT}
  %own = getelementptr %copy, ptr %all, i64 %first
  ret ptr %own
}}

; Some bytes, followed by zeros up to `room`.
define hidden void @cellc_emulated_copy_async(ptr %thread, ptr %to, ptr %source, i32 %room,
                                              i32 %bytes) nounwind {{
  %launch = field %thread.launch, ptr %thread
  %count.p = place %thread.copies, ptr %thread
  %count = load i64, ptr %count.p
  if slt i64 %count, {THREAD_COPIES}, else %full
  %room.wide = zext i32 %room to i64
  %bytes.wide = zext i32 %bytes to i64
  %inside = call i1 @is_shared(ptr %launch, ptr %to, i64 %room.wide, i64 %room.wide)
  if %inside, else %outside
  %aligned = call i1 @is_multiple(ptr %source, i64 %room.wide)
  if %aligned, else %outside
  %own = call ptr @copies_of(ptr %thread)
  set %copy.to, ptr %own[%count] = %to
  set %copy.source, ptr %own[%count] = %source
  set %copy.room, ptr %own[%count] = %room.wide
  set %copy.bytes, ptr %own[%count] = %bytes.wide
  %current = field %thread.groups, ptr %thread
  set %copy.group, ptr %own[%count] = %current
  %more = add i64 %count, 1
  store i64 %more, ptr %count.p
  call ptr {{MEMSET}}(ptr %to, i32 255, i64 %room.wide)
  ret void
full:
  call void @fail(ptr %launch, i64 707)
  ret void
outside:
  call void @fail(ptr %launch, i64 704)
  ret void
}}

define hidden void @cellc_emulated_commit_copies(ptr %thread) nounwind {{
  count %thread.groups, ptr %thread
  ret void
}}

; Do the copies of all groups of the thread but the last ones.
define hidden void @cellc_emulated_wait_copies(ptr %thread, i32 %but) nounwind {{
  %own = call ptr @copies_of(ptr %thread)
  %count.p = place %thread.copies, ptr %thread
  %count = load i64, ptr %count.p
  %groups = field %thread.groups, ptr %thread
  %but.wide = zext i32 %but to i64
  %limit = sub i64 %groups, %but.wide
  %left.p = alloca i64
  store i64 0, ptr %left.p
  loop %i < %count, else %done
  %held = getelementptr %copy, ptr %own, i64 %i
  %group = field %copy.group, ptr %held
  if slt i64 %group, %limit, else %keep
  %to = field %copy.to, ptr %held
  %source = field %copy.source, ptr %held
  %room = field %copy.room, ptr %held
  %bytes = field %copy.bytes, ptr %held
  call ptr {{MEMCPY}}(ptr %to, ptr %source, i64 %bytes)
  %rest = sub i64 %room, %bytes
  %behind = getelementptr i8, ptr %to, i64 %bytes
  call ptr {{MEMSET}}(ptr %behind, i32 0, i64 %rest)
  br label %trip
keep:
  %left = load i64, ptr %left.p
  %there = getelementptr %copy, ptr %own, i64 %left
  call ptr {{MEMMOVE}}(ptr %there, ptr %held, i64 {_COPY_BYTES})
  %one.more = add i64 %left, 1
  store i64 %one.more, ptr %left.p
  br label %trip
trip:
  next %i
done:
  %kept = load i64, ptr %left.p
  store i64 %kept, ptr %count.p
  ret void
}}

; --- what lies where ------------------------------------------------------------------------------

define internal i1 @is_multiple(ptr %p, i64 %align) nounwind {{
  %address = ptrtoint ptr %p to i64
  %rest = urem i64 %address, %align
  %fine = icmp eq i64 %rest, 0
  ret i1 %fine
}}

; Whether bytes are in the block's shared memory and begin at a multiple.
define internal i1 @is_shared(ptr %launch, ptr %p, i64 %bytes, i64 %align) nounwind {{
  %shared = field %launch.shared, ptr %launch
  %size = field %launch.bytes, ptr %launch
  %from = ptrtoint ptr %shared to i64
  %address = ptrtoint ptr %p to i64
  %at = sub i64 %address, %from
  %end = add i64 %at, %bytes
  %rest = urem i64 %at, %align
  %above = icmp sge i64 %at, 0
  %below = icmp sle i64 %end, %size
  %multiple = icmp eq i64 %rest, 0
  %inside = and i1 %above, %below
  %fine = and i1 %inside, %multiple
  ret i1 %fine
}}

; --- mbarriers ------------------------------------------------------------------------------------

define hidden void @cellc_emulated_mbarrier_init(ptr %thread, ptr %barrier, i32 %count) nounwind {{
  %narrow = trunc i32 %count to i16
  set %mbarrier.pending, ptr %barrier = %narrow
  %state = shl i16 %narrow, 1
  set %mbarrier.state, ptr %barrier = %state
  set %mbarrier.bytes, ptr %barrier = 0
  %launch = field %thread.launch, ptr %thread
  %fine = call i1 @is_shared(ptr %launch, ptr %barrier, i64 8, i64 8)
  if %fine, else %outside
  ret void
outside:
  call void @fail(ptr %launch, i64 704)
  ret void
}}

; Whether there is one; else an error. Where nothing was written all bits are set.
define internal i1 @is_mbarrier(ptr %launch, ptr %barrier) nounwind {{
  %pending = field %mbarrier.pending, ptr %barrier
  %state = field %mbarrier.state, ptr %barrier
  %some = icmp sge i16 %pending, 0
  %wants = icmp sgt i16 %state, 1
  %fine = and i1 %some, %wants
  if %fine, else %none
  ret i1 true
none:
  call void @fail(ptr %launch, i64 705)
  ret i1 false
}}

; The next phase begins where neither arrivals nor bytes are missing.
define internal void @complete(ptr %launch, ptr %barrier) nounwind {{
  call void @progress(ptr %launch)
  %pending.p = place %mbarrier.pending, ptr %barrier
  %pending = load i16, ptr %pending.p
  if eq i16 %pending, 0, else %out
  %bytes = field %mbarrier.bytes, ptr %barrier
  if eq i32 %bytes, 0, else %out
  %state.p = place %mbarrier.state, ptr %barrier
  %state = load i16, ptr %state.p
  %flipped = xor i16 %state, 1
  store i16 %flipped, ptr %state.p
  %count = lshr i16 %flipped, 1
  store i16 %count, ptr %pending.p
out:
  ret void
}}

; One arrival, and bytes that are to come besides.
define hidden void @cellc_emulated_mbarrier_arrive(ptr %thread, ptr %barrier,
                                                   i32 %more) nounwind {{
  %launch = field %thread.launch, ptr %thread
  %fine = call i1 @is_mbarrier(ptr %launch, ptr %barrier)
  if %fine, else %out
  %pending.p = place %mbarrier.pending, ptr %barrier
  %pending = load i16, ptr %pending.p
  if ne i16 %pending, 0, else %many
  %less = sub i16 %pending, 1
  store i16 %less, ptr %pending.p
  %bytes.p = place %mbarrier.bytes, ptr %barrier
  %bytes = load i32, ptr %bytes.p
  %sum = add i32 %bytes, %more
  store i32 %sum, ptr %bytes.p
  call void @complete(ptr %launch, ptr %barrier)
  ret void
many:
  call void @fail(ptr %launch, i64 706)
  ret void
out:
  ret void
}}

; Until the phase of a parity is over.
define hidden void @cellc_emulated_mbarrier_wait(ptr %thread, ptr %barrier,
                                                 i32 %parity) nounwind {{
  %launch = field %thread.launch, ptr %thread
again:
  %fine = call i1 @is_mbarrier(ptr %launch, ptr %barrier)
  if %fine, else %spin
  %state = field %mbarrier.state, ptr %barrier
  %wide = zext i16 %state to i32
  %phase = and i32 %wide, 1
  if ne i32 %phase, %parity, else %spin
  call void @progress(ptr %launch)
  ret void
spin:
  call void @wait(ptr %thread, i32 4)
  br label %again
}}

; --- tensors --------------------------------------------------------------------------------------

; cuTensorMapEncodeTiled: two or three axes, elements of 2 or 4 bytes, no or 128 bytes' swizzle.
define hidden i32 @cellc_emulated_tensor_map(ptr %map, i32 %type, i32 %rank, ptr %base, ptr %sizes,
    ptr %strides, ptr %box, ptr %steps, i32 %interleave, i32 %swizzle, i32 %l2,
    i32 %fill) nounwind {{
  %least = icmp uge i32 %rank, 2
  %most = icmp ule i32 %rank, 3
  %ranked = and i1 %least, %most
  if %ranked, else %bad
  %half = icmp eq i32 %type, 6
  %brain = icmp eq i32 %type, 9
  %float = icmp eq i32 %type, 7
  %short = or i1 %half, %brain
  %known = or i1 %short, %float
  if %known, else %bad
  %itemsize = select i1 %short, i64 2, i64 4
  %based = call i1 @is_multiple(ptr %base, i64 16)
  if %based, else %bad
  %placed = call i1 @is_multiple(ptr %map, i64 64)
  if %placed, else %bad
  if eq i32 %interleave, 0, else %bad
  %plain = icmp eq i32 %swizzle, 0
  %wide = icmp eq i32 %swizzle, 3
  %swizzles = or i1 %plain, %wide
  if %swizzles, else %bad
  %extent0 = item i64, ptr %sizes[0]
  %extent1 = item i64, ptr %sizes[1]
  %distance1 = item i64, ptr %strides[0]
  %narrow0 = item i32, ptr %box[0]
  %narrow1 = item i32, ptr %box[1]
  %inner = zext i32 %narrow0 to i64
  %outer = zext i32 %narrow1 to i64
  %row = mul i64 %inner, %itemsize
  %rest = and i64 %row, 15
  if eq i64 %rest, 0, else %bad
  %high = icmp ule i64 %row, 128
  %roomy = or i1 %plain, %high
  if %roomy, else %bad
  %narrow0.less = sub i64 %inner, 1
  if ult i64 %narrow0.less, 256, else %bad
  %narrow1.less = sub i64 %outer, 1
  if ult i64 %narrow1.less, 256, else %bad
  %distance1.rest = and i64 %distance1, 15
  if eq i64 %distance1.rest, 0, else %bad
  if ne i64 %extent0, 0, else %bad
  if ne i64 %extent1, 0, else %bad
  set %map.base, ptr %map = %base
  set %map.itemsize, ptr %map = %itemsize
  set %map.size0, ptr %map = %extent0
  set %map.size1, ptr %map = %extent1
  set %map.stride1, ptr %map = %distance1
  set %map.box0, ptr %map = %inner
  set %map.box1, ptr %map = %outer
  %swizzled = zext i1 %wide to i64
  set %map.swizzled, ptr %map = %swizzled
  %size2.p = place %map.size2, ptr %map
  store i64 1, ptr %size2.p
  %stride2.p = place %map.stride2, ptr %map
  store i64 0, ptr %stride2.p
  if eq i32 %rank, 3, else %fine
  %extent2 = item i64, ptr %sizes[2]
  store i64 %extent2, ptr %size2.p
  %distance2 = item i64, ptr %strides[1]
  store i64 %distance2, ptr %stride2.p
  %distance2.rest = and i64 %distance2, 15
  if eq i64 %distance2.rest, 0, else %bad
  if ne i64 %extent2, 0, else %bad
  %narrow2 = item i32, ptr %box[2]
  if eq i32 %narrow2, 1, else %bad
fine:
  ret i32 0
bad:
  ret i32 1
}}

; Append a copy to the queue; an error where shared memory does not lie as it must.
define internal void @queue(ptr %thread, ptr %map, ptr %shared, i32 %x, i32 %y, i32 %z,
                            ptr %barrier) noinline nounwind {{
  %launch = field %thread.launch, ptr %thread
  %count.p = place %launch.bulk, ptr %launch
  %count = load i64, ptr %count.p
  if slt i64 %count, {BULK_COPIES}, else %full
  %swizzled = field %map.swizzled, ptr %map
  %one = icmp eq i64 %swizzled, 0
  %multiple = select i1 %one, i64 128, i64 1024
  %bytes = call i64 @box_bytes(ptr %map)
  %inside = call i1 @is_shared(ptr %launch, ptr %shared, i64 %bytes, i64 %multiple)
  if %inside, else %outside
  %queues = field %launch.queues, ptr %launch
  %all = getelementptr i8, ptr %queues, i64 {BULK_AT}
  set %bulk.map, ptr %all[%count] = %map
  set %bulk.shared, ptr %all[%count] = %shared
  %x.wide = sext i32 %x to i64
  set %bulk.x, ptr %all[%count] = %x.wide
  %y.wide = sext i32 %y to i64
  set %bulk.y, ptr %all[%count] = %y.wide
  %z.wide = sext i32 %z to i64
  set %bulk.z, ptr %all[%count] = %z.wide
  set %bulk.barrier, ptr %all[%count] = %barrier
  set %bulk.thread, ptr %all[%count] = %thread
  %current = field %thread.stores, ptr %thread
  set %bulk.group, ptr %all[%count] = %current
  %more = add i64 %count, 1
  store i64 %more, ptr %count.p
  ret void
full:
  call void @fail(ptr %launch, i64 707)
  ret void
outside:
  call void @fail(ptr %launch, i64 704)
  ret void
}}

define internal i64 @box_bytes(ptr %map) nounwind {{
  %itemsize = field %map.itemsize, ptr %map
  %inner = field %map.box0, ptr %map
  %outer = field %map.box1, ptr %map
  %row = mul i64 %inner, %itemsize
  %bytes = mul i64 %row, %outer
  ret i64 %bytes
}}

define hidden void @cellc_emulated_tensor_load(ptr %thread, ptr %to, ptr %map, i32 %x, i32 %y,
                                               i32 %z, ptr %barrier) nounwind {{
  %launch = field %thread.launch, ptr %thread
  %fine = call i1 @is_mbarrier(ptr %launch, ptr %barrier)
  if %fine, else %out
  call void @queue(ptr %thread, ptr %map, ptr %to, i32 %x, i32 %y, i32 %z, ptr %barrier)
  %error = field %launch.error, ptr %launch
  if eq i64 %error, 0, else %out
  %bytes = call i64 @box_bytes(ptr %map)
  call ptr {{MEMSET}}(ptr %to, i32 255, i64 %bytes)
out:
  ret void
}}

define hidden void @cellc_emulated_tensor_store(ptr %thread, ptr %map, i32 %x, i32 %y, i32 %z,
                                                ptr %source) nounwind {{
  call void @queue(ptr %thread, ptr %map, ptr %source, i32 %x, i32 %y, i32 %z, ptr null)
  ret void
}}

define hidden void @cellc_emulated_commit_stores(ptr %thread) nounwind {{
  count %thread.stores, ptr %thread
  ret void
}}

; Do the stores of all groups of the thread but the last ones.
define hidden void @cellc_emulated_wait_stores(ptr %thread, i32 %but) nounwind {{
  %launch = field %thread.launch, ptr %thread
  %queues = field %launch.queues, ptr %launch
  %all = getelementptr i8, ptr %queues, i64 {BULK_AT}
  %stores = field %thread.stores, ptr %thread
  %but.wide = zext i32 %but to i64
  %limit = sub i64 %stores, %but.wide
again:
  %count = field %launch.bulk, ptr %launch
  loop %i < %count, else %out
  %owner = field %bulk.thread, ptr %all[%i]
  if eq ptr %owner, %thread, else %trip
  %barrier = field %bulk.barrier, ptr %all[%i]
  if eq ptr %barrier, null, else %trip
  %group = field %bulk.group, ptr %all[%i]
  if slt i64 %group, %limit, else %trip
  call void @copy_one(ptr %launch, i64 %i)
  br label %again
trip:
  next %i
out:
  ret void
}}

; Of the copies under way one, where nothing else moved, or sometimes.
define internal void @copy_some(ptr %launch, i64 %moved) noinline nounwind {{
  %count = field %launch.bulk, ptr %launch
  if ne i64 %count, 0, else %out
  %random = call i64 @random(ptr %launch)
  %third = urem i64 %random, 3
  %chosen = icmp eq i64 %third, 1
  %still = icmp eq i64 %moved, 0
  %now = or i1 %chosen, %still
  if %now, else %out
  %number = call i64 @random(ptr %launch)
  %which = urem i64 %number, %count
  call void @copy_one(ptr %launch, i64 %which)
  call void @progress(ptr %launch)
out:
  ret void
}}

; The copy of a number; the last one takes its place.
define internal void @copy_one(ptr %launch, i64 %number) noinline nounwind {{
  %queues = field %launch.queues, ptr %launch
  %all = getelementptr i8, ptr %queues, i64 {BULK_AT}
  %map = field %bulk.map, ptr %all[%number]
  %shared = field %bulk.shared, ptr %all[%number]
  %x = field %bulk.x, ptr %all[%number]
  %y = field %bulk.y, ptr %all[%number]
  %z = field %bulk.z, ptr %all[%number]
  %barrier = field %bulk.barrier, ptr %all[%number]
  %count.p = place %launch.bulk, ptr %launch
  %count = load i64, ptr %count.p
  %less = sub i64 %count, 1
  store i64 %less, ptr %count.p
  %own = getelementptr %bulk, ptr %all, i64 %number
  %last = getelementptr %bulk, ptr %all, i64 %less
  call ptr {{MEMMOVE}}(ptr %own, ptr %last, i64 {_BULK_BYTES})
  %loads = icmp ne ptr %barrier, null
  %base = field %launch.shared, ptr %launch
  call void @copy_box(ptr %map, ptr %base, ptr %shared, i64 %x, i64 %y, i64 %z, i1 %loads)
  if %loads, else %out
  %bytes = call i64 @box_bytes(ptr %map)
  %narrow = trunc i64 %bytes to i32
  %expected.p = place %mbarrier.bytes, ptr %barrier
  %expected = load i32, ptr %expected.p
  %left = sub i32 %expected, %narrow
  store i32 %left, ptr %expected.p
  call void @complete(ptr %launch, ptr %barrier)
out:
  ret void
}}

; A box, 16 bytes at a time; outside of the tensor are zeros, and nothing is stored.
define internal void @copy_box(ptr %map, ptr %base, ptr %shared, i64 %x, i64 %y, i64 %z,
                               i1 %loads) noinline nounwind {{
  %itemsize = field %map.itemsize, ptr %map
  %inner = field %map.box0, ptr %map
  %outer = field %map.box1, ptr %map
  %row = mul i64 %inner, %itemsize
  %chunks = lshr i64 %row, 4
  %from = ptrtoint ptr %base to i64
  %to = ptrtoint ptr %shared to i64
  %start = sub i64 %to, %from
  %swizzled = field %map.swizzled, ptr %map
  loop %r < %outer, else %out
  loop %c < %chunks, else %row.done
  %row.at = mul i64 %r, %row
  %chunk.at = shl i64 %c, 4
  %in.box = add i64 %row.at, %chunk.at
  %linear = add i64 %start, %in.box
  %line = lshr i64 %linear, 7
  %line.bits = and i64 %line, 7
  %line.chunk = shl i64 %line.bits, 4
  %flips = mul i64 %line.chunk, %swizzled
  %at = xor i64 %linear, %flips
  %place = getelementptr i8, ptr %base, i64 %at
  %before = udiv i64 %chunk.at, %itemsize
  %element = add i64 %x, %before
  %line.y = add i64 %y, %r
  %valid = call i64 @bytes_inside(ptr %map, i64 %element, i64 %line.y, i64 %z)
  %global = call ptr @element_of(ptr %map, i64 %element, i64 %line.y, i64 %z)
  if %loads, else %stores
  call ptr {{MEMSET}}(ptr %place, i32 0, i64 16)
  call ptr {{MEMCPY}}(ptr %place, ptr %global, i64 %valid)
  br label %chunk.done
stores:
  call ptr {{MEMCPY}}(ptr %global, ptr %place, i64 %valid)
  br label %chunk.done
chunk.done:
  next %c
row.done:
  next %r
out:
  ret void
}}

; How many of 16 bytes from an element on are in the tensor.
define internal i64 @bytes_inside(ptr %map, i64 %x, i64 %y, i64 %z) nounwind {{
  %size0 = field %map.size0, ptr %map
  %size1 = field %map.size1, ptr %map
  %size2 = field %map.size2, ptr %map
  if ult i64 %x, %size0, else %none
  if ult i64 %y, %size1, else %none
  if ult i64 %z, %size2, else %none
  %left = sub i64 %size0, %x
  %itemsize = field %map.itemsize, ptr %map
  %bytes = mul i64 %left, %itemsize
  %few = icmp ult i64 %bytes, 16
  %valid = select i1 %few, i64 %bytes, i64 16
  ret i64 %valid
none:
  ret i64 0
}}

define internal ptr @element_of(ptr %map, i64 %x, i64 %y, i64 %z) nounwind {{
  %base = field %map.base, ptr %map
  %itemsize = field %map.itemsize, ptr %map
  %stride1 = field %map.stride1, ptr %map
  %stride2 = field %map.stride2, ptr %map
  %along = mul i64 %x, %itemsize
  %across = mul i64 %y, %stride1
  %deep = mul i64 %z, %stride2
  %plane = add i64 %along, %across
  %at = add i64 %plane, %deep
  %element = getelementptr i8, ptr %base, i64 %at
  ret ptr %element
}}

; --- the end of a block ---------------------------------------------------------------------------

define internal void @end_copies(ptr %launch) noinline nounwind {{
  %bulk = field %launch.bulk, ptr %launch
  if eq i64 %bulk, 0, else %left
  %threads = field %launch.threads, ptr %launch
  %count = field %launch.count, ptr %launch
  loop %i < %count, else %fine
  %copies = field %thread.copies, ptr %threads[%i]
  if eq i64 %copies, 0, else %left
  %products = field %thread.products, ptr %threads[%i]
  if eq i64 %products, 0, else %left
  next %i
left:
  call void @fail(ptr %launch, i64 708)
  ret void
fine:
  ret void
}}
"""
