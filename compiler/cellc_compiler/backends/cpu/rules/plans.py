"""Plans of kernel families under the roles that lowering gives buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ....lower.plan import KernelPlan, Step

if TYPE_CHECKING:
    from ..kernels.vectors import Plan


def adopt(plan: Plan, names: Mapping[str, str]) -> KernelPlan:
    """A family's plan under other names of its roles."""
    steps = [Step(k, tuple(names.get(r, r) for r in roles)) for k, roles in plan.steps]
    return KernelPlan(tuple(steps), dict(plan.scratch), dict(plan.packing))
