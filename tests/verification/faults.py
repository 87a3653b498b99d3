"""Faults planted in the compiler, one per process, and the report of a network that meets them.

`python tests/verification/faults.py NAME` prints the report as JSON (`none`: without one). A
process of its own with a cache of its own, so that nothing compiled with a fault is found by
anybody else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc.core.dispatch import active_tracer
from cellc.lang.interpreter import Interpreter
from cellc.tensors.seed import Generator
from cellc.tracing.tracer import Tracer
from cellc.verification import Report, verify
from cellc_compiler.autodiff import reverse
from cellc_compiler.backends.llvm.math import exp as exps
from cellc_compiler.ir.graph import Builder, Graph, Node, Value
from cellc_compiler.ir.op import lookup
from cellc_compiler.passes import pipeline
from cellc_compiler.passes.base import Pass, rewrite

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
SCALE, OTHER = 2.0, 5.0


class Net(nn.Cell):
    """One of everything that a fault is planted in; the lines are told by their comments."""

    def __init__(self) -> None:
        super().__init__()
        self.w = Parameter(np.linspace(-1, 1, 36).reshape(6, 6).astype(np.float32), name="w")
        self.mean = Parameter(np.zeros(6, np.float32), name="mean", requires_grad=False)

    def construct(self, x: Tensor) -> Tensor:
        h = ops.tanh(ops.matmul(x, self.w))  # tanh
        h = h - x  # sub
        h = ops.softmax(h, -1) * SCALE  # softmax
        if h.sum() > 0:
            h = h * 1.5  # branch
        else:
            h = h + 7
        i = 0
        while i < x[0, 0].astype(ms.int32) * 0 + 3:  # loop
            h = h * 1.25 + 0.5
            i = i + 1
        h = h.astype(ms.float16).astype(ms.float32)  # cast
        h = h + ops.standard_normal((4, 6)) * ops.exp(x)  # draw
        self.mean = 0.9 * self.mean + 0.1 * h.mean(0)
        return h * h + h


class Rewriting(Pass):
    """A pass with a fault, in graphs of networks (not of single ops)."""

    name = "planted"

    def __init__(self, rule: Callable[[Builder, Node], Any]) -> None:
        self.rule = rule

    def run(self, graph: Graph) -> bool:
        """Rewrite."""
        return len(graph.nodes) > 4 and rewrite(graph, self.rule)


def planted_pass(rule: Callable[[Builder, Node], Any]) -> None:
    """Put a faulty pass in front of the others."""
    pipeline.PIPELINE = (Rewriting(rule), *pipeline.PIPELINE)


def wrong_rewrite() -> None:
    """A difference becomes a sum."""
    planted_pass(lambda b, n: [b.add(*n.operands)]
                 if n.op == "sub" and n.result.shape == X.shape else None)


def forgotten_cast() -> None:
    """float32 to float16 and back goes away."""
    def rule(b: Builder, node: Node) -> Any:
        before = node.operands[0].node if node.operands else None
        if node.op == "cast" and before is not None and before.op == "cast" and \
                before.operands[0].type == node.result.type:
            return [before.operands[0]]
        return None

    planted_pass(rule)


def swapped_branches() -> None:
    """The branches of a condition change places."""
    def rule(b: Builder, node: Node) -> Any:
        if node.op != "cond":
            return None
        return b.node("cond", node.operands, node.attrs, node.regions[::-1]).results

    planted_pass(rule)


def one_trip_more() -> None:
    """A loop's test holds at the limit too."""
    def rule(b: Builder, node: Node) -> Any:
        if node.op != "while":
            return None
        test, body = node.regions
        rewrite(test, lambda b, n: [b.le(*n.operands)] if n.op == "lt" else None)
        return b.node("while", node.operands, node.attrs, (test, body)).results

    planted_pass(rule)


def lost_update() -> None:
    """What the network assigns does not leave the graph."""
    class Lose(Pass):
        name = "planted"

        def run(self, graph: Graph) -> bool:
            graph.updates = [(old, old if old.name == "mean" else new)
                             for old, new in graph.updates]
            return True

    pipeline.PIPELINE = (Lose(), *pipeline.PIPELINE)


def wrong_kernel() -> None:
    """A coefficient of the polynomial of exp, in all that is compiled."""
    right = exps._exp_reduced
    exps._exp_reduced = lambda r: right(r) * 1.0001


def wrong_rule() -> None:
    """The gradient of tanh."""
    type(lookup("tanh")).gradient = type(lookup("sin")).gradient


def wrong_expansion() -> None:
    """softmax is made of a little more."""
    op = type(lookup("softmax"))
    right = op.expand

    def wrong(self: Any, b: Builder, x: Value, **attrs: Any) -> Value:
        out: Value = right(self, b, x, **attrs)
        return b.mul(out, b.scalar(1.01, out))

    op.expand = wrong


def wrong_name() -> None:
    """The tracer takes a global for another."""
    right = Interpreter.load_global

    def wrong(self: Any, name: str, table: dict[str, Any]) -> Any:
        return right(self, "OTHER" if name == "SCALE" else name, table)

    Interpreter.load_global = wrong


def wrong_draw() -> None:
    """A traced draw takes two steps of the generator."""
    right = Generator.next_key

    def wrong(self: Any) -> Any:
        key = right(self)
        return right(self) if active_tracer() is not None else key

    Generator.next_key = wrong


def lost_contribution() -> None:
    """Only the last contribution to a cotangent counts."""
    def wrong(b: Builder, cotangents: dict[Value, Value], value: Value, grad: Value) -> None:
        cotangents[value] = grad

    reverse.accumulate = wrong


def lost_assignment() -> None:
    """The tracer drops an assignment in a graph, so that later reads see the old value."""
    right = Tracer.assign
    Tracer.assign = lambda self, p, v: None if p.name == "mean" else right(self, p, v)


FAULTS: dict[str, Callable[[], None]] = {
    f.__name__: f for f in (
        wrong_rewrite, forgotten_cast, swapped_branches, one_trip_more, lost_update, wrong_kernel,
        wrong_rule, wrong_expansion, wrong_name, wrong_draw, lost_contribution, lost_assignment)}


def report(name: str) -> Report:
    """What verification says with a fault; `none` for without."""
    if name != "none":
        FAULTS[name]()
    ms.set_seed(0)
    return verify(Net(), Tensor(X), seeds=(3,))


if __name__ == "__main__":
    print(report(sys.argv[1]).to_json())
