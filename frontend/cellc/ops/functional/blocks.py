"""Blocks of images moved between axes: space to batch and back, channels shuffled.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import math
from typing import Any

from ...core.declared import misuse
from ...core.dispatch import apply
from ...core.native import native
from ...tensors.tensor import Tensor
from ..arguments import integer, pairs, positive, tensor
from . import joining, shapes


@native
def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    """The channels (axis 1) of `groups` groups interleaved: channels 0 1 2 3 of two groups become
    0 2 1 3. The shape stays; `groups` must divide the channels."""
    t, g = tensor(x, "channel_shuffle", "x"), integer(groups, "channel_shuffle", "groups")
    if t.ndim < 3 or g < 1 or t.shape[1] % g:
        raise misuse("channel_shuffle", f"channels of {t.shape} do not divide into {g} groups")
    parts = shapes.reshape(t, (t.shape[0], g, t.shape[1] // g, *t.shape[2:]))
    return shapes.reshape(shapes.swapaxes(parts, 1, 2), t.shape)


def _blocks(
    what: str, size: Any, names: tuple[str, str], given: Any, rank: int
) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    cut = pairs(given, what, names[1])
    size = positive(size, len(cut), what, names[0])
    if not 0 < len(cut) < rank or min(map(min, cut)) < 0:
        raise misuse(what, f"block sizes {size} and '{names[1]}' {cut} (none negative) do not fit "
                     f"{rank} axes")
    return size, cut


@native
def space_to_batch_nd(input_x: Tensor, block_size: Any, paddings: Any) -> Tensor:
    """Blocks of the last axes moved into the batch.

    Args:
        block_size: the length of a block along each of the last axes.
        paddings: zeros before and after each of them.
    """
    x = tensor(input_x, "space_to_batch_nd", "input_x")
    size, pads = _blocks("space_to_batch_nd", block_size, ("block_size", "paddings"), paddings,
                         x.ndim)
    lead = x.ndim - len(size)
    low = (0,) * lead + tuple(int(p[0]) for p in pads)
    high = (0,) * lead + tuple(int(p[1]) for p in pads)
    x = apply("pad", x, low=low, high=high, value=0)
    if any(d % s for d, s in zip(x.shape[lead:], size, strict=True)):
        raise misuse("space_to_batch_nd", f"{x.shape} does not divide into blocks {size}")
    split = x.shape[:lead] + tuple(
        v for d, s in zip(x.shape[lead:], size, strict=True) for v in (d // s, s))
    inner = tuple(lead + 2 * i + 1 for i in range(len(size)))
    outer = tuple(lead + 2 * i for i in range(len(size)))
    y = shapes.transpose(shapes.reshape(x, split), (*inner, *range(lead), *outer))
    return shapes.reshape(y, (x.shape[0] * math.prod(size), *x.shape[1:lead],
                              *(d // s for d, s in zip(x.shape[lead:], size, strict=True))))


@native
def batch_to_space_nd(input_x: Tensor, block_shape: Any, crops: Any) -> Tensor:
    """Blocks of the batch put back into the last axes.

    Args:
        block_shape: the length of a block along each of the last axes.
        crops: what to cut off before and after each of them.
    """
    x = tensor(input_x, "batch_to_space_nd", "input_x")
    size, cut = _blocks("batch_to_space_nd", block_shape, ("block_shape", "crops"), crops, x.ndim)
    lead, k = x.ndim - len(size), len(size)
    if x.shape[0] % math.prod(size):
        raise misuse("batch_to_space_nd",
                     f"a batch of {x.shape[0]} does not divide into blocks {size}")
    y = shapes.reshape(x, (*size, x.shape[0] // math.prod(size), *x.shape[1:]))
    order = [*range(k, k + lead)]
    for i in range(k):
        order += [k + lead + i, i]
    spread = shapes.reshape(shapes.transpose(y, tuple(order)), (
        x.shape[0] // math.prod(size), *x.shape[1:lead],
        *(d * s for d, s in zip(x.shape[lead:], size, strict=True))))
    for i, (before, after) in enumerate(cut):
        axis = lead + i
        spread = joining.part(spread, axis, int(before), spread.shape[axis] - int(after))
    return spread
