"""`mindspore.train`: saving and loading, and the training loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellc_runtime.lazy import names_of, public_names

from ..amp import (
    DynamicLossScaleManager,
    FixedLossScaleManager,
    LossScaleManager,
    build_train_network,
)
from . import callback, metrics
from .callback import *  # noqa: F403
from .convert import ckpt_to_safetensors, safetensors_to_ckpt
from .dataset_helper import DatasetHelper, connect_network_with_dataset, data_sink
from .distributed_checkpoints import (
    build_searched_strategy,
    load_distributed_checkpoint,
    merge_sliced_parameter,
    restore_group_info_list,
)
from .export import export, load
from .metrics import *  # noqa: F403
from .model import Model
from .other_names import (
    SummaryLandscape,
    export_split_mindir,
    get_ckpt_path_with_strategy,
)
from .parts import latest_checkpoint
from .serialization import (
    async_ckpt_thread_status,
    load_checkpoint,
    load_checkpoint_async,
    load_param_into_net,
    save_checkpoint,
)
from .summary import SummaryRecord
from .torch_weights import load_torch_weights
from .train_thor import ConvertModelUtils, ConvertNetUtils

__all__ = [
    "ConvertModelUtils", "ConvertNetUtils", "DatasetHelper", "DynamicLossScaleManager",
    "FixedLossScaleManager", "LossScaleManager", "Model", "SummaryLandscape", "SummaryRecord",
    "async_ckpt_thread_status", "build_searched_strategy", "build_train_network",
    "ckpt_to_safetensors", "connect_network_with_dataset", "data_sink", "export",
    "export_split_mindir", "get_ckpt_path_with_strategy", "latest_checkpoint", "load",
    "load_checkpoint", "load_checkpoint_async", "load_distributed_checkpoint",
    "load_param_into_net", "load_torch_weights", "merge_sliced_parameter",
    "restore_group_info_list", "safetensors_to_ckpt", "save_checkpoint",
]
__all__ += callback.__all__
__all__ += metrics.__all__
__dir__ = public_names(__name__)
if not TYPE_CHECKING:
    __getattr__ = names_of(__name__, {})
