"""The Cells below a Cell."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ...core.watch import changed
from . import _state
from .attributes import Attributes, as_cell

if TYPE_CHECKING:
    from . import Cell


class Children(Attributes):
    """Walks over the Cells below this one."""

    def cells(self) -> Iterable[Cell]:
        """Direct child cells."""
        return self.name_cells().values()

    def name_cells(self) -> OrderedDict[str, Cell]:
        """Direct child cells by attribute name, each once."""
        out: OrderedDict[str, Cell] = OrderedDict()
        seen: set[int] = set()
        for name, cell in self._cells.items():
            if cell is not None and id(cell) not in seen:
                seen.add(id(cell))
                out[name] = cell
        return out

    def cells_and_names(
        self, cells: set[int] | None = None, name_prefix: str = ""
    ) -> Iterator[tuple[str, Cell]]:
        """This cell and all below it with their paths, depth first, each once."""
        seen = cells if cells is not None else set()
        if id(self) in seen:
            return
        seen.add(id(self))
        yield name_prefix, as_cell(self)
        for name, cell in self._cells.items():
            if cell is not None:
                path = f"{name_prefix}.{name}" if name_prefix else name
                yield from cell.cells_and_names(seen, path)

    def insert_child_to_cell(self, child_name: str, child_cell: Cell) -> None:
        """Add a child cell under a name.

        Raises:
            KeyError: the name is taken.
            TypeError: no Cell, or the name is no string.
        """
        if not isinstance(child_name, str):
            raise TypeError(f"For 'insert_child_to_cell', the name must be str, got {child_name!r}")
        if child_name in self._cells or hasattr(self, child_name):
            raise KeyError(f"For 'insert_child_to_cell', the name '{child_name}' is taken.")
        if not isinstance(child_cell, Attributes) and child_cell is not None:
            raise TypeError(
                f"For 'insert_child_to_cell', '{child_name}' must be a Cell, got "
                f"{type(child_cell).__name__}."
            )
        self._cells[child_name] = child_cell
        changed(self, child_name)

    def get_sub_cell(self, target: str) -> Cell:
        """The cell at a path of attributes below this one (itself for an empty path).

        Raises:
            AttributeError: there is none.
        """
        return _state.below(as_cell(self), target)
