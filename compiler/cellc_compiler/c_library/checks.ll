; The checks of a call's arguments, of our own structure and of DLPack's; see `texts.ll`.

; Bytes of a tensor; negative where they do not fit 63 bits.
define internal i64 @bytes_of(i32 %dtype, i32 %ndim, ptr %shape) nounwind {
  %total = alloca i64
  %total:i64 = @cellc_itemsizes:i64[zext.i64(%dtype)]
  %n = zext.i64(%ndim)
  loop %i < %n, else %done
  %d = %shape:i64[%i]
  %had = %total:i64
  %pair = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %had, i64 %d)
  %now = extractvalue { i64, i1 } %pair, 0
  %bad = extractvalue { i64, i1 } %pair, 1
  if not %bad, else ret -1
  %total:i64 = %now
  next %i
done:
  ret %total:i64
}

; Whether a tensor's buffer has a number of bytes, at an address for its elements.
define internal i32 @holds(ptr %must, ptr %tensor, i64 %nbytes, ptr %error) nounwind {
  %data = %tensor->tensor.data
  %held = %tensor->tensor.nbytes
  if %nbytes != 0, else ret 0
  if %nbytes > 0,
      else tell {SIZES}, %must, " of less than 2^63 bytes, but got more."
  if %held >= %nbytes, else %short
  if %data != null, else %missing
  %align = @cellc_alignments:i64[zext.i64(%tensor->tensor.dtype)]
  if (ptrtoint.i64(%data) & %align - 1) == 0, else %odd
  ret 0
short:
  tell {BUFFER}, %must, " in a buffer of ", count(%nbytes), " bytes, but got ", count(%held), "."
missing:
  tell {BUFFER}, %must, ", but got NULL."
odd:
  tell {BUFFER}, %must, " at an address that is a multiple of ", count(%align),
       ", but got one that is not."
}

; Whether an input is what its argument says; open sizes are noted.
define internal i32 @fits(ptr %must, ptr %argument, ptr %tensor, ptr %sizes,
                          ptr %error) nounwind {
  %dims = &%tensor->tensor.shape
  %ndim = %tensor->tensor.ndim
  if %tensor->tensor.dtype == %argument->argument.dtype,
      else ret @got(%must, %tensor, {DTYPE}, %error)
  if %ndim == %argument->argument.ndim, else %wrong
  %n = zext.i64(%ndim)
  %want = %argument->argument.shape
  %which = %argument->argument.sizes
  loop %i < %n, else %whole
  %d = %dims:i64[%i]
  %w = %want:i64[%i]
  if %d >= 0, else %wrong
  if %w < 0, else %known
  %size = &%sizes:i64[sext.i64(%which:i32[%i])]
  %had = %size:i64
  if %had < 0, else %same
  %size:i64 = %d
  br label %fine
same:
  br %had == %d, %fine, %differs
known:
  br %w == %d, %fine, %wrong
fine:
  next %i
whole:
  ret @holds(%must, %tensor, @bytes_of(%tensor->tensor.dtype, %ndim, %dims), %error)
wrong:
  ret @got(%must, %tensor, {SHAPE}, %error)
differs:
  tell {SHAPE}, %must, " with ", count(%had), " on axis ", count(%i),
       ", as another input has, but got ", type(%tensor->tensor.dtype, %ndim, %dims), "."
}

; Write the type of an output, whose first axis has `rows` if these are not negative.
define internal void @describe(ptr %tensor, ptr %argument, ptr %shape, i64 %rows) nounwind {
  %tensor->tensor.dtype = %argument->argument.dtype
  %ndim = %argument->argument.ndim
  %tensor->tensor.ndim = %ndim
  %dims = &%tensor->tensor.shape
  %n = zext.i64(%ndim)
  loop %i < %n, else %end
  %dims:i64[%i] = %i == 0 & %rows >= 0 ? %rows : %shape:i64[%i]
  next %i
}

; Whether an output's buffer takes the result; its bytes go to `needed`. (what: 0 a call, 1 a
; question for the type, 2 a call whose outputs say their shape.)
define internal i32 @takes(ptr %must, ptr %argument, ptr %out, ptr %shape, i64 %rows, i64 %what,
                           ptr %needed, ptr %error) nounwind {
  %want = alloca %tensor
  @describe(%want, %argument, %shape, %rows)
  %ndim = %want->tensor.ndim
  %nbytes = @bytes_of(%want->tensor.dtype, %ndim, &%want->tensor.shape)
  %needed:i64 = %nbytes
  if %what == 1, else %given
  @describe(%out, %argument, %shape, %rows)
  %out->tensor.nbytes = %nbytes
  ret 0
given:
  %dtype = %out->tensor.dtype
  if %dtype == 0 | %dtype == %want->tensor.dtype,
      else ret @got(%must, %out, {DTYPE}, %error)
  if %what == 2, else %buffer
  if %out->tensor.ndim == %ndim, else %wrong
  %there = &%out->tensor.shape
  %dims = &%want->tensor.shape
  %n = zext.i64(%ndim)
  loop %i < %n, else %buffer
  if %there:i64[%i] == %dims:i64[%i], else %wrong
  next %i
wrong:
  tell {SHAPE}, %must, ", here ", type(%want->tensor.dtype, %ndim, &%want->tensor.shape),
       ", but got ", type(%out->tensor.dtype, %out->tensor.ndim, &%out->tensor.shape), "."
buffer:
  %want->tensor.data = %out->tensor.data
  %want->tensor.nbytes = %out->tensor.nbytes
  ret @holds(%must, %want, %nbytes, %error)
}

define internal i1 @overlap(ptr %a, i64 %na, ptr %b, i64 %nb) nounwind {
  %lo.a = ptrtoint.i64(%a)
  %lo.b = ptrtoint.i64(%b)
  ret %na > 0 & %nb > 0 & %lo.a <u %lo.b + %nb & %lo.b <u %lo.a + %na
}

; Whether memory that a call writes, that of argument `k`, is apart from that of inputs and of the
; first `nout` outputs.
define internal i32 @apart(ptr %must, i64 %k, ptr %data, i64 %nbytes, ptr %inputs, i64 %nin,
                           ptr %outputs, i64 %nout, ptr %bytes, ptr %error) nounwind {
  loop %i < %nin, else %others
  %in = &%inputs:%tensor[%i]
  %size = @bytes_of(%in->tensor.dtype, %in->tensor.ndim, &%in->tensor.shape)
  if not %i != %k & @overlap(%data, %nbytes, %in->tensor.data, %size),
      else ret @clash(%must, %k, %i, %error)
  next %i
others:
  loop %o < %nout, else ret 0
  %out = &%outputs:%tensor[%o]
  if not @overlap(%data, %nbytes, %out->tensor.data, %bytes:i64[%o]),
      else ret @clash(%must, %k, %nin + %o, %error)
  next %o
}

define internal i32 @clash(ptr %must, i64 %k, i64 %other, ptr %error) nounwind {
  tell {BUFFER}, %must:ptr[%k],
       " in memory of its own, but got some that it shares with another argument: ",
       %must:ptr[%other], "."
}

; A tensor of DLPack as one of ours.
define internal i32 @taken(ptr %must, ptr %given, ptr %tensor, ptr %error) nounwind {
  if %given != null, else tell {ARGUMENT}, %must, ", but got NULL."
  if %given->dltensor.device == 1,
      else tell {BUFFER}, %must, " in the memory of the processor (DLPack's device 1), but got ",
           "device ", count(sext.i64(%given->dltensor.device)), "."
  %ndim = %given->dltensor.ndim
  if %ndim >= 0 & %ndim <= {MAX_NDIM},
      else tell {SHAPE}, %must, ", but got ", count(sext.i64(%ndim)), " axes."
  %kind = zext.i32(%given->dltensor.code) << 8 | zext.i32(%given->dltensor.bits)
  %tensor->tensor.dtype = 0
  loop %d < {NDTYPES}, else %typed
  if %given->dltensor.lanes == 1 & @cellc_dlpack:i32[%d] == %kind, else %another
  %tensor->tensor.dtype = trunc.i32(%d)
another:
  next %d
typed:
  %dtype = %tensor->tensor.dtype
  if %dtype != 0, else tell {DTYPE}, %must, ", but got elements of DLPack's kind ",
      count(zext.i64(%given->dltensor.code)), " with ", count(zext.i64(%given->dltensor.bits)),
      " bits and ", count(zext.i64(%given->dltensor.lanes)), " lanes."
  %tensor->tensor.ndim = %ndim
  %dims = &%tensor->tensor.shape
  %shape = %given->dltensor.shape
  %strides = %given->dltensor.strides
  %next = alloca i64
  %next:i64 = 1
  %n = zext.i64(%ndim)
  if %n == 0 | %shape != null, else tell {ARGUMENT}, %must, ", but got no shape."
  loop %i < %n, else %whole
  %axis = %n - 1 - %i
  %size = %shape:i64[%axis]
  %dims:i64[%axis] = %size
  if %strides == null | %size <= 1, else %strided
  br label %dense
strided:
  if %strides:i64[%axis] == %next:i64,
      else tell {SHAPE}, %must, " and contiguous, with the stride ", count(%next:i64),
           " on axis ", count(%axis), ", but got the stride ", count(%strides:i64[%axis]), "."
dense:
  %next:i64 = %size == 0 ? %next:i64 : %next:i64 * %size
  next %i
whole:
  %data = %given->dltensor.data
  if %given->dltensor.offset >= 0,
      else tell {BUFFER}, %must, ", but got a byte offset of 2^63 or more."
  %tensor->tensor.data = %data == null ? %data : &%data:i8[%given->dltensor.offset]
  %tensor->tensor.nbytes = @bytes_of(%dtype, %ndim, %dims)
  ret 0
}

define hidden i32 @cellc_run_dlpack(ptr %session, i32 %number, ptr %inputs, i32 %nin,
                                    ptr %outputs, i32 %nout, ptr %error) nounwind {
  try @enter(%session, %error)
  %rc = @dlpack(%session, %number, %inputs, %nin, %outputs, %nout, %error)
  @leave(%session)
  ret %rc
}

define internal i32 @dlpack(ptr %session, i32 %number, ptr %inputs, i32 %nin, ptr %outputs,
                            i32 %nout, ptr %error) nounwind {
  %library = @cellc_net->net.library
  if %number >= 0 & %number < %library->library.nentries, else ret @no_entry(%number, %error)
  %e = &%library->library.entries:%entry[zext.i64(%number)]
  if %nin == %e->entry.ninputs & %nout == %e->entry.noutputs,
      else ret @counts(%e, %nin, %nout, %error)
  if (%nin == 0 | %inputs != null) & (%nout == 0 | %outputs != null),
      else ret @null_tensors(%e, %error)
  %must = @cellc_net->net.plans[zext.i64(%number)]->plan.must
  %ours = &%session:i8[@cellc_net->net.tensors_at]
  %n.in = zext.i64(%nin)
  loop %i < %n.in, else %outs
  try @taken(%must:ptr[%i], %inputs:ptr[%i], &%ours:%tensor[%i], %error)
  next %i
outs:
  %theirs = &%ours:%tensor[%n.in]
  loop %o < zext.i64(%nout), else %all
  try @taken(%must:ptr[%n.in + %o], %outputs:ptr[%o], &%theirs:%tensor[%o], %error)
  next %o
all:
  ret @called(%session, %number, %ours, %nin, %theirs, %nout, 2, %error)
}
