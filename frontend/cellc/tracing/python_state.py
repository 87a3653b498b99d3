"""The effects of a network on Python objects: each call's reads of them and questions.

Numbers and Tensors that a network both reads and changes are inputs of its program, read when a
call begins. Changes are host calls of the program, in program order. Other reads of objects that
the network changes are compared before a call, as are the answers about the numbers; where
something differs, the call is compiled for itself, and both are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cellc_compiler.ir.types import TensorType
from cellc_runtime.records import dataclass, field

from ..core.module_names import is_exactly
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor, elements_of, ir_type, number_kind
from .numbers import DTYPES, Kind
from .reads import Read, short
from .state_numbers import Answer, fits_int64


@dataclass(slots=True)
class StateInput:
    """A place that is an input of a program."""

    label: str  # what messages call it
    read: Callable[[], Any]  # gives its value
    kind: Kind | None  # of a number; None for a Tensor, which has `type`
    type: TensorType | None = None

    def fits(self, value: Any) -> bool:
        """Whether the program takes a value."""
        if self.kind is int:
            return type(value) is int and fits_int64(value)
        if self.kind is not None:
            return type(value) is self.kind
        return type(value) is Tensor and number_kind(value) is None and ir_type(value) == self.type

    def array(self) -> Any:
        """The value as the program takes it."""
        value = self.read()
        return elements_of(value) if self.kind is None else \
            np.asarray(value, dtype=DTYPES[self.kind].numpy)


def can_be_input(value: Any) -> bool:
    """Whether a value can be an input of a program: a number, or a Tensor that is no Parameter."""
    if type(value) is int:
        return fits_int64(value)
    return is_exactly(value, DTYPES) or (type(value) is Tensor and number_kind(value) is None
                                     and not isinstance(value, Parameter))


@dataclass(slots=True)
class PythonState:
    """The work of a traced network on Python objects that it changes."""

    inputs: list[StateInput]  # what it reads of them, after its arguments
    answers: list[Answer]  # what it assumed about numbers among these
    reads: list[Read]  # what else it read of them
    refuse: Callable[[], None]  # raises the error of a file that was to hold the network
    arguments: bool = False  # whether it changes objects that are arguments of the call
    moved: str = field(default="")

    def holds(self) -> bool:
        """Whether a call of now can be served; if not, `moved` says what is in the way."""
        state: dict[int, Any] = {}
        for number, place in enumerate(self.inputs):
            value = state[number] = place.read()
            if not place.fits(value):
                self.moved = f"{place.label} is {short(value)} now"
                return False
        for answer in self.answers:
            if not answer.holds(state):
                self.moved = answer.describe(state)
                return False
        for read in self.reads:
            if read.changed():
                self.moved = read.describe()
                return False
        return True

    def arrays(self) -> list[Any]:
        """The inputs of a call of now."""
        return [place.array() for place in self.inputs]
