"""Generated code is counted, not timed: see counts.py."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import counts

from cellc_compiler.build.llvm_version import llvm_version
from cellc_compiler.ir.op import lookup
from cellc_runtime.target import AVX512

HOW = "if that is meant, run `python tests/codegen/counts.py --update` and commit counts.json"


@pytest.mark.parametrize("name", counts.NETWORKS)
def test_counts_are_those_stored(name: str) -> None:
    stored = counts.stored()
    if stored["llvm"] != llvm_version():
        pytest.skip(f"counted with {stored['llvm']}, this is {llvm_version()}")
    changed = counts.differences(stored["networks"].get(name, {}), counts.count(name))
    assert not changed, "\n".join([f"{name} compiles to other code:", *changed, HOW])


def test_differences_name_what_changed() -> None:
    old = {"t": {"kernels": 2, "calls": 3, "arena": 64, "kept": 0, "bytes": 10,
                 "instructions": {"add": 100, "exp": 50}, "spills": {}}}
    assert counts.differences(old, old) == []
    new = {"t": {**old["t"], "bytes": 12, "instructions": {"add": 101, "exp": 60},
                 "spills": {"matmul": 1}}}
    assert counts.differences(old, new) == [
        "t: bytes 10 -> 12", "t: instructions of exp: 50 -> 60", "t: spills of matmul: 0 -> 1",
    ]


LOOP = """
KERNEL:
	vmovups	%zmm1, 64(%rsp)
.LBB0_1:
	vmovups	%zmm1, 192(%rsp)
.LBB0_2:
	vfmadd231ps	(%rdi), %zmm0, %zmm1
	{inside}
	jne	.LBB0_2
	vmovups	192(%rsp), %zmm2
	jne	.LBB0_1
	retq
"""


@pytest.mark.parametrize(
    ("inside", "spills"),
    [("vmovups\t%zmm3, 64(%rsp)", 1), ("vmovaps\t%ymm3, (%rsp)", 1),
     ("vmovaps\t%ymm3, (%rsp)\n\tvaddps\t(%rsp), %ymm1, %ymm1", 2),
     ("vmovups\t64(%rsp), %zmm3", 0), ("movq\t%rax, 8(%rsp)", 0),
     ("vmovups\t%zmm3, 64(%rsp,%rax,4)", 0), ("vaddps\t%zmm0, %zmm1, %zmm1", 0)],
)
def test_spills_are_found_in_inner_loops_only(inside: str, spills: int) -> None:
    assert counts.inner_spills(LOOP.replace("{inside}", inside)) == spills


def test_contractions_keep_their_vectors_in_registers() -> None:
    # Attention has loops over rows between its products: those count as the nests they are.
    for name, targets in counts.stored()["networks"].items():
        for target, found in targets.items():
            contractions = [label for label in found["spills"] if "reduce" not in label
                            and lookup(re.split(r"[+ ]", label)[0]).opaque]
            assert not contractions, (name, target)


def test_loops_save_no_vectors_where_there_are_32_registers() -> None:
    # With 16 the polynomials of some fused loops do: the file has them, and may only lose them.
    for name, targets in counts.stored()["networks"].items():
        assert not targets[AVX512.name]["spills"], name
