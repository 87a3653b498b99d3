"""The rules of the CUDA back end, by op."""

from __future__ import annotations

from collections.abc import Callable

from cellc_runtime.target import Target

from ....ir.graph import Node
from ....lower.plan import KernelPlan
from ...base import Rules
from ..kernels.plans import Tiled

Rule = Callable[[Node, Target], KernelPlan | None]
"""The kernels of a node; None if it is best left to plain loops."""

TiledRule = Callable[[Node, Target], Tiled | None]
"""The product that a node is, where tiles compute it: an epilogue may go into their stores."""

RULES: Rules[Rule] = Rules("cuda", "cellc_compiler.backends.cuda.rules")
lowers = RULES.lowers

TILES: Rules[TiledRule] = Rules("cuda", "cellc_compiler.backends.cuda.rules")
tiles = TILES.lowers
