"""The stages of a pipeline and what each pass did: nodes gone, new, rewritten, with new operands.

A node that a pass makes carries Cell and place of the node that it replaces. So the nodes that are
gone and those that are new at one place are one rewrite.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from cellc_runtime.records import dataclass, field

from .ledger import FORWARD, GRADIENT, UPDATE, Ledger, Place, Snapshot

MOST = 3  # Kinds of rewrites that a summary names


@dataclass(slots=True)
class Rewrite:
    """Nodes that stand for others, at one place."""

    place: Place
    gone: list[int] = field(default_factory=list)
    new: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Change:
    """The changes of a pass.

    Attributes:
        rewritten: places with nodes gone and new.
        gone, new: nodes at places where there are only such.
        rewired: nodes that stay and read other values.
    """

    rewritten: list[Rewrite] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    new: list[int] = field(default_factory=list)
    rewired: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.rewritten or self.gone or self.new or self.rewired)


@dataclass(slots=True)
class Stage:
    """A stage: its name, the graph after it, and the changes from the one before."""

    name: str
    snapshot: Snapshot
    change: Change = field(default_factory=Change)
    summary: str = ""


def compare(ledger: Ledger, before: Snapshot, after: Snapshot) -> Change:
    """Return the differences between two stages."""
    gone = [u for u in before.operands if u not in after.operands]
    new = [u for u in after.operands if u not in before.operands]
    places: dict[Place, Rewrite] = {}
    for uid in gone:
        place = ledger.rows[uid].place
        places.setdefault(place, Rewrite(place)).gone.append(uid)
    for uid in new:
        place = ledger.rows[uid].place
        places.setdefault(place, Rewrite(place)).new.append(uid)
    found = Change(rewired=[
        u for u, operands in after.operands.items()
        if before.operands.get(u, operands) != operands])
    for place, rewrite in places.items():
        known = bool(place[0] or place[1])
        if known and rewrite.gone and rewrite.new:
            found.rewritten.append(rewrite)
        else:
            found.gone += rewrite.gone
            found.new += rewrite.new
    return found


def summary(ledger: Ledger, change: Change) -> str:
    """A change in one line."""
    parts = []
    if change.rewritten:
        kinds = Counter((_ops(ledger, r.gone), _ops(ledger, r.new)) for r in change.rewritten)
        named = [f"{a} → {b}{f' (×{n})' if n > 1 else ''}"
                 for (a, b), n in kinds.most_common(MOST)]
        more = "; …" if len(kinds) > MOST else ""
        count = len(change.rewritten)
        parts.append(f"{count} place{'s' if count > 1 else ''} rewritten: "
                     f"{'; '.join(named)}{more}")
    if change.gone:
        parts.append(f"{len(change.gone)} gone ({_count_text(ledger, change.gone)})")
    if change.new:
        parts.append(f"{len(change.new)} new ({_count_text(ledger, change.new)})")
    if change.rewired and not parts:
        parts.append(f"{len(change.rewired)} read other values")
    return " · ".join(parts) or "no change"


def _ops(ledger: Ledger, uids: Iterable[int]) -> str:
    names = list(dict.fromkeys(ledger.rows[u].op for u in uids))
    return ", ".join([*names[:4], *(["…"] if len(names) > 4 else [])])


def _count_text(ledger: Ledger, uids: Iterable[int]) -> str:
    kinds = Counter(ledger.rows[u].op for u in uids)
    named = [f"{op} ×{n}" if n > 1 else op for op, n in kinds.most_common(MOST)]
    return ", ".join([*named, *(["…"] if len(kinds) > MOST else [])])


# --- forward, gradient, update --------------------------------------------------------------------


def mark_traced(ledger: Ledger, shot: Snapshot) -> None:
    """Tell the parts of a traced graph apart.

    A node that follows from a cotangent is of the gradient if it carries the place of a node from
    before the first cotangent, as backward nodes do, and an update if it does not, as the steps of
    an optimizer do not.
    """
    rows, order = ledger.rows, shot.graph.nodes
    start = next((i for i, u in enumerate(order) if rows[u].op == "cotangent"), len(order))
    forward = {rows[u].place for u in order[:start]}
    late: set[int] = set()
    for uid in order[start:]:
        row = rows[uid]
        if row.op == "cotangent" or not late.isdisjoint(shot.operands[uid]):
            late.update(range(row.first, row.first + len(row.types)))
            here = not (row.scope or row.span[0]) or row.place in forward
            _mark(ledger, shot, uid, GRADIENT if here else UPDATE)
    _mark_read(ledger, shot, order, set(order[start:]))


def _mark_read(
    ledger: Ledger, shot: Snapshot, order: Sequence[int], after_first: Collection[int]
) -> None:
    """Readers of constants alone (ramps, seeds), and nodes after the first cotangent that do not
    follow from it, are of the part that alone reads them; so are nodes that updates alone read."""
    rows = ledger.rows
    fixed: set[int] = set()
    for uid in order:
        if fixed.issuperset(shot.operands[uid]):
            fixed.update(range(rows[uid].first, rows[uid].first + len(rows[uid].types)))
    readers: dict[int, set[int]] = {new: {UPDATE} for _, new in shot.graph.updates}
    for uid in reversed(order):
        row = rows[uid]
        loose = uid in after_first or fixed.issuperset(shot.operands[uid])
        if row.part == FORWARD and loose:
            parts = {p for v in range(row.first, row.first + len(row.types))
                     for p in readers.get(v, ())}
            if len(parts) == 1:
                _mark(ledger, shot, uid, parts.pop())
        for v in shot.operands[uid]:
            readers.setdefault(v, set()).add(row.part)


def mark_new(ledger: Ledger, shot: Snapshot, change: Change) -> None:
    """The parts of nodes that a pass made: as those that they replace, or as what they read."""
    rows = ledger.rows
    by_place = {r.place: {rows[u].part for u in r.gone} for r in change.rewritten}
    new = {u for r in change.rewritten for u in r.new} | set(change.new)
    part_of = {rows[u].first + i: rows[u].part
               for u in shot.operands if u not in new for i in range(len(rows[u].types))}
    for uid in shot.operands:
        row = rows[uid]
        if uid in new:
            read = max((part_of.get(v, FORWARD) for v in shot.operands[uid]), default=FORWARD)
            parts = by_place.get(row.place, {FORWARD})
            row.part = max(read, *parts) if len(parts) == 1 else read
            part_of.update((row.first + i, row.part) for i in range(len(row.types)))
    _mark_read(ledger, shot, [u for u in shot.graph.nodes if u in new], ())


def owners(ledger: Ledger, shot: Snapshot) -> dict[int, str]:
    """For each node of an update the parameter that it is computed for, if it is for one alone.

    The state of an optimizer is called as its parameter, with a word before it (`adam_m.w` of `w`).
    """
    made = {ledger.rows[u].first + i: u for u in shot.graph.nodes
            if ledger.rows[u].part == UPDATE for i in range(len(ledger.rows[u].types))}
    serves: dict[int, set[str]] = {u: set() for u in made.values()}
    for old, new in shot.graph.updates:
        if new in made:
            serves[made[new]].add(ledger.values[old][1])
    for uid in reversed(shot.graph.nodes):
        for v in shot.operands[uid] if uid in serves else ():
            if v in made:
                serves[made[v]] |= serves[uid]
    out = {}
    for uid, names in serves.items():
        name = min(names, key=len, default="")
        if name and all(n == name or n.endswith(f".{name}") for n in names):
            out[uid] = name
    return out


def _mark(ledger: Ledger, shot: Snapshot, uid: int, part: int) -> None:
    ledger.rows[uid].part = part
    for region in shot.regions.get(uid, ()):
        for inner in region.nodes:
            _mark(ledger, shot, inner, part)
