"""Made by `docs/make_stubs.py`; do not edit it by hand."""
from . import api as api, dtype as dtype, initializer as initializer
from ..compat import JitConfig as JitConfig, from_numpy as from_numpy, get_py_obj_dtype as get_py_obj_dtype, get_rng_state as get_rng_state, initial_seed as initial_seed, is_tensor as is_tensor, jit_class as jit_class, lazy_inline as lazy_inline, mutable as mutable, no_inline as no_inline, set_rng_state as set_rng_state, tensor as tensor
from ..compiled.jit import enable_dynamic as enable_dynamic, jit as jit
from ..context import set_recursion_limit as set_recursion_limit
from ..nn.recompute import recompute as recompute
from ..ops.sparse_tensors import COOTensor as COOTensor, CSRTensor as CSRTensor, RowTensor as RowTensor, SparseTensor as SparseTensor
from ..tensors.dtype import Int as Int, QuantDtype as QuantDtype, TensorType as TensorType, Type as Type, bfloat16 as bfloat16, bool as bool, bool_ as bool_, byte as byte, cdouble as cdouble, cfloat as cfloat, complex128 as complex128, complex64 as complex64, double as double, dtype_to_nptype as dtype_to_nptype, dtype_to_pytype as dtype_to_pytype, float as float, float16 as float16, float32 as float32, float64 as float64, float8_e4m3fn as float8_e4m3fn, float8_e5m2 as float8_e5m2, float_ as float_, half as half, hifloat8 as hifloat8, int as int, int16 as int16, int32 as int32, int64 as int64, int8 as int8, int_ as int_, intc as intc, intp as intp, list_ as list_, long as long, number as number, pytype_to_dtype as pytype_to_dtype, qint4x2 as qint4x2, short as short, single as single, string as string, tensor_type as tensor_type, tuple_ as tuple_, type_none as type_none, ubyte as ubyte, uint as uint, uint16 as uint16, uint32 as uint32, uint64 as uint64, uint8 as uint8, uintc as uintc, uintp as uintp, ushort as ushort
from ..tensors.parameter import Parameter, ParameterTuple
from ..tensors.seed import get_seed, set_seed, Generator as Generator, default_generator as default_generator, manual_seed as manual_seed, seed as seed
from ..tensors.symbol import Symbol as Symbol
from ..tensors.tensor import Tensor
from ._grad_function import _Function as _Function
__all__ = ['Parameter', 'ParameterTuple', 'Tensor', 'get_seed', 'set_seed']
