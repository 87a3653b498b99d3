"""Faults planted in the compiler, and what `bisect` says of each: the stage, the node, the graph.

The table of docs/architecture/testing.md is of these.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops, testing
from cellc.lang import operators
from cellc.testing import Bisection
from cellc_compiler import driver
from cellc_compiler.backends.cpu.kernels.gemm.arith import Arith
from cellc_compiler.backends.cpu.nests.epilogue import Fused
from cellc_compiler.backends.llvm.expressions import ExpressionEmitter
from cellc_compiler.ir.op import lookup
from cellc_compiler.passes import cleanup, split

RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 6)).astype(np.float32)
Plant = Callable[[pytest.MonkeyPatch], None]


def of_op(op: str, member: str, make: Callable[[Any], Any]) -> Plant:
    """Replace a member of an op's definition by what is made of it."""
    def plant(patch: pytest.MonkeyPatch) -> None:
        cls = type(lookup(op))
        patch.setattr(cls, member, make(getattr(cls, member)))

    return plant


def of_function(owner: Any, name: str, make: Callable[[Any], Any]) -> Plant:
    """Replace a function of the compiler by what is made of it."""
    return lambda patch: patch.setattr(owner, name, make(getattr(owner, name)))


def simplifies_to_its_operand(old: Any) -> Any:
    def simplify(self: Any, b: Any, node: Any) -> Any:
        return node.operands[0]

    return simplify


def one_more(old: Any) -> Any:
    def evaluate(node: Any, arrays: Any) -> Any:
        more = node.op == "add"
        return tuple(np.asarray(a + more).astype(a.dtype) for a in old(node, arrays))

    return evaluate


def half(old: Any) -> Any:
    def rule(b: Any, node: Any) -> Any:
        found = old(b, node)
        return found and [b.mul(found[0], b.scalar(0.5, found[0]))]

    return rule


def without_scale(old: Any) -> Any:
    def expand(self: Any, b: Any, x: Any, *, axis: int) -> Any:
        return b.exp(old(self, b, x, axis=axis))

    return expand


def twice(old: Any) -> Any:
    def mac(self: Any, f: Any, acc: Any, a: Any, b: Any) -> Any:
        return old(self, f, old(self, f, acc, a, b), a, b)

    return mac


def swapped(old: Any) -> Any:
    def compute(self: Any, e: Any, scope: Any) -> Any:
        if e.op == "sub":
            e = type(e)(e.op, tuple(reversed(e.args)), e.dtype, e.payload)
        return old(self, e, scope)

    return compute


def forgotten(old: Any) -> Any:
    return lambda self, f, target, acc, *rest: acc


def all_at_the_start(old: Any) -> Any:
    def plan(buffers: Any) -> int:
        buffers = list(buffers)
        total: int = old(buffers)
        for b in buffers:
            b.offset = 0
        return total

    return plan


def doubled_gradient(old: Any) -> Any:
    def gradient(self: Any, b: Any, node: Any, dys: Any) -> Any:
        (g,) = old(self, b, node, dys)
        return [g and b.add(g, g)]

    return gradient


def of_the_first_example(old: Any) -> Any:
    def batch(self: Any, b: Any, node: Any, xs: Any, mapped: Any, n: int) -> Any:
        first = b.slice(xs[0], start=(0,) * xs[0].type.rank, stop=(1, *xs[0].shape[1:]))
        return old(self, b, node, [b.broadcast_to(first, shape=xs[0].shape)], mapped, n)

    return batch


class Differs(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        y = ops.tanh(x) * 2
        return ops.exp(y - x) + y


class Sums(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        y = ops.abs(x)
        return ops.cumsum(y, 0) * ops.cumsum(y, 1)


class Constants(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return ops.relu(x) * (ops.ones((6,), ms.float32) + ops.full((6,), 2.0, dtype=ms.float32))


class Dense(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.w = ms.Parameter(RNG.standard_normal((6, 6)).astype(np.float32), name="w")

    def construct(self, x: Tensor) -> Tensor:
        return ops.softmax(ops.relu(ops.matmul(ops.tanh(x), self.w) + 1.0), -1).sum(0)


class Biased(Dense):
    def construct(self, x: Tensor) -> Tensor:
        return ops.relu(ops.matmul(x, self.w) + 1.0)


FAULTS: dict[str, tuple[Plant, Any, tuple[Any, ...], dict[str, Any], str, str, str]] = {
    # fault: (plant, network, inputs, options, symptom, stage, op)
    "simplification": (
        of_op("sub", "simplify", simplifies_to_its_operand), Differs, (X,), {},
        "reference", "pass simplify", "sub"),
    "constant folding": (
        of_function(cleanup, "evaluate", one_more), Constants, (X,), {},
        "modes", "pass fold-constants", "add"),
    "common subexpressions": (
        of_function(cleanup, "attrs_key", lambda old: lambda attrs: ()), Sums, (X,), {},
        "modes", "pass cse", "cumsum"),
    "expansion": (
        of_op("softmax", "expand", without_scale), Dense, (X,), {},
        "reference", "pass expand", "softmax"),
    "splitting of reductions": (
        of_function(split, "split_sum", half), lambda x: ops.exp(x).sum() * 2,
        (RNG.standard_normal((4, 65536)).astype(np.float32),), {},
        "reference", "pass split-reductions", "reduce_sum"),
    "kernel of products": (
        of_function(Arith, "mac", twice), Dense, (X,), {},
        "reference", "code generation", "matmul"),
    "code of a loop nest": (
        of_function(ExpressionEmitter, "_compute", swapped), Differs, (X,), {},
        "reference", "code generation", "sub"),
    "epilogue of a kernel": (
        of_function(Fused, "emit", forgotten), Biased, (X,), {},
        "modes", "code generation", "add"),
    "memory plan": (
        of_function(driver.memory, "plan", all_at_the_start), Sums, (X,), {},
        "modes", "code generation", "mul"),
    "gradient": (
        of_op("tanh", "gradient", doubled_gradient), Dense, (X,), {"grad": True},
        "rule", "rules of tanh", "tanh"),
    "gradient inside a composition": (
        of_op("rms_normalize", "gradient", doubled_gradient),
        lambda x: ops.rms_norm(x, ops.ones((6,)))[0], (X,),
        {"grad": True}, "rule", "rules of rms_norm", "rms_norm"),
    "batching": (
        of_op("cumsum", "batch", of_the_first_example), Sums, (X,), {"grad": True},
        "rule", "rules of cumsum", "cumsum"),
    "tracer": (
        lambda patch: patch.setitem(operators.BINARY, ast.Sub, operator.add), Differs, (X,), {},
        "tracing", "tracing", "add"),
}


LEFT = {
    "simplification": 1,
    "constant folding": 3,
    "common subexpressions": 2,
    "expansion": 1,
    "splitting of reductions": 1,
    "kernel of products": 1,
    "code of a loop nest": 1,
    "epilogue of a kernel": 2,
    "memory plan": 3,
    "gradient": 1,
    "gradient inside a composition": 1,
    "batching": 1,
    "tracer": 5,
}
"""How many nodes the smallest graph has; that of the tracer's fault is the whole."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(
    fault: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant, network, inputs, options, symptom, stage, op = FAULTS[fault]
    given = [Tensor(a) for a in inputs]
    assert not testing.bisect(made(network), *given, isolate=False, **options).found
    monkeypatch.setenv("CELLC_CACHE_DIR", str(tmp_path))
    with monkeypatch.context() as patch:
        plant(patch)
        found = testing.bisect(made(network), *given, isolate=False, **options)
        assert (found.symptom, found.stage) == (symptom, stage), str(found)
        assert found.op == op and op in ops_of(found), str(found)
        assert __file__.endswith(Path(found.span.split(":")[0]).name)
        assert len(ops_of(found)) == LEFT[fault], str(found)
        still_there(found, tmp_path)
    assert found.case is not None
    assert not again(found, tmp_path).found


def made(network: Any) -> Any:
    """A network that has not been compiled."""
    return network() if isinstance(network, type) else network


def ops_of(found: Bisection) -> list[str]:
    """The ops of the smallest graph."""
    assert found.case is not None and found.case.graph is not None
    return [n.op for n in found.case.graph.nodes if not n.is_constant]


def again(found: Bisection, folder: Path) -> Bisection:
    """The bisection of what was written."""
    found.save(folder / "smallest.txt")
    return testing.bisect(folder / "smallest.txt", isolate=False)


def still_there(found: Bisection, folder: Path) -> None:
    """The text of the smallest graph shows the same fault."""
    if found.symptom != "tracing":
        assert again(found, folder).symptom == found.symptom
