"""Branches divided among stages: one `cond` for the results of each.

A training step that leaves out its update after an overflow has all parameters of all stages in one
branch. Its results depend on few of its operands each, so it is split into parallel branches on one
condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.graph import Builder, Graph, Node, Value
from ...ir.op import has_effect
from ...ops.control import Cond
from ..base import copy_graph, rewrite

Stages = Mapping[Node, int | None]


def divide(graph: Graph, stage: Stages) -> bool:
    """Divide branches in place, by the stages of what they read; whether there were any."""
    def rule(b: Builder, node: Node) -> Sequence[Value] | None:
        return None if node.op != Cond.name or has_effect(node) else _divided(b, node, stage)

    return rewrite(graph, rule)


def _divided(b: Builder, node: Node, stage: Stages) -> Sequence[Value] | None:
    reads = [_reads(region) for region in node.regions]
    groups: dict[int | None, list[int]] = {}
    for i in range(len(node.results)):
        read = sorted(set().union(*(found[i] for found in reads)))
        there = [(v.type.nbytes, s) for v in (node.operands[1 + k] for k in read)
                 if v.node is not None and (s := stage.get(v.node)) is not None]
        groups.setdefault(max(there)[1] if there else None, []).append(i)
    if len(groups) < 2:
        return None
    out: dict[int, Value] = {}
    for members in groups.values():
        made = _branch(b, node, members)
        out.update(zip(members, made.results, strict=True))
    return [out[i] for i in range(len(node.results))]


def _reads(region: Graph) -> list[set[int]]:
    """The inputs, by number, that each output depends on."""
    found: dict[Value, set[int]] = {v: {i} for i, v in enumerate(region.inputs)}
    for node in region.nodes:
        read = set().union(*(found[v] for v in node.operands))
        found.update(dict.fromkeys(node.results, read))
    return [found[v] for v in region.outputs]


def _branch(b: Builder, node: Node, members: Sequence[int]) -> Node:
    """A branch with some of the results of one."""
    regions = [copy_graph(r) for r in node.regions]
    needed = []
    for region in regions:
        region.outputs = [region.outputs[i] for i in members]
        needed.append(_keep_needed(region))
    used = [i for i, flags in enumerate(zip(*needed, strict=True)) if any(flags)]
    for region in regions:
        region.inputs = [region.inputs[i] for i in used]
    return b.node(Cond.name, [node.operands[0], *(node.operands[1 + i] for i in used)], node.attrs,
                  regions)


def _keep_needed(region: Graph) -> list[bool]:
    """Leave out nodes that no output needs; which inputs are."""
    read = set(region.outputs)
    kept = []
    for node in reversed(region.nodes):
        if not read.isdisjoint(node.results):
            read.update(node.operands)
            kept.append(node)
    region.nodes = kept[::-1]
    return [v in read for v in region.inputs]
