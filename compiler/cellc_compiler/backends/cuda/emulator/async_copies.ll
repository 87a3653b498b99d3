; Asynchronous copies, mbarriers and tensor maps; `async_copies.py` says what they are.

; --- cp.async -------------------------------------------------------------------------------------

define internal void @begin_copies(ptr %thread) nounwind {
  %thread->thread.copies = 0
  %thread->thread.groups = 0
  %thread->thread.stores = 0
}

define internal ptr @copies_of(ptr %thread) nounwind {
  %all = &%thread->thread.launch->launch.queues:i8[{COPIES_AT}]
  ret &%all:%copy[zext.i64(%thread->thread.tid) * {THREAD_COPIES}]
}

; Some bytes, followed by zeros up to `room`.
define hidden void @cellc_emulated_copy_async(ptr %thread, ptr %to, ptr %source, i32 %room,
                                              i32 %bytes) nounwind {
  %launch = %thread->thread.launch
  %count = %thread->thread.copies
  if %count < {THREAD_COPIES}, else @fail(%launch, 707); ret void
  %room.wide = zext.i64(%room)
  %bytes.wide = zext.i64(%bytes)
  if @is_shared(%launch, %to, %room.wide, %room.wide), else @fail(%launch, 704); ret void
  if @is_multiple(%source, %room.wide), else @fail(%launch, 704); ret void
  %own = @copies_of(%thread)
  %own[%count]->copy.to = %to
  %own[%count]->copy.source = %source
  %own[%count]->copy.room = %room.wide
  %own[%count]->copy.bytes = %bytes.wide
  %own[%count]->copy.group = %thread->thread.groups
  %thread->thread.copies = %count + 1
  ptr {MEMSET}(%to, i32 255, %room.wide)
}

define hidden void @cellc_emulated_commit_copies(ptr %thread) nounwind {
  %thread->thread.groups += 1
}

; Do the copies of all groups of the thread but the last ones.
define hidden void @cellc_emulated_wait_copies(ptr %thread, i32 %but) nounwind {
  %own = @copies_of(%thread)
  %count = %thread->thread.copies
  %limit = %thread->thread.groups - zext.i64(%but)
  %left.p = alloca i64
  %left.p:i64 = 0
  loop %i < %count, else %done
  %held = &%own:%copy[%i]
  if %held->copy.group < %limit, else %keep
  %to = %held->copy.to
  %source = %held->copy.source
  %room = %held->copy.room
  %bytes = %held->copy.bytes
  ptr {MEMCPY}(%to, %source, %bytes)
  %rest = %room - %bytes
  ptr {MEMSET}(&%to:i8[%bytes], i32 0, %rest)
  br label %trip
keep:
  %left = %left.p:i64
  ptr {MEMMOVE}(&%own:%copy[%left], %held, i64 {COPY_BYTES})
  %left.p:i64 = %left + 1
trip:
  next %i
done:
  %thread->thread.copies = %left.p:i64
}

; --- what lies where ------------------------------------------------------------------------------

define internal i1 @is_multiple(ptr %p, i64 %align) nounwind {
  ret ptrtoint.i64(%p) mod %align == 0
}

; Whether bytes are in the block's shared memory and begin at a multiple.
define internal i1 @is_shared(ptr %launch, ptr %p, i64 %bytes, i64 %align) nounwind {
  %size = %launch->launch.bytes
  %at = ptrtoint.i64(%p) - ptrtoint.i64(%launch->launch.shared)
  %end = %at + %bytes
  %rest = %at mod %align
  %above = %at >= 0
  %below = %end <= %size
  %multiple = %rest == 0
  ret %above & %below & %multiple
}

; --- mbarriers ------------------------------------------------------------------------------------

define hidden void @cellc_emulated_mbarrier_init(ptr %thread, ptr %barrier, i32 %count) nounwind {
  %narrow = trunc.i16(%count)
  %barrier->mbarrier.pending = %narrow
  %barrier->mbarrier.state = %narrow << 1
  %barrier->mbarrier.bytes = 0
  %launch = %thread->thread.launch
  if @is_shared(%launch, %barrier, 8, 8), else @fail(%launch, 704); ret void
}

; Whether there is one; else an error. Where nothing was written all bits are set.
define internal i1 @is_mbarrier(ptr %launch, ptr %barrier) nounwind {
  if %barrier->mbarrier.pending >= 0 & %barrier->mbarrier.state > 1, else %none
  ret true
none:
  @fail(%launch, 705)
  ret false
}

; The next phase begins where neither arrivals nor bytes are missing.
define internal void @complete(ptr %launch, ptr %barrier) nounwind {
  @progress(%launch)
  if %barrier->mbarrier.pending == 0, else %end
  if %barrier->mbarrier.bytes == 0, else %end
  %flipped = %barrier->mbarrier.state ^ 1
  %barrier->mbarrier.state = %flipped
  %barrier->mbarrier.pending = %flipped >> 1
}

; One arrival, and bytes that are to come besides.
define hidden void @cellc_emulated_mbarrier_arrive(ptr %thread, ptr %barrier,
                                                   i32 %more) nounwind {
  %launch = %thread->thread.launch
  if @is_mbarrier(%launch, %barrier), else ret void
  %pending = %barrier->mbarrier.pending
  if %pending != 0, else @fail(%launch, 706); ret void
  %barrier->mbarrier.pending = %pending - 1
  %barrier->mbarrier.bytes += %more
  @complete(%launch, %barrier)
}

; Until the phase of a parity is over.
define hidden void @cellc_emulated_mbarrier_wait(ptr %thread, ptr %barrier,
                                                 i32 %parity) nounwind {
  %launch = %thread->thread.launch
again:
  if @is_mbarrier(%launch, %barrier), else %spin
  if (zext.i32(%barrier->mbarrier.state) & 1) != %parity, else %spin
  @progress(%launch)
  ret void
spin:
  @wait(%thread, 4)
  br label %again
}

; --- tensors --------------------------------------------------------------------------------------

; cuTensorMapEncodeTiled: two or three axes, elements of 2 or 4 bytes, no or 128 bytes' swizzle.
define hidden i32 @cellc_emulated_tensor_map(ptr %map, i32 %type, i32 %rank, ptr %base, ptr %sizes,
    ptr %strides, ptr %box, ptr %steps, i32 %interleave, i32 %swizzle, i32 %l2,
    i32 %fill) nounwind {
  if %rank >=u 2 & %rank <=u 3, else ret 1
  %half = %type == 6
  %brain = %type == 9
  %float = %type == 7
  %short = %half | %brain
  if %short | %float, else ret 1
  %itemsize = %short ? i64 2 : 4
  if @is_multiple(%base, 16), else ret 1
  if @is_multiple(%map, 64), else ret 1
  if %interleave == 0, else ret 1
  %plain = %swizzle == 0
  %wide = %swizzle == 3
  if %plain | %wide, else ret 1
  %extent0 = %sizes:i64[0]
  %extent1 = %sizes:i64[1]
  %distance1 = %strides:i64[0]
  %inner = zext.i64(%box:i32[0])
  %outer = zext.i64(%box:i32[1])
  %row = %inner * %itemsize
  if (%row & 15) == 0, else ret 1
  if %plain | %row <=u 128, else ret 1
  if %inner - 1 <u 256, else ret 1
  if %outer - 1 <u 256, else ret 1
  if (%distance1 & 15) == 0, else ret 1
  if %extent0 != 0, else ret 1
  if %extent1 != 0, else ret 1
  %map->map.base = %base
  %map->map.itemsize = %itemsize
  %map->map.size0 = %extent0
  %map->map.size1 = %extent1
  %map->map.stride1 = %distance1
  %map->map.box0 = %inner
  %map->map.box1 = %outer
  %map->map.swizzled = zext.i64(%wide)
  %map->map.size2 = 1
  %map->map.stride2 = 0
  if %rank == 3, else %fine
  %extent2 = %sizes:i64[2]
  %map->map.size2 = %extent2
  %distance2 = %strides:i64[1]
  %map->map.stride2 = %distance2
  if (%distance2 & 15) == 0, else ret 1
  if %extent2 != 0, else ret 1
  if %box:i32[2] == 1, else ret 1
fine:
  ret 0
}

; Append a copy to the queue; an error where shared memory does not lie as it must.
define internal void @queue(ptr %thread, ptr %map, ptr %shared, i32 %x, i32 %y, i32 %z,
                            ptr %barrier) noinline nounwind {
  %launch = %thread->thread.launch
  %count = %launch->launch.bulk
  if %count < {BULK_COPIES}, else @fail(%launch, 707); ret void
  %multiple = %map->map.swizzled == 0 ? i64 128 : 1024
  if @is_shared(%launch, %shared, @box_bytes(%map), %multiple), else @fail(%launch, 704); ret void
  %all = &%launch->launch.queues:i8[{BULK_AT}]
  %all[%count]->bulk.map = %map
  %all[%count]->bulk.shared = %shared
  %all[%count]->bulk.x = sext.i64(%x)
  %all[%count]->bulk.y = sext.i64(%y)
  %all[%count]->bulk.z = sext.i64(%z)
  %all[%count]->bulk.barrier = %barrier
  %all[%count]->bulk.thread = %thread
  %all[%count]->bulk.group = %thread->thread.stores
  %launch->launch.bulk = %count + 1
}

define internal i64 @box_bytes(ptr %map) nounwind {
  ret %map->map.box0 * %map->map.itemsize * %map->map.box1
}

define hidden void @cellc_emulated_tensor_load(ptr %thread, ptr %to, ptr %map, i32 %x, i32 %y,
                                               i32 %z, ptr %barrier) nounwind {
  %launch = %thread->thread.launch
  if @is_mbarrier(%launch, %barrier), else %end
  @queue(%thread, %map, %to, %x, %y, %z, %barrier)
  if %launch->launch.error == 0, else %end
  ptr {MEMSET}(%to, i32 255, @box_bytes(%map))
}

define hidden void @cellc_emulated_tensor_store(ptr %thread, ptr %map, i32 %x, i32 %y, i32 %z,
                                                ptr %source) nounwind {
  @queue(%thread, %map, %source, %x, %y, %z, null)
}

define hidden void @cellc_emulated_commit_stores(ptr %thread) nounwind {
  %thread->thread.stores += 1
}

; Do the stores of all groups of the thread but the last ones.
define hidden void @cellc_emulated_wait_stores(ptr %thread, i32 %but) nounwind {
  %launch = %thread->thread.launch
  %all = &%launch->launch.queues:i8[{BULK_AT}]
  %limit = %thread->thread.stores - zext.i64(%but)
again:
  %count = %launch->launch.bulk
  loop %i < %count, else %end
  if %all[%i]->bulk.thread == %thread, else %trip
  if %all[%i]->bulk.barrier == null, else %trip
  if %all[%i]->bulk.group < %limit, else %trip
  @copy_one(%launch, %i)
  br label %again
trip:
  next %i
}

; Of the copies under way one, where nothing else moved, or sometimes.
define internal void @copy_some(ptr %launch, i64 %moved) noinline nounwind {
  %count = %launch->launch.bulk
  if %count != 0, else %end
  if @random(%launch) mod 3 == 1 | %moved == 0, else %end
  @copy_one(%launch, @random(%launch) mod %count)
  @progress(%launch)
}

; The copy of a number; the last one takes its place.
define internal void @copy_one(ptr %launch, i64 %number) noinline nounwind {
  %all = &%launch->launch.queues:i8[{BULK_AT}]
  %map = %all[%number]->bulk.map
  %shared = %all[%number]->bulk.shared
  %x = %all[%number]->bulk.x
  %y = %all[%number]->bulk.y
  %z = %all[%number]->bulk.z
  %barrier = %all[%number]->bulk.barrier
  %less = %launch->launch.bulk - 1
  %launch->launch.bulk = %less
  ptr {MEMMOVE}(&%all:%bulk[%number], &%all:%bulk[%less], i64 {BULK_BYTES})
  %loads = %barrier != null
  @copy_box(%map, %launch->launch.shared, %shared, %x, %y, %z, %loads)
  if %loads, else %end
  %narrow = trunc.i32(@box_bytes(%map))
  %barrier->mbarrier.bytes -= %narrow
  @complete(%launch, %barrier)
}

; A box, 16 bytes at a time; outside of the tensor are zeros, and nothing is stored.
define internal void @copy_box(ptr %map, ptr %base, ptr %shared, i64 %x, i64 %y, i64 %z,
                               i1 %loads) noinline nounwind {
  %itemsize = %map->map.itemsize
  %inner = %map->map.box0
  %outer = %map->map.box1
  %row = %inner * %itemsize
  %chunks = %row >> 4
  %start = ptrtoint.i64(%shared) - ptrtoint.i64(%base)
  %swizzled = %map->map.swizzled
  loop %r < %outer, else %end
  loop %c < %chunks, else %row.done
  %chunk.at = %c << 4
  %linear = %start + (%r * %row + %chunk.at)
  %place = &%base:i8[%linear ^ ((%linear >> 7 & 7) << 4) * %swizzled]
  %element = %x + %chunk.at / %itemsize
  %line.y = %y + %r
  %valid = @bytes_inside(%map, %element, %line.y, %z)
  %global = @element_of(%map, %element, %line.y, %z)
  if %loads, else %stores
  ptr {MEMSET}(%place, i32 0, i64 16)
  ptr {MEMCPY}(%place, %global, %valid)
  br label %chunk.done
stores:
  ptr {MEMCPY}(%global, %place, %valid)
chunk.done:
  next %c
row.done:
  next %r
}

; How many of 16 bytes from an element on are in the tensor.
define internal i64 @bytes_inside(ptr %map, i64 %x, i64 %y, i64 %z) nounwind {
  %size0 = %map->map.size0
  %size1 = %map->map.size1
  %size2 = %map->map.size2
  if %x <u %size0, else ret 0
  if %y <u %size1, else ret 0
  if %z <u %size2, else ret 0
  %bytes = (%size0 - %x) * %map->map.itemsize
  ret %bytes <u 16 ? %bytes : 16
}

define internal ptr @element_of(ptr %map, i64 %x, i64 %y, i64 %z) nounwind {
  %base = %map->map.base
  %at = %x * %map->map.itemsize + %y * %map->map.stride1 + %z * %map->map.stride2
  ret &%base:i8[%at]
}

; --- the end of a block ---------------------------------------------------------------------------

define internal void @end_copies(ptr %launch) noinline nounwind {
  if %launch->launch.bulk == 0, else %left
  %threads = %launch->launch.threads
  %count = %launch->launch.count
  loop %i < %count, else %end
  if %threads[%i]->thread.copies == 0, else %left
  if %threads[%i]->thread.products == 0, else %left
  next %i
left:
  @fail(%launch, 708)
  ret void
}
