"""Products by weights that are stored in few bits: `out[i, j] = sum_k x[i, k] * w[k, j]`.

A weight lies in panels of 64 columns (`ops/contraction.py: DequantizedMatmul`). Its elements are
widened in registers: an int q to `(q - zero) * scale`, each operation rounded to float32.

**Order of arithmetic** (`loops/order.py`). An element is a chain of fused multiply-adds over k
ascending, from 0, or the sum of one per segment, in order; segments follow from k and the number of
whole panels.

**Blocking.** Few rows stream a panel from memory once and keep all of their sums in registers. For
many rows a segment of a panel is widened to a block of floats that stays in the second-level
cache, and tiles of rows run over it; what segments give is added in `out`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from cellc_runtime.dtypes import DType, uint8
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from .....ir.dims import estimate, is_symbolic
from .....loops.order import SMALL_COLUMNS, product_segment
from .....lower.kernel import Kernel
from ....llvm.convert import from_memory, memory_type
from ....llvm.text import Function, V, kernel_function, lanes_below, module, vector
from ..vectors import Plan, minimum, units_per_task
from .pack import ceil_div

FEW_ROWS = 4  # Rows that share one pass over a panel
_UNIT = 32  # Steps of k of one scale
_ROWS_TOGETHER = 128  # Rows of a unit of work
_TILES = (6, 2, 1)  # Rows of register tiles
_FLOATS = 4 * SMALL_COLUMNS  # Bytes of a step of widened columns


@dataclass(frozen=True, slots=True)
class SmallProduct:
    """A product by small weights."""

    # m, n, k: rows, columns and steps
    m: int
    n: int
    k: int
    group: int  # steps that share a scale; 0 for all of them
    weight: DType  # element type; `uint8` holds two steps
    scales: tuple[DType, ...]  # element types of the scales and zeros that there are

    @property
    def panels(self) -> int:
        """Panels of columns."""
        return ceil_div(self.n, SMALL_COLUMNS)

    @property
    def segment(self) -> int:
        """Steps of a segment; all of them if there is one."""
        return product_segment(self.panels * SMALL_COLUMNS, self.k, 4) or self.k

    @property
    def together(self) -> int:
        """Steps of k in an element of memory."""
        return 2 if self.weight is uint8 else 1

    @property
    def pitch(self) -> int:
        """Bytes of a step of stored columns."""
        return SMALL_COLUMNS * self.weight.itemsize


def small_kernels(p: SmallProduct, target: Target) -> Plan:
    """The kernel of a product; roles are `x`, `w`, `scale0` (scales), `scale1` (zeros), `out`."""
    plan = Plan()
    if is_symbolic(p.m) or p.m:
        roles = ["x", "w", *(f"scale{i}" for i in range(len(p.scales))), "out"]
        plan.add(_Writer(p, target).kernel(roles), *roles)
    return plan


class _Writer:
    """Writes the kernel of a product: a unit of work is a panel, of `_ROWS_TOGETHER` rows."""

    def __init__(self, p: SmallProduct, target: Target) -> None:
        self.p, self.target, self.lanes = p, target, target.lanes(4)
        self.wide = target.vector_registers > 16
        self.looks_up = p.weight is uint8 and target.vector_bytes == 64
        self.helpers: dict[str, Function] = {}

    def kernel(self, roles: Sequence[str]) -> Kernel:
        """The kernel; `roles` are the names of its buffers."""
        p = self.p
        known = not is_symbolic(p.m)
        few = known and p.m <= FEW_ROWS
        blocks = ceil_div(p.m, _ROWS_TOGETHER)
        rows = min(estimate(p.m), _ROWS_TOGETHER)
        cycles = p.k * SMALL_COLUMNS / self.lanes * (2.5 + rows / 2)
        units, per = p.panels * blocks, units_per_task(p.panels * blocks, cycles)
        f, pointers = kernel_function(self.target, len(roles))
        given = dict(zip(roles, pointers, strict=True))
        block = None if few else f.alloca((p.segment + 1) * _FLOATS)

        def unit(u: V, _: list[V]) -> None:
            panel, first = f.binary("udiv", u, f.i64(blocks)), f.i64(0)
            if blocks != 1:
                first = f.mul(f.binary("urem", u, f.i64(blocks)), f.i64(_ROWS_TOGETHER))
            at = {**given, **self._panel(f, given, panel)}
            valid = f.sub(f.i64(p.n), f.mul(panel, f.i64(SMALL_COLUMNS)))
            if block is None:
                self._call(f, "few", p.m, at, valid)
                return
            last = minimum(f, f.add(first, f.i64(_ROWS_TOGETHER)), f.i64(p.m))
            many = partial(self._many, f, at, valid, block, first, last)
            if known:
                many()
                return
            f.when(f.cmp("sle", f.i64(p.m), f.i64(FEW_ROWS)),
                   lambda: self._rows(f, "few", at, (f.i64(0), f.i64(p.m)), (1,), valid), many)

        lo = f.mul(f.arg("lo"), f.i64(per))
        f.loop(lo, minimum(f, f.mul(f.arg("hi"), f.i64(per)), f.i64(units)), 1, [], unit)
        f.ret_()
        return Kernel(module([*self.helpers.values(), f]), ceil_div(units, per), len(roles),
                      units * cycles)

    def _panel(self, f: Function, given: Mapping[str, V], panel: V) -> dict[str, V]:
        """Where a panel begins in each buffer."""
        p = self.p
        sizes = {"w": ceil_div(p.k, p.together) * p.pitch, "out": _FLOATS}
        groups = ceil_div(p.k, p.group) if p.group else 1
        sizes |= {f"scale{i}": groups * SMALL_COLUMNS * s.itemsize for i, s in enumerate(p.scales)}
        return {name: f.gep(given[name], f.mul(panel, f.i64(n))) for name, n in sizes.items()}

    def _many(self, f: Function, at: Mapping[str, V], valid: V, block: V, first: V, last: V
              ) -> None:
        """Rows from `first` to `last`, a segment of k after the other."""
        p = self.p

        def segment(s: V, _: list[V]) -> None:
            k = f.mul(s, f.i64(p.segment))
            steps = minimum(f, f.i64(p.segment), f.sub(f.i64(p.k), k))
            self._call(f, "widen", 1, {**at, "out": block}, k, steps)
            here = {"x": f.gep(at["x"], f.mul(k, f.i64(4))), "w": block, "out": at["out"]}
            self._rows(f, "tile", here, (first, last), _TILES, steps, s, valid)

        f.loop(0, ceil_div(p.k, p.segment), 1, [], segment)

    def _rows(self, f: Function, kind: str, at: Mapping[str, V], span: tuple[V, V],
              tiles: Sequence[int], *numbers: V) -> None:
        """Call a helper for each tile of a span of rows: tall tiles, then lower ones."""
        p, (row, last) = self.p, span
        for rows in tiles:
            end = last
            if rows > 1:
                count = f.sub(last, row)
                end = f.sub(last, f.binary("srem", count, f.i64(rows)))

            def tile(r: V, _: list[V], rows: int = rows) -> None:
                moved = {"x": f.gep(at["x"], f.mul(r, f.i64(4 * p.k))),
                         "out": f.gep(at["out"], f.mul(r, f.i64(4 * p.n)))}
                self._call(f, kind, rows, {**at, **moved}, *numbers)

            f.loop(row, end, rows, [], tile)
            row = end

    def _call(self, f: Function, kind: str, rows: int, at: Mapping[str, V], *numbers: V) -> None:
        """Call a helper, which is written when it is called first."""
        write, names = {"few": (self._few, ["valid"]), "widen": (self._widen, ["k", "steps"]),
                        "tile": (self._tile, ["steps", "segment", "valid"])}[kind]
        name = f"{kind}{rows}"
        if name not in self.helpers:
            params = [*(("ptr", n) for n in at), *(("i64", n) for n in names)]
            self.helpers[name] = helper = Function(name, params, self.target, "void", "internal")
            write(helper, rows)
            helper.ret_()
        f.call(name, "void", *at.values(), *numbers)

    # --- helpers ----------------------------------------------------------------------------

    def _strips(self, f: Function, vectors: int, body: Callable[[V, int], None]) -> None:
        """`body(column, vectors)` for strips of a panel, each of at most `vectors`."""
        vectors = min(vectors, SMALL_COLUMNS // self.lanes)
        f.loop(0, SMALL_COLUMNS, vectors * self.lanes, [], lambda c, _: body(c, vectors))

    def _few(self, f: Function, rows: int) -> None:
        """All of k for a few rows of a panel."""
        p = self.p
        most = (16 if self.wide else 8) // (1 << (rows - 1).bit_length())
        whole, rest = divmod(p.k, p.segment)

        def strip(column: V, vectors: int) -> None:
            zeros = [f.zero(vector("float", self.lanes))] * (rows * vectors)

            def chain(k: V, steps: int) -> list[V]:
                units, left = divmod(steps, _UNIT)
                accs = f.loop(0, units, 1, zeros, lambda u, accs: self._unit(
                    f, f.add(k, f.mul(u, f.i64(_UNIT))), column, _UNIT, accs, rows))
                at = f.add(k, f.i64(units * _UNIT))
                return self._unit(f, at, column, left, accs, rows) if left else accs

            def add(s: V, totals: Sequence[V], steps: int = p.segment) -> list[V]:
                parts = chain(f.mul(s, f.i64(p.segment)), steps)
                return [f.add(t, x) for t, x in zip(totals, parts, strict=True)]

            if p.segment == p.k:
                totals = chain(f.i64(0), p.k)
            else:
                totals = f.loop(0, whole, 1, zeros, add)
                totals = add(f.i64(whole), totals, rest) if rest else totals
            self._store(f, totals, column, rows)

        self._strips(f, most, strip)

    def _unit(self, f: Function, k: V, column: V, steps: int, accs: Sequence[V], rows: int
              ) -> list[V]:
        """`steps` of k, at most those of one scale, for some columns of each row."""
        vectors = len(accs) // rows
        widen = self._widened(f, k, column, vectors)

        def some(at: V, accs: Sequence[V], count: int) -> list[V]:
            out = list(accs)
            columns = widen(at, count)
            for i, ws in enumerate(columns):
                for r in range(rows):
                    x = f.gep(f.arg("x"), f.mul(f.add(k, at), f.i64(4)))
                    x = f.splat(f.load("float", f.gep(x, 4 * (i + r * self.p.k))), self.lanes)
                    for v, w in enumerate(ws):
                        out[r * vectors + v] = f.fma(x, w, out[r * vectors + v])
            return out

        left = steps % 4
        out = f.loop(0, steps - left, 4, accs, lambda at, accs: some(at, accs, 4))
        return some(f.i64(steps - left), out, left) if left else out

    def _widened(self, f: Function, k: V, column: V, vectors: int
                 ) -> Callable[[V, int], list[list[V]]]:
        """A function that gives `count` steps of columns in float32, from step `at` (even) after k;
        one scale is that of all."""
        p = self.p
        group = f.binary("udiv", k, f.i64(p.group)) if p.group else f.i64(0)
        at = f.add(f.mul(group, f.i64(SMALL_COLUMNS)), column)
        facts = [[self._number(f, f.gep(f.arg(f"scale{i}"), f.add(at, f.i64(v * self.lanes)),
                                        memory_type(s)), s) for v in range(vectors)]
                 for i, s in enumerate(p.scales)]
        middle = 8 * (p.weight is uint8 and len(facts) == 1)
        if middle and not self.looks_up:
            facts.append([f.const(vector("float", self.lanes), float(middle))] * vectors)

        def number(raw: V, v: int) -> V:
            x = from_memory(f, raw, p.weight)
            if self.looks_up:  # one instruction, which reads the low four bits of each lane
                values = f.constant_table(f"fours{middle}", "float", range(-middle, 16 - middle))
                x = f.call("llvm.x86.avx512.permvar.sf.512", vector("float", 16),
                           f.load(vector("float", 16), values), x)
            elif not p.weight.is_float:
                x = f.cast("sitofp", x, "float")
            x = f.sub(x, facts[1][v]) if len(facts) > 1 else x
            return f.mul(x, facts[0][v]) if facts else x

        def steps(offset: V, count: int) -> list[list[V]]:
            place = f.add(k, offset)
            if p.together == 2:
                place = f.binary("lshr", place, f.i64(1))
            row = f.gep(f.arg("w"), f.mul(place, f.i64(p.pitch)))
            out: list[list[V]] = []
            for i in range(0, count, p.together):
                raw = [self._raw(f, f.gep(f.gep(row, i // p.together * p.pitch), f.add(
                    column, f.i64(v * self.lanes)), memory_type(p.weight)))
                    for v in range(vectors)]
                halves = [raw]
                if p.together == 2:
                    low, high = (f.const(raw[0].ty, n) for n in (15, 4))
                    halves = [raw if self.looks_up else [f.binary("and", q, low) for q in raw],
                              [f.binary("lshr", q, high) for q in raw]]
                out += [[number(q, v) for v, q in enumerate(h)] for h in halves]
            return out[:count]

        return steps

    def _raw(self, f: Function, ptr: V) -> V:
        """Stored weights as they lie in memory; ints as i32."""
        p = self.p
        raw = f.load(vector(memory_type(p.weight), self.lanes), ptr, p.weight.itemsize)
        if p.weight.is_float:
            return raw
        return f.cast("zext" if p.weight is uint8 else "sext", raw, "i32")

    def _number(self, f: Function, ptr: V, dtype: DType) -> V:
        """Scales or zeros in float32."""
        raw = f.load(vector(memory_type(dtype), self.lanes), ptr, dtype.itemsize)
        if dtype.is_float:
            return from_memory(f, raw, dtype)
        return f.cast("sitofp" if dtype.kind == "int" else "uitofp", raw, "float")

    def _widen(self, f: Function, rows: int) -> None:
        """`steps` of k of a panel, from k on, as rows of floats."""
        p = self.p

        def strip(column: V, vectors: int) -> None:
            def unit(u: V, _: list[V]) -> None:
                widen = self._widened(f, f.add(f.arg("k"), u), column, vectors)

                def step(i: V, _: list[V]) -> None:
                    at = f.gep(f.arg("out"), f.mul(f.add(u, i), f.i64(_FLOATS)))
                    at = f.gep(at, column, "float")
                    for j, ws in enumerate(widen(i, p.together)):
                        for v, w in enumerate(ws):
                            f.store(w, f.gep(at, j * _FLOATS + 4 * v * self.lanes), 16)

                end = minimum(f, f.i64(_UNIT), f.sub(f.arg("steps"), u))
                f.loop(f.i64(0), end, p.together, [], step)

            f.loop(f.i64(0), f.arg("steps"), _UNIT, [], unit)

        self._strips(f, 4, strip)

    def _tile(self, f: Function, rows: int) -> None:
        """A segment of k for `rows` rows of a widened panel."""
        p, steps = self.p, f.arg("steps")

        def strip(column: V, vectors: int) -> None:
            def step(k: V, accs: Sequence[V], count: int = 1) -> list[V]:
                out = list(accs)
                for i in range(count):
                    w = f.gep(f.arg("w"), f.mul(f.add(k, f.i64(i)), f.i64(_FLOATS)))
                    w = f.gep(w, column, "float")
                    ws = [f.load(accs[0].ty, f.gep(w, 4 * v * self.lanes), 16)
                          for v in range(vectors)]
                    for r in range(rows):
                        x = f.gep(f.gep(f.arg("x"), k, "float"), 4 * (i + r * p.k))
                        x = f.splat(f.load("float", x), self.lanes)
                        for v, b in enumerate(ws):
                            out[r * vectors + v] = f.fma(x, b, out[r * vectors + v])
                return out

            accs = [f.zero(vector("float", self.lanes))] * (rows * vectors)
            whole = f.binary("and", steps, f.i64(-4))
            accs = f.loop(f.i64(0), whole, 4, accs, lambda k, accs: step(k, accs, 4))
            accs = f.loop(whole, steps, 1, accs, step)
            self._store(f, accs, column, rows, p.segment != p.k)

        self._strips(f, 4 if self.wide else 2, strip)

    def _store(self, f: Function, accs: Sequence[V], column: V, rows: int, adds: bool = False
               ) -> None:
        """Write sums of some columns of each row; added to what other segments gave, or to 0."""
        p, vectors = self.p, len(accs) // rows
        for i, acc in enumerate(accs):
            r, v = divmod(i, vectors)
            at = f.add(column, f.i64(v * self.lanes))
            ptr = f.gep(f.gep(f.arg("out"), 4 * r * p.n), at, "float")
            mask = None
            if p.n % SMALL_COLUMNS:
                mask = lanes_below(f, f.sub(f.arg("valid"), at), self.lanes)
            if adds:
                first = f.cmp("eq", f.arg("segment"), f.i64(0))
                had = f.masked_load(acc.ty, ptr, mask)
                acc = f.add(f.select(first, f.zero(acc.ty), had), acc)
            f.masked_store(acc, ptr, mask)
