"""The rules of the CUDA back end, by op."""

from __future__ import annotations

from collections.abc import Callable

from cellc_runtime.target import Target

from ....ir.graph import Node
from ....lower.plan import KernelPlan
from ...base import Rules

Rule = Callable[[Node, Target], KernelPlan | None]
"""The kernels of a node; None if it is best left to plain loops."""

RULES: Rules[Rule] = Rules("cuda", "cellc_compiler.backends.cuda.rules")
lowers = RULES.lowers
