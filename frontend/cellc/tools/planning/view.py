"""Plans for people: a table for the terminal, and the schedule of a step as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from cellc_compiler.passes.stages.schedule import Shape, Timetable, Unit, duration, timetable

from ..profiling import seconds, size
from .meshes import Plan

if TYPE_CHECKING:
    from rich.console import Console

_BAR = 30  # Columns of the bar of a step
_PARTS = (("compute", "green", "#4c9f70"), ("bubble", "bright_black", "#d0d0d0"),
          ("tensor", "yellow", "#e0a030"), ("pipeline", "magenta", "#9060b0"),
          ("data", "red", "#d05040"), ("update", "cyan", "#4090b0"))
"""The parts of a step, with their colours in the terminal and in the picture."""
_HEIGHT, _WIDTH, _LEFT = 26, 1000, 90
_MOST = 4000  # Boxes of a picture; of more micro-batches the first are drawn


def parts_of(plan: Plan) -> dict[str, float]:
    """Seconds of each part of a step."""
    return {"compute": plan.compute, "bubble": plan.bubble, "tensor": plan.tensor.seconds,
            "pipeline": plan.pipeline.seconds, "data": plan.data.seconds, "update": plan.update}


def show(plans: Sequence[Plan], console: Console, title: str) -> None:
    """Print a table of plans, one a row."""
    from rich.table import Table  # of use only to those who look
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1), title=title,
                  title_justify="left")
    table.add_column("mesh", no_wrap=True)
    for name in ("micro", "step", *(n for n, _, _ in _PARTS), "sent/rank", "memory/rank", "rows/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for plan in plans:
        bar = Text()
        for (_, colour, _), length in zip(_PARTS, _lengths(plan), strict=True):
            bar.append("█" * length, colour)
        table.add_row(str(plan.mesh), str(plan.micro_batches), seconds(plan.seconds),
                      *(seconds(t) if t else "-" for t in parts_of(plan).values()),
                      size(int(plan.nbytes)), size(int(plan.memory)), f"{plan.rate:.4g}", bar)
    console.print(table, highlight=False)


def _lengths(plan: Plan) -> list[int]:
    """The columns of each part of a bar, `_BAR` together."""
    total, at, done = plan.seconds, 0.0, 0
    out = []
    for spent in parts_of(plan).values():
        at += spent
        end = round(_BAR * at / total)
        out.append(end - done)
        done = end
    return out


def about(plan: Plan) -> list[str]:
    """Return a rank's needs and messages, and its stages, in lines."""
    mesh = plan.mesh
    lines = [
        f"memory of the fullest rank: weights {size(int(plan.weights))}, gradients "
        f"{size(int(plan.gradients))}, optimizer {size(int(plan.state))}, temporaries "
        f"{size(int(plan.activations))}",
        f"bytes that a rank sends in a step: tensor {size(int(plan.tensor.nbytes))}, pipeline "
        f"{size(int(plan.pipeline.nbytes))}, data {size(int(plan.data.nbytes))}",
    ]
    if mesh.pp > 1:
        share = plan.bubble / (plan.compute + plan.tensor.seconds + plan.bubble)
        lines.append(f"bubble: {share:.1%} of a stage's time, {plan.micro_batches} micro-batches "
                     f"in {mesh.pp} stages")
        lines += [f"stage {i}: {s[0]}" + (f" to {s[-1]}" if len(s) > 1 else "")
                  for i, s in enumerate(plan.stages)]
    return lines


def svg(plan: Plan, name: str) -> str:
    """The schedule of a step: stages in rows, passes of micro-batches, gradients, update."""
    count = min(plan.micro_batches, max(1, _MOST // (2 * plan.mesh.pp)))
    table = timetable(Shape(plan.mesh.pp, count), "1f1b")
    passes = plan.compute + plan.bubble + plan.tensor.seconds + plan.pipeline.seconds
    wide = (_WIDTH - _LEFT) * passes / plan.seconds
    height = 60 + _HEIGHT * plan.mesh.pp + 30
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH + 20}" height="{height}" '
             'font-family="sans-serif" font-size="12">',
             f'<rect width="{_WIDTH + 20}" height="{height}" fill="white"/>',
             f'<text x="10" y="20" font-size="14">{escape(name)}, {plan.mesh}: a step of '
             f'{seconds(plan.seconds)}, {plan.micro_batches} micro-batches'
             + (f" (the first {count} are drawn)" if count < plan.micro_batches else "")
             + "</text>"]
    for stage, order in enumerate(table.orders):
        y = 40 + _HEIGHT * stage
        lines.append(f'<text x="10" y="{y + 16}">stage {stage}</text>')
        lines += _boxes(table, order, y, wide / table.length)
        lines += _after(plan, y, _LEFT + wide)
    legend = (("#4c9f70", "forward"), ("#7fb5d5", "backward"), ("#d05040", "gradients"),
              ("#4090b0", "update"))
    for i, (colour, text) in enumerate(legend):
        x, y = _LEFT + 120 * i, height - 30
        lines.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colour}"/>'
                     f'<text x="{x + 18}" y="{y + 11}">{text}</text>')
    return "\n".join([*lines, "</svg>\n"])


def _boxes(table: Timetable, order: Sequence[Unit], y: int, scale: float) -> Iterator[str]:
    for unit in order:
        x, width = _LEFT + table.start[unit] * scale, scale * duration(unit)
        yield (f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_HEIGHT - 4}" '
               f'fill="{"#7fb5d5" if unit.backward else "#4c9f70"}" stroke="white"/>')
        if width > 16:
            yield (f'<text x="{x + width / 2:.1f}" y="{y + 15}" text-anchor="middle" '
                   f'fill="white">{unit.micro}</text>')


def _after(plan: Plan, y: int, x: float) -> Iterator[str]:
    """Yield the bars after the passes: sums of gradients, then the update."""
    for spent, colour in ((plan.data.seconds, "#d05040"), (plan.update, "#4090b0")):
        width = (_WIDTH - _LEFT) * spent / plan.seconds
        yield (f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_HEIGHT - 4}" '
               f'fill="{colour}"/>')
        x += width
