"""Layers of `mint.nn`: both modes to the bit, with gradients; and against PyTorch, where
CELLC_PEERS_PYTHON has it (most of `mint` does not run on MindSpore's CPU)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, mint, nn, ops

from ..others import PEERS, answer, run

TORCH = Path(__file__).with_name("against_torch.py")


def _x(*shape: int, seed: int = 0, kind: str = "normal") -> Any:
    """Numbers of a shape, as lists."""
    rng = np.random.default_rng([seed, *shape])
    if kind == "unit":
        return rng.uniform(0.05, 0.95, shape).astype(np.float32).tolist()
    if kind == "sign":
        return np.sign(rng.standard_normal(shape)).astype(np.float32).tolist()
    return rng.standard_normal(shape).astype(np.float32).round(3).tolist()


IMAGE, ROW, BLOCK = _x(2, 4, 6, 5), _x(2, 4, 7), _x(2, 4, 4, 3, 5)
PLANE = _x(4, 6, 5)
UNPOOLED = [[[[3, 1], [6, 8]]]]
CASES: list[tuple[Any, ...]] = [
    # (expression, inputs, further options)
    ("nn.Conv1d(4, 6, 3)", [ROW]),
    ("nn.Conv1d(4, 6, 3, 2, 1, 2, 2, False)", [ROW]),
    ("nn.Conv1d(4, 6, 4, padding='same')", [ROW]),
    ("nn.Conv1d(4, 2, 3, padding=2, padding_mode='circular')", [ROW]),
    ("nn.Conv1d(4, 2, 3)", [_x(4, 7)]),
    ("nn.Conv2d(4, 6, 3)", [IMAGE]),
    ("nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 2), (1, 2), 2, False)", [IMAGE]),
    ("nn.Conv2d(4, 6, (3, 2), padding='same', dilation=2)", [IMAGE]),
    ("nn.Conv2d(4, 6, 3, padding='valid')", [IMAGE]),
    ("nn.Conv2d(4, 6, 3, padding=(2, 1), padding_mode='reflect')", [IMAGE]),
    ("nn.Conv2d(4, 6, 3, padding='same', padding_mode='replicate')", [IMAGE]),
    ("nn.Conv2d(4, 4, 3, groups=4, padding=1)", [PLANE]),
    ("nn.Conv3d(4, 2, (2, 3, 2), padding=1)", [BLOCK]),
    ("nn.Conv3d(4, 2, 2, 2, (1, 0, 1), 1, 2)", [_x(4, 4, 3, 5)]),
    ("nn.Conv3d(4, 2, (3, 2, 2), padding='same')", [BLOCK]),
    ("nn.ConvTranspose2d(4, 6, 3)", [IMAGE]),
    ("nn.ConvTranspose2d(4, 6, (3, 2), (2, 3), (1, 0), (1, 2), 2, False, (2, 1))", [IMAGE]),
    ("nn.ConvTranspose2d(4, 3, 3, 2, 1)", [IMAGE], {"output_size": [12, 9]}),
    ("nn.ConvTranspose2d(4, 3, 2)", [PLANE]),
    ("nn.Linear(4, 3)", [_x(2, 5, 4)]), ("nn.Linear(4, 3, bias=False)", [_x(4)]),
    ("nn.BatchNorm1d(4)", [ROW]), ("nn.BatchNorm1d(4)", [_x(5, 4)], {"train": True}),
    ("nn.BatchNorm1d(4, affine=False)", [ROW], {"train": True}),
    ("nn.BatchNorm2d(4, 1e-3, 0.3)", [IMAGE], {"train": True}),
    ("nn.BatchNorm2d(4, momentum=None)", [IMAGE], {"train": True}),
    ("nn.BatchNorm2d(4, track_running_stats=False)", [IMAGE]),
    ("nn.BatchNorm2d(4, affine=False, track_running_stats=False)", [IMAGE], {"train": True}),
    ("nn.BatchNorm3d(4)", [BLOCK], {"train": True}), ("nn.BatchNorm3d(4)", [BLOCK]),
    ("nn.GroupNorm(2, 4)", [IMAGE]), ("nn.GroupNorm(4, 4, 1e-2)", [_x(3, 4)]),
    ("nn.LayerNorm(5)", [IMAGE]), ("nn.LayerNorm((6, 5), 1e-3)", [IMAGE]),
    ("nn.LayerNorm([5], elementwise_affine=False)", [IMAGE]),
    ("nn.LayerNorm(5, bias=False)", [IMAGE]),
    ("nn.Embedding(5, 3)", [[[0, 4, 2], [1, 1, 1]]]),
    ("nn.Embedding(5, 3, padding_idx=1)", [[[0, 4, 2], [1, 1, 1]]]),
    ("nn.Embedding(5, 3, padding_idx=-1)", [[3, 4, 2]]),
    ("nn.Embedding(5, 3, scale_grad_by_freq=True)", [[[0, 4, 2], [1, 1, 0]]]),
    ("nn.Embedding(5, 3, 2, scale_grad_by_freq=True)", [[2, 4, 4, 2, 0]]),
    ("nn.Dropout(0.3)", [IMAGE]), ("nn.Dropout2d(0.3)", [IMAGE]), ("nn.Identity()", [IMAGE]),
    ("nn.ELU()", [IMAGE]), ("nn.ELU(0.5, True)", [IMAGE]), ("nn.GELU()", [IMAGE]),
    ("nn.GELU(approximate='tanh')", [IMAGE]), ("nn.GLU(1)", [IMAGE]), ("nn.Hardshrink()", [IMAGE]),
    ("nn.Hardshrink(0.1)", [IMAGE]), ("nn.Hardsigmoid()", [IMAGE]), ("nn.Hardswish()", [IMAGE]),
    ("nn.Hardtanh()", [IMAGE]), ("nn.Hardtanh(-0.5003, 0.2503, True)", [IMAGE]),
    ("nn.LogSigmoid()", [IMAGE]), ("nn.LogSoftmax(1)", [IMAGE]), ("nn.LogSoftmax(-1)", [IMAGE]),
    ("nn.Mish()", [IMAGE]), ("nn.PReLU()", [IMAGE]), ("nn.PReLU(4, 0.1)", [IMAGE]),
    ("nn.ReLU()", [IMAGE]), ("nn.ReLU6()", [IMAGE]), ("nn.ReLU6(True)", [IMAGE]),
    ("nn.SELU()", [IMAGE]), ("nn.SiLU()", [IMAGE]), ("nn.SiLU(True)", [IMAGE]),
    ("nn.Sigmoid()", [IMAGE]), ("nn.Softmax(1)", [IMAGE]), ("nn.Softshrink()", [IMAGE]),
    ("nn.Softshrink(0.1)", [IMAGE]), ("nn.Tanh()", [IMAGE]), ("nn.Threshold(0.1, 20.0)", [IMAGE]),
    ("nn.Flatten()", [IMAGE]), ("nn.Flatten(0, 2)", [IMAGE]),
    ("nn.Unfold((2, 3), 1, 1, 2)", [IMAGE]), ("nn.Unfold(2, 2)", [PLANE]),
    ("nn.Fold((4, 5), (2, 3), 1, 1, 2)", [_x(2, 12, 9)]), ("nn.Fold(3, 2)", [_x(4, 4)]),
    ("nn.PixelShuffle(2)", [IMAGE]),
    ("nn.ConstantPad1d(1, 0.5)", [ROW]), ("nn.ConstantPad2d((1, 2, 0, 3), -1.5)", [IMAGE]),
    ("nn.ConstantPad3d(1, 2.0)", [BLOCK]), ("nn.ZeroPad2d((1, 0, 2, 1))", [IMAGE]),
    ("nn.ZeroPad1d(2)", [ROW]), ("nn.ZeroPad3d((1, 0, 0, 1, 2, 0))", [BLOCK]),
    ("nn.ReflectionPad1d(2)", [ROW]), ("nn.ReflectionPad2d((1, 2, 0, 3))", [IMAGE]),
    ("nn.ReflectionPad3d((1, 2, 0, 1, 2, 1))", [BLOCK]), ("nn.ReplicationPad1d((1, 3))", [ROW]),
    ("nn.ReplicationPad2d(2)", [PLANE]), ("nn.ReplicationPad3d(1)", [BLOCK]),
    ("nn.AvgPool1d(2)", [ROW]), ("nn.AvgPool1d(3, 1, 1, False, False)", [ROW]),
    ("nn.AvgPool2d(2)", [IMAGE]), ("nn.AvgPool2d((3, 2), (1, 2), (1, 0), True, False)", [IMAGE]),
    ("nn.AvgPool2d(2, divisor_override=3)", [PLANE]), ("nn.AvgPool3d(2)", [BLOCK]),
    ("nn.AvgPool3d((2, 3, 2), 1, (1, 0, 1), False, False)", [BLOCK]),
    ("nn.AvgPool3d(2, 1, 0, True, True, 5)", [_x(4, 4, 3, 5)]),
    ("nn.MaxPool2d(2)", [IMAGE]), ("nn.MaxPool2d((3, 2), 2, (1, 0), 1, True, True)", [IMAGE]),
    ("nn.MaxPool2d(2, 1, 0, 2)", [PLANE]),
    ("nn.MaxUnpool2d(2)", [_x(1, 1, 2, 2), UNPOOLED]),
    ("nn.MaxUnpool2d((2, 3), 2)", [_x(1, 1, 2, 2), UNPOOLED], {"output_size": [5, 5]}),
    ("nn.AdaptiveAvgPool1d(3)", [ROW]), ("nn.AdaptiveAvgPool2d((3, 4))", [IMAGE]),
    ("nn.AdaptiveAvgPool2d((None, 2))", [PLANE]), ("nn.AdaptiveAvgPool3d((2, None, 3))", [BLOCK]),
    ("nn.AdaptiveMaxPool1d(3)", [ROW]), ("nn.AdaptiveMaxPool1d(3, True)", [_x(4, 7)]),
    ("nn.AdaptiveMaxPool2d((3, 4), True)", [IMAGE]),
    ("nn.Upsample(scale_factor=2.0)", [IMAGE]), ("nn.Upsample((4, 8), mode='bilinear')", [IMAGE]),
    ("nn.Upsample(size=9, mode='linear', align_corners=True)", [ROW]),
    ("nn.Upsample(scale_factor=(1.5, 2.5), mode='bilinear')", [IMAGE]),
    ("nn.Upsample(size=(9, 7), mode='bicubic')", [IMAGE]),
    ("nn.Upsample(size=(4, 9), mode='bicubic', align_corners=True)", [IMAGE]),
    ("nn.Upsample(size=(5, 4, 6), mode='trilinear')", [BLOCK]),
    ("nn.Upsample(scale_factor=1.7)", [ROW]),
    ("nn.UpsamplingNearest2d(scale_factor=3)", [IMAGE]),
    ("nn.UpsamplingBilinear2d(size=(9, 7))", [IMAGE]),
    ("nn.MSELoss()", [_x(3, 4), _x(3, 4, seed=1)]),
    ("nn.MSELoss(reduction='none')", [_x(3, 4), _x(3, 4, seed=1)]),
    ("nn.L1Loss()", [_x(3, 4), _x(3, 4, seed=1)]),
    ("nn.L1Loss(reduction='sum')", [_x(3, 4), _x(3, 4, seed=1)]),
    ("nn.SmoothL1Loss()", [_x(3, 4), _x(3, 4, seed=1)]),
    ("nn.SmoothL1Loss(reduction='sum', beta=0.3)", [_x(3, 4), _x(3, 4, seed=1)]),
    ("nn.KLDivLoss()", [_x(3, 4), _x(3, 4, kind="unit")]),
    ("nn.KLDivLoss('batchmean', True)", [_x(3, 4), _x(3, 4, seed=1)]),
    ("nn.CosineEmbeddingLoss(0.2)", [_x(3, 4), _x(3, 4, seed=1), _x(3, kind="sign")]),
    ("nn.CrossEntropyLoss()", [_x(3, 5), [1, 0, 4]]),
    ("nn.CrossEntropyLoss(tensor([0.5, 1.0, 2.0, 0.25, 3.0]), ignore_index=1)",
     [_x(3, 5), [1, 0, 4]]),
    ("nn.CrossEntropyLoss(label_smoothing=0.2)", [_x(2, 4, 6, 5), np.array(
        np.random.default_rng(3).integers(0, 4, (2, 6, 5))).tolist()]),
    ("nn.CrossEntropyLoss(reduction='none')", [_x(3, 5), _x(3, 5, kind="unit")]),
    ("nn.NLLLoss()", [_x(3, 5), [1, 0, 4]]),
    ("nn.NLLLoss(tensor([0.5, 1.0, 2.0, 0.25, 3.0]), ignore_index=0, reduction='sum')",
     [_x(3, 5), [1, 0, 4]]),
    ("nn.BCELoss()", [_x(3, 4, kind="unit"), _x(3, 4, seed=1, kind="unit")]),
    ("nn.BCELoss(tensor([1.0, 2.0, 0.5, 1.0]), reduction='none')",
     [_x(3, 4, kind="unit"), _x(3, 4, seed=1, kind="unit")]),
    ("nn.BCEWithLogitsLoss()", [_x(3, 4), _x(3, 4, kind="unit")]),
    ("nn.BCEWithLogitsLoss(reduction='sum', pos_weight=tensor([1.0, 2.0, 0.5, 1.0]))",
     [_x(3, 4), _x(3, 4, kind="unit")]),
    ("nn.SoftMarginLoss()", [_x(3, 4), _x(3, 4, kind="sign")]),
]
# PyTorch's first arguments are older ones.
AS_TORCH = {"nn.KLDivLoss('batchmean', True)":
            "nn.KLDivLoss(reduction='batchmean', log_target=True)"}


def _tensor(v: Any) -> Tensor:
    a = np.array(v)
    return Tensor(a.astype(np.float32) if a.dtype.kind == "f" else a)


def _made(make: str) -> nn.Cell:
    ms.set_seed(7)
    layer: nn.Cell = eval(make, {"nn": mint.nn, "tensor": _tensor})
    return layer


def _options(case: tuple[Any, ...]) -> dict[str, Any]:
    given = dict(case[2]) if len(case) > 2 else {}
    return {k: v for k, v in given.items() if k == "output_size"}


def _places(case: tuple[Any, ...]) -> tuple[int, ...] | None:
    """Inputs that gradients are taken for: floats, of a loss only what comes first."""
    count = len(case[1])
    if "Loss" in case[0]:
        count = 2 if "Cosine" in case[0] else 1
    return tuple(i for i in range(count) if np.array(case[1][i]).dtype.kind == "f") or None


def _training(case: tuple[Any, ...]) -> bool:
    return len(case) > 2 and bool(case[2].get("train"))


class _Weighed(nn.Cell):
    """A layer, and the sum of its outputs times cosines of their positions."""

    def __init__(self, layer: nn.Cell, options: dict[str, Any]) -> None:
        super().__init__()
        self.layer = layer
        self.output_size = tuple(options["output_size"]) if options else None

    def construct(self, *inputs: Tensor) -> Any:
        xs = [x * 1 if x.dtype.is_float else x for x in inputs]
        out = self.layer(*xs) if self.output_size is None else \
            self.layer(*xs, output_size=self.output_size)
        outs = out if isinstance(out, tuple) else (out,)
        total = 0.0
        for y in outs:
            if y.dtype.is_float:
                weights = ops.cos(ops.arange(y.size).astype(ms.float32)).reshape(y.shape)
                total = total + (y * weights).sum()
        return total, outs


def _bits(x: Any) -> Any:
    if isinstance(x, (tuple, list)):
        return [_bits(e) for e in x]
    a = x.asnumpy()
    return a.dtype.name, a.shape, a.tobytes()


def _run(case: tuple[Any, ...], mode: int) -> tuple[Any, Any, Any, dict[str, Any]]:
    """(outputs, gradients of inputs, of parameters, parameters after it) in a mode."""
    ms.set_context(mode=mode)
    try:
        layer = _made(case[0])
        net = _Weighed(layer, _options(case))
        net.set_train(_training(case))
        inputs = [_tensor(v) for v in case[1]]
        places = _places(case)
        weights = list(layer.trainable_params())
        gradient = ms.value_and_grad(net, places, weights or None, has_aux=True)
        (_, outs), grads = gradient(*inputs)
        of_inputs, of_weights = grads if places and weights else \
            (grads, ()) if places else ((), grads)
        if places and not isinstance(of_inputs, tuple):
            of_inputs = (of_inputs,)
        if weights and not isinstance(of_weights, tuple):
            of_weights = (of_weights,)
        named = {p.name.removeprefix("layer."): g
                 for p, g in zip(weights, of_weights, strict=True)}
        after = {p.name.removeprefix("layer."): p.asnumpy().copy()
                 for p in layer.get_parameters()}
        return outs, of_inputs, named, after
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.fixture(scope="module")
def of_torch() -> list[Any] | None:
    if not PEERS:
        return None
    rows = []
    for case in CASES:
        layer = _made(case[0])
        rows.append({
            "make": AS_TORCH.get(case[0], case[0]), "inputs": case[1],
            "train": _training(case), "options": _options(case),
            "places": _places(case) or (),
            "parameters": {p.name: p.asnumpy().tolist() for p in layer.get_parameters()},
        })
    found: list[Any] = answer(run(PEERS, TORCH, given=rows))
    return found


def _close(mine: Any, want: Any, what: str) -> None:
    a, b = mine.asnumpy() if isinstance(mine, Tensor) else mine, np.array(want)
    assert a.shape == b.shape, what
    np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=2e-5, atol=2e-5,
                               err_msg=what)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[c[0] for c in CASES])
def test_both_modes_and_torch(of_torch: list[Any] | None, number: int) -> None:
    case = CASES[number]
    outs, of_inputs, of_weights, after = _run(case, ms.PYNATIVE_MODE)
    graph = _run(case, ms.GRAPH_MODE)
    assert _bits(outs) == _bits(graph[0])
    assert _bits(of_inputs) == _bits(graph[1])
    assert {n: _bits(g) for n, g in of_weights.items()} == \
        {n: _bits(g) for n, g in graph[2].items()}
    assert {n: v.tobytes() for n, v in after.items()} == \
        {n: v.tobytes() for n, v in graph[3].items()}
    if of_torch is None:
        return
    want = of_torch[number]
    for mine, theirs in zip(outs, want["outputs"], strict=True):
        _close(mine, theirs, "output")
    for mine, theirs in zip(of_inputs, want["inputs"], strict=True):
        _close(mine, theirs, "gradient of an input")
    assert set(of_weights) == set(want["parameters"])
    for name, theirs in want["parameters"].items():
        _close(of_weights[name], theirs, f"gradient of {name}")
    for name in set(want["buffers"]) & set(after):  # losses' weights are buffers only there
        theirs = want["buffers"][name]
        _close(after[name], theirs, f"buffer {name}")


