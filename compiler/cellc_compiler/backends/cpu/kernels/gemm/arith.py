"""A multiply-accumulate for each element type: loading, widening, storing.

Elements are accumulated in a wider or equal *accumulator* type:

==================  ===========  ===========================================================
dtype               accumulator  one step
==================  ===========  ===========================================================
float32, float64    itself       `acc = fma(a, b, acc)`
float16, bfloat16   float        `acc = fma(a, b, acc)`; rounded once, at the store
int8..int32, uint*  i32          `acc = a * b + acc`, wrapping; truncated at the store
int64, uint64       i64          the same
complex64/128       two floats   `re = fma(-ai, bi, fma(ar, br, re))`,
                                 `im = fma(ai, br, fma(ar, bi, im))`
==================  ===========  ===========================================================

A value of an element is a list of `parts` vectors: one, or real and imaginary for complex.
"""

from __future__ import annotations

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass, replace
from cellc_runtime.target import Target

from ....llvm.convert import from_memory, round_bfloat16
from ....llvm.text import Function, V, element, is_float, lanes_below, lanes_of, sizeof, vector

_FLOATS = {"float16": "half", "bfloat16": "i16", "float32": "float", "float64": "double",
           "complex64": "float", "complex128": "double"}


def storage_type(dtype: DType) -> str:
    """The LLVM type of one stored scalar; `i16` for bfloat16, the part's type for complex.

    Raises:
        TypeError: bool, which has no product.
    """
    if dtype.kind == "bool":
        raise TypeError("matmul is not defined for Bool; cast to an integer type first")
    return _FLOATS.get(dtype.name, f"i{8 * dtype.itemsize}")


@dataclass(frozen=True, slots=True)
class Arith:
    """Element arithmetic of one matmul on one target."""

    dtype: DType  # element type of both inputs
    out: DType  # element type of the output
    storage: str  # LLVM type of an input scalar in memory
    acc: str  # LLVM type of an accumulator scalar
    parts: int  # scalars per element, 2 for complex
    lanes: int  # elements in one accumulator vector
    # element type of B in memory, where it is narrower; B is widened as it is read
    stored: DType | None = None

    @classmethod
    def of(cls, dtype: DType, out: DType, target: Target, stored: DType | None = None) -> Arith:
        """The arithmetic of `dtype` inputs and `out` outputs; B may be stored as another type.

        Raises:
            TypeError: bool inputs, or complex on one side only.
        """
        storage = storage_type(dtype)
        if dtype.is_complex != out.is_complex:
            raise TypeError(f"matmul of {dtype} cannot produce {out}")
        if dtype.is_integer:
            acc = "i64" if max(dtype.itemsize, out.itemsize) == 8 else "i32"
        else:
            acc = "double" if storage == "double" else "float"
        parts = 2 if dtype.is_complex else 1
        return cls(dtype, out, storage, acc, parts, target.lanes(sizeof(acc)), stored)

    @property
    def right(self) -> Arith:
        """The arithmetic of B's elements as they are stored."""
        if self.stored is None:
            return self
        return replace(self, dtype=self.stored, storage=storage_type(self.stored), stored=None)

    @property
    def acc_size(self) -> int:
        """Bytes of one accumulator scalar."""
        return sizeof(self.acc)

    @property
    def converts(self) -> bool:
        """Whether loads convert, so that a broadcast operand is worth converting ahead."""
        return self.storage != self.acc

    @property
    def carries_in_out(self) -> bool:
        """Whether a partial accumulator fits the output exactly."""
        return storage_type(self.out) == self.acc and self.out.name != "bfloat16"

    # --- values -----------------------------------------------------------------------------

    def zero(self, f: Function, lanes: int) -> list[V]:
        """An accumulator of zeros."""
        return [f.zero(vector(self.acc, lanes))] * self.parts

    def mac(self, f: Function, acc: list[V], a: list[V], b: list[V]) -> list[V]:
        """One step of the chain: `acc + a * b`, fused for floats."""
        if not is_float(self.acc):
            return [f.add(f.mul(a[0], b[0]), acc[0])]
        if self.parts == 1:
            return [f.fma(a[0], b[0], acc[0])]
        re = f.fma(f.fneg(a[1]), b[1], f.fma(a[0], b[0], acc[0]))
        im = f.fma(a[1], b[0], f.fma(a[0], b[1], acc[1]))
        return [re, im]

    def widen(self, f: Function, v: V) -> V:
        """A stored vector or scalar in accumulator precision."""
        return widen(f, v, self.dtype, self.acc)

    # --- memory -----------------------------------------------------------------------------

    def load(self, f: Function, ptr: V, lanes: int, count: int | V | None = None) -> list[V]:
        """`lanes` stored elements as accumulator vectors; from `count` on zero and not read."""
        ty = vector(self.storage, lanes * self.parts)
        raw = load_part(f, ty, ptr, None if count is None else self.scalars(f, count))
        return self.split(f, self.widen(f, raw))

    def scalars(self, f: Function, count: int | V) -> int | V:
        """Numbers in memory of `count` elements, of which a complex one is two."""
        if isinstance(count, int):
            return count * self.parts
        return count if self.parts == 1 else f.mul(count, f.i64(self.parts))

    def split(self, f: Function, raw: V) -> list[V]:
        """Interleaved complex lanes as real and imaginary vectors; others as they are."""
        if self.parts == 1:
            return [raw]
        total = lanes_of(raw.ty)
        return [f.shuffle(raw, raw, range(p, total, 2)) if total > 2 else f.extract(raw, p)
                for p in range(2)]

    def join(self, f: Function, parts: list[V]) -> V:
        """The inverse of `split`."""
        if self.parts == 1:
            return parts[0]
        lanes = lanes_of(parts[0].ty)
        if lanes == 1:
            two = f.insert(f.undef(vector(self.acc, 2)), parts[0], 0)
            return f.insert(two, parts[1], 1)
        pairs = [lane for i in range(lanes) for lane in (i, lanes + i)]
        return f.shuffle(parts[0], parts[1], pairs)

    def broadcast(self, f: Function, ptr: V, lanes: int) -> list[V]:
        """One element at `ptr`, already in accumulator precision, in every lane."""
        size = self.acc_size
        return [f.splat(f.load(self.acc, f.gep(ptr, p * size)), lanes) for p in range(self.parts)]


def widen(f: Function, v: V, dtype: DType, acc: str) -> V:
    """A stored scalar or vector of `dtype` as type `acc`, exactly."""
    if dtype.name == "bfloat16":
        return from_memory(f, v, dtype)
    if is_float(v.ty):
        return f.cast("fpext", v, acc)
    return f.cast("sext" if dtype.kind == "int" else "zext", v, acc)


def narrow(f: Function, v: V, source: DType, out: DType) -> V:
    """An accumulator of `source` elements as stored elements of `out`; a vector that already
    has the stored type of `out` (an epilogue's result) passes through."""
    target = storage_type(out)
    if element(v.ty) == target:
        return v
    if out.name == "bfloat16":
        return round_bfloat16(f, v)
    if is_float(v.ty):
        return f.cast("fptrunc" if sizeof(target) < sizeof(element(v.ty)) else "fpext", v, target)
    if is_float(target):
        return f.cast("sitofp" if source.kind == "int" else "uitofp", v, target)
    if sizeof(target) < sizeof(element(v.ty)):
        return f.cast("trunc", v, target)
    return f.cast("sext" if source.kind == "int" else "zext", v, target)


# --- partial vectors ----------------------------------------------------------------------------


def load_part(f: Function, ty: str, ptr: V, count: int | V | None) -> V:
    """Load a vector; only the first `count` lanes where given, zeros after them."""
    return f.masked_load(ty, ptr, None if count is None else lanes_below(f, count, lanes_of(ty)))


def store_part(f: Function, v: V, ptr: V, count: int | V | None) -> None:
    """Store a vector, or only its first `count` lanes."""
    f.masked_store(v, ptr, None if count is None else lanes_below(f, count, lanes_of(v.ty)))
