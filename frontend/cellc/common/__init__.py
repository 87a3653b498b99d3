"""Tensors, parameters, dtypes, initialisers and seeds, under MindSpore's import paths."""

from __future__ import annotations

from cellc_runtime.lazy import facade

from .. import ops as _ops  # noqa: F401  (whoever has a Tensor has its methods, and an engine)
from ..tensors import dtype as _dtype

_HOMES = {
    ".": "| api dtype initializer", ".sparse_tensor": "",
    "..tensors.dtype": " ".join(["|", *_dtype.__all__]),
    "..tensors.parameter": "Parameter ParameterTuple",
    "..tensors.seed": "get_seed set_seed | Generator default_generator manual_seed seed",
    "..tensors.symbol": "| Symbol",
    "..tensors.tensor": "Tensor",
    "..compat":
        "| JitConfig from_numpy get_py_obj_dtype get_rng_state initial_seed is_tensor jit_class "
        "lazy_inline mutable no_inline set_rng_state tensor",
    "..compiled.jit": "| enable_dynamic jit",
    "..context": "| set_recursion_limit",
    "..nn.recompute": "| recompute",
    "..ops.sparse_tensors": "| COOTensor CSRTensor RowTensor SparseTensor",
    "._grad_function": "| _Function",
}
facade(__name__, _HOMES)
