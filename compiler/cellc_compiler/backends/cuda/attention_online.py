"""Online attention under `numerics="fast"`: which products and nests it takes, with the gradient.

Of the forward pass, two products and the softmax between them (`backends/attention.py`). If only
the gradient reads the weights besides the second product, its products and its row nest are taken,
too: they run where the first of them stood, and recompute scores and weights. So neither scores nor
weights nor their gradients are ever in memory. Attentions that this does not take may still be one
kernel (`attention.py`). The kernels are in `kernels/attention_online.py` and
`kernels/attention_backward.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cellc_runtime import dtypes
from cellc_runtime.records import dataclass, field
from cellc_runtime.target import Target

from ...fusion.clusters import Cluster
from ...ir.graph import Node, Value
from ...ir.types import prod
from ...loops.expr import Expr
from ...lower.graph_block import GraphBlock
from ...lower.instructions import Place
from ...lower.machine import Match, Pattern
from ...lower.plan import KernelPlan, Role, nest_operand, operand, result, scratch
from ..attention import ProductFinder, stored_by
from .attention import is_dense
from .attention_formulas import (
    DOT,
    SCORE,
    Formulas,
    Read,
    Reading,
    Unfit,
    formulas_of,
    gradient_of,
    softmax_of,
)
from .code import KernelCode, aligned
from .kernels.attention_backward import (
    Gradient,
    keys_kernel,
    keys_kernels,
    queries_kernel,
    row_sums,
)
from .kernels.attention_online import Online, Plane, forward_kernel
from .kernels.operands import fits
from .kernels.plans import step
from .rules.contraction import batch_digits

_TYPES = (dtypes.float32, dtypes.float16, dtypes.bfloat16)
WIDEST = 256  # Size of a query or a value at most: sums of a row are registers
FEWEST_ROWS = 4  # Queries of a matrix at least: a warp does 16
_ROWS, _OUT = result(3), operand(4)  # The forward pass's kept values of each row, and its result


@dataclass(frozen=True, slots=True)
class Backward:
    """The products and the nest of a gradient."""

    g: Value  # the output's gradient
    dots: Node | None  # it times the values, from which the nest makes the scores' gradient
    nest: Cluster | None  # None where that is the cluster of the softmax itself
    # the gradients of queries, keys and values, as far as there are such
    results: tuple[Node | None, Node | None, Node | None]
    turned: tuple[bool, bool]  # whether those of keys and values lie the other way in memory

    @property
    def products(self) -> list[Node]:
        """Those that there are."""
        return [n for n in (self.dots, *self.results) if n is not None]

    @property
    def nodes(self) -> list[Node]:
        """Of all clusters."""
        return [*self.products, *(self.nest.nodes if self.nest else ())]


@dataclass(slots=True, eq=False)
class Whole:
    """An attention that is found."""

    # scores, softmax: the first product, and the cluster after it
    scores: Node
    softmax: Cluster
    mix: Node | None  # the second product; None if nobody wants the result
    values: Value  # what is its right operand
    backward: Backward | None  # its gradient, if there is one
    plans: tuple[KernelPlan, KernelPlan | None]
    externals: tuple[Value, ...]  # the values that formulas read
    unread: list[Cluster] = field(default_factory=list)  # clusters that nothing reads any more
    # rows, out: what the forward pass keeps for the gradient, once it is emitted
    rows: Place | None = None
    out: Place | None = None

    @property
    def forward(self) -> list[Node]:
        """The nodes of the forward pass."""
        return [self.scores, *self.softmax.nodes, *([self.mix] if self.mix else ())]


@dataclass(frozen=True, slots=True)
class Pass(Match):
    """The forward pass of an attention, or that of its gradient; see `Match`."""

    whole: Whole
    backward: Backward | None = None

    @property
    def nodes(self) -> list[Node]:
        """See `Match`; the gradient reads what the forward pass reads."""
        return [*(self.backward.nodes if self.backward else ()), *self.whole.forward]

    @property
    def absorbed(self) -> tuple[Node, ...]:
        return (*self.nodes, *(c.nodes[0] for c in self.whole.unread))


class OnlinePattern(Pattern[Pass]):
    """Attention online, and its gradient."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def find(self, block: GraphBlock) -> dict[int, Pass]:
        return OnlineFinder(block, self.target).find()

    def emit(self, block: GraphBlock, match: Pass, cluster: Cluster) -> None:
        whole, back = match.whole, match.backward
        operands = [*whole.scores.operands, whole.values]
        results: list[tuple[Role, Node | None]] = [(result(0), whole.mix)]
        if back is not None:
            operands.append(back.g)
            results = [(result(i), n) for i, n in enumerate(back.results)]
        elif whole.backward is not None:
            whole.rows = block.low.new_buffer(8 * prod(whole.scores.result.shape[:-1]), "rows")
        table = {operand(i): block.place(v) for i, v in enumerate(operands)}
        table.update((nest_operand(i), block.place(v)) for i, v in enumerate(whole.externals))
        table.update((role, block.new_place(n.result, cluster, None))
                     for role, n in results if n is not None)
        if back is None:
            if whole.backward is not None and whole.mix is None:
                table[result(0)] = block.low.new_buffer(whole.backward.g.type.nbytes, "out")
            whole.out = table[result(0)]
        elif whole.out is not None:
            table[_OUT] = whole.out
        if whole.rows is not None:
            table[_ROWS] = whole.rows
        nodes = match.nodes if back is None else back.nodes
        own = whole.softmax if back is None else back.nest
        if own is not None:
            shown = block.cluster_nest(own, set(stored_by(block.schedule, own)))
            block.low.nests.append(shown.shown("+".join(n.op for n in own.nodes), own.nodes))
        label = "+".join(n.op for n in nodes) + " (online)"
        plan = whole.plans[back is not None]
        assert plan is not None
        block.run_plan(plan, table, label, tuple(nodes), operands)


class OnlineFinder(ProductFinder):
    """Looks for attention and its gradient in the schedule of one graph.

    Args:
        block: the graph being lowered, and its schedule.
    """

    def __init__(self, block: GraphBlock, target: Target) -> None:
        super().__init__(block)
        self.nest_of, self.memo, self.target = block.cluster_nest, block.low.memo, target

    def find(self) -> dict[int, Pass]:
        """Passes by the number of the cluster where they run: the second product or the softmax,
        and the first result of the gradient."""
        found: dict[int, Pass] = {}
        wholes: list[Whole] = []
        taken: set[Node] = set()
        for cluster in self.schedule.clusters:
            if cluster.domain is None or not cluster.domain.axes:
                continue
            whole = self._around(cluster)
            nodes = set() if whole is None else set(Pass(whole, whole.backward).nodes)
            if whole is not None and taken.isdisjoint(nodes):
                found.update(self._passes(whole))
                taken.update(nodes)
                wholes.append(whole)
        if wholes:
            wholes[0].unread.extend(self._unread(wholes, taken))
        return found

    def _passes(self, whole: Whole) -> dict[int, Pass]:
        clusters = self.schedule.clusters
        out = {clusters[self._runs_at(whole.softmax, whole.mix, whole.backward)].number:
               Pass(whole)}
        if whole.backward is not None:
            out[clusters[self._begin(whole.backward)].number] = Pass(whole, whole.backward)
        return out

    def _begin(self, backward: Backward) -> int:
        """The position where a gradient runs: that of the first result."""
        return min(self._at(n) for n in backward.results if n is not None)

    def _runs_at(self, softmax: Cluster, mix: Node | None, backward: Backward | None) -> int:
        """The position where a forward pass runs: before its gradient."""
        if mix is not None and (backward is None or self._at(mix) < self._begin(backward)):
            return self._at(mix)
        return self.position[softmax.number]

    def _at(self, node: Node) -> int:
        return self.position[self.home[node].number]

    def _around(self, softmax: Cluster) -> Whole | None:
        """The attention whose softmax is this cluster."""
        stored = self.stored(softmax)
        products = self.scores(softmax, stored[0]) if stored else []
        for scores in products if len(products) <= 2 else ():
            dots = next((p for p in products if p is not scores), None)
            try:
                return self._whole(softmax, scores, dots)
            except Unfit:
                continue
        return None

    def _whole(self, softmax: Cluster, scores: Node, dots: Node | None) -> Whole:
        """The attention of these; with `dots` the scores' gradient is in the same cluster. Raises
        Unfit if it is none, or its weights are read elsewhere."""
        reading = Reading(prod(scores.result.shape[:-2]), *scores.result.shape[-2:])
        read = self._read(reading, softmax, {
            scores.result: SCORE, **({dots.result: DOT} if dots is not None else {})})
        x, posts, others = softmax_of(read)
        mixes = [(w, p) for w in posts for p in self.products(w)]
        if not posts or len(mixes) > 1 or (dots is None and (read.reduces or read.stores)):
            raise Unfit
        weights, mix = mixes[0] if mixes else (next(iter(posts)), None)
        backward = self._backward(softmax, scores, mix, weights, dots)
        product, out = _second(mix, backward)
        if not _is_taken(scores, product, out):
            raise Unfit
        gradient = None
        if backward is not None and backward.dots is not None:
            if backward.nest is not None:
                read = self._read(reading, backward.nest, {
                    **posts, **others, backward.dots.result: DOT})
            gradient = gradient_of(read, posts[weights])
        formulas = formulas_of(reading, x, posts[weights], gradient, out.dtype, self.memo)
        externals = tuple(reading.values[e.number] for e in formulas.externals)
        read_first = [*scores.operands, product.operands[1], *externals]
        if not self._is_there(read_first, self._runs_at(softmax, mix, backward)) or (
                backward is not None
                and not self._is_there([backward.g], self._begin(backward))):
            raise Unfit
        plans = self._plans(scores, (product, product is mix), formulas, backward)
        return Whole(scores, softmax, mix, product.operands[1], backward, plans, externals)

    def _read(self, reading: Reading, cluster: Cluster, leaves: dict[Value, Expr]) -> Read:
        nest = self.nest_of(cluster, set(self.stored(cluster)))
        own = dict(zip(nest.cached.values, nest.values, strict=True))
        return reading.nest(nest.cached.nest, own, leaves)

    def _is_there(self, values: Iterable[Value], position: int) -> bool:
        """Whether values are computed before a position."""
        nodes = [self.schedule.root(v).node for v in values]
        return all(self._at(n) < position for n in nodes if n in self.home)

    # --- the gradient ---------------------------------------------------------------------------

    def _backward(self, softmax: Cluster, scores: Node, mix: Node | None, weights: Value,
                  dots: Node | None) -> Backward | None:
        """Return the reader of the weights besides the second product; None if there is none.
        Raises Unfit if it is not a gradient."""
        readers = {p for v in self.stored(softmax) for p in self.readers(v)}
        readers.discard(self.position[softmax.number])
        values, turned = next(iter(self._transposed(weights)), (None, False))
        nest = next((c for c in self.schedule.clusters if self.position[c.number] in readers
                     and c.domain is not None and c.domain.axes), None)
        gradients = self.stored(nest or softmax) if nest or dots else []
        of_scores = [self._results(v, scores) for v in gradients]
        queries, keys, keys_turned = next((r for r in of_scores if r[0] or r[1]),
                                          (None, None, False))
        if nest is not None:
            dots = next(iter(self.scores(nest, gradients[0])), None) if gradients else None
        of_nest = (queries, keys) if nest is None else (nest.nodes[0],)
        mine = {self._at(n) for n in (mix, values, *of_nest) if n is not None}
        if mine != readers or (nest is not None and dots is None):
            raise Unfit
        product = dots or values
        if product is None:
            return None
        g = product.operands[0 if dots is not None or turned else 1]
        found = Backward(g, dots, nest, (queries, keys, values), (keys_turned, turned))
        self._check(found, gradients, scores, mix)
        return found

    def _check(self, b: Backward, gradients: list[Value], scores: Node, mix: Node | None) -> None:
        """Raises Unfit unless the parts of a gradient are those of one attention."""
        queries, keys, values = b.results
        own = {self._at(n) for n in (queries, keys) if n is not None}
        shape = scores.result.shape
        right = [b.dots is None or mix is None or self._is_back(b.dots, mix),
                 values is None or self._is_same(_beside(values, b.turned[1]), b.g),
                 b.nest is None or (len(gradients) == 1 and self.readers(gradients[0]) == own),
                 (queries or keys or values) is not None,
                 b.g.shape[-2] == shape[-2],
                 all(prod(v.shape[:-2]) == prod(shape[:-2])
                     for v in (b.g, *(p.result for p in b.products)))]
        if not all(right):
            raise Unfit

    def _results(self, gradient: Value, scores: Node) -> tuple[Node | None, Node | None, bool]:
        """The gradients of queries and keys, by that of the scores, and how the latter lies."""
        queries = [n for n in self.products(gradient) if self._is_back(n, scores)]
        keys = [(n, turned) for n, turned in self._transposed(gradient)
                if self._is_same(_beside(n, turned), scores.operands[0])]
        key, turned = keys[0] if keys else (None, False)
        return queries[0] if queries else None, key, turned

    def _is_back(self, node: Node, product: Node) -> bool:
        """Whether a product is the gradient of another one's left operand."""
        own, other = node.operands[1], product.operands[1]
        return self._is_same(own, other) and own.shape == other.shape and \
            node.attrs["transpose_b"] != product.attrs["transpose_b"]

    def _is_same(self, a: Value, b: Value) -> bool:
        return self.schedule.root(a) is self.schedule.root(b)

    def _transposed(self, left: Value) -> list[tuple[Node, bool]]:
        """Matrix multiplications of a transposed value with another one; whether the value is the
        second operand, so that the result is transposed."""
        return [(n, n.operands[1] is v) for v in self.same_memory(left)
                for n in self.users.get(v, ())
                if n.op == "matmul" and n in self.home and n not in self.busy
                and n.attrs["transpose_a"] and not n.attrs["transpose_b"]]

    # --- kernels --------------------------------------------------------------------------------

    def _plans(self, scores: Node, second: tuple[Node, bool], formulas: Formulas,
               backward: Backward | None) -> tuple[KernelPlan, KernelPlan | None]:
        """Of both passes; one that is like another is made once. `second`: a product with the
        values, and whether it is that of the weights."""
        product, is_mix = second
        q, k, v = (*scores.operands, product.operands[1])
        (m, n), d = scores.result.shape[-2:], q.shape[-1]
        turned = _turns(product) == is_mix
        c = v.shape[-2 if turned else -1]
        online = Online(
            v.dtype, prod(scores.result.shape[:-2]), _plane(q, scores, (m, d), False),
            _plane(k, scores, (n, d), not _turns(scores)), _plane(v, product, (n, c), turned),
            formulas, backward is not None)
        key: tuple[Any, ...] = ("online", formulas.key, online.q, online.k, online.v,
                                 online.matrices)
        gradient = None
        if backward is not None:
            wanted = tuple(p is not None for p in backward.results)
            gradient = Gradient(online, _plane(backward.g, product, (m, c), False),
                                (wanted[0], wanted[1], wanted[2]), backward.turned)
            key = (*key, gradient.g, gradient.wanted, gradient.turned)
        if key not in self.memo:
            self.memo[key] = _forward(online, self.target), \
                gradient and _gradient(gradient, self.target)
        plans: tuple[KernelPlan, KernelPlan | None] = self.memo[key]
        return plans

    # --- what is not needed any more ------------------------------------------------------------

    def _unread(self, wholes: Sequence[Whole], taken: set[Node]) -> list[Cluster]:
        """Nests that only what is taken read, and that its kernels do not read: masks that became
        comparisons."""
        mine = {self._at(n) for n in taken}
        needed = {self.schedule.root(v) for w in wholes for v in (
            *w.externals, *w.scores.operands, w.values,
            *([w.backward.g] if w.backward else ()))}
        read, found = {v for n in taken for v in n.operands}, []
        for cluster in self.schedule.clusters:
            stored = self.stored(cluster)
            if cluster.domain is not None and taken.isdisjoint(cluster.nodes) and stored \
                    and needed.isdisjoint(stored) and not read.isdisjoint(stored) \
                    and all(self.readers(v) <= mine for v in stored):
                found.append(cluster)
        return found


def _second(mix: Node | None, backward: Backward | None) -> tuple[Node, Value]:
    """A product with the values, and a value of the shape of the result. Raises Unfit if there is
    none."""
    if mix is not None:
        return mix, mix.result
    if backward is None or backward.dots is None:
        raise Unfit
    return backward.dots, backward.g


def _is_taken(scores: Node, product: Node, out: Value) -> bool:
    """Whether kernels compute such: of float32 or 16-bit floats, matrix by matrix."""
    (m, n), (rows, c) = scores.result.shape[-2:], out.shape[-2:]
    d, matrices = scores.operands[0].shape[-1], prod(scores.result.shape[:-2])
    sizes = [v.type.size for v in (*scores.operands, product.operands[1], out)]
    return (out.dtype in _TYPES and scores.result.dtype is out.dtype and rows == m >= FEWEST_ROWS
            and prod(out.shape[:-2]) == matrices and min(n, c) > 1 and d > 0
            and max(d, c) <= WIDEST and fits(sizes) and not is_dense(scores, product, matrices))


def _beside(product: Node, second: bool) -> Value:
    """The other operand of a product."""
    return product.operands[0 if second else 1]


def _turns(product: Node) -> bool:
    return bool(product.attrs["transpose_b"])


def _plane(value: Value, product: Node, shape: tuple[int, int], turned: bool) -> Plane:
    """An operand, as the batch of a product reads it."""
    rows, columns = shape
    batch = batch_digits(value.shape[:-2], product.result.shape[:-2], rows * columns)
    strides = (1, rows) if turned else (columns, 1)
    return Plane(value.dtype, batch, rows, columns, *strides)


def _forward(a: Online, target: Target) -> KernelPlan:
    """The kernel of the result."""
    roles = [*map(operand, range(3)), result(0), *([_ROWS] if a.keeps else []), *_externals(a)]
    code = aligned(forward_kernel(a, target, True), forward_kernel(a, target, False))
    return KernelPlan((step(code, roles),))


def _gradient(a: Gradient, target: Target) -> KernelPlan:
    """The kernels of the gradients; see `attention_backward.py`."""
    o, sums = a.forward, scratch("row_sums")
    rows = o.matrices * o.q.rows
    steps = [step(row_sums(rows, o.v.columns, o.dtype, target), (operand(3), _OUT, sums))]
    read = [*map(operand, range(4)), _ROWS, sums]

    def add(vectors: KernelCode, plain: KernelCode, results: Iterable[int]) -> None:
        roles = [*read, *map(result, results), *_externals(o)]
        steps.append(step(aligned(vectors, plain), roles))

    if a.wanted[0]:
        add(queries_kernel(a, target, True), queries_kernel(a, target, False), [0])
    for own in keys_kernels(a):
        add(keys_kernel(a, own, target, True), keys_kernel(a, own, target, False),
            [1 + i for i in (0, 1) if own[i]])
    return KernelPlan(tuple(steps), {sums: 4 * rows})


def _externals(a: Online) -> list[Role]:
    return [nest_operand(i) for i in range(len(a.formulas.externals))]
