"""Sparse tensors in both modes, against numpy: forms, arithmetic, gradients, texts, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import COOTensor, CSRTensor, Tensor, nn, ops
from cellc.common import sparse_tensor
from cellc.ops.functional.sparse_elementwise import FUNCTIONS

MODES = pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
RNG = np.random.default_rng(3)
DENSE = np.where(RNG.random((5, 7)) < 0.4, RNG.standard_normal((5, 7)), 0).astype(np.float32)
OTHER = np.where(RNG.random((5, 7)) < 0.4, RNG.standard_normal((5, 7)), 0).astype(np.float32)
SHUFFLE = RNG.permutation(np.count_nonzero(DENSE))


def coo(a: np.ndarray[Any, Any] = DENSE, shuffled: bool = True) -> COOTensor:
    """A matrix by coordinates, not in order."""
    places = np.argwhere(a).astype(np.int32)
    order = SHUFFLE if shuffled and a is DENSE else np.arange(len(places))
    return COOTensor(Tensor(places[order]), Tensor(a[a != 0][order]), a.shape)


def csr(a: np.ndarray[Any, Any] = DENSE) -> CSRTensor:
    """A matrix by rows."""
    ends = np.concatenate([[0], np.cumsum((a != 0).sum(1))])
    return CSRTensor(Tensor(ends.astype(np.int32)), Tensor(np.argwhere(a)[:, 1].astype(np.int32)),
                     Tensor(a[a != 0]), a.shape)


def run(mode: int, function: Any, *args: Any) -> Any:
    """What a function gives in a mode: compiled as a whole in graph mode."""
    ms.set_context(mode=mode)
    return ms.jit(function)(*args) if mode == ms.GRAPH_MODE else function(*args)


def same(found: Any, expected: np.ndarray[Any, Any]) -> None:
    dense = found if isinstance(found, Tensor) else found.to_dense()
    np.testing.assert_allclose(dense.asnumpy(), expected, rtol=1e-5, atol=1e-6)
    assert dense.dtype == ms.float32


@MODES
def test_forms(mode: int) -> None:
    for made in (coo(), csr(), run(mode, lambda c: c.to_csr(), coo()),
                 run(mode, lambda c: c.to_coo(), csr()),
                 run(mode, lambda c: c.coalesce(), coo()),
                 run(mode, lambda x: x.to_coo(), Tensor(DENSE)),
                 run(mode, lambda x: x.to_csr(), Tensor(DENSE)),
                 run(mode, lambda c: COOTensor(c.indices, c.values, (5, 7)), coo())):
        same(run(mode, lambda c: c.to_dense(), made), DENSE)
    rows = run(mode, lambda c: c.to_csr(), coo())
    assert rows.indptr.asnumpy().tolist() == csr().indptr.asnumpy().tolist()


@MODES
def test_arithmetic(mode: int) -> None:
    full = Tensor(OTHER + 3)
    cases: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
        "-coo": (lambda a: -a, (coo(),), -DENSE),
        "coo + coo": (lambda a, b: a + b, (coo(), coo(OTHER)), DENSE + OTHER),
        "coo - coo": (lambda a, b: a - b, (coo(), coo(OTHER)), DENSE - OTHER),
        "coo + dense": (lambda a, b: a + b, (coo(), full), DENSE + OTHER + 3),
        "dense - coo": (lambda a, b: b - a, (coo(), full), OTHER + 3 - DENSE),
        "coo * dense": (lambda a, b: a * b, (coo(), full), DENSE * (OTHER + 3)),
        "coo / dense": (lambda a, b: a / b, (coo(), full), DENSE / (OTHER + 3)),
        "csr + csr": (lambda a, b: a + b, (csr(), csr(OTHER)), DENSE + OTHER),
        "csr - csr": (lambda a, b: a - b, (csr(), csr(OTHER)), DENSE - OTHER),
        "csr * dense": (lambda a, b: a * b, (csr(), full), DENSE * (OTHER + 3)),
        "dense * csr": (lambda a, b: b * a, (csr(), full), DENSE * (OTHER + 3)),
        "csr * row": (lambda a, b: a * b, (csr(), full[:1]), DENSE * (OTHER[:1] + 3)),
        "csr mm": (lambda a, b: a.mm(b.T), (csr(), full), DENSE @ (OTHER + 3).T),
        "csr mm csr": (lambda a, b: ops.csr_mm(a, b, trans_b=True), (csr(), csr(OTHER)),
                       DENSE @ OTHER.T),
        "csr^T mm": (lambda a, b: ops.csr_mm(a, b, trans_a=True), (csr(), full),
                     DENSE.T @ (OTHER + 3)),
        "csr mv": (lambda a, b: a.mv(b[:1].T), (csr(), full), DENSE @ (OTHER[:1] + 3).T),
        "sum": (lambda a: a.sum(1), (csr(),), DENSE.sum(1, keepdims=True)),
        "csr_add": (lambda a, b: a.add(b, Tensor(2.0, ms.float32), Tensor(-1.0, ms.float32)),
                    (csr(), csr(OTHER)), 2 * DENSE - OTHER),
        "concat 0": (lambda a, b: ops.coo_concat((a, b)), (coo(), coo(OTHER)),
                     np.concatenate([DENSE, OTHER])),
        "concat 1": (lambda a, b: ops.coo_concat([a, b], 1), (coo(), coo(OTHER)),
                     np.concatenate([DENSE, OTHER], 1)),
    }
    for name, (function, args, expected) in cases.items():
        try:
            same(run(mode, function, *args), expected)
        except AssertionError as e:
            raise AssertionError(name) from e


def test_modes_give_the_same_bits() -> None:
    def function(a: CSRTensor, b: CSRTensor) -> Any:
        return ops.csr_softmax(a + b, ms.float32).values, a.mm(b.to_dense().T), (a - b).indptr

    found = [run(mode, function, csr(), csr(OTHER)) for mode in (0, 1)]
    for x, y in zip(*found, strict=True):
        assert x.asnumpy().tobytes() == y.asnumpy().tobytes()


@MODES
def test_softmax_of_rows(mode: int) -> None:
    found = run(mode, lambda c: ops.csr_softmax(c, ms.float32), csr())
    raised = np.where(DENSE != 0, np.exp(DENSE), 0)
    same(found, raised / np.maximum(raised.sum(1, keepdims=True), 1e-30))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_elementwise(name: str) -> None:
    kind, plain = name.split("_", 1)
    given = coo(np.abs(DENSE)) if kind == "coo" else csr(np.abs(DENSE))
    out = getattr(ops, name)(given)
    expected = (ops.reciprocal if plain == "inv" else getattr(ops, plain))(given.values)
    assert type(out) is type(given) and out.dtype == expected.dtype and out.shape == (5, 7)
    np.testing.assert_array_equal(out.values.asnumpy(), expected.asnumpy())
    assert out.indices is given.indices
    with pytest.raises(TypeError, match=f"Expects {type(given).__name__} for {name}"):
        getattr(ops, name)(given.values)


def test_coalesce_and_thresholds() -> None:
    twice = COOTensor(Tensor([[1, 2], [0, 1], [1, 2]]), Tensor([1.0, 2.0, 3.0]), (3, 4))
    once = twice.coalesce()
    assert once.indices.asnumpy().tolist() == [[0, 1], [1, 2]]
    assert once.values.asnumpy().tolist() == [2.0, 4.0] and twice.to_dense()[1, 2] == 4.0
    kept = ops.coo_add(twice, once, Tensor(5.0))
    assert kept.indices.asnumpy().tolist() == [[1, 2]] and kept.values.asnumpy().tolist() == [8.0]
    negative = ops.coo_add(-once, -once, Tensor(8.0))  # it is the size that counts
    assert negative.values.asnumpy().tolist() == [-8.0]


@MODES
def test_gradients_stand_at_the_places(mode: int) -> None:
    ms.set_context(mode=mode)
    found = ops.grad(lambda c: (c.to_dense() ** 2).sum())(coo())
    assert isinstance(found, COOTensor)
    same(found, 2 * DENSE)
    found = ops.grad(lambda c, d: c.mm(d).sum(), (0, 1))(csr(), Tensor(OTHER.T))
    same(found[0], np.where(DENSE != 0, OTHER.sum(0, keepdims=True) * 0 + OTHER.sum(0), 0))
    same(found[1], np.broadcast_to(DENSE.sum(0)[:, None], (7, 5)))
    through = ops.grad(lambda v: (COOTensor(coo().indices, v, (5, 7)) * Tensor(OTHER)).values.sum())
    np.testing.assert_allclose(through(coo().values).asnumpy(),
                               OTHER[DENSE != 0][SHUFFLE], rtol=1e-6)


class Branches(nn.Cell):
    """A sparse tensor that a condition and a loop of the run change."""

    def construct(self, c: COOTensor, t: Tensor, n: Tensor) -> COOTensor:
        if t.sum() > 0:
            c = -c
        k = 0
        while k < n:
            c = ops.coo_square(c)
            k = k + 1
        return c


def test_values_of_runtime_branches_and_loops() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    net = Branches()
    same(net(coo(), Tensor([1.0]), Tensor(0)), -DENSE)
    same(net(coo(), Tensor([-1.0]), Tensor(0)), DENSE)
    same(net(coo(), Tensor([-1.0]), Tensor(2)), DENSE ** 4)


def test_text_is_mindspores() -> None:
    c = COOTensor(Tensor([[0, 1], [1, 2]], ms.int32), Tensor([1.0, 2.0], ms.float32), (3, 4))
    assert str(c) == repr(c) == (
        "COOTensor(shape=[3, 4], dtype=Float32, indices=Tensor(shape=[2, 2], dtype=Int32, value=\n"
        "[[0 1]\n [1 2]]), values=Tensor(shape=[2], dtype=Float32, "
        "value=[ 1.00000000e+00  2.00000000e+00]))")
    r = CSRTensor(Tensor([0, 1, 2], ms.int32), Tensor([0, 1], ms.int32), c.values, (2, 4))
    assert str(r).startswith(
        "CSRTensor(shape=[2, 4], dtype=Float32, indptr=Tensor(shape=[3], dtype=Int32, "
        "value=[0 1 2]), indices=Tensor(shape=[2], dtype=Int32, value=[0 1]), ")
    assert (c.size, c.itemsize, c.ndim, c.shape, c.dtype) == (2, 4, 2, (3, 4), ms.float32)


PLACES = Tensor([[0, 1], [1, 2]])
V = Tensor([1.0, 2.0])
P = Tensor([0, 1, 2])
C = Tensor([0, 1])
BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "row": (lambda: COOTensor(Tensor([[3, 1], [1, 2]]), V, (3, 4)), IndexError,
            r"rows must be in range \[0, 3\), but got 3"),
    "column": (lambda: COOTensor(Tensor([[0, -1], [1, 2]]), V, (3, 4)), IndexError, "got -1"),
    "rank": (lambda: COOTensor(C, V, (3, 4)), ValueError, "must be a 2-dimensional tensor"),
    "number": (lambda: COOTensor(PLACES[:1], V, (3, 4)), ValueError, "equally many"),
    "type": (lambda: COOTensor(Tensor([[0.0, 1.0]]), V, (3, 4)), TypeError, "int16, int32, int64"),
    "shape": (lambda: COOTensor(PLACES, V, [3, 4]), TypeError, "'shape' must be tuple"),
    "axes": (lambda: COOTensor(PLACES, V, (3, 4, 5)), ValueError, "must be 2"),
    "size": (lambda: COOTensor(PLACES, V, (0, 4)), ValueError, "must be positive"),
    "values": (lambda: COOTensor(PLACES, PLACES, (3, 4)), ValueError, "1-dimensional"),
    "both": (lambda: COOTensor(PLACES, coo_tensor=coo()), TypeError, "must be `None`"),
    "other": (lambda: COOTensor(coo_tensor=V), TypeError, "to be a COOTensor"),
    "start": (lambda: CSRTensor(Tensor([1, 1, 2]), C, V, (2, 4)), IndexError, "starts at 1"),
    "end": (lambda: CSRTensor(Tensor([0, 1, 5]), C, V, (2, 4)), IndexError, "ends at 5"),
    "descends": (lambda: CSRTensor(Tensor([0, 3, 2]), C, V, (2, 4)), IndexError, "step of -1"),
    "rows": (lambda: CSRTensor(P, C, V, (3, 4)), ValueError, "1 \\+ shape"),
    "csr column": (lambda: CSRTensor(P, Tensor([0, 9]), V, (2, 4)), IndexError, "got 9"),
    "sum": (lambda: csr().sum(0), ValueError, "'axis' must be 1"),
    "mm": (lambda: csr().mm(Tensor(DENSE)), ValueError, "of 7 rows"),
    "mv": (lambda: csr().mv(V), ValueError, r"\(7, 1\)"),
    "add": (lambda: coo() + Tensor(DENSE.T), ValueError, "same shape"),
    "coo * 2": (lambda: coo() * 2, TypeError, "not supported"),
    "concat": (lambda: ops.coo_concat([coo()]), ValueError, "At least|at least two"),
    "segment": (lambda: ops.sparse_segment_mean(Tensor(DENSE), C, Tensor([1, 0])), ValueError,
                "ascend"),
    "coalesce": (lambda: ops.coalesce(Tensor([[0], [9]]), V[:1], Tensor([3, 3])), IndexError,
                 "below"),
    "matmul types": (lambda: ops.SparseTensorDenseMatmul()(PLACES, V, (3, 4), ops.ones(
        (4, 2), ms.float64)), TypeError, "one type"),
    "matmul": (lambda: ops.SparseTensorDenseMatmul()(Tensor([[0, 9]]), V[:1], (3, 4),
                                                     ops.ones((4, 2))), IndexError, "got 9"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name: str) -> None:
    make, error, text = BAD[name]
    with pytest.raises(error, match=text):
        make()


def test_places_are_checked_when_a_graph_runs() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)

    @ms.jit
    def dense(i: Tensor, v: Tensor) -> Tensor:
        return COOTensor(i, v, (3, 4)).to_dense()

    assert dense(PLACES, V)[1, 2] == 2.0
    with pytest.raises(IndexError, match=r"columns must be in range \[0, 4\), but got 9"):
        dense(Tensor([[0, 9], [1, 2]]), V)


@MODES
def test_primitives(mode: int) -> None:
    places, shape = Tensor([[0, 1], [1, 2], [0, 1]]), (3, 4)
    values, dense = Tensor([1.0, 2.0, 5.0]), ops.ones((4, 2))
    out = run(mode, lambda: ops.SparseToDense()(places, values, shape))
    assert out[0, 1] == 5.0 and out.sum() == 7.0  # the last one counts
    out = run(mode, lambda: ops.SparseTensorDenseMatmul()(places, values, shape, dense))
    assert out.asnumpy().tolist() == [[6.0, 6.0], [2.0, 2.0], [0.0, 0.0]]
    turned = ops.SparseTensorDenseMatmul(adjoint_st=True, adjoint_dt=True)
    out = run(mode, lambda: turned(places, values, shape, ops.ones((2, 3))))
    assert out.asnumpy()[:, 0].tolist() == [0.0, 6.0, 2.0, 0.0]
    out = run(mode, lambda: ops.SparseTensorDenseAdd()(places, values, Tensor([3, 4]),
                                                       ops.ones((3, 4))))
    assert out[0, 1] == 7.0
    i, v, s = run(mode, lambda x: ops.Coalesce()(x, values, Tensor([3, 4])), places.T)
    assert (i.asnumpy().tolist(), v.asnumpy().tolist(), s.asnumpy().tolist()) == (
        [[0, 1], [1, 2]], [6.0, 2.0], [3, 4])
    i, v, s = run(mode, lambda x: ops.SparseSlice()(x, values, Tensor([3, 4]), Tensor([1, 1]),
                                                    Tensor([9, 2])), places)
    assert (i.asnumpy().tolist(), v.asnumpy().tolist(), s.asnumpy().tolist()) == (
        [[0, 1]], [2.0], [2, 2])
    means = ops.sparse_segment_mean(Tensor(DENSE), Tensor([0, 1, 3]), Tensor([0, 2, 2]))
    same(means, np.stack([DENSE[0], DENSE[0] * 0, (DENSE[1] + DENSE[3]) / 2]))


@MODES
def test_functions_that_are_primitives(mode: int) -> None:
    ms.set_context(mode=mode)
    assert ops.csr2coo(csr().indptr, csr().size).asnumpy().tolist() == \
        np.argwhere(DENSE)[:, 0].tolist()
    assert ops.coo2csr(Tensor([0, 0, 2]), 4).asnumpy().tolist() == [0, 2, 2, 3, 3]
    x = csr()
    got = ops.csr_gather(x.indptr, x.indices, Tensor(OTHER), x.shape)
    np.testing.assert_array_equal(got.asnumpy(), OTHER[DENSE != 0])
    made = ops.make_coo_tensor(PLACES, V, (3, 4))
    assert ops.coo_tensor_get_dense_shape(made) == (3, 4)
    assert ops.coo_tensor_get_values(made) is made.values
    with pytest.warns(DeprecationWarning, match="RowTensor"):
        row = ms.RowTensor(Tensor([0]), Tensor([[1.0, 2.0]]), (3, 2))
    twice = ops.row_tensor_add(row, row)
    assert ops.row_tensor_get_indices(twice).asnumpy().tolist() == [0, 0]
    with pytest.raises(IndexError, match="positions"):
        ops.make_row_tensor_inner(Tensor([5]), Tensor([[1.0, 2.0]]), (3, 2))


def test_the_element_type() -> None:
    for kind in (coo, ms.jit(coo)):
        assert ops.dtype(kind()) is kind().dtype is ms.float32
    with pytest.raises(TypeError, match="'x' must be a Tensor, but got list"):
        ops.dtype([1.0])


def test_functions_by_the_kind_of_argument() -> None:
    scaled = ops.MultitypeFuncGraph("scaled")
    scaled.register("Number", "Tensor")(lambda f, x: x * f)
    scaled.register("Number", "COOTensor")(lambda f, x: COOTensor(x.indices, x.values * f, x.shape))
    same(scaled(2.0, coo()), 2 * DENSE)
    same(scaled(2.0, Tensor(DENSE)), 2 * DENSE)


def test_layer_and_old_path() -> None:
    same(nn.SparseToDense()(coo()), DENSE)
    assert sparse_tensor.CSRTensor is CSRTensor is ms.common.CSRTensor
