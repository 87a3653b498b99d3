"""`mint.nn`: layers and losses with PyTorch's names and parameters; `functional`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellc_runtime.lazy import names_of, public_names

from ...nn.layer.activation import HShrink as Hardshrink
from ...nn.layer.activation import HSigmoid as Hardsigmoid
from ...nn.layer.activation import HSwish as Hardswish
from ...nn.layer.activation import LogSoftmaxExt as LogSoftmax
from ...nn.layer.activation import PReLUExt as PReLU
from ...nn.layer.activation import ReLU
from ...nn.layer.activation import SoftShrink as Softshrink
from ...nn.layer.basic import DropoutExt as Dropout
from ...nn.layer.basic import Identity, Linear
from ...nn.layer.ext import AvgPool1dExt as AvgPool1d
from ...nn.layer.ext import AvgPool2dExt as AvgPool2d
from ...nn.layer.ext import AvgPool3dExt as AvgPool3d
from ...nn.layer.ext import Dropout2dExt as Dropout2d
from ...nn.layer.ext import EmbeddingExt as Embedding
from ...nn.layer.ext import MaxPool2dExt as MaxPool2d
from ...nn.layer.ext import SoftmaxExt as Softmax
from ...nn.layer.ext import UnfoldExt as Unfold
from ...nn.layer.ext import UpsampleExt as Upsample
from ...nn.layer.normalization import LayerNormExt as LayerNorm
from ...nn.loss.loss import L1LossExt as L1Loss
from ...nn.loss.loss import SoftMarginLoss
from . import functional
from .layer.activation import (
    ELU,
    GELU,
    GLU,
    SELU,
    Hardtanh,
    LogSigmoid,
    Mish,
    ReLU6,
    Sigmoid,
    SiLU,
    Tanh,
    Threshold,
)
from .layer.basic import Flatten, Fold, PixelShuffle, UpsamplingBilinear2d, UpsamplingNearest2d
from .layer.conv import Conv1d, Conv2d, Conv3d, ConvTranspose2d
from .layer.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CosineEmbeddingLoss,
    CrossEntropyLoss,
    KLDivLoss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from .layer.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, SyncBatchNorm
from .layer.padding import (
    ConstantPad1d,
    ConstantPad2d,
    ConstantPad3d,
    ReflectionPad1d,
    ReflectionPad2d,
    ReflectionPad3d,
    ReplicationPad1d,
    ReplicationPad2d,
    ReplicationPad3d,
    ZeroPad1d,
    ZeroPad2d,
    ZeroPad3d,
)
from .layer.pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    MaxUnpool2d,
)

__all__ = [
    "ELU", "GELU", "GLU", "SELU", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "BCELoss",
    "BCEWithLogitsLoss", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "ConstantPad1d",
    "ConstantPad2d", "ConstantPad3d", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d",
    "CosineEmbeddingLoss", "CrossEntropyLoss", "Dropout", "Dropout2d", "Embedding", "Flatten",
    "Fold", "GroupNorm", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "Identity",
    "KLDivLoss", "L1Loss", "LayerNorm", "Linear", "LogSigmoid", "LogSoftmax", "MSELoss",
    "MaxPool2d", "MaxUnpool2d", "Mish", "NLLLoss", "PReLU", "PixelShuffle", "ReLU", "ReLU6",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "SiLU", "Sigmoid", "SmoothL1Loss", "SoftMarginLoss",
    "Softmax", "Softshrink", "SyncBatchNorm", "Tanh", "Threshold", "Unfold", "Upsample",
    "UpsamplingBilinear2d", "UpsamplingNearest2d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
    "functional",
]
__dir__ = public_names(__name__)
if not TYPE_CHECKING:
    __getattr__ = names_of(__name__, {})
