"""Vectors the convolution and pooling kernels share: storage conversion, windows, tasks.

A kernel computes in its *accumulator type*: float64 for float64, float32 for everything else.
float16 and bfloat16 are storage formats, widened on load and rounded once on store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cellc_runtime.dtypes import DType
from cellc_runtime.packing import Packing
from cellc_runtime.records import dataclass, field
from cellc_runtime.target import Target

from ....ir.dims import Undecided, estimate, is_symbolic
from ....lower.kernel import Kernel
from ....lower.plan import Role
from ...llvm.convert import (
    from_memory,
    memory_type,
    register_type,
    round_bfloat16,
    to_memory,
)
from ...llvm.text import (
    Function,
    V,
    element,
    first_lanes,
    kernel_function,
    lanes_of,
    mask_of,
    module,
    vector,
)

WANTED_TASKS = 64  # Tasks a large kernel is cut into: a few for each of up to 16 threads
TASK_CYCLES = 20_000.0  # A task shorter than this is not worth handing to another thread


def acc_size(dtype: DType) -> int:
    """Bytes of one accumulator."""
    return 8 if dtype.name == "float64" else 4


def is_half(dtype: DType) -> bool:
    """Whether storage and accumulator types differ."""
    return dtype.itemsize == 2


def lanes(target: Target, dtype: DType) -> int:
    """Accumulators in one vector register."""
    return target.lanes(acc_size(dtype))


def narrow(f: Function, v: V, dtype: DType) -> V:
    """An accumulator in storage form, rounded to nearest even; NaN stays NaN."""
    return round_bfloat16(f, v) if dtype.name == "bfloat16" else to_memory(f, v, dtype)


def load_acc(f: Function, ptr: V, dtype: DType, width: int, mask: V | None = None) -> V:
    """`width` stored elements in the accumulator type; lanes outside `mask` read as 0."""
    return from_memory(f, f.masked_load(vector(memory_type(dtype), width), ptr, mask), dtype)


def store_acc(f: Function, value: V, ptr: V, dtype: DType, mask: V | None = None) -> None:
    """Round accumulators to `dtype` and store them (the lanes of `mask`)."""
    f.masked_store(narrow(f, value, dtype), ptr, mask)


def in_vectors(f: Function, count: int, width: int, body: Callable[[V, V | None], None]) -> None:
    """`body(index, mask)` for `count` elements in steps of `width`, the tail masked."""
    full = count // width * width
    f.loop(0, full, width, [], lambda i, _: body(i, None))
    if is_symbolic(count):
        rest = f.i64(count - full)
        f.when(f.cmp("sgt", rest, 0), lambda: body(f.i64(full), lanes_below(f, rest, width)))
    elif count > full:
        body(f.i64(full), first_lanes(count - full, width))


def lanes_below(f: Function, count: V, width: int) -> V:
    """The mask of the first lanes, as many as an i64 says: none, if it is negative."""
    some = f.splat(f.cast("trunc", count, "i32"), width)
    return f.cmp("slt", f.iota(vector("i32", width)), some)


def elem_ptr(f: Function, base: V, index: V | int, dtype: DType) -> V:
    """Pointer to a stored element."""
    return f.gep(base, index, memory_type(dtype))


def acc_ptr(f: Function, base: V, index: V | int, dtype: DType) -> V:
    """Pointer to an element of a scratch of accumulators."""
    return f.gep(base, index, register_type(dtype))


@dataclass(frozen=True, slots=True)
class Plan:
    """Kernels to run in order, each with the roles of its buffers."""

    # `(kernel, roles)`; roles are the operation's operands (`x`, `w`, `dy`, `out`, `indices`, `a`,
    # `b`) and names of `scratch`; what an epilogue reads (and stores besides `out`) and what is
    # packed have roles of lowering
    steps: list[tuple[Kernel, tuple[str | Role, ...]]] = field(default_factory=list)
    # bytes of every scratch buffer (64-byte aligned, contents undefined)
    scratch: dict[str | Role, int] = field(default_factory=dict)
    # the layout of scratch that a step packs an operand into without changing an element, by role
    packing: dict[Role, Packing] = field(default_factory=dict)

    @property
    def cost(self) -> float:
        """Estimated cycles of all steps on one core."""
        return sum(k.cost for k, _ in self.steps)

    def add(self, kernel: Kernel, *roles: str | Role) -> None:
        """Append a step."""
        self.steps.append((kernel, roles))


@dataclass(frozen=True, slots=True)
class Window:
    """A strided row access: element `start + i * stride` in lane i, `fill` outside the row."""

    dtype: DType  # storage type of the row
    stride: int  # elements between lanes
    width: int  # lanes
    fill: float = 0.0  # accumulator value of a lane outside `[0, bound)`

    def load(self, f: Function, row: V, start: V, bound: V) -> V:
        """Load lanes with `0 <= index < bound` (i64 values; bound may be 0: nothing is read).

        `row` points to element 0. Returns a vector of accumulators.
        """
        if self.width == 1:
            return from_memory(f, self._one(f, row, start, bound), self.dtype)
        parts = [self._part(f, row, start + p * self.width, bound) for p in range(self.stride)]
        return from_memory(f, pick(f, parts, self.stride), self.dtype)

    def load_static(self, f: Function, row: V, start: int, bound: int) -> V:
        """`load` from constant positions: masks are constants, and rare."""
        ty = vector(memory_type(self.dtype), self.width)
        fill = f.const(vector(register_type(self.dtype), self.width), self.fill)
        parts = []
        for p in range(self.stride):
            first = start + p * self.width
            live = [0 <= first + i < bound for i in range(self.width)]
            ptr = elem_ptr(f, row, first, self.dtype)
            if all(live):
                parts.append(f.load(ty, ptr))
            elif any(live):
                parts.append(f.masked_load(ty, ptr, mask_of(live), narrow(f, fill, self.dtype)))
            else:
                parts.append(narrow(f, fill, self.dtype))
        return from_memory(f, pick(f, parts, self.stride), self.dtype)

    def _one(self, f: Function, row: V, start: V, bound: V) -> V:
        """One stored element, or the fill."""
        fill = narrow(f, f.const(register_type(self.dtype), self.fill), self.dtype)
        return f.when(
            f.cmp("ult", start, bound),
            lambda: [f.load(memory_type(self.dtype), elem_ptr(f, row, start, self.dtype))],
            lambda: [fill],
        )[0]

    def _part(self, f: Function, row: V, start: V, bound: V) -> V:
        """`width` consecutive elements from `start`."""
        ptr = elem_ptr(f, row, start, self.dtype)
        ty = vector(memory_type(self.dtype), self.width)

        def masked() -> list[V]:
            index = f.iota(vector("i32", self.width)) + f.splat(f.cast("trunc", start, "i32"),
                self.width)
            limit = f.splat(f.cast("trunc", bound, "i32"), self.width)
            fill = narrow(f, f.const(vector(register_type(self.dtype), self.width), self.fill),
                          self.dtype)
            return [f.masked_load(ty, ptr, f.cmp("ult", index, limit), fill)]

        if f.target.vector_bytes > 16:
            return masked()[0]
        # Without masked loads in the instruction set the common case gets its own branch.
        inside = f.cmp("sge", start, 0) & f.cmp("sle", start + self.width, bound)
        return f.when(inside, lambda: [f.load(ty, ptr)], masked)[0]


def pick(f: Function, parts: Sequence[V], stride: int) -> V:
    """Every `stride`-th element of the concatenation of `stride` equal vectors."""
    if stride == 1:
        return parts[0]
    width = lanes_of(parts[0].ty)
    first = [i * stride if i * stride < 2 * width else -1 for i in range(width)]
    out = f.shuffle(parts[0], parts[1], first)
    for p in range(2, stride):
        mask = []
        for i in range(width):
            at = i * stride - p * width
            mask.append(i if at < 0 else width + at if at < width else -1)
        out = f.shuffle(out, parts[p], mask)
    return out


def beats(f: Function, v: V, best: V) -> V:
    """Whether `v` replaces the maximum `best`: greater, or a NaN where there was none yet."""
    return f.cmp("ugt", v, best) & f.cmp("ord", best, best)


def table(name: str, values: Sequence[int], ty: str = "i64", align: int = 8) -> str:
    """A constant array of integers, as a global definition.

    Raises:
        Undecided: one of them is not known.
    """
    for v in values:
        if is_symbolic(v):
            raise Undecided(f"a table of constants has the number {v}")
    body = ", ".join(f"{ty} {v}" for v in values)
    count = len(values)
    return f"@{name} = private unnamed_addr constant [{count} x {ty}] [{body}], align {align}\n"


def table32(name: str, values: Sequence[int]) -> str:
    """A `table` of i32, which vectors are loaded from."""
    return table(name, values, "i32", 64)


def lookup(f: Function, name: str, index: V | int, ty: str = "i64") -> V:
    """Elements of a `table` from `index` on: one, or a vector of type `ty`."""
    return f.load(ty, f.gep(V("ptr", f"@{name}"), index, element(ty)))


def numbers(f: Function, name: str, values: Sequence[int]) -> V:
    """A pointer to numbers that code looks up: the `table` of this name, or room on the stack that
    is filled here, where sizes decide some of them."""
    if not any(map(is_symbolic, values)):
        return V("ptr", f"@{name}")
    room = f.alloca(8 * len(values))
    for i, v in enumerate(values):
        f.store(f.i64(v), f.gep(room, i, "i64"))
    return room


def number_at(f: Function, pointer: V, index: V | int) -> V:
    """One of `numbers`."""
    return f.load("i64", f.gep(pointer, index, "i64"))


def known_table(name: str, values: Sequence[int]) -> str:
    """The `table` that `numbers` of this name points to, if there is one."""
    return "" if any(map(is_symbolic, values)) else table(name, values)


def divmod_const(f: Function, a: V, b: int) -> tuple[V, V]:
    """Quotient and remainder of a non-negative i64 by a constant."""
    if b == 1:
        return a, f.i64(0)
    q = a // b
    return q, a - q * b


def split_index(f: Function, index: V, dims: Sequence[int]) -> list[V]:
    """Row-major coordinates of `index` in a box of `dims`."""
    out: list[V] = []
    for d in reversed(dims[1:]):
        index, r = divmod_const(f, index, d)
        out.append(r)
    return [index, *reversed(out)]


def minimum(f: Function, a: V, b: V | int) -> V:
    """The smaller of two signed i64."""
    b = b if isinstance(b, V) else f.i64(b)
    return f.select(f.cmp("slt", a, b), a, b)


def maximum(f: Function, a: V, b: V | int) -> V:
    """The larger of two signed i64."""
    b = b if isinstance(b, V) else f.i64(b)
    return f.select(f.cmp("sgt", a, b), a, b)


def units_per_task(units: int, cycles: float) -> int:
    """How many equal units of work one task does, from the cost of one unit."""
    units, cycles = estimate(units), estimate(cycles)
    worth = max(1, int(TASK_CYCLES / max(cycles, 1.0)))
    return max(1, min(worth, units // WANTED_TASKS if units >= 2 * WANTED_TASKS else worth))


def task_kernel(
    target: Target,
    buffers: int,
    units: int,
    unit_cycles: float,
    body: Callable[[Function, list[V], V], str | None],
) -> Kernel:
    """A kernel that does `units` independent units of work, grouped into tasks.

    `body(f, pointers, unit)` writes one unit and may return globals (tables).
    """
    per = units_per_task(units, unit_cycles)
    f, pointers = kernel_function(target, buffers)
    first = f.arg("lo") * per
    last = minimum(f, f.arg("hi") * per, units)
    extra: list[str] = []

    def one(unit: V, _: list[V]) -> None:
        extra.append(body(f, pointers, unit) or "")

    f.loop(first, last, 1, [], one)
    f.ret_()
    return Kernel(module([f], extra[0]), -(-units // per), buffers, units * unit_cycles)
