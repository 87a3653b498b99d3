"""Sparse tensors under MindSpore's import path.

Source: `mindspore.common.sparse_tensor`.
"""

from ..ops.sparse_tensors import COOTensor, CSRTensor, RowTensor, RowTensorInner, SparseTensor

__all__ = ["COOTensor", "CSRTensor", "RowTensor", "RowTensorInner", "SparseTensor"]
