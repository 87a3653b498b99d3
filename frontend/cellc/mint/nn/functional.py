"""`mint.nn.functional`: functions of networks with the parameters of PyTorch.

Source: the functions of the same names in `mindspore.mint.nn.functional`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellc_runtime.lazy import names_of, public_names

from ._functional import FUNCTIONS as _FUNCTIONS

if TYPE_CHECKING:
    from ...stubs.mint_functional import *  # noqa: F403
else:
    from ._functional import *  # noqa: F403

__all__ = sorted(_FUNCTIONS)
__dir__ = public_names(__name__)
if not TYPE_CHECKING:
    __getattr__ = names_of(__name__, {})
