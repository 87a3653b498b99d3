"""Primitive classes that few programs use, and the ready-made ones: a second part that loads when a
name of it is asked for.
"""

from __future__ import annotations

from cellc_runtime.lazy import names_of

from . import (
    elsewhere,
    instances,
    primitives_boxes,
    primitives_draws,
    primitives_more,
    primitives_sparse_steps,
)

PRIMITIVES = {
    **primitives_boxes.PRIMITIVES, **primitives_more.PRIMITIVES, **primitives_draws.PRIMITIVES,
    **primitives_sparse_steps.PRIMITIVES, **elsewhere.PRIMITIVES,
}
"""Every class by name."""
NAMES = {**PRIMITIVES, **instances.INSTANCES, **elsewhere.FUNCTIONS}

__all__ = sorted(NAMES)
__getattr__ = names_of(__name__, NAMES)
