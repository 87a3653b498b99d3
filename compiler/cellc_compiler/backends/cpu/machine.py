"""A CPU target as lowering sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from cellc_runtime.program import MAX_BYTES
from cellc_runtime.target import Target

from ...ir.graph import Graph, Node, Reuse, Value
from ...loops.expr import Expr
from ...loops.nest import Nest
from ...lower.batch_loops import BatchLoop, split_batch
from ...lower.kernel import Kernel
from ...lower.machine import Flat, Machine, Memory, NoRule
from ...lower.plan import KernelPlan
from ..llvm import scalar
from .nests import flat, transpose
from .patterns.attention import AttentionPattern
from .patterns.conv_pairs import PairPattern
from .patterns.epilogues import EpiloguePattern
from .rules.table import RULES

MEMORY = Memory("memory", align=64, capacity=MAX_BYTES, streamed=32 << 20)


class CpuMachine(Machine):
    """Kernels in LLVM text for a feature level."""

    backend = "cpu"
    memory = MEMORY
    overlaps = True

    def __init__(self, target: Target) -> None:
        self.cpu = target
        self.target = target.name
        self.patterns = (EpiloguePattern(target), PairPattern(target), AttentionPattern(target))

    def plan(self, node: Node) -> KernelPlan:
        rule = RULES.find(node.op)
        if rule is None:
            raise NoRule(node, self.backend)
        if not any(r.type.size for r in node.results):
            return KernelPlan(())
        return rule(node, self.cpu)

    def nest(self, nest: Nest, streamed: Collection[Value]) -> tuple[Kernel, list[Any]]:
        return transpose.emit(nest, self.cpu, streamed)

    def cycles(self, e: Expr) -> float:
        return scalar.cycles(e)

    def llvm_text(self, code: Any) -> tuple[str, Target]:
        return code, self.cpu

    def annotate(self, graph: Graph) -> None:
        """Matrices that several products read alike (the weights of unrolled steps) are packed
        once for all of them."""
        uses = Counter(n.operands[1] for n in graph.nodes if n.op == "matmul"
                       and n.attrs["transpose_b"] and n.operands[1].type.rank == 2)
        for value, count in uses.items():
            if count > 1 and value.reuse is Reuse.NONE:
                value.reuse = Reuse.SHARED

    def flat(self, nest: Nest) -> Flat | None:
        return flat.flat(nest, self.cpu)

    def many(self, kernels: Sequence[Flat]) -> tuple[Kernel, tuple[tuple[int, int], ...]]:
        return flat.many(kernels)

    def cut(self, node: Node) -> BatchLoop | None:
        return split_batch(node)
