"""Names that scripts take from MindSpore's module `train.serialization` besides its public ones."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from cellc_runtime.dtypes import from_numpy

from .. import checking, context
from ..ranks.settings import ParallelMode
from ..tensors import dtype as mstype
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor
from .distributed_checkpoints import (
    build_searched_strategy,
    load_distributed_checkpoint,
    merge_sliced_parameter,
    restore_group_info_list,
)
from .export import export, load
from .serialization import _fitted, _no_encryption
from .weights_file import read, write

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


def _parse_ckpt_proto(
    ckpt_file_name: str, dec_key: bytes | None, dec_mode: str, crc_check: bool
) -> Any:
    """The entries of a checkpoint: `value` lists them, each with its `tag` and `tensor`, of which
    `tensor_content` holds the bytes."""
    _no_encryption("_parse_ckpt_proto", "dec", dec_key, dec_mode)
    return SimpleNamespace(value=[
        SimpleNamespace(tag=name, tensor=_message(value))
        for name, value in read(ckpt_file_name, "ckpt", crc_check).items()])


def _message(value: Any) -> Any:
    """An entry as MindSpore's checkpoints have it; texts are in UCS4."""
    text = isinstance(value, str)
    array = np.array(value)
    return SimpleNamespace(
        dims=[0] if text else [*array.shape], tensor_content=array.tobytes(),
        tensor_type="str" if text else str(from_numpy(array.dtype)))


def _exec_save(
    ckpt_file_name: str, data_list: Mapping[str, Any], enc_key: bytes | None = None,
    enc_mode: str = "AES-GCM", map_param_inc: bool = False, crc_check: bool = False,
    format: str = "ckpt", remove_redundancy: bool | None = None,
) -> None:
    """Write a checkpoint of entries `name: [shape, type's name, elements]`."""
    _no_encryption("_exec_save", "enc", enc_key, enc_mode)
    if map_param_inc:
        raise ValueError("For '_exec_save', 'map_param_inc' must be False: there are no "
                         "MapParameters.")
    write(ckpt_file_name, {name: _elements(*entry) for name, entry in data_list.items()}, format,
          crc_check)


def _elements(dims: Any, kind: str, data: Any) -> Any:
    if kind == "str":
        return str(data)
    given = data.asnumpy() if isinstance(data, Tensor) else data
    return np.asarray(given, tensor_to_np_type(kind)).reshape(dims)


class Checkpoint:
    """Not here: `load_checkpoint` gives the tensors of a file by name."""

    def __init__(self) -> None:
        raise RuntimeError("The messages of checkpoint files are no part of cellc: load_checkpoint "
                           "gives the tensors of a file by name, save_checkpoint writes them.")


NAMES = {
    "Checkpoint": Checkpoint, "ParallelMode": ParallelMode, "Validator": checking,
    "_exec_save": _exec_save, "_parse_ckpt_proto": _parse_ckpt_proto,
    "_update_param": _update_param, "build_searched_strategy": build_searched_strategy,
    "context": context, "export": export, "load": load,
    "load_distributed_checkpoint": load_distributed_checkpoint,
    "merge_sliced_parameter": merge_sliced_parameter, "mstype": mstype,
    "restore_group_info_list": restore_group_info_list, "tensor_to_ms_type": tensor_to_ms_type,
    "tensor_to_np_type": tensor_to_np_type,
}
