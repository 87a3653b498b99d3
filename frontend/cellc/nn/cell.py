"""Cell: the base class of networks.

A Cell registers the Parameters and Cells assigned to its attributes, names the parameters by the
path of attributes, and runs its `construct`: compiled as a whole in graph mode, op by op in
PyNative mode. Source: `mindspore.nn.Cell`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .. import context
from ..common.parameter import Parameter, ParameterTuple
from ..common.tensor import Tensor
from ..core import compiled, eager
from ..core.calls import calls_of
from ..core.dispatch import active_tracer
from ..core.watch import changed
from . import _state


class Cell:
    """Base of networks. Subclasses make parameters and cells in `__init__` and give `construct`.

    Args:
        auto_prefix: name parameters of this cell by its attribute path.
        flags: initial flags (see `add_flags`).
    """

    _whole = False
    """Whether cellc may run it as one program in PyNative mode too."""
    _own = frozenset({"_params", "_cells", "_flags", "_entries", "_params_list", "_tensor_list"})

    def __init__(self, auto_prefix: bool = True, flags: dict[str, Any] | None = None) -> None:
        put = object.__setattr__
        put(self, "_params", OrderedDict())
        put(self, "_cells", OrderedDict())
        put(self, "_flags", {})
        put(self, "_buffers", {})
        put(self, "_entries", compiled.EntryTable())
        put(self, "_auto_prefix", auto_prefix)
        put(self, "training", False)
        put(self, "requires_grad", False)
        put(self, "_param_prefix", "")
        put(self, "_hooks", {})
        put(self, "cls_name", type(self).__name__)
        put(self, "instance_name", "")
        if flags:
            self.add_flags(**flags)

    # --- attributes -----------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        table = self.__dict__
        for kind in ("_params", "_cells"):
            found = table.get(kind)
            if found is not None and name in found:
                return found[name]
        if name in Cell._own and "_params" not in table:
            raise AttributeError(
                f"For '{type(self).__name__}', please use super().__init__() in its __init__."
            )
        raise AttributeError(f"The '{type(self).__name__}' object has no attribute '{name}'.")

    def __setattr__(self, name: str, value: Any) -> None:
        if "_params" not in self.__dict__:
            if isinstance(value, (Cell, Parameter)):
                raise AttributeError(
                    f"For '{type(self).__name__}', please use super().__init__() before "
                    f"assigning '{name}'."
                )
            object.__setattr__(self, name, value)
            return
        if isinstance(value, Parameter):
            self._set_parameter(name, value)
        elif isinstance(value, Cell):
            self._set_cell(name, value)
        elif isinstance(value, ParameterTuple):
            self._set_parameter_tuple(name, value)
        elif name in self._params:
            self._assign_parameter(name, value)
        elif name in self._cells:
            if value is not None:
                raise TypeError(
                    f"For 'Cell', the type of {name} must be cell, but got {type(value).__name__}."
                )
            self._cells[name] = None
        else:
            object.__setattr__(self, name, value)
        changed(self, name)

    def __delattr__(self, name: str) -> None:
        if name in self._params:
            del self._params[name]
        elif name in self._cells:
            del self._cells[name]
        else:
            object.__delattr__(self, name)
            self._buffers.pop(name, None)
        changed(self, name)

    def _set_parameter(self, name: str, value: Parameter) -> None:
        if name in self.__dict__ and self.__dict__[name] is not None:
            raise TypeError(
                f"For 'Cell', the attribute '{name}' already exists and is no Parameter."
            )
        self.__dict__.pop(name, None)
        self._cells.pop(name, None)
        self.insert_param_to_cell(name, value)

    def _set_cell(self, name: str, value: Cell) -> None:
        self.__dict__.pop(name, None)
        if name in self._params:
            raise KeyError(f"For 'Cell', the attribute '{name}' is a Parameter already.")
        if self._auto_prefix:
            value.update_parameters_name(name + ".")
        self._cells[name] = value

    def _set_parameter_tuple(self, name: str, value: ParameterTuple) -> None:
        for parameter in value:
            if parameter.auto_named:
                raise ValueError(
                    f"For 'Cell', the parameters of the tuple '{name}' must have names."
                )
        object.__setattr__(self, name, value)
        for parameter in value:
            self.insert_param_to_cell(parameter.name, parameter, check_name_contain_dot=False)

    def _assign_parameter(self, name: str, value: Any) -> None:
        if isinstance(value, Tensor) and self._params[name] is not None:
            self._params[name].set_data(value)
        elif value is None:
            self._params[name] = None
        else:
            raise TypeError(
                f"For 'Cell', the type of '{name}' must be Parameter, but got "
                f"{type(value).__name__}."
            )

    # --- calling --------------------------------------------------------------------------------

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        """The computation; to be given by each network."""
        raise AttributeError(
            f"For 'Cell', the method 'construct' of '{type(self).__name__}' is not defined."
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tracer = active_tracer()
        if tracer is not None:
            return compiled.inline(tracer, self, args, kwargs)
        if context.in_graph_mode():
            return self._entries.call(self, args, kwargs)
        return eager.call_cell(self, args, kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile for these inputs (Tensors, or values known at compile time) without running."""
        self._entries.prepare(self, args, kwargs)

    def compile_and_run(self, *args: Any, **kwargs: Any) -> Any:
        """Compile for these inputs, then run."""
        return self._entries.call(self, args, kwargs)

    # --- children -------------------------------------------------------------------------------

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
        yield name_prefix, self
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
        if not isinstance(child_cell, Cell) and child_cell is not None:
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
        return _state.below(self, target)

    # --- buffers and state ----------------------------------------------------------------------

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a Tensor under an attribute name that belongs to the state but is not trained.

        Args:
            persistent: whether `state_dict` holds it.

        Raises:
            TypeError: the name is no string, or the value neither a Tensor nor None.
            KeyError: the name is empty, has a dot, or is taken.
        """
        _state.check_buffer(self, name, tensor)
        self._buffers[name] = persistent
        setattr(self, name, tensor)

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with their attribute paths, of this cell and (with `recurse`) all below it."""
        seen: set[int] = set()
        cells = self.cells_and_names(name_prefix=prefix) if recurse else [(prefix, self)]
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
        cell = _state.below(self, path)
        if name not in cell._buffers:
            raise AttributeError(f"{type(cell).__name__} has no buffer named '{name}'")
        value: Tensor = getattr(cell, name)
        return value

    def state_dict(self, *, prefix: str = "") -> OrderedDict[str, Tensor]:
        """Parameters and persistent buffers by attribute path; they are not copied."""
        return _state.state(self, prefix)

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
        return _state.load(self, state_dict, strict)

    # --- parameters -----------------------------------------------------------------------------

    def insert_param_to_cell(
        self, param_name: str, param: Parameter | None, check_name_contain_dot: bool = True
    ) -> None:
        """Add a parameter under an attribute name; an unnamed one gets that name.

        Raises:
            KeyError: the name is empty, holds a dot, or is taken by something else.
            TypeError: no Parameter.
        """
        if not param_name:
            raise KeyError("For 'insert_param_to_cell', the name must not be empty.")
        if check_name_contain_dot and "." in param_name:
            raise KeyError(f"For 'insert_param_to_cell', the name '{param_name}' contains a dot.")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"For 'insert_param_to_cell', '{param_name}' must be a Parameter, got "
                f"{type(param).__name__}."
            )
        if param is not None and param.auto_named:
            param.name = param_name
        self._params[param_name] = param

    def parameters_and_names(
        self, name_prefix: str = "", expand: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with their attribute paths, each once, in order of registration."""
        seen: set[int] = set()
        cells = self.cells_and_names(name_prefix=name_prefix) if expand else [(name_prefix, self)]
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
        return [p for p in self.get_parameters(recurse) if p.requires_grad]

    def untrainable_params(self, recurse: bool = True) -> list[Parameter]:
        """Parameters without `requires_grad`."""
        return [p for p in self.get_parameters(recurse) if not p.requires_grad]

    def parameters_dict(self, recurse: bool = True) -> OrderedDict[str, Parameter]:
        """Parameters by their names."""
        return OrderedDict((p.name, p) for p in self.get_parameters(recurse))

    def update_parameters_name(self, prefix: str = "", recurse: bool = True) -> None:
        """Put a prefix before the name of every parameter."""
        for name, parameter in self.parameters_and_names(expand=recurse):
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
        """Initialise parameters that were created lazily; a map of each to itself."""
        return {p: p.init_data() for p in self.get_parameters()}

    # --- modes ----------------------------------------------------------------------------------

    def set_train(self, mode: bool = True) -> Cell:
        """Training or evaluation mode, of this cell and all below it; itself."""
        for _, cell in self.cells_and_names():
            if cell.training != mode:
                cell.training = mode
        return self

    @property
    def phase(self) -> str:
        """A name for what the cell does: `"train"` or `"predict"` unless it was set."""
        return str(self.__dict__.get("_phase") or ("train" if self.training else "predict"))

    @phase.setter
    def phase(self, value: str) -> None:
        object.__setattr__(self, "_phase", value)

    def set_grad(self, requires_grad: bool = True) -> Cell:
        """Accepted for compatibility: gradients need no second forward run here; itself."""
        object.__setattr__(self, "requires_grad", requires_grad)
        return self

    def add_flags(self, **flags: Any) -> Cell:
        """Set flags as attributes too; itself."""
        self._flags.update(flags)
        for name, value in flags.items():
            object.__setattr__(self, name, value)
        return self

    def add_flags_recursive(self, **flags: Any) -> Cell:
        """`add_flags` on this cell and all below it; itself."""
        for _, cell in self.cells_and_names():
            cell.add_flags(**flags)
        return self

    def get_flags(self) -> dict[str, Any]:
        """The flags that were set."""
        return dict(self._flags)

    def set_jit_config(self, jit_config: Any) -> None:
        """Accepted for compatibility."""
        object.__setattr__(self, "_jit_config", jit_config)

    def apply(self, fn: Any) -> Cell:
        """Call `fn` on every cell below this one, then on this one; itself."""
        for cell in self.cells():
            cell.apply(fn)
        fn(self)
        return self

    # --- printing -------------------------------------------------------------------------------

    def extend_repr(self) -> str:
        """What a subclass wants printed between the parentheses."""
        return ""

    def __repr__(self) -> str:
        extra = self.extend_repr()
        children = [(name, cell) for name, cell in self._cells.items() if cell is not None]
        head = type(self).__name__
        if not children:
            return f"{head}({extra})" if extra else f"{head}()"
        lines = [f"({name}): " + repr(cell).replace("\n", "\n  ") for name, cell in children]
        inner = [extra, *lines] if extra else lines
        return f"{head}(\n  " + "\n  ".join(inner) + "\n)"

    # --- copying --------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.pop("_entries", None)  # compiled code belongs to the process
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        object.__setattr__(self, "_entries", compiled.EntryTable())


calls_of(Cell)
