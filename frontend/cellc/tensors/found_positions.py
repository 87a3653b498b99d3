"""Results whose number depends on elements, while a graph is traced."""

from __future__ import annotations

import math

from cellc_runtime.dtypes import int64

from ..core.dispatch import active_tracer, apply
from .index_plan import known_elements
from .promotion import constant
from .tensor import Tensor


def traced(x: Tensor) -> bool:
    """Whether a graph is being traced that does not know the elements of `x`."""
    return active_tracer() is not None and known_elements(x) is None


def true_positions(mask: Tensor, name: str) -> tuple[Tensor, int]:
    """Row-major positions of a mask's true elements, and how many there are.

    Raises:
        TypeError: in a run-time branch or loop.
    """
    tracer = active_tracer()
    assert tracer is not None
    size = math.prod(mask.shape)
    flat = apply("reshape", mask, shape=(size,))
    count = apply("reduce_sum", apply("cast", flat, dtype=int64), axes=(0,), keepdims=False)
    found, measured = tracer.measure(count, name, size)
    out: Tensor = apply("true_positions", flat, measured, size=found)
    return out, found


def unraveled(flat: Tensor, shape: tuple[int, ...]) -> list[Tensor]:
    """Row-major numbers as positions along each axis."""
    out: list[Tensor] = []
    for axis, d in enumerate(shape):
        at = apply("floor_div", flat, constant(math.prod(shape[axis + 1 :]), int64))
        out.append(apply("mod", at, constant(d, int64)))
    return out
