"""The judge of `cellc verify`: sums that cancel are right, faults in them are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, ops
from cellc.cli import verification
from cellc.cli.verification import Verdict, verify_graph
from cellc.compiled.entries import trace
from cellc_compiler.interpret import evaluate, summed
from cellc_compiler.ir.graph import Builder, Graph, Node
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes

Array = np.ndarray[Any, Any]
X = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)


def normal(x: Any) -> Any:
    return ops.layer_norm(x, (64,), ops.ones(64), ops.zeros(64))


def centred(x: Any) -> Any:
    return x - x.mean(1, True)


def scattered(x: Any) -> Any:
    zeros = Tensor(np.zeros((8, 1), np.int32))
    return ops.tensor_scatter_add(ops.zeros((1, 64)), zeros, x - x.mean(0, True))


CANCEL: dict[str, Callable[[Any], Any]] = {
    "layer norm": lambda x: normal(x).sum(),
    "softmax": lambda x: (ops.softmax(x) - 1 / 64).sum(),
    "mean": lambda x: (x - x.mean()).mean(),
    "matmul": lambda x: ops.matmul(centred(x), ops.ones((64, 3))),
    "bmm": lambda x: ops.bmm(centred(x).reshape(1, 8, 64), ops.ones((1, 64, 3))),
    "dense": lambda x: ops.dense(centred(x), ops.ones((3, 64)), ops.zeros(3)),
    "convolution": lambda x: ops.conv1d(centred(x).reshape(1, 8, 64), ops.ones((2, 8, 64))),
    "pooling": lambda x: ops.avg_pool1d(centred(x).reshape(1, 8, 64), 64),
    "cumsum": lambda x: centred(x).cumsum(1),
    "scatter": scattered,
    "deviation": lambda x: (x * 0 + 3.3).std(),
    "gradient": lambda x: ms.grad(lambda y: (normal(y) * 1.5).sum())(x),
}


@pytest.mark.parametrize("name", CANCEL)
def test_sums_that_cancel(name: str) -> None:
    graph = trace(CANCEL[name], (Tensor(X),), {}).graph
    verdict = verify_graph(graph, [X])
    assert verdict.fault is None
    assert verdict.worst < 8


def node_of(op: str, *arrays: Array, **attrs: Any) -> Node:
    graph = Graph("one")
    inputs = [graph.add_input(TensorType(a.shape, dtypes.from_numpy(a.dtype)), f"x{i}")
              for i, a in enumerate(arrays)]
    Builder(graph).emit(op, *inputs, **attrs)
    return graph.nodes[-1]


def problem(node: Node, arrays: list[Array], result: Array) -> str:
    values = dict(zip(node.operands, arrays, strict=True))
    return verification._against_reference(node, values, [result], Verdict())


ROW = (X - X.mean(1, keepdims=True, dtype=np.float64)).astype(np.float32)


@pytest.mark.parametrize(("op", "others", "attrs"), [
    ("reduce_sum", (), {"axes": (1,)}),
    ("reduce_mean", (), {"axes": (1,)}),
    ("matmul", (np.ones((64, 3), np.float32),), {}),
    ("dense", (np.ones((3, 64), np.float32),), {}),
    ("cumsum", (), {"axis": 1}),
])
@pytest.mark.parametrize("fault", ["dropped", "twice", "scaled"])
def test_a_planted_fault_is_found(
    op: str, others: tuple[Array, ...], attrs: dict[str, Any], fault: str
) -> None:
    """One of 64 terms is left out or added twice, or each is 0.1 % too large in one half."""
    node = node_of(op, ROW, *others, **attrs)
    wrong = ROW.copy()
    if fault == "scaled":
        wrong[:, :32] *= np.float32(1.001)
    else:
        wrong[:, 5] *= 0 if fault == "dropped" else 2
    (right,), (bad,) = (evaluate(node, [x, *others]) for x in (ROW, wrong))
    assert not problem(node, [ROW, *others], right)
    assert "ulps" in problem(node, [ROW, *others], bad)


def test_what_was_summed() -> None:
    terms = summed(node_of("reduce_sum", ROW, axes=(1,)), [ROW])
    np.testing.assert_allclose(terms, np.abs(ROW.astype(np.float64)).sum(1))
    assert summed(node_of("exp", ROW), [ROW]) is None
    assert summed(node_of("reduce_prod", ROW, axes=(1,)), [ROW]) is None


def test_the_reference_is_wide() -> None:
    """It adds in float64, not in the type of its operands."""
    x = np.array([1e8, 1.0, -1e8], np.float32)
    (total,) = evaluate(node_of("reduce_sum", x, axes=None), [x], precise=True)
    assert total == 1.0


def test_networks_that_call_python() -> None:
    seen: list[float] = []

    def noted(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        seen.append(float(a.sum()))
        return a + len(seen)

    def network(x: Tensor) -> Tensor:
        y = ops.py_func(noted, x, out_shape=(2,), out_dtype=ms.float32)
        if y.sum() > 0:  # a branch at run time, with a call of its own
            y = ops.py_func(noted, y, out_shape=(2,), out_dtype=ms.float32) * 2
        return ops.exp(y)

    x = np.array([1.0, 2.0], np.float32)
    traced = trace(network, (Tensor(x),), {})
    verdict = verify_graph(traced.graph, traced.fed([x]), traced.functions)
    assert verdict.fault is None and verdict.nodes > 3
    assert seen == [3.0, 5.0]  # called as often as in one run of the network


def test_networks_with_state_in_python() -> None:
    class Logs(ms.nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.log: list[Tensor] = []

        def construct(self, x: Tensor) -> Tensor:
            self.log.append(x * 2)
            return x + 1

    net, x = Logs(), np.array([1.0, 2.0], np.float32)
    traced = trace(net, (Tensor(x),), {})
    verdict = verify_graph(traced.graph, traced.fed([x]), traced.functions)
    assert verdict.fault is None and len(net.log) == 1
