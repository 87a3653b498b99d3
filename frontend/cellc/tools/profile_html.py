"""A profile in a notebook: what took the time, as a table with bars."""

from __future__ import annotations

import statistics
from html import escape

from .profiling import Profile, Row, outside_text, seconds, size

_ROWS = 25


def table(profile: Profile) -> str:
    """The table as HTML; every name of the network is escaped."""
    rows = profile.rows()
    inside = sum(r.seconds for r in rows) or 1.0
    head = (f"<b>{escape(profile.name)}</b>: {seconds(statistics.median(profile.seconds))} a call, "
            f"{seconds(inside)} in {sum(r.count for r in rows)} kernel calls, temporaries "
            f"{size(profile.arena_bytes)}")
    head += f"<br>{escape(outside_text(profile))}"
    names = ("Time", "%", "", "Calls", "Op", "Kernel", "Cell", "Line")
    titles = "".join(f"<th style='text-align:left'>{t}</th>" for t in names)
    body = "".join(_row(r, inside) for r in rows[:_ROWS])
    rest = f"<div>and {len(rows) - _ROWS} more</div>" if len(rows) > _ROWS else ""
    return f"<div>{head}</div><table><tr>{titles}</tr>{body}</table>{rest}"


def _row(row: Row, inside: float) -> str:
    share = row.seconds / inside
    site = row.sites[0]
    bar = (f'<div style="width:90px;background:#8884"><div style="width:{90 * share:.0f}px;'
           'height:9px;background:#e0533d"></div></div>')
    words = (site.label, site.family, site.scope, site.span.short)
    cells = [seconds(row.seconds), f"{100 * share:.1f}", bar, str(row.count),
             *map(escape, words)]
    return f"<tr>{''.join(f'<td align=left>{c}</td>' for c in cells)}</tr>"
