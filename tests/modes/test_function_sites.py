"""Native sites of library functions give what the functions give, however often they are called."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import pydoc
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.core import dispatch
from cellc.core.native import native_body
from cellc.eager import functions
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
    for of in (lambda v: (call(v) * 1.5).sum(), call):
        grad = ms.value_and_grad(of)
        with the_long_way():
            wanted = bits(grad(X))
        for _ in range(OFTEN):
            assert bits(grad(X)) == wanted
    again = ms.grad(lambda v: (ms.grad(lambda u: (call(u) ** 2).sum())(v)).sum())
    with the_long_way():
        twice = bits(again(X))
    assert bits(again(X)) == twice


WRONG_CLASS = r"class indices must be in \[0, 7\), but got 7"


def test_a_label_out_of_range_is_the_same_error_however_often_it_was_right() -> None:
    bad = ms.Tensor(np.array([0, 7, 2, 2]), ms.int32)

    def error() -> tuple[type[BaseException], str]:
        with pytest.raises(IndexError, match=WRONG_CLASS) as info:
            ops.cross_entropy(X, bad)
        return type(info.value), str(info.value)

    first = error()
    for _ in range(OFTEN):
        ops.cross_entropy(X, LABELS)
    assert error() == first
    with pytest.raises(IndexError, match=WRONG_CLASS), the_long_way():
        ops.cross_entropy(X, bad)


def test_equal_arguments_of_other_types_are_others() -> None:
    for _ in range(3):
        ops.softmax(X, 1), X.sum(1), X.sum((0, 1)), X.reshape((7, 4))
    with pytest.raises(TypeError, match="'axis' must be an int, but got float"):
        ops.softmax(X, 1.0)
    with pytest.raises(TypeError, match="'axis' must be an int, but got float"):
        X.sum((0.0, 1.0))
    with pytest.raises(TypeError, match="'shape' must be an int, but got float"):
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
    assert len({id(out) for out in outs}) == 5
    outs[0][0] = 7.0
    assert (outs[1].asnumpy()[0] == 7).all() and (x.asnumpy().ravel()[:4] == 7).all()
    assert all(ops.reshape(x, (4, 3)) is x for _ in range(OFTEN))
    for n in range(OFTEN):
        part = x[1]
        part[0] = float(n)
        assert x.asnumpy()[1, 0] == n


def test_what_a_function_hands_on_is_the_argument_itself() -> None:
    def scaled_by(x: ms.Tensor, y: ms.Tensor) -> tuple[ms.Tensor, ms.Tensor]:
        return ops.relu(x) * y, y

    body = native_body()(scaled_by)
    assert all(body(X, Y)[1] is Y for _ in range(OFTEN))


PUBLIC = (ops.softmax, ops.mse_loss, ops.isclose, ops.erf, ops.zeros_like, ms.Tensor.sum)
"""Functions with a body of their own, behind a decorator, and made from an op; a method."""


def test_functions_stay_what_they_are() -> None:
    before = [(f, f.__code__) for f in vars(ops).values() if inspect.isfunction(f)]
    assert len(before) > 400
    for _ in range(OFTEN):
        ops.layer_norm(X, (7,), B, B), ops.clamp(X, 0.0, 1.0), ops.isclose(X, Y), ops.nonzero(X)
    assert all(f.__code__ is code for f, code in before)
    assert list(inspect.signature(ops.layer_norm).parameters)[:2] == ["input", "normalized_shape"]
    assert inspect.getsource(ops.clamp).startswith("def clamp(")
    assert inspect.getsource(ops.isclose).startswith("@native\ndef isclose(")
    assert str(inspect.signature(ops.isclose)) == (
        "(input: 'Tensor', other: 'Tensor', rtol: 'float' = 1e-05, atol: 'float' = 1e-08, "
        "equal_nan: 'bool' = False) -> 'Tensor'")
    assert ops.isclose.__module__ == "cellc.ops.functional.arith"
    assert str(inspect.signature(ops.erf)) == "(input)"
    assert "self" in inspect.signature(ms.Tensor.sum).parameters
    assert "self" not in inspect.signature(X.sum).parameters
    assert ops.clamp(input=X, max=0.5, min=0.1).asnumpy().max() <= 0.5


@pytest.mark.parametrize("fn", PUBLIC, ids=lambda f: f.__qualname__)
def test_functions_are_documented_copied_and_wrapped_as_functions_are(fn: Any) -> None:
    assert inspect.isfunction(fn) and fn.__doc__ and fn.__name__ in pydoc.render_doc(fn)
    assert fn.__doc__.splitlines()[0] in pydoc.render_doc(fn)
    assert copy.deepcopy(fn) is fn

    @functools.wraps(fn)
    def around(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    assert around.__name__ == fn.__name__ and around.__doc__ == fn.__doc__
    assert inspect.signature(around) == inspect.signature(fn)


@pytest.mark.parametrize("fn", [ops.softmax, ops.mse_loss, ops.isclose, ops.zeros_like])
def test_functions_are_pickled_by_name(fn: Any) -> None:
    assert pickle.loads(pickle.dumps(fn)) is fn


def test_errors_name_the_function_and_its_lines() -> None:
    for fn, name in ((ops.clamp, "clamp"), (ops.isclose, "isclose")):
        with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword"):
            fn(X, 0.0, nonsense=1)
        with pytest.raises(TypeError, match=rf"{name}\(\) missing .* required positional"):
            fn()
    for _ in range(OFTEN):
        ops.isclose(X, Y)
    for fn in (ops.clamp, ops.erf, ms.Tensor.sum, ops.isclose):
        with pytest.raises(TypeError, match=r"'input' must be a Tensor.*, but got str") as info:
            fn("nonsense", *(["nonsense"] if fn is ops.isclose else []))
        frames = traceback.extract_tb(info.tb)
        assert all(f.line and Path(f.filename).exists() for f in frames)
        assert all(isinstance(entry.locals, Mapping) for entry in info.traceback)


def test_arguments_by_name_are_learnt_too(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = bits(ops.isclose(X, Y, atol=0.5)), bits(ops.rms_norm(X, gamma=B, epsilon=0.5))
    for _ in range(OFTEN):
        assert bits(ops.isclose(X, Y, atol=0.5)) == wanted[0]
        assert bits(ops.isclose(X, Y, rtol=0.5)) != wanted[0]
        ops.rms_norm(X, gamma=B, epsilon=0.5)
    if dispatch.routed():
        monkeypatch.setattr(dispatch, "_engine", [])
    assert bits(ops.isclose(X, Y, atol=0.5)) == wanted[0]
    assert bits(ops.rms_norm(X, gamma=B, epsilon=0.5)) == wanted[1]


FIRST_CALLS = """
import sys, threading
import numpy as np
import cellc as ms
from cellc import ops

sys.setswitchinterval(1e-6)
ms.set_context(mode=ms.PYNATIVE_MODE)
x = ms.Tensor(np.linspace(-1, 1, 28, dtype=np.float32).reshape(4, 7))
y, labels = ms.Tensor(x.asnumpy() + 1), ms.Tensor(np.array([0, 6, 2, 2]), ms.int32)
calls = [
    lambda: ops.relu(x), lambda: ops.gelu(x), lambda: x.sum(), lambda: x.mean(1), lambda: -x,
    lambda: x + y, lambda: ops.softmax(x, -1), lambda: ops.mse_loss(x, y), lambda: x.exp(),
    lambda: ops.isclose(x, y), lambda: x[1:3], lambda: ops.cat((x, y)), lambda: ops.split(x, 2)[0],
    lambda: ops.cross_entropy(x, labels), lambda: x.reshape(7, 4), lambda: ops.zeros_like(x),
    lambda: ops.lerp(x, y, 0.5), lambda: ops.matmul(x, x.T), lambda: ops.where(x > y, x, y),
    lambda: ops.clamp(x, min=0.0), lambda: x.var(0), lambda: ops.topk(x, 2)[0],
    lambda: ops.stack((x, y)), lambda: ops.flip(x, (0,)), lambda: ops.addcmul(x, x, y),
    lambda: ops.hypot(x, y), lambda: ops.dense(x, x), lambda: x.abs(), lambda: ops.norm(x),
    lambda: ops.layer_norm(x, (7,)), lambda: ops.log_softmax(x), lambda: x.max(), lambda: x.T,
]
start, failed, found = threading.Barrier(8), [], [[] for _ in range(8)]

def run(out):
    try:
        for n in range(3):
            for call in calls:
                if not n:
                    start.wait()  # so that all make the first call of a function at once
                out.append(call().asnumpy().tobytes())
    except BaseException as error:
        failed.append(repr(error))
        start.abort()

threads = [threading.Thread(target=run, args=(out,)) for out in found]
for t in threads:
    t.start()
for t in threads:
    t.join()
sys.setswitchinterval(0.005)
wanted = [call().asnumpy().tobytes() for _ in range(20) for call in calls]
assert not failed, failed
assert all(out == wanted[:len(out)] for out in found)
from cellc_runtime.site import STATE
assert STATE.raw.busy == 0 and not STATE.raw.tape
print(len(wanted))
"""


@pytest.mark.parametrize("_round", range(4))
def test_first_calls_of_many_threads(_round: int) -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_CALLS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "660"


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


def test_a_body_that_is_never_learnt_is_left_alone() -> None:
    def read(x: ms.Tensor) -> float:
        return float(x.asnumpy().sum())

    body = native_body()(read)
    for n in range(functions._HOPELESS + 3):
        assert body(ms.Tensor([float(n)])) == n
        assert n or not dispatch.routed() or body.func is not read  # type: ignore[attr-defined]
    assert body.func is read  # type: ignore[attr-defined]


def test_what_python_reads_of_one_element() -> None:
    assert int(ms.Tensor([2.9])) == 2 and bool(ms.Tensor([[0.5]])) and not bool(ms.Tensor(0))
    assert int(ms.Tensor(True)) == 1 and int(ms.Tensor([7], ms.uint8)) == 7
    with pytest.raises(ValueError, match="should have only one element, but got 2"):
        bool(ms.Tensor([1, 2]))
    with pytest.raises(ValueError, match="Only one element tensors can be converted"):
        int(ms.Tensor([1, 2]))


def test_ranges_and_flat_shapes() -> None:
    for given in ((8,), (2, 8), (2, 9, 3), (5, 5), (0,)):
        np.testing.assert_array_equal(ops.arange(*given).asnumpy(), np.arange(*given))
        assert ops.arange(*given).dtype is ms.int64
    with pytest.raises(ValueError, match="step 1 does not lead from start 5 to end 1"):
        ops.arange(5, 1)
    with pytest.raises(TypeError, match="'bound' must be a number, but got str"):
        ops.arange("5")
    x = random(2, 3, 4)
    assert ops.flatten(x).shape == (2, 12) and x.flatten(start_dim=0).shape == (24,)
    assert ops.flatten(x, start_dim=1, end_dim=1).shape == (2, 3, 4)
    with pytest.raises(ValueError, match="start_dim 2 comes after end_dim 0"):
        ops.flatten(x, start_dim=2, end_dim=0)
