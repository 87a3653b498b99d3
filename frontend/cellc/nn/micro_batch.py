"""Networks that see their batch in parts: PipelineCell, GradAccumulationCell and their like.

Source: the same names in `mindspore.nn`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.declared import POSITIVE, instance
from ..ops.arguments import ranked
from ..ops.micro_batches import for_graph_mode, micro_batch, micro_result
from ..ranks.settings import get_auto_parallel_context
from ..tensors.tensor import Tensor
from .cell import Cell
from .grad_reducer import stage_reducer
from .layer.basic import Identity


class _InParts(Cell):
    """A network called on equal parts of its batch; its results are added.

    The gradients of the sum are those of the parts, accumulated: memory of one part at a time in
    PyNative mode, one graph in graph mode.
    """

    def __init__(self, network: Cell, parts: int, name: str) -> None:
        super().__init__(auto_prefix=False)
        what = self.cls_name
        instance(Cell)(network, what, "network")
        self.network = network
        self.parts: int = POSITIVE(parts, what, name)

    def construct(self, *inputs: Any) -> Any:
        """The sum over the parts."""
        rows = [ranked(x, 1, None, self.cls_name, f"inputs[{i}]").shape[0]
                for i, x in enumerate(inputs)]
        for n in rows:
            if n % self.parts != 0:
                raise ValueError("For micro batch initialization, the 0th dimension shape of input "
                                 "must be divided by the number of parts")
        total = self._of_part(inputs, 0)
        for i in range(1, self.parts):
            total = total + self._of_part(inputs, i)
        return total

    def _of_part(self, inputs: Sequence[Tensor], index: int) -> Any:
        given = [micro_batch(x, index, self.parts) for x in inputs]
        return micro_result(self.network(*given), index)


class GradAccumulationCell(_InParts):
    """A network (that gives a loss) called on parts of its batch, whose results are added.

    Args:
        network: the network.
        micro_size: how many parts; it divides the batch.
    """

    def __init__(self, network: Cell, micro_size: int) -> None:
        super().__init__(network, micro_size, "micro_size")


class PipelineCell(_InParts):
    """A network in stages, called on parts of its batch (micro-batches), whose results are added.

    With `pipeline_stages` in `set_auto_parallel_context` the processes work on one stage each, on
    one micro-batch after the other; the last stage has the result, others get zeros. The bits are
    those of one process.

    Args:
        network: the network.
        micro_size: how many parts; it divides the batch and is at least the number of stages.
        stage_config: stages by the names of Cells, instead of their `pipeline_stage`.
        segment_config: of a schedule that is not there; None.

    Raises:
        KeyError: `stage_config` names no Cell of the network.
        RuntimeError: `segment_config` is given.

    Source: `mindspore.nn.PipelineCell`, `mindspore.parallel.nn.Pipeline`.

    Examples:
        >>> step = nn.TrainOneStepCell(nn.PipelineCell(losses, 4), optimizer)
    """

    def __init__(
        self, network: Cell, micro_size: int, stage_config: Any = None, segment_config: Any = None
    ) -> None:
        super().__init__(network, micro_size, "micro_size")
        self.micro_size = self.parts
        if segment_config is not None:
            raise RuntimeError(
                f"For '{self.cls_name}', 'segment_config' belongs to the schedule 'zero_bubble_v', "
                "which is not there: leave it out.")
        cells = dict(network.cells_and_names())
        for name, stage in (stage_config or {}).items():
            if name not in cells:
                raise KeyError(
                    f"For '{self.cls_name}', 'stage_config' names the Cell {name!r}, but the "
                    f"network has {', '.join(repr(n) for n in cells if n)}.")
            cells[name].pipeline_stage = stage


class MicroBatchInterleaved(_InParts):
    """A network called on parts of its batch, whose results are added.

    Args:
        network: the network.
        interleave_num: how many parts; it divides the batch.
    """

    def __init__(self, network: Cell, interleave_num: int = 2) -> None:
        super().__init__(network, interleave_num, "interleave_num")


class PipelineGradReducer(Cell):
    """Gradients of a pipeline, summed over the processes that work on one stage.

    Those of micro-batches are summed already.

    Args:
        parameters: whose gradients they are.
        scale_sense: what the loss was multiplied by.
        opt_shard: whether the optimizer's state is sharded over processes: it is not.

    Raises:
        RuntimeError: stages of a pipeline are requested outside of graph mode, or `opt_shard`.
    """

    def __init__(self, parameters: Any, scale_sense: float = 1.0, opt_shard: Any = None) -> None:
        super().__init__(auto_prefix=False)
        for_graph_mode("gradients")
        stages = get_auto_parallel_context("pipeline_stages")
        if opt_shard and stages > 1:
            raise RuntimeError("For 'PipelineGradReducer', opt_shard=True parts the optimizer's "
                               "state among processes, which stages of a pipeline do not do.")
        self.scale_sense = scale_sense
        self.grad_reducer = stage_reducer(parameters) if stages > 1 else Identity()

    def construct(self, grads: Any) -> Any:
        """The gradients over the scale."""
        grads = self.grad_reducer(grads)
        if self.scale_sense == 1.0:
            return grads
        return tuple([g / self.scale_sense for g in grads])


__all__ = ["GradAccumulationCell", "MicroBatchInterleaved", "PipelineCell", "PipelineGradReducer"]
