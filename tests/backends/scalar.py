"""A third back end, small and slow: plain loops on one thread, over the seam alone.

It has no kernel families, no patterns, no passes and no host side of its own: an image is
`cellc_main`, its kernels and nothing else, so programs are called from Python. Functions without an
instruction are called by their addresses in this process, so nothing of it is cached beyond it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from cellc_compiler.backends.base import Backend, Built
from cellc_compiler.build import objects
from cellc_compiler.build.abi import PLACEHOLDER
from cellc_compiler.build.llvm_version import llvm_version
from cellc_compiler.ir.graph import Node, Value
from cellc_compiler.ir.types import prod
from cellc_compiler.loops.expr import Expr
from cellc_compiler.loops.index import Dyn, Index, Quot, Var
from cellc_compiler.loops.nest import Nest, Phase, Scratch, walk
from cellc_compiler.lower import instructions as ins
from cellc_compiler.lower.kernel import Kernel
from cellc_compiler.lower.lowered import Lowered, PrecomputedBlock
from cellc_compiler.lower.machine import Machine, Memory, NoRule
from cellc_compiler.lower.memory import Buffer as Temporary
from cellc_compiler.lower.plan import KernelPlan, Step, operand, result
from cellc_runtime import dtypes
from cellc_runtime.abi import CALLBACK_FAILED, FIRST_CALLBACK, MAIN, PRECOMPUTE, TABLE
from cellc_runtime.device import HostDevice
from cellc_runtime.program import Program
from cellc_runtime.records import replace
from cellc_runtime.target import Target, host_targets

from .scalar_rules import RULES
from .scalar_text import Buffer, Fn, V, value_type
from .scalar_text import Var as Variable

TARGET = replace(host_targets()[-1], name="scalar")


class ScalarDevice(HostDevice):
    """The processor, for programs of this back end."""

    name = "scalar"
    targets = {TARGET.name: TARGET}

    def check(self, program: Program) -> None:
        """It runs whatever this machine runs."""


def kernel(buffers: Sequence[tuple[dtypes.DType, Sequence[int]]],
           write: Callable[[Fn, list[Buffer]], None]) -> Kernel:
    """A kernel of one task over buffers of these types and shapes."""
    f = Fn(PLACEHOLDER, ["ptr %bufs", "i64 %lo", "i64 %hi"])
    table = V(f, "ptr", "%bufs")
    write(f, [Buffer(f, f.load("ptr", f.at(table, 8 * i)), d, s)
              for i, (d, s) in enumerate(buffers)])
    return Kernel(f.text(), 1, len(buffers), 1.0)


class NestWriter:
    """A loop nest: rows, phases and inner loops one in the other, everything in program order."""

    def __init__(self, f: Fn, nest: Nest, buffers: dict[Any, Buffer]) -> None:
        self.f, self.nest, self.buffers = f, nest, buffers
        self.vars: dict[Var, V] = {}
        self.refs: dict[int, V] = {}
        for x in (s.buffer for p in nest.phases for s in p.stores):
            if isinstance(x, Scratch):
                room = f.room(x.elements * x.dtype.itemsize)
                self.buffers[x] = Buffer(f, room, x.dtype, (x.elements,))

    def write(self) -> None:
        rows = self.nest.rows
        with self.f.loops([v.extent for v in rows]) as at:
            self.vars.update(zip(rows, at, strict=True))
            if self.nest.block:
                row = self.f.i64(0)
                for v, i in zip(rows, at, strict=True):
                    row = row * v.extent + i
                with self.f.when(row.op("urem", self.nest.block).cmp("eq", 0)):
                    for phase in self.nest.phases:
                        self.clear(phase)
            for phase in self.nest.phases:
                self.phase(phase)

    def clear(self, phase: Phase) -> None:
        """Zeros for the sums of a block."""
        with self.f.loops([v.extent for v in phase.loops]) as at:
            self.vars.update(zip(phase.loops, at, strict=True))
            for s in (s for s in phase.stores if s.adds):
                zero = self.f.const(value_type(s.value.dtype), 0)
                self.buffers[s.buffer].set(self.index(s.offset, {}), zero)

    def phase(self, phase: Phase) -> None:
        f = self.f
        sums = [self.start(r.kind, r.value.dtype) for r in phase.reduces]
        with f.loops([v.extent for v in phase.loops]) as at:
            self.vars.update(zip(phase.loops, at, strict=True))
            memo: dict[int, V] = {}
            values = [self.value(s.value, memo) for s in phase.stores]
            for r, held in zip(phase.reduces, sums, strict=True):
                position = at[-1] if at else f.i64(0)
                self.combine(r.kind, r.value.dtype, held, self.value(r.value, memo), position)
            for s, v in zip(phase.stores, values, strict=True):
                place, b = self.index(s.offset, memo), self.buffers[s.buffer]
                v = f.rounded(b.get(place) + v, s.value.dtype) if s.adds else v
                b.set(place, v, s.part or 0)
        for r, held in zip(phase.reduces, sums, strict=True):
            out = held[-1].get()
            wide = r.kind.startswith("arg") and r.result.dtype.itemsize < 8
            self.refs[id(r.result)] = out.to("i32", "trunc") if wide else out

    def start(self, kind: str, dtype: dtypes.DType) -> list[Variable]:
        """The accumulator, and for argmax and argmin the position, -1 before the first."""
        f, ty = self.f, value_type(dtype)
        if kind in ("sum", "any", "prod", "all"):
            return [f.var(f.const(ty, kind in ("prod", "all")))]
        up = kind.endswith("max")
        if dtype.is_float or ty == "i1":
            first: float = float("-inf" if up else "inf") if dtype.is_float else not up
        else:
            first = getattr(np.iinfo(dtype.numpy), "min" if up else "max")
        held = [f.var(f.const(ty, first))]
        return [*held, f.var(f.i64(-1))] if kind.startswith("arg") else held

    def combine(self, kind: str, dtype: dtypes.DType, held: list[Variable], x: V, at: V) -> None:
        old = held[0].get()
        if kind in ("sum", "prod", "any", "all"):
            held[0].set(old + x if kind in ("sum", "any") else old * x)
            return
        signed = dtype.kind == "int"
        better = old.less(x, signed) if kind.endswith("max") else x.less(old, signed)
        better = better | (x.isnan() & (old.isnan() ^ 1))
        if len(held) > 1:
            better = better | held[1].get().cmp("eq", -1)
            held[1].set(better.where(at, held[1].get()))
        held[0].set(better.where(x, old))

    def index(self, index: Index, memo: dict[int, V]) -> V:
        total = self.f.i64(index.const)
        for atom, c in index.terms:
            if isinstance(atom, Var):
                v = self.vars[atom]
            elif isinstance(atom, Dyn):
                v = self.value(atom.expr, memo)
            else:
                of, by = self.index(atom.of, memo), atom.by
                low = max(-(atom.of.bounds[0] // by), 0)  # makes the dividend non-negative
                of = of + low * by
                v = of.op("udiv", by) - low if isinstance(atom, Quot) else of.op("urem", by)
            total = total + v * c
        return total

    def value(self, e: Expr, memo: dict[int, V]) -> V:
        for x in walk([e]):
            if id(x) not in memo:
                memo[id(x)] = self.compute(x, memo)
        return memo[id(e)]

    def compute(self, e: Expr, memo: dict[int, V]) -> V:
        f, args = self.f, [memo[id(a)] for a in e.args]
        if e.op == "const":
            return f.const(value_type(e.dtype), e.payload)
        if e.op == "ref":
            return self.refs[id(e)]
        if e.op == "index":
            return self.index(e.payload, memo)
        if e.op == "load":
            at, b = self.index(e.payload.offset, memo), self.buffers[e.payload.buffer]
            if not args:
                return b.get(at, e.payload.part or 0)
            found = f.var(f.const(value_type(e.dtype), 0))
            with f.when(args[0]):
                found.set(b.get(at, e.payload.part or 0))
            return found.get()
        if e.op == "select":
            return args[0].where(args[1], args[2])
        if e.op == "cast":
            return f.convert(args[0], e.args[0].dtype, e.dtype)
        if e.op == "bitcast":
            raw = f.narrowed(args[0], e.args[0].dtype)
            kind = Buffer(f, raw, e.dtype, ())
            to = f.narrowed(f.const(value_type(kind.dtype), 0), kind.dtype).ty
            return f.widened(raw.to(to, "bitcast"), e.dtype)
        if e.op == "cmp":
            kind = e.args[0].dtype
            prefix = "o" if kind.is_float else "" if e.payload in ("eq", "ne") else \
                "s" if kind.kind == "int" else "u"
            return args[0].cmp("une" if kind.is_float and e.payload == "ne"
                               else prefix + e.payload, args[1])
        if e.op == "philox":
            return self.philox(*args)
        return f.rounded(f.arithmetic(e.op, e.dtype, args), e.dtype)

    def philox(self, index: V, seed: V, offset: V) -> V:
        """Philox4x32-10; see `ops/random.py`."""
        low = 0xFFFFFFFF
        block = index >> 2
        c = [block & low, block >> 32, offset & low, offset >> 32]
        k = [seed & low, seed >> 32]
        for _ in range(10):
            p, q = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
            c = [(q >> 32) ^ c[1] ^ k[0], q & low, (p >> 32) ^ c[3] ^ k[1], p & low]
            k = [(k[0] + 0x9E3779B9) & low, (k[1] + 0xBB67AE85) & low]
        odd, upper = (index & 1).cmp("ne", 0), (index & 2).cmp("ne", 0)
        word = upper.where(odd.where(c[3], c[2]), odd.where(c[1], c[0]))
        return word.to("i32", "trunc")


class MainWriter:
    """`cellc_main`, and the parts of `cellc_ahead`: calls, copies and control flow."""

    def __init__(self, f: Fn, kernels: dict[str, str]) -> None:
        self.f, self.kernels = f, kernels
        self.counters: dict[int, V] = {}

    def pointer(self, place: ins.Place) -> V:
        f, at = self.f, place.offset
        if isinstance(place.base, Temporary):
            base, at = V(f, "ptr", "%arena"), at + place.base.offset
        elif place.base == "const":
            base = V(f, "ptr", "%consts")
        else:
            base = f.load("ptr", f.at(V(f, "ptr", "%slots"), 8 * int(place.base)))
        p = f.at(base, at)
        for number, step in place.steps:
            p = f.at(p, self.counters[number] * step)
        return p

    def table(self, places: Sequence[ins.Place]) -> V:
        table = self.f.room(8 * len(places))
        for i, place in enumerate(places):
            self.f.store(self.pointer(place), self.f.at(table, 8 * i))
        return table

    def move(self, to: V, source: V, nbytes: int) -> None:
        with self.f.loop(nbytes) as i:
            self.f.store(self.f.load("i8", self.f.at(source, i)), self.f.at(to, i))

    def flag(self, place: ins.Place) -> V:
        return self.f.load("i8", self.pointer(place)).cmp("ne", 0)

    def run(self, instructions: Sequence[ins.Instruction]) -> None:
        f = self.f
        for i in instructions:
            if isinstance(i, ins.Call):
                name = "k_" + hashlib.sha256(i.kernel.code.encode()).hexdigest()[:20]
                self.kernels[name] = i.kernel.code
                f.do(f"call void @{name}({self.table(i.places)}, i64 0, i64 1)")
            elif isinstance(i, ins.Copy):
                self.move(self.pointer(i.to), self.pointer(i.source), i.nbytes)
            elif isinstance(i, ins.If):
                pred = self.flag(i.pred)
                for test, body in ((pred, i.then), (pred ^ 1, i.other)):
                    with f.when(test):
                        self.run(body)
            elif isinstance(i, ins.Loop):
                def test(i: ins.Loop = i) -> V:
                    self.run(i.test)
                    return self.flag(i.pred)

                with f.repeat(test):
                    self.run(i.body)
            elif isinstance(i, ins.For):
                trips = f.i64(i.length)
                if i.limit is not None:
                    limit = f.load("i64", self.pointer(i.limit))
                    trips = limit.less(trips).where(limit, trips)
                with f.loop(trips) as t:
                    at = self.counters[i.number] = trips - 1 - t if i.reverse else t
                    f.store(at, self.pointer(i.index))
                    self.run(i.body)
            elif isinstance(i, ins.Callback):
                entry = f.at(V(f, "ptr", f"@{TABLE}"), 8 * (FIRST_CALLBACK + i.number))
                code = f.emit("i32", f"call i32 {f.load('ptr', entry).ref}({self.table(i.places)})")
                self.leave(code.cmp("ne", 0), CALLBACK_FAILED)
            elif isinstance(i, ins.Check):
                self.check(i)
            else:
                raise NotImplementedError(f"this machine cuts no loops: {i}")

    def leave(self, test: V, code: int) -> None:
        with self.f.when(test):
            self.f.do(f"ret i32 {code}")
            self.f.lines.append(f"b{self.f.fresh()}:")

    def check(self, i: ins.Check) -> None:
        f, ty = self.f, f"i{i.bits}"
        checked = self.pointer(i.checked)
        with f.loop(i.count) as k:
            element = f.load(ty, f.at(checked, k, ty))
            with f.when((element - i.low).cmp("uge", i.high - i.low)):
                shown, offset = self.pointer(i.shown), 8
                f.store(element.to("i64", "sext" if i.signed else "zext"), shown)
                for place, nbytes in i.values:
                    self.move(f.at(shown, offset), self.pointer(place), nbytes)
                    offset += -(-nbytes // 8) * 8
                self.leave(f.const("i1", 1), i.number)


def function(name: str, parts: Sequence[Sequence[ins.Instruction]], kernels: dict[str, str],
             extra: Sequence[str] = ()) -> Fn:
    """`name(slots, arena, consts)`; of several parts it runs the one that `%part` names."""
    f = Fn(name, ["ptr %slots", "ptr %arena", "ptr %consts", *extra], "i32")
    writer = MainWriter(f, kernels)
    for number, part in enumerate(parts):
        chosen = V(f, "i64", "%part").cmp("eq", number) if extra else f.const("i1", 1)
        with f.when(chosen):
            writer.run(part)
    return f


class ScalarMachine(Machine):
    """Nests and rules as plain loops."""

    backend, target = "scalar", TARGET.name
    memory = Memory("memory", align=64, capacity=1 << 30)

    def plan(self, node: Node) -> KernelPlan:
        rule = RULES.find(node.op)
        if rule is None:
            raise NoRule(node, self.backend)
        values = [*node.operands, *node.results]
        roles = list(map(operand, range(len(node.operands))))
        made = kernel([(v.dtype, v.shape) for v in values], lambda f, bufs: rule(
            f, node, bufs[: len(roles)], bufs[len(roles):]))
        roles += map(result, range(len(node.results)))
        return KernelPlan((Step(made, tuple(roles)),))

    def nest(self, nest: Nest, streamed: Collection[Value]) -> tuple[Kernel, list[Any]]:
        found: dict[Any, None] = {}
        for e in walk(list(nest.roots())):
            if e.op == "load":
                found.setdefault(e.payload.buffer)
        found.update(dict.fromkeys(s.buffer for p in nest.phases for s in p.stores))
        values = [b for b in found if not isinstance(b, Scratch)]

        def write(f: Fn, bufs: list[Buffer]) -> None:
            NestWriter(f, nest, dict(zip(values, bufs, strict=True))).write()

        return kernel([(v.dtype, (prod(v.shape),)) for v in values], write), values

    def cycles(self, e: Expr) -> float:
        return 1.0


class ScalarBuild:
    """All is compiled at the end."""

    def __enter__(self) -> ScalarBuild:
        return self

    def __exit__(self, *args: object) -> None:
        pass

    def add(self, kernel: Kernel) -> None:
        pass

    def watch(self, say: Callable[[int, int], None]) -> None:
        pass

    def finish(self, lowered: Lowered, profile_behind: int | None = None) -> Built:
        kernels: dict[str, str] = {}
        functions = [function(MAIN, [lowered.instructions], kernels)]
        if lowered.precomputed:
            parts = [b.instructions for b in lowered.precomputed]
            functions.append(function(PRECOMPUTE, parts, kernels, ["i64 %part"]))
        text = "\n".join([f"@{TABLE} = external hidden global [0 x ptr]",
                          *(f"declare hidden void @{n}(ptr, i64, i64)" for n in kernels),
                          *(f.text("i32 0") for f in functions)])
        image = objects.build_image(text, list(kernels.items()), TARGET,
                                    callbacks=len(lowered.callbacks))
        return Built(image, len(kernels))

    def block_key(self, block: PrecomputedBlock, slot: int) -> tuple[bytes, bool]:
        text = function("block", [block.instructions], {}).text("i32 0")
        return text.encode(), "%consts" in text.split("{", 1)[1]


class ScalarBackend(Backend):
    """See the module."""

    name = "scalar"
    targets = {TARGET.name: TARGET}

    def default_target(self) -> Target:
        return TARGET

    def version(self) -> str:
        return f"{llvm_version()} in {os.getpid()}"

    def machine(self, target: Target) -> ScalarMachine:
        return ScalarMachine()

    def build(self, target: Target) -> ScalarBuild:
        return ScalarBuild()
