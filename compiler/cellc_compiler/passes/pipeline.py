"""The pipelines: ordered lists. Every pass of the default one keeps the bits; `numerics="fast"`
adds those that do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cellc_runtime.target import Target

from ..backends.cpu.passes.assemble import Assemble
from ..backends.cpu.passes.layout import Layout
from ..backends.cpu.passes.winograd import Winograd
from ..ir.graph import Graph
from .base import Pass
from .cleanup import Cse, Dce, FoldConstants, Simplify
from .complexes import ComplexSums
from .expand import Expand
from .fast import FoldScales, Reassociate
from .split import SplitReductions

PIPELINE: tuple[Pass, ...] = (
    Dce(),
    Expand(),
    ComplexSums(),
    SplitReductions(),
    Simplify(),
    FoldConstants(),
    Cse(),
    Simplify(),
    Dce(),
)

FAST: tuple[Pass, ...] = (
    *PIPELINE,
    Reassociate(),
    FoldScales(),
    Winograd(),
    FoldConstants(),
    Cse(),
    Simplify(),
    Dce(),
)

NUMERICS = {"strict": PIPELINE, "fast": FAST}


CLEAN: tuple[Pass, ...] = (Expand(), Simplify(), FoldConstants(), Cse(), Simplify(), Dce())
"""After recomputation is chosen: what `with_turns` leaves goes, and what it was in the way of."""


def with_turns(numerics: str) -> tuple[Pass, ...]:
    """The passes of `numerics`, but gradients can still be told from what is before them."""
    return tuple(Expand(turns=True) if isinstance(p, Expand) else p for p in NUMERICS[numerics])


def for_target(target: Target) -> tuple[Pass, ...]:
    """The passes that choose for a target, after all others."""
    return (Layout(target), Assemble())


Observer = Callable[[str, Graph], None]


def run_pipeline(
    graph: Graph, passes: Sequence[Pass] = PIPELINE, observe: Observer | None = None
) -> Graph:
    """Run passes on `graph` in place, calling `observe(name, graph)` after each."""
    for p in passes:
        p.run(graph)
        if observe is not None:
            observe(p.name, graph)
    return graph
