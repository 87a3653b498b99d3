"""`mindspore.boost`: training with less work.

Functions for clusters of Ascend devices raise when they are called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import no_attribute, public_names

from .core.absent import absent
from .nn import accumulation
from .nn.accumulation import GradientAccumulation
from .nn.boost.freezing import FreezeOpt, GradientFreeze, freeze_cell
from .nn.boost.less_bn import LessBN
from .nn.boost.processes import OptimizerProcess, ParameterProcess
from .nn.boost.training import AutoBoost, BoostTrainOneStepCell

__path__: list[str] = []  # MindSpore has a package here: `old_paths` finds what is below


def _of_clusters(name: str, what: str, instead: str) -> Callable[..., Any]:
    return absent(f"boost.{name}", f"{what}, of clusters of Ascend devices. Use {instead}.",
                  f"Not on one device: it {what}. Use {instead}.")


AdaSum = _of_clusters("AdaSum", "adds up gradients by their directions", "the optimizer itself")
BoostTrainOneStepWithLossScaleCell = _of_clusters(
    "BoostTrainOneStepWithLossScaleCell", "scales the losses of groups",
    "nn.TrainOneStepWithLossScaleCell")
DimReduce = _of_clusters("DimReduce", "trains in a few directions", "BoostTrainOneStepCell")
GroupLossScaleManager = _of_clusters(
    "GroupLossScaleManager", "scales the losses of groups", "amp.DynamicLossScaleManager")

__all__ = [
    "AdaSum", "AutoBoost", "BoostTrainOneStepCell", "BoostTrainOneStepWithLossScaleCell",
    "DimReduce", "FreezeOpt", "GradientAccumulation", "GradientFreeze", "GroupLossScaleManager",
    "LessBN", "OptimizerProcess", "ParameterProcess", "freeze_cell",
]
__dir__ = public_names(__name__)


if not TYPE_CHECKING:
    def __getattr__(name: str) -> Any:
        if name in ("gradient_accumulation_op", "gradient_clear_op"):
            return getattr(accumulation, name)
        raise no_attribute(__name__, name)
