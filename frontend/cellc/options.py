"""The options of `set_context`: defaults, what each takes, and how it is read back."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from typing import Any, TypeVar

from cellc_runtime import device as devices
from cellc_runtime.records import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Option:
    """One option."""

    default: Any  # its value at first
    convert: Callable[[str, Any], Any]  # checks a value and gives what `get_context` returns


def wrong(name: str, wanted: str, value: Any) -> TypeError:
    """The error for a value of a wrong kind."""
    return TypeError(
        f"For 'set_context', '{name}' must be {wanted}, but got {type(value).__name__} {value!r}."
    )


def of_kind(name: str, kind: type[T], value: Any) -> T:
    """A value of a kind; a bool is no int."""
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise wrong(name, kind.__name__, value)
    return value


def _within(name: str, value: int, low: float, high: float) -> int:
    if not low <= value <= high:
        raise ValueError(
            f"For 'set_context', '{name}' must be in [{low}, {high}], but got {value}.")
    return value


def _one_of(name: str, value: Any, known: Any, shown: tuple[str, ...]) -> Any:
    if value not in known:
        raise ValueError(f"For 'set_context', '{name}' must be one of {shown}, but got {value!r}.")
    return value


def _of(kind: type, default: Any) -> Option:
    return Option(default, lambda name, value: of_kind(name, kind, value))


def _number(default: int, low: float, high: float = math.inf) -> Option:
    return Option(default, lambda name, value: _within(name, of_kind(name, int, value), low, high))


def _choice(default: str, *values: str) -> Option:
    return Option(default, lambda name, value: _one_of(
        name, of_kind(name, str, value), values, values))


def _size(default: Any, number: bool = True) -> Option:
    def convert(name: str, value: Any) -> Any:
        if isinstance(value, float) and number and value >= 0:
            return value  # as `get_context` gives it
        if not isinstance(value, str):
            raise wrong(name, "str like '4GB'", value)
        if not re.fullmatch(r"\d+(\.\d+)?GB", value):
            raise ValueError(
                f"For 'set_context', '{name}' must be a number with 'GB', but got {value!r}."
            )
        return float(value[:-2]) if number else value

    return Option(default, convert)


def _graphs(name: str, value: Any) -> int:
    if not isinstance(value, int):
        raise wrong(name, "bool or int", value)
    return _within(name, int(value), 0, 3)


def _path(name: str, value: Any) -> str:
    return os.path.realpath(of_kind(name, str, value))


def _memory_level(name: str, value: Any) -> int:
    levels = {"O0": 0, "O1": 1, 0: 0, 1: 1}
    known = () if isinstance(value, bool) else levels
    return levels[_one_of(name, value, known, ("O0", "O1"))]


def _mode(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, type(None))):
        raise wrong(name, "GRAPH_MODE (0) or PYNATIVE_MODE (1)", value)
    if value not in (0, 1):
        raise ValueError(
            f"For 'set_context', '{name}' must be GRAPH_MODE (0) or PYNATIVE_MODE (1), but got "
            f"{value!r}."
        )
    return int(value)


DEVICES = ("CPU", "GPU", "Ascend", "Davinci")


def device(name: str, value: Any) -> str:
    """A device this installation runs on."""
    kind = str(_one_of(name, of_kind(name, str, value), DEVICES, DEVICES))
    if kind not in ("CPU", "GPU"):
        raise _cpu_only(name, value, "")
    if kind == "GPU":
        gpu(name)
    return kind


def gpu(name: str, number: int | None = None) -> devices.Device:
    """A GPU; None is the one in use.

    Args:
        name: what asks for it.

    Raises:
        RuntimeError: there is none; what is missing.
    """
    try:
        return devices.gpu(number)
    except devices.NoDevice as e:
        raise _cpu_only(name, "GPU", f" ({e})") from None


def _cpu_only(name: str, value: str, why: str) -> RuntimeError:
    return RuntimeError(
        f"{name}={value!r}: this installation of cellc runs on the CPU only; use "
        f"{name}='CPU'{why}"
    )


def _device_id(name: str, value: Any) -> int:
    return _within(name, of_kind(name, int, value), 0, 4095)


def _cache_path(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise RuntimeError(f"For 'set_context', '{name}' must be a path, but got {value!r}.")
    return value


def _not_there(name: str, value: Any) -> bool:
    """False: an engine of other devices, which can be requested and not be had."""
    if value is not False:
        raise AttributeError(f"For 'set_context', '{name}' says what there is and cannot be set.")
    return False


OPTIONS: dict[str, Option] = {
    "mode": Option(1, _mode), "device_target": Option("CPU", device),
    "device_id": Option(0, _device_id), "save_graphs": Option(0, _graphs),
    "save_graphs_path": Option(".", _path), "deterministic": _choice("ON", "ON", "OFF"),
    "pynative_synchronize": _of(bool, False), "max_call_depth": _number(1000, 1),
    "enable_graph_kernel": _of(bool, False), "graph_kernel_flags": _of(str, ""),
    "reserve_class_name_in_scope": _of(bool, True), "precompile_only": _of(bool, False),
    "enable_compile_cache": _of(bool, True), "compile_cache_path": Option("", _cache_path),
    "runtime_num_threads": _number(0, 0), "inter_op_parallel_num": _number(0, 0),
    "jit_level": _choice("", "", "O0", "O1", "O2"), "jit_config": _of(dict, {}),
    "jit_syntax_level": _number(2, 0, 2), "max_device_memory": _size(1024.0),
    "variable_memory_max_size": _size("0GB", number=False), "mempool_block_size": _size(1.0),
    "memory_optimize_level": Option(0, _memory_level),
    "memory_offload": _choice("OFF", "ON", "OFF"), "enable_reduce_precision": _of(bool, True),
    "check_bprop": _of(bool, False), "env_config_path": _of(str, ""),
    "print_file_path": _of(str, ""), "ascend_config": _of(dict, {}), "gpu_config": _of(dict, {}),
    "debug_level": _number(0, 0, 1), "exec_order": _choice("bfs", "bfs", "dfs", "gpto"),
    "op_timeout": _number(900, 0), "aoe_tune_mode": _choice("", "", "online", "offline"),
    "aoe_config": _of(dict, {}), "disable_format_transform": _of(bool, False),
    "support_binary": _of(bool, False), "enable_profiling": _of(bool, False),
    "profiling_options": _of(str, "training_trace"),
    "host_scheduling_max_threshold": _of(str, ""), "topo_order": Option("", lambda _, v: v),
    "enable_ge": Option(False, _not_there),
    "numerics": _choice("strict", "strict", "fast"), "debug_nan": _of(bool, False),
}
