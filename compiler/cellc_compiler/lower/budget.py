"""Recomputation to a budget: the least work again with which temporaries fit into some bytes.

`passes/rematerialize.py` gives ways to recompute, in order of the work they repeat, each of which
needs less memory than the one before. The first that fits is searched by halving; one is tried as
it would be compiled: rewritten, lowered, its memory planned. The list does not depend on the
budget, so a smaller budget gives a later one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cellc_runtime.records import dataclass, field

from ..ir.graph import NOWHERE, Graph, Node
from ..passes import base, pipeline, rematerialize
from ..passes.rematerialize import Choice, Item, Level, Outcome
from . import lowering, memory
from .instructions import Call, walk
from .machine import Machine

TRIALS = 10  # Ways to recompute that are tried at most
_LAST = 3  # The last ways, of which one needs the least memory: an error says which
STEPS = 64  # Points of a timeline


class BudgetError(ValueError):
    """No way to recompute fits into the budget. `least` is the smallest one that can be met."""

    def __init__(self, message: str, least: int) -> None:
        super().__init__(message)
        self.least = least


@dataclass(frozen=True, slots=True)
class Row:
    """A forward value that the backward part needs, and its source."""

    op: str
    type: str  # in words; `scope` is the Cell's path, `where` the place in the source
    scope: str
    where: str
    segment: int  # of the forward part, from 0 on
    nbytes: int
    flops: int  # what computing it again costs; 0 if it is kept


@dataclass(frozen=True, slots=True)
class Trial:
    """A way to recompute."""

    how: str  # in words
    saved_bytes: int  # of the forward values that live until the backward part reads them
    flops: int  # about how many operations are repeated
    arena_bytes: int  # the planned peak of temporaries
    cycles: float  # about how many processor cycles a whole call takes


@dataclass(frozen=True, slots=True)
class Plan:
    """The choice for a budget."""

    budget: int  # bytes
    # without recomputation, then with more and more; one of them is `chosen`
    trials: Sequence[Trial]
    chosen: Trial
    # saved, recomputed: the forward values that are saved and computed again
    saved: Sequence[Row] = ()
    recomputed: Sequence[Row] = ()
    # before, after: bytes of temporaries over the course of a call, without and with it
    before: Sequence[int] = ()
    after: Sequence[int] = ()

    def to_bytes(self) -> bytes:
        """For the cache."""
        return json.dumps({
            "budget": self.budget, "trials": [_fields(t) for t in self.trials],
            "chosen": _fields(self.chosen), "saved": [_fields(r) for r in self.saved],
            "recomputed": [_fields(r) for r in self.recomputed], "before": list(self.before),
            "after": list(self.after),
        }).encode()


def _fields(record: Row | Trial) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__slots__}


def plan_from_bytes(data: bytes) -> Plan:
    """The inverse of `Plan.to_bytes`."""
    found: Mapping[str, Any] = json.loads(data)
    return Plan(
        found["budget"], [Trial(**t) for t in found["trials"]], Trial(**found["chosen"]),
        [Row(**r) for r in found["saved"]], [Row(**r) for r in found["recomputed"]],
        found["before"], found["after"],
    )


@dataclass(slots=True)
class _Tried:
    graph: Graph
    outcome: Outcome
    trial: Trial
    timeline: list[int] = field(default_factory=list)


def choose(
    graph: Graph, budget: int, before: Sequence[base.Pass], after: Sequence[base.Pass],
    machine: Machine,
) -> tuple[Graph, Plan]:
    """The graph after all passes with the least recomputation that fits into `budget` bytes.

    Args:
        before: the passes after which it is chosen (`pipeline.keeping_cotangents`).
        after: those that choose for the target, when it has been.
        machine: what is lowered for.

    Raises:
        BudgetError: none does.
    """
    whole = pipeline.run_pipeline(base.copy_graph(graph), before)
    first = found = _try(whole, after, machine, None)
    trials = {-1: first.trial}
    if first.trial.arena_bytes > budget:
        ways = [choice for choice, _ in rematerialize.worth_trying(whole, TRIALS)]
        low, high = 0, len(ways)  # the first that fits is in [low, high]
        while low < high:
            middle = (low + high) // 2
            tried = _try(whole, after, machine, ways[middle])
            trials[middle] = tried.trial
            if tried.trial.arena_bytes <= budget:
                found, high = tried, middle
            else:
                low = middle + 1
        if found is first:
            for i, way in list(enumerate(ways))[-_LAST:]:
                trials[i] = trials.get(i) or _try(whole, after, machine, way).trial
            raise _too_small(graph.name, budget, list(trials.values()))
    plan = Plan(budget, [trials[i] for i in sorted(trials)], found.trial,
                _rows(found.outcome.saved), _rows(found.outcome.recomputed),
                first.timeline, found.timeline)
    return found.graph, plan


def _try(
    whole: Graph, after: Sequence[base.Pass], machine: Machine, choice: Choice | None
) -> _Tried:
    graph = base.copy_graph(whole)
    if choice is None:
        outcome = rematerialize.as_it_is(graph)
    else:
        outcome = rematerialize.rematerialize(graph, choice)
    pipeline.run_pipeline(graph, (*pipeline.CLEAN, *after))
    lowered = lowering.lower(base.copy_graph(graph), machine)  # (which may mark values)
    buffers = [b for b in lowered.buffers if b.first >= 0]
    cycles = sum(i.kernel.cost for i in walk(lowered.instructions) if isinstance(i, Call))
    trial = Trial(_in_words(choice), sum(i.nbytes for i in outcome.saved), outcome.flops,
                  memory.plan(buffers), cycles)
    return _Tried(graph, outcome, trial, memory.timeline(buffers, STEPS))


def _in_words(choice: Choice | None) -> str:
    if choice is None:
        return "nothing again"
    full = sum(level is Level.ALL for level in choice.levels)
    if full:
        return (f"all of {full} of {len(choice.levels)} segments, elementwise work of the rest"
                if full < len(choice.levels) else f"all of {full} segments")
    return {Level.CHEAP: "arithmetic and views", Level.ELEMENTWISE: "elementwise work",
            Level.REDUCTIONS: "all but products and convolutions"}[choice.levels[0]]


def _rows(items: Sequence[Item]) -> list[Row]:
    return [Row(node.op, str(item.value.type), node.scope, _place(node), item.segment,
                item.nbytes, item.flops)
            for item in items for node in [item.value.node] if node is not None]


def _place(node: Node) -> str:
    return "" if node.span == NOWHERE else f"{node.span.file}:{node.span.line}"


def mebibytes(n: float) -> str:
    """Bytes in words."""
    return f"{n / 2**20:.1f} MiB" if n >= 2**20 else f"{n / 2**10:.1f} KiB"


def _too_small(name: str, budget: int, trials: Sequence[Trial]) -> BudgetError:
    least = min(trials, key=lambda t: t.arena_bytes)
    return BudgetError(
        f"recompute(budget={budget}): the temporaries of {name} do not fit into "
        f"{mebibytes(budget)}. The least they can be planned in is {mebibytes(least.arena_bytes)} "
        f"({least.arena_bytes} bytes), with this computed again: {least.how}; without "
        f"recomputation they take {mebibytes(trials[0].arena_bytes)}. Give a larger budget, a "
        "smaller batch, or a network of smaller blocks.", least.arena_bytes)
