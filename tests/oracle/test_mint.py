"""`cellc.mint` in both modes, and against PyTorch where CELLC_PEERS_PYTHON has it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, mint

from ..others import PEERS, answer, run

ARGUMENTS = {
    "x": [[0.5, -1.25, 2.0], [3.5, 0.25, -0.75]], "y": [[1.5, 2.0, -0.5], [0.75, 4.0, 1.0]],
    "u": [[0.1, 0.9, 0.5], [0.3, 0.7, 0.2]], "i": [[0, 2, 1], [1, 0, 2]], "k": [2, 0],
    "m": [[[[0.5, 1.5, -2.0, 1.0], [0.0, 2.5, 3.0, -1.0], [1.0, -0.5, 2.0, 4.0],
            [0.25, 0.75, -1.5, 2.0]]]],
    "s": [[[2.0, -1.0, 0.5], [0.5, 3.0, -0.25], [1.0, 0.75, -2.0]],
          [[-1.5, 0.25, 1.0], [0.0, 2.5, 0.5], [0.75, -0.5, 4.0]]],
}
UNARY = ("abs acos asin atan asinh ceil cos cosh erf erfc exp exp2 expm1 floor frac log log10 "
         "log1p log2 logical_not neg reciprocal round rsqrt sigmoid sign sin sinc sinh "
         "sqrt square tan "
         "tanh trunc fix isnan isinf isfinite ravel t trace clone zeros_like ones_like mean std "
         "var sum prod max min median argmax argmin amax amin cumsum:1 cummax:1 cumprod:0 sort "
         "flatten:0 unsqueeze:1 softmax:1 logsumexp:1 chunk:2 split:1 unbind argsort diag tril "
         "triu norm count_nonzero nonzero")
BINARY = ("add sub mul div maximum minimum atan2 pow fmod remainder eq ne lt le gt ge logical_and "
          "logical_or logical_xor floor_divide logaddexp xlogy max min")
EXPRESSIONS = (
    *(f"mint.{f.split(':')[0]}(u{', ' + f.split(':')[1] if ':' in f else ''})"
      for f in UNARY.split()),
    *(f"mint.{f}(u, y)" for f in BINARY.split()),
    "mint.max(x, 1)", "mint.min(x, dim=0, keepdim=True)", "mint.median(x, dim=1)",
    "mint.mean(x, dim=1, keepdim=True)", "mint.std(x, dim=1, correction=0)",
    "mint.var_mean(x, dim=0)", "mint.sum(x, dim=(0, 1))", "mint.add(x, y, alpha=2)",
    "mint.sub(x, y, alpha=0.5)", "mint.div(x, y, rounding_mode='floor')",
    "mint.cat([x, y], dim=1)", "mint.stack([x, y], dim=2)", "mint.transpose(x, 0, 1)",
    "mint.permute(x, (1, 0))", "mint.select(x, 1, -1)", "mint.narrow(x, 1, 1, 2)",
    "mint.index_select(x, 1, k)", "mint.gather(x, 1, i)", "mint.scatter(x, 1, i, y)",
    "mint.scatter_add(x, 1, i, y)", "mint.index_add(x, 1, k, y[:, :2], alpha=2)",
    "mint.repeat_interleave(x, 2, dim=1)", "mint.flip(x, (0,))", "mint.roll(x, 1, 1)",
    "mint.topk(x, 2)", "mint.topk(x, 1, dim=0, largest=False)", "mint.where(x > 0, x, y)",
    "mint.clamp(x, -1.0, 1.0)", "mint.lerp(x, y, 0.25)", "mint.addcmul(x, x, y, value=2)",
    "mint.addcdiv(x, x, y, value=2)", "mint.matmul(x, y.T)", "mint.einsum('ij,kj->ik', x, y)",
    "mint.outer(x[0], y[1])", "mint.zeros(2, 3)", "mint.ones((2, 3))", "mint.full((2,), 7)",
    "mint.full((2,), 1.5)", "mint.full_like(x, 3.0)", "mint.arange(5)", "mint.arange(1, 2, 0.25)",
    "mint.eye(2, 3)", "mint.linspace(0.0, 1.0, 5)", "mint.meshgrid(x[0], y[1], indexing='ij')",
    "mint.prod(x, 1)", "mint.all(x > 0, 1)", "mint.any(x > 0)", "mint.masked_select(x, x > 0)",
    "F.relu(x)", "F.relu6(x)", "F.silu(x)", "F.elu(x, 0.5)", "F.gelu(x)",
    "F.gelu(x, approximate='tanh')", "F.leaky_relu(x)", "F.leaky_relu(x, 0.3)",
    "F.hardtanh(x, -0.5, 0.5)", "F.hardswish(x)", "F.hardsigmoid(x)", "F.softplus(x)",
    "F.logsigmoid(x)", "F.mish(x)", "F.selu(x)", "F.softshrink(x)", "F.threshold(x, 0.3, 9.0)",
    "F.softmax(x, dim=0)", "F.log_softmax(x, 1)", "F.linear(x, y)", "F.linear(x, y, x[:, 0])",
    "F.layer_norm(x, (3,))", "F.layer_norm(x, (3,), y[0], y[1])", "F.embedding(i, y.T)",
    "F.cross_entropy(x, k)", "F.cross_entropy(x, k, label_smoothing=0.1)", "F.nll_loss(x, k)",
    "F.mse_loss(x, y)", "F.l1_loss(x, y, reduction='sum')", "F.smooth_l1_loss(x, y, beta=0.5)",
    "F.binary_cross_entropy(u, u)", "F.binary_cross_entropy_with_logits(x, u)",
    "F.one_hot(k, 4)", "F.pad(x, (1, 2))", "F.pad(x, (1, 0, 0, 1), value=3.0)",
    "F.conv2d(m, m[:, :, :2, :2], padding=1)", "F.conv2d(m, m[:, :, :3, :3], stride=2, padding=1)",
    "F.max_pool2d(m, 2)", "F.max_pool2d(m, 3, stride=1, padding=1)", "F.avg_pool2d(m, 2)",
    "F.avg_pool2d(m, 3, stride=1, padding=1, count_include_pad=False)", "F.unfold(m, 2)",
    "F.fold(F.unfold(m, 2), (4, 4), 2)", "F.normalize(x)", "F.glu(m)", "F.avg_pool1d(x, 2)",
    "mint.gcd(i * 6, i + 4)", "mint.gcd(k, k)", "mint.inverse(s)", "mint.linalg.inv(s[0])",
    "mint.kthvalue(x, 2)", "mint.kthvalue(x, 1, 0, True)", "mint.linalg.norm(s)",
    "mint.linalg.norm(x, 2)", "mint.linalg.norm(x[0], 3)", "mint.linalg.norm(s, 1, (1, 2))",
    "mint.linalg.norm(s, dim=(0, 2), keepdim=True)", "mint.linalg.matrix_norm(s, 'nuc')",
    "mint.linalg.matrix_norm(s, -2, (0, 2), True)", "mint.linalg.matrix_norm(s, 1, (2, 0))",
    "mint.linalg.matrix_norm(s, float('inf'))", "mint.linalg.matrix_norm(x, 2)",
    "mint.linalg.vector_norm(s)", "mint.linalg.vector_norm(s, 1, (0, 2))",
    "mint.linalg.vector_norm(s, float('-inf'), 1, True)", "mint.linalg.vector_norm(x, 0)",
    "mint.linalg.vector_norm(x, 2.5, dim=-1)", "mint.linalg.qr(s)",
    "mint.linalg.qr(x.T)", "mint.linalg.qr(x.T, mode='complete')", "mint.linalg.qr(x)",
    "mint.linalg.qr(x, 'r')[1]", "mint.triangular_solve(y.T, s)[0]",
    "mint.triangular_solve(y.T, s, upper=False, transpose=True)[0]",
    "mint.triangular_solve(y.T, s[1], False, False, True)[0]",
    "mint.special.erfc(x)", "mint.special.exp2(x)", "mint.special.expm1(x)",
    "mint.special.log1p(u)", "mint.special.sinc(x)", "mint.special.round(x)",
    "mint.special.log_softmax(x, 1)", "mint.cdist(x, y, 3.0)", "mint.nansum(x, 1, True)",
    "mint.baddbmm(s, s, s, beta=2, alpha=0.5)", "mint.unique(i)",
    "mint.unique(k[i % 2], return_inverse=True, return_counts=True)",
    "mint.conv_tbc(s, s.transpose(0, 2), x[0, :2], 1)",
    "mint.empty_like(x) * 0", "mint.conv2d(m, m[:, :, :2, :2], stride=2)",
    "F.conv1d(s, s[:, :, :2], padding=1)", "F.conv1d(s[0], s, padding='same')",
    "F.conv3d(m.reshape(1, 1, 2, 2, 4), m[:, :, :2, :2].reshape(1, 1, 1, 2, 2))",
    "F.conv_transpose2d(m, m[:, :, :3, :3], x[0, :1], 2, 1, 1)",
    "F.adaptive_avg_pool3d(m.reshape(1, 2, 2, 4), (1, 2, 3))", "F.avg_pool3d(m, (1, 2, 2))",
    "F.adaptive_max_pool1d(x, 2)", "F.adaptive_max_pool2d(m, (2, 3))",
    "F.max_unpool2d(*F.max_pool2d(m, 2, return_indices=True), 2)",
    "F.batch_norm(x, y[0], y[1] + 2.0)", "F.batch_norm(x, y[0], y[1] + 2.0, u[0], u[1], False)",
    "F.batch_norm(s, None, None, training=True)", "F.group_norm(s, 3)",
    "F.kl_div(x, u)", "F.kl_div(x, y, reduction='sum', log_target=True)",
    "F.cosine_embedding_loss(x, y, k - 1, 0.1)", "F.upsample(m, scale_factor=2)",
    "F.interpolate(m, scale_factor=1.3, mode='bilinear')", "F.one_hot(k, 3)",
    "F.soft_margin_loss(x, y)", "F.prelu(x, u[0, :1])", "F.normalize(x, p=1.0, dim=0)",
    "F.relu_(x * 1)", "F.elu_(x * 1, 0.5)", "F.hardtanh_(x * 1)", "F.threshold_(x * 1, 0.3, 2.0)",
    "mint.diff(x, dim=0)", "F.pixel_shuffle("
    "m.reshape(1, 4, 2, 2), 2)", "F.dropout(x, 0.5, training=False)",
)

TORCH = """
import json, sys, torch
import torch.nn.functional as F
mint = torch
rows, arguments, out = json.load(sys.stdin), {}, []
for name, value in rows["arguments"].items():
    arguments[name] = torch.tensor(value)
def plain(v):
    return [plain(e) for e in v] if isinstance(v, (tuple, list)) else \
        [str(v.dtype)[6:], list(v.shape), v.tolist()]
for e in rows["expressions"]:
    out.append(plain(eval(e, {"mint": torch, "F": F, **arguments})))
print(json.dumps(out))
"""


def _plain(v: Any) -> Any:
    if isinstance(v, (tuple, list)):
        return [_plain(e) for e in v]
    return [v.asnumpy().dtype.name, list(v.shape), v.asnumpy().tolist()]


def _inputs() -> list[Tensor]:
    return [Tensor(v, ms.int64 if n in "ik" else ms.float32) for n, v in ARGUMENTS.items()]


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    path: Path = tmp_path_factory.mktemp("mint") / "mint_cases.py"
    body = ["from cellc import mint", "from cellc.mint.nn import functional as F"]
    body += [f"\ndef f{n}({', '.join(ARGUMENTS)}):\n    return {e}\n"
             for n, e in enumerate(EXPRESSIONS)]
    path.write_text("\n".join(body), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("mint_cases", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def torch_results() -> list[Any] | None:
    if not PEERS:
        return None
    given = {"arguments": ARGUMENTS, "expressions": EXPRESSIONS}
    found: list[Any] = answer(run(PEERS, TORCH, given=given))
    return found


def _leaves(v: Any) -> list[Any]:
    if isinstance(v[0], str):
        return [v]
    return [leaf for e in v for leaf in _leaves(e)]


@pytest.mark.parametrize("number", range(len(EXPRESSIONS)), ids=EXPRESSIONS)
def test_both_modes_and_torch(
    functions: ModuleType, torch_results: list[Any] | None, number: int
) -> None:
    function = getattr(functions, f"f{number}")
    eager = _plain(function(*_inputs()))
    assert repr(_plain(ms.jit(function)(*_inputs()))) == repr(eager)
    if torch_results is None:
        return
    want, got = _leaves(torch_results[number]), _leaves(eager)
    assert len(want) == len(got)
    for (dtype, shape, values), mine in zip(want, got, strict=True):
        assert [dtype, shape] == mine[:2]
        np.testing.assert_allclose(np.array(mine[2], float), np.array(values, float), rtol=2e-5,
                                   atol=2e-6)


def test_in_place_activation() -> None:
    x = Tensor([-1.0, 2.0])
    assert mint.nn.functional.silu(x, inplace=True) is x
    assert x.asnumpy()[0] < 0 and x.asnumpy()[1] == pytest.approx(1.7615942)


def test_mean_of_ints_is_an_error() -> None:
    with pytest.raises(TypeError, match="float"):
        mint.mean(Tensor([1, 2]))
