"""Trials of random networks: every op, in every way that must give the same result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from cellc.testing.cases import Case, load_case
from cellc.testing.reducing import reduce
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.op import Op

from ...modes.law import Array
from .finding import Finding, Trial
from .growing import GROWN, Faulty, network
from .meanings import MEANINGS
from .network import ALWAYS, IN_TURN, WAYS, Different, Network

SUFFIX = ".txt"
_ALL = {**WAYS, **{way.__name__: way for way in MEANINGS}}
_OTHERS = (*IN_TURN, *MEANINGS)
_IN_ANOTHER = 1 / 3
"""How often a network is tried in another way, too: that takes a third of its time otherwise."""


def trial(seed: int, ops: Sequence[Op] = GROWN) -> Trial:
    """One network in the ways of every network, and sometimes in one other: another network shows
    more than another way of the same one, and costs little more."""
    try:
        growth = network(seed, ops)
    except Faulty as e:
        return Trial(finding=Finding("networks", seed, str(e)))
    counts = Counter({f"op {op}": n for op, n in growth.ops.items()})
    counts["ops"] = sum(growth.ops.values())
    net = Network(growth.graph, growth.arrays, growth.fitted)
    rng = np.random.default_rng([seed, 1])
    ways = list(ALWAYS)
    if rng.random() < _IN_ANOTHER:
        ways.append(_OTHERS[int(rng.integers(len(_OTHERS)))])
    for way in ways:
        counts[f"way {way.__name__}"] += 1
        told = symptom(way, net)
        if told:
            return Trial(counts, Finding("networks", seed, f"{way.__name__}: {told}",
                                         smallest(way, net, told)))
    return Trial(counts)


def symptom(way: Callable[[Network], None], net: Network) -> str:
    """What a way finds wrong with a network, in a line; "" if nothing."""
    try:
        way(net)
    except Different as e:
        return f"Different: {e}".splitlines()[0]
    except Exception as e:
        return f"{type(e).__name__}: {e}".splitlines()[0]
    return ""


def smallest(way: Callable[[Network], None], net: Network, told: str, seconds: float = 60) -> str:
    """The smallest part of a network that shows the same kind of fault, as a case."""
    kind = told.split(":")[0]

    def shows(graph: Graph, arrays: Sequence[Array]) -> bool:
        return symptom(way, Network(graph, arrays)).split(":")[0] == kind

    graph, arrays, _ = reduce(net.graph, net.arrays, shows, seconds=seconds)
    return Case(graph, arrays, options={"way": way.__name__}).text()


def play(path: Path) -> str:
    """What a case of the corpus shows; "" if it is mended."""
    case = load_case(path)
    if case.graph is None:
        raise ValueError(f"{path.name} has no graph")
    return symptom(_ALL[case.options["way"]], Network(case.graph, case.arrays))
