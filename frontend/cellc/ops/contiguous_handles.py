"""Tensors laid end to end: `mindspore.hal.contiguous_tensors_handle`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tensors.tensor import Tensor
from .functional import joining, shapes


class ContiguousTensorsHandle:
    """The elements of several Tensors of one type, as they are when they are read.

    Args:
        tensor_list: the Tensors.
        enable_mem_align: accepted for compatibility: no padding lies between them.

    Raises:
        TypeError: an argument has a wrong type.

    Examples:
        >>> handle = ContiguousTensorsHandle([ms.Tensor([1.0, 2.0]), ms.Tensor([3.0])])
        >>> handle[1:3]
        Tensor(shape=[2], dtype=Float32, value= [ 2.00000000e+00,  3.00000000e+00])
        >>> handle.slice_by_tensor_index(1)
        Tensor(shape=[1], dtype=Float32, value= [ 3.00000000e+00])
    """

    def __init__(self, tensor_list: Sequence[Tensor], enable_mem_align: bool = True) -> None:
        if not isinstance(tensor_list, (list, tuple)) or not tensor_list or not all(
                isinstance(t, Tensor) for t in tensor_list):
            raise TypeError("input list must be [Tensor, ...].")
        if not isinstance(enable_mem_align, bool):
            raise TypeError("enable_mem_align must be bool.")
        self.tensor_list = tuple(tensor_list)
        self.enable_mem_align = enable_mem_align
        self.before_padding_sizes = [t.nbytes for t in tensor_list]
        self.after_padding_sizes = list(self.before_padding_sizes)
        self.total_padding_size = sum(self.after_padding_sizes)
        self.handle_shape = self.total_padding_size / tensor_list[0].itemsize

    def _slice(self, tensors: Sequence[Tensor], start: int, end: int) -> Tensor:
        return joining.cat([shapes.reshape(t, (-1,)) for t in tensors])[start:end]

    def __getitem__(self, item: int | slice) -> Tensor:
        if isinstance(item, slice):
            start, end = _bounds(item.start, item.stop, int(self.handle_shape))
            return self._slice(self.tensor_list, start, end)
        if not isinstance(item, int):
            raise TypeError(
                "slice input must be 1.index -> int.2.[start: end: step] -> [int: int: int].")
        if not 0 <= item < self.handle_shape:
            raise ValueError("slice input is out of tensor_list size.")
        return self._slice(self.tensor_list, item, item + 1)

    def __str__(self) -> str:
        lines = [f"Tensor[{i}]: {t.asnumpy()}\n" for i, t in enumerate(self.tensor_list)]
        return f"Handle total size: {self.total_padding_size}\n{''.join(lines)}"

    def slice_by_tensor_index(self, start: int | None = None, end: int | None = None) -> Tensor:
        """The elements of the Tensors from `start` to `end`; without `end`, those of one."""
        if start is not None and end is None and isinstance(start, int):
            end = start + 1
        start, end = _bounds(start, end, len(self.tensor_list))
        tensors = self.tensor_list[start:end]
        return self._slice(tensors, 0, sum(t.size for t in tensors))


def _bounds(start: Any, end: Any, count: int) -> tuple[int, int]:
    """The first position and the one after the last of a slice of `count` items."""
    first, last = 0 if start is None else start, count if end is None else end
    if not isinstance(first, int) or not isinstance(last, int):
        raise TypeError("slice input error.")
    if not 0 <= first < last <= count:
        raise ValueError("slice input error.")
    return first, last


def combine_tensor_list_contiguous(
    tensor_list: Sequence[Tensor], enable_mem_align: bool = True
) -> ContiguousTensorsHandle:
    """The handle of Tensors laid end to end."""
    return ContiguousTensorsHandle(tensor_list, enable_mem_align)


__all__ = ["ContiguousTensorsHandle", "combine_tensor_list_contiguous"]
