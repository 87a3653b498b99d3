"""Layouts of tensors over devices, and checkpoints of several ranks. Source: `mindspore.parallel`.
"""

from __future__ import annotations

from cellc_runtime.lazy import facade

from .shard import Layout, shard  # noqa: F401  (at once: a module has the name too)

_HOMES = {
    ".": "| nn",
    "..ranks.settings": "get_algo_parameters reset_algo_parameters set_algo_parameters",
    "..train.distributed_checkpoints":
        "build_searched_strategy load_distributed_checkpoint load_segmented_checkpoints "
        "merge_sliced_parameter parameter_broadcast restore_group_info_list "
        "sync_pipeline_shared_parameters",
    "..train.transforming":
        "convert_checkpoint_by_rank convert_checkpoints merge_pipeline_strategys "
        "rank_list_for_convert rank_list_for_transform transform_checkpoint_by_rank "
        "transform_checkpoints unified_safetensors",
    ".shard": "Layout shard",
    "._auto_parallel_context": "set_op_strategy_config",
}
facade(__name__, _HOMES)
