"""Attention and its gradient under fast numerics on emulated GPUs, and what they should give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import ops
from cellc.compiled.traced import trace
from cellc_compiler.backends.cuda.kernels import attention_online as online
from cellc_compiler.driver import lower, optimize
from cellc_compiler.ir.graph import Graph
from cellc_compiler.lower.instructions import Call
from cellc_runtime.cuda.emulated import EmulatedDevice
from cellc_runtime.dtypes import DType, bfloat16, float16, float32
from cellc_runtime.records import replace
from cellc_runtime.target import Target

from .tiled import drawn, run_on

Array = np.ndarray[Any, Any]

TOLERANCE = {float32: 2e-3, float16: 2e-3, bfloat16: 1.5e-2}
"""Of the largest element: products round their operands to 10 bits of fraction (bfloat16: 7)."""
SCALE = 0.25


@pytest.fixture
def large_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of as many warps as large problems have."""
    monkeypatch.setattr(online, "UNITS", dict.fromkeys(online.UNITS, 0))


def run_fast(device: EmulatedDevice, graph: Graph, given: Sequence[Array]) -> list[Array]:
    """What a graph gives."""
    return run_on(device, graph, given, "fast")


def fast_labels(graph: Graph, target: Target) -> list[str]:
    """What its kernels do."""
    fast = replace(target, fast=True)
    found = lower(optimize(graph, numerics="fast", target=fast), fast).instructions
    return [c.label for c in found if isinstance(c, Call)]


def is_online(graph: Graph, target: Target) -> bool:
    """Whether all of its attention is computed online: no product stands alone."""
    found = fast_labels(graph, target)
    return any(label.endswith("(online)") for label in found) and not any(
        "matmul" in label and not label.endswith("(online)") for label in found)


def weights_of(q: Array, k: Array, hidden: Array | None = None, added: Array | None = None,
               fill: float = -np.inf) -> Array:
    """Softmax of scaled products, in float64."""
    scores = wide(q) @ np.swapaxes(wide(k), -1, -2) * SCALE
    if added is not None:
        scores = scores + wide(added)
    if hidden is not None:
        scores = np.where(hidden, fill, scores)
    with np.errstate(invalid="ignore"):
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)


def wide(a: Array) -> Array:
    """In float64."""
    return a.astype(np.float64)


def gradients(q: Array, k: Array, v: Array, weights: Array, g: Array | None = None
              ) -> list[Array]:
    """Of the sum of squares of the result, or of its product with `g`, in float64."""
    q, k, v = map(wide, (q, k, v))
    g = 2 * (weights @ v) if g is None else wide(g)
    dots = g @ np.swapaxes(v, -1, -2)
    of_scores = weights * (dots - (weights * dots).sum(-1, keepdims=True)) * SCALE
    return [of_scores @ k, np.swapaxes(of_scores, -1, -2) @ q, np.swapaxes(weights, -1, -2) @ g]


def is_near(found: Array, want: Array, dtype: DType) -> bool:
    """Whether all elements are, and NaN stands where it should."""
    found = wide(found)
    if not np.array_equal(np.isnan(found), np.isnan(want)):
        return False
    largest = np.nanmax(np.abs(want), initial=0.0)
    return bool(np.nanmax(np.abs(found - want), initial=0.0) <= TOLERANCE[dtype] * largest)


def traced(function: Callable[..., Any], given: Sequence[Array]) -> Graph:
    """The graph of a function of arrays."""
    return trace(function, tuple(map(ms.Tensor, given)), {}).graph


def causal_loss(q: Any, k: Any, v: Any) -> Any:
    """Of causal attention, by the library's function."""
    out = ops.flash_attention_score(q, k, v, q.shape[1], input_layout="BNSD", sparse_mode=2,
                                    scalar_value=SCALE)
    return (out * out).sum()


def plain_loss(q: Any, k: Any, v: Any) -> Any:
    """Of attention, op by op."""
    weights = ops.softmax(ops.matmul(q, k.swapaxes(-1, -2)) * SCALE, -1)
    out = ops.matmul(weights, v)
    return (out * out).sum()


def random(shape: tuple[int, ...], dtype: DType = float32, count: int = 3, seed: int = 0
           ) -> list[Array]:
    """Queries, keys and values."""
    return drawn([shape] * count, dtype, seed)
