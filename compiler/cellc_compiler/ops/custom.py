"""Users' own kernels: functions over the elements of tensors that are compiled with the graph.

The text of the function is an attribute, so a graph says all that it computes. `hybrid/` is the
language; back ends compile it (the CPU's by numba), and the reference runs it as Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.lazy import lazy_imports

from ..hybrid.functions import NUMBERS
from ..ir import attributes as attr
from ..ir.graph import Node
from ..ir.op import Array, Op, Sample, Spec
from ..ir.types import TensorType
from . import _batch_axis

with lazy_imports(__name__):  # for who has such a kernel
    from ..hybrid import language, native, python

STATUS = TensorType((4,), dtypes.int64)
"""Where a position was out of bounds: line (0: nowhere), position, axis, size."""
_CONSTANT = attr.any_of(str, bool, int, float, dtypes.DType, tuple)
_CONSTANTS = attr.tuple_of(attr.tuple_of(_CONSTANT, 2), None, ())
_INT_OF_C = 1 << 30  # Python's line numbers are ints of C


class CustomKernel(Op):
    """A function in MindSpore's hybrid language, which the user wrote. Source:
    `mindspore.ops.Custom` with the type of function `hybrid`.

    The last result says whether a position was out of bounds; a `check` reads it.

    Attributes:
        text: of the function, from `def` on.
        constants: pairs of a name and the number, dtype or tuple it stands for.
        file: where the function is written; `line` the place of its first line there.
    """

    name = "custom_kernel"
    operands = ("*inputs",)
    attrs = {"text": attr.text(),
             "constants": _CONSTANTS,
             "file": attr.text("<kernel>"), "line": attr.whole(1, _INT_OF_C, default=1)}
    dtypes = NUMBERS
    opaque = True
    discontinuous = True  # as far as anybody knows: it computes in the types of its arrays
    cost = "heavy"
    differentiable = False
    batch_axis = _batch_axis.none

    def infer(self, *inputs: TensorType, **source: Any) -> tuple[TensorType, ...]:
        return (*native.typed(language.Source(**source), inputs).outputs, STATUS)

    def reference(self, *inputs: Array, **source: Any) -> tuple[Array, ...]:
        types = tuple(TensorType(a.shape, dtypes.from_numpy(a.dtype)) for a in inputs)
        kernel = native.typed(language.Source(**source), types)
        results = python.call(kernel, [np.array(a) for a in inputs])
        return (*results, np.zeros(STATUS.dims, np.int64))

    def why_no_gradient(self, node: Node) -> str:
        return "a kernel's gradient is what the `bprop` of its ops.Custom computes: give it one"

    def samples(self) -> Sequence[Sample]:
        return (
            _sample(_AXPY, (5, 4), (5, 4)), _sample(_AXPY, (1, 1), (1, 1)),
            _sample(_AXPY, (0, 3), (0, 3)), _sample(_SUMS, (3, 7)),
            _sample(_SPREAD, Spec((4,), 0, 4, dtypes.int32), (3, 2)),
        )


def _sample(text: str, *operands: tuple[int, ...] | Spec) -> Sample:
    return Sample(tuple(o if isinstance(o, Spec) else Spec(o) for o in operands),
                  {"text": text, "constants": (("FACTOR", 3),)}, grad=False)


_AXPY = """def axpy(a, b):
    c = output_tensor(a.shape, a.dtype)
    for i, j in grid(a.shape):
        c[i, j] = FACTOR * a[i, j] + b[i, j]
    return c
"""
_SUMS = """def sums(a):
    d = allocate((a.shape[1],), a.dtype)
    c = output_tensor((a.shape[0],), a.dtype)
    for i in parallel(a.shape[0]):
        for j in range(a.shape[1]):
            d[j] = max(a[i, j], 1 - a[i, -1 - j])
        for j in reduce(a.shape[1]):
            c[i] += d[j]
    return c
"""
_SPREAD = """def spread(at, a):
    c = output_tensor((len(at), a.shape[0]), at.dtype)
    n = a.shape[0]
    for i in serial(len(at)):
        k = at[i] % n
        while k < n:
            if a[k, 0] > a[k, 1]:
                c[i, k] = k + 1
            k += 1
    return c, at
"""
