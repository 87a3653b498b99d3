"""Work that a kernel can skip: zeros that are never read, rows computed one by one; and the
variables that may be read before they are assigned.

The answers are found in the syntax tree and are sure: where a kernel is not of the plain forms
that are looked for, its results are filled with zeros and its rows run in order.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence

from .functions import BUFFERS, LOOPS
from .language import NotStatic, Typed, block_of

Positions = tuple[str, ...]  # The variables that an element's position is made of


def plain(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements, those in a `with` as if it were not there."""
    for s in statements:
        if isinstance(s, ast.With):
            yield from plain(s.body)
        elif not isinstance(s, (ast.Expr, ast.Pass)):
            yield s


class Analysis:
    """Asks a kernel whose types are known."""

    def __init__(self, typed: Typed) -> None:
        self.typed = typed
        self.body = list(plain(typed.kernel.body))
        self._axes: dict[str, Positions] = {}
        self.outer: ast.stmt | None = None
        """The loop over rows, where `rows` has found one."""

    # --- loops ------------------------------------------------------------------------------------

    def loop(self, s: ast.stmt) -> dict[str, int] | None:
        """The variables of a loop that counts from 0 to numbers known ahead, with these; those of
        a `grid` whose position has one name are called by it and a number."""
        if not isinstance(s, ast.For) or not isinstance(s.iter, ast.Call) \
                or not isinstance(s.iter.func, ast.Name) or len(s.iter.args) != 1:
            return None
        try:
            count = self.typed.value(s.iter.args[0])
        except NotStatic:
            return None
        if s.iter.func.id in LOOPS and isinstance(s.target, ast.Name) and isinstance(count, int):
            return {s.target.id: count}
        if not isinstance(count, tuple):
            return None
        names = self._names(s.target, len(count))
        return dict(zip(names, count, strict=True)) if len(names) == len(count) else None

    def _names(self, target: ast.expr, count: int) -> Positions:
        if isinstance(target, ast.Name):
            self._axes[target.id] = tuple(f"{target.id}.{k}" for k in range(count))
            return self._axes[target.id]
        parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
        return tuple(p.id for p in parts if isinstance(p, ast.Name))

    def positions(self, e: ast.Subscript) -> tuple[str | None, ...]:
        """The variables at which an element lies; None for another position."""
        if isinstance(e.slice, ast.Name) and e.slice.id in self._axes:
            return self._axes[e.slice.id]
        parts = e.slice.elts if isinstance(e.slice, (ast.Tuple, ast.List)) else [e.slice]
        return tuple(p.id if isinstance(p, ast.Name) else None for p in parts)

    def counted(self) -> dict[str, int]:
        """The variables that hold nothing but positions of loops, and what they stay below (0
        before the first trip: a loop without any tells nothing)."""
        loops: dict[str, int] = {}
        other: set[str] = set()
        for s in self.typed.kernel.body:
            for n in ast.walk(s):
                if isinstance(n, ast.For):
                    found = self.loop(n)
                    names = {x.id for x in ast.walk(n.target) if isinstance(x, ast.Name)}
                    if found is None or names != set(found):
                        other |= names
                    for name, count in (found or {}).items():
                        loops[name] = max(loops.get(name, 0), count)
                elif isinstance(n, (ast.Assign, ast.AugAssign)):
                    target = n.targets[0] if isinstance(n, ast.Assign) else n.target
                    other |= {t.id for t in _targets(target) if isinstance(t, ast.Name)}
        return {name: count for name, count in loops.items() if count and name not in other}

    # --- variables --------------------------------------------------------------------------------

    def unassigned(self) -> list[str]:
        """The variables that some path may read before it assigns them. Raises KernelError if no
        path assigns one before."""
        k = self.typed.kernel
        stores = [n for s in k.body for n in ast.walk(s) if isinstance(n, ast.Name)
                  and isinstance(n.ctx, ast.Store) and n.id not in k.tensors]
        loops = [{id(n) for n in ast.walk(s)} for x in k.body for s in ast.walk(x)
                 if isinstance(s, (ast.For, ast.While))]
        names: list[str] = []
        while found := _unassigned(k.body, {n.id for n in stores}, set(names), self._runs):
            at, name = found
            if not any(n.id == name and (n.lineno < at.lineno or any(
                    id(n) in loop and id(at) in loop for loop in loops)) for n in stores):
                k.source.fail(at, f"the variable {name!r} is read before it is assigned")
            names.append(name)
        return names

    def _runs(self, s: ast.For) -> bool:
        """Whether a loop surely makes a trip: its sizes are known."""
        found = self.loop(s)
        return found is not None and all(found.values())

    # --- zeros ------------------------------------------------------------------------------------

    def filled(self, name: str) -> bool:
        """Whether every element of a tensor is assigned before it is read."""
        first = next((s for s in self.body if _mentions(s, name) and not _makes(s)), None)
        if first is None or _leaves(first) or _rebinds(first, ()):
            return False
        at = self._first_store(first, name, {})
        return at is not None and all(
            self.positions(e) == at for e in _elements(first, name)) and \
            len(list(_elements(first, name))) == _count(first, name)

    def _first_store(self, s: ast.stmt, name: str, loops: Mapping[str, int]) -> Positions | None:
        """The position, all of loops over whole axes, at which what mentions a tensor first
        assigns it in every trip."""
        found = self.loop(s)
        if found is not None and isinstance(s, ast.For):
            inner = {**loops, **found}
            first = next((x for x in plain(s.body) if _mentions(x, name)), None)
            return None if first is None else self._first_store(first, name, inner)
        if not isinstance(s, ast.Assign) or not isinstance(s.targets[0], ast.Subscript) \
                or _mentions(s.value, name) or _count(s.targets[0], name) != 1:
            return None
        at, dims = self.positions(s.targets[0]), self.typed.types[name].dims
        whole = [p for p in at if p is not None]
        if len(whole) != len(dims) or len(set(whole)) != len(whole):
            return None
        if any(loops.get(p) != d for p, d in zip(whole, dims, strict=True)):
            return None
        return tuple(whole) if all(n > 0 for v, n in loops.items() if v not in whole) else None

    # --- rows -------------------------------------------------------------------------------------

    def rows(self) -> int | None:
        """How many trips the kernel's only outer loop has, if each treats one row of what is
        written and none depends on another; else None."""
        k = self.typed.kernel
        work = [s for s in self.body if not _makes(s) and not self._known(s)]
        if len(work) != 1 or any(not b.output for b in k.buffers.values()):
            return None
        (outer,) = work
        found = self.loop(outer)
        if found is None or not isinstance(outer, ast.For) or _rebinds(outer, ()):
            return None
        row, count = next(iter(found.items()))
        for name in {*k.results, *k.written}:
            dims = self.typed.types[name].dims
            if not dims or dims[0] != count:
                return None
            elements = list(_elements(outer, name))
            if any(self.positions(e)[:1] != (row,) for e in elements):
                return None
        bound = {n.id for n in ast.walk(outer) if isinstance(n, ast.Name)
                 and isinstance(n.ctx, ast.Store)}
        outside = {n.id for s in self.body if s is not outer for n in ast.walk(s)
                   if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        targets = {n.id for n in ast.walk(outer.target) if isinstance(n, ast.Name)}
        if bound & outside or any(isinstance(n, ast.Break) for n in ast.walk(outer)):
            return None
        if _unassigned(outer.body, bound, targets, lambda s: False):
            return None
        self.outer = outer
        return count

    def _known(self, s: ast.stmt) -> bool:
        """Whether a statement only names what is known ahead."""
        return isinstance(s, ast.Assign) and all(
            isinstance(n, ast.Name) and n.id in self.typed.kernel.known and self._value(n)
            for n in _targets(s.targets[0]))

    def _value(self, name: ast.Name) -> bool:
        try:
            self.typed.value(ast.Name(name.id, ast.Load()))
        except NotStatic:
            return False
        return True


def _targets(target: ast.expr) -> list[ast.expr]:
    return list(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else [target]


def _makes(s: ast.stmt) -> bool:
    """Whether it makes a tensor."""
    return isinstance(s, ast.Assign) and isinstance(s.value, ast.Call) and \
        isinstance(s.value.func, ast.Name) and s.value.func.id in BUFFERS


def _count(node: ast.AST, name: str) -> int:
    """How often a tensor's elements are mentioned (its shape is not)."""
    shapes = {id(n.value) for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    return sum(isinstance(n, ast.Name) and n.id == name and id(n) not in shapes
               for n in ast.walk(node))


def _mentions(node: ast.AST, name: str) -> bool:
    return _count(node, name) > 0


def _elements(node: ast.AST, name: str) -> Iterator[ast.Subscript]:
    for n in ast.walk(node):
        if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name) and n.value.id == name:
            yield n


def _leaves(s: ast.stmt) -> bool:
    """Whether a loop in it may end early, or a trip."""
    return any(isinstance(n, (ast.Break, ast.Continue)) for n in ast.walk(s))


def _rebinds(s: ast.stmt, held: Positions) -> bool:
    """Whether a loop's variable is given another value inside of the loop."""
    if isinstance(s, ast.For):
        names = {n.id for n in ast.walk(s.target) if isinstance(n, ast.Name)}
        if names & set(held):
            return True
        held = (*held, *names)
    elif isinstance(s, (ast.Assign, ast.AugAssign)):
        target = s.targets[0] if isinstance(s, ast.Assign) else s.target
        return any(isinstance(t, ast.Name) and t.id in held for t in _targets(target))
    return any(_rebinds(x, held) for inner in block_of(s) for x in inner)


def _unassigned(
    statements: Sequence[ast.stmt], bound: set[str], given: set[str],
    runs: Callable[[ast.For], bool],
) -> tuple[ast.stmt, str] | None:
    """The first read of one of some variables that some path does not assign before it.

    Args:
        given: those that are assigned already; those that the statements assign are added.
        runs: whether a loop makes a trip at least.
    """
    for s in statements:
        inside = {id(n) for inner in block_of(s) for x in inner for n in ast.walk(x)}
        reads = {n.id for n in ast.walk(s) if isinstance(n, ast.Name) and id(n) not in inside
                 and isinstance(n.ctx, ast.Load)}
        if isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name):
            reads.add(s.target.id)
        if missing := (reads & bound) - given:
            return s, min(missing)
        own = {n.id for n in ast.walk(s.target) if isinstance(n, ast.Name)} \
            if isinstance(s, ast.For) else set()
        ways = [(given | own, inner) for inner in block_of(s)]
        for after, inner in ways:
            if found := _unassigned(inner, bound, after, runs):
                return found
        going_on = [after for after, inner in ways if not _leaves(inner[-1])]
        if isinstance(s, ast.With) or (isinstance(s, ast.For) and runs(s) and not _leaves(s)):
            given |= ways[0][0]
        elif isinstance(s, ast.If) and len(ways) == 2 and going_on:
            given |= set.intersection(*going_on)
        elif isinstance(s, ast.Assign):
            given |= {n.id for n in _targets(s.targets[0]) if isinstance(n, ast.Name)}
    return None
