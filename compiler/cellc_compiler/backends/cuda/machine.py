"""A GPU as lowering sees it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from cellc_runtime.program import MAX_BYTES
from cellc_runtime.target import Target

from ...ir.graph import Node, Value
from ...loops.expr import Expr
from ...loops.nest import Nest
from ...lower.kernel import Kernel
from ...lower.machine import Machine, Memory, NoRule
from ...lower.plan import KernelPlan, Step, operand, result
from ..llvm import scalar
from ..plain.rules.table import RULES as PLAIN
from ..plain.writer import Buffer
from .attention import AttentionPattern
from .attention_online import OnlinePattern
from .code import HOST, KernelCode, is_emulated, kernel_of
from .epilogues import EpiloguePattern
from .guards import copy_kernel, guarded
from .nests import emit
from .rules.table import RULES
from .writer import ItemKernels

_ROW_ROOM = 32 << 10  # Of the shared memory of a block: a few blocks have room together
MEMORY = Memory("device memory", align=256, capacity=MAX_BYTES)


class GpuMachine(Machine):
    """Kernels in LLVM text for an architecture, or for the emulator."""

    backend = "cuda"
    memory = MEMORY
    defers_checks = True
    asks = True
    row_room = _ROW_ROOM

    def __init__(self, target: Target) -> None:
        self.gpu = target
        self.target = target.name
        online = (OnlinePattern(target),) if target.fast else ()
        self.patterns = (*online, AttentionPattern(target), EpiloguePattern(target))

    def plan(self, node: Node) -> KernelPlan:
        if not any(r.type.size for r in node.results):
            return KernelPlan(())
        rule = RULES.find(node.op)
        found = rule(node, self.gpu) if rule is not None else None
        return found or self._plain(node)

    def _plain(self, node: Node) -> KernelPlan:
        """Plain loops, a thread for each item."""
        rule = PLAIN.find(node.op)
        if rule is None:
            raise NoRule(node, self.backend)
        values, count = [*node.operands, *node.results], len(node.operands)

        def write(f: Any) -> None:
            buffers = [Buffer(f, f.pointer(i), v.dtype, v.shape) for i, v in enumerate(values)]
            rule(f, node, buffers[:count], buffers[count:])

        roles = (*map(operand, range(count)), *map(result, range(len(node.results))))
        codes = ItemKernels(self.gpu, len(values)).write(write)
        return KernelPlan(tuple(Step(kernel_of(c, len(values)), roles) for c in codes))

    def nest(self, nest: Nest, streamed: Collection[Value]) -> tuple[Kernel, list[Any]]:
        code, buffers = emit(nest, self.gpu)
        return kernel_of(code, len(buffers)), buffers

    def guarded(self, kernel: Kernel) -> Kernel:
        return guarded(kernel, self.gpu)

    def guarded_copy(self, nbytes: int) -> Kernel:
        return copy_kernel(nbytes, self.gpu)

    def cycles(self, e: Expr) -> float:
        return scalar.cycles(e)

    def llvm_text(self, code: KernelCode) -> tuple[str, Target]:
        return str(code), HOST if is_emulated(self.gpu) else self.gpu
