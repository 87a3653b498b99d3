"""Views: their `value` rules against their references, known answers, errors, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cellc_compiler.driver import compile_graph
from cellc_compiler.interpret import run
from cellc_compiler.ir.dims import Dim
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.op import Op, Sample, all_ops, lookup
from cellc_compiler.ir.types import TensorType
from cellc_compiler.ops import data_dependent, shape, slice
from cellc_runtime import dtypes

from .expressions import evaluate_value
from .gradients import check_gradient, graph_of, operands_of

Array = np.ndarray[Any, Any]
MODULES = (data_dependent.__name__, shape.__name__, slice.__name__)
KINDS = (dtypes.float64, dtypes.int32, dtypes.bool_, dtypes.complex64)


def cases() -> list[Any]:
    """Every sample of every op of these modules (those with kernels are tested elsewhere)."""
    return [pytest.param(op, sample, id=f"{op.name}-{i}") for op in all_ops()
            if type(op).__module__ in MODULES and not op.opaque
            for i, sample in enumerate(op.samples())]


def reference(op: Op, arrays: list[Array], attrs: Any) -> tuple[Array, ...]:
    """The op's reference results."""
    out = op.reference(*arrays, **op.complete(attrs))
    return out if isinstance(out, tuple) else (out,)


@pytest.mark.parametrize(("op", "sample"), cases())
def test_rules_agree(op: Op, sample: Sample) -> None:
    """Inference, the value rule (or the expansion) and the reference give one answer."""
    for dtype in KINDS:
        if dtype not in op.dtypes:
            continue
        arrays = operands_of(sample, dtype)
        graph = graph_of(op, arrays, sample.attrs)
        node = graph.nodes[0]
        want = reference(op, arrays, sample.attrs)
        for array, result in zip(want, node.results, strict=True):
            assert np.shape(array) == result.shape
            assert np.asarray(array).dtype == result.dtype.numpy
        got = list(evaluate_value(node, arrays)) if op.value else _expanded(op, arrays, sample)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)


def _expanded(op: Op, arrays: list[Array], sample: Sample) -> list[Array]:
    graph = Graph("expanded")
    inputs = [graph.add_input(TensorType(a.shape, dtypes.from_numpy(a.dtype)), f"x{i}")
              for i, a in enumerate(arrays)]
    assert op.expand is not None
    out = op.expand(Builder(graph), *inputs, **op.complete(sample.attrs))
    graph.outputs = list(out) if isinstance(out, tuple) else [out]
    return run(graph, arrays)


@pytest.mark.parametrize(("op", "sample"), [c for c in cases() if c.values[1].grad])
def test_gradient(op: Op, sample: Sample) -> None:
    """First and second derivatives equal finite differences."""
    if dtypes.float64 in op.dtypes and op.differentiable:
        arrays = operands_of(sample, dtypes.float64)
        check_gradient(graph_of(op, arrays, sample.attrs), arrays)


def apply(name: str, *arrays: Any, **attrs: Any) -> Array:
    """One op by its reference, through inference."""
    values = [np.asarray(a) for a in arrays]
    return run(graph_of(lookup(name), values, attrs), values)[0]


X = np.arange(12).reshape(3, 4)


@pytest.mark.parametrize(("name", "attrs", "want"), [
    ("slice", {"start": (2, 3), "stop": (-1, 0), "step": (-1, -2)}, X[::-1, :0:-2]),
    ("slice", {"start": (2, 0), "stop": (-1, 1)}, X[:0, :1]),
    ("slice", {"start": (-2, 0), "stop": (0, 1), "step": (-1, 1)}, X[:0, :1]),
    ("pad", {"low": (-1, 1), "high": (1, -2), "value": 7},
     [[7, 4, 5], [7, 8, 9], [7, 7, 7]]),
    ("pad", {"low": (0, 0), "high": (-2, 0), "interior": (0, 1), "value": -1},
     [[0, -1, 1, -1, 2, -1, 3]]),
    ("pad_border", {"low": (0, 2), "high": (0, 1), "mode": "reflect"},
     [[2, 1, 0, 1, 2, 3, 2], [6, 5, 4, 5, 6, 7, 6], [10, 9, 8, 9, 10, 11, 10]]),
    ("roll", {"shifts": (1, -1), "axes": (0, 1)},
     [[9, 10, 11, 8], [1, 2, 3, 0], [5, 6, 7, 4]]),
    ("tril", {"diagonal": -1}, [[0, 0, 0, 0], [4, 0, 0, 0], [8, 9, 0, 0]]),
    ("diagonal", {"offset": 1}, [1, 6, 11]),
    ("repeat", {"repeats": 2, "axis": 0}, X[[0, 0, 1, 1, 2, 2]]),
])
def test_known_answers(name: str, attrs: dict[str, Any], want: Any) -> None:
    np.testing.assert_array_equal(apply(name, X, **attrs), want)


def test_a_padding_out_of_range_wraps() -> None:
    """As in compiled code."""
    x = np.zeros(1, np.uint8)
    graph = graph_of(lookup("pad"), [x], {"low": (1,), "high": (0,), "value": -1})
    assert run(graph, [x])[0].tolist() == compile_graph(graph)([x])[0].tolist() == [255, 0]


def test_one_hot_ignores_indices_outside() -> None:
    got = apply("one_hot", np.array([0, 5, -1, 2]), depth=3)
    np.testing.assert_array_equal(got, [[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 1]])


def test_pad_of_symbolic_dimension() -> None:
    """Inference works on symbolic dimensions."""
    n = Dim.symbol("n")
    out = lookup("pad").infer(TensorType((n, 4), dtypes.float32), low=(1, 0), high=(2, 0),
                              interior=None, value=0)
    assert isinstance(out, TensorType) and out.shape == (n + 3, 4)
    both = lookup("concat").infer(TensorType((n, 4), dtypes.float32),
                                  TensorType((2, 4), dtypes.float32), axis=0)
    assert isinstance(both, TensorType) and both.shape == (n + 2, 4)


@pytest.mark.parametrize(("name", "arrays", "attrs", "message"), [
    ("slice", [X], {"start": (0, 0), "stop": (4, 4)}, r"reads positions 0\.\.3 of axis 0"),
    ("slice", [X], {"start": (0,), "stop": (3,)}, "for each of the 2 axes"),
    ("slice", [X], {"start": (0, 0), "stop": (3, 4), "step": (1, 0)}, "step of 0 on axis 1"),
    ("concat", [X, X[:, :2]], {"axis": 0}, r"equal other dimensions, got \(3, 4\) and \(3, 2\)"),
    ("concat", [np.array(1), np.array(2)], {"axis": 0}, "at least 1 dimension"),
    ("stack", [X, X[:2]], {}, "tensors of one shape"),
    ("split", [X], {"sizes": (2, 2), "axis": 0}, "do not sum to axis 0"),
    ("pad", [X], {"low": (-2, 0), "high": (-2, 0)}, "leaves -1 elements of axis 0"),
    ("pad_border", [X], {"low": (3, 0), "high": (0, 0), "mode": "reflect"}, "goes up to 2"),
    ("pad_border", [X], {"low": (0, 0), "high": (0, 0), "mode": "mirror"}, "must be 'reflect' or"),
    ("update_slice", [X, X], {"start": (1, 0)}, r"positions 1\.\.3 of axis 0"),
    ("transpose", [X], {"perm": (0, 0)}, "no permutation"),
    ("tile", [X], {"reps": (-1,)}, "each a non-negative int"),
    ("diag_embed", [X], {"rows": 3, "columns": 3}, "which has 3"),
    ("flip", [X], {"axes": (2,)}, "out of range"),
    ("dynamic_slice", [X, np.array([0, 0])], {"sizes": (4, 1)}, "a window of 2 dimensions"),
])
def test_value_errors(name: str, arrays: list[Array], attrs: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        graph_of(lookup(name), [np.asarray(a) for a in arrays], attrs)


def test_dtypes_must_agree() -> None:
    with pytest.raises(TypeError, match="one dtype"):
        graph_of(lookup("concat"), [X, X.astype(np.float32)], {"axis": 0})
    with pytest.raises(TypeError, match="integer dtype"):
        graph_of(lookup("one_hot"), [np.ones(2, np.float32)], {"depth": 2})
