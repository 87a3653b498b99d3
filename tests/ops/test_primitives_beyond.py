"""Primitives of optimizer steps, windows, images and matrices: values, both modes, bad input."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn, ops

W = np.array([[0.6, 0.4], [0.1, 0.5]], np.float32)
A = np.array([[0.6, 0.5], [0.2, 0.6]], np.float32)
G = np.array([[0.3, 0.7], [0.1, 0.8]], np.float32)
# What MindSpore 2.10 gives for the values above.
STEPS: list[tuple[str, dict[str, Any], list[Any], list[list[float]]]] = [
    ("ApplyGradientDescent", {}, [0.001, G], [[0.5997, 0.3993], [0.0999, 0.4992]]),
    ("ApplyMomentum", {}, [A, 0.001, G, 0.9], [[0.59916, 0.39885], [0.09972, 0.49866]]),
    ("ApplyAdagrad", {}, [A, 0.001, G], [[0.5996389, 0.3992965], [0.0997818, 0.4992816]]),
    ("ApplyAddSign", {}, [A, 0.001, 1.0, 0.99, 0.9, G],
     [[0.599403, 0.398607], [0.099801, 0.498408]]),
    ("ApplyPowerSign", {}, [A, 0.001, np.e, 0.99, 0.9, G],
     [[0.5955757, 0.3896765], [0.0985252, 0.4882017]]),
    ("ApplyProximalAdagrad", {}, [A, 0.01, 0.0, 0.0, G],
     [[0.5963885, 0.3929648], [0.0978178, 0.4928158]]),
    ("ApplyFtrl", {"use_locking": False}, [A, np.zeros((2, 2)), G, 0.001, 0.0, 0.0, -0.5],
     [[0.0401360, 0.1150289], [0.0021918, 0.1514774]]),
    ("ApplyAdaMax", {}, [A * 0, A * 0, 0.9, 0.001, 0.9, 0.99, 1e-10, G],
     [[0.599, 0.399], [0.099, 0.499]]),
    ("Adam", {}, [A * 0, A * 0, 0.9, 0.999, 0.001, 0.9, 0.999, 1e-8, G],
     [[0.599, 0.399], [0.099, 0.499]]),
    ("AdamWeightDecay", {}, [A * 0, A * 0, 0.001, 0.9, 0.999, 1e-8, 0.5, G],
     [[0.5965377, 0.3966377], [0.0967878, 0.4965877]]),
    ("SGD", {}, [G, 0.01, A, 0.1, A * 0 + 1], [[0.597, 0.393], [0.099, 0.492]]),
    ("ApplyRMSProp", {}, [A, A * 0, 0.01, G, 0.9, 0.0, 1e-10],
     [[0.5959511, 0.3900906], [0.0976495, 0.4897063]]),
]


class Step(nn.Cell):
    """One step of an optimizer on a parameter, with its state in others."""

    def __init__(self, name: str, options: dict[str, Any], rest: list[Any]) -> None:
        super().__init__()
        self.step = getattr(ops, name)(**options)
        self.w = Parameter(Tensor(W), name="w")
        self.rest = [Parameter(Tensor(np.asarray(r, np.float32)), name=f"p{i}")
                     if isinstance(r, np.ndarray) else r for i, r in enumerate(rest)]
        self.kept = ms.ParameterTuple([p for p in self.rest if isinstance(p, Parameter)])

    def construct(self) -> Any:
        return self.step(self.w, *self.rest)


@pytest.mark.parametrize(("name", "options", "rest", "wanted"), STEPS, ids=[s[0] for s in STEPS])
def test_steps(name: str, options: dict[str, Any], rest: list[Any], wanted: Any) -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    eager, graph = Step(name, options, rest), Step(name, options, rest)
    eager()
    np.testing.assert_allclose(eager.w.asnumpy(), wanted, rtol=2e-6, atol=1e-7)
    ms.jit(graph)()
    for a, b in zip((eager.w, *eager.kept), (graph.w, *graph.kept), strict=True):
        assert a.asnumpy().tobytes() == b.asnumpy().tobytes()


def test_steps_on_tensors_and_narrow_types() -> None:
    w, moved = Tensor(W), Tensor(A)
    out = ops.ApplyMomentum()(w, moved, 0.001, Tensor(G), 0.9)
    np.testing.assert_allclose(w.asnumpy(), [[0.59916, 0.39885], [0.09972, 0.49866]], rtol=1e-6)
    assert out.asnumpy().tobytes() == w.asnumpy().tobytes()
    half = Parameter(Tensor(W, ms.float16), name="h")
    ops.ApplyGradientDescent()(half, 0.5, Tensor(G, ms.float16))
    wide = W.astype(np.float16).astype(np.float32) - 0.5 * G.astype(np.float16).astype(np.float32)
    assert (half.asnumpy() == wide.astype(np.float16)).all()


@pytest.mark.parametrize(("kind", "call", "text"), [
    (TypeError, lambda: ops.ApplyMomentum()(1.0, Tensor(A), 0.1, Tensor(G), 0.9),
     "For 'ApplyMomentum', 'var' must be a Tensor, but got float"),
    (TypeError, lambda: ops.ApplyGradientDescent()(Tensor([1, 2]), 0.1, Tensor([1, 2])),
     "For 'ApplyGradientDescent', 'var' must be a Tensor of floats, but got Int64"),
    (ValueError, lambda: ops.ApplyGradientDescent()(Tensor(W), 0.1, Tensor([1.0, 2.0])),
     "shapes must be that of 'var', (2, 2), or () for a number, but got (2,)"),
    (TypeError, lambda: ops.ApplyMomentum(use_nesterov=1),
     "For 'ApplyMomentum', the type of 'use_nesterov' should be 'bool', but got type 'int'"),
    (TypeError, lambda: ops.Softmax("a"), "type of 'axis' should be 'int', but got type 'str'"),
    (ValueError, lambda: ops.CumSum()(Tensor(W), 5), "'axis' must be in [-2, 2), but got 5"),
    (ValueError, lambda: ops.MaxPool3D(2, pad_mode="nowhere")(ops.ones((1, 1, 2, 2, 2))),
     "For 'MaxPool3D', the 'pad_mode' must be one of ['same', 'valid', 'pad'], but got 'nowhere'"),
    (ValueError, lambda: ops.AvgPool3D(2, pad_mode="pad", pad=(1, 0, 0, 0, 0, 0))(
        ops.ones((1, 1, 2, 2, 2))),
     "For 'AvgPool3D', zeros must be as many before as after an axis, but got (1, 0, 0, 0, 0, 0)"),
    (ValueError, lambda: ops.ResizeBilinearV2(True, True)(ops.ones((1, 1, 2, 2)), (3, 3)),
     "For 'ResizeBilinearV2', only one of 'align_corners' and 'half_pixel_centers' can be True"),
    (ValueError, lambda: ops.ResizeBilinearV2()(ops.ones((1, 1, 2, 2)), (3, 0)),
     "For 'ResizeBilinearV2', 'size' must be 2 positive ints, but got (3, 0)"),
    (ValueError, lambda: ops.InvertPermutation()((0, 2)),
     "For 'InvertPermutation', 'input_x' must hold each of 0 to 1 once, but got (0, 2)"),
    (ValueError, lambda: ops.Conv3DTranspose(1, 1, 2)(
        ops.ones((1, 1, 2, 2, 2)), ops.ones((1, 1, 2, 2, 2)), Tensor([1.0])),
     "For 'Conv3DTranspose', 'bias' must be None; add it to the result"),
    (ValueError, lambda: ops.BoundingBoxEncode()(Tensor(W), Tensor(W)),
     "'anchor_box' must have shape (N, 4), but has shape (2, 2)"),
])
def test_bad_arguments(kind: type[Exception], text: str, call: Any) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        call()


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_an_argument_that_is_set_later(mode: int) -> None:
    """It counts from the next call on, as if the primitive had been made with it."""
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.sums, self.parts = ops.ReduceSum(keep_dims=False), ops.Softmax(1)

        def construct(self, x: Tensor) -> Any:
            return self.sums(x, 0), self.parts(x)

    ms.set_context(mode=mode)
    net, x = Net(), Tensor([[0.0, 0.0], [2.0, 2.0]])
    sums, parts = net(x)
    assert (sums.shape, parts.asnumpy().tolist(), net.parts.axis) == ((2,), [[0.5] * 2] * 2, (1,))
    net.sums.keep_dims, net.parts.axis = True, (0,)
    sums, parts = net(x)
    assert sums.shape == (1, 2) and net.sums.attrs["keep_dims"] is net.sums.keep_dims is True
    assert parts.asnumpy().tolist() == ops.softmax(x, 0).asnumpy().tolist()
    net.sums.note = "kept"
    assert net.sums.note == "kept" and "note" not in net.sums.attrs


def test_volumes() -> None:
    x = Tensor(np.arange(12).reshape(1, 2, 1, 2, 3).astype(np.float32))
    assert ops.MaxPool3D((1, 2, 2), 1)(x).asnumpy().ravel().tolist() == [4, 5, 10, 11]
    assert ops.AvgPool3D((1, 2, 2), 1)(x).asnumpy().ravel().tolist() == [2, 3, 8, 9]
    values, index = ops.MaxPool3DWithArgmax((1, 2, 2), 1, 0, argmax_type=ms.int32)(x)
    assert (index.dtype, index.asnumpy().ravel().tolist()) == (ms.int32, [4, 5, 4, 5])
    back = ops.MaxUnpool3D((1, 2, 2), 1)(values, index)
    assert back.shape == x.shape and back.asnumpy()[0, 1, 0, 1].tolist() == [0, 10, 11]
    weight = ops.ones((3, 2, 1, 2, 2))
    assert ops.Conv3D(3, (1, 2, 2))(x, weight).asnumpy()[0, 0].ravel().tolist() == [40, 48]
    assert ops.Conv3DTranspose(2, 3, (1, 2, 2))(x, ops.ones((2, 3, 1, 2, 2))).shape == (
        1, 3, 1, 3, 4)
    out, mask = ops.Dropout3D(0.5)(ops.ones((4, 8, 1, 2, 2)))
    assert (out.asnumpy() == 2 * mask.asnumpy()).all() and 0 < mask.asnumpy().mean() < 1
    assert ops.UpsampleNearest3D()(x, None, (1.0, 2.0, 1.0)).shape == (1, 2, 1, 4, 3)


def test_images() -> None:
    x = Tensor(np.array([[[[1, 2], [3, 4]]]], np.float32))
    assert ops.ResizeNearestNeighborV2()(x, (4, 2)).asnumpy()[0, 0, :, 0].tolist() == [1, 1, 3, 3]
    assert ops.ResizeBilinearV2(True)(x, (3, 2)).asnumpy()[0, 0, :, 0].tolist() == [1, 2, 3]
    assert ops.ResizeBilinearV2()(x, (4, 2)).asnumpy()[0, 0, :, 0].tolist() == [1, 2, 3, 3]
    assert ops.ResizeBilinearV2(half_pixel_centers=True)(x, (4, 2)).asnumpy()[
        0, 0, :, 0].tolist() == [1, 1.5, 2.5, 3]
    columns = ops.Im2Col(2)(x)
    assert columns.shape == (1, 1, 4, 1)
    assert ops.Col2Im(2)(columns, Tensor([2, 2], ms.int32)).asnumpy().tolist() == x.asnumpy(
    ).tolist()
    boxes = ops.BoundingBoxEncode()(Tensor([[2.0, 2, 2, 3], [2, 2, 2, 3]]),
                                    Tensor([[1.0, 2, 1, 4], [1, 2, 1, 4]]))
    np.testing.assert_allclose(boxes.asnumpy(), [[-1, 0.25, 0, 0.4054651]] * 2, rtol=1e-6)


def test_matrices_and_lines() -> None:
    x = Tensor([[2.0, 1.0], [0.0, 4.0]])
    assert ops.MatrixTriangularSolve(lower=False)(x, Tensor([[4.0], [8.0]])).asnumpy().tolist() == [
        [1], [2]]
    q, r = ops.Qr(True)(x)
    np.testing.assert_allclose((q @ r).asnumpy(), x.asnumpy(), atol=1e-6)
    assert ops.Svd(compute_uv=False)(x).shape == (2,)
    value, index = ops.Median(global_median=True)(Tensor([3, 1, 2, 2], ms.int32))
    assert (int(value), int(index)) == (2, 0)
    assert ops.InvertPermutation()((2, 0, 1)) == (1, 2, 0)
    assert ops.EqualCount()(Tensor([1, 2, 3]), Tensor([1, 4, 3])).asnumpy().tolist() == [2]
    line = ops.CumulativeLogsumexp(exclusive=True)(Tensor([1.0, 2.0, 3.0]), 0).asnumpy()
    np.testing.assert_allclose(line[1:], [1, 2.3132617], rtol=1e-6)
    assert line[0] == np.finfo(np.float32).min
    assert ops.LogSpace(3, 10)(Tensor(0.0), Tensor(2.0)).asnumpy().tolist() == [1, 10, 100]


def test_small_functions() -> None:
    x = Tensor([[3.0, 4, 5], [4, 2, 6]])
    # As MindSpore 2.10 gives it.
    np.testing.assert_allclose(ops.mvlgamma(x, 3).asnumpy(), [
        [2.6949248, 5.402975, 9.140645], [5.402975, 1.5963125, 13.640454]], rtol=2e-6)
    assert ops.Mvlgamma(1)(x).shape == x.mvlgamma(2).shape == (2, 3)
    for p, kind in ((0, ValueError), (1.5, TypeError)):
        with pytest.raises(kind, match="For 'mvlgamma', 'p' must be "):
            ops.mvlgamma(x, p)
    edges = ops.Bucketize([1.0, 3.0, 5.0, 7.0, 9.0])(Tensor([3, 6, 9]))
    assert edges.asnumpy().tolist() == [2, 3, 5]  # MindSpore 2.10: a boundary belongs to the right
    assert ops.inv(Tensor([0.25, 0.5])).asnumpy().tolist() == [4, 2]
    assert ops.view_as(x, ops.ones((3, 2))).shape == (3, 2)
    a = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    for order, wanted in (("fro", 22.494444), ("nuc", 24.364643), (float("inf"), 38.0)):
        assert float(ops.matrix_norm(a, order)) == pytest.approx(wanted, rel=1e-6)
    assert ops.matrix_norm(a, axis=(1, 0), keepdims=True).shape == (1, 1)
    assert ops.gcd(Tensor([6, 4]), Tensor(4)).asnumpy().tolist() == [2, 4]
    assert ops.lcm(Tensor([6, 4]), Tensor(4)).asnumpy().tolist() == [12, 4]


def test_views_of_bytes() -> None:
    x = np.array([[1, 2], [3, -4]])
    for dtype, kind in ((ms.int32, np.int32), (ms.uint8, np.uint8), (ms.float64, np.float64)):
        found = Tensor(x).view(dtype)
        assert found.asnumpy().tobytes() == x.tobytes() and found.asnumpy().dtype == kind
        assert (found.view(ms.int64).asnumpy() == x).all()
    assert (ms.jit(lambda t: t.view(ms.int32))(Tensor(x)).asnumpy() == x.view(np.int32)).all()
    with pytest.raises(ValueError, match="divided"):
        Tensor([1, 2, 3], ms.int32).view(ms.int64)
    with pytest.raises(TypeError, match="integers or floats"):
        Tensor([True]).view(ms.int8)


def test_methods_of_tensors() -> None:
    x = Tensor(np.arange(9.0).reshape(3, 3))
    assert x.diagonal(axis1=1, axis2=0).asnumpy().tolist() == [0, 4, 8]
    assert (float(x.trace()), float(x.trace(1)), x.trace(dtype=ms.float32).dtype) == (
        12, 6, ms.float32)
    assert x.float_power(other=2).shape == x.multiply(value=2).shape == (3, 3)
    line = Tensor([1.0, 3, 5])
    assert [int(line.searchsorted(Tensor(3.0), side)) for side in ("left", "right")] == [1, 2]
    assert [t.shape for t in x.qr()] == [(3, 3), (3, 3)] and x.det().shape == ()


def test_attributes_of_primitives() -> None:
    relu = ops.ReLU().add_prim_attr("kind", 1)
    assert (relu.attrs["kind"], relu.kind) == (1, 1)
    assert relu.del_prim_attr("kind").set_stage(1) is relu and relu.place("worker", 0) is None
    relu.init_prim_io_names(["x"], ["y"])
    assert (relu.input_names, relu.set_device("CPU").primitive_target) == (["x"], "CPU")
    assert float(relu(Tensor(-1.0))) == 0 and not hasattr(relu, "kind")
    assert repr(ops.Add().set_stage(0)) == "Prim[Add]<stage=0>"
    total = ops.ReduceSum().add_prim_attr("keep_dims", True)
    assert total(Tensor(W), 0).shape == (1, 2)


def test_every_primitive_says_what_it_computes() -> None:
    found = {name: getattr(ops, name) for name in ops.__all__}
    primitives = {name: p.__doc__ for name, p in found.items()
                  if isinstance(p, type) and issubclass(p, ops.Primitive)}
    assert len(primitives) > 500
    assert [n for n, text in primitives.items() if "The primitive " in (text or "The primitive ")
            ] == []
