"""Deformable convolutions (Dai et al., 2017; with modulation: Zhu et al., 2019).

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

from typing import Any

from ...core.declared import misuse
from ...tensors.tensor import Tensor
from ..arguments import ints, tensor
from . import activation, arith, creation, joining, sampling, shapes, window


def _sizes(given: Any, count: int, what: str, name: str) -> tuple[int, ...]:
    found = ints(given, what, name)
    if len(found) != count:
        raise misuse(what, f"'{name}' must hold {count} ints", given)
    return found


def _spatial(given: Any, what: str, name: str) -> tuple[int, int]:
    """Rows and columns of 4 ints, of which the first two are 1."""
    found = _sizes(given, 4, what, name)
    if found[:2] != (1, 1):
        raise misuse(what, f"the first two ints of '{name}' must be 1", given)
    return found[2], found[3]


def deformable_offsets(
    x: Tensor, offsets: Tensor, strides: Any, pads: Any, ksize: Any,
    dilations: Any = (1, 1, 1, 1), data_format: str = "NCHW", deformable_groups: int = 1,
    modulated: bool = True,
) -> Tensor:
    """Return the elements that a convolution's windows read where each of their places is moved.

    Args:
        x: floats (N, C, H, W).
        offsets: (N, 3 groups h w, H', W'): by how much columns are moved, by how much rows, and
            what the pixels read there are multiplied by.
        strides, dilations: 4 ints, the first two 1.
        pads: rows above and below, columns left and right.
        ksize: rows and columns of a window.
        deformable_groups: groups of channels with offsets of their own.
        modulated: must be True.

    Returns:
        (N, C, H' h, W' w): adjacent windows.
    """
    what = "DeformableOffsets"
    image, moves = tensor(x, what, "x"), tensor(offsets, what, "offsets")
    steps, gaps = _spatial(strides, what, "strides"), _spatial(dilations, what, "dilations")
    borders, kernel = _sizes(pads, 4, what, "pads"), _sizes(ksize, 2, what, "ksize")
    if modulated is not True or data_format != "NCHW":
        raise misuse(what, "'modulated' must be True and 'data_format' 'NCHW'",
                     f"{modulated} and {data_format!r}")
    n, channels, *size = image.shape
    out = [(d + borders[2 * i] + borders[2 * i + 1] - gaps[i] * (kernel[i] - 1) - 1) // steps[i] + 1
           for i, d in enumerate(size)]
    groups = deformable_groups
    if moves.shape != (n, 3 * groups * kernel[0] * kernel[1], *out) or channels % groups:
        raise misuse(what, "'offsets' must have shape "
                     f"{(n, 3 * groups * kernel[0] * kernel[1], *out)} and channels be a multiple "
                     f"of {groups} groups", f"{moves.shape} and {channels}")
    parts = shapes.reshape(moves, (n, 3, groups, *kernel, *out))
    across, down, weight = joining.unstack(parts, 1)
    places = []
    for i, moved in enumerate((down, across)):
        line = _line(out[i], 3 + i, image) * float(steps[i]) + _line(kernel[i], 1 + i, image) * \
            float(gaps[i])
        places.append(arith.add(line - float(borders[2 * i]), moved))
    read = _bilinear(image, places, groups) * shapes.expand_dims(weight, 2)
    # (N, groups, C / groups, h, w, H', W') to (N, C, H', h, W', w)
    whole = shapes.transpose(read, (0, 1, 2, 5, 3, 6, 4))
    return shapes.reshape(whole, (n, channels, out[0] * kernel[0], out[1] * kernel[1]))


def _line(count: int, axis: int, like: Tensor) -> Tensor:
    """0, 1, ... along one of the axes (groups, h, w, H', W')."""
    shape = tuple(count if i == axis else 1 for i in range(5))
    return shapes.reshape(creation.arange(count, dtype=like.dtype), shape)


def _bilinear(image: Tensor, places: list[Tensor], groups: int) -> Tensor:
    """An image read at rows and columns (N, groups, ...), 0 outside: (N, groups, C / groups, ...).
    """
    n, channels, *size = image.shape
    parts = shapes.reshape(image, (n * groups, channels // groups, *size))
    read = sampling.blended(parts, [shapes.reshape(p, (-1, *p.shape[2:])) for p in places])
    return shapes.reshape(read, (n, groups, *read.shape[1:]))


def deformable_conv2d(
    x: Tensor, weight: Tensor, offsets: Tensor, kernel_size: Any, strides: Any, padding: Any,
    bias: Tensor | None = None, dilations: Any = (1, 1, 1, 1), groups: int = 1,
    deformable_groups: int = 1, modulated: bool = True,
) -> Tensor:
    """A convolution whose windows read pixels at places that are moved, and weighted.

    Args:
        x: floats (N, C, H, W).
        weight: (O, C / groups, h, w).
        offsets: see `ops.DeformableOffsets`: (N, 3 deformable_groups h w, H', W').
        kernel_size: h and w.
        strides, dilations: 4 ints, the first two 1.
        padding: rows above and below, columns left and right.
        bias: (O), or None.
        groups: groups of channels convolved apart.
        deformable_groups: groups of channels with offsets of their own.
        modulated: must be True.
    """
    moved = deformable_offsets(x, offsets, strides, padding, kernel_size, dilations, "NCHW",
                               deformable_groups, modulated)
    kernel = _sizes(kernel_size, 2, "deformable_conv2d", "kernel_size")
    out: Tensor = window.conv2d(moved, weight, None, kernel, "valid", 0, 1, groups)
    return out if bias is None else activation.bias_add(out, bias)
