"""`_Function`: gradients given by the user, first and second order, in both modes.

Values and kinds of errors are those of MindSpore 2.10 in PyNative mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, ops
from cellc.common import _Function

from ..modes.law import MODES, arrays_of, assert_same, mode

BOTH = pytest.mark.parametrize("m", MODES, ids=["eager", "graph"])


class Product(_Function):
    """a * b, the gradient of a doubled."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(a, b)
        ctx.factor = 2.0
        return a * b

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        return g * b * ctx.factor, g * a


class Scaled(_Function):
    """exp(a) * n: keeps the result and a value of its own."""

    @staticmethod
    def forward(ctx: Any, a: Any, n: Any) -> Any:
        inner = ops.exp(a)
        out = inner * n
        ctx.save_for_backward(inner, out)
        return out, n

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        assert h is None
        inner, out = ctx.saved_tensors
        return g * (inner + out), None


class Separate(_Function):
    """A forward without ctx."""

    @staticmethod
    def forward(a: Any) -> Any:
        return a * a

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2 * ctx.saved_tensors[0]


class HalfConstant(_Function):
    """Two outputs, one of which is a constant for gradients."""

    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        second = a * 3
        ctx.mark_non_differentiable(second)
        return a * 2, second

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        return g * 10 + h


class Short(Product):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


class Long(Product):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g, g, g


class Shape(Separate):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g.sum()


class Forgotten(_Function):
    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        return a * 2


def product(a: Any, b: Any) -> Any:
    return Product.apply(a, b)


def slope(a: Any, b: Any) -> Any:
    return ms.grad(product)(a, b).sum()


def scaled(a: Any) -> Any:
    return Scaled.apply(a, 3.0)[0]


def separate(a: Any) -> Any:
    return Separate.apply(a)


def half(a: Any) -> Any:
    x, y = HalfConstant.apply(a)
    return x + y


def in_branch(a: Any) -> Any:
    if a.sum() > 0:
        return Separate.apply(a) * a
    return a


X, Y = Tensor(np.array([1, 2], np.float32)), Tensor(np.array([3, 4], np.float32))
E2 = np.exp(np.array([1, 2], np.float32)) * 4

CASES: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    "first": (lambda: ms.grad(product, (0, 1))(X, Y), [[6, 8], [1, 2]]),
    "second": (lambda: ms.grad(slope, (0, 1))(X, Y), [[0, 0], [2, 2]]),
    "own values": (lambda: ms.grad(scaled)(X), [E2.tolist()]),
    "setup_context": (lambda: ms.grad(separate)(X), [[2, 4]]),
    "non-differentiable": (lambda: ms.grad(half)(X), [[10, 10]]),
    "in a branch": (lambda: ms.grad(in_branch)(X), [[3, 12]]),
    "jvp": (lambda: ms.jvp(product, (X, Y), (X, Y)), [[3, 8], [9, 24]]),
    "jacobian": (lambda: ms.jacrev(separate)(X), [[[2, 0], [0, 4]]]),
}


@pytest.mark.parametrize("name", list(CASES))
def test_values(name: str) -> None:
    call, want = CASES[name]
    results = []
    for m in MODES:
        with mode(m):
            results.append(arrays_of(call()))
        for got, w in zip(results[-1], want, strict=True):
            np.testing.assert_allclose(got, w, rtol=1e-6)
    assert_same(*results, name)


@BOTH
def test_errors(m: int) -> None:
    cases: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (RuntimeError, "must give 2 gradients, one for each argument of forward, but gave 1",
         lambda: ms.grad(lambda a, b: Short.apply(a, b))(X, Y)),
        (RuntimeError, "must give 2 gradients, .* but gave 3",
         lambda: ms.grad(lambda a, b: Long.apply(a, b))(X, Y)),
        (RuntimeError, r"must have its shape, \(2,\), but has \(\)",
         lambda: ms.grad(lambda a: Shape.apply(a))(X)),
        (NotImplementedError, "backward function should be customized",
         lambda: ms.grad(lambda a: Forgotten.apply(a))(X)),
        (TypeError, "save_for_backward takes Tensors",
         lambda: ms.grad(lambda a: Numbers.apply(a))(X)),
    ]
    with mode(m):
        for kind, message, call in cases:
            with pytest.raises(kind, match=message):
                call()


class Numbers(_Function):
    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        ctx.save_for_backward(a, 3)
        return a

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


def test_needs_input_grad() -> None:
    seen: list[tuple[bool, ...]] = []

    class Looks(_Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any, n: Any) -> Any:
            seen.append(ctx.needs_input_grad)
            return a * b * n

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, g, None

    with mode(ms.PYNATIVE_MODE):
        ms.grad(lambda a, b: Looks.apply(a, b, 3))(X, Y)
        ms.grad(lambda a, b: Looks.apply(a, b, 3), (0, 1))(X, Y)
        Looks.apply(X, Y, 3)
    assert seen == [(True, False, False), (True, True, False), (False, False, False)]


def test_import_paths() -> None:
    assert ms._Function is _Function is ms.common._grad_function._Function
