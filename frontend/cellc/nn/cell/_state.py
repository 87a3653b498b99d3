"""The state of a Cell by attribute path: its parameters and those of its buffers that persist."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ...common.tensor import Tensor
from ...core.watch import changed

if TYPE_CHECKING:
    from . import Cell


class _IncompatibleKeys(NamedTuple):
    """What `load_state_dict` did not find in the network, and in what it was given."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def check_buffer(cell: Cell, name: Any, tensor: Any) -> None:
    """Raise unless `tensor` may be registered as the buffer `name`.

    Raises:
        TypeError: the name is no string, or the value neither a Tensor nor None.
        KeyError: the name is empty, has a dot, or is an attribute that is no buffer.
    """
    if not isinstance(name, str):
        raise TypeError(f"buffer name should be a string, but got {type(name).__name__}")
    if not name or "." in name:
        raise KeyError(f"a buffer name must not be empty or contain a dot, but got {name!r}")
    if name not in cell._buffers and hasattr(cell, name):
        raise KeyError(f"attribute '{name}' already exists")
    if tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(
            f"cannot assign {type(tensor).__name__} as the buffer '{name}': a Tensor or None is "
            "wanted"
        )


def own_buffers(cell: Cell, persistent: bool = False) -> Iterator[tuple[str, Tensor]]:
    """Names and values of a cell's own buffers, or of those that persist."""
    for name, kept in cell._buffers.items():
        value = getattr(cell, name)
        if value is not None and (kept or not persistent):
            yield name, value


def below(cell: Cell, path: str) -> Cell:
    """The cell at a path of attributes.

    Raises:
        AttributeError: there is none.
    """
    for name in path.split(".") if path else ():
        found = cell._cells.get(name)
        if found is None:
            raise AttributeError(f"{type(cell).__name__} has no cell named '{name}'")
        cell = found
    return cell


def state(cell: Cell, prefix: str) -> OrderedDict[str, Tensor]:
    """Parameters and persistent buffers by attribute path, parents before children."""
    out: OrderedDict[str, Tensor] = OrderedDict()
    for name, value in [*cell._own_parameters(), *own_buffers(cell, persistent=True)]:
        out[prefix + name] = value
    for name, child in cell._cells.items():
        if child is not None:
            out.update(state(child, f"{prefix}{name}."))
    return out


def load(cell: Cell, given: Mapping[str, Any], strict: bool) -> _IncompatibleKeys:
    """Copy tensors into parameters and buffers of the same paths.

    Raises:
        TypeError: no mapping.
        RuntimeError: a shape differs; or, with `strict`, the paths do. Nothing is copied then.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"'state_dict' must be a dict, but got {type(given).__name__}")
    own = state(cell, "")
    keys = _IncompatibleKeys([k for k in own if k not in given], [k for k in given if k not in own])
    wrong = [
        f"size mismatch for {k}: {tuple(given[k].shape)} is given, {own[k].shape} is wanted"
        for k in own if k in given and tuple(given[k].shape) != own[k].shape
    ]
    if strict:
        wrong += [f"missing: {k}" for k in keys.missing_keys]
        wrong += [f"unexpected: {k}" for k in keys.unexpected_keys]
    if wrong:
        lines = "".join(f"\n\t{line}" for line in wrong)
        raise RuntimeError(f"Error(s) in loading state_dict for {type(cell).__name__}:{lines}")
    for key, target in own.items():
        if key in given:
            target.copy_(given[key])
            path, _, name = key.rpartition(".")
            changed(below(cell, path), name)  # compiled code may hold a buffer's old elements
    return keys
