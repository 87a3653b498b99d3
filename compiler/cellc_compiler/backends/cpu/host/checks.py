"""Run-time checks: the search for a bad element."""

from __future__ import annotations

from cellc_runtime.target import Target

from ...llvm.main import first_outside
from ...llvm.text import Function, V

_BLOCK = 4  # Vectors that one turn of the search looks at


def search_name(bits: int) -> str:
    """The name of the function that `search` writes."""
    return f"cellc_outside_{bits}"


def search(bits: int, target: Target) -> Function:
    """`i64 NAME(ptr p, i64 n, i64 low, i64 width)`: the first of `n` ints at which `p[i] - low`
    is not below `width` (unsigned), or n."""
    ty = f"i{bits}"
    params = [("ptr", "p"), ("i64", "n"), ("i64", "low"), ("i64", "width")]
    f = Function(search_name(bits), params, target, linkage="internal", ret="i64",
                 attributes="noinline")
    p, n = f.arg("p"), f.arg("n")
    low, width = (a if bits == 64 else f.cast("trunc", a, ty)
                  for a in (f.arg("low"), f.arg("width")))
    lanes = target.vector_bytes * 8 // bits
    vector = f"<{lanes} x {ty}>"
    lows, widths = f.splat(low, lanes), f.splat(width, lanes)
    step = lanes * _BLOCK

    def block(i: V, carried: list[V]) -> list[V]:
        seen = carried[0]
        for k in range(_BLOCK):
            at = f.gep(p, i + k * lanes, ty)
            x = f.load(vector, at, align=bits // 8) - lows
            bad = f.cast("sext", f.cmp("uge", x, widths), ty)
            seen = seen | bad
        return [seen]

    whole = n - n % step
    (seen,) = f.loop(f.i64(0), whole, f.i64(step), [f.zero(vector)], block)
    reduce = f"llvm.vector.reduce.or.v{lanes}{ty}"
    f.declares.add(f"declare {ty} @{reduce}({vector})")
    any_bad = f.emit(ty, f"call {ty} @{reduce}({seen})")
    start = f.select(f.cmp("eq", any_bad, f.zero(ty)), whole, f.i64(0))
    f.ret_(first_outside(f, p, n, low, width, start))
    return f
