"""`cellc.numpy` against numpy, in PyNative and in graph mode (the same bits)."""

from __future__ import annotations

import importlib.util
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as onp
import pytest

import cellc as ms
from cellc import Tensor

INPUTS: dict[str, Any] = {
    "x": onp.array([[0.5, -1.25, 2.0], [3.5, 0.25, -0.75]], onp.float32),
    "y": onp.array([[1.5, 2.0, -0.5], [0.75, 4.0, 1.0]], onp.float32),
    "u": onp.array([[0.1, 0.9, 0.5], [0.3, 0.7, 0.2]], onp.float32),
    "v": onp.array([3.0, 1.0, 2.0, 2.0, 5.0, 1.0], onp.float32),
    "i": onp.array([[1, 4, 6], [12, 5, 0]], onp.int32),
    "j": onp.array([[4, 6, 9], [18, 10, 7]], onp.int32),
    "k": onp.array([0, 2, 1, 2], onp.int32),
    "n": onp.array([[1.0, onp.nan, 3.0], [onp.nan, 5.0, -2.0]], onp.float32),
    "b": onp.array([[True, False, True], [False, False, True]]),
    "a3": onp.arange(24, dtype=onp.float32).reshape(2, 3, 4),
}

UNARY = ("abs absolute arctan arcsinh cbrt ceil cos cosh deg2rad exp exp2 expm1 fabs fix floor "
         "negative positive rad2deg radians rint sign sin sinh square tan tanh trunc signbit "
         "isfinite isinf isnan isneginf isposinf logical_not")
POSITIVE = "arccos arcsin arctanh log log10 log1p log2 sqrt reciprocal"
BINARY = ("add subtract multiply divide true_divide arctan2 hypot logaddexp logaddexp2 maximum "
          "minimum mod remainder fmod floor_divide copysign heaviside equal not_equal less "
          "less_equal greater greater_equal logical_and logical_or logical_xor divmod")
WHOLE = "gcd lcm bitwise_and bitwise_or bitwise_xor add multiply maximum floor_divide mod fmod"
FLOAT_ROWS = ("amax amin mean std var sum ptp cumsum cumprod argmax argmin count_nonzero "
              "max min")

EXPRESSIONS = (
    *(f"np.{f}(x)" for f in UNARY.split()),
    *(f"np.{f}(u)" for f in POSITIVE.split()),
    *(f"np.{f}(x, y)" for f in BINARY.split()),
    *(f"np.{f}(i, j)" for f in WHOLE.split()),
    *(f"np.{f}(x)" for f in FLOAT_ROWS.split()),
    *(f"np.{f}(x, axis=1)" for f in FLOAT_ROWS.split()),
    "np.power(u, y)", "np.invert(i)", "np.arccosh(u + 1)", "np.clip(x, 0.0, 1.0)",
    "np.clip(x, None, 1.0)", "np.isclose(x, x + 1e-9)", "np.where(b, x, y)", "np.where(b, 1, 2)",
    "np.interp(v, [1.0, 2.0, 4.0], [10.0, 20.0, 0.0])",
    "np.interp(v, [1.5, 2.0, 4.0], [10.0, 20.0, 0.0], left=-1.0, right=-2.0)",
    "np.unwrap([0.0, 3.0, 6.5, 1.0, -4.0])", "np.array_equal(x, x)", "np.array_equiv(x, y)",
    "np.amax(x, axis=0, keepdims=True)", "np.sum(x, axis=(0, 1))", "np.std(x, axis=0, ddof=1)",
    "np.max(x, axis=0, initial=1.0)", "np.amin(x, where=b, initial=9.0)",
    "np.average(x, axis=1, weights=u)", "np.average(x, axis=1, weights=[1.0, 2.0, 3.0])",
    "np.average(x)", "np.average(x, weights=u, returned=True)",
    "np.nansum(n, axis=0)", "np.nanmean(n, axis=1)", "np.nanmax(n, axis=0)", "np.nanmin(n)",
    "np.nanstd(n, axis=1)", "np.nanvar(n)", "np.nancumsum(n, axis=1)",
    "np.diff(v)", "np.diff(x, n=2, axis=1)", "np.diff(x, axis=0, prepend=0.0)", "np.ediff1d(x)",
    "np.trapz(x)", "np.trapz(x, dx=0.5, axis=0)", "np.trapz(x, x=[0.0, 1.0, 3.0])",
    "np.gradient(v)", "np.gradient(x, axis=1)", "np.gradient(a3)", "np.gradient(v, 2.0)",
    "np.cov(x)", "np.cov(x, y)", "np.cov(x, rowvar=False, bias=True)",
    "np.cov(x, fweights=[1, 2, 3])", "np.cov(x, aweights=[1.0, 2.0, 0.5])", "np.corrcoef(x)",
    "np.histogram(v, bins=4)", "np.histogram(v, bins=4, range=(0.0, 4.0))",
    "np.histogram(v, bins=[1.0, 2.0, 5.0], density=True)", "np.histogram_bin_edges(v, 3)",
    "np.histogram2d(v, v, bins=2)", "np.bincount([1, 1, 3, 0])",
    "np.bincount([1, 1, 3], weights=[0.5, 1.0, 2.0], minlength=6)",
    "np.correlate(v, [1.0, 2.0, 0.5])", "np.correlate(v, [1.0, 2.0, 0.5, 1.0], 'same')",
    "np.correlate([1.0, 2.0], v, 'full')", "np.convolve(v, [1.0, 2.0, 0.5])",
    "np.convolve(v, [1.0, 2.0], 'same')", "np.convolve(v, [1.0, 2.0, 1.0], 'valid')",
    "np.dot(x, y.T)", "np.dot(v, v)", "np.dot(a3, [1.0, 2.0, 3.0, 4.0])", "np.inner(x, y)",
    "np.outer(x, v)", "np.matmul(x, y.T)", "np.tensordot(x, y, axes=2)",
    "np.tensordot(x, y, axes=([1], [1]))", "np.kron(x, y)", "np.linalg.multi_dot([x, y.T, x])",
    "np.linalg.matrix_power(np.dot(x, y.T), 5)", "np.trace(x)", "np.trace(a3, 1, 1, 2)",
    "np.cross(x, y)", "np.cross(x[:, :2], y)", "np.cross(x[:, :2], y[:, :2])",
    "np.cross(x, y, axisc=0)", "np.linalg.norm(x)", "np.linalg.norm(x, 1, axis=1)",
    "np.polyadd(v, [1.0, 2.0])", "np.polysub([1.0, 2.0], v)", "np.polymul(v, [1.0, 2.0, 3.0])",
    "np.polyder(v)", "np.polyder(v, 2)", "np.polyint(v)", "np.polyint(v, 2, [1.0, 2.0])",
    "np.polyval(v, x)",
    "np.reshape(x, (3, -1))", "np.ravel(x)", "np.expand_dims(x, (0, 2))", "np.squeeze(x[:1])",
    "np.transpose(a3)", "np.transpose(a3, (1, 0, 2))", "np.swapaxes(a3, 0, 2)",
    "np.moveaxis(a3, 0, -1)", "np.rollaxis(a3, 2)", "np.rollaxis(a3, 0, 3)",
    "np.atleast_1d(x[0, 0])", "np.atleast_2d(v)", "np.atleast_3d(x)",
    "np.broadcast_to(v, (2, 6))", "np.concatenate([x, y], axis=1)",
    "np.concatenate([x, y], axis=None)",
    "np.append(x, v)", "np.append(x, y, axis=0)", "np.stack([x, y], axis=1)", "np.hstack([x, y])",
    "np.vstack([x, y])", "np.dstack([x, y])", "np.column_stack([v, v])",
    "np.array_split(v, 4)", "np.split(v, [1, 3])", "np.hsplit(x, 3)", "np.vsplit(x, 2)",
    "np.dsplit(a3, 2)", "np.flip(x)", "np.flip(x, 1)", "np.fliplr(x)", "np.flipud(x)",
    "np.rot90(x)", "np.rot90(a3, 3, (1, 2))", "np.roll(x, 2)", "np.roll(x, 1, axis=1)",
    "np.roll(x, (1, 2), axis=(0, 1))", "np.tile(x, 2)", "np.tile(v, (2, 1))", "np.repeat(x, 2)",
    "np.repeat(x, [1, 2], axis=0)", "np.tril(x)", "np.triu(x, 1)", "np.diag(v)", "np.diag(x)",
    "np.diag(x, 1)", "np.diagflat(x, -1)", "np.diagonal(a3, 0, 1, 2)",
    "np.take(x, k[:2], axis=1)", "np.take(v, [0, -1, 9], mode='wrap')",
    "np.take(v, [1, 9], mode='clip')", "np.take_along_axis(x, np.argmin(x, axis=1)[:, None], 1)",
    "np.choose(k, [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]])",
    "np.select([x > 1, x < 0], [x, y], 7.0)", "np.argwhere(b)", "np.where(b)",
    "np.unravel_index(k, (2, 3))", "np.unravel_index(k, (2, 3), order='F')",
    "np.ravel_multi_index([k, k], (4, 5))", "np.ravel_multi_index([k, k], (2, 2), mode='clip')",
    "np.ravel_multi_index([k, k], (2, 2), mode='wrap', order='F')",
    "np.searchsorted([1.0, 2.0, 3.0], v)", "np.searchsorted([1.0, 2.0, 3.0], v, side='right')",
    "np.digitize(v, [1.0, 2.0, 3.0])", "np.digitize(v, [1.0, 2.0, 3.0], right=True)",
    "np.digitize(v, [3.0, 2.0, 1.0])", "np.digitize(v, [3.0, 2.0, 1.0], right=True)",
    "np.unique(v)", "np.unique(v, return_inverse=True)", "np.isin(v, [1.0, 5.0])",
    "np.isin(v, [1.0], invert=True)", "np.in1d(v, [2.0])", "np.setdiff1d(v, [1.0, 3.0])",
    "np.intersect1d(v, [5.0, 2.0, 9.0])",
    "np.intersect1d(v, [5.0, 2.0, 9.0], return_indices=True)",
    "np.meshgrid([1, 2, 3], [4, 5])", "np.meshgrid([1, 2], [4, 5], indexing='ij', sparse=True)",
    "np.mgrid[0:3, 1:4]", "np.ogrid[0:3, 1:4]", "np.mgrid[0:1:5j]", "np.linspace(0.0, 1.0, 7)",
    "np.linspace(x, y, 3)", "np.linspace(x, y, 4, endpoint=False, axis=1)",
    "np.logspace(0.0, 2.0, 4)", "np.geomspace(1.0, 100.0, 5)", "np.geomspace(u, u + 1, 3)",
    "np.arange(2, 11, 3)", "np.arange(5, 0, -2)", "np.arange(0.0, 1.0, 0.3)", "np.arange(3, 1)",
    "np.eye(3, 4, 1)", "np.eye(2)", "np.tri(3, 4, -1)", "np.identity(3)", "np.full((2, 2), 7)",
    "np.full_like(x, 3.0)", "np.ones_like(x)", "np.zeros_like(i)", "np.bartlett(5)",
    "np.blackman(5)", "np.hamming(6)", "np.hanning(6)", "np.tril_indices(3)",
    "np.triu_indices(3, 1)", "np.tril_indices_from(x)", "np.triu_indices_from(x)",
    "np.diag_indices(3)", "np.vander(v, 4)", "np.vander(v, increasing=True)", "np.size(x)",
    "np.size(x, 1)", "np.isscalar(3)",
    "np.pad(x, 1)", "np.pad(x, (1, 2), 'constant', constant_values=(3.0, 4.0))",
    "np.pad(x, ((1, 0), (0, 2)), 'edge')", "np.pad(x, 1, 'reflect')", "np.pad(x, 2, 'symmetric')",
    "np.pad(x, (2, 1), 'wrap')", "np.pad(x, 1, 'reflect', reflect_type='odd')",
    "np.pad(v, 2, 'linear_ramp', end_values=9.0)", "np.pad(x, 1, 'maximum')",
    "np.pad(x, 1, 'minimum', stat_length=2)", "np.pad(x, (1, 1), 'mean')",
    "np.apply_along_axis(lambda r: r[0] - r[-1], 1, x)",
    "np.apply_along_axis(lambda r: r * 2, 0, x)", "np.apply_over_axes(np.sum, a3, [0, 2])",
    "np.piecewise(x, [x < 0, x >= 1], [lambda t: -t, lambda t: t * 10])",
    "np.piecewise(x, [x < 0], [-1.0, 1.0])",
)


def _text(expression: str, own: bool) -> str:
    """The expression; MindSpore keeps functions of `linalg` at the top."""
    return expression.replace("linalg.", "") if own else expression


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """One function for each expression, in a file: compiled from their source."""
    path: Path = tmp_path_factory.mktemp("numpy_cases") / "numpy_cases.py"
    names = ", ".join(INPUTS)
    body = ["import cellc.numpy as np"]
    body += [f"\ndef f{i}({names}):\n    return {_text(e, own=True)}\n"
             for i, e in enumerate(EXPRESSIONS)]
    path.write_text("\n".join(body), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("numpy_cases", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _leaves(value: Any) -> list[onp.ndarray[Any, Any]]:
    if isinstance(value, (tuple, list)):
        return [leaf for v in value for leaf in _leaves(v)]
    return [onp.asarray(value.asnumpy() if isinstance(value, Tensor) else value)]


def _bits(value: Any) -> list[tuple[Any, ...]]:
    return [(a.dtype, a.shape, onp.nan_to_num(a, nan=-77.0).tobytes()) for a in _leaves(value)]


@pytest.mark.parametrize("number", range(len(EXPRESSIONS)), ids=EXPRESSIONS)
def test_as_numpy(functions: ModuleType, number: int) -> None:
    expression = EXPRESSIONS[number]
    function: Callable[..., Any] = getattr(functions, f"f{number}")
    given = [Tensor(a) for a in INPUTS.values()]
    eager = function(*given)
    with warnings.catch_warnings(), onp.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        theirs = expression.replace("trapz", "trapezoid").replace("in1d", "isin")  # numpy 2's names
        expected = eval(theirs, {"np": onp, **INPUTS})
    want, got = _leaves(expected), _leaves(eager)
    assert len(want) == len(got)
    for a, b in zip(want, got, strict=True):
        assert a.shape == b.shape
        assert (a.dtype.kind in "iu") == (b.dtype.kind in "iu") or a.dtype.kind == "b" or \
            any(name in expression for name in ("histogram", "bincount", "ravel_multi_index"))
        onp.testing.assert_allclose(b.astype(float), a.astype(float), rtol=2e-5, atol=2e-6)
    assert _bits(ms.jit(function)(*given)) == _bits(eager)


def test_types_of_lists_and_numbers() -> None:
    np = ms.numpy
    assert np.array([1, 2]).dtype is ms.int32
    assert np.array([1, 2.5]).dtype is ms.float32
    assert np.array(True).dtype is ms.bool_
    assert np.zeros(2, int).dtype is ms.int32
    assert np.zeros(2, "float64").dtype is ms.float64
    assert np.add(Tensor([1, 2], ms.int64), 1).dtype is ms.int64
    assert np.add(Tensor([1.0], ms.float16), 1.0).dtype is ms.float32
    assert np.sum(Tensor([1, 2], ms.int32)).dtype is ms.int64
    assert np.mean(Tensor([1, 2], ms.int32)).dtype is ms.int32
    assert np.sin(Tensor([1, 2], ms.int32), dtype=np.float64).dtype is ms.float64
    assert np.array([[1, 2], Tensor([3, 4], ms.int32)]).asnumpy().tolist() == [[1, 2], [3, 4]]
    assert np.array(3, ndmin=2).shape == (1, 1)


def test_random_arrays() -> None:
    np = ms.numpy
    ms.set_seed(3)
    x = np.rand(4, 5)
    assert x.shape == (4, 5) and bool(x.min() >= 0) and bool(x.max() < 1)
    assert np.randn((2, 3), dtype=np.float64).dtype is ms.float64
    r = np.randint(2, 5, (100,))
    assert r.dtype is ms.int32 and set(r.asnumpy().tolist()) == {2, 3, 4}


def test_gradient_flows() -> None:
    np = ms.numpy

    def loss(x: Tensor) -> Tensor:
        return np.sum(np.where(x > 0, np.sin(x), np.square(x))) + np.polyval([1.0, 2.0], x).sum()

    x = Tensor([0.5, -2.0], ms.float32)
    want = onp.array([onp.cos(0.5), -4.0], onp.float32) + 1
    onp.testing.assert_allclose(ms.grad(loss)(x).asnumpy(), want, rtol=1e-6)
    onp.testing.assert_array_equal(ms.jit(ms.grad(loss))(x).asnumpy(), ms.grad(loss)(x).asnumpy())


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda np: np.array("a"), TypeError,
     "'obj' must be a Tensor, a number, or a list or tuple of numbers, but got str"),
    (lambda np: np.sin({}), TypeError,
     "'x' must be a Tensor, a number, or a list or tuple of numbers, but got dict"),
    (lambda np: np.stack([]), ValueError, "'arrays' must hold at least one array"),
    (lambda np: np.concatenate(3), TypeError,
     "'arrays' must be a Tensor, or a list or tuple of Tensors, but got int"),
    (lambda np: np.split(np.arange(5), 2), ValueError,
     "For 'numpy.split', axis 0 of (5,) does not divide into 2 equal parts"),
    (lambda np: np.dot(np.ones((2, 3)), np.ones((2, 3))), ValueError,
     "For 'numpy.dot', shapes (2, 3) and (2, 3) do not fit: axis 1 and axis 0 are summed over"),
    (lambda np: np.reshape(np.ones(4), (3, -1)), ValueError,
     "For 'reshape', the shape (3, -1) is invalid for input of size 4"),
    (lambda np: np.clip(np.ones(2), None, None), ValueError,
     "For 'numpy.clip', one of 'xmin' and 'xmax' must be given"),
    (lambda np: np.zeros(2, "nonsense"), TypeError,
     "dtype must be one of [bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64"),
    (lambda np: np.where([True], 1), ValueError, "both or neither of 'x' and 'y' must be given"),
    (lambda np: np.pad([1, 2], 1, "nonsense"), ValueError, "'mode' 'nonsense' is not known"),
    (lambda np: np.meshgrid([1], indexing="no"), ValueError,
     "For 'numpy.meshgrid', 'indexing' must be 'xy' or 'ij', but got 'no'"),
    (lambda np: np.matrix_power(np.ones((2, 3)), 2), ValueError,
     "For 'numpy.matrix_power', a square matrix is needed, but got (2, 3)"),
    (lambda np: np.cross(np.ones(4), np.ones(4)), ValueError,
     "For 'numpy.cross', vectors must have 2 or 3 elements, but got shapes (4,) and (4,)"),
])
def test_errors(call: Callable[[Any], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        call(ms.numpy)
