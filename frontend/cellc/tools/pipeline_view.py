"""How a step is cut into stages, before it runs: a table and a picture of the schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from xml.sax.saxutils import escape

from cellc_compiler import driver
from cellc_compiler.lower.budget import mebibytes
from cellc_compiler.passes.stages.schedule import Timetable, Unit, duration
from cellc_runtime.records import dataclass

from ..compiled.pipelines import Plan, planned
from ..compiled.traced import trace
from ..core.module_names import function_name
from ..ranks.settings import get_auto_parallel_context

_FORWARD, _BACKWARD = ("#5b7db1", "#8fa9d1"), ("#c9741d", "#e8b27a")
_UNIT, _ROW, _LEFT, _TOP = 26, 30, 76, 44
_LEAST = 640  # The width of a picture, at least: that of its title


@dataclass(frozen=True, slots=True)
class Stage:
    """The needs of one stage.

    Attributes:
        parameters: bytes of the parameters and states that it holds or reads.
        temporaries: bytes of activations, gradients and all else that a step computes, as planned
            for the compiled program.
        alive: the most micro-batches whose activations it holds at a time.
        sent: bytes that it sends in a step.
        idle: the part of the time in which it waits, from 0 to 1.
    """

    parameters: int
    temporaries: int
    alive: int
    sent: int
    idle: float


@dataclass(frozen=True, slots=True)
class View:
    """A plan with its figures, in stages' order."""

    name: str
    plan: Plan
    stages: list[Stage]

    def text(self) -> str:
        """The figures as a table, and the schedule as lines of units: F a forward pass, B a
        backward pass, with the number of the micro-batch."""
        table = self.plan.table
        lines = [_title(self.name, table), "",
                 f"{'stage':>7} {'parameters':>12} {'temporaries':>12} {'alive':>6} "
                 f"{'sends':>12} {'idle':>6}"]
        for i, s in enumerate(self.stages):
            lines.append(f"{i:>7} {mebibytes(s.parameters):>12} {mebibytes(s.temporaries):>12} "
                         f"{s.alive:>6} {mebibytes(s.sent):>12} {100 * s.idle:>4.0f} %")
        return "\n".join([*lines, "", *_rows(table)]) + "\n"

    def svg(self) -> str:
        """The schedule as a picture: time from left to right, a row for each stage."""
        return _picture(self.name, self.plan.table)

    def _repr_html_(self) -> str:
        return f"{self.svg()}<pre>{escape(self.text())}</pre>"


def view(step: Any, *inputs: Any, stages: int | None = None, **named: Any) -> View:
    """How a step would be cut, whatever the number of processes here; nothing of it runs.

    Args:
        step: a Cell or function, as it is called in training.
        inputs, named: arguments of a call.
        stages: how many; None: as `set_auto_parallel_context` says.

    Raises:
        CompileError: it cannot be cut (a ValueError).
    """
    count = stages or get_auto_parallel_context("pipeline_stages")
    return view_of(trace(step, inputs, named, called=True), count, _name(step))


def view_of(traced: Any, stages: int, name: str) -> View:
    """See `view`, of a step that was traced."""
    plan = planned(traced, stages)
    sent = [0] * stages
    for c in plan.crossings:
        sent[c.source] += c.value.type.nbytes
    figures = []
    for i, graph in enumerate(plan.graphs):
        report = driver.Report()
        driver.compile_program(graph, report=report)
        held = sum(v.type.nbytes for v in graph.inputs if v.kind != "input")
        figures.append(Stage(held, report.arena_bytes, plan.table.most_alive(i), sent[i],
                             plan.table.bubble(i)))
    return View(name, plan, figures)


def _name(step: Any) -> str:
    return function_name(step)


def _title(name: str, table: Timetable) -> str:
    shape = table.shape
    parts = f" of {shape.parts} parts" if shape.parts > 1 else ""
    return (f"{name}: {shape.stages} stages{parts}, {shape.micro_batches} micro-batches, "
            f"{table.schedule}; {table.length:.0f} units of time (a forward pass 1, a backward "
            "pass 2)")


def _rows(table: Timetable) -> Iterator[str]:
    wide = max(len(str(u)) for u in table.start) + 1
    for stage, order in enumerate(table.orders):
        line = ""
        for unit in order:
            line = line.ljust(round(table.start[unit]) * wide)
            line += str(unit).ljust(round(duration(unit)) * wide - 1, "-" if unit.backward else " ")
        yield f"{stage:>7} |{line.ljust(round(table.length) * wide)}|"


def _picture(name: str, table: Timetable) -> str:
    wide, high = table.length * _UNIT, table.shape.stages * _ROW
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{max(_LEFT + wide + 24, _LEAST):.0f}" '
        f'height="{_TOP + high + 34}" font-family="sans-serif" font-size="11">',
        f'<rect width="100%" height="100%" fill="white"/><text x="{_LEFT}" y="22" font-size="14">'
        f"{escape(_title(name, table))}</text>",
    ]
    for stage, order in enumerate(table.orders):
        y = _TOP + stage * _ROW
        lines.append(f'<rect x="{_LEFT}" y="{y}" width="{wide:.1f}" height="{_ROW - 4}" '
                     f'fill="#eee"/><text x="{_LEFT - 8}" y="{y + 17}" text-anchor="end">'
                     f"stage {stage}</text>")
        lines += [_box(unit, table.start, y) for unit in order]
    y = _TOP + high + 18
    for x, color, what in ((0, _FORWARD[0], "forward pass of a micro-batch"),
                           (220, _BACKWARD[0], "backward pass"), (360, "#eee", "idle")):
        lines.append(f'<rect x="{_LEFT + x}" y="{y - 10}" width="12" height="12" fill="{color}"/>'
                     f'<text x="{_LEFT + x + 18}" y="{y}">{what}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _box(unit: Unit, start: Mapping[Unit, float], y: float) -> str:
    x, width = _LEFT + start[unit] * _UNIT, duration(unit) * _UNIT - 1.5
    color = (_BACKWARD if unit.backward else _FORWARD)[unit.part % 2]
    return (f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 4}" fill="{color}">'
            f"<title>{unit}</title></rect>"
            f'<text x="{x + width / 2:.1f}" y="{y + 17}" text-anchor="middle" fill="white">'
            f"{unit.micro}</text>")


__all__ = ["Stage", "View", "view"]
