"""Tensor maps, as `cellc_main` makes them: a call of `cuTensorMapEncodeTiled` for each."""

from __future__ import annotations

from cellc_runtime import dtypes

from ..llvm.text import Function, V
from .code import TensorMap

MAP_BYTES = 128
_TYPES = {dtypes.float16: 6, dtypes.float32: 7, dtypes.bfloat16: 9}  # `CUtensorMapDataType`
_SWIZZLE_128, _PROMOTE_256 = 3, 3


def encoded(f: Function, function: V, m: TensorMap, pointer: V, place: V) -> V:
    """Make a map; what the function returned (an i32).

    Args:
        f: of the host.
        function: `cuTensorMapEncodeTiled`, or what stands for it.
        m: the tensor and its boxes.
        pointer: where the tensor is.
        place: of the map, a multiple of 64.
    """
    def table(ty: str, *values: int) -> V:
        name = "_".join(["tensor", ty, *map(str, values)])
        return f.constant_table(name, ty, values)

    sizes, strides = table("i64", *m.sizes), table("i64", *m.strides)
    box, steps = table("i32", *m.box, 1), table("i32", 1, 1, 1)
    return f.emit("i32", (
        f"call i32 {function.ref}({place}, i32 {_TYPES[m.dtype]}, i32 3, {pointer}, {sizes}, "
        f"{strides}, {box}, {steps}, i32 0, i32 {_SWIZZLE_128}, i32 {_PROMOTE_256}, i32 0)"))
