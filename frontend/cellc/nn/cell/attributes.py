"""The contents of a Cell: attributes, among them its Parameters, Cells and buffers."""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from copy import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from cellc_runtime.lazy import lazy_imports

from ...calls.hooks import hooks_of
from ...compiled import entries
from ...core.declared import instance, misuse
from ...core.invalidation import changed
from ...core.later import other_names
from ...tensors.parameter import Parameter, ParameterTuple
from ...tensors.tensor import Tensor
from .unregistered import look_at

if TYPE_CHECKING:
    from collections.abc import Mapping
with lazy_imports(__name__):  # what layers have besides, made when asked for
    from ...calls import inner_primitives
    from ..layer import inner


class Attributes:
    """Attributes of a Cell: Parameters and Cells are kept in tables of their own."""

    if TYPE_CHECKING:
        # Given further up the chain of bases.
        def add_flags(self, **flags: Any) -> Any: ...
        def insert_param_to_cell(
            self, param_name: str, param: Parameter | None, check_name_contain_dot: bool = True
        ) -> None: ...

    _inner: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Primitives that MindSpore's layer of this kind has, as far as somebody has asked."""
    _whole = False  # Whether cellc may run it as one program in PyNative mode too
    _own = frozenset({"_params", "_cells", "_flags", "_entries", "_params_list", "_tensor_list"})

    def __init__(self, auto_prefix: bool = True, flags: dict[str, Any] | None = None) -> None:
        put = object.__setattr__
        put(self, "_params", OrderedDict())
        put(self, "_cells", OrderedDict())
        put(self, "_flags", {})
        put(self, "_buffers", {})
        put(self, "_entries", entries.EntryTable())
        put(self, "_auto_prefix", auto_prefix)
        put(self, "training", False)
        put(self, "requires_grad", False)
        put(self, "_param_prefix", "")
        put(self, "_hooks", None)
        put(self, "_create_time", time.time_ns())
        if flags is not None:
            instance(dict)(flags, self.cls_name, "flags")
            self.add_flags(**flags)

    _holds_cells_only: ClassVar[bool] = False  # Whether a network passes over it where it is empty
    IGNORE_LIST: ClassVar[list[str]] = []
    """Names that MindSpore's Cells handle apart: none, each attribute is where it was put."""
    global_cells: ClassVar[dict[Any, str]] = {}
    """MindSpore's table of compiled Cells: empty, since a Cell keeps its own."""
    T_destination = TypeVar("T_destination", bound=dict[str, Any])

    @property
    def cls_name(self) -> str:
        """The class's name."""
        return type(self).__name__

    @property
    def create_time(self) -> int:
        """When the Cell was made: nanoseconds since 1970."""
        return int(self.__dict__.get("_create_time", 0))

    @property
    def cell_init_args(self) -> str:
        """The arguments that `cell_attr_register` has kept, after the class's name.

        Raises:
            AttributeError: the class's `__init__` is not decorated so.
        """
        if "_cell_init_args" not in self.__dict__:
            raise AttributeError("cell_init_args")
        return str(self.__dict__["_cell_init_args"])

    @cell_init_args.setter
    def cell_init_args(self, text: str) -> None:
        self.__dict__["_cell_init_args"] = text

    @property
    def exist_names(self) -> set[str]:
        """Names that a list of Parameters was given: none is renamed."""
        return set()

    @property
    def exist_objs(self) -> set[int]:
        """The objects of `exist_names`, by identity."""
        return set()

    @property
    def phase_cache(self) -> dict[str, str]:
        """Compiled graphs by phase: none, since they are found by what the Cell is called with."""
        return {}

    @property
    def pipeline_segment(self) -> int:
        """The part of a pipeline over several devices.

        Raises:
            AttributeError: always: there is one device.
        """
        raise AttributeError("pipeline_segment")

    @property
    def enable_backward_hook(self) -> bool:
        """True: a function of the user is called with the Cell's gradients.

        Raises:
            AttributeError: none is.
        """
        hooks = hooks_of(self)
        if hooks is None or not (hooks.of("backward_pre") or hooks.of("backward")):
            raise AttributeError("enable_backward_hook")
        return True

    def __getattr__(self, name: str) -> Any:
        table = self.__dict__
        for kind in ("_params", "_cells"):
            found = table.get(kind)
            if found is not None and name in found:
                return found[name]
        if name in Attributes._own and "_params" not in table:
            raise AttributeError(f"For '{type(self).__name__}', please use super().__init__() in "
                                 "its __init__.")
        if not name.startswith("_") and "cellc.nn.layer" in sys.modules:
            made = self._inner_primitive(name)
            if made is not None:
                return made
        raise other_names.missing(
            self, name, f"The '{type(self).__name__}' object has no attribute '{name}'")

    def _inner_primitive(self, name: str) -> Any:
        """A primitive that MindSpore's layer of this kind has, made when it is first asked for."""
        kept = self._inner
        if name not in kept:
            made = inner.find(self, name)
            if made is None:
                return None
            kept = {**kept, name: made}
            inner_primitives.hold(self, kept)
        return kept[name]

    def _follow_option(self, primitive: Any, option: str, value: Any) -> None:
        """An option of an inner primitive is set: the layer computes by it, or refuses it."""
        name = next((n for n, held in self._inner.items() if held is primitive), "")
        inner.follow(self, name, primitive, option, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if "_params" not in self.__dict__:
            if isinstance(value, (Attributes, Parameter)):
                raise AttributeError(f"For '{type(self).__name__}', please use super().__init__() "
                                     f"before assigning '{name}'.")
            object.__setattr__(self, name, value)
            return
        if callable(value) and "cellc.nn.layer" in sys.modules and inner.takes(self, name, value):
            inner_primitives.hold(self, {**self._inner, name: value})
            changed(self, "_inner")
        elif isinstance(value, Parameter):
            self._set_parameter(name, value)
        elif isinstance(value, Attributes):
            self._set_cell(name, value)
        elif isinstance(value, ParameterTuple):
            self._set_parameter_tuple(name, value)
        elif name in self._params:
            self._assign_parameter(name, value)
        elif name in self._cells:
            if value is not None:
                raise misuse("Cell", f"the type of {name} must be cell", type(value).__name__,
                             TypeError)
            self._cells[name] = None
        elif name in self._buffers:
            self._set_buffer(name, value)
        else:
            object.__setattr__(self, name, value)
            kind = type(value)
            if kind is list or kind is tuple or kind is dict:
                look_at(self, name, value, set(map(id, self._cells.values())))
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
        if name in self._cells:
            raise KeyError(f"For 'Cell', the attribute '{name}' is a Cell already.")
        if name in self._buffers:
            raise KeyError(f"For 'Cell', the attribute '{name}' is a buffer already.")
        self.__dict__.pop(name, None)
        self.insert_param_to_cell(name, value)

    def _set_cell(self, name: str, value: Attributes) -> None:
        self.__dict__.pop(name, None)
        if name in self._params:
            raise KeyError(f"For 'Cell', the attribute '{name}' is a Parameter already.")
        if name not in self._cells and hasattr(type(self), name):
            raise KeyError(f"For 'Cell', the class {type(self).__name__} has an attribute "
                           f"'{name}'.")
        if self._auto_prefix:
            value.update_parameters_name(name + ".")
        self._cells[name] = value

    def _set_parameter_tuple(self, name: str, value: ParameterTuple) -> None:
        object.__setattr__(self, name, value)
        for parameter in value:
            self.insert_param_to_cell(parameter.name, parameter, check_name_contain_dot=False)

    def _set_buffer(self, name: str, value: Any) -> None:
        if value is not None and not isinstance(value, Tensor):
            raise misuse("Cell", f"the buffer '{name}' takes a Tensor or None",
                         type(value).__name__, TypeError)
        object.__setattr__(self, name, value)

    def _assign_parameter(self, name: str, value: Any) -> None:
        if isinstance(value, Tensor) and self._params[name] is not None:
            self._params[name].set_data(value)
        elif value is None:
            self._params[name] = None
        else:
            raise misuse("Cell", f"the type of '{name}' must be Parameter", type(value).__name__,
                         TypeError)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.pop("_entries", None)  # compiled code belongs to the process
        state.pop("_remembered", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        object.__setattr__(self, "_entries", entries.EntryTable())
        if "_inner" in state:
            inner_primitives.hold(self, {
                k: copy(v) if hasattr(v, "sharded") else v for k, v in state["_inner"].items()})
        if state.get("_set_inputs") is not None:
            self._entries.open(state["_set_inputs"])


def replace_cells(owner: Attributes, others: Mapping[int, Any]) -> None:
    """Put other cells in the place of some that a cell holds, by identity; Parameters keep their
    names, so they are not inserted again."""
    for key, cell in owner._cells.items():
        if id(cell) in others:
            owner._cells[key] = others[id(cell)]
            changed(owner, key)
    if "cell_list" in owner.__dict__:  # of a container
        owner.__dict__["cell_list"] = tuple(owner._cells.values())


def share_attributes(owner: Attributes, other: Attributes, without: Collection[str] = ()) -> None:
    """Give a new cell all that another one holds, but Parameters of the names in `without`."""
    for name, value in owner.__dict__.items():
        if name not in other.__dict__:
            object.__setattr__(other, name, value)
    other._params.update((n, p) for n, p in owner._params.items() if n not in without)
    other._cells.update(owner._cells)
