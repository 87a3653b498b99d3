"""Trials of one op alone: its samples with other sizes and attributes, further from home than in a
network, for a fraction of the time.

What inference takes, the reference computes, with the shapes that inference says, in PyNative and
compiled, to the same bits and within the op's tolerance. What it cannot compute, inference refuses.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from cellc.testing.cases import load_case
from cellc_compiler.interpret import evaluate
from cellc_compiler.ir.graph import Node
from cellc_compiler.ir.op import Op, lookup

from . import networks
from .finding import Finding, Trial
from .growing import GROWN, Faulty, Growth, add
from .network import Different, Network, compiled, gradient, reference

SUFFIX = networks.SUFFIX
_AT_ONCE = 20
"""Ops of a trial."""
_RENAMED, _CHANGED = 0.6, 0.7
_SLOPES = 0.15
"""How often the gradient is compared, too."""
_SECONDS = 5.0


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
        ways = [inferred, compiled, reference, *([gradient] if growth.chance(_SLOPES) else [])]
        for way in ways:
            told = networks.symptom(way, net)
            if told:
                case = networks.smallest(way, net, told, _SECONDS)
                return Trial(counts, Finding("alone", seed, f"{way.__name__}: {told}", case))
    return Trial(counts)


def play(path: Path) -> str:
    """What a case of the corpus shows; "" if it is mended."""
    if load_case(path).options["way"] != inferred.__name__:
        return networks.play(path)
    case = load_case(path)
    assert case.graph is not None
    return networks.symptom(inferred, Network(case.graph, case.arrays))
