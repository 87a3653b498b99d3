"""Questions about parallel training that scripts ask MindSpore's inner module `parallel._utils`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..ranks import settings

T = TypeVar("T")
_MODE = settings.ParallelMode
_setting = settings.get_auto_parallel_context


def _reader(name: str, kind: type[T]) -> Callable[[], T]:
    """The function that gives a setting."""
    return lambda: kind(_setting(name))  # type: ignore[call-arg]  # bool, int and str take one


_get_parallel_mode = _reader("parallel_mode", str)
_is_sharding_propagation = _reader("sharding_propagation", bool)
_get_full_batch = _reader("full_batch", bool)
_get_pipeline_stages = _reader("pipeline_stages", int)
_get_gradients_mean = _reader("gradients_mean", bool)
_get_device_num = _reader("device_num", int)
_get_global_rank = _reader("global_rank", int)
_get_parameter_broadcast = _reader("parameter_broadcast", bool)
_get_enable_parallel_optimizer = _reader("enable_parallel_optimizer", bool)


def _is_in_auto_parallel_mode() -> bool:
    return _get_parallel_mode() in (_MODE.SEMI_AUTO_PARALLEL, _MODE.AUTO_PARALLEL)


def _is_parallel_mode() -> bool:
    """Whether a network is cut for several devices: there is one."""
    return False


def _is_in_data_parallel_mode() -> bool:
    return _get_parallel_mode() == _MODE.DATA_PARALLEL


def _is_in_hybrid_parallel_mode() -> bool:
    return _get_parallel_mode() == _MODE.HYBRID_PARALLEL


def _need_to_full() -> bool:
    """Whether each process gives a network that is cut its own part of a batch."""
    own = not _get_full_batch() or not isinstance(_setting("dataset_strategy"), str)
    return _is_in_auto_parallel_mode() and own


def _get_stage_device_num() -> int:
    return _get_device_num() // _get_pipeline_stages()


def _get_grad_accumulation_shard() -> bool:
    """Whether accumulated gradients are sharded over devices."""
    return bool(settings.optimizer_sharding("gradient_accumulation_shard"))


def _device_number_check(parallel_mode: str, device_number: int) -> None:
    """Raise unless a mode of one device has one."""
    if parallel_mode == _MODE.STAND_ALONE and device_number != 1:
        raise ValueError(f"If parallel_mode is {parallel_mode!r}, device_number must be 1, but got "
                         f"{device_number}.")


def _parameter_broadcast_check(parallel_mode: str, parameter_broadcast: bool) -> None:
    """Raise if one device is to send its parameters."""
    if parameter_broadcast and parallel_mode == _MODE.STAND_ALONE:
        raise ValueError("stand_alone mode doesn't support parameter_broadcast, must be False.")


def _to_full_tensor(
    elem: Any, global_device_num: int, global_rank: int, scaling_sens: Any = None
) -> tuple[Any, ...]:
    """The elements, and the scale if there is one; one device holds all of them."""
    if global_device_num != 1 or global_rank != 0:
        raise RuntimeError("One device computes, so 'global_device_num' must be 1 and "
                           f"'global_rank' 0, but got {global_device_num} and {global_rank}.")
    elements = tuple(elem) if isinstance(elem, (list, tuple)) else (elem,)
    return elements if scaling_sens is None else (*elements, scaling_sens)
