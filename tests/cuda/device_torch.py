"""The cases of `on_device.py` in torch: eager (cuBLAS, cuDNN and its own kernels) or compiled."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from device_cases import Case, inputs

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
Run = Callable[[], Any]
DEVICE = "cpu" if os.environ.get("CELLC_ON_DEVICE") == "CPU" else "cuda"
"""The processor to try the cases themselves."""


def build(case: Case, compiled: bool) -> Run:
    """One call of a case, which returns before the device has done it."""
    torch.backends.cuda.matmul.allow_tf32 = case.fast
    torch.backends.cudnn.allow_tf32 = case.fast
    torch.backends.cudnn.benchmark = True
    if case.kind in ("lenet", "resnet50", "gpt"):
        return _step(case, compiled)
    given = [torch.from_numpy(a).to(DEVICE, getattr(torch, case.dtype)) for a in inputs(case)]
    call = _function(case)
    if not case.gradient:
        forward = torch.compile(call) if compiled else call

        def run() -> Any:
            with torch.no_grad():
                return forward(*given)

        return run
    *xs, weight = given
    for x in xs:
        x.requires_grad_()

    def loss_of(*x: Any) -> Any:
        return (call(*x) * weight).sum()

    loss = torch.compile(loss_of) if compiled else loss_of

    def differentiate() -> Any:
        value = loss(*xs)
        return value.detach(), *torch.autograd.grad(value, xs)

    return differentiate


def wait() -> None:
    """Return when the device has done all."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def release() -> None:
    """Give memory that is kept back, for the other libraries."""
    torch._dynamo.reset()
    if DEVICE == "cuda":
        torch.cuda.empty_cache()


def results(value: Any) -> list[np.ndarray[Any, Any]]:
    """The arrays of a result, wide."""
    if isinstance(value, (tuple, list)):
        return [a for v in value for a in results(v)]
    return [value.float().cpu().numpy()]


def _function(case: Case) -> Callable[..., Any]:
    if case.kind == "conv":
        size, stride = case.sizes[5:]
        return lambda x, w: F.conv2d(x, w, stride=stride, padding=size // 2)
    return {
        "chain": lambda x: torch.tanh(x * 1.5 + 0.5) * torch.sigmoid(x) + torch.exp(-(x * x)),
        "softmax": lambda x: torch.softmax(x, -1),
        "layernorm": lambda x, g, b: F.layer_norm(x, x.shape[-1:], g, b, 1e-5),
        "product": torch.matmul,
        "attention": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        "launch": lambda x: x + 1.0,
    }[case.kind]


def _step(case: Case, compiled: bool) -> Run:
    """A step of training, the optimizer included."""
    import nets_torch  # in `tests/benchmarks`, which is on the path from here on

    sizes, rng = case.sizes, np.random.default_rng(0)
    if case.kind == "gpt":
        n, steps, vocabulary, width, depth, heads = sizes
        net = nets_torch.GPT(vocabulary, steps, width, depth, heads, tied=False)
        x = rng.integers(0, vocabulary, (n, steps))
        labels = rng.integers(0, vocabulary, (n * steps,))
    else:
        net = nets_torch.LeNet5() if case.kind == "lenet" else nets_torch.resnet((3, 4, 6, 3), True)
        shape = (sizes[0], 1, 32, 32) if case.kind == "lenet" else (sizes[0], 3, sizes[1], sizes[1])
        x, labels = rng.standard_normal(shape, np.float32), rng.integers(0, 10, (sizes[0],))
    net = net.to(DEVICE).train()
    given, wanted = (torch.from_numpy(a).to(DEVICE) for a in (x, labels))
    params, adam = list(net.parameters()), torch.optim.AdamW
    optimizer: Any = adam(params, lr=1e-3, weight_decay=0.01, fused=True) if case.kind == "gpt" \
        else torch.optim.SGD(params, lr=0.02, momentum=0.9, fused=True)
    low = getattr(torch, case.dtype)

    def loss_of(x: Any) -> Any:
        with torch.autocast(DEVICE, low, enabled=low != torch.float32):
            return F.cross_entropy(net(x).flatten(0, -2).float(), wanted)

    loss = torch.compile(loss_of) if compiled else loss_of

    def run() -> Any:
        optimizer.zero_grad()
        value = loss(given)
        value.backward()
        optimizer.step()
        return value.detach()

    return run
