"""Graphs of attention for emulated GPUs, and whether one kernel computes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from cellc_compiler.backends.attention import AttentionFinder
from cellc_compiler.driver import lower, optimize
from cellc_compiler.ir.graph import Builder, Graph, Value
from cellc_compiler.ir.types import TensorType
from cellc_compiler.lower.instructions import Call
from cellc_runtime.dtypes import DType, bool_, float32
from cellc_runtime.target import Target

from .tiled import drawn

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


def attention(q: Shape, k: Shape, v: Shape, *, dtype: DType = float32, mask: str = "given",
              turned: tuple[bool, bool] = (True, False), beside: bool = False,
              fill: float = -np.inf) -> Graph:
    """Scale, mask, softmax and both products.

    Args:
        q, k, v: shapes of (..., queries, size), (..., keys, size) and (..., keys, size).
        mask: "given" (an input), "causal" (a constant), "added" (an input of numbers) or "none".
        turned: whether the product turns keys and values.
        beside: whether scores are added to what the mask leaves of them.
        fill: what a score is where the mask hides it.
    """
    graph = Graph("attention")
    b = Builder(graph)

    def given(shape: Shape, swap: bool, name: str) -> Value:
        own = (*shape[:-2], shape[-1], shape[-2]) if swap else shape
        return graph.add_input(TensorType(own, dtype), name, "input")

    m, n = q[-2], k[-2]
    inputs = [given(q, False, "q"), given(k, not turned[0], "k"), given(v, turned[1], "v")]
    scores = b.matmul(inputs[0], inputs[1], transpose_a=False, transpose_b=turned[0])
    scores = b.mul(scores, b.literal(np.asarray(0.25), dtype))
    if mask == "added":
        scores = b.add(scores, graph.add_input(TensorType((m, n), dtype), "mask", "input"))
    elif mask != "none":
        unseen = graph.add_input(TensorType((m, n), bool_), "mask", "input") if mask == "given" \
            else b.literal(causal(m, n), bool_)
        left = b.where(unseen, b.literal(np.asarray(fill), dtype), scores)
        scores = b.add(left, scores) if beside else left
    weights = b.softmax(scores, axis=len(scores.shape) - 1)
    graph.outputs = [b.matmul(weights, inputs[2], transpose_a=False, transpose_b=turned[1])]
    return graph


def causal(m: int, n: int) -> Array:
    """No later keys, the last query at the last key."""
    return np.triu(np.ones((m, n), np.bool_), 1 + n - m)


def arrays(graph: Graph, seed: int = 0) -> list[Array]:
    """Random numbers; a mask with a row of nothing else."""
    values = [v for v in graph.inputs if v.dtype is not bool_]
    out = drawn([v.shape for v in values], values[0].dtype, seed)
    if len(values) < len(graph.inputs):
        mask = np.random.default_rng(seed).random(graph.inputs[-1].shape) < 0.3
        mask[len(mask) // 2] = True
        out.append(mask)
    return out


def labels(graph: Graph, target: Target) -> list[str]:
    """What the kernels of a graph do."""
    calls = lower(optimize(graph, target=target), target).instructions
    return [c.label for c in calls if isinstance(c, Call)]


def is_one_kernel(graph: Graph, target: Target) -> bool:
    """Whether both products are in one kernel."""
    return any(label.count("matmul") == 2 for label in labels(graph, target))


@contextmanager
def separate() -> Iterator[None]:
    """No attention is found."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AttentionFinder, "find", lambda self: {})
        yield
