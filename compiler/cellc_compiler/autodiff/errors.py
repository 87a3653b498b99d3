"""What cannot be differentiated."""

from __future__ import annotations

from ..ir.graph import Node


class GradientError(TypeError):
    """A value that cannot be differentiated; `node` is the node at fault."""

    def __init__(self, message: str, node: Node) -> None:
        super().__init__(message)
        self.node = node
