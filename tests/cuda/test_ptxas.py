"""ptxas: found, run, understood; where there is none the errors say what to do."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from cellc_compiler.build import ptxas
from cellc_runtime import knobs

HERE = ptxas.find()
needs_ptxas = pytest.mark.skipif(HERE is None, reason="such a machine has no ptxas")
PTX = """.version 8.3
.target sm_80
.address_size 64
.visible .entry cellc_kernel(.param .u64 p) .reqntid 128
{
  .reg .b64 %rd<2>;
  .reg .f32 %f<3>;
  .shared .align 4 .b8 held[512];
  ld.param.u64 %rd1, [p];
  ld.global.f32 %f1, [%rd1];
  st.shared.f32 [held], %f1;
  bar.sync 0;
  ld.shared.f32 %f2, [held+4];
  st.global.f32 [%rd1+4], %f2;
  ret;
}
"""
GOES_ON = "  add.f32 %f1, %f1, %f1;\n"


@needs_ptxas
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_100a"])
def test_figures(architecture: str) -> None:
    made = ptxas.assemble(PTX, architecture)
    assert made.code[:4] == b"\x7fELF"
    assert (made.spill_bytes, made.stack, made.warnings) == (0, 0, ())
    assert made.shared in (512, 512 + 1024)  # from sm_90 on the system has a kilobyte of a block's
    assert 0 < made.registers < 32
    assert 8 <= made.instructions < 40


@needs_ptxas
def test_instructions_are_counted_without_padding() -> None:
    """Sixteen further additions are sixteen further instructions, however the code is padded."""
    longer = PTX.replace("  st.shared", GOES_ON * 16 + "  st.shared")
    counts = [ptxas.assemble(text, "sm_80").instructions for text in (PTX, longer)]
    assert counts[1] - counts[0] == 16


def test_only_sections_of_code_hold_instructions() -> None:
    """Of a file with code, data that are no code, and a place that is only reserved."""
    cubin = bytearray(b"\x7fELF\x02".ljust(64, b"\0"))
    struct.pack_into("<Q", cubin, 40, 96)
    struct.pack_into("<HH", cubin, 58, ptxas._SECTION.size, 3)
    cubin += struct.pack("<4Q", 0xA123, 0, 0x5918, 0)
    for kind, flags in ((1, 6), (1, 2), (8, 6)):
        cubin += ptxas._SECTION.pack(0, kind, flags, 0, 64, 32, 0, 0, 0, 0)
    assert ptxas.opcodes(bytes(cubin)) == [0x123, 0x918]
    with pytest.raises(ValueError, match="a 64-bit ELF file"):
        ptxas.opcodes(bytes(cubin[:63]))


@needs_ptxas
def test_spills_are_seen() -> None:
    wide = PTX.replace("%f<3>", "%f<99>").replace(".reqntid 128", ".reqntid 128 .maxnreg 16")
    loads = "".join(f"  ld.volatile.global.f32 %f{i}, [%rd1+{4 * i}];\n" for i in range(3, 99))
    stores = "".join(f"  st.volatile.global.f32 [%rd1+{4 * i}], %f{i};\n" for i in range(3, 99))
    made = ptxas.assemble(wide.replace("  ret;", loads + stores + "  ret;"), "sm_80")
    assert made.spill_bytes > 0 and made.stack > 0


@needs_ptxas
def test_what_ptxas_refuses_is_told_with_its_line() -> None:
    said = r"(?s)refuses code for sm_80.*Not a name.*15 \|   rot"
    with pytest.raises(ptxas.PtxasError, match=said):
        ptxas.assemble(PTX.replace("  ret;", "  rot;"), "sm_80")
    with pytest.raises(ptxas.PtxasError, match="sm_12"):
        ptxas.assemble(PTX, "sm_12")


@needs_ptxas
def test_cubins_are_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with knobs.override(cache_dir=tmp_path):
        made = ptxas.assemble(PTX, "sm_80")
        monkeypatch.setattr(ptxas, "_assembled", lambda *_: pytest.fail("assembled again"))
        assert ptxas.assemble(PTX, "sm_80") == made
    assert ptxas.version().startswith("13.")


def test_without_ptxas(tmp_path: Path) -> None:
    with knobs.override(ptxas="none"):
        assert ptxas.find() is None and ptxas.version() == "none"
        with pytest.raises(ptxas.PtxasError, match=r"pip install 'cellc\[cuda\]'"):
            ptxas.assemble(PTX, "sm_80")
    with knobs.override(ptxas=str(tmp_path / "missing")), \
            pytest.raises(ptxas.PtxasError, match=r"CELLC_PTXAS=.*missing"):
        ptxas.find()


def test_a_program_that_is_no_ptxas(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\necho hello\n")
    other.chmod(0o755)
    with knobs.override(ptxas=str(other)), pytest.raises(ptxas.PtxasError, match="is no ptxas"):
        ptxas.version()
