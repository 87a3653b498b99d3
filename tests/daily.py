"""The part of the tests that a day runs: each function of the suite within its seconds.

`costs.json` has the seconds of the functions that take longest (all their cases together). Such a
function runs every case once in as many days as it has budgets; all others run every day.

    pytest --day 20421                     repeats the sample of that day
    pytest --everything --record-costs     measures all functions, and writes `costs.json`

A folder or file that is named on the command line runs whole, and so do the campaigns, short:
`pytest tests/campaigns`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from math import ceil
from pathlib import Path
from zlib import crc32

COSTS = Path(__file__).with_name("costs.json")
BUDGET = 1.0
"""Seconds that a function takes on one day, where its cases are small enough."""
ALWAYS = ("tests/structure/",)
"""Rules of the code itself: every change is held against them."""

CAMPAIGNS = "tests/campaigns/"


def function_of(nodeid: str) -> str:
    """The test function of a case."""
    return nodeid.partition("[")[0]


def left_for_other_days(nodeids: Iterable[str], costs: Mapping[str, float], day: int) -> set[str]:
    """The cases that do not run on this day, which is counted in days since 1970."""
    cases, left = defaultdict(list), set()
    for nodeid in nodeids:
        if nodeid.startswith(CAMPAIGNS):
            left.add(nodeid)
        elif costs.get(function_of(nodeid), 0) > BUDGET and not nodeid.startswith(ALWAYS):
            cases[function_of(nodeid)].append(nodeid)
    for function, ids in cases.items():
        days = ceil(costs[function] / BUDGET)
        # Neighbours in the table of parameters are alike: an order by hash spreads them over days.
        ids.sort(key=lambda nodeid: (crc32(nodeid.encode()), nodeid))
        start = crc32(function.encode()) + day
        left |= {nodeid for i, nodeid in enumerate(ids) if (start + i) % days}
    return left


def recorded() -> dict[str, float]:
    """Seconds by function, of those above the budget."""
    costs: dict[str, float] = json.loads(COSTS.read_text())
    return costs


def record(durations: Iterable[tuple[str, float]]) -> None:
    """Write the costs of a run of everything: seconds by case."""
    sums: dict[str, float] = defaultdict(float)
    for nodeid, seconds in durations:
        sums[function_of(nodeid)] += seconds
    long = {f: round(s, 1) for f, s in sorted(sums.items()) if s > BUDGET}
    COSTS.write_text(json.dumps(long, indent=0) + "\n")
