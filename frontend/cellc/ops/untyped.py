"""The memory of a tensor as bytes. Source: `mindspore.UntypedStorage`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cellc_runtime.dtypes import DType, uint8

from ..core.declared import misuse
from ..core.native import names_itself
from ..storage import storage_of
from ..tensors.tensor import Tensor, tensor_of
from .arguments import integer, not_negative, shape_of
from .methods.overloaded import assign_value


@names_itself
class UntypedStorage:
    """The bytes of a tensor's elements, as `Tensor.untyped_storage` gives them.

    Attributes:
        dtype: uint8.
        tensor: the tensor.
    """

    dtype: DType = uint8

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    @property
    def device(self) -> str:
        """Where the bytes are."""
        return str(self.tensor.device)

    def size(self) -> int:
        """The number of bytes."""
        return int(self.tensor.nbytes)

    def nbytes(self) -> int:
        """The number of bytes."""
        return self.size()

    def element_size(self) -> int:
        """Bytes of an element: 1."""
        return 1

    def data_ptr(self) -> int:
        """Where the bytes are; from now on they stay there."""
        return storage_of(self.tensor).pin(self.tensor)

    def is_shared(self) -> bool:
        """Whether other processes share the bytes: no."""
        return False

    def copy_(self, src: UntypedStorage, non_blocking: bool = False) -> UntypedStorage:
        """Take the bytes of another storage of the same size; itself."""
        if not isinstance(src, UntypedStorage):
            raise TypeError(f"'src' must be an UntypedStorage, but got {type(src).__name__}.")
        if src.size() != self.size():
            raise ValueError(f"'src' must have {self.size()} bytes, but has {src.size()}.")
        tensor = self.tensor
        taken = src.tensor.asnumpy().reshape(-1).view(np.uint8)
        assign_value(tensor, tensor_of(taken.view(tensor.dtype.numpy).reshape(tensor.shape).copy()))
        return self

    def resize_(self, size: int) -> UntypedStorage:
        """Itself, if it has that many bytes: the elements of a tensor have one size here.

        Raises:
            RuntimeError: another size.
        """
        if size != self.size():
            raise RuntimeError(f"the storage of a tensor of {self.size()} bytes keeps its size; "
                               f"for {size} bytes make another tensor")
        return self


def take(tensor: Tensor, source: Any, offset: int, size: Any, stride: Any) -> Tensor:
    """Give a tensor elements of another; see `Tensor.set_`."""
    if source is None:
        array = np.zeros((0,), tensor.dtype.numpy)
    elif not isinstance(source, Tensor):
        raise misuse("set_", "'source' must be a Tensor", type(source).__name__, TypeError)
    else:
        array = _elements(source, offset, size, stride)
    return assign_value(tensor, tensor_of(array))


def _elements(source: Tensor, offset: int, size: Any, stride: Any) -> np.ndarray[Any, Any]:
    flat = source.asnumpy().reshape(-1)
    if size is None:
        return flat.reshape(source.shape).copy()
    shape, offset = shape_of(size, "set_", "size"), integer(offset, "set_", "offset")
    steps = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape))) \
        if stride is None else not_negative(stride, len(shape), "set_", "stride")
    last = offset + sum((n - 1) * s for n, s in zip(shape, steps, strict=True))
    if offset < 0 or (min(shape, default=1) > 0 and not 0 <= last < flat.size):
        raise misuse("set_", f"size {shape} and stride {steps} from element {offset} leave the "
                     f"{flat.size} elements of 'source'")
    bytes_ = tuple(s * flat.itemsize for s in steps)
    return np.lib.stride_tricks.as_strided(flat[offset:], shape, bytes_).copy()
