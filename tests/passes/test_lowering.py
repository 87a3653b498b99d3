"""Instructions of loops: what is carried changes places as if at once; and long chains of them."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from cellc_compiler.driver import compile_graph
from cellc_compiler.interpret import run
from cellc_compiler.ir.text import parse_graph

LOOP = """
graph turns(%a: float32[3] input, %b: float32[3] input, %c: float32[3] input,
            %d: float32[3] input, %n: int64[] input) {
  %0: float32[3], %1: float32[3], %2: float32[3], %3: float32[3], %4: int64[] = \
while(%a, %b, %c, %d, %n) {carried=5} [
    graph test(%a: float32[3] input, %b: float32[3] input, %c: float32[3] input,
               %d: float32[3] input, %k: int64[] input) {
      %0: int64[] = constant() {value=lit<int64[]>[0]}
      %1: bool[] = gt(%k, %0) {}
      return %1
    }
    graph body(%a: float32[3] input, %b: float32[3] input, %c: float32[3] input,
               %d: float32[3] input, %k: int64[] input) {
      %0: int64[] = constant() {value=lit<int64[]>[1]}
      %1: int64[] = sub(%k, %0) {}
      return ORDER, %1
    }
  ]
  return %0, %1, %2, %3
}
"""
ORDERS = [*permutations("abcd"), tuple("aabb"), tuple("bcdd"), tuple("bacc"), tuple("dddd")]


@pytest.mark.parametrize("part", range(4))
def test_places_that_change(part: int) -> None:
    """Every permutation, cycles and chains, and places that several get: compiled as in numpy."""
    values = [np.arange(3, dtype=np.float32) + 10 * i for i in range(4)]
    for order in ORDERS[part::4]:
        graph = parse_graph(LOOP.replace("ORDER", ", ".join(f"%{name}" for name in order)))
        compiled = compile_graph(graph)
        for trips in (0, 1, 2, 5):
            arrays = [*values, np.asarray(trips)]
            for got, want in zip(compiled(arrays), run(graph, arrays), strict=True):
                np.testing.assert_array_equal(got, want, err_msg=f"{order}, {trips} trips")


def test_positions_that_follow_from_positions() -> None:
    """Each of 12 steps reads two tables at the position that the step before gives: the work of
    the compiler grows with the steps, not with the paths through them (2**12 of 2**12)."""
    steps = "".join(f"""
  %g{k}: int64[6] = gather(%a, %p{k}) {{axis=0, batch_dims=0}}
  %h{k}: int64[6] = gather(%b, %p{k}) {{axis=0, batch_dims=0}}
  %c{k}: bool[6] = gt(%g{k}, %h{k}) {{}}
  %p{k + 1}: int64[6] = where(%c{k}, %h{k}, %g{k}) {{}}""" for k in range(12))
    graph = parse_graph(f"""
graph walk(%a: int64[40] input, %b: int64[40] input, %p0: int64[6] input) {{{steps}
  return %p12
}}""")
    rng = np.random.default_rng(3)
    arrays = [rng.integers(0, 40, n) for n in (40, 40, 6)]
    np.testing.assert_array_equal(compile_graph(graph)(arrays)[0], run(graph, arrays)[0])
