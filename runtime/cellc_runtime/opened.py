"""A program with open sizes, bound to weights: for each sizes that come, the program at these."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from .bound import BoundProgram
from .program import Program

KEPT = 64
"""Sizes of a program that are kept ready; those used last."""


class Opened:
    """A network for all sizes that its code serves.

    Args:
        program: with open sizes.
        symbols: the names of the sizes, in the order of the entry.
        bind: makes a program for certain sizes callable, given one that is for other sizes or
            None.
    """

    def __init__(
        self, program: Program, symbols: Sequence[str],
        bind: Callable[[Program, BoundProgram | None], BoundProgram],
    ) -> None:
        assert program.open is not None
        self.program, self._open = program, program.open
        self._symbols, self._bind = tuple(symbols), bind
        self._ready: OrderedDict[tuple[int, ...], BoundProgram] = OrderedDict()

    def refusal(self, sizes: Sequence[int]) -> str:
        """Why it does not serve these sizes; empty if it does."""
        return self._open.refusal(dict(zip(self._symbols, sizes, strict=True)))

    def at(self, sizes: tuple[int, ...]) -> BoundProgram:
        """The program for these sizes.

        Raises:
            ValueError: it does not serve them.
        """
        found = self._ready.pop(sizes, None)
        if found is None:
            last = next(reversed(self._ready.values()), None)
            found = self._bind(
                self.program.at(dict(zip(self._symbols, sizes, strict=True))), last)
        self._ready[sizes] = found
        if len(self._ready) > KEPT:
            self._ready.popitem(last=False)
        return found
