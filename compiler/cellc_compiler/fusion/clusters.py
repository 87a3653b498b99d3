"""Fusion: which nodes are computed in one loop nest.

Views and cheap single-use elementwise nodes are expanded where they are read. The others become
members of groups: a node joins the group of a producer (or of a sibling that reads the same
buffer) when it can be computed at that group's canonical index and no cycle arises. Fusion
merges loops and changes no rounding.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from heapq import heapify, heappop, heappush, nlargest

from cellc_runtime.records import dataclass, field

from ..ir.dims import estimate
from ..ir.graph import Graph, Node, Reuse, Value
from ..ir.op import has_effect, lookup
from ..ir.types import prod
from ..loops.build import Domain, Group, Incompatible, NestBuilder, block_rows, joined, piece
from ..loops.expr import Expr
from ..loops.nest import walk
from ..ops.shape import Reshape, Transpose
from ..ops.slice import Pad
from . import overlap, regroup
from .value_numbering import ValueNumbers

SERIAL_LIMIT = 1 << 15
"""Elements above which a nest must have several rows to be worth fusing into a reduction."""

SCALARS = 16
"""Elements up to which a node is not worth that a nest waits for its other operands: the nest
could then not be joined to what those depend on."""

DEEPEST = 32
"""Nodes expanded into one another at most: what builds and writes expressions is recursive."""

_WORTH_MOVING = 1 << 12
"""Elements from which on a tensor is copied so that its rows lie in one piece."""

_ROW_RUN = 32
"""Elements of a row that lie together, enough to be read where they are."""

_FRAMED = 12
"""Nodes between a value that several read and the pad that they all end in, at most."""

_WIDEST_FRAME = 4
"""Elements of a padded tensor for each of the tensor at most, for that to be computed in it."""

LONGEST = 128
"""Nodes of one nest that depend on one another at most, for the same reason."""


def _sums_rows(node: Node) -> bool:
    """Whether a node reduces the last axis of its operand."""
    rule = lookup(node.op).reduction
    rank = node.operands[0].type.rank if node.operands else 0
    return rule is not None and rank - 1 in rule(node).axes


def _run(node: Node) -> int:
    """How many elements of a row lie together in memory where a transposition is reshaped."""
    turned = node.operands[0].node
    if node.op != Reshape.name or turned is None or turned.op != Transpose.name:
        return _ROW_RUN
    perm, dims, run = turned.attrs["perm"], turned.result.shape, 1
    for i in reversed(range(len(perm))):
        if perm[i] != i:
            break
        run *= estimate(dims[i])
    return run


def fusable(node: Node) -> bool:
    """Whether the node can live in a loop nest."""
    op = lookup(node.op)
    if node.is_constant or node.regions:
        return False
    if op.reduction is not None:
        return not node.operands[0].dtype.is_complex
    return op.value is not None


@dataclass(slots=True, eq=False)
class Cluster:
    """A group in the making.

    Attributes:
        number: that of its bit in sets of clusters.
        ancestors: what must run before it, as a set of bits.
        before, after: what it follows and what follows it at once, by number.
        structure: the number of what its members compute; `order` has their places.
        moves: whether it stores views, so that reductions find rows in one piece.
    """

    number: int
    domain: Domain | None
    nodes: list[Node] = field(default_factory=list)
    ancestors: int = 0
    before: dict[int, Cluster] = field(default_factory=dict)
    after: dict[int, Cluster] = field(default_factory=dict)
    value_number: int = -1
    order: dict[Node, int] = field(default_factory=dict)
    builder: NestBuilder | None = None
    moves: bool = False


@dataclass(slots=True)
class Schedule:
    """The result: clusters in an order that respects dependencies."""

    clusters: list[Cluster]  # loop nests (`domain` set) and single nodes of other kinds
    inline: set[Value]  # values expanded where they are read
    alias: dict[Value, Value]  # value -> value whose buffer it shares (a reshape of a buffer)
    stored: set[Value]  # values that are written to buffers

    def root(self, value: Value) -> Value:
        """The value whose buffer this one shares."""
        while value in self.alias:
            value = self.alias[value]
        return value


class Fuser:
    """Runs fusion over one graph (regions are fused on their own)."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.users = graph.users()
        self.results = set(graph.results())
        self.position = {node: i for i, node in enumerate(graph.nodes)}
        self.inline: set[Value] = set()
        self.alias: dict[Value, Value] = {}
        self.cluster_of: dict[Node, Cluster] = {}
        self.clusters: list[Cluster] = []
        self.readers: dict[Value, dict[int, Cluster]] = {}
        self.value_numbers = ValueNumbers(self.inline)
        self.seen_through: dict[Node, tuple[Value, ...]] = {}
        self.built: dict[Hashable, bool] = {}
        self.depth: dict[Value, int] = {}
        self.last_effect: Cluster | None = None
        self.follows: dict[int, Cluster] = {}

    def run(self) -> Schedule:
        """Fuse; see `Schedule`."""
        for node in self.graph.nodes:
            if node.is_constant:
                continue
            if self._is_alias(node):
                self.alias[node.result] = node.operands[0]
            elif fusable(node) and self._inlines(node):
                self.inline.update(node.results)
                self.depth[node.result] = self._depth(node)
            else:
                self._place(node)
                for r in node.results:
                    self.depth[r] = self._chain(node, self.cluster_of[node])
        regroup.recompute(self)
        regroup.merge(self)
        ordered = self._ordered()
        for cluster in ordered:  # what it took to find them
            cluster.builder, cluster.before, cluster.after, cluster.ancestors = None, {}, {}, 0
        return Schedule(ordered, self.inline, self.alias, self.stored_values())

    # --- inlining -------------------------------------------------------------------------------

    def _is_alias(self, node: Node) -> bool:
        """A reshape of something that has a buffer anyway, read by something that needs one."""
        if node.op == "after":  # what is read again much later must not be copied
            return node.operands[0] not in self.inline and node.result not in self.results \
                and not all(map(fusable, self.users.get(node.result, [])))
        if not lookup(node.op).may_alias:
            return False
        source = node.operands[0].node
        if node.result in self.results:  # its buffer may be that of a kernel's result
            return source is not None and not source.is_constant and not source.regions \
                and not fusable(source) and node.operands[0] not in self.results
        has_buffer = source is None or source.is_constant or not fusable(source)
        if not has_buffer and node.operands[0] in self.alias:
            has_buffer = True
        users = self.users.get(node.result, [])
        if self.users.get(node.operands[0]) == [node] and node.operands[0] not in self.results:
            # One of the two needs a buffer; that of the source suits the epilogue of a product.
            has_buffer = has_buffer or not any(map(fusable, users))
        elif source in self.cluster_of and node.operands[0] not in self.results:
            # Stored as it is, it serves whoever reads it; a copy of another shape would not.
            has_buffer = has_buffer or not any(map(fusable, users))
        return has_buffer and not all(map(fusable, users))

    def _inlines(self, node: Node) -> bool:
        op = lookup(node.op)
        users = self.users.get(node.results[0], [])
        if op.value is None or len(node.results) != 1 or node.result in self.results:
            return False
        if not users or not all(map(fusable, users)):
            return False
        if len(users) == 1 and self._is_alias(users[0]):
            return False
        if self._depth(node) > DEEPEST:
            return False
        if op.cost == "free":
            return not self._scattered(node)
        if len(users) > 1:
            return self._framed(node)
        user = users[0]
        reduces = lookup(user.op).reduction is not None
        space = estimate(prod(user.operands[0].shape) if reduces else user.results[0].type.size)
        own = estimate(node.result.type.size)
        if user.op == Pad.name and space <= _WIDEST_FRAME * own:
            return True  # every element is read once; what is added around is not read
        return space <= own or (op.cost == "cheap" and self._shallow(node))

    def _scattered(self, node: Node) -> bool:
        """Whether a row of a result is added up (or its maximum found) whose elements lie far
        apart where they come from: nests without reductions move those by tiles."""
        if estimate(node.result.type.size) < _WORTH_MOVING:
            return False
        users = self.users[node.result]
        if node.op == Transpose.name and any(
                u.op == Reshape.name and self._row_summed(u) and _run(u) < _ROW_RUN
                for u in users):
            return True
        if not self._row_summed(node):
            return False
        self.inline.add(node.result)
        builder = NestBuilder(Domain(node.result.shape), (), self.inline)
        found = builder.read(node.result, builder.full, None)
        self.inline.discard(node.result)
        loads = [e for e in walk([found]) if e.op == "load"] if isinstance(found, Expr) else []
        steps = [e.payload.offset.coefficient(builder.rows[-1]) for e in loads]
        return any(_run(node) < _ROW_RUN if s is None else estimate(s) > 1 for s in steps)

    def _row_summed(self, node: Node) -> bool:
        """Whether a reduction along the last axis reads a result, or what is made of it."""
        return any(_sums_rows(u) or (lookup(u.op).elementwise and any(
            map(_sums_rows, self.users.get(u.result, ()))))
            for u in self.users.get(node.result, ()))  # a result of the graph alone has none

    def _framed(self, node: Node) -> bool:
        """Whether all that reads a result, element by element, ends in one pad (as x does in that
        of x sigmoid(x)), which then computes each element once."""
        own = node.result
        reached = dict.fromkeys(self.users[node.result])
        for _ in range(_FRAMED):
            first = min(reached, key=self.position.__getitem__)
            if len(reached) == 1 and first.op == Pad.name:
                return estimate(first.result.type.size) <= _WIDEST_FRAME * estimate(own.type.size)
            if not lookup(first.op).elementwise or first.result.shape != own.shape \
                    or first.result in self.results:
                return False
            del reached[first]
            reached.update(dict.fromkeys(self.users.get(first.result, ())))
        return False

    def _depth(self, node: Node) -> int:
        """How many nodes are expanded into one another where this one is read."""
        return 1 + max((self.depth[v] for v in node.operands if v in self.inline), default=0)

    def _chain(self, node: Node, cluster: Cluster) -> int:
        """How many nodes depend on one another up to this one, computed in the cluster."""
        longest, stack = 0, [(v, 1) for v in node.operands]
        seen: set[Value] = set()
        while stack:
            v, behind = stack.pop()
            if v in self.inline:
                if v in seen:
                    continue
                seen.add(v)
                assert v.node is not None
                stack.extend((o, behind + 1) for o in v.node.operands)
            elif v in self.alias:
                stack.append((self.alias[v], behind))
            else:
                inside = v.node is not None and self.cluster_of.get(v.node) is cluster
                longest = max(longest, behind + (self.depth[v] if inside else 0))
        return longest

    def _shallow(self, node: Node) -> bool:
        """No expensive work would be repeated by a broadcast."""
        return all(
            v not in self.inline or v.node is None
            or lookup(v.node.op).cost in ("free", "cheap") for v in node.operands
        )

    # --- clusters -------------------------------------------------------------------------------

    def sources(self, node: Node) -> tuple[Value, ...]:
        """The values with buffers (or members) that a node reads, inlining seen through; each
        once."""
        found = self.seen_through.get(node)
        if found is None:
            out: dict[Value, None] = {}
            for v in node.operands:
                if v in self.inline or v in self.alias:
                    out.update(dict.fromkeys(self.behind(v)))
                else:
                    out[v] = None
            found = self.seen_through[node] = tuple(out)
        return found

    def behind(self, v: Value) -> tuple[Value, ...]:
        """Return the buffered values that a value is computed from."""
        if v in self.inline:
            assert v.node is not None
            return self.sources(v.node)
        if v in self.alias:
            assert v.node is not None  # (what an alias comes after counts too)
            others = (self.alias[v], *v.node.operands[1:])
            return tuple([s for o in others for s in self.behind(o)])
        return (v,)

    def set_inline(self, value: Value, inline: bool) -> None:
        """Expand a value wherever it is read, or no longer."""
        (self.inline.add if inline else self.inline.discard)(value)
        stack, seen = [value], {value}
        while stack:  # what has seen through it must look again
            for user in self.users.get(stack.pop(), ()):
                looked = self.seen_through.pop(user, None) is not None
                for r in user.results:
                    if r not in seen and (r in self.alias or (looked and r in self.inline)):
                        seen.add(r)
                        stack.append(r)

    def _place(self, node: Node) -> None:
        sources = self.sources(node)
        producers = [self.cluster_of[v.node] for v in sources if v.node in self.cluster_of]
        home: Cluster | None = None
        own = own_domain(node) if fusable(node) else None
        if own is not None:
            large = [v for v in sources if estimate(v.type.size) > SCALARS]
            own_size = estimate(node.result.type.size)
            # A number that all read (a learning rate) is no reason to share a loop.
            shared = large if large and own_size > SCALARS else sources
            seen = {c.number: c for c in producers}
            for v in shared:
                seen.update(self.readers.get(v, {}))
            for number in nlargest(8, seen):
                cluster = seen[number]
                if own.axes and cluster.moves:
                    continue
                if own_size <= SCALARS and self._grows(cluster, producers):
                    continue
                fit = self._fits(node, own, cluster, producers)
                if fit is not None:
                    home, (home.domain, home.value_number) = cluster, fit
                    break
        if home is None:
            home = Cluster(len(self.clusters), own)
            self.clusters.append(home)
            if own is not None:
                home.value_number = self.value_numbers.of(node, {})
        home.moves = home.moves or lookup(node.op).cost == "free"
        home.order[node] = len(home.nodes)
        home.nodes.append(node)
        self.cluster_of[node] = home
        self._link(home, [*producers, *self._before(node, home)])
        for v in sources:
            self.readers.setdefault(v, {})[home.number] = home

    def _before(self, node: Node, home: Cluster) -> list[Cluster]:
        """Return the clusters that effects order before a node: effects keep the program's order,
        and a loop without end must not run before a check that would have stopped the call."""
        effect = has_effect(node)
        before = [self.last_effect] if self.last_effect and (effect or node.op == "while") else []
        if before:
            self.follows[home.number] = before[0]
        if effect:
            self.last_effect = home
        return before

    @staticmethod
    def _grows(cluster: Cluster, producers: Sequence[Cluster]) -> bool:
        """Whether the cluster would have to wait for more than it does now."""
        known = cluster.ancestors | (1 << cluster.number)
        return any(((1 << p.number) | p.ancestors) & ~known for p in producers)

    def _link(self, home: Cluster, producers: Sequence[Cluster]) -> None:
        mask = 0
        for p in producers:
            if p is not home:
                regroup.connect(p, home)
                mask |= p.ancestors | (1 << p.number)
        regroup.spread(home, mask)

    def _fits(
        self, node: Node, own: Domain, cluster: Cluster, producers: Sequence[Cluster]
    ) -> tuple[Domain, int] | None:
        """The domain and the structure of the cluster with a node in it whose own domain is
        given; None if it cannot join."""
        domain = _joined(cluster.domain, own) if cluster.domain is not None else None
        if domain is None:
            return None
        bit = 1 << cluster.number
        if any(p is not cluster and p.ancestors & bit for p in producers):
            return None  # something between them would make a cycle
        if self._chain(node, cluster) > LONGEST:
            return None
        step = self.value_numbers.of(node, cluster.order)
        value_number = self.value_numbers.number((cluster.value_number, step))
        found = self.built.get((domain, value_number))
        if found is None:
            found = self.built[domain, value_number] = self._try(node, cluster, domain)
        elif found:
            cluster.builder = None  # it does not know the node
        return (domain, value_number) if found else None

    def _try(self, node: Node, cluster: Cluster, domain: Domain) -> bool:
        """Build the node's expression over the domain; whether it has one."""
        builder = cluster.builder
        try:
            if builder is None or domain != builder.domain:
                builder = NestBuilder(domain, cluster.nodes, self.inline)
                for member in cluster.nodes:
                    _add(builder, member)
            builder.members.add(node)
            _add(builder, node)
        except Incompatible:
            if builder is not None:
                builder.members.discard(node)
            return False
        cluster.builder = builder
        return True

    def builds(self, nodes: Sequence[Node], domain: Domain) -> bool:
        """Whether nodes, of which some may have become inline, can be one nest."""
        members = {n: i for i, n in enumerate(n for n in nodes if n.result not in self.inline)}
        key = domain, tuple([self.value_numbers.of(n, members) for n in members])
        found = self.built.get(key)
        if found is None:
            builder = NestBuilder(domain, members, self.inline)
            try:
                for node in members:
                    _add(builder, node)
                found = True
            except Incompatible:
                found = False
            self.built[key] = found
        return found

    # --- result ---------------------------------------------------------------------------------

    def _ordered(self) -> list[Cluster]:
        """Clusters topologically: fewer ancestors first, ties by number, after the checks that
        need little; around collectives as `overlap` says. Where others wait for what the graph
        sends, in the order of the program as far as clusters let it be."""
        if any(lookup(n.op).collective and not n.results for n in self.graph.nodes):
            return in_program_order(self.clusters)
        first = self._early_checks() if self.graph.updates else 0
        return overlap.spread_out(self, self._with_weights_late(sorted(
            self.clusters, key=lambda c: (
                not first >> c.number & 1, c.ancestors.bit_count(), c.number))))

    def _with_weights_late(self, ordered: list[Cluster]) -> list[Cluster]:
        """Clusters that follow from frozen parameters alone, such as weights that are widened,
        stand before the first that reads them: one of their buffers is in use at a time."""
        late: dict[int, Cluster] = {}
        for c in ordered:
            if c.after and all(n in late for n in c.before) and self._reads_frozen(c):
                late[c.number] = c
        out: list[Cluster] = []

        def place(c: Cluster) -> None:
            for n in sorted(c.before):
                if n in late:
                    place(late.pop(n))
            out.append(c)

        for c in ordered:
            if c.number not in late:
                place(c)
        return out

    def _reads_frozen(self, cluster: Cluster) -> bool:
        """Whether a nest reads frozen parameters, and no other input of the graph."""
        given = {v for n in cluster.nodes for v in self.sources(n) if v.node is None}
        return cluster.domain is not None and bool(given) and all(
            v.reuse is Reuse.FROZEN for v in given)

    def _early_checks(self) -> int:
        """The checks of what little is computed for, and that: bits by number. Before the last
        check of a graph nothing is updated in place."""
        found = 0
        for c in self.clusters:
            if c.ancestors.bit_count() <= _EARLY and any(lookup(n.op).may_fail for n in c.nodes):
                found |= c.ancestors | 1 << c.number
        return found

    def stored_values(self) -> set[Value]:
        """Results, and members read from outside their own cluster."""
        stored: set[Value] = set()
        for v in self.results:
            stored.update(self.behind(v))
        for node in self.graph.nodes:
            if node in self.cluster_of:
                home = self.cluster_of[node]
                for v in self.sources(node):
                    if v.node is not None and self.cluster_of.get(v.node) is not home:
                        stored.add(v)
        return stored


def in_program_order(clusters: Sequence[Cluster]) -> list[Cluster]:
    """Clusters topologically: of those that can run, always the one that was begun first."""
    by_number = {c.number: c for c in clusters}
    missing = {c.number: sum(n in by_number for n in c.before) for c in clusters}
    ready = [number for number, count in missing.items() if not count]
    heapify(ready)
    out: list[Cluster] = []
    while ready:
        cluster = by_number[heappop(ready)]
        out.append(cluster)
        for number in cluster.after:
            if number in missing:
                missing[number] -= 1
                if not missing[number]:
                    heappush(ready, number)
    return out


def _add(builder: NestBuilder, node: Node) -> None:
    """Build a member's expression; raises Incompatible if it has none over the domain."""
    if piece(node) is not None:
        builder.pieces(node)
        return
    if lookup(node.op).reduction is None:
        builder.member(node)
        return
    if builder.domain.block and block_rows(node):
        builder.block_sum(node)
        return
    if builder.canonical(node.results[0].shape) is None:
        raise Incompatible("the result has no place")
    builder.reduce(node)


def own_domain(node: Node) -> Domain:
    """The iteration space of a node on its own."""
    rule = lookup(node.op).reduction
    part = piece(node)
    if part is not None:
        return Domain(part.dims)
    if rule is None:
        return Domain(node.results[0].shape)
    spec = rule(node)
    block = block_rows(node)
    axes = tuple(range(2, len(spec.shape))) if block else spec.axes
    return Domain(spec.shape, axes, max(spec.accumulate.itemsize, 4), block)


def _joined(domain: Domain, own: Domain) -> Domain | None:
    """The domain of a cluster that takes in a node of a domain; None if their spaces differ."""
    if not own.axes:
        if domain.accumulate or own.shape == domain.shape:
            return domain
        return domain if _squeezed(own.shape) == _squeezed(domain.shape) else None
    if own == domain:
        return domain
    if own.block or domain.block:
        return joined(domain, own)
    if domain.accumulate == 0 and own.shape == domain.shape:
        serial = estimate(own.rows) < 4 and estimate(prod(own.shape)) > SERIAL_LIMIT
        return None if serial else own
    return None


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(d for d in shape if d != 1)


_EARLY = 24
"""Clusters that are computed for a check at most, if it is made at the beginning of a call."""


def fuse(graph: Graph) -> Schedule:
    """Group the nodes of a graph of core ops into loop nests and single kernels."""
    return Fuser(graph).run()


def as_group(cluster: Cluster) -> Group:
    """A nest cluster as the group `build_nest` takes."""
    assert cluster.domain is not None
    return Group(cluster.domain, cluster.nodes)
