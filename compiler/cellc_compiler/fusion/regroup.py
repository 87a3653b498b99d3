"""Second thoughts about fusion, once every node has a place.

`recompute`: a cheap elementwise result that one nest would store for others to read is computed by
each reader instead, where that moves fewer bytes: s * g, read by three nests that read s anyway,
needs no buffer. `merge`: two nests over one space that share what they read or hand each other
values become one. Both move work between loops and change no rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..ir.dims import estimate
from ..ir.graph import Node, Value
from ..ir.op import lookup
from ..loops.build import Domain, joined

if TYPE_CHECKING:
    from .clusters import Cluster, Fuser

LARGE = 1 << 14  # Elements from which on a value is worth keeping out of memory
MOST_NODES = 48  # Nodes of a merged nest: the registers of its loops are limited


def recompute(fuser: Fuser) -> bool:
    """Inline cheap stored values into their readers; whether anything changed."""
    stored = fuser.stored_values()
    kept = {s for v in fuser.results for s in fuser.behind(v)}
    kept.update(fuser.alias.values())  # what shares a buffer needs the buffer
    readers = _readers(fuser)
    changed = False
    for node in fuser.graph.nodes:
        home = fuser.cluster_of.get(node)
        if home is None or home.domain is None or len(node.results) != 1:
            continue
        v = node.result
        if lookup(node.op).cost != "cheap" or v not in stored or v in kept \
                or estimate(v.type.size) < LARGE:
            continue
        outside = [c for c in readers.get(v, ()) if c is not home]
        sources = fuser.sources(node)
        if not _pays(fuser, v, outside, sources, stored, readers):
            continue
        fuser.set_inline(v, True)
        if not all(c.domain is not None and fuser.builds(c.nodes, c.domain)
                   for c in {id(c): c for c in (*outside, home)}.values()):
            fuser.set_inline(v, False)
            continue
        home.nodes.remove(node)
        del fuser.cluster_of[node]
        for s in sources:
            readers.setdefault(s, {}).update(dict.fromkeys(outside))
        changed = True
    if changed:
        _relink(fuser)
    return changed


def _readers(fuser: Fuser) -> dict[Value, dict[Cluster, None]]:
    """The clusters that read each value in order, their own members included."""
    out: dict[Value, dict[Cluster, None]] = {}
    for cluster in fuser.clusters:
        for node in cluster.nodes:
            for v in fuser.sources(node):
                out.setdefault(v, {})[cluster] = None
    return out


def _pays(
    fuser: Fuser, v: Value, outside: Sequence[Cluster], sources: Sequence[Value],
    stored: set[Value], readers: dict[Value, dict[Cluster, None]],
) -> bool:
    """Whether reading the sources moves fewer bytes than writing and reading the value."""
    if not outside or any(c.domain is None for c in outside):
        return False
    for s in sources:
        maker = fuser.cluster_of.get(s.node) if s.node is not None else None
        if maker is not None and (s not in stored or maker.domain is None):
            return False  # it has no buffer, or comes from a kernel that may take this in
    nbytes = estimate(v.type.nbytes)
    more = sum(estimate(s.type.nbytes) for c in outside for s in sources
               if c not in readers.get(s, ()) and estimate(s.type.size) * 8 > estimate(v.type.size))
    return more <= nbytes * len(outside)


def _relink(fuser: Fuser) -> None:
    """Compute ancestors again, and drop clusters without nodes."""
    order = sorted(fuser.clusters, key=lambda c: (c.ancestors.bit_count(), c.number))
    fuser.clusters[:] = [c for c in fuser.clusters if c.nodes]
    for cluster in order:
        cluster.before, cluster.after = {}, {}
    for cluster in order:
        earlier = fuser.follows.get(cluster.number)
        if earlier is not None:
            connect(earlier, cluster)
        for node in cluster.nodes:
            for v in fuser.sources(node):
                p = fuser.cluster_of.get(v.node) if v.node is not None else None
                if p is not None and p is not cluster:
                    connect(p, cluster)
        cluster.ancestors = 0
        for p in cluster.before.values():
            cluster.ancestors |= p.ancestors | (1 << p.number)


def connect(earlier: Cluster, later: Cluster) -> None:
    """Note that one cluster follows another at once."""
    later.before[earlier.number] = earlier
    earlier.after[later.number] = later


def spread(cluster: Cluster, ancestors: int) -> None:
    """Add ancestors to a cluster and to all that follows it."""
    stack = [cluster]
    while stack:
        c = stack.pop()
        if ancestors & ~c.ancestors:  # what has them all has passed them on
            c.ancestors |= ancestors
            stack.extend(c.after.values())


def merge(fuser: Fuser) -> None:
    """Join nests over one space that share large values, where no cycle arises."""
    position = {node: i for i, node in enumerate(fuser.graph.nodes)}
    touching: dict[Value, dict[int, Cluster]] = {}  # value -> clusters, by place in the list
    members = {c.number: 1 << c.number for c in fuser.clusters}
    for i, later in enumerate(fuser.clusters):
        large = _touched(fuser, later)
        shared = {j: c for v in large for j, c in touching.get(v, {}).items()}
        home = i
        for j, earlier in sorted(shared.items(), key=lambda item: item[0]):
            if _merged(fuser, earlier, later, position, members):
                home = j
                break
        for v in large:
            touching.setdefault(v, {})[home] = fuser.clusters[home]
    alive = [c for c in fuser.clusters if c.number in members]
    mask = sum(1 << c.number for c in alive)
    for c in alive:
        c.ancestors &= mask
    fuser.clusters[:] = alive


def _merged(
    fuser: Fuser, earlier: Cluster, later: Cluster, position: dict[Node, int],
    members: dict[int, int],
) -> bool:
    """Join two nests if that can be; whether they are one now."""
    domain = _common(earlier, later)
    if domain is None or _between(earlier, later, members):
        return False
    nodes = sorted((*earlier.nodes, *later.nodes), key=position.__getitem__)
    if not fuser.builds(nodes, domain):
        return False
    earlier.nodes, earlier.domain = nodes, domain
    _take_over(fuser, earlier, later, members)
    return True


def _touched(fuser: Fuser, cluster: Cluster) -> set[Value]:
    """Large values that a cluster reads or makes."""
    found = {v for node in cluster.nodes for v in (*fuser.sources(node), *node.results)}
    return {v for v in found if estimate(v.type.size) >= LARGE}


def _common(a: Cluster, b: Cluster) -> Domain | None:
    """The space of two nests as one; None if they differ."""
    one, two = a.domain, b.domain
    if one is None or two is None or len(a.nodes) + len(b.nodes) > MOST_NODES:
        return None
    if (a.moves and two.axes) or (b.moves and one.axes):
        return None
    if one == two:
        return one
    if (one.block or two.block) and one.axes and two.axes:
        return joined(one, two)
    if one.shape != two.shape:
        return None
    # A cluster without a reduction takes the order of one that has, unless that is a few long rows.
    plain, reduced = (one, two) if not one.accumulate else (two, one)
    if plain.accumulate or reduced.mode == "column" or estimate(reduced.rows) < 64:
        return None
    return reduced


def _between(a: Cluster, b: Cluster, members: dict[int, int]) -> bool:
    """Whether something depends on one of the two and is needed by the other."""
    one, two = members[a.number], members[b.number]
    return any(p is not a and p.ancestors & one for p in b.before.values()) \
        or any(p is not b and p.ancestors & two for p in a.before.values())


def _take_over(fuser: Fuser, home: Cluster, gone: Cluster, members: dict[int, int]) -> None:
    """Cluster `home` has taken over the nodes of `gone`: successors of either now have the
    ancestors of both."""
    for node in gone.nodes:
        fuser.cluster_of[node] = home
    for p in gone.before.values():
        del p.after[gone.number]
        if p is not home:
            connect(p, home)
    for c in gone.after.values():
        del c.before[gone.number]
        if c is not home:
            connect(home, c)
    own = members[home.number] = members[home.number] | members.pop(gone.number)
    home.ancestors = (home.ancestors | gone.ancestors) & ~own
    for c in home.after.values():
        spread(c, home.ancestors | own)
