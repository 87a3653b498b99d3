"""Cells: inlining, scopes, spans, attribute reads; sources of every kind."""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import ops
from cellc.common.parameter import Parameter
from cellc.common.tensor import Tensor
from cellc.lang import Hooks, register_source
from cellc.lang.source import function_source
from cellc.nn.cell import Cell
from cellc.nn.layer.container import CellList, SequentialCell
from cellc.tracing.reads import Reads

from ..modes.law import MODES, mode

X = np.array([[1, 2], [3, 4]], np.float32)


class Scale(Cell):
    def __init__(self, k: float) -> None:
        super().__init__()
        self.w = Parameter(Tensor(np.full(2, k, np.float32)), name="w")
        self.__private = 1

    def construct(self, x: Any) -> Any:
        return x * self.w + self.__private


class Block(Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first = Scale(2)
        self.layers = SequentialCell(Scale(3), Scale(4))
        self.twice = True

    def construct(self, x: Any, *, extra: Any = 0) -> Any:
        y = self.first(x)
        y = self.layers(y)
        return self._more(y) + extra

    def _more(self, y: Any) -> Any:
        return y * 2 if self.twice else y

    @property
    def size(self) -> int:
        return len(self.layers)


class Child(Block):
    def construct(self, x: Any, *, extra: Any = 0) -> Any:
        base = super().construct(x, extra=extra)
        return base + self.size


class Chooser(Cell):
    def __init__(self) -> None:
        super().__init__()
        self.options = CellList([Scale(1), Scale(2), Scale(3)])

    def construct(self, x: Any, i: Any) -> Any:
        return self.options[i](x)


class Running(Cell):
    def __init__(self) -> None:
        super().__init__()
        self.mean = Parameter(Tensor(np.zeros(2, np.float32)), name="mean", requires_grad=False)

    def construct(self, x: Any) -> Any:
        self.mean = self.mean * 0.5 + x[0] * 0.5
        before = self.mean + 0
        self.mean += 1
        return x - self.mean, before


def expected(x: Any) -> Any:
    for k in (2, 3, 4):
        x = x * k + 1
    return x * 2


def test_cells_are_inlined(compiled: Callable[..., Any]) -> None:
    assert np.array_equal(compiled(Block(), X), expected(X))
    assert np.array_equal(compiled(Child(), X), expected(X) + 2)
    assert np.array_equal(compiled(functools.partial(Block(), extra=5), X), expected(X) + 5)


def test_scopes_and_spans(traced: Callable[..., Any]) -> None:
    tracer, _ = traced(Block(), (X,))
    nodes = [n for n in tracer.graph.nodes if n.op == "mul"]
    assert [n.scope for n in nodes] == ["first", "layers.0", "layers.1", ""]
    line = Scale.construct.__code__.co_firstlineno + 1
    assert all(n.span.line == line and n.span.file == __file__ for n in nodes[:3])
    assert (nodes[0].span.column, nodes[0].span.end_column) == (15, 25)
    assert [v.name for v in tracer.graph.inputs][1:] == ["first.w", "layers.0.w", "layers.1.w"]


def test_a_cell_chosen_by_a_tensor(compiled: Callable[..., Any]) -> None:
    for i in (0, 1, 2, -1):
        got = compiled(Chooser(), X, np.array(i, np.int64))
        assert np.array_equal(got, X * (i % 3 + 1) + 1)


def test_parameters_are_updated(compiled: Callable[..., Any]) -> None:
    net = Running()
    got, before = compiled(net, X)
    assert np.array_equal(before, [0.5, 1])
    assert np.array_equal(net.mean._data, [1.5, 2])
    assert np.array_equal(got, X - [1.5, 2])


def test_reads_are_reported(compiled: Callable[..., Any]) -> None:
    net, reads = Block(), Reads(str)
    compiled(net, X, hooks=Hooks(reads))
    assert {(id(net), "twice"), (id(net.first), "w")} <= reads.attributes.keys()

    def fn(x: Any) -> Any:
        return np.prod(x.shape) * x

    reads = Reads(str)
    compiled(fn, X, hooks=Hooks(reads))
    assert (id(globals()), "np") in reads.found


def test_functions_from_exec(compiled: Callable[..., Any]) -> None:
    text = "def made(x):\n    # a comment\n    return x + 1\n"
    space: dict[str, Any] = {}
    register_source("<made in a test>", text)
    exec(compile(text, "<made in a test>", "exec"), space)
    assert np.array_equal(compiled(space["made"], X), X + 1)
    linecache.cache.pop("<made in a test>")


def test_lambdas_on_one_line(compiled: Callable[..., Any]) -> None:
    fs = [lambda x: x + 1, lambda x: x * 2, lambda x: (lambda y: y - 3)(x)]
    got = [compiled(f, X) for f in fs]
    assert all(np.array_equal(g, w) for g, w in zip(got, (X + 1, X * 2, X - 3), strict=True))


def indented() -> Callable[..., Any]:
    if True:
        def inner(x: Any,
                  y: Any = """text
at the margin""") -> Any:
            z = (x +
                 1
                 )
            return z  # noqa: RET504
            # nothing below runs

    return inner


def test_positions_of_an_indented_function(compiled: Callable[..., Any]) -> None:
    fn = indented()
    assert np.array_equal(compiled(fn, X), X + 1)
    node = function_source(fn).node
    assert node.lineno == fn.__code__.co_firstlineno
    assert linecache.getline(__file__, node.lineno)[node.col_offset:].startswith("def inner")


def test_python_callbacks_of_library_functions(compiled: Callable[..., Any]) -> None:
    def fn(x: Any) -> Any:
        table = {"b": 2, "a": 1}
        return x * max(table, key=lambda k: table[k]).count("b"), sorted(table, key=lambda k: k)

    got = compiled(fn, X)
    assert np.array_equal(got[0], X)
    assert got[1] == ["a", "b"]


def _more(v: Any) -> Any:
    return v + 1


def test_iterators_and_views_that_are_returned_become_sequences():
    """As MindSpore gives them; nothing of the graph is left in what a call returns."""
    x = ms.Tensor([1.0, 2.0])

    @ms.jit
    def made(x):
        d = {"a": x}
        return (zip([1], [x], strict=True), enumerate((x,)), map(_more, (x,)), map(abs, [x]),
                filter(None, [0, 2]), (v for v in (x,)), reversed([1, x]), d.keys(), d.values(),
                d.items(), [iter([x])])

    kinds = [tuple, tuple, tuple, list, list, list, list, tuple, tuple, list, list]
    found = made(x)
    assert [type(f) for f in found] == kinds
    assert found[0][0][0] == 1 and found[4] == [2] and found[7] == ("a",)
    assert found[9][0][0] == "a"
    tensors = [found[0][0][1], found[1][0][1], found[3][0], found[5][0], found[6][0], found[8][0],
               found[9][0][1], found[10][0][0]]
    assert all(t.asnumpy().tolist() == [1, 2] for t in tensors)
    assert found[2][0].asnumpy().tolist() == [2, 3]


@pytest.mark.parametrize("m", MODES)
def test_parameters_that_are_returned(m: int) -> None:
    """What a compiled function gives of a ParameterTuple is a tuple of tensors, of the values that
    the parameters have when it ends."""
    class Counting(Cell):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = (Parameter(Tensor(np.ones(2, np.float32)), name=n) for n in "ab")
            self.both = ms.ParameterTuple((self.a, self.b))

        @ms.jit
        def construct(self, x: Any) -> Any:
            ops.assign_add(self.a, x)
            return self.both

    net = Counting()
    for total in (2.0, 3.0):
        with mode(m):
            found = net(Tensor(np.ones(2, np.float32)))
        assert type(found) is tuple
        assert [type(t) for t in found] == [Tensor, Tensor]
        assert [t.tolist() for t in found] == [[total] * 2, [1.0] * 2]
        assert net.a.tolist() == [total] * 2


class _Doubled(ms.nn.Cell):
    def construct(self, x):
        return x * 2


class _Around(_Doubled):
    def __call__(self, x):
        return super().__call__(x + 1) + 5


class _Holds(ms.nn.Cell):
    def __init__(self):
        super().__init__()
        self.plain, self.around = _Doubled(), _Around()

    def construct(self, x):
        return self.around(x) + self.plain(x)


def test_a_call_of_the_users_class_runs_around_construct(mode):
    """Also inside of a network, and after its base class was called for speed."""
    x = Tensor([1.0])
    for _ in range(3):
        assert _Doubled()(x) == 2 and _Around()(x) == 9 and _Holds()(x) == 11
    net = _Holds()
    assert [float(net(x)) for _ in range(4)] == [11.0] * 4
