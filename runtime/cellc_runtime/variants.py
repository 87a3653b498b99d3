"""Which programs of an artifact's entry serve which sizes, where sizes are open.

An entry has *symbols* for its open sizes. A *variant* is what was compiled for some of their
values. One with a program of open sizes (`opened`) leaves several symbols open; the program says
what it serves. Another lists the values of all symbols but one, the *batch*: it says which ranges
of the batch it serves, and which batch sizes it has programs for (`batched` says how these serve
the others).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from .container import is_count
from .errors import ArtifactError, counted
from .records import dataclass

ANY = -1  # As a size: any; as the end of a range: there is none
MAX_SYMBOLS = 16
MAX_VARIANTS = 4096
MAX_PARTS = 64  # Ranges of a variant, and batch sizes that it has programs for
MAX_SIZE = 1 << 40

Shape = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Variant:
    """A program for some sizes."""

    at: tuple[int, ...]  # the size of each symbol; `ANY` for those that are open
    # the values of the batch that it serves, `(first, last)` each, ascending; `ANY` as the last is
    # no end. () where no batch is open.
    ranges: tuple[tuple[int, int], ...] = ()
    # the batch sizes that it has programs for, ascending; () where no batch is open
    sizes: tuple[int, ...] = ()
    graph: int = 0  # the number of its graph among those of the entry

    @property
    def opened(self) -> bool:
        """Whether its program has open sizes."""
        return ANY in self.at and not self.sizes

    def serves(self, sizes: Sequence[int]) -> bool:
        """Whether it serves these sizes, one for each symbol; a batch of none as a batch of one.
        (Of one with open sizes the program decides.)"""
        for want, size in zip(self.at, sizes, strict=True):
            if want != ANY:
                if want != size:
                    return False
            elif not self.opened and not any(low <= max(size, 1) and (high == ANY or size <= high)
                         for low, high in self.ranges):
                return False
        return True


@dataclass(frozen=True, slots=True)
class OpenSizes:
    """The open sizes of an entry."""

    symbols: tuple[str, ...] = ()  # their names
    # where they are: `(input, axis, number of the symbol)`
    axes: tuple[tuple[int, int, int], ...] = ()
    variants: tuple[Variant, ...] = (Variant(()),)  # what serves them

    @property
    def batch(self) -> int | None:
        """The number of the symbol that may have any value."""
        return next((v.at.index(ANY) for v in self.variants if v.sizes), None)

    @property
    def batched_inputs(self) -> tuple[int, ...]:
        """The inputs whose first axis is the batch."""
        return tuple(i for i, _, s in self.axes if s == self.batch)

    def shown(self, number: int, shape: Sequence[int]) -> Shape:
        """The shape of an input, with names for what is open."""
        names = {axis: self.symbols[s] for i, axis, s in self.axes if i == number}
        return tuple(names.get(axis, d) for axis, d in enumerate(shape))

    def bind(self, inputs: Sequence[tuple[str, str, Sequence[int]]],
             shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """The value of each symbol for inputs of these shapes.

        Args:
            inputs: what the entry takes: `(name, dtype name, shape)` each.

        Raises:
            TypeError: another number of inputs.
            ValueError: a shape that does not fit, or inputs that disagree about a size.
        """
        found = [ANY] * len(self.symbols)
        fits = len(shapes) == len(inputs) and all(
            len(want) == len(shape) and all(map(_allows, want, shape))
            for (_, _, want), shape in zip(inputs, shapes, strict=True))
        for i, axis, s in self.axes if fits else ():
            size = shapes[i][axis]
            if found[s] not in (ANY, size):
                raise self._disagreement(s, inputs, shapes)
            found[s] = size
        if not fits:
            self._refuse(inputs, shapes)
        return tuple(found)

    def _refuse(
        self, inputs: Sequence[tuple[str, str, Sequence[int]]], shapes: Sequence[Sequence[int]]
    ) -> None:
        """The error of shapes that do not fit."""
        if len(shapes) != len(inputs):
            raise TypeError(f"expected {counted(len(inputs), 'input')}, got {len(shapes)}")
        for i, ((name, dtype, want), shape) in enumerate(zip(inputs, shapes, strict=True)):
            if len(want) != len(shape) or not all(map(_allows, want, shape)):
                expected = ", ".join(map(str, self.shown(i, want)))
                raise ValueError(f"argument {i + 1} ({name!r}): expected {dtype}[{expected}], got "
                                 f"the shape {tuple(shape)}")

    def _disagreement(
        self, symbol: int, inputs: Sequence[tuple[str, str, Sequence[int]]],
        shapes: Sequence[Sequence[int]],
    ) -> ValueError:
        """The error of inputs that disagree about a size."""
        each = ", ".join(f"axis {axis} of {inputs[i][0]!r} is {shapes[i][axis]}"
                         for i, axis, s in self.axes if s == symbol)
        return ValueError(f"the inputs must have one size {self.symbols[symbol]}: {each}")

    def find(self, sizes: Sequence[int]) -> int:
        """The number of the variant that serves these sizes.

        Raises:
            ValueError: none does; with those that are served.
        """
        for number, variant in enumerate(self.variants):
            if variant.serves(sizes):
                return number
        given = ", ".join(f"{n} = {v}" for n, v in zip(self.symbols, sizes, strict=True))
        raise ValueError(f"no program serves {given}; served: {self}")

    def candidates(self, sizes: Sequence[int]) -> list[int]:
        """The numbers of the variants that may serve these sizes: those made for them first."""
        found = [i for i, v in enumerate(self.variants) if v.serves(sizes)]
        return sorted(found, key=lambda i: (self.variants[i].opened,
                                            self.variants[i].at.count(ANY)))

    def __str__(self) -> str:
        """Return the served sizes: `N any and S 16, 32, 64..128`."""
        if any(v.opened for v in self.variants):
            return " and ".join(
                f"{name} " + ("any" if any(v.at[i] == ANY for v in self.variants) else
                              runs(sorted({v.at[i] for v in self.variants})))
                for i, name in enumerate(self.symbols))
        listed = [i for i in range(len(self.symbols)) if i != self.batch]
        choices = list(dict.fromkeys(tuple(v.at[i] for i in listed) for v in self.variants))
        values = [sorted(set(column)) for column in zip(*choices, strict=True)]
        batches = [self._batches(listed, c) for c in choices]
        name = None if self.batch is None else self.symbols[self.batch]
        if len(choices) == math.prod(map(len, values)) and len(set(batches)) == 1:
            parts = [] if name is None else [f"{name} {batches[0]}"]
            parts += [f"{self.symbols[s]} {runs(v)}" for s, v in zip(listed, values, strict=True)]
            return " and ".join(parts)
        return "; or ".join(
            " and ".join([*([] if name is None else [f"{name} {batch}"]),
                          *(f"{self.symbols[s]} {v}" for s, v in zip(listed, c, strict=True))])
            for c, batch in zip(choices, batches, strict=True))

    def _batches(self, listed: Sequence[int], choice: Sequence[int]) -> str:
        """The values of the batch that are served together with these values of the others."""
        joined: list[tuple[int, int]] = []
        for low, high in sorted(r for v in self.variants for r in v.ranges
                                if tuple(v.at[i] for i in listed) == tuple(choice)):
            if joined and joined[-1][1] not in (ANY, low - 1):
                joined.append((low, high))
            elif joined:
                joined[-1] = (joined[-1][0], ANY if ANY in (joined[-1][1], high) else high)
            else:
                joined.append((low, high))
        return shown(joined)

    # --- as data of a file ------------------------------------------------------------------

    def to_json(self) -> list[Any]:
        """As the header of an artifact has it."""
        return [list(self.symbols), [list(a) for a in self.axes],
                [[list(v.at), [list(r) for r in v.ranges], list(v.sizes), v.graph]
                 for v in self.variants]]

    @staticmethod
    def from_json(data: Any, inputs: Sequence[tuple[str, str, Sequence[int]]]) -> OpenSizes:
        """Read and check; `inputs` are those of the entry. Raises ArtifactError if it is malformed,
        or serves nothing."""
        try:
            symbols, axes, variants = data
            found = OpenSizes(
                tuple(word(s) for s in few(symbols, MAX_SYMBOLS)),
                tuple(_triple(a) for a in few(axes, 1 << 16)),
                tuple(_variant(v) for v in few(variants, MAX_VARIANTS)))
        except (TypeError, ValueError):
            raise ArtifactError("the open sizes of an entry are malformed") from None
        if not found._sound(inputs):
            raise ArtifactError("the open sizes of an entry are malformed")
        return found

    def _sound(self, inputs: Sequence[tuple[str, str, Sequence[int]]]) -> bool:
        count = len(self.symbols)
        places = {(i, axis) for i, axis, _ in self.axes}
        open_ = {(i, axis) for i, (_, _, shape) in enumerate(inputs)
                 for axis, d in enumerate(shape) if d == ANY}
        return (
            len(set(self.symbols)) == count and bool(self.variants)
            and len(places) == len(self.axes) and places == open_
            and {s for _, _, s in self.axes} == set(range(count))
            and all(len(v.at) == count and (v.opened or v.at.count(ANY) == bool(v.sizes))
                    for v in self.variants)
            and len({v.at.index(ANY) if v.sizes else ANY
                     for v in self.variants if not v.opened}) <= 1
            and all(axis == 0 for _, axis, s in self.axes if s == self.batch)
        )


def _allows(want: int, size: int) -> bool:
    return want in (ANY, size)


def few(data: Any, most: int) -> list[Any]:
    """A list of at most `most` entries, read from a file; else a ValueError."""
    if not isinstance(data, list) or len(data) > most:
        raise ValueError("a list was expected")
    return data


def word(data: Any) -> str:
    """A name, read from a file; else a ValueError."""
    if not isinstance(data, str) or not data.isidentifier() or len(data) > 80:
        raise ValueError("a name was expected")
    return data


def _triple(data: Any) -> tuple[int, int, int]:
    a, b, c = (_size(x) for x in few(data, 3))
    return a, b, c


def _size(data: Any, least: int = 0) -> int:
    if not (is_count(data, MAX_SIZE) or (data == ANY and type(data) is int and least == ANY)):
        raise ValueError("a count was expected")
    found: int = data
    return found


def _variant(data: Any) -> Variant:
    at, ranges, sizes, graph = data
    pairs = tuple((_size(low), _size(high, ANY)) for low, high in few(ranges, MAX_PARTS))
    if bool(ranges) != bool(sizes):
        raise ValueError("ranges are served by programs")
    found = Variant(tuple(_size(d, ANY) for d in few(at, MAX_SYMBOLS)), pairs,
                    tuple(_size(d) for d in few(sizes, MAX_PARTS)), _size(graph))
    if list(found.sizes) != sorted(set(found.sizes)) or any(
            low < 1 or (high != ANY and high < low) for low, high in pairs):
        raise ValueError("sizes ascend")
    # Each range is served by the programs of this variant: see `batched.windows`.
    if any(low < found.sizes[0] for low, _ in pairs) or (found.sizes and found.sizes[0] < 1):
        raise ValueError("no program for so few rows")
    return found


def shown(ranges: Sequence[tuple[int, int]]) -> str:
    """Ranges as a text: `any`, `1..4, 8 or more`."""
    if list(ranges) == [(1, ANY)]:
        return "any"
    return ", ".join(f"{a} or more" if z == ANY else str(a) if a == z else f"{a}..{z}"
                     for a, z in ranges)


def runs(values: Iterable[int]) -> str:
    """Ascending numbers, with `a..z` for three and more in a row."""
    parts: list[list[int]] = []
    for v in values:
        if parts and parts[-1][-1] == v - 1:
            parts[-1].append(v)
        else:
            parts.append([v])
    return ", ".join(f"{p[0]}..{p[-1]}" if len(p) > 2 else ", ".join(map(str, p)) for p in parts)
