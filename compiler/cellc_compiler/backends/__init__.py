"""The back ends there are, and the one place that says which of them, and which target, is meant.

A back end is registered by the name of its module, which loads when it is first asked for. Which
one is meant where nothing else is said follows from the device of the context (`use`), which is the
process's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cellc_runtime.device import Device
from cellc_runtime.lazy import imported
from cellc_runtime.records import replace
from cellc_runtime.target import Target

if TYPE_CHECKING:
    from ..ir.graph import Graph
    from .base import Backend

DEFAULT = "cpu"


_MAKERS: dict[str, Callable[[], Backend]] = {
    "cpu": lambda: imported("cellc_compiler.backends.cpu.backend").CpuBackend(),
    "cuda": lambda: imported("cellc_compiler.backends.cuda.backend").CudaBackend(),
}
_MADE: dict[str, Backend] = {}
_chosen: Target | None = None
"""The target to compile for by default; None: the default of the default back end."""


class UnknownTarget(ValueError):
    """No back end compiles for a target."""


def register(name: str, make: Callable[[], Backend]) -> None:
    """Add a back end; `make` is called when it is first asked for. Raises ValueError if there is
    one of this name."""
    if name in _MAKERS:
        raise ValueError(f"the back end {name!r} is registered twice")
    _MAKERS[name] = make


def unregister(name: str) -> None:
    """Forget a back end that was registered."""
    del _MAKERS[name]
    _MADE.pop(name, None)


def use(device: Device | None) -> None:
    """Compile for a device from now on; None: for this machine's processor.

    Raises:
        UnknownTarget: no back end compiles for any of its targets.
    """
    global _chosen
    _chosen = None if device is None else _target_of(device)


def _target_of(device: Device) -> Target:
    """The first target of a device that some back end compiles for."""
    for target in device.targets.values():
        for name in _MAKERS:
            if backend(name).targets.get(target.name) is target:
                return target
    there = ", ".join(_MAKERS)
    raise UnknownTarget(f"no back end compiles for {device.name} "
                        f"({', '.join(device.targets)}); there are {there}")


def backend(name: str | None = None) -> Backend:
    """A back end by name; None is the one in use. Raises ValueError if there is none."""
    if name is None:
        if _chosen is not None:
            return backend_of(_chosen)
        name = DEFAULT
    if name not in _MADE:
        if name not in _MAKERS:
            raise ValueError(f"there is no back end {name!r}; there are {', '.join(_MAKERS)}")
        _MADE[name] = _MAKERS[name]()
    return _MADE[name]


def backend_of(target: Target) -> Backend:
    """The back end that compiles for a target. Raises UnknownTarget if none does."""
    for name in _MAKERS:
        found = backend(name)
        own = found.targets.get(target.name)
        if own is not None and own == replace(target, fast=own.fast):
            return found
    raise UnknownTarget(_unknown(target.name))


def target_named(name: str) -> Target:
    """A target by name. Raises UnknownTarget if no back end has it."""
    for maker in _MAKERS:
        found = backend(maker).targets.get(name)
        if found is not None:
            return found
    raise UnknownTarget(_unknown(name))


def _unknown(name: str) -> str:
    there = "; ".join(f"{b}: {', '.join(backend(b).targets)}" for b in _MAKERS)
    return f"unknown target {name!r}: no back end compiles for it ({there})"


def default_target() -> Target:
    """Return the target to compile for by default. Raises RuntimeError or ValueError if the default
    back end does not run on this machine."""
    return _chosen or backend().default_target()


def target_of(graph: Graph, numerics: str) -> Target:
    """The same, for a graph under these numerics.

    Raises: as `default_target`.
    """
    return backend().target_of(graph, numerics) if _chosen is None else under(_chosen, numerics)


def under(target: Target, numerics: str) -> Target:
    """A target as these numerics want its kernels.

    Raises:
        UnknownTarget: no back end compiles for it.
    """
    return backend_of(target).under(target, numerics)
