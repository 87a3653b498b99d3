"""Made by `docs/make_stubs.py`; do not edit it by hand."""
from . import functional
from ...nn.layer.activation import HShrink as Hardshrink, HSigmoid as Hardsigmoid, HSwish as Hardswish, LogSoftmaxExt as LogSoftmax, PReLUExt as PReLU, ReLU, SoftShrink as Softshrink
from ...nn.layer.basic import DropoutExt as Dropout, Identity, Linear
from ...nn.layer.ext import AvgPool1dExt as AvgPool1d, AvgPool2dExt as AvgPool2d, AvgPool3dExt as AvgPool3d, Dropout2dExt as Dropout2d, EmbeddingExt as Embedding, MaxPool2dExt as MaxPool2d, SoftmaxExt as Softmax, UnfoldExt as Unfold, UpsampleExt as Upsample
from ...nn.layer.normalization import LayerNormExt as LayerNorm
from ...nn.loss.loss import L1LossExt as L1Loss, SoftMarginLoss
from .layer.activation import ELU, GELU, GLU, SELU, Hardtanh, LogSigmoid, Mish, ReLU6, Sigmoid, SiLU, Tanh, Threshold
from .layer.basic import Flatten, Fold, PixelShuffle, UpsamplingBilinear2d, UpsamplingNearest2d
from .layer.conv import Conv1d, Conv2d, Conv3d, ConvTranspose2d
from .layer.loss import BCELoss, BCEWithLogitsLoss, CosineEmbeddingLoss, CrossEntropyLoss, KLDivLoss, MSELoss, NLLLoss, SmoothL1Loss
from .layer.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, SyncBatchNorm
from .layer.padding import ConstantPad1d, ConstantPad2d, ConstantPad3d, ReflectionPad1d, ReflectionPad2d, ReflectionPad3d, ReplicationPad1d, ReplicationPad2d, ReplicationPad3d, ZeroPad1d, ZeroPad2d, ZeroPad3d
from .layer.pooling import AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d, MaxUnpool2d
__all__ = ['AdaptiveAvgPool1d', 'AdaptiveAvgPool2d', 'AdaptiveAvgPool3d', 'AdaptiveMaxPool1d', 'AdaptiveMaxPool2d', 'AvgPool1d', 'AvgPool2d', 'AvgPool3d', 'BCELoss', 'BCEWithLogitsLoss', 'BatchNorm1d', 'BatchNorm2d', 'BatchNorm3d', 'ConstantPad1d', 'ConstantPad2d', 'ConstantPad3d', 'Conv1d', 'Conv2d', 'Conv3d', 'ConvTranspose2d', 'CosineEmbeddingLoss', 'CrossEntropyLoss', 'Dropout', 'Dropout2d', 'ELU', 'Embedding', 'Flatten', 'Fold', 'GELU', 'GLU', 'GroupNorm', 'Hardshrink', 'Hardsigmoid', 'Hardswish', 'Hardtanh', 'Identity', 'KLDivLoss', 'L1Loss', 'LayerNorm', 'Linear', 'LogSigmoid', 'LogSoftmax', 'MSELoss', 'MaxPool2d', 'MaxUnpool2d', 'Mish', 'NLLLoss', 'PReLU', 'PixelShuffle', 'ReLU', 'ReLU6', 'ReflectionPad1d', 'ReflectionPad2d', 'ReflectionPad3d', 'ReplicationPad1d', 'ReplicationPad2d', 'ReplicationPad3d', 'SELU', 'SiLU', 'Sigmoid', 'SmoothL1Loss', 'SoftMarginLoss', 'Softmax', 'Softshrink', 'SyncBatchNorm', 'Tanh', 'Threshold', 'Unfold', 'Upsample', 'UpsamplingBilinear2d', 'UpsamplingNearest2d', 'ZeroPad1d', 'ZeroPad2d', 'ZeroPad3d', 'functional']
