"""A `bprop` that needs Python: Python runs it whole, as in PyNative, or an error says its line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.lang import CompileError

INPUTS = [Tensor(np.float32([1, -2, 3.5]) + i) for i in range(3)] + \
    [Tensor(np.float32([-1, 2, -3.5])), Tensor(np.float32([[1, 2], [3, 4]]))]


class Square(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.log: list[float] = []
        self.count = 0

    def construct(self, x: Tensor) -> Tensor:
        self.count += 1
        return x * x


class Element(Square):
    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor, ...]:
        return (dout * float(x.asnumpy().sum()),)


class Array(Square):
    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor, ...]:
        return (Tensor(dout.asnumpy() * np.maximum(x.asnumpy(), 0) * 2),)


class Branch(Square):
    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor, ...]:
        if x.asnumpy().sum() > 0:
            return (dout * 3,)
        return (dout * x.sum().item(),)


class Logged(Square):
    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor, ...]:
        self.log.append(float(dout.asnumpy().max()) * self.count)
        return (dout * 2 * x * len(self.log),)


class Raising(Square):
    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor, ...]:
        if x.asnumpy().max() > 5:
            raise KeyError("too large")
        return (dout,)


def both_modes(make: Any, call: Any) -> list[Any]:
    """What calls give and leave, in PyNative and in graph mode."""
    found = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        cell, results = make(), []
        for x in INPUTS:
            try:
                results.append([t.asnumpy().tolist() for t in ops.stack([call(cell, x)])])
            except KeyError as e:
                results.append([str(e)])
        found.append((results, [(c.log, c.count) for _, c in cell.cells_and_names()
                                if isinstance(c, Square)]))
    return found


@pytest.mark.parametrize("kind", [Element, Array, Branch, Logged, Raising])
@pytest.mark.parametrize("call", [
    lambda cell, x: ms.grad(cell)(x),
    lambda cell, x: ms.grad(lambda y: cell(y * 2).sum())(x),
    lambda cell, x: ms.value_and_grad(nn.SequentialCell(nn.ReLU(), cell))(x)[1],
    lambda cell, x: ms.ops.GradOperation(sens_param=True)(cell)(x, x + 1),
    lambda cell, x: cell(x),
], ids=["cell", "function", "inside", "sens", "forward"])
def test_python_runs_a_bprop(kind: Any, call: Any) -> None:
    eager, graph = both_modes(kind, call)
    assert graph == eager


class Uncounted(Array):
    """It changes no object, which the gradient of a loop could not do again."""

    def construct(self, x: Tensor) -> Tensor:
        return x * x


class Loop(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Uncounted()

    def construct(self, x: Tensor) -> Tensor:
        i = Tensor(0)
        while i < 2:
            x = self.inner(x) * 0.5
            i = i + 1
        if x.sum() > 40:
            return self.inner(x).sum()
        return x.sum()


def test_in_loops_and_branches_that_a_call_may_not_reach() -> None:
    eager, graph = both_modes(Loop, lambda cell, x: ms.grad(cell)(x))
    assert graph == eager


class Branches(nn.Cell):
    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner()

    def construct(self, x: Tensor) -> Tensor:
        for _ in range(2):
            if x.sum() > 4:
                x = self.inner(x)
            else:
                x = x * 3
        return x.sum() * self.inner.count


class Exact(Square):
    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor, ...]:
        return (dout * 2 * x,)


@pytest.mark.parametrize("inner", [Exact, Array])
def test_attributes_that_a_cell_with_a_bprop_sets_in_a_branch(inner: Any) -> None:
    for call in (lambda cell, x: cell(x), lambda cell, x: ms.grad(cell)(x)):
        eager, graph = both_modes(lambda: Branches(inner), call)
        assert graph == eager


def test_a_training_step() -> None:
    found = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        ms.set_seed(3)
        net = nn.SequentialCell(nn.Dense(3, 3, weight_init="ones"), Array())
        step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()),
                                   nn.SGD(net.trainable_params(), 0.01))
        losses = [step(x.reshape(1, 3), x.reshape(1, 3)).asnumpy() for x in INPUTS[:3]]
        found.append((losses, [p.asnumpy().tolist() for p in net.get_parameters()]))
    assert found[0] == found[1]


class Assigned(nn.Cell):
    """Python would read the Parameter without what the program assigns."""

    def __init__(self) -> None:
        super().__init__()
        self.w = ms.Parameter(np.float32([1, 2, 3]), name="w")

    def construct(self, x: Tensor) -> Tensor:
        self.w += 1
        return x * self.w

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor, ...]:
        return (dout * self.w * float(x.asnumpy()[0]),)


class AssignedOutside(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Assigned()
        self.inner.construct = lambda x: x * 2

    def construct(self, x: Tensor) -> Tensor:
        y = self.inner(x)
        self.inner.w += 1
        return y


class Counted(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def construct(self, x: Tensor) -> Tensor:
        return x * x

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor, ...]:
        self.n += 1
        return (dout * float(x.asnumpy().sum()),)


class ReadsAfterwards(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Counted()

    def construct(self, x: Tensor) -> Tensor:
        return ms.grad(self.inner)(x) * self.inner.n


@pytest.mark.parametrize(("make", "call"), [
    (Assigned, lambda cell, x: ms.grad(cell)(x)),
    (AssignedOutside, lambda cell, x: ms.grad(cell)(x)),
    (ReadsAfterwards, lambda cell, x: cell(x)),
])
def test_what_python_would_not_find_is_an_error_at_the_line(make: Any, call: Any) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    cell = make()
    for _ in range(2):
        with pytest.raises(CompileError, match=r"CE310\]\n.*, in (Assigned|Counted)\.bprop"
                           r"[\s\S]*x\.asnumpy\(\)[\s\S]*hint: use ops in the bprop"):
            call(cell, INPUTS[0])


def test_strict_names_the_line() -> None:
    ms.set_context(mode=ms.GRAPH_MODE, jit_syntax_level=ms.STRICT)
    with pytest.raises(CompileError, match=r"CE309\]\n.*, in Element\.bprop"):
        ms.grad(Element())(INPUTS[0])
