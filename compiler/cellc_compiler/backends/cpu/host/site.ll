; Native call sites, as LLVM text: the usual call of an op or a Cell without the interpreter.
;
; A site is a `METH_FASTCALL | METH_KEYWORDS` function over Tensors. It holds cases: what the
; arguments of an earlier call were (element type and shape of a tensor, identity or value of
; anything else) and the native entry that answered it. A call that fits a case takes the arrays
; out of the Tensors, calls the entry and wraps its result; every other call goes to the Python
; callable of the site, which teaches it a new case.
;
; While a thread traces a graph, no call is usual. While exactly one thread records for gradients
; and it is the caller's, the call is appended to its tape.

; The position of the first word that is not what it was, or -1.
define internal i64 @first_changed(ptr %words, i64 %n) nounwind {
  loop %i < %n, else %all
  %w = &%words:%word[%i]
  if (%w:ptr:i64 & %w->word.mask) == %w->word.value, else ret %i
  next %i
all:
  ret -1
}

; The same for a function of Python over a table of words.
define hidden ptr @{WORDS}(ptr %self, ptr %unused) nounwind {
  %table = ptr {CAPSULE_GET_POINTER}(%self, null)
  ret ptr {LONG_FROM_LONG}(@first_changed(%table->words.words, %table->words.count))
}

; The array of a Tensor or Parameter, or null.
define internal ptr @array_of(ptr %site, ptr %t) nounwind {
  %type = %t->array.type
  if %type == %site->site.tensor | %type == %site->site.parameter, else ret null
  %slot = &%t:i8[%site->site.offset]
  %a = %slot:ptr
  if %a != null, else ret null
  if %a->array.type == %site->site.ndarray, else ret null
  ret %a
}

; 1 where two objects are equal. A comparison that fails (there may be no room on the stack for it)
; finds them unequal: the long way says what is wrong.
define internal i32 @equal(ptr %a, ptr %b) nounwind {
  %answer = i32 {RICH_COMPARE_BOOL}(%a, %b, i32 2)
  if %answer < 0, else %done
  void {ERR_CLEAR}()
done:
  ret %answer
}

; Whether an argument is what the case says; its operand is entered.
define internal i1 @suits(ptr %site, ptr %want, ptr %arg, ptr %arrays, ptr %tensors) nounwind {
  %kind = %want:i64
  %place = %want->argument.place
  %object = %want->argument.object
  %c = %want->argument.more
  %array.at = &%arrays:ptr[%place]
  %tensor.at = &%tensors:ptr[%place]
  switch i64 %kind, label %equal [ i64 0, label %same i64 1, label %tensor i64 3, label %any
                                i64 4, label %float i64 5, label %sequence i64 6, label %sequence
                                i64 7, label %sequence ]
sequence:
  %q.n = %want->argument.ndim
  br %arg->array.type == %object, %sort, %no
sort:
  ; A slice has its three items after its type, where others have their number.
  %q.begin = &%arg:i8[16]
  if not %kind == 7, else %items
  if %q.begin:i64 == %q.n, else %no
  br %q.n == 0, %yes, %held
held:
  ; A tuple holds its items itself, a list holds where they are.
  %q.inline = &%arg:i8[24]
  %q.many = %kind == 6 ? %q.inline:ptr : %q.inline
items:
  %q.base = phi ptr [ %q.begin, %sort ], [ %q.many, %held ]
q.head:
  %q.i = phi i64 [ 0, %items ], [ %q.i1, %q.item ]
  br %q.i < %q.n, %q.item, %yes
q.item:
  %q.o = %q.base:ptr[%q.i]
  %q.ok = @suits(%site, &%c:%argument[%q.i], %q.o, %arrays, %tensors)
  %q.i1 = %q.i + 1
  br %q.ok, %q.head, %no
float:
  if %arg->array.type == %object->array.type, else %no
  %f.bits.p = &%arg:i8[16]
  %f.known.p = &%object:i8[16]
  br %f.bits.p:i64 == %f.known.p:i64, %known, %no
any:
  %b = @array_of(%site, %arg)
  br %b == null, %no, %element
element:
  br %b->array.descr == %object, %fits, %no
tensor:
  %a = @array_of(%site, %arg)
  if not %a == null, else %no
  %nd = sext.i64(%a->array.nd)
  br %a->array.descr == %object & %nd == %want->argument.ndim, %shape, %no
shape:
  %dims = %a->array.dims
head:
  %i = phi i64 [ 0, %shape ], [ %i1, %dim ]
  br %i < %nd, %dim, %fits
dim:
  %i1 = %i + 1
  br %dims:i64[%i] == %c:i64[%i], %head, %no
fits:
  %suitable = phi ptr [ %a, %head ], [ %b, %element ]
  if %place >= 0, else %yes
  %array.at:ptr = %suitable
  %tensor.at:ptr = %arg
  ret true
same:
  br %arg == %object, %known, %no
equal:
  if not %arg == %object, else %known
  if %arg->array.type == %object->array.type, else %no
  br @equal(%arg, %object) == 1, %known, %no
known:
  if %place >= 0, else %yes
  %t = %want->argument.tensor
  %array.at:ptr = %c
  %tensor.at:ptr = %t
yes:
  ret true
no:
  ret false
}

; Whether a call fits a case.
define internal i1 @applies(ptr %site, ptr %case, ptr %args, i64 %nargs, ptr %kwnames,
                            ptr %arrays, ptr %tensors) nounwind {
  %sizes = alloca [3 x i64]
  if %nargs == %case->case.nargs, else %no
  %want.names = %case->case.kwnames
  if %kwnames != %want.names, else %begin
  if not %kwnames == null | %want.names == null, else %no
  br @equal(%kwnames, %want.names) == 1, %begin, %no
begin:
  %total = %case->case.total
  %specs = %case->case.arguments
  loop %i < %total, else %bound
  %arg = %args:ptr[%i]
  %want = &%specs:%argument[%i]
  ; The usual fit of what is no operand (kinds 0, 2 and 4): the very object.
  %kind = %want:i64
  %very = %arg == %want->argument.object
  if not (%kind & 1) == 0 & %kind <u 5 & %want->argument.place < 0 & %very, else %next
  br @suits(%site, %want, %arg, %arrays, %tensors), %next, %no
next:
  next %i
bound:
  ; The entry was bound to these arrays: do the tensors still hold them?
  %offset = %site->site.offset
  %params = %case->case.params
  %nparams = %case->case.nparams
param:
  %j = phi i64 [ 0, %bound ], [ %j1, %check ]
  br %j < %nparams, %check, %current
check:
  %held.p = &%params:ptr[%j, 0]:i8[%offset]
  %held = %held.p:ptr
  %j1 = %j + 1
  br %held == %params:ptr[%j, 1], %param, %no
current:
  ; Values precomputed from them are of this version of them, or there are none (-1).
  %of = %case->case.weights_version
  if %of == -1 | %of == %site:ptr->state.weights_version, else %no
  ; Would Python find what was read of its objects?
  if @first_changed(%case->case.words, %case->case.nwords) < 0, else %no
  if %case->case.sized != 0, else %yes
  ; Do the operands lie over the result as the entry wants it?
  %ctx = ptr {CAPSULE_GET_POINTER}(%case->case.capsule, null)
  %n = %case->case.noperands
  br @measure(%ctx, %arrays, %n, %sizes) == null, %no, %yes
yes:
  ret true
no:
  ret false
}

; One more reference to each (up = true), or one less.
define internal void @hold(ptr %objects, i64 %n, i1 %up) nounwind {
  %f = %up ? {INC_REF}:ptr : {DEC_REF}:ptr
  loop %i < %n, else %end
  void %f(%objects:ptr[%i])
  next %i
}

; Append (info, result, *operands) to the tape; false with an exception set.
define internal i1 @record(ptr %tape, ptr %info, ptr %result, ptr %tensors, i64 %n) nounwind {
  %new = {TUPLE_NEW}:ptr
  %set = {TUPLE_SET_ITEM}:ptr
  %inc = {INC_REF}:ptr
  %dec = {DEC_REF}:ptr
  %event = ptr %new(%n + 2)
  if %event != null, else ret false
  void %inc(%info)
  %r0 = i32 %set(%event, i64 0, %info)
  void %inc(%result)
  %r1 = i32 %set(%event, i64 1, %result)
  loop %i < %n, else %put
  %t = %tensors:ptr[%i]
  void %inc(%t)
  %r2 = i32 %set(%event, %i + 2, %t)
  next %i
put:
  %rc = i32 {LIST_APPEND}(%tape, %event)
  void %dec(%event)
  ret %rc == 0
}

; A Tensor of an array, whose reference it takes over; null with an exception set.
define internal ptr @wrapped(ptr %site, ptr %array) nounwind {
  %tensor = %site->site.tensor
  %offset = %site->site.offset
  %t = ptr {GENERIC_ALLOC}(%tensor, i64 0)
  if %t == null, else %fill
  void {DEC_REF}(%array)
  ret null
fill:
  %slot = &%t:i8[%offset]
  %slot:ptr = %array
  ret %t
}

; The results of an entry as Tensors: of one array, or in a tuple that nobody else holds yet.
define internal ptr @wrap_all(ptr %site, ptr %results, i64 %n) nounwind {
  if %n == 1, else %head
  ret @wrapped(%site, %results)
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %put ]
  if %i < %n, else ret %results
  %array = ptr {TUPLE_GET_ITEM}(%results, %i)
  void {INC_REF}(%array)
  %t = @wrapped(%site, %array)
  br %t == null, %drop, %put
put:
  %rc = i32 {TUPLE_SET_ITEM}(%results, %i, %t)
  %i1 = %i + 1
  br label %head
drop:
  void {DEC_REF}(%results)
  ret null
}

; Call the entry of a case (while a thread records, that for its tape); Tensors of its arrays.
define internal ptr @answer(ptr %site, ptr %case, ptr %arrays, ptr %tensors, ptr %tape) nounwind {
  %taped = %tape != null
  %fn1 = %case->case.function
  %fn = %taped ? %case->case.tape_function : %fn1
  %capsule1 = %case->case.capsule
  %capsule = %taped ? %case->case.tape_capsule : %capsule1
  %nouts1 = %case->case.nouts
  %nouts = %taped ? %case->case.tape_nouts : %nouts1
  %pick = %case->case.pick
  %n = %case->case.noperands
  ; The entry may let other threads run: what it needs, and what is recorded, stays alive. The case
  ; may not: it is not read any more.
  %kept = alloca [3 x ptr]
  %owner1 = %case->case.entry
  %kept:ptr = %taped ? %case->case.tape_entry : %owner1
  %info = %case->case.info
  %kept:ptr[1] = %info
  %kept:ptr[2] = %tape
  %nkept = %taped ? i64 3 : 1
  @hold(%kept, %nkept, true)
  @hold(%arrays, %n, true)
  @hold(%tensors, %n, true)
  %array = ptr %fn(%capsule, %arrays, %n)
  br %array == null, %done, %wrap
wrap:
  %t = @wrap_all(%site, %array, %nouts)
  if not %t == null | %taped ^ true, else %done
  br @record(%tape, %info, %t, %tensors, %n), %whole, %undo
whole:
  br %pick < 0, %done, %one
one:
  %item = ptr {TUPLE_GET_ITEM}(%t, %pick)
  void {INC_REF}(%item)
  void {DEC_REF}(%t)
  br label %done
undo:
  void {DEC_REF}(%t)
done:
  %result = phi ptr [ null, %entry ], [ %t, %wrap ], [ %t, %whole ], [ %item, %one ],
                    [ null, %undo ]
  @hold(%tensors, %n, false)
  @hold(%arrays, %n, false)
  @hold(%kept, %nkept, false)
  ret %result
}

define hidden ptr @{SITE}(ptr %self, ptr %args, i64 %nargs, ptr %kwnames) nounwind {
  %arrays = alloca [16 x ptr]
  %tensors = alloca [16 x ptr]
  %site = ptr {CAPSULE_GET_POINTER}(%self, null)
  %state = %site:ptr
  br %site->site.guard:i64 == %site->site.wanted & %nargs > 0, %mode, %plain
mode:
  %busy = %state:i64
  if %busy != 0, else %look
  %taped = %state->state.tape
  br %taped != null & %busy == 1, %mine, %plain
mine:
  %thread = %state->state.thread
  br ptr {THREAD_STATE_GET}() == %thread, %look, %plain
look:
  %tape = phi ptr [ null, %mode ], [ %taped, %mine ]
  %head.p = &%site->site.table:ptr[ptrtoint.i64(%args:ptr) >> 4 & %site->site.mask]
head:
  %case.p = phi ptr [ %head.p, %look ], [ %case, %next ]
  %case = %case.p:ptr
  if %case != null, else %slow
  br @applies(%site, %case, %args, %nargs, %kwnames, %arrays, %tensors), %run, %next
next:
  br label %head
run:
  if %tape == null | %case->case.tape_function != null, else %plain
  ; (The case may be gone after the call.)
  %again = %case->case.again
  %result = @answer(%site, %case, %arrays, %tensors, %tape)
  if %result != null | %again == 0, else %forgive
  ret %result
forgive:
  ; Of several ops: the long way says what is wrong, and where.
  void {ERR_CLEAR}()
  br label %plain
slow:
  %asked = %site->site.slow
  br label %long
plain:
  %usual = %site->site.plain
long:
  %callable = phi ptr [ %asked, %slow ], [ %usual, %plain ]
  ret tail ptr {VECTORCALL}(%callable, %args, %nargs, %kwnames)
}
