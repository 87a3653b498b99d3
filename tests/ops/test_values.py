"""Values, types and positions that MindSpore 2.10 gave on a CPU, in both modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc import numpy as cellc_numpy
from cellc.mint.nn import functional as mint_functional
from cellc_compiler.ir.op import lookup

from ..modes.law import MODES, mode

X = Tensor(np.array([[3.0, 1.0, 2.0], [4.0, 0.0, 9.0]], np.float32))
WHERE = Tensor(np.array([[False, True, True], [False, False, False]]))
MATRIX = Tensor(np.array([[1.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]], np.float32))
IMAGE = Tensor(np.random.RandomState(0).randn(1, 1, 4, 4).astype(np.float32))


def ints(*values: int, dtype: Any = np.int32) -> Tensor:
    return Tensor(np.array(values, dtype))


def resized(**options: Any) -> Callable[[], Any]:
    """The first elements of the image in another size."""
    return lambda: ops.interpolate(IMAGE, mode="bicubic", **options).reshape(-1)[:6]


VALUES: dict[str, tuple[Callable[[], Any], list[tuple[str, Any]]]] = {
    "inv of ints": (lambda: (ops.inv(ints(1, 2, -1, 3)), ops.Inv()(ints(2, 1, -1))),
                    [("Int32", [1, 0, -1, 0]), ("Int32", [0, 1, -1])]),
    "inv of ints is of their size": (lambda: (ops.inv(ints(2, 1, dtype=np.int64)),),
                                     [("Int64", [0, 1])]),
    "inv of floats": (lambda: (ops.inv(Tensor([4.0, 2.0])), Tensor([[4.0, 2.0]]).inv()),
                      [("Float32", [0.25, 0.5]), ("Float32", [[0.25, 0.5]])]),
    "bernoulli has the type of its input": (
        lambda: (ops.bernoulli(ints(1, 0), 1.0), ops.bernoulli(ints(0, 0), Tensor([0.0, 1.0])),
                 ops.bernoulli(Tensor([True]), 1.0)),
        [("Int32", [1, 1]), ("Int32", [0, 1]), ("Bool", [True])]),
    "max beside initial": (
        lambda: ops.max(X, 1, initial=2.5, where=WHERE),
        [("Float32", [2.5, 2.5]), ("Int64", [0, 0])]),
    "max below all": (
        lambda: ops.max(X, 1, initial=-1.0, where=WHERE),
        [("Float32", [2, -1]), ("Int64", [2, 0])]),
    "max above all": (
        lambda: ops.max(X, 0, initial=5.0, where=WHERE),
        [("Float32", [5, 5, 5]), ("Int64", [0, 0, 0])]),
    "min beside initial": (
        lambda: ops.min(X, 1, initial=0.5, where=WHERE),
        [("Float32", [0.5, 0.5]), ("Int64", [0, 0])]),
    "relu of truth values": (lambda: (ops.relu(Tensor([True, False])),), [("Bool", [True, False])]),
    "condition": (lambda: (ops.cond(MATRIX), ops.cond(MATRIX, "fro"), ops.cond(MATRIX, 1)),
                  [("Float32", 2**0.5), ("Float32", 10**0.5), ("Float32", 2)]),
    "norms by singular values": (
        lambda: (ops.norm(X, 2, (0, 1)), ops.norm(X, "nuc", (0, 1), True), ops.norm(X, -2, (0, 1))),
        [("Float32", 10.329952), ("Float32", [[12.401688]]), ("Float32", 2.0717368)]),
    "transforms": (
        lambda: (cellc_numpy.fft.irfft(cellc_numpy.fft.rfft([1.0, 2.0, 4.0, 8.0], axis=0), n=4),
                 ops.real(cellc_numpy.fft.fft2(X, axes=(0, 1))),
                 cellc_numpy.fft.fftshift(X, axes=1)),
        [("Float32", [1, 2, 4, 8]), ("Float32", [[19, 1, 1], [-7, 2, 2]]),
         ("Float32", [[2, 3, 1], [9, 4, 0]])]),
    "bicubic": (lambda: (resized(size=(5, 5))(),), [("Float32", [
        1.8156514, 0.78703576, 0.55325836, 1.3995736, 2.4028807, 2.0940437])]),
    "bicubic, two sizes": (lambda: (resized(size=(7, 3))(),), [("Float32", [
        1.6084883, 0.5766418, 2.2702594, 1.6376458, 0.3160427, 1.4160068])]),
    "bicubic, corners": (lambda: (resized(size=(5, 5), align_corners=True)(),), [("Float32", [
        1.7640524, 0.64814246, 0.44325542, 1.3257172, 2.2408931, 2.051963])]),
    "bicubic, twice as large": (
        lambda: (resized(scale_factor=2.0, recompute_scale_factor=True)(),),
        [("Float32", [1.8637336, 1.5108136, 0.7631259, 0.4938651, 0.75560296, 1.3384161])]),
}


@pytest.mark.parametrize("m", MODES, ids=["eager", "graph"])
@pytest.mark.parametrize("name", list(VALUES))
def test_values(name: str, m: int) -> None:
    call, want = VALUES[name]
    with mode(m):
        compiled = ms.jit(lambda: call()) if m == ms.GRAPH_MODE else call
        found = compiled()
    assert [str(t.dtype) for t in found] == [dtype for dtype, _ in want]
    for tensor, (_, values) in zip(found, want, strict=True):
        np.testing.assert_allclose(tensor.asnumpy(), np.array(values), rtol=2e-6)


NAN = np.array([np.nan, 0.0, 2.0, 5.0, np.inf], np.float32)
SEARCHES: dict[str, Callable[[Any, str], Any]] = {
    "searchsorted": lambda edges, side: ops.searchsorted(Tensor(edges), Tensor(NAN), side=side),
    "rows": lambda edges, side: ops.searchsorted(
        Tensor([edges]), Tensor(NAN[None]), right=side == "right")[0],
    "bucketize": lambda edges, side: ops.bucketize(
        Tensor(NAN), edges.tolist(), right=side == "right"),
    "numpy": lambda edges, side: cellc_numpy.searchsorted(Tensor(edges), Tensor(NAN), side),
    "digitize": lambda edges, side: cellc_numpy.digitize(
        Tensor(NAN), Tensor(edges), side == "left"),
}


@pytest.mark.parametrize("m", MODES, ids=["eager", "graph"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("edges", [[1, 2, 3], [1, 2, np.nan], [np.nan] * 3], ids=str)
@pytest.mark.parametrize("search", list(SEARCHES))
def test_nan_comes_after_all_numbers(search: str, edges: list[float], side: Any, m: int) -> None:
    ordered = np.array(edges, np.float32)
    with mode(m):
        call = ms.jit(SEARCHES[search]) if m == ms.GRAPH_MODE else SEARCHES[search]
        found = call(ordered, side)
    np.testing.assert_array_equal(found.asnumpy(), np.searchsorted(ordered, NAN, side))


COMPLEX: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "prod": (lambda x, a: ops.prod(x, a, True), lambda x, a: np.prod(x, a, keepdims=True)),
    "cumprod": (ops.cumprod, np.cumprod),
    "cumsum": (ops.cumsum, np.cumsum),
    "var": (ops.var, np.var),
    "std": (lambda x, a: ops.std(x, a, 1), lambda x, a: np.std(x, a, ddof=1)),
    "from the end": (lambda x, a: ops.CumProd(True, True)(x, a), lambda x, a: np.flip(np.cumprod(
        np.insert(np.flip(x, a), 0, 1, a), a), a).take(range(1, x.shape[a] + 1), a)),
}


@pytest.mark.parametrize("m", MODES, ids=["eager", "graph"])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("n", [1, 2, 7, 12])
@pytest.mark.parametrize("name", list(COMPLEX))
def test_complex_reductions(name: str, n: int, dtype: Any, m: int) -> None:
    function, reference = COMPLEX[name]
    if name == "std" and n == 1:
        return  # numpy warns of the division by 0
    r = np.random.default_rng(n)
    for axis, shape in enumerate([(n, 3), (2, n)]):
        x = (r.normal(size=shape) + 1j * r.normal(size=shape)).astype(dtype)
        with mode(m):
            call = ms.jit(function) if m == ms.GRAPH_MODE else function
            found = call(Tensor(x), axis).asnumpy()
        want = reference(x.astype(np.complex128), axis)
        np.testing.assert_allclose(found, want, 1e-5 if dtype is np.complex64 else 1e-12, 1e-6)
        assert found.real.dtype == np.zeros(0, dtype).real.dtype


def test_products_of_complex_numbers_keep_infinities() -> None:
    """1 * (inf + 0i) has a NaN: nothing is multiplied that needs no product."""
    x = Tensor(np.array([np.inf, 2.0], np.complex64))
    assert ops.cumprod(x, 0).asnumpy()[0] == np.inf
    assert ops.prod(x[:1]).asnumpy() == np.inf
    assert ops.prod(x[:0]).asnumpy() == 1


@pytest.mark.parametrize("function", [
    lambda x: ops.real(ops.prod(x)), lambda x: ops.imag(ops.cumprod(x, 0)).sum(),
    lambda x: ops.abs(ops.cumsum(x, 0)).sum(), lambda x: ops.var(x, 0)],
    ids=["prod", "cumprod", "cumsum", "var"])
def test_gradients_of_complex_reductions(function: Callable[[Tensor], Tensor]) -> None:
    """dL/dRe z + i dL/dIm z, by differences; with a zero among the factors."""
    x, h = np.array([1 + 2j, 0, -0.5 + 1j, 2j]), 1e-6
    slopes = [sum(unit * float(function(Tensor(x + sign * h * unit * at)).asnumpy()) * sign
                  for unit in (1, 1j) for sign in (1, -1)) / (2 * h) for at in np.eye(4)]
    np.testing.assert_allclose(ms.grad(function)(Tensor(x)).asnumpy(), slopes, 1e-6, 1e-7)


def test_bicubic_of_mint_is_pytorchs() -> None:
    """There a = -0.75 in every case, the ends are repeated, and offsets are exact."""
    found = mint_functional.interpolate(IMAGE, size=(5, 5), mode="bicubic").reshape(-1)[:4]
    np.testing.assert_allclose(found.asnumpy(), [1.8351555, 0.7845076, 0.4809382, 1.4274358],
                               rtol=1e-5)


def test_ops_has_mindspores_modules() -> None:
    assert ops.operations.MatMul is ops.MatMul
    assert ops.composite.GradOperation is ops.GradOperation
    assert ops.function.math_func.add is ops.add
    assert ops.auto_generate.transpose_ext_view is ms.mint.transpose
    assert ops.function.nn_func.glu_ext is mint_functional.glu
    with pytest.raises(AttributeError, match="nothing_ext"):
        ops.function.math_func.nothing_ext  # noqa: B018 -- asked for


def test_condition_of_what_is_no_matrix() -> None:
    with pytest.raises(TypeError, match="'true_fun' must be a function"):
        ops.cond(Tensor(True))
    with pytest.raises(ValueError, match="'ord' must be one of"):
        ops.cond(MATRIX, 3)


class Chosen(nn.Cell):
    def construct(self, x: Tensor) -> Any:
        return ops.cond(x.sum() > 0, lambda: x * 2, lambda: x)


def test_cond_still_chooses() -> None:
    assert Chosen()(Tensor([1.0])).asnumpy().tolist() == [2.0]


@pytest.mark.parametrize(("name", "step"), [
    ("lgamma", lambda x: np.log(np.abs(x))), ("digamma", lambda x: 1 / x),
    ("trigamma", lambda x: -1 / (x * x))])
def test_references_of_gamma_functions_go_from_x_to_x_plus_1(name: str, step: Any) -> None:
    """On both sides of zero, where they are told from one another by reflection; known values."""
    op = lookup(name)
    x = np.concatenate([np.arange(-6.75, 6, 0.5), [-0.1, 0.05, 19.5, 20.5, 150.25]])
    np.testing.assert_allclose(op.reference(x + 1), op.reference(x) + step(x), 1e-11, 1e-11)
    known = {"lgamma": (np.log(np.sqrt(np.pi)), np.log(2 * np.sqrt(np.pi))),
             "digamma": (-1.9635100260214235, 0.03648997397857652),
             "trigamma": (np.pi**2 / 2, np.pi**2 / 2 + 4)}
    np.testing.assert_allclose(op.reference(np.array([0.5, -0.5])), known[name], 1e-12)
