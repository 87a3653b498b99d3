"""Evaluate the `value` rule of an op in numpy, over all result elements at once.

Independent of the code generator: a load outside a buffer that its mask does not exclude fails,
so the index arithmetic of views and gathers is checked to the last element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cellc_compiler.ir.graph import Node
from cellc_compiler.ir.op import lookup
from cellc_compiler.loops.expr import Access, ComplexExpr, Expr, Reader, load
from cellc_compiler.loops.index import Dyn, Index, Quot, Rem, Var, ravel
from cellc_runtime import dtypes

Array = np.ndarray[Any, Any]

_CALLS: dict[str, Callable[..., Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative,
    "minimum": np.minimum, "maximum": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "not": np.logical_not, "select": np.where, "shr": np.right_shift, "xor": np.bitwise_xor,
    "div": np.divide, "sqrt": np.sqrt, "log": np.log, "cos": np.cos, "shl": np.left_shift,
    "floor_mod": np.mod,
}
_COMPARE: dict[str, Callable[..., Array]] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
}


class Evaluator:
    """Expressions over the loop variables of one result shape."""

    def __init__(self, arrays: Sequence[Array], shape: tuple[int, ...]) -> None:
        self.arrays = arrays
        self.shape = shape
        self.vars = tuple(Var(f"i{k}", d) for k, d in enumerate(shape))
        grids = np.meshgrid(*(np.arange(d) for d in shape), indexing="ij") if shape else []
        self.grid = dict(zip(self.vars, grids, strict=True))
        self.extra: dict[str, Callable[..., Array]] = {}

    def index(self, i: Index) -> Array:
        """An index at every element."""
        out = np.full(self.shape, i.const, np.int64)
        for atom, c in i.terms:
            if isinstance(atom, Var):
                part = self.grid[atom]
            elif isinstance(atom, Quot):
                part = self.index(atom.of) // atom.by
            elif isinstance(atom, Rem):
                part = self.index(atom.of) % atom.by
            else:
                assert isinstance(atom, Dyn)
                part = np.asarray(self.expr(atom.expr))
                assert ((part >= atom.lo) & (part <= atom.hi)).all()
            out = out + c * part
        return out

    def expr(self, e: Expr) -> Array:
        """An expression at every element."""
        if e.op == "const":
            return np.full(self.shape, e.payload, e.dtype.numpy)
        if e.op == "index":
            return self.index(e.payload)
        if e.op == "load":
            return self._load(e)
        args = [self.expr(a) for a in e.args]
        if e.op == "cast":
            return args[0].astype(e.dtype.numpy)
        if e.op == "bitcast":
            return args[0].view(e.dtype.numpy)
        if e.op == "cmp":
            return _COMPARE[e.payload](*args)
        fn = self.extra.get(e.op) or _CALLS[e.op]
        return np.asarray(fn(*args), dtype=e.dtype.numpy)

    def _load(self, e: Expr) -> Array:
        access: Access = e.payload
        flat = np.ascontiguousarray(self.arrays[access.buffer]).reshape(-1)
        if access.part is not None:
            flat = flat.real if access.part == 0 else flat.imag
        at = self.index(access.offset)
        mask = self.expr(e.args[0]) if e.args else np.ones(self.shape, np.bool_)
        assert ((at >= 0) & (at < flat.size))[mask].all(), "a load outside its buffer"
        if flat.size == 0:
            return np.zeros(self.shape, flat.dtype)
        values = flat[np.clip(at, 0, flat.size - 1)]
        return np.where(mask, values, np.zeros((), flat.dtype))


def evaluate_value(
    node: Node, arrays: Sequence[Array], **extra: Callable[..., Array]
) -> tuple[Array, ...]:
    """The results of a node by its op's `value` rule."""
    op = lookup(node.op)
    types = tuple(v.type for v in node.operands)

    def read(k: int, idx: tuple[Index, ...], where: Expr | None = None) -> Any:
        offset = ravel(tuple(Index.of(i) for i in idx), types[k].dims)
        dtype = types[k].dtype
        if dtype.is_complex:
            half = dtypes.float32 if dtype.itemsize == 8 else dtypes.float64
            return ComplexExpr(load(k, offset, half, where, 0), load(k, offset, half, where, 1))
        return load(k, offset, dtype, where)

    outs = tuple(r.type for r in node.results)
    ev = Evaluator(arrays, outs[0].dims)
    ev.extra = dict(extra)
    assert op.value is not None
    value = op.value(Reader(types, outs, node.attrs, read), tuple(Index.of(v) for v in ev.vars))
    results = []
    for part, ty in zip(value if isinstance(value, tuple) else (value,), outs, strict=True):
        if isinstance(part, ComplexExpr):
            results.append((ev.expr(part.re) + 1j * ev.expr(part.im)).astype(ty.dtype.numpy))
        else:
            assert part.dtype is ty.dtype, (part.dtype, ty)
            results.append(np.asarray(ev.expr(part)).reshape(ty.dims))
    return tuple(results)
