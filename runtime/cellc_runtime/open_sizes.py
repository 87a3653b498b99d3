"""Sizes of a program that are known when it is called.

A program with *open* sizes has a table of numbers at the end of its constants, which its code reads
wherever a size matters. `Open` says how the table, the shapes of slots and the places of
temporaries follow from a few symbols, the sizes of inputs. So a program for certain sizes is the
same code with another table (`Program.at`).

A *number* is an int, a float, or a tuple: `("sum", (factor, atom, ...), ...)` is a sum of products,
`("+", a, b)` (also `-`, `*`, `/`, `**`, `min`, `max`) arithmetic of floats, `("sqrt", x)` one
of `FLOAT_FUNCTIONS`. An atom is the name of a symbol, or a
tuple `("//", a, b)`, `("min", ...)`, `("max", ...)`, `("divisor", x, most)`, the largest divisor
of `x` up to `most`, `("choose", x, least, a, b)`, which is `a` where `x >= least` and else `b`, or
`("floor", x)` (also `ceil`, `trunc`, `round`), a float as a whole number.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .dtypes import DType, by_name
from .records import dataclass

Number = Any
Sizes = Mapping[str, int]

MOST_NUMBERS = 1 << 20  # Parts of all numbers of a program
DEEPEST = 64
MOST = 1 << 62  # The greatest of numbers in a file, and their least below 0
RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "!=": operator.ne, ">=": operator.ge}
MOST_DIVISOR = 1 << 20
"""The greatest divisor that is looked for: it takes as many divisions."""


def divisor(x: int, most: int) -> int:
    """The largest divisor of `x` that is at most `most`, 1 if there is none."""
    return next((n for n in range(min(x, most, MOST_DIVISOR), 1, -1) if x % n == 0), 1)


FUNCTIONS: dict[str, Callable[..., int]] = {
    "//": operator.floordiv, "min": min, "max": max, "divisor": divisor,
    "choose": lambda x, least, a, b: a if x >= least else b,
    "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "round": round,
}
WHOLE = frozenset({"floor", "ceil", "trunc", "round"})
_ARGUMENTS = {"//": (2, 2), "divisor": (2, 2), "min": (1, 64), "max": (1, 64), "choose": (4, 4),
              **dict.fromkeys(WHOLE, (1, 1))}
FLOAT_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt, "exp": math.exp, "log": math.log, "log2": math.log2, "log10": math.log10,
    "sin": math.sin, "cos": math.cos}
FLOATS: dict[str, Callable[..., float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "**": math.pow, "min": min, "max": max, **FLOAT_FUNCTIONS}


def evaluate(x: Number, sizes: Sizes) -> Any:
    """A number for these values of the symbols."""
    if type(x) is not tuple:
        return x
    if x[0] != "sum":
        return FLOATS[x[0]](*[evaluate(a, sizes) for a in x[1:]])
    total = 0
    for factor, *atoms in x[1:]:
        for atom in atoms:
            factor *= sizes[atom] if type(atom) is str else FUNCTIONS[atom[0]](
                *[evaluate(a, sizes) for a in atom[1:]])
        total += factor
    return total


@dataclass(frozen=True, slots=True)
class Plan:
    """The places of temporaries: each is above some others, so that none overlap.

    Attributes:
        names: the symbol of each place.
        sizes: bytes of each.
        below: the temporaries that each lies above, by number.
    """

    names: tuple[str, ...] = ()
    sizes: tuple[Number, ...] = ()
    below: tuple[tuple[int, ...], ...] = ()

    def places(self, sizes: Sizes) -> tuple[dict[str, int], int]:
        """Where each is for these sizes, and the bytes of all."""
        nbytes = [evaluate(n, sizes) for n in self.sizes]
        at: list[int] = []
        ends: list[int] = []
        for size, below in zip(nbytes, self.below, strict=True):
            start = max([ends[i] for i in below], default=0)
            at.append(start)
            ends.append(start + size)
        return dict(zip(self.names, at, strict=True)), max(ends, default=0)


@dataclass(frozen=True, slots=True)
class Open:
    """How a program follows from sizes.

    Attributes:
        symbols: the least and the greatest value of each size (-1: there is none), by name.
        shapes: of all slots, in numbers.
        guards: relations of numbers with 0 that its code relies on.
        table: the numbers that the code reads, `table_at` bytes after the start of the constants.
        scalars: constants that follow from sizes: where they are, their type and the number.
        arena, ahead: the places of temporaries, of calls and of what is precomputed.
        messages: for each value that a message shows, its place and its shape, in numbers.
    """

    symbols: dict[str, tuple[int, int]]
    shapes: tuple[tuple[Number, ...], ...]
    guards: tuple[tuple[str, Number], ...]
    table_at: int
    table: tuple[Number, ...]
    scalars: tuple[tuple[int, DType, Number], ...]
    arena: Plan
    ahead: Plan
    messages: tuple[tuple[tuple[Number, tuple[Number, ...]], ...], ...]

    def refusal(self, sizes: Sizes) -> str:
        """Why the program does not serve these sizes; empty if it does."""
        for name, (least, most) in self.symbols.items():
            if sizes[name] < least or (most >= 0 and sizes[name] > most):
                bounds = f"at least {least}" if most < 0 else f"from {least} to {most}"
                return f"{name} = {sizes[name]} must be {bounds}"
        for relation, x in self.guards:
            try:
                holds = RELATIONS[relation](evaluate(x, sizes), 0)
            except (ArithmeticError, ValueError):
                holds = False
            if not holds:
                return f"{condition(relation, x)} is needed, but {_values(x, sizes)}"
        return ""

    def conditions(self) -> list[str]:
        """The conditions on sizes, for people: of several bounds of one number the strictest."""
        bounds = [("sum", (1, name), (-least,)) for name, (least, _) in self.symbols.items()]
        bounds += [("sum", (-1, name), (most,)) for name, (_, most) in self.symbols.items()
                   if most >= 0]
        found: dict[Any, tuple[str, Number]] = {}
        for relation, x in (*((">=", x) for x in bounds), *self.guards):
            key: Any = relation, x
            if relation == ">=" and type(x) is tuple and x[0] == "sum":
                key = frozenset(t for t in x[1:] if len(t) > 1)
                if key in found and _constant(found[key][1]) <= _constant(x):
                    continue
            found[key] = relation, x
        return [condition(relation, x) for relation, x in found.values()]


Step = tuple[int, Callable[..., Any] | None, tuple[Any, ...]]
"""Where a value goes, its function and the places of the arguments; without a function, terms of a
sum: a factor and the places of atoms each."""


class Evaluator:
    """Works out the numbers of `Open` for one set of sizes after the other.

    A number that occurs several times is worked out once. Values are in a list, by place.

    Attributes:
        shapes: the shapes of slots that are open, by slot.
    """

    def __init__(self, o: Open) -> None:
        self._open = o
        self._start: list[Any] = []
        self._found: dict[Any, int] = {}
        self._steps: list[Step] = []
        self._symbols = {name: self._new(name) for name in o.symbols}
        self._bounds = tuple(o.symbols.values())
        self._guards = [(RELATIONS[r], self._place(x)) for r, x in o.guards]
        self._guarding, self._steps = self._steps, []
        self.shapes = {i: tuple(map(self._place, shape)) for i, shape in enumerate(o.shapes)
                       if tuple in map(type, shape)}
        self._plans = [list(zip(map(self._place, p.sizes), p.below, map(self._new, p.names),
                                strict=True)) for p in (o.arena, o.ahead)]
        self._sizing, self._steps = self._steps, []
        self._messages = [[(self._place(at), tuple(map(self._place, shape)))
                           for at, shape in values] for values in o.messages]
        self._scalars = [(at, dtype, self._place(x)) for at, dtype, x in o.scalars]
        self._table = list(map(self._place, o.table))
        self._packed = struct.Struct(f"<{len(o.table)}q")

    def refusal(self, sizes: Sequence[int]) -> str:
        """See `Open.refusal`; sizes are in the order of the symbols."""
        return "" if self._values(sizes) is not None else \
            self._open.refusal(dict(zip(self._symbols, sizes, strict=True)))

    def evaluate(self, sizes: Sequence[int]) -> list[Any] | None:
        """The values but for those that follow from places, for the other functions; None if the
        program does not serve these sizes."""
        values = self._values(sizes)
        if values is not None:
            _run(self._sizing, values)
        return values

    def place(self, values: list[Any]) -> tuple[int, int]:
        """Find the places of temporaries, and what follows from them; the bytes of all."""
        found = []
        for plan in self._plans:
            ends: list[int] = []
            for size, below, name in plan:
                start = 0
                for i in below:
                    if ends[i] > start:
                        start = ends[i]
                values[name] = start
                ends.append(start + values[size])
            found.append(max(ends, default=0))
        _run(self._steps, values)
        return found[0], found[1]

    def shown(self, values: Sequence[Any]) -> list[list[tuple[Any, tuple[Any, ...]]]]:
        """For each message the place and the shape of each value that it shows."""
        return [[(values[at], tuple([values[d] for d in shape])) for at, shape in message]
                for message in self._messages]

    def constants(self, constants: bytes, values: Sequence[Any]) -> bytes:
        """A program's constants, with what follows from sizes and places in them."""
        out = bytearray(constants[: self._open.table_at])
        for at, dtype, i in self._scalars:
            data = scalar(values[i], dtype).tobytes()
            out[at : at + len(data)] = data
        return bytes(out) + self._packed.pack(*[int(values[i]) for i in self._table])

    def _values(self, sizes: Sequence[int]) -> list[Any] | None:
        """The values that guards read; None if one does not hold."""
        for size, (least, most) in zip(sizes, self._bounds, strict=True):
            if size < least or (most >= 0 and size > most):
                return None
        values = self._start.copy()
        values[: len(sizes)] = sizes
        try:
            _run(self._guarding, values)
        except (ArithmeticError, ValueError):
            return None
        return values if all(holds(values[i], 0) for holds, i in self._guards) else None

    # --- from numbers to steps ------------------------------------------------------------------

    def _new(self, key: Any, value: Any = None) -> int:
        """A place for a value; one that is known."""
        self._start.append(value)
        return self._found.setdefault(key, len(self._start) - 1)

    def _place(self, x: Number) -> int:
        """Where a number's value is."""
        if type(x) is not tuple:
            key = type(x), repr(x)
            return self._found[key] if key in self._found else self._new(key, x)
        if x[0] != "sum":
            return self._step(x[0], FLOATS[x[0]], tuple(map(self._place, x[1:])))
        terms = tuple([(factor, *map(self._atom, atoms)) for factor, *atoms in x[1:]])
        if len(terms) == 1 and len(terms[0]) == 2 and terms[0][0] == 1:
            return int(terms[0][1])
        return self._step("sum", None, terms)

    def _atom(self, x: Any) -> int:
        if type(x) is str:
            return self._found[x]
        return self._step(x[0], FUNCTIONS[x[0]], tuple(map(self._place, x[1:])))

    def _step(self, name: str, function: Callable[..., Any] | None, args: tuple[Any, ...]) -> int:
        key = name, args
        if key not in self._found:
            self._steps.append((self._new(key), function, args))
        return self._found[key]


def _run(steps: Sequence[Step], values: list[Any]) -> None:
    """Work out values, each from those before it."""
    for at, function, args in steps:
        if function is not None:
            values[at] = function(*[values[i] for i in args])
            continue
        total = 0
        for factor, *atoms in args:
            for i in atoms:
                factor *= values[i]
            total += factor
        values[at] = total


def scalar(value: Any, dtype: DType) -> Any:
    """A Python number as a rank-0 array; ints wrap to the width of an integer type, as in C."""
    with np.errstate(all="ignore"):
        if isinstance(value, int) and dtype.is_integer:
            return np.array(value % 2**64, np.uint64).astype(dtype.numpy)
        return np.asarray(np.array(value).astype(dtype.numpy))


def condition(relation: str, x: Number) -> str:
    """A relation of a number with 0, for people: `S <= 128`."""
    if type(x) is not tuple or x[0] != "sum":
        return f"{shown(x)} {relation} 0"
    remainder = _remainder(x[1:]) if relation in ("==", "!=") else ""
    if remainder:
        return f"{remainder} {relation} 0"
    left = ("sum", *[t for t in x[1:] if len(t) > 1 and t[0] > 0])
    right = ("sum", *[(-t[0], *t[1:]) for t in x[1:] if len(t) > 1 and t[0] < 0])
    rest = sum(t[0] for t in x[1:] if len(t) == 1)
    if len(left) == 1:  # negative terms alone: turned round
        relation, left, right, rest = {">=": "<="}.get(relation, relation), right, left, -rest
    constant = [(-rest,)] if rest or len(right) == 1 else []
    return f"{shown(left)} {relation} {shown((*right, *constant))}"


def _constant(x: Number) -> int:
    """The constant of a sum."""
    return sum(t[0] for t in x[1:] if len(t) == 1)


def _remainder(terms: Sequence[tuple[Any, ...]]) -> str:
    """`H % 8`, where terms are that or its negative: `H` less `8 * (H // 8)`."""
    for i, (factor, *atoms) in enumerate(terms):
        if len(atoms) == 1 and atoms[0][0] == "//" and abs(factor) == atoms[0][2]:
            _, number, divisor = atoms[0]
            sign = -factor // divisor
            rest = {tuple(t[1:]): sign * t[0] for t in (*terms[:i], *terms[i + 1 :])}
            if rest == {tuple(t[1:]): t[0] for t in number[1:]}:
                text = shown(number)
                return f"{text if text.isidentifier() else f'({text})'} % {divisor}"
    return ""


def _values(x: Number, sizes: Sizes) -> str:
    """The sizes in a number with their values, for people."""
    return ", ".join(f"{name} = {sizes[name]}" for name in names_in(x))


def names_in(x: Number) -> list[str]:
    """The names of the sizes in a number."""
    found: dict[str, None] = {}
    stack: list[Any] = [x]
    while stack:
        x = stack.pop()
        if type(x) is tuple:
            stack.extend(x[1:])
        elif type(x) is str:
            found[x] = None
    return sorted(found)


def shown(x: Number) -> str:
    """A number for people."""
    if type(x) is not tuple:
        return str(x)
    if x[0] != "sum":
        args = list(map(shown, x[1:]))
        return f"{x[0]}({', '.join(args)})" if x[0].isalnum() else f"({args[0]} {x[0]} {args[1]})"
    text = ""
    for factor, *atoms in x[1:]:
        shown_atoms = list(map(_shown_atom, atoms))
        if len(atoms) > 1 or abs(factor) != 1:  # `2*(H//2)`
            shown_atoms = [f"({text})" if a[0] == "//" else text
                           for a, text in zip(atoms, shown_atoms, strict=True)]
        names = "*".join(shown_atoms)
        part = names if abs(factor) == 1 and names else "*".join(
            p for p in (str(abs(factor)), names) if p)
        text += ("-" if factor < 0 else "+" if text else "") + part
    return text


def _shown_atom(a: Any) -> str:
    if type(a) is str:
        return a
    args = [shown(x) for x in a[1:]]
    if a[0] != "//":
        return f"{a[0]}({', '.join(args)})"
    return "//".join(x if x.isidentifier() or x.isdigit() else f"({x})" for x in args)


# --- as JSON --------------------------------------------------------------------------------------


def to_json(o: Open) -> Any:
    """The JSON form of open sizes."""
    return {
        "symbols": {name: list(bounds) for name, bounds in o.symbols.items()},
        "shapes": o.shapes, "guards": o.guards, "table": [o.table_at, o.table],
        "scalars": [[at, dtype.name, x] for at, dtype, x in o.scalars],
        "plans": [[p.names, p.sizes, p.below] for p in (o.arena, o.ahead)],
        "messages": o.messages,
    }


def from_json(data: Any) -> Open:
    """Open sizes from their JSON form. Raises ValueError, TypeError or KeyError if it is
    malformed."""
    symbols = {_name(name): (_whole(low), _whole(high)) for name, (low, high) in
               data["symbols"].items()}
    plans = [tuple(map(_name, names)) for names, _, _ in data["plans"]]
    reader = _Reader({*symbols}, {name for names in plans for name in names})
    table_at, table = data["table"]
    arena, ahead = (
        Plan(names, reader.sizes(sizes), _below(below, len(names)))
        for names, (_, sizes, below) in zip(plans, data["plans"], strict=True))
    return Open(
        symbols, tuple(map(reader.sizes, data["shapes"])),
        tuple((_relation(r), reader.size(x)) for r, x in data["guards"]),
        _whole(table_at, 0), tuple(map(reader.placed, table)),
        tuple((_whole(at, 0), by_name(_name(dtype)), reader.size(x))
              for at, dtype, x in data["scalars"]),
        arena, ahead,
        tuple(tuple((reader.placed(place), reader.sizes(shape)) for place, shape in values)
              for values in data["messages"]))


def read_numbers(names: set[str], values: Sequence[Any]) -> tuple[Number, ...]:
    """Numbers that follow from sizes of these names, from their JSON form. Raises ValueError,
    TypeError or KeyError if one is malformed."""
    return _Reader(names, set()).sizes(values)


class _Reader:
    """Reads numbers of known names, and no more than a program has."""

    def __init__(self, symbols: set[str], places: set[str]) -> None:
        if symbols & places:
            raise ValueError("a size and a place have one name")
        self._symbols, self._all = symbols, symbols | places
        self._left = MOST_NUMBERS

    def sizes(self, values: Sequence[Any]) -> tuple[Number, ...]:
        """Numbers that follow from sizes alone."""
        return tuple(map(self.size, values))

    def size(self, value: Any) -> Number:
        """A number that follows from sizes alone."""
        return self._number(value, self._symbols, 0)

    def placed(self, value: Any) -> Number:
        """A number that may follow from places, too."""
        return self._number(value, self._all, 0)

    def _number(self, x: Any, names: set[str], depth: int) -> Number:
        self._count(depth)
        if type(x) is int or type(x) is float:
            if not -MOST <= x <= MOST:
                raise ValueError(f"the number {x} is out of range")
            return x
        kind, *parts = x
        if kind == "sum":
            return (kind, *[(_whole(factor), *[self._atom(a, names, depth) for a in atoms])
                            for factor, *atoms in parts])
        if kind not in FLOATS or len(parts) != 2 - (kind in FLOAT_FUNCTIONS):
            raise ValueError(f"{str(kind)[:80]!r} is no operation on numbers")
        return (kind, *[self._number(p, names, depth + 1) for p in parts])

    def _atom(self, x: Any, names: set[str], depth: int) -> Any:
        self._count(depth)
        if type(x) is str:
            if x not in names:
                raise ValueError(f"{x[:80]!r} is no size")
            return x
        kind, *parts = x
        least, most = _ARGUMENTS[kind]
        if not least <= len(parts) <= most:
            raise ValueError(f"{kind!r} of {len(parts)} numbers")
        return (kind, *[self._number(p, names, depth + 1) for p in parts])

    def _count(self, depth: int) -> None:
        self._left -= 1
        if self._left < 0 or depth > DEEPEST:
            raise ValueError("too many numbers, or too deep ones")


def _whole(x: Any, least: int = -MOST) -> int:
    if type(x) is not int or not least <= x <= MOST:
        raise ValueError("a whole number is expected")
    return x


def _name(x: Any) -> str:
    if type(x) is not str:
        raise ValueError("a name is expected")
    return x


def _relation(x: Any) -> str:
    if x not in RELATIONS:
        raise ValueError("an unknown relation")
    return str(x)


def _below(rows: Any, count: int) -> tuple[tuple[int, ...], ...]:
    if len(rows) != count or any(type(i) is not int or not 0 <= i < n
                                 for n, row in enumerate(rows) for i in row):
        raise ValueError("a temporary lies above earlier ones only")
    return tuple(map(tuple, rows))
