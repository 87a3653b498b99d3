"""Resized and sampled images, and pools in `ceil_mode`, of any height and width: the second size is
the last that is compiled, and the bits are PyNative's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import cellc as ms
from cellc import nn, ops
from cellc_compiler.ir.dims import SymbolInfo, deciding, evaluate
from cellc_compiler.ir.shapes import Shapes
from cellc_compiler.ops.pool import window_count

from .test_open_pictures import floats
from .test_open_sizes import assert_same, eagerly, traces

pytestmark = pytest.mark.usefixtures("graph_mode")
Fn = Callable[[Any], Any]
SIZES = [(2, 24, 20), (3, 17, 33), (2, 40, 9), (4, 21, 21)]


def resized(mode: str, rows: Fn, columns: Fn, **given: Any) -> Fn:
    return lambda x: ops.interpolate(
        x, size=(rows(x.shape[2]), columns(x.shape[3])), mode=mode, **given)


def doubled(n: int) -> int:
    return 2 * n


def gradient(fn: Fn) -> Fn:
    return lambda x: ms.grad(lambda y: ops.square(fn(y)).sum())(x)


def points(x: Any) -> Any:
    return x[:, :2].transpose(0, 2, 3, 1)


CASES: dict[str, Fn] = {
    "nearest": resized("nearest", doubled, doubled),
    "nearest to a known size": resized("nearest", lambda _: 20, lambda _: 7),
    "nearest, exact": resized("nearest-exact", lambda n: n // 2 + 1, doubled),
    "nearest by a factor": lambda x: ops.interpolate(
        x, scale_factor=1.5, recompute_scale_factor=True),
    "bilinear": resized("bilinear", doubled, lambda n: n // 2),
    "bilinear, corners kept": resized("bilinear", doubled, lambda n: n + 3, align_corners=True),
    "bilinear to a known size": resized("bilinear", lambda _: 20, lambda _: 7),
    "bicubic": resized("bicubic", doubled, lambda n: n // 2),
    "bicubic, corners kept": resized("bicubic", doubled, lambda n: n + 3, align_corners=True),
    "linear": lambda x: ops.interpolate(x[:, 0], size=2 * x.shape[3], mode="linear"),
    "area": resized("area", lambda n: n // 2, lambda n: n // 3),
    "as another image": lambda x: ops.interpolate(x[:, :, ::2, ::2], x.shape[2:], mode="bilinear"),
    "PyTorch's cubic": lambda x: ms.mint.nn.functional.interpolate(
        x, size=(2 * x.shape[2], 2 * x.shape[3]), mode="bicubic"),
    "layer": nn.Upsample(scale_factor=2.0, mode="bilinear", recompute_scale_factor=True),
    "nearest, gradient": gradient(resized("nearest", doubled, doubled)),
    "bilinear, gradient": gradient(resized("bilinear", doubled, lambda n: n // 2)),
    "bicubic, gradient": gradient(resized("bicubic", doubled, doubled)),
    "sampled": lambda x: ops.grid_sample(x, points(x)),
    "sampled to the border": lambda x: ops.grid_sample(x, points(x), padding_mode="border"),
    "sampled in reflections": lambda x: ops.grid_sample(
        x, points(x), padding_mode="reflection", align_corners=True),
    "sampled, gradient": gradient(
        lambda x: ops.grid_sample(x, points(x), padding_mode="border")),
    "clamped by sizes": lambda x: ops.clamp(x, -8.0 / x.shape[2], x.shape[3] * 0.05),
    "clamped by sizes, gradient": gradient(lambda x: ops.clamp(x, -8.0 / x.shape[2], 1.0)),
    "max pool": nn.MaxPool2d(3, 2, pad_mode="pad", padding=1, ceil_mode=True),
    "max pool that skips": nn.MaxPool2d(2, 3, ceil_mode=True, pad_mode="pad", padding=1),
    "average": nn.AvgPool2d(3, 2, pad_mode="pad", ceil_mode=True),
    "average, padded": nn.AvgPool2d(3, 2, pad_mode="pad", padding=1, ceil_mode=True),
    "average, padding left out": nn.AvgPool2d(
        3, 2, pad_mode="pad", padding=1, ceil_mode=True, count_include_pad=False),
    "max pool, gradient": gradient(
        nn.MaxPool2d(3, 2, pad_mode="pad", padding=1, ceil_mode=True)),
    "average, gradient": gradient(
        nn.AvgPool2d(3, 2, pad_mode="pad", padding=1, ceil_mode=True)),
}


@pytest.mark.parametrize("name", CASES)
def test_one_program(name: str) -> None:
    fn = CASES[name]
    compiled = ms.jit(lambda x: fn(x))
    for n, height, width in SIZES:
        x = ms.Tensor(floats(n, 4, height, width))
        assert_same(compiled(x), eagerly(lambda x: fn(x), x))
    (once,) = traces(compiled.table)
    assert not once.per_size, once.per_size
    assert len(once.open) == 1


def test_windows_in_ceil_mode() -> None:
    """The number of windows by a formula is that of each size."""
    for kernel in range(1, 6):
        for stride in range(1, 7):
            for pads in [(0, 0), (1, 0), (0, 1), (1, 1), (2, 2)]:
                if max(pads) >= kernel:
                    continue
                shapes = Shapes(general=True)
                with deciding(shapes):
                    n = shapes.new("n", 50, SymbolInfo(kernel))
                    formula = window_count(n, kernel, stride, 1, pads, True)
                for size in range(kernel, 60):
                    known = window_count(size, kernel, stride, 1, pads, True)
                    assert evaluate(formula, {"n": size}) == known, (kernel, stride, pads, size)


def test_a_factor_that_rounds_fixes_the_size() -> None:
    """A third of a size in float64 may be below the whole number that it is."""
    fn = ms.jit(lambda x: ops.interpolate(x, scale_factor=1 / 3, recompute_scale_factor=True))
    for n in (9, 12, 33):
        x = ms.Tensor(floats(2, 3, n, n))
        assert_same(fn(x), eagerly(fn, x))
