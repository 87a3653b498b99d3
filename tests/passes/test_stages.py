"""Schedules of pipelines, and graphs cut at random: every order is possible, every value right."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellc.testing.ranks import run_ranks
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Builder, Graph, Value
from cellc_compiler.ir.types import TensorType
from cellc_compiler.ir.verify import verify
from cellc_compiler.passes.stages.cutting import Cutter
from cellc_compiler.passes.stages.micro_batches import backward_order, last_of
from cellc_compiler.passes.stages.ordering import times
from cellc_compiler.passes.stages.placing import Placement
from cellc_compiler.passes.stages.schedule import (
    SCHEDULES,
    Shape,
    Unit,
    duration,
    order_of,
    timetable,
)
from cellc_runtime.dtypes import float32

PAIR = TensorType((2,), float32)


def shapes() -> st.SearchStrategy[Shape]:
    return st.builds(
        lambda stages, groups, parts, trains: Shape(stages, stages * groups, parts, trains),
        st.integers(1, 5), st.integers(1, 4), st.integers(1, 3), st.booleans())


@given(shapes(), st.sampled_from(SCHEDULES))
@settings(max_examples=60, deadline=None)
def test_every_unit_has_its_time(shape: Shape, schedule: str) -> None:
    table = timetable(shape, schedule)
    units = shape.stages * shape.parts * shape.micro_batches * (1 + shape.trains)
    assert len(table.start) == units == sum(map(len, table.orders))
    for order in table.orders:  # a stage does one thing at a time
        for one, two in pairwise(order):
            assert table.start[one] + duration(one) <= table.start[two]
    for unit, start in table.start.items():
        place = unit.part * shape.stages + unit.stage + (1 if unit.backward else -1)
        if 0 <= place < shape.stages * shape.parts:  # what it reads is there
            other = Unit(place % shape.stages, place // shape.stages, unit.micro, unit.backward)
            assert table.start[other] + duration(other) <= start
        if unit.backward:
            own = Unit(unit.stage, unit.part, unit.micro, False)
            assert table.start[own] + duration(own) <= start


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("stages", "micro"), [(2, 2), (4, 4), (4, 16)])
def test_bubbles_and_activations(schedule: str, stages: int, micro: int) -> None:
    """The papers' figures: (p - 1) / (m + p - 1) of the time, and m or at most p micro-batches."""
    table = timetable(Shape(stages, micro), schedule)
    for s in range(stages):
        assert table.bubble(s) == pytest.approx((stages - 1) / (micro + stages - 1))
        assert table.most_alive(s) == (micro if schedule == "gpipe" else min(micro, stages - s))


def test_interleaved_stages_wait_less() -> None:
    one, two = (timetable(Shape(4, 8, parts), "1f1b") for parts in (1, 2))
    assert two.bubble(0) == pytest.approx(3 / (2 * 8 + 3)) and two.bubble(0) < one.bubble(0)
    with pytest.raises(ValueError, match="6 micro-batches cannot be shared out among 4"):
        order_of(Shape(4, 6, 2), "1f1b", 0)
    with pytest.raises(ValueError, match="expected one of the schedules 1f1b, gpipe"):
        order_of(Shape(2, 2), "dualpipe", 0)


class Random:
    """A random graph over micro-batches, with stages at random: they need not rise."""

    def __init__(self, seed: int, stages: int, micro: int) -> None:
        self.draw = np.random.RandomState(seed)
        self.stages, self.micro = stages, micro
        self.graph = Graph("random")
        self.b = Builder(self.graph)
        self.stage: dict[Any, int | None] = {}
        self.backward: set[Any] = set()
        x = self.graph.add_input(TensorType((2 * micro,), float32), "x")
        weights = [self.graph.add_input(PAIR, f"w{i}", "param") for i in range(3)]
        self.home: dict[Value, int | None] = {
            w: int(self.draw.randint(stages)) for w in weights}
        parts = [self.add("micro_batch", x, stage=None, index=i, count=micro)
                 for i in range(micro)]
        known = [[p, *weights] for p in parts]
        for phase in (False, True):
            for values in known:
                for _ in range(self.draw.randint(2, 6)):
                    values.append(self.some(values, phase))
        total = self.some([v[-1] for v in known], True)
        for other in known:
            total = self.some([total, other[-1]], True)
        self.graph.outputs = [total, known[0][-1]]
        self.graph.updates = [(w, self.some([w, total], True)) for w in weights[:2]]

    def add(self, op: str, *operands: Value, stage: int | None, **attrs: Any) -> Value:
        out: Value = self.b.emit(op, *operands, **attrs)
        self.stage[out.node] = stage
        return out

    def some(self, values: list[Value], backward: bool) -> Value:
        picked = [values[i] for i in self.draw.randint(0, len(values), 2)]
        stage = int(self.draw.randint(self.stages))
        form = self.draw.randint(8)
        if form < 5:
            out = self.add(("add", "sub", "maximum", "mul", "minimum")[form], *picked, stage=stage)
        elif form == 5:
            out = self.add("tanh", picked[0], stage=stage)
        elif form == 6:  # two results, both read, maybe on other stages
            ordered, places = self.b.node("sort", picked[:1], {"axis": 0}).results
            self.stage[ordered.node] = stage
            values.append(self._note(ordered, backward))
            out = self.add("gather", picked[1], places, stage=int(self.draw.randint(self.stages)))
        else:
            number = self.b.literal(np.asarray([2, -1], np.float32))
            self.stage[number.node] = None
            out = self.add("mul", picked[0], number, stage=stage)
        return self._note(out, backward)

    def _note(self, v: Value, backward: bool) -> Value:
        if backward:
            self.backward.add(v.node)
        return v

    def cut(self, schedule: str) -> list[Graph]:
        placement = Placement(self.stage, self.home, last_of(self.graph.nodes), self.backward,
                              self.micro)
        table = timetable(Shape(self.stages, self.micro), schedule)
        due = times(self.graph, placement, table)
        cutter = Cutter(self.graph, placement, due, self.stages, broadcast=True)
        return [cutter.cut(s, lambda other: other) for s in range(self.stages)]


def check_cut(made: Random, schedule: str) -> None:
    """Ranks that compute a stage each give what one process gives, results and updates."""
    draw = np.random.RandomState(1)
    arrays = {v: draw.randint(-9, 9, v.shape).astype(np.float32) for v in made.graph.inputs}
    names = {v.name: a for v, a in arrays.items()}
    want = run(made.graph, list(arrays.values()))
    parts = made.cut(schedule)
    for part in parts:
        verify(part)
    found = run_ranks(made.stages, lambda rank: run(
        parts[rank], [names[v.name] for v in parts[rank].inputs]))
    new = {old.name: a for (old, _), a in zip(made.graph.updates, want[2:], strict=True)}
    written = set()
    for part, results in zip(parts, found, strict=True):
        assert all(a.tobytes() == b.tobytes() for a, b in zip(results[:2], want[:2], strict=True))
        for (old, _), value in zip(part.updates, results[2:], strict=True):
            assert value.tobytes() == new[old.name].tobytes(), old.name
            written.add(old.name)
    assert written == set(new)


@given(st.integers(0, 1 << 30), st.integers(1, 4), st.integers(1, 4), st.sampled_from(SCHEDULES))
@settings(max_examples=40, deadline=None)
def test_graphs_cut_anywhere(seed: int, stages: int, micro: int, schedule: str) -> None:
    """Whatever is where, ranks in this order never wait in a circle, and no value changes."""
    check_cut(Random(seed, stages, micro), schedule)


def test_backward_passes_take_micro_batches_in_order() -> None:
    b = Builder(Graph("order"))
    x, w = b.graph.add_input(TensorType((6,), float32), "x"), b.graph.add_input(PAIR, "w")
    cast = b.neg(w)
    ends = [b.micro_result(b.mul(b.micro_batch(x, index=i, count=3), cast), index=i)
            for i in range(3)]
    b.add(b.add(ends[0], ends[1]), ends[2])
    order = [(n.op, n.attrs.get("index")) for n in backward_order(b.graph.nodes)]
    assert order == [
        ("add", None), ("add", None),
        *((op, i if op != "mul" else None) for i in range(3)
          for op in ("micro_result", "mul", "micro_batch")),
        ("neg", None),
    ]
