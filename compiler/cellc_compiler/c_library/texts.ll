; The texts of errors, and the values that they show, in the notation of LLVM text.
;
; All files of functions share this: the text is in the notation of `backends/llvm/notation.py`; a
; string in quotes is the address of a constant text, and a name in braces a number of `write.py` or
; a function of the C library. Three statements are `write.py`'s own: `say PARTS` writes addresses
; of texts, `count(NUMBER)` and `type(ELEMENTS, NDIM, SHAPE)` to the error's text; `tell CODE,
; PARTS` begins it, says the parts and returns the code; `try CALL` returns the code of a call that
; fails. The code is compiled for the least processor of a kind, so that one that lacks instructions
; of the network's code gets an error. A function that can fail returns a code (`abi.Code`) and
; fills in the caller's `error`, which may be null.

define internal void @put(ptr %error, i8 %c) nounwind {
  if %error != null, else ret void
  %have = zext.i64(%error->error.length)
  if %have < {LAST}, else ret void
  %text = &%error->error.text
  %text:i8[%have] = %c
  %text:i8[%have + 1] = 0
  %error->error.length = trunc.i32(%have + 1)
}

define internal void @say(ptr %error, ptr %text) nounwind {
  if %text != null, else ret void
  loop %i < {TEXT}, else %end
  %c = %text:i8[%i]
  if %c != 0, else %end
  @put(%error, %c)
  next %i
}

define internal void @digits(ptr %error, i64 %n) nounwind {
  if %n >=u 10, else %last
  @digits(%error, %n / 10)
last:
  @put(%error, trunc.i8(%n mod 10 + 48))
}

define internal void @count(ptr %error, i64 %n) nounwind {
  if %n < 0, else %plain
  @put(%error, 45)
  @digits(%error, 0 - %n)
  ret void
plain:
  @digits(%error, %n)
}

; Begin the text of an outcome; its code.
define internal i32 @outcome(ptr %error, i32 %code) nounwind {
  if %error != null, else ret %code
  %error->error.code = %code
  %error->error.length = 0
  %text = &%error->error.text
  %text:i8 = 0
  ret %code
}

define internal void @say_type(ptr %error, i32 %dtype, i32 %ndim, ptr %shape) nounwind {
  if %dtype <u {NDTYPES}, else %unknown
  @say(%error, @cellc_dtype_names:ptr[zext.i64(%dtype)])
  br label %dims
unknown:
  @say(%error, "an unknown element type")
dims:
  if %ndim <=u {MAX_NDIM}, else %many
  @put(%error, 91)
  %n = zext.i64(%ndim)
  loop %i < %n, else %close
  if %i != 0, else %dim
  @say(%error, ", ")
dim:
  @count(%error, %shape:i64[%i])
  next %i
close:
  @put(%error, 93)
  ret void
many:
  say " of ", count(sext.i64(%ndim)), " axes"
}

; "For 'infer', 'x' must be float32[3], but got float32[4]."
define internal i32 @got(ptr %must, ptr %tensor, i32 %code, ptr %error) nounwind {
  tell %code, %must, ", but got ",
       type(%tensor->tensor.dtype, %tensor->tensor.ndim, &%tensor->tensor.shape), "."
}

; A real number in the fewest digits that give it back; `single`: of 32 bits.
define internal void @real(ptr %error, i64 %bits, i1 %single) nounwind {
  %text = alloca [40 x i8]
  %x = bitcast i64 %bits to double
  %x32 = fptrunc double %x to float
  loop %i < 17, else %out
  %digits = trunc.i32(%i + 1)
  %print = {snprintf}:ptr
  %length = call i32 (ptr, i64, ptr, ...) %print(
      ptr %text, i64 40, ptr @cellc_real_format, i32 %digits, double %x)
  %parse = {strtod}:ptr
  %y = call double %parse(ptr %text, ptr null)
  %y32 = fptrunc double %y to float
  %same64 = fcmp oeq double %x, %y
  %same32 = fcmp oeq float %x32, %y32
  if not %same64 | %single & %same32, else %out
  next %i
out:
  @say(%error, %text)
}

define internal void @show_one(ptr %error, i64 %dtype, ptr %at) nounwind {
  switch i64 %dtype, label %wide [ i64 1, label %bool i64 2, label %s8 i64 3, label %s16
    i64 4, label %s32 i64 6, label %u8 i64 7, label %u16 i64 8, label %u32 i64 9, label %u64
    i64 10, label %f16 i64 11, label %bf16 i64 12, label %f32 i64 13, label %f64
    i64 14, label %c64 i64 15, label %c128 ]
bool:
  @say(%error, %at:i8 != 0 ? "True" : "False")
  ret void
s8:
  @count(%error, sext.i64(%at:i8))
  ret void
s16:
  @count(%error, sext.i64(%at:i16))
  ret void
s32:
  @count(%error, sext.i64(%at:i32))
  ret void
wide:
  @count(%error, %at:i64)
  ret void
u8:
  @digits(%error, zext.i64(%at:i8))
  ret void
u16:
  @digits(%error, zext.i64(%at:i16))
  ret void
u32:
  @digits(%error, zext.i64(%at:i32))
  ret void
u64:
  @digits(%error, %at:i64)
  ret void
f16:
  @real(%error, @from_half(%at:i16), true)
  ret void
bf16:
  %high = zext.i32(%at:i16) << 16
  @real(%error, @from_float(%high), true)
  ret void
f32:
  @real(%error, @from_float(%at:i32), true)
  ret void
f64:
  @real(%error, %at:i64, false)
  ret void
c64:
  @put(%error, 40)
  @real(%error, @from_float(%at:i32), true)
  @put(%error, 43)
  @real(%error, @from_float(%at:i32[1]), true)
  @say(%error, "j)")
  ret void
c128:
  @put(%error, 40)
  @real(%error, %at:i64, false)
  @put(%error, 43)
  @real(%error, %at:i64[1], false)
  @say(%error, "j)")
}

define internal i64 @from_float(i32 %bits) nounwind {
  %x = bitcast i32 %bits to float
  %y = fpext float %x to double
  %z = bitcast double %y to i64
  ret %z
}

; A number of 16 bits as a double: its parts moved, and for small ones scaled.
define internal i64 @from_half(i16 %bits) nounwind {
  %wide = zext.i32(%bits)
  %moved = (%wide & 32767) << 13
  %x = bitcast i32 %moved to float
  %scaled = fmul float %x, 0x46F0000000000000
  %y = bitcast float %scaled to i32
  %special = (%wide & 31744) == 31744
  %all = %special ? %moved | 2139095040 : %y
  ret @from_float(%all | (%wide & 32768) << 16)
}

define internal void @show(ptr %error, i64 %dtype, i64 %ndim, i64 %count, ptr %at) nounwind {
  if %ndim == 0, else %many
  @show_one(%error, %dtype, %at)
  ret void
many:
  @put(%error, 91)
  %size = @cellc_itemsizes:i64[%dtype]
  loop %i < %count, else %close
  if %i < 16, else %more
  if %i != 0, else %one
  @put(%error, 32)
one:
  @show_one(%error, %dtype, &%at:i8[%i * %size])
  next %i
more:
  @say(%error, " ...")
close:
  @put(%error, 93)
}
