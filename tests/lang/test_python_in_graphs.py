"""What only Python can do with values of the run: in both modes the same, each piece once."""

from __future__ import annotations

import heapq
import logging
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops

from .python_programs import PROGRAMS

GIVEN = [Tensor(np.arange(6, dtype=np.float32).reshape(2, 3) + add) for add in (0, 5, -30, 0)]
"""The last is compiled for already."""


@pytest.fixture(autouse=True)
def _graph_mode() -> Iterator[None]:
    ms.set_context(mode=ms.GRAPH_MODE, jit_syntax_level=ms.LAX)
    yield
    ms.set_context(jit_syntax_level=ms.LAX)


def shown(value: Any) -> Any:
    """A value with its types and the bits of its elements."""
    if isinstance(value, (list, tuple)):
        return type(value), [shown(v) for v in value]
    if isinstance(value, dict):
        return type(value), [(k, shown(v)) for k, v in value.items()]
    if isinstance(value, Tensor):
        return "Tensor", shown(value.asnumpy())
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return type(value), repr(value)


@pytest.mark.parametrize("name", PROGRAMS)
def test_modes_agree(name: str) -> None:
    compiled = ms.jit(PROGRAMS[name])
    for x in GIVEN:
        assert shown(compiled(x)) == shown(PROGRAMS[name](x))


# --- once, and in order ---------------------------------------------------------------------------


SEEN: list[float] = []


def _seen(value: float) -> float:
    SEEN.append(value)
    return value


see = np.frompyfunc(_seen, 1, 1)
"""A function of a third party: it is not read, but called by Python."""


def noted(fn: Callable[..., Any], x: Tensor) -> list[Any]:
    SEEN.clear()
    fn(x)
    return list(SEEN)


def order(x: Tensor) -> Any:
    a = see(float(x.sum()))
    if x.sum() > 20:
        see(float(x.sum()) + 1)
        see(float(x.max()) + 2)
    for i in range(2):
        see(float(x.min()) + i)
    i = 0
    while i < 3:
        if i == 2:
            see(100.0 + float(x.max()))
        i = i + (x.sum() < 1e9).astype(ms.int32)
    return a


def test_each_piece_runs_once_and_in_order() -> None:
    compiled = ms.jit(order)
    for x in (*GIVEN, GIVEN[1], GIVEN[2]):
        assert noted(compiled, x) == noted(order, x)


def test_prints_stay_among_the_pieces(capsys: pytest.CaptureFixture[str]) -> None:
    def fn(x: Tensor) -> Any:
        print("sum", x.sum())
        print(f"{(x.min(),)} {(x.min(), 2)} {[x.min(), (x.max(), 3, x.max())]}")
        a = x.asnumpy()
        print(a[0], f"{a.max():.2f}")
        if x.sum() > 20:
            print("more", x.max())
            print(a.min())
        return x

    compiled = ms.jit(fn)
    for x in GIVEN:
        fn(x)
        want = capsys.readouterr().out
        compiled(x)
        assert capsys.readouterr().out == want


class Counting(nn.Cell):
    """Python objects that change, beside pieces."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.last: Any = None
        self.w = ms.Parameter(np.ones(3, np.float32), name="w")

    def construct(self, x: Tensor) -> Any:
        self.calls += 1
        self.last = x.asnumpy() + self.calls
        self.w += Tensor(x.asnumpy()[0])
        return Tensor(self.w.asnumpy()) * self.calls


def test_state_and_parameters_change_as_in_python() -> None:
    found = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        net = Counting()
        found.append([(shown(net(x)), net.calls, shown(net.last), shown(net.w)) for x in GIVEN])
    assert found[0] == found[1]


# --- gradients ------------------------------------------------------------------------------------


def constant_factor(x: Tensor) -> Any:
    return (x * Tensor(np.cos(x.asnumpy())) * float(np.max(x.asnumpy()))).sum()


def in_a_branch(x: Tensor) -> Any:
    y = x * 2
    if x.sum() > 20:
        y = y * Tensor(np.sign(y.asnumpy()))
    return (y * y).sum()


@pytest.mark.parametrize("fn", [constant_factor, in_a_branch])
def test_no_gradient_passes_a_piece(fn: Callable[..., Any]) -> None:
    graph = ms.grad(fn)
    for x in GIVEN:
        ms.set_context(mode=ms.PYNATIVE_MODE)
        want = shown(graph(x))
        ms.set_context(mode=ms.GRAPH_MODE)
        assert shown(graph(x)) == want


def test_a_tensor_that_python_makes_of_tensors_has_no_known_gradient() -> None:
    def fn(x: Tensor) -> Any:
        return random.choice([x, x]).sum()

    assert shown(ms.jit(fn)(GIVEN[0])) == shown(fn(GIVEN[0]))
    with pytest.raises(TypeError, match=r"the gradient of the Python function .* is not known"):
        ms.grad(fn)(GIVEN[0])


def test_a_range_to_a_number_of_numpy() -> None:
    """As Python: an array of no dimension is an index, one of several elements or floats is not."""
    @ms.jit
    def total(n: Tensor) -> Any:
        out = 0
        for i in range(1, n.asnumpy()):
            out += i
        for i in range(0, n.asnumpy(), 2):
            out += i * 100
        return out

    for n in (5, 1, 6):
        assert total(Tensor(n)) == sum(range(1, n)) + 100 * sum(range(0, n, 2))
    for wrong in (Tensor([5]), Tensor(5.0)):
        with pytest.raises(TypeError, match="only integer scalar arrays"):
            total(wrong)


# --- errors ---------------------------------------------------------------------------------------


def test_what_a_piece_raises_reaches_the_caller_with_its_line() -> None:
    def fn(x: Tensor) -> Any:
        return Tensor(np.linalg.inv(x.asnumpy()[:, :2]))

    compiled = ms.jit(fn)
    singular = Tensor(np.zeros((2, 3), np.float32))
    for x in (singular, GIVEN[0], singular):
        if x is GIVEN[0]:
            compiled(x)
            continue
        with pytest.raises(np.linalg.LinAlgError, match="Singular") as caught:
            compiled(x)
        assert "test_python_in_graphs.py:" in "".join(caught.value.__notes__)


def test_nothing_is_half_written() -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = ms.Parameter(np.zeros(2, np.float32), name="w")

        def construct(self, x: Tensor) -> Any:
            self.w += 1
            return Tensor(np.linalg.inv(x.asnumpy()[:, :2])) * self.w

    net = Net()
    net(GIVEN[0])
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        net(Tensor(np.zeros((2, 3), np.float32)))
    assert net.w.asnumpy().tolist() == [1.0, 1.0]


def test_another_type_names_the_line() -> None:
    def fn(x: Tensor) -> Any:
        return x * min(1, x.asnumpy()[0, 0])

    compiled = ms.jit(fn)
    compiled(GIVEN[1])
    with pytest.raises(TypeError, match=r"test_python_in_graphs.py:\d+ gives float32 now, but gave "
                       "int when the graph was compiled"):
        compiled(GIVEN[2])


FACTOR = 2


def test_what_only_another_shape_reads_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece gives another shape, and what is compiled for that reads more from outside."""
    def fn(x: Any) -> Any:
        found = Tensor(np.repeat(x.asnumpy()[0], 2 if x.asnumpy()[0, 0] > 4 else 1))
        return found * FACTOR if found.shape[0] > 3 else found

    compiled = ms.jit(fn)
    for factor in (2, 2, 5):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        for x in GIVEN:
            assert shown(compiled(x)) == shown(fn(x))


def test_a_container_of_the_network_is_not_changed_unseen() -> None:
    def fn(x: Tensor) -> Any:
        queue = [3, 5]
        heapq.heappush(queue, float(x.sum()))
        return queue

    with pytest.raises(TypeError, match=r"heapq.heappush\(\) changes a container that the network"):
        ms.jit(fn)(GIVEN[0])


def test_a_raised_message_holds_values_of_the_run() -> None:
    def raising(x: Tensor) -> Any:
        if x.sum() > 20:
            raise KeyError(x.asnumpy().max())
        assert x.asnumpy().sum() > 0, f"sum {x.asnumpy().sum()}"
        return x

    compiled = ms.jit(raising)
    assert shown(compiled(GIVEN[0])) == shown(GIVEN[0])
    with pytest.raises(KeyError, match=r"10\.0"):
        compiled(GIVEN[1])
    with pytest.raises(AssertionError, match=r"sum -165\.0"):
        compiled(GIVEN[2])


def test_strict_refuses_with_the_line() -> None:
    def fn(x: Tensor) -> Any:
        return Tensor(x.asnumpy())

    compiled = ms.jit(fn)
    compiled(GIVEN[0])
    ms.set_context(jit_syntax_level=ms.STRICT)
    with pytest.raises(TypeError, match=r"Tensor.asnumpy\(\) needs Python.*\[CE309\]"):
        compiled(GIVEN[0])
    ms.set_context(jit_syntax_level=ms.LAX)
    assert shown(compiled(GIVEN[0])) == shown(GIVEN[0])
    strict = ms.JitConfig(jit_syntax_level="STRICT")
    with pytest.raises(TypeError, match="CE309"):
        ms.jit(fn, jit_config=strict)(GIVEN[0])
    net = Counting()
    net.set_jit_config(strict)
    with pytest.raises(TypeError, match="CE309"):
        net(GIVEN[0])


def test_a_network_that_is_compiled_without_a_call_has_no_pieces() -> None:
    class Net(nn.Cell):
        def construct(self, x: Tensor) -> Any:
            return Tensor(np.exp(x.asnumpy()))

    with pytest.raises(TypeError, match="not known while a graph is compiled"):
        Net().compile(GIVEN[0])


def test_where_it_cannot_be_learnt_is_an_error() -> None:
    def inside(row: Tensor) -> Any:
        return Tensor(row.asnumpy())

    with pytest.raises(TypeError, match=r"an op calls in a way of its own \[CE310\]"):
        ms.jit(lambda x: ops.vmap(inside)(x))(GIVEN[0])
    with pytest.raises(TypeError, match=r"a size follows from elements before it \[CE310\]"):
        ms.jit(lambda x: Tensor(x[x > 2].asnumpy()))(GIVEN[0])


# --- what is said about it ------------------------------------------------------------------------


def test_each_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    def fn(x: Tensor) -> Any:
        return Tensor(np.exp(x.asnumpy()))

    compiled = ms.jit(fn)
    with caplog.at_level(logging.INFO, logger="cellc"):
        for x in GIVEN:
            compiled(x)
    told = [m for m in caplog.messages if "run by Python" in m]
    assert len(told) == 1 and "test_python_in_graphs.py:" in told[0]
    text = str(ms.explain(compiled))
    assert "run by Python in each call: numpy.exp(), test_python_in_graphs.py:" in text
