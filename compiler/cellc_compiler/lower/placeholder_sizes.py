"""Placeholder sizes: what shape-polymorphic programs are laid out for.

See `backends/cpu/host/shape_polymorphic.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cellc_runtime.dtypes import DType
from cellc_runtime.shape_polymorphic import COLUMN, ONE, ROW

from ..ir.graph import Builder, Graph
from ..ir.types import TensorType

ROWS, COLUMNS = 1009, 2003
"""An index has a factor of `COLUMNS` where it goes from row to row, and nowhere else."""


def placeholder_graph(
    op: str, given: Sequence[DType], broadcasts: Sequence[int], attrs: Mapping[str, Any]
) -> Graph:
    """The graph of an op on operands of placeholder sizes.

    Args:
        op, attrs: an op that is `elementwise`.
        given: the element types of the operands.
        broadcasts: how each is broadcast to the result (`cellc_runtime.shape_polymorphic`).

    Raises:
        TypeError, ValueError: the op does not take such operands.
    """
    whole = (ROWS, COLUMNS) if {ROW, COLUMN} & set(broadcasts) else (COLUMNS,)
    shapes = {ONE: (), ROW: (COLUMNS,), COLUMN: (ROWS, 1)}
    graph = Graph(op)
    inputs = [graph.add_input(TensorType(shapes.get(broadcast, whole), dtype), f"x{i}")
              for i, (dtype, broadcast) in enumerate(zip(given, broadcasts, strict=True))]
    out = Builder(graph).emit(op, *inputs, **attrs)
    graph.outputs = list(out) if isinstance(out, tuple) else [out]
    return graph
