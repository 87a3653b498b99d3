"""Lowering of loops: what is packed before them, values replaced in place, copies as if at once;
joins stored part by part. Results against the interpreter, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from cellc_compiler import driver
from cellc_compiler.driver import lower
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.loops import order
from cellc_compiler.lower.instructions import Call, Copy, For, walk
from cellc_runtime.target import Target, host_targets

TARGETS = list(host_targets())


def scan(body: str, carried: int = 2, extra: str = "", returns: str = "%0, %1, %2") -> Graph:
    """A loop of 6 steps over `%h`, `%c` (3, 20) and rows of `%x`."""
    inputs = "%a: float32[3,20] input, %b: float32[3,20] input, %r: float32[3,20] input, " \
        "%i: int64[] input"
    return parse_graph(f"""
graph g(%h: float32[3,20] input, %c: float32[3,20] input, %x: float32[6,3,20] input, \
%w: float32[20,20] input) {{
  %0: float32[3,20], %1: float32[3,20], %2: float32[6,3,20] = scan(%h, %c, %x{extra}) \
{{carried={carried}, sequences=1, length=6, reverse=False, saved=False,
limited=False, stepwise=False}} [
    graph body({inputs}{", %w: float32[20,20] input" if extra else ""}) {{
{body}
    }}
  ]
  return {returns}
}}
""")


def check(graph: Graph, target: Target) -> None:
    rng = np.random.default_rng(5)
    arrays = [rng.uniform(-1, 1, v.shape).astype(np.float32) for v in graph.inputs]
    given = [a.copy() for a in arrays]
    got = driver.compile_graph(graph, target)(arrays)
    for a, b in zip(arrays, given, strict=True):
        assert a.tobytes() == b.tobytes()  # inputs are not written
    for a, b in zip(got, run(graph, arrays), strict=True):
        np.testing.assert_array_equal(a, b)


def loop_of(graph: Graph, target: Target) -> tuple[list[object], For, list[object]]:
    """What runs before the first loop, the loop, and what runs in it."""
    out = lower(driver.optimize(graph), target).instructions
    (at,) = [i for i, x in enumerate(out) if isinstance(x, For)]
    loop = out[at]
    assert isinstance(loop, For)
    return list(out[:at]), loop, list(walk(loop.body))


SWAP = """      %0: float32[3,20] = add(%b, %r) {}
      return %b, %a, %0"""
CYCLE = """      %0: float32[3,20] = mul(%a, %r) {}
      return %b, %a, %a"""
OLD_IS_SAVED = """      %0: float32[3,20] = add(%a, %r) {}
      %1: float32[3,20] = mul(%b, %0) {}
      return %0, %1, %b"""
READ_ELSEWHERE = """      %0: float32[3,20] = flip(%a) {axes=(1,)}
      %1: float32[3,20] = add(%0, %r) {}
      return %1, %b, %a"""
IN_PLACE = """      %0: float32[3,20] = add(%a, %r) {}
      %1: float32[3,20] = mul(%b, %0) {}
      %2: float32[3,20] = sub(%1, %r) {}
      return %0, %1, %2"""
TWICE = """      %0: float32[3,20] = mul(%a, %b) {}
      return %0, %0, %0"""


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize(
    "body", [SWAP, CYCLE, OLD_IS_SAVED, READ_ELSEWHERE, IN_PLACE, TWICE],
    ids=["swap", "cycle", "old-is-saved", "read-elsewhere", "in-place", "twice"])
def test_carried_values(body: str, target: Target) -> None:
    check(scan(body), target)
    check(scan(body, returns="%2, %0, %0"), target)


def test_a_carried_value_is_replaced_in_place_where_nothing_reads_the_old_one() -> None:
    _, _, inside = loop_of(scan(IN_PLACE), TARGETS[0])
    assert not [i for i in inside if isinstance(i, Copy)]
    _, _, inside = loop_of(scan(OLD_IS_SAVED), TARGETS[0])
    # The old value to its row, then the new one to its place: nothing goes aside.
    assert sum(isinstance(i, Copy) for i in inside) == 2


WEIGHTED = """      %0: float32[3,20] = matmul(%a, %w) {transpose_a=False, transpose_b=True}
      %1: float32[3,20] = add(%0, %r) {}
      %2: float32[3,20] = matmul(%1, %w) {transpose_a=False, transpose_b=True}
      return %1, %2, %2"""


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_a_captured_weight_is_packed_once_before_the_loop(target: Target) -> None:
    graph = scan(WEIGHTED, extra=", %w")
    before, _, inside = loop_of(graph, target)
    assert sum(isinstance(i, Call) for i in before) == 1
    assert sum(isinstance(i, Call) for i in inside) == 2
    check(graph, target)


JOINS = [
    ("float32[5,40]", 1, "float32[5,120]"), ("float32[5,17]", 0, "float32[15,17]"),
    ("float32[2,3,33]", 1, "float32[2,9,33]"), ("float32[4,3]", 1, "float32[4,9]"),
]


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize(("part", "axis", "whole"), JOINS)
@pytest.mark.parametrize("reader", ["", "sum", "both"])
def test_joins(part: str, axis: int, whole: str, reader: str, target: Target) -> None:
    """Parts computed and joined; the join read by a neighbour, its parts by others."""
    rank = whole.count(",") + 1
    kept = whole.replace("float32[", "").rstrip("]").split(",")[:-1]
    more = "" if not reader else f"""
  %4: {whole} = exp(%3) {{}}
  %5: float32[{",".join(kept)}] = reduce_sum(%3) {{axes=({rank - 1},), keepdims=False}}"""
    graph = parse_graph(f"""
graph g(%x: {part} input, %y: {part} input) {{
  %0: {part} = mul(%x, %y) {{}}
  %1: {part} = add(%x, %0) {{}}
  %2: {part} = neg(%y) {{}}
  %3: {whole} = join(%0, %1, %2) {{axis={axis}}}{more}
  return %3{", %5, %4" if reader else ""}{", %1" if reader == "both" else ""}
}}
""")
    rng = np.random.default_rng(1)
    arrays = [rng.uniform(-1, 1, v.shape).astype(np.float32) for v in graph.inputs]
    got = driver.compile_graph(graph, target)(arrays)
    for a, b in zip(got, run(graph, arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    assert got[0].tobytes() == run(graph, arrays)[0].tobytes()


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_a_weight_that_several_products_read_is_packed_once(target: Target) -> None:
    """Also where a call updates it in place: products after that read it anew."""
    graph = parse_graph("""
graph g(%x: float32[16,40] input, %w: float32[40,40] param) {
  %0: float32[16,40] = matmul(%x, %w) {transpose_a=False, transpose_b=True}
  %1: float32[16,40] = matmul(%0, %w) {transpose_a=False, transpose_b=True}
  %2: float32[40,40] = neg(%w) {}
  %3: float32[16,40] = matmul(%1, %2) {transpose_a=False, transpose_b=True}
  %4: float32[16,40] = matmul(%3, %2) {transpose_a=False, transpose_b=True}
  return %4
  update %w = %2
}
""")
    calls = [i for i in lower(driver.optimize(graph), target).instructions if isinstance(i, Call)]
    assert len(calls) == 4 + 1 + 2
    one = driver.compile_graph(parse_graph("""
graph g(%x: float32[16,40] input, %w: float32[40,40] input) {
  %0: float32[16,40] = matmul(%x, %w) {transpose_a=False, transpose_b=True}
  return %0
}
"""), target)
    rng = np.random.default_rng(5)
    x, w = (rng.uniform(-1, 1, v.shape).astype(np.float32) for v in graph.inputs)
    got, new = driver.compile_graph(graph, target)([x, w])
    for matrix in (w, w, -w, -w):
        (x,) = one([x, matrix])
    assert got.tobytes() == x.tobytes()
    assert new.tobytes() == (-w).tobytes()


@pytest.mark.parametrize("itemsize", [2, 4, 8, 16])
def test_accumulators_hold_every_chain_that_takes_something(itemsize: int) -> None:
    """And no vector stays empty, whatever the lanes; short axes have half as many chains."""
    whole = 128 // itemsize
    for extent in (*range(1, 140), 1000):
        count = order.chains(itemsize, extent)
        assert count == (whole if extent >= whole else whole // 2)
        for lanes in (1, 2, 4, 8, 16):
            vectors = order.accumulators(itemsize, extent, lanes)
            assert min(count, extent) <= vectors * lanes <= max(count, lanes)
            assert vectors == 1 or vectors // 2 * lanes < extent
