"""Weights that are stored in 4, 8 or 16 bits, as several ops read them; the op `dequantized` says
what an element stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from ..ir.op import Array, Op
from ..ir.types import TensorType

SMALL = (dtypes.bfloat16, dtypes.float16, dtypes.int8, dtypes.uint8)
_SCALES = ((dtypes.float16, dtypes.float32), (dtypes.int8, dtypes.uint8, dtypes.float32))
"""Element types of scales, of zeros."""


def stored_steps(w: TensorType, k: Any) -> Any:
    """Elements that hold k steps."""
    return -(-k // 2) if w.dtype is dtypes.uint8 else k


def check_scales(
    op: Op, w: TensorType, scales: Sequence[TensorType], k: Any, group: int
) -> None:
    """Raise unless scales and zeros are of the groups that a weight (a, k, b) has."""
    if group % 32:
        raise ValueError(f"{op.name} needs a group of a multiple of 32, got {group}")
    shape = (w.shape[0], -(-k // group) if group else 1, w.shape[2])
    least = w.dtype.is_integer
    if not least <= len(scales) <= 2 * least or any(s.shape != shape for s in scales):
        needed = f"scales and at most zeros of shape {shape}" if least else "no scales"
        raise ValueError(f"{op.name} by {w} needs {needed}, got "
                         + (", ".join(map(str, scales)) or "none"))
    if any(s.dtype not in kinds for s, kinds in zip(scales, _SCALES, strict=False)):
        raise TypeError(f"{op.name} takes scales of float16 or float32 and zeros of "
                        "int8, uint8 or float32, got " + ", ".join(map(str, scales)))


def dequantize(
    w: Array, scales: Sequence[Array], k: int, group: int, dtype: np.dtype[Any]
) -> Array:
    """The elements (a, k, b) that stored ones stand for."""
    zero = 0
    if w.dtype == np.uint8:
        w = np.stack((w & 15, w >> 4), axis=2).reshape(w.shape[0], -1, w.shape[2])
        zero = 8
    given = [np.repeat(s, group or k, axis=1)[:, :k].astype(dtype) for s in scales]
    wide = w[:, :k].astype(dtype) - (given[1] if len(given) > 1 else dtype.type(zero))
    out: Array = wide * given[0] if given else wide
    return out


def small_sample(kind: DType, a: int, k: int, width: int, group: int, zeros: DType | None,
                 scales: DType) -> list[Array]:
    """A weight (a, k, width) with its scales and zeros."""
    rng = np.random.default_rng(5)
    steps = -(-k // 2) if kind is dtypes.uint8 else k
    low, high = (0, 256) if kind is dtypes.uint8 else (-128, 128)
    w = rng.integers(low, high, (a, steps, width))
    parts = [(w if kind.is_integer else w / 64).astype(kind.numpy)]
    shape = a, -(-k // group) if group else 1, width
    if kind.is_integer:
        parts.append(rng.uniform(0.01, 0.02, shape).astype(scales.numpy))
    if zeros is not None:
        parts.append(rng.integers(0, 15, shape).astype(zeros.numpy))
    return parts
