"""The pipelines: ordered lists. Every pass of the default one keeps the bits; `numerics="fast"`
adds those that do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.graph import Graph
from ..ops.control import Cotangent
from .base import Pass
from .cleanup import Cse, Dce, FoldConstants, Simplify
from .complex_reductions import ComplexReductions
from .expand import Expand
from .fast import FoldScales, Reassociate
from .split import SplitReductions

PIPELINE: tuple[Pass, ...] = (
    Dce(),
    Expand(),
    ComplexReductions(),
    SplitReductions(),
    Simplify(),
    FoldConstants(),
    Cse(),
    Simplify(),
    Dce(),
)



def passes_of(numerics: str, rewrites: Sequence[Pass] = ()) -> tuple[Pass, ...]:
    """The passes of `numerics`; `"fast"` has those that are right for real numbers only, with the
    `rewrites` of a back end among them."""
    if numerics == "strict":
        return PIPELINE
    return (*PIPELINE, Reassociate(), FoldScales(), *rewrites, FoldConstants(), Cse(), Simplify(),
            Dce())


CLEAN: tuple[Pass, ...] = (Expand(), Simplify(), FoldConstants(), Cse(), Simplify(), Dce())
"""After recomputation is chosen: what `keeping_cotangents` leaves goes, and what it was in the way
of."""


def keeping_cotangents(numerics: str, rewrites: Sequence[Pass] = ()) -> tuple[Pass, ...]:
    """Return the passes of `numerics`, with gradients still separable from the forward part."""
    return tuple(Expand(Cotangent.name) if isinstance(p, Expand) else p
                 for p in passes_of(numerics, rewrites))


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
