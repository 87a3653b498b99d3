"""Questions about devices: there is one, the CPU, whose memory is that of the process.

Source: `mindspore.runtime`, `mindspore.hal`.
"""

from __future__ import annotations

from typing import Any

from . import options

_POOLS = {"common_mem_pool_stats": {"block_unit_size": 0, "block_counts": 0, "blocks_info": {}},
          "persistent_mem_pool_stats": {"block_counts": 0, "block_unit_size": 0, "blocks_info": {}}}
_COUNTS = ("total_reserved_memory", "total_allocated_memory", "total_idle_memory",
           "total_eager_free_memory", "max_reserved_memory", "max_allocated_memory")


def known(device_target: Any) -> str:
    """The name of a device; None is the CPU.

    Raises:
        ValueError: there is no such device.
    """
    if device_target is None:
        return "CPU"
    if device_target not in options.DEVICES:
        raise ValueError(
            f"the device must be one of {options.DEVICES}, but got {device_target!r}"
        )
    return str(device_target)


def is_available(device_target: str) -> bool:
    """Whether this installation runs on a kind of device."""
    return known(device_target) == "CPU"


def is_initialized(device_target: str) -> bool:
    """Whether a kind of device is in use: the CPU always is."""
    return known(device_target) == "CPU"


def device_count(device_target: str | None = None) -> int:
    """How many devices of a kind there are."""
    return int(known(device_target) == "CPU")


def get_device_name(device_id: int, device_target: str | None = None) -> str:
    """The name of a device."""
    return known(device_target)


def get_device_capability(device_id: int, device_target: str | None = None) -> None:
    """The capability of a GPU; None for the CPU."""
    known(device_target)


def get_device_properties(device_id: int, device_target: str | None = None) -> None:
    """The properties of a GPU; None for the CPU."""
    known(device_target)


def get_arch_list(device_target: str | None = None) -> None:
    """The architectures of GPUs that are supported; None for the CPU."""
    known(device_target)


def synchronize() -> None:
    """Wait for the device: calls have finished when they return."""


def empty_cache() -> None:
    """Give back memory of a pool that is not in use: there is no pool."""


def memory_allocated(device_target: str | None = None) -> int:
    """Bytes in use of a device's own memory: 0, the CPU has the process's."""
    known(device_target)
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def memory_stats(device_target: str | None = None) -> dict[str, Any]:
    """Figures of a device's own memory."""
    known(device_target)
    return {**dict.fromkeys(_COUNTS, 0), **{k: dict(v) for k, v in _POOLS.items()}}


def memory_summary(device_target: str | None = None) -> str:
    """Figures of a device's own memory, as a table."""
    rows = [f"| {name:<24}| {value:>10} B |" for name, value in memory_stats(device_target).items()
            if isinstance(value, int)]
    line = "|" + "-" * (len(rows[0]) - 2) + "|"
    return "\n".join([line, *rows, line])


def reset_max_memory_allocated(device_target: str | None = None) -> None:
    """Let the peak be counted anew."""
    known(device_target)


reset_max_memory_reserved = reset_peak_memory_stats = reset_max_memory_allocated
