; The native entry of a program, as LLVM text: a `METH_FASTCALL` function over numpy arrays.
;
; One text serves every program: what differs (shapes, element types, places in the slot table) is
; in a context the runtime fills (`structures` has the layout of both). The entry does the usual
; call alone: exact `ndarray`s of the expected element type and shape, contiguous and aligned (and
; writeable where they are updated). Anything else goes to the Python callable of the context, which
; converts or explains.
;
; Python objects are touched only through exported functions of the C API, except for the fields of
; `PyArrayObject` (unchanged from numpy 1.7 to 2.x; the runtime verifies them on a live array before
; it uses this entry).

; Whether an argument is what its spec says.
define internal i1 @fits(ptr %a, ptr %spec, ptr %ndarray) nounwind alwaysinline {
  if %a->array.type == %ndarray, else %no
  %same = %a->array.descr == %spec:ptr
  %nd64 = sext.i64(%a->array.nd)
  %want.nd = %spec->spec.ndim
  %flags64 = zext.i64(%a->array.flags)
  %want.flags = %spec->spec.flags
  %flagged = (%flags64 & %want.flags) == %want.flags
  br %same & (%nd64 == %want.nd | %want.nd < 0) & %flagged, %shape, %no
shape:
  %dims = %a->array.dims
  %want.dims = %spec->spec.dims
head:
  %i = phi i64 [ 0, %shape ], [ %i1, %dim ]
  br %i < %want.nd, %dim, %yes
dim:
  %i1 = %i + 1
  br %dims:i64[%i] == %want.dims:i64[%i], %head, %no
yes:
  ret true
no:
  ret false
}

; Whether memory of an argument overlaps a range that the program writes in place.
define internal i1 @overlaps(ptr %a, ptr %spec, ptr %ranges, i64 %count) nounwind {
  %data.p = &%a->array.data
  %lo = %data.p:i64
  %hi = %lo + %spec->spec.nbytes
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %range ]
  br %i < %count, %range, %no
range:
  %hit = %lo <u %ranges:i64[%i, 1] & %ranges:i64[%i, 0] <u %hi
  %i1 = %i + 1
  if %hit, else %head
  ret true
no:
  ret false
}

; Whether all arguments can be used as they are.
define internal i1 @usual(ptr %ctx, ptr %args, i64 %nargs) nounwind {
  if %ctx->context.ready != 0 & %ctx->context.nargs == %nargs, else %no
  %ndarray = %ctx->context.ndarray
  %specs = %ctx->context.args
  %nwritten = %ctx->context.nwritten
  %written = %ctx->context.written
  %pure = %nwritten == 0
  loop %i < %nargs, else %yes
  %a = %args:ptr[%i]
  %spec = &%specs:%spec[%i]
  if @fits(%a, %spec, %ndarray), else %no
  if not %pure, else %next
  br @overlaps(%a, %spec, %written, %nwritten), %no, %next
next:
  next %i
yes:
  ret true
no:
  ret false
}

; Take a block from the free list, which the interpreter lock guards, or a new one; null with an
; exception set.
define internal ptr @take_block(ptr %ctx) nounwind {
  %first = %ctx->context.free
  if %first == null, else %take
  %number = ptr {CALL_NO_ARGS}(%ctx->context.grow)
  if %number != null, else ret null
  %block = ptr {LONG_AS_VOID_PTR}(%number)
  void {DEC_REF}(%number)
  ret %block
take:
  %ctx->context.free = %first:ptr
  ret %first
}

define internal void @give_block(ptr %ctx, ptr %block) nounwind {
  %block:ptr = %ctx->context.free
  %ctx->context.free = %block
}

define internal void @drop_results(ptr %results, i64 %count) nounwind {
  %dec = {DEC_REF}:ptr
  loop %i < %count, else %end
  void %dec(%results:ptr[%i])
  next %i
}

; Fill the slots: what is bound, the arguments, and what is updated in place.
define internal void @fill_slots(ptr %ctx, ptr %slots, ptr %args) nounwind {
  %n = %ctx->context.nslots
  %template = %ctx->context.template
  %nargs = %ctx->context.nargs
  %specs = %ctx->context.args
  %naliases = %ctx->context.naliases
  %aliases = %ctx->context.aliases
copy:
  %i = phi i64 [ 0, %entry ], [ %i1, %word ]
  br %i < %n, %word, %arg
word:
  %slots:ptr[%i] = %template:ptr[%i]
  %i1 = %i + 1
  br label %copy
arg:
  %j = phi i64 [ 0, %copy ], [ %j1, %one ]
  br %j < %nargs, %one, %alias
one:
  %slots:ptr[%specs[%j]->spec.slot] = %args:ptr[%j]->array.data
  %j1 = %j + 1
  br label %arg
alias:
  %k = phi i64 [ 0, %arg ], [ %k1, %pair ]
  br %k < %naliases, %pair, %end
pair:
  %slots:ptr[%aliases:i64[%k, 0]] = %slots:ptr[%aliases:i64[%k, 1]]
  %k1 = %k + 1
  br label %alias
}

; New arrays for the outputs, like `lead` if there is one; false with an exception set and nothing
; kept.
define internal i1 @make_results(ptr %ctx, ptr %slots, ptr %results, ptr %lead,
                                 ptr %sizes) nounwind {
  %n = %ctx->context.nouts
  %specs = %ctx->context.outs
  %ndarray = %ctx->context.ndarray
  %inc = {INC_REF}:ptr
  %new = {NEW_FROM_DESCR}:ptr
  %sized = %lead != null
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %keep ]
  br %i < %n, %one, %yes
one:
  %spec = &%specs:%spec[%i]
  %descr = %spec:ptr
  %own = %spec->spec.dims
  %nd.own = trunc.i32(%spec->spec.ndim)
  %slot = %spec->spec.slot
  ; The call takes over one reference to the element type.
  void %inc(%descr)
  %nbytes.own = %spec->spec.nbytes
  br %sized, %like, %shaped
like:
  %like.nd = %lead->array.nd
  %like.dims = %lead->array.dims
  %like.bytes = %sizes:i64[2] * %nbytes.own
shaped:
  %nd = phi i32 [ %nd.own, %one ], [ %like.nd, %like ]
  %dims = phi ptr [ %own, %one ], [ %like.dims, %like ]
  %nbytes = phi i64 [ %nbytes.own, %one ], [ %like.bytes, %like ]
  %handler = {DATA_HANDLER}:ptr
  br %nbytes >= {LARGE} & %handler != null, %kept, %plain
plain:
  %a.plain = ptr %new(%ndarray, %descr, %nd, %dims, null, null, i32 0, null)
  br label %have
kept:
  ; A large one takes its memory from the blocks of results that have died.
  %set = {SET_HANDLER}:ptr
  %before = ptr %set(%handler)
  %a.kept = ptr %new(%ndarray, %descr, %nd, %dims, null, null, i32 0, null)
  br %before != null, %restore, %have
restore:
  %mine = ptr %set(%before)
  %dec = {DEC_REF}:ptr
  void %dec(%before)
  void %dec(%mine)
have:
  %a = phi ptr [ %a.plain, %plain ], [ %a.kept, %kept ], [ %a.kept, %restore ]
  br %a == null, %no, %keep
keep:
  %results:ptr[%i] = %a
  %slots:ptr[%slot] = %a->array.data
  %i1 = %i + 1
  br label %head
yes:
  ret true
no:
  @drop_results(%results, %i)
  ret false
}

; One array, or a tuple of several; takes over the references.
define internal ptr @pack(ptr %results, i64 %n) nounwind {
  if %n == 1, else %many
  ret %results:ptr
many:
  %tuple = ptr {TUPLE_NEW}(%n)
  if %tuple == null, else %begin
  @drop_results(%results, %n)
  ret null
begin:
  %set = {TUPLE_SET_ITEM}:ptr
  loop %i < %n, else %out
  %rc = i32 %set(%tuple, %i, %results:ptr[%i])
  next %i
out:
  ret %tuple
}

; Run main, without the interpreter lock when the program is long enough to repay it.
define internal i32 @run_main(ptr %ctx, ptr %block, i1 %sized, ptr %sizes) nounwind {
  %main = %ctx:ptr
  %slots = %block->block.slots
  %arena = %block->block.arena
  %consts = %sized ? %sizes : %ctx->context.consts
  %release = %ctx->context.release
  if not %sized ? %sizes:i64[2] >= %release : %release != 0, else %free
  ret i32 %main(%slots, %arena, %consts)
free:
  ; Another thread may bind other parameters meanwhile: keep these alive.
  %bound = %ctx->context.bound
  void {INC_REF}(%bound)
  %state = ptr {SAVE_THREAD}()
  %rc2 = i32 %main(%slots, %arena, %consts)
  void {RESTORE_THREAD}(%state)
  void {DEC_REF}(%bound)
  ret %rc2
}

; Raise what an error code stands for; its message may show values that are in the arena.
define internal ptr @raise(ptr %ctx, ptr %block, i32 %rc) nounwind {
  %args = alloca [2 x ptr]
  %long = {LONG_FROM_LONG}:ptr
  %dec = {DEC_REF}:ptr
  %number = ptr %long(sext.i64(%rc))
  br %number == null, %out, %where
where:
  %arena.p = &%block->block.arena
  %address = ptr %long(%arena.p:i64)
  br %address == null, %drop, %tell
tell:
  %args:ptr = %number
  %args:ptr[1] = %address
  %result = ptr {VECTORCALL}(%ctx->context.fail, %args, i64 2, null)
  void %dec(%address)
drop:
  %answer = phi ptr [ null, %where ], [ %result, %tell ]
  void %dec(%number)
  ret %answer
out:
  ret null
}

define hidden ptr @{ENTRY}(ptr %self, ptr %args, i64 %nargs) nounwind {
  %sizes = alloca [3 x i64]
  %sizes:i64[2] = 0
  %ctx = ptr {CAPSULE_GET_POINTER}(%self, null)
  br @usual(%ctx, %args, %nargs), %known, %slow
known:
  %sized = %ctx->context.sized != 0
  br %sized, %ask, %fast
ask:
  %asked = @measure(%ctx, %args, %nargs, %sizes)
  br %asked == null, %slow, %fast
slow:
  ret tail ptr {VECTORCALL}(%ctx->context.slow, %args, %nargs, null)
fast:
  %lead = phi ptr [ null, %known ], [ %asked, %ask ]
  %block = @take_block(%ctx)
  if %block != null, else %error
  %slots = %block->block.slots
  %results = %block->block.results
  @fill_slots(%ctx, %slots, %args)
  if not @make_results(%ctx, %slots, %results, %lead, %sizes), else %run
  @give_block(%ctx, %block)
  br label %error
run:
  %rc = @run_main(%ctx, %block, %sized, %sizes)
  %nouts = %ctx->context.nouts
  if %rc == 0, else %bad
  %packed = @pack(%results, %nouts)
  @give_block(%ctx, %block)
  ret %packed
bad:
  @drop_results(%results, %nouts)
  %raised = @raise(%ctx, %block, %rc)
  @give_block(%ctx, %block)
  ret %raised
error:
  ret null
}
