"""Images with channels last: colours, sizes, parts; and morphological and fractional pooling.

Source: the primitives of the same names in `mindspore.ops`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cellc_runtime.dtypes import float32, float64, int64

from ...core.declared import misuse
from ...core.dispatch import apply
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor, tensor_of
from ..arguments import choice, ints, need_known, positive, tensor
from ..operands import operands_of
from . import arith, creation, draws, joining, reductions, shapes, window

# --- colours --------------------------------------------------------------------------------------


def _channels(x: Any, what: str, name: str) -> Tensor:
    """Floats with a last axis of 3."""
    (t,) = operands_of(what, f"{name} float (..., 3)", x)
    return t


def rgb_to_hsv(images: Tensor) -> Tensor:
    """Hue, saturation and value, all in [0, 1], of red, green and blue along the last axis."""
    x = _channels(images, "RGBToHSV", "images")
    wide = x if x.dtype is float64 else cast_to(x, float32)
    red, green, blue = joining.unstack(wide, -1)
    value = arith.maximum(arith.maximum(red, green), blue)
    span = value - arith.minimum(arith.minimum(red, green), blue)
    flat, dark = span == 0.0, value <= 0.0
    saturation = arith.where(dark, 0.0, span / arith.where(dark, 1.0, value))
    unit = 1 / 6 / arith.where(flat, 1.0, span)
    hue = arith.where(red == value, (green - blue) * unit,
                      arith.where(green == value, (blue - red) * unit + 2 / 6,
                                  (red - green) * unit + 4 / 6))
    hue = arith.where(flat, 0.0, arith.where(hue < 0.0, hue + 1.0, hue))
    return cast_to(joining.stack([hue, saturation, value], -1), x.dtype)


def hsv_to_rgb(x: Tensor) -> Tensor:
    """Red, green and blue of hue, saturation and value along the last axis."""
    t = _channels(x, "HSVToRGB", "x")
    wide = t if t.dtype is float64 else cast_to(t, float32)
    hue, saturation, value = joining.unstack(wide, -1)
    turn = hue * 6.0
    parts = (arith.abs(turn - 3.0) - 1.0, 2.0 - arith.abs(turn - 2.0), 2.0 - arith.abs(turn - 4.0))
    grey = 1.0 - saturation
    return cast_to(joining.stack([(grey + saturation * arith.clamp(p, 0.0, 1.0)) * value
                                  for p in parts], -1), t.dtype)


def adjust_hue(image: Tensor, delta: Tensor) -> Tensor:
    """Images of red, green and blue whose hues are turned by `delta` (1 is a full turn)."""
    x = _channels(image, "AdjustHue", "image")
    hue, saturation, value = joining.unstack(rgb_to_hsv(cast_to(x, float32)), -1)
    turned = hue + tensor(delta, "AdjustHue", "delta")
    turned = turned - arith.floor(turned)
    return cast_to(hsv_to_rgb(joining.stack([turned, saturation, value], -1)), x.dtype)


def adjust_saturation(image: Tensor, scale: Tensor) -> Tensor:
    """Images of red, green and blue whose saturations are multiplied by `scale`, up to 1."""
    x = _channels(image, "AdjustSaturation", "image")
    hue, saturation, value = joining.unstack(rgb_to_hsv(cast_to(x, float32)), -1)
    more = arith.clamp(saturation * tensor(scale, "AdjustSaturation", "scale"), 0.0, 1.0)
    return cast_to(hsv_to_rgb(joining.stack([hue, more, value], -1)), x.dtype)


# --- sizes ----------------------------------------------------------------------------------------


def _images(x: Any, what: str, name: str) -> Tensor:
    (t,) = operands_of(what, f"{name} (N, H, W, C)", x)
    return t


def _along(x: Tensor, weights: np.ndarray[Any, Any], axis: int) -> Tensor:
    """A matrix (new, old) applied along an axis."""
    matrix = tensor_of(np.ascontiguousarray(weights.T, np.float32))
    moved = shapes.swapaxes(x, axis, -1)
    out: Tensor = apply("matmul", moved, shapes.broadcast_to(
        matrix, (*moved.shape[:-2], *matrix.shape)), transpose_a=False, transpose_b=False)
    return shapes.swapaxes(out, axis, -1)


def _areas(old: int, new: int, align: bool) -> np.ndarray[Any, Any]:
    """Of each of `new` equal parts of an axis of `old` pixels, the share of each pixel."""
    scale = (old - 1) / (new - 1) if align and new > 1 else old / new
    starts = np.arange(new)[:, None] * scale
    pixels = np.arange(old)[None]
    inside = np.minimum(starts + scale, pixels + 1) - np.maximum(starts, pixels)
    shares = np.maximum(inside, 0)
    # Places after the last pixel count as the last pixel.
    shares[:, -1] += np.maximum(starts[:, 0] + scale - np.maximum(starts[:, 0], old), 0)
    out: np.ndarray[Any, Any] = shares / scale
    return out


def resize_area(images: Tensor, size: Any, align_corners: bool) -> Tensor:
    """Images (N, H, W, C) of another size, each pixel the mean of what it covers: float32."""
    what = "ResizeArea"
    x, new = cast_to(_images(images, what, "images"), float32), ints(size, what, "size")
    if len(new) != 2 or min(new) < 1:
        raise misuse(what, "'size' must be 2 positive ints", size)
    for axis, n in zip((1, 2), new, strict=True):
        x = _along(x, _areas(x.shape[axis], n, bool(align_corners)), axis)
    return x


def _lanczos(radius: float) -> Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    return lambda x: np.where(np.abs(x) <= radius, np.sinc(x) * np.sinc(x / radius), 0.0)


def _cubic(b: float, c: float) -> Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """The kernels of Mitchell and Netravali (1988)."""
    def kernel(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        a = np.abs(x)
        near = (12 - 9 * b - 6 * c) * a**3 + (-18 + 12 * b + 6 * c) * a**2 + 6 - 2 * b
        far = (-b - 6 * c) * a**3 + (6 * b + 30 * c) * a**2 + (-12 * b - 48 * c) * a \
            + 8 * b + 24 * c
        return np.where(a < 1, near, np.where(a < 2, far, 0.0)) / 6

    return kernel


_KERNELS: dict[str, tuple[float, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]]] = {
    "lanczos1": (1.0, _lanczos(1.0)), "lanczos3": (3.0, _lanczos(3.0)),
    "lanczos5": (5.0, _lanczos(5.0)),
    "gaussian": (1.5, lambda x: np.where(np.abs(x) < 1.5, np.exp(-x * x / 0.5), 0.0)),
    "box": (1.0, lambda x: np.where(np.abs(x) < 0.5, 1.0, np.where(np.abs(x) == 0.5, 0.5, 0.0))),
    "triangle": (1.0, lambda x: np.maximum(1 - np.abs(x), 0.0)),
    "keyscubic": (2.0, _cubic(0.0, 0.5)), "mitchellcubic": (2.0, _cubic(1 / 3, 1 / 3)),
}
"""Radius and function of each filter."""


def _spans(old: int, new: int, scale: float, shift: float, kernel: str, antialias: bool
           ) -> np.ndarray[Any, Any]:
    """Weights (new, old) of a filter at the places that the new pixels come from."""
    radius, function = _KERNELS[kernel]
    width = max(1 / scale, 1.0) if antialias else 1.0
    places = (np.arange(new) + 0.5) / scale - shift / scale
    low = np.maximum(np.ceil(places - radius * width - 0.5), 0)
    high = np.minimum(np.floor(places + radius * width - 0.5), old - 1)
    pixels = np.arange(old)[None]
    weights = function((pixels + 0.5 - places[:, None]) / width)
    inside = (pixels >= low[:, None]) & (pixels <= high[:, None])
    weights = np.where(inside & (places[:, None] >= 0) & (places[:, None] <= old), weights, 0.0)
    total = weights.sum(1, keepdims=True)
    kept = np.abs(total) >= 1000 * np.finfo(np.float32).tiny
    out: np.ndarray[Any, Any] = np.where(kept, weights / np.where(kept, total, 1.0), 0.0)
    return out


def scale_and_translate(
    images: Tensor, size: Any, scale: Any, translation: Any, kernel_type: str, antialias: bool
) -> Tensor:
    """Images (N, H, W, C) scaled, moved and filtered: float32 (N, *size, C).

    Args:
        size, scale, translation: of rows and columns; Tensors of known elements, or pairs.
        kernel_type: "lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle",
            "keyscubic" or "mitchellcubic".
        antialias: filters are widened where an image becomes smaller.
    """
    what = "ScaleAndTranslate"
    choice(kernel_type, tuple(_KERNELS), what, "kernel_type")
    x, new = cast_to(_images(images, what, "images"), float32), ints(size, what, "size")
    factors, shifts = (need_known(t, what).tolist() if isinstance(t, Tensor) else list(t)
                       for t in (scale, translation))
    if len(new) != 2 or len(factors) != 2 or len(shifts) != 2 or min(new) < 1 or min(factors) <= 0:
        raise misuse(what, "two positive sizes and scales and two translations are needed",
                     f"{new}, {factors} and {shifts}")
    for axis, n, factor, shift in zip((1, 2), new, factors, shifts, strict=True):
        x = _along(x, _spans(x.shape[axis], n, factor, shift, kernel_type, antialias), axis)
    return x


def extract_glimpse(
    x: Tensor, size: Any, offsets: Tensor, centered: bool, normalized: bool, uniform_noise: bool,
    noise: str,
) -> Tensor:
    """Windows of images (N, H, W, C) around given places; noise where they reach outside.

    Args:
        size: height and width of a window.
        offsets: (N, 2): row and column of its centre.
        centered: places are measured from the centre of the image.
        normalized: 1 (from the centre: half) is the size of the image.
        uniform_noise: noise is uniform.
        noise: "uniform", "gaussian" or "zero".
    """
    what = "ExtractGlimpse"
    images, window = _images(x, what, "x"), ints(size, what, "size")
    choice(noise, ("uniform", "gaussian", "zero"), what, "noise")
    if uniform_noise and noise != "uniform":
        raise misuse(what, "'noise' must be 'uniform' where 'uniform_noise' is True", repr(noise))
    n, height, width, channels = images.shape
    _, places = operands_of(what, "x (n, h, w, c), offsets (n, 2)", images, offsets)
    index, inside = [], []
    for i, (length, part) in enumerate(zip((height, width), window, strict=True)):
        at = cast_to(joining.part(places, 1, i, i + 1), float32)
        at = at * float(length) if normalized else at
        if centered:
            at = arith.add(at / 2.0 if normalized else at, length / 2)
        start = arith.trunc(arith.sub(at, part / 2))
        line = cast_to(start, int64) + shapes.reshape(creation.arange(part), (1, -1))
        inside.append(arith.logical_and(line >= 0, arith.lt(line, length)))
        index.append(arith.clamp(line, 0, length - 1))
    flat = shapes.reshape(images, (-1, channels))
    base = shapes.reshape(arith.mul(creation.arange(n), height * width), (n, 1, 1))
    at = base + (shapes.expand_dims(arith.mul(index[0], width), 2) +
                 shapes.expand_dims(index[1], 1))
    read: Tensor = apply("gather", flat, at, axis=0)
    ok = arith.logical_and(shapes.expand_dims(inside[0], 2), shapes.expand_dims(inside[1], 1))
    return arith.where(shapes.expand_dims(ok, 3), read, _noise(noise, read))


def _noise(kind: str, like: Tensor) -> Tensor:
    if kind == "zero":
        return creation.zeros_like(like)
    return draws.rand_like(like) if kind == "uniform" else draws.randn_like(like)


# --- windows --------------------------------------------------------------------------------------


def dilation2d(x: Tensor, filter: Tensor, stride: Any, dilation: Any, pad_mode: str) -> Tensor:
    """The largest sum of a pixel and its place in a filter (grey-scale morphology).

    Args:
        x: (N, C, H, W).
        filter: (C, h, w).
        stride, dilation: an int, 2, or 4 of which the first two are 1.
        pad_mode: "same" or "valid", in any case.
    """
    what = "Dilation2D"
    image, taps = operands_of(what, "x (N, C, H, W), filter (C, h, w)", x, filter)
    steps, gaps = (positive(tuple(v)[-2:] if isinstance(v, (tuple, list)) else v, 2, what, n)
                   for v, n in ((stride, "stride"), (dilation, "dilation")))
    kernel = taps.shape[1:]
    if choice(pad_mode.lower(), ("same", "valid"), what, "pad_mode") == "same":
        top, bottom, left, right = window.same_pads(image.shape[2:], kernel, steps, gaps)
        low = float(arith.largest(image.dtype))
        image = shapes.pad(image, (left, right, top, bottom), "constant", -low)
    size = [(d - g * (k - 1) - 1) // s + 1
            for d, g, k, s in zip(image.shape[2:], gaps, kernel, steps, strict=True)]
    best: Tensor | None = None
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            y, z = i * gaps[0], j * gaps[1]
            part = image[:, :, y : y + (size[0] - 1) * steps[0] + 1 : steps[0],
                         z : z + (size[1] - 1) * steps[1] + 1 : steps[1]]
            moved = part + shapes.reshape(taps[:, i, j], (1, -1, 1, 1))
            best = moved if best is None else arith.maximum(best, moved)
    assert best is not None
    return best


def volume_patches(x: Tensor, kernel_size: Any, strides: Any, padding: str) -> Tensor:
    """The patches of (N, C, D, H, W) as channels: (N, d h w C, D', H', W'), places slowest.

    Args:
        kernel_size, strides: of 5 axes, the first two 1, or of 3, or one int.
        padding: "same" or "valid", in any case.
    """
    what = "ExtractVolumePatches"
    (t,) = operands_of(what, "input_x (N, C, D, H, W)", x)
    kernel, steps = (positive(tuple(v)[-3:] if isinstance(v, (tuple, list)) else v, 3, what, n)
                     for v, n in ((kernel_size, "kernel_size"), (strides, "strides")))
    if choice(padding.lower(), ("same", "valid"), what, "padding") == "same":
        pads = window.same_pads(t.shape[2:], kernel, steps, (1, 1, 1))
        t = shapes.pad(t, (*pads[4:], *pads[2:4], *pads[:2]))
    size = [(d - k) // s + 1 for d, k, s in zip(t.shape[2:], kernel, steps, strict=True)]
    if min(size) < 1:
        raise misuse(what, f"patches of {kernel} do not fit {x.shape}")
    taps = [t[:, :, i : i + (size[0] - 1) * steps[0] + 1 : steps[0],
              j : j + (size[1] - 1) * steps[1] + 1 : steps[1],
              k : k + (size[2] - 1) * steps[2] + 1 : steps[2]]
            for i in range(kernel[0]) for j in range(kernel[1]) for k in range(kernel[2])]
    return shapes.reshape(joining.stack(taps, 1), (t.shape[0], -1, *size))


# --- fractional pooling ---------------------------------------------------------------------------


def _borders(old: int, ratio: float, pseudo: bool, key: Tensor) -> tuple[Tensor, int]:
    """Borders of parts of an axis (Graham, 2014), int64 (parts + 1), and the longest part.
    `pseudo`: they follow one number u: int(alpha (i + u)); else lengths stand in random order."""
    new = int(old / ratio)
    alpha, least = old / new, old // new
    if old == least * new:
        return creation.arange(new + 1) * least, least
    if not pseudo:
        lengths = np.full(new, least)
        lengths[: old - least * new] += 1
        order: Tensor = apply("random_permutation", key, n=new)
        drawn: Tensor = apply("gather", tensor_of(lengths.astype(np.int64)), order, axis=0)
        return joining.concat(
            (creation.zeros((1,), int64), reductions.cumsum(drawn, 0)), 0), least + 1
    most = min((least + 2) / alpha - 1, (old + 1 - least) / alpha - (new - 1))
    u: Tensor = arith.mul(apply("random_uniform", key, shape=(), dtype=float64), most)
    inner = arith.floor((cast_to(creation.arange(new), float64) + u) * alpha) - \
        arith.floor(u * alpha)
    return joining.concat(
        (cast_to(inner, int64), creation.full((1,), old, dtype=int64)), 0), least + 2


def fractional_pool(
    kind: str, x: Tensor, pooling_ratio: Any, pseudo_random: bool, overlapping: bool,
    deterministic: bool, seed: draws.Seed,
) -> tuple[Tensor, Tensor, Tensor]:
    """Means or largest elements of parts of uneven size of (N, H, W, C), and the parts' borders.

    Args:
        kind: "max" or "mean".
        pooling_ratio: of the 4 axes, 1 or more; the first and last are 1.
        pseudo_random: borders follow one random number.
        overlapping: a part also has the first line of the next.
        deterministic: the same borders each time.
        seed: where they are drawn.
    """
    what = "FractionalMaxPool" if kind == "max" else "FractionalAvgPool"
    t = _images(x, what, "x")
    ratios = [float(r) for r in pooling_ratio]
    if len(ratios) < 4 or ratios[0] != 1.0 or ratios[3] != 1.0 or min(ratios) < 1.0:
        raise misuse(what, "'pooling_ratio' must be 4 numbers of 1 or more, the first and last 1",
                     pooling_ratio)
    wide = t
    counts: Tensor | None = None
    found = []
    for axis, ratio in ((1, ratios[1]), (2, ratios[2])):
        key = tensor_of(np.array([1, axis], np.uint64)) if deterministic else \
            draws.drawing_key(seed, what)
        ends, longest = _borders(t.shape[axis], ratio, bool(pseudo_random), key)
        wide, lengths = _pool_axis(kind, wide, axis, ends, longest, bool(overlapping))
        shape = tuple(-1 if i == axis else 1 for i in range(4))
        lengths = cast_to(shapes.reshape(lengths, shape), wide.dtype)
        counts = lengths if counts is None else arith.mul(counts, lengths)
        found.append(ends)
    if kind == "mean":
        wide = arith.div(wide, counts, rounding_mode=None if wide.dtype.is_float else "trunc")
    return cast_to(wide, t.dtype), found[0], found[1]


def _pool_axis(kind: str, x: Tensor, axis: int, ends: Tensor, longest: int, overlapping: bool
               ) -> tuple[Tensor, Tensor]:
    """Sums or largest elements of parts along an axis, through the places of their elements; and
    how many these are."""
    parts, old = ends.shape[0] - 1, x.shape[axis]
    start, stop = joining.part(ends, 0, 0, parts), joining.part(ends, 0, 1, parts + 1)
    stop = arith.minimum(stop + 1, old) if overlapping else stop
    reach = creation.arange(longest + int(overlapping))
    places = shapes.expand_dims(start, 1) + reach
    inside = places < shapes.expand_dims(stop, 1)
    places = arith.where(inside, places, shapes.expand_dims(start, 1))
    read: Tensor = apply("gather", x, places, axis=axis)
    if kind == "max":
        return reductions.amax(read, axis + 1), stop - start
    shape = (1,) * axis + inside.shape + (1,) * (x.ndim - axis - 1)
    kept = arith.where(shapes.reshape(inside, shape), read, creation.zeros_like(read))
    return reductions.sum(kept, axis + 1, dtype=x.dtype), stop - start
