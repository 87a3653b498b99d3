"""Made by `docs/make_stubs.py`; do not edit it by hand."""
from . import nn as nn
from ..ranks.settings import get_algo_parameters, reset_algo_parameters, set_algo_parameters
from ..train.distributed_checkpoints import build_searched_strategy, load_distributed_checkpoint, load_segmented_checkpoints, merge_sliced_parameter, parameter_broadcast, restore_group_info_list, sync_pipeline_shared_parameters
from ..train.transforming import convert_checkpoint_by_rank, convert_checkpoints, merge_pipeline_strategys, rank_list_for_convert, rank_list_for_transform, transform_checkpoint_by_rank, transform_checkpoints, unified_safetensors
from ._auto_parallel_context import set_op_strategy_config
from .shard import Layout, shard
__all__ = ['Layout', 'build_searched_strategy', 'convert_checkpoint_by_rank', 'convert_checkpoints', 'get_algo_parameters', 'load_distributed_checkpoint', 'load_segmented_checkpoints', 'merge_pipeline_strategys', 'merge_sliced_parameter', 'parameter_broadcast', 'rank_list_for_convert', 'rank_list_for_transform', 'reset_algo_parameters', 'restore_group_info_list', 'set_algo_parameters', 'set_op_strategy_config', 'shard', 'sync_pipeline_shared_parameters', 'transform_checkpoint_by_rank', 'transform_checkpoints', 'unified_safetensors']
