"""Matrix products."""

from __future__ import annotations

from cellc_runtime.target import Target

from ....ir.graph import Node
from ....lower.plan import KernelPlan
from .table import lowers
from .tensor_cores import tensor_core_plan


@lowers("matmul")
def matmul(node: Node, target: Target) -> KernelPlan | None:
    """Tensor cores for 16-bit floats; plain loops for all else."""
    return tensor_core_plan(node, target)
