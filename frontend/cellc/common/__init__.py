"""Tensors, parameters, dtypes, initialisers and seeds, under MindSpore's import paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import imported, no_attribute, public_names

from .. import ops as _ops  # noqa: F401  (whoever has a Tensor has its methods, and an engine)
from ..tensors import dtype as _dtype
from ..tensors.parameter import Parameter, ParameterTuple
from ..tensors.seed import get_seed, set_seed
from ..tensors.tensor import Tensor

__all__ = ["Parameter", "ParameterTuple", "Tensor", "get_seed", "set_seed"]
_HOMES = {
    **dict.fromkeys(("Generator", "default_generator", "manual_seed", "seed"), "..tensors.seed"),
    "Symbol": "..tensors.symbol", "_Function": "._grad_function",
    **dict.fromkeys(("enable_dynamic", "jit"), "..compiled.jit"), "recompute": "..nn.recompute",
    **dict.fromkeys(
        ("JitConfig", "from_numpy", "get_py_obj_dtype", "get_rng_state", "initial_seed",
         "is_tensor", "jit_class", "lazy_inline", "mutable", "no_inline", "set_rng_state",
         "tensor"), "..compat"),
    "set_recursion_limit": "..context",
    **dict.fromkeys(("COOTensor", "CSRTensor", "RowTensor", "SparseTensor"),
                    "..ops.sparse_tensors"),
}
"""Names by the module that has them, which loads when they are asked for."""


if TYPE_CHECKING:
    from ..compat import JitConfig as JitConfig
    from ..compat import from_numpy as from_numpy
    from ..compat import get_py_obj_dtype as get_py_obj_dtype
    from ..compat import get_rng_state as get_rng_state
    from ..compat import initial_seed as initial_seed
    from ..compat import is_tensor as is_tensor
    from ..compat import jit_class as jit_class
    from ..compat import lazy_inline as lazy_inline
    from ..compat import mutable as mutable
    from ..compat import no_inline as no_inline
    from ..compat import set_rng_state as set_rng_state
    from ..compat import tensor as tensor
    from ..compiled.jit import enable_dynamic as enable_dynamic
    from ..compiled.jit import jit as jit
    from ..context import set_recursion_limit as set_recursion_limit
    from ..nn.recompute import recompute as recompute
    from ..ops.sparse_tensors import COOTensor as COOTensor
    from ..ops.sparse_tensors import CSRTensor as CSRTensor
    from ..ops.sparse_tensors import RowTensor as RowTensor
    from ..ops.sparse_tensors import SparseTensor as SparseTensor
    from ..tensors.dtype import *  # noqa: F403
    from ..tensors.seed import Generator as Generator
    from ..tensors.seed import default_generator as default_generator
    from ..tensors.seed import manual_seed as manual_seed
    from ..tensors.seed import seed as seed
    from ..tensors.symbol import Symbol as Symbol
    from . import api as api
    from . import dtype as dtype
    from . import initializer as initializer
    from ._grad_function import _Function as _Function
else:
    def __getattr__(name: str) -> Any:
        """Dtypes, names of `_HOMES`, and modules that load when they are asked for."""
        if name in ("api", "dtype", "initializer", "sparse_tensor"):
            return imported("." + name, __name__)
        home = _HOMES.get(name)
        if home is not None:
            return getattr(imported(home, __name__), name)
        if name in _dtype.__all__:
            return getattr(_dtype, name)
        raise no_attribute(__name__, name)


_own = public_names(__name__)


def __dir__() -> list[str]:
    return sorted({*_own(), *_HOMES, "dtype", *_dtype.__all__})
