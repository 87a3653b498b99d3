"""Keep what a later phase would compute again.

Phases of a nest run over the same inner space. An expensive expression that an earlier phase
has evaluated (the exp of a softmax) is kept in a row-local buffer when the row fits the cache,
and loaded instead of computed again. Loading gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from cellc_runtime.records import dataclass

from ..ir.dims import estimate, is_symbolic
from ..ir.divisors import grows_with_one_symbol
from ..ir.types import prod
from . import expr as E
from .expr import Expr
from .index import Index, Var
from .nest import Nest, Phase, Scratch, Store, children, depends_on, walk

ROW_BYTES = 64 * 1024
"""The largest row that is kept: it must stay in the first- or second-level cache."""
ROOM = 8  # How much larger a row of a symbolic size must be allowed to become
WORTH = 8.0  # Cycles per vector above which loading is cheaper than computing again


@dataclass(frozen=True, slots=True)
class Known:
    """An expression some phase evaluates: as first written, as it stands now, and where."""

    first: Expr
    present: Expr
    phase: Phase


def keep_expensive(nest: Nest, cycles: Callable[[Expr], float], room: int | None = None) -> None:
    """Insert the buffers.

    Args:
        cycles: estimates one operation.
        room: bytes of all that is kept of a row; None: each by itself is small enough.
    """
    phases = [p for p in nest.phases if p.loops]
    if nest.mode != "row" or len(phases) < 2:
        return
    inner = prod(v.extent for v in phases[0].loops)
    known: dict[int, Known] = {}
    kept: dict[int, Expr] = {}
    for phase in phases:
        before = list(walk(_roots(phase)))
        new = _replace_known(phase, known, kept, cycles, inner, room)
        for e in before:
            known.setdefault(id(e), Known(e, new.get(id(e), e), phase))


def _roots(phase: Phase) -> list[Expr]:
    return [s.value for s in phase.stores] + [r.value for r in phase.reduces]


def _replace_known(
    phase: Phase, known: dict[int, Known], kept: dict[int, Expr],
    cycles: Callable[[Expr], float], inner: int, room: int | None,
) -> dict[int, Expr]:
    """Load in a phase what earlier ones have computed; old expressions (by identity) to new."""
    chosen: dict[int, Expr] = {}
    dependence: dict[int, frozenset[Var]] = {}
    loops = set(phase.loops)
    left = inf if room is None else room - sum(inner * e.dtype.itemsize for e in kept.values())

    def has_room(e: Expr) -> bool:
        nbytes = inner * e.dtype.itemsize
        if is_symbolic(nbytes) and (
                estimate(nbytes) * ROOM > ROW_BYTES or not grows_with_one_symbol(nbytes)):
            return False  # (the room on the stack is that of the longest row)
        taken = sum(inner * c.dtype.itemsize for k, c in chosen.items() if k not in kept)
        return nbytes <= ROW_BYTES and (id(e) in kept or taken + nbytes <= left)

    def visit(e: Expr, seen: set[int]) -> None:
        if id(e) in seen:
            return
        seen.add(id(e))
        if id(e) in known and e.op not in ("load", "const", "ref", "index"):
            cost = sum(cycles(x) for x in walk([e]))
            varies = depends_on(e, dependence) & loops
            if varies and cost >= WORTH and has_room(e):
                chosen[id(e)] = e
                return
        for child in children(e):
            visit(child, seen)

    seen: set[int] = set()
    for root in _roots(phase):
        visit(root, seen)
    for key in chosen:
        if key not in kept:
            kept[key] = _keep(known[key].present, known[key].phase, inner)
    return _substitute(phase, {k: kept[k] for k in chosen}) if chosen else {}


def _keep(e: Expr, phase: Phase, inner: int) -> Expr:
    """Store an expression where it is first evaluated; the load that stands for it later."""
    scratch = Scratch(inner, e.dtype)
    offset = Index.of(0)
    for v in phase.loops:
        offset = offset * v.extent + Index.of(v)
    phase.stores.append(Store(scratch, offset, e))
    return E.load(scratch, offset, e.dtype)


def _substitute(phase: Phase, table: dict[int, Expr]) -> dict[int, Expr]:
    new = dict(table)

    def fix(roots: Sequence[Expr]) -> None:
        for e in walk(roots):
            if id(e) in new:
                continue
            args = tuple(new[id(a)] for a in e.args)
            same = all(a is b for a, b in zip(args, e.args, strict=True))
            new[id(e)] = e if same else Expr(e.op, args, e.dtype, e.payload)

    fix(_roots(phase))
    for s in phase.stores:
        s.value = new[id(s.value)]
    for r in phase.reduces:
        r.value = new[id(r.value)]
    return new
