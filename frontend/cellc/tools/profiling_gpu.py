"""Profiles of networks on a GPU: the time of each kernel, between two events of its stream.

The program is that of every call, but kernels are launched one by one instead of as a graph. Where
a kernel is shorter than its launch (some microseconds), its time has a part of the launch in it.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cellc_compiler.driver import compile_program
from cellc_compiler.ir.dims import Undecided
from cellc_compiler.ir.shapes import Shapes
from cellc_runtime.device import Device
from cellc_runtime.executable import Executable
from cellc_runtime.files import write_text
from cellc_runtime.records import dataclass

from ..calls.budget import least
from ..calls.callbacks import host_callbacks
from ..compiled.traced import Traced
from ..core.device import current
from ..storage.memory import aligned_copy
from ..tensors.tensor import host_arrays_of
from ..tracing.exceptions import ERRORS
from . import consoles
from .profiling import Profile, csv_text, profile_traced, seconds

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH = 150  # Columns where there is no terminal


@dataclass(frozen=True, slots=True)
class KernelTime:
    """The time of a program's kernel.

    Attributes:
        name: its ops and their line; `number` its place among the kernels of the program.
        seconds: of all its launches in a call, the median over the calls profiled.
        count: launches of a call.
    """

    name: str
    number: int
    seconds: float
    count: int


@dataclass(slots=True)
class GpuProfile:
    """Where the time of a network's calls went on a GPU.

    Attributes:
        name: of the network; `device` and `target` where it ran.
        kernels: the names of the program's.
        calls: number of the kernel and seconds of each launch, for each call profiled.
        seconds: wall time of each of them.
    """

    name: str
    device: str
    target: str
    kernels: list[str]
    calls: list[list[tuple[int, float]]]
    seconds: list[float]

    def rows(self, by: str = "kernel") -> list[KernelTime]:
        """Return the time by row, most first."""
        if by not in ("kernel", "call"):
            raise ValueError(f"profiles of a GPU are by kernel, not {by!r}")
        return sorted(filter(None, map(self._row, range(len(self.kernels)))),
                      key=lambda r: -r.seconds)

    def _row(self, number: int) -> KernelTime | None:
        times = [[t for kernel, t in call if kernel == number] for call in self.calls]
        if not times[-1]:
            return None
        return KernelTime(self.kernels[number], number, statistics.median(map(sum, times)),
                          len(times[-1]))

    def records(self, by: str = "kernel") -> list[dict[str, Any]]:
        """`rows` as plain values, for tables of other tools."""
        return [{"kernel": r.name, "number": r.number, "seconds": r.seconds, "calls": r.count}
                for r in self.rows(by)]

    def save_csv(self, path: str | Path, by: str = "kernel") -> None:
        """Write `records` as CSV."""
        write_text(path, csv_text(self.records(by)))

    def save_json(self, path: str | Path, by: str = "kernel") -> None:
        """Write the profile as JSON: the head of the table, and `records`."""
        write_text(path, json.dumps({
            "name": self.name, "device": self.device, "target": self.target,
            "seconds": statistics.median(self.seconds), "calls": self.seconds, "by": by,
            "rows": self.records(by)}, indent=1))

    def save_trace(self, path: Any) -> None:
        """Not of a GPU."""
        raise ValueError("a profile of a GPU has no timeline to save: it has the time of each "
                         "kernel (NVIDIA's Nsight Systems shows when each one ran)")

    def __repr__(self) -> str:  # the last value of a notebook's cell is shown by it
        console, out = consoles.in_text(_WIDTH)
        self._print("kernel", 25, console)
        return out.getvalue()

    def show(self, by: str = "kernel", limit: int = 25) -> None:
        """Print the table, coloured on a terminal."""
        self._print(by, limit, consoles.output(_WIDTH))

    def _print(self, by: str, limit: int, console: Console) -> None:
        from rich.table import Table  # as above
        from rich.text import Text

        rows = self.rows(by)
        inside = sum(r.seconds for r in rows)
        console.print(
            f"[bold]{self.name}[/bold] on {self.device} ({self.target}): "
            f"{seconds(statistics.median(self.seconds))} a call (median of {len(self.seconds)}, "
            f"launched kernel by kernel), {seconds(inside)} in {sum(r.count for r in rows)} "
            "launches, by events", highlight=False)
        table = Table(box=None, expand=True, pad_edge=False, header_style="bold", padding=(0, 1))
        for title in ("Time", "%", "Launches"):
            table.add_column(title, justify="right", no_wrap=True, min_width=len("Launches"))
        table.add_column("Kernel", overflow="ellipsis", no_wrap=True, ratio=1)
        for row in rows[:limit]:
            share = row.seconds / inside if inside else 0.0
            table.add_row(seconds(row.seconds), f"{100 * share:.1f}", str(row.count),
                          Text(row.name or f"kernel {row.number + 1}"))
        console.print(table, highlight=False)
        if len(rows) > limit:
            rest = sum(r.seconds for r in rows[limit:])
            console.print(f"and {len(rows) - limit} more: {seconds(rest)}", highlight=False)


def profile_here(
    traced: Traced, arrays: Sequence[Any], runs: int, numerics: str = "strict",
    budget: int | None = None, opened: tuple[Shapes, Mapping[str, int]] | None = None,
) -> Profile | GpuProfile:
    """`profile` of a call that is traced already, on the device in use."""
    device = current()
    if device is None:
        return profile_traced(traced, arrays, runs, numerics, budget, opened)
    if opened is not None:
        raise Undecided("a GPU has programs of known sizes only")
    return profile_on(device, traced, arrays, runs, numerics, budget)


def profile_on(
    device: Device, traced: Traced, arrays: Sequence[Any], runs: int, numerics: str,
    budget: int | None,
) -> GpuProfile:
    """See `profiling.profile_traced`; on a GPU."""
    program = compile_program(traced.graph, numerics=numerics,
                              budget=least(traced.budget, budget))
    executable = Executable(program, host_callbacks(traced.graph, traced.functions), ERRORS)
    executable.bind([aligned_copy(a) for a in host_arrays_of(traced.parameters)])
    taken = executable.timed()
    for _ in range(2):
        _timed_call(device, executable, arrays)
    taken()
    calls, times = [], []
    for _ in range(runs):
        times.append(_timed_call(device, executable, arrays))
        calls.append(taken())
    return GpuProfile(traced.graph.name, device.properties().name, program.target,
                      [k.name for k in program.kernels], calls, times)


def _timed_call(device: Device, executable: Executable, arrays: Sequence[Any]) -> float:
    """Seconds of a call that is done."""
    start = time.perf_counter()
    executable.call(arrays)
    device.wait()
    return time.perf_counter() - start


__all__ = ["GpuProfile", "KernelTime", "profile_here", "profile_on"]
