"""Cells that hold a list or a dictionary of Cells. Source: the same names in `mindspore.nn`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from ...core.declared import instance, misuse
from ...core.invalidation import changed
from ...tensors.tensor import Tensor
from ..cell import Cell
from ..cell.naming import name, naming, rename


def _check_cell(cell: Any, what: str) -> Cell:
    if not isinstance(cell, Cell):
        raise misuse(what, "each cell must be subclass of Cell", type(cell).__name__, TypeError)
    return cell


def _no_dict(cell: Cell, what: str) -> None:
    if isinstance(cell, CellDict):
        raise misuse(what, "the type of cell can not be CellDict", type(cell).__name__, TypeError)


class _Numbered(Cell):
    """Cells under the names "0", "1", ..., in order."""

    _holds_cells_only = True
    cell_list: tuple[Cell, ...]  # the cells as a tuple, which `construct` walks over

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[Cell]:
        return iter(self._cells.values())

    def __bool__(self) -> bool:
        return len(self) > 0

    def _place(self, index: Any, end: int) -> int:
        """A position between 0 and `end` from one that may count from the end.

        An integer Tensor of one element counts as its number, as it does in graph mode.
        """
        if isinstance(index, Tensor) and index.size == 1 and index.dtype.is_integer:
            index = int(index)
        if not isinstance(index, int):
            raise misuse(type(self).__name__, "the type of 'index' must be int",
                         type(index).__name__, TypeError)
        if not -end <= index < end:
            raise IndexError(f"For '{type(self).__name__}', the value of 'index' must be a number "
                             f"in range [{-end}, {end}), but got {index}.")
        return index % end

    def __getitem__(self, index: int | slice) -> Any:
        cells = list(self._cells.values())
        if isinstance(index, slice):
            return self._sliced(list(self._cells.items())[index])
        return cells[self._place(index, len(cells))]

    def _sliced(self, cells: list[tuple[str, Cell]]) -> Any:
        """A container of some of the cells, which names their parameters as one made of them."""
        out = type(self).__new__(type(self))
        _Numbered.__init__(out)
        for i, (_, cell) in enumerate(cells):
            name(cell, f"{i}.")
        out._set(cell for _, cell in cells)
        return out

    def __setitem__(self, index: int, cell: Cell) -> None:
        _check_cell(cell, type(self).__name__)
        key = list(self._cells)[self._place(index, len(self))]
        self._named(cell, key)
        self._cells[key] = cell
        self.cell_list = tuple(self)

    def __delitem__(self, index: int | slice) -> None:
        cells = list(self._cells.items())
        if not isinstance(index, slice):
            index = self._place(index, len(cells))
        del cells[index]
        prefix, part = naming(cells)
        for i, (key, cell) in enumerate(cells if self._auto_prefix else ()):
            if key.isdigit():
                rename(cell, f"{prefix}{i}.", part)
        self._set(cell for _, cell in cells)

    def _named(self, cell: Cell, own: int | str) -> Cell:
        """Return a cell, its parameters named after its own name here."""
        if self._auto_prefix:
            name(cell, f"{naming(self._cells.items())[0]}{own}.")
        return cell

    def _set(self, cells: Iterable[Cell]) -> None:
        """Hold `cells` in order, under names of their own or their places."""
        names: dict[int, list[str]] = {}  # a cell may be held twice
        for key, cell in self._cells.items():
            if not key.isdigit():
                names.setdefault(id(cell), []).append(key)
        kept = [((names.get(id(c)) or [str(i)]).pop(0), c) for i, c in enumerate(cells)]
        self._cells.clear()
        self._cells.update(kept)
        self.cell_list = tuple(c for _, c in kept)

    def set_grad(self, requires_grad: bool = True) -> Any:
        """`Cell.set_grad` of this list and of its cells; None."""
        super().set_grad(requires_grad)
        for cell in self:
            cell.set_grad(requires_grad)

    def append(self, cell: Cell) -> None:
        """Add a cell at the end."""
        place = len(self)
        self._named(_check_cell(cell, type(self).__name__), place)
        self._set([*self, cell])

    def insert(self, index: int, cell: Cell) -> None:
        """Put a cell before a position."""
        place = self._place(index, len(self) + 1) if index >= 0 else \
            self._place(index, max(len(self), 1))
        _check_cell(cell, type(self).__name__)
        prefix, part = naming(self._cells.items())
        cells = list(self)
        for i in range(len(cells), place if self._auto_prefix else len(cells), -1):
            rename(cells[i - 1], f"{prefix}{i}.", part)
        if self._auto_prefix:
            name(cell, f"{prefix}{place}.")
        cells.insert(place, cell)
        self._set(cells)

    def extend(self, cells: Iterable[Cell]) -> Any:
        """Add cells at the end; itself."""
        if not isinstance(cells, list):
            raise misuse(type(self).__name__,
                         "the new cells wanted to append should be instance of list",
                         type(cells).__name__, TypeError)
        prefix = naming(self._cells.items())[0]
        for cell in cells:
            _no_dict(_check_cell(cell, type(self).__name__), type(self).__name__)
            if self._auto_prefix:
                name(cell, f"{prefix}{len(self)}.")
            self._set([*self, cell])
        return self

    def __iadd__(self, cells: list[Cell]) -> Self:
        self.extend(cells)
        return self


class SequentialCell(_Numbered):
    """Cells applied one after another.

    Args:
        args: the cells; or one list of them; or one OrderedDict of named cells.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        self.cell_list = ()
        given = args[0] if len(args) == 1 else list(args)
        if isinstance(given, Cell):
            given = [given]
        if isinstance(given, list):
            for i, cell in enumerate(given):
                name(_check_cell(cell, "SequentialCell"), f"{i}.")
            self._set(given)
        elif isinstance(given, OrderedDict):
            for key, cell in given.items():
                name(_check_cell(cell, "SequentialCell"), f"{key}.")
                self._cells[key] = cell
            self.cell_list = tuple(self._cells.values())
        else:
            raise TypeError("For 'SequentialCell', the 'args[0]' must be Cell, list or "
                            f"orderedDict, but got {type(given).__name__}")

    def _sliced(self, cells: list[tuple[str, Cell]]) -> Any:
        out = super()._sliced([])
        for key, cell in cells:  # under the names they have here
            name(cell, f"{key}.")
            out._cells[key] = cell
        out.cell_list = tuple(cell for _, cell in cells)
        return out

    def construct(self, input_data: Any) -> Any:
        """Each cell applied to the result of the one before."""
        for cell in self.cell_list:
            input_data = cell(input_data)
        return input_data


class CellList(_Numbered):
    """A list of Cells, whose parameters belong to the network.

    Args:
        args: one list of cells, or none.
        kwargs: `auto_prefix`: whether the cells' parameters are named by position.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(kwargs.get("auto_prefix", True))
        self.cell_list = ()
        if len(args) > 1:
            raise misuse("CellList", "one list of cells is wanted", len(args), TypeError)
        if args:
            self.extend(args[0])

    def _sliced(self, cells: list[tuple[str, Cell]]) -> Any:
        for _, cell in cells:
            _no_dict(cell, type(self).__name__)
        return super()._sliced(cells)

    def construct(self, *inputs: Any) -> Any:
        """A list has no computation of its own.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("a CellList is a container: call the cells in it")


class CellDict(Cell):
    """A dictionary of Cells, whose parameters belong to the network.

    Args:
        args: one dict of names to cells, list of (name, cell) pairs, or CellDict; or none.

    Raises:
        KeyError: a name that is empty, has a dot or is an attribute of Cell.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(kwargs.get("auto_prefix", True))
        if len(args) == 1:
            self.update(args[0])
        elif args:
            raise misuse("CellDict", "one dictionary is wanted", len(args), TypeError)

    def __getitem__(self, key: str) -> Cell:
        found: Cell = self._cells[key]
        return found

    def __setitem__(self, key: str, cell: Cell) -> None:
        self._check_key(key)
        if isinstance(_check_cell(cell, "CellDict"), (CellDict, CellList, SequentialCell)):
            raise misuse("CellDict",
                         "the type of cell can not be CellDict, CellList or SequentialCell",
                         type(cell).__name__, TypeError)
        if self._auto_prefix:
            name(cell, f"{naming(self._cells.items())[0]}{key}.")
        self._cells[key] = cell
        changed(self, key)

    def _check_key(self, key: Any) -> None:
        if not isinstance(key, str):
            raise misuse("CellDict", "the key must be str", type(key).__name__, TypeError)
        if hasattr(self, key) and key not in self._cells:
            raise KeyError("For 'CellDict', the key can not be same with the attributes of Cell, "
                           f"but got key {key}.")
        if "." in key:
            raise KeyError(f"For 'CellDict', key can not contain \".\", but got key {key}")
        if not key:
            raise KeyError(f"For 'CellDict', key can not be empty string \"\", but got key {key}")

    def __delitem__(self, key: str) -> None:
        del self._cells[key]
        changed(self, key)

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def __contains__(self, key: str) -> bool:
        return key in self._cells

    def clear(self) -> None:
        """Remove all cells."""
        for key in list(self._cells):
            del self[key]

    def pop(self, key: str) -> Cell:
        """Remove a cell; it."""
        cell = self[key]
        del self[key]
        return cell

    def keys(self) -> Iterable[str]:
        """The names."""
        names: Iterable[str] = self._cells.keys()
        return names

    def values(self) -> Iterable[Cell]:
        """The cells."""
        cells: Iterable[Cell] = self._cells.values()
        return cells

    def items(self) -> Iterable[tuple[str, Cell]]:
        """Pairs of names and cells."""
        pairs: Iterable[tuple[str, Cell]] = self._cells.items()
        return pairs

    def update(self, cells: Any) -> None:
        """Add or replace cells from a dict, a CellDict, or a list of (name, cell) pairs."""
        if isinstance(cells, (Mapping, CellDict)):
            for key, cell in cells.items():
                self[key] = cell
            return
        instance(list, tuple)(cells, "CellDict", "cells")
        for pair in cells:
            if not isinstance(pair, (list, tuple)):
                raise misuse("CellDict", "a pair is wanted", repr(pair), TypeError)
            if len(pair) != 2:
                raise misuse("CellDict", "a pair is wanted", f"{len(pair)} items")
            self[pair[0]] = pair[1]

    def construct(self, *inputs: Any) -> Any:
        """A dictionary has no computation of its own.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("a CellDict is a container: call the cells in it")
