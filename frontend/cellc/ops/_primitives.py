"""The Primitive classes of `cellc.ops`, which load when one is asked for.

Type checkers read what they take in `stubs/primitives.pyi`.
"""

from __future__ import annotations

from cellc_runtime.lazy import names_of

from . import (
    collectives,
    host_primitives,
    kernels,
    mapping,
    primitives,
    primitives_optim,
    primitives_space,
    primitives_sparse,
    primitives_statistics,
    register_info,
    summary,
    user_primitives,
)
from .primitive import Primitive

PRIMITIVES = {
    "Primitive": Primitive, **primitives.PRIMITIVES, **primitives_statistics.PRIMITIVES,
    **primitives_space.PRIMITIVES, **primitives_optim.PRIMITIVES,
    **primitives_sparse.PRIMITIVES, **collectives.PRIMITIVES,
    **{name: getattr(module, name) for module in (
           collectives, host_primitives, kernels, register_info, summary, mapping,
           user_primitives)
       for name in module.__all__},
}
"""Every class by name, and the functions over structures beside them."""

__all__ = sorted(PRIMITIVES)
__getattr__ = names_of(__name__, PRIMITIVES)
