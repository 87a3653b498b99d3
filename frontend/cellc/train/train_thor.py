"""Conversion of models to THOR, the second-order optimizer of Ascend devices and GPUs.

Source: `mindspore.train`.
"""

from __future__ import annotations

from typing import Any

__path__: list[str] = []  # MindSpore has a package here: `old_paths` finds what is below

_ABSENT = (
    "THOR, the second-order optimizer this converts to, has no CPU version: train with Momentum, "
    "Adam or another optimizer of cellc.nn."
)


class ConvertModelUtils:
    """Models for THOR: not on the CPU."""

    @staticmethod
    def convert_to_thor_model(*args: Any, **kwargs: Any) -> None:
        """Not on the CPU.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(_ABSENT)


class ConvertNetUtils:
    """Networks for THOR: not on the CPU."""

    @staticmethod
    def convert_to_thor_net(net: Any) -> None:
        """Not on the CPU.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(_ABSENT)


__all__ = ["ConvertModelUtils", "ConvertNetUtils"]
