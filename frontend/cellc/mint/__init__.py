"""The functions of `ops` under PyTorch's names and parameters, as `mindspore.mint` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellc_runtime.lazy import names_of, public_names

from ..core.later import other_names
from . import distributed as distributed
from . import linalg as linalg
from . import nn as nn
from . import optim as optim
from . import special as special
from .functions import FUNCTIONS

if TYPE_CHECKING:
    from ..stubs.mint import *  # noqa: F403
else:
    from .functions import *  # noqa: F403

__all__ = sorted([*FUNCTIONS, "distributed", "linalg", "nn", "optim", "special"])
__dir__ = public_names(__name__)
if not TYPE_CHECKING:
    __getattr__ = names_of(__name__, {}, other_names.missing_name)
