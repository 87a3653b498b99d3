"""The choice for a budget, for people: tables, and pictures of memory over a call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

from cellc_compiler.lower.budget import Plan, Row, Trial, mebibytes
from cellc_runtime.errors import short_name

LINES = 12  # Lines of source that a table shows at most
_BARS = " ▁▂▃▄▅▆▇█"
_HEIGHT = 3


def count(n: float) -> str:
    """Operations in words."""
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if n >= scale:
            return f"{n / scale:.1f} {unit}FLOP"
    return f"{n:.0f} FLOP"


def text(plan: Plan, full: bool = False) -> list[str]:
    """The report as lines.

    Args:
        full: show every line of source, not only the largest.
    """
    before, after = plan.trials[0].cycles, plan.chosen.cycles
    more = f"about {100 * (after / before - 1):+.0f} %" if before else "no"
    out = [f"temporaries {mebibytes(plan.chosen.arena_bytes)} of a budget of "
           f"{mebibytes(plan.budget)}; without recomputation "
           f"{mebibytes(plan.trials[0].arena_bytes)}",
           f"computed again: {plan.chosen.how} ({count(plan.chosen.flops)}, "
           f"{more} processor time)", "",
           f"  {'tried':<58} {'kept':>10} {'again':>12} {'planned':>10}"]
    out += [_trial(t, t == plan.chosen) for t in plan.trials]
    out += ["", *_table("kept for the gradient", plan.saved, full)]
    if plan.recomputed:
        out += ["", *_table("computed again", plan.recomputed, full)]
    return [*out, "", *_pictures(plan)]


def _trial(t: Trial, chosen: bool) -> str:
    return (f"{'*' if chosen else ' '} {t.how:<58} {mebibytes(t.saved_bytes):>10} "
            f"{count(t.flops):>12} {mebibytes(t.arena_bytes):>10}")


def _table(title: str, rows: Sequence[Row], full: bool) -> list[str]:
    lines: dict[str, list[Row]] = {}
    for row in rows:
        lines.setdefault(row.where or row.scope or "(no place in the source)", []).append(row)
    sums = [(sum(r.nbytes for r in line), sum(r.flops for r in line), where)
            for where, line in lines.items()]
    order = sorted(sums, key=lambda n: (-n[0], -n[1]))
    shown = order if full else order[:LINES]
    total = f"{len(rows)} values, {mebibytes(sum(r.nbytes for r in rows))}"
    out = [f"  {title}: {total}"]
    for nbytes, flops, where in shown:
        path, _, number = where.rpartition(":")
        place = f"{short_name(path)}:{number}" if path and not full else where
        ops = ", ".join(dict.fromkeys(r.op for r in lines[where]))
        again = f" {count(flops):>12}" if flops else ""
        out.append(f"    {mebibytes(nbytes):>10}{again} {len(lines[where]):>4} x  {place}  "
                   f"{ops if len(ops) <= 44 else ops[:41] + '...'}")
    if len(order) > len(shown):
        rest = order[len(shown):]
        out.append(f"    {mebibytes(sum(n[0] for n in rest)):>10} in {len(rest)} other lines")
    return out


def _pictures(plan: Plan) -> list[str]:
    top = max(max(plan.before, default=0), max(plan.after, default=0), 1)
    out = [f"  bytes of temporaries over a call (top: {mebibytes(top)})"]
    for name, points in (("without", plan.before), ("with", plan.after)):
        for i, line in enumerate(_bars(points, top)):
            out.append(f"  {name if i == _HEIGHT - 1 else '':>7} |{line}|")
    return out


def _bars(points: Iterable[int], top: int) -> list[str]:
    steps = [round(p / top * _HEIGHT * 8) for p in points]
    return ["".join(_BARS[min(max(s - 8 * level, 0), 8)] for s in steps)
            for level in reversed(range(_HEIGHT))]


def svg(plan: Plan, title: str) -> str:
    """The bytes of temporaries over a call, without and with recomputation, as a picture."""
    wide, high, left, top = 640, 220, 76, 34
    most = max(max(plan.before, default=0), max(plan.after, default=0), plan.budget, 1)

    def y(n: float) -> float:
        return top + high - n / most * high

    def area(points: Sequence[int], color: str) -> str:
        step = wide / max(len(points), 1)
        path = [f"M{left},{top + high}"]
        for i, p in enumerate(points):
            start, end = left + i * step, left + (i + 1) * step
            path.append(f"L{start:.1f},{y(p):.1f} L{end:.1f},{y(p):.1f}")
        path.append(f"L{left + wide},{top + high}Z")
        return f'<path d="{" ".join(path)}" fill="{color}" fill-opacity="0.55"/>'

    marks = [(plan.budget, "budget", "#b00020"),
             (plan.trials[0].arena_bytes, "planned without", "#5b7db1"),
             (plan.chosen.arena_bytes, "planned with", "#c9741d")]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + wide + 24}" '
        f'height="{top + high + 62}" font-family="sans-serif" font-size="12">',
        f'<rect width="100%" height="100%" fill="white"/><text x="{left}" y="20" font-size="14">'
        f'{escape(title)}: temporaries over a call</text>',
        area(plan.before, "#5b7db1"), area(plan.after, "#e08b2d"),
    ]
    for i, (n, name, color) in enumerate(marks):
        if n <= most:
            lines.append(f'<line x1="{left}" x2="{left + wide}" y1="{y(n):.1f}" y2="{y(n):.1f}" '
                         f'stroke="{color}" stroke-dasharray="5 4"/>')
        x = left + i * wide / 3
        lines.append(f'<rect x="{x}" y="{top + high + 26}" width="12" height="12" fill="{color}"/>'
                     f'<text x="{x + 18}" y="{top + high + 36}">{name}: {mebibytes(n)}</text>')
    for share in (0.0, 0.5, 1.0):
        lines.append(f'<text x="{left - 6}" y="{y(most * share) + 4:.1f}" text-anchor="end">'
                     f'{mebibytes(most * share)}</text>')
    lines.append(f'<path d="M{left},{top}V{top + high}H{left + wide}" fill="none" stroke="#444"/>'
                 f'<text x="{left + wide}" y="{top + high + 16}" text-anchor="end">'
                 'the call, by instructions (each picture by its own)</text></svg>')
    return "\n".join(lines) + "\n"
