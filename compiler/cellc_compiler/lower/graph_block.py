"""The clusters of one graph as instructions, and what lowering shares over its graphs.

Kernels and plans that repeat are made once; buffers get lifetimes as instructions touch them.
Regions (branches, loops) are graphs of their own, lowered in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from typing import Any

from cellc_runtime import collectives

from ..fusion import overlap
from ..fusion.clusters import Cluster, Schedule, as_group, fuse
from ..ir.dims import estimate
from ..ir.graph import Graph, Node, Reuse, Value, attrs_key
from ..ir.op import lookup
from ..loops.build import build_nest, window_nest
from ..loops.expr import Access, Expr
from ..loops.nest import Nest, walk
from ..loops.reuse import keep_expensive
from . import checks
from .batch_loops import BatchLoop, Trips
from .inplace_concat import parts_of
from .instructions import Call, Callback, Check, Copy, For, If, Instruction, Loop, Place, Tasks
from .kernel import Kernel
from .lowered import HostCallback, KernelKey, OpenLoop, Precomputation, RunCheck, ShownNest
from .machine import Machine, Match, Pattern
from .memory import Buffer, Frame
from .nest_cache import CachedNest, ClusterNest, InPlaceRule, cluster_key
from .plan import KernelPlan, Role, RoleKind, Step, operand, result
from .precompute import is_frozen, prepacks
from .updates import PendingUpdates, Update, replaced_by, update_of


class Lowering:
    """Lowers one top-level graph and its regions."""

    def __init__(
        self, machine: Machine, precomputed: Precomputation | None = None,
        on_kernel: Callable[[Kernel], None] | None = None,
    ) -> None:
        self.machine = machine
        self.precomputed = precomputed
        self.on_kernel = on_kernel
        self.buffers: list[Buffer] = []
        self.constants = bytearray()
        self.pool: dict[bytes, int] = {}
        self.callbacks: list[HostCallback] = []
        self.checks: list[RunCheck] = []
        self.nests: list[ShownNest] = []
        self.inlined: dict[Value, Node] = {}
        self.plans: dict[Any, KernelPlan] = {}
        self.memo: dict[Any, Any] = {}
        self.nest_cache: dict[Any, CachedNest] = {}
        self.clock = 0
        self.loops = 0
        self.open_loops: list[tuple[int, set[Buffer]]] = []
        self.hoists: list[OpenLoop] = []
        self.frame: Frame | None = None
        self.outputs = range(0)
        self.replaced: set[int | str | Buffer] = set()
        self.kept: list[Buffer] = []

    # --- buffers --------------------------------------------------------------------------------

    def new_buffer(self, nbytes: int, name: str = "", shared: bool = False) -> Place:
        """A fresh arena buffer; in a task one of its own, unless it is `shared`."""
        frame = None if shared else self.frame
        b = Buffer(nbytes, name=name, frame=frame, align=self.machine.memory.align)
        (self.buffers if frame is None else frame.locals).append(b)
        return Place(b)

    def counter(self) -> int:
        """The number of a new loop."""
        self.loops += 1
        return self.loops - 1

    def touch(self, places: Sequence[Place]) -> None:
        """Count a use of each place now."""
        for p in places:
            if isinstance(p.base, Buffer):
                if p.base.first < 0:
                    p.base.first = self.clock
                p.base.last = max(p.base.last, self.clock)
                for _, used in self.open_loops:
                    used.add(p.base)

    def emit(self, out: list[Instruction], instruction: Instruction,
             places: Sequence[Place]) -> None:
        """Append an instruction that touches places."""
        self.clock += 1
        if isinstance(instruction, (Call, Copy)):
            instruction.in_task = self.frame is not None
        if isinstance(instruction, Call):
            instruction.clock = self.clock
            if any(p.base in self.replaced for p in instruction.places):
                instruction.kernel = self.machine.guarded(instruction.kernel)
            if self.on_kernel is not None:
                self.on_kernel(instruction.kernel)
        self.touch(places)
        out.append(instruction)

    def copy(self, out: list[Instruction], to: Place, source: Place, nbytes: int) -> None:
        """Append a copy unless it copies a place onto itself."""
        if to == source or not nbytes:
            return
        guarded = self.machine.guarded_copy(nbytes) if to.base in self.replaced else None
        made = Copy(to, source, nbytes) if guarded is None else Call(
            guarded, (source, to), "update")
        self.emit(out, made, (to, source))

    def finish(self) -> None:
        """All is lowered: what is kept lives until now."""
        for b in self.kept:
            b.first, b.last = 0, self.clock + 1

    def enter_loop(self) -> None:
        """Begin a loop: older values touched until `leave_loop` live until its end."""
        self.clock += 1
        self.open_loops.append((self.clock, set()))

    def leave_loop(self) -> None:
        """Extend lifetimes over the loop."""
        self.clock += 1
        start, used = self.open_loops.pop()
        for b in used:
            if b.first <= start:
                b.last = self.clock
            for _, outer in self.open_loops:
                outer.add(b)

    def scalar(self, value: Value) -> int:
        """Room in the pool for a number that follows from sizes."""
        at = len(self.constants)
        self.constants.extend(bytes(-(-value.type.nbytes // 64) * 64))
        return at

    def constant(self, value: Value) -> Place:
        """The place of a constant in the pool."""
        assert value.node is not None
        literal = value.node.attrs["value"]
        at = self.pool.get(literal.digest)
        if at is None:
            self.constants.extend(bytes(-len(self.constants) % 64))
            at = self.pool[literal.digest] = len(self.constants)
            self.constants.extend(literal.array.tobytes())
        return Place("const", at)

    # --- graphs ---------------------------------------------------------------------------------

    def block(
        self, graph: Graph, env: dict[Value, Place], wanted: dict[Value, Place],
        may_write: (
            Callable[[GraphBlock, Value, Cluster, InPlaceRule | None], Place | None] | None) = None,
    ) -> tuple[list[Instruction], GraphBlock]:
        """Lower the nodes of a graph.

        Args:
            env: places of the graph's inputs; filled with those of stored values.
            wanted: places where certain values should be computed.
            may_write: asked for each stored value not in `wanted`.
        """
        block = GraphBlock(self, graph, env, wanted, may_write)
        return block.run(), block


def plan_key(node: Node) -> tuple[Any, ...]:
    """Return the key of a plan: repeated blocks of a network ask for the same kernels."""
    return (node.op, tuple((v.type, prepacks(v)) for v in node.operands), attrs_key(node.attrs))


def resolve(roots: Iterable[Expr], schedule: Schedule) -> None:
    """Point loads at the values that own the buffers (an alias has none of its own)."""
    for e in walk(list(roots)):
        if e.op == "load":
            access: Access = e.payload
            value = schedule.root(access.buffer)
            if value is not access.buffer:
                object.__setattr__(e, "payload", Access(value, access.offset, access.part))


class _Window:
    """An `update_slice` whose result may be written over its first operand: then only the window
    is written. It is an `InPlaceRule`."""

    def __init__(self, block: GraphBlock, node: Node) -> None:
        self.block, self.node = block, node

    @classmethod
    def of(cls, block: GraphBlock, cluster: Cluster) -> _Window | None:
        """The only node of a cluster, if it is one."""
        node, *others = cluster.nodes
        if others or not lookup(node.op).window or node.result.dtype.is_complex \
                or any(s != 1 for s in node.attrs["step"] or ()):
            return None
        return cls(block, node)

    def same_element(self, old: Value, new: Value) -> bool:
        """See `InPlaceRule`: the first operand is read at the same element, the other may not."""
        return old not in self.block.reads_of(self.node.operands[1:])

    def is_there(self) -> bool:
        """Whether the result lies over the first operand."""
        first = self.block.schedule.root(self.node.operands[0])
        return self.block.env.get(first) == self.block.env[self.node.result]


class GraphBlock:
    """Lowers the clusters of one graph in order."""

    def __init__(
        self, low: Lowering, graph: Graph, env: dict[Value, Place], wanted: dict[Value, Place],
        may_write: Callable[[GraphBlock, Value, Cluster, InPlaceRule | None], Place | None] | None,
    ) -> None:
        self.low = low
        self.graph = graph
        self.env = env
        self.wanted = wanted
        self.may_write = may_write
        self.schedule: Schedule = fuse(graph)
        low.inlined.update({v: v.node for v in self.schedule.inline if v.node is not None})
        self.packed: dict[tuple[KernelKey, tuple[Value, ...]], Place] = {}
        low.machine.annotate(graph)
        for value, place in list(wanted.items()):
            self.wanted.setdefault(self.schedule.root(value), place)
        self.results = {self.schedule.root(v) for v in graph.results()}
        self.matches: dict[int, tuple[Pattern[Any], Match]] = {}
        self.absorbed: set[Node] = set()
        for pattern in low.machine.patterns:
            self._match(pattern)
        self.parts = parts_of(graph, self.schedule.root)
        self.out: list[Instruction] = []
        self.replaced = replaced_by(graph)
        self.pending = PendingUpdates()
        self.flying: dict[Value, tuple[Node, list[Place]]] = {}
        self.position = 0
        self.last_read: dict[Value, int] | None = None

    def run(self) -> list[Instruction]:
        """The instructions of all clusters."""
        for position, cluster in enumerate(self.schedule.clusters):
            self.position = position
            if self.pending.conflicts(self.needs(cluster), self.replaces(cluster)):
                self._emit_pending(position - 1)
            if self.flying:
                self._land(self.needs(cluster))
            if cluster.number in self.matches:
                pattern, match = self.matches[cluster.number]
                pattern.emit(self, match, cluster)
            elif cluster.nodes[0] in self.absorbed:
                continue  # runs where the match does that it is part of
            elif cluster.domain is not None:
                self._nest(cluster)
            else:
                (node,) = cluster.nodes
                self._single(node, cluster)
        self._emit_pending(self.position)
        self._land(list(self.flying))
        return self.out

    def _match(self, pattern: Pattern[Any]) -> None:
        """Take in what a pattern finds."""
        found = pattern.find(self)
        for match in found.values():
            for number in match.instead_of:
                self.matches.pop(number, None)
            self.absorbed.update(match.absorbed)
        self.matches.update((number, (pattern, match)) for number, match in found.items())

    def place(self, value: Value) -> Place:
        """Where a value is."""
        value = self.schedule.root(value)
        found = self.env.get(value)
        if found is None:
            node = value.node
            assert node is not None and node.is_constant, f"{value} has no place"
            found = self.env[value] = self.low.constant(value)
        return found

    def new_place(self, value: Value, cluster: Cluster, nest: InPlaceRule | None) -> Place:
        """Where a value will be computed."""
        found = self.wanted.get(value)
        if found is None and value in self.parts:
            found = self._part_place(value, cluster)
        if found is None and self.may_write is not None:
            found = self.may_write(self, value, cluster, nest)
        if found is None:
            found = self.low.new_buffer(value.type.nbytes, value.node.op if value.node else "")
        self.env[value] = found
        return found

    def _part_place(self, value: Value, cluster: Cluster) -> Place:
        """Where a part of a join belongs."""
        whole, offset = self.parts[value]
        return self._within(whole, offset, cluster)

    def _within(self, whole: Value, offset: int, cluster: Cluster) -> Place:
        begun = self.env.get(whole) or self.new_place(whole, cluster, None)
        return Place(begun.base, begun.offset + offset, begun.steps)

    def nodes_of(self, cluster: Cluster) -> Sequence[Node]:
        """The nodes that run with a cluster: its own, or those of the match that it ends."""
        found = self.matches.get(cluster.number)
        return found[1].nodes if found is not None else cluster.nodes

    def reads_later(self, value: Value) -> bool:
        """Whether a cluster after the current one reads the buffer of `value`."""
        if self.last_read is None:
            self.last_read = self._last_reads()
        return self.last_read.get(value, -1) > self.position

    def may_replace(
        self, old: Value, new: Value, cluster: Cluster, nest: InPlaceRule | None
    ) -> bool:
        """Whether `new`, computed by a cluster, may overwrite the buffer of `old`."""
        if old in self.results or self.reads_later(old) or any(
                old in map(self.schedule.root, node.operands) for node, _ in self.flying.values()):
            return False
        reads = any(old in self.reads(n) for n in self.nodes_of(cluster))
        return not reads or (nest is not None and nest.same_element(old, new))

    def needs(self, cluster: Cluster) -> Iterator[Value]:
        """The values with buffers that a cluster reads."""
        for node in self.nodes_of(cluster):
            yield from self.reads(node)

    def replaces(self, cluster: Cluster) -> list[Value]:
        """The inputs that what a cluster computes replaces."""
        return [self.replaced[r] for n in self.nodes_of(cluster) for r in n.results
                if r in self.replaced]

    def _last_reads(self) -> dict[Value, int]:
        """For each value with a buffer, the last cluster that reads it."""
        last: dict[Value, int] = {}
        for position, cluster in enumerate(self.schedule.clusters):
            for node in self.nodes_of(cluster):
                for value in self.reads(node):
                    last[value] = position
        return last

    def reads(self, node: Node) -> set[Value]:
        """The values with buffers that a node reads, inlining and aliases seen through."""
        return self.reads_of(node.operands)

    def reads_of(self, operands: Iterable[Value]) -> set[Value]:
        """The values with buffers that are read for these, inlining and aliases seen through."""
        out: set[Value] = set()
        stack = list(operands)
        while stack:
            v = stack.pop()
            if v in self.schedule.alias:
                stack.append(self.schedule.alias[v])
            elif v in self.schedule.inline:
                assert v.node is not None
                stack.extend(v.node.operands)
            else:
                out.add(v)
        return out

    # --- nests ----------------------------------------------------------------------------------

    def _nest(self, cluster: Cluster) -> None:
        stored = {r for n in cluster.nodes for r in n.results if r in self.schedule.stored}
        if not stored:
            return
        window = _Window.of(self, cluster)
        nest = self.cluster_nest(cluster, stored)
        update = self._as_update(cluster, nest, stored)
        if update is not None:
            if not self.pending.admits(update):
                self._emit_pending(self.position - 1)
            if update.is_small:
                self.pending.add(update)
            else:
                self._update([update])
            return
        for value in [r for n in cluster.nodes for r in n.results if r in stored]:
            self.new_place(value, cluster, window or nest)
        if window is not None and window.is_there():
            stored, nest = {window.node.operands[1]}, self._window_nest(window.node, nest)
        if all(v.type.size == 0 for v in stored):
            return
        kernel, values = nest.kernel(self._streamed(stored), self.low.machine.nest)
        places = tuple(self.place(v) for v in values)
        label = "+".join(n.op for n in cluster.nodes)
        self.low.nests.append(nest.shown(label, cluster.nodes))
        self.low.emit(self.out, Call(kernel, places, label, tuple(cluster.nodes)), places)

    def _streamed(self, stored: set[Value]) -> set[Value]:
        """The outputs that are written past the caches."""
        least = self.low.machine.memory.streamed
        return set() if least is None else {
            v for v in stored if estimate(v.type.nbytes) >= least
            and isinstance(base := self.place(v).base, int) and base in self.low.outputs}

    def _as_update(self, cluster: Cluster, nest: ClusterNest, stored: set[Value]) -> Update | None:
        """The cluster as an update of parameters; None if it is none, or not flat."""
        if not all(v in self.replaced for v in stored):
            return None
        found = nest.flat(self.low.machine)
        if found is None:
            return None
        kernel, values = found
        return update_of(cluster, nest, kernel, values, self.needs(cluster), stored, self.replaced)

    def _update(self, updates: Sequence[Update]) -> None:
        """Updates of one formula, by one call."""
        for u in updates:
            for value in [r for n in u.cluster.nodes for r in n.results if r in u.stored]:
                self.new_place(value, u.cluster, u.nest)
            label = "+".join(n.op for n in u.cluster.nodes)
            self.low.nests.append(u.nest.shown(label, u.cluster.nodes))
        kernel, heads = self.low.machine.many([u.kernel for u in updates])
        places = tuple(self.place(v) for u in updates for v in u.values)
        nodes = tuple(n for u in updates for n in u.cluster.nodes)
        self.low.emit(self.out, Call(kernel, places, label, nodes, heads=heads), places)

    def _emit_pending(self, after: int) -> None:
        """Emit the updates that have waited, after the cluster at this position."""
        self.position, now = after, self.position
        for updates in self.pending.updates.values():
            self._update(updates)
        self.pending, self.position = PendingUpdates(), now

    def cluster_nest(self, cluster: Cluster, stored: set[Value]) -> ClusterNest:
        """The loops of a cluster; those of one like it if there was one."""
        key, values = cluster_key(cluster, self.schedule, stored)
        cached = self.low.nest_cache.get(key)
        if cached is None:
            cached = self.low.nest_cache[key] = CachedNest(self.nest_of(cluster), values)
        return ClusterNest(cached, values)

    def _window_nest(self, node: Node, whole: ClusterNest) -> ClusterNest:
        """The loops that write the window of an `update_slice` alone, over the values of those that
        write the whole."""
        key = "window", whole.cached
        cached = self.low.nest_cache.get(key)
        if cached is None:
            nest = window_nest(node, self.schedule.inline)
            resolve(nest.roots(), self.schedule)
            cached = self.low.nest_cache[key] = CachedNest(nest, whole.values)
        return ClusterNest(cached, whole.values)

    def nest_of(self, cluster: Cluster) -> Nest:
        """The loops of a cluster."""
        stored = {r for n in cluster.nodes for r in n.results if r in self.schedule.stored}
        nest = build_nest(as_group(cluster), self.schedule.inline, stored)
        resolve(nest.roots(), self.schedule)
        keep_expensive(nest, self.low.machine.cycles, self.low.machine.row_room)
        return nest

    # --- single nodes ---------------------------------------------------------------------------

    def _single(self, node: Node, cluster: Cluster) -> None:
        rule = _CONTROL.get(node.op) or (GraphBlock.host if lookup(node.op).effect else None)
        if rule is not None:
            rule(self, node, cluster)
            return
        if node.op == "join_copy" and any(
                self.parts.get(self.schedule.root(v), (None,))[0] is node.result
                for v in node.operands):
            at = 0
            for v in node.operands:  # most are where they belong: of them nothing is copied
                to = self._within(node.result, at, cluster)
                self.low.copy(self.out, to, self.place(v), v.type.nbytes)
                at += v.type.nbytes
            return
        key = plan_key(node)
        plan = self.low.plans.get(key)
        if plan is None:
            plan = self.low.plans[key] = self.low.machine.plan(node)
        table = {operand(i): self.place(v) for i, v in enumerate(node.operands)}
        for i, r in enumerate(node.results):
            table[result(i)] = self.new_place(r, cluster, None)
        self.run_plan(plan, table, node.op, (node,), node.operands)

    def run_plan(
        self, plan: KernelPlan, table: dict[Role, Place], label: str, nodes: tuple[Node, ...],
        operands: Sequence[Value],
    ) -> None:
        """Run the steps of a plan; the roles of operands of the node are those of `operands`."""
        scratch = dict(plan.scratch)
        steps = [s for s in plan.steps if not self._prepack(s, table, scratch, label, plan)
                 and not self._hoist_packing(s, table, scratch, label, nodes)
                 and not self._share_packing(s, table, scratch, label, nodes, operands)]
        for role, nbytes in scratch.items():
            table[role] = self.low.new_buffer(nbytes, str(role))
        most_expensive = max((s.kernel.cost for s in steps if not s.packs), default=0.0)
        for step in steps:
            if step.kernel.ntasks:
                places = tuple(table[r] for r in step.roles)
                most = not step.packs and step.kernel.cost == most_expensive
                call = Call(step.kernel, places, label, nodes, most)
                self.low.emit(self.out, call, places)

    def _prepack(
        self, step: Step, table: dict[Role, Place], scratch: dict[Role, int], label: str,
        plan: KernelPlan,
    ) -> bool:
        """Move a step that packs what never changes out of the call; whether it could be."""
        *reads, packed = step.roles
        precomputed = self.low.precomputed
        if precomputed is None or not step.packs or not step.kernel.ntasks:
            return False
        if not all(r in table and precomputed.same(table[r]) for r in reads):
            return False
        sources = tuple(table[r] for r in reads)
        table[packed] = precomputed.packed(
            step, sources, scratch.pop(packed), f"{label} (weights)", plan.packing.get(packed))
        return True

    def _hoist_packing(
        self, step: Step, table: dict[Role, Place], scratch: dict[Role, int], label: str,
        nodes: tuple[Node, ...],
    ) -> bool:
        """Move a step that packs what a loop does not change before it; whether it could be."""
        *reads, packed = step.roles
        if not step.packs or not all(r in table for r in reads):
            return False
        sources = tuple(table[r] for r in reads)
        for loop in self.low.hoists:
            if loop.invariant.issuperset(sources):
                key = step.kernel.key, sources
                place = loop.packed.get(key)
                if place is None:
                    place = loop.packed[key] = self.low.new_buffer(
                        scratch[packed], str(packed), shared=True)
                    assert isinstance(place.base, Buffer)
                    place.base.first = place.base.last = loop.clock
                    loop.before.append(Call(step.kernel, (*sources, place), label, nodes, False))
                table[packed] = place
                del scratch[packed]
                return True
        return False

    def _share_packing(
        self, step: Step, table: dict[Role, Place], scratch: dict[Role, int], label: str,
        nodes: tuple[Node, ...], operands: Sequence[Value],
    ) -> bool:
        """Run a step that packs one operand, unless it ran for another node already; whether it
        is such a step."""
        *reads, packed = step.roles
        if not step.packs or not step.kernel.ntasks \
                or any(r.kind is not RoleKind.OPERAND for r in reads):
            return False
        key = step.kernel.key, tuple(self.schedule.root(operands[int(r.name)]) for r in reads)
        place = self.packed.get(key)
        if place is None:
            place = self.packed[key] = self.low.new_buffer(scratch[packed], str(packed))
            places = (*(table[r] for r in reads), place)
            self.low.emit(self.out, Call(step.kernel, places, label, nodes, False), places)
        table[packed] = place
        del scratch[packed]
        return True

    def host(self, node: Node, cluster: Cluster) -> None:
        """A host callback: it reads the operands and writes the results. A collective that others
        need not wait for is started here."""
        places = [self.place(v) for v in node.operands]
        if self._may_sum_in_place(node):
            self.env[node.result] = places[0]
            places *= 2
        else:
            places += [self.new_place(r, cluster, None) for r in node.results]
        starts = self.low.machine.overlaps and overlap.exchanges(node) and self._is_read_late(node)
        asks = self.low.machine.asks and (
            node.op in collectives.KINDS or node.op in collectives.MESSAGES)
        self._call_host(node, collectives.START if starts else collectives.ASK if asks else "",
                        places, places)
        if starts:
            self.flying[node.result] = node, places

    def _may_sum_in_place(self, node: Node) -> bool:
        """Whether a sum over ranks may replace what it adds: a temporary that nobody reads later,
        nor what is joined in it. (The ranks' gradients pass the memory once less.)"""
        if node.op not in collectives.IN_PLACE or not self.low.machine.overlaps \
                or node.result in self.wanted or node.result in self.parts:
            return False
        old = self.schedule.root(node.operands[0])
        joined = [part for part, (whole, _) in self.parts.items() if whole is old]
        return (
            old.node is not None and not old.node.is_constant and old not in self.parts
            and old.reuse is not Reuse.FROZEN and isinstance(self.env[old].base, Buffer)
            and not any(v in self.results or self.reads_later(v) for v in (old, *joined))
            and not any(old is self.schedule.root(v)
                        for flown, _ in self.flying.values() for v in flown.operands))

    def _call_host(
        self, node: Node, phase: str, given: Sequence[Place], touched: Sequence[Place]
    ) -> None:
        self.low.callbacks.append(HostCallback(node, phase))
        call = Callback(len(self.low.callbacks) - 1, tuple(given), node.op)
        self.low.emit(self.out, call, touched)

    def _is_read_late(self, node: Node) -> bool:
        """Whether something runs between the current cluster and what reads a node's result."""
        following = self.schedule.clusters[self.position + 1 : self.position + 2]
        return bool(node.result.type.size) and not any(
            node.result in self.needs(c) for c in following) and bool(following)

    def _land(self, values: Iterable[Value]) -> None:
        """Wait for what was started into some of these values; its operand stays until then."""
        for value in values:
            if value in self.flying:
                node, places = self.flying.pop(value)
                self._call_host(node, collectives.WAIT, places[-1:], places)

    def check(self, node: Node, cluster: Cluster) -> None:
        """An error return, with what its message shows put aside."""
        checked, *rest = node.operands
        limits = checks.bounds(checked.dtype, node.attrs["low"], node.attrs["high"])
        if limits is None or not checked.type.size:
            return  # no element can be outside
        shown = self.low.new_buffer(checks.shown_bytes(node), "shown")
        assert isinstance(shown.base, Buffer)
        self.low.checks.append(RunCheck(node, shown.base))
        if self.low.machine.defers_checks:
            self.low.kept.append(shown.base)
        values = tuple((self.place(v), v.type.nbytes) for v in rest)
        made = Check(
            len(self.low.checks), self.place(checked), checked.type.size,
            8 * checked.dtype.itemsize, checked.dtype.kind == "int", *limits, shown, values,
        )
        self.low.emit(self.out, made, (made.checked, shown, *(p for p, _ in values)))

    def cond(self, node: Node, cluster: Cluster) -> None:
        """Both branches write the same result places."""
        pred = self.place(node.operands[0])
        results = [self.new_place(r, cluster, None) for r in node.results]
        captures = [self.place(v) for v in node.operands[1:]]
        branch = If(pred)
        self.low.emit(self.out, branch, [pred, *results])
        # Branches exclude each other but are laid out in sequence, so results must live through.
        for region, body in zip(node.regions, (branch.then, branch.other), strict=True):
            for v, given in zip(region.inputs, node.operands[1:], strict=True):
                v.reuse = Reuse.FROZEN if is_frozen(given) else v.reuse
            self._region(region, captures, results, body)
            self.low.touch(results)

    def _region(
        self, region: Graph, inputs: Sequence[Place], targets: Sequence[Place],
        out: list[Instruction],
    ) -> None:
        """Lower a region so that its outputs end in `targets`."""
        env = dict(zip(region.inputs, inputs, strict=True))
        held = {place: v for v, place in env.items()}
        wanted: dict[Value, Place] = {}
        # Slots too: what a loop carries may live in an output or in an input updated in place.
        busy = {p.base for p in inputs}
        for v, p in zip(region.outputs, targets, strict=True):
            if v.node is not None and not v.node.is_constant and v not in wanted \
                    and p.base not in busy:
                wanted[v] = p

        def in_place(
            block: GraphBlock, value: Value, cluster: Cluster, nest: InPlaceRule | None
        ) -> Place | None:
            """The place of a carried value that nothing reads any more, for its next value."""
            for v, target in zip(region.outputs, targets, strict=True):
                old = held.get(target)
                if v is value and old is not None and block.may_replace(old, value, cluster, nest):
                    return target
            return None

        body, block = self.low.block(region, env, wanted, in_place)
        out.extend(body)
        self._copy_all(block, region, targets, out)

    def _copy_all(
        self, block: GraphBlock, region: Graph, targets: Sequence[Place], out: list[Instruction]
    ) -> None:
        """Copy outputs to targets as if at once: a source that is a target goes aside first."""
        moves = [(t, block.place(v), v.type.nbytes)
                 for v, t in zip(region.outputs, targets, strict=True)]
        moves = [(t, s, n) for t, s, n in moves if t != s]
        while moves:
            sources = {s for _, s, _ in moves}
            ready = [m for m in moves if m[0] not in sources]
            for t, s, n in ready:
                self.low.copy(out, t, s, n)
            moves = [m for m in moves if m[0] in sources]
            if not ready:  # a cycle: one of them goes aside
                t, s, n = moves[0]
                aside = self.low.new_buffer(n, "aside")
                self.low.copy(out, aside, s, n)
                moves[0] = t, aside, n

    def while_(self, node: Node, cluster: Cluster) -> None:
        """Carried values live in buffers of their own."""
        n = node.attrs["carried"]
        carried = [self.new_place(r, cluster, None) for r in node.results]
        init = [self.place(v) for v in node.operands[:n]]
        captures = [self.place(v) for v in node.operands[n:]]
        for to, source, v in zip(carried, init, node.results, strict=True):
            self.low.copy(self.out, to, source, v.type.nbytes)
        pred = self.low.new_buffer(1, "pred")
        loop = Loop(pred)
        self._open([v for r in node.regions for v in r.inputs[n:]], captures)
        self.low.emit(self.out, loop, [pred, *carried])
        self.low.enter_loop()
        self._region(node.regions[0], [*carried, *captures], [pred], loop.test)
        self._region(node.regions[1], [*carried, *captures], carried, loop.body)
        self._close([pred, *carried, *captures])

    def scan(self, node: Node, cluster: Cluster) -> None:
        """Rows of sequences and outputs are walked by the loop counter."""
        n, k = node.attrs["carried"], node.attrs["sequences"]
        first = n + k + bool(node.attrs["limited"])
        parts = self.low.machine.cut(node) if self.low.frame is None else None
        carried = [self.new_place(r, cluster, None) for r in node.results[:n]]
        stacked = [self.new_place(r, cluster, None) for r in node.results[n:]]
        init = [self.place(v) for v in node.operands[:n]]
        for to, source, v in zip(carried, init, node.results, strict=False):
            self.low.copy(self.out, to, source, v.type.nbytes)
        number = self.low.counter()
        trips = Trips(
            number, node, carried,
            [self._row(self.place(v), v, number) for v in node.operands[n : n + k]],
            [self.place(v) for v in node.operands[first:]],
            [self._row(p, v, number) for p, v in zip(stacked, node.results[n:], strict=True)],
            self.place(node.operands[n + k]) if node.attrs["limited"] else None)
        if parts is not None:
            self._tasks(trips, parts)
            return
        self._open(node.regions[0].inputs[n + k + 1 :], trips.captures)
        index = self._trips(trips, node.regions[0], self.out)
        self._close([index, *trips.places()])

    def _trips(self, trips: Trips, body: Graph, out: list[Instruction]) -> Place:
        """The loop itself; the place of its counter."""
        index = self.low.new_buffer(8, "step")
        attrs = trips.node.attrs
        loop = For(trips.number, attrs["length"], attrs["reverse"], index, limit=trips.limit)
        self.low.emit(out, loop, [index, *trips.places()])
        self.low.enter_loop()
        self._region(body, [*trips.carried, *trips.xs, index, *trips.captures],
                     [*trips.carried, *trips.ys], loop.body)
        return index

    def _tasks(self, trips: Trips, parts: BatchLoop) -> None:
        """A loop cut by rows: each task makes all trips, with temporaries of its own."""
        tasks = Tasks(self.low.counter(), parts.tasks)
        frame = Frame(tasks.number)
        whole = [Place(frame.whole), *trips.places()]
        first = len(parts.batched) - len(trips.captures)
        alike = [not own for own in parts.batched[first:]]
        self._open(compress(parts.body.inputs[first:], alike), compress(trips.captures, alike))
        self.low.emit(self.out, tasks, whole)
        self.low.frame = frame
        index = self._trips(trips.cut(tasks.number, parts), parts.body, tasks.body)
        self._close([index, *whole])
        self.low.frame = None
        self.low.buffers.append(frame.close(parts.tasks))

    def _open(self, frozen: Iterable[Value], places: Iterable[Place]) -> None:
        """Begin the body of a loop, which lasts until `_close`; these of its inputs, at these
        places, are the same on every trip."""
        for v in frozen:
            v.reuse = Reuse.FROZEN
        self.low.clock += 1
        self.low.hoists.append(OpenLoop(self.low.clock, set(places)))

    def _close(self, places: Sequence[Place]) -> None:
        """End of a loop, the last instruction, which touches these places."""
        self.low.clock += 1
        self.low.touch(places)
        self.low.leave_loop()
        self.out[-1:-1] = self.low.hoists.pop().before

    @staticmethod
    def _row(place: Place, value: Value, number: int) -> Place:
        rows = value.shape[0]
        step = value.type.nbytes // rows if rows else 0
        return Place(place.base, place.offset, (*place.steps, (number, step)))


_CONTROL: dict[str, Callable[[GraphBlock, Node, Cluster], None]] = {
    "cond": GraphBlock.cond, "while": GraphBlock.while_, "scan": GraphBlock.scan,
    "check": GraphBlock.check,
}
