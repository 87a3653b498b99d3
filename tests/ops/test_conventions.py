"""Cotangents at kinks, ties and poles, and values at the edges: MindSpore's conventions.

The numbers were observed on MindSpore 2.10 (CPU); where its answer is NaN only for lack of a mask
(powers of exponent 0, norms of zero vectors) ours is the finite limit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import mint, ops
from cellc.core.dispatch import apply_one
from cellc_compiler.autodiff.reverse import gradient_graph
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes

INF, NAN = float("inf"), float("nan")


def graph_of(op: str, arrays: list[np.ndarray[Any, Any]], attrs: dict[str, Any]) -> Graph:
    """A graph of one node."""
    graph = Graph(op)
    ins = [graph.add_input(TensorType(a.shape, dtypes.from_numpy(a.dtype)), f"x{i}")
           for i, a in enumerate(arrays)]
    graph.outputs = [Builder(graph).node(op, ins, attrs).results[0]]
    return graph


GRADIENTS: list[tuple[str, dict[str, Any], list[list[float]], list[list[float]]]] = [
    ("maximum", {}, [[1, 2, 3, NAN, 1], [1, 3, 2, 1, NAN]],
     [[0.5, 0, 1, 1, 1], [0.5, 1, 0, 1, 1]]),
    ("minimum", {}, [[1, 2, 3, NAN, 1], [1, 3, 2, 1, NAN]],
     [[0.5, 1, 0, 1, 1], [0.5, 0, 1, 1, 1]]),
    ("abs", {}, [[-1, 0, -0.0, 1, NAN]], [[-1, 0, 0, 1, 0]]),
    ("sign", {}, [[-1, 0, 1]], [[0, 0, 0]]),
    ("relu", {}, [[-1, 0, 1, NAN]], [[0, 0, 1, 0]]),
    ("relu6", {}, [[-1, 0, 1, 6, 7, NAN]], [[0, 0, 1, 0, 0, 0]]),
    ("sqrt", {}, [[0, 1]], [[INF, 0.5]]),
    ("rsqrt", {}, [[0, 1]], [[-INF, -0.5]]),
    ("pow", {}, [[0, 0, 0, 2, 0], [0, 1, 2, 0, 0.5]],
     [[0, 1, 0, 0, INF], [0, 0, 0, 0.6931471805599453, 0]]),
    ("clamp", {"min": -1, "max": 1}, [[-2, -1, 0, 1, 2, NAN]], [[0, 1, 1, 1, 0, 0]]),
    ("reduce_max", {}, [[1, 3, 3, 2]], [[0, 0.5, 0.5, 0]]),
    ("reduce_min", {}, [[1, 1, 3, 2]], [[0.5, 0.5, 0, 0]]),
    ("reduce_max", {"axes": (0,), "first": True}, [[1, 3, 3, 2]], [[0, 1, 0, 0]]),
    ("reduce_min", {"axes": (0,), "first": True}, [[1, NAN, 0, NAN]], [[0, 1, 0, 0]]),
    ("reduce_prod", {}, [[0, 3, 2, 2]], [[12, 0, 0, 0]]),
    ("reduce_prod", {}, [[0, 0, 2, 2]], [[0, 0, 0, 0]]),
    ("norm", {}, [[3, 4]], [[0.6, 0.8]]),
    ("norm", {}, [[0, 0]], [[0, 0]]),
    ("norm", {"p": 1.0}, [[0, -4]], [[0, -1]]),
    ("leaky_relu", {"alpha": 0.2}, [[-1, 0, 1]], [[0.2, 0.6, 1]]),
    ("prelu", {}, [[-1, 0, 1], [0.25]], [[0.25, 0.25, 1], [-1]]),
    ("elu", {}, [[-1, 0, 1]], [[0.36787944117144233, 1, 1]]),
    ("selu", {}, [[0]], [[1.0507009873554805]]),
    ("hard_swish", {}, [[-4, -3, 0, 3, 4]], [[0, -0.5, 0.5, 1.5, 1]]),
    ("hard_sigmoid", {}, [[-4, -3, 0, 3, 4]], [[0, 0, 1 / 6, 0, 0]]),
    ("hard_shrink", {}, [[-1, -0.5, 0, 0.5, 1]], [[1, 0, 0, 0, 1]]),
    ("soft_shrink", {}, [[-1, -0.5, 0, 0.5, 1]], [[1, 0, 0, 0, 1]]),
    ("hard_tanh", {}, [[-2, -1, 0, 1, 2]], [[0, 0.5, 1, 0.5, 0]]),
    ("log_sigmoid", {}, [[0, 200]], [[0.5, 0]]),
    ("fmod", {}, [[5, -5, 5], [3, 3, -3]], [[1, 1, 1], [-1, 1, 1]]),
    ("mod", {}, [[5, -5], [3, 3]], [[1, 1], [-1, 2]]),
    ("absolute_error", {}, [[1, 2, 3], [1, 1, 4]], [[0, 1, -1], [0, -1, 1]]),
    ("smooth_l1", {}, [[1, 2, 3], [1, 1, 5]], [[0, 1, -1], [0, -1, 1]]),
    ("huber", {}, [[1, 2, 3], [1, 1, 5]], [[0, 1, -1], [0, -1, 1]]),
]


@pytest.mark.parametrize(("op", "attrs", "inputs", "expected"), GRADIENTS)
def test_cotangents(op: str, attrs: dict[str, Any], inputs: Any, expected: Any) -> None:
    """The cotangents of the sum of the result."""
    arrays = [np.asarray(x, np.float64) for x in inputs]
    back = gradient_graph(graph_of(op, arrays, attrs), list(range(len(arrays))))
    for got, want in zip(run(back, arrays)[1:], expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-30)


def test_bce_slope_is_bounded() -> None:
    """The slope of binary cross entropy at 0 and 1."""
    arrays = [np.array([0, 0.5, 1]), np.array([0, 1, 1.0])]
    back = gradient_graph(graph_of("bce", arrays, {}), [0])
    np.testing.assert_allclose(run(back, arrays)[1], [0, -2, 0])


def test_complex_cotangents() -> None:
    """dL/dRe + i dL/dIm: holomorphic rules carry a conjugate."""
    z = np.asarray([1 + 2j])
    expected = {"exp": np.exp(z).conj(), "abs": z / abs(z), "angle": 1j * z / abs(z) ** 2,
                "real": np.array([1 + 0j]), "imag": np.array([1j])}
    for op, want in expected.items():
        back = gradient_graph(graph_of(op, [z], {}), [0])
        np.testing.assert_allclose(run(back, [z])[1], want, rtol=1e-12)


VALUES: list[tuple[str, dict[str, Any], list[Any], list[Any]]] = [
    ("sign", {}, [np.float32([-2, 0, NAN])], [-1, 0, 0]),
    ("round", {}, [np.float32([0.5, 1.5, 2.5, -0.5])], [0, 2, 2, -0.0]),
    ("floor_div", {}, [np.float32([5, -5, 5, 1, INF, 3]), np.float32([3, 3, -3, 0, 2, INF])],
     [1, -2, -2, INF, INF, 0]),
    ("mod", {}, [np.float32([5, -5, 5]), np.float32([3, 3, -3])], [2, 1, -1]),
    ("fmod", {}, [np.float32([5, -5, 5]), np.float32([3, 3, -3])], [2, -2, 2]),
    ("trunc_div", {}, [np.int32([7, -7, 7, 1]), np.int32([2, 2, -2, 0])], [3, -3, -3, 0]),
    # (Quotients that a half rounds to the next integer.)
    ("trunc_div", {}, [np.float16([33.625, -33.625]), np.float16([0.2802734375])], [119, -119]),
    ("floor_div", {}, [np.float16([33.625, -33.625]), np.float16([0.2802734375])], [119, -120]),
    ("pow", {}, [np.int32([5, 1, 2, -1]), np.int32([-1, -1, -2, -3])], [0, 1, 0, -1]),
    ("abs", {}, [np.int8([-128])], [-128]),
    ("neg", {}, [np.uint8([1])], [255]),
    ("shift_left", {}, [np.int32([1, 1, 1]), np.int32([31, 32, -1])],
     [-2147483648, 1, -2147483648]),
    ("shift_right", {}, [np.int32([-8, -8, -8]), np.int32([1, 32, -1])], [-4, -8, -1]),
    ("bce", {}, [np.float32([0, 0.5, 1]), np.float32([1, 1, 0])],
     [27.631021, 0.6931472, 27.631021]),
    ("kl_div", {}, [np.float32([-1, -0.5, 1]), np.float32([0, 1, -0.5])], [0, 0.5, 0]),
    ("smooth_l1", {"beta": 0.5}, [np.float32([1, 2, 3, 0]), np.float32([0, 0, 1, 0])],
     [0.75, 1.75, 1.75, 0]),
    ("huber", {"delta": 2.0}, [np.float32([1, 2, 3, 0]), np.float32([0, 0, 1, 0])],
     [0.5, 2, 2, 0]),
    ("softplus", {}, [np.float32([-30, -1, 0, 1, 30])],
     [9.357623e-14, 0.31326169, 0.69314718, 1.3132617, 30]),
    ("gelu", {}, [np.float32([-1, 0, 1])], [-0.15865525, 0, 0.8413447]),
    ("gelu", {"approximate": "tanh"}, [np.float32([-1, 0, 1])], [-0.158808, 0, 0.841192]),
    ("argmax", {"axis": 0}, [np.float32([1, NAN, 3, NAN])], 1),
    ("argmax", {"axis": 0}, [np.float32([1, 3, 3])], 1),
    ("reduce_max", {}, [np.float32([1, NAN, 3])], NAN),
    ("logsumexp", {}, [np.float32([-INF, -INF])], -INF),
    ("threshold", {"threshold": 0.5, "value": 2.0}, [np.float32([1, 0.1, NAN])], [1, 2, 2]),
]


@pytest.mark.parametrize(("op", "attrs", "arrays", "expected"), VALUES)
def test_values(op: str, attrs: dict[str, Any], arrays: Any, expected: Any) -> None:
    """References give the known answers; the matrix ties compiled code to them."""
    got = run(graph_of(op, arrays, attrs), arrays)[0]
    np.testing.assert_allclose(got, expected, rtol=2e-6)


@pytest.mark.parametrize(("op", "rounding"), [("trunc_div", np.trunc), ("floor_div", np.floor)])
@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16])
def test_a_quotient_of_halves_is_rounded_once(dtype: Any, op: str, rounding: Any) -> None:
    x = np.random.default_rng(6).standard_normal((2, 4096)).astype(np.float32)
    a, b = (ms.Tensor(v).astype(dtype) for v in (40 * x[0], x[1]))
    got, operands = apply_one(op, a, b).asnumpy(), [a.asnumpy(), b.asnumpy()]
    exact = rounding(np.divide(*(v.astype(np.float64) for v in operands)))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, exact.astype(got.dtype))
    np.testing.assert_array_equal(got, run(graph_of(op, operands, {}), operands)[0])


ERRORS: list[tuple[str, dict[str, Any], list[Any], type[Exception], str]] = [
    ("add", {}, [np.zeros(3), np.zeros(4)], ValueError, "cannot be broadcast"),
    ("add", {}, [np.zeros(3), np.zeros(3, np.float32)], TypeError, "one dtype"),
    ("exp", {}, [np.zeros(3, np.int32)], TypeError, "exp takes"),
    ("where", {}, [np.zeros(3), np.zeros(3), np.zeros(3)], TypeError, "must be bool"),
    ("reduce_max", {"axes": (1,)}, [np.zeros((3, 0))], ValueError, "without elements"),
    ("reduce_sum", {"axes": (2,)}, [np.zeros((3, 4))], ValueError, "out of range"),
    ("softmax", {"axis": 2}, [np.zeros((3, 4))], ValueError, "out of range"),
    *((name, attrs, [np.float32(1)], ValueError, "at least 1 dimension, got a scalar")
      for name, attrs in (("sort", {"axis": 0}), ("topk", {"axis": 0}), ("split", {"sizes": (1,)}),
                          ("repeat", {"repeats": 2, "axis": 0}),
                          ("roll", {"shifts": (1,), "axes": (0,)}))),
    ("gelu", {"approximate": "no"}, [np.zeros(3)], ValueError, "'none' or 'tanh'"),
    ("layer_norm", {}, [np.zeros((3, 4)), np.zeros(3), np.zeros(4)], ValueError, "gamma"),
    ("group_norm", {"groups": 3}, [np.zeros((2, 4)), np.zeros(4), np.zeros(4)], ValueError,
     "4 channels into 3"),
    ("nll", {"axis": 1}, [np.zeros((3, 4)), np.zeros(3)], TypeError, "integer labels"),
    ("bitcast", {"dtype": dtypes.int32}, [np.zeros(3)], TypeError, "cannot view"),
    ("prelu", {}, [np.zeros((2, 3)), np.zeros(2)], ValueError, "weight of shape"),
]


@pytest.mark.parametrize(("op", "attrs", "arrays", "kind", "message"), ERRORS)
def test_errors(op: str, attrs: dict[str, Any], arrays: Any, kind: type[Exception],
                message: str) -> None:
    """Bad operands are refused with what was expected and what came."""
    with pytest.raises(kind, match=message):
        graph_of(op, arrays, attrs)


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
def test_the_slope_of_an_extreme_with_a_position_is_at_that_position(mode) -> None:
    """MindSpore 2.10: the first of equal elements where positions are given, else shared."""
    ms.set_context(mode=mode)
    x = ms.Tensor(np.array([[0, 2, 2, 1], [0, 0, 0, 0], [3, 1, 3, 3]], np.float32))
    first = [[0, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]
    for function in (lambda x: ops.max(x, 1)[0], lambda x: x.max(1)[0], lambda x: mint.max(x, 1)[0],
                     lambda x: x.max(axis=1, return_indices=True)[0],
                     lambda x: ops.ArgMaxWithValue(1)(x)[1]):
        assert ms.grad(function)(x).asnumpy().tolist() == first
    assert ms.grad(lambda x: ops.min(x, 1)[0])(x).asnumpy().tolist() == [
        [1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]]
    assert ms.grad(lambda x: ops.amax(x, 1))(x).asnumpy()[0].tolist() == [0, 0.5, 0.5, 0]
