"""FlopsUtilizationCollector: which part of the machine's arithmetic a training uses.

Source: `mindspore.train`.
"""

from __future__ import annotations

import time
from typing import Annotated, Any

from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.op import has_effect
from cellc_compiler.passes.rematerialize import contraction_flops

from ... import context
from ...compiled.traced import trace
from ...core.declared import Flag, Positive, number
from ...core.output import say
from .callback import Callback, RunContext

Peak = Annotated[float, number(0, ends="(]", normal=lambda value: value).always(ValueError)]


class FlopsUtilizationCollector(Callback):
    """Prints the arithmetic of a step's matrix products and convolutions, and their part of a peak.

    Args:
        data_size: after every how many steps to print.
        computility: the peak, in floating-point operations per second.
        full_flops: accepted for compatibility: one device does all of the model.
        enable_ma_collector: accepted for compatibility: there is no such service.

    Raises:
        RuntimeError: the mode is not graph mode (at the first step).
    """

    def __init__(
        self, data_size: Positive, computility: Peak = 1, full_flops: Flag = True,
        enable_ma_collector: Flag = False,
    ) -> None:
        self.data_size, self.computility = data_size, float(computility)
        self.full_flops, self.enable_ma_collector = full_flops, enable_ma_collector
        self.flops: int | None = None
        self._start = 0.0
        self._steps = 0

    def step_begin(self, run_context: RunContext) -> None:
        """Count a step's arithmetic (once) and start the clock.

        Raises:
            RuntimeError: in PyNative mode, where there is no compiled step.
        """
        params = run_context.original_args()
        if self.flops is None:
            if not context.in_graph_mode():
                raise RuntimeError("For 'FlopsUtilizationCollector', the arithmetic is counted in "
                                   "the compiled step: set_context(mode=GRAPH_MODE) first.")
            evaluated = params.get("mode", "eval") == "eval"
            network = params.eval_network if evaluated else params.train_network
            element = params.get("train_dataset_element")
            if element is None:
                return
            self.flops = _graph_flops(trace(network, element, {}).graph)
            n = float(self.flops)
            say(f"Full model flops is {n}, Full hardware flops is {n}, Shard model flops is {n}, "
                f"Shard hardware flops is {n}.")
        if self._steps == 0:
            self._start = time.perf_counter()

    def step_end(self, run_context: RunContext) -> None:
        """Print, after the given number of steps."""
        if self.flops is None:
            return
        self._steps += 1
        if self._steps < self.data_size:
            return
        each = (time.perf_counter() - self._start) / self._steps
        self._steps = 0
        part = self.flops / each / self.computility * 100
        what = "Evaluate" if run_context.original_args().get("mode", "eval") == "eval" else "Train"
        say(f"{what} per step time: {each * 1000:5.3f} ms mfu:{part:.2f}% hfu:{part:.2f}%")


def _graph_flops(graph: Graph) -> int:
    """The arithmetic of the contractions of a graph whose results are used.

    Gradients of the data, say, are traced and nobody asks for them. A loop's body counts for each
    trip known.
    """
    used = {id(v) for v in graph.results()}
    total = 0
    for node in reversed(graph.nodes):
        if not has_effect(node) and not any(id(v) in used for v in node.results):
            continue
        used.update(id(v) for v in node.operands)
        inner = sum(_graph_flops(region) for region in node.regions)
        trips: Any = node.attrs.get("length", 1) if node.op == "scan" else 1
        total += contraction_flops(node) + inner * (trips if isinstance(trips, int) else 1)
    return total


__all__ = ["FlopsUtilizationCollector"]
