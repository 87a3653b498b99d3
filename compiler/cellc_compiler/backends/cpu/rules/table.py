"""The tables of rules, and the decorators that fill them.

A rule takes a node and a target and gives a plan: kernels in order, with scratch buffers. A rule
`with_epilogue` also takes what a pattern found to be done in the kernel's stores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cellc_runtime.target import Target

from ....ir.graph import Node
from ....lower.plan import KernelPlan
from ...base import Rules

Rule = Callable[[Node, Target], KernelPlan]
FusedRule = Callable[[Node, Target, Any], KernelPlan]
"""The third argument is a `Fused` or a `BlockFused` (`nests/epilogue.py`)."""

RULES: Rules[Rule] = Rules("cpu", __package__ or "")
lowers = RULES.lowers

WITH_EPILOGUE: Rules[FusedRule] = Rules("cpu", __package__ or "")
with_epilogue = WITH_EPILOGUE.lowers
