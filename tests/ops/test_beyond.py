"""Ops beyond the usual ones: MindSpore's values and gradients, and the same bits in both modes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, ops

from .beyond_cases import RECORDED, calls, digest, flat, gradients

CASES = calls(ms).found
WANTED: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))


def agree(array: Any, want: dict[str, Any]) -> None:
    """Assert that an array is the recorded one."""
    got = digest(array)
    assert (got["dtype"], got["shape"]) == (want["dtype"], want["shape"])
    np.testing.assert_allclose(got["some"], want["some"], rtol=2e-4, atol=2e-5)
    assert abs(got["sum"] - want["sum"]) <= 2e-4 * want["size"] + 2e-5


def test_all_are_recorded() -> None:
    assert CASES.keys() == WANTED.keys()


@pytest.mark.parametrize("name", CASES)
def test_mindspores_values(name: str) -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    function, arrays, wanted = CASES[name]
    results = [t.asnumpy() for t in flat(function(*map(Tensor, arrays)))]
    for array, want in zip(results, WANTED[name]["out"], strict=True):
        agree(array, want)
    for array, want in zip(gradients(ms, function, arrays, wanted), WANTED[name]["grad"],
                           strict=True):
        agree(array, want)


STEPS = {n for n in CASES if n.startswith(("Sparse", "FusedSparse"))}


@pytest.mark.parametrize("name", [n for n in CASES if n not in STEPS])
def test_both_modes(name: str) -> None:
    function, arrays, wanted = CASES[name]
    ms.set_context(mode=ms.PYNATIVE_MODE)
    given = [Tensor(a) for a in arrays]
    eager = [*flat(function(*given))]
    compiled = flat(ms.jit(function)(*given))
    for a, b in zip(eager, compiled, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
    plain = gradients(ms, function, arrays, wanted)
    graph = gradients(ms, ms.jit(function), arrays, wanted)
    for x, y in zip(plain, graph, strict=True):
        np.testing.assert_array_equal(x, y)


def test_ties() -> None:
    """The gradient of an extreme with a position reaches that one element, as MindSpore's."""
    x = Tensor([[1.0, 3, 3, 0], [2, 2, 2, 2]])
    first, least = [[0, 1, 0, 0], [1, 0, 0, 0]], [[0, 0, 0, 1], [1, 0, 0, 0]]
    both = (np.array(first) + least).tolist()
    shared = [[0, 0.5, 0.5, 0], [0.25] * 4]
    cases: list[tuple[Callable[[Tensor], Any], Any]] = [
        (lambda x: ops.max(x, 1)[0].sum(), first), (lambda x: ops.min(x, 1)[0].sum(), least),
        (lambda x: x.max(axis=1).sum(), first), (lambda x: x.min(axis=1).sum(), least),
        (lambda x: ops.ArgMaxWithValue(1, True)(x)[1].sum(), first),
        (lambda x: sum(v.sum() for v in ops.aminmax(x, axis=1)), both),
        (lambda x: ops.amax(x, 1).sum(), shared)]
    for function, want in cases:
        for call in (ms.grad(function), ms.jit(ms.grad(function))):
            assert call(x).asnumpy().tolist() == want


ROWS: dict[str, tuple[dict[str, Any], int, list[Any]]] = {
    "SparseApplyAdadelta": ({"epsilon": 1e-6}, 3, [0.01, 0.9]),
    "SparseApplyAdagrad": ({"lr": 0.1}, 2, []),
    "SparseApplyAdagradV2": ({"lr": 0.1, "epsilon": 1e-6}, 2, []),
    "SparseApplyFtrl": ({"lr": 0.1, "l1": 0.0, "l2": 0.0, "lr_power": -0.5}, 3, []),
    "SparseApplyFtrlV2": ({"lr": 0.1, "l1": 0.0, "l2": 0.0, "l2_shrinkage": 0.1,
                           "lr_power": -0.5}, 3, []),
    "SparseApplyProximalAdagrad": ({}, 2, [0.1, 0.0, 0.0]),
    "SparseApplyRMSProp": ({"rho": 0.9, "momentum": 0.1, "epsilon": 1e-6}, 3, [0.01]),
    "FusedSparseAdam": ({}, 3, [0.9, 0.999, 0.001, 0.9, 0.999, 1e-8]),
    "FusedSparseLazyAdam": ({}, 3, [0.9, 0.999, 0.001, 0.9, 0.999, 1e-8]),
    "FusedSparseProximalAdagrad": ({}, 2, [0.1, 0.0, 0.0]),
}


class Rows(ms.nn.Cell):
    """A step of some rows of a parameter."""

    def __init__(self, name: str) -> None:
        super().__init__()
        options, count, middle = ROWS[name]
        self.step = getattr(ops, name)(**options)
        self.kept = ms.ParameterTuple([
            ms.Parameter(Tensor(np.arange(1, 11, dtype=np.float32).reshape(5, 2) / (i + 7)),
                         name=f"p{i}") for i in range(count)])
        self.middle = tuple(middle)

    def construct(self, grad: Tensor, rows: Tensor) -> Any:
        return self.step(*self.kept, *self.middle, grad, rows)


@pytest.mark.parametrize("name", ROWS)
def test_rows_in_both_modes(name: str) -> None:
    grad, rows = Tensor([[0.5, -1.0], [2.0, 1.0]]), Tensor([3, 1], ms.int32)
    found = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        net = Rows(name)
        before = net.kept[0].asnumpy().copy()
        for _ in range(2):
            out = net(grad, rows)
        found.append([p.asnumpy() for p in net.kept])
        np.testing.assert_array_equal(out[0].asnumpy(), found[-1][0])
        assert (found[-1][0][[1, 3]] != before[[1, 3]]).all()
        if name != "FusedSparseAdam":
            assert (found[-1][0][[0, 2, 4]] == before[[0, 2, 4]]).all()
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


# --- draws ----------------------------------------------------------------------------------------


def drawn(function: Callable[[], Any]) -> tuple[Any, Any]:
    """What two runs give, of which one is compiled, from one seed."""
    out = []
    for call in (function, ms.jit(function)):
        ms.set_seed(5)
        out.append([t.asnumpy() for t in flat(call())])
    return out[0], out[1]


DRAWS: dict[str, tuple[Callable[[], Any], float, float]] = {
    "gamma": (lambda: ops.gamma((20000,), Tensor(2.5), Tensor(0.5)), 5.0, 10.0),
    "gamma below 1": (lambda: ops.gamma((20000,), Tensor(0.3), Tensor(1.0)), 0.3, 0.3),
    "random_gamma": (lambda: ops.random_gamma((20000,), Tensor([4.0])), 4.0, 4.0),
    "poisson": (lambda: ops.poisson((20000,), Tensor(3.5)), 3.5, 3.5),
    "random_poisson": (lambda: ops.random_poisson((20000,), Tensor([60.0])), 60.0, 60.0),
    "TruncatedNormal": (lambda: ops.TruncatedNormal()((20000,)), 0.0, 0.7741),
    "LogNormalReverse": (lambda: ops.LogNormalReverse(0.0, 0.25)(ops.zeros((20000,))),
                         np.exp(0.03125), np.exp(0.0625) * (np.exp(0.0625) - 1)),
    "ParameterizedTruncatedNormal": (lambda: ops.ParameterizedTruncatedNormal()(
        (1, 20000), Tensor([1.0]), Tensor([2.0]), Tensor([1.0]), Tensor([99.0])),
        1 + 2 * np.sqrt(2 / np.pi), 4 * (1 - 2 / np.pi)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws(name: str) -> None:
    function, mean, variance = DRAWS[name]
    eager, graph = drawn(function)
    np.testing.assert_array_equal(eager[0], graph[0])
    x = eager[0].astype(np.float64)
    assert abs(x.mean() - mean) < 5 * np.sqrt(variance / x.size)
    assert abs(x.var() - variance) < 0.15 * variance


def test_choice_with_mask() -> None:
    mask = np.zeros((4, 5), bool)
    mask[1, 2] = mask[3, 4] = mask[0, 0] = True
    (index, valid), graph = drawn(lambda: ops.RandomChoiceWithMask(5)(Tensor(mask)))
    assert (index == graph[0]).all() and index.dtype == np.int32
    assert valid.tolist() == [True, True, True, False, False]
    assert {tuple(i) for i in index[:3].tolist()} == {(1, 2), (3, 4), (0, 0)}
    assert (index[3:] == 0).all()
    few, shown = (t.asnumpy() for t in ops.choice_with_mask(Tensor(mask), 2, seed=3))
    assert shown.all() and all(mask[tuple(i)] for i in few)


def test_dropout_masks() -> None:
    ms.set_seed(2)
    mask = ops.DropoutGenMask()((40, 50), Tensor(0.8))
    assert mask.dtype == ms.uint8 and mask.shape == (2048 // 8,)
    out = ops.DropoutDoMask()(ops.ones((40, 50)), mask, Tensor(0.8)).asnumpy()
    assert set(np.unique(out).tolist()) == {0.0, 1.25} and abs(out.mean() - 1) < 0.05


def test_fractional_pools() -> None:
    x = np.arange(2 * 10 * 13 * 3, dtype=np.float32).reshape(2, 10, 13, 3)
    for kind, reduce in (("Max", np.max), ("Avg", np.mean)):
        for pseudo in (False, True):
            pool = getattr(ops, f"Fractional{kind}Pool")([1.0, 1.4, 1.7, 1.0], pseudo, True)
            (y, rows, columns), graph = drawn(lambda pool=pool: pool(Tensor(x)))
            np.testing.assert_array_equal(y, graph[0])
            assert rows[0] == columns[0] == 0 and rows[-1] == 10 and columns[-1] == 13
            assert {*np.diff(rows)} <= {1, 2} and y.shape == (2, 7, 7, 3)
            want = reduce(x[:, rows[2] : rows[3] + 1, columns[1] : columns[2] + 1], axis=(1, 2))
            np.testing.assert_allclose(y[:, 2, 1], want, rtol=1e-6)


# --- what MindSpore's CPU cannot run --------------------------------------------------------------


def test_patches() -> None:
    x = np.arange(2 * 3 * 6 * 7, dtype=np.float32).reshape(2, 3, 6, 7)
    y = ops.ExtractImagePatches((1, 1, 2, 3), (1, 1, 2, 2), (1, 1, 1, 1))(Tensor(x)).asnumpy()
    assert y.shape == (2, 18, 3, 3)
    np.testing.assert_array_equal(y[1, :, 1, 2], x[1, :, 2:4, 4:7].transpose(1, 2, 0).ravel())


def test_dilation() -> None:
    x = np.random.default_rng(0).random((1, 3, 6, 6), np.float32)
    w = np.float32([[[1, -2]]] * 3)
    y = ops.Dilation2D(1, 1, "VALID")(Tensor(x), Tensor(w)).asnumpy()
    np.testing.assert_array_equal(y, np.maximum(x[..., :-1] + np.float32(1),
                                                x[..., 1:] + np.float32(-2)))


def test_confusion() -> None:
    a, b = Tensor([0, 1, 1, 3], ms.int32), Tensor([0, 1, 3, 3], ms.int32)
    found = ops.ConfusionMatrix(4)(a, b)
    assert found.dtype == ms.int32
    assert found.asnumpy().tolist() == [[1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 0, 1]]
    row, place, weight = ops.ComputeAccidentalHits(2)(
        Tensor([[1, 2], [0, 3]]), Tensor([0, 3, 1, 5]))
    assert row.asnumpy().tolist() == [0, 1, 1] and place.asnumpy().tolist() == [2, 0, 1]
    assert (weight.asnumpy() < -1e38).all()


def test_nextafter() -> None:
    x = np.array([1.0, 0.0, -0.0, -1.0, 1e-45, np.inf, 3.0], np.float32)
    y = np.array([2.0, -1.0, 1.0, 0.0, 0.0, 0.0, 3.0], np.float32)
    np.testing.assert_array_equal(ops.nextafter(Tensor(x), Tensor(y)).asnumpy(), np.nextafter(x, y))


def test_ctc_gradient() -> None:
    """MindSpore's leaves out parts of the blank's; rows of the true one sum to 0."""
    x = np.random.default_rng(1).standard_normal((4, 2, 3)).astype(np.float32)
    given = (Tensor([[0, 0], [1, 0], [1, 1]]), Tensor([1, 0, 1], ms.int32),
             Tensor([4, 3], ms.int32))

    def total(t: Tensor) -> Tensor:
        return ops.CTCLoss()(t, *given)[0].sum()

    _, slope = ops.CTCLoss()(Tensor(x), *given)
    np.testing.assert_allclose(slope.asnumpy(), ms.grad(total)(Tensor(x)).asnumpy(), atol=1e-6)
    np.testing.assert_allclose(slope.asnumpy().sum(-1), 0, atol=1e-6)
    assert (slope.asnumpy()[3, 1] == 0).all()


def test_lars_and_changes() -> None:
    w, g = np.float32([[3, 4]]), np.float32([[0.6, 0.8]])
    out = ops.LARSUpdate()(Tensor(w), Tensor(g), Tensor(25.0), Tensor(1.0), 0.1, 0.01).asnumpy()
    np.testing.assert_allclose(out, (g + 0.1 * w) * (0.001 * 5 / (1 + 0.1 * 5 + 1e-5)), rtol=1e-5)
    m, v = (ms.Parameter(ops.zeros((2,)), name=n) for n in "mv")
    one = [Tensor([x], ms.float32) for x in (0.9, 0.999, 0.001, 0.9, 0.999, 1e-8)]
    change = ops.AdamNoUpdateParam()(m, v, *one, Tensor([1.0, -2.0]))
    np.testing.assert_allclose(change.asnumpy(), [-0.001, 0.001], rtol=1e-4)
    np.testing.assert_allclose(m.asnumpy(), [0.1, -0.2], rtol=1e-5)


# --- ready made and elsewhere ---------------------------------------------------------------------


def test_ready_made() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])

    def program(x: Tensor) -> Any:
        n = ops.scalar_add(ops.tuple_len((1, 2, 3)), ops.shape_mul(ops.shape_(x)))
        pair = ops.make_tuple(x, ops.reduce_sum(x, 1))
        last = ops.tuple_getitem(ops.tuple_setitem(pair, 0, ops.pows(x, 2)), 0)
        total = x
        for i in ops.make_range(1, 4, 2):
            total = ops.augassign_add(total, ops.scalar_mul(i, 2))
        return (ops.scalar_div(n, 2), last, total, ops.mixed_precision_cast(ms.float16, pair),
                ops.hyper_add((x, x), (x, last)), ops.switch(ops.bool_not(False), x, last))

    eager, graph = program(x), ms.jit(program)(x)
    assert eager[0] == graph[0] == 3.5
    for a, b in zip(flat(eager[1:]), flat(graph[1:]), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
    assert ops.broadcast_gradient_args((2, 3), (1, 3)) == ((), (0,))
    assert ops.scalar_cast(3.7, ms.int64) == 3 and ops.make_range(5) == (0, 1, 2, 3, 4)
    with pytest.raises(ValueError, match="int64, float64 and bool"):
        ops.scalar_cast(1, ms.int32)


@pytest.mark.parametrize("name", ["NPUAllocFloatStatus", "PagedAttention", "UpdateState"])
def test_elsewhere(name: str) -> None:
    made = getattr(ops, name)()
    with pytest.raises(RuntimeError, match=f"ops.{name} "):
        made(Tensor([1.0]))


def test_morph() -> None:
    def own(x: Any, out: Any, dout: Any) -> Any:
        return dout * 7

    for rule, slope in ((None, 3.0), (own, 7.0)):
        morph = ops.Morph(lambda x: x * 3, lambda s: s, lambda d: d, rule)
        for grad in (ms.grad(lambda x, m=morph: m(x)), ms.jit(ms.grad(lambda x, m=morph: m(x)))):
            assert grad(Tensor([2.0])).asnumpy().tolist() == [slope]


BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "boxes": (lambda: ops.check_valid(ops.ones((3, 5)), ops.ones((3,))), ValueError, r"\(N, 4\)"),
    "choice": (lambda: ops.choice_with_mask(ops.ones((3,))), TypeError, "be a Tensor of bools"),
    "crop": (lambda: ops.crop_and_resize(ops.ones((1, 4, 4, 1)), ops.ones((1, 4)), Tensor(
        [2], ms.int32), (2, 2)), IndexError, "must be in"),
    "segments": (lambda: ops.SegmentSum()(ops.ones((2, 2)), Tensor([1, 0])), ValueError, "ascend"),
    "betainc": (lambda: ops.Betainc()(ops.ones((2,)), ops.ones((3,)), ops.ones((2,))), ValueError,
                "one shape"),
    "polygamma": (lambda: ops.polygamma(-1, ops.ones((2,))), ValueError, "0 or more"),
    "stft": (lambda: ops.stft(ops.ones((8,)), 16, center=False), ValueError, "n_fft"),
    "numerics": (lambda: ops.CheckNumerics()(Tensor([np.nan])).asnumpy(), Exception, "NaN"),
    "rows": (lambda: ops.FusedSparseLazyAdam()(*[ms.Parameter(ops.ones((3, 2)), name=n)
             for n in "abc"], *[0.1] * 6, ops.ones((2, 2)), Tensor([0], ms.int32)), ValueError,
             r"'grad' \(n, ...\) and 'indices' \(n\) are needed, but got \(3, 2\)"),
    "mean": (lambda: ops.random_poisson((2,), 3.0), TypeError, "must be a Tensor"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name: str) -> None:
    call, kind, text = BAD[name]
    with pytest.raises(kind, match=text):
        call()
