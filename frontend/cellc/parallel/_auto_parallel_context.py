"""The settings of parallel training as an object, as scripts ask MindSpore's inner module of this
name for them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..ranks import settings

_FIXED: dict[str, Any] = {
    "auto_parallel_new_interface": False, "enable_all_gather_fusion": False,
    "enable_all_reduce_fusion": False, "enable_fold_pipeline": False,
    "enable_reduce_scatter_fusion": False, "grad_accumulation_shard": False,
    "init_param_in_compile": True, "optimizer_weight_shard_aggregated_save": False,
    "parallel_optimizer_threshold": -1, "pipeline_result_broadcast": False, "pipeline_segments": 1,
    "device_num_is_set": False, "full_batch_is_set": False, "global_rank_is_set": False,
    "parameter_broadcast_is_set": False,
}
"""Settings that one device has no other value of."""
_SPELLED = {"strategy_search_mode": "search_mode"}


class AutoParallelContext:
    """`get_...` and `set_...` for each setting of `set_auto_parallel_context`."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        kind, _, setting = name.partition("_")
        setting = _SPELLED.get(setting, setting)
        if kind == "get" and setting in _FIXED:
            return lambda: _FIXED[setting]
        if kind == "get" and setting in settings.NAMES:
            return lambda: settings.get_auto_parallel_context(setting)
        if kind == "set" and setting in settings.NAMES:
            return lambda value: settings.set_auto_parallel_context(**{setting: value})
        raise AttributeError(f"The settings of parallel training have no {name!r}; see "
                             "set_auto_parallel_context.")

    def get_all_reduce_fusion_split_indices(self, group: str = "") -> list[int]:
        """Where gradients are sharded among sums over devices: nowhere."""
        return list(_splits["indices"])

    def get_all_reduce_fusion_split_sizes(self, group: str = "") -> list[int]:
        """How large the parts of gradients are: there is one."""
        return list(_splits["sizes"])

    def set_all_reduce_fusion_split_indices(self, indices: list[int], group: str = "") -> None:
        """Remember where to part gradients, which one device does not add up with others'."""
        _splits["indices"] = list(indices)

    def set_all_reduce_fusion_split_sizes(self, sizes: list[int], group: str = "") -> None:
        """Remember how to part gradients, which one device does not add up with others'."""
        _splits["sizes"] = list(sizes)

    def set_enable_all_reduce_fusion(self, enable_all_reduce_fusion: bool) -> None:
        """Accepted for compatibility: there is nothing to add up."""

    def reset(self) -> None:
        """All settings as they are at first."""
        settings.reset_auto_parallel_context()
        _splits.update(indices=[], sizes=[])


_splits: dict[str, list[int]] = {"indices": [], "sizes": []}
_context = AutoParallelContext()
_set_auto_parallel_context = settings.set_auto_parallel_context
_get_auto_parallel_context = settings.get_auto_parallel_context
_reset_auto_parallel_context = settings.reset_auto_parallel_context


def auto_parallel_context() -> AutoParallelContext:
    """The settings of this process."""
    return _context


def set_op_strategy_config(mode: str = "SAVE", path: str = "") -> None:
    """Name the JSON file that strategies of ops are saved to or loaded from.

    Args:
        mode: "SAVE" or "LOAD".
        path: the file, absolute; its folder is made.

    Raises:
        KeyError: another mode, or the path is not absolute or no `.json`.
    """
    if not os.path.isabs(path):
        raise KeyError("File path must be an absolute path")
    if not path.endswith(".json"):
        raise KeyError("File type must be .json")
    if mode not in ("SAVE", "LOAD"):
        raise KeyError("Type must be 'SAVE' or 'LOAD'")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    settings.set_auto_parallel_context(op_strategy_config={"mode": mode, "path": path})
