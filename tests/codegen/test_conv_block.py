"""Blocked convolution kernels: the bits of the NCHW kernels, borders, reorders and pools.

Every buffer ends (or starts) at an unreadable page.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cellc_compiler.backends.cpu.kernels.blocked import (
    conv as conv_block,
)
from cellc_compiler.backends.cpu.kernels.blocked import (
    pack as conv_block_pack,
)
from cellc_compiler.backends.cpu.kernels.blocked import (
    pool as conv_block_pool,
)
from cellc_compiler.backends.cpu.kernels.blocked import (
    tile as conv_block_tile,
)
from cellc_compiler.backends.cpu.kernels.conv.plans import ConvSpec, conv_forward
from cellc_compiler.backends.cpu.kernels.pool_axes import sliding_axes
from cellc_compiler.backends.cpu.kernels.vectors import Plan
from cellc_compiler.build.emit import assembly
from cellc_compiler.loops.order import chains
from cellc_compiler.ops.blocked import blocks, from_blocks, to_blocks
from cellc_compiler.ops.pool import MaxPool2d
from cellc_runtime import records
from cellc_runtime.dtypes import DType, float32, float64
from cellc_runtime.target import AVX2, AVX512, Target

from .counts import inner_spills
from .plans import ALL_TARGETS, Array, emits, run_plan, x86_targets

TARGETS = pytest.mark.parametrize("target", x86_targets(), ids=lambda t: t.name)
ONE, NONE = (1, 1), (0, 0, 0, 0)


def spec(n: int, c: int, hw: tuple[int, int], oc: int, k: tuple[int, int],
         s: tuple[int, int] = ONE, d: tuple[int, int] = ONE,
         p: tuple[int, int, int, int] = NONE, g: int = 1, dtype: DType = float32) -> ConvSpec:
    return ConvSpec(n, c, *hw, oc, *k, s, d, p, g, dtype)


SPECS: dict[str, ConvSpec] = {
    "3x3": spec(2, 19, (9, 17), 37, (3, 3), p=(1, 1, 1, 1)),
    "3x3 short rows": spec(1, 32, (7, 7), 64, (3, 3), p=(1, 1, 1, 1)),
    "3x3 large weights": spec(1, 192, (7, 7), 160, (3, 3), p=(1, 1, 1, 1)),
    "3x3 stretched": spec(1, 40, (7, 7), 64, (3, 3), p=(1, 1, 1, 1)),
    "5x5 stretched in a block": spec(2, 24, (7, 7), 64, (5, 5), p=(2, 2, 2, 2)),
    "1x1 stretched": spec(1, 350, (7, 7), 48, (1, 1)),
    "1x1": spec(2, 24, (7, 7), 48, (1, 1)),
    "1x1 long": spec(1, 70, (9, 31), 20, (1, 1)),
    "1x1 s2": spec(2, 16, (9, 11), 33, (1, 1), s=(2, 2)),
    "first": spec(1, 3, (23, 29), 32, (7, 7), s=(2, 2), p=(3, 2, 3, 1)),
    "3x2 s23 d12": spec(1, 18, (13, 17), 16, (3, 2), s=(2, 3), d=(1, 2), p=(0, 1, 2, 1)),
    "depthwise": spec(2, 20, (9, 33), 20, (3, 3), p=(1, 1, 1, 1), g=20),
    "depthwise s2": spec(1, 32, (13, 9), 32, (5, 5), s=(2, 2), p=(2, 2, 2, 2), g=32),
    "groups of 4": spec(2, 20, (7, 19), 20, (3, 3), p=(1, 1, 1, 1), g=5),
    "groups of 2 s2": spec(1, 16, (9, 9), 16, (5, 3), s=(2, 2), d=(1, 2), p=(2, 2, 2, 2), g=8),
    "groups of blocks": spec(2, 64, (6, 9), 128, (3, 3), p=(1, 1, 1, 1), g=2),
    "groups of a block": spec(1, 96, (7, 7), 48, (1, 1), g=3),
    "groups stretched": spec(1, 384, (7, 7), 192, (3, 3), p=(1, 1, 1, 1), g=2),
    "f64 groups": spec(1, 8, (6, 7), 8, (3, 3), p=(1, 1, 1, 1), g=4, dtype=float64),
    "f64": spec(1, 9, (8, 13), 17, (3, 3), p=(1, 1, 1, 1), dtype=float64),
    "f64 1x1": spec(1, 21, (6, 7), 24, (1, 1), dtype=float64),
}
BORDERS = {"bare": NONE, "bordered": (1, 2, 3, 1)}


def problem(s: ConvSpec, target: Target, border: tuple[int, int, int, int], bi: int | None = None
            ) -> conv_block_tile.BlockConv:
    """A convolution over an image that carries its padding."""
    block = target.lanes(s.dtype.itemsize)
    return conv_block_tile.BlockConv(
        n=s.n, c=s.c, oc=s.oc, bi=bi or block, bo=block, ph=s.h + s.pads[0] + s.pads[1],
        pw=s.w + s.pads[2] + s.pads[3], oh=s.oh, ow=s.ow, kh=s.kh, kw=s.kw, stride=s.stride,
        dilation=s.dilation, origin=(0, 0), border=border, groups=s.groups, dtype=s.dtype)


def plan(p: conv_block_tile.BlockConv, target: Target) -> Plan:
    tile = conv_block_tile.choose_tile(p, target)
    out = Plan()
    out.scratch["packed_w"] = conv_block.packed_bytes(p)
    out.add(conv_block_pack.pack_kernel(p, tile.ov, p.dtype, target), "w", "packed_w")
    out.add(conv_block.block_kernel(p, tile, target), "x", "packed_w", "out")
    return out


@TARGETS
def test_layers_of_any_size_pack_by_one_kernel(target: Target) -> None:
    """Whole blocks and a chain of a block or more: what a layer's size changes are numbers."""
    b, texts = target.lanes(4), set()
    for oc, chain, ov in ((2 * b, b, 2), (6 * b, 3 * b + 1, 3), (5 * b, 2 * b, 1),
                          (64 * b, 2 * b - 1, 4)):
        p = problem(spec(1, chain, (3, 3), oc, (1, 1)), target, NONE, 1)
        kernel = conv_block_pack.pack_kernel(p, ov, p.dtype, target)
        texts.add(kernel.code)
        w = np.random.default_rng(chain).standard_normal((oc, chain), np.float32)
        steps, out = Plan(), np.zeros(conv_block.packed_bytes(p) // 4, np.float32)
        steps.add(kernel, "w", "packed")
        for at_end in (True, False):
            run_plan(steps, target, {"w": w, "packed": out}, at_end)
            np.testing.assert_array_equal(
                out.reshape(-1, chain, ov * b), w.reshape(-1, ov * b, chain).transpose(0, 2, 1))
    assert len(texts) == 1


def arrays(s: ConvSpec) -> tuple[Array, Array]:
    rng = np.random.default_rng(3)
    return (rng.standard_normal((s.n, s.c, s.h, s.w)).astype(s.dtype.numpy),
            rng.standard_normal((s.oc, s.icg, s.kh, s.kw)).astype(s.dtype.numpy))


def expected(s: ConvSpec, x: Array, w: Array, target: Target) -> Array:
    """What the NCHW kernels give."""
    out = np.zeros((s.n, s.oc, s.oh, s.ow), s.dtype.numpy)
    run_plan(conv_forward(s, target), target, {"x": x, "w": w, "out": out})
    return out


def padded(x: Array, pads: tuple[int, int, int, int]) -> Array:
    return np.pad(x, ((0, 0), (0, 0), pads[:2], pads[2:]))


def unreadable(x: Array, channels: int) -> Array:
    """Fill the channels that no kernel may use with NaN."""
    x = np.array(x)
    rest = channels % x.shape[-1]
    if rest:
        x[:, -1, :, :, rest:] = np.nan
    return x


def same_bits(a: Array, b: Array) -> None:
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    np.testing.assert_array_equal(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}"))


@TARGETS
@pytest.mark.parametrize("border", BORDERS.values(), ids=BORDERS)
@pytest.mark.parametrize("name", SPECS)
def test_bits_of_the_nchw_kernels(
    name: str, border: tuple[int, int, int, int], target: Target
) -> None:
    s = SPECS[name]
    x, w = arrays(s)
    nchw = s.c < 4
    p = problem(s, target, border, 1 if nchw else None)
    image = to_blocks(padded(x, s.pads), p.bi)
    image = np.ascontiguousarray(image if nchw else unreadable(image, s.c))
    top, bottom, left, right = border
    shape = (s.n, p.out_blocks, s.oh + top + bottom, s.ow + left + right, p.bo)
    want = expected(s, x, w, target)
    for at_end in (True, False):
        out = np.full(shape, 77, s.dtype.numpy)
        run_plan(plan(p, target), target, {"x": image, "w": w, "out": out}, at_end)
        same_bits(from_blocks(out, s.oc), padded(want, border))


@TARGETS
@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
def test_blocks_wider_than_a_register(dtype: DType, target: Target) -> None:
    s = spec(1, 40, (7, 7), 32, (3, 3), p=(1, 1, 1, 1), dtype=dtype)
    x, w = arrays(s)
    p = problem(s, target, NONE)
    p = records.replace(p, bi=4 * p.bi, bo=4 * p.bo)
    image = np.ascontiguousarray(unreadable(to_blocks(padded(x, s.pads), p.bi), s.c))
    out = np.zeros((s.n, p.out_blocks, s.oh, s.ow, p.bo), dtype.numpy)
    run_plan(plan(p, target), target, {"x": image, "w": w, "out": out})
    same_bits(from_blocks(out, s.oc), expected(s, x, w, target))


@TARGETS
def test_small_images_share_stretches_of_weights(target: Target) -> None:
    stretched = set()
    for name, s in SPECS.items():
        p = problem(s, target, NONE)
        tile = conv_block_tile.choose_tile(p, target)
        rows, cols = (1, p.oh * p.ow) if p.flat else (p.oh, p.ow)
        tiles = -(-rows // tile.tr) * -(-cols // tile.tc)
        split = conv_block.choose_split(p, tile, tiles)
        assert split.tile_parts * split.tile_per >= tiles, name
        assert split.group_parts * split.group_per >= p.out_blocks // tile.ov, name
        if split.stretch:
            stretched.add(name)
            assert split.tile_per > 1, name
            assert split.stretch % p.bi == 0 or p.bi % split.stretch == 0, name
    assert {"3x3 large weights", "5x5 stretched in a block"} <= stretched
    assert not {"depthwise", "1x1", "1x1 long"} & stretched


@pytest.mark.parametrize("target", [AVX512, AVX2], ids=lambda t: t.name)
@pytest.mark.parametrize("border", [1, 2, 3])
def test_accumulators_stay_in_registers_beside_a_border(border: int, target: Target) -> None:
    lanes = target.lanes(4)
    p = conv_block.BlockConv(
        1, 112, 672, lanes, lanes, 14, 14, 14, 14, 1, 1, ONE, ONE, (0, 0), (border,) * 4, 1,
        float32)
    kernel = conv_block.block_kernel(p, conv_block_tile.choose_tile(p, target), target)
    spills = inner_spills(assembly(kernel.code, target))
    assert spills == 0


@TARGETS
@pytest.mark.parametrize("ov", [1, 2, 4])
@pytest.mark.parametrize("tr", [1, 2])
def test_every_tile_gives_the_same_bits(ov: int, tr: int, target: Target) -> None:
    s = spec(1, 20, (5, 3), 4 * target.lanes(4), (3, 3), p=(1, 1, 1, 1))
    x, w = arrays(s)
    p = problem(s, target, NONE)
    tile = conv_block_tile.Tile(ov, tr, 2, 1e4)
    steps = Plan()
    steps.scratch["packed_w"] = conv_block.packed_bytes(p)
    steps.add(conv_block_pack.pack_kernel(p, ov, p.dtype, target), "w", "packed_w")
    steps.add(conv_block.block_kernel(p, tile, target), "x", "packed_w", "out")
    image = np.ascontiguousarray(unreadable(to_blocks(padded(x, s.pads), p.bi), s.c))
    out = np.zeros((s.n, p.out_blocks, s.oh, s.ow, p.bo), np.float32)
    run_plan(steps, target, {"x": image, "w": w, "out": out})
    same_bits(from_blocks(out, s.oc), expected(s, x, w, target))


WAYS = {
    "narrower at the end": ((4, 1, 3), {"fewer": 2}, (5, 10)),
    "flat, narrower at the end": ((1, 1, 5), {"fewer": 1}, (4, 6)),
    "weights from memory": ((4, 1, 3), {"again": 1}, (3, 6)),
    "weights from memory, narrower": ((2, 1, 4), {"again": 1, "fewer": 1}, (3, 11)),
    "elements read twice": ((2, 1, 3), {"fold": True}, (4, 6)),
    "weights stay": ((2, 1, 4), {"slides": True}, (4, 12)),
    "weights stay, narrower": ((1, 1, 6), {"slides": True, "fewer": 2}, (5, 16)),
    "weights stay, dilated": ((1, 1, 5), {"slides": True}, (7, 10)),
}


@TARGETS
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("depth", [20, 200], ids=["whole", "stretched"])
def test_every_kind_of_tile_gives_the_same_bits(depth: int, way: str, target: Target) -> None:
    (ov, tr, tc), kind, size = WAYS[way]
    window = (1, 1) if "flat" in way else (3, 3)
    apart = 2 if "dilated" in way else 1
    s = spec(1, depth, size, 4 * target.lanes(4), window, p=(window[0] // 2 * apart,) * 4,
             d=(apart, apart))
    x, w = arrays(s)
    p = problem(s, target, BORDERS["bordered"])
    steps = Plan()
    steps.scratch["packed_w"] = conv_block.packed_bytes(p)
    steps.add(conv_block_pack.pack_kernel(p, ov, p.dtype, target), "w", "packed_w")
    tile = conv_block_tile.Tile(ov, tr, tc, 1e4, **kind)
    steps.add(conv_block.block_kernel(p, tile, target), "x", "packed_w", "out")
    image = np.ascontiguousarray(unreadable(to_blocks(padded(x, s.pads), p.bi), s.c))
    out = np.full((s.n, p.out_blocks, *p.out_plane, p.bo), 7, np.float32)
    run_plan(steps, target, {"x": image, "w": w, "out": out})
    same_bits(from_blocks(out, s.oc),
              padded(expected(s, x, w, target), BORDERS["bordered"]))


@TARGETS
@pytest.mark.parametrize("side", [7, 8, 16, 56, 128])
def test_tiles_cover_a_row(side: int, target: Target) -> None:
    p = problem(spec(1, 64, (side, side), 64, (3, 3), p=(1, 1, 1, 1)), target, NONE)
    for ov in (1, 2, 4):
        for _, t in conv_block_tile._tiles(p, target, ov):
            across = -(-side // t.tc)
            assert 0 <= t.fewer < across
            covered = across * t.tc - t.fewer
            assert covered == side if t.fewer else covered >= side


@pytest.mark.parametrize("target", ALL_TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("name", ["3x3", "1x1", "first", "depthwise", "f64"])
def test_emits_for_every_target(name: str, target: Target) -> None:
    s = SPECS[name]
    emits(plan(problem(s, target, (1, 1, 1, 1), 1 if s.c < 4 else None), target), target)


@TARGETS
@pytest.mark.parametrize("shape", [(1, 3, 5, 7), (2, 16, 8, 8), (1, 37, 19, 23), (2, 8, 1, 1)])
@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
def test_reorders(shape: tuple[int, ...], dtype: DType, target: Target) -> None:
    block = target.lanes(dtype.itemsize)
    x = np.random.default_rng(1).standard_normal(shape).astype(dtype.numpy)
    want = np.ascontiguousarray(to_blocks(x, block))
    out = np.full(want.shape, 77, dtype.numpy)
    there = Plan()
    there.add(conv_block_pack.to_blocked_kernel(shape, block, dtype, target), "x", "out")
    run_plan(there, target, {"x": x, "out": out})
    same_bits(out, want)
    for cut in (0, 1):
        inner = (*shape[:2], max(shape[2] - 2 * cut, 1), max(shape[3] - 2 * cut, 1))
        origin = (min(cut, shape[2] - 1), min(cut, shape[3] - 1))
        back = np.full(inner, 77, dtype.numpy)
        home = Plan()
        home.add(conv_block_pack.from_blocked_kernel(
            want.shape, inner, origin, dtype, target), "x", "out")
        run_plan(home, target, {"x": want, "out": back}, at_end=not cut)
        same_bits(back, x[:, :, origin[0]: origin[0] + inner[2], origin[1]: origin[1] + inner[3]])


@TARGETS
@pytest.mark.parametrize("shape", [(1, 5, 7, 3), (2, 8, 8, 16), (1, 19, 23, 37), (1, 3, 40, 300)])
@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
def test_reorders_of_channels_last(
    shape: tuple[int, ...], dtype: DType, target: Target
) -> None:
    block = target.lanes(dtype.itemsize)
    x = np.random.default_rng(1).standard_normal(shape).astype(dtype.numpy)
    for border in (NONE, (1, 2, 3, 1)):
        top, _, left, _ = border
        want = np.ascontiguousarray(to_blocks(padded(x.transpose(0, 3, 1, 2), border), block))
        out = np.full(want.shape, 77, dtype.numpy)
        there, home = Plan(), Plan()
        there.add(conv_block_pack.rows_to_blocked_kernel(
            shape, block, border, dtype, target), "x", "out")
        run_plan(there, target, {"x": x, "out": out})
        same_bits(out, want)
        back = np.full(shape, 77, dtype.numpy)
        home.add(conv_block_pack.rows_from_blocked_kernel(
            want.shape, shape, (top, left), dtype, target), "x", "out")
        run_plan(home, target, {"x": want, "out": back}, at_end=not any(border))
        same_bits(back, x)


@TARGETS
@pytest.mark.parametrize("size", [(3, 5), (4, 8), (7, 7), (14, 15), (31, 33)])
def test_sums_of_pixels_have_the_bits_of_rows(size: tuple[int, int], target: Target) -> None:
    """Chains and their fold as `loops/order.py` says, worked out in numpy; with a border too."""
    x = np.random.default_rng(4).standard_normal((2, 19, *size)).astype(np.float32)
    flat = x.reshape(2, 19, -1)
    count = chains(4, flat.shape[2])
    parts = np.zeros((2, 19, count), np.float32)
    for i in range(flat.shape[2]):
        parts[..., i % count] += flat[..., i]
    while parts.shape[2] > 1:
        parts = parts[..., : parts.shape[2] // 2] + parts[..., parts.shape[2] // 2:]
    for border in (NONE, (1, 2, 2, 1)):
        image = np.ascontiguousarray(to_blocks(padded(x, border), target.lanes(4)))
        out = np.full((2, image.shape[1], 1, 1, image.shape[4]), 77, np.float32)
        steps = Plan()
        steps.add(conv_block_pool.pixel_sum_kernel(
            image.shape, size, (border[0], border[2]), float32, target), "x", "out")
        run_plan(steps, target, {"x": image, "out": out}, at_end=not any(border))
        same_bits(from_blocks(out, 19), parts.reshape(2, 19, 1, 1))


POOLS: dict[str, dict[str, Any]] = {
    "2x2": {"kernel": (2, 2), "stride": (2, 2)},
    "3x3 s2 pad": {"kernel": (3, 3), "stride": (2, 2), "pads": (1, 1, 1, 1)},
    "wide": {"kernel": (2, 3), "dilation": (3, 2), "pads": (1, 0, 1, 1), "ceil_mode": True},
    "one": {"kernel": (9, 11), "stride": (9, 11)},
}


@TARGETS
@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("border", BORDERS.values(), ids=BORDERS)
def test_max_pool(name: str, border: tuple[int, int, int, int], target: Target) -> None:
    attrs = MaxPool2d().complete(POOLS[name])
    rng = np.random.default_rng(2)
    x = rng.integers(-3, 3, (2, 19, 9, 11)).astype(np.float32)
    x[rng.random(x.shape) < 0.05] = np.nan
    want = MaxPool2d().reference(x, **attrs)
    block = target.lanes(4)
    image = np.ascontiguousarray(to_blocks(padded(x, (1, 2, 2, 1)), block))
    windows = sliding_axes((9, 11), attrs)
    top, bottom, left, right = border
    out = np.full((2, blocks(19, block), want.shape[2] + top + bottom,
                   want.shape[3] + left + right, block), 77, np.float32)
    steps = Plan()
    steps.add(conv_block_pool.pool_kernel(
        image.shape, windows, (1, 2), border, float32, target, average=False), "x", "out")
    run_plan(steps, target, {"x": image, "out": out})
    np.testing.assert_array_equal(from_blocks(out, 19), padded(want, border))
