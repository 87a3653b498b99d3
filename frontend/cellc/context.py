"""The execution context: mode, device and the options MindSpore scripts set.

Source: `mindspore.set_context`, `mindspore.context`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from cellc_runtime import loader
from cellc_runtime.site import STATE

from .core.watch import changed

GRAPH_MODE = 0
PYNATIVE_MODE = 1

_DEVICES = ("CPU", "GPU", "Ascend", "Davinci")
_KNOWN: dict[str, Any] = {
    "mode": PYNATIVE_MODE, "device_target": "CPU", "device_id": 0, "save_graphs": 0,
    "save_graphs_path": ".", "deterministic": "ON", "pynative_synchronize": False,
    "max_call_depth": 1000, "enable_graph_kernel": False, "graph_kernel_flags": "",
    "reserve_class_name_in_scope": True, "precompile_only": False, "enable_compile_cache": True,
    "compile_cache_path": "", "runtime_num_threads": 0, "inter_op_parallel_num": 0,
    "jit_level": "O0", "jit_config": {}, "jit_syntax_level": 2, "max_device_memory": "0GB",
    "variable_memory_max_size": "0GB", "mempool_block_size": "1GB", "memory_optimize_level": "O0",
    "memory_offload": "OFF", "enable_reduce_precision": True, "check_bprop": False,
    "env_config_path": "", "print_file_path": "", "ascend_config": {}, "gpu_config": {},
    "numerics": "strict",
}


class _Mode(threading.local):
    """The mode of a thread: the process-wide one unless overridden."""

    override: int | None = None


_mode = _Mode()
_values: dict[str, Any] = dict(_KNOWN)


def in_graph_mode() -> bool:
    """Whether calls of Cells are compiled."""
    return (_values["mode"] if _mode.override is None else _mode.override) == GRAPH_MODE


class Options:
    """Stands for the options that compiled networks depend on, where readers are noted."""


OPTIONS = Options()


def numerics() -> str:
    """`"strict"` (compiled networks give the bits of PyNative) or `"fast"`."""
    return str(_values["numerics"])


def set_context(**kwargs: Any) -> None:
    """Set options: `mode` (GRAPH_MODE or PYNATIVE_MODE), `device_target`, and MindSpore's others.

    One is cellc's own: `numerics="fast"` lets graph mode rewrite arithmetic in ways that are right
    for real numbers but change the last digits; the default, `"strict"`, gives PyNative's bits.

    Options that have no meaning here are kept for `get_context` and have no effect.

    Raises:
        ValueError: an unknown option, or a value out of range.
        RuntimeError: a device this installation cannot run on.
    """
    for key, value in kwargs.items():
        if key not in _KNOWN:
            raise ValueError(
                f"For 'set_context', the keyword argument '{key}' is not recognized; "
                f"expected one of {', '.join(sorted(_KNOWN))}."
            )
        _CHECKS.get(key, lambda v: None)(value)
    if kwargs.get("numerics", numerics()) != numerics():
        changed(OPTIONS, "numerics")
    _values.update(kwargs)
    STATE.graph_mode.value = int(_values["mode"] == GRAPH_MODE)
    if kwargs.get("runtime_num_threads"):
        loader.set_num_threads(kwargs["runtime_num_threads"])


def get_context(attr_key: str) -> Any:
    """The value of an option.

    Raises:
        ValueError: unknown option.
    """
    if attr_key not in _KNOWN:
        raise ValueError(f"For 'get_context', the argument '{attr_key}' is not recognized.")
    return _values[attr_key]


def _check_mode(value: Any) -> None:
    if value not in (GRAPH_MODE, PYNATIVE_MODE) or isinstance(value, bool):
        raise ValueError(
            "For 'set_context', 'mode' must be GRAPH_MODE (0) or PYNATIVE_MODE (1), but got "
            f"{value!r}."
        )


def _check_device(value: Any) -> None:
    if value not in _DEVICES:
        raise ValueError(
            f"For 'set_context', 'device_target' must be one of {_DEVICES}, but got {value!r}."
        )
    if value != "CPU":
        raise RuntimeError(
            f"device_target={value!r}: this installation of cellc runs on the CPU only; use "
            "device_target='CPU'"
        )


def check_device(device: str | None) -> None:
    """Raise unless a tensor can be on a device: `"CPU"`, also as `"CPU:0"`; None is the default.

    Raises:
        ValueError: an unknown device.
        RuntimeError: one this installation cannot use.
    """
    if device is not None:
        _check_device(next((d for d in _DEVICES if d.lower() == device.partition(":")[0].lower()),
                           device))


def _check_threads(value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"'runtime_num_threads' must be a non-negative int, but got {value!r}.")


def _check_numerics(value: Any) -> None:
    if value not in ("strict", "fast"):
        raise ValueError(
            f"For 'set_context', 'numerics' must be 'strict' or 'fast', but got {value!r}."
        )


_CHECKS: Mapping[str, Any] = {
    "mode": _check_mode, "device_target": _check_device, "runtime_num_threads": _check_threads,
    "numerics": _check_numerics,
}


def set_device(device_target: str, device_id: int | None = None) -> None:
    """Choose the device. Source: `mindspore.set_device`."""
    set_context(device_target=device_target)
