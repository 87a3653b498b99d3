"""numpy's functions on Tensors: `cellc.numpy`, as `mindspore.numpy` has them.

They stand on the same ops as `cellc.ops`, in both modes. Lists and Python numbers are taken as
tensors of int32, float32 or bool.
"""

from __future__ import annotations

from cellc_runtime import dtypes
from cellc_runtime.lazy import public_names

from . import applied, arrays, creation, elementwise, linear, reductions

_TYPES = {n: getattr(dtypes, n) for n in (
    "bool_", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
    "uint32", "uint64")}
_TYPES |= {"int_": dtypes.int32, "float_": dtypes.float32, "uint": dtypes.uint32}
_CONSTANTS = {n: getattr(creation, n) for n in ("pi", "inf", "nan", "PINF", "NINF", "mgrid",
                                                "ogrid")}


def _collect() -> dict[str, object]:
    names: dict[str, object] = {**_TYPES, **_CONSTANTS}
    for module in (creation, elementwise, arrays, linear, reductions, applied):
        names |= {
            n: v for n, v in vars(module).items()
            if not n.startswith("_") and callable(v)
            and getattr(v, "__module__", "") == module.__name__ and n not in _HIDDEN
        }
    return names


_HIDDEN = ("linspace_ints", "range_list")
_NAMES = _collect()
globals().update(_NAMES)

__all__ = sorted(_NAMES)
__dir__ = public_names(__name__)
