"""`mindspore.train`: saving and loading, and the training loop."""

from __future__ import annotations

from ..amp import (
    DynamicLossScaleManager,
    FixedLossScaleManager,
    LossScaleManager,
    build_train_network,
)
from . import callback, metrics
from .callback import *  # noqa: F403
from .convert import ckpt_to_safetensors, safetensors_to_ckpt
from .export import export, load
from .metrics import *  # noqa: F403
from .model import Model
from .serialization import (
    async_ckpt_thread_status,
    load_checkpoint,
    load_checkpoint_async,
    load_param_into_net,
    save_checkpoint,
)

__all__ = [
    *callback.__all__, *metrics.__all__,
    "DynamicLossScaleManager", "FixedLossScaleManager", "LossScaleManager", "Model",
    "async_ckpt_thread_status", "build_train_network", "ckpt_to_safetensors", "export", "load",
    "load_checkpoint", "load_checkpoint_async", "load_param_into_net", "safetensors_to_ckpt",
    "save_checkpoint",
]
