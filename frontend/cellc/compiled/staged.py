"""Networks in which a size follows from elements: run in stages.

A stage runs when the sizes that it needs are known; the last one gives the results and writes the
parameters. The first sizes of a stage are compiled by themselves; from the second on a program for
all sizes serves those that it can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_compiler.ir.dims import Met, symbols_of
from cellc_compiler.ir.graph import Value
from cellc_runtime.records import replace

from .. import context
from ..core import device as devices
from ..core import watching
from ..core.later import instantiate
from ..core.lru import LRU
from ..tensors.tensor import arrays_of
from ..tracing.pytree import Box, Leaf
from .entry import Entry
from .found_sizes import KEPT, OpenStages, Stage

if TYPE_CHECKING:
    from cellc_compiler.ir.shapes import Guard
    from cellc_runtime.program import Program

    from .program_entry import CompiledEntry
    from .traced import Traced


class StagedEntry(Entry):
    """The compiled programs for one signature of a network that finds sizes as it runs.

    Args:
        traced: the call, its graph with symbols for what is found.
        guards: what the trace assumed about them.
        compiled: compiles a stage.
        again: traces the call anew, for sizes that were found, in the order of the trace and by
            where they are asked for, and the elements of its arguments.
        answered: what this was traced for; `trusted`: and went by.
    """

    several = True

    def __init__(
        self, traced: Traced, guards: Sequence[Guard], compiled: Callable[[Traced], CompiledEntry],
        again: Callable[[Sequence[int], Mapping[Met, int], bool, Sequence[Any]], StagedEntry],
        answered: Mapping[Met, int], trusted: bool,
    ) -> None:
        super().__init__(traced)
        self.guards = [(g, symbols_of(g.expr)) for g in guards]
        self.compiled = compiled
        self.again, self.answered, self.trusted = again, answered, trusted
        self.graph = traced.graph.template
        self.open = traced.stages or OpenStages(self.graph, traced.shapes)
        self.stages = self.open.stages
        self.symbols = [s for stage in self.stages for s in stage.measured]
        self.others: LRU[tuple[int, ...], StagedEntry] = LRU(KEPT)

    def run(self, arrays: Sequence[Any]) -> Any:
        """The result for arrays of the signature's types."""
        self.calls += 1
        env: dict[Value, Any] = dict(zip(self.graph.inputs, arrays, strict=False))
        sizes: dict[str, int] = {}
        for number, stage in enumerate(self.stages):
            wrong = self._wrong(sizes)
            if wrong is not None:
                # It may read other state of Python objects.
                own = self.traced.of_arguments(arrays)
                other = self._other(wrong, own)
                return other.run(other.traced.fed(own))
            entry = self._instance(number, {**self.traced.sizes, **sizes})
            out = entry.run([env[v] for v, i in zip(stage.feeds, stage.graph.inputs, strict=True)
                             if i.kind == "input"])
            if stage is self.stages[-1]:
                return out
            env.update(zip(stage.gives, arrays_of(out), strict=True))
            sizes |= {s: int(np.asarray(env[v])) for s, v in stage.measured.items()}
        raise AssertionError("a graph has a last stage")

    def _instance(self, number: int, sizes: Mapping[str, int]) -> CompiledEntry:
        """A stage for these sizes."""
        stage = self.stages[number]
        key = tuple(sizes[s] for s in sorted(stage.needs))
        found: CompiledEntry | None = stage.instances.get(key)
        if found is None or not found.fresh():
            may_open = (self.open.at_once or stage.instances) \
                and devices.current() is None and not watching.active
            program = self.open.program(number, sizes, context.numerics()) if may_open else None
            found = stage.instances[key] = self.compiled(self._traced(stage, sizes, program))
            self.count(found)
        return found

    def _traced(self, stage: Stage, sizes: Mapping[str, int], program: Program | None) -> Traced:
        known = dict(zip(self.graph.inputs[self.traced.arguments:], self.traced.parameters,
                         strict=True))
        out: Any = self.traced.out
        if stage is not self.stages[-1]:
            out = Box(tuple, (), tuple(Leaf(i) for i in range(len(stage.gives))))
        arguments = sum(v.kind == "input" for v in stage.graph.inputs)
        make = instantiate.instantiate if program is None else instantiate.Instance
        return replace(
            self.traced, graph=make(stage.graph, sizes), arguments=arguments,
            parameters=[known[v] for v in stage.feeds if v in known], out=out, program=program,
        )

    def _wrong(self, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
        """The sizes up to the first that does not answer as the trace assumed; None if all do.

        Later measurements belong to a program that this call does not run.
        """
        order = {symbol: i for i, symbol in enumerate(sizes)}
        failed = [max((order[s] for s in needs), default=-1) for g, needs in self.guards
                  if needs <= order.keys() and not g.holds(sizes)]
        return tuple(sizes.values())[: min(failed) + 1] if failed else None

    def _other(self, sizes: tuple[int, ...], arrays: Sequence[Any]) -> StagedEntry:
        found = self.others.get(sizes)
        if found is None or not found.fresh():
            answered = {self.traced.asked[s]: n
                        for s, n in zip(self.symbols, sizes, strict=False)}
            # A foreseen size is right but for rounding, wherever the next trace asks; where it was
            # not, that trace uses the sizes found, at the places that asked.
            stuck = answered == self.answered
            if stuck and self.trusted:
                raise RuntimeError("sizes that a call has found do not fit the program that was "
                                   f"made for them: {answered}")
            found = self.others[sizes] = self.again(
                sizes, answered, stuck or self.trusted, arrays)
        return found
