"""The state of a Cell: buffers, and what is saved and loaded by attribute path."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from ...common.tensor import Tensor
from . import _state
from .attributes import as_cell
from .parameters import Parameters


class State(Parameters):
    """Buffers and state dictionaries."""

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a Tensor under an attribute name that belongs to the state but is not trained.

        Args:
            persistent: whether `state_dict` holds it.

        Raises:
            TypeError: the name is no string, or the value neither a Tensor nor None.
            KeyError: the name is empty, has a dot, or is taken.
        """
        _state.check_buffer(as_cell(self), name, tensor)
        self._buffers[name] = persistent
        setattr(self, name, tensor)

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with their attribute paths, of this cell and (with `recurse`) all below it."""
        seen: set[int] = set()
        cells = self.cells_and_names(name_prefix=prefix) if recurse else [(prefix, as_cell(self))]
        for path, cell in cells:
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
        path, _, name = target.rpartition(".")
        cell = _state.below(as_cell(self), path)
        if name not in cell._buffers:
            raise AttributeError(f"{type(cell).__name__} has no buffer named '{name}'")
        value: Tensor = getattr(cell, name)
        return value

    def state_dict(self, *, prefix: str = "") -> OrderedDict[str, Tensor]:
        """Parameters and persistent buffers by attribute path; they are not copied."""
        return _state.state(as_cell(self), prefix)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True
    ) -> tuple[list[str], list[str]]:
        """Copy tensors into the parameters and buffers of the same paths.

        Args:
            strict: whether paths that are on one side only are an error.

        Returns:
            `missing_keys` and `unexpected_keys`: paths only in the network, and only given.

        Raises:
            RuntimeError: a shape or (with `strict`) a path differs; nothing is copied then.
        """
        return _state.load(as_cell(self), state_dict, strict)
