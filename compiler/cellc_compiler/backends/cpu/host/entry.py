"""The native entry of a program, as LLVM text: a `METH_FASTCALL` function over numpy arrays.

One text serves every program: what differs (shapes, element types, places in the slot table) is
in a context the runtime fills (`structures` has the layout of both). The entry does the usual call
alone: exact `ndarray`s of the expected element type and shape, contiguous and aligned
(and writeable where they are updated). Anything else goes to the Python callable of the context,
which converts or explains.

Python objects are touched only through exported functions of the C API, except for the
fields of `PyArrayObject` (unchanged from numpy 1.7 to 2.x; the runtime verifies them on a live
array before it uses this entry).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from cellc_runtime.abi import ENTRY, LARGE, MAIN
from cellc_runtime.target import Target

from ...llvm.notation import TABLE_DECLARATION, declarations
from .blocks import blocks_text
from .broadcast_sizes import measure_text
from .pool import fill, pool_text
from .site import SITE_CODE

_ENTRY = """
; Whether an argument is what its spec says.
define internal i1 @fits(ptr %a, ptr %spec, ptr %ndarray) nounwind alwaysinline {
  %type = field %array.type, ptr %a
  if eq ptr %type, %ndarray, else %no
  %descr = field %array.descr, ptr %a
  %want.descr = load ptr, ptr %spec
  %same = icmp eq ptr %descr, %want.descr
  %nd = field %array.nd, ptr %a
  %nd64 = sext i32 %nd to i64
  %want.nd = field %spec.ndim, ptr %spec
  %samend.sized = icmp eq i64 %nd64, %want.nd
  %anynd = icmp slt i64 %want.nd, 0
  %samend = or i1 %samend.sized, %anynd
  %flags = field %array.flags, ptr %a
  %flags64 = zext i32 %flags to i64
  %want.flags = field %spec.flags, ptr %spec
  %set = and i64 %flags64, %want.flags
  %flagged = icmp eq i64 %set, %want.flags
  %two = and i1 %same, %samend
  %three = and i1 %two, %flagged
  br i1 %three, label %shape, label %no
shape:
  %dims = field %array.dims, ptr %a
  %want.dims = field %spec.dims, ptr %spec
head:
  %i = phi i64 [ 0, %shape ], [ %i1, %dim ]
  br slt i64 %i, %want.nd, label %dim, label %yes
dim:
  %d = item i64, ptr %dims[%i]
  %w = item i64, ptr %want.dims[%i]
  %i1 = add i64 %i, 1
  br eq i64 %d, %w, label %head, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether memory of an argument overlaps a range that the program writes in place.
define internal i1 @overlaps(ptr %a, ptr %spec, ptr %ranges, i64 %count) nounwind {
  %data.p = place %array.data, ptr %a
  %lo = load i64, ptr %data.p
  %nbytes = field %spec.nbytes, ptr %spec
  %hi = add i64 %lo, %nbytes
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %range ]
  br slt i64 %i, %count, label %range, label %no
range:
  %first = item i64, ptr %ranges[%i, 0]
  %last = item i64, ptr %ranges[%i, 1]
  %below = icmp ult i64 %lo, %last
  %above = icmp ult i64 %first, %hi
  %hit = and i1 %below, %above
  %i1 = add i64 %i, 1
  if %hit, else %head
  ret i1 true
no:
  ret i1 false
}

; Whether all arguments can be used as they are.
define internal i1 @usual(ptr %ctx, ptr %args, i64 %nargs) nounwind {
  %want = field %context.nargs, ptr %ctx
  %ready = field %context.ready, ptr %ctx
  %bound = icmp ne i64 %ready, 0
  %right = icmp eq i64 %want, %nargs
  %go = and i1 %bound, %right
  if %go, else %no
  %ndarray = field %context.ndarray, ptr %ctx
  %specs = field %context.args, ptr %ctx
  %nwritten = field %context.nwritten, ptr %ctx
  %written = field %context.written, ptr %ctx
  %pure = icmp eq i64 %nwritten, 0
  loop %i < %nargs, else %yes
  %a = item ptr, ptr %args[%i]
  %spec = getelementptr %spec, ptr %specs, i64 %i
  %fits = call i1 @fits(ptr %a, ptr %spec, ptr %ndarray)
  if %fits, else %no
  br i1 %pure, label %next, label %compare
compare:
  %over = call i1 @overlaps(ptr %a, ptr %spec, ptr %written, i64 %nwritten)
  br i1 %over, label %no, label %next
next:
  next %i
yes:
  ret i1 true
no:
  ret i1 false
}

; Take a block from the free list, which the interpreter lock guards, or a new one; null with an
; exception set.
define internal ptr @take_block(ptr %ctx) nounwind {
  %free.p = place %context.free, ptr %ctx
  %first = load ptr, ptr %free.p
  if eq ptr %first, null, else %take
  %callable = field %context.grow, ptr %ctx
  %number = call ptr {CALL_NO_ARGS}(ptr %callable)
  if ne ptr %number, null, else %none
  %block = call ptr {LONG_AS_VOID_PTR}(ptr %number)
  call void {DEC_REF}(ptr %number)
  ret ptr %block
take:
  %next = load ptr, ptr %first
  store ptr %next, ptr %free.p
  ret ptr %first
none:
  ret ptr null
}

define internal void @give_block(ptr %ctx, ptr %block) nounwind {
  %free.p = place %context.free, ptr %ctx
  %first = load ptr, ptr %free.p
  store ptr %first, ptr %block
  store ptr %block, ptr %free.p
  ret void
}

define internal void @drop_results(ptr %results, i64 %count) nounwind {
  %dec = load ptr, ptr {DEC_REF}
  loop %i < %count, else %out
  %r = item ptr, ptr %results[%i]
  call void %dec(ptr %r)
  next %i
out:
  ret void
}

; Fill the slots: what is bound, the arguments, and what is updated in place.
define internal void @fill_slots(ptr %ctx, ptr %slots, ptr %args) nounwind {
  %n = field %context.nslots, ptr %ctx
  %template = field %context.template, ptr %ctx
  %nargs = field %context.nargs, ptr %ctx
  %specs = field %context.args, ptr %ctx
  %naliases = field %context.naliases, ptr %ctx
  %aliases = field %context.aliases, ptr %ctx
copy:
  %i = phi i64 [ 0, %entry ], [ %i1, %word ]
  br slt i64 %i, %n, label %word, label %arg
word:
  %value = item ptr, ptr %template[%i]
  put ptr %value, ptr %slots[%i]
  %i1 = add i64 %i, 1
  br label %copy
arg:
  %j = phi i64 [ 0, %copy ], [ %j1, %one ]
  br slt i64 %j, %nargs, label %one, label %alias
one:
  %a = item ptr, ptr %args[%j]
  %data = field %array.data, ptr %a
  %slot = field %spec.slot, ptr %specs[%j]
  put ptr %data, ptr %slots[%slot]
  %j1 = add i64 %j, 1
  br label %arg
alias:
  %k = phi i64 [ 0, %arg ], [ %k1, %pair ]
  br slt i64 %k, %naliases, label %pair, label %out
pair:
  %dst = item i64, ptr %aliases[%k, 0]
  %src = item i64, ptr %aliases[%k, 1]
  %source = item ptr, ptr %slots[%src]
  put ptr %source, ptr %slots[%dst]
  %k1 = add i64 %k, 1
  br label %alias
out:
  ret void
}

; New arrays for the outputs, like `lead` if there is one; false with an exception set and nothing
; kept.
define internal i1 @make_results(ptr %ctx, ptr %slots, ptr %results, ptr %lead,
                                 ptr %sizes) nounwind {
  %n = field %context.nouts, ptr %ctx
  %specs = field %context.outs, ptr %ctx
  %ndarray = field %context.ndarray, ptr %ctx
  %inc = load ptr, ptr {INC_REF}
  %new = load ptr, ptr {NEW_FROM_DESCR}
  %sized = icmp ne ptr %lead, null
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %keep ]
  br slt i64 %i, %n, label %one, label %yes
one:
  %spec = getelementptr %spec, ptr %specs, i64 %i
  %descr = load ptr, ptr %spec
  %own = field %spec.dims, ptr %spec
  %nd64 = field %spec.ndim, ptr %spec
  %nd.own = trunc i64 %nd64 to i32
  %slot = field %spec.slot, ptr %spec
  ; The call takes over one reference to the element type.
  call void %inc(ptr %descr)
  %nbytes.own = field %spec.nbytes, ptr %spec
  br i1 %sized, label %like, label %shaped
like:
  %like.nd = field %array.nd, ptr %lead
  %like.dims = field %array.dims, ptr %lead
  %count = item i64, ptr %sizes[2]
  %like.bytes = mul i64 %count, %nbytes.own
shaped:
  %nd = phi i32 [ %nd.own, %one ], [ %like.nd, %like ]
  %dims = phi ptr [ %own, %one ], [ %like.dims, %like ]
  %nbytes = phi i64 [ %nbytes.own, %one ], [ %like.bytes, %like ]
  %handler = load ptr, ptr {DATA_HANDLER}
  %large = icmp sge i64 %nbytes, {LARGE}
  %can = icmp ne ptr %handler, null
  %pooled = and i1 %large, %can
  br i1 %pooled, label %kept, label %plain
plain:
  %a.plain = call ptr %new(ptr %ndarray, ptr %descr, i32 %nd, ptr %dims, ptr null, ptr null,
                           i32 0, ptr null)
  br label %have
kept:
  ; A large one takes its memory from the blocks of results that have died.
  %set = load ptr, ptr {SET_HANDLER}
  %before = call ptr %set(ptr %handler)
  %a.kept = call ptr %new(ptr %ndarray, ptr %descr, i32 %nd, ptr %dims, ptr null, ptr null,
                          i32 0, ptr null)
  br ne ptr %before, null, label %restore, label %have
restore:
  %mine = call ptr %set(ptr %before)
  %dec = load ptr, ptr {DEC_REF}
  call void %dec(ptr %before)
  call void %dec(ptr %mine)
have:
  %a = phi ptr [ %a.plain, %plain ], [ %a.kept, %kept ], [ %a.kept, %restore ]
  br eq ptr %a, null, label %no, label %keep
keep:
  put ptr %a, ptr %results[%i]
  %data = field %array.data, ptr %a
  put ptr %data, ptr %slots[%slot]
  %i1 = add i64 %i, 1
  br label %head
yes:
  ret i1 true
no:
  call void @drop_results(ptr %results, i64 %i)
  ret i1 false
}

; One array, or a tuple of several; takes over the references.
define internal ptr @pack(ptr %results, i64 %n) nounwind {
  if eq i64 %n, 1, else %many
  %only = load ptr, ptr %results
  ret ptr %only
many:
  %tuple = call ptr {TUPLE_NEW}(i64 %n)
  if eq ptr %tuple, null, else %begin
  call void @drop_results(ptr %results, i64 %n)
  ret ptr null
begin:
  %set = load ptr, ptr {TUPLE_SET_ITEM}
  loop %i < %n, else %out
  %r = item ptr, ptr %results[%i]
  %rc = call i32 %set(ptr %tuple, i64 %i, ptr %r)
  next %i
out:
  ret ptr %tuple
}

; Run main, without the interpreter lock when the program is long enough to repay it.
define internal i32 @run_main(ptr %ctx, ptr %block, i1 %sized, ptr %sizes) nounwind {
  %main = load ptr, ptr %ctx
  %slots = field %block.slots, ptr %block
  %arena = field %block.arena, ptr %block
  %consts.own = field %context.consts, ptr %ctx
  %consts = select i1 %sized, ptr %sizes, ptr %consts.own
  %release = field %context.release, ptr %ctx
  %count = item i64, ptr %sizes[2]
  %many = icmp sge i64 %count, %release
  %set = icmp ne i64 %release, 0
  %long = select i1 %sized, i1 %many, i1 %set
  br i1 %long, label %free, label %held
held:
  %rc1 = call i32 %main(ptr %slots, ptr %arena, ptr %consts)
  ret i32 %rc1
free:
  ; Another thread may bind other parameters meanwhile: keep these alive.
  %bound = field %context.bound, ptr %ctx
  call void {INC_REF}(ptr %bound)
  %state = call ptr {SAVE_THREAD}()
  %rc2 = call i32 %main(ptr %slots, ptr %arena, ptr %consts)
  call void {RESTORE_THREAD}(ptr %state)
  call void {DEC_REF}(ptr %bound)
  ret i32 %rc2
}

; Raise what an error code stands for; its message may show values that are in the arena.
define internal ptr @raise(ptr %ctx, ptr %block, i32 %rc) nounwind {
  %args = alloca [2 x ptr]
  %long = load ptr, ptr {LONG_FROM_LONG}
  %dec = load ptr, ptr {DEC_REF}
  %wide = sext i32 %rc to i64
  %number = call ptr %long(i64 %wide)
  br eq ptr %number, null, label %out, label %where
where:
  %arena.p = place %block.arena, ptr %block
  %arena = load i64, ptr %arena.p
  %address = call ptr %long(i64 %arena)
  br eq ptr %address, null, label %drop, label %tell
tell:
  store ptr %number, ptr %args
  %second = getelementptr [2 x ptr], ptr %args, i64 0, i64 1
  store ptr %address, ptr %second
  %callable = field %context.fail, ptr %ctx
  %result = call ptr {VECTORCALL}(ptr %callable, ptr %args, i64 2, ptr null)
  call void %dec(ptr %address)
drop:
  %answer = phi ptr [ null, %where ], [ %result, %tell ]
  call void %dec(ptr %number)
  ret ptr %answer
out:
  ret ptr null
}

define hidden ptr @{ENTRY}(ptr %self, ptr %args, i64 %nargs) nounwind {
  %sizes = alloca [3 x i64]
  put i64 0, ptr %sizes[2]
  %ctx = call ptr {CAPSULE_GET_POINTER}(ptr %self, ptr null)
  %usual = call i1 @usual(ptr %ctx, ptr %args, i64 %nargs)
  br i1 %usual, label %known, label %slow
known:
  %sized.flag = field %context.sized, ptr %ctx
  %sized = icmp ne i64 %sized.flag, 0
  br i1 %sized, label %ask, label %fast
ask:
  %asked = call ptr @measure(ptr %ctx, ptr %args, i64 %nargs, ptr %sizes)
  br eq ptr %asked, null, label %slow, label %fast
slow:
  %callable = field %context.slow, ptr %ctx
  %answer = tail call ptr {VECTORCALL}(ptr %callable, ptr %args, i64 %nargs, ptr null)
  ret ptr %answer
fast:
  %lead = phi ptr [ null, %known ], [ %asked, %ask ]
  %block = call ptr @take_block(ptr %ctx)
  if ne ptr %block, null, else %error
  %slots = field %block.slots, ptr %block
  %results = field %block.results, ptr %block
  call void @fill_slots(ptr %ctx, ptr %slots, ptr %args)
  %made = call i1 @make_results(ptr %ctx, ptr %slots, ptr %results, ptr %lead, ptr %sizes)
  br i1 %made, label %run, label %giveup
giveup:
  call void @give_block(ptr %ctx, ptr %block)
  br label %error
run:
  %rc = call i32 @run_main(ptr %ctx, ptr %block, i1 %sized, ptr %sizes)
  %nouts = field %context.nouts, ptr %ctx
  if eq i32 %rc, 0, else %bad
  %packed = call ptr @pack(ptr %results, i64 %nouts)
  call void @give_block(ptr %ctx, ptr %block)
  ret ptr %packed
bad:
  call void @drop_results(ptr %results, i64 %nouts)
  %raised = call ptr @raise(ptr %ctx, ptr %block, i32 %rc)
  call void @give_block(ptr %ctx, ptr %block)
  ret ptr %raised
error:
  ret ptr null
}
"""

_LIBC = "".join(f"""
define hidden ptr @{name}(ptr %to, {kind} %from, i64 %n) nounwind {{
  %r = tail call ptr {{{name.upper()}}}(ptr %to, {kind} %from, i64 %n)
  ret ptr %r
}}
""" for name, kind in (("memcpy", "ptr"), ("memmove", "ptr"), ("memset", "i32")))
"""Functions that LLVM may call on its own account for an intrinsic."""

_WIN64 = """
; {NAME} under the calling convention of Windows, where its caller is not generated code.
define hidden win64cc i32 @{NAME}_win64({PARAMS}) nounwind {
  %rc = call i32 @{NAME}({PARAMS})
  ret i32 %rc
}
"""


@functools.cache
def support_text(target: Target) -> str:
    """The module of every image besides its kernels: pool, entry, memory functions.

    It depends on the target alone, so it is compiled once and then found in the cache.
    """
    code = declarations() + _ENTRY + measure_text(target) + SITE_CODE + _LIBC
    code = fill(code, target)
    code = code.replace("{ENTRY}", ENTRY).replace("{LARGE}", str(LARGE))
    params = (("ptr", "slots"), ("ptr", "arena"), ("ptr", "consts"))
    windows = f"declare hidden i32 @{MAIN}(ptr, ptr, ptr)\n" + win64_text(MAIN, target, params)
    return TABLE_DECLARATION + pool_text(target) + blocks_text(target) + code + windows


def win64_text(name: str, target: Target, params: Sequence[tuple[str, str]]) -> str:
    """The function that Windows calls in the place of `name`; nothing for other machines."""
    text = ", ".join(f"{ty} %{param}" for ty, param in params)
    text = _WIN64.replace("{NAME}", name).replace("{PARAMS}", text)
    return text if target.triple.startswith("x86_64") else ""
