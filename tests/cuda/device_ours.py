"""The cases of `on_device.py` in cellc."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from device_cases import Case, inputs

import cellc as ms
from cellc import nn, ops

sys.path.insert(0, str(Path(__file__).parents[2] / "samples"))
Run = Callable[[], Any]


class Chain(nn.Cell):
    """Elementwise functions in a row."""

    def construct(self, x):
        return ops.tanh(x * 1.5 + 0.5) * ops.sigmoid(x) + ops.exp(-(x * x))


class Softmax(nn.Cell):
    """Over the last axis."""

    def construct(self, x):
        return ops.softmax(x, -1)


class LayerNorm(nn.Cell):
    """Over the last axis, with scale and shift."""

    def construct(self, x, scale, shift):
        return ops.layer_norm(x, x.shape[-1:], scale, shift, 1e-5)


class Product(nn.Cell):
    """Of two matrices."""

    def construct(self, a, b):
        return ops.matmul(a, b)


class Conv(nn.Cell):
    """A convolution with as much padding as keeps a size of stride 1."""

    def __init__(self, size, stride):
        super().__init__()
        self.padding, self.stride = size // 2, stride

    def construct(self, x, w):
        return ops.conv2d(x, w, stride=self.stride, pad_mode="pad", padding=self.padding)


class Attention(nn.Cell):
    """Causal attention of heads (N, heads, T, D). The mask is made in the graph, so it is known to
    be causal, as `is_causal` tells torch."""

    def __init__(self, width):
        super().__init__()
        self.scale = 1.0 / math.sqrt(width)

    def construct(self, q, k, v):
        scores = ops.matmul(q, k.swapaxes(-1, -2)) * self.scale
        future = ops.triu(ops.ones(scores.shape[-2:], ms.bool_), 1)
        return ops.matmul(ops.softmax(ops.masked_fill(scores, future, float("-inf")), -1), v)


class Launch(nn.Cell):
    """Next to nothing."""

    def construct(self, x):
        return x + 1.0


class Weighted(nn.Cell):
    """A number to differentiate: the output weighted by the last input."""

    def __init__(self, net):
        super().__init__(auto_prefix=False)
        self.net = net

    def construct(self, *given):
        return (self.net(*given[:-1]) * given[-1]).sum()


def build(case: Case) -> Run:
    """One call of a case, which returns before the device has done it."""
    ms.set_context(mode=ms.GRAPH_MODE, numerics="fast" if case.fast else "strict")
    ms.set_seed(1)
    step = {"lenet": _lenet, "resnet50": _resnet50, "gpt": _gpt}.get(case.kind)
    if step is not None:
        net, batch = step(case)
        return lambda: net(*batch)
    net = _network(case)
    given = [_moved(ms.Tensor(a, getattr(ms, case.dtype))) for a in inputs(case)]
    if not case.gradient:
        return lambda: net(*given)
    call = ms.value_and_grad(Weighted(net), tuple(range(len(given) - 1)))
    return lambda: call(*given)


def wait() -> None:
    """Return when the device has done all."""
    ms.hal.synchronize()


def release() -> None:
    """Give memory that is kept back, for the other libraries."""
    ms.runtime.empty_cache()


def results(value: Any) -> list[np.ndarray[Any, Any]]:
    """The arrays of a result, wide."""
    if isinstance(value, (tuple, list)):
        return [a for v in value for a in results(v)]
    return [value.asnumpy().astype(np.float32)]


def _network(case: Case) -> nn.Cell:
    if case.kind == "conv":
        return Conv(*case.sizes[5:])
    if case.kind == "attention":
        return Attention(case.sizes[3])
    kinds = {"chain": Chain, "softmax": Softmax, "layernorm": LayerNorm, "product": Product,
             "launch": Launch}  # fmt: skip
    return kinds[case.kind]()


def _moved(x: ms.Tensor) -> ms.Tensor:
    """The tensor on the device of the context."""
    device = ms.get_context("device_target")
    return x if device == "CPU" else x.move_to(device)


def _step(module: Any, net: nn.Cell, batch: tuple[ms.Tensor, ...], case: Case) -> Any:
    if case.dtype != "float32":
        net = ms.amp.auto_mixed_precision(net, "O2", getattr(ms, case.dtype))
    return module.train_step(net), [_moved(x) for x in batch]


def _lenet(case: Case) -> Any:
    import lenet  # in `samples`, which is on the path from here on

    return _step(lenet, lenet.LeNet5(), lenet.make_batch(case.sizes[0]), case)


def _resnet50(case: Case) -> Any:
    import resnet

    n, size, classes = case.sizes
    small = {"width": 8} if size < 64 else {}
    return _step(resnet, resnet.ResNet50(classes=classes, **small),
                 resnet.make_batch(n, size, classes), case)


def _gpt(case: Case) -> Any:
    import gpt

    n, steps, vocabulary, width, depth, heads = case.sizes
    net = gpt.GPT(vocabulary=vocabulary, context=steps, width=width, depth=depth, heads=heads,
                  dropout=0.0)
    return _step(gpt, net, gpt.make_batch(n, steps, vocabulary), case)
