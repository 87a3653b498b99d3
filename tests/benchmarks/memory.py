"""Resident memory of a process and of all that it has started, as Linux counts it.

Of the process itself all its resident pages count. Of its descendants (compilers that work beside
it, say) all memory of their own counts, what a process and its fork have in common once, and files
(libraries) as far as the one has them mapped that has most: they run the same program. What other
processes of the machine share with them makes no difference.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, those that these have started, and so on."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has ended
                # pid (name) state parent ...; a name may hold blanks and parentheses
                rest = (entry / "stat").read_text(errors="replace").rpartition(")")[2]
                children.setdefault(int(rest.split()[1]), []).append(int(entry.name))
    found = list(children.get(pid, ()))
    for child in found:  # it grows while it is read
        found += children.get(child, ())
    return found


def fields(path: Path) -> dict[str, float]:
    """The sizes in a file of /proc in MiB, by name; none where the process has ended."""
    found: dict[str, float] = {}
    with suppress(OSError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if value.endswith(" kB"):
                found[name] = int(value.split()[0]) / 2**10
    return found


def resident(pid: int) -> float | None:
    """What a process and its descendants have in memory now, in MiB; None where nobody says."""
    if not PROC.exists():
        return None
    own = fields(PROC / str(pid) / "status").get("VmRSS", 0.0)
    others = [fields(PROC / str(p) / "smaps_rollup") for p in descendants(pid)]
    files = max((o.get("Rss", 0.0) - o.get("Anonymous", 0.0) for o in others), default=0.0)
    return own + files + sum(o.get("Pss_Anon", o.get("Anonymous", 0.0)) for o in others)


def highest(pid: int) -> float | None:
    """The peak of a process alone, in MiB; None where nobody says."""
    # (ru_maxrss may be that before exec.)
    return fields(PROC / str(pid) / "status").get("VmHWM")
