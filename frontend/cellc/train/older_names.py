"""Names that scripts take from MindSpore's module `train.serialization` beside its public ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checking, context
from ..ranks.settings import ParallelMode
from ..tensors import dtype as mstype
from ..tensors.parameter import Parameter
from .distributed_checkpoints import (
    build_searched_strategy,
    load_distributed_checkpoint,
    merge_sliced_parameter,
    restore_group_info_list,
)
from .export import export, load
from .serialization import _fitted

tensor_to_ms_type = {
    "BFloat16": mstype.bfloat16, "Bool": mstype.bool_, "Float16": mstype.float16,
    "Float32": mstype.float32, "Float64": mstype.float64, "Int16": mstype.int16,
    "Int32": mstype.int32, "Int64": mstype.int64, "Int8": mstype.int8, "UInt16": mstype.uint16,
    "UInt32": mstype.uint32, "UInt64": mstype.uint64, "UInt8": mstype.uint8,
    "str": mstype.string,
}
"""Element types by the names that checkpoints have for them."""


def tensor_to_np_type(tensor_type_str: str) -> Any:
    """numpy's type of the name that checkpoints have for an element type."""
    return np.str_ if tensor_type_str == "str" else \
        mstype.dtype_to_nptype(tensor_to_ms_type[tensor_type_str])


def _update_param(param: Parameter, new_param: Parameter, strict_load: bool) -> None:
    """Give a Parameter the elements of another, as `load_param_into_net` does."""
    param.set_data(_fitted(param.name, param, new_param, strict_load))


class Checkpoint:
    """Not here: `load_checkpoint` gives the tensors of a file by name."""

    def __init__(self) -> None:
        raise RuntimeError("The messages of checkpoint files are no part of cellc: load_checkpoint "
                           "gives the tensors of a file by name, save_checkpoint writes them.")


NAMES = {
    "Checkpoint": Checkpoint, "ParallelMode": ParallelMode, "Validator": checking,
    "_update_param": _update_param, "build_searched_strategy": build_searched_strategy,
    "context": context, "export": export, "load": load,
    "load_distributed_checkpoint": load_distributed_checkpoint,
    "merge_sliced_parameter": merge_sliced_parameter, "mstype": mstype,
    "restore_group_info_list": restore_group_info_list, "tensor_to_ms_type": tensor_to_ms_type,
    "tensor_to_np_type": tensor_to_np_type,
}
