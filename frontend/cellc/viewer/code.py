"""The lowered form of a graph, for a report: calls of kernels, loop nests, LLVM text, assembly, and
where each temporary lies in the arena and when."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cellc_compiler import backends, driver
from cellc_compiler.build.emit import EmitError
from cellc_compiler.build.listing import Listing, listing
from cellc_compiler.build.llvm_version import llvm_version
from cellc_compiler.ir.graph import Graph, Value
from cellc_compiler.loops.nest import print_nest
from cellc_compiler.lower import costs, memory
from cellc_compiler.lower.instructions import Call, Callback, Copy, places_of, walk
from cellc_compiler.lower.kernel import Kernel
from cellc_compiler.lower.lowered import PrecomputedBlock, ShownNest
from cellc_runtime import cache, dtypes
from cellc_runtime.program import Slot
from cellc_runtime.target import Target

from .ledger import Ledger

Json = dict[str, Any]
Say = Callable[[str], None]


class Code:
    """A lowered graph.

    Args:
        graph: after all passes; it is used up.
        ledger: has numbers for its nodes.

    Attributes:
        texts: JSON texts, one for each distinct kernel: LLVM text, assembly, lines.
    """

    def __init__(self, graph: Graph, target: Target, ledger: Ledger, say: Say) -> None:
        self.target, self.ledger, self.say = target, ledger, say
        self.slots = driver.graph_slots(graph)
        self.inputs = list(graph.inputs)
        self.lowered = driver.lower(graph, target)
        self.slots += [Slot(f"kept{i}", dtypes.uint8, (b.nbytes,), "kept")
                       for i, b in enumerate(self.lowered.precomputed)]
        self.timed = [i for i in walk(self.lowered.instructions)
                      if isinstance(i, (Call, Copy, Callback))]
        self.texts: list[str] = []
        self._kernels: dict[Any, int] = {}

    def document(self, seconds: Sequence[float] | None) -> Json:
        """Everything but the texts of kernels. `seconds`: what each timed instruction took, if that
        is known."""
        arena = memory.plan(b for b in self.lowered.buffers if b.first >= 0)
        calls = [self._call(i) for i in self.timed]
        for call, time in zip(calls, seconds or (), strict=False):
            call["time"] = time
        nests = self._nests()
        for call in calls:
            found = nests.get(tuple(call["nodes"]))
            if found and call["main"]:
                call["nest"] = "\n".join(found)
        packed = [self._packed(b) for b in self.lowered.precomputed]
        self._compile()
        return {"target": self.target.name, "calls": calls, "arena": arena, "packed": packed,
                "buffers": self._buffers()}

    def labels(self) -> list[str]:
        """The ops of each timed instruction."""
        return [costs.label(i) for i in self.timed]

    def _uids(self, call: costs.Timed) -> list[int]:
        nodes = call.nodes if isinstance(call, Call) else ()
        found = (self.ledger.number(n) for n in nodes)
        return [u for u in found if u is not None]

    def _call(self, i: costs.Timed) -> Json:
        out: Json = {"label": costs.label(i), "family": costs.family(i), "nodes": self._uids(i),
                     "flops": costs.flops(i), "bytes": costs.nbytes(i, self.slots),
                     "main": not isinstance(i, Call) or i.most_expensive}
        if isinstance(i, Call):
            out |= {"clock": i.clock, "tasks": i.kernel.ntasks, "kernel": self._kernel(i.kernel),
                    "cost": round(i.kernel.cost)}
        return out

    def _kernel(self, kernel: Kernel) -> int:
        return self._kernels.setdefault(kernel.code, len(self._kernels))

    # --- loop nests -----------------------------------------------------------------------------

    def _nests(self) -> dict[tuple[int, ...], list[str]]:
        """By the nodes of the kernel that holds them."""
        out: dict[tuple[int, ...], list[str]] = {}
        for shown in self.lowered.nests:
            uids = tuple(u for n in shown.nodes if (u := self.ledger.number(n)) is not None)
            text = f"{shown.label}\n{print_nest(shown.nest, self._names(shown))}"
            known = out.setdefault(uids, [])
            if text not in known:
                known.append(text)
        return out

    def _names(self, shown: ShownNest) -> Callable[[Any], str]:
        """Buffers by the parameter, or by the op and number of the node, whose value they hold."""
        own: Mapping[Value, Value] = shown.own

        def name(buffer: Any) -> str:
            value = own.get(buffer, buffer)
            if not isinstance(value, Value):
                return "scratch"
            uid = self.ledger.number(value.node) if value.node is not None else None
            if value.node is None or uid is None:
                return f"%{value.name or 'value'}"
            return f"%{value.node.op}.{uid}"

        return name

    # --- memory ---------------------------------------------------------------------------------

    def _buffers(self) -> list[list[Any]]:
        """Name, bytes, offset, first and last moment, and the call that first writes it."""
        writer: dict[int, int] = {}
        for number, i in enumerate(self.timed):
            for place in places_of(i):
                if isinstance(place.base, memory.Buffer):
                    writer.setdefault(id(place.base), number)
        return [[b.name or "scratch", b.size, b.offset, b.first, b.last, writer.get(id(b), -1)]
                for b in self.lowered.buffers if b.first >= 0]

    def _packed(self, block: PrecomputedBlock) -> Json:
        labels = [i.label for i in walk(block.instructions) if isinstance(i, Call)]
        sources = {p.base for i in walk(block.instructions) for p in places_of(i)}
        names = [self._slot(p) for p in sorted(s for s in sources if isinstance(s, int))]
        return {"label": " + ".join(dict.fromkeys(labels)), "bytes": block.nbytes,
                "of": [n for n in names if n]}

    def _slot(self, number: int) -> str:
        slot: Slot | None = self.slots[number] if number < len(self.inputs) else None
        return slot.name if slot is not None and slot.kind == "param" else ""

    # --- text -----------------------------------------------------------------------------------

    def _compile(self) -> None:
        """The text and assembly of every distinct kernel, made once and cached."""
        machine = backends.backend_of(self.target).machine(self.target)
        for number, code in enumerate(self._kernels, 1):
            self.say(f"assembly, {number} of {len(self._kernels)} kernels")
            found = machine.llvm_text(code)
            if found is None:
                self.texts.append(json.dumps({"llvm": repr(code), "asm": "", "lines": []}))
                continue
            shown = self._listing(*found)
            self.texts.append(json.dumps(
                {"llvm": found[0], "asm": shown.assembly, "lines": shown.lines}))

    def _listing(self, code: str, target: Target) -> Listing:
        store = cache.default()
        key = cache.make_key("listing", code, target.name, llvm_version())
        found = store.get(key)
        if found is not None:
            text, lines = json.loads(found)
            return Listing(text, lines)
        try:
            made = listing(code, target)
        except EmitError as e:
            return Listing(f"# not available: {e}", [0])
        store.put(key, json.dumps([made.assembly, made.lines]).encode())
        return made
