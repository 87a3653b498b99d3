"""The forms of `grad`, `value_and_grad`, `get_grad` and `GradOperation`, in both modes.

Structures of results and kinds of errors are those of MindSpore 2.10 where it has one for both
modes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops

from ..modes.law import MODES, mode

BOTH = pytest.mark.parametrize("m", MODES, ids=["eager", "graph"])
X, Y = Tensor(np.array([1, 2], np.float32)), Tensor(np.array([3, 4], np.float32))
INTS = Tensor(np.array([1, 2], np.int32))


def plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(plain(v) for v in value)
    return value.asnumpy().tolist() if isinstance(value, Tensor) else value


def product(x: Any, y: Any) -> Any:
    return x * x * y


def two(x: Any, y: Any) -> Any:
    return x * x, x * y


def aux_one(x: Any, y: Any) -> Any:
    return x * x * y, x


def aux_two(x: Any, y: Any) -> Any:
    return x * x * y, x, y


def stopped(x: Any, y: Any) -> Any:
    return ops.stop_gradient(x) * y


def named(a: Any, *, b: Any, c: Any) -> Any:
    return a * b + c * 3


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.w = ms.Parameter(np.array([2, 3], np.float32), name="w")
        self.b = ms.Parameter(np.array([1, 1], np.float32), name="b")

    def construct(self, x: Any, y: Any) -> Any:
        return x * self.w * y + self.b


NET = Net()
ALL = NET.trainable_params()
DX, DY = [6, 16], [1, 4]
X_ = [1, 2]
NX, NY, NW, NB = [6, 12], [2, 6], [3, 8], [1, 1]
IDS = ms.grad(NET, (0, 1), ALL, False, True)

FACTS: dict[str, tuple[Callable[[], Any], Any]] = {
    "one": (lambda: ms.grad(product)(X, Y), DX),
    "tuple of one": (lambda: ms.grad(product, (0,))(X, Y), DX),
    "two": (lambda: ms.grad(product, (0, 1))(X, Y), (DX, DY)),
    "order": (lambda: ms.grad(product, (1, 0))(X, Y), (DY, DX)),
    "a number has none": (lambda: ms.grad(product, (0, 1))(X, 2.0), [4, 8]),
    "aux": (lambda: ms.grad(aux_one, 0, None, True)(X, Y), (DX, ([1, 2],))),
    "more aux": (lambda: ms.grad(aux_two, (0, 1), None, True)(X, Y),
                 ((DX, DY), ([1, 2], [3, 4]))),
    "weights": (lambda: ms.grad(NET, None, ALL)(X, Y), (NW, NB)),
    "one weight": (lambda: ms.grad(NET, None, NET.w)(X, Y), NW),
    "both": (lambda: ms.grad(NET, 0, ALL)(X, Y), (NX, (NW, NB))),
    "ids": (lambda: IDS(X, Y), (((0, NX), (1, NY)), (("w", NW), ("b", NB)))),
    "one id": (lambda: ms.grad(NET, 0, None, False, True)(X, Y), (0, NX)),
    "one weight's id": (lambda: ms.grad(NET, None, NET.w, False, True)(X, Y), ("w", NW)),
    "get_grad": (lambda: ms.get_grad(IDS(X, Y), 1), NY),
    "get_grad of a weight": (lambda: ms.get_grad(IDS(X, Y), NET.b), NB),
    "value": (lambda: ms.value_and_grad(NET, 0, ALL)(X, Y), ([7, 25], (NX, (NW, NB)))),
    "value with aux": (lambda: ms.value_and_grad(aux_two, 0, None, True)(X, Y),
                       (([3, 16], [1, 2], [3, 4]), DX)),
    "sens": (lambda: ms.grad(product, (0, 1), sens_param=True)(X, Y, Y), ([18, 64], [3, 16])),
    "sens by name": (lambda: ms.grad(product, (0, 1), sens_param=True)(X, Y, sens=Y),
                     ([18, 64], [3, 16])),
    "sens of two": (lambda: ms.grad(two, (0, 1), sens_param=True)(X, Y, (X, Y)),
                    ([11, 24], [3, 8])),
    "stop_gradient": (lambda: ms.grad(stopped, (0, 1))(X, Y), ([0, 0], [1, 2])),
    "operation": (lambda: ops.GradOperation()(product)(X, Y), DX),
    "operation, all": (lambda: ops.GradOperation(get_all=True)(product)(X, Y), (DX, DY)),
    "operation, list": (lambda: ops.GradOperation(get_by_list=True)(NET, ALL)(X, Y), (NW, NB)),
    "operation, own weights": (lambda: ops.GradOperation(get_by_list=True)(NET)(X, Y), (NW, NB)),
    "operation, both": (
        lambda: ops.GradOperation(get_all=True, get_by_list=True)(NET, ALL)(X, Y),
        ((NX, NY), (NW, NB))),
    "operation, sens": (
        lambda: ops.GradOperation(get_all=True, sens_param=True)(product)(X, Y, Y),
        ([18, 64], [3, 16])),
    "by name": (lambda: ms.grad(product)(y=Y, x=X), DY),
    "by name, behind the others": (lambda: ms.grad(named, (0, 1))(X, c=Y, b=X), (X_, [3, 3])),
    "operation, all by name": (
        lambda: ops.GradOperation(get_all=True)(named)(X, c=Y, b=X), (X_, [3, 3], X_)),
    "operation, sens by name": (
        lambda: ops.GradOperation(sens_param=True)(product)(X, Y, sens=Y), [18, 64]),
}


@BOTH
@pytest.mark.parametrize("name", list(FACTS))
def test_structures(name: str, m: int) -> None:
    call, want = FACTS[name]
    with mode(m):
        assert plain(call()) == want


class Own(nn.Cell):
    """x * y with a gradient of its own."""

    def __init__(self, rule: Callable[[Any], Any]) -> None:
        super().__init__()
        self.rule = rule

    def construct(self, x: Any, y: Any) -> Any:
        return x * y

    def bprop(self, x: Any, y: Any, out: Any, dout: Any) -> Any:
        return self.rule(dout)


class OwnPair(nn.Cell):
    """Of a tuple and a tensor, with a gradient of its own."""

    def construct(self, t: Any, y: Any) -> Any:
        return t[0] * t[1] * y

    def bprop(self, t: Any, y: Any, out: Any, dout: Any) -> Any:
        return (dout, dout * 2), dout * 3


@BOTH
def test_bprop(m: int) -> None:
    pair = OwnPair()

    def of_pair(x: Any, y: Any, z: Any) -> Any:
        return pair((x, y), z)

    with mode(m):
        assert plain(ms.grad(Own(lambda d: (d * 2, None)), (0, 1))(X, Y)) == ([2, 2], [0, 0])
        assert plain(ms.grad(of_pair, (0, 1, 2))(X, Y, Y)) == ([1, 1], [2, 2], [3, 3])
        for kind, message, rule in (
            (TypeError, "must give 2 gradients, .* got 1", lambda d: (d,)),
            (TypeError, "must give 2 gradients, .* got 3", lambda d: (d, d, d)),
            (ValueError, r"input 0 .* shape of the input, \(2,\), but has \(\)",
             lambda d: (d.sum(), d)),
            (TypeError, "input 1 .* must be a Tensor, but is 3.0", lambda d: (d, 3.0)),
        ):
            with pytest.raises(kind, match=message):
                ms.grad(Own(rule), (0, 1))(X, Y)


@BOTH
def test_the_gradients_of_a_bprop_take_the_type_of_the_inputs(m: int) -> None:
    """As MindSpore's do in PyNative mode: summed where the input is broadcast, and converted;
    integers have some, too, but truths none."""
    rule = Own(lambda d: (d.astype(ms.int32) * 2, ops.stack([d, d * 3, d])))
    with mode(m):
        first, second = ms.grad(rule, (0, 1))(X, Y)
        assert first.dtype == second.dtype == ms.float32
        assert plain((first, second)) == ([2, 2], [5, 5])
        column = ms.grad(rule, 1)(X, Tensor([[1.0], [2.0], [3.0]]))
        assert plain(column) == [[10], [10], [10]]
        first, second = ms.grad(Own(lambda d: (d * 2, d * 3)), (0, 1))(INTS, Y)
        assert first.dtype == ms.int32 and plain((first, second)) == ([2, 2], [3, 3])
        assert plain(ms.grad(Own(lambda d: (d, d * 3)), (0, 1))(X > 1, Y)) == (
            [False, False], [3, 3])


@BOTH
def test_arguments_that_are_no_tensors(m: int) -> None:
    with mode(m):
        assert ms.grad(product, 1)(X, 2.0) == ms.grad(product)(2.0, 3) == ()
        assert ms.grad(product, (0, 1))(1, 2) == ()
        assert ops.GradOperation(get_all=True)(product)(1, 2) == ()
        assert ms.value_and_grad(product)(2, 3) == (12, ())
        inputs, weights = ms.grad(lambda k: NET.w * k, 0, NET.w)(3)
        assert inputs == () and plain(weights) == [3, 3]
        for fn in (ms.grad(lambda: ops.ones(2)), ops.GradOperation()(lambda: ops.ones(2))):
            assert fn() == ()


@BOTH
def test_outputs_that_no_argument_changes(m: int) -> None:
    """Python's own numbers, and no output at all, have gradients of zero."""
    functions: list[Callable[[Any], Any]] = [
        lambda x: 3, lambda x: None, lambda x: (int(x.sum()), 2.0)]
    with mode(m):
        for fn in functions:
            assert plain(ms.grad(fn)(X)) == [0, 0]
            value, gradient = ms.value_and_grad(fn)(X)
            assert value == fn(X)
            assert plain(gradient) == [0, 0]
        with pytest.raises(ValueError, match="0 outputs need as many"):
            ms.grad(lambda x: 3, sens_param=True)(X, X)


@BOTH
def test_weights_of_a_function(m: int) -> None:
    """A function that is given no weights has none."""
    with mode(m):
        everything = ops.GradOperation(get_all=True, get_by_list=True)(product)
        assert plain(everything(X, Y)) == (plain(ms.grad(product, (0, 1))(X, Y)), ())
        assert ops.GradOperation(get_by_list=True)(product)(X, Y) == ()


@BOTH
def test_a_function_compiled_by_itself(m: int) -> None:
    """Where its caller is differentiated, so is it; and by itself."""
    own = ms.jit(product)
    with mode(m):
        for fn in (own, lambda x, y: own(x, y) + 1, lambda x, y: own(x + 0, y)):
            assert plain(ms.grad(fn, (0, 1))(X, Y)) == plain(ms.grad(product, (0, 1))(X, Y))


@BOTH
def test_errors(m: int) -> None:
    long = Tensor(np.ones(3, np.float32))
    with_sens = ms.grad(product, (0, 1), sens_param=True)
    cases: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (ValueError, "more than one output", lambda: ms.grad(product, 0, None, True)(X, Y)),
        (ValueError, r"shape of the output, \(2,\), but has \(3,\)", lambda: with_sens(X, Y, long)),
        (TypeError, "dtype of the output, Float32, but has Int32", lambda: with_sens(X, Y, INTS)),
        (ValueError, "2 outputs need as many", lambda: ms.grad(two, 0, sens_param=True)(X, Y, X)),
        (TypeError, "takes a sensitivity", lambda: ms.grad(product, sens_param=True)(X)),
        (ValueError, "can not be None at the same time", lambda: ms.grad(product, None)),
        (IndexError, "grad_position 2 is out of range", lambda: ms.grad(product, 2)(X, Y)),
        (ValueError, "must be >= 0", lambda: ms.grad(product, -1)),
        (ValueError, "a position twice", lambda: ms.grad(product, (0, 0))),
        (TypeError, "or a tuple of them", lambda: ms.grad(product, "a")),
        (TypeError, "or a tuple of them", lambda: ms.grad(product, [0])),
        (TypeError, "must be a Parameter", lambda: ms.grad(NET, None, [X])),
        (TypeError, "must be a Cell or a function", lambda: ms.grad(3)),
        (TypeError, "'has_aux' must be bool", lambda: ms.grad(product, 0, None, 1)),
        (TypeError, "'return_ids' must be bool", lambda: ms.grad(product, 0, None, False, 1)),
        (TypeError, "'get_all' must be a bool, but got 2", lambda: ops.GradOperation(2)),
        (TypeError, "'get_by_list' must be a bool, but got 'a'",
         lambda: ops.GradOperation(get_by_list="a")),
        (TypeError, "'sens_param' must be a bool, but got None",
         lambda: ops.GradOperation(sens_param=None)),
        (TypeError, "the first argument must be a 'Function' or 'Cell', but got NoneType",
         lambda: ops.GradOperation()(None)),
        (TypeError, "requires a forward network or function", lambda: ops.GradOperation()()),
        (TypeError, "only an output of numbers", lambda: ms.grad(lambda x: x > 2)(X)),
        (RuntimeError, "position or Parameter 5", lambda: ms.get_grad(IDS(X, Y), 5)),
        (TypeError, "an int or a Parameter, but got 'w'", lambda: ms.get_grad(IDS(X, Y), "w")),
    ]
    with mode(m):
        for kind, message, call in cases:
            with pytest.raises(kind, match=message):
                call()
