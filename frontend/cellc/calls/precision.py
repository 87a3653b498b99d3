"""Mixed precision of Cells: what `to_float` and automatic mixed precision do to a call.

Under `to_float` a Cell's floating-point inputs are converted when it is called, and its
Parameters where they are read. Under automatic mixed precision ops convert their operands by
the class that their definition states (`Op.amp`). Both make ordinary `cast` nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from typing import Any

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from ..core import dispatch
from ..tensors.promotion import cast_to
from ..tensors.tensor import Tensor, elements_of, use_elements
from ..tracing.pytree import put_together, take_apart

FLAGS = {"fp16": dtypes.float16, "fp32": dtypes.float32, "bf16": dtypes.bfloat16}
"""The flags `to_float` sets, and the element type each stands for."""
AUTO_FLAG = "auto_precision"
"""The flag of a Cell that runs under automatic mixed precision: its low element type."""


class MixedPrecisionType(IntEnum):
    """The element types that `to_float` and mixed precision set for a Cell."""

    NOTSET = 0
    FP16 = 1
    FP32 = 2
    BF16 = 3

    __str__ = Enum.__str__

    @staticmethod
    def of(dtype: DType | None) -> MixedPrecisionType:
        """The member that stands for an element type, NOTSET for None."""
        return next(m for m in MixedPrecisionType if m.dtype is dtype)

    @property
    def dtype(self) -> DType | None:
        """The element type; None for NOTSET."""
        return FLAGS.get(self.name.lower())


class Constant(Tensor):
    """A Tensor that a Cell holds: within the Cell it is read in the Cell's element type."""

    @classmethod
    def of(cls, tensor: Tensor) -> Constant:
        """The same elements, in the same memory."""
        out = cls.__new__(cls)
        out.__dict__.update(tensor.__dict__)
        use_elements(out, elements_of(tensor))
        return out

    @property
    def dtype(self) -> DType:
        """Element type; within a Cell under `to_float`, the one it is read in there."""
        own = dtypes.from_numpy(self._layout.dtype)
        wanted = dispatch.precision()
        return own if wanted is None or not own.is_float else wanted


def float_type(cell: Any) -> DType | None:
    """Return the type that `to_float` set last for a cell, or None."""
    flags = cell._flags
    return next((v for k, v in FLAGS.items() if flags.get(k)), None) if flags else None


def run(
    cell: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any],
    call: Callable[[tuple[Any, ...], dict[str, Any]], Any],
) -> Any:
    """`call(args, kwargs)` in the precision of a cell."""
    wanted = float_type(cell)
    outer = dispatch.auto_precision()
    auto = cell._flags.get(AUTO_FLAG) or outer
    if wanted is dispatch.precision() and auto is outer and wanted is None:
        return call(args, dict(kwargs))
    with dispatch.computing_in(wanted, auto):
        if wanted is not None:
            args, kwargs = as_type((tuple(args), dict(kwargs)), wanted)
        return call(args, dict(kwargs))


def as_type(value: Any, dtype: DType) -> Any:
    """A structure whose floating-point tensors have an element type."""
    structure, leaves = take_apart(value)
    return put_together(structure, [cast_to(t, dtype) if t.dtype.is_float else t for t in leaves])
