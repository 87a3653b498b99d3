"""Native call sites, as LLVM text: the usual call of an op or a Cell without the interpreter.

A site is a `METH_FASTCALL | METH_KEYWORDS` function over Tensors. It holds cases: what the
arguments of an earlier call were (element type and shape of a tensor, identity or value of
anything else) and the native entry that answered it. A call that fits a case takes the arrays
out of the Tensors, calls the entry and wraps its result; every other call goes to the Python
callable of the site, which teaches it a new case.

While a thread traces a graph, no call is usual. While exactly one thread records for gradients
and it is the caller's, the call is appended to its tape.
"""

from __future__ import annotations

from cellc_runtime.abi import SITE, WORDS

SITE_CODE = """
; The position of the first word that is not what it was, or -1.
define internal i64 @first_changed(ptr %words, i64 %n) nounwind {
  loop %i < %n, else %all
  %w = getelementptr %word, ptr %words, i64 %i
  %at = load ptr, ptr %w
  %mask = field %word.mask, ptr %w
  %value = field %word.value, ptr %w
  %now = load i64, ptr %at
  %seen = and i64 %now, %mask
  br eq i64 %seen, %value, label %same, label %other
same:
  next %i
other:
  ret i64 %i
all:
  ret i64 -1
}

; The same for a function of Python over a table of words.
define hidden ptr @{WORDS}(ptr %self, ptr %unused) nounwind {
  %table = call ptr {CAPSULE_GET_POINTER}(ptr %self, ptr null)
  %words = field %words.words, ptr %table
  %n = field %words.count, ptr %table
  %i = call i64 @first_changed(ptr %words, i64 %n)
  %number = call ptr {LONG_FROM_LONG}(i64 %i)
  ret ptr %number
}

; The array of a Tensor or Parameter, or null.
define internal ptr @array_of(ptr %site, ptr %t) nounwind {
  %type = field %array.type, ptr %t
  %tensor = field %site.tensor, ptr %site
  %parameter = field %site.parameter, ptr %site
  %is1 = icmp eq ptr %type, %tensor
  %is2 = icmp eq ptr %type, %parameter
  %is = or i1 %is1, %is2
  if %is, else %no
  %offset = field %site.offset, ptr %site
  %slot = getelementptr i8, ptr %t, i64 %offset
  %a = load ptr, ptr %slot
  if ne ptr %a, null, else %no
  %atype = field %array.type, ptr %a
  %ndarray = field %site.ndarray, ptr %site
  if eq ptr %atype, %ndarray, else %no
  ret ptr %a
no:
  ret ptr null
}

; 1 where two objects are equal. A comparison that fails (there may be no room on the stack for it)
; finds them unequal: the long way says what is wrong.
define internal i32 @equal(ptr %a, ptr %b) nounwind {
  %answer = call i32 {RICH_COMPARE_BOOL}(ptr %a, ptr %b, i32 2)
  if slt i32 %answer, 0, else %done
  call void {ERR_CLEAR}()
  br label %done
done:
  ret i32 %answer
}

; Whether an argument is what the case says; its operand is entered.
define internal i1 @suits(ptr %site, ptr %want, ptr %arg, ptr %arrays, ptr %tensors) nounwind {
  %kind = load i64, ptr %want
  %place = field %argument.place, ptr %want
  %object = field %argument.object, ptr %want
  %c = field %argument.more, ptr %want
  %array.at = getelementptr ptr, ptr %arrays, i64 %place
  %tensor.at = getelementptr ptr, ptr %tensors, i64 %place
  switch i64 %kind, label %equal [ i64 0, label %same i64 1, label %tensor i64 3, label %any
                                i64 4, label %float i64 5, label %sequence i64 6, label %sequence
                                i64 7, label %sequence ]
sequence:
  %q.n = field %argument.ndim, ptr %want
  %q.type = field %array.type, ptr %arg
  br eq ptr %q.type, %object, label %sort, label %no
sort:
  ; A slice has its three items after its type, where others have their number.
  %q.begin = getelementptr i8, ptr %arg, i64 16
  br eq i64 %kind, 7, label %items, label %counted
counted:
  %q.size = load i64, ptr %q.begin
  if eq i64 %q.size, %q.n, else %no
  br eq i64 %q.n, 0, label %yes, label %held
held:
  ; A tuple holds its items itself, a list holds where they are.
  %q.inline = getelementptr i8, ptr %arg, i64 24
  %q.apart = load ptr, ptr %q.inline
  %q.list = icmp eq i64 %kind, 6
  %q.many = select i1 %q.list, ptr %q.apart, ptr %q.inline
items:
  %q.base = phi ptr [ %q.begin, %sort ], [ %q.many, %held ]
q.head:
  %q.i = phi i64 [ 0, %items ], [ %q.i1, %q.item ]
  br slt i64 %q.i, %q.n, label %q.item, label %yes
q.item:
  %q.o = item ptr, ptr %q.base[%q.i]
  %q.want = getelementptr %argument, ptr %c, i64 %q.i
  %q.ok = call i1 @suits(ptr %site, ptr %q.want, ptr %q.o, ptr %arrays, ptr %tensors)
  %q.i1 = add i64 %q.i, 1
  br i1 %q.ok, label %q.head, label %no
float:
  %f.type = field %array.type, ptr %arg
  %f.want = field %array.type, ptr %object
  if eq ptr %f.type, %f.want, else %no
  %f.bits.p = getelementptr i8, ptr %arg, i64 16
  %f.bits = load i64, ptr %f.bits.p
  %f.known.p = getelementptr i8, ptr %object, i64 16
  %f.known = load i64, ptr %f.known.p
  br eq i64 %f.bits, %f.known, label %known, label %no
any:
  %b = call ptr @array_of(ptr %site, ptr %arg)
  br eq ptr %b, null, label %no, label %element
element:
  %b.descr = field %array.descr, ptr %b
  br eq ptr %b.descr, %object, label %fits, label %no
tensor:
  %a = call ptr @array_of(ptr %site, ptr %arg)
  br eq ptr %a, null, label %no, label %typed
typed:
  %descr = field %array.descr, ptr %a
  %right = icmp eq ptr %descr, %object
  %nd32 = field %array.nd, ptr %a
  %nd = sext i32 %nd32 to i64
  %want.nd = field %argument.ndim, ptr %want
  %ranked = icmp eq i64 %nd, %want.nd
  %both = and i1 %right, %ranked
  br i1 %both, label %shape, label %no
shape:
  %dims = field %array.dims, ptr %a
head:
  %i = phi i64 [ 0, %shape ], [ %i1, %dim ]
  br slt i64 %i, %nd, label %dim, label %fits
dim:
  %d = item i64, ptr %dims[%i]
  %w = item i64, ptr %c[%i]
  %i1 = add i64 %i, 1
  br eq i64 %d, %w, label %head, label %no
fits:
  %suitable = phi ptr [ %a, %head ], [ %b, %element ]
  if sge i64 %place, 0, else %yes
  store ptr %suitable, ptr %array.at
  store ptr %arg, ptr %tensor.at
  ret i1 true
same:
  br eq ptr %arg, %object, label %known, label %no
equal:
  br eq ptr %arg, %object, label %known, label %compare
compare:
  %type = field %array.type, ptr %arg
  %want.type = field %array.type, ptr %object
  if eq ptr %type, %want.type, else %no
  %answer = call i32 @equal(ptr %arg, ptr %object)
  br eq i32 %answer, 1, label %known, label %no
known:
  if sge i64 %place, 0, else %yes
  %t = field %argument.tensor, ptr %want
  store ptr %c, ptr %array.at
  store ptr %t, ptr %tensor.at
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether a call fits a case.
define internal i1 @applies(ptr %site, ptr %case, ptr %args, i64 %nargs, ptr %kwnames,
                            ptr %arrays, ptr %tensors) nounwind {
  %sizes = alloca [3 x i64]
  %want.nargs = field %case.nargs, ptr %case
  if eq i64 %nargs, %want.nargs, else %no
  %want.names = field %case.kwnames, ptr %case
  if ne ptr %kwnames, %want.names, else %begin
  %n1 = icmp eq ptr %kwnames, null
  %n2 = icmp eq ptr %want.names, null
  %lacks = or i1 %n1, %n2
  br i1 %lacks, label %no, label %compare
compare:
  %answer = call i32 @equal(ptr %kwnames, ptr %want.names)
  br eq i32 %answer, 1, label %begin, label %no
begin:
  %total = field %case.total, ptr %case
  %specs = field %case.arguments, ptr %case
  loop %i < %total, else %bound
  %arg = item ptr, ptr %args[%i]
  %want = getelementptr %argument, ptr %specs, i64 %i
  ; The usual fit of what is no operand (kinds 0, 2 and 4): the very object.
  %kind = load i64, ptr %want
  %place = field %argument.place, ptr %want
  %object = field %argument.object, ptr %want
  %odd = and i64 %kind, 1
  %even = icmp eq i64 %odd, 0
  %few = icmp ult i64 %kind, 5
  %unplaced = icmp slt i64 %place, 0
  %very = icmp eq ptr %arg, %object
  %object.kind = and i1 %even, %few
  %no.operand = and i1 %object.kind, %unplaced
  %short = and i1 %no.operand, %very
  br i1 %short, label %next, label %ask.it
ask.it:
  %ok = call i1 @suits(ptr %site, ptr %want, ptr %arg, ptr %arrays, ptr %tensors)
  br i1 %ok, label %next, label %no
next:
  next %i
bound:
  ; The entry was bound to these arrays: do the tensors still hold them?
  %offset = field %site.offset, ptr %site
  %params = field %case.params, ptr %case
  %nparams = field %case.nparams, ptr %case
param:
  %j = phi i64 [ 0, %bound ], [ %j1, %check ]
  br slt i64 %j, %nparams, label %check, label %current
check:
  %p = item ptr, ptr %params[%j, 0]
  %held.p = getelementptr i8, ptr %p, i64 %offset
  %held = load ptr, ptr %held.p
  %was = item ptr, ptr %params[%j, 1]
  %j1 = add i64 %j, 1
  br eq ptr %held, %was, label %param, label %no
current:
  ; Values precomputed from them are of this version of them, or there are none (-1).
  %state = load ptr, ptr %site
  %epoch = field %state.weights_version, ptr %state
  %of = field %case.weights_version, ptr %case
  %any = icmp eq i64 %of, -1
  %present = icmp eq i64 %of, %epoch
  %valid = or i1 %any, %present
  if %valid, else %no
  ; Would Python find what was read of its objects?
  %words = field %case.words, ptr %case
  %nwords = field %case.nwords, ptr %case
  %moved = call i64 @first_changed(ptr %words, i64 %nwords)
  if slt i64 %moved, 0, else %no
  %sized = field %case.sized, ptr %case
  if ne i64 %sized, 0, else %yes
  ; Do the operands lie over the result as the entry wants it?
  %capsule = field %case.capsule, ptr %case
  %ctx = call ptr {CAPSULE_GET_POINTER}(ptr %capsule, ptr null)
  %n = field %case.noperands, ptr %case
  %lead = call ptr @measure(ptr %ctx, ptr %arrays, i64 %n, ptr %sizes)
  br eq ptr %lead, null, label %no, label %yes
yes:
  ret i1 true
no:
  ret i1 false
}

; One more reference to each (up = true), or one less.
define internal void @hold(ptr %objects, i64 %n, i1 %up) nounwind {
  %inc = load ptr, ptr {INC_REF}
  %dec = load ptr, ptr {DEC_REF}
  %f = select i1 %up, ptr %inc, ptr %dec
  loop %i < %n, else %out
  %o = item ptr, ptr %objects[%i]
  call void %f(ptr %o)
  next %i
out:
  ret void
}

; Append (info, result, *operands) to the tape; false with an exception set.
define internal i1 @record(ptr %tape, ptr %info, ptr %result, ptr %tensors, i64 %n) nounwind {
  %new = load ptr, ptr {TUPLE_NEW}
  %set = load ptr, ptr {TUPLE_SET_ITEM}
  %inc = load ptr, ptr {INC_REF}
  %dec = load ptr, ptr {DEC_REF}
  %size = add i64 %n, 2
  %event = call ptr %new(i64 %size)
  if ne ptr %event, null, else %no
  call void %inc(ptr %info)
  %r0 = call i32 %set(ptr %event, i64 0, ptr %info)
  call void %inc(ptr %result)
  %r1 = call i32 %set(ptr %event, i64 1, ptr %result)
  loop %i < %n, else %put
  %t = item ptr, ptr %tensors[%i]
  call void %inc(ptr %t)
  %at = add i64 %i, 2
  %r2 = call i32 %set(ptr %event, i64 %at, ptr %t)
  next %i
put:
  %rc = call i32 {LIST_APPEND}(ptr %tape, ptr %event)
  call void %dec(ptr %event)
  %good = icmp eq i32 %rc, 0
  ret i1 %good
no:
  ret i1 false
}

; A Tensor of an array, whose reference it takes over; null with an exception set.
define internal ptr @wrapped(ptr %site, ptr %array) nounwind {
  %tensor = field %site.tensor, ptr %site
  %offset = field %site.offset, ptr %site
  %t = call ptr {GENERIC_ALLOC}(ptr %tensor, i64 0)
  if eq ptr %t, null, else %fill
  call void {DEC_REF}(ptr %array)
  ret ptr null
fill:
  %slot = getelementptr i8, ptr %t, i64 %offset
  store ptr %array, ptr %slot
  ret ptr %t
}

; The results of an entry as Tensors: of one array, or in a tuple that nobody else holds yet.
define internal ptr @wrap_all(ptr %site, ptr %results, i64 %n) nounwind {
  if eq i64 %n, 1, else %head
  %only = call ptr @wrapped(ptr %site, ptr %results)
  ret ptr %only
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %put ]
  if slt i64 %i, %n, else %out
  %array = call ptr {TUPLE_GET_ITEM}(ptr %results, i64 %i)
  call void {INC_REF}(ptr %array)
  %t = call ptr @wrapped(ptr %site, ptr %array)
  br eq ptr %t, null, label %drop, label %put
put:
  %rc = call i32 {TUPLE_SET_ITEM}(ptr %results, i64 %i, ptr %t)
  %i1 = add i64 %i, 1
  br label %head
drop:
  call void {DEC_REF}(ptr %results)
  ret ptr null
out:
  ret ptr %results
}

; Call the entry of a case (while a thread records, that for its tape); Tensors of its arrays.
define internal ptr @answer(ptr %site, ptr %case, ptr %arrays, ptr %tensors, ptr %tape) nounwind {
  %taped = icmp ne ptr %tape, null
  %fn1 = field %case.function, ptr %case
  %fn2 = field %case.tape_function, ptr %case
  %fn = select i1 %taped, ptr %fn2, ptr %fn1
  %capsule1 = field %case.capsule, ptr %case
  %capsule2 = field %case.tape_capsule, ptr %case
  %capsule = select i1 %taped, ptr %capsule2, ptr %capsule1
  %nouts1 = field %case.nouts, ptr %case
  %nouts2 = field %case.tape_nouts, ptr %case
  %nouts = select i1 %taped, i64 %nouts2, i64 %nouts1
  %pick = field %case.pick, ptr %case
  %n = field %case.noperands, ptr %case
  ; The entry may let other threads run: what it needs, and what is recorded, stays alive. The case
  ; may not: it is not read any more.
  %kept = alloca [3 x ptr]
  %owner1 = field %case.entry, ptr %case
  %owner2 = field %case.tape_entry, ptr %case
  %owner = select i1 %taped, ptr %owner2, ptr %owner1
  store ptr %owner, ptr %kept
  %info = field %case.info, ptr %case
  put ptr %info, ptr %kept[1]
  put ptr %tape, ptr %kept[2]
  %nkept = select i1 %taped, i64 3, i64 1
  call void @hold(ptr %kept, i64 %nkept, i1 true)
  call void @hold(ptr %arrays, i64 %n, i1 true)
  call void @hold(ptr %tensors, i64 %n, i1 true)
  %array = call ptr %fn(ptr %capsule, ptr %arrays, i64 %n)
  br eq ptr %array, null, label %done, label %wrap
wrap:
  %t = call ptr @wrap_all(ptr %site, ptr %array, i64 %nouts)
  %none = icmp eq ptr %t, null
  %quiet = xor i1 %taped, true
  %settled = or i1 %none, %quiet
  br i1 %settled, label %done, label %tell
tell:
  %ok = call i1 @record(ptr %tape, ptr %info, ptr %t, ptr %tensors, i64 %n)
  br i1 %ok, label %whole, label %undo
whole:
  br slt i64 %pick, 0, label %done, label %one
one:
  %item = call ptr {TUPLE_GET_ITEM}(ptr %t, i64 %pick)
  call void {INC_REF}(ptr %item)
  call void {DEC_REF}(ptr %t)
  br label %done
undo:
  call void {DEC_REF}(ptr %t)
done:
  %result = phi ptr [ null, %entry ], [ %t, %wrap ], [ %t, %whole ], [ %item, %one ],
                    [ null, %undo ]
  call void @hold(ptr %tensors, i64 %n, i1 false)
  call void @hold(ptr %arrays, i64 %n, i1 false)
  call void @hold(ptr %kept, i64 %nkept, i1 false)
  ret ptr %result
}

define hidden ptr @{SITE}(ptr %self, ptr %args, i64 %nargs, ptr %kwnames) nounwind {
  %arrays = alloca [16 x ptr]
  %tensors = alloca [16 x ptr]
  %site = call ptr {CAPSULE_GET_POINTER}(ptr %self, ptr null)
  %state = load ptr, ptr %site
  %guard = field %site.guard, ptr %site
  %now = load i64, ptr %guard
  %wanted = field %site.wanted, ptr %site
  %may = icmp eq i64 %now, %wanted
  %some = icmp sgt i64 %nargs, 0
  %try = and i1 %may, %some
  br i1 %try, label %mode, label %plain
mode:
  %busy = load i64, ptr %state
  if ne i64 %busy, 0, else %look
  %taped = field %state.tape, ptr %state
  %has = icmp ne ptr %taped, null
  %once = icmp eq i64 %busy, 1
  %lent = and i1 %has, %once
  br i1 %lent, label %mine, label %plain
mine:
  %thread = field %state.thread, ptr %state
  %me = call ptr {THREAD_STATE_GET}()
  br eq ptr %me, %thread, label %look, label %plain
look:
  %tape = phi ptr [ null, %mode ], [ %taped, %mine ]
  %first = load ptr, ptr %args
  %number = ptrtoint ptr %first to i64
  %shifted = lshr i64 %number, 4
  %mask = field %site.mask, ptr %site
  %bucket = and i64 %shifted, %mask
  %table = field %site.table, ptr %site
  %head.p = getelementptr ptr, ptr %table, i64 %bucket
head:
  %case.p = phi ptr [ %head.p, %look ], [ %case, %next ]
  %case = load ptr, ptr %case.p
  if ne ptr %case, null, else %slow
  %fits = call i1 @applies(ptr %site, ptr %case, ptr %args, i64 %nargs, ptr %kwnames,
                           ptr %arrays, ptr %tensors)
  br i1 %fits, label %run, label %next
next:
  br label %head
run:
  %quiet = icmp eq ptr %tape, null
  %recorder = field %case.tape_function, ptr %case
  %records = icmp ne ptr %recorder, null
  %can = or i1 %quiet, %records
  if %can, else %plain
  ; (The case may be gone after the call.)
  %again = field %case.again, ptr %case
  %result = call ptr @answer(ptr %site, ptr %case, ptr %arrays, ptr %tensors, ptr %tape)
  %good = icmp ne ptr %result, null
  %final = icmp eq i64 %again, 0
  %over = or i1 %good, %final
  if %over, else %forgive
  ret ptr %result
forgive:
  ; Of several ops: the long way says what is wrong, and where.
  call void {ERR_CLEAR}()
  br label %plain
slow:
  %asked = field %site.slow, ptr %site
  br label %long
plain:
  %usual = field %site.plain, ptr %site
long:
  %callable = phi ptr [ %asked, %slow ], [ %usual, %plain ]
  %reply = tail call ptr {VECTORCALL}(ptr %callable, ptr %args, i64 %nargs, ptr %kwnames)
  ret ptr %reply
}
""".replace("{SITE}", SITE).replace("{WORDS}", WORDS)
