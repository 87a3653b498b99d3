"""The Cells below a Cell."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

from ...core.invalidation import changed
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
        self, cells: set[Cell] | None = None, name_prefix: str = ""
    ) -> Iterator[tuple[str, Cell]]:
        """This cell and all below it with their paths, depth first, each once.

        Args:
            cells: cells that are left out, with those below them; the others are added.
            name_prefix: the path of this cell.
        """
        seen = cells if cells is not None else set()
        if as_cell(self) in seen:
            return
        seen.add(as_cell(self))
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
        if child_name not in self._cells and hasattr(self, child_name):
            raise KeyError(
                f"For 'insert_child_to_cell', the name '{child_name}' is an attribute already."
            )
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

    def apply(self, fn: Callable[[Cell], Any]) -> Self:
        """Call `fn` on every cell below this one, then on this one; itself."""
        for cell in self.cells():
            cell.apply(fn)
        fn(as_cell(self))
        return self

    # --- scopes ---------------------------------------------------------------------------------

    _scope: str | None = None

    def generate_scope(self) -> None:
        """Name the scope of every cell below this one by the path and the classes to it."""
        _name_scopes(as_cell(self), "Default")

    def get_scope(self) -> str | None:
        """The scope `generate_scope` gave, or None."""
        return self._scope


def _name_scopes(cell: Cell, prefix: str) -> None:
    for name, child in cell.name_cells().items():
        object.__setattr__(child, "_scope", f"{prefix}/{name}-{child.cls_name}")
        _name_scopes(child, f"{prefix}/{name}-{child.cls_name}")
