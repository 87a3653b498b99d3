"""Settings of parallel training: recorded and checked. What a process is one of is MPI's to say.

Sources: `mindspore.set_auto_parallel_context`, `set_ps_context`, `set_algo_parameters`.
"""

from __future__ import annotations

from typing import Any

from cellc_runtime.world import world


class ParallelMode:
    """How networks are cut for several devices. Source: `mindspore.ParallelMode`."""

    STAND_ALONE = "stand_alone"
    DATA_PARALLEL = "data_parallel"
    HYBRID_PARALLEL = "hybrid_parallel"
    SEMI_AUTO_PARALLEL = "semi_auto_parallel"
    AUTO_PARALLEL = "auto_parallel"
    MODE_LIST = [STAND_ALONE, DATA_PARALLEL, HYBRID_PARALLEL, SEMI_AUTO_PARALLEL, AUTO_PARALLEL]


_MODES = tuple(ParallelMode.MODE_LIST)
_SEARCHES = ("recursive_programming", "dynamic_programming", "sharding_propagation")
_FUSED = {"mode": "auto", "config": None}
_DEFAULTS: dict[str, Any] = {
    "device_num": 1, "global_rank": 0, "gradients_mean": False, "gradient_fp32_sync": True,
    "loss_repeated_mean": True, "parallel_mode": "stand_alone",
    "search_mode": "recursive_programming", "auto_parallel_search_mode": "recursive_programming",
    "parameter_broadcast": False, "strategy_ckpt_load_file": "", "strategy_ckpt_save_file": "",
    "full_batch": False, "dataset_strategy": "data_parallel", "enable_parallel_optimizer": False,
    "force_fp32_communication": False, "enable_alltoall": False, "all_reduce_fusion_config": [],
    "pipeline_stages": 1, "pipeline_interleave": False, "pipeline_scheduler": "1f1b",
    "auto_pipeline": False, "optimizer_weight_shard_size": -1, "grad_accumulation_step": 1,
    "communi_parallel_mode": "all_group_parallel", "sharding_propagation": False,
    "comm_fusion": {"openstate": True, "allreduce": _FUSED, "allgather": _FUSED,
                    "reducescatter": _FUSED},
    "strategy_ckpt_config": {"load_file": "", "save_file": "", "only_trainable_params": True},
}
NAMES = frozenset(_DEFAULTS)
"""Settings that have a value at first."""
_ONLY_SET = ("pipeline_config", "parallel_optimizer_config", "group_ckpt_save_file",
             "optimizer_level")
_CHOICES: dict[str, tuple[str, ...]] = {
    "parallel_mode": _MODES, "search_mode": _SEARCHES, "auto_parallel_search_mode": _SEARCHES,
    "pipeline_scheduler": ("1f1b", "gpipe", "seqpipe", "seqvpp", "seqsmartvpp", "zero_bubble_v"),
    "communi_parallel_mode": ("all_group_parallel", "same_server_group_parallel",
                              "no_group_parallel"),
}
_ONE = {"device_num": 1, "pipeline_stages": 1, "global_rank": 0}
"""What one process with one device fixes."""
_PS_DEFAULTS = {"enable_ps": False, "config_file_path": "", "enable_ssl": False}
_PS_ONLY_SET = ("scheduler_manage_port", "client_password", "server_password")
_ALGORITHM = {
    "fully_use_devices": False, "elementwise_op_strategy_follow": False,
    "enable_algo_approxi": False, "algo_approxi_epsilon": 0.1, "tensor_slice_align_enable": False,
    "tensor_slice_align_size": 16,
}
_context = dict(_DEFAULTS)
_ps_context: dict[str, Any] = dict(_PS_DEFAULTS)
_algorithm: dict[str, Any] = dict(_ALGORITHM)


def _kind(name: str, value: Any, default: Any, what: str) -> None:
    kinds: Any = type(default)
    if isinstance(default, float):
        kinds = (int, float)
    elif name == "dataset_strategy":
        kinds = (str, tuple)
    wrong = not isinstance(value, kinds)
    if wrong or (isinstance(value, bool) and not isinstance(default, bool)):
        raise TypeError(
            f"For '{what}', the parameter '{name}' must be {type(default).__name__}, but got "
            f"{type(value).__name__} {value!r}."
        )


def _of_world(name: str) -> int:
    """What the launcher fixes."""
    here = world()
    return {"device_num": here.size, "global_rank": here.rank}.get(name, 1)


def _here() -> str:
    count = world().size
    return "cellc trains on one device in one process" if count == 1 else \
        f"{count} processes with one device each were started"


def _checked(name: str, value: Any) -> None:
    what = "set_auto_parallel_context"
    if name in _ONLY_SET:
        return
    _kind(name, value, _DEFAULTS[name], what)
    if name in _CHOICES and value not in _CHOICES[name]:
        raise ValueError(f"For '{what}', '{name}' must be one of {_CHOICES[name]}, but got "
                         f"{value!r}.")
    if name in _ONE:
        if value < _ONE[name]:
            raise ValueError(f"For '{what}', '{name}' must be at least {_ONE[name]}, but got "
                             f"{value}.")
        if value > _ONE[name] and value != _of_world(name):
            raise RuntimeError(
                f"For '{what}', {name}={value} asks for several devices, but {_here()}: leave it "
                f"out, or set {_of_world(name)}."
            )
    elif name == "grad_accumulation_step" and value < 1:
        raise ValueError(f"For '{what}', '{name}' must be positive, but got {value}.")


def set_auto_parallel_context(**kwargs: Any) -> None:
    """Record settings of parallel training. In one process all modes compute the same.

    Raises:
        TypeError: a value of a wrong kind.
        ValueError: an unknown setting, or a value that is none of its choices.
        RuntimeError: several devices are asked for.

    Source: `mindspore.set_auto_parallel_context`.
    """
    for name, value in kwargs.items():
        if name not in _DEFAULTS and name not in _ONLY_SET:
            raise ValueError(f"Set context keyword {name} is not recognized! There are "
                             f"{', '.join(sorted((*_DEFAULTS, *_ONLY_SET)))}.")
        _checked(name, value)
    _context.update(kwargs)


def get_auto_parallel_context(attr_key: str) -> Any:
    """A setting of parallel training.

    Raises:
        ValueError: there is none of that name.

    Source: `mindspore.get_auto_parallel_context`.
    """
    if attr_key not in _DEFAULTS:
        raise ValueError(f"Get context keyword {attr_key} is not recognized!")
    return _of_world(attr_key) if attr_key in _ONE else _context[attr_key]


def reset_auto_parallel_context() -> None:
    """The settings of parallel training as they are at first.

    Source: `mindspore.reset_auto_parallel_context`.
    """
    _context.clear()
    _context.update(_DEFAULTS)


def set_ps_context(**kwargs: Any) -> None:
    """Record settings of parameter servers, which one process has none of.

    Raises:
        ValueError: an unknown setting.
        RuntimeError: `enable_ps` is set.

    Source: `mindspore.set_ps_context`.
    """
    for name in kwargs:
        if name not in _PS_DEFAULTS and name not in _PS_ONLY_SET:
            raise ValueError(f"Set PS context keyword {name} is not recognized!")
    if kwargs.get("enable_ps"):
        raise RuntimeError(
            "For 'set_ps_context', enable_ps=True asks for parameter servers in other processes, "
            "but cellc trains in one process."
        )
    _ps_context.update(kwargs)


def get_ps_context(attr_key: str) -> Any:
    """A setting of parameter servers.

    Raises:
        ValueError: there is none of that name.

    Source: `mindspore.get_ps_context`.
    """
    if attr_key not in _PS_DEFAULTS:
        raise ValueError(f"Get PS context keyword {attr_key} is not recognized!")
    return _ps_context[attr_key]


def reset_ps_context() -> None:
    """The settings of parameter servers as they are at first."""
    _ps_context.clear()
    _ps_context.update(_PS_DEFAULTS)


def set_algo_parameters(**kwargs: Any) -> None:
    """Record settings of the search for a parallel strategy, which one device needs none of.

    Raises:
        TypeError: a value of a wrong kind.
        ValueError: an unknown setting, or a value out of range.

    Source: `mindspore.parallel.set_algo_parameters`.
    """
    for name, value in kwargs.items():
        if name not in _ALGORITHM:
            raise ValueError(f"Set context keyword {name} is not recognized!")
        _kind(name, value, _ALGORITHM[name], "set_algo_parameters")
        if name == "tensor_slice_align_size" and not 1 <= value <= 1024:
            raise ValueError(f"For 'set_algo_parameters', '{name}' must be in [1, 1024], but got "
                             f"{value}.")
    _algorithm.update(kwargs)


def get_algo_parameters(attr_key: str) -> Any:
    """A setting of the search for a parallel strategy.

    Raises:
        ValueError: there is none of that name.

    Source: `mindspore.parallel.get_algo_parameters`.
    """
    if attr_key not in _ALGORITHM:
        raise ValueError(f"Get context keyword {attr_key} is not recognized!")
    return _algorithm[attr_key]


def reset_algo_parameters() -> None:
    """The settings of the search as they are at first.

    Source: `mindspore.parallel.reset_algo_parameters`.
    """
    _algorithm.update(_ALGORITHM)




__all__ = [
    "ParallelMode", "get_algo_parameters", "get_auto_parallel_context", "get_ps_context",
    "reset_algo_parameters", "reset_auto_parallel_context", "reset_ps_context",
    "set_algo_parameters", "set_auto_parallel_context", "set_ps_context",
]
