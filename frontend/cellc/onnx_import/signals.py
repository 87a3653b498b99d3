"""Fourier transforms, tapers and mel filters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cellc_runtime import dtypes

from ..core.dispatch import apply_one
from ..ops.functional import fourier, shapes
from ..tensors.tensor import Tensor, tensor_of
from .shaping import reshaped, sliced
from .table import Array, Call, Known, axis_of, counted, rule, sizes, to, wide

A = apply_one


def _complex(x: Tensor) -> Tensor:
    """The last axis, of one part or two, as complex numbers."""
    real = shapes.squeeze(sliced(x, x.ndim - 1, 0, 1), -1)
    imag = shapes.squeeze(sliced(x, x.ndim - 1, 1, 2), -1) if x.shape[-1] == 2 else \
        A("mul", real, Known(np.zeros((), real.dtype.numpy)).tensor())
    return A("make_complex", real, imag)


def _parts(z: Tensor) -> Tensor:
    """Complex numbers as a last axis of two parts."""
    return A("concat", shapes.expand_dims(A("real", z), -1), shapes.expand_dims(A("imag", z), -1),
             axis=z.ndim)


@rule("DFT", known=(1, 2))
def _dft(c: Call, x: Tensor, length: Array | None = None, axis: Array | None = None) -> Tensor:
    where = c.whole("axis", 1) if c.opset < 20 else -2 if axis is None else sizes(axis)[0]
    a, inverse = axis_of(where, x.ndim), c.flag("inverse")
    onesided, dtype = c.flag("onesided"), x.dtype
    half = onesided and inverse
    n = sizes(length)[0] if length is not None else \
        2 * (x.shape[a] - 1) if half else x.shape[a]
    counted(n, "the length of the transform")
    z = _complex(wide(x))
    if half:
        return to(shapes.expand_dims(fourier.irfft(z, n, a), -1), dtype)
    y = fourier.ifft(z, n, a) if inverse else fourier.fft(z, n, a)
    if onesided:
        y = sliced(y, a, 0, n // 2 + 1)
    return to(_parts(y), dtype)


@rule("STFT", known=(1, 3))
def _stft(c: Call, x: Tensor, step: Array, window: Tensor | None = None,
          length: Array | None = None) -> Tensor:
    hop = sizes(step)[0]
    signal = x if x.ndim == 3 else shapes.expand_dims(x, -1)
    size = sizes(length)[0] if length is not None else \
        window.shape[0] if window is not None else signal.shape[1]
    count = 1 + (signal.shape[1] - size) // hop
    counted(count * size, "the elements of all frames")
    places = np.arange(count)[:, None] * hop + np.arange(size)
    frames = A("gather", signal, tensor_of(places), axis=1)
    if window is not None:
        frames = A("mul", frames, reshaped(window, (1, 1, size, 1)))
    y = fourier.fft(_complex(frames), size, 2)
    if c.flag("onesided", 1):
        y = sliced(y, 2, 0, size // 2 + 1)
    return _parts(y)


_TAPERS = {"HannWindow": (0.5, 0.5, 0.0), "HammingWindow": (25 / 46, 21 / 46, 0.0),
           "BlackmanWindow": (0.42, 0.5, 0.08)}


@rule(*_TAPERS, known=(0,))
def _taper(c: Call, size: Array) -> Tensor:
    n = counted(int(sizes(size)[0]), "the length of the window")
    turn = np.arange(n) * (2 * math.pi / max(n if c.flag("periodic", 1) else n - 1, 1))
    a, b, d = _TAPERS[c.node.op]
    line = a - b * np.cos(turn) + d * np.cos(2 * turn)
    return _known(line, c.dtype("output_datatype", dtypes.float32))


def _known(array: Any, dtype: Any) -> Tensor:
    return Known(np.asarray(array).astype(dtype.numpy)).tensor()


@rule("MelWeightMatrix", known=(-1,))
def _mel(c: Call, bins: Array, length: Array, rate: Array, low: Array, high: Array) -> Tensor:
    """Triangles between places that are evenly spaced in mels."""
    count, n, hertz = (int(sizes(v)[0]) for v in (bins, length, rate))
    counted(count * n, "the elements of the filters")
    edges = [2595 * math.log10(1 + float(v.reshape(())) / 700) for v in (low, high)]
    mels = edges[0] + np.arange(count + 2) * (edges[1] - edges[0]) / (count + 2)
    places = ((n + 1) * (700 * (10 ** (mels / 2595) - 1)) // hertz).astype(int)
    if count < 1 or places.min(initial=0) < 0 or places.max(initial=0) > n // 2:
        raise c.refuse("its frequencies lie outside of the spectrum")
    out = np.zeros((n // 2 + 1, count))
    for i in range(count):
        a, b, z = places[i : i + 3]
        out[b, i] = 1.0
        if b > a:
            out[a : b + 1, i] = (np.arange(a, b + 1) - a) / (b - a)
        if z > b:
            out[b:z, i] = (z - np.arange(b, z)) / (z - b)
    return _known(out, c.dtype("output_datatype", dtypes.float32))
