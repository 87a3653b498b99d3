"""Random graphs: compiled whole equals node by node, and every pass keeps every bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellc.core.dispatch import apply
from cellc.tensors.tensor import tensor_of
from cellc_compiler.driver import compile_graph
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Builder, Graph, Value
from cellc_compiler.ir.text import parse_graph, print_graph
from cellc_compiler.ir.types import TensorType
from cellc_compiler.ir.verify import verify
from cellc_compiler.passes.base import copy_graph
from cellc_compiler.passes.pipeline import PIPELINE
from cellc_runtime import dtypes

from .law import Array, assert_same

SHAPES = ((3, 4), (4,), (2, 3, 4), (1, 4), (3, 1), (5, 17))
UNARY = ("abs", "neg", "exp", "tanh", "sigmoid", "square", "relu", "sqrt", "floor", "erf")
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum")
REDUCE = ("reduce_sum", "reduce_max", "reduce_mean", "reduce_prod", "reduce_min")
EXACT_UNARY = ("abs", "neg", "square", "relu", "floor")
EXACT_BINARY = ("add", "sub", "mul", "maximum", "minimum")

relaxed = settings(max_examples=120, deadline=None, database=None, derandomize=True,
                   suppress_health_check=[HealthCheck.too_slow])


def axes_of(draw: Any, rank: int) -> tuple[int, ...]:
    """Some axes, at least one."""
    picked = draw(st.sets(st.integers(0, rank - 1), min_size=1))
    return tuple(sorted(picked))


def add_node(draw: Any, b: Builder, values: list[Value], exact: bool) -> Value:
    """One more node over values there are."""
    x: Value = draw(st.sampled_from(values))
    kinds = ["unary", "binary", "binary", "view", "splat", "same"] + ([] if exact else ["reduce"])
    kind = draw(st.sampled_from(kinds if x.shape else ["unary", "binary", "splat"]))
    if kind == "unary":
        return b.emit(draw(st.sampled_from(EXACT_UNARY if exact else UNARY)), x)
    if kind == "reduce":
        axes = axes_of(draw, len(x.shape))
        return b.emit(draw(st.sampled_from(REDUCE)), x, axes=axes, keepdims=draw(st.booleans()))
    if kind == "splat":
        number = b.literal(np.asarray(draw(st.sampled_from((0.0, -0.0, 1.0, 2.5))), np.float32))
        return b.emit(draw(st.sampled_from(EXACT_BINARY)), x, number)
    if kind == "same":
        again = draw(st.sampled_from(EXACT_BINARY))
        return b.sub(b.emit(again, x, x), b.emit(again, x, x))
    if kind == "view":
        return view(draw, b, x)
    fitting = [v for v in values if v.shape in (x.shape, ()) or v.shape == x.shape[1:]]
    return b.emit(draw(st.sampled_from(EXACT_BINARY if exact else BINARY)), x,
                  draw(st.sampled_from(fitting)))


def view(draw: Any, b: Builder, x: Value) -> Value:
    """A transposition, reshape, flip, slice, broadcast or concatenation."""
    rank, shape = len(x.shape), x.shape
    which = draw(st.sampled_from(("transpose", "reshape", "flip", "slice", "broadcast", "concat")))
    if which == "transpose":
        return b.transpose(x, perm=tuple(draw(st.permutations(range(rank)))))
    if which == "reshape":
        return b.reshape(x, shape=draw(st.sampled_from(((x.type.size,), (1, *shape), shape))))
    if which == "flip":
        return b.flip(x, axes=axes_of(draw, rank))
    if which == "slice":
        start = tuple(draw(st.integers(0, d - 1)) for d in shape)
        return b.slice(x, start=start, stop=shape, step=(1,) * rank)
    if which == "broadcast":
        return b.broadcast_to(x, shape=(2, *shape))
    return b.concat(x, b.neg(x), axis=draw(st.integers(0, rank - 1)))


@st.composite
def graphs(draw: Any, exact: bool = False) -> Graph:
    """A graph of up to 14 nodes; the last value and some others are outputs."""
    graph = Graph("random")
    for i in range(draw(st.integers(1, 3))):
        shape = draw(st.sampled_from(SHAPES))
        graph.add_input(TensorType(shape, dtypes.float32), f"x{i}")
    b, values = Builder(graph), list(graph.inputs)
    for _ in range(draw(st.integers(2, 14))):
        new = add_node(draw, b, values, exact)
        if new.type.size <= 4000:
            values.append(new)
    inner = [v for v in values if v.node is not None] or values
    picked = draw(st.lists(st.sampled_from(inner), max_size=2, unique_by=id))
    graph.outputs = [inner[-1], *picked]
    return graph


def inputs(graph: Graph) -> list[Array]:
    """Numbers for the inputs, with edges among them."""
    rng = np.random.default_rng(5)
    out = []
    for v in graph.inputs:
        a = rng.uniform(-2, 2, v.shape).astype(np.float32)
        a.reshape(-1)[:3] = (-0.0, 1.0, 1e-40)
        out.append(a)
    return out


def node_by_node(graph: Graph, arrays: list[Array]) -> list[Array]:
    """The outputs by the eager engine."""
    env = dict(zip(graph.inputs, (tensor_of(a) for a in arrays), strict=True))
    for node in graph.nodes:
        if node.op == "constant":
            env[node.result] = tensor_of(np.array(node.attrs["value"].array))
        else:
            env[node.result] = apply(node.op, *(env[v] for v in node.operands), **node.attrs)
    return [env[v]._data for v in graph.outputs]


@relaxed
@given(graphs())
def test_compiled_whole_equals_node_by_node(graph: Graph) -> None:
    verify(graph)
    arrays = inputs(graph)
    assert_same(compile_graph(graph)(arrays), node_by_node(graph, arrays), print_graph(graph))


@settings(relaxed, max_examples=300)
@given(graphs(exact=True))
def test_every_pass_keeps_every_bit(graph: Graph) -> None:
    arrays = inputs(graph)
    want = run(graph, arrays)
    work = copy_graph(graph)
    for p in PIPELINE:
        before = print_graph(work)
        changed = p.run(work)
        verify(work)
        assert changed == (print_graph(work) != before), p.name
        assert_same(run(work, arrays), want, f"{p.name} of\n{before}")


@settings(relaxed, max_examples=60)
@given(graphs())
def test_text_round_trip(graph: Graph) -> None:
    text = print_graph(graph)
    parsed = parse_graph(text)
    verify(parsed)
    assert print_graph(parsed) == text
    arrays = inputs(graph)
    assert_same(run(parsed, arrays), run(graph, arrays), text)
