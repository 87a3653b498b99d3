"""The mark on the inputs of a network that is sharded over several devices."""

from __future__ import annotations

from typing import Any

from ..primitive import Primitive


class VirtualDataset(Primitive):
    """Its operands: each process has its own. Source: `mindspore.ops._VirtualDataset`."""

    def __init__(self) -> None:
        super().__init__("_VirtualDataset")  # MindSpore's name

    def _run(self, *operands: Any, **kwargs: Any) -> Any:
        return operands
