"""Plans of kernel families under the roles that lowering gives buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cellc_runtime.lazy import lazy_module
from cellc_runtime.target import Target

from ....ir.types import TensorType
from ....lower.plan import KernelPlan, Step

if TYPE_CHECKING:
    from ..kernels import scatter
    from ..kernels.conv import plans as families
    from ..kernels.gemm import product as gemm
else:  # kernel families load when one is generated
    scatter = lazy_module("cellc_compiler.backends.cpu.kernels.scatter")

EMPTY = KernelPlan(())
"""Of a result without elements."""


def of_product(plan: gemm.MatmulPlan, names: Mapping[str, str]) -> KernelPlan:
    """A matrix product's plan."""
    steps = [Step(k, tuple(names.get(r, r) for r in roles)) for k, roles in plan.kernels]
    return KernelPlan(tuple(steps), dict(plan.scratch), dict(plan.packing))


def adopt(plan: families.Plan, names: Mapping[str, str]) -> KernelPlan:
    """A convolution's or pool's plan; its roles `e0`, `e1`, ... are operands of an epilogue."""
    def role(r: str) -> str:
        if r[0] == "e" and r[1:].isdigit():
            return f"epilogue{r[1:]}"
        return names.get(r, r)

    return KernelPlan(tuple(Step(k, tuple(role(r) for r in roles)) for k, roles in plan.steps),
                      dict(plan.scratch))


def zeros_plan(ty: TensorType, target: Target) -> KernelPlan:
    """Kernels that fill the result with zeros (nothing to sum over)."""
    if ty.size == 0:
        return EMPTY
    return KernelPlan((Step(scatter.fill_kernel(ty.nbytes, target), ("out0",)),))
