"""`mint.nn`: layers and losses with PyTorch's names and parameters; `functional`."""

from __future__ import annotations

from cellc_runtime.lazy import facade

from ...core.later import other_names

_HOMES = {
    ".": "functional",
    "...nn.layer.activation":
        "Hardshrink=HShrink Hardsigmoid=HSigmoid Hardswish=HSwish LogSoftmax=LogSoftmaxExt "
        "PReLU=PReLUExt ReLU Softshrink=SoftShrink",
    "...nn.layer.basic": "Dropout=DropoutExt Identity Linear",
    "...nn.layer.ext":
        "AvgPool1d=AvgPool1dExt AvgPool2d=AvgPool2dExt AvgPool3d=AvgPool3dExt "
        "Dropout2d=Dropout2dExt Embedding=EmbeddingExt MaxPool2d=MaxPool2dExt Softmax=SoftmaxExt "
        "Unfold=UnfoldExt Upsample=UpsampleExt",
    "...nn.layer.normalization": "LayerNorm=LayerNormExt",
    "...nn.loss.loss": "L1Loss=L1LossExt SoftMarginLoss",
    ".layer.activation":
        "ELU GELU GLU SELU Hardtanh LogSigmoid Mish ReLU6 Sigmoid SiLU Tanh Threshold",
    ".layer.basic": "Flatten Fold PixelShuffle UpsamplingBilinear2d UpsamplingNearest2d",
    ".layer.conv": "Conv1d Conv2d Conv3d ConvTranspose2d",
    ".layer.loss":
        "BCELoss BCEWithLogitsLoss CosineEmbeddingLoss CrossEntropyLoss KLDivLoss MSELoss NLLLoss "
        "SmoothL1Loss",
    ".layer.normalization": "BatchNorm1d BatchNorm2d BatchNorm3d GroupNorm SyncBatchNorm",
    ".layer.padding":
        "ConstantPad1d ConstantPad2d ConstantPad3d ReflectionPad1d ReflectionPad2d "
        "ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d "
        "ZeroPad3d",
    ".layer.pooling":
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d "
        "AdaptiveMaxPool2d MaxUnpool2d",
}
facade(__name__, _HOMES, lambda *given: other_names.missing_name(*given))
