"""The rules of the CUDA back end, by op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from cellc_runtime.target import Target

from ....ir.graph import Node
from ....lower.plan import KernelPlan, Role
from ...base import Rules
from ..kernels.product import Epilogue

Rule = Callable[[Node, Target], KernelPlan | None]
"""The kernels of a node; None if it is best left to plain loops."""


class Fusable(Protocol):
    """A node computed by tiles, whose stores may run an epilogue."""

    def plan(
        self, target: Target, out: Sequence[Role], epilogue: Epilogue | None = None
    ) -> KernelPlan:
        """The kernels. `out`: its result; or the buffers of the epilogue, which is done instead of
        storing it."""


TiledRule = Callable[[Node, Target], Fusable | None]
"""How tiles compute a node; None where they do not."""

RULES: Rules[Rule] = Rules("cuda", "cellc_compiler.backends.cuda.rules")
lowers = RULES.lowers

TILES: Rules[TiledRule] = Rules("cuda", "cellc_compiler.backends.cuda.rules")
tiles = TILES.lowers
