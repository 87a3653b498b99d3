"""numpy's functions on Tensors: `cellc.numpy`, as `mindspore.numpy` has them.

They stand on the same ops as `cellc.ops`, in both modes. Lists and Python numbers are taken as
tensors of int32, float32 or bool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cellc_runtime.dtypes import (
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from cellc_runtime.lazy import imported, no_attribute, public_names

from ..core.native import entry
from . import applied, arrays, creation, elementwise, linear, reductions
from .applied import *  # noqa: F403
from .arrays import *  # noqa: F403
from .creation import *  # noqa: F403
from .elementwise import *  # noqa: F403
from .linear import *  # noqa: F403
from .reductions import *  # noqa: F403

int_, float_, uint = int32, float32, uint32

__all__ = [
    "bool_", "float16", "float32", "float64", "float_", "int16", "int32", "int64", "int8", "int_",
    "uint", "uint16", "uint32", "uint64", "uint8",
]
__all__ += applied.__all__
__all__ += arrays.__all__
__all__ += creation.__all__
__all__ += elementwise.__all__
__all__ += linear.__all__
__all__ += reductions.__all__
for _module in (applied, arrays, creation, elementwise, linear, reductions):
    globals().update((_n, entry(getattr(_module, _n), _n, __name__)) for _n in _module.__all__)
__dir__ = public_names(__name__)
if TYPE_CHECKING:
    from ..stubs.numpy import *  # noqa: F403
else:
    def __getattr__(name: str) -> Any:
        if name == "fft":  # a module that few need
            return imported(".fft", __name__)
        raise no_attribute(__name__, name)
