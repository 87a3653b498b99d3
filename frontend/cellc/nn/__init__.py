"""Layers, losses, optimizers and wrappers: `cellc.nn`, under MindSpore's names."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import utils
from .cell import Cell
from .dynamic_lr import (
    cosine_decay_lr,
    exponential_decay_lr,
    inverse_decay_lr,
    natural_exp_decay_lr,
    piecewise_constant_lr,
    polynomial_decay_lr,
    warmup_lr,
)
from .grad import Jvp, Vjp
from .graph_cell import GraphCell
from .layer.activation import (
    CELU,
    ELU,
    GELU,
    GLU,
    LRN,
    FastGelu,
    Hardtanh,
    HShrink,
    HSigmoid,
    HSwish,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    LogSoftmaxExt,
    Mish,
    PReLU,
    PReLUExt,
    ReLU,
    ReLU6,
    RReLU,
    SeLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softmax2d,
    Softmin,
    SoftShrink,
    Softsign,
    Tanh,
    Tanhshrink,
    Threshold,
    get_activation,
)
from .layer.basic import (
    BiDense,
    ChannelShuffle,
    ClipByNorm,
    Dense,
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    DropoutExt,
    Flatten,
    Identity,
    L1Regularizer,
    Linear,
    Norm,
    OneHot,
    Pad,
    PixelShuffle,
    PixelUnshuffle,
    Roll,
    Tril,
    Triu,
    Unflatten,
    Unfold,
    Upsample,
)
from .layer.combined import Conv2dBnAct, DenseBnAct
from .layer.container import CellDict, CellList, SequentialCell
from .layer.conv import (
    Conv1d,
    Conv1dTranspose,
    Conv2d,
    Conv2dTranspose,
    Conv3d,
    Conv3dTranspose,
)
from .layer.embedding import Embedding, EmbeddingLookup, MultiFieldEmbeddingLookup
from .layer.ext import (
    AvgPool1dExt,
    AvgPool2dExt,
    AvgPool3dExt,
    Dropout2dExt,
    EmbeddingExt,
    MaxPool2dExt,
)
from .layer.fractional import FractionalMaxPool2d, FractionalMaxPool3d
from .layer.image import MSSSIM, PSNR, SSIM, CentralCrop, ImageGradients
from .layer.math import (
    DiGamma,
    IGamma,
    LBeta,
    LGamma,
    MatDet,
    MatInverse,
    MatMul,
    MatrixDiag,
    MatrixDiagPart,
    MatrixSetDiag,
    Moments,
    Range,
    ReduceLogSumExp,
)
from .layer.normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    LayerNormExt,
    SyncBatchNorm,
)
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
    ZeroPad2d,
)
from .layer.pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    LPPool1d,
    LPPool2d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    MaxUnpool1d,
    MaxUnpool2d,
    MaxUnpool3d,
)
from .layer.rnn import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from .layer.timedistributed import TimeDistributed
from .layer.transformer import (
    MultiheadAttention,
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from .learning_rate_schedule import (
    CosineDecayLR,
    ExponentialDecayLR,
    InverseDecayLR,
    LearningRateSchedule,
    NaturalExpDecayLR,
    PolynomialDecayLR,
    WarmUpLR,
)
from .loss.ctc import CTCLoss
from .loss.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CosineEmbeddingLoss,
    CrossEntropyLoss,
    DiceLoss,
    FocalLoss,
    GaussianNLLLoss,
    HingeEmbeddingLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    L1LossExt,
    LossBase,
    MAELoss,
    MarginRankingLoss,
    MSELoss,
    MultiClassDiceLoss,
    MultilabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    NLLLoss,
    PoissonNLLLoss,
    RMSELoss,
    SampledSoftmaxLoss,
    SmoothL1Loss,
    SoftMarginLoss,
    SoftmaxCrossEntropyWithLogits,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
)
from .loss_scale import (
    DynamicLossScaleUpdateCell,
    FixedLossScaleUpdateCell,
    TrainOneStepWithLossScaleCell,
)
from .optim.adafactor import AdaFactor
from .optim.adagrad import FTRL, Adadelta, Adagrad, ProximalAdagrad, RMSProp
from .optim.adam import Adam, AdaMax, AdamOffload, AdamWeightDecay, Lamb, LazyAdam
from .optim.lars import LARS
from .optim.optimizer import Optimizer
from .optim.rprop import ASGD, Rprop
from .optim.sgd import SGD, Momentum
from .sparse import SparseTensorDenseMatmul, SparseToDense
from .utils import no_init_parameters
from .wrap import (
    ForwardValueAndGrad,
    ParameterUpdate,
    TrainOneStepCell,
    WithEvalCell,
    WithGradCell,
    WithLossCell,
)

if TYPE_CHECKING:
    from .micro_batch import (
        DistributedGradReducer,
        GradAccumulationCell,
        MicroBatchInterleaved,
        PipelineCell,
        PipelineGradReducer,
    )

__all__ = [
    "ASGD", "AdaFactor", "AdaMax", "Adadelta", "Adagrad", "Adam", "AdamOffload", "AdamWeightDecay",
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool1dExt", "AvgPool2d",
    "AvgPool2dExt", "AvgPool3d", "AvgPool3dExt", "BCELoss", "BCEWithLogitsLoss", "BatchNorm1d",
    "BatchNorm2d", "BatchNorm3d", "BiDense", "CELU", "CTCLoss", "Cell", "CellDict", "CellList",
    "CentralCrop", "ChannelShuffle", "ClipByNorm", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "Conv1d", "Conv1dTranspose", "Conv2d", "Conv2dBnAct", "Conv2dTranspose",
    "Conv3d", "Conv3dTranspose", "CosineDecayLR", "CosineEmbeddingLoss", "CrossEntropyLoss",
    "Dense", "DenseBnAct", "DiGamma", "DiceLoss", "DistributedGradReducer", "Dropout", "Dropout1d",
    "Dropout2d", "Dropout2dExt", "Dropout3d", "DropoutExt", "DynamicLossScaleUpdateCell", "ELU",
    "Embedding", "EmbeddingExt", "EmbeddingLookup", "ExponentialDecayLR", "FTRL", "FastGelu",
    "FixedLossScaleUpdateCell", "Flatten", "FocalLoss", "ForwardValueAndGrad",
    "FractionalMaxPool2d", "FractionalMaxPool3d", "GELU", "GLU", "GRU", "GRUCell",
    "GaussianNLLLoss", "GradAccumulationCell", "GraphCell", "GroupNorm", "HShrink", "HSigmoid",
    "HSwish", "Hardtanh", "HingeEmbeddingLoss", "HuberLoss", "IGamma", "Identity", "ImageGradients",
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "InverseDecayLR", "Jvp", "KLDivLoss",
    "L1Loss", "L1LossExt", "L1Regularizer", "LARS", "LBeta", "LGamma", "LPPool1d", "LPPool2d",
    "LRN", "LSTM", "LSTMCell", "Lamb", "LayerNorm", "LayerNormExt", "LazyAdam", "LeakyReLU",
    "LearningRateSchedule", "Linear", "LogSigmoid", "LogSoftmax", "LogSoftmaxExt", "LossBase",
    "MAELoss", "MSELoss", "MSSSIM", "MarginRankingLoss", "MatDet", "MatInverse", "MatMul",
    "MatrixDiag", "MatrixDiagPart", "MatrixSetDiag", "MaxPool1d", "MaxPool2d", "MaxPool2dExt",
    "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "MicroBatchInterleaved", "Mish",
    "Moments", "Momentum", "MultiClassDiceLoss", "MultiFieldEmbeddingLookup",
    "MultiLabelSoftMarginLoss", "MultiMarginLoss", "MultiheadAttention", "MultilabelMarginLoss",
    "NLLLoss", "NaturalExpDecayLR", "Norm", "OneHot", "Optimizer", "PReLU", "PReLUExt", "PSNR",
    "Pad", "ParameterUpdate", "PipelineCell", "PipelineGradReducer", "PixelShuffle",
    "PixelUnshuffle", "PoissonNLLLoss", "PolynomialDecayLR", "ProximalAdagrad", "RMSELoss",
    "RMSProp", "RNN", "RNNCell", "RReLU", "Range", "ReLU", "ReLU6", "ReduceLogSumExp",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
    "ReplicationPad3d", "Roll", "Rprop", "SGD", "SSIM", "SampledSoftmaxLoss", "SeLU",
    "SequentialCell", "SiLU", "Sigmoid", "SmoothL1Loss", "SoftMarginLoss", "SoftShrink", "Softmax",
    "Softmax2d", "SoftmaxCrossEntropyWithLogits", "Softmin", "Softsign", "SparseTensorDenseMatmul",
    "SparseToDense", "SyncBatchNorm", "Tanh", "Tanhshrink", "Threshold", "TimeDistributed",
    "TrainOneStepCell", "TrainOneStepWithLossScaleCell", "Transformer", "TransformerDecoder",
    "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer", "Tril",
    "TripletMarginLoss", "TripletMarginWithDistanceLoss", "Triu", "Unflatten", "Unfold", "Upsample",
    "Vjp", "WarmUpLR", "WithEvalCell", "WithGradCell", "WithLossCell", "ZeroPad2d",
    "cosine_decay_lr", "exponential_decay_lr", "get_activation", "inverse_decay_lr",
    "natural_exp_decay_lr", "no_init_parameters", "piecewise_constant_lr", "polynomial_decay_lr",
    "utils", "warmup_lr",
]

_LATER = dict.fromkeys(
    ("DistributedGradReducer", "GradAccumulationCell", "MicroBatchInterleaved", "PipelineCell",
     "PipelineGradReducer"), ".micro_batch")
"""Cells that load when they are asked for."""

if not TYPE_CHECKING:
    def __getattr__(name: str) -> Any:
        """Metrics are here too (`nn.Accuracy`); their home, `train`, needs this module first."""
        if name in _LATER:
            return getattr(importlib.import_module(_LATER[name], __name__), name)
        metrics = importlib.import_module("cellc.train.metrics")
        if name in metrics.__all__:
            return getattr(metrics, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        """The names of this module and of the metrics."""
        metrics = importlib.import_module("cellc.train.metrics")
        return sorted({*globals(), *metrics.__all__})
