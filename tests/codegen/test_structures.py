"""The structures that generated code shares with the runtime: fields by name."""

from __future__ import annotations

import ctypes

import pytest

from cellc_compiler.backends.cpu.host.notation import declarations, expand
from cellc_runtime.abi import STRUCTURES
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
