"""Networks that see their batch in parts: GradAccumulationCell and its like, on one device."""

from __future__ import annotations

from typing import Any

from ..core import checks
from .cell import Cell


class _InParts(Cell):
    """A network called on equal parts of its batch; its results are added.

    The gradients of the sum are those of the parts, accumulated: memory of one part at a time in
    PyNative mode, one graph in graph mode.
    """

    def __init__(self, network: Cell, parts: int, name: str) -> None:
        super().__init__(auto_prefix=False)
        what = self.cls_name
        if not isinstance(network, Cell):
            raise TypeError(f"For '{what}', the argument 'network' must be a Cell, but got the "
                            f"type : {type(network)}.")
        if not checks.is_int(parts):
            raise TypeError(f"For '{what}', the argument '{name}' must be integer, but got the "
                            f"type : {type(parts)}.")
        if parts <= 0:
            raise ValueError(f"For '{what}', the argument '{name}' must be large than 0, but got "
                             f"{parts}.")
        self.network = network
        self.parts = int(parts)

    def construct(self, *inputs: Any) -> Any:
        """The sum over the parts."""
        rows = [x.shape[0] for x in inputs]
        for n in rows:
            if n % self.parts != 0:
                raise ValueError(
                    "For micro batch initialization, the 0th dimension shape of input must be "
                    "divided by the number of parts"
                )
        total = self.network(*[x[: n // self.parts] for x, n in zip(inputs, rows, strict=True)])
        for i in range(1, self.parts):
            part = [x[i * n // self.parts : (i + 1) * n // self.parts]
                    for x, n in zip(inputs, rows, strict=True)]
            total = total + self.network(*part)
        return total


class GradAccumulationCell(_InParts):
    """A network (that gives a loss) called on parts of its batch, whose results are added.

    Args:
        network: the network.
        micro_size: how many parts; it divides the batch.

    Raises:
        TypeError, ValueError: an argument is wrong, or the batch is not divided (at the call).

    Source: `mindspore.nn.GradAccumulationCell`.
    """

    def __init__(self, network: Cell, micro_size: int) -> None:
        super().__init__(network, micro_size, "micro_size")


class PipelineCell(_InParts):
    """A network in stages over devices, here one: called on parts of its batch, which are added.

    Args:
        network: the network.
        micro_size: how many parts; it divides the batch.
        stage_config, segment_config: accepted for compatibility: there is one stage.

    Raises:
        TypeError, ValueError: an argument is wrong, or the batch is not divided (at the call).

    Source: `mindspore.nn.PipelineCell`.
    """

    def __init__(
        self, network: Cell, micro_size: int, stage_config: Any = None, segment_config: Any = None
    ) -> None:
        super().__init__(network, micro_size, "micro_size")


class MicroBatchInterleaved(_InParts):
    """A network called on parts of its batch, whose results are added.

    Args:
        network: the network.
        interleave_num: how many parts; it divides the batch.

    Raises:
        TypeError, ValueError: an argument is wrong, or the batch is not divided (at the call).

    Source: `mindspore.nn.MicroBatchInterleaved`.
    """

    def __init__(self, network: Cell, interleave_num: int = 2) -> None:
        super().__init__(network, interleave_num, "interleave_num")


class PipelineGradReducer(Cell):
    """Gradients of parts of a batch summed: they are already. Source: `nn.PipelineGradReducer`.

    Args:
        parameters, scale_sense, opt_shard: accepted for compatibility.
    """

    def __init__(self, parameters: Any, scale_sense: float = 1.0, opt_shard: Any = None) -> None:
        super().__init__(auto_prefix=False)
        self.scale_sense = scale_sense

    def construct(self, grads: Any) -> Any:
        """The gradients over the scale."""
        if self.scale_sense == 1.0:
            return grads
        return tuple([g / self.scale_sense for g in grads])


__all__ = [
    "GradAccumulationCell", "MicroBatchInterleaved", "PipelineCell",
    "PipelineGradReducer",
]
