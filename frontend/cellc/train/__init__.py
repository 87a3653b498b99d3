"""`mindspore.train`: saving and loading, and the training loop."""

from __future__ import annotations

from . import metrics
from .convert import ckpt_to_safetensors, safetensors_to_ckpt
from .export import export, load
from .metrics import *  # noqa: F403
from .serialization import (
    async_ckpt_thread_status,
    load_checkpoint,
    load_checkpoint_async,
    load_param_into_net,
    save_checkpoint,
)

__all__ = [
    *metrics.__all__,
    "async_ckpt_thread_status", "ckpt_to_safetensors", "export", "load", "load_checkpoint",
    "load_checkpoint_async", "load_param_into_net", "safetensors_to_ckpt", "save_checkpoint",
]
