"""Cell: the base class of networks.

A Cell registers the Parameters and Cells assigned to its attributes, names the parameters by the
path of attributes, and runs its `construct`: compiled as a whole in graph mode, op by op in
PyNative mode. Source: `mindspore.nn.Cell`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import context
from ...calls import pynative
from ...compiled.inline import inline
from ...compiled.sites import calls_of
from ...core import observers
from ...core.console_source import hold_console_source
from ...core.dispatch import active_tracer
from ...core.native import name_constructor
from .hooks import Hooking

if TYPE_CHECKING:
    from collections import OrderedDict
    from collections.abc import Callable, Iterable, Iterator
    from typing import ParamSpec, Protocol, Self, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")
    R_co = TypeVar("R_co", covariant=True)

    class Constructs(Protocol[P, R_co]):
        """The inputs and results of a Cell's call: those of its `construct`."""

        def construct(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class Cell(Hooking):
    """Base of networks. Subclasses make parameters and cells in `__init__` and give `construct`.

    Args:
        auto_prefix: name parameters of this cell by its attribute path.
        flags: initial flags (see `add_flags`).
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        name_constructor(cls)
        hold_console_source()

    if TYPE_CHECKING:
        def cells(self) -> Iterable[Cell]: ...
        def name_cells(self) -> OrderedDict[str, Cell]: ...
        def cells_and_names(
            self, cells: set[Cell] | None = None, name_prefix: str = ""
        ) -> Iterator[tuple[str, Cell]]: ...
        def insert_child_to_cell(self, child_name: str, child_cell: Cell | None) -> None: ...
        def get_sub_cell(self, target: str) -> Cell: ...
        def apply(self, fn: Callable[[Cell], Any]) -> Self: ...
        def __call__(self: Constructs[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...
    else:
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            tracer = active_tracer()
            if tracer is not None:
                return inline(tracer, self, args, kwargs)
            if "_prepared" not in self.__dict__:
                self._prepare()
            if observers.calls:
                return observers.calls[-1](self, args, kwargs, lambda: self._answer(args, kwargs))
            if context.in_graph_mode():
                return self._entries.call(self, args, kwargs)
            return pynative.call_cell(self, args, kwargs)

        def _answer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            """Return the result of a watched call: others do the same without a further call."""
            if context.in_graph_mode():
                return self._entries.call(self, args, kwargs)
            return pynative.call_cell(self, args, kwargs)


calls_of(Cell)
