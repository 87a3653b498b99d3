"""Settings of parallel training: recorded and checked. MPI alone gives a process its rank.

Sources: `mindspore.set_auto_parallel_context`, `set_ps_context`, `set_algo_parameters`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cellc_runtime.world import world

from ..context import OPTIONS
from ..core.declared import instance
from ..core.invalidation import changed
from .fusion import checked_indices, merged
from .layout import check_strategy


class ParallelMode:
    """How networks are cut for several devices."""

    STAND_ALONE = "stand_alone"
    DATA_PARALLEL = "data_parallel"
    HYBRID_PARALLEL = "hybrid_parallel"
    SEMI_AUTO_PARALLEL = "semi_auto_parallel"
    AUTO_PARALLEL = "auto_parallel"
    MODE_LIST = [STAND_ALONE, DATA_PARALLEL, HYBRID_PARALLEL, SEMI_AUTO_PARALLEL, AUTO_PARALLEL]


_MODES = tuple(ParallelMode.MODE_LIST)
_SEARCHES = ("recursive_programming", "dynamic_programming", "sharding_propagation")
_SCHEDULES = ("1f1b", "gpipe", "seqpipe", "seqvpp", "seqsmartvpp", "zero_bubble_v")
_HERE = _SCHEDULES[:2]  # The schedules of pipelines that there are here
_FUSED = {"mode": "auto", "config": None}
_DEFAULTS: dict[str, Any] = {
    "device_num": 1, "global_rank": 0, "gradients_mean": False, "gradient_fp32_sync": True,
    "loss_repeated_mean": True, "parallel_mode": "stand_alone",
    "search_mode": "recursive_programming", "auto_parallel_search_mode": "recursive_programming",
    "parameter_broadcast": False, "strategy_ckpt_load_file": "", "strategy_ckpt_save_file": "",
    "full_batch": False, "dataset_strategy": "data_parallel", "enable_parallel_optimizer": False,
    "force_fp32_communication": False, "enable_alltoall": False, "all_reduce_fusion_config": [],
    "pipeline_stages": 1, "pipeline_interleave": False, "pipeline_scheduler": "1f1b",
    "pipeline_result_broadcast": False,
    "auto_pipeline": False, "optimizer_weight_shard_size": -1, "grad_accumulation_step": 1,
    "communi_parallel_mode": "all_group_parallel", "sharding_propagation": False,
    "comm_fusion": {"openstate": True, "allreduce": _FUSED, "allgather": _FUSED,
                    "reducescatter": _FUSED},
    "strategy_ckpt_config": {"load_file": "", "save_file": "", "only_trainable_params": True},
}
NAMES = frozenset(_DEFAULTS)  # Settings that have a value at first
_CUTTING = (ParallelMode.SEMI_AUTO_PARALLEL, ParallelMode.AUTO_PARALLEL)
"""The modes in which networks are cut over processes."""
_ONLY_SET = ("pipeline_config", "parallel_optimizer_config", "group_ckpt_save_file",
             "optimizer_level", "op_strategy_config")
_CHOICES: dict[str, tuple[str, ...]] = {
    "parallel_mode": _MODES, "search_mode": _SEARCHES, "auto_parallel_search_mode": _SEARCHES,
    "pipeline_scheduler": _SCHEDULES,
    "communi_parallel_mode": ("all_group_parallel", "same_server_group_parallel",
                              "no_group_parallel"),
}
_SHARDING: dict[str, Any] = {
    "gradient_accumulation_shard": False, "parallel_optimizer_threshold": 64,
    "optimizer_weight_shard_size": -1, "optimizer_level": "level1",
}
"""The keys of `parallel_optimizer_config`, with their defaults."""
_LEVELS = ("level1", "level2", "level3")
_ONE = {"device_num": 1, "global_rank": 0}  # The values that one process with one device fixes
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
        raise TypeError(f"For '{what}', the parameter '{name}' must be {type(default).__name__}, "
                        f"but got {type(value).__name__} {value!r}.")


def _of_world(name: str) -> int:
    """Return a value that the launcher fixes."""
    here = world()
    return here.size if name == "device_num" else here.rank


def _here() -> str:
    count = world().size
    return "cellc trains on one device in one process" if count == 1 else \
        f"{count} processes with one device each were started"


def _checked(name: str, value: Any) -> None:
    what = "set_auto_parallel_context"
    if name == "parallel_optimizer_config":
        _checked_sharding(value)
    elif name == "pipeline_config":
        _pipeline(value, what)
    elif name == "group_ckpt_save_file":
        _kind(name, value, "", what)
    if name in _ONLY_SET:
        return
    _kind(name, value, _DEFAULTS[name], what)
    if name == "strategy_ckpt_config":
        _checked_files(value, what)
    if name in _CHOICES and value not in _CHOICES[name]:
        raise ValueError(f"For '{what}', '{name}' must be one of {_CHOICES[name]}, but got "
                         f"{value!r}.")
    if name in _ONE:
        _checked_of_world(name, value, what)
    elif name == "all_reduce_fusion_config":
        checked_indices(value, name)
    elif name == "pipeline_scheduler" and value not in _HERE:
        raise RuntimeError(
            f"For '{what}', the schedule {value!r} is not there: use one of {_HERE}.")
    elif name == "dataset_strategy":
        _checked_data(name, value, what)
    elif name in ("grad_accumulation_step", "pipeline_stages") and value < 1:
        raise ValueError(f"For '{what}', '{name}' must be positive, but got {value}.")


def _checked_of_world(name: str, value: int, what: str) -> None:
    if value < _ONE[name]:
        raise ValueError(f"For '{what}', '{name}' must be at least {_ONE[name]}, but got {value}.")
    if value > _ONE[name] and value != _of_world(name):
        raise RuntimeError(f"For '{what}', {name}={value} asks for several devices, but {_here()}: "
                           f"leave it out, or set {_of_world(name)}.")


def _checked_data(name: str, value: Any, what: str) -> None:
    if isinstance(value, str) and value not in ("data_parallel", "full_batch"):
        raise ValueError(f"For '{what}', '{name}' must be 'data_parallel' or 'full_batch', or "
                         f"a tuple, but got {value!r}.")
    if isinstance(value, tuple):
        check_strategy(value, name, what)


def _checked_sharding(config: Any) -> None:
    """Raise unless it can be the `parallel_optimizer_config`."""
    what = "parallel_optimizer_config"
    instance(dict)(config, "set_auto_parallel_context", what)
    for name, value in config.items():
        if name not in _SHARDING:
            raise ValueError(f"Unknown config: {[name]}. '{what}' may have {sorted(_SHARDING)}.")
        _kind(name, value, _SHARDING[name], what)
    threshold, size, level = (config.get(n, _SHARDING[n]) for n in list(_SHARDING)[1:])
    if threshold < 0 or (size < 1 and size != -1):
        raise ValueError(
            f"For '{what}', 'parallel_optimizer_threshold' must not be negative and "
            "'optimizer_weight_shard_size' must be positive or -1, but got "
            f"{threshold} and {size}.")
    if level not in _LEVELS:
        raise ValueError(f"Optimizer level should in {list(_LEVELS)}, but got {level!r}.")
    if config.get("gradient_accumulation_shard") and config.get("optimizer_level", "") in \
            ("level1", "level3"):
        raise ValueError(f"For '{what}', gradient_accumulation_shard=True is 'level2', but "
                         f"'optimizer_level' is {level!r}.")
    if level == "level3" and world().size > 1:
        raise RuntimeError(f"For '{what}', optimizer_level='level3' parts the weights among "
                           f"{world().size} processes, which cellc does not do: use 'level2'.")


def optimizer_sharding(name: str) -> Any:
    """A setting of `parallel_optimizer_config`, or what it is without one."""
    given = _context.get("parallel_optimizer_config", {})
    if name == "gradient_accumulation_shard":
        return given.get(name, given.get("optimizer_level") == "level2")
    if name == "optimizer_weight_shard_size" and name not in given:
        return _context[name]
    return given.get(name, _SHARDING[name])


def _checked_files(config: Mapping[str, Any], what: str) -> None:
    """Check `strategy_ckpt_config`."""
    known = _DEFAULTS["strategy_ckpt_config"]
    for name, value in config.items():
        if name not in known:
            raise ValueError(f"For '{what}', 'strategy_ckpt_config' has no {name!r}: its keys are "
                             f"{', '.join(map(repr, known))}.")
        _kind(name, value, known[name], what)


def _pipeline(config: Any, what: str) -> None:
    """Check `pipeline_config`: how stages take turns."""
    instance(dict)(config, what, "pipeline_config")
    for name, value in config.items():
        if name not in ("pipeline_interleave", "pipeline_scheduler"):
            raise ValueError(f"For '{what}', 'pipeline_config' has no {name!r}: its keys are "
                             "'pipeline_interleave' and 'pipeline_scheduler'.")
        _checked(name, value)


def set_auto_parallel_context(**kwargs: Any) -> None:
    """Record settings of parallel training. In one process most modes compute the same; over
    several, graphs are cut in the modes `"semi_auto_parallel"` and `"auto_parallel"`.

    `pipeline_stages` cuts networks into stages, one for each group of processes; how they take
    turns is `pipeline_config={"pipeline_scheduler": "1f1b" or "gpipe", "pipeline_interleave":
    whether a stage may be passed more than once}`.

    Raises:
        ValueError: an unknown setting, or a value that is none of its choices.
        KeyError: an unknown collective or mode in `comm_fusion`.
        RuntimeError: several devices are requested.
    """
    for name, value in kwargs.items():
        if name not in _DEFAULTS and name not in _ONLY_SET:
            raise ValueError(f"Set context keyword {name} is not recognized! There are "
                             f"{', '.join(sorted((*_DEFAULTS, *_ONLY_SET)))}.")
        _checked(name, value)
    if "comm_fusion" in kwargs:
        kwargs["comm_fusion"] = merged(_context["comm_fusion"], kwargs["comm_fusion"])
    if "strategy_ckpt_config" in kwargs:
        kwargs["strategy_ckpt_config"] = {
            **_context["strategy_ckpt_config"], **kwargs["strategy_ckpt_config"]}
    _context.update(kwargs)
    _context.update(kwargs.get("pipeline_config", {}))
    changed(OPTIONS, "ranks")


class _Within(threading.local):
    """Settings that hold for what this thread does just now."""

    values: Mapping[str, Any] = {}


_within = _Within()


@contextmanager
def parallel_within(**settings: Any) -> Iterator[None]:
    """Within the block, settings that hold for this thread."""
    saved = _within.values
    _within.values = {**saved, **settings}
    try:
        yield
    finally:
        _within.values = saved


def divides_networks() -> bool:
    """Whether no rank has all of a network: it is cut over ranks, or its stages are."""
    return world().size > 1 and get_auto_parallel_context("parallel_mode") in _CUTTING


def cuts_networks() -> bool:
    """Whether ops are cut over ranks: several run, or work on a stage, and the mode says so."""
    return world().size > _context["pipeline_stages"] and divides_networks()


def ranks_of_a_stage() -> int:
    """How many ranks work on a stage of the pipeline; all without one."""
    return world().size // stages()


def get_auto_parallel_context(attr_key: str) -> Any:
    """A setting of parallel training.

    Raises:
        ValueError: there is none of that name.
    """
    if attr_key not in _DEFAULTS:
        raise ValueError(f"Get context keyword {attr_key} is not recognized!")
    if attr_key in _within.values:
        return _within.values[attr_key]
    return _of_world(attr_key) if attr_key in _ONE else _context[attr_key]


def reset_auto_parallel_context() -> None:
    """The settings of parallel training as they are at first."""
    _context.clear()
    _context.update(_DEFAULTS)
    changed(OPTIONS, "ranks")


def stages() -> int:
    """How many stages a pipeline has, checked against the processes that there are. Raises
    RuntimeError if the processes cannot be shared out among them, or the mode is none that cuts
    networks."""
    count: int = _context["pipeline_stages"]
    if count == 1:
        return 1
    if _context["parallel_mode"] not in _CUTTING:
        raise RuntimeError(
            f"pipeline_stages={count} cuts a network into stages, which is for the modes "
            f"{' and '.join(map(repr, _CUTTING))}, but parallel_mode is "
            f"{_context['parallel_mode']!r}: set it with set_auto_parallel_context.")
    if world().size % count:
        raise RuntimeError(
            f"{world().size} process{'es' * (world().size > 1)} cannot be shared out among "
            f"pipeline_stages={count} stages: start a multiple of {count} (mpirun -n {count}), and "
            "call init() first.")
    return count


def of_stage(stage: int) -> tuple[int, ...]:
    """The ranks of a stage: consecutive ones."""
    count = world().size // stages()
    return tuple(range(stage * count, (stage + 1) * count))


def own_stage() -> int:
    """The stage that this process works on."""
    return world().rank * stages() // world().size


def set_ps_context(**kwargs: Any) -> None:
    """Record settings of parameter servers, of which there are none.

    Raises:
        RuntimeError: `enable_ps` is set.
    """
    for name in kwargs:
        if name not in _PS_DEFAULTS and name not in _PS_ONLY_SET:
            raise ValueError(f"Set PS context keyword {name} is not recognized!")
    if kwargs.get("enable_ps"):
        raise RuntimeError("For 'set_ps_context', enable_ps=True asks for parameter servers, which "
                           "are not there (MindSpore 2.10 has no set_param_ps either): each "
                           "process has all parameters, and parallel_mode='data_parallel' keeps "
                           "them equal.")
    _ps_context.update(kwargs)


def get_ps_context(attr_key: str) -> Any:
    """A setting of parameter servers.

    Raises:
        ValueError: there is none of that name.
    """
    if attr_key not in _PS_DEFAULTS:
        raise ValueError(f"Get PS context keyword {attr_key} is not recognized!")
    return _ps_context[attr_key]


def reset_ps_context() -> None:
    """The settings of parameter servers as they are at first."""
    _ps_context.clear()
    _ps_context.update(_PS_DEFAULTS)


def set_algo_parameters(**kwargs: Any) -> None:
    """Record settings of the search for a parallel strategy, which one device needs none of."""
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
    """
    if attr_key not in _ALGORITHM:
        raise ValueError(f"Get context keyword {attr_key} is not recognized!")
    return _algorithm[attr_key]


def reset_algo_parameters() -> None:
    """The settings of the search as they are at first."""
    _algorithm.update(_ALGORITHM)


__all__ = [
    "ParallelMode", "get_algo_parameters", "get_auto_parallel_context", "get_ps_context",
    "reset_algo_parameters", "reset_auto_parallel_context", "reset_ps_context",
    "set_algo_parameters", "set_auto_parallel_context", "set_ps_context",
]
