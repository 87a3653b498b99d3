"""What a sample prints when it is run as a script: sizes, losses and times in graph mode."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import cellc as ms


def show(
    net: Any, inputs: Sequence[ms.Tensor], train_step: Callable[[Any], Any],
    batch: Sequence[ms.Tensor],
) -> None:
    """Run a network forward, then train it for five steps on one batch; print how it went."""
    ms.set_context(mode=ms.GRAPH_MODE)
    weights = sum(p.size for p in net.get_parameters())
    print(f"{type(net).__name__}: {weights:,} weights")
    net.set_train(False)
    first, out = _timed(net, inputs)
    again, _ = _timed(net, inputs)
    shapes = ", ".join(f"{t.dtype}{list(t.shape)}" for t in inputs)
    print(f"forward  {shapes} -> {out.dtype}{list(out.shape)}: "
          f"first call {first:.2f} s, then {again * 1e3:.2f} ms")
    step = train_step(net)
    step.set_train()
    times, losses = [], []
    for _ in range(5):
        seconds, loss = _timed(step, batch)
        times.append(seconds)
        losses.append(float(loss.asnumpy()))
    print(f"training losses {' '.join(f'{x:.4f}' for x in losses)}: "
          f"first step {times[0]:.2f} s, then {min(times[1:]) * 1e3:.2f} ms")


def _timed(call: Callable[..., Any], args: Sequence[Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call(*args)
    return time.perf_counter() - start, result
