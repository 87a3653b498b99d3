"""Memory of large results, as LLVM text: blocks of dead arrays serve the next ones.

A fresh block of memory from the system costs a page fault for every page that is written (a
64 MiB result: several times what a memory-bound kernel takes). So the blocks of results that
have died are kept in a short list, and a new result takes the smallest that fits with at most an
eighth to spare. numpy calls these functions through an allocator of its own for such arrays
(`PyDataMem_Handler`), so they own their memory like any other.

Three bounds limit the kept blocks: a number of blocks, `most` bytes, and the most that was ever
live at once (or `slack`, if that is more), for live and kept blocks together: keeping blocks does
not raise the peak of a process. The oldest go first.

All of this runs under the interpreter lock, as numpy's allocations do. Like the thread pool, the
copy in the first image that is loaded serves the whole process.
"""

from __future__ import annotations

from cellc_runtime.target import Target

from .pool import fill

KEPT_BLOCKS = 64
HEADER = 64
"""Bytes before the data: where the block begins, and its capacity."""

_STATE = f"""
; Of each kept block: data, capacity. Ordered by age, the oldest first.
@kept.data = internal global [{KEPT_BLOCKS} x ptr] zeroinitializer, align 64
@kept.size = internal global [{KEPT_BLOCKS} x i64] zeroinitializer, align 64
@kept.count = internal global i64 0
@kept.bytes = internal global i64 0
@live.bytes = internal global i64 0
@live.peak = internal global i64 0
@limit.most = internal global i64 536870912
@limit.slack = internal global i64 134217728
"""

_CODE = """
; Take block i out of the list; the later ones move up.
define internal ptr @kept_take(i64 %i) nounwind {
  %count = load i64, ptr @kept.count
  %data = item ptr, ptr @kept.data[%i]
  %size = item i64, ptr @kept.size[%i]
  %bytes = load i64, ptr @kept.bytes
  %less = sub i64 %bytes, %size
  store i64 %less, ptr @kept.bytes
  %last = sub i64 %count, 1
  store i64 %last, ptr @kept.count
head:
  %at = phi i64 [ %i, %entry ], [ %next, %move ]
  br slt i64 %at, %last, label %move, label %out
move:
  %next = add i64 %at, 1
  %from.data = getelementptr ptr, ptr @kept.data, i64 %next
  %to.data = getelementptr ptr, ptr @kept.data, i64 %at
  %d = load ptr, ptr %from.data
  store ptr %d, ptr %to.data
  %from.size = getelementptr i64, ptr @kept.size, i64 %next
  %to.size = getelementptr i64, ptr @kept.size, i64 %at
  %s = load i64, ptr %from.size
  store i64 %s, ptr %to.size
  br label %head
out:
  ret ptr %data
}

define internal void @block_free(ptr %data) nounwind {
  %raw.p = getelementptr i8, ptr %data, i64 -{HEADER}
  %raw = load ptr, ptr %raw.p
  call void {FREE}(ptr %raw)
  ret void
}

; Give kept blocks back to the system, the oldest first, until live + kept + more <= limit.
define internal void @kept_shrink(i64 %more, i64 %limit) nounwind {
head:
  %count = load i64, ptr @kept.count
  %some = icmp sgt i64 %count, 0
  %live = load i64, ptr @live.bytes
  %kept = load i64, ptr @kept.bytes
  %sum = add i64 %live, %kept
  %all = add i64 %sum, %more
  %over = icmp sgt i64 %all, %limit
  %go = and i1 %some, %over
  if %go, else %out
  %oldest = call ptr @kept_take(i64 0)
  call void @block_free(ptr %oldest)
  br label %head
out:
  ret void
}

; The smallest kept block that fits with little to spare, or -1.
define internal i64 @kept_find(i64 %need) nounwind {
  %count = load i64, ptr @kept.count
  %eighth = lshr i64 %need, 3
  %most = add i64 %need, %eighth
  %above = add i64 %most, 1
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %look ]
  %best = phi i64 [ -1, %entry ], [ %best1, %look ]
  %bestsize = phi i64 [ %above, %entry ], [ %bestsize1, %look ]
  br slt i64 %i, %count, label %look, label %out
look:
  %size = item i64, ptr @kept.size[%i]
  %fits = icmp sge i64 %size, %need
  %smaller = icmp slt i64 %size, %bestsize
  %take = and i1 %fits, %smaller
  %best1 = select i1 %take, i64 %i, i64 %best
  %bestsize1 = select i1 %take, i64 %size, i64 %bestsize
  %i1 = add i64 %i, 1
  br label %head
out:
  ret i64 %best
}

define internal void @count_live(i64 %more) nounwind {
  %live = load i64, ptr @live.bytes
  %now = add i64 %live, %more
  store i64 %now, ptr @live.bytes
  %peak = load i64, ptr @live.peak
  %higher = icmp sgt i64 %now, %peak
  %top = select i1 %higher, i64 %now, i64 %peak
  store i64 %top, ptr @live.peak
  ret void
}

; A new block of `need` bytes from the system, or null.
define internal ptr @block_new(i64 %need) nounwind {
  %padded = add i64 %need, {PADDING}
  %raw = call ptr {MALLOC}(i64 %padded)
  if ne ptr %raw, null, else %fail
  %raw.n = ptrtoint ptr %raw to i64
  %up = add i64 %raw.n, {PADDING}
  %at = and i64 %up, -64
  %data = inttoptr i64 %at to ptr
  %raw.p = getelementptr i8, ptr %data, i64 -{HEADER}
  store ptr %raw, ptr %raw.p
  %size.p = getelementptr i8, ptr %raw.p, i64 8
  store i64 %need, ptr %size.p
  %huge = icmp sge i64 %need, 4194304
  %madvise = load ptr, ptr {MADVISE}
  %can = icmp ne ptr %madvise, null
  %advise = and i1 %huge, %can
  if %advise, else %done
  ; Huge pages (14: MADV_HUGEPAGE of Linux) for the whole pages inside; an error changes nothing.
  %lo.up = add i64 %at, 4095
  %lo = and i64 %lo.up, -4096
  %end = add i64 %at, %need
  %hi = and i64 %end, -4096
  %length = sub i64 %hi, %lo
  %lo.p = inttoptr i64 %lo to ptr
  %rc = call i32 %madvise(ptr %lo.p, i64 %length, i32 14)
done:
  ret ptr %data
fail:
  ret ptr null
}

define hidden ptr @cellc_block_malloc(ptr %ctx, i64 %size) nounwind {
  %page = add i64 %size, 4095
  %need = and i64 %page, -4096
  %i = call i64 @kept_find(i64 %need)
  if sge i64 %i, 0, else %fresh
  %old = call ptr @kept_take(i64 %i)
  %size.p = getelementptr i8, ptr %old, i64 {SIZE_AT}
  %capacity = load i64, ptr %size.p
  call void @count_live(i64 %capacity)
  ret ptr %old
fresh:
  %peak = load i64, ptr @live.peak
  %slack = load i64, ptr @limit.slack
  %low = icmp slt i64 %peak, %slack
  %limit = select i1 %low, i64 %slack, i64 %peak
  call void @kept_shrink(i64 %need, i64 %limit)
  %new = call ptr @block_new(i64 %need)
  br eq ptr %new, null, label %empty, label %got
empty:
  call void @kept_shrink(i64 0, i64 -1)
  %again = call ptr @block_new(i64 %need)
  br eq ptr %again, null, label %fail, label %got
got:
  %block = phi ptr [ %new, %fresh ], [ %again, %empty ]
  call void @count_live(i64 %need)
  ret ptr %block
fail:
  ret ptr null
}

define hidden void @cellc_block_free(ptr %ctx, ptr %data, i64 %ignored) nounwind {
  if ne ptr %data, null, else %out
  %size.p = getelementptr i8, ptr %data, i64 {SIZE_AT}
  %capacity = load i64, ptr %size.p
  %minus = sub i64 0, %capacity
  call void @count_live(i64 %minus)
  %most = load i64, ptr @limit.most
  if sgt i64 %capacity, %most, else %keep
  call void @block_free(ptr %data)
  br label %out
keep:
  %live = load i64, ptr @live.bytes
  %limit = add i64 %live, %most
  call void @kept_shrink(i64 %capacity, i64 %limit)
  %count = load i64, ptr @kept.count
  if sge i64 %count, {KEPT_BLOCKS}, else %append
  %oldest = call ptr @kept_take(i64 0)
  call void @block_free(ptr %oldest)
append:
  %last = load i64, ptr @kept.count
  put ptr %data, ptr @kept.data[%last]
  put i64 %capacity, ptr @kept.size[%last]
  %more = add i64 %last, 1
  store i64 %more, ptr @kept.count
  %bytes = load i64, ptr @kept.bytes
  %now = add i64 %bytes, %capacity
  store i64 %now, ptr @kept.bytes
out:
  ret void
}

define hidden ptr @cellc_block_calloc(ptr %ctx, i64 %count, i64 %size) nounwind {
  %pair = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %count, i64 %size)
  %bytes = extractvalue { i64, i1 } %pair, 0
  %over = extractvalue { i64, i1 } %pair, 1
  br i1 %over, label %fail, label %get
get:
  %data = call ptr @cellc_block_malloc(ptr %ctx, i64 %bytes)
  if ne ptr %data, null, else %fail
  %r = call ptr {MEMSET}(ptr %data, i32 0, i64 %bytes)
  ret ptr %data
fail:
  ret ptr null
}

define hidden ptr @cellc_block_realloc(ptr %ctx, ptr %data, i64 %size) nounwind {
  if eq ptr %data, null, else %old
  %only = call ptr @cellc_block_malloc(ptr %ctx, i64 %size)
  ret ptr %only
old:
  %size.p = getelementptr i8, ptr %data, i64 {SIZE_AT}
  %capacity = load i64, ptr %size.p
  %block = call ptr @cellc_block_malloc(ptr %ctx, i64 %size)
  if ne ptr %block, null, else %fail
  %fewer = icmp ult i64 %size, %capacity
  %count = select i1 %fewer, i64 %size, i64 %capacity
  %r = call ptr {MEMCPY}(ptr %block, ptr %data, i64 %count)
  call void @cellc_block_free(ptr %ctx, ptr %data, i64 0)
  ret ptr %block
fail:
  ret ptr null
}

define hidden void @cellc_block_limits(i64 %most, i64 %slack) nounwind {
  store i64 %most, ptr @limit.most
  store i64 %slack, ptr @limit.slack
  %live = load i64, ptr @live.bytes
  %limit = add i64 %live, %most
  call void @kept_shrink(i64 0, i64 %limit)
  ret void
}

; Bytes live and kept (for tests and reports).
define hidden void @cellc_block_bytes(ptr %to) nounwind {
  %live = load i64, ptr @live.bytes
  store i64 %live, ptr %to
  %second = getelementptr i64, ptr %to, i64 1
  %kept = load i64, ptr @kept.bytes
  store i64 %kept, ptr %second
  ret void
}

declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)
"""


def blocks_text(target: Target) -> str:
    """The allocator's state and functions."""
    code = _CODE
    for name, value in (("HEADER", HEADER), ("PADDING", HEADER + 64), ("SIZE_AT", 8 - HEADER),
                        ("KEPT_BLOCKS", KEPT_BLOCKS)):
        code = code.replace(f"{{{name}}}", str(value))
    return _STATE + fill(code, target)
