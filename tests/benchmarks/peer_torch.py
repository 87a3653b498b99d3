"""The cases in torch, eager or through torch.compile; also what exports them to ONNX."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from cases import CASES, data
from nets_torch import network
from spec import Case, Data


def build(mode: str, name: str, given: Data) -> Callable[[], Any]:
    """One call of a case."""
    torch.set_num_threads(2)
    torch.set_float32_matmul_precision("highest")
    net, case = network(name, given.weights), CASES[name]
    inputs = [torch.from_numpy(a) for a in given.inputs]
    compiled = mode == "compile"
    if case.kind == "train":
        return _step(net, compiled, inputs, case)
    inputs = [x.to(getattr(torch, case.dtype)) if x.is_floating_point() else x for x in inputs]
    if case.kind == "grad":
        return _gradient(net, compiled, inputs)
    net.eval()
    call = torch.compile(net) if compiled else net

    def run() -> Any:
        with torch.inference_mode():
            return call(*inputs)

    return run


def _gradient(net: Any, compiled: bool, inputs: list[Any]) -> Callable[[], Any]:
    *given, weight = inputs
    given[0].requires_grad_()
    wanted = [given[0], *net.parameters()]

    def loss_of(*x: Any) -> Any:
        return (net(*x) * weight).sum()

    call = torch.compile(loss_of) if compiled else loss_of

    def run() -> Any:
        loss = call(*given)
        return loss.detach(), torch.autograd.grad(loss, wanted)

    return run


def _step(net: Any, compiled: bool, inputs: list[Any], case: Case) -> Callable[[], Any]:
    *given, labels = inputs
    dtype = getattr(torch, case.dtype)
    labels = labels.long().flatten()
    fused = {} if compiled else {"fused": True}
    optimizer: Any
    if case.optimizer == "adam":
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, **fused)
    else:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, **fused)
    net.train()

    def loss_of(*x: Any) -> Any:
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            return F.cross_entropy(net(*x).flatten(0, -2), labels)

    update: Callable[[], Any] = optimizer.step
    if compiled:
        loss_of, update = torch.compile(loss_of), torch.compile(update)

    def run() -> Any:
        optimizer.zero_grad()
        loss = loss_of(*given)
        loss.backward()
        update()
        return loss.item()

    return run


def export(name: str, path: Path) -> None:
    """Write a case for inference as ONNX, weights beside it."""
    given = data(name)
    net = network(name, given.weights).eval()
    inputs = tuple(torch.from_numpy(a) for a in given.inputs)
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.onnx.export(net, inputs, str(path), dynamo=True, external_data=True, verbose=False)


if __name__ == "__main__":
    export(sys.argv[1], Path(sys.argv[2]))
