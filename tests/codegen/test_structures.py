"""The structures that generated code shares with the runtime: fields by name."""

from __future__ import annotations

import ctypes

import pytest

from cellc_compiler.backends.llvm.notation import declarations, expand, table_slot
from cellc_runtime.abi import STRUCTURES, Ext
from cellc_runtime.fastcall import layout


def test_a_field_and_its_place() -> None:
    code = ("  %n = field %spec.slot, ptr %p[%i]\n"
            "  %at = place %context.free, ptr %ctx\n"
            "  %x = load ptr, ptr %at\n")
    assert expand(code) == (
        "  %n.p = getelementptr %spec, ptr %p, i64 %i, i32 4\n"
        "  %n = load i64, ptr %n.p\n"
        "  %at = getelementptr %context, ptr %ctx, i32 0, i32 19\n"
        "  %x = load ptr, ptr %at\n")


def test_calls_items_and_conditions() -> None:
    code = ("define i1 @f(ptr %a, i64 %i) {\n"
            "  %x = item ptr, ptr %a[%i]\n"
            "  if ne ptr %x, null, else %no\n"
            "  put ptr %x, ptr %a[1]\n"
            "  call void {DEC_REF}(ptr %x)\n"
            "  ret i1 true\n"
            "no:\n"
            "  ret i1 false\n"
            "}\n")
    assert expand(code) == (
        "define i1 @f(ptr %a, i64 %i) {\n"
        "entry:\n"
        "  %x.p = getelementptr ptr, ptr %a, i64 %i\n"
        "  %x = load ptr, ptr %x.p\n"
        "  %flag.2 = icmp ne ptr %x, null\n"
        "  br i1 %flag.2, label %go.1, label %no\n"
        "go.1:\n"
        "  %place.3 = getelementptr ptr, ptr %a, i64 1\n"
        "  store ptr %x, ptr %place.3\n"
        f"  %function.4 = load ptr, ptr {table_slot(Ext.DEC_REF)}\n"
        "  call void %function.4(ptr %x)\n"
        "  ret i1 true\n"
        "no:\n"
        "  ret i1 false\n"
        "}\n")


def test_loops_and_blocks_that_fall_through() -> None:
    code = ("define void @f(i64 %n, i1 %c) {\n"
            "  loop %i < %n, else %out\n"
            "  br i1 %c, label %odd, label %even\n"
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
        "  %flag.3 = icmp slt i64 %i, %n\n"
        "  br i1 %flag.3, label %go.2, label %out\n"
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


def test_unknown_names_are_errors() -> None:
    with pytest.raises(KeyError, match="nothing"):
        expand("  %n = field %nothing.slot, ptr %p")
    with pytest.raises(ValueError, match="not in list"):
        expand("  %n = field %spec.nothing, ptr %p")


def test_both_sides_have_one_layout() -> None:
    """Every kind is as large as it is aligned, so LLVM and C place fields alike."""
    assert declarations().count(" = type { ") == len(STRUCTURES)
    for name in STRUCTURES:
        kind = type(name, (ctypes.Structure,), {"_fields_": layout(name)})
        assert [f for f, _ in kind._fields_] == [f for f, _ in STRUCTURES[name]]
    array = type("array", (ctypes.Structure,), {"_fields_": layout("array")})
    assert [getattr(array, n).offset for n in ("type", "data", "nd", "dims", "descr", "flags")] == [
        8, 16, 24, 32, 56, 64]
