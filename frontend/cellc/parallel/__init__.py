"""Parallel training, as far as one process with one device has a meaning for it.

Source: `mindspore.parallel`. What only several processes can do is a RuntimeError that says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cellc_runtime.lazy import public_names

from ..core.absent import absent
from ..ranks.settings import get_algo_parameters, reset_algo_parameters, set_algo_parameters
from .layout import Layout


def shard(fn: Any, in_strategy: Any, out_strategy: Any = None, parameter_plan: Any = None) -> Any:
    """The function or Cell itself: one device has all of every tensor.

    Raises:
        TypeError: `fn` is not callable.

    Source: `mindspore.parallel.shard`.
    """
    if not callable(fn):
        raise TypeError(f"For 'shard', 'fn' must be a function or a Cell, but got {type(fn)}.")
    return fn


def parameter_broadcast(net: Any, layout: Any, cur_rank: int = 0, initial_rank: int = 0) -> None:
    """Give parameters to the devices that have the same part: there is one device, which has them.

    Raises:
        ValueError: another rank than 0.

    Source: `mindspore.parallel.parameter_broadcast`.
    """
    if cur_rank != 0 or initial_rank != 0:
        raise ValueError("For 'parameter_broadcast', the ranks must be 0 where one process runs, "
                         f"but got {cur_rank} and {initial_rank}.")


def sync_pipeline_shared_parameters(net: Any) -> None:
    """Give parameters to the stages that share them: there is one stage.

    Source: `mindspore.parallel.sync_pipeline_shared_parameters`.
    """


def _of_several(name: str, what: str) -> Callable[..., Any]:
    return absent(
        name, f"{what} of several devices, but cellc trains on one device, whose checkpoints hold "
        "whole parameters: use save_checkpoint and load_checkpoint.",
        f"Not on one device: it {what} of several.")


build_searched_strategy = _of_several("build_searched_strategy", "reads the strategy")
convert_checkpoint_by_rank = _of_several("convert_checkpoint_by_rank", "converts checkpoints")
convert_checkpoints = _of_several("convert_checkpoints", "converts checkpoints")
load_distributed_checkpoint = _of_several("load_distributed_checkpoint", "loads checkpoints")
load_segmented_checkpoints = _of_several("load_segmented_checkpoints", "loads checkpoints")
merge_pipeline_strategys = _of_several("merge_pipeline_strategys", "merges strategies")
merge_sliced_parameter = _of_several("merge_sliced_parameter", "merges parts of parameters")
rank_list_for_convert = _of_several("rank_list_for_convert", "finds the checkpoints")
rank_list_for_transform = _of_several("rank_list_for_transform", "finds the checkpoints")
restore_group_info_list = _of_several("restore_group_info_list", "reads the groups")
set_op_strategy_config = _of_several("set_op_strategy_config", "keeps strategies")
transform_checkpoint_by_rank = _of_several("transform_checkpoint_by_rank", "converts checkpoints")
transform_checkpoints = _of_several("transform_checkpoints", "converts checkpoints")
unified_safetensors = _of_several("unified_safetensors", "merges checkpoints")

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
