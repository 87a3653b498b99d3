"""The register tile of a matmul: rows x vectors of accumulators over a range of k.

A tile function is `void name(ptr a, ptr b, ptr bufs, i64 row, i64 col, i64 kc)`, followed by
`i64 first, i64 last` when k is blocked and by `ptr next` when it fetches ahead. `a` points to the
tile's first row and `b` to its first column at the first k; both advance by constant strides.
Accumulators live in registers for the whole range and pass from one block of k to the next
through memory, exactly. Where k is cut into segments (`loops/order.py`), what passes is their sum.
"""

from __future__ import annotations

from collections.abc import Callable

from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from .....ir.dims import is_symbolic
from ....llvm.text import Function, V, lanes_below, lanes_of, sizeof, transpose, vector
from .arith import Arith, load_part, narrow, storage_type, store_part
from .pack import LINE

Emit = Callable[[Function, V, V, V, int, V | None], V]

OUT_BUFFER = 2  # Index of the output in a matmul kernel's `bufs`; the epilogue's operands follow it


@dataclass(frozen=True, slots=True)
class Epilogue:
    """The operation on an accumulator vector before it is stored."""

    key: str  # names the computation; equal keys mean equal code
    # `emit(f, acc, row, col, lanes, mask) -> V`. `acc` holds `lanes` neighbouring columns of one
    # row in accumulator precision (re, im interleaved for complex); `row` counts rows over the
    # whole batch (`batch * m + i`), so that the flat output index is `row * n + col`; `mask` is
    # None, or an <lanes x i1> of the valid lanes. The result is a vector of the accumulator's type,
    # converted then to the output's, or of the output's stored type (`i16` for bfloat16) with any
    # rounding already done.
    emit: Emit
    # number of operands it reads and of further outputs it stores, at `operand(f, 0..buffers-1)`
    buffers: int = 0
    # the output may be the memory of an operand that is read at the element that is stored. Without
    # it they must not share memory.
    in_place: bool = False
    long: bool = False  # it is written once for a row of the tile, not for each vector of it
    # operands of the output's shape that are fetched while the tile is computed
    fetched: tuple[int, ...] = ()

    @staticmethod
    def operand(f: Function, index: int) -> V:
        """The data pointer of the epilogue's operand `index`."""
        return f.load("ptr", f.gep(f.arg("bufs"), OUT_BUFFER + 1 + index, "ptr"))


@dataclass(frozen=True, slots=True)
class Prefetch:
    """The lines that a tile prefetches into the second-level cache while it computes: its share of
    the next panel of B. Lines past a buffer's end may be named; nothing is read there."""

    lines: int  # cache lines asked for per iteration of the main loop
    pitch: int  # bytes from one of them to the next
    advance: int  # bytes they move per iteration
    share: int  # bytes from the share of one row tile to that of the next

    def emit(self, f: Function, base: V, iteration: V) -> None:
        """Ask for the lines of one iteration."""
        at = f.gep(base, f.mul(iteration, f.i64(self.advance)))
        for line in range(self.lines):
            f.prefetch(f.gep(at, line * self.pitch))


@dataclass(frozen=True, slots=True)
class TileLayout:
    """Strides and code options that all tiles of a kernel share (strides in bytes)."""

    arith: Arith  # element arithmetic
    target: Target  # CPU target
    a_row: int  # from one row of A to the next
    a_k: int  # from one k of A to the next
    b_k: int  # from one k of B to the next
    b_part: int  # from the real to the imaginary plane of packed B
    b_packed: bool  # B is packed panels: accumulator precision, aligned, padded
    n: int  # columns of the output
    m_last: bool  # the output is the transposed problem's: lanes run along its rows (n == 1)
    blocked: bool  # k is blocked: the function takes `first` and `last`
    carry: int  # index in `bufs` of the partial accumulators when blocked
    unroll: int  # k per iteration of the main loop
    epilogue: Epilogue | None  # applied before the store
    prefetch: Prefetch | None = None  # what is fetched ahead, if anything
    steps: int = 0  # iterations of the main loop in a block of k
    segment: int = 0  # k per segment, of which a block has a whole number; 0 if there is one
    # B is read as it is stored, `[n][k]`, and transposed in registers: bytes from one column of the
    # output to the next, and what squares (`square_steps`) leave of k
    transposing: tuple[int, int] | None = None


def square_steps(arith: Arith, segment: int) -> int:
    """Steps of k that are transposed together: as many as lanes, or pairs of bfloat16."""
    paired = arith.right.dtype.name == "bfloat16" and arith.stored is not None and not segment
    return arith.lanes * (2 if paired else 1)


def tile_function(
    name: str, lay: TileLayout, rows: int, columns: int, masked: bool = False
) -> Function:
    """The function of a tile of `rows` x `columns`; the last vector may be partial. One that is
    `masked` is given the number of columns that there are, as the last parameter `i64 valid`."""
    params = [("ptr", "a"), ("ptr", "b"), ("ptr", "bufs"), ("i64", "row"), ("i64", "col"),
              ("i64", "kc")]
    if lay.blocked:
        params += [("i64", "first"), ("i64", "last")]
    if lay.prefetch:
        params += [("ptr", "next")]
    if masked:
        params += [("i64", "valid")]
    f = Function(name, params, lay.target, "void", "internal")
    _Tile(f, lay, rows, columns, masked).write()
    return f


class _Tile:
    """Writes one tile function; an accumulator is `self.rows * self.vecs * parts` vectors."""

    def __init__(
        self, f: Function, lay: TileLayout, rows: int, columns: int, masked: bool
    ) -> None:
        self.f, self.lay, self.arith, self.masked = f, lay, lay.arith, masked
        self.rows, self.columns = rows, columns
        self.lanes = lay.arith.lanes
        self.vecs = -(-columns // self.lanes)

    def write(self) -> None:
        """The whole body."""
        f = self.f
        accs = self.sweep(self.start())
        if self.lay.blocked:
            last = f.cmp("ne", f.arg("last"), f.i64(0))
            f.when(last, lambda: self.finish(accs), lambda: self.spill(accs))
        else:
            self.finish(accs)
        f.ret_()

    # --- accumulation -----------------------------------------------------------------------

    def start(self) -> list[V]:
        """Zeros, or what the block of k before this one left."""
        f = self.f
        zeros = self.arith.zero(f, self.lanes) * (self.rows * self.vecs)
        if not self.lay.blocked:
            return zeros
        first = f.cmp("ne", f.arg("first"), f.i64(0))
        return f.when(first, lambda: zeros, self.reload)

    def sweep(self, accs: list[V]) -> list[V]:
        """All kc steps; those of a segment are a sum of their own."""
        f, lay = self.f, self.lay
        kc, begin = f.arg("kc"), [f.arg("a"), f.arg("b")]
        if not lay.segment:
            return self.chain(f.i64(0), kc, [*begin, *accs])[2:]
        zeros = self.arith.zero(f, self.lanes) * (self.rows * self.vecs)

        def part(k: V, carried: list[V]) -> list[V]:
            a, b, *sums = carried
            end = f.intrinsic("smin", "i64", f.add(k, f.i64(lay.segment)), kc)
            a, b, *one = self.chain(k, end, [a, b, *zeros])
            total = [f.add(x, y) for x, y in zip(sums, one, strict=True)]
            if is_symbolic(lay.segment):  # one segment is not added to 0 (which changes -0)
                alone = f.cmp("sge", f.i64(lay.segment), kc)
                total = [f.select(alone, y, x) for x, y in zip(total, one, strict=True)]
            return [a, b, *total]

        return f.loop(0, kc, lay.segment, [*begin, *accs], part)[2:]

    def chain(self, first: V, end: V, state: list[V]) -> list[V]:
        """Steps `first` to `end` of k: an unrolled loop and a loop of single steps. The state is
        where A and B are, and the accumulators."""
        if self.lay.transposing:
            return self.transposing_chain(first, end, state)
        f, lay, u = self.f, self.lay, self.lay.unroll
        count = f.binary("and", f.sub(end, first), f.i64(-u))
        whole = f.add(first, count)
        beside = self.beside()

        def body(count: int) -> Callable[[V, list[V]], list[V]]:
            def steps(k: V, carried: list[V]) -> list[V]:
                a, b, *acc = carried
                if lay.prefetch and count == u:
                    lay.prefetch.emit(f, f.arg("next"), f.binary("udiv", k, f.i64(u)))
                if count == u:
                    self.fetch(k, beside)
                for s in range(count):
                    acc = self.step(f.gep(a, s * lay.a_k), f.gep(b, s * lay.b_k), acc)
                return [f.gep(a, count * lay.a_k), f.gep(b, count * lay.b_k), *acc]

            return steps

        state = f.loop(first, whole, u, state, body(u))
        return f.loop(whole, end, 1, state, body(1)) if u > 1 else state

    def transposing_chain(self, first: V, end: V, state: list[V]) -> list[V]:
        """The same by squares of B (`square_steps`) that are transposed in registers. The rest of k
        comes last: a segment is a whole number of squares."""
        f, lay = self.f, self.lay
        assert lay.transposing
        pitch, rest = lay.transposing
        steps = square_steps(self.arith, lay.segment)

        def squares(count: int, carried: list[V]) -> list[V]:
            a, b, *acc = carried
            columns = [self.square(b, pitch, v, count) for v in range(self.vecs)]
            for t in range(count):
                acc = self.multiply(f.gep(a, t * lay.a_k), [[c[t]] for c in columns], acc)
            return [f.gep(a, count * lay.a_k), f.gep(b, count * lay.b_k), *acc]

        whole = f.add(first, f.binary("and", f.sub(end, first), f.i64(-steps)))
        state = f.loop(first, whole, steps, state, lambda _, carried: squares(steps, carried))
        if not rest:
            return state
        return f.when(f.cmp("slt", whole, end), lambda: squares(rest, state), lambda: state)

    def square(self, b: V, pitch: int, vec: int, count: int) -> list[V]:
        """Load `count` k of the columns of a vector of B, a vector for each k."""
        f, arith, lanes, columns = self.f, self.arith.right, self.lanes, self.count(vec)
        paired = square_steps(self.arith, self.lay.segment) > lanes
        rows, words = [], vector("i32", lanes)
        for r in range(columns):
            at: int | V = (vec * lanes + r) * pitch
            if self.masked:  # a column that is there, for those after the last
                last = f.sub(f.arg("valid"), f.i64(1))
                at = f.mul(f.intrinsic("smin", "i64", f.i64(vec * lanes + r), last), f.i64(pitch))
            if paired:
                ty = vector(arith.storage, 2 * lanes)
                pairs = load_part(f, ty, f.gep(b, at), None if count == 2 * lanes else count)
                rows.append(f.emit(words, f"bitcast {pairs} to {words}"))
            else:
                rows.append(arith.load(f, f.gep(b, at), lanes, count)[0])
        out = transpose(f, [*rows, *[f.zero(rows[0].ty)] * (lanes - columns)])
        if paired:  # a bfloat16 is the upper half of a float: even k are lower halves of pairs
            even, odd = f.const(out[0].ty, 16), f.const(out[0].ty, -1 << 16)
            halves = [f.binary(op, x, by) for x in out for op, by in (("shl", even), ("and", odd))]
            out = [f.cast("bitcast", x, arith.acc) for x in halves]
        return out[:count]

    def beside(self) -> list[V]:
        """Where the tile begins in the operands of the epilogue that are fetched."""
        f, ep = self.f, self.lay.epilogue
        if ep is None or not ep.fetched or self.lay.m_last or self.lay.steps < self.rows:
            return []
        size = self.arith.out.itemsize
        at = f.mul(f.add(f.mul(f.arg("row"), f.i64(self.lay.n)), f.arg("col")), f.i64(size))
        return [f.gep(ep.operand(f, i), at) for i in ep.fetched]

    def fetch(self, k: V, beside: list[V]) -> None:
        """Ask for a row of what the epilogue reads; each row for as many iterations as fit."""
        f, size = self.f, self.arith.out.itemsize
        if not beside:
            return
        each = max(1, self.lay.steps // self.rows) * self.lay.unroll
        row = f.intrinsic("smin", "i64", f.binary("udiv", k, f.i64(each)), f.i64(self.rows - 1))
        at = f.mul(row, f.i64(self.lay.n * size))
        if self.lay.blocked:  # only the last block's tiles are stored
            at = f.mul(at, f.arg("last"))
        for base in beside:
            for line in range(0, self.columns * size, LINE):
                f.prefetch(f.gep(f.gep(base, at), line))

    def step(self, a: V, b: V, accs: list[V]) -> list[V]:
        """One k: load the row of B, then accumulate."""
        return self.multiply(a, [self.load_b(b, v) for v in range(self.vecs)], accs)

    def multiply(self, a: V, bs: list[list[V]], accs: list[V]) -> list[V]:
        """One k of A, row by row broadcast, by one of B."""
        f, p = self.f, self.arith.parts
        out: list[V] = []
        for r in range(self.rows):
            x = self.arith.broadcast(f, f.gep(a, r * self.lay.a_row), self.lanes)
            for v in range(self.vecs):
                i = (r * self.vecs + v) * p
                # The order of a complex product's terms follows the caller's operands.
                pair = (bs[v], x) if self.lay.m_last else (x, bs[v])
                out += self.arith.mac(f, accs[i : i + p], *pair)
        return out

    def load_b(self, b: V, vec: int) -> list[V]:
        """Vector `vec` of a row of B."""
        f, arith = self.f, self.arith
        at = vec * self.lanes
        if self.lay.b_packed:
            ty = vector(arith.acc, self.lanes)
            return [f.load(ty, f.gep(b, at * arith.acc_size + p * self.lay.b_part),
                           self.lay.target.vector_bytes) for p in range(arith.parts)]
        arith = arith.right
        return arith.load(f, f.gep(b, at * arith.dtype.itemsize), self.lanes, self.count(vec))

    def count(self, vec: int) -> int:
        """Lanes of vector `vec`."""
        return min(self.lanes, self.columns - vec * self.lanes)

    def valid(self, vec: int) -> int | V:
        """Lanes of vector `vec` that are columns of the output."""
        f = self.f
        if not self.masked:
            return self.count(vec)
        return f.sub(f.arg("valid"), f.i64(vec * self.lanes))

    # --- results ----------------------------------------------------------------------------

    def vectors(self) -> list[tuple[int, int]]:
        """(row, vector) of every accumulator, in order."""
        return [(r, v) for r in range(self.rows) for v in range(self.vecs)]

    def address(self, buffer: int, itemsize: int) -> list[V]:
        """Where the tile's vectors lie in a buffer of the output's shape."""
        f, n = self.f, self.lay.n
        base = f.load("ptr", f.gep(f.arg("bufs"), buffer, "ptr"))
        at = f.add(f.mul(f.arg("row"), f.i64(n)), f.arg("col"))
        base = f.gep(base, f.mul(at, f.i64(itemsize)))
        return [f.gep(base, (r * n + v * self.lanes) * itemsize) for r, v in self.vectors()]

    def reload(self) -> list[V]:
        """The accumulators the block of k before this one left."""
        f, arith = self.f, self.arith
        ty = vector(arith.acc, self.lanes * arith.parts)
        where = self.address(self.lay.carry, arith.parts * arith.acc_size)
        out: list[V] = []
        for (_, v), ptr in zip(self.vectors(), where, strict=True):
            count = arith.scalars(f, self.valid(v))
            out += arith.split(f, load_part(f, ty, ptr, count))
        return out

    def spill(self, accs: list[V]) -> None:
        """Leave the accumulators to the next block of k."""
        f, arith, p = self.f, self.arith, self.arith.parts
        where = self.address(self.lay.carry, p * arith.acc_size)
        for i, (_, v) in enumerate(self.vectors()):
            whole = arith.join(f, accs[i * p : (i + 1) * p])
            store_part(f, whole, where[i], arith.scalars(f, self.valid(v)))

    def finish(self, accs: list[V]) -> None:
        """Epilogue, conversion and store of the final values."""
        f, arith, p = self.f, self.arith, self.arith.parts
        if self.lay.epilogue and self.lay.epilogue.long and not self.lay.m_last:
            self.finish_rows(accs)
            return
        where = self.address(OUT_BUFFER, arith.out.itemsize)
        for i, (r, v) in enumerate(self.vectors()):
            whole = arith.join(f, accs[i * p : (i + 1) * p])
            row = f.add(f.arg("row"), f.i64(r))
            col = f.add(f.arg("col"), f.i64(v * self.lanes))
            store_result(f, self.lay, whole, where[i], row, col, self.valid(v))


    def finish_rows(self, accs: list[V]) -> None:
        """The same by a loop over rows: what is long is written once, and has all registers."""
        f, size, parts = self.f, self.arith.out.itemsize, self.arith.parts
        wholes = [self.arith.join(f, accs[i * parts : (i + 1) * parts])
                  for i in range(len(self.vectors()))]
        nbytes = sizeof(wholes[0].ty)
        stack = f.alloca(len(wholes) * nbytes)
        for i, whole in enumerate(wholes):
            f.store(whole, f.gep(stack, i * nbytes), nbytes)
        out = f.load("ptr", f.gep(f.arg("bufs"), OUT_BUFFER, "ptr"))

        def row(r: V, _: list[V]) -> None:
            here = f.add(f.arg("row"), r)
            for v in range(self.vecs):
                at = f.add(f.mul(r, f.i64(self.vecs)), f.i64(v))
                acc = f.load(wholes[0].ty, f.gep(stack, f.mul(at, f.i64(nbytes))), nbytes)
                col = f.add(f.arg("col"), f.i64(v * self.lanes))
                flat = f.add(f.mul(here, f.i64(self.lay.n)), col)
                store_result(f, self.lay, acc, f.gep(out, f.mul(flat, f.i64(size))), here, col,
                             self.valid(v))

        f.loop(0, self.rows, 1, [], row)


def store_result(
    f: Function, lay: TileLayout, acc: V, ptr: V, row: V, col: V, count: int | V
) -> None:
    """Epilogue, conversion and store of the first `count` elements of an accumulator vector."""
    arith = lay.arith
    lanes = max(1, lanes_of(acc.ty) // arith.parts)
    if lay.epilogue and lay.m_last:
        assert isinstance(count, int)
        _store_column(f, lay, acc, ptr, f.add(f.mul(row, f.i64(lay.n)), col), count)
        return
    if lay.epilogue:
        acc = lay.epilogue.emit(f, acc, row, col, lanes, lanes_below(f, count, lanes))
    value = narrow(f, acc, arith.dtype, arith.out)
    store_part(f, value, ptr, None if count == lanes else arith.scalars(f, count))


def _store_column(f: Function, lay: TileLayout, acc: V, ptr: V, row: V, count: int) -> None:
    """A vector along the rows of a one-column output: the epilogue goes row by row."""
    arith, ep = lay.arith, lay.epilogue
    assert ep is not None
    one = vector(arith.acc, arith.parts)
    stack = f.alloca(sizeof(acc.ty))
    f.store(acc, stack, 64)

    def element(i: V, _: list[V]) -> None:
        x = f.load(one, f.gep(stack, f.mul(i, f.i64(sizeof(one)))))
        y = ep.emit(f, x, f.add(row, i), f.i64(0), 1, None)
        value = narrow(f, y, arith.dtype, arith.out)
        f.store(value, f.gep(ptr, f.mul(i, f.i64(sizeof(storage_type(arith.out)) * arith.parts))))

    f.loop(0, count, 1, [], element)
