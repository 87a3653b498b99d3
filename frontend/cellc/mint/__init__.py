"""The functions of `ops` under PyTorch's names and parameters, as `mindspore.mint` has them."""

from __future__ import annotations

from cellc_runtime.lazy import public_names

from . import distributed as distributed
from . import linalg as linalg
from . import nn as nn
from . import optim as optim
from . import special as special
from .functions import FUNCTIONS

globals().update(FUNCTIONS)

__all__ = sorted([*FUNCTIONS, "distributed", "linalg", "nn", "optim", "special"])
__dir__ = public_names(__name__)
