"""Second thoughts of fusion: what is computed again, not stored, and nests that become one."""

from __future__ import annotations

import numpy as np

from cellc_compiler.driver import compile_graph, optimize
from cellc_compiler.fusion.clusters import fuse
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Builder, Graph, Value
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes

BIG = (512, 96)


def inputs(g: Graph, *shapes: tuple[int, ...]) -> list[Value]:
    return [g.add_input(TensorType(s, dtypes.float32), f"x{i}") for i, s in enumerate(shapes)]


def check(g: Graph) -> None:
    """Fused bits are those of one op at a time."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(v.shape).astype(np.float32) for v in g.inputs]
    fused = compile_graph(g)(arrays)
    table = dict(zip(g.inputs, arrays, strict=True))
    for node in g.nodes:
        one = Graph(node.op)
        ins = [one.add_input(v.type, f"a{i}") for i, v in enumerate(node.operands)]
        made = Builder(one).node(node.op, ins, node.attrs)
        one.outputs += made.results
        outs = compile_graph(one)([table[v] for v in node.operands])
        table.update(zip(node.results, outs, strict=True))
    for got, v in zip(fused, g.outputs, strict=True):
        np.testing.assert_array_equal(got, table[v])
    for got, want in zip(fused, run(g, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)


def test_a_product_read_by_rows_and_columns_is_not_stored() -> None:
    g = Graph("both_ways")
    s, gamma, x = inputs(g, BIG, (96,), BIG)
    b = Builder(g)
    scaled = b.mul(s, gamma)
    by_column = b.reduce_sum(b.mul(scaled, x), axes=(0,), keepdims=False)
    total = b.reduce_sum(scaled, axes=(1,), keepdims=True)
    g.outputs += [by_column, b.sub(b.exp(scaled), total)]
    schedule = fuse(optimize(g))
    assert all(v in schedule.inline or v.type.size < 1000 or v in g.outputs
               or v.node is None or v.node.op != "mul" for v in schedule.stored)
    check(g)


def test_what_costs_more_to_read_again_is_stored() -> None:
    g = Graph("wide")
    a, c, d = inputs(g, BIG, BIG, BIG)
    b = Builder(g)
    total = b.add(b.add(a, c), d)  # three arrays, read by columns and by rows
    g.outputs += [b.reduce_sum(total, axes=(0,), keepdims=False),
                  b.reduce_max(total, axes=(1,), keepdims=False)]
    schedule = fuse(optimize(g))
    stored = [v for v in schedule.stored if v.type.size == 512 * 96]
    assert len(stored) == 1
    check(g)


def test_a_loss_and_its_gradient_are_one_nest() -> None:
    """The scale of the gradient needs a count, which must not hold the rows apart."""
    g = Graph("loss")
    x, w = inputs(g, (64, 1000), (64,))
    b = Builder(g)
    peak = b.reduce_max(x, axes=(1,), keepdims=True)
    e = b.exp(b.sub(x, peak))
    total = b.reduce_sum(e, axes=(1,), keepdims=True)
    logp = b.sub(b.sub(x, peak), b.log(total))
    picked = b.reduce_sum(logp, axes=(1,), keepdims=False)
    count = b.reduce_sum(w, axes=(0,), keepdims=False)
    loss = b.div(b.reduce_sum(picked, axes=(0,), keepdims=False), count)
    gradient = b.div(b.exp(logp), count)
    g.outputs += [loss, gradient]
    big = [c for c in fuse(optimize(g)).clusters if c.domain and c.domain.shape == (64, 1000)]
    assert len(big) == 1
    check(g)


def test_what_lies_between_keeps_nests_apart() -> None:
    g = Graph("between")
    (x,) = inputs(g, BIG)
    b = Builder(g)
    rows = b.sub(x, b.reduce_max(x, axes=(1,), keepdims=True))
    columns = b.reduce_sum(rows, axes=(0,), keepdims=True)
    g.outputs.append(b.div(rows, columns))
    schedule = fuse(optimize(g))
    assert len(schedule.clusters) == 2
    assert not any(c.ancestors >> c.number & 1 for c in schedule.clusters)
    check(g)


def test_what_others_read_too_is_not_copied_for_a_product() -> None:
    """A reshape that only a product reads is another name of what is stored for the others."""
    g = Graph("rows")
    x, w, v = inputs(g, (4, 16, 96), (96, 24), (4, 24, 16))
    b = Builder(g)
    e = b.exp(x)
    flat = b.reshape(e, shape=(64, 96))
    g.outputs += [b.matmul(flat, w, transpose_a=False, transpose_b=False),
                  b.matmul(v, e, transpose_a=False, transpose_b=False)]
    schedule = fuse(optimize(g))
    assert sum(v.type.size == 64 * 96 for v in schedule.stored) == 1
    assert len(schedule.clusters) == 3
    check(g)


def test_a_transposition_that_is_reshaped_may_be_a_result() -> None:
    """No node reads the last value: PixelShuffle at the end of a network, for example."""
    g = Graph("moved")
    (x,) = inputs(g, (4, 64, 64))
    b = Builder(g)
    turned = b.transpose(b.relu(x), perm=(0, 2, 1))
    g.outputs.append(b.reshape(turned, shape=(4 * 64 * 64,)))
    check(g)
