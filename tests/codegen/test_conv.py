"""Convolution kernels against a plain scalar FMA loop (bits) and numpy in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from cellc_compiler.backends.cpu.kernels.conv.plans import (
    ConvSpec,
    conv_backward_data,
    conv_backward_weight,
    conv_forward,
)
from cellc_compiler.backends.cpu.rules.conv import is_pointwise
from cellc_compiler.backends.llvm.text import Function, V, module
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.types import TensorType
from cellc_compiler.lower.plan import epilogue_operand
from cellc_runtime.dtypes import DType, bfloat16, float16, float32, float64
from cellc_runtime.target import AVX512, NEON, Target, host_target

from .jit import Jitted, compile_text
from .plans import ALL_TARGETS, Array, emits, run_calls, run_plan, x86_targets

TARGETS = pytest.mark.parametrize("target", x86_targets(), ids=lambda t: t.name)


def spec(
    n: int, c: int, hw: tuple[int, int], oc: int, k: tuple[int, int],
    s: tuple[int, int] = (1, 1), d: tuple[int, int] = (1, 1),
    p: tuple[int, int, int, int] = (0, 0, 0, 0), g: int = 1, dtype: DType = float32,
) -> ConvSpec:
    return ConvSpec(n, c, *hw, oc, *k, s, d, p, g, dtype)


SPECS: dict[str, ConvSpec] = {
    "3x3": spec(2, 5, (13, 17), 7, (3, 3), p=(1, 1, 1, 1)),
    "3x3 wide": spec(1, 3, (9, 70), 33, (3, 3), p=(1, 1, 1, 1)),
    "3x3 blocked": spec(1, 150, (14, 14), 34, (3, 3), p=(1, 1, 1, 1)),
    "3x3 long rows": spec(2, 32, (30, 128), 16, (3, 3), p=(1, 1, 1, 1)),
    "3x3 7x7": spec(2, 64, (7, 7), 48, (3, 3), p=(1, 1, 1, 1)),
    "1x1": spec(2, 9, (11, 13), 10, (1, 1)),
    "1x1 copied": spec(1, 130, (12, 9), 40, (1, 1)),
    "1x1 s2": spec(2, 6, (11, 9), 4, (1, 1), s=(2, 2)),
    "1x1 s3 pad": spec(1, 2, (7, 8), 3, (1, 1), s=(3, 3), p=(1, 0, 2, 1)),
    "3x3 s2": spec(2, 5, (14, 19), 9, (3, 3), s=(2, 2), p=(1, 1, 1, 1)),
    "3x2 s23": spec(1, 6, (13, 17), 8, (3, 2), s=(2, 3), d=(1, 2), p=(0, 1, 2, 1), g=2),
    "5x5 s3 d2": spec(1, 2, (23, 21), 6, (5, 5), s=(3, 3), d=(2, 2), p=(3, 2, 1, 4)),
    "7x7 s2": spec(1, 3, (40, 38), 20, (7, 7), s=(2, 2), p=(3, 3, 3, 3)),
    "9x9": spec(1, 2, (20, 20), 3, (9, 9), p=(4, 4, 4, 4)),
    "5x5 s5": spec(1, 3, (20, 21), 5, (5, 5), s=(5, 5)),
    "3x3 s4": spec(1, 3, (18, 18), 5, (3, 3), s=(4, 4), p=(1, 1, 1, 1)),
    "3x3 s6": spec(1, 3, (18, 20), 5, (3, 3), s=(6, 6), p=(1, 1, 1, 1)),
    "pads only": spec(1, 2, (1, 1), 3, (1, 1), s=(2, 2), p=(1, 1, 1, 1)),
    "pixel": spec(3, 17, (1, 1), 19, (1, 1)),
    "kx1": spec(1, 4, (12, 21), 5, (3, 1)),
    "1d": spec(3, 7, (1, 50), 12, (1, 5), p=(0, 0, 2, 2)),
    "1d d3 s2": spec(2, 4, (1, 61), 6, (1, 4), s=(1, 2), d=(1, 3), p=(0, 0, 5, 1)),
    "groups": spec(2, 12, (9, 10), 18, (3, 3), p=(1, 1, 1, 1), g=3),
    "depthwise": spec(2, 10, (19, 21), 10, (3, 3), p=(1, 1, 1, 1), g=10),
    "depthwise s2": spec(1, 10, (19, 40), 10, (3, 3), s=(2, 2), p=(1, 0, 0, 1), g=10),
    "depthwise x2": spec(1, 6, (12, 12), 12, (5, 5), p=(2, 2, 2, 2), g=6),
    "lenet": spec(20, 1, (16, 16), 6, (5, 5)),
    "far pads": spec(1, 2, (5, 5), 4, (3, 3), p=(4, 3, 5, 4)),
    "f64": spec(1, 5, (12, 13), 9, (3, 3), s=(2, 1), p=(1, 1, 1, 1), dtype=float64),
    "f64 blocked": spec(1, 160, (10, 10), 18, (3, 3), p=(1, 1, 1, 1), dtype=float64),
    "f16": spec(2, 5, (12, 13), 20, (3, 3), p=(1, 1, 1, 1), dtype=float16),
    "f16 1x1": spec(1, 40, (8, 8), 40, (1, 1), dtype=float16),
    "f16 s2": spec(1, 5, (12, 13), 9, (3, 3), s=(2, 2), p=(1, 1, 1, 1), dtype=float16),
    "bf16": spec(1, 5, (12, 13), 20, (3, 3), p=(1, 1, 1, 1), dtype=bfloat16),
    "bf16 s2": spec(1, 6, (12, 13), 9, (3, 3), s=(2, 2), p=(1, 1, 1, 1), g=3, dtype=bfloat16),
    "bf16 depthwise": spec(3, 6, (9, 9), 6, (3, 3), p=(1, 1, 1, 1), g=6, dtype=bfloat16),
}
BATCHED: dict[str, ConvSpec] = {
    "joint 2x2": spec(7, 40, (2, 2), 72, (3, 3), p=(1, 1, 1, 1)),
    "joint 3x3": spec(5, 70, (3, 3), 33, (3, 3), p=(1, 1, 1, 1)),
    "joint blocked": spec(6, 200, (2, 3), 70, (3, 3), p=(1, 1, 1, 1)),
    "joint s2": spec(6, 48, (5, 4), 67, (3, 3), s=(2, 2), p=(1, 1, 1, 1)),
    "joint 1x1": spec(9, 64, (2, 3), 65, (1, 1)),
    "joint 1x1 s2": spec(6, 64, (4, 4), 96, (1, 1), s=(2, 2)),
    "joint groups": spec(9, 48, (2, 2), 64, (3, 3), p=(1, 1, 1, 1), g=2),
    "joint f64": spec(5, 40, (2, 2), 36, (3, 3), p=(1, 1, 1, 1), dtype=float64),
    "joint f16": spec(6, 40, (2, 2), 48, (3, 3), p=(1, 1, 1, 1), dtype=float16),
    "joint bf16 s2": spec(7, 40, (4, 4), 49, (3, 3), s=(2, 2), p=(1, 1, 1, 1), dtype=bfloat16),
}
SPECS |= BATCHED
SPECS |= {
    "product s2": spec(3, 48, (5, 4), 160, (3, 3), s=(2, 2), p=(1, 1, 1, 1)),
    "product groups": spec(4, 66, (3, 2), 96, (3, 2), p=(1, 1, 0, 1), g=2),
    "product f64": spec(5, 40, (2, 2), 70, (3, 3), p=(1, 1, 1, 1), dtype=float64),
    "product bf16": spec(5, 40, (2, 2), 70, (3, 3), p=(1, 1, 1, 1), dtype=bfloat16),
    "product f16 s2": spec(5, 40, (4, 4), 70, (1, 1), s=(2, 2), dtype=float16),
}
ALL_SPECS = pytest.mark.parametrize("name", SPECS)


# --- the references --------------------------------------------------------------------------


def _reference_text(ty: str) -> str:
    """One element at a time: `out[a, b, i, j] = chain over (k, y, x)` of in-range products.

    Buffers: source, weights, out, sizes. Sizes (i64): images, groups, rows per group M, chain
    channels per group K, output h, w, source h, w, kh, kw, weight strides (group, M, K), and per
    axis (mul, div, pad, dilation): source index = (mul * out + pad + dilation * tap) / div, only
    where div divides it.
    """
    f = Function("KERNEL", [("ptr", "bufs"), ("i64", "lo"), ("i64", "hi")], host_target())
    src, wts, out, sizes = (
        f.load("ptr", f.gep(f.arg("bufs"), i, "ptr"), align=8) for i in range(4))
    names = ["n", "g", "m", "k", "oh", "ow", "ih", "iw", "kh", "kw", "wg", "wm", "wk",
             "ymul", "ydiv", "ypad", "ydil", "xmul", "xdiv", "xpad", "xdil"]
    s = {name: f.load("i64", f.gep(sizes, i, "i64")) for i, name in enumerate(names)}

    def axis(a: str, size: V, at: V, tap: V) -> tuple[V, V]:
        full = f.add(f.add(f.mul(at, s[f"{a}mul"]), s[f"{a}pad"]), f.mul(tap, s[f"{a}dil"]))
        q = f.binary("sdiv", full, s[f"{a}div"])
        whole = f.cmp("eq", f.mul(q, s[f"{a}div"]), full)
        return q, f.binary("and", whole, f.cmp("ult", q, size))

    def element(n: V, g: V, m: V, oy: V, ox: V) -> None:
        def tap(k: V, a: V, b: V, acc: list[V]) -> list[V]:
            iy, y_in = axis("y", s["ih"], oy, a)
            ix, x_in = axis("x", s["iw"], ox, b)
            plane = f.add(f.mul(f.add(f.mul(n, s["g"]), g), s["k"]), k)
            at = f.add(f.mul(f.add(f.mul(plane, s["ih"]), iy), s["iw"]), ix)
            w = f.add(f.mul(g, s["wg"]), f.add(f.mul(m, s["wm"]), f.mul(k, s["wk"])))
            w = f.add(w, f.add(f.mul(a, s["kw"]), b))
            return f.when(
                f.binary("and", y_in, x_in),
                lambda: [f.fma(f.load(ty, f.gep(wts, w, ty)), f.load(ty, f.gep(src, at, ty)),
                               acc[0])],
                lambda: acc)

        total = f.loop(f.i64(0), s["k"], 1, [f.const(ty, 0.0)], lambda k, c: f.loop(
            f.i64(0), s["kh"], 1, c, lambda a, c: f.loop(
                f.i64(0), s["kw"], 1, c, lambda b, c: tap(k, a, b, c))))[0]
        row = f.add(f.mul(f.add(f.mul(n, s["g"]), g), s["m"]), m)
        f.store(total, f.gep(
            out, f.add(f.mul(f.add(f.mul(row, s["oh"]), oy), s["ow"]), ox), ty))

    f.loop(f.i64(0), s["n"], 1, [], lambda n, _: f.loop(
        f.i64(0), s["g"], 1, [], lambda g, _: f.loop(
            f.i64(0), s["m"], 1, [], lambda m, _: f.loop(
                f.i64(0), s["oh"], 1, [], lambda oy, _: f.loop(
                    f.i64(0), s["ow"], 1, [],
                    lambda ox, _: element(n, g, m, oy, ox)) and None) and None) and None) and None)
    f.ret_()
    return module([f])


@cache
def _reference(ty: str) -> Jitted:
    return compile_text(_reference_text(ty))


def _scalar(s: ConvSpec, src: Array, w: Array, backward: bool) -> Array:
    """The FMA-chain reference, rounded once to the spec's dtype."""
    wide = np.float64 if s.dtype is float64 else np.float32
    t = s.taps
    if backward:
        shape = (s.n, s.c, s.h, s.w)
        sizes = [s.n, s.groups, s.icg, s.ocg, s.h, s.w, s.oh, s.ow, s.kh, s.kw,
                 s.ocg * s.icg * t, t, s.icg * t,
                 1, s.stride[0], s.pads[0], -s.dilation[0],
                 1, s.stride[1], s.pads[2], -s.dilation[1]]
    else:
        shape = (s.n, s.oc, s.oh, s.ow)
        sizes = [s.n, s.groups, s.ocg, s.icg, s.oh, s.ow, s.h, s.w, s.kh, s.kw,
                 s.ocg * s.icg * t, s.icg * t, t,
                 s.stride[0], 1, -s.pads[0], s.dilation[0],
                 s.stride[1], 1, -s.pads[2], s.dilation[1]]
    out = np.zeros(shape, wide)
    fn = _reference("double" if s.dtype is float64 else "float")
    fn([np.ascontiguousarray(src, wide), np.ascontiguousarray(w, wide), out,
        np.array(sizes, np.int64)], 0, 1)
    with np.errstate(over="ignore"):
        return out.astype(s.dtype.numpy)


def _windows(s: ConvSpec, x: Array, a: int, b: int) -> Array:
    """The pixels of a padded x that tap (a, b) multiplies."""
    y0, x0 = a * s.dilation[0], b * s.dilation[1]
    return x[:, :, y0:y0 + s.stride[0] * (s.oh - 1) + 1:s.stride[0],
             x0:x0 + s.stride[1] * (s.ow - 1) + 1:s.stride[1]]


def _weight64(s: ConvSpec, x: Array, dy: Array) -> Array:
    """Backward weight in float64."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), s.pads[:2], s.pads[2:]))
    out = np.zeros((s.oc, s.icg, s.kh, s.kw))
    for a in range(s.kh):
        for b in range(s.kw):
            win = _windows(s, padded, a, b).reshape(s.n, s.groups, s.icg, s.oh, s.ow)
            grad = dy.astype(np.float64).reshape(s.n, s.groups, s.ocg, s.oh, s.ow)
            out[:, :, a, b] = np.einsum("ngihw,ngohw->goi", win, grad).reshape(s.oc, s.icg)
    return out


def _arrays(s: ConvSpec) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(7)

    def make(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32).astype(s.dtype.numpy)

    return (make(s.n, s.c, s.h, s.w), make(s.oc, s.icg, s.kh, s.kw),
            make(s.n, s.oc, s.oh, s.ow))


def _same_bits(a: Array, b: Array) -> None:
    np.testing.assert_array_equal(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}"))


# --- results ---------------------------------------------------------------------------------


@TARGETS
@ALL_SPECS
def test_forward_bits(name: str, target: Target) -> None:
    s = SPECS[name]
    x, w, out = _arrays(s)
    for at_end in (True, False):
        out[...] = 77
        run_plan(conv_forward(s, target), target, {"x": x, "w": w, "out": out}, at_end)
        _same_bits(out, _scalar(s, x, w, backward=False))


@TARGETS
@ALL_SPECS
def test_backward_data_bits(name: str, target: Target) -> None:
    s = SPECS[name]
    out, w, dy = _arrays(s)
    for at_end in (True, False):
        out[...] = 77
        run_plan(conv_backward_data(s, target), target, {"dy": dy, "w": w, "out": out}, at_end)
        _same_bits(out, _scalar(s, dy, w, backward=True))


@TARGETS
@ALL_SPECS
def test_backward_weight(name: str, target: Target) -> None:
    s = SPECS[name]
    x, out, dy = _arrays(s)
    bound = _weight64(s, np.abs(x), np.abs(dy))
    eps = float({float64: 2.0**-52, float32: 2.0**-23}.get(s.dtype, 0.0))
    half = {float16: 2.0**-11, bfloat16: 2.0**-8}.get(s.dtype, 0.0)
    expected = _weight64(s, x, dy)
    for at_end in (True, False):
        out[...] = 77
        run_plan(conv_backward_weight(s, target), target, {"x": x, "dy": dy, "out": out}, at_end)
        error = np.abs(out.astype(np.float64) - expected)
        limit = bound * (eps or 2.0**-23) * 8 + np.abs(expected) * half + 1e-30
        assert (error <= limit).all()


@TARGETS
@pytest.mark.parametrize("s", [
    spec(2, 21, (5, 7), 35, (1, 1)), spec(3, 40, (4, 4), 9, (1, 1)),
    spec(1, 17, (6, 5), 12, (1, 1), dtype=float64), spec(2, 12, (4, 5), 20, (1, 1), dtype=bfloat16),
], ids=["odd", "small images", "f64", "bf16"])
def test_pointwise_backward_data_is_a_product_of_the_same_chain(s: ConvSpec, target: Target
                                                                ) -> None:
    _, w, dy = _arrays(s)
    assert is_pointwise(s)
    graph = Graph("pointwise")
    operands = [graph.add_input(TensorType(a.shape, s.dtype), n, "input")
                for a, n in ((dy, "dy"), (w, "w"))]
    result = Builder(graph).conv2d_backward_data(*operands, size=(s.h, s.w))
    graph.outputs = [result]
    (found,) = run_calls(graph, target, [dy, w])
    _same_bits(found, _scalar(s, dy, w, backward=True))


CHAINS = {
    "channel lanes": (spec(2, 3, (9, 8), 24, (3, 3), p=(1, 1, 1, 1)), False),
    "product": (spec(5, 40, (2, 2), 70, (3, 3), p=(1, 1, 1, 1)), True),
    "product of one image": (spec(1, 70, (2, 3), 300, (3, 3), p=(1, 1, 1, 1)), True),
    "product, blocked": (spec(1, 512, (8, 9), 300, (3, 3), p=(1, 1, 1, 1)), True),
    "product 1x1": (spec(6, 130, (2, 2), 70, (1, 1)), True),
}


@TARGETS
@pytest.mark.parametrize("name", CHAINS)
def test_weight_chain(name: str, target: Target) -> None:
    """Channel lanes without a split, and the product, are one FMA chain over (n, oy, ox)."""
    s, product = CHAINS[name]
    x, out, dy = _arrays(s)
    plan = conv_backward_weight(s, target)
    assert target is not AVX512 or ("x_rows" in plan.scratch) == product
    for at_end in (True, False):
        run_plan(plan, target, {"x": x, "dy": dy, "out": out}, at_end)
    # The same chain as a forward convolution whose channels are images and taps are pixels.
    flip = spec(s.c, s.n, (s.h, s.w), s.oc, (s.oh, s.ow), p=s.pads)
    chain = _scalar(flip, x.swapaxes(0, 1), dy.swapaxes(0, 1), backward=False)
    _same_bits(out, np.ascontiguousarray(chain.swapaxes(0, 1)))


def test_zero_weight_times_infinity_outside_is_untouched() -> None:
    """Padding is a 0 that takes part: an infinite weight on it gives NaN, as stated."""
    s = spec(1, 1, (3, 3), 1, (3, 3), p=(1, 1, 1, 1))
    x, w, out = _arrays(s)
    w[0, 0, 0, 0] = np.inf
    run_plan(conv_forward(s, host_target()), host_target(), {"x": x, "w": w, "out": out})
    assert np.isnan(out[0, 0, 0]).all() and np.isnan(out[0, 0, :, 0]).all()
    assert np.isinf(out[0, 0, 1:, 1:]).all()


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=lambda d: d.name)
def test_half_store_keeps_nan_and_rounds_to_infinity(dtype: DType) -> None:
    s = spec(1, 1, (1, 4), 1, (1, 1), dtype=dtype)
    top = float(np.finfo(np.float16).max) if dtype is float16 else 3.3895313892515355e38
    x = np.array([np.nan, -np.inf, top, 1.0], np.float32).astype(dtype.numpy).reshape(1, 1, 1, 4)
    w = np.full((1, 1, 1, 1), 1.0078125, np.float32).astype(dtype.numpy)
    out = np.zeros_like(x)
    target = host_target()
    run_plan(conv_forward(s, target), target, {"x": x, "w": w, "out": out})
    got = out.astype(np.float32).ravel()
    assert np.isnan(got[0]) and got[1] == -np.inf and got[2] == np.inf


def _bias_relu(buffer: int) -> Callable[[Function, V, V, V, int, V | None], V]:
    def epilogue(f: Function, acc: V, channel: V, _: V, lanes: int, mask: V | None) -> V:
        base = f.load("ptr", f.gep(f.arg("bufs"), buffer, "ptr"), align=8)
        bias = f.load("float", f.gep(base, channel, "float"))
        total = f.add(acc, f.splat(bias, lanes))
        zero = f.zero(total.ty)
        return f.select(f.cmp("olt", total, zero), zero, total)

    return epilogue


def _residual(f: Function, acc: V, _: V, offset: V, lanes: int, mask: V | None) -> V:
    base = f.load("ptr", f.gep(f.arg("bufs"), 3, "ptr"), align=8)
    ptr = f.gep(base, offset, "float")
    other = (f.load(acc.ty, ptr) if mask is None
             else f.masked_load(acc.ty, ptr, mask, f.zero(acc.ty)))
    return f.add(acc, other)


@TARGETS
@pytest.mark.parametrize("name", ["3x3", "groups", "3x3 blocked", "1x1", "depthwise",
                                  "joint 2x2", "joint groups", "joint blocked"])
def test_epilogues(name: str, target: Target) -> None:
    s = SPECS[name]
    x, w, out = _arrays(s)
    plain = _scalar(s, x, w, backward=False)
    bias = np.linspace(-3, 3, s.oc, dtype=np.float32)
    plan = conv_forward(s, target, _bias_relu(3), 1)
    assert plan.steps[-1][1][-1] == epilogue_operand(0)
    run_plan(plan, target, {"x": x, "w": w, "out": out, epilogue_operand(0): bias})
    expected = plain + bias[:, None, None]
    _same_bits(out, np.where(expected < 0, np.float32(0), expected))
    other = _arrays(s)[2]
    run_plan(conv_forward(s, target, _residual, 1), target,
             {"x": x, "w": w, "out": out, epilogue_operand(0): other})
    _same_bits(out, plain + other)


# --- the plan itself -------------------------------------------------------------------------


@pytest.mark.parametrize("target", ALL_TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("name", ["3x3", "3x3 s2", "depthwise", "f16", "bf16", "f64", "5x5 s5",
                                  "joint s2", "joint f16", "product bf16"])
def test_objects_emit(name: str, target: Target) -> None:
    for make in (conv_forward, conv_backward_data, conv_backward_weight):
        emits(make(SPECS[name], target), target)


@pytest.mark.parametrize("name", BATCHED)
def test_small_images_of_a_batch_are_joined(name: str) -> None:
    for make in (conv_forward, conv_backward_data):
        assert "joint" in make(BATCHED[name], AVX512).scratch


def test_split_does_not_depend_on_the_call() -> None:
    s = SPECS["3x3"]
    for make in (conv_forward, conv_backward_data, conv_backward_weight):
        first, second = make(s, AVX512), make(s, AVX512)
        assert first == second


def test_enough_tasks_for_sixteen_threads() -> None:
    for hw, c in ((56, 64), (28, 128), (14, 256), (7, 512)):
        s = spec(1, c, (hw, hw), c, (3, 3), p=(1, 1, 1, 1))
        for make in (conv_forward, conv_backward_data, conv_backward_weight):
            heavy = max(make(s, AVX512).steps, key=lambda k: k[0].cost)[0]
            assert heavy.ntasks >= 16


def test_one_by_one_needs_no_scratch() -> None:
    assert not conv_forward(SPECS["1x1"], NEON).scratch


@pytest.mark.parametrize("change", [{"kh": 9}, {"n": 0}])
def test_a_result_without_elements_is_refused(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {
        "n": 1, "c": 3, "h": 8, "w": 8, "oc": 4, "kh": 3, "kw": 3, "stride": (1, 1),
        "dilation": (1, 1), "pads": (0, 0, 0, 0), "groups": 1, "dtype": float32}
    ConvSpec(**good)
    with pytest.raises(ValueError, match="without an output"):
        ConvSpec(**{**good, **change})
