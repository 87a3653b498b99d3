"""When each stage of a pipeline works on which micro-batch: GPipe, 1F1B, interleaved 1F1B.

A unit of work is one micro-batch's forward or backward pass through one part of the network. With
interleaved stages a stage has several parts: the network goes round all stages once for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cellc_runtime.records import dataclass, field

SCHEDULES = ("1f1b", "gpipe")
FORWARD_TIME, BACKWARD_TIME = 1.0, 2.0
"""A backward pass has two products for each one of the forward pass."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A forward or backward pass of a micro-batch through a part of the network."""

    stage: int  # which stage does it, and `part` which of its parts, counted from 0
    part: int
    micro: int  # the micro-batch
    backward: bool

    def __str__(self) -> str:
        part = f".{self.part}" if self.part else ""
        return f"{'B' if self.backward else 'F'}{self.micro}{part}"


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a schedule."""

    # stages, micro_batches: how many there are
    stages: int
    micro_batches: int
    parts: int = 1  # how many parts of the network each stage has
    trains: bool = True  # whether there is a backward pass


def order_of(shape: Shape, schedule: str, stage: int) -> list[Unit]:
    """The units of a stage in the order in which it does them.

    Raises:
        ValueError: an unknown schedule, or micro-batches that interleaved stages cannot share out.
    """
    if schedule not in SCHEDULES:
        raise ValueError(f"expected one of the schedules {', '.join(SCHEDULES)}, got {schedule!r}")
    forward = list(_passes(shape, stage, False))
    if not shape.trains:
        return forward
    backward = list(_passes(shape, stage, True))
    ahead = len(forward) if schedule == "gpipe" else min(len(forward), _ahead(shape, stage))
    order = forward[:ahead]
    for f, b in zip(forward[ahead:], backward, strict=False):
        order += [f, b]
    return order + backward[len(forward) - ahead :]


def _ahead(shape: Shape, stage: int) -> int:
    """How many forward passes 1F1B does before it alternates."""
    behind = shape.stages - stage - 1
    return behind if shape.parts == 1 else 2 * behind + (shape.parts - 1) * shape.stages


def _passes(shape: Shape, stage: int, backward: bool) -> Iterator[Unit]:
    """The forward (or backward) units of a stage: with several parts, as many micro-batches as
    there are stages go through one part, then the same ones through the next."""
    group = shape.micro_batches if shape.parts == 1 else shape.stages
    if shape.micro_batches % group:
        raise ValueError(
            f"{shape.micro_batches} micro-batches cannot be shared out among {shape.stages} "
            "interleaved stages: their number must be a multiple of that of the stages")
    parts = range(shape.parts)
    for first in range(0, shape.micro_batches, group):
        for part in reversed(parts) if backward else parts:
            for micro in range(first, first + group):
                yield Unit(stage, part, micro, backward)


@dataclass(frozen=True, slots=True)
class Timetable:
    """When each unit begins, if forward passes take 1 and backward passes 2 units of time."""

    shape: Shape
    schedule: str
    start: dict[Unit, float]  # by unit
    orders: list[list[Unit]]  # the units of each stage in their order
    length: float = field(default=0.0)  # of the whole

    def bubble(self, stage: int) -> float:
        """The part of the time in which a stage has nothing to do, from 0 to 1."""
        return 1.0 - sum(map(duration, self.orders[stage])) / self.length

    def most_alive(self, stage: int) -> int:
        """The most micro-batches whose activations a stage holds at a time (parts count each)."""
        alive = most = 0
        for unit in self.orders[stage]:
            alive += -1 if unit.backward else 1
            most = max(most, alive)
        return most if self.shape.trains else 1


def duration(unit: Unit) -> float:
    """How long a unit takes."""
    return BACKWARD_TIME if unit.backward else FORWARD_TIME


def timetable(shape: Shape, schedule: str) -> Timetable:
    """When the units of all stages begin: each as soon as what it needs is there."""
    orders = [order_of(shape, schedule, s) for s in range(shape.stages)]
    start: dict[Unit, float] = {}
    free = [0.0] * shape.stages
    todo = [iter(order) for order in orders]
    heads: list[Unit | None] = [next(t, None) for t in todo]
    while any(heads):
        moved = False
        for stage, head in enumerate(heads):
            while head is not None and all(n in start for n in _needs(shape, head)):
                ready = max((start[n] + duration(n) for n in _needs(shape, head)), default=0.0)
                start[head] = max(ready, free[stage])
                free[stage] = start[head] + duration(head)
                head, moved = next(todo[stage], None), True
            heads[stage] = head
        if not moved:
            raise AssertionError(f"the schedule {schedule} waits for itself")
    return Timetable(shape, schedule, start, orders, max(free))


def _needs(shape: Shape, unit: Unit) -> Sequence[Unit]:
    """The units that must be done before one."""
    place = unit.part * shape.stages + unit.stage
    last = shape.parts * shape.stages - 1
    if not unit.backward:
        return [_at(shape, place - 1, unit.micro, False)] if place else []
    own = Unit(unit.stage, unit.part, unit.micro, False)
    return [own] if place == last else [own, _at(shape, place + 1, unit.micro, True)]


def _at(shape: Shape, place: int, micro: int, backward: bool) -> Unit:
    return Unit(place % shape.stages, place // shape.stages, micro, backward)
