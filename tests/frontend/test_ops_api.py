"""The functional API, methods and primitives against the oracle, and their errors."""

from __future__ import annotations

import numpy as np
import pytest

import cellc as ms
import cellc.ops as ops
from cellc.common.seed import set_seed
from cellc.common.tensor import Tensor

from .cases import FUNCTIONS, METHODS
from .comparing import disagreements


def test_functions_agree_with_the_oracle() -> None:
    assert disagreements(FUNCTIONS) == []


def test_methods_and_primitives_agree_with_the_oracle() -> None:
    assert disagreements(METHODS) == []


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda x: ops.relu("a"), TypeError, "must be a Tensor, but got str"),
    (lambda x: ops.reshape(x, (4,)), ValueError, "invalid for input of size 6"),
    (lambda x: ops.reshape(x, (-1, -1)), ValueError, "only one dimension"),
    (lambda x: ops.transpose(x, (0, 0)), ValueError, "distinct"),
    (lambda x: ops.softmax(x, 5), ValueError, r"must be in \[-2, 2\), but got 5"),
    (lambda x: ops.concat([]), ValueError, "at least one Tensor"),
    (lambda x: ops.matmul(x, x), ValueError, "last axis of input"),
    (lambda x: ops.zeros(2.5), TypeError, "tuple or list of int, but got float"),
    (lambda x: ops.cast(x, "int8"), TypeError, "should be an element type"),
    (lambda x: ops.ReduceSum(keep=True), TypeError, "unexpected keyword argument 'keep'"),
    (lambda x: ops.Conv2D(3), TypeError, "missing the argument 'kernel_size'"),
])
def test_errors_name_what_was_expected(call, kind, text) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(kind, match=text):
        call(Tensor(np.zeros((2, 3), np.float32)))


@pytest.mark.parametrize("equation", [
    "ij,jk->ik", "ij,kj->ik", "bij,bjk->bik", "ij->ji", "ij->", "ii->i", "ij,ij->i", "i,j->ij",
    "...ij,...jk->...ik", "bij,bjk,bkl->bil", "ij,jk",
])
def test_einsum_is_numpys(equation: str) -> None:
    draw = np.random.default_rng(0)
    lengths = dict.fromkeys("ijkl", 3) | {"b": 2}
    shapes = [tuple(lengths[c] for c in s.replace("...", "b"))
              for s in equation.split("->")[0].split(",")]
    arrays = [draw.standard_normal(s).astype(np.float32) for s in shapes]
    got = ops.einsum(equation, *(Tensor(a) for a in arrays)).asnumpy()
    np.testing.assert_allclose(got, np.einsum(equation, *arrays), rtol=1e-5, atol=1e-5)


def test_draws_follow_the_seed() -> None:
    set_seed(3)
    first = ops.rand(3, 4, seed=7).asnumpy()
    assert not np.array_equal(first, ops.rand(3, 4, seed=7).asnumpy())
    set_seed(3)
    assert np.array_equal(first, ops.rand(3, 4, seed=7).asnumpy())
    assert first.min() >= 0 and first.max() < 1
    assert sorted(ops.randperm(9, -1).tolist()) == list(range(9))


@pytest.mark.parametrize(("n", "seed", "offset", "order"), [
    (4, 0, 0, [0, 2, 1, 3]), (8, 1, 0, [1, 0, 2, 5, 7, 4, 6, 3]), (2, 3, 0, [0, 1]),
    (8, 1, 3, [3, 1, 0, 5, 2, 6, 4, 7]), (9, 4, 0, [0, 7, 2, 8, 3, 4, 1, 6, 5]), (0, 1, 0, []),
])
def test_permutations_are_those_of_mindspore(
    n: int, seed: int, offset: int, order: list[int]
) -> None:
    found = ops.randperm(n, seed, offset).tolist()
    assert found == order
    assert ms.jit(lambda: ops.randperm(n, seed, offset))().tolist() == found
    for bad in ((-1, 0, 0), (1, -2, 0), (1, 0, -1)):
        with pytest.raises(ValueError, match="randperm"):
            ops.randperm(*bad)
