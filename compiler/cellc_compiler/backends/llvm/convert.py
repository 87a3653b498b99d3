"""Conversions between element types, total and in vector instructions.

Every real dtype converts to every other; no input is undefined:

- float -> integer truncates towards zero. Out of range follows what C compilers make of the
  cast on x86-64, which is what numpy and MindSpore 2.10 give on such a CPU (on every target
  here): int8/int16/uint8/uint16 take the low bits of the int32 conversion, uint32 those of the
  int64 one; int32 and int64 give their minimum for NaN, infinities and anything too large;
  uint64 wraps negative values and gives 2^63 for NaN and -inf, 0 for +inf and values >= 2^64.
- integer -> integer keeps the low bits; anything -> bool is `x != 0` (NaN is true).
- integer -> float and float -> float round to nearest even; an integer goes to a 16-bit float
  through float32 (as numpy does; every integer a float16 can hold is exact there, bfloat16
  may round twice), and float64 goes to bfloat16 through float32 (as ml_dtypes does), but to
  float16 with a single rounding (von Neumann's round-to-odd into float32 first).
- bfloat16 is widened by a shift and narrowed by integer arithmetic, NaN kept: for a CPU, LLVM
  would call a library function per lane. A GPU has an instruction for it (`Function.narrows`).

In registers a bool is `i1` and a 16-bit float is computed as `float`; in memory a bool is one
byte. `load_as`/`store_as` cross that border.
"""

from __future__ import annotations

from functools import cache

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from .math.lanes import X
from .text import Function, V, vector

_MEMORY = {
    dtypes.bool_: "i8", dtypes.int8: "i8", dtypes.int16: "i16", dtypes.int32: "i32",
    dtypes.int64: "i64", dtypes.uint8: "i8", dtypes.uint16: "i16", dtypes.uint32: "i32",
    dtypes.uint64: "i64", dtypes.float16: "half", dtypes.bfloat16: "i16",
    dtypes.float32: "float", dtypes.float64: "double",
}


@cache
def memory_type(dtype: DType) -> str:
    """The LLVM element type of a dtype in memory (bool: i8, bfloat16: i16).

    Raises:
        TypeError: a complex dtype; its parts are read as real numbers.
    """
    try:
        return _MEMORY[dtype]
    except KeyError:
        raise TypeError(f"{dtype} has no scalar memory type") from None


@cache
def register_type(dtype: DType) -> str:
    """The LLVM element type a dtype is computed in (bool: i1, 16-bit floats: float)."""
    if dtype is dtypes.bool_:
        return "i1"
    return "float" if dtype.is_float and dtype.itemsize == 2 else memory_type(dtype)


def from_memory(f: Function, v: V, dtype: DType) -> V:
    """A value as loaded (memory type) in its register type."""
    if dtype is dtypes.bool_:
        return f.cmp("ne", v, f.zero(v.ty))
    if dtype is dtypes.float16:
        return f.cast("fpext", v, "float")
    if dtype is dtypes.bfloat16:
        wide = X(f, f.cast("zext", v, "i32"))
        return (wide << 16).float().v
    return v


def to_memory(f: Function, v: V, dtype: DType) -> V:
    """A register value as stored; 16-bit floats round to nearest even here."""
    if dtype is dtypes.bool_:
        return f.cast("zext", v, "i8")
    if dtype is dtypes.float16:
        return f.cast("fptrunc", v, "half")
    if dtype is dtypes.bfloat16:
        if f.narrows:
            return f.cast("bitcast", f.cast("fptrunc", v, "bfloat"), "i16")
        return f.cast("trunc", (_bf16_bits(X(f, v)) >> 16).v, "i16")
    return v


def round_bfloat16(f: Function, v: V) -> V:
    """Floats as bfloat16 bits (i16): nearest, ties to even, NaN stays NaN.

    In integers, because LLVM's own conversion is a library call per lane.
    """
    bits = f.cast("bitcast", v, "i32")
    high = bits >> f.const(bits.ty, 16)
    odd = high & f.const(bits.ty, 1)
    bumped = bits + f.const(bits.ty, 0x7FFF) + odd
    rounded = bumped >> f.const(bits.ty, 16)
    quiet = high | f.const(bits.ty, 0x40)
    return f.cast("trunc", f.select(f.cmp("uno", v, v), quiet, rounded), "i16")


def exact_to_memory(f: Function, v: V, dtype: DType) -> V:
    """A register value that `dtype` can hold, as stored: nothing is rounded any more."""
    if dtype is dtypes.bfloat16:
        return f.cast("trunc", (X(f, v).bits() >> 16).v, "i16")
    return to_memory(f, v, dtype)


def load_as(f: Function, dtype: DType, ptr: V, lanes: int = 1, mask: V | None = None) -> V:
    """Load `lanes` elements into register type; lanes not set in `mask` read nothing and are 0."""
    return from_memory(f, f.masked_load(vector(memory_type(dtype), lanes), ptr, mask), dtype)


def store_as(f: Function, v: V, dtype: DType, ptr: V, mask: V | None = None) -> None:
    """Store a register value as `dtype`; lanes not set in `mask` touch no memory."""
    f.masked_store(to_memory(f, v, dtype), ptr, mask)


def round_to(f: Function, v: V, dtype: DType) -> V:
    """A register value rounded to what `dtype` can hold (identity but for 16-bit floats)."""
    if dtype is dtypes.float16:
        return f.cast("fpext", f.cast("fptrunc", v, "half"), "float")
    if dtype is dtypes.bfloat16:
        if f.narrows:
            return f.cast("fpext", f.cast("fptrunc", v, "bfloat"), "float")
        return _bf16_bits(X(f, v)).float().v
    return v


def convert(f: Function, v: V, src: DType, dst: DType) -> V:
    """A register value of dtype `src` as dtype `dst`, in register types, any lane count.

    Raises:
        TypeError: a complex dtype.
    """
    for d in (src, dst):
        memory_type(d)
    if src is dst:
        return v
    x = X(f, v)
    if dst is dtypes.bool_:
        return f.cmp("une" if src.is_float else "ne", v, f.zero(v.ty))
    if dst.is_float:
        return _to_float(x, src, dst)
    if src.is_float:
        return _float_to_int(x, dst).v
    return _resize(x, src, memory_type(dst)).v


def _resize(x: X, src: DType, ty: str) -> X:
    """An integer or bool with the low bits kept or extended by its own signedness."""
    if src is dtypes.bool_:
        return x.to("zext", ty)
    bits = int(ty[1:])
    if bits == src.itemsize * 8:
        return x
    if bits < src.itemsize * 8:
        return x.to("trunc", ty)
    return x.to("sext" if src.kind == "int" else "zext", ty)


def _to_float(x: X, src: DType, dst: DType) -> V:
    if src is dtypes.float64 and dst is dtypes.float16:
        x = _round_to_odd(x)
    elif not src.is_float:
        x = _int_to_float(x, src, register_type(dst))
    elif dst is dtypes.float64:
        x = x.to("fpext", "double")
    elif src is dtypes.float64:
        x = x.to("fptrunc", "float")
    widening = src in (dtypes.float16, dtypes.bfloat16) and dst.itemsize > 2
    exact = widening or src is dtypes.bool_ or (dst.itemsize > 2)
    return x.v if exact else round_to(x.f, x.v, dst)


def _int_to_float(x: X, src: DType, ty: str) -> X:
    """Integers to float or double. Narrow ones go through i32, which every target converts."""
    signed = src.kind == "int"
    if src.itemsize < 4:
        return _resize(x, src, "i32").to("sitofp", ty)
    return x.to("sitofp" if signed else "uitofp", ty)


def _round_to_odd(x: X) -> X:
    """float64 -> float32 such that rounding again to float16 equals rounding once.

    The bits that float32 cannot hold are folded into its last one ("sticky"), so that no value
    lands on a float16 tie it was not on.
    """
    b = x.bits()
    dropped = (1 << 29) - 1
    sticky = ((b & dropped) + dropped) & (1 << 29)
    return ((b | sticky) & ~dropped).float().to("fptrunc", "float")


def _bf16_bits(x: X) -> X:
    """i32 bits of a float rounded to bfloat16, low half zero (nearest even; NaN stays NaN)."""
    b = x.bits()
    rounded = b + 0x7FFF + ((b >> 16) & 1)
    return x.isnan().where(b | 0x400000, rounded) & -0x10000


def _float_to_int(x: X, dst: DType) -> X:
    if dst is dtypes.uint64:
        return _to_uint64(x)
    if dst.itemsize < 4 or dst is dtypes.int32:
        return _to_signed(x, "i32").to("trunc", memory_type(dst))
    return _to_signed(x, "i64").to("trunc", memory_type(dst))


def _to_signed(x: X, ty: str) -> X:
    """Truncation; NaN and what does not fit give the minimum.

    One comparison of |x| suffices: the values between -2^n - 1 and -2^n truncate to the minimum.
    """
    limit = 2.0 ** (int(ty[1:]) - 1)
    return x.abs().lt(limit).where(x, -limit).to("fptosi", ty)


def _to_uint64(x: X) -> X:
    """As compilers do on x86-64: the upper half is converted after subtracting 2^63."""
    big = x.ge(2.0**63)
    low = _to_signed(big.where(x - 2.0**63, x), "i64")
    return low ^ big.where(low.const(-(2**63)), low.const(0))
