"""Sums whose chains are lanes: products of one column, and weights' gradients of few channels.

The order of both (`loops/order.py`) has as many interleaved chains as a warp has lanes, or half of
them, or a quarter. So a sum is a group of adjacent lanes: they read adjacent elements, and the
folds by halves at the end are lanes that exchange their values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....loops import order
from ...llvm.convert import from_memory, memory_type, to_memory
from ...llvm.math.lanes import X
from ...llvm.text import V
from ..code import WARP, KernelCode
from ..writer import GpuFunction
from .operands import Operand, Spot, low_bits, number, spot, widened

WARPS = 4  # Warps of a block whose lanes do sums of their own
LONG_WARPS = 16  # Warps of a block that does one sum
UNROLLED = 4  # Elements of a chain that are read before the first is taken in


def _below(f: GpuFunction, last: X, carried: list[V]) -> V:
    """Whether the first of what a loop carries is below something."""
    return X(f, carried[0]).cmp("slt", last).v


class _Lanes:
    """Groups of `chains` lanes in a kernel."""

    def __init__(self, f: GpuFunction, sums: DType, chains: int, unit: X) -> None:
        self.f, self.ty, self.chains = f, memory_type(sums), chains
        self.unit, self.lane = unit.op("udiv", chains), unit.op("urem", chains)
        self.own = X(f, f.thread()) & (WARP - 1)

    def zero(self) -> X:
        """The beginning of a chain."""
        return X(self.f, self.f.const(self.ty, 0.0))

    def chain(self, count: int, start: X, read: Callable[[X], tuple[X, X]]) -> X:
        """Take in the products of this lane's elements of `count`, in order."""
        f, step = self.f, self.chains

        def body(many: int) -> Callable[[list[V]], list[V]]:
            def take(carried: list[V]) -> list[V]:
                k, acc = X(f, carried[0]), X(f, carried[1])
                factors = [read(k + u * step) for u in range(many)]
                for a, b in factors:
                    acc = X(f, f.multiply_add(a.v, b.v, acc.v))
                return [(k + many * step).v, acc.v]

            return take

        carried = [self.lane.v, start.v]
        for many in (UNROLLED, 1) if count >= UNROLLED * step else (1,):
            last = number(f, count - (many - 1) * step)
            carried = f.while_(carried, partial(_below, f, last), body(many))
        return X(f, carried[1])

    def folded(self, value: X) -> X:
        """The sum of a group's lanes; all lanes of the warp take part."""
        half = self.chains // 2
        while half:
            value = value + X(self.f, self.f.from_lane(value.v, (self.own ^ half).v))
            half //= 2
        return value


def element(f: GpuFunction, pointer: V, dtype: DType, at: X) -> X:
    """An element, as it is computed: an integer in four bytes at least."""
    memory = memory_type(dtype)
    return X(f, widened(f, from_memory(f, f.load(memory, f.gep(pointer, at.v, memory)), dtype)))


# --- one column -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dots:
    """Products of one column: a sum for each row of a batch, along `k`."""

    batch: int
    rows: int
    k: int
    # a, b: operands that lie along k
    a: Operand
    b: Operand
    out: DType  # dtype of the results, which lie densely
    sums: DType  # what they are computed in


def dots(d: Dots, target: Target) -> KernelCode:
    """The kernel; its buffers are the operands and the result."""
    parts = order.kernel_parts(d.k)
    return _rows(d, target) if parts == 1 else _long_rows(d, target, parts)


def _reader(f: GpuFunction, d: Dots, row: X) -> Callable[[X], tuple[X, X]]:
    """Return a function that reads the factors of a row at a step of k."""
    batch, i = row.op("udiv", d.rows), row.op("urem", d.rows)
    a, b = d.a.begin(f, batch, i).offset, d.b.begin(f, batch, number(f, 0)).offset
    return lambda k: (element(f, f.pointer(0), d.a.dtype, a + k),
                      element(f, f.pointer(1), d.b.dtype, b + k))


def _store(f: GpuFunction, d: Dots, value: X, row: X) -> None:
    raw = to_memory(f, low_bits(f, value.v, d.out), d.out)
    f.store(raw, f.gep(f.pointer(2), row.v, raw.ty))


def _rows(d: Dots, target: Target) -> KernelCode:
    """A group of lanes for each row."""
    f = GpuFunction(target, 3, WARPS * WARP)
    lanes = _Lanes(f, d.sums, order.chains(d.sums.itemsize, d.k), X(f, f.global_thread()))
    count = d.batch * d.rows
    row = X(f, f.intrinsic("umin", "i32", lanes.unit.v, number(f, count - 1).v))
    total = lanes.folded(lanes.chain(d.k, lanes.zero(), _reader(f, d, row)))
    with f.given(lanes.unit.cmp("ult", count) & lanes.lane.cmp("eq", 0)):
        _store(f, d, total, row)
    return f.finished_for(count * lanes.chains)


def _long_rows(d: Dots, target: Target, parts: int) -> KernelCode:
    """A block for each row: groups of lanes do parts in turn, and the first reduces what they
    gave."""
    f = GpuFunction(target, 3, LONG_WARPS * WARP)
    size, ty = d.k // parts, memory_type(d.sums)
    lanes = _Lanes(f, d.sums, order.chains(d.sums.itemsize, size), X(f, f.thread()))
    row, groups = X(f, f.block()), f.threads // lanes.chains
    read, table = _reader(f, d, row), f.shared_memory(parts * d.sums.itemsize)

    def turn(base: X, _: list[V]) -> None:
        # All groups go round equally often, since lanes of a warp exchange what they have.
        part = base + lanes.unit
        own = X(f, f.intrinsic("umin", "i32", part.v, number(f, parts - 1).v)) * size
        total = lanes.folded(lanes.chain(size, lanes.zero(), lambda k: read(own + k)))
        with f.given(part.cmp("ult", parts) & lanes.lane.cmp("eq", 0)):
            f.store(total.v, f.gep(table, part.v, ty))

    f.steps(number(f, 0), number(f, parts), groups, turn)
    f.barrier()
    with f.given((X(f, f.thread()) >> 5).cmp("eq", 0)):
        last = _Lanes(f, d.sums, order.chains(d.sums.itemsize, parts), lanes.own)
        total = last.folded(_sum_of_table(f, last, table, parts))
        with f.given(lanes.own.cmp("eq", 0)):
            _store(f, d, total, row)
    return f.finished(d.batch * d.rows)


def _sum_of_table(f: GpuFunction, lanes: _Lanes, table: V, count: int) -> X:
    """This lane's part of the sum of a table."""
    def take(carried: list[V]) -> list[V]:
        i, acc = X(f, carried[0]), X(f, carried[1])
        x = X(f, f.load(lanes.ty, f.gep(table, i.v, lanes.ty)))
        return [(i + lanes.chains).v, (acc + x).v]

    start = [lanes.lane.v, lanes.zero().v]
    return X(f, f.while_(start, partial(_below, f, number(f, count)), take)[1])


# --- weights' gradients of few channels -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PixelSums:
    """Gradients of weights, a sum of products over the pixels of images each."""

    # rows, columns: output channels (of all groups), and weights of each
    rows: int
    columns: int
    # images, places: of the sum
    images: int
    places: int
    runs: int  # of images that are sums of their own; `each` images at most
    each: int
    # a, b: the cotangent and the image; their batch digits are those of a row, the free ones those
    # of a column, and the steps an image and its places
    a: Operand
    b: Operand
    out: DType
    sums: DType

    @property
    def elements(self) -> int:
        """Weights."""
        return self.rows * self.columns


def pixel_sums(s: PixelSums, target: Target) -> KernelCode:
    """The kernel; its buffers are the cotangent, the image and the sums: of each run, or the
    result."""
    f = GpuFunction(target, 3, WARPS * WARP)
    chains = order.PIXEL_CHAINS * 4 // s.sums.itemsize
    lanes = _Lanes(f, s.sums, chains, X(f, f.global_thread()))
    count = s.runs * s.elements
    unit = X(f, f.intrinsic("umin", "i32", lanes.unit.v, number(f, count - 1).v))
    run, row, column = (X(f, v) for v in f.split(unit.v, [s.runs, s.rows, s.columns]))
    a, b = s.a.begin(f, row, number(f, 0)), s.b.begin(f, row, column)
    first = run * s.each
    end = X(f, f.intrinsic("umin", "i32", (first + s.each).v, number(f, s.images).v))

    def image(n: X, carried: list[V]) -> list[V]:
        return [lanes.chain(s.places, X(f, carried[0]), _pixels(f, s, a, b, n)).v]

    (acc,) = f.steps(first, end, 1, image, [lanes.zero().v])
    total = lanes.folded(X(f, acc))
    dtype = s.out if s.runs == 1 else s.sums
    with f.given(lanes.unit.cmp("ult", count) & lanes.lane.cmp("eq", 0)):
        f.store(to_memory(f, total.v, dtype), f.gep(f.pointer(2), unit.v, memory_type(dtype)))
    return f.finished_for(count * chains)


def _pixels(f: GpuFunction, s: PixelSums, a: Spot, b: Spot, image: X) -> Callable[[X], tuple[X, X]]:
    """Return a function that reads the factors of a place of an image."""
    def read(place: X) -> tuple[X, X]:
        left = a + _step(f, s.a, image, place)
        right = b + _step(f, s.b, image, place)
        inside = s.b.inside(right)
        at = right.offset if inside is None else inside.where(right.offset, 0)
        value = element(f, f.pointer(1), s.b.dtype, at)
        if inside is not None:
            value = inside.where(value, 0.0)
        return element(f, f.pointer(0), s.a.dtype, left.offset), value

    return read


def _step(f: GpuFunction, of: Operand, image: X, place: X) -> Spot:
    images, *places = of.steps
    return Spot(image * images.stride) + spot(f, place, tuple(places))
