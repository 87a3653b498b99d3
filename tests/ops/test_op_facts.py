"""Facts that ops state of themselves are true of what they compute."""

from __future__ import annotations

import numpy as np
import pytest

from cellc_compiler.ir.graph import Builder, Graph, Node
from cellc_compiler.ir.op import Op, all_ops
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes

PAIRS = [op for op in all_ops() if op.elementwise and len(op.operands) == 2]
SIZED = [op for op in all_ops() if op.leading_size]
WEIGHTED = [op for op in all_ops() if op.weight_axes is not None]


@pytest.mark.parametrize("op", PAIRS, ids=lambda op: op.name)
def test_operands_may_change_places_where_the_op_says_so(op: Op) -> None:
    dtype = next(d for d in (dtypes.float64, dtypes.int64, dtypes.bool_) if d in op.dtypes)
    rng = np.random.default_rng(3)
    x, y = (rng.integers(1, 20, 400) for _ in range(2))
    x, y = (v % 2 if dtype is dtypes.bool_ else v for v in (x, y))
    attrs = op.samples()[0].attrs if op.samples() else {}
    given = [v.astype(dtype.numpy) for v in (x, y)]
    attrs = op.complete(attrs)
    there, back = (op.reference(*pair, **attrs) for pair in (given, given[::-1]))
    assert np.array_equal(there, back) == op.commutative


@pytest.mark.parametrize("op", SIZED, ids=lambda op: op.name)
def test_the_attribute_that_is_the_leading_size(op: Op) -> None:
    attrs = {"shape": (4, 3)} if op.leading_size == "shape" else {"start": (0, 0), "stop": (4, 3)}
    for rows in (4, 2):
        attrs[op.leading_size] = (rows, 3)
        x = TensorType((rows, 3) if op.leading_size == "shape" else (4, 3), dtypes.float32)
        found = op.infer(x, **op.complete(attrs))
        assert isinstance(found, TensorType) and found.shape == (rows, 3)


def contraction(op: Op, transposed: bool, outputs: int) -> Node | None:
    """The op on data and weights of so many outputs, or None if it has no such form."""
    graph = Graph("g")
    kernel = op.name.startswith("conv")
    x = graph.add_input(TensorType((2, 3, 8, 8) if kernel else (2, 3), dtypes.float32), "x")
    shape = (outputs, 3, 3, 3) if kernel else (outputs, 3) if transposed else (3, outputs)
    if kernel and transposed:
        return None
    w = graph.add_input(TensorType(shape, dtypes.float32), "w")
    attrs = {} if kernel else {"transpose_a": False, "transpose_b": transposed}
    return Builder(graph).node(op.name, [x, w], op.complete(attrs), [])


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("op", WEIGHTED, ids=lambda op: op.name)
def test_outputs_of_weights_lie_where_the_op_says(op: Op, transposed: bool) -> None:
    node = contraction(op, transposed, 5)
    if node is None:
        return
    assert op.weight_axes is not None
    axes = op.weight_axes(node)
    assert axes is not None
    assert node.result.shape[axes[0]] == node.operands[1].shape[axes[1]] == 5
    assert node.result.shape.count(5) == node.operands[1].shape.count(5) == 1
