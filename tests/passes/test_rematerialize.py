"""Which forward values are kept: minimum cuts, and copies that change nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cellc as ms
from cellc import nn, ops
from cellc.compiled.traced import trace
from cellc_compiler import interpret
from cellc_compiler.driver import compile_graph
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.ir.verify import verify
from cellc_compiler.lower import memory
from cellc_compiler.lower.memory import Buffer
from cellc_compiler.passes import base, pipeline, rematerialize
from cellc_compiler.passes.rematerialize import Choice, Level


def price_of(kept, values, edges, read):
    """What keeping some values costs; None if something that is read cannot be had."""
    have = set(kept)
    for v, (_, fixed) in enumerate(values):
        operands = [a for a, b in edges if b == v]
        if v not in have and not fixed and all(a in have for a in operands):
            have.add(v)
    return sum(values[v][0] for v in kept) if read <= have else None


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_cuts_are_minimal(data):
    n = data.draw(st.integers(1, 6))
    values = [(data.draw(st.integers(1, 9)), data.draw(st.booleans())) for _ in range(n)]
    edges = [(a, b) for a, b in itertools.combinations(range(n), 2) if data.draw(st.booleans())]
    read = {v for v in range(n) if data.draw(st.booleans())} or {n - 1}
    net = []
    for v, (price, fixed) in enumerate(values):
        at = 2 * (v + 1)
        net.append((at, at + 1, price))
        if fixed:
            net.append((0, at, None))
        if v in read:
            net.append((at + 1, 1, None))
        if not fixed:
            net += [(2 * (a + 1) + 1, at, None) for a, b in edges if b == v]
    kept = {i - 1 for i in rematerialize._minimum_cut(tuple(net))}
    every = itertools.chain.from_iterable(
        itertools.combinations(range(n), k) for k in range(n + 1))
    prices = [p for k in every if (p := price_of(k, values, edges, read)) is not None]
    assert price_of(kept, values, edges, read) == min(prices)


class Deep(nn.Cell):
    """Layers as a recipe says, with ways around them."""

    def __init__(self, recipe):
        super().__init__()
        self.recipe = recipe
        self.dense = nn.CellList([nn.Dense(6, 6) for _ in recipe])
        self.norm, self.drop = nn.LayerNorm((6,)), nn.Dropout(p=0.3)
        self.set_train()

    def construct(self, x):
        first = x
        for kind, dense in zip(self.recipe, self.dense, strict=True):
            if kind == "dense":
                x = ops.tanh(dense(x))
            elif kind == "residual":
                x = x + ops.gelu(dense(x))
            elif kind == "norm":
                x = self.norm(x) * 2.0
            elif kind == "drop":
                x = self.drop(x)
            elif kind == "wave":
                x = ops.sin(x) * ops.exp(-x * x) + first
            else:
                x = ops.softmax(x.reshape(3, 8, 1), 1).reshape(4, 6) + ops.relu(x.swapaxes(0, 1)
                                                                                .reshape(4, 6))
        return (x * x).sum()


KINDS = ["dense", "residual", "norm", "drop", "wave", "views"]


def prepared(fn, x):
    """A traced call after the passes, its turns still there; and arrays for its inputs."""
    traced = trace(fn, [x], {})
    graph = pipeline.run_pipeline(
        base.copy_graph(traced.graph), pipeline.keeping_cotangents("strict"))
    return graph, [x.asnumpy(), *(np.array(p._data) for p in traced.parameters)]


def check(graph, arrays, choice):
    """Recomputation gives what was there before, to the bit."""
    want = interpret.run(graph, arrays)
    again = base.copy_graph(graph)
    foreseen = [rematerialize.Part(g, t).predict(choice)
                for g in rematerialize.graphs_with_gradients(again)
                for t in rematerialize.backward_starts(g)]
    done = rematerialize.rematerialize(again, choice)
    if len(foreseen) == 1:
        assert foreseen[0].flops == done.flops
    verify(again)
    pipeline.run_pipeline(again, pipeline.CLEAN)
    verify(again)
    assert not any(n.op == "cotangent" for n in again.walk())
    for a, b in zip(want, interpret.run(again, arrays), strict=True):
        np.testing.assert_array_equal(a, b)
    return done


@given(recipe=st.lists(st.sampled_from(KINDS), min_size=1, max_size=7),
       levels=st.lists(st.sampled_from(list(Level)), min_size=1, max_size=5))
@settings(max_examples=40, deadline=None)
def test_random_networks(recipe, levels):
    net = Deep(recipe)
    step = ms.value_and_grad(net, 0, net.trainable_params())
    x = ms.Tensor(np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6))
    graph, arrays = prepared(ms.jit(lambda x: step(x)).fn, x)
    check(graph, arrays, Choice(tuple(levels)))


@pytest.mark.parametrize("choice", [
    (Level.ALL,) * 4, (Level.ALL, Level.ELEMENTWISE), (Level.REDUCTIONS,), (Level.NOTHING,)])
def test_gradients_of_gradients(choice):
    net = Deep(["residual", "wave", "drop", "dense"])
    weights = net.trainable_params()

    def penalty(x):
        return ms.grad(lambda x: (ms.grad(net)(x) ** 2).sum(), 0, weights)(x)

    x = ms.Tensor(np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6))
    graph, arrays = prepared(penalty, x)
    assert len(rematerialize.backward_starts(graph)) == 2
    check(graph, arrays, Choice(choice))


def test_more_may_be_done_again_with_each_level():
    net = Deep(["norm", "residual", "wave", "dense", "residual", "norm"] * 3)
    step = ms.value_and_grad(net, 0, net.trainable_params())
    x = ms.Tensor(np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6))
    graph, arrays = prepared(lambda x: step(x), x)
    found = [check(graph, arrays, Choice((level,) * 2)) for level in Level]
    kept = [sum(item.nbytes for item in o.saved) for o in found]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] > 2 * kept[-1]
    assert not found[0].recomputed
    for level, outcome in zip(Level, found, strict=True):
        assert all(rematerialize.node_level(item.value.node) <= level
                   for item in outcome.recomputed)


def test_effects_and_loops_are_never_copied():
    class Loud(nn.Cell):
        def construct(self, x):
            y = ops.exp(x)
            while y.sum() < 100.0:
                y = y * 1.5
            ops.print_("once")
            return (ops.sin(y) * ops.exp(y * 0.01)).sum()

    step = ms.value_and_grad(Loud())
    x = ms.Tensor(np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6))
    traced = trace(lambda x: step(x), [x], {})
    graph = pipeline.run_pipeline(
        base.copy_graph(traced.graph), pipeline.keeping_cotangents("strict"))
    count = {op: sum(n.op == op for n in graph.nodes) for op in ("while", "host_call", "cond")}
    rematerialize.rematerialize(graph, Choice((Level.ALL,) * 3))
    verify(graph)
    assert count == {op: sum(n.op == op for n in graph.nodes) for op in count}
    assert count["host_call"] == 1


def test_a_turn_is_only_there_for_a_gradient_and_goes_with_the_passes():
    x = ms.Tensor(np.ones((2, 2), np.float32))
    plain = trace(lambda x: ops.sin(x), [x], {}).graph
    assert not rematerialize.backward_starts(plain)
    grad = trace(ms.grad(lambda x: ops.sin(x).sum()), (x,), {}).graph
    assert len(rematerialize.backward_starts(grad)) == 1
    pipeline.run_pipeline(grad)
    assert not rematerialize.backward_starts(grad)


def test_timelines():
    buffers = [Buffer(100, 0, 9), Buffer(1000, 2, 3), Buffer(64, 9, 9)]
    assert memory.timeline(buffers, 10) == [128, 128, 1152, 1152, *[128] * 5, 192]
    assert memory.timeline(buffers, 2) == [1152, 192]
    assert memory.timeline(buffers, 64) == memory.timeline(buffers, 10)
    assert memory.timeline([], 8) == [0]


def test_a_name_of_a_member_is_read_in_its_nest() -> None:
    """`%1` is another name of `%0` because a convolution reads it; the loops that compute `%0` and
    `%2` must not look for it in memory, where it is not yet."""
    graph = parse_graph("""graph g(%x: float32[1,4,6,6] input, %w: float32[4,4,1,1] input) {
      %0: float32[1,4,6,6] = tanh(%x) {}
      %1: float32[1,4,6,6] = after(%0, %w) {}
      %2: float32[1,4,6,6] = sigmoid(%1) {}
      %3: float32[1,4,6,6] = conv2d(%1, %w) {stride=(1, 1), pads=(0, 0, 0, 0), dilation=(1, 1), groups=1}
      return %2, %3
    }""")  # noqa: E501
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(v.shape).astype(np.float32) for v in graph.inputs]
    expected = interpret.run(graph, arrays)
    for got, wanted in zip(compile_graph(graph)(arrays), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("most", [2, 3, 4, 6])
def test_of_many_choices_some_are_tried_the_ends_among_them(most):
    """No one beats another; the least work comes first, the least memory last."""
    net = Deep(KINDS * 2)
    graph, _ = prepared(ms.value_and_grad(net, 0, net.trainable_params()),
                        ms.Tensor(np.ones((4, 6), np.float32)))
    every = rematerialize.worth_trying(graph, 1000)
    some = rematerialize.worth_trying(graph, most)
    assert len(every) > 3 and len(some) == min(most, len(every))
    place = [[c for c, _ in every].index(c) for c, _ in some]
    assert place == sorted(set(place)) and place[0] == 0 and place[-1] == len(every) - 1
    for (_, a), (_, b) in itertools.pairwise(every):
        assert a.flops <= b.flops and b.estimate < a.estimate
