"""Resident memory of a process and of all that it has started, as Linux counts it.

Of the process itself all its resident pages count; of its descendants (compilers that work beside
it, say) their share: a page that n processes map counts 1/n for each, so that a library is not
counted once for each of them.
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


def field(path: Path, name: str) -> float:
    """A field of a file of /proc in MiB; 0 where the process has ended."""
    with suppress(OSError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) / 2**10
    return 0.0


def resident(pid: int) -> float | None:
    """What a process and its descendants have in memory now, in MiB; None where nobody says."""
    if not PROC.exists():
        return None
    own = field(PROC / str(pid) / "status", "VmRSS")
    return own + sum(field(PROC / str(p) / "smaps_rollup", "Pss") for p in descendants(pid))


def highest(pid: int) -> float | None:
    """The peak of a process alone, in MiB; None where nobody says."""
    found = field(PROC / str(pid) / "status", "VmHWM")  # ru_maxrss may be that before exec
    return found or None
