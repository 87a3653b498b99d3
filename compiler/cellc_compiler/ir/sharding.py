"""How values lie on a mesh of ranks, and how ops split over it.

A mesh is the ranks as an array. A layout says for each axis of a tensor along which axes of the
mesh it is cut. An op splits along *factors* (as the axes of an einsum, or the parts of a reshaped
axis): operands and results name the factors that each of their axes is made of, so a cut of one
says what cuts of the others go with it. A factor that no result has is summed over: parts of it
give partial results. Source: Xu et al., GSPMD (2021); the sharding rules of OpenXLA's Shardy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product

from cellc_runtime import dtypes
from cellc_runtime.records import dataclass, field

from .batch_axis import BatchAxis, Mark, NotBatchIndependent
from .graph import Builder, Node, Value
from .op import lookup
from .types import TensorType

Layout = tuple[tuple[int, ...], ...]
"""For each axis of a tensor the mesh axes that cut it, major first."""
Axes = tuple[tuple[int, ...], ...]
"""For each axis of a tensor the factors it is made of, major first; none: it is never cut."""
Cuts = Mapping[int, tuple[int, ...]]  # The mesh axes that cut each factor


@dataclass(frozen=True, slots=True)
class Mesh:
    """Ranks as an array, in row-major order."""

    sizes: tuple[int, ...]  # of its axes
    ranks: tuple[int, ...]  # by their numbers among all; as many as the product of the sizes

    def parts(self, axes: Iterable[int]) -> int:
        """Into how many parts these axes cut."""
        return math.prod(self.sizes[a] for a in axes)

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """Where in the array a rank is."""
        place, out = self.ranks.index(rank), []
        for size in reversed(self.sizes):
            place, at = divmod(place, size)
            out.append(at)
        return tuple(reversed(out))

    def part(self, rank: int, axes: Iterable[int]) -> int:
        """Which part a rank has of what these axes, major first, cut."""
        here, out = self.coordinates(rank), 0
        for a in axes:
            out = out * self.sizes[a] + here[a]
        return out

    def group(self, rank: int, axes: Sequence[int]) -> tuple[int, ...]:
        """The ranks that differ from this one along these axes at most, in order of their parts."""
        here = list(self.coordinates(rank))
        out = []
        for along in product(*(range(self.sizes[a]) for a in axes)):
            for a, at in zip(axes, along, strict=True):
                here[a] = at
            place = 0
            for at, size in zip(here, self.sizes, strict=True):
                place = place * size + at
            out.append(self.ranks[place])
        return tuple(out)

    def local(self, ty: TensorType, layout: Layout) -> TensorType:
        """The type of a part."""
        return ty.with_shape(d // self.parts(cut) for d, cut in zip(ty.dims, layout, strict=True))

    def fits(self, ty: TensorType, layout: Layout) -> bool:
        """Whether a layout cuts a tensor into equal parts."""
        return len(layout) == ty.rank and all(
            d % self.parts(cut) == 0 for d, cut in zip(ty.dims, layout, strict=True))


def whole(rank: int) -> Layout:
    """The layout of a tensor that every rank has all of."""
    return ((),) * rank


@dataclass(frozen=True, slots=True)
class Window:
    """Which rows of an operand, along an axis, parts need: more than their parts of it."""

    rows: int  # of the operand
    count: int  # of what is cut into parts
    # `needs(begin, end)`: the first row and the end of the rows that the range from `begin` up to
    # `end` needs. Rows outside of the operand are padding.
    needs: Callable[[int, int], tuple[int, int]]

    def of_parts(self, parts: int) -> list[tuple[int, int]]:
        """Return the rows of the operand that each of the parts needs."""
        each = self.count // parts
        needed = [self.needs(i * each, (i + 1) * each) for i in range(parts)]
        return [(max(begin, 0), min(end, self.rows)) for begin, end in needed]

    def all_see(self, parts: int) -> bool:
        """Whether none of the parts would see padding alone."""
        return all(begin < end for begin, end in self.of_parts(parts))

    def foreign(self, parts: int) -> int:
        """How many rows of others a part needs at most."""
        own = self.rows // parts
        return max(end - begin - max(min(end, (i + 1) * own) - max(begin, i * own), 0)
                   for i, (begin, end) in enumerate(self.of_parts(parts)))


@dataclass(frozen=True, slots=True)
class Sliding:
    """A window that slides along an axis."""

    rows: int  # of the axis
    positions: int  # of the window
    stride: int = 1  # rows from one position to the next
    before: int = 0  # rows before the axis at which the first position begins; negative: inside it
    reach: int = 1  # rows from the first one that a position covers to the end of the last one

    def covered(self, begin: int, end: int) -> tuple[int, int]:
        """The rows that the positions from `begin` up to `end` cover; some may lie outside."""
        return begin * self.stride - self.before, (end - 1) * self.stride - self.before + self.reach

    def covering(self, begin: int, end: int) -> tuple[int, int]:
        """The positions that cover rows from `begin` up to `end`. The first of them begins there or
        before, also where it covers none of these rows."""
        first = min(-(-(begin + self.before - self.reach + 1) // self.stride),
                    (begin + self.before) // self.stride)
        last = min((end - 1 + self.before) // self.stride, self.positions - 1)
        return max(min(first, last), 0), last + 1

    def around(self, begin: int, end: int) -> tuple[int, int]:
        """Rows from `begin` up to `end`, and all that is covered by positions that cover these."""
        first, behind = self.covered(*self.covering(begin, end))
        return first, max(behind, end)

    def covered_window(self) -> Window:
        """Return the rows that positions need."""
        return Window(self.rows, self.positions, self.covered)

    def covering_window(self) -> Window:
        """Return the window of rows over something that has a row for each position."""
        return Window(self.positions, self.rows, self.covering)

    def around_window(self) -> Window:
        """Return the rows that rows need of an equally long axis, by positions that cover them."""
        return Window(self.rows, self.rows, self.around)


@dataclass(frozen=True, slots=True)
class Factors:
    """Along what an op splits."""

    sizes: tuple[int, ...]  # of the factors
    # operands, results: what their axes are made of
    operands: tuple[Axes, ...]
    results: tuple[Axes, ...]
    summed: frozenset[int] = frozenset()  # factors whose parts give partial results
    combine: str = "sum"  # how these become the result: `"sum"`, `"prod"`, `"min"` or `"max"`
    # whether factors may be cut together into these numbers of parts: no bits must change but those
    # of sums that are split
    allowed: Callable[[Mapping[int, int]], bool] = field(default=lambda parts: True)
    # by operands and their axes, where a part needs more than the part of the operand: which rows.
    # Such an axis is made of one factor.
    windows: Mapping[tuple[int, int], Window] = field(default_factory=dict)

    def may_cut(self, mesh: Mesh, factor: int, cut: tuple[int, ...]) -> bool:
        """Whether a factor can be cut like this."""
        parts = mesh.parts(cut)
        return (self.sizes[factor] % parts == 0 and self.allowed({factor: parts})
                and all(window.all_see(parts) for (i, a), window in self.windows.items()
                        if self.operands[i][a] == (factor,)))

    def may_cut_all(self, mesh: Mesh, cuts: Cuts) -> bool:
        """Whether factors, each of which can be cut like this, can be so together."""
        return len(cuts) < 2 or self.allowed({f: mesh.parts(cut) for f, cut in cuts.items()})

    def local(self, axes: Axes, dims: Sequence[int], parts: Mapping[int, int]) -> tuple[int, ...]:
        """The dimensions of a part of a tensor whose axes are made of factors."""
        return tuple(d // math.prod(parts.get(f, 1) for f in own)
                     for d, own in zip(dims, axes, strict=True))


Extents = tuple[tuple[int, int], ...]
"""Where a part of a value begins along each axis, and how long it is there."""


@dataclass(frozen=True, slots=True)
class Part:
    """A rank's part of a node's first operand and first result."""

    type: TensorType  # of its part of the result
    # operand, result: where the parts lie in the wholes
    operand: Extents
    result: Extents
    # by operands and axes that are cut and needed beyond the part: from which row on up to which
    # one. Those of them that the operand has are there; the others are padding.
    windows: Mapping[tuple[int, int], tuple[int, int]] = field(default_factory=dict)


def reshaped_part(b: Builder, node: Node, operands: Sequence[Value], part: Part) -> Value:
    """The part of an op whose attribute `shape` is that of its result."""
    out: Value = b.emit(node.op, *operands, **{**node.attrs, "shape": part.type.shape})
    return out


def positioned_part(
    b: Builder, node: Node, operands: Sequence[Value], part: Part, axis: int
) -> Value:
    """The part of an op that reads or writes a tensor by positions along an axis that may be cut:
    they become positions in the part. Positions of other parts lie after its end, where reading
    gives zero and writing does nothing."""
    x, index, *updates = operands
    size = node.operands[0].type.dims[axis]
    start, length = part.operand[axis]
    if length != size:
        at = b.cast(index, dtype=dtypes.int64)
        at = b.where(b.lt(at, b.scalar(0, at)), b.add(at, b.scalar(size, at)), at)
        at = b.sub(at, b.scalar(start, at))
        inside = b.logical_and(b.ge(at, b.scalar(0, at)), b.lt(at, b.scalar(length, at)))
        index = b.where(inside, at, b.scalar(length, at))
    out: Value = b.emit(node.op, x, index, *updates, **node.attrs)
    return out


def cuts_of(mesh: Mesh, factors: Factors, axes: Axes, layout: Layout) -> dict[int, tuple[int, ...]]:
    """How the factors are cut where a tensor lies so, as far as they can be."""
    out: dict[int, tuple[int, ...]] = {}
    for parts, cut in zip(axes, layout, strict=True):
        rest = list(cut)
        for f in parts:
            taken: tuple[int, ...] = ()
            while rest and factors.may_cut(mesh, f, (*taken, rest[0])):
                taken = (*taken, rest.pop(0))
            if taken:
                out[f] = taken
            if mesh.parts(taken) != factors.sizes[f]:
                break  # what is minor to it is not in one piece
    return out


def layout_of(mesh: Mesh, factors: Factors, axes: Axes, cuts: Cuts) -> Layout | None:
    """How a tensor lies where the factors are cut so; None: its parts are not in one piece."""
    out = []
    for parts in axes:
        along: tuple[int, ...] = ()
        complete = True
        for f in parts:
            cut = cuts.get(f, ())
            if cut and not complete:
                return None
            along += cut
            complete = complete and mesh.parts(cut) == factors.sizes[f]
        out.append(along)
    return tuple(out)


def factors_of(node: Node) -> Factors:
    """Along what a node splits: what its op says, or else what follows from its batch axes. A
    result that no rule says anything about needs its operands whole."""
    op = lookup(node.op)
    if op.factors is not None:
        found: Factors = op.factors(node)
        return found
    if op.elementwise:
        return aligned_factors(node)
    if op.batch_axis is None or node.regions or op.effect or not node.results:
        return uncut_factors(node)
    return _by_batch_axes(node)


def uncut_factors(node: Node) -> Factors:
    """Of what needs its operands whole."""
    return Factors((), tuple(whole(v.type.rank) for v in node.operands),
                   tuple(whole(v.type.rank) for v in node.results))


def _by_batch_axes(node: Node) -> Factors:
    """The factors of an op that treats examples one by one: each axis along which a batch may lie,
    of the operands and where that puts it in the results; then what it says that it sums over."""
    along = {(i, a): r for i, v in enumerate(node.operands) for a, d in enumerate(v.type.dims)
             if d > 1 and (r := _batch_goes_to(node, i, a)) is not None}
    results = node.results[0].type.dims
    summed = node_sums(node)
    number = {r: n for n, r in enumerate(sorted(set(along.values())))}
    operands = [list(whole(v.type.rank)) for v in node.operands]
    made = [list(whole(v.type.rank)) for v in node.results]
    for (i, a), r in along.items():
        operands[i][a] = (number[r],)
    for r, n in number.items():
        for axes in made:
            axes[r] = (n,)
    sizes = [results[r] for r in number]
    for places in summed:
        for i, a in places:
            operands[i][a] = (len(sizes),)
        i, a = places[0]
        sizes.append(node.operands[i].type.dims[a])
    return Factors(
        tuple(sizes), tuple(map(tuple, operands)), tuple(map(tuple, made)),
        frozenset(range(len(number), len(sizes))), lookup(node.op).combine)


def node_sums(node: Node) -> Sequence[Sequence[tuple[int, int]]]:
    """The operands' axes that an op sums over; those that walk together are one entry."""
    op = lookup(node.op)
    return () if op.contracted is None else op.contracted(node)


def _batch_goes_to(node: Node, operand: int, axis: int) -> int | None:
    """The axis of the results along which a batch lies if it does along this one of an operand,
    alone or along the same one of all that are as long there."""
    rule = lookup(node.op).batch_axis
    assert rule is not None
    size, rank = node.operands[operand].type.dims[axis], node.operands[operand].type.rank
    alone: list[Mark] = [None] * len(node.operands)
    alone[operand] = BatchAxis(axis)
    beside: list[Mark] = [
        BatchAxis(axis) if v.type.rank == rank and v.type.dims[axis] == size else None
        for v in node.operands]
    for marks in (alone, beside):
        try:
            mark = rule(marks, node)
        except NotBatchIndependent:
            continue
        if mark is not None and mark.outer == 1 and all(
                mark.axis < r.type.rank and r.type.dims[mark.axis] == size for r in node.results):
            return mark.axis
    return None


def leading_factors(node: Node, count: int) -> Factors:
    """Of what treats what lies along the first `count` axes of all operands and results each on its
    own."""
    def axes(v: Value) -> Axes:
        return (*((a,) for a in range(count)), *whole(v.type.rank - count))

    return Factors(node.operands[0].type.dims[:count], tuple(map(axes, node.operands)),
                   tuple(map(axes, node.results)))


def line_factors(node: Node, axis: int, adds: bool = False) -> Factors:
    """Of what reads or writes a tensor element by element, by positions along an axis: the lines
    where the positions have as many, then that axis and that of the positions. `adds`: it makes
    sums of what it writes."""
    x, index = node.operands[0].type, node.operands[1].type
    k, (along, at) = axis % x.rank, (x.rank, x.rank + 1)
    lines = tuple((a,) if m == n else ()
                  for a, (m, n) in enumerate(zip(x.dims, index.dims, strict=True)))
    own, places = (*lines[:k], (along,), *lines[k + 1 :]), (*lines[:k], (at,), *lines[k + 1 :])
    whole_lines = (*lines[:k], (), *lines[k + 1 :])
    sizes = (*x.dims, x.dims[k], index.dims[k])
    if len(node.operands) == 2:  # it reads
        if x.dtype.kind == "bool":
            return Factors(sizes, (whole_lines, places), (places,))
        return Factors(sizes, (own, places), (places,), frozenset({along}))
    if not adds:
        return Factors(sizes, (own, whole_lines, whole_lines), (own,))
    return Factors(sizes, (own, places, places), (own,), frozenset({at}))


def aligned_factors(node: Node) -> Factors:
    """Of a result that each operand, broadcast, has the elements of: one factor an axis."""
    dims = node.result.type.dims
    axes = tuple(() if d == 1 else (a,) for a, d in enumerate(dims))
    operands = tuple(
        tuple(axes[a + len(dims) - v.type.rank] if d > 1 else ()
              for a, d in enumerate(v.type.dims)) for v in node.operands)
    return Factors(tuple(dims), operands, (axes,))


def reshaped_factors(node: Node) -> Factors:
    """Of a reshape: the parts that the axes of both shapes are made of, from the first axes on."""
    given, made = node.operands[0].type.dims, node.result.type.dims
    if 0 in given:
        return Factors((), (((),) * len(given),), (((),) * len(made),))
    sizes: list[int] = []
    before: list[list[int]] = [[] for _ in given]
    after: list[list[int]] = [[] for _ in made]
    i = j = 0
    left, right = _rest(given, i), _rest(made, j)
    while i < len(given) and j < len(made):
        size = math.gcd(left, right)
        if size == 1 and left > 1 and right > 1:  # no common part: these axes are not cut
            size = 0
        if size == 0:
            i, j, left, right = _past(given, made, i, j)
            continue
        if size > 1:
            before[i].append(len(sizes))
            after[j].append(len(sizes))
            sizes.append(size)
        left, right = left // size, right // size
        if left == 1:
            i += 1
            left = _rest(given, i)
        if right == 1:
            j += 1
            right = _rest(made, j)
    return Factors(tuple(sizes), (tuple(map(tuple, before)),), (tuple(map(tuple, after)),))


def _rest(dims: Sequence[int], i: int) -> int:
    return dims[i] if i < len(dims) else 1


def _past(given: Sequence[int], made: Sequence[int], i: int, j: int) -> tuple[int, int, int, int]:
    """The next axes of both shapes that as many elements come before."""
    before, after = math.prod(given[: i + 1]), math.prod(made[: j + 1])
    while before != after:
        if before < after:
            i += 1
            before *= given[i]
        else:
            j += 1
            after *= made[j]
    return i + 1, j + 1, _rest(given, i + 1), _rest(made, j + 1)
