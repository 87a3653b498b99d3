"""Settings of pipelines: `cellc.dataset.config`.

The seed decides what is drawn; workers, how many rows are made ahead, and how processes start are
set here for operations that do not say it. The others are kept and checked for the scripts that
set them. Source: `mindspore.dataset.config`.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np

from ..tensors.seed import get_seed as _global_seed
from .checks import INT32_MAX, UINT32_MAX
from .streams import Mt19937, Stream

_DEFAULT_SEED = 5489
T = TypeVar("T")


class ErrorSamplesMode(IntEnum):
    """The treatment of rows whose operations fail. Source: `mindspore.dataset.config`."""

    RETURN = 0
    REPLACE = 1
    SKIP = 2


class _Settings:
    """The one set of settings of the process."""

    seed: int | None = None
    seed_before: int | None = None
    """The seed of cellc's `set_seed` when this seed was set."""
    kept: dict[str, Any] = {}
    stream: Stream | None = None
    """Of transforms that are called outside of a pipeline."""
    stream_seed: int | None = None


_KEPT: dict[str, Any] = {
    "prefetch_size": 16, "num_parallel_workers": min(8, os.cpu_count() or 1),
    "numa_enable": False, "monitor_sampling_interval": 1000, "callback_timeout": 60,
    "auto_num_workers": False, "enable_shared_mem": True, "enable_autotune": False,
    "autotune_interval": 0, "auto_offload": False, "enable_watchdog": True, "fast_recovery": True,
    "debug_mode": False, "error_samples_mode": ErrorSamplesMode.RETURN,
    "multiprocessing_timeout_interval": 300, "multiprocessing_start_method": "fork",
    "sending_batches": 0, "dynamic_shape": False, "video_backend": "CPU",
}


def _get(name: str) -> Any:
    return _Settings.kept.get(name, _KEPT[name])


def _getter(name: str, kind: type[T], more: str = "") -> Callable[[], T]:
    """The function that gives what the setter of this name was given."""
    def get() -> T:
        return kind(_get(name))  # type: ignore[call-arg]  # of a value that is one already

    get.__name__ = get.__qualname__ = f"get_{name}"
    get.__doc__ = f"Return the argument of `set_{name}`{more}."
    get.__annotations__["return"] = kind.__name__
    return get


def _bool(argument: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{argument} must be of type bool, but got {type(value).__name__}.")
    return value


def _keep_bool(name: str, argument: str, value: Any) -> None:
    _Settings.kept[name] = _bool(argument, value)


def _keep_int(name: str, argument: str, value: Any, low: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{argument} isn't of type int, but got {type(value).__name__}.")
    if not low <= value <= INT32_MAX:
        raise ValueError(f"{argument} given is not within the required range "
                         f"[{low}, INT32_MAX({INT32_MAX})].")
    _Settings.kept[name] = value


def set_seed(seed: int) -> None:
    """Make draws of pipelines reproducible; `random` and numpy's generator are seeded too.

    Raises:
        ValueError: negative, or 2**32 or more.

    Source: `mindspore.dataset.config.set_seed`.
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError("seed isn't of type int.")
    if not 0 <= seed <= UINT32_MAX:
        raise ValueError(
            f"seed given is not within the required range [0, UINT32_MAX({UINT32_MAX})].")
    _Settings.seed, _Settings.seed_before = seed, _global_seed()
    _Settings.stream = None
    random.seed(seed)
    np.random.seed(seed)


def chosen_seed() -> int | None:
    """The seed that was set here or by `cellc.set_seed`, the later of the two; or None."""
    whole = _global_seed()
    if _Settings.seed is None or whole != _Settings.seed_before:
        return whole
    return _Settings.seed


def chosen_stream() -> Stream:
    """Return the stream that transforms outside of a pipeline draw from: a new seed restarts it."""
    seed = chosen_seed()
    if _Settings.stream is None or _Settings.stream_seed != seed:
        own = int.from_bytes(os.urandom(4), "little") if seed is None else seed
        _Settings.stream, _Settings.stream_seed = Mt19937(own), seed
    return _Settings.stream


def get_seed() -> int:
    """The seed; 5489 if none was set. Source: `mindspore.dataset.config.get_seed`."""
    seed = chosen_seed()
    return _DEFAULT_SEED if seed is None else seed


def set_prefetch_size(size: int) -> None:
    """How many rows (or batches) an operation with several workers makes ahead."""
    _keep_int("prefetch_size", "size", size)


def set_num_parallel_workers(num: int) -> None:
    """How many workers operations have that do not say it; without it, one."""
    _keep_int("num_parallel_workers", "num", num)


def workers_asked_for() -> int | None:
    """Return the argument of `set_num_parallel_workers`; None if it was not called."""
    found: int | None = _Settings.kept.get("num_parallel_workers")
    return found


def set_numa_enable(numa_enable: bool) -> None:
    """Keep whether to bind to a node. Raises: TypeError for no bool."""
    _keep_bool("numa_enable", "numa_enable", numa_enable)


def set_monitor_sampling_interval(interval: int) -> None:
    """Keep an interval in milliseconds. Raises: TypeError, ValueError for no positive int."""
    _keep_int("monitor_sampling_interval", "interval", interval)


def set_callback_timeout(timeout: int) -> None:
    """Keep a timeout in seconds. Raises: TypeError, ValueError for no positive int."""
    _keep_int("callback_timeout", "timeout", timeout)


def set_auto_num_workers(enable: bool) -> None:
    """Keep whether to choose workers. Raises: TypeError for no bool."""
    _keep_bool("auto_num_workers", "enable", enable)


def set_enable_shared_mem(enable: bool) -> None:
    """Whether worker processes give long arrays through shared memory. Raises: TypeError."""
    _keep_bool("enable_shared_mem", "enable", enable)


def set_enable_autotune(enable: bool, filepath_prefix: str | None = None) -> None:
    """Keep whether to tune. Raises: TypeError for no bool."""
    _keep_bool("enable_autotune", "enable", enable)


def set_autotune_interval(interval: int) -> None:
    """Keep an interval in steps. Raises: TypeError, ValueError for no int of 0 or more."""
    _keep_int("autotune_interval", "interval", interval, 0)


def set_auto_offload(offload: bool) -> None:
    """Keep whether to move operations to a device. Raises: TypeError for no bool."""
    _keep_bool("auto_offload", "offload", offload)


def set_enable_watchdog(enable: bool) -> None:
    """Keep whether workers are watched. Raises: TypeError for no bool."""
    _keep_bool("enable_watchdog", "enable", enable)


def set_fast_recovery(fast_recovery: bool) -> None:
    """Keep how to recover. Raises: TypeError for no bool."""
    _keep_bool("fast_recovery", "fast_recovery", fast_recovery)


def set_dynamic_shape(is_dynamic: bool) -> None:
    """Keep whether shapes change: here they may in any case. Raises: TypeError for no bool."""
    _keep_bool("dynamic_shape", "is_dynamic", is_dynamic)


def set_video_backend(backend: str) -> None:
    """Keep what is to decode videos, "CPU" or "Ascend"."""
    if not isinstance(backend, str):
        raise TypeError(f"backend must be of type str, but got {type(backend).__name__}.")
    if backend not in ("CPU", "Ascend"):
        raise ValueError("Input backend is not within the valid set of ['CPU', 'Ascend'].")
    _Settings.kept["video_backend"] = backend


def set_debug_mode(debug_mode_flag: bool, debug_hook_list: list[Any] | None = None) -> None:
    """Whether to debug: rows are made in the calling thread, whatever workers are asked for.

    Raises:
        ValueError: hooks are given; a function in `map` sees the same.
    """
    if debug_hook_list:
        raise ValueError("debug_hook_list is not supported: put a function that prints what it is "
                         "given into 'map'.")
    _keep_bool("debug_mode", "debug_mode_flag", debug_mode_flag)


def set_error_samples_mode(error_samples_mode: ErrorSamplesMode) -> None:
    """Set the treatment of rows that fail in `map`: raise, use another row, or leave out."""
    if not isinstance(error_samples_mode, ErrorSamplesMode):
        raise TypeError("error_samples_mode is not of type ErrorSamplesMode, but got "
                        f"{type(error_samples_mode).__name__}.")
    _Settings.kept["error_samples_mode"] = error_samples_mode


def set_multiprocessing_timeout_interval(interval: int) -> None:
    """After how many seconds the log warns of a worker process that has not answered."""
    _keep_int("multiprocessing_timeout_interval", "interval", interval)


def set_multiprocessing_start_method(start_method: str = "fork") -> None:
    """How worker processes start. Beside other threads of Python they never fork."""
    if not isinstance(start_method, str):
        raise TypeError("start_method isn't of type str.")
    if start_method not in ("fork", "spawn"):
        raise ValueError(f"start_method must be 'fork' or 'spawn', but got {start_method!r}.")
    _Settings.kept["multiprocessing_start_method"] = start_method


get_prefetch_size = _getter("prefetch_size", int)
get_num_parallel_workers = _getter(
    "num_parallel_workers", int, "; else the number of processors, at most 8")
get_numa_enable = _getter("numa_enable", bool)
get_monitor_sampling_interval = _getter("monitor_sampling_interval", int)
get_dynamic_shape = _getter("dynamic_shape", bool)
get_video_backend = _getter("video_backend", str)
get_callback_timeout = _getter("callback_timeout", int)
get_auto_num_workers = _getter("auto_num_workers", bool)
get_enable_shared_mem = _getter("enable_shared_mem", bool)
get_enable_autotune = _getter("enable_autotune", bool)
get_autotune_interval = _getter("autotune_interval", int)
get_auto_offload = _getter("auto_offload", bool)
get_enable_watchdog = _getter("enable_watchdog", bool)
get_fast_recovery = _getter("fast_recovery", bool)
get_debug_mode = _getter("debug_mode", bool)
get_error_samples_mode = _getter("error_samples_mode", ErrorSamplesMode)
get_multiprocessing_timeout_interval = _getter("multiprocessing_timeout_interval", int)
get_multiprocessing_start_method = _getter("multiprocessing_start_method", str)


def set_iterator_mode(do_copy: bool = False, parallel_convert: bool = False) -> None:
    """Keep how iterators convert rows. Raises: TypeError for no bool."""
    given = {"do_copy": do_copy, "parallel_convert": parallel_convert}
    _Settings.kept["iterator_mode"] = {name: _bool(name, value) for name, value in given.items()}


def get_iterator_mode() -> dict[str, bool]:
    """Return the argument of `set_iterator_mode`."""
    return dict(_Settings.kept.get("iterator_mode", {"do_copy": False, "parallel_convert": False}))


def set_sending_batches(batch_num: int) -> None:
    """Keep how many batches to send. Raises: TypeError, ValueError for no int of 0 or more."""
    _keep_int("sending_batches", "batch_num", batch_num, 0)


def load(file: str) -> None:
    """Set what a JSON file names: `seed`, `numParallelWorkers`, `prefetchSize` and their like.

    Raises:
        RuntimeError: it cannot be read, or holds no JSON object.
        TypeError, ValueError: a value is none that the setting may have; nothing is set then.

    Source: `mindspore.dataset.config.load`.
    """
    try:
        with open(file, encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError) as error:
        raise RuntimeError(f"Unable to load the configuration {file!r}: {error}") from error
    if not isinstance(found, dict):
        raise RuntimeError(f"The configuration {file!r} must hold a JSON object.")
    setters = {"numParallelWorkers": set_num_parallel_workers, "prefetchSize": set_prefetch_size,
               "callbackTimeout": set_callback_timeout,
               "monitorSamplingInterval": set_monitor_sampling_interval, "seed": set_seed}
    kept = dict(_Settings.kept)
    try:
        for name, setter in setters.items():
            if name in found:
                setter(found[name])
    except (TypeError, ValueError) as error:
        _Settings.kept = kept  # all that the file says, or nothing
        raise type(error)(f"The configuration {file!r}: {error}") from None

__all__ = [
    "ErrorSamplesMode", "get_auto_num_workers", "get_auto_offload", "get_autotune_interval",
    "get_callback_timeout", "get_debug_mode", "get_dynamic_shape", "get_enable_autotune",
    "get_enable_shared_mem", "get_enable_watchdog", "get_error_samples_mode",
    "get_fast_recovery", "get_iterator_mode", "get_monitor_sampling_interval",
    "get_multiprocessing_start_method", "get_multiprocessing_timeout_interval",
    "get_num_parallel_workers", "get_numa_enable", "get_prefetch_size", "get_seed",
    "get_video_backend", "load", "set_auto_num_workers", "set_auto_offload",
    "set_autotune_interval", "set_callback_timeout", "set_debug_mode", "set_dynamic_shape",
    "set_enable_autotune", "set_enable_shared_mem", "set_enable_watchdog",
    "set_error_samples_mode", "set_fast_recovery", "set_iterator_mode",
    "set_monitor_sampling_interval", "set_multiprocessing_start_method",
    "set_multiprocessing_timeout_interval", "set_num_parallel_workers", "set_numa_enable",
    "set_prefetch_size", "set_seed", "set_sending_batches", "set_video_backend",
]
