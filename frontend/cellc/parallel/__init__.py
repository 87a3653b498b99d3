"""Layouts of tensors over devices, and checkpoints of several ranks. Source: `mindspore.parallel`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cellc_runtime.lazy import lazy_names, public_names

from ..ranks.settings import (
    get_algo_parameters,
    reset_algo_parameters,
    set_algo_parameters,
    set_auto_parallel_context,
)
from .shard import Layout, shard

if TYPE_CHECKING:
    from ..train.distributed_checkpoints import (
        build_searched_strategy,
        load_distributed_checkpoint,
        load_segmented_checkpoints,
        merge_sliced_parameter,
        parameter_broadcast,
        restore_group_info_list,
        sync_pipeline_shared_parameters,
    )
    from ..train.transforming import (
        convert_checkpoint_by_rank,
        convert_checkpoints,
        merge_pipeline_strategys,
        rank_list_for_convert,
        rank_list_for_transform,
        transform_checkpoint_by_rank,
        transform_checkpoints,
        unified_safetensors,
    )


def set_op_strategy_config(mode: str = "SAVE", path: str = "") -> None:
    """Name the JSON file that strategies of ops are saved to or loaded from.

    Args:
        mode: "SAVE" or "LOAD".
        path: the file, absolute; its folder is made.

    Raises:
        KeyError: another mode, or the path is not absolute or no `.json`.

    Source: `mindspore.parallel.set_op_strategy_config`.
    """
    if not os.path.isabs(path):
        raise KeyError("File path must be an absolute path")
    if not path.endswith(".json"):
        raise KeyError("File type must be .json")
    if mode not in ("SAVE", "LOAD"):
        raise KeyError("Type must be 'SAVE' or 'LOAD'")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    set_auto_parallel_context(op_strategy_config={"mode": mode, "path": path})


__all__ = [
    "Layout", "build_searched_strategy", "convert_checkpoint_by_rank",
    "convert_checkpoints", "get_algo_parameters", "load_distributed_checkpoint",
    "load_segmented_checkpoints", "merge_pipeline_strategys", "merge_sliced_parameter",
    "parameter_broadcast", "rank_list_for_convert", "rank_list_for_transform",
    "reset_algo_parameters", "restore_group_info_list", "set_algo_parameters",
    "set_op_strategy_config", "shard", "sync_pipeline_shared_parameters",
    "transform_checkpoint_by_rank", "transform_checkpoints", "unified_safetensors",
]
__dir__ = public_names(__name__)
if not TYPE_CHECKING:  # of modules that build on networks and checkpoints
    __getattr__ = lazy_names("cellc.train", {
        ".distributed_checkpoints":
            "build_searched_strategy load_distributed_checkpoint load_segmented_checkpoints "
            "merge_sliced_parameter parameter_broadcast restore_group_info_list "
            "sync_pipeline_shared_parameters",
        ".transforming":
            "convert_checkpoint_by_rank convert_checkpoints merge_pipeline_strategys "
            "rank_list_for_convert rank_list_for_transform transform_checkpoint_by_rank "
            "transform_checkpoints unified_safetensors",
    })
