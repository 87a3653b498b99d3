"""Updates at run-time positions, where they are too many for one thread each column."""

from __future__ import annotations

from cellc_runtime.dtypes import part_dtype
from cellc_runtime.target import Target

from ....ir.graph import Node
from ....ir.types import normalize_axis, prod
from ....lower.plan import KernelPlan
from ..kernels.scatter import NOWHERE, Scatter
from .table import lowers

FEW = 16
"""Updates of a column that one thread does: plain loops."""
MANY_THREADS = 1 << 16
"""Columns that are a thread each, and fill a device."""
MANY_LISTS = 1 << 11
"""Lists of positions whose sorts would take longer than a thread for each column."""
_MOST = (1 << 31) - 1


@lowers("scatter")
@lowers("scatter_lines")
def scattered(node: Node, target: Target) -> KernelPlan | None:
    """Slices, or the elements of lines."""
    x, indices, _ = (v.type for v in node.operands)
    k, batch = normalize_axis(node.attrs["axis"], x.rank), node.attrs.get("batch_dims", 0)
    lines, compound = node.op == "scatter_lines", x.dtype.is_complex
    s = Scatter(
        batch=prod(x.dims[:batch]), outer=prod(x.dims[batch:k]), extent=x.dims[k],
        count=indices.dims[k] if lines else prod(indices.dims[batch:]),
        inner=prod(x.dims[k + 1:]), per_element=lines, mode=node.attrs["mode"],
        part=part_dtype(x.dtype) if compound else x.dtype, parts=2 if compound else 1,
        index_dtype=indices.dtype)
    if s.count <= FEW or s.lists >= MANY_LISTS or s.lists * s.columns >= MANY_THREADS:
        return None
    fits = max(s.items, s.lists * s.extent) <= _MOST and s.extent < NOWHERE
    return s.plan(target) if fits else None
