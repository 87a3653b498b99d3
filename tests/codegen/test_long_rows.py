"""Rows that a kernel reduces in parts: what each part found counts, whatever its type."""

from __future__ import annotations

import numpy as np
import pytest

from cellc_compiler.driver import compile_graph
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.loops import order
from cellc_runtime.target import Target, host_targets

PARTS = [4, 7, 16, 19, 33]
"""Fewer parts than a vector has lanes, as many, and some beside whole vectors."""


def reduced(op: str, row: np.ndarray, target: Target) -> object:
    """What a kernel gives for a row of flags or bytes."""
    graph = parse_graph(f"""
graph G(%x: {row.dtype}[{row.size}] input) {{
  %0: {row.dtype}[] = {op}(%x) {{axes=(0,), keepdims=False}}
  return %0
}}
""")
    return compile_graph(graph, target)([row])[0].item()


@pytest.mark.parametrize("target", host_targets(), ids=lambda t: t.name)
@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize(("op", "rare"), [("reduce_any", True), ("reduce_all", False)])
def test_one_flag_in_any_part(op: str, rare: bool, parts: int, target: Target) -> None:
    size = parts * order.PART
    assert order.kernel_parts(size) == parts
    row = np.full(size, not rare)
    assert reduced(op, row, target) is not rare
    for part in range(parts):
        row[part * order.PART + 77 * part] = rare
        assert reduced(op, row, target) is rare, part
        row[:] = not rare


@pytest.mark.parametrize("target", host_targets(), ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16"])
@pytest.mark.parametrize("op", ["reduce_max", "reduce_min"])
def test_extremes_of_small_integers(op: str, dtype: str, target: Target) -> None:
    for parts in PARTS:
        row = np.full(parts * order.PART, op == "reduce_min", dtype)
        row[-3] = op == "reduce_max"
        assert reduced(op, row, target) == row[-3], parts
