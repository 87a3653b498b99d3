"""`build_train_network`: a network with loss, optimizer, mixed precision and loss scale.

Source: `mindspore.amp`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Annotated, Any, cast

from cellc_runtime.dtypes import bfloat16, float16, float32

from ..core.declared import checks_arguments, instance, one_of
from ..nn.cell import Cell
from ..nn.loss_scale import TrainOneStepWithLossScaleCell
from ..nn.wrap import TrainOneStepCell, WithLossCell
from .loss_scale_manager import DynamicLossScaleManager, LossScaleManager
from .precision import LEVELS, auto_mixed_precision

_OPTIONS = {
    "cast_model_type": one_of(None, float16, bfloat16, float32),
    "keep_batchnorm_fp32": instance(bool, NoneType),
    "loss_scale_manager": instance(LossScaleManager, NoneType),
}


@checks_arguments
def build_train_network(
    network: Cell, optimizer: Annotated[Any, instance(Cell, wanted="an Optimizer")],
    loss_fn: Any = None, level: Annotated[str, one_of(*LEVELS)] = "O0",
    boost_level: Annotated[str, one_of("O0", "O1", "O2")] = "O0", **kwargs: Any,
) -> Cell:
    """A Cell that does one training step.

    Args:
        network: the network.
        optimizer: updates its parameters.
        loss_fn: a loss of its output and the label, in float32; None if the network gives the
            loss.
        level: mixed precision, see `auto_mixed_precision`. "O2" scales the loss dynamically.
        boost_level: accepted for compatibility.
        kwargs: what a level would choose otherwise: `cast_model_type` (float16, bfloat16 or
            float32), `keep_batchnorm_fp32` (bool), `loss_scale_manager` (or None).
    """
    for name, value in kwargs.items():
        if name not in _OPTIONS:
            raise ValueError(f"the option {name!r} is not known; there are {', '.join(_OPTIONS)}.")
        _OPTIONS[name](value, "build_train_network", name)
    manager = kwargs.get("loss_scale_manager")
    if level == "O2" and "loss_scale_manager" not in kwargs:
        manager = DynamicLossScaleManager()
    network = _in_precision(network, level, kwargs)
    with_loss = network if loss_fn is None else WithLossCell(network, loss_fn)
    return train_step(with_loss, optimizer, manager).set_train()


def _in_precision(network: Cell, level: str, options: Mapping[str, Any]) -> Cell:
    """The network with the casts of a level, or of the options that replace it."""
    wanted, keep = options.get("cast_model_type"), options.get("keep_batchnorm_fp32")
    if wanted is float32:
        return network
    if keep is not None and (level in ("O2", "O3") or wanted is not None):
        level = "O2" if keep else "O3"
    elif wanted is not None and level not in ("O2", "O3"):
        level = "O3"
    return cast("Cell", auto_mixed_precision(network, level, wanted or float16))


def train_step(network: Any, optimizer: Any, manager: LossScaleManager | None) -> Cell:
    """A training step of a network that gives the loss, scaled as the manager says."""
    if manager is None:
        return TrainOneStepCell(network, optimizer)
    update = manager.get_update_cell()
    if update is None:
        return TrainOneStepCell(network, optimizer, sens=manager.get_loss_scale())
    return TrainOneStepWithLossScaleCell(network, optimizer, scale_sense=update)
