"""Plans of kernel families under the roles that lowering gives buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ....lower.plan import KernelPlan, Role, Step, scratch

if TYPE_CHECKING:
    from ..kernels.vectors import Plan


def adopt(plan: Plan, names: Mapping[str, Role]) -> KernelPlan:
    """A family's plan: names of its formula become roles of the node, others scratch."""
    def role(r: str | Role) -> Role:
        if isinstance(r, Role):
            return r
        return names.get(r) or scratch(r)

    steps = [Step(k, tuple(map(role, roles))) for k, roles in plan.steps]
    return KernelPlan(tuple(steps), {role(r): n for r, n in plan.scratch.items()},
                      dict(plan.packing))
