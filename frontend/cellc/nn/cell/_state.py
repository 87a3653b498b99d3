"""The state of a Cell: loading by attribute path; element types and memory of its tensors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cellc_runtime.dtypes import ALL, DType

from ... import context
from ...core.invalidation import changed
from ...core.module_names import module_of
from ...storage import storage_of
from ...storage.device import elements_of, to_device
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor, cast_array, elements_now, tensor_of

if TYPE_CHECKING:
    from .state import State

EXTRA = "_extra_state"  # The name of extra state among a cell's own paths


class StateDict(OrderedDict[str, Any]):
    """A state by path, with what else is known of each cell."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._metadata: OrderedDict[str, dict[str, Any]] = OrderedDict()


StateDict.__name__ = StateDict.__qualname__ = "OrderedDict"


class IncompatibleKeys(NamedTuple):
    """Names that `load_state_dict` did not find in the network, and in its argument."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
                f"unexpected_keys={self.unexpected_keys})")


IncompatibleKeys.__name__ = "_IncompatibleKeys"


class Findings(NamedTuple):
    """The findings of loading, in lists that hooks may change."""

    missing: list[str]
    unexpected: list[str]
    errors: list[str]


# --- buffers ------------------------------------------------------------------------------------


def check_buffer(cell: State, name: Any, tensor: Any) -> None:
    """Raise unless `tensor` may be registered as the buffer `name`."""
    if "_buffers" not in cell.__dict__:
        raise AttributeError(f"For '{type(cell).__name__}', please use super().__init__() before "
                             "register_buffer().")
    if not isinstance(name, str):
        raise TypeError(f"buffer name should be a string, but got {type(name).__name__}")
    if not name or "." in name:
        raise KeyError(f"a buffer name must not be empty or contain a dot, but got {name!r}")
    if name not in cell._buffers and hasattr(cell, name):
        raise KeyError(f"attribute '{name}' already exists")
    if tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"cannot assign {type(tensor).__name__} as the buffer '{name}': a Tensor "
                        "or None is wanted")


def own_buffers(cell: State, persistent: bool = False) -> Iterator[tuple[str, Tensor]]:
    """Names and values of a cell's own buffers, or of those that persist."""
    for name, kept in cell._buffers.items():
        value = getattr(cell, name)
        if value is not None and (kept or not persistent):
            yield name, value


def has_extra_state(cell: State) -> bool:
    """Whether a cell's class has extra state."""
    return _overrides(cell, "get_extra_state")


def _overrides(cell: State, method: str) -> bool:
    return not module_of(getattr(type(cell), method)).startswith("cellc.nn.cell")


# --- loading --------------------------------------------------------------------------------------


def load(cell: State, given: Any, strict: bool) -> IncompatibleKeys:
    """Copy tensors into parameters and buffers of the same paths.

    Raises:
        RuntimeError: a shape differs; or, with `strict`, the paths do.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"'state_dict' must be a dict, but got {type(given).__name__}")
    metadata = getattr(given, "_metadata", None) or {}
    if not any(_takes_part(c) for _, c in cell.cells_and_names()):
        # Nothing but copies: see first whether all of them can be made.
        trial = Findings([], [], [])
        _walk(cell, dict(given), "", metadata, trial, copy=False)
        _complain(cell, trial, strict)
    found = Findings([], [], [])
    _walk(cell, dict(given), "", metadata, found, copy=True)
    _complain(cell, found, strict)
    return IncompatibleKeys(found.missing, found.unexpected)


def _takes_part(cell: State) -> bool:
    """Whether a hook or a method of the user is run when a cell is loaded."""
    return bool(
        cell._hooks_of("load_state_dict_pre") or cell._hooks_of("load_state_dict_post")
        or _overrides(cell, "_load_from_state_dict") or _overrides(cell, "set_extra_state")
    )


def _complain(cell: State, found: Findings, strict: bool) -> None:
    lines = list(found.errors)
    if strict and found.unexpected:
        lines.insert(0, "unexpected: " + ", ".join(found.unexpected))
    if strict and found.missing:
        lines.insert(0, "missing: " + ", ".join(found.missing))
    if lines:
        text = "".join(f"\n\t{line}" for line in lines)
        raise RuntimeError(f"Error(s) in loading state_dict for {type(cell).__name__}:{text}")


def _walk(
    cell: State, given: dict[str, Any], prefix: str, metadata: Mapping[str, Any],
    found: Findings, *, copy: bool,
) -> None:
    """Load a cell and those below it; `copy` False: only say what would be wrong."""
    if copy:
        cell._load_from_state_dict(given, prefix, dict(metadata.get(prefix[:-1], {})), True, *found)
    else:
        load_own(cell, given, prefix, True, found, copy=False)
    for name, child in cell._cells.items():
        if child is not None:
            start = f"{prefix}{name}."
            part = {k: v for k, v in given.items() if k.startswith(start)}
            _walk(child, part, start, metadata, found, copy=copy)
    for hook in cell._hooks_of("load_state_dict_post"):
        hook(cell, IncompatibleKeys(found.missing, found.unexpected))


def load_own(
    cell: State, given: Mapping[str, Any], prefix: str, strict: bool, found: Findings, *,
    copy: bool,
) -> None:
    """Load a cell's own parameters, buffers and extra state; problems are added to `found`."""
    own = dict([*cell._own_parameters(), *own_buffers(cell, persistent=True)])
    for name, target in own.items():
        key = prefix + name
        if key not in given:
            found.missing.append(key)
        elif not isinstance(given[key], Tensor):
            found.errors.append(
                f"{key}: a Tensor or Parameter is wanted, but got {type(given[key]).__name__}"
            )
        elif given[key].shape != target.shape:
            found.errors.append(
                f"size mismatch for {key}: {given[key].shape} is given, {target.shape} is wanted"
            )
        elif copy:
            target.copy_(given[key])
            changed(cell, name)  # compiled code may hold a buffer's old elements
    names = set(own)
    if _overrides(cell, "set_extra_state"):
        names.add(EXTRA)
        if prefix + EXTRA not in given:
            found.missing.append(prefix + EXTRA)
        elif copy:
            cell.set_extra_state(given[prefix + EXTRA])
    if strict:
        for key in given:
            first, _, rest = key.removeprefix(prefix).partition(".")
            known = cell._cells.get(first) is not None if rest else first in names
            if key.startswith(prefix) and not known:
                found.unexpected.append(key)


# --- element types and memory ---------------------------------------------------------------------


def destination(
    args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[str | None, DType | None]:
    """The device and the element type that arguments of `Cell.to` ask for, checked."""
    form: tuple[str, ...] = ("device", "dtype", "non_blocking")
    if "tensor" in kwargs or (args and isinstance(args[0], Tensor)):
        form = ("tensor", "non_blocking")
    elif args and args[0] in ALL:
        form = ("dtype", "non_blocking")
    given = dict(zip(form, args, strict=False)) | dict(kwargs)
    if len(args) > len(form) or set(kwargs) - set(form) or len(given) != len(args) + len(kwargs):
        raise TypeError("Cell.to takes (device, dtype, non_blocking), (dtype, non_blocking) or "
                        f"(tensor, non_blocking), but got {len(args)} positional arguments and "
                        f"{sorted(kwargs)}.")
    device, tensor = given.get("device"), given.get("tensor")
    if not isinstance(device, (str, type(None))):
        raise TypeError(f"Cell.to: a device is a str, but got {type(device).__name__}.")
    if tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"Cell.to: 'tensor' must be a Tensor, but got {type(tensor).__name__}.")
    context.check_device(device)
    dtype: Any = tensor.dtype if tensor is not None else given.get("dtype")
    if dtype is not None and (dtype not in ALL or not (dtype.is_float or dtype.is_complex)):
        raise TypeError(f"Cell.to takes a floating point or complex dtype, but got {dtype}.")
    return tensor.device if tensor is not None else device, dtype


def place(cell: State, device: str | None) -> None:
    """Move the tensors of a cell and all below it to a device; None: they stay."""
    if device is None:
        return
    gpu = context.gpu_named(device)
    buffers = (t for _, each in cell.cells_and_names() for _, t in own_buffers(each))
    for tensor in (*cell.get_parameters(), *buffers):
        if gpu is not None:
            to_device(tensor, gpu)
        elif elements_of(tensor) is not None:
            storage_of(tensor).load(tensor)


def convert(cell: State, dtype: DType | None) -> None:
    """Convert floats of a cell and all below it in place."""
    if dtype is None:
        return

    def new(tensor: Tensor) -> Any:
        old = tensor.dtype
        fits = old.is_float or old.is_complex
        return cast_array(elements_now(tensor), dtype) if fits and old is not dtype else None

    _replace(cell, True, new)


def empty(cell: State, recurse: bool) -> None:
    """Give the tensors of a cell new memory."""
    _replace(cell, recurse, lambda tensor: np.zeros_like(elements_now(tensor)))


def _replace(cell: State, recurse: bool, new: Any) -> None:
    done: dict[int, tuple[Tensor, Tensor]] = {}  # the old tensors too: identities must last
    for _, each in cell.cells_and_names() if recurse else [("", cell)]:
        for name, tensor in [*each._own_parameters(), *own_buffers(each)]:
            if id(tensor) not in done:
                done[id(tensor)] = tensor, _with_array(tensor, new(tensor))
            now = done[id(tensor)][1]
            if now is not tensor:
                object.__setattr__(each, name, now)
            changed(each, name)


def _with_array(tensor: Tensor, array: Any) -> Tensor:
    """A Parameter with another array in place, a buffer as another Tensor; None: as they are."""
    if array is None:
        return tensor
    if isinstance(tensor, Parameter):
        tensor._replace(array)
        return tensor
    return tensor_of(array)
