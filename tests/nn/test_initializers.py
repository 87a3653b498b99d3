"""Initializers: moments and bounds of the draws, exact ones, reproducibility, errors."""

from __future__ import annotations

import copy
import math
import pickle
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn
from cellc.common import initializer as init
from cellc.common.initializer import One, initializer
from cellc.storage import deferred


def _draw(what: Any, shape: tuple[int, ...] = (400, 300)) -> Any:
    return initializer(what, shape).init_data().asnumpy()


@pytest.mark.parametrize(
    ("what", "std", "bound"),
    [
        ("normal", 0.01, None), ("uniform", 0.07 / 3**0.5, 0.07),
        ("xavier_normal", (2 / 700) ** 0.5, None),
        ("XavierUniform", (2 / 700) ** 0.5, (6 / 700) ** 0.5),
        ("he_normal", (2 / 300) ** 0.5, None), ("HeUniform", (2 / 300) ** 0.5, (6 / 300) ** 0.5),
        (init.HeUniform(5**0.5), (1 / 900) ** 0.5, (1 / 300) ** 0.5),
        (init.HeNormal(mode="fan_out"), (2 / 400) ** 0.5, None),
        (init.VarianceScaling(2.0, "fan_avg", "uniform"), (4 / 700) ** 0.5, (12 / 700) ** 0.5),
        (init.VarianceScaling(), (1 / 300) ** 0.5, 2 * (1 / 300) ** 0.5 / 0.8796),
        (init.TruncatedNormal(1.0, 3.0, -1.0, 1.0), 0.3303, 1.0),
        (init.TruncatedNormal(0.02), 0.02, None),
    ],
)
def test_moments(what: Any, std: float, bound: float | None) -> None:
    ms.set_seed(1)
    got = _draw(what)
    np.testing.assert_allclose(got.std(), std, rtol=0.02)
    if bound is not None:
        assert bound * 0.98 < np.abs(got).max() <= bound * 1.0001


def test_exact_initializers() -> None:
    np.testing.assert_array_equal(_draw("ones", (2, 3)), np.ones((2, 3)))
    np.testing.assert_array_equal(_draw(0.5, (2,)), [0.5, 0.5])
    np.testing.assert_array_equal(_draw("identity", (2, 3)), np.eye(2, 3))
    dirac = _draw(init.Dirac(2), (4, 2, 3, 3))
    assert np.argwhere(dirac).tolist() == [[0, 0, 1, 1], [1, 1, 1, 1], [2, 0, 1, 1], [3, 1, 1, 1]]
    q = _draw("orthogonal", (40, 30))
    np.testing.assert_allclose(q.T @ q, np.eye(30), atol=1e-5)
    assert (_draw(init.Sparse(0.3), (10, 8)) == 0).sum(0).tolist() == [3] * 8
    np.testing.assert_allclose(
        _draw(init.BilinearFiller(), (1, 1, 4, 4))[0, 0, 0], np.array([1, 3, 3, 1]) / 16)


def test_the_seed_decides() -> None:
    def draws() -> Any:
        ms.set_seed(3)
        return [_draw("normal", (4, 5)), nn.Dense(4, 5).weight.asnumpy().copy()]

    first, second = draws(), draws()
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(_draw("normal", (4, 5)), _draw("normal", (4, 5)))


def test_values_come_late() -> None:
    lazy = initializer("ones", [2, 2])
    assert lazy.has_init
    assert lazy.init_data().asnumpy().sum() == 4.0
    assert not lazy.has_init


@pytest.mark.parametrize("shape", [(3,), (300, 200)])
def test_a_look_gives_the_values(shape: tuple[int, ...]) -> None:
    """Whatever asks for elements gets those of the initializer, not the zeros before it."""
    def ones() -> ms.Tensor:
        return initializer("ones", shape)

    add_one = ms.jit(lambda x: x + 1)
    size = math.prod(shape)
    for looked in (
        ones().asnumpy(), np.asarray(ones()), (ones() + 0).asnumpy(), ms.Tensor(ones()).asnumpy(),
        ones().copy().asnumpy(), copy.deepcopy(ones()).asnumpy(), (add_one(ones()) - 1).asnumpy(),
        pickle.loads(pickle.dumps(ones())).asnumpy(), ms.Tensor(shape=shape, dtype=ms.float32,
                                                               init=One()).asnumpy()):
        assert looked.sum() == size
    t = ones()
    assert "<uninitialized>" in str(t) and "<uninitialized>" in repr(t) and t.init is not None
    t.asnumpy()
    assert not t.has_init and t.init is None and "uninitialized" not in repr(t)
    t = ones()
    t.assign_value(ms.ops.zeros(shape))
    assert not t.has_init and t.asnumpy().sum() == 0
    t = ones()
    t[0] = 3.0
    assert t.asnumpy().sum() == size + 2 * size // shape[0]


@pytest.mark.parametrize("shape", [(3,), (300, 200)])
def test_parameters_of_one_initializer_have_the_same_values(shape: tuple[int, ...]) -> None:
    t = initializer("normal", shape)
    a, b = ms.Parameter(t, name="a"), ms.Parameter(t, name="b")
    a += 1.0
    assert b.asnumpy().std() > 0
    np.testing.assert_array_equal(a.asnumpy(), b.asnumpy() + 1)
    np.testing.assert_array_equal(t.asnumpy(), b.asnumpy())


def test_what_fills_nothing_is_refused() -> None:
    with pytest.raises(TypeError, match="'init' must be an initializer"):
        ms.Tensor(shape=(2,), dtype=ms.float32, init="ones")


@pytest.mark.parametrize(
    ("what", "shape", "error", "text"),
    [
        ("foo", [2], ValueError, "class corresponding to 'foo' was not found"),
        ("zeros", [0], ValueError,
         "'shape' is invalid, the value of 'shape' must be positive integer, but got (0,)"),
        ("zeros", -1, ValueError,
         "'shape' is invalid, the value of 'shape' must be positive integer, but got (-1,)"),
        ("zeros", [2.0], ValueError,
         "'shape' is invalid, the value of 'shape' must be positive integer, but got (2.0,)"),
        (None, [2], TypeError,
         "type of the 'init' argument should be 'Tensor', 'number', 'string' or 'initializer'"),
        ([1, 2], [2], TypeError,
         "type of the 'init' argument should be 'Tensor', 'number', 'string' or 'initializer'"),
        ("he_normal", [3], ValueError,
         "'fan_in' and 'fan_out' can not be computed for tensor with fewer than 2 dimensions, but"),
        ("identity", [3], ValueError,
         "For Identity initializer, the dimension of the initialized tensor should be 2"),
        ("orthogonal", [3], ValueError,
         "For Orthogonal initializer, the dimension of the initialized tensor should be no less"),
        ("dirac", [3], ValueError,
         "For Dirac initializer, only support to initialize tensor with dimension of 3, 4 or 5"),
        (ms.Tensor(np.ones(3, np.float32)), [4], ValueError,
         "shape of the 'init' argument should be same as the argument 'shape'"),
    ],
)
def test_wrong_arguments(what: Any, shape: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        initializer(what, shape).init_data()


# --- values that are drawn when they are asked for -----------------------------------------------

LATER = [
    "normal", init.Normal(0.5, 2.0), "uniform", "he_normal", "he_uniform", "xavier_normal",
    "xavier_uniform", init.TruncatedNormal(1.0, 0.5, -1.0, 2.0), init.VarianceScaling(),
    init.VarianceScaling(distribution="uniform"),
    init.VarianceScaling(distribution="untruncated_normal"),
]
WIDE = (150, 120)


def undrawn(p: Any) -> bool:
    """Whether a parameter's initial values have not been made yet."""
    return isinstance(p._storage.state, deferred.Deferred)


def test_values_drawn_late_are_those_drawn_at_once() -> None:
    """In any order, whatever is drawn or seeded meanwhile; in each float type."""
    kinds = [(what, dtype) for what in LATER for dtype in (ms.float32, ms.float64, ms.float16)]
    ms.set_seed(5)
    at_once = [initializer(what, WIDE, dtype).init_data().asnumpy() for what, dtype in kinds]
    after = ms.ops.rand(3).asnumpy()
    ms.set_seed(5)
    late = [ms.Parameter(initializer(what, WIDE, dtype)) for what, dtype in kinds]
    assert all(
        undrawn(p) == (p.nbytes >= deferred.LEAST) and (p.shape, p.dtype) == (WIDE, dtype)
        for p, (_, dtype) in zip(late, kinds, strict=True))
    np.testing.assert_array_equal(ms.ops.rand(3).asnumpy(), after)
    ms.set_seed(6)
    for p, want in reversed(list(zip(late, at_once, strict=True))):
        np.testing.assert_array_equal(p.asnumpy(), want)
        assert not undrawn(p) and type(p) is ms.Parameter


def test_what_is_replaced_is_not_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (nn.Dense(*WIDE) for _ in range(2))
    ms.save_checkpoint(first, str(tmp_path / "w.ckpt"))

    def never(_: Any) -> Any:
        raise AssertionError("drawn, though nobody asks for it")

    monkeypatch.setattr(deferred.Deferred, "array", never)
    assert undrawn(second.weight)
    assert ms.load_param_into_net(second, ms.load_checkpoint(str(tmp_path / "w.ckpt"))) == ([], [])
    np.testing.assert_array_equal(second.weight.asnumpy(), first.weight.asnumpy())
    third = nn.Dense(*WIDE)
    assert repr(third.weight).startswith("Parameter (name=weight, shape=(120, 150)")
    assert third.weight.size == 18000 and not third.weight.has_init
    third.weight.set_data(first.weight)
    assert (third.weight == first.weight).all()
    with pytest.raises(AssertionError, match="drawn"):
        nn.Dense(*WIDE).weight.asnumpy()  # the check above can fail


def test_copies_of_values_drawn_late() -> None:
    def made() -> Any:
        ms.set_seed(9)
        p = nn.Dense(*WIDE).weight
        assert undrawn(p)
        return p

    want = made().asnumpy()
    for copied in (copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p)),
                   lambda p: p.clone(), lambda p: ms.Parameter(p), lambda p: ms.Tensor(p),
                   lambda p: p.value(), lambda p: p + 0):
        p = made()
        np.testing.assert_array_equal(copied(p).asnumpy(), want)
        np.testing.assert_array_equal(p.asnumpy(), want)
    p = made()
    p[0, 0] = 5
    assert p.asnumpy()[0, 0] == 5 and (p.asnumpy()[1:] == want[1:]).all()
    for write in (lambda p: p.set_data(p), lambda p: ms.ops.assign(p, p),
                  lambda p: p.set_data(p.value())):
        p = made()
        write(p)
        np.testing.assert_array_equal(p.asnumpy(), want)
    zeros = made().clone(init="zeros")
    assert zeros.shape == want.shape and not zeros.asnumpy().any()
    fresh = made().clone(init="normal")
    assert fresh.name == "weight" and 0.0099 < fresh.asnumpy().std() < 0.0101


def test_both_modes_call_with_values_drawn_late() -> None:
    x = ms.Tensor(np.ones((2, WIDE[0]), np.float32))
    found = []
    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        ms.set_seed(4)
        found.append(nn.Dense(*WIDE)(x).asnumpy())
    np.testing.assert_array_equal(*found)


def test_threads_that_ask_at_once_get_one_array() -> None:
    p = nn.Dense(600, 700).weight
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(p._data)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(a is found[0] for a in found) and found[0].any()


def test_the_users_own_initializers_run_when_the_parameter_is_made() -> None:
    class Mine(init.Normal):
        """Counts its calls."""

        calls = 0

        def _initialize(self, arr: Any) -> None:
            Mine.calls += 1
            super()._initialize(arr)

    p = ms.Parameter(initializer(Mine(2.0), WIDE))
    assert Mine.calls == 1 and not undrawn(p) and 1.9 < p.asnumpy().std() < 2.1


@pytest.mark.parametrize(("bad", "error", "text"), [
    (init.TruncatedNormal(1.0, 0.0, 2.0, 2.0), ValueError, "needs bounds a < b, but got"),
    (init.TruncatedNormal(0.0), ValueError, "needs a positive sigma, but got 0.0"),
    (init.TruncatedNormal("wide"), TypeError, "'sigma' must be a number, but got str"),
    (init.Normal("wide"), TypeError, "'sigma' must be a number, but got str"),
    (init.Normal(1.0, None), TypeError, "'mean' must be a number, but got NoneType"),
    (init.Normal(-1.0), ValueError, "'sigma' must be non-negative, but got -1.0"),
    (init.HeNormal(mode="fan"), ValueError, "please use one of ['fan_in', 'fan_out']"),
    (init.HeUniform(nonlinearity="none"), ValueError, "the nonlinearity 'none' is not known"),
])
def test_bad_arguments_are_noticed_when_the_parameter_is_made(
    bad: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=re.escape(text)):
        ms.Parameter(initializer(bad, WIDE))
