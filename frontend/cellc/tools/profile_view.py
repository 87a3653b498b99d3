"""Profiles as text: the table of a profile, and its memory over time as a line of blocks."""

from __future__ import annotations

import io
import linecache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from .profiling import Profile, Row

_BLOCKS = " ▁▂▃▄▅▆▇█"
_TITLES = {
    "call": ("Op", "Kernel", "Cell", "Line"), "op": ("Op",), "cell": ("Cell",), "line": ("Line",),
    "family": ("Kernel",),
}
_WIDTH = 150
"""Columns where there is no terminal."""
_SOURCE_FROM = 120
"""Columns from which on there is room for the user's line."""
_NUMBERS = (("Time", 7), ("%", 4), ("", 8), ("Calls", 5), ("GFLOP/s", 7), ("GB/s", 5), ("Busy", 4))
_WIDEST = {"Op": 34, "Kernel": 10, "Cell": 22, "Line": 18}
_NARROWEST = {"Op": 20, "Kernel": 6, "Cell": 22, "Line": 13}


def text(profile: Profile, by: str = "call", limit: int = 25) -> str:
    """What `show` prints, without colours."""
    from rich.console import Console  # of use only to those who look at a profile

    out = io.StringIO()
    plain = Console(file=out, width=_WIDTH, no_color=True, force_jupyter=False,
                    force_terminal=False)
    _print(profile, by, limit, plain)
    return out.getvalue()


def show(profile: Profile, by: str, limit: int) -> None:
    """Print a profile."""
    from rich.console import Console  # as above

    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    _print(profile, by, limit, console)


def _print(profile: Profile, by: str, limit: int, console: Console) -> None:
    from rich.table import Table  # as above
    from rich.text import Text

    rows = profile.rows(by)
    inside = sum(r.seconds for r in rows)
    call = sorted(profile.seconds)[len(profile.seconds) // 2]
    console.print(
        f"[bold]{profile.name}[/bold]: {seconds(call)} a call "
        f"(median of {len(profile.seconds)}), {seconds(inside)} in "
        f"{sum(r.count for r in rows)} kernel calls, {profile.threads} "
        f"thread{'s' if profile.threads > 1 else ''}", highlight=False,
    )
    source = by in ("call", "line") and console.width >= _SOURCE_FROM
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    for name, width in _NUMBERS:
        table.add_column(name, justify="right" if name else "left", no_wrap=True, min_width=width)
    for name in _TITLES[by]:
        table.add_column(name, overflow="ellipsis", no_wrap=True, max_width=_WIDEST.get(name),
                         min_width=_NARROWEST.get(name))
    if source:
        table.add_column("Source", overflow="ellipsis", no_wrap=True, max_width=36, style="dim")
    prefix = _common([s.scope for s in profile.sites])
    for row in rows[:limit]:
        share = row.seconds / inside if inside else 0.0
        table.add_row(
            seconds(row.seconds), f"{100 * share:.1f}", Text(_bar(share), style=_heat(share)),
            str(row.count), _rate(row.flops, row.seconds), _rate(row.nbytes, row.seconds),
            "" if row.busy is None else f"{100 * row.busy:.0f}%",
            *(Text(_shown(name, k.removeprefix(prefix)))
              for name, k in zip(_TITLES[by], row.key, strict=True)),
            *([Text(_source(row))] if source else []),
        )
    console.print(table, highlight=False)
    if len(rows) > limit:
        rest = sum(r.seconds for r in rows[limit:])
        console.print(f"and {len(rows) - limit} more: {seconds(rest)}", highlight=False)
    _print_memory(profile, console)
    if profile.lost:
        console.print(f"{profile.lost} records did not fit: loops are shown in part")


def _print_memory(profile: Profile, console: Console) -> None:
    line = memory_line(profile)
    if not line:
        return
    console.print(
        f"\n[bold]Temporaries[/bold] over a call, at most {size(profile.arena_bytes)}",
        highlight=False,
    )
    console.print(f"[cyan]{line}[/cyan]", highlight=False)
    if profile.largest:
        largest = ", ".join(f"{name} {size(n)}" for name, n in profile.largest)
        console.print(f"largest at the peak: {largest}", highlight=False)


def memory_line(profile: Profile, columns: int = 96) -> str:
    """The bytes of live temporaries over the time of a call, as blocks; "" if there are none."""
    events = [e for e in profile.typical() if e.task < 0] if profile.calls else []
    peak = max((profile.sites[e.site].live for e in events), default=0)
    if not peak:
        return ""
    first, last = min(e.start for e in events), max(e.end for e in events)
    heights = [0] * columns
    for e in events:
        lo = int((e.start - first) / (last - first) * columns)
        hi = int((e.end - first) / (last - first) * columns)
        for column in range(lo, min(hi, columns - 1) + 1):
            heights[column] = max(heights[column], profile.sites[e.site].live)
    steps = len(_BLOCKS) - 1
    return "".join(_BLOCKS[-(-h * steps // peak)] for h in heights)


def seconds(value: float) -> str:
    """A time with three digits and a unit."""
    scale, unit = next((s for s in ((1.0, "s"), (1e-3, "ms")) if value >= s[0]), (1e-6, "us"))
    return f"{value / scale:.3g} {unit}" if value < 1000 else f"{value:.0f} s"


def size(nbytes: int) -> str:
    """Bytes with a unit."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= scale:
            return f"{nbytes / scale:.1f} {unit}"
    return f"{nbytes} B"


def _rate(amount: int, time: float) -> str:
    if not amount or not time:
        return ""
    value = amount / time / 1e9
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _shown(title: str, key: str) -> str:
    """A key as it fits its column; the end of a Cell's path says more than its beginning."""
    width = _WIDEST[title]
    return "…" + key[1 - width :] if title == "Cell" and len(key) > width else key


def _bar(share: float, width: int = 8) -> str:
    eighths = round(share * width * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8]


def _common(scopes: list[str]) -> str:
    """The path that nested Cells begin with (in a training step, say): the table leaves it out."""
    inner = [s.split(".") for s in scopes if "." in s]
    out = ""
    for depth in range(min((len(p) for p in inner), default=1) - 1):
        heads = {tuple(p[: depth + 1]) for p in inner}
        if len(heads) > 1:
            break
        out = ".".join(inner[0][: depth + 1]) + "."
    return out


def _heat(share: float) -> str:
    return "red" if share >= 0.2 else "yellow" if share >= 0.05 else "green"


def _source(row: Row) -> str:
    """The user's line, if the row has one."""
    span = row.sites[0].span
    if span.line <= 0 or not Path(span.file).is_file():
        return ""
    return linecache.getline(span.file, span.line).strip()
