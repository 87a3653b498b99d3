"""Elements whose place decides where they are read: joins, rolls and borders."""

from __future__ import annotations

import re

import numpy as np
import pytest

from cellc_compiler import driver
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.lower.instructions import Call, walk
from cellc_runtime.target import AVX2, AVX512, Target, host_targets

from .plans import guarded

TARGETS = pytest.mark.parametrize("target", list(host_targets()), ids=lambda t: t.name)


def rolled(rows: int, columns: int, first: int) -> Graph:
    """The rows from `first` on, then those before, one more than they were."""
    x, rest = f"float32[{rows},{columns}]", rows - first
    later = f"start=({first}, 0), stop=({rows}, {columns}), step=(1, 1)"
    earlier = f"start=(0, 0), stop=({first}, {columns}), step=(1, 1)"
    return parse_graph(f"""
graph g(%x: {x} input) {{
  %0: float32[{rest},{columns}] = slice(%x) {{{later}}}
  %1: float32[{first},{columns}] = slice(%x) {{{earlier}}}
  %2: {x} = join(%0, %1) {{axis=0}}
  %3: {x} = relu(%2) {{}}
  return %3
}}
""")


def kernel(graph: Graph, target: Target) -> str:
    low = driver.lower(driver.optimize(graph, target=target), target)
    (call,) = (i for i in walk(low.instructions) if isinstance(i, Call))
    return call.kernel.code


@TARGETS
@pytest.mark.parametrize("columns", [1, 7, 16, 33, 96])
@pytest.mark.parametrize("first", [1, 3, 10])
def test_values(first: int, columns: int, target: Target) -> None:
    x = guarded(np.random.default_rng(0).standard_normal((11, columns)).astype(np.float32))
    (got,) = driver.compile_graph(rolled(11, columns, first), target)([x])
    np.testing.assert_array_equal(got, np.maximum(np.roll(x, -first, 0), 0))


@pytest.mark.parametrize("target", [AVX512, AVX2], ids=lambda t: t.name)
def test_a_load_of_no_lane_has_an_address_in_its_buffer(target: Target) -> None:
    # At another one the processor may find no page, which it takes long to ignore.
    text = kernel(rolled(56, 96, 3), target)
    addresses = re.findall(r"llvm\.masked\.load\.\w+\.p0\(ptr (%\w+),", text)
    assert len(addresses) == 2
    for address in addresses:
        found = re.search(rf"{address} = getelementptr float, ptr %\w+, i64 (%\w+)", text)
        assert found is not None
        assert re.search(rf"{found[1]} = select i1 %\w+, i64 %\w+, i64 0\n", text)


@pytest.mark.parametrize("target", [AVX512, AVX2], ids=lambda t: t.name)
def test_conditions_on_places_do_not_halve_the_lanes(target: Target) -> None:
    lanes = target.lanes(4)
    assert f"store <{lanes} x float>" in kernel(rolled(56, 96, 3), target)
