"""`mint.special`: functions of `mint` that are here too. Source: `mindspore.mint.special`."""

from __future__ import annotations

from typing import Any

from cellc_runtime.lazy import public_names

from .. import ops
from ..ops import erfc, exp2, expm1, log1p, sinc
from ..ops.arguments import tensor
from ..tensors.tensor import Tensor
from .nn.functional import log_softmax


def round(input: Tensor) -> Any:
    """The nearest integers, halves to even."""
    return ops.round(tensor(input, "round"))


__all__ = ["erfc", "exp2", "expm1", "log1p", "log_softmax", "round", "sinc"]
__dir__ = public_names(__name__)
