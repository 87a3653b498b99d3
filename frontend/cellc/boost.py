"""`mindspore.boost`: nothing of it is here, and asking says why.

Its algorithms (less communication, frozen layers, fewer BatchNorms) are made for clusters of Ascend
devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import public_names

__path__: list[str] = []  # MindSpore has a package here: `old_paths` finds what is below

__all__: list[str] = []
__dir__ = public_names(__name__)


if not TYPE_CHECKING:
    def __getattr__(name: str) -> Any:
        raise AttributeError(
            f"cellc has no boost.{name}: the algorithms of boost are for clusters of Ascend "
            "devices. Leave boost_level at 'O0'; for accumulated gradients see the guide."
        )
