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
from functools import wraps
from inspect import signature
from typing import Annotated, Any, TypeVar, cast

import numpy as np

from ..core.declared import Flag, NonNegative, checks_arguments, integer, one_of
from ..tensors.seed import get_seed as _global_seed
from .rules import INT32_MAX, UINT32_MAX
from .streams import Mt19937, Stream

_DEFAULT_SEED = 5489
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Size = Annotated[int, integer(1, INT32_MAX)]


class ErrorSamplesMode(IntEnum):
    """The treatment of rows whose operations fail. Source: `mindspore.dataset.config`."""

    RETURN = 0
    REPLACE = 1
    SKIP = 2


class _Settings:
    """The one set of settings of the process."""

    seed: int | None = None
    seed_before: int | None = None  # The seed of cellc's `set_seed` when this seed was set
    kept: dict[str, Any] = {}
    stream: Stream | None = None  # Of transforms that are called outside of a pipeline
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


def _setting(setter: F) -> F:
    """The function that checks the first argument of a setter and keeps it under its name."""
    parameters = signature(setter)

    @checks_arguments
    @wraps(setter)
    def kept(*args: Any, **kwargs: Any) -> None:
        bound = parameters.bind(*args, **kwargs)
        bound.apply_defaults()
        setter(*bound.args)
        _Settings.kept[setter.__name__.removeprefix("set_")] = bound.args[0]

    return cast(F, kept)


@checks_arguments
def set_seed(seed: Annotated[int, integer(0, UINT32_MAX)]) -> None:
    """Make draws of pipelines reproducible; `random` and numpy's generator are seeded too."""
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
    """The seed; 5489 if none was set."""
    seed = chosen_seed()
    return _DEFAULT_SEED if seed is None else seed


@_setting
def set_prefetch_size(size: Size) -> None:
    """How many rows (or batches) an operation with several workers makes ahead."""


@_setting
def set_num_parallel_workers(num: Size) -> None:
    """How many workers operations have that do not say it; without it, one."""


def workers_asked_for() -> int | None:
    """Return the argument of `set_num_parallel_workers`; None if it was not called."""
    found: int | None = _Settings.kept.get("num_parallel_workers")
    return found


@_setting
def set_numa_enable(numa_enable: Flag) -> None:
    """Keep whether to bind to a node."""


@_setting
def set_monitor_sampling_interval(interval: Size) -> None:
    """Keep an interval in milliseconds."""


@_setting
def set_callback_timeout(timeout: Size) -> None:
    """Keep a timeout in seconds."""


@_setting
def set_auto_num_workers(enable: Flag) -> None:
    """Keep whether to choose workers."""


@_setting
def set_enable_shared_mem(enable: Flag) -> None:
    """Whether worker processes give long arrays through shared memory."""


@_setting
def set_enable_autotune(enable: Flag, filepath_prefix: str | None = None) -> None:
    """Keep whether to tune."""


@_setting
def set_autotune_interval(interval: NonNegative) -> None:
    """Keep an interval in steps."""


@_setting
def set_auto_offload(offload: Flag) -> None:
    """Keep whether to move operations to a device."""


@_setting
def set_enable_watchdog(enable: Flag) -> None:
    """Keep whether workers are watched."""


@_setting
def set_fast_recovery(fast_recovery: Flag) -> None:
    """Keep how to recover."""


@_setting
def set_dynamic_shape(is_dynamic: Flag) -> None:
    """Keep whether shapes change: here they may in any case."""


@_setting
def set_video_backend(backend: Annotated[str, one_of("CPU", "Ascend", kind=str)]) -> None:
    """Keep what is to decode videos, "CPU" or "Ascend"."""


@_setting
def set_debug_mode(debug_mode_flag: Flag, debug_hook_list: list[Any] | None = None) -> None:
    """Whether to debug: rows are made in the calling thread, whatever workers are requested.

    Raises:
        ValueError: hooks are given; a function in `map` sees the same.
    """
    if debug_hook_list:
        raise ValueError("debug_hook_list is not supported: put a function that prints what it is "
                         "given into 'map'.")


@_setting
def set_error_samples_mode(error_samples_mode: ErrorSamplesMode) -> None:
    """Set the treatment of rows that fail in `map`: raise, use another row, or leave out."""


@_setting
def set_multiprocessing_timeout_interval(interval: Size) -> None:
    """After how many seconds the log warns of a worker process that has not answered."""


@_setting
def set_multiprocessing_start_method(
    start_method: Annotated[str, one_of("fork", "spawn", kind=str)] = "fork",
) -> None:
    """How worker processes start. Beside other threads of Python they never fork."""


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


@checks_arguments
def set_iterator_mode(do_copy: Flag = False, parallel_convert: Flag = False) -> None:
    """Keep how iterators convert rows."""
    _Settings.kept["iterator_mode"] = {"do_copy": do_copy, "parallel_convert": parallel_convert}


def get_iterator_mode() -> dict[str, bool]:
    """Return the argument of `set_iterator_mode`."""
    return dict(_Settings.kept.get("iterator_mode", {"do_copy": False, "parallel_convert": False}))


@_setting
def set_sending_batches(batch_num: NonNegative) -> None:
    """Keep how many batches to send."""


def load(file: str) -> None:
    """Set what a JSON file names: `seed`, `numParallelWorkers`, `prefetchSize` and their like.

    Raises:
        RuntimeError: it cannot be read, or holds no JSON object.
        TypeError, ValueError: a value is none that the setting may have; nothing is set then.
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
