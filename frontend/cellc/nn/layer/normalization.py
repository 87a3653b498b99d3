"""Normalisation layers. Source: the same names in `mindspore.nn`."""

from __future__ import annotations

from typing import Annotated, Any

from cellc_runtime.dtypes import DType, float32
from cellc_runtime.lazy import lazy_imports

from ... import ops
from ...core.declared import (
    Flag,
    Float,
    PlainNumber,
    Positive,
    Share,
    is_int,
    misuse,
    number,
    one_of,
)
from ...ops.arguments import ranked
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from ..cell import Cell
from .base import Family, parameter, shown

with lazy_imports(__name__):  # one process needs none
    from ...ops.functional import collectives


FloatShare = Annotated[float, number(0, 1, whole=False)]
FlagOrNone = Annotated[bool | None, one_of(None, True, False)]


class _ByChannel(Family):
    """The common part of batch and instance normalisation: four parameters (C), printed form."""

    def _make(
        self, num_features: int, eps: float, momentum: float, affine: bool, gamma_init: Any,
        beta_init: Any, mean_init: Any, variance_init: Any, dtype: DType,
    ) -> None:
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        shape = (num_features,)
        self.moving_mean = parameter(mean_init, shape, dtype, "mean", False)
        self.moving_variance = parameter(variance_init, shape, dtype, "variance", False)
        self.gamma = parameter(gamma_init, shape, dtype, "gamma", affine)
        self.beta = parameter(beta_init, shape, dtype, "beta", affine)

    def extend_repr(self) -> str:
        """Options and parameters."""
        return shown(self, "num_features eps momentum gamma beta moving_mean moving_variance")


class _BatchNorm(_ByChannel):
    """Normalised for each channel (axis 1) over the batch.

    Args:
        num_features: channels.
        eps: added to the variance.
        momentum: how much of the moving averages stays at each step of training.
        affine: whether gamma and beta are trained.
        gamma_init, beta_init, moving_mean_init, moving_var_init: initial values.
        use_batch_statistics: statistics of the batch (True), the moving averages (False), or the
            batch's while training (None).
        data_format: `"NCHW"`.
        dtype: element type of the parameters.
    """

    ranks: tuple[int, ...] = ()  # Numbers of axes an input may have; empty: any

    def __init__(
        self, num_features: Positive, eps: PlainNumber = 1e-5, momentum: Share = 0.9,
        affine: Flag = True, gamma_init: Any = "ones", beta_init: Any = "zeros",
        moving_mean_init: Any = "zeros", moving_var_init: Any = "ones",
        use_batch_statistics: FlagOrNone = None,
        data_format: Annotated[str, one_of("NCHW")] = "NCHW", dtype: DType = float32,
    ) -> None:
        super().__init__()
        self._make(num_features, eps, momentum, affine, gamma_init, beta_init, moving_mean_init,
                   moving_var_init, dtype)
        self.momentum = 1.0 - self.momentum  # of the batch's statistics, as MindSpore keeps it
        self.use_batch_statistics = use_batch_statistics

    def extend_repr(self) -> str:
        """Options and parameters, the momentum as it was given."""
        kept = f"momentum={self.momentum}"
        return super().extend_repr().replace(kept, f"momentum={1.0 - self.momentum}", 1)

    def construct(self, x: Tensor) -> Tensor:
        """The same shape; while training the moving averages are updated."""
        if len(self.ranks) > 0 and x.ndim not in self.ranks:
            ranks = " or ".join(map(str, self.ranks))
            raise misuse(self.cls_name, f"the in_shape must have {ranks} dims", x.ndim)
        by_batch = self.use_batch_statistics
        if by_batch is None:
            by_batch = self.training
        return ops.batch_norm(x, self.moving_mean, self.moving_variance, self.gamma, self.beta,
                              by_batch, self.momentum, self.eps)


class BatchNorm1d(_BatchNorm, ranks=(2, 3)):
    """(x - mean) / sqrt(var + eps) * gamma + beta for each channel of (N, C) or (N, C, L). Training
    takes mean and variance from the batch and moves the averages; else the averages are used. The
    result has the shape of x."""


class BatchNorm2d(_BatchNorm, ranks=(4,)):
    """(x - mean) / sqrt(var + eps) * gamma + beta for each channel of (N, C, H, W). Training takes
    mean and variance from the batch and moves the averages; else the averages are used. The result
    has the shape of x."""


class BatchNorm3d(Cell):
    """Batch normalisation of (N, C, D, H, W).

    Args:
        As in `BatchNorm2d`, which does it on images of D * H rows.
    """

    def __init__(
        self, num_features: Positive, eps: PlainNumber = 1e-5, momentum: Share = 0.9,
        affine: Flag = True, gamma_init: Any = "ones", beta_init: Any = "zeros",
        moving_mean_init: Any = "zeros", moving_var_init: Any = "ones",
        use_batch_statistics: FlagOrNone = None, dtype: DType = float32,
    ) -> None:
        super().__init__()
        self.bn2d = BatchNorm2d(
            num_features, eps, momentum, affine, gamma_init, beta_init, moving_mean_init,
            moving_var_init, use_batch_statistics, dtype=dtype)

    def construct(self, x: Tensor) -> Tensor:
        """The same shape."""
        if x.ndim != 5:
            raise misuse("BatchNorm3d", "the in_shape must have 5 dims", x.ndim)
        n, c, d, h, w = x.shape
        return ops.reshape(self.bn2d(ops.reshape(x, (n, c, d * h, w))), x.shape)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over the batches of several processes together.

    Args:
        process_groups: lists of ranks, each of which normalise together; None: all processes do.
        The others are those of `BatchNorm2d`.
    """

    def __init__(
        self, num_features: Positive, eps: PlainNumber = 1e-5, momentum: Share = 0.9,
        affine: Flag = True, gamma_init: Any = "ones", beta_init: Any = "zeros",
        moving_mean_init: Any = "zeros", moving_var_init: Any = "ones",
        use_batch_statistics: FlagOrNone = None, process_groups: Any = None, dtype: DType = float32,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, gamma_init, beta_init,
                         moving_mean_init, moving_var_init, use_batch_statistics, dtype=dtype)
        self._ranks = collectives.own_ranks(process_groups, self.cls_name)

    def construct(self, x: Tensor) -> Tensor:
        """The same shape; while training the moving averages are updated."""
        by_batch = self.training if self.use_batch_statistics is None else self.use_batch_statistics
        if not by_batch or len(self._ranks) == 1:
            return super().construct(x)
        axes = (0, *range(2, x.ndim))
        shape = (1, -1) + (1,) * (x.ndim - 2)
        wide = x.astype(float32)
        count = len(self._ranks) * (x.size // x.shape[1])
        mean = collectives.all_reduce_ranks(wide.sum(axes), self._ranks) / count
        off = wide - mean.reshape(shape)
        var = collectives.all_reduce_ranks((off * off).sum(axes), self._ranks) / count
        share = self.momentum
        for kept, batch in ((self.moving_mean, mean),
                            (self.moving_variance, var * (count / max(count - 1, 1)))):
            ops.assign(kept, (kept * (1.0 - share) + batch * share).astype(kept.dtype))
        y = off * ops.rsqrt(var + self.eps).reshape(shape) * self.gamma.reshape(shape) \
            + self.beta.reshape(shape)
        return y.astype(x.dtype)


class _InstanceNorm(_ByChannel):
    """Normalised for each channel of each sample.

    Args:
        num_features: channels.
        eps: added to the variance.
        momentum: how much of a batch's mean statistics enters the moving averages at each step
            of training (they are kept, and used by nothing).
        affine: whether gamma and beta are trained.
        gamma_init, beta_init: initial values.
        dtype: element type of the parameters.
    """

    rank = 0

    def __init__(
        self, num_features: Positive, eps: Float = 1e-5, momentum: FloatShare = 0.1,
        affine: Flag = True, gamma_init: Any = "ones", beta_init: Any = "zeros",
        dtype: DType = float32,
    ) -> None:
        super().__init__()
        self._make(num_features, eps, momentum, affine, gamma_init, beta_init, "zeros", "ones",
                   dtype)

    def construct(self, x: Tensor) -> Tensor:
        """The same shape."""
        if x.ndim != self.rank:
            raise misuse(self.cls_name, f"the in_shape must have {self.rank} dims", x.ndim)
        if self.training:
            axes = tuple(range(2, x.ndim))
            var, mean = ops.var_mean(ops.stop_gradient(x), axes, 1)
            keep = 1.0 - self.momentum
            ops.assign(self.moving_mean,
                       self.moving_mean * keep + ops.mean(mean, 0) * self.momentum)
            ops.assign(self.moving_variance,
                       self.moving_variance * keep + ops.mean(var, 0) * self.momentum)
        return ops.group_norm(x, self.num_features, self.gamma, self.beta, self.eps)


class InstanceNorm1d(_InstanceNorm, rank=3):
    """(x - mean) / sqrt(var + eps) * gamma + beta for each example and channel of (N, C, L), in
    training and afterwards. The result has the shape of x."""


class InstanceNorm2d(_InstanceNorm, rank=4):
    """(x - mean) / sqrt(var + eps) * gamma + beta for each example and channel of (N, C, H, W), in
    training and afterwards. The result has the shape of x."""


class InstanceNorm3d(_InstanceNorm, rank=5):
    """Each channel of each sample of (N, C, D, H, W) normalized by its own mean and variance:
    (x - mean) / sqrt(var + eps) * gamma + beta."""


class LayerNorm(Cell):
    """Normalised over the last axes of each sample.

    Args:
        normalized_shape: shape of gamma and beta.
        begin_norm_axis: the first axis normalised over.
        begin_params_axis: the first axis of gamma and beta.
        gamma_init, beta_init: initial values.
        epsilon: added to the variance.
        dtype: element type of the parameters.
    """

    def __init__(
        self, normalized_shape: Any, begin_norm_axis: int = -1, begin_params_axis: int = -1,
        gamma_init: Any = "ones", beta_init: Any = "zeros", epsilon: float = 1e-7,
        dtype: DType = float32,
    ) -> None:
        super().__init__()
        if not isinstance(normalized_shape, (tuple, list)):
            raise misuse("LayerNorm",
                         "the type of 'normalized_shape' must be tuple[int] or list[int]",
                         f"{normalized_shape} and the type is {type(normalized_shape)}", TypeError)
        self.normalized_shape = normalized_shape
        self.begin_norm_axis = begin_norm_axis
        self.begin_params_axis = begin_params_axis
        self.epsilon = epsilon
        self.gamma = parameter(gamma_init, tuple(normalized_shape), dtype, "gamma")
        self.beta = parameter(beta_init, tuple(normalized_shape), dtype, "beta")

    def construct(self, input_x: Tensor) -> Tensor:
        """The same shape."""
        ranked(input_x, 1, None, "LayerNorm", "input_x")
        first = self.begin_norm_axis % input_x.ndim
        own = self.gamma.shape
        if input_x.shape[first:] == own:
            return ops.layer_norm(input_x, own, self.gamma, self.beta, self.epsilon)
        where = self.begin_params_axis % input_x.ndim
        if input_x.shape[where : where + len(own)] != own:
            raise misuse("LayerNorm", "gamma or beta shape must match input shape",
                         f"input shape: {input_x.shape}, gamma shape: {own}")
        after = (1,) * (input_x.ndim - where - len(own))
        normal = ops.layer_norm(input_x, input_x.shape[first:], None, None, self.epsilon)
        shape = own + after
        return normal * ops.reshape(self.gamma, shape) + ops.reshape(self.beta, shape)

    def extend_repr(self) -> str:
        """Options and parameters, in MindSpore's words."""
        return (
            f"normalized_shape={self.normalized_shape}, begin_norm_axis={self.begin_norm_axis}, "
            f"begin_params_axis={self.begin_params_axis}, gamma{self.gamma}, beta={self.beta}"
        )


class LayerNormExt(Cell):
    """Normalised over the last axes.

    Args:
        normalized_shape: the shape of the last axes.
        eps: added to the variance.
        elementwise_affine: whether there is a weight (ones at first) and, with `bias`, a bias.
        dtype: element type of the parameters; float32 if None.
    """

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True,
        bias: bool = True, dtype: DType | None = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if is_int(normalized_shape) else normalized_shape
        if not isinstance(shape, (tuple, list)):
            raise misuse("LayerNormExt",
                         "the 'normalized_shape' must be an int, tuple or list of int",
                         repr(normalized_shape), TypeError)
        self.normalized_shape = tuple(shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.weight: Parameter | None = None
        self.bias: Parameter | None = None
        if elementwise_affine:
            ty = dtype or float32
            self.weight = parameter("ones", self.normalized_shape, ty, "weight")
            if bias:
                self.bias = parameter("zeros", self.normalized_shape, ty, "bias")

    def construct(self, input: Tensor) -> Tensor:
        """The same shape."""
        return ops.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extend_repr(self) -> str:
        """The options."""
        return shown(self, "normalized_shape eps elementwise_affine")


class GroupNorm(Cell):
    """Normalised over groups of channels of each sample.

    Args:
        num_groups, num_channels: groups and channels (axis 1); the latter a multiple.
        eps: added to the variance.
        affine: whether gamma and beta are trained.
        gamma_init, beta_init: initial values.
        dtype: element type of the parameters.
    """

    def __init__(
        self, num_groups: Positive, num_channels: Positive, eps: Float = 1e-5, affine: Flag = True,
        gamma_init: Any = "ones", beta_init: Any = "zeros", dtype: DType = float32,
    ) -> None:
        super().__init__()
        self.num_groups = num_groups
        self.num_channels = num_channels
        if num_channels % num_groups:
            raise misuse("GroupNorm", "the 'num_channels' must be divided by 'num_groups'",
                         f"'num_channels': {num_channels}, 'num_groups': {num_groups}")
        self.eps = eps
        self.affine = affine
        shape = (self.num_channels,)
        self.gamma = parameter(gamma_init, shape, dtype, "gamma", affine)
        self.beta = parameter(beta_init, shape, dtype, "beta", affine)

    def construct(self, x: Tensor) -> Tensor:
        """The same shape."""
        return ops.group_norm(x, self.num_groups, self.gamma, self.beta, self.eps)

    def extend_repr(self) -> str:
        """Groups and channels."""
        return shown(self, "num_groups num_channels")
