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
  %specs = field %context.args, ptr %ctx
  %limit = field %context.limit, ptr %ctx
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %lead = phi ptr [ null, %entry ], [ %lead1, %next ]
  %most = phi i64 [ -1, %entry ], [ %most1, %next ]
  if slt i64 %i, %nargs, else %found
  %way = field %spec.nbytes, ptr %specs[%i]
  %whole = icmp eq i64 %way, {WHOLE}
  %a = item ptr, ptr %args[%i]
  %and32 = field %array.nd, ptr %a
  %and = sext i32 %and32 to i64
  %longer = icmp sgt i64 %and, %most
  %better = and i1 %whole, %longer
next:
  %lead1 = select i1 %better, ptr %a, ptr %lead
  %most1 = select i1 %better, i64 %and, i64 %most
  %i1 = add i64 %i, 1
  br label %head
found:
  br eq ptr %lead, null, label %no, label %total
total:
  %xdims = field %array.dims, ptr %lead
thead:
  %t = phi i64 [ 0, %total ], [ %t1, %dim ]
  %count = phi i64 [ 1, %total ], [ %count1, %dim ]
  br slt i64 %t, %most, label %dim, label %small
dim:
  %d = item i64, ptr %xdims[%t]
  %count1 = mul i64 %count, %d
  %t1 = add i64 %t, 1
  br label %thead
small:
  br slt i64 %count, %limit, label %ohead, label %no
ohead:
  %o = phi i64 [ 0, %small ], [ %o1, %onext ]
  %columns = phi i64 [ -1, %small ], [ %columns1, %onext ]
  if slt i64 %o, %nargs, else %sized
  %ow = field %spec.nbytes, ptr %specs[%o]
  %b = item ptr, ptr %args[%o]
  %bnd32 = field %array.nd, ptr %b
  %bnd = sext i32 %bnd32 to i64
  %off = sub i64 %most, %bnd
  %bdims = field %array.dims, ptr %b
  %iswhole = icmp eq i64 %ow, {WHOLE}
  %isrow = icmp eq i64 %ow, {ROW}
  %iscolumn = icmp eq i64 %ow, {COLUMN}
  %byrow = or i1 %iswhole, %isrow
  %turns = or i1 %isrow, %iscolumn
  if sge i64 %off, 0, else %no
  %walked = call i64 @walk(ptr %xdims, ptr %bdims, i64 %most, i64 %off, i1 %byrow, i1 %turns)
  if sge i64 %walked, 0, else %no
  %fresh = icmp eq i64 %columns, -1
  %alike = icmp eq i64 %columns, %walked
  %agreed = or i1 %fresh, %alike
  %either = select i1 %turns, i1 %agreed, i1 true
  br i1 %either, label %onext, label %no
onext:
  %columns1 = select i1 %turns, i64 %walked, i64 %columns
  %o1 = add i64 %o, 1
  br label %ohead
sized:
  %flat = icmp eq i64 %columns, -1
  %width = select i1 %flat, i64 %count, i64 %columns
  %empty = icmp eq i64 %width, 0
  %least = select i1 %empty, i64 1, i64 %width
  %many = udiv i64 %count, %least
  %rows = select i1 %flat, i64 1, i64 %many
  store i64 %rows, ptr %sizes
  put i64 %width, ptr %sizes[1]
  put i64 %count, ptr %sizes[2]
  ret ptr %lead
no:
  ret ptr null
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
