"""The tables of rules, the decorators that fill them, and what rules make of a family's plan.

A rule takes a node and a target and gives a plan: kernels in order, with scratch buffers. A rule
`with_epilogue` also takes what a pattern found to be done in the kernel's stores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cellc_runtime.target import Target

from ....ir.graph import Node
from ....lower.plan import KernelPlan, Role, Step, scratch
from ...base import Rules

if TYPE_CHECKING:
    from ..kernels.vectors import Plan

Rule = Callable[[Node, Target], KernelPlan]
FusedRule = Callable[[Node, Target, Any], KernelPlan]
"""The third argument is a `Fused` or a `BlockFused` (`nests/epilogue.py`)."""

RULES: Rules[Rule] = Rules("cpu", __package__ or "")
lowers = RULES.lowers

WITH_EPILOGUE: Rules[FusedRule] = Rules("cpu", __package__ or "")
with_epilogue = WITH_EPILOGUE.lowers


def adopt(plan: Plan, names: Mapping[str, Role]) -> KernelPlan:
    """A family's plan: names of its formula become roles of the node, others scratch."""
    def role(r: str | Role) -> Role:
        if isinstance(r, Role):
            return r
        return names.get(r) or scratch(r)

    steps = [Step(k, tuple(map(role, roles))) for k, roles in plan.steps]
    return KernelPlan(tuple(steps), {role(r): n for r, n in plan.scratch.items()},
                      dict(plan.packing))
