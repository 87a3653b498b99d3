"""Users' own kernels: numba's code of them, as one task."""

from __future__ import annotations

from cellc_runtime.target import Target

from ....hybrid.language import Source, typed
from ....hybrid.native import native
from ....ir.graph import Node
from ....lower.kernel import Kernel
from ....lower.plan import KernelPlan, Step, operand, result, scratch
from ...llvm import numba_loader
from .table import lowers


@lowers("custom_kernel")
def custom_kernel(node: Node, target: Target) -> KernelPlan:
    """A function in Python, compiled by numba."""
    kernel = native(typed(Source(**node.attrs), tuple(v.type for v in node.operands)))
    code = numba_loader.numba_code().kernel_text(kernel, target)
    own = [scratch(f"kernel{i}") for i in range(len(kernel.scratch))]
    *outputs, status = [result(i) for i in range(len(node.results))]
    roles = (*map(operand, range(len(node.operands))), *outputs, *own, status)
    cost = 10.0 * sum(v.type.size for v in (*node.operands, *node.results))
    made = Kernel(code, 1, len(roles), cost)
    return KernelPlan((Step(made, roles),),
                      {role: ty.nbytes for role, ty in zip(own, kernel.scratch, strict=True)})
