"""Recomputation: what a marked Cell or op computes is not kept for its gradient.

In a graph it is a `recompute` node, whose gradient computes the nested graph again. A recording
of an eager run makes such a node of what the run recorded and drops the tensors. Where that cannot
be said as a graph (a `bprop` of the user's in it, hooks on tensors), its gradient runs the same
Python code once more, on tensors and states as they were, and differentiates that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from cellc_compiler.ir.graph import Graph
from cellc_runtime.lazy import lazy_imports
from cellc_runtime.records import dataclass

from ..core import dispatch, journal, watching
from ..core.journal import Journal
from ..eager.recorder import Mark, Recording, Sums, active_recordings, aliases, recording
from ..storage import writes
from ..tensors.tensor import Elements, Grads, Tensor, Tensors, alias_of, elements_of, use_elements
from ..tracing.pytree import Structure, put_together, take_apart
from ..tracing.tracer import GraphTensor, Tracer

with lazy_imports(__name__):
    from ..eager import folding
    from . import replay

# --- in a graph -----------------------------------------------------------------------------------


def result_again(given: Any, call: Callable[[], Any]) -> Any:
    """The result of `call`, an op without effects; in a graph no gradient keeps it."""
    tracer = dispatch.active_tracer()
    return call() if tracer is None else traced(tracer, given, call, results=True)


def traced(tracer: Tracer, given: Any, call: Callable[[], Any], results: bool = False) -> Any:
    """The result of `call`, traced into a graph that its gradient computes again.

    Args:
        given: the arguments; what `call` writes in place into one of them is seen outside too.
        results: other gradients that read the result compute it again too.
    """
    mine = [t for t in take_apart(given)[1] if isinstance(t, GraphTensor)]
    before = [t.ir_value for t in mine]
    shape: list[tuple[Structure, list[GraphTensor], list[Tensor | tuple[int, int]]]] = []

    def run() -> list[Tensor]:
        structure, leaves = take_apart(call())
        written = [t for t, v in zip(mine, before, strict=True) if t.ir_value is not v]
        own: dict[Any, Tensor] = {}
        places: list[Tensor | tuple[int, int]] = []
        for t in leaves:
            # A tensor that is handed through stays as it is: its cotangents are gathered outside. A
            # tensor that is returned twice is one result: its cotangents are gathered in one sum.
            if tracer.is_own(t) or any(t is w for w in written):
                key = t.ir_value if isinstance(t, GraphTensor) else t
                own.setdefault(key, t)
                places.append((list(own).index(key), id(t)))
            else:
                places.append(t)
        shape.append((structure, written, places))
        return [*own.values(), *[GraphTensor(t.ir_value) for t in written]]

    found = tracer.recomputed(run, results)
    for t, v in zip(mine, before, strict=True):
        t.ir_value = v
    structure, written, places = shape[-1]
    count = len(found) - len(written)
    for t, new in zip(written, found[count:], strict=True):
        t.ir_value = tracer.lift(new)
    same: dict[Any, Tensor] = {}  # who wrote into one of two tensors wrote into that one only
    return put_together(structure, [
        p if isinstance(p, Tensor) else same.setdefault(p, GraphTensor(tracer.lift(found[p[0]])))
        for p in places])


# --- eagerly --------------------------------------------------------------------------------------

_PLAIN = dispatch.Scope(None, None, None, None)

Call = Callable[[tuple[Any, ...], Mapping[str, Any]], Any]


def recorded(
    call: Call, args: tuple[Any, ...], kwargs: Mapping[str, Any], parameters: Tensors,
    python: bool = False,
) -> Any:
    """`call(args, kwargs)`, of which recordings keep nothing but what it reads and gives.

    Args:
        parameters: tensors that it may read and that may change before it runs again.
        python: gradients run the Python code again, whatever it is.
    """
    if watching.active:  # each op is followed to its gradient: everything is kept
        return call(args, kwargs)
    structure, leaves = take_apart((args, dict(kwargs)))
    marks = [(r, r.mark()) for r in active_recordings()]
    notes = Journal()
    with journal.writing(notes):
        out = call(args, kwargs)
    results = list({id(t): t for t in take_apart(out)[1]}.values())
    inner = {id(t) for r, mark in marks for t in r.computed_since(mark)}
    written = [t for t, _ in notes.before.values() if id(t) not in inner]
    notes.before = {id(t): notes.before[id(t)] for t in written}
    again = Replay(call, structure, leaves, notes, dispatch.scope())
    for r, mark in marks:
        if python or not _note_folded(r, mark, results, written):
            again.note(r, mark, results, written, parameters)
    return out


def _note_folded(r: Recording, mark: Mark, results: Tensors, written: Tensors) -> bool:
    """Let a recording know what it has recorded since the mark as one op, if that can be."""
    standing: dict[int, list[Tensor]] = {}
    overwritten: list[tuple[Tensor, int]] = []
    for t in results:
        n = r.value_of(t)
        if n is not None and n >= mark.tensors:
            standing.setdefault(n, []).append(t)
    for t in written:
        n = r.value_of(t)
        if n is not None and n >= mark.tensors and not any(
                t is other for other in standing.get(n, ())):
            overwritten.append((t, n))
            standing.setdefault(n, []).append(alias_of(t))
    found = folding.folded(r, mark, list(standing))
    if found is None:
        return False
    held = {n: r.tensors[n] for n in found.reads}
    r.forget(mark)
    if not standing:
        return True
    operands = [n if n < mark.tensors else r.number(held[n]) for n in found.reads]
    region = found.info.regions[0]

    def rule(operands: Tensors, dys: Grads, so_far: Grads, wanted: Sequence[bool]) -> Grads:
        if active_recordings():
            return _step_by_step(region, operands, dys, so_far, wanted)
        return folding.gradients(region, operands, dys, so_far, wanted)

    r.note_again(found.info, operands, standing, Sums(rule))
    for t, n in overwritten:
        r.rebind(t, standing[n][-1])
    return True


def _step_by_step(
    region: Graph, operands: Tensors, dys: Grads, so_far: Grads, wanted: Sequence[bool]
) -> list[Tensor | None]:
    """A stretch computed again and differentiated where recordings further out see each op."""
    own = aliases(operands)
    with dispatch.like(_PLAIN), recording() as r:
        numbers = [r.track(t) for t in own]
        outs = replay.replay(region, own)
        ends = [r.value_of(t) for t in outs]
    return _continue_gradients(r, numbers, so_far, wanted, ends, dys)


def _continue_gradients(
    r: Recording, numbers: Sequence[int], so_far: Grads, wanted: Sequence[bool],
    ends: Sequence[int | None], dys: Grads,
) -> list[Tensor | None]:
    """Gradients of what is wanted of the values `numbers`, added to those so far; see `Sums`."""
    chosen = [i for i, w in enumerate(wanted) if w]
    seeds = [*((numbers[i], so_far[i]) for i in chosen), *zip(ends, dys, strict=True)]
    given = [(n, t) for n, t in seeds if n is not None and t is not None]
    found = r.gradients_of([n for n, _ in given], [t for _, t in given],
                           [numbers[i] for i in chosen])
    new = dict(zip(chosen, found, strict=True))
    return [new.get(i) for i in range(len(numbers))]


@dataclass(eq=False, slots=True)
class Replay:
    """A call to be run again.

    Attributes:
        structure, leaves: of its arguments; `leaves` are the very tensors.
        notes: effects of the first run besides its results.
        scope: how ops ran in it (mixed precision, hooks).
    """

    call: Call
    structure: Structure
    leaves: list[Tensor]
    notes: Journal
    scope: dispatch.Scope

    def note(
        self, r: Recording, mark: Mark, results: Tensors, written: Tensors, parameters: Tensors
    ) -> None:
        """Let a recording drop what it has recorded since the mark, and know this call instead."""
        first = mark.tensors
        numbers = [r.value_of(t) for t in results]
        own = [i for i, n in enumerate(numbers) if n is not None and n >= first]
        changed = [t for t in written if (n := r.value_of(t)) is not None and n >= first]
        reads = r.forget(mark)
        if not reads:
            return
        for p in parameters:
            reads.setdefault(r.number(p), [p])
        fresh = [alias_of(t) for t in changed]
        rule = Sums(partial(self.gradients, list(reads.values()), own, changed))
        r.note_sums(reads, [*(results[i] for i in own), *fresh], rule)
        for t, value in zip(changed, fresh, strict=True):
            r.rebind(t, value)

    def gradients(
        self, objects: Sequence[Tensors], own: Sequence[int], changed: Tensors, operands: Tensors,
        dys: Grads, so_far: Grads, wanted: Sequence[bool],
    ) -> list[Tensor | None]:
        """Run again, and go on with the cotangents so far; see `Sums`."""
        arrays = {id(t): (t, elements_of(o)) for many, o in zip(objects, operands, strict=True)
                  for t in many}
        arrays.update((k, (t, a.copy())) for k, (t, a) in self.notes.before.items())
        with journal.replaying(self.notes), _holding(arrays.values()), \
                dispatch.like(self.scope):
            with recording() as r:
                numbers = [_track(r, many) for many in objects]
                args, kwargs = put_together(self.structure, self.leaves)
                out = take_apart(self.call(args, kwargs))[1]
                results = list({id(t): t for t in out}.values())
                ends = [*(r.value_of(results[i]) for i in own), *map(r.value_of, changed)]
            return _continue_gradients(r, numbers, so_far, wanted, ends, dys)


def _track(r: Recording, many: Tensors) -> int:
    """The number of a value that several tensors stand for."""
    number = r.track(many[0])
    for t in many[1:]:
        r.also(t, number)
    return number


@contextmanager
def _holding(arrays: Any) -> Iterator[None]:
    """Within the block, tensors have these elements; what is written then is lost."""
    saved: list[tuple[Tensor, Elements]] = []
    writes.before()
    for tensor, array in arrays:
        now = elements_of(tensor)
        if now is not array:
            saved.append((tensor, now))
            use_elements(tensor, array)
    if saved:
        writes.written(t for t, _ in saved)
    try:
        yield
    finally:
        writes.before()
        for tensor, array in saved:
            use_elements(tensor, array)
        if saved:
            writes.written(t for t, _ in saved)
