"""How kernels of plain loops are written: loops and branches as `with` blocks, variables in memory,
one element at a time.

A rule (`rules.py`) says with `items` what is independent of one another; inside of it everything is
in program order. Where nothing runs side by side that is one more loop; a GPU gives each item to a
thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType, part_dtype

from ...loops import order
from ...loops.expr import Expr
from ..llvm import reduction, scalar
from ..llvm.convert import load_as, memory_type, register_type, store_as
from ..llvm.math.lanes import X
from ..llvm.text import Function, V


class PlainFunction(Function):
    """A function being written, one element at a time."""

    def i(self, value: int | X) -> X:
        """An index."""
        return value if isinstance(value, X) else X(self, self.i64(value))

    def number(self, dtype: DType, value: float) -> X:
        """A constant of a dtype, in the type it is computed in."""
        return X(self, self.const(register_type(dtype), value))

    def var(self, start: X) -> Var:
        """A variable."""
        return Var(self, start)

    @contextmanager
    def items(self, *extents: int) -> Iterator[list[X]]:
        """Begin a loop over independent items: numbers from 0 below each extent. All that a rule
        writes is inside of such a block; what a block reads, those before it have written."""
        with self.each(*extents) as at:
            yield at

    @contextmanager
    def each(self, *extents: int | X) -> Iterator[list[X]]:
        """Loops from 0 below each extent, one in the other."""
        with ExitStack() as stack:
            yield [stack.enter_context(self._loop(n)) for n in extents]

    @contextmanager
    def _loop(self, extent: int | X) -> Iterator[X]:
        i = self.var(self.i(0))
        with self.repeat(lambda: i.get().cmp("slt", extent)):
            yield i.get()
            i.set(i.get() + 1)

    @contextmanager
    def repeat(self, test: Callable[[], X]) -> Iterator[None]:
        """While a test holds."""
        self._count += 1
        head, body, after = (f"{name}{self._count}" for name in ("head", "body", "after"))
        self.line(f"br label %{head}")
        self._open(head)
        self.line(f"br {test().v}, label %{body}, label %{after}")
        self._open(body)
        yield
        self.line(f"br label %{head}")
        self._open(after)

    @contextmanager
    def given(self, test: X) -> Iterator[None]:
        """Where a test holds."""
        self._count += 1
        then, after = f"given{self._count}", f"after{self._count}"
        self.line(f"br {test.v}, label %{then}, label %{after}")
        self._open(then)
        yield
        self.line(f"br label %{after}")
        self._open(after)

    def compute(self, op: str, dtype: DType, *args: X) -> X:
        """An operation of loop nests on elements of a dtype, rounded to it."""
        return X(self, scalar.compute(self, Expr(op, (), dtype), [a.v for a in args]))

    def compare(self, how: str, dtype: DType, a: X, b: X) -> X:
        """`lt`, `ne`, ... of elements of a dtype."""
        e = Expr("cmp", (Expr("", (), dtype),), dtypes.bool_, how)
        return X(self, scalar.compute(self, e, [a.v, b.v]))


class Var:
    """A variable."""

    def __init__(self, f: PlainFunction, start: X) -> None:
        self.f, self.ty, self.place = f, start.v.ty, f.alloca(8, 8)
        self.set(start)

    def get(self) -> X:
        return X(self.f, self.f.load(self.ty, self.place))

    def set(self, x: X) -> None:
        self.f.store(x.v, self.place)


class Buffer:
    """A kernel's buffer: elements at an index of its rank or at a linear offset; a complex one has
    two parts."""

    def __init__(self, f: PlainFunction, pointer: V, dtype: DType, shape: Sequence[int]) -> None:
        self.f, self.pointer, self.dtype, self.shape = f, pointer, dtype, tuple(shape)
        self.parts = (0, 1) if dtype.is_complex else (0,)
        self.part = part_dtype(dtype) if dtype.is_complex else dtype

    def _at(self, idx: Sequence[X | int] | X, part: int) -> V:
        f = self.f
        offset = idx if isinstance(idx, X) else f.i(0)
        if not isinstance(idx, X):
            for i, n in zip(idx, self.shape, strict=True):
                offset = offset * n + f.i(i)
        offset = offset * len(self.parts) + part
        return f.gep(self.pointer, offset.v, memory_type(self.part))

    def get(self, idx: Sequence[X | int] | X, part: int = 0) -> X:
        """An element, in the type it is computed in."""
        return X(self.f, load_as(self.f, self.part, self._at(idx, part)))

    def set(self, idx: Sequence[X | int] | X, x: X, part: int = 0) -> None:
        """Write an element, rounded."""
        store_as(self.f, x.v, self.part, self._at(idx, part))


class Chains:
    """The partial results of a reduction: element i of a line goes to number i % count, and at the
    end halves are folded."""

    def __init__(self, f: PlainFunction, kind: str, dtype: DType, count: int) -> None:
        self.f, self.kind, self.dtype, self.count = f, kind, dtype, count
        start = reduction.identity(f, kind, register_type(dtype), dtype)
        self.parts = [(v.ty, f.alloca(8 * count)) for v in start]
        with f.each(count) as (i,):
            self._set(i, start)

    def _get(self, i: X) -> list[V]:
        return [self.f.load(ty, self.f.gep(p, i.v, "i64")) for ty, p in self.parts]

    def _set(self, i: X, values: list[V]) -> None:
        for v, (_, p) in zip(values, self.parts, strict=True):
            self.f.store(v, self.f.gep(p, i.v, "i64"))

    def take(self, x: list[V], at: X) -> None:
        """An element (an extreme with its position) at a place of its line."""
        i = at.op("urem", self.count)
        self._set(i, reduction.combine(self.f, self.kind, self.dtype, self._get(i), x))

    def multiply(self, a: X, b: X, at: X) -> None:
        """A product to be added, in one rounding."""
        i = at.op("urem", self.count)
        self._set(i, [a.fma(b, X(self.f, self._get(i)[0])).v])

    def total(self) -> list[V]:
        half = self.count // 2
        while half:
            with self.f.each(half) as (i,):
                other = self._get(i + half)
                self._set(i, reduction.combine(self.f, self.kind, self.dtype, self._get(i), other))
            half //= 2
        return self._get(self.f.i(0))


def sum_of_row(
    f: PlainFunction, dtype: DType, extent: int, take: Callable[[Chains, X, X], None]
) -> X:
    """The sum of a row of floats of a dtype: `take(chains, element, place)` adds an element."""
    parts, size = order.kernel_parts(extent), dtype.itemsize
    held = Chains(f, "sum", dtype, order.chains(size, parts if parts > 1 else extent))
    if parts == 1:
        with f.each(extent) as (i,):
            take(held, i, i)
        return X(f, held.total()[0])
    with f.each(parts) as (p,):
        own = Chains(f, "sum", dtype, order.chains(size, extent // parts))
        with f.each(extent // parts) as (i,):
            take(own, p * (extent // parts) + i, i)
        held.take(own.total(), p)
    return X(f, held.total()[0])
