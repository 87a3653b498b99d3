"""Native sites of library functions give what the functions give, however often they are called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.core import dispatch
from cellc.pynative import functions
from cellc_runtime.site import STATE

OFTEN = functions._HOT + 4


@pytest.fixture(autouse=True)
def _pynative() -> Any:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield
    assert STATE.raw.busy == 0 and not STATE.raw.tape


@contextmanager
def the_long_way() -> Iterator[None]:
    """No site answers within the block."""
    STATE.begin()
    try:
        yield
    finally:
        STATE.end()


def random(*shape: int, seed: int = 3) -> ms.Tensor:
    return ms.Tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def bits(out: Any) -> list[Any]:
    many = out if isinstance(out, (tuple, list)) else (out,)
    return [(type(out), type(t), t.dtype, t.shape, t.asnumpy().tobytes()) for t in many]


X, Y, W, B = random(4, 7), random(4, 7, seed=4), random(7, 7, seed=5), random(7, seed=6)
LABELS = ms.Tensor(np.array([0, 6, 2, 2]), ms.int32)
ROWS = ms.Tensor(np.array([[0, 3, 1, 2, 0, 0, 1]]), ms.int64)
ONE_OP: dict[str, Callable[[ms.Tensor], Any]] = {
    "softmax": lambda x: ops.softmax(x, -1), "exp": lambda x: x.exp(),
    "sum": lambda x: x.sum(1), "reshape": lambda x: x.reshape(7, 4),
    "cat": lambda x: ops.cat((x, Y)), "stack": lambda x: ops.stack([x, Y], 1),
    "split": lambda x: ops.split(x, 2), "topk": lambda x: ops.topk(x, 2),
    "where": lambda x: ops.where(MASK, x, Y),
}
SEVERAL: dict[str, Callable[[ms.Tensor], Any]] = {
    "cross_entropy": lambda x: ops.cross_entropy(x, LABELS),
    "addmm": lambda x: ops.addmm(B, x, W), "var": lambda x: x.var(1),
    "dense": lambda x: ops.dense(x, W, B), "mse_loss": lambda x: ops.mse_loss(x, Y),
    "add a number": lambda x: ops.add(x, 2), "square": lambda x: ops.square(x),
    "gather": lambda x: ops.gather_elements(x, 0, ROWS),
    "smooth": lambda x: ops.cross_entropy(x, LABELS, label_smoothing=0.1),
}
MASK = ms.Tensor(np.random.default_rng(8).random((4, 7)) > 0.5)


@pytest.mark.parametrize("name", [*ONE_OP, *SEVERAL])
def test_bits_stay_those_of_the_first_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call = (ONE_OP | SEVERAL)[name]
    other = random(4, 7, seed=9)
    wanted, differently = bits(call(X)), bits(call(other))
    for _ in range(OFTEN if name in SEVERAL else 3):
        assert bits(call(X)) == wanted
    if dispatch.routed():
        monkeypatch.setattr(dispatch, "_engine", [])  # so nothing can go the long way
    assert bits(call(X)) == wanted
    assert bits(call(other)) == differently


@pytest.mark.parametrize("name", SEVERAL)
def test_gradients_see_the_ops_of_a_call(name: str) -> None:
    call = SEVERAL[name]
    grad = ms.value_and_grad(lambda v: (call(v) * 1.5).sum())
    with the_long_way():
        wanted = bits(grad(X))
    for _ in range(OFTEN):
        assert bits(grad(X)) == wanted
    again = ms.grad(lambda v: (ms.grad(lambda u: (call(u) ** 2).sum())(v)).sum())
    with the_long_way():
        twice = bits(again(X))
    assert bits(again(X)) == twice


def test_a_label_out_of_range_is_the_same_error_however_often_it_was_right() -> None:
    bad = ms.Tensor(np.array([0, 7, 2, 2]), ms.int32)

    def error() -> tuple[type[BaseException], str]:
        with pytest.raises(IndexError) as info:
            ops.cross_entropy(X, bad)
        return type(info.value), str(info.value)

    first = error()
    for _ in range(OFTEN):
        ops.cross_entropy(X, LABELS)
    assert error() == first
    with pytest.raises(IndexError), the_long_way():
        ops.cross_entropy(X, bad)


def test_equal_arguments_of_other_types_are_others() -> None:
    for _ in range(3):
        ops.softmax(X, 1), X.sum(1), X.sum((0, 1)), X.reshape((7, 4))
    with pytest.raises(TypeError):
        ops.softmax(X, 1.0)
    with pytest.raises(TypeError):
        X.sum((0.0, 1.0))
    with pytest.raises(TypeError):
        X.reshape((7.0, 4))
    assert bits(X.sum([0, 1])) == bits(X.sum((0, 1)))
    assert ops.sum(X, 1, True).shape == (4, 1) and ops.sum(X, 1, False).shape == (4,)
    assert ops.sum(X, dtype=ms.float64).dtype is ms.float64 and ops.sum(X).dtype is ms.float32


def test_numbers_are_known_by_their_bits() -> None:
    zero = ms.Tensor(np.zeros(3, np.float32))
    for _ in range(OFTEN):
        assert np.signbit(ops.mul(zero, -0.0).asnumpy()).all()
        assert not np.signbit(ops.mul(zero, 0.0).asnumpy()).any()
        assert ops.add(ms.Tensor([1, 2]), 1).dtype is ms.int64
        assert ops.add(ms.Tensor([1, 2]), 1.0).dtype is ms.float32


def test_shapes_and_element_types_are_parts_of_a_case() -> None:
    for n in (2, 5, 9):
        for _ in range(OFTEN):
            x = random(n, 3)
            np.testing.assert_allclose(x.var(0).asnumpy(), x.asnumpy().var(0), rtol=1e-5)
            assert ops.inner(x, x).shape == (n, n)
            assert ops.inner(ms.Tensor(2.0), x).shape == (n, 3)
    assert random(2, 3).astype(ms.float16).var(1).dtype is ms.float16


def test_one_tensor_given_twice_and_two() -> None:
    for _ in range(OFTEN):
        assert bits(ops.mse_loss(X, X))[0][4] == np.float32(0).tobytes()
        assert float(ops.mse_loss(X, Y)) > 0
        np.testing.assert_array_equal(ops.cat((X, X)).asnumpy()[4:], X.asnumpy())
        np.testing.assert_array_equal(ops.cat((X, Y)).asnumpy()[4:], Y.asnumpy())


def test_what_reads_elements_draws_or_writes_is_never_learnt() -> None:
    for n in range(OFTEN):
        lengths = ms.Tensor(np.array([1, 1 + n]), ms.int32)
        assert ops.sequence_mask(lengths).shape == (2, 1 + n)
        keep = np.arange(30) < n
        assert ops.nonzero(ms.Tensor(keep)).shape == (n, 1)
        assert ops.fills(X, ms.Tensor(float(n))).asnumpy()[0, 0] == n
        times = ms.Tensor([1 + n]) if n % 2 else (1 + n,)
        assert ops.tile(ms.Tensor([1.0]), times).shape == (1 + n,)
    draws = [ops.dropout(X, 0.5).asnumpy().tobytes() for _ in range(OFTEN)]
    assert len(set(draws)) == OFTEN
    x = random(2, 2)
    want = x.asnumpy().copy()
    for _ in range(OFTEN):
        x.add_(1.0)
        want += np.float32(1)
        np.testing.assert_array_equal(x.asnumpy(), want)
    for _ in range(OFTEN):
        y = random(2, 2)
        assert ops.relu(y, True) is y and (y.asnumpy() >= 0).all()


def test_results_are_new_tensors_and_parts_know_where_they_are_from() -> None:
    x = random(4, 3)
    outs = [ops.reshape(x, (3, 4)) for _ in range(5)]
    outs[0][0] = 7.0
    assert not (outs[1].asnumpy()[0] == 7).any() and not (x.asnumpy() == 7).any()
    assert all(ops.reshape(x, (4, 3)) is x for _ in range(OFTEN))
    for n in range(OFTEN):
        part = x[1]
        part[0] = float(n)
        assert x.asnumpy()[1, 0] == n


def test_functions_stay_what_they_are() -> None:
    ops.layer_norm(X, (7,), B, B), ops.clamp(X, 0.0, 1.0)
    assert list(inspect.signature(ops.layer_norm).parameters)[:2] == ["input", "normalized_shape"]
    assert inspect.getsource(ops.clamp).startswith("def clamp(")
    assert ops.clamp.__code__.co_filename.endswith("functional_math.py")
    assert ops.clamp(input=X, max=0.5, min=0.1).asnumpy().max() <= 0.5
    with pytest.raises(TypeError, match="unexpected keyword"):
        ops.clamp(X, 0.0, 1.0, nonsense=1)
    with pytest.raises(TypeError):
        ops.clamp()
    for fn in (ops.clamp, ops.erf, ms.Tensor.sum):  # of plain functions, closures and methods
        with pytest.raises(TypeError) as info:
            fn("nonsense")
        assert all(isinstance(entry.locals, dict) for entry in info.traceback)


def test_compiled_functions_and_other_ways_of_running_are_not_answered() -> None:
    net = nn.Dense(7, 3)
    for _ in range(OFTEN):
        eager = net(X)
    traced = ms.jit(lambda v: ops.cross_entropy(net(v), ms.Tensor([0, 1, 2, 0], ms.int32)))
    assert bits(traced(X)) == bits(ops.cross_entropy(net(X), ms.Tensor([0, 1, 2, 0], ms.int32)))
    low = nn.Dense(7, 3).to_float(ms.float16)
    assert low(X).dtype is ms.float16 and eager.dtype is ms.float32
    rows = ms.vmap(lambda r: ops.softmax(r, -1))(X)
    assert bits(rows) == bits(ops.softmax(X, -1))


def test_a_function_that_is_never_learnt_gets_its_code_back() -> None:
    code = None
    for _ in range(functions._HOPELESS + 3):
        ops.nonzero(MASK)
        code = code or ops.nonzero.__code__
    if dispatch.routed():
        assert ops.nonzero.__code__ is not code
    assert inspect.getsource(ops.nonzero).startswith("def nonzero(")


def test_what_python_reads_of_one_element() -> None:
    assert int(ms.Tensor([2.9])) == 2 and bool(ms.Tensor([[0.5]])) and not bool(ms.Tensor(0))
    assert int(ms.Tensor(True)) == 1 and int(ms.Tensor([7], ms.uint8)) == 7
    with pytest.raises(ValueError):
        bool(ms.Tensor([1, 2]))
    with pytest.raises(ValueError):
        int(ms.Tensor([1, 2]))


def test_ranges_and_flat_shapes() -> None:
    for given in ((8,), (2, 8), (2, 9, 3), (5, 5), (0,)):
        np.testing.assert_array_equal(ops.arange(*given).asnumpy(), np.arange(*given))
        assert ops.arange(*given).dtype is ms.int64
    with pytest.raises(ValueError):
        ops.arange(5, 1)
    with pytest.raises(TypeError):
        ops.arange("5")
    x = random(2, 3, 4)
    assert ops.flatten(x).shape == (2, 12) and x.flatten(start_dim=0).shape == (24,)
    assert ops.flatten(x, start_dim=1, end_dim=1).shape == (2, 3, 4)
    with pytest.raises(ValueError):
        ops.flatten(x, start_dim=2, end_dim=0)
