; The functions of the allocator; `blocks.py` says how it works.

; Take block i out of the list; the later ones move up.
define internal ptr @kept_take(i64 %i) nounwind {
  %count = @kept.count:i64
  %data = @kept.data:ptr[%i]
  @kept.bytes:i64 -= @kept.size:i64[%i]
  %last = %count - 1
  @kept.count:i64 = %last
head:
  %at = phi i64 [ %i, %entry ], [ %next, %move ]
  br %at < %last, %move, %out
move:
  %next = %at + 1
  @kept.data:ptr[%at] = @kept.data:ptr[%next]
  @kept.size:i64[%at] = @kept.size:i64[%next]
  br label %head
out:
  ret %data
}

define internal void @block_free(ptr %data) nounwind {
  %raw.p = &%data:i8[-{HEADER}]
  void {FREE}(%raw.p:ptr)
}

; Give kept blocks back to the system, the oldest first, until live + kept + more <= limit.
define internal void @kept_shrink(i64 %more, i64 %limit) nounwind {
head:
  if @kept.count:i64 > 0 & @live.bytes:i64 + @kept.bytes:i64 + %more > %limit, else ret void
  @block_free(@kept_take(0))
  br label %head
}

; The smallest kept block that fits with little to spare, or -1.
define internal i64 @kept_find(i64 %need) nounwind {
  %count = @kept.count:i64
  %above = %need + (%need >> 3) + 1
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %look ]
  %best = phi i64 [ -1, %entry ], [ %best1, %look ]
  %bestsize = phi i64 [ %above, %entry ], [ %bestsize1, %look ]
  br %i < %count, %look, %out
look:
  %size = @kept.size:i64[%i]
  %take = %size >= %need & %size < %bestsize
  %best1 = %take ? %i : %best
  %bestsize1 = %take ? %size : %bestsize
  %i1 = %i + 1
  br label %head
out:
  ret %best
}

define internal void @count_live(i64 %more) nounwind {
  %now = @live.bytes:i64 + %more
  @live.bytes:i64 = %now
  %peak = @live.peak:i64
  @live.peak:i64 = %now > %peak ? %now : %peak
}

; A new block of `need` bytes from the system, or null.
define internal ptr @block_new(i64 %need) nounwind {
  %raw = ptr {MALLOC}(%need + {PADDING})
  if %raw != null, else ret null
  %at = ptrtoint.i64(%raw) + {PADDING} & -64
  %data = inttoptr.ptr(%at)
  %raw.p = &%data:i8[-{HEADER}]
  %raw.p:ptr = %raw
  %size.p = &%raw.p:i8[8]
  %size.p:i64 = %need
  %huge = %need >= 4194304
  %madvise = {MADVISE}:ptr
  if %huge & %madvise != null, else %done
  ; Huge pages (14: MADV_HUGEPAGE of Linux) for the whole pages inside; an error changes nothing.
  %lo = %at + 4095 & -4096
  %rc = i32 %madvise(inttoptr.ptr(%lo), (%at + %need & -4096) - %lo, i32 14)
done:
  ret %data
}

define hidden ptr @cellc_block_malloc(ptr %ctx, i64 %size) nounwind {
  %need = %size + 4095 & -4096
  %i = @kept_find(%need)
  if %i >= 0, else %fresh
  %old = @kept_take(%i)
  %size.p = &%old:i8[{SIZE_AT}]
  @count_live(%size.p:i64)
  ret %old
fresh:
  %peak = @live.peak:i64
  %slack = @limit.slack:i64
  @kept_shrink(%need, %peak < %slack ? %slack : %peak)
  %new = @block_new(%need)
  br %new == null, %empty, %got
empty:
  @kept_shrink(0, -1)
  %again = @block_new(%need)
  br %again == null, %fail, %got
got:
  %block = phi ptr [ %new, %fresh ], [ %again, %empty ]
  @count_live(%need)
  ret %block
fail:
  ret null
}

define hidden void @cellc_block_free(ptr %ctx, ptr %data, i64 %ignored) nounwind {
  if %data != null, else %out
  %size.p = &%data:i8[{SIZE_AT}]
  %capacity = %size.p:i64
  @count_live(0 - %capacity)
  %most = @limit.most:i64
  if %capacity > %most, else %keep
  @block_free(%data)
  br label %out
keep:
  @kept_shrink(%capacity, @live.bytes:i64 + %most)
  if @kept.count:i64 >= {KEPT_BLOCKS}, else %append
  @block_free(@kept_take(0))
append:
  %last = @kept.count:i64
  @kept.data:ptr[%last] = %data
  @kept.size:i64[%last] = %capacity
  @kept.count:i64 = %last + 1
  @kept.bytes:i64 += %capacity
out:
  ret void
}

define hidden ptr @cellc_block_calloc(ptr %ctx, i64 %count, i64 %size) nounwind {
  %pair = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %count, i64 %size)
  %bytes = extractvalue { i64, i1 } %pair, 0
  %over = extractvalue { i64, i1 } %pair, 1
  if not %over, else ret null
  %data = @cellc_block_malloc(%ctx, %bytes)
  if %data != null, else ret null
  %r = ptr {MEMSET}(%data, i32 0, %bytes)
  ret %data
}

define hidden ptr @cellc_block_realloc(ptr %ctx, ptr %data, i64 %size) nounwind {
  if %data == null, else %old
  ret @cellc_block_malloc(%ctx, %size)
old:
  %size.p = &%data:i8[{SIZE_AT}]
  %capacity = %size.p:i64
  %block = @cellc_block_malloc(%ctx, %size)
  if %block != null, else ret null
  %r = ptr {MEMCPY}(%block, %data, %size <u %capacity ? %size : %capacity)
  @cellc_block_free(%ctx, %data, 0)
  ret %block
}

define hidden void @cellc_block_limits(i64 %most, i64 %slack) nounwind {
  @limit.most:i64 = %most
  @limit.slack:i64 = %slack
  @kept_shrink(0, @live.bytes:i64 + %most)
}

; Bytes live and kept (for tests and reports).
define hidden void @cellc_block_bytes(ptr %to) nounwind {
  %to:i64 = @live.bytes:i64
  %to:i64[1] = @kept.bytes:i64
}

declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)
