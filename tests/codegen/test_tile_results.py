"""Products whose tile stores have several results: a step of an optimizer, and what it replaces."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import cellc as ms
import cellc_runtime
from cellc import nn
from cellc.compiled.traced import trace
from cellc_compiler import driver
from cellc_compiler.backends.cpu.patterns import epilogues
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.lower.instructions import Call, Copy, walk
from cellc_runtime.target import AVX512, Target, host_targets

from .plans import guarded

TARGETS = list(host_targets())
SHAPES = ((5, 17, 33), (1, 6, 40), (40, 1, 19), (128, 70, 65), (3, 29, 2), (256, 37, 50))
"""(k, m, n)."""


@pytest.fixture(autouse=True)
def same_threads() -> Iterator[None]:
    before = cellc_runtime.num_threads()
    yield
    cellc_runtime.set_num_threads(before)


def step(k: int, m: int, n: int, dtype: str = "float32", more: str = "", returns: str = "%r",
         transposed: bool = True) -> Graph:
    """w and its moment v, updated by the gradient x' y."""
    x = f"{k},{m}" if transposed else f"{m},{k}"
    t = f"{dtype}[{m},{n}]"
    return parse_graph(f"""
graph g(%x: {dtype}[{x}] input, %y: {dtype}[{k},{n}] input, %r: {dtype}[] input, %w: {t} param,
        %v: {t} param) {{
  %g: {t} = matmul(%x, %y) {{transpose_a={transposed}, transpose_b=False}}
  %a: {t} = mul(%v, %r) {{}}
  %b: {t} = add(%a, %g) {{}}
  %c: {t} = mul(%b, %r) {{}}
  %d: {t} = sub(%w, %c) {{}}
{more}
  return {returns}
  update %v = %b
  update %w = %d
}}
""")


def instructions(graph: Graph, target: Target = AVX512) -> list[Call | Copy]:
    lowered = driver.lower(driver.optimize(graph, target=target), target)
    return [i for i in walk(lowered.instructions) if isinstance(i, (Call, Copy))]


def check(graph: Graph, target: Target, apart: Graph) -> None:
    """The bits are those of a graph that returns the gradient as well, so that it is in memory."""
    rng = np.random.default_rng(3)
    arrays = [guarded(rng.standard_normal(v.shape).astype(v.dtype.numpy)) if v.shape else
              np.asarray(0.9, v.dtype.numpy) for v in graph.inputs]
    labels = [i.label for i in instructions(apart, target) if isinstance(i, Call)]
    assert any(label == "matmul" for label in labels)
    wanted = driver.compile_graph(apart, target)(arrays)
    compiled = driver.compile_graph(graph, target)
    for threads in (1, 3):
        cellc_runtime.set_num_threads(threads)
        for a, b in zip(compiled(arrays)[-2:], wanted[-2:], strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_step_is_stored_where_its_gradient_would_be(
    target: Target, shape: tuple[int, int, int]
) -> None:
    graph = step(*shape)
    found = instructions(graph, target)
    assert not any(isinstance(i, Copy) and i.nbytes > 8 for i in found)  # in place
    assert sum(len(i.places) >= 5 for i in found if isinstance(i, Call)) == 1
    check(graph, target, step(*shape, returns="%g"))


def test_other_operands_and_types() -> None:
    graph = step(40, 33, 18, "float64", transposed=False)
    check(graph, TARGETS[0], step(40, 33, 18, "float64", returns="%g", transposed=False))


def test_long_products_leave_the_step_to_a_pass_of_its_own() -> None:
    calls = [i for i in instructions(step(300, 37, 50)) if isinstance(i, Call)]
    assert [bool(c.heads) for c in calls if not c.label.endswith("(part)")][-1]
    assert not any(c.label == "matmul+mul+add+mul+sub" for c in calls)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_accumulators_do_not_wait_where_operands_are(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In blocks of k the partial sums have memory of their own: the weight is still to be read."""
    monkeypatch.setattr(epilogues, "_SHORT", 10_000)
    graph = step(2600, 150, 50)
    (call,) = (i for i in instructions(graph, target) if isinstance(i, Call)
               and len(i.places) >= 7)
    slots = [p.base for p in call.places]
    assert not isinstance(slots[-1], int)
    assert 3 in slots and 4 in slots
    check(graph, target, step(2600, 150, 50, returns="%g"))


def test_what_is_read_later_is_not_replaced() -> None:
    """The old weight is read behind the step, so the new one is copied at the end."""
    later = "  %s: float32[128,128] = matmul(%w, %d) {transpose_a=False, transpose_b=True}"
    graph = step(16, 128, 33, more=later, returns="%s")
    assert any(isinstance(i, Call) and len(i.places) >= 5 for i in instructions(graph))
    arrays = [np.random.default_rng(0).standard_normal(v.shape).astype(np.float32)
              for v in graph.inputs]
    old = arrays[3].copy()
    product, _, new = driver.compile_graph(graph, TARGETS[0])(arrays)
    np.testing.assert_allclose(product, old @ new.T, rtol=1e-4, atol=1e-4)


def test_a_product_by_the_weight_itself_is_not_computed_in_place() -> None:
    t, w_bytes = "float32[48,48]", 4 * 48 * 48
    text = f"""
graph g(%w: {t} param, %x: {t} input) {{
  %p: {t} = matmul(%w, %x) {{transpose_a=False, transpose_b=False}}
  %q: {t} = add(%p, %w) {{}}
  %r: float32[48] = reduce_max(%x) {{axes=(1,), keepdims=False}}
  return %r
  update %w = %q
}}
"""
    graph = parse_graph(text)
    assert any(isinstance(i, Copy) and i.nbytes == w_bytes for i in instructions(graph))
    w, x = np.random.default_rng(1).integers(-3, 4, (2, 48, 48)).astype(np.float32)
    got = driver.compile_graph(graph, TARGETS[0])([w.copy(), x])
    np.testing.assert_array_equal(got[-1], w @ x + w)


def test_two_results_of_a_forward_product() -> None:
    t = "float32[50,70]"
    graph = parse_graph(f"""
graph g(%x: float32[50,30] input, %y: float32[30,70] input, %b: float32[70] input) {{
  %p: {t} = matmul(%x, %y) {{transpose_a=False, transpose_b=False}}
  %q: {t} = add(%p, %b) {{}}
  %r: {t} = relu(%q) {{}}
  return %q, %r
}}
""")
    (call,) = (i for i in instructions(graph) if isinstance(i, Call))
    assert len(call.places) == 5
    x, y, b = (np.random.default_rng(2).integers(-3, 4, s).astype(np.float32)
               for s in ((50, 30), (30, 70), (70,)))
    for target in TARGETS:
        got = driver.compile_graph(graph, target)([x, y, b])
        np.testing.assert_array_equal(got[0], x @ y + b)
        np.testing.assert_array_equal(got[1], np.maximum(x @ y + b, 0))


@pytest.mark.parametrize("shape", ["2,25,70", "50,7,10", "5,10,70"])
def test_results_of_another_shape(shape: str) -> None:
    """What follows a product of rows of a batch has the batch's shape."""
    t = f"float32[{shape}]"
    graph = parse_graph(f"""
graph g(%x: float32[50,30] input, %y: float32[30,70] input, %z: {t} input, %b: float32[] input) {{
  %p: float32[50,70] = matmul(%x, %y) {{transpose_a=False, transpose_b=False}}
  %s: {t} = reshape(%p) {{shape=({shape})}}
  %q: {t} = add(%s, %z) {{}}
  %r: {t} = mul(%q, %b) {{}}
  return %q, %r
}}
""")
    (call,) = (i for i in instructions(graph) if isinstance(i, Call))
    assert len(call.places) == 6
    x, y, z = (np.random.default_rng(2).integers(-3, 4, v.shape).astype(np.float32)
               for v in graph.inputs[:3])
    got = driver.compile_graph(graph, TARGETS[0])([x, y, z, np.float32(3)])
    wanted = (x @ y).reshape(z.shape) + z
    np.testing.assert_array_equal(got[0], wanted)
    np.testing.assert_array_equal(got[1], wanted * 3)


def test_a_vector_along_a_part_of_the_rows_is_no_bias() -> None:
    t = "float32[50,7,10]"
    graph = parse_graph(f"""
graph g(%x: float32[50,30] input, %y: float32[30,70] input, %z: float32[7,1] input,
        %b: float32[10] input) {{
  %p: float32[50,70] = matmul(%x, %y) {{transpose_a=False, transpose_b=False}}
  %s: {t} = reshape(%p) {{shape=(50, 7, 10)}}
  %q: {t} = add(%s, %z) {{}}
  %r: {t} = mul(%q, %b) {{}}
  return %r
}}
""")
    x, y, z, b = (np.random.default_rng(2).integers(-3, 4, v.shape).astype(np.float32)
                  for v in graph.inputs)
    got = driver.compile_graph(graph, TARGETS[0])([x, y, z, b])
    np.testing.assert_array_equal(got[0], ((x @ y).reshape(50, 7, 10) + z) * b)


def test_gradients_of_dense_layers_are_never_in_memory() -> None:
    net = nn.SequentialCell([nn.Dense(a, b) for a, b in ((5, 20), (20, 30), (30, 40), (40, 18))])
    loss = nn.WithLossCell(net, nn.MSELoss())
    step_cell = nn.TrainOneStepCell(loss, nn.Adam(net.trainable_params())).set_train()
    x, y = ms.Tensor(np.ones((4, 5), np.float32)), ms.Tensor(np.ones((4, 18), np.float32))
    calls = [i for i in instructions(trace(step_cell, (x, y), {}).graph) if isinstance(i, Call)]
    assert not any(c.heads for c in calls)
    steps = [c for c in calls if c.label.startswith("matmul+") and c.label.endswith("sub")
             and c.most_expensive]
    assert len(steps) == 4
