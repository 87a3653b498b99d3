"""The sizes of a call of a shape-polymorphic program, as LLVM text.

What `cellc_runtime.shape_polymorphic` decides, in native code.

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
entry:
  %specs = field %context.args, ptr %ctx
  %limit = field %context.limit, ptr %ctx
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %lead = phi ptr [ null, %entry ], [ %lead1, %next ]
  %most = phi i64 [ -1, %entry ], [ %most1, %next ]
  %more = icmp slt i64 %i, %nargs
  br i1 %more, label %one, label %found
one:
  %way = field %spec.nbytes, ptr %specs[%i]
  %whole = icmp eq i64 %way, {WHOLE}
  %a.p = getelementptr ptr, ptr %args, i64 %i
  %a = load ptr, ptr %a.p
  %and32 = field %array.nd, ptr %a
  %and = sext i32 %and32 to i64
  %longer = icmp sgt i64 %and, %most
  %better = and i1 %whole, %longer
  br label %next
next:
  %lead1 = select i1 %better, ptr %a, ptr %lead
  %most1 = select i1 %better, i64 %and, i64 %most
  %i1 = add i64 %i, 1
  br label %head
found:
  %none = icmp eq ptr %lead, null
  br i1 %none, label %no, label %total
total:
  %xdims = field %array.dims, ptr %lead
  br label %thead
thead:
  %t = phi i64 [ 0, %total ], [ %t1, %dim ]
  %count = phi i64 [ 1, %total ], [ %count1, %dim ]
  %tmore = icmp slt i64 %t, %most
  br i1 %tmore, label %dim, label %small
dim:
  %d.p = getelementptr i64, ptr %xdims, i64 %t
  %d = load i64, ptr %d.p
  %count1 = mul i64 %count, %d
  %t1 = add i64 %t, 1
  br label %thead
small:
  %few = icmp slt i64 %count, %limit
  br i1 %few, label %ohead, label %no
ohead:
  %o = phi i64 [ 0, %small ], [ %o1, %onext ]
  %columns = phi i64 [ -1, %small ], [ %columns1, %onext ]
  %omore = icmp slt i64 %o, %nargs
  br i1 %omore, label %operand, label %sized
operand:
  %ow = field %spec.nbytes, ptr %specs[%o]
  %b.p = getelementptr ptr, ptr %args, i64 %o
  %b = load ptr, ptr %b.p
  %bnd32 = field %array.nd, ptr %b
  %bnd = sext i32 %bnd32 to i64
  %off = sub i64 %most, %bnd
  %bdims = field %array.dims, ptr %b
  %iswhole = icmp eq i64 %ow, {WHOLE}
  %isrow = icmp eq i64 %ow, {ROW}
  %iscolumn = icmp eq i64 %ow, {COLUMN}
  %byrow = or i1 %iswhole, %isrow
  %turns = or i1 %isrow, %iscolumn
  %fits = icmp sge i64 %off, 0
  br i1 %fits, label %walk, label %no
walk:
  %walked = call i64 @walk(ptr %xdims, ptr %bdims, i64 %most, i64 %off, i1 %byrow, i1 %turns)
  %bad = icmp slt i64 %walked, 0
  br i1 %bad, label %no, label %cut
cut:
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
  %columns.p = getelementptr i64, ptr %sizes, i64 1
  store i64 %width, ptr %columns.p
  %total.p = getelementptr i64, ptr %sizes, i64 2
  store i64 %count, ptr %total.p
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
