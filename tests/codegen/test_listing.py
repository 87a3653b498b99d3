"""Assembly beside LLVM text: it is that of the program, and its lines are right."""

from __future__ import annotations

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.compiled.traced import trace
from cellc_compiler import driver
from cellc_compiler.build.emit import EmitError, assembly
from cellc_compiler.build.listing import listing
from cellc_compiler.lower.instructions import Call, walk
from cellc_runtime.target import TARGETS, Target


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.dense = nn.Dense(8 * 64, 10)

    def construct(self, x):
        h = ops.relu(self.conv(x)).reshape(x.shape[0], -1)
        return ops.softmax(self.dense(h))


def kernels(target: Target) -> list[str]:
    traced = trace(Net(), [ms.Tensor(np.ones((2, 3, 8, 8), np.float32))], {})
    lowered = driver.lower(driver.optimize(traced.graph, target=target), target)
    calls = [i for i in walk(lowered.instructions) if isinstance(i, Call)]
    return list(dict.fromkeys(c.kernel.code for c in calls))


def instructions(text: str) -> list[str]:
    rows = (row.split("#")[0].split() for row in text.split("\n"))
    return [" ".join(r) for r in rows if r and not r[0].startswith(".") and r[0][-1] != ":"]


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_what_is_shown_is_the_programs_code(target: Target) -> None:
    codes = kernels(target)
    assert len(codes) > 2
    for code in codes:
        shown = listing(code, target)
        assert instructions(shown.assembly) == instructions(assembly(code, target))
        assert len(shown.lines) == shown.assembly.count("\n") + 1
        of = code.split("\n")
        rows = [r for r in shown.assembly.split("\n") if r.startswith("    ") and r[4] != "."]
        named = [line for line in shown.lines if line]
        assert len(named) > 0.5 * len(rows), "few lines are known"
        assert all(of[line - 1].startswith("  ") for line in named)


def test_a_store_comes_from_the_line_that_stores() -> None:
    target = TARGETS["x86_64-avx2"]
    text = ("define hidden void @KERNEL(ptr %a, ptr %b) nounwind {\n"
            "  %x = load float, ptr %a, align 4\n"
            "  %y = fmul float %x, %x\n"
            "  store float %y, ptr %b, align 4\n"
            "  ret void\n"
            "}\n")
    shown = listing(text, target)
    lines = dict(zip((r.split()[0] for r in shown.assembly.split("\n")), shown.lines, strict=True))
    assert lines["vmulss"] == 3
    assert 4 in shown.lines and 5 in shown.lines


def test_text_that_llvm_refuses() -> None:
    with pytest.raises(EmitError, match="expected"):
        listing("define what", TARGETS["x86_64-avx2"])
