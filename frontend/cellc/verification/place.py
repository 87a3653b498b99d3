"""Where in the regions of a graph a node is."""

from __future__ import annotations

from cellc_compiler.ir.graph import Node
from cellc_runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A graph, or a run of one of its regions.

    Attributes:
        depth: how many regions deep.
        trail: which run of which region, outermost first.
        scope: of the node around the region.
    """

    depth: int = 0
    trail: str = ""
    scope: str = ""

    def inside(self, node: Node, what: str) -> Place:
        """A run of a region of a node there."""
        trail = f"{self.trail}, {what}" if self.trail else what
        return Place(self.depth + 1, trail, node.scope or self.scope)
