"""Normalisation layers of `mint.nn`.

Source: the layers of the same names in `mindspore.mint.nn`.
"""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import DType, float32, int64

from .... import ops
from ....core.declared import Flag, Number, Positive, misuse
from ....nn.cell import Cell
from ....nn.layer.base import Family, parameter, shown
from ....tensors.parameter import Parameter
from ....tensors.tensor import Tensor
from .. import functional


class _BatchNorm(Family):
    """Normalised for each channel (axis 1) over the batch.

    Args:
        num_features: channels.
        eps: added to the variance.
        momentum: the share of a batch in the running statistics; None for the mean of all batches.
        affine: whether there are a weight (ones at first) and a bias (zeros).
        track_running_stats: keep running statistics, which are used when not training; else
            those of the batch are used always.
        dtype: element type of the parameters; float32 if None.
    """

    ranks: tuple[int, ...] = ()  # Numbers of axes an input may have; empty: two or more

    def __init__(
        self, num_features: Positive, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self.dtype = float32 if dtype is None else dtype
        self.weight: Parameter | None = None
        self.bias: Parameter | None = None
        self.running_mean: Parameter | None = None
        self.running_var: Parameter | None = None
        self.num_batches_tracked: Any = None
        shape = (self.num_features,)
        if affine:
            self.weight = parameter("ones", shape, self.dtype, "weight")
            self.bias = parameter("zeros", shape, self.dtype, "bias")
        if track_running_stats:
            self.running_mean = parameter("zeros", shape, self.dtype, "running_mean", False)
            self.running_var = parameter("ones", shape, self.dtype, "running_var", False)
            self.num_batches_tracked = Parameter(
                Tensor(0, int64), name="num_batches_tracked", requires_grad=False)

    def construct(self, input: Tensor) -> Any:
        """The same shape; while training the running statistics are updated."""
        if len(self.ranks) > 0 and input.ndim not in self.ranks:
            allowed = " or ".join([f"{r}D" for r in self.ranks])
            raise misuse(self.cls_name, f"the input must be {allowed}", f"{input.ndim}D")
        momentum: Any = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats:
            count = self.num_batches_tracked + 1
            ops.assign(self.num_batches_tracked, count)
            if self.momentum is None:
                momentum = 1.0 / ops.cast(count, float32)
        by_batch = self.training or not self.track_running_stats
        return functional.batch_norm(input, self.running_mean, self.running_var, self.weight,
                                     self.bias, by_batch, momentum, self.eps)

    def extend_repr(self) -> str:
        """The options."""
        return shown(self, "num_features eps momentum affine track_running_stats")


class BatchNorm1d(_BatchNorm, ranks=(2, 3)):
    """Batch normalisation of (N, C) or (N, C, L)."""


class BatchNorm2d(_BatchNorm, ranks=(4,)):
    """Batch normalisation of (N, C, H, W)."""


class BatchNorm3d(_BatchNorm, ranks=(5,)):
    """Batch normalisation of (N, C, D, H, W)."""


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over all processes, of which there is one. `mint.nn.SyncBatchNorm`.

    Args:
        num_features, eps, momentum, affine, track_running_stats, dtype: as in `BatchNorm2d`.
        process_group: the group whose batches count; the world if None.
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True,
        process_group: str | None = None, dtype: DType | None = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, dtype)
        self.process_group = "hccl_world_group" if process_group is None else process_group
        self.world_size = 1


class GroupNorm(Cell):
    """Normalised over groups of channels of each sample.

    Args:
        num_groups, num_channels: groups and channels (axis 1); the latter a multiple.
        eps: added to the variance.
        affine: whether weight (ones at first) and bias (zeros) are trained.
        dtype: element type of the parameters; float32 if None.
    """

    def __init__(
        self, num_groups: Positive, num_channels: Positive, eps: Number = 1e-5, affine: Flag = True,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.num_groups = num_groups
        self.num_channels = num_channels
        if num_channels % num_groups:
            raise misuse("GroupNorm", "the 'num_channels' must be divided by 'num_groups'",
                         f"'num_channels': {num_channels}, 'num_groups': {num_groups}")
        self.eps = eps
        self.affine = affine
        ty = float32 if dtype is None else dtype
        self.weight = parameter("ones", (num_channels,), ty, "weight", affine)
        self.bias = parameter("zeros", (num_channels,), ty, "bias", affine)

    def construct(self, input: Tensor) -> Any:
        """The same shape."""
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extend_repr(self) -> str:
        """The options."""
        return shown(self, "num_groups num_channels eps affine")
