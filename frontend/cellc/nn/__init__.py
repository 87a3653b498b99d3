"""Layers, losses, optimizers and wrappers: `cellc.nn`, under MindSpore's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import imported, lazy_names, public_names

from ..core.later import other_names
from .cell import Cell as Cell

_HOMES = {
    ".dynamic_lr":
        "cosine_decay_lr exponential_decay_lr inverse_decay_lr natural_exp_decay_lr "
        "piecewise_constant_lr polynomial_decay_lr warmup_lr",
    ".grad": "Jvp Vjp",
    ".graph_cell": "GraphCell",
    ".layer.activation":
        "CELU ELU FastGelu GELU GLU HShrink HSigmoid HSwish Hardtanh LRN LeakyReLU LogSigmoid "
        "LogSoftmax LogSoftmaxExt Mish PReLU PReLUExt RReLU ReLU ReLU6 SeLU SiLU Sigmoid "
        "SoftShrink Softmax Softmax2d Softmin Softsign Tanh Tanhshrink Threshold get_activation",
    ".layer.basic":
        "BiDense ChannelShuffle ClipByNorm Dense Dropout Dropout1d Dropout2d Dropout3d "
        "DropoutExt Flatten Identity L1Regularizer Linear Norm OneHot Pad PixelShuffle "
        "PixelUnshuffle Roll Tril Triu Unflatten Unfold Upsample",
    ".layer.combined": "Conv2dBnAct DenseBnAct",
    ".layer.container": "CellDict CellList SequentialCell",
    ".layer.conv": "Conv1d Conv1dTranspose Conv2d Conv2dTranspose Conv3d Conv3dTranspose",
    ".layer.embedding": "Embedding EmbeddingLookup MultiFieldEmbeddingLookup",
    ".layer.ext": "AvgPool1dExt AvgPool2dExt AvgPool3dExt Dropout2dExt EmbeddingExt MaxPool2dExt",
    ".layer.image": "CentralCrop ImageGradients MSSSIM PSNR SSIM",
    ".layer.math":
        "DiGamma IGamma LBeta LGamma MatDet MatInverse MatMul MatrixDiag MatrixDiagPart "
        "MatrixSetDiag Moments Range ReduceLogSumExp",
    ".layer.normalization":
        "BatchNorm1d BatchNorm2d BatchNorm3d GroupNorm InstanceNorm1d InstanceNorm2d "
        "InstanceNorm3d LayerNorm LayerNormExt SyncBatchNorm",
    ".layer.padding":
        "ConstantPad1d ConstantPad2d ConstantPad3d ReflectionPad1d ReflectionPad2d "
        "ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad2d",
    ".layer.pooling":
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d "
        "AdaptiveMaxPool2d AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d FractionalMaxPool2d "
        "FractionalMaxPool3d LPPool1d LPPool2d MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d "
        "MaxUnpool2d MaxUnpool3d",
    ".layer.rnn": "GRU GRUCell LSTM LSTMCell RNN RNNCell",
    ".layer.timedistributed": "TimeDistributed",
    ".layer.transformer":
        "MultiheadAttention Transformer TransformerDecoder TransformerDecoderLayer "
        "TransformerEncoder TransformerEncoderLayer",
    ".learning_rate_schedule":
        "CosineDecayLR ExponentialDecayLR InverseDecayLR NaturalExpDecayLR PolynomialDecayLR "
        "WarmUpLR",
    ".loss.ctc": "CTCLoss",
    ".loss.loss":
        "BCELoss BCEWithLogitsLoss CosineEmbeddingLoss CrossEntropyLoss DiceLoss FocalLoss "
        "GaussianNLLLoss HingeEmbeddingLoss HuberLoss KLDivLoss L1Loss L1LossExt LossBase "
        "MAELoss MSELoss MarginRankingLoss MultiClassDiceLoss MultiLabelSoftMarginLoss "
        "MultiMarginLoss MultilabelMarginLoss NLLLoss PoissonNLLLoss RMSELoss "
        "SampledSoftmaxLoss SmoothL1Loss SoftMarginLoss SoftmaxCrossEntropyWithLogits "
        "TripletMarginLoss TripletMarginWithDistanceLoss",
    ".loss_scale":
        "DynamicLossScaleUpdateCell FixedLossScaleUpdateCell TrainOneStepWithLossScaleCell",
    ".grad_reducer": "DistributedGradReducer",
    ".micro_batch":
        "GradAccumulationCell MicroBatchInterleaved PipelineCell "
        "PipelineGradReducer",
    ".optim.adafactor": "AdaFactor",
    ".optim.adagrad": "Adadelta Adagrad FTRL ProximalAdagrad RMSProp",
    ".optim.adam": "AdaMax Adam AdamOffload AdamWeightDecay Lamb LazyAdam",
    ".optim.ascend":
        "AdaSumByDeltaWeightWrapCell AdaSumByGradWrapCell Conv2dThor DenseThor "
        "EmbeddingLookupThor EmbeddingThor GetNextSingleOp OptTFTWrapper thor",
    ".optim.lars": "LARS",
    ".optim.optimizer": "Optimizer",
    ".optim.rprop": "ASGD Rprop",
    ".optim.sgd": "Momentum SGD",
    ".probability": "",
    ".sparse": "SparseTensorDenseMatmul SparseToDense",
    ".utils": "no_init_parameters",
    ".wrap":
        "ForwardValueAndGrad ParameterUpdate TrainOneStepCell VirtualDatasetCellTriple "
        "WithEvalCell WithGradCell WithLossCell",
}  # fmt: skip
"""The names of this package, by the module that defines them and loads with the first of its names.
Metrics are here too (`nn.Accuracy`)."""

__all__ = sorted(["Cell", "probability", "utils",
                  *(name for names in _HOMES.values() for name in names.split())])

if TYPE_CHECKING:
    from ..train.metrics import *  # noqa: F403
    from . import probability as probability
    from . import utils as utils
    from .dynamic_lr import *  # noqa: F403
    from .grad import *  # noqa: F403
    from .grad_reducer import *  # noqa: F403
    from .graph_cell import *  # noqa: F403
    from .layer import *  # type: ignore[assignment]  # noqa: F403
    from .learning_rate_schedule import *  # noqa: F403
    from .loss import *  # noqa: F403
    from .loss_scale import *  # noqa: F403
    from .micro_batch import *  # noqa: F403
    from .optim import *  # noqa: F403
    from .sparse import *  # noqa: F403
    from .utils import *  # noqa: F403
    from .wrap import *  # noqa: F403
else:
    _load = lazy_names(__name__, _HOMES, lambda *given: other_names.missing_name(*given))
    _own = public_names(__name__)

    def __getattr__(name: str) -> Any:
        try:
            return _load(name)
        except AttributeError:
            # Their home, `train`, needs this module first.
            metrics = () if name.startswith("_") else imported("cellc.train.metrics").__all__
            if name not in metrics:
                raise
        return getattr(imported("cellc.train.metrics"), name)

    def __dir__() -> list[str]:
        """The names of this module and of the metrics."""
        return sorted({*_own(), *imported("cellc.train.metrics").__all__})
