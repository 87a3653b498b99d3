; The choice of a program for the sizes of a call, and numbers that follow from sizes.
;
; See `texts.ll` for the notation, `numbers.py` for the programs of numbers.

; The next number of a program of numbers; where there is none, `failed` is not 0 any more.
define internal i64 @number(ptr %cursor, ptr %vars, ptr %failed) nounwind {
  %stack = alloca [72 x i64]
  %depth.p = alloca i64
  %depth.p:i64 = 4
step:
  %at = %cursor:ptr
  %op = %at:i64
  %word = %at:i64[1]
  %cursor:ptr = &%at:i64[2]
  %depth = %depth.p:i64
  %top = &%stack:i64[%depth]
  %b.p = &%stack:i64[%depth - 1]
  %a.p = &%stack:i64[%depth - 2]
  %a = %a.p:i64
  %b = %b.p:i64
  %x = bitcast i64 %a to double
  %y = bitcast i64 %b to double
  switch i64 %op, label %end.of.it [ i64 1, label %constant i64 2, label %variable
    i64 3, label %multiply i64 4, label %add i64 5, label %divide i64 6, label %min
    i64 7, label %max i64 8, label %choose i64 9, label %subtract i64 10, label %float
    i64 11, label %fadd i64 12, label %fsub i64 13, label %fmul i64 14, label %fdiv
    i64 15, label %fpow i64 16, label %integer
    i64 17, label %divisor i64 18, label %fsqrt i64 19, label %floor ]
end.of.it:
  ret %b
constant:
  %top:i64 = %word
  br label %more
variable:
  %top:i64 = %vars:i64[%word]
  br label %more
more:
  %depth.p:i64 += 1
  br label %step
multiply:
  %pair.m = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %a, i64 %b)
  %m = extractvalue { i64, i1 } %pair.m, 0
  %bad.m = extractvalue { i64, i1 } %pair.m, 1
  %a.p:i64 = %m
  %failed:i64 += zext.i64(%bad.m)
  br label %less
add:
  %pair.a = call { i64, i1 } @llvm.sadd.with.overflow.i64(i64 %a, i64 %b)
  %s = extractvalue { i64, i1 } %pair.a, 0
  %bad.a = extractvalue { i64, i1 } %pair.a, 1
  %a.p:i64 = %s
  %failed:i64 += zext.i64(%bad.a)
  br label %less
subtract:
  %a.p:i64 = %a - %b
  br label %less
divide:
  br %b != 0, %divided, %no.number
divided:
  %q = sdiv i64 %a, %b
  %r = srem i64 %a, %b
  %a.p:i64 = %q - zext.i64(%r != 0 & (%r ^ %b) < 0)
  br label %less
no.number:
  %failed:i64 += 1
  %a.p:i64 = 0
  br label %less
min:
  %a.p:i64 = %b < %a ? %b : %a
  br label %less
max:
  %a.p:i64 = %b > %a ? %b : %a
  br label %less
choose:
  %least = %stack:i64[%depth - 3]
  %chooser = &%stack:i64[%depth - 4]
  %chooser:i64 = %chooser:i64 >= %least ? %a : %b
  %depth.p:i64 -= 3
  br label %step
divisor:
  %some = %b < {MOST_DIVISOR} ? %b : {MOST_DIVISOR}
  %upto = %some < %a ? %some : %a
  br label %divisor.next
divisor.next:
  %n = phi i64 [ %upto, %divisor ], [ %fewer, %divisor.fails ]
  br %n > 1, %divisor.tried, %divisor.none
divisor.tried:
  %n.rest = srem i64 %a, %n
  br %n.rest == 0, %divisor.found, %divisor.fails
divisor.fails:
  %fewer = sub i64 %n, 1
  br label %divisor.next
divisor.none:
  %a.p:i64 = 1
  br label %less
divisor.found:
  %a.p:i64 = %n
  br label %less
float:
  %whole.p = &%stack:i64[%depth - 1 - %word]
  %whole = %whole.p:i64
  %f = sitofp i64 %whole to double
  %f.bits = bitcast double %f to i64
  store i64 %f.bits, ptr %whole.p
  br label %step
integer:
  %cut = fptosi double %y to i64
  store i64 %cut, ptr %b.p
  br label %step
fsqrt:
  %v.sqrt = call double @llvm.sqrt.f64(double %y)
  store double %v.sqrt, ptr %b.p
  br label %step
floor:
  %towards.0 = fptosi double %y to i64
  %back = sitofp i64 %towards.0 to double
  %above = fcmp ogt double %back, %y
  %one.above = zext i1 %above to i64
  %below = sub i64 %towards.0, %one.above
  store i64 %below, ptr %b.p
  br label %step
fadd:
  %v.add = fadd double %x, %y
  store double %v.add, ptr %a.p
  br label %less
fsub:
  %v.sub = fsub double %x, %y
  store double %v.sub, ptr %a.p
  br label %less
fmul:
  %v.mul = fmul double %x, %y
  store double %v.mul, ptr %a.p
  br label %less
fdiv:
  %v.div = fdiv double %x, %y
  store double %v.div, ptr %a.p
  br label %less
fpow:
  %pow = {pow}:ptr
  %v.pow = call double %pow(double %x, double %y)
  store double %v.pow, ptr %a.p
less:
  %depth.p:i64 -= 1
  br label %step
}

; Whether a program for all sizes serves these.
define internal i1 @serves(ptr %open, ptr %sizes) nounwind {
  %failed = alloca i64
  %cursor = alloca ptr
  %failed:i64 = 0
  %bounds = %open->open.bounds
  loop %i < %open->open.nsizes, else %guards
  %d = %sizes:i64[%i]
  %most = %bounds:i64[%i, 1]
  if %d >= %bounds:i64[%i, 0] & (%most < 0 | %d <= %most), else ret false
  next %i
guards:
  %code = %open->open.guards
  %cursor:ptr = &%code:i64[%open->open.nguards]
  loop %g < %open->open.nguards, else ret true
  %value = @number(%cursor, %sizes, %failed)
  %kind = %code:i64[%g]
  %holds = %kind == 0 ? %value == 0 : (%kind == 1 ? %value != 0 : %value >= 0)
  if %holds & %failed:i64 == 0, else ret false
  next %g
}

; The variant that serves these sizes, or null.
define internal ptr @choose(ptr %plan, i64 %nsizes, ptr %sizes) nounwind {
  %variants = %plan->plan.variants
  %programs = @cellc_net->net.programs
  loop %v < %plan->plan.nvariants, else ret null
  %variant = &%variants:%variant[%v]
  %at = %variant->variant.at
  loop %i < %nsizes, else %matches
  %want = %at:i64[%i]
  if %want < 0 | %want == %sizes:i64[%i], else %other
  next %i
matches:
  %kind = %variant->variant.kind
  br %kind == 0, %this, %asks
asks:
  br %kind == 1, %open, %batch
open:
  br @serves(%programs[%variant->variant.programs:i64]->program.open, %sizes), %this, %other
batch:
  %n = %sizes:i64[%variant->variant.batch]
  %rows = %n > 1 ? %n : 1
  %ranges = %variant->variant.ranges
  loop %r < %variant->variant.nranges, else %other
  %high = %ranges:i64[%r, 1]
  if not %ranges:i64[%r, 0] <= %rows & (%high < 0 | %rows <= %high), else %this
  next %r
this:
  ret %variant
other:
  next %v
}

; Fit a program for all sizes to these: its numbers, the places of its temporaries, its results.
define internal i32 @open_at(ptr %session, ptr %program, ptr %sizes, ptr %error) nounwind {
  %failed = alloca i64
  %cursor = alloca ptr
  %state = &%session:i8[%program->program.state_at]
  %open = %program->program.open
  %vars = &%session:i8[%open->open.sizes_at]
  %n = %open->open.nsizes
  %differs = alloca i64
  %differs:i64 = %state->state.ready == 0 ? i64 1 : 0
  loop %i < %n, else %known
  %had = %vars:i64[%i]
  %d = %sizes:i64[%i]
  %differs:i64 += zext.i64(%had != %d)
  %vars:i64[%i] = %d
  next %i
known:
  if %differs:i64 != 0, else ret 0
  %state->state.ready = 0
  %failed:i64 = 0
  %need = @placed(%open, %vars, &%session:i8[%open->open.bytes_at], %failed)
  %constants = &%session:i8[%open->open.constants_at]
  ptr {memcpy}(%constants, %program->program.constants, %open->open.table_at)
  @scalars(%open, %vars, %constants, %failed)
  %table = &%constants:i8[%open->open.table_at]
  %cursor:ptr = %open->open.table
  loop %t < %open->open.ntable, else %shapes
  %table:i64[%t] = @number(%cursor, %vars, %failed)
  next %t
shapes:
  %out = &%session:i8[%open->open.shapes_at]
  %cursor:ptr = %open->open.outputs
  loop %o < %open->open.noutputs * {MAX_NDIM}, else %whole
  %out:i64[%o] = @number(%cursor, %vars, %failed)
  next %o
whole:
  if %failed:i64 == 0 & %need >= 0 & %need <= {MAX_BYTES}, else %large
  %state->state.need = %need
  %state->state.ready = 1
  ret 0
large:
  tell {SIZES}, "The temporaries for these sizes do not fit into the memory of any process."
}

; Write the places of temporaries after the sizes; the bytes of all.
define internal i64 @placed(ptr %open, ptr %vars, ptr %bytes, ptr %failed) nounwind {
  %cursor = alloca ptr
  %whole = alloca i64
  %from = alloca i64
  %rows = alloca ptr
  %cursor:ptr = %open->open.arena
  %rows:ptr = %open->open.below
  %whole:i64 = 0
  %places = &%vars:i64[%open->open.nsizes]
  loop %i < %open->open.narena, else %done
  %size = @number(%cursor, %vars, %failed)
  %bytes:i64[%i] = %size
  %from:i64 = 0
  %row = %rows:ptr
  loop %b < %row:i64, else %known
  %j = %row:i64[%b + 1]
  %end.j = %places:i64[%j] + %bytes:i64[%j]
  %had = %from:i64
  %from:i64 = %end.j > %had ? %end.j : %had
  next %b
known:
  %rows:ptr = &%row:i64[%row:i64 + 1]
  %place = %from:i64
  %places:i64[%i] = %place
  %stop = %place + %size
  %most = %whole:i64
  if %size >= 0 & %size <= {MAX_BYTES} & %stop >= 0, else %bad
  %whole:i64 = %stop > %most ? %stop : %most
  next %i
bad:
  %failed:i64 += 1
done:
  ret %whole:i64
}

; Write the constants that follow from sizes. (A row: place, kind. Kinds: bytes of an int, or 14 and
; 18 for floats of 4 and 8 bytes; 20 for a bool; 100 more where the number is a float.)
define internal void @scalars(ptr %open, ptr %vars, ptr %constants, ptr %failed) nounwind {
  %cursor = alloca ptr
  %cursor:ptr = %open->open.scalars
  %rows = %open->open.rows
  loop %i < %open->open.nscalars, else %end
  %value = @number(%cursor, %vars, %failed)
  %at = &%constants:i8[%rows:i64[%i, 0]]
  %kind = %rows:i64[%i, 1]
  %x = bitcast i64 %value to double
  %y = sitofp i64 %value to double
  %is.float = %kind >= 100
  %z = select i1 %is.float, double %x, double %y
  %z32 = fptrunc double %z to float
  %cut = fptosi double %x to i64
  %w = %is.float ^ true ? %value : %cut
  switch i64 %kind, label %bytes8 [ i64 1, label %bytes1 i64 101, label %bytes1
    i64 2, label %bytes2 i64 102, label %bytes2 i64 4, label %bytes4 i64 104, label %bytes4
    i64 14, label %single i64 114, label %single i64 18, label %double i64 118, label %double
    i64 20, label %bool i64 120, label %bool ]
bytes1:
  %at:i8 = trunc.i8(%w)
  br label %stored
bytes2:
  %at:i16 = trunc.i16(%w)
  br label %stored
bytes4:
  %at:i32 = trunc.i32(%w)
  br label %stored
bytes8:
  store i64 %w, ptr %at, align 1
  br label %stored
single:
  store float %z32, ptr %at, align 1
  br label %stored
double:
  store double %z, ptr %at, align 1
  br label %stored
bool:
  %yes = fcmp une double %z, 0.0
  %at:i8 = zext.i8(%yes)
stored:
  next %i
}
