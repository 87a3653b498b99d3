"""The Cells and Parameters below a Cell: registration, names, walks, the printed tree."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from types import NoneType
from typing import Any, Self, cast

from cellc_runtime.lazy import lazy_imports

from ... import context
from ...core.declared import instance, misuse
from ...core.invalidation import changed
from ...core.later import construct_checks
from ...tensors.parameter import Parameter
from .attributes import Attributes
from .unregistered import look_through

with lazy_imports(__name__):  # of use in notebooks only
    from . import outline


class Parameters(Attributes):
    """The Cells below this one, its Parameters and theirs.

    The class `Cell` declares again, for type checkers, the methods that take or return Cells.
    """

    def cells(self) -> Iterable[Parameters]:
        """Direct child cells."""
        return self.name_cells().values()

    def name_cells(self) -> OrderedDict[str, Any]:
        """Direct child cells by attribute name, each once."""
        out: OrderedDict[str, Any] = OrderedDict()
        seen: set[int] = set()
        for name, cell in self._cells.items():
            if cell is not None and id(cell) not in seen:
                seen.add(id(cell))
                out[name] = cell
        return out

    def cells_and_names(
        self, cells: set[Any] | None = None, name_prefix: str = ""
    ) -> Iterator[tuple[str, Any]]:
        """This cell and all below it with their paths, depth first, each once.

        Args:
            cells: cells that are left out, with those below them; the others are added.
            name_prefix: the path of this cell.
        """
        seen = {id(cell) for cell in cells or ()}
        for path, cell in self._below(seen, name_prefix):
            if isinstance(cells, set):
                cells.add(cell)
            yield path, cell

    def _below(
        self, seen: set[int], path: str, top: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """`cells_and_names`, without those that were seen, by identity."""
        if id(self) in seen or not (top or self._cells or not self._holds_cells_only):
            return  # (an empty container is left out, as in MindSpore)
        seen.add(id(self))
        yield path, self
        for name, cell in self._cells.items():
            if cell is not None:
                yield from cell._below(seen, f"{path}.{name}" if path else name, False)

    def insert_child_to_cell(self, child_name: str, child_cell: Any) -> None:
        """Add a child cell under a name.

        Raises:
            KeyError: the name is empty, holds a dot, or is taken.
        """
        if not isinstance(child_name, str):
            raise TypeError(f"For 'insert_child_to_cell', the name must be str, got {child_name!r}")
        if not child_name or "." in child_name:
            raise KeyError("For 'insert_child_to_cell', the name must have characters and no dot, "
                           f"got {child_name!r}.")
        if child_name not in self._cells and hasattr(self, child_name):
            raise KeyError(f"For 'insert_child_to_cell', the name '{child_name}' is an attribute "
                           "already.")
        if not isinstance(child_cell, Attributes) and child_cell is not None:
            raise misuse("insert_child_to_cell", f"'{child_name}' must be a Cell",
                         type(child_cell).__name__, TypeError)
        self._cells[child_name] = child_cell
        changed(self, child_name)

    def get_sub_cell(self, target: str) -> Parameters:
        """The cell at a path of attributes below this one (itself for an empty path).

        Raises:
            AttributeError: there is none.
        """
        if not isinstance(target, str):
            raise TypeError(f"a path of attributes must be a str, but got {type(target).__name__}")
        cell: Any = self
        for name in target.split(".") if target else ():
            found = cell._cells.get(name)
            if found is None:
                raise AttributeError(f"{type(cell).__name__} has no cell named '{name}'")
            cell = found
        return cast("Parameters", cell)

    def apply(self, fn: Callable[[Any], Any]) -> Self:
        """Call `fn` on every cell below this one, then on this one; itself."""
        for cell in self.cells():
            cell.apply(fn)
        fn(self)
        return self

    # --- parameters -----------------------------------------------------------------------------

    def insert_param_to_cell(
        self, param_name: str, param: Parameter | None, check_name_contain_dot: bool = True
    ) -> None:
        """Add a parameter under an attribute name; an unnamed one gets that name.

        Raises:
            KeyError: the name is empty, holds a dot, or is taken by something else.
        """
        if not isinstance(param_name, str):
            raise misuse("insert_param_to_cell", "the name must be a str",
                         type(param_name).__name__, TypeError)
        if not param_name:
            raise KeyError("For 'insert_param_to_cell', the name must not be empty.")
        if check_name_contain_dot and "." in param_name:
            raise KeyError(f"For 'insert_param_to_cell', the name '{param_name}' contains a dot.")
        instance(Parameter, NoneType)(param, "insert_param_to_cell", param_name)
        if param_name not in self._params and hasattr(self, param_name):
            raise KeyError(f"For 'insert_param_to_cell', the name '{param_name}' is an attribute "
                           "already.")
        if param is not None and param.auto_named:
            param.name = param_name
        self._params[param_name] = param

    def parameters_and_names(
        self, name_prefix: str = "", expand: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with their attribute paths, each once, in order of registration."""
        seen: set[int] = set()
        own = [(name_prefix, self)]
        cells = self.cells_and_names(name_prefix=name_prefix) if expand else own
        for path, cell in cells:
            for name, parameter in cell._own_parameters():
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield (f"{path}.{name}" if path else name), parameter

    def _own_parameters(self) -> Iterator[tuple[str, Parameter]]:
        for name, parameter in self._params.items():
            if parameter is not None:
                yield name, parameter

    def get_parameters(self, expand: bool = True) -> Iterator[Parameter]:
        """Parameters of this cell and (with `expand`) of all below it."""
        for _, parameter in self.parameters_and_names(expand=expand):
            yield parameter

    def trainable_params(self, recurse: bool = True) -> list[Parameter]:
        """Parameters with `requires_grad`."""
        look_through(self)
        return [p for p in self.get_parameters(recurse) if p.requires_grad]

    def untrainable_params(self, recurse: bool = True) -> list[Parameter]:
        """Parameters without `requires_grad`."""
        return [p for p in self.get_parameters(recurse) if not p.requires_grad]

    def parameters_dict(self, recurse: bool = True) -> OrderedDict[str, Parameter]:
        """Parameters by their names."""
        look_through(self)
        return OrderedDict((p.name, p) for p in self.get_parameters(recurse))

    def parameters_broadcast_dict(self, recurse: bool = True) -> OrderedDict[str, Parameter] | None:
        """Parameters by name without those spread over devices; None if there are none."""
        found = OrderedDict(
            (p.name, p) for p in self.get_parameters(recurse) if not p.layerwise_parallel
        )
        return found or None

    def _prepare(self) -> None:
        """Before the first call: values for parameters without one, names that differ."""
        object.__setattr__(self, "_prepared", True)
        self.init_parameters_data()
        self.check_names_and_refresh_name()
        if not context.in_graph_mode():
            construct_checks.warn_without_return(type(self))

    def check_names(self) -> None:
        """Raise a ValueError unless the names of all parameters differ."""
        seen: set[str] = set()
        for path, parameter in self.parameters_and_names():
            if parameter.name in seen:
                raise ValueError(f"The value of {path} is {parameter}, its name '{parameter.name}' "
                                 "already exists. Please set a unique name for the parameter.")
            seen.add(parameter.name)

    def check_names_and_refresh_name(self) -> None:
        """Give parameters of one name the names of their paths instead."""
        try:
            self.check_names()
        except ValueError:
            for path, parameter in self.parameters_and_names():
                parameter.name = path

    def update_parameters_name(self, prefix: str = "", recurse: bool = True) -> None:
        """Put a prefix before the name of every parameter."""
        if not isinstance(prefix, str):
            raise TypeError(f"the prefix must be str, but got {type(prefix).__name__}")
        for name, parameter in self.parameters_and_names(expand=recurse):
            if prefix:
                parameter.name = prefix + name

    @property
    def param_prefix(self) -> str:
        """The path of this cell below its root, set by `update_cell_prefix`."""
        return str(self._param_prefix)

    def update_cell_prefix(self) -> None:
        """Set `param_prefix` of every cell below this one."""
        for path, cell in self.cells_and_names():
            cell._param_prefix = path

    def init_parameters_data(self, auto_parallel_mode: bool = False) -> dict[Any, Parameter]:
        """Fill parameters that were made without a value; a map of each to itself.

        Args:
            auto_parallel_mode: only those in `parallel_parameter_name_list`.
        """
        wanted = self.parallel_parameter_name_list if auto_parallel_mode else None
        return {p: p.init_data() for p in self.get_parameters()
                if wanted is None or p.name in wanted}

    # --- scopes ---------------------------------------------------------------------------------

    _scope: str | None = None

    def generate_scope(self) -> None:
        """Name the scope of every cell below this one by the path and the classes to it."""
        _name_scopes(self, "Default")

    def get_scope(self) -> str | None:
        """The scope `generate_scope` gave, or None."""
        return self._scope

    # --- printed form ---------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extend_repr(self) -> str:
        """Return a subclass's text between the printed parentheses."""
        return ""

    def __repr__(self) -> str:
        extra = self.extend_repr()
        lines = extra.split("\n") if extra else []
        children = [(name, cell) for name, cell in self._cells.items() if cell is not None]
        head = self._get_name()
        if not children and len(lines) < 2:
            return f"{head}({extra})"
        lines += [f"({name}): " + repr(cell).replace("\n", "\n  ") for name, cell in children]
        return f"{head}(\n  " + "\n  ".join(lines) + "\n)"

    def _repr_html_(self) -> str:
        """Return the Cells for notebooks, as an outline that folds."""
        return outline.outline(self)

    def __bool__(self) -> bool:
        return True


def _name_scopes(cell: Parameters, prefix: str) -> None:
    for name, child in cell.name_cells().items():
        object.__setattr__(child, "_scope", f"{prefix}/{name}-{child.cls_name}")
        _name_scopes(child, f"{prefix}/{name}-{child.cls_name}")
