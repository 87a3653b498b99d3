"""A writer of LLVM IR text: typed values, structured loops with carried values, vectors.

Text is 15x faster to produce than objects of `llvmlite.ir` and can say what those cannot
(bfloat, vector fma). Every method writes at most a few instructions and returns a `V`, an SSA
value with its type. Control flow is structured: `loop` carries values in phis and never needs
an alloca, `when` branches around effects.

No instruction carries fast-math flags: what is written is what is computed, which is what keeps
compiled and eager results equal to the bit. The only fused operation is an explicit `fma`.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from cellc_runtime.records import dataclass, field
from cellc_runtime.target import Target

from ...build.abi import PLACEHOLDER
from ...ir.dims import Dim, Ratio, Undecided, active_facts, is_symbolic, most, place_in_table

_SIZES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "half": 2, "bfloat": 2,
          "float": 4, "double": 8, "ptr": 8, "i128": 16}
_ALIGNMENTS = _SIZES | {"i128": 8}


class V:
    """An SSA value: LLVM type text and the name or literal that refers to it.

    Operators write the instruction into the function that the value is of: `a + b` is `f.add(a, b)`
    (which folds integer constants), `a >> b` is a logical shift, `a // b` and `a % b` divide
    without a sign. A Python number has the type of the other operand.

    Attributes:
        f: the function; None of a constant that was made without one.
    """

    __slots__ = ("f", "ref", "ty")

    def __init__(self, ty: str, ref: str, f: Function | None = None) -> None:
        self.ty, self.ref, self.f = ty, ref, f

    def __str__(self) -> str:
        return f"{self.ty} {self.ref}"

    def __repr__(self) -> str:
        return f"V({self.ty!r}, {self.ref!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, V) and (self.ty, self.ref) == (other.ty, other.ref)

    def __hash__(self) -> int:
        return hash((self.ty, self.ref))

    def _writer(self, other: V | int) -> tuple[Function, V]:
        """The function that an operator writes into, and its second operand."""
        f = other.f if self.f is None and isinstance(other, V) else self.f
        if f is None:
            raise TypeError(f"{self} is of no function that could compute with it")
        return f, other if isinstance(other, V) else f.const(self.ty, other)

    def _binary(self, op: str, other: V | int) -> V:
        f, b = self._writer(other)
        return f.binary(op, self, b)

    def __add__(self, other: V | int) -> V:
        f, b = self._writer(other)
        return f.add(self, b)

    def __sub__(self, other: V | int) -> V:
        f, b = self._writer(other)
        return f.sub(self, b)

    def __mul__(self, other: V | int) -> V:
        f, b = self._writer(other)
        return f.mul(self, b)

    def __and__(self, other: V | int) -> V:
        return self._binary("and", other)

    def __or__(self, other: V | int) -> V:
        return self._binary("or", other)

    def __xor__(self, other: V | int) -> V:
        return self._binary("xor", other)

    def __lshift__(self, other: V | int) -> V:
        return self._binary("shl", other)

    def __rshift__(self, other: V | int) -> V:
        return self._binary("lshr", other)

    def __floordiv__(self, other: V | int) -> V:
        return self._binary("udiv", other)

    def __mod__(self, other: V | int) -> V:
        return self._binary("urem", other)


@cache
def vector(ty: str, lanes: int) -> str:
    """The vector type of `lanes` elements; the element type itself for one lane."""
    return ty if lanes == 1 else f"<{lanes} x {ty}>"


@cache
def element(ty: str) -> str:
    """The element type of a vector type; the type itself for a scalar."""
    return ty.split(" x ")[1][:-1] if ty.startswith("<") else ty


@cache
def lanes_of(ty: str) -> int:
    """The number of lanes of a type (1 for a scalar)."""
    return int(ty[1:].split(" ")[0]) if ty.startswith("<") else 1


@cache
def sizeof(ty: str) -> int:
    """Size in bytes of a type in memory."""
    return _SIZES[element(ty)] * lanes_of(ty)


@cache
def is_float(ty: str) -> bool:
    """Whether the element type is a floating-point type."""
    return element(ty) in ("half", "bfloat", "float", "double")


def float_literal(ty: str, value: float) -> str:
    """The exact LLVM literal of a Python float in element type `ty`."""
    if ty in ("half", "bfloat"):
        if ty == "half":
            return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        return f"0xR{bits >> 16:04X}"
    if ty == "float":
        try:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            value = float("inf") if value > 0 else float("-inf")
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


@dataclass(slots=True)
class Function:
    """One LLVM function being written.

    Args:
        name: symbol name without the `@`.
        params: `(type, name)` pairs; parameter types may carry attributes (`"ptr noalias"`).
        target: the CPU target (vector width for legal types).
        linkage: `"hidden"` (default), `"internal"` or `""`.
        narrows: whether the machine has an instruction that rounds to bfloat16.
        read_size: writes the load of a size from the program's table of sizes, by its place there;
            by default `bufs[-1]` points to the table.
    """

    name: str
    params: Sequence[tuple[str, str]]
    target: Target
    ret: str = "void"
    linkage: str = "hidden"
    attributes: str = ""
    narrows: bool = False
    lines: list[str] = field(default_factory=list)
    declares: set[str] = field(default_factory=set)
    read_size: Callable[[int], V] | None = None
    _count: int = 0
    _block: str = "entry"
    _sizes: dict[Dim | Ratio, V] = field(default_factory=dict)
    _places: dict[str, V] = field(default_factory=dict)
    # what `gep` gave in this block (addresses of other blocks would stay in registers)
    _allocas: list[str] = field(default_factory=list)

    # --- values -----------------------------------------------------------------------------

    def arg(self, name: str) -> V:
        """The parameter called `name`."""
        for ty, n in self.params:
            if n == name:
                return V(ty.split(" ")[0], f"%{n}", self)
        raise KeyError(name)

    def i64(self, value: int) -> V:
        """An i64: a constant, or a size that is known when the code runs."""
        if type(value) is not int and is_symbolic(value):
            return self.size(value)
        return V("i64", str(value), self)

    def size(self, value: Any) -> V:
        """A number of the program's table; a kernel reads each once, at its beginning."""
        place = place_in_table(value)
        if self.read_size is not None:
            return self.read_size(place)
        if value not in self._sizes:
            if not self._sizes:
                self._allocas += [f"  %before = getelementptr i8, {self._bufs()}, i64 -8",
                                  "  %sizes = load ptr, ptr %before, align 8"]
            name = f"%size{place}"
            self._allocas += [f"  {name}at = getelementptr i64, ptr %sizes, i64 {place}",
                              f"  {name} = load i64, ptr {name}at, align 8"]
            self._sizes[value] = V("i64", name, self)
        return self._sizes[value]

    def _bufs(self) -> V:
        """The buffers of a kernel. Raises Undecided if the function has none, so it cannot read
        sizes."""
        if all(name != "bufs" for _, name in self.params):
            raise Undecided(f"{self.name} cannot read sizes")
        return self.arg("bufs")

    def const(self, ty: str, value: float | int | bool) -> V:
        """A constant of a scalar or (splatted) vector type."""
        el = element(ty)
        if el == "i1":
            lit = "true" if value else "false"
        elif is_float(el):
            lit = float_literal(el, float(value))
        elif type(value) is not int and is_symbolic(value):
            known = self.size(value)
            return self.splat(known if el == "i64" else self.cast("trunc", known, el), lanes_of(ty))
        else:
            lit = str(int(value))
        if lanes_of(ty) > 1:
            return V(ty, f"splat ({el} {lit})", self)
        return V(ty, lit, self)

    def zero(self, ty: str) -> V:
        """All bits zero."""
        return V(ty, "zeroinitializer", self) if lanes_of(ty) > 1 else self.const(ty, 0)

    def undef(self, ty: str) -> V:
        """A poison value of the type, to insert into."""
        return V(ty, "poison", self)

    def fresh(self, hint: str = "v") -> str:
        """A new local name."""
        self._count += 1
        return f"%{hint}{self._count}"

    def emit(self, ty: str, text: str, hint: str = "v") -> V:
        """Write `%x = text` and return it as a value of type `ty`."""
        self._count += 1
        name = f"%{hint}{self._count}"
        self.lines.append(f"  {name} = {text}")
        return V(ty, name, self)

    def line(self, text: str) -> None:
        """Write an instruction without a result."""
        self.lines.append("  " + text)

    # --- arithmetic -------------------------------------------------------------------------

    def binary(self, op: str, a: V, b: V) -> V:
        """Any two-operand instruction by its LLVM name (`fadd`, `add`, `and`, `ashr`, ...)."""
        return self.emit(a.ty, f"{op} {a.ty} {a.ref}, {b.ref}")

    def add(self, a: V, b: V) -> V:
        """a + b for floats or integers; folds integer constants."""
        known = None if is_float(a.ty) else _fold(a, b, operator.add, "0")
        return known or self.binary("fadd" if is_float(a.ty) else "add", a, b)

    def sub(self, a: V, b: V) -> V:
        """a - b."""
        if not is_float(a.ty) and b.ref == "0":
            return a
        return self.binary("fsub" if is_float(a.ty) else "sub", a, b)

    def mul(self, a: V, b: V) -> V:
        """a * b; folds integer constants."""
        known = None if is_float(a.ty) else _fold(a, b, operator.mul, "1")
        return known or self.binary("fmul" if is_float(a.ty) else "mul", a, b)

    def fdiv(self, a: V, b: V) -> V:
        """Floating-point a / b."""
        return self.binary("fdiv", a, b)

    def fneg(self, a: V) -> V:
        """-a, sign bit flipped."""
        return self.emit(a.ty, f"fneg {a.ty} {a.ref}")

    def fma(self, a: V, b: V, c: V) -> V:
        """a * b + c with one rounding."""
        ty, name = a.ty, f"llvm.fma.{suffix(a.ty)}"
        self.declares.add(f"declare {ty} @{name}({ty}, {ty}, {ty})")
        return self.emit(ty, f"call {ty} @{name}({ty} {a.ref}, {ty} {b.ref}, {ty} {c.ref})")

    def multiply_add(self, a: V, b: V, c: V) -> V:
        """a * b + c: with one rounding for floats, modulo 2^bits for integers."""
        return self.fma(a, b, c) if is_float(a.ty) else self.add(self.mul(a, b), c)

    def intrinsic(self, name: str, ty: str, *args: V | int) -> V:
        """Call the overloaded intrinsic `llvm.<name>.<suffix of ty>`."""
        full = f"llvm.{name}.{suffix(ty)}"
        return self.call(full, ty, *[a if isinstance(a, V) else self.const(ty, a) for a in args])

    def call(self, name: str, ret: str, *args: V) -> V:
        """Call a function by symbol, declaring it (`ret` may be `void`)."""
        types = ", ".join([a.ty for a in args])
        self.declares.add(f"declare {ret} @{name}({types})")
        text = f"call {ret} @{name}({', '.join([f'{a.ty} {a.ref}' for a in args])})"
        if ret == "void":
            self.line(text)
            return V("void", "")
        return self.emit(ret, text)

    def cmp(self, pred: str, a: V, b: V | int) -> V:
        """`icmp`/`fcmp` with the LLVM predicate (`slt`, `olt`, `uno`, ...)."""
        b = b if isinstance(b, V) else self.const(a.ty, b)
        kind = "fcmp" if is_float(a.ty) else "icmp"
        return self.emit(vector("i1", lanes_of(a.ty)), f"{kind} {pred} {a.ty} {a.ref}, {b.ref}")

    def select(self, cond: V, a: V, b: V) -> V:
        """cond ? a : b, lane by lane."""
        return self.emit(
            a.ty, f"select {cond.ty} {cond.ref}, {a.ty} {a.ref}, {b.ty} {b.ref}")

    def cast(self, op: str, a: V, to: str) -> V:
        """Any conversion by its LLVM name (`bitcast`, `sext`, `fptosi`, ...); `to` is an
        element type and keeps the lanes of `a`."""
        ty = vector(to, lanes_of(a.ty))
        return a if ty == a.ty else self.emit(ty, f"{op} {a} to {ty}")

    # --- vectors ----------------------------------------------------------------------------

    def splat(self, a: V, lanes: int) -> V:
        """A scalar in every lane."""
        if lanes == 1:
            return a
        ty = vector(a.ty, lanes)
        one = self.emit(ty, f"insertelement {ty} poison, {a.ty} {a.ref}, i64 0")
        return self.emit(
            ty, f"shufflevector {ty} {one.ref}, {ty} poison, <{lanes} x i32> zeroinitializer")

    def extract(self, a: V, lane: int | V) -> V:
        """One lane of a vector."""
        index = lane if isinstance(lane, V) else self.i64(lane)
        return self.emit(element(a.ty), f"extractelement {a}, {index}")

    def insert(self, a: V, x: V, lane: int | V) -> V:
        """`a` with one lane replaced."""
        index = lane if isinstance(lane, V) else self.i64(lane)
        return self.emit(a.ty, f"insertelement {a}, {x}, {index}")

    def shuffle(self, a: V, b: V, mask: Sequence[int]) -> V:
        """A constant permutation of the lanes of `a` and `b`."""
        text = ", ".join([f"i32 {m}" if m >= 0 else "i32 poison" for m in mask])
        ty = vector(element(a.ty), len(mask))
        return self.emit(ty, f"shufflevector {a}, {b}, <{len(mask)} x i32> <{text}>")

    def iota(self, ty: str) -> V:
        """<0, 1, 2, ...> of an integer vector type."""
        el = element(ty)
        return V(ty, "<" + ", ".join(f"{el} {i}" for i in range(lanes_of(ty))) + ">", self)

    # --- memory -----------------------------------------------------------------------------

    def fence(self, *done: V) -> None:
        """Keep later loads and stores after earlier ones, and after the computation of `done`
        (vectors; wider ones than a register's are passed over). An empty inline assembly: no
        instruction, but the scheduler then cannot load ahead what a tile has no register for."""
        kind = "w" if self.target.triple.startswith("aarch64") else "v"
        done = tuple(v for v in done if sizeof(v.ty) <= self.target.vector_bytes)
        constraints = ",".join([kind] * len(done) + ["~{memory}"])
        self.line(f'call void asm sideeffect "", "{constraints}"({", ".join(map(str, done))})')

    def gep(self, base: V, offset: V | int, ty: str = "i8") -> V:
        """base + offset elements of type `ty`."""
        if type(offset) is int:
            if not offset:
                return base
            at = f"i64 {offset}"
        else:
            index = offset if isinstance(offset, V) else self.i64(offset)
            if index.ref == "0":
                return base
            at = f"{index.ty} {index.ref}"
        text = f"getelementptr {ty}, {base.ty} {base.ref}, {at}"
        found = self._places.get(text)
        if found is None:
            found = self._places[text] = self.emit("ptr", text)
        return found

    def load(self, ty: str, ptr: V, align: int | None = None, note: str = "") -> V:
        """Load; default alignment is that of one element."""
        al = align or _ALIGNMENTS[element(ty)]
        return self.emit(ty, f"load {ty}, {ptr.ty} {ptr.ref}, align {al}{note}")

    def store(self, value: V, ptr: V, align: int | None = None, note: str = "") -> None:
        """Store; default alignment is that of one element."""
        al = align or _ALIGNMENTS[element(value.ty)]
        self.lines.append(
            f"  store {value.ty} {value.ref}, {ptr.ty} {ptr.ref}, align {al}{note}")

    def masked_load(self, ty: str, ptr: V, mask: V | None, other: V | None = None) -> V:
        """Load the lanes set in `mask` (an <n x i1>; None: all); the others read no memory and are
        those of `other` (default: 0)."""
        if mask is None:
            return self.load(ty, ptr)
        other = other or self.zero(ty)
        self.declares.add(
            f"declare {ty} @llvm.masked.load.{suffix(ty)}.p0(ptr, i32 immarg, {mask.ty}, {ty})"
        )
        al = _SIZES[element(ty)]
        return self.emit(
            ty,
            f"call {ty} @llvm.masked.load.{suffix(ty)}.p0({ptr}, i32 {al}, {mask}, {other})",
        )

    def masked_store(self, value: V, ptr: V, mask: V | None) -> None:
        """Store the lanes set in `mask` (None: all); other lanes touch no memory.

        A constant mask of one lane becomes a scalar store: for AVX-512, LLVM 22 writes 4 bytes
        where such a mask meets a vector truncated to 1 or 2 bytes per lane.
        """
        ty = value.ty
        if mask is None:
            self.store(value, ptr)
            return
        if mask.ref.count("true") == 1 and mask.ref.startswith("<"):
            lane = [bit.strip() for bit in mask.ref[1:-1].split(",")].index("i1 true")
            self.store(self.extract(value, lane), self.gep(ptr, lane, element(ty)))
            return
        self.declares.add(
            f"declare void @llvm.masked.store.{suffix(ty)}.p0({ty}, ptr, i32 immarg, {mask.ty})"
        )
        al = _SIZES[element(ty)]
        self.line(f"call void @llvm.masked.store.{suffix(ty)}.p0({value}, {ptr}, i32 {al}, {mask})")

    def gather(self, ty: str, pointers: V, mask: V, align: int = 0) -> V:
        """Load each lane from its own address where the mask is set (0 elsewhere). The addresses
        are multiples of `align`, by default of an element's size."""
        name = f"llvm.masked.gather.{suffix(ty)}.v{lanes_of(ty)}p0"
        self.declares.add(f"declare {ty} @{name}({pointers.ty}, i32 immarg, {mask.ty}, {ty})")
        align = align or sizeof(element(ty))
        return self.emit(ty, f"call {ty} @{name}({pointers}, i32 {align}, {mask}, {self.zero(ty)})")

    def prefetch(self, ptr: V) -> None:
        """Ask the second-level cache for a line; any address may be named."""
        self.declares.add("declare void @llvm.prefetch.p0(ptr, i32 immarg, i32 immarg, i32 immarg)")
        self.line(f"call void @llvm.prefetch.p0({ptr}, i32 0, i32 2, i32 1)")

    def tail_mask(self, count: V, lanes: int) -> V:
        """<lanes x i1> with the first `count` (an i64) lanes set; constant if `count` is."""
        ty = vector("i64", lanes)
        if count.ref.isdigit() and lanes > 1:
            return mask_of([i < int(count.ref) for i in range(lanes)])
        return self.cmp("ult", self.iota(ty), self.splat(count, lanes))

    def alloca(self, nbytes: int, align: int = 64) -> V:
        """Stack scratch, allocated once at function entry. Keep it under 256 KiB."""
        nbytes = most(nbytes)
        name = self.fresh("stack")
        self._allocas.append(f"  {name} = alloca [{nbytes} x i8], align {align}")
        return V("ptr", name, self)

    def constant_table(self, name: str, ty: str, values: Sequence[float]) -> V:
        """A pointer to a read-only table, private to the module; equal names are equal tables."""
        items = ", ".join(f"{ty} {self.const(ty, v).ref}" for v in values)
        self.declares.add(
            f"@{name} = private unnamed_addr constant [{len(values)} x {ty}] [{items}], align 64"
        )
        return V("ptr", f"@{name}")

    # --- control flow -----------------------------------------------------------------------

    def loop(
        self,
        lo: V | int,
        hi: V | int,
        step: V | int,
        carried: Sequence[V],
        body: Callable[[V, list[V]], Sequence[V] | None],
        *,
        runs: bool | None = None,
    ) -> list[V]:
        """`for (iv = lo; iv < hi; iv += step)` (signed i64), values carried in phis.

        `body(iv, carried)` returns the carried values of the next iteration. Returns their
        values after the loop. A loop of statically zero trips writes nothing. `runs`: whether the
        caller knows that `lo < hi`; then, and by default if the bounds are constants, the loop is
        tested at its end and what it carries lives in one block (LLVM keeps more of it in
        registers, but hoists more constants into them too).
        """
        lo_v = lo if isinstance(lo, V) else self.i64(lo)
        hi_v = hi if isinstance(hi, V) else self.i64(hi)
        step_v = step if isinstance(step, V) else self.i64(step)
        if type(lo) is int and type(hi) is int:
            if hi <= lo:
                return list(carried)
            if isinstance(step, int) and lo + step >= hi:
                return list(body(lo_v, list(carried)) or [])
            runs = True if runs is None else runs
        self._count += 1
        if runs:
            return self._tested_last(lo_v, hi_v, step_v, carried, body)
        n = self._count
        head, inner, after = f"head{n}", f"body{n}", f"after{n}"
        start = self._block
        self.line(f"br label %{head}")
        self._open(head)
        slot = len(self.lines)
        iv = V("i64", f"%iv{n}", self)
        phis = [V(c.ty, self.fresh("c"), self) for c in carried]
        test = self.emit("i1", f"icmp slt {iv}, {hi_v.ref}")
        self.line(f"br {test}, label %{inner}, label %{after}")
        self._open(inner)
        results = list(body(iv, list(phis)) or [])
        nxt = self.emit("i64", f"add {iv}, {step_v.ref}")
        self.line(f"br label %{head}")
        self._phis(slot, (iv, *phis), start, (lo_v, *carried), (nxt, *results))
        self._open(after)
        return phis

    def _phis(
        self, slot: int, phis: Sequence[V], start: str, first: Sequence[V], last: Sequence[V]
    ) -> None:
        """Write the phis of a loop at line `slot`: their values from the block `start` before it,
        and from the present one, its end."""
        if len(last) != len(phis):
            raise ValueError(f"loop body returned {len(last)} values for {len(phis)} carried")
        self.lines[slot:slot] = [
            f"  {p.ref} = phi {p.ty} [ {a.ref}, %{start} ], [ {b.ref}, %{self._block} ]"
            for p, a, b in zip(phis, first, last, strict=True)
        ]

    def _tested_last(
        self, lo: V, hi: V, step: V, carried: Sequence[V],
        body: Callable[[V, list[V]], Sequence[V] | None],
    ) -> list[V]:
        """A loop of at least one trip."""
        n = self._count
        inner, after = f"body{n}", f"after{n}"
        start = self._block
        self.line(f"br label %{inner}")
        self._open(inner)
        slot = len(self.lines)
        iv = V("i64", f"%iv{n}", self)
        phis = [V(c.ty, self.fresh("c"), self) for c in carried]
        results = list(body(iv, list(phis)) or [])
        nxt = self.emit("i64", f"add {iv}, {step.ref}")
        test = self.emit("i1", f"icmp slt {nxt}, {hi.ref}")
        self.line(f"br {test}, label %{inner}, label %{after}")
        self._phis(slot, (iv, *phis), start, (lo, *carried), (nxt, *results))
        self._open(after)
        return results

    def while_(
        self,
        carried: Sequence[V],
        test: Callable[[list[V]], V],
        body: Callable[[list[V]], Sequence[V]],
    ) -> list[V]:
        """`while (test(carried)) carried = body(carried)`; returns the final carried values."""
        self._count += 1
        n = self._count
        head, inner, after = f"whead{n}", f"wbody{n}", f"wafter{n}"
        start = self._block
        self.line(f"br label %{head}")
        self._open(head)
        slot = len(self.lines)
        phis = [V(c.ty, self.fresh("c"), self) for c in carried]
        go = test(list(phis))
        self.line(f"br {go}, label %{inner}, label %{after}")
        self._open(inner)
        results = list(body(list(phis)))
        self.line(f"br label %{head}")
        self._phis(slot, phis, start, carried, results)
        self._open(after)
        return phis

    def when(
        self,
        cond: V,
        then: Callable[[], Sequence[V] | None],
        other: Callable[[], Sequence[V] | None] | None = None,
    ) -> list[V]:
        """Branch; both sides return values of equal types, merged in phis and returned."""
        self._count += 1
        n = self._count
        yes, no, join = f"then{n}", f"else{n}", f"join{n}"
        start = self._block
        self.line(f"br {cond}, label %{yes}, label %{no if other else join}")
        self._open(yes)
        a = list(then() or [])
        yes_end = self._block
        self.line(f"br label %{join}")
        b: list[V] = []
        no_end = start
        if other:
            self._open(no)
            b = list(other() or [])
            no_end = self._block
            self.line(f"br label %{join}")
        self._open(join)
        return [
            self.emit(x.ty, f"phi {x.ty} [ {x.ref}, %{yes_end} ], [ {y.ref}, %{no_end} ]")
            for x, y in zip(a, b, strict=True)
        ]

    def return_unless(self, good: V, value: Callable[[], V]) -> None:
        """Return `value()` here unless `good`."""
        self._count += 1
        stop, go = f"stop{self._count}", f"go{self._count}"
        self.line(f"br {good}, label %{go}, label %{stop}")
        self._open(stop)
        self.line(f"ret {value()}")
        self._open(go)

    def _open(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self._block = label
        self._places.clear()

    def ret_(self, value: V | None = None) -> None:
        """Return; write it once, last (`return_unless` returns early)."""
        self.line(f"ret {value}" if value is not None else "ret void")

    # --- result -----------------------------------------------------------------------------

    def text(self) -> str:
        """The whole `define`, without the declarations it needs (`declares`)."""
        params = ", ".join(f"{ty} %{n}" for ty, n in self.params)
        width = self.target.vector_bytes * 8
        attrs = (
            f'nounwind "min-legal-vector-width"="{width}" "prefer-vector-width"="{width}" '
            f'"no-trapping-math"="true" {self.attributes}'
        ).strip()
        body = "\n".join(["entry:", *self._allocas, *self.lines])
        head = f"define {self.linkage} {self.ret} @{self.name}({params}) {attrs} {{"
        return f"{head}\n{body}\n}}\n"


def mask_of(lanes: Sequence[bool]) -> V:
    """A constant mask."""
    bits = ", ".join(["i1 true" if bit else "i1 false" for bit in lanes])
    return V(vector("i1", len(lanes)), f"<{bits}>")


def lanes_below(f: Function, count: int | V, lanes: int) -> V | None:
    """The mask of the first `count` lanes, None for all of them; a number that is known when the
    code runs may be negative or more than there are."""
    if not isinstance(count, V):
        return first_lanes(count, lanes)
    return f.tail_mask(f.intrinsic("smax", "i64", count, f.i64(0)), lanes)


def first_lanes(count: int, lanes: int) -> V | None:
    """The mask of the first `count` lanes, None for all of them; constant, because a machine
    without masked moves then needs no branches."""
    return mask_of([i < count for i in range(lanes)]) if count < lanes else None


def buffer_table(f: Function, count: int) -> V:
    """Room for the pointers of another function of `bufs`, which finds sizes where `f` does."""
    shapes = active_facts()
    if shapes is None or not shapes.general:
        return f.alloca(8 * count)
    whole = f.alloca(8 * (count + 1))
    f.store(f.load("ptr", f.gep(f.arg("bufs"), -8)), whole)
    return f.gep(whole, 8)


def kernel_function(target: Target, buffers: int = 0) -> tuple[Function, list[V]]:
    """A kernel's function, and the pointers of its first buffers."""
    f = Function(PLACEHOLDER, [("ptr", "bufs"), ("i64", "lo"), ("i64", "hi")], target)
    return f, [f.load("ptr", f.gep(f.arg("bufs"), i, "ptr")) for i in range(buffers)]


def share_out(
    f: Function, tasks: int, count: int, task: Callable[[V], Callable[[V], None]]
) -> None:
    """The kernel's tasks, each of an even part of `count` units: `task(t)` gives what does one."""
    def run(t: V, _: list[V]) -> None:
        first = f.binary("udiv", f.mul(t, f.i64(count)), f.i64(tasks))
        last = f.binary("udiv", f.mul(f.add(t, f.i64(1)), f.i64(count)), f.i64(tasks))
        do = task(t)
        f.loop(first, last, 1, [], lambda unit, _: do(unit))

    f.loop(f.arg("lo"), f.arg("hi"), 1, [], run)
    f.ret_()


def transpose(f: Function, rows: Sequence[V], steps: Sequence[int] = (), chunk: int = 1) -> list[V]:
    """A square of vectors transposed: lane j of row i becomes lane i of row j.

    Blocks off the diagonal change places, of `steps` elements in turn (1, 2, 4, ... by default).
    With `chunk` an element is a group of `chunk` lanes that stay together.
    """
    out, total = list(rows), lanes_of(rows[0].ty)
    for step in steps or [1 << k for k in range(len(rows).bit_length() - 1)]:
        shift = step * chunk
        low = [p if not p & shift else total + p - shift for p in range(total)]
        high = [p + shift if not p & shift else total + p for p in range(total)]
        for i in range(len(out)):
            if not i & step:
                a, b = out[i], out[i + step]
                out[i], out[i + step] = f.shuffle(a, b, low), f.shuffle(a, b, high)
    return out


@cache
def suffix(ty: str) -> str:
    """The overload suffix of an intrinsic: `f32`, `v16f32`, `i64`, ..."""
    el = element(ty)
    name = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}.get(el, el)
    return f"v{lanes_of(ty)}{name}" if lanes_of(ty) > 1 else name


def module(functions: Sequence[Function], extra: str = "") -> str:
    """A module of functions with the declarations they need; `extra` holds globals."""
    defined = {f.name for f in functions}
    declares: set[str] = set()
    for f in functions:
        declares |= {d for d in f.declares if d.split("@")[1].split("(")[0] not in defined}
    parts = [extra, *(f.text() for f in functions), "\n".join(sorted(declares))]
    return "\n".join(p for p in parts if p) + "\n"


def _fold(a: V, b: V, fn: Callable[[int, int], int], neutral: str) -> V | None:
    """Return two integers' result without an instruction: of constants, or one changes nothing."""
    if a.ref.lstrip("-").isdigit() and b.ref.lstrip("-").isdigit():
        return V(a.ty, str(fn(int(a.ref), int(b.ref))), a.f or b.f)
    if b.ref == neutral:
        return a
    return b if a.ref == neutral else None
