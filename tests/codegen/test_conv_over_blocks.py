"""Convolutions of NCHW images over blocked copies: the bits of the tile kernels.

Every buffer ends (or starts) at an unreadable page, and scratch starts as NaN.
"""

from __future__ import annotations

import numpy as np
import pytest

from cellc_compiler.codegen.llvm.kernels import conv
from cellc_compiler.codegen.llvm.kernels.conv import ConvSpec
from cellc_compiler.codegen.llvm.kernels.conv_over_blocks import (
    backward_over_blocks,
    forward_over_blocks,
)
from cellc_compiler.codegen.llvm.text import Function, V
from cellc_runtime.dtypes import DType, float16, float32, float64
from cellc_runtime.target import AVX512, NEON, Target

from .plans import Array, emits, run_plan, x86_targets

TARGETS = pytest.mark.parametrize("target", x86_targets(), ids=lambda t: t.name)


def spec(
    n: int, c: int, hw: tuple[int, int], oc: int, k: tuple[int, int],
    s: tuple[int, int] = (1, 1), d: tuple[int, int] = (1, 1),
    p: tuple[int, int, int, int] = (0, 0, 0, 0), g: int = 1, dtype: DType = float32,
) -> ConvSpec:
    return ConvSpec(n, c, *hw, oc, *k, s, d, p, g, dtype)


SPECS: dict[str, ConvSpec] = {
    "3x3": spec(2, 19, (9, 17), 37, (3, 3), p=(1, 1, 1, 1)),
    "3x3 whole blocks": spec(2, 32, (8, 8), 48, (3, 3), p=(1, 1, 1, 1)),
    "few channels": spec(2, 3, (9, 18), 17, (3, 3), p=(1, 1, 1, 1)),
    "7x7 s2": spec(1, 3, (23, 21), 33, (7, 7), s=(2, 2), p=(3, 3, 3, 3)),
    "9x9": spec(1, 2, (12, 12), 18, (9, 9), p=(4, 4, 4, 4)),
    "1x1": spec(2, 21, (7, 5), 35, (1, 1)),
    "1x1 s2": spec(2, 20, (7, 6), 16, (1, 1), s=(2, 2)),
    "3x3 s2": spec(2, 18, (9, 12), 33, (3, 3), s=(2, 2), p=(1, 1, 1, 1)),
    "3x2 s14 d31": spec(1, 17, (13, 19), 16, (3, 2), s=(1, 4), d=(3, 1), p=(0, 1, 2, 1)),
    "5x5 s2 d3": spec(1, 16, (24, 25), 20, (5, 5), s=(2, 2), d=(3, 3), p=(3, 2, 1, 4)),
    "far pads": spec(1, 18, (5, 5), 20, (3, 3), p=(4, 3, 5, 4)),
    "1d": spec(2, 24, (1, 37), 24, (1, 4), d=(1, 2), p=(0, 0, 2, 2)),
    "3x3 d2": spec(1, 16, (9, 11), 20, (3, 3), d=(2, 2), p=(3, 2, 1, 4)),
    "f64": spec(1, 9, (8, 13), 17, (3, 3), p=(1, 1, 1, 1), dtype=float64),
}


def _arrays(s: ConvSpec) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(7)
    return tuple(rng.standard_normal(shape).astype(s.dtype.numpy) for shape in (
        (s.n, s.c, s.h, s.w), (s.oc, s.icg, s.kh, s.kw), (s.n, s.oc, s.oh, s.ow)))  # type: ignore[return-value]


def _same_bits(a: Array, b: Array) -> None:
    np.testing.assert_array_equal(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}"))


@TARGETS
@pytest.mark.parametrize("name", SPECS)
def test_forward_bits(name: str, target: Target) -> None:
    s = SPECS[name]
    x, w, want = _arrays(s)
    run_plan(conv.plain_forward(s, target), target, {"x": x, "w": w, "out": want})
    over = forward_over_blocks(s, target)
    assert over is not None
    for at_end in (True, False):
        out = np.full_like(want, 77)
        run_plan(over.plan(target, "x"), target, {"x": x, "w": w, "out": out}, at_end)
        _same_bits(out, want)


@TARGETS
@pytest.mark.parametrize("name", SPECS)
def test_backward_data_bits(name: str, target: Target) -> None:
    s = SPECS[name]
    want, w, dy = _arrays(s)
    over = backward_over_blocks(s, target)
    if over is None:
        assert s.stride != (1, 1) or name == "far pads"
        return
    run_plan(conv.plain_backward_data(s, target), target, {"dy": dy, "w": w, "out": want})
    for at_end in (True, False):
        out = np.full_like(want, 77)
        run_plan(over.plan(target, "dy"), target, {"dy": dy, "w": w, "out": out}, at_end)
        _same_bits(out, want)


def _scaled_residual(f: Function, acc: V, channel: V, offset: V, lanes: int, mask: V | None) -> V:
    scale, other = (f.load("ptr", f.gep(f.arg("bufs"), i, "ptr"), align=8) for i in (3, 4))
    ptr = f.gep(other, offset, "float")
    more = (f.load(acc.ty, ptr) if mask is None
            else f.masked_load(acc.ty, ptr, mask, f.zero(acc.ty)))
    wide = f.splat(f.load("float", f.gep(scale, channel, "float")), lanes)
    return f.add(f.mul(acc, wide), more)


@TARGETS
@pytest.mark.parametrize("name", ["3x3", "3x3 whole blocks"])
def test_epilogues(name: str, target: Target) -> None:
    s = SPECS[name]
    x, w, other = _arrays(s)
    plain, out = np.empty_like(other), np.full_like(other, 77)
    run_plan(conv.plain_forward(s, target), target, {"x": x, "w": w, "out": plain})
    scale = np.linspace(-3, 3, s.oc, dtype=np.float32)
    over = forward_over_blocks(s, target)
    assert over is not None
    run_plan(over.plan(target, "x", _scaled_residual, 2), target,
             {"x": x, "w": w, "out": out, "e0": scale, "e1": other})
    _same_bits(out, plain * scale[:, None, None] + other)


def test_objects_for_another_machine() -> None:
    for name in ("3x3", "1x1", "few channels"):
        for make, source in ((forward_over_blocks, "x"), (backward_over_blocks, "dy")):
            over = make(SPECS[name], NEON)
            assert over is not None
            emits(over.plan(NEON, source), NEON)


def test_what_has_no_such_form() -> None:
    for s in (spec(1, 32, (8, 8), 32, (3, 3), g=2), spec(1, 16, (8, 8), 16, (3, 3), g=16),
              spec(1, 32, (8, 8), 32, (3, 3), dtype=float16)):
        assert forward_over_blocks(s, AVX512) is None
        assert backward_over_blocks(s, AVX512) is None
    assert backward_over_blocks(spec(1, 32, (9, 9), 32, (3, 3), s=(2, 2)), AVX512) is None


def test_long_chains_go_over_blocks() -> None:
    """Where there is enough to compute for each element; not where copies would be most of it."""
    for s in (spec(8, 64, (16, 16), 64, (3, 3), p=(1, 1, 1, 1)),
              spec(8, 256, (8, 8), 256, (3, 3), p=(1, 1, 1, 1))):
        for make in (conv.conv_forward, conv.conv_backward_data):
            assert "out_blocks" in make(s, AVX512).scratch
    for thin in (spec(8, 3, (64, 64), 64, (3, 3)), spec(8, 64, (64, 64), 3, (3, 3))):
        for make in (conv.conv_forward, conv.conv_backward_data):
            assert "out_blocks" not in make(thin, AVX512).scratch
    small = spec(8, 512, (2, 2), 512, (3, 3), p=(1, 1, 1, 1))
    for make in (conv.conv_forward, conv.conv_backward_data):
        assert "joint" in make(small, AVX512).scratch
