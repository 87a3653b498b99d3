"""A program with open sizes, bound to weights: for each sizes that come, the program at these."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from .bound import BoundProgram
from .program import Program, ProgramAtSizes

KEPT = 64  # Sizes of a program that are kept ready; those used last


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
        self.program, self._at_sizes = program, ProgramAtSizes(program)
        assert program.open is not None
        self._symbols, self._bind = tuple(symbols), bind
        self._order = [self._symbols.index(name) for name in program.open.symbols]
        self._ready: OrderedDict[tuple[int, ...], BoundProgram] = OrderedDict()

    def refusal(self, sizes: Sequence[int]) -> str:
        """Why it does not serve these sizes; empty if it does."""
        return self._at_sizes.refusal([sizes[i] for i in self._order])

    def at(self, sizes: tuple[int, ...]) -> BoundProgram:
        """The program for these sizes. Raises ValueError if it does not serve them."""
        found = self._ready.pop(sizes, None)
        if found is None:
            last = next(reversed(self._ready.values()), None)
            found = self._bind(
                self._at_sizes.at(dict(zip(self._symbols, sizes, strict=True))), last)
        self._ready[sizes] = found
        if len(self._ready) > KEPT:
            self._ready.popitem(last=False)
        return found
