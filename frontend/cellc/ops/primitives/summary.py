"""Summary operators: values of a running network, noted for `train.SummaryRecord`.

Source: `mindspore.ops`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...calls.callbacks import host_call
from ...core.declared import misuse
from ...tensors.tensor import Tensor
from ..primitive import Primitive

PENDING: list[tuple[str, str, Any]] = []
"""The summaries of networks since the last write: plugin, name, elements."""
_MOST = 10_000  # More are not kept: nobody writes them


class _Summary(Primitive):
    """Notes a tensor under a name when the network runs."""

    plugin = ""
    axes: tuple[int, ...] | None = None

    def __init__(self) -> None:
        self.name, self.attrs = type(self).__name__, {}

    def __call__(self, *operands: Any, **kwargs: Any) -> None:
        name, value = operands
        if not isinstance(name, str):
            raise misuse(self.name, "the name must be a string", repr(name), TypeError)
        if not name:
            raise misuse(self.name, "the name must not be empty")
        if not isinstance(value, Tensor):
            raise misuse(self.name, "the value must be a Tensor", repr(value), TypeError)
        if self.axes is not None and value.ndim not in self.axes:
            raise misuse(self.name,
                         f"the value must have {self.axes} axes, but has shape {value.shape}")
        plugin = self.plugin

        def note(given: Tensor) -> None:
            if len(PENDING) < _MOST:
                PENDING.append((plugin, name, np.array(given.asnumpy())))

        host_call(note, self.name, [value], [])


class ScalarSummary(_Summary):
    """Note a number under a name, for `SummaryRecord`.

    Inputs: the name (a string); a Tensor [] or [1].
    """

    plugin, axes = "scalar", (0, 1)


class TensorSummary(_Summary):
    """Note a tensor under a name, for `SummaryRecord`.

    Inputs: the name (a string); a Tensor.
    """

    plugin = "tensor"


class HistogramSummary(_Summary):
    """Note how the elements of a tensor are spread.

    Inputs: the name (a string); a Tensor of one axis or more.
    """

    plugin = "histogram"


class ImageSummary(_Summary):
    """Note the first image of a batch.

    Inputs: the name (a string); a Tensor [n, channels, height, width].
    """

    plugin, axes = "image", (4,)


__all__ = ["HistogramSummary", "ImageSummary", "ScalarSummary", "TensorSummary"]
