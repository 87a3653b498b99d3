"""What users of MindSpore expect of compiled functions.

Containers that are returned: those that were there before are the very objects, as
in Python; those that the function makes are made anew by each call."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn
from cellc.compiled.traced import trace

TABLE: dict[str, Any] = {"sizes": [1, 2], "nested": ([np.arange(3), "text"], 4)}
QUEUE = deque([1, 2, 3], maxlen=4)
TWO = 2


@pytest.mark.parametrize("fn, wanted", [
    (lambda x: TABLE, lambda: TABLE),
    (lambda x: TABLE["sizes"], lambda: TABLE["sizes"]),
    (lambda x: TABLE["nested"][0], lambda: TABLE["nested"][0]),
    (lambda x: QUEUE, lambda: QUEUE),
])
def test_global_containers(fn: Callable[[Tensor], Any], wanted: Callable[[], Any]) -> None:
    compiled = ms.jit(fn)
    for _ in range(2):
        assert compiled(Tensor(1.0)) is wanted()


def test_within_a_container_of_the_function() -> None:
    @ms.jit
    def f(x: Tensor) -> Any:
        return [x + 1, TABLE["sizes"], {"q": QUEUE}]

    first, second = f(Tensor(1.0)), f(Tensor(2.0))
    assert first is not second
    assert first[1] is second[1] is TABLE["sizes"]
    assert first[2] is not second[2]
    assert first[2]["q"] is QUEUE
    assert (float(first[0]), float(second[0])) == (2.0, 3.0)


def test_arguments_and_their_parts() -> None:
    @ms.jit
    def f(pair: Any, x: Tensor) -> Any:
        return pair[0], pair, x

    @ms.jit
    def changed(items: list[Any], x: Tensor) -> Any:
        items.append(x * 2)
        return items

    for k in range(2):  # another list of the same form takes the same program
        own = [k, Tensor(float(k))]
        first, pair, _ = f((own, 3), Tensor(1.0))
        assert first is own
        assert pair[0] is own
        given = [Tensor(float(k))]
        out = changed(given, Tensor(k + 2.0))
        assert out is given
        assert [float(v) for v in given] == [k, 2 * (k + 2.0)]


def test_attributes_of_cells_that_grow() -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[Any] = []

        def construct(self, x: Tensor) -> Any:
            self.seen.append(x * 2)
            return self.seen

    net = Net()
    for n in (1, 2, 3):
        out = net(Tensor(float(n)))
        assert out is net.seen
        assert [float(v) for v in out] == [2.0 * i for i in range(1, n + 1)]


def test_a_graph_alone_has_no_objects_of_a_call() -> None:
    def f(items: list[Any]) -> Any:
        return items, TABLE["sizes"]

    traced = trace(f, ([Tensor(1.0), 2],), {})
    assert not traced.returned
    assert len(traced.graph.outputs) == 1


def test_what_python_does_with_open_sizes() -> None:
    """Each size is traced for itself, and its pieces are run for each call."""
    class Net(nn.Cell):
        def construct(self, x: Tensor) -> Any:
            y = np.exp(x.asnumpy())
            return Tensor(y) + x, math.isinf(x.shape[0]) or np.isinf(x.shape[1])

    ms.set_context(mode=ms.GRAPH_MODE)
    net = Net()
    net.set_inputs(Tensor(shape=[None, None], dtype=ms.float32))
    for rows in (2, 3, 2):
        for scale in (1.0, 0.5):
            x = np.full((rows, 2), scale, np.float32)
            out, infinite = net(Tensor(x))
            np.testing.assert_array_equal(out.asnumpy(), np.exp(x) + x)
            assert not infinite


def test_errors_with_open_sizes_stay() -> None:
    class Net(nn.Cell):
        def construct(self, x: Tensor) -> Any:
            return x + Tensor(np.ones((2, 3), np.float32))

    ms.set_context(mode=ms.GRAPH_MODE)
    net = Net()
    net.set_inputs(Tensor(shape=[None, 5], dtype=ms.float32))
    with pytest.raises(ValueError, match="5 in one and 3 in the other"):
        net(Tensor(np.ones((2, 5), np.float32)))


def test_tensors_are_bounds_of_lists() -> None:
    @ms.jit
    def f(start: Tensor, stop: Tensor) -> Any:
        items = [1, 2, 3, 4]
        return items[start:], items[:stop]

    for a, b in ((0, 2), (3, 1)):
        assert f(Tensor(a), Tensor([b])) == ([1, 2, 3, 4][a:], [1, 2, 3, 4][:b])


@pytest.mark.parametrize("rows", [2, 5])
def test_strings_of_open_sizes(rows: int, capfd: pytest.CaptureFixture[str]) -> None:
    class Net(nn.Cell):
        def construct(self, x: Tensor) -> Any:
            print("shape", x.shape, x.shape[0])
            return (f"{x.shape} {x.shape[0]:>3}", "{}".format(x.shape[0]),  # noqa: UP032
                    "%s" % (x.shape[0],))  # noqa: UP031

    ms.set_context(mode=ms.GRAPH_MODE)
    net = Net()
    net.set_inputs(Tensor(shape=[None, 3], dtype=ms.float32))
    for n in (rows, rows + 1):
        assert net(Tensor(np.ones((n, 3), np.float32))) == (f"({n}, 3) {n:>3}", str(n), str(n))
    assert capfd.readouterr().out.splitlines()[-1] == f"shape ({rows + 1}, 3) {rows + 1}"


@pytest.mark.parametrize("x, y", [(1, 3), (3, 1), (2, 2)])
def test_sequences_of_tensors_compared(x: int, y: int) -> None:
    def f(x: Tensor, y: Tensor) -> Any:
        a, b = ((x, x + 1), x + 2), ((y, y - 1), y + 2)
        pairs = [(x, y), (y, x), (x, y)]
        return (a < b, a <= b, a > b, a >= b, a == b, a != b, [x] == [y], pairs.count((x, y)),
                (x, x) in pairs, int(x) is TWO, int(x) is not TWO)

    args = Tensor([x]), Tensor([y])
    given = ms.jit(f)(*args)
    for got, wanted in zip(given, f(*args), strict=True):
        assert (int(got), bool(got)) == (int(wanted), bool(wanted))


def test_extremes_of_numbers_and_tensors() -> None:
    @ms.jit
    def f(x: Tensor) -> Any:
        return max(1, Tensor([2])), min(3, Tensor([4])), max(1, x)

    for n in (0, 5, 1):
        out = f(Tensor([n]))
        assert (int(out[0]), out[1], int(out[2])) == (2, 3, max(1, n))
