; The sizes of a call of a shape-polymorphic program, as LLVM text.
;
; The decisions of `cellc_runtime.shape_polymorphic`, in native code.
;
; `@measure` finds the operand that has the result's shape, whether all others lie over it in the
; ways that the program was made for, and the rows and columns they are cut into.

; Elements before the turn, or -1. From the last axis to the first: axes of equal size, then of size
; 1 (`by_row`), or the other way round; without `turns` none comes after.
define internal i64 @walk(ptr %xdims, ptr %bdims, i64 %nd, i64 %off, i1 %by_row,
                          i1 %turns) nounwind {
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %join ]
  %count = phi i64 [ 1, %entry ], [ %count1, %join ]
  %turned = phi i1 [ false, %entry ], [ %turned1, %join ]
  %good = phi i1 [ true, %entry ], [ %good1, %join ]
  if %i < %nd, else ret %good ? %count : -1
  %at = %nd - 1 - %i
  %x = %xdims:i64[%at]
  br %at >= %off, %inside, %outside
inside:
  %own = %bdims:i64[%at - %off]
  br label %join
outside:
  br label %join
join:
  %d = phi i64 [ %own, %inside ], [ 1, %outside ]
  %equal = %d == %x
  %single = %d == 1
  %before = %by_row ? %equal : %single
  %after = (%by_row ? %single : %equal) & %turns
  %counts = %before & (%turned ^ true)
  %count1 = %counts ? %count * %x : %count
  %turned1 = %counts ? %turned : true
  %good1 = %good & (%counts | %after)
  %i1 = %i + 1
  br label %head
}

; The array that has the result's shape, or null if the operands do not lie over it as their specs
; say; `sizes` becomes rows, columns and elements.
define internal ptr @measure(ptr %ctx, ptr %args, i64 %nargs, ptr %sizes) nounwind {
  %specs = %ctx->context.args
  %limit = %ctx->context.limit
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %lead = phi ptr [ null, %entry ], [ %lead1, %next ]
  %most = phi i64 [ -1, %entry ], [ %most1, %next ]
  if %i < %nargs, else %found
  %whole = %specs[%i]->spec.nbytes == {WHOLE}
  %a = %args:ptr[%i]
  %and = sext.i64(%a->array.nd)
  %better = %whole & %and > %most
next:
  %lead1 = %better ? %a : %lead
  %most1 = %better ? %and : %most
  %i1 = %i + 1
  br label %head
found:
  br %lead == null, %no, %total
total:
  %xdims = %lead->array.dims
thead:
  %t = phi i64 [ 0, %total ], [ %t1, %dim ]
  %count = phi i64 [ 1, %total ], [ %count1, %dim ]
  br %t < %most, %dim, %small
dim:
  %count1 = %count * %xdims:i64[%t]
  %t1 = %t + 1
  br label %thead
small:
  br %count < %limit, %ohead, %no
ohead:
  %o = phi i64 [ 0, %small ], [ %o1, %onext ]
  %columns = phi i64 [ -1, %small ], [ %columns1, %onext ]
  if %o < %nargs, else %sized
  %ow = %specs[%o]->spec.nbytes
  %b = %args:ptr[%o]
  %off = %most - sext.i64(%b->array.nd)
  %bdims = %b->array.dims
  %iswhole = %ow == {WHOLE}
  %isrow = %ow == {ROW}
  %byrow = %iswhole | %isrow
  %turns = %isrow | %ow == {COLUMN}
  if %off >= 0, else %no
  %walked = i64 @walk(%xdims, %bdims, %most, %off, %byrow, %turns)
  if %walked >= 0, else %no
  br %turns ? %columns == -1 | %columns == %walked : true, %onext, %no
onext:
  %columns1 = %turns ? %walked : %columns
  %o1 = %o + 1
  br label %ohead
sized:
  %flat = %columns == -1
  %width = %flat ? %count : %columns
  %sizes:i64 = %flat ? 1 : %count / (%width == 0 ? 1 : %width)
  %sizes:i64[1] = %width
  %sizes:i64[2] = %count
  ret %lead
no:
  ret null
}
