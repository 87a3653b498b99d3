"""Networks in which sizes follow from elements: what an artifact holds for them.

The graph is cut into stages (`compiled/found_sizes.py`). A stage has a program for all sizes of at
least 2 that are found, and others where some are 0 or 1. Where the network asks about such a size
(`if x[mask].shape[0] > 6`), it is traced again for other answers; each trace is a way, and the call
takes the one whose conditions hold (`cellc_runtime/found_sizes.py`).
"""

from __future__ import annotations

import itertools
import linecache
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from cellc_compiler.ir.dims import Undecided, evaluate, is_symbolic, symbols_of, terms_of
from cellc_compiler.ir.graph import Graph, Node
from cellc_compiler.ir.shapes import Guard, Shapes
from cellc_compiler.ir.types import TensorType
from cellc_compiler.passes.instantiate import SizeError, graph_symbols
from cellc_runtime import found_sizes as runtime
from cellc_runtime.arguments import Type
from cellc_runtime.program import Program
from cellc_runtime.records import dataclass, field, replace
from cellc_runtime.target import Target
from cellc_runtime.variants import ANY, OpenSizes

from .. import context
from ..compiled.found_sizes import Stage, compile_stage, is_staged, split
from ..core.later import open_sizes
from ..lang.errors import Place
from .errors import UserError

_TYPICAL = 64  # Of a size that is found, where no bound of it is known
_PROBES = (2, 17, 300, 5000, 70_000)
"""Sizes for which it is looked whether a program serves them."""
_FEW = (0, 1, 2, 5)  # Answers for which it is looked whether a way serves them
_MOST_POINTS = 400
MOST_WAYS = 16  # Of one variant
_MOST_PINNED = 5  # Numbers that a network compares sizes with
_MOST_CHOICES = 81  # Choices of 0, 1 and more for the sizes of a stage
_MOST_EXTRA = 3  # Further programs of a stage for the same choice


@dataclass
class Made:
    """The programs of an entry that finds sizes.

    Attributes:
        ways: for each variant.
        programs: by variant, way, stage and number there: one for each target.
    """

    ways: list[list[runtime.Way]] = field(default_factory=list)
    programs: dict[tuple[int, int, int, int], list[Program]] = field(default_factory=dict)


def measures(graph: Graph) -> list[Node]:
    """The nodes that find sizes, in the order of the trace."""
    return [n for n in graph.nodes if n.op == "measure"]


def refuse(graph: Graph, what: str) -> None:
    """Refuse sizes that follow from elements, where `what` cannot find them."""
    for node in measures(graph):
        raise UserError(
            f"{_place(node)}\na size follows from elements; {what} cannot find it out: use a form "
            "of fixed shape (where, masked_fill), or compile an artifact (.cellc)")


def _place(node: Node) -> str:
    """The place of a node, with a caret."""
    span = node.span
    place = Place(span, linecache.getline(span.file, span.line), "construct", node.scope)
    return f'  File "{span.file}", line {span.line}\n    ' + "\n    ".join(
        place.caret().splitlines())


# --- ways -----------------------------------------------------------------------------------------


def more_answers(
    graph: Graph, shapes: Shapes, serves: Callable[[Sequence[int]], bool]
) -> Iterator[tuple[int, ...]]:
    """Yield answers that no trace serves, as far as they are tried: values of the sizes that are
    found, in order.

    Args:
        graph, shapes: of a trace.
        serves: whether some trace serves these answers.
    """
    names = [n.attrs["symbol"] for n in measures(graph)]
    asked = {s for g in shapes.guards for s in symbols_of(g.expr)}
    last = max((i + 1 for i, n in enumerate(names) if n in asked), default=0)
    values = [_answers(n, shapes) if n in asked else [shapes.hints[n]] for n in names[:last]]
    for point in itertools.islice(itertools.product(*values), _MOST_POINTS):
        if _possible(dict(zip(names, point, strict=False)), shapes, ()) and not serves(point):
            yield point


def _answers(name: str, shapes: Shapes) -> list[int]:
    """Values of a size that may be answered differently."""
    found = {*_FEW, shapes.hints[name]}
    for g in shapes.guards:
        terms = terms_of(g.expr)
        factor, shift = terms.get((name,), 0), terms.get((), 0)
        if factor and len(terms) <= 2 and len(terms) == 1 + (() in terms):
            found |= {-shift // factor + i for i in (-1, 0, 1, 2)}
    return sorted(n for n in found if n >= 0)


def unless(graph: Graph, shapes: Shapes, point: Sequence[int]) -> str:
    """The condition of a trace that does not hold for answers."""
    found = broken(graph, shapes, point)
    return "" if found is None else str(_guard(replace(found, where="")))


def broken(graph: Graph, shapes: Shapes, point: Sequence[int]) -> Guard | None:
    """The first condition of a trace that does not hold for answers, as far as they say."""
    names = [n.attrs["symbol"] for n in measures(graph)]
    sizes = {**{s: n for s, n in shapes.hints.items() if s not in names},
             **dict(zip(names, point, strict=False))}
    return next((g for g in shapes.guards
                 if symbols_of(g.expr) <= sizes.keys() and not g.holds(sizes)), None)


def refuse_pins(traces: Sequence[tuple[Graph, Shapes]]) -> None:
    """Refuse a network that needs a size that it finds as a number: one trace after the other has
    asked for it."""
    pinned: list[tuple[Node, Guard]] = []
    for graph, shapes in traces:
        nodes = {n.attrs["symbol"]: n for n in measures(graph)}
        pinned += [(nodes[s], g) for g in shapes.guards if g.relation == "==" and shapes.pins(g)
                   for s in g.names if len(g.names) == 1 and s in nodes]
    if len(pinned) > _MOST_PINNED:
        node, g = pinned[0]
        where = f" ({g.where})" if g.where else ""
        raise UserError(
            f"{_place(node)}\nthe network needs the number that is found here as a number{where}; "
            "an artifact has one program for all: compute with tensors there, or use a form of "
            "fixed shape (where, masked_fill)")


# --- programs -------------------------------------------------------------------------------------


def typical_programs(graph: Graph, shapes: Shapes, target: Target) -> list[Program]:
    """A program of each stage, for usual sizes.

    Raises:
        Undecided: a stage has no program for all sizes of the inputs.
    """
    found = {n.attrs["symbol"]: n for n in measures(graph)}
    return [next(_covering(stage, shapes, {}, found, [target]))[0] for stage in _stages(graph)]


def compile_variant(
    made: Made, number: int, ways: Sequence[tuple[int, Graph, Shapes]], targets: Sequence[Target]
) -> None:
    """Compile the ways of a variant; `ways` are its graphs with their numbers and symbols."""
    made.ways.append([])
    for w, (graph_number, graph, shapes) in enumerate(ways):
        stages: list[runtime.Stage] = []
        values = {v: i for i, v in enumerate(v for v in graph.inputs if v.kind == "input")}
        found = {n.attrs["symbol"]: n for n in measures(graph)}
        for k, stage in enumerate(_stages(graph)):
            programs = []
            for c, (at, of_targets) in enumerate(_programs(stage, shapes, found, targets)):
                made.programs[number, w, k, c] = of_targets
                programs.append(at)
            stages.append(runtime.Stage(
                tuple(values[v] for v in stage.feeds if v in values), len(stage.gives),
                tuple(sorted(stage.needs)),
                tuple(runtime.Found(s, stage.gives.index(v), shapes.symbols[s].origin)
                      for s, v in stage.measured.items()), tuple(programs)))
            at_end = len(values)
            values.update({v: at_end + i for i, v in enumerate(stage.gives)})
        made.ways[-1].append(runtime.Way(
            tuple(stages), tuple(map(_guard, shapes.guards)), graph_number))


def _stages(graph: Graph) -> list[Stage]:
    """The stages of a graph; of one that finds no sizes the whole."""
    if is_staged(graph):
        return split(graph)
    return [Stage(graph, list(graph.inputs), list(graph.outputs), {},
                  frozenset(graph_symbols(graph)))]


def _guard(g: Guard) -> runtime.Guard:
    return runtime.Guard(g.relation, open_sizes.number(g.expr), g.where)


def _programs(
    stage: Stage, shapes: Shapes, origins: Mapping[str, Node], targets: Sequence[Target]
) -> Iterator[tuple[tuple[int, ...], list[Program]]]:
    """Yield the programs of a stage: the size of each symbol that it needs, `ANY` for those that
    are open, and the program for each target."""
    names = sorted(stage.needs)
    found = [s for s in names if s in origins]
    if 3 ** len(found) > _MOST_CHOICES:
        first = origins[found[0]]
        raise UserError(
            f"{_place(first)}\n{len(found)} sizes that follow from elements meet in one "
            "computation, more than 4: use forms of fixed shape (where, masked_fill) for some")
    for choice in itertools.product((None, 0, 1), repeat=len(found)):
        known = {s: n for s, n in zip(found, choice, strict=True) if n is not None}
        if not _possible(known, shapes, shapes.guards):
            continue
        at = tuple(known.get(s, ANY) for s in names)
        try:
            for of_targets in _covering(stage, shapes, known, origins, targets):
                yield at, of_targets
        except SizeError:  # the network fails for these
            continue
        except Undecided as e:
            node = next((origins[s] for s in found if s not in known), None)
            if node is None:
                raise
            raise UserError(
                f"{_place(node)}\nthere is no program for all sizes that are found here: {e}; "
                "use a form of fixed shape (where, masked_fill)") from e


def _possible(known: Mapping[str, int], shapes: Shapes, guards: Sequence[Guard]) -> bool:
    """Whether sizes that are found may have these values, and conditions hold."""
    sizes = {**shapes.hints, **known}
    limits = [(n, shapes.symbols[s].limit) for s, n in known.items()]
    return all(limit is None or n <= evaluate(limit, sizes) for n, limit in limits
               if symbols_of(limit) & known.keys() or not is_symbolic(limit)) and \
        all(g.holds(known) for g in guards if symbols_of(g.expr) <= known.keys())


def _covering(
    stage: Stage, shapes: Shapes, known: Mapping[str, int], found: Mapping[str, Node],
    targets: Sequence[Target],
) -> Iterator[list[Program]]:
    """Yield programs that together serve the sizes that are tried, each for all targets."""
    open_ = [s for s in sorted(stage.needs) if s not in known]
    todo = [{**known, **{s: _usual(s, shapes, found) for s in open_}}]
    todo += [{**known, **dict(zip(open_, p, strict=True))} for p in itertools.islice(
        itertools.product(*(_probes(s, shapes) for s in open_)), _MOST_POINTS)] if open_ else []
    made: list[list[Program]] = []
    for sizes in todo:
        guards = (g for g in shapes.guards if symbols_of(g.expr) <= sizes.keys())
        if not all(g.holds(sizes) for g in guards) or any(
                all(p.open is None or not p.open.refusal(sizes) for p in of) for of in made):
            continue
        if len(made) > _MOST_EXTRA:
            return
        try:
            made.append([compile_stage(stage, shapes, sizes, t, context.numerics())
                         for t in targets])
        except (Undecided, SizeError):
            if not made:
                raise
            continue
        yield made[-1]


def _usual(name: str, shapes: Shapes, found: Mapping[str, Node]) -> int:
    """The size that costs are estimated for."""
    info = shapes.symbols[name]
    if name not in found:
        return shapes.hints[name]
    high = info.high if info.high is not None else 2 * _TYPICAL
    return max(open_sizes.LEAST, info.low, high // 2)


def _probes(name: str, shapes: Shapes) -> list[int]:
    """Sizes to try."""
    info = shapes.symbols[name]
    high = math.inf if info.high is None else info.high
    return [n for n in _PROBES if max(info.low, open_sizes.LEAST) <= n <= high] + (
        [] if info.high is None or info.high < open_sizes.LEAST else [info.high])


# --- what it takes and gives ----------------------------------------------------------------------


def staged_programs(
    made: Made, graphs: Sequence[Graph], sizes: OpenSizes
) -> runtime.StagedPrograms:
    """The programs of an entry; `graphs` are those of all its ways."""
    places = {(i, axis) for i, axis, _ in sizes.axes}
    given = [v for v in graphs[0].inputs if v.kind == "input"]
    inputs: list[Type] = [
        (v.name, v.dtype.name, tuple(ANY if (i, axis) in places else int(d)
                                     for axis, d in enumerate(v.type.shape)))
        for i, v in enumerate(given)]
    outputs: list[Type] = []
    shown = []
    for k in range(len(graphs[0].outputs)):
        types = [g.outputs[k].type for g in graphs]
        outputs.append((f"out{k}", types[0].dtype.name, tuple(_same(types, axis)
                                                              for axis in range(types[0].rank))))
        shown.append(tuple(str(d) for d in types[0].shape))
    return runtime.StagedPrograms(
        tuple(inputs), tuple(outputs), tuple(shown), tuple(map(tuple, made.ways)), made.programs)


def _same(types: Sequence[TensorType], axis: int) -> int:
    """The size that an axis has in all types; `ANY` if there is none."""
    found = {t.shape[axis] for t in types}
    return ANY if len(found) > 1 or any(map(is_symbolic, found)) else int(found.pop())
