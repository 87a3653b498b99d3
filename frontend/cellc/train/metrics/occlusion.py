"""Occlusion sensitivity: how a prediction changes when parts of the input are covered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from ...core.declared import instance, integer
from ...nn.cell import Cell
from ...tensors.tensor import Tensor
from .metric import Array, Kept, as_array, counted, rearrange_inputs, updated


class OcclusionSensitivity(Kept):
    """The prediction of a class with each part of an image covered, one after the other.

    Args:
        pad_val: what covers.
        margin: the cover is from the place minus this, up to the place plus this, for all axes or
            each.
        n_batch: how many covered images the network gets at once.
        b_box: `[min1, max1, min2, max2, ...]` of the area, for all axes but the batch.

    Raises:
        TypeError, ValueError, RuntimeError: an argument is wrong; `update` got no network, an
            image or label that does not fit; `eval` without `update`.

    Reference: Zeiler and Fergus, 2014.
    """

    pad_val: Annotated[float, instance(float)] = 0.0
    margin: int | Sequence[int] = 2
    n_batch: Annotated[int, integer(1).always(ValueError)] = 128
    b_box: Sequence[int] | None = None

    def clear(self) -> None:
        """Forget the result."""
        self._result: Array | None = None

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take a network, an image with a batch axis of 1, and the label."""
        network, *rest = counted("OcclusionSensitivity", inputs, 3, "network, image, label")
        instance(Cell)(network, "OcclusionSensitivity.update", "network")
        image, label = (as_array(x, "OcclusionSensitivity") for x in rest)
        if image.ndim < 2 or image.shape[0] != 1:
            raise RuntimeError("For 'OcclusionSensitivity.update', the image must have a batch "
                               f"axis of length 1, but its shape is {image.shape}.")
        if label.size != 1:
            raise RuntimeError("For 'OcclusionSensitivity.update', it needs one label, but got "
                               f"{label.size}.")
        self._result = self._covered(network, image, int(label.reshape(())))

    def _covered(self, network: Cell, image: Array, label: int) -> Array:
        area = _area(image, self.b_box)
        margins = (self.margin,) * len(area) if isinstance(self.margin, int) else self.margin
        if len(margins) != len(area):
            raise ValueError("For 'OcclusionSensitivity', 'margin' must be one int, or one for "
                             f"each of {len(area)} axes, but got {self.margin}.")
        shape = tuple(b - a for a, b in area)
        base = _scores(network, image)[0, label]
        result = np.empty(int(np.prod(shape)), image.dtype)
        for start in range(0, result.size, self.n_batch):
            many = range(start, min(start + self.n_batch, result.size))
            batch = np.repeat(image, len(many), axis=0)
            for row, place in zip(batch, many, strict=True):
                centre = np.unravel_index(place, shape)
                row[tuple(
                    slice(max(0, c + a - m), c + a + m)
                    for c, (a, _), m in zip(centre, area, margins, strict=True)
                )] = self.pad_val
            result[start : start + len(many)] = base - _scores(network, batch)[:, label]
        return result.reshape(shape)

    def eval(self) -> Array:
        """How much the prediction falls when the place is covered."""
        return updated("OcclusionSensitivity", self._result, False)


def _area(image: Array, box: Sequence[int] | None) -> list[tuple[int, int]]:
    sizes = image.shape[1:]
    if box is None:
        return [(0, n) for n in sizes]
    if len(box) != 2 * len(sizes):
        raise ValueError(f"For 'OcclusionSensitivity', 'b_box' must have {2 * len(sizes)} numbers "
                         f"for an image of shape {image.shape}, but has {len(box)}.")
    pairs = [(max(0, a), min(b + 1, n)) for a, b, n in zip(box[::2], box[1::2], sizes, strict=True)]
    if any(a >= b for a, b in pairs):
        raise ValueError(f"For 'OcclusionSensitivity', the area of 'b_box' {box} is empty.")
    return pairs


def _scores(network: Cell, batch: Array) -> Array:
    out = network(Tensor(batch)).asnumpy()
    return np.asarray(out.reshape(len(batch), -1))
