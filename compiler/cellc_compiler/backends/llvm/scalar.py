"""One scalar operation on lanes: arithmetic by dtype, functions, conversions, random bits.

16-bit floats are computed in float32 (some functions shorter, `math/halves.py`) and rounded after
each operation that can round.
"""

from __future__ import annotations

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from ...loops.expr import Expr
from . import convert, philox
from .math import functions as math
from .math import halves
from .math.lanes import X
from .text import Function, V

_EXACT = frozenset({
    "neg", "abs", "maximum", "minimum", "floor", "ceil", "round", "trunc", "sign", "select",
    "where", "and", "or", "xor", "not",
})
"""Operations whose result is representable if the arguments are."""

_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INT = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_PREDICATES = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}

_CYCLES = {
    "load": 1.0, "const": 0.0, "ref": 0.0, "index": 1.0, "div": 4.0, "sqrt": 6.0, "exp": 10.0,
    "normal_exp": 10.0, "expm1": 14.0, "log": 14.0, "log1p": 18.0, "tanh": 16.0, "sigmoid": 14.0,
    "erf": 20.0, "pow": 40.0, "sin": 20.0, "cos": 20.0, "philox": 40.0, "rsqrt": 8.0,
}


def cycles(e: Expr) -> float:
    """Rough cycles of one operation on a 64-byte vector."""
    return _CYCLES.get(e.op, 1.0 if e.op in _FLOAT or e.op in _EXACT or e.op in _INT else 8.0)


from_memory = convert.from_memory
to_memory = convert.to_memory


def compute(f: Function, e: Expr, args: list[V]) -> V:
    """The value of an operation from its arguments' values (register types, equal lanes; the key
    of random bits is a scalar)."""
    if e.op == "cast":
        return convert.convert(f, args[0], e.args[0].dtype, e.dtype)
    if e.op == "bitcast":
        return _bitcast(f, args[0], e.args[0].dtype, e.dtype)
    if e.op == "cmp":
        return _compare(f, e.payload, args[0], args[1], e.args[0].dtype)
    if e.op == "select":
        return f.select(args[0], args[1], args[2])
    if e.op == "philox":
        return philox.philox_bits(f, *args)
    out = _arithmetic(f, e.op, e.dtype, args)
    return out if e.op in _EXACT else convert.round_to(f, out, e.dtype)


def _arithmetic(f: Function, name: str, dtype: DType, args: list[V]) -> V:
    if dtype.is_float:
        if dtype.itemsize == 2 and name in halves.SHORT:
            return halves.SHORT[name](X(f, args[0]), dtype).v
        if name in _FLOAT:
            return f.binary(_FLOAT[name], args[0], args[1])
        if name == "neg":
            return f.fneg(args[0])
    elif name in _INT and not (dtype is dtypes.bool_ and name in ("add", "sub", "mul")):
        return f.binary(_INT[name], args[0], args[1])
    elif name == "not":
        return args[0] ^ f.const(args[0].ty, -1 if dtype.kind != "bool" else 1)
    return math.emit(f, name, *args, signed=dtype.kind == "int")


def _compare(f: Function, pred: str, a: V, b: V, dtype: DType) -> V:
    if dtype.is_float:
        return f.cmp({"ne": "une", "eq": "oeq"}.get(pred, "o" + pred), a, b)
    if pred in ("eq", "ne"):
        return f.cmp(pred, a, b)
    return f.cmp(("s" if dtype.kind == "int" else "u") + _PREDICATES[pred], a, b)


def _bitcast(f: Function, v: V, src: DType, dst: DType) -> V:
    raw = convert.to_memory(f, v, src)
    return convert.from_memory(f, f.cast("bitcast", raw, convert.memory_type(dst)), dst)
