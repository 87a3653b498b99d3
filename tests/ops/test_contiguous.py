"""Tensors laid end to end, and objects of `scipy.ops`, against MindSpore 2.10's answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cellc.hal.contiguous_tensors_handle import (
    ContiguousTensorsHandle,
    combine_tensor_list_contiguous,
)

import cellc as ms
from cellc import Tensor
from cellc.scipy.ops import Eig, LinearSumAssignment, SolveTriangular

A, B = Tensor([1.0, 2.0, 3.0]), Tensor([[4.0, 5.0], [6.0, 7.0]])


def test_slices_of_tensors_laid_end_to_end() -> None:
    handle = combine_tensor_list_contiguous([A, B], True)
    assert handle[1:3].asnumpy().tolist() == [2, 3]
    assert handle[:].asnumpy().tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert handle[5].asnumpy().tolist() == [6]
    assert handle.slice_by_tensor_index(1).asnumpy().tolist() == [4, 5, 6, 7]
    assert handle.slice_by_tensor_index().shape == (7,)
    assert (handle.before_padding_sizes, handle.total_padding_size) == ([12, 16], 28)
    assert str(handle).startswith("Handle total size: 28\nTensor[0]: [1. 2. 3.]\n")


@pytest.mark.parametrize(("item", "error"), [
    (-1, ValueError), (7, ValueError), (slice(3, 9), ValueError), (slice(2, 1), ValueError),
    ("a", TypeError), (slice("a", None), TypeError)])
def test_slices_that_do_not_exist(item: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="slice input"):
        ContiguousTensorsHandle([A, B])[item]


@pytest.mark.parametrize("given", [3, [3], []])
def test_what_is_no_list_of_tensors(given: Any) -> None:
    with pytest.raises(TypeError, match="input list must be"):
        ContiguousTensorsHandle(given)


class Assigned(ms.nn.Cell):
    """The assignment by an object of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.assign = LinearSumAssignment()

    def construct(self, costs: Tensor, limit: Tensor) -> Any:
        return self.assign(costs, limit, False)


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_assignments(mode: int) -> None:
    before = ms.get_context("mode")
    ms.set_context(mode=mode)
    costs = Tensor(np.array([[4.0, 1, 2], [2, 0, 1], [3, 3, 1], [0, 1, 9]]))
    try:
        rows, columns = Assigned()(costs, Tensor(2))
    finally:
        ms.set_context(mode=before)
    assert rows.asnumpy().tolist() == [1, 3, -1]
    assert columns.asnumpy().tolist() == [1, 0, -1]


def test_triangular_systems_and_eigenvalues() -> None:
    x = Tensor([[2.0, 0.0], [1.0, 3.0]])
    solved = SolveTriangular(lower=True)(x, Tensor([2.0, 4.0]))
    np.testing.assert_allclose(solved.asnumpy(), [1, 1])
    assert sorted(Eig(compute_v=False)(x).asnumpy().real.tolist()) == [2, 3]
    values, vectors = Eig()(x)
    np.testing.assert_allclose(x.asnumpy() @ vectors.asnumpy(),
                               vectors.asnumpy() * values.asnumpy(), rtol=1e-5)
