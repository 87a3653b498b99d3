"""Trials of one op alone: its samples with other sizes and attributes, further from home than in a
network, for a fraction of the time.

What inference takes, the reference computes, with the shapes that inference says, in PyNative and
compiled, to the same bits and within the op's tolerance; passes, derivatives and batches hold for
it as for a graph. What cannot be computed, inference refuses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cellc.testing.cases import load_case
from cellc_compiler.interpret import evaluate
from cellc_compiler.ir.graph import Node
from cellc_compiler.ir.op import Op, lookup

from . import graphs, networks
from .finding import Finding, Trial
from .growing import GROWN, Faulty, Growth, add
from .network import Different, Network, compiled, gradient, reference

SUFFIX = networks.SUFFIX
_AT_ONCE = 20
"""Ops of a trial."""
_RENAMED, _CHANGED = 0.6, 0.7
_SLOPES = 0.15
"""How often the gradient is compared, too."""
_OTHERS = 2
"""Ways of graphs that each op is tried in."""
_SECONDS = 5.0
"""For making small what is found: one op is small."""


def inferred(net: Network) -> None:
    """The reference gives what inference says."""
    env = dict(zip(net.graph.inputs, net.arrays, strict=True))
    for node in net.graph.nodes:
        operands = [env[v] for v in node.operands]
        with np.errstate(all="ignore"):
            try:
                for i, shape in enumerate(_shapes(node, operands)):
                    if shape != node.results[i].shape:
                        raise Different(f"{node.op}: result {i} of the reference is of shape "
                                        f"{shape}, inference says {node.results[i].type}")
                env.update(zip(node.results, evaluate(node, operands), strict=True))
            except IndexError as e:  # an index that is none for these sizes: numpy has no answer
                if "out of bounds" in str(e):
                    return
                raise


def _shapes(node: Node, operands: list[networks.Array]) -> list[tuple[int, ...]]:
    """Of the results of an op's own reference; none if it has none."""
    op = lookup(node.op)
    if node.regions or type(op).reference is Op.reference:
        return []
    made = op.reference(*operands, **node.attrs)
    made = made if isinstance(made, (tuple, list)) else [made]
    if len(made) != len(node.results):
        raise Different(f"{node.op}: {len(made)} results of the reference, inference says "
                        f"{len(node.results)}")
    return [np.shape(a) for a in made]


def by_interpreter(way: graphs.Way) -> Way:
    """A way of graphs, of a network."""
    def run(net: Network) -> None:
        told = graphs.symptom(way, net.graph, net.arrays)
        if told:
            raise Different(told)

    run.__name__ = f"graphs.{way.__name__}"
    return run


Way = Callable[[Network], None]
WAYS: tuple[Way, ...] = (inferred, compiled, reference, gradient)
INTERPRETED: tuple[Way, ...] = tuple(map(by_interpreter, graphs.WAYS.values()))


def trial(seed: int) -> Trial:
    """Some ops, in turn."""
    counts: Counter[str] = Counter()
    for number in range(seed * _AT_ONCE, (seed + 1) * _AT_ONCE):
        op = GROWN[number % len(GROWN)]
        growth = Growth(np.random.default_rng([number, 31]), renamed=_RENAMED, changed=_CHANGED)
        try:
            if not add(growth, op):
                continue
        except Faulty as e:
            return Trial(counts, Finding("alone", seed, str(e)))
        growth.graph.outputs = list(growth.graph.nodes[-1].results)
        counts.update({f"op {op.name}": 1, "ops": 1})
        net = Network(growth.graph, growth.arrays, growth.fitted)
        ways = [*WAYS[:3 + growth.chance(_SLOPES)],
                *(INTERPRETED[i] for i in growth.rng.permutation(len(INTERPRETED))[:_OTHERS])]
        for way in ways:
            told = networks.symptom(way, net)
            if told:
                case = networks.smallest(way, net, told, _SECONDS)
                return Trial(counts, Finding("alone", seed, f"{way.__name__}: {told}", case))
    return Trial(counts)


def play(path: Path) -> str:
    """What a case of the corpus shows; "" if it is mended."""
    case = load_case(path)
    if case.graph is None:
        raise ValueError(f"{path.name} has no graph")
    way = next(w for w in (*WAYS, *INTERPRETED) if w.__name__ == case.options["way"])
    return networks.symptom(way, Network(case.graph, case.arrays))
