"""Pooling kernels against plain Python loops, bit for bit where the order is the contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cellc_compiler.backends.cpu.kernels.pool import (
    AdaptiveSpec,
    PoolSpec,
    avg_pool,
    avg_pool_backward,
    max_pool,
    max_pool_backward,
)
from cellc_runtime.dtypes import DType, bfloat16, float16, float32, float64
from cellc_runtime.target import Target, host_targets

from .plans import ALL_TARGETS, Array, emits, run_plan, x86_targets

TARGETS = pytest.mark.parametrize("target", x86_targets(), ids=lambda t: t.name)


def spec(
    n: int, c: int, hw: tuple[int, int], k: tuple[int, int], s: tuple[int, int],
    d: tuple[int, int] = (1, 1), p: tuple[int, int, int, int] = (0, 0, 0, 0),
    ceil: bool = False, dtype: DType = float32,
) -> PoolSpec:
    return PoolSpec(n, c, *hw, k, s, d, p, ceil, dtype)


SPECS: dict[str, PoolSpec] = {
    "2x2 s2": spec(2, 3, (8, 40), (2, 2), (2, 2)),
    "2x2 s2 odd": spec(2, 3, (9, 39), (2, 2), (2, 2)),
    "3x3 s2": spec(1, 3, (17, 37), (3, 3), (2, 2), p=(1, 1, 1, 1)),
    "3x3 s2 ceil": spec(1, 3, (18, 36), (3, 3), (2, 2), p=(1, 1, 1, 1), ceil=True),
    "3x3 s1": spec(1, 2, (11, 21), (3, 3), (1, 1), p=(1, 1, 1, 1)),
    "3x2 s31": spec(1, 2, (13, 19), (3, 2), (3, 1), p=(1, 0, 0, 1)),
    "dilated": spec(1, 2, (15, 33), (3, 3), (1, 2), d=(2, 3), p=(1, 1, 1, 1)),
    "dilated s5": spec(1, 2, (15, 33), (3, 3), (5, 5), d=(2, 3), p=(1, 1, 1, 1)),
    "s4 ceil": spec(1, 2, (15, 34), (3, 4), (4, 4), p=(0, 1, 2, 1), ceil=True),
    "1d": spec(3, 4, (1, 50), (1, 3), (1, 2), p=(0, 0, 1, 1)),
    "wide kernel": spec(1, 2, (12, 30), (2, 11), (1, 2), p=(0, 0, 5, 5)),
    "ceil pad": spec(1, 1, (7, 7), (2, 2), (3, 3), p=(1, 1, 1, 1), ceil=True),
    "whole": spec(2, 5, (7, 7), (7, 7), (7, 7)),
    "f64": spec(1, 2, (9, 21), (3, 3), (2, 2), p=(1, 1, 1, 1), dtype=float64),
    "f16": spec(1, 2, (9, 21), (3, 3), (2, 2), p=(1, 1, 1, 1), dtype=float16),
    "bf16": spec(2, 2, (9, 21), (3, 3), (2, 2), p=(1, 1, 1, 1), dtype=bfloat16),
    "bf16 s5": spec(2, 2, (12, 21), (3, 3), (5, 5), dtype=bfloat16),
    "bf16 whole": spec(2, 3, (7, 7), (7, 7), (1, 1), dtype=bfloat16),
}
ADAPTIVE: dict[str, AdaptiveSpec] = {
    "7 to 3": AdaptiveSpec(2, 3, 7, 9, 3, 4, float32),
    "global": AdaptiveSpec(3, 5, 7, 7, 1, 1, float32),
    "same": AdaptiveSpec(1, 2, 5, 6, 5, 6, float32),
    "up": AdaptiveSpec(1, 2, 3, 3, 5, 7, float32),
    "f64": AdaptiveSpec(1, 2, 10, 11, 4, 3, float64),
    "bf16": AdaptiveSpec(2, 2, 10, 11, 4, 3, bfloat16),
    "f16 global": AdaptiveSpec(2, 3, 9, 9, 1, 1, float16),
}
Spec = PoolSpec | AdaptiveSpec
EVERY = {f"pool {k}": v for k, v in SPECS.items()} | {
    f"adaptive {k}": v for k, v in ADAPTIVE.items()}


# --- the references: definitions of their own, not the kernels' tables -------------------------


def _axis(s: Spec, axis: int) -> list[list[int]]:
    """The input positions inside the image of every window along an axis."""
    size = (s.h, s.w)[axis]
    if isinstance(s, AdaptiveSpec):
        out = (s.oh, s.ow)[axis]
        return [list(range(size * i // out, -(-size * (i + 1) // out))) for i in range(out)]
    before, after = s.pads[2 * axis:2 * axis + 2]
    k, stride, d = s.kernel[axis], s.stride[axis], s.dilation[axis]
    windows, at = [], -before
    while True:
        taps = [at + i * d for i in range(k)]
        fits = taps[-1] < size + after
        if not fits and not (s.ceil_mode and at < size and at - stride + (k - 1) * d
                             < size + after - 1):
            return windows
        windows.append([t for t in taps if 0 <= t < size])
        at += stride


def _padded_counts(s: PoolSpec, axis: int) -> list[int]:
    """Taps of every window inside the padded input."""
    size, (before, after) = (s.h, s.w)[axis], s.pads[2 * axis:2 * axis + 2]
    return [
        sum(o * s.stride[axis] - before + i * s.dilation[axis] < size + after
            for i in range(s.kernel[axis]))
        for o in range(len(_axis(s, axis)))
    ]


def _wide(s: Spec) -> Any:
    return np.float64 if s.dtype is float64 else np.float32


def _max(s: Spec, x: Array) -> tuple[Array, Array]:
    rows, cols = _axis(s, 0), _axis(s, 1)
    out = np.zeros((s.n, s.c, len(rows), len(cols)), s.dtype.numpy)
    index = np.zeros(out.shape, np.int64)
    for n, c, i, j in np.ndindex(*out.shape):
        best: Any = None
        for y in rows[i]:
            for z in cols[j]:
                v = x[n, c, y, z]
                if best is None or (not np.isnan(best) and (v > best or np.isnan(v))):
                    best, index[n, c, i, j] = v, y * s.w + z
        out[n, c, i, j] = best
    return out, index


def _scatter(s: Spec, index: Array, dy: Array) -> Array:
    dx = np.zeros((s.n, s.c, s.h * s.w), _wide(s))
    for n, c, i, j in np.ndindex(*dy.shape):
        dx[n, c, index[n, c, i, j]] += dy[n, c, i, j].astype(dx.dtype)
    return dx.reshape(s.n, s.c, s.h, s.w).astype(s.dtype.numpy)


def _counts(s: Spec, include_pad: bool, divisor: int | None) -> Array:
    if divisor is not None:
        return np.full((len(_axis(s, 0)), len(_axis(s, 1))), divisor)
    axes = [
        _padded_counts(s, a) if include_pad and isinstance(s, PoolSpec)
        else [len(w) for w in _axis(s, a)] for a in (0, 1)
    ]
    return np.outer(*axes)


def _avg(s: Spec, x: Array, counts: Array) -> Array:
    rows, cols = _axis(s, 0), _axis(s, 1)
    wide = _wide(s)
    total = np.zeros((s.n, s.c, len(rows), len(cols)), wide)
    for i, j in np.ndindex(len(rows), len(cols)):
        for y in rows[i]:
            for z in cols[j]:
                total[:, :, i, j] += x[:, :, y, z].astype(wide)
    return (total / counts.astype(wide)).astype(s.dtype.numpy)


def _avg_back(s: Spec, dy: Array, counts: Array) -> Array:
    rows, cols = _axis(s, 0), _axis(s, 1)
    wide = _wide(s)
    dx = np.zeros((s.n, s.c, s.h, s.w), wide)
    for i, j in np.ndindex(len(rows), len(cols)):
        g = dy[:, :, i, j].astype(wide) / wide(counts[i, j])
        for y in rows[i]:
            for z in cols[j]:
                dx[:, :, y, z] += g
    return dx.astype(s.dtype.numpy)


def _random(s: Spec, *shape: int) -> Array:
    rng = np.random.default_rng(3)
    # Few distinct values: ties are common.
    values = rng.integers(-6, 7, shape).astype(np.float32) + np.float32(0.3)
    return values.astype(s.dtype.numpy)


def _shapes(s: Spec) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return (s.n, s.c, s.h, s.w), (s.n, s.c, len(_axis(s, 0)), len(_axis(s, 1)))


def _same_bits(a: Array, b: Array) -> None:
    np.testing.assert_array_equal(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}"))


# --- maximum ---------------------------------------------------------------------------------


@TARGETS
@pytest.mark.parametrize("name", EVERY)
def test_max(name: str, target: Target) -> None:
    s = EVERY[name]
    shape, out_shape = _shapes(s)
    assert (s.oh, s.ow) == out_shape[2:]
    x = _random(s, *shape)
    x.ravel()[::17] = np.nan
    x.ravel()[5::29] = -np.inf
    if isinstance(s, PoolSpec):
        x[0, 0, :4] = -np.inf
    expected, index = _max(s, x)
    wide = _wide(s)
    out, indices = np.zeros(out_shape, s.dtype.numpy), np.zeros(out_shape, np.int64)
    for at_end in (True, False):
        run_plan(max_pool(s, target), target, {"x": x, "out": out}, at_end)
        np.testing.assert_array_equal(out.astype(wide), expected.astype(wide))
        out[...] = 9
        run_plan(max_pool(s, target, indices=True), target,
                 {"x": x, "out": out, "indices": indices}, at_end)
        np.testing.assert_array_equal(out.astype(wide), expected.astype(wide))
        np.testing.assert_array_equal(indices, index)


@TARGETS
@pytest.mark.parametrize("name", EVERY)
def test_max_backward(name: str, target: Target) -> None:
    s = EVERY[name]
    shape, out_shape = _shapes(s)
    x, dy = _random(s, *shape), _random(s, *out_shape)
    _, index = _max(s, x)
    for at_end in (True, False):
        out = np.full(shape, 9, s.dtype.numpy)
        run_plan(max_pool_backward(s, target), target, {"x": x, "dy": dy, "out": out}, at_end)
        _same_bits(out, _scatter(s, index, dy))


# --- average ---------------------------------------------------------------------------------

_DIVISORS = [(True, None), (False, None), (True, 5)]


def _average_plans(s: Spec, target: Target, include: bool, divisor: int | None) -> Any:
    return (avg_pool(s, target, include, divisor),
            avg_pool_backward(s, target, include, divisor))


@TARGETS
@pytest.mark.parametrize(("include", "divisor"), _DIVISORS)
@pytest.mark.parametrize("name", EVERY)
def test_avg(name: str, include: bool, divisor: int | None, target: Target) -> None:
    s = EVERY[name]
    if isinstance(s, AdaptiveSpec) and (not include or divisor):
        include, divisor = True, None
    shape, out_shape = _shapes(s)
    x, dy = _random(s, *shape), _random(s, *out_shape)
    counts = _counts(s, include, divisor)
    forward, backward = _average_plans(s, target, include, divisor)
    whole = out_shape[2:] == (1, 1)
    for at_end in (True, False):
        out = np.full(out_shape, 9, s.dtype.numpy)
        run_plan(forward, target, {"x": x, "out": out}, at_end)
        expected = _avg(s, x, counts)
        if whole:
            np.testing.assert_allclose(out.astype(np.float64), expected.astype(np.float64),
                                       rtol=1e-5 if s.dtype.itemsize > 2 else 1e-2, atol=1e-5)
        else:
            _same_bits(out, expected)
        dx = np.full(shape, 9, s.dtype.numpy)
        run_plan(backward, target, {"dy": dy, "out": dx}, at_end)
        _same_bits(dx, _avg_back(s, dy, counts))


@pytest.mark.parametrize("target", host_targets(), ids=lambda t: t.name)
def test_global_average_order(target: Target) -> None:
    """Chain i sums elements i, i + 32, ...; halves are folded."""
    s = AdaptiveSpec(1, 1, 9, 11, 1, 1, float32)
    x = np.random.default_rng(0).standard_normal((1, 1, 9, 11)).astype(np.float32)
    out = np.zeros((1, 1, 1, 1), np.float32)
    run_plan(avg_pool(s, target), target, {"x": x, "out": out})
    acc = np.zeros(32, np.float32)
    for row in np.concatenate([x.ravel(), np.zeros(-99 % 32, np.float32)]).reshape(-1, 32):
        acc = acc + row
    while acc.size > 1:
        acc = acc[:acc.size // 2] + acc[acc.size // 2:]
    assert out.item() == acc.item() / np.float32(99)


# --- the plan itself -------------------------------------------------------------------------


@pytest.mark.parametrize("target", ALL_TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("name", ["3x3 s2", "bf16", "f16", "f64", "dilated s5", "whole"])
def test_objects_emit(name: str, target: Target) -> None:
    s = SPECS[name]
    emits(max_pool(s, target, True), target)
    emits(max_pool_backward(s, target), target)
    emits(avg_pool(s, target, False), target)
    emits(avg_pool_backward(s, target), target)
