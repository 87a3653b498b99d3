"""Weights of few bits, widened while a convolution packs them: the elements that `dequantized`
gives, whatever the sizes. Every buffer ends (or starts) at an unreadable page."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cellc_compiler.backends.cpu.kernels.blocked import conv as conv_block
from cellc_compiler.backends.cpu.kernels.blocked import pack_small
from cellc_compiler.backends.cpu.kernels.blocked.tile import BlockConv
from cellc_compiler.backends.cpu.kernels.vectors import Plan
from cellc_compiler.ops.contraction import dequantize, small_sample
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.target import Target

from .plans import ALL_TARGETS, Array, emits, run_plan, x86_targets

TARGETS = pytest.mark.parametrize("target", x86_targets(), ids=lambda t: t.name)
i8, u8, f16, f32 = dtypes.int8, dtypes.uint8, dtypes.float16, dtypes.float32
KINDS: dict[str, tuple[DType, int, DType | None, DType]] = {
    "bfloat16": (dtypes.bfloat16, 0, None, f16), "float16": (f16, 0, None, f16),
    "int8": (i8, 0, None, f16), "int8 in groups": (i8, 32, None, f32),
    "int8 with zeros": (i8, 64, i8, f16), "int4": (u8, 0, None, f16),
    "int4 in groups": (u8, 32, None, f16), "int4 with zeros": (u8, 32, u8, f32),
    "int4 with fractions as zeros": (u8, 96, f32, f16)}
kinds = pytest.mark.parametrize("kind", KINDS)
SIZES = [(32, 16), (32, 48), (37, 45), (5, 147), (48, 9), (20, 1), (17, 7), (3, 15), (64, 33),
         (16, 95), (33, 2)]
"""Output channels and steps of the chain."""


def problem(oc: int, chain: int, target: Target) -> BlockConv:
    block = target.lanes(4)
    return BlockConv(n=1, c=chain, oc=oc, bi=1, bo=block, ph=3, pw=3, oh=3, ow=3, kh=1, kw=1,
                     stride=(1, 1), dilation=(1, 1), origin=(0, 0), border=(0, 0, 0, 0), groups=1,
                     dtype=f32)


def packed(
    kind: str, oc: int, chain: int, target: Target, at_end: bool = True
) -> tuple[Array, Any]:
    """Packed weights as `(vectors, chain, lanes)`, and what the kernel was made of."""
    weight, group, zeros, scale = KINDS[kind]
    parts = small_sample(weight, oc, chain, 1, group, zeros, scale)
    p = problem(oc, chain, target)
    kernel = pack_small.pack_kernel(p, 1, weight, tuple(
        dtypes.from_numpy(a.dtype) for a in parts[1:]), group, target)
    buffers = {f"in{i}": a for i, a in enumerate(parts)}
    out = np.full(conv_block.packed_bytes(p) // 4, np.nan, np.float32)
    steps = Plan()
    steps.add(kernel, *buffers, "packed")
    run_plan(steps, target, {**buffers, "packed": out}, at_end)
    return out.reshape(-1, chain, p.bo), (parts, kernel)


def expected(kind: str, oc: int, chain: int, target: Target, parts: list[Array]) -> Array:
    _, group, _, _ = KINDS[kind]
    wide = dequantize(parts[0], parts[1:], chain, group, np.dtype(np.float32))[:, :, 0]
    block = target.lanes(4)
    wide = np.pad(wide, ((0, -oc % block), (0, 0)))
    return wide.reshape(-1, block, chain).transpose(0, 2, 1)


@TARGETS
@kinds
def test_elements(kind: str, target: Target) -> None:
    for oc, chain in SIZES:
        for at_end in (True, False):
            got, (parts, _) = packed(kind, oc, chain, target, at_end)
            want = expected(kind, oc, chain, target, parts)
            assert got.tobytes() == want.tobytes(), (oc, chain)


@TARGETS
def test_layers_of_any_size_pack_by_one_kernel(target: Target) -> None:
    b = target.lanes(4)
    made = {packed("int4 in groups", n * b, chain, target)[1][1].code
            for n, chain in ((1, 64), (3, 128), (8, 66))}
    assert len(made) == 1


FAULTS: dict[str, tuple[Any, str, Any]] = {
    "one scale for a square of two groups": (
        pack_small._Spots, "number",
        lambda old: lambda self, base, row, dtype: self.f.splat(
            self._load(base, row * self.groups + self.first, dtype), self.form.block)),
    "the halves change places": (
        pack_small, "_steps",
        lambda old: lambda f, form, row, at: f.shuffle(
            v := old(f, form, row, at), v, [i ^ 1 for i in range(form.block)])),
    "no zero": (pack_small, "_widened", lambda old: lambda f, form, raw, facts: f.add(
        old(f, form, raw, facts), f.mul(facts[0], f.const(facts[0].ty, 8.0)))),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, owner = x86_targets()[0], FAULTS[fault]
    kind, oc, chain = "int4 in groups", 16, 45
    pack_small._text.cache_clear()
    monkeypatch.setattr(owner[0], owner[1], owner[2](getattr(owner[0], owner[1])))
    try:
        got, (parts, _) = packed(kind, oc, chain, target)
        assert not np.array_equal(got, expected(kind, oc, chain, target, parts))
    finally:
        pack_small._text.cache_clear()


@kinds
def test_code_for_all_targets(kind: str) -> None:
    weight, group, zeros, scale = KINDS[kind]
    scales = (scale, *filter(None, [zeros])) if weight.is_integer else ()
    for target in ALL_TARGETS:
        for oc, chain in ((32, 48), (20, 7), (17, 45)):
            steps = Plan()
            p = problem(oc, chain, target)
            steps.add(pack_small.pack_kernel(p, 1, weight, scales, group, target))
            emits(steps, target)
