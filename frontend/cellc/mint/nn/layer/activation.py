"""Activations of `mint.nn`: functions of `mint.nn.functional` as Cells.

Source: `mindspore.mint.nn`.
"""

from __future__ import annotations

from typing import Any

from ....nn.layer.base import Family, OfInput
from ....tensors.tensor import Tensor
from .. import functional


class _OfInput(Family):
    """A function of one tensor as a layer, with the options of every Cell."""

    def construct(self, input: Tensor) -> Any:
        """The same shape."""
        return self._function(input)


class _WithoutOptions(OfInput):
    """Whatever arguments are given have no effect."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()


class _InPlace(OfInput):
    """An activation that can write its result into its input.

    Args:
        inplace: write the result into the input.
    """

    inplace: bool = False


class ELU(OfInput, function=functional.elu):
    """x where positive, alpha (exp(x) - 1) elsewhere.

    Args:
        alpha: the limit below is -alpha.
        inplace: write the result into the input.
    """

    alpha: float = 1.0
    inplace: bool = False


class GELU(OfInput):
    """x times the normal distribution function of x.

    Args:
        approximate: `"none"` (erf) or `"tanh"`.
    """

    approximate: str = "none"

    def construct(self, input: Tensor) -> Any:
        """The same shape."""
        return functional.gelu(input, approximate=self.approximate)


class GLU(OfInput, function=functional.glu):
    """The first half times the sigmoid of the second, along `dim`. Source: `mint.nn.GLU`.

    Args:
        dim: an axis of even length.
    """

    dim: int = -1


class Hardtanh(OfInput, function=functional.hardtanh):
    """x brought into [min_val, max_val].

    Args:
        min_val, max_val: the bounds.
        inplace: write the result into the input.
    """

    min_val: float = -1.0
    max_val: float = 1.0
    inplace: bool = False


class LogSigmoid(_OfInput, function=functional.logsigmoid):
    """log(sigmoid(x)) of each element."""


class Mish(_WithoutOptions, function=functional.mish):
    """x tanh(softplus(x)) of each element."""


class ReLU6(_InPlace, function=functional.relu6):
    """x brought into [0, 6]."""


class SELU(_WithoutOptions, function=functional.selu):
    """Scaled ELU (Klambauer et al., 2017)."""


class SiLU(_InPlace, function=functional.silu):
    """x sigmoid(x) of each element."""


class Sigmoid(_OfInput, function=functional.sigmoid):
    """1 / (1 + exp(-x))."""


class Tanh(_OfInput, function=functional.tanh):
    """The hyperbolic tangent."""


class Threshold(OfInput, function=functional.threshold):
    """x where it is above `threshold`, `value` elsewhere.

    Args:
        threshold, value: numbers.
        inplace: write the result into the input.
    """

    threshold: float
    value: float
    inplace: bool = False
