"""The execution context: mode, device and the options MindSpore scripts set.

Source: `mindspore.set_context`, `mindspore.context`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import cellc.options as options  # (`from . import` asks the package for a name first)
from cellc_runtime import device as hardware
from cellc_runtime import loader
from cellc_runtime.lazy import imported, no_attribute, public_names
from cellc_runtime.site import STATE

from .core import device as devices
from .core.invalidation import changed

if TYPE_CHECKING:
    from .ranks.settings import (
        ParallelMode,
        get_auto_parallel_context,
        get_ps_context,
        reset_auto_parallel_context,
        reset_ps_context,
        set_auto_parallel_context,
        set_ps_context,
    )

GRAPH_MODE = 0
PYNATIVE_MODE = 1
STRICT, COMPATIBLE, LAX = 0, 1, 2  # Values of `jit_syntax_level`


if not TYPE_CHECKING:
    def __getattr__(name: str) -> Any:
        """Settings of parallel training are here too; they load when they are requested."""
        if name in __all__:
            return getattr(imported(".ranks.settings", __package__), name)
        raise no_attribute(__name__, name)


class Device(NamedTuple):
    """A device: its kind and number."""

    device_target: str
    device_id: int

    def __str__(self) -> str:
        return str(tuple(self))


class _Mode(threading.local):
    """The mode of a thread: the process-wide one unless overridden."""

    override: int | None = None
    op_by_op: bool = False


_mode = _Mode()
_values: dict[str, Any] = {name: option.default for name, option in options.OPTIONS.items()}


def in_graph_mode() -> bool:
    """Whether calls of Cells are compiled."""
    return (_values["mode"] if _mode.override is None else _mode.override) == GRAPH_MODE


def op_by_op() -> bool:
    """Whether PyNative runs what is compiled otherwise op by op too: see `running_op_by_op`."""
    return _mode.op_by_op


@contextmanager
def running_op_by_op() -> Iterator[None]:
    """In the block, calls of this thread are in PyNative mode, and functions under `jit` and the
    Cells that PyNative compiles as a whole are run by Python, op by op, as well. The mode is the
    process's: no other thread may compile meanwhile."""
    before = _values["mode"]
    set_context(mode=PYNATIVE_MODE)
    _mode.op_by_op = True
    try:
        yield
    finally:
        _mode.op_by_op = False
        set_context(mode=before)


class Options:
    """Stands for the options that compiled networks depend on, where readers are noted."""


OPTIONS = Options()


def numerics() -> str:
    """`"strict"` (compiled networks give the bits of PyNative) or `"fast"`."""
    return str(_values["numerics"])


def set_context(**kwargs: Any) -> None:
    """Set options: `mode` (GRAPH_MODE or PYNATIVE_MODE), `device_target`, and MindSpore's others.

    Two are cellc's own. `numerics="fast"` lets graph mode rewrite arithmetic in ways that are right
    for real numbers but change the last digits; the default, `"strict"`, gives PyNative's bits.
    `debug_nan=True` raises where an op makes NaN or infinity, as `cellc.watch_nans` does.

    Options that have no meaning here are kept for `get_context` and have no effect.

    Raises:
        RuntimeError: a device this installation cannot run on.
    """
    new = {}
    for key, value in kwargs.items():
        if key not in options.OPTIONS:
            like = imported("difflib").get_close_matches(key, options.OPTIONS, 1)
            raise ValueError(
                f"For 'set_context', the keyword argument '{key}' is not recognized"
                + (f", did you mean '{like[0]}'" if like else "")
                + f"; expected one of {', '.join(sorted(options.OPTIONS))}."
            )
        new[key] = options.OPTIONS[key].convert(key, value)
    device = _device_of(new)
    if new.get("numerics", numerics()) != numerics():
        changed(OPTIONS, "numerics")
    if new.get("jit_syntax_level", _values["jit_syntax_level"]) != _values["jit_syntax_level"]:
        changed(OPTIONS, "jit_syntax_level")
    if new.get("debug_nan", _values["debug_nan"]) != _values["debug_nan"]:
        # (It stands on all of cellc, and loads when it is requested.)
        imported(".tools.watch", __package__).debug_nan(new["debug_nan"])
    devices.use(device)
    if {**_values, **new}["device_target"] != _values["device_target"] or "device_id" in new:
        changed(OPTIONS, "device")
    _values.update(new)
    STATE.graph_mode.value = int(_values["mode"] == GRAPH_MODE)
    if new.get("runtime_num_threads"):
        loader.set_num_threads(new["runtime_num_threads"])


def _device_of(new: dict[str, Any]) -> hardware.Device | None:
    """The GPU that options choose; None for the CPU."""
    if "device_target" in new:
        new.setdefault("device_id", hardware.own_gpu() if new["device_target"] == "GPU" else 0)
    chosen = {**_values, **new}
    number: int = chosen["device_id"]
    if chosen["device_target"] == "GPU":
        before = devices.current()
        if before is not None and before.number == number and not before.gone:
            return before
        options.gpu("device_target", number)
        return hardware.use_gpu(number)
    if number:
        raise TypeError(f"For 'set_context', there is one CPU device, 0, but got {number}.")
    return None


def get_context(attr_key: str) -> Any:
    """The value of an option."""
    if not isinstance(attr_key, str):
        raise TypeError(f"For 'get_context', the key must be str, but got {attr_key!r}.")
    if attr_key not in options.OPTIONS:
        raise ValueError(f"For 'get_context', the argument '{attr_key}' is not recognized.")
    return _values[attr_key]


def check_device(device: str | None) -> None:
    """Raise unless a tensor can be on a device: see `gpu_named`; None is the default."""
    if device is not None:
        gpu_named(device)


def gpu_named(device: str) -> hardware.Device | None:
    """The GPU that a name stands for, `"GPU"` (the one in use) or `"GPU:1"`; None for `"CPU"`."""
    if not isinstance(device, str):
        raise TypeError("A device is named by a str such as 'GPU:1', but got "
                        f"{type(device).__name__}.")
    kind, _, number = device.partition(":")
    known = {d.lower(): d for d in options.DEVICES}
    if kind.lower() not in known:
        raise ValueError(f"a device is 'CPU', 'GPU' or 'GPU:' and a number, but got {device!r}")
    if options.device("device", known.get(kind.lower(), kind)) == "CPU":
        return None
    if number and not number.isdecimal():
        raise ValueError(f"a device is 'CPU', 'GPU' or 'GPU:' and a number, but got {device!r}")
    return options.gpu("device", int(number) if number else None)


def set_device(device_target: str, device_id: int | None = None) -> None:
    """Choose the device.

    Args:
        device_target: `"CPU"` or `"GPU"`.
        device_id: which of several; None: 0, but of several processes each takes the GPU of its
            number on its machine.

    Raises:
        TypeError, ValueError: no device, or no number of one.
        RuntimeError: a device this installation does not run on, or another CPU than 0.
    """
    if device_id is not None and options.of_kind("device_id", int, device_id) < 0:
        raise ValueError(f"'device_id' must not be negative, but got {device_id}.")
    if device_id and options.device("device_target", device_target) == "CPU":
        raise RuntimeError(f"set_device: there is one CPU device, 0, but got {device_id}")
    number = {} if device_id is None else {"device_id": device_id}
    set_context(device_target=device_target, **number)


def set_deterministic(deterministic: bool) -> None:
    """Kept for scripts that ask for it: computations are always deterministic here."""
    chosen = options.of_kind("deterministic", bool, deterministic)
    _values["deterministic"] = "ON" if chosen else "OFF"


def set_recursion_limit(recursion_limit: int = 1000) -> None:
    """How deep calls may nest while a network is compiled."""
    set_context(max_call_depth=recursion_limit)


def check(name: str, value: Any) -> None:
    """Raise unless an option may have a value, without setting it."""
    options.OPTIONS[name].convert(name, value)


def get_current_device() -> Device:
    """The device that computes."""
    return Device(_values["device_target"], _values["device_id"])


__all__ = [
    "COMPATIBLE", "GRAPH_MODE", "LAX", "PYNATIVE_MODE", "STRICT", "ParallelMode",
    "get_auto_parallel_context", "get_context", "get_ps_context", "reset_auto_parallel_context",
    "reset_ps_context", "set_auto_parallel_context", "set_context", "set_ps_context",
]
__dir__ = public_names(__name__)
