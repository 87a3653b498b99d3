"""The rules of all ops are right where `bisect` looks at them, and wrong ones are told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cellc.testing.judging import alone_graph
from cellc.testing.rules import problems
from cellc_compiler.ir.graph import Node
from cellc_compiler.ir.op import Op, lookup, user_ops
from cellc_runtime import dtypes

from ..ops.gradients import graph_of, operands_of

OPS = [op for op in user_ops() if not op.effect and op.samples()]


def nodes_of(op: Op) -> list[tuple[Node, list[Any]]]:
    """The samples of an op in one element type, but control flow."""
    dtype = dtypes.float32 if dtypes.float32 in op.dtypes else op.dtypes[0]
    found = [(operands_of(s, dtype), s.attrs) for s in op.samples()]
    made = [(graph_of(op, arrays, attrs).nodes[-1], arrays) for arrays, attrs in found]
    return [(node, arrays) for node, arrays in made if not node.regions]


@pytest.mark.parametrize("part", range(4))
def test_no_rule_is_blamed(part: int) -> None:
    told = [f"{op.name}: {p}" for op in OPS[part::4] for node, arrays in nodes_of(op)
            for p in problems(node, arrays)]
    assert not told


@pytest.mark.parametrize(("op", "member"), [("mul", "gradient"), ("matmul", "gradient"),
                                            ("mul", "batch"), ("reduce_sum", "batch")])
def test_a_rule_that_fails_is_told(
    op: str, member: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Any, *args: Any) -> Any:
        raise KeyError("planted")

    monkeypatch.setattr(type(lookup(op)), member, fails)
    node, arrays = nodes_of(lookup(op))[0]
    kind = {"gradient": "gradient", "batch": "batching"}[member]
    assert any(f"the {kind} rule of {op}" in p and "KeyError" in p
               for p in problems(node, arrays))


def test_a_node_alone_is_a_graph() -> None:
    node = graph_of(lookup("add"), [np.ones(3, np.float32)] * 2, {}).nodes[-1]
    graph = alone_graph(node)
    assert [v.type for v in graph.inputs] == [v.type for v in node.operands]
    assert graph.nodes[0] is not node and graph.outputs == list(graph.nodes[0].results)
