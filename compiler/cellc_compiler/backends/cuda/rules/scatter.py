"""Updates at run-time positions, where they are too many for one thread each column."""

from __future__ import annotations

from cellc_runtime.target import Target

from ....ir.graph import Node
from ....lower.plan import KernelPlan
from ...along_axis import scatter_form
from ..kernels.scatter import NOWHERE, ScatterByBlocks
from .table import lowers

FEW = 16  # Updates of a column that one thread does: plain loops
MANY_THREADS = 1 << 16  # Columns that are a thread each, and fill a device
MANY_LISTS = 1 << 11
"""Lists of positions whose sorts would take longer than a thread for each column."""
_MOST = (1 << 31) - 1


@lowers("scatter")
@lowers("scatter_lines")
def scattered(node: Node, target: Target) -> KernelPlan | None:
    """Slices, or the elements of lines."""
    s = ScatterByBlocks(**scatter_form(node))
    if s.count <= FEW or s.lists >= MANY_LISTS or s.lists * s.columns >= MANY_THREADS:
        return None
    fits = max(s.items, s.lists * s.extent) <= _MOST and s.extent < NOWHERE
    return s.plan(target) if fits else None
