"""`mindspore.boost`: of it gradients that are added up; asking for another name says why it is not
here.

Its other algorithms (less communication, frozen layers, fewer BatchNorms) are made for clusters of
Ascend devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import public_names

from .nn import accumulation
from .nn.accumulation import GradientAccumulation

__path__: list[str] = []  # MindSpore has a package here: `old_paths` finds what is below

__all__ = ["GradientAccumulation"]
__dir__ = public_names(__name__)


if not TYPE_CHECKING:
    def __getattr__(name: str) -> Any:
        if name in ("gradient_accumulation_op", "gradient_clear_op"):
            return getattr(accumulation, name)
        raise AttributeError(
            f"cellc has no boost.{name}: the other algorithms of boost are for clusters of Ascend "
            "devices. Leave boost_level at 'O0'; for accumulated gradients there is "
            "boost.GradientAccumulation."
        )
