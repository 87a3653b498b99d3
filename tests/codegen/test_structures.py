"""The structures that generated code shares with the runtime: fields by name."""

from __future__ import annotations

import pytest

from cellc_compiler.backends.llvm.notation import declarations, expand, table_slot
from cellc_runtime.abi import STRUCTURES, Ext
from cellc_runtime.fastcall import structure


def test_a_field_and_its_place() -> None:
    start = "define void @f(ptr %p, ptr %ctx, i64 %i) {\n"
    code = (start
            + "  %n = %p[%i]->spec.slot\n"
            "  %at = &%ctx->context.free\n"
            "  %x = %at:ptr\n"
            "  %ctx->context.nargs += 2\n")
    assert expand(code) == (
        start
        + "entry:\n"
        "  %.1 = getelementptr %spec, ptr %p, i64 %i, i32 4\n"
        "  %n = load i64, ptr %.1\n"
        "  %at = getelementptr %context, ptr %ctx, i32 0, i32 19\n"
        "  %x = load ptr, ptr %at\n"
        "  %.5 = getelementptr %context, ptr %ctx, i32 0, i32 7\n"
        "  %.6 = load i64, ptr %.5\n"
        "  %.7 = add i64 %.6, 2\n"
        "  store i64 %.7, ptr %.5\n")


def test_calls_items_and_conditions() -> None:
    code = ("define i1 @f(ptr %a, i64 %i) {\n"
            "  %x = %a:ptr[%i]\n"
            "  if %x != null & @f(%a, 7), else %no\n"
            "  %a:ptr[1] = %x\n"
            "  void {DEC_REF}(%x)\n"
            "  ret true\n"
            "no:\n"
            "  ret false\n"
            "}\n")
    assert expand(code) == (
        "define i1 @f(ptr %a, i64 %i) {\n"
        "entry:\n"
        "  %.1 = getelementptr ptr, ptr %a, i64 %i\n"
        "  %x = load ptr, ptr %.1\n"
        "  %.4 = icmp ne ptr %x, null\n"
        "  %.5 = call i1 @f(ptr %a, i64 7)\n"
        "  %.6 = and i1 %.4, %.5\n"
        "  br i1 %.6, label %go.3, label %no\n"
        "go.3:\n"
        "  %.7 = getelementptr ptr, ptr %a, i64 1\n"
        "  store ptr %x, ptr %.7\n"
        f"  %.8 = load ptr, ptr {table_slot(Ext.DEC_REF)}\n"
        "  call void %.8(ptr %x)\n"
        "  ret i1 true\n"
        "no:\n"
        "  ret i1 false\n"
        "}\n")


def test_operators_bind_as_in_c() -> None:
    code = ("define i64 @f(i64 %a, i64 %b, i32 %c) {\n"
            "  ret (%a + %b * 2 & 7) == 0 ? %a >> 3 : zext.i64(%c) mod %b\n"
            "}")
    assert expand(code) == (
        "define i64 @f(i64 %a, i64 %b, i32 %c) {\n"
        "entry:\n"
        "  %.1 = mul i64 %b, 2\n"
        "  %.2 = add i64 %a, %.1\n"
        "  %.3 = and i64 %.2, 7\n"
        "  %.4 = icmp eq i64 %.3, 0\n"
        "  %.5 = lshr i64 %a, 3\n"
        "  %.6 = zext i32 %c to i64\n"
        "  %.7 = urem i64 %.6, %b\n"
        "  %.8 = select i1 %.4, i64 %.5, i64 %.7\n"
        "  ret i64 %.8\n"
        "}")


def test_loops_and_blocks_that_fall_through() -> None:
    code = ("define void @f(i64 %n, i1 %c) {\n"
            "  loop %i < %n, else %out\n"
            "  br %c, %odd, %even\n"
            "odd:\n"
            "  call void @g(i64 %i)\n"
            "even:\n"
            "  next %i\n"
            "out:\n"
            "  ret void\n"
            "}\n")
    assert expand(code) == (
        "define void @f(i64 %n, i1 %c) {\n"
        "entry:\n"
        "  br label %head.1\n"
        "head.1:\n"
        "  %i = phi i64 [ 0, %entry ], [ %next.4, %even ]\n"
        "  %.3 = icmp slt i64 %i, %n\n"
        "  br i1 %.3, label %go.2, label %out\n"
        "go.2:\n"
        "  br i1 %c, label %odd, label %even\n"
        "odd:\n"
        "  call void @g(i64 %i)\n"
        "  br label %even\n"
        "even:\n"
        "  %next.4 = add i64 %i, 1\n"
        "  br label %head.1\n"
        "out:\n"
        "  ret void\n"
        "}\n")
    with pytest.raises(KeyError, match="k"):
        expand(code.replace("next %i", "next %k"))


def test_ends_of_functions() -> None:
    code = ("define void @f(i64 %n) {\n"
            "  if %n > 0, else @g(%n); ret void\n"
            "  if not %n == 5, else %end\n"
            "  if %n < 9, else @g(%n); ret void\n"
            "  call void @h()\n"
            "}\n"
            "define void @g(i64 %n) {\n"
            "}\n")
    assert expand(code) == (
        "define void @f(i64 %n) {\n"
        "entry:\n"
        "  %.2 = icmp sgt i64 %n, 0\n"
        "  br i1 %.2, label %go.1, label %instead.1\n"
        "go.1:\n"
        "  %.4 = icmp eq i64 %n, 5\n"
        "  br i1 %.4, label %end, label %go.3\n"
        "go.3:\n"
        "  %.6 = icmp slt i64 %n, 9\n"
        "  br i1 %.6, label %go.5, label %instead.1\n"
        "go.5:\n"
        "  call void @h()\n"
        "  br label %end\n"
        "end:\n"
        "  ret void\n"
        "instead.1:\n"
        "  call void @g(i64 %n)\n"
        "  ret void\n"
        "}\n"
        "define void @g(i64 %n) {\n"
        "entry:\n"
        "  ret void\n"
        "}\n")


def test_unknown_names_are_errors() -> None:
    with pytest.raises(KeyError, match="nothing"):
        expand("  %n = %p->nothing.slot")
    with pytest.raises(ValueError, match="not in list"):
        expand("  %n = %p->spec.nothing")
    with pytest.raises(ValueError, match="unexpected"):
        expand("  %n = %p->spec.slot )")
    with pytest.raises(KeyError, match="%q"):
        expand("  %n = %q + 1")
    with pytest.raises(ValueError, match="another name"):
        expand("define void @f(i64 %q) {\n  %n = %q\n}")


def test_both_sides_have_one_layout() -> None:
    """Every kind is as large as it is aligned, so LLVM and C place fields alike."""
    assert declarations().count(" = type { ") == len(STRUCTURES)
    for name in STRUCTURES:
        kind = structure(name)
        assert [f for f, _ in kind._fields_] == [f for f, _ in STRUCTURES[name]]
    array = structure("array")
    assert [getattr(array, n).offset for n in ("type", "data", "nd", "dims", "descr", "flags")] == [
        8, 16, 24, 32, 56, 64]
