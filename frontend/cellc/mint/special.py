"""`mint.special`: functions of `mint` that are here too."""

from __future__ import annotations

from typing import Any

from cellc_runtime.lazy import public_names

from .. import ops
from ..common.tensor import Tensor
from .functions import FUNCTIONS as _FUNCTIONS
from .nn.functional import FUNCTIONS as _OF_NETWORKS

erfc, exp2, expm1, log1p, sinc = (
    _FUNCTIONS[name] for name in ("erfc", "exp2", "expm1", "log1p", "sinc"))
log_softmax = _OF_NETWORKS["log_softmax"]


def round(input: Tensor) -> Any:
    """The nearest integers, halves to even. Source: `mindspore.mint.special.round`.

    Raises:
        TypeError: no Tensor.
    """
    if not isinstance(input, Tensor):
        raise TypeError(
            f"For 'round', 'input' must be a Tensor, but got {type(input).__name__}.")
    return ops.round(input)


__all__ = ["erfc", "exp2", "expm1", "log1p", "log_softmax", "round", "sinc"]
__dir__ = public_names(__name__)
