"""Decompositions of matrices in both modes, by what they must satisfy, and their gradients."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, ops
from cellc.ops.functional import decompositions
from cellc.testing import check_grads

from .test_sparse import MODES, run

RNG = np.random.default_rng(5)
SQUARE = RNG.standard_normal((2, 5, 5))
TALL = RNG.standard_normal((2, 6, 4))
SHAPES = pytest.mark.parametrize("shape", [(6, 4), (4, 4), (4, 6), (1, 3), (2, 3, 5, 3)])


def close(found: Any, expected: Any, tolerance: float = 1e-10) -> None:
    a = found.asnumpy() if isinstance(found, Tensor) else np.asarray(found)
    np.testing.assert_allclose(a, expected, rtol=tolerance, atol=tolerance)


@MODES
@SHAPES
def test_lu(mode: int, shape: tuple[int, ...]) -> None:
    a = RNG.standard_normal(shape)
    rows, columns = shape[-2:]

    def factors(x: Tensor) -> Any:
        packed, pivots = decompositions.lu_packed(x.reshape((-1, rows, columns)))
        return ops.lu_unpack(packed, (pivots + 1).astype(ms.int32))

    p, low, up = run(mode, factors, Tensor(a))
    close(p @ low @ up, a.reshape(-1, rows, columns))
    assert np.abs(low.asnumpy()).max() <= 1.0  # pivoting
    close(np.tril(up.asnumpy(), -1), np.zeros(up.shape))
    assert sorted(set(p.asnumpy().ravel())) in ([0.0, 1.0], [1.0])


@MODES
def test_lu_solve(mode: int) -> None:
    packed, pivots = decompositions.lu_packed(Tensor(SQUARE))
    right = RNG.standard_normal((3, 2, 5, 2))
    out = run(mode, ops.lu_solve, Tensor(right), packed, (pivots + 1).astype(ms.int32))
    close(SQUARE @ out.asnumpy(), right)
    assert Tensor(right).lu_solve(packed, pivots + 1).shape == right.shape


def test_documented_lu_solve() -> None:
    data = Tensor([[2.0, 1.0, 1.0], [0.5, 1.0, 1.5], [0.5, 0.0, 2.5]])
    out = ops.LuSolve()(Tensor([[1.0], [3.0], [3.0]]), data, Tensor([2, 2, 3], ms.int32))
    close(out, [[1.9], [-1.4], [0.6]], 1e-6)
    assert ops.LuUnpack(unpack_data=False)(data, Tensor([2, 2, 3]))[1:] == (None, None)
    with pytest.raises(IndexError, match=r"'LU_pivots' must be in range \[1, 3\], but got 0"):
        ops.lu_solve(data, data, Tensor([0, 1, 2]))


@MODES
@SHAPES
def test_geqrf(mode: int, shape: tuple[int, ...]) -> None:
    a = RNG.standard_normal(shape)
    y, tau = run(mode, ops.geqrf, Tensor(a))
    for one, found, factors in zip(a.reshape(-1, *shape[-2:]),
                                   y.asnumpy().reshape(-1, *shape[-2:]),
                                   tau.asnumpy().reshape(-1, tau.shape[-1]), strict=True):
        raw, expected = np.linalg.qr(one, "raw")  # LAPACK's own
        close(found, raw.T)
        close(factors, expected)


@MODES
def test_reflections(mode: int) -> None:
    y, tau = ops.geqrf(Tensor(TALL))
    full, _ = np.linalg.qr(TALL, "complete")
    close(run(mode, ops.orgqr, y, tau), full[..., :4])
    left, right = RNG.standard_normal((2, 6, 3)), RNG.standard_normal((2, 3, 6))
    turned = np.swapaxes(full, -1, -2)
    for given, first, transpose, expected in (
        (left, True, False, full @ left), (left, True, True, turned @ left),
        (right, False, False, right @ full), (right, False, True, right @ turned),
    ):
        close(run(mode, lambda a, b, c, f=first, t=transpose: ops.ormqr(a, b, c, f, t),
                  y, tau, Tensor(given)), expected)
    assert y.ormqr(tau, Tensor(left)).shape == left.shape == y.ormqr(
        input2=tau, input3=Tensor(left)).shape
    close(y.orgqr(tau), full[..., :4])


def test_complex_reflections() -> None:
    v = RNG.standard_normal((4, 2)) + 1j * RNG.standard_normal((4, 2))
    tau = RNG.standard_normal(2) + 1j * RNG.standard_normal(2)
    q = np.eye(4, dtype=complex)
    for j in range(2):
        w = np.where(np.arange(4) > j, v[:, j], np.arange(4) == j)
        q = q @ (np.eye(4) - tau[j] * np.outer(w, w.conj()))
    x = RNG.standard_normal((4, 3)) + 0j
    close(ops.orgqr(Tensor(v), Tensor(tau)), q[:, :2])
    close(ops.ormqr(Tensor(v), Tensor(tau), Tensor(x)), q @ x)
    close(ops.ormqr(Tensor(v), Tensor(tau), Tensor(x.T), False), x.T @ q)
    close(ops.ormqr(Tensor(v), Tensor(tau), Tensor(x), True, True), q.conj().T @ x)


@MODES
def test_lstsq(mode: int) -> None:
    for a in (TALL[0], TALL[0].T, SQUARE[0]):
        b = RNG.standard_normal((len(a), 3))
        close(run(mode, ops.lstsq, Tensor(a), Tensor(b)), np.linalg.lstsq(a, b, None)[0])
        column = Tensor(a).lstsq(Tensor(b[:, 0]))
        close(column, np.linalg.lstsq(a, b[:, :1], None)[0])
    with pytest.raises(TypeError, match="'fast' should be True"):
        ops.Lstsq(fast=False)(Tensor(TALL[0]), Tensor(TALL[0]))


@MODES
def test_matrix_solve_ls(mode: int) -> None:
    b, penalty = RNG.standard_normal((2, 6, 2)), Tensor(0.5, ms.float64)
    across = np.swapaxes(TALL, -1, -2)
    expected = np.linalg.solve(across @ TALL + 0.5 * np.eye(4), across @ b)
    close(run(mode, ops.MatrixSolveLs(), Tensor(TALL), Tensor(b), penalty), expected)
    wide = RNG.standard_normal((2, 4, 2))
    expected = TALL @ np.linalg.solve(across @ TALL + 0.5 * np.eye(4), wide)
    close(run(mode, ops.MatrixSolveLs(), Tensor(across), Tensor(wide), penalty), expected)
    slow = ops.MatrixSolveLs(fast=False)(Tensor(TALL), Tensor(b), penalty)
    close(slow, np.stack([np.linalg.lstsq(x, y, None)[0] for x, y in zip(TALL, b, strict=True)]))
    turned = TALL + 1j * TALL[::-1]
    adjoint = np.conj(np.swapaxes(turned, -1, -2))
    close(ops.MatrixSolveLs()(Tensor(turned), Tensor(b + 0j), penalty),
          np.linalg.solve(adjoint @ turned + 0.5 * np.eye(4), adjoint @ b))


@MODES
def test_eigenvalues(mode: int) -> None:
    for a in (SQUARE, SQUARE.astype(np.float32), SQUARE + 1j * SQUARE[::-1]):
        w, v = run(mode, ops.eig, Tensor(a))
        kind = np.complex64 if a.dtype == np.float32 else np.complex128
        assert w.asnumpy().dtype == v.asnumpy().dtype == kind
        tolerance = 1e-4 if kind is np.complex64 else 1e-10
        close(a @ v.asnumpy(), v.asnumpy() * w.asnumpy()[:, None], tolerance)
        close(np.linalg.norm(v.asnumpy(), axis=-2), np.ones((2, 5)), tolerance)
        close(np.sort_complex(Tensor(a).eigvals().asnumpy()), np.sort_complex(w.asnumpy()),
              tolerance)
    assert ops.Eig()(Tensor(SQUARE))[1].shape == ()
    with pytest.raises(TypeError, match="gradient of the Python function eigvals"):
        ops.grad(lambda x: ops.abs(ops.eigvals(x)).sum())(Tensor(SQUARE))
    with pytest.raises(ValueError, match=r"shape \(\.\.\., n, n\)"):
        ops.eig(Tensor(TALL))
    with pytest.raises(TypeError, match="Float32, Float64, Complex64, Complex128"):
        ops.eig(Tensor([[1, 2], [3, 4]]))


def test_eigenvalues_are_the_same_in_both_modes() -> None:
    found = [run(mode, ops.eig, Tensor(SQUARE)) for mode in (0, 1)]
    assert [t.asnumpy().tobytes() for t in found[0]] == [t.asnumpy().tobytes() for t in found[1]]


NETWORK = """
from cellc import nn, ops


class Net(nn.Cell):
    def construct(self, x):
        return ops.abs(ops.eigvals(x))
"""


def test_artifacts_refuse_lapack(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(NETWORK)
    done = subprocess.run(
        [sys.executable, "-m", "cellc", "compile", f"{file}:Net", "--input", "x=float64[3,3]", "-o",
         str(tmp_path / "net.cellc")], capture_output=True, text=True, check=False)
    assert done.returncode and "net.py:7: the network calls the Python function eigvals()" in \
        done.stderr + done.stdout


@MODES
def test_symmetric_eigenvalues(mode: int) -> None:
    a = SQUARE + np.swapaxes(SQUARE, -1, -2)
    a[1] = np.diag([2.0, -2.0, 0.0, 2.0, 1e-8])  # equal ones, and of equal size
    w, v = run(mode, decompositions.eigh, Tensor(a))
    close(w, np.linalg.eigvalsh(a), 1e-12)
    close(np.swapaxes(v.asnumpy(), -1, -2) @ v.asnumpy(), np.broadcast_to(np.eye(5), a.shape))
    close(a @ v.asnumpy(), v.asnumpy() * w.asnumpy()[:, None])
    lower = decompositions.eigh(Tensor(np.tril(a)))[0]
    upper = decompositions.eigh(Tensor(np.triu(a)), False)[0]
    close(lower, w.asnumpy())
    close(upper, w.asnumpy())


def test_eigenvalues_by_the_primitive_of_cpus() -> None:
    primitive = ops.operations.math_ops.SelfAdjointEig
    values, vectors = primitive()(Tensor(np.diag([2.0, 1.0]).astype(np.float32)))
    assert values.tolist() == [1.0, 2.0] and np.abs(vectors.asnumpy()).tolist() == [[0, 1], [1, 0]]
    assert primitive(False)(Tensor(np.eye(2, dtype=np.float32)))[1].shape == (0,)


@MODES
def test_matrix_exp(mode: int) -> None:
    close(run(mode, ops.matrix_exp, Tensor([[1.0, 2.0], [0.0, 1.0]])),
          [[math.e, 2 * math.e], [0, math.e]], 1e-6)
    for scale in (1e-3, 1.0, 30.0):
        a = SQUARE * scale
        a = a - np.swapaxes(a, -1, -2)  # its exponential is a rotation
        w, v = np.linalg.eig(a)
        expected = (v * np.exp(w)[:, None]) @ np.linalg.inv(v)
        close(run(mode, ops.matrix_exp, Tensor(a)), expected.real, 1e-9)
    close(ops.MatrixExp()(Tensor(1j * SQUARE)), np.stack([_exp(1j * a) for a in SQUARE]), 1e-9)
    half = ops.matrix_exp(Tensor(SQUARE[0], ms.float16))
    assert half.dtype == ms.float16
    large = ops.matrix_exp(Tensor([[-1e6, 0.0], [0.0, 1.0]]))
    close(large, [[0.0, 0.0], [0.0, math.e]], 1e-3)  # squared 18 times


def _exp(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    w, v = np.linalg.eig(a)
    return np.asarray((v * np.exp(w)) @ np.linalg.inv(v))


@MODES
def test_matrix_logarithm(mode: int) -> None:
    a = np.array([[1 + 2j, 2 + 1j], [4 + 1j, 5 + 2j]])
    close(run(mode, ops.MatrixLogarithm(), Tensor(a)),
          [[0.69155775 + 1.71618359j, 0.64665196 - 0.34928196j],
           [1.02426074 - 0.88736831j, 1.44677531 + 0.6400109j]], 1e-7)
    inner = 0.3 * (SQUARE + 1j * SQUARE[::-1])
    close(ops.MatrixLogarithm()(Tensor(np.stack([_exp(x) for x in inner]))), inner, 1e-9)
    defective = np.array([[2.0, 1.0], [0.0, 2.0]]) + 0j
    close(ops.MatrixLogarithm()(Tensor(defective)), [[math.log(2), 0.5], [0, math.log(2)]], 1e-9)


@MODES
def test_nuclear_norm(mode: int) -> None:
    x = np.arange(1.0, 13.0).reshape(2, 2, 3).astype(np.float32)
    for dim, keep, expected in (
        ([0, 2], True, [[[15.407588], [21.711605]]]), ([0, 2], False, [15.407588, 21.711605]),
        ((0, 1), False, [14.212674, 15.81139, 17.492853]),
    ):
        close(run(mode, ops.NuclearNorm(dim=dim, keepdim=keep), Tensor(x)), expected, 1e-5)
    with pytest.raises(ValueError, match="'dim' is needed"):
        ops.NuclearNorm()(Tensor(x))


def _factors(x: Tensor) -> Tensor:
    packed, _ = decompositions.lu_packed(x)
    return packed


def _spread(x: Tensor) -> Any:
    w, v = decompositions.eigh(x)
    return w, ops.abs(v)


GRADIENTS: dict[str, tuple[Any, tuple[np.ndarray[Any, Any], ...]]] = {
    "lu": (_factors, (SQUARE,)),
    "geqrf": (ops.geqrf, (TALL,)),
    "orgqr": (ops.orgqr, (TALL, RNG.standard_normal((2, 3)))),
    "ormqr": (ops.ormqr, (TALL, RNG.standard_normal((2, 3)), RNG.standard_normal((2, 6, 2)))),
    "lstsq": (ops.lstsq, (TALL[0], TALL[0][:, :2])),
    "lstsq wide": (ops.lstsq, (TALL[0].T, TALL[1].T[:, :2])),
    "eigh": (_spread, (SQUARE,)),
    "matrix_exp": (ops.matrix_exp, (SQUARE,)),
    "nuclear": (ops.NuclearNorm(dim=(1, 2)), (TALL,)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    function, given = GRADIENTS[name]
    check_grads(function, *[Tensor(x) for x in given])
