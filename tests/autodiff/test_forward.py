"""Forward mode and Jacobians: every op against reverse mode, both modes against each other.

<u, J v> = <J^T u, v> for all u and v; the right side is reverse mode, which tests/ops holds
against finite differences. Facts about MindSpore 2.10 (shapes of results, kinds of errors) are
recorded from runs of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.eager import backward
from cellc.tracing.pytree import take_apart
from cellc_compiler import driver
from cellc_compiler.autodiff import forward
from cellc_compiler.autodiff.forward import tangent_graph
from cellc_compiler.autodiff.reverse import gradient_graph
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.op import Op, all_ops
from cellc_compiler.ir.types import TensorType
from cellc_compiler.ir.verify import verify
from cellc_runtime import dtypes

from ..modes.law import MODES, arrays_of, assert_same, mode
from ..ops.gradients import graph_of, operands_of

Array = np.ndarray[Any, Any]
BOTH = pytest.mark.parametrize("m", MODES, ids=["eager", "graph"])


def differentiable_ops() -> list[Any]:
    return [pytest.param(op, id=op.name) for op in all_ops()
            if op.differentiable and any(s.grad for s in op.samples())
            and dtypes.float64 in op.dtypes]


@pytest.mark.parametrize("op", differentiable_ops())
def test_tangents_are_adjoint_to_gradients(op: Op) -> None:
    rng = np.random.default_rng(5)
    for sample in op.samples():
        if not sample.grad:
            continue
        arrays = operands_of(sample, dtypes.float64)
        graph = graph_of(op, arrays, sample.attrs)
        wanted = [i for i, a in enumerate(arrays) if a.dtype == np.float64]
        seeded = [i for i, v in enumerate(graph.outputs) if v.dtype is dtypes.float64]
        if not wanted or not seeded:
            continue
        vs = [np.asarray(rng.standard_normal(arrays[i].shape)) for i in wanted]
        us = [np.asarray(rng.standard_normal(graph.outputs[i].shape)) for i in seeded]
        tangents = tangent_graph(graph, wanted, seeded)
        verify(tangents)
        back = gradient_graph(graph, wanted, seeded=seeded, sens=True)
        n = len(graph.outputs)
        pushed = run(tangents, [*arrays, *vs], precise=True)[n:]
        pulled = run(back, [*arrays, *us], precise=True)[n:]
        left = sum(float((u * p).sum()) for u, p in zip(us, pushed, strict=True))
        right = sum(float((p * v).sum()) for p, v in zip(pulled, vs, strict=True))
        size = sum(float(np.abs(u * p).sum()) for u, p in zip(us, pushed, strict=True))
        assert abs(left - right) <= 1e-9 * (1 + size), (op.name, sample.attrs, left, right)


# --- programs in both modes ----------------------------------------------------------------------

PROGRAMS: dict[str, Callable[..., Any]] = {}


def program(fn: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS[fn.__name__] = fn
    return fn


@program
def products(x: Any, w: Any) -> Any:
    return ops.matmul(w, x) * ops.sin(x), x.sum() * w[0, 1]


@program
def normalised(x: Any, w: Any) -> Any:
    return ops.softmax(ops.matmul(w, x)) + ops.layer_norm(x, (3,), w[0], w[1])


@program
def branch(x: Any, w: Any) -> Any:
    if x.sum() > 0:
        y = ops.sin(x) * w[0]
    else:
        y = ops.exp(x) + w[1]
    return y * x


@program
def rows(x: Any, w: Any) -> Any:
    h = x
    for row in w:
        h = ops.tanh(h * 0.5 + row * x)
    return h


@program
def until(x: Any, w: Any) -> Any:
    n = Tensor(0, ms.int64)
    while n < 3:
        x = ops.tanh(ops.matmul(w, x)) + x * 0.5
        n = n + 1
    return x


class Cubed(nn.Cell):
    """x^3 with a gradient of its own."""

    def construct(self, x: Any) -> Any:
        return x * x * x

    def bprop(self, x: Any, out: Any, dout: Any) -> Any:
        return (3 * x * x * dout,)


CUBED = Cubed()


@program
def own_bprop(x: Any, w: Any) -> Any:
    return CUBED(x * w[0]) * x


def given() -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(3)
    return (Tensor(rng.standard_normal(3).astype(np.float32)),
            Tensor((rng.standard_normal((3, 3)) * 0.5).astype(np.float32)))


def transformations(fn: Callable[..., Any]) -> dict[str, Callable[[], Any]]:
    x, w = given()

    def pulled() -> Any:
        out, back = ms.vjp(fn, x, w)
        return out, back(*(t + 0.5 for t in take_apart(out)[1]))

    return {
        "jvp": lambda: ms.jvp(fn, (x, w), (x + 1, w * 0.5)),
        "vjp": pulled,
        "jacrev": lambda: ms.jacrev(fn, (0, 1))(x, w),
        "jacfwd": lambda: ms.jacfwd(fn, (0, 1))(x, w),
    }


@pytest.mark.parametrize("kind", ["jvp", "vjp", "jacrev", "jacfwd"])
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_modes_give_the_same_bits(name: str, kind: str) -> None:
    results = []
    for m in MODES:
        with mode(m):
            results.append(arrays_of(transformations(PROGRAMS[name])[kind]()))
    assert_same(*results, f"{kind} of {name}")


@BOTH
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_jacobians_agree(name: str, m: int) -> None:
    fn = PROGRAMS[name]
    x, w = given()
    with mode(m):
        back, fwd = (arrays_of(j(fn, (0, 1))(x, w)) for j in (ms.jacrev, ms.jacfwd))
        out = arrays_of(fn(x, w) if m == ms.PYNATIVE_MODE else ms.jit(fn)(x, w))
        moved = arrays_of(ms.jvp(fn, (x, w), (x + 1, w * 0.5)))
    assert len(back) == 2 * len(out)
    for a, b in zip(back, fwd, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)
    steps = (x.asnumpy() + 1, w.asnumpy() * 0.5)
    for i, o in enumerate(out):
        parts = [np.tensordot(back[2 * i + k], s, s.ndim) for k, s in enumerate(steps)]
        assert back[2 * i].shape == o.shape + (3,)
        np.testing.assert_allclose(moved[len(out) + i], sum(parts), rtol=1e-4, atol=1e-4)


@BOTH
@pytest.mark.parametrize("kind", ["jacrev", "jacfwd"])
def test_rows_side_by_side_have_the_bits_of_single_ones(
    kind: str, m: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All at once, in batches whose last one is filled up, and one after the other."""
    rng = np.random.default_rng(4)
    x, w, k = (Tensor(rng.standard_normal(s).astype(np.float32))
               for s in ((2, 1, 6, 6), (9, 5), (3, 1, 4, 4)))

    def fn(x: Any, w: Any) -> Any:
        h = ops.conv2d(x, k).reshape(2, -1)[:, :9]
        return ops.softmax(ops.matmul(ops.tanh(h), w)) + ops.cumsum(h, 1)[:, :5].max()

    found, many = [], []
    whole = forward._at_once
    for together in (16 << 20, 8000, 1):
        monkeypatch.setattr(forward, "_TOGETHER", together)
        monkeypatch.setattr(forward, "_at_once",
                            lambda body, n: many.append((whole(body, n), n)) or many[-1][0])
        with mode(m):
            # (a function of its own each time: nothing is compiled already)
            found.append(arrays_of(getattr(ms, kind)(lambda x, w: fn(x, w), (0, 1))(x, w)))
        backward._derived.clear()
    assert {a == n for a, n in many} == {True, False}
    assert {a for a, _ in many} >= {1} and any(n % a for a, n in many)
    for other in found[1:]:
        assert_same(found[0], other, kind)


def test_tangents_cost_a_second_forward_run() -> None:
    """What transposing twice computes for its own sake is dropped."""
    graph = Graph("mlp")
    b = Builder(graph)
    h = graph.add_input(TensorType((8, 16), dtypes.float32), "x")
    ws = [graph.add_input(TensorType((16, 16), dtypes.float32), f"w{i}") for i in range(4)]
    for w in ws:
        h = b.tanh(b.matmul(h, w))
    graph.outputs = [h]

    def products(g: Graph) -> int:
        return sum(n.op == "matmul" for n in driver.optimize(g).walk())

    assert products(tangent_graph(graph, [0], [0])) == 8
    assert products(tangent_graph(graph, [0, 1, 2, 3, 4], [0])) == 12


@BOTH
def test_outputs_that_depend_on_nothing(m: int) -> None:
    x, v = Tensor(np.array([1, 2], np.float32)), Tensor(np.array([3, 4], np.float32))

    def fn(x: Any) -> Any:
        return x * 2.0, ops.stop_gradient(x) * 3.0, v * 2.0

    with mode(m):
        for j in (ms.jacrev, ms.jacfwd):
            a, b, c = arrays_of(j(fn)(x))
            np.testing.assert_array_equal(a, np.eye(2) * 2)
            assert not b.any() and not c.any() and b.shape == c.shape == (2, 2)
        moved = arrays_of(ms.jvp(fn, x, v)[1])
    np.testing.assert_array_equal(moved, [[6, 8], [0, 0], [0, 0]])


def square(x: Any) -> Any:
    return x * x


def cubes(x: Any) -> Any:
    return (x * x * x).sum()


def two(x: Any, y: Any) -> Any:
    return x * x, x * y


def three(x: Any, y: Any) -> Any:
    return x * x * y, x, y


NESTED: dict[str, Callable[[Tensor], Any]] = {
    "hessian by jacrev of jacrev": lambda x: ms.jacrev(ms.jacrev(cubes))(x),
    "hessian by jacfwd of jacrev": lambda x: ms.jacfwd(ms.jacrev(cubes))(x),
    "hessian by jacrev of jacfwd": lambda x: ms.jacrev(ms.jacfwd(cubes))(x),
    "hessian by jacfwd of jacfwd": lambda x: ms.jacfwd(ms.jacfwd(cubes))(x),
    "hessian by jacrev of grad": lambda x: ms.jacrev(ms.grad(cubes))(x),
}


@BOTH
@pytest.mark.parametrize("name", list(NESTED))
def test_hessians(name: str, m: int) -> None:
    x = Tensor(np.array([1, 2, -3], np.float32))
    with mode(m):
        np.testing.assert_array_equal(NESTED[name](x).asnumpy(), np.diag(6 * x.asnumpy()))


@BOTH
def test_gradient_of_a_directional_derivative(m: int) -> None:
    x, v = Tensor(np.array([1, 2, -3], np.float32)), Tensor(np.array([1, 0.5, 2], np.float32))

    def slope(x: Any) -> Any:
        return ms.jvp(cubes, x, v)[1]

    def pulled(x: Any) -> Any:
        return ms.vjp(square, x)[1](v)[0].sum()

    def table(x: Any) -> Any:
        return (ms.jacrev(square)(x) * 0.5).sum()

    with mode(m):
        np.testing.assert_array_equal(ms.grad(slope)(x).asnumpy(), 6 * x.asnumpy() * v.asnumpy())
        np.testing.assert_array_equal(ms.grad(pulled)(x).asnumpy(), 2 * v.asnumpy())
        np.testing.assert_array_equal(ms.grad(table)(x).asnumpy(), np.ones(3, np.float32))


@BOTH
def test_within_a_compiled_function(m: int) -> None:
    @ms.jit
    def both(x: Any, v: Any) -> Any:
        out, moved = ms.jvp(square, x, v)
        _, back = ms.vjp(square, x)
        return out, moved, back(v)[0], ms.jacfwd(square)(x)

    x, v = Tensor(np.array([1, 2], np.float32)), Tensor(np.array([3, 4], np.float32))
    with mode(m):
        got = [t.asnumpy().tolist() for t in both(x, v)]
    assert got == [[1, 4], [6, 16], [6, 16], [[2, 0], [0, 4]]]


# --- recorded facts of MindSpore 2.10 ------------------------------------------------------------


def shape_of(value: Any) -> Any:
    return tuple(map(shape_of, value)) if isinstance(value, tuple) else value.shape


@BOTH
def test_structures(m: int) -> None:
    x, y = Tensor(np.array([1, 2], np.float32)), Tensor(np.array([3, 4, 5], np.float32)[:2])
    a = (2,)
    jac = (2, 2)

    def pair(x: Any, y: Any) -> Any:
        return x * y, y

    with mode(m):
        assert shape_of(ms.jvp(two, (x, y), [x, y])) == ((a, a), (a, a))
        assert shape_of(ms.jvp(three, (x, y), (x, y), has_aux=True)) == (a, a, (a, a))
        assert shape_of(ms.jvp(pair, (x, y), (x, y), has_aux=True)) == (a, a, a)
        out, back, aux = ms.vjp(three, x, y, has_aux=True)
        assert (shape_of(out), shape_of(aux), shape_of(back(x))) == (a, (a, a), (a, a))
        out, back = ms.vjp(two, x, y)
        assert shape_of(back(x, y)) == shape_of(back((x, y))) == (a, a)
        for j in (ms.jacrev, ms.jacfwd):
            assert shape_of(j(two)(x, y)) == (jac, jac)
            assert shape_of(j(two, (0, 1))(x, y)) == ((jac, jac), (jac, jac))
            assert shape_of(j(two, (0,))(x, y)) == (jac, jac)
            assert shape_of(j(three, has_aux=True)(x, y)) == (jac, (a, a))
            assert shape_of(j(pair, (0, 1), True)(x, y)) == ((jac, jac), a)
            assert shape_of(j(cubes)(x)) == a
            assert shape_of(j(square)(Tensor(3.0))) == ()
            assert shape_of(j(square)(Tensor(np.ones((0,), np.float32)))) == (0, 0)


@BOTH
def test_weights_of_vjp(m: int) -> None:
    class Scale(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = ms.Parameter(np.array([2, 3], np.float32), name="w")

        def construct(self, x: Any) -> Any:
            return x * self.w

    net, x = Scale(), Tensor(np.array([1, 2], np.float32))
    with mode(m):
        _, back = ms.vjp(net, x, weights=net.trainable_params())
        inputs, weights = back(x)
        assert shape_of((inputs, weights)) == (((2,),), ((2,),))
        assert weights[0].asnumpy().tolist() == [1, 4]
        assert shape_of(ms.vjp(net, x, weights=net.w)[1](x)) == (((2,),), (2,))


@BOTH
def test_errors(m: int) -> None:
    x, i = Tensor(np.array([1, 2], np.float32)), Tensor(np.array([1, 2], np.int32))
    long = Tensor(np.ones(3, np.float32))
    cases: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (ValueError, "as many tensors", lambda: ms.jvp(two, (x, x), (x,))),
        (ValueError, r"\(2,\), but has \(3,\)", lambda: ms.jvp(square, x, long)),
        (TypeError, "dtype of the input", lambda: ms.jvp(square, x, i)),
        (TypeError, "must be a Tensor", lambda: ms.jvp(square, x, 1.0)),
        (TypeError, "tensors of numbers", lambda: ms.jvp(square, x > 1, x > 1)),
        (ValueError, "more than one output", lambda: ms.jvp(square, x, x, has_aux=True)),
        (TypeError, "must be a Cell or a function", lambda: ms.vjp(3, x)),
        (TypeError, "must be a Tensor", lambda: ms.vjp(two, x, 2.0)),
        (ValueError, r"\(2,\), but has \(3,\)", lambda: ms.vjp(square, x)[1](long)),
        (ValueError, "for each output: 2, but got 1", lambda: ms.vjp(two, x, x)[1](x)),
        (TypeError, "must be a Tensor", lambda: ms.vjp(square, x)[1](1.0)),
        (ValueError, "must be >= 0", lambda: ms.jacrev(two, -1)),
        (ValueError, "less than the number of arguments", lambda: ms.jacfwd(two, 2)(x, x)),
        (TypeError, "int or a tuple of int", lambda: ms.jacrev(two, None)),
        (TypeError, "int or a tuple of int", lambda: ms.jacrev(two, (0, 0.5))),
        (TypeError, "must be bool", lambda: ms.jacfwd(two, 0, 1)),
        (TypeError, "floating-point", lambda: ms.jacrev(square)(i)),
        (TypeError, "Tensor or a tuple of Tensors", lambda: ms.jacrev(lambda x: {"a": x})(x)),
    ]
    with mode(m):
        for kind, message, call in cases:
            with pytest.raises(kind, match=message):
                call()
