"""Entries of an artifact that find sizes as they run: sizes that follow from elements.

Such an entry runs in *stages*: the results of one say how large those of the next are. A stage has
a program for all sizes of at least 2, and others for sizes of 0 and 1. A *way* is a sequence of
stages and the conditions on sizes under which it is right. A call runs the first way whose
conditions hold; only the last stage of a way writes weights or has another effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .arguments import Type
from .bound import BoundProgram, suits, updated
from .container import is_count
from .dtypes import Array
from .errors import ArtifactError
from .open_sizes import RELATIONS, Number, condition, evaluate, names_in, read_numbers
from .opened import Opened
from .program import Program
from .records import dataclass
from .variants import ANY, MAX_SIZE, few, word

MOST_WAYS, MOST_STAGES, MOST_PROGRAMS, MOST_VALUES = 64, 64, 1024, 1 << 16


@dataclass(frozen=True, slots=True)
class Found:
    """A size that a stage finds."""

    name: str
    result: int  # the number of the result that it is read from
    origin: str  # for messages: "the number that 'nonzero' found at net.py:3"


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a way."""

    # what it takes, by number: the inputs of the entry, then the results of the stages before it
    feeds: tuple[int, ...]
    results: int  # how many it gives
    symbols: tuple[str, ...]  # the sizes that it needs
    found: tuple[Found, ...]
    programs: tuple[tuple[int, ...], ...]
    """For each of its programs the size of each symbol; `ANY` for those that are open."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on sizes."""

    relation: str
    number: Number  # this and 0 have the relation
    where: str  # the place in the source that asks

    @property
    def names(self) -> list[str]:
        """The sizes that it depends on."""
        return names_in(self.number)

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether it holds for these sizes."""
        try:
            return RELATIONS[self.relation](evaluate(self.number, sizes), 0)
        except ZeroDivisionError:
            return False

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        return condition(self.relation, self.number) + place


@dataclass(frozen=True, slots=True)
class Way:
    """Stages, and when they are right."""

    stages: tuple[Stage, ...]
    guards: tuple[Guard, ...]
    graph: int = 0  # the number of its graph among those of the entry

    def broken(self, sizes: Mapping[str, int]) -> Guard | None:
        """The first condition that does not hold for the sizes that are known."""
        return next((g for g in self.guards
                     if sizes.keys() >= {*g.names} and not g.holds(sizes)), None)


@dataclass(frozen=True, slots=True)
class StagedPrograms:
    """An entry that finds sizes, to be written.

    Attributes:
        inputs, outputs: what it takes and gives; -1 is a size that is open or found.
        shown: the shapes of outputs for people.
        ways: for each variant of its open sizes.
        programs: by variant, way, stage and number there: one for each target.
    """

    inputs: tuple[Type, ...]
    outputs: tuple[Type, ...]
    shown: tuple[tuple[str, ...], ...]
    ways: tuple[tuple[Way, ...], ...]
    programs: Mapping[tuple[int, int, int, int], Sequence[Program]]

    def sections(self, entry: str) -> Iterator[tuple[str, Program]]:
        """Where each program goes."""
        for place, programs in self.programs.items():
            for p in programs:
                yield section(entry, p.target, *place), p

    def described(self, name: str, weights: Mapping[str, Array]) -> dict[str, Any]:
        """The parts of the header of a file that differ from those of other entries. Raises
        ValueError if a program names a weight that does not exist."""
        every = [p for programs in self.programs.values() for p in programs]
        for p in every:
            for slot in p.of_kind("param"):
                if not suits(slot, weights.get(slot.name)):
                    raise ValueError(f"entry {name!r} needs weight {slot.name!r}, {slot}")
        return {
            "targets": list(dict.fromkeys(p.target for p in every)),
            "inputs": [[n, d, list(shape)] for n, d, shape in self.inputs],
            "outputs": [[n, d, list(shape)] for n, d, shape in self.outputs],
            "shown": [list(row) for row in self.shown],
            "updates": sorted({n for p in every for n in updated(p)}),
            "ways": [[to_json(way) for way in ways] for ways in self.ways],
        }


def section(entry: str, target: str, variant: int, way: int, stage: int, number: int) -> str:
    """The name of a program's section."""
    return f"program:{entry}:{target}:{variant}.{way}.{stage}.{number}"


def sections(entry: str, target: str, ways: Sequence[Sequence[Way]]) -> Iterator[str]:
    """The sections of all programs of an entry for a target."""
    for v, of_variant in enumerate(ways):
        for w, way in enumerate(of_variant):
            for k, stage in enumerate(way.stages):
                for c in range(len(stage.programs)):
                    yield section(entry, target, v, w, k, c)


# --- running --------------------------------------------------------------------------------------


class NoWay(ValueError):
    """A call has found sizes that no program serves."""


class Staged:
    """A variant of an entry that finds sizes.

    Args:
        symbols: the names of the sizes of its inputs.
        opened: opens a program, by the numbers of the way, the stage and the program.
    """

    def __init__(
        self, ways: Sequence[Way], symbols: Sequence[str],
        opened: Callable[[int, int, int], BoundProgram | Opened],
    ) -> None:
        self.ways, self.symbols = ways, tuple(symbols)
        self._opened = opened
        self._open: dict[tuple[int, int, int], BoundProgram | Opened] = {}

    def refusal(self, sizes: Sequence[int]) -> str:
        """Why it serves no call of these sizes; empty if it may."""
        named = dict(zip(self.symbols, sizes, strict=True))
        reasons = []
        for w, way in enumerate(self.ways):
            found = way.broken(named) or self.program(w, 0, named)
            if not isinstance(found, (Guard, str)):
                return ""
            reasons.append(str(found))
        return "; ".join(dict.fromkeys(reasons))

    def at(self, sizes: Sequence[int]) -> StagedAtSizes:
        """The callable for these sizes of the inputs."""
        return StagedAtSizes(self, dict(zip(self.symbols, sizes, strict=True)))

    def program(self, w: int, k: int, sizes: Mapping[str, int]) -> BoundProgram | str:
        """The program of a stage for these sizes; or why there is none."""
        stage = self.ways[w].stages[k]
        at = tuple(sizes[s] for s in stage.symbols)
        reasons = []
        fits = [c for c, wanted in enumerate(stage.programs)
                if all(a in (ANY, b) for a, b in zip(wanted, at, strict=True))]
        for c in sorted(fits, key=lambda c: stage.programs[c].count(ANY)):
            key = w, k, c
            if key not in self._open:
                self._open[key] = self._opened(*key)
            program = self._open[key]
            if not isinstance(program, Opened):
                return program
            refused = program.refusal(at)
            if not refused:
                return program.at(at)
            reasons.append(refused)
        return "; ".join(dict.fromkeys(reasons)) or ", ".join(
            f"{s} = {sizes[s]} has no program" for s in stage.symbols)


class StagedAtSizes:
    """An entry that finds sizes, for certain sizes of its inputs."""

    def __init__(self, staged: Staged, sizes: Mapping[str, int]) -> None:
        self._staged, self._sizes = staged, sizes

    def __call__(self, *arrays: Array) -> Any:
        """Run: one array, or a tuple."""
        out = self.call(arrays)
        return out[0] if len(out) == 1 else tuple(out)

    def call(self, arrays: Sequence[Array]) -> list[Array]:
        """Run on these inputs; the outputs, as a list.

        Raises:
            NoWay: no way serves the sizes that this call finds. Nothing was written.
        """
        reasons = []
        for w, way in enumerate(self._staged.ways):
            found = self._run(w, way, arrays)
            if isinstance(found, list):
                return found
            reasons.append(found)
        raise NoWay("; ".join(dict.fromkeys(reasons)))

    def _run(self, w: int, way: Way, arrays: Sequence[Array]) -> list[Array] | str:
        """The outputs by one way; or why it does not serve this call."""
        values, sizes, origins = list(arrays), dict(self._sizes), dict[str, str]()
        for k, stage in enumerate(way.stages):
            broken = way.broken(sizes)
            program = self._staged.program(w, k, sizes) if broken is None else str(broken)
            if isinstance(program, str):
                named = broken.names if broken is not None else stage.symbols
                found = [f"{s} = {sizes[s]}" + (f", {origins[s]}" if s in origins else "")
                         for s in named]
                return f"{program} is needed, but {'; '.join(found)}" if broken is not None \
                    else f"{program} ({'; '.join(found)})"
            out = program.entry(*[values[i] for i in stage.feeds])
            results = list(out) if type(out) is tuple else [] if out is None else [out]
            if k == len(way.stages) - 1:
                return results
            values += results
            for size in stage.found:
                sizes[size.name] = number = int(np.asarray(results[size.result]))
                origins[size.name] = size.origin
                if not 0 <= number <= MAX_SIZE:
                    return f"{size.origin} is {number}, which is no size"
        raise AssertionError("a way has a last stage")


def check_program(
    program: Program, target: str, stage: Stage, number: int, updates: frozenset[str] | None
) -> bool:
    """Whether a program is what the header says of it."""
    open_ = {s for s, n in zip(stage.symbols, stage.programs[number], strict=True) if n == ANY}
    found = frozenset(program.open.symbols) if program.open is not None else frozenset()
    return (
        program.target == target and found <= open_ and bool(open_) >= bool(found)
        and len(program.of_kind("input")) == len(stage.feeds)
        and len(program.of_kind("output")) == stage.results
        and (updates is None or updates.issuperset(updated(program))))


# --- as data of a file ----------------------------------------------------------------------------


def to_json(way: Way) -> list[Any]:
    """A way as the header of an artifact has it."""
    return [
        [[list(s.feeds), s.results, list(s.symbols), [[f.name, f.result, f.origin]
                                                      for f in s.found],
          [list(at) for at in s.programs]] for s in way.stages],
        [[g.relation, g.number, g.where] for g in way.guards], way.graph]


def from_json(
    data: Any, variants: int, inputs: int, symbols: Sequence[str]
) -> tuple[tuple[Way, ...], ...]:
    """Read and check the ways of an entry; none if it finds no sizes.

    Args:
        variants: how many it has, each with its ways.
        inputs: how many it takes.

    Raises:
        ArtifactError: malformed.
    """
    try:
        found = tuple(tuple(_way(w, inputs, symbols) for w in few(ways, MOST_WAYS))
                      for ways in few(data, variants))
    except (TypeError, ValueError, KeyError):
        raise ArtifactError("the stages of an entry are malformed") from None
    if found and (len(found) != variants or not all(found)):
        raise ArtifactError("the stages of an entry are malformed")
    return found


def _way(data: Any, inputs: int, symbols: Sequence[str]) -> Way:
    stages, guards, graph = data
    values, known, read = inputs, [*symbols], []
    for row in few(stages, MOST_STAGES):
        stage = _stage(row, values, known)
        read.append(stage)
        values += stage.results
        known += [f.name for f in stage.found]
    if not read or read[-1].found or len({*known}) != len(known):
        raise ValueError("the last stage finds no size, and each size is found once")
    numbers = read_numbers({*known}, [number for _, number, _ in few(guards, MOST_VALUES)])
    return Way(tuple(read), tuple(
        Guard(_one_of(relation, RELATIONS), number, str(where)[:200])
        for number, (relation, _, where) in zip(numbers, guards, strict=True)), _count(graph))


def _stage(data: Any, values: int, known: Sequence[str]) -> Stage:
    feeds, results, symbols, found, programs = data
    stage = Stage(
        tuple(_count(i, values - 1) for i in few(feeds, MOST_VALUES)),
        _count(results, MOST_VALUES), tuple(_one_of(s, known) for s in few(symbols, 64)),
        tuple(Found(word(name), _count(i, results - 1), str(origin)[:400])
              for name, i, origin in few(found, 64)),
        tuple(tuple(n if n == ANY and type(n) is int else _count(n) for n in few(at, 64))
              for at in few(programs, MOST_PROGRAMS)))
    if not stage.programs or any(len(at) != len(stage.symbols) for at in stage.programs):
        raise ValueError("a program says what each size is")
    return stage


def _count(data: Any, most: int = MAX_SIZE) -> int:
    if not is_count(data, most):
        raise ValueError("a count was expected")
    return int(data)


def _one_of(data: Any, known: Any) -> str:
    if data not in known:
        raise ValueError("an unknown name")
    return str(data)
