"""`cellc.scipy` in both modes: against numpy, brute force and values that MindSpore 2.10 gave."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, ops
from cellc.scipy import fft, linalg, optimize
from cellc.testing import check_grads

from .test_decompositions import close
from .test_sparse import MODES, run

RNG = np.random.default_rng(9)
A = RNG.standard_normal((4, 4))
POSITIVE = A @ A.T + np.eye(4)
TRIANGLE = np.tril(A) + 4 * np.eye(4)


@MODES
def test_lu(mode: int) -> None:
    a = np.array([[2.0, 5, 8, 7], [5, 2, 2, 8], [7, 5, 6, 6], [5, 4, 4, 8]])  # as documented
    p, low, up = run(mode, linalg.lu, Tensor(a))
    assert p.asnumpy().tolist() == [[0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 1, 0]]
    assert p.dtype == ms.int32
    close(p.asnumpy() @ low.asnumpy() @ up.asnumpy(), a)
    packed, pivots = run(mode, linalg.lu_factor, Tensor(a))
    assert pivots.asnumpy().tolist() == [2, 2, 3, 3] and pivots.dtype == ms.int32
    close(packed, np.tril(low.asnumpy(), -1) + up.asnumpy())
    both, up = linalg.lu(Tensor(a[:3]), permute_l=True)
    close(both @ up, a[:3])
    assert linalg.lu(Tensor([[1, 2], [4, 5]], ms.int32))[1].dtype == ms.float64


@MODES
def test_cholesky_and_inverse(mode: int) -> None:
    x = Tensor(POSITIVE)
    close(run(mode, lambda a: linalg.cholesky(a, lower=True), x), np.linalg.cholesky(POSITIVE))
    close(run(mode, linalg.cholesky, x), np.linalg.cholesky(POSITIVE).T)
    for lower in (False, True):
        def solved(a: Tensor, b: Tensor, low: bool = lower) -> Tensor:
            return linalg.cho_solve(linalg.cho_factor(a, low), b)

        for b in (A[0], A[:, :3]):
            close(run(mode, solved, x, Tensor(b)), np.linalg.solve(POSITIVE, b), 1e-9)
    close(run(mode, linalg.inv, x), np.linalg.inv(POSITIVE), 1e-9)
    close(run(mode, linalg.det, x), np.linalg.det(POSITIVE), 1e-9)


@MODES
def test_solve_triangular(mode: int) -> None:
    for trans, lower, unit in itertools.product((0, 1, "N", "T", "C"), (False, True),
                                                (False, True)):
        a = TRIANGLE if lower else TRIANGLE.T
        full = a - np.diag(np.diag(a)) + np.eye(4) if unit else a
        for b in (A[0], A[:, :2]):
            out = run(mode, lambda x, y, t=trans, f=lower, u=unit: linalg.solve_triangular(
                x, y, trans=t, lower=f, unit_diagonal=u), Tensor(a), Tensor(b))
            close(out, np.linalg.solve(full.T if trans in (1, "T", "C") else full, b), 1e-9)


@MODES
def test_eigh(mode: int) -> None:
    w, v = run(mode, linalg.eigh, Tensor(POSITIVE))
    close(w, np.linalg.eigvalsh(POSITIVE), 1e-9)
    close(POSITIVE @ v.asnumpy(), v.asnumpy() * w.asnumpy(), 1e-9)
    close(linalg.eigh(Tensor(np.triu(POSITIVE)), lower=False, eigvals_only=True), w.asnumpy(), 1e-9)
    h = np.array([[2, 1j], [-1j, 3]])
    w, v = run(mode, linalg.eigh, Tensor(h))
    assert w.dtype == ms.complex128
    close(h @ v.asnumpy(), v.asnumpy() * w.asnumpy())


@MODES
def test_lstsq(mode: int) -> None:
    a, b = RNG.standard_normal((6, 3)), RNG.standard_normal((6, 2))
    want, rest, _, sizes = np.linalg.lstsq(a, b, None)
    for driver, has in ((None, "r"), ("gels", "s"), ("gelsy", "r"), ("gelss", "rsv"),
                        ("gelsd", "rsv")):
        got = run(mode, lambda x, y, d=driver: linalg.lstsq(x, y, driver=d), Tensor(a), Tensor(b))
        close(got[0], want, 1e-9)
        close(got[1], rest if "s" in has else np.zeros(0), 1e-9)
        assert got[2].asnumpy().tolist() == (2 + 1 if "r" in has else [])
        close(got[3], sizes if "v" in has else np.zeros(0), 1e-9)
    flat = np.ones((3, 2), np.float32)
    solution, _, rank, _ = linalg.lstsq(Tensor(flat), Tensor([1.0, 2.0, 3.0]), driver="gelsd")
    close(solution, [1.0, 1.0], 1e-6)
    assert rank == 1
    batch = linalg.lstsq(Tensor(np.stack([a, 2 * a])), Tensor(np.stack([b, b])), driver="gelss")
    close(batch[0], np.stack([want, want / 2]), 1e-9)
    assert [t.shape for t in batch[1:]] == [(2, 2), (2,), (2, 3)]


@MODES
def test_block_diag(mode: int) -> None:
    parts = Tensor([[1, 0], [0, 1]]), Tensor([0, 2]), Tensor(7)
    out = run(mode, linalg.block_diag, *parts)
    assert out.asnumpy().tolist() == [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 2, 0],
                                      [0, 0, 0, 0, 7]]
    assert linalg.block_diag().shape == (1, 0)


def _cosines(n: int) -> np.ndarray[Any, Any]:
    k, i = np.arange(n)[:, None], np.arange(n)
    out = np.cos(np.pi * k * (2 * i + 1) / (2 * n)) * np.sqrt(2 / n)
    out[0] /= np.sqrt(2)
    return np.asarray(out)


@MODES
@pytest.mark.parametrize("n", [1, 2, 3, 8, 15, 101])
def test_cosine_transforms(mode: int, n: int) -> None:
    x = RNG.standard_normal((2, n, 3))
    close(run(mode, lambda t: fft.dct(t, axis=1), Tensor(x)),
          np.einsum("ki,aib->akb", _cosines(n), x))
    close(run(mode, lambda t: fft.idct(fft.dct(t, axis=1), axis=1), Tensor(x)), x)
    both = np.einsum("ki,aib,lb->akl", _cosines(n), x, _cosines(3))
    close(run(mode, lambda t: fft.dctn(t, axes=(1, 2)), Tensor(x)), both)
    close(fft.idctn(Tensor(both), axes=(-2, -1), norm="ortho"), x)
    close(fft.dctn(Tensor(x), s=(3,)), np.einsum("lb,aib->ail", _cosines(3), x))
    wide = np.concatenate([x, np.zeros((2, n, 2))], 2)
    close(fft.dct(Tensor(x), n=5), wide @ _cosines(5).T)
    close(fft.dct(Tensor(x + 2j * x)), (1 + 2j) * (x @ _cosines(3).T))


def test_types_of_cosine_transforms() -> None:
    for given, expected in ((ms.int16, ms.float32), (ms.float16, ms.float32),
                            (ms.float64, ms.float64), (ms.complex64, ms.complex64)):
        assert fft.dct(Tensor([1, 2, 3]).astype(given)).dtype == expected
    check_grads(lambda x: (fft.dct(x), fft.idct(x)), Tensor(A))
    check_grads(lambda a, b: linalg.solve_triangular(a, b, lower=True), Tensor(TRIANGLE),
                Tensor(A[:, :2]))


# --- optimization ---------------------------------------------------------------------------------


@MODES
def test_assignment(mode: int) -> None:
    for shape in ((4, 4), (3, 5), (5, 3), (1, 4)):
        for cost in (RNG.standard_normal(shape), RNG.integers(0, 3, shape).astype(np.float64)):
            for largest in (False, True):
                rows, columns = run(mode, lambda c, m=largest: optimize.linear_sum_assignment(
                    c, m), Tensor(cost))
                i, j = rows.asnumpy(), columns.asnumpy()
                assert sorted(set(i)) == i.tolist() and len(set(j)) == len(j) == min(shape)
                square = cost if shape[0] <= shape[1] else cost.T
                sums = [sum(square[r, c] for r, c in enumerate(p)) for p in itertools.permutations(
                    range(square.shape[1]), square.shape[0])]
                best = max(sums) if largest else min(sums)
                np.testing.assert_allclose(cost[i, j].sum(), best, rtol=1e-12, atol=1e-12)


def test_assignment_with_a_limit() -> None:
    cost = Tensor([[2.0, 3, 3], [3, 2, 3], [3, 3, 2]])
    rows, columns = optimize.linear_sum_assignment(cost, False, Tensor(2))
    assert rows.asnumpy().tolist() == columns.asnumpy().tolist() == [0, 1, -1]
    with pytest.raises(ValueError, match="no assignment has finite costs"):
        optimize.linear_sum_assignment(Tensor([[float("inf"), 1.0], [float("inf"), 1.0]]), False)
    with pytest.raises(ValueError, match="NaN"):
        optimize.linear_sum_assignment(Tensor([[float("nan")]]), False)


def himmelblau(p: Tensor) -> Tensor:
    x, y = p
    return (x ** 2 + y - 11.0) ** 2 + (x + y ** 2 - 7.0) ** 2


def rosenbrock(x: Tensor) -> Tensor:
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@MODES
def test_minimize(mode: int) -> None:
    """Numbers of steps and evaluations are MindSpore's."""
    ms.set_context(mode=mode)
    zeros = Tensor(np.zeros(2, np.float32))
    for method, evaluations, steps in (("BFGS", 18, 10), ("LBFGS", 21, 12)):
        found = optimize.minimize(himmelblau, zeros, method=method,
                                  options={"maxiter": None, "gtol": 1e-6})
        close(found.x, [3.0, 2.0], 1e-6)
        assert (found.success, found.status, found.nfev, found.nit) == (True, 0, evaluations, steps)
    found = optimize.minimize(rosenbrock, Tensor(np.zeros(5)), method="bfgs")
    assert found.success and (found.nfev, found.nit) == (50, 35)
    close(found.x, np.ones(5), 1e-6)
    found = optimize.minimize(himmelblau, zeros, method="BFGS", options={"maxiter": 2})
    assert (found.success, found.status, found.nit) == (False, 1, 2)
    close(found.fun, 26.894136, 1e-5)


def test_minimize_with_arguments_and_a_gradient() -> None:
    def shifted(x: Tensor, by: float) -> Tensor:
        return ((x - by) ** 2).sum()

    found = optimize.minimize(shifted, Tensor([0.0, 5.0]), (3.0,), "BFGS",
                              jac=lambda x, by: 2 * (x - by))
    close(found.x, [3.0, 3.0], 1e-6)


def test_minimize_under_constraints() -> None:
    """The square is smallest where the constraint 1 - x[0] < 0.1 just holds."""
    found = optimize.minimize(lambda x: (x ** 2).sum(), Tensor([2.0, 2.0]), method="LAGRANGE",
                              constraints=[lambda x: 1 - x[0]],
                              options={"rounds": 6, "steps": 60, "save_tol": [0.1]})
    assert found.succeeded and found.loss_value[0] < 0.1
    np.testing.assert_allclose(found.best_value, [0.95, 0.0], atol=0.1)
    inside = optimize.minimize(lambda x: x.sum(), Tensor([0.0]), method="LAGRANGE",
                               constraints=[lambda x: x[0] - 9],
                               options={"rounds": 2, "steps": 80, "lower": Tensor([2.0]),
                                        "upper": Tensor([5.0])})
    assert 2.0 <= inside.best_value[0] < 2.5


@MODES
def test_line_search(mode: int) -> None:
    ms.set_context(mode=mode)
    found = optimize.line_search(himmelblau, ops.zeros(2), Tensor([14.0, 22.0]))
    assert (found.failed, found.status, found.nit, found.nfev) == (False, 0, 1, 5)
    close([found.a_k, found.f_k], [0.13334138691425323, 33.04789352416992], 1e-5)
    documented = optimize.line_search(lambda x: x[0] ** 2 - x[1] ** 3, ops.ones(2),
                                      Tensor([-1.0, -1.0]))
    assert documented.a_k == 1.0


BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "lu_factor": (lambda: linalg.lu_factor(Tensor(A[:2])), ValueError, "square matrix"),
    "lu": (lambda: linalg.lu(Tensor(A[None])), ValueError, "dimension of 'a' should be 2"),
    "type": (lambda: linalg.inv(Tensor(A, ms.float16)), TypeError, "Float64, but got Float16"),
    "flag": (lambda: linalg.cholesky(Tensor(A), lower=1), TypeError, "'lower'"),
    "trans": (lambda: linalg.solve_triangular(Tensor(A), Tensor(A), 3), ValueError, "'trans'"),
    "b": (lambda: linalg.eigh(Tensor(A), Tensor(A)), ValueError, "only case b=None"),
    "driver": (lambda: linalg.lstsq(Tensor(A), Tensor(A), driver="x"), ValueError, "'driver'"),
    "dct type": (lambda: fft.dct(Tensor(A), type=3), ValueError, "only 'type' 2"),
    "dct norm": (lambda: fft.dct(Tensor(A), norm="forward"), ValueError, "only 'norm'"),
    "dct n": (lambda: fft.dct(Tensor(A), n=0), ValueError, "at least 1"),
    "method": (lambda: optimize.minimize(rosenbrock, Tensor(A[0])), ValueError, "'method'"),
    "other": (lambda: optimize.minimize(rosenbrock, Tensor(A[0]), method="CG"), ValueError, "bfgs"),
    "option": (lambda: optimize.minimize(rosenbrock, Tensor(A[0]), method="BFGS",
                                         options={"xtol": 1}), ValueError, "no xtol"),
    "args": (lambda: optimize.minimize(rosenbrock, Tensor(A[0]), [1], "BFGS"), TypeError, "tuple"),
    "constraints": (lambda: optimize.minimize(rosenbrock, Tensor(A[0]), method="LAGRANGE"),
                    ValueError, "'constraints'"),
    "cost": (lambda: optimize.linear_sum_assignment(Tensor(A[0]), False), ValueError, "a matrix"),
    "maximize": (lambda: optimize.linear_sum_assignment(Tensor(A), 1), TypeError, "'maximize'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name: str) -> None:
    make, error, text = BAD[name]
    with pytest.raises(error, match=text):
        make()
