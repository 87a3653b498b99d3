"""The sizes of a call of a shape-polymorphic program, as LLVM text.

The decisions of `cellc_runtime.shape_polymorphic`, in native code.

`@measure` finds the operand that has the result's shape, whether all others lie over it in the ways
that the program was made for, and the rows and columns they are cut into.
"""

from __future__ import annotations

from cellc_runtime.shape_polymorphic import COLUMN, ONE, ROW, WHOLE
from cellc_runtime.target import Target

from ...llvm.text import Function, V

_MEASURE = """
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
"""


def measure_text(target: Target) -> str:
    """`@measure` and the function it calls."""
    code = _MEASURE
    for name, way in (("WHOLE", WHOLE), ("ONE", ONE), ("ROW", ROW), ("COLUMN", COLUMN)):
        code = code.replace("{" + name + "}", str(way))
    return _walk(target).text() + code


def _walk(target: Target) -> Function:
    """`walk(xdims, bdims, nd, off, by_row, turns)`: elements before the turn, or -1.

    From the last axis to the first: axes of equal size, then of size 1 (`by_row`), or the other
    way round; without `turns` none comes after.
    """
    f = Function("walk", [("ptr", "xdims"), ("ptr", "bdims"), ("i64", "nd"), ("i64", "off"),
                          ("i1", "by_row"), ("i1", "turns")], target, ret="i64",
                 linkage="internal")  # fmt: skip
    nd, off, by_row, turns = (f.arg(n) for n in ("nd", "off", "by_row", "turns"))
    yes, no = V("i1", "true"), V("i1", "false")

    def axis(i: V, carried: list[V]) -> list[V]:
        count, turned, good = carried
        at = f.sub(f.sub(nd, f.i64(1)), i)
        x = f.load("i64", f.gep(f.arg("xdims"), at, "i64"))
        (d,) = f.when(
            f.cmp("sge", at, off),
            lambda: [f.load("i64", f.gep(f.arg("bdims"), f.sub(at, off), "i64"))],
            lambda: [f.i64(1)],
        )
        equal, single = f.cmp("eq", d, x), f.cmp("eq", d, f.i64(1))
        before = f.select(by_row, equal, single)
        after = f.binary("and", f.select(by_row, single, equal), turns)
        counts = f.binary("and", before, f.binary("xor", turned, yes))
        return [f.select(counts, f.mul(count, x), count),
                f.select(counts, turned, yes),
                f.binary("and", good, f.binary("or", counts, after))]

    count, _, good = f.loop(0, nd, 1, [f.i64(1), no, yes], axis)
    f.ret_(f.select(good, count, f.i64(-1)))
    return f
