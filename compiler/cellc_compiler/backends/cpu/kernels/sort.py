"""Sort kernels: stable, NaN last in either direction, values with their positions.

An element becomes an unsigned key (`llvm/sort_keys.py`). Lines longer than `INSERTION` are sorted
by the least significant digit first (radix 256, Knuth vol. 3, 5.2.5), skipping digits that all keys
share; shorter ones by insertion. Both are stable, so the result is the same. Where the first few of
a long line are wanted, those that cannot be among them are left out before: their two most
significant digits are greater than those of as many keys. Lines are independent; a task does a
range of them.
"""

from __future__ import annotations

from collections.abc import Callable

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....ir.dims import is_symbolic, smallest
from ....lower.kernel import Kernel
from ....lower.plan import KernelPlan, Step, operand, result, scratch
from ...llvm.sort_keys import sort_key
from ...llvm.text import V, kernel_function, module, share_out

INSERTION = 48
_MAX_TASKS = 32
_DIGITS = 256
_LONG, _FEW = 1024, 8
"""Where keys are left out: elements of a line at least, and for each that is wanted."""


@dataclass(frozen=True, slots=True)
class SortSpec:
    """Sort each of `lines` rows of `n` elements."""

    # lines, n: shape of the input, n < 2**31
    lines: int
    n: int
    dtype: DType  # a real dtype or bool
    descending: bool  # largest first (a NaN is last all the same)
    first: int  # how many results of a line are wanted


def sort_kernels(spec: SortSpec, target: Target) -> KernelPlan:
    """Kernels from the operand to the results: values and int32 positions."""
    writer = _Writer(spec, target)
    buffers = {scratch(name): nbytes for name, nbytes in writer.scratch.items()}
    roles = (operand(0), result(0), result(1), *buffers)
    return KernelPlan((Step(writer.kernel(), roles),), buffers)


class _Writer:
    """Writes the kernel of one sort."""

    def __init__(self, spec: SortSpec, target: Target) -> None:
        self.spec = spec
        self.size = spec.dtype.itemsize
        self.bits = 8 * self.size
        self.ty = f"i{self.bits}"
        self.tasks = smallest(spec.lines, _MAX_TASKS)
        keys, order = self.tasks * spec.n * self.size, self.tasks * spec.n * 4
        opened = is_symbolic(spec.n)  # (there is code for both)
        self.radix = opened or spec.n > INSERTION
        self.insertion = opened or not self.radix
        known = not opened and not is_symbolic(spec.first)
        self.leaves_out = known and spec.n >= max(_LONG, _FEW * spec.first) and self.size > 1
        self.scratch = {"keys_a": keys, "order_a": order}
        if self.radix:
            self.scratch |= {"keys_b": keys, "order_b": order}
        self.f, bufs = kernel_function(target, 3 + len(self.scratch))
        self.x, self.values, self.positions = bufs[:3]
        self.work = bufs[3:]
        self.counts = self.f.alloca(self.size * _DIGITS * 4) if self.radix else None

    def kernel(self) -> Kernel:
        """The finished kernel."""
        f, s = self.f, self.spec

        def task(t: V) -> Callable[[V], None]:
            slot = t * s.n
            return lambda line: self._line(line, slot)

        share_out(f, self.tasks, s.lines, task)
        each = 4.0 + s.n
        if self.radix:
            each = 8.0 if self.leaves_out else 8.0 + 9.0 * self.size
        return Kernel(module([f]), self.tasks, 3 + len(self.scratch), s.lines * s.n * each)

    def _line(self, line: V, slot: V) -> None:
        f, n, first = self.f, self.spec.n, self.spec.first
        start = line * n
        x = f.gep(self.x, start, self.ty)
        keys, order = f.gep(self.work[0], slot, self.ty), f.gep(self.work[1], slot, "i32")

        def by_digits() -> list[V]:
            return [self._radix(x, keys, order, slot)]

        def by_insertion() -> list[V]:
            f.loop(0, f.i64(n), 1, [], lambda i, _: self._insert(x, keys, order, i))
            return [order]

        if self.radix and self.insertion:
            sorted_order = f.when(f.cmp("sgt", f.i64(n), INSERTION), by_digits, by_insertion)[0]
        else:
            sorted_order = (by_digits() if self.radix else by_insertion())[0]
        to = line * first
        values = f.gep(self.values, to, self.ty)
        positions = f.gep(self.positions, to, "i32")

        def store(i: V, _: list[V]) -> None:
            at = f.load("i32", f.gep(sorted_order, i, "i32"))
            f.store(at, f.gep(positions, i, "i32"))
            value = f.load(self.ty, f.gep(x, f.cast("zext", at, "i64"), self.ty))
            f.store(value, f.gep(values, i, self.ty))

        f.loop(0, f.i64(first), 1, [], store)

    # --- keys -------------------------------------------------------------------------------

    def _key(self, x: V, i: V) -> V:
        """The unsigned key of element i."""
        raw = self.f.load(self.ty, self.f.gep(x, i, self.ty))
        return sort_key(self.f, raw, self.spec.dtype, self.spec.descending)

    # --- insertion --------------------------------------------------------------------------

    def _insert(self, x: V, keys: V, order: V, i: V) -> None:
        """Insert element i after the sorted ones whose keys are no larger."""
        f = self.f
        key = self._key(x, i)
        zero = f.i64(0)

        def before(j: V) -> V:
            return f.intrinsic("smax", "i64", j - 1, zero)

        def larger(c: list[V]) -> V:
            previous = f.load(self.ty, f.gep(keys, before(c[0]), self.ty))
            return f.cmp("sgt", c[0], zero) & f.cmp("ugt", previous, key)

        def shift(c: list[V]) -> list[V]:
            (j,) = c
            k = before(j)
            for base, ty in ((keys, self.ty), (order, "i32")):
                f.store(f.load(ty, f.gep(base, k, ty)), f.gep(base, j, ty))
            return [k]

        (place,) = f.while_([i], larger, shift)
        f.store(key, f.gep(keys, place, self.ty))
        f.store(f.cast("trunc", i, "i32"), f.gep(order, place, "i32"))

    # --- radix ------------------------------------------------------------------------------

    def _radix(self, x: V, keys: V, order: V, slot: V) -> V:
        """Sort by digits; returns where the order lies in the end."""
        f = self.f
        other = f.gep(self.work[2], slot, self.ty), f.gep(self.work[3], slot, "i32")
        count = self._candidates(x, keys, order) if self.leaves_out else f.i64(self.spec.n)
        counts = self._no_counts()

        def prepare(i: V, _: list[V]) -> None:
            if self.leaves_out:
                key = f.load(self.ty, f.gep(keys, i, self.ty))
            else:
                key = self._key(x, i)
                f.store(key, f.gep(keys, i, self.ty))
                f.store(f.cast("trunc", i, "i32"), f.gep(order, i, "i32"))
            for digit in range(self.size):
                self._take(counts, self._digit(key, f.i64(digit)), f.i64(digit))

        f.loop(0, count, 1, [], prepare)
        moved = f.loop(0, f.i64(self.size), 1, [keys, order, *other],
                       lambda digit, buffers: self._pass(digit, buffers, count))
        return moved[1]

    def _no_counts(self) -> V:
        """The table of counts, all 0."""
        f = self.f
        assert self.counts is not None
        counts = self.counts
        f.loop(0, f.i64(self.size * _DIGITS), 1, [],
               lambda i, _: f.store(f.const("i32", 0), f.gep(counts, i, "i32")))
        return counts

    def _candidates(self, x: V, keys: V, order: V) -> V:
        """Put the keys that may be among the first, and their positions, in place; how many."""
        f, n, counts = self.f, self.spec.n, self._no_counts()
        wanted = f.const("i32", self.spec.first)
        high, next_ = (f.i64(self.size - 1 - k) for k in range(2))

        def key_at(i: V) -> V:
            return f.load(self.ty, f.gep(keys, i, self.ty))

        def prepare(i: V, _: list[V]) -> None:
            key = self._key(x, i)
            f.store(key, f.gep(keys, i, self.ty))
            self._take(counts, self._digit(key, high), f.i64(0))

        def last(row: int, before: V) -> tuple[V, V]:
            """The digit of the last wanted key, and how many keys have smaller ones."""
            def count(digit: V) -> V:
                return f.load("i32", f.gep(counts, digit + row * _DIGITS, "i32"))

            found = f.while_(
                [f.i64(0), before],
                lambda c: f.cmp("slt", c[1] + count(c[0]), wanted),
                lambda c: [c[0] + 1, c[1] + count(c[0])])
            return found[0], found[1]

        f.loop(0, f.i64(n), 1, [], prepare)
        top, before = last(0, f.const("i32", 0))

        def refine(i: V, _: list[V]) -> None:
            key = key_at(i)
            at = f.gep(counts, self._digit(key, next_) + _DIGITS, "i32")
            alike = f.cast("zext", f.cmp("eq", self._digit(key, high), top), "i32")
            f.store(f.load("i32", at) + alike, at)

        f.loop(0, f.i64(n), 1, [], refine)
        below, _ = last(1, before)
        limit = top * _DIGITS + below

        def keep(i: V, c: list[V]) -> list[V]:
            key = key_at(i)
            f.store(key, f.gep(keys, c[0], self.ty))
            f.store(f.cast("trunc", i, "i32"), f.gep(order, c[0], "i32"))
            head = f.binary("lshr", f.cast("zext", key, "i64") if self.bits < 64 else key,
                            f.i64(self.bits - 16))
            return [c[0] + f.cast("zext", f.cmp("ule", head, limit), "i64")]

        return f.loop(0, f.i64(n), 1, [f.i64(0)], keep)[0]

    def _digit(self, key: V, digit: V) -> V:
        """The digit's value as an i64."""
        f = self.f
        wide = f.cast("zext", key, "i64")
        return wide >> digit * 8 & _DIGITS - 1

    def _take(self, counts: V, value: V, digit: V) -> V:
        """Post-increment the count of a digit's value."""
        f = self.f
        at = f.gep(counts, digit * _DIGITS + value, "i32")
        old = f.load("i32", at)
        f.store(old + f.const("i32", 1), at)
        return old

    def _pass(self, digit: V, buffers: list[V], n: V) -> list[V]:
        """Distribute n keys by one digit, unless all share it."""
        f = self.f
        keys, order, keys_to, order_to = buffers
        assert self.counts is not None
        counts = self.counts
        first = self._digit(f.load(self.ty, keys), digit)
        row = f.gep(counts, digit * _DIGITS, "i32")
        same = f.cmp("eq", f.load("i32", f.gep(row, first, "i32")), f.cast("trunc", n, "i32"))

        def prefix(i: V, c: list[V]) -> list[V]:
            at = f.gep(row, i, "i32")
            count = f.load("i32", at)
            f.store(c[0], at)
            return [c[0] + count]

        def move(i: V, _: list[V]) -> None:
            key = f.load(self.ty, f.gep(keys, i, self.ty))
            to = f.cast("zext", self._take(counts, self._digit(key, digit), digit), "i64")
            f.store(key, f.gep(keys_to, to, self.ty))
            f.store(f.load("i32", f.gep(order, i, "i32")), f.gep(order_to, to, "i32"))

        def distribute() -> list[V]:
            f.loop(0, f.i64(_DIGITS), 1, [f.const("i32", 0)], prefix)
            f.loop(0, n, 1, [], move)
            return [keys_to, order_to, keys, order]

        return f.when(same, lambda: [keys, order, keys_to, order_to], distribute)

