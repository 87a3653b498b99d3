"""The judge of nodes: sums that cancel are right, faults in them are found; limits and rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, ops
from cellc.verification import verify
from cellc.verification.derivatives import Unknown, check_rule, has_rule
from cellc.verification.judge import judge, judge_expansion
from cellc.verification.values import error_in_ulps
from cellc_compiler.driver import compile_graph
from cellc_compiler.interpret import evaluate, expand_node, summed
from cellc_compiler.ir.graph import Builder, Graph, Node
from cellc_compiler.ir.op import lookup, user_ops
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes

from ..modes.law import operands

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
    report = verify(CANCEL[name], Tensor(X))
    assert report.status == 0, report
    assert report.worst is not None and report.worst.share < 0.6


def node_of(op: str, *arrays: Array, **attrs: Any) -> Node:
    graph = Graph("one")
    inputs = [graph.add_input(TensorType(a.shape, dtypes.from_numpy(a.dtype)), f"x{i}")
              for i, a in enumerate(arrays)]
    Builder(graph).emit(op, *inputs, **attrs)
    return graph.nodes[-1]


def problem(node: Node, arrays: list[Array], result: Array) -> str:
    return judge(node, arrays, [result]).problem


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


@pytest.mark.parametrize("name", [
    "conv2d_blocked", "small_conv2d_blocked", "winograd_input", "winograd_output",
    "max_pool2d_backward", "adaptive_max_pool2d_backward"])
def test_what_internal_ops_sum(name: str) -> None:
    """Each says so; where all terms have one sign, it is the result."""
    op = lookup(name)
    for sample in op.samples():
        arrays = [np.abs(a) for a in operands(op, sample, dtypes.float32)]
        node = node_of(name, *arrays, **sample.attrs)
        terms, (want,) = summed(node, arrays), evaluate(node, arrays, precise=True)
        assert terms is not None and terms.shape == want.shape
        if not name.startswith("winograd"):
            np.testing.assert_allclose(terms, want)
        else:
            assert (terms * (1 + 1e-9) >= np.abs(want)).all()
            assert want.size < 2 or terms.sum() > want.sum()


def test_the_reference_is_wide() -> None:
    """It adds in float64, not in the type of its operands."""
    x = np.array([1e8, 1.0, -1e8], np.float32)
    (total,) = evaluate(node_of("reduce_sum", x, axes=None), [x], precise=True)
    assert total == 1.0


# --- limits ---------------------------------------------------------------------------------------


def test_a_large_error_is_beyond_every_limit() -> None:
    """A thousandth in one element is nowhere explained by rounding, however long the sums are."""
    x = np.abs(np.random.default_rng(1).standard_normal((1000, 1000))).astype(np.float32)
    node = node_of("reduce_sum", x, axes=(0,))
    (right,) = evaluate(node, [x])
    wrong = right.copy()
    wrong[7] *= np.float32(1.001)
    assert not problem(node, [x], right)
    verdict = judge(node, [x], [wrong])
    assert "ulps" in verdict.problem and verdict.limit is not None and verdict.limit < 50


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_differ_from_finite_ones(bad: float) -> None:
    node = node_of("exp", X)
    (right,) = evaluate(node, [X])
    wrong = right.astype(np.float32).copy()
    wrong[3, 5] = bad
    assert "(3, 5)" in problem(node, [X], wrong)
    assert not problem(node_of("log", -np.abs(X)), [-np.abs(X)], np.full_like(X, np.nan))
    assert "expected" in problem(node_of("add", X, X), [X, X], wrong)


def test_overflow_is_that_of_the_type() -> None:
    """Beyond float16's range infinity is right, and the largest number is not."""
    x = np.array([60000.0, 1.0], np.float16)
    node = node_of("square", x)
    assert not problem(node, [x], np.array([np.inf, 1], np.float16))
    assert problem(node, [x], np.array([65504, 1], np.float16))


def test_exact_ops_have_the_bits_of_their_reference() -> None:
    node = node_of("mul", X, X)
    almost = np.nextafter(X * X, np.float32(np.inf))
    assert not problem(node, [X, X], X * X)
    assert "differs" in problem(node, [X, X], almost)


def test_an_error_in_ulps() -> None:
    ones = np.ones(3, np.float32)
    assert error_in_ulps(ones + np.float32(2**-23), ones.astype(np.float64)) == 1
    assert error_in_ulps(ones + np.float32(2**-23), ones.astype(np.float64), 4 * ones) == 0.25
    assert error_in_ulps(np.zeros(0, np.float32), np.zeros(0)) == 0


COMPOSITIONS = ("batch_norm", "gelu", "layer_norm", "reduce_var", "softmax",
                "sparse_softmax_cross_entropy")


def samples(name: str) -> Iterator[tuple[Node, list[Array]]]:
    """Nodes of an op on its samples, in float32."""
    op = lookup(name)
    for sample in op.samples():
        arrays = operands(op, sample, dtypes.float32)
        yield node_of(name, *arrays, **sample.attrs), arrays


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_expansions(name: str) -> None:
    """They are their references; those with one node more are not."""
    for node, arrays in samples(name):
        made = expand_node(node)
        assert not judge_expansion(node, made, arrays)
        out = made.outputs[0]
        if np.any(evaluate(node, arrays)[0]):
            b = Builder(made)
            made.outputs[0] = b.mul(out, b.scalar(1.001, out))
            assert "result 0" in judge_expansion(node, made, arrays)


LIMITED = [op.name for op in user_ops() if op.samples() and not op.effect]


@pytest.mark.parametrize("name", LIMITED)
def test_compiled_samples_are_within_their_limits(name: str) -> None:
    if dtypes.float32 not in lookup(name).dtypes:
        return
    for node, arrays in list(samples(name))[:3]:
        graph = Graph(name, list(node.operands), [node], list(node.results))
        verdict = judge(node, arrays, compile_graph(graph)(arrays))
        assert not verdict.problem and verdict.share < 0.75, (name, verdict)


# --- rules of gradients ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tanh", "matmul", "max_pool2d", "softmax", "relu", "div"])
def test_rules(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [(n, a) for n, a in samples(name) if has_rule(n) and n.results[0].type.size]
    assert cases and not any(check_rule(n, a) for n, a in cases)
    right = type(lookup(name)).gradient

    def wrong(self: Any, b: Builder, node: Node, dys: Any) -> Any:
        return [g and b.mul(g, b.scalar(1.01, g)) for g in right(self, b, node, dys)]

    monkeypatch.setattr(type(lookup(name)), "gradient", wrong)
    found = ["by differences" in check_rule(n, a) for n, a in cases]
    assert sum(found) > len(found) / 2  # the gradient of some samples is all zero


def test_infinite_elements_stay_where_they_are() -> None:
    """Those of a mask that chooses other elements in their places."""
    chosen, other = np.eye(4, dtype=np.bool_), X[:4, :4]
    hidden = np.where(chosen, -np.inf, other).astype(np.float32)
    operands = [chosen, other, hidden]
    assert not check_rule(node_of("where", *operands), operands)


def test_rules_at_kinks() -> None:
    """The zeros that a ReLU leaves have no derivative: numbers beside them are taken."""
    assert not check_rule(node_of("relu", np.zeros((4, 4), np.float32)), [np.zeros((4, 4))])
    with pytest.raises(Unknown, match="not finite"):
        check_rule(node_of("log", X), [np.full_like(X, -1.0)])
