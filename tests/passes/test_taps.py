"""Taps: what a tapped graph shows, and in which order; the graph itself stays as it was."""

from __future__ import annotations

from typing import Any

import numpy as np

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc.compiled.traced import trace
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.text import print_graph
from cellc_compiler.ir.verify import verify
from cellc_compiler.passes.taps import Tap, tapped


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.w = Parameter(np.ones((2, 2), np.float32), name="w")

    def construct(self, x: Any) -> Any:
        y = ops.matmul(x, self.w)
        n = ops.argmax(y, 1).sum()
        while n < 3:
            y = ops.sin(y) * self.w
            n = n + 1
        return y.sum()


def taps_of(fn: Any, *args: Any) -> tuple[Graph, Graph, list[Tap]]:
    graph = trace(fn, args, {}).graph
    found: list[Tap] = []

    def number(tap: Tap) -> int:
        found.append(tap)
        return len(found)

    return graph, tapped(graph, number, 0), found


X = Tensor(np.ones((2, 2), np.float32))


def test_each_float_result_is_shown_behind_its_node() -> None:
    graph, after, taps = taps_of(Net(), X)
    before = print_graph(graph)
    verify(after)
    assert print_graph(graph) == before
    calls = [n for n in after.walk() if n.op == "host_call"]
    assert sorted(n.attrs["number"] for n in calls) == list(range(len(taps) + 1))
    assert {t.node.op for t in taps} >= {"matmul", "sin", "mul"}
    assert not {"argmax", "lt", "constant"} & {t.node.op for t in taps}
    assert after.nodes[0].op == "host_call" and after.nodes[0].attrs["number"] == 0
    place = next(i for i, n in enumerate(after.nodes) if n.op == "matmul")
    shown = after.nodes[place + 1]
    assert (shown.op, shown.attrs["name"]) == ("host_call", "tap matmul")
    assert shown.operands == [after.nodes[place].result, *after.nodes[place].operands]


def test_parameters_are_known_in_loops() -> None:
    graph, _, taps = taps_of(Net(), X)
    w = next(v for v in graph.inputs if v.name == "w")
    mul = next(t for t in taps if t.node.op == "mul")
    assert [v for _, v in mul.inputs] == [None, w]
    matmul = next(t for t in taps if t.node.op == "matmul")
    assert [v and v.name for _, v in matmul.inputs] == ["x", "w"]


def test_a_gradient_shows_what_it_needs_and_nothing_twice() -> None:
    net = Net()
    _, after, taps = taps_of(ms.grad(net, None, [net.w]), X)
    verify(after)
    forward = [t.node.op for t in taps if not t.node.origin]
    assert forward.count("sin") == 1  # the gradient of the loop steps forward again
    assert {t.node.origin for t in taps} >= {"sin", "mul", "matmul", "reduce_sum"}
    cosine = next(t.node for t in taps if t.node.op == "cos")
    assert (cosine.origin, cosine.span.line > 0) == ("sin", True)


def test_marked_cells_are_looked_into() -> None:
    class Outer(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.SequentialCell(nn.Sigmoid(), nn.Tanh())
            self.inner.recompute()

        def construct(self, x: Any) -> Any:
            return self.inner(x).sum()

    _, after, taps = taps_of(ms.grad(Outer()), X)
    verify(after)
    assert "recompute" not in {n.op for n in after.walk()}
    assert {t.node.scope for t in taps if t.node.op == "tanh"} == {"inner.1"}
