"""Tables of small programs: each a function with the inputs it is run on.

A program is run in PyNative, compiled, and, if it uses only what means the same for numpy arrays,
by plain Python; `test_cases.py` compares the results exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

X = np.array([1, -2, 3], np.float32)
Y = np.array([-4, 0.5, -1], np.float32)
"""The usual inputs: their sums have different signs."""


@dataclass(frozen=True, slots=True)
class Case:
    """One program.

    Attributes:
        fn: a function, or (if `make` is set) what makes the callable anew for each mode.
        inputs: tuples of arguments, arrays anywhere in them; the program runs on each.
        python: plain Python runs it too, on numpy arrays.
        dtypes: the types of numpy's results are those of MindSpore too.
        raises: the kind of exception every way of running it ends in.
        widen: a number may come out as a tensor of the graph without axes, where one path gives
            a tensor and the other a number.
    """

    fn: Callable[..., Any]
    inputs: tuple[tuple[Any, ...], ...]
    python: bool = True
    dtypes: bool = True
    make: bool = False
    raises: type[Exception] | None = None
    widen: bool = False

    @property
    def name(self) -> str:
        return self.fn.__name__


class Table:
    """The programs of one subject, gathered by decorating them."""

    def __init__(self, *inputs: Any) -> None:
        self.default = tuple(i if isinstance(i, tuple) else (i,) for i in inputs or (X, Y))
        self.cases: list[Case] = []

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """`@case`: a program run on the table's inputs in all three ways."""
        self.cases.append(Case(fn, self.default))
        return fn

    def on(self, *inputs: Any, **options: Any) -> Callable[..., Any]:
        """`@case.on(a, (b, c), python=False)`: a program with inputs of its own."""
        given = tuple(i if isinstance(i, tuple) else (i,) for i in inputs) or self.default

        def add(fn: Callable[..., Any]) -> Callable[..., Any]:
            self.cases.append(Case(fn, given, **options))
            return fn

        return add

    def __iter__(self) -> Iterator[Case]:
        return iter(self.cases)

    def names(self) -> Sequence[str]:
        return [c.name for c in self.cases]
