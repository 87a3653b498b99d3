"""The state of a Cell: buffers, and what is saved and loaded by attribute path."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from ... import context
from ...core.declared import misuse
from ...core.handles import Handle, add_hook
from ...core.invalidation import changed
from ...tensors.tensor import Tensor
from . import _state
from ._state import EXTRA, IncompatibleKeys
from .parameters import Parameters


class State(Parameters):
    """Buffers and state dictionaries."""

    # --- buffers --------------------------------------------------------------------------------

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a Tensor under an attribute name that belongs to the state but is not trained.

        Args:
            persistent: whether `state_dict` holds it.

        Raises:
            KeyError: the name is empty, has a dot, or is taken.
            AttributeError: before `Cell.__init__`.
        """
        _state.check_buffer(self, name, tensor)
        self._buffers[name] = persistent
        object.__setattr__(self, name, tensor)
        changed(self, name)

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with their attribute paths, of this cell and (with `recurse`) all below it."""
        seen: set[int] = set()
        own = [(prefix, self)]
        for path, cell in self.cells_and_names(name_prefix=prefix) if recurse else own:
            for name, value in _state.own_buffers(cell):
                if not (remove_duplicate and id(value) in seen):
                    seen.add(id(value))
                    yield (f"{path}.{name}" if path else name), value

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers of this cell and (with `recurse`) of all below it."""
        for _, value in self.named_buffers(recurse=recurse):
            yield value

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a path of attributes.

        Raises:
            AttributeError: there is none.
        """
        path, _, name = target.rpartition(".") if isinstance(target, str) else (target, "", "")
        cell = self.get_sub_cell(path)
        if name not in cell._buffers:
            raise AttributeError(f"{type(cell).__name__} has no buffer named '{name}'")
        value: Tensor = getattr(cell, name)
        return value

    # --- saving ---------------------------------------------------------------------------------

    def get_extra_state(self) -> Any:
        """Return further state: a subclass defines this and `set_extra_state`.

        Raises:
            RuntimeError: the subclass gives none.
        """
        raise RuntimeError(f"{type(self).__name__} gives no 'get_extra_state'")

    def set_extra_state(self, state: Any) -> None:
        """Take over what `get_extra_state` gave.

        Raises:
            RuntimeError: the subclass gives none.
        """
        raise RuntimeError(f"{type(self).__name__} gives no 'set_extra_state'")

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """Parameters, persistent buffers and extra state by attribute path; they are not copied.

        Args:
            args: the keyword arguments in order, as older scripts give them.
            destination: a dict to put them into, which is returned; None: a new OrderedDict.
            prefix: put before each path.
            keep_vars: a bool, which changes nothing: a Parameter is given as itself in any case.
        """
        named = [destination, prefix, keep_vars]
        destination, prefix, keep_vars = [*args, *named[len(args) :]]
        for name, value, kind in (("destination", destination, dict), ("prefix", prefix, str),
                                  ("keep_vars", keep_vars, bool)):
            if not isinstance(value, kind) and (name, value) != ("destination", None):
                raise misuse("state_dict", f"'{name}' must be a {kind.__name__}",
                             type(value).__name__, TypeError)
        if destination is None:
            destination = _state.StateDict()
        metadata: dict[str, Any] = {}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._hooks_of("state_dict_pre"):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._cells.items():
            if child is not None:
                child.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in self._hooks_of("state_dict_post"):
            hook(self, destination, prefix, metadata)
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put this cell's own state into `destination`; subclasses may add to it."""
        for name, value in [*self._own_parameters(), *_state.own_buffers(self, persistent=True)]:
            destination[prefix + name] = value
        if _state.has_extra_state(self):
            destination[prefix + EXTRA] = self.get_extra_state()

    # --- loading --------------------------------------------------------------------------------

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True
    ) -> IncompatibleKeys:
        """Copy tensors into the parameters and buffers of the same paths.

        Args:
            strict: whether paths that are on one side only are an error.

        Returns:
            `missing_keys` and `unexpected_keys`: paths only in the network, and only given.

        Raises:
            RuntimeError: a shape or (with `strict`) a path differs. Nothing is copied then, unless
                a hook or a method of a subclass takes part in loading.
        """
        return _state.load(self, state_dict, strict)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any],
        strict: bool, missing_keys: list[str], unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Take this cell's own state from `state_dict`; subclasses may do more or otherwise."""
        for hook in self._hooks_of("load_state_dict_pre"):
            hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                 error_msgs)
        _state.load_own(
            self, state_dict, prefix, strict,
            _state.Findings(missing_keys, unexpected_keys, error_msgs), copy=True,
        )

    # --- hooks ----------------------------------------------------------------------------------

    def _hooks_of(self, kind: str) -> list[Callable[..., Any]]:
        table = self.__dict__.get(f"_{kind}_hooks")
        return list(table.values()) if table else []

    def _add_hook(self, kind: str, hook: Callable[..., Any]) -> Handle:
        return add_hook(self.__dict__.setdefault(f"_{kind}_hooks", OrderedDict()), hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(cell, prefix, keep_vars)` before `state_dict`; a handle that removes it."""
        return self._add_hook("state_dict_pre", hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(cell, state_dict, prefix, local_metadata)` after `state_dict`, which it may
        change; a handle that removes it."""
        return self._add_hook("state_dict_post", hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(cell, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)` before this cell is loaded; a handle that removes it."""
        return self._add_hook("load_state_dict_pre", hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(cell, incompatible_keys)` after this cell was loaded; it may change the keys,
        which count for `strict`; a handle that removes it."""
        return self._add_hook("load_state_dict_post", hook)

    # --- element types and devices --------------------------------------------------------------

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Convert parameters and buffers of floats to an element type, in place; itself.

        Called as `to(device=None, dtype=None, non_blocking=False)`, `to(dtype, non_blocking=False)`
        or `to(tensor, non_blocking=False)`.

        Raises:
            RuntimeError: a device that this installation does not run on.
        """
        device, dtype = _state.destination(args, kwargs)
        _state.convert(self, dtype)
        _state.place(self, device)
        return self

    def to_empty(self, *, device: str | None = None, recurse: bool = True) -> Self:
        """Give parameters and buffers new memory, of any contents; itself.

        Raises:
            RuntimeError: as `to`.
        """
        context.check_device(device)
        _state.empty(self, recurse)
        return self
