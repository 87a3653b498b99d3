"""What PyTorch gives for layers written the same way, in the Python CELLC_PEERS_PYTHON names.

    echo '[case, ...]' | python against_torch.py

A case has `make` (an expression over `nn`), `inputs`, `places` (those that gradients are taken
for), `parameters` by name, `train` and `options` of the call. The result of each: outputs,
gradients of inputs and of parameters (of the sum of outputs times cosines of their positions),
and buffers.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch


def _tensor(v: Any) -> Any:
    t = torch.tensor(v)
    return t.float() if t.dtype == torch.float64 else t


def _weights(y: Any) -> Any:
    return torch.cos(torch.arange(y.numel(), dtype=torch.float32)).reshape(y.shape)


def run(case: dict[str, Any]) -> dict[str, Any]:
    """One case."""
    layer = eval(case["make"], {"nn": torch.nn, "tensor": _tensor})
    state = layer.state_dict()
    for name, value in case["parameters"].items():
        state[name] = torch.tensor(value, dtype=state[name].dtype).reshape(state[name].shape)
    layer.load_state_dict(state)
    layer.train(case["train"])
    inputs = [_tensor(v) for v in case["inputs"]]
    for i in case["places"]:
        inputs[i].requires_grad_(True)
    # An operation in between, because a leaf cannot be changed in place.
    out = layer(*[t * 1 if t.is_floating_point() else t for t in inputs], **case["options"])
    outs = list(out) if isinstance(out, tuple) else [out]
    total = sum((y * _weights(y)).sum() for y in outs if y.is_floating_point())
    total.backward()
    return {
        "outputs": [y.tolist() for y in outs],
        "inputs": [t.grad.tolist() for t in inputs if t.grad is not None],
        "parameters": {n: p.grad.tolist() for n, p in layer.named_parameters()
                       if p.grad is not None},
        "buffers": {n: b.tolist() for n, b in layer.named_buffers()},
    }


if __name__ == "__main__":
    torch.manual_seed(0)
    print(json.dumps([run(c) for c in json.load(sys.stdin)]))
