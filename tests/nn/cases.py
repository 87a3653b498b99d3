"""Layers and losses with inputs, for the comparisons: (expression, input shapes, training)."""

from __future__ import annotations

from typing import Any

LABELS = "ms.Tensor(np.array([1, 0, 3], np.int32))"
UNIT = "ms.Tensor(np.linspace(0.05, 0.95, 12, dtype=np.float32).reshape(3, 4))"
PARTS = "ms.Tensor(np.array([[0, 0, 1, 0], [0.1, 0.2, 0.3, 0.4], [1, 0, 0, 0]], np.float32))"
SIGNS = "ms.Tensor(np.array([[1, -1, 1, 1], [-1, 1, -1, 1], [1, 1, -1, -1]], np.float32))"
Case = tuple[str, list[Any], bool]

ACTIVATIONS: list[Case] = [
    (f"nn.{name}()", [(3, 4)], False) for name in (
        "ReLU", "ReLU6", "SiLU", "Tanh", "Tanhshrink", "Sigmoid", "LogSigmoid", "Softsign",
        "HSwish", "HSigmoid", "Mish", "SeLU", "FastGelu", "GELU", "ELU", "CELU", "LeakyReLU",
        "Hardtanh", "SoftShrink", "HShrink", "Softmax", "Softmin", "LogSoftmax", "GLU", "PReLU",
    )
] + [
    ("nn.GELU(False)", [(3, 4)], False),
    ("nn.LeakyReLU(0.3)", [(3, 4)], False),
    ("nn.CELU(2.0)", [(3, 4)], False),
    ("nn.Softmax(0)", [(3, 4)], False),
    ("nn.Threshold(0.1, 2.0)", [(3, 4)], False),
    ("nn.Hardtanh(-0.5, 0.5)", [(3, 4)], False),
    ("nn.Softmax2d()", [(2, 3, 4, 4)], False),
    ("nn.PReLU(3)", [(2, 3, 4)], False),
]

BASIC: list[Case] = [
    ("nn.Dense(4, 5)", [(3, 4)], False),
    ("nn.Dense(4, 5, activation='tanh')", [(2, 3, 4)], False),
    ("nn.Dense(4, 5, has_bias=False)", [(3, 4)], False),
    ("nn.Dense(4, 5)", [(4,)], False),
    ("nn.Linear(4, 5)", [(3, 4)], False),
    ("nn.BiDense(4, 5, 3)", [(2, 4), (2, 5)], False),
    ("nn.Flatten()", [(2, 3, 4)], False),
    ("nn.Flatten(0, 1)", [(2, 3, 4)], False),
    ("nn.Unflatten(1, (2, 3))", [(2, 6)], False),
    ("nn.Identity()", [(2, 3)], False),
    ("nn.Dropout(p=0.3)", [(2, 3)], False),
    ("nn.Pad(((1, 1), (2, 2)))", [(3, 4)], False),
    ("nn.Pad(((1, 2), (2, 1)), 'SYMMETRIC')", [(3, 4)], False),
    ("nn.Pad(((1, 2), (2, 1)), 'REFLECT')", [(3, 4)], False),
    ("nn.ConstantPad2d((1, 1, 0, 2), 0.5)", [(2, 3, 4)], False),
    ("nn.ZeroPad2d((1, 0, 2, 1))", [(1, 2, 3, 4)], False),
    ("nn.ReflectionPad1d((1, 2))", [(2, 3, 4)], False),
    ("nn.ReflectionPad2d((1, 2, 0, 1))", [(1, 2, 3, 4)], False),
    ("nn.ReplicationPad1d((1, 2))", [(2, 3, 4)], False),
    ("nn.ReplicationPad2d((1, 2, 0, 1))", [(1, 2, 3, 4)], False),
    ("nn.PixelShuffle(2)", [(1, 4, 2, 3)], False),
    ("nn.PixelUnshuffle(2)", [(1, 1, 4, 6)], False),
    ("nn.Embedding(5, 3)", [LABELS], False),
    ("nn.Embedding(5, 3, use_one_hot=True)", [LABELS], False),
    ("nn.DenseBnAct(4, 3)", [(5, 4)], False),
    ("nn.DenseBnAct(4, 3, has_bn=True, activation='tanh')", [(5, 4)], True),
    ("nn.TimeDistributed(nn.Dense(4, 3), 1)", [(2, 3, 4)], False),
    ("nn.TimeDistributed(nn.Dense(4, 3), 1, 0)", [(2, 3, 4)], False),
    ("nn.TimeDistributed(nn.Dense(4, 3), 0, 1)", [(2, 3, 4)], False),
    ("nn.TimeDistributed(nn.Dense(4, 3), -2, reshape_with_axis=0)", [(2, 5, 3, 4)], False),
    ("nn.CentralCrop(0.5)", [(2, 3, 5, 7)], False),
    ("nn.CentralCrop(0.3)", [(3, 10, 9)], False),
    ("nn.ImageGradients()", [(2, 3, 4, 5)], False),
    ("nn.ImageGradients()", [(1, 1, 1, 1)], False),
    ("nn.SequentialCell(nn.Dense(4, 3), nn.ReLU(), nn.Dense(3, 2))", [(2, 4)], False),
]

CONVOLUTIONS: list[Case] = [
    ("nn.Conv2d(3, 4, 3)", [(2, 3, 7, 7)], False),
    ("nn.Conv2d(3, 4, 3, 2, 'same', has_bias=True)", [(2, 3, 8, 7)], False),
    ("nn.Conv2d(3, 4, (3, 2), (1, 2), 'valid', dilation=(2, 1))", [(2, 3, 8, 7)], False),
    ("nn.Conv2d(3, 4, 3, 2, 'pad', (1, 0, 1, 2), has_bias=True)", [(2, 3, 8, 7)], False),
    ("nn.Conv2d(4, 4, 3, group=4)", [(2, 4, 6, 6)], False),
    ("nn.Conv1d(3, 4, 3, has_bias=True)", [(2, 3, 8)], False),
    ("nn.Conv1d(3, 4, 3, 2, 'pad', 2)", [(2, 3, 8)], False),
    ("nn.Conv3d(2, 3, 3)", [(1, 2, 4, 4, 4)], False),
    ("nn.Conv2dTranspose(3, 4, 3, 2)", [(1, 3, 5, 5)], False),
    ("nn.Conv2dTranspose(3, 4, 5, 3, 'same')", [(1, 3, 5, 5)], False),
    ("nn.Conv2dTranspose(3, 4, 3, 2, 'valid')", [(1, 3, 5, 5)], False),
    ("nn.Conv2dTranspose(3, 4, 3, 2, 'pad', 1, 1, has_bias=True)", [(1, 3, 5, 5)], False),
    ("nn.Conv2dTranspose(4, 4, 3, group=2)", [(1, 4, 5, 5)], False),
    ("nn.Conv2dTranspose(3, 4, 3, 2, 'pad', (1, 2, 0, 1), dilation=2)", [(1, 3, 5, 5)], False),
    ("nn.Conv1dTranspose(3, 4, 3, 2)", [(1, 3, 5)], False),
    ("nn.Conv1dTranspose(3, 4, 3, 2, 'pad', 1, has_bias=True)", [(1, 3, 5)], False),
    ("nn.Conv3dTranspose(2, 3, 3, 2)", [(1, 2, 3, 4, 3)], False),
    ("nn.Conv3dTranspose(2, 3, (1, 3, 2), (2, 1, 3), has_bias=True)", [(1, 2, 3, 4, 3)], False),
    ("nn.Conv3dTranspose(2, 3, 2, 3, 'valid')", [(2, 2, 2, 3, 1)], False),
    ("nn.Conv3dTranspose(2, 3, 3, 2, 'pad', 1, output_padding=1)", [(1, 2, 2, 3, 2)], False),
    ("nn.Conv3dTranspose(2, 3, (2, 3, 3), 2, 'pad', (0, 1, 1, 2, 1, 0))", [(1, 2, 2, 3, 3)], False),
    ("nn.Conv2dBnAct(3, 4, 3, has_bn=True, activation='relu')", [(2, 3, 5, 5)], True),
    ("nn.Conv2dBnAct(3, 4, 3, 2, has_bias=True, activation='leakyrelu')", [(2, 3, 5, 5)], False),
]

NORMALISATIONS: list[Case] = [
    ("nn.BatchNorm1d(3)", [(5, 3)], False),
    ("nn.BatchNorm1d(3)", [(5, 3)], True),
    ("nn.BatchNorm2d(3, momentum=0.8)", [(2, 3, 4, 4)], True),
    ("nn.BatchNorm2d(3, affine=False)", [(2, 3, 4, 4)], True),
    ("nn.BatchNorm2d(3, use_batch_statistics=False)", [(2, 3, 4, 4)], True),
    ("nn.BatchNorm2d(3, use_batch_statistics=True)", [(2, 3, 4, 4)], False),
    ("nn.BatchNorm3d(3)", [(2, 3, 2, 3, 4)], True),
    ("nn.LayerNorm((4,))", [(3, 4)], False),
    ("nn.LayerNorm((3, 4), 1, 1)", [(2, 3, 4)], False),
    ("nn.GroupNorm(2, 4)", [(2, 4, 3, 3)], False),
]

PLACES = "ms.Tensor(np.random.RandomState(3).rand(1, 3, 2).astype(np.float32))"
PLACES_3D = "ms.Tensor(np.random.RandomState(4).rand(1, 3, 3).astype(np.float32))"
POOLINGS: list[Case] = [
    ("nn.MaxPool2d(3, 2)", [(1, 3, 8, 8)], False),
    ("nn.MaxPool2d(3, 2, 'same')", [(1, 3, 8, 7)], False),
    ("nn.MaxPool2d(3, 2, 'pad', 1)", [(1, 3, 8, 8)], False),
    ("nn.MaxPool2d(2, 2, 'pad', 0, 2, False, True)", [(1, 3, 8, 8)], False),
    ("nn.MaxPool1d(3, 2)", [(1, 3, 8)], False),
    ("nn.AvgPool2d(3, 2)", [(1, 3, 8, 8)], False),
    ("nn.AvgPool2d(3, 2, 'same')", [(1, 3, 8, 7)], False),
    ("nn.AvgPool2d(3, 2, 'pad', 1, True, False)", [(1, 3, 8, 8)], False),
    ("nn.AvgPool2d(3, 2, 'pad', 1, divisor_override=5)", [(1, 3, 8, 8)], False),
    ("nn.AvgPool1d(3, 2)", [(1, 3, 8)], False),
    ("nn.AvgPool1d(3, 2, 'pad', 1)", [(1, 3, 8)], False),
    ("nn.MaxPool3d(2, 2)", [(1, 3, 4, 4, 4)], False),
    ("nn.MaxPool3d((2, 3, 2), 2, 'pad', (1, 1, 0), return_indices=True)", [(1, 3, 5, 5, 5)], False),
    ("nn.AdaptiveMaxPool3d((2, 3, 2))", [(2, 3, 5, 6, 7)], False),
    ("nn.AdaptiveMaxPool3d((1, 2, 2), True)", [(3, 5, 6, 7)], False),
    ("nn.MaxPool3d((2, 3, 3), 2, 'same')", [(1, 3, 5, 5, 5)], False),
    ("nn.AvgPool3d(2, 2)", [(1, 3, 4, 4, 4)], False),
    ("nn.AvgPool3d(3, 2, 'same')", [(1, 3, 5, 5, 5)], False),
    ("nn.AvgPool3d(3, 2, 'pad', 1, False, False)", [(1, 3, 5, 5, 5)], False),
    ("nn.AdaptiveAvgPool2d((2, None))", [(1, 3, 9, 5)], False),
    ("nn.AdaptiveMaxPool2d(3)", [(1, 3, 9, 5)], False),
    ("nn.AdaptiveAvgPool1d(3)", [(1, 3, 9)], False),
    ("nn.AdaptiveMaxPool1d(3)", [(1, 3, 9)], False),
    ("nn.AdaptiveAvgPool3d(2)", [(1, 3, 4, 4, 4)], False),
    ("nn.LPPool2d(2.0, 3)", [(1, 3, 6, 6)], False),
    ("nn.FractionalMaxPool2d(2, 3, _random_samples=" + PLACES + ")", [(1, 3, 8, 7)], False),
    ("nn.FractionalMaxPool2d((3, 2), output_ratio=(0.5, 0.6), return_indices=True, "
     "_random_samples=" + PLACES + ")", [(1, 3, 8, 9)], False),
    ("nn.FractionalMaxPool2d(2, (1, 4), _random_samples=" + PLACES + ")", [(3, 5, 5)], False),
    ("nn.FractionalMaxPool3d(2, (3, 2, 1), return_indices=True, "
     "_random_samples=" + PLACES_3D + ")", [(1, 3, 5, 6, 4)], False),
    ("nn.FractionalMaxPool3d((1, 2, 3), output_ratio=(0.5, 0.5, 0.4), "
     "_random_samples=" + PLACES_3D + ")", [(1, 3, 5, 6, 7)], False),
]

LOSSES: list[Case] = [
    ("nn.MSELoss()", [(3, 4), (3, 4)], False),
    ("nn.MSELoss('none')", [(3, 4), (4,)], False),
    ("nn.L1Loss('sum')", [(3, 4), (3, 4)], False),
    ("nn.MAELoss()", [(3, 4), (3, 4)], False),
    ("nn.RMSELoss()", [(3, 4), (3, 4)], False),
    ("nn.SmoothL1Loss(0.4)", [(3, 4), (3, 4)], False),
    ("nn.HuberLoss(delta=0.3)", [(3, 4), (3, 4)], False),
    ("nn.GaussianNLLLoss(full=True)", [(3, 4), (3, 4), UNIT], False),
    ("nn.PoissonNLLLoss()", [(3, 4), UNIT], False),
    ("nn.SoftmaxCrossEntropyWithLogits(True, 'mean')", [(3, 4), LABELS], False),
    ("nn.SoftmaxCrossEntropyWithLogits(True)", [(3, 4), LABELS], False),
    ("nn.SoftmaxCrossEntropyWithLogits(reduction='sum')", [(3, 4), PARTS], False),
    ("nn.CrossEntropyLoss()", [(3, 4), LABELS], False),
    ("nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1)", [(3, 4), LABELS], False),
    ("nn.CrossEntropyLoss(ms.Tensor(np.array([0.1, 0.2, 0.3, 0.4], np.float32)))",
     [(3, 4), LABELS], False),
    ("nn.NLLLoss(reduction='sum')", [(3, 4), LABELS], False),
    ("nn.BCELoss()", [UNIT, UNIT + " * 0.9"], False),
    ("nn.BCEWithLogitsLoss()", [(3, 4), UNIT], False),
    ("nn.KLDivLoss()", [(3, 4), UNIT], False),
    ("nn.KLDivLoss('batchmean')", [(3, 4), UNIT], False),
    ("nn.DiceLoss()", [(3, 4), UNIT], False),
    ("nn.MultiClassDiceLoss()", [(3, 4), UNIT], False),
    ("nn.FocalLoss()", [(2, 5, 3), "ms.Tensor(np.array([[[1, 0, 2]], [[3, 4, 1]]], np.int32))"],
     False),
    ("nn.CosineEmbeddingLoss(0.2)",
     [(3, 4), (3, 4), "ms.Tensor(np.array([1, -1, 1], np.int32))"], False),
    ("nn.MarginRankingLoss(0.1)", [(3, 4), (3, 4), SIGNS], False),
    ("nn.HingeEmbeddingLoss()", [(3, 4), SIGNS], False),
    ("nn.MultiLabelSoftMarginLoss()", [(3, 4), UNIT], False),
    ("nn.MultiMarginLoss(2, 0.7)", [(3, 4), "ms.Tensor(np.array([1, 0, 3], np.int64))"], False),
    ("nn.TripletMarginWithDistanceLoss()", [(3, 4), (3, 4), (3, 4)], False),
]

LENGTHS = "ms.Tensor(np.array([5, 3], np.int32))"
RECURRENT: list[Case] = [
    ("nn.RNNCell(3, 4)", [(2, 3), (2, 4)], False),
    ("nn.GRUCell(3, 4, False)", [(2, 3), (2, 4)], False),
    ("nn.RNN(3, 4)", [(5, 2, 3)], False),
    ("nn.RNN(3, 4, nonlinearity='relu', batch_first=True)", [(2, 5, 3), (1, 2, 4)], False),
    ("nn.GRU(3, 4)", [(5, 2, 3), (1, 2, 4)], False),
    ("nn.GRU(3, 4, num_layers=2, bidirectional=True)", [(5, 2, 3), (4, 2, 4)], False),
    ("nn.GRU(3, 4, bidirectional=True)", [(5, 2, 3), (2, 2, 4), LENGTHS], False),
    ("nn.LSTM(3, 4)", [(5, 2, 3)], False),
    ("nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True)", [(2, 5, 3)], False),
]

MASK = "ms.Tensor(np.triu(np.ones((3, 3), bool), 1))"
ATTENTION: list[Case] = [
    ("nn.MultiheadAttention(8, 2)", [(3, 2, 8), (5, 2, 8), (5, 2, 8)], False),
    ("nn.MultiheadAttention(8, 2, kdim=4, vdim=6, batch_first=True)",
     [(2, 3, 8), (2, 5, 4), (2, 5, 6)], False),
    ("nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True)",
     [(3, 2, 8), (5, 2, 8), (5, 2, 8)], False),
    ("nn.TransformerEncoderLayer(8, 2, 16)", [(3, 2, 8), MASK], False),
    ("nn.TransformerEncoderLayer(8, 2, 16, norm_first=True, activation='gelu')",
     [(3, 2, 8)], False),
    ("nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)", [(2, 3, 8), (2, 5, 8)], False),
    ("nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)", [(3, 2, 8)], False),
    ("nn.Transformer(8, 2, 1, 1, 16)", [(5, 2, 8), (3, 2, 8)], False),
]

LABELS_2D = "ms.Tensor(np.array([[1, 0, 2], [2, 2, 1]], np.int32))"
POSITIVE = "ms.Tensor(np.random.RandomState(5).uniform(0.3, 6, (3, 4)).astype(np.float32))"
PLACED = ("ms.Tensor(np.array([[0, 1], [1, 2], [2, 0]], np.int32))",
          "ms.Tensor(np.array([1, 2, -3], np.float32))")
DRAWN = ("(ms.Tensor(np.array([4, 1, 0], np.int32)), ms.Tensor(np.full((3, 1), 0.4, np.float32)), "
         "ms.Tensor(np.array([0.2, 0.3, 0.5], np.float32)))")
CLASSES = "ms.Tensor(np.array([[1], [0], [5]], np.int32))"
MATHS: list[Case] = [
    ("nn.Moments()", [(3, 4)], False),
    ("nn.Moments((0, 2), True)", [(3, 4, 2)], False),
    ("nn.Moments(1, False)", [(3, 4)], False),
    ("nn.ReduceLogSumExp(1)", [(3, 4)], False),
    ("nn.ReduceLogSumExp((), True)", [(3, 4)], False),
    ("nn.LGamma()", [POSITIVE], False),
    ("nn.DiGamma()", [POSITIVE], False),
    ("nn.LBeta()", [POSITIVE, POSITIVE + " * 2"], False),
    ("nn.MatMul()", [(2, 3), (3, 4)], False),
    ("nn.MatMul(True, True)", [(2, 3, 4), (5, 3)], False),
    ("nn.MatMul(True)", [(3,), (3,)], False),
    ("nn.IGamma()", [POSITIVE, POSITIVE + " * 1.1"], False),
    ("nn.SparseTensorDenseMatmul()", [*PLACED, "(3, 4)", (4, 2)], False),
    ("nn.SparseTensorDenseMatmul(True, True)", [*PLACED, "(3, 4)", (2, 3)], False),
    ("nn.SampledSoftmaxLoss(3, 6, remove_accidental_hits=False, sampled_values=" + DRAWN + ")",
     [(6, 4), (6,), CLASSES, (3, 4)], False),
]

# What MindSpore 2.10 does not compute on a CPU, or not as it says.
MORE: list[Case] = [
    ("nn.LPPool1d(2.0, 3, 2)", [(2, 3, 7)], False),
    ("nn.ChannelShuffle(2)", [(1, 4, 2, 3)], False),
    ("nn.ConstantPad1d((1, 2), 0.5)", [(2, 3, 4)], False),
    ("nn.ConstantPad3d((1, 0, 0, 2, 1, 1), 0.5)", [(1, 2, 3, 4, 2)], False),
    ("nn.ReflectionPad3d((1, 0, 0, 2, 1, 1))", [(1, 2, 3, 4, 2)], False),
    ("nn.L1Regularizer(0.3)", [(3, 4)], False),
    ("nn.LSTMCell(3, 4)", [(2, 3), "(ms.Tensor(np.full((2, 4), 0.3, np.float32)), "
                           "ms.Tensor(np.full((2, 4), -0.2, np.float32)))"], False),
]

HERE_ONLY: list[Case] = [
    ("nn.MatrixDiag()", [(2, 3)], False),
    ("nn.MatrixDiagPart()", [(2, 3, 4)], False),
    ("nn.MatrixSetDiag()", [(2, 4, 3), (2, 3)], False),
    ("nn.MatInverse()", ["ms.Tensor(np.array([[4, 1, 0], [1, 3, 1], [0, 1, 5]], np.float32))"],
     False),
    ("nn.MatDet()", ["ms.Tensor(np.array([[4, 1, 0], [1, 3, 1], [0, 1, 5]], np.float32))"], False),
    ("nn.Unfold((1, 2, 3, 1), (1, 1, 2, 1), (1, 2, 1, 1), 'same')", [(2, 3, 5, 6)], False),
    ("nn.MultiFieldEmbeddingLookup(5, 2, 3)", [LABELS_2D, (2, 3), LABELS_2D], False),
    ("nn.MultiFieldEmbeddingLookup(5, 2, 3, operator='MAX', max_norm=0.7)",
     [LABELS_2D, (2, 3), LABELS_2D], False),
    ("nn.SampledSoftmaxLoss(3, 6, sampled_values=" + DRAWN + ", reduction='sum')",
     [(6, 4), (6,), CLASSES, (3, 4)], False),
    ("nn.MultilabelMarginLoss()", [(2, 4), "ms.Tensor(np.array([[1, 3, -1, 0], [2, -1, 0, 0]], "
                                          "np.int32))"], False),
    ("nn.SSIM(filter_size=3)", [(2, 3, 6, 5), (2, 3, 6, 5)], False),
    ("nn.MSSSIM(power_factors=(0.4, 0.6), filter_size=3)", [(2, 1, 8, 9), (2, 1, 8, 9)], False),
    ("nn.PSNR(2)", [(2, 3, 4, 5), (2, 3, 4, 5)], False),
]

ALL = (ACTIVATIONS + BASIC + CONVOLUTIONS + NORMALISATIONS + POOLINGS + LOSSES + RECURRENT
       + ATTENTION + MATHS + MORE + HERE_ONLY)
