"""From graph nodes to a loop nest: expressions at canonical indices, sorted into phases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass, field

from ..ir.dims import estimate, surely_at_least
from ..ir.graph import Node, Value
from ..ir.op import lookup
from ..ir.types import TensorType, prod
from . import expr as E
from .expr import ComplexExpr, Expr, Reader
from .index import Index, Var, ravel, unravel, variables
from .nest import Nest, Phase, Reduce, Store, merge_rows, walk

Element = Expr | ComplexExpr


class Incompatible(Exception):
    """A node that cannot be computed at the canonical index of a group's domain."""


@dataclass(frozen=True, slots=True)
class Domain:
    """An iteration space: a shape and the axes that reductions run over.

    `accumulate` is the size in bytes of the accumulators (0 where nothing is reduced); `block`
    the rows that sums over blocks of rows take (see `block_rows`), 0 without such sums.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...] = ()
    accumulate: int = 0
    block: int = 0

    @property
    def kept(self) -> tuple[int, ...]:
        """Sizes of the axes that are not reduced."""
        return tuple(d for i, d in enumerate(self.shape) if i not in self.axes)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return prod(self.kept)

    @property
    def mode(self) -> str:
        """`column` if something is reduced but not the last axis of size above 1."""
        live = [i for i, d in enumerate(self.shape) if d != 1]
        reduced = [i for i in live if i in self.axes]
        return "column" if reduced and live and live[-1] not in self.axes else "row"


LEAST_BLOCK, MOST_BLOCK = 16, 64  # Rows of a block whose sum a nest of rows makes on the way
BLOCKED_ELEMENTS = 1 << 18  # Elements from which on a sum over rows is one of blocks
_SUMS_BYTES = 32 * 1024  # Bytes of the sums of a block at most: they stay in the first-level cache


def block_rows(node: Node) -> int:
    """Rows of a block if the node sums blocks of rows, (blocks, rows, columns) over the rows, and
    a nest of rows should make the sums on its way; else 0."""
    if node.op != "reduce_sum" or node.attrs["axes"] != (1,):
        return 0
    x = node.operands[0].type
    if x.rank < 3 or x.dtype.is_complex or x.dtype.itemsize < 4:
        return 0
    blocks, rows, *columns = map(estimate, x.dims)
    fits = LEAST_BLOCK <= rows <= MOST_BLOCK <= prod(columns) and blocks >= 4 \
        and prod(columns) * x.dtype.itemsize <= _SUMS_BYTES and estimate(x.size) >= BLOCKED_ELEMENTS
    return x.dims[1] if fits else 0


def joined(a: Domain, b: Domain) -> Domain | None:
    """The space of two nests of which one at least sums blocks of rows; None if they differ."""
    sums, other = (a, b) if a.block else (b, a)
    if other.block not in (0, sums.block):
        return None
    if other.accumulate and other.accumulate != sums.accumulate:
        return None
    columns = prod(sums.shape[i] for i in sums.axes)
    axes, inner = other.axes, 1
    if not axes:
        first = len(other.shape)
        while first and inner < columns:
            first -= 1
            inner *= other.shape[first]
        axes = tuple(range(first, len(other.shape)))
    trailing = axes == tuple(range(len(other.shape) - len(axes), len(other.shape)))
    if not trailing or prod(other.shape[i] for i in axes) != columns \
            or prod(other.shape) != prod(sums.shape):
        return None
    return Domain(other.shape, axes, sums.accumulate, sums.block)


_RUN = 16  # Elements that parts of a join have in a row, at least, to be stored part by part


def piece(node: Node) -> TensorType | None:
    """The type of the parts of a join whose parts are stored one by one, in one loop over a part.

    So an element costs one part's work, where choosing the part per element costs all of them.
    """
    if node.op != "join":
        return None
    part = node.operands[0].type
    axis = node.attrs["axis"] % part.rank
    same = len(node.operands) > 1 and all(v.type == part for v in node.operands)
    return part if same and estimate(prod(part.dims[axis:])) >= _RUN else None


class NestBuilder:
    """Builds expressions of values over a domain.

    Args:
        domain: the iteration space.
        members: nodes computed in this nest at its canonical index.
        inline: values expanded wherever they are read.
    """

    def __init__(self, domain: Domain, members: Iterable[Node], inline: set[Value]) -> None:
        self.domain = domain
        self.inline = inline
        self.members = set(members)
        self.memo: dict[tuple[Value, tuple[Index, ...], Expr | None], Element] = {}
        self.refs: dict[Value, Expr] = {}
        self.level: dict[int, int] = {}
        self._make_index()

    def _make_index(self) -> None:
        """Row variables for kept axes, one flat variable for each run of reduced axes."""
        shape, axes = self.domain.shape, self.domain.axes
        full: list[Index] = [Index.of(0)] * len(shape)
        rows: list[Var] = []
        loops: list[Var] = []
        i = 0
        while i < len(shape):
            if i not in axes:
                rows.append(Var(f"r{len(rows)}", shape[i]))
                full[i] = Index.of(rows[-1])
                i += 1
                continue
            j = i
            while j < len(shape) and (j in axes or shape[j] == 1):
                j += 1
            run = Var(f"k{len(loops)}", prod(shape[i:j]))
            loops.append(run)
            full[i:j] = unravel(Index.of(run), shape[i:j])
            for k in range(i, j):
                if k not in axes:
                    rows.append(Var(f"r{len(rows)}", 1))
            i = j
        self.full = tuple(full)
        self.rows = tuple(rows)
        self.loops = tuple(v for v in loops if v.extent != 1)

    def canonical(self, shape: tuple[int, ...]) -> tuple[Index, ...] | None:
        """The index at which a member of this shape is computed; None if it does not fit."""
        if shape == self.domain.shape:
            return self.full
        kept = [(d, Index.of(v)) for d, v in zip(self.domain.kept, self.rows, strict=True)]
        for source in (kept, list(zip(self.domain.shape, self.full, strict=True))):
            fitted = _fit(shape, source)
            if fitted is not None:
                return fitted
        if self.domain.block and prod(shape) == prod(self.domain.shape):
            return unravel(self._row() * self._columns() + self._column(), shape)
        return None

    def _row(self) -> Index:
        """The number of the row."""
        return ravel(tuple(Index.of(v) for v in self.rows), self.domain.kept)

    def _columns(self) -> int:
        return prod(self.domain.shape[i] for i in self.domain.axes)

    def _column(self) -> Index:
        """The position in a row."""
        axes = self.domain.axes
        return ravel(tuple(self.full[i] for i in axes), tuple(self.domain.shape[i] for i in axes))

    def is_full(self, shape: tuple[int, ...]) -> bool:
        """Whether a member of this shape is computed inside the loops (else once per row)."""
        return bool(self.loops) and prod(shape) == prod(self.domain.shape) != self.domain.rows

    # --- expressions ----------------------------------------------------------------------------

    def read(self, value: Value, idx: tuple[Index, ...], where: Expr | None) -> Element:
        """The element of a value at an index."""
        key = (value, idx, where)
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = self._read(value, idx, where)
        return found

    def _read(self, value: Value, idx: tuple[Index, ...], where: Expr | None) -> Element:
        node = value.node
        if node is not None and node in self.members:
            if self.domain.block and block_rows(node):
                raise Incompatible("a sum of a block is read before the block is done")
            if idx != self.canonical(value.shape):
                raise Incompatible(f"{node.op} is read at another element of the same nest")
            if value in self.refs:
                return E.cast(self.refs[value], value.dtype)
            return self.member(node)[value.index]
        if value in self.inline:
            assert node is not None
            return self._expand(node, idx, where)[value.index]
        if node is not None and node.op == "constant" and node.attrs["value"].array.size == 1:
            return _constant(node, value.dtype)
        named = self._named(value)
        if named.node in self.members:  # its buffer does not hold the element yet
            if named.shape != value.shape:
                raise Incompatible(f"{named.type} is read as {value.type} in the same nest")
            return self.read(named, idx, where)
        return self._load(value, idx, where)

    def _named(self, value: Value) -> Value:
        """The value whose memory another name may stand for."""
        while value.node is not None and lookup(value.node.op).may_alias and (
                value.node not in self.members and value not in self.inline):
            value = value.node.operands[0]
        return value

    def _load(self, value: Value, idx: tuple[Index, ...], where: Expr | None) -> Element:
        offset = ravel(idx, value.shape)
        if where is not None and _fixed(idx, value.shape):
            where = None
        if value.dtype.is_complex:
            part = complex_part(value.dtype)
            return ComplexExpr(E.load(value, offset, part, where, 0),
                               E.load(value, offset, part, where, 1))
        return E.load(value, offset, value.dtype, where)

    def _expand(
        self, node: Node, idx: tuple[Index, ...], where: Expr | None
    ) -> tuple[Element, ...]:
        op = lookup(node.op)
        assert op.value is not None
        out = op.value(self.reader(node, where), idx)
        return out if isinstance(out, tuple) else (out,)

    def reader(self, node: Node, ambient: Expr | None = None) -> Reader:
        """Return the reader of operands for a node's rule."""

        def read(k: int, idx: tuple[Index, ...], where: Expr | None = None) -> Element:
            if where is None:
                mask = ambient
            else:
                mask = where if ambient is None else ambient & where
            return self.read(node.operands[k], idx, mask)

        types = tuple(v.type for v in node.operands)
        results = tuple(r.type for r in node.results)
        return Reader(types, results, node.attrs, read)

    def member(self, node: Node) -> tuple[Element, ...]:
        """The elements of a member at the canonical index. Raises Incompatible if it has none in
        this domain."""
        key = node.results[0]
        idx = self.canonical(key.shape) if piece(node) is None else None
        if idx is None:
            raise Incompatible(f"{key.type} does not fit {self.domain}")
        found = self.memo.get((key, idx, None))
        if found is None:
            elements = self._expand(node, idx, None)
            for r, e in zip(node.results, elements, strict=True):
                self.memo[(r, idx, None)] = e
        return tuple(self.memo[(r, idx, None)] for r in node.results)

    def pieces(self, node: Node) -> list[tuple[tuple[Index, ...], Element]]:
        """For each part of a join (see `piece`), where its element goes, and the element. Raises
        Incompatible if the parts do not fit the domain."""
        part = node.operands[0]
        idx = self.canonical(part.shape)
        if idx is None:
            raise Incompatible(f"{part.type} does not fit {self.domain}")
        axis = node.attrs["axis"] % part.type.rank
        out = []
        for k, v in enumerate(node.operands):
            at = (*idx[:axis], idx[axis] + k * part.shape[axis], *idx[axis + 1 :])
            out.append((at, self.read(v, idx, None)))
        return out

    def block_sum(self, node: Node) -> tuple[Index, Expr]:
        """Where a row's element goes in the sums of its block, and the element. Raises Incompatible
        if the node sums something else."""
        rule = lookup(node.op).reduction
        assert rule is not None
        spec = rule(node)
        blocks, rows, *columns = spec.shape
        if rows != self.domain.block or blocks * rows != self.domain.rows \
                or prod(columns) != self._columns():
            raise Incompatible("blocks of another space are summed")
        block, row = self._row().split(rows)
        at = unravel(self._column(), tuple(columns))
        element = spec.value(self.reader(node), (block, row, *at))
        assert isinstance(element, Expr)
        return ravel((block, *at), (blocks, *columns)), E.cast(element, spec.accumulate)

    def reduce(self, node: Node) -> list[Reduce]:
        """The reduction of a member node; its result becomes a ref. Raises Incompatible if it
        reduces another space."""
        rule = lookup(node.op).reduction
        assert rule is not None
        spec = rule(node)
        if spec.shape != self.domain.shape or spec.axes != self.domain.axes:
            raise Incompatible("another space is reduced")
        element = spec.value(self.reader(node), self.full)
        result = node.results[0]
        if isinstance(element, ComplexExpr):
            raise Incompatible("complex reductions run as their parts")
        value = E.cast(element, spec.accumulate)
        if not self.loops:  # nothing to run over: one element is its own reduction
            only = E.const(0, result.dtype) if spec.kind.startswith("arg") else value
            idx = self.canonical(result.shape)
            if idx is None:
                raise Incompatible("the result has no place")
            self.memo[(result, idx, None)] = E.cast(only, result.dtype)
            return []
        dtype = result.dtype if spec.kind.startswith("arg") else spec.accumulate
        ref = Expr("ref", (), dtype, result)
        self.refs[result] = ref
        return [Reduce(spec.kind, value, ref)]


def _fit(shape: tuple[int, ...], source: Sequence[tuple[int, Index]]) -> tuple[Index, ...] | None:
    """Indices for `shape` from `source`, equal but for axes of size 1."""
    live = [(d, i) for d, i in source if d != 1]
    if [d for d in shape if d != 1] != [d for d, _ in live]:
        return None
    it = iter(live)
    return tuple(Index.of(0) if d == 1 else next(it)[1] for d in shape)


def _fixed(idx: tuple[Index, ...], shape: tuple[int, ...]) -> bool:
    """Whether an index is one place of the buffer for all elements of the nest: then reading it
    needs no mask, and what follows from it (the key of a draw) is one scalar for all lanes."""
    return not any(True for i in idx for _ in variables(i)) and all(
        surely_at_least(i.bounds[0], 0) and surely_at_least(d - 1, i.bounds[1])
        for i, d in zip(idx, shape, strict=True))


def _constant(node: Node, dtype: DType) -> Element:
    x = node.attrs["value"].array.reshape(())[()]
    if dtype.is_complex:
        part = complex_part(dtype)
        return ComplexExpr(E.const(x.real, part), E.const(x.imag, part))
    return E.const(x, dtype)


def complex_part(dtype: DType) -> DType:
    """The dtype of the real parts of a complex dtype."""
    from cellc_runtime import dtypes

    return dtypes.float32 if dtype is dtypes.complex64 else dtypes.float64


# --- whole nests -----------------------------------------------------------------------------


@dataclass(slots=True)
class Group:
    """Nodes computed by one nest, in topological order."""

    domain: Domain
    nodes: list[Node] = field(default_factory=list)


def build_nest(group: Group, inline: set[Value], stored: set[Value]) -> Nest:
    """The nest of a group; values in `stored` are written to their buffers. Raises Incompatible if
    a member does not fit the domain."""
    builder = NestBuilder(group.domain, group.nodes, inline)
    depth: dict[int, int] = {}
    phases: dict[int, Phase] = {}
    row_phases: dict[int, Phase] = {}
    for node in group.nodes:
        if piece(node) is not None:
            for at, element in builder.pieces(node):
                part = node.operands[0].shape
                _add_store(builder, node.result, element, depth, phases, row_phases, at, part)
            continue
        if group.domain.block and block_rows(node):
            if node.result in stored:
                at_sum, term = builder.block_sum(node)
                phase = phases.setdefault(_level([term], depth), Phase(builder.loops))
                phase.stores.append(Store(node.result, at_sum, term, adds=True))
            continue
        if lookup(node.op).reduction is not None:
            for red in builder.reduce(node):
                level = _level([red.value], depth)
                depth[id(red.result)] = level + 1
                phases.setdefault(level, Phase(builder.loops)).reduces.append(red)
            own = _own(builder, node)
            elements: tuple[Element, ...] = (builder.read(node.results[0], own, None),)
        else:
            elements = builder.member(node)
        for value, element in zip(node.results, elements, strict=True):
            if value in stored:
                _add_store(builder, value, element, depth, phases, row_phases)
    ordered: list[Phase] = []
    for level in sorted({*phases, *row_phases}):
        # Row work at this level needs only reductions of earlier levels.
        ordered += [p for p in (row_phases.get(level), phases.get(level)) if p is not None]
    nest = Nest(group.domain.mode, builder.rows, ordered, group.domain.accumulate or 4,
                group.domain.block)
    if nest.mode == "row" and not builder.loops:
        _lane_last_row(nest)
    else:
        merge_rows(nest, keep_last=nest.mode == "column")
    return nest


def window_nest(node: Node, inline: set[Value]) -> Nest:
    """The nest of an `update_slice` with steps of 1 that writes the elements of the update where
    they belong, and no others."""
    update, start = node.operands[1], node.attrs["start"]
    builder = NestBuilder(Domain(update.shape), (), inline)
    idx = builder.canonical(update.shape)
    assert idx is not None
    phases: dict[int, Phase] = {}
    _add_store(builder, node.result, builder.read(update, idx, None), {}, phases, phases,
               tuple(i + a for i, a in zip(idx, start, strict=True)), update.shape)
    nest = Nest("row", builder.rows, list(phases.values()), 4)
    _lane_last_row(nest)
    return nest


def _own(builder: NestBuilder, node: Node) -> tuple[Index, ...]:
    idx = builder.canonical(node.results[0].shape)
    if idx is None:
        raise Incompatible(f"{node.results[0].type} does not fit {builder.domain}")
    return idx


def _level(roots: list[Expr], depth: dict[int, int]) -> int:
    return max((depth[id(e)] for e in walk(roots) if e.op == "ref"), default=0)


def _add_store(
    builder: NestBuilder, value: Value, element: Element, depth: dict[int, int],
    phases: dict[int, Phase], row_phases: dict[int, Phase],
    at: tuple[Index, ...] | None = None, shape: tuple[int, ...] | None = None,
) -> None:
    """Add a store of a value at its own place, or of a part of this shape at `at`."""
    idx = builder.canonical(value.shape) if at is None else at
    assert idx is not None
    offset = ravel(idx, value.shape)
    parts = [(None, element)] if isinstance(element, Expr) else [(0, element.re), (1, element.im)]
    level = _level([e for _, e in parts], depth)
    if builder.is_full(shape or value.shape) or not builder.loops:
        phase = phases.setdefault(level, Phase(builder.loops))
    else:
        phase = row_phases.setdefault(level, Phase(()))
    phase.stores += [Store(value, offset, e, part) for part, e in parts]


def _lane_last_row(nest: Nest) -> None:
    """A nest without reductions: merge rows fully; the last one becomes the lane loop."""
    merge_rows(nest, keep_last=False)
    lane = nest.rows[-1:]
    nest.rows = nest.rows[:-1]
    for phase in nest.phases:
        phase.loops = lane
