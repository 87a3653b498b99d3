"""A third back end, small and slow: plain loops on one thread, over the seam alone.

It has no kernel families, no patterns, no passes and no host side of its own: an image is
`cellc_main`, its kernels and nothing else, so programs are called from Python. What back ends
through LLVM share writes scalar operations and what runs in order; loops are its own. Sums have the
order that nests say, and so the bits of any other back end.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from cellc_compiler.backends.base import Backend
from cellc_compiler.backends.llvm.build import LlvmBuild
from cellc_compiler.backends.llvm.convert import register_type
from cellc_compiler.backends.llvm.expressions import ExpressionEmitter, Scope
from cellc_compiler.backends.llvm.main import FunctionWriter
from cellc_compiler.backends.llvm.math.lanes import X
from cellc_compiler.backends.llvm.text import V, module
from cellc_compiler.backends.llvm.user_kernels import user_kernel
from cellc_compiler.backends.plain.rules.table import RULES
from cellc_compiler.backends.plain.writer import Buffer, Chains, PlainFunction
from cellc_compiler.build.abi import PLACEHOLDER
from cellc_compiler.build.llvm_version import llvm_version
from cellc_compiler.ir.graph import Node, Value
from cellc_compiler.loops import order
from cellc_compiler.loops.expr import Expr
from cellc_compiler.loops.nest import Nest, Phase, Scratch, Store, walk
from cellc_compiler.lower.kernel import Kernel
from cellc_compiler.lower.machine import Machine, Memory, NoRule
from cellc_compiler.lower.plan import KernelPlan, Step, operand, result
from cellc_runtime.device import HostDevice
from cellc_runtime.program import Program
from cellc_runtime.records import replace
from cellc_runtime.target import Target, host_targets

CPU = host_targets()[-1]
"""The target of the CPU's back end that it is compared with."""
TARGET = replace(CPU, name="scalar")


class Fn(PlainFunction):
    """A kernel of one task being written."""

    def __init__(self) -> None:
        super().__init__(PLACEHOLDER, [("ptr", "bufs"), ("i64", "lo"), ("i64", "hi")], TARGET)

    def pointer(self, number: int) -> V:
        """The address of a buffer."""
        return self.load("ptr", self.gep(self.arg("bufs"), number, "ptr"))

    def kernel(self, buffers: int) -> Kernel:
        """The finished kernel."""
        self.ret_()
        return Kernel(module([self]), 1, buffers, 1.0)



class ScalarDevice(HostDevice):
    """The processor, for programs of this back end."""

    name = "scalar"
    targets = {TARGET.name: TARGET}

    def check(self, program: Program) -> None:
        """It runs whatever this machine runs."""


class NestWriter(ExpressionEmitter):
    """A loop nest: rows, phases and inner loops one in the other, everything in program order."""

    f: Fn

    def __init__(self, nest: Nest) -> None:
        super().__init__(Fn(), TARGET)
        self.nest = nest
        loads = [e.payload.buffer for e in walk(list(nest.roots())) if e.op == "load"]
        found = dict.fromkeys([*loads, *(s.buffer for p in nest.phases for s in p.stores)])
        self.buffers = [b for b in found if not isinstance(b, Scratch)]
        self.pointers.update((b, self.f.pointer(i)) for i, b in enumerate(self.buffers))
        self.pointers.update((b, self.f.alloca(b.elements * b.dtype.itemsize))
                             for b in found if isinstance(b, Scratch))

    def kernel(self) -> Kernel:
        f, nest = self.f, self.nest
        with f.each(*(v.extent for v in nest.rows)) as at:
            self.vars.update(zip(nest.rows, (i.v for i in at), strict=True))
            row, scope = f.i(0), Scope(1, None, None, None)
            for v, i in zip(nest.rows, at, strict=True):
                row = row * v.extent + i
            if nest.block:
                with f.given(row.op("urem", nest.block).cmp("eq", 0)):
                    for phase in nest.phases:
                        self.clear(phase)
            for phase in nest.phases:
                self.phase(phase, scope)
        return f.kernel(len(self.buffers))

    def clear(self, phase: Phase) -> None:
        """Zeros for the sums of a block."""
        with self.f.each(*(v.extent for v in phase.loops)) as at:
            self.vars.update(zip(phase.loops, (i.v for i in at), strict=True))
            for s in (s for s in phase.stores if s.adds):
                self.store(s, self.f.number(s.value.dtype, 0).v, Scope(1, None, None, None))

    def phase(self, phase: Phase, row: Scope) -> None:
        f, parts = self.f, self.nest.parts(phase)
        if parts == 1:
            sums = self.sums(phase, self.nest.chains(phase))
            with f.each(*(v.extent for v in phase.loops)) as at:
                self.step(phase, row, at, sums, at[-1] if at else f.i(0))
        else:
            sums = self.sums(phase, order.chains(self.nest.accumulate, parts))
            size = phase.loops[0].extent // parts
            with f.each(parts) as (p,):
                own = self.sums(phase, self.nest.chains(phase))
                with f.each(size) as (i,):
                    self.step(phase, row, [p * size + i], own, i)
                for total, part in zip(sums, own, strict=True):
                    total.take(part.total(), p)
        for r, held in zip(phase.reduces, sums, strict=True):
            value = held.total()[-1]
            row.memo[id(r.result)] = value if len(held.parts) == 1 else f.cast(
                "trunc", value, register_type(r.result.dtype))

    def sums(self, phase: Phase, count: int) -> list[Chains]:
        return [Chains(self.f, r.kind, r.value.dtype, count) for r in phase.reduces]

    def step(self, phase: Phase, row: Scope, at: list[X], sums: list[Chains], place: X) -> None:
        """One element of a phase, at a place of its line or part of a line."""
        self.vars.update(zip(phase.loops, (i.v for i in at), strict=True))
        scope = Scope(1, None, None, None, row)
        values = [self._value(s.value, scope) for s in phase.stores]
        for r, held in zip(phase.reduces, sums, strict=True):
            where = at[-1].v if at else self.f.i64(0)
            held.take([self._value(r.value, scope), where][: len(held.parts)], place)
        for s, v in zip(phase.stores, values, strict=True):
            self.store(s, v, scope)

    def store(self, s: Store, v: V, scope: Scope) -> None:
        f = self.f
        to = Buffer(f, self.pointers[s.buffer], s.value.dtype, ())
        at = X(f, self._index(s.offset if s.part is None else s.offset * 2 + s.part, scope))
        to.set(at, f.compute("add", s.value.dtype, to.get(at), X(f, v)) if s.adds else X(f, v))


class ScalarMachine(Machine):
    """Nests and rules as plain loops."""

    backend, target = "scalar", TARGET.name
    memory = Memory("memory", align=64, capacity=1 << 30)

    def plan(self, node: Node) -> KernelPlan:
        if node.op == "custom_kernel":
            return user_kernel(node, TARGET)
        rule = RULES.find(node.op)
        if rule is None:
            raise NoRule(node, self.backend)
        f, values, count = Fn(), [*node.operands, *node.results], len(node.operands)
        buffers = [Buffer(f, f.pointer(i), v.dtype, v.shape) for i, v in enumerate(values)]
        rule(f, node, buffers[:count], buffers[count:])
        roles = [*map(operand, range(count)), *map(result, range(len(node.results)))]
        return KernelPlan((Step(f.kernel(len(values)), tuple(roles)),))

    def nest(self, nest: Nest, streamed: Collection[Value]) -> tuple[Kernel, list[Any]]:
        writer = NestWriter(nest)
        return writer.kernel(), writer.buffers

    def cycles(self, e: Expr) -> float:
        return 1.0


class ScalarWriter(FunctionWriter):
    """Nothing to call: bytes are moved by a loop."""

    def move(self, to: V, source: V, nbytes: V | int) -> None:
        f = self.f
        f.loop(0, nbytes, 1, [], lambda i, _: f.store(f.load("i8", f.gep(source, i)), f.gep(to, i)))


class ScalarBuild(LlvmBuild):
    """Of the kernels alone."""

    writer = ScalarWriter


class ScalarBackend(Backend):
    """See the module."""

    name = "scalar"
    targets = {TARGET.name: TARGET}

    def default_target(self) -> Target:
        return TARGET

    def version(self) -> str:
        return llvm_version()

    def machine(self, target: Target) -> ScalarMachine:
        return ScalarMachine()

    def build(self, target: Target) -> ScalarBuild:
        return ScalarBuild(target)
