"""Layers and ops that MindSpore does not compute on a CPU, against numpy, and their errors."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.ops.functional.heads import multi_head_attention_forward

RANDOM = np.random.RandomState(7)
MATRICES = RANDOM.randn(3, 4, 4).astype(np.float32)
MODES = [ms.PYNATIVE_MODE, ms.GRAPH_MODE]


class _Calls(nn.Cell):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def construct(self, *args: Any) -> Any:
        return self.function(*args)


def _gives(function: Any, *arrays: np.ndarray[Any, Any]) -> Any:
    return _Calls(function)(*[Tensor(a) for a in arrays])


@pytest.mark.usefixtures("mode")
def test_elimination_is_numpys() -> None:
    for x in (MATRICES, MATRICES[0], MATRICES[:, :1, :1], MATRICES[0, ::-1].copy(),
              np.array([[0, 1], [1, 0]], np.float32), MATRICES.astype(np.float64)):
        near = {"rtol": 1e-3, "atol": 1e-4}
        np.testing.assert_allclose(_gives(ops.inverse, x).asnumpy(), np.linalg.inv(x), **near)
        np.testing.assert_allclose(_gives(ops.det, x).asnumpy(), np.linalg.det(x), **near)
        sign, size = _gives(ops.slogdet, x)
        want = np.linalg.slogdet(x)
        np.testing.assert_allclose(sign.asnumpy(), want[0], **near)
        np.testing.assert_allclose(size.asnumpy(), want[1], **near)
        b = RANDOM.randn(*x.shape[:-1], 2).astype(x.dtype)
        np.testing.assert_allclose(_gives(ops.matrix_solve, x, b).asnumpy(),
                                   np.linalg.solve(x, b), **near)


@pytest.mark.usefixtures("mode")
def test_gradients_of_elimination() -> None:
    x = Tensor(MATRICES[0])
    of_det = ms.grad(_Calls(ops.det))(x).asnumpy()
    inverse = np.linalg.inv(MATRICES[0])
    np.testing.assert_allclose(of_det, np.linalg.det(MATRICES[0]) * inverse.T, rtol=1e-3, atol=1e-4)
    of_inverse = ms.grad(_Calls(lambda m: ops.inverse(m).sum()))(x).asnumpy()
    ones = np.ones((4, 4), np.float32)
    np.testing.assert_allclose(of_inverse, -inverse.T @ ones @ inverse.T, rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("mode")
def test_singular_and_empty() -> None:
    singular = np.ones((2, 2), np.float32)
    assert float(_gives(ops.det, singular)) == 0
    sign, size = _gives(ops.slogdet, singular)
    assert float(sign) == 0 and float(size) == -math.inf
    assert not np.isfinite(_gives(ops.inverse, singular).asnumpy()).all()
    assert _gives(ops.inverse, np.zeros((0, 3, 3), np.float32)).shape == (0, 3, 3)
    assert math.isnan(float(_gives(ops.logdet, np.diag([1.0, -1.0]).astype(np.float32))))


@pytest.mark.usefixtures("mode")
def test_attention_of_one_sequence_to_another() -> None:
    """By numpy: three queries, five keys, two heads."""
    layer = nn.MultiheadAttention(4, 2)
    q, k, v = (RANDOM.randn(n, 1, 4).astype(np.float32) for n in (3, 5, 5))
    out, weights = _Calls(layer)(Tensor(q), Tensor(k), Tensor(v))
    into, bias = layer.in_proj_weight.asnumpy(), layer.in_proj_bias.asnumpy()
    a, b, c = (x[:, 0] @ into[4 * i : 4 * i + 4].T + bias[4 * i : 4 * i + 4]
               for i, x in enumerate((q, k, v)))
    parts = []
    for head in (slice(0, 2), slice(2, 4)):
        e = np.exp(a[:, head] @ b[:, head].T / math.sqrt(2))
        parts.append((e / e.sum(1, keepdims=True), c[:, head]))
    joined = np.concatenate([p @ x for p, x in parts], 1)
    want = joined @ layer.out_proj.weight.asnumpy().T + layer.out_proj.bias.asnumpy()
    np.testing.assert_allclose(out.asnumpy()[:, 0], want, 1e-5, 1e-6)
    np.testing.assert_allclose(weights.asnumpy()[0], (parts[0][0] + parts[1][0]) / 2, 1e-5)


@pytest.mark.usefixtures("mode")
def test_cholesky() -> None:
    x = MATRICES @ MATRICES.transpose(0, 2, 1) + np.eye(4, dtype=np.float32)
    low = np.linalg.cholesky(x)
    np.testing.assert_allclose(_gives(ops.cholesky, x).asnumpy(), low, rtol=1e-4, atol=1e-5)
    upper = _gives(lambda m: ops.cholesky(m, True), x).asnumpy()
    np.testing.assert_allclose(upper, low.transpose(0, 2, 1), rtol=1e-4, atol=1e-5)
    b = RANDOM.randn(3, 4, 2).astype(np.float32)
    for factor, is_upper in ((low, False), (upper, True)):
        solved = _Calls(lambda p, q: ops.cholesky_solve(p, q, is_upper))  # noqa: B023
        np.testing.assert_allclose(solved(Tensor(b), Tensor(factor)).asnumpy(),
                                   np.linalg.solve(x, b), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(_gives(ops.cholesky_inverse, low[0]).asnumpy(),
                               np.linalg.inv(x[0]), rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("mode")
def test_incomplete_gamma_functions() -> None:
    # Values of torch.special.gammainc.
    a = np.array([0.5, 1, 2.5, 10, 100, 1000, 3, 3, 3], np.float64)
    x = np.array([0.1, 2, 2.5, 20, 90, 1010, 0, math.inf, 60], np.float64)
    low = np.array([0.345279153981423, 0.864664716763387, 0.584119813004492, 0.995004587691692,
                    0.158220989075321, 0.627678944681457, 0, 1, 1])
    got = _gives(ops.igamma, a, x).asnumpy()
    np.testing.assert_allclose(got, low, rtol=1e-7)
    upper = _gives(ops.igammac, a, x).asnumpy()
    np.testing.assert_allclose(upper[:6], 1 - low[:6], rtol=1e-6)
    np.testing.assert_allclose(upper[8], 1.6295e-23, rtol=1e-3)
    bad = _gives(ops.igamma, np.array([0.0, -1, 2]), np.array([1.0, 1, -1])).asnumpy()
    assert np.isnan(bad).all()


def _diagonals(x: np.ndarray[Any, Any], low: int, high: int, align: str, fill: float) -> Any:
    rows = [np.diagonal(x, d) for d in range(high, low - 1, -1)]
    longest = max(r.size for r in rows)
    out = np.full((len(rows), longest), fill, x.dtype)
    for i, (d, r) in enumerate(zip(range(high, low - 1, -1), rows, strict=True)):
        right = align.split("_")[0 if d >= 0 else 1] == "RIGHT"
        out[i, longest - r.size if right else 0 :][: r.size] = r
    return out


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("align", ["LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"])
@pytest.mark.parametrize(("low", "high"), [(-1, 2), (0, 1), (-2, -1), (1, 1), (0, 0)])
def test_bands(low: int, high: int, align: str) -> None:
    x = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    k = (low, high)
    band = _diagonals(x, low, high, align, 9.0)
    got = _gives(lambda m: ops.matrix_diag_part(m, k, 9.0, align), x).asnumpy()
    np.testing.assert_array_equal(got, band[0] if low == high else band)
    inside = np.zeros(x.shape, bool)
    for d in range(low, high + 1):
        inside |= np.eye(3, 4, d, dtype=bool)
    made = _gives(lambda b: ops.matrix_diag(b, k, 3, 4, -1.0, align), got).asnumpy()
    np.testing.assert_array_equal(made, np.where(inside, x, -1))
    new = _gives(lambda m, b: ops.matrix_set_diag(m, b, k, align), -x, got).asnumpy()
    np.testing.assert_array_equal(new, np.where(inside, x, -x))


@pytest.mark.usefixtures("mode")
def test_mirrored_borders_are_numpys() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for mode_, name in (("REFLECT", "reflect"), ("SYMMETRIC", "symmetric")):
        pads = Tensor(np.array([[2, 1], [0, 3]]))
        got = _gives(lambda m: ops.mirror_pad(m, pads, mode_), x).asnumpy()  # noqa: B023
        np.testing.assert_array_equal(got, np.pad(x, ((2, 1), (0, 3)), name))


@pytest.mark.usefixtures("mode")
def test_columns_and_images() -> None:
    x = RANDOM.randn(2, 3, 5, 6).astype(np.float32)
    columns = ops.unfold(Tensor(x), (2, 3), 1, (1, 0), 2)
    shaped = columns.reshape(2, 3, 6, columns.shape[2])
    back = _Calls(lambda c: ops.col2im(c, (5, 6), (2, 3), 1, (1, 0), 2))(shaped)
    np.testing.assert_array_equal(
        back.asnumpy(), ops.fold(columns, (5, 6), (2, 3), 1, (1, 0), 2).asnumpy())


@pytest.mark.usefixtures("mode")
def test_candidates() -> None:
    true = Tensor(np.array([[1], [3], [0]]))
    for sampler in (ops.uniform_candidate_sampler, ops.log_uniform_candidate_sampler):
        drawn, of_true, of_drawn = _Calls(
            lambda t: sampler(t, 1, 4, True, 6))(true)  # noqa: B023
        assert len(set(drawn.asnumpy().tolist())) == 4
        assert drawn.asnumpy().min() >= 0 and drawn.asnumpy().max() < 6
        assert of_true.shape == (3, 1) and of_drawn.shape == (4,)
    _, _, every = ops.uniform_candidate_sampler(true, 1, 4, True, 6)
    np.testing.assert_allclose(every.asnumpy(), 4 / 6, rtol=1e-6)
    ms.set_seed(1)
    counts = np.zeros(6)
    for _ in range(300):
        counts += np.bincount(
            ops.log_uniform_candidate_sampler(true, 1, 3, True, 6)[0].asnumpy(), minlength=6)
    _, expected, _ = ops.log_uniform_candidate_sampler(
        Tensor(np.arange(6).reshape(6, 1)), 1, 3, True, 6)
    np.testing.assert_allclose(counts / 300, expected.asnumpy()[:, 0], atol=0.1)
    with pytest.raises(ValueError, match="num_sampled"):
        ops.uniform_candidate_sampler(true, 1, 8, True, 7)


@pytest.mark.usefixtures("mode")
def test_greedy_decoding() -> None:
    best = np.array([[0, 0, 2, 1, 1, 2, 1], [2, 1, 1, 0, 2, 2, 0]]).T
    scores = np.eye(3, dtype=np.float32)[best]
    lengths = Tensor(np.array([7, 4], np.int32))
    decode = _Calls(lambda x: ops.ctc_greedy_decoder(x, lengths))
    positions, labels, size, score = decode(Tensor(scores))
    assert labels.asnumpy().tolist() == [0, 1, 1, 1, 0]
    assert positions.asnumpy().tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1]]
    assert size.asnumpy().tolist() == [2, 3]
    assert score.asnumpy().tolist() == [[-7.0], [-4.0]]
    each = _Calls(lambda x: ops.ctc_greedy_decoder(x, lengths, False))(Tensor(scores))[1]
    assert each.asnumpy().tolist() == [0, 0, 1, 1, 1, 1, 1, 0]


@pytest.mark.usefixtures("mode")
def test_image_measures() -> None:
    x = RANDOM.rand(2, 3, 12, 13).astype(np.float32)
    np.testing.assert_allclose(_gives(nn.SSIM(), x, x).asnumpy(), 1.0, rtol=1e-4)
    assert (_gives(nn.SSIM(), x, 1 - x).asnumpy() < 0.1).all()
    y = np.clip(x + 0.1, 0, 2)
    np.testing.assert_allclose(_gives(nn.PSNR(), x, y).asnumpy(), 20.0, rtol=1e-3)
    got = nn.SSIM(max_val=2.0, filter_size=5, filter_sigma=0.8, k1=0.02, k2=0.05)(
        _ramp(2, 3, 9, 8), ops.sin(9 * _ramp(2, 3, 9, 8)))
    np.testing.assert_allclose(got.asnumpy(), [0.0440517, 0.12707402], rtol=1e-4)  # MindSpore's
    got = nn.MSSSIM(power_factors=(0.033,) * 3)(
        _ramp(1, 3, 128, 128), ops.sin(3 * _ramp(1, 3, 128, 128)))
    np.testing.assert_allclose(got.asnumpy(), [0.65125495], rtol=1e-4)  # MindSpore's


def _ramp(*shape: int) -> Tensor:
    n = math.prod(shape)
    return Tensor((np.arange(1, n + 1) / n).reshape(shape).astype(np.float32))


@pytest.mark.usefixtures("mode")
def test_multilabel_margin() -> None:
    loss = nn.MultilabelMarginLoss()
    x = Tensor(np.array([[0.1, 0.2, 0.4, 0.8], [0.2, 0.3, 0.5, 0.7]], np.float32))
    target = Tensor(np.array([[1, 2, 0, 3], [2, 3, -1, 1]], np.int32))
    assert float(loss(x, target)) == pytest.approx(0.325)
    assert float(nn.MultilabelMarginLoss("sum")(x[1], target[1])) == pytest.approx(0.65)


ERRORS: list[tuple[str, type[Exception]]] = [
    ("ops.det(Tensor(np.ones((2, 3), np.float32)))", ValueError,
     "For 'det', 'input' must have shape (..., n, n), but has shape (2, 3)"),
    ("ops.det(Tensor(np.ones((2, 2), np.int32)))", TypeError,
     "For 'det', 'input' must be a Tensor of floats, but got Int32"),
    ("ops.inverse(3)", TypeError, "For 'inverse', 'input' must be a Tensor, but got int"),
    ("ops.matrix_solve(Tensor(np.eye(2)), Tensor(np.ones((3, 1))))", ValueError,
     "For 'matrix_solve', 'rhs' must have shape (..., 2, k), but has shape (3, 1)"),
    ("ops.matrix_diag(Tensor([1.0]), (1, 0))", ValueError,
     "For 'matrix_diag', 'k' must be an int or two in ascending order, but got (1, 0)"),
    ("ops.matrix_diag(Tensor([1.0]), 0, 3, 3)", ValueError,
     "For 'matrix_diag', matrices of 3 by 3 do not have diagonals 0 to 0 of length 1"),
    ("ops.matrix_diag_part(Tensor([1.0]))", ValueError,
     "For 'matrix_diag_part', 'x' must have shape (..., m, n), but has shape (1,)"),
    ("ops.matrix_diag_part(Tensor([[1.0]]), 3)", ValueError,
     "'k' must be between 0 and 0 for matrices of shape (1, 1), but got 3 to 3"),
    ("ops.matrix_set_diag(Tensor([[1.0]]), Tensor([1.0, 2.0]))", ValueError,
     "For 'matrix_set_diag', 'diagonal' must have shape (1,), but has shape (2,)"),
    ("ops.mirror_pad(Tensor([1.0]), Tensor([[1, 1]]), 'REFLECT')", ValueError,
     "For 'mirror_pad', 'paddings' of axis 0 must be between 0 and 0, but got 1 and 1"),
    ("ops.mirror_pad(Tensor([1.0]), [[1, 1]], 'REFLECT')", TypeError,
     "For 'mirror_pad', 'paddings' must be a Tensor, but got list"),
    ("ops.col2im(Tensor(np.ones((1, 1, 4, 8))), (4, 4), 2, 1, 0, 1)", ValueError,
     "windows of (2, 2) over (4, 4) give columns of shape (4, 9), but 'input_x' has shape"),
    ("ops.igamma(Tensor([1.0]), Tensor([1]))", TypeError,
     "For 'igamma', 'input' and 'other' must have one float type, but got Float32 and Int64"),
    ("ops.igamma(Tensor([1.0, 2.0]), Tensor([1.0, 2.0, 3.0]))", ValueError,
     "operands of shapes (2,) and (3,) cannot be broadcast"),
    ("ops.max_unpool2d(Tensor(np.ones((1, 1, 2, 2))), Tensor([[[[0, 3], [9, 15]]]]), 2, "
     "output_size=(6, 6))", ValueError,
     "each of 'output_size' must be less than a stride away from (4, 4), but got (6, 6)"),
    ("ops.max_unpool2d(Tensor(np.ones((1, 1, 2, 2))), Tensor([[[[0, 3], [9, 16]]]]), 2)",
     IndexError, "For 'tensor_scatter_elements', indices must be in [-16, 16), but got 16"),
    ("ops.fractional_max_pool2d(Tensor(np.ones((1, 1, 4, 4))), 2)", ValueError,
     "For 'fractional_max_pool2d', 'output_size' or 'output_ratio' is needed, but got neither"),
    ("ops.fractional_max_pool2d(Tensor(np.ones((1, 1, 4, 4))), 3, 3)", ValueError,
     "windows of (3, 3) and a result of (3, 3) do not fit an input of (4, 4)"),
    ("ops.fractional_max_pool2d(Tensor(np.ones((1, 1, 4, 4))), 2, output_ratio=(1.5, 0.5))",
     ValueError, "'output_ratio' must be 2 numbers in (0, 1), but got (1.5, 0.5)"),
    ("ops.fractional_max_pool2d(Tensor(np.ones((1, 1, 4, 4))), 2, 2, "
     "_random_samples=Tensor([1.0]))", ValueError,
     "'_random_samples' must have shape (1, 1, 2), but has shape (1,)"),
    ("ops.conv3d_transpose(Tensor(np.ones((1, 2, 2, 2, 2))), Tensor(np.ones((3, 1, 2, 2, 2))))",
     ValueError,
     "weights of shape (3, 1, 2, 2, 2) do not fit an input of shape (1, 2, 2, 2, 2)"),
    ("ops.avg_pool3d(Tensor(np.ones((2, 2))), 2)", ValueError,
     "input must have 5 axes (N, C, D, H, W) or 4 without N, but has shape (2, 2)"),
    ("nn.Conv3dTranspose(2, 3, 2, output_padding=1)(Tensor(np.ones((1, 2, 2, 2, 2), np.float32)))",
     ValueError,
     "'output_padding' must be zero when 'pad_mode' is not 'pad'"),
    ("nn.SSIM()(Tensor(np.ones((1, 1, 4, 4), np.float32)), Tensor(np.ones((1, 1, 4, 4), "
     "np.float32)))", ValueError, "img1 shape[2] should be >= filter_size: 11, but got 4"),
    ("nn.SSIM(filter_sigma=1)", TypeError, "'filter_sigma' must be a positive float, but got 1"),
    ("nn.SSIM(filter_size=0)", ValueError,
     "For 'SSIM', 'filter_size' must be a positive int, but got 0"),
    ("nn.PSNR(0)", ValueError, "For 'PSNR', 'max_val' must be a positive number, but got 0"),
    ("nn.PSNR('a')", TypeError,
     "For 'PSNR', 'max_val' must be a positive number, but got 'a'"),
    ("nn.MSSSIM(power_factors=3)", TypeError,
     "'power_factors' must be a tuple or a list, but got 3"),
    ("nn.CentralCrop(1)", TypeError,
     "For 'CentralCrop', 'central_fraction' must be a float in (0, 1], but got 1"),
    ("nn.CentralCrop(0.0)", ValueError,
     "'central_fraction' must be a float in (0, 1], but got 0.0"),
    ("nn.Unfold(2, [1, 1, 1, 1], [1, 1, 1, 1])", TypeError,
     "For 'Unfold', 'ksizes' must be (1, rows, columns, 1) with positive ints, but got 2"),
    ("nn.Unfold([2, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1])", ValueError,
     "For 'Unfold', 'ksizes' must be (1, rows, columns, 1) with positive ints, but got [2"),
    ("nn.Range(1, 8, 0)", ValueError, "For 'Range', the 'delta' can not be zero"),
    ("nn.Range('a')", TypeError,
     "For 'Range', 'limit' must be a number, but got 'a'"),
    ("nn.Moments('a')", TypeError,
     "For 'Moments', 'axis' must be an int or a tuple, but got 'a'"),
    ("nn.ReduceLogSumExp('a')", TypeError,
     "'axis' must be an int or a list or a tuple, but got 'a'"),
    ("nn.TimeDistributed(3, 1)", TypeError,
     "For 'TimeDistributed', 'layer' must be a Cell or a Primitive, but got 3"),
    ("nn.SampledSoftmaxLoss(8, 7)", ValueError,
     "'num_sampled' must be at most 'num_classes' (7), but got 8"),
    ("nn.SampledSoftmaxLoss(4, 7, sampled_values=3)", TypeError,
     "For 'SampledSoftmaxLoss', 'sampled_values' must be a list or tuple of 3, or None, but got 3"),
    ("nn.SparseTensorDenseMatmul(1)", TypeError,
     "For 'SparseTensorDenseMatmul', 'adjoint_st' must be a bool, but got 1"),
    ("nn.MultiFieldEmbeddingLookup(10, 2, 2, operator='X')", ValueError,
     "'operator' must be one of 'SUM', 'MAX', 'MEAN', but got 'X'"),
    ("nn.MultiFieldEmbeddingLookup(10, 2, 2, sparse=False)", ValueError,
     "'sparse' must be True when 'target' is \"CPU\", but got 'sparse': False and 'target': CPU"),
    ("nn.Conv2dBnAct(3, 4, 3, activation=4)", TypeError,
     "For 'Conv2dBnAct', the 'activation' must be str or Cell or Primitive, but got int"),
    ("nn.Conv2dBnAct(3, 4, 3, activation='foo')", KeyError,
     "The 'name' must be in ['softmin', 'softmax', 'softmax2d', 'logsoftmax', 'logsoftmaxExt'"),
    ("nn.DenseBnAct(3, 4, after_fake=1)", TypeError, "'after_fake' must be a bool, but got 1"),
    ("nn.LGamma()(Tensor([1]))", TypeError, "input must be float16 or float32, but got Int64"),
    ("nn.MultilabelMarginLoss('x')", ValueError,
     "For 'MultilabelMarginLoss', 'reduction' must be one of 'mean', 'sum', 'none', but got 'x'"),
]


@pytest.mark.parametrize(("text", "kind", "message"), ERRORS, ids=[e[0] for e in ERRORS])
def test_errors(text: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        eval(text, {"ops": ops, "nn": nn, "np": np, "Tensor": Tensor})


@pytest.mark.parametrize("mode", MODES)
def test_number_of_true_classes_set_later_is_checked(mode: int) -> None:
    ms.set_context(mode=mode)
    loss = nn.SampledSoftmaxLoss(2, 4)
    loss.num_true = 0
    weights, inputs = Tensor(MATRICES[0]), Tensor(MATRICES[1][:2])
    with pytest.raises(ValueError, match="'num_true' must be a positive int, but got 0"):
        loss(weights, Tensor(np.zeros(4, np.float32)), Tensor(np.zeros((2, 1), np.int32)), inputs)


def test_products_with_jacobians() -> None:
    class Two(nn.Cell):
        def construct(self, x: Tensor, y: Tensor) -> Any:
            return x * y, x + y

    a, b = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    for mode_ in MODES:
        ms.set_context(mode=mode_)
        _, (product, total) = nn.Jvp(Two())(a, b, (a, b))
        assert product.asnumpy().tolist() == [6, 16] and total.asnumpy().tolist() == [4, 6]
        _, (of_x, of_y) = nn.Vjp(Two())(a, b, (a, b))
        assert of_x.asnumpy().tolist() == [6, 12] and of_y.asnumpy().tolist() == [4, 8]
        _, single = nn.Vjp(nn.ReLU())(a, b)
        assert single.asnumpy().tolist() == [3, 4]
        for made, args in (
            (nn.Jvp(nn.ReLU()), (a, (b, b))), (nn.Jvp(nn.ReLU()), (a, (b,))),
            (nn.Jvp(Two()), (a, b, a)), (nn.Jvp(Two()), (a, b, (a, b, b))),
            (nn.Jvp(Two()), ((a, b), (a, b))), (nn.Vjp(nn.ReLU()), (a, (b, b))),
            (nn.Vjp(nn.ReLU()), (a, (b,))), (nn.Vjp(Two()), (a, b, a)),
        ):
            with pytest.raises(TypeError, match="the last argument must be a"):
                made(*args)


@pytest.mark.usefixtures("mode")
def test_primitives() -> None:
    x = MATRICES
    for text, want in (
        ("ops.MatrixInverse(True)", np.linalg.inv(x.transpose(0, 2, 1))),
        ("ops.MatrixDeterminant()", np.linalg.det(x)),
    ):
        primitive = eval(text, {"ops": ops})
        np.testing.assert_allclose(_gives(primitive, x).asnumpy(), want, rtol=1e-3, atol=1e-4)
    band = Tensor(np.array([[1.0, 2], [3, 4]], np.float32))
    made = _Calls(lambda b: ops.MatrixDiagV3()(b, 0, -1, -1, 0.0))(band)
    assert made.shape == (2, 2, 2)
    back = _Calls(lambda m: ops.MatrixDiagPartV3()(m, 0, 0.0))(made)
    np.testing.assert_array_equal(back.asnumpy(), band.asnumpy())
    volume = Tensor(np.ones((1, 1, 4, 4, 4), np.float32))
    assert _Calls(lambda v: ops.AdaptiveAvgPool3D(2)(v))(volume).shape == (1, 1, 2, 2, 2)
    assert ops.Padding(4)(Tensor(np.ones((2, 1)))).shape == (2, 4)


@pytest.mark.parametrize("forward", [multi_head_attention_forward,
                                     ms.jit(multi_head_attention_forward)])
def test_attention_of_given_weights(forward: Any) -> None:
    """As the layer with these weights; by heads that are given; and of no later keys."""
    def drawn(*shape: int) -> Tensor:
        return Tensor(RANDOM.randn(*shape).astype(np.float32))

    layer = nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True)
    for p in layer.get_parameters():
        p.set_data(drawn(*p.shape))
    q, k, v = drawn(3, 2, 8), drawn(5, 2, 8), drawn(5, 2, 8)
    padding = Tensor(np.array([[0, 0, 0, 1, 1], [0, 0, 0, 0, 1]], bool))
    weight, bias = layer.in_proj_weight, layer.in_proj_bias
    out = layer.out_proj.weight, layer.out_proj.bias
    got = forward(q, k, v, 8, 2, weight, bias, layer.bias_k, layer.bias_v, True, 0.5, *out,
                  training=False, key_padding_mask=padding)
    for found, want in zip(got, layer(q, k, v, key_padding_mask=padding), strict=True):
        assert found.asnumpy().tobytes() == want.asnumpy().tobytes()
    plain = (None, None, False, 0.0)
    rows = ops.chunk(weight, 3, 0)
    heads = [ops.transpose(ops.dense(x, w).reshape(5, 4, 4), (1, 0, 2))
             for x, w in zip((k, v), rows[1:], strict=True)]
    want, _ = forward(q, k, v, 8, 2, weight, None, *plain, *out)
    for more in ({"static_k": heads[0], "static_v": heads[1]},
                 {"use_separate_proj_weight": True, "q_proj_weight": rows[0],
                  "k_proj_weight": rows[1], "v_proj_weight": rows[2]}):
        found, _ = forward(q, k, v, 8, 2, weight, None, *plain, *out, **more)
        np.testing.assert_allclose(found.asnumpy(), want.asnumpy(), atol=1e-5)
    found, seen = forward(q[:, 0], k[:, 0], v[:, 0], 8, 2, weight, bias, *plain, *out,
                          is_causal=True)
    assert found.shape == (3, 8)
    assert not np.triu(seen.asnumpy(), 1).any()
    np.testing.assert_allclose(seen.asnumpy().sum(-1), 1, rtol=1e-6)
    with pytest.raises(ValueError, match="features and a number of heads that divides them"):
        forward(q, k, v, 8, 3, weight, bias, *plain, *out)


@pytest.mark.parametrize(("layer", "formula"), [
    (nn.SoftMarginLoss("sum"), lambda x, y: np.log1p(np.exp(-y * x)).sum()),
    (nn.SoftMarginLoss(), lambda x, y: np.log1p(np.exp(-y * x)).mean()),
    (nn.InstanceNorm1d(4), lambda x, y: (x - x.mean(2, keepdims=True))
     / np.sqrt(x.var(2, keepdims=True) + 1e-5)),
    (nn.Roll(2, 1), lambda x, y: np.roll(x, 2, 1)),
    (nn.Roll((1, -2), (0, 2)), lambda x, y: np.roll(x, (1, -2), (0, 2))),
    (nn.Upsample(6, mode="nearest"), lambda x, y: x[:, :, [0, 0, 1, 2, 3, 4]]),
], ids=lambda case: getattr(case, "cls_name", "formula"))
def test_by_formula(layer: Any, formula: Any) -> None:
    """What MindSpore has no version of for the CPU."""
    draw = np.random.RandomState(8)
    x, y = draw.randn(2, 4, 5).astype(np.float32), draw.choice([-1.0, 1.0], (2, 4, 5))
    given = (x, y.astype(np.float32)) if isinstance(layer, nn.LossBase) else (x,)
    got = layer.set_train()(*map(ms.Tensor, given))
    np.testing.assert_allclose(got.asnumpy(), formula(x, y), 2e-5, 2e-6)
