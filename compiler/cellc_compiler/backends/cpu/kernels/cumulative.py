"""Cumulative kernels: running sum, product, maximum, minimum and log of a sum of exponentials
along an axis, and linear recurrences.

The axis is walked in order, one chain per column (sums: in runs, `loops/order.py`), so the result
does not depend on how columns are spread over lanes and tasks. Columns are taken a vector at a
time, those left over singly.
16-bit floats are accumulated in float32 and rounded at each store.
"""

from __future__ import annotations

from cellc_runtime.target import Target

from ....ir.dims import estimate, is_symbolic
from ....loops import order
from ....lower.kernel import Kernel
from ....lower.plan import KernelPlan, Role, Step, operand, result
from ...along_axis import Running
from ...llvm.convert import load_as, memory_type, register_type, store_as
from ...llvm.math import functions as math
from ...llvm.text import V, is_float, kernel_function, lanes_of, module, share_out, sizeof, vector

_MAX_TASKS = 64


def cumulative_kernels(spec: Running, target: Target) -> KernelPlan:
    """Kernels from role in0 (and in1, the factors, for linear) to out0 (and out1, int32 positions,
    for max and min)."""
    writer = _Writer(spec, target)
    return KernelPlan((Step(writer.kernel(), writer.roles),))


class _Writer:
    """Writes the kernel of one running reduction."""

    def __init__(self, spec: Running, target: Target) -> None:
        self.spec = spec
        self.extreme = spec.kind in ("max", "min")
        self.linear = spec.kind == "linear"
        self.roles: tuple[Role, ...] = (operand(0), result(0), result(1)) if self.extreme else (
            (operand(0), result(0), operand(1)) if self.linear else (operand(0), result(0)))
        self.memory = memory_type(spec.dtype)
        self.register = register_type(spec.dtype)
        self.lanes = target.lanes(sizeof(self.register))
        self.f, self.bufs = kernel_function(target, len(self.roles))
        self.vectors, self.singles = divmod(spec.inner, self.lanes)
        self.units = spec.outer * (self.vectors + self.singles)
        self.tasks = min(estimate(self.units), _MAX_TASKS)

    def kernel(self) -> Kernel:
        """The finished kernel."""
        share_out(self.f, self.tasks, self.units, lambda _: self._unit)
        cost = self.units * self.spec.n * 5.0
        return Kernel(module([self.f]), self.tasks, len(self.roles), cost)

    def _unit(self, unit: V) -> None:
        """One vector of columns, or a single one."""
        f, s = self.f, self.spec
        per = f.i64(self.vectors + self.singles)
        row, part = unit // per, unit % per
        base = row * (s.n * s.inner)
        split = f.i64(self.vectors)

        def vectors() -> None:
            self._walk(base + part * self.lanes, self.lanes)

        def single() -> None:
            column = split * self.lanes + (part - split)
            self._walk(base + column, 1)

        if not self.singles:
            vectors()
        elif not self.vectors:
            single()
        else:
            f.when(f.cmp("slt", part, split), vectors, single)

    def _walk(self, start: V, lanes: int) -> None:
        """The chain of `lanes` neighbouring columns from element `start`."""
        f, s = self.f, self.spec
        carried = [f.const(vector(self.register, lanes), self._identity())]
        if self.extreme:
            carried.append(f.const(vector("i32", lanes), 0))
        elif s.kind == "logsumexp":
            carried.append(f.const(carried[0].ty, 0.0))

        def step(i: V, c: list[V], base: V | None = None) -> list[V]:
            at = f.i64(s.n - 1) - i if s.reverse else i
            offset = start + at * s.inner
            x = load_as(f, s.dtype, f.gep(self.bufs[0], offset, self.memory), lanes)
            if self.extreme:
                new = self._extreme(c, x, at)
            elif s.kind == "logsumexp":
                new, shift = self._exponentials(c, x)
                value = shift + math.emit(f, "log", new[1])
                store_as(f, value, s.dtype, f.gep(self.bufs[1], offset, self.memory))
                return new
            else:
                held = c[0]
                if self.linear:
                    held = held * load_as(
                        f, s.dtype, f.gep(self.bufs[2], offset, self.memory), lanes)
                new = [held * x if s.kind == "prod" else held + x]
            out = c if s.exclusive else new
            value = out[0] if base is None else base + out[0]
            store_as(f, value, s.dtype, f.gep(self.bufs[1], offset, self.memory))
            if self.extreme:
                f.store(out[1], f.gep(self.bufs[2], offset, "i32"))
            return new

        is_open = is_symbolic(s.n) and s.n < order.LONGEST_OPEN_ROW
        run = order.open_scan_run(s.n) if is_open else order.scan_run(s.n)
        if s.kind != "sum" or (not is_open and run >= s.n):
            f.loop(0, f.i64(s.n), 1, carried, step)
            return

        def one(first: V, bases: list[V]) -> list[V]:
            end = f.intrinsic("smin", "i64", first + f.i64(run), f.i64(s.n))
            own = f.loop(first, end, 1, carried, lambda i, c: step(i, c, bases[0]), runs=True)
            return [bases[0] + own[0]]

        f.loop(0, f.i64(s.n), f.i64(run), carried, one)

    def _exponentials(self, c: list[V], x: V) -> tuple[list[V], V]:
        """The largest element so far and the sum of exponentials less the shift; the shift, which
        is the largest element or, where that is no finite number, 0."""
        f = self.f
        highest, total = c
        new = f.select(f.cmp("ugt", x, highest), x, highest)
        zero = f.const(x.ty, 0.0)
        shift = f.select(f.cmp("oeq", new - new, zero), new, zero)
        kept = total * math.emit(f, "exp", highest - shift)
        return [new, kept + math.emit(f, "exp", x - shift)], shift

    def _extreme(self, c: list[V], x: V, at: V) -> list[V]:
        f = self.f
        acc, position = c
        pred = "ge" if self.spec.kind == "max" else "le"
        if is_float(x.ty):
            # Unordered is true for a new NaN; one already held stays.
            take = f.cmp("u" + pred, x, acc) & f.cmp("ord", acc, acc)
        else:
            take = f.cmp(("s" if self.spec.dtype.kind == "int" else "u") + pred, x, acc)
        here = f.splat(f.cast("trunc", at, "i32"), lanes_of(x.ty))
        return [f.select(take, x, acc), f.select(take, here, position)]

    def _identity(self) -> float | int:
        kind, dtype = self.spec.kind, self.spec.dtype
        if kind == "logsumexp":
            return float("-inf")
        if not self.extreme:
            return 1 if kind == "prod" else 0
        if dtype.is_float:
            return float("-inf") if kind == "max" else float("inf")
        bits = 8 * dtype.itemsize
        if dtype.kind == "uint":
            return 0 if kind == "max" else -1
        return -(1 << (bits - 1)) if kind == "max" else (1 << (bits - 1)) - 1
