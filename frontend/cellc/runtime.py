"""Memory and threads while networks run. Source: `mindspore.runtime`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import names_of, public_names

from . import context
from .devices import (
    Event,
    Stream,
    StreamCtx,
    communication_stream,
    current_stream,
    default_stream,
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_max_memory_allocated,
    reset_max_memory_reserved,
    reset_peak_memory_stats,
    set_cur_stream,
    synchronize,
)


def launch_blocking() -> None:
    """Let each op finish before the next starts: they do."""


def dispatch_threads_num(threads_num: int) -> None:
    """How many threads compute.

    Raises:
        TypeError: no int.
        ValueError: less than 1.
    """
    if isinstance(threads_num, bool) or not isinstance(threads_num, int):
        raise TypeError(f"'threads_num' must be int, but got {type(threads_num).__name__}.")
    if threads_num < 1:
        raise ValueError(f"'threads_num' must be at least 1, but got {threads_num}.")
    context.set_context(runtime_num_threads=threads_num)


def set_memory(
    init_size: str = "2GB", increase_size: str = "2GB", max_size: str = "1024GB",
    optimize_level: str = "O0", huge_page_reserve_size: str = "0GB",
) -> None:
    """Sizes of a device's pool of memory: recorded; the CPU has the process's memory.

    Raises:
        TypeError, ValueError: no size like `"2GB"`, or no level `"O0"` or `"O1"`.
    """
    for size in (init_size, increase_size, huge_page_reserve_size):
        context.check("mempool_block_size", size)
    context.set_context(max_device_memory=max_size, memory_optimize_level=optimize_level)


def set_cpu_affinity(
    enable_affinity: bool, affinity_cpu_list: Sequence[str] | None = None,
    module_to_cpu_dict: Mapping[str, Any] | None = None, bind_file: str | None = None,
) -> None:
    """Bind threads to processors: the system's own choice stands (use `taskset`, for example).

    Raises:
        TypeError: `enable_affinity` is no bool.
        RuntimeError: binding is asked for.
    """
    if not isinstance(enable_affinity, bool):
        raise TypeError(f"'enable_affinity' must be bool, but got {enable_affinity!r}.")
    if enable_affinity:
        raise RuntimeError(
            "set_cpu_affinity: cellc binds no threads; start the process on the processors it is "
            "to use (taskset -c 0-3 python ...)"
        )


__all__ = [
    "Event", "Stream", "StreamCtx", "communication_stream", "current_stream", "default_stream",
    "dispatch_threads_num", "empty_cache", "launch_blocking", "max_memory_allocated",
    "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats", "memory_summary",
    "reset_max_memory_allocated", "reset_max_memory_reserved", "reset_peak_memory_stats",
    "set_cpu_affinity", "set_cur_stream", "set_memory", "synchronize",
]
__dir__ = public_names(__name__)
if not TYPE_CHECKING:
    __getattr__ = names_of(__name__, {})
