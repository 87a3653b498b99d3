"""Which device computes: this machine's processor, or a GPU with memory of its own.

It is the process's, as the mode is. Caches of code for a device follow the changes (`follow`);
native sites answer no calls while it is a GPU.
"""

from __future__ import annotations

from collections.abc import Callable

from cellc_compiler import backends
from cellc_runtime.device import Device
from cellc_runtime.site import STATE

_current: list[Device] = []  # The GPU in use; empty while that is the processor
_followers: list[Callable[[Device | None], None]] = []


def current() -> Device | None:
    """The GPU in use; None while that is the processor."""
    return _current[0] if _current else None


def follow(change: Callable[[Device | None], None]) -> None:
    """Call `change` with the device in use, now and whenever it becomes another."""
    _followers.append(change)
    change(current())


def use(device: Device | None) -> None:
    """Compute on a device from now on; None is this machine's processor.

    Raises:
        UnknownTarget: no back end compiles for it.
    """
    before = current()
    if device is before:
        return
    backends.use(device)
    _current[:] = [] if device is None else [device]
    if before is None:
        STATE.begin()
    elif device is None:
        STATE.end()
    for change in _followers:
        change(device)
