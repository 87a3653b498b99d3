; The calls of entries, from the caller's arguments to programs and back; see `texts.ll`.

; The tasks of a kernel, by the caller's executor or by the pool. An executor that leaves out some is
; noted; the pool does them all then, since later kernels may use what they compute as addresses.
define hidden void @cellc_shared_out(ptr %fn, ptr %bufs, i64 %ntasks, i64 %grain) nounwind {
  %tasks = alloca %tasks
  %executor = load atomic ptr, ptr @cellc_executor acquire, align 8
  if %executor != null, else %pool
  %tasks->tasks.function = %fn
  %tasks->tasks.arguments = %bufs
  %tasks->tasks.count = %ntasks
  %tasks->tasks.done = 0
  void %executor(@cellc_executor_context:ptr, @counted, %tasks, %ntasks, %grain)
  %at = &%tasks->tasks.done
  %done = load atomic i64, ptr %at acquire, align 8
  if %done != %ntasks, else ret void
  store atomic i32 1, ptr @cellc_executor_failed release, align 4
pool:
  void @cellc_pool_run(%fn, %bufs, %ntasks, %grain)
}

; Do some tasks of a kernel for an executor, and count them.
define internal void @counted(ptr %tasks, i64 %first, i64 %last) nounwind {
  %at = &%tasks->tasks.done
  %some = %last - %first
  %count = %tasks->tasks.count
  if %first >= 0 & %first <= %last & %last <= %count, else %refused
  %function = %tasks->tasks.function
  void %function(%tasks->tasks.arguments, %first, %last)
  %had = atomicrmw add ptr %at, i64 %some acq_rel
  ret void
refused:
  %never = atomicrmw or ptr %at, i64 {MOST} acq_rel
}

; Whether the caller's executor has done all tasks until now.
define internal i32 @executed(ptr %e, ptr %error) nounwind {
  %failed = load atomic i32, ptr @cellc_executor_failed acquire, align 4
  if %failed == 0, else tell {RUN}, "For '", %e->entry.name,
      "', the executor must do all tasks of a kernel, each once, and return when they are done, ",
      "but it has not: give set_executor another one, or NULL."
  ret 0
}

; Whether memory that a call writes is apart from the weights.
define internal i32 @not_weights(ptr %session, ptr %must, ptr %data, i64 %nbytes,
                                 ptr %error) nounwind {
  %base = %session->session.base
  %all = @cellc_net->net.file_bytes - @cellc_net->net.head_bytes
  %own = @overlap(%data, %nbytes, %session, @cellc_net->net.session_bytes)
  %packed = @overlap(%data, %nbytes, %base, @cellc_net->net.base_bytes)
  if not %own | %packed | @overlap(%data, %nbytes, %base->base.data, %all), else tell {BUFFER},
      %must, " in memory of its own, but got that of a weight."
  ret 0
}

; Whether this thread has the session now.
define internal i32 @enter(ptr %session, ptr %error) nounwind {
  try @belongs(%session, %error)
  %busy = &%session->session.busy
  %pair = cmpxchg ptr %busy, i64 0, i64 1 acq_rel monotonic
  %won = extractvalue { i64, i1 } %pair, 1
  if %won, else tell {BUSY},
      "Another thread is in a call of this session: give each thread one (clone)."
  ret 0
}

; Whether a session is one of this library. What was destroyed is often still readable, and says no.
define internal i32 @belongs(ptr %session, ptr %error) nounwind {
  if %session != null, else tell {ARGUMENT}, "The session must not be NULL."
  if %session->session.owner == @cellc_net, else tell {ARGUMENT},
      "The session must be one of the library '", @cellc_net->net.library->library.name,
      "' that is not destroyed."
  ret 0
}

define internal void @leave(ptr %session) nounwind {
  %busy = &%session->session.busy
  store atomic i64 0, ptr %busy release, align 8
}

define internal i32 @no_entry(i32 %number, ptr %error) nounwind {
  tell {ARGUMENT}, "The number of an entry must be below ",
       count(sext.i64(@cellc_net->net.library->library.nentries)), ", but got ",
       count(sext.i64(%number)), "."
}

define internal i32 @counts(ptr %e, i32 %nin, i32 %nout, ptr %error) nounwind {
  tell {ARGUMENT}, "For '", %e->entry.name, "', the numbers of inputs and outputs must be ",
       count(sext.i64(%e->entry.ninputs)), " and ", count(sext.i64(%e->entry.noutputs)),
       ", but got ", count(sext.i64(%nin)), " and ", count(sext.i64(%nout)), "."
}

define internal i32 @null_tensors(ptr %e, ptr %error) nounwind {
  tell {ARGUMENT}, "For '", %e->entry.name, "', the inputs and the outputs must not be NULL."
}

define internal i32 @unserved(ptr %e, ptr %sizes, ptr %error) nounwind {
  %rc = @outcome(%error, {SIZES})
  say "For '", %e->entry.name, "', the sizes must be ", %e->entry.served, ", but got "
  %names = %e->entry.sizes
  loop %i < sext.i64(%e->entry.nsizes), else %done
  if %i != 0, else %one
  @say(%error, ", ")
one:
  say %names[%i]->size.name, " = ", count(%sizes:i64[%i])
  next %i
done:
  @put(%error, 46)
  ret %rc
}

; Check the arguments of a call and run it (what: as in `takes`); the session is this thread's.
define internal i32 @called(ptr %session, i32 %number, ptr %inputs, i32 %nin, ptr %outputs,
                            i32 %nout, i64 %what, ptr %error) nounwind {
  %sizes = alloca [16 x i64]
  loop %s < 16, else %known
  %sizes:i64[%s] = -1
  next %s
known:
  %library = @cellc_net->net.library
  if %number >= 0 & %number < %library->library.nentries, else ret @no_entry(%number, %error)
  %k = zext.i64(%number)
  %entries = %library->library.entries
  %plans = @cellc_net->net.plans
  %e = &%entries:%entry[%k]
  %plan = &%plans:%plan[%k]
  if %nin == %e->entry.ninputs & %nout == %e->entry.noutputs,
      else ret @counts(%e, %nin, %nout, %error)
  if (%nin == 0 | %inputs != null) & (%nout == 0 | %outputs != null),
      else ret @null_tensors(%e, %error)
  %must = %plan->plan.must
  %arguments = %e->entry.inputs
  %n.in = zext.i64(%nin)
  loop %i < %n.in, else %typed
  try @fits(%must:ptr[%i], &%arguments:%argument[%i], &%inputs:%tensor[%i], %sizes, %error)
  %given = &%inputs:%tensor[%i]
  %some = @bytes_of(%given->tensor.dtype, %given->tensor.ndim, &%given->tensor.shape)
  %mine = @overlap(%given->tensor.data, %some, %session, @cellc_net->net.session_bytes)
  if not %mine & %e->entry.updates != 0, else tell {BUFFER}, %must:ptr[%i],
      " in memory of its own, but got that of a weight."
  next %i
typed:
  %variant = @choose(%plan, zext.i64(%e->entry.nsizes), %sizes)
  if %variant != null, else ret @unserved(%e, %sizes, %error)
  %program = &@cellc_net->net.programs:%program[%variant->variant.programs:i64]
  %rows = %variant->variant.kind == 2 ? %sizes:i64[%variant->variant.batch] : -1
  %open = %program->program.open
  %shapes.at = alloca ptr
  %shapes.at:ptr = %program->program.shapes
  if %open != null, else %shaped
  try @open_at(%session, %program, %sizes, %error)
  %shapes.at:ptr = &%session:i8[%open->open.shapes_at]
shaped:
  %shapes = %shapes.at:ptr
  %results = %e->entry.outputs
  %bytes = &%session->session.pointers:i64[@cellc_net->net.npointers * 3]
  %n.out = zext.i64(%nout)
  loop %o < %n.out, else %takes.all
  try @takes(%must:ptr[%n.in + %o], &%results:%argument[%o], &%outputs:%tensor[%o],
                &%shapes:i64[%o * {MAX_NDIM}], %rows, %what, &%bytes:i64[%o], %error)
  next %o
takes.all:
  if %what != 1, else ret @outcome(%error, 0)
  try @executed(%e, %error)
  loop %w < %n.out, else %written
  %out = &%outputs:%tensor[%w]
  try @not_weights(%session, %must:ptr[%n.in + %w], %out->tensor.data, %bytes:i64[%w], %error)
  try @apart(%must, %n.in + %w, %out->tensor.data, %bytes:i64[%w], %inputs, %n.in, %outputs,
                %w, %bytes, %error)
  next %w
written:
  loop %v < %n.in, else %apart.all
  if %arguments[%v]->argument.written != 0, else %unwritten
  %in = &%inputs:%tensor[%v]
  %size = @bytes_of(%in->tensor.dtype, %in->tensor.ndim, &%in->tensor.shape)
  try @not_weights(%session, %must:ptr[%v], %in->tensor.data, %size, %error)
  try @apart(%must, %v, %in->tensor.data, %size, %inputs, %n.in, %outputs, 0, %bytes, %error)
unwritten:
  next %v
apart.all:
  try @windows(%session, %e, %variant, %inputs, %outputs, %rows, %error)
  try @executed(%e, %error)
  loop %d < %n.out, else ret @outcome(%error, 0)
  @describe(&%outputs:%tensor[%d], &%results:%argument[%d], &%shapes:i64[%d * {MAX_NDIM}], %rows)
  next %d
}

; Run the programs of a variant: one, or for a batch those that together serve its rows. Windows of
; a batch go from the front; the last one is moved back, and computes some rows again.
define internal i32 @windows(ptr %session, ptr %e, ptr %variant, ptr %inputs, ptr %outputs,
                             i64 %rows, ptr %error) nounwind {
  %at = alloca i64
  %which = alloca i64
  %batches = %variant->variant.batches
  %numbers = %variant->variant.programs
  %programs = @cellc_net->net.programs
  if %variant->variant.kind == 2, else %whole
  %at:i64 = 0
  loop %b < %variant->variant.nprograms, else %window
  if %batches:i64[%b] == %rows, else %unequal
  %which:i64 = %b
  br label %exact
unequal:
  next %b
whole:
  @point(%session, %e, %inputs, %outputs, 0, 0, -1)
  ret @run_one(%session, %e, &%programs:%program[%numbers:i64], %error)
exact:
  @point(%session, %e, %inputs, %outputs, 0, %rows, %variant->variant.batch)
  ret @run_one(%session, %e, &%programs:%program[%numbers:i64[%which:i64]], %error)
window:
  %done = %at:i64
  if %done < %rows, else ret 0
  %left = %rows - %done
  %first = %variant->variant.first
  %which:i64 = %first
  loop %f < %variant->variant.nprograms, else %found
  %fits = %f >= %first & %batches:i64[%f] <= %left
  %which:i64 = %fits ? %f : %which:i64
  next %f
found:
  %chosen = %which:i64
  %size = %batches:i64[%chosen]
  %last = %rows - %size
  @point(%session, %e, %inputs, %outputs, %done < %last ? %done : %last, %rows,
         %variant->variant.batch)
  try @run_one(%session, %e, &%programs:%program[%numbers:i64[%chosen]], %error)
  %at:i64 += %size
  br label %window
}

; Note where a program finds its inputs and outputs, from row `start` of a batch on.
define internal void @point(ptr %session, ptr %e, ptr %inputs, ptr %outputs, i64 %start,
                            i64 %rows, i64 %batch) nounwind {
  %n = @cellc_net->net.npointers
  %pointers = %session->session.pointers
  %results = &%pointers:ptr[%n]
  %bytes = &%pointers:i64[%n * 3]
  %arguments = %e->entry.inputs
  %some = %rows > 0 ? %rows : 1
  loop %i < zext.i64(%e->entry.ninputs), else %outs
  %in = &%inputs:%tensor[%i]
  %data = %in->tensor.data
  %pointers:ptr[%i] = %data
  %argument = &%arguments:%argument[%i]
  if %batch >= 0 & %argument->argument.ndim > 0, else %fixed
  if sext.i64(%argument->argument.sizes:i32) == %batch, else %fixed
  %nbytes = @bytes_of(%in->tensor.dtype, %in->tensor.ndim, &%in->tensor.shape)
  %pointers:ptr[%i] = &%data:i8[%nbytes / %some * %start]
fixed:
  next %i
outs:
  loop %o < zext.i64(%e->entry.noutputs), else %end
  %out = &%outputs:%tensor[%o]
  %results:ptr[%o] = &%out->tensor.data:i8[%bytes:i64[%o] / %some * %start]
  next %o
}

define hidden i32 @cellc_run(ptr %session, i32 %number, ptr %inputs, i32 %nin, ptr %outputs,
                             i32 %nout, ptr %error) nounwind {
  try @enter(%session, %error)
  %rc = @called(%session, %number, %inputs, %nin, %outputs, %nout, 0, %error)
  @leave(%session)
  ret %rc
}

define hidden i32 @cellc_measure(ptr %session, i32 %number, ptr %inputs, i32 %nin, ptr %outputs,
                                 i32 %nout, ptr %error) nounwind {
  try @enter(%session, %error)
  %room = &%session:i8[@cellc_net->net.tensors_at]
  %rc = @measured(%session, %number, %inputs, %nin, %outputs, %nout, %room, %error)
  @leave(%session)
  ret %rc
}

; As `called` with a question, whose inputs need no buffers.
define internal i32 @measured(ptr %session, i32 %number, ptr %inputs, i32 %nin, ptr %outputs,
                              i32 %nout, ptr %room, ptr %error) nounwind {
  %dummy = alloca [16 x i8], align 16
  if %inputs != null & %nin >= 0 & zext.i64(%nin) <= @cellc_net->net.npointers, else %as.given
  loop %i < zext.i64(%nin), else %asked
  %copy = &%room:%tensor[%i]
  ptr {memcpy}(%copy, &%inputs:%tensor[%i], i64 {TENSOR_BYTES})
  %copy->tensor.data = %dummy
  %copy->tensor.nbytes = {MOST}
  next %i
asked:
  ret @called(%session, %number, %room, %nin, %outputs, %nout, 1, %error)
as.given:
  ret @called(%session, %number, %inputs, %nin, %outputs, %nout, 1, %error)
}

define hidden i32 @cellc_find(ptr %library, ptr %name) nounwind {
  if %library != null & %name != null, else ret -1
  %entries = %library->library.entries
  loop %i < zext.i64(%library->library.nentries), else ret -1
  if i32 {strcmp}(%entries[%i]->entry.name, %name) != 0, else ret trunc.i32(%i)
  next %i
}
