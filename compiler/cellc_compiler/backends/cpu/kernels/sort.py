"""Sort kernels: stable, NaN last in either direction, values with their positions.

An element becomes an unsigned key (`llvm/sort_keys.py`). Lines longer than `INSERTION` are sorted
by the least significant digit first (radix 256, Knuth vol. 3, 5.2.5), skipping digits that all keys
share; shorter ones by insertion. Both are stable, so the result is the same. Lines are independent;
a task does a range of them.
"""

from __future__ import annotations

from collections.abc import Callable

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....lower.kernel import Kernel
from ....lower.plan import KernelPlan, Step, operand, result, scratch
from ...llvm.sort_keys import sort_key
from ...llvm.text import V, kernel_function, module, share_out

INSERTION = 48
_MAX_TASKS = 32
_DIGITS = 256


@dataclass(frozen=True, slots=True)
class SortSpec:
    """Sort each of `lines` rows of `n` elements.

    Attributes:
        lines, n: shape of the input, n < 2**31.
        dtype: a real dtype or bool.
        descending: largest first (a NaN is last all the same).
    """

    lines: int
    n: int
    dtype: DType
    descending: bool


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
        self.tasks = min(spec.lines, _MAX_TASKS)
        keys, order = self.tasks * spec.n * self.size, self.tasks * spec.n * 4
        self.radix = spec.n > INSERTION
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
            slot = f.mul(t, f.i64(s.n))
            return lambda line: self._line(line, slot)

        share_out(f, self.tasks, s.lines, task)
        each = 8.0 + 9.0 * self.size if self.radix else 4.0 + s.n
        return Kernel(module([f]), self.tasks, 3 + len(self.scratch), s.lines * s.n * each)

    def _line(self, line: V, slot: V) -> None:
        f, n = self.f, self.spec.n
        start = f.mul(line, f.i64(n))
        x = f.gep(self.x, start, self.ty)
        keys, order = f.gep(self.work[0], slot, self.ty), f.gep(self.work[1], slot, "i32")
        if self.radix:
            order = self._radix(x, keys, order, slot)
        else:
            f.loop(0, f.i64(n), 1, [], lambda i, _: self._insert(x, keys, order, i))
        values = f.gep(self.values, start, self.ty)
        positions = f.gep(self.positions, start, "i32")

        def store(i: V, _: list[V]) -> None:
            at = f.load("i32", f.gep(order, i, "i32"))
            f.store(at, f.gep(positions, i, "i32"))
            value = f.load(self.ty, f.gep(x, f.cast("zext", at, "i64"), self.ty))
            f.store(value, f.gep(values, i, self.ty))

        f.loop(0, f.i64(n), 1, [], store)

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
            return f.intrinsic("smax", "i64", f.sub(j, f.i64(1)), zero)

        def larger(c: list[V]) -> V:
            previous = f.load(self.ty, f.gep(keys, before(c[0]), self.ty))
            return f.binary("and", f.cmp("sgt", c[0], zero), f.cmp("ugt", previous, key))

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
        f, n = self.f, self.spec.n
        assert self.counts is not None
        counts = self.counts
        other = f.gep(self.work[2], slot, self.ty), f.gep(self.work[3], slot, "i32")
        f.loop(0, f.i64(self.size * _DIGITS), 1, [],
               lambda i, _: f.store(f.const("i32", 0), f.gep(counts, i, "i32")))

        def prepare(i: V, _: list[V]) -> None:
            key = self._key(x, i)
            f.store(key, f.gep(keys, i, self.ty))
            f.store(f.cast("trunc", i, "i32"), f.gep(order, i, "i32"))
            for digit in range(self.size):
                self._take(counts, self._digit(key, f.i64(digit)), f.i64(digit))

        f.loop(0, f.i64(n), 1, [], prepare)
        moved = f.loop(0, f.i64(self.size), 1, [keys, order, *other], self._pass)
        return moved[1]

    def _digit(self, key: V, digit: V) -> V:
        """The digit's value as an i64."""
        f = self.f
        wide = f.cast("zext", key, "i64")
        return f.binary("and", f.binary("lshr", wide, f.mul(digit, f.i64(8))), f.i64(_DIGITS - 1))

    def _take(self, counts: V, value: V, digit: V) -> V:
        """Post-increment the count of a digit's value."""
        f = self.f
        at = f.gep(counts, f.add(f.mul(digit, f.i64(_DIGITS)), value), "i32")
        old = f.load("i32", at)
        f.store(f.add(old, f.const("i32", 1)), at)
        return old

    def _pass(self, digit: V, buffers: list[V]) -> list[V]:
        """Distribute by one digit, unless all keys share it."""
        f, n = self.f, self.spec.n
        keys, order, keys_to, order_to = buffers
        assert self.counts is not None
        counts = self.counts
        first = self._digit(f.load(self.ty, keys), digit)
        row = f.gep(counts, f.mul(digit, f.i64(_DIGITS)), "i32")
        same = f.cmp("eq", f.load("i32", f.gep(row, first, "i32")), f.const("i32", n))

        def prefix(i: V, c: list[V]) -> list[V]:
            at = f.gep(row, i, "i32")
            count = f.load("i32", at)
            f.store(c[0], at)
            return [f.add(c[0], count)]

        def move(i: V, _: list[V]) -> None:
            key = f.load(self.ty, f.gep(keys, i, self.ty))
            to = f.cast("zext", self._take(counts, self._digit(key, digit), digit), "i64")
            f.store(key, f.gep(keys_to, to, self.ty))
            f.store(f.load("i32", f.gep(order, i, "i32")), f.gep(order_to, to, "i32"))

        def distribute() -> list[V]:
            f.loop(0, f.i64(_DIGITS), 1, [f.const("i32", 0)], prefix)
            f.loop(0, f.i64(n), 1, [], move)
            return [keys_to, order_to, keys, order]

        return f.when(same, lambda: [keys, order, keys_to, order_to], distribute)

