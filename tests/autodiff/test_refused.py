"""What cannot be differentiated says so alike in both modes; what looks so but can be, is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops

MODES = [ms.PYNATIVE_MODE, ms.GRAPH_MODE]
X = Tensor([1.0, 2.0])


class OneOfTwo(nn.Cell):
    """Gives too few gradients."""

    def construct(self, x: Tensor, y: Tensor) -> Tensor:
        return x * y

    def bprop(self, x: Tensor, y: Tensor, out: Tensor, dout: Tensor) -> Any:
        return dout


NUMBERS = "only an output of numbers can be differentiated, got "
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "truth": (lambda: ms.grad(lambda x: x > 0)(X), TypeError, NUMBERS + "bool[2]"),
    "a position too many": (
        lambda: ms.grad(lambda x: x * 2, 1)(X), IndexError,
        "grad_position 1 is out of range: the function was called with 1 argument"),
    "no function": (lambda: ms.grad(3), TypeError,
                    "'fn' must be a Cell or a function, but got int"),
    "with respect to nothing": (lambda: ms.grad(lambda x: x, None)(X), ValueError,
                                "`grad_position` and `weights` can not be None at the same time"),
    "no Parameter": (lambda: ms.grad(lambda x: x * 2, None, [3])(X), TypeError,
                     "'weights' must be a Parameter, or a tuple or list of Parameters"),
    "too few gradients of a bprop": (
        lambda: ms.grad(OneOfTwo(), (0, 1))(X, X), TypeError,
        "the bprop of OneOfTwo must give 2 gradients, one for each input of construct, got 1"),
    "a sensitivity of another shape": (
        lambda: ms.grad(lambda x: x * 2, sens_param=True)(X, Tensor([1.0])), ValueError,
        "sensitivity 0 must have the shape of the output, (2,), but has (1,)"),
    "no sensitivity": (
        lambda: ms.grad(lambda x: x * 2, sens_param=True)(X), TypeError,
        "the gradient function takes a sensitivity as its last argument, but got none"),
    "one output with has_aux": (
        lambda: ms.grad(lambda x: x * 2, has_aux=True)(X), ValueError,
        "with has_aux the function must give more than one output: (output, *auxiliary)"),
    "jvp at truth": (
        lambda: ms.jvp(lambda x: x * 2, X > 1, X > 1), TypeError,
        "For 'jvp', the inputs must be tensors of numbers, but got bool[2]"),
    "jacrev of truth": (
        lambda: ms.jacrev(lambda x: x > 0)(X), TypeError,
        "For 'jacrev', only a floating-point output can be differentiated, but got bool[2]"),
    "vjp of a dict": (lambda: ms.vjp(lambda x: {"a": x}, X), TypeError,
                      "For 'vjp', 'fn' must give a Tensor or a tuple of Tensors"),
    "vmap over nothing": (
        lambda: ms.vmap(lambda x: x, None)(X), RuntimeError,
        "'in_axes' cannot be all None while 'fn' is not a CellList, but got None"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", list(REFUSED))
def test_refused(name: str, mode: int) -> None:
    call, kind, text = REFUSED[name]
    ms.set_context(mode=mode)
    with pytest.raises(kind, match=re.escape(text)):
        call()


def _distinct(x: Tensor) -> Tensor:
    return (ops.unique(x)[0] * 3).sum() + (ops.unique(x)[0] * ops.unique(x)[0]).sum()


def _runs(x: Tensor) -> Tensor:
    return (ops.unique_consecutive(x, True, True)[0] * 2).sum()


def _chosen(x: Tensor) -> Tensor:
    return (x[x > 1] * 2).sum() + ops.masked_select(x, x > 2).sum()


def _placed(x: Tensor) -> Tensor:
    return (x[ops.nonzero(x - 1)] * x[0]).sum()


GATHERED = {
    _distinct: [9.0, 5.0, 0.0, 7.0, 0.0],
    _runs: [2.0, 2.0, 2.0, 2.0, 2.0],
    _chosen: [3.0, 0.0, 3.0, 2.0, 0.0],
    _placed: [11.0, 0.0, 3.0, 3.0, 0.0],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fn", GATHERED)
def test_what_elements_decide_still_has_a_gradient(fn: Callable[[Tensor], Tensor], mode: int) -> (
    None
):
    ms.set_context(mode=mode)
    found = ms.grad(fn)(Tensor(np.array([3.0, 1.0, 3.0, 2.0, 1.0], np.float32)))
    assert found.asnumpy().tolist() == GATHERED[fn]
