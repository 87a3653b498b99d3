"""The roofline picture: what part of the machine each workload uses, ours and the best peer's."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import report
from cases import CASES

if TYPE_CHECKING:
    from report import Figures

OURS, PEER = "#0b62a4", "#d9822b"


def draw(figures: Figures, path: Path) -> None:
    """Write the picture; its format follows from the name."""
    import matplotlib  # optional: only the picture needs it

    matplotlib.use("agg")
    matplotlib.rcParams["svg.hashsalt"] = "cellc"
    from matplotlib import pyplot

    points = _points(figures)
    figure, axes = pyplot.subplots(figsize=(10, 6.2), layout="constrained")
    low = 10 ** -0.3
    high = 2 * max(x for _, x, _, _ in points)
    _roofs(axes, figures, low, high)
    places = _spread([math.log10(x) for _, x, _, _ in points], 0.027 * math.log10(high / low))
    for (name, x, ours, peer), place in zip(points, places, strict=True):
        axes.plot([x, x], [peer, ours], color="#999999", linewidth=1, zorder=1)
        axes.plot(x, peer, "D", color=PEER, markersize=5, zorder=2)
        axes.plot(x, ours, "o", color=OURS, markersize=7, zorder=3)
        axes.annotate(
            name, (x, max(ours, peer)), (10**place, 1.5 * figures.flops / 1e9), rotation=90,
            ha="center", va="bottom", fontsize=9, arrowprops={
                "arrowstyle": "-", "color": "#cccccc", "linewidth": 0.7, "shrinkB": 5,
                "relpos": (0.5, 0.0)})
    axes.plot([], [], "o", color=OURS, markersize=7, label="cellc, graph mode")
    axes.plot([], [], "D", color=PEER, markersize=5, label="best peer")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(min(min(o, p) for _, _, o, p in points) / 2, 8 * figures.flops / 1e9)
    axes.set_xlabel("arithmetic intensity: FLOP per compulsory byte")
    axes.set_ylabel("GFLOP/s")
    axes.grid(True, which="major", color="#eeeeee")
    axes.legend(loc="lower right", frameon=False)
    axes.set_title(f"{figures.machine}, {figures.threads} threads, float32", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    extra: dict[str, Any] = {"metadata": {"Date": None}} if path.suffix == ".svg" else {"dpi": 130}
    figure.savefig(path, **extra)


def _spread(places: list[float], gap: float) -> list[float]:
    """Ascending places moved apart, as little as is needed, to have a gap between neighbours."""
    groups: list[tuple[list[float], float]] = []  # members, and where their middle is
    for place in places:
        members, middle = [place], place
        while groups and groups[-1][1] + gap * (len(groups[-1][0]) + len(members)) / 2 > middle:
            members = groups.pop()[0] + members
            middle = sum(members) / len(members)
        groups.append((members, middle))
    return [middle + gap * (i - (len(members) - 1) / 2)
            for members, middle in groups for i in range(len(members))]


def _points(figures: Figures) -> list[tuple[str, float, float, float]]:
    """Name, FLOP per byte, GFLOP/s of ours and of the best peer, for all but the tiny net."""
    points = []
    for name, results in figures.cases.items():
        ours, peer = report.find(results, report.OURS), report.best(results)
        if ours and peer and CASES[name].group == "workload" and name != "tiny":
            spec = CASES[name].spec()
            points.append((name, spec.work / spec.bytes, spec.work / ours.time / 1e9,
                           spec.work / peer.time / 1e9))
    return sorted(points, key=lambda p: p[1])


def _roofs(axes: Any, figures: Figures, low: float, high: float) -> None:
    """The two limits: slanted the bandwidth, flat the FMA units."""
    flops, bandwidth = figures.flops / 1e9, figures.bandwidth / 1e9
    ridge = flops / bandwidth
    axes.plot([low, ridge, high], [low * bandwidth, flops, flops], color="#333333", linewidth=1.5)
    axes.plot([low, ridge, high], [low * bandwidth / 2, flops / 2, flops / 2], color="#999999",
              linewidth=0.8, linestyle=":")
    axes.annotate(f"{flops:.0f} GFLOP/s of FMA", (1.05 * ridge, flops), (0, 4),
                  textcoords="offset points", fontsize=9)
    axes.annotate("half of it", (1.05 * ridge, flops / 2), (0, 3), textcoords="offset points",
                  fontsize=8, color="#777777")
    axes.annotate(f"{bandwidth:.0f} GB/s", (low * 1.3, low * 1.3 * bandwidth), (-4, 8),
                  textcoords="offset points", fontsize=9, rotation=35)
