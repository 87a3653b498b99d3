"""Sizes that follow from others, as programs of a small stack machine.

A word pair is an operation and its number. Operands are on a stack; `("sum", (2, "N"), (3,))` is
`2 * N + 3`: constant 2, variable N, multiply, constant 3, add, end. Integers are exact: what does
not fit 64 bits is an error of the call. (See `cellc_runtime.open_sizes` for numbers.)
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from cellc_runtime.open_sizes import WHOLE, Number

from .abi import NotInC

DEEPEST = 60  # Numbers on the stack, at most


class Op(IntEnum):
    """The operations; all but the first take operands from the top of the stack."""

    END = 0
    CONSTANT = 1
    VARIABLE = 2
    MULTIPLY = 3
    ADD = 4
    DIVIDE = 5
    MIN = 6
    MAX = 7
    CHOOSE = 8
    SUBTRACT = 9
    FLOAT = 10
    FLOAT_ADD = 11
    FLOAT_SUBTRACT = 12
    FLOAT_MULTIPLY = 13
    FLOAT_DIVIDE = 14
    FLOAT_POWER = 15
    INTEGER = 16
    DIVISOR = 17
    FLOAT_SQRT = 18
    FLOOR = 19


_FUNCTIONS = {"//": Op.DIVIDE, "min": Op.MIN, "max": Op.MAX, "choose": Op.CHOOSE,
              "divisor": Op.DIVISOR}
_WHOLE = {"+": Op.ADD, "-": Op.SUBTRACT, "*": Op.MULTIPLY}
_FLOATS = {"+": Op.FLOAT_ADD, "-": Op.FLOAT_SUBTRACT, "*": Op.FLOAT_MULTIPLY,
           "/": Op.FLOAT_DIVIDE, "**": Op.FLOAT_POWER}


class Code:
    """Numbers one after the other.

    Args:
        places: the number of each variable, by name.
    """

    def __init__(self, places: Mapping[str, int]) -> None:
        self._places = places
        self.words: list[int] = []  # operations with their numbers
        self.floats: list[bool] = []  # whether each number is a float

    def add(self, x: Number, integer: bool = False) -> None:
        """A number; `integer`: the fraction is cut off. Raises NotInC if it is too deep."""
        found = self._push(x, 1)
        if found and integer:
            self._op(Op.INTEGER)
        self.floats.append(found and not integer)
        self._op(Op.END)

    def add_product(self, parts: Sequence[Number]) -> None:
        """The product of whole numbers."""
        self._op(Op.CONSTANT, 1)
        for part in parts:
            self._push(part, 2)
            self._op(Op.MULTIPLY)
        self._op(Op.END)

    @property
    def uses_pow(self) -> bool:
        """Whether there is a power of floats."""
        return Op.FLOAT_POWER in self.words[::2]

    def _op(self, op: Op, word: int = 0) -> None:
        self.words += [int(op), word]

    def _push(self, x: Any, depth: int) -> bool:
        """Write what leaves a number on the stack; whether it is a float."""
        if depth > DEEPEST:
            raise NotInC("a size follows from others in too many steps")
        if type(x) is float:
            self._op(Op.CONSTANT, struct.unpack("<q", struct.pack("<d", x))[0])
            return True
        if type(x) is not tuple:
            self._op(Op.CONSTANT, int(x))
            return False
        if x[0] == "sum":
            self._sum(x[1:], depth)
            return False
        if len(x) == 2:
            return self._function(*x, depth)
        op, left, right = x
        floats = [self._push(left, depth), self._push(right, depth + 1)]
        if op in _WHOLE and not any(floats):
            self._op(_WHOLE[op])
            return False
        for below, is_float in enumerate(reversed(floats)):
            if not is_float:
                self._op(Op.FLOAT, below)
        if op not in _FLOATS:
            raise NotInC(f"{op!r} of numbers that are not whole")
        self._op(_FLOATS[op])
        return True

    def _function(self, name: str, x: Any, depth: int) -> bool:
        """A function of one float."""
        if name != "sqrt":
            raise NotInC(f"{name!r} of a number that follows from sizes")
        if not self._push(x, depth):
            self._op(Op.FLOAT, 0)
        self._op(Op.FLOAT_SQRT)
        return True

    def _sum(self, terms: Any, depth: int) -> None:
        self._op(Op.CONSTANT, 0)
        for factor, *atoms in terms:
            self._op(Op.CONSTANT, factor)
            for atom in atoms:
                self._atom(atom, depth + 2)
                self._op(Op.MULTIPLY)
            self._op(Op.ADD)

    def _atom(self, atom: Any, depth: int) -> None:
        if type(atom) is str:
            self._op(Op.VARIABLE, self._places[atom])
            return
        kind, *parts = atom
        if kind in WHOLE:
            self._whole(kind, parts[0], depth)
            return
        floats = [self._push(p, depth + (i if kind == "choose" else min(i, 1)))
                  if kind == "choose" or i == 0 else self._folded(kind, p, depth)
                  for i, p in enumerate(parts)]
        if any(floats):
            raise NotInC(f"{kind!r} of a number that is not whole")
        if kind == "choose":
            self._op(Op.CHOOSE)

    def _whole(self, kind: str, x: Any, depth: int) -> None:
        """A float made whole."""
        if kind not in ("floor", "trunc"):
            raise NotInC(f"{kind!r} of a number that follows from sizes")
        if self._push(x, depth):
            self._op(Op.FLOOR if kind == "floor" else Op.INTEGER)

    def _folded(self, kind: str, part: Any, depth: int) -> bool:
        """A further operand of an operation on two."""
        found = self._push(part, depth + 1)
        self._op(_FUNCTIONS[kind])
        return found
