"""Parameters and layers that a compiled function makes: each call has new ones, as in PyNative.

Each run begins with the values they were made with while compiling, so these values must be those
of every call: a value that is drawn or that only the run knows is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.dispatch import tracing
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor
from . import _model
from .frames import Frame
from .outcome import NotRollable

if TYPE_CHECKING:
    from .interpreter import Interpreter


def made_parameter(
    vm: Interpreter, cls: type, args: list[Any], kwargs: dict[str, Any], runtime: bool, frame: Frame
) -> Any:
    """`Parameter(...)`.

    Raises:
        CompileTypeError: its value is drawn or known to the run only, or it is made under a
            condition or in a loop of the run (CE501).
    """
    if runtime:
        raise vm.error(
            "CE501", TypeError, "a Parameter cannot be made of a value that only the run knows",
            frame, hint="make it in __init__, and assign the value here",
        )
    with undrawn(vm, cls, frame), tracing(None):
        made = cls(*args, **kwargs)
    _begin(vm, made, cls, frame)
    return vm.state.new(made)


def begin_parameters(
    vm: Interpreter, cell: Any, given: Iterable[Parameter], frame: Frame
) -> None:
    """Begin the Parameters of a Cell that was made now, without those that it was given.

    Raises:
        CompileTypeError: it is made under a condition or in a loop of the run (CE501).
    """
    known = set(map(id, given))
    for parameter in cell.get_parameters():
        if id(parameter) not in known and parameter not in vm.tracer.made:
            _begin(vm, parameter, type(cell), frame)


def _begin(vm: Interpreter, parameter: Parameter, cls: type, frame: Frame) -> None:
    if vm.rolling:
        raise NotRollable  # a trip of a rolled loop would begin with what the last one assigned
    if vm.region_depth:
        raise vm.error(
            "CE501", TypeError, f"a {cls.__name__} cannot be made under a condition or in a loop "
            "that only the run knows", frame, hint="make it in __init__, or before",
        )
    vm.tracer.begin(parameter)


@contextmanager
def undrawn(vm: Interpreter, cls: type, frame: Frame) -> Iterator[None]:
    """A block that makes a Parameter or a Cell, whose initial values may not be drawn.

    Raises:
        CompileTypeError: the block draws from the generator of initial values (CE501).
    """
    words, used = _drawn()
    yield
    after = _drawn()
    if used != after[1] or not np.array_equal(words, after[0]):
        raise vm.error(
            "CE501", TypeError, f"initial values of a {cls.__name__} cannot be drawn while a graph "
            "is compiled: each call would have the same", frame, hint="make it in __init__",
        )


def _drawn() -> tuple[Any, Any]:
    """The words of numpy's global generator, which initial values are drawn from, and how many of
    them are used."""
    state: Any = np.random.get_state()
    return state[1], state[2]


def parameters_in(values: Iterable[Any]) -> Iterator[Parameter]:
    """The Parameters among values, in Cells and in containers."""
    for value in values:
        if isinstance(value, Parameter):
            yield value
        elif _model.is_cell(value):
            yield from value.get_parameters()
        elif isinstance(value, (list, tuple, dict)):
            yield from parameters_in(value.values() if isinstance(value, dict) else value)


def refuse_drawn(vm: Interpreter, made: Any, frame: Frame) -> Any:
    """`made`, unless it is a Tensor of initial values that each call of PyNative would draw.

    Raises:
        CompileTypeError: it is (CE501).
    """
    if type(made) is Tensor and made.init is not None and made.init.draws \
            and made.init.seed is None:
        raise vm.error(
            "CE501", TypeError, f"initial values of {type(made.init).__name__} cannot be drawn "
            "while a graph is compiled: each call would have the same", frame,
            hint="draw them in __init__, or use ops.rand, ops.randn",
        )
    return made
