"""Memory and threads while networks run. Source: `mindspore.runtime`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import names_of, public_names

from . import context
from .core.absent import absent
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
    """How many threads compute."""
    if isinstance(threads_num, bool) or not isinstance(threads_num, int):
        raise TypeError(f"'threads_num' must be int, but got {type(threads_num).__name__}.")
    if threads_num < 1:
        raise ValueError(f"'threads_num' must be at least 1, but got {threads_num}.")
    context.set_context(runtime_num_threads=threads_num)


def set_kernel_launch_group(thread_num: int = 2, kernel_group_num: int = 8) -> None:
    """Groups of kernels that are launched together: compiled code launches all at once.

    Args:
        thread_num, kernel_group_num: checked; without effect.

    Raises:
        ValueError: one is no int, or less than 1, or the threads are more than the groups.
    """
    for name, value in (("thread_num", thread_num), ("kernel_group_num", kernel_group_num)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"The value of {name} should be a positive int, but got {value!r}.")
    if kernel_group_num % thread_num:
        raise ValueError(f"{kernel_group_num} groups are not divided evenly among {thread_num} "
                         "threads.")


def set_kernel_launch_capture(
    enable_capture_graph: bool, op_capture_skip: Sequence[str] | None = None
) -> None:
    """Whether launches are captured as a graph: compiled code is one program in any case.

    Args:
        enable_capture_graph, op_capture_skip: checked; without effect.
    """
    if not isinstance(enable_capture_graph, bool):
        raise TypeError("'enable_capture_graph' must be bool, but got "
                        f"{type(enable_capture_graph).__name__}.")
    if op_capture_skip is not None and not (
            isinstance(op_capture_skip, list)
            and all(isinstance(name, str) for name in op_capture_skip)):
        raise TypeError(f"'op_capture_skip' must be a list of str, but got {op_capture_skip!r}.")


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
        RuntimeError: binding is requested.
    """
    if not isinstance(enable_affinity, bool):
        raise TypeError(f"'enable_affinity' must be bool, but got {enable_affinity!r}.")
    if enable_affinity:
        raise RuntimeError(
            "set_cpu_affinity: cellc binds no threads; start the process on the processors it is "
            "to use (taskset -c 0-3 python ...)"
        )


def _of_ascend(name: str, what: str, instead: str) -> Callable[..., Any]:
    return absent(f"runtime.{name}", f"{what} of an Ascend device, which there is none of: "
                  f"{instead}.", f"Not on the CPU: it {what} of an Ascend device.")


_NUMA = "limit the process's threads with dispatch_threads_num"
_POOL = "the process's own memory serves tensors; see set_memory"
MemPool = _of_ascend("MemPool", "is a pool of the memory", _POOL)
PluggableAllocator = _of_ascend("PluggableAllocator", "gives out the memory", _POOL)
use_mem_pool = _of_ascend("use_mem_pool", "chooses a pool of the memory", _POOL)
memory_replay = _of_ascend("memory_replay", "replays the use of the memory", "see memory_stats")
StreamLimitCtx = _of_ascend("StreamLimitCtx", "limits the cores of a stream", _NUMA)
get_device_limit = _of_ascend("get_device_limit", "tells the limit of cores", _NUMA)
set_device_limit = _of_ascend("set_device_limit", "limits the cores", _NUMA)
get_stream_limit = _of_ascend("get_stream_limit", "tells the limit of a stream's cores", _NUMA)
set_stream_limit = _of_ascend("set_stream_limit", "limits the cores of a stream", _NUMA)
reset_stream_limit = _of_ascend("reset_stream_limit", "lifts the limit of a stream's cores", _NUMA)

__path__: list[str] = []  # MindSpore has a package here: `old_paths` finds what is below

__all__ = [
    "Event", "MemPool", "PluggableAllocator", "Stream", "StreamCtx", "StreamLimitCtx",
    "communication_stream", "current_stream", "default_stream", "dispatch_threads_num",
    "empty_cache", "get_device_limit", "get_stream_limit", "launch_blocking",
    "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_replay",
    "memory_reserved", "memory_stats", "memory_summary", "reset_max_memory_allocated",
    "reset_max_memory_reserved", "reset_peak_memory_stats", "reset_stream_limit",
    "set_cpu_affinity", "set_cur_stream", "set_device_limit", "set_kernel_launch_capture",
    "set_kernel_launch_group", "set_memory", "set_stream_limit", "synchronize", "use_mem_pool",
]
__dir__ = public_names(__name__)
if not TYPE_CHECKING:
    __getattr__ = names_of(__name__, {})
