"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cellc_runtime.dtypes import DType
from cellc_runtime.lazy import lazy_module
from cellc_runtime.target import Target

from ..ir.graph import Builder, Node, Value
from ..ir.op import NUMBERS, Array, Op, Sample, Spec, register
from ..ir.types import TensorType, broadcast_shapes, prod
from ..lower.plan import KernelPlan, Step
from . import _identities, _rows
from ._batching import pointwise
from ._complex import conj
from ._views import widened
from .elementwise import same_dtype, unbroadcast

if TYPE_CHECKING:
    from ..backends.cpu.kernels.gemm import product as gemm
    from ..backends.cpu.llvm import convert
    from ..backends.cpu.llvm.text import Function, V
    from ..backends.cpu.nests.epilogue import Fused
    from ..lower import ahead
else:  # kernel families load when one is generated
    ahead = lazy_module("cellc_compiler.lower.ahead")
    convert = lazy_module("cellc_compiler.backends.cpu.llvm.convert")
    gemm = lazy_module("cellc_compiler.backends.cpu.kernels.gemm.product")


_FETCHED_BYTES = 1 << 18
"""What is smaller and read by an epilogue is likely to be near."""


def batch_strides(own: tuple[int, ...], out: tuple[int, ...]) -> tuple[int, ...]:
    """Matrices of an operand per step of each output batch dimension (0: broadcast)."""
    padded = (1,) * (len(out) - len(own)) + own
    return tuple(0 if d == 1 else prod(padded[i + 1:]) for i, d in enumerate(padded))


def _tile_epilogue(fused: Fused, n: int, target: Target) -> gemm.Epilogue:
    """A fused expression as the GEMM family takes it: rows count over the batch."""

    def emit(f: Function, acc: V, row: V, col: V, lanes: int, mask: V | None) -> V:
        flat = f.add(f.mul(row, f.i64(n)), col)
        out = fused.emit(f, target, acc, flat, col, lanes, mask)
        return convert.exact_to_memory(f, out, fused.roots[0].dtype)

    near = tuple(i for i, v in enumerate(fused.operands)
                 if v.type.nbytes == fused.source.type.nbytes >= _FETCHED_BYTES
                 and fused.elementwise(v))
    return gemm.Epilogue(fused.key, emit, fused.buffers, fused.replaces, len(fused.roots) > 1, near)


def matmul_spec(node: Node, epilogue: gemm.Epilogue | None = None,
                stored: DType | None = None) -> gemm.MatmulSpec:
    """The product a matmul node computes, as the GEMM family takes it; an epilogue may store
    another type."""
    x, y, out = node.operands[0].shape, node.operands[1].shape, node.result.shape
    ta, tb = node.attrs["transpose_a"], node.attrs["transpose_b"]
    return gemm.MatmulSpec(
        m=out[-2], n=out[-1], k=x[-2] if ta else x[-1], dtype=node.operands[0].dtype,
        batch=out[:-2], a_batch_strides=batch_strides(x[:-2], out[:-2]),
        b_batch_strides=batch_strides(y[:-2], out[:-2]), trans_a=ta, trans_b=tb,
        out_dtype=stored, epilogue=epilogue, b_constant=ahead.packs_apart(node.operands[1]),
    )


@register
class Matmul(Op):
    """input @ other over the last two axes, the leading ones broadcast. `(..., m, k)` by
    `(..., k, n)` gives `(..., m, n)`. Source: `mindspore.ops.matmul`, `BatchMatMul`.

    16-bit floats are summed in float32 and rounded once.

    Attributes:
        transpose_a: input is stored `(..., k, m)`.
        transpose_b: other is stored `(..., n, k)`.
    """

    name = "matmul"
    simplify = _identities.transposed_factors
    rows = _rows.multiplied
    sums = True
    operands = ("input", "other")
    attrs = {"transpose_a": False, "transpose_b": False}
    dtypes = NUMBERS
    amp = "low"
    cost = "heavy"
    primitive = "BatchMatMul"
    tolerance = 16.0
    batch = pointwise

    def infer(self, a: TensorType, c: TensorType, *, transpose_a: bool,
              transpose_b: bool) -> TensorType:
        dtype = same_dtype("matmul", a, c)
        if dtype not in self.dtypes:
            raise TypeError(f"matmul takes numbers, got {a}; cast to an integer type first")
        if a.rank < 2 or c.rank < 2:
            raise ValueError(f"matmul needs operands of at least 2 dimensions, got {a} and {c}")
        m, ka = (a.shape[-1], a.shape[-2]) if transpose_a else a.shape[-2:]
        kb, n = (c.shape[-1], c.shape[-2]) if transpose_b else c.shape[-2:]
        if ka != kb:
            marks = [" transposed" if t else "" for t in (transpose_a, transpose_b)]
            raise ValueError(
                f"matmul of {a}{marks[0]} and {c}{marks[1]}: the inner dimensions {ka} and {kb} "
                f"differ"
            )
        batch = broadcast_shapes(a.shape[:-2], c.shape[:-2], "batch dimensions of matmul")
        return TensorType((*batch, m, n), dtype)

    def flops(self, node: Node) -> int:
        a = node.operands[0].shape
        k = a[-2] if node.attrs["transpose_a"] and len(a) > 1 else a[-1]
        return 2 * k * prod(node.result.shape)

    def reference(self, a: Array, c: Array, *, transpose_a: bool, transpose_b: bool) -> Array:
        dtype = a.dtype
        a, c = widened(a, c)
        left = np.swapaxes(a, -1, -2) if transpose_a else a
        right = np.swapaxes(c, -1, -2) if transpose_b else c
        return np.matmul(left, right).astype(dtype)

    def gradient(self, b: Builder, node: Node, dys: Sequence[Value | None]) -> list[Value]:
        x, y = node.operands
        dy = dys[0]
        assert dy is not None
        ta, tb = node.attrs["transpose_a"], node.attrs["transpose_b"]
        x, y = conj(b, x), conj(b, y)  # the identity but for complex operands
        if ta:
            dx = b.matmul(y, dy, transpose_a=tb, transpose_b=True)
        else:
            dx = b.matmul(dy, y, transpose_b=not tb)
        return [unbroadcast(b, dx, x.type), self._right(b, x, y, dy, ta, tb)]

    def _right(self, b: Builder, x: Value, y: Value, dy: Value, ta: bool, tb: bool) -> Value:
        if y.type.rank == 2 and x.type.rank > 2 and not ta:
            # One product over all rows sums the batch on the way.
            x = b.reshape(x, shape=(prod(x.shape[:-1]), x.shape[-1]))
            dy = b.reshape(dy, shape=(prod(dy.shape[:-1]), dy.shape[-1]))
        if tb:
            dw = b.matmul(dy, x, transpose_a=True, transpose_b=ta)
        else:
            dw = b.matmul(x, dy, transpose_a=not ta)
        return unbroadcast(b, dw, y.type)

    def kernels(self, node: Node, target: Target,
                epilogue: Fused | None = None) -> KernelPlan:
        """The GEMM kernels; `epilogue` is applied to accumulators before the store."""
        n = node.result.shape[-1]
        spec = matmul_spec(node)
        if epilogue is not None:
            spec = matmul_spec(node, _tile_epilogue(epilogue, n, target), epilogue.roots[0].dtype)
        plan = gemm.matmul_kernels(spec, target)
        names = {"a": "in0", "b": "in1", "out": "out0"}
        steps = [Step(k, tuple(names.get(r, r) for r in roles)) for k, roles in plan.kernels]
        return KernelPlan(tuple(steps), dict(plan.scratch), dict(plan.packing))

    def samples(self) -> Sequence[Sample]:
        def pair(a: tuple[int, ...], c: tuple[int, ...], **attrs: bool) -> Sample:
            return Sample((Spec(a), Spec(c)), attrs)

        return (pair((4, 5), (5, 3)), pair((5, 4), (3, 5), transpose_a=True, transpose_b=True),
                pair((17, 33), (33, 19)), pair((2, 3, 4), (4, 5)), pair((4, 2), (3, 4, 5),
                                                                        transpose_a=True),
                pair((2, 1, 3, 4), (5, 6, 4), transpose_b=True), pair((1, 1), (1, 1)),
                pair((0, 3), (3, 4)), pair((2, 0), (0, 3)))


@register
class Dense(Op):
    """input @ weight.T + bias over the last axis: a product with what is added in its stores.
    `(..., k)` by `(n, k)` and `(n,)` gives `(..., n)`. Source: `mindspore.ops.dense`.

    PyNative calls it; graphs are traced with the ops it is made of.
    """

    name = "dense"
    sums = True
    operands = ("input", "weight", "*bias")
    dtypes = NUMBERS
    amp = "low"
    cost = "heavy"
    tolerance = 16.0

    def infer(self, x: TensorType, w: TensorType, *bias: TensorType) -> TensorType:
        dtype = same_dtype("dense", x, w, *bias)
        if dtype not in self.dtypes:
            raise TypeError(f"dense takes numbers, got {x}; cast to an integer type first")
        if x.rank < 1 or w.rank != 2 or x.shape[-1] != w.shape[1]:
            raise ValueError(
                f"dense needs a matrix of weights with rows as long as the last axis of the "
                f"input, got {w} for {x}"
            )
        if len(bias) > 1 or any(c.shape != w.shape[:1] for c in bias):
            raise ValueError(f"dense needs one bias of {w.shape[0]} elements at most, got "
                             + ", ".join(map(str, bias)))
        return x.with_shape((*x.shape[:-1], w.shape[0]))

    def expand(self, b: Builder, x: Value, w: Value, *bias: Value) -> Value:
        rows = x if x.type.rank == 2 else b.reshape(x, shape=(prod(x.shape[:-1]), x.shape[-1]))
        out: Value = b.matmul(rows, w, transpose_b=True)
        if x.type.rank != 2:
            out = b.reshape(out, shape=(*x.shape[:-1], w.shape[0]))
        return b.add(out, bias[0]) if bias else out

    def reference(self, x: Array, w: Array, *bias: Array) -> Array:
        dtype = x.dtype
        x, w = widened(x, w)
        out: Array = np.matmul(x, w.T).astype(dtype)
        return (out + bias[0]).astype(dtype) if bias else out

    def samples(self) -> Sequence[Sample]:
        def given(*shapes: tuple[int, ...]) -> Sample:
            return Sample(tuple(map(Spec, shapes)))

        return (given((4, 5), (3, 5), (3,)), given((2, 3, 5), (4, 5), (4,)), given((5,), (3, 5)),
                given((17, 33), (19, 33), (19,)), given((2, 0, 3), (4, 3), (4,)),
                given((1, 40), (2, 40), (2,)))
