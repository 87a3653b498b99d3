"""Values and gradients at NaN, infinities, zeros, ties and subnormal numbers, in both modes.

A NaN is never swallowed, an infinity cancels only where the limit exists, and what is finite stays
finite. Each case is judged by numbers worked out by hand; both modes give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, ops
from cellc.mint.nn import functional

from .law import MODES, arrays_of, assert_same, mode

INF, NAN = float("inf"), float("nan")
BIG, TINY = 3e38, 1e-40
SOFT = 0.26894143  # 1 / (1 + e)
Case = tuple[str, Callable[..., Any], list[Any], Any, list[Any]]


def ones(n: int) -> Tensor:
    """n ones."""
    return Tensor(np.ones(n, np.float32))


def classes(*labels: int) -> Tensor:
    """Class indices."""
    return Tensor(np.array(labels, np.int32))


# name, function, inputs, its value, the cotangents of its sum
CASES: list[Case] = [
    # A shift by the maximum: the cotangent is that of a softmax.
    ("logsumexp of an infinity", lambda x: ops.logsumexp(x, 0), [[INF, 0, 3]], INF, [[NAN, 0, 0]]),
    ("logsumexp of NaN", lambda x: ops.logsumexp(x, 0), [[NAN, 0, 3]], NAN, [[NAN] * 3]),
    ("logsumexp of -inf", lambda x: ops.logsumexp(x, 0), [[-INF, 2]], 2, [[0, 1]]),
    ("logsumexp of nothing", lambda x: ops.logsumexp(x, 0), [[-INF, -INF]], -INF, [[NAN, NAN]]),
    ("logsumexp of large", lambda x: ops.logsumexp(x, 0), [[BIG, BIG, 0]], BIG, [[0.5, 0.5, 0]]),
    ("softmax of NaN", lambda x: ops.softmax(x, 0), [[NAN, 0, 3]], [NAN] * 3, [[NAN] * 3]),
    ("softmax of -inf", lambda x: ops.softmax(x, 0)[0], [[-INF, 0]], 0, [[0, 0]]),
    ("log_softmax of -inf", lambda x: ops.log_softmax(x, 0)[1], [[-INF, 0, 1]],
     np.log(SOFT), [[0, 1 - SOFT, SOFT - 1]]),
    ("cross entropy of -inf", lambda x: ops.cross_entropy(x, classes(1)), [[[-INF, 0, 1]]],
     -np.log(SOFT), [[[0, SOFT - 1, 1 - SOFT]]]),
    ("cross entropy of NaN", lambda x: ops.cross_entropy(x, classes(1)), [[[NAN, 0, 1]]],
     NAN, [[[NAN] * 3]]),
    ("logaddexp", ops.logaddexp, [[INF, -INF, -INF, NAN, 0], [0, 0, -INF, 0, NAN]],
     [INF, 0, -INF, NAN, NAN], [[1, 0, NAN, NAN, NAN], [0, 1, NAN, NAN, NAN]]),
    ("logcumsumexp", lambda x: ops.logcumsumexp(x, 0), [[-200, 0, -200]], [-200, 0, 0],
     [[1, 2, 0]]),
    ("logcumsumexp of an infinity", lambda x: ops.logcumsumexp(x, 0), [[200, INF, 1]],
     [200, INF, INF], [[1, NAN, 0]]),
    ("logcumsumexp of -inf", lambda x: ops.logcumsumexp(x, 0), [[-INF, 0, -INF]],
     [-INF, 0, 0], [[NAN, 2, 0]]),
    ("logcumsumexp of NaN", lambda x: ops.logcumsumexp(x, 0), [[0, NAN, 3]], [0, NAN, NAN],
     [[NAN, NAN, NAN]]),
    # Extremes.
    ("amax of NaN", lambda x: ops.amax(x, 0), [[NAN, 0, 3]], NAN, [[NAN] * 3]),
    ("amin of NaN", lambda x: ops.amin(x, 1), [[[NAN, 0], [2, 1]]], [NAN, 1],
     [[[NAN, NAN], [0, 1]]]),
    ("amax of infinities", lambda x: ops.amax(x, 0), [[INF, 0, INF]], INF, [[0.5, 0, 0.5]]),
    ("cummax of NaN", lambda x: ops.cummax(x, 0)[0], [[1, NAN, 3]], [1, NAN, NAN], [[1, 2, 0]]),
    # Norms and what is made of them: 0 for a zero vector.
    *((f"norm {p} of zeros", lambda x, p=p: ops.norm(x, p, 0), [[0, 0]], 0, [[0, 0]])
      for p in (1.0, 2.0, 3.0, 0.5)),
    ("norm of all zeros", ops.norm, [[0, 0]], 0, [[0, 0]]),
    ("norm of subnormals", ops.norm, [[TINY, 0]], 0, [[0, 0]]),
    ("norm of an infinity", ops.norm, [[INF, 0, 3]], INF, [[NAN, 0, 0]]),
    ("norm of NaN", ops.norm, [[NAN, 0]], NAN, [[NAN, NAN]]),
    ("norm 0.5 of a zero", lambda x: ops.norm(x, 0.5, 0), [[4, 0]], 4, [[1, 0]]),
    ("norm 0.5 of NaN", lambda x: ops.norm(x, 0.5, 0), [[NAN, 0]], NAN, [[NAN, NAN]]),
    ("dist of equal points", ops.dist, [[1, 2], [1, 2]], 0, [[0, 0], [0, 0]]),
    ("cdist of equal points", ops.cdist, [[[1, 2]], [[1, 2]]], [[0]], [[[0, 0]], [[0, 0]]]),
    ("pdist of equal points", ops.pdist, [[[1, 2], [1, 2]]], [0], [[[0, 0], [0, 0]]]),
    ("renorm of zeros", lambda x: ops.renorm(x, 2, 0, 1.0), [[[0, 0]]], [[0, 0]], [[[1, 1]]]),
    ("cosine of a zero vector", lambda x, y: ops.cosine_similarity(x, y, 0), [[0, 0], [3, 4]],
     0, [[6e7, 8e7], [0, 0]]),
    ("std of equal elements", lambda x: ops.std(x, 0), [[2, 2]], 0, [[0, 0]]),
    ("std of one element", lambda x: ops.std(x, 0), [[2]], 0, [[0]]),
    ("std of NaN", lambda x: ops.std(x, 0), [[NAN, 2]], NAN, [[NAN, NAN]]),
    ("var of one element", lambda x: ops.var(x, 0), [[2]], 0, [[0]]),
    ("hypot", ops.hypot, [[0, INF, 1, NAN, -INF], [0, 1, INF, 1, NAN]], [0, INF, INF, NAN, INF],
     [[0, 1, 0, NAN, -1], [0, 0, 1, NAN, 0]]),
    # Points at which a formula has a hole.
    ("sinc", ops.sinc, [[0, TINY, -1e-20, 0.25, NAN]], [1, 1, 1, 0.90031632, NAN],
     [[0, 0, 3.28986813e-20, -0.77283818, NAN]]),
    ("logit", ops.logit, [[0, 1, 0.5, -1, 2, NAN]], [-INF, INF, 0, NAN, NAN, NAN],
     [[INF, INF, 4, NAN, NAN, NAN]]),
    ("logit within bounds", lambda x: ops.logit(x, 0.25), [[0, 0.5, NAN]],
     [-np.log(3), 0, NAN], [[0, 4, NAN]]),
    ("xlogy", ops.xlogy, [[0, 0, 0, 0, 0, 1], [0, 0.5, NAN, -1, INF, 0]],
     [0, 0, NAN, 0, 0, -INF], [[0, np.log(0.5), NAN, 0, INF, -INF], [NAN, 0, NAN, -0.0, 0, INF]]),
    ("hardswish", ops.hardswish, [[-INF, -BIG, -3, 3, BIG, INF, NAN]],
     [0, 0, 0, 3, BIG, INF, NAN], [[0, 0, -0.5, 1.5, 1, 1, NAN]]),
    ("fast_gelu", ops.fast_gelu, [[BIG, -BIG]], [BIG, 0], [[1, 0]]),
    # Losses.
    ("cross entropy with logits",
     lambda x, t: ops.binary_cross_entropy_with_logits(x, t, reduction="none"),
     [[INF, INF, -INF, -INF, NAN, 0, 0], [1, 0, 0, 1, 0, NAN, 1]],
     [0, INF, 0, INF, NAN, NAN, np.log(2)],
     [[0, 1, 0, -1, NAN, NAN, -0.5], [-INF, -INF, INF, INF, NAN, 0, 0]]),
    ("kl_div", lambda x, t: ops.kl_div(x, t, "none"), [[0, NAN, NAN, -1], [NAN, 1, 0, -1]],
     [NAN, NAN, 0, 0], [[NAN, -1, 0, 0], [0, 0, 0, 0]]),
    ("smooth_l1", lambda x, t: ops.smooth_l1_loss(x, t), [[NAN, INF, 0], [0, 0, 0]],
     [NAN, INF, 0], [[NAN, 1, 0], [NAN, -1, 0]]),
    ("huber", lambda x, t: ops.huber_loss(x, t, "none"), [[NAN, INF, 0], [0, 0, 0]],
     [NAN, INF, 0], [[NAN, 1, 0], [NAN, -1, 0]]),
]


@pytest.mark.parametrize(("fn", "inputs", "value", "cotangents"),
                         [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_values_and_gradients(fn: Callable[..., Any], inputs: list[Any], value: Any,
                              cotangents: list[Any]) -> None:
    args = [Tensor(np.asarray(x, np.float32)) for x in inputs]
    both = []
    for m in MODES:
        with mode(m):
            plain = arrays_of(fn(*args))
            gradients = ms.grad(fn, tuple(range(len(args))))(*args)
            both.append(plain + arrays_of(gradients))
    assert_same(both[1], both[0])
    for got, want in zip(both[0], [value, *cotangents], strict=True):
        np.testing.assert_allclose(got, np.asarray(want, np.float32), rtol=2e-6, atol=1e-30)


def test_slope_of_sinc_does_not_cancel() -> None:
    """(cos z - sin(z)/z) / z loses all digits near 0."""
    x = np.concatenate([np.logspace(-12, 0, 200), -np.logspace(-3, 1, 50)])
    z = np.pi * x
    with np.errstate(all="ignore"):
        exact = np.where(np.abs(z) < 0.02, -z / 3 + z**3 / 30, (np.cos(z) - np.sin(z) / z) / z)
    got = ms.grad(ops.sinc)(Tensor(x.astype(np.float32))).asnumpy()
    np.testing.assert_allclose(got, np.pi * exact, rtol=3e-5, atol=3e-6)
    small = np.abs(x) < 0.1
    np.testing.assert_allclose(got[small], np.pi * exact[small], rtol=2e-6)


def test_sinc_of_bfloat16_is_rounded_once() -> None:
    x = np.linspace(-4, 4, 65).astype(ml_dtypes.bfloat16)
    want = np.sinc(x.astype(np.float64))
    got = ops.sinc(Tensor(x)).asnumpy().astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=2.0**-8, atol=2e-7)


HALVES = (ms.float16, ms.bfloat16)
SATURATING: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": ops.silu, "mish": ops.mish, "fast_gelu": ops.fast_gelu, "gelu": ops.gelu,
    "gelu by tanh": lambda x: ops.gelu(x, approximate="tanh"),
}


@pytest.mark.parametrize("name", SATURATING)
@pytest.mark.parametrize("dtype", [*HALVES, ms.float32])
def test_slopes_of_large_numbers_are_those_of_the_asymptote(name: str, dtype: Any) -> None:
    """A factor that has nearly vanished must not meet one that overflows."""
    large = [150.0, 6e4] if dtype is ms.float16 else [150.0, 6e4, 1e13, 1e20, 1e30, 3e38]
    x = Tensor(np.array([*large, *(-v for v in large)], np.float32), dtype)
    got = []
    for m in MODES:
        with mode(m):
            slope = ms.grad(SATURATING[name])(x)
            assert slope.dtype == dtype
            got.append(slope.float().asnumpy())
    assert_same([got[1]], [got[0]])
    np.testing.assert_array_equal(got[0], np.repeat([1.0, 0.0], len(large)))


@pytest.mark.parametrize("dtype", HALVES)
def test_running_logsumexp_of_16_bits_has_the_gradient_of_its_value(dtype: Any) -> None:
    """The result, rounded to 16 bits, is no shift: at 30000 it is off by 8."""
    x = Tensor(np.full(3, 3e4, np.float32), dtype)
    got = ms.grad(lambda v: ops.logcumsumexp(v, 0))(x).float().asnumpy()
    np.testing.assert_allclose(got, [1 + 1 / 2 + 1 / 3, 1 / 2 + 1 / 3, 1 / 3], rtol=2.0**-8)


@pytest.mark.parametrize("dtype", HALVES)
def test_vectors_of_16_bits_are_scaled_by_norms_of_32(dtype: Any) -> None:
    """Squares of float16 overflow at 256 and the usual epsilons are 0 there."""
    large, zero = (Tensor(np.array(v, np.float32), dtype) for v in ([[2e4, 0, -2e4]], [[0, 0, 0]]))
    half = 0.5**0.5
    for scaled in (ops.L2Normalize(-1), lambda v: functional.normalize(v, dim=-1)):
        assert scaled(large).dtype == dtype
        np.testing.assert_allclose(scaled(large).float().asnumpy(), [[half, 0, -half]], rtol=4e-3)
        np.testing.assert_array_equal(scaled(zero).float().asnumpy(), [[0, 0, 0]])
    for other, want in ((large, 1), (-large, -1), (zero, 0)):
        cos = ops.cosine_similarity(large, other, -1)
        assert cos.dtype == dtype
        np.testing.assert_allclose(cos.float().asnumpy(), [want], rtol=4e-3)


def test_second_derivatives_at_special_points() -> None:
    """A guarded point is guarded in the gradient's gradient too."""
    def slope(fn: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: ms.grad(fn)(x)

    x = Tensor(np.array([0, 1e-40, 0.1], np.float32))
    z = np.pi * 0.1
    curve = np.pi**2 * (-np.sin(z) / z - 2 * np.cos(z) / z**2 + 2 * np.sin(z) / z**3)
    got = ms.grad(slope(ops.sinc))(x).asnumpy()
    np.testing.assert_allclose(got, [-np.pi**2 / 3, -np.pi**2 / 3, curve], rtol=1e-5)
    rows = Tensor(np.array([0.0, 0.0], np.float32))
    twice = ms.grad(slope(lambda v: ops.logsumexp(v, 0) * v[0]))(rows).asnumpy()
    np.testing.assert_allclose(twice, [1.5, 0.5], rtol=1e-6)
