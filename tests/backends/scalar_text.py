"""LLVM text of the scalar back end: one value at a time, variables in memory, loops as blocks."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import numpy as np

from cellc_compiler.ir.op import lookup
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

_MEMORY = {"bool": "i8", "float16": "half", "bfloat16": "i16", "float32": "float",
           "float64": "double"}
_LIBM = ctypes.CDLL("libm.so.6")
_LIBRARY = {"exp", "expm1", "exp2", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin",
            "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf",
            "erfc", "lgamma", "cbrt", "pow"}
_NUMPY: dict[str, Any] = {"floor_mod": np.mod, "trunc_mod": np.fmod, "fmod": np.fmod}
_ROUNDING = {"floor": "floor", "ceil": "ceil", "round": "roundeven", "trunc": "trunc",
             "sqrt": "sqrt", "abs": "fabs"}


def memory_type(dtype: DType) -> str:
    """The type of an element (of a part of a complex one) in memory."""
    if dtype.is_complex:
        return "float" if dtype.itemsize == 8 else "double"
    return _MEMORY.get(dtype.name.rstrip("_"), f"i{8 * dtype.itemsize}")


def part_of(dtype: DType) -> DType:
    """The type of the parts of a complex type; any other type itself."""
    if not dtype.is_complex:
        return dtype
    return dtypes.float32 if dtype.itemsize == 8 else dtypes.float64


def value_type(dtype: DType) -> str:
    """The type it is computed in."""
    if dtype.name.startswith("bool"):
        return "i1"
    return "float" if dtype.is_float and dtype.itemsize == 2 else memory_type(dtype)


@cache
def _callback(name: str, dtype: DType, count: int) -> Any:
    """A C function of doubles (or int64s) that asks the op's own reference."""
    wide = dtypes.float64 if dtype.is_float else dtype
    kind = ctypes.c_double if dtype.is_float else ctypes.c_int64

    def call(*given: float) -> Any:
        with np.errstate(all="ignore"):
            args = [np.asarray(v).astype(wide.numpy) for v in given]
            out = np.asarray((_NUMPY.get(name) or lookup(name).reference)(*args))
        return float(out) if dtype.is_float else int(out.astype(dtype.numpy).astype(np.int64))

    return ctypes.CFUNCTYPE(kind, *[kind] * count)(call)


def _address(name: str, dtype: DType, count: int) -> int:
    known = dtype.is_float and name in _LIBRARY
    function = getattr(_LIBM, name) if known else _callback(name, dtype, count)
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


class V:
    """A value: its type and how the text names it. Python's operators write instructions."""

    def __init__(self, f: Fn, ty: str, ref: str) -> None:
        self.f, self.ty, self.ref = f, ty, ref

    def __str__(self) -> str:
        return f"{self.ty} {self.ref}"

    @property
    def is_float(self) -> bool:
        return self.ty in ("float", "double")

    def lift(self, x: V | float) -> V:
        return x if isinstance(x, V) else self.f.const(self.ty, x)

    def op(self, name: str, x: V | float) -> V:
        return self.f.emit(self.ty, f"{name} {self}, {self.lift(x).ref}")

    def __truediv__(self, x: V | float) -> V:
        return self.op("fdiv", x)

    def __rshift__(self, n: int) -> V:
        return self.op("lshr", n)

    def cmp(self, predicate: str, x: V | float) -> V:
        kind = "fcmp" if self.is_float else "icmp"
        return self.f.emit("i1", f"{kind} {predicate} {self}, {self.lift(x).ref}")

    def less(self, x: V | float, signed: bool = True) -> V:
        return self.cmp("olt" if self.is_float else "slt" if signed else "ult", x)

    def isnan(self) -> V:
        return self.cmp("uno", self) if self.is_float else self.f.const("i1", 0)

    def to(self, ty: str, how: str) -> V:
        return self if self.ty == ty else self.f.emit(ty, f"{how} {self} to {ty}")

    def where(self, a: V, b: V | float) -> V:
        """a where this is true, else b."""
        return self.f.emit(a.ty, f"select {self}, {a}, {a.lift(b)}")


def _operator(of_floats: str, of_ints: str, of_bools: str) -> Callable[[V, V | float], V]:
    return lambda a, b: a.op(
        of_floats if a.is_float else of_bools if a.ty == "i1" else of_ints, b)


for _name, _how in {"add": ("fadd", "add", "or"), "sub": ("fsub", "sub", "xor"),
                    "mul": ("fmul", "mul", "and"), "and": ("and",) * 3, "or": ("or",) * 3,
                    "xor": ("xor",) * 3}.items():
    setattr(V, f"__{_name}__", _operator(*_how))


class Fn:
    """A function being written."""

    def __init__(self, name: str, params: Sequence[str], result: str = "void") -> None:
        self.head = f"define hidden {result} @{name}({', '.join(params)}) nounwind"
        self.allocas: list[str] = []
        self.lines: list[str] = []
        self.declares: set[str] = set()
        self.count = 0

    def text(self, result: str = "void") -> str:
        """The module's text."""
        body = "\n".join(["entry:", *self.allocas, *self.lines, f"  ret {result}"])
        return "\n".join([*sorted(self.declares), f"{self.head} {{", body, "}", ""])

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def emit(self, ty: str, text: str) -> V:
        name = self.fresh()
        self.lines.append(f"  %{name} = {text}")
        return V(self, ty, f"%{name}")

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        self.lines += [f"  br label %{name}", f"{name}:"]

    def const(self, ty: str, x: float) -> V:
        if ty in ("float", "double"):
            return V(self, ty, f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}")
        return V(self, ty, str(int(x)) if ty != "i1" else "true" if x else "false")

    def i64(self, x: V | int) -> V:
        return x if isinstance(x, V) else self.const("i64", x)

    def intrinsic(self, name: str, *args: V) -> V:
        ty = args[0].ty
        full = f"llvm.{name}.{ {'float': 'f32', 'double': 'f64'}[ty] }"
        self.declares.add(f"declare {ty} @{full}({', '.join([ty] * len(args))})")
        return self.emit(ty, f"call {ty} @{full}({', '.join(map(str, args))})")

    # --- memory ---

    def at(self, base: V, offset: V | int, ty: str = "i8") -> V:
        return self.emit("ptr", f"getelementptr {ty}, {base}, {self.i64(offset)}")

    def load(self, ty: str, p: V) -> V:
        return self.emit(ty, f"load {ty}, {p}")

    def store(self, v: V, p: V) -> None:
        self.do(f"store {v}, {p}")

    def room(self, nbytes: int) -> V:
        """Memory of the call's own."""
        name = self.fresh()
        self.allocas.append(f"  %{name} = alloca [{max(nbytes, 1)} x i8], align 16")
        return V(self, "ptr", f"%{name}")

    def var(self, start: V) -> Var:
        return Var(self, start)

    # --- control ---

    @contextmanager
    def loop(self, extent: V | int) -> Iterator[V]:
        """i = 0, 1, ... below `extent`."""
        i = self.var(self.const("i64", 0))
        with self.repeat(lambda: i.get().less(self.i64(extent))):
            yield i.get()
            i.set(i.get() + 1)

    @contextmanager
    def loops(self, extents: Sequence[int]) -> Iterator[list[V]]:
        with ExitStack() as stack:
            yield [stack.enter_context(self.loop(n)) for n in extents]

    @contextmanager
    def repeat(self, test: Callable[[], V]) -> Iterator[None]:
        head, body, end = (f"b{self.fresh()}" for _ in range(3))
        self.label(head)
        self.do(f"br {test()}, label %{body}, label %{end}")
        self.lines.append(f"{body}:")
        yield
        self.do(f"br label %{head}")
        self.lines.append(f"{end}:")

    @contextmanager
    def when(self, test: V) -> Iterator[None]:
        body, end = f"b{self.fresh()}", f"b{self.fresh()}"
        self.do(f"br {test}, label %{body}, label %{end}")
        self.lines.append(f"{body}:")
        yield
        self.label(end)

    # --- numbers ---

    def widened(self, raw: V, dtype: DType) -> V:
        """A value as loaded, in the type it is computed in."""
        if value_type(dtype) == "i1":
            return raw.cmp("ne", 0)
        if dtype is dtypes.bfloat16:
            return self.emit("i32", f"shl {raw.to('i32', 'zext')}, 16").to("float", "bitcast")
        return raw.to("float", "fpext") if dtype is dtypes.float16 else raw

    def narrowed(self, v: V, dtype: DType) -> V:
        """The same, to be stored."""
        if v.ty == "i1":
            return v.to("i8", "zext")
        if dtype is dtypes.bfloat16:
            b = v.to("i32", "bitcast")
            even = b + ((b >> 16) & 1) + 0x7FFF
            return (v.isnan().where(b | 0x400000, even) >> 16).to("i16", "trunc")
        return v.to("half", "fptrunc") if dtype is dtypes.float16 else v

    def rounded(self, v: V, dtype: DType) -> V:
        """To what `dtype` can hold."""
        return self.widened(self.narrowed(v, dtype), dtype) if dtype.itemsize == 2 else v

    def function(self, name: str, dtype: DType, args: Sequence[V]) -> V:
        """A function that has no instruction, in float64 (or int64), by its address."""
        signed = dtype.kind == "int"
        wide = "double" if dtype.is_float else "i64"
        how = "fpext" if dtype.is_float else "sext" if signed else "zext"
        target = V(self, "ptr", f"inttoptr (i64 {_address(name, dtype, len(args))} to ptr)")
        given = ", ".join(str(a.to(wide, how)) for a in args)
        out = self.emit(wide, f"call {wide} {target.ref}({given})")
        return out.to(args[0].ty, "fptrunc" if dtype.is_float else "trunc")

    def arithmetic(self, name: str, dtype: DType, args: Sequence[V]) -> V:
        """An operation of one dtype, not rounded to 16 bits yet."""
        a, b = args[0], args[-1]
        signed = dtype.kind == "int"
        if name in ("add", "sub", "mul", "and", "or", "xor"):
            return getattr(a, f"__{name}__")(b)
        if name == "not":
            return a ^ (1 if a.ty == "i1" else -1)
        if name in ("maximum", "minimum"):
            better = b.less(a, signed) if name == "maximum" else a.less(b, signed)
            return (better | a.isnan()).where(a, b)
        if name in ("shl", "shr"):
            inside, width = b.cmp("ult", 8 * dtype.itemsize), 8 * dtype.itemsize
            if name == "shr" and signed:
                return a.op("ashr", inside.where(b, width - 1))
            moved = a.op("shl" if name == "shl" else "lshr", inside.where(b, 0))
            return inside.where(moved, 0)
        if a.is_float:
            if name in _ROUNDING:
                return self.intrinsic(_ROUNDING[name], a)
            if name == "neg":
                return self.emit(a.ty, f"fneg {a}")
            if name in ("div", "reciprocal", "rsqrt"):
                bottom = self.intrinsic("sqrt", a) if name == "rsqrt" else b
                return (a if name == "div" else self.const(a.ty, 1)) / bottom
        elif name == "neg" or (name == "abs" and signed):
            minus = self.const(a.ty, 0) - a
            return minus if name == "neg" else a.less(0).where(minus, a)
        elif name in ("abs", "floor", "ceil", "round", "trunc"):
            return a
        return self.function("trunc_div" if name == "div" else name, dtype, args)

    def convert(self, v: V, src: DType, dst: DType) -> V:
        """A cast; see `ops/cast.py`."""
        if value_type(dst) == "i1":
            return v.cmp("une" if v.is_float else "ne", 0)
        ty = value_type(dst)
        if dst.is_float:
            if v.is_float:
                out = v.to(ty, "fptrunc" if ty == "float" else "fpext")
            else:
                out = v.to(ty, "sitofp" if src.kind == "int" else "uitofp")
            return self.rounded(out, dst)
        if not v.is_float:
            how = "sext" if src.kind == "int" else "zext"
            return v.to(ty, "trunc" if dst.itemsize < src.itemsize else how)
        if dst is dtypes.uint64:
            big = v.cmp("oge", 2.0**63)
            low = self._truncated(big.where(v - 2.0**63, v), 64)
            return low ^ big.where(self.const("i64", -(2**63)), 0)
        bits = 32 if dst.itemsize < 4 or dst is dtypes.int32 else 64
        return self._truncated(v, bits).to(ty, "trunc")

    def _truncated(self, v: V, bits: int) -> V:
        limit = 2.0 ** (bits - 1)
        fits = self.intrinsic("fabs", v).cmp("olt", limit)
        return fits.where(v, -limit).to(f"i{bits}", "fptosi")


class Var:
    """A variable."""

    def __init__(self, f: Fn, start: V) -> None:
        self.f, self.ty = f, start.ty
        self.place = f.room(8)
        self.set(start)

    def get(self) -> V:
        return self.f.load(self.ty, self.place)

    def set(self, v: V) -> None:
        self.f.store(v, self.place)


class Buffer:
    """A kernel's buffer: elements of a type at linear offsets."""

    def __init__(self, f: Fn, pointer: V, dtype: DType, shape: Sequence[int]) -> None:
        self.f, self.pointer, self.dtype, self.shape = f, pointer, dtype, tuple(shape)

    def _at(self, idx: Sequence[V | int] | V, part: int) -> V:
        f = self.f
        if isinstance(idx, V):
            offset = idx
        else:
            offset = f.i64(0)
            for i, n in zip(idx, self.shape, strict=True):
                offset = offset * n + f.i64(i)
        if self.dtype.is_complex:
            offset = offset * 2 + part
        return f.at(self.pointer, offset, memory_type(self.dtype))

    def get(self, idx: Sequence[V | int] | V, part: int = 0) -> V:
        """An element, at an index of its rank or at a linear offset."""
        raw = self.f.load(memory_type(self.dtype), self._at(idx, part))
        return self.f.widened(raw, part_of(self.dtype))

    def set(self, idx: Sequence[V | int] | V, v: V, part: int = 0) -> None:
        """Write an element."""
        self.f.store(self.f.narrowed(v, part_of(self.dtype)), self._at(idx, part))
