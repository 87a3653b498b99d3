"""Networks with open sizes: what an artifact holds for them.

An artifact cannot compile. The network is traced with symbols, and what it asks about sizes gives
guards. Sizes that are not listed stay open: one program serves all that its guards allow
(`cellc_compiler/open_sizes.py`), and further ones serve sizes of 1, whose sums have another order.

Values of sizes can be listed (`--sizes S=16,32,64..128`): they have programs of their own. Then,
and for a target or a network without programs for all sizes, one size may stay open, the batch: for
one choice of listed values the guards leave ranges of the batch; where they leave some out, the
network is traced again for a size in there, until all are served. In a range whose rows are
independent programs for a few batch sizes serve all (`passes/batch_axis.py`); a range of few sizes
has a program for each. A range for which the network fails (`raise`, say) is left out, and
`Plan.notes` says so.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cellc_compiler.ir.batch_axis import PROBE, NotBatchIndependent
from cellc_compiler.ir.dims import (
    Dim,
    SymbolInfo,
    Undecided,
    evaluate,
    substitute,
    symbols_of,
    terms_of,
)
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.shapes import Guard, Shapes
from cellc_compiler.ir.types import TensorType
from cellc_compiler.passes.batch_axis import batch_sizes
from cellc_compiler.passes.instantiate import SizeError, graph_symbols, instantiate
from cellc_runtime.program import Program
from cellc_runtime.records import dataclass, field, replace
from cellc_runtime.target import Target
from cellc_runtime.variants import ANY, MAX_VARIANTS, OpenSizes, Variant, shown

from .. import context
from ..compiled.found_sizes import is_staged
from ..compiled.traced import Traced, trace
from ..core.later import open_sizes
from ..lang import CompileError
from ..tensors.tensor import OpenTensor
from . import found_sizes
from .errors import UserError
from .loading import InputType

Range = tuple[int, int]
"""First and last value of the batch; `ANY` as the last is no end."""
Listed = Mapping[str, Sequence[int]]

_BATCH, _LENGTH, _PIXELS = 8, 64, 224
"""Sizes that programs for all sizes are tuned for: of a first axis, of others, and of rows and
columns of an image."""
_FAR = 1 << 30  # A program that serves sizes so far from the one it was compiled for serves all
_TRIED = (2, 3, 4, 8, 7, 16, 33, 101, 224, 13, 400)
_MOST_TRIED = 1500
_MOST_MORE = 6  # Further traces for sizes that programs refuse
_MANY = 1 << 24  # A program that serves so large a size counts as one without a bound
_MOST_OPEN = 4  # Sizes that one program leaves open at most
_MOST_TRACES = 16  # For one choice of listed values
_LARGE, _MOST_LARGE = 1 << 18, 4  # Sizes from here on have programs only if there are few so far
_FEW = 16  # Values of a range that may have a program each
_SIZES = re.compile(r"([A-Za-z_]\w*)=(.+)")
_VALUES = re.compile(r"(\d+)(?:\.\.(\d+)(?::(\d+))?)?")


def listed_sizes(options: Sequence[str]) -> dict[str, list[int]]:
    """`--sizes` options: by name, the values in ascending order."""
    out: dict[str, list[int]] = {}
    for option in options:
        m = _SIZES.fullmatch(option.strip())
        parts = [_VALUES.fullmatch(p.strip()) for p in m.group(2).split(",")] if m else [None]
        if m is None or None in parts:
            raise UserError(f"--sizes {option!r}: expected NAME=16,32,64..128 or NAME=16..128:16, "
                            "the name of an open size and the values to serve")
        if m.group(1) in out:
            raise UserError(f"--sizes {option!r}: {m.group(1)} is given twice")
        values = {v for p in parts if p is not None for v in _values(p, option)}
        out[m.group(1)] = sorted(values)
    return out


def _values(part: re.Match[str], option: str) -> range:
    low = int(part.group(1))
    high, step = int(part.group(2) or low), int(part.group(3) or 1)
    if not 1 <= low <= high or step < 1 or high - low >= MAX_VARIANTS * step:
        raise UserError(f"--sizes {option!r}: expected ascending values of at least 1, and at "
                        f"most {MAX_VARIANTS} of them")
    return range(low, high + 1, step)


def typical_sizes(given: Sequence[InputType], shrink: int = 1) -> dict[str, int]:
    """Usual sizes of the open axes of inputs, by name; `shrink` times smaller.

    The axis of a vector is a batch, as that of labels, unless it is another size than the batch of
    inputs that have lengths: then it is a length, too, as that of the positions of all tokens,
    which are more than the new ones.
    """
    shapes = sorted((t.shape for t in given), key=len, reverse=True)
    lengths = any(isinstance(d, str) for shape in shapes for d in shape[1:])
    found: dict[str, int] = {}
    for shape in shapes:
        for axis, d in enumerate(shape):
            if isinstance(d, str):
                image = len(shape) == 4 and axis > 1
                usual = 2 * _LENGTH if len(shape) == 1 and lengths else \
                    _BATCH if axis == 0 else _PIXELS if image else _LENGTH
                found.setdefault(d, usual // shrink)
    return found


class _Pinned(Undecided):
    """A network needs a size as a number."""


def sizes_to_try(names: Sequence[str], usual: Mapping[str, int]) -> list[dict[str, int]]:
    """Choices of sizes of at least 2, small and large, even and odd; those near the usual first."""
    all_small = tuple(sorted({*range(2, 26), *_TRIED}))
    each = next(v for v in (all_small, _TRIED, _TRIED[::2], _TRIED[:1])
                if len(v) ** len(names) <= _MOST_TRIED)

    def distance(sizes: Mapping[str, int]) -> float:
        return sum(abs(math.log(sizes[n] / usual[n])) for n in names)

    return sorted((dict(zip(names, choice, strict=True))
                   for choice in itertools.product(each, repeat=len(names))), key=distance)


@dataclass
class Plan:
    """An entry as graphs of known sizes.

    Attributes:
        traces: the graphs that were traced, with symbols where sizes are open.
        sizes: what is served, by which variant of which graph.
        notes: lines about sizes that are not served.
        shapes: the symbols of each trace.
        ways: for each variant its traces, where sizes follow from elements: see `found_sizes`.
    """

    traces: list[Traced]
    sizes: OpenSizes = field(default_factory=OpenSizes)
    notes: list[str] = field(default_factory=list)
    shapes: list[Shapes] = field(default_factory=list)
    ways: list[list[int]] = field(default_factory=list)

    @property
    def finds(self) -> bool:
        """Whether sizes follow from elements."""
        return any(is_staged(t.graph) for t in self.traces)

    def ways_of(self, number: int) -> list[tuple[int, Graph, Shapes]]:
        """The graphs of a variant, with their numbers and symbols."""
        at = self.sizes.variants[number].at
        known = {s: d for s, d in zip(self.sizes.symbols, at, strict=True) if d != ANY}
        return [(k, instantiate(self.traces[k].graph, known), self.shapes[k].at(known))
                for k in self.ways[number]]

    def opened(self, number: int) -> tuple[Graph, Shapes]:
        """The graph and the symbols of a variant whose program has open sizes."""
        variant = self.sizes.variants[number]
        return self.traces[variant.graph].graph, self.shapes[variant.graph]

    def graphs(self, number: int) -> dict[int, Graph]:
        """The graphs to compile for a variant: by batch size, or one at 0."""
        variant = self.sizes.variants[number]
        graph = self.traces[variant.graph].graph
        return {n: self._at(graph, [n if d == ANY else d for d in variant.at])
                for n in variant.sizes or (0,)}

    def _at(self, graph: Graph, sizes: Sequence[int]) -> Graph:
        values = dict(zip(self.sizes.symbols, sizes, strict=True))
        return instantiate(graph, values) if values else graph


def plan(
    fn: Any, given: Sequence[InputType], listed: Listed, targets: Sequence[Target]
) -> Plan:
    """A network with open sizes (`loading.input_types`) as graphs.

    Raises:
        UserError: sizes that cannot be served, with the line that asks for them and what to do.
        CompileError: an error in the network.
    """
    names = list(dict.fromkeys(d for t in given for d in t.shape if isinstance(d, str)))
    free = [n for n in names if n not in listed]
    axes = tuple((i, axis, names.index(d)) for i, t in enumerate(given)
                 for axis, d in enumerate(t.shape) if isinstance(d, str))
    planner = _Planner(fn, given, names, free[0] if free else None, listed)
    if not listed:
        try:
            return planner.opened(axes, targets)
        except Undecided as e:
            if not free:
                raise UserError(f"there is no program for all sizes that are found: {e}") from e
            why = str(e)
        planner = _Planner(fn, given, names, free[0], listed)
    if len(free) > 1:
        raise UserError(
            f"the sizes {', '.join(free)} are open{'' if listed else f', but {why}'}; one of them "
            "can be any, the batch: list the values of the others, as in "
            f"--sizes {free[-1]}=16,32,64..128")
    values = [listed[n] for n in names if n not in free]
    if math.prod(map(len, values)) > MAX_VARIANTS:
        raise UserError(f"--sizes: {math.prod(map(len, values))} choices of sizes are more than "
                        f"an artifact holds ({MAX_VARIANTS})")
    for i, axis, s in axes:
        if names[s] in free and axis:
            raise UserError(
                f"the size {names[s]} is axis {axis} of {given[i].name}; only a first axis may be "
                f"of any size: list its values, as in --sizes {names[s]}=16,32,64..128")
    variants = [
        v for choice in itertools.product(*values)
        for v in planner.variants(dict(zip([n for n in names if n not in free], choice,
                                           strict=True)))]
    sizes = OpenSizes(tuple(names), axes, tuple(planner.by_rows(variants)))
    return planner.plan(sizes)


@dataclass
class _Trace:
    """The network traced with symbols, and what that assumes."""

    traced: Traced
    shapes: Shapes
    hints: Mapping[str, int]  # the sizes of inputs that it was made for
    programs: list[Program] = field(default_factory=list)  # for all sizes, of each target

    def serves(self, sizes: Mapping[str, int]) -> bool:
        return all(g.holds(sizes) for g in self.shapes.guards)


def _slots(made: _Trace) -> list[Any]:
    """The slots of a network's programs, which agree for all sizes."""
    graph = made.traced.graph
    values = [*graph.outputs, *(old for old, _ in graph.updates)]
    return [*((v.name, v.kind, v.dtype, len(v.shape)) for v in graph.inputs),
            *((v.dtype, len(v.shape)) for v in values)]


class _Planner:
    """Finds the variants of a network for choices of its listed sizes."""

    def __init__(
        self, fn: Any, given: Sequence[InputType], names: Sequence[str], batch: str | None,
        listed: Listed,
    ) -> None:
        self.fn = fn
        self.given = given
        self.names = names
        self.batch = batch
        self.listed = listed
        self.traces: list[_Trace] = []
        self.notes: dict[str, None] = {}
        self.lost: list[tuple[frozenset[tuple[str, int]], str]] = []

    def plan(self, sizes: OpenSizes) -> Plan:
        """The traces, for these sizes."""
        made = Plan([t.traced for t in self.traces], sizes, list(self.notes),
                    [t.shapes for t in self.traces])
        if made.finds:
            if any(v.sizes for v in sizes.variants):
                raise self._listing("sizes follow from elements, so rows depend on each other",
                                    self.batch)
            made.ways = [self._ways(v.graph) for v in sizes.variants]
            made.traces, made.notes = [t.traced for t in self.traces], list(self.notes)
            made.shapes = [t.shapes for t in self.traces]
        return made

    def _ways(self, number: int) -> list[int]:
        """The traces for all that may be found, the first of which is this."""
        ways, failed = [number], set[tuple[int, ...]]()

        def served(point: Sequence[int]) -> bool:
            return point in failed or any(found_sizes.broken(
                self.traces[w].traced.graph, self.traces[w].shapes, point) is None for w in ways)

        for way in ways:
            made = self.traces[way]
            for point in found_sizes.more_answers(made.traced.graph, made.shapes, served):
                failed.add(point)
                if len(ways) == found_sizes.MOST_WAYS:
                    raise UserError("the network asks too much about the sizes that it finds")
                shapes, error = self._trace(made.hints, answers=point)
                unless = found_sizes.unless(made.traced.graph, made.shapes, point)
                if error is not None:
                    text = str(error).partition("\n")[0]
                    self.notes[f"not served unless {unless}: {text}"] = None
                    continue
                known = {n: d for n, d in made.hints.items() if n not in made.shapes.symbols}
                last = self.traces[-1]
                last.traced = replace(last.traced, graph=instantiate(last.traced.graph, known))
                last.shapes = shapes.at(known)
                if _slots(last) != _slots(self.traces[number]):
                    raise UserError(f"what the network gives is of another kind unless {unless}")
                ways.append(len(self.traces) - 1)
                found_sizes.refuse_pins([(self.traces[w].traced.graph, self.traces[w].shapes)
                                         for w in ways])
        return ways

    def opened(self, axes: Sequence[tuple[int, int, int]], targets: Sequence[Target]) -> Plan:
        """The network with all its sizes open: a graph for all of at least 2, and one for each
        choice of sizes that are 1.

        Raises:
            Undecided: a target has no program for all sizes of this network.
            CompileError: an error in the network.
        """
        if len(self.names) > _MOST_OPEN:
            raise Undecided(f"{len(self.names)} sizes are open, more than {_MOST_OPEN}")
        variants: list[Variant] = []
        few = (None, 0, 1) if len(self.names) == 1 else (None, 1)
        for chosen in itertools.product(few, repeat=len(self.names)):
            known = {n: d for n, d in zip(self.names, chosen, strict=True) if d is not None}
            at = tuple(ANY if d is None else d for d in chosen)
            for made in self._all_graphs(known, targets, bool(variants)):
                if _slots(made) != _slots(self.traces[0]):
                    self.traces.pop()
                    where = ", ".join(f"{n} = {d}" for n, d in {**made.hints, **known}.items())
                    some = "" if len(known) == len(self.names) else ", for example,"
                    self.notes[f"not served{some or ':'} {where}: what it takes or returns is of "
                               "another kind"] = None
                    continue
                variants.append(Variant(at, graph=len(self.traces) - 1))
        return self.plan(OpenSizes(tuple(self.names), tuple(axes), tuple(variants)))

    def _all_graphs(
        self, known: Mapping[str, int], targets: Sequence[Target], may_fail: bool
    ) -> Iterator[_Trace]:
        """Yield graphs that serve all sizes of at least 2 of the symbols that are not known: those
        of `_open_graphs`, and for the sizes that their programs refuse further ones."""
        names = [n for n in self.names if n not in known]
        served: list[_Trace] = []
        for made in self._open_graphs(known, targets, may_fail):
            served.append(made)
            yield made
        if not served or not names or (len(names) == 1 and all(
                _is_range(g, known, names[0]) for g in served[0].shapes.guards)):
            return
        left = sizes_to_try(names, typical_sizes(self.given))
        reasons: set[str] = set()
        for _ in range(_MOST_MORE):
            left = [at for at in left if not any(
                all(p.open is None or not p.open.refusal(at) for p in t.programs) for t in served)]
            if not left:
                return
            shapes, failed = self._trace({**known, **left[0]})
            error: Exception | None = failed
            if error is None:
                try:
                    served.append(self._opened_trace(known, names, targets))
                    yield served[-1]
                    continue
                except (Undecided, SizeError) as e:
                    error = e
                    self.traces.pop()
            why = str(error).partition("\n")[0]
            if why in reasons:
                return
            reasons.add(why)
            where = ", ".join(f"{n} = {d}" for n, d in {**known, **left[0]}.items())
            self._note(known, False, f"not served, for example, {where}", why)
            asked = [g for g in shapes.guards if isinstance(error, CompileError)]
            left = [at for at in left[1:]
                    if not asked or not all(g.holds({**known, **at}) for g in asked)]

    def _note(self, known: Mapping[str, int], all_of_it: bool, where: str, why: str) -> None:
        """Note sizes that are not served, unless those of fewer known sizes are not for the same
        reason.

        Args:
            all_of_it: whether no size with these known ones is served.
        """
        at = frozenset(known.items())
        if any(fewer < at and why == reason for fewer, reason in self.lost):
            return
        self.notes[f"{where}: {why}"] = None
        if all_of_it:
            self.lost.append((at, why))

    def _opened_trace(
        self, known: Mapping[str, int], names: Sequence[str], targets: Sequence[Target]
    ) -> _Trace:
        """The last trace, with these sizes filled in and compiled.

        Raises:
            Undecided: it needs another size as a number (`_Pinned`), or its code a size.
            SizeError: these sizes do not fit.
        """
        made = self.traces[-1]
        for guard in made.shapes.guards:
            if symbols_of(guard.expr) & {*names} and made.shapes.pins(guard):
                place = f" ({guard.where})" if guard.where else ""
                raise _Pinned(f"the network needs a size as a number{place}")
        made.traced = replace(made.traced, graph=instantiate(made.traced.graph, known))
        made.shapes = made.shapes.at(known)
        made.programs = [*self._programs(made, targets)] if names else []
        return made

    def _open_graphs(
        self, known: Mapping[str, int], targets: Sequence[Target], may_fail: bool
    ) -> Iterator[_Trace]:
        """Yield a graph that serves usual sizes of the symbols that are not known; of one symbol
        one for each range that the network or its code tells apart."""
        names = [n for n in self.names if n not in known]
        before = len(self.traces)
        todo: list[Range] = [(open_sizes.LEAST, ANY)]
        lost: list[Range] = []
        why = ""
        while todo:
            low, high = todo.pop(0)
            hints, shapes, error = self._usual_trace(known, names, low, high)
            parts = len(names) == 1 and all(_is_range(g, known, names[0]) for g in shapes.guards)
            ranges = _ranges(shapes, known, names[0]) if parts else [(0, ANY)]
            failed: Exception | None = error
            if error is None:
                try:
                    made = self._opened_trace(known, names, targets)
                    for program in made.programs:
                        if parts and program.open is not None and len(program.open.symbols) == 1:
                            served = _served_range(program, names[0], hints[names[0]])
                            ranges = [both for a in ranges if (both := _overlap(a, served))]
                    yield made
                    may_fail = True
                except (Undecided, SizeError) as e:
                    if not may_fail or (len(self.names) == 1 and isinstance(e, _Pinned)):
                        raise  # (programs for a few batch sizes may serve it)
                    self.traces.pop()
                    failed, ranges = e, [(low, high)]
            todo = [rest for a in [(low, high), *todo] for rest in _without(a, ranges)
                    if rest[0] < _MANY]
            if failed is not None:
                if not may_fail and not todo and len(names) == len(self.names):
                    raise failed
                lost += ranges
                why = why or str(failed).partition("\n")[0]
            if given_up := _given_up(len(self.traces) - before, todo, known):
                lost, todo, why = lost + todo, [], why or given_up
        if why:
            where = [f"{n} = {d}" for n, d in known.items()]
            where += [f"{names[0]} {_joined(lost)}"] if len(names) == 1 else []
            self._note(known, len(self.traces) == before, f"not served: {', '.join(where)}", why)

    def _programs(self, made: _Trace, targets: Sequence[Target]) -> Iterator[Program]:
        """Yield the programs for all sizes of a trace; of one that finds sizes some of them."""
        for target in targets:
            if is_staged(made.traced.graph):
                for program in found_sizes.typical_programs(
                        made.traced.graph, made.shapes, target):
                    if program.open is not None and {*program.open.symbols} <= {*self.names}:
                        yield program
            else:
                yield open_sizes.compile_open(
                    made.traced.graph, made.shapes, target, context.numerics())

    def _usual_trace(
        self, known: Mapping[str, int], names: Sequence[str], low: int, high: int
    ) -> tuple[dict[str, int], Shapes, CompileError | None]:
        """The network traced for usual sizes of a range, smaller ones if it fails: some networks
        have a longest length. See `_trace`."""
        tried = []
        for part in (1, 2, 4, 8) if len(names) > 1 else (1,):
            usual = typical_sizes(self.given, part)
            hints = {n: max(low, usual[n] if high == ANY else min(high, usual[n])) for n in names}
            tried.append((hints, *self._trace({**known, **hints})))
            if tried[-1][2] is None:
                break
        return tried[-1] if tried[-1][2] is None else tried[0]

    def variants(self, choice: Mapping[str, int]) -> Iterator[Variant]:
        """Yield the variants for this choice of listed values."""
        at = tuple(choice.get(n, ANY) for n in self.names)
        if self.batch is None:
            known = (i for i, t in enumerate(self.traces) if t.serves(choice))
            found = next(known, None)
            if found is None:
                _, error = self._trace(choice)
                if error is not None:
                    at_ = ", ".join(f"{n} = {v}" for n, v in choice.items())
                    raise UserError(f"for {at_}: {error}") from error
                found = len(self.traces) - 1
            yield Variant(at, graph=found)
            return
        for number, ranges in self._cover(choice).items():
            yield Variant(at, tuple(ranges), self._sizes(number, ranges, choice), number)

    def by_rows(self, variants: Sequence[Variant]) -> Sequence[Variant]:
        """The variants, as ones of one size each if some result does not have the batch as its
        first axis: an entry puts the rows of a batch together."""
        if all(map(self._gives_rows, variants)):
            return variants
        if not all(map(_lists_all, variants)):
            raise self._listing("a result has another first axis", self.batch)
        return [Variant(tuple(n if d == ANY else d for d in v.at), graph=v.graph)
                for v in variants for n in v.sizes]

    def _gives_rows(self, variant: Variant) -> bool:
        """Whether each result has the batch as its first axis. (Programs of windows have been
        shown to.)"""
        graph = self.traces[variant.graph].traced.graph
        if not _lists_all(variant) or is_staged(graph):
            return True
        return all(
            v.shape[:1] == (n,) for n in variant.sizes for v in instantiate(
                graph, {name: n if d == ANY else d
                        for name, d in zip(self.names, variant.at, strict=True)}).outputs)

    # --- ranges of the batch ----------------------------------------------------------------

    def _cover(self, choice: Mapping[str, int]) -> dict[int, list[Range]]:
        """By trace, the ranges of the batch that it serves."""
        todo: list[Range] = [(1, ANY)]
        out: dict[int, list[Range]] = {}
        for number, t in enumerate(self.traces):
            todo = self._take(number, _ranges(t.shapes, choice, self.batch), todo, out)
        while todo:
            if len(out) > _MOST_TRACES:
                raise self._listing("the network asks too much about it", self.batch)
            low, high = todo[-1]
            hint = max(low, PROBE) if high == ANY else high
            shapes, error = self._trace({**choice, str(self.batch): hint}, high == ANY)
            ranges = _ranges(shapes, choice, self.batch)
            if high == ANY and ranges == [(hint, hint)]:
                raise self._listing(
                    "the network needs it as a number"
                    f"{_place(shapes.guards, str(self.batch))}", self.batch)
            if error is None:
                todo = self._take(len(self.traces) - 1, ranges, todo, out)
                continue
            failed: dict[int, list[Range]] = {}
            todo = self._take(0, ranges, todo, failed)
            if not todo and not out:
                raise error
            line = str(error).partition("\n")[0]
            self.notes[f"not served: {self.batch} {shown(failed[0])}: {line}"] = None
        return {number: sorted(ranges) for number, ranges in out.items()}

    def _take(
        self, number: int, ranges: Sequence[Range], todo: list[Range],
        out: dict[int, list[Range]],
    ) -> list[Range]:
        """Return the remaining ranges when a trace serves these ranges."""
        taken = [both for a in ranges for b in todo if (both := _overlap(a, b)) is not None]
        if taken:
            out[number] = taken
        return [rest for a in todo for rest in _without(a, taken)]

    def _trace(
        self, hints: Mapping[str, int], stand_in: bool = False, answers: Sequence[int] = ()
    ) -> tuple[Shapes, CompileError | None]:
        """Trace for these sizes; what was asked, and the error if there is one.

        Args:
            answers: the sizes that are found, in order, as far as they matter.
        """
        shapes = Shapes(measured=list(answers))
        dims = {n: self._symbol(shapes, n, hints[n], stand_in) for n in self.names}
        types = [TensorType(tuple(dims[d] if isinstance(d, str) else d for d in t.shape), t.dtype)
                 for t in self.given]
        try:
            traced = trace(self.fn, [OpenTensor.of(ty) for ty in types], {}, types, shapes)
        except CompileError as e:
            if stand_in and re.search(rf"\b{hints[str(self.batch)]}\b", str(e)):
                place = _place(shapes.guards, str(self.batch))
                raise self._listing(f"the network needs it as a number{place}",
                                    self.batch) from None
            return shapes, e
        self.traces.append(_Trace(traced, shapes, dict(hints)))
        return shapes, None

    def _symbol(self, shapes: Shapes, name: str, hint: int, stand_in: bool) -> Dim:
        """The symbol of an open size."""
        t = next(t for t in self.given if name in t.shape)
        values = self.listed.get(name, ())
        low, high = (values[0], values[-1]) if values else (1, None)
        origin = f"axis {t.shape.index(name)} of {t.name}"
        return shapes.new(name, hint, SymbolInfo(low, high, origin,
                                                 stand_in and name == self.batch))

    def _listing(self, why: str, name: str | None) -> UserError:
        return UserError(f"an artifact cannot serve all sizes of {name}: {why}; list the sizes to "
                         f"serve, as in --sizes {name}=1,2,4..8")

    # --- programs ---------------------------------------------------------------------------

    def _sizes(
        self, number: int, ranges: Sequence[Range], choice: Mapping[str, int]
    ) -> tuple[int, ...]:
        """The batch sizes whose programs serve these ranges."""
        low, high = ranges[0][0], ranges[-1][1]
        count = math.inf if high == ANY else sum(z - a + 1 for a, z in ranges)
        each = [n for a, z in ranges for n in range(a, z + 1)] if count <= _FEW else []
        if count <= 2:
            return tuple(each)
        graph = self.traces[number].traced.graph
        try:
            open_ = instantiate(graph, choice) if choice else graph
            sizes = batch_sizes(open_)
            first = max(n for n in sizes if n <= low)
            found = tuple(n for n in sizes if first <= n and (high == ANY or n <= high))
        except NotBatchIndependent as e:
            if each:
                return tuple(each)
            raise self._listing(str(e), self.batch) from e
        return found


def _lists_all(variant: Variant) -> bool:
    """Whether a variant has a program for each batch size that it serves."""
    return all(high != ANY for _, high in variant.ranges) and \
        sum(high - low + 1 for low, high in variant.ranges) == len(variant.sizes)


def _given_up(count: int, todo: Sequence[Range], known: Mapping[str, int]) -> str:
    """Why no further sizes are traced after a number of traces; "" where they are.

    Raises:
        Undecided: no size is known, so programs for a few batch sizes may serve the network.
    """
    if count >= _MOST_LARGE and todo and todo[0][0] >= _LARGE:
        return "programs for so large a size would serve few sizes each"
    if count <= _MOST_TRACES:
        return ""
    too_much = "the network asks too much about its sizes"
    if not known:
        raise Undecided(too_much)
    return too_much


def _is_range(guard: Guard, known: Mapping[str, int], name: str) -> bool:
    """Whether a guard compares the size with a number."""
    return all(not m or m == (name,) for m in terms_of(substitute(guard.expr, dict(known))))


def _ranges(shapes: Shapes, choice: Mapping[str, int], batch: str | None) -> list[Range]:
    """The values of the batch for which all guards hold, together with these values of the others.
    """
    found: list[Range] = [(1, ANY)]
    for guard in shapes.guards:
        fixed = substitute(guard.expr, dict(choice))
        if type(fixed) is not Dim:
            found = found if Guard(guard.relation, fixed).holds({}) else []
            continue
        if any(m != (batch,) for m, _ in fixed.terms if m):
            raise UserError(
                f"an artifact cannot serve all sizes of {batch}: the network asks whether "
                f"{shapes.shown(replace(guard, expr=fixed))}; list the sizes to serve, as in "
                f"--sizes {batch}=8,16,32")
        shift = evaluate(fixed, {str(batch): 0})
        allowed = _solved(guard.relation, evaluate(fixed, {str(batch): 1}) - shift, shift)
        found = [both for a in found for b in allowed if (both := _overlap(a, b)) is not None]
    return sorted(found)


def _solved(relation: str, factor: int, shift: int) -> list[Range]:
    """The positive n for which `factor * n + shift` is (not) 0, or at least 0."""
    if relation == ">=":
        if factor > 0:
            return [(max(1, -(shift // factor)), ANY)]
        return [(1, shift // -factor)] if shift // -factor >= 1 else []
    root, rest = divmod(-shift, factor)
    hit = [(root, root)] if not rest and root >= 1 else []
    return hit if relation == "==" else _without((1, ANY), hit)


def _served_range(program: Program, name: str, size: int) -> Range:
    """The range around a size that a program with one open size serves."""
    assert program.open is not None
    opened = program.open

    def end(step: int) -> int:
        """The last size that is served in this direction; `ANY` if there is none."""
        at, stride = size, 1
        while stride <= _FAR:
            further = at + step * stride
            if further >= open_sizes.LEAST and not opened.refusal({name: further}):
                at, stride = further, stride * 2
            elif stride == 1:
                return at if at < _MANY else ANY
            else:
                stride = 1
        return ANY

    return end(-1), end(1)


def _overlap(a: Range, b: Range) -> Range | None:
    low = max(a[0], b[0])
    ends = [z for z in (a[1], b[1]) if z != ANY]
    high = min(ends) if ends else ANY
    return (low, high) if high == ANY or low <= high else None


def _joined(ranges: Sequence[Range]) -> str:
    """Ranges as a text, neighbours as one."""
    whole = open_sizes.LEAST, ANY
    return shown(_without(whole, _without(whole, ranges)))


def _without(whole: Range, parts: Sequence[Range]) -> list[Range]:
    """Return a range without others, which lie in it or outside."""
    out: list[Range] = []
    at, end = whole
    for low, high in sorted(parts):
        if (high != ANY and high < at) or (end != ANY and low > end):
            continue
        if low > at:
            out.append((at, low - 1))
        if high == ANY or (end != ANY and high >= end):
            return out
        at = high + 1
    return [*out, (at, end)]


def _place(guards: Sequence[Guard], batch: str) -> str:
    """Where the network asked for the number of the batch."""
    pins = [g.where for g in guards
            if g.relation == "==" and symbols_of(g.expr) == {batch} and g.where]
    return f" ({pins[0]})" if pins else ""


def plan_fixed(traced: Traced) -> Plan:
    """A network without open sizes, none of which follows from elements."""
    assert not graph_symbols(traced.graph)
    return Plan([traced])
