"""Scatter kernels: a copy of the input, then the updates in the order of their positions.

`x[row, d, i]` takes `updates[row, s, i]` at `d = indices[..., s, ...]`, s ascending, so that
duplicates have one meaning whatever the number of threads. Tasks own disjoint parts of the
output: rows and chunks of columns. (A split over ranges of `d`, each task reading all positions,
gains nothing: the branch on the range costs more than a short update.)
"""

from __future__ import annotations

from collections.abc import Callable

from cellc_runtime.dtypes import DType
from cellc_runtime.target import Target

from ....ir.dims import estimate, largest
from ....lower.kernel import Kernel
from ....lower.plan import KernelPlan, Step, operand, result
from ...along_axis import Scatter, updated
from ...llvm.convert import load_as, memory_type, register_type, store_as
from ...llvm.text import Function, V, is_float, kernel_function, lanes_of, module, sizeof, vector

_COPY_BYTES = 1 << 16
_WANTED_TASKS = 16


def scatter_kernels(spec: Scatter, target: Target) -> KernelPlan:
    """Kernels from roles in0 (input), in1 (indices), in2 (updates) to out0."""
    size = spec.batch * spec.outer * spec.extent * spec.inner
    copy = Step(copy_kernel(size * spec.dtype.itemsize, target), (operand(0), result(0)))
    if spec.count == 0:
        return KernelPlan((copy,))
    update = Step(_Writer(spec, target).kernel(), (operand(1), operand(2), result(0)))
    return KernelPlan((copy, update))


def copy_kernel(nbytes: int, target: Target) -> Kernel:
    """bufs[1] = bufs[0], `nbytes` bytes."""
    return _bytes_kernel(nbytes, target, 2, lambda f, bufs, at, ty: f.load(ty, f.gep(bufs[0], at)))


def fill_kernel(nbytes: int, target: Target) -> Kernel:
    """bufs[0] = zeros, `nbytes` bytes."""
    return _bytes_kernel(nbytes, target, 1, lambda f, bufs, at, ty: f.zero(ty))


def _bytes_kernel(nbytes: int, target: Target, buffers: int,
                  source: Callable[[Function, list[V], V, str], V]) -> Kernel:
    f, bufs = kernel_function(target, buffers)
    width = target.vector_bytes

    def copy(at: V, ty: str) -> None:
        f.store(source(f, bufs, at, ty), f.gep(bufs[-1], at))

    def task(t: V, _: list[V]) -> None:
        start = t * _COPY_BYTES
        end = f.intrinsic("smin", "i64", start + _COPY_BYTES, nbytes)
        whole = end - (end - start) % width
        f.loop(start, whole, width, [], lambda at, _: copy(at, vector("i8", width)))
        f.loop(whole, end, 1, [], lambda at, _: copy(at, "i8"))

    f.loop(f.arg("lo"), f.arg("hi"), 1, [], task)
    f.ret_()
    tasks = largest(1, -(-nbytes // _COPY_BYTES))
    return Kernel(module([f]), tasks, buffers, nbytes / 16)


def apply_update(f: Function, mode: str, a: V, u: V, dtype: DType) -> V:
    """The new element from the old one and its update, in register types."""
    if mode in ("max", "min"):
        return updated(f, mode, dtype, a, u)
    if mode == "div" and not is_float(a.ty):
        return _int_div(f, a, u, dtype)
    if mode == "div":
        return f.fdiv(a, u)
    return {"add": f.add, "sub": f.sub, "mul": f.mul}[mode](a, u)


def _int_div(f: Function, a: V, u: V, dtype: DType) -> V:
    """Quotient toward zero that never traps: x / 0 is 0, the minimum over -1 wraps."""
    zero = f.cmp("eq", u, f.zero(u.ty))
    one = f.const(u.ty, 1)
    if dtype.kind == "uint":
        q = a // f.select(zero, one, u)
        return f.select(zero, f.zero(a.ty), q)
    minus = f.cmp("eq", u, f.const(u.ty, -1))
    q = f.binary("sdiv", a, f.select(zero | minus, one, u))
    return f.select(zero, f.zero(a.ty), f.select(minus, f.zero(a.ty) - a, q))


class _Writer:
    """Writes the update kernel of one scatter."""

    def __init__(self, spec: Scatter, target: Target) -> None:
        self.spec, self.target = spec, target
        self.parts = 2 if spec.dtype.is_complex else 1
        self.item = spec.dtype.itemsize // self.parts
        self.rows = spec.batch * spec.outer
        self.cols = spec.inner * (1 if spec.per_element else self.parts)
        raw = spec.mode == "update" or spec.dtype.is_complex
        self.memory = self._memory()
        self.register = self.memory if raw else register_type(spec.dtype)
        self.lanes = target.lanes(max(self.item, sizeof(self.register)))
        self.chunk = self._chunk()
        self.f, bufs = kernel_function(target, 3)
        self.indices, self.updates, self.out = bufs

    def _memory(self) -> str:
        if self.spec.dtype.is_complex:
            return "float" if self.item == 4 else "double"
        return memory_type(self.spec.dtype)

    def _chunk(self) -> int:
        """Columns per task, whole vectors."""
        wanted = max(1, _WANTED_TASKS // estimate(self.rows))
        share = -(-self.cols // wanted)
        return -(-share // self.lanes) * self.lanes

    def kernel(self) -> Kernel:
        """The finished kernel."""
        f, s = self.f, self.spec
        chunks = -(-self.cols // self.chunk)
        tasks = self.rows * chunks
        f.loop(f.arg("lo"), f.arg("hi"), 1, [], lambda t, _: self._task(t, chunks))
        f.ret_()
        per = 12.0 if s.per_element else 6.0 + 4.0 * self.cols / self.lanes
        count = s.count * self.rows * (self.cols if s.per_element else 1)
        return Kernel(module([f]), tasks, 3, count * per)

    def _task(self, t: V, chunks: int) -> None:
        f, s = self.f, self.spec
        row = t // chunks
        c0 = t % chunks * self.chunk
        c1 = f.intrinsic("smin", "i64", c0 + self.chunk, self.cols)
        step = self._elements if s.per_element else self._slices
        f.loop(0, f.i64(s.count), 1, [], lambda at, _: step(row, at, c0, c1))

    def _position(self, at: V) -> V:
        """indices[at] as an i64, a negative one counted from the end."""
        f, dtype = self.f, self.spec.index_dtype
        ty = memory_type(dtype)
        raw = f.load(ty, f.gep(self.indices, at, ty))
        wide = f.cast("sext" if dtype.kind == "int" else "zext", raw, "i64")
        back = wide + self.spec.extent
        return f.select(f.cmp("slt", wide, 0), back, wide)

    def _inside(self, d: V) -> V:
        return self.f.cmp("ult", d, self.spec.extent)

    def _slices(self, row: V, s: V, c0: V, c1: V) -> None:
        """One position's slice of columns c0..c1-1."""
        f, spec = self.f, self.spec
        batch = row // spec.outer
        d = self._position(batch * spec.count + s)

        def apply() -> None:
            to = (row * spec.extent + d) * self.cols
            come = (row * spec.count + s) * self.cols
            out, updates = (f.gep(p, o * self.item)
                            for p, o in ((self.out, to), (self.updates, come)))
            whole = c1 - (c1 - c0) % self.lanes
            f.loop(c0, whole, self.lanes, [],
                   lambda c, _: self._update(out, updates, c, self.lanes))
            f.loop(whole, c1, 1, [], lambda c, _: self._update(out, updates, c, 1))

        f.when(self._inside(d), apply)

    def _elements(self, row: V, s: V, c0: V, c1: V) -> None:
        """One line of positions, each with an element of its own."""
        f, spec = self.f, self.spec
        line = (row * spec.count + s) * self.cols
        first = row * spec.extent

        def column(c: V, _: list[V]) -> None:
            source = line + c
            d = self._position(source)

            def apply() -> None:
                to = (first + d) * self.cols + c
                for part in range(self.parts):
                    a, b = (o * self.parts + part for o in (to, source))
                    self._update_at(f.gep(self.out, a, self.memory),
                                    f.gep(self.updates, b, self.memory), 1)

            f.when(self._inside(d), apply)

        f.loop(c0, c1, 1, [], column)

    def _update(self, out: V, updates: V, column: V, lanes: int) -> None:
        f = self.f
        self._update_at(f.gep(out, column, self.memory), f.gep(updates, column, self.memory), lanes)

    def _update_at(self, out: V, update: V, lanes: int) -> None:
        f, mode, dtype = self.f, self.spec.mode, self.spec.dtype
        ty = vector(self.memory, lanes)
        if mode == "update":
            f.store(f.load(ty, update), out)
        elif dtype.is_complex:
            f.store(apply_update(f, mode, f.load(ty, out), f.load(ty, update), dtype), out)
        else:
            u = load_as(f, dtype, update, lanes)
            new = apply_update(f, mode, load_as(f, dtype, out, lanes), u, dtype)
            assert lanes_of(new.ty) == lanes
            store_as(f, new, dtype, out)
