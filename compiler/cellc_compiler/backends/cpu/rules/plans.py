"""Plans of kernel families under the roles that lowering gives buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cellc_runtime.lazy import lazy_module
from cellc_runtime.target import Target

from ....ir.types import TensorType
from ....lower.plan import KernelPlan, Role, Step, result, scratch

if TYPE_CHECKING:
    from ..kernels import scatter as scatters
    from ..kernels.conv import plans as families
    from ..kernels.gemm import product as gemm
else:  # kernel families load when one is generated
    scatters = lazy_module("cellc_compiler.backends.cpu.kernels.scatter")

EMPTY = KernelPlan(())
"""Of a result without elements."""


def _role(r: str | Role, names: Mapping[str, Role]) -> Role:
    """The role that a family's formula gives a name: one of the node's, or scratch."""
    if isinstance(r, Role):
        return r
    return names.get(r) or scratch(r)


def of_product(plan: gemm.MatmulPlan, names: Mapping[str, Role]) -> KernelPlan:
    """A matrix product's plan."""
    steps = [Step(k, tuple(_role(r, names) for r in roles)) for k, roles in plan.kernels]
    return KernelPlan(tuple(steps), {_role(r, names): n for r, n in plan.scratch.items()},
                      dict(plan.packing))


def adopt(plan: families.Plan, names: Mapping[str, Role]) -> KernelPlan:
    """A convolution's or pool's plan."""
    steps = [Step(k, tuple(_role(r, names) for r in roles)) for k, roles in plan.steps]
    return KernelPlan(tuple(steps), {scratch(r): n for r, n in plan.scratch.items()})


def zeros_plan(ty: TensorType, target: Target) -> KernelPlan:
    """Kernels that fill the result with zeros (nothing to sum over)."""
    if ty.size == 0:
        return EMPTY
    return KernelPlan((Step(scatters.fill_kernel(ty.nbytes, target), (result(0),)),))
