"""Element types under MindSpore's import path, `common.dtype`."""

from __future__ import annotations

from cellc_runtime.lazy import public_names

from ..compat import get_py_obj_dtype as get_py_obj_dtype
from ..tensors.dtype import *  # noqa: F403
from ..tensors.dtype import __all__ as __all__
from ..tensors.dtype import all_types as all_types
from ..tensors.dtype import float_type as float_type
from ..tensors.dtype import int_type as int_type
from ..tensors.dtype import number_type as number_type
from ..tensors.dtype import uint_type as uint_type

__dir__ = public_names(__name__)
